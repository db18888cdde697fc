/* file_write.c - files that appear whole or not at all.
 *
 * The content goes into a file without a name (O_TMPFILE), which vanishes with the
 * process that writes it. It gets its name when it is whole. Two cases need a name
 * before: another file is to be replaced, and file systems without O_TMPFILE. That
 * name is one that is never asked for (".mlxcel..1234.5.tmp": it has two dots in a
 * row), and whoever writes holds a lock on it, so that what a killed process left
 * behind is known and removed. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define TEMPORARY_PREFIX ".mlxcel.."
#define TEMPORARY_SUFFIX ".tmp"

enum { N_NAMES_TRIED = 100 };

/* The folder of a path, with its last slash; "./" where it names none. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slice_duplicate((struct slice){path, (size_t)(slash + 1 - path)})
                 : slice_duplicate(SLICE("./"));
}

static char *temporary_name(const char *folder)
{
    static atomic_uint counter;
    return text_format("%s" TEMPORARY_PREFIX "%ld.%u" TEMPORARY_SUFFIX, folder, (long)getpid(),
                       atomic_fetch_add(&counter, 1));
}

static bool write_all(int fd, struct slice data)
{
    while (data.len) {
        ssize_t n = write(fd, data.data, data.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data = slice_from(data, (size_t)n);
    }
    return fsync(fd) == 0;
}

/* A file with a temporary name, locked; -1 with errno. */
static int create_named(const char *folder, mode_t mode, char **name)
{
    for (int i = 0; i < N_NAMES_TRIED; i++) {
        *name = temporary_name(folder);
        int fd = *name ? open(*name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode) : -1;
        if (fd >= 0) {
            flock(fd, LOCK_EX | LOCK_NB);
            return fd;
        }
        int why = *name ? errno : ENOMEM;
        free(*name);
        *name = NULL;
        errno = why;
        if (why != EEXIST)
            return -1;
    }
    return -1;
}

/* Give a nameless file a name: to, if that is free, else *name, a temporary one. */
static bool link_nameless(int fd, const char *folder, const char *to, char **name)
{
    char self[40];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    for (int i = 0; i <= N_NAMES_TRIED; i++) {
        *name = i > 0 ? temporary_name(folder) : NULL;
        if (i > 0 && !*name) {
            errno = ENOMEM;
            return false;
        }
        if (linkat(AT_FDCWD, self, AT_FDCWD, i > 0 ? *name : to, AT_SYMLINK_FOLLOW) == 0)
            return true;
        int why = errno;
        free(*name);
        *name = NULL;
        errno = why;
        if (why != EEXIST)
            return false;
    }
    return false;
}

/* Write and name it; false with errno, and nothing left behind. */
static bool replace(const char *path, const char *folder, struct slice data, mode_t mode)
{
    char *name = NULL;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    bool nameless = fd >= 0;
    if (nameless)
        flock(fd, LOCK_EX | LOCK_NB);
    else
        fd = create_named(folder, mode, &name);
    bool ok = fd >= 0 && write_all(fd, data);
    if (ok && nameless && !link_nameless(fd, folder, path, &name)) {
        /* Without /proc a file keeps its lack of a name: once more, with one. */
        close(fd);
        fd = create_named(folder, mode, &name);
        ok = fd >= 0 && write_all(fd, data);
    }
    ok = ok && (!name || rename(name, path) == 0);
    int why = errno;
    if (!ok && name)
        unlink(name);
    if (fd >= 0 && close(fd) != 0 && ok) {
        why = errno;
        ok = false;
    }
    free(name);
    errno = why;
    return ok;
}

bool file_replace(const char *path, struct slice data, mode_t mode, struct error *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && !file_check_kind(path, &info, err))
        return false;
    char *folder = folder_of(path);
    if (!folder)
        return error_memory(err);
    bool ok = replace(path, folder, data, mode);
    free(folder);
    return ok || error_set(err, ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
}

static bool is_temporary(struct slice name)
{
    return slice_starts_with(name, SLICE(TEMPORARY_PREFIX)) &&
           slice_ends_with(name, SLICE(TEMPORARY_SUFFIX));
}

int file_remove_left_behind(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_temporary(slice_of(entry->d_name)))
            continue;
        int fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            n++;
        close(fd);
    }
    if (dir)
        closedir(dir);
    return n;
}
