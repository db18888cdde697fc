/* checksum.c - SHA-256 and Git blob ids of files, through nettle. */
#include "files/checksum.h"

#include "base/file.h"
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { SHA256_DIGITS = 64, GIT_DIGITS = 40, CHUNK = 1 << 16 };

bool is_hexadecimal(const char *text, size_t digits)
{
    size_t n = 0;
    while (isxdigit((unsigned char)text[n]))
        n++;
    return n == digits && text[n] == '\0';
}

static void print_hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static bool hash_stream(FILE *stream, bool sha256, uint64_t size, char out[SHA256_DIGITS + 1])
{
    struct sha256_ctx long_hash;
    struct sha1_ctx git_hash;
    uint8_t chunk[CHUNK], digest[SHA256_DIGEST_SIZE];
    sha256_init(&long_hash);
    sha1_init(&git_hash);
    char head[32];
    int n_head = snprintf(head, sizeof head, "blob %llu", (unsigned long long)size) + 1;
    sha1_update(&git_hash, (size_t)n_head, (const uint8_t *)head);
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, stream)) > 0;) {
        if (sha256)
            sha256_update(&long_hash, n, chunk);
        else
            sha1_update(&git_hash, n, chunk);
    }
    if (sha256)
        sha256_digest(&long_hash, SHA256_DIGEST_SIZE, digest);
    else
        sha1_digest(&git_hash, SHA1_DIGEST_SIZE, digest);
    print_hex(digest, sha256 ? SHA256_DIGEST_SIZE : SHA1_DIGEST_SIZE, out);
    return !ferror(stream);
}

bool checksum_verify(const char *path, const char *digest, struct error *err)
{
    bool sha256 = is_hexadecimal(digest, SHA256_DIGITS);
    if (!sha256 && !is_hexadecimal(digest, GIT_DIGITS))
        return error_set(err, ERR_INVALID, "'%s' is not a checksum of a known kind", digest);
    int fd;
    struct stat info;
    char actual[SHA256_DIGITS + 1];
    if (!file_open_regular(path, O_RDONLY, FILE_ANY_SIZE, &fd, &info, err))
        return false;
    FILE *stream = fdopen(fd, "rb");
    bool read = stream && hash_stream(stream, sha256, (uint64_t)info.st_size, actual);
    int why = errno;
    if (stream)
        fclose(stream);
    else
        close(fd);
    if (!read)
        return error_set(err, ERR_IO, "%s: cannot be read: %s", path, strerror(why));
    if (strcasecmp(actual, digest) != 0)
        return error_set(err, ERR_FORMAT, "%s: has checksum %s and should have %s", path, actual,
                         digest);
    return true;
}
