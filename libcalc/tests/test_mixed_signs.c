/*
 * Comparisons of signed integers with u64: exact, where a conversion to any one type would not be.
 *
 * In each place, over the boundaries of both types, in all layouts that are walked differently.
 */
#include "reference.h"

typedef __int128 wide; /* holds both types */

static int expected(mylib_op op, wide a, wide b)
{
    switch (op) {
    case MYLIB_OP_equal:
        return a == b;
    case MYLIB_OP_not_equal:
        return a != b;
    case MYLIB_OP_less:
        return a < b;
    case MYLIB_OP_less_equal:
        return a <= b;
    case MYLIB_OP_greater:
        return a > b;
    default:
        return a >= b;
    }
}

static const uint64_t boundaries[] = {0,
                                      1,
                                      2,
                                      127,
                                      128,
                                      INT16_MAX,
                                      INT32_MAX,
                                      (uint64_t)1 << 31,
                                      ((uint64_t)1 << 53) - 1,
                                      ((uint64_t)1 << 53),
                                      ((uint64_t)1 << 53) + 1,
                                      INT64_MAX - 1,
                                      INT64_MAX,
                                      (uint64_t)INT64_MAX + 1,
                                      (uint64_t)INT64_MAX + 2,
                                      UINT64_MAX - 127,
                                      UINT64_MAX - 1,
                                      UINT64_MAX};

/* Places of the arrays and of the computation. */
enum { ON_CPU, THROUGH_GPU, ON_GPU, PLACES };
static const char *const place_names[PLACES] = {"CPU", "host arrays through a GPU", "GPU"};
static int places = 1;

static const mylib_device gpu = {MYLIB_CUDA, 0};

static wide element(mylib_type type, const void *p)
{
    int64_t value;
    reference_convert(MYLIB_I64, type, p, &value);
    return type == MYLIB_U64 ? (wide)(uint64_t)value : value;
}

/* Boundaries and their negatives, cut to the type, in an order of their own for each stream. */
static void fill(mylib_type type, int64_t n, char *data, uint64_t stream)
{
    rng r = rng_make(stream);
    for (int64_t i = 0; i < n; i++) {
        uint64_t value = PICK(&r, boundaries);
        if (type != MYLIB_U64 && rng_once_in(&r, 2))
            value = 0 - value;
        memcpy(data + i * test_size(type), &value, (size_t)test_size(type)); /* little-endian */
    }
}

static void *to_gpu(const void *host, size_t nbytes)
{
    void *data = NULL;
    if (mylib_alloc(gpu, nbytes, NULL, &data) != MYLIB_OK ||
        mylib_copy(gpu, data, test_cpu, host, nbytes, NULL) != MYLIB_OK)
        test_give_up(mylib_last_message());
    return data;
}

/* The output's (rows, columns); each input's strides, and its `room`, in elements. */
typedef struct shape_case {
    const char *name;
    int64_t rows, columns, strides[2][2], room;
} shape_case;

static const shape_case shapes[] = {
    {"contiguous", 1, 1000, {{0, 1}, {0, 1}}, 1000},
    {"every third, and backwards", 1, 300, {{0, 3}, {0, -1}}, 1000},
    {"the first repeated", 1, 500, {{0, 0}, {0, 1}}, 500},
    {"the second repeated", 1, 500, {{0, 1}, {0, 0}}, 500},
    {"one element", 1, 1, {{0, 1}, {0, 1}}, 1},
    {"a matrix and a transposed one", 150, 140, {{140, 1}, {1, 150}}, 21000},
    {"a row and a column", 40, 30, {{0, 1}, {1, 0}}, 40},
    {"enough for threads", 1, 300001, {{0, 1}, {0, 1}}, 300001},
};

static void check(mylib_op op, mylib_type signed_type, int signed_first, const shape_case *c,
                  int place)
{
    const mylib_type types[2] = {signed_first ? signed_type : MYLIB_U64,
                                 signed_first ? MYLIB_U64 : signed_type};
    const int64_t shape[2] = {c->rows, c->columns}, count = c->rows * c->columns;
    int64_t wrong = 0;
    int64_t strides[2][2];
    char *data[2], *result = test_malloc((size_t)count), *first[2];
    void *on_gpu[3] = {NULL, NULL, NULL};
    mylib_array in[2], out = {result, test_cpu, MYLIB_BOOL, 2, shape, NULL};

    test_set_case("%s of %s and %s, %s, %s", mylib_op_name(op), mylib_type_name(types[0]),
                  mylib_type_name(types[1]), c->name, place_names[place]);
    memset(result, 7, (size_t)count);
    for (int k = 0; k < 2; k++) {
        int64_t size = test_size(types[k]), offset = 0;
        size_t nbytes = (size_t)(c->room * size);
        data[k] = test_malloc(nbytes);
        fill(types[k], c->room, data[k], (uint64_t)(k + 1));
        for (int d = 0; d < 2; d++) {
            strides[k][d] = c->strides[k][d] * size;
            offset += c->strides[k][d] < 0 ? -strides[k][d] * (shape[d] - 1) : 0;
        }
        first[k] = data[k] + offset;
        if (place == ON_GPU)
            on_gpu[k] = to_gpu(data[k], nbytes);
        in[k] = (mylib_array){place == ON_GPU ? (char *)on_gpu[k] + offset : first[k],
                              place == ON_GPU ? gpu : test_cpu,
                              types[k],
                              2,
                              shape,
                              strides[k]};
    }
    if (place == ON_GPU) {
        out.data = on_gpu[2] = to_gpu(result, (size_t)count);
        out.device = gpu;
    }
    CHECK_OK(mylib_map(op, place == ON_CPU ? test_cpu : gpu, NULL, &out, in));
    if (place == ON_GPU)
        CHECK_OK(mylib_copy(test_cpu, result, gpu, on_gpu[2], (size_t)count, NULL));
    for (int64_t i = 0; i < count; i++) {
        wide x[2];
        for (int k = 0; k < 2; k++)
            x[k] = element(types[k], first[k] + i / c->columns * strides[k][0] +
                                         i % c->columns * strides[k][1]);
        int wanted = expected(op, x[0], x[1]);
        wrong += result[i] != wanted;
    }
    CHECK(wrong == 0, "%lld of %lld elements are wrong", (long long)wrong, (long long)count);
    for (int k = 0; k < 3; k++)
        if (on_gpu[k] != NULL)
            CHECK_OK(mylib_free(gpu, on_gpu[k], NULL));
    free(data[0]);
    free(data[1]);
    free(result);
}

static void test_layouts(void)
{
    for (int place = 0; place < places; place++)
        for (mylib_op op = MYLIB_OP_equal; op <= MYLIB_OP_greater_equal; op++)
            for (mylib_type type = MYLIB_I8; type <= MYLIB_I64; type++)
                for (size_t s = 0; s < COUNT_OF(shapes); s++)
                    for (int signed_first = 0; signed_first < 2; signed_first++)
                        if (test_takes_case(s + (size_t)type + (size_t)op, 3))
                            check(op, type, signed_first, &shapes[s], place);
}

/* A value without dimensions may be in host memory while the other operand is on a GPU. */
static void test_host_scalar(void)
{
    uint64_t values[2] = {UINT64_MAX, 5};
    int64_t minus = -1, two = 2;
    uint8_t result[2] = {7, 7};
    void *data = to_gpu(values, sizeof values), *to = to_gpu(result, sizeof result);
    mylib_array in[2] = {{&minus, test_cpu, MYLIB_I64, 0, NULL, NULL},
                         {data, gpu, MYLIB_U64, 1, &two, NULL}};
    mylib_array out = {to, gpu, MYLIB_BOOL, 1, &two, NULL};
    test_set_case("a host scalar");
    CHECK_OK(mylib_map(MYLIB_OP_equal, gpu, NULL, &out, in));
    CHECK_OK(mylib_copy(test_cpu, result, gpu, to, sizeof result, NULL));
    CHECK(result[0] == 0 && result[1] == 0, "%d %d", result[0], result[1]);
    CHECK_OK(mylib_free(gpu, data, NULL));
    CHECK_OK(mylib_free(gpu, to, NULL));
}

/* The output in place of the signed input, and shifted against it. */
static void test_overlap(void)
{
    int8_t data[1001], given[1001];
    uint64_t other[1000];
    const int64_t n = 1000;
    fill(MYLIB_U64, n, (char *)other, 3);
    for (int shift = 0; shift < 2; shift++) {
        fill(MYLIB_I8, n + 1, (char *)data, 4);
        memcpy(given, data, sizeof given);
        mylib_array in[2] = {test_row(data, MYLIB_I8, &n), test_row(other, MYLIB_U64, &n)};
        mylib_array out = {data + shift, test_cpu, MYLIB_BOOL, 1, &n, NULL};
        test_set_case("overlap, shifted by %d", shift);
        CHECK_OK(mylib_map(MYLIB_OP_less, test_cpu, NULL, &out, in));
        for (int64_t i = 0, now = given[0]; i < n; i++) {
            int wanted = (wide)now < (wide)other[i];
            CHECK(data[i + shift] == wanted, "element %lld", (long long)i);
            now = shift ? wanted : given[i + 1]; /* one element after the other */
        }
    }
}

/* All else is still one type. */
static void test_errors(void)
{
    int64_t data[2] = {1, 2};
    const int64_t n = 2;
    mylib_array out = {data, test_cpu, MYLIB_U64, 1, &n, NULL};
    const mylib_type types[][2] = {{MYLIB_I64, MYLIB_U64},  {MYLIB_U64, MYLIB_F64},
                                   {MYLIB_U32, MYLIB_U64},  {MYLIB_I32, MYLIB_I64},
                                   {MYLIB_U64, MYLIB_BOOL}, {MYLIB_I64, MYLIB_U32}};
    test_set_case("errors");
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        mylib_array in[2] = {test_row(data, types[i][0], &n), test_row(data, types[i][1], &n)};
        mylib_op op = i == 0 ? MYLIB_OP_add : MYLIB_OP_less;
        out.type = i == 0 ? MYLIB_I64 : MYLIB_BOOL;
        CHECK_STATUS(mylib_map(op, test_cpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
        CHECK(strstr(mylib_last_message(), "one type") != NULL, "%s", mylib_last_message());
    }
    mylib_array in[2] = {test_row(data, MYLIB_I64, &n), test_row(data, MYLIB_U64, &n)};
    out.type = MYLIB_I64;
    CHECK_STATUS(mylib_map(MYLIB_OP_less, test_cpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    CHECK(strstr(mylib_last_message(), "out is i64") != NULL, "%s", mylib_last_message());
    CHECK(data[0] == 1 && data[1] == 2, "something was written");
}

int main(void)
{
    int gpus = 0;
    test_begin("mixed_signs");
    if (mylib_cuda_device_count(&gpus) == MYLIB_OK)
        places = PLACES;
    test_layouts();
    test_overlap();
    test_errors();
    if (gpus > 0)
        test_host_scalar();
    return test_end();
}
