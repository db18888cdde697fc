/* paths.c - folders, small files and locks between processes. */
#include "files/paths.h"

#include "base/file.h"
#include "base/log.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALL_FILE_BYTES = 64 << 10 };

bool path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool path_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool path_make_parents(const char *path, struct error *err)
{
    char *copy = slice_duplicate(slice_of(path));
    bool ok = copy != NULL || error_memory(err);
    for (char *slash = copy; ok && (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        if (mkdir(copy, 0755) != 0 && !path_is_folder(copy))
            ok = error_set(err, ERR_IO, "%s: the folder cannot be made: %s", copy, strerror(errno));
        *slash = '/';
    }
    free(copy);
    return ok;
}

bool path_write_whole(const char *path, struct slice text, struct error *err)
{
    return path_make_parents(path, err) && file_replace(path, text, 0666, err);
}

char *path_first_line(const char *path)
{
    struct str text = {0};
    char *line = NULL;
    if (file_read_whole(path, SMALL_FILE_BYTES, &text, NULL)) {
        size_t len = strcspn(str_text(&text), "\r\n");
        line = len ? slice_duplicate((struct slice){str_text(&text), len}) : NULL;
    }
    str_free(&text);
    return line;
}

bool path_is_below(const char *path)
{
    if (*path == '\0' || *path == '/')
        return false;
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len == 0 || (len == 1 && path[0] == '.') || (len == 2 && strncmp(path, "..", 2) == 0))
            return false;
        path += len;
        if (*path == '/' && *++path == '\0')
            return false;
    }
    return true;
}

/* ---- Lists ------------------------------------------------------------ */

bool path_list_push(struct path_list *list, char *owned)
{
    if (owned &&
        vec_reserve((void **)&list->items, &list->capacity, list->n, 1, sizeof *list->items)) {
        list->items[list->n++] = owned;
        return true;
    }
    free(owned);
    return false;
}

void path_list_free(struct path_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct path_list){0};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool path_list_folder(const char *folder, struct path_list *list, struct error *err)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT ||
               error_set(err, ERR_IO, "%s: cannot be listed: %s", folder, strerror(errno));
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            ok =
                path_list_push(list, slice_duplicate(slice_of(entry->d_name))) || error_memory(err);
    closedir(dir);
    if (list->n)
        qsort(list->items, list->n, sizeof *list->items, by_text);
    return ok;
}

/* ---- Locks ------------------------------------------------------------ */

/* Whoever held the lock before may have removed its file: then ours is on a
 * file that nobody else will find. */
static bool is_at_path(int fd, const char *path)
{
    struct stat ours, theirs;
    return fstat(fd, &ours) == 0 && stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
}

static bool wait_for(int fd, const char *path)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    if (errno != EWOULDBLOCK)
        return false;
    log_info("%s: another process is downloading this; waiting for it", path);
    int result;
    do
        result = flock(fd, LOCK_EX);
    while (result != 0 && errno == EINTR);
    return result == 0;
}

bool path_lock(const char *path, int *fd, struct error *err)
{
    if (!path_make_parents(path, err))
        return false;
    for (;;) {
        if (!file_open_regular(path, O_RDWR | O_CREAT, FILE_ANY_SIZE, fd, NULL, err))
            return false;
        bool ok = wait_for(*fd, path);
        if (ok && is_at_path(*fd, path))
            return true;
        int why = errno;
        close(*fd);
        if (!ok)
            return error_set(err, ERR_IO, "%s: cannot be locked: %s", path, strerror(why));
    }
}

void path_unlock(const char *path, int fd)
{
    unlink(path);
    close(fd);
}
