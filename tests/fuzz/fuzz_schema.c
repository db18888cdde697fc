/* fuzz_schema.c - any JSON as a schema: refused, or a grammar that parses. */
#include "sample/sample.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    json_t *schema = json_parse((struct slice){(const char *)data, size}, &err);
    if (!schema)
        return 0;
    struct str text = {0};
    if (schema_to_grammar(schema, &text, &err)) {
        if (!grammar_check(NULL, str_slice(&text), &err))
            abort();
    } else if (err.code == ERR_NONE || !err.message[0]) {
        abort();
    }
    str_clear(&text);
    struct grammar_builder *b = grammar_builder_create(&err);
    if (b && grammar_builder_schema(b, "tool", schema, SCHEMA_LENIENT, &err))
        grammar_builder_text(b, &text, &err);
    grammar_builder_free(b);
    str_free(&text);
    json_decref(schema);
    return 0;
}
