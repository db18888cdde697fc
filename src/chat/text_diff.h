/* text_diff.h - what two renderings share and where they differ. */
#ifndef MLXCEL_CHAT_TEXT_DIFF_H
#define MLXCEL_CHAT_TEXT_DIFF_H

#include "base/arena.h"
#include "base/slice.h"
#include "base/vec.h"

#include <stdint.h>

size_t chat_count(struct slice text, struct slice what);
/* What stands in text before the common start of a and b. */
struct slice chat_until_common_prefix(struct slice text, struct slice a, struct slice b);

struct text_piece {
    bool is_marker; /* <...> or [...] */
    struct slice text;
};

struct text_pieces {
    struct text_piece *data; /* owned */
    size_t n, capacity;
};

/* Markers and the texts between them; skip_blank leaves out pieces of blanks. */
bool chat_split_markers(struct slice text, bool skip_blank, struct text_pieces *out);

struct text_diff {
    struct slice prefix, suffix; /* shared */
    struct slice left, right;    /* what is the first's, the second's alone */
};

/* Prefix and suffix end at markers where they can: "<a><b>" and "<a><c>" share
 * "<a>", not "<a><". The slices lie in a, b or arena. False: out of memory. */
bool chat_text_diff(struct slice a, struct slice b, struct arena *arena, struct text_diff *out);

#endif
