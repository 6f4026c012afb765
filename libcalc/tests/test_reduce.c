/*
 * mylib_trace(): the order that the header promises, held against a sum written from its words;
 * every type, rectangular, strided and reversed matrices, any number of threads, every CPU level.
 */
#include "guard.h"
#include "reference.h"

#define MAX_LENGTH 70000
#define POISON 0xa5

static unsigned char values[MAX_LENGTH * TEST_MAX_SIZE];

static void compare(const test_type *t, int64_t n, const void *terms, int64_t stride,
                    const mylib_array *matrix)
{
    unsigned char right[TEST_MAX_SIZE] = {0}, got[TEST_MAX_SIZE + 16];
    mylib_type type = reference_sum_type(t->type);
    size_t size = (size_t)test_size(type);
    memset(got, POISON, sizeof got);
    reference_sum(t->type, n, terms, stride, right);
    if (!CHECK_OK(mylib_trace(test_cpu, NULL, matrix, got)))
        return;
    CHECK(same_value(type, right, got), "the sum is %s, not %s", describe(type, got),
          describe(type, right));
    for (size_t i = size; i < sizeof got; i++)
        CHECK(got[i] == POISON, "byte %zu beside the result was written", i);
}

/* The diagonal of an n x n matrix with any strides; only the diagonal need be in memory. */
static void run_diagonal(const test_type *t, int64_t n, int64_t row, int64_t column)
{
    int64_t shape[2] = {n, n}, strides[2] = {row, column}, stride = row + column;
    unsigned char *start = stride < 0 ? values - (n - 1) * stride : values;
    mylib_array matrix = {start, test_cpu, t->type, 2, shape, strides};
    test_set_case("trace of %s, n = %lld, strides %lld, %lld", t->name, (long long)n,
                  (long long)row, (long long)column);
    compare(t, n, start, stride, &matrix);
}

static void test_lengths(const test_type *t, rng *r)
{
    static const int64_t around[] = {511,  512,  513,  1024, 1025, 2047, 2048,  2049,  2303, 2304,
                                     2305, 4095, 4096, 4097, 6144, 6145, 10240, 14336, 16385};
    for (int64_t n = 0; n <= 300; n++) {
        fill_values(r, t->type, n + 1, values);
        run_diagonal(t, n, t->size, 0);
    }
    for (size_t i = 0; i < COUNT_OF(around); i++) {
        fill_ordinary(r, t->type, around[i], values);
        run_diagonal(t, around[i], t->size, 0);
    }
    for (int i = 0; i < 12; i++) {
        int64_t n = rng_below(r, MAX_LENGTH / 3);
        if (i % 3 == 0)
            fill_values(r, t->type, MAX_LENGTH, values);
        else
            fill_ordinary(r, t->type, MAX_LENGTH, values);
        run_diagonal(t, n, t->size, 0);
        run_diagonal(t, n, -t->size, 0);
        run_diagonal(t, n, 4 * t->size, -2 * t->size);
        run_diagonal(t, n, 0, 2 * t->size + 1);        /* unaligned */
        run_diagonal(t, n, 5 * t->size, -5 * t->size); /* one element, again and again */
    }
    fill_ordinary(r, t->type, MAX_LENGTH, values);
    run_diagonal(t, MAX_LENGTH, t->size, 0);
}

/* Matrices in memory, higher and wider, in both orders, and views of larger ones. */
static void test_matrices(const test_type *t, rng *r)
{
    static const int64_t shapes[][2] = {{0, 0}, {0, 5}, {5, 0},   {1, 1},   {1, 9},
                                        {9, 1}, {7, 7}, {20, 33}, {33, 20}, {120, 100}};
    fill_values(r, t->type, MAX_LENGTH, values);
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        int64_t rows = shapes[i][0], columns = shapes[i][1], n = rows < columns ? rows : columns;
        int64_t c_order[2] = {columns * t->size, t->size}, f_order[2] = {t->size, rows * t->size};
        int64_t view[2] = {3 * (columns + 2) * t->size, 2 * t->size};
        int64_t *strides[4] = {NULL, c_order, f_order, view};
        for (int k = 0; k < 4; k++) {
            int64_t stride = k == 0 ? (columns + 1) * t->size : strides[k][0] + strides[k][1];
            mylib_array matrix = {values, test_cpu, t->type, 2, shapes[i], strides[k]};
            test_set_case("trace of %s, %lld x %lld, layout %d", t->name, (long long)rows,
                          (long long)columns, k);
            compare(t, n, values, stride, &matrix);
        }
        if (n == 0) {
            mylib_array matrix = {NULL, test_cpu, t->type, 2, shapes[i], NULL};
            test_set_case("trace of %s, nothing", t->name);
            compare(t, 0, values, 0, &matrix);
        }
    }
}

/* Only the diagonal is read: the rest of the matrix may not even be there. */
static void test_guarded(const test_type *t, rng *r)
{
    guard g;
    guard_open(&g, 4096);
    for (int64_t n = 1; n <= 40; n++) {
        int64_t shape[2] = {n, n + 3}, strides[2] = {t->size, 0};
        for (int back = 0; back < 2; back++) {
            unsigned char *data = guard_place(&g, back, n, t->size, t->size);
            mylib_array matrix = {data, test_cpu, t->type, 2, shape, strides};
            fill_values(r, t->type, n, data);
            test_set_case("trace of %s, n = %lld, %s guard", t->name, (long long)n,
                          back ? "back" : "front");
            compare(t, n, data, t->size, &matrix);
        }
    }
    guard_close(&g);
}

/* -0 is not 0 + -0; an empty sum is 0. */
static void test_zeros(void)
{
    double minus[3] = {-0.0, -0.0, -0.0}, sum = -1;
    int64_t shape[2] = {3, 3}, strides[2] = {8, 0};
    mylib_array matrix = {minus, test_cpu, MYLIB_F64, 2, shape, strides};
    test_set_case("sums of -0");
    CHECK_OK(mylib_trace(test_cpu, NULL, &matrix, &sum));
    CHECK(sum == 0 && 1 / sum < 0, "-0 + -0 + -0 gives %g", sum);
    shape[0] = 0;
    CHECK_OK(mylib_trace(test_cpu, NULL, &matrix, &sum));
    CHECK(sum == 0 && 1 / sum > 0, "the sum of nothing gives %g", sum);
}

/* As the header says it, on numbers whose every order of summing gives something else. */
static void test_accuracy(void)
{
    int64_t n = MAX_LENGTH, shape[2] = {n, n}, strides[2] = {4, 0};
    float *terms = (float *)values, sum = 0;
    mylib_array matrix = {terms, test_cpu, MYLIB_F32, 2, shape, strides};
    double exact = 0;
    test_set_case("accuracy");
    for (int64_t i = 0; i < n; i++)
        exact += terms[i] = 0.1f + (float)i * 1e-5f;
    CHECK_OK(mylib_trace(test_cpu, NULL, &matrix, &sum));
    CHECK(sum > exact * (1 - 1e-6) && sum < exact * (1 + 1e-6), "%.9g, exactly %.9g", sum, exact);
}

static void test_sum_types(void)
{
    test_set_case("sum types");
    for (const test_type *t = test_types; t < test_types + TEST_COMPUTED_COUNT; t++) {
        mylib_type type = (mylib_type)77;
        CHECK_OK(mylib_sum_type(t->type, &type));
        CHECK(type == reference_sum_type(t->type), "the sum of %s is %d", t->name, (int)type);
    }
}

int main(void)
{
    static const int threads[] = {1, 2, 3, 8};
    test_begin("reduce");
    test_sum_types();

    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        if (!test_takes_case(i, 4))
            continue;
        CHECK_OK(mylib_set_num_threads(threads[i]));
        rng r = rng_make(i);
        for (const test_type *t = test_types; t < test_types + TEST_COMPUTED_COUNT; t++) {
            if (!test_use_level((int)i))
                CHECK_OK(mylib_set_cpu_level(NULL));
            test_lengths(t, &r);
            test_matrices(t, &r);
            test_guarded(t, &r);
        }
    }
    FOR_EACH_LEVEL(level)
    {
        rng r = rng_make(100);
        for (const test_type *t = test_types; t < test_types + TEST_COMPUTED_COUNT; t++)
            test_matrices(t, &r);
        test_zeros();
        test_accuracy();
    }
    return test_end();
}
