/* Days of the proleptic Gregorian calendar, and the microseconds of a wall clock.
 *
 * Day 0 is 1970-01-01; years are 1 to 9999, as those of datetime.
 */
#ifndef PENSTOCK_CIVIL_H
#define PENSTOCK_CIVIL_H

#include <stdint.h>

#define PS_DAY_MICROS INT64_C(86400000000)

enum {
    PS_FIRST_DAY = -719162, /* 0001-01-01 */
    PS_LAST_DAY = 2932896   /* 9999-12-31 */
};

/* Years here begin in March, so the leap day comes last: the days before a month are linear. */
static inline int32_t ps_day_of(int32_t year, int32_t month, int32_t day) {
    int32_t from_march = month > 2 ? month - 3 : month + 9;
    int32_t whole_years = month > 2 ? year : year - 1;
    return whole_years * 365 + whole_years / 4 - whole_years / 100 + whole_years / 400 +
           (153 * from_march + 2) / 5 + day - 719469;
}

static inline void ps_date_of(int32_t day, int *year, int *month, int *day_of_month) {
    int32_t rest = day + 719468; /* since 0000-03-01 */
    int32_t cycles = rest / 146097, centuries, leaps, years, from_march;
    rest %= 146097;
    centuries = rest / 36524 < 3 ? rest / 36524 : 3;
    rest -= centuries * 36524;
    leaps = rest / 1461;
    rest %= 1461;
    years = rest / 365 < 3 ? rest / 365 : 3;
    rest -= years * 365;
    from_march = (5 * rest + 2) / 153;
    *day_of_month = rest - (153 * from_march + 2) / 5 + 1;
    *month = from_march < 10 ? from_march + 3 : from_march - 9;
    *year = 400 * cycles + 100 * centuries + 4 * leaps + years + (from_march >= 10);
}

#endif
