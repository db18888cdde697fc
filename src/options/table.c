/* table.c - finding rows of the table. */
#include "options/table.h"

#include <stdio.h>

static const struct option_rows *const sections[SECTION_COUNT] = {
    [SECTION_COMMON] = &options_common,
    [SECTION_SAMPLING] = &options_sampling,
    [SECTION_SPECULATIVE] = &options_speculative,
    [SECTION_SERVER] = &options_server,
};

const struct option *option_at(size_t i)
{
    for (size_t s = 0; s < SECTION_COUNT; s++) {
        if (i < sections[s]->n)
            return &sections[s]->rows[i];
        i -= sections[s]->n;
    }
    return NULL;
}

size_t option_count(void)
{
    size_t n = 0;
    for (size_t s = 0; s < SECTION_COUNT; s++)
        n += sections[s]->n;
    return n;
}

enum option_section option_section_of(size_t i)
{
    size_t s = 0;
    while (s + 1 < SECTION_COUNT && i >= sections[s]->n)
        i -= sections[s++]->n;
    return (enum option_section)s;
}

const char *option_section_title(enum option_section section)
{
    return sections[section]->title;
}

size_t option_index(const struct option *option)
{
    size_t before = 0;
    for (size_t s = 0; s < SECTION_COUNT; s++) {
        const struct option *rows = sections[s]->rows;
        if (option >= rows && option < rows + sections[s]->n)
            return before + (size_t)(option - rows);
        before += sections[s]->n;
    }
    return before;
}

bool next_word(const char **rest, struct slice *word)
{
    const char *p = *rest;
    if (!p)
        return false;
    p += strspn(p, " ");
    if (!*p)
        return false;
    size_t len = strcspn(p, " ");
    *word = (struct slice){p, len};
    *rest = p + len;
    return true;
}

struct slice option_id(const struct option *option)
{
    struct slice word = {0}, first = {0};
    const char *rest = option->names;
    while (next_word(&rest, &word)) {
        if (!first.data)
            first = word;
        if (slice_starts_with(word, SLICE("--")))
            return word;
    }
    return first;
}

static bool has_word(const char *words, struct slice wanted)
{
    struct slice word;
    while (next_word(&words, &word))
        if (slice_equal(word, wanted))
            return true;
    return false;
}

const struct option *option_find(const char *spelling, bool *on)
{
    char plain[128];
    size_t len = strlen(spelling);
    if (len == 0 || len >= sizeof plain)
        return NULL;
    memcpy(plain, spelling, len + 1);
    if (strncmp(plain, "--", 2) == 0)
        for (size_t i = 0; i < len; i++)
            if (plain[i] == '_')
                plain[i] = '-';
    struct slice wanted = {plain, len};
    const struct option *option;
    for (size_t i = 0; (option = option_at(i)); i++) {
        *on = true;
        if (has_word(option->names, wanted))
            return option;
        *on = false;
        if (has_word(option->names_off, wanted))
            return option;
    }
    return NULL;
}

bool option_negative_env(const struct option *option, char *out, size_t size)
{
    static const char prefix[] = "LLAMA_ARG_";
    if (!option->env || !option->names_off || strncmp(option->env, prefix, sizeof prefix - 1) != 0)
        return false;
    int n = snprintf(out, size, "LLAMA_ARG_NO_%s", option->env + sizeof prefix - 1);
    return n > 0 && (size_t)n < size;
}
