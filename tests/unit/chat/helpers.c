/* helpers.c - what the chat tests share. */
#include "unit/chat/helpers.h"

const char *shared_template(char out[1024], const char *folder, const char *name)
{
    snprintf(out, 1024, "%s/templates/%s", folder, name);
    return out;
}

static struct chat_templates *load(struct slice source, const char *name)
{
    struct chat_template_settings settings = {.source = source,
                                              .bos = SLICE("<s>"),
                                              .eos = SLICE("</s>"),
                                              .add_bos = true,
                                              .use_jinja = true};
    struct chat_templates *templates = NULL;
    struct error err = {0};
    if (!chat_templates_load(&settings, &templates, &err))
        print_error("%s: %s\n", name, err.message);
    return templates;
}

struct chat_templates *load_template(const char *folder, const char *name)
{
    char path[1024];
    FILE *file = fopen(shared_template(path, folder, name), "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    size_t len = fread(text, 1, (size_t)size, file);
    fclose(file);
    struct chat_templates *templates = load((struct slice){text, len}, name);
    free(text);
    return templates;
}

struct chat_templates *load_source(const char *source)
{
    return load(slice_of(source), source);
}
