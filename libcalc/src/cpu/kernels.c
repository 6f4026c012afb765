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

/* Else compilers write out each step of a loop that has few. */
#if defined(__GNUC__) && !defined(__clang__)
#define NO_DEPENDENCE _Pragma("GCC ivdep")
#define NOT_UNROLLED _Pragma("GCC unroll 1")
#elif defined(__clang__)
#define NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#define NOT_UNROLLED _Pragma("clang loop unroll(disable)")
#else
#define NO_DEPENDENCE
#define NOT_UNROLLED
#endif

/* Loops over blocks, of which one copy is enough. */
#define NOINLINE __attribute__((noinline))

/* ---- f16: whole blocks to and from f32 ----------------------------------------------------- */

/* Three blocks of f32 and their f16 sources stay in the smallest L1 cache in use. */
#define HALF_BLOCK 512

#if !defined(__F16C__)
/*
 * Widening is exact: the fields move, and a multiplication by 2^112 corrects the exponent's bias,
 * of subnormals too.  Infinity and NaN get the largest exponent.
 */
static inline float f32_from_bits16(uint32_t h)
{
    uint32_t rest = (h & 0x7fff) << 13, special = rest >= 0x0f800000 ? 0x7f800000 : 0;
    return f32_of_bits(bits_of_f32(f32_of_bits(rest) * 0x1p112f) | special | (h & 0x8000) << 16);
}

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
NOINLINE static void widen(ptrdiff_t n, float *dst, const char *src)
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

NOINLINE static void narrow(ptrdiff_t n, char *dst, const float *src)
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

/* Likewise a comparison, whose result needs no conversion. */
static void half_comparison(mylib_kernel *kernel, ptrdiff_t n, char *out, ptrdiff_t so,
                            const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    _Alignas(64) float fa[HALF_BLOCK], fb[HALF_BLOCK];
    const ptrdiff_t w = sizeof(float);

    if (n > 0) {
        widen(1, fa, a);
        widen(1, fb, b);
    }
    while (n > 0) {
        ptrdiff_t m = n < HALF_BLOCK ? n : HALF_BLOCK;
        if (sa != 0)
            widen_strided(m, fa, a, sa);
        if (sb != 0)
            widen_strided(m, fb, b, sb);
        kernel(m, out, so, (char *)fa, sa == 0 ? 0 : w, (char *)fb, sb == 0 ? 0 : w);
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

/* Over any strides; pairs pay as long as the operation takes no longer than a step of a pointer. */
#define STRIDED_PAIRS(T, value)                                                                    \
    IN_PAIRS(n, STORE(T, out + i * so, value), (out += 2 * so, a += 2 * sa, b += 2 * sb))
#define STRIDED_SINGLES(T, value) LOOP(T, so, value)

/* Keeps a loop from being vectorized where that is not worth its code. */
#define STAYS_SCALAR __asm__ volatile("")

/*
 * What takes so long that one loop over any strides will do: there are no vector instructions for
 * it, or it distinguishes cases.
 */
#define IS_ONE_OF_3(op, x, y, z)                                                                   \
    (MYLIB_OP_##op == MYLIB_OP_##x || MYLIB_OP_##op == MYLIB_OP_##y ||                             \
     MYLIB_OP_##op == MYLIB_OP_##z)
#define IS_LONG_SIGNED(op) IS_ONE_OF_3(op, divide, floor_divide, remainder)
#define IS_LONG_UNSIGNED(op) IS_LONG_SIGNED(op)
#define IS_LONG_FLOAT(op) IS_ONE_OF_3(op, floor_divide, remainder, remainder)
#define IS_LONG_COMPLEX(op) (MYLIB_OP_##op == MYLIB_OP_sqrt)
#define IS_LONG(op, s) PASTE(IS_LONG_, MYLIB_CLASS_##s)(op)
#define LONG_LOOP(T, value)                                                                        \
    for (; n > 0; n--, out += so, a += sa, b += sb) {                                              \
        const ptrdiff_t i = 0;                                                                     \
        STAYS_SCALAR;                                                                              \
        STORE(T, out, value);                                                                      \
    }

#define BINARY_PLAIN(op, s, STRIDED)                                                               \
    static void op##_kernel_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        if (IS_LONG(op, s)) {                                                                      \
            LONG_LOOP(t_##s, op##_##s(load_##s(a + i * sa), load_##s(b + i * sb)))                 \
        } else if (so == w && sa == w && sb == w) {                                                \
            NO_DEPENDENCE LOOP(t_##s, w, op##_##s(load_##s(a + i * w), load_##s(b + i * w)));      \
        } else if (so == w && sa == w && sb == 0) {                                                \
            const t_##s b0 = load_##s(b);                                                          \
            NO_DEPENDENCE LOOP(t_##s, w, op##_##s(load_##s(a + i * w), b0));                       \
        } else if (so == w && sa == 0 && sb == w) {                                                \
            const t_##s a0 = load_##s(a);                                                          \
            NO_DEPENDENCE LOOP(t_##s, w, op##_##s(a0, load_##s(b + i * w)));                       \
        } else {                                                                                   \
            STRIDED(t_##s, op##_##s(load_##s(a + i * sa), load_##s(b + i * sb)));                  \
        }                                                                                          \
    }

#define UNARY_PLAIN_TO(op, s, R, STRIDED)                                                          \
    static void op##_kernel_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s), wo = sizeof(R);                                         \
        (void)b, (void)sb;                                                                         \
        if (IS_LONG(op, s)) {                                                                      \
            LONG_LOOP(R, op##_##s(load_##s(a + i * sa)))                                           \
        } else if (so == wo && sa == w) {                                                          \
            NO_DEPENDENCE LOOP(R, wo, op##_##s(load_##s(a + i * w)));                              \
        } else {                                                                                   \
            STRIDED(R, op##_##s(load_##s(a + i * sa)));                                            \
        }                                                                                          \
    }

/*
 * Comparisons turn elements of any size into single bytes.  GROUP of them fill a vector with bytes;
 * a loop over just as many becomes plain vector code, where a longer one is taken apart into
 * kilobytes of cases.
 */
#if defined(__AVX512BW__)
#define GROUP 64
#elif defined(__AVX2__)
#define GROUP 32
#else
#define GROUP 16
#endif

/* Compares a multiple of GROUP contiguous elements; one of the strides may be 0. */
typedef void group_comparison(ptrdiff_t n, char *out, const char *a, ptrdiff_t sa, const char *b,
                              ptrdiff_t sb);

/* n elements of `w` bytes: whole groups of contiguous ones at a time, the others one by one. */
NOINLINE static void compare(group_comparison *groups, mylib_kernel *one_by_one, ptrdiff_t w,
                             ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa,
                             const char *b, ptrdiff_t sb)
{
    const ptrdiff_t grouped = n - n % GROUP;
    if (grouped > 0 && so == 1 &&
        ((sa == w && sb == w) || (sa == w && sb == 0) || (sa == 0 && sb == w))) {
        groups(grouped, out, a, sa, b, sb);
        n -= grouped, out += grouped, a += grouped * sa, b += grouped * sb;
    }
    one_by_one(n, out, so, a, sa, b, sb);
}

#define COMPARE_ONE_BY_ONE(name, op, s)                                                            \
    static void name(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa,            \
                     const char *b, ptrdiff_t sb)                                                  \
    {                                                                                              \
        UNROLLED for (ptrdiff_t i = 0; i < n; i++)                                                 \
        {                                                                                          \
            STAYS_SCALAR;                                                                          \
            store_u8(out + i * so, (uint8_t)op##_##s(load_##s(a + i * sa), load_##s(b + i * sb))); \
        }                                                                                          \
    }

#define GROUP_LOOP(op, s, X, Y)                                                                    \
    for (; n > 0; n -= GROUP, out += GROUP, a += GROUP * sa, b += GROUP * sb)                      \
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < GROUP; i++)                                        \
            store_u8(out + i, (uint8_t)op##_##s(X, Y));

#define COMPARE_GROUPS(op, s)                                                                      \
    COMPARE_ONE_BY_ONE(op##_one_by_one_##s, op, s)                                                 \
    NOINLINE static void op##_groups_##s(ptrdiff_t n, char *out, const char *a, ptrdiff_t sa,      \
                                         const char *b, ptrdiff_t sb)                              \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        const t_##s a0 = load_##s(a), b0 = load_##s(b);                                            \
        if (sb == 0) {                                                                             \
            GROUP_LOOP(op, s, load_##s(a + i * w), b0)                                             \
        } else if (sa == 0) {                                                                      \
            GROUP_LOOP(op, s, a0, load_##s(b + i * w))                                             \
        } else {                                                                                   \
            GROUP_LOOP(op, s, load_##s(a + i * w), load_##s(b + i * w))                            \
        }                                                                                          \
    }                                                                                              \
    static void op##_kernel_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        compare(op##_groups_##s, op##_one_by_one_##s, sizeof(t_##s), n, out, so, a, sa, b, sb);    \
    }

/*
 * Complex numbers are taken apart first, a group of them into real and imaginary parts: then their
 * comparison is plain vector code too, whatever the strides.
 */
#define TAKE_APART(s, r, TAKE)                                                                     \
    NOINLINE static void take_apart_##s(t_##r *re, t_##r *im, const char *p, ptrdiff_t stride)     \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s), half = sizeof(t_##r);                                   \
        if (stride == w) {                                                                         \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < GROUP; i++)                                    \
            {                                                                                      \
                re[i] = load_##r(p + i * w);                                                       \
                im[i] = load_##r(p + i * w + half);                                                \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        UNROLLED for (ptrdiff_t i = 0; i < GROUP; i += 2)                                          \
        {                                                                                          \
            STAYS_SCALAR;                                                                          \
            TAKE(r, p + i * stride, p + (i + 1) * stride, half)                                    \
        }                                                                                          \
    }
#define TAKE_PARTS(r, p, q, half)                                                                  \
    re[i] = load_##r(p);                                                                           \
    im[i] = load_##r((p) + (half));                                                                \
    re[i + 1] = load_##r(q);                                                                       \
    im[i + 1] = load_##r((q) + (half));
#ifdef __SSE2__
#define TAKE_VECTORS(r, p, q, half)                                                                \
    const __m128d x = _mm_loadu_pd((const double *)(p)), y = _mm_loadu_pd((const double *)(q));    \
    _mm_store_pd(re + i, _mm_unpacklo_pd(x, y));                                                   \
    _mm_store_pd(im + i, _mm_unpackhi_pd(x, y));
#else
#define TAKE_VECTORS TAKE_PARTS
#endif
TAKE_APART(c64, f32, TAKE_PARTS)
TAKE_APART(c128, f64, TAKE_VECTORS)

#define COMPARE_PARTS(op, s)                                                                       \
    COMPARE_ONE_BY_ONE(op##_one_by_one_##s, op, s)                                                 \
    static void op##_kernel_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        _Alignas(64) real_##s ar[GROUP], ai[GROUP], br[GROUP], bi[GROUP];                          \
        _Alignas(64) uint8_t result[GROUP];                                                        \
        /* An output that stays in its place may be an input: then the order shows. */             \
        for (; n >= GROUP && so != 0; n -= GROUP) {                                                \
            take_apart_##s(ar, ai, a, sa);                                                         \
            take_apart_##s(br, bi, b, sb);                                                         \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < GROUP; i++)                                    \
            {                                                                                      \
                const t_##s x = {ar[i], ai[i]}, y = {br[i], bi[i]};                                \
                result[i] = (uint8_t)op##_##s(x, y);                                               \
            }                                                                                      \
            if (so == 1)                                                                           \
                memcpy(out, result, GROUP);                                                        \
            else                                                                                   \
                for (ptrdiff_t i = 0; i < GROUP; i++)                                              \
                    store_u8(out + i * so, result[i]);                                             \
            out += GROUP * so, a += GROUP * sa, b += GROUP * sb;                                   \
        }                                                                                          \
        op##_one_by_one_##s(n, out, so, a, sa, b, sb);                                             \
    }

#define HALF(op, is_binary)                                                                        \
    static void op##_kernel_f16(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        half_kernel(op##_kernel_f32, is_binary, n, out, so, a, sa, b, sb);                         \
    }

#define HALF_COMPARISON(op)                                                                        \
    static void op##_kernel_f16(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        half_comparison(op##_kernel_f32, n, out, so, a, sa, b, sb);                                \
    }

#define BINARY_SIGNED(op, s) BINARY_PLAIN(op, s, STRIDED_PAIRS)
#define BINARY_UNSIGNED(op, s) BINARY_PLAIN(op, s, STRIDED_PAIRS)
#define BINARY_FLOAT(op, s) BINARY_PLAIN(op, s, STRIDED_PAIRS)
#define BINARY_COMPLEX(op, s) BINARY_PLAIN(op, s, STRIDED_SINGLES)
#define BINARY_HALF(op, s)
#define COMPARE_SIGNED(op, s) COMPARE_GROUPS(op, s)
#define COMPARE_UNSIGNED(op, s) COMPARE_GROUPS(op, s)
#define COMPARE_FLOAT(op, s) COMPARE_GROUPS(op, s)
#define COMPARE_COMPLEX(op, s) COMPARE_PARTS(op, s)
#define COMPARE_HALF(op, s)
#define UNARY_SIGNED(op, s) UNARY_PLAIN_TO(op, s, t_##s, STRIDED_PAIRS)
#define UNARY_UNSIGNED(op, s) UNARY_PLAIN_TO(op, s, t_##s, STRIDED_PAIRS)
#define UNARY_FLOAT(op, s) UNARY_PLAIN_TO(op, s, t_##s, STRIDED_PAIRS)
#define UNARY_COMPLEX(op, s) UNARY_PLAIN_TO(op, s, t_##s, STRIDED_SINGLES)
#define UNARY_HALF(op, s)
#define UNARY_REAL_SIGNED(op, s) UNARY_PLAIN_TO(op, s, t_##s, STRIDED_PAIRS)
#define UNARY_REAL_UNSIGNED(op, s) UNARY_PLAIN_TO(op, s, t_##s, STRIDED_PAIRS)
#define UNARY_REAL_FLOAT(op, s) UNARY_PLAIN_TO(op, s, t_##s, STRIDED_PAIRS)
#define UNARY_REAL_COMPLEX(op, s) UNARY_PLAIN_TO(op, s, real_##s, STRIDED_SINGLES)
#define UNARY_REAL_HALF(op, s)

#define BINARY_KERNEL(op, s) PASTE(BINARY_, MYLIB_CLASS_##s)(op, s)
#define REVERSED_KERNEL(op, s)
#define COMPARE_KERNEL(op, s) PASTE(COMPARE_, MYLIB_CLASS_##s)(op, s)
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
#define HALF_COMPARE(op, s) PASTE(HALF_COMPARE_, MYLIB_CLASS_##s)(op)
#define HALF_COMPARE_SIGNED(op)
#define HALF_COMPARE_UNSIGNED(op)
#define HALF_COMPARE_FLOAT(op)
#define HALF_COMPARE_COMPLEX(op)
#define HALF_COMPARE_HALF(op) HALF_COMPARISON(op)
#define HALF_REVERSED(op, s)
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

/* The sign of an f16 is one of its bits. */
#define SIGN(op, change)                                                                           \
    static void op##_sign_f16(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa,   \
                              const char *b, ptrdiff_t sb)                                         \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_u16);                                                         \
        (void)b, (void)sb;                                                                         \
        if (so == w && sa == w) {                                                                  \
            NO_DEPENDENCE LOOP(t_u16, w, (t_u16)(load_u16(a + i * w) change));                     \
        } else {                                                                                   \
            STRIDED_PAIRS(t_u16, (t_u16)(load_u16(a + i * sa) change));                            \
        }                                                                                          \
    }
SIGN(absolute, &0x7fff)
SIGN(negative, ^0x8000)

/* ---- Strided operands ---------------------------------------------------------------------- */

/*
 * Where contiguous operands go in vectors, copying to and from contiguous blocks takes less than
 * going one element at a time.  Operands that are contiguous or a single number stay where they
 * are.  Elements of the inputs have w bytes, those of the output wo.  Rows of fewer than `least`
 * elements are not worth it.
 */
#define PACK_BLOCK 256
#define PACK_NBYTES (PACK_BLOCK * 16)

static void packed_kernel(mylib_kernel *kernel, ptrdiff_t least, int binary, ptrdiff_t wo,
                          ptrdiff_t w, ptrdiff_t n, char *out, ptrdiff_t so, const char *a,
                          ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    char pa[PACK_NBYTES], pb[PACK_NBYTES], po[PACK_NBYTES];
    int packs_a = sa != w && (sa != 0 || !binary), packs_b = binary && sb != w && sb != 0;
    if (n < least || so == 0 || (so == wo && !packs_a && !packs_b)) {
        kernel(n, out, so, a, sa, b, sb);
        return;
    }
    while (n > 0) {
        ptrdiff_t m = n < PACK_BLOCK ? n : PACK_BLOCK;
        if (packs_a)
            mylib_copy_strided((size_t)w, m, pa, w, a, sa);
        if (packs_b)
            mylib_copy_strided((size_t)w, m, pb, w, b, sb);
        kernel(m, so == wo ? out : po, wo, packs_a ? pa : a, packs_a ? w : sa, packs_b ? pb : b,
               packs_b ? w : sb);
        if (so != wo)
            mylib_copy_strided((size_t)wo, m, out, so, po, wo);
        n -= m;
        out += m * so;
        a += m * sa;
        b += m * sb;
    }
}

#define RUN_PLAIN(kernel, s, n, out, so, a, sa, b, sb) kernel(n, out, so, a, sa, b, sb)
#define RUN_PACKED(kernel, s, n, out, so, a, sa, b, sb)                                            \
    packed_kernel(kernel, 8, 1, sizeof(t_##s), sizeof(t_##s), n, out, so, a, sa, b, sb)

/* ---- Integer division by one number -------------------------------------------------------- */

/*
 * Processors have no vector instruction for integer division.  By a single number d it is the high
 * half of a product with d's reciprocal, in lanes of N bits.  Divisions here round down.
 *
 * "Signed": n up to 2^(N-1), the magnitudes of signed numbers.  With 2^s <= d < 2^(s+1) and
 * m = (2^(N+s) - 1) / d, which is below 2^N:
 *     n / d = (n + 1) m / 2^(N+s)
 * (A. Robison, "N-Bit Unsigned Division Via N-Bit Multiply-Add", ARITH 2005).  For
 * d m = 2^(N+s) - e with 1 <= e <= d: before rounding, the right side is (n + 1) / d times
 * 1 - e / 2^(N+s), which is less than (n + 1) / d, and not less than n / d if
 * e (n + 1) <= 2^(N+s).  That holds: e is 2^s when d is, otherwise at most d - 1 <= 2^(s+1) - 2,
 * where s <= N - 2.
 *
 * "Unsigned": any n below 2^N.  The reciprocal has one more bit, and with h, the high half of n m,
 *     n / d = (h + (n - h) / 2^before) / 2^after
 * (T. Granlund and P. Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994,
 * figure 4.1).
 */
__extension__ typedef unsigned __int128 u128;

typedef struct divisor {
    uint64_t value, sign; /* sign: all bits or none */
    uint64_t multiplier;
    int before, after;
} divisor;

static inline divisor divisor_signed(int bits, int64_t y)
{
    uint64_t size = y < 0 ? 0 - (uint64_t)y : (uint64_t)y;
    int log2 = 63 - __builtin_clzll(size);
    divisor d = {(uint64_t)y, y < 0 ? UINT64_MAX : 0, 0, 0, log2};
    d.multiplier = (uint64_t)((((u128)1 << (bits + log2)) - 1) / size);
    return d;
}

static inline divisor divisor_unsigned(int bits, uint64_t y)
{
    int log2 = y > 1 ? 64 - __builtin_clzll(y - 1) : 0; /* rounded up */
    divisor d = {y, 0, 0, log2 > 0, log2 > 1 ? log2 - 1 : 0};
    d.multiplier = (uint64_t)(((((u128)1 << log2) - y) << bits) / y) + 1;
    return d;
}

/*
 * Each operation on a lane of type U: a number, or a vector of numbers, of type E; S is its signed
 * type.  To round down by a negative divisor, both signs are changed; and where x is negative then,
 * its complement is divided, and the quotient complemented.  It is where both `flipped`, x or ~x,
 * and `moved`, x or -x, are: of 0 only ~x is negative, of MIN only -x, the magnitude 2^(N-1).
 */
#define DIVISIONS_OF_LANES(lanes, U, S, E, HIGH_HALF)                                              \
    static inline U divide_signed_##lanes(U x, divisor d)                                          \
    {                                                                                              \
        U x_sign = (U)((S)x >> (8 * (int)sizeof(E) - 1)), sign = x_sign ^ (E)d.sign;               \
        U size = HIGH_HALF((U)((x ^ x_sign) - x_sign + 1), (E)d.multiplier) >> d.after;            \
        return (U)((size ^ sign) - sign);                                                          \
    }                                                                                              \
    static inline U floor_divide_signed_##lanes(U x, divisor d)                                    \
    {                                                                                              \
        U flipped = x ^ (E)d.sign, moved = (U)(flipped - (E)d.sign);                               \
        U sign = (U)((S)(flipped & moved) >> (8 * (int)sizeof(E) - 1));                            \
        return sign ^ (U)(HIGH_HALF((U)((moved ^ sign) + 1), (E)d.multiplier) >> d.after);         \
    }                                                                                              \
    static inline U remainder_signed_##lanes(U x, divisor d)                                       \
    {                                                                                              \
        return (U)(x - 1u * floor_divide_signed_##lanes(x, d) * (E)d.value);                       \
    }                                                                                              \
    static inline U divide_unsigned_##lanes(U x, divisor d)                                        \
    {                                                                                              \
        U high = HIGH_HALF(x, (E)d.multiplier);                                                    \
        return (U)(high + ((U)(x - high) >> d.before)) >> d.after;                                 \
    }                                                                                              \
    static inline U floor_divide_unsigned_##lanes(U x, divisor d)                                  \
    {                                                                                              \
        return divide_unsigned_##lanes(x, d);                                                      \
    }                                                                                              \
    static inline U remainder_unsigned_##lanes(U x, divisor d)                                     \
    {                                                                                              \
        return (U)(x - 1u * divide_unsigned_##lanes(x, d) * (E)d.value);                           \
    }

#define HIGH_HALF_16(x, m) ((uint16_t)((uint32_t)(x) * (m) >> 16))
#define HIGH_HALF_32(x, m) ((uint32_t)((uint64_t)(x) * (m) >> 32))
#define HIGH_HALF_64(x, m) ((uint64_t)((u128)(x) * (m) >> 64))
DIVISIONS_OF_LANES(16, uint16_t, int16_t, uint16_t, HIGH_HALF_16)
DIVISIONS_OF_LANES(32, uint32_t, int32_t, uint32_t, HIGH_HALF_32)
DIVISIONS_OF_LANES(64, uint64_t, int64_t, uint64_t, HIGH_HALF_64)

/* Whole vectors, where compilers find none or worse; `i` elements are done. */
#define VECTORS_OF_16(division)
#if !defined(__AVX2__)
#define VECTORS_OF_32(division)
#define VECTORS_OF_64(division)
#else
#if defined(__AVX512F__)
#define VECTOR_NBYTES 64
#define MULTIPLY_LOW_HALVES(x, y) ((v_u64)_mm512_mul_epu32((__m512i)(x), (__m512i)(y)))
#else
#define VECTOR_NBYTES 32
#define MULTIPLY_LOW_HALVES(x, y) ((v_u64)_mm256_mul_epu32((__m256i)(x), (__m256i)(y)))
#endif
typedef uint32_t v_u32 __attribute__((vector_size(VECTOR_NBYTES)));
typedef int32_t v_i32 __attribute__((vector_size(VECTOR_NBYTES)));
typedef uint64_t v_u64 __attribute__((vector_size(VECTOR_NBYTES)));
typedef int64_t v_i64 __attribute__((vector_size(VECTOR_NBYTES)));

static inline v_u32 high_half_v_u32(v_u32 x, uint32_t m)
{
    v_u64 m0 = (v_u64){0} + m, even = MULTIPLY_LOW_HALVES(x, m0);
    v_u64 odd = MULTIPLY_LOW_HALVES((v_u64)x >> 32, m0);
    return (v_u32)((even >> 32) | (odd & ~(uint64_t)UINT32_MAX));
}

static inline v_u64 high_half_v_u64(v_u64 x, uint64_t m)
{
    v_u64 x1 = x >> 32, m0 = (v_u64){0} + m, m1 = (v_u64){0} + (m >> 32);
    v_u64 middle = MULTIPLY_LOW_HALVES(x1, m0) + (MULTIPLY_LOW_HALVES(x, m0) >> 32);
    v_u64 rest = MULTIPLY_LOW_HALVES(x, m1) + (middle & UINT32_MAX);
    return MULTIPLY_LOW_HALVES(x1, m1) + (middle >> 32) + (rest >> 32);
}
DIVISIONS_OF_LANES(v_u32, v_u32, v_i32, uint32_t, high_half_v_u32)
DIVISIONS_OF_LANES(v_u64, v_u64, v_i64, uint64_t, high_half_v_u64)

/* Without the barrier gcc reads x anew for each use, twice where it crosses a cache line. */
#define VECTORS_OF(lanes, division)                                                                \
    const ptrdiff_t per_vector = VECTOR_NBYTES / w;                                                \
    for (; i + per_vector <= n; i += per_vector) {                                                 \
        lanes x;                                                                                   \
        memcpy(&x, a + i * w, sizeof x);                                                           \
        __asm__("" : "+x"(x));                                                                     \
        x = division##_##lanes(x, d);                                                              \
        memcpy(out + i * w, &x, sizeof x);                                                         \
    }
#define VECTORS_OF_32(division) VECTORS_OF(v_u32, division)
#define VECTORS_OF_64(division) VECTORS_OF(v_u64, division)
#endif

/*
 * out and a are contiguous.  8 bits take lanes of 16, where all magnitudes suit the signed form.
 * Not inlined, so that scripts/check_vectorized.py sees each form.
 */
#define DIVISION_BY_NUMBER(op, s, form, bits)                                                      \
    static NOINLINE void op##_by_number_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,   \
                                            ptrdiff_t sa, const char *b, ptrdiff_t sb)             \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        const divisor d = divisor_##form(bits, load_##s(b));                                       \
        ptrdiff_t i = 0;                                                                           \
        (void)so, (void)sa, (void)sb;                                                              \
        VECTORS_OF_##bits(op##_##form) NO_DEPENDENCE for (; i < n; i++)                            \
            STORE(t_##s, out + i * w, (t_##s)op##_##form##_##bits(load_##s(a + i * w), d));        \
    }

/* ---- Integer division by an array ---------------------------------------------------------- */

/*
 * The quotient of integers of 8 or 16 bits is that of their f32 values, truncated, and of 32 bits
 * that of their f64 values: a / b differs from an integer above by at least 1 / b, which is more
 * than the rounding error.  x / 0 and MIN / -1 are looked for first, and a block that has them goes
 * through the plain kernel, which raises the flags.
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

/* MIN is 0 for unsigned types, which have no quotient that overflows. */
#define DIVISION_BY_ARRAY(op, s, W, F, IS_SIGNED, MIN)                                             \
    static NOINLINE void op##_by_array_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,    \
                                           ptrdiff_t sa, const char *b, ptrdiff_t sb)              \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        (void)so, (void)sb;                                                                        \
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

/*
 * An output that stands still may be the divisor itself, which then must be read each time.  Short
 * rows do not pay for a reciprocal or for packing.
 */
#define DIVISION_KERNEL(op, s, IS_SIGNED, RUN, form)                                               \
    static void op##_division_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,             \
                                  ptrdiff_t sa, const char *b, ptrdiff_t sb)                       \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        const t_##s y = load_##s(b);                                                               \
        int is_special = y == 0 || (IS_SIGNED && y == (t_##s) - 1);                                \
        int is_strided = so != w || (sa != w && sa != 0) || (sb != w && sb != 0);                  \
        if (n < (is_strided ? 64 : 8) || so == 0 || (sb == 0 && (sa == 0 || is_special)))          \
            op##_kernel_##s(n, out, so, a, sa, b, sb);                                             \
        else if (sb == 0)                                                                          \
            RUN_PACKED(op##_by_number_##s, s, n, out, so, a, sa, b, sb);                           \
        else                                                                                       \
            RUN(op##_##form##_##s, s, n, out, so, a, sa, b, sb);                                   \
    }

#define DIVISION(op)                                                                               \
    DIVISION_BY_NUMBER(op, i8, signed, 16)                                                         \
    DIVISION_BY_NUMBER(op, i16, signed, 16)                                                        \
    DIVISION_BY_NUMBER(op, i32, signed, 32)                                                        \
    DIVISION_BY_NUMBER(op, i64, signed, 64)                                                        \
    DIVISION_BY_NUMBER(op, u8, signed, 16)                                                         \
    DIVISION_BY_NUMBER(op, u16, unsigned, 16)                                                      \
    DIVISION_BY_NUMBER(op, u32, unsigned, 32)                                                      \
    DIVISION_BY_NUMBER(op, u64, unsigned, 64)                                                      \
    DIVISION_BY_ARRAY(op, i8, int32_t, float, 1, INT8_MIN)                                         \
    DIVISION_BY_ARRAY(op, i16, int32_t, float, 1, INT16_MIN)                                       \
    DIVISION_BY_ARRAY(op, i32, int64_t, double, 1, INT32_MIN)                                      \
    DIVISION_BY_ARRAY(op, u8, int32_t, float, 0, 0)                                                \
    DIVISION_BY_ARRAY(op, u16, int32_t, float, 0, 0)                                               \
    DIVISION_BY_ARRAY(op, u32, int64_t, double, 0, 0)                                              \
    DIVISION_KERNEL(op, i8, 1, RUN_PACKED, by_array)                                               \
    DIVISION_KERNEL(op, i16, 1, RUN_PACKED, by_array)                                              \
    DIVISION_KERNEL(op, i32, 1, RUN_PACKED, by_array)                                              \
    DIVISION_KERNEL(op, i64, 1, RUN_PLAIN, kernel)                                                 \
    DIVISION_KERNEL(op, u8, 0, RUN_PACKED, by_array)                                               \
    DIVISION_KERNEL(op, u16, 0, RUN_PACKED, by_array)                                              \
    DIVISION_KERNEL(op, u32, 0, RUN_PACKED, by_array)                                              \
    DIVISION_KERNEL(op, u64, 0, RUN_PLAIN, kernel)
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

/* ---- Products of complex numbers ----------------------------------------------------------- */

/*
 * gcc is kept from making vectors of complex products at level v4 (scalar_ops.h), so that they are
 * written out.  A vector is put together of four quarters when the elements are not contiguous.
 * Element by element, an output that stands still is stored in order.
 */
#if defined(__AVX512F__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
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
 * In the real lanes the second product is subtracted from the first, in the others added: by its
 * sign, for of masked additions and subtractions clang computes all lanes, and raises their flags.
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

#define PRODUCTS(s)                                                                                \
    static inline __m512d load_vector_##s(const char *p, ptrdiff_t stride)                         \
    {                                                                                              \
        const ptrdiff_t quarter_stride = stride * (ptrdiff_t)(16 / sizeof(t_##s));                 \
        if (stride == sizeof(t_##s))                                                               \
            return _mm512_loadu_pd(p);                                                             \
        __m512d x = _mm512_castpd128_pd512(load_quarter_##s(p, stride));                           \
        x = _mm512_insertf64x2(x, load_quarter_##s(p + quarter_stride, stride), 1);                \
        __m256d y = _mm256_castpd128_pd256(load_quarter_##s(p + 2 * quarter_stride, stride));      \
        y = _mm256_insertf64x2(y, load_quarter_##s(p + 3 * quarter_stride, stride), 1);            \
        return _mm512_insertf64x4(x, y, 1);                                                        \
    }                                                                                              \
    static inline void store_vector_##s(char *p, ptrdiff_t stride, __m512d x)                      \
    {                                                                                              \
        const ptrdiff_t quarter_stride = stride * (ptrdiff_t)(16 / sizeof(t_##s));                 \
        if (stride == sizeof(t_##s)) {                                                             \
            _mm512_storeu_pd(p, x);                                                                \
            return;                                                                                \
        }                                                                                          \
        store_quarter_##s(p, stride, _mm512_castpd512_pd128(x));                                   \
        store_quarter_##s(p + quarter_stride, stride, _mm512_extractf64x2_pd(x, 1));               \
        store_quarter_##s(p + 2 * quarter_stride, stride, _mm512_extractf64x2_pd(x, 2));           \
        store_quarter_##s(p + 3 * quarter_stride, stride, _mm512_extractf64x2_pd(x, 3));           \
    }                                                                                              \
    /* Does the whole vectors; returns how many elements that is. */                               \
    static ALWAYS_INLINE ptrdiff_t product_loop_##s(ptrdiff_t n, char *out, ptrdiff_t so,          \
                                                    const char *a, ptrdiff_t sa, const char *b,    \
                                                    ptrdiff_t sb)                                  \
    {                                                                                              \
        const ptrdiff_t m = 64 / sizeof(t_##s), end = n / m * m;                                   \
        const __m512d a0 = load_vector_##s(a, 0), b0 = load_vector_##s(b, 0);                      \
        for (ptrdiff_t i = 0; i < end; i += m) {                                                   \
            __m512d x = sa == 0 ? a0 : load_vector_##s(a + i * sa, sa);                            \
            __m512d y = sb == 0 ? b0 : load_vector_##s(b + i * sb, sb);                            \
            __asm__("" : "+v"(x), "+v"(y)); /* not loaded again for each of its uses */            \
            store_vector_##s(out + i * so, so, product_##s(x, y));                                 \
        }                                                                                          \
        return end;                                                                                \
    }                                                                                              \
    static ALWAYS_INLINE void product_loops_##s(ptrdiff_t n, char *out, ptrdiff_t so,              \
                                                const char *a, ptrdiff_t sa, const char *b,        \
                                                ptrdiff_t sb)                                      \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        ptrdiff_t done = 0;                                                                        \
        if (so == w && sa == w && sb == w)                                                         \
            done = product_loop_##s(n, out, w, a, w, b, w);                                        \
        else if (so == w)                                                                          \
            done = product_loop_##s(n, out, w, a, sa, b, sb);                                      \
        else if (so != 0)                                                                          \
            done = product_loop_##s(n, out, so, a, sa, b, sb);                                     \
        multiply_kernel_##s(n - done, out + done * so, so, a + done * sa, sa, b + done * sb, sb);  \
    }                                                                                              \
    static void multiply_product_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,          \
                                     ptrdiff_t sa, const char *b, ptrdiff_t sb)                    \
    {                                                                                              \
        product_loops_##s(n, out, so, a, sa, b, sb);                                               \
    }                                                                                              \
    static void square_product_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,            \
                                   ptrdiff_t sa, const char *b, ptrdiff_t sb)                      \
    {                                                                                              \
        (void)b, (void)sb;                                                                         \
        product_loops_##s(n, out, so, a, sa, a, sa);                                               \
    }
PRODUCTS(c64)
PRODUCTS(c128)
#endif

/* ---- Quiet comparisons --------------------------------------------------------------------- */

/*
 * A NaN is a legal operand of these operations.  Vector comparisons of some levels raise
 * FE_INVALID for it all the same, so the flags are put back as they were.
 */
#define QUIET(op, s)                                                                               \
    static void op##_quiet_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa,  \
                               const char *b, ptrdiff_t sb)                                        \
    {                                                                                              \
        int flags = mylib_test_flags();                                                            \
        op##_kernel_##s(n, out, so, a, sa, b, sb);                                                 \
        if (mylib_test_flags() != flags) {                                                         \
            mylib_clear_flags();                                                                   \
            mylib_raise_flags(flags);                                                              \
        }                                                                                          \
    }
#define QUIETS(op) QUIET(op, f16) QUIET(op, f32) QUIET(op, f64) QUIET(op, c64) QUIET(op, c128)
QUIETS(minimum)
QUIETS(maximum)
QUIETS(less)
QUIETS(less_equal)

/* ---- Vectors written out ------------------------------------------------------------------- */

/*
 * With AVX-512, f16 is converted in registers, and comparisons are quiet by themselves.  What is
 * left of a contiguous row goes as one more vector, whose other lanes hold 1, which raises no flag.
 * A number is an operand of stride 0.
 */
#if defined(__AVX512F__)
#define LANES_f16 16
#define LANES_f32 16
#define LANES_f64 8
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
/* One number for all lanes, which leaves 1 in those that are not in use. */
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

/* a where x < y or a is NaN, else b. */
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

#define VECTOR_STEP(s, lanes, value)                                                               \
    do {                                                                                           \
        const vector_##s x =                                                                       \
            sa == 0 ? repeat_lanes_##s(lanes, x0) : load_lanes_##s(lanes, a + i * w);              \
        const vector_##s y =                                                                       \
            sb == 0 ? repeat_lanes_##s(lanes, y0) : load_lanes_##s(lanes, b + i * w);              \
        (void)y;                                                                                   \
        store_lanes_##s(out + i * w, lanes, value);                                                \
    } while (0)
#define VECTORS(op, s, binary, otherwise, value)                                                   \
    static void op##_vectors_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,              \
                                 ptrdiff_t sa, const char *b, ptrdiff_t sb)                        \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s), m = LANES_##s;                                          \
        ptrdiff_t i = 0;                                                                           \
        if (!binary) {                                                                             \
            b = a;                                                                                 \
            sb = sa;                                                                               \
        }                                                                                          \
        if (so != w || (sa != w && sa != 0) || (sb != w && sb != 0)) {                             \
            op##_##otherwise##_##s(n, out, so, a, sa, b, sb);                                      \
            return;                                                                                \
        }                                                                                          \
        const vector_##s x0 = repeat_##s(a), y0 = repeat_##s(b);                                   \
        for (; i + m <= n; i += m)                                                                 \
            VECTOR_STEP(s, 0xffff, value);                                                         \
        if (i < n)                                                                                 \
            VECTOR_STEP(s, (1u << (n - i)) - 1, value);                                            \
    }
VECTORS(add, f16, 1, kernel, x + y)
VECTORS(subtract, f16, 1, kernel, x - y)
VECTORS(multiply, f16, 1, kernel, x *y)
VECTORS(divide, f16, 1, kernel, x / y)
VECTORS(square, f16, 0, kernel, x *x)
VECTORS(sqrt, f16, 0, kernel, _mm512_sqrt_ps(x))
VECTORS(minimum, f16, 1, quiet, lesser_f32(x, y, x, y))
VECTORS(minimum, f32, 1, quiet, lesser_f32(x, y, x, y))
VECTORS(minimum, f64, 1, quiet, lesser_f64(x, y, x, y))
VECTORS(maximum, f16, 1, quiet, lesser_f32(x, y, y, x))
VECTORS(maximum, f32, 1, quiet, lesser_f32(x, y, y, x))
VECTORS(maximum, f64, 1, quiet, lesser_f64(x, y, y, x))

/*
 * The remainder without fmod().  With q = trunc(a / b), rounded, off by at most one while it is
 * below the 2^23 or 2^52 that a float counts to, a - q * b is exact in a fused multiply-add, and
 * so is the correction of q (not by a masked addition, which compilers may take for an addition and
 * a choice: elsewhere the sum could overflow).  It is done on absolute values; then the sign is
 * that of b, as in divmod (scalar_ops.h).  Vectors in which some quotient could be too large, or
 * could underflow (a may be subnormal, so `range` leaves room for that), or that have an infinity,
 * a NaN, or a zero or subnormal b, are left to the plain kernel.
 */
#define REMAINDER(s, v, epi, ps, digits, range, exponents)                                         \
    static inline int remainder_is_plain_##s(vector_##s a, vector_##s b)                           \
    {                                                                                              \
        const __m512i one = _mm512_set1_##epi(v(1) << digits);                                     \
        const __m512i infinity = _mm512_set1_##epi(v(exponents) << digits);                        \
        __m512i x = _mm512_cast##ps##_si512(_mm512_abs_##ps(a));                                   \
        __m512i y = _mm512_cast##ps##_si512(_mm512_abs_##ps(b));                                   \
        __m512i spread =                                                                           \
            _mm512_sub_##epi(_mm512_and_si512(x, infinity), _mm512_and_si512(y, infinity));        \
        unsigned in_range =                                                                        \
            _mm512_cmplt_##epi##_mask(_mm512_set1_##epi(-(v(range) << digits)), spread) &          \
            _mm512_cmplt_##epi##_mask(spread, _mm512_set1_##epi(v(digits) << digits));             \
        return (((in_range & _mm512_cmplt_##epi##_mask(x, infinity)) |                             \
                 _mm512_testn_##epi##_mask(x, x)) &                                                \
                _mm512_cmple_##epi##_mask(one, y) & _mm512_cmplt_##epi##_mask(y, infinity)) ==     \
               (1u << LANES_##s) - 1;                                                              \
    }                                                                                              \
    static inline vector_##s remainder_vector_##s(vector_##s a, vector_##s b)                      \
    {                                                                                              \
        const vector_##s zero = _mm512_setzero_##ps(), sign = _mm512_set1_##ps((t_##s) - 0.0);     \
        vector_##s x = _mm512_abs_##ps(a), y = _mm512_abs_##ps(b);                                 \
        vector_##s q = _mm512_roundscale_##ps(x / y, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);      \
        vector_##s r = _mm512_fnmadd_##ps(q, y, x);                                                \
        r += _mm512_maskz_mov_##ps(_mm512_cmp_##ps##_mask(r, zero, _CMP_LT_OQ), y);                \
        unsigned is_zero = _mm512_cmp_##ps##_mask(r, zero, _CMP_EQ_OQ);                            \
        unsigned has_other_sign = _mm512_cmp_##ps##_mask(a, zero, _CMP_LT_OQ) ^                    \
                                  _mm512_cmp_##ps##_mask(b, zero, _CMP_LT_OQ);                     \
        r = _mm512_mask_sub_##ps(r, has_other_sign & ~is_zero, y, r);                              \
        return _mm512_or_##ps(r, _mm512_and_##ps(b, sign));                                        \
    }                                                                                              \
    static void remainder_vectors_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a,         \
                                      ptrdiff_t sa, const char *b, ptrdiff_t sb)                   \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s), m = LANES_##s;                                          \
        if (so != w || (sa != w && sa != 0) || (sb != w && sb != 0)) {                             \
            remainder_kernel_##s(n, out, so, a, sa, b, sb);                                        \
            return;                                                                                \
        }                                                                                          \
        const vector_##s x0 = repeat_##s(a), y0 = repeat_##s(b);                                   \
        for (ptrdiff_t i = 0; i < n; i += m) {                                                     \
            const ptrdiff_t left = n - i < m ? n - i : m;                                          \
            const unsigned lanes = (1u << left) - 1;                                               \
            const vector_##s x =                                                                   \
                sa == 0 ? repeat_lanes_##s(lanes, x0) : load_lanes_##s(lanes, a + i * w);          \
            const vector_##s y =                                                                   \
                sb == 0 ? repeat_lanes_##s(lanes, y0) : load_lanes_##s(lanes, b + i * w);          \
            if (remainder_is_plain_##s(x, y))                                                      \
                store_lanes_##s(out + i * w, lanes, remainder_vector_##s(x, y));                   \
            else                                                                                   \
                remainder_kernel_##s(left, out + i * w, w, a + i * sa, sa, b + i * sb, sb);        \
        }                                                                                          \
    }
REMAINDER(f32, INT32_C, epi32, ps, 23, 100, 255)
REMAINDER(f64, INT64_C, epi64, pd, 52, 900, 2047)

static void remainder_vectors_f16(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa,
                                  const char *b, ptrdiff_t sb)
{
    half_kernel(remainder_vectors_f32, 1, n, out, so, a, sa, b, sb);
}

#define IN_VECTORS(op, s, otherwise) op##_vectors_##s
#else
#define IN_VECTORS(op, s, otherwise) op##_##otherwise##_##s
#endif

/* ---- Costly operations on strided operands ------------------------------------------------- */

#define PACKED(op, s, least, binary, wo, kernel)                                                   \
    static void op##_packed_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                                const char *b, ptrdiff_t sb)                                       \
    {                                                                                              \
        packed_kernel(kernel, least, binary, wo, sizeof(t_##s), n, out, so, a, sa, b, sb);         \
    }
PACKED(sqrt, f32, 8, 0, sizeof(t_f32), sqrt_kernel_f32)
PACKED(sqrt, f64, 8, 0, sizeof(t_f64), sqrt_kernel_f64)
PACKED(minimum, f32, 8, 1, sizeof(t_f32), IN_VECTORS(minimum, f32, quiet))
PACKED(minimum, f64, 8, 1, sizeof(t_f64), IN_VECTORS(minimum, f64, quiet))
PACKED(maximum, f32, 8, 1, sizeof(t_f32), IN_VECTORS(maximum, f32, quiet))
PACKED(maximum, f64, 8, 1, sizeof(t_f64), IN_VECTORS(maximum, f64, quiet))
PACKED(remainder, f32, 8, 1, sizeof(t_f32), IN_VECTORS(remainder, f32, kernel))
PACKED(remainder, f64, 8, 1, sizeof(t_f64), IN_VECTORS(remainder, f64, kernel))
PACKED(absolute, c64, 64, 0, sizeof(t_f32), absolute_kernel_c64)
PACKED(absolute, c128, 64, 0, sizeof(t_f64), absolute_kernel_c128)

/* ---- Conversions --------------------------------------------------------------------------- */

/*
 * to_of_from(n, out, a) for contiguous elements of every two real types but f16, which convert()
 * takes through f32; complex numbers it takes part by part.
 */
#define VALUE_SIGNED(s, p) load_##s(p)
#define VALUE_UNSIGNED(s, p) load_##s(p)
#define VALUE_FLOAT(s, p) load_##s(p)
#define VALUE_BOOL(s, p) (load_u8(p) != 0)
#define VALUE(s, p) PASTE(VALUE_, MYLIB_CLASS_##s)(s, p)

#define TO_INTEGER(t, out, x)                                                                      \
    store_##t(out, _Generic((x), t_f32                                                             \
                            : t##_from_f32(x), t_f64                                               \
                            : t##_from_f64(x), default                                             \
                            : (t_##t)(x)))
#define TO_SIGNED(t, out, x) TO_INTEGER(t, out, x)
#define TO_UNSIGNED(t, out, x) TO_INTEGER(t, out, x)
#define TO_FLOAT(t, out, x) store_##t(out, (t_##t)(x))
#define TO_BOOL(t, out, x) store_u8(out, (x) != 0)
#define TO(t, out, x) PASTE(TO_, MYLIB_CLASS_##t)(t, out, x)

#define CONVERSION(t, s)                                                                           \
    static void t##_of_##s(ptrdiff_t n, char *out, const char *a)                                  \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s), wo = sizeof(t_##t);                                     \
        NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) TO(t, out + i * wo, VALUE(s, a + i * w));  \
    }

/* X(t, s) for every type s of these; and that for every type t of these. */
#define CONVERSIONS_TO(X, t) MYLIB_SET_INT(X, t) X(t, f32) X(t, f64) X(t, bool)
#define CONVERSIONS_SIGNED(X, t) CONVERSIONS_TO(X, t)
#define CONVERSIONS_UNSIGNED(X, t) CONVERSIONS_TO(X, t)
#define CONVERSIONS_HALF(X, t)
#define CONVERSIONS_FLOAT(X, t) CONVERSIONS_TO(X, t)
#define CONVERSIONS_COMPLEX(X, t)
#define CONVERSIONS_BOOL(X, t) CONVERSIONS_TO(X, t)
#define DT(t, T) PASTE(CONVERSIONS_, MYLIB_CLASS_##t)(CONVERSION, t)
MYLIB_STORED_TYPES(DT)
#undef DT

#define COMPLEX_TO_BOOL(s)                                                                         \
    static void bool_of_##s(ptrdiff_t n, char *out, const char *a)                                 \
    {                                                                                              \
        for (ptrdiff_t i = 0; i < n; i++) {                                                        \
            const t_##s x = load_##s(a + i * (ptrdiff_t)sizeof x);                                 \
            STAYS_SCALAR;                                                                          \
            store_u8(out + i, (x.re != 0) | (x.im != 0));                                          \
        }                                                                                          \
    }
COMPLEX_TO_BOOL(c64)
COMPLEX_TO_BOOL(c128)

typedef void contiguous_conversion(ptrdiff_t n, char *out, const char *a);

static contiguous_conversion *lookup_conversion(mylib_type to, mylib_type from)
{
#define DT(s, S) type_##s = MYLIB_##S,
    enum { MYLIB_STORED_TYPES(DT) };
#undef DT
    switch ((int)to * MYLIB_TYPE_COUNT + (int)from) {
#define CASE(t, s)                                                                                 \
    case type_##t *MYLIB_TYPE_COUNT + type_##s:                                                    \
        return t##_of_##s;
#define DT(t, T) PASTE(CONVERSIONS_, MYLIB_CLASS_##t)(CASE, t)
        MYLIB_STORED_TYPES(DT)
#undef DT
        CASE(bool, c64)
        CASE(bool, c128)
#undef CASE
    default:
        return NULL;
    }
}

/* The type of the parts of a complex type; else the type itself. */
static mylib_type part_of(mylib_type type)
{
    return type == MYLIB_C64 ? MYLIB_F32 : type == MYLIB_C128 ? MYLIB_F64 : type;
}

/*
 * f64 to f32 so that f16 is then rounded once: what f32 cannot hold makes its last bit odd, which
 * is far below the last bit of f16.
 */
static void narrow_to_odd(ptrdiff_t n, float *dst, const char *src)
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

/* n <= HALF_BLOCK contiguous elements, both types complex or neither, or `to` bool. */
static void convert_block(mylib_type to, mylib_type from, ptrdiff_t n, char *out, const char *a)
{
    _Alignas(64) float x[HALF_BLOCK];
    if (part_of(to) != to) {
        lookup_conversion(part_of(to), part_of(from))(2 * n, out, a);
        return;
    }
    if (to != MYLIB_F16 && from != MYLIB_F16) {
        lookup_conversion(to, from)(n, out, a);
        return;
    }
    if (from == MYLIB_F16)
        widen(n, x, a);
    else if (from == MYLIB_F64)
        narrow_to_odd(n, x, a);
    else
        lookup_conversion(MYLIB_F32, from)(n, (char *)x, a);
    if (to == MYLIB_F16)
        narrow(n, out, x);
    else
        lookup_conversion(to, MYLIB_F32)(n, out, (const char *)x);
}

/* Other strides than those of contiguous elements go through contiguous blocks. */
#define CONVERTED_NBYTES (HALF_BLOCK * (int)sizeof(double))

static void convert_blocks(mylib_type to, mylib_type from, ptrdiff_t n, char *out, ptrdiff_t so,
                           const char *a, ptrdiff_t sa)
{
    _Alignas(64) char packed[CONVERTED_NBYTES], result[CONVERTED_NBYTES];
    const ptrdiff_t w = (ptrdiff_t)mylib_type_size(from), wo = (ptrdiff_t)mylib_type_size(to);
    const ptrdiff_t widest = w > wo ? w : wo;
    const ptrdiff_t most =
        widest * HALF_BLOCK > CONVERTED_NBYTES ? CONVERTED_NBYTES / widest : HALF_BLOCK;
    if (n == 1)
        so = wo, sa = w;
    for (ptrdiff_t i = 0; i < n; i += most) {
        ptrdiff_t m = n - i < most ? n - i : most;
        const char *src = a + i * sa;
        char *dst = so == wo ? out + i * so : result;
        if (sa != w) {
            mylib_copy_strided((size_t)w, m, packed, w, src, sa);
            src = packed;
        }
        convert_block(to, from, m, dst, src);
        if (so != wo)
            mylib_copy_strided((size_t)wo, m, out + i * so, so, result, wo);
    }
}

static void convert(mylib_type to, mylib_type from, ptrdiff_t n, char *out, ptrdiff_t so,
                    const char *a, ptrdiff_t sa)
{
    int to_complex = part_of(to) != to, from_complex = part_of(from) != from;
    if (from_complex && !to_complex && to != MYLIB_BOOL)
        from = part_of(from); /* the real part is the first */
    if (to == from) {
        mylib_copy_strided(mylib_type_size(to), n, out, so, a, sa);
        return;
    }
    if (to_complex && !from_complex) {
        const ptrdiff_t half = (ptrdiff_t)mylib_type_size(to) / 2;
        const double zero = 0;
        convert(part_of(to), from, n, out, so, a, sa);
        mylib_copy_strided((size_t)half, n, out + half, so, (const char *)&zero, 0);
        return;
    }
    int flags = mylib_test_flags();
    convert_blocks(to, from, n, out, so, a, sa);
    /* Every number has its integer; but vector code also converts those that are then replaced. */
    if (to <= MYLIB_U64 && from >= MYLIB_F16 && mylib_test_flags() != flags) {
        mylib_clear_flags();
        mylib_raise_flags(flags);
    }
}

/* ---- Selections ---------------------------------------------------------------------------- */

#define SELECTION_LOOP(s, SO, SM, SA, SB)                                                          \
    for (ptrdiff_t i = 0; i < n; i++) {                                                            \
        t_##s x = load_##s(a + i * (SA)), y = load_##s(b + i * (SB));                              \
        store_##s(out + i * (SO), load_u8(mask + i * (SM)) ? x : y);                               \
    }
#define SELECTION(s)                                                                               \
    static void select_##s(ptrdiff_t n, char *out, ptrdiff_t so, const char *mask, ptrdiff_t sm,   \
                           const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb)               \
    {                                                                                              \
        const ptrdiff_t w = sizeof(t_##s);                                                         \
        if (so == w && sm == 1 && sa == w && sb == w) {                                            \
            NO_DEPENDENCE SELECTION_LOOP(s, w, 1, w, w)                                            \
        } else if (so == w && sm == 1 && sa == w && sb == 0) {                                     \
            NO_DEPENDENCE SELECTION_LOOP(s, w, 1, w, 0)                                            \
        } else if (so == w && sm == 1 && sa == 0 && sb == w) {                                     \
            NO_DEPENDENCE SELECTION_LOOP(s, w, 1, 0, w)                                            \
        } else {                                                                                   \
            UNROLLED SELECTION_LOOP(s, so, sm, sa, sb)                                             \
        }                                                                                          \
    }
SELECTION(u8)
SELECTION(u16)
SELECTION(u32)
SELECTION(u64)

/* Of 16 bytes each is a move of its own. */
static void select_c128(ptrdiff_t n, char *out, ptrdiff_t so, const char *mask, ptrdiff_t sm,
                        const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    UNROLLED for (ptrdiff_t i = 0; i < n; i++)
        memmove(out + i * so, load_u8(mask + i * sm) ? a + i * sa : b + i * sb, sizeof(t_c128));
}

/* Elements are moved, whatever their type: by size. */
static mylib_selection *lookup_selection(mylib_type type)
{
    switch (mylib_type_size(type)) {
    case 1:
        return select_u8;
    case 2:
        return select_u16;
    case 4:
        return select_u32;
    case 8:
        return select_u64;
    default:
        return select_c128;
    }
}

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
#define EXTREME_CASES(op)                                                                          \
    CASE(op, F16, IN_VECTORS(op, f16, quiet))                                                      \
    CASE(op, F32, op##_packed_f32)                                                                 \
    CASE(op, F64, op##_packed_f64)                                                                 \
    CASE(op, C64, op##_quiet_c64)                                                                  \
    CASE(op, C128, op##_quiet_c128)
        QUIET_CASES(less)
        QUIET_CASES(less_equal)
        EXTREME_CASES(minimum)
        EXTREME_CASES(maximum)
        CASE(add, F16, IN_VECTORS(add, f16, kernel))
        CASE(subtract, F16, IN_VECTORS(subtract, f16, kernel))
        CASE(multiply, F16, IN_VECTORS(multiply, f16, kernel))
        CASE(divide, F16, IN_VECTORS(divide, f16, kernel))
        CASE(remainder, F16, IN_VECTORS(remainder, f16, kernel))
        CASE(square, F16, IN_VECTORS(square, f16, kernel))
        CASE(sqrt, F16, IN_VECTORS(sqrt, f16, kernel))
        CASE(negative, F16, negative_sign_f16)
        CASE(absolute, F16, absolute_sign_f16)
        CASE(remainder, F32, remainder_packed_f32)
        CASE(remainder, F64, remainder_packed_f64)
        CASE(sqrt, F32, sqrt_packed_f32)
        CASE(sqrt, F64, sqrt_packed_f64)
        CASE(absolute, C64, absolute_packed_c64)
        CASE(absolute, C128, absolute_packed_c128)
#if defined(__AVX512F__)
        CASE(multiply, C64, multiply_product_c64)
        CASE(multiply, C128, multiply_product_c128)
        CASE(square, C64, square_product_c64)
        CASE(square, C128, square_product_c128)
#endif
#undef QUIET_CASES
#undef EXTREME_CASES
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
        return PASTE(KERNEL_, MYLIB_CLASS_##s)(op, s);
/* Modulo 2^N signed and unsigned numbers are the same. */
#define IS_MODULAR(op)                                                                             \
    (IS_ONE_OF_3(op, add, subtract, multiply) || IS_ONE_OF_3(op, negative, square, equal) ||       \
     MYLIB_OP_##op == MYLIB_OP_not_equal)
#define KERNEL_SIGNED(op, s) IS_MODULAR(op) ? PASTE(op##_kernel_, UNSIGNED_##s) : op##_kernel_##s
#define KERNEL_UNSIGNED(op, s) op##_kernel_##s
#define KERNEL_HALF(op, s) op##_kernel_##s
#define KERNEL_FLOAT(op, s) op##_kernel_##s
#define KERNEL_COMPLEX(op, s) op##_kernel_##s
#define UNSIGNED_i8 u8
#define UNSIGNED_i16 u16
#define UNSIGNED_i32 u32
#define UNSIGNED_i64 u64
#define CASE_BINARY(op, s) CASE(op, s)
#define CASE_UNARY(op, s) CASE(op, s)
#define CASE_UNARY_REAL(op, s) CASE(op, s)
#define CASE_COMPARE(op, s) CASE(op, s)
#define CASE_REVERSED(op, s)
#define ROW(arity, op, set) MYLIB_SET_##set(CASE_##arity, op)
        MYLIB_OPS(ROW)
#undef ROW
#undef CASE
    default:
        return NULL;
    }
}

/* ---- Reductions of one block --------------------------------------------------------------- */

/*
 * n contiguous terms are combined as mylib.h says: rows of 256 lanes, lane by lane, then the lanes
 * pairwise.  A few vectors of lanes at a time stay in registers over all full rows.
 *
 * TERM(s, i) is term i in the carrying type C.  Where complex numbers are added part by part, a
 * term is PARTS of them.
 */
#define SPAN_NBYTES 256

/*
 * `statement` for i from 0 to m - 1.  A chunk of them is plain vector code, where a loop of any
 * length is taken apart into kilobytes of cases.
 */
#define CHUNK 16
#define IN_CHUNKS(m, statement)                                                                    \
    do {                                                                                           \
        const ptrdiff_t whole = (m)-CHUNK;                                                         \
        ptrdiff_t i0 = 0;                                                                          \
        NOT_UNROLLED for (; i0 <= whole; i0 += CHUNK)                                              \
            NO_DEPENDENCE for (ptrdiff_t k = 0; k < CHUNK; k++)                                    \
        {                                                                                          \
            const ptrdiff_t i = i0 + k;                                                            \
            statement;                                                                             \
        }                                                                                          \
        NOT_UNROLLED for (ptrdiff_t i = i0; i < (m); i++)                                          \
        {                                                                                          \
            STAYS_SCALAR;                                                                          \
            statement;                                                                             \
        }                                                                                          \
    } while (0)

/* The lanes, `lanes` of them, pairwise, down to PARTS. */
#define FOLD_OF(name, C, PARTS, COMBINE)                                                           \
    NOINLINE static void name(C *lane, ptrdiff_t lanes)                                            \
    {                                                                                              \
        NOT_UNROLLED for (ptrdiff_t half = MYLIB_BLOCK_LANES * (PARTS) / 2; half >= (PARTS);       \
                          half /= 2) if (half < lanes)                                             \
            IN_CHUNKS(lanes - half < half ? lanes - half : half,                                   \
                      lane[i] = COMBINE(lane[i], lane[i + half]));                                 \
    }

#define BLOCK_OF(name, s, C, PARTS, TERM, COMBINE, fold)                                           \
    static void name(ptrdiff_t n, char *result, const char *a, const char *b)                      \
    {                                                                                              \
        enum { LANES = MYLIB_BLOCK_LANES * (PARTS), SPAN = SPAN_NBYTES / sizeof(C) };              \
        _Alignas(64) C lane[LANES];                                                                \
        (void)b;                                                                                   \
        n *= (PARTS);                                                                              \
        const ptrdiff_t rows = n / LANES, rest = n - rows * LANES;                                 \
        if (rows == 0) {                                                                           \
            IN_CHUNKS(rest, lane[i] = TERM(s, i));                                                 \
        } else {                                                                                   \
            NOT_UNROLLED for (ptrdiff_t l = 0; l < LANES; l += SPAN)                               \
            {                                                                                      \
                C part[SPAN];                                                                      \
                for (ptrdiff_t k = 0; k < SPAN; k++)                                               \
                    part[k] = TERM(s, l + k);                                                      \
                NOT_UNROLLED for (ptrdiff_t r = 1; r < rows; r++) for (ptrdiff_t k = 0; k < SPAN;  \
                                                                       k++) part[k] =              \
                    COMBINE(part[k], TERM(s, r * LANES + l + k));                                  \
                memcpy(lane + l, part, sizeof part);                                               \
            }                                                                                      \
            IN_CHUNKS(rest, lane[i] = COMBINE(lane[i], TERM(s, rows * LANES + i)));                \
        }                                                                                          \
        fold(lane, rows == 0 ? rest : LANES);                                                      \
        memcpy(result, lane, (PARTS) * sizeof(C));                                                 \
    }

#define TERM_WIDENED(s, i) ((sum_##s)load_##s(a + (i) * (ptrdiff_t)sizeof(t_##s)))
#define TERM_SAME(s, i) load_##s(a + (i) * (ptrdiff_t)sizeof(t_##s))
#define TERM_PRODUCT(s, i) (TERM_SAME(s, i) * load_##s(b + (i) * (ptrdiff_t)sizeof(t_##s)))

/* Sums of every type. */
FOLD_OF(fold_add_u64, t_u64, 1, add_u64)
FOLD_OF(fold_add_f32, t_f32, 1, add_f32)
FOLD_OF(fold_add_f64, t_f64, 1, add_f64)
FOLD_OF(fold_pairs_f32, t_f32, 2, add_f32)
FOLD_OF(fold_pairs_f64, t_f64, 2, add_f64)
#define SUM_INTEGER(s) BLOCK_OF(sum_block_##s, s, t_u64, 1, TERM_WIDENED, add_u64, fold_add_u64)
#define SUM_SIGNED(s) SUM_INTEGER(s)
#define SUM_UNSIGNED(s) SUM_INTEGER(s)
#define SUM_HALF(s)
#define SUM_FLOAT(s) BLOCK_OF(sum_block_##s, s, t_##s, 1, TERM_SAME, add_##s, fold_add_##s)
#define SUM_COMPLEX(s)
#define DT(s, S) PASTE(SUM_, MYLIB_CLASS_##s)(s)
MYLIB_TYPES(DT)
#undef DT
BLOCK_OF(sum_block_c64, f32, t_f32, 2, TERM_SAME, add_f32, fold_pairs_f32)
BLOCK_OF(sum_block_c128, f64, t_f64, 2, TERM_SAME, add_f64, fold_pairs_f64)

static void sum_block_f16(ptrdiff_t n, char *result, const char *a, const char *b)
{
    _Alignas(64) float wide[MYLIB_BLOCK_TERMS];
    widen(n, wide, a);
    sum_block_f32(n, result, (const char *)wide, b);
}

/* Products of the types that carry them; sums of products where one pass pays. */
#define PROD_BLOCK(s)                                                                              \
    FOLD_OF(fold_multiply_##s, t_##s, 1, multiply_##s)                                             \
    BLOCK_OF(prod_block_##s, s, t_##s, 1, TERM_SAME, multiply_##s, fold_multiply_##s)
PROD_BLOCK(u64)
PROD_BLOCK(f32)
PROD_BLOCK(f64)
PROD_BLOCK(c64)
PROD_BLOCK(c128)
BLOCK_OF(dot_block_f32, f32, t_f32, 1, TERM_PRODUCT, add_f32, fold_add_f32)
BLOCK_OF(dot_block_f64, f64, t_f64, 1, TERM_PRODUCT, add_f64, fold_add_f64)

/* Minima and maxima of all but f16; as with QUIET above, comparisons must leave no flags. */
#define QUIET_BLOCK(name, plain)                                                                   \
    static void name(ptrdiff_t n, char *result, const char *a, const char *b)                      \
    {                                                                                              \
        int flags = mylib_test_flags();                                                            \
        plain(n, result, a, b);                                                                    \
        if (mylib_test_flags() != flags) {                                                         \
            mylib_clear_flags();                                                                   \
            mylib_raise_flags(flags);                                                              \
        }                                                                                          \
    }
#define EXTREME_OF(name, op, s)                                                                    \
    FOLD_OF(fold_##op##_##s, t_##s, 1, op##_##s)                                                   \
    BLOCK_OF(name, s, t_##s, 1, TERM_SAME, op##_##s, fold_##op##_##s)
#define EXTREME_PLAIN(op, s) EXTREME_OF(op##_block_##s, op, s)
#define EXTREME_QUIET(op, s)                                                                       \
    EXTREME_OF(op##_any_block_##s, op, s)                                                          \
    QUIET_BLOCK(op##_block_##s, op##_any_block_##s)
#define EXTREME_SIGNED(op, s) EXTREME_PLAIN(op, s)
#define EXTREME_UNSIGNED(op, s) EXTREME_PLAIN(op, s)
#define EXTREME_HALF(op, s)
#define EXTREME_FLOAT(op, s) EXTREME_QUIET(op, s)
#define EXTREME_COMPLEX(op, s) EXTREME_QUIET(op, s)
#define DT(s, S)                                                                                   \
    PASTE(EXTREME_, MYLIB_CLASS_##s)(minimum, s) PASTE(EXTREME_, MYLIB_CLASS_##s)(maximum, s)
MYLIB_TYPES(DT)
#undef DT

static mylib_block_reduce *lookup_block_reduce(mylib_reduction reduction, mylib_type type)
{
    switch ((int)reduction * MYLIB_TYPE_COUNT + (int)type) {
#define CASE(reduction, S, kernel)                                                                 \
    case MYLIB_##reduction *MYLIB_TYPE_COUNT + MYLIB_##S:                                          \
        return kernel;
#define DT(s, S) CASE(SUM, S, sum_block_##s)
        MYLIB_TYPES(DT)
#undef DT
        CASE(PROD, I64, prod_block_u64)
        CASE(PROD, U64, prod_block_u64)
        CASE(PROD, F32, prod_block_f32)
        CASE(PROD, F64, prod_block_f64)
        CASE(PROD, C64, prod_block_c64)
        CASE(PROD, C128, prod_block_c128)
#define EXTREME_CASE_SIGNED(s, S) CASE(MIN, S, minimum_block_##s) CASE(MAX, S, maximum_block_##s)
#define EXTREME_CASE_UNSIGNED(s, S) EXTREME_CASE_SIGNED(s, S)
#define EXTREME_CASE_HALF(s, S)
#define EXTREME_CASE_FLOAT(s, S) EXTREME_CASE_SIGNED(s, S)
#define EXTREME_CASE_COMPLEX(s, S) EXTREME_CASE_SIGNED(s, S)
#define DT(s, S) PASTE(EXTREME_CASE_, MYLIB_CLASS_##s)(s, S)
        MYLIB_TYPES(DT)
#undef DT
#undef CASE
    default:
        return NULL;
    }
}

static mylib_block_reduce *lookup_block_dot(mylib_type type)
{
    return type == MYLIB_F32 ? dot_block_f32 : type == MYLIB_F64 ? dot_block_f64 : NULL;
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
    .convert = convert,
    .selection = lookup_selection,
    .block_reduce = lookup_block_reduce,
    .block_dot = lookup_block_dot,
    .stream_copy = stream_copy,
    .stream_fence = stream_fence,
    .f16_from_f32 = f16_from_f32,
};
