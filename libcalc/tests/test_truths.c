/*
 * test_truths.c - any, all and the number of true elements of rows and columns: every type and CPU
 * level, lengths around vectors and blocks, strides, one odd element anywhere, negative zeros.
 */
#include "reference.h"

#define MAX_NBYTES ((int64_t)1 << 20)

static unsigned char values[MAX_NBYTES];

/* The program that converts an element to bool. */
static mylib_program *new_program(mylib_type type)
{
    const mylib_step step = {MYLIB_STEP_CONVERT, MYLIB_BOOL, {0}};
    mylib_program *program = NULL;
    CHECK_OK(mylib_program_create(1, &type, 0, NULL, 1, &step, &program));
    return program;
}

/* Tells whether an element is true: whether it has bits besides signs of floating-point numbers. */
static int is_true(const test_type *t, const unsigned char *p)
{
    const int parts = t->type == MYLIB_C64 || t->type == MYLIB_C128 ? 2 : 1;
    const int is_float = t->type >= MYLIB_F16 && t->type != MYLIB_BOOL;
    const int64_t part = t->size / parts;
    for (int64_t i = 0; i < t->size; i++)
        if ((is_float && i % part == part - 1 ? p[i] & 0x7f : p[i]) != 0)
            return 1;
    return 0;
}

/* Checks all three reductions of a rows x columns matrix, along axis 0 or 1. */
static void check_truths(const test_type *t, const mylib_program *program, int64_t rows,
                         int64_t columns, const int64_t *strides, int axis)
{
    const int64_t shape[2] = {rows, columns};
    const int64_t kept[2] = {axis == 0 ? 1 : rows, axis == 0 ? columns : 1};
    const mylib_array in = {values, test_cpu, t->type, 2, shape, strides};
    static unsigned char any[4096], all[4096];
    static int64_t count[4096];
    const mylib_array any_out = {any, test_cpu, MYLIB_U8, 2, kept, NULL};
    const mylib_array all_out = {all, test_cpu, MYLIB_U8, 2, kept, NULL};
    const mylib_array count_out = {count, test_cpu, MYLIB_I64, 2, kept, NULL};
    memset(any, 0xa5, sizeof any);
    memset(all, 0xa5, sizeof all);
    memset(count, 0xa5, sizeof count);
    test_set_case("truths of %s, %lld x %lld, strides %lld, %lld, axis %d", t->name,
                  (long long)rows, (long long)columns, (long long)strides[0], (long long)strides[1],
                  axis);
    CHECK_OK(mylib_program_reduce(program, MYLIB_MAX, MYLIB_U8, test_cpu, NULL, &any_out, &in));
    CHECK_OK(mylib_program_reduce(program, MYLIB_MIN, MYLIB_U8, test_cpu, NULL, &all_out, &in));
    CHECK_OK(mylib_program_reduce(program, MYLIB_SUM, MYLIB_I64, test_cpu, NULL, &count_out, &in));
    const int64_t outputs = axis == 0 ? columns : rows, terms = axis == 0 ? rows : columns;
    for (int64_t j = 0; j < outputs; j++) {
        int64_t found = 0;
        for (int64_t i = 0; i < terms; i++)
            found += is_true(t, values + j * strides[!axis] + i * strides[axis]);
        CHECK(count[j] == found && any[j] == (found > 0) && all[j] == (found == terms),
              "output %lld: %lld true of %lld, but count %lld, any %d, all %d", (long long)j,
              (long long)found, (long long)terms, (long long)count[j], any[j], all[j]);
    }
}

/* Fills the values: mostly true or mostly false elements, and some of the other kind. */
static void fill(rng *r, const test_type *t)
{
    const int is_mostly_true = rng_once_in(r, 2), has_others = !rng_once_in(r, 3);
    const int64_t n = MAX_NBYTES / t->size;
    for (int64_t i = 0; i < n; i++) {
        const int is_other = has_others && rng_once_in(r, 50);
        unsigned char *p = values + i * t->size;
        memset(p, 0, (size_t)t->size);
        if (is_mostly_true != is_other)
            p[t->type == MYLIB_BOOL ? 0 : rng_below(r, t->size)] = 1;
        else if (t->type >= MYLIB_F16 && t->type != MYLIB_BOOL)
            p[t->size - 1] = 0x80; /* a negative zero */
    }
}

static void test_type_of(rng *r, const test_type *t)
{
    static const int64_t lengths[] = {1,   2,   7,   15,   16,   17,   31,   32,  33,  63,
                                      64,  65,  127, 128,  129,  255,  256,  257, 511, 512,
                                      513, 600, 999, 1024, 1025, 2047, 2049, 4095};
    mylib_program *program = new_program(t->type);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        const int64_t n = lengths[i], m = 1 + rng_below(r, 12), gap = rng_below(r, 3) * t->size;
        const int64_t rows[2] = {n * t->size + gap, t->size},
                      spaced[2] = {t->size, m * 2 * t->size};
        fill(r, t);
        check_truths(t, program, m, n, rows, 1);
        check_truths(t, program, m, n, rows, 0);
        const int64_t columns[2] = {m * t->size + gap, t->size};
        check_truths(t, program, n, m, columns, 0);
        check_truths(t, program, n, m, columns, 1);
        if (m * 2 * n * t->size <= MAX_NBYTES)
            check_truths(t, program, m, n, spaced, 1);
    }
    mylib_program_free(program);
}

int main(void)
{
    test_begin("truths");
    FOR_EACH_LEVEL(level)
    {
        rng r = rng_make((uint64_t)level);
        /* A sample leaves out types, not levels: this machine may lack the level left. */
        for (const test_type *t = test_types; t < test_types + MYLIB_TYPE_COUNT; t++)
            if (test_takes_case((size_t)(t->type + level), TEST_LEVEL_COUNT))
                test_type_of(&r, t);
    }
    return test_end();
}
