/*
 * modulus.h - sqrt(x^2 + y^2) of f64: hypot, and the modulus of a complex number.
 */
#pragma once

#include "bits.h"
#include "roots.h"

/*
 * Let x be the larger part and h = sqrt(x^2 + y^2), rounded.  Then h - x is exact (Sterbenz), and
 * x^2 + y^2 - h^2 = y^2 - 2x (h - x) - (h - x)^2 gives the error of h accurately enough for one
 * step of Newton's method.  The result is within 0.87 ulp: 0.5 for the last rounding, and half an
 * ulp of y^2, of 2x (h - x), and twice of (h - x)^2, divided by 2h.  If it is subnormal, it is
 * within 0.94 ulp.
 *
 * All choices compare bits, without branches: that vectorizes, and raises no flags.  Non-negative
 * floats are ordered like their bits.
 */
MYLIB_FN double modulus_f64(double x, double y)
{
    const int64_t infinity = 0x7ff0000000000000;
    int64_t bx = (int64_t)(bits_of_f64(x) & INT64_MAX), by = (int64_t)(bits_of_f64(y) & INT64_MAX);
    int64_t larger = bx > by ? bx : by, smaller = bx > by ? by : bx;
    /* An infinite part makes the modulus infinite, even beside a NaN. */
    int64_t is_infinite = 0 - (int64_t)((bx == infinity) | (by == infinity));
    /* A part below 2^-54 of the other does not matter; its square could underflow. */
    int64_t is_far = (((int64_t)55 << 52) - (larger - smaller)) >> 63;
    /* One of four powers of 2 brings the larger part to between 2^-307 and 2^256. */
    uint64_t unscale = ((uint64_t)larger & 0x6000000000000000) | 0x1000000000000000;
    double scale = f64_of_bits(0x7fe0000000000000 - unscale);
    double ax = f64_of_bits((uint64_t)(larger & ~is_infinite)) * scale;
    double ay = f64_of_bits((uint64_t)(smaller & ~(is_infinite | is_far))) * scale;
    double y2 = ay * ay, h = root_of(ax * ax + y2), d = h - ax;
    double correction = quotient_of((y2 - 2 * ax * d) - d * d, 2 * h + 0x1p-1000); /* 0 for 0 */
    uint64_t bits = bits_of_f64((h + correction) * f64_of_bits(unscale));
    return f64_of_bits(bits | (uint64_t)(infinity & is_infinite)); /* the bits are 0 then */
}
