/*
 * numbers.h - what the elementary functions are made of: fused multiply-add, sums and products with
 * their errors, numbers of twice the precision, powers of 2, roundings.
 *
 * Everything here but quotient_near() gives the same bits on every processor, if rounding is to
 * nearest and the compiler neither contracts nor reassociates.  Choices are selections, so that
 * loops become vector code; only fma_emulated() branches, for far exponents.
 */
#pragma once

#include "bits.h"
#include "roots.h"

/* ---- Fused multiply-add and square root ---- */

#if defined(__CUDA_ARCH__)
#define FMA(a, b, c) __fma_rn(a, b, c)
#define SQRT(x) __dsqrt_rn(x)
#elif defined(__FMA__) || defined(__aarch64__)
#define FMA(a, b, c) __builtin_fma(a, b, c)
#define SQRT(x) __builtin_sqrt(x)
#else
#define FMA(a, b, c) fma_emulated(a, b, c)
#define SQRT(x) __builtin_sqrt(x)
#endif

#if !defined(__CUDA_ARCH__)

/* The integer |x| / 2^*exponent_ret, which has 53 bits.  x is finite and not 0. */
MYLIB_FN uint64_t significand_of(double x, int *exponent_ret)
{
    uint64_t bits = bits_of_f64(x) & INT64_MAX;
    if (bits >> 52 != 0) {
        *exponent_ret = (int)(bits >> 52) - 1075;
        return (bits & 0x000fffffffffffff) | 0x0010000000000000;
    }
    const int shift = __builtin_clzll(bits) - 11;
    *exponent_ret = -1074 - shift;
    return bits << shift;
}

__extension__ typedef unsigned __int128 mylib_u128;

/* x / 2^shift; a bit that is lost sets the last one. */
MYLIB_FN mylib_u128 shift_right_sticky(mylib_u128 x, int shift)
{
    if (shift == 0)
        return x;
    return shift > 127 ? 1 : (x >> shift) | (mylib_u128)(x << (128 - shift) != 0);
}

/* fma in integers. */
MYLIB_FN double fma_far(double a, double b, double c)
{
    const uint64_t infinity = 0x7ff0000000000000;
    const uint64_t ba = bits_of_f64(a), bb = bits_of_f64(b), bc = bits_of_f64(c);
    const uint64_t sign = 0x8000000000000000;
    if (a == 0 || b == 0 || (ba & INT64_MAX) >= infinity || (bb & INT64_MAX) >= infinity)
        return a * b + c;
    if ((bc & INT64_MAX) >= infinity)
        return c;
    if (c == 0)
        return a * b;
    int ea, eb, e, ec;
    uint64_t ma = significand_of(a, &ea), mb = significand_of(b, &eb), mc = significand_of(c, &ec);
    /* Both have their first bit at 124 or 125, and room below. */
    mylib_u128 product = ((mylib_u128)ma * mb) << 20, other = (mylib_u128)mc << 72;
    e = ea + eb - 20;
    ec -= 72;
    if (e < ec) {
        product = shift_right_sticky(product, ec - e);
        e = ec;
    } else {
        other = shift_right_sticky(other, e - ec);
    }
    uint64_t result_sign = (ba ^ bb) & sign;
    mylib_u128 sum = product + other;
    if (((ba ^ bb ^ bc) & sign) != 0) {
        sum = product > other ? product - other : other - product;
        if (sum == 0)
            return 0;
        if (other > product)
            result_sign ^= sign;
    }
    const uint64_t high = (uint64_t)(sum >> 64), low = (uint64_t)sum;
    const int n_bits = high != 0 ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll(low);
    int last = e + n_bits - 53; /* exponent of the last bit kept */
    if (last < -1074)
        last = -1074;
    const int shift = last - e;
    uint64_t kept;
    if (shift <= 0) {
        kept = low << -shift;
    } else if (shift > 127) {
        kept = 0;
    } else {
        mylib_u128 half = (mylib_u128)1 << (shift - 1), rest = sum & (2 * half - 1);
        kept = (uint64_t)(sum >> shift);
        kept += rest > half || (rest == half && (kept & 1) != 0);
    }
    if (last > 971)
        return f64_of_bits(result_sign | infinity);
    kept += (uint64_t)(last + 1074) << 52; /* a carry into the exponent, up to infinity, is right */
    return f64_of_bits(result_sign | kept);
}

/*
 * fma where the processor has none, by Boldo and Melquiond (IEEE Transactions on Computers 57,
 * 2008): the exact product is high + low; c + low and what high adds are exact sums; the two errors
 * are added with rounding to odd, after which the last addition rounds as if all were exact.  In
 * the range checked here no step overflows, and none is inexact by underflow.
 */
MYLIB_FN double fma_emulated(double a, double b, double c)
{
    const double high = a * b, size = high < 0 ? -high : high;
    const double size_a = a < 0 ? -a : a, size_b = b < 0 ? -b : b, size_c = c < 0 ? -c : c;
    if (!((size >= 0x1p-900) & (size <= 0x1p960) & (size_a <= 0x1p960) & (size_b <= 0x1p960) &
          (size_c <= 0x1p960)))
        return fma_far(a, b, c);
    /* Dekker's product, of Veltkamp's halves. */
    const double pa = a * 0x1.0000002p27, a1 = pa - (pa - a), a2 = a - a1;
    const double pb = b * 0x1.0000002p27, b1 = pb - (pb - b), b2 = b - b1;
    const double low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2;
    /* c + low */
    const double t = c + low, dt = t - c, t_error = (c - (t - dt)) + (low - dt);
    /* high + t */
    const double v = high + t, dv = v - high, v_error = (high - (v - dv)) + (t - dv);
    const double z = t_error + v_error, dz = z - t_error;
    const double z_error = (t_error - (z - dz)) + (v_error - dz);
    uint64_t bits = bits_of_f64(z);
    if (z_error != 0 && (bits & 1) == 0)
        bits += (z_error > 0) == (z > 0) ? 1 : UINT64_MAX;
    return v + f64_of_bits(bits);
}

#endif /* !__CUDA_ARCH__ */

MYLIB_FN_IN_LINE double horner_3(double z, double p, double a, double b, double c)
{
    return FMA(z, FMA(z, FMA(z, p, a), b), c);
}

/* ---- Selections, signs ---- */

#define SIGN_BIT_F64 0x8000000000000000
#define BITS_OF_INFINITY_F64 0x7ff0000000000000
#define INFINITY_F64 f64_of_bits(BITS_OF_INFINITY_F64)
#define NAN_F64 f64_of_bits(0x7ff8000000000000)

/* |x|, and x with the sign of y, by bits: raises no flag, and works for NaNs. */
MYLIB_FN double magnitude(double x) { return f64_of_bits(bits_of_f64(x) & ~SIGN_BIT_F64); }
MYLIB_FN double with_sign_of(double x, double y)
{
    return f64_of_bits((bits_of_f64(x) & ~SIGN_BIT_F64) | (bits_of_f64(y) & SIGN_BIT_F64));
}
MYLIB_FN float magnitude_f32(float x) { return f32_of_bits(bits_of_f32(x) & 0x7fffffff); }
MYLIB_FN float with_sign_of_f32(float x, float y)
{
    return f32_of_bits((bits_of_f32(x) & 0x7fffffff) | (bits_of_f32(y) & 0x80000000));
}

/* ---- Integers in doubles ---- */

/*
 * x + INTEGER_MAGIC, for |x| <= 2^51, is INTEGER_MAGIC + n with n the integer nearest to x, ties to
 * even: minus INTEGER_MAGIC it is n as a double, and integer_bits() of it is n as an integer.  This
 * avoids conversions: AVX2 has none between double and int64_t.
 */
#define INTEGER_MAGIC 0x1.8p52

/* The integer n of m = INTEGER_MAGIC + n. */
MYLIB_FN int64_t integer_bits(double m) { return (int64_t)(bits_of_f64(m) - 0x4338000000000000); }
/* The double of an integer n with |n| < 2^51. */
MYLIB_FN double double_of_integer(int64_t n)
{
    return f64_of_bits((uint64_t)n + 0x4338000000000000) - INTEGER_MAGIC;
}
MYLIB_FN double nearest_integer(double x) { return (x + INTEGER_MAGIC) - INTEGER_MAGIC; }

/* ---- Exact sums and products; numbers of twice the precision ---- */

/* hi + lo, with |lo| at most half an ulp of hi if not said otherwise. */
typedef struct t_dd {
    double hi, lo;
} t_dd;

MYLIB_FN t_dd make_dd(double hi, double lo)
{
    t_dd x = {hi, lo};
    return x;
}

/* a + b exactly; |a| >= |b|, or a is 0, or a is a multiple of the last bit of b. */
MYLIB_FN t_dd fast_two_sum(double a, double b)
{
    double s = a + b;
    return make_dd(s, b - (s - a));
}
/* a + b exactly. */
MYLIB_FN t_dd two_sum(double a, double b)
{
    double s = a + b, d = s - a;
    return make_dd(s, (a - (s - d)) + (b - d));
}
/* The same of positive a and b.  On a GPU, four selections take less time than three sums. */
MYLIB_FN t_dd two_sum_of_positive(double a, double b)
{
    const int is_in_order = bits_of_f64(a) >> 32 >= bits_of_f64(b) >> 32;
    return fast_two_sum(is_in_order ? a : b, is_in_order ? b : a);
}
/* a * b exactly, if it does not underflow. */
MYLIB_FN t_dd two_product(double a, double b)
{
    double p = a * b;
    return make_dd(p, FMA(a, b, -p));
}

/*
 * The operations on t_dd, with bounds of their relative error (Joldes, Muller and Popescu, ACM
 * Transactions on Mathematical Software 44, 2017); u = 2^-53.
 */

/* dd + f64: 2 u^2. */
MYLIB_FN t_dd dd_add_f64(t_dd a, double b)
{
    t_dd s = two_sum(a.hi, b);
    return fast_two_sum(s.hi, s.lo + a.lo);
}
/* dd + dd, also of opposite signs: 3 u^2 / (1 - 4 u). */
MYLIB_FN t_dd dd_add(t_dd a, t_dd b)
{
    t_dd s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
    t_dd v = fast_two_sum(s.hi, s.lo + t.hi);
    return fast_two_sum(v.hi, t.lo + v.lo);
}
/* dd + dd with |a| >= |b|; 4 u^2 if the signs are equal, else relative to |a|. */
MYLIB_FN t_dd dd_add_fast(t_dd a, t_dd b)
{
    t_dd s = fast_two_sum(a.hi, b.hi);
    return fast_two_sum(s.hi, s.lo + (a.lo + b.lo));
}
/* dd * f64: 2 u^2. */
MYLIB_FN t_dd dd_multiply_f64(t_dd a, double b)
{
    t_dd p = two_product(a.hi, b);
    return fast_two_sum(p.hi, FMA(a.lo, b, p.lo));
}
/* dd * dd: 5 u^2. */
MYLIB_FN t_dd dd_multiply(t_dd a, t_dd b)
{
    t_dd p = two_product(a.hi, b.hi);
    return fast_two_sum(p.hi, p.lo + FMA(a.hi, b.lo, a.lo * b.hi));
}
/* dd / dd: 10 u^2. */
MYLIB_FN t_dd dd_divide(t_dd a, t_dd b)
{
    double q = a.hi / b.hi;
    t_dd p = dd_multiply_f64(b, q);
    return fast_two_sum(q, ((a.hi - p.hi) + (a.lo - p.lo)) / b.hi);
}
/* The square root of dd > 0: 4 u^2. */
MYLIB_FN t_dd dd_sqrt(t_dd a)
{
    double s = SQRT(a.hi), rest = FMA(-s, s, a.hi) + a.lo;
    return fast_two_sum(s, rest / (s + s));
}
MYLIB_FN t_dd dd_negative(t_dd a) { return make_dd(-a.hi, -a.lo); }

/* ---- Rounding to odd ---- */

/*
 * hi + lo, hi > 0, |lo| <= ulp(hi) / 2: truncated, with the last bit set where that is inexact
 * (rounding to odd), after which a rounding to 51 bits or fewer is correct (Boldo and Melquiond).
 */
MYLIB_FN double to_odd(double hi, double lo)
{
    const uint64_t truncated = bits_of_f64(hi) - (lo < 0 ? 1 : 0);
    return f64_of_bits(truncated | (lo == 0 ? 0 : 1));
}
/* The same of any hi + lo with |lo| <= |hi|. */
MYLIB_FN double odd_sum(double hi, double lo)
{
    const t_dd sum = fast_two_sum(hi, lo);
    const double rest = f64_of_bits(bits_of_f64(sum.lo) ^ (bits_of_f64(sum.hi) & SIGN_BIT_F64));
    return with_sign_of(to_odd(magnitude(sum.hi), rest), sum.hi);
}

/* ---- Powers of 2 ---- */

/* 2^n as a double; -1022 <= n <= 1023. */
MYLIB_FN double power_of_2(int64_t n) { return f64_of_bits((uint64_t)(n + 1023) << 52); }
/* 2^-n x, where 2^-n may be subnormal. */
MYLIB_FN double divide_by_power(double x, int64_t n)
{
    return x * power_of_2(-(n / 2)) * power_of_2(n / 2 - n);
}

/*
 * 2^n (hi + lo), rounded once, also where it is subnormal, and infinite where it overflows.  hi > 0
 * is between 2^-60 and 2^60, |lo| <= ulp(hi), and |n| <= 4000.
 *
 * A subnormal result is the integer nearest to (hi + lo) 2^(n + 1074), and its bits are that
 * integer.  It stands in the last bits of (hi + lo) + m, where m is the power of 2 whose ulp is
 * 2^-(n + 1074), m >= hi.  Far below, m is kept at 2^200, which gives 0.
 */
MYLIB_FN double scale_sum(double hi, double lo, int64_t n)
{
    const double normal = hi + lo;
    const uint64_t bits = bits_of_f64(normal);
    const int64_t exponent = (int64_t)(bits >> 52) + n;
    const double m = power_of_2(n < -1222 ? 200 : -1022 - n < -200 ? -200 : -1022 - n);
    const double sum = m + hi, rounded = sum + ((hi - (sum - m)) + lo);
    const uint64_t subnormal = bits_of_f64(rounded) - bits_of_f64(m);
    const uint64_t large = exponent > 2046 ? BITS_OF_INFINITY_F64 : bits + ((uint64_t)n << 52);
    return f64_of_bits(exponent < 1 ? subnormal : large);
}

/* ---- f16 ---- */

/* Widens exactly.  A subnormal number becomes the last bits of a significand. */
MYLIB_FN float widen_f16(t_f16 h)
{
#if defined(__CUDA_ARCH__)
    return __half2float(__ushort_as_half(h.bits));
#else
    const uint32_t rest = (uint32_t)(h.bits & 0x7fff) << 13;
    const uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16;
    const uint32_t normal = rest + ((uint32_t)112 << 23);
    const float small = f32_of_bits(rest | 0x38800000) - 0x1p-14f;
    const uint32_t finite = rest < (uint32_t)1 << 23 ? bits_of_f32(small) : normal;
    return f32_of_bits(sign | (rest >= (uint32_t)31 << 23 ? rest | 0x7f800000 : finite));
#endif
}
MYLIB_FN double f64_from_f16(t_f16 h) { return widen_f16(h); }

/*
 * Narrows, to nearest even, with one rounding.  With 2^e the power of 2 below |x|, at least 2^-14,
 * the sum |x| + 2^(e + 42) has a last bit worth 2^(e - 10), f16's: its last bits are the
 * significand.  A carry into the exponent, up to infinity, is right.
 */
MYLIB_FN t_f16 f16_from_f64(double x)
{
#if defined(__CUDA_ARCH__)
    const uint32_t sign = (uint32_t)(bits_of_f64(x) >> 48) & 0x8000;
    t_f16 h = {(uint16_t)(x != x ? 0x7e00 | sign : __half_as_ushort(__double2half(x)))};
    return h;
#else
    const uint64_t rest = bits_of_f64(x) & ~SIGN_BIT_F64;
    const double size = f64_of_bits(rest);
    const double within = size < 0x1p16 ? size : 0x1p16, above = size < 0x1p-14 ? 0x1p-14 : within;
    const uint64_t exponent = bits_of_f64(above) & BITS_OF_INFINITY_F64;
    const uint64_t base = exponent + ((uint64_t)42 << 52);
    const uint64_t significand = bits_of_f64(within + f64_of_bits(base)) - base;
    const uint64_t finite = (exponent >> 42) - ((uint64_t)1009 << 10) + significand;
    const uint64_t bits = rest > BITS_OF_INFINITY_F64 ? 0x7e00 : finite;
    t_f16 h = {(uint16_t)(bits | ((bits_of_f64(x) >> 48) & 0x8000))};
    return h;
#endif
}

/*
 * Returns value, but at one argument the known f32, as value is in the middle of two there.  All
 * f32 were tried to find these arguments.
 */
MYLIB_FN float mend(float x, float value, float at, float known) { return x == at ? known : value; }
/* The same for an odd function. */
MYLIB_FN float mend_odd(float x, float value, float at, float known)
{
    return mend(x, mend(x, value, at, known), -at, -known);
}

/* 1 if value is within 4 of its ulps of a middle of two f32. */
MYLIB_FN int is_near_middle(double value)
{
    return ((bits_of_f64(value) - 0x0ffffffc) & 0x1fffffff) <= 8;
}

/* The value of a function; unknown if is_rare is not 0. */
typedef struct t_quick {
    float value;
    uint32_t is_rare;
} t_quick;
/* The same in f64; only the first bit of is_rare matters. */
typedef struct t_quick_f64 {
    double value;
    uint64_t is_rare;
} t_quick_f64;

/*
 * n / d, to be rounded to f32 or f16, if 1 / d does not underflow.  On a GPU an estimate of 20
 * bits, a step and a correction take half the instructions of a division.  The last bit may differ
 * from the CPU's, but the rounded result does not: all arguments were tried.
 */
MYLIB_FN double quotient_near(double n, double d)
{
#if defined(__CUDA_ARCH__)
    const double rough = estimate_inverse(d), inverse = FMA(rough, FMA(-d, rough, 1), rough);
    const double q = n * inverse;
    return FMA(FMA(-d, q, n), inverse, q);
#else
    return n / d;
#endif
}

/*
 * Defines op_f32 and op_f16 by op_near, whose f64 is accurate enough to be rounded to either,
 * except for an f32 that is mended.
 */
#define DEFINE_NARROW(op) \
    MYLIB_FN float op##_f32(float x) { return (float)op##_near(x); } \
    DEFINE_F16(op)
#define DEFINE_F16(op) \
    MYLIB_FN t_f16 op##_f16(t_f16 x) { return f16_from_f64(op##_near(widen_f16(x))); }
