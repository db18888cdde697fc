/* helpers.h - what the chat tests share. */
#ifndef MLXCEL_TESTS_CHAT_HELPERS_H
#define MLXCEL_TESTS_CHAT_HELPERS_H

#include "unit/unit.h"

#include "chat/chat.h"

/* The path of a file among the shared templates. */
const char *shared_template(char out[1024], const char *folder, const char *name);
/* A template of the shared ones, with <s> and </s>; NULL when it fails, said. */
struct chat_templates *load_template(const char *folder, const char *name);
/* The same from source. */
struct chat_templates *load_source(const char *source);

#endif
