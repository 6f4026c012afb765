/*
 * logarithm.h - log, log2, log10 and log1p.
 *
 * x = 2^k (1 + f), 1 + f between the square roots of 1/2 and 2, and log x = k ln 2 + log(1 + f).
 * With s = 2 f / (2 + f), log(1 + f) = 2 artanh(s/2) = s + s^3 (1/12 + s^2/80 + ...).  s is
 * computed with its error; the rest is at most 0.0034, so its errors matter little.
 */
#pragma once

#include "elementary/numbers.h"

/* A number x = 2^k m, with m between the square roots of 1/2 and 2. */
typedef struct t_split {
    double k, m;
    uint64_t minus_k; /* (1023 - k) << 52, the bits of 2^-k */
} t_split;

/* Splits x, which is positive and normal; adds more_k to k. */
MYLIB_FN t_split split(double x, double more_k)
{
    const uint64_t root = 0x3fe6a09e667f3bcd, bias = (uint64_t)1100 << 52;
    const uint64_t t = bits_of_f64(x) - root + bias, exponent = t >> 52;
    t_split s = {f64_of_bits(exponent | 0x4330000000000000) - (0x1p52 + 1100 - more_k),
                 f64_of_bits((t & 0x000fffffffffffff) + root),
                 bias + ((uint64_t)1023 << 52) - (exponent << 52)};
    return s;
}
/* x may be subnormal. */
MYLIB_FN t_split split_any(double x)
{
    const int is_small = x < 0x1p-1022;
    return split(is_small ? x * 0x1p54 : x, is_small ? -54 : 0);
}

/*
 * (2 artanh(s/2) - s) / s, where z = s^2.  Relative to a logarithm, the error of the fit is 2^-66.
 * Only the rounding of the last addition matters.
 */
MYLIB_FN double log_series(double z)
{
    double p = 0x1.0f0c0b083134ap-20;
    p = horner_3(z, p, 0x1.0f67757f856b8p-18, 0x1.3b20225e3bac8p-16, 0x1.745ce1d4d22e1p-14);
    p = horner_3(z, p, 0x1.c71c724b42bc6p-12, 0x1.24924924399acp-9, 0x1.9999999999d1p-7);
    return FMA(z, 0x1.5555555555555p-4, z * z * p);
}

/*
 * log(1 + f + f_lo) as hi + lo, |f_lo| <= ulp(1 + f) and 1 + f as above.  The roundings of
 * s^2 and of the series are 2^-53 times s^2/12 <= 2^-6.7 each, relative to s: the relative error
 * is 2^-58.6.
 */
MYLIB_FN t_dd log_of_sum(double f, double f_lo)
{
    const double half = 0.5 * f, d = 1 + half, d_lo = (half - (d - 1)) + 0.5 * f_lo;
    const double inverse = inverse_of(d), s = f * inverse;
    const double s_lo = FMA(-s, d_lo, FMA(-s, d, f) + f_lo) * inverse, z = s * s;
    return make_dd(s, FMA(s, log_series(z), FMA(0.25 * z, s_lo, s_lo)));
}
/* log_of_sum(f, 0), without the sums with 0. */
MYLIB_FN t_dd log_of_1_plus(double f)
{
    const double half = 0.5 * f, d = 1 + half, d_lo = half - (d - 1);
    const double inverse = inverse_of(d), s = f * inverse;
    const double s_lo = FMA(-s, d_lo, FMA(-s, d, f)) * inverse, z = s * s;
    return make_dd(s, FMA(s, log_series(z), FMA(0.25 * z, s_lo, s_lo)));
}

/* k ln 2 + (hi + lo). */
MYLIB_FN t_dd add_octaves(double k, t_dd x)
{
    t_dd sum = fast_two_sum(k * 0x1.62e42fefa38p-1, x.hi); /* the product is exact */
    return make_dd(sum.hi, sum.lo + FMA(k, 0x1.ef35793c7673p-45, x.lo));
}

/* For other functions: log(x.hi + x.lo), x.hi > 0, with a relative error of 2^-58. */
MYLIB_FN t_dd log_dd(t_dd x)
{
    const int is_small = x.hi < 0x1p-900;
    const t_split s = split(is_small ? x.hi * 0x1p100 : x.hi, is_small ? -100 : 0);
    const double lo = is_small ? x.lo * 0x1p100 : x.lo;
    /* 2^-k in two steps, since it may be subnormal. */
    const double f_lo = lo * 0.5 * f64_of_bits(s.minus_k + ((uint64_t)1 << 52));
    const t_dd f = fast_two_sum(s.m - 1, f_lo), sum = add_octaves(s.k, log_of_sum(f.hi, f.lo));
    return fast_two_sum(sum.hi, sum.lo);
}
/* For other functions: log(1 + x.hi + x.lo), which is at least 2^-1000, likewise; u = 1 + x.hi. */
MYLIB_FN t_dd log1p_of_sums(t_dd x, t_dd u)
{
    const t_split s = split(u.hi, 0);
    const double small = (u.lo + x.lo) * 0.5;
    const double f_lo = small * f64_of_bits(s.minus_k + ((uint64_t)1 << 52));
    const t_dd f = fast_two_sum(s.m - 1, f_lo);
    /* For k = 0, x itself is f. */
    const int is_near = s.k == 0;
    const t_dd log_m = log_of_sum(is_near ? x.hi : f.hi, is_near ? x.lo : f.lo);
    return add_octaves(s.k, log_m);
}
MYLIB_FN t_dd log1p_sum(t_dd x) { return log1p_of_sums(x, two_sum(1, x.hi)); }
MYLIB_FN t_dd log1p_dd(t_dd x)
{
    const t_dd sum = log1p_sum(x);
    return fast_two_sum(sum.hi, sum.lo);
}

/* `value`, or the logarithm of an x that is not positive and finite. */
MYLIB_FN double log_special(double x, double value)
{
    const double at_most_0 = x == 0 ? -INFINITY_F64 : NAN_F64, above = x < INFINITY_F64 ? value : x;
    return x > 0 ? above : at_most_0;
}
MYLIB_FN double log_special_f32(float x, double value)
{
    const double at_most_0 = x == 0 ? -INFINITY_F64 : NAN_F64;
    const double above = x < (float)INFINITY_F64 ? value : (double)x;
    return x > 0 ? above : at_most_0;
}

/* All within 0.55 ulp: a half, 2^-58.6 of s beside an ulp of at least 2^-54, and the last sum. */
MYLIB_FN double log_of_split(t_split s)
{
    const t_dd sum = add_octaves(s.k, log_of_1_plus(s.m - 1));
    return sum.hi + sum.lo;
}
MYLIB_FN double log_f64(double x) { return log_special(x, log_of_split(split_any(x))); }
/* The inverses of ln 2 and ln 10. */
#define PER_LN_2_HI 0x1.71547652b82fep0
#define PER_LN_2_LO 0x1.777d0ffda0d24p-56
#define PER_LN_10_HI 0x1.bcb7b1526e50ep-2
#define PER_LN_10_LO 0x1.95355baaafad3p-57
/* A natural logarithm times hi + lo, the inverse of another base's logarithm. */
MYLIB_FN t_dd to_base(t_dd x, double hi, double lo)
{
    const t_dd p = two_product(x.hi, hi);
    return make_dd(p.hi, FMA(x.lo, hi, FMA(x.hi, lo, p.lo)));
}
MYLIB_FN double log2_of_split(t_split s)
{
    const t_dd log2_m = to_base(log_of_1_plus(s.m - 1), PER_LN_2_HI, PER_LN_2_LO);
    const t_dd sum = fast_two_sum(s.k, log2_m.hi);
    return sum.hi + (sum.lo + log2_m.lo);
}
MYLIB_FN double log2_f64(double x) { return log_special(x, log2_of_split(split_any(x))); }
MYLIB_FN double log10_of_split(t_split s)
{
    const t_dd log_m = to_base(log_of_1_plus(s.m - 1), PER_LN_10_HI, PER_LN_10_LO);
    const t_dd sum = fast_two_sum(s.k * 0x1.34413509f78p-2, log_m.hi); /* the first is exact */
    return sum.hi + (sum.lo + FMA(s.k, 0x1.fef311f12b358p-46, log_m.lo));
}
MYLIB_FN double log10_f64(double x) { return log_special(x, log10_of_split(split_any(x))); }
/* with_sign_of(log(u), x), where u = 1 + x and inverse is 2^-k. */
MYLIB_FN double log1p_of_split(double x, t_dd u, t_split s, double inverse)
{
    const t_dd f = fast_two_sum(s.m - 1, u.lo * inverse);
    const t_dd sum = add_octaves(s.k, log_of_sum(f.hi, f.lo));
    return with_sign_of(sum.hi + sum.lo, x);
}
MYLIB_FN double log1p_f64(double x)
{
    const t_dd u = two_sum(1, x);
    const t_split s = split(u.hi, 0);
    const double value = log1p_of_split(x, u, s, x < 0x1p100 ? f64_of_bits(s.minus_k) : 0);
    const double result = x < INFINITY_F64 ? value : x;
    return x > -1 ? result : x == -1 ? -INFINITY_F64 : NAN_F64;
}

/* The first bit is 1 unless x is normal, positive and less than a power of 2. */
MYLIB_FN uint64_t is_beyond(double x, double limit)
{
    const uint64_t bits = bits_of_f64(x);
    return (bits - 0x0010000000000000) | (bits_of_f64(limit) - 1 - bits);
}
#define LOG_ORDINARY(op) \
    MYLIB_FN t_quick_f64 op##_ordinary_f64(double x) \
    { \
        const t_quick_f64 quick = {op##_of_split(split(x, 0)), is_beyond(x, INFINITY_F64)}; \
        return quick; \
    }
LOG_ORDINARY(log)
LOG_ORDINARY(log2)
LOG_ORDINARY(log10)
MYLIB_FN t_quick_f64 log1p_ordinary_f64(double x)
{
    const t_dd u = two_sum(1, x);
    const t_split s = split(u.hi, 0);
    const double value = log1p_of_split(x, u, s, f64_of_bits(s.minus_k));
    const t_quick_f64 quick = {value, is_beyond(u.hi, 0x1p100)};
    return quick;
}

/* ---- f32 and f16 ---- */

/* log(1 + f) with a relative error of 2^-52. */
MYLIB_FN double log1p_near_0(double f)
{
    const double s = quotient_near(f, FMA(0.5, f, 1)), z = s * s;
    double p = 0x1.2f03a7536efdep-18;
    p = horner_3(z, p, 0x1.39a1e9e19ae1dp-16, 0x1.74663cedf2903p-14, 0x1.c71c521402ee3p-12);
    p = horner_3(z, p, 0x1.24924941e222cp-9, 0x1.999999997ff06p-7, 0x1.5555555555592p-4);
    return FMA(s * z, p, s);
}
/* Functions of f32 and f16, accurate enough to be rounded to either. */
MYLIB_FN double log_of_positive(float x)
{
    const t_split s = split(x, 0);
    return FMA(s.k, 0x1.62e42fefa39efp-1, log1p_near_0(s.m - 1));
}
MYLIB_FN double log_near(float x) { return log_special_f32(x, log_of_positive(x)); }
MYLIB_FN float log_f32(float x)
{
    float y = mend(x, (float)log_near(x), 0x1.827a74p-7f, -0x1.1c2b1ep2f);
    y = mend(x, y, 0x1.2f1fd6p3f, 0x1.1fcbcep1f);
    y = mend(x, y, 0x1.bacb4ap25f, 0x1.1e0696p4f);
    y = mend(x, y, 0x1.b121a6p76f, 0x1.a9a3f2p5f);
    return mend(x, y, 0x1.6351d8p95f, 0x1.08b512p6f);
}
MYLIB_FN double log2_near(float x)
{
    const t_split s = split(x, 0);
    return log_special_f32(x, FMA(log1p_near_0(s.m - 1), 0x1.71547652b82fep0, s.k));
}
MYLIB_FN double log10_near(float x)
{
    const t_split s = split(x, 0);
    const double log_m = log1p_near_0(s.m - 1) * 0x1.bcb7b1526e50ep-2;
    return log_special_f32(x, FMA(s.k, 0x1.34413509f79ffp-2, log_m));
}
MYLIB_FN float log10_f32(float x)
{
    return mend(x, (float)log10_near(x), 0x1.fddcf4p-98f, -0x1.d33a46p4f);
}
/* x > -1 */
MYLIB_FN double log1p_of_finite(float x)
{
    const double wide = x;
    const t_split s = split(1 + wide, 0);
    const double log_m = log1p_near_0(magnitude_f32(x) < 0.25f ? wide : s.m - 1);
    return with_sign_of(FMA(s.k, 0x1.62e42fefa39efp-1, log_m), wide);
}
MYLIB_FN double log1p_near(float x)
{
    const double result = x < (float)INFINITY_F64 ? log1p_of_finite(x) : (double)x;
    return x > -1 ? result : x == -1 ? -INFINITY_F64 : NAN_F64;
}
MYLIB_FN float log1p_f32(float x)
{
    float y = mend(x, (float)log1p_near(x), 0x1.800006p-21f, 0x1.7ffffep-21f);
    y = mend(x, y, 0x1.200036p-17f, 0x1.1fffe6p-17f);
    y = mend(x, y, 0x1.0f1fd6p3f, 0x1.1fcbcep1f);
    y = mend(x, y, 0x1.b121a6p76f, 0x1.a9a3f2p5f);
    y = mend(x, y, 0x1.6351d8p95f, 0x1.08b512p6f);
    y = mend(x, y, -0x1.7ffffap-21f, -0x1.800002p-21f);
    y = mend(x, y, -0x1.1fffcap-17f, -0x1.20001ap-17f);
    return mend(x, y, -0x1.1d9188p-9f, -0x1.1de14ap-9f);
}
DEFINE_F16(log)
DEFINE_NARROW(log2)
DEFINE_F16(log10)
DEFINE_F16(log1p)
