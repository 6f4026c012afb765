/*
 * quick_f64.h - functions of f32 in f64, in fewer steps than correct rounding of all arguments
 * takes: for a GPU, where a call for a warp's rare argument costs little, and some for a CPU.
 *
 * op_quick_f64(x) has the value of op_f32(x), or sets is_rare: if the argument is special, or if
 * its f64 is too near to the middle of two f32 to show which it rounds to.  The values were
 * compared with op_f32(x) for all x, with estimates of 1 / d that are wrong by 1.5 * 2^-20, and for
 * some 10^8 pairs of two arguments.
 */
#pragma once

#include "elementary/inverse.h"
#include "elementary/power.h"
#include "elementary/special.h"
#include "elementary/trigonometric.h"

/* n / d with a relative error of 2^-50, if 1 / d does not underflow. */
MYLIB_FN double quick_quotient(double n, double d)
{
#if defined(__CUDA_ARCH__)
    const double rough = approximate_inverse(d), e = FMA(-d, rough, 1), q = n * rough;
    return FMA(q, FMA(e, e, e), q);
#else
    return n / d;
#endif
}

/* The square root of x with a relative error of 2^-51; x is 0 only where the result is ignored. */
MYLIB_FN double quick_root(double x)
{
#if defined(__CUDA_ARCH__)
    const double rough = approximate_inverse_root(x), root = x * rough, e = FMA(-root, rough, 1);
    return FMA(root * e, FMA(e, 0.375, 0.5), root);
#else
    return root_of(x);
#endif
}

/* About 1 / sqrt(x), to 2^-22.  That of 0 is taken as 2^30, that of a negative x as NaN. */
MYLIB_FN float approximate_inverse_root_f32(float x)
{
#if defined(__CUDA_ARCH__)
    float rough;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(rough) : "f"(x + 0x1p-60f));
    return rough;
#else
    return 1 / sqrtf(x + 0x1p-60f);
#endif
}

/* Not 0 if an error of so many of its ulps may round the value to another f32. */
MYLIB_FN uint32_t is_within_of_middle(double value, uint32_t ulps)
{
    return (uint32_t)bits_of_f64(value) * 8 + (ulps * 8 - 0x80000000) <= ulps * 16;
}
/* Rounds to f32, with the sign of `signs`. */
MYLIB_FN t_quick quick_within(double value, uint32_t ulps, uint32_t signs, uint32_t is_special)
{
    const uint32_t bits = bits_of_f32((float)value) ^ (signs & 0x80000000);
    const t_quick quick = {f32_of_bits(bits), is_special | is_within_of_middle(value, ulps)};
    return quick;
}
/* The relative error is below 2^-42. */
MYLIB_FN t_quick quick_of(double value, uint32_t signs, uint32_t is_special)
{
    return quick_within(value, 0x800, signs, is_special);
}

/* arctan t for |t| <= tan(pi/8), and eighths * pi/4: the error of the fit is 2^-44.9. */
MYLIB_FN double quick_angle(double eighths, double t)
{
    const double z = t * t;
    double p = FMA(z, 0x1.f9b7fe941cbd9p-6, -0x1.e270596278673p-5);
    p = horner_3(z, p, 0x1.35fc5e1454326p-4, -0x1.73e0de70fd9a1p-4, 0x1.c715733d3a194p-4);
    p = horner_3(z, p, -0x1.24922d0ab4138p-3, 0x1.9999992be478bp-3, -0x1.555555550bebbp-2);
    return FMA(eighths, QUARTER_PI_HI, FMA(t * z, p, t));
}
MYLIB_FN t_quick arctan_quick_f64(float x)
{
    const float size = magnitude_f32(x);
    const int is_above = size > (float)TAN_1_8_PI, is_far = size > (float)TAN_3_8_PI;
    const double y = size, a = is_far ? 0 : 1, b = is_above ? 1 : 0;
    const double t = quick_quotient(FMA(a, y, -b), FMA(b, y, a));
    const double eighths = is_far ? 2 : b;
    return quick_of(quick_angle(eighths, t), bits_of_f32(x), !(size <= 0x1p100f));
}
/*
 * The angle of the smaller one of |x| and |y| over the larger one; pi/2 minus it if |y| is larger,
 * and pi minus that if x is negative.
 */
MYLIB_FN t_quick arctan2_quick_f64(float y, float x)
{
    /* As integers: a NaN is the larger one. */
    const uint32_t size_x = bits_of_f32(x) & 0x7fffffff, size_y = bits_of_f32(y) & 0x7fffffff;
    const int is_steep = size_y > size_x;
    const uint32_t most = is_steep ? size_y : size_x, least = is_steep ? size_x : size_y;
    const float larger = f32_of_bits(most), smaller = f32_of_bits(least);
    const int is_near = smaller > (float)TAN_1_8_PI * larger;
    const uint32_t turn = bits_of_f32(x) & 0x80000000;
    const double n = smaller, d = larger, b = is_near ? 1 : 0;
    const double t = quick_quotient(FMA(-b, d, n), FMA(b, n, d));
    const uint64_t sign = (uint64_t)(turn ^ (is_steep ? 0x80000000 : 0)) << 32;
    /* The upper halves of 0, 1, 2, 3 and 4: nvcc would convert integers. */
    const uint32_t odd = turn != 0 ? 0x40080000 : 0x3ff00000, flat = turn != 0 ? 0x40100000 : 0;
    const uint32_t eighths = is_near ? odd : is_steep ? 0x40000000 : flat;
    const double angle =
        quick_angle(f64_of_bits((uint64_t)eighths << 32), f64_of_bits(bits_of_f64(t) ^ sign));
    /* NaN, infinity, both 0; and subnormal results. */
    const uint32_t is_special = most - 1 >= 0x7f7fffff;
    const uint32_t is_small = (uint32_t)(bits_of_f64(angle) >> 32) - 1 < 0x380fffff;
    return quick_of(angle, bits_of_f32(y), is_special | is_small);
}

/*
 * x = quarter * pi/2 + r, |r| <= pi/4, and tan r = r P(r^2) / Q(r^2); the error of the fit is
 * 2^-45.2.
 */
MYLIB_FN t_quick tan_quick_f64(float x)
{
    const double size = magnitude_f32(x), m = FMA(size, TWO_OVER_PI, INTEGER_MAGIC);
    const double quarter = m - INTEGER_MAGIC;
    const double r = FMA(-quarter, HALF_PI_LO, FMA(-quarter, HALF_PI_HI, size)), z = r * r;
    const double p =
        FMA(z, FMA(z, 0x1.0a731a1be8411p-9, -0x1.f106e861d1d1ap-4), 0x1.fffffffffff29p-1);
    const double q = FMA(
        z, FMA(z, FMA(z, -0x1.98d6db911f393p-14, 0x1.4beb8266ca8cap-6), -0x1.d1970f6dd544ep-2), 1);
    const double s = r * p;
    const uint32_t odd = (uint32_t)bits_of_f64(m) & 1;
    const double value = quick_quotient(odd != 0 ? q : s, odd != 0 ? s : q);
    return quick_of(value, odd << 31 ^ bits_of_f32(x),
                    !(magnitude_f32(x) < (float)TRIGONOMETRIC_LIMIT));
}

/*
 * arcsin |x| = arcsin s for |x| <= 1/2, and pi/2 - 2 arcsin s with s^2 = (1 - |x|) / 2 above.  The
 * root starts from an estimate in f32 of 22 bits, and gets a relative error of 2^-44.  The error of
 * the fit is 2^-39.9.
 */
typedef struct t_quick_arcsine {
    double angle; /* arcsin s */
    int is_above;
} t_quick_arcsine;
MYLIB_FN t_quick_arcsine quick_arcsine(float size)
{
    const int is_above = size > 0.5f;
    const float half = 0.5f * (1 - size), rough = approximate_inverse_root_f32(half);
    const double a = is_above ? half : size, estimate = rough, root = a * estimate;
    const double rest = FMA(-root, with_exponent_more(estimate, -1), 0.5);
    const double s = is_above ? FMA(root, rest, root) : a, z = s * s;
    double p = FMA(z, 0x1.0d7de72801388p-5, 0x1.053ef29ad67d8p-9);
    p = horner_3(z, p, 0x1.522e8753abf1dp-6, 0x1.6643f9f6358d3p-6, 0x1.f2819889d16b2p-6);
    p = horner_3(z, p, 0x1.6db25d31fbe86p-5, 0x1.33334085b36e2p-4, 0x1.55555547e1602p-3);
    const t_quick_arcsine arcsine = {FMA(s * z, p, s), is_above};
    return arcsine;
}
MYLIB_FN t_quick arcsin_quick_f64(float x)
{
    const t_quick_arcsine a = quick_arcsine(magnitude_f32(x));
    const double value = FMA(a.is_above ? -2 : 1, a.angle, a.is_above ? HALF_PI_HI : 0);
    return quick_within(value, 0x2400, bits_of_f32(x), 0);
}
MYLIB_FN t_quick arccos_quick_f64(float x)
{
    const t_quick_arcsine a = quick_arcsine(magnitude_f32(x));
    const uint32_t sign = bits_of_f32(x) & 0x80000000;
    /* 2 or -1, times the sign. */
    const uint32_t high = (a.is_above ? 0x40000000 : 0xbff00000) ^ sign;
    /* clang-tidy 14 takes `high` for signed.  NOLINTNEXTLINE(clang-analyzer-core.*) */
    const double factor = f64_of_bits((uint64_t)high << 32);
    const double above = sign != 0 ? 2 * HALF_PI_HI : 0;
    const double value = FMA(factor, a.angle, a.is_above ? above : HALF_PI_HI);
    return quick_within(value, 0x2400, 0, 0);
}

/* From 3.93 on, erf x is 1. */
MYLIB_FN t_quick erf_quick_f64(float x)
{
    const float size = magnitude_f32(x);
    const double within = size > 3.93f ? 3.93f : size;
    const double value = within * erf_ratio(FMA(within, within, -0x1.eep2));
    return quick_within(value, 0x2100, bits_of_f32(x), 0);
}

/* 2^e (1 + f) is the positive and normal x, 1 + f between the square roots of 1/2 and 2. */
typedef struct t_octaves {
    double k, f;
} t_octaves;
MYLIB_FN t_octaves split_bits_of_f32(uint32_t bits)
{
    const uint32_t above = bits + (0x3f800000 - 0x3f3504f3);
    const t_octaves octaves = {f64_of_bits(0x4330000000000000 | above >> 23) - (0x1p52 + 127),
                               f32_of_bits((above & 0x007fffff) + 0x3f3504f3) - 1};
    return octaves;
}
/* k ln 2 + log(1 + f) for such an f, and s = 2 f / (2 + f); the error of the fit is 2^-44.9. */
MYLIB_FN double quick_log_by_artanh(double k, double s)
{
    const double z = s * s;
    double p = FMA(z, 0x1.91141e0626ca1p-14, 0x1.c62b2cf371beep-12);
    p = horner_3(z, p, 0x1.249411a8e74e8p-9, 0x1.999996a9e2a83p-7, 0x1.555555561e103p-4);
    return FMA(k, 0x1.62e42fefa39efp-1, FMA(s * z, p, s));
}
MYLIB_FN double quick_log_f64(double k, double f)
{
    return quick_log_by_artanh(k, quick_quotient(f, FMA(0.5, f, 1)));
}
MYLIB_FN t_quick log_quick_f64(float x)
{
    const t_octaves octaves = split_bits_of_f32(bits_of_f32(x));
    return quick_of(quick_log_f64(octaves.k, octaves.f), 0,
                    bits_of_f32(x) - 0x00800000 >= 0x7f000000);
}
MYLIB_FN t_quick log1p_quick_f64(float x)
{
    const double wide = x;
    const uint64_t bits = bits_of_f64(1 + wide);
    /* By the upper half. */
    const uint32_t above = (uint32_t)(bits >> 32) + (0x3ff00000 - 0x3fe6a09e);
    const uint32_t m = (above & 0x000fffff) + 0x3fe6a09e;
    const double k = f64_of_bits(0x4330000000000000 | above >> 20) - (0x1p52 + 1023);
    const double far = f64_of_bits((uint64_t)m << 32 | (uint32_t)bits) - 1;
    const double value = quick_log_f64(k, above >> 20 == 1023 ? wide : far);
    const int is_special = !((x > -1) & (x < (float)INFINITY_F64));
    const t_quick quick = {with_sign_of_f32((float)value, x),
                           (uint32_t)is_special | is_within_of_middle(value, 0x800)};
    return quick;
}

/* k + log2(1 + f), likewise, with a relative error of 2^-51. */
MYLIB_FN double quick_log2_f64(t_octaves octaves)
{
    const double s = quick_quotient(octaves.f, FMA(0.5, octaves.f, 1)), z = s * s;
    double p = FMA(z, 0x1.f16c3d1772906p-16, 0x1.0bb8ebf4a9363p-13);
    p = FMA(z, p, 0x1.484fa0f8772aep-11);
    p = FMA(z, p, 0x1.a61756a9a25e2p-9);
    p = horner_3(z, p, 0x1.2776c51671e59p-6, 0x1.ec709dc39cd2p-4, 0x1.71547652b82ffp0);
    return FMA(s, p, octaves.k);
}
MYLIB_FN t_quick log2_quick_f64(float x)
{
    const uint32_t bits = bits_of_f32(x);
    return quick_of(quick_log2_f64(split_bits_of_f32(bits)), 0, bits - 0x00800000 >= 0x7f000000);
}
MYLIB_FN t_quick log10_quick_f64(float x)
{
    const uint32_t bits = bits_of_f32(x);
    const double value = quick_log2_f64(split_bits_of_f32(bits)) * 0x1.34413509f79ffp-2;
    return quick_of(value, 0, bits - 0x00800000 >= 0x7f000000);
}

/* (2^f - 1) / f, |f| <= 1/2; relative to 2^f - 1, the error of the fit is 2^-43.5. */
MYLIB_FN double quick_exp2_slope(double f)
{
    double p = FMA(f, 0x1.b5264f5d62c33p-24, 0x1.63d0d068c7f6cp-20);
    p = horner_3(f, p, 0x1.ffcca54fbf3d7p-17, 0x1.4308acdbd5c66p-13, 0x1.5d87fe32cbc6fp-10);
    p = horner_3(f, p, 0x1.3b2ab717f2fcdp-7, 0x1.c6b08d706917p-5, 0x1.ebfbdff823ep-3);
    return FMA(f, p, 0x1.62e42fefa39acp-1);
}
/* Subnormal results and NaNs are special. */
MYLIB_FN t_quick exp2_quick_f64(float x)
{
    const float within = clamp_f32(x, 200), m = within + 0x1.8p23f;
    const double f = within - (m - 0x1.8p23f), power = FMA(f, quick_exp2_slope(f), 1);
    const double value = f64_of_bits(bits_of_f64(power) + ((uint64_t)bits_of_f32(m) << 52));
    return quick_of(value, 0, !((x <= -151) | (x >= -125)));
}
/* t / (t + 2), where t = e^(2 |x|) - 1. */
MYLIB_FN t_quick tanh_quick_f64(float x)
{
    const float size = magnitude_f32(x);
    const double within = size > 10 ? 10 : size;
    const double m = FMA(within, 0x1.71547652b82fep1, EXPONENT_MAGIC), n = m - EXPONENT_MAGIC;
    const double f = FMA(within, 0x1.71547652b82fep1, -n);
    const double scale = f64_of_bits(bits_of_f64(m) << 52);
    const double t = FMA(f * quick_exp2_slope(f), scale, scale - 1);
    return quick_of(quick_quotient(t, t + 2), bits_of_f32(x), 0);
}
/*
 * With x / ln 2 = n + f, |f| <= 1/2, the sine is (2^(n-1) - 2^(-n-1)) c + (2^(n-1) + 2^(-n-1)) s,
 * where c and s are those of f ln 2; the cosine has c and s exchanged.  The errors of the fits are
 * 2^-45.9 of c and 2^-49.5 of s; in the sine, that of c matters at most 2.4 times, near 0.35.
 */
typedef struct t_quick_halves {
    double c, s, plus, minus;
} t_quick_halves;
MYLIB_FN t_quick_halves quick_halves(float x)
{
    const float size = magnitude_f32(x);
    const double within = size > 100 ? 100 : size;
    const double m = FMA(within, 0x1.71547652b82fep0, EXPONENT_MAGIC), n = m - EXPONENT_MAGIC;
    const double f = FMA(within, 0x1.71547652b82fep0, -n), z = f * f;
    const uint64_t bits = bits_of_f64(m) << 52;
    const double up = f64_of_bits(bits - ((uint64_t)1 << 52));      /* 2^(n - 1) */
    const double down = f64_of_bits(((uint64_t)2045 << 52) - bits); /* 2^(-n - 1) */
    double s = FMA(z, 0x1.b658778e2b23dp-24, 0x1.ffcb7550d06e1p-17);
    s = horner_3(z, s, 0x1.5d87fe90dc11p-10, 0x1.c6b08d7043f97p-5, 0x1.62e42fefa39f7p-1);
    double c = FMA(z, 0x1.63e7232e48655p-20, 0x1.4308976ef4c39p-13);
    c = FMA(z, c, 0x1.3b2ab7245ba42p-7);
    c = FMA(z, c, 0x1.ebfbdff81bb3dp-3);
    const t_quick_halves halves = {FMA(z, c, 1), f * s, up + down, up - down};
    return halves;
}
MYLIB_FN t_quick sinh_quick_f64(float x)
{
    const t_quick_halves h = quick_halves(x);
    return quick_of(FMA(h.minus, h.c, h.plus * h.s), bits_of_f32(x), 0);
}
MYLIB_FN t_quick cosh_quick_f64(float x)
{
    const t_quick_halves h = quick_halves(x);
    return quick_of(FMA(h.plus, h.c, h.minus * h.s), 0, 0);
}

/*
 * log(a + b) = k ln 2 + 2 artanh((a + b - 2^k) / (a + b + 2^k)), 2^k being the power of 2 near
 * a + b, which is at least 1; for k = 0 it is 2 artanh(a / (b + 1)), as in hyperbolic.h.
 */
MYLIB_FN double quick_log_of_sum(double a, double b)
{
    const uint32_t above = (uint32_t)(bits_of_f64(a + b) >> 32) + (0x3ff00000 - 0x3fe6a09e);
    const int is_near = above >> 20 == 1023;
    const uint32_t octaves = above & 0xfff00000;
    const double k = f64_of_bits(0x4330000000000000 | above >> 20) - (0x1p52 + 1023);
    /* 2^k; and 2^(k + 1), 1 and 2, all 0 if k is 0. */
    const double scale = f64_of_bits((uint64_t)octaves << 32);
    const uint32_t twice = is_near ? 0 : octaves + 0x00100000, one = is_near ? 0 : 0x3ff00000;
    const uint32_t two = is_near ? 0 : 0x40000000;
    const double n =
        FMA(f64_of_bits((uint64_t)two << 32), b, FMA(2, a, -f64_of_bits((uint64_t)twice << 32)));
    const double d = b + FMA(f64_of_bits((uint64_t)one << 32), a, scale);
    return quick_log_by_artanh(k, quick_quotient(n, d));
}
MYLIB_FN t_quick arcsinh_quick_f64(float x)
{
    const double size = magnitude_f32(x), root = quick_root(FMA(size, size, 1));
    return quick_of(quick_log_of_sum(size, root), bits_of_f32(x),
                    !(magnitude_f32(x) < (float)INFINITY_F64));
}
MYLIB_FN t_quick arccosh_quick_f64(float x)
{
    const double wide = x, root = quick_root(FMA(wide, wide, -1));
    return quick_of(quick_log_of_sum(root, wide), 0, !((x > 1) & (x < (float)INFINITY_F64)));
}
/*
 * Half the logarithm of (1 + x) / (1 - x): k ln 2 / 2 + artanh t, |t| <= 0.2007; their bits give k,
 * to 0.09.  The error of the fit is 2^-42.2.
 */
MYLIB_FN t_quick arctanh_quick_f64(float x)
{
    const float size_f32 = magnitude_f32(x);
    const double size = size_f32;
    const uint32_t ratio = bits_of_f32(1 + size_f32) - bits_of_f32(1 - size_f32) + 0x00400000;
    const double k = f64_of_bits(0x4330000000000000 | ratio >> 23) - 0x1p52;
    const double octaves = f64_of_bits((uint64_t)((ratio >> 23 << 20) + 0x3ff00000) << 32);
    const double minus = 1 - octaves, plus = 1 + octaves;
    const double t = quick_quotient(FMA(size, plus, minus), FMA(size, minus, plus)), z = t * t;
    double p = FMA(z, 0x1.9c636ca553c5ep-4, 0x1.c54d6f0e2b084p-4);
    p = horner_3(z, p, 0x1.2496fbd64f32fp-3, 0x1.99998efde15a6p-3, 0x1.555555593752dp-2);
    const double value = FMA(k, 0x1.62e42fefa39efp-2, FMA(t * z, p, t));
    return quick_within(value, 0x1000, bits_of_f32(x), !(size_f32 < 1));
}

/*
 * m + log(1 + e), where m is the larger one, d the difference, and e = 2^(d / ln 2).  Rare unless
 * the two ends of the error, 2^-42 and some roundings of m, round to one f32.  The exponential adds
 * 2^-44.5 to the logarithm, and the fit of 2 artanh(e / (2 + e)) 2^-44.3.
 */
MYLIB_FN t_quick logaddexp_quick_f64(float x, float y)
{
    const float m = x > y ? x : y, any = x > y ? y : x;
    /* If m - 200 is m, both are so large that no digit of the logarithm matters. */
    const float other = any < m - 200 ? m - 200 : any;
    const double wide = m, d = other - wide;
    const double magic = FMA(d, 0x1.71547652b82fep0, INTEGER_MAGIC), n = magic - INTEGER_MAGIC;
    const double f = FMA(d, 0x1.71547652b82fep0, -n), power = FMA(f, quick_exp2_slope(f), 1);
    const double e = f64_of_bits(bits_of_f64(power) + (bits_of_f64(magic) << 52));
    const double s = quick_quotient(e, FMA(0.5, e, 1)), z = s * s;
    double p = FMA(z, 0x1.99f18e7d094c4p-18, 0x1.209f9ddcbbcd7p-16);
    p = FMA(z, p, 0x1.76e939e44dd5dp-14);
    p = FMA(z, p, 0x1.c6fa74f310b24p-12);
    p = horner_3(z, p, 0x1.2492c18150f63p-9, 0x1.999998070906cp-7, 0x1.55555556388d5p-4);
    const double error = FMA(magnitude(wide), 0x1p-50, 0x1p-42);
    const double high = wide + (FMA(s * z, p, s) + error), low = FMA(-2, error, high);
    const float value = (float)high;
    const t_quick quick = {value, !(value == (float)low)};
    return quick;
}

/*
 * 2^(y log2 |x|) = 2^n 2^g, with n the nearest integer, limited to +-300: 0 or an infinite result.
 * log2 |x| has a relative error of 2^-51, its product with y is at most 151 if the result is
 * neither 0 nor infinite, and the exponential adds 2^-43.5.
 */
MYLIB_FN t_quick power_quick_f64(float x, float y)
{
    const uint32_t size_x = bits_of_f32(x) & 0x7fffffff;
    const float size_y = magnitude_f32(y);
    const double log2 = quick_log2_f64(split_bits_of_f32(size_x)), wide = y;
    const double m = FMA(wide, log2, INTEGER_MAGIC);
    const double g = FMA(wide, log2, -(m - INTEGER_MAGIC));
    const double power = FMA(g, quick_exp2_slope(g), 1);
    /* For a power of 0: ~bits, as an integer, is far below 0 if y > 0, and far above if y < 0. */
    const int32_t any_n = (int32_t)(size_x == 0 ? ~bits_of_f32(y) : (uint32_t)bits_of_f64(m));
    const int32_t above = any_n < -300 ? -300 : any_n, n = above > 300 ? 300 : above;
    const double value = f64_of_bits(bits_of_f64(power) + ((uint64_t)((uint32_t)n << 20) << 32));
    /* If y is whole and |y| < 2^22, the sum has its last bit; others are special. */
    const float sum = y + 0x1.8p23f;
    const int is_whole = sum - 0x1.8p23f == y;
    const uint32_t is_negative = bits_of_f32(x) >> 31;
    const uint32_t sign = bits_of_f32(x) & bits_of_f32(sum) << 31;
    const uint32_t is_normal = size_x - 0x00800000 < 0x7f000000;
    const uint32_t is_zero = (size_x == 0) & (size_y >= 0x1p-126f);
    const uint32_t is_special =
        !(is_normal | is_zero) | !(size_y < 0x1p22f) | (is_negative & !is_whole);
    const uint32_t is_subnormal = (uint32_t)(n + 150) < 25;
    const t_quick quick = {f32_of_bits(bits_of_f32((float)value) | sign),
                           is_special | is_subnormal | is_within_of_middle(value, 0x800)};
    return quick;
}
