/* shim.c - a preloaded library that lets allocations fail.
 *
 * It stands before malloc, calloc, realloc, aligned_alloc, posix_memalign and
 * memalign of a whole process: every library that the process uses allocates through
 * it, and so do strdup and its kind, which call malloc. MLXCEL_FAULTS names a file
 * of the size of struct faults, which the test maps too: what is written there takes
 * effect at once. Allocations of all threads are counted.
 *
 * MLXCEL_FAULTS_TRACE: where each failure happens goes to standard error. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum mode { OFF, COUNT, FAIL_ONE, FAIL_ALL_AFTER };

/* Shared with faults.py. */
struct faults {
    _Atomic int64_t mode;
    _Atomic int64_t at;        /* the number of the allocation that fails, from 1 */
    _Atomic int64_t n_counted; /* since the test set it to 0 */
    _Atomic int64_t n_failed;
    _Atomic int64_t n_live; /* blocks allocated and not freed, from some number on */
};

static struct faults *faults;
static int trace;
static int in_main; /* what libraries do before it is theirs */
static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_memalign)(size_t, size_t);
static void (*next_free)(void *);

/* What POSIX calls a function pointer is a void * for dlsym. */
static void find(void *pointer, const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(pointer, &symbol, sizeof symbol);
}

static void find_all(void)
{
    find(&next_calloc, "calloc");
    find(&next_realloc, "realloc");
    find(&next_memalign, "aligned_alloc");
    find(&next_free, "free");
    find(&next_malloc, "malloc");
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("MLXCEL_FAULTS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory = fd >= 0 ? mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                           : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    trace = getenv("MLXCEL_FAULTS_TRACE") != NULL;
    if (trace) { /* the first call loads a library */
        void *frames[1];
        backtrace(frames, 1);
    }
    if (memory != MAP_FAILED)
        faults = memory;
}

static void show(void)
{
    static _Thread_local int inside;
    void *frames[16];
    if (inside++ == 0) {
        int n = backtrace(frames, 16);
        backtrace_symbols_fd(frames, n, STDERR_FILENO);
        ssize_t n_written = write(STDERR_FILENO, "----\n", 5);
        (void)n_written;
    }
    inside--;
}

/* Whether this allocation is to fail. */
static int fails(void)
{
    int64_t mode = faults && in_main ? atomic_load(&faults->mode) : OFF;
    if (mode == OFF)
        return 0;
    int64_t n = atomic_fetch_add(&faults->n_counted, 1) + 1, at = atomic_load(&faults->at);
    if (mode == COUNT || n < at || (mode == FAIL_ONE && n > at))
        return 0;
    atomic_fetch_add(&faults->n_failed, 1);
    if (trace)
        show();
    errno = ENOMEM;
    return 1;
}

static void *made(void *memory)
{
    if (memory && faults)
        atomic_fetch_add(&faults->n_live, 1);
    return memory;
}

static int (*program_main)(int, char **, char **);

static int main_begins(int argc, char **argv, char **environment)
{
    in_main = 1;
    return program_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
    int (*next)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                void (*)(void), void *);
    find(&next, "__libc_start_main");
    program_main = main;
    return next(main_begins, argc, argv, init, fini, rtld_fini, stack_end);
}

void *malloc(size_t size)
{
    if (!next_malloc)
        find_all();
    return fails() ? NULL : made(next_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    if (!next_calloc)
        find_all();
    return fails() ? NULL : made(next_calloc(count, size));
}

void *realloc(void *old, size_t size)
{
    if (!next_realloc)
        find_all();
    if (fails())
        return NULL;
    return old ? next_realloc(old, size) : made(next_realloc(old, size));
}

void free(void *memory)
{
    if (!next_free)
        find_all();
    if (memory && faults)
        atomic_fetch_sub(&faults->n_live, 1);
    next_free(memory);
}

void *aligned_alloc(size_t align, size_t size)
{
    if (!next_memalign)
        find_all();
    return fails() ? NULL : made(next_memalign(align, size));
}

void *memalign(size_t align, size_t size)
{
    return aligned_alloc(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    void *memory = aligned_alloc(align, size);
    if (!memory)
        return ENOMEM;
    *out = memory;
    return 0;
}
