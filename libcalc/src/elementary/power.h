/*
 * power.h - power: x^y = e^(y log |x|), with the sign of x if y is odd.
 *
 * y log |x| may be as large as 745, so log |x| is a sum with a relative error of 2^-65.3: as in
 * logarithm.h, except that s^3/12 is a sum too.  The exponential is that of exponential.h.  Both
 * have short dependency chains.
 */
#pragma once

#include "elementary/exponential.h"
#include "elementary/logarithm.h"
#include "elementary/numbers.h"

#include <math.h>

/*
 * log(2^k m) = hi + lo.  The series is 1/12 + z/80 + ..., z = s^2; the error of the fit is 2^-66.6,
 * and that of p z, by its last addition, 2^-66.2, since p z^2 is at most 2^-12.5 of s.
 */
MYLIB_FN_IN_LINE t_dd power_log(t_split split)
{
    const double f = split.m - 1, half = 0.5 * f;
    const double inverse = inverse_of(FMA(split.m, 0.5, 0.5)), s = f * inverse;
    const double s_lo = FMA(-s, half, f - s) * inverse; /* f - s is exact */
    const double z = s * s, z_lo = FMA(s, s, -z), z2 = z * z, z4 = z2 * z2;
    const double p0 = FMA(z, 0x1.c71c7258d7039p-12, 0x1.249249242b656p-9);
    const double p1 = FMA(z, 0x1.3b20a9d7008b2p-16, 0x1.745cde409b947p-14);
    const double p2 = FMA(z, 0x1.0f61df07d3a96p-20, 0x1.0f5cecff710cp-18);
    const double p = FMA(z, FMA(z4, p2, FMA(z2, p1, p0)), 0x1.9999999999dfdp-7);
    const double series = FMA(p, z, 0x1.5555555555555p-4);
    const double series_lo =
        FMA(p, z, 0x1.5555555555555p-4 - series) + FMA(z_lo, p, -0x1.6d485233214d4p-59);
    /* cube = s^3, t = s^3 series; sums of a double and a small rest, which need not be normal. */
    const double cube = s * z, cube_lo = FMA(s, z_lo, FMA(s, z, -cube));
    const double t = cube * series;
    const double t_lo = FMA(cube, series_lo, FMA(cube_lo, series, FMA(cube, series, -t)));
    /* s_lo times the derivative 1 / (1 - z/4), to 2^-17.5; a little over 1/16 makes up for z^3. */
    const double more = FMA(s_lo * z, FMA(z, 0x1.06p-4, 0.25), s_lo);
    const double a = FMA(split.k, 0x1.62e42fefa38p-1, s); /* the product is exact */
    const double a_lo = s - FMA(-split.k, 0x1.62e42fefa38p-1, a);
    const double hi = a + t, hi_lo = t - (hi - a);
    return make_dd(hi, (FMA(split.k, 0x1.ef35793c7673p-45, more) + (a_lo + hi_lo)) + t_lo);
}

/*
 * e^(p + p_lo) for |p| <= 2^10 and |p_lo| <= 2^-41, with a relative error of 2^-58.5: exp_scaled()
 * of p - n ln 2, but the last bits of ln 2 go into a factor 1 + rest.
 */
MYLIB_FN_IN_LINE t_scaled power_exp(double p, double p_lo)
{
    const double m = FMA(p, 0x1.71547652b82fep0, INTEGER_MAGIC), n = m - INTEGER_MAGIC;
    const double r = FMA(-n, 0x1.62e42fefa38p-1, p); /* exact */
    const double rest = FMA(-n, 0x1.ef35793c7673p-45, p_lo);
    const double one = 1 + r, one_error = r - (one - 1), half = 0.5 * r;
    const double hi = FMA(half, r, one), error = FMA(half, r, one - hi) + one_error;
    const double r2 = r * r, r4 = r2 * r2;
    const double p0 = FMA(r, 0x1.111111110f5ep-7, 0x1.5555555555552p-5);
    const double p1 = FMA(r, 0x1.a01a01b052ae1p-13, 0x1.6c16c16c174dcp-10);
    const double p2 = FMA(r, 0x1.71ddf7107aaa3p-19, 0x1.a01a01a39aebap-16);
    const double p3 = FMA(r, 0x1.af61290661cb1p-26, 0x1.27e4ddf3067e5p-22);
    const double low_terms = FMA(r2, p1, p0);
    const double high_terms = FMA(r4, 0x1.1f74dfcbc309dp-29, FMA(r2, p3, p2));
    const double tail = FMA(r, 0x1.5555555555559p-3, r2 * FMA(r4, high_terms, low_terms));
    const double lo = FMA(r2, tail, error), e = FMA(r2, tail, hi);
    const t_scaled scaled = {hi, FMA(rest, e, lo), integer_bits(m)};
    return scaled;
}

MYLIB_FN int is_integer(double y) { return rint(y) == y; }

/*
 * The sign, and C's special cases (Annex F.10.4.4), applied to |x|^y.  `size` may be anything if x
 * is 0 or infinite.
 */
#define DEFINE_POWER_SPECIAL(s, T, U, round, sign_bit) \
    MYLIB_FN_IN_LINE T power_special_##s(T x, T y, T size) \
    { \
        const T infinity = (T)INFINITY_F64, half = (T)0.5 * y; \
        const int is_whole = round(y) == y, is_odd = is_whole & (round(half) != half); \
        const T at_end = ((x == 0) == (y < 0)) ? infinity : 0; \
        const int is_end = (x == 0) | (x == infinity) | (x == -infinity); \
        const T number = is_end ? at_end : size; \
        const U sign = is_odd ? bits_of_##s(x) & (sign_bit) : 0; \
        const T signed_number = s##_of_bits(bits_of_##s(number) | sign); \
        const int is_domain = (x < 0) & (x > -infinity) & (is_whole ^ 1); \
        const T real = is_domain ? (T)NAN_F64 : signed_number; \
        const int is_nan = (x != x) | (y != y); \
        const T result = is_nan ? x + y : real; \
        const int is_turn = (x == -1) & ((y == infinity) | (y == -infinity)); \
        const int is_one = (x == 1) | (y == 0) | is_turn; \
        return is_one ? 1 : result; \
    }
DEFINE_POWER_SPECIAL(f32, float, uint32_t, rintf, 0x80000000)
DEFINE_POWER_SPECIAL(f64, double, uint64_t, rint, SIGN_BIT_F64)

/* ---- f64 ---- */

/*
 * Within 0.67 ulp: a half; 710 * 2^-65.3 = 2^-55.8 of the logarithm beside an ulp of at least
 * 2^-53; and 2^-58.5 of e^r.  If y is 2, x * x.
 *
 * The two steps leave out rare cases: 0, numbers that are not normal, infinite results, NaNs.
 */
MYLIB_FN_IN_LINE t_dd power_first_f64(double x) { return power_log(split(magnitude(x), 0)); }
MYLIB_FN_IN_LINE double power_second_f64(double x, double y, t_dd log)
{
    const double p = y * log.hi;
    const t_scaled e = power_exp(p, FMA(y, log.lo, FMA(y, log.hi, -p)));
    const uint64_t size = bits_of_f64(e.hi + e.lo) + ((uint64_t)e.n << 52);
    const double half = 0.5 * y;
    const uint64_t sign = rint(half) == half ? 0 : bits_of_f64(x) & SIGN_BIT_F64;
    return y == 2 ? x * x : f64_of_bits(size | sign);
}
/*
 * 1 beyond these limits and for NaNs, where a difference is negative, and for negative x if y is
 * not whole.
 */
MYLIB_FN_IN_LINE uint64_t power_is_rare_f64(double x, double y, t_dd log)
{
    const uint64_t log_size = bits_of_f64(log.hi) & ~SIGN_BIT_F64;
    const uint64_t size = bits_of_f64(y * log.hi) & ~SIGN_BIT_F64;
    const uint64_t is_broken = rint(y) == y ? 0 : bits_of_f64(x);
    return (is_broken | (0x4086200000000000 - log_size) | (0x4086000000000000 - size)) >> 63;
}

/* Any x and y. */
MYLIB_FN double power_f64(double x, double y)
{
    const t_dd log = power_log(split_any(magnitude(x)));
    const double p = y * log.hi, p_lo = FMA(y, log.lo, FMA(y, log.hi, -p));
    /* Beyond these limits, e^p is 0 or infinite. */
    const double above = p < -746 ? -746 : p, within = above > 710 ? 710 : above;
    const t_scaled e = power_exp(within, within == p ? p_lo : 0);
    const double finite = unscale(e.hi, e.lo, e.n);
    /* As an integer, a result that overflows exceeds infinity. */
    const int is_large = (int64_t)bits_of_f64(finite) > (int64_t)BITS_OF_INFINITY_F64;
    const double power = power_special_f64(x, y, is_large ? INFINITY_F64 : finite);
    return y == 2 ? x * x : power;
}

/* ---- f32 and f16 ---- */

/*
 * |x|^y of f32 has a relative error of 2^-43.9 in double: 2^-50.7 of log |x|, also on a GPU, times
 * y log |x|, which is at most 104 if the result is neither 0 nor infinite; and 2^-52 of the
 * exponential.
 */
MYLIB_FN_IN_LINE double power_log_near(double x)
{
    const t_split s = split(magnitude(x), 0);
    return FMA(s.k, 0x1.62e42fefa39efp-1, log1p_near_0(s.m - 1));
}
/*
 * The sum rounds to 41 bits.  So powers in the middle of two f16 are exact, and all others stay on
 * their side of it: all pairs of f16 were tried.
 */
MYLIB_FN t_f16 power_f16(t_f16 x, t_f16 y)
{
    const double wide_x = f64_from_f16(x), wide_y = f64_from_f16(y);
    const double near = exp_within(clamp_to(wide_y * power_log_near(wide_x), 200)),
                 more = near * 0x1p12;
    return f16_from_f64(power_special_f64(wide_x, wide_y, (near + more) - more));
}

MYLIB_FN_IN_LINE t_dd power_first_f32(float x) { return make_dd(power_log_near(x), 0); }
#define POWER_ERROR_F32 0x1.8p-44
MYLIB_FN_IN_LINE float power_second_f32(float x, float y, t_dd log)
{
    const double near = exp_within(clamp_to(y * log.hi, 200));
    return power_special_f32(x, y, (float)(near * (1 - POWER_ERROR_F32)));
}
/* 1 if the two ends of the error round to different floats. */
MYLIB_FN_IN_LINE uint32_t power_is_rare_f32(float x, float y, t_dd log)
{
    const double near = exp_within(clamp_to(y * log.hi, 200));
    (void)x;
    return (float)(near * (1 - POWER_ERROR_F32)) < (float)(near * (1 + POWER_ERROR_F32));
}
/*
 * Computes in numbers of twice the precision; the relative error is 2^-95.  A double within 2^-90
 * of the result is taken for x^y: fewer than 2^63 pairs have finite results, so only an x^y that is
 * a double is so near to one.
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
    /* ln 2 in three parts; the product with the first is exact. */
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
    /* Round to odd, so that rounding to f32 sees on which side of the middle x^y is. */
    uint64_t bits = bits_of_f64(e.hi);
    if (magnitude(e.lo) > 0x1p-90 && (bits & 1) == 0)
        bits += e.lo > 0 ? 1 : UINT64_MAX;
    const double result = f64_of_bits(bits) * power_of_2(integer_bits(n + INTEGER_MAGIC));
    return power_special_f32(x, y, (float)result);
}
MYLIB_FN float power_f32(float x, float y)
{
    const t_dd log = power_first_f32(x);
    return power_is_rare_f32(x, y, log) ? power_hard_f32(x, y) : power_second_f32(x, y, log);
}
