/*
 * loops.h - macros for all kernels: loads and stores, and hints to compilers about loops.
 *
 * For kernels.c and elementary.c, and the headers that they unite: each makes one unit, which is
 * compiled once for each level, with everything in it static.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "internal.h"
#include "scalar_ops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Intrinsics need the whole level: a user's -mavx2 or -mavx512f alone does not enable them. */
#if defined(__AVX2__) && defined(__F16C__)
#define HAS_V3
#if defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define HAS_V4
#endif
#endif

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* The classes of ops.h as constants: `MYLIB_CLASS_i8 == SIGNED`. */
enum { SIGNED, UNSIGNED, HALF, FLOAT, COMPLEX };

/* The types by their suffixes: type_i8 is MYLIB_I8. */
#define DT(s, S) type_##s = MYLIB_##S,
enum { MYLIB_STORED_TYPES(DT) };
#undef DT

/* Expands to one of four macros by the class of type s; bool counts as an integer. */
#define BY_CLASS(s, of_integer, of_half, of_float, of_complex) \
    PASTE(BY_CLASS_, MYLIB_CLASS_##s)(of_integer, of_half, of_float, of_complex)
#define BY_CLASS_SIGNED(of_integer, of_half, of_float, of_complex) of_integer
#define BY_CLASS_UNSIGNED(of_integer, of_half, of_float, of_complex) of_integer
#define BY_CLASS_HALF(of_integer, of_half, of_float, of_complex) of_half
#define BY_CLASS_FLOAT(of_integer, of_half, of_float, of_complex) of_float
#define BY_CLASS_COMPLEX(of_integer, of_half, of_float, of_complex) of_complex
#define BY_CLASS_BOOL(of_integer, of_half, of_float, of_complex) of_integer

/* ---- Compilers ---- */

/*
 * Loops are written once for each type, in force-inlined functions with constant arguments: the
 * operation, often the strides.  So every kernel gets its own vectorized copy.
 */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Keeps one copy of a loop over blocks. */
#define NOINLINE __attribute__((noinline))

/*
 * NO_DEPENDENCE: iterations may run in any order.  NOT_UNROLLED: keeps short loops rolled.
 * VECTORS_MIXED: computes a short loop of whole vectors at once (clang: of two, since with more it
 * leaves short loops scalar).  IN_A_GROUP: a loop of few iterations, which may run in any order
 * (clang: it would unroll them before it looks for vectors).
 */
#if defined(__GNUC__) && !defined(__clang__)
#define NO_DEPENDENCE _Pragma("GCC ivdep")
#define NOT_UNROLLED _Pragma("GCC unroll 1")
#define VECTORS_MIXED _Pragma("GCC unroll 4")
#define IN_A_GROUP NO_DEPENDENCE
#elif defined(__clang__)
#define NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#define NOT_UNROLLED _Pragma("clang loop unroll(disable)")
#define VECTORS_MIXED _Pragma("clang loop interleave_count(2)")
#define IN_A_GROUP NOT_UNROLLED NO_DEPENDENCE _Pragma("clang loop vectorize_width(GROUP)")
#else
#define NO_DEPENDENCE
#define NOT_UNROLLED
#define VECTORS_MIXED
#define IN_A_GROUP
#endif

/* Expands the short loops in these functions, whatever their code takes.  (gcc 11 would also forget
   the vectorizer.) */
#if defined(__GNUC__) && !defined(__clang__) && defined(HAS_V4)
#define BEGIN_EXPANDED _Pragma("GCC push_options") _Pragma("GCC optimize(\"O3\")")
#define END_EXPANDED _Pragma("GCC pop_options")
#elif defined(__GNUC__) && !defined(__clang__) && defined(HAS_V3)
#define BEGIN_EXPANDED \
    _Pragma("GCC push_options") _Pragma("GCC optimize(\"peel-loops\", \"tree-vectorize\")")
#define END_EXPANDED _Pragma("GCC pop_options")
#else
#define BEGIN_EXPANDED
#define END_EXPANDED
#endif

/* Keeps a loop scalar if vector code is not worth its size. */
#define STAYS_SCALAR __asm__ volatile("")

/* The level whose complex quotients and reductions this level has. */
extern const mylib_cpu_level PASTE(mylib_cpu_level_, MYLIB_LEVEL);
#if defined(MYLIB_COMPLEX_OF)
extern const mylib_cpu_level PASTE(mylib_cpu_level_, MYLIB_COMPLEX_OF);
#define COMPLEX_LEVEL PASTE(mylib_cpu_level_, MYLIB_COMPLEX_OF)
#define HAS_OTHER_LEVEL 1
#else
#define COMPLEX_LEVEL PASTE(mylib_cpu_level_, MYLIB_LEVEL)
#define HAS_OTHER_LEVEL 0
#endif
static ALWAYS_INLINE int is_of_other_level(mylib_type type)
{
    return HAS_OTHER_LEVEL && (type == MYLIB_C64 || type == MYLIB_C128);
}

/* Begins a mylib_kernel: out[i] = op(a[i], b[i]) for n elements; so, sa and sb are byte strides. */
#define KERNEL(name) \
    static void name(ptrdiff_t n, char *out, ptrdiff_t so, const char *a, ptrdiff_t sa, \
                     const char *b __attribute__((unused)), ptrdiff_t sb __attribute__((unused)))

/*
 * The body of a kernel that compares elements of type s by `call`, as minima and maxima do too.
 * NaN is a legal operand, but vector comparisons of some levels raise FE_INVALID for it, and all do
 * for a signaling one: so the flags are restored.
 */
#define QUIETLY(s, call) \
    const int flags = MYLIB_CLASS_##s < HALF ? 0 : mylib_test_flags(); \
    call; \
    if (MYLIB_CLASS_##s >= HALF) \
        mylib_restore_flags(flags);

/* ---- Loads and stores ---- */

/*
 * Loads and stores at any address; each compiles to one unaligned move.  Complex numbers are copied
 * part by part: gcc does not vectorize loops over copied structures.
 */
#define ACCESS_WHOLE(s) \
    static inline t_##s load_##s(const char *p) \
    { \
        t_##s x; \
        memcpy(&x, p, sizeof x); \
        return x; \
    } \
    static inline void store_##s(char *p, t_##s x) { memcpy(p, &x, sizeof x); }
#define ACCESS_PARTS(s) \
    static inline t_##s load_##s(const char *p) \
    { \
        t_##s x; \
        memcpy(&x.re, p, sizeof x.re); \
        memcpy(&x.im, p + sizeof x.re, sizeof x.im); \
        return x; \
    } \
    static inline void store_##s(char *p, t_##s x) \
    { \
        memcpy(p, &x.re, sizeof x.re); \
        memcpy(p + sizeof x.re, &x.im, sizeof x.im); \
    }
#define DT(s, S) BY_CLASS(s, ACCESS_WHOLE, ACCESS_WHOLE, ACCESS_WHOLE, ACCESS_PARTS)(s)
MYLIB_TYPES(DT)
#undef DT

/* ---- Packing ---- */

/* Packs every second element, or a row from its end, in vectors. */
#define PACK(s) \
    NOINLINE static void pack_##s(ptrdiff_t n, char *dst, const char *src, int is_reversed) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        if (is_reversed) \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                store_##s(dst + i * w, load_##s(src - i * w)); \
        else \
            NO_DEPENDENCE for (ptrdiff_t i = 0; i < n; i++) \
                store_##s(dst + i * w, load_##s(src + 2 * i * w)); \
    }
PACK(u8)
PACK(u16)
PACK(u32)
PACK(u64)

static void pack_strided(ptrdiff_t w, ptrdiff_t n, char *dst, const char *src, ptrdiff_t stride)
{
    const int is_reversed = stride == -w;
    if ((!is_reversed && stride != 2 * w) || w > 8)
        mylib_copy_strided((size_t)w, n, dst, w, src, stride);
    else if (w == 1)
        pack_u8(n, dst, src, is_reversed);
    else if (w == 2)
        pack_u16(n, dst, src, is_reversed);
    else if (w == 4)
        pack_u32(n, dst, src, is_reversed);
    else
        pack_u64(n, dst, src, is_reversed);
}
