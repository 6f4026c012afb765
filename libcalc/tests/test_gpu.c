/*
 * The GPU gives the CPU's bits: GPU memory in every layout, host arrays that are streamed, scalars,
 * sums, streams, errors and fork.  Other tests check the CPU's own results.
 *
 *     test_gpu [--quick]    --quick: few cases of each kind, for compute-sanitizer
 *
 * Exit status 77, "skipped", without a GPU; with MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#include "image.h"

#include <dlfcn.h>
#include <math.h>

/* ---- GPU memory ---- */

static mylib_status map(const void *op, mylib_device device, const mylib_array *arrays)
{
    return mylib_map(((const test_op *)op)->op, device, NULL, &arrays[0], &arrays[1]);
}

/* Runs one operation over GPU memory.  'in_place': the first input is out. */
static void run_on_device(const test_op *op, const test_type *t, const layout *out,
                          const layout *in, const int64_t *shift, int in_place, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    int64_t used = 0;
    operand o[3] = {{type, out, reserve(&used, out->span, shift[0] * test_size(type)), NULL}};
    for (int k = 0; k < 2; k++)
        o[1 + k] = k == 0 && in_place
                       ? o[0]
                       : (operand){t->type, &in[k],
                                   reserve(&used, in[k].span, shift[1 + k] * t->size), NULL};
    memset(before, SENTINEL, (size_t)used);
    memset(before + o[0].at, POISON, (size_t)out->span);
    if (op->arity == 2 && in[0].span == in[1].span)
        fill_pairs(r, t->type, in[0].span / t->size, before + o[1].at, before + o[2].at);
    else
        for (int k = 0; k < op->arity; k++)
            fill_values(r, t->type, in[k].span / t->size, before + o[1 + k].at);
    compare_places(map, op, 3, o, 0, used);
}

/* Contiguous operands around the sizes of vectors and tiles: shifted, broadcast, in place. */
static void test_contiguous(const test_op *op, const test_type *t, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    const int64_t tile = 8192 / t->size;
    const int64_t lengths[] = {tile + 1,     37, 1,  0,   2,        3,    15,       16,
                               17,           31, 33, 257, tile - 1, tile, 2 * tile, 2 * tile + 5,
                               5 * tile + 13};
    const int count = test_quick ? 2 : COUNT_OF(lengths);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < (test_quick ? 3 : 24); k++) {
            const int64_t shifts[6][3] = {
                {0, 0, 0}, {1, 0, 0}, {0, 1, 0},
                {0, 0, 1}, {3, 3, 3}, {rng_below(r, 16), rng_below(r, 16), rng_below(r, 16)}};
            const int64_t *shift = shifts[test_quick ? (k == 0 ? 0 : 5) : k / 4];
            int pattern = test_quick ? k : k % 4;
            layout out = row_of(lengths[i], test_size(type));
            layout in[2] = {row_of(pattern == 1 ? 1 : lengths[i], t->size),
                            row_of(pattern == 2 ? 1 : lengths[i], t->size)};
            test_set_case("%s of %s, GPU memory, n = %lld, shifts %d %d %d, %s", op->name, t->name,
                          (long long)lengths[i], (int)shift[0], (int)shift[1], (int)shift[2],
                          pattern == 1   ? "a repeated"
                          : pattern == 2 ? "b repeated"
                          : pattern == 3 ? "in place"
                                         : "dense");
            run_on_device(op, t, &out, in, shift, pattern == 3 && type == t->type, r);
        }
    }
}

static void test_strided(const test_op *op, const test_type *t, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    for (int i = 0; i < (test_quick ? 3 : 60); i++) {
        const int64_t shift[3] = {rng_below(r, 4), rng_below(r, 4), rng_below(r, 4)};
        layout out, in[2];
        random_shape(r, &out, i % 10 == 9 ? 20000 : 600);
        random_strides(r, &out, test_size(type), 1);
        random_input(r, &out, &in[0], t->size, 1);
        random_input(r, &out, &in[1], t->size, 1);
        test_set_case("%s of %s, GPU memory, out %s, a %s, b %s", op->name, t->name,
                      layout_text(&out), layout_text(&in[0]), layout_text(&in[1]));
        run_on_device(op, t, &out, in, shift, 0, r);
    }
}

/* Beyond 2^31 elements, and fewer elements that lie further apart than 2^31 bytes. */
static void test_huge(rng *r)
{
    const int64_t n = ((int64_t)1 << 31) + 8192 + 77, chunk = HUGE_CHUNK, window = 4096;
    const int64_t starts[] = {0, chunk - 7, ((int64_t)1 << 31) - window / 2, n - window};
    void *a = NULL, *out = NULL;
    int8_t three = 3, *values;

    test_set_case("more than 2^31 elements");
    if ((values = open_huge("gpu", r, n, &a, &out)) == NULL)
        return;

    /* A flat sum, and one of two dimensions that do not merge, with a reversed input. */
    for (int k = 0; k < 2; k++) {
        int64_t one = 1, flat[1] = {n}, table[2] = {3, n / 3}, strides[2] = {n / 3, -1};
        int64_t used = k == 0 ? n : n / 3 * 3;
        mylib_array array = {out, gpu, MYLIB_I8, k == 0 ? 1 : 2, k == 0 ? flat : table, NULL};
        mylib_array in[2] = {{k == 0 ? a : (char *)a + n / 3 - 1, gpu, MYLIB_I8, array.ndim,
                              array.shape, k == 0 ? NULL : strides},
                             {a, gpu, MYLIB_I8, 1, &one, NULL}};
        test_set_case("more than 2^31 elements, %s", k == 0 ? "flat" : "two dimensions");
        CHECK_OK(mylib_copy(gpu, a, test_cpu, &three, 1, NULL));
        CHECK_OK(mylib_map(MYLIB_OP_add, gpu, NULL, &array, in));
        for (size_t i = 0; i < COUNT_OF(starts); i++) {
            int8_t got[4096];
            int64_t wrong = 0, start = starts[i] + window <= used ? starts[i] : used - window;
            CHECK_OK(mylib_copy(test_cpu, got, gpu, (char *)out + start, sizeof got, NULL));
            for (int64_t j = start; j < start + window; j++) {
                int64_t row = j / (n / 3),
                        from = k == 0 ? j : row * (n / 3) + n / 3 - 1 - j % (n / 3);
                int value = from == 0 ? three : values[from % chunk];
                wrong += got[j - start] != (int8_t)(uint8_t)(value + three);
            }
            CHECK(wrong == 0, "%lld of the elements from %lld are wrong", (long long)wrong,
                  (long long)start);
        }
    }

    /* Five elements, 2^29 bytes apart: the last one lies at 2^31. */
    int64_t five = 5, apart = (int64_t)1 << 29;
    int8_t got[5], expected[5];
    mylib_array far = {out, gpu, MYLIB_I8, 1, &five, &apart};
    mylib_array in = {a, gpu, MYLIB_I8, 1, &five, &apart};
    test_set_case("elements 2^29 bytes apart");
    CHECK_OK(mylib_map(MYLIB_OP_negative, gpu, NULL, &far, &in));
    for (int i = 0; i < 5; i++) {
        CHECK_OK(mylib_copy(test_cpu, &got[i], gpu, (char *)out + i * apart, 1, NULL));
        expected[i] = (int8_t)(uint8_t) - (i == 0 ? three : values[i * apart % chunk]);
        CHECK(got[i] == expected[i], "element %d is %d, not %d", i, got[i], expected[i]);
    }
    close_huge(values, a, out);
}

/* ---- Host arrays, streamed through the GPU ---- */

typedef enum memory { PAGEABLE, PINNED } memory;

static void *host_alloc(memory kind, size_t nbytes)
{
    void *p = NULL;
    if (kind == PAGEABLE)
        return test_malloc(nbytes);
    if (!CHECK_OK(mylib_alloc_pinned(nbytes, &p)))
        test_give_up("no pinned memory");
    return p;
}

static void host_free(memory kind, void *p)
{
    if (kind == PAGEABLE)
        free(p);
    else
        CHECK_OK(mylib_free_pinned(p));
}

/* Bit k of 'pinned': operand k (0 is out) is pinned.  'lead' bytes lie before each operand. */
static void run_streamed(const test_op *op, const test_type *t, const layout *out, const layout *in,
                         int pinned, int64_t lead, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    int64_t size = test_size(type), span = out->span + 2 * GAP;
    unsigned char *data[3], *expected = test_malloc((size_t)span);
    mylib_array arrays[2];
    for (int k = 0; k < 3; k++) {
        memory kind = pinned >> k & 1 ? PINNED : PAGEABLE;
        data[k] = host_alloc(kind, (size_t)((k == 0 ? out->span : in[k - 1].span) + 2 * GAP));
        if (k > 0) {
            fill_values(r, t->type, in[k - 1].span / t->size, data[k] + lead);
            arrays[k - 1] = layout_array(&in[k - 1], t->type, test_cpu, data[k] + lead);
        }
    }
    memset(data[0], POISON, (size_t)span);
    memset(expected, POISON, (size_t)span);
    mylib_array array = layout_array(out, type, test_cpu, expected + lead);
    CHECK_OK(mylib_map(op->op, test_cpu, NULL, &array, arrays));
    array = layout_array(out, type, test_cpu, data[0] + lead);
    CHECK_OK(mylib_map(op->op, gpu, NULL, &array, arrays));

    /* If bytes differ, compare element by element: two NaNs are equal. */
    int64_t index[MYLIB_MAX_NDIM] = {0};
    int agrees = 1, differs = memcmp(data[0], expected, (size_t)span) != 0;
    for (int more = differs && out->span > 0; more && agrees; more = layout_next(out, index)) {
        int64_t at = lead + out->offset + layout_at(out, out, index);
        agrees = same_value(type, data[0] + at, expected + at);
        if (!agrees)
            CHECK(0, "%lld bytes into out there is %s, not %s", (long long)(at - lead),
                  describe(type, data[0] + at), describe(type, expected + at));
        memcpy(data[0] + at, expected + at, (size_t)size);
    }
    CHECK(!agrees || memcmp(data[0], expected, (size_t)span) == 0,
          "bytes beside the elements were written");
    for (int k = 0; k < 3; k++)
        host_free(pinned >> k & 1 ? PINNED : PAGEABLE, data[k]);
    free(expected);
}

static void test_streamed_sizes(rng *r)
{
    static const int64_t elements[] = {0,      1,      7,      2730,   2731,   4096,
                                       65535,  65536,  65537,  131071, 131073, 262143,
                                       262145, 524287, 524289, 1048577};
    static const mylib_type types[] = {MYLIB_F64, MYLIB_I8, MYLIB_F16, MYLIB_C128, MYLIB_F32};
    const test_op *op = &test_ops[MYLIB_OP_multiply];
    for (int k = 0; k < (test_quick ? 1 : 5); k++) {
        const test_type *t = &test_types[types[k]];
        for (int i = 0; i < 16; i++) {
            int64_t n = elements[i];
            for (int pinned = 0; pinned < 8; pinned++) {
                if ((test_quick && (i % 5 || (pinned != 0 && pinned != 7))) ||
                    (k > 0 && pinned % 7 != 0))
                    continue;
                layout out = row_of(n, t->size), in[2] = {out, out};
                test_set_case("multiply of %s, streamed, n = %lld, pinned %d", t->name,
                              (long long)n, pinned);
                run_streamed(op, t, &out, in, pinned, pinned ? 0 : 5, r);
            }
        }
        /* Around the size of a piece, which is a few MiB, and several of them. */
        for (int i = 0; i < (test_quick ? 1 : 10); i++) {
            int64_t mib = i < 5 ? 1 << i : 3 + rng_below(r, 60);
            int64_t n = (mib << 20) / t->size + rng_below(r, 3) - 1;
            layout out = row_of(n, t->size), in[2] = {out, out};
            if (i % 3 == 1)
                in[i / 3 % 2] = row_of(1, t->size);
            test_set_case("multiply of %s, streamed, n = %lld, case %d", t->name, (long long)n, i);
            run_streamed(op, t, &out, in, i % 3 == 2 ? (int)rng_below(r, 8) : 0, 0, r);
        }
    }
}

static void test_streamed(const test_op *op, const test_type *t, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    int64_t n = test_quick ? 1000 : 100003;
    layout out = row_of(n, test_size(type)), in[2] = {row_of(n, t->size), row_of(n, t->size)};
    test_set_case("%s of %s, streamed, n = %lld", op->name, t->name, (long long)n);
    run_streamed(op, t, &out, in, 0, 0, r);
    for (int i = 0; i < (test_quick ? 1 : 12); i++) {
        int aligned = rng_once_in(r, 2);
        random_shape(r, &out, i % 4 == 3 ? 200000 : 500);
        random_strides(r, &out, test_size(type), aligned);
        random_input(r, &out, &in[0], t->size, aligned);
        random_input(r, &out, &in[1], t->size, aligned);
        test_set_case("%s of %s, streamed, out %s, a %s, b %s", op->name, t->name,
                      layout_text(&out), layout_text(&in[0]), layout_text(&in[1]));
        run_streamed(op, t, &out, in, i % 3 == 0 ? (int)rng_below(r, 8) : 0, 0, r);
    }
}

/* Large matrices that are packed piece by piece; in place. */
static void test_streamed_large(rng *r)
{
    const test_type *t = &test_types[MYLIB_F64];
    const int64_t rows = test_quick ? 50 : 1500, columns = test_quick ? 40 : 1111;
    for (int k = 0; k < 5; k++) {
        layout out = {.ndim = 2, .shape = {rows, columns}, .strides = {columns * 8, 8}};
        layout in[2] = {out, out};
        switch (k) {
        case 0:
            in[1].strides[0] = 8, in[1].strides[1] = rows * 8;
            break;
        case 1:
            out.strides[0] = 8, out.strides[1] = rows * 8;
            break;
        case 2:
            in[1].shape[0] = 1, in[0].strides[1] = -8;
            break;
        case 3:
            in[0].shape[1] = 1, in[0].strides[0] = 8, out.strides[0] = columns * 8 + 3;
            break;
        default:
            out.strides[0] = in[0].strides[0] = columns * 16;
            break;
        }
        layout_measure(&out, 8);
        layout_measure(&in[0], 8);
        layout_measure(&in[1], 8);
        test_set_case("add of f64, streamed matrices, case %d", k);
        run_streamed(&test_ops[MYLIB_OP_add], t, &out, in, k == 0 ? 7 : 0, 0, r);
    }

    int64_t n = rows * columns;
    double *x = test_malloc((size_t)n * 8), *y = test_malloc((size_t)n * 8);
    mylib_array array = {x, test_cpu, MYLIB_F64, 1, &n, NULL};
    mylib_array in[2] = {array, test_row(y, MYLIB_F64, &n)};
    fill_ordinary(r, MYLIB_F64, n, x);
    fill_ordinary(r, MYLIB_F64, n, y);
    double *sum = test_malloc((size_t)n * 8);
    for (int64_t i = 0; i < n; i++)
        sum[i] = x[i] + y[i];
    test_set_case("add of f64, streamed in place");
    CHECK_OK(mylib_map(MYLIB_OP_add, gpu, NULL, &array, in));
    CHECK(memcmp(x, sum, (size_t)n * 8) == 0, "the sum is wrong");
    free(x);
    free(y);
    free(sum);
}

/* ---- The driver, for streams and for memory that is pinned by others ---- */

static struct driver {
    int (*stream_create)(void **, unsigned);
    int (*stream_destroy)(void *);
    int (*host_register)(void *, size_t, unsigned);
    int (*host_unregister)(void *);
} driver;

static void load_driver(void)
{
    void *handle = test_driver();
    if (handle == NULL)
        test_give_up("libcuda.so.1 cannot be loaded, and there is a GPU");
    *(void **)&driver.stream_create = dlsym(handle, "cuStreamCreate");
    *(void **)&driver.stream_destroy = dlsym(handle, "cuStreamDestroy_v2");
    *(void **)&driver.host_register = dlsym(handle, "cuMemHostRegister_v2");
    *(void **)&driver.host_unregister = dlsym(handle, "cuMemHostUnregister");
    if (driver.stream_create == NULL || driver.stream_destroy == NULL ||
        driver.host_register == NULL || driver.host_unregister == NULL)
        test_give_up("libcuda.so.1 lacks a function");
}

/* Work on one stream is ordered without waiting; any kind of stream will do. */
static void test_streams(rng *r)
{
    const int64_t n = test_quick ? 5000 : 3000000;
    void *streams[5] = {NULL, (void *)1, (void *)2, NULL, NULL}; /* default, legacy, per thread */
    int64_t *x = test_malloc((size_t)n * 8), *y = test_malloc((size_t)n * 8);
    int64_t one = 1, step = 7;
    if (driver.stream_create(&streams[3], 0) != 0 || driver.stream_create(&streams[4], 1) != 0)
        test_give_up("cuStreamCreate failed");
    for (int k = 0; k < 5; k++) {
        void *a = NULL, *b = NULL, *stream = streams[k];
        test_set_case("stream %d", k);
        fill_values(r, MYLIB_I64, n, x);
        memset(y, 0, (size_t)n * 8);
        CHECK_OK(mylib_alloc(gpu, (size_t)n * 8, stream, &a));
        CHECK_OK(mylib_alloc(gpu, 8, stream, &b));
        mylib_array array = {a, gpu, MYLIB_I64, 1, &n, NULL};
        mylib_array in[2] = {array, {b, gpu, MYLIB_I64, 1, &one, NULL}};
        CHECK_OK(mylib_copy(gpu, a, test_cpu, x, (size_t)n * 8, stream));
        CHECK_OK(mylib_copy(gpu, b, test_cpu, &step, 8, stream));
        for (int i = 0; i < 50; i++)
            CHECK_OK(mylib_map(MYLIB_OP_add, gpu, stream, &array, in));
        CHECK_OK(mylib_copy(test_cpu, y, gpu, a, (size_t)n * 8, stream));
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; i++)
            wrong += (uint64_t)y[i] != (uint64_t)x[i] + 50 * (uint64_t)step;
        CHECK(wrong == 0, "%lld elements are wrong", (long long)wrong);
        CHECK_OK(mylib_free(gpu, a, stream));
        CHECK_OK(mylib_free(gpu, b, stream));
        CHECK_OK(mylib_synchronize(gpu, stream));
    }
    driver.stream_destroy(streams[3]);
    driver.stream_destroy(streams[4]);
    free(x);
    free(y);
}

/* Parts of memory, pinned separately; ends at pages, but not where pieces of a call end. */
#define PARTLY_NBYTES ((size_t)4 << 20)
static const struct {
    const char *what;
    size_t parts, at[2], nbytes[2];
} partly[] = {
    {"the first half is", 1, {0}, {PARTLY_NBYTES / 2 + 5 * 4096}},
    {"the second half is", 1, {PARTLY_NBYTES / 2 - 3 * 4096}, {PARTLY_NBYTES / 2 + 3 * 4096}},
    {"both halves are, separately,",
     2,
     {0, PARTLY_NBYTES / 2 + 7 * 4096},
     {PARTLY_NBYTES / 2 + 7 * 4096, PARTLY_NBYTES / 2 - 7 * 4096}},
    {"both ends are", 2, {0, PARTLY_NBYTES - 9 * 4096}, {11 * 4096, 9 * 4096}},
    {"a part between the ends is", 1, {33 * 4096}, {PARTLY_NBYTES / 2}},
    {"the whole is", 1, {0}, {PARTLY_NBYTES}},
};

/* Pins the parts of case k, or lets go of them. */
static void pin(size_t k, unsigned char *at, int pins)
{
    for (size_t i = 0; i < partly[k].parts; i++)
        if ((pins ? driver.host_register(at + partly[k].at[i], partly[k].nbytes[i], 0)
                  : driver.host_unregister(at + partly[k].at[i])) != 0)
            test_give_up("cuMemHostRegister or cuMemHostUnregister failed");
}

/* Inputs and outputs, also of copies, of which only a part is pinned, or two parts separately. */
static void test_partly_pinned(rng *r)
{
    const int64_t n = (int64_t)PARTLY_NBYTES / 8;
    unsigned char *x = NULL, *z = NULL;
    double *y = test_malloc(PARTLY_NBYTES), *sum = test_malloc(PARTLY_NBYTES);
    if (posix_memalign((void **)&x, 65536, PARTLY_NBYTES) != 0 ||
        posix_memalign((void **)&z, 65536, PARTLY_NBYTES) != 0)
        test_give_up("out of memory");
    fill_ordinary(r, MYLIB_F64, n, x);
    fill_ordinary(r, MYLIB_F64, n, y);
    for (int64_t i = 0; i < n; i++)
        sum[i] = ((double *)x)[i] + y[i];
    const mylib_array out = {z, test_cpu, MYLIB_F64, 1, &n, NULL};
    const mylib_array in[2] = {test_row(x, MYLIB_F64, &n), test_row(y, MYLIB_F64, &n)};
    mylib_array there = {NULL, gpu, MYLIB_F64, 1, &n, NULL};
    CHECK_OK(mylib_alloc(gpu, PARTLY_NBYTES, NULL, &there.data));
    for (size_t k = 0; k < COUNT_OF(partly); k++) {
        for (int which = 1; which < 4; which++) {
            test_set_case("of %s%s%s %s pinned", which & 1 ? "an input" : "",
                          which == 3 ? " and " : "", which & 2 ? "the output" : "", partly[k].what);
            if (which & 1)
                pin(k, x, 1);
            if (which & 2)
                pin(k, z, 1);
            memset(z, POISON, PARTLY_NBYTES);
            CHECK_OK(mylib_map(MYLIB_OP_add, gpu, NULL, &out, in));
            CHECK(memcmp(z, sum, PARTLY_NBYTES) == 0, "the sum is wrong");
            CHECK_OK(mylib_copy_array(NULL, &there, &in[0]));
            CHECK_OK(mylib_copy_array(NULL, &out, &there));
            CHECK(memcmp(z, x, PARTLY_NBYTES) == 0, "the copy differs");
            if (which & 1)
                pin(k, x, 0);
            if (which & 2)
                pin(k, z, 0);
        }
    }
    CHECK_OK(mylib_free(gpu, there.data, NULL));
    free(x);
    free(y);
    free(z);
    free(sum);
}

/* ---- Scalars ---- */

static void test_scalars(const test_op *op, rng *r)
{
    static const int64_t edges[] = {0,         1,         -1,           2, -7, 3037000500,
                                    INT64_MAX, INT64_MIN, INT64_MIN + 1};
    for (int i = 0; i < (test_quick ? 12 : 200); i++) {
        int64_t a[2], got[2] = {-77, -77};
        double z[4], x[2] = {-77, -77}, y[2] = {-77, -77};
        mylib_status status;
        fill_values(r, MYLIB_I64, 2, a);
        if (i % 3 == 0)
            a[0] = PICK(r, edges), a[1] = PICK(r, edges);
        test_set_case("%s of i64 %lld, %lld on the GPU", op->name, (long long)a[0],
                      (long long)a[1]);
        status = mylib_scalar_i64(op->op, test_cpu, a[0], a[1], &got[0]);
        CHECK_STATUS(mylib_scalar_i64(op->op, gpu, a[0], a[1], &got[1]), status);
        CHECK(got[0] == got[1], "it is %lld, not %lld", (long long)got[1], (long long)got[0]);

        fill_values(r, MYLIB_F64, 4, z);
        test_set_case("%s of f64 %.17g, %.17g on the GPU", op->name, z[0], z[1]);
        status = mylib_scalar_f64(op->op, test_cpu, z[0], z[1], x);
        CHECK_STATUS(mylib_scalar_f64(op->op, gpu, z[0], z[1], y), status);
        CHECK(same_value(MYLIB_F64, x, y), "it is %s, not %s", describe(MYLIB_F64, y),
              describe(MYLIB_F64, x));

        test_set_case("%s of c128 %s, %s on the GPU", op->name, describe(MYLIB_C128, z),
                      describe(MYLIB_C128, z + 2));
        /* Operations with one input ignore the other. */
        const double *second = mylib_op_arity(op->op) == 2 ? z + 2 : NULL;
        status = mylib_scalar_c128(op->op, test_cpu, z, second, x);
        CHECK_STATUS(mylib_scalar_c128(op->op, gpu, z, second, y), status);
        CHECK(same_value(MYLIB_C128, x, y), "it is %s, not %s", describe(MYLIB_C128, y),
              describe(MYLIB_C128, x));
    }
}

/* ---- trace ---- */

/* Diagonals without gaps, with gaps, and from the end. */
static void test_trace(const test_type *t, rng *r)
{
    static const int64_t lengths[] = {0,     1,     2,     255,   256,   257,   2047,
                                      2048,  2049,  4097,  6144,  6145,  9000,  10241,
                                      16384, 16385, 32768, 32769, 70000, 100000};
    const int64_t most = 7 * 100000;
    mylib_type type = reference_sum_type(t->type);
    unsigned char *host = test_malloc((size_t)(most * t->size));
    void *data = NULL;
    CHECK_OK(mylib_alloc(gpu, (size_t)(most * t->size), NULL, &data));
    for (int i = 0; i < 20; i += test_quick ? 4 : 1) {
        for (int k = 0; k < 3; k++) {
            unsigned char sums[3][TEST_MAX_SIZE + 8];
            int64_t n = lengths[i], given = k == 1 ? 7 * n : n;
            int64_t shape[2] = {k == 1 ? n + 3 : n, k == 2 ? n + 3 : n}, strides[2] = {t->size, 0};
            if (k == 1)
                strides[0] = 3 * t->size, strides[1] = 4 * t->size;
            if (k == 2 && n > 0)
                strides[0] = -2 * t->size, strides[1] = t->size;
            int64_t start = k == 2 && n > 0 ? (n - 1) * t->size : 0;
            mylib_array matrix = {host + start, test_cpu, t->type, 2, shape, strides};
            if (i % 3 == 2)
                fill_values(r, t->type, given, host);
            else
                fill_ordinary(r, t->type, given, host);
            memset(sums, POISON, sizeof sums);
            test_set_case("trace of %s, n = %lld, case %d", t->name, (long long)n, k);
            CHECK_OK(mylib_trace(test_cpu, NULL, &matrix, sums[0]));
            CHECK_OK(mylib_trace(gpu, NULL, &matrix, sums[1]));
            CHECK_OK(mylib_copy(gpu, data, test_cpu, host, (size_t)(given * t->size), NULL));
            matrix.data = (char *)data + start;
            matrix.device = gpu;
            CHECK_OK(mylib_trace(gpu, NULL, &matrix, sums[2]));
            for (int place = 1; place < 3; place++) {
                CHECK(same_value(type, sums[place], sums[0]), "%s: %s, not %s",
                      place == 1 ? "streamed" : "GPU memory", describe(type, sums[place]),
                      describe(type, sums[0]));
                for (size_t j = (size_t)test_size(type); j < sizeof sums[0]; j++)
                    CHECK(sums[place][j] == POISON, "a byte beside the result was written");
            }
        }
    }
    CHECK_OK(mylib_free(gpu, data, NULL));
    free(host);
}

/* ---- Memory ---- */

static void test_memory(rng *r)
{
    static const size_t sizes[] = {0, 1, 255, 256, 4097, 1 << 20, (3 << 20) + 1};
    unsigned char *host = test_malloc(4 << 20), *back = test_malloc(4 << 20);
    void *a, *b, *kept = &kept;
    fill_values(r, MYLIB_U8, 4 << 20, host);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        test_set_case("%zu bytes of GPU memory", sizes[i]);
        a = b = NULL;
        memset(back, POISON, sizes[i] + 1);
        CHECK_OK(mylib_alloc(gpu, sizes[i], NULL, &a));
        CHECK_OK(mylib_alloc(gpu, sizes[i], NULL, &b));
        CHECK(a != NULL && b != NULL && (uintptr_t)a % 256 == 0 && (uintptr_t)b % 256 == 0,
              "at %p and %p", a, b);
        CHECK_OK(mylib_copy(gpu, a, test_cpu, host, sizes[i], NULL));
        CHECK_OK(mylib_copy(gpu, b, gpu, a, sizes[i], NULL));
        CHECK_OK(mylib_copy(test_cpu, back, gpu, b, sizes[i], NULL));
        CHECK(memcmp(back, host, sizes[i]) == 0 && back[sizes[i]] == POISON, "the copy differs");
        CHECK_OK(mylib_free(gpu, a, NULL));
        CHECK_OK(mylib_free(gpu, b, NULL));
    }
    CHECK_OK(mylib_free(gpu, NULL, NULL));
    free(host);
    free(back);

    test_set_case("more GPU memory than there is");
    a = kept;
    if (CHECK_STATUS(mylib_alloc(gpu, (size_t)1 << 46, NULL, &a), MYLIB_ERR_NO_MEMORY)) {
        CHECK(strstr(mylib_last_message(), "70368744177664") != NULL,
              "the message lacks the size: %s", mylib_last_message());
        CHECK(a == kept, "the pointer was written");
    }
    CHECK_STATUS(mylib_alloc_pinned((size_t)1 << 50, &a), MYLIB_ERR_NO_MEMORY);
    CHECK(a == kept, "the pointer was written");
}

/* ---- Errors ---- */

static void test_errors(void)
{
    const mylib_op add = MYLIB_OP_add;
    const mylib_device missing = {MYLIB_CUDA, test_gpu_count};
    static double host[16];
    int64_t n = 4, two = 2, stride = 8, none = 0, odd = 12;
    int64_t square[2] = {2, 2};
    double result = -77;
    void *data = NULL;
    test_set_case("errors on the GPU");
    for (int i = 0; i < 16; i++)
        host[i] = i;
    CHECK_OK(mylib_alloc(gpu, sizeof host, NULL, &data));
    CHECK_OK(mylib_copy(gpu, data, test_cpu, host, sizeof host, NULL));
    double *d = data;
    mylib_array on_gpu = {d, gpu, MYLIB_F64, 1, &n, NULL},
                on_host = {host, test_cpu, MYLIB_F64, 1, &n, NULL};
    mylib_array out = on_gpu, in[2] = {on_gpu, on_gpu};

    /* Places that do not go together. */
    in[1] = on_host;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    in[1] = on_gpu;
    CHECK_GPU(mylib_map(add, gpu, NULL, &on_host, in), MYLIB_ERR_ARGUMENT);
    CHECK_GPU(mylib_map(add, test_cpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    CHECK_GPU(mylib_map(add, missing, NULL, &out, in), MYLIB_ERR_ARGUMENT);

    /* No such GPU. */
    mylib_array host_in[2] = {on_host, on_host};
    CHECK_GPU(mylib_map(add, missing, NULL, &on_host, host_in), MYLIB_ERR_NO_DEVICE);
    CHECK_GPU(mylib_scalar_f64(add, missing, 1, 2, &result), MYLIB_ERR_NO_DEVICE);
    CHECK_GPU(mylib_synchronize(missing, NULL), MYLIB_ERR_NO_DEVICE);

    /* Overlap other than "exactly an input", and a result that overlaps itself. */
    test_set_case("overlap on the GPU");
    out.data = d + 1;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    out = on_gpu, out.shape = &two, in[0].shape = in[1].shape = &two;
    in[1].data = d + 1;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    out = on_gpu, in[0] = in[1] = on_gpu;
    out.strides = &none, in[0].data = in[1].data = d + 8;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    out = on_host, host_in[0].data = host + 1;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, host_in), MYLIB_ERR_ARGUMENT);
    host_in[0] = host_in[1] = on_host, host_in[0].data = host_in[1].data = host + 8;
    out.strides = &none;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, host_in), MYLIB_ERR_ARGUMENT);

    /* Not aligned to the elements, by pointer or by stride. */
    test_set_case("unaligned GPU memory");
    out = on_gpu, in[0] = in[1] = on_gpu, in[0].data = (char *)d + 64 + 4, in[1].data = d + 8;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    in[0].data = d + 8, in[1].strides = &odd;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    in[1].strides = &stride;
    CHECK_GPU(mylib_map(add, gpu, NULL, &out, in), MYLIB_OK);

    /* Ordinary memory that is said to be a GPU's: each operand in turn. */
    for (int k = 0; k < 3; k++) {
        mylib_array arrays[3] = {on_gpu, on_gpu, on_gpu};
        test_set_case("host memory said to be a GPU's, operand %d", k);
        arrays[k].data = host;
        CHECK_GPU(mylib_map(add, gpu, NULL, &arrays[0], &arrays[1]), MYLIB_ERR_ARGUMENT);
    }

    test_set_case("trace errors on the GPU");
    mylib_array matrix = {d, gpu, MYLIB_F64, 2, square, NULL};
    CHECK_GPU(mylib_trace(test_cpu, NULL, &matrix, &result), MYLIB_ERR_ARGUMENT);
    matrix.device = test_cpu, matrix.data = host;
    CHECK_GPU(mylib_trace(missing, NULL, &matrix, &result), MYLIB_ERR_NO_DEVICE);
    matrix.device = gpu, matrix.data = d, matrix.ndim = 1;
    CHECK_GPU(mylib_trace(gpu, NULL, &matrix, &result), MYLIB_ERR_ARGUMENT);
    CHECK(result == -77, "a result was written");

    CHECK_OK(mylib_free(gpu, data, NULL));
}

/* Last: a library that accepts these has lost its CUDA context. */
static void test_bad_pointers_to_trace(void)
{
    static double host[16];
    int64_t square[2] = {4, 4};
    double result = -77;
    void *data = NULL;
    mylib_array matrix = {host, gpu, MYLIB_F64, 2, square, NULL};
    test_set_case("a matrix in host memory said to be a GPU's");
    CHECK_GPU(mylib_trace(gpu, NULL, &matrix, &result), MYLIB_ERR_ARGUMENT);
    CHECK(strstr(mylib_last_message(), "matrix is said") != NULL, "%s", mylib_last_message());
    test_set_case("an unaligned array, whose terms are copied first");
    CHECK_OK(mylib_alloc(gpu, 64, NULL, &data));
    int64_t large[2] = {512, 512}, strides[2] = {8, 512 * 8};
    const mylib_array in = {(char *)data + 12, gpu, MYLIB_F64, 2, large, strides};
    const mylib_array sum = {data, gpu, MYLIB_F64, 0, NULL, NULL};
    CHECK_GPU(mylib_reduce(MYLIB_SUM, MYLIB_F64, gpu, NULL, &sum, &in), MYLIB_ERR_ARGUMENT);
    CHECK(strstr(mylib_last_message(), "in is not aligned") != NULL, "%s", mylib_last_message());
    CHECK_OK(mylib_free(gpu, data, NULL));
    test_set_case("an unaligned matrix");
    CHECK_OK(mylib_alloc(gpu, 256, NULL, &data));
    matrix.data = (char *)data + 4;
    CHECK_GPU(mylib_trace(gpu, NULL, &matrix, &result), MYLIB_ERR_ARGUMENT);
    CHECK(result == -77, "the result was written");
    CHECK_OK(mylib_free(gpu, data, NULL));
}

/* ---- Threads, other GPUs, fork ---- */

static void *use_gpu(void *argument)
{
    rng r = rng_make(500 + (uint64_t)(uintptr_t)argument);
    const int64_t most = 300000;
    double *x = test_malloc((size_t)most * 8), *y = test_malloc((size_t)most * 8);
    double *z = test_malloc((size_t)most * 8), scalar = 0;
    void *data = NULL;
    fill_ordinary(&r, MYLIB_F64, most, x);
    fill_ordinary(&r, MYLIB_F64, most, y);
    CHECK_OK(mylib_alloc(gpu, (size_t)most * 8, NULL, &data));
    for (int round = 0; round < (test_quick ? 2 : 30); round++) {
        int64_t n = 1 + rng_below(&r, most), wrong = 0;
        mylib_array array = {z, test_cpu, MYLIB_F64, 1, &n, NULL};
        mylib_array in[2] = {test_row(x, MYLIB_F64, &n), test_row(y, MYLIB_F64, &n)};
        test_set_case("thread %d, round %d", (int)(uintptr_t)argument, round);
        CHECK_OK(mylib_map(MYLIB_OP_divide, gpu, NULL, &array, in));
        for (int64_t i = 0; i < n; i++)
            wrong += z[i] != x[i] / y[i];
        CHECK(wrong == 0, "streamed: %lld elements are wrong", (long long)wrong);

        array.data = data, array.device = gpu;
        in[0] = in[1] = array;
        CHECK_OK(mylib_copy(gpu, data, test_cpu, x, (size_t)n * 8, NULL));
        CHECK_OK(mylib_map(MYLIB_OP_add, gpu, NULL, &array, in));
        CHECK_OK(mylib_copy(test_cpu, z, gpu, data, (size_t)n * 8, NULL));
        for (int64_t i = 0; i < n; i++)
            wrong += z[i] != x[i] + x[i];
        CHECK(wrong == 0, "GPU memory: %lld elements are wrong", (long long)wrong);

        CHECK_OK(mylib_scalar_f64(MYLIB_OP_multiply, gpu, x[0], y[0], &scalar));
        CHECK(scalar == x[0] * y[0], "scalar: %g, not %g", scalar, x[0] * y[0]);
        if (round % 10 == 9)
            CHECK_OK(mylib_free_cached());
    }
    CHECK_OK(mylib_free(gpu, data, NULL));
    free(x);
    free(y);
    free(z);
    return NULL;
}

/* The other GPUs compute too, and arrays of two GPUs do not mix. */
static void test_other_gpus(rng *r)
{
    int64_t n = 1000;
    double host[1000], got[1000];
    void *first = NULL;
    fill_ordinary(r, MYLIB_F64, n, host);
    CHECK_OK(mylib_alloc(gpu, sizeof host, NULL, &first));
    for (int i = 1; i < test_gpu_count; i++) {
        mylib_device device = {MYLIB_CUDA, i};
        void *data = NULL;
        test_set_case("cuda:%d", i);
        CHECK_OK(mylib_alloc(device, sizeof host, NULL, &data));
        mylib_array array = {data, device, MYLIB_F64, 1, &n, NULL}, in[2] = {array, array};
        CHECK_OK(mylib_copy(device, data, test_cpu, host, sizeof host, NULL));
        CHECK_OK(mylib_map(MYLIB_OP_add, device, NULL, &array, in));
        CHECK_OK(mylib_copy(test_cpu, got, device, data, sizeof got, NULL));
        int64_t wrong = 0;
        for (int64_t k = 0; k < n; k++)
            wrong += got[k] != host[k] + host[k];
        CHECK(wrong == 0, "%lld elements are wrong", (long long)wrong);
        in[1].device = gpu, in[1].data = first;
        CHECK_GPU(mylib_map(MYLIB_OP_add, device, NULL, &array, in), MYLIB_ERR_ARGUMENT);
        in[1] = array;
        CHECK_GPU(mylib_map(MYLIB_OP_add, gpu, NULL, &array, in), MYLIB_ERR_ARGUMENT);
        CHECK_OK(mylib_free(device, data, NULL));
    }
    CHECK_OK(mylib_free(gpu, first, NULL));
}

/* Returns 0 if a child gets an error, not a hang, and the CPU works. */
static int compute_in_child(void)
{
    double a[4] = {1, 2, 3, 4}, out[4] = {0, 0, 0, 0}, scalar;
    int64_t n = 4;
    int count;
    void *p = NULL;
    mylib_array array = {out, test_cpu, MYLIB_F64, 1, &n, NULL};
    mylib_array in[2] = {test_row(a, MYLIB_F64, &n), test_row(a, MYLIB_F64, &n)};
    if (mylib_map(MYLIB_OP_add, gpu, NULL, &array, in) != MYLIB_ERR_FORKED || out[0] != 0 ||
        mylib_last_message()[0] == '\0')
        return 1;
    if (mylib_cuda_device_count(&count) != MYLIB_ERR_FORKED)
        return 2;
    if (mylib_scalar_f64(MYLIB_OP_add, gpu, 1, 2, &scalar) != MYLIB_ERR_FORKED)
        return 3;
    if (mylib_alloc(gpu, 8, NULL, &p) != MYLIB_ERR_FORKED ||
        mylib_alloc_pinned(8, &p) != MYLIB_ERR_FORKED || p != NULL)
        return 4;
    if (mylib_synchronize(gpu, NULL) != MYLIB_ERR_FORKED)
        return 5;
    if (mylib_map(MYLIB_OP_add, test_cpu, NULL, &array, in) != MYLIB_OK || out[3] != 8)
        return 6;
    if (mylib_free_cached() != MYLIB_OK)
        return 7;
    return 0;
}

static void test_fork(void)
{
    test_set_case("fork after CUDA was used");
    test_in_child(compute_in_child);
    test_gpu_works();
}

/* ---- main ---- */

/* A child that was forked before CUDA was used may use it. */
static int use_first(void)
{
    double result = 0;
    int count = 0;
    mylib_status status = mylib_cuda_device_count(&count);
    if (status == MYLIB_OK)
        status = mylib_scalar_f64(MYLIB_OP_add, gpu, 1, 2, &result);
    return status != MYLIB_ERR_NO_DEVICE && (status != MYLIB_OK || result != 3);
}

static void test_fork_first(void)
{
    test_set_case("fork before CUDA is used");
    test_in_child(use_first);
}

int main(int argc, char **argv)
{
    test_begin_gpu("gpu", argc, argv, test_fork_first);
    rng r = rng_make(1);
    load_driver();
    open_images();
    FOR_EACH_PAIR(op, t)
    {
        test_contiguous(op, t, &r);
        test_strided(op, t, &r);
        test_streamed(op, t, &r);
    }
    for (const test_type *t = test_types; t < test_types + TEST_COMPUTED_COUNT; t++)
        test_trace(t, &r);
    for (const test_op *op = test_ops; op < test_ops + MYLIB_OP_COUNT; op++)
        test_scalars(op, &r);
    close_images();
    test_streamed_sizes(&r);
    test_streamed_large(&r);
    test_streams(&r);
    test_partly_pinned(&r);
    test_memory(&r);
    test_huge(&r);
    test_in_threads(6, use_gpu);
    test_errors();
    test_other_gpus(&r);
    test_fork();
    test_bad_pointers_to_trace();
    return test_end();
}
