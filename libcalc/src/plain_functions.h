/*
 * plain_functions.h - what each plain function of ops.h means for one element, once for the CPU and
 * for CUDA: op_s(a) or op_s(a, b), like arithmetic in scalar_ops.h.
 */
#pragma once

#include "scalar_ops.h"

/* ---- Integers ---- */

#define DEFINE_INTEGER_FUNCTIONS(s, T) \
    MYLIB_FN T floor_##s(T a) { return a; } \
    MYLIB_FN T ceil_##s(T a) { return a; } \
    MYLIB_FN T trunc_##s(T a) { return a; } \
    MYLIB_FN T positive_##s(T a) { return a; } \
    MYLIB_FN T conjugate_##s(T a) { return a; } \
    MYLIB_FN T real_##s(T a) { return a; } \
    MYLIB_FN T imag_##s(T a) { return (T)(a & 0); } \
    MYLIB_FN T reciprocal_##s(T a) { return divide_##s(1, a); } \
    MYLIB_FN T fmin_##s(T a, T b) { return minimum_##s(a, b); } \
    MYLIB_FN T fmax_##s(T a, T b) { return maximum_##s(a, b); } \
    MYLIB_FN int isnan_##s(T a) { return a != a; } \
    MYLIB_FN int isinf_##s(T a) { return a != a; } \
    MYLIB_FN int isfinite_##s(T a) { return a == a; } \
    MYLIB_FN T power_##s(T a, T b) \
    { \
        uint64_t power = 1, factor = (uint64_t)a; \
        for (uint64_t rest = (uint64_t)b; rest != 0; rest >>= 1, factor *= factor) \
            power *= rest & 1 ? factor : 1; \
        return (T)power; \
    }

/* Both x % 0 and MIN % -1 would trap on x86. */
#define DEFINE_SIGNED_FUNCTIONS(s, T) \
    DEFINE_INTEGER_FUNCTIONS(s, T) \
    MYLIB_FN T sign_##s(T a) { return (T)((a > 0) - (a < 0)); } \
    MYLIB_FN T fmod_##s(T a, T b) \
    { \
        if (b == 0) \
            RAISE_DIVBYZERO(); \
        return (T)(b == 0 || b == -1 ? 0 : a % b); \
    }

#define DEFINE_UNSIGNED_FUNCTIONS(s, T) \
    DEFINE_INTEGER_FUNCTIONS(s, T) \
    MYLIB_FN T sign_##s(T a) { return a != 0; } \
    MYLIB_FN T fmod_##s(T a, T b) { return remainder_##s(a, b); }

DEFINE_SIGNED_FUNCTIONS(i8, t_i8)
DEFINE_SIGNED_FUNCTIONS(i16, t_i16)
DEFINE_SIGNED_FUNCTIONS(i32, t_i32)
DEFINE_SIGNED_FUNCTIONS(i64, t_i64)
DEFINE_UNSIGNED_FUNCTIONS(u8, t_u8)
DEFINE_UNSIGNED_FUNCTIONS(u16, t_u16)
DEFINE_UNSIGNED_FUNCTIONS(u32, t_u32)
DEFINE_UNSIGNED_FUNCTIONS(u64, t_u64)

/* ---- Floats ---- */

/*
 * Computes the neighbour of a in the direction of b from their bits.  Floats are ordered like the
 * bits of their magnitudes, reversed if negative.  For equal zeros NumPy returns a in f16, else b.
 */
#define DEFINE_NEXTAFTER(s, U, S, INFINITE, equal) \
    MYLIB_FN U nextafter_bits_##s(U a, U b) \
    { \
        const U most = (U)((U) ~(U)0 >> 1), sign = (U)~most; \
        U x = (U)(a & most), y = (U)(b & most); \
        S p = (S)(a & sign ? 0 - x : x), q = (S)(b & sign ? 0 - y : y); \
        U next = (U)((p < q) == ((a & sign) == 0) ? a + 1 : a - 1); \
        U from_zero = (U)((b & sign) | 1); \
        U result = p == q ? equal : x == 0 ? from_zero : next; \
        return x > (INFINITE) ? a : y > (INFINITE) ? b : result; \
    }
DEFINE_NEXTAFTER(f16, uint16_t, int16_t, 0x7c00, a)
DEFINE_NEXTAFTER(f32, uint32_t, int32_t, 0x7f800000, b)
DEFINE_NEXTAFTER(f64, uint64_t, int64_t, 0x7ff0000000000000, b)

#define DEFINE_FLOAT_FUNCTIONS(s, T, f) \
    MYLIB_FN T rint_##s(T a) { return rint##f(a); } \
    MYLIB_FN T floor_##s(T a) { return floor##f(a); } \
    MYLIB_FN T ceil_##s(T a) { return ceil##f(a); } \
    MYLIB_FN T trunc_##s(T a) { return trunc##f(a); } \
    MYLIB_FN T sign_##s(T a) \
    { \
        return QUIET_LESS(0, a) ? 1 : QUIET_LESS(a, 0) ? -1 : a == 0 ? 0 : a; \
    } \
    MYLIB_FN int signbit_##s(T a) { return bits_of_##s(a) >> (8 * sizeof(T) - 1) != 0; } \
    MYLIB_FN T copysign_##s(T a, T b) { return copysign##f(a, b); } \
    MYLIB_FN T nextafter_##s(T a, T b) \
    { \
        return s##_of_bits(nextafter_bits_##s(bits_of_##s(a), bits_of_##s(b))); \
    } \
    MYLIB_FN T reciprocal_##s(T a) { return 1 / a; } \
    MYLIB_FN T positive_##s(T a) { return a; } \
    MYLIB_FN T fmin_##s(T a, T b) { return b != b || QUIET_LESS_EQUAL(a, b) ? a : b; } \
    MYLIB_FN T fmax_##s(T a, T b) { return b != b || QUIET_LESS_EQUAL(b, a) ? a : b; } \
    MYLIB_FN int isnan_##s(T a) { return a != a; } \
    MYLIB_FN int isinf_##s(T a) { return fabs##f(a) == INFINITY; } \
    MYLIB_FN int isfinite_##s(T a) { return QUIET_LESS(fabs##f(a), INFINITY); } \
    MYLIB_FN T conjugate_##s(T a) { return a; } \
    MYLIB_FN T real_##s(T a) { return a; } \
    MYLIB_FN T imag_##s(T a) \
    { \
        (void)a; \
        return 0; \
    }
DEFINE_FLOAT_FUNCTIONS(f32, t_f32, f)
DEFINE_FLOAT_FUNCTIONS(f64, t_f64, )

/* The CPU computes other functions of f16 with f32's kernels, between two conversions. */
MYLIB_FN t_f16 nextafter_f16(t_f16 a, t_f16 b)
{
    t_f16 result = {nextafter_bits_f16(a.bits, b.bits)};
    return result;
}
#ifdef __CUDACC__
DEFINE_HALF_UNARY(rint)
DEFINE_HALF_UNARY(floor)
DEFINE_HALF_UNARY(ceil)
DEFINE_HALF_UNARY(trunc)
DEFINE_HALF_UNARY(sign)
DEFINE_HALF_UNARY(reciprocal)
DEFINE_HALF_UNARY(positive)
DEFINE_HALF_UNARY(conjugate)
DEFINE_HALF_UNARY(real)
DEFINE_HALF_UNARY(imag)
/* A GPU's conversion loses the sign of a NaN. */
MYLIB_FN t_f16 copysign_f16(t_f16 a, t_f16 b)
{
    t_f16 result = {(uint16_t)((a.bits & 0x7fff) | (b.bits & 0x8000))};
    return result;
}
DEFINE_HALF_BINARY(fmod)
DEFINE_HALF_BINARY(fmin)
DEFINE_HALF_BINARY(fmax)
#define DEFINE_HALF_TEST(op) \
    MYLIB_FN int op##_f16(t_f16 a) { return op##_f32(f32_from_f16(a)); }
MYLIB_FN int signbit_f16(t_f16 a) { return a.bits >> 15; }
DEFINE_HALF_TEST(isnan)
DEFINE_HALF_TEST(isinf)
DEFINE_HALF_TEST(isfinite)
#endif

/* ---- Complex ---- */

/* Reciprocals use Smith's method, like quotients.  sign is z / |z|; infinite parts decide alone. */
#define DEFINE_COMPLEX_FUNCTIONS(s, C, T, r, f) \
    MYLIB_FN C rint_##s(C a) { return make_##s(rint_##r(a.re), rint_##r(a.im)); } \
    MYLIB_FN C positive_##s(C a) { return a; } \
    MYLIB_FN C conjugate_##s(C a) { return make_##s(a.re, -a.im); } \
    MYLIB_FN T real_##s(C a) { return a.re; } \
    MYLIB_FN T imag_##s(C a) { return a.im; } \
    MYLIB_FN int isnan_##s(C a) { return isnan_##r(a.re) | isnan_##r(a.im); } \
    MYLIB_FN int isinf_##s(C a) { return isinf_##r(a.re) | isinf_##r(a.im); } \
    MYLIB_FN int isfinite_##s(C a) { return isfinite_##r(a.re) & isfinite_##r(a.im); } \
    MYLIB_FN C fmin_##s(C a, C b) { return isnan_##s(b) || less_equal_##s(a, b) ? a : b; } \
    MYLIB_FN C fmax_##s(C a, C b) { return isnan_##s(b) || less_equal_##s(b, a) ? a : b; } \
    MYLIB_FN C reciprocal_##s(C a) \
    { \
        const int is_flat = QUIET_LESS_EQUAL(fabs##f(a.im), fabs##f(a.re)); \
        const T large = is_flat ? a.re : a.im, small = is_flat ? a.im : a.re; \
        const T ratio = small / large, whole = large + small * ratio; \
        const T one = 1 / whole, other = ratio / whole; \
        return make_##s(is_flat ? one : other, -(is_flat ? other : one)); \
    } \
    MYLIB_FN C sign_##s(C a) \
    { \
        T modulus = absolute_##s(a); \
        if (modulus != modulus) \
            return make_##s(modulus, modulus); \
        if (modulus == 0) \
            return make_##s(0, 0); \
        if (isinf_##r(a.re) && isinf_##r(a.im)) \
            return make_##s(NAN, NAN); \
        if (isinf_##r(a.re)) \
            return make_##s(copysign##f((T)1, a.re), 0); \
        if (isinf_##r(modulus)) \
            return make_##s(0, copysign##f((T)1, a.im)); \
        return make_apart_##s(a.re / modulus, a.im / modulus); \
    }
DEFINE_COMPLEX_FUNCTIONS(c64, t_c64, t_f32, f32, f)
DEFINE_COMPLEX_FUNCTIONS(c128, t_c128, t_f64, f64, )

/* ---- Scalars ---- */

/* exact_op(), as in scalar_ops.h, for the functions of i64. */
EXACT_VALUE(floor, a)
EXACT_VALUE(ceil, a)
EXACT_VALUE(trunc, a)
EXACT_VALUE(positive, a)
EXACT_VALUE(conjugate, a)
EXACT_VALUE(real, a)
EXACT_VALUE(imag, 0)
EXACT_VALUE(isnan, 0)
EXACT_VALUE(isinf, 0)
EXACT_VALUE(isfinite, 1)
EXACT_VALUE(sign, sign_i64(a))
EXACT_VALUE(fmin, minimum_i64(a, b))
EXACT_VALUE(fmax, maximum_i64(a, b))
EXACT(reciprocal)
{
    (void)b;
    return exact_divide(1, a, result_ret);
}
EXACT(power)
{
    if (b < 0)
        return MYLIB_ERR_DOMAIN;
    for (*result_ret = 1;; b /= 2) {
        if (b % 2 != 0 && exact_multiply(*result_ret, a, result_ret) != MYLIB_OK)
            return MYLIB_ERR_OVERFLOW;
        if (b < 2)
            return MYLIB_OK;
        if (exact_multiply(a, a, &a) != MYLIB_OK)
            return MYLIB_ERR_OVERFLOW;
    }
}
EXACT_DIVISION(fmod, 0)
