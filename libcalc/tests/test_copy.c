/*
 * Copies on the CPU: every layout and pair of types, fills, and what is refused.
 */
#include "copies.h"

static const place host = {{MYLIB_CPU, 0}, 0};

static void test_pairs_of_types(rng *r)
{
    for (int dst = 0; dst < MYLIB_TYPE_COUNT; dst++) {
        for (int src = 0; src < MYLIB_TYPE_COUNT; src++) {
            if (!test_takes_case((size_t)(dst + src), 3))
                continue;
            layout to = copy_row(1000, 1, (mylib_type)dst),
                   from = copy_row(1000, 1, (mylib_type)src);
            layout every_third = copy_row(1000, -3, (mylib_type)src);
            layout one = copy_row(1, 1, (mylib_type)src);
            test_set_case("copy to %s from %s", mylib_type_name((mylib_type)dst),
                          mylib_type_name((mylib_type)src));
            one.ndim = 0;
            check_copy(r, &to, (mylib_type)dst, host, &from, (mylib_type)src, host, 0, NULL);
            check_copy(r, &to, (mylib_type)dst, host, &every_third, (mylib_type)src, host, 1, NULL);
            check_copy(r, &to, (mylib_type)dst, host, &one, (mylib_type)src, host, 3, NULL);
        }
    }
}

/* Large enough for several threads, and for stores past the cache. */
static void test_large(rng *r)
{
    const int64_t n = test_is_shortest() ? 1000003 : 5000011;
    layout dst = copy_row(n, 1, MYLIB_F64), src = copy_row(n, 1, MYLIB_F32);
    test_set_case("a large copy");
    check_copy(r, &dst, MYLIB_F64, host, &src, MYLIB_F32, host, 1, NULL);
    check_copy(r, &dst, MYLIB_F64, host, &dst, MYLIB_F64, host, 1, NULL);
    layout matrix = {.ndim = 2, .shape = {1201, 1300}, .strides = {1300 * 4, 4}}, turned = matrix;
    turned.strides[0] = 4, turned.strides[1] = 1201 * 4;
    layout_measure(&matrix, 4);
    layout_measure(&turned, 4);
    test_set_case("a transposed copy");
    check_copy(r, &matrix, MYLIB_I32, host, &turned, MYLIB_F32, host, 0, NULL);
}

static void test_overlap(void)
{
    int32_t data[12], before[12];
    int64_t n = 8, four = 4, none = 0, half[2] = {2, 4};
    mylib_array a = {data, host.device, MYLIB_I32, 1, &n, NULL}, b = a;
    for (int i = 0; i < 12; i++)
        data[i] = before[i] = i * 1000;
    test_set_case("overlap");
    CHECK_OK(mylib_copy_array(NULL, &a, &b));
    b.data = data + 1;
    CHECK_STATUS(mylib_copy_array(NULL, &a, &b), MYLIB_ERR_ARGUMENT);
    b = a, b.type = MYLIB_F32;
    CHECK_STATUS(mylib_copy_array(NULL, &a, &b), MYLIB_ERR_ARGUMENT);
    b = a, b.data = data + 8, b.shape = &four, a.shape = half, a.ndim = 2;
    a.strides = (int64_t[2]){0, 4};
    CHECK_STATUS(mylib_copy_array(NULL, &a, &b), MYLIB_ERR_ARGUMENT);
    CHECK(strstr(mylib_last_message(), "dst") != NULL, "%s", mylib_last_message());
    CHECK(memcmp(data, before, sizeof data) == 0, "something was written");

    /* Interleaved, and so disjoint. */
    int64_t two = 2, stride = 8;
    mylib_array even = {data, host.device, MYLIB_I32, 1, &two, &stride}, odd = even;
    odd.data = data + 1;
    CHECK_OK(mylib_copy_array(NULL, &even, &odd));
    CHECK(data[0] == 1000 && data[1] == 1000 && data[2] == 3000, "%d %d %d", data[0], data[1],
          data[2]);
    odd.strides = &none;
    CHECK_OK(mylib_copy_array(NULL, &even, &odd));
    CHECK(data[0] == 1000 && data[2] == 1000, "%d %d", data[0], data[2]);
}

static void test_join(void)
{
    float wide[10];
    double a[2] = {1, 2}, b[6] = {3, 4, 5, 6, 7, 8}, c[2] = {9, 10};
    const int64_t shape[2] = {2, 5}, one[2] = {2, 1}, three[2] = {2, 3}, turned[2] = {8, 16};
    const mylib_array dst = {wide, host.device, MYLIB_F32, 2, shape, NULL};
    mylib_array src[3] = {{a, host.device, MYLIB_F64, 2, one, NULL},
                          {b, host.device, MYLIB_F64, 2, three, turned},
                          {c, host.device, MYLIB_F64, 2, one, NULL}};
    static const float expected[10] = {1, 3, 5, 7, 9, 2, 4, 6, 8, 10};
    test_set_case("joined arrays");
    CHECK_OK(mylib_copy_arrays(NULL, &dst, 1, 3, src));
    CHECK(memcmp(wide, expected, sizeof wide) == 0, "wrong elements");
    memset(wide, 0, sizeof wide);
    CHECK_STATUS(mylib_copy_arrays(NULL, NULL, 1, 3, src), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_arrays(NULL, &dst, 1, 3, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_arrays(NULL, &dst, 2, 3, src), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_arrays(NULL, &dst, -1, 3, src), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_arrays(NULL, &dst, 0, 3, src), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_arrays(NULL, &dst, 1, 2, src), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_arrays(NULL, &dst, 1, -3, src), MYLIB_ERR_ARGUMENT);
    src[2].ndim = 1;
    CHECK_STATUS(mylib_copy_arrays(NULL, &dst, 1, 3, src), MYLIB_ERR_ARGUMENT);
    CHECK(strstr(mylib_last_message(), "(2, 5)") != NULL, "%s", mylib_last_message());
    CHECK(wide[0] == 0, "something was written");
}

static void test_errors(void)
{
    double data[4] = {1, 2, 3, 4}, other[4] = {5, 6, 7, 8};
    int64_t four = 4, three = 3, minus = -1, zero = 0;
    mylib_array a = {data, host.device, MYLIB_F64, 1, &four, NULL};
    mylib_array b = {other, host.device, MYLIB_F64, 1, &four, NULL}, bad;
    test_set_case("errors of copies");
    CHECK_STATUS(mylib_copy_array(NULL, NULL, &b), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_array(NULL, &a, NULL), MYLIB_ERR_ARGUMENT);
    bad = b, bad.shape = &three;
    CHECK_STATUS(mylib_copy_array(NULL, &a, &bad), MYLIB_ERR_ARGUMENT);
    CHECK(strstr(mylib_last_message(), "src of shape (3,)") != NULL, "%s", mylib_last_message());
    bad.shape = &minus;
    CHECK_STATUS(mylib_copy_array(NULL, &a, &bad), MYLIB_ERR_ARGUMENT);
    bad = b, bad.type = (mylib_type)MYLIB_TYPE_COUNT;
    CHECK_STATUS(mylib_copy_array(NULL, &a, &bad), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_array(NULL, &bad, &b), MYLIB_ERR_ARGUMENT);
    bad = b, bad.data = NULL;
    CHECK_STATUS(mylib_copy_array(NULL, &a, &bad), MYLIB_ERR_ARGUMENT);
    bad = b, bad.device.kind = 7;
    CHECK_STATUS(mylib_copy_array(NULL, &a, &bad), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_copy_array(NULL, &bad, &b), MYLIB_ERR_ARGUMENT);
    CHECK(data[0] == 1 && data[3] == 4 && other[0] == 5, "something was written");

    bad = a, bad.shape = &zero, bad.data = NULL;
    CHECK_OK(mylib_copy_array(NULL, &bad, &bad));

    /* Without a GPU each call says so; test_gpu_places.c tests them with one. */
    int count = 0;
    if (mylib_cuda_device_count(&count) != MYLIB_OK) {
        mylib_device gpu = {MYLIB_CUDA, 0}, where = {-1, -1};
        mylib_memory_info info;
        void *stream = NULL;
        test_set_case("places without a GPU");
        bad = b, bad.device = gpu;
        CHECK_STATUS(mylib_copy_array(NULL, &a, &bad), MYLIB_ERR_NO_DEVICE);
        CHECK_STATUS(mylib_copy_array(NULL, &bad, &b), MYLIB_ERR_NO_DEVICE);
        CHECK_STATUS(mylib_pointer_device(data, &where), MYLIB_ERR_NO_DEVICE);
        CHECK_STATUS(mylib_stream_create(gpu, &stream), MYLIB_ERR_NO_DEVICE);
        CHECK_STATUS(mylib_stream_wait(gpu, NULL, gpu, NULL), MYLIB_ERR_NO_DEVICE);
        CHECK_STATUS(mylib_cuda_memory_info(0, &info), MYLIB_ERR_NO_DEVICE);
        CHECK_STATUS(mylib_cuda_set_memory_limit(0, 1), MYLIB_ERR_NO_DEVICE);
        CHECK(where.kind == -1 && stream == NULL && data[0] == 1, "something was written");
    }
}

int main(void)
{
    test_begin("copy");
    rng r = rng_make(1);
    test_pairs_of_types(&r);
    check_random_copies(&r, 2000, 20000, host, host, NULL);
    test_large(&r);
    test_overlap();
    test_join();
    test_errors();
    return test_end();
}
