/* checksum.h - is a downloaded file what the repository says it is? */
#ifndef MLXCEL_FILES_CHECKSUM_H
#define MLXCEL_FILES_CHECKSUM_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* digest is the SHA-256 of the file (64 hexadecimal digits) or its Git blob id
 * (40 digits: SHA-1 over "blob SIZE\0" and the bytes). ERR_FORMAT when it is
 * another file's, ERR_IO when it cannot be read. */
bool checksum_verify(const char *path, const char *digest, struct error *err);

/* Lower- or upper-case hexadecimal of exactly so many digits. */
bool is_hexadecimal(const char *text, size_t digits);

#endif
