/* file.c - only regular files, no waiting, sizes before contents. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { MODE_OF_NEW = 0666, READ_STEP = 1 << 16 };

/* What else a name can lead to, and what to do about it. */
static const struct {
    mode_t format;
    const char *is;
} kinds[] = {
    {S_IFIFO, "is a pipe, not a regular file; write its content to a file and name that"},
    {S_IFDIR, "is a folder, not a regular file; name a file in it"},
    {S_IFSOCK, "is a socket, not a regular file"},
    {S_IFCHR, "is a device, not a regular file"},
    {S_IFBLK, "is a device, not a regular file"},
};

bool file_check_kind(const char *path, const struct stat *info, struct error *err)
{
    if (S_ISREG(info->st_mode))
        return true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((info->st_mode & S_IFMT) == kinds[i].format)
            return error_set(err, ERR_INVALID, "%s: %s", path, kinds[i].is);
    return error_set(err, ERR_INVALID, "%s: is not a regular file", path);
}

static bool refuse_open(const char *path, struct error *err)
{
    if (errno == ENOENT || errno == ENOTDIR)
        return error_set(err, ERR_NOT_FOUND, "%s: there is no such file or folder", path);
    return error_set(err, ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
}

bool file_open_regular(const char *path, int flags, uint64_t limit, int *fd, struct stat *info,
                       struct error *err)
{
    struct stat own;
    if (!info)
        info = &own;
    *fd = -1;
    /* Opening alone can do things to a device; what stands here by the time of the
     * opening is looked at again. */
    if (stat(path, info) == 0 && !file_check_kind(path, info, err))
        return false;
    *fd = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, MODE_OF_NEW);
    if (*fd < 0)
        return refuse_open(path, err);
    bool ok = fstat(*fd, info) == 0 ||
              error_set(err, ERR_IO, "%s: cannot be examined: %s", path, strerror(errno));
    ok = ok && file_check_kind(path, info, err);
    if (ok && (uint64_t)info->st_size > limit)
        ok = error_set(err, ERR_LIMIT,
                       "%s: has %" PRIu64 " bytes; at most %" PRIu64 " are read, so it is "
                       "probably the wrong file",
                       path, (uint64_t)info->st_size, limit);
    if (ok)
        return true;
    close(*fd);
    *fd = -1;
    return false;
}

/* To the end, which may have moved since the size was asked for; files of /proc say
 * that they have none. */
static bool read_to_end(int fd, const char *path, size_t limit, struct str *out, struct error *err)
{
    size_t begin = out->len;
    for (;;) {
        if (out->capacity - out->len < 2 && !str_reserve(out, READ_STEP))
            return error_memory(err);
        ssize_t n = read(fd, out->data + out->len, out->capacity - out->len - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
        if (n == 0)
            return true;
        out->len += (size_t)n;
        out->data[out->len] = '\0';
        if (out->len - begin > limit)
            return error_set(err, ERR_LIMIT, "%s: grew beyond %zu bytes while it was read", path,
                             limit);
    }
}

bool file_read_whole(const char *path, size_t limit, struct str *out, struct error *err)
{
    int fd;
    struct stat info;
    size_t begin = out->len;
    if (!file_open_regular(path, O_RDONLY, limit, &fd, &info, err))
        return false;
    /* One byte more, so that the end is met without growing. */
    bool ok = str_reserve(out, (size_t)info.st_size + 1) || error_memory(err);
    ok = ok && read_to_end(fd, path, limit, out, err);
    close(fd);
    if (!ok)
        str_truncate(out, begin);
    return ok;
}

bool file_read_at(int fd, const char *path, void *data, size_t len, uint64_t offset,
                  struct error *err)
{
    unsigned char *to = data;
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(fd, to + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
        if (n == 0)
            return error_set(err, ERR_IO, "%s: ends at byte %" PRIu64 " before all was read", path,
                             offset + done);
        done += (size_t)n;
    }
    return true;
}
