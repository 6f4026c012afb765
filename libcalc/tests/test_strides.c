/*
 * Arrays of up to 64 dimensions in any layout: broadcast, transposed, reversed, with gaps,
 * unaligned, empty; against a reference that walks index by index.  Gaps of the output must keep
 * their bytes.
 */
#include "layout.h"
#include "reference.h"

#define POISON 0xa5

/* Computes, and compares every element and every byte between the elements. */
static void run(const test_op *op, const test_type *t, const layout *out, const layout *in, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    size_t size = (size_t)test_size(type);
    unsigned char *data[2], *result = test_malloc((size_t)out->span);
    unsigned char *copy = test_malloc((size_t)out->span);
    mylib_array arrays[2], array = layout_array(out, type, test_cpu, result);
    int64_t index[MYLIB_MAX_NDIM] = {0};
    reference right;

    memset(result, POISON, (size_t)out->span);
    memset(copy, POISON, (size_t)out->span);
    for (int k = 0; k < op->arity; k++) {
        data[k] = test_malloc((size_t)in[k].span);
        arrays[k] = layout_array(&in[k], t->type, test_cpu, data[k]);
        /* Bits that are read across their alignment may be any; whole elements are of all kinds. */
        for (int64_t i = 0; i < in[k].span; i++)
            data[k][i] = (unsigned char)rng_next(r);
        fill_values(r, t->type, in[k].span / t->size, data[k]);
    }
    test_set_case("%s of %s, out %s, a %s, b %s", op->name, t->name, layout_text(out),
                  layout_text(&in[0]), op->arity == 2 ? layout_text(&in[1]) : "-");
    if (CHECK_OK(mylib_map(op->op, test_cpu, NULL, &array, arrays)) && layout_count(out) > 0) {
        const unsigned char *b = data[0];
        int64_t wrong = 0;
        do {
            unsigned char *got = (unsigned char *)array.data + layout_at(out, out, index);
            const unsigned char *a =
                (unsigned char *)arrays[0].data + layout_at(&in[0], out, index);
            if (op->arity == 2)
                b = (unsigned char *)arrays[1].data + layout_at(&in[1], out, index);
            reference_compute(op->op, t->type, a, op->arity == 2 ? b : a, &right);
            if (!reference_accepts(type, &right, got) && wrong++ == 0)
                CHECK(0, "at byte %lld: (%s, %s) gives %s, not %s", (long long)(got - result),
                      describe(t->type, a), describe(t->type, op->arity == 2 ? b : a),
                      describe(type, got), describe(type, right.bits));
            memset(got, POISON, size);
        } while (layout_next(out, index));
        CHECK(memcmp(result, copy, (size_t)out->span) == 0,
              "bytes beside the elements were written");
    }
    for (int k = 0; k < op->arity; k++)
        free(data[k]);
    free(copy);
    free(result);
}

static void test_random(const test_op *op, const test_type *t, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    for (int i = 0; i < test_rounds(40); i++) {
        layout out, in[2];
        int aligned = rng_once_in(r, 2);
        random_shape(r, &out, i % 20 == 0 ? 5000 : 300);
        random_strides(r, &out, test_size(type), aligned);
        random_input(r, &out, &in[0], t->size, aligned);
        random_input(r, &out, &in[1], t->size, aligned);
        run(op, t, &out, in, r);
    }
}

/* Strides in elements, for the shapes that programs really use. */
static const struct known {
    int ndim;
    int64_t shape[3], out[3], a_shape[3], a[3], b_shape[3], b[3];
} known[] = {
    /* a matrix and the transpose of another */
    {2, {300, 500}, {500, 1}, {300, 500}, {500, 1}, {300, 500}, {1, 300}},
    {2, {500, 300}, {1, 500}, {500, 300}, {1, 500}, {500, 300}, {300, 1}},
    /* a matrix and a row, a matrix and a column */
    {2, {300, 500}, {500, 1}, {300, 500}, {500, 1}, {1, 500}, {0, 1}},
    {2, {300, 500}, {500, 1}, {300, 1}, {1, 0}, {300, 500}, {500, 1}},
    /* a column and a row */
    {2, {300, 500}, {500, 1}, {300, 1}, {1, 1}, {1, 500}, {1, 1}},
    /* very long and very short rows */
    {2, {3, 70000}, {70000, 1}, {3, 70000}, {1, 3}, {3, 1}, {1, 1}},
    {2, {70000, 3}, {3, 1}, {70000, 3}, {1, 70000}, {1, 3}, {0, -1}},
    {2, {70000, 2}, {3, 1}, {70000, 2}, {3, 1}, {70000, 2}, {5, 2}},
    {3, {2, 700, 3}, {2800, 4, 1}, {2, 700, 3}, {2100, 3, 1}, {1, 700, 1}, {0, 1, 0}},
    /* upside down, both ways */
    {2, {400, 400}, {400, 1}, {400, 400}, {-400, 1}, {400, 400}, {400, -1}},
    {3, {30, 40, 50}, {2000, 50, 1}, {30, 40, 50}, {1, 30, 1200}, {1, 40, 1}, {0, 1, 0}},
    {3, {30, 40, 50}, {50, 1500, 1}, {30, 40, 50}, {2000, -50, 1}, {30, 1, 50}, {50, 0, -1}},
};

static void test_known(const test_op *op, const test_type *t, rng *r)
{
    mylib_type type = test_result_type(op, t->type);
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        const struct known *k = &known[i];
        if (!test_takes_case(i + (size_t)t->type, 3))
            continue;
        layout out = {.ndim = k->ndim}, in[2] = {{.ndim = k->ndim}, {.ndim = k->ndim}};
        for (int d = 0; d < k->ndim; d++) {
            out.shape[d] = k->shape[d], out.strides[d] = k->out[d] * test_size(type);
            in[0].shape[d] = k->a_shape[d], in[0].strides[d] = k->a[d] * t->size;
            in[1].shape[d] = k->b_shape[d], in[1].strides[d] = k->b[d] * t->size;
        }
        layout_measure(&out, test_size(type));
        layout_measure(&in[0], t->size);
        layout_measure(&in[1], t->size);
        run(op, t, &out, in, r);
    }
}

/* Strides that are not given mean C order without gaps. */
static void test_default_strides(rng *r)
{
    int64_t shape[3] = {3, 4, 5}, row[1] = {5};
    float out[60], a[60], b[5];
    mylib_array array = {out, test_cpu, MYLIB_F32, 3, shape, NULL};
    mylib_array in[2] = {{a, test_cpu, MYLIB_F32, 3, shape, NULL}, test_row(b, MYLIB_F32, row)};
    test_set_case("strides NULL");
    fill_ordinary(r, MYLIB_F32, 60, a);
    fill_ordinary(r, MYLIB_F32, 5, b);
    CHECK_OK(mylib_map(MYLIB_OP_subtract, test_cpu, NULL, &array, in));
    for (int i = 0; i < 60; i++)
        CHECK(out[i] == a[i] - b[i % 5], "element %d is %g, not %g", i, out[i], a[i] - b[i % 5]);

    /* No dimensions: one element, and shapes and strides need not be. */
    array.ndim = in[0].ndim = in[1].ndim = 0;
    array.shape = in[0].shape = in[1].shape = NULL;
    out[0] = out[1] = -1;
    CHECK_OK(mylib_map(MYLIB_OP_subtract, test_cpu, NULL, &array, in));
    CHECK(out[0] == a[0] - b[0] && out[1] == -1, "0-d: %g, %g", out[0], out[1]);
}

/* No elements: nothing is read, and sizes beside the 0 may be as large as they like. */
static void test_empty(void)
{
    int64_t shapes[3][3] = {{0, INT64_MAX, INT64_MAX}, {INT64_MAX, 0, 2}, {5, 5, 0}};
    for (int i = 0; i < 3; i++) {
        mylib_array array = {NULL, test_cpu, MYLIB_F64, 3, shapes[i], NULL};
        mylib_array in[2] = {array, array};
        test_set_case("no elements, %d", i);
        CHECK_OK(mylib_map(MYLIB_OP_add, test_cpu, NULL, &array, in));
    }
    double a = 1;
    int64_t none = 0, one = 1;
    mylib_array array = {NULL, test_cpu, MYLIB_F64, 1, &none, NULL};
    mylib_array in[2] = {test_row(&a, MYLIB_F64, &one), {&a, test_cpu, MYLIB_F64, 0, NULL, NULL}};
    test_set_case("one element broadcast to none");
    CHECK_OK(mylib_map(MYLIB_OP_add, test_cpu, NULL, &array, in));
    CHECK_OK(mylib_map1(MYLIB_OP_add, MYLIB_F64, 0, NULL, 8, NULL, 8, NULL, 8));
}

int main(void)
{
    test_begin("strides");
    rng r = rng_make(1);
    FOR_EACH_PAIR(op, t)
    test_random(op, t, &r);
    /* The layouts do not depend on the operation: one for each size of element, and each arity. */
    test_known(&test_ops[MYLIB_OP_subtract], &test_types[MYLIB_I8], &r);
    test_known(&test_ops[MYLIB_OP_subtract], &test_types[MYLIB_U16], &r);
    test_known(&test_ops[MYLIB_OP_subtract], &test_types[MYLIB_I32], &r);
    test_known(&test_ops[MYLIB_OP_subtract], &test_types[MYLIB_F64], &r);
    test_known(&test_ops[MYLIB_OP_subtract], &test_types[MYLIB_F16], &r);
    test_known(&test_ops[MYLIB_OP_subtract], &test_types[MYLIB_C128], &r);
    test_known(&test_ops[MYLIB_OP_absolute], &test_types[MYLIB_C64], &r);
    test_default_strides(&r);
    test_empty();
    return test_end();
}
