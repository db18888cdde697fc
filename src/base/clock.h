/* clock.h - time. */
#ifndef MLXCEL_BASE_CLOCK_H
#define MLXCEL_BASE_CLOCK_H

#include <stdint.h>

/* Microseconds on a clock that never goes back. */
uint64_t clock_monotonic_us(void);
/* Seconds since 1970. */
int64_t clock_unix_seconds(void);
void clock_sleep_ms(uint32_t ms);

#endif
