/*
 * division.h - divide, floor_divide and remainder of integers: op_division_s.
 *
 * Processors have no vector instruction for integer division.  Division by one number multiplies by
 * its reciprocal; division by an array goes through floats if they are exact enough.
 */
#pragma once

#include "cpu/variants.h"

/* ---- By one number ---- */

/*
 * The quotient by a single number d is the high half of a product with d's reciprocal, in lanes of
 * N bits.  Divisions in these formulas round down.
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
 * type.  To round down by a negative divisor, both signs are changed.  If x is then negative, its
 * complement is divided, and the quotient complemented.  x is then negative if both `flipped` (x or
 * ~x) and `moved` (x or -x) are: for 0 only ~x is negative, for MIN only -x, the magnitude 2^(N-1).
 */
#define DIVISIONS_OF_LANES(lanes, U, S, E, high_half) \
    static inline U divide_signed_##lanes(U x, divisor d) \
    { \
        U x_sign = (U)((S)x >> (8 * (int)sizeof(E) - 1)), sign = x_sign ^ (E)d.sign; \
        U size = high_half((U)((x ^ x_sign) - x_sign + 1), (E)d.multiplier) >> d.after; \
        return (U)((size ^ sign) - sign); \
    } \
    static inline U floor_divide_signed_##lanes(U x, divisor d) \
    { \
        U flipped = x ^ (E)d.sign, moved = (U)(flipped - (E)d.sign); \
        U sign = (U)((S)(flipped & moved) >> (8 * (int)sizeof(E) - 1)); \
        return sign ^ (U)(high_half((U)((moved ^ sign) + 1), (E)d.multiplier) >> d.after); \
    } \
    static inline U remainder_signed_##lanes(U x, divisor d) \
    { \
        return (U)(x - 1u * floor_divide_signed_##lanes(x, d) * (E)d.value); \
    } \
    static inline U divide_unsigned_##lanes(U x, divisor d) \
    { \
        U high = high_half(x, (E)d.multiplier); \
        return (U)(high + ((U)(x - high) >> d.before)) >> d.after; \
    } \
    static inline U floor_divide_unsigned_##lanes(U x, divisor d) \
    { \
        return divide_unsigned_##lanes(x, d); \
    } \
    static inline U remainder_unsigned_##lanes(U x, divisor d) \
    { \
        return (U)(x - 1u * divide_unsigned_##lanes(x, d) * (E)d.value); \
    }

static inline uint16_t high_half_u16(uint16_t x, uint16_t m)
{
    return (uint16_t)((uint32_t)x * m >> 16);
}
static inline uint32_t high_half_u32(uint32_t x, uint32_t m)
{
    return (uint32_t)((uint64_t)x * m >> 32);
}
static inline uint64_t high_half_u64(uint64_t x, uint64_t m)
{
    return (uint64_t)((u128)x * m >> 64);
}
DIVISIONS_OF_LANES(16, uint16_t, int16_t, uint16_t, high_half_u16)
DIVISIONS_OF_LANES(32, uint32_t, int32_t, uint32_t, high_half_u32)
DIVISIONS_OF_LANES(64, uint64_t, int64_t, uint64_t, high_half_u64)

/* Divide whole vectors, which compilers do not do well; return the number of elements done. */
#define DIVIDE_VECTORS_16(division, d, n, out, a) 0
#if !defined(__AVX2__)
#define DIVIDE_VECTORS_32(division, d, n, out, a) 0
#define DIVIDE_VECTORS_64(division, d, n, out, a) 0
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

/* Without the barrier gcc reloads x for each use; a load across cache lines costs two. */
#define DIVIDE_VECTORS(lanes, E) \
    static ALWAYS_INLINE ptrdiff_t divide_vectors_##lanes( \
        lanes (*division)(lanes, divisor), divisor d, ptrdiff_t n, char *out, const char *a) \
    { \
        const ptrdiff_t w = sizeof(E), per_vector = VECTOR_NBYTES / w; \
        ptrdiff_t i = 0; \
        for (; i + per_vector <= n; i += per_vector) { \
            lanes x; \
            memcpy(&x, a + i * w, sizeof x); \
            __asm__("" : "+x"(x)); \
            x = division(x, d); \
            memcpy(out + i * w, &x, sizeof x); \
        } \
        return i; \
    }
DIVIDE_VECTORS(v_u32, uint32_t)
DIVIDE_VECTORS(v_u64, uint64_t)
#define DIVIDE_VECTORS_32(division, d, n, out, a) \
    divide_vectors_v_u32(division##_v_u32, d, n, out, a)
#define DIVIDE_VECTORS_64(division, d, n, out, a) \
    divide_vectors_v_u64(division##_v_u64, d, n, out, a)
#undef VECTOR_NBYTES
#endif

/*
 * out and a are contiguous.  8-bit types use lanes of 16 bits, so that the signed form fits all
 * magnitudes.  Not inlined, so that scripts/check_vectorized.py sees each form.
 */
#define BY_NUMBER(op, s, form, bits) \
    NOINLINE KERNEL(op##_by_number_##s) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        const divisor d = divisor_##form(bits, load_##s(b)); \
        ptrdiff_t i = DIVIDE_VECTORS_##bits(op##_##form, d, n, out, a); \
        (void)so, (void)sa; \
        NO_DEPENDENCE for (; i < n; i++) \
            store_##s(out + i * w, (t_##s)op##_##form##_##bits(load_##s(a + i * w), d)); \
    }

/* ---- By an array ---- */

#define DIVISION_BLOCK 256

/*
 * 8-bit and 16-bit integers are divided as f32, 32-bit ones as f64, and the quotient is truncated:
 * a / b differs from the next integer above by at least 1 / b, which is more than the rounding
 * error. A block with x / 0 or MIN / -1 goes through the plain kernel, which raises the flags.  MIN
 * is 0 for unsigned types, whose quotients cannot overflow.
 *
 * W holds a - q * b, for the truncated quotient q.  If that remainder and b have different signs,
 * floor_divide and remainder move by one step, without a branch to mispredict.
 */
#define HAS_OTHER_SIGN(r, b) (((r) != 0) & (((r) < 1) != ((b) < 1)))
#define ARRAY_LOOPS(s, W, F, MIN) \
    static ALWAYS_INLINE t_##s step_from_truncated_##s(mylib_op op, W a, W b, W q) \
    { \
        if (op == MYLIB_OP_divide) \
            return (t_##s)q; \
        if (op == MYLIB_OP_floor_divide) \
            return (t_##s)(q - (W)HAS_OTHER_SIGN(a - q * b, b)); \
        return (t_##s)(a - q * b + ((0 - (W)HAS_OTHER_SIGN(a - q * b, b)) & b)); \
    } \
    static ALWAYS_INLINE void array_loops_##s(mylib_op op, mylib_kernel *plain, ptrdiff_t n, \
                                              char *out, const char *a, ptrdiff_t sa, \
                                              const char *b) \
    { \
        const ptrdiff_t w = sizeof(t_##s); \
        t_##s repeated[DIVISION_BLOCK]; \
        for (ptrdiff_t i = 0; i < DIVISION_BLOCK && i < n && sa == 0; i++) \
            repeated[i] = load_##s(a); \
        for (; n > 0; n -= DIVISION_BLOCK) { \
            ptrdiff_t m = n < DIVISION_BLOCK ? n : DIVISION_BLOCK; \
            const char *x = sa == 0 ? (const char *)repeated : a; \
            t_##s special = 0; \
            for (ptrdiff_t i = 0; i < m; i++) { \
                t_##s xi = load_##s(x + i * w), yi = load_##s(b + i * w); \
                special |= (t_##s)((yi == 0) | ((MIN < 0) & (xi == MIN) & (yi == (t_##s) - 1))); \
            } \
            if (special) { \
                plain(m, out, w, x, w, b, w); \
            } else { \
                NO_DEPENDENCE for (ptrdiff_t i = 0; i < m; i++) \
                { \
                    W xi = load_##s(x + i * w), yi = load_##s(b + i * w); \
                    W q = (W)((F)xi / (F)yi); \
                    store_##s(out + i * w, step_from_truncated_##s(op, xi, yi, q)); \
                } \
            } \
            out += m * w; \
            a += m * sa; \
            b += m * w; \
        } \
    }
ARRAY_LOOPS(i8, int32_t, float, INT8_MIN)
ARRAY_LOOPS(i16, int32_t, float, INT16_MIN)
ARRAY_LOOPS(i32, int32_t, double, INT32_MIN)
ARRAY_LOOPS(u8, int32_t, float, 0)
ARRAY_LOOPS(u16, int32_t, float, 0)
ARRAY_LOOPS(u32, uint32_t, double, 0)

#define BY_ARRAY(op, s) \
    NOINLINE KERNEL(op##_by_array_##s) \
    { \
        (void)so, (void)sb; \
        array_loops_##s(MYLIB_OP_##op, op##_kernel_##s, n, out, a, sa, b); \
    }

/* ---- Choice ---- */

/*
 * An output of stride 0 may be the divisor itself, which must then be read each time.  Short rows
 * do not pay for a reciprocal or for packing.  by_array is NULL if the plain kernel is best.
 */
static ALWAYS_INLINE void choose_division(mylib_kernel *plain, mylib_kernel *by_number,
                                          mylib_kernel *by_array, ptrdiff_t w, int is_special,
                                          ptrdiff_t n, char *out, ptrdiff_t so, const char *a,
                                          ptrdiff_t sa, const char *b, ptrdiff_t sb)
{
    int is_strided = so != w || (sa != w && sa != 0) || (sb != w && sb != 0);
    if (n < (is_strided ? 64 : 8) || so == 0 || (sb == 0 && (sa == 0 || is_special)))
        plain(n, out, so, a, sa, b, sb);
    else if (sb == 0 || by_array != NULL) /* one call: clang inlines it, with 12 KB of stack */
        packed_kernel(sb == 0 ? by_number : by_array, 8, 1, w, w, n, out, so, a, sa, b, sb);
    else
        plain(n, out, so, a, sa, b, sb);
}

#define DIVISION_KERNEL(op, s, by_array) \
    KERNEL(op##_division_##s) \
    { \
        const t_##s y = load_##s(b); \
        int is_special = y == 0 || (MYLIB_CLASS_##s == SIGNED && y == (t_##s) - 1); \
        choose_division(op##_kernel_##s, op##_by_number_##s, by_array, sizeof(t_##s), is_special, \
                        n, out, so, a, sa, b, sb); \
    }
#define DIVISION_OF(op, s, form, bits) \
    BY_NUMBER(op, s, form, bits) \
    BY_ARRAY(op, s) \
    DIVISION_KERNEL(op, s, op##_by_array_##s)
#define DIVISION_OF_64_BITS(op, s, form) \
    BY_NUMBER(op, s, form, 64) \
    DIVISION_KERNEL(op, s, NULL)
#define DIVISION(op) \
    DIVISION_OF(op, i8, signed, 16) \
    DIVISION_OF(op, i16, signed, 16) \
    DIVISION_OF(op, i32, signed, 32) \
    DIVISION_OF_64_BITS(op, i64, signed) \
    DIVISION_OF(op, u8, signed, 16) \
    DIVISION_OF(op, u16, unsigned, 16) \
    DIVISION_OF(op, u32, unsigned, 32) \
    DIVISION_OF_64_BITS(op, u64, unsigned)
DIVISION(divide)
DIVISION(floor_divide)
DIVISION(remainder)
#undef DIVISION
