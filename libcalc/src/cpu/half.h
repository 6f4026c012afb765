/*
 * half.h - f16 computed in f32: conversions of whole blocks, and kernels between two conversions.
 */
#pragma once

#include "cpu/loops.h"

/* Three blocks of f32 and their f16 sources stay in the smallest L1 cache in use. */
#define HALF_BLOCK 512

#if !defined(__F16C__)
/*
 * Widens exactly: shifts the fields, and a multiplication by 2^112 corrects the exponent's bias,
 * even of subnormals.  Infinity and NaN get the largest exponent.
 */
static inline float f32_from_bits16(uint32_t h)
{
    uint32_t rest = (h & 0x7fff) << 13, special = rest >= 0x0f800000 ? 0x7f800000 : 0;
    return f32_of_bits(bits_of_f32(f32_of_bits(rest) * 0x1p112f) | special | (h & 0x8000) << 16);
}

/*
 * Narrows, to nearest even.  A result that is subnormal in f16 is rounded by adding 1/2 in f32,
 * whose last bit is then worth 2^-24.  A normal one is rounded by adding just under half of the
 * last bit kept, plus one if that bit is odd.  The carry may run into the exponent, up to infinity.
 */
static inline uint32_t bits16_from_f32(float x, uint32_t *overflow, uint32_t *underflow)
{
    uint32_t u = bits_of_f32(x), rest = u & 0x7fffffff;
    uint32_t normal = (rest - (112u << 23) + 0xfff + ((rest >> 13) & 1)) >> 13;
    float rounded = f32_of_bits(rest) + 0.5f;
    uint32_t subnormal = bits_of_f32(rounded) - bits_of_f32(0.5f);
    uint32_t special = rest > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t is_small = rest < 0x38800000, is_large = rest >= 0x477ff000;
    *overflow |= is_large & (uint32_t)(rest < 0x7f800000);
    *underflow |= is_small & (uint32_t)(bits_of_f32(rounded - 0.5f) != rest);
    return (is_large ? special : is_small ? subnormal : normal) | ((u >> 16) & 0x8000);
}
#endif

NOINLINE static void widen(ptrdiff_t n, float *dst, const char *src)
{
    ptrdiff_t i = 0;
#if defined(HAS_V4)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i,
                         _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(src + 2 * i))));
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + 2 * i))));
    for (; i < n; i++)
        dst[i] = _cvtsh_ss(load_f16(src + 2 * i).bits);
#else
    for (; i < n; i++)
        dst[i] = f32_from_bits16(load_f16(src + 2 * i).bits);
#endif
}

NOINLINE static void narrow(ptrdiff_t n, char *dst, const float *src)
{
    ptrdiff_t i = 0;
#if defined(HAS_V4)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(dst + 2 * i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(dst + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        store_u16(dst + 2 * i, _cvtss_sh(src[i], _MM_FROUND_TO_NEAREST_INT));
#else
    uint32_t overflow = 0, underflow = 0;
    for (; i < n; i++)
        store_u16(dst + 2 * i, (uint16_t)bits16_from_f32(src[i], &overflow, &underflow));
    if (overflow || underflow)
        mylib_raise_flags((overflow ? FE_OVERFLOW : 0) | (underflow ? FE_UNDERFLOW : 0));
#endif
}

/* Converts f64 to f32, with an odd last bit if inexact, so that f16 is then rounded once. */
static inline void narrow_to_odd(ptrdiff_t n, float *dst, const char *src)
{
    const uint64_t beyond = ((uint64_t)1 << 29) - 1;
    for (ptrdiff_t i = 0; i < n; i++) {
        uint64_t u = load_u64(src + i * (ptrdiff_t)sizeof u);
        u = (u & ~beyond) | (((u & beyond) + beyond) & (beyond + 1));
        double x;
        memcpy(&x, &u, sizeof x);
        dst[i] = (float)x;
    }
}

/* `packed` holds a block. */
static void widen_strided(ptrdiff_t n, float *dst, const char *src, ptrdiff_t stride, char *packed)
{
    if (stride != sizeof(t_f16)) {
        pack_strided(sizeof(t_f16), n, packed, src, stride);
        src = packed;
    }
    widen(n, dst, src);
}

static inline t_f16 f16_from_f32(float x)
{
    t_f16 h;
    narrow(1, (char *)&h, &x);
    return h;
}

/*
 * Runs an f32 kernel between two conversions, block by block.  All of a block is read before any of
 * it is written.  Functions report their own flags: the conversion of a signaling NaN may raise
 * FE_INVALID, and they do not.
 */
static void half_kernel(mylib_kernel *kernel, int binary, int is_function, ptrdiff_t n, char *out,
                        ptrdiff_t so, const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    _Alignas(64) float fa[HALF_BLOCK], fb[HALF_BLOCK];
    char packed[HALF_BLOCK * sizeof(t_f16)];
    const ptrdiff_t w = sizeof(float);
    int flags = mylib_test_flags();

    if (binary && sb == 0 && n > 0)
        widen(1, fb, b);
    while (n > 0) {
        ptrdiff_t m = n < HALF_BLOCK ? n : HALF_BLOCK;
        widen_strided(m, fa, a, sa, packed);
        if (binary && sb != 0)
            widen_strided(m, fb, b, sb, packed);
        if (is_function)
            mylib_restore_flags(flags);
        kernel(m, (char *)fa, w, (char *)fa, w, (char *)fb, sb == 0 ? 0 : w);
        if (is_function)
            flags = mylib_test_flags();
        if (so == sizeof(t_f16)) {
            narrow(m, out, fa);
        } else {
            narrow(m, packed, fa);
            mylib_copy_strided(sizeof(t_f16), m, out, so, packed, sizeof(t_f16));
        }
        if (is_function) {
            flags |= mylib_test_flags() & ~FE_INVALID;
            mylib_restore_flags(flags);
        }
        n -= m;
        out += m * so;
        a += m * sa;
        b += m * sb;
    }
}

/* Does the same with a comparison of f32; raises no flags. */
static void half_comparison(mylib_kernel *kernel, ptrdiff_t n, char *out, ptrdiff_t so,
                            const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    _Alignas(64) float fa[HALF_BLOCK], fb[HALF_BLOCK];
    char packed[HALF_BLOCK * sizeof(t_f16)];
    const ptrdiff_t w = sizeof(float);
    const int flags = mylib_test_flags();

    if (n > 0) {
        widen(1, fa, a);
        widen(1, fb, b);
    }
    while (n > 0) {
        ptrdiff_t m = n < HALF_BLOCK ? n : HALF_BLOCK;
        if (sa != 0)
            widen_strided(m, fa, a, sa, packed);
        if (sb != 0)
            widen_strided(m, fb, b, sb, packed);
        kernel(m, out, so, (char *)fa, sa == 0 ? 0 : w, (char *)fb, sb == 0 ? 0 : w);
        n -= m;
        out += m * so;
        a += m * sa;
        b += m * sb;
    }
    mylib_restore_flags(flags);
}

/* f16 comes before f32 in the table, and calls its kernels. */
#define HALF_KERNEL(op, s, binary) \
    KERNEL(op##_kernel_f32); \
    KERNEL(op##_kernel_##s) \
    { \
        half_kernel(op##_kernel_f32, binary, MYLIB_OP_##op >= MYLIB_OP_rint, n, out, so, a, sa, b, \
                    sb); \
    }
#define HALF_BINARY(op, s) HALF_KERNEL(op, s, 1)
#define HALF_UNARY(op, s) HALF_KERNEL(op, s, 0)
#define HALF_COMPARE(op, s) \
    KERNEL(op##_kernel_f32); \
    KERNEL(op##_kernel_##s) { half_comparison(op##_kernel_f32, n, out, so, a, sa, b, sb); }
#define HALF_TEST(op, s) \
    KERNEL(op##_kernel_f32); \
    KERNEL(op##_kernel_##s) { half_comparison(op##_kernel_f32, n, out, so, a, sa, a, 0); }
