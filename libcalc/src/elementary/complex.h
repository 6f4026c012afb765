/*
 * complex.h - the elementary functions of complex numbers, from the real ones.
 *
 * Each computes its parts as sums hi + lo, by formulas that neither cancel nor overflow before the
 * result does, and rounds them once.  c64 goes by way of c128.  Special values are those of C's
 * Annex G.  Unless noted, bounds are in units in the last place (ulp) of each part, plus half an
 * ulp if the part is subnormal.
 *
 * Code that several functions share, and each function of c128, is compiled as a call: loops over
 * them are not vectorized.
 */
#pragma once

#include "elementary/hyperbolic.h"
#include "elementary/inverse.h"
#include "elementary/quick_complex.h"
#include "elementary/trigonometric.h"
#include "scalar_ops.h"

/* ---- Numbers of any exponent ---- */

#define LN_2_HI 0x1.62e42fefa39efp-1
#define LN_2_LO 0x1.abc9e3b39803fp-56

MYLIB_FN int is_finite_f64(double x) { return magnitude(x) < INFINITY_F64; }

/* 1 or -1; 1 for a NaN, whose sign depends on the processor. */
MYLIB_FN double sign_of(double x) { return x == x ? with_sign_of(1, x) : 1; }

/*
 * A number 2^n (hi + lo), |lo| <= ulp(hi) / 2.  2^-25 <= |hi| < 2^25, or hi is 0, infinite or NaN
 * and lo is 0.
 */
typedef struct t_extended {
    double hi, lo;
    int64_t n;
} t_extended;

/* 2^n (hi + lo), |lo| <= |hi| */
MYLIB_FN_APART t_extended scale_extended(double hi, double lo, int64_t n)
{
    const int is_small = magnitude(hi) < 0x1p-900;
    const t_dd sum = is_small ? fast_two_sum(hi * 0x1p200, lo * 0x1p200) : fast_two_sum(hi, lo);
    const int64_t exponent = (int64_t)(bits_of_f64(sum.hi) >> 52 & 0x7ff) - 1023;
    t_extended extended = {divide_by_power(sum.hi, exponent), divide_by_power(sum.lo, exponent),
                           n + exponent - (is_small ? 200 : 0)};
    t_extended special = {hi, 0, 0};
    return is_finite_f64(hi) && hi != 0 ? extended : special;
}
MYLIB_FN t_extended make_extended(double hi, double lo, int64_t n)
{
    const t_dd sum = fast_two_sum(hi, lo);
    const t_extended extended = {sum.hi, sum.lo, n};
    const int is_in_range = magnitude(sum.hi) >= 0x1p-25 && magnitude(sum.hi) < 0x1p25;
    return is_in_range ? extended : scale_extended(hi, lo, n);
}
MYLIB_FN_APART double round_extended(t_extended x)
{
    const int64_t n = x.n < -3000 ? -3000 : x.n > 3000 ? 3000 : x.n;
    const double lo = x.hi < 0 ? -x.lo : x.lo;
    if (!is_finite_f64(x.hi) || x.hi == 0)
        return x.hi;
    return with_sign_of(scale_sum(magnitude(x.hi), lo, n), x.hi);
}

/* A factor that is 0, infinite or NaN decides the product; 0 wins over NaN. */
MYLIB_FN_APART t_extended extended_multiply(t_extended a, t_extended b)
{
    if (a.hi == 0 || b.hi == 0)
        return make_extended(sign_of(a.hi) * sign_of(b.hi) * 0.0, 0, 0);
    if (!is_finite_f64(a.hi) || !is_finite_f64(b.hi))
        return make_extended(a.hi * b.hi, 0, 0);
    const t_dd p = dd_multiply(make_dd(a.hi, a.lo), make_dd(b.hi, b.lo));
    return make_extended(p.hi, p.lo, a.n + b.n);
}
/* a / b, both finite and not 0. */
MYLIB_FN_APART t_extended extended_divide(t_extended a, t_extended b)
{
    const t_dd q = dd_divide(make_dd(a.hi, a.lo), make_dd(b.hi, b.lo));
    return a.hi == 0 ? a : make_extended(q.hi, q.lo, a.n - b.n);
}
/* Returns x as a sum, if that does not overflow. */
MYLIB_FN t_dd dd_of_extended(t_extended x)
{
    const int64_t n = x.n < -1000 ? -1000 : x.n;
    return make_dd(x.hi * power_of_2(n), x.lo * power_of_2(n));
}

MYLIB_FN t_c128 times_i(t_c128 z) { return make_c128(-z.im, z.re); }
MYLIB_FN t_c128 times_minus_i(t_c128 z) { return make_c128(z.im, -z.re); }

MYLIB_FN t_c128 widen_c64(t_c64 z) { return make_c128(z.re, z.im); }
MYLIB_FN t_c64 narrow_c128(t_c128 z) { return make_c64((float)z.re, (float)z.im); }

#define DEFINE_COMPLEX_QUICK(op) \
    MYLIB_FN t_c64 op##_c64(t_c64 z) \
    { \
        const t_quick_c64 quick = op##_quick_c64(z); \
        if (!quick.is_rare) \
            return quick.value; \
        return narrow_c128(op##_c128(widen_c64(z))); \
    }

/* ---- exp, sinh, cosh, sin, cos ---- */

/* sin x and cos x, to about 2^-57; their signs are those of the functions. */
MYLIB_FN t_sincos circular_sums(double x, t_turn turn)
{
    const t_sincos t = sincos_of_turn(turn);
    const int is_odd = (turn.quarter & 1) != 0;
    const double sign_s = sign_of(x) * ((turn.quarter & 2) != 0 ? -1 : 1);
    const double sign_c = ((turn.quarter + 1) & 2) != 0 ? -1 : 1;
    const t_dd s = is_odd ? t.c : t.s, c = is_odd ? t.s : t.c;
    t_sincos result = {fast_two_sum(sign_s * s.hi, sign_s * s.lo),
                       fast_two_sum(sign_c * c.hi, sign_c * c.lo)};
    return result;
}
typedef struct t_circular {
    t_extended s, c;
} t_circular;
MYLIB_FN_APART t_circular circular(double x)
{
    const t_sincos t = circular_sums(x, reduce_any(x));
    t_circular result = {make_extended(t.s.hi, t.s.lo, 0), make_extended(t.c.hi, t.c.lo, 0)};
    return result;
}

/* e^x, to about 2^-58. */
MYLIB_FN_APART t_extended exp_extended(double x)
{
    const double within = x < -2000 ? -2000 : x > 2000 ? 2000 : x;
    const t_scaled e = exp_scaled(within);
    if (!is_finite_f64(x))
        return make_extended(x < 0 ? 0 : x, 0, 0);
    return make_extended(e.hi, e.lo, e.n);
}

/* sinh x and cosh x, to about 2^-56; first for |x| <= 40. */
MYLIB_FN t_sincos hyperbolic_sums(double x)
{
    const double size = magnitude(x), sign = sign_of(x);
    const t_halves h = halves_of_exp(size, 1);
    const t_dd s = size < 0x1p-28 ? make_dd(size, size * (size * size) * 0x1.5555555555555p-3)
                                  : sinh_of_halves(h);
    const t_dd c = cosh_of_halves(h);
    t_sincos result = {fast_two_sum(sign * s.hi, sign * s.lo), fast_two_sum(c.hi, c.lo)};
    return result;
}
MYLIB_FN_APART t_circular hyperbolic(double x)
{
    const double size = magnitude(x), sign = sign_of(x);
    t_circular result;
    if (size <= 40) {
        const t_sincos t = hyperbolic_sums(x);
        result.s = make_extended(t.s.hi, t.s.lo, 0);
        result.c = make_extended(t.c.hi, t.c.lo, 0);
        return result;
    }
    const t_extended e = exp_extended(size);
    result.c = make_extended(e.hi, e.lo, e.n - 1);
    result.s = make_extended(sign * e.hi, sign * e.lo, e.n - 1);
    return result;
}

/* a cos y + i b sin y; an infinite a stays infinite beside a NaN. */
MYLIB_FN_APART t_c128 times_turn(t_extended a, t_extended b, t_circular turn)
{
    const double re = round_extended(extended_multiply(a, turn.c));
    const double im = round_extended(extended_multiply(b, turn.s));
    return make_c128(re != re && is_infinite_f64(a.hi) ? a.hi : re, im);
}

/* Tells whether x is far from overflow and underflow.  The same products then need no scale. */
MYLIB_FN int is_easy(double x, double limit)
{
    return magnitude(x) < limit && magnitude(x) > 0x1p-200;
}
MYLIB_FN t_c128 times_easy_turn(t_dd a, t_dd b, double scale, double y)
{
    const t_sincos t = circular_sums(y, reduce_easy(magnitude(y)));
    return make_c128(dd_multiply(a, t.c).hi * scale, dd_multiply(b, t.s).hi * scale);
}

/* Each part within 0.8 ulp: a half, and a relative error of 2^-56, at most 1/4 ulp. */
MYLIB_FN_APART t_c128 exp_c128(t_c128 z)
{
    if (magnitude(z.re) < 600 && is_easy(z.im, TRIGONOMETRIC_LIMIT)) {
        const t_scaled e = exp_scaled(z.re);
        const t_dd sum = fast_two_sum(e.hi, e.lo);
        return times_easy_turn(sum, sum, power_of_2(e.n), z.im);
    }
    const t_extended e = exp_extended(z.re);
    return times_turn(e, e, circular(z.im));
}
/* Likewise; the factors have errors of 2^-56 and 2^-57: within 0.9 ulp. */
#define DEFINE_HYPERBOLIC(op, a, b) \
    MYLIB_FN_APART t_c128 op##_c128(t_c128 z) \
    { \
        if (is_easy(z.re, 40) && is_easy(z.im, TRIGONOMETRIC_LIMIT)) { \
            const t_sincos h = hyperbolic_sums(z.re); \
            return times_easy_turn(h.a, h.b, 1, z.im); \
        } \
        const t_circular h = hyperbolic(z.re); \
        return times_turn(h.a, h.b, circular(z.im)); \
    }
DEFINE_HYPERBOLIC(sinh, s, c)
DEFINE_HYPERBOLIC(cosh, c, s)
MYLIB_FN t_c128 sin_c128(t_c128 z) { return times_minus_i(sinh_c128(times_i(z))); }
MYLIB_FN t_c128 cos_c128(t_c128 z) { return cosh_c128(times_i(z)); }
DEFINE_COMPLEX_QUICK(exp)
DEFINE_COMPLEX_QUICK(sinh)
DEFINE_COMPLEX_QUICK(cosh)
DEFINE_COMPLEX_QUICK(sin)
DEFINE_COMPLEX_QUICK(cos)

/* ---- expm1, tan, tanh ---- */

/* e^x - 1 for |x| <= 40, with a relative error of 2^-58. */
MYLIB_FN t_dd expm1_dd(double x)
{
    const t_reduced r = reduce_exp(x);
    const t_dd s = expm1_of_reduced(r), one = two_sum(power_of_2(r.n), -1);
    const t_dd scaled = make_dd(s.hi * power_of_2(r.n), s.lo * power_of_2(r.n));
    const t_dd sum = two_sum(one.hi, scaled.hi);
    return fast_two_sum(sum.hi, sum.lo + (one.lo + scaled.lo));
}

/*
 * The real part, e^x cos y - 1, cancels along a curve; near 0 it is (e^x - 1) cos y - sin^2 y / (1
 * + cos y).  It is within 0.6 ulp of the modulus, the imaginary part within the bound of exp.
 */
MYLIB_FN_APART t_c128 expm1_c128(t_c128 z)
{
    const t_extended e = exp_extended(z.re);
    const t_circular turn = circular(z.im);
    const t_c128 w = times_turn(e, e, turn);
    if (!(magnitude(z.re) <= 40) || !is_finite_f64(z.im))
        return make_c128(w.re - 1, w.im);
    const t_dd c = dd_of_extended(turn.c), s = dd_of_extended(turn.s);
    t_dd re;
    if (c.hi > 0) {
        const t_dd less = dd_divide(dd_multiply(s, s), dd_add_f64(c, 1));
        re = dd_add(dd_multiply(expm1_dd(z.re), c), dd_negative(less));
    } else {
        re = dd_add_f64(dd_multiply(dd_of_extended(e), c), -1);
    }
    return make_c128(re.hi == 0 ? with_sign_of(0, z.re) : re.hi + re.lo, w.im);
}

/*
 * tanh(x + iy) = (sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y), which neither cancels nor
 * overflows up to 22; from there on it is 1 + 4i sin y cos y e^(-2x).  Each part within 1 ulp.
 */
MYLIB_FN_APART t_c128 tanh_c128(t_c128 z)
{
    if (is_easy(z.re, 22) && is_easy(z.im, TRIGONOMETRIC_LIMIT)) {
        const t_sincos h = hyperbolic_sums(z.re);
        const t_sincos t = circular_sums(z.im, reduce_easy(magnitude(z.im)));
        const t_dd divisor = dd_add(dd_multiply(h.s, h.s), dd_multiply(t.c, t.c));
        return make_c128(dd_divide(dd_multiply(h.s, h.c), divisor).hi,
                         dd_divide(dd_multiply(t.s, t.c), divisor).hi);
    }
    const t_circular turn = circular(z.im);
    const t_extended turns = extended_multiply(turn.s, turn.c);
    if (magnitude(z.re) > 22) {
        const int is_nan = is_finite_f64(z.re) && !is_finite_f64(z.im);
        t_extended im = extended_multiply(turns, exp_extended(-2 * magnitude(z.re)));
        im.n += 2;
        return make_c128(is_nan ? NAN_F64 : sign_of(z.re), is_nan ? NAN_F64 : round_extended(im));
    }
    const t_circular h = hyperbolic(z.re);
    const t_dd sum = dd_add(dd_of_extended(extended_multiply(h.s, h.s)),
                            dd_of_extended(extended_multiply(turn.c, turn.c)));
    const t_extended divisor = make_extended(sum.hi, sum.lo, 0);
    return make_c128(round_extended(extended_divide(extended_multiply(h.s, h.c), divisor)),
                     round_extended(extended_divide(turns, divisor)));
}
MYLIB_FN t_c128 tan_c128(t_c128 z) { return times_minus_i(tanh_c128(times_i(z))); }
DEFINE_COMPLEX_QUICK(expm1)
DEFINE_COMPLEX_QUICK(tanh)
DEFINE_COMPLEX_QUICK(tan)

/* ---- log, log2, log10, log1p ---- */

/*
 * a + x^2 + y^2 for |x|, |y| <= 2, with a relative error of 2^-100 however much it cancels.  The
 * five terms, two of which are errors of the squares, are added with their errors, and these again
 * (Ogita, Rump and Oishi, SIAM Journal on Scientific Computing 26, 2005).
 */
MYLIB_FN_APART t_dd sum_with_squares(double a, double x, double y)
{
    const t_dd x2 = two_product(x, x), y2 = two_product(y, y);
    double terms[5] = {y2.lo, x2.lo, y2.hi, x2.hi, a};
    for (int pass = 0; pass < 4; pass++) {
        for (int i = 1; i < 5; i++) {
            const t_dd sum = two_sum(terms[i], terms[i - 1]);
            terms[i] = sum.hi;
            terms[i - 1] = sum.lo;
        }
    }
    return fast_two_sum(terms[4], terms[3] + (terms[2] + (terms[1] + terms[0])));
}

/*
 * log |w|^2 for w = x + iy with x a sum, to about 2^-57.  Near 1 it is log(1 + u) with u = |w|^2 -
 * 1 = a + b^2 + y^2; callers choose a and b so that this cancels exactly.  Not halved: half of a
 * subnormal number would be rounded.
 */
MYLIB_FN_APART t_dd log_square(t_dd x, double y, double a, double b)
{
    const double size_x = magnitude(x.hi), size_y = magnitude(y);
    const double larger = size_x > size_y ? size_x : size_y;
    if (is_infinite_f64(x.hi) || is_infinite_f64(y))
        return make_dd(INFINITY_F64, 0);
    if (x.hi != x.hi || y != y)
        return make_dd(x.hi + y, 0);
    if (larger == 0)
        return make_dd(-INFINITY_F64, 0);
    if (larger < 2) {
        const double square = x.hi * x.hi + y * y;
        if (square > 0.5 && square < 2) {
            const t_dd u = sum_with_squares(a, b, y), log_u = log1p_dd(u);
            const int is_tiny = magnitude(u.hi) < 0x1p-60;
            return is_tiny ? u : log_u;
        }
    }
    const double scale = larger > 0x1p400 ? 0x1p-600 : larger < 0x1p-400 ? 0x1p600 : 1;
    const double octaves = larger > 0x1p400 ? 1200 : larger < 0x1p-400 ? -1200 : 0;
    const double re = x.hi * scale, im = y * scale;
    const t_dd re2 = two_product(re, re), im2 = two_product(im, im);
    const t_dd square = dd_add(fast_two_sum(re2.hi, FMA(2 * re, x.lo * scale, re2.lo)), im2);
    return dd_add(dd_multiply_f64(make_dd(LN_2_HI, LN_2_LO), octaves), log_dd(square));
}
MYLIB_FN double rounded(t_dd x) { return is_finite_f64(x.hi) ? x.hi + x.lo : x.hi; }

/*
 * The angle of x + iy, both sums: within 0.2 ulp of `hi`.  Signs and special values are those of
 * arctan2 of the first terms.  If one number is far larger, the second terms matter only in a
 * quotient.
 */
MYLIB_FN_APART t_dd angle_of_sums(t_dd y, t_dd x)
{
    const double size_x = magnitude(x.hi), size_y = magnitude(y.hi);
    double scale = 1;
    if (arctan2_is_hard_f64(y.hi, x.hi)) {
        const int is_far = !(size_x <= size_y * 0x1p60 && size_y <= size_x * 0x1p60);
        const int is_infinite = size_x == INFINITY_F64 || size_y == INFINITY_F64;
        if (is_far || is_infinite || size_x == 0) {
            const double hi = arctan2_hard_f64(y.hi, x.hi);
            const int is_exact = magnitude(hi) <= 0x1p-960 && x.lo == 0 && y.lo == 0;
            if (hi == 0 || is_exact || !(x.hi > size_y * 0x1p60))
                return make_dd(hi, hi == 0 ? hi : 0);
            /* Scaled up: the remainder of a tiny y, or of a subnormal quotient, matters. */
            const double up = size_y <= 0x1p64 ? 0x1p200 : 1, q = y.hi * up / x.hi;
            const double left = FMA(-q, x.hi, y.hi * up) + FMA(-q, x.lo, y.lo * up);
            const t_dd quotient = fast_two_sum(q, left / x.hi);
            return make_dd(quotient.hi / up, quotient.lo / up);
        }
        scale = size_x > 1 ? 0x1p-600 : 0x1p600;
    }
    const double sign_x = sign_of(x.hi), sign_y = sign_of(y.hi);
    const double lo_x = sign_x * scale * x.lo, lo_y = sign_y * scale * y.lo;
    const t_octant o = octant_of(size_y * scale, size_x * scale);
    t_dd n = two_sum(o.n_y, -o.n_x), d = two_sum(o.d_y, o.d_x);
    n.lo += (o.n_y != 0 ? lo_y : 0) - (o.n_x != 0 ? lo_x : 0);
    d.lo += (o.d_y != 0 ? lo_y : 0) + (o.d_x != 0 ? lo_x : 0);
    n = make_dd(sign_x * n.hi, sign_x * n.lo);
    const t_dd angle = angle_dd(arctan2_eighths(o.eighths, x.hi), n, d);
    return make_dd(sign_y * angle.hi, sign_y * angle.lo);
}
MYLIB_FN t_dd angle_of(double y, double x) { return angle_of_sums(make_dd(y, 0), make_dd(x, 0)); }

/* Each part within 0.7 ulp. */
MYLIB_FN_APART t_c128 log_c128(t_c128 z)
{
    return make_c128(0.5 * rounded(log_square(make_dd(z.re, 0), z.im, -1, z.re)),
                     angle_of(z.im, z.re).hi);
}
/* log z to another base: the real part within 0.6 ulp, the imaginary one within 1. */
MYLIB_FN_APART t_c128 log_to_base(t_c128 z, double hi, double lo)
{
    const t_dd twice = log_square(make_dd(z.re, 0), z.im, -1, z.re);
    const t_dd re = to_base(twice, 0.5 * hi, 0.5 * lo);
    /* An angle that may be subnormal is multiplied before it is rounded. */
    const int is_tiny = magnitude(z.im) * 0x1p900 < z.re;
    const t_dd angle = angle_of(z.im * (is_tiny ? 0x1p100 : 1), z.re);
    const double im = FMA(angle.hi, hi, FMA(angle.hi, lo, angle.lo * hi));
    return make_c128(is_finite_f64(twice.hi) ? re.hi + re.lo : twice.hi,
                     im * (is_tiny ? 0x1p-100 : 1));
}
MYLIB_FN t_c128 log2_c128(t_c128 z) { return log_to_base(z, PER_LN_2_HI, PER_LN_2_LO); }
MYLIB_FN t_c128 log10_c128(t_c128 z) { return log_to_base(z, PER_LN_10_HI, PER_LN_10_LO); }
/* Each part within 0.7 ulp. */
MYLIB_FN_APART t_c128 log1p_c128(t_c128 z)
{
    const t_dd x = two_sum(1, z.re);
    return make_c128(0.5 * rounded(log_square(x, z.im, 2 * z.re, z.re)),
                     angle_of_sums(make_dd(z.im, 0), x).hi);
}
DEFINE_COMPLEX_QUICK(log)
DEFINE_COMPLEX_QUICK(log2)
DEFINE_COMPLEX_QUICK(log10)
DEFINE_COMPLEX_QUICK(log1p)

/* ---- arcsin, arccos, arcsinh, arccosh ---- */

/* sqrt(x^2 + y^2) for x >= 0, which is 0 or at least 2^-53, and y >= 0, both below 2^61. */
MYLIB_FN_APART t_dd hypot_dd(t_dd x, double y)
{
    const t_dd x2 = dd_multiply(x, x), y2 = two_product(y, y);
    return x.hi == 0 ? make_dd(y, 0) : dd_sqrt(dd_add(x2, y2));
}
MYLIB_FN t_dd root_dd(t_dd x) { return x.hi > 0 ? dd_sqrt(x) : make_dd(0, 0); }
/* log(1 + u) for u >= 0, as a double. */
MYLIB_FN double log1p_rounded(t_dd u)
{
    const t_dd log_u = log1p_dd(u);
    return u.hi < 0x1p-60 ? u.hi : log_u.hi + log_u.lo;
}

/*
 * For x, y >= 0, by Hull, Fairgrieve and Tang (ACM Transactions on Mathematical Software 23, 1997):
 * with r and s the distances of x + iy from -1 and 1, and a = (r + s) / 2,
 *
 *     arcsin(x + iy) = arctan(x / root) + i log(a + sqrt(a^2 - 1)),   root = sqrt(a^2 - x^2)
 *
 * From r - (1 + x) = y^2 / (r + (1 + x)) and s - |1 - x| = y^2 / (s + |1 - x|) come a - 1 and a - x
 * as sums of positive terms: one of the two, by the sign of 1 - x, is y times a small sum, which is
 * scaled if y^2 could lose bits.
 */
typedef struct t_arc {
    t_dd root;
    double log;
} t_arc;
MYLIB_FN_APART t_arc arc_of(double x, double y)
{
    t_arc arc;
    if (!(x < 0x1p60 && y < 0x1p60)) {
        const t_dd ln_4 = make_dd(2 * LN_2_HI, 2 * LN_2_LO);
        const t_dd twice = log_square(make_dd(x, 0), y, 0, 0);
        arc.root = make_dd(y, 0);
        arc.log = is_finite_f64(twice.hi) ? 0.5 * rounded(dd_add(twice, ln_4)) : twice.hi;
        return arc;
    }
    if (x == 1 && y < 0x1p-400) {
        arc.root = make_dd(SQRT(y), 0);
        arc.log = arc.root.hi;
        return arc;
    }
    const int is_inside = x < 1;
    const double scale = y < 0x1p-400 ? 0x1p600 : 1, unscale = y < 0x1p-400 ? 0x1p-600 : 1;
    const t_dd plus = two_sum(1, x), minus = is_inside ? two_sum(1, -x) : two_sum(x, -1);
    const t_dd far = dd_add(hypot_dd(plus, y), plus), near = dd_add(hypot_dd(minus, y), minus);
    const t_dd scaled_y = make_dd(y * scale, 0), over_far = dd_divide(scaled_y, far);
    const t_dd over_near = dd_divide(scaled_y, near);
    const t_dd half_sum = dd_multiply_f64(dd_add(over_far, over_near), 0.5);
    const t_dd small = dd_multiply_f64(half_sum, y * unscale);
    const t_dd more = dd_multiply_f64(over_far, y * unscale);
    const t_dd large = dd_multiply_f64(dd_add(near, more), 0.5);
    const t_dd less_1 = is_inside ? small : large; /* a - 1 */
    const t_dd and_1 = dd_add_f64(less_1, 2), and_x = dd_add(less_1, plus);
    const t_dd scaled_small = dd_multiply_f64(half_sum, scaled_y.hi);
    t_dd small_root = root_dd(dd_multiply(scaled_small, is_inside ? and_1 : and_x));
    const t_dd large_root = root_dd(dd_multiply(large, is_inside ? and_x : and_1));
    small_root = make_dd(small_root.hi * unscale, small_root.lo * unscale);
    arc.root = is_inside ? large_root : small_root;
    arc.log = log1p_rounded(dd_add(less_1, is_inside ? small_root : large_root));
    return arc;
}

/*
 * The logarithms are within 0.6 ulp, the angles within 0.7.  The angle of x = 0 is known even
 * beside a NaN.
 */
MYLIB_FN_APART t_c128 arcsin_c128(t_c128 z)
{
    const t_arc arc = arc_of(magnitude(z.re), magnitude(z.im));
    return make_c128(z.re == 0 ? z.re : angle_of_sums(make_dd(z.re, 0), arc.root).hi,
                     sign_of(z.im) * arc.log);
}
MYLIB_FN_APART t_c128 arccos_c128(t_c128 z)
{
    const t_arc arc = arc_of(magnitude(z.re), magnitude(z.im));
    return make_c128(z.re == 0 ? HALF_PI_HI : angle_of_sums(arc.root, make_dd(z.re, 0)).hi,
                     -sign_of(z.im) * arc.log);
}
MYLIB_FN t_c128 arcsinh_c128(t_c128 z) { return times_minus_i(arcsin_c128(times_i(z))); }
MYLIB_FN t_c128 arccosh_c128(t_c128 z)
{
    const t_c128 w = arccos_c128(z);
    return make_c128(magnitude(w.im), sign_of(z.im) * w.re);
}
DEFINE_COMPLEX_QUICK(arcsin)
DEFINE_COMPLEX_QUICK(arccos)
DEFINE_COMPLEX_QUICK(arcsinh)
DEFINE_COMPLEX_QUICK(arccosh)

/* ---- arctanh, arctan ---- */

/* x / (x^2 + y^2), x and y finite and one of them large. */
MYLIB_FN_APART double real_of_reciprocal(double x, double y)
{
    const t_extended wide_x = make_extended(x, 0, 0), wide_y = make_extended(y, 0, 0);
    const t_extended larger = x > y ? wide_x : wide_y, smaller = x > y ? wide_y : wide_x;
    const t_extended p = extended_multiply(larger, larger), q = extended_multiply(smaller, smaller);
    const double scale = p.n - q.n > 200 ? 0 : power_of_2(q.n - p.n);
    const t_dd sum = dd_add(make_dd(p.hi, p.lo), make_dd(q.hi * scale, q.lo * scale));
    return round_extended(extended_divide(wide_x, make_extended(sum.hi, sum.lo, p.n)));
}
/* log(1 + 4x / ((1 - x)^2 + y^2)) / 4, x and y below 2^60 */
MYLIB_FN_APART double arctanh_log(double x, double y)
{
    const t_dd d = two_sum(1, -x);
    if (x == 1 && y < 0x1p-400) {
        const t_dd log_y = log_dd(make_dd(y, 0)), ln_2 = make_dd(LN_2_HI, LN_2_LO);
        return y == 0 ? INFINITY_F64 : 0.5 * rounded(dd_add(ln_2, dd_negative(log_y)));
    }
    const t_dd square = dd_add(dd_multiply(d, d), two_product(y, y));
    t_extended q = extended_divide(make_extended(x, 0, 2), make_extended(square.hi, square.lo, 0));
    const t_dd small = dd_of_extended(q);
    if (small.hi >= 0x1p-60)
        return 0.25 * log1p_rounded(small);
    q.n -= 2;
    return round_extended(q);
}
/*
 * By Kahan ("Branch cuts", 1987).  The real part is that above, within 0.6 ulp; the imaginary part
 * is half the angle of 1 - x^2 - y^2 and 2y, within 0.7.
 */
MYLIB_FN_APART t_c128 arctanh_c128(t_c128 z)
{
    const double x = magnitude(z.re), y = magnitude(z.im);
    double re, im;
    if (x == INFINITY_F64 || y == INFINITY_F64) {
        re = 0;
        im = y == y ? HALF_PI_HI : y;
    } else if (x != x || y != y) {
        re = x == 0 ? 0 : NAN_F64;
        im = NAN_F64;
    } else if (x >= 0x1p60 || y >= 0x1p60) {
        re = real_of_reciprocal(x, y);
        im = HALF_PI_HI;
    } else {
        re = arctanh_log(x, y);
        const t_dd rest = dd_negative(sum_with_squares(-1, x, y));
        im = x == 1 && y == 0 ? 0 : 0.5 * angle_of_sums(make_dd(2 * y, 0), rest).hi;
    }
    return make_c128(sign_of(z.re) * re, sign_of(z.im) * im);
}
MYLIB_FN t_c128 arctan_c128(t_c128 z) { return times_minus_i(arctanh_c128(times_i(z))); }
DEFINE_COMPLEX_QUICK(arctanh)
DEFINE_COMPLEX_QUICK(arctan)
