/*
 * quick.h - functions of f32 in pairs of f32: a vector holds twice as many as of f64.
 *
 * op_quick_f32(x) is vector code.  It has the value of op_f32(x), or sets is_rare: if the argument
 * is special, or if the sum of the pair, whose relative error is below QUICK_ERROR, is too near to
 * the middle of two floats to show which it rounds to.  The values were compared with op_f32(x) for
 * all x.
 */
#pragma once

#include "elementary/numbers.h"

/* Processors without fused multiply-adds compute in f64. */
#if defined(__CUDACC__) || defined(__FMA__) || defined(__aarch64__)
#define MYLIB_HAS_QUICK 1

#if defined(__CUDA_ARCH__)
#define FMA_F32(a, b, c) __fmaf_rn(a, b, c)
#else
#define FMA_F32(a, b, c) __builtin_fmaf(a, b, c)
#endif

/* hi + lo, with |lo| at most about an ulp of hi. */
typedef struct t_ff {
    float hi, lo;
} t_ff;
MYLIB_FN t_ff make_ff(float hi, float lo)
{
    t_ff x = {hi, lo};
    return x;
}
/* a + b exactly; |a| >= |b|, or a is 0, or a is a multiple of the last bit of b. */
MYLIB_FN t_ff fast_two_sum_f32(float a, float b)
{
    const float s = a + b;
    return make_ff(s, b - (s - a));
}

/*
 * With it no value is wrong.  With half of it, of 2^32 each, 1 of log, 8 of log1p and 66 of arctan
 * would be.
 */
#define QUICK_ERROR 0x1p-35f

/* The sum is rare unless the two ends of the error round to one float.  A NaN is not rare. */
MYLIB_FN t_quick round_quick(float hi, float lo)
{
    const float value = hi + FMA_F32(hi, QUICK_ERROR, lo);
    const float other = hi + FMA_F32(hi, -QUICK_ERROR, lo);
    const t_quick quick = {value, bits_of_f32(value) ^ bits_of_f32(other)};
    return quick;
}
/* The same, with the sign of x. */
MYLIB_FN t_quick round_quick_as(float hi, float lo, float x)
{
    t_quick quick = round_quick(hi, lo);
    quick.value = with_sign_of_f32(quick.value, x);
    return quick;
}

/* (n + n_lo) / (d + d_lo). */
MYLIB_FN t_ff divide_ff(t_ff n, t_ff d)
{
    const float inverse = 1 / d.hi, q = n.hi * inverse;
    const float left = FMA_F32(-q, d.lo, FMA_F32(-q, d.hi, n.hi) + n.lo);
    return make_ff(q, left * inverse);
}

/*
 * A function f(s) = s + s z (c3 + z tail), where z = s^2 and c3 = c3_hi + c3_lo, without its first
 * term: hi, and a lo to which s_lo f'(s) is added.  f'(s) is 1 + slope z.
 */
MYLIB_FN t_ff odd_rest(float s, float s_lo, float z, float tail, float c3_hi, float c3_lo,
                       float slope)
{
    const float z_lo = FMA_F32(s, s, -z);
    const float c = FMA_F32(z, tail, c3_hi), c_lo = FMA_F32(z, tail, c3_hi - c) + c3_lo;
    const float q = z * c, q_lo = FMA_F32(z, c_lo, FMA_F32(z_lo, c, FMA_F32(z, c, -q)));
    const float t = s * q, more = FMA_F32(s_lo * z, slope, s_lo);
    return make_ff(t, FMA_F32(s, q_lo, FMA_F32(s, q, -t)) + more);
}

/* ---- Logarithms ---- */

/* Not 0 unless first <= bits < end. */
MYLIB_FN uint32_t is_outside(uint32_t bits, uint32_t first, uint32_t end)
{
    const uint32_t above = bits - first;
    return (above | (end - 1 - first - above)) & 0x80000000;
}

/*
 * k ln 2 + log(1 + f), where s + s_lo = 2 f / (2 + f) and 1 + f is between the square roots of 1/2
 * and 2, as in logarithm.h.  The product of k with the first 16 bits of ln 2 is exact.
 */
MYLIB_FN t_ff quick_log(float k, float s, float s_lo)
{
    const float z = s * s;
    float p = 0x1.9401eep-14f;
    p = FMA_F32(p, z, 0x1.c5fd6cp-12f);
    p = FMA_F32(p, z, 0x1.249482p-9f);
    p = FMA_F32(p, z, 0x1.999996p-7f);
    const t_ff rest = odd_rest(s, s_lo, z, p, 0x1.555556p-4f, -0x1.53c3ep-29f, 0.256f);
    const float a = FMA_F32(k, 0x1.62e4p-1f, s), a_lo = s - FMA_F32(-k, 0x1.62e4p-1f, a);
    const t_ff sum = fast_two_sum_f32(a, rest.hi);
    return make_ff(sum.hi, sum.lo + (a_lo + FMA_F32(k, 0x1.7f7d1cp-20f, rest.lo)));
}
/* x = 2^k m; the bits of 2^k, less those of 1. */
MYLIB_FN uint32_t octaves_of_f32(float x) { return (bits_of_f32(x) - 0x3f3504f3) & 0xff800000; }
MYLIB_FN float count_octaves(uint32_t octaves) { return (float)((int32_t)octaves >> 23); }

MYLIB_FN t_quick log_quick_f32(float x)
{
    const uint32_t octaves = octaves_of_f32(x);
    const float m = f32_of_bits(bits_of_f32(x) - octaves);
    const float f = m - 1, half = 0.5f * f, d = 1 + half, inverse = 1 / d;
    const float q = f * inverse, left = FMA_F32(-q, half - (d - 1), FMA_F32(-q, d, f));
    const t_ff sum = quick_log(count_octaves(octaves), q, left * inverse);
    t_quick quick = round_quick(sum.hi, sum.lo);
    quick.is_rare |= is_outside(bits_of_f32(x), 0x00800000, 0x7f800000);
    return quick;
}
MYLIB_FN t_quick log1p_quick_f32(float x)
{
    const float u = 1 + x, part = u - 1, u_lo = (1 - (u - part)) + (x - part);
    const uint32_t octaves = octaves_of_f32(u);
    const float m = f32_of_bits(bits_of_f32(u) - octaves);
    const t_ff f = fast_two_sum_f32(m - 1, u_lo * f32_of_bits(0x3f800000 - octaves));
    const t_ff half = make_ff(0.5f * f.hi, 0.5f * f.lo);
    const float d = 1 + half.hi, d_lo = (half.hi - (d - 1)) + half.lo;
    const t_ff s = divide_ff(f, make_ff(d, d_lo));
    const t_ff sum = quick_log(count_octaves(octaves), s.hi, s.lo);
    t_quick quick = round_quick_as(sum.hi, sum.lo, x);
    quick.is_rare |= is_outside(bits_of_f32(u), 0x00800000, 0x7f000000);
    return quick;
}

/* ---- tanh ---- */

/*
 * With |x| = n ln 2 / 2 + y, |y| <= ln 2 / 4, t = tanh y and w = 2^-n,
 *
 *     tanh |x| = ((1 - w) + (1 + w) t) / ((1 + w) + (1 - w) t)
 *
 * From 9.1 on it is 1.  INTEGER_MAGIC_F32 is for f32 what INTEGER_MAGIC is for f64.
 */
#define INTEGER_MAGIC_F32 0x1.8p23f
MYLIB_FN t_quick tanh_quick_f32(float x)
{
    const float size = magnitude_f32(x), within = size > 9.5f ? 9.5f : size;
    const float magic = FMA_F32(within, 0x1.715476p1f, INTEGER_MAGIC_F32);
    const float n = magic - INTEGER_MAGIC_F32;
    const float w = f32_of_bits(0x3f800000 - (bits_of_f32(magic) << 23));
    const float a = FMA_F32(-n, 0x1.62e4p-2f, within); /* exact */
    const float y = FMA_F32(-n, 0x1.7f7d1cp-21f, a);
    const float y_lo = FMA_F32(-n, 0x1.7f7d1cp-21f, a - y), z = y * y;
    float p = 0x1.5beaeap-6f;
    p = FMA_F32(p, z, -0x1.b9fa62p-5f);
    p = FMA_F32(p, z, 0x1.1110fcp-3f);
    const t_ff rest = odd_rest(y, y_lo, z, p, -0x1.555556p-2f, 0x1.6617a8p-27f, -0.9834f);
    t_ff t = fast_two_sum_f32(y, rest.hi);
    t.lo += rest.lo;
    const t_ff plus = fast_two_sum_f32(1, w), minus = fast_two_sum_f32(1, -w);
    const float high = plus.hi * t.hi;
    const float low = FMA_F32(plus.lo, t.hi, FMA_F32(plus.hi, t.lo, FMA_F32(plus.hi, t.hi, -high)));
    t_ff above = fast_two_sum_f32(minus.hi, high);
    above.lo += low + minus.lo;
    const float below = FMA_F32(minus.hi, t.hi, plus.hi);
    const float below_lo = FMA_F32(minus.hi, t.hi, plus.hi - below) +
                           FMA_F32(minus.hi, t.lo, FMA_F32(minus.lo, t.hi, plus.lo));
    const t_ff q = divide_ff(above, make_ff(below, below_lo));
    return round_quick_as(q.hi, q.lo, x);
}

/* ---- arctan ---- */

/*
 * With w = |x|, or 1 / |x| above 1, w = n / d, the angle is that of c, 0 or 13/32 or 1, and that of
 * (n - c d) / (d + c n), which is at most 0.2035.  n - c d is exact except for the product's error.
 */
MYLIB_FN t_quick arctan_quick_f32(float x)
{
    const float size = magnitude_f32(x), y = size > 0x1p60f ? 0x1p60f : size;
    const int is_above = y > 1;
    const float n = is_above ? 1 : y, d = is_above ? y : 1;
    const int is_middle = n > 0.2035f * d, is_near = n > 0.6625f * d;
    const float c = is_near ? 1 : is_middle ? 0.40625f : 0;
    const float cd = c * d, cd_lo = FMA_F32(c, d, -cd), cn = c * n, cn_lo = FMA_F32(c, n, -cn);
    const uint32_t sign = is_above ? 0x80000000 : 0;
    const float above = f32_of_bits(bits_of_f32(n - cd) ^ sign);
    const float above_lo = f32_of_bits(bits_of_f32(cd_lo) ^ sign ^ 0x80000000);
    t_ff below = fast_two_sum_f32(d, cn);
    below.lo += cn_lo;
    const t_ff t = divide_ff(make_ff(above, above_lo), below);
    const float z = t.hi * t.hi;
    float p = -0x1.504f24p-4f;
    p = FMA_F32(p, z, 0x1.c5823ep-4f);
    p = FMA_F32(p, z, -0x1.248e1ap-3f);
    p = FMA_F32(p, z, 0x1.99999p-3f);
    const t_ff rest = odd_rest(t.hi, t.lo, z, p, -0x1.555556p-2f, 0x1.5c97c8p-27f, -0.9655f);
    /* The angle of c, or pi/2 minus it. */
    const float middle = is_above ? 0x1.2f568p0f : 0x1.8b24d4p-2f,
                end = is_above ? 0x1.921fb6p0f : 0;
    const float middle_lo = is_above ? 0x1.7c6994p-26f : -0x1.ad7936p-28f;
    const float end_lo = is_above ? -0x1.777a5cp-25f : 0;
    const float base = is_near ? 0x1.921fb6p-1f : is_middle ? middle : end;
    const float base_lo = is_near ? -0x1.777a5cp-26f : is_middle ? middle_lo : end_lo;
    const t_ff first = fast_two_sum_f32(base, t.hi), sum = fast_two_sum_f32(first.hi, rest.hi);
    return round_quick_as(sum.hi, sum.lo + (first.lo + (base_lo + rest.lo)), x);
}

/* ---- cbrt ---- */

/*
 * As cbrt_f64(): y is m^(-1/3) to 2^-22, t = m y^2, and the rest of a step of Newton's method is m
 * - t^3, exact except for its last bits, times y^2 / 3.
 */
MYLIB_FN t_quick cbrt_quick_f32(float x)
{
    const uint32_t bits = bits_of_f32(x) & 0x7fffffff, exponent = bits >> 23;
    const uint32_t third = (exponent * 171) >> 9, r = exponent - 3 * third; /* r = 1 is 2^0 */
    const uint32_t fraction = bits & 0x007fffff;
    const float v = f32_of_bits(fraction | 0x3f800000);
    float p = -0x1.99114ep-5f;
    p = FMA_F32(p, v, 0x1.455ff6p-2f);
    p = FMA_F32(p, v, -0x1.9eb188p-1f);
    p = FMA_F32(p, v, 0x1.8ab8b6p0f);
    const float m = f32_of_bits(fraction + ((r + 126) << 23));
    const float rough = p * (r == 1 ? 1 : r == 0 ? 0x1.428a3p0f : 0x1.965feap-1f);
    const float e = FMA_F32(-(m * rough), rough * rough, 1);
    const float y = FMA_F32(rough * e, FMA_F32(e, 0x1.c71c72p-3f, 0x1.555556p-2f), rough);
    const float y2 = y * y, t = m * y2, t2 = t * t, t2_lo = FMA_F32(t, t, -t2);
    const float left = FMA_F32(-t2_lo, t, FMA_F32(-t2, t, m));
    t_quick quick = round_quick(t, left * (y2 * 0x1.555556p-2f));
    /* r + 126 = exponent - 3 third + 126: 2^(third - 42). */
    const float root = f32_of_bits(bits_of_f32(quick.value) + ((third - 42) << 23));
    quick.value = with_sign_of_f32(root, x);
    quick.is_rare |= is_outside(bits, 0x00800000, 0x7f800000);
    return quick;
}

#endif /* MYLIB_HAS_QUICK */
