/*
 * complex_power.h - power of complex numbers: z^w = e^(w log z).
 *
 * w log z may be large, and its absolute error is the relative error of the result.  So log z is
 * computed as a sum with an error of 2^-102: by a step of Newton's method from L, the logarithm in
 * double,
 *
 *     log z = L + log(1 + r),   1 + r = z e^-L,   |r| <= 2^-50.
 *
 * Special values are NumPy's: z^0 is 1 and z^1 is z; 0^w is 0 if the real part of w is positive,
 * else NaN.
 */
#pragma once

#include "elementary/complex.h"
#include "elementary/power.h"

/* ---- Complex numbers of twice the precision ---- */

/* Products have an error of 16 u^2, relative to the modulus; u = 2^-53. */
typedef struct t_wide {
    t_dd re, im;
} t_wide;

MYLIB_FN t_wide make_wide(t_dd re, t_dd im)
{
    t_wide z = {re, im};
    return z;
}
/* dd + dd, with an error relative to |a| + |b|: 3 u^2. */
MYLIB_FN t_dd dd_add_parts(t_dd a, t_dd b)
{
    const t_dd s = two_sum(a.hi, b.hi);
    return fast_two_sum(s.hi, s.lo + (a.lo + b.lo));
}
MYLIB_FN_APART t_wide wide_multiply(t_wide a, t_wide b)
{
    return make_wide(dd_add_parts(dd_multiply(a.re, b.re), dd_negative(dd_multiply(a.im, b.im))),
                     dd_add_parts(dd_multiply(a.re, b.im), dd_multiply(a.im, b.re)));
}
MYLIB_FN t_wide wide_multiply_c128(t_wide a, double x, double y)
{
    return make_wide(dd_add_parts(dd_multiply_f64(a.re, x), dd_multiply_f64(a.im, -y)),
                     dd_add_parts(dd_multiply_f64(a.re, y), dd_multiply_f64(a.im, x)));
}

/* ---- log ---- */

/*
 * e^(x + iy) - 1 for |x + iy| <= 1.06, with an error of 2^-102: Taylor's series at 1/16 of the
 * argument, then four times (1 + p)^2 - 1 = p (2 + p).  From the ninth term on, which is at most
 * 2^-49 of the first, the series is in double.
 */
MYLIB_FN_APART t_wide expm1_wide(double x, double y)
{
    /* 1 / k! for k = 1 to 16; and the errors of the first eight. */
    const double terms[16] = {1,
                              1. / 2,
                              1. / 6,
                              1. / 24,
                              1. / 120,
                              1. / 720,
                              1. / 5040,
                              1. / 40320,
                              1. / 362880,
                              1. / 3628800,
                              1. / 39916800,
                              1. / 479001600,
                              1. / 6227020800,
                              1. / 87178291200,
                              1. / 1307674368000,
                              1. / 20922789888000};
    const double more[8] = {0,
                            0,
                            0x1.5555555555555p-57,
                            0x1.5555555555555p-59,
                            0x1.1111111111111p-63,
                            -0x1.f49f49f49f49fp-65,
                            0x1.a01a01a01a01ap-73,
                            0x1.a01a01a01a01ap-76};
    double re = terms[15], im = 0;
    x *= 0.0625;
    y *= 0.0625;
    for (int k = 14; k >= 8; k--) {
        const double next = FMA(re, x, FMA(-im, y, terms[k]));
        im = FMA(re, y, im * x);
        re = next;
    }
    t_wide p = make_wide(make_dd(re, 0), make_dd(im, 0));
    for (int k = 7; k >= 0; k--) {
        p = wide_multiply_c128(p, x, y);
        p.re = dd_add_fast(make_dd(terms[k], more[k]), p.re);
    }
    p = wide_multiply_c128(p, x, y);
    for (int k = 0; k < 4; k++)
        p = wide_multiply(p, make_wide(dd_add_f64(p.re, 2), p.im));
    return p;
}

/*
 * log(1 + u + iy) for |u|, |y| < 2^-20, with a relative error of 2^-86: 2 artanh s = 2 (s + s^3/3),
 * where s = (u + iy) / (2 + u + iy).  Half of a subnormal y would be rounded.
 */
MYLIB_FN t_wide log_near_1(double u, double y)
{
    if (u == 0 && magnitude(y) < 0x1p-1000)
        return make_wide(make_dd(0, 0), make_dd(y, 0));
    const t_dd u2 = dd_multiply_f64(two_sum(2, u), u), dividend = dd_add(u2, two_product(y, y));
    const t_dd divisor = dd_add(dividend, two_sum(4, 2 * u));
    const t_dd re = dd_divide(dividend, divisor), im = dd_divide(make_dd(2 * y, 0), divisor);
    const double third_re = FMA(re.hi, re.hi, -(im.hi * im.hi)) / 3;
    const double third_im = re.hi * im.hi * (2.0 / 3);
    const double more_re = FMA(re.hi, third_re, -(im.hi * third_im));
    const double more_im = FMA(re.hi, third_im, im.hi * third_re);
    return make_wide(dd_multiply_f64(dd_add_f64(re, more_re), 2),
                     dd_multiply_f64(dd_add_f64(im, more_im), 2));
}

/*
 * log z for finite z other than 0.  z = i^turns 2^k (x + iy), with x between the square roots of
 * 1/2 and 2, and |y| <= x.
 */
MYLIB_FN_APART t_wide log_wide(t_c128 z)
{
    const int is_steep = magnitude(z.im) > magnitude(z.re);
    const double turns = is_steep ? sign_of(z.im) : z.re < 0 ? 2 * sign_of(z.im) : 0;
    const t_split split = split_any(is_steep ? magnitude(z.im) : magnitude(z.re));
    const int64_t k = integer_bits(split.k + INTEGER_MAGIC);
    const double turned = is_steep ? (z.im > 0 ? -z.re : z.re) : (z.re < 0 ? -z.im : z.im);
    const double x = split.m, y = divide_by_power(turned, k);
    if (turns == 0 && k == 0 && magnitude(x - 1) < 0x1p-20 && magnitude(y) < 0x1p-20)
        return log_near_1(x - 1, y);
    const double re = 0.5 * log_f64(FMA(x, x, y * y)), im = angle_of(y, x).hi;
    const t_wide e = expm1_wide(-re, -im);
    t_wide r = wide_multiply_c128(e, x, y); /* z e^-L - 1 */
    r.re = dd_add_f64(r.re, x - 1);
    r.im = dd_add_f64(r.im, y);
    const double half_square = 0.5 * FMA(r.re.hi, r.re.hi, -(r.im.hi * r.im.hi));
    t_dd log_re = dd_add_f64(dd_add_f64(r.re, -half_square), re);
    t_dd log_im = dd_add_f64(dd_add_f64(r.im, -(r.re.hi * r.im.hi)), im);
    log_re = dd_add(log_re, dd_add_f64(two_product(split.k, 0x1.ef35793c7673p-45),
                                       split.k * 0x1.f97b57a079a19p-103));
    log_re = dd_add_f64(log_re, split.k * 0x1.62e42fefa38p-1); /* the product is exact */
    log_im = dd_add(log_im, make_dd(turns * HALF_PI_HI, turns * HALF_PI_LO));
    return make_wide(log_re, y == 0 && turns == 0 ? make_dd(y, 0) : log_im);
}

/* ---- power ---- */

/* sin and cos of a sum. */
MYLIB_FN_APART t_circular circular_dd(t_dd x)
{
    const t_circular turn = circular(x.hi);
    if (x.lo == 0)
        return turn;
    const t_circular more = circular(x.lo);
    const t_wide a = make_wide(dd_of_extended(turn.c), dd_of_extended(turn.s));
    const t_wide b = make_wide(dd_of_extended(more.c), dd_of_extended(more.s));
    const t_wide product = wide_multiply(a, b);
    t_circular result = {make_extended(product.im.hi, product.im.lo, 0),
                         make_extended(product.re.hi, product.re.lo, 0)};
    return result;
}

/* e^(w log z), for finite numbers, z not 0. */
MYLIB_FN_APART t_c128 power_by_log(t_c128 z, t_c128 w)
{
    const t_wide log_z = log_wide(z);
    /* Scaled, so that the product does not overflow; of a large one only the sign matters. */
    const int is_large = magnitude(w.re) > 0x1p960 || magnitude(w.im) > 0x1p960;
    const double scale = is_large ? 0x1p-64 : 1, unscale = is_large ? 0x1p64 : 1;
    const double a = w.re * scale, b = w.im * scale;
    t_wide p;
    if (b == 0)
        p = make_wide(dd_multiply_f64(log_z.re, a), dd_multiply_f64(log_z.im, a));
    else
        p = wide_multiply_c128(log_z, a, b);
    const double re = clamp_to(p.re.hi * unscale, 2000);
    const double re_lo = re == p.re.hi * unscale ? p.re.lo * unscale : 0;
    const int is_far = magnitude(p.im.hi) > 0x1p900;
    t_dd angle = make_dd(p.im.hi * (is_far ? 1 : unscale), p.im.lo * (is_far ? 1 : unscale));
    if (angle.hi == 0 && b == 0)
        angle = make_dd(a * log_z.im.hi, 0); /* sums lose the sign of a zero */
    const t_scaled e = exp_scaled_dd(make_dd(re, re_lo));
    const t_extended size = make_extended(e.hi, e.lo, e.n);
    return times_turn(size, size, circular_dd(angle));
}

/* The largest exponent computed by products, which are exact if the result is. */
#define POWER_BY_PRODUCTS 64

/* z^n for finite z other than 0, and 1 < |n| <= POWER_BY_PRODUCTS or n = -1. */
MYLIB_FN_APART t_c128 power_by_products(t_c128 z, int n)
{
    const double size_re = magnitude(z.re), size_im = magnitude(z.im);
    const t_split split = split_any(size_re > size_im ? size_re : size_im);
    const int64_t k = integer_bits(split.k + INTEGER_MAGIC);
    t_wide base =
        make_wide(make_dd(divide_by_power(z.re, k), 0), make_dd(divide_by_power(z.im, k), 0));
    t_wide p = base;
    int is_begun = 0;
    for (int left = n < 0 ? -n : n; left != 0; left >>= 1) {
        if (left & 1)
            p = is_begun ? wide_multiply(p, base) : base;
        is_begun |= left & 1;
        if (left > 1)
            base = wide_multiply(base, base);
    }
    if (n < 0) {
        const t_dd divisor = dd_add(dd_multiply(p.re, p.re), dd_multiply(p.im, p.im));
        p = make_wide(dd_divide(p.re, divisor), dd_divide(dd_negative(p.im), divisor));
    }
    /* Sums lose the sign of a zero; for real z it is that of n z^(n - 1) y. */
    const double zero = z.re < 0 && n % 2 == 0 ? -z.im : z.im;
    const t_extended re = make_extended(p.re.hi, p.re.lo, n * k);
    const t_extended im = make_extended(p.im.hi, p.im.lo, n * k);
    return make_c128(round_extended(re), z.im == 0 ? (n < 0 ? -zero : zero) : round_extended(im));
}

/* Uses the same formula in double, for infinite and NaN parts.  Finite products stay finite. */
MYLIB_FN double without_overflow(double x)
{
    return magnitude(x) > 0x1p960 && is_finite_f64(x) ? x * 0x1p-64 : x;
}
MYLIB_FN_APART t_c128 power_beyond(t_c128 z, t_c128 w)
{
    const t_c128 log_z = log_c128(z);
    const double a = without_overflow(w.re), b = without_overflow(w.im);
    if (b == 0)
        return exp_c128(make_c128(a * log_z.re, a * log_z.im));
    return exp_c128(make_c128(FMA(a, log_z.re, -(b * log_z.im)), FMA(a, log_z.im, b * log_z.re)));
}

/*
 * Each part within 1 ulp of the modulus, where |w log z| <= 2^24: a half; of |w log z| 2^-83;
 * 2^-59 of e^x; and 2^-55 of the turn.
 */
MYLIB_FN_APART t_c128 power_c128(t_c128 z, t_c128 w)
{
    if (w.re == 0 && w.im == 0)
        return make_c128(1, 0);
    if (w.re == 1 && w.im == 0)
        return z;
    if (z.re == 0 && z.im == 0)
        return w.re > 0 ? make_c128(0, 0) : make_c128(NAN_F64, NAN_F64);
    if (!is_finite_f64(z.re) || !is_finite_f64(z.im) || !is_finite_f64(w.re) ||
        !is_finite_f64(w.im))
        return power_beyond(z, w);
    if (w.im == 0 && magnitude(w.re) <= POWER_BY_PRODUCTS && is_integer(w.re))
        return power_by_products(z, (int)w.re);
    return power_by_log(z, w);
}
/*
 * In f64: where the exponent and the turn have errors below 2^-44, and so the parts ones of 2^-36
 * if they are not far smaller than the modulus.
 */
MYLIB_FN t_quick_c64 power_quick_c64(t_c64 z, t_c64 w)
{
    const double x = z.re, y = z.im, square = FMA(x, x, y * y);
    const t_split s = split(square, 0);
    const double log_r = 0.5 * FMA(s.k, 0x1.62e42fefa39efp-1, log1p_near_0(s.m - 1));
    const double turn = arctan2_near(y, x);
    const double a = w.re * log_r - w.im * turn, b = w.re * turn + w.im * log_r;
    const double sizes = (magnitude(w.re) + magnitude(w.im)) * (magnitude(log_r) + magnitude(turn));
    const int is_easy = (sizes < 64) & (square > 0) & (square < 0x1p300);
    const double e = exp_within(is_easy ? a : 0), re = e * cos_near(b), im = e * sin_near(b);
    const int is_small = magnitude(re) < 0x1p-8 * e, im_is_small = magnitude(im) < 0x1p-8 * e;
    return quick_parts(re, im, 0x20000, is_small | im_is_small | !is_easy);
}
MYLIB_FN t_c64 power_c64(t_c64 z, t_c64 w)
{
    const t_quick_c64 quick = power_quick_c64(z, w);
    if (!quick.is_rare)
        return quick.value;
    return narrow_c128(power_c128(widen_c64(z), widen_c64(w)));
}
