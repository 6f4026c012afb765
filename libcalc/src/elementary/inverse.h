/*
 * inverse.h - arcsin, arccos, arctan, arctan2.
 */
#pragma once

#include "trigonometric.h"

/* ---- arctan2, and arctan(x) = arctan2(x, 1) ---- */

#define TAN_1_8_PI 0x1.a827999fcef32p-2
#define TAN_3_8_PI 0x1.3504f333f9de6p1
#define QUARTER_PI_HI 0x1.921fb54442d18p-1
#define QUARTER_PI_LO 0x1.1a62633145c07p-55

/* (arctan t / t - 1) / z for z = t^2, |t| <= tan(pi/8); its relative error is 2^-59.4. */
MYLIB_FN double arctan_polynomial(double z)
{
    double p = FMA(z, -0x1.256ab2fbb36a3p-6, 0x1.37d5b483e4225p-5);
    p = FMA(z, p, -0x1.9cd2b86e3cc2ep-5);
    p = FMA(z, p, 0x1.df0f47a1f979fp-5);
    p = horner_3(z, p, -0x1.10ebb7d8c6922p-4, 0x1.3b11190eb25f3p-4, -0x1.745cf8db7d0c1p-4);
    p = horner_3(z, p, 0x1.c71c70e606bd1p-4, -0x1.24924922ad4d4p-3, 0x1.9999999995869p-3);
    return FMA(z, p, -0x1.555555555553dp-2);
}

/*
 * The angle of a point in the first quadrant is eighths * pi/4 + arctan(n / d), with |n / d| at
 * most tan(pi/8): n / d is y / x, (y - x) / (y + x) or -x / y.  The terms are those of n_y - n_x
 * and d_y + d_x.
 */
typedef struct t_octant {
    double n_y, n_x, d_y, d_x, eighths;
} t_octant;

MYLIB_FN t_octant octant_of(double y, double x)
{
    const int is_above = y > TAN_1_8_PI * x, is_near = !(y > TAN_3_8_PI * x);
    const double eighths = is_near ? is_above ? 1.0 : 0.0 : 2.0;
    t_octant octant = {is_near ? y : 0, is_above ? x : 0, is_above ? y : 0, is_near ? x : 0,
                       eighths};
    return octant;
}

/*
 * eighths * pi/4 + arctan(n / d), where n and d are sums.  The quotient t is corrected by its
 * remainder, times 1 / (1 + t^2), or nearly 1 - t^2.  What is added to the larger of the two terms
 * is at most 0.06 of the result: the sum is within 0.2 ulp, `hi` within 0.7.
 */
MYLIB_FN t_dd angle_from(t_dd base, t_dd n, t_dd d)
{
    const double inverse = inverse_of(d.hi), t = n.hi * inverse, z = t * t;
    const double left = (FMA(-t, d.hi, n.hi) + FMA(-t, d.lo, n.lo)) * inverse;
    const t_dd sum = fast_two_sum(base.hi, t);
    const double rest = FMA(t * z, arctan_polynomial(z), FMA(-z, left, left) + base.lo);
    return fast_two_sum(sum.hi, sum.lo + rest);
}
MYLIB_FN t_dd angle_dd(double eighths, t_dd n, t_dd d)
{
    const double hi = eighths * QUARTER_PI_HI;
    const double lo = FMA(eighths, QUARTER_PI_LO, FMA(eighths, QUARTER_PI_HI, -hi));
    return angle_from(make_dd(hi, lo), n, d);
}
MYLIB_FN double angle_f64(double eighths, t_dd n, t_dd d) { return angle_dd(eighths, n, d).hi; }
/* The same for f32 and f16, where n and d are exact: a relative error below 2^-51. */
MYLIB_FN double angle_near(double eighths, double n, double d)
{
    const double t = quotient_near(n, d), z = t * t;
    const double rest = FMA(t * z, arctan_polynomial(z), eighths * QUARTER_PI_LO);
    return FMA(eighths, QUARTER_PI_HI, t + rest);
}

MYLIB_FN double arctan_f64(double x)
{
    /* Above 2^64 the result is that of 2^64. */
    const double size = magnitude(x), y = size > 0x1p64 ? 0x1p64 : size;
    const int is_above = y > TAN_1_8_PI, is_near = !(y > TAN_3_8_PI);
    const t_octant o = octant_of(y, 1);
    /* 1 and 0 are multiples of the last bit of y, if both matter. */
    const t_dd n = fast_two_sum(-o.n_x, o.n_y), d = fast_two_sum(o.d_x, o.d_y);
    const double hi = is_near ? is_above ? QUARTER_PI_HI : 0 : HALF_PI_HI;
    const double lo = is_near ? is_above ? QUARTER_PI_LO : 0 : HALF_PI_LO;
    return with_sign_of(angle_from(make_dd(hi, lo), n, d).hi, x);
}
/* Above 2^100 the result is that of 2^100. */
MYLIB_FN double arctan_near(float x)
{
    const float size = magnitude_f32(x), y = size > 0x1p100f ? 0x1p100f : size;
    const t_octant o = octant_of(y, 1);
    return with_sign_of(angle_near(o.eighths, o.n_y - o.n_x, o.d_x + o.d_y), x);
}
MYLIB_FN float arctan_f32(float x)
{
    return mend_odd(x, (float)arctan_near(x), 0x1.1ad646p-4f, 0x1.1a6386p-4f);
}
DEFINE_F16(arctan)

/* Turns the angle of (|x|, |y|) into that of (x, y): pi minus it if x is negative. */
MYLIB_FN uint64_t arctan2_turns(double x) { return bits_of_f64(x) & SIGN_BIT_F64; }
MYLIB_FN double arctan2_eighths(double eighths, double x)
{
    return arctan2_turns(x) != 0 ? 4 - eighths : eighths;
}

/* The sums are exact: they add the smaller one of |x| and |y|, or 0, to the larger one. */
MYLIB_FN double arctan2_easy_f64(double y, double x)
{
    const double size_x = magnitude(x), size_y = magnitude(y);
    const int is_above = size_y > TAN_1_8_PI * size_x, is_near = !(size_y > TAN_3_8_PI * size_x);
    const int is_sum = is_above & is_near, is_steep = size_y > size_x;
    const double larger = is_steep ? size_y : size_x, smaller = is_steep ? size_x : size_y;
    const double other = is_sum ? smaller : 0;
    t_dd n = fast_two_sum(is_sum ? larger : smaller, -other), d = fast_two_sum(larger, other);
    const int is_minus = is_sum ? !is_steep : !is_near;
    const uint64_t turns = arctan2_turns(x) ^ (is_minus ? SIGN_BIT_F64 : 0);
    n.hi = f64_of_bits(bits_of_f64(n.hi) ^ turns);
    n.lo = f64_of_bits(bits_of_f64(n.lo) ^ turns);
    const double eighths = is_near ? is_above ? 1.0 : 0.0 : 2.0;
    return with_sign_of(angle_f64(arctan2_eighths(eighths, x), n, d), y);
}
/* Finds the origin, and points for which a step could overflow or lose bits by underflow. */
MYLIB_FN int arctan2_is_hard_f64(double y, double x)
{
    const double size_x = magnitude(x), size_y = magnitude(y);
    const double larger = size_y > size_x ? size_y : size_x;
    const double smaller = size_y > size_x ? size_x : size_y;
    return (larger >= 0x1p400) | (larger <= 0x1p-400) |
           ((smaller < larger * 0x1p-400) & (smaller != 0));
}
MYLIB_FN_APART double arctan2_hard_f64(double y, double x)
{
    double size_x = magnitude(x), size_y = magnitude(y);
    if (size_x != size_x || size_y != size_y)
        return x + y;
    if (size_x == INFINITY_F64 || size_y == INFINITY_F64) {
        size_x = size_x == INFINITY_F64;
        size_y = size_y == INFINITY_F64;
    } else if (size_x > size_y * 0x1p60 && arctan2_turns(x) == 0) {
        return y / x;
    } else if (size_x >= size_y * 0x1p60) {
        size_x = 1; /* also where both are 0 */
        size_y = 0;
    } else if (size_y > size_x * 0x1p60) {
        size_x = 0;
        size_y = 1;
    } else {
        const double scale = size_x > 1 ? 0x1p-600 : 0x1p600;
        size_x *= scale;
        size_y *= scale;
    }
    return with_sign_of(arctan2_easy_f64(size_y, with_sign_of(size_x, x)), y);
}
MYLIB_FN double arctan2_f64(double y, double x)
{
    return arctan2_is_hard_f64(y, x) ? arctan2_hard_f64(y, x) : arctan2_easy_f64(y, x);
}

/*
 * f32 and f16.  The sums of the octant are exact in f64, and no step overflows or loses bits.
 * Infinities count as 2^300: the angle that this leaves is below all f32, and hard.
 */
MYLIB_FN double arctan2_near(double y, double x)
{
    const double size_x = magnitude(x), size_y = magnitude(y);
    const double within_x = size_x > 0x1p300 ? 0x1p300 : size_x;
    const double within_y = size_y > 0x1p300 ? 0x1p300 : size_y;
    const t_octant o = octant_of(within_y, within_x);
    const double n = f64_of_bits(bits_of_f64(o.n_y - o.n_x) ^ arctan2_turns(x)), d = o.d_y + o.d_x;
    const double angle = angle_near(arctan2_eighths(o.eighths, x), n, d == 0 ? 1 : d);
    return with_sign_of(angle, y);
}
MYLIB_FN float arctan2_easy_f32(float y, float x) { return (float)arctan2_near(y, x); }
/*
 * Finds results that an error of 4 ulps, more than the real one, could round to another f32, and
 * results for which f32 has fewer bits.
 */
MYLIB_FN int arctan2_is_hard_f32(float y, float x)
{
    const double angle = arctan2_near(y, x);
    const uint64_t size = bits_of_f64(angle) & ~SIGN_BIT_F64;
    return is_near_middle(angle) | ((size != 0) & (size < 0x3810000000000000));
}
/*
 * The same in t_dd, with the series of arctan t: 45 terms for t^2 <= 0.172 leave 2^-119.  The
 * relative error is below 2^-98; of 2^64 pairs, the nearest to a middle of two f32 is expected at
 * 2^-88.  A quotient that is a middle itself, which happens among subnormal f32, is exact here, and
 * the rest of the series tells the side.
 */
MYLIB_FN_APART float arctan2_hard_f32(float y, float x)
{
    double size_x = magnitude(x), size_y = magnitude(y);
    if (size_x != size_x || size_y != size_y)
        return x + y;
    if (size_x == INFINITY_F64 || size_y == INFINITY_F64) {
        size_x = size_x == INFINITY_F64;
        size_y = size_y == INFINITY_F64;
    } else if (size_y == 0) {
        size_x = 1;
    }
    const t_octant o = octant_of(size_y, size_x);
    const t_dd t = dd_divide(make_dd(o.n_y - o.n_x, 0), make_dd(o.d_y + o.d_x, 0));
    const t_dd z = dd_negative(dd_multiply(t, t));
    t_dd series = make_dd(0, 0);
    for (int n = 89; n > 0; n -= 2)
        series = dd_add(dd_divide(make_dd(1, 0), make_dd(n, 0)), dd_multiply(z, series));
    t_dd angle = dd_multiply(t, series);
    angle = arctan2_turns(x) != 0 ? dd_negative(angle) : angle;
    const double eighths = arctan2_eighths(o.eighths, x);
    const t_dd base = dd_multiply_f64(make_dd(QUARTER_PI_HI, QUARTER_PI_LO), eighths);
    if (eighths != 0)
        angle = dd_add(base, angle);
    return (float)with_sign_of(odd_sum(angle.hi, angle.lo), y);
}
MYLIB_FN float arctan2_f32(float y, float x)
{
    return arctan2_is_hard_f32(y, x) ? arctan2_hard_f32(y, x) : arctan2_easy_f32(y, x);
}
MYLIB_FN t_f16 arctan2_f16(t_f16 y, t_f16 x)
{
    return f16_from_f64(arctan2_near(f64_from_f16(y), f64_from_f16(x)));
}

/* ---- arcsin and arccos ---- */

/* (arcsin s / s - 1) / z for z = s^2 <= 1/4; arcsin s gets a relative error of 2^-55.7. */
MYLIB_FN double arcsin_polynomial(double z)
{
    double p = FMA(z, 0x1.056d85fa2eea1p-5, -0x1.09d3a228b264ep-6);
    p = horner_3(z, p, 0x1.3ff5131c84406p-6, 0x1.abce9abe59659p-8, 0x1.8ec3184278c87p-7);
    p = horner_3(z, p, 0x1.c6fdbc6792d9ap-7, 0x1.1c6be1ffd566fp-6, 0x1.6e89f437e495fp-6);
    p = horner_3(z, p, 0x1.f1c72c3979affp-6, 0x1.6db6db42781f6p-5, 0x1.333333336e85p-4);
    return FMA(z, p, 0x1.555555555539p-3);
}

/*
 * arcsin |x| is arcsin s for |x| <= 1/2, and pi/2 - 2 arcsin s with s^2 = (1 - |x|) / 2 above.
 * Both functions are quarters * pi/2 + factor * arcsin s.  factor is a power of 2, or minus one.
 */
typedef struct t_arcsine {
    double s, z, is_above;
} t_arcsine;

MYLIB_FN t_arcsine arcsine_of(double size)
{
    const double z = size > 0.5 ? FMA(-0.5, size, 0.5) : size * size, root = root_of(z);
    t_arcsine a = {size > 0.5 ? root : size, z, size > 0.5 ? 1.0 : 0.0};
    return a;
}
/*
 * The root is corrected by its remainder.  What is added to the larger of the two terms is at most
 * 0.06: within 0.8 ulp.
 */
MYLIB_FN double arcsine_sum_f64(double quarters, double factor, t_arcsine a)
{
    /* The small summand avoids 0 / 0. */
    const double left = quotient_of(FMA(-a.s, a.s, a.z), a.s + (a.s + 0x1p-1000)) * a.is_above;
    const double rest = FMA(a.s * a.z, arcsin_polynomial(a.z), left);
    const t_dd sum = fast_two_sum(quarters * HALF_PI_HI, factor * a.s);
    return sum.hi + (sum.lo + FMA(factor, rest, quarters * HALF_PI_LO));
}
/* For f32 and f16: a relative error below 2^-51. */
MYLIB_FN double arcsine_sum_near(double quarters, double factor, t_arcsine a)
{
    const double angle = FMA(a.s * a.z, arcsin_polynomial(a.z), a.s);
    return FMA(quarters, HALF_PI_HI, FMA(factor, angle, quarters * HALF_PI_LO));
}
/* -2 or 1; for arccos 2 or -1, times the sign of x. */
MYLIB_FN double arcsin_factor(t_arcsine a) { return FMA(-3, a.is_above, 1); }
MYLIB_FN double arccos_factor(t_arcsine a, double x)
{
    return f64_of_bits(bits_of_f64(-arcsin_factor(a)) ^ (bits_of_f64(x) & SIGN_BIT_F64));
}
MYLIB_FN double arccos_quarters(t_arcsine a, double x)
{
    return a.is_above == 0 ? 1 : x < 0 ? 2 : 0;
}

MYLIB_FN double arcsin_f64(double x)
{
    const t_arcsine a = arcsine_of(magnitude(x));
    return with_sign_of(arcsine_sum_f64(a.is_above, arcsin_factor(a), a), x);
}
MYLIB_FN double arcsin_near(float x)
{
    const t_arcsine a = arcsine_of(magnitude_f32(x));
    return with_sign_of(arcsine_sum_near(a.is_above, arcsin_factor(a), a), x);
}
DEFINE_NARROW(arcsin)

MYLIB_FN double arccos_f64(double x)
{
    const t_arcsine a = arcsine_of(magnitude(x));
    return arcsine_sum_f64(arccos_quarters(a, x), arccos_factor(a, x), a);
}
MYLIB_FN double arccos_near(float x)
{
    const t_arcsine a = arcsine_of(magnitude_f32(x));
    return arcsine_sum_near(arccos_quarters(a, x), arccos_factor(a, x), a);
}
MYLIB_FN float arccos_f32(float x)
{
    const float y = mend(x, (float)arccos_near(x), 0x1.110b46p-26f, 0x1.921fb6p0f);
    return mend(x, y, 0x1.04c444p-12f, 0x1.920f6ap0f);
}
DEFINE_F16(arccos)
