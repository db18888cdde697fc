/* error.c - filling and prefixing error values. */
#include "base/error.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* Cut back to the last whole UTF-8 sequence: a message ends up in JSON. */
static void trim_partial_utf8(char *text)
{
    size_t len = strlen(text);
    size_t back = 0;
    while (back < 3 && back < len && ((unsigned char)text[len - 1 - back] & 0xC0) == 0x80)
        back++;
    if (back == len)
        return;
    unsigned char lead = (unsigned char)text[len - 1 - back];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (want > back + 1)
        text[len - 1 - back] = '\0';
}

bool error_set_va(struct error *err, enum error_code code, const char *format, va_list args)
{
    if (code == ERR_MEMORY)
        memory_note_failure(); /* also where the code is lost on the way up */
    if (!err)
        return false;
    err->code = code;
    int n = vsnprintf(err->message, sizeof err->message, format, args);
    if (n >= (int)sizeof err->message)
        trim_partial_utf8(err->message);
    return false;
}

void error_fill(struct error *err, enum error_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error_set_va(err, code, format, args);
    va_end(args);
}

void error_prepend(struct error *err, const char *format, ...)
{
    if (!err)
        return;
    char old[ERROR_MESSAGE_MAX];
    memcpy(old, err->message, sizeof old);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (n >= 0 && n < (int)sizeof err->message - 3) {
        size_t room = sizeof err->message - (size_t)n;
        int m = snprintf(err->message + n, room, ": %s", old);
        if (m >= (int)room)
            trim_partial_utf8(err->message);
    }
}
