/*
 * hyperbolic.h - sinh, cosh, tanh and their inverses.
 *
 * In f64 each is hi + lo with a relative error of about 2^-56.
 */
#pragma once

#include "elementary/exponential.h"
#include "elementary/hypot.h"
#include "elementary/logarithm.h"

/* ---- sinh, cosh, tanh ---- */

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

/* (sinh r - r) / r^3 and (cosh r - 1 - r^2/2) / r^4, of z = r^2. */
MYLIB_FN double sinh_tail(double z)
{
    double s = FMA(z, 0x1.82c3faf7e2e06p-33, 0x1.ae4ccb23bcad4p-26);
    s = horner_3(z, s, 0x1.71de40834fddfp-19, 0x1.a01a019ea060cp-13, 0x1.1111111111387p-7);
    return FMA(z, s, 0x1.5555555555555p-3);
}
MYLIB_FN double cosh_tail(double z)
{
    double c = FMA(z, 0x1.1f8bee0c06545p-29, 0x1.27e4cc096f874p-22);
    c = FMA(z, c, 0x1.a01a01ad80f28p-16);
    c = FMA(z, c, 0x1.6c16c16c14ffap-10);
    return FMA(z, c, 0x1.5555555555558p-5);
}

MYLIB_FN t_halves halves_of_exp(double x, double scale)
{
    const t_reduced q = reduce_exp(x);
    const double r = q.rh, z = r * r;
    const double a = f64_of_bits(bits_of_f64(scale) + ((uint64_t)(q.n - 1) << 52));
    const double b = q.n > 60 ? 0 : f64_of_bits(bits_of_f64(scale) - ((uint64_t)(q.n + 1) << 52));
    const t_dd plus = fast_two_sum(a, b), minus = fast_two_sum(a, -b);
    const double s = r * z * sinh_tail(z), c = FMA(z * z, cosh_tail(z), 0.5 * z);
    const t_halves h = {r, q.rl, s, c, plus.hi, plus.lo, minus.hi, minus.lo};
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

/* Half of the function overflows no earlier; below 2^-28, sinh x is x. */
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
/*
 * t / (t + 2), where t = e^(2 |x|) - 1 = 2^n ((1 - 2^-n) + (e^r - 1)), both times 2^-n, n >= 0.
 * Within 0.65 ulp: a half, and 2^-58 of r^2/2 in a t of 0.207 or more.  From 20 on it is 1.
 */
MYLIB_FN double tanh_f64(double x)
{
    const double size = magnitude(x), within = size > 20 ? 20 : size;
    /* The steps of reduce_exp(2 within), halved. */
    const double m = FMA(within, 0x1.71547652b82fep1, INTEGER_MAGIC), k = m - INTEGER_MAGIC;
    const double a = FMA(-k, 0x1.62e42fefa38p-2, within), half = FMA(-k, 0x1.ef35793c7673p-46, a);
    const double half_lo = FMA(-k, 0x1.ef35793c7673p-46, a - half), r = half + half;
    const int64_t n = integer_bits(m);
    /* From n = 54 on, 1 - 2^-n is rounded; the result changes by less than 2^-100. */
    const double square = half * r, twice = power_of_2(1 - n), one = 1 - power_of_2(-n);
    const t_dd sum = fast_two_sum(one, r);
    const double low = FMA(2, FMA(half_lo, r, half_lo), sum.lo);
    const double rest = FMA(square, exp_tail(r, square), low);
    const t_dd t = fast_two_sum(sum.hi, FMA(half, r, rest));
    /* Up to n = 40, 2^(1 - n) is larger, or a multiple of t's last bit. */
    const t_dd d = fast_two_sum(n > 40 ? t.hi : twice, n > 40 ? twice : t.hi);
    const double inverse = inverse_of(d.hi), q = t.hi * inverse;
    const double left = FMA(-q, d.hi, t.hi) + FMA(-q, d.lo + t.lo, t.lo);
    return with_sign_of(FMA(left, inverse, q), x);
}

/* For f32 and f16, with a relative error of 2^-51.5: the same sums without their errors. */
MYLIB_FN t_halves halves_near(float x)
{
    const double within = clamp_f32(x, 200);
    const double m = FMA(within, 0x1.71547652b82fep0, EXPONENT_MAGIC), n = m - EXPONENT_MAGIC;
    const double a = FMA(-n, 0x1.62e42fefa38p-1, within), r = FMA(-n, 0x1.ef35793c7673p-45, a);
    const uint64_t bits = bits_of_f64(m) << 52;
    const double up = f64_of_bits(bits - ((uint64_t)1 << 52));      /* 2^(n - 1) */
    const double down = f64_of_bits(((uint64_t)2045 << 52) - bits); /* 2^(-n - 1) */
    const double z = r * r, s = r * z * sinh_tail(z), c = FMA(z * z, cosh_tail(z), 0.5 * z);
    const t_halves h = {r, 0, s, c, up + down, 0, up - down, 0};
    return h;
}
MYLIB_FN double sinh_near(float x)
{
    const t_halves h = halves_near(x);
    return with_sign_of(FMA(h.plus, h.r, h.minus) + FMA(h.plus, h.s, h.minus * h.c), x);
}
MYLIB_FN double cosh_near(float x)
{
    const t_halves h = halves_near(x);
    return FMA(h.minus, h.r, h.plus) + FMA(h.minus, h.s, h.plus * h.c);
}
/* t / (t + 2), where t = e^(2 |x|) - 1. */
MYLIB_FN double tanh_near(float x)
{
    const float size = magnitude_f32(x);
    const double t = expm1_within(2 * (size > 20 ? 20 : size));
    return with_sign_of(quotient_near(t, t + 2), x);
}
MYLIB_FN float sinh_f32(float x)
{
    return mend_odd(x, (float)sinh_near(x), 0x1.250bfep-11f, 0x1.250bfep-11f);
}
DEFINE_F16(sinh)
DEFINE_NARROW(cosh)
DEFINE_NARROW(tanh)

/* ---- arcsinh, arccosh, arctanh ---- */

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
    const double root = root_of(w.hi), rest = FMA(-root, root, w.hi) + (w.lo + square.lo);
    const t_dd sum = two_sum(near_x, root - 1);
    const t_dd u = fast_two_sum(sum.hi, sum.lo + quotient_of(rest * 0.5, root));
    const t_dd value = log1p_and_octave(make_dd(is_far ? x : u.hi, is_far ? 0 : u.lo), is_far);
    const int is_finite = x < INFINITY_F64; /* clang leaves a choice between structures a branch */
    return make_dd(is_finite ? value.hi : x, is_finite ? value.lo : 0);
}
/* log(1 + u), where u = d + sqrt(d^2 + 2 d) and d = x - 1. */
MYLIB_FN t_dd arccosh_wide(double x)
{
    const int is_far = x >= 0x1p54;
    const double d = is_far ? 1 : x - 1;
    const t_dd square = two_product(d, d), w = two_sum(d + d, square.hi);
    const double root = root_of(w.hi), rest = FMA(-root, root, w.hi) + (w.lo + square.lo);
    const t_dd sum = two_sum(d, root);
    const t_dd u = fast_two_sum(sum.hi, sum.lo + quotient_of(rest * 0.5, root + 0x1p-1000));
    const t_dd value = log1p_and_octave(make_dd(is_far ? x : u.hi, is_far ? 0 : u.lo), is_far);
    return x < INFINITY_F64 ? make_dd(x >= 1 ? value.hi : NAN_F64, value.lo) : make_dd(x, 0);
}
/* log(1 + u) / 2, where u = 2x / (1 - x); 0 <= x. */
MYLIB_FN t_dd arctanh_wide(double x)
{
    const t_dd d = two_sum(1, -x);
    const double inverse = inverse_of(d.hi), q = 2 * x * inverse;
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

/*
 * The same bits for ordinary arguments, without the steps for others.  Steps that change no bit are
 * left out too: fast_two_sum(hi, lo) keeps the value of hi + lo.
 */
MYLIB_FN uint32_t upper_half(double x) { return (uint32_t)(bits_of_f64(x) >> 32); }
MYLIB_FN double unless_tiny(double x, double value)
{
    return (upper_half(x) & 0x7fffffff) < 0x3e300000 ? x : with_sign_of(value, x);
}
MYLIB_FN t_quick_f64 arcsinh_ordinary_f64(double x)
{
    const double size = magnitude(x);
    const t_dd square = two_product(size, size), w = two_sum_of_positive(1, square.hi);
    const double root = root_of_positive(w.hi);
    const double rest = FMA(-root, root, w.hi) + (w.lo + square.lo);
    const t_dd sum = fast_two_sum(size, root - 1); /* up to 2^53, size is the larger one */
    const t_dd u = fast_two_sum(sum.hi, sum.lo + quotient_of(rest, with_exponent_more(root, 1)));
    const t_dd log = log1p_of_sums(u, two_sum_of_positive(1, u.hi));
    const t_quick_f64 quick = {unless_tiny(x, log.hi + log.lo),
                               (uint64_t)(upper_half(size) >= 0x43400000) << 63};
    return quick;
}
/* The root is not below d. */
MYLIB_FN t_quick_f64 arccosh_ordinary_f64(double x)
{
    const double d = x - 1;
    const t_dd square = two_product(d, d), w = two_sum_of_positive(d + d, square.hi);
    const double root = root_of_positive(w.hi);
    const double rest = FMA(-root, root, w.hi) + (w.lo + square.lo);
    const t_dd sum = fast_two_sum(root, d);
    const t_dd u = fast_two_sum(sum.hi, sum.lo + quotient_of(rest, with_exponent_more(root, 1)));
    const t_dd log = log1p_of_sums(u, two_sum_of_positive(1, u.hi));
    const uint64_t bits = bits_of_f64(x), first = 0x3ff0000000000001, end = 0x4350000000000000;
    const t_quick_f64 quick = {log.hi + log.lo, (bits - first) | (end - 1 - bits)};
    return quick;
}
MYLIB_FN t_quick_f64 arctanh_ordinary_f64(double x)
{
    const double size = magnitude(x);
    const t_dd d = fast_two_sum(1, -size);
    const double inverse = inverse_of(d.hi), q = 2 * size * inverse;
    const double rest = FMA(-q, d.hi, 2 * size) - q * d.lo;
    const t_dd log = log1p_sum(fast_two_sum(q, rest * inverse));
    const t_quick_f64 quick = {unless_tiny(x, 0.5 * (log.hi + log.lo)),
                               (uint64_t)(upper_half(size) >= 0x3ff00000) << 63};
    return quick;
}

/*
 * For f32 and f16: k ln 2 + 2 artanh(n / d), with |n / d| <= 0.2006; the error of the fit is
 * 2^-55.8.
 */
MYLIB_FN double octaves_and_artanh(double k, double n, double d)
{
    const double t = quotient_near(n, d), s = t + t, z = s * s;
    double p = 0x1.3b02ea41d4204p-18;
    p = horner_3(z, p, 0x1.3849fbc0b65bfp-16, 0x1.7475544254762p-14, 0x1.c71bfe9d721c1p-12);
    p = horner_3(z, p, 0x1.249249b67dd24p-9, 0x1.99999998ea8c1p-7, 0x1.555555555578dp-4);
    return FMA(k, 0x1.62e42fefa39efp-1, FMA(s * z, p, s));
}
/*
 * log y, where y = 2^k m: k ln 2 + 2 artanh((y - 2^k) / (y + 2^k)); for k = 0 it is n / d,
 * without a difference of near numbers.
 */
MYLIB_FN double log_by_artanh(double y, double n, double d)
{
    const t_split s = split(y, 0);
    const double octaves = f64_of_bits(((uint64_t)2046 << 52) - s.minus_k);
    return octaves_and_artanh(s.k, s.k == 0 ? n : y - octaves, s.k == 0 ? d : y + octaves);
}
/* The logarithm of x + sqrt(x^2 + 1), and tanh of half of it is x / (1 + sqrt(x^2 + 1)). */
MYLIB_FN double arcsinh_near(float x)
{
    const double size = magnitude_f32(x), root = root_of(FMA(size, size, 1));
    const double value = log_by_artanh(size + root, size, root + 1);
    return magnitude_f32(x) < (float)INFINITY_F64 ? with_sign_of(value, x) : x;
}
MYLIB_FN double arccosh_near(float x)
{
    const double wide = x, root = root_of(FMA(wide, wide, -1));
    const double value = log_by_artanh(wide + root, root, wide + 1);
    return x < 1 ? NAN_F64 : x < (float)INFINITY_F64 ? value : wide;
}
/* Half the logarithm of (1 + x) / (1 - x); their bits give k, to 0.09. */
MYLIB_FN double arctanh_near(float x)
{
    const float size_f32 = magnitude_f32(x);
    const double size = size_f32;
    const uint64_t ratio = bits_of_f64(1 + size) - bits_of_f64(1 - size) + ((uint64_t)1 << 51);
    const double octaves = f64_of_bits((ratio & BITS_OF_INFINITY_F64) + ((uint64_t)1023 << 52));
    const double k = double_of_integer((int64_t)(ratio >> 52));
    const double n = FMA(size, octaves + 1, 1 - octaves), d = FMA(size, 1 - octaves, octaves + 1);
    const double outside = size_f32 == 1 ? INFINITY_F64 : NAN_F64;
    return with_sign_of(size_f32 < 1 ? 0.5 * octaves_and_artanh(k, n, d) : outside, x);
}
MYLIB_FN float arcsinh_f32(float x)
{
    float y = mend_odd(x, (float)arcsinh_near(x), 0x1.bacb4ap24f, 0x1.1e0696p4f);
    y = mend_odd(x, y, 0x1.b121a6p75f, 0x1.a9a3f2p5f);
    return mend_odd(x, y, 0x1.6351d8p94f, 0x1.08b512p6f);
}
MYLIB_FN float arccosh_f32(float x)
{
    const float y = mend(x, (float)arccosh_near(x), 0x1.b121a6p75f, 0x1.a9a3f2p5f);
    return mend(x, y, 0x1.6351d8p94f, 0x1.08b512p6f);
}
DEFINE_F16(arcsinh)
DEFINE_F16(arccosh)
DEFINE_NARROW(arctanh)
