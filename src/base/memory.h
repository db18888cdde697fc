/* memory.h - memory that a large request leaves behind. */
#ifndef MLXCEL_BASE_MEMORY_H
#define MLXCEL_BASE_MEMORY_H

#include <stddef.h>

/* Freed memory goes back to the system where n_bytes, what was worked on, is much;
 * after little the allocator keeps it for the next. Thread-safe; milliseconds. */
void memory_give_back(size_t n_bytes);

#endif
