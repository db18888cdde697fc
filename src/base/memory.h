/* memory.h - what happened to memory: failures noted, freed memory given back. */
#ifndef MLXCEL_BASE_MEMORY_H
#define MLXCEL_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Texts, trees and lists that are put together in many steps lack what found no
 * memory, and not every step is looked at. So each thread notes that an allocation
 * failed, as errno does: strings, arenas, vectors, the JSON library and errors of
 * the code ERR_MEMORY note it.
 * Whoever begins a piece of work forgets what was before, and asks before its
 * result is shown to anybody. */
void memory_note_failure(void);
void memory_forget_failure(void);
/* Whether one was noted on this thread since it was forgotten. */
bool memory_failed(void);

/* For a process that lives long: large blocks are the system's again as soon as they
 * are freed, and what is free at the end of a heap beyond a megabyte. Without it the C
 * library learns from the largest block it has seen to keep as much in every thread's
 * heap, where memory_give_back does not reach. Before threads are started. */
void memory_set_up(void);

/* Freed memory goes back to the system where n_bytes, what was worked on, is much;
 * after little the allocator keeps it for the next. Thread-safe; milliseconds. */
void memory_give_back(size_t n_bytes);

#endif
