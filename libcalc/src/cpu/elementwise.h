/*
 * elementwise.h - a kernel for each row of the table and each type: op_kernel_s.
 *
 * The loops are plain C that the compiler vectorizes: if operands are contiguous, or one of them is
 * a single number, the strides are constants.  Operands need no alignment.  `out` may be an input
 * with the same stride.  Callers handle any other overlap (cpu/run.c): vector loops assume none.
 */
#pragma once

#include "cpu/half.h"
#include "cpu/loops.h"

BEGIN_WITHOUT_CHOICES

/* ---- Arithmetic ---- */

/* Tells which operations are so slow that one scalar loop over any strides suffices. */
static ALWAYS_INLINE int is_long(mylib_op op, int type_class)
{
    return op == MYLIB_OP_floor_divide || op == MYLIB_OP_remainder ||
           (op == MYLIB_OP_divide && type_class <= UNSIGNED) ||
           (op == MYLIB_OP_sqrt && type_class == COMPLEX);
}

/* The last loop is for any strides. */
#define BINARY_LOOPS(s) \
    static ALWAYS_INLINE void binary_loops_##s( \
        t_##s (*op)(t_##s, t_##s), int is_long, ptrdiff_t n, char *out, ptrdiff_t so, \
        const char *a, ptrdiff_t sa, const char *b, ptrdiff_t sb) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        if (is_long) { \
            for (; n > 0; n--, out += so, a += sa, b += sb) { \
                STAYS_SCALAR; \
                store_##s(out, op(load_##s(a), load_##s(b))); \
            } \
        } else if (so == w && sa == w && sb == w) { \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                store_##s(out + i * w, op(load_##s(a + i * w), load_##s(b + i * w))); \
        } else if (so == w && sa == w && sb == 0) { \
            const t_##s b0 = load_##s(b); \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                store_##s(out + i * w, op(load_##s(a + i * w), b0)); \
        } else if (so == w && sa == 0 && sb == w) { \
            const t_##s a0 = load_##s(a); \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                store_##s(out + i * w, op(a0, load_##s(b + i * w))); \
        } else if (MYLIB_CLASS_##s == COMPLEX) { \
            for (ptrdiff_t i = 0; i < n; i++) \
                store_##s(out + i * so, op(load_##s(a + i * sa), load_##s(b + i * sb))); \
        } else { \
            IN_PAIRS(n, store_##s(out + i * so, op(load_##s(a + i * sa), load_##s(b + i * sb))), \
                     (out += 2 * so, a += 2 * sa, b += 2 * sb)); \
        } \
    }

#define UNARY_LOOPS(name, s, r) \
    static ALWAYS_INLINE void name(t_##r (*op)(t_##s), int is_long, ptrdiff_t n, char *out, \
                                   ptrdiff_t so, const char *a, ptrdiff_t sa) \
    { \
        const ptrdiff_t w = sizeof(t_##s), wo = sizeof(t_##r); \
        if (is_long) { \
            for (; n > 0; n--, out += so, a += sa) { \
                STAYS_SCALAR; \
                store_##r(out, op(load_##s(a))); \
            } \
        } else if (so == wo && sa == w) { \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                store_##r(out + i * wo, op(load_##s(a + i * w))); \
        } else if (MYLIB_CLASS_##s == COMPLEX) { \
            for (ptrdiff_t i = 0; i < n; i++) \
                store_##r(out + i * so, op(load_##s(a + i * sa))); \
        } else { \
            IN_PAIRS(n, store_##r(out + i * so, op(load_##s(a + i * sa))), \
                     (out += 2 * so, a += 2 * sa)); \
        } \
    }

#define LOOPS(s) BINARY_LOOPS(s) UNARY_LOOPS(unary_loops_##s, s, s)
#define NO_LOOPS(s)
#define DT(s, S) BY_CLASS(s, LOOPS, NO_LOOPS, LOOPS, LOOPS)(s)
MYLIB_TYPES(DT)
#undef DT
#undef NO_LOOPS
UNARY_LOOPS(modulus_loops_c64, c64, f32)
UNARY_LOOPS(modulus_loops_c128, c128, f64)

#define BINARY(op, s) \
    KERNEL(op##_kernel_##s) \
    { \
        binary_loops_##s(op##_##s, is_long(MYLIB_OP_##op, MYLIB_CLASS_##s), n, out, so, a, sa, b, \
                         sb); \
    }
#define UNARY(op, s) \
    KERNEL(op##_kernel_##s) \
    { \
        unary_loops_##s(op##_##s, is_long(MYLIB_OP_##op, MYLIB_CLASS_##s), n, out, so, a, sa); \
    }
#define MODULUS(op, s) \
    KERNEL(op##_kernel_##s) { modulus_loops_##s(op##_##s, 0, n, out, so, a, sa); }

/* ---- Comparisons ---- */

/*
 * Comparisons turn elements of any size into single bytes.  GROUP results fill a vector of bytes; a
 * loop over exactly GROUP elements becomes plain vector code.  Compilers would expand a longer loop
 * into kilobytes of cases.
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

/* Compares contiguous elements in whole groups, the rest one by one. */
NOINLINE static void compare(group_comparison *groups, mylib_kernel *one_by_one, ptrdiff_t w,
                             ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa,
                             const char *b, ptrdiff_t sb)
{
    const ptrdiff_t grouped = n - n % GROUP;
    if (grouped > 0 && so == 1 &&
        ((sa == w && sb == w) || (sa == w && sb == 0) || (sa == 0 && sb == w))) {
        groups(grouped, out, a, sa, b, sb);
        n -= grouped, out += grouped, a += grouped * sa, b += grouped * sb;
        if (n > 0 && out != a && out != b) { /* a group that ends with the rest */
            const ptrdiff_t again = GROUP - n;
            groups(GROUP, out - again, a - again * sa, sa, b - again * sb, sb);
            return;
        }
    }
    one_by_one(n, out, so, a, sa, b, sb);
}

#define COMPARE_ONE_BY_ONE(op, s) \
    KERNEL(op##_one_by_one_##s) \
    { \
        UNROLLED for (ptrdiff_t i = 0; i < n; i++) \
        { \
            STAYS_SCALAR; \
            store_u8(out + i * so, (uint8_t)op##_##s(load_##s(a + i * sa), load_##s(b + i * sb))); \
        } \
    }

#define GROUP_LOOPS(s) \
    static ALWAYS_INLINE void group_loops_##s(int (*op)(t_##s, t_##s), ptrdiff_t n, char *out, \
                                              const char *a, ptrdiff_t sa, const char *b, \
                                              ptrdiff_t sb) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        const t_##s a0 = load_##s(a), b0 = load_##s(b); \
        if (sb == 0) { \
            for (; n > 0; n -= GROUP, out += GROUP, a += GROUP * sa, b += GROUP * sb) \
                IN_A_GROUP for (ptrdiff_t i = 0; i < GROUP; i++) \
                    store_u8(out + i, (uint8_t)op(load_##s(a + i * w), b0)); \
        } else if (sa == 0) { \
            for (; n > 0; n -= GROUP, out += GROUP, a += GROUP * sa, b += GROUP * sb) \
                IN_A_GROUP for (ptrdiff_t i = 0; i < GROUP; i++) \
                    store_u8(out + i, (uint8_t)op(a0, load_##s(b + i * w))); \
        } else { \
            for (; n > 0; n -= GROUP, out += GROUP, a += GROUP * sa, b += GROUP * sb) \
                IN_A_GROUP for (ptrdiff_t i = 0; i < GROUP; i++) \
                    store_u8(out + i, (uint8_t)op(load_##s(a + i * w), load_##s(b + i * w))); \
        } \
    }
#define NO_LOOPS(s)
#define DT(s, S) BY_CLASS(s, GROUP_LOOPS, NO_LOOPS, GROUP_LOOPS, NO_LOOPS)(s)
MYLIB_TYPES(DT)
#undef DT
#undef NO_LOOPS

#define COMPARE(op, s) \
    COMPARE_ONE_BY_ONE(op, s) \
    NOINLINE static void op##_groups_##s(ptrdiff_t n, char *out, const char *a, ptrdiff_t sa, \
                                         const char *b, ptrdiff_t sb) \
    { \
        group_loops_##s(op##_##s, n, out, a, sa, b, sb); \
    } \
    KERNEL(op##_kernel_##s) \
    { \
        QUIETLY(s, compare(op##_groups_##s, op##_one_by_one_##s, sizeof(t_##s), n, out, so, a, sa, \
                           b, sb)) \
    }

/* A group of complex numbers is split into parts, so that comparisons are vector code too. */
static inline void split_two_c64(float *re, float *im, const char *p, const char *q)
{
    re[0] = load_f32(p);
    im[0] = load_f32(p + sizeof *im);
    re[1] = load_f32(q);
    im[1] = load_f32(q + sizeof *im);
}

static inline void split_two_c128(double *re, double *im, const char *p, const char *q)
{
#ifdef __SSE2__
    const __m128d x = _mm_loadu_pd((const double *)p), y = _mm_loadu_pd((const double *)q);
    _mm_store_pd(re, _mm_unpacklo_pd(x, y));
    _mm_store_pd(im, _mm_unpackhi_pd(x, y));
#else
    re[0] = load_f64(p);
    im[0] = load_f64(p + sizeof *im);
    re[1] = load_f64(q);
    im[1] = load_f64(q + sizeof *im);
#endif
}

#define PART_LOOPS(s, r) \
    NOINLINE static void split_##s(t_##r *re, t_##r *im, const char *p, ptrdiff_t stride) \
    { \
        const ptrdiff_t w = sizeof(t_##s), half = sizeof(t_##r); \
        if (stride == w) { \
            IN_A_GROUP for (ptrdiff_t i = 0; i < GROUP; i++) \
            { \
                re[i] = load_##r(p + i * w); \
                im[i] = load_##r(p + i * w + half); \
            } \
            return; \
        } \
        UNROLLED for (ptrdiff_t i = 0; i < GROUP; i += 2) \
        { \
            STAYS_SCALAR; \
            split_two_##s(re + i, im + i, p + i * stride, p + (i + 1) * stride); \
        } \
    } \
    static ALWAYS_INLINE void part_loops_##s(int (*op)(t_##s, t_##s), mylib_kernel *one_by_one, \
                                             ptrdiff_t n, char *out, ptrdiff_t so, const char *a, \
                                             ptrdiff_t sa, const char *b, ptrdiff_t sb) \
    { \
        _Alignas(64) t_##r ar[GROUP], ai[GROUP], br[GROUP], bi[GROUP]; \
        _Alignas(64) uint8_t result[GROUP]; \
        /* An output of stride 0 may be an input: then the order matters. */ \
        for (; n >= GROUP && so != 0; n -= GROUP) { \
            split_##s(ar, ai, a, sa); \
            split_##s(br, bi, b, sb); \
            IN_A_GROUP for (ptrdiff_t i = 0; i < GROUP; i++) \
            { \
                const t_##s x = {ar[i], ai[i]}, y = {br[i], bi[i]}; \
                result[i] = (uint8_t)op(x, y); \
            } \
            if (so == 1) \
                memcpy(out, result, GROUP); \
            else \
                for (ptrdiff_t i = 0; i < GROUP; i++) \
                    store_u8(out + i * so, result[i]); \
            out += GROUP * so, a += GROUP * sa, b += GROUP * sb; \
        } \
        one_by_one(n, out, so, a, sa, b, sb); \
    }
PART_LOOPS(c64, f32)
PART_LOOPS(c128, f64)

#define COMPARE_PARTS(op, s) \
    COMPARE_ONE_BY_ONE(op, s) \
    KERNEL(op##_kernel_##s) \
    { \
        QUIETLY(s, part_loops_##s(op##_##s, op##_one_by_one_##s, n, out, so, a, sa, b, sb)) \
    }

/* ---- Tests ---- */

/* A test is a comparison that ignores its second operand (the first again). */
#define TEST_AS_COMPARISON(op, s, C) \
    static inline int op##_first_##s(t_##s a, t_##s b) { return (void)b, op##_##s(a); } \
    C(op##_first, s) \
    KERNEL(op##_kernel_##s) { op##_first_kernel_##s(n, out, so, a, sa, a, sa); }
#define TEST(op, s) TEST_AS_COMPARISON(op, s, COMPARE)
#define TEST_PARTS(op, s) TEST_AS_COMPARISON(op, s, COMPARE_PARTS)

/* ---- The table ---- */

#define DEFINE_BINARY(op, s) BY_CLASS(s, BINARY, HALF_BINARY, BINARY, BINARY)(op, s)
#define DEFINE_UNARY(op, s) BY_CLASS(s, UNARY, HALF_UNARY, UNARY, UNARY)(op, s)
#define DEFINE_UNARY_REAL(op, s) BY_CLASS(s, UNARY, HALF_UNARY, UNARY, MODULUS)(op, s)
#define DEFINE_COMPARE(op, s) BY_CLASS(s, COMPARE, HALF_COMPARE, COMPARE, COMPARE_PARTS)(op, s)
#define DEFINE_REVERSED(op, s) static mylib_kernel *const op##_kernel_##s = NULL;
#define DEFINE_LOGIC(op, s) DEFINE_COMPARE(op, s)
#define DEFINE_TEST(op, s) BY_CLASS(s, TEST, HALF_TEST, TEST, TEST_PARTS)(op, s)
#define ROW(kind, op, set) MYLIB_SET_##set(DEFINE_##kind, op)
MYLIB_ARITHMETIC(ROW)
#undef ROW
#undef UNARY
#undef BINARY

END_WITHOUT_CHOICES
