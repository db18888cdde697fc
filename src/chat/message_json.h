/* message_json.h - arguments as models write them, to JSON text. */
#ifndef MLXCEL_CHAT_MESSAGE_JSON_H
#define MLXCEL_CHAT_MESSAGE_JSON_H

#include "base/str.h"
#include "chat/peg.h"

/* text as the inside of a JSON string; what is no UTF-8 becomes U+FFFD. */
void message_json_escape(struct str *out, struct slice text);
/* Python literals to JSON; JSON stays as it is. A text cut anywhere gives the
 * start of what the whole gives. */
void message_json_from_python(struct str *out, struct slice text);
/* How many braces are open, those in strings not counted. */
int message_json_depth(struct slice text);
/* The tree of a value in Gemma's notation. */
void message_json_from_gemma(struct str *out, const struct peg_node *node);
/* The members (object) or items of a node that has them in tags. */
void message_json_from_tags(struct str *out, const struct peg_node *node, bool object, bool closed);

#endif
