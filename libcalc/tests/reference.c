#include "reference.h"

#include <complex.h>
#undef complex
#include <float.h>
#include <math.h>

__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;

/* 113 bits: a sum, product, quotient or root of two numbers of 53 bits can be rounded from it. */
#if LDBL_MANT_DIG >= 113
typedef long double quad;
#else
__extension__ typedef __float128 quad;
#endif

/* ---- Elements in memory ---- */

static double half_to_double(uint16_t bits)
{
    int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    double magnitude;
    if (exponent == 31)
        magnitude = fraction != 0 ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, -24);
    else
        magnitude = ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000) ? -magnitude : magnitude;
}

/* Rounded to nearest, ties to even: nearbyint() does it on a whole number of the last place. */
static uint16_t half_from_double(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (magnitude >= 65520)
        return sign | 0x7c00;
    if (magnitude < 0x1p-14)
        return sign | (uint16_t)nearbyint(magnitude * 0x1p24);
    int exponent;
    double fraction = nearbyint(frexp(magnitude, &exponent) * 2048);
    return (uint16_t)(sign + ((exponent + 14) << 10) + ((int)fraction - 1024));
}

/* Little-endian: an integer begins with its low bytes. */
static i128 load_integer(mylib_type type, const void *p)
{
    const int unused = 64 - 8 * (int)test_size(type);
    uint64_t bits = 0;
    if (!test_is_integer(type))
        test_give_up("not an integer type");
    memcpy(&bits, p, (size_t)test_size(type));
    if (type == MYLIB_BOOL)
        return bits != 0;
    return type <= MYLIB_I64 ? (int64_t)(bits << unused) >> unused : (i128)bits;
}

/* Keeps the low bits: that is what wrapping means. */
static void store_integer(mylib_type type, i128 value, void *p)
{
    const uint64_t bits = (uint64_t)value;
    memcpy(p, &bits, (size_t)test_size(type));
}

static i128 least_integer(mylib_type type)
{
    return type <= MYLIB_I64 ? -((i128)1 << (8 * test_size(type) - 1)) : 0;
}

static i128 most_integer(mylib_type type)
{
    return ((i128)1 << (8 * test_size(type) - (type <= MYLIB_I64))) - 1;
}

static double load_real(mylib_type type, const void *p)
{
    uint16_t half;
    float single;
    double value;
    switch (type) {
    case MYLIB_F16:
        memcpy(&half, p, sizeof half);
        return half_to_double(half);
    case MYLIB_F32:
        memcpy(&single, p, sizeof single);
        return single;
    default:
        memcpy(&value, p, sizeof value);
        return value;
    }
}

static void store_real(mylib_type type, double value, void *p)
{
    uint16_t half;
    float single;
    switch (type) {
    case MYLIB_F16:
        half = half_from_double(value);
        memcpy(p, &half, sizeof half);
        break;
    case MYLIB_F32:
        single = (float)value;
        memcpy(p, &single, sizeof single);
        break;
    default:
        memcpy(p, &value, sizeof value);
        break;
    }
}

/* One rounding to the type that 'type' is computed in: f16 is computed in f32. */
static double round_to(mylib_type type, quad value)
{
    return type == MYLIB_F64 ? (double)value : (double)(float)value;
}

static int digits_of(mylib_type type)
{
    return type == MYLIB_F16 ? 11 : type == MYLIB_F32 ? 24 : 53;
}

/* Half a unit in the last place of 1, and the smallest number, of a real type. */
static double half_unit(mylib_type type) { return type == MYLIB_F64 ? 0x1p-53 : 0x1p-24; }

static double smallest(mylib_type type) { return type == MYLIB_F64 ? 0x1p-1074 : 0x1p-149; }

/* The root to nearly all of 113 bits, by Newton from an approximation of 53. */
static quad quad_sqrt(quad x)
{
    quad scale = 1;
    if (!(x > 0))
        return x;
    while (x > 0x1p512) {
        x *= 0x1p-512;
        scale *= 0x1p256;
    }
    while (x < 0x1p-512) {
        x *= 0x1p512;
        scale *= 0x1p-256;
    }
    quad root = sqrt((double)x);
    for (int i = 0; i < 3; i++)
        root = (root + x / root) / 2;
    return root * scale;
}

/* ---- Integers ---- */

#define INTEGER(op, value) \
    static i128 integer_##op(i128 a, i128 b) \
    { \
        (void)a, (void)b; \
        return value; \
    }
INTEGER(add, a + b)
INTEGER(subtract, a - b)
/* Unsigned: the product of two u64 does not fit in a signed number of 128 bits. */
INTEGER(multiply, (i128)((u128)a *(u128)b))
INTEGER(divide, b == 0 ? 0 : a / b)
INTEGER(fmod, b == 0 ? 0 : a % b)
INTEGER(remainder, b == 0 ? 0 : (a % b + b) % b)
INTEGER(floor_divide, b == 0 ? 0 : (a - integer_remainder(a, b)) / b)
INTEGER(minimum, a < b ? a : b)
INTEGER(maximum, a > b ? a : b)
INTEGER(fmin, a < b ? a : b)
INTEGER(fmax, a > b ? a : b)
INTEGER(negative, -a)
INTEGER(absolute, a < 0 ? -a : a)
INTEGER(square, integer_multiply(a, a))
INTEGER(bitwise_and, a &b)
INTEGER(bitwise_or, a | b)
INTEGER(bitwise_xor, a ^ b)
INTEGER(invert, -a - 1)
INTEGER(floor, a)
INTEGER(ceil, a)
INTEGER(trunc, a)
INTEGER(positive, a)
INTEGER(conjugate, a)
INTEGER(real, a)
INTEGER(imag, 0)
INTEGER(sign, a<0 ? -1 : a> 0)
INTEGER(reciprocal, a == 0 ? 0 : 1 / a)

/* Bit by bit; counts that are not those of a shift move everything away. */
static _Thread_local int integer_bits; /* of the type */
static i128 integer_left_shift(i128 a, i128 b)
{
    for (int i = 0; i < integer_bits && b != 0; i++, b = b > 0 ? b - 1 : b)
        a = integer_multiply(a, 2);
    return b == 0 ? a : 0;
}
static i128 integer_right_shift(i128 a, i128 b)
{
    for (int i = 0; i < integer_bits && b != 0; i++, b = b > 0 ? b - 1 : b)
        a = (a - (a & 1)) / 2;
    return a;
}
static i128 integer_power(i128 a, i128 b)
{
    i128 power = 1;
    for (int i = 63; i >= 0; i--) {
        power = integer_multiply(power, power);
        if (b >> i & 1)
            power = integer_multiply(power, a);
    }
    return power;
}

static void integer_element(i128 (*function)(i128, i128), mylib_type type, const void *a,
                            const void *b, reference *expected)
{
    integer_bits = (int)test_size(type) * 8;
    store_integer(type, function(load_integer(type, a), load_integer(type, b)), expected->bits);
    memcpy(expected->other, expected->bits, sizeof expected->bits);
}

/* ---- Real numbers ---- */

#define REAL(op, value) \
    static quad real_##op(mylib_type type, double a, double b) \
    { \
        (void)type, (void)a, (void)b; \
        return value; \
    }
REAL(add, (quad)a + b)
REAL(subtract, (quad)a - b)
REAL(multiply, (quad)a *b)
REAL(divide, (quad)a / b)
REAL(minimum, isnan(a) || isnan(b) ? (quad)NAN : a < b ? a : b)
REAL(maximum, isnan(a) || isnan(b) ? (quad)NAN : a > b ? a : b)
REAL(fmin, isnan(a) ? b : isnan(b) || a < b ? a : b)
REAL(fmax, isnan(a) ? b : isnan(b) || a > b ? a : b)
REAL(fmod, isinf(a) || b == 0 ? (quad)NAN : fmod(a, b))
REAL(negative, -a)
REAL(absolute, fabs(a))
REAL(square, (quad)a *a)
REAL(sqrt, a < 0 ? (quad)NAN : isinf(a) ? (quad)a : quad_sqrt(a))
REAL(reciprocal, (quad)1 / a)
REAL(floor, isinf(a) ? a : copysign(a - fmod(a, 1) - (fmod(a, 1) < 0), a))
REAL(ceil, -real_floor(type, -a, b))
REAL(trunc, isinf(a) ? a : copysign(a - fmod(a, 1), a))
REAL(sign, isnan(a) ? a : (a > 0) - (a < 0))
REAL(copysign, signbit(a) == signbit(b) ? a : -a)
REAL(positive, a)
REAL(conjugate, a)
REAL(real, a)
REAL(imag, 0)

/*
 * Python's divmod, each step rounded to the type.  Where the quotient is small enough for the steps
 * to be exact, they must give what floor means; if not, the reference itself is wrong.
 */
static double real_divmod(mylib_type type, double a, double b, double *rest_ret)
{
    double rest = fmod(a, b), quotient, whole;
    if (b == 0) {
        *rest_ret = NAN;
        return (double)((quad)a / b);
    }
    quotient = round_to(type, (quad)round_to(type, (quad)a - rest) / b);
    if (rest == 0) {
        rest = copysign(0, b);
    } else if ((b < 0) != (rest < 0)) {
        rest = round_to(type, (quad)rest + b);
        quotient = round_to(type, (quad)quotient - 1);
    }
    if (quotient == 0) {
        whole = copysign(0, (double)((quad)a / b));
    } else {
        whole = floor(quotient);
        if (quotient - whole > 0.5)
            whole += 1;
    }
    *rest_ret = rest;

    double small = type == MYLIB_F64 ? 0x1p48 : 0x1p20;
    if (isfinite(a) && isfinite(b) && fabs(whole) < small) {
        quad exact = ((quad)a - fmod(a, b)) / b;
        if (fmod(a, b) != 0 && (fmod(a, b) < 0) != (b < 0))
            exact -= 1;
        if (exact != whole)
            test_give_up("the reference of floor_divide is wrong");
    }
    return whole;
}

static quad real_floor_divide(mylib_type type, double a, double b)
{
    double rest;
    return real_divmod(type, a, b, &rest);
}

static quad real_remainder(mylib_type type, double a, double b)
{
    double rest;
    real_divmod(type, a, b, &rest);
    return rest;
}

static quad real_rint(mylib_type type, double a, double b)
{
    double whole = (double)real_trunc(type, a, b), rest = fabs(a - whole);
    if (isinf(a))
        return a;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) != 0))
        whole += copysign(1, a);
    return copysign(whole, a);
}
/* One step of the type's smallest unit there, found by the exponent. */
static quad real_nextafter(mylib_type type, double a, double b)
{
    int least = type == MYLIB_F16 ? -24 : type == MYLIB_F32 ? -149 : -1074, exponent;
    double most = type == MYLIB_F16 ? 65504 : type == MYLIB_F32 ? FLT_MAX : DBL_MAX;
    if (isnan(a) || isnan(b))
        return (quad)NAN;
    if (a == b)
        return type == MYLIB_F16 ? a : b;
    if (a == 0)
        return copysign(ldexp(1, least), b);
    if (isinf(a))
        return copysign(most, a);
    double fraction = frexp(a, &exponent);
    int outward = (a < b) == (a > 0);
    int unit = exponent - digits_of(type) - (!outward && fabs(fraction) == 0.5);
    quad step = (quad)ldexp(1, unit < least ? least : unit), magnitude = (quad)fabs(a);
    magnitude = outward ? magnitude + step : magnitude - step;
    double result = magnitude > most ? (double)INFINITY : (double)magnitude;
    return copysign(result, a);
}

typedef quad real_function(mylib_type type, double a, double b);

static void real_element(real_function *function, mylib_type type, const void *a, const void *b,
                         reference *expected)
{
    double x = load_real(type, a), y = load_real(type, b);
    store_real(type, round_to(type, function(type, x, y)), expected->bits);
    memcpy(expected->other, expected->bits, sizeof expected->bits);
    /* Two zeros of different sign are equal, and either is the smaller. */
    if ((function == real_minimum || function == real_maximum || function == real_fmin ||
         function == real_fmax) &&
        x == y)
        memcpy(expected->other, a, (size_t)test_size(type));
}

/* ---- Elementary functions ---- */

/* By the C library, in long double; that results are within their bounds is tested in Python. */
#define ELEMENTARY(op, value) \
    static long double elementary_##op(long double a, long double b) \
    { \
        (void)b; \
        return value; \
    }
ELEMENTARY(sin, sinl(a))
ELEMENTARY(cos, cosl(a))
ELEMENTARY(tan, tanl(a))
ELEMENTARY(deg2rad, a *(3.14159265358979323846264338327950288L / 180))
ELEMENTARY(rad2deg, a *(180 / 3.14159265358979323846264338327950288L))
ELEMENTARY(exp, expl(a))
ELEMENTARY(exp2, exp2l(a))
ELEMENTARY(expm1, expm1l(a))
ELEMENTARY(arcsin, asinl(a))
ELEMENTARY(arccos, acosl(a))
ELEMENTARY(arctan, atanl(a))
ELEMENTARY(arctan2, atan2l(a, b))
ELEMENTARY(log, logl(a))
ELEMENTARY(log2, log2l(a))
ELEMENTARY(log10, log10l(a))
ELEMENTARY(log1p, log1pl(a))
ELEMENTARY(cbrt, cbrtl(a))
ELEMENTARY(hypot, hypotl(a, b))
ELEMENTARY(sinh, sinhl(a))
ELEMENTARY(cosh, coshl(a))
ELEMENTARY(tanh, tanhl(a))
ELEMENTARY(arcsinh, asinhl(a))
ELEMENTARY(arccosh, acoshl(a))
ELEMENTARY(arctanh, atanhl(a))
ELEMENTARY(power, powl(a, b))
ELEMENTARY(logaddexp, a == b ? a + logl(2) : fmaxl(a, b) + log1pl(expl(-fabsl(a - b))))
ELEMENTARY(erf, erfl(a))

static void elementary_element(long double (*function)(long double, long double), mylib_type type,
                               const void *a, const void *b, reference *expected)
{
    const double x = load_real(type, a), y = load_real(type, b), larger = fmax(x, y);
    long double value = function(x, y);
    double least = type == MYLIB_F16 ? 0x1p-24 : smallest(type);
    double unit = type == MYLIB_F16 ? 0x1p-10 : 2 * half_unit(type);
    store_real(type, (double)value, expected->bits);
    memcpy(expected->other, expected->bits, sizeof expected->bits);
    expected->slack[0] = 1.1 * unit * fabs((double)value) + least;
    /* This sum may cancel; MPFR checks such results in Python. */
    if (function == elementary_logaddexp && isfinite(larger))
        expected->slack[0] += (double)(2 * LDBL_EPSILON) * fabs(larger);
}

/* ---- Complex numbers ---- */

typedef struct complex_result {
    double value[2], other[2], slack[2];
} complex_result;

typedef void complex_function(mylib_type type, const double *a, const double *b, complex_result *r);

static void by_component(real_function *function, mylib_type type, const double *a, const double *b,
                         complex_result *r)
{
    for (int i = 0; i < 2; i++)
        r->other[i] = r->value[i] = round_to(type, function(type, a[i], b[i]));
}

#define BY_COMPONENT(op) \
    static void complex_##op(mylib_type type, const double *a, const double *b, complex_result *r) \
    { \
        by_component(real_##op, type, a, b, r); \
    }
BY_COMPONENT(add)
BY_COMPONENT(subtract)
BY_COMPONENT(negative)
BY_COMPONENT(rint)
BY_COMPONENT(positive)

/* Four products and two sums, each rounded; the bound is that of the products and the sum. */
static void complex_multiply(mylib_type type, const double *a, const double *b, complex_result *r)
{
    double rr = round_to(type, (quad)a[0] * b[0]), ii = round_to(type, (quad)a[1] * b[1]);
    double ri = round_to(type, (quad)a[0] * b[1]), ir = round_to(type, (quad)a[1] * b[0]);
    double unit = 4 * half_unit(type);
    r->value[0] = round_to(type, (quad)rr - ii);
    r->value[1] = round_to(type, (quad)ri + ir);
    r->slack[0] = unit * fabs(rr) + unit * fabs(ii) + 2 * smallest(type);
    r->slack[1] = unit * fabs(ri) + unit * fabs(ir) + 2 * smallest(type);
    memcpy(r->other, r->value, sizeof r->other);
}

static void complex_square(mylib_type type, const double *a, const double *b, complex_result *r)
{
    (void)b;
    complex_multiply(type, a, a, r);
}

/* Far enough from both ends of the type that no step of any method gets there. */
static int is_moderate(mylib_type type, double x)
{
    double top = type == MYLIB_F64 ? 0x1p240 : 0x1p28;
    return x == 0 || (fabs(x) < top && fabs(x) > 1 / top);
}

/*
 * Ordinary numbers: the exact quotient, and a bound of eight units in the last place of its
 * modulus.  Elsewhere infinities, NaN and underflow are those of Smith's method, as in NumPy.
 */
static void complex_divide(mylib_type type, const double *a, const double *b, complex_result *r)
{
    int moderate = is_moderate(type, a[0]) && is_moderate(type, a[1]) && is_moderate(type, b[0]) &&
                   is_moderate(type, b[1]) && (b[0] != 0 || b[1] != 0);
    if (moderate) {
        quad modulus = (quad)b[0] * b[0] + (quad)b[1] * b[1];
        r->value[0] = round_to(type, ((quad)a[0] * b[0] + (quad)a[1] * b[1]) / modulus);
        r->value[1] = round_to(type, ((quad)a[1] * b[0] - (quad)a[0] * b[1]) / modulus);
    } else if (b[0] == 0 && b[1] == 0) {
        r->value[0] = (double)((quad)a[0] / fabs(b[0]));
        r->value[1] = (double)((quad)a[1] / fabs(b[0]));
    } else {
        /* The larger part of b is divided by; with the parts swapped it is the same method. */
        int large = !(fabs(b[0]) >= fabs(b[1]));
        double ratio = round_to(type, (quad)b[1 - large] / b[large]);
        double whole = round_to(type, (quad)b[large] + round_to(type, (quad)b[1 - large] * ratio));
        double scale = round_to(type, (quad)1 / whole);
        double first, second;
        if (large == 0) {
            first = round_to(type, (quad)a[0] + round_to(type, (quad)a[1] * ratio));
            second = round_to(type, (quad)a[1] - round_to(type, (quad)a[0] * ratio));
        } else {
            first = round_to(type, (quad)a[1] + round_to(type, (quad)a[0] * ratio));
            second = round_to(type, (quad)round_to(type, (quad)a[1] * ratio) - a[0]);
        }
        r->value[0] = round_to(type, (quad)first * scale);
        r->value[1] = round_to(type, (quad)second * scale);
    }
    double unit = 16 * half_unit(type);
    r->slack[0] = r->slack[1] =
        unit * fabs(r->value[0]) + unit * fabs(r->value[1]) + 4 * smallest(type);
    memcpy(r->other, r->value, sizeof r->other);
}

static int is_nan(const double *a) { return isnan(a[0]) || isnan(a[1]); }

/* One of the two, as a whole: the first with a NaN, else by the real, then the imaginary part. */
static void complex_choose(const double *a, const double *b, int a_wins, complex_result *r)
{
    const double *chosen = is_nan(a) ? a : is_nan(b) ? b : a_wins ? a : b;
    int equal = a[0] == b[0] && a[1] == b[1];
    memcpy(r->value, chosen, sizeof r->value);
    memcpy(r->other, equal ? b : chosen, sizeof r->other);
}

#define EXTREME(op, before) \
    static void complex_##op(mylib_type type, const double *a, const double *b, complex_result *r) \
    { \
        (void)type; \
        complex_choose(a, b, a[0] == b[0] ? a[1] before b[1] : a[0] before b[0], r); \
    }
EXTREME(minimum, <=)
EXTREME(maximum, >=)

/* A number wins over one with a NaN. */
#define EXTREME_NUMBER(op, extreme) \
    static void complex_##op(mylib_type type, const double *a, const double *b, complex_result *r) \
    { \
        complex_##extreme(type, is_nan(a) && !is_nan(b) ? b : a, is_nan(b) ? a : b, r); \
    }
EXTREME_NUMBER(fmin, minimum)
EXTREME_NUMBER(fmax, maximum)

/* An infinite part makes the modulus infinite even beside a NaN. */
static void complex_absolute(mylib_type type, const double *a, const double *b, complex_result *r)
{
    (void)b;
    if (isinf(a[0]) || isinf(a[1]))
        r->value[0] = INFINITY;
    else
        r->value[0] = round_to(type, quad_sqrt((quad)a[0] * a[0] + (quad)a[1] * a[1]));
    r->value[1] = 0;
    r->slack[0] = 4 * half_unit(type) * r->value[0] + smallest(type);
    memcpy(r->other, r->value, sizeof r->other);
}

/* The special values are those of C's csqrt, Annex G. */
static void complex_sqrt(mylib_type type, const double *a, const double *b, complex_result *r)
{
    double re = a[0], im = a[1];
    (void)b;
    if (isinf(im)) {
        r->value[0] = INFINITY;
        r->value[1] = im;
    } else if (isnan(re)) {
        r->value[0] = r->value[1] = NAN;
    } else if (isinf(re)) {
        r->value[0] = re > 0 ? re : isnan(im) ? NAN : 0;
        r->value[1] = isnan(im) && re > 0 ? NAN : copysign(re > 0 ? 0 : INFINITY, im);
        if (isnan(im) && re < 0) { /* an infinity of either sign */
            r->other[0] = r->value[0];
            r->other[1] = -r->value[1];
            return;
        }
    } else if (isnan(im)) {
        r->value[0] = r->value[1] = NAN;
    } else if (re == 0 && im == 0) {
        r->value[0] = 0;
        r->value[1] = im;
    } else {
        quad modulus = quad_sqrt((quad)re * re + (quad)im * im);
        quad large = quad_sqrt((modulus + (quad)fabs(re)) / 2);
        quad small = (quad)fabs(im) / (2 * large);
        r->value[0] = round_to(type, re >= 0 ? large : small);
        r->value[1] = copysign(round_to(type, re >= 0 ? small : large), im);
        for (int i = 0; i < 2; i++)
            r->slack[i] = 8 * half_unit(type) * fabs(r->value[i]) + smallest(type);
    }
    memcpy(r->other, r->value, sizeof r->other);
}

static void complex_conjugate(mylib_type type, const double *a, const double *b, complex_result *r)
{
    by_component(real_positive, type, a, b, r);
    r->other[1] = r->value[1] = -a[1];
}

static void complex_real(mylib_type type, const double *a, const double *b, complex_result *r)
{
    by_component(real_positive, type, a, b, r);
    r->other[1] = r->value[1] = 0;
}

static void complex_imag(mylib_type type, const double *a, const double *b, complex_result *r)
{
    const double swapped[2] = {a[1], a[0]};
    complex_real(type, swapped, b, r);
}

/* The quotient of 1 where that is ordinary; elsewhere Smith's steps. */
static void complex_reciprocal(mylib_type type, const double *a, const double *b, complex_result *r)
{
    const double one[2] = {1, 0};
    int large = !(fabs(a[0]) >= fabs(a[1]));
    (void)b;
    if (is_moderate(type, a[0]) && is_moderate(type, a[1]) && (a[0] != 0 || a[1] != 0)) {
        complex_divide(type, one, a, r);
        return;
    }
    double ratio = round_to(type, (quad)a[1 - large] / a[large]);
    double whole = round_to(type, (quad)a[large] + round_to(type, (quad)a[1 - large] * ratio));
    r->value[0] = round_to(type, (large ? (quad)ratio : 1) / whole);
    r->value[1] = round_to(type, -(large ? (quad)1 : ratio) / whole);
    memcpy(r->other, r->value, sizeof r->other);
}

static void complex_sign(mylib_type type, const double *a, const double *b, complex_result *r)
{
    int infinite = isinf(a[0]) + 2 * isinf(a[1]);
    (void)b;
    if ((isinf(a[0]) != 0) && (isinf(a[1]) != 0)) {
        r->value[0] = r->value[1] = NAN;
    } else if (infinite != 0) {
        r->value[0] = isinf(a[0]) ? copysign(1, a[0]) : 0;
        r->value[1] = isinf(a[1]) ? copysign(1, a[1]) : 0;
    } else if (isnan(a[0]) || isnan(a[1])) {
        r->value[0] = r->value[1] = NAN;
    } else if (a[0] == 0 && a[1] == 0) {
        r->value[0] = r->value[1] = 0;
    } else {
        quad modulus = quad_sqrt((quad)a[0] * a[0] + (quad)a[1] * a[1]);
        int overflows = isinf(round_to(type, modulus)); /* then NumPy has only the imaginary sign */
        for (int i = 0; i < 2; i++) {
            r->value[i] = round_to(type, a[i] / modulus);
            if (overflows)
                r->value[i] = i == 0 ? 0 : copysign(1, a[1]);
            r->slack[i] = 8 * half_unit(type) * fabs(r->value[i]) + smallest(type);
            /* The modulus of subnormal numbers is not nearly exact. */
            if (fabs(a[0]) + fabs(a[1]) < smallest(type) / half_unit(type))
                r->slack[i] = 1;
        }
    }
    memcpy(r->other, r->value, sizeof r->other);
}

/* By the C library, in complex long double, and by formulas that do not cancel near 0. */
static _Complex long double join(long double re, long double im)
{
    const long double parts[2] = {re, im};
    _Complex long double z;
    memcpy(&z, parts, sizeof z);
    return z;
}
static _Complex long double expm1_of(_Complex long double z)
{
    const long double x = creall(z), y = cimagl(z), half = sinl(y / 2);
    const _Complex long double w = cexpl(z);
    const int is_finite = isfinite(x) && isfinite(y);
    return join(is_finite ? expm1l(x) * cosl(y) - 2 * half * half : creall(w) - 1, cimagl(w));
}
static _Complex long double log1p_of(_Complex long double z)
{
    const quad x = (quad)creall(z), y = (quad)cimagl(z);
    const _Complex long double w = clogl(join(creall(z) + 1, cimagl(z)));
    const long double u = (long double)(2 * x + x * x + y * y);
    return fabsl(u) < 0.5L ? join(log1pl(u) / 2, cimagl(w)) : w;
}
static _Complex long double scaled(_Complex long double z, long double factor)
{
    return join(creall(z) * factor, cimagl(z) * factor);
}

/*
 * Signs are open of zeros, and of what stands beside a NaN: C's Annex G leaves many of them so.
 * The real part of expm1 cancels; its error counts beside the modulus.
 */
static void complex_elementary(_Complex long double value, int of_modulus, mylib_type type,
                               complex_result *r)
{
    r->value[0] = (double)creall(value);
    r->value[1] = (double)cimagl(value);
    for (int i = 0; i < 2; i++) {
        const int is_open = isnan(r->value[1 - i]);
        const double other = of_modulus && isfinite(r->value[1 - i]) ? r->value[1 - i] : 0;
        const double size = fabs(r->value[i]) + fabs(other);
        r->other[i] = is_open ? -r->value[i] : r->value[i];
        r->slack[i] = 4 * half_unit(type) * size + 2 * smallest(type);
    }
}
#define COMPLEX_ELEMENTARY(op, function) \
    static void complex_##op(mylib_type type, const double *a, const double *b, complex_result *r) \
    { \
        const _Complex long double z = join(a[0], a[1]); \
        (void)b; \
        complex_elementary(function, MYLIB_OP_##op == MYLIB_OP_expm1, type, r); \
    }
COMPLEX_ELEMENTARY(exp, cexpl(z))
COMPLEX_ELEMENTARY(expm1, expm1_of(z))
COMPLEX_ELEMENTARY(log, clogl(z))
COMPLEX_ELEMENTARY(log2, scaled(clogl(z), 1.44269504088896340735992468100189214L))
COMPLEX_ELEMENTARY(log10, scaled(clogl(z), 0.434294481903251827651128918916605082L))
COMPLEX_ELEMENTARY(log1p, log1p_of(z))
COMPLEX_ELEMENTARY(sin, csinl(z))
COMPLEX_ELEMENTARY(cos, ccosl(z))
COMPLEX_ELEMENTARY(tan, ctanl(z))
COMPLEX_ELEMENTARY(sinh, csinhl(z))
COMPLEX_ELEMENTARY(cosh, ccoshl(z))
COMPLEX_ELEMENTARY(tanh, ctanhl(z))
COMPLEX_ELEMENTARY(arcsin, casinl(z))
COMPLEX_ELEMENTARY(arccos, cacosl(z))
COMPLEX_ELEMENTARY(arctan, catanl(z))
COMPLEX_ELEMENTARY(arcsinh, casinhl(z))
COMPLEX_ELEMENTARY(arccosh, cacoshl(z))
COMPLEX_ELEMENTARY(arctanh, catanhl(z))

/*
 * e^(w log z), within 4 units of the modulus and what the error of w log z adds; far from 0 that is
 * too much to tell anything but NaN.  Special values are those of power in complex_power.h.
 */
static void complex_power(mylib_type type, const double *a, const double *b, complex_result *r)
{
    const _Complex long double z = join(a[0], a[1]), log_z = clogl(z);
    const int is_finite = isfinite(a[0]) && isfinite(a[1]) && isfinite(b[0]) && isfinite(b[1]);
    const long double x = is_finite ? creall(log_z) : (double)creall(log_z);
    const long double y = is_finite ? cimagl(log_z) : (double)cimagl(log_z);
    const double c = b[0] * (!is_finite && fabs(b[0]) > 0x1p960 ? 0x1p-64 : 1);
    const double d = b[1] * (!is_finite && fabs(b[1]) > 0x1p960 ? 0x1p-64 : 1);
    long double re = c * x, im = is_finite ? c * y : (double)(c * y), error;
    if (d != 0) {
        re -= d * y;
        im += d * x;
    }
    error = (fabsl(b[0]) + fabsl(b[1])) * (fabsl(x) + fabsl(y)) * 0x1p-62L;
    const _Complex long double value = b[0] == 0 && b[1] == 0   ? join(1, 0)
                                       : a[0] != 0 || a[1] != 0 ? cexpl(join(re, im))
                                       : b[0] > 0               ? join(0, 0)
                                                                : join(NAN, NAN);
    complex_elementary(b[0] == 1 && b[1] == 0 ? z : value, 1, type, r);
    if (!is_finite || (a[0] == 0 && a[1] == 0) || (b[0] == 0 && b[1] == 0))
        return;
    const long double size = expl(re);
    for (int i = 0; i < 2; i++) {
        const double slack = (double)(size * (error + 8 * half_unit(type)));
        r->other[i] = -r->value[i];
        const int is_open = error > 0x1p-10L || round_to(type, slack) == (double)INFINITY;
        r->slack[i] = is_open ? INFINITY : slack + 2 * smallest(type);
    }
}

static void complex_element(complex_function *function, mylib_type type, const void *a,
                            const void *b, reference *expected)
{
    mylib_type real = test_real_type(type);
    int64_t size = test_size(real);
    double x[2], y[2];
    complex_result r = {{0, 0}, {0, 0}, {0, 0}};
    for (int i = 0; i < 2; i++) {
        x[i] = load_real(real, (const char *)a + i * size);
        y[i] = load_real(real, (const char *)b + i * size);
    }
    function(real, x, y, &r);
    for (int i = 0; i < 2; i++) {
        store_real(real, r.value[i], expected->bits + i * size);
        store_real(real, r.other[i], expected->other + i * size);
        expected->slack[i] = r.slack[i];
    }
}

/* ---- Comparisons ---- */

/* A NaN differs from everything and has no place in the order. */
typedef int order_function(int is_less, int is_equal, int is_unordered);
#define ORDER(op, value) \
    static int order_##op(int is_less, int is_equal, int is_unordered) \
    { \
        (void)is_less, (void)is_equal, (void)is_unordered; \
        return value; \
    }
ORDER(equal, is_equal)
ORDER(not_equal, !is_equal)
ORDER(less, is_less)
ORDER(less_equal, is_less || is_equal)
ORDER(greater, !is_less && !is_equal && !is_unordered)
ORDER(greater_equal, !is_less && !is_unordered)

/* Complex numbers are ordered by real, then by imaginary part. */
static void compare_elements(order_function *function, mylib_type type, const void *a,
                             const void *b, reference *expected)
{
    int is_less = 0, is_equal = 1, is_unordered = 0;
    if (test_is_integer(type)) {
        is_less = load_integer(type, a) < load_integer(type, b);
        is_equal = load_integer(type, a) == load_integer(type, b);
    } else {
        mylib_type real = test_real_type(type);
        for (int64_t i = 0; i < test_size(type); i += test_size(real)) {
            double x = load_real(real, (const char *)a + i);
            double y = load_real(real, (const char *)b + i);
            is_less = is_less || (is_equal && x < y);
            is_equal = is_equal && x == y;
            is_unordered = is_unordered || isnan(x) || isnan(y);
        }
        is_less = is_less && !is_unordered;
    }
    expected->bits[0] = (unsigned char)function(is_less, is_equal, is_unordered);
    expected->other[0] = expected->bits[0];
}

/* ---- Logic ---- */

static int is_true(mylib_type type, const void *x)
{
    int truth = 0;
    if (test_is_integer(type))
        return load_integer(type, x) != 0;
    for (int64_t i = 0; i < test_size(type); i += test_size(test_real_type(type)))
        truth |= load_real(test_real_type(type), (const char *)x + i) != 0;
    return truth;
}
static int truth_logical_and(int a, int b) { return a ? b : 0; }
static int truth_logical_or(int a, int b) { return a ? 1 : b; }
static int truth_logical_xor(int a, int b) { return a ? !b : b; }
static int truth_absolute(int a, int b) { return (void)b, a; }
static int truth_logical_not(int a, int b) { return (void)b, a ? 0 : 1; }
static void truth_element(int (*function)(int, int), mylib_type type, const void *a, const void *b,
                          reference *expected)
{
    int is_unary = function == truth_logical_not || function == truth_absolute;
    expected->bits[0] = (unsigned char)function(is_true(type, a), is_unary ? 0 : is_true(type, b));
    expected->other[0] = expected->bits[0];
}

/* ---- Predicates ---- */

static int predicate_signbit(double x) { return signbit(x) != 0; }
static int predicate_isnan(double x) { return isnan(x) != 0; }
static int predicate_isinf(double x) { return isinf(x) != 0; }
static int predicate_isfinite(double x) { return isfinite(x) == 0; } /* of any part: not */

/* True of an element if it is of a part; isfinite the other way round. */
static void predicate_element(int (*function)(double), mylib_type type, const void *a,
                              reference *expected)
{
    mylib_type real = test_real_type(type);
    int result = 0;
    if (!test_is_integer(type))
        for (int64_t i = 0; i < test_size(type); i += test_size(real))
            result |= function(load_real(real, (const char *)a + i));
    expected->bits[0] = (unsigned char)(function == predicate_isfinite ? !result : result);
    expected->other[0] = expected->bits[0];
}

/* ---- Any operation ---- */

/* i8 is computed by integer_add() and so on: a new row of the table needs its functions above. */
#define KIND_i8 integer
#define KIND_i16 integer
#define KIND_i32 integer
#define KIND_i64 integer
#define KIND_u8 integer
#define KIND_u16 integer
#define KIND_u32 integer
#define KIND_u64 integer
#define KIND_f16 real
#define KIND_f32 real
#define KIND_f64 real
#define KIND_c64 complex
#define KIND_c128 complex

#define CASE(op, s, call) \
    case MYLIB_OP_##op * 32 + TEST_##s: \
        call; \
        break;
#define ELEMENT(kind, op) kind##_element(kind##_##op, type, a, b, expected)
#define ELEMENT_OF(kind, op) ELEMENT(kind, op)
#define CASE_BINARY(op, s) CASE(op, s, ELEMENT_OF(KIND_##s, op))
#define CASE_UNARY(op, s) CASE_BINARY(op, s)
#define CASE_UNARY_REAL(op, s) CASE_BINARY(op, s)
#define CASE_COMPARE(op, s) CASE(op, s, compare_elements(order_##op, type, a, b, expected))
#define CASE_REVERSED(op, s) CASE_COMPARE(op, s)
#define CASE_LOGIC(op, s) CASE(op, s, truth_element(truth_##op, type, a, b, expected))
#define CASE_TEST(op, s) CASE_LOGIC(op, s)
#define CASE_BOOL(op, logical) CASE(op, bool, truth_element(truth_##logical, type, a, b, expected))
#define PLAIN_UNARY(op, s) CASE_BINARY(op, s)
#define PLAIN_UNARY_REAL(op, s) CASE_BINARY(op, s)
#define PLAIN_BINARY(op, s) CASE_BINARY(op, s)
#define PLAIN_TEST(op, s) CASE(op, s, predicate_element(predicate_##op, type, a, expected))
#define CASES(arity, op, set) MYLIB_SET_##set(CASE_##arity, op)
#define CASES_PLAIN(kind, op, set) MYLIB_SET_##set(PLAIN_##kind, op)
#define OF_integer integer
#define OF_real elementary
#define OF_complex complex
#define OF(kind) OF_##kind
#define ELEMENTARY_OF(kind) OF(kind)
#define CASE_ELEMENTARY(op, s) CASE(op, s, ELEMENT_OF(ELEMENTARY_OF(KIND_##s), op))
#define CASES_ELEMENTARY(arity, op, set) MYLIB_SET_##set(CASE_ELEMENTARY, op)

void reference_compute(mylib_op op, mylib_type type, const void *a, const void *b,
                       reference *expected)
{
    memset(expected, 0, sizeof *expected);
    switch ((int)op * 32 + (int)type) {
        MYLIB_ARITHMETIC(CASES)
        MYLIB_BOOL_OPS(CASE_BOOL)
        MYLIB_PLAIN_FUNCTIONS(CASES_PLAIN)
        MYLIB_ELEMENTARY_FUNCTIONS(CASES_ELEMENTARY)
    default:
        test_give_up("no such operation for the type");
    }
}

/* ---- Conversions and ranges ---- */

/* Truncated; the nearest that there is for what does not fit, the lowest for NaN. */
static i128 integer_of_real(mylib_type type, double value)
{
    const i128 least = least_integer(type), most = most_integer(type);
    if (isnan(value) || value <= (double)least)
        return least;
    return value >= (double)(most + 1) ? most : (i128)value;
}

void reference_convert(mylib_type to, mylib_type from, const void *value, void *converted)
{
    mylib_type to_real = test_real_type(to), from_real = test_real_type(from);
    int64_t size = test_size(to_real);
    memset(converted, 0, (size_t)test_size(to));
    if (test_is_integer(from)) {
        i128 number = load_integer(from, value);
        if (to == MYLIB_BOOL)
            store_integer(to, number != 0, converted);
        else if (test_is_integer(to))
            store_integer(to, number, converted);
        else /* rounded once */
            store_real(to_real, to_real == MYLIB_F64 ? (double)number : (double)(float)number,
                       converted);
        return;
    }
    double re = load_real(from_real, value), im = 0;
    if (from != from_real)
        im = load_real(from_real, (const char *)value + test_size(from_real));
    if (to == MYLIB_BOOL) {
        store_integer(to, re != 0 || im != 0, converted);
    } else if (test_is_integer(to)) {
        store_integer(to, integer_of_real(to, re), converted);
    } else {
        store_real(to_real, re, converted);
        if (to != to_real)
            store_real(to_real, im, (char *)converted + size);
    }
}

void reference_range(mylib_type type, const void *start, const void *step, int64_t i, void *value)
{
    mylib_type given = type == MYLIB_F16 ? MYLIB_F32 : type, real = test_real_type(given);
    int64_t size = test_size(real);
    if (test_is_integer(type)) {
        u128 sum = (u128)load_integer(type, start) + (u128)i * (u128)load_integer(type, step);
        store_integer(type, (i128)sum, value);
        return;
    }
    for (int64_t part = 0; part < test_size(given); part += size) {
        double index = round_to(real, i), first = load_real(real, (const char *)start + part);
        double product = round_to(real, (quad)index * load_real(real, (const char *)step + part));
        double sum = round_to(real, (quad)first + product);
        store_real(test_real_type(type), i == 0 ? first : sum, (char *)value + part);
    }
}

int same_value(mylib_type type, const void *x, const void *y)
{
    size_t size = (size_t)test_size(type);
    mylib_type real = test_real_type(type);
    if (memcmp(x, y, size) == 0)
        return 1;
    if (test_is_integer(type))
        return 0;
    for (size_t i = 0; i < size; i += (size_t)test_size(real)) {
        const char *p = (const char *)x + i, *q = (const char *)y + i;
        if (memcmp(p, q, (size_t)test_size(real)) != 0 &&
            !(isnan(load_real(real, p)) && isnan(load_real(real, q))))
            return 0;
    }
    return 1;
}

int reference_accepts(mylib_type result_type, const reference *expected, const void *got)
{
    mylib_type real = test_real_type(result_type);
    size_t size = (size_t)test_size(real), count = (size_t)test_size(result_type) / size;
    if (same_value(result_type, expected->bits, got) ||
        same_value(result_type, expected->other, got))
        return 1;
    if (expected->slack[0] == 0 && expected->slack[1] == 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const char *p = (const char *)got + i * size;
        const unsigned char *q = expected->bits + i * size;
        if (!same_value(real, p, q) &&
            !(fabs(load_real(real, p) - load_real(real, q)) <= expected->slack[i]))
            return 0;
    }
    return 1;
}

int64_t first_difference(mylib_type type, int64_t n, const void *x, const void *y)
{
    int64_t size = test_size(type);
    if (memcmp(x, y, (size_t)(n * size)) == 0)
        return n;
    for (int64_t i = 0; i < n; i++)
        if (!same_value(type, (const char *)x + i * size, (const char *)y + i * size))
            return i;
    return n;
}

const char *describe(mylib_type type, const void *value)
{
    static _Thread_local char texts[6][120];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 6];
    mylib_type real = test_real_type(type);
    size_t used = 0, room = sizeof texts[0];
    if (test_is_integer(type)) {
        i128 number = load_integer(type, value);
        if (number < 0)
            snprintf(text, room, "%lld", (long long)number);
        else
            snprintf(text, room, "%llu", (unsigned long long)number);
        return text;
    }
    int64_t size = test_size(real), whole = test_size(type);
    for (int64_t i = 0; i < whole; i += size) {
        double number = load_real(real, (const char *)value + i);
        used += (size_t)snprintf(text + used, room - used, i > 0 ? ", %.17g" : "%.17g", number);
    }
    used += (size_t)snprintf(text + used, room - used, " (0x");
    for (int64_t i = whole - 1; i >= 0; i--)
        used +=
            (size_t)snprintf(text + used, room - used, "%02x", ((const unsigned char *)value)[i]);
    snprintf(text + used, room - used, ")");
    return text;
}

/* ---- Sums ---- */

mylib_type reference_sum_type(mylib_type type)
{
    if (!test_is_integer(type))
        return type;
    return type <= MYLIB_I64 ? MYLIB_I64 : MYLIB_U64;
}

#define BLOCK 2048
#define LANES 256

/* A double rounds the sum of two f32 so little that it is rounded to f32 as if only once. */
static double sum_of(mylib_type type, double a, double b)
{
    return type == MYLIB_F64 ? a + b : (double)(float)(a + b);
}

/* One block of at most BLOCK terms, lane by lane as the header tells it. */
static double sum_block(mylib_type type, int64_t n, const char *terms, int64_t stride)
{
    double lanes[LANES];
    int64_t present = n < LANES ? n : LANES;
    for (int64_t lane = 0; lane < present; lane++) {
        lanes[lane] = load_real(type, terms + lane * stride);
        for (int64_t i = lane + LANES; i < n; i += LANES)
            lanes[lane] = sum_of(type, lanes[lane], load_real(type, terms + i * stride));
    }
    for (int64_t step = LANES / 2; step > 0; step /= 2) {
        for (int64_t lane = 0; lane < step && lane + step < present; lane++)
            lanes[lane] = sum_of(type, lanes[lane], lanes[lane + step]);
        if (present > step)
            present = step;
    }
    return lanes[0];
}

static double sum_real(mylib_type type, int64_t n, const char *terms, int64_t stride)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;
    if (n == 0)
        return 0;
    double *sums = test_malloc((size_t)blocks * sizeof *sums);
    for (int64_t i = 0; i < blocks; i++) {
        int64_t rest = n - i * BLOCK;
        sums[i] = sum_block(type, rest < BLOCK ? rest : BLOCK, terms + i * BLOCK * stride, stride);
    }
    while (blocks > 1) {
        int64_t pairs = blocks / 2;
        for (int64_t i = 0; i < pairs; i++)
            sums[i] = sum_of(type, sums[2 * i], sums[2 * i + 1]);
        if (blocks % 2 != 0)
            sums[pairs] = sums[blocks - 1];
        blocks = pairs + blocks % 2;
    }
    double sum = sums[0];
    free(sums);
    return sum;
}

void reference_sum(mylib_type type, int64_t n, const void *terms, int64_t stride, void *sum)
{
    mylib_type real = test_real_type(type);
    int64_t size = test_size(real);
    if (test_is_integer(type)) {
        i128 total = 0;
        for (int64_t i = 0; i < n; i++)
            total += load_integer(type, (const char *)terms + i * stride);
        store_integer(reference_sum_type(type), total, sum);
        return;
    }
    for (int64_t part = 0; part < test_size(type); part += size)
        store_real(real, sum_real(real, n, (const char *)terms + part, stride), (char *)sum + part);
}

void reference_fold(mylib_type type, int64_t n, const void *terms, int64_t stride, void *value)
{
    mylib_type real = test_real_type(type);
    int64_t size = test_size(real);
    if (test_is_integer(type)) {
        unsigned char sum[8];
        reference_sum(type, n, terms, stride, sum);
        i128 total = load_integer(type, value) + load_integer(reference_sum_type(type), sum);
        store_integer(type, total, value);
        return;
    }
    for (int64_t part = 0; part < test_size(type); part += size) {
        char *place = (char *)value + part;
        double sum = sum_real(real, n, (const char *)terms + part, stride);
        store_real(real, round_to(real, (quad)load_real(real, place) + sum), place);
    }
}

/* ---- Values ---- */

static void random_integer(rng *r, mylib_type type, void *p)
{
    if (type == MYLIB_BOOL) {
        store_integer(type, rng_below(r, 2), p);
        return;
    }
    i128 number;
    switch (rng_below(r, 8)) {
    case 0:
        number = 0;
        break;
    case 1:
        number = rng_below(r, 2) ? least_integer(type) + rng_below(r, 3)
                                 : most_integer(type) - rng_below(r, 3);
        break;
    case 2:
        number = ((i128)1 << rng_below(r, 8 * test_size(type))) - rng_below(r, 2);
        break;
    case 3:
    case 4:
        number = rng_below(r, 41) - 20;
        break;
    default:
        number = (i128)rng_next(r);
        break;
    }
    store_integer(type, number, p);
}

/* The numbers at the edges of a type, and some ordinary ones. */
#define SPECIALS(epsilon, max, root_of_max, normal, root_of_normal) \
    { \
        0, 0, 1, 2, 0.5, 1.5, 3, 7, 10, 1 / 3.0, 0.1, 5.5, INFINITY, INFINITY, NAN, NAN, max, \
            max / 2, normal, normal *epsilon, normal - normal *epsilon, 2 * normal *epsilon, \
            1 + epsilon, 1 - epsilon / 2, 1 / epsilon, 2 / epsilon, root_of_max, root_of_normal \
    }
static const double f16_specials[] = SPECIALS(0x1p-10, 65504.0, 255.875, 0x1p-14, 0x1p-7);
static const double f32_specials[] = SPECIALS(0x1p-23, FLT_MAX, 0x1.fffffep63, 0x1p-126, 0x1p-63);
static const double f64_specials[] =
    SPECIALS(0x1p-52, DBL_MAX, 0x1.fffffffffffffp511, DBL_MIN, 0x1p-511);

/* Either sign of one. */
static double special_real(rng *r, mylib_type type)
{
    const double *numbers = type == MYLIB_F16   ? f16_specials
                            : type == MYLIB_F32 ? f32_specials
                                                : f64_specials;
    double number = numbers[rng_below(r, COUNT_OF(f64_specials))];
    return rng_below(r, 2) ? -number : number;
}

static void random_real(rng *r, mylib_type type, void *p)
{
    uint64_t bits = rng_next(r);
    switch (rng_below(r, 8)) {
    case 0:
    case 1:
        store_real(type, special_real(r, type), p);
        break;
    case 2:
    case 3:
        memcpy(p, &bits, (size_t)test_size(type));
        break;
    case 4:
    case 5:
        store_real(type, (double)(rng_below(r, 81) - 40) / 2, p);
        break;
    default:
        store_real(type, (double)(int64_t)bits * 0x1p-67 * (double)(1 << rng_below(r, 9)), p);
        break;
    }
}

void fill_values(rng *r, mylib_type type, int64_t n, void *values)
{
    mylib_type real = test_real_type(type);
    int64_t size = test_size(real), end = n * test_size(type);
    for (int64_t i = 0; i < end; i += size) {
        if (test_is_integer(type))
            random_integer(r, type, (char *)values + i);
        else
            random_real(r, real, (char *)values + i);
    }
}

/* a = q * b, and a last place or so more or less. */
static void whole_quotient(rng *r, mylib_type type, void *a, void *b)
{
    int bits = (int)test_size(type) * 8;
    if (test_is_integer(type)) {
        int used = 1 + (int)rng_below(r, bits - 1), left = bits - used;
        i128 divisor = (i128)(rng_next(r) >> (64 - used)),
             quotient = (i128)(rng_next(r) >> (64 - left));
        int sign = rng_once_in(r, 2) ? -1 : 1;
        store_integer(type, sign * divisor * quotient + rng_below(r, 5) - 2, a);
        store_integer(type, rng_once_in(r, 2) ? -divisor : divisor, b);
    } else {
        double divisor = ldexp((double)(int64_t)rng_next(r), (int)rng_below(r, 9) - 67);
        double quotient =
            (double)(rng_next(r) >> (64 - digits_of(type) + rng_below(r, digits_of(type))));
        uint64_t pattern = 0;
        store_real(type, divisor, b);
        store_real(type, load_real(type, b) * quotient, a);
        memcpy(&pattern, a, (size_t)bits / 8);
        pattern += (uint64_t)rng_below(r, 3) - 1;
        memcpy(a, &pattern, (size_t)bits / 8);
    }
}

void fill_pairs(rng *r, mylib_type type, int64_t n, void *a, void *b)
{
    int64_t size = test_size(type);
    fill_values(r, type, n, a);
    fill_values(r, type, n, b);
    for (int64_t i = 0; i < n && type != MYLIB_BOOL && test_real_type(type) == type; i++)
        if (rng_once_in(r, 3))
            whole_quotient(r, type, (char *)a + i * size, (char *)b + i * size);
}

void fill_ordinary(rng *r, mylib_type type, int64_t n, void *values)
{
    mylib_type real = test_real_type(type);
    int64_t size = test_size(real), end = n * test_size(type);
    for (int64_t i = 0; i < end; i += size) {
        if (test_is_integer(type))
            store_integer(type, 1 + rng_below(r, 9), (char *)values + i);
        else
            store_real(real, 1 + (double)(rng_next(r) >> 11) * 0x1p-50, (char *)values + i);
    }
}

void put_number(mylib_type type, double number, void *value)
{
    mylib_type real = test_real_type(type);
    if (test_is_integer(type)) {
        store_integer(type, (i128)number, value);
        return;
    }
    for (int64_t i = 0; i < test_size(type); i += test_size(real))
        store_real(real, number, (char *)value + i);
}
