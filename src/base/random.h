/* random.h - repeatable random numbers.
 *
 * The 32-bit Mersenne Twister, MT19937 (Matsumoto and Nishimura 1998), because
 * a seed must give the same text as on the reference. */
#ifndef MLXCEL_BASE_RANDOM_H
#define MLXCEL_BASE_RANDOM_H

#include <stdint.h>

enum { RANDOM_STATE_WORDS = 624 };

struct random {
    uint32_t state[RANDOM_STATE_WORDS];
    uint32_t index;
};

void random_seed(struct random *r, uint32_t seed);
uint32_t random_u32(struct random *r);
/* A double in [0, 1) with 53 random bits: two words, the first the low one. */
double random_double(struct random *r);
/* A float in [0, 1) with 24 bits: one word. */
float random_float(struct random *r);
/* A seed nobody can guess, from the operating system. */
uint32_t random_fresh_seed(void);
/* n unpredictable bytes from the operating system. */
void random_bytes(void *out, uint32_t n);

#endif
