/*
 * Powers of signed integers: an exponent below 0 is refused wherever it comes from, before anything
 * is written; other powers wrap.  The tests of all operations leave these types out.
 */
#include "reference.h"

#define ROWS 7
#define COLUMNS 300
#define COUNT (ROWS * COLUMNS)
#define POISON 0x5a

static const mylib_device first_gpu = {MYLIB_CUDA, 0};
static unsigned char a[COUNT * 8], b[COUNT * 8], out[COUNT * 8];

static const test_op *const power = &test_ops[MYLIB_OP_power];

/* Exponents of all sizes, none of them negative. */
static void fill_exponents(rng *r, const test_type *t)
{
    fill_values(r, t->type, COUNT, b);
    for (int64_t i = 0; i < COUNT; i++) {
        b[(i + 1) * t->size - 1] &= 0x7f; /* the sign of a little-endian number */
        if (rng_once_in(r, 2))
            memset(b + i * t->size + 1, 0, (size_t)t->size - 1);
    }
    fill_values(r, t->type, COUNT, a);
    memset(out, POISON, sizeof out);
}

static void set_negative(const test_type *t, int64_t i)
{
    memset(b + i * t->size, 0xff, (size_t)t->size);
    b[i * t->size] = 0xfd; /* -3 */
}

static void check_row(const test_type *t, int64_t n, int64_t sa, int64_t sb)
{
    for (int64_t i = 0; i < n; i++) {
        reference right;
        reference_compute(power->op, t->type, a + i * sa, b + i * sb, &right);
        CHECK(memcmp(out + i * t->size, right.bits, (size_t)t->size) == 0, "element %lld differs",
              (long long)i);
    }
}

static void check_refused(mylib_status status)
{
    if (!CHECK_STATUS(status, MYLIB_ERR_DOMAIN))
        return;
    CHECK(strstr(mylib_last_message(), "exponent -3 is negative") != NULL, "the message is: %s",
          mylib_last_message());
    for (size_t i = 0; i < sizeof out; i++)
        if (out[i] != POISON) {
            CHECK(0, "byte %lld was written", (long long)i);
            return;
        }
}

/* ---- Rows and arrays ---- */

static void test_rows(const test_type *t, rng *r)
{
    for (int round = 0; round < 20; round++) {
        const int64_t n = 1 + rng_below(r, COUNT), at = rng_below(r, n);
        const int64_t sa = rng_once_in(r, 3) ? 0 : t->size, sb = rng_once_in(r, 3) ? 0 : t->size;
        test_set_case("powers of %s, n = %lld, strides %lld and %lld", t->name, (long long)n,
                      (long long)sa, (long long)sb);
        fill_exponents(r, t);
        CHECK_OK(mylib_map1(power->op, t->type, n, out, t->size, a, sa, b, sb));
        check_row(t, n, sa, sb);
        memset(out, POISON, sizeof out);
        set_negative(t, sb == 0 ? 0 : at);
        check_refused(mylib_map1(power->op, t->type, n, out, t->size, a, sa, b, sb));
    }
}

/* Exponents that repeat along an axis, backwards, and of which every other one is left out. */
static void test_arrays(const test_type *t, mylib_device device, rng *r)
{
    const int64_t shape[2] = {ROWS, COLUMNS}, size = t->size;
    const int64_t strides[3][2] = {{COLUMNS * size, size}, {0, -size}, {size, 2 * size}};
    for (int k = 0; k < 3; k++) {
        const int64_t columns = k == 2 ? COLUMNS / 2 : COLUMNS;
        const int64_t shape_k[2] = {shape[0], columns};
        const mylib_array to = {out, test_cpu, t->type, 2, shape_k, NULL};
        mylib_array in[2] = {
            {a, test_cpu, t->type, 2, shape_k, NULL},
            {b + (k == 1 ? (COLUMNS - 1) * size : 0), test_cpu, t->type, 2, shape_k, strides[k]}};
        test_set_case("powers of %s in two dimensions, layout %d", t->name, k);
        fill_exponents(r, t);
        if (k == 2) /* one that is not used */
            set_negative(t, COUNT - 1);
        CHECK_OK(mylib_map(power->op, device, NULL, &to, in));
        memset(out, POISON, sizeof out);
        set_negative(t, k == 1 ? rng_below(r, COLUMNS) : 2 * rng_below(r, COLUMNS / 2));
        check_refused(mylib_map(power->op, device, NULL, &to, in));
    }
}

/* ---- Conversions and programs ---- */

/* The exponent counts as it is after conversion to the type of the power. */
static void test_conversions(void)
{
    static const int64_t n = 3;
    int64_t base[3] = {2, -3, 5}, exponents[3] = {1, 253, 2};
    const mylib_array to = {out, test_cpu, MYLIB_I8, 1, &n, NULL};
    const mylib_array in[2] = {test_row(base, MYLIB_I64, &n), test_row(exponents, MYLIB_I64, &n)};
    test_set_case("powers of i64 in i8");
    memset(out, POISON, sizeof out);
    check_refused(mylib_map_as(power->op, MYLIB_I8, test_cpu, NULL, &to, in));
    exponents[1] = 256 + 3;
    CHECK_OK(mylib_map_as(power->op, MYLIB_I8, test_cpu, NULL, &to, in));
    CHECK((signed char)out[0] == 2 && (signed char)out[1] == -27 && (signed char)out[2] == 25,
          "they are %d, %d, %d", (signed char)out[0], (signed char)out[1], (signed char)out[2]);
}

/* a ** (b - 3), and its sum: the exponent is a step; a ** constant. */
static void test_programs(void)
{
    static const int64_t n = 4;
    static const mylib_type types[2] = {MYLIB_I32, MYLIB_I32};
    mylib_constant three = {.type = MYLIB_I32};
    static const mylib_step steps[2] = {{MYLIB_OP_subtract, MYLIB_I32, {1, 2, 0}},
                                        {MYLIB_OP_power, MYLIB_I32, {0, 3, 0}}};
    static const mylib_step of_constant = {MYLIB_OP_power, MYLIB_I32, {0, 2, 0}};
    int32_t base[4] = {2, 3, -4, 5}, exponents[4] = {3, 0, 5, 4}, value = 3;
    const int32_t right[4] = {1, 27, 16, 5};
    int64_t sum = 0;
    mylib_program *program = NULL;
    const mylib_array to = {out, test_cpu, MYLIB_I32, 1, &n, NULL};
    const mylib_array total = {&sum, test_cpu, MYLIB_I64, 0, NULL, NULL};
    const mylib_array in[2] = {test_row(base, MYLIB_I32, &n), test_row(exponents, MYLIB_I32, &n)};
    test_set_case("powers in programs");
    memcpy(three.value, &value, sizeof value);
    memset(out, POISON, sizeof out);
    if (!CHECK_OK(mylib_program_create(2, types, 1, &three, 2, steps, &program)))
        return;
    check_refused(mylib_program_run(program, test_cpu, NULL, &to, in));
    check_refused(mylib_program_reduce(program, MYLIB_SUM, MYLIB_I32, test_cpu, NULL, &total, in));
    CHECK(sum == 0, "the sum was written");
    exponents[1] = 6;
    CHECK_OK(mylib_program_run(program, test_cpu, NULL, &to, in));
    CHECK(memcmp(out, right, sizeof right) == 0, "the powers are wrong");
    CHECK_OK(mylib_program_reduce(program, MYLIB_SUM, MYLIB_I32, test_cpu, NULL, &total, in));
    CHECK(sum == 1 + 27 + 16 + 5, "the sum is %lld", (long long)sum);
    mylib_program_free(program);

    for (value = -3; value <= 3; value += 6) {
        memcpy(three.value, &value, sizeof value);
        memset(out, POISON, sizeof out);
        if (!CHECK_OK(mylib_program_create(2, types, 1, &three, 1, &of_constant, &program)))
            return;
        if (value < 0)
            check_refused(mylib_program_run(program, test_cpu, NULL, &to, in));
        else
            CHECK_OK(mylib_program_run(program, test_cpu, NULL, &to, in));
        mylib_program_free(program);
    }
}

int main(void)
{
    int gpus = 0;
    test_begin("powers");
    rng r = rng_make(1);
    for (mylib_type type = MYLIB_I8; type <= MYLIB_I64; type++) {
        const test_type *t = &test_types[type];
        FOR_EACH_LEVEL(level)
        test_rows(t, &r);
        test_arrays(t, test_cpu, &r);
        if (mylib_cuda_device_count(&gpus) == MYLIB_OK)
            test_arrays(t, first_gpu, &r);
    }
    test_conversions();
    test_programs();
    return test_end();
}
