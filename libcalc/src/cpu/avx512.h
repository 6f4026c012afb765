/*
 * avx512.h - AVX-512 intrinsics for loops that compilers vectorize badly or not at all: products of
 * complex numbers, f16 converted in registers, minima and maxima, and remainders of floats.
 *
 * A kernel here returns the bits and flags of the plain one.
 */
#pragma once

#include "cpu/elementwise.h"

#if defined(HAS_V4)

/* ---- Products of complex numbers ---- */

/*
 * scalar_ops.h keeps gcc from vectorizing complex products at level v4, so they are written out
 * here.  If the elements are not contiguous, a vector is assembled from four quarters.  An output
 * of stride 0 is stored element by element, in order.
 */
typedef __m128d quarter;

static inline quarter load_quarter_c64(const char *p, ptrdiff_t stride)
{
    double low, high; /* at any address */
    memcpy(&low, p, sizeof low);
    memcpy(&high, p + stride, sizeof high);
    return _mm_set_pd(high, low);
}
static inline void store_quarter_c64(char *p, ptrdiff_t stride, quarter x)
{
    double low = _mm_cvtsd_f64(x), high = _mm_cvtsd_f64(_mm_unpackhi_pd(x, x));
    memcpy(p, &low, sizeof low);
    memcpy(p + stride, &high, sizeof high);
}
static inline quarter load_quarter_c128(const char *p, ptrdiff_t stride)
{
    (void)stride;
    return _mm_loadu_pd((const double *)p);
}
static inline void store_quarter_c128(char *p, ptrdiff_t stride, quarter x)
{
    (void)stride;
    _mm_storeu_pd((double *)p, x);
}

/*
 * Subtracts the second product from the first in the real lanes, and adds it in the others, by
 * changing its sign: clang would compute all lanes of a masked addition, and raise their flags.
 */
static inline __m512d product_c64(__m512d a, __m512d b)
{
    __m512 x = _mm512_castpd_ps(a), y = _mm512_castpd_ps(b);
    __m512 by_re = _mm512_mul_ps(_mm512_moveldup_ps(x), y);
    __m512 by_im = _mm512_mul_ps(_mm512_movehdup_ps(x), _mm512_permute_ps(y, 0xb1));
    const __m512 minus_re = _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000));
    return _mm512_castps_pd(_mm512_add_ps(by_re, _mm512_xor_ps(by_im, minus_re)));
}
static inline __m512d product_c128(__m512d a, __m512d b)
{
    __m512d by_re = _mm512_mul_pd(_mm512_movedup_pd(a), b);
    __m512d by_im = _mm512_mul_pd(_mm512_permute_pd(a, 0xff), _mm512_permute_pd(b, 0x55));
    const __m512d minus_re = _mm512_castps_pd(_mm512_broadcast_f32x4(_mm_setr_ps(0, -0.0f, 0, 0)));
    return _mm512_add_pd(by_re, _mm512_xor_pd(by_im, minus_re));
}

#define PRODUCTS(s) \
    static inline __m512d load_vector_##s(const char *p, ptrdiff_t stride) \
    { \
        const ptrdiff_t quarter_stride = stride * (ptrdiff_t)(16 / sizeof(t_##s)); \
        if (stride == sizeof(t_##s)) \
            return _mm512_loadu_pd(p); \
        __m512d x = _mm512_castpd128_pd512(load_quarter_##s(p, stride)); \
        x = _mm512_insertf64x2(x, load_quarter_##s(p + quarter_stride, stride), 1); \
        __m256d y = _mm256_castpd128_pd256(load_quarter_##s(p + 2 * quarter_stride, stride)); \
        y = _mm256_insertf64x2(y, load_quarter_##s(p + 3 * quarter_stride, stride), 1); \
        return _mm512_insertf64x4(x, y, 1); \
    } \
    static inline void store_vector_##s(char *p, ptrdiff_t stride, __m512d x) \
    { \
        const ptrdiff_t quarter_stride = stride * (ptrdiff_t)(16 / sizeof(t_##s)); \
        if (stride == sizeof(t_##s)) { \
            _mm512_storeu_pd(p, x); \
            return; \
        } \
        store_quarter_##s(p, stride, _mm512_castpd512_pd128(x)); \
        store_quarter_##s(p + quarter_stride, stride, _mm512_extractf64x2_pd(x, 1)); \
        store_quarter_##s(p + 2 * quarter_stride, stride, _mm512_extractf64x2_pd(x, 2)); \
        store_quarter_##s(p + 3 * quarter_stride, stride, _mm512_extractf64x2_pd(x, 3)); \
    } \
    /* Multiplies whole vectors; returns the number of elements done. */ \
    static ALWAYS_INLINE ptrdiff_t product_loop_##s(ptrdiff_t n, char *out, ptrdiff_t so, \
                                                    const char *a, ptrdiff_t sa, const char *b, \
                                                    ptrdiff_t sb) \
    { \
        const ptrdiff_t m = 64 / sizeof(t_##s), end = n / m * m; \
        const __m512d a0 = load_vector_##s(a, 0), b0 = load_vector_##s(b, 0); \
        for (ptrdiff_t i = 0; i < end; i += m) { \
            __m512d x = sa == 0 ? a0 : load_vector_##s(a + i * sa, sa); \
            __m512d y = sb == 0 ? b0 : load_vector_##s(b + i * sb, sb); \
            __asm__("" : "+v"(x), "+v"(y)); /* loads once, not for each use */ \
            store_vector_##s(out + i * so, so, product_##s(x, y)); \
        } \
        return end; \
    } \
    static ALWAYS_INLINE void product_loops_##s(ptrdiff_t n, char *out, ptrdiff_t so, \
                                                const char *a, ptrdiff_t sa, const char *b, \
                                                ptrdiff_t sb) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        ptrdiff_t done = 0; \
        if (so == w && sa == w && sb == w) \
            done = product_loop_##s(n, out, w, a, w, b, w); \
        else if (so == w) \
            done = product_loop_##s(n, out, w, a, sa, b, sb); \
        else if (so != 0) \
            done = product_loop_##s(n, out, so, a, sa, b, sb); \
        multiply_kernel_##s(n - done, out + done * so, so, a + done * sa, sa, b + done * sb, sb); \
    } \
    KERNEL(multiply_product_##s) { product_loops_##s(n, out, so, a, sa, b, sb); } \
    KERNEL(square_product_##s) { product_loops_##s(n, out, so, a, sa, a, sa); }
PRODUCTS(c64)
PRODUCTS(c128)

/* ---- Vectors written out ---- */

/*
 * f16 is converted in registers.  The rest of a contiguous row is one more vector; its unused lanes
 * hold 1, which raises no flag.  A single number is an operand of stride 0.
 */
enum { LANES_f16 = 16, LANES_f32 = 16, LANES_f64 = 8 };
typedef __m512 vector_f16;
typedef __m512 vector_f32;
typedef __m512d vector_f64;

static inline __m512 load_lanes_f16(unsigned lanes, const char *p)
{
    const __m256i ones = _mm256_set1_epi16(0x3c00);
    return _mm512_cvtph_ps(_mm256_mask_loadu_epi16(ones, (__mmask16)lanes, p));
}
static inline __m512 load_lanes_f32(unsigned lanes, const char *p)
{
    return _mm512_mask_loadu_ps(_mm512_set1_ps(1), (__mmask16)lanes, p);
}
static inline __m512d load_lanes_f64(unsigned lanes, const char *p)
{
    return _mm512_mask_loadu_pd(_mm512_set1_pd(1), (__mmask8)lanes, p);
}
static inline void store_lanes_f16(char *p, unsigned lanes, __m512 x)
{
    _mm256_mask_storeu_epi16(p, (__mmask16)lanes, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline void store_lanes_f32(char *p, unsigned lanes, __m512 x)
{
    _mm512_mask_storeu_ps(p, (__mmask16)lanes, x);
}
static inline void store_lanes_f64(char *p, unsigned lanes, __m512d x)
{
    _mm512_mask_storeu_pd(p, (__mmask8)lanes, x);
}
static inline __m512 repeat_lanes_f32(unsigned lanes, __m512 x)
{
    return _mm512_mask_mov_ps(_mm512_set1_ps(1), (__mmask16)lanes, x);
}
static inline __m512 repeat_lanes_f16(unsigned lanes, __m512 x)
{
    return repeat_lanes_f32(lanes, x);
}
static inline __m512d repeat_lanes_f64(unsigned lanes, __m512d x)
{
    return _mm512_mask_mov_pd(_mm512_set1_pd(1), (__mmask8)lanes, x);
}
static inline __m512 repeat_f16(const char *p) { return _mm512_set1_ps(_cvtsh_ss(load_u16(p))); }
static inline __m512 repeat_f32(const char *p) { return _mm512_set1_ps(load_f32(p)); }
static inline __m512d repeat_f64(const char *p) { return _mm512_set1_pd(load_f64(p)); }

static inline __m512 add_lanes(__m512 x, __m512 y) { return x + y; }
static inline __m512 subtract_lanes(__m512 x, __m512 y) { return x - y; }
static inline __m512 multiply_lanes(__m512 x, __m512 y) { return x * y; }
static inline __m512 divide_lanes(__m512 x, __m512 y) { return x / y; }
static inline __m512 sqrt_lanes(__m512 x, __m512 y)
{
    (void)y;
    return _mm512_sqrt_ps(x);
}

/* Returns a in lanes where x < y or a is NaN, else b. */
static inline __m512 lesser_f32(__m512 a, __m512 b, __m512 x, __m512 y)
{
    __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    return _mm512_mask_blend_ps(is_nan | _mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
static inline __m512d lesser_f64(__m512d a, __m512d b, __m512d x, __m512d y)
{
    __mmask8 is_nan = _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q);
    return _mm512_mask_blend_pd(is_nan | _mm512_cmp_pd_mask(x, y, _CMP_LT_OQ), b, a);
}
static inline __m512 minimum_lanes_f32(__m512 x, __m512 y) { return lesser_f32(x, y, x, y); }
static inline __m512 maximum_lanes_f32(__m512 x, __m512 y) { return lesser_f32(x, y, y, x); }
static inline __m512d minimum_lanes_f64(__m512d x, __m512d y) { return lesser_f64(x, y, x, y); }
static inline __m512d maximum_lanes_f64(__m512d x, __m512d y) { return lesser_f64(x, y, y, x); }

/* Unary operations get a as b too. */
#define VECTOR_LOOPS(s) \
    static ALWAYS_INLINE vector_##s load_or_repeat_##s(unsigned lanes, vector_##s x0, \
                                                       const char *p, ptrdiff_t stride) \
    { \
        return stride == 0 ? repeat_lanes_##s(lanes, x0) : load_lanes_##s(lanes, p); \
    } \
    static ALWAYS_INLINE void vector_loops_##s( \
        vector_##s (*op)(vector_##s, vector_##s), mylib_kernel *otherwise, ptrdiff_t n, char *out, \
        ptrdiff_t so, const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb) \
    { \
        const ptrdiff_t w = sizeof(t_##s), m = LANES_##s; \
        ptrdiff_t i = 0; \
        if (so != w || (sa != w && sa != 0) || (sb != w && sb != 0)) { \
            otherwise(n, out, so, a, sa, b, sb); \
            return; \
        } \
        const vector_##s x0 = repeat_##s(a), y0 = repeat_##s(b); \
        for (; i + m <= n; i += m) { \
            const vector_##s x = load_or_repeat_##s(0xffff, x0, a + i * w, sa); \
            store_lanes_##s(out + i * w, 0xffff, \
                            op(x, load_or_repeat_##s(0xffff, y0, b + i * w, sb))); \
        } \
        if (i < n) { \
            const unsigned lanes = (1u << (n - i)) - 1; \
            const vector_##s x = load_or_repeat_##s(lanes, x0, a + i * w, sa); \
            store_lanes_##s(out + i * w, lanes, \
                            op(x, load_or_repeat_##s(lanes, y0, b + i * w, sb))); \
        } \
    }
VECTOR_LOOPS(f16)
VECTOR_LOOPS(f32)
VECTOR_LOOPS(f64)

#define BINARY(op, s, lanes) \
    KERNEL(op##_vectors_##s) { vector_loops_##s(lanes, op##_kernel_##s, n, out, so, a, sa, b, sb); }
#define UNARY(op, s, lanes) \
    KERNEL(op##_vectors_##s) { vector_loops_##s(lanes, op##_kernel_##s, n, out, so, a, sa, a, sa); }
BINARY(add, f16, add_lanes)
BINARY(subtract, f16, subtract_lanes)
BINARY(multiply, f16, multiply_lanes)
BINARY(divide, f16, divide_lanes)
UNARY(square, f16, multiply_lanes)
UNARY(sqrt, f16, sqrt_lanes)
BINARY(minimum, f16, minimum_lanes_f32)
BINARY(minimum, f32, minimum_lanes_f32)
BINARY(minimum, f64, minimum_lanes_f64)
BINARY(maximum, f16, maximum_lanes_f32)
BINARY(maximum, f32, maximum_lanes_f32)
BINARY(maximum, f64, maximum_lanes_f64)
#undef UNARY
#undef BINARY

/* ---- Remainders of floats ---- */

/*
 * Computes the remainder without fmod(), on absolute values; at the end the result gets the sign of
 * b, as in divmod (scalar_ops.h).  q is trunc(a / b) in floating point, which is off by at most one
 * while it is below 2^23 or 2^52.  So a fused multiply-add gives a - q * b exactly, and the
 * correction by b is exact too.  (It must not be a masked addition: compilers may turn that into an
 * addition and a selection, which could overflow in the other lanes.)
 *
 * The plain kernel does vectors in which a quotient could be too large or underflow, or an element
 * is an infinity, a NaN, or a zero or subnormal b.  `range` has a margin for a subnormal a.
 */
#define REMAINDER(s, v, epi, ps, digits, range, exponents) \
    static inline int remainder_is_plain_##s(vector_##s a, vector_##s b) \
    { \
        const __m512i one = _mm512_set1_##epi(v(1) << digits); \
        const __m512i infinity = _mm512_set1_##epi(v(exponents) << digits); \
        __m512i x = _mm512_cast##ps##_si512(_mm512_abs_##ps(a)); \
        __m512i y = _mm512_cast##ps##_si512(_mm512_abs_##ps(b)); \
        __m512i spread = \
            _mm512_sub_##epi(_mm512_and_si512(x, infinity), _mm512_and_si512(y, infinity)); \
        unsigned in_range = \
            _mm512_cmplt_##epi##_mask(_mm512_set1_##epi(-(v(range) << digits)), spread) & \
            _mm512_cmplt_##epi##_mask(spread, _mm512_set1_##epi(v(digits) << digits)); \
        return (((in_range & _mm512_cmplt_##epi##_mask(x, infinity)) | \
                 _mm512_testn_##epi##_mask(x, x)) & \
                _mm512_cmple_##epi##_mask(one, y) & _mm512_cmplt_##epi##_mask(y, infinity)) == \
               (1u << LANES_##s) - 1; \
    } \
    static inline vector_##s remainder_vector_##s(vector_##s a, vector_##s b) \
    { \
        const vector_##s zero = _mm512_setzero_##ps(), sign = _mm512_set1_##ps((t_##s) - 0.0); \
        vector_##s x = _mm512_abs_##ps(a), y = _mm512_abs_##ps(b); \
        vector_##s q = _mm512_roundscale_##ps(x / y, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); \
        vector_##s r = _mm512_fnmadd_##ps(q, y, x); \
        r += _mm512_maskz_mov_##ps(_mm512_cmp_##ps##_mask(r, zero, _CMP_LT_OQ), y); \
        unsigned is_zero = _mm512_cmp_##ps##_mask(r, zero, _CMP_EQ_OQ); \
        unsigned has_other_sign = _mm512_cmp_##ps##_mask(a, zero, _CMP_LT_OQ) ^ \
                                  _mm512_cmp_##ps##_mask(b, zero, _CMP_LT_OQ); \
        r = _mm512_mask_sub_##ps(r, has_other_sign & ~is_zero, y, r); \
        return _mm512_or_##ps(r, _mm512_and_##ps(b, sign)); \
    } \
    KERNEL(remainder_vectors_##s) \
    { \
        const ptrdiff_t w = sizeof(t_##s), m = LANES_##s; \
        if (so != w || (sa != w && sa != 0) || (sb != w && sb != 0)) { \
            remainder_kernel_##s(n, out, so, a, sa, b, sb); \
            return; \
        } \
        const vector_##s x0 = repeat_##s(a), y0 = repeat_##s(b); \
        for (ptrdiff_t i = 0; i < n; i += m) { \
            const ptrdiff_t left = n - i < m ? n - i : m; \
            const unsigned lanes = (1u << left) - 1; \
            const vector_##s x = load_or_repeat_##s(lanes, x0, a + i * w, sa); \
            const vector_##s y = load_or_repeat_##s(lanes, y0, b + i * w, sb); \
            if (remainder_is_plain_##s(x, y)) \
                store_lanes_##s(out + i * w, lanes, remainder_vector_##s(x, y)); \
            else \
                remainder_kernel_##s(left, out + i * w, w, a + i * sa, sa, b + i * sb, sb); \
        } \
    }
REMAINDER(f32, INT32_C, epi32, ps, 23, 100, 255)
REMAINDER(f64, INT64_C, epi64, pd, 52, 900, 2047)

KERNEL(remainder_vectors_f16)
{
    half_kernel(remainder_vectors_f32, 1, 0, n, out, so, a, sa, b, sb);
}

#define IN_VECTORS(op, s) op##_vectors_##s
#else
#define IN_VECTORS(op, s) op##_kernel_##s
#endif
