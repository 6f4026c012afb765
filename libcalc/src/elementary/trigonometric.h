/*
 * trigonometric.h - sin, cos, tan, and degrees.
 *
 * f64: x = quarter * pi/2 + r + tail with |r| <= pi/4, then one polynomial for the sine and one for
 * the cosine of r.  Below 2^22 the reduction is Cody and Waite's, in three steps of fma; above, and
 * for infinities, Payne and Hanek's, with 192 bits of 2/pi.
 */
#pragma once

#include "numbers.h"

/* ---- Reduction ---- */

#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define HALF_PI_HI 0x1.921fb54442d18p+0
#define HALF_PI_LO 0x1.1a62633145c07p-54
/* HALF_PI_LO again, in 31 bits and the rest: quarter * HALF_PI_MIDDLE is exact. */
#define HALF_PI_MIDDLE 0x1.1a62633p-54
#define HALF_PI_REST 0x1.45c06e0e68948p-86

#define TRIGONOMETRIC_LIMIT 0x1p22

/* |x| = quarter * pi/2 + r + tail, up to a multiple of 4 in quarter. */
typedef struct t_turn {
    double r, tail;
    uint64_t quarter;
} t_turn;

/*
 * For 0 <= x < TRIGONOMETRIC_LIMIT.  The first step is exact: x - quarter * HALF_PI_HI is a
 * multiple of 2^-52, or of the last bit of x, and below 1.  So is it of the last bit of the product
 * of the second step, so that the error of that step is a double, and the third fma gives it
 * exactly.  quarter * 2^-142 is left out.  No double in the range is nearer to a multiple of pi/2
 * than 2^-62, so r + tail has a relative error below 2^-58.
 */
MYLIB_FN t_turn reduce_easy(double x)
{
    const double m = FMA(x, TWO_OVER_PI, INTEGER_MAGIC), quarter = m - INTEGER_MAGIC;
    const double first = FMA(-quarter, HALF_PI_HI, x), r = FMA(-quarter, HALF_PI_MIDDLE, first);
    const double error = FMA(-quarter, HALF_PI_MIDDLE, first - r);
    t_turn turn = {r, FMA(-quarter, HALF_PI_REST, error), (uint64_t)integer_bits(m)};
    return turn;
}

/* The upper half of the product. */
MYLIB_FN uint64_t high_product(uint64_t a, uint64_t b)
{
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    return (uint64_t)(((mylib_u128)a * b) >> 64);
#endif
}

/*
 * For TRIGONOMETRIC_LIMIT <= x < infinity.  x is an integer n times 2^e.  The bits of 2/pi before
 * the one of weight 2^(1 - e) make multiples of 4 in x * 2/pi; the 192 bits from there on, times n,
 * give x * 2/pi modulo 4 with an error below n * 2^-190 < 2^-137.
 */
MYLIB_FN_APART t_turn reduce_hard(double x)
{
    /* 64 zeros, and the bits of 2/pi after the point. */
    static const uint64_t bits_of_two_over_pi[20] = {
        0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
        0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
        0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
        0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
        0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
    };
    const uint64_t bits = bits_of_f64(x), n = (bits & 0x000fffffffffffff) | 0x0010000000000000;
    /* The place of the first bit: e - 2 after the point, and 64 zeros; e is exponent - 1075. */
    const unsigned place = (unsigned)(bits >> 52) - (1075 + 2 - 64), shift = place & 63;
    uint64_t window[3];
    for (int i = 0; i < 3; i++) {
        const uint64_t *word = bits_of_two_over_pi + place / 64 + i;
        window[i] = shift == 0 ? word[0] : word[0] << shift | word[1] >> (64 - shift);
    }
    /* The product modulo 2^192: 2 bits of the quarter, 190 after the point. */
    uint64_t low = window[2] * n, carry = high_product(window[2], n);
    uint64_t middle = window[1] * n + carry;
    uint64_t high = window[0] * n + high_product(window[1], n) + (middle < carry);
    /* Round to the nearest quarter: half or more leaves a negative rest, the complement. */
    const uint64_t is_negative = high >> 61 & 1, flip = 0 - is_negative;
    const uint64_t quarter = (high >> 62) + is_negative;
    high = (high ^ flip) & 0x3fffffffffffffff;
    middle ^= flip;
    low ^= flip;
    /* 48 bits at a time, which are doubles; each is 0 or larger than all that follow. */
    t_dd part = make_dd((double)(high >> 16) * 0x1p-46, 0);
    part = dd_add_f64(part, (double)((high & 0xffff) << 32 | middle >> 32) * 0x1p-94);
    part = dd_add_f64(part, (double)((middle & 0xffffffff) << 16 | low >> 48) * 0x1p-142);
    part = dd_add_f64(part, (double)(low & 0xffffffffffff) * 0x1p-190);
    part = dd_multiply(part, make_dd(HALF_PI_HI, HALF_PI_LO));
    t_turn turn = {is_negative ? -part.hi : part.hi, is_negative ? -part.lo : part.lo, quarter};
    return turn;
}

/* 1 for infinities too.  NaN takes the easy path. */
MYLIB_FN int is_hard_turn(double x) { return magnitude(x) >= TRIGONOMETRIC_LIMIT; }
MYLIB_FN int is_hard_turn_f32(float x) { return magnitude_f32(x) >= (float)TRIGONOMETRIC_LIMIT; }
MYLIB_FN t_turn reduce_any(double x)
{
    const double size = magnitude(x);
    t_turn nowhere = {NAN_F64, 0, 0};
    return size == INFINITY_F64 ? nowhere : is_hard_turn(x) ? reduce_hard(size) : reduce_easy(size);
}

/* ---- sin and cos ---- */

/*
 * sin(r + tail) and cos(r + tail) for |r| <= pi/4, as sums that are not yet rounded: r and the
 * rest, 1 - r^2/2 and the rest.  Relative errors: the sine's polynomial 2^-57.8, and the roundings
 * of the rest, which is at most 0.11 of the sine: 0.3 ulp in all.  The cosine's polynomial 2^-63,
 * the rounding of r^2, at most 0.25 ulp, and those of the rest, which is at most 0.02: 0.3 ulp.
 */
MYLIB_FN double sin_polynomial(double z)
{
    double p = FMA(z, 0x1.5d8cd019655e3p-33, -0x1.ae5e4f855c9edp-26);
    p = horner_3(z, p, 0x1.71de3558bbdadp-19, -0x1.a01a019beb4c3p-13, 0x1.111111110f733p-7);
    return FMA(z, p, -0x1.5555555555548p-3);
}
MYLIB_FN double cos_polynomial(double z)
{
    double p = FMA(z, -0x1.8fa689027e4ebp-37, 0x1.1ee9dbd49eab3p-29);
    p = horner_3(z, p, -0x1.27e4f7f195716p-22, 0x1.a01a019c8f26cp-16, -0x1.6c16c16c15015p-10);
    return FMA(z, p, 0x1.555555555554bp-5);
}
MYLIB_FN t_dd sin_of_turn(double r, double tail)
{
    const double z = r * r;
    return make_dd(r, FMA(r * z, sin_polynomial(z), FMA(-0.5 * z, tail, tail)));
}
MYLIB_FN t_dd cos_of_turn(double r, double tail)
{
    const double z = r * r, half = 0.5 * z, most = 1 - half;
    return make_dd(most, FMA(z * z, cos_polynomial(z), FMA(-r, tail, (1 - most) - half)));
}

/* The sine of quarter * pi/2 + r + tail, before its last addition, without its sign. */
MYLIB_FN t_dd sin_sum(t_turn turn)
{
    const t_dd s = sin_of_turn(turn.r, turn.tail), c = cos_of_turn(turn.r, turn.tail);
    return make_dd((turn.quarter & 1) != 0 ? c.hi : s.hi, (turn.quarter & 1) != 0 ? c.lo : s.lo);
}
MYLIB_FN uint64_t sin_sign(t_turn turn) { return (turn.quarter & 2) << 62; }

/* Both are within 0.8 ulp. */
MYLIB_FN double sin_of(double x, t_turn turn)
{
    const t_dd sum = sin_sum(turn);
    const uint64_t sign = sin_sign(turn) ^ (bits_of_f64(x) & SIGN_BIT_F64);
    return f64_of_bits(bits_of_f64(sum.hi + sum.lo) ^ sign);
}
MYLIB_FN double cos_of(double x, t_turn turn)
{
    (void)x;
    turn.quarter++;
    const t_dd sum = sin_sum(turn);
    return f64_of_bits(bits_of_f64(sum.hi + sum.lo) ^ sin_sign(turn));
}

/* Defines a function of all types by op_of(), op_near(), op_easy_f32() and op_hard_f32(). */
#define DEFINE_TRIGONOMETRIC(op) \
    MYLIB_FN int op##_is_hard_f64(double x) { return is_hard_turn(x); } \
    MYLIB_FN int op##_is_hard_f32(float x) { return is_hard_turn_f32(x); } \
    MYLIB_FN double op##_easy_f64(double x) { return op##_of(x, reduce_easy(magnitude(x))); } \
    MYLIB_FN_APART double op##_hard_f64(double x) { return op##_of(x, reduce_any(x)); } \
    MYLIB_FN double op##_f64(double x) \
    { \
        return is_hard_turn(x) ? op##_hard_f64(x) : op##_easy_f64(x); \
    } \
    MYLIB_FN float op##_f32(float x) \
    { \
        return is_hard_turn_f32(x) ? op##_hard_f32(x) : op##_easy_f32(x); \
    } \
    MYLIB_FN t_f16 op##_f16(t_f16 x) { return f16_from_f64(op##_near(f64_from_f16(x))); }

/*
 * f32 and f16 reduce by pi, so that one polynomial does: r = x - n pi for the sine, and r = x - (n
 * + 1/2) pi for the cosine, |r| <= pi/2.  The relative error is below 2^-51: the polynomial's is
 * 2^-61.5.  All f32 and f16 results were found to round correctly, but one sine is so near to the
 * middle of two f32 that f64 gives the middle.
 */
#define ONE_OVER_PI 0x1.45f306dc9c883p-2
#define PI_HI 0x1.921fb54442d18p+1
#define PI_LO 0x1.1a62633145c07p-53

MYLIB_FN double sin_of_multiple(double multiple, double x, uint64_t sign)
{
    const double r = FMA(-multiple, PI_LO, FMA(-multiple, PI_HI, x)), z = r * r;
    double p = FMA(z, 0x1.8832c1fbe00dbp-49, -0x1.ae438560ae189p-41);
    p = horner_3(z, p, 0x1.6123cd0a7dd76p-33, -0x1.ae6454d47ec89p-26, 0x1.71de3a52a0c0cp-19);
    p = horner_3(z, p, -0x1.a01a01a014d7p-13, 0x1.11111111110c8p-7, -0x1.5555555555555p-3);
    return f64_of_bits(bits_of_f64(FMA(r * z, p, r)) ^ sign);
}
MYLIB_FN double sin_near(double x)
{
    const double size = magnitude(x), m = FMA(size, ONE_OVER_PI, INTEGER_MAGIC);
    const double y = sin_of_multiple(m - INTEGER_MAGIC, size, bits_of_f64(m) << 63);
    return f64_of_bits(bits_of_f64(y) ^ (bits_of_f64(x) & SIGN_BIT_F64));
}
MYLIB_FN double cos_near(double x)
{
    const double size = magnitude(x), m = FMA(size, ONE_OVER_PI, -0.5) + INTEGER_MAGIC;
    return sin_of_multiple((m - INTEGER_MAGIC) + 0.5, size, ~bits_of_f64(m) << 63);
}

MYLIB_FN float sin_easy_f32(float x)
{
    return mend_odd(x, (float)sin_near(x), 0x1.33333p13f, -0x1.63f4bap-2f);
}
MYLIB_FN_APART float sin_hard_f32(float x)
{
    const t_turn turn = reduce_any(x);
    const t_dd sum = sin_sum(turn);
    const uint64_t sign = sin_sign(turn) ^ (bits_of_f64(x) & SIGN_BIT_F64);
    return (float)f64_of_bits(bits_of_f64(odd_sum(sum.hi, sum.lo)) ^ sign);
}
DEFINE_TRIGONOMETRIC(sin)

MYLIB_FN float cos_easy_f32(float x) { return (float)cos_near(x); }
MYLIB_FN_APART float cos_hard_f32(float x)
{
    t_turn turn = reduce_any(x);
    turn.quarter++;
    const t_dd sum = sin_sum(turn);
    return (float)f64_of_bits(bits_of_f64(odd_sum(sum.hi, sum.lo)) ^ sin_sign(turn));
}
DEFINE_TRIGONOMETRIC(cos)

/* ---- tan ---- */

/*
 * The sine and the cosine of r + tail, each as hi + lo with a relative error of about 2^-57: r^2
 * and r^3 get their errors back, times the derivatives near r = pi/4.
 */
typedef struct t_sincos {
    t_dd s, c;
} t_sincos;
MYLIB_FN t_sincos sincos_of_turn(t_turn turn)
{
    const double r = turn.r, z = r * r, z_error = FMA(r, r, -z);
    t_sincos t = {sin_of_turn(r, turn.tail), cos_of_turn(r, turn.tail)};
    t.s.lo = FMA(-0.1640625, FMA(r, z_error, FMA(r, z, -(r * z))), t.s.lo);
    t.c.lo = FMA(-0.453125, z_error, t.c.lo);
    return t;
}

/*
 * The sine over the cosine, or minus the cosine over the sine.  The errors of both matter.  The
 * quotient is corrected by its remainder: within 0.9 ulp.
 */
MYLIB_FN t_dd tan_sum(t_turn turn)
{
    const t_sincos t = sincos_of_turn(turn);
    const int is_odd = (turn.quarter & 1) != 0;
    const t_dd n = fast_two_sum(is_odd ? t.c.hi : t.s.hi, is_odd ? t.c.lo : t.s.lo);
    const t_dd d = fast_two_sum(is_odd ? t.s.hi : t.c.hi, is_odd ? t.s.lo : t.c.lo);
    const double inverse = inverse_of(d.hi), quotient = n.hi * inverse;
    const double rest = FMA(-quotient, d.hi, n.hi) + FMA(-quotient, d.lo, n.lo);
    return make_dd(quotient, rest * inverse);
}
MYLIB_FN double tan_of(double x, t_turn turn)
{
    const t_dd sum = tan_sum(turn);
    const uint64_t sign = turn.quarter << 63 ^ (bits_of_f64(x) & SIGN_BIT_F64);
    return f64_of_bits(bits_of_f64(sum.hi + sum.lo) ^ sign);
}

/* For f32 and f16: without tails, with a relative error below 2^-51. */
MYLIB_FN double tan_near(double x)
{
    const double size = magnitude(x), m = FMA(size, TWO_OVER_PI, INTEGER_MAGIC);
    const double quarter = m - INTEGER_MAGIC;
    const double r = FMA(-quarter, HALF_PI_LO, FMA(-quarter, HALF_PI_HI, size)), z = r * r;
    const double s = FMA(r * z, sin_polynomial(z), r);
    const double c = FMA(z, FMA(z, cos_polynomial(z), -0.5), 1.0);
    const uint64_t odd = bits_of_f64(m) & 1;
    const double quotient = quotient_near(odd != 0 ? c : s, odd != 0 ? s : c);
    return f64_of_bits(bits_of_f64(quotient) ^ odd << 63 ^ (bits_of_f64(x) & SIGN_BIT_F64));
}
MYLIB_FN float tan_easy_f32(float x) { return (float)tan_near(x); }
MYLIB_FN_APART float tan_hard_f32(float x)
{
    const t_turn turn = reduce_any(x);
    const t_dd sum = tan_sum(turn);
    const uint64_t sign = turn.quarter << 63 ^ (bits_of_f64(x) & SIGN_BIT_F64);
    return (float)f64_of_bits(bits_of_f64(odd_sum(sum.hi, sum.lo)) ^ sign);
}
DEFINE_TRIGONOMETRIC(tan)

/* ---- Degrees: one product with a constant, as in NumPy ---- */

MYLIB_FN double deg2rad_f64(double x) { return x * 0x1.1df46a2529d39p-6; }
MYLIB_FN float deg2rad_f32(float x) { return x * 0x1.1df46ap-6f; }
MYLIB_FN t_f16 deg2rad_f16(t_f16 x) { return f16_from_f64(deg2rad_f32((float)f64_from_f16(x))); }
MYLIB_FN double rad2deg_f64(double x) { return x * 0x1.ca5dc1a63c1f8p5; }
MYLIB_FN float rad2deg_f32(float x) { return x * 0x1.ca5dcp5f; }
MYLIB_FN t_f16 rad2deg_f16(t_f16 x) { return f16_from_f64(rad2deg_f32((float)f64_from_f16(x))); }
