/* jinja_ast.h - a parsed template. Everything lies in its arena. */
#ifndef MLXCEL_CHAT_JINJA_AST_H
#define MLXCEL_CHAT_JINJA_AST_H

#include "base/arena.h"
#include "chat/jinja.h"

enum jinja_node_kind {
    /* statements */
    NODE_TEXT,
    NODE_OUTPUT,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_WITH,
    NODE_BLOCK,
    NODE_DO,
    NODE_BREAK,
    NODE_CONTINUE,
    /* expressions */
    NODE_NAME,
    NODE_STRING,
    NODE_INTEGER,
    NODE_FLOAT,
    NODE_TRUE,
    NODE_FALSE,
    NODE_NONE,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,
    NODE_NOT,
    NODE_NEGATE,
    NODE_PLUS,
    NODE_AND,
    NODE_OR,
    NODE_BINARY,
    NODE_CONDITION,
    NODE_MEMBER,
    NODE_INDEX,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST,
    NODE_KEYWORD,
    NODE_SPREAD,
    NODE_SPREAD_KEYWORDS
};

enum jinja_operator {
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_FLOOR_DIVIDE,
    OP_MODULO,
    OP_POWER,
    OP_CONCAT,
    OP_EQUAL,
    OP_NOT_EQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OP_IN,
    OP_NOT_IN
};

struct jinja_node;

struct jinja_nodes {
    struct jinja_node **data;
    size_t n, capacity;
};

/* Which fields mean something depends on kind:
 *   TEXT, STRING      text
 *   NAME              symbol, text
 *   OUTPUT, DO        a
 *   IF                a condition, list then, other else
 *   FOR               a target, b iterable, c filter or NULL, list, other else,
 *                     flag recursive
 *   SET               a target, b value or NULL (then list is the body)
 *   MACRO             symbol, other parameters (NAME or KEYWORD), list body
 *   CALL_BLOCK        a CALL, other parameters, list body
 *   FILTER_BLOCK      a FILTER chain ending in a NULL operand, list body
 *   WITH              other KEYWORDs, list body;   BLOCK  list body
 *   CONDITION         a test, b then, c else or NULL
 *   MEMBER            a object, text name, flag: a method that stands before keys
 *   INDEX             a object, b index
 *   SLICE             a object, b start, c stop, d step (each may be NULL)
 *   CALL              a callee, list arguments
 *   FILTER            a operand, text name, list arguments
 *   TEST              a operand, text name, list arguments, flag negated
 *   KEYWORD           symbol, text name, a value;   SPREAD*  a
 *   DICT              list key, value, key, value... */
struct jinja_node {
    enum jinja_node_kind kind;
    enum jinja_operator op;
    bool flag;
    int32_t symbol;
    size_t pos;
    struct slice text;
    int64_t integer;
    double real;
    const void *constant; /* of a STRING or MEMBER: its text as a value, which a run that
                             watches must not show */
    const void *method;   /* of a FILTER, TEST, MEMBER or (as a global function) NAME: its
                             table row, or NULL */
    struct jinja_node *a, *b, *c, *d;
    struct jinja_nodes list, other;
};

struct jinja_spare;

struct jinja_template {
    struct arena arena;
    struct slice source; /* line ends normalized */
    struct slice original;
    struct jinja_nodes body;
    struct slice *symbols; /* names in use; a NAME's symbol indexes it */
    size_t n_symbols, symbols_capacity;
    int32_t loop_symbol, caller_symbol; /* -1: the template does not use it */
    struct jinja_spare *spare;          /* memory of runs that ended, for the next */
};

/* Memory that runs leave behind: fresh pages cost more than most templates do.
 * Safe for several threads. */
struct jinja_spare *jinja_spare_create(void);
void jinja_spare_free(struct jinja_spare *spare);

/* The symbol of a name, or -1. */
int32_t jinja_symbol(const struct jinja_template *t, const char *name);

/* How an error message calls the node. */
const char *jinja_node_name(const struct jinja_node *node);

#endif
