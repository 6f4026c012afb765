/*
 * hypot.h - sqrt(x^2 + y^2) of f16, f32 and f64.
 */
#pragma once

#include "elementary/numbers.h"
#include "modulus.h"

MYLIB_FN double hypot_f64(double x, double y) { return modulus_f64(x, y); }

MYLIB_FN int is_infinite_f64(double x) { return magnitude(x) == INFINITY_F64; }

/*
 * sqrt(x^2 + y^2), to odd, for x and y that are f32 or f16.  The squares are exact, and so is the
 * remainder s - r^2 of a square root r of s, which tells on which side of r the result is.
 */
MYLIB_FN double hypot_to_odd(double x, double y)
{
    const t_dd sum = two_sum(x * x, y * y);
    const double root = root_of(sum.hi), rest = FMA(-root, root, sum.hi) + sum.lo;
    const double odd = to_odd(root, rest);
    return (is_infinite_f64(x) | is_infinite_f64(y)) ? INFINITY_F64 : odd;
}
MYLIB_FN float hypot_f32(float x, float y) { return (float)hypot_to_odd(x, y); }
MYLIB_FN t_f16 hypot_f16(t_f16 x, t_f16 y)
{
    return f16_from_f64(hypot_to_odd(f64_from_f16(x), f64_from_f16(y)));
}
