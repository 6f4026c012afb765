/*
 * Floating-point flags, which become NumPy's warnings: operations raise exactly the right ones, at
 * every CPU level, at every place in the array; flags that were set before stay set.
 */
#include "reference.h"
#include "warnings.h"

#include <fenv.h>
#include <math.h>

#define MAX_LENGTH 200
#define FLAGS (FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW)

static unsigned char a[MAX_LENGTH * TEST_MAX_SIZE], b[MAX_LENGTH * TEST_MAX_SIZE];
static unsigned char out[MAX_LENGTH * TEST_MAX_SIZE];

static const char *flags_text(int flags)
{
    static const char *const names[] = {
        "none",     "DIVBYZERO",          "INVALID",          "DIVBYZERO INVALID",
        "OVERFLOW", "DIVBYZERO OVERFLOW", "INVALID OVERFLOW", "DIVBYZERO INVALID OVERFLOW"};
    return names[(flags & FE_DIVBYZERO ? 1 : 0) + (flags & FE_INVALID ? 2 : 0) +
                 (flags & FE_OVERFLOW ? 4 : 0)];
}

/* The flags that one call raises; 'spread' takes every other element. */
static int raised(mylib_op op, mylib_type type, int64_t n, int spread)
{
    int64_t stride = test_size(type) << spread;
    int64_t out_stride = test_size(test_result_type(&test_ops[op], type)) << spread;
    feclearexcept(FE_ALL_EXCEPT);
    mylib_status status = mylib_map1(op, type, n, out, out_stride, a, stride, b, stride);
    int flags = fetestexcept(FLAGS);
    CHECK_OK(status);
    return flags;
}

/*
 * The flags that n results may raise: functions report numbers outside of their domain, which
 * ordinary numbers can be.
 */
static int reportable(const test_op *op, const test_type *t, int64_t n, int spread)
{
    const mylib_type type = test_result_type(op, t->type);
    int flags = 0;
    if (op->op < MYLIB_OP_rint || test_is_integer(type))
        return 0;
    for (int64_t i = 0; i < n; i++) {
        reference expected;
        double parts[2];
        const int64_t at = i * (t->size << spread);
        reference_compute(op->op, t->type, a + at, b + at, &expected);
        reference_convert(MYLIB_C128, type, expected.bits, parts);
        if (!isfinite(parts[0]) || !isfinite(parts[1]))
            flags |= FLAGS;
    }
    return flags;
}

/* ---- What must raise nothing ---- */

static void test_quiet(const test_op *op, const test_type *t, const char *level, rng *r)
{
    for (int64_t n = 0; n <= MAX_LENGTH / 2; n++) {
        fill_ordinary(r, t->type, MAX_LENGTH, a);
        fill_ordinary(r, t->type, MAX_LENGTH, b);
        for (int spread = 0; spread < 2; spread++) {
            test_set_case("%s, %s of %s, ordinary numbers, n = %lld, spread %d", level, op->name,
                          t->name, (long long)n, spread);
            int flags = raised(op->op, t->type, n, spread);
            if (flags != 0)
                flags &= ~reportable(op, t, n, spread);
            CHECK(flags == 0, "raised %s", flags_text(flags));
            if (flags != 0)
                return;
        }
    }
}

/* A quiet NaN is a value like any other, except for divmod, whose fmod may raise a flag. */
static void test_quiet_nan(const test_op *op, const test_type *t, const char *level, rng *r)
{
    if (test_is_integer(t->type))
        return;
    for (int64_t n = 1; n <= 40; n++) {
        fill_ordinary(r, t->type, MAX_LENGTH, a);
        fill_ordinary(r, t->type, MAX_LENGTH, b);
        put_number(t->type, NAN, a + rng_below(r, n) * t->size);
        put_number(t->type, NAN, b + rng_below(r, n) * t->size);
        test_set_case("%s, %s of %s, a quiet NaN, n = %lld", level, op->name, t->name,
                      (long long)n);
        int flags = raised(op->op, t->type, n, 0);
        if (flags != 0)
            flags &= ~reportable(op, t, n, 0);
        CHECK(flags == 0, "raised %s", flags_text(flags));
        if (flags != 0)
            return;
    }
}

/* The minimum or maximum of the numbers in `a`, the first of which is a signaling NaN. */
static void test_reduced_nan(const test_op *op, const test_type *t, const char *level)
{
    const mylib_reduction reduction = op->op == MYLIB_OP_minimum ? MYLIB_MIN : MYLIB_MAX;
    for (int64_t n = 1; n <= MAX_LENGTH / 2; n++) {
        const mylib_array in = {a, test_cpu, t->type, 1, &n, NULL};
        const mylib_array result = {out, test_cpu, t->type, 0, NULL, NULL};
        test_set_case("%s, the %s of %lld %s", level, op->name, (long long)n, t->name);
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_OK(mylib_reduce(reduction, t->type, test_cpu, NULL, &result, &in));
        int flags = fetestexcept(FLAGS);
        CHECK(flags == 0, "raised %s", flags_text(flags));
        if (flags != 0)
            return;
    }
}

/*
 * A signaling NaN raises FE_INVALID in arithmetic; tests, comparisons, logic, minima, maxima and
 * functions take it as any NaN, at every level.
 */
static void test_signaling_nan(const test_op *op, const test_type *t, const char *level)
{
    static const uint64_t f64 = 0x7ff0000000000001;
    static const uint32_t f32 = 0x7f800001;
    static const uint16_t f16 = 0x7c01;
    const int is_f16 = t->type == MYLIB_F16, is_f32 = t->type == MYLIB_F32 || t->type == MYLIB_C64;
    const void *nan = is_f16 ? (const void *)&f16 : is_f32 ? (const void *)&f32 : &f64;
    const size_t nbytes = is_f16 ? sizeof f16 : is_f32 ? sizeof f32 : sizeof f64;
    const int is_quiet = op->op >= MYLIB_OP_rint || test_result_type(op, t->type) == MYLIB_BOOL ||
                         op->op == MYLIB_OP_minimum || op->op == MYLIB_OP_maximum;
    if (test_is_integer(t->type) || !is_quiet)
        return;
    for (int64_t i = 0; i < MAX_LENGTH; i++) {
        put_number(t->type, op->op == MYLIB_OP_arccosh ? 1.5 : 0.75, a + i * t->size);
        put_number(t->type, 0.75, b + i * t->size);
    }
    memcpy(a, nan, nbytes);
    memcpy(b + 2 * t->size, nan, nbytes);
    if (op->op == MYLIB_OP_minimum || op->op == MYLIB_OP_maximum)
        test_reduced_nan(op, t, level);
    for (int64_t n = 1; n <= 70; n++) {
        for (int spread = 0; spread < 2; spread++) {
            test_set_case("%s, %s of %s, signaling NaNs, n = %lld, spread %d", level, op->name,
                          t->name, (long long)n, spread);
            int flags = raised(op->op, t->type, n, spread);
            CHECK(flags == 0, "raised %s", flags_text(flags));
            if (flags != 0)
                return;
        }
    }
}

/*
 * A number, an operand of stride 0: what vector code computes beyond the end of an array must not
 * show, whatever the number is.
 */
static void test_number(const test_op *op, const test_type *t, const char *level)
{
    static const double numbers[] = {0, -0.0, 1, -3, INFINITY, NAN, 6e-8, 60000};
    enum { COUNT = COUNT_OF(numbers) };
    int64_t so = test_size(test_result_type(op, t->type));
    if (test_is_integer(t->type) || op->arity != 2)
        return;
    for (int k = 0; k < 2 * COUNT * COUNT; k++) {
        int is_second = k % 2, right = 0;
        double number = numbers[k / 2 % COUNT], element = numbers[k / 2 / COUNT];
        put_number(t->type, number, b);
        for (int64_t i = 0; i < MAX_LENGTH; i++)
            put_number(t->type, element, a + i * t->size);
        for (int64_t n = 1; n <= 70; n++) {
            test_set_case("%s, %s of %s, elements %g, the number %g as operand %d, n = %lld", level,
                          op->name, t->name, element, number, is_second, (long long)n);
            feclearexcept(FE_ALL_EXCEPT);
            CHECK_OK(mylib_map1(op->op, t->type, n, out, so, is_second ? a : b,
                                is_second ? t->size : 0, is_second ? b : a,
                                is_second ? 0 : t->size));
            int flags = fetestexcept(FLAGS);
            right = n == 1 ? flags : right;
            CHECK(flags == right, "raised %s, but %s for one element", flags_text(flags),
                  flags_text(right));
            if (flags != right)
                return;
        }
    }
}

/* ---- What must raise its flag, wherever it stands ---- */

static void expect_flag(mylib_op op, const test_type *t, double x, double y, int flag,
                        const char *level, rng *r)
{
    for (int64_t n = 1; n <= MAX_LENGTH / 2; n++) {
        int64_t at = rng_below(r, n);
        for (int spread = 0; spread < 2; spread++) {
            fill_ordinary(r, t->type, MAX_LENGTH, a);
            fill_ordinary(r, t->type, MAX_LENGTH, b);
            put_number(t->type, x, a + (at << spread) * t->size);
            put_number(t->type, y, b + (at << spread) * t->size);
            test_set_case("%s, %s of %s, (%g, %g) at %lld of %lld, spread %d", level,
                          test_ops[op].name, t->name, x, y, (long long)at, (long long)n, spread);
            int flags = raised(op, t->type, n, spread);
            CHECK(flags == flag, "raised %s, not %s", flags_text(flags), flags_text(flag));
            if (flags != flag)
                return;
        }
    }
}

static void test_integers(const test_type *t, const char *level, rng *r)
{
    int is_signed = t->type <= MYLIB_I64;
    expect_flag(MYLIB_OP_divide, t, 5, 0, FE_DIVBYZERO, level, r);
    expect_flag(MYLIB_OP_divide, t, 0, 0, FE_DIVBYZERO, level, r);
    expect_flag(MYLIB_OP_floor_divide, t, 5, 0, FE_DIVBYZERO, level, r);
    expect_flag(MYLIB_OP_remainder, t, 5, 0, FE_DIVBYZERO, level, r);
    if (is_signed) {
        double min = -ldexp(1, (int)t->size * 8 - 1);
        expect_flag(MYLIB_OP_divide, t, min, -1, FE_OVERFLOW, level, r);
        expect_flag(MYLIB_OP_floor_divide, t, min, -1, FE_OVERFLOW, level, r);
        expect_flag(MYLIB_OP_divide, t, min, 0, FE_DIVBYZERO, level, r);
        expect_flag(MYLIB_OP_divide, t, min / 2, -1, 0, level, r);
    }
}

static void test_reals(const test_type *t, const char *level, rng *r)
{
    double large = t->type == MYLIB_F16 ? 60000 : t->type == MYLIB_F32 ? 0x1p127 : 0x1p1023;
    expect_flag(MYLIB_OP_divide, t, 1, 0, FE_DIVBYZERO, level, r);
    expect_flag(MYLIB_OP_divide, t, 0, 0, FE_INVALID, level, r);
    expect_flag(MYLIB_OP_floor_divide, t, 1, 0, FE_DIVBYZERO, level, r);
    expect_flag(MYLIB_OP_remainder, t, 1, 0, FE_INVALID, level, r);
    expect_flag(MYLIB_OP_subtract, t, INFINITY, INFINITY, FE_INVALID, level, r);
    expect_flag(MYLIB_OP_multiply, t, INFINITY, 0, FE_INVALID, level, r);
    expect_flag(MYLIB_OP_add, t, large, large, FE_OVERFLOW, level, r);
    expect_flag(MYLIB_OP_add, t, large, INFINITY, 0, level, r);
    expect_flag(MYLIB_OP_multiply, t, large, large, FE_OVERFLOW, level, r);
    expect_flag(MYLIB_OP_square, t, large, 1, FE_OVERFLOW, level, r);
    expect_flag(MYLIB_OP_sqrt, t, -1, 1, FE_INVALID, level, r);
}

/* ---- Functions, which check many results at once ---- */

static double number_at(const test_type *t, const unsigned char *p, int64_t i)
{
    double number;
    reference_convert(MYLIB_F64, t->type, p + i * t->size, &number);
    return number;
}

/* Arrays of numbers inside and outside of domains, at poles and beside them. */
static void test_functions(const test_op *op, const test_type *t, const char *level, rng *r)
{
    static const int flag_of[] = {0, FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW};
    static const double numbers[] = {0,  -0.0, 1,     -1,    0.9375,   -1.0625,   0.5, -2,
                                     30, -30,  60000, -6e-8, INFINITY, -INFINITY, NAN, -NAN};
    enum { COUNT = COUNT_OF(numbers) };
    if (test_is_integer(t->type) || t->type > MYLIB_F64 || !can_warn(op->op))
        return;
    for (int k = 0; k < 4 * COUNT * COUNT; k++) {
        const int64_t n = k < COUNT * COUNT ? 1 : 1 + k % 8;
        int expected = 0;
        for (int64_t i = 0; i < n; i++) {
            const int64_t pair = n == 1 ? k : rng_below(r, COUNT * COUNT);
            put_number(t->type, numbers[pair % COUNT], a + i * t->size);
            put_number(t->type, numbers[pair / COUNT % COUNT], b + i * t->size);
        }
        test_set_case("%s, %s of %s, array %d", level, op->name, t->name, k);
        const int flags = raised(op->op, t->type, n, 0);
        for (int64_t i = 0; i < n; i++) {
            const double x = number_at(t, a, i), y = op->arity == 2 ? number_at(t, b, i) : x;
            expected |= flag_of[warning_of_real(op->op, x, y, number_at(t, out, i))];
        }
        CHECK(flags == expected, "raised %s, not %s", flags_text(flags), flags_text(expected));
        if (flags != expected)
            return;
    }
}

/* Flags that the caller had raised stay. */
static void test_kept(const char *level, rng *r)
{
    fill_ordinary(r, MYLIB_F64, MAX_LENGTH, a);
    fill_ordinary(r, MYLIB_F64, MAX_LENGTH, b);
    test_set_case("%s, flags raised before", level);
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_INVALID | FE_DIVBYZERO);
    CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, MAX_LENGTH, out, 8, a, 8, b, 8));
    int flags = fetestexcept(FLAGS);
    CHECK(flags == (FE_INVALID | FE_DIVBYZERO), "left %s", flags_text(flags));
}

int main(void)
{
    test_begin("flags");
    FOR_EACH_LEVEL(level)
    {
        rng r = rng_make((uint64_t)level);
        FOR_EACH_PAIR(op, t)
        {
            test_quiet(op, t, test_levels[level], &r);
            test_quiet_nan(op, t, test_levels[level], &r);
            test_signaling_nan(op, t, test_levels[level]);
            test_number(op, t, test_levels[level]);
            test_functions(op, t, test_levels[level], &r);
        }
        for (int i = 0; i < TEST_COMPUTED_COUNT; i++) {
            if (test_is_integer(test_types[i].type))
                test_integers(&test_types[i], test_levels[level], &r);
            else if (test_types[i].type <= MYLIB_F64)
                test_reals(&test_types[i], test_levels[level], &r);
        }
        test_kept(test_levels[level], &r);
    }
    return test_end();
}
