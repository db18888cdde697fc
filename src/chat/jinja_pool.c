/* jinja_pool.c - the memory of a run, by the block. */
#include "chat/jinja_value.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>

struct jinja_block {
    struct jinja_block *next;
    size_t size;
    alignas(max_align_t) char data[];
};

enum { FIRST_BLOCK = 16384, LARGEST_BLOCK = 1 << 20 };

/* ---- What is left of other runs ------------------------------------------ */

/* As many of the largest blocks: more than a long conversation needs. */
enum { SPARE_MAX = 8 };

struct jinja_spare {
    pthread_mutex_t lock;
    struct jinja_block *blocks[SPARE_MAX];
    unsigned n;
};

struct jinja_spare *jinja_spare_create(void)
{
    struct jinja_spare *spare = calloc(1, sizeof *spare);
    if (spare && pthread_mutex_init(&spare->lock, NULL) != 0) {
        free(spare);
        return NULL;
    }
    return spare;
}

void jinja_spare_free(struct jinja_spare *spare)
{
    if (!spare)
        return;
    for (unsigned i = 0; i < spare->n; i++)
        free(spare->blocks[i]);
    pthread_mutex_destroy(&spare->lock);
    free(spare);
}

/* The largest block of at least size and at most most bytes, or NULL. */
static struct jinja_block *spare_take(struct jinja_spare *spare, size_t size, size_t most)
{
    struct jinja_block *found = NULL;
    unsigned at = 0;
    pthread_mutex_lock(&spare->lock);
    for (unsigned i = 0; i < spare->n; i++) {
        struct jinja_block *block = spare->blocks[i];
        if (block->size >= size && block->size <= most && (!found || block->size > found->size)) {
            found = block;
            at = i;
        }
    }
    if (found)
        spare->blocks[at] = spare->blocks[--spare->n];
    pthread_mutex_unlock(&spare->lock);
    return found;
}

/* Keep blocks for the next run; those of unusual size, and the smallest when
 * there are too many, are freed. */
static void spare_give(struct jinja_spare *spare, struct jinja_block *blocks)
{
    while (blocks) {
        struct jinja_block *block = blocks;
        blocks = block->next;
        if (block->size <= LARGEST_BLOCK) {
            pthread_mutex_lock(&spare->lock);
            unsigned smallest = 0;
            for (unsigned i = 1; i < spare->n; i++)
                if (spare->blocks[i]->size < spare->blocks[smallest]->size)
                    smallest = i;
            if (spare->n < SPARE_MAX) {
                spare->blocks[spare->n++] = block;
                block = NULL;
            } else if (spare->blocks[smallest]->size < block->size) {
                struct jinja_block *out = spare->blocks[smallest];
                spare->blocks[smallest] = block;
                block = out;
            }
            pthread_mutex_unlock(&spare->lock);
        }
        free(block);
    }
}

/* ---- Pools --------------------------------------------------------------- */

/* The newest block gets a larger successor when full. */
static void *take_new(struct jinja_run *run, struct jinja_pool *pool, size_t size)
{
    struct jinja_block *block = pool->blocks;
    size_t wanted = block ? block->size * 2 : FIRST_BLOCK;
    if (wanted > LARGEST_BLOCK)
        wanted = LARGEST_BLOCK;
    if (wanted < size)
        wanted = size;
    size_t left = run->limits.memory > run->allocated ? run->limits.memory - run->allocated : 0;
    block = spare_take(run->t->spare, size, left);
    if (!block && wanted <= left && (block = malloc(sizeof *block + wanted)) != NULL)
        block->size = wanted;
    if (block && !jinja_pay(run, block->size)) {
        free(block);
        return NULL;
    }
    if (!block) {
        jinja_fail(run, "the template uses more than %zu MiB of memory", run->limits.memory >> 20);
        return NULL;
    }
    run->allocated += block->size;
    run->paid_bytes += block->size;
    block->next = pool->blocks;
    pool->blocks = block;
    pool->at = block->data + size;
    pool->end = block->data + block->size;
    return block->data;
}

/* size bytes of the pool. */
static inline void *take(struct jinja_run *run, struct jinja_pool *pool, size_t size)
{
    if (size > (size_t)(pool->end - pool->at))
        return take_new(run, pool, size);
    void *memory = pool->at;
    pool->at += size;
    return memory;
}

void *jinja_alloc_raw(struct jinja_run *run, size_t size)
{
    const size_t align = alignof(struct jinja_value); /* nothing here needs more */
    if (size > SIZE_MAX / 4)
        return jinja_fail(run, "the template uses too much memory");
    return take(run, &run->values, (size + align - 1) / align * align);
}

void *jinja_alloc(struct jinja_run *run, size_t size)
{
    void *memory = jinja_alloc_raw(run, size);
    return memory ? memset(memory, 0, size) : NULL;
}

char *jinja_alloc_bytes(struct jinja_run *run, size_t len)
{
    return take(run, &run->bytes, len ? len : 1);
}

uint8_t *jinja_alloc_marks(struct jinja_run *run, size_t len)
{
    return take(run, &run->marks, len ? len : 1);
}

bool jinja_extend(struct jinja_pool *pool, const void *data, size_t len, size_t wanted)
{
    const char *begin = data;
    if (!begin || !pool->blocks || begin < pool->blocks->data || begin + len != pool->at ||
        (wanted > len && wanted - len > (size_t)(pool->end - pool->at)))
        return false;
    pool->at += wanted;
    pool->at -= len;
    return true;
}

char *jinja_copy_text(struct jinja_run *run, struct slice text)
{
    char *copy = jinja_alloc_bytes(run, text.len + 1);
    if (!copy)
        return NULL;
    if (text.len)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return copy;
}

void jinja_pools_release(struct jinja_run *run)
{
    struct jinja_pool *pools[] = {&run->values, &run->bytes, &run->marks};
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        spare_give(run->t->spare, pools[i]->blocks);
}
