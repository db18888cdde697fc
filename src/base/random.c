/* random.c - MT19937 and the operating system's entropy. */
#include "base/random.h"

#include <sys/random.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { SHIFT_SIZE = 397 };

void random_seed(struct random *r, uint32_t seed)
{
    r->state[0] = seed;
    for (uint32_t i = 1; i < RANDOM_STATE_WORDS; i++)
        r->state[i] = 1812433253u * (r->state[i - 1] ^ (r->state[i - 1] >> 30)) + i;
    r->index = RANDOM_STATE_WORDS;
}

static void refill(struct random *r)
{
    for (uint32_t i = 0; i < RANDOM_STATE_WORDS; i++) {
        uint32_t next = r->state[(i + 1) % RANDOM_STATE_WORDS];
        uint32_t y = (r->state[i] & 0x80000000u) | (next & 0x7FFFFFFFu);
        uint32_t mix = y & 1u ? 0x9908B0DFu : 0u;
        r->state[i] = r->state[(i + SHIFT_SIZE) % RANDOM_STATE_WORDS] ^ (y >> 1) ^ mix;
    }
    r->index = 0;
}

uint32_t random_u32(struct random *r)
{
    if (r->index >= RANDOM_STATE_WORDS)
        refill(r);
    uint32_t y = r->state[r->index++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9D2C5680u;
    y ^= y << 15 & 0xEFC60000u;
    return y ^ (y >> 18);
}

double random_double(struct random *r)
{
    double low = random_u32(r);
    double high = random_u32(r);
    double value = (low + high * 4294967296.0) / 18446744073709551616.0;
    /* The sum can round up to one; the interval is half open. */
    return value < 1.0 ? value : 0x1.fffffffffffffp-1;
}

float random_float(struct random *r)
{
    float value = (float)random_u32(r) / 4294967296.0f;
    return value < 1.0f ? value : 0x1.fffffep-1f;
}

void random_bytes(void *out, uint32_t n)
{
    unsigned char *bytes = out;
    uint32_t done = 0;
    while (done < n) {
        ssize_t got = getrandom(bytes + done, n - done, 0);
        if (got <= 0)
            break;
        done += (uint32_t)got;
    }
    /* Without the system call (an old kernel) a weak seed is better than none. */
    for (; done < n; done++)
        bytes[done] = (unsigned char)((uint32_t)time(NULL) * 2654435761u >> (done % 4 * 8) ^
                                      (uint32_t)getpid());
}

uint32_t random_fresh_seed(void)
{
    uint32_t seed;
    random_bytes(&seed, sizeof seed);
    return seed;
}
