/*
 * Stores past the cache: large arrays have the bits and flags of short ones, for every operation
 * and type and for programs, wherever in a cache line a row begins or ends.
 */
#include "reference.h"

#include <fenv.h>

/* Larger than any cache that matters; rows of odd length begin anywhere in a line. */
#define TRAFFIC_NBYTES (33 << 20)
#define COLUMNS 4099

static unsigned char in[3][COLUMNS * TEST_MAX_SIZE], expected[COLUMNS * TEST_MAX_SIZE];
static unsigned char *large; /* room for an output */

static const int64_t columns = COLUMNS, one = 1;

typedef mylib_status runner(const void *what, const mylib_array *out, const mylib_array *operands);

/* Returns the flags that it raised. */
static int run(runner *r, const void *what, const mylib_array *out, const mylib_array *operands)
{
    feclearexcept(FE_ALL_EXCEPT);
    CHECK_OK(r(what, out, operands));
    return fetestexcept(FE_ALL_EXCEPT);
}

/* Compares one row with so many equal rows that they bypass the cache. */
static void check(runner *r, const void *what, mylib_type type, const mylib_array *operands,
                  int64_t nbytes_of_element, int promised_flags)
{
    const int64_t size = test_size(type);
    const int64_t shape[2] = {TRAFFIC_NBYTES / nbytes_of_element / COLUMNS + 1, COLUMNS};
    mylib_array row = {expected, test_cpu, type, 1, &columns, NULL};
    mylib_array rows = {large + 3 * size, test_cpu, type, 2, shape, NULL};
    int flags = run(r, what, &row, operands);
    memset(large, 0xa5, (size_t)((shape[0] * COLUMNS + 4) * size));
    int large_flags = run(r, what, &rows, operands);
    CHECK(((large_flags ^ flags) & promised_flags) == 0, "flags %#x, but %#x of one row",
          (unsigned)large_flags, (unsigned)flags);
    for (int64_t i = 0; i < shape[0]; i++) {
        const unsigned char *got = (unsigned char *)rows.data + i * COLUMNS * size;
        if (memcmp(got, expected, (size_t)(COLUMNS * size)) == 0)
            continue;
        int64_t wrong = first_difference(type, COLUMNS, expected, got); /* NaNs may differ */
        CHECK(wrong == COLUMNS, "row %lld, element %lld: %s, not %s", (long long)i,
              (long long)wrong, describe(type, got + wrong * size),
              describe(type, expected + wrong * size));
        if (wrong != COLUMNS)
            break;
    }
    for (int64_t i = 0; i < size; i++)
        CHECK(large[2 * size + i] == 0xa5 && large[(shape[0] * COLUMNS + 3) * size + i] == 0xa5,
              "an element beside the output was written");
}

/* ---- Operations ---- */

static mylib_status run_op(const void *op, const mylib_array *out, const mylib_array *operands)
{
    return mylib_map(*(const mylib_op *)op, test_cpu, NULL, out, operands);
}

static void check_op(const test_op *op, const test_type *t, int level)
{
    const mylib_type type = test_result_type(op, t->type);
    /* The quotients of integers may be inexact, and NaNs among imaginary parts be looked at. */
    const int flags = op->compares && (t->type == MYLIB_C64 || t->type == MYLIB_C128) ? 0
                      : test_is_integer(t->type) ? FE_ALL_EXCEPT & ~FE_INEXACT
                                                 : FE_ALL_EXCEPT;
    CHECK(test_use_level(level), "no level %s", test_levels[level]);
    for (int k = 0; k < (op->arity == 2 ? 3 : 1); k++) {
        mylib_array operands[2] = {{in[0], test_cpu, t->type, 1, k == 1 ? &one : &columns, NULL},
                                   {in[1], test_cpu, t->type, 1, k == 2 ? &one : &columns, NULL}};
        test_set_case("%s of %s%s, %s", op->name, t->name,
                      k == 0   ? ""
                      : k == 1 ? ", first a number"
                               : ", then a number",
                      test_levels[level]);
        check(run_op, &op->op, type, operands, test_size(type) + op->arity * t->size, flags);
    }
}

/* ---- Programs ---- */

static mylib_status run_program(const void *program, const mylib_array *out,
                                const mylib_array *operands)
{
    return mylib_program_run(program, test_cpu, NULL, out, operands);
}

static void check_program(const char *name, int level, const mylib_step *steps, int count)
{
    static const mylib_type types[3] = {MYLIB_F64, MYLIB_F64, MYLIB_I32};
    const mylib_array operands[3] = {test_row(in[0], MYLIB_F64, &columns),
                                     test_row(in[1], MYLIB_F64, &one),
                                     test_row(in[2], MYLIB_I32, &columns)};
    mylib_program *program;
    mylib_type type;
    test_set_case("%s, %s", name, test_levels[level]);
    if (!CHECK_OK(mylib_program_create(3, types, 0, NULL, count, steps, &program)))
        return;
    CHECK_OK(mylib_program_result_type(program, &type));
    check(run_program, program, type, operands, test_size(type) + 20, FE_ALL_EXCEPT);
    mylib_program_free(program);
}

static void check_programs(int level)
{
    enum { MANY = 60 };
    static const mylib_step few[] = {{MYLIB_OP_multiply, MYLIB_F64, {0, 2, 0}},
                                     {MYLIB_OP_subtract, MYLIB_F64, {0, 1, 0}},
                                     {MYLIB_OP_divide, MYLIB_F64, {3, 4, 0}}};
    static const mylib_step with_number_last[] = {{MYLIB_OP_add, MYLIB_F64, {0, 2, 0}},
                                                  {MYLIB_OP_square, MYLIB_F64, {1, 0, 0}},
                                                  {MYLIB_OP_multiply, MYLIB_F64, {3, 4, 0}}};
    static const mylib_step chosen[] = {{MYLIB_OP_less, MYLIB_F64, {0, 1, 0}},
                                        {MYLIB_STEP_SELECT, MYLIB_F64, {3, 1, 2}}};
    static const mylib_step converted[] = {{MYLIB_OP_add, MYLIB_I32, {2, 2, 0}},
                                           {MYLIB_STEP_CONVERT, MYLIB_I8, {3, 0, 0}}};
    mylib_step many[MANY] = {{MYLIB_OP_add, MYLIB_F64, {0, 2, 0}}};
    for (int i = 1; i < MANY; i++)
        many[i] =
            (mylib_step){i % 2 ? MYLIB_OP_multiply : MYLIB_OP_add, MYLIB_F64, {2 + i, i % 3, 0}};
    check_program("three steps", level, few, 3);
    check_program("a number last", level, with_number_last, 3);
    check_program("a selection", level, chosen, 2);
    check_program("a conversion", level, converted, 2);
    check_program("sixty steps", level, many, MANY);
}

int main(void)
{
    test_begin("bypass");
    rng r = rng_make(1);
    large = test_malloc(TRAFFIC_NBYTES + 2 * COLUMNS * TEST_MAX_SIZE);
    fill_values(&r, MYLIB_F64, COLUMNS, in[0]);
    fill_values(&r, MYLIB_F64, 1, in[1]);
    fill_values(&r, MYLIB_I32, COLUMNS, in[2]);
    int best = 0;
    FOR_EACH_LEVEL(level)
    best = level;
    check_programs(best);
    FOR_EACH_PAIR(op, t)
    {
        if (op->op >= MYLIB_OP_rint || rng_below(&r, 5) >= test_rounds(5))
            continue;
        fill_pairs(&r, t->type, COLUMNS, in[0], in[1]);
        check_op(op, t, best);
        int level = (int)rng_below(&r, 4 * TEST_LEVEL_COUNT);
        if (level < best)
            check_op(op, t, level);
    }
    free(large);
    return test_end();
}
