/* statics.c - files of one folder, and nothing outside it. */
#include "http/internal.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *extension, *type;
} types[] = {
    {"html", "text/html"},        {"htm", "text/html"},
    {"txt", "text/plain"},        {"css", "text/css"},
    {"js", "text/javascript"},    {"mjs", "text/javascript"},
    {"json", "application/json"}, {"webmanifest", "application/manifest+json"},
    {"map", "application/json"},  {"xml", "text/xml"},
    {"csv", "text/csv"},          {"md", "text/markdown"},
    {"svg", "image/svg+xml"},     {"png", "image/png"},
    {"jpg", "image/jpeg"},        {"jpeg", "image/jpeg"},
    {"gif", "image/gif"},         {"webp", "image/webp"},
    {"avif", "image/avif"},       {"ico", "image/x-icon"},
    {"woff", "font/woff"},        {"woff2", "font/woff2"},
    {"ttf", "font/ttf"},          {"otf", "font/otf"},
    {"mp3", "audio/mpeg"},        {"wav", "audio/wav"},
    {"mp4", "video/mp4"},         {"webm", "video/webm"},
    {"pdf", "application/pdf"},   {"wasm", "application/wasm"},
    {"zip", "application/zip"},   {"gz", "application/gzip"},
};

static const char *type_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (strcasecmp(dot + 1, types[i].extension) == 0)
            return types[i].type;
    return "application/octet-stream";
}

bool statics_open(struct front *front, const char *folder, struct error *err)
{
    if (!folder || !*folder)
        return true;
    struct stat info;
    char *root = realpath(folder, NULL);
    if (!root || stat(root, &info) != 0 || !S_ISDIR(info.st_mode)) {
        free(root);
        return error_set(err, ERR_NOT_FOUND,
                         "static assets path not found: %s is not a folder that can be read",
                         folder);
    }
    size_t len = strlen(root);
    if (len > 0 && root[len - 1] == '/')
        root[len - 1] = 0;
    front->static_root = root;
    return true;
}

/* Open the file behind a request path, links resolved, if it lies below the
 * root. -1 otherwise, with errno ENOMEM when that could not be found out. */
static int open_below(const struct front *front, struct slice path, char canonical[PATH_MAX],
                      struct stat *info)
{
    errno = 0;
    if (path.len == 0 || path.data[0] != '/' || memchr(path.data, 0, path.len))
        return -1;
    struct str name = {0};
    str_append_text(&name, front->static_root);
    str_append_slice(&name, path);
    if (path.data[path.len - 1] == '/')
        str_append_text(&name, "index.html");
    bool lacks = name.failed, found = !lacks && realpath(str_text(&name), canonical);
    str_free(&name);
    if (lacks)
        errno = ENOMEM;
    size_t root_len = strlen(front->static_root);
    if (!found || strncmp(canonical, front->static_root, root_len) != 0 ||
        canonical[root_len] != '/')
        return -1;
    int fd;
    file_open_regular(canonical, O_RDONLY | O_NOFOLLOW, FILE_ANY_SIZE, &fd, info, NULL);
    return fd;
}

static bool parse_digits(const char **at, uint64_t *out)
{
    const char *p = *at;
    uint64_t n = 0;
    while (*p >= '0' && *p <= '9') {
        if (n > (UINT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (uint64_t)(*p++ - '0');
    }
    if (p == *at)
        return false;
    *at = p;
    *out = n;
    return true;
}

enum range { RANGE_ALL, RANGE_PART, RANGE_IMPOSSIBLE };

/* One range of bytes (RFC 9110, 14.1.2). Several, or another unit: the whole
 * file, as the standard allows. */
static enum range parse_range(struct slice header, uint64_t size, uint64_t *begin, uint64_t *len)
{
    *begin = 0;
    *len = size;
    if (!slice_starts_with(header, SLICE("bytes=")) || memchr(header.data, ',', header.len))
        return RANGE_ALL;
    const char *at = header.data + 6;
    uint64_t first, last;
    if (*at == '-') {
        at++;
        if (!parse_digits(&at, &last) || *at)
            return RANGE_ALL;
        if (last == 0 || size == 0)
            return RANGE_IMPOSSIBLE;
        *len = last < size ? last : size;
        *begin = size - *len;
        return RANGE_PART;
    }
    if (!parse_digits(&at, &first) || *at++ != '-')
        return RANGE_ALL;
    if (*at == 0)
        last = size ? size - 1 : 0;
    else if (!parse_digits(&at, &last) || *at || last < first)
        return RANGE_ALL;
    if (first >= size)
        return RANGE_IMPOSSIBLE;
    if (last >= size)
        last = size - 1;
    *begin = first;
    *len = last - first + 1;
    return RANGE_PART;
}

bool statics_answer(const struct front *front, struct http_exchange *x)
{
    if (!front->static_root)
        return false;
    char canonical[PATH_MAX];
    struct stat info;
    int fd = open_below(front, x->route_path, canonical, &info);
    if (fd < 0 && errno == ENOMEM) {
        http_reply_error(x, 500, "server_error", "out of memory");
        return true;
    }
    if (fd < 0)
        return false;

    char text[96];
    uint64_t size = (uint64_t)info.st_size;
    snprintf(text, sizeof text, "\"%llx-%llx.%lx\"", (unsigned long long)size,
             (unsigned long long)info.st_mtim.tv_sec, (unsigned long)info.st_mtim.tv_nsec);
    http_answer_header(x, "ETag", text);
    http_answer_header(x, "Accept-Ranges", "bytes");
    struct slice known = field_find(&x->headers, "If-None-Match", true);
    if (known.len > 0 && (slice_equal_text(known, "*") || strstr(known.data, text))) {
        close(fd);
        http_reply(x, 304, NULL, SLICE(""));
        return true;
    }
    struct slice if_range = field_find(&x->headers, "If-Range", true);
    struct slice wanted = field_find(&x->headers, "Range", true);
    if (if_range.len > 0 && !slice_equal_text(if_range, text))
        wanted = SLICE("");
    int status = 200;
    switch (parse_range(wanted, size, &x->file_begin, &x->file_len)) {
    case RANGE_ALL:
        break;
    case RANGE_PART:
        status = 206;
        snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)x->file_begin,
                 (unsigned long long)(x->file_begin + x->file_len - 1), (unsigned long long)size);
        http_answer_header(x, "Content-Range", text);
        break;
    case RANGE_IMPOSSIBLE:
        close(fd);
        snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)size);
        http_answer_header(x, "Content-Range", text);
        http_reply_error(x, 416, "invalid_request_error", "the file has no such range of bytes");
        return true;
    }
    x->file_fd = fd;
    http_reply(x, status, type_of(canonical), SLICE(""));
    return true;
}
