/*
 * scalar_ops.h - what each operation of ops.h means for one element, once for the CPU and for CUDA.
 *
 * For each operation and type suffix s of its row this file defines op_s(a, b) or op_s(a): one line
 * for each class of type (integers, floats, half, complex).  Results are NumPy's, to the bit,
 * except that `divide` on integers is C's.
 *
 * Comparisons that may meet a NaN are the quiet ones, so that only an invalid operation raises
 * FE_INVALID.
 */
#pragma once

#include "bits.h"
#include "modulus.h"
#include "mylib.h"
#include "ops.h"
#include "types.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define QUIET_LESS(a, b) ((a) < (b))
#define QUIET_LESS_EQUAL(a, b) ((a) <= (b))
#define QUIET_UNORDERED(a, b) ((a) != (a) || (b) != (b))
/* A GPU has no floating-point flags. */
#define RAISE_DIVBYZERO() ((void)0)
#define RAISE_OVERFLOW() ((void)0)
#else
#include <math.h>

#include "flags.h"
#define QUIET_LESS(a, b) isless(a, b)
#define QUIET_LESS_EQUAL(a, b) islessequal(a, b)
#define QUIET_UNORDERED(a, b) isunordered(a, b)
#define RAISE_DIVBYZERO() mylib_raise_flags(FE_DIVBYZERO)
#define RAISE_OVERFLOW() mylib_raise_flags(FE_OVERFLOW)
#endif

/*
 * The build tells clang that floating-point exceptions matter (CMakeLists.txt), so it vectorizes no
 * floats.  Between these two macros it may: for code that does not choose between such operations.
 */
#if defined(__clang__) && __clang_major__ >= 12 && !defined(__CUDACC__)
#define BEGIN_WITHOUT_CHOICES _Pragma("float_control(push)") _Pragma("float_control(except, off)")
#define END_WITHOUT_CHOICES _Pragma("float_control(pop)")
#else
#define BEGIN_WITHOUT_CHOICES
#define END_WITHOUT_CHOICES
#endif

/* ---- Logic ---- */

/* Results are 0 or 1.  IS_TRUE tells whether an element of a type differs from 0. */
#define DEFINE_TRUTHS(s, T, IS_TRUE) \
    MYLIB_FN int logical_and_##s(T a, T b) { return IS_TRUE(a) & IS_TRUE(b); } \
    MYLIB_FN int logical_or_##s(T a, T b) { return IS_TRUE(a) | IS_TRUE(b); } \
    MYLIB_FN int logical_xor_##s(T a, T b) { return IS_TRUE(a) ^ IS_TRUE(b); } \
    MYLIB_FN int logical_not_##s(T a) { return !IS_TRUE(a); }
#define IS_TRUE_NUMBER(a) ((a) != 0)
#define IS_TRUE_HALF(a) (((a).bits & 0x7fff) != 0)
#define IS_TRUE_COMPLEX(a) (((a).re != 0) | ((a).im != 0))
#define IS_TRUE_BOOL(a) ((a).value != 0)
BEGIN_WITHOUT_CHOICES
DEFINE_TRUTHS(f32, t_f32, IS_TRUE_NUMBER)
DEFINE_TRUTHS(f64, t_f64, IS_TRUE_NUMBER)
DEFINE_TRUTHS(c64, t_c64, IS_TRUE_COMPLEX)
DEFINE_TRUTHS(c128, t_c128, IS_TRUE_COMPLEX)
END_WITHOUT_CHOICES
#ifdef __CUDACC__ /* the CPU uses f32's kernels for f16, and u8's for bool */
DEFINE_TRUTHS(f16, t_f16, IS_TRUE_HALF)
DEFINE_TRUTHS(bool, t_bool, IS_TRUE_BOOL)
#endif

/* ---- Integers ---- */

/*
 * Arithmetic uses the unsigned type U and wraps; 1u * keeps types narrower than int from being
 * promoted to a signed int that could overflow.
 */
#define DEFINE_INTEGER(s, T, U) \
    MYLIB_FN T add_##s(T a, T b) { return (T)(1u * (U)a + (U)b); } \
    MYLIB_FN T subtract_##s(T a, T b) { return (T)(1u * (U)a - (U)b); } \
    MYLIB_FN T multiply_##s(T a, T b) { return (T)(1u * (U)a * (U)b); } \
    MYLIB_FN T minimum_##s(T a, T b) { return a < b ? a : b; } \
    MYLIB_FN T maximum_##s(T a, T b) { return a > b ? a : b; } \
    MYLIB_FN T negative_##s(T a) { return (T)(0u - 1u * (U)a); } \
    MYLIB_FN T square_##s(T a) { return (T)(1u * (U)a * (U)a); } \
    MYLIB_FN int equal_##s(T a, T b) { return a == b; } \
    MYLIB_FN int not_equal_##s(T a, T b) { return a != b; } \
    MYLIB_FN int less_##s(T a, T b) { return a < b; } \
    MYLIB_FN int less_equal_##s(T a, T b) { return a <= b; } \
    MYLIB_FN T bitwise_and_##s(T a, T b) { return (T)((U)a & (U)b); } \
    MYLIB_FN T bitwise_or_##s(T a, T b) { return (T)((U)a | (U)b); } \
    MYLIB_FN T bitwise_xor_##s(T a, T b) { return (T)((U)a ^ (U)b); } \
    MYLIB_FN T invert_##s(T a) { return (T) ~(U)a; } \
    MYLIB_FN T left_shift_##s(T a, T b) \
    { \
        return (T)((U)b < 8 * sizeof(T) ? 1u * (U)a << ((U)b % (8 * sizeof(T))) : 0u); \
    } \
    DEFINE_TRUTHS(s, T, IS_TRUE_NUMBER)

/* Both x / 0 and MIN / -1 would trap on x86, and are undefined in C and on a GPU. */
#define DEFINE_SIGNED(s, T, U, MIN) \
    DEFINE_INTEGER(s, T, U) \
    MYLIB_FN T absolute_##s(T a) { return a < 0 ? negative_##s(a) : a; } \
    /* Shifts in copies of the sign bit; counts that are too large leave only those. */ \
    MYLIB_FN T right_shift_##s(T a, T b) \
    { \
        return (T)(a >> ((U)b < 8 * sizeof(T) ? (U)b : 8 * sizeof(T) - 1)); \
    } \
    MYLIB_FN T divide_##s(T a, T b) \
    { \
        if (b == 0) { \
            RAISE_DIVBYZERO(); \
            return 0; \
        } \
        if (b == -1) { \
            if (a == MIN) \
                RAISE_OVERFLOW(); \
            return negative_##s(a); \
        } \
        return (T)(a / b); \
    } \
    MYLIB_FN T remainder_##s(T a, T b) \
    { \
        if (b == 0) { \
            RAISE_DIVBYZERO(); \
            return 0; \
        } \
        T r = (T)(b == -1 ? 0 : a % b); \
        return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r); \
    } \
    MYLIB_FN T floor_divide_##s(T a, T b) \
    { \
        T q = divide_##s(a, b); \
        return (T)((a < 0) != (b < 0) && b != 0 && (T)(1u * (U)q * (U)b) != a ? q - 1 : q); \
    }

#define DEFINE_UNSIGNED(s, T) \
    DEFINE_INTEGER(s, T, T) \
    MYLIB_FN T absolute_##s(T a) { return a; } \
    MYLIB_FN T right_shift_##s(T a, T b) \
    { \
        return (T)(b < 8 * sizeof(T) ? a >> (b % (8 * sizeof(T))) : 0); \
    } \
    MYLIB_FN T divide_##s(T a, T b) \
    { \
        if (b == 0) { \
            RAISE_DIVBYZERO(); \
            return 0; \
        } \
        return (T)(a / b); \
    } \
    MYLIB_FN T remainder_##s(T a, T b) \
    { \
        if (b == 0) { \
            RAISE_DIVBYZERO(); \
            return 0; \
        } \
        return (T)(a % b); \
    } \
    MYLIB_FN T floor_divide_##s(T a, T b) { return divide_##s(a, b); }

DEFINE_SIGNED(i8, t_i8, t_u8, INT8_MIN)
DEFINE_SIGNED(i16, t_i16, t_u16, INT16_MIN)
DEFINE_SIGNED(i32, t_i32, t_u32, INT32_MIN)
DEFINE_SIGNED(i64, t_i64, t_u64, INT64_MIN)
DEFINE_UNSIGNED(u8, t_u8)
DEFINE_UNSIGNED(u16, t_u16)
DEFINE_UNSIGNED(u32, t_u32)
DEFINE_UNSIGNED(u64, t_u64)

/* ---- f32 and f64 ---- */

/*
 * Remainder and quotient follow Python's for floats (CPython's float_divmod, as in NumPy): the
 * remainder is fmod's, moved to the sign of b; the quotient is the integer nearest to (a -
 * remainder) / b.  The remainder avoids a division, which might overflow.
 *
 * Plain arithmetic raises the flag for an invalid fmod: some C libraries raise it only where
 * <fenv.h> looks, some not at all.
 */
#define DEFINE_FLOAT(s, T, f) \
    MYLIB_FN T add_##s(T a, T b) { return a + b; } \
    MYLIB_FN T subtract_##s(T a, T b) { return a - b; } \
    MYLIB_FN T multiply_##s(T a, T b) { return a * b; } \
    MYLIB_FN T divide_##s(T a, T b) { return a / b; } \
    MYLIB_FN T minimum_##s(T a, T b) { return a != a || QUIET_LESS(a, b) ? a : b; } \
    MYLIB_FN T maximum_##s(T a, T b) { return a != a || QUIET_LESS(b, a) ? a : b; } \
    MYLIB_FN T negative_##s(T a) { return -a; } \
    MYLIB_FN T absolute_##s(T a) { return fabs##f(a); } \
    MYLIB_FN T square_##s(T a) { return a * a; } \
    MYLIB_FN T sqrt_##s(T a) { return sqrt##f(a); } \
    MYLIB_FN int equal_##s(T a, T b) { return a == b; } \
    MYLIB_FN int not_equal_##s(T a, T b) { return a != b; } \
    MYLIB_FN int less_##s(T a, T b) { return QUIET_LESS(a, b); } \
    MYLIB_FN int less_equal_##s(T a, T b) { return QUIET_LESS_EQUAL(a, b); }

#define DEFINE_FLOAT_QUOTIENT(s, T, f) \
    MYLIB_FN T fmod_##s(T a, T b) \
    { \
        return b == 0 || fabs##f(a) == INFINITY ? (a * b) / (a * b) : fmod##f(a, b); \
    } \
    MYLIB_FN T remainder_##s(T a, T b) \
    { \
        T mod = fmod_##s(a, b); \
        if (mod == 0) \
            return copysign##f((T)0, b); \
        return QUIET_LESS(b, 0) != QUIET_LESS(mod, 0) ? mod + b : mod; \
    } \
    MYLIB_FN T floor_divide_##s(T a, T b) \
    { \
        if (b == 0) \
            return a / b; \
        T mod = fmod_##s(a, b); \
        T div = (a - mod) / b; \
        if (mod != 0 && QUIET_LESS(b, 0) != QUIET_LESS(mod, 0)) \
            div -= 1; \
        if (div == 0) \
            return copysign##f((T)0, a / b); \
        T rounded = floor##f(div); \
        return QUIET_LESS((T)0.5, div - rounded) ? rounded + 1 : rounded; \
    }

BEGIN_WITHOUT_CHOICES
DEFINE_FLOAT(f32, t_f32, f)
DEFINE_FLOAT(f64, t_f64, )
END_WITHOUT_CHOICES
DEFINE_FLOAT_QUOTIENT(f32, t_f32, f)
DEFINE_FLOAT_QUOTIENT(f64, t_f64, )

/* ---- f16: computed in f32 and rounded once, to nearest, ties to even ---- */

/* Only CUDA needs operations on a single f16: the CPU converts whole blocks to f32. */
#ifdef __CUDACC__
MYLIB_FN float f32_from_f16(t_f16 h) { return __half2float(__ushort_as_half(h.bits)); }
MYLIB_FN t_f16 f16_from_f32(float x)
{
    t_f16 h = {__half_as_ushort(__float2half_rn(x))};
    return h;
}
#define DEFINE_HALF_BINARY(op) \
    MYLIB_FN t_f16 op##_f16(t_f16 a, t_f16 b) \
    { \
        return f16_from_f32(op##_f32(f32_from_f16(a), f32_from_f16(b))); \
    }
#define DEFINE_HALF_UNARY(op) \
    MYLIB_FN t_f16 op##_f16(t_f16 a) { return f16_from_f32(op##_f32(f32_from_f16(a))); }
#define DEFINE_HALF_COMPARE(op) \
    MYLIB_FN int op##_f16(t_f16 a, t_f16 b) { return op##_f32(f32_from_f16(a), f32_from_f16(b)); }

DEFINE_HALF_BINARY(add)
DEFINE_HALF_BINARY(subtract)
DEFINE_HALF_BINARY(multiply)
DEFINE_HALF_BINARY(divide)
DEFINE_HALF_BINARY(floor_divide)
DEFINE_HALF_BINARY(remainder)
DEFINE_HALF_BINARY(minimum)
DEFINE_HALF_BINARY(maximum)
DEFINE_HALF_UNARY(negative)
DEFINE_HALF_UNARY(absolute)
DEFINE_HALF_UNARY(square)
DEFINE_HALF_UNARY(sqrt)
DEFINE_HALF_COMPARE(equal)
DEFINE_HALF_COMPARE(not_equal)
DEFINE_HALF_COMPARE(less)
DEFINE_HALF_COMPARE(less_equal)
#endif

/* ---- Conversions of floats to integers ---- */

/*
 * Truncates a float; values out of range become the nearest integer of the type, NaN the lowest.
 * TOP is the largest float that fits.  It vectorizes, as no branch avoids the conversion.
 */
#define DEFINE_TRUNCATE(s, r, MIN, TOP, MAX) \
    MYLIB_FN t_##s s##_from_##r(t_##r x) \
    { \
        t_##r low = x > (t_##r)(MIN) ? x : (t_##r)(MIN); \
        t_##r within = low < (t_##r)(TOP) ? low : (t_##r)(TOP); \
        t_##s truncated = (t_##s)within; \
        return (t_##s)(TOP) == (MAX) || !(x > (t_##r)(TOP)) ? truncated : (MAX); \
    }

DEFINE_TRUNCATE(i8, f32, INT8_MIN, INT8_MAX, INT8_MAX)
DEFINE_TRUNCATE(i16, f32, INT16_MIN, INT16_MAX, INT16_MAX)
DEFINE_TRUNCATE(i32, f32, INT32_MIN, 0x1.fffffep30, INT32_MAX)
DEFINE_TRUNCATE(i64, f32, INT64_MIN, 0x1.fffffep62, INT64_MAX)
DEFINE_TRUNCATE(u8, f32, 0, UINT8_MAX, UINT8_MAX)
DEFINE_TRUNCATE(u16, f32, 0, UINT16_MAX, UINT16_MAX)
DEFINE_TRUNCATE(u32, f32, 0, 0x1.fffffep31, UINT32_MAX)
DEFINE_TRUNCATE(u64, f32, 0, 0x1.fffffep63, UINT64_MAX)
DEFINE_TRUNCATE(i8, f64, INT8_MIN, INT8_MAX, INT8_MAX)
DEFINE_TRUNCATE(i16, f64, INT16_MIN, INT16_MAX, INT16_MAX)
DEFINE_TRUNCATE(i32, f64, INT32_MIN, INT32_MAX, INT32_MAX)
DEFINE_TRUNCATE(i64, f64, INT64_MIN, 0x1.fffffffffffffp62, INT64_MAX)
DEFINE_TRUNCATE(u8, f64, 0, UINT8_MAX, UINT8_MAX)
DEFINE_TRUNCATE(u16, f64, 0, UINT16_MAX, UINT16_MAX)
DEFINE_TRUNCATE(u32, f64, 0, UINT32_MAX, UINT32_MAX)
DEFINE_TRUNCATE(u64, f64, 0, 0x1.fffffffffffffp63, UINT64_MAX)

/* ---- Complex ---- */

/* f64 has range enough for the plain formula. */
MYLIB_FN float modulus_f32(float x, float y)
{
    double dx = x, dy = y;
    uint32_t is_infinite = 0 - (uint32_t)((fabsf(x) == INFINITY) | (fabsf(y) == INFINITY));
    uint32_t bits = bits_of_f32((float)sqrt(dx * dx + dy * dy));
    return f32_of_bits((bits & ~is_infinite) | (0x7f800000 & is_infinite));
}

/*
 * Returns the principal square root: t = sqrt((|x| + |z|) / 2) is the larger part, y / 2t the
 * other. Infinite and NaN parts follow C's Annex G.6.4.2.  f64 is scaled by a power of 4 so that
 * |x| + |z| does not overflow and subnormals lose no bits.
 */
MYLIB_FN t_c128 csqrt_f64(double x, double y)
{
    t_c128 z = {x, y};
    if (x == 0 && y == 0) {
        z.re = 0;
        return z;
    }
    if (fabs(y) == INFINITY) {
        z.re = INFINITY;
        return z;
    }
    if (x != x) {
        z.im = y != y ? y : x;
        return z;
    }
    if (fabs(x) == INFINITY) {
        double other = y != y ? y : 0;
        if (x > 0) {
            z.im = y != y ? y : copysign(0.0, y);
        } else {
            z.re = fabs(other);
            z.im = copysign(INFINITY, y);
        }
        return z;
    }
    if (y != y) {
        z.re = y;
        return z;
    }
    double scale = 1;
    if (fabs(x) >= 0x1p1021 || fabs(y) >= 0x1p1021) {
        x *= 0.25;
        y *= 0.25;
        scale = 2;
    } else if (fabs(x) < 0x1p-960 && fabs(y) < 0x1p-960) {
        x *= 0x1p108;
        y *= 0x1p108;
        scale = 0x1p-54;
    }
    double t = sqrt((fabs(x) + modulus_f64(x, y)) * 0.5);
    if (x >= 0) {
        z.re = t * scale;
        z.im = y / (2 * t) * scale;
    } else {
        z.re = fabs(y) / (2 * t) * scale;
        z.im = copysign(t, y) * scale;
    }
    return z;
}
MYLIB_FN t_c64 csqrt_f32(float x, float y)
{
    t_c128 z = csqrt_f64(x, y);
    t_c64 result = {(float)z.re, (float)z.im};
    return result;
}

/*
 * Keeps compilers from computing the two parts of a product or quotient as one vector.  With fused
 * multiply-adds (level v4, or -mavx512f) gcc would use them there even when told not to contract,
 * and it would raise flags of unused lanes, as clang does at every level.  An empty asm stops both.
 */
#if !defined(__CUDACC__) && defined(__x86_64__) && (defined(__clang__) || defined(__FP_FAST_FMA))
#define KEEP_APART(re, im) __asm__("" : "+x"(re), "+x"(im))
#else
#define KEEP_APART(re, im) ((void)0)
#endif

/*
 * The quotient is Smith's (Communications of the ACM 5, 1962), as in NumPy.  Numbers are ordered by
 * real part, then by imaginary part.  A minimum or maximum with a NaN in either part is that
 * operand; every comparison with it is false, except not_equal.
 */
#define DEFINE_COMPLEX(s, C, T, r, f) \
    MYLIB_FN C make_##s(T re, T im) \
    { \
        C z = {re, im}; \
        return z; \
    } \
    MYLIB_FN C make_apart_##s(T re, T im) \
    { \
        KEEP_APART(re, im); \
        return make_##s(re, im); \
    } \
    MYLIB_FN C add_##s(C a, C b) { return make_##s(a.re + b.re, a.im + b.im); } \
    MYLIB_FN C subtract_##s(C a, C b) { return make_##s(a.re - b.re, a.im - b.im); } \
    MYLIB_FN C multiply_##s(C a, C b) \
    { \
        return make_apart_##s(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); \
    } \
    MYLIB_FN C divide_##s(C a, C b) \
    { \
        T br = fabs##f(b.re), bi = fabs##f(b.im); \
        if (QUIET_LESS_EQUAL(bi, br)) { \
            if (br == 0) \
                return make_##s(a.re / br, a.im / br); \
            T ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio); \
            return make_apart_##s((a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale); \
        } \
        T ratio = b.re / b.im, scale = 1 / (b.im + b.re * ratio); \
        return make_apart_##s((a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale); \
    } \
    MYLIB_FN int equal_##s(C a, C b) { return (a.re == b.re) & (a.im == b.im); } \
    MYLIB_FN int not_equal_##s(C a, C b) { return (a.re != b.re) | (a.im != b.im); } \
    MYLIB_FN int less_##s(C a, C b) \
    { \
        return (QUIET_LESS(a.re, b.re) & !QUIET_UNORDERED(a.im, b.im)) | \
               ((a.re == b.re) & QUIET_LESS(a.im, b.im)); \
    } \
    MYLIB_FN int less_equal_##s(C a, C b) \
    { \
        return (QUIET_LESS(a.re, b.re) & !QUIET_UNORDERED(a.im, b.im)) | \
               ((a.re == b.re) & QUIET_LESS_EQUAL(a.im, b.im)); \
    } \
    MYLIB_FN C minimum_##s(C a, C b) \
    { \
        return a.re != a.re || a.im != a.im || less_equal_##s(a, b) ? a : b; \
    } \
    MYLIB_FN C maximum_##s(C a, C b) \
    { \
        return a.re != a.re || a.im != a.im || less_equal_##s(b, a) ? a : b; \
    } \
    MYLIB_FN C negative_##s(C a) { return make_##s(-a.re, -a.im); } \
    MYLIB_FN T absolute_##s(C a) { return modulus_##r(a.re, a.im); } \
    MYLIB_FN C square_##s(C a) { return multiply_##s(a, a); } \
    MYLIB_FN C sqrt_##s(C a) { return csqrt_##r(a.re, a.im); }

DEFINE_COMPLEX(c64, t_c64, t_f32, f32, f)
DEFINE_COMPLEX(c128, t_c128, t_f64, f64, )

/* ---- Ranges ---- */

/* Returns element i of mylib_arange(); for f16 an f32 to be rounded. */
#define DEFINE_RANGE_INTEGER(op, s) \
    MYLIB_FN t_##s range_##s(t_##s start, t_##s step, int64_t i) \
    { \
        return (t_##s)((uint64_t)start + (uint64_t)i * (uint64_t)step); \
    }
#define DEFINE_RANGE_FLOAT(s) \
    MYLIB_FN t_##s range_##s(t_##s start, t_##s step, int64_t i) \
    { \
        return i == 0 ? start : start + (t_##s)i * step; /* keeps the sign of -0 */ \
    }
#define DEFINE_RANGE_COMPLEX(s, r) \
    MYLIB_FN t_##s range_##s(t_##s start, t_##s step, int64_t i) \
    { \
        return make_##s(range_##r(start.re, step.re, i), range_##r(start.im, step.im, i)); \
    }
MYLIB_SET_INT(DEFINE_RANGE_INTEGER, )
DEFINE_RANGE_FLOAT(f32)
DEFINE_RANGE_FLOAT(f64)
DEFINE_RANGE_COMPLEX(c64, f32)
DEFINE_RANGE_COMPLEX(c128, f64)

/* ---- Scalars: exact, or an error ---- */

/*
 * Defines exact_op(a, b, &result) for each operation of i64: stores the true result, or returns the
 * status that says why it has none.  Unary operations ignore b.
 */
#define EXACT(op) MYLIB_FN mylib_status exact_##op(t_i64 a, t_i64 b, t_i64 *result_ret)

EXACT(add)
{
    *result_ret = add_i64(a, b);
    return (b < 0) == (*result_ret < a) ? MYLIB_OK : MYLIB_ERR_OVERFLOW;
}
EXACT(subtract)
{
    *result_ret = subtract_i64(a, b);
    return (b > 0) == (*result_ret < a) ? MYLIB_OK : MYLIB_ERR_OVERFLOW;
}
EXACT(multiply)
{
    *result_ret = multiply_i64(a, b);
    if (a == 0 || b == 0)
        return MYLIB_OK;
    if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN))
        return MYLIB_ERR_OVERFLOW;
    return *result_ret / b == a ? MYLIB_OK : MYLIB_ERR_OVERFLOW;
}
#define EXACT_DIVISION(op, can_overflow) \
    EXACT(op) \
    { \
        if (b == 0) \
            return MYLIB_ERR_ZERO_DIVIDE; \
        if ((can_overflow) && a == INT64_MIN && b == -1) \
            return MYLIB_ERR_OVERFLOW; \
        *result_ret = op##_i64(a, b); \
        return MYLIB_OK; \
    }
EXACT_DIVISION(divide, 1)
EXACT_DIVISION(floor_divide, 1)
EXACT_DIVISION(remainder, 0)
EXACT(negative)
{
    (void)b;
    *result_ret = negative_i64(a);
    return a == INT64_MIN ? MYLIB_ERR_OVERFLOW : MYLIB_OK;
}
EXACT(absolute)
{
    (void)b;
    *result_ret = absolute_i64(a);
    return a == INT64_MIN ? MYLIB_ERR_OVERFLOW : MYLIB_OK;
}
EXACT(square)
{
    (void)b;
    return exact_multiply(a, a, result_ret);
}

#define EXACT_VALUE(op, value) \
    EXACT(op) \
    { \
        (void)a, (void)b; \
        *result_ret = (value); \
        return MYLIB_OK; \
    }
EXACT_VALUE(minimum, minimum_i64(a, b))
EXACT_VALUE(maximum, maximum_i64(a, b))
EXACT_VALUE(equal, equal_i64(a, b))
EXACT_VALUE(not_equal, not_equal_i64(a, b))
EXACT_VALUE(less, less_i64(a, b))
EXACT_VALUE(less_equal, less_equal_i64(a, b))
EXACT_VALUE(greater, less_i64(b, a))
EXACT_VALUE(greater_equal, less_equal_i64(b, a))
EXACT_VALUE(logical_and, logical_and_i64(a, b))
EXACT_VALUE(logical_or, logical_or_i64(a, b))
EXACT_VALUE(logical_xor, logical_xor_i64(a, b))
EXACT_VALUE(logical_not, logical_not_i64(a))
EXACT_VALUE(bitwise_and, bitwise_and_i64(a, b))
EXACT_VALUE(bitwise_or, bitwise_or_i64(a, b))
EXACT_VALUE(bitwise_xor, bitwise_xor_i64(a, b))
EXACT_VALUE(invert, invert_i64(a))
EXACT(left_shift)
{
    if (b < 0)
        return MYLIB_ERR_DOMAIN;
    *result_ret = left_shift_i64(a, b);
    return a == 0 || (b < 64 && right_shift_i64(*result_ret, b) == a) ? MYLIB_OK
                                                                      : MYLIB_ERR_OVERFLOW;
}
EXACT(right_shift)
{
    if (b < 0)
        return MYLIB_ERR_DOMAIN;
    *result_ret = right_shift_i64(a, b);
    return MYLIB_OK;
}

/* Refuses operands for which the element-wise operation gives NaN or infinity. */
MYLIB_FN mylib_status scalar_domain(mylib_op op, int divisor_is_zero, int operand_is_negative)
{
    switch (op) {
    case MYLIB_OP_divide:
    case MYLIB_OP_floor_divide:
    case MYLIB_OP_remainder:
    case MYLIB_OP_reciprocal:
        return divisor_is_zero ? MYLIB_ERR_ZERO_DIVIDE : MYLIB_OK;
    case MYLIB_OP_sqrt:
        return operand_is_negative ? MYLIB_ERR_DOMAIN : MYLIB_OK;
    default:
        return MYLIB_OK;
    }
}
