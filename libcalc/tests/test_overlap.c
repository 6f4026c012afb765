/*
 * Operands that overlap on the CPU: the result is that of computing one element after the other, in
 * order; and out == a with stride 0 folds, for add in the order of mylib_trace().
 *
 * Single elements are computed by the library itself, which the guard test holds against the
 * reference: here only the order is in question.
 */
#include "internal.h"
#include "layout.h"
#include "reference.h"

#define BUFFER_SIZE 8192

static unsigned char buffer[BUFFER_SIZE], expected[BUFFER_SIZE];

/* Fills the buffer with a part of twice as many values, which are new now and then. */
static void fill_buffer(const test_type *t, rng *r)
{
    static unsigned char values[2 * BUFFER_SIZE];
    static const test_type *type;
    if (type != t || rng_once_in(r, 16))
        fill_values(r, t->type, 2 * BUFFER_SIZE / t->size, values);
    type = t;
    memcpy(buffer, values + rng_below(r, BUFFER_SIZE / t->size) * t->size, BUFFER_SIZE);
}

/*
 * Offsets are multiples of this many bytes: the payload of a NaN is free, so its bytes must not
 * become part of another number.  Integers may overlap by any number of bytes.
 */
static int64_t unit_of(mylib_type type)
{
    return test_is_integer(type) ? 1 : test_size(test_real_type(type));
}

static void compute_one(const test_op *op, mylib_type type, unsigned char *out,
                        const unsigned char *a, const unsigned char *b)
{
    unsigned char x[TEST_MAX_SIZE], y[TEST_MAX_SIZE], z[TEST_MAX_SIZE];
    size_t size = (size_t)test_size(type);
    memcpy(x, a, size);
    memcpy(y, b, size);
    CHECK_OK(mylib_map1(op->op, type, 1, z, TEST_MAX_SIZE, x, TEST_MAX_SIZE, y, TEST_MAX_SIZE));
    memcpy(out, z, (size_t)test_size(test_result_type(op, type)));
}

static void compare(mylib_type type, int64_t nbytes)
{
    mylib_type unit = test_real_type(type);
    int64_t size = test_size(unit), n = nbytes / size;
    int64_t i = first_difference(unit, n, expected, buffer);
    CHECK(i == n, "at byte %lld there is %s, not %s", (long long)(i * size),
          describe(unit, buffer + i * size), describe(unit, expected + i * size));
}

/* ---- mylib_map1 ---- */

static int64_t random_stride(rng *r, mylib_type type)
{
    int64_t size = test_size(type);
    switch (rng_below(r, 10)) {
    case 0:
        return 0;
    case 1:
        return -size;
    case 2:
        return 2 * size;
    case 3:
        return size + unit_of(type);
    case 4:
        return -3 * size;
    case 5: /* neighbours share bytes */
        return (rng_below(r, 2) ? 1 : -1) * rng_below(r, size / unit_of(type)) * unit_of(type);
    default:
        return size;
    }
}

/* The offset of element 0 of n elements that fill [from, from + span) of the buffer. */
static int64_t element_0(int64_t from, int64_t n, int64_t stride)
{
    return stride < 0 ? from - (n - 1) * stride : from;
}

static int64_t span_of(int64_t n, int64_t stride, int64_t size)
{
    return (n - 1) * llabs(stride) + size;
}

static void run_map1(const test_op *op, const test_type *t, int64_t n, int64_t out, int64_t so,
                     int64_t a, int64_t sa, int64_t b, int64_t sb)
{
    mylib_type type = test_result_type(op, t->type);
    int64_t size = test_size(type);
    int apart = 1;
    for (int64_t i = 0; i < n && apart; i++)
        apart = b + i * sb + t->size <= out || out + size <= b + i * sb;
    test_set_case("%s of %s, n = %lld, out %lld by %lld, a %lld by %lld, b %lld by %lld", op->name,
                  t->name, (long long)n, (long long)out, (long long)so, (long long)a, (long long)sa,
                  (long long)b, (long long)sb);
    memcpy(expected, buffer, sizeof buffer);
    if (op->op == MYLIB_OP_add && type != MYLIB_BOOL && out == a && so == 0 && sa == 0 && n > 1 &&
        apart)
        reference_fold(type, n, expected + b, sb, expected + out);
    else
        for (int64_t i = 0; i < n; i++)
            compute_one(op, t->type, expected + out + i * so, expected + a + i * sa,
                        expected + b + i * sb);
    CHECK_OK(mylib_map1(op->op, t->type, n, buffer + out, so, buffer + a, sa, buffer + b, sb));
    compare(t->type, BUFFER_SIZE);
}

static void test_random_map1(const test_op *op, const test_type *t, rng *r)
{
    int64_t out_size = test_size(test_result_type(op, t->type)), unit = unit_of(t->type);
    for (int i = 0; i < test_rounds(60); i++) {
        int64_t n = 1 + (i % 10 == 0 ? rng_below(r, 300) : rng_below(r, 40));
        int64_t so = random_stride(r, test_result_type(op, t->type)), sa, sb;
        int64_t out, a, b, room = BUFFER_SIZE - 1, near = n * t->size;
        sa = random_stride(r, t->type);
        sb = random_stride(r, t->type);
        while (span_of(n, so, out_size) >= room || span_of(n, sa, t->size) >= room ||
               span_of(n, sb, t->size) >= room)
            n = n / 2 + 1;
        /* Close enough to one another that most of them overlap. */
        out = rng_below(r, (room - span_of(n, so, out_size)) / unit + 1) * unit;
        a = rng_below(r, (room - span_of(n, sa, t->size)) / unit + 1) * unit;
        b = rng_below(r, (room - span_of(n, sb, t->size)) / unit + 1) * unit;
        out = out % (near + unit) / unit * unit;
        a = a % (near + unit) / unit * unit;
        b = b % (near + unit) / unit * unit;
        out = element_0(out, n, so);
        a = element_0(a, n, sa);
        b = element_0(b, n, sb);
        if (rng_once_in(r, 4)) {
            out = a;
            if (rng_once_in(r, 2) && out_size == t->size)
                so = sa;
            if (so < 0 && out < span_of(n, so, out_size))
                continue;
            if (so > 0 && out + span_of(n, so, out_size) > room)
                continue;
        }
        fill_buffer(t, r);
        run_map1(op, t, n, out, so, a, sa, b, sb);
    }
}

/* Functions of floats whose output begins within an element of an input; up to the first NaN. */
static void test_shifted(const test_op *op, const test_type *t, rng *r)
{
    const int64_t size = t->size;
    if (op->op < MYLIB_OP_rint || test_is_integer(t->type) ||
        test_result_type(op, t->type) != t->type)
        return;
    for (int64_t shift = 1 - size; shift < size; shift++) {
        for (int i = 0; i < test_rounds(12); i++) {
            const int64_t a = i % 2 ? 1024 : 512, b = i % 2 ? 512 : 1024, out = 512 + shift;
            int64_t n = 0;
            unsigned char is_nan = 0;
            fill_values(r, t->type, 2048 / size, buffer);
            for (int64_t k = 448; i % 4 >= 2 && k < 640; k++)
                buffer[k] = (unsigned char)rng_next(r); /* numbers of all sizes */
            memcpy(expected, buffer, sizeof buffer);
            for (; n < 4 && !is_nan; n++) {
                compute_one(op, t->type, expected + out + n * size, expected + a + n * size,
                            expected + b + n * size);
                CHECK_OK(mylib_map1(MYLIB_OP_isnan, t->type, 1, &is_nan, 1,
                                    expected + out + n * size, size, NULL, 0));
            }
            if (is_nan && --n == 0)
                continue;
            memcpy(expected + out + n * size, buffer + out + n * size, (size_t)size);
            test_set_case("%s of %s, n = %lld, out %lld bytes after input %d", op->name, t->name,
                          (long long)n, (long long)shift, i % 2);
            CHECK_OK(mylib_map1(op->op, t->type, n, buffer + out, size, buffer + a, size,
                                buffer + b, size));
            CHECK(memcmp(buffer, expected, sizeof buffer) == 0, "the results differ");
        }
    }
}

/* NumPy's reduce and accumulate, and their mirror images. */
static void test_fold_and_accumulate(const test_op *op, const test_type *t, rng *r)
{
    static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 31, 64, 65, 255, 256, 257, 700};
    int64_t size = t->size, middle = BUFFER_SIZE / 2;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        int64_t n = lengths[i];
        if ((n + 1) * size > middle)
            continue;
        for (int k = 0; k < 6; k++) {
            int64_t start = BUFFER_SIZE - 2 * size;
            fill_buffer(t, r);
            if (k == 0)
                run_map1(op, t, n, 0, 0, 0, 0, middle, size);
            else if (k == 1) /* backwards */
                run_map1(op, t, n, 0, 0, 0, 0, start, -size);
            else if (k == 2)
                run_map1(op, t, n, size, size, 0, size, middle, size);
            else if (k == 3) /* backwards */
                run_map1(op, t, n, start - size, -size, start, -size, middle, size);
            else if (k == 4) /* the other input */
                run_map1(op, t, n, size, size, middle, size, 0, size);
            else /* the term is the result itself */
                run_map1(op, t, n, 0, 0, 0, 0, 0, 0);
        }
    }
}

/* ---- An array that overlaps itself ---- */

/* Small arrays of any strides: each byte is looked up. */
static void test_itself(rng *r)
{
    static const mylib_type types[] = {MYLIB_BOOL, MYLIB_F16, MYLIB_U32, MYLIB_C64, MYLIB_C128};
    int found = 0;
    for (int i = 0; i < 20000; i++) {
        const int log2_size = (int)rng_below(r, 5);
        int64_t shape[3], strides[3], size = (int64_t)1 << log2_size, offset = 0;
        unsigned char seen[4 * 200] = {0};
        int ndim = 1 + (int)rng_below(r, 3), overlaps = 0;
        for (int d = 0; d < ndim; d++) {
            shape[d] = rng_below(r, 5);
            strides[d] = (rng_below(r, 121) - 60) / (rng_once_in(r, 2) ? size : 1) *
                         (rng_once_in(r, 2) ? size : 1) % 61;
            offset += strides[d] < 0 ? 60 * 4 : 0;
        }
        int64_t count = ndim == 1   ? shape[0]
                        : ndim == 2 ? shape[0] * shape[1]
                                    : shape[0] * shape[1] * shape[2];
        for (int64_t n = 0; n < count; n++) {
            int64_t at = offset, rest = n;
            for (int d = ndim - 1; d >= 0; rest /= shape[d--])
                at += rest % shape[d] * strides[d];
            for (int64_t b = 0; b < size; b++)
                overlaps |= seen[at + b]++ != 0;
        }
        test_set_case("%lld x %lld x %lld by %lld, %lld, %lld of %lld bytes", (long long)shape[0],
                      (long long)(ndim > 1 ? shape[1] : 1), (long long)(ndim > 2 ? shape[2] : 1),
                      (long long)strides[0], (long long)(ndim > 1 ? strides[1] : 0),
                      (long long)(ndim > 2 ? strides[2] : 0), (long long)size);
        int is = -1;
        /* The device is not asked: there may be no such GPU. */
        const mylib_device device = {MYLIB_CUDA, i % 2 == 0 ? 0 : 1000};
        mylib_array array = {buffer, device, types[log2_size], ndim, shape, strides};
        CHECK_OK(mylib_overlaps_itself(&array, &is));
        CHECK(is == overlaps, "found: %d, not %d", is, overlaps);
        found += is;
        array.strides = NULL; /* C order */
        CHECK_OK(mylib_overlaps_itself(&array, &is));
        CHECK(is == 0, "found: %d in C order", is);
    }
    CHECK(found > 1000 && found < 19000, "%d of 20000 overlap", found);
}

/* ---- mylib_map ---- */

static void test_random_map(const test_op *op, const test_type *t, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    int64_t unit = unit_of(t->type);
    for (int i = 0; i < test_rounds(40); i++) {
        layout out, in[2];
        int64_t index[MYLIB_MAX_NDIM] = {0}, at[3], spread;
        int aligned = !test_is_integer(t->type);
        random_shape(r, &out, 120);
        random_strides(r, &out, test_size(type), aligned);
        for (int k = 0; k < 2; k++)
            random_input(r, &out, &in[k], t->size, aligned);
        for (int d = 0; d < out.ndim; d++)
            if (rng_once_in(r, 5)) /* repeated, or neighbours that share bytes */
                out.strides[d] = rng_below(r, 2) * (4 - rng_below(r, 8)) * unit;
        layout_measure(&out, test_size(type));
        if (out.span > BUFFER_SIZE / 2 || in[0].span > BUFFER_SIZE / 2 ||
            in[1].span > BUFFER_SIZE / 2)
            continue;
        spread = rng_once_in(r, 2) ? 1 + out.span / unit : 4;
        for (int k = 0; k < 3; k++)
            at[k] = rng_below(r, spread) * unit;
        /* The same first element, in another order. */
        int64_t same = at[0] + out.offset - in[0].offset;
        if (rng_once_in(r, 4) && same >= 0 && same + in[0].span <= BUFFER_SIZE)
            at[1] = same;
        if (rng_once_in(r, 4) && type == t->type) {
            in[0] = out;
            at[1] = at[0];
        }
        if (layout_count(&out) == 0)
            continue;

        test_set_case("%s of %s in one buffer, out %s at %lld, a %s at %lld, b %s at %lld",
                      op->name, t->name, layout_text(&out), (long long)at[0], layout_text(&in[0]),
                      (long long)at[1], layout_text(&in[1]), (long long)at[2]);
        fill_buffer(t, r);
        memcpy(expected, buffer, sizeof buffer);
        mylib_array array = layout_array(&out, type, test_cpu, buffer + at[0]);
        mylib_array arrays[2] = {layout_array(&in[0], t->type, test_cpu, buffer + at[1]),
                                 layout_array(&in[1], t->type, test_cpu, buffer + at[2])};
        do {
            compute_one(op, t->type, expected + at[0] + out.offset + layout_at(&out, &out, index),
                        expected + at[1] + in[0].offset + layout_at(&in[0], &out, index),
                        expected + at[2] + in[1].offset + layout_at(&in[1], &out, index));
        } while (layout_next(&out, index));
        CHECK_OK(mylib_map(op->op, test_cpu, NULL, &array, arrays));
        compare(t->type, BUFFER_SIZE);
    }
}

/* A power whose exponent, 2 at first, is the first element of out. */
static void test_exponent(mylib_type type)
{
    static const int64_t n = 4;
    const int64_t size = test_size(type);
    const mylib_array array = {buffer, test_cpu, type, 1, &n, NULL};
    const mylib_array in[2] = {array, {buffer, test_cpu, type, 0, NULL, NULL}};
    test_set_case("the exponent of powers of %s in out", mylib_type_name(type));
    for (int64_t i = 0; i < n; i++)
        put_number(type, (double)(2 + i), buffer + i * size);
    memcpy(expected, buffer, sizeof buffer);
    for (int64_t i = 0; i < n; i++)
        compute_one(&test_ops[MYLIB_OP_power], type, expected + i * size, expected + i * size,
                    expected);
    CHECK_OK(mylib_map(MYLIB_OP_power, test_cpu, NULL, &array, in));
    compare(type, n * size);
}

/* ---- Large arrays, where threads would come in ---- */

static void test_large(rng *r)
{
    int64_t n = 1 << 20, one = 1;
    int64_t *x = test_malloc((size_t)(n + 1) * sizeof *x), *y = test_malloc((size_t)n * sizeof *y);
    double *f = test_malloc((size_t)n * sizeof *f), fold, right;
    uint64_t sum = 0;

    test_set_case("accumulate over %lld", (long long)n);
    fill_values(r, MYLIB_I64, n, y);
    x[0] = 0;
    CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_I64, n, x + 1, 8, x, 8, y, 8));
    for (int64_t i = 0; i < n; i++) {
        sum += (uint64_t)y[i];
        if (x[i + 1] != (int64_t)sum) {
            CHECK(0, "element %lld is %lld, not %lld", (long long)i, (long long)x[i + 1],
                  (long long)sum);
            break;
        }
    }

    test_set_case("accumulate by mylib_map over %lld", (long long)n);
    memset(x + 1, 0, (size_t)n * sizeof *x);
    mylib_array array = {x + 1, test_cpu, MYLIB_I64, 1, &n, NULL};
    mylib_array in[2] = {test_row(x, MYLIB_I64, &n), test_row(y, MYLIB_I64, &n)};
    CHECK_OK(mylib_map(MYLIB_OP_add, test_cpu, NULL, &array, in));
    CHECK(x[n] == (int64_t)sum, "the last element is %lld, not %lld", (long long)x[n],
          (long long)sum);

    test_set_case("in place over %lld", (long long)n);
    memcpy(x, y, (size_t)n * sizeof *x);
    CHECK_OK(mylib_map1(MYLIB_OP_subtract, MYLIB_I64, n, x, 8, x, 8, &one, 0));
    CHECK_OK(mylib_map1(MYLIB_OP_subtract, MYLIB_I64, n, x, 8, y, 8, x, 8));
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; i++)
        wrong += x[i] != 1;
    CHECK(wrong == 0, "%lld elements are not 1", (long long)wrong);

    test_set_case("fold over %lld", (long long)n);
    fill_ordinary(r, MYLIB_F64, n, f);
    fold = right = 0.5;
    CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, n, &fold, 0, &fold, 0, f, 8));
    reference_fold(MYLIB_F64, n, f, 8, &right);
    CHECK(fold == right, "add gives %.17g, not %.17g", fold, right);
    f[n - 7] = 99;
    fold = 0;
    CHECK_OK(mylib_map1(MYLIB_OP_maximum, MYLIB_F64, n, &fold, 0, &fold, 0, f, 8));
    CHECK(fold == 99, "maximum gives %g, not 99", fold);

    test_set_case("the last element stays, over %lld", (long long)n);
    CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_I64, n, x, 0, y, 8, &one, 0));
    CHECK(x[0] == (int64_t)((uint64_t)y[n - 1] + 1), "it is %lld, not %lld", (long long)x[0],
          (long long)y[n - 1] + 1);
    free(x);
    free(y);
    free(f);
}

int main(void)
{
    test_begin("overlap");
    rng own = rng_make(0);
    test_itself(&own);
    FOR_EACH_LEVEL(level)
    {
        rng r = rng_make((uint64_t)level);
        for (mylib_type type = MYLIB_F16; type <= MYLIB_F64; type++)
            test_exponent(type);
        FOR_EACH_PAIR(op, t)
        {
            test_random_map1(op, t, &r);
            test_shifted(op, t, &r);
            if (op->arity == 2)
                test_fold_and_accumulate(op, t, &r);
            test_random_map(op, t, &r);
        }
    }
    CHECK_OK(mylib_set_cpu_level(NULL));
    rng r = rng_make(99);
    test_large(&r);
    return test_end();
}
