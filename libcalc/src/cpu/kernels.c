/*
 * kernels.c - the CPU kernels: one loop for each operation and type, expanded from the table.
 *
 * Compiled once per level with -DMYLIB_LEVEL=generic|v2|v3|v4 and the matching -march; the only
 * symbol that leaves the file is mylib_cpu_level_<LEVEL>.  cpu/dispatch.c chooses one at run time.
 *
 * The loops are plain C that the compiler vectorizes: in the first three forms the strides are
 * constants. Operands need no alignment.  `out` may be an input with the same stride; other overlap
 * is the caller's business (cpu/execute.c), for the vector loops assume there is none.
 */
#include <stdint.h>
#include <string.h>

#include "internal.h"
#include "scalar_ops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/*
 * Loads and stores at any address; the compiler makes one unaligned move of each.  Complex numbers
 * go part by part: gcc does not vectorize loops over copied structures.
 */
#define ACCESS_WHOLE(s)                                                                            \
    static inline t_##s load_##s(const char *p)                                                    \
    {                                                                                              \
        t_##s x;                                                                                   \
        memcpy(&x, p, sizeof x);                                                                   \
        return x;                                                                                  \
    }                                                                                              \
    static inline void store_##s(char *p, t_##s x) { memcpy(p, &x, sizeof x); }
#define ACCESS_PARTS(s)                                                                            \
    static inline t_##s load_##s(const char *p)                                                    \
    {                                                                                              \
        t_##s x;                                                                                   \
        memcpy(&x.re, p, sizeof x.re);                                                             \
        memcpy(&x.im, p + sizeof x.re, sizeof x.im);                                               \
        return x;                                                                                  \
    }                                                                                              \
    static inline void store_##s(char *p, t_##s x)                                                 \
    {                                                                                              \
        memcpy(p, &x.re, sizeof x.re);                                                             \
        memcpy(p + sizeof x.re, &x.im, sizeof x.im);                                               \
    }
#define ACCESS_SIGNED(s) ACCESS_WHOLE(s)
#define ACCESS_UNSIGNED(s) ACCESS_WHOLE(s)
#define ACCESS_HALF(s) ACCESS_WHOLE(s)
#define ACCESS_FLOAT(s) ACCESS_WHOLE(s)
#define ACCESS_COMPLEX(s) ACCESS_PARTS(s)
#define DT(s, S) PASTE(ACCESS_, MYLIB_CLASS_##s)(s)
MYLIB_TYPES(DT)
#undef DT
#define STORE_OF(s, S) t_##s : store_##s,
#define STORE(T, p, value)                                                                         \
    _Generic((T){0}, MYLIB_TYPES(STORE_OF) void * : (void (*)(char *, void *))0)(p, value)

#if defined(__GNUC__) && !defined(__clang__)
#define NO_DEPENDENCE _Pragma("GCC ivdep")
#elif defined(__clang__)
#define NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_DEPENDENCE
#endif

/* ---- f16: whole blocks to and from f32 ----------------------------------------------------- */

/* Three blocks of f32 and their f16 sources stay in the smallest L1 cache in use. */
#define HALF_BLOCK 512

static uint32_t bits_of_f32(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float f32_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/*
 * Widening is exact: the fields move, and a multiplication by 2^112 corrects the exponent's bias,
 * of subnormals too.  Infinity and NaN get the largest exponent.
 */
static inline float f32_from_bits16(uint32_t h)
{
    uint32_t rest = (h & 0x7fff) << 13, special = rest >= 0x0f800000 ? 0x7f800000 : 0;
    return f32_of_bits(bits_of_f32(f32_of_bits(rest) * 0x1p112f) | special | (h & 0x8000) << 16);
}

#if !defined(__F16C__)
/*
 * Narrowing.  A result that is subnormal in f16 is rounded by adding 1/2 in f32, whose last bit is
 * then worth 2^-24; a normal one by adding just under half of the last bit kept, and one more when
 * that bit is odd.  The carry may run into the exponent, up to infinity, which is right.
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

/* src and dst of f16 may be at any address. */
static void widen(ptrdiff_t n, float *dst, const char *src)
{
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
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

static void narrow(ptrdiff_t n, char *dst, const float *src)
{
    ptrdiff_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(dst + 2 * i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(dst + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        STORE(uint16_t, dst + 2 * i, _cvtss_sh(src[i], _MM_FROUND_TO_NEAREST_INT));
#else
    uint32_t overflow = 0, underflow = 0;
    for (; i < n; i++)
        STORE(uint16_t, dst + 2 * i, (uint16_t)bits16_from_f32(src[i], &overflow, &underflow));
    if (overflow || underflow)
        mylib_raise_flags((overflow ? FE_OVERFLOW : 0) | (underflow ? FE_UNDERFLOW : 0));
#endif
}

static void widen_strided(ptrdiff_t n, float *dst, const char *src, ptrdiff_t stride)
{
    char packed[HALF_BLOCK * sizeof(t_f16)];
    if (stride != sizeof(t_f16)) {
        mylib_copy_strided(sizeof(t_f16), n, packed, sizeof(t_f16), src, stride);
        src = packed;
    }
    widen(n, dst, src);
}

static t_f16 f16_from_f32(float x)
{
    t_f16 h;
    narrow(1, (char *)&h, &x);
    return h;
}

/*
 * An f16 kernel is the f32 kernel between two conversions, block by block.  All of a block is read
 * before any of it is written.
 */
static void half_kernel(mylib_kernel *kernel, int binary, ptrdiff_t n, char *out, ptrdiff_t so,
                        const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    _Alignas(64) float fa[HALF_BLOCK], fb[HALF_BLOCK];
    char packed[HALF_BLOCK * sizeof(t_f16)];
    const ptrdiff_t w = sizeof(float);

    if (binary && sb == 0 && n > 0)
        widen(1, fb, b);
    while (n > 0) {
        ptrdiff_t m = n < HALF_BLOCK ? n : HALF_BLOCK;
        widen_strided(m, fa, a, sa);
        if (binary && sb != 0)
            widen_strided(m, fb, b, sb);
        kernel(m, (char *)fa, w, (char *)fa, w, (char *)fb, sb == 0 ? 0 : w);
        if (so == sizeof(t_f16)) {
            narrow(m, out, fa);
        } else {
            narrow(m, packed, fa);
            mylib_copy_strided(sizeof(t_f16), m, out, so, packed, sizeof(t_f16));
        }
        n -= m;
        out += m * so;
        a += m * sa;
        b += m * sb;
    }
}

/* ---- Kernels ------------------------------------------------------------------------------- */

#define LOOP(T, SO, value)                                                                         \
    for (ptrdiff_t i = 0; i < n; i++)                                                              \
    STORE(T, out + i * (SO), value)

#define BINARY_PLAIN(op, s)                                                                        \
    static void op##_kernel_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        if (so == w && sa == w && sb == w) {                                                       \
            NO_DEPENDENCE LOOP(t_##s, w, op##_##s(load_##s(a + i * w), load_##s(b + i * w)));      \
        } else if (so == w && sa == w && sb == 0) {                                                \
            const t_##s b0 = load_##s(b);                                                          \
            NO_DEPENDENCE LOOP(t_##s, w, op##_##s(load_##s(a + i * w), b0));                       \
        } else if (so == w && sa == 0 && sb == w) {                                                \
            const t_##s a0 = load_##s(a);                                                          \
            NO_DEPENDENCE LOOP(t_##s, w, op##_##s(a0, load_##s(b + i * w)));                       \
        } else {                                                                                   \
            UNROLLED LOOP(t_##s, so, op##_##s(load_##s(a + i * sa), load_##s(b + i * sb)));        \
        }                                                                                          \
    }

#define UNARY_PLAIN_TO(op, s, R)                                                                   \
    static void op##_kernel_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s), wo = sizeof(R);                                         \
        (void)b, (void)sb;                                                                         \
        if (so == wo && sa == w) {                                                                 \
            NO_DEPENDENCE LOOP(R, wo, op##_##s(load_##s(a + i * w)));                              \
        } else {                                                                                   \
            UNROLLED LOOP(R, so, op##_##s(load_##s(a + i * sa)));                                  \
        }                                                                                          \
    }

#define HALF(op, is_binary)                                                                        \
    static void op##_kernel_f16(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        half_kernel(op##_kernel_f32, is_binary, n, out, so, a, sa, b, sb);                         \
    }

#define BINARY_SIGNED(op, s) BINARY_PLAIN(op, s)
#define BINARY_UNSIGNED(op, s) BINARY_PLAIN(op, s)
#define BINARY_FLOAT(op, s) BINARY_PLAIN(op, s)
#define BINARY_COMPLEX(op, s) BINARY_PLAIN(op, s)
#define BINARY_HALF(op, s)
#define UNARY_SIGNED(op, s) UNARY_PLAIN_TO(op, s, t_##s)
#define UNARY_UNSIGNED(op, s) UNARY_PLAIN_TO(op, s, t_##s)
#define UNARY_FLOAT(op, s) UNARY_PLAIN_TO(op, s, t_##s)
#define UNARY_COMPLEX(op, s) UNARY_PLAIN_TO(op, s, t_##s)
#define UNARY_HALF(op, s)
#define UNARY_REAL_SIGNED(op, s) UNARY_PLAIN_TO(op, s, t_##s)
#define UNARY_REAL_UNSIGNED(op, s) UNARY_PLAIN_TO(op, s, t_##s)
#define UNARY_REAL_FLOAT(op, s) UNARY_PLAIN_TO(op, s, t_##s)
#define UNARY_REAL_COMPLEX(op, s) UNARY_PLAIN_TO(op, s, real_##s)
#define UNARY_REAL_HALF(op, s)

#define BINARY_KERNEL(op, s) PASTE(BINARY_, MYLIB_CLASS_##s)(op, s)
#define UNARY_KERNEL(op, s) PASTE(UNARY_, MYLIB_CLASS_##s)(op, s)
#define UNARY_REAL_KERNEL(op, s) PASTE(UNARY_REAL_, MYLIB_CLASS_##s)(op, s)
#define ROW(arity, op, set) MYLIB_SET_##set(arity##_KERNEL, op)
MYLIB_OPS(ROW)
#undef ROW

/* The f16 kernels come last: they call the f32 ones. */
#define HALF_BINARY(op, s) PASTE(HALF_BINARY_, MYLIB_CLASS_##s)(op)
#define HALF_BINARY_SIGNED(op)
#define HALF_BINARY_UNSIGNED(op)
#define HALF_BINARY_FLOAT(op)
#define HALF_BINARY_COMPLEX(op)
#define HALF_BINARY_HALF(op) HALF(op, 1)
#define HALF_UNARY(op, s) PASTE(HALF_UNARY_, MYLIB_CLASS_##s)(op)
#define HALF_UNARY_SIGNED(op)
#define HALF_UNARY_UNSIGNED(op)
#define HALF_UNARY_FLOAT(op)
#define HALF_UNARY_COMPLEX(op)
#define HALF_UNARY_HALF(op) HALF(op, 0)
#define HALF_UNARY_REAL(op, s) HALF_UNARY(op, s)
#define ROW(arity, op, set) MYLIB_SET_##set(HALF_##arity, op)
MYLIB_OPS(ROW)
#undef ROW

/* ---- Integer division ---------------------------------------------------------------------- */

/*
 * Processors have no vector instruction for it.  But the quotient of integers of 8 or 16 bits is
 * that of their f32 values, truncated, and of 32 bits that of their f64 values: a / b differs from
 * an integer above by at least 1 / b, which is more than the rounding error.  x / 0 and MIN / -1
 * are looked for first, and a block that has them goes through the plain kernel, which raises the
 * flags.
 *
 * 64-bit integers are divided by a single number through the high half of a product with its
 * reciprocal: T. Granlund and P. Montgomery, "Division by Invariant Integers using Multiplication"
 * (PLDI 1994).
 */
#define DIVISION_BLOCK 256

/*
 * From the truncated quotient q to each operation's result, in a type W that holds a - q * b; where
 * the remainder r and b have different signs, both move by one step.
 */
#define HAS_OTHER_SIGN(r, b) (((r) != 0) & (((r) < 1) != ((b) < 1))) /* no branch to mispredict */
#define RESULT_divide(W, a, b, q) ((void)(b), (q))
#define RESULT_floor_divide(W, a, b, q) ((q) - (W)HAS_OTHER_SIGN((a) - (q) * (b), b))
#define RESULT_remainder(W, a, b, q)                                                               \
    ((a) - (q) * (b) + ((0 - (W)HAS_OTHER_SIGN((a) - (q) * (b), b)) & (b)))

/*
 * MIN is 0 for unsigned types, which have no quotient that overflows.  By a single number it is a
 * multiplication: half a step away from zero keeps the product, with its two rounding errors, on
 * the right side of every integer.
 */
#define DIVISION_BY_FLOAT(op, s, W, F, IS_SIGNED, MIN)                                             \
    static void op##_division_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,             \
                                  ptrdiff_t sa, const char *b, ptrdiff_t sb)                       \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        t_##s y0 = load_##s(b);                                                                    \
        int is_plain =                                                                             \
            so != w || (sa != w && sa != 0) || (sb != w && sb != 0) || (sa == 0 && sb == 0);       \
        if (is_plain || (sb == 0 && (y0 == 0 || (IS_SIGNED && y0 == (t_##s) - 1)))) {              \
            op##_kernel_##s(n, out, so, a, sa, b, sb);                                             \
            return;                                                                                \
        }                                                                                          \
        if (sb == 0) {                                                                             \
            const W yi = y0;                                                                       \
            const F factor = 1 / (F)y0;                                                            \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++)                                        \
            {                                                                                      \
                const W xi = load_##s(a + i * w);                                                  \
                W q = (W)(((F)xi + (xi < 0 ? (F)-0.5 : (F)0.5)) * factor);                         \
                STORE(t_##s, out + i * w, (t_##s)(RESULT_##op(W, xi, yi, q)));                     \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        t_##s repeated[DIVISION_BLOCK];                                                            \
        for (ptrdiff_t i = 0; i < DIVISION_BLOCK && i < n && sa == 0; i++)                         \
            repeated[i] = load_##s(a);                                                             \
        for (; n > 0; n -= DIVISION_BLOCK) {                                                       \
            ptrdiff_t m = n < DIVISION_BLOCK ? n : DIVISION_BLOCK;                                 \
            const char *x = sa == 0 ? (const char *)repeated : a;                                  \
            t_##s special = 0;                                                                     \
            for (ptrdiff_t i = 0; i < m; i++) {                                                    \
                t_##s xi = load_##s(x + i * w), yi = load_##s(b + i * w);                          \
                special |= (t_##s)((yi == 0) | (IS_SIGNED & (xi == MIN) & (yi == (t_##s) - 1)));   \
            }                                                                                      \
            if (special) {                                                                         \
                op##_kernel_##s(m, out, w, x, w, b, w);                                            \
            } else {                                                                               \
                NO_DEPENDENCE for (ptrdiff_t i = 0; i < m; i++)                                    \
                {                                                                                  \
                    W xi = load_##s(x + i * w), yi = load_##s(b + i * w);                          \
                    W q = (W)((F)xi / (F)yi);                                                      \
                    STORE(t_##s, out + i * w, (t_##s)(RESULT_##op(W, xi, yi, q)));                 \
                }                                                                                  \
            }                                                                                      \
            out += m * w;                                                                          \
            a += m * sa;                                                                           \
            b += m * w;                                                                            \
        }                                                                                          \
    }

typedef struct reciprocal {
    uint64_t multiplier;
    int shift1, shift2;
} reciprocal;

static reciprocal reciprocal_of(uint64_t divisor)
{
    int log2 = divisor > 1 ? 64 - __builtin_clzll(divisor - 1) : 0;
    uint64_t power =
        log2 < 64 ? (uint64_t)1 << log2 : 0; /* 2^64 wraps to 0, and so does the difference */
    reciprocal r = {(uint64_t)(((unsigned __int128)(power - divisor) << 64) / divisor) + 1,
                    log2 > 1 ? 1 : log2, log2 > 1 ? log2 - 1 : 0};
    return r;
}

static inline uint64_t divide_by(uint64_t x, reciprocal r)
{
    uint64_t high = (uint64_t)(((unsigned __int128)x * r.multiplier) >> 64);
    return (high + ((x - high) >> r.shift1)) >> r.shift2;
}

/* An output that stands still may be the divisor itself, which then must be read each time. */
#define DIVISION_BY_RECIPROCAL(op, s, IS_SIGNED)                                                   \
    static void op##_division_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,             \
                                  ptrdiff_t sa, const char *b, ptrdiff_t sb)                       \
    {                                                                                              \
        t_##s y = load_##s(b);                                                                     \
        if (so == 0 || sb != 0 || n < 4 || y == 0 || (IS_SIGNED && y == (t_##s) - 1)) {            \
            op##_kernel_##s(n, out, so, a, sa, b, sb);                                             \
            return;                                                                                \
        }                                                                                          \
        uint64_t y_sign = IS_SIGNED ? (uint64_t)((t_i64)y >> 63) : 0;                              \
        reciprocal r = reciprocal_of(((uint64_t)y ^ y_sign) - y_sign);                             \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            t_##s x = load_##s(a + i * sa);                                                        \
            uint64_t x_sign = IS_SIGNED ? (uint64_t)((t_i64)x >> 63) : 0, sign = x_sign ^ y_sign;  \
            uint64_t size = divide_by(((uint64_t)x ^ x_sign) - x_sign, r);                         \
            t_##s q = (t_##s)((size ^ sign) - sign);                                               \
            STORE(t_##s, out + i * so, RESULT_##op(t_##s, x, y, q));                               \
        }                                                                                          \
    }

#define DIVISION(op)                                                                               \
    DIVISION_BY_FLOAT(op, i8, int32_t, float, 1, INT8_MIN)                                         \
    DIVISION_BY_FLOAT(op, i16, int32_t, float, 1, INT16_MIN)                                       \
    DIVISION_BY_FLOAT(op, i32, int64_t, double, 1, INT32_MIN)                                      \
    DIVISION_BY_FLOAT(op, u8, int32_t, float, 0, 0)                                                \
    DIVISION_BY_FLOAT(op, u16, int32_t, float, 0, 0)                                               \
    DIVISION_BY_FLOAT(op, u32, int64_t, double, 0, 0)                                              \
    DIVISION_BY_RECIPROCAL(op, i64, 1)                                                             \
    DIVISION_BY_RECIPROCAL(op, u64, 0)
DIVISION(divide)
DIVISION(floor_divide)
DIVISION(remainder)

/* ---- Complex numbers as pairs -------------------------------------------------------------- */

/*
 * Where the parts do not mix, n contiguous complex numbers are 2n real ones, in full vectors.  A
 * single one may overlap its operands in one part (execute.c), and is stored only when both parts
 * are computed.
 */
#define PAIRS(op, s, r)                                                                            \
    static void op##_pairs_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa,  \
                               const char *b, ptrdiff_t sb)                                        \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        if (n > 1 && so == w && sa == w && sb == w)                                                \
            op##_kernel_##r(2 * n, out, w / 2, a, w / 2, b, w / 2);                                \
        else                                                                                       \
            op##_kernel_##s(n, out, so, a, sa, b, sb);                                             \
    }
PAIRS(add, c64, f32)
PAIRS(add, c128, f64)
PAIRS(subtract, c64, f32)
PAIRS(subtract, c128, f64)

/* ---- Costly operations on strided operands ------------------------------------------------- */

/*
 * Copying to and from contiguous blocks takes less than doing a costly operation one element at a
 * time.  Operands that are contiguous or a single number stay where they are.
 */
#define PACK_BLOCK 256
#define PACK_MOST_NBYTES (PACK_BLOCK * 8)

static void packed_kernel(mylib_kernel *kernel, int binary, ptrdiff_t w, ptrdiff_t n, char *out,
                          ptrdiff_t so, const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    char pa[PACK_MOST_NBYTES], pb[PACK_MOST_NBYTES], po[PACK_MOST_NBYTES];
    if (!binary)
        sb = 0;
    if (n < 8 || so == 0 || (so == w && (sa == w || (binary && sa == 0)) && (sb == w || sb == 0))) {
        kernel(n, out, so, a, sa, b, sb);
        return;
    }
    while (n > 0) {
        ptrdiff_t m = n < PACK_BLOCK ? n : PACK_BLOCK;
        int packs_a = sa != w && (sa != 0 || !binary), packs_b = sb != w && sb != 0;
        if (packs_a)
            mylib_copy_strided((size_t)w, m, pa, w, a, sa);
        if (packs_b)
            mylib_copy_strided((size_t)w, m, pb, w, b, sb);
        kernel(m, so == w ? out : po, w, packs_a ? pa : a, packs_a ? w : sa, packs_b ? pb : b,
               packs_b ? w : sb);
        if (so != w)
            mylib_copy_strided((size_t)w, m, out, so, po, w);
        n -= m;
        out += m * so;
        a += m * sa;
        b += m * sb;
    }
}

#define PACKED_SQRT(s)                                                                             \
    static void sqrt_packed_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        packed_kernel(sqrt_kernel_##s, 0, sizeof(t_##s), n, out, so, a, sa, b, sb);                \
    }
PACKED_SQRT(f32)
PACKED_SQRT(f64)

/* ---- Quiet comparisons --------------------------------------------------------------------- */

/*
 * A NaN is a legal operand of minimum and maximum.  Vector comparisons of some levels raise
 * FE_INVALID for it all the same, so the flags are put back as they were.
 */
#define QUIET(op, s, RUN)                                                                          \
    static void op##_quiet_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa,  \
                               const char *b, ptrdiff_t sb)                                        \
    {                                                                                              \
        int flags = mylib_test_flags();                                                            \
        RUN(op##_kernel_##s, s, n, out, so, a, sa, b, sb);                                         \
        if (mylib_test_flags() != flags) {                                                         \
            mylib_clear_flags();                                                                   \
            mylib_raise_flags(flags);                                                              \
        }                                                                                          \
    }
#define RUN_PLAIN(kernel, s, n, out, so, a, sa, b, sb) kernel(n, out, so, a, sa, b, sb)
#define RUN_PACKED(kernel, s, n, out, so, a, sa, b, sb)                                            \
    packed_kernel(kernel, 1, sizeof(t_##s), n, out, so, a, sa, b, sb)
#define QUIETS(op)                                                                                 \
    QUIET(op, f16, RUN_PLAIN)                                                                      \
    QUIET(op, f32, RUN_PACKED)                                                                     \
    QUIET(op, f64, RUN_PACKED)                                                                     \
    QUIET(op, c64, RUN_PLAIN)                                                                      \
    QUIET(op, c128, RUN_PLAIN)
QUIETS(minimum)
QUIETS(maximum)

/* ---- Lookup -------------------------------------------------------------------------------- */

/* Better forms of some pairs of the table; NULL for the rest. */
static mylib_kernel *lookup_special(mylib_op op, mylib_type type)
{
    switch ((int)op * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(op, S, kernel)                                                                        \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + MYLIB_##S:                                              \
        return kernel;
#define DIVISIONS(op)                                                                              \
    CASE(op, I8, op##_division_i8)                                                                 \
    CASE(op, I16, op##_division_i16)                                                               \
    CASE(op, I32, op##_division_i32)                                                               \
    CASE(op, I64, op##_division_i64)                                                               \
    CASE(op, U8, op##_division_u8)                                                                 \
    CASE(op, U16, op##_division_u16)                                                               \
    CASE(op, U32, op##_division_u32)                                                               \
    CASE(op, U64, op##_division_u64)
        DIVISIONS(divide)
        DIVISIONS(floor_divide)
        DIVISIONS(remainder)
        CASE(add, C64, add_pairs_c64)
        CASE(add, C128, add_pairs_c128)
        CASE(subtract, C64, subtract_pairs_c64)
        CASE(subtract, C128, subtract_pairs_c128)
#define QUIET_CASES(op)                                                                            \
    CASE(op, F16, op##_quiet_f16)                                                                  \
    CASE(op, F32, op##_quiet_f32)                                                                  \
    CASE(op, F64, op##_quiet_f64)                                                                  \
    CASE(op, C64, op##_quiet_c64)                                                                  \
    CASE(op, C128, op##_quiet_c128)
        CASE(sqrt, F32, sqrt_packed_f32)
        CASE(sqrt, F64, sqrt_packed_f64)
        QUIET_CASES(minimum)
        QUIET_CASES(maximum)
#undef QUIET_CASES
#undef DIVISIONS
#undef CASE
    default:
        return NULL;
    }
}

static mylib_kernel *lookup_kernel(mylib_op op, mylib_type type)
{
#define DT(s, S) type_##s = MYLIB_##S,
    enum { MYLIB_TYPES(DT) };
#undef DT
    mylib_kernel *special = lookup_special(op, type);
    if (special != NULL)
        return special;
    switch ((int)op * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(op, s)                                                                                \
    case MYLIB_OP_##op *MYLIB_TYPE_COUNT + type_##s:                                               \
        return op##_kernel_##s;
#define ROW(arity, op, set) MYLIB_SET_##set(CASE, op)
        MYLIB_OPS(ROW)
#undef ROW
#undef CASE
    default:
        return NULL;
    }
}

/* ---- Sums of one block --------------------------------------------------------------------- */

#define ADD_PLAIN(x, y) ((x) + (y))
/*
 * Rows of 256 lanes are added up lane by lane, then the lanes pairwise.  16 lanes at a time stay in
 * registers over all full rows.
 */
#define SUM_OF(s, LOAD, ADD)                                                                       \
    static void block_sum_##s(ptrdiff_t n, char *sum, const char *a, ptrdiff_t sa)                 \
    {                                                                                              \
        sum_##s lane[MYLIB_SUM_LANES];                                                             \
        ptrdiff_t lanes = n < MYLIB_SUM_LANES ? n : MYLIB_SUM_LANES;                               \
        ptrdiff_t rows = n / MYLIB_SUM_LANES;                                                      \
        if (rows == 0) {                                                                           \
            for (ptrdiff_t l = 0; l < lanes; l++)                                                  \
                lane[l] = LOAD(s, a + l * sa);                                                     \
        } else {                                                                                   \
            for (ptrdiff_t l = 0; l < MYLIB_SUM_LANES; l += 16) {                                  \
                sum_##s part[16];                                                                  \
                for (ptrdiff_t k = 0; k < 16; k++)                                                 \
                    part[k] = LOAD(s, a + (l + k) * sa);                                           \
                for (ptrdiff_t r = 1; r < rows; r++) {                                             \
                    const char *row = a + (r * MYLIB_SUM_LANES + l) * sa;                          \
                    for (ptrdiff_t k = 0; k < 16; k++)                                             \
                        part[k] = ADD(part[k], LOAD(s, row + k * sa));                             \
                }                                                                                  \
                memcpy(lane + l, part, sizeof part);                                               \
            }                                                                                      \
            for (ptrdiff_t i = rows * MYLIB_SUM_LANES; i < n; i++)                                 \
                lane[i % MYLIB_SUM_LANES] = ADD(lane[i % MYLIB_SUM_LANES], LOAD(s, a + i * sa));   \
        }                                                                                          \
        for (ptrdiff_t half = MYLIB_SUM_LANES / 2; half > 0; half /= 2)                            \
            for (ptrdiff_t l = 0; l < half && l + half < lanes; l++)                               \
                lane[l] = ADD(lane[l], lane[l + half]);                                            \
        memcpy(sum, lane, sizeof *lane);                                                           \
    }

#define LOAD_PLAIN(s, p) ((sum_##s)load_##s(p))
#define LOAD_SAME(s, p) load_##s(p)
#define LOAD_HALF(s, p) f32_from_bits16(load_f16(p).bits)
#define ADD_c64(x, y) add_c64(x, y)
#define ADD_c128(x, y) add_c128(x, y)
#define ADD_WRAP(x, y) ((t_i64)((t_u64)(x) + (t_u64)(y)))

#define SUM_SIGNED(s) SUM_OF(s, LOAD_PLAIN, ADD_WRAP)
#define SUM_UNSIGNED(s) SUM_OF(s, LOAD_PLAIN, ADD_PLAIN)
#define SUM_HALF(s) SUM_OF(s, LOAD_HALF, ADD_PLAIN)
#define SUM_FLOAT(s) SUM_OF(s, LOAD_PLAIN, ADD_PLAIN)
#define SUM_COMPLEX(s) SUM_OF(s, LOAD_SAME, ADD_##s)
#define DT(s, S) PASTE(SUM_, MYLIB_CLASS_##s)(s)
MYLIB_TYPES(DT)
#undef DT

static mylib_block_sum *lookup_block_sum(mylib_type type)
{
    switch (type) {
#define DT(s, S)                                                                                   \
    case MYLIB_##S:                                                                                \
        return block_sum_##s;
        MYLIB_TYPES(DT)
#undef DT
    default:
        return NULL;
    }
}

/* ---- Stores past the cache ----------------------------------------------------------------- */

/*
 * Copies with non-temporal stores, which spare the memory the read of each line before it is
 * overwritten.  The head and tail that do not fill an aligned vector are stored as usual.  Other
 * threads may read the result only after stream_fence().
 */
static void stream_copy(char *dst, const char *src, size_t nbytes)
{
#if defined(__AVX512F__)
    typedef __m512i vector;
#define LOAD_VECTOR(p) _mm512_loadu_si512(p)
#define STREAM_VECTOR(p, v) _mm512_stream_si512((vector *)(p), v)
#elif defined(__AVX__)
    typedef __m256i vector;
#define LOAD_VECTOR(p) _mm256_loadu_si256((const vector *)(p))
#define STREAM_VECTOR(p, v) _mm256_stream_si256((vector *)(p), v)
#elif defined(__SSE2__)
    typedef __m128i vector;
#define LOAD_VECTOR(p) _mm_loadu_si128((const vector *)(p))
#define STREAM_VECTOR(p, v) _mm_stream_si128((vector *)(p), v)
#endif
#if defined(STREAM_VECTOR)
    size_t head = (size_t)(-(uintptr_t)dst % sizeof(vector));
    if (head > nbytes)
        head = nbytes;
    memcpy(dst, src, head);
    size_t i = head;
    for (; i + sizeof(vector) <= nbytes; i += sizeof(vector))
        STREAM_VECTOR(dst + i, LOAD_VECTOR(src + i));
    memcpy(dst + i, src + i, nbytes - i);
#else
    memcpy(dst, src, nbytes);
#endif
}

static void stream_fence(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* ---- The level ----------------------------------------------------------------------------- */

#define STRING_(x) #x
#define STRING(x) STRING_(x)

extern const mylib_cpu_level PASTE(mylib_cpu_level_, MYLIB_LEVEL);
const mylib_cpu_level PASTE(mylib_cpu_level_, MYLIB_LEVEL) = {
    .name = STRING(MYLIB_LEVEL),
    .kernel = lookup_kernel,
    .block_sum = lookup_block_sum,
    .stream_copy = stream_copy,
    .stream_fence = stream_fence,
    .f16_from_f32 = f16_from_f32,
};
