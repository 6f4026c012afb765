/*
 * logaddexp.h - log(e^x + e^y) of f16, f32 and f64.
 *
 * It is m + log(1 + e^d), with m the larger of x and y and d <= 0 their difference.  If m is
 * negative the two terms may cancel, so the logarithm is a sum with a relative error of 2^-71.
 * Exponential and logarithm are as in exponential.h and logarithm.h, except that the first terms of
 * their series are sums too.
 */
#pragma once

#include "elementary/exponential.h"
#include "elementary/logarithm.h"
#include "elementary/numbers.h"

/*
 * (a + a_lo) + x * p, where |x p| is below a / 2; its error is near 2^-106 of a.  a_lo is a
 * constant.  The first term of a series has a p in one double, and others may have an x in two.
 */
MYLIB_FN_IN_LINE t_dd first_term(double a, double a_lo, double x, double p)
{
    const double hi = FMA(x, p, a), rest = FMA(x, p, a - hi);
    return make_dd(hi, a_lo == 0 ? rest : rest + a_lo);
}
MYLIB_FN_IN_LINE t_dd next_term(double a, double a_lo, double x, t_dd p)
{
    const t_dd sum = first_term(a, a_lo, x, p.hi);
    return make_dd(sum.hi, FMA(x, p.lo, sum.lo));
}
MYLIB_FN_IN_LINE t_dd next_term_dd(double a, double a_lo, t_dd x, t_dd p)
{
    const t_dd sum = first_term(a, a_lo, x.hi, p.hi);
    return make_dd(sum.hi, FMA(x.hi, p.lo, FMA(x.lo, p.hi, sum.lo)));
}

/*
 * e^x with a relative error of 2^-74, |x.hi| <= 2^15 and |x.lo| <= ulp(x.hi).  The terms from r^7
 * on are at most 2^-22.5 of it, so their roundings matter little.
 */
MYLIB_FN_IN_LINE t_scaled exp_to_74_bits(t_dd x)
{
    const t_reduced reduced = reduce_exp(x.hi);
    const t_dd sum = two_sum(reduced.rh, reduced.rl + x.lo);
    const double r = sum.hi, r2 = r * r;
    double even = FMA(r2, 0x1.ad281a0405fa8p-41, 0x1.6124fa26f3bf7p-33);
    double odd = FMA(r2, 0x1.9434ad8f72a4p-37, 0x1.1eed79eed7e8ap-29);
    even = FMA(r2, even, 0x1.ae6456557c453p-26);
    odd = FMA(r2, odd, 0x1.27e4fb79f9c2fp-22);
    even = FMA(r2, even, 0x1.71de3a55712c5p-19);
    odd = FMA(r2, odd, 0x1.a01a01a019cd5p-16);
    even = FMA(r2, even, 0x1.a01a01a01a014p-13);
    t_dd p = first_term(0x1.6c16c16c16c17p-10, -0x1.f49f49f49f49fp-65, r, FMA(r, odd, even));
    p = next_term(0x1.1111111111111p-7, 0x1.1111111111111p-63, r, p);
    p = next_term(0x1.5555555555555p-5, 0x1.5555555555555p-59, r, p);
    p = next_term(0x1.5555555555555p-3, 0x1.5555555555555p-57, r, p);
    p = next_term(0.5, 0, r, p);
    p = next_term(1, 0, r, p);
    p = next_term(1, 0, r, p);
    const t_dd e = fast_two_sum(p.hi, FMA(sum.lo, p.hi, p.lo));
    const t_scaled scaled = {e.hi, e.lo, reduced.n};
    return scaled;
}

/*
 * log(1 + x), 0 <= x <= 1, with a relative error of 2^-74.  The terms from s^9 on are at most
 * 2^-23.5 of it.  From the square root of 2 on it is ln 2 + log((1 + x) / 2).
 */
MYLIB_FN_IN_LINE t_dd log1p_to_74_bits(t_dd x)
{
    const int is_near = x.hi < 0x1.a827999fcef32p-2;
    const t_dd minus_1 = fast_two_sum(-1, x.hi);
    const double f = is_near ? x.hi : 0.5 * minus_1.hi;
    const double f_lo = is_near ? x.lo : 0.5 * (minus_1.lo + x.lo);
    const double half = 0.5 * f, d = 1 + half, d_lo = (half - (d - 1)) + 0.5 * f_lo;
    const double inverse = inverse_of(d), s = f * inverse;
    const double s_lo = FMA(-s, d_lo, FMA(-s, d, f) + f_lo) * inverse;
    const double z = s * s, z_lo = FMA(s + s, s_lo, FMA(s, s, -z)), z2 = z * z;
    double even = FMA(z2, 0x1.822a53aba9a6ep-25, 0x1.e1e0feefb0c1ep-21);
    double odd = FMA(z2, 0x1.9caa59e5828c9p-27, 0x1.af4edb83e6caap-23);
    even = FMA(z2, even, 0x1.3b13b1378a7b5p-16);
    odd = FMA(z2, odd, 0x1.111112aeab6dp-18);
    even = FMA(z2, even, 0x1.c71c71c71c6fbp-12);
    odd = FMA(z2, odd, 0x1.745d1745d5ad8p-14);
    const double rest = FMA(z, odd, even);
    const t_dd zz = make_dd(z, z_lo);
    t_dd p = first_term(0x1.2492492492492p-9, 0x1.2492492492492p-63, z, rest);
    p.lo = FMA(z_lo, rest, p.lo);
    p = next_term_dd(0x1.999999999999ap-7, -0x1.999999999999ap-61, zz, p);
    p = next_term_dd(0x1.5555555555555p-4, 0x1.5555555555555p-58, zz, p);
    p = next_term_dd(1, 0, zz, p);
    const double log_m = s * p.hi, log_m_lo = FMA(s, p.lo, FMA(s_lo, p.hi, FMA(s, p.hi, -log_m)));
    const t_dd sum = fast_two_sum(is_near ? 0 : 0x1.62e42fefa39efp-1, log_m);
    return make_dd(sum.hi, sum.lo + (log_m_lo + (is_near ? 0 : 0x1.abc9e3b39803fp-56)));
}

/* log(e^x + e^y) of finite x and y, with an error of 2^-71 of the larger of |m| and the result. */
MYLIB_FN_IN_LINE t_dd logaddexp_finite(double x, double y)
{
    const double m = x > y ? x : y, other = x > y ? y : x;
    const t_dd difference = two_sum(other, -m);
    const int is_near = difference.hi > -800;
    const t_dd d = make_dd(is_near ? difference.hi : -800, is_near ? difference.lo : 0);
    const t_scaled e = exp_to_74_bits(d);
    /* 2^n in two steps, since it may be subnormal. */
    const int64_t n = e.n < -600 ? -600 : e.n;
    const double scale = power_of_2(n), more = power_of_2(e.n - n);
    const t_dd log = log1p_to_74_bits(make_dd(e.hi * scale * more, e.lo * scale * more));
    const t_dd sum = two_sum(m, log.hi);
    return fast_two_sum(sum.hi, sum.lo + log.lo);
}
MYLIB_FN_IN_LINE t_dd logaddexp_wide(double x, double y)
{
    const t_dd value = logaddexp_finite(x, y);
    const double m = x > y ? x : y;
    const int is_finite = magnitude(m) < INFINITY_F64;
    const int is_nan = (x != x) | (y != y);
    return make_dd(is_nan ? x + y : is_finite ? value.hi : m, is_finite ? value.lo : 0);
}

/* ---- f64 ---- */

/*
 * Within 0.55 ulp, and 0.9 where the result is below 2^-1000, since there a part of it may be
 * subnormal.  Results that are not hard are at least 2^-13 |m|: the error is a half, and 2^-71 |m|
 * beside an ulp of at least 2^-66 |m|.
 */
MYLIB_FN_IN_LINE double logaddexp_easy_f64(double x, double y)
{
    const t_dd value = logaddexp_wide(x, y);
    return value.hi + value.lo;
}
/* Nearly everything cancels.  Compares integers: gcc wants one size in a loop. */
MYLIB_FN_IN_LINE int logaddexp_is_hard_f64(double x, double y)
{
    const double size = magnitude(x > y ? x : y), least = size < INFINITY_F64 ? size * 0x1p-13 : 0;
    const uint64_t above = bits_of_f64(magnitude(logaddexp_finite(x, y).hi)) - bits_of_f64(least);
    return (int)(above >> 63);
}

/*
 * logaddexp_f64() of ordinary x and y: the same steps, without those for special arguments.  A
 * subnormal power of e is left out: from d = -400 on, the result is m, unless m is tiny, which is
 * rare.  Infinite m, NaNs, and results near 0 beside m are rare too.
 */
MYLIB_FN_IN_LINE t_quick_f64 logaddexp_ordinary_f64(double x, double y)
{
    const double m = x > y ? x : y, other = x > y ? y : x;
    const t_dd difference = two_sum(other, -m);
    /* By the upper halves: if it is far, the lower ones do not matter. */
    const uint32_t high = (uint32_t)(bits_of_f64(difference.hi) >> 32);
    const uint32_t high_lo = (uint32_t)(bits_of_f64(difference.lo) >> 32);
    const int is_far = high - 0xc0790000 <= 0xfff00000 - 0xc0790000;
    const uint64_t d_hi =
        (uint64_t)(is_far ? 0xc0790000 : high) << 32 | (uint32_t)bits_of_f64(difference.hi);
    const uint64_t d_lo =
        (uint64_t)(is_far ? 0 : high_lo) << 32 | (uint32_t)bits_of_f64(difference.lo);
    const t_scaled e = exp_to_74_bits(make_dd(f64_of_bits(d_hi), f64_of_bits(d_lo)));
    const uint64_t e_hi = bits_of_f64(e.hi) + ((uint64_t)e.n << 52);
    const t_dd log = log1p_to_74_bits(make_dd(f64_of_bits(e_hi), e.lo * power_of_2(e.n)));
    const t_dd sum = two_sum(m, log.hi);
    const double value = sum.hi + (sum.lo + log.lo);
    const uint32_t size = (uint32_t)(bits_of_f64(value) >> 32) & 0x7fffffff;
    const uint32_t size_m = (uint32_t)(bits_of_f64(m) >> 32) & 0x7fffffff;
    const int is_small = (int32_t)size < (int32_t)(size_m - (12 << 20));
    const int is_tiny = is_far & (size_m < 0x2d300000);
    const t_quick_f64 quick = {value, (uint64_t)(is_small | is_tiny | (size >= 0x7ff00000)) << 63};
    return quick;
}

/* Numbers of 192 bits after the point: w[0] + 2^-32 w[1] + ... */
#define FIXED_WORDS 7
typedef struct t_fixed {
    uint32_t w[FIXED_WORDS];
} t_fixed;

/* n 2^(shift - 192) */
MYLIB_FN t_fixed make_fixed(uint64_t n, int shift)
{
    t_fixed x;
    for (int i = 0; i < FIXED_WORDS; i++) {
        const int right = 32 * (FIXED_WORDS - 1 - i) - shift;
        const uint64_t moved_left = right > -32 && right < 0 ? n << -right : 0;
        x.w[i] = (uint32_t)(right >= 0 && right < 64 ? n >> right : moved_left);
    }
    return x;
}
/* a / 2^shift, shift >= 0. */
MYLIB_FN t_fixed fixed_shift(t_fixed a, int shift)
{
    const int words = shift / 32, bits = shift % 32;
    for (int i = FIXED_WORDS - 1; i >= 0; i--) {
        const uint64_t low = i >= words ? a.w[i - words] : 0;
        const uint64_t high = i > words ? a.w[i - words - 1] : 0;
        a.w[i] = (uint32_t)((high << 32 | low) >> bits);
    }
    return a;
}
/* a - n b, which is not negative; |n| < 2^20. */
MYLIB_FN t_fixed fixed_subtract(t_fixed a, int64_t n, t_fixed b)
{
    int64_t carry = 0;
    for (int i = FIXED_WORDS - 1; i >= 0; i--) {
        const int64_t sum = (int64_t)a.w[i] - n * (int64_t)b.w[i] + carry;
        a.w[i] = (uint32_t)sum;
        carry = (sum - (int64_t)a.w[i]) / ((int64_t)1 << 32);
    }
    return a;
}
/* a b, less at most 2^-188. */
MYLIB_FN t_fixed fixed_multiply(t_fixed a, t_fixed b)
{
    t_fixed product = {{0}};
    for (int i = FIXED_WORDS - 1; i >= 0; i--) {
        uint64_t carry = 0;
        for (int j = FIXED_WORDS - 1 - i; j >= 0; j--) {
            const uint64_t sum = (uint64_t)a.w[i] * b.w[j] + product.w[i + j] + carry;
            product.w[i + j] = (uint32_t)sum;
            carry = sum >> 32;
        }
        if (i > 0)
            product.w[i - 1] = (uint32_t)carry;
    }
    return product;
}
MYLIB_FN t_fixed fixed_divide(t_fixed a, uint32_t divisor)
{
    uint64_t rest = 0;
    for (int i = 0; i < FIXED_WORDS; i++) {
        const uint64_t left = rest << 32 | a.w[i];
        a.w[i] = (uint32_t)(left / divisor);
        rest = left % divisor;
    }
    return a;
}
/*
 * 2^k (1 - e^-x), where x = 2^-k a, a < 1/2 and k >= -2: the Taylor series of an x below 2^-9, and
 * 1 - e^-2x = (1 - e^-x) (2 - (1 - e^-x)) for as often as x was halved.
 */
MYLIB_FN_APART t_fixed fixed_expm1(t_fixed a, int k)
{
    const t_fixed one = {{1}};
    t_fixed sum = one;
    int n = k < 8 ? 8 : k;
    const t_fixed x = fixed_shift(a, n);
    for (int term = 160 / (n + 1) + 2; term > 1; term--)
        sum = fixed_subtract(one, 1, fixed_divide(fixed_multiply(x, sum), (uint32_t)term));
    sum = fixed_multiply(a, sum);
    for (; n > k; n--)
        sum = fixed_subtract(sum, 1, fixed_shift(fixed_multiply(sum, sum), n + 1));
    return sum;
}
/* a - b, to 2^-63 of it. */
MYLIB_FN t_dd fixed_difference(t_fixed a, t_fixed b)
{
    int first = 0, k = 0;
    while (first < FIXED_WORDS - 1 && a.w[first] == b.w[first])
        first++;
    const int is_negative = a.w[first] < b.w[first];
    const t_fixed x = is_negative ? fixed_subtract(b, 1, a) : fixed_subtract(a, 1, b);
    while (k < FIXED_WORDS - 3 && x.w[k] == 0)
        k++;
    const t_dd sum = fast_two_sum((double)x.w[k] * 0x1p32, (double)x.w[k + 1]);
    const double unit = power_of_2(-32 * (k + 1)), sign = is_negative ? -unit : unit;
    return make_dd(sum.hi * sign, (sum.lo + (double)x.w[k + 2] * 0x1p-32) * sign);
}

/*
 * log(1 + s), where s = e^other - (1 - e^m) is small.  Both terms times 2^k, which makes |m| at
 * least 1/4 and less than 1/2, are computed to 2^-180.  2^k s is at least about 2^-117: there are
 * 2^62 values of m, and beside each one of other for which s is below 2^-55.
 */
MYLIB_FN_APART double logaddexp_hard_f64(double x, double y)
{
    const t_fixed one = {{1}};
    const t_fixed ln_2 = {
        {0, 0xb17217f7, 0xd1cf79ab, 0xc9e3b398, 0x03f2f6af, 0x40f34326, 0x7298b62d}};
    const double size_m = magnitude(x > y ? x : y), size_other = magnitude(x > y ? y : x);
    const int is_small = size_m < 0x1p-1022;
    const uint64_t fraction = 0x000fffffffffffff, hidden = 0x0010000000000000;
    const uint64_t bits_m = bits_of_f64(is_small ? size_m * 0x1p54 : size_m);
    const int k = 1021 - (int)(bits_m >> 52) + (is_small ? 54 : 0);
    const t_fixed minus_expm1 = fixed_expm1(make_fixed((bits_m & fraction) | hidden, 138), k);
    /* -log of 2^k e^other, which is below 2 */
    const uint64_t bits = bits_of_f64(size_other), n = (bits & fraction) | hidden;
    const t_fixed z = fixed_subtract(make_fixed(n, (int)(bits >> 52) - 883), k, ln_2);
    const t_fixed exp = fixed_subtract(one, 4, fixed_expm1(fixed_shift(z, 2), -2));
    const t_dd s = fixed_difference(exp, minus_expm1);
    const double q = divide_by_power(s.hi, k);
    const double series = FMA(FMA(-0.25, q, 0x1.5555555555555p-2), q, -0.5);
    const double result = s.hi + FMA(s.hi * q, series, s.lo);
    return divide_by_power(result, k);
}
MYLIB_FN double logaddexp_f64(double x, double y)
{
    return logaddexp_is_hard_f64(x, y) ? logaddexp_hard_f64(x, y) : logaddexp_easy_f64(x, y);
}

/* ---- f32 and f16 ---- */

/* hi + lo, with |lo| <= |hi|, as one double that a rounding to f32 or f16 leaves correct. */
MYLIB_FN double signed_to_odd(t_dd x)
{
    return magnitude(x.hi) < INFINITY_F64 ? odd_sum(x.hi, x.lo) : x.hi;
}
/*
 * In f64, for nearly all arguments.  The error is below 2^-49 of the larger of |m| and the result.
 * Rare: results within a relative 2^-42 of a middle of two floats, those that cancel more than 7
 * bits, those that f32 has in fewer bits, and NaNs from infinities.
 */
MYLIB_FN_IN_LINE t_quick logaddexp_quick_f32(float x, float y)
{
    const double m = x > y ? x : y, other = x > y ? y : x, d = other - m;
    const double e = exp_within(d < -200 ? -200 : d);
    const int is_near = e < 0x1.a827999fcef32p-2;
    const double log_m = log1p_near_0(is_near ? e : FMA(0.5, e, -0.5));
    const double value = m + (log_m + (is_near ? 0 : 0x1.62e42fefa39efp-1));
    const double size = magnitude(value);
    const uint64_t is_close = ((bits_of_f64(value) - 0x0ffff800) & 0x1fffffff) <= 0x1000;
    const int is_whole = (size >= magnitude(m) * 0x1p-7) & (size >= 0x1p-126);
    const t_quick quick = {(float)value, (uint32_t)is_close | (uint32_t)!is_whole};
    return quick;
}
MYLIB_FN_IN_LINE float logaddexp_easy_f32(float x, float y)
{
    return (float)logaddexp_wide(x, y).hi;
}
/*
 * 1 if the rounding is in doubt.  The error is at most 2^-70 of the larger of |m| and the result.
 * An error of 3 ulps or more is tried out: value -+ twice as much rounds to two floats.  Where it
 * is smaller, the value is within 4 ulps of a middle between floats.
 */
MYLIB_FN_IN_LINE int logaddexp_is_hard_f32(float x, float y)
{
    const double value = logaddexp_wide(x, y).hi, error = magnitude(x > y ? x : y) * 0x1p-69;
    return is_near_middle(value) | ((float)(value - error) < (float)(value + error));
}
/* e^x - more, where more is 0 or 1, by the Taylor series, to a relative 2^-98; |x.hi| <= 200. */
MYLIB_FN t_dd exp_precise(t_dd x, double more)
{
    const double n = nearest_integer(x.hi * 0x1.71547652b82fep0);
    /* ln 2 to 2^-149: 42 bits, whose product with n is exact, and two doubles. */
    const t_dd high = dd_add_f64(x, -n * 0x1.62e42fefa38p-1);
    const t_dd ln_2 = make_dd(0x1.ef35793c7673p-45, 0x1.f97b57a079a19p-103);
    const t_dd r = dd_add(high, dd_multiply_f64(ln_2, -n));
    t_dd sum = make_dd(1, 0);
    for (int k = 28; k > 1; k--)
        sum = dd_add_f64(dd_divide(dd_multiply(sum, r), make_dd(k, 0)), 1);
    const double scale = power_of_2((int64_t)n);
    sum = dd_multiply(sum, r); /* e^r - 1 */
    return dd_add_f64(make_dd(sum.hi * scale, sum.lo * scale), scale - more);
}
/*
 * One step of Halley's method for e^v - 1 = e^d, d >= -200, from a logarithm that is near.  No
 * result lies in the middle of two floats: fewer than 2^64 pairs have a finite one, and it is
 * transcendental.
 */
MYLIB_FN_APART float logaddexp_hard_f32(float x, float y)
{
    const double m = x > y ? x : y, other = x > y ? y : x;
    const t_dd d = two_sum(other, -m);
    const t_dd wanted = exp_precise(d, 0);
    const t_dd near_log = log1p_to_74_bits(wanted), found = exp_precise(near_log, 1);
    const t_dd difference = dd_add(wanted, dd_negative(found));
    const t_dd sum = dd_add_f64(dd_add(wanted, found), 2);
    const t_dd step = dd_divide(make_dd(2 * difference.hi, 2 * difference.lo), sum);
    return (float)signed_to_odd(dd_add_f64(dd_add(near_log, step), m));
}
MYLIB_FN float logaddexp_f32(float x, float y)
{
    return logaddexp_is_hard_f32(x, y) ? logaddexp_hard_f32(x, y) : logaddexp_easy_f32(x, y);
}
/* No pair of f16 is hard: all were tried. */
MYLIB_FN t_f16 logaddexp_f16(t_f16 x, t_f16 y)
{
    return f16_from_f64(signed_to_odd(logaddexp_wide(f64_from_f16(x), f64_from_f16(y))));
}
