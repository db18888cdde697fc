/* The table against itself, the defaults, and the reference's inventory. */
#include "unit/unit.h"

#include "options/table.h"

#include <math.h>

static void no_spelling_and_no_variable_stands_twice(void **state)
{
    (void)state;
    const struct option *a;
    for (size_t i = 0; (a = option_at(i)); i++) {
        const char *lists[] = {a->names, a->names_off};
        for (int l = 0; l < 2; l++) {
            struct slice word;
            for (const char *rest = lists[l]; next_word(&rest, &word);) {
                char name[96];
                bool on;
                snprintf(name, sizeof name, "%.*s", (int)word.len, word.data);
                assert_ptr_equal(option_find(name, &on), a);
                assert_int_equal(on, l == 0);
            }
        }
        const struct option *b;
        for (size_t j = i + 1; a->env && (b = option_at(j)); j++)
            assert_false(b->env && !strcmp(a->env, b->env));
    }
}

static void every_row_says_what_its_state_owes(void **state)
{
    (void)state;
    const struct option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        assert_non_null(o->help);
        assert_true(strlen(o->help) > 8);
        assert_int_equal(o->type == OPT_CUSTOM, o->apply != NULL);
        assert_int_equal(o->type == OPT_CHOICE, o->choices != NULL);
        if (o->type == OPT_REFUSED || o->type == OPT_REMOVED || o->type == OPT_EXPANDS ||
            o->state != STATE_SERVED)
            assert_non_null(o->note);
        if (o->type == OPT_REFUSED)
            assert_true(o->state == STATE_NOT_APPLICABLE || o->state == STATE_DEFERRED);
        if (o->state == STATE_NOT_APPLICABLE)
            assert_non_null(o->inert);
        if (o->type == OPT_EXPANDS)
            assert_int_equal(o->state, STATE_ALIASED);
        assert_ptr_equal(option_at(option_index(o)), o);
    }
}

/* "40, 0 = disabled" is 40; a default in words is not compared. */
static void the_defaults_shown_are_the_defaults_taken(void **state)
{
    (void)state;
    struct options defaults;
    assert_true(options_default(&defaults, NULL));
    const struct option *o;
    size_t compared = 0;
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (!o->fallback)
            continue;
        const void *field = (const char *)&defaults + o->field;
        char *end;
        double shown = strtod(o->fallback, &end);
        bool number = end != o->fallback;
        bool yes = !strncmp(o->fallback, "enabled", 7) || !strcmp(o->fallback, "true") ||
                   !strcmp(o->fallback, "prefill enabled");
        if (o->type == OPT_INT && number)
            assert_int_equal(*(const int32_t *)field, (int32_t)shown);
        else if (o->type == OPT_FLOAT && number)
            assert_true(fabs((double)*(const float *)field - shown) < 1e-6);
        else if (o->type == OPT_FLAG || o->type == OPT_SWITCH)
            assert_int_equal(*(const bool *)field, yes);
        else if (o->type == OPT_TRISTATE)
            assert_int_equal(*(const int *)field, OPTION_AUTO);
        else if (o->type == OPT_TEXT && *(const char *const *)field)
            assert_string_equal(*(const char *const *)field, o->fallback);
        else
            continue;
        compared++;
    }
    assert_true(compared > 60);
    options_free(&defaults);
}

static void the_pinned_release_is_covered_entry_by_entry(void **state)
{
    (void)state;
    json_t *inventory = json_parse_file(MLXCEL_SOURCE "/tests/conformance/inventory.json", NULL);
    assert_non_null(inventory);
    json_t *surface = options_surface();
    json_t *rows = json_object_get(surface, "options");
    size_t i, n_entries = 0, n_long = 0, n_env = 0, n_llama = 0;
    json_t *row, *wanted;
    json_array_foreach(rows, i, row)
    {
        if (json_is_true(json_object_get(row, "hidden")))
            continue;
        n_entries++;
        size_t s;
        json_t *spelling;
        json_array_foreach(json_object_get(row, "spellings"), s, spelling) n_long +=
            slice_starts_with(json_slice(spelling), SLICE("--"));
        struct slice env = json_slice(json_object_get(row, "env"));
        n_env += env.len > 0;
        n_llama += slice_starts_with(env, SLICE("LLAMA_"));
    }
    const json_t *counts = json_object_get(inventory, "pinned_counts");
#define COUNT(name) json_integer_value(json_object_get(counts, name))
    assert_int_equal(n_entries, COUNT("help_entries"));
    assert_int_equal(n_long, COUNT("long_option_spellings"));
    assert_int_equal(n_env, COUNT("environment_variables"));
    assert_int_equal(n_llama, COUNT("llama_environment_variables"));
    static const char *const same[] = {"section", "spellings", "value",
                                       "env",     "removed",   "deprecated"};
    json_array_foreach(json_object_get(inventory, "options"), i, wanted)
    {
        size_t j;
        json_t *found = NULL;
        json_array_foreach(rows, j, row) if (json_equal(json_object_get(row, "id"),
                                                        json_object_get(wanted, "id"))) found = row;
        const char *id = json_string_value(json_object_get(wanted, "id"));
        if (!found)
            fail_msg("%s is not in the table", id);
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) {
            if (!json_equal(json_object_get(found, same[k]), json_object_get(wanted, same[k])))
                fail_msg("%s: %s differs", id, same[k]);
        }
        const json_t *fallback = json_object_get(wanted, "default");
        if (!json_is_null(fallback))
            assert_string_equal(json_string_value(fallback),
                                json_string_value(json_object_get(found, "default")));
    }
    json_decref(surface);
    json_decref(inventory);
}

static void help_shows_every_option_once_and_wraps(void **state)
{
    (void)state;
    for (int width = 40; width <= 200; width += 40) {
        struct str out = {0};
        assert_true(options_help("mlxcel-server", width, &out));
        const struct option *o;
        for (size_t i = 0; (o = option_at(i)); i++) {
            char line[128];
            struct slice id = option_id(o);
            snprintf(line, sizeof line, "%.*s", (int)id.len, id.data);
            const char *own = strstr(str_text(&out), "----- options of mlxcel alone -----");
            assert_non_null(own);
            assert_non_null(strstr(o->hidden ? own : str_text(&out), line));
            if (o->env)
                assert_non_null(strstr(str_text(&out), o->env));
        }
        /* A line is longer than the width only where one word, or the names
         * of one option, leave no choice. */
        if (width >= 80)
            for (const char *line = str_text(&out); *line;) {
                size_t len = strcspn(line, "\n");
                size_t margin = strspn(line, " ");
                if (len > (size_t)width && margin && memchr(line + margin, ' ', len - margin))
                    fail_msg("%d: %.*s", width, (int)len, line);
                line += len + (line[len] == '\n');
            }
        assert_non_null(strstr(str_text(&out), "----- speculative params -----"));
        if (width >= 160)
            assert_non_null(strstr(str_text(&out), "(default: 40, 0 = disabled)"));
        str_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_spelling_and_no_variable_stands_twice),
        cmocka_unit_test(every_row_says_what_its_state_owes),
        cmocka_unit_test(the_defaults_shown_are_the_defaults_taken),
        cmocka_unit_test(the_pinned_release_is_covered_entry_by_entry),
        cmocka_unit_test(help_shows_every_option_once_and_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
