/*
 * power.h - power: x^y = e^(y log |x|), with the sign of x where y is odd.
 *
 * y log |x| may be as large as 745, so log |x| is computed as a sum with a relative error of 2^-65:
 * as in logarithm.h, except that s^3/12 is a sum too.
 *
 * Constants and their errors are those of scripts/fits/power.py.
 */
#ifndef MYLIB_POWER_H
#define MYLIB_POWER_H

#include "elementary/exponential.h"
#include "elementary/logarithm.h"
#include "elementary/numbers.h"

/*
 * log x = hi + lo, for x positive and finite, with a relative error of 2^-65.5, that of p: p z^2
 * is 2^-12.5 of s at most.  The error of the fit is 2^-73.
 */
MYLIB_FN_IN_LINE t_dd log_to_64_bits(double x)
{
    const t_split split = split_any(x);
    const double f = split.m - 1, half = 0.5 * f, d = 1 + half, d_lo = half - (d - 1);
    const double inverse = 1 / d, s = f * inverse;
    const double s_lo = FMA(-s, d_lo, FMA(-s, d, f)) * inverse;
    const double z = s * s, z_lo = FMA(s + s, s_lo, FMA(s, s, -z)), z2 = z * z, z4 = z2 * z2;
    /* Pairs shorten the chain of dependent steps; only the last rounding of p counts. */
    const double p0 = FMA(z, 0x1.c71c71c4bb907p-12, 0x1.24924924939dp-9);
    const double p1 = FMA(z, 0x1.3b1353502516p-16, 0x1.745d1879d440bp-14);
    const double p2 = FMA(z, 0x1.ddef0a4a42364p-21, 0x1.1122a8197f7eap-18);
    const double p3 = FMA(z2, 0x1.ed0831ed0b8ebp-23, p2);
    const double p = FMA(z, FMA(z4, p3, FMA(z2, p1, p0)), 0x1.999999999998ep-7);
    const double series = FMA(p, z, 0x1.5555555555555p-4);
    const double sum_lo = FMA(p, z, 0x1.5555555555555p-4 - series) + 0x1.59ad6f2cc056ap-58;
    const double series_lo = FMA(z_lo, p, sum_lo); /* p is near the derivative */
    /* w = z series, t = s w; sums of a double and a small rest, which need not be normal. */
    const double w = z * series;
    const double w_lo = FMA(z, series_lo, FMA(z_lo, series, FMA(z, series, -w)));
    const double t = s * w, t_lo = FMA(s, w_lo, FMA(s_lo, w, FMA(s, w, -t)));
    const t_dd a = fast_two_sum(split.k * 0x1.62e42fefa38p-1, s), b = fast_two_sum(a.hi, t);
    const double lo = FMA(split.k, 0x1.ef35793c7673p-45, (s_lo + t_lo) + a.lo);
    return make_dd(b.hi, b.lo + lo);
}

/* y * log, or the nearer of two limits, beyond which e^ of it is 0 or infinite. */
MYLIB_FN_IN_LINE t_dd power_exponent(double y, t_dd log, double low, double high)
{
    const double p = y * log.hi, p_lo = FMA(y, log.lo, FMA(y, log.hi, -p));
    const double above = p < low ? low : p, within = above > high ? high : above;
    return make_dd(within, within == p ? p_lo : 0);
}
/* The hi of log |x|, where |x| is 0, 1 or infinite. */
MYLIB_FN_IN_LINE t_dd power_log_special(double size, t_dd log)
{
    const double hi = size < INFINITY_F64 ? log.hi : INFINITY_F64;
    const double lo = size < INFINITY_F64 ? log.lo : 0;
    return make_dd(size == 0 ? -INFINITY_F64 : hi, size == 0 ? 0 : lo);
}
MYLIB_FN int is_integer(double y)
{
    const double size = magnitude(y);
    return (size >= 0x1p52) | ((size + 0x1p52) - 0x1p52 == size);
}
/* The sign, and C's special cases (Annex F.10.4.4), put upon |x|^y. */
MYLIB_FN_IN_LINE double power_special(double x, double y, double result)
{
    const int is_odd = is_integer(y) & !is_integer(0.5 * y);
    const uint64_t sign = is_odd ? bits_of_f64(x) & SIGN_BIT_F64 : 0;
    const double signed_result = f64_of_bits(bits_of_f64(result) | sign);
    const int is_negative = (x < 0) & (x > -INFINITY_F64), is_broken = is_integer(y) ^ 1;
    const int is_domain = is_negative & is_broken;
    const double real = is_domain ? NAN_F64 : signed_result;
    const int is_nan = (x != x) | (y != y);
    const double number = is_nan ? x + y : real;
    const int is_one = (x == 1) | (y == 0) | ((x == -1) & (magnitude(y) == INFINITY_F64));
    return is_one ? 1 : number;
}

/*
 * Within 0.75 ulp, and x * x where y is 2: a half; 745 * 2^-65.5 <= 2^-55.9 of the logarithm beside
 * an ulp of at least 2^-53, less where the exponent is small; and 2^-59 of e^r.
 */
MYLIB_FN double power_f64(double x, double y)
{
    const double size = magnitude(x);
    const t_dd log = power_log_special(size, log_to_64_bits(size));
    const t_scaled e = exp_scaled_dd(power_exponent(y, log, -746, 710));
    const double finite = unscale(e.hi, e.lo, e.n);
    /* The bits of a result that overflows exceed those of infinity as integers. */
    const int is_large = (int64_t)bits_of_f64(finite) > (int64_t)BITS_OF_INFINITY_F64;
    const double power = power_special(x, y, is_large ? INFINITY_F64 : finite);
    return y == 2 ? x * x : power;
}

/* ---- f32 and f16 --------------------------------------------------------------------------- */

/* |x|^y with a relative error of 2^-53 - 2^-57, for f32 and f16; large or tiny beyond them. */
MYLIB_FN_IN_LINE double power_size_near(double x, double y)
{
    const double size = magnitude(x);
    const t_dd log = power_log_special(size, log_to_64_bits(size));
    const t_scaled e = exp_scaled_dd(power_exponent(y, log, -280, 280));
    return (e.hi + e.lo) * power_of_2(e.n);
}
MYLIB_FN t_f16 power_f16(t_f16 x, t_f16 y)
{
    const double wide_x = f64_from_f16(x), wide_y = f64_from_f16(y);
    return f16_from_f64(power_special(wide_x, wide_y, power_size_near(wide_x, wide_y)));
}

MYLIB_FN float power_easy_f32(float x, float y)
{
    return (float)power_special(x, y, power_size_near(x, y));
}
/*
 * 1 where the double is exactly in the middle of two floats.  It is so rarely, or where x^y itself
 * is; elsewhere the double and x^y lie on the same side of the middle.
 */
MYLIB_FN int power_is_hard_f32(float x, float y)
{
    const double near = power_size_near(x, y);
    /* 0 in the middle, and less than 2^63; gcc wants integers of one size. */
    const uint64_t from_middle = (bits_of_f64(near) & 0x1fffffff) ^ 0x10000000;
    /* A subnormal float is a multiple of 2^-149, and a middle an odd multiple of 2^-150. */
    const double half = near * 0x1p149, rest = magnitude(half - nearest_integer(half));
    const uint64_t from_odd = bits_of_f64(rest) ^ bits_of_f64(0.5);
    const uint64_t from_normal = near < 0x1p129 ? from_middle : 1;
    return (int)(((near < 0x1p-126 ? from_odd : from_normal) - 1) >> 63);
}
/*
 * Computes in numbers of twice the precision: the error is 2^-95 of the result.  x^y is taken for a
 * double that is nearer than 2^-90 to it.  Only x^y that are doubles are so near to one, because
 * fewer than 2^63 pairs have finite results.
 */
MYLIB_FN_APART float power_hard_f32(float x, float y)
{
    const t_split split = split_any(magnitude(x));
    const t_dd s = dd_divide(make_dd(split.m - 1, 0), fast_two_sum(2, split.m - 1));
    const t_dd z = dd_multiply(s, s);
    t_dd sum = make_dd(0, 0);
    for (int k = 25; k >= 0; k--)
        sum = dd_add(dd_multiply(z, sum), dd_divide(make_dd(1, 0), make_dd(2 * k + 1, 0)));
    sum = dd_multiply(sum, make_dd(2 * s.hi, 2 * s.lo));
    /* ln 2 in three parts, of which the product with the first is exact. */
    sum = dd_add(sum, dd_add_f64(two_product(split.k, 0x1.ef35793c7673p-45),
                                 split.k * 0x1.f97b57a079a19p-103));
    const t_dd log = dd_add_f64(sum, split.k * 0x1.62e42fefa38p-1);
    const t_dd p = dd_multiply_f64(log, y);
    const double n = nearest_integer(clamp_to(p.hi, 280) * 0x1.71547652b82fep0);
    t_dd r = dd_add_f64(p, -n * 0x1.62e42fefa38p-1);
    r = dd_add(r, dd_add_f64(two_product(-n, 0x1.ef35793c7673p-45), -n * 0x1.f97b57a079a19p-103));
    t_dd e = make_dd(1, 0);
    for (int k = 27; k >= 1; k--)
        e = dd_add_f64(dd_divide(dd_multiply(e, r), make_dd(k, 0)), 1);
    /* Round to odd: rounding to f32 then sees on which side of the middle x^y is. */
    uint64_t bits = bits_of_f64(e.hi);
    if (magnitude(e.lo) > 0x1p-90 && (bits & 1) == 0)
        bits += e.lo > 0 ? 1 : UINT64_MAX;
    const double result = f64_of_bits(bits) * power_of_2(integer_bits(n + INTEGER_MAGIC));
    return (float)power_special(x, y, result);
}
MYLIB_FN float power_f32(float x, float y)
{
    return power_is_hard_f32(x, y) ? power_hard_f32(x, y) : power_easy_f32(x, y);
}

#endif /* MYLIB_POWER_H */
