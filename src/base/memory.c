/* memory.c - failures of this thread, and giving memory back to the system. */
#include "base/memory.h"

#include <stdlib.h> /* __GLIBC__ */
#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { LARGE = 1 << 20 };

static _Thread_local bool failed;

void memory_note_failure(void)
{
    failed = true;
}

void memory_forget_failure(void)
{
    failed = false;
}

bool memory_failed(void)
{
    return failed;
}

void memory_set_up(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, LARGE);
    mallopt(M_TRIM_THRESHOLD, LARGE);
#endif
}

void memory_give_back(size_t n_bytes)
{
    if (n_bytes < LARGE)
        return;
#ifdef __GLIBC__
    /* The C library gives back the end of its heaps by itself, but one small block
     * that lives on keeps all below it: of every heap, whole pages. */
    malloc_trim(0);
#endif
}
