/*
 * mylib_reduce() and mylib_dot() on the CPU: the order that the header promises, held against loops
 * written from its words; every type, reduction and layout, any number of threads, every CPU level.
 */
#include "reduction_case.h"

#include <fenv.h>
#include <math.h>

#define POISON 0xa5
#define BLOCK 2048
#define LANES 256

/* ---- The order, written down ---- */

/* A number of any type: an integer, or a real and an imaginary part. */
typedef struct number {
    int64_t i;
    double re, im;
} number;

/* A real number as a carrying type holds it. */
static double rounded(mylib_type carrier, double x)
{
    if (carrier != MYLIB_F32 && carrier != MYLIB_C64)
        return x;
    volatile float single = (float)x; /* in memory: compilers must not keep more digits */
    return (double)single;
}

static number load(mylib_type type, const void *p)
{
    number x = {0, 0, 0};
    double parts[2];
    reference_convert(MYLIB_C128, type, p, parts);
    if (test_is_integer(type))
        reference_convert(MYLIB_I64, type, p, &x.i);
    x.re = parts[0], x.im = parts[1];
    return x;
}

static void store(mylib_type type, number x, void *p)
{
    const double parts[2] = {x.re, x.im};
    if (test_is_integer(type))
        reference_convert(type, MYLIB_I64, &x.i, p);
    else
        reference_convert(type, MYLIB_C128, parts, p);
}

static int is_nan(number x) { return isnan(x.re) || isnan(x.im); }

static int is_before(mylib_type carrier, number a, number b)
{
    if (carrier == MYLIB_U64 || (carrier >= MYLIB_U8 && carrier <= MYLIB_U32))
        return (uint64_t)a.i < (uint64_t)b.i;
    if (test_is_integer(carrier))
        return a.i < b.i;
    if (carrier == MYLIB_C64 || carrier == MYLIB_C128)
        return isless(a.re, b.re) || (a.re == b.re && islessequal(a.im, b.im));
    return isless(a.re, b.re);
}

static number multiplied(mylib_type carrier, number a, number b)
{
    number x = {(int64_t)((uint64_t)a.i * (uint64_t)b.i), rounded(carrier, a.re * b.re), 0};
    if (carrier == MYLIB_C64 || carrier == MYLIB_C128) {
        x.re = rounded(carrier, rounded(carrier, a.re * b.re) - rounded(carrier, a.im * b.im));
        x.im = rounded(carrier, rounded(carrier, a.re * b.im) + rounded(carrier, a.im * b.re));
    }
    return x;
}

static number combined(mylib_reduction reduction, mylib_type carrier, number a, number b)
{
    switch (reduction) {
    case MYLIB_SUM:
        return (number){(int64_t)((uint64_t)a.i + (uint64_t)b.i), rounded(carrier, a.re + b.re),
                        rounded(carrier, a.im + b.im)};
    case MYLIB_PROD:
        return multiplied(carrier, a, b);
    case MYLIB_MIN:
        return is_nan(a) || (!is_nan(b) && is_before(carrier, a, b)) ? a : b;
    default:
        return is_nan(a) || (!is_nan(b) && is_before(carrier, b, a)) ? a : b;
    }
}

static number reduce_block(mylib_reduction reduction, mylib_type carrier, int64_t n,
                           const number *x)
{
    number lane[LANES];
    for (int64_t l = 0; l < LANES && l < n; l++) {
        lane[l] = x[l];
        for (int64_t i = l + LANES; i < n; i += LANES)
            lane[l] = combined(reduction, carrier, lane[l], x[i]);
    }
    for (int64_t step = LANES / 2; step > 0; step /= 2)
        for (int64_t l = 0; l < step; l++)
            if (l + step < n)
                lane[l] = combined(reduction, carrier, lane[l], lane[l + step]);
    return lane[0];
}

/* Overwrites the terms. */
static number reduce_terms(mylib_reduction reduction, mylib_type carrier, int64_t n, number *x)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;
    if (n == 0)
        return (number){reduction == MYLIB_PROD, reduction == MYLIB_PROD, 0};
    if (reduction >= MYLIB_MIN && (carrier == MYLIB_C64 || carrier == MYLIB_C128)) {
        for (int64_t i = 1; i < n; i++)
            x[0] = combined(reduction, carrier, x[0], x[i]);
        return x[0];
    }
    for (int64_t i = 0; i < blocks; i++)
        x[i] = reduce_block(reduction, carrier, n - i * BLOCK < BLOCK ? n - i * BLOCK : BLOCK,
                            x + i * BLOCK);
    while (blocks > 1) {
        for (int64_t i = 0; i < blocks / 2; i++)
            x[i] = combined(reduction, carrier, x[2 * i], x[2 * i + 1]);
        if (blocks % 2 != 0)
            x[blocks / 2] = x[blocks - 1];
        blocks = (blocks + 1) / 2;
    }
    return x[0];
}

/* A stored element as the carrying type has it, by way of 'type'. */
static number converted(mylib_type stored, mylib_type type, mylib_type carrier, const void *p)
{
    number x = load(stored, p);
    unsigned char bytes[TEST_MAX_SIZE];
    if (stored == type)
        return x;
    if (test_is_integer(type)) {
        store(type, x, bytes);
        return load(type, bytes);
    }
    if (stored == MYLIB_U64 && (type == MYLIB_F32 || type == MYLIB_C64))
        x.re = (double)(float)(uint64_t)x.i; /* rounded once */
    else if (stored == MYLIB_I64 && (type == MYLIB_F32 || type == MYLIB_C64))
        x.re = (double)(float)x.i;
    x.re = rounded(carrier, x.re);
    x.im = type == MYLIB_C64 || type == MYLIB_C128 ? rounded(carrier, x.im) : 0;
    return x;
}

/* ---- Any layout ---- */

static unsigned char *allocate(const layout *l, int64_t size)
{
    return test_malloc((size_t)(l->span + size));
}

/* All outputs, one after the other, by their indices. */
static void reduce_slowly(const reduction_case *c, const unsigned char *in, unsigned char *out)
{
    mylib_type carrier = reduction_type(c->reduction, c->type);
    layout kept = c->out, reduced = c->in;
    int64_t index[MYLIB_MAX_NDIM] = {0}, n = 1;
    for (int d = 0; d < c->in.ndim; d++) {
        reduced.shape[d] = c->out.shape[d] == 1 ? c->in.shape[d] : 1;
        n *= reduced.shape[d];
    }
    number *terms = test_malloc((size_t)(n + 1) * sizeof *terms);
    if (layout_count(&kept) != 0) {
        do {
            int64_t at[MYLIB_MAX_NDIM] = {0}, i = 0;
            const unsigned char *first = in + c->in.offset;
            for (int d = 0; d < kept.ndim; d++)
                if (kept.shape[d] != 1)
                    first += index[d] * c->in.strides[d];
            if (n != 0) {
                do {
                    const unsigned char *p = first;
                    for (int d = 0; d < reduced.ndim; d++)
                        if (reduced.shape[d] != 1)
                            p += at[d] * c->in.strides[d];
                    terms[i++] = converted(c->stored, c->type, carrier, p);
                } while (layout_next(&reduced, at));
            }
            store(c->out_type, reduce_terms(c->reduction, carrier, n, terms),
                  out + c->out.offset + layout_at(&c->out, &c->out, index));
        } while (layout_next(&kept, index));
    }
    free(terms);
}

/* The reference rounds once to f32 and f64 only. */
static int has_reference(const reduction_case *c)
{
    if (c->type == MYLIB_F16)
        return c->stored == MYLIB_F16 && c->out_type == MYLIB_F32;
    return c->stored != MYLIB_F16 || !test_is_integer(c->type);
}

/* x + (-0 - 0i), which is x to the bit, but has to be evaluated. */
static mylib_status reduce_sum_with_zero(const reduction_case *c, const mylib_array *out,
                                         const mylib_array *in)
{
    const double minus_zero[2] = {-0.0, -0.0};
    const float single[2] = {-0.0f, -0.0f};
    const mylib_step step = {MYLIB_OP_add, c->type, {0, 1, 0}};
    mylib_constant zero = {.type = c->type};
    mylib_program *program = NULL;
    memcpy(&zero.value, c->type == MYLIB_C64 ? (const void *)single : minus_zero,
           (size_t)test_size(c->type));
    mylib_status st = mylib_program_create(1, &c->type, 1, &zero, 1, &step, &program);
    if (st == MYLIB_OK)
        st = mylib_program_reduce(program, c->reduction, c->type, test_cpu, NULL, out, in);
    mylib_program_free(program);
    return st;
}

/* Checks a reduction whose result is `right`. */
static void check_case(const reduction_case *c, const unsigned char *in, unsigned char *right,
                       unsigned char *got)
{
    const int has_program = c->stored == c->type && (c->type == MYLIB_C64 || c->type == MYLIB_C128);
    const size_t nbytes = (size_t)(c->out.span + test_size(c->out_type));
    const mylib_array in_array = layout_array(&c->in, c->stored, test_cpu, (void *)in);
    const mylib_array out_array = layout_array(&c->out, c->out_type, test_cpu, got);
    for (int way = 0; way <= has_program; way++) {
        memset(got, POISON, nbytes);
        if (way == 0)
            CHECK_OK(mylib_reduce(c->reduction, c->type, test_cpu, NULL, &out_array, &in_array));
        else
            CHECK_OK(reduce_sum_with_zero(c, &out_array, &in_array));
        compare_reductions(c, right, got);
    }
    /* The mean is the sum, divided; where a float carries the sum. */
    const mylib_type wide = c->reduction == MYLIB_SUM ? reduction_type(MYLIB_SUM, c->type) : 0;
    if (!test_is_integer(wide) && c->out_type == wide) {
        const double count[2] = {(double)layout_count(&c->in) / (double)layout_count(&c->out), 0};
        unsigned char *const means = allocate(&c->out, test_size(wide));
        memcpy(means, right, nbytes);
        const mylib_array mean = layout_array(&c->out, wide, test_cpu, means);
        const mylib_array in_pair[2] = {mean, {(void *)count, test_cpu, MYLIB_F64, 0, NULL, NULL}};
        memset(got, POISON, nbytes);
        CHECK_OK(mylib_reduce(MYLIB_MEAN, c->type, test_cpu, NULL, &out_array, &in_array));
        CHECK_OK(mylib_map_as(MYLIB_OP_divide, wide, test_cpu, NULL, &mean, in_pair));
        compare_reductions(c, means, got);
        free(means);
    }
}

static const int thread_counts[] = {1, 2, 3, 8};

/* With `where` NULL, each number of threads gives the same bits. */
static void run_case(const reduction_case *c, rng *r, const char *where)
{
    const int64_t out_size = test_size(c->out_type);
    unsigned char *in = allocate(&c->in, test_size(c->stored)),
                  *right = allocate(&c->out, out_size), *got = allocate(&c->out, out_size);
    fill_reduction(r, c, in);
    memset(right, POISON, (size_t)(c->out.span + out_size));
    set_reduction_case(c, where != NULL ? where : "reference");
    reduce_slowly(c, in, right);
    if (where != NULL)
        check_case(c, in, right, got);
    for (size_t i = 0; where == NULL && i < COUNT_OF(thread_counts); i++) {
        char threads[40];
        snprintf(threads, sizeof threads, "%d threads", thread_counts[i]);
        set_reduction_case(c, threads);
        CHECK_OK(mylib_set_num_threads(thread_counts[i]));
        check_case(c, in, right, got);
    }
    free(in);
    free(right);
    free(got);
}

static void test_random(rng *r, int count, int64_t limit, const char *where)
{
    for (int i = 0; i < count;) {
        reduction_case c;
        if (!random_reduction(r, &c, limit, 0) || !has_reference(&c))
            continue;
        run_case(&c, r, where);
        i++;
    }
}

/* Every type and reduction over lengths where lanes and blocks begin and end. */
static void test_lengths(rng *r)
{
    static const int64_t lengths[] = {0,    1,    2,    3,    127,  128,   129,   255,  256,
                                      257,  511,  513,  1000, 2047, 2048,  2049,  2304, 4095,
                                      4096, 4097, 6143, 6145, 8193, 10240, 20481, 65537};
    for (int type = 0; type < TEST_COMPUTED_COUNT; type++) {
        for (int reduction = 0; reduction < 4; reduction++) {
            for (size_t i = 0; i < COUNT_OF(lengths); i++) {
                reduction_case c =
                    reduction_of((mylib_reduction)reduction, (mylib_type)type, (mylib_type)type, 1);
                if (c.out_type == MYLIB_F16 || (lengths[i] == 0 && reduction >= MYLIB_MIN))
                    continue;
                c.in.shape[0] = lengths[i];
                c.in.strides[0] = test_size(c.stored);
                c.out.shape[0] = 1;
                place_results(&c);
                run_case(&c, r, "contiguous");
            }
        }
    }
}

/*
 * Complex minima and maxima of any number of terms, in every way through memory, of equal terms and
 * NaNs of which the first one is to be found: of arrays, and of programs that have to be evaluated.
 */
static void test_first(rng *r, const char *where)
{
    static const int64_t lengths[] = {1,    2,    3,    4,    5,    6,    7,    8,    9,
                                      10,   11,   12,   13,   14,   15,   16,   17,   18,
                                      19,   20,   255,  256,  257,  511,  513,  2047, 2048,
                                      2049, 2303, 2304, 2305, 4095, 4096, 4097, 6145, 65539};
    static const int64_t widths[] = {1, 2, 7, 8, 25, 40};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        for (int k = 0; k < 24; k++) {
            const mylib_type type = k % 2 ? MYLIB_C128 : MYLIB_C64;
            const int64_t size = test_size(type), n = lengths[i], width = widths[k / 2 % 6];
            const int is_across = k / 12;
            reduction_case c = reduction_of(MYLIB_MIN, type, type, 2);
            if (n * width > 200000 || !rng_once_in(r, test_is_long || n < 5000 ? 1 : 3))
                continue;
            /* MYLIB_TEST_SHORT: a fifth. */
            if (test_rounds(5) == 1 && !rng_once_in(r, 5))
                continue;
            c.reduction = rng_once_in(r, 2) ? MYLIB_MAX : MYLIB_MIN;
            c.in.shape[0] = n;
            c.out.shape[1] = c.in.shape[1] = width;
            c.out.shape[0] = 1;
            c.in.strides[0] = is_across ? width * size : size;
            c.in.strides[1] = is_across ? size : n * size;
            for (int d = 0; d < 2; d++)
                if (rng_once_in(r, 6))
                    c.in.strides[d] = -c.in.strides[d];
            place_results(&c);
            run_case(&c, r, where);
        }
    }
}

/* Matrices on which several threads work, in every way through memory. */
static void test_large(rng *r)
{
    static const int64_t shapes[][2] = {{1, 1200001}, {1200001, 1}, {70001, 16}, {40001, 33},
                                        {300, 4001},  {4001, 300},  {3, 400001}, {400001, 3}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        int first = (int)rng_below(r, 6);
        for (int round = 0; round < test_rounds(6); round++) {
            int k = (first + round) % 6;
            if (test_is_shortest() && rng_once_in(r, 2))
                continue;
            int is_fortran = k % 2;
            /* Both types have 8 bytes. */
            reduction_case c = rng_once_in(r, 2) ? reduction_of(MYLIB_MAX, MYLIB_C64, MYLIB_C64, 2)
                                                 : reduction_of(MYLIB_SUM, MYLIB_F64, MYLIB_F64, 2);
            for (int d = 0; d < 2; d++) {
                c.in.shape[d] = shapes[i][d];
                c.out.shape[d] = k / 2 == d || k / 2 == 2 ? 1 : c.in.shape[d];
            }
            c.in.strides[is_fortran ? 0 : 1] = 8;
            c.in.strides[is_fortran ? 1 : 0] = 8 * c.in.shape[is_fortran ? 0 : 1];
            place_results(&c);
            run_case(&c, r, NULL);
        }
    }
}

/* ---- Dot products ---- */

static void test_dot(rng *r)
{
    static const int64_t lengths[] = {0, 1, 7, 256, 300, 2048, 2049, 9000, 200001};
    for (int t = 0; t < TEST_COMPUTED_COUNT; t++) {
        mylib_type type = (mylib_type)t, carrier = reduction_type(MYLIB_SUM, type);
        for (size_t i = 0; i < COUNT_OF(lengths); i++) {
            int64_t n = lengths[i], size = test_size(type), step = rng_once_in(r, 2) ? 1 : -3;
            int64_t strides[2] = {size, step * size};
            unsigned char *a = test_malloc((size_t)(n * size)),
                          *b = test_malloc((size_t)(3 * n * size));
            number *terms = test_malloc((size_t)(n + 1) * sizeof *terms);
            unsigned char right[TEST_MAX_SIZE], got[TEST_MAX_SIZE];
            fill_ordinary(r, type, n, a);
            fill_ordinary(r, type, 3 * n, b);
            unsigned char *first = step < 0 && n > 0 ? b + (n - 1) * 3 * size : b;
            mylib_array x = {a, test_cpu, type, 1, &n, NULL},
                        y = {first, test_cpu, type, 1, &n, &strides[1]},
                        out = {got, test_cpu, carrier, 0, NULL, NULL};
            test_set_case("dot of %s, n = %lld, step %d", test_types[t].name, (long long)n,
                          (int)step);
            CHECK_OK(mylib_dot(type, test_cpu, NULL, &out, &x, &y));
            for (int64_t k = 0; k < n; k++)
                terms[k] = multiplied(carrier, load(type, a + k * size),
                                      load(type, first + k * strides[1]));
            store(carrier, reduce_terms(MYLIB_SUM, carrier, n, terms), right);
            CHECK(same_value(carrier, right, got), "%s, not %s", describe(carrier, got),
                  describe(carrier, right));
            free(a);
            free(b);
            free(terms);
        }
    }
}

/* ---- The rest ---- */

/* f16 is rounded once, from the f32 that carries it; minima keep it as it is. */
static void test_half(void)
{
    uint16_t terms[3] = {0x6800, 0x3c00, 0x3c00}, out = 0; /* 2048, 1, 1 */
    int64_t n = 3, one = 1;
    mylib_array in = {terms, test_cpu, MYLIB_F16, 1, &n, NULL},
                result = {&out, test_cpu, MYLIB_F16, 1, &one, NULL};
    test_set_case("f16");
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_F16, test_cpu, NULL, &result, &in));
    CHECK(out == 0x6801, "2048 + 1 + 1 is %#x", out);
    CHECK_OK(mylib_reduce(MYLIB_MIN, MYLIB_F16, test_cpu, NULL, &result, &in));
    CHECK(out == 0x3c00, "the minimum is %#x", out);
}

static void test_accuracy(rng *r)
{
    int64_t n = 1000003, one = 1;
    float *terms = test_malloc((size_t)n * sizeof *terms), sum;
    long double exact = 0;
    mylib_array in = {terms, test_cpu, MYLIB_F32, 1, &n, NULL},
                out = {&sum, test_cpu, MYLIB_F32, 1, &one, NULL};
    test_set_case("accuracy");
    for (int64_t i = 0; i < n; i++)
        exact += (long double)(terms[i] = (float)(rng_below(r, 1 << 20) + 1) * 0x1p-20f);
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_F32, test_cpu, NULL, &out, &in));
    /* 8 terms of a lane and 8 + 9 steps of the trees, half a unit each. */
    CHECK(fabsl((long double)sum - exact) < 25 * 0x1p-24L * exact, "%.9g, exactly %.9Lg",
          (double)sum, exact);
    free(terms);
}

static void test_flags(void)
{
    int64_t n = 400000, one = 1;
    double *terms = test_malloc((size_t)n * sizeof *terms), result;
    mylib_array in = {terms, test_cpu, MYLIB_F64, 1, &n, NULL},
                out = {&result, test_cpu, MYLIB_F64, 1, &one, NULL};
    for (int64_t i = 0; i < n; i++)
        terms[i] = 1;
    terms[n - 1] = NAN;
    test_set_case("flags");
    feclearexcept(FE_ALL_EXCEPT);
    CHECK_OK(mylib_reduce(MYLIB_MAX, MYLIB_F64, test_cpu, NULL, &out, &in));
    CHECK(isnan(result), "the maximum is %g", result);
    CHECK(!fetestexcept(FE_ALL_EXCEPT), "a NaN raised %#x", fetestexcept(FE_ALL_EXCEPT));
    terms[n - 1] = terms[n - 1 - LANES] = 0x1.8p1023;
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_F64, test_cpu, NULL, &out, &in));
    CHECK(isinf(result) && fetestexcept(FE_OVERFLOW), "%g, flags %#x", result,
          fetestexcept(FE_ALL_EXCEPT));
    free(terms);
}

static void test_errors(void)
{
    double data[12] = {0}, out[12];
    int64_t in_shape[2] = {3, 4}, column[2] = {3, 1}, wrong[2] = {2, 1}, empty[2] = {0, 4};
    int64_t none[2] = {0, 1}, row[2] = {1, 4}, still[2] = {0, 8};
    mylib_array in = {data, test_cpu, MYLIB_F64, 2, in_shape, NULL};
    mylib_array result = {out, test_cpu, MYLIB_F64, 2, column, NULL};
    test_set_case("errors");
    CHECK_OK(mylib_reduce(MYLIB_SUM, MYLIB_F64, test_cpu, NULL, &result, &in));
#define REFUSED(reduction, type, status) \
    CHECK_STATUS(mylib_reduce((mylib_reduction)(reduction), type, test_cpu, NULL, &result, &in), \
                 status)
    REFUSED(5, MYLIB_F64, MYLIB_ERR_ARGUMENT);
    REFUSED(-1, MYLIB_F64, MYLIB_ERR_ARGUMENT);
    REFUSED(MYLIB_SUM, (mylib_type)99, MYLIB_ERR_ARGUMENT);
    REFUSED(MYLIB_SUM, MYLIB_BOOL, MYLIB_ERR_UNSUPPORTED);
    REFUSED(MYLIB_SUM, MYLIB_F32, MYLIB_ERR_ARGUMENT);  /* out is f64 */
    REFUSED(MYLIB_MEAN, MYLIB_F32, MYLIB_ERR_ARGUMENT); /* out is f64 */
    REFUSED(MYLIB_MEAN, MYLIB_I64, MYLIB_ERR_ARGUMENT);
    result.shape = wrong;
    REFUSED(MYLIB_SUM, MYLIB_F64, MYLIB_ERR_ARGUMENT);
    result.shape = column;
    result.ndim = 1;
    REFUSED(MYLIB_SUM, MYLIB_F64, MYLIB_ERR_ARGUMENT);
    result.ndim = 2;
    result.data = data + 1;
    REFUSED(MYLIB_SUM, MYLIB_F64, MYLIB_ERR_ARGUMENT);
    result.data = out;
    result.strides = still;
    REFUSED(MYLIB_SUM, MYLIB_F64, MYLIB_ERR_ARGUMENT);
    result.strides = NULL;
    /* No terms have a sum but no minimum; without outputs no minimum is missing. */
    in.shape = empty;
    result.shape = row;
    CHECK_OK(mylib_reduce(MYLIB_PROD, MYLIB_F64, test_cpu, NULL, &result, &in));
    CHECK(out[0] == 1 && out[3] == 1, "the product of nothing is %g", out[0]);
    REFUSED(MYLIB_MIN, MYLIB_F64, MYLIB_ERR_ARGUMENT);
    result.shape = none;
    CHECK_OK(mylib_reduce(MYLIB_MIN, MYLIB_F64, test_cpu, NULL, &result, &in));
#undef REFUSED
    mylib_array a = {data, test_cpu, MYLIB_F64, 1, &in_shape[0], NULL},
                b = {data, test_cpu, MYLIB_F64, 1, &in_shape[1], NULL},
                one = {out, test_cpu, MYLIB_F64, 0, NULL, NULL};
    CHECK_STATUS(mylib_dot(MYLIB_F64, test_cpu, NULL, &one, &a, &b), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_dot(MYLIB_F64, test_cpu, NULL, &one, &in, &in), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_dot(MYLIB_F64, test_cpu, NULL, &b, &a, &a), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_dot(MYLIB_F64, test_cpu, NULL, NULL, &a, &a), MYLIB_ERR_ARGUMENT);
    CHECK_OK(mylib_dot(MYLIB_F64, test_cpu, NULL, &one, &a, &a));
}

int main(void)
{
    test_begin("reductions");
    rng r = rng_make(0);
    test_errors();
    test_half();
    FOR_EACH_LEVEL(level)
    {
        test_lengths(&r);
        test_first(&r, test_levels[level]);
        test_dot(&r);
        test_random(&r, test_rounds(400), 20000, test_levels[level]);
        test_accuracy(&r);
    }
    CHECK_OK(mylib_set_cpu_level(NULL));
    test_large(&r);
    test_random(&r, test_rounds(40), 1000000, NULL);
    for (size_t i = 0; i < COUNT_OF(thread_counts); i++) {
        CHECK_OK(mylib_set_num_threads(thread_counts[i]));
        test_flags();
    }
    return test_end();
}
