/*
 * Reductions of host arrays on a GPU take little of its memory, and give the CPU's bits: with a
 * limit that lets only pieces of the arrays be there, in every layout, with inputs that are
 * repeated, with many outputs; programs, dot products and traces too.  Where there is no memory at
 * all they fail with a message that says so, leave nothing behind, and the next call works.
 *
 *     test_gpu_streamed [--quick]    --quick: few cases, for compute-sanitizer
 *
 * Exit status 77, "skipped", without a GPU; with MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#include "reduction_case.h"

#define POISON 0xa5

static const mylib_device gpu = {MYLIB_CUDA, 0};
static int is_emulated; /* a CPU does the GPU's work: less of it */

static uint64_t used_nbytes(void)
{
    mylib_memory_info info = {0};
    CHECK_OK(mylib_cuda_memory_info(0, &info));
    return info.used_nbytes;
}

/* Limits the bytes that may be allocated from now on. */
static void set_limit(uint64_t nbytes)
{
    CHECK_OK(mylib_cuda_set_memory_limit(0, used_nbytes() + nbytes));
}
static void end_limit(void) { CHECK_OK(mylib_cuda_set_memory_limit(0, UINT64_MAX)); }

/* Less than the least of an array that is tested with it. */
static uint64_t little(void) { return is_emulated ? 100000 : 3000000; }

/* ---- Random reductions ---- */

static void run_case(const reduction_case *c, rng *r, const char *where, uint64_t limit)
{
    const size_t in_nbytes = (size_t)(c->in.span + test_size(c->stored));
    const size_t out_nbytes = (size_t)(c->out.span + test_size(c->out_type));
    unsigned char *in = test_malloc(in_nbytes), *right = test_malloc(out_nbytes),
                  *got = test_malloc(out_nbytes);
    fill_reduction(r, c, in);
    set_limit(limit);
    for (int k = 0; k < 2; k++) {
        mylib_program *program = k == 1 ? program_of(c->stored, c->type) : NULL;
        const mylib_array source = layout_array(&c->in, c->stored, test_cpu, in);
        set_reduction_case(c, where);
        memset(right, POISON, out_nbytes);
        memset(got, POISON, out_nbytes);
        for (int there = 0; there < 2; there++) {
            const mylib_array out =
                layout_array(&c->out, c->out_type, test_cpu, there ? got : right);
            const mylib_device device = there ? gpu : test_cpu;
            if (program == NULL)
                CHECK_OK(mylib_reduce(c->reduction, c->type, device, NULL, &out, &source));
            else
                CHECK_OK(mylib_program_reduce(program, c->reduction, c->type, device, NULL, &out,
                                              &source));
        }
        compare_reductions(c, right, got);
        mylib_program_free(program);
    }
    end_limit();
    free(in);
    free(right);
    free(got);
}

static void test_random(rng *r)
{
    const int count = test_quick ? 20 : test_is_long ? 1000 : 200;
    for (int i = 0; i < count; i++) {
        reduction_case c;
        const int64_t limit = test_quick ? 6000 : i % 4 == 0 ? 2000000 : 200000;
        if (random_reduction(r, &c, is_emulated ? limit / 10 : limit, 0))
            run_case(&c, r, "random", little());
    }
}

/* Matrices of more bytes than the limit: few and many outputs, along rows and across them. */
static void test_shapes(rng *r)
{
    static const int64_t shapes[][2] = {{1, 1000003}, {3, 400001}, {400001, 3},
                                        {1000, 1300}, {20, 70001}, {70001, 20}};
    static const mylib_type types[] = {MYLIB_F64, MYLIB_F16, MYLIB_I8, MYLIB_C128, MYLIB_U32};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        for (int k = 0; k < 12; k++) {
            const mylib_type type = PICK(r, types);
            const int64_t size = test_size(type), reduced = k % 3, order = k / 3;
            reduction_case c = reduction_of((mylib_reduction)rng_below(r, 4), type, type, 2);
            if ((test_quick || is_emulated) && (i + (size_t)k) % 5 != 0)
                continue;
            for (int d = 0; d < 2; d++) {
                c.in.shape[d] = shapes[i][d] / (test_quick ? 20 : 1) + 1;
                c.out.shape[d] = reduced == d || reduced == 2 ? 1 : c.in.shape[d];
            }
            /* By rows, by columns, by rows backwards, every second element. */
            c.in.strides[1] = order == 1 ? size * c.in.shape[0] : order == 3 ? 2 * size : size;
            c.in.strides[0] = order == 1 ? size : c.in.strides[1] * c.in.shape[1];
            if (order == 2)
                c.in.strides[0] = -c.in.strides[0], c.in.strides[1] = -c.in.strides[1];
            place_results(&c);
            run_case(&c, r, "matrix", little());
        }
    }
}

/* Three dimensions of which those outside and inside are reduced: short runs in memory. */
static void test_middle(rng *r)
{
    for (int k = 0; k < (test_quick ? 1 : 4); k++) {
        reduction_case c = reduction_of(MYLIB_SUM, MYLIB_F32, MYLIB_F32, 3);
        const int64_t shape[3] = {k < 2 ? 300 : 20, k < 2 ? 60 : 900, 61};
        for (int d = 2; d >= 0; d--) {
            c.in.shape[d] = shape[d];
            c.out.shape[d] = (d == 1) == (k % 2 == 0) ? shape[d] : 1;
        }
        layout_pack(&c.in, 4);
        place_results(&c);
        run_case(&c, r, "middle", little());
    }
}

/* ---- What is repeated ---- */

/* A row of n numbers, repeated so often that all of them would not fit the limit. */
static void test_repeated(void)
{
    const int64_t n = is_emulated || test_quick ? 3001 : 1 << 17, times = n;
    const int64_t shape[2] = {times, n}, strides[2] = {0, 8}, row[2] = {1, n},
                  column[2] = {times, 1};
    int64_t *x = test_malloc((size_t)n * 8), *sums = test_malloc((size_t)n * 8), sum = -1,
            right = 0;
    for (int64_t i = 0; i < n; i++)
        right += x[i] = i % 1000 - 300;
    set_limit((uint64_t)little());
    const mylib_array in = {x, test_cpu, MYLIB_I64, 2, shape, strides};
    mylib_array out = {&sum, test_cpu, MYLIB_I64, 0, NULL, NULL};
    test_set_case("a row of %lld numbers, repeated %lld times", (long long)n, (long long)times);
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_I64, gpu, NULL, &out, &in));
    CHECK(sum == right * times, "%lld, not %lld", (long long)sum, (long long)(right * times));

    out = (mylib_array){sums, test_cpu, MYLIB_I64, 2, column, NULL};
    memset(sums, POISON, (size_t)n * 8);
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_I64, gpu, NULL, &out, &in));
    for (int64_t i = 0; i < times; i++)
        if (sums[i] != right)
            CHECK(0, "sum %lld is %lld", (long long)i, (long long)sums[i]);
    out.shape = row;
    CHECK_OK(mylib_reduce(MYLIB_MAX, MYLIB_I64, gpu, NULL, &out, &in));
    CHECK(memcmp(sums, x, (size_t)n * 8) == 0, "the maxima are wrong");

    /* One number alone, for all elements. */
    const int64_t many = n * times, none = 0;
    const mylib_array one = {x, test_cpu, MYLIB_I64, 1, &many, &none};
    out = (mylib_array){&sum, test_cpu, MYLIB_I64, 0, NULL, NULL};
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_I64, gpu, NULL, &out, &one));
    CHECK(sum == x[0] * many, "%lld", (long long)sum);

    /* A column against a row: each goes to the GPU as it is. */
    const mylib_type types[2] = {MYLIB_I64, MYLIB_I64};
    const mylib_step product = {MYLIB_OP_multiply, MYLIB_I64, {0, 1, 0}};
    mylib_program *program = NULL;
    CHECK_OK(mylib_program_create(2, types, 0, NULL, 1, &product, &program));
    const mylib_array both[2] = {{x, test_cpu, MYLIB_I64, 2, column, NULL},
                                 {x, test_cpu, MYLIB_I64, 2, row, NULL}};
    CHECK_OK(mylib_program_reduce(program, MYLIB_SUM, MYLIB_I64, gpu, NULL, &out, both));
    CHECK(sum == right * right, "%lld, not %lld", (long long)sum, (long long)(right * right));
    mylib_program_free(program);
    end_limit();
    free(x);
    free(sums);
}

/* ---- Any limit ---- */

/*
 * From little more than one block of terms of each array on any limit is enough, for the temporary
 * memory of the kernels too, and for what the many pieces of one output give.
 */
static void test_limits(rng *r)
{
    static const struct {
        mylib_reduction reduction;
        mylib_type stored, type, out_type;
        int64_t shape[2];
        int is_reduced[2], is_transposed, is_repeated;
    } cases[] = {
        {MYLIB_SUM, MYLIB_F64, MYLIB_F64, MYLIB_F64, {401, 301}, {1, 1}, 1, 0},
        {MYLIB_SUM, MYLIB_U32, MYLIB_U32, MYLIB_U64, {7002, 21}, {1, 1}, 1, 0},
        {MYLIB_MIN, MYLIB_I8, MYLIB_U16, MYLIB_U16, {350, 350}, {0, 1}, 1, 0},
        {MYLIB_MAX, MYLIB_I8, MYLIB_I8, MYLIB_I8, {2, 100003}, {1, 0}, 0, 0},
        {MYLIB_PROD, MYLIB_I32, MYLIB_I32, MYLIB_I64, {3, 50001}, {0, 1}, 0, 0},
        {MYLIB_SUM, MYLIB_C128, MYLIB_C128, MYLIB_C128, {50001, 3}, {1, 0}, 0, 0},
        {MYLIB_SUM, MYLIB_I64, MYLIB_I64, MYLIB_I64, {7003, 3203}, {1, 1}, 0, 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        reduction_case c = {cases[i].reduction, cases[i].stored, cases[i].type,
                            cases[i].out_type,  {.ndim = 2},     {.ndim = 2}};
        const int64_t size = test_size(c.stored);
        for (int d = 0; d < 2; d++) {
            c.in.shape[d] = cases[i].shape[d];
            c.out.shape[d] = cases[i].is_reduced[d] ? 1 : c.in.shape[d];
        }
        c.in.strides[0] = cases[i].is_repeated     ? 0
                          : cases[i].is_transposed ? size
                                                   : size * c.in.shape[1];
        c.in.strides[1] = cases[i].is_transposed ? size * c.in.shape[0] : size;
        place_results(&c);
        /* Repeated inputs have more parts than the least limit has room for. */
        const uint64_t least = cases[i].is_repeated ? 100000 : 120000;
        const uint64_t most = test_quick || cases[i].is_repeated ? least : 5000000;
        for (uint64_t limit = least; limit <= most; limit = limit * 3 / 2)
            run_case(&c, r, "any limit", limit);
    }
}

/* ---- Dot products and traces ---- */

static void test_others(rng *r)
{
    const int64_t n = test_quick ? 30001 : is_emulated ? 200001 : 3000001;
    const int64_t side = 700, back = -8, shape[2] = {side, side};
    double *x = test_malloc((size_t)n * 8), *y = test_malloc((size_t)n * 8), sums[2] = {0, 1};
    fill_ordinary(r, MYLIB_F64, n, x);
    fill_ordinary(r, MYLIB_F64, n, y);
    const mylib_array a = {x, test_cpu, MYLIB_F64, 1, &n, NULL};
    const mylib_array b = {y + n - 1, test_cpu, MYLIB_F64, 1, &n, &back};
    const mylib_array matrix = {x, test_cpu, MYLIB_F64, 2, shape, NULL};
    set_limit(little());
    for (int k = 0; k < 3; k++) {
        test_set_case("dot, trace: %d", k);
        for (int there = 0; there < 2; there++) {
            const mylib_device device = there ? gpu : test_cpu;
            const mylib_array out = {&sums[there], test_cpu, MYLIB_F64, 0, NULL, NULL};
            if (k == 2 && side * side > n)
                continue;
            CHECK_OK(k == 0   ? mylib_dot(MYLIB_F64, device, NULL, &out, &a, &a)
                     : k == 1 ? mylib_dot(MYLIB_F64, device, NULL, &out, &a, &b)
                              : mylib_trace(device, NULL, &matrix, &sums[there]));
        }
        CHECK(same_value(MYLIB_F64, &sums[0], &sums[1]), "%.17g, not %.17g", sums[1], sums[0]);
    }
    end_limit();
    free(x);
    free(y);
}

/* ---- Without memory ---- */

static void test_no_memory(rng *r)
{
    const int64_t n = 100000;
    double *x = test_malloc((size_t)n * 8), sums[2] = {0, 1};
    fill_ordinary(r, MYLIB_F64, n, x);
    const mylib_array in = {x, test_cpu, MYLIB_F64, 1, &n, NULL};
    mylib_array out = {&sums[0], test_cpu, MYLIB_F64, 0, NULL, NULL};
    mylib_program *program = program_of(MYLIB_F64, MYLIB_F64);
    CHECK_OK(mylib_dot(MYLIB_F64, test_cpu, NULL, &out, &in, &in));
    out.data = &sums[1];
    for (int k = 0; k < 4; k++) {
        const uint64_t before = used_nbytes();
        mylib_status st;
        test_set_case("no memory on the GPU: %d", k);
        set_limit(100);
        st = k == 0   ? mylib_reduce(MYLIB_SUM, MYLIB_F64, gpu, NULL, &out, &in)
             : k == 1 ? mylib_dot(MYLIB_F64, gpu, NULL, &out, &in, &in)
             : k == 2 ? mylib_program_reduce(program, MYLIB_MAX, MYLIB_F64, gpu, NULL, &out, &in)
                      : mylib_reduce(MYLIB_SUM, MYLIB_F32, gpu, NULL, &out, &in);
        CHECK_STATUS(st, k == 3 ? MYLIB_ERR_ARGUMENT : MYLIB_ERR_NO_MEMORY);
        CHECK(k == 3 || strstr(mylib_last_message(), "could not allocate") != NULL, "it says: %s",
              mylib_last_message());
        CHECK(used_nbytes() == before, "%llu bytes are used, not %llu",
              (unsigned long long)used_nbytes(), (unsigned long long)before);
        end_limit();
    }
    CHECK_OK(mylib_dot(MYLIB_F64, gpu, NULL, &out, &in, &in));
    CHECK(sums[0] == sums[1], "%.17g, not %.17g", sums[1], sums[0]);
    mylib_program_free(program);
    free(x);
}

/* Refuses an `out` that would be read while it is written. */
static void test_overlap(void)
{
    double x[6] = {1, 2, 3, 4, 5, 6};
    const int64_t n = 6;
    const mylib_array in = {x, test_cpu, MYLIB_F64, 1, &n, NULL};
    const mylib_array out = {x + 2, test_cpu, MYLIB_F64, 0, NULL, NULL};
    test_set_case("out in the input");
    CHECK_STATUS(mylib_reduce(MYLIB_SUM, MYLIB_F64, gpu, NULL, &out, &in), MYLIB_ERR_ARGUMENT);
    CHECK(x[2] == 3, "it was written");
}

int main(int argc, char **argv)
{
    test_begin_gpu("gpu_streamed", argc, argv, NULL);
    rng r = rng_make(0);
    is_emulated = test_is_emulated();
    test_no_memory(&r);
    test_overlap();
    test_repeated();
    test_others(&r);
    test_middle(&r);
    test_shapes(&r);
    test_random(&r);
    test_limits(&r);
    CHECK(used_nbytes() == 0, "%llu bytes are still in use", (unsigned long long)used_nbytes());
    return test_end();
}
