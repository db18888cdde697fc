/* blob.c - a whole file as one run of bytes: mapped, read, or read past the
 * page cache. */
#define _GNU_SOURCE /* O_DIRECT */
#include "files/blob.h"

#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Direct reads want addresses, offsets and lengths in whole blocks; this suits
 * every disk there is. */
enum { DIRECT_BLOCK = 4096 };
static const size_t READ_CHUNK = (size_t)64 << 20;

/* Read size bytes into memory that has room for whole blocks. */
static bool read_all(int fd, const char *path, unsigned char *data, size_t size, size_t room,
                     struct error *err)
{
    size_t done = 0;
    while (done < size) {
        size_t want = room - done < READ_CHUNK ? room - done : READ_CHUNK;
        ssize_t n = pread(fd, data + done, want, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL) {
            /* The file system takes no direct reads after all, or not at this
             * offset. */
            int flags = fcntl(fd, F_GETFL);
            if (flags >= 0 && (flags & O_DIRECT) && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0)
                continue;
        }
        if (n < 0)
            return error_set(err, ERR_IO, "%s: cannot be read at byte %zu: %s", path, done,
                             strerror(errno));
        if (n == 0)
            return error_set(err, ERR_IO, "%s: became shorter while it was read (%zu of %zu bytes)",
                             path, done, size);
        done += (size_t)n;
    }
    return true;
}

static bool blob_read(int fd, const char *path, size_t size, struct blob *blob, struct error *err)
{
    size_t room = (size + DIRECT_BLOCK - 1) / DIRECT_BLOCK * DIRECT_BLOCK;
    void *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(err, ERR_MEMORY, "%s: no memory for its %zu bytes; try --mmap", path,
                         size);
    if (!read_all(fd, path, memory, size, room, err)) {
        munmap(memory, room);
        return false;
    }
    mprotect(memory, room, PROT_READ);
    *blob = (struct blob){memory, size, room, false};
    return true;
}

static bool blob_map(int fd, const char *path, size_t size, bool prefetch, struct blob *blob,
                     struct error *err)
{
    void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(err, ERR_IO, "%s: cannot be mapped: %s; try --no-mmap", path,
                         strerror(errno));
    if (prefetch)
        madvise(memory, size, MADV_WILLNEED);
    *blob = (struct blob){memory, size, size, true};
    return true;
}

bool blob_open(const char *path, const struct model_file_settings *settings, struct blob *blob,
               struct error *err)
{
    static const struct model_file_settings plain = {0};
    if (!settings)
        settings = &plain;
    *blob = (struct blob){0};
    int fd;
    struct stat info;
    /* Addressable, and with room to round up to whole blocks. */
    const uint64_t limit = SIZE_MAX / 2;
    if (settings->loading == FILE_DIRECT &&
        file_open_regular(path, O_RDONLY | O_DIRECT, limit, &fd, &info, NULL))
        ;
    else if (!file_open_regular(path, O_RDONLY, limit, &fd, &info, err))
        return false;
    size_t size = (size_t)info.st_size;
    bool ok = true;
    if (size == 0)
        ok = error_set(err, ERR_FORMAT, "%s: is empty; the download has probably failed", path);
    else if (settings->loading == FILE_MMAP)
        ok = blob_map(fd, path, size, !settings->no_prefetch, blob, err);
    else
        ok = blob_read(fd, path, size, blob, err);
    close(fd);
    if (ok && settings->lock && mlock(blob->data, blob->size) != 0)
        log_warn("%s: cannot be locked in memory: %s; raise the limit (ulimit -l) or drop --mlock",
                 path, strerror(errno));
    return ok;
}

void blob_close(struct blob *blob)
{
    if (blob->mapped)
        munmap((void *)(uintptr_t)blob->data, blob->mapped);
    *blob = (struct blob){0};
}
