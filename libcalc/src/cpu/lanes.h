/*
 * lanes.h - functions of f32 in f64 with AVX-512, by tables in registers.
 *
 * Part of elementary.c, for level v4 only.  op_lanes(x, wide) gives 16 values of op_f32(x), or sets
 * is_rare.  A value is rare if its f64, whose relative error is below 2^-37, is too near to the
 * middle of two f32 to show which it rounds to, or if the argument is special.  Other values raise
 * no flag.  They were compared with op_f32(x) for all x, and for some 10^8 pairs of two arguments.
 */
#pragma once

#include "elementary.h"

#if defined(__AVX512BW__)

#include <immintrin.h>

/* 8 + 8 results; a bit of is_rare for each. */
typedef struct t_lanes {
    __m256 a, b;
    __mmask16 is_rare;
} t_lanes;

typedef struct t_f64_pair {
    __m512d a, b;
} t_f64_pair;

static ALWAYS_INLINE __m512 all_f32(float x) { return _mm512_set1_ps(x); }
static ALWAYS_INLINE __m512d all_f64(double x) { return _mm512_set1_pd(x); }
static ALWAYS_INLINE __m512i bits_of_f64s(__m512d x) { return _mm512_castpd_si512(x); }
static ALWAYS_INLINE __m512d f64s_of_bits(__m512i x) { return _mm512_castsi512_pd(x); }
static ALWAYS_INLINE __m512i all_u64(uint64_t x) { return _mm512_set1_epi64((long long)x); }

static ALWAYS_INLINE t_f64_pair load_wide(const char *p)
{
    const t_f64_pair wide = {_mm512_cvtps_pd(_mm256_loadu_ps((const float *)p)),
                             _mm512_cvtps_pd(_mm256_loadu_ps((const float *)(p + 32)))};
    return wide;
}

static ALWAYS_INLINE void store_halves(char *p, t_lanes lanes)
{
    _mm256_storeu_ps((float *)p, lanes.a);
    _mm256_storeu_ps((float *)(p + 32), lanes.b);
}

/* Picks an entry of a table for each lane, by the last four bits of `index`. */
static ALWAYS_INLINE __m512d entries(const double *table, __m512i index)
{
    return _mm512_permutex2var_pd(_mm512_loadu_pd(table), index, _mm512_loadu_pd(table + 8));
}

#define FMA_F64 _mm512_fmadd_pd
static ALWAYS_INLINE __m512d fma_with(__m512d a, __m512d b, double c)
{
    return _mm512_fmadd_pd(a, b, all_f64(c));
}
static ALWAYS_INLINE __m512d horner_3_lanes(__m512d z, __m512d p, double a, double b, double c)
{
    return fma_with(z, fma_with(z, fma_with(z, p, a), b), c);
}

/*
 * n / d and, for x >= 0, the square root of x, from an estimate of 14 bits, with relative errors of
 * 2^-42 and 2^-40.
 */
static ALWAYS_INLINE __m512d quotient_of_lanes(__m512d n, __m512d d)
{
    const __m512d inverse = _mm512_rcp14_pd(d), e = _mm512_fnmadd_pd(d, inverse, all_f64(1));
    return n * FMA_F64(inverse, FMA_F64(e, e, e), inverse);
}
static ALWAYS_INLINE __m512d root_of_lanes(__m512d x)
{
    /* The estimate for 0 is infinite. */
    const __m512d inverse = _mm512_min_pd(_mm512_rsqrt14_pd(x), all_f64(0x1p200));
    const __m512d s = x * inverse, e = _mm512_fnmadd_pd(s, inverse, all_f64(1));
    return FMA_F64(s * e, fma_with(e, all_f64(0.375), 0.5), s);
}

/* Returns x, which is not negative, with the sign of y. */
static ALWAYS_INLINE __m512d signed_as(__m512d x, __m512d y)
{
    return _mm512_or_pd(x, _mm512_and_pd(y, all_f64(-0.0)));
}

/* Rounds to f32.  Rare: within LANES_ERROR ulps of f64, a power of 2, of the middle of two f32. */
#define LANES_ERROR 0x10000
static ALWAYS_INLINE t_lanes narrow_lanes(t_f64_pair x, __mmask16 is_special)
{
    const __m512i lower =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i words = _mm512_permutex2var_epi32(bits_of_f64s(x.a), lower, bits_of_f64s(x.b));
    const __m512i above = _mm512_sub_epi32(words, _mm512_set1_epi32(0x10000000 - LANES_ERROR));
    const t_lanes lanes = {
        _mm512_cvtpd_ps(x.a), _mm512_cvtpd_ps(x.b),
        is_special |
            _mm512_testn_epi32_mask(above, _mm512_set1_epi32(0x20000000 - 2 * LANES_ERROR))};
    return lanes;
}
/* Finds |x| >= limit, and NaNs. */
static ALWAYS_INLINE __mmask16 is_beyond_limit(__m512 x, float limit)
{
    return _mm512_cmp_ps_mask(_mm512_abs_ps(x), all_f32(limit), _CMP_NLT_UQ);
}

/* Defines op_lanes() by op_lanes_f64(), of eight numbers; is_special is the mask of special x. */
#define LANES(op, is_special) \
    static ALWAYS_INLINE t_lanes op##_lanes(__m512 x, t_f64_pair wide) \
    { \
        const t_f64_pair y = {op##_lanes_f64(wide.a), op##_lanes_f64(wide.b)}; \
        (void)x; \
        return narrow_lanes(y, is_special); \
    }

/* ---- Exponentials ---- */

/* 2^(i/16), with i 2^48 subtracted from the bits. */
static const double lanes_powers[16] = {
    0x1p0,
    0x1.fb5586cf9890fp-1,
    0x1.f72b83c7d517bp-1,
    0x1.f387a6e756238p-1,
    0x1.f06fe0a31b715p-1,
    0x1.edea64c123422p-1,
    0x1.ebfdad5362a27p-1,
    0x1.eab07dd485429p-1,
    0x1.ea09e667f3bcdp-1,
    0x1.ea11473eb0187p-1,
    0x1.eace5422aa0dbp-1,
    0x1.ec49182a3f09p-1,
    0x1.ee89f995ad3adp-1,
    0x1.f199bdd85529cp-1,
    0x1.f5818dcfba487p-1,
    0x1.fa4afa2a490dap-1,
};
/* Adding this rounds x to sixteenths; the last bits of the sum count them. */
#define SIXTEENTHS_MAGIC 0x1.8p48

/* 2^(n/16), by the last bits of n. */
static ALWAYS_INLINE __m512d power_of_sixteenths(__m512i n)
{
    return f64s_of_bits(
        _mm512_add_epi64(bits_of_f64s(entries(lanes_powers, n)), _mm512_slli_epi64(n, 48)));
}
/* 2^(n/16) 2^f, |f| <= 1/32; the error of the fit is 2^-38.5. */
static ALWAYS_INLINE __m512d power_and_rest(__m512i n, __m512d f)
{
    __m512d p = fma_with(f, all_f64(0x1.3b2c7b3cda8efp-7), 0x1.c6b3f6f61d8c7p-5);
    p = fma_with(f, p, 0x1.ebfbdff5f706bp-3);
    p = fma_with(f, p, 0x1.62e42fec3ad55p-1);
    const __m512d power = power_of_sixteenths(n);
    return FMA_F64(power, f * p, power);
}
/* Below -200, results of f32 are those of -200. */
static ALWAYS_INLINE __m512d at_least(__m512d x) { return _mm512_max_pd(all_f64(-200), x); }
/* Finds results that are infinite (x >= large) or may be subnormal. */
static ALWAYS_INLINE __mmask16 is_extreme(__m512 x, float large, float least, float normal)
{
    const __mmask16 is_below = _mm512_cmp_ps_mask(x, all_f32(normal), _CMP_LT_OQ);
    return _mm512_mask_cmp_ps_mask(is_below, x, all_f32(least), _CMP_GT_OQ) |
           _mm512_cmp_ps_mask(x, all_f32(large), _CMP_NLT_UQ);
}
static ALWAYS_INLINE __m512d exp2_lanes_f64(__m512d x)
{
    const __m512d within = at_least(x), m = within + all_f64(SIXTEENTHS_MAGIC);
    return power_and_rest(bits_of_f64s(m), within - (m - all_f64(SIXTEENTHS_MAGIC)));
}
LANES(exp2, is_extreme(x, 127, -151, -125))

/* 2^(n/16) 2^f = 2^(x scale); n is in the last bits of a double, scale * ln 2 an integer. */
typedef struct t_sixteenths {
    __m512i n;
    __m512d f;
} t_sixteenths;
static ALWAYS_INLINE t_sixteenths sixteenths_of(__m512d x, double scale)
{
    const __m512d m = FMA_F64(x, all_f64(scale), all_f64(SIXTEENTHS_MAGIC));
    const t_sixteenths q = {bits_of_f64s(m),
                            _mm512_fmsub_pd(x, all_f64(scale), m - all_f64(SIXTEENTHS_MAGIC))};
    return q;
}
static ALWAYS_INLINE __m512d exp_lanes_f64(__m512d x)
{
    const t_sixteenths q = sixteenths_of(at_least(x), 0x1.71547652b82fep0);
    return power_and_rest(q.n, q.f);
}
LANES(exp, is_extreme(x, 88, -105, -87))

/* 2^f - 1, |f| <= 1/32; the relative error of the fit is 2^-41.1. */
static ALWAYS_INLINE __m512d exp2m1_rest(__m512d f)
{
    __m512d p = fma_with(f, all_f64(0x1.5d87d4406b5ebp-10), 0x1.3b2c4ac4f11d7p-7);
    p = fma_with(f, p, 0x1.c6b08d726d5f3p-5);
    p = fma_with(f, p, 0x1.ebfbdff69896p-3);
    return f * fma_with(f, p, 0x1.62e42fefa39dbp-1);
}
static ALWAYS_INLINE __m512d expm1_of(t_sixteenths q)
{
    const __m512d power = power_of_sixteenths(q.n);
    return FMA_F64(power, exp2m1_rest(q.f), power - all_f64(1));
}
static ALWAYS_INLINE __m512d expm1_lanes_f64(__m512d x)
{
    /* Keeps the sign of -0. */
    return signed_as(expm1_of(sixteenths_of(at_least(x), 0x1.71547652b82fep0)), x);
}
/* Infinite results are rare. */
LANES(expm1, _mm512_cmp_ps_mask(x, all_f32(88), _CMP_NLE_UQ))
/* t / (t + 2), where t = e^(2 |x|) - 1. */
static ALWAYS_INLINE __m512d tanh_lanes_f64(__m512d x)
{
    const __m512d within = _mm512_min_pd(all_f64(10), _mm512_abs_pd(x));
    const __m512d t = expm1_of(sixteenths_of(within, 0x1.71547652b82fep1));
    return signed_as(quotient_of_lanes(t, t + all_f64(2)), x);
}
LANES(tanh, 0)

/*
 * With u = 2^(n/16) and d = 2^(-n/16), e^x = u 2^f and e^-x = d 2^-f.  The halved even and odd
 * parts of 2^f have errors of at most 2^-48.
 */
typedef struct t_lanes_halves {
    __m512d plus, minus, even, odd;
} t_lanes_halves;
static ALWAYS_INLINE t_lanes_halves halves_of_lanes(__m512d size)
{
    const t_sixteenths q = sixteenths_of(size, 0x1.71547652b82fep0);
    const __m512d up = power_of_sixteenths(q.n);
    const __m512d down = power_of_sixteenths(_mm512_sub_epi64(_mm512_setzero_si512(), q.n));
    const __m512d z = q.f * q.f;
    const __m512d even = fma_with(z, all_f64(0x1.3b2c9b33e574ap-8), 0x1.ebfbdff557182p-4);
    const __m512d odd = fma_with(z, all_f64(0x1.5d897cef05d87p-11), 0x1.c6b08d6f2d895p-6);
    const t_lanes_halves h = {up + down, up - down, fma_with(z, even, 0x1.0000000000014p-1),
                              q.f * fma_with(z, odd, 0x1.62e42fefa39f3p-2)};
    return h;
}
static ALWAYS_INLINE __m512d sinh_lanes_f64(__m512d x)
{
    const t_lanes_halves h = halves_of_lanes(_mm512_abs_pd(x));
    return signed_as(FMA_F64(h.minus, h.even, h.plus * h.odd), x);
}
static ALWAYS_INLINE __m512d cosh_lanes_f64(__m512d x)
{
    const t_lanes_halves h = halves_of_lanes(_mm512_abs_pd(x));
    return FMA_F64(h.plus, h.even, h.minus * h.odd);
}
/* Infinite results are rare. */
LANES(sinh, is_beyond_limit(x, 89))
LANES(cosh, is_beyond_limit(x, 89))

/* ---- Logarithms ---- */

/*
 * x = 2^k m, with m between 3/4 and 3/2.  This range is cut into 16 parts, and the table has 1 / c
 * for the middle c of each.  Then r = m / c - 1, |r| <= 1/32, and log x = k log 2 + log c +
 * log(1 + r).  In the part of 1, c is 1, so r keeps all bits.
 */
static const double lanes_inverses[16] = {
    128. / 99,  128. / 105, 128. / 111, 128. / 117, 128. / 123, 1,          128. / 135, 128. / 141,
    128. / 147, 128. / 153, 128. / 159, 128. / 165, 128. / 171, 128. / 177, 128. / 183, 128. / 189,
};
/* log c; other logarithms have the natural one times `unit`. */
#define LANES_LOGS(unit) \
    { \
        -0x1.07138604d5864p-2 * (unit), -0x1.95a5adcf70182p-3 * (unit), \
            -0x1.23d712a49c201p-3 * (unit), -0x1.700d30aeac0e8p-4 * (unit), \
            -0x1.466aed42de3f9p-5 * (unit), 0, 0x1.b42dd711971b9p-5 * (unit), \
            0x1.8c345d6319b23p-4 * (unit), 0x1.1b72ad52f67a2p-3 * (unit), \
            0x1.6d60fe719d21bp-3 * (unit), 0x1.bc286742d8cd4p-3 * (unit), \
            0x1.0402594b4d041p-2 * (unit), 0x1.2895a13de86a4p-2 * (unit), \
            0x1.4be5f957778a1p-2 * (unit), 0x1.6e08eaa2ba1e4p-2 * (unit), \
            0x1.8f11e873662c8p-2 * (unit), \
    }
#define PER_LN_2 0x1.71547652b82fep0
#define PER_LN_10 0x1.bcb7b1526e50ep-2
static const double lanes_log[16] = LANES_LOGS(1), lanes_log2[16] = LANES_LOGS(PER_LN_2),
                    lanes_log10[16] = LANES_LOGS(PER_LN_10);
typedef struct t_lanes_split {
    __m512d k, r;
    __m512i index;
} t_lanes_split;
/* Of |x|. */
static ALWAYS_INLINE t_lanes_split split_lanes(__m512d x)
{
    /* 4/3 is rounded down: numbers just below 3/2 do not become 2. */
    const __m512d scaled = x * all_f64(0x1.5555555555555p0);
    const __m512d m = _mm512_getmant_pd(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
    const __m512i index = _mm512_srli_epi64(bits_of_f64s(scaled), 48);
    const t_lanes_split split = {_mm512_getexp_pd(scaled),
                                 fma_with(m, entries(lanes_inverses, index), -1), index};
    return split;
}
/* The error of the fit is 2^-37.9. */
static ALWAYS_INLINE __m512d log_of_rest(t_lanes_split s, __m512d r, double unit,
                                         const double *table)
{
    const __m512d base =
        FMA_F64(s.k, all_f64(0x1.62e42fefa39efp-1 * unit), entries(table, s.index));
    __m512d p = fma_with(r, all_f64(-0x1.54e61bcd05287p-3 * unit), 0x1.9a03c89a06cacp-3 * unit);
    p = fma_with(r, p, -0x1.000013d529017p-2 * unit);
    p = horner_3_lanes(r, p, 0x1.5555508376506p-2 * unit, -0x1.ffffffff0531dp-2 * unit,
                       0x1.000000000427cp0 * unit);
    return FMA_F64(r, p, base);
}
static ALWAYS_INLINE __m512d log_lanes_f64(__m512d x)
{
    const t_lanes_split s = split_lanes(x);
    return log_of_rest(s, s.r, 1, lanes_log);
}
/* In the part of 1, r is x itself: 1 + x may lose bits of it. */
static ALWAYS_INLINE __m512d log1p_lanes_f64(__m512d x)
{
    const t_lanes_split s = split_lanes(all_f64(1) + x);
    const __mmask8 is_near = _mm512_cmp_pd_mask(_mm512_abs_pd(x), all_f64(0x1p-6), _CMP_LT_OQ);
    return signed_as(log_of_rest(s, _mm512_mask_mov_pd(s.r, is_near, x), 1, lanes_log), x);
}
static ALWAYS_INLINE __m512d log2_lanes_f64(__m512d x)
{
    const t_lanes_split s = split_lanes(x);
    return log_of_rest(s, s.r, PER_LN_2, lanes_log2);
}
static ALWAYS_INLINE __m512d log10_lanes_f64(__m512d x)
{
    const t_lanes_split s = split_lanes(x);
    return log_of_rest(s, s.r, PER_LN_10, lanes_log10);
}
/* log(1 + (u + s)), where u = x - 1 and s^2 = x^2 - 1. */
static ALWAYS_INLINE __m512d arccosh_lanes_f64(__m512d x)
{
    const __m512d u = x - all_f64(1);
    return log1p_lanes_f64(u + root_of_lanes(FMA_F64(u, u, u + u)));
}
/* All but positive, normal and finite numbers are special. */
#define ANY_CLASS 0xff
#define INFINITE_CLASS 0x99 /* and NaNs */
LANES(log, _mm512_fpclass_ps_mask(x, ANY_CLASS))
LANES(log1p,
      _mm512_fpclass_ps_mask(x, INFINITE_CLASS) | _mm512_cmp_ps_mask(x, all_f32(-1), _CMP_NGT_UQ))
LANES(arccosh,
      _mm512_fpclass_ps_mask(x, INFINITE_CLASS) | _mm512_cmp_ps_mask(x, all_f32(1), _CMP_NGE_UQ))
LANES(log2, _mm512_fpclass_ps_mask(x, ANY_CLASS))
LANES(log10, _mm512_fpclass_ps_mask(x, ANY_CLASS))

/* ---- power ---- */

/*
 * Returns y log2 |x|.  The error of the fit is 2^-50.3, and at most 128 times that if 2 to this
 * power is neither 0 nor infinite.
 */
static ALWAYS_INLINE __m512d power_product(__m512d x, __m512d y)
{
    const t_lanes_split s = split_lanes(x);
    __m512d p = fma_with(s.r, all_f64(-0x1.709fab7a502cp-3), 0x1.a6b594401be7bp-3);
    p = fma_with(s.r, p, -0x1.ec70fde3fa366p-3);
    p = fma_with(s.r, p, 0x1.2776b92d1efa4p-2);
    p = fma_with(s.r, p, -0x1.7154764d4a7ap-2);
    p = fma_with(s.r, p, 0x1.ec709dc4316fep-2);
    p = fma_with(s.r, p, -0x1.71547652b841ep-1);
    p = fma_with(s.r, p, 0x1.71547652b82fap0);
    return y * FMA_F64(s.r, p, s.k + entries(lanes_log2, s.index));
}
/* Beyond +-200 the power is 0 or infinite, as that of +-200. */
static ALWAYS_INLINE __m512d power_of_product(__m512d product)
{
    const __m512d within = _mm512_min_pd(all_f64(200), at_least(product));
    const __m512d m = within + all_f64(SIXTEENTHS_MAGIC);
    return power_and_rest(bits_of_f64s(m), within - (m - all_f64(SIXTEENTHS_MAGIC)));
}
#define COMPARE_SIZES(product, predicate, limit) \
    _mm512_kunpackb(_mm512_cmp_pd_mask(_mm512_abs_pd(product.b), all_f64(limit), predicate), \
                    _mm512_cmp_pd_mask(_mm512_abs_pd(product.a), all_f64(limit), predicate))
/* Returns the sign bits of x^y.  *is_undefined_ret: x is negative and y is not whole. */
static ALWAYS_INLINE __m512i power_signs(__m512 x, __m512 y, __mmask16 *is_undefined_ret)
{
    /* If y is whole and |y| < 2^22, the sum has its last bit. */
    const __m512 sum = y + all_f32(0x1.8p23f);
    const __mmask16 is_broken = _mm512_cmp_ps_mask(sum - all_f32(0x1.8p23f), y, _CMP_NEQ_UQ) |
                                _mm512_cmp_ps_mask(_mm512_abs_ps(y), all_f32(0x1p22f), _CMP_NLT_UQ);
    *is_undefined_ret = is_broken & _mm512_movepi32_mask(_mm512_castps_si512(x));
    return _mm512_and_si512(
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(sum), 31)),
        _mm512_set1_epi32((int)0x80000000));
}
#define ZERO_CLASS 0x06
#define NEITHER_CLASS 0xb9 /* infinities, subnormal numbers and NaNs */
/*
 * Rare: powers that may be subnormal, or of which it is unclear whether they are infinite.  The
 * logarithm of 0 is below -1000 here, so powers of 0 are 0, infinite or rare.
 */
static ALWAYS_INLINE t_lanes power_lanes(__m512 x, t_f64_pair wide_x, __m512 y, t_f64_pair wide_y)
{
    const t_f64_pair product = {power_product(wide_x.a, wide_y.a),
                                power_product(wide_x.b, wide_y.b)};
    const t_f64_pair z = {power_of_product(product.a), power_of_product(product.b)};
    /* NaNs are both. */
    const __mmask16 is_far = COMPARE_SIZES(product, _CMP_NLT_UQ, 125);
    const __mmask16 is_finite = COMPARE_SIZES(product, _CMP_NGE_UQ, 151);
    __mmask16 is_special;
    const __m512i signs = power_signs(x, y, &is_special);
    is_special |= _mm512_fpclass_ps_mask(x, NEITHER_CLASS);
    is_special |= is_finite & (_mm512_fpclass_ps_mask(x, ZERO_CLASS) | is_far);
    t_lanes lanes = narrow_lanes(z, is_special);
    lanes.a = _mm256_or_ps(lanes.a, _mm256_castsi256_ps(_mm512_castsi512_si256(signs)));
    lanes.b = _mm256_or_ps(lanes.b, _mm256_castsi256_ps(_mm512_extracti32x8_epi32(signs, 1)));
    return lanes;
}

/* ---- Inverses of the trigonometric functions ---- */

/*
 * For each half octave from 3/32 to 12, by the last bits of its number, a tangent c in the middle
 * of its angles; 0 below, and 2^60 above.  Then arctan x = arctan c + arctan t with t = (x - c) /
 * (1 + c x), |t| <= 0.106.
 */
static const double lanes_tangents[16] = {
    0x1.3504f4p1,  0x1.b78f34p1,  0x1.33b61p2,   0x1.b70b2cp2,  0x1.3354f8p3,  0x1p60,
    0x0p0,         0x1.bfe456p-4, 0x1.3fb1fap-3, 0x1.bf9536p-3, 0x1.3edd6ap-2, 0x1.be8902p-2,
    0x1.3c6ef4p-1, 0x1.bc0e24p-1, 0x1.384512p0,  0x1.b9224ep0,
};
static const double lanes_angles[16] = {
    0x1.2d97c82ef3f6fp0,
    0x1.49951fdd55ed8p0,
    0x1.5da0a7c1ec8f6p0,
    0x1.6d11405f25fdcp0,
    0x1.779078cc47d1bp0,
    0x1.921fb54442d18p0,
    0x0p0,
    0x1.be1e959a10926p-4,
    0x1.3d22c4217a13dp-3,
    0x1.b8a78a7a7ef59p-3,
    0x1.351ea26533f1fp-2,
    0x1.a514028eccf2p-2,
    0x1.1b6e1994c43a8p-1,
    0x1.6dcc576695cc7p-1,
    0x1.c4a839921178fp-1,
    0x1.0b833bf6ac32dp0,
};
/* Above 2^30 the result is that of 2^30. */
static ALWAYS_INLINE __m512d arctan_lanes_f64(__m512d x)
{
    const __m512d size = _mm512_min_pd(all_f64(0x1p30), _mm512_abs_pd(x));
    const __m512d near = _mm512_max_pd(all_f64(0x1p-4), _mm512_min_pd(all_f64(12), size));
    const __m512i index = _mm512_srli_epi64(bits_of_f64s(near), 51);
    const __m512d c = entries(lanes_tangents, index);
    const __m512d t = quotient_of_lanes(size - c, fma_with(c, size, 1)), z = t * t;
    __m512d p = fma_with(z, all_f64(0x1.be54b30e58731p-4), -0x1.248911a2f8098p-3);
    p = fma_with(z, p, 0x1.999991f548d5bp-3);
    p = fma_with(z, p, -0x1.5555555459181p-2);
    return signed_as(entries(lanes_angles, index) + FMA_F64(t * z, p, t), x);
}
LANES(arctan, 0)

/*
 * arcsin |x| is arcsin s for |x| <= 1/2; above, it is pi/2 - 2 arcsin(s/2) with s^2 = 2 - 2 |x|.
 * Both arcsines are s + s z p(z), where z is s^2 or s^2/4.  The error of the fit is 2^-39.9.
 */
typedef struct t_lanes_arcsine {
    __m512d angle;
    __mmask8 is_above;
} t_lanes_arcsine;
static ALWAYS_INLINE t_lanes_arcsine arcsine_of_lanes(__m512d x)
{
    const __m512d size = _mm512_abs_pd(x), rest = all_f64(1) - size;
    const __mmask8 is_above = _mm512_cmp_pd_mask(size, all_f64(0.5), _CMP_GT_OQ);
    const __m512d z = _mm512_mask_mul_pd(size * size, is_above, rest, all_f64(0.5));
    const __m512d s = _mm512_mask_mov_pd(size, is_above, root_of_lanes(rest + rest));
    __m512d p = fma_with(z, all_f64(0x1.0d7de72801388p-5), 0x1.053ef29ad67d8p-9);
    p = horner_3_lanes(z, p, 0x1.522e8753abf1dp-6, 0x1.6643f9f6358d3p-6, 0x1.f2819889d16b2p-6);
    p = horner_3_lanes(z, p, 0x1.6db25d31fbe86p-5, 0x1.33334085b36e2p-4, 0x1.55555547e1602p-3);
    const t_lanes_arcsine a = {FMA_F64(s * z, p, s), is_above};
    return a;
}
static ALWAYS_INLINE __m512d arcsin_lanes_f64(__m512d x)
{
    const t_lanes_arcsine a = arcsine_of_lanes(x);
    return signed_as(_mm512_mask_sub_pd(a.angle, a.is_above, all_f64(HALF_PI_HI), a.angle), x);
}
/* pi/2 - arcsin x for |x| <= 1/2; above, 2 arcsin(s/2); below, pi minus that. */
static ALWAYS_INLINE __m512d arccos_lanes_f64(__m512d x)
{
    const t_lanes_arcsine a = arcsine_of_lanes(x);
    const __mmask8 is_minus = _mm512_movepi64_mask(bits_of_f64s(x));
    const __m512d right = _mm512_maskz_mov_pd((__mmask8)~a.is_above, all_f64(HALF_PI_HI));
    const __m512d base = _mm512_mask_mov_pd(right, a.is_above & is_minus, all_f64(2 * HALF_PI_HI));
    return _mm512_mask_add_pd(base - a.angle, a.is_above ^ is_minus, base, a.angle);
}
/* |x| > 1 and NaNs are special. */
LANES(arcsin, _mm512_cmp_ps_mask(_mm512_abs_ps(x), all_f32(1), _CMP_NLE_UQ))
LANES(arccos, _mm512_cmp_ps_mask(_mm512_abs_ps(x), all_f32(1), _CMP_NLE_UQ))

/*
 * arctan2: c is the eighth nearest to the quotient of the smaller and the larger one of |x| and
 * |y|, by an estimate of 14 bits, and t = (smaller - c larger) / (larger + c smaller).
 */
static const double lanes_eighths[16] = {
    0x0p0,
    0x1.fd5ba9aac2f6ep-4,
    0x1.f5b75f92c80ddp-3,
    0x1.6f61941e4def1p-2,
    0x1.dac670561bb4fp-2,
    0x1.1e00babdefeb4p-1,
    0x1.4978fa3269ee1p-1,
    0x1.700a7c5784634p-1,
    0x1.921fb54442d18p-1,
};
#define EIGHTHS_MAGIC 0x1.8p49
static ALWAYS_INLINE __m512d arctan2_lanes_f64(__m512d y, __m512d x)
{
    const __m512d size_x = _mm512_abs_pd(x), size_y = _mm512_abs_pd(y);
    const __m512d larger = _mm512_max_pd(size_x, size_y), smaller = _mm512_min_pd(size_x, size_y);
    const __m512d m = FMA_F64(smaller, _mm512_rcp14_pd(larger), all_f64(EIGHTHS_MAGIC));
    const __m512d c = m - all_f64(EIGHTHS_MAGIC);
    const __m512d t =
        quotient_of_lanes(_mm512_fnmadd_pd(c, larger, smaller), FMA_F64(c, smaller, larger));
    const __m512d z = t * t;
    __m512d p = fma_with(z, all_f64(-0x1.22dd76b5ffaa9p-3), 0x1.99989bd2ae8fcp-3);
    p = fma_with(z, p, -0x1.555555405d364p-2);
    const __m512d angle = entries(lanes_eighths, bits_of_f64s(m)) + FMA_F64(t * z, p, t);
    /* Reflects the angle at pi/4 if |y| is larger, and at pi/2 if x is negative. */
    const __mmask8 is_steep = _mm512_cmp_pd_mask(size_y, size_x, _CMP_GT_OQ);
    const __mmask8 is_left = _mm512_movepi64_mask(bits_of_f64s(x));
    const __m512d flat = _mm512_maskz_mov_pd(is_left, all_f64(2 * HALF_PI_HI));
    const __m512d base = _mm512_mask_mov_pd(flat, is_steep, all_f64(HALF_PI_HI));
    return signed_as(_mm512_mask_sub_pd(base + angle, is_steep ^ is_left, base, angle), y);
}
/* Special: NaNs, infinities, 0 / 0, and quotients that may be subnormal. */
static ALWAYS_INLINE t_lanes arctan2_lanes(__m512 y, t_f64_pair wide_y, __m512 x, t_f64_pair wide_x)
{
    const t_f64_pair angles = {arctan2_lanes_f64(wide_y.a, wide_x.a),
                               arctan2_lanes_f64(wide_y.b, wide_x.b)};
    const __m512i size_x = _mm512_castps_si512(_mm512_abs_ps(x));
    const __m512i size_y = _mm512_castps_si512(_mm512_abs_ps(y));
    const __m512i larger = _mm512_max_epu32(size_x, size_y);
    const __m512i smaller = _mm512_min_epu32(size_x, size_y);
    const __m512i ratio = _mm512_sub_epi32(larger, smaller);
    const __m512i one = _mm512_set1_epi32(1);
    return narrow_lanes(
        angles,
        _mm512_mask_cmpge_epu32_mask(_mm512_test_epi32_mask(smaller, smaller), ratio,
                                     _mm512_set1_epi32(100 << 23)) |
            _mm512_cmpge_epu32_mask(_mm512_sub_epi32(larger, one), _mm512_set1_epi32(0x7f7fffff)));
}

#undef LANES

/* ---- Loops ---- */

/* From operands `at` bytes behind the first. */
#define LANES_OF_ONE(op, at) op##_lanes(_mm512_loadu_ps(a + (at)), load_wide(a + (at)))
#define LANES_OF_TWO(op, at) \
    op##_lanes(_mm512_loadu_ps(a + (at)), load_wide(a + (at)), _mm512_loadu_ps(b + (at)), \
               load_wide(b + (at)))
#define LANES_LOOP(op, of) \
    NOINLINE static uint32_t op##_lanes_loop_f32(ptrdiff_t groups, uint32_t *restrict is_rare, \
                                                 char *restrict out, const char *restrict a, \
                                                 const char *restrict b) \
    { \
        uint32_t is_any_rare = 0; \
        for (ptrdiff_t k = 0; k < groups; k++, out += 128, a += 128, b += 128) { \
            const t_lanes x = of(op, 0), y = of(op, 64); \
            store_halves(out, x); \
            store_halves(out + 64, y); \
            is_rare[k] = x.is_rare | y.is_rare; \
            is_any_rare |= is_rare[k]; \
        } \
        return is_any_rare; \
    }
/* clang-format off */
#define MYLIB_LANES(X)                                                                             \
    X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sinh) X(cosh) X(tanh)               \
    X(arcsin) X(arccos) X(arctan) X(arccosh)
/* clang-format on */
/* Of two arguments: X(op, loop for any elements). */
#define MYLIB_LANES_BINARY(X) X(arctan2, arctan2_hard_loop_f32) X(power, power_steps_f32)

#endif /* __AVX512BW__ */
