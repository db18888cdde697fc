/* A false claim is found, whatever is false about it. */
#include "unit/unit.h"

#include "api/api.h"
#include "cmd/manifest.h"
#include "options/options.h"

#include <unistd.h>

struct fixture {
    struct manifest manifest;
    json_t *surface, *tests;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct error err = {0};
    *state = f;
    f->surface = options_surface();
    json_t *live = api_surface();
    json_object_update(f->surface, live);
    json_decref(live);
    f->tests = manifest_tests(MLXCEL_BUILD, &err);
    if (f->tests && manifest_load(MLXCEL_SOURCE "/" MANIFEST_FOLDER, &f->manifest, &err))
        return 0;
    fprintf(stderr, "%s\n", err.message);
    return -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    manifest_free(&f->manifest);
    json_decref(f->surface);
    json_decref(f->tests);
    free(f);
    return 0;
}

static json_t *entry(struct fixture *f, const char *id)
{
    size_t i;
    json_t *item;
    json_array_foreach(
        f->manifest.entries, i,
        item) if (!strcmp(json_string_value(json_object_get(item, "id")), id)) return item;
    fail_msg("no entry %s", id);
    return NULL;
}

static json_t *live_option(struct fixture *f, const char *id)
{
    size_t i;
    json_t *item;
    json_array_foreach(
        json_object_get(f->surface, "options"), i,
        item) if (!strcmp(json_string_value(json_object_get(item, "id")), id)) return item;
    fail_msg("no option %s", id);
    return NULL;
}

static void finds(struct fixture *f, const char *part)
{
    struct str report = {0};
    size_t n = manifest_check(&f->manifest, f->surface, f->tests, &report);
    if (n == 0 || !strstr(str_text(&report), part))
        fail_msg("'%s' is not found; found is: %s", part, str_text(&report));
    str_free(&report);
}

static void the_claims_as_they_are_hold(void **state)
{
    struct fixture *f = *state;
    struct str report = {0};
    if (manifest_check(&f->manifest, f->surface, f->tests, &report) != 0)
        fail_msg("%s", str_text(&report));
    str_free(&report);
}

static void set_text(json_t *object, const char *key, const char *value)
{
    json_object_set_new(object, key, value ? json_string(value) : json_null());
}

static void a_changed_default_is_found(void **state)
{
    set_text(entry(*state, "--batch-size"), "default", "4096");
    finds(*state, "--batch-size: default differs: the program has \"2048\"");
}

static void a_changed_default_in_the_program_is_found(void **state)
{
    set_text(live_option(*state, "--batch-size"), "default", "4096");
    finds(*state, "--batch-size: default differs");
}

static void a_changed_spelling_is_found(void **state)
{
    json_array_set_new(json_object_get(entry(*state, "--threads"), "spellings"), 1,
                       json_string("--treads"));
    finds(*state, "--threads: spellings differs");
}

static void a_lost_spelling_changes_the_count(void **state)
{
    json_array_remove(json_object_get(entry(*state, "--threads"), "spellings"), 1);
    finds(*state, "long_option_spellings is 323, but 322 are claimed");
}

static void a_test_that_does_not_exist_is_found(void **state)
{
    set_text(entry(*state, "--threads"), "test", "unit.options.prase");
    finds(*state, "--threads: there is no test 'unit.options.prase'");
}

static void a_disabled_test_is_found(void **state)
{
    struct fixture *f = *state;
    json_object_set_new(f->tests, "unit.options.parse", json_false());
    finds(f, "the test 'unit.options.parse' is disabled");
}

static void an_entry_without_test_is_found(void **state)
{
    json_object_del(entry(*state, "--threads"), "test");
    finds(*state, "--threads: no test is named");
}

static void an_overstated_state_is_found(void **state)
{
    set_text(entry(*state, "--lora"), "state", "served");
    finds(*state, "--lora: state differs: the program has \"deferred\"");
}

static void an_unknown_state_is_found(void **state)
{
    set_text(entry(*state, "GET /health"), "state", "mostly");
    finds(*state, "GET /health: state 'mostly' is unknown");
}

static void an_id_that_stands_twice_is_found(void **state)
{
    struct fixture *f = *state;
    json_array_append_new(f->manifest.entries, json_deep_copy(entry(f, "GET /health")));
    finds(f, "GET /health: this id stands twice");
}

static void a_missing_entry_is_found(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < json_array_size(f->manifest.entries); i++)
        if (json_array_get(f->manifest.entries, i) == entry(f, "--threads")) {
            json_array_remove(f->manifest.entries, i);
            break;
        }
    finds(f, "--threads: the program has this option, nothing is claimed of it");
    finds(f, "help_entries is 249, but 248 are claimed");
}

static void an_option_nobody_claims_is_found(void **state)
{
    struct fixture *f = *state;
    json_t *option = json_deep_copy(live_option(f, "--dump-surface"));
    set_text(option, "id", "--secret");
    json_array_append_new(json_object_get(f->surface, "options"), option);
    finds(f, "--secret: pin.json does not list it");
}

static void a_route_or_field_nobody_claims_is_found(void **state)
{
    struct fixture *f = *state;
    json_array_append_new(json_object_get(f->surface, "routes"),
                          json_pack("{s:s, s:s}", "method", "GET", "path", "/hidden"));
    json_array_append_new(json_object_get(f->surface, "fields"),
                          json_pack("{s:s, s:[]}", "name", "hidden", "aliases"));
    finds(f, "GET /hidden: the program has this route");
    finds(f, "hidden: the program reads this field");
}

static void a_route_or_field_that_went_away_is_found(void **state)
{
    struct fixture *f = *state;
    json_object_set_new(f->surface, "routes", json_array());
    json_object_set_new(f->surface, "fields", json_array());
    finds(f, "POST /completion: the program has no such route");
    finds(f, "field top_k: the program reads no such field");
    finds(f, "field max_tokens: the program knows no such alias of 'n_predict'");
}

static void each_state_owes_its_own(void **state)
{
    struct fixture *f = *state;
    json_object_del(entry(f, "--mlock"), "translation");
    finds(f, "--mlock: a aliased owes \"translation\"");
}

static void what_is_not_applicable_owes_inert_values_and_a_refusal(void **state)
{
    json_t *e = entry(*state, "--device");
    json_object_del(e, "inert");
    json_object_del(e, "refusal");
    finds(*state, "--device: a not_applicable owes \"inert\"");
    finds(*state, "--device: a not_applicable owes \"refusal\"");
}

static void a_changed_inert_value_is_found(void **state)
{
    json_array_append_new(json_object_get(entry(*state, "--device"), "inert"),
                          json_string("CUDA0"));
    finds(*state, "--device: inert differs: the program accepts 'none'");
}

static void what_is_deferred_owes_a_plan(void **state)
{
    json_object_del(entry(*state, "--lora"), "plan");
    finds(*state, "--lora: a deferred owes \"plan\"");
}

static void what_differs_by_design_owes_its_reason(void **state)
{
    json_t *e = entry(*state, "GET /health");
    set_text(e, "state", "by_design");
    finds(*state, "GET /health: a by_design owes \"rationale\"");
    json_object_set_new(e, "rationale",
                        json_pack("{s:s, s:s}", "kind", "whim", "reason", "because"));
    finds(*state, "rationale.kind is neither architecture nor policy");
    finds(*state, "rationale owes a reason and revisit_if");
}

static void a_changed_pin_is_found(void **state)
{
    struct fixture *f = *state;
    json_object_set_new(json_object_get(f->manifest.pin, "counts"), "routes", json_integer(99));
    finds(f, "routes is 99");
    json_array_clear(json_object_get(f->manifest.pin, "own_options"));
    finds(f, "--dump-surface: pin.json does not list it among our own options");
}

static void the_document_is_current(void **state)
{
    struct fixture *f = *state;
    struct str text = {0}, file = {0};
    assert_true(manifest_markdown(&f->manifest, &text));
    FILE *document = fopen(MLXCEL_SOURCE "/docs/compatibility.md", "rb");
    assert_non_null(document);
    char chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, document)) > 0)
        str_append(&file, chunk, n);
    fclose(document);
    if (!slice_equal(str_slice(&text), str_slice(&file)))
        fail_msg("docs/compatibility.md is not current; run: mlxcel manifest --markdown");
    str_free(&text);
    str_free(&file);
}

static void every_entry_is_classified(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;
    for (size_t s = 0; manifest_state(s); s++)
        n += manifest_count(&f->manifest, NULL, manifest_state(s));
    assert_int_equal(n, json_array_size(f->manifest.entries));
}

static void a_broken_shard_is_refused_by_name(void **state)
{
    (void)state;
    char folder[] = "/tmp/mlxcel-manifest-XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    struct manifest m;
    struct error err = {0};
    assert_false(manifest_load(folder, &m, &err));
    assert_non_null(strstr(err.message, "pin.json"));
    manifest_free(&m);
    static const char *const texts[] = {"{", "{}", "{\"entries\": [1]}"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/pin.json", folder);
        FILE *file = fopen(path, "w");
        fputs("{}", file);
        fclose(file);
        snprintf(path, sizeof path, "%s/a.json", folder);
        file = fopen(path, "w");
        fputs(texts[i], file);
        fclose(file);
        assert_false(manifest_load(folder, &m, &err));
        assert_non_null(strstr(err.message, "a.json"));
        manifest_free(&m);
    }
    unlink(path);
    snprintf(path, sizeof path, "%s/pin.json", folder);
    unlink(path);
    rmdir(folder);
}

#define WITH_CLAIMS(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CLAIMS(the_claims_as_they_are_hold),
        WITH_CLAIMS(a_changed_default_is_found),
        WITH_CLAIMS(a_changed_default_in_the_program_is_found),
        WITH_CLAIMS(a_changed_spelling_is_found),
        WITH_CLAIMS(a_lost_spelling_changes_the_count),
        WITH_CLAIMS(a_test_that_does_not_exist_is_found),
        WITH_CLAIMS(a_disabled_test_is_found),
        WITH_CLAIMS(an_entry_without_test_is_found),
        WITH_CLAIMS(an_overstated_state_is_found),
        WITH_CLAIMS(an_unknown_state_is_found),
        WITH_CLAIMS(an_id_that_stands_twice_is_found),
        WITH_CLAIMS(a_missing_entry_is_found),
        WITH_CLAIMS(an_option_nobody_claims_is_found),
        WITH_CLAIMS(a_route_or_field_nobody_claims_is_found),
        WITH_CLAIMS(a_route_or_field_that_went_away_is_found),
        WITH_CLAIMS(each_state_owes_its_own),
        WITH_CLAIMS(what_is_not_applicable_owes_inert_values_and_a_refusal),
        WITH_CLAIMS(a_changed_inert_value_is_found),
        WITH_CLAIMS(what_is_deferred_owes_a_plan),
        WITH_CLAIMS(what_differs_by_design_owes_its_reason),
        WITH_CLAIMS(a_changed_pin_is_found),
        WITH_CLAIMS(the_document_is_current),
        WITH_CLAIMS(every_entry_is_classified),
        cmocka_unit_test(a_broken_shard_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
