/* isas.h - one function compiled for several instruction sets. */
#ifndef MLXCEL_TOOLS_ISAS_H
#define MLXCEL_TOOLS_ISAS_H

/* The choice is made while the program is loaded, before the thread sanitizer is
 * ready to watch it. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define MANY_ISAS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MANY_ISAS
#endif

#endif
