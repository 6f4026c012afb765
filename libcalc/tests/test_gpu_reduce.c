/*
 * Reductions of GPU memory give the CPU's bits: random types, shapes, layouts and dimensions; sizes
 * for which one launch combines few partial results, or a second one many; dense rows and columns,
 * of narrow types too; few terms; pieces of memory; truths; floats that integers cannot hold; dot
 * products; host arrays.
 *
 *     test_gpu_reduce [--quick]    --quick: few cases, for compute-sanitizer
 *
 * Takes some of the cases, in each run others; with MYLIB_TEST_LONG=1 all, and ten times as many
 * random ones.
 *
 * Exit status 77, "skipped", without a GPU; with MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#include <math.h>

#include "reduction_case.h"

#define POISON 0xa5

static mylib_device gpu = {MYLIB_CUDA, 0};

/* Numbers at which the integer types end, and some that none of them holds. */
static const double edges[] = {
    NAN,        INFINITY, -INFINITY, 0,           -0.5,       126.9,  127,          127.5,
    128,        -128,     -128.5,    -129,        255,        255.5,  256,          300,
    -1,         32767,    32768,     -32768,      -32769,     65535,  65536,        0x1.fffffep30,
    0x1p31 - 1, 0x1p31,   -0x1p31,   -0x1p31 - 1, 0x1p32 - 1, 0x1p32, 0x1p33 + 512, 0x1p63,
    -0x1p63,    0x1p64,   1e30,      -1e30,       3.7,
};
enum { EDGES = COUNT_OF(edges) };

static int is_float_as_integer(const reduction_case *c)
{
    return test_is_integer(c->type) && !test_is_integer(c->stored);
}

/* Edges in any order, after the first, which is the next one in each case. */
static void fill_edges(rng *r, const reduction_case *c, unsigned char *in)
{
    static int next;
    int64_t size = test_size(c->stored), n = c->in.span / size + 1;
    for (int64_t i = 0; i < n; i++)
        put_number(c->stored, edges[i == 0 ? next++ % EDGES : rng_below(r, EDGES)], in + i * size);
}

/* Tells whether a long list goes on with this case: always in a long run, else once in n times. */
static int takes(rng *r, int64_t n) { return test_is_long || test_quick || rng_once_in(r, n); }

/* Reduces; as a mean, some of the sums that can be one. */
static mylib_status reduce(const reduction_case *c, int is_mean, mylib_device device,
                           const mylib_array *out, const mylib_array *in)
{
    return mylib_reduce(is_mean ? MYLIB_MEAN : c->reduction, c->type, device, NULL, out, in);
}

/* The same reduction on the CPU, in GPU memory, and of host arrays on the GPU. */
static void run_case(const reduction_case *c, rng *r, const char *where)
{
    int64_t size = test_size(c->stored), out_size = test_size(c->out_type);
    size_t in_nbytes = (size_t)(c->in.span + size), out_nbytes = (size_t)(c->out.span + out_size);
    unsigned char *in = test_malloc(in_nbytes), *right = test_malloc(out_nbytes),
                  *got = test_malloc(out_nbytes);
    const int is_mean = c->reduction == MYLIB_SUM && !test_is_integer(c->out_type) &&
                        (c->type != MYLIB_F16 || c->out_type == MYLIB_F32) && rng_once_in(r, 3);
    void *gpu_in = NULL, *gpu_out = NULL;
    set_reduction_case(c, is_mean ? "mean" : where);
    if (is_float_as_integer(c) && !rng_once_in(r, 3))
        fill_edges(r, c, in);
    else
        fill_reduction(r, c, in);
    memset(right, POISON, out_nbytes);
    memset(got, POISON, out_nbytes);
    if (!CHECK_OK(mylib_alloc(gpu, in_nbytes, NULL, &gpu_in)) ||
        !CHECK_OK(mylib_alloc(gpu, out_nbytes, NULL, &gpu_out)))
        test_give_up("no GPU memory");
    CHECK_OK(mylib_copy(gpu, gpu_in, test_cpu, in, in_nbytes, NULL));
    CHECK_OK(mylib_copy(gpu, gpu_out, test_cpu, got, out_nbytes, NULL));

    mylib_array in_array = layout_array(&c->in, c->stored, test_cpu, in);
    mylib_array out_array = layout_array(&c->out, c->out_type, test_cpu, right);
    CHECK_OK(reduce(c, is_mean, test_cpu, &out_array, &in_array));
    mylib_array there = layout_array(&c->in, c->stored, gpu, gpu_in);
    mylib_array out_there = layout_array(&c->out, c->out_type, gpu, gpu_out);
    CHECK_OK(reduce(c, is_mean, gpu, &out_there, &there));
    CHECK_OK(mylib_copy(test_cpu, got, gpu, gpu_out, out_nbytes, NULL));
    compare_reductions(c, right, got);
    if (rng_once_in(r, 8)) {
        memset(got, POISON, out_nbytes);
        out_array = layout_array(&c->out, c->out_type, test_cpu, got);
        CHECK_OK(reduce(c, is_mean, gpu, &out_array, &in_array));
        compare_reductions(c, right, got);
    }
    CHECK_OK(mylib_free(gpu, gpu_in, NULL));
    CHECK_OK(mylib_free(gpu, gpu_out, NULL));
    free(in);
    free(right);
    free(got);
}

static void test_random(rng *r)
{
    for (int i = 0; i < (test_quick ? 60 : test_is_long ? 3000 : 300); i++) {
        reduction_case c;
        if (random_reduction(r, &c, test_quick ? 6000 : i % 50 == 0 ? 2000000 : 20000, 1))
            run_case(&c, r, "random");
    }
}

/* Tells whether elements of a matrix, its rows and its columns differ from 0, as any type. */
static void test_truths(rng *r)
{
    static const struct {
        mylib_reduction reduction;
        mylib_type type, out_type;
    } as[] = {{MYLIB_MAX, MYLIB_U8, MYLIB_U8},   {MYLIB_MIN, MYLIB_U8, MYLIB_U8},
              {MYLIB_MIN, MYLIB_F64, MYLIB_F64}, {MYLIB_MAX, MYLIB_I64, MYLIB_I64},
              {MYLIB_MIN, MYLIB_I16, MYLIB_I16}, {MYLIB_MAX, MYLIB_U64, MYLIB_U64},
              {MYLIB_SUM, MYLIB_I64, MYLIB_I64}};
    static const int64_t shapes[][2] = {{1, 1},     {1, 255},  {1, 70001}, {3000, 3},
                                        {1100, 40}, {5, 4097}, {100, 9},   {2000, 1000}};
    static const double numbers[] = {0, -0.0, 1, -1, NAN, 0.75};
    for (int t = 0; t < MYLIB_TYPE_COUNT * (int)COUNT_OF(shapes) * 3; t++) {
        const mylib_type type = (mylib_type)(t % MYLIB_TYPE_COUNT);
        const int64_t *shape = shapes[t / MYLIB_TYPE_COUNT % COUNT_OF(shapes)];
        const int64_t n = shape[0] * shape[1], size = test_size(type);
        const int64_t odds[] = {1000000, 100, 2}, odd = odds[t % 3];
        const mylib_step step = {MYLIB_STEP_CONVERT, MYLIB_BOOL, {0, 0, 0}};
        const int first = (int)rng_below(r, 2) * 2; /* mostly false, or mostly true */
        const size_t nbytes = (size_t)(n * size), out_nbytes = (size_t)(n * 8);
        if (test_quick && n > 20000)
            continue;
        unsigned char *in = test_malloc(nbytes), *right = test_malloc(out_nbytes),
                      *got = test_malloc(out_nbytes);
        mylib_program *program = NULL;
        void *there = NULL, *out_there = NULL;
        for (int64_t i = 0; i < n; i++) {
            const int64_t k = rng_once_in(r, odd) ? rng_below(r, 6) : first + rng_below(r, 2);
            put_number(type, numbers[k], in + i * size);
        }
        CHECK_OK(mylib_program_create(1, &type, 0, NULL, 1, &step, &program));
        CHECK_OK(mylib_alloc(gpu, nbytes, NULL, &there));
        CHECK_OK(mylib_alloc(gpu, out_nbytes, NULL, &out_there));
        CHECK_OK(mylib_copy(gpu, there, test_cpu, in, nbytes, NULL));
        const mylib_array here = {in, test_cpu, type, 2, shape, NULL},
                          on_gpu = {there, gpu, type, 2, shape, NULL};
        for (int k = 0; k < 3 * (int)COUNT_OF(as); k++) {
            const mylib_type out_type = as[k / 3].out_type;
            const int64_t kept[2] = {k % 3 == 1 ? shape[0] : 1, k % 3 == 2 ? shape[1] : 1};
            const mylib_array out = {right, test_cpu, out_type, 2, kept, NULL},
                              out_on_gpu = {out_there, gpu, out_type, 2, kept, NULL};
            test_set_case("truths of %s (%d, %d), one in %d, %d to (%d, %d)", test_types[type].name,
                          (int)shape[0], (int)shape[1], (int)odd, k / 3, (int)kept[0],
                          (int)kept[1]);
            const mylib_reduction reduction = as[k / 3].reduction;
            CHECK_OK(mylib_program_reduce(program, reduction, as[k / 3].type, test_cpu, NULL, &out,
                                          &here));
            CHECK_OK(mylib_program_reduce(program, reduction, as[k / 3].type, gpu, NULL,
                                          &out_on_gpu, &on_gpu));
            const int64_t outputs = kept[0] * kept[1], out_size = test_size(out_type);
            CHECK_OK(mylib_copy(test_cpu, got, gpu, out_there, (size_t)(outputs * out_size), NULL));
            for (int64_t i = 0; i < outputs; i++)
                CHECK(same_value(out_type, right + i * out_size, got + i * out_size),
                      "output %d: %s, not %s", (int)i, describe(out_type, got + i * out_size),
                      describe(out_type, right + i * out_size));
        }
        mylib_program_free(program);
        CHECK_OK(mylib_free(gpu, there, NULL));
        CHECK_OK(mylib_free(gpu, out_there, NULL));
        free(in);
        free(right);
        free(got);
    }
}

/* Matrices of the sizes at which the way through memory changes, with rows that start anywhere. */
static void test_shapes(rng *r)
{
    static const int64_t shapes[][2] = {{1, 16384},   {1, 100001},  {1, 1000003}, {1, 40000000},
                                        {3, 300001},  {300001, 3},  {100000, 8},  {70001, 33},
                                        {2000, 2048}, {2000, 5000}, {5000, 200},  {200, 5000},
                                        {100000, 20}, {3000000, 2}, {1100, 257}};
    static const mylib_type types[] = {MYLIB_F64, MYLIB_F32, MYLIB_U64,  MYLIB_I32,
                                       MYLIB_F16, MYLIB_C64, MYLIB_C128, MYLIB_BOOL};
    int count = test_quick ? 3 : COUNT_OF(shapes);
    for (int i = 0; i < count; i++) {
        for (size_t t = 0; t < COUNT_OF(types); t++) {
            for (int k = 0; k < 12; k++) {
                mylib_type type = types[t] == MYLIB_BOOL ? MYLIB_I64 : types[t];
                int64_t size = test_size(types[t]), gap = k / 3;
                reduction_case c =
                    reduction_of((mylib_reduction)rng_below(r, 4), types[t], type, 2);
                if (shapes[i][1] > 10000000 && (!test_is_long || k % 3 != 1 || t > 2))
                    continue;
                if (!takes(r, 15))
                    continue;
                for (int d = 0; d < 2; d++) {
                    c.in.shape[d] = shapes[i][d];
                    c.out.shape[d] = k % 3 == d || k % 3 == 2 ? 1 : c.in.shape[d];
                }
                /* Rows without gaps, with one element between them, every second; transposed. */
                c.in.strides[1] = gap == 3 ? size * c.in.shape[0] : gap == 2 ? 2 * size : size;
                c.in.strides[0] =
                    gap == 3 ? size : c.in.strides[1] * c.in.shape[1] + (gap == 1 ? size : 0);
                place_results(&c);
                run_case(&c, r, "matrix");
            }
        }
    }
}

/*
 * As many terms as one thread block takes, and up to and beyond what a cluster of eight takes in
 * one launch, of one output and of several; contiguous and not.
 */
static void test_parts(rng *r)
{
    enum { WARPS = 8, BLOCK = 2048 };
    static const int parts[] = {3, 8, 1, 2, 4, 5, 7, 9, 15, 16, 17, 40};
    int count = test_quick ? 2 : COUNT_OF(parts);
    for (int t = 0; t < TEST_COMPUTED_COUNT; t++) {
        const int64_t size = test_size((mylib_type)t);
        if (test_quick && t != MYLIB_F32 && t != MYLIB_C128)
            continue;
        for (int k = 0; k < count * 4 * 2 * 3; k++) {
            const int is_strided = k % 2, shift = (int)rng_below(r, 4) - 2;
            const int64_t some = is_strided ? BLOCK : WARPS * BLOCK;
            reduction_case c =
                reduction_of((mylib_reduction)(k / 2 % 4), (mylib_type)t, (mylib_type)t, 2);
            if ((test_quick && !is_strided && parts[k / 24] > 3) || !takes(r, 24))
                continue;
            /* Ends within a block, at its end, and with a term more. */
            c.in.shape[1] = parts[k / 24] * some + (shift == -2 ? -1 - rng_below(r, some) : shift);
            c.in.shape[0] = c.out.shape[0] = k / 8 % 3 == 0 ? 1 : k / 8 % 3 == 1 ? 3 : 70;
            if (c.in.shape[0] == 70 && (test_quick || parts[k / 24] > 9 || !is_strided))
                c.in.shape[0] = c.out.shape[0] = 2;
            c.out.shape[1] = 1;
            c.in.strides[1] = (1 + is_strided) * size;
            c.in.strides[0] = c.in.strides[1] * c.in.shape[1];
            if (rng_once_in(r, 2))
                c.in.strides[0] = (c.in.strides[0] + 15) / 16 * 16;
            place_results(&c);
            run_case(&c, r, "parts");
        }
    }
}

/*
 * Rows that a few threads reduce, and columns that are read as vectors, of integers also in parts:
 * of each stored type as itself and as the types that widen it, which start anywhere, with and
 * without gaps between them, in one dimension or two.
 */
static void test_dense(rng *r)
{
    static const int64_t rows[][2] = {
        {1024, 2},   {3001, 3},   {1500, 4},   {1100, 5},   {1030, 8},   {1025, 9},  {1024, 16},
        {1040, 17},  {1100, 31},  {1024, 32},  {1031, 33},  {1024, 64},  {1027, 65}, {1024, 128},
        {1025, 129}, {1024, 255}, {1024, 256}, {1024, 257}, {1024, 2000}};
    static const int64_t columns[][2] = {{300, 16},  {2049, 16}, {70, 48},    {5000, 32},
                                         {520, 512}, {33, 1040}, {2100, 528}, {9, 4096}};
    enum { ROWS = COUNT_OF(rows), COLUMNS = COUNT_OF(columns) };
    static const mylib_type wide[] = {MYLIB_F64, MYLIB_F32, MYLIB_I64, MYLIB_U8, MYLIB_F16};
    for (int t = 0; t < MYLIB_TYPE_COUNT; t++) {
        for (int k = 0; k < 6 * 4 * (ROWS + COLUMNS); k++) {
            const mylib_type stored = (mylib_type)t, as = k % 6 < 5 ? wide[k % 6] : stored;
            const mylib_type type = as == MYLIB_BOOL ? MYLIB_I64 : as;
            const int is_row = k / 24 < ROWS, is_short = test_quick || !test_is_long;
            const int64_t *shape = is_row ? rows[k / 24] : columns[k / 24 - ROWS];
            const int64_t size = test_size(stored), gap = rng_below(r, 3);
            /* As itself, or widened; sums of integers in a float, and bool as bytes, too. */
            if ((type != stored && !rng_once_in(r, 3)) ||
                (test_is_integer(type) && t >= MYLIB_F16 && t <= MYLIB_C128) ||
                (is_short && !rng_once_in(r, test_quick ? 60 : 6)))
                continue;
            reduction_case c = reduction_of((mylib_reduction)(k / 6 % 4), stored, type, 3);
            if (rng_once_in(r, 3))
                c.out_type = type;
            /* Two dimensions of outputs, of which the first is short. */
            c.in.shape[0] = 1 + rng_below(r, 2);
            c.in.shape[1] = shape[0];
            c.in.shape[2] = shape[1];
            memcpy(c.out.shape, c.in.shape, sizeof c.out.shape);
            c.out.shape[is_row ? 2 : 1] = 1;
            c.in.strides[2] = size;
            c.in.strides[1] = (shape[1] + (gap == 1 ? 1 : gap == 2 ? 16 / size : 0)) * size;
            c.in.strides[0] = c.in.strides[1] * shape[0] + (rng_once_in(r, 2) ? 0 : 16);
            place_results(&c);
            if (rng_once_in(r, 2)) {
                c.in.offset = (1 + rng_below(r, 3)) * size;
                c.in.span += c.in.offset;
            }
            run_case(&c, r, is_row ? "rows" : "columns");
        }
    }
}

/*
 * Few terms of each output, which are combined as a program if there are enough outputs: apart, in
 * two dimensions, and side by side; views with gaps and backwards.
 */
static void test_few(rng *r)
{
    enum { APART, WITHIN_ROWS, IN_TWO, SIDE_BY_SIDE, WAYS, NDIM = 4 };
    static const mylib_type wide[] = {MYLIB_F64, MYLIB_F32, MYLIB_I64, MYLIB_U8, MYLIB_F16};
    for (int k = 0; k < MYLIB_TYPE_COUNT * WAYS * (test_quick ? 1 : test_is_long ? 40 : 6); k++) {
        const mylib_type stored = (mylib_type)(k % MYLIB_TYPE_COUNT);
        const mylib_type as = rng_once_in(r, 2) ? stored : PICK(r, wide);
        const mylib_type type = as == MYLIB_BOOL ? MYLIB_I64 : as;
        const int way = k / MYLIB_TYPE_COUNT % WAYS, is_many = !test_quick && rng_once_in(r, 2);
        const int64_t rows = is_many ? 260 : 1 + rng_below(r, 40);
        const int64_t columns = is_many ? 260 : 1 + rng_below(r, 300);
        const int64_t terms = 2 + rng_below(r, rng_once_in(r, 4) ? 40 : 15);
        const int64_t shapes[WAYS][NDIM] = {{terms, rows, 1, columns},
                                            {1, rows, terms, columns},
                                            {2, rows, terms / 2 + 1, columns},
                                            {1, rows, columns, terms}};
        int64_t stride = test_size(stored) * (1 + rng_once_in(r, 4));
        if (stored >= MYLIB_F16 && stored <= MYLIB_C128 && test_is_integer(type))
            continue;
        reduction_case c = reduction_of((mylib_reduction)rng_below(r, 4), stored, type, NDIM);
        if (rng_once_in(r, 3))
            c.out_type = type;
        for (int d = NDIM - 1; d >= 0; d--) {
            const int is_reduced = way == SIDE_BY_SIDE ? d == 3 : d == 0 || d == 2;
            c.in.shape[d] = shapes[way][d];
            c.out.shape[d] = is_reduced ? 1 : c.in.shape[d];
            c.in.strides[d] = rng_once_in(r, 6) ? -stride : stride;
            stride = stride * c.in.shape[d] + rng_below(r, 3) * test_size(stored);
        }
        place_results(&c);
        run_case(&c, r, "few");
    }
}

/*
 * Few terms in a small piece of memory: windows, and rows or windows of which each column is an
 * output, in any order of dimensions, with and without gaps, backwards; outputs in any order, too,
 * and repeated.
 */
static void test_pieces(rng *r)
{
    enum { OUTER, ALONG, ROWS, COLUMN, TERMS, NDIM };
    static const mylib_type wide[] = {MYLIB_F64, MYLIB_F32, MYLIB_I64, MYLIB_U8, MYLIB_F16};
    static const int64_t few[] = {1, 1, 2, 3, 5, 7, 8, 12, 17, 31, 33, 100, 257, 300, 600};
    for (int k = 0; k < MYLIB_TYPE_COUNT * (test_quick ? 2 : test_is_long ? 400 : 40); k++) {
        const mylib_type stored = (mylib_type)(k % MYLIB_TYPE_COUNT);
        const mylib_type as = rng_once_in(r, 2) ? stored : PICK(r, wide);
        const mylib_type type = as == MYLIB_BOOL ? MYLIB_I64 : as;
        int64_t stride = test_size(stored) * (1 + rng_once_in(r, 8));
        int order[NDIM] = {TERMS, COLUMN, ROWS, ALONG, OUTER}; /* from the nearest on */
        reduction_case c = reduction_of((mylib_reduction)rng_below(r, 4), stored, type, NDIM);
        if (stored >= MYLIB_F16 && stored <= MYLIB_C128 && test_is_integer(type))
            continue;
        if (rng_once_in(r, 3))
            c.out_type = type;
        for (int i = 0; i < 3; i++) {
            const int other = (int)rng_below(r, 3), d = order[i];
            order[i] = order[other];
            order[other] = d;
        }
        if (rng_once_in(r, 3)) {
            order[3] = OUTER;
            order[4] = ALONG;
        }
        c.in.shape[ROWS] = rng_once_in(r, 2) ? 1 : PICK(r, few);
        c.in.shape[COLUMN] = rng_once_in(r, 3) ? 1 : PICK(r, few);
        c.in.shape[TERMS] = PICK(r, few);
        const int64_t outputs = test_quick ? 1100 : 1100 + rng_below(r, 2000);
        c.in.shape[OUTER] = 1 + rng_below(r, 4);
        c.in.shape[ALONG] = outputs / c.in.shape[COLUMN] / c.in.shape[OUTER] + 1;
        for (int i = 0; i < NDIM; i++) {
            const int d = order[i];
            c.out.shape[d] = d == ROWS || d == TERMS ? 1 : c.in.shape[d];
            const int way = (int)rng_below(r, 12);
            c.in.strides[d] = d == OUTER && way == 0 ? 0 : way == 1 ? -stride : stride;
            stride = stride * c.in.shape[d] + (rng_once_in(r, 3) ? test_size(stored) : 0);
            if (rng_once_in(r, 6))
                stride = (stride + 15) / 16 * 16;
        }
        place_results(&c);
        if (rng_once_in(r, 2)) {
            c.in.offset += test_size(stored);
            c.in.span += test_size(stored);
        }
        if (c.in.span < (test_quick ? 1 << 20 : 40 << 20))
            run_case(&c, r, "pieces");
    }
}

/*
 * Terms that are neighbours in memory and far apart in their order: of one output or several, with
 * runs in one dimension or two that end anywhere in a block, and other dimensions around them.
 */
static void test_transposed(rng *r)
{
    enum { KEPT, OUTER, NEAR, PLANES, RUN, NDIM };
    static const mylib_type types[] = {MYLIB_F32, MYLIB_F64, MYLIB_F16, MYLIB_C64, MYLIB_C128};
    static const int64_t runs[] = {512, 600, 1000, 2047, 2048, 2049, 3001, 4096, 6145, 12288};
    for (int k = 0; k < COUNT_OF(types) * (test_quick ? 1 : test_is_long ? 200 : 20); k++) {
        const mylib_type stored = types[k % COUNT_OF(types)];
        const mylib_type type = stored == MYLIB_F16 && rng_once_in(r, 2) ? MYLIB_F32 : stored;
        const int64_t planes = rng_once_in(r, 3) ? 2 + rng_below(r, 20) : 1, run = PICK(r, runs);
        const int64_t sizes[NDIM] = {
            rng_once_in(r, 3) ? 2 + rng_below(r, 3) : 1, planes == 1 ? 1 + rng_below(r, 3) : 1,
            40 + rng_below(r, test_quick ? 20 : 300), planes, run / planes + 1};
        /* From the nearest dimension in memory on. */
        const int order[2][NDIM] = {{NEAR, RUN, PLANES, OUTER, KEPT},
                                    {NEAR, PLANES, RUN, KEPT, OUTER}};
        const int *const dims = order[rng_below(r, 2)];
        int64_t stride = test_size(stored) * (1 + rng_once_in(r, 6));
        reduction_case c = reduction_of((mylib_reduction)rng_below(r, 4), stored, type, NDIM);
        for (int i = 0; i < NDIM; i++) {
            const int d = dims[i];
            c.in.shape[d] = planes == 1 && d == RUN ? run : sizes[d];
            c.out.shape[d] = d == KEPT ? c.in.shape[d] : 1;
            c.in.strides[d] = rng_once_in(r, 8) ? -stride : stride;
            stride = stride * c.in.shape[d] + rng_below(r, 3) * test_size(stored);
        }
        place_results(&c);
        if (c.in.span < 100 << 20)
            run_case(&c, r, "transposed");
    }
}

/* Floats as integers that cannot hold them, along rows, every second element, and columns. */
static void test_edges(rng *r)
{
    static const int64_t shapes[][2] = {{1, 1},   {1, 2},    {3, 7},    {9, 3},
                                        {40, 33}, {300, 40}, {20, 300}, {3, 5000}};
    int count = test_quick ? 3 : COUNT_OF(shapes);
    for (int stored = MYLIB_F16; stored <= MYLIB_C128; stored++) {
        for (int type = MYLIB_I8; type <= MYLIB_U64; type++) {
            for (int k = 0; k < 4 * 3 * count; k++) {
                if (!takes(r, 12))
                    continue;
                const int64_t *shape = shapes[k / 12], size = test_size((mylib_type)stored);
                int way = k % 12 / 4;
                reduction_case c =
                    reduction_of((mylib_reduction)(k % 4), (mylib_type)stored, (mylib_type)type, 2);
                if (rng_once_in(r, 2))
                    c.out_type = c.type;
                for (int d = 0; d < 2; d++) {
                    c.in.shape[d] = shape[d];
                    c.out.shape[d] = d == (way != 2) ? 1 : shape[d];
                }
                c.in.strides[1] = way == 1 ? 2 * size : size;
                c.in.strides[0] = c.in.strides[1] * shape[1];
                place_results(&c);
                run_case(&c, r, "edges");
            }
        }
    }
}

static void test_dot(rng *r)
{
    static const int64_t lengths[] = {0, 1, 255, 2048, 2049, 16384, 100001, 20000001};
    for (int t = 0; t < TEST_COMPUTED_COUNT; t++) {
        mylib_type type = (mylib_type)t, carrier = reduction_type(MYLIB_SUM, type);
        for (int i = 0; i < (test_quick ? 4 : COUNT_OF(lengths)); i++) {
            for (int shift = 0; shift < 2; shift++) {
                int64_t n = lengths[i], size = test_size(type), nbytes = (n + 1) * size;
                unsigned char *host[2], right[TEST_MAX_SIZE], got[TEST_MAX_SIZE];
                void *there[3];
                mylib_array here[2], on_gpu[2];
                if (n > 1000000 && (!test_is_long || type < MYLIB_F32))
                    continue;
                test_set_case("dot of %s, n = %lld, shift %d", test_types[t].name, (long long)n,
                              shift);
                CHECK_OK(mylib_alloc(gpu, TEST_MAX_SIZE, NULL, &there[2]));
                for (int k = 0; k < 2; k++) {
                    host[k] = test_malloc((size_t)nbytes);
                    fill_ordinary(r, type, n + 1, host[k]);
                    CHECK_OK(mylib_alloc(gpu, (size_t)nbytes, NULL, &there[k]));
                    CHECK_OK(mylib_copy(gpu, there[k], test_cpu, host[k], (size_t)nbytes, NULL));
                    here[k] = (mylib_array){
                        host[k] + k * shift * size, test_cpu, type, 1, &lengths[i], NULL};
                    on_gpu[k] = (mylib_array){
                        (char *)there[k] + k * shift * size, gpu, type, 1, &lengths[i], NULL};
                }
                mylib_array out = {right, test_cpu, carrier, 0, NULL, NULL};
                mylib_array out_there = {there[2], gpu, carrier, 0, NULL, NULL};
                CHECK_OK(mylib_dot(type, test_cpu, NULL, &out, &here[0], &here[1]));
                CHECK_OK(mylib_dot(type, gpu, NULL, &out_there, &on_gpu[0], &on_gpu[1]));
                CHECK_OK(
                    mylib_copy(test_cpu, got, gpu, there[2], (size_t)test_size(carrier), NULL));
                CHECK(same_value(carrier, right, got), "%s, not %s", describe(carrier, got),
                      describe(carrier, right));
                for (int k = 0; k < 3; k++)
                    CHECK_OK(mylib_free(gpu, there[k], NULL));
                free(host[0]);
                free(host[1]);
            }
        }
    }
}

/* A number in host memory is an input of no dimensions. */
static void test_host_number(void)
{
    double number = 1.5, result = 0;
    void *there;
    test_set_case("a number in host memory");
    CHECK_OK(mylib_alloc(gpu, sizeof number, NULL, &there));
    mylib_array in = {&number, test_cpu, MYLIB_F64, 0, NULL, NULL};
    mylib_array out = {there, gpu, MYLIB_F64, 0, NULL, NULL};
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_F64, gpu, NULL, &out, &in));
    number = 2;
    CHECK_OK(mylib_copy(test_cpu, &result, gpu, there, sizeof result, NULL));
    CHECK(result == 1.5, "%g", result);

    /* As an integer that cannot hold it. */
    int64_t right = 0, got = 1;
    number = -1000;
    out.type = MYLIB_I64;
    mylib_array out_here = {&right, test_cpu, MYLIB_I64, 0, NULL, NULL};
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_I8, test_cpu, NULL, &out_here, &in));
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_I8, gpu, NULL, &out, &in));
    CHECK_OK(mylib_copy(test_cpu, &got, gpu, there, sizeof got, NULL));
    CHECK(right == -128 && got == right, "%lld, not %lld", (long long)got, (long long)right);
    CHECK_OK(mylib_free(gpu, there, NULL));
}

/* The same launch, again and again, on streams of its own: partial results do not get mixed up. */
static void test_streams(rng *r)
{
    enum { STREAMS = 4, ROUNDS = 200 };
    const int64_t n = 300001, one = 1;
    float *terms = test_malloc((size_t)n * sizeof *terms), right, got[ROUNDS];
    void *there, *out, *streams[STREAMS];
    test_set_case("many launches on several streams");
    fill_ordinary(r, MYLIB_F32, n, terms);
    mylib_array in = {terms, test_cpu, MYLIB_F32, 1, &n, NULL};
    mylib_array sum = {&right, test_cpu, MYLIB_F32, 1, &one, NULL};
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_F32, test_cpu, NULL, &sum, &in));
    CHECK_OK(mylib_alloc(gpu, (size_t)n * sizeof *terms, NULL, &there));
    CHECK_OK(mylib_alloc(gpu, sizeof got, NULL, &out));
    CHECK_OK(mylib_copy(gpu, there, test_cpu, terms, (size_t)n * sizeof *terms, NULL));
    CHECK_OK(mylib_synchronize(gpu, NULL));
    for (int s = 0; s < STREAMS; s++)
        CHECK_OK(mylib_stream_create(gpu, &streams[s]));
    in.data = there;
    in.device = sum.device = gpu;
    for (int i = 0; i < ROUNDS; i++) {
        sum.data = (float *)out + i;
        CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_F32, gpu, streams[i % STREAMS], &sum, &in));
    }
    for (int s = 0; s < STREAMS; s++) {
        CHECK_OK(mylib_synchronize(gpu, streams[s]));
        CHECK_OK(mylib_stream_destroy(gpu, streams[s]));
    }
    CHECK_OK(mylib_copy(test_cpu, got, gpu, out, sizeof got, NULL));
    for (int i = 0; i < ROUNDS; i++)
        CHECK(got[i] == right, "launch %d gave %.9g, not %.9g", i, (double)got[i], (double)right);
    CHECK_OK(mylib_free(gpu, there, NULL));
    CHECK_OK(mylib_free(gpu, out, NULL));
    free(terms);
}

/* Small signed integers as unsigned ones: the negative become the largest. */
static void test_signs(void)
{
    enum { N = 5000 };
    static int8_t bytes[N];
    static const int64_t n = N;
    void *there, *out;
    for (int i = 0; i < N; i++)
        bytes[i] = (int8_t)(i % 7 - 3);
    CHECK_OK(mylib_alloc(gpu, N, NULL, &there));
    CHECK_OK(mylib_alloc(gpu, sizeof(uint64_t), NULL, &out));
    CHECK_OK(mylib_copy(gpu, there, test_cpu, bytes, N, NULL));
    for (int r = 0; r < 4; r++) {
        uint64_t right = 0, got = 1;
        mylib_array in = {bytes, test_cpu, MYLIB_I8, 1, &n, NULL};
        mylib_array result = {&right, test_cpu, MYLIB_U64, 0, NULL, NULL};
        test_set_case("%s of i8 as u64", reduction_names[r]);
        CHECK_OK(mylib_reduce((mylib_reduction)r, MYLIB_U64, test_cpu, NULL, &result, &in));
        in.data = there;
        result.data = out;
        in.device = result.device = gpu;
        CHECK_OK(mylib_reduce((mylib_reduction)r, MYLIB_U64, gpu, NULL, &result, &in));
        CHECK_OK(mylib_copy(test_cpu, &got, gpu, out, sizeof got, NULL));
        CHECK(got == right, "%llu, not %llu", (unsigned long long)got, (unsigned long long)right);
    }
    CHECK_OK(mylib_free(gpu, there, NULL));
    CHECK_OK(mylib_free(gpu, out, NULL));
}

int main(int argc, char **argv)
{
    test_begin_gpu("gpu_reduce", argc, argv, NULL);
    rng r = rng_make(0);
    test_host_number();
    test_signs();
    test_dot(&r);
    test_streams(&r);
    test_dense(&r);
    test_few(&r);
    test_pieces(&r);
    test_truths(&r);
    test_transposed(&r);
    test_shapes(&r);
    test_parts(&r);
    test_edges(&r);
    test_random(&r);
    return test_end();
}
