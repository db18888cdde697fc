/* schema_number.c - integers and numbers within bounds, digit by digit.
 *
 * The forms for integers are those of the reference where those are right. */
#include "sample/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIGITS_MAX = 16, TEXT_MAX = 24 };
/* Past it a double no longer tells integers apart. */
static const double exact_max = 9007199254740992.0;

static void digit_range(struct str *out, char from, char to)
{
    if (from == to)
        str_append_format(out, "[%c]", from);
    else
        str_append_format(out, "[%c-%c]", from, to);
}

static void more_digits(struct str *out, size_t min, size_t max)
{
    if (max < min)
        max = min;
    str_append_text(out, "[0-9]");
    if (min == 1 && max == 1)
        return;
    str_append_format(out, "{%zu", min);
    if (max != min)
        str_append_format(out, ",%zu", max);
    str_append_char(out, '}');
}

static bool all_are(const char *text, char c)
{
    while (*text == c)
        text++;
    return !*text;
}

static void repeated(char *out, char c, size_t n)
{
    memset(out, c, n);
    out[n] = 0;
}

/* Numbers of equally many digits, from .. to. */
static void uniform_range(struct str *out, const char *from, const char *to)
{
    size_t same = 0;
    while (from[same] && from[same] == to[same])
        same++;
    if (same)
        str_append_format(out, "\"%.*s\"", (int)same, from);
    if (!from[same])
        return;
    if (same)
        str_append_char(out, ' ');
    char low = from[same], high = to[same];
    const char *from_rest = from + same + 1, *to_rest = to + same + 1;
    size_t rest = strlen(from_rest);
    if (rest == 0) {
        str_append_format(out, "[%c-%c]", low, high);
        return;
    }
    char zeros[TEXT_MAX], nines[TEXT_MAX];
    repeated(zeros, '0', rest);
    repeated(nines, '9', rest);
    bool reached = false;
    str_append_char(out, '(');
    if (all_are(from_rest, '0')) {
        digit_range(out, low, (char)(high - 1));
        str_append_char(out, ' ');
        more_digits(out, rest, rest);
    } else {
        str_append_format(out, "[%c] (", low);
        uniform_range(out, from_rest, nines);
        str_append_char(out, ')');
        if (low < high - 1) {
            str_append_text(out, " | ");
            reached = all_are(to_rest, '9');
            digit_range(out, (char)(low + 1), reached ? high : (char)(high - 1));
            str_append_char(out, ' ');
            more_digits(out, rest, rest);
        }
    }
    if (!reached) {
        str_append_text(out, " | ");
        digit_range(out, high, high);
        str_append_char(out, ' ');
        uniform_range(out, zeros, to_rest);
    }
    str_append_char(out, ')');
}

/* 0 <= min <= max. */
static void between(struct str *out, int64_t min, int64_t max)
{
    char low[TEXT_MAX], high[TEXT_MAX], nines[TEXT_MAX];
    snprintf(low, sizeof low, "%" PRId64, min);
    snprintf(high, sizeof high, "%" PRId64, max);
    for (size_t digits = strlen(low); digits < strlen(high); digits++) {
        repeated(nines, '9', digits);
        uniform_range(out, low, nines);
        repeated(low, '0', digits + 1);
        low[0] = '1';
        str_append_text(out, " | ");
    }
    uniform_range(out, low, high);
}

/* The digits that follow in a number at least as large as digits says; the
 * first may be 0 unless it begins the number. left is how many the number may
 * still have. */
static void at_least_digits(struct str *out, const char *digits, size_t left, bool begins)
{
    size_t n = strlen(digits), less = left > 1 ? left - 1 : 1;
    char first = digits[0];
    if (all_are(digits, '0')) {
        if (begins)
            str_append_text(out, "[0] | [1-9] ");
        more_digits(out, begins ? 0 : n, begins ? less : left);
        return;
    }
    char lowest = begins ? '1' : '0';
    if (first > (n > 1 ? '1' : lowest)) {
        digit_range(out, lowest, (char)(first - 1));
        str_append_char(out, ' ');
        more_digits(out, n, less);
        str_append_text(out, " | ");
    }
    if (n == 1) {
        digit_range(out, first, '9');
        str_append_char(out, ' ');
        more_digits(out, 0, less);
        return;
    }
    digit_range(out, first, first);
    str_append_text(out, " (");
    at_least_digits(out, digits + 1, less, false);
    str_append_char(out, ')');
    if (first < '9') {
        str_append_text(out, " | ");
        digit_range(out, (char)(first + 1), '9');
        str_append_char(out, ' ');
        more_digits(out, n - 1, less);
    }
}

static void at_least(struct str *out, int64_t min)
{
    char digits[TEXT_MAX];
    snprintf(digits, sizeof digits, "%" PRId64, min);
    at_least_digits(out, digits, DIGITS_MAX, true);
}

static void integers(struct str *out, const int64_t *min, const int64_t *max)
{
    if (min && max) {
        if (*max < 0) {
            str_append_text(out, "\"-\" (");
            between(out, -*max, -*min);
            str_append_char(out, ')');
            return;
        }
        if (*min < 0) {
            str_append_text(out, "\"-\" (");
            between(out, 0, -*min);
            str_append_text(out, ") | ");
        }
        between(out, *min < 0 ? 0 : *min, *max);
    } else if (min && *min < 0) {
        str_append_text(out, "\"-\" (");
        between(out, 0, -*min);
        str_append_text(out, ") | [0] | [1-9] ");
        more_digits(out, 0, DIGITS_MAX - 1);
    } else if (min) {
        at_least(out, *min);
    } else if (*max >= 0) {
        str_append_text(out, "\"-\" [1-9] ");
        more_digits(out, 0, DIGITS_MAX - 1);
        str_append_text(out, " | ");
        between(out, 0, *max);
    } else {
        str_append_text(out, "\"-\" (");
        at_least(out, -*max);
        str_append_char(out, ')');
    }
}

/* A bound as an integer; past 64 bits it is the end of those. */
static int64_t to_int64(double value)
{
    if (value >= 9223372036854775807.0)
        return INT64_MAX;
    return value <= -9223372036854775807.0 ? -INT64_MAX : (int64_t)value;
}

bool append_integers(struct str *out, const struct bounds *b)
{
    int64_t min = 0, max = 0;
    if (b->has_min) {
        double low = ceil(b->min);
        min = to_int64(b->min_exclusive && low == b->min ? low + 1 : low);
        if (b->min_exclusive && fabs(b->min) >= exact_max && min < INT64_MAX)
            min++;
    }
    if (b->has_max) {
        double high = floor(b->max);
        max = to_int64(b->max_exclusive && high == b->max ? high - 1 : high);
        if (b->max_exclusive && fabs(b->max) >= exact_max && max > -INT64_MAX)
            max--;
    }
    if (b->has_min && b->has_max && min > max)
        return false;
    integers(out, b->has_min ? &min : NULL, b->has_max ? &max : NULL);
    return true;
}

/* Numbers from low (>= 0) up to high, or without end: whole ones, and such with
 * a fraction that does not end in 0, so that it lies strictly between two whole
 * numbers. */
static bool positive_numbers(struct str *out, double low, bool low_exclusive, const double *high,
                             bool high_exclusive)
{
    if (low > exact_max)
        return false;
    int64_t from = (int64_t)ceil(low);
    int64_t whole_from = low_exclusive && (double)from == low ? from + 1 : from;
    if (!high) {
        str_append_char(out, '(');
        integers(out, &whole_from, NULL);
        str_append_text(out, ") | (");
        integers(out, &from, NULL);
        str_append_text(out, ") \".\" [0-9]{0,11} [1-9]");
        return true;
    }
    double top = *high < exact_max ? *high : exact_max;
    int64_t to = (int64_t)floor(top);
    int64_t whole_to = high_exclusive && (double)to == top ? to - 1 : to;
    bool any = false;
    if (whole_from <= whole_to) {
        str_append_char(out, '(');
        integers(out, &whole_from, &whole_to);
        str_append_char(out, ')');
        any = true;
    }
    int64_t fraction_to = to - 1;
    if (from <= fraction_to) {
        char digits[TEXT_MAX];
        int used = snprintf(digits, sizeof digits, "%" PRId64, to);
        if (any)
            str_append_text(out, " | ");
        str_append_char(out, '(');
        integers(out, &from, &fraction_to);
        /* So many digits in all that a double keeps them apart. */
        str_append_format(out, ") \".\" [0-9]{0,%d} [1-9]", used < 13 ? 13 - used : 0);
        any = true;
    }
    return any;
}

bool append_numbers(struct str *out, const struct bounds *b)
{
    bool any = false;
    if (!b->has_min || b->min < 0) {
        struct str part = {0};
        double low = b->has_max && b->max < 0 ? -b->max : 0;
        double high = -b->min;
        /* -0 is 0: where that is out, the whole numbers begin at -1. */
        if (positive_numbers(&part, low, b->has_max && b->max <= 0 && b->max_exclusive,
                             b->has_min ? &high : NULL, b->min_exclusive)) {
            str_append_text(out, "\"-\" (");
            str_append_slice(out, str_slice(&part));
            str_append_char(out, ')');
            any = true;
        }
        out->failed = out->failed || part.failed;
        str_free(&part);
    }
    if (!b->has_max || b->max > 0 || (b->max == 0 && !b->max_exclusive)) {
        struct str part = {0};
        double low = b->has_min && b->min > 0 ? b->min : 0;
        if (positive_numbers(&part, low, b->has_min && b->min >= 0 && b->min_exclusive,
                             b->has_max ? &b->max : NULL, b->max_exclusive)) {
            str_append_text(out, any ? " | " : "");
            str_append_slice(out, str_slice(&part));
            any = true;
        }
        out->failed = out->failed || part.failed;
        str_free(&part);
    }
    return any;
}
