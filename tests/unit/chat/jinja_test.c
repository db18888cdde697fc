/* The template language: what Jinja2 says of an expression, and its limits. */
#include "chat/jinja.h"
#include "unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct example {
    const char *source, *expected;
};

static const char variables[] =
    "{\"n\":7,\"f\":2.5,\"s\":\"Hello\",\"u\":\"héllo wörld\",\"t\":true,\"none\":null,"
    "\"list\":[3,1,2],\"words\":[\"b\",\"A\",\"c\"],\"d\":{\"b\":1,\"a\":\"x\",\"items\":2},"
    "\"people\":[{\"name\":\"Ann\",\"age\":30},{\"name\":\"Bob\",\"age\":25},{\"name\":\"Cid\"}],"
    "\"nested\":[1,[2.0,null,true],{\"k\":\"it's\"}]}";

static struct jinja_run *start(struct jinja_template *t, const struct jinja_limits *limits)
{
    json_t *values = json_parse(slice_of(variables), NULL), *value;
    const char *key;
    struct jinja_run *run = jinja_run_create(t, 1768478400, false, limits, NULL);
    assert_non_null(run);
    json_object_foreach(values, key, value)
    {
        assert_true(jinja_set(run, key, jinja_from_json(run, value, false)));
    }
    json_decref(values);
    return run;
}

/* The rendering, or "error: ..."; static memory. */
static const char *rendered(const char *source, const struct jinja_limits *limits)
{
    static char out[4096];
    struct jinja_template *t;
    struct jinja_output text = {0};
    struct error err = {0};
    if (!jinja_parse(slice_of(source), &t, &err)) {
        snprintf(out, sizeof out, "error: %s", err.message);
        return out;
    }
    struct jinja_run *run = start(t, limits);
    if (jinja_render(run, &text, &err))
        snprintf(out, sizeof out, "%s", str_text(&text.text));
    else
        snprintf(out, sizeof out, "error: %s", err.message);
    jinja_output_free(&text);
    jinja_run_free(run);
    jinja_template_free(t);
    return out;
}

static void check(const struct example *examples, size_t n)
{
    int failed = 0;
    for (size_t i = 0; i < n; i++) {
        const char *got = rendered(examples[i].source, NULL);
        if (strcmp(got, examples[i].expected) == 0)
            continue;
        print_error("%s\n  expected %s\n  got      %s\n", examples[i].source, examples[i].expected,
                    got);
        failed++;
    }
    assert_int_equal(failed, 0);
}

#define CHECK(...)                                                                                 \
    do {                                                                                           \
        static const struct example examples[] = {__VA_ARGS__};                                    \
        check(examples, sizeof examples / sizeof *examples);                                       \
    } while (0)

static void numbers_compute_as_in_python(void **state)
{
    (void)state;
    CHECK(
        {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 6 / 2 }}", "3 -4 2 3.5 3.0"},
        {"{{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 == 1.4142135623730951 }}", "1024 0.5 True"},
        {"{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -n }} {{ +f }}", "3 9 -7 2.5"},
        {"{{ 1e3 }} {{ 1.5e-7 }} {{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e100 }}",
         "1000.0 1.5e-07 0.30000000000000004 1e+16 1e+100"},
        {"{{ 1 == 1.0 }} {{ true == 1 }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }}", "True True True False"},
        {"{{ 9223372036854775807 + 1 }}",
         "error: \n------------\nWhile executing BinaryExpression at line 1, column 24 in "
         "source:\n...{{ 9223372036854775807 + 1 }}...\n                          ^\nError: the "
         "result does not fit in 64 bits"},
        {"{{ '3'|int + '2.9'|int + 'x'|int(5) }} {{ '2.5'|float }} {{ 'ff'|int(0, 16) }}",
         "10 2.5 255"},
        {"{{ 2.567|round(2) }} {{ 2.1|round(0, 'ceil') }} {{ -5|abs }}", "2.57 3.0 5"});
}

static void truth_and_choice_are_pythons(void **state)
{
    (void)state;
    CHECK({"{{ 'a' if 0 else 'b' }}{{ 'a' if '' else 'b' }}{{ 'a' if [] else 'b' }}"
           "{{ 'a' if {} else 'b' }}{{ 'a' if none else 'b' }}{{ 'a' if missing else 'b' }}"
           "{{ 'a' if 0.0 else 'b' }}{{ 'a' if ' ' else 'b' }}",
           "bbbbbbba"},
          {"{{ 0 or 'x' }} {{ 'y' and 'z' }} {{ not 1 }} {{ none or false }}", "x z False False"},
          {"{{ 'no else' if false }}|{{ missing }}|{{ missing.deeper }}", "||"},
          {"{{ missing is defined }} {{ n is defined }} {{ none is none }} {{ missing is undefined "
           "}}",
           "False True True True"},
          {"{{ missing|default('d') }} {{ ''|default('e', true) }} {{ 0|default(1) }}", "d e 0"});
}

static void strings_act_as_in_python(void **state)
{
    (void)state;
    CHECK(
        {"{{ u|length }} {{ u[1] }} {{ u[-5:] }} {{ u[::-1] }} {{ u[1:8:3] }}",
         "11 é wörld dlröw olléh éoö"},
        {"{{ u|upper }} {{ u|title }} {{ u|capitalize }}", "HÉLLO WÖRLD Héllo Wörld Héllo wörld"},
        {"{{ '  a b '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a'.lstrip() }}|{{ 'a '.rstrip() }}",
         "a b|a|a|a"},
        {"{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a-b-c'.rsplit('-', 1) }}",
         "abc ab a-bc"},
        {"{{ 'a,b,,c'.split(',')|tojson }} {{ 'a b c'.split(' ', 1)|tojson }}",
         "[\"a\", \"b\", \"\", \"c\"] [\"a\", \"b c\"]"},
        {"{{ 'abcabc'.replace('b', 'X') }} {{ 'abcabc'|replace('b', 'X', 1) }} {{ 'ab'|replace('', "
         "'-') }}",
         "aXcaXc aXcabc -a-b-"},
        {"{{ s.startswith('He') }} {{ s.endswith('x') }} {{ 'ell' in s }} {{ 'z' not in s }}",
         "True False True True"},
        {"{{ '%s is %d or %.2f, %r' % ('x', 3, 1.5, \"it's\") }}", "x is 3 or 1.50, \"it's\""},
        {"{{ '{} {} {x}'.format(1, 'b', x=none) }} {{ '%05.1f|%-4s|%4s'|format(2.25, 'a', 'b') }}",
         "1 b None 002.2|a   |   b"},
        {"{{ 'a' ~ 1 ~ true ~ 2.0 ~ [1, 'x'] }} {{ 'ab' * 3 }}", "a1True2.0[1, 'x'] ababab"},
        {"{{ '\\x41\\u00e9\\n\\'' }}", "Aé\n'"},
        {"{{ 'a\\nb\\n\\nc'|indent(2) }}|{{ 'a\\nb'|indent(1, true) }}", "a\n  b\n\n  c| a\n b"},
        {"{{ 'abc'|center(7) }}|{{ 'one two'|wordcount }}|{{ '<a>'|e }}", "  abc  |2|&lt;a&gt;"},
        {"{{ 'long text here'|truncate(9, true, '...', 0) }} {{ 'aXbX'.find('X') }} {{ "
         "'aXbX'.rfind('X') }}",
         "long t... 1 3"},
        {"{{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ 'AB'.isupper() }} {{ ','.join(['a', 'b']) "
         "}}",
         "True True True a,b"});
}

static void repr_and_json_look_as_pythons(void **state)
{
    (void)state;
    CHECK({"{{ nested|string }}", "[1, [2.0, None, True], {'k': \"it's\"}]"},
          {"{{ nested|tojson }}", "[1, [2.0, null, true], {\"k\": \"it's\"}]"},
          {"{{ d|tojson(indent=2) }}", "{\n  \"b\": 1,\n  \"a\": \"x\",\n  \"items\": 2\n}"},
          {"{{ d|tojson(separators=(',', ':')) }} {{ u|tojson(ensure_ascii=true) }} {{ u|tojson }}",
           "{\"b\":1,\"a\":\"x\",\"items\":2} \"h\\u00e9llo w\\u00f6rld\" \"héllo wörld\""},
          {"{{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }} {{ []|tojson(indent=1) }}",
           "{\"a\": 2, \"b\": 1} []"},
          {"{{ '\"\\\\\\n\\t<'|tojson }} {{ (1,)|string }} {{ (1, 2)|string }}",
           "\"\\\"\\\\\\n\\t<\" (1,) (1, 2)"});
}

static void lists_and_mappings_act_as_in_python(void **state)
{
    (void)state;
    CHECK({"{{ list[0] }} {{ list[-1] }} {{ list[1:] |tojson }} {{ list[::-1]|tojson }} {{ list[5] "
           "is defined }}",
           "3 2 [1, 2] [2, 1, 3] False"},
          {"{{ d.items()|list|length }} {{ d['items'] }} {{ d.a }} {{ d.get('z', 9) }} {{ d.z is "
           "defined }}",
           "3 2 x 9 False"},
          {"{{ d.keys()|list|tojson }} {{ d.values()|list|tojson }} {{ 'a' in d }}",
           "[\"b\", \"a\", \"items\"] [1, \"x\", 2] True"},
          {"{{ [1] + [2, 3] }} {{ [1, 2] == [1, 2] }} {{ 2 in [1, 2.0] }} {{ [0] * 2 }}",
           "123 True True 00"},
          {"{% set l = [] %}{{ l.append(1) or '' }}{% do l.extend([2, 3]) %}{% do l.insert(0, 9) %}"
           "{{ l|tojson }} {{ l.pop() }} {{ l.index(1) }} {{ l.count(9) }}",
           "[9, 1, 2, 3] 3 1 1"},
          {"{% set m = {'x': 1} %}{% do m.update({'y': 2}) %}{{ m|tojson }} {{ m.pop('x') }} {{ "
           "m|length }}",
           "{\"x\": 1, \"y\": 2} 1 1"},
          {"{{ dict(a=1, b='c')|tojson }} {{ {1: 'one', 'k': none}|string }}",
           "{\"a\": 1, \"b\": \"c\"} {1: 'one', 'k': None}"});
}

static void filters_that_work_on_lists_do(void **state)
{
    (void)state;
    CHECK(
        {"{{ list|sort|tojson }} {{ list|sort(reverse=true)|tojson }} {{ words|sort|join }}",
         "[1, 2, 3] [3, 2, 1] Abc"},
        {"{{ people|map(attribute='name')|join(', ') }} {{ words|map('upper')|join }} "
         "{{ people|map(attribute='age', default=0)|list|tojson }}",
         "Ann, Bob, Cid BAC [30, 25, 0]"},
        {"{{ people|selectattr('age')|list|length }} {{ people|selectattr('age', 'gt', "
         "26)|map(attribute='name')|first }} "
         "{{ people|rejectattr('age', 'defined')|map(attribute='name')|join }}",
         "2 Ann Cid"},
        {"{{ [1, 2, 3, 4]|select('even')|list|tojson }} {{ [0, 1, '']|reject|list|tojson }}",
         "[2, 4] [0, \"\"]"},
        {"{{ list|first }} {{ list|last }} {{ list|min }} {{ list|max }} {{ list|sum }} {{ "
         "[]|first is defined }}",
         "3 2 1 3 6 False"},
        {"{{ [1, 2, 1, 3]|unique|list|tojson }} {{ list|reverse|list|tojson }} {{ 'abc'|reverse }}",
         "[1, 2, 3] [2, 1, 3] cba"},
        {"{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}", "a=x;b=1;items=2;"},
        {"{% for row in [1, 2, 3]|batch(2, '-') %}{{ row|join('+') }};{% endfor %}", "1+2;3+-;"},
        {"{% for age, group in [{'a': 1}, {'a': 2}, {'a': 1}]|groupby('a') %}{{ age }}:{{ "
         "group|length }} {% endfor %}",
         "1:2 2:1 "});
}

static void statements_do_what_they_say(void **state)
{
    (void)state;
    CHECK({"{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.first "
           "}}{{ loop.last }} {% endfor %}",
           "103TrueFalse 212FalseFalse 321FalseTrue "},
          {"{% for x in list if x > 1 %}{{ x }}{{ loop.length }}{{ loop.previtem }};{% else "
           "%}none{% endfor %}",
           "32;223;"},
          {"{% for x in [] %}x{% else %}empty{% endfor %}{% for x in missing %}x{% endfor %}",
           "empty"},
          {"{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% "
           "break %}{% endif %}{{ x }}{% endfor %}",
           "0134"},
          {"{% for k in d %}{{ k }}{% endfor %} {% for k, v in d.items() %}{{ k }}{{ v }}{% endfor "
           "%}",
           "baitems b1axitems2"},
          {"{% set ns = namespace(n=0) %}{% for x in list %}{% set ns.n = ns.n + x %}{% endfor "
           "%}{{ ns.n }}",
           "6"},
          {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}", "1"},
          {"{% set a, b = 1, (2, 3) %}{{ a }}{{ b[1] }}{% set c %}text {{ a }}{% endset %}{{ c }}",
           "13text 1"},
          {"{% macro f(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}{{ "
           "f(b=3, a=4) }}",
           "[1x][12][43]"},
          {"{% macro r(n) %}{{ n }}{% if n %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
           "3210"},
          {"{% macro box(t) %}<{{ t }}{{ caller(2) }}>{% endmacro %}{% call(x) box('a') %}c{{ x "
           "}}{% endcall %}",
           "<ac2>"},
          {"{% filter upper|trim %} ab {% endfilter %}|{% with y = 5, z = 6 %}{{ y }}{{ z }}{% "
           "endwith %}|{{ y is defined }}",
           "AB|56|False"},
          {"{% raw %}{{ not }}{% endraw %}{# comment #}{% generation %}g{% endgeneration %}",
           "{{ not }}g"},
          {"{% for x in [1, [2, 3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ "
           "x }}{% endif %}{% endfor %}",
           "1(23)"},
          {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current "
           "}}{% set j = joiner(';') %}{{ j() }}1{{ j() }}2",
           "abab1;2"},
          {"{% for x in [1, 1, 2] %}{{ loop.cycle('o', 'e') }}{{ loop.changed(x) }} {% endfor %}",
           "oTrue eFalse oTrue "},
          {"{{ strftime_now('%Y-%m-%d %H:%M') }}", "2026-01-15 12:00"});
}

static void blanks_go_where_the_tags_say(void **state)
{
    (void)state;
    CHECK({"a\n  {% if true %}\nb\n  {% endif %}\nc", "a\nb\nc"},
          {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
          {"a {{- 'b' -}} c {{ 'd' }}\ne", "abc d\ne"}, {"  {# gone #}\nx", "x"},
          {"a\n  {{ 1 }}\nb", "a\n  1\nb"}, {"x\n", "x"}, {"a\r\nb", "a\nb"},
          {"{%+ if true %}\n  {%+ if true +%} a{% endif %}{% endif %}", "   a"});
}

static void mistakes_name_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *source, *part;
    } mistakes[] = {
        {"a\n{{ raise_exception('no ' ~ n) }}", "line 2, column 19"},
        {"a\n{{ raise_exception('no ' ~ n) }}", "Error: Jinja Exception: no 7"},
        {"{% if true %}", "the template ends before 'elif'"},
        {"{{ 1 + }}", "expected an expression"},
        {"{% frobnicate %}", "Unknown statement: frobnicate"},
        {"{{ 'abc }}", "this string has no end"},
        {"{# never", "this comment has no end"},
        {"{{ n|nonsense }}", "Unknown (built-in) filter 'nonsense' for type Integer"},
        {"{{ n is nonsense }}", "Unknown test 'nonsense'"},
        {"{{ n() }}", "Callee is not a function: got Integer"},
        {"{{ 1 // 0 }}", "by zero"},
        {"{{ none + 1 }}", "Cannot perform operation on null values"},
        {"{{ missing - 1 }}", "Cannot perform operation - on undefined values"},
        {"{% for x in 5 %}{% endfor %}",
         "Expected iterable or object type in for loop: got Integer"},
        {"{% set a, b = [1] %}", "Too few items to unpack"},
        {"{% break %}", "outside of a loop"},
        {"{{ range(3, 1, 0) }}", "must not be zero"},
        {"{{ {[]: 1} }}", "is not allowed as object key"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const char *got = rendered(mistakes[i].source, NULL);
        if (strncmp(got, "error: ", 7) != 0 || !strstr(got, mistakes[i].part))
            fail_msg("%s gave %s", mistakes[i].source, got);
    }
}

static void no_template_runs_away(void **state)
{
    (void)state;
    const struct jinja_limits limits = {.steps = 100000, .memory = 8 << 20, .depth = 200};
    static const struct {
        const char *source, *part;
    } greedy[] = {
        {"{% for a in range(100) %}{% for b in range(100) %}{% for c in range(100) %}x{% endfor %}"
         "{% endfor %}{% endfor %}",
         "too many steps"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "too deeply"},
        {"{{ ('x' * 1000) * 100000 }}", "memory"},
        {"{% set l = [1] %}{% for i in range(60) %}{% set l = l + l %}{{ l|length }}{% endfor %}",
         "m"},
        {"{% set l = [] %}{% do l.append(l) %}{{ l|string }}", "nested too deeply"},
        {"{{ range(100000000)|length }}", ""},
        {"{{ 'a'|center(1000000000) }}", ""},
    };
    for (size_t i = 0; i < sizeof greedy / sizeof *greedy; i++) {
        const char *got = rendered(greedy[i].source, &limits);
        if (strncmp(got, "error: ", 7) != 0 || !strstr(got, greedy[i].part))
            fail_msg("%s gave %.300s", greedy[i].source, got);
    }
    struct str deep = {0};
    str_append_text(&deep, "{{ ");
    for (int i = 0; i < 100000; i++)
        str_append_char(&deep, '(');
    str_append_text(&deep, " }}");
    assert_non_null(strstr(rendered(str_text(&deep), NULL), "nested too deeply"));
    str_free(&deep);
}

static void text_of_a_user_is_marked_through_every_change(void **state)
{
    (void)state;
    struct jinja_template *t;
    struct jinja_output out = {0};
    struct error err;
    assert_true(jinja_parse(
        SLICE("<s>{{ u|trim|upper }}</s>{{ 'x' ~ u[1:3] ~ 'y' }}{{ [u]|tojson }}{{ u|length }}"),
        &t, &err));
    struct jinja_run *run = jinja_run_create(t, 0, false, NULL, NULL);
    assert_true(jinja_set(run, "u", jinja_text(run, SLICE(" <s> "), true)));
    assert_true(jinja_render(run, &out, &err));
    assert_string_equal(str_text(&out.text), "<s><S></s>x<sy[\" <s> \"]5");
    assert_int_equal(out.n_spans, 3);
    static const struct jinja_span expected[] = {{3, 6}, {11, 13}, {16, 21}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(out.spans[i].begin, expected[i].begin);
        assert_int_equal(out.spans[i].end, expected[i].end);
    }
    jinja_output_free(&out);
    jinja_run_free(run);
    jinja_template_free(t);
}

/* Whether the bytes that came from the user, all of them 'u' and no others, are
 * the marked ones. */
static void assert_only_u_is_marked(const struct jinja_output *out)
{
    size_t span = 0;
    for (size_t i = 0; i < out->text.len; i++) {
        while (span < out->n_spans && out->spans[span].end <= i)
            span++;
        bool marked = span < out->n_spans && out->spans[span].begin <= i;
        assert_int_equal(marked, out->text.data[i] == 'u');
    }
}

static void a_text_that_grows_at_either_end_keeps_its_bytes_and_marks(void **state)
{
    (void)state;
    static const struct {
        const char *step, *expected; /* of what is added 200 times: its value at the end */
    } cases[] = {
        {"ns.t = ns.t ~ 'ab' ~ f()", "abcu"}, {"ns.t = 'ab' ~ f() ~ ns.t", "abcu"},
        {"ns.t = f() + ns.t + 'ab'", NULL},   {"ns.t = ns.t ~ u", "uuuu"},
        {"ns.t = 'x' ~ ns.t", "xxxx"},        {"ns.t = ns.t ~ ns.t[-3:] ~ 'xyu'[:2] ~ f()", NULL},
        {"ns.t = ns.t[1:] ~ f()", NULL},      {"ns.t = f() ~ ns.t[:-1] ~ u", NULL},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char source[512];
        /* f() puts a text of its own behind the one that grows; t0 must not change */
        snprintf(source, sizeof source,
                 "{%% macro f() %%}c{{ u }}{%% endmacro %%}{%% set ns = namespace(t='', t0='') %%}"
                 "{%% for i in range(200) %%}{%% set %s %%}{%% if i == 150 %%}"
                 "{%% set ns.t0 = ns.t ~ u %%}{%% set ns.kept = ns.t0 | list | join('') %%}"
                 "{%% endif %%}{%% endfor %%}{{ ns.t }}{{ ns.t0 == ns.kept }}",
                 cases[k].step);
        struct jinja_template *t;
        struct jinja_output out = {0};
        struct error err;
        assert_true(jinja_parse(slice_of(source), &t, &err));
        struct jinja_run *run = jinja_run_create(t, 0, false, NULL, NULL);
        assert_true(jinja_set(run, "u", jinja_text(run, SLICE("u"), true)));
        assert_true(jinja_render(run, &out, &err));
        assert_true(slice_ends_with(str_slice(&out.text), SLICE("True")));
        str_truncate(&out.text, out.text.len - 4);
        if (cases[k].expected)
            for (size_t i = 0; i < out.text.len; i++)
                assert_int_equal(out.text.data[i], cases[k].expected[i % 4]);
        assert_true(out.text.len >= 200);
        assert_only_u_is_marked(&out);
        jinja_output_free(&out);
        jinja_run_free(run);
        jinja_template_free(t);
    }
}

static void lists_that_share_their_items_do_not_see_each_other_change(void **state)
{
    (void)state;
    static const struct {
        const char *source, *expected;
    } cases[] = {
        {"{% set a = [1, 2, 3, 4] %}{% set b = a[:2] %}{% do b.append(9) %}{{ a }}{{ b }}",
         "1234129"},
        {"{% set a = [1, 2, 3] %}{% set b = a[:] %}{% do a.pop() %}{% do a.append(7) %}{{ a }}|{{ "
         "b }}",
         "127|123"},
        {"{% set a = [1, 2, 3] %}{% set b = a[1:] %}{% do a.insert(1, 8) %}{{ a }}|{{ b }}",
         "1823|23"},
        {"{% set a = [1, 2, 3] %}{% set b = a[:] %}{% do a.remove(1) %}{{ a }}|{{ b }}", "23|123"},
        {"{% set a = [3, 1, 2] %}{% set b = a[:] %}{% do a.sort() %}{{ a }}|{{ b }}", "123|312"},
        {"{% set a = [3, 1, 2] %}{% set b = a[:] %}{% do a.reverse() %}{{ a }}|{{ b }}", "213|312"},
        {"{% set a = [1, 2] %}{% set b = a[:] %}{% do a.clear() %}{% do a.append(5) %}{{ a }}|{{ b "
         "}}",
         "5|12"},
        {"{% set a = [1, 2, 3] %}{% for x in a %}{{ x }}{% do a.pop(0) %}{% do a.append(x + 5) %}"
         "{% endfor %}|{{ a }}",
         "123|678"},
        {"{% set a = [1, 2, 3] %}{% for x in a if x != 2 %}{{ x }}{% endfor %}|{{ a }}", "13|123"},
        {"{% set a = [1] %}{% set b = a + [2] %}{% set c = a + [3] %}{{ a }}|{{ b }}|{{ c }}",
         "1|12|13"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        assert_string_equal(rendered(cases[k].source, NULL), cases[k].expected);
}

/* Both renderings, with x = 1 and without, as two runs of their own make them. */
static void rendering_both_ways_at_once_is_rendering_twice(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        bool both; /* one run is enough */
    } cases[] = {
        {"a{{ u }}{% for i in [1, 2] %}{{ i }}{% endfor %}{% if x %}X{{ u }}{% endif %}{{ u }}",
         true},
        {"{{ u }}{% if x %}{{ u }}{% endif %}b", true},
        {"no name in it {{ u }}", true},
        {"{% set x = x if x is defined else 5 %}{{ x }}{{ u }}", true},
        {"{% set y = 1 %}{{ x }}{% set y = 2 %}{{ y }}", true},
        {"{% macro f() %}{{ x }}{% endmacro %}{{ u }}{{ f() }}", true},
        {"{% set ns = namespace(n=1) %}{% set ns.n = 2 %}{{ ns.n }}{% if x %}X{% endif %}", true},
        {"{% set ns = namespace(n=1) %}{% if x %}{% set ns.n = 2 %}{% endif %}{{ ns.n }}", false},
        {"{% set l = [1] %}{% if x %}{% do l.append(2) %}{% endif %}{{ l }}", false},
        {"{% set l = [1, 2] %}{% if x %}{% do l.pop() %}{% endif %}{{ l }}", false},
        {"{% set d = {} %}{% if x %}{% do d.update(a=1) %}{% endif %}{{ d | length }}", false},
        {"{% set c = cycler(1, 2) %}{{ c.next() }}{{ x }}{{ c.next() }}", false},
        {"{% set j = joiner() %}{{ x }}{{ j() }}a{{ j() }}b", false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct jinja_template *t;
        struct error err;
        struct jinja_output out[4] = {0};
        bool both = false;
        assert_true(jinja_parse(slice_of(cases[k].source), &t, &err));
        struct jinja_run *run = jinja_run_create(t, 0, false, NULL, NULL);
        assert_true(jinja_set(run, "u", jinja_text(run, SLICE("user"), true)));
        assert_true(
            jinja_render_both(run, "x", jinja_bool(run, true), &out[0], &out[1], &both, &err));
        jinja_run_free(run);
        assert_int_equal(both, cases[k].both);
        for (int i = 0; i < 2; i++) {
            run = jinja_run_create(t, 0, false, NULL, NULL);
            assert_true(jinja_set(run, "u", jinja_text(run, SLICE("user"), true)));
            assert_true(i || jinja_set(run, "x", jinja_bool(run, true)));
            assert_true(jinja_render(run, &out[2 + i], &err));
            jinja_run_free(run);
            if (i && !both)
                continue;
            assert_string_equal(str_text(&out[i].text), str_text(&out[2 + i].text));
            assert_int_equal(out[i].n_spans, out[2 + i].n_spans);
            for (size_t s = 0; s < out[i].n_spans; s++)
                assert_memory_equal(&out[i].spans[s], &out[2 + i].spans[s], sizeof out[i].spans[s]);
        }
        for (int i = 0; i < 4; i++)
            jinja_output_free(&out[i]);
        jinja_template_free(t);
    }
}

enum { N_THREADS = 4, N_RENDERINGS = 50 };

/* One thread's renderings of a template that all share; the texts are its own. */
static void *render_often(void *arg)
{
    struct jinja_template *t = arg;
    size_t wrong = 0;
    for (int i = 0; i < N_RENDERINGS; i++) {
        char word[16], expected[16];
        struct jinja_output out = {0};
        struct error err;
        snprintf(word, sizeof word, "w%d", i);
        snprintf(expected, sizeof expected, "w%d:600", i);
        struct jinja_run *run = jinja_run_create(t, 0, false, NULL, NULL);
        bool ok = run && jinja_set(run, "u", jinja_text(run, slice_of(word), true)) &&
                  jinja_render(run, &out, &err) && slice_equal_text(str_slice(&out.text), expected);
        wrong += !ok;
        jinja_output_free(&out);
        jinja_run_free(run);
    }
    return (void *)wrong;
}

static void threads_share_a_template_and_the_memory_it_keeps(void **state)
{
    (void)state;
    struct jinja_template *t;
    struct error err;
    pthread_t threads[N_THREADS];
    assert_true(
        jinja_parse(SLICE("{% set ns = namespace(t='', d={'u': u}) %}"
                          "{% for i in range(300) %}{% set ns.t = ns.t ~ 'ab' %}{% endfor %}"
                          "{{ ns.d.u }}:{{ ns.t | length }}"),
                    &t, &err));
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, render_often, t), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    jinja_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_compute_as_in_python),
        cmocka_unit_test(truth_and_choice_are_pythons),
        cmocka_unit_test(strings_act_as_in_python),
        cmocka_unit_test(repr_and_json_look_as_pythons),
        cmocka_unit_test(lists_and_mappings_act_as_in_python),
        cmocka_unit_test(filters_that_work_on_lists_do),
        cmocka_unit_test(statements_do_what_they_say),
        cmocka_unit_test(blanks_go_where_the_tags_say),
        cmocka_unit_test(mistakes_name_their_place),
        cmocka_unit_test(no_template_runs_away),
        cmocka_unit_test(text_of_a_user_is_marked_through_every_change),
        cmocka_unit_test(a_text_that_grows_at_either_end_keeps_its_bytes_and_marks),
        cmocka_unit_test(lists_that_share_their_items_do_not_see_each_other_change),
        cmocka_unit_test(rendering_both_ways_at_once_is_rendering_twice),
        cmocka_unit_test(threads_share_a_template_and_the_memory_it_keeps),
    };
    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
