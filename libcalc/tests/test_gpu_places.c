/*
 * Places of memory: copies between host, pinned and GPU memory and between GPUs, in every layout
 * and around the sizes at which the method changes; streams that wait for each other; limits,
 * accounting and exhaustion of memory; errors that must leave everything working.
 *
 *     test_gpu_places [--quick]    --quick: few cases of each kind, for compute-sanitizer
 *
 * Exit status 77, "skipped", without a GPU; with MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#include "copies.h"

static const mylib_device gpu = {MYLIB_CUDA, 0};
static const place places[] = {
    {{MYLIB_CPU, 0}, 0}, {{MYLIB_CPU, 0}, 1}, {{MYLIB_CUDA, 0}, 0}, {{MYLIB_CUDA, 1}, 0}};

/* The staging slots are made anew in another size; 0 is the default one. */
static void use_slots(int kib)
{
    char text[16];
    snprintf(text, sizeof text, "%d", kib);
    if (kib != 0)
        setenv("MYLIB_STREAM_SLOT_KIB", text, 1);
    else
        unsetenv("MYLIB_STREAM_SLOT_KIB");
    CHECK_OK(mylib_free_cached());
}

static uint64_t used_nbytes(mylib_device device)
{
    mylib_memory_info info = {0};
    CHECK_OK(mylib_cuda_memory_info(device.index, &info));
    return info.used_nbytes;
}

/* ---- Copies ---- */

/* Every pair of places except host to host, which test_copy.c tests. */
#define FOR_EACH_WAY(to, from) \
    for (const place *to = places; to < places + (test_gpu_count > 1 ? 4 : 3); to++) \
        for (const place *from = places; from < places + (test_gpu_count > 1 ? 4 : 3); from++) \
            if (to->device.kind == MYLIB_CUDA || from->device.kind == MYLIB_CUDA)

static void test_random(rng *r)
{
    FOR_EACH_WAY(to, from)
    check_random_copies(r, test_quick ? 5 : 300, 20000, *to, *from, NULL);
}

static void test_pairs_of_types(rng *r)
{
    FOR_EACH_WAY(to, from)
    {
        for (int dst = 0; dst < MYLIB_TYPE_COUNT; dst += test_quick ? 5 : 1) {
            for (int src = 0; src < MYLIB_TYPE_COUNT; src += test_quick ? 6 : 1) {
                layout a = copy_row(3001, 1, (mylib_type)dst),
                       b = copy_row(3001, 1, (mylib_type)src);
                layout one = copy_row(1, 1, (mylib_type)src);
                one.ndim = 0;
                test_set_case("copy %s %s from %s %s", place_name(*to),
                              mylib_type_name((mylib_type)dst), place_name(*from),
                              mylib_type_name((mylib_type)src));
                check_copy(r, &a, (mylib_type)dst, *to, &b, (mylib_type)src, *from, 1, NULL);
                check_copy(r, &a, (mylib_type)dst, *to, &one, (mylib_type)src, *from, 0, NULL);
                check_copy(r, &one, (mylib_type)dst, *to, &one, (mylib_type)src, *from, 1, NULL);
            }
        }
    }
}

/* Short copies at odd addresses: to the host, a kernel sends words for which the CPU polls. */
static void test_short_bytes(void)
{
    enum { MOST = 1032 };
    static unsigned char from[MOST], to[MOST];
    void *memory = NULL;
    CHECK_OK(mylib_alloc(gpu, MOST + 4, NULL, &memory));
    for (int i = 0; i < MOST; i++)
        from[i] = (unsigned char)(1 + 7 * i);
    for (int at = 0; at < 4; at++) {
        for (int n = 1; n < MOST; n = n == 20 ? 1016 : n + 1) {
            char *there = (char *)memory + at;
            test_set_case("%d bytes at %d", n, at);
            memset(to, 0x77, sizeof to);
            CHECK_OK(mylib_copy(gpu, there, test_cpu, from, (size_t)n, NULL));
            CHECK_OK(mylib_copy(test_cpu, to, gpu, there, (size_t)n, NULL));
            CHECK(memcmp(to, from, (size_t)n) == 0, "other bytes came back");
            CHECK(to[n] == 0x77, "the copy wrote beyond its end");
        }
    }
    CHECK_OK(mylib_free(gpu, memory, NULL));
}

/* Around small copies, the sizes of pieces and of slots; contiguous, strided, and converted. */
static void test_sizes(rng *r, int slot_kib)
{
    static const int64_t sizes[] = {1,       1025,    4095,    4096,    4097,     65535,   65536,
                                    65537,   131072,  262144,  524287,  524288,   524289,  2097151,
                                    2097153, 4194304, 6291456, 6291457, 12582919, 33554439};
    static const mylib_type pairs[][2] = {{MYLIB_I8, MYLIB_I8},
                                          {MYLIB_F64, MYLIB_F64},
                                          {MYLIB_F64, MYLIB_F32},
                                          {MYLIB_I8, MYLIB_I64}};
    /* Emulated, the two largest are most of the work. */
    const int is_whole = test_is_long || slot_kib == 0 || !test_is_emulated();
    const int count = test_quick ? 7 : is_whole ? 20 : 18;
    use_slots(slot_kib);
    FOR_EACH_WAY(to, from)
    {
        for (int i = 0; i < count; i++) {
            const mylib_type *type = PICK(r, pairs);
            int64_t size = (int64_t)mylib_type_size(type[0]);
            int64_t n = sizes[i] / size + rng_below(r, 3) - (sizes[i] / size > 1);
            int64_t dst_step = rng_once_in(r, 3) ? -2 : 1, src_step = rng_once_in(r, 3) ? 3 : 1;
            layout dst = copy_row(n, dst_step, type[0]), src = copy_row(n, src_step, type[1]);
            test_set_case("slots of %d KiB, copy %s %s from %s %s, n = %lld, steps %lld %lld",
                          slot_kib, place_name(*to), mylib_type_name(type[0]), place_name(*from),
                          mylib_type_name(type[1]), (long long)n, (long long)dst_step,
                          (long long)src_step);
            check_copy(r, &dst, type[0], *to, &src, type[1], *from, (int)rng_below(r, 3), NULL);
        }
        /* Several dimensions, of which a piece takes whole ones and a part of one. */
        for (int i = 0; i < (test_quick ? 1 : 12); i++) {
            const mylib_type *type = PICK(r, pairs);
            layout dst = {.ndim = 3}, src;
            dst.shape[0] = 1 + rng_below(r, 200);
            dst.shape[1] = 1 + rng_below(r, i % 2 ? 9000 : 60);
            dst.shape[2] = 1 + rng_below(r, i % 2 ? 3 : 90);
            random_strides(r, &dst, (int64_t)mylib_type_size(type[0]), 1);
            random_input(r, &dst, &src, (int64_t)mylib_type_size(type[1]), 1);
            test_set_case("slots of %d KiB, copy %s %s of %s from %s %s of %s", slot_kib,
                          place_name(*to), layout_text(&dst), mylib_type_name(type[0]),
                          place_name(*from), layout_text(&src), mylib_type_name(type[1]));
            check_copy(r, &dst, type[0], *to, &src, type[1], *from, 0, NULL);
        }
    }
    use_slots(0);
}

/* Streamed operations share the slots with copies: sizes that are refused must not harm them. */
static void test_streamed_with(int slot_kib)
{
    const int64_t n = 300007;
    double *x = test_malloc((size_t)n * 8), *y = test_malloc((size_t)n * 8);
    int64_t wrong = 0;
    test_set_case("slots of %d KiB, a streamed addition", slot_kib);
    use_slots(slot_kib);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)i;
    mylib_array out = {y, {MYLIB_CPU, 0}, MYLIB_F64, 1, &n, NULL};
    mylib_array in[2] = {test_row(x, MYLIB_F64, &n), test_row(x, MYLIB_F64, &n)};
    CHECK_OK(mylib_map(MYLIB_OP_add, gpu, NULL, &out, in));
    for (int64_t i = 0; i < n; i++)
        wrong += y[i] != 2 * x[i];
    CHECK(wrong == 0, "%lld elements are wrong", (long long)wrong);
    use_slots(0);
    free(x);
    free(y);
}

static void *copy_much(void *argument)
{
    rng r = rng_make(900 + (uint64_t)(uintptr_t)argument);
    void *stream = NULL;
    CHECK_OK(mylib_stream_create(gpu, &stream));
    const int times = test_quick ? 3 : test_is_emulated() && !test_is_long ? 12 : 60;
    check_random_copies(&r, times, 300000, places[2], places[0], stream);
    check_random_copies(&r, times, 300000, places[0], places[2], stream);
    CHECK_OK(mylib_stream_destroy(gpu, stream));
    return NULL;
}

/* ---- Streams ---- */

/* 'data' += 'one', often enough to take long, on a stream. */
static void add_often(mylib_device device, int64_t *data, int64_t n, int64_t *one, int times,
                      void *stream)
{
    int64_t single = 1;
    mylib_array out = {data, device, MYLIB_I64, 1, &n, NULL};
    mylib_array in[2] = {out, {one, device, MYLIB_I64, 1, &single, NULL}};
    for (int i = 0; i < times; i++)
        CHECK_OK(mylib_map(MYLIB_OP_add, device, stream, &out, in));
}

static void check_all(const int64_t *values, int64_t n, int64_t expected)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++)
        wrong += values[i] != expected;
    CHECK(wrong == 0, "%lld of %lld elements are not %lld", (long long)wrong, (long long)n,
          (long long)expected);
}

/* Copies and work on other streams follow the work that they wait for. */
static void test_streams(mylib_device other)
{
    const int64_t n = test_quick ? 50000 : 8 << 20;
    /* Emulated GPUs are done when a call returns. */
    const int times = test_quick || test_is_emulated() ? 5 : 300;
    void *first = NULL, *second = NULL, *data = NULL, *one = NULL, *copy = NULL;
    int64_t *host = test_malloc((size_t)n * 8), given = 1;
    test_set_case("streams, the second on cuda:%d", (int)other.index);
    CHECK_OK(mylib_stream_create(gpu, &first));
    CHECK_OK(mylib_stream_create(other, &second));
    CHECK(first != NULL && second != NULL && first != second, "%p %p", first, second);
    CHECK_OK(mylib_alloc(gpu, (size_t)n * 8, first, &data));
    CHECK_OK(mylib_alloc(gpu, 8, first, &one));
    CHECK_OK(mylib_alloc(other, (size_t)n * 8, second, &copy));
    mylib_array on_gpu = {data, gpu, MYLIB_I64, 1, &n, NULL}, on_host = on_gpu, on_other = on_gpu;
    mylib_array scalar = {&given, {MYLIB_CPU, 0}, MYLIB_I64, 0, NULL, NULL};
    mylib_array step = {one, gpu, MYLIB_I64, 0, NULL, NULL};
    on_host.data = host, on_host.device = scalar.device;
    on_other.data = copy, on_other.device = other;
    CHECK_OK(mylib_copy_array(first, &step, &scalar));
    given = 7; /* a fill has read its value when it returns */
    CHECK_OK(mylib_copy_array(first, &on_gpu, &scalar));
    given = 9;

    for (int k = 0; k < 4; k++) {
        /* The staged copy, and that of one element, follow the work of their stream. */
        int64_t expected = 7 + (k + 1) * times, last = -1;
        add_often(gpu, data, n, one, times, first);
        if (k == 0) {
            CHECK_OK(mylib_copy_array(first, &on_host, &on_gpu));
            check_all(host, n, expected);
        } else if (k == 1) {
            mylib_array element = {(int64_t *)data + n - 1, gpu, MYLIB_I64, 0, NULL, NULL};
            mylib_array result = {&last, scalar.device, MYLIB_I64, 0, NULL, NULL};
            CHECK_OK(mylib_copy_array(first, &result, &element));
            CHECK(last == expected, "the last element is %lld, not %lld", (long long)last,
                  (long long)expected);
        } else {
            /* Another stream waits; then the first one, before it overwrites what is read. */
            CHECK_OK(mylib_stream_wait(other, second, gpu, first));
            CHECK_OK(mylib_copy_array(second, &on_other, &on_gpu));
            CHECK_OK(mylib_stream_wait(gpu, first, other, second));
            add_often(gpu, data, n, one, 0, first);
            CHECK_OK(mylib_copy_array(second, &on_host, &on_other));
            check_all(host, n, expected);
        }
    }
    /* An upload waits for readers on its stream. */
    int64_t expected = 7 + 4 * times;
    CHECK_OK(mylib_stream_wait(other, second, gpu, first));
    add_often(gpu, data, n, one, times, first);
    CHECK_OK(mylib_copy_array(first, &on_host, &on_gpu));
    for (int64_t i = 0; i < n; i++)
        host[i] = -5;
    CHECK_OK(mylib_copy_array(first, &on_gpu, &on_host));
    CHECK_OK(mylib_copy_array(second, &on_host, &on_other));
    check_all(host, n, expected);
    CHECK_OK(mylib_copy_array(first, &on_host, &on_gpu));
    check_all(host, n, -5);

    CHECK_OK(mylib_free(gpu, data, first));
    CHECK_OK(mylib_free(gpu, one, first));
    CHECK_OK(mylib_free(other, copy, second));
    CHECK_OK(mylib_stream_wait(gpu, NULL, gpu, first));
    CHECK_OK(mylib_stream_wait(gpu, first, gpu, first));
    CHECK_OK(mylib_stream_destroy(gpu, first));
    CHECK_OK(mylib_stream_destroy(other, second));
    CHECK_OK(mylib_synchronize(gpu, NULL));
    free(host);
}

static void test_stream_errors(void)
{
    const mylib_device cpu = {MYLIB_CPU, 0}, missing = {MYLIB_CUDA, test_gpu_count};
    void *stream = NULL;
    test_set_case("errors of streams");
    CHECK_STATUS(mylib_stream_create(cpu, &stream), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_stream_create(missing, &stream), MYLIB_ERR_NO_DEVICE);
    CHECK_STATUS(mylib_stream_create(gpu, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_stream_destroy(gpu, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_stream_destroy(cpu, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_stream_wait(cpu, NULL, gpu, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_stream_wait(gpu, NULL, cpu, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_stream_wait(missing, NULL, gpu, NULL), MYLIB_ERR_NO_DEVICE);
    CHECK_STATUS(mylib_stream_wait(gpu, NULL, missing, NULL), MYLIB_ERR_NO_DEVICE);
    CHECK(stream == NULL, "a stream was written");
}

/* ---- Memory ---- */

static void test_accounts(void)
{
    mylib_memory_info info = {0}, before = {0};
    void *a = NULL, *b = NULL, *c = &info;
    test_set_case("accounts of GPU memory");
    CHECK_OK(mylib_cuda_memory_info(0, &before));
    CHECK(before.limit_nbytes == UINT64_MAX, "there is a limit");
    CHECK_OK(mylib_alloc(gpu, 1000000, NULL, &a));
    CHECK_OK(mylib_alloc(gpu, 0, NULL, &b));
    CHECK_OK(mylib_cuda_memory_info(0, &info));
    CHECK(info.used_nbytes == before.used_nbytes + 1000000, "%llu bytes are used, after %llu",
          (unsigned long long)info.used_nbytes, (unsigned long long)before.used_nbytes);
    CHECK(info.held_nbytes >= info.used_nbytes && info.total_nbytes >= info.free_nbytes &&
              info.total_nbytes - info.free_nbytes >= info.held_nbytes,
          "used %llu, held %llu, free %llu, total %llu", (unsigned long long)info.used_nbytes,
          (unsigned long long)info.held_nbytes, (unsigned long long)info.free_nbytes,
          (unsigned long long)info.total_nbytes);

    test_set_case("a limit to GPU memory");
    CHECK_OK(mylib_cuda_set_memory_limit(0, info.used_nbytes + 500));
    CHECK_STATUS(mylib_alloc(gpu, 501, NULL, &c), MYLIB_ERR_NO_MEMORY);
    CHECK(c == &info, "the pointer was written");
    CHECK(strstr(mylib_last_message(), "501") != NULL &&
              strstr(mylib_last_message(), "limit") != NULL,
          "%s", mylib_last_message());
    CHECK_OK(mylib_alloc(gpu, 500, NULL, &c));
    CHECK_OK(mylib_free(gpu, c, NULL));
    CHECK_OK(mylib_cuda_set_memory_limit(0, 0));
    CHECK_STATUS(mylib_alloc(gpu, 1, NULL, &c), MYLIB_ERR_NO_MEMORY);
    CHECK_OK(mylib_cuda_memory_info(0, &info));
    CHECK(info.limit_nbytes == 0, "the limit is %llu", (unsigned long long)info.limit_nbytes);
    CHECK_OK(mylib_cuda_set_memory_limit(0, UINT64_MAX));
    CHECK_STATUS(mylib_alloc(gpu, SIZE_MAX, NULL, &c), MYLIB_ERR_NO_MEMORY);
    CHECK_STATUS(mylib_cuda_set_memory_limit(test_gpu_count, 1), MYLIB_ERR_NO_DEVICE);
    CHECK_STATUS(mylib_cuda_memory_info(test_gpu_count, &info), MYLIB_ERR_NO_DEVICE);
    CHECK_STATUS(mylib_cuda_memory_info(0, NULL), MYLIB_ERR_ARGUMENT);

    test_set_case("wrong frees");
    CHECK_OK(mylib_free(gpu, a, NULL));
    CHECK_STATUS(mylib_free(gpu, a, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_free(gpu, &info, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_free(gpu, (char *)b + 1, NULL), MYLIB_ERR_ARGUMENT);
    if (test_gpu_count > 1)
        CHECK_STATUS(mylib_free(places[3].device, b, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_OK(mylib_free(gpu, b, NULL));
    CHECK(used_nbytes(gpu) == before.used_nbytes, "%llu bytes are used, after %llu",
          (unsigned long long)used_nbytes(gpu), (unsigned long long)before.used_nbytes);
    test_gpu_works();
}

/* Many allocations, freed in any order: none is lost or given out twice. */
static void *allocate_much(void *argument)
{
    rng r = rng_make(700 + (uint64_t)(uintptr_t)argument);
    struct {
        void *data;
        int32_t mark;
    } held[500] = {{NULL, 0}};
    for (int i = 0; i < (test_quick ? 300 : 20000); i++) {
        int k = (int)rng_below(&r, 500);
        int32_t got = 0;
        test_set_case("thread %d, allocation %d", (int)(uintptr_t)argument, i);
        if (held[k].data == NULL) {
            CHECK_OK(mylib_alloc(gpu, 4 + (size_t)rng_below(&r, 3000), NULL, &held[k].data));
            held[k].mark = (int32_t)rng_next(&r);
            if (i % 16 == 0)
                CHECK_OK(mylib_copy(gpu, held[k].data, test_cpu, &held[k].mark, 4, NULL));
            else
                held[k].mark = 0;
        } else {
            if (held[k].mark != 0) {
                CHECK_OK(mylib_copy(test_cpu, &got, gpu, held[k].data, 4, NULL));
                CHECK(got == held[k].mark, "the memory was given to two");
            }
            CHECK_OK(mylib_free(gpu, held[k].data, NULL));
            held[k].data = NULL;
        }
    }
    for (int k = 0; k < 500; k++)
        CHECK_OK(mylib_free(gpu, held[k].data, NULL));
    return NULL;
}

static void test_many(void)
{
    uint64_t before = used_nbytes(gpu);
    test_in_threads(4, allocate_much);
    test_set_case("after many allocations");
    CHECK(used_nbytes(gpu) == before, "%llu bytes are used, after %llu",
          (unsigned long long)used_nbytes(gpu), (unsigned long long)before);
}

/* To the end of memory, and back; what is freed but held is given back for another size. */
static void test_exhaustion(void)
{
    enum { MOST = 4096 };
    static void *held[MOST];
    int count = 0;
    mylib_memory_info info = {0};
    mylib_status status = MYLIB_OK;
    uint64_t before = used_nbytes(gpu);
    test_set_case("all of the GPU's memory");
    CHECK_OK(mylib_free_cached());
    CHECK_OK(mylib_cuda_memory_info(0, &info));
    size_t piece = (size_t)(info.free_nbytes / 50) / 256 * 256;
    while (count < MOST && (status = mylib_alloc(gpu, piece, NULL, &held[count])) == MYLIB_OK)
        count++;
    CHECK(status == MYLIB_ERR_NO_MEMORY && count >= 30, "%d pieces, then %s", count,
          mylib_status_name(status));
    CHECK(strstr(mylib_last_message(), "in use") != NULL, "%s", mylib_last_message());
    printf("gpu_places: %s\n", mylib_last_message());
    CHECK(used_nbytes(gpu) == before + (uint64_t)count * piece, "the accounts are wrong");
    /* Every second one is freed, and then all: pieces of other sizes fit again. */
    for (int i = 0; i < count; i += 2)
        CHECK_OK(mylib_free(gpu, held[i], NULL));
    void *data = NULL;
    CHECK_OK(mylib_alloc(gpu, piece / 2, NULL, &data));
    CHECK_OK(mylib_free(gpu, data, NULL));
    for (int i = 1; i < count; i += 2)
        CHECK_OK(mylib_free(gpu, held[i], NULL));
    CHECK_OK(mylib_alloc(gpu, (size_t)count / 2 * piece, NULL, &data));
    CHECK_OK(mylib_free(gpu, data, NULL));
    CHECK_OK(mylib_free_cached());
    test_gpu_works();
    CHECK(used_nbytes(gpu) == before, "the accounts are wrong");
}

static void test_pointers(void)
{
    mylib_device where;
    char local = 0;
    void *pinned = NULL;
    CHECK_OK(mylib_alloc_pinned(4096, &pinned));
    for (int i = 0; i < test_gpu_count && i < 2; i++) {
        mylib_device device = {MYLIB_CUDA, i};
        void *data = NULL;
        test_set_case("where a pointer of cuda:%d is", i);
        CHECK_OK(mylib_alloc(device, 4096, NULL, &data));
        for (int at = 0; at < 4096; at += 1365) {
            CHECK_OK(mylib_pointer_device((char *)data + at, &where));
            CHECK(where.kind == MYLIB_CUDA && where.index == i, "kind %d, index %d", where.kind,
                  where.index);
        }
        CHECK_OK(mylib_free(device, data, NULL));
    }
    const void *on_host[] = {&local, pinned, NULL, (const void *)test_pointers};
    for (int i = 0; i < 4; i++) {
        test_set_case("where host pointer %d is", i);
        CHECK_OK(mylib_pointer_device(on_host[i], &where));
        CHECK(where.kind == MYLIB_CPU && where.index == 0, "kind %d, index %d", where.kind,
              where.index);
    }
    CHECK_STATUS(mylib_pointer_device(&local, NULL), MYLIB_ERR_ARGUMENT);
    CHECK_OK(mylib_free_pinned(pinned));
}

/* ---- Errors ---- */

static void test_errors(void)
{
    static double host[64], big[100000];
    int64_t n = 16, many = 100000, three = 3, none = 0, odd = 12;
    void *data = NULL;
    test_set_case("errors of copies");
    CHECK_OK(mylib_alloc(gpu, sizeof big, NULL, &data));
    mylib_array on_gpu = {data, gpu, MYLIB_F64, 1, &n, NULL};
    mylib_array on_host = {host, test_cpu, MYLIB_F64, 1, &n, NULL}, bad;
    CHECK_OK(mylib_copy_array(NULL, &on_gpu, &on_host));

    /* Host memory that is said to be a GPU's, small and large, on either side. */
    for (int k = 0; k < 2; k++) {
        mylib_array side = on_host;
        bad = on_gpu, bad.data = k == 0 ? host : big;
        if (k == 1)
            bad.shape = side.shape = &many, side.data = big;
        CHECK_GPU(mylib_copy_array(NULL, &bad, &side), MYLIB_ERR_ARGUMENT);
        CHECK_GPU(mylib_copy_array(NULL, &side, &bad), MYLIB_ERR_ARGUMENT);
        side.device = gpu, side.data = data;
        CHECK_GPU(mylib_copy_array(NULL, &bad, &side), MYLIB_ERR_ARGUMENT);
    }
    /* Not aligned; not of one shape; overlapping; no such GPU. */
    bad = on_gpu, bad.data = (char *)data + 4;
    CHECK_GPU(mylib_copy_array(NULL, &bad, &on_host), MYLIB_ERR_ARGUMENT);
    bad = on_gpu, bad.strides = &odd;
    CHECK_GPU(mylib_copy_array(NULL, &on_host, &bad), MYLIB_ERR_ARGUMENT);
    bad = on_gpu, bad.shape = &three;
    CHECK_GPU(mylib_copy_array(NULL, &on_host, &bad), MYLIB_ERR_ARGUMENT);
    bad = on_gpu, bad.strides = &none;
    CHECK_GPU(mylib_copy_array(NULL, &bad, &on_host), MYLIB_ERR_ARGUMENT);
    bad = on_host, bad.strides = &none;
    CHECK_GPU(mylib_copy_array(NULL, &bad, &on_gpu), MYLIB_ERR_ARGUMENT);
    bad = on_gpu, bad.data = (char *)data + 8;
    CHECK_GPU(mylib_copy_array(NULL, &bad, &on_gpu), MYLIB_ERR_ARGUMENT);
    CHECK_GPU(mylib_copy_array(NULL, &on_gpu, &on_gpu), MYLIB_OK);
    bad = on_gpu, bad.device.index = test_gpu_count;
    CHECK_GPU(mylib_copy_array(NULL, &bad, &on_host), MYLIB_ERR_NO_DEVICE);
    CHECK_GPU(mylib_copy_array(NULL, &on_host, &bad), MYLIB_ERR_NO_DEVICE);
    CHECK_GPU(mylib_copy_array(NULL, &on_gpu, &bad), MYLIB_ERR_NO_DEVICE);

    /* Messages name an operand as the function does. */
    for (int k = 0; k < 4; k++) {
        static const char *const names[] = {"out", "condition", "a", "b"};
        mylib_array one[] = {on_gpu, on_gpu, on_gpu, on_gpu};
        for (int j = 0; j < 4; j++)
            one[j].data = (char *)data + 4096 * j + (j == k ? 4 : 0);
        CHECK_GPU(mylib_select(gpu, NULL, &one[0], &one[1], &one[2], &one[3]), MYLIB_ERR_ARGUMENT);
        const char *message = mylib_last_message();
        CHECK(strncmp(message, names[k], strlen(names[k])) == 0, "%s: %s", names[k], message);
        if (k < 2) {
            CHECK_GPU(mylib_copy_array(NULL, &one[0], &one[1]), MYLIB_ERR_ARGUMENT);
            CHECK(strncmp(message, k == 0 ? "dst " : "src ", 4) == 0, "%s", message);
        }
    }

    /* Memory of another GPU. */
    if (test_gpu_count > 1) {
        void *far = NULL;
        CHECK_OK(mylib_alloc(places[3].device, sizeof host, NULL, &far));
        bad = on_gpu, bad.data = far;
        CHECK_GPU(mylib_copy_array(NULL, &bad, &on_gpu), MYLIB_ERR_ARGUMENT);
        CHECK_GPU(mylib_copy_array(NULL, &bad, &on_host), MYLIB_ERR_ARGUMENT);
        CHECK_OK(mylib_free(places[3].device, far, NULL));
    }
    CHECK_OK(mylib_free(gpu, data, NULL));
}

/*
 * In a child of its own: after a kernel has touched what is no memory every call says that the
 * context is lost, and frees are harmless.
 */
static int lose_context(void)
{
    int64_t two = 2, apart = (int64_t)1 << 44;
    double one[2] = {1, 1};
    void *data = NULL, *more = NULL;
    int count = 0;
    if (mylib_cuda_device_count(&count) != MYLIB_OK)
        return 0;
    if (mylib_alloc(gpu, 4096, NULL, &data) != MYLIB_OK)
        return 1;
    mylib_array wild = {data, gpu, MYLIB_F64, 1, &two, &apart};
    mylib_array in = {one, test_cpu, MYLIB_F64, 0, NULL, NULL};
    if (mylib_copy_array(NULL, &wild, &in) != MYLIB_OK)
        return 2;
    if (mylib_synchronize(gpu, NULL) != MYLIB_ERR_CUDA ||
        strstr(mylib_last_message(), "restart") == NULL)
        return 3;
    in.ndim = 1, in.shape = &two, wild.strides = NULL;
    if (mylib_copy_array(NULL, &wild, &in) != MYLIB_ERR_CUDA ||
        strstr(mylib_last_message(), "restart") == NULL)
        return 4;
    if (mylib_alloc(gpu, 4096, NULL, &more) == MYLIB_OK)
        return 5;
    (void)mylib_free(gpu, data, NULL);
    (void)mylib_free_cached();
    return 0;
}

static void test_lost_context(void)
{
    if (test_quick || test_is_emulated()) /* test_cuda_faults.c tests emulated ones */
        return;
    test_set_case("a lost context");
    test_in_child(lose_context);
}

int main(int argc, char **argv)
{
    test_begin_gpu("gpu_places", argc, argv, test_lost_context);
    rng r = rng_make(1);
    test_accounts();
    test_pointers();
    test_errors();
    test_stream_errors();
    test_pairs_of_types(&r);
    test_random(&r);
    test_short_bytes();
    test_sizes(&r, 0);
    test_sizes(&r, 64);
    test_sizes(&r, 1); /* out of range: the default */
    test_streamed_with(64);
    test_streamed_with(1);
    test_streams(gpu);
    if (test_gpu_count > 1)
        test_streams(places[3].device);
    test_in_threads(6, copy_much);
    test_many();
    if (!test_quick)
        test_exhaustion();
    return test_end();
}
