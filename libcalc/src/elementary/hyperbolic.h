/*
 * hyperbolic.h - sinh, cosh, tanh and their inverses, and logaddexp.
 *
 * Each computes hi + lo with a relative error of about 2^-56, from which all types are rounded.
 * Constants and their errors are those of scripts/fits/hyperbolic.py.
 */
#ifndef MYLIB_HYPERBOLIC_H
#define MYLIB_HYPERBOLIC_H

#include "elementary/exponential.h"
#include "elementary/hypot.h"
#include "elementary/logarithm.h"

/* hi + lo, not negative or NaN, as one double that a rounding to f32 or f16 leaves correct. */
MYLIB_FN double dd_to_odd(t_dd x)
{
    const t_dd sum = fast_two_sum(x.hi, x.lo);
    return x.hi < INFINITY_F64 ? to_odd(sum.hi, sum.lo) : x.hi;
}

/* op_f32 and op_f16 of a function op_wide(), hi + lo of |x|, which sign() makes odd or even. */
#define DEFINE_WIDE(op, sign)                                                                      \
    MYLIB_FN double op##_odd(double x) { return sign(dd_to_odd(op##_wide(magnitude(x))), x); }     \
    MYLIB_FN float op##_f32(float x) { return (float)op##_odd(x); }                                \
    MYLIB_FN t_f16 op##_f16(t_f16 x) { return f16_from_f64(op##_odd(f64_from_f16(x))); }
MYLIB_FN double without_sign(double value, double x)
{
    (void)x;
    return value;
}

/* ---- sinh, cosh, tanh ---------------------------------------------------------------------- */

/*
 * With x = n ln 2 + r, a = 2^(n - 1) and b = 2^(-n - 1), both times scale:
 *
 *     sinh x = (a - b) cosh r + (a + b) sinh r
 *     cosh x = (a + b) cosh r + (a - b) sinh r
 *
 * cosh r = 1 + c and sinh r = r + s; the terms in c and s are at most an eighth of the result.
 * The leading ones are added with their errors.  0 <= x, n <= 1025.
 */
typedef struct t_halves {
    double r, rl, s, c, plus, plus_lo, minus, minus_lo;
} t_halves;

MYLIB_FN t_halves halves_of_exp(double x, double scale)
{
    const t_reduced q = reduce_exp(x);
    const double r = q.rh, z = r * r;
    double s = FMA(z, 0x1.82c3faf7e2e06p-33, 0x1.ae4ccb23bcad4p-26);
    double c = FMA(z, 0x1.1f8bee0c06545p-29, 0x1.27e4cc096f874p-22);
    s = FMA(z, s, 0x1.71de40834fddfp-19);
    c = FMA(z, c, 0x1.a01a01ad80f28p-16);
    s = FMA(z, s, 0x1.a01a019ea060cp-13);
    c = FMA(z, c, 0x1.6c16c16c14ffap-10);
    s = FMA(z, s, 0x1.1111111111387p-7);
    c = FMA(z, c, 0x1.5555555555558p-5);
    s = FMA(z, s, 0x1.5555555555555p-3);
    const double a = f64_of_bits(bits_of_f64(scale) + ((uint64_t)(q.n - 1) << 52));
    const double b = q.n > 60 ? 0 : f64_of_bits(bits_of_f64(scale) - ((uint64_t)(q.n + 1) << 52));
    const t_dd plus = fast_two_sum(a, b), minus = fast_two_sum(a, -b);
    const t_halves h = {r,       q.rl,    r * z * s, FMA(z * z, c, 0.5 * z),
                        plus.hi, plus.lo, minus.hi,  minus.lo};
    return h;
}
MYLIB_FN t_dd sinh_of_halves(t_halves h)
{
    const t_dd p = two_product(h.plus, h.r), sum = fast_two_sum(h.minus, p.hi);
    const double low =
        sum.lo + FMA(FMA(h.minus, h.r, h.plus), h.rl, FMA(h.plus_lo, h.r, p.lo + h.minus_lo));
    return make_dd(sum.hi, FMA(h.minus, h.c, FMA(h.plus, h.s, low)));
}
MYLIB_FN t_dd cosh_of_halves(t_halves h)
{
    const t_dd p = two_product(h.minus, h.r), sum = fast_two_sum(h.plus, p.hi);
    const double low =
        sum.lo + FMA(FMA(h.plus, h.r, h.minus), h.rl, FMA(h.minus_lo, h.r, p.lo + h.plus_lo));
    return make_dd(sum.hi, FMA(h.plus, h.c, FMA(h.minus, h.s, low)));
}

/* Half of it, which does not overflow before it does; 2^-28 and below are sinh x themselves. */
MYLIB_FN t_dd half_of_sinh(double x)
{
    return sinh_of_halves(halves_of_exp(x > 710.5 ? 710.5 : x, 0.5));
}
MYLIB_FN t_dd half_of_cosh(double x)
{
    return cosh_of_halves(halves_of_exp(x > 710.5 ? 710.5 : x, 0.5));
}
/* Both within 0.75 ulp: a half, and 2^-56 beside an ulp of 2^-54 (sinh 0.35) or more. */
MYLIB_FN double sinh_f64(double x)
{
    const t_dd half = half_of_sinh(magnitude(x));
    return magnitude(x) < 0x1p-28 ? x : with_sign_of((half.hi + half.lo) * 2, x);
}
MYLIB_FN double cosh_f64(double x)
{
    const t_dd half = half_of_cosh(magnitude(x));
    return (half.hi + half.lo) * 2;
}
MYLIB_FN t_dd sinh_wide(double x) { return sinh_of_halves(halves_of_exp(x > 200 ? 200 : x, 1)); }
MYLIB_FN t_dd cosh_wide(double x) { return cosh_of_halves(halves_of_exp(x > 200 ? 200 : x, 1)); }
DEFINE_WIDE(sinh, with_sign_of)
DEFINE_WIDE(cosh, without_sign)

/* sinh x / cosh x; from 20 on it is 1. */
MYLIB_FN t_dd tanh_wide(double x)
{
    const t_halves h = halves_of_exp(x > 20 ? 20 : x, 1);
    const t_dd s = sinh_of_halves(h), c = cosh_of_halves(h);
    const t_dd top = fast_two_sum(s.hi, s.lo), bottom = fast_two_sum(c.hi, c.lo);
    const double inverse = 1 / bottom.hi, q = top.hi * inverse;
    const double rest = FMA(-q, bottom.hi, top.hi) + FMA(-q, bottom.lo, top.lo);
    return make_dd(q, rest * inverse);
}
/* Within 0.8 ulp. */
MYLIB_FN double tanh_f64(double x)
{
    const t_dd value = tanh_wide(magnitude(x));
    return with_sign_of(value.hi + value.lo, x);
}
DEFINE_WIDE(tanh, with_sign_of)

/* ---- arcsinh, arccosh, arctanh ------------------------------------------------------------- */

/* From 2^54 on, arcsinh x and arccosh x are log(1 + x) + ln 2, to 2^-59. */
MYLIB_FN t_dd log1p_and_octave(t_dd u, int is_far)
{
    const t_dd log_u = log1p_dd(u), sum = fast_two_sum(log_u.hi, is_far ? 0x1.62e42fefa39efp-1 : 0);
    return make_dd(sum.hi, sum.lo + log_u.lo);
}

/* log(1 + u), where u = x + (sqrt(1 + x^2) - 1); x >= 0. */
MYLIB_FN t_dd arcsinh_wide(double x)
{
    const int is_far = x >= 0x1p54;
    const double near_x = is_far ? 1 : x;
    const t_dd square = two_product(near_x, near_x), w = two_sum(1, square.hi);
    const double root = SQRT(w.hi), rest = FMA(-root, root, w.hi) + (w.lo + square.lo);
    const t_dd sum = two_sum(near_x, root - 1);
    const t_dd u = fast_two_sum(sum.hi, sum.lo + rest * 0.5 / root);
    const t_dd value = log1p_and_octave(make_dd(is_far ? x : u.hi, is_far ? 0 : u.lo), is_far);
    return x < INFINITY_F64 ? value : make_dd(x, 0);
}
/* log(1 + u), where u = d + sqrt(d^2 + 2 d) and d = x - 1. */
MYLIB_FN t_dd arccosh_wide(double x)
{
    const int is_far = x >= 0x1p54;
    const double d = is_far ? 1 : x - 1;
    const t_dd square = two_product(d, d), w = two_sum(d + d, square.hi);
    const double root = SQRT(w.hi), rest = FMA(-root, root, w.hi) + (w.lo + square.lo);
    const t_dd sum = two_sum(d, root);
    const t_dd u = fast_two_sum(sum.hi, sum.lo + rest * 0.5 / (root + 0x1p-1000));
    const t_dd value = log1p_and_octave(make_dd(is_far ? x : u.hi, is_far ? 0 : u.lo), is_far);
    return x < INFINITY_F64 ? make_dd(x >= 1 ? value.hi : NAN_F64, value.lo) : make_dd(x, 0);
}
/* log(1 + u) / 2, where u = 2x / (1 - x); 0 <= x. */
MYLIB_FN t_dd arctanh_wide(double x)
{
    const t_dd d = two_sum(1, -x);
    const double inverse = 1 / d.hi, q = 2 * x * inverse;
    const double rest = FMA(-q, d.hi, 2 * x) - q * d.lo;
    const t_dd value = log1p_dd(fast_two_sum(q, rest * inverse));
    const double outside = x == 1 ? INFINITY_F64 : NAN_F64;
    return make_dd(x < 1 ? 0.5 * value.hi : outside, x < 1 ? 0.5 * value.lo : 0);
}
/* All within 0.54 ulp: a half, and 2^-58 of the logarithm. */
MYLIB_FN double arcsinh_f64(double x)
{
    const t_dd value = arcsinh_wide(magnitude(x));
    return magnitude(x) < 0x1p-28 ? x : with_sign_of(value.hi + value.lo, x);
}
MYLIB_FN double arccosh_f64(double x)
{
    const t_dd value = arccosh_wide(x);
    return value.hi + value.lo;
}
MYLIB_FN double arctanh_f64(double x)
{
    const t_dd value = arctanh_wide(magnitude(x));
    return magnitude(x) < 0x1p-28 ? x : with_sign_of(value.hi + value.lo, x);
}
DEFINE_WIDE(arcsinh, with_sign_of)
DEFINE_WIDE(arctanh, with_sign_of)
MYLIB_FN float arccosh_f32(float x) { return (float)dd_to_odd(arccosh_wide(x)); }
MYLIB_FN t_f16 arccosh_f16(t_f16 x)
{
    return f16_from_f64(dd_to_odd(arccosh_wide(f64_from_f16(x))));
}

/* ---- logaddexp ----------------------------------------------------------------------------- */

/*
 * log(e^x + e^y) = m + log(1 + e^d), with m the larger of x and y and d <= 0 their difference.  The
 * logarithm has a relative error of 2^-57.  Where m has the other sign the sum may cancel: the
 * error is at most half an ulp and 2^-57 |m|, which is within 1 ulp where the result is at least
 * |m| / 16.
 */
MYLIB_FN t_dd logaddexp_wide(double x, double y)
{
    const double m = x > y ? x : y, other = x > y ? y : x;
    const t_dd difference = two_sum(other, -m);
    const int is_near = difference.hi > -800;
    const t_dd d = make_dd(is_near ? difference.hi : -800, is_near ? difference.lo : 0);
    const t_scaled e = exp_scaled_dd(d);
    /* 2^n in two steps, since it may be subnormal. */
    const int64_t n = e.n < -600 ? -600 : e.n;
    const double scale = power_of_2(n), more = power_of_2(e.n - n);
    const t_dd u = fast_two_sum(e.hi, e.lo);
    const t_dd log_u = log1p_dd(make_dd(u.hi * scale * more, u.lo * scale * more));
    const t_dd sum = two_sum(m, log_u.hi);
    const t_dd value = fast_two_sum(sum.hi, sum.lo + log_u.lo);
    const int is_finite = magnitude(m) < INFINITY_F64;
    const int is_nan = (x != x) | (y != y);
    return make_dd(is_nan ? x + y : is_finite ? value.hi : m, is_finite ? value.lo : 0);
}
MYLIB_FN double logaddexp_f64(double x, double y)
{
    const t_dd value = logaddexp_wide(x, y);
    return value.hi + value.lo;
}

/*
 * f32: correctly rounded where twice the error bound does not change the rounding; else hard.
 */
MYLIB_FN double signed_to_odd(t_dd x)
{
    const double sign = x.hi < 0 ? -1 : 1;
    return sign * dd_to_odd(make_dd(x.hi * sign, x.lo * sign));
}
MYLIB_FN float logaddexp_easy_f32(float x, float y)
{
    return (float)signed_to_odd(logaddexp_wide(x, y));
}
MYLIB_FN int logaddexp_is_hard_f32(float x, float y)
{
    const t_dd value = logaddexp_wide(x, y);
    const double error = (magnitude(x > y ? x : y) + magnitude(value.hi)) * 0x1p-56;
    const float low = (float)(value.hi + (value.lo - error));
    const float high = (float)(value.hi + (value.lo + error));
    return (low != high) & (magnitude(value.hi) < INFINITY_F64);
}
/* e^x - more, where more is 0 or 1, to 2^-98 of it, |x.hi| <= 200: the Taylor series. */
MYLIB_FN t_dd exp_precise(t_dd x, double more)
{
    const double n = nearest_integer(x.hi * 0x1.71547652b82fep0);
    /* ln 2 to 2^-149: 42 bits, of which the product with n is exact, and 2 x 53. */
    const t_dd high = dd_add_f64(x, -n * 0x1.62e42fefa38p-1);
    const t_dd ln_2 = make_dd(0x1.ef35793c7673p-45, 0x1.f97b57a079a19p-103);
    const t_dd r = dd_add(high, dd_multiply_f64(ln_2, -n));
    t_dd sum = make_dd(1, 0);
    for (int k = 28; k > 1; k--)
        sum = dd_add_f64(dd_divide(dd_multiply(sum, r), make_dd(k, 0)), 1);
    const double scale = power_of_2((int64_t)n);
    sum = dd_multiply(sum, r); /* e^r - 1 */
    return dd_add_f64(make_dd(sum.hi * scale, sum.lo * scale), scale - more);
}
/* One step of Halley's method for e^v - 1 = e^d, d >= -200. */
MYLIB_FN float logaddexp_hard_f32(float x, float y)
{
    const double m = x > y ? x : y, other = x > y ? y : x;
    const t_dd d = two_sum(other, -m);
    const t_dd wanted = exp_precise(d, 0);
    const t_dd near_log = log1p_dd(wanted), found = exp_precise(near_log, 1);
    const t_dd difference = dd_add(wanted, dd_negative(found));
    const t_dd sum = dd_add_f64(dd_add(wanted, found), 2);
    const t_dd step = dd_divide(make_dd(2 * difference.hi, 2 * difference.lo), sum);
    return (float)signed_to_odd(dd_add_f64(dd_add(near_log, step), m));
}
MYLIB_FN float logaddexp_f32(float x, float y)
{
    return logaddexp_is_hard_f32(x, y) ? logaddexp_hard_f32(x, y) : logaddexp_easy_f32(x, y);
}
/* No sum of two f16 is hard. */
MYLIB_FN t_f16 logaddexp_f16(t_f16 x, t_f16 y)
{
    return f16_from_f64(signed_to_odd(logaddexp_wide(f64_from_f16(x), f64_from_f16(y))));
}

#endif /* MYLIB_HYPERBOLIC_H */
