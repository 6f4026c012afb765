/*
 * Scalars: int64 exact to its last value or an error, the domain errors of f64 and c128, Fibonacci
 * numbers.
 */
#include "reference.h"

#include <float.h>
#include <math.h>

__extension__ typedef __int128 i128;

/* ---- int64 ---- */

/* The true result, and the status that it deserves. */
static mylib_status exact(mylib_op op, i128 a, i128 b, i128 *result)
{
    const int divides = op == MYLIB_OP_divide || op == MYLIB_OP_floor_divide ||
                        op == MYLIB_OP_remainder || op == MYLIB_OP_fmod;
    if ((divides && b == 0) || (op == MYLIB_OP_reciprocal && a == 0))
        return MYLIB_ERR_ZERO_DIVIDE;
    const i128 rest = divides ? a % b : 0;
    const int is_between = rest != 0 && (rest < 0) != (b < 0); /* floor and truncation differ */
    switch (op) {
#define IS(op, value) \
    case MYLIB_OP_##op: \
        *result = (value); \
        break;
        IS(add, a + b)
        IS(subtract, a - b)
        IS(multiply, a * b)
        IS(divide, a / b)
        IS(floor_divide, a / b - is_between)
        IS(remainder, is_between ? rest + b : rest)
        IS(fmod, rest)
        IS(reciprocal, a == 1 || a == -1 ? a : 0)
        IS(minimum, a < b ? a : b)
        IS(maximum, a > b ? a : b)
        IS(fmin, a < b ? a : b)
        IS(fmax, a < b ? b : a)
        IS(negative, -a)
        IS(absolute, a < 0 ? -a : a)
        IS(square, a * a)
        IS(sign, a < 0 ? -1 : a > 0)
        IS(equal, a == b)
        IS(not_equal, a != b)
        IS(less, a < b)
        IS(less_equal, a <= b)
        IS(greater, a > b)
        IS(greater_equal, a >= b)
        IS(logical_and, a != 0 ? b != 0 : 0)
        IS(logical_or, a != 0 ? 1 : b != 0)
        IS(logical_xor, a != 0 ? b == 0 : b != 0)
        IS(logical_not, a == 0)
        IS(bitwise_and, a & b)
        IS(bitwise_or, a | b)
        IS(bitwise_xor, a ^ b)
        IS(invert, -a - 1)
        IS(floor, a)
        IS(ceil, a)
        IS(trunc, a)
        IS(positive, a)
        IS(conjugate, a)
        IS(real, a)
        IS(imag, 0)
        IS(isnan, 0)
        IS(isinf, 0)
        IS(isfinite, 1)
#undef IS
    case MYLIB_OP_power:
        if (b < 0)
            return MYLIB_ERR_DOMAIN;
        if (a >= -1 && a <= 1)
            b = b == 0 ? 0 : 2 - b % 2; /* the power is the same */
        *result = 1;
        for (i128 i = 0; i < b && *result >= INT64_MIN && *result <= INT64_MAX; i++)
            *result *= a;
        break;
    case MYLIB_OP_left_shift:
    case MYLIB_OP_right_shift:
        if (b < 0)
            return MYLIB_ERR_DOMAIN;
        *result = a;
        for (i128 i = 0; i < b && i < 64; i++)
            *result = op == MYLIB_OP_left_shift ? *result * 2 : (*result - (*result & 1)) / 2;
        break;
    default:
        return MYLIB_ERR_UNSUPPORTED;
    }
    return *result < INT64_MIN || *result > INT64_MAX ? MYLIB_ERR_OVERFLOW : MYLIB_OK;
}

static void run_i64(const test_op *op, int64_t a, int64_t b)
{
    i128 right = 0;
    int64_t got = -77;
    mylib_status status = exact(op->op, a, b, &right);
    test_set_case("%s of i64 %lld, %lld", op->name, (long long)a, (long long)b);
    if (!CHECK_STATUS(mylib_scalar_i64(op->op, test_cpu, a, b, &got), status))
        return;
    if (status != MYLIB_OK)
        right = -77; /* left alone */
    CHECK(got == (int64_t)right, "it is %lld, not %lld", (long long)got, (long long)right);
}

static void test_i64(void)
{
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    -2,
                                    3,
                                    -3,
                                    7,
                                    10,
                                    -10,
                                    INT32_MAX,
                                    INT32_MIN,
                                    (int64_t)UINT32_MAX,
                                    (int64_t)1 << 32,
                                    -((int64_t)1 << 32),
                                    3037000499, /* the largest whose square fits */
                                    3037000500,
                                    -3037000499,
                                    -3037000500,
                                    INT64_MAX / 2,
                                    INT64_MAX / 2 + 1,
                                    INT64_MIN / 2,
                                    INT64_MIN / 2 - 1,
                                    INT64_MAX - 1,
                                    INT64_MAX,
                                    INT64_MIN + 1,
                                    INT64_MIN};
    const int count = COUNT_OF(edges);
    rng r = rng_make(1);
    for (const test_op *op = test_ops; op < test_ops + MYLIB_OP_COUNT; op++) {
        for (int i = 0; i < count; i++)
            for (int j = 0; j < (op->arity == 2 ? count : 1); j++)
                run_i64(op, edges[i], edges[j]);
        for (int i = 0; i < test_rounds(5000); i++) {
            int64_t pair[2];
            fill_values(&r, MYLIB_I64, 2, pair);
            run_i64(op, pair[0], pair[1]);
            /* Products near the limit. */
            run_i64(op, pair[0] >> rng_below(&r, 64), pair[1] >> rng_below(&r, 64));
            if (llabs(pair[1] / 2) > 1)
                run_i64(op, INT64_MAX / pair[1] + rng_below(&r, 3) - 1, pair[1]);
        }
    }
}

/* ---- f64 and c128 ---- */

static int divides(mylib_op op)
{
    return op == MYLIB_OP_divide || op == MYLIB_OP_floor_divide || op == MYLIB_OP_remainder ||
           op == MYLIB_OP_reciprocal;
}

/* Returns the status for one part of a function's result. */
static mylib_status status_of_part(mylib_op op, int has_nan, int is_finite, int is_pole,
                                   double part)
{
    switch ((int)op) {
    case MYLIB_OP_nextafter:
    case MYLIB_OP_reciprocal:
    case MYLIB_OP_fmod:
#define ROW(kind, op, set) case MYLIB_OP_##op:
        MYLIB_ELEMENTARY_FUNCTIONS(ROW)
#undef ROW
        break;
    default:
        return MYLIB_OK;
    }
    if (isnan(part))
        return has_nan ? MYLIB_OK : MYLIB_ERR_DOMAIN;
    if (!isinf(part) || !is_finite)
        return MYLIB_OK;
    return is_pole ? MYLIB_ERR_DOMAIN : MYLIB_ERR_OVERFLOW;
}

static int is_pole(mylib_op op, double a)
{
    return op == MYLIB_OP_log1p ? a == -1 : op == MYLIB_OP_arctanh ? fabs(a) == 1 : a == 0;
}

static int is_complex_pole(mylib_op op, const double *a)
{
    if (op == MYLIB_OP_arctan)
        return a[0] == 0 && fabs(a[1]) == 1;
    return a[1] == 0 && is_pole(op, a[0]);
}

static mylib_status status_of_f64(mylib_op op, int arity, double a, double b, double result)
{
    const int is_finite = isfinite(a) && (arity == 1 || op == MYLIB_OP_nextafter || isfinite(b));
    return status_of_part(op, isnan(a) || (arity == 2 && isnan(b)), is_finite,
                          (arity == 1 || op == MYLIB_OP_power) && is_pole(op, a), result);
}

static void run_f64(const test_op *op, double a, double b)
{
    double got = -77, kept = -77;
    reference right;
    mylib_status status = !test_defined(op, MYLIB_F64)       ? MYLIB_ERR_UNSUPPORTED
                          : op->op == MYLIB_OP_sqrt && a < 0 ? MYLIB_ERR_DOMAIN
                                                             : MYLIB_OK;
    if (divides(op->op) && (op->arity == 2 ? b : a) == 0)
        status = MYLIB_ERR_ZERO_DIVIDE;
    test_set_case("%s of f64 %.17g, %.17g", op->name, a, b);
    if (status == MYLIB_OK) {
        reference_compute(op->op, MYLIB_F64, &a, &b, &right);
        double result = 0;
        memcpy(&result, right.bits, sizeof result);
        if (!op->compares)
            status = status_of_f64(op->op, op->arity, a, b, result);
    }
    if (!CHECK_STATUS(mylib_scalar_f64(op->op, test_cpu, a, b, &got), status))
        return;
    if (status != MYLIB_OK) {
        CHECK(got == kept, "the result was written");
        return;
    }
    reference_compute(op->op, MYLIB_F64, &a, &b, &right);
    if (op->compares) {
        CHECK(got == right.bits[0], "it is %g, not %d", got, right.bits[0]);
        return;
    }
    CHECK(reference_accepts(MYLIB_F64, &right, &got), "it is %s, not %s", describe(MYLIB_F64, &got),
          describe(MYLIB_F64, right.bits));
}

static void run_c128(const test_op *op, const double *a, const double *b)
{
    double got[2] = {-77, -77};
    reference right;
    mylib_status status = MYLIB_OK;
    const double *c = op->arity == 2 ? b : a;
    if (!test_defined(op, MYLIB_C128))
        status = MYLIB_ERR_UNSUPPORTED;
    else if (divides(op->op) && c[0] == 0 && c[1] == 0)
        status = MYLIB_ERR_ZERO_DIVIDE;
    else if (!op->compares && !op->real_result) {
        double parts[2];
        reference_compute(op->op, MYLIB_C128, a, b, &right);
        memcpy(parts, right.bits, sizeof parts);
        const int has_nan = isnan(a[0]) || isnan(a[1]) || isnan(c[0]) || isnan(c[1]);
        const int is_finite = isfinite(a[0]) && isfinite(a[1]) && isfinite(c[0]) && isfinite(c[1]);
        for (int i = 0; i < 2 && status == MYLIB_OK; i++)
            status =
                status_of_part(op->op, has_nan, is_finite, is_complex_pole(op->op, a), parts[i]);
    }
    test_set_case("%s of c128 %s, %s", op->name, describe(MYLIB_C128, a), describe(MYLIB_C128, b));
    if (!CHECK_STATUS(mylib_scalar_c128(op->op, test_cpu, a, b, got), status))
        return;
    if (status != MYLIB_OK) {
        CHECK(got[0] == -77 && got[1] == -77, "the result was written");
        return;
    }
    reference_compute(op->op, MYLIB_C128, a, b, &right);
    if (op->compares) {
        CHECK(got[0] == right.bits[0] && got[1] == 0, "it is %g, %g, not %d", got[0], got[1],
              right.bits[0]);
    } else if (op->real_result) {
        CHECK(got[1] == 0 && !signbit(got[1]), "the imaginary part is %g", got[1]);
        CHECK(reference_accepts(MYLIB_F64, &right, got), "it is %s, not %s",
              describe(MYLIB_F64, got), describe(MYLIB_F64, right.bits));
    } else {
        CHECK(reference_accepts(MYLIB_C128, &right, got), "it is %s, not %s",
              describe(MYLIB_C128, got), describe(MYLIB_C128, right.bits));
    }
}

static void test_inexact(void)
{
    static const double edges[] = {0.0,   -0.0,   1,      -1,      0.5,      -2.5,      3,
                                   1e308, -1e308, 5e-324, -5e-324, INFINITY, -INFINITY, NAN};
    const int count = COUNT_OF(edges);
    rng r = rng_make(2);
    for (const test_op *op = test_ops; op < test_ops + MYLIB_OP_COUNT; op++) {
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < count; j++) {
                run_f64(op, edges[i], edges[j]);
                const double pair[2] = {edges[i], edges[j]};
                for (int k = 0; k < (op->arity == 2 ? count : 1); k++) {
                    const double other[2] = {edges[k], edges[(i + k) % count]};
                    run_c128(op, pair, other);
                }
            }
        }
        for (int i = 0; i < test_rounds(3000); i++) {
            double four[4];
            fill_values(&r, MYLIB_F64, 4, four);
            run_f64(op, four[0], four[1]);
            run_c128(op, four, four + 2);
        }
    }
    /* The logarithm of this number is subnormal, and the exponent makes it 4. */
    const double base[2] = {1, 0x0.fffffffffffffp-1022}, exponent[2] = {-0.0, -DBL_MAX};
    run_c128(&test_ops[MYLIB_OP_power], base, exponent);
    /* A result may be written over an operand. */
    double z[2] = {3, -4};
    test_set_case("c128 in place");
    CHECK_OK(mylib_scalar_c128(MYLIB_OP_multiply, test_cpu, z, z, z));
    CHECK(z[0] == -7 && z[1] == -24, "(3 - 4i)^2 is %g, %g", z[0], z[1]);
    CHECK_OK(mylib_scalar_c128(MYLIB_OP_negative, test_cpu, z, NULL, z));
    CHECK(z[0] == 7 && z[1] == 24, "its negative is %g, %g", z[0], z[1]);
}

/* ---- Fibonacci ---- */

static void test_fib(void)
{
    i128 previous = 1, current = 0; /* F(-1), F(0) */
    uint64_t got;
    for (uint64_t n = 0; n <= 93; n++) {
        test_set_case("fib(%d)", (int)n);
        got = 77;
        CHECK_OK(mylib_fib(n, &got));
        CHECK((i128)got == current, "it is %llu", (unsigned long long)got);
        i128 next = previous + current;
        previous = current;
        current = next;
    }
    CHECK(got == UINT64_C(12200160415121876738), "F(93) is %llu", (unsigned long long)got);
    got = 77;
    CHECK_STATUS(mylib_fib(94, &got), MYLIB_ERR_OVERFLOW);
    CHECK_STATUS(mylib_fib(UINT64_MAX, &got), MYLIB_ERR_OVERFLOW);
    CHECK(got == 77, "the result was written");
}

int main(void)
{
    test_begin("scalar");
    test_i64();
    test_inexact();
    test_fib();
    return test_end();
}
