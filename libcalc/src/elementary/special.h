/*
 * special.h - cbrt and erf.
 */
#pragma once

#include "elementary/exponential.h"

/* ---- cbrt ---- */

/*
 * |x| = m 2^(3q) with 1 <= m < 8 and m = z 2^r, 1 <= z < 2: a polynomial of z and a power of
 * 2^(1/3) give y = m^(-1/3) to 2^-14.6, and the first terms of the series of (1 - e)^(-1/3),
 * where e = 1 - m y^3, to 2^-41 (two terms) or 2^-51 (three).
 */
typedef struct t_cbrt {
    double m, y, e;
    int64_t q;
} t_cbrt;

/* x is normal. */
MYLIB_FN t_cbrt start_cbrt(double x)
{
    const uint64_t bits = bits_of_f64(x) & ~SIGN_BIT_F64;
    const int64_t n = (int64_t)(bits >> 52) - 1023;
    const double third = (double_of_integer(n) - 1) * 0x1.5555555555555p-2 + INTEGER_MAGIC;
    const int64_t q = integer_bits(third), r = n - (q + q + q);
    const double z = f64_of_bits((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
    const double z2 = z * z;
    const double high = FMA(z, -0x1.c510ee6501d39p-3, 0x1.6411dc29ac095p-1);
    const double low = FMA(z, -0x1.2c3f92e5806ebp0, 0x1.ab84b066452dp0);
    const double root = FMA(FMA(z2, 0x1.d4665ad441898p-6, high), z2, low);
    const double y = root * (r == 0 ? 1 : r == 1 ? 0x1.965fea53d6e3dp-1 : 0x1.428a2f98d728bp-1);
    const double m = f64_of_bits((bits & 0x000fffffffffffff) + ((uint64_t)(r + 1023) << 52));
    t_cbrt start = {m, y, FMA(-(m * y), y * y, 1), q};
    return start;
}
MYLIB_FN double end_cbrt(double x, double root, int64_t q)
{
    const double size = magnitude(x), signed_root = with_sign_of(root, x);
    const double scaled = f64_of_bits(bits_of_f64(signed_root) + ((uint64_t)q << 52));
    return ((size == 0) | !(size < INFINITY_F64)) ? x + x : scaled;
}

/*
 * One step of Newton's method for t^3 = m from t = m y^2, with the residue m - t^3 in twice the
 * precision: t is within 2^-40, the step within 2^-78.  Bound: 0.5001 ulp.
 */
MYLIB_FN double cbrt_f64(double x)
{
    const int is_small = magnitude(x) < 0x1p-1022;
    const t_cbrt c = start_cbrt(is_small ? x * 0x1p54 : x);
    const double y = FMA(c.y * c.e, FMA(c.e, 0x1.c71c71c71c71cp-3, 0x1.5555555555555p-2), c.y);
    const double y2 = y * y, t = c.m * y2;
    const t_dd t2 = two_product(t, t);
    const double residue = FMA(-t2.lo, t, FMA(-t2.hi, t, c.m));
    const double root = FMA(residue, y2 * 0x1.5555555555555p-2, t);
    return end_cbrt(x, root, c.q - (is_small ? 18 : 0));
}
/* Within 2^-51: accurate enough to be rounded to f32 or f16. */
MYLIB_FN double cbrt_near(double x)
{
    const t_cbrt c = start_cbrt(x);
    const double series =
        FMA(FMA(c.e, 0x1.61f9add3c0ca4p-3, 0x1.c71c71c71c71cp-3), c.e, 0x1.5555555555555p-2);
    const double y = FMA(c.y * c.e, series, c.y);
    return end_cbrt(x, c.m * y * y, c.q);
}
DEFINE_NARROW(cbrt)

/* ---- erf ---- */

/*
 * Below 7/8: x + x p(x^2) with |p| < 0.13; its term -3/8 x^2 is exact, and the rest is below 0.08.
 * Within 0.87 ulp: a half, and an error of p of 2^-54.3, of which the first coefficient's rounding
 * is 2^-56.1.
 */
MYLIB_FN double erf_below(double x)
{
    const double z = x * x, z2 = z * z;
    double even = FMA(z2, -0x1.dc9efe847b265p-31, -0x1.5dd07e746c11cp-23);
    double odd = FMA(z2, 0x1.e54de5c95fc45p-27, 0x1.b9c12177d32b7p-20);
    even = FMA(z2, even, -0x1.f4d01d5253c2dp-17);
    odd = FMA(z2, odd, 0x1.f9a310060b4b3p-14);
    even = FMA(z2, even, -0x1.c02db365854b7p-11);
    odd = FMA(z2, odd, 0x1.565bcd0bd4341p-8);
    even = FMA(z2, even, -0x1.b82ce3127ba31p-6);
    odd = FMA(z2, odd, 0x1.ce2f21a0429bfp-4);
    even = FMA(z2, even, -0x1.2746b0379e493p-10);
    const double slope = FMA(z, FMA(z, odd, even), FMA(z, -0.375, 0x1.06eba8214db69p-3));
    return FMA(x, slope, x);
}
/*
 * For x from 7/8 on: 1 - exp(q(x - 7/8)), where q = log(erfc) is a polynomial.  Errors of the
 * exponential, at most 2^-52, and of q, 2^-53, are multiplied by erfc(x) < 0.22: within 0.95 ulp.
 */
MYLIB_FN double erf_above(double x)
{
    const double t = (x > 6 ? 6 : x) - 0.875, t2 = t * t;
    double odd = FMA(t2, 0x1.9379bd361a3fbp-40, 0x1.2dda9de08df3dp-31);
    double even = FMA(t2, -0x1.6ab74de1f9089p-35, -0x1.340a94b630decp-28);
    odd = FMA(t2, odd, 0x1.ab409fcdacbd1p-26);
    even = FMA(t2, even, -0x1.9d3a627a8d0a6p-24);
    odd = FMA(t2, odd, 0x1.ff57ea5c12d1bp-23);
    even = FMA(t2, even, -0x1.28aef5eee2d9ap-23);
    odd = FMA(t2, odd, -0x1.119675e4bf0b9p-19);
    even = FMA(t2, even, 0x1.98263f031cddfp-17);
    odd = FMA(t2, odd, -0x1.4a4dbcf7f9e99p-15);
    even = FMA(t2, even, 0x1.f15748ba50c83p-15);
    odd = FMA(t2, odd, 0x1.a5137d057b376p-13);
    even = FMA(t2, even, -0x1.19049a3fd0f1p-9);
    odd = FMA(t2, odd, 0x1.730b0e96f898ep-7);
    even = FMA(t2, even, -0x1.802c27938a393p-5);
    odd = FMA(t2, odd, -0x1.a730790b4d449p-1);
    even = FMA(t2, even, -0x1.3711709c17b43p1);
    const double rest = FMA(t, odd, even);
    const double m = FMA(FMA(t, rest, -0x1.88672ea9b34dcp0), 0x1.71547652b82fep0, EXPONENT_MAGIC);
    const double first = FMA(-(m - EXPONENT_MAGIC), 0x1.62e42fefa39efp-1, -0x1.88672ea9b34dcp0);
    const double r = FMA(t, rest, first), scale = f64_of_bits(bits_of_f64(m) << 52);
    return FMA(-scale, FMA(r, exp_slope(r), 1), 1);
}
/* Accurate enough to be rounded to f32 or f16: all arguments of both were tried. */
MYLIB_FN double erf_f64(double x)
{
    const double size = magnitude(x);
    const double below = erf_below(size), above = erf_above(size);
    return with_sign_of(size < 0.875 ? below : above, x);
}
MYLIB_FN float erf_f32(float x) { return (float)erf_f64(x); }
MYLIB_FN t_f16 erf_f16(t_f16 x) { return f16_from_f64(erf_f64(f64_from_f16(x))); }

/*
 * erf(x) / x, where t = x^2 - 247/32 <= 7.73, for f32: with a relative error of 2^-39.9, and 2^-50
 * near 0, so that subnormal results round correctly too.
 */
MYLIB_FN double erf_ratio(double t)
{
    double p = FMA(t, -0x1.62a66ef01afadp-81, 0x1.1306761670748p-76);
    p = FMA(t, p, -0x1.4a6bf41ddcbdfp-73);
    p = horner_3(t, p, 0x1.71caa7f3b8a3ap-69, -0x1.48e78e7af84dcp-64, 0x1.8d47ccf5cde2p-60);
    p = horner_3(t, p, -0x1.9c972b162980cp-56, 0x1.ae82df195153fp-52, -0x1.b0c51bd7b08ap-48);
    p = horner_3(t, p, 0x1.96463ca5c63c1p-44, -0x1.65f71df76789bp-40, 0x1.28a1a0ecdf0b4p-36);
    p = horner_3(t, p, -0x1.cd40c09d391e7p-33, 0x1.5029f85a6a7acp-29, -0x1.cbebea8a9f714p-26);
    p = horner_3(t, p, 0x1.2878464039346p-22, -0x1.6b0a837f4d5c8p-19, 0x1.ac25e2afee16ap-16);
    p = horner_3(t, p, -0x1.f126295905b4bp-13, 0x1.266024ed14a3dp-9, -0x1.7d70ca71ef6c1p-6);
    return FMA(t, p, 0x1.708b486079f8cp-2);
}
