/*
 * Results do not depend on the CPU level, nor on the length of the array in which an element is
 * computed: the same bits for every operation and type, on special values and random bits.
 */
#include "reference.h"

#define MAX_LENGTH 5000

static unsigned char a[MAX_LENGTH * TEST_MAX_SIZE], b[MAX_LENGTH * TEST_MAX_SIZE];
static unsigned char first[MAX_LENGTH * TEST_MAX_SIZE], other[MAX_LENGTH * TEST_MAX_SIZE];

static void compute(const test_op *op, const test_type *t, int64_t n, int a_repeats, int b_repeats,
                    unsigned char *out)
{
    mylib_type type = test_result_type(op, t->type);
    memset(out, 0xa5, (size_t)(n * test_size(type)));
    CHECK_OK(mylib_map1(op->op, t->type, n, out, test_size(type), a, a_repeats ? 0 : t->size, b,
                        b_repeats ? 0 : t->size));
}

static void compare(const test_op *op, const test_type *t, int64_t n, int a_repeats, int b_repeats)
{
    mylib_type type = test_result_type(op, t->type);
    int64_t size = test_size(type), i = first_difference(type, n, first, other);
    if (i == n)
        return;
    const unsigned char *x = a + (a_repeats ? 0 : i) * t->size;
    const unsigned char *y = b + (b_repeats ? 0 : i) * t->size;
    CHECK(0, "element %lld of %lld: (%s, %s) gives %s, but %s before", (long long)i, (long long)n,
          describe(t->type, x), describe(t->type, y), describe(type, other + i * size),
          describe(type, first + i * size));
}

static void run_length(const test_op *op, const test_type *t, int64_t n, rng *r)
{
    fill_pairs(r, t->type, n > 0 ? n : 1, a, b);
    for (int k = 0; k < (op->arity == 2 ? 3 : 1); k++) {
        int have_first = 0, a_repeats = k == 1, b_repeats = k == 2;
        FOR_EACH_LEVEL(level)
        {
            test_set_case("%s of %s, n = %lld, %s%s", op->name, t->name, (long long)n,
                          k == 0   ? ""
                          : k == 1 ? "a repeated, "
                                   : "b repeated, ",
                          test_levels[level]);
            compute(op, t, n, a_repeats, b_repeats, have_first ? other : first);
            if (have_first)
                compare(op, t, n, a_repeats, b_repeats);
            have_first = 1;
        }
    }
}

/* One call for all elements, and one call for each. */
static void run_single(const test_op *op, const test_type *t, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    int64_t size = test_size(type), n = 203;
    fill_pairs(r, t->type, n, a, b);
    FOR_EACH_LEVEL(level)
    {
        test_set_case("%s of %s, element by element, %s", op->name, t->name, test_levels[level]);
        compute(op, t, n, 0, 0, first);
        for (int64_t i = 0; i < n; i++)
            CHECK_OK(mylib_map1(op->op, t->type, 1, other + i * size, size, a + i * t->size,
                                t->size, b + i * t->size, t->size));
        compare(op, t, n, 0, 0);
    }
}

static void check_selection(void)
{
    mylib_config config;
    char best[64];
    int found = 0;
    test_set_case("selection");
    CHECK_OK(mylib_set_cpu_level(NULL));
    CHECK_OK(mylib_get_config(&config));
    snprintf(best, sizeof best, "%s", config.cpu_level);
    FOR_EACH_LEVEL(level)
    {
        found++;
        printf("levels: %s\n", test_levels[level]);
        CHECK_OK(mylib_get_config(&config));
        CHECK(strcmp(config.cpu_level, test_levels[level]) == 0, "cpu_level is \"%s\", not \"%s\"",
              config.cpu_level, test_levels[level]);
    }
    CHECK(test_use_level(0), "generic must be there");
    CHECK_STATUS(mylib_set_cpu_level("x86-64-v9"), MYLIB_ERR_UNSUPPORTED);
    CHECK_OK(mylib_get_config(&config));
    CHECK(strcmp(config.cpu_level, "generic") == 0, "a refused level changed it to \"%s\"",
          config.cpu_level);
    CHECK_OK(mylib_set_cpu_level(NULL));
    CHECK_OK(mylib_get_config(&config));
    CHECK(strcmp(config.cpu_level, best) == 0, "NULL chose \"%s\", not \"%s\"", config.cpu_level,
          best);
#if defined(__x86_64__) && defined(__GNUC__)
    CHECK(found > 1 || !__builtin_cpu_supports("sse4.2"), "no level but generic on x86-64");
#endif
}

int main(void)
{
    test_begin("levels");
    check_selection();
    rng r = rng_make(1);
    FOR_EACH_PAIR(op, t)
    {
        for (int64_t n = 0; n <= 4 * TEST_VECTOR_NBYTES / t->size + 3; n++)
            run_length(op, t, n, &r);
        for (int i = 0; i < 8; i++)
            run_length(op, t, MAX_LENGTH - rng_below(&r, 100), &r);
        run_single(op, t, &r);
    }
    return test_end();
}
