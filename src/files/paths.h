/* paths.h - folders, links and small files that appear whole or not at all. */
#ifndef MLXCEL_FILES_PATHS_H
#define MLXCEL_FILES_PATHS_H

#include "base/error.h"
#include "base/slice.h"
#include "base/str.h"

#include <stdbool.h>

bool path_exists(const char *path); /* follows links */
bool path_is_folder(const char *path);
/* Make every folder the path leads through, but not its last part. */
bool path_make_parents(const char *path, struct error *err);
/* Write a small file, whole at once (base/file.h). */
bool path_write_whole(const char *path, struct slice text, struct error *err);
/* The first line of a small file; NULL when there is none. Owned by the caller. */
char *path_first_line(const char *path);
/* True for a path that stays below where it is joined to: relative, no "..",
 * no empty part. */
bool path_is_below(const char *path);
/* Names in a folder, sorted, without those that begin with a dot. An absent
 * folder is empty. */
struct path_list {
    char **items; /* owned */
    size_t n, capacity;
};
bool path_list_folder(const char *folder, struct path_list *list, struct error *err);
bool path_list_push(struct path_list *list, char *owned);
void path_list_free(struct path_list *list);

/* Hold a lock that other processes respect; *fd is to be closed with
 * path_unlock. Waits for as long as another holds it. */
bool path_lock(const char *path, int *fd, struct error *err);
/* Also removes the lock's file. */
void path_unlock(const char *path, int fd);

#endif
