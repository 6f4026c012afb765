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
