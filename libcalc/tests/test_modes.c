/*
 * The caller's floating-point mode (rounding, denormal numbers as zeros, traps) changes no bit of
 * any result, in short arrays and in those that threads share, and is the caller's again after the
 * call; flags that were up stay up, and new ones arrive.
 */
#include "test.h"

#include <fenv.h>
#include <math.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ---- Modes ---- */

/* The bits of the control register that are no flags. */
static unsigned long get_mode(void)
{
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3fu;
#elif defined(__aarch64__)
    unsigned long fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
#else
    return (unsigned long)fegetround();
#endif
}

static void set_mode(unsigned long mode)
{
#if defined(__x86_64__)
    _mm_setcsr((unsigned)mode | (_mm_getcsr() & 0x3f));
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" ::"r"(mode));
#else
    fesetround((int)mode);
#endif
}

typedef struct mode {
    const char *name;
    unsigned long bits;
} mode;

static const mode modes[] = {
#if defined(__x86_64__)
    {"flush to zero", 0x9f80},
    {"denormals are zeros", 0x1fc0},
    {"both, as -ffast-math sets them", 0x9fc0},
    {"down", 0x3f80},
    {"up", 0x5f80},
    {"toward zero", 0x7f80},
    {"all exceptions trap", 0x0000},
    {"everything at once", 0xe040},
#elif defined(__aarch64__)
    {"flush to zero", 1ul << 24},
    {"up", 1ul << 22},
    {"down", 2ul << 22},
    {"toward zero, default NaNs", 3ul << 22 | 1ul << 25},
#else
    {"up", FE_UPWARD},
    {"down", FE_DOWNWARD},
    {"toward zero", FE_TOWARDZERO},
#endif
};
#define MODES COUNT_OF(modes)

/* ---- What is computed ---- */

#define SHORT 37
#define LONG (1 << 18) /* shared among threads */

static const mylib_type types[] = {MYLIB_F16, MYLIB_F32, MYLIB_F64, MYLIB_C64, MYLIB_C128};
#define TYPES 5
static unsigned char *in[2][MYLIB_TYPE_COUNT]; /* LONG elements of each type */
static int64_t length;
static mylib_device device; /* where host arrays are computed */

/* Results, one after the other; those of the default mode are kept. */
static unsigned char *results, *expected;
static size_t used;
#define RESULTS_NBYTES ((size_t)LONG * 32)

static mylib_array array_of(void *data, mylib_type type)
{
    return (mylib_array){data, test_cpu, type, 1, &length, NULL};
}

static mylib_array one_of(void *data, mylib_type type)
{
    return (mylib_array){data, test_cpu, type, 0, NULL, NULL};
}

static void map_all(void)
{
    FOR_EACH_PAIR(op, t)
    {
        if (test_is_integer(t->type))
            continue;
        const mylib_array arrays[] = {array_of(in[0][t->type], t->type),
                                      array_of(in[1][t->type], t->type)};
        const mylib_array out = array_of(results + used, test_result_type(op, t->type));
        /* Long arrays: the operations whose results denormal numbers and rounding change. */
        if (length > SHORT && op->op != MYLIB_OP_multiply && op->op != MYLIB_OP_divide)
            continue;
        CHECK_OK(mylib_map(op->op, device, NULL, &out, arrays));
        if (length == SHORT)
            used += SHORT * TEST_MAX_SIZE;
    }
}

static void map1_all(void)
{
    for (int i = 0; i < TYPES; i++) {
        int64_t size = test_size(types[i]);
        unsigned char *fold = results + used;
        CHECK_OK(mylib_map1(MYLIB_OP_multiply, types[i], length, fold, size, in[0][types[i]], size,
                            in[1][types[i]], size));
        /* In place: a sum, and a product in order. */
        memcpy(fold, in[1][types[i]], (size_t)size);
        CHECK_OK(
            mylib_map1(MYLIB_OP_add, types[i], length, fold, 0, fold, 0, in[0][types[i]], size));
        memcpy(fold + 16, in[1][types[i]], (size_t)size);
        CHECK_OK(mylib_map1(MYLIB_OP_multiply, types[i], SHORT, fold + 16, 0, fold + 16, 0,
                            in[0][types[i]], size));
        used += 32;
    }
}

/* Every conversion between types: by a copy, a choice and an operation. */
static void convert_all(void)
{
    for (int i = 0; i < TYPES; i++) {
        for (int k = 0; k < TYPES; k++) {
            const mylib_array from = array_of(in[0][types[i]], types[i]);
            const mylib_array to = array_of(results + used, types[k]);
            const mylib_array both[] = {from, array_of(in[1][types[k]], types[k])};
            if (types[i] >= MYLIB_C64 && types[k] < MYLIB_C64)
                continue;
            CHECK_OK(mylib_copy_array(NULL, &to, &from));
            used += length == SHORT ? SHORT * TEST_MAX_SIZE : 0;
            CHECK_OK(mylib_select(device, NULL, &to, &both[1], &from, &both[1]));
            used += length == SHORT ? SHORT * TEST_MAX_SIZE : 0;
            CHECK_OK(mylib_map_as(MYLIB_OP_add, types[k], device, NULL, &to, both));
            used += length == SHORT ? SHORT * TEST_MAX_SIZE : 0;
        }
    }
}

static void reduce_all(void)
{
    for (int i = 0; i < TYPES; i++) {
        const mylib_array a = array_of(in[0][types[i]], types[i]);
        const mylib_array b = array_of(in[1][types[i]], types[i]);
        for (int reduction = 0; reduction < 4; reduction++) {
            const mylib_array out = one_of(results + used, types[i]);
            CHECK_OK(mylib_reduce((mylib_reduction)reduction, types[i], device, NULL, &out, &a));
            used += TEST_MAX_SIZE;
        }
        const mylib_array out = one_of(results + used, types[i]);
        CHECK_OK(mylib_dot(types[i], device, NULL, &out, &a, &b));
        used += TEST_MAX_SIZE;

        int64_t side = length == SHORT ? 6 : 700, shape[] = {side, side};
        mylib_array matrix = a;
        matrix.ndim = 2;
        matrix.shape = shape;
        CHECK_OK(mylib_trace(test_cpu, NULL, &matrix, results + used));
        used += TEST_MAX_SIZE;
        /* Across the outputs. */
        int64_t columns[] = {1, side};
        mylib_array row = out;
        row.data = results + used;
        row.ndim = 2;
        row.shape = columns;
        CHECK_OK(mylib_reduce(MYLIB_SUM, types[i], device, NULL, &row, &matrix));
        used += (size_t)side * TEST_MAX_SIZE;
    }
}

/* (a * b + 0.1) / 3e-320, in f32 and f64: constants that are converted when it is compiled. */
static void run_programs(void)
{
    for (int i = 1; i < 3; i++) {
        mylib_constant constants[] = {{.type = MYLIB_F64}, {.type = MYLIB_F64}};
        const double values[] = {0.1, 3e-320};
        const mylib_type inputs[] = {types[i], types[i]};
        const mylib_step steps[] = {{MYLIB_OP_multiply, (uint8_t)types[i], {0, 1, 0}},
                                    {MYLIB_OP_add, (uint8_t)types[i], {4, 2, 0}},
                                    {MYLIB_OP_divide, (uint8_t)types[i], {5, 3, 0}}};
        mylib_program *program;
        for (int k = 0; k < 2; k++)
            memcpy(constants[k].value, &values[k], sizeof *values);
        if (!CHECK_OK(mylib_program_create(2, inputs, 2, constants, 3, steps, &program)))
            return;
        const mylib_array arrays[] = {array_of(in[0][types[i]], types[i]),
                                      array_of(in[1][types[i]], types[i])};
        const mylib_array out = array_of(results + used, types[i]);
        CHECK_OK(mylib_program_run(program, device, NULL, &out, arrays));
        used += (size_t)length * (size_t)test_size(types[i]);
        const mylib_array sum = one_of(results + used, types[i]);
        CHECK_OK(mylib_program_reduce(program, MYLIB_SUM, types[i], device, NULL, &sum, arrays));
        used += TEST_MAX_SIZE;
        mylib_program_free(program);
    }
}

static void compute_ranges(void)
{
    for (int i = 0; i < TYPES; i++) {
        mylib_type given = types[i] == MYLIB_F16 ? MYLIB_F32 : types[i];
        const mylib_array out = array_of(results + used, types[i]);
        CHECK_OK(mylib_arange(NULL, &out, in[0][given], in[1][given]));
        used += length == SHORT ? SHORT * TEST_MAX_SIZE : 0;
    }
}

static void compute_numbers(void)
{
    static const double values[] = {1, 3, 0.1, -7.3, 5e-324, 3e-310, 2e-308, 1e300};
    enum { COUNT = COUNT_OF(values) };
    for (const test_op *op = test_ops; op < test_ops + MYLIB_OP_COUNT; op++) {
        for (int k = 0; k < COUNT * COUNT; k++) {
            double a = values[k / COUNT], b = values[k % COUNT], pair[2][2] = {{a, b}, {b, a}};
            double result[3] = {0, 0, 0};
            mylib_status status[2];
            status[0] = mylib_scalar_f64(op->op, device, a, b, result);
            status[1] = mylib_scalar_c128(op->op, device, pair[0], pair[1], result + 1);
            memcpy(results + used, result, sizeof result);
            memcpy(results + used + sizeof result, status, sizeof status);
            used += sizeof result + sizeof status;
        }
    }
}

static const struct {
    const char *name;
    void (*compute)(void);
} computations[] = {
    {"mylib_map", map_all},
    {"mylib_map1", map1_all},
    {"conversions", convert_all},
    {"reductions", reduce_all},
    {"programs", run_programs},
    {"mylib_arange", compute_ranges},
    {"plain numbers", compute_numbers},
};

/* ---- Comparing ---- */

static void compute(int c)
{
    used = 0;
    memset(results, 0, RESULTS_NBYTES);
    computations[c].compute();
}

static void compare(int c)
{
    feclearexcept(FE_ALL_EXCEPT);
    unsigned long own = get_mode();
    compute(c);
    int flags = fetestexcept(FE_ALL_EXCEPT);
    memcpy(expected, results, RESULTS_NBYTES);
    for (int m = 0; m < MODES; m += length == SHORT ? 1 : 3) {
        test_set_case("%s, %lld elements, on %s, mode: %s", computations[c].name, (long long)length,
                      device.kind == MYLIB_CPU ? "the CPU" : "a GPU", modes[m].name);
        feclearexcept(FE_ALL_EXCEPT);
        set_mode(modes[m].bits);
        unsigned long before = get_mode(); /* not all processors have all bits */
        compute(c);
        unsigned long after = get_mode();
        set_mode(own);
        int raised = fetestexcept(FE_ALL_EXCEPT);
        CHECK(after == before, "the mode was changed from %#lx to %#lx", before, after);
        CHECK(raised == flags, "raised %#x, but %#x in the default mode", raised, flags);
        size_t at = memcmp(results, expected, RESULTS_NBYTES) == 0 ? RESULTS_NBYTES : 0;
        while (at < RESULTS_NBYTES && results[at] == expected[at])
            at++;
        CHECK(at == RESULTS_NBYTES, "byte %zu of the results differs", at);
    }
}

/* Flags that the caller had raised, with a mode of its own, are not taken away. */
static void test_flags_are_kept(void)
{
    double a = 1, b = 3, result;
    for (int m = 0; m < MODES; m++) {
        unsigned long own = get_mode();
        test_set_case("flags raised before, mode: %s", modes[m].name);
        feclearexcept(FE_ALL_EXCEPT);
        feraiseexcept(FE_INVALID);
        set_mode(modes[m].bits);
        CHECK_OK(mylib_map1(MYLIB_OP_divide, MYLIB_F64, 1, &result, 8, &a, 8, &b, 8));
        set_mode(own);
        int flags = fetestexcept(FE_ALL_EXCEPT);
        CHECK(flags == (FE_INVALID | FE_INEXACT), "left %#x", flags);
    }
    feclearexcept(FE_ALL_EXCEPT);
}

/* Traps on, an exponent that is a signaling NaN: nothing traps before the default mode is set. */
static void test_signaling_exponent(void)
{
    static const unsigned char signaling[3][8] = {
        {1, 0x7c}, {1, 0, 0x80, 0x7f}, {1, 0, 0, 0, 0, 0, 0xf0, 0x7f}};
    for (int i = 0; i < 3; i++) {
        const mylib_type type = (mylib_type)(MYLIB_F16 + i);
        double base = 0, result = 0;
        const mylib_array out = one_of(&result, type);
        const mylib_array arrays[] = {one_of(&base, type), one_of((void *)signaling[i], type)};
        test_set_case("a signaling exponent of %s", mylib_type_name(type));
        feclearexcept(FE_ALL_EXCEPT);
        (void)feenableexcept(FE_INVALID);
        CHECK_OK(mylib_map(MYLIB_OP_power, test_cpu, NULL, &out, arrays));
        (void)fedisableexcept(FE_INVALID);
        feclearexcept(FE_ALL_EXCEPT);
    }
}

/* A third denormal, a third whose products are, and a third of ordinary numbers. */
static void fill(rng *r)
{
    for (int k = 0; k < 2; k++) {
        double *number = test_malloc(LONG * 16);
        for (int64_t i = 0; i < 2 * LONG; i++) {
            static const double scales[3][3] = {
                {0x1p-15, 0x1p-8, 1}, {0x1p-128, 0x1p-70, 1}, {0x1p-1024, 0x1p-520, 1}};
            int64_t kind = rng_below(r, 9);
            number[i] = (1 + (double)rng_below(r, 1 << 30) * 0x1p-30) *
                        scales[kind / 3][i % 3 == 0 ? kind % 3 : 2] * (i % 2 ? 1 : -1);
        }
        for (int i = 0; i < TYPES; i++) {
            const int64_t n = 2 * LONG;
            mylib_type parts = types[i] == MYLIB_C64    ? MYLIB_F32
                               : types[i] == MYLIB_C128 ? MYLIB_F64
                                                        : types[i];
            in[k][types[i]] = test_malloc(LONG * 32);
            const mylib_array from = {number, test_cpu, MYLIB_F64, 1, &n, NULL};
            const mylib_array to = {in[k][types[i]], test_cpu, parts, 1, &n, NULL};
            CHECK_OK(mylib_copy_array(NULL, &to, &from));
        }
        free(number);
    }
}

int main(void)
{
    static const int64_t lengths[] = {SHORT, LONG};
    int gpus = 0;
    test_begin("modes");
    rng r = rng_make(3);
    fill(&r);
    results = test_malloc(RESULTS_NBYTES);
    expected = test_malloc(RESULTS_NBYTES);
    (void)mylib_cuda_device_count(&gpus);
    for (int place = 0; place < (gpus > 0 ? 2 : 1); place++) {
        device.kind = place == 0 ? MYLIB_CPU : MYLIB_CUDA;
        for (int k = 0; k < 2; k++) {
            length = lengths[k];
            for (int c = 0; c < COUNT_OF(computations); c++)
                compare(c);
        }
    }
    test_flags_are_kept();
    test_signaling_exponent();
    free(results);
    free(expected);
    for (int i = 0; i < TYPES; i++) {
        free(in[0][types[i]]);
        free(in[1][types[i]]);
    }
    return test_end();
}
