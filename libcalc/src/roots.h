/*
 * roots.h - inverses, quotients and square roots of f64, correctly rounded.
 *
 * CUDA's own functions branch for extreme exponents.  These do not, so that the steps of several
 * elements overlap.  |d| and |x| must be between 2^-1000 and 2^1000, unless x is 0 or the caller
 * ignores the result.  An estimate of 20 bits and a third-order step give 52 bits; the last step
 * rounds correctly.  Tested with 4 * 10^10 values.
 */
#pragma once

#include <math.h>

#include "bits.h"

/* 2^n x, if both are normal: for a GPU, by the upper half. */
MYLIB_FN double with_exponent_more(double x, int n)
{
    const uint64_t bits = bits_of_f64(x);
    return f64_of_bits((uint64_t)((uint32_t)(bits >> 32) + ((uint32_t)n << 20)) << 32 |
                       (uint32_t)bits);
}

#if defined(__CUDA_ARCH__)

/* Returns 1 / d to 20 bits. */
MYLIB_FN double approximate_inverse(double d)
{
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(d));
    return inverse;
}

/*
 * Returns 1 / d to 20 bits, biased upward.  If the last bits of d are all ones, 1 / d is so little
 * above the midpoint of two doubles that a step from below would round it down.
 */
MYLIB_FN double estimate_inverse(double d)
{
    return f64_of_bits(bits_of_f64(approximate_inverse(d)) | 0x40000000);
}

MYLIB_FN double inverse_of(double d)
{
    const double rough = estimate_inverse(d), e = __fma_rn(-d, rough, 1);
    const double inverse = __fma_rn(rough, __fma_rn(e, e, e), rough);
    return __fma_rn(inverse, __fma_rn(-d, inverse, 1), inverse);
}

/* Returns n / d, if the remainder n - d q is not subnormal. */
MYLIB_FN double quotient_of(double n, double d)
{
    const double inverse = inverse_of(d), q = n * inverse;
    return __fma_rn(__fma_rn(-d, q, n), inverse, q);
}

/* Returns 1 / sqrt(x) to 20 bits. */
MYLIB_FN double approximate_inverse_root(double x)
{
    double rough;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(rough) : "d"(x));
    return rough;
}
MYLIB_FN double root_of_positive(double x)
{
    const double rough = approximate_inverse_root(x);
    const double e = __fma_rn(x, -(rough * rough), 1);
    const double inverse = __fma_rn(rough * e, __fma_rn(e, 0.375, 0.5), rough), root = x * inverse;
    return __fma_rn(__fma_rn(-root, root, x), with_exponent_more(inverse, -1), root);
}
MYLIB_FN double root_of(double x)
{
    const double value = root_of_positive(x);
    return x == 0 ? x : value;
}

#else

MYLIB_FN double inverse_of(double d) { return 1 / d; }
MYLIB_FN double quotient_of(double n, double d) { return n / d; }
MYLIB_FN double root_of_positive(double x) { return sqrt(x); }
MYLIB_FN double root_of(double x) { return sqrt(x); }

#endif
