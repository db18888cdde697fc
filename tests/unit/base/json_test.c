/* json_test.c - the JSON door, beyond what the library does. */
#include "unit/unit.h"

#include "base/json.h"

#include <malloc.h>
#include <stdlib.h>

/* An integer of any length is a number, as other parsers have it. */
static void an_integer_too_big_for_64_bits_is_read_as_a_real(void **state)
{
    (void)state;
    struct error err;
    json_t *value = json_parse(SLICE("{\"n\": 1000000000000000019884624838656, \"m\": "
                                     "-99999999999999999999, \"s\": \"12345678901234567890\\\"1\","
                                     " \"r\": 0.12345678901234567890, \"i\": 7}"),
                               &err);
    assert_non_null(value);
    assert_true(json_real_value(json_object_get(value, "n")) == 1e30);
    assert_true(json_real_value(json_object_get(value, "m")) == -1e20);
    assert_string_equal(json_string_value(json_object_get(value, "s")), "12345678901234567890\"1");
    assert_true(json_real_value(json_object_get(value, "r")) == 0.1234567890123456789);
    assert_int_equal(json_integer_value(json_object_get(value, "i")), 7);
    json_decref(value);
}

/* ---- what a tree costs ------------------------------------------------------------ */

static size_t n_allocated, n_allocations;

static void *count_malloc(size_t size)
{
    void *memory = malloc(size);
    n_allocated += malloc_usable_size(memory) + sizeof(size_t);
    n_allocations++;
    return memory;
}

static void count_free(void *memory)
{
    if (memory)
        n_allocated -= malloc_usable_size(memory) + sizeof(size_t);
    free(memory);
}

/* Let the library's allocations be counted; a restart of the count. */
static void count_allocations(void)
{
    json_set_alloc_funcs(count_malloc, count_free);
    n_allocated = n_allocations = 0;
}

enum { N_PIECES = 100000 };

/* {"x":[piece,piece,...]} */
static void many(struct str *out, const char *before, const char *piece, const char *after)
{
    str_append_text(out, before);
    for (int i = 0; i < N_PIECES; i++) {
        str_append_text(out, i ? "," : "");
        str_append_format(out, piece, i);
    }
    str_append_text(out, after);
    assert_false(out->failed);
}

static const struct json_limits unlimited = {.total = {NULL, SIZE_MAX, SIZE_MAX},
                                             .other = {NULL, SIZE_MAX, SIZE_MAX}};

/* The costs by which bodies are refused are those of the library that is used. */
static void the_cost_of_a_tree_is_known_before_it_is_made(void **state)
{
    static const struct {
        const char *before, *piece, *after;
    } rows[] = {
        {"[", "{}", "]"},      {"[", "[]", "]"},         {"[", "%d", "]"},
        {"[", "%d.5", "]"},    {"[", "\"\"", "]"},       {"[", "\"text %d\"", "]"},
        {"[", "[%d]", "]"},    {"[", "{\"a\":%d}", "]"}, {"{", "\"key %d\":{}", "}"},
        {"[", "[[[1]]]", "]"}, {"[", "true", "]"},       {"[", "{\"role\":\"user\",\"n\":[]}", "]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str text = {0};
        struct error err;
        struct json_cost cost = {0};
        many(&text, rows[i].before, rows[i].piece, rows[i].after);
        assert_true(json_scan(str_slice(&text), &unlimited, &cost, &err));
        count_allocations();
        json_t *value = json_parse(str_slice(&text), &err);
        assert_non_null(value);
        size_t texts = text.len; /* no text takes more than it has bytes here */
        if (n_allocated > cost.bytes + texts || n_allocated < cost.bytes / 4)
            fail_msg("%s: %zu bytes allocated, %zu expected", rows[i].piece, n_allocated,
                     cost.bytes);
        json_decref(value);
        assert_int_equal(n_allocated, 0);
        str_free(&text);
    }
}

/* A body that is refused costs nothing: it is not even begun. */
static void what_passes_a_limit_is_refused_without_a_tree(void **state)
{
    static const struct json_budget fields[] = {{"long", 64 << 20, 1 << 20}, {"few", 64 << 20, 10}};
    static const struct json_limits limits = {.total = {NULL, 64 << 20, 1 << 20},
                                              .other = {NULL, 1 << 20, 1000},
                                              .fields = fields,
                                              .n_fields = 2};
    static const struct {
        const char *before, *piece, *after, *says; /* NULL: taken */
    } rows[] = {
        {"{\"a\":1,\"long\":[", "{}", "]}", NULL},
        {"{\"a\":1,\"long\":[1],\"x\":[", "%d", "]}", "Field 'x' holds too many values"},
        {"{\"few\":[", "%d", "]}", NULL},
        {"{\"few\":[", "[]", "]}", "at most 10 lists"},
        {"{\"l\\u006fng\":[", "{}", "]}", "at most 1000 lists"},
        {"{\"long\":{\"few\":[", "[]", "]}}", NULL},
        {"{\"n\\\"\":\"\\\\\",\"few\":[[", "[]", "]]}", "Field 'few'"},
        {"[", "[]", "]", "the JSON text holds"},
        {"", "[", "", "the JSON text holds"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct str text = {0};
        struct error err;
        struct json_cost cost = {0};
        many(&text, rows[i].before, rows[i].piece, rows[i].after);
        count_allocations();
        json_t *value = json_parse_within(str_slice(&text), &limits, &cost, &err);
        if (rows[i].says) {
            assert_null(value);
            assert_int_equal(err.code, ERR_LIMIT);
            assert_non_null(strstr(err.message, rows[i].says));
            assert_int_equal(n_allocations, 0);
        } else {
            assert_non_null(value);
        }
        json_decref(value);
        str_free(&text);
    }
}

/* Several texts share a total. */
static void costs_add_up_over_several_texts(void **state)
{
    static const struct json_limits limits = {.total = {NULL, 1 << 20, 3},
                                              .other = {NULL, 1 << 20, 3}};
    struct json_cost cost = {0};
    struct error err;
    (void)state;
    assert_true(json_scan(SLICE("[{}]"), &limits, &cost, &err));
    assert_true(json_scan(SLICE("[1,2]"), &limits, &cost, &err));
    assert_false(json_scan(SLICE("[]"), &limits, &cost, &err));
    assert_int_equal(err.code, ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_integer_too_big_for_64_bits_is_read_as_a_real),
        cmocka_unit_test(the_cost_of_a_tree_is_known_before_it_is_made),
        cmocka_unit_test(what_passes_a_limit_is_refused_without_a_tree),
        cmocka_unit_test(costs_add_up_over_several_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
