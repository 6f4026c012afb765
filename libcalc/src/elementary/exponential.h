/*
 * exponential.h - exp, exp2 and expm1.
 *
 * With n the integer nearest to x / ln 2, x = n ln 2 + r and e^x = 2^n e^r, |r| <= 0.3466.  r is a
 * sum rh + rl, and e^r = 1 + rh + rh^2/2 + tail, whose first three terms are added with their
 * errors; the tail, from rh^3/6 on, is at most 0.007, so its errors matter little.
 */
#pragma once

#include "elementary/numbers.h"

/* 2^n (hi + lo), where hi + lo is between 1/2 and 2, and |lo| may be as large as 2^-6. */
typedef struct t_scaled {
    double hi, lo;
    int64_t n;
} t_scaled;

/* r = rh + rl, where x = n ln 2 + r; n also as an integer. */
typedef struct t_reduced {
    double rh, rl;
    int64_t n;
} t_reduced;

/* For |x| <= 2^15; rh + rl has an absolute error of 2^-85. */
MYLIB_FN t_reduced reduce_exp(double x)
{
    const double m = FMA(x, 0x1.71547652b82fep0, INTEGER_MAGIC), n = m - INTEGER_MAGIC;
    const double a = FMA(-n, 0x1.62e42fefa38p-1, x); /* exact: ln 2 has 42 bits here */
    const double rh = FMA(-n, 0x1.ef35793c7673p-45, a);
    t_reduced r = {rh, FMA(-n, 0x1.ef35793c7673p-45, a - rh), integer_bits(m)};
    return r;
}
/* For 2^x = 2^n e^r. */
MYLIB_FN t_reduced reduce_exp2(double x)
{
    const double m = x + INTEGER_MAGIC, f = x - (m - INTEGER_MAGIC);
    const double rh = f * 0x1.62e42fefa39efp-1, rest = FMA(f, 0x1.62e42fefa39efp-1, -rh);
    t_reduced r = {rh, FMA(f, 0x1.abc9e3b39803fp-56, rest), integer_bits(m)};
    return r;
}

/*
 * 2 (e^r - 1 - r - r^2/2) / r^2, where square is r^2/2 rounded.  Relative to e^r - 1, the error of
 * the fit is 2^-61.3.  Only the rounding of the last addition matters.
 */
MYLIB_FN double exp_tail(double r, double square)
{
    double p = 0x1.1f74dfcbc309dp-27;
    p = FMA(p, r, 0x1.af61290661cb1p-24);
    p = FMA(p, r, 0x1.27e4ddf3067e5p-20);
    p = horner_3(r, p, 0x1.71ddf7107aaa3p-17, 0x1.a01a01a39aebap-14, 0x1.a01a01b052ae1p-11);
    p = horner_3(r, p, 0x1.6c16c16c174dcp-8, 0x1.111111110f5ep-5, 0x1.5555555555552p-3);
    return FMA(r, 0x1.5555555555559p-2, square * p);
}

/*
 * e^r - 1 and e^r as hi + lo, with |lo| up to 2^-7: hi is rounded from r + r^2/2, or with 1 added.
 * The tail is at most 0.0069.  In e^r - 1 only its own rounding matters: the absolute error is
 * 2^-60.  In e^r that of the square does too: 2^-59.  The error shrinks with r^3.
 */
MYLIB_FN t_dd expm1_of_reduced(t_reduced r)
{
    const double half = 0.5 * r.rh, square = half * r.rh, square_lo = FMA(half, r.rh, -square);
    const double hi = r.rh + square, error = (r.rh - hi) + square;
    const double tail = exp_tail(r.rh, square);
    const double low = FMA(square_lo, tail, square_lo) + (FMA(r.rl, hi, r.rl) + error);
    return make_dd(hi, FMA(square, tail, low));
}
MYLIB_FN t_dd exp_of_reduced(t_reduced r)
{
    const double one = 1 + r.rh, one_error = r.rh - (one - 1);
    const double half = 0.5 * r.rh, square = half * r.rh;
    const double hi = FMA(half, r.rh, one), error = FMA(half, r.rh, one - hi);
    const double low = FMA(r.rl, hi, one_error) + error;
    return make_dd(hi, FMA(square, exp_tail(r.rh, square), low));
}

/*
 * For other functions: e^x with a relative error of 2^-58, |x| <= 2^15; also for a sum x, with
 * |x.lo| <= ulp(x.hi).
 */
MYLIB_FN t_scaled exp_scaled(double x)
{
    t_reduced r = reduce_exp(x);
    t_dd e = exp_of_reduced(r);
    t_scaled scaled = {e.hi, e.lo, r.n};
    return scaled;
}
MYLIB_FN t_scaled exp_scaled_dd(t_dd x)
{
    t_reduced r = reduce_exp(x.hi);
    t_dd sum = two_sum(r.rh, r.rl + x.lo);
    r.rh = sum.hi;
    r.rl = sum.lo;
    t_dd e = exp_of_reduced(r);
    t_scaled scaled = {e.hi, e.lo, r.n};
    return scaled;
}

/*
 * 2^n (hi + lo), rounded once, if it does not overflow; hi + lo is between 1/2 and 2, and -1100 <=
 * n <= 1024.  A subnormal result stands in the last bits of a sum with a power of 2, as in
 * scale_sum().
 */
MYLIB_FN double unscale(double hi, double lo, int64_t n)
{
    const uint64_t normal = bits_of_f64(hi + lo) + ((uint64_t)n << 52);
    const uint64_t m_bits = (uint64_t)(1 - n) << 52;
    const double m = f64_of_bits(m_bits), sum = m + hi, rounded = sum + ((hi - (sum - m)) + lo);
    const uint64_t subnormal = bits_of_f64(rounded) - m_bits;
    return f64_of_bits((int64_t)normal < (int64_t)1 << 52 ? subnormal : normal);
}

/* Within 0.54 ulp: a half, and 2^-58.6 beside an ulp of at least 2^-53. */
MYLIB_FN double exp_f64(double x)
{
    t_scaled e = exp_scaled(x < -746 ? -746 : x);
    const double result = unscale(e.hi, e.lo, e.n);
    return x <= 0x1.62e42fefa39efp9 ? result : x + INFINITY_F64;
}
/* x beyond +-708 is rare: the result may be subnormal or infinite. */
MYLIB_FN t_quick_f64 exp_ordinary_f64(double x)
{
    const t_scaled e = exp_scaled(x);
    const uint64_t bits = bits_of_f64(e.hi + e.lo) + ((uint64_t)e.n << 52);
    const t_quick_f64 quick = {f64_of_bits(bits), 0x4086200000000000 - bits_of_f64(magnitude(x))};
    return quick;
}
/* Within 0.54 ulp. */
MYLIB_FN double exp2_f64(double x)
{
    t_reduced r = reduce_exp2(x < -1080 ? -1080 : x);
    t_dd e = exp_of_reduced(r);
    const double result = unscale(e.hi, e.lo, r.n);
    return x < 1024 ? result : x + INFINITY_F64;
}
/* x beyond +-1022 is rare. */
MYLIB_FN t_quick_f64 exp2_ordinary_f64(double x)
{
    const t_reduced r = reduce_exp2(x);
    const t_dd e = exp_of_reduced(r);
    const uint64_t bits = bits_of_f64(e.hi + e.lo) + ((uint64_t)r.n << 52);
    const t_quick_f64 quick = {f64_of_bits(bits), 0x408ff00000000000 - bits_of_f64(magnitude(x))};
    return quick;
}

/*
 * e^x - 1 = 2^n ((1 - 2^-n) + (e^r - 1)).  Within 0.55 ulp: the error of the sum, 2^-58.6, counts
 * most where n = 1 and the sum is 0.207.
 */
MYLIB_FN double expm1_f64(double x)
{
    t_reduced r = reduce_exp(x < -40 ? -40 : x);
    t_dd s = expm1_of_reduced(r);
    const double inverse = r.n > 60 ? 0 : power_of_2(-r.n);
    t_dd one = two_sum(1, -inverse), sum = fast_two_sum(one.hi, s.hi);
    const double v = sum.hi + (sum.lo + (one.lo + s.lo));
    const double result = f64_of_bits(bits_of_f64(v) + ((uint64_t)r.n << 52));
    return x <= 0x1.62e42fefa39efp9 ? with_sign_of(result, x) : x + INFINITY_F64;
}

/* ---- f32 and f16 ---- */

/* INTEGER_MAGIC + 1023: the sum with n has 2^n in its last bits, shifted by 52. */
#define EXPONENT_MAGIC 0x1.80000000003ffp52

/* (e^r - 1) / r, with a relative error of 2^-55.5. */
MYLIB_FN double exp_slope(double r)
{
    double p = 0x1.ae7fb59fa36e7p-26;
    p = horner_3(r, p, 0x1.28a27a1f0a9e5p-22, 0x1.71de7b325e233p-19, 0x1.a019a6b60cda2p-16);
    p = horner_3(r, p, 0x1.a01a017af6bbdp-13, 0x1.6c16c17f28c76p-10, 0x1.1111111117ddcp-7);
    p = horner_3(r, p, 0x1.555555555211fp-5, 0x1.555555555553ep-3, 0x1.0000000000005p-1);
    return FMA(p, r, 1);
}
/* (2^f - 1) / f; its error changes 2^f by 2^-57.5. */
MYLIB_FN double exp2_slope(double f)
{
    double p = 0x1.ec8ba97f65a15p-32;
    p = horner_3(f, p, 0x1.e61dcc21b6ec9p-28, 0x1.b523138aaa341p-24, 0x1.62bfc60f5590bp-20);
    p = horner_3(f, p, 0x1.ffcbfd5fb0902p-17, 0x1.4309130f862b6p-13, 0x1.5d87fe786dd29p-10);
    p = horner_3(f, p, 0x1.3b2ab6fb9fd4fp-7, 0x1.c6b08d704a1fcp-5, 0x1.ebfbdff82c5a6p-3);
    return FMA(p, f, 0x1.62e42fefa39efp-1);
}

/* x, or the nearer of -limit and limit; NaN for NaN. */
MYLIB_FN double clamp_to(double x, double limit)
{
    const double above = x < -limit ? -limit : x;
    return above > limit ? limit : above;
}
MYLIB_FN float clamp_f32(float x, float limit)
{
    const float above = x < -limit ? -limit : x;
    return above > limit ? limit : above;
}

/* With a relative error of 2^-52, to be rounded to f32 or f16; large where those overflow. */
MYLIB_FN double exp_within(double within) /* -200 to 200 */
{
    const double m = FMA(within, 0x1.71547652b82fep0, EXPONENT_MAGIC), n = m - EXPONENT_MAGIC;
    const double a = FMA(-n, 0x1.62e42fefa38p-1, within), r = FMA(-n, 0x1.ef35793c7673p-45, a);
    return FMA(r, exp_slope(r), 1) * f64_of_bits(bits_of_f64(m) << 52);
}
MYLIB_FN double exp_near(float x) { return exp_within(clamp_f32(x, 200)); }
MYLIB_FN double exp2_near(float x)
{
    const double within = clamp_f32(x, 300);
    const double m = within + EXPONENT_MAGIC, f = within - (m - EXPONENT_MAGIC);
    return FMA(f, exp2_slope(f), 1) * f64_of_bits(bits_of_f64(m) << 52);
}
MYLIB_FN float exp2_f32(float x)
{
    const float y = mend(x, (float)exp2_near(x), 0x1.853a6ep-9f, 0x1.00870ap0f);
    return mend(x, y, -0x1.e7526ep-6f, 0x1.f58d62p-1f);
}
MYLIB_FN double expm1_within(double within) /* -200 to 200 */
{
    const double m = FMA(within, 0x1.71547652b82fep0, EXPONENT_MAGIC), n = m - EXPONENT_MAGIC;
    const double a = FMA(-n, 0x1.62e42fefa38p-1, within), r = FMA(-n, 0x1.ef35793c7673p-45, a);
    const double scale = f64_of_bits(bits_of_f64(m) << 52);
    return with_sign_of(FMA(r * exp_slope(r), scale, scale - 1), within);
}
MYLIB_FN double expm1_near(float x) { return expm1_within(clamp_f32(x, 200)); }
DEFINE_NARROW(exp)
DEFINE_F16(exp2)
DEFINE_NARROW(expm1)
