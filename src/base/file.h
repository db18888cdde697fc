/* file.h - opening and reading the files that names lead to.
 *
 * A name comes from a user, a request, a folder of a model: it may lead to a pipe
 * that nobody writes to, a device, a socket, a folder, a file of any size. All that
 * a name leads to is opened here, so that nothing but a regular file is ever opened
 * to be read, no opening waits, and sizes are looked at before contents are.
 * Pipes are refused for small files too (--grammar-file and its kind): a start must
 * not hang on a pipe without a writer, and a service that starts again could not
 * read it a second time. "--grammar-file /dev/stdin < FILE" names a regular file.
 * Any thread may call these. Depends on: the C library. */
#ifndef MLXCEL_BASE_FILE_H
#define MLXCEL_BASE_FILE_H

#include "base/error.h"
#include "base/str.h"

#include <stdint.h>
#include <sys/stat.h>

#define FILE_ANY_SIZE UINT64_MAX

/* Open a regular file; links are followed unless flags say O_NOFOLLOW.
 *   flags  as open(2) takes them: O_RDONLY, or O_WRONLY | O_CREAT and so on; a file
 *          that is made has mode 0666 less the umask
 *   limit  bytes; a larger file is refused
 *   *fd    is the caller's to close
 *   info   what fstat said of it; may be NULL
 * Never waits for another process, and opens no device. Fails with the path and
 * what to do: ERR_NOT_FOUND, ERR_INVALID (no regular file), ERR_LIMIT or ERR_IO. */
bool file_open_regular(const char *path, int flags, uint64_t limit, int *fd, struct stat *info,
                       struct error *err);

/* Append a whole regular file of at most limit bytes to out, which keeps what it
 * had when that fails. */
bool file_read_whole(const char *path, size_t limit, struct str *out, struct error *err);

/* Read len bytes that stand at offset; fewer are an error. The path is for the
 * message. */
bool file_read_at(int fd, const char *path, void *data, size_t len, uint64_t offset,
                  struct error *err);

/* Fails unless info is a regular file's, saying what it is instead. */
bool file_check_kind(const char *path, const struct stat *info, struct error *err);

/* Make or replace a regular file with this content: whoever opens it sees the old
 * one or the new one, whole, whenever the process is killed. On the disk when this
 * returns. Fails ERR_INVALID where something that is no regular file has the name,
 * else ERR_IO; what stood there stays. */
bool file_replace(const char *path, struct slice data, mode_t mode, struct error *err);

/* Remove what killed processes left in a folder when file_replace had to give a
 * temporary name (no name that starts otherwise than ".mlxcel.."); what others are
 * just writing stays. Returns how many. */
int file_remove_left_behind(const char *folder);

#endif
