/*
 * quick_complex.h - functions of c64 in f64, for nearly all numbers.
 *
 * op_quick_c64(z) has the value of op_c64(z), which is that of c128 rounded to c64, or sets
 * is_rare: if a part is so near to the middle of two f32 that errors might decide, if it is not a
 * normal number or 0, or if z is special.
 */
#pragma once

#include "elementary/hyperbolic.h"
#include "elementary/inverse.h"
#include "elementary/quick_f64.h"
#include "elementary/trigonometric.h"
#include "scalar_ops.h"

typedef struct t_quick_c64 {
    t_c64 value;
    uint32_t is_rare;
} t_quick_c64;

/* Within so many ulps, with an ulp of c128. */
MYLIB_FN uint32_t is_rare_part(double part, uint32_t ulps)
{
    const double size = magnitude(part);
    const uint32_t is_normal = (size >= 0x1p-126) & (size < 0x1p128);
    return is_within_of_middle(part, ulps) | !(is_normal | (size == 0));
}
MYLIB_FN t_quick_c64 quick_parts(double re, double im, uint32_t ulps, int is_special)
{
    const uint32_t is_rare = is_rare_part(re, ulps) | is_rare_part(im, ulps);
    const t_quick_c64 quick = {make_c64((float)re, (float)im), is_rare | (uint32_t)is_special};
    return quick;
}
MYLIB_FN t_quick_c64 quick_times_minus_i(t_quick_c64 x)
{
    x.value = make_c64(x.value.im, -x.value.re);
    return x;
}

/* Each factor has a relative error below 2^-51. */
MYLIB_FN t_quick_c64 exp_quick_c64(t_c64 z)
{
    const double e = exp_near(z.re);
    return quick_parts(e * cos_near(z.im), e * sin_near(z.im), 32, is_hard_turn_f32(z.im));
}
MYLIB_FN t_quick_c64 sinh_quick_c64(t_c64 z)
{
    return quick_parts(sinh_near(z.re) * cos_near(z.im), cosh_near(z.re) * sin_near(z.im), 32,
                       is_hard_turn_f32(z.im));
}
MYLIB_FN t_quick_c64 cosh_quick_c64(t_c64 z)
{
    return quick_parts(cosh_near(z.re) * cos_near(z.im), sinh_near(z.re) * sin_near(z.im), 32,
                       is_hard_turn_f32(z.im));
}
/* A quotient by a positive d, with the sign of n even if n is 0. */
MYLIB_FN double signed_quotient(double n, double d) { return with_sign_of(quotient_near(n, d), n); }
/* The sum of squares does not cancel. */
MYLIB_FN t_quick_c64 tanh_quick_c64(t_c64 z)
{
    const double sh = sinh_near(z.re), ch = cosh_near(z.re);
    const double s = sin_near(z.im), c = cos_near(z.im), sum = FMA(sh, sh, c * c);
    return quick_parts(signed_quotient(sh * ch, sum), signed_quotient(s * c, sum), 128,
                       is_hard_turn_f32(z.im));
}
MYLIB_FN t_quick_c64 sin_quick_c64(t_c64 z)
{
    const t_c64 w = {-z.im, z.re};
    return quick_times_minus_i(sinh_quick_c64(w));
}
MYLIB_FN t_quick_c64 cos_quick_c64(t_c64 z)
{
    const t_c64 w = {-z.im, z.re};
    return cosh_quick_c64(w);
}
MYLIB_FN t_quick_c64 tan_quick_c64(t_c64 z)
{
    const t_c64 w = {-z.im, z.re};
    return quick_times_minus_i(tanh_quick_c64(w));
}

/*
 * log z, times `factor`.  |z|^2 is rounded once, and from |log |z|| = 2^-10 on the logarithm has a
 * relative error below 2^-43.
 */
MYLIB_FN t_quick_c64 quick_log_c64(t_c64 z, double factor)
{
    const double re = z.re, im = z.im, square = FMA(re, re, im * im);
    const t_split s = split(square, 0);
    const double twice = FMA(s.k, 0x1.62e42fefa39efp-1, log1p_near_0(s.m - 1));
    return quick_parts(0.5 * factor * twice, factor * arctan2_near(im, re), 0x800,
                       !(square > 0) | !(square < 0x1p300) | (magnitude(square - 1) < 0x1p-9));
}
MYLIB_FN t_quick_c64 log_quick_c64(t_c64 z) { return quick_log_c64(z, 1); }
MYLIB_FN t_quick_c64 log2_quick_c64(t_c64 z) { return quick_log_c64(z, PER_LN_2_HI); }
MYLIB_FN t_quick_c64 log10_quick_c64(t_c64 z) { return quick_log_c64(z, PER_LN_10_HI); }

/* log(1 + u) for a normal 1 + u, which is given; the relative error is that of u, and 2^-50. */
MYLIB_FN double quick_log1p(double u, double sum)
{
    const int is_near = magnitude(u) < 0.25;
    const t_split s = split(sum, 0);
    return FMA(is_near ? 0 : s.k, 0x1.62e42fefa39efp-1, log1p_near_0(is_near ? u : s.m - 1));
}
/*
 * u = |1 + z|^2 - 1 is the sum of three exact terms.  Where it does not cancel, only its last
 * rounding matters.
 */
MYLIB_FN t_quick_c64 log1p_quick_c64(t_c64 z)
{
    const double a = z.re, y2 = (double)z.im * z.im, d = 1 + a, square = FMA(d, d, y2);
    const t_dd real = two_sum(2 * a, a * a), sum = two_sum(real.hi, y2);
    const double u = sum.hi + (sum.lo + real.lo);
    const int is_easy = (magnitude(u) > 0x1p-40 * (magnitude(a) + y2)) & (square < 0x1p300);
    return quick_parts(0.5 * quick_log1p(u, square), arctan2_near(z.im, d), 0x80,
                       !is_easy | !(square > 0));
}

/*
 * The real part is (e^x - 1) cos y - sin^2 y / (1 + cos y), or e^x cos y - 1 if the cosine is
 * negative; it is left to others if it loses more than 8 bits.
 */
MYLIB_FN t_quick_c64 expm1_quick_c64(t_c64 z)
{
    const double e = exp_near(z.re), less_1 = expm1_within(clamp_f32(z.re, 200));
    const double s = sin_near(z.im), c = cos_near(z.im);
    const double first = (c > 0 ? less_1 : e) * c, rest = c > 0 ? quotient_near(s * s, 1 + c) : 1;
    const double re = first - rest;
    const int cancels = magnitude(re) <= 0x1p-8 * rest;
    return quick_parts(re, e * s, 0x1000, cancels | is_hard_turn_f32(z.im));
}

/* As arctanh_c128(): 1 - x^2 cancels only in the first factor, which is as good as exact. */
MYLIB_FN t_quick_c64 arctanh_quick_c64(t_c64 z)
{
    const double x = magnitude(z.re), y = magnitude(z.im), d = 1 - x;
    const double square = FMA(d, d, y * y), u = quotient_near(4 * x, square);
    const double re = 0.25 * quick_log1p(u, 1 + u);
    const double im = 0.5 * arctan2_near(2 * y, FMA(d, 1 + x, -y * y));
    return quick_parts(with_sign_of(re, z.re), with_sign_of(im, z.im), 0x80,
                       !(square > 0) | !(square < 0x1p300));
}
MYLIB_FN t_quick_c64 arctan_quick_c64(t_c64 z)
{
    const t_c64 w = {-z.im, z.re};
    return quick_times_minus_i(arctanh_quick_c64(w));
}

/* As arc_of() in complex.h: all terms are positive, and no product underflows. */
typedef struct t_quick_arc {
    double root, log;
    int is_special;
} t_quick_arc;
MYLIB_FN t_quick_arc quick_arc_of(double x, double y)
{
    const int is_inside = x < 1;
    const double plus = 1 + x, minus = magnitude(1 - x), y2 = y * y;
    const double far = SQRT(FMA(plus, plus, y2)) + plus, near = SQRT(FMA(minus, minus, y2)) + minus;
    const double over_far = quotient_near(y, far), over_near = quotient_near(y, near);
    const double small = 0.5 * (over_far + over_near) * y, large = 0.5 * FMA(over_far, y, near);
    const double less_1 = is_inside ? small : large, and_1 = less_1 + 2, and_x = less_1 + plus;
    const double small_root = SQRT(small * (is_inside ? and_1 : and_x));
    const double large_root = SQRT(large * (is_inside ? and_x : and_1));
    const double u = less_1 + (is_inside ? small_root : large_root);
    const t_quick_arc arc = {is_inside ? large_root : small_root, quick_log1p(u, 1 + u),
                             !(near > 0) | !(far < 0x1p300)};
    return arc;
}
MYLIB_FN t_quick_c64 arcsin_quick_c64(t_c64 z)
{
    const t_quick_arc arc = quick_arc_of(magnitude(z.re), magnitude(z.im));
    return quick_parts(arctan2_near(z.re, arc.root), with_sign_of(arc.log, z.im), 0x80,
                       arc.is_special);
}
MYLIB_FN t_quick_c64 arccos_quick_c64(t_c64 z)
{
    const t_quick_arc arc = quick_arc_of(magnitude(z.re), magnitude(z.im));
    return quick_parts(arctan2_near(arc.root, z.re), with_sign_of(arc.log, -z.im), 0x80,
                       arc.is_special);
}
MYLIB_FN t_quick_c64 arcsinh_quick_c64(t_c64 z)
{
    const t_c64 w = {-z.im, z.re};
    return quick_times_minus_i(arcsin_quick_c64(w));
}
MYLIB_FN t_quick_c64 arccosh_quick_c64(t_c64 z)
{
    t_quick_c64 w = arccos_quick_c64(z);
    w.value = make_c64((float)magnitude(w.value.im), (float)with_sign_of(w.value.re, z.im));
    return w;
}
