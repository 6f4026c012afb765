/*
 * The GPU gives the CPU's bits where types mix: operations on converted inputs, selections, numbers
 * of host memory among GPU arrays, ranges; in GPU memory of every layout and streamed from the
 * host.  test_convert.c checks the CPU's own results.
 *
 *     test_gpu_convert [--quick]    --quick: few cases of each kind, for compute-sanitizer
 *
 * Exit status 77, "skipped", without a GPU; with MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#include "image.h"

#define MOST_INPUTS 3

static const test_type *any_type(rng *r) { return &test_types[rng_below(r, MYLIB_TYPE_COUNT)]; }

/* A case: operand 0 is the output. */
typedef struct mix {
    int is_select; /* else op in type */
    const test_op *op;
    const test_type *type;
    int inputs;
    const test_type *t[1 + MOST_INPUTS];
    layout l[1 + MOST_INPUTS];
    int64_t shift[1 + MOST_INPUTS]; /* elements from an aligned place */
    int is_number[1 + MOST_INPUTS]; /* one element of host memory */
    int in_place;                   /* input 1 is the output's memory */
    int streamed;                   /* all in host memory, computed on the GPU */
} mix;

static const char *mix_text(const mix *m)
{
    static char text[600];
    int used = m->is_select ? snprintf(text, sizeof text, "select:")
                            : snprintf(text, sizeof text, "%s in %s:", m->op->name, m->type->name);
    for (int k = 0; k <= m->inputs; k++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %s%s %s shift %d%s",
                         k == 0 ? "" : "of ", m->t[k]->name, layout_text(&m->l[k]),
                         (int)m->shift[k], m->is_number[k] ? " number" : "");
    snprintf(text + used, sizeof text - (size_t)used, "%s%s", m->in_place ? ", in place" : "",
             m->streamed ? ", streamed" : "");
    return text;
}

static mylib_status call(const void *what, mylib_device device, const mylib_array *arrays)
{
    const mix *m = what;
    if (m->is_select)
        return mylib_select(device, NULL, &arrays[0], &arrays[1], &arrays[2], &arrays[3]);
    return mylib_map_as(m->op->op, m->type->type, device, NULL, &arrays[0], &arrays[1]);
}

static void run(const mix *m, rng *r)
{
    unsigned char numbers[1 + MOST_INPUTS][TEST_MAX_SIZE];
    operand o[1 + MOST_INPUTS];
    int64_t used = 0;

    test_set_case("%s", mix_text(m));
    for (int k = 0; k <= m->inputs; k++) {
        o[k] = (operand){m->t[k]->type, &m->l[k], 0, m->is_number[k] ? numbers[k] : NULL};
        if (k == 1 && m->in_place)
            o[k].at = o[0].at;
        else if (!m->is_number[k])
            o[k].at = reserve(&used, m->l[k].span, m->shift[k] * m->t[k]->size);
    }
    memset(before, SENTINEL, (size_t)used);
    memset(before + o[0].at, POISON, (size_t)m->l[0].span);
    for (int k = 1; k <= m->inputs; k++) {
        if (m->is_number[k])
            fill_values(r, o[k].type, 1, numbers[k]);
        else
            fill_values(r, o[k].type, m->l[k].span / m->t[k]->size, before + o[k].at);
    }
    compare_places(call, m, 1 + m->inputs, o, m->streamed, used);
}

/* ---- Shapes ---- */

/* Contiguous operands around the sizes of vectors and tiles; now and then shifted or repeated. */
static void lay_rows(mix *m, rng *r)
{
    const int64_t tile = 8192 / m->type->size;
    const int64_t lengths[] = {
        1, 2, 3, 17, 31, 33, 257, tile - 1, tile, tile + 1, 2 * tile + 5, 5 * tile + 13, 3 * tile};
    int64_t n = PICK(r, lengths);
    int shifts = rng_once_in(r, 3);
    for (int k = 0; k <= m->inputs; k++) {
        m->l[k] = row_of(k > 0 && rng_once_in(r, 6) ? 1 : n, m->t[k]->size);
        m->shift[k] = shifts ? rng_below(r, 9) : 0;
        m->is_number[k] = k > 0 && !m->streamed && rng_once_in(r, 6);
    }
    m->in_place = !m->is_number[1] && m->l[1].shape[0] == n && m->t[1]->size == m->t[0]->size &&
                  rng_once_in(r, 3);
}

static void lay_any(mix *m, rng *r)
{
    random_shape(r, &m->l[0], rng_once_in(r, 10) ? 20000 : 600);
    random_strides(r, &m->l[0], m->t[0]->size, 1);
    for (int k = 0; k <= m->inputs; k++) {
        if (k > 0)
            random_input(r, &m->l[0], &m->l[k], m->t[k]->size, 1);
        m->shift[k] = rng_below(r, 4);
        m->is_number[k] = k > 0 && !m->streamed && rng_once_in(r, 6);
    }
    m->in_place = 0;
}

/* ---- Cases ---- */

/* Every operation and type with each type as one input, on either side. */
static void test_operations(rng *r)
{
    FOR_EACH_PAIR(op, t)
    {
        for (int k = 0; k < (test_quick ? 2 : MYLIB_TYPE_COUNT * 2); k++) {
            const test_type *other = test_quick ? any_type(r) : &test_types[k / 2];
            mix m = {.op = op, .type = t, .inputs = op->arity};
            m.t[0] = &test_types[test_result_type(op, t->type)];
            m.t[1] = k % 2 != 0 || op->arity == 1 ? other : t;
            m.t[2] = k % 2 == 0 ? other : rng_once_in(r, 2) ? t : any_type(r);
            if (test_reads_nan_sign(op)) /* conversions change it */
                m.t[1] = m.t[2] = t;
            m.streamed = rng_once_in(r, 6);
            if (rng_once_in(r, 3))
                lay_any(&m, r);
            else
                lay_rows(&m, r);
            run(&m, r);
        }
    }
}

/* Conversions: a selection whose condition holds everywhere, and one of any condition. */
static void test_selections(rng *r)
{
    for (const test_type *to = test_types; to < test_types + MYLIB_TYPE_COUNT; to++) {
        for (const test_type *from = test_types; from < test_types + MYLIB_TYPE_COUNT; from++) {
            for (int k = 0; k < (test_quick ? 1 : 10); k++) {
                mix m = {.is_select = 1, .type = to, .inputs = 3};
                m.t[0] = to;
                m.t[1] = rng_once_in(r, 2) ? &test_types[MYLIB_BOOL] : any_type(r);
                m.t[2] = k % 2 == 0 ? from : any_type(r);
                m.t[3] = k % 2 != 0 ? from : rng_once_in(r, 2) ? to : any_type(r);
                m.streamed = rng_once_in(r, 6);
                if (rng_once_in(r, 3))
                    lay_any(&m, r);
                else
                    lay_rows(&m, r);
                run(&m, r);
            }
        }
    }
}

static void test_ranges(rng *r)
{
    static const int64_t lengths[] = {0, 1, 2, 255, 256, 257, 1023, 1024, 1025, 5000};
    for (const test_type *t = test_types; t < test_types + TEST_COMPUTED_COUNT; t++) {
        for (int k = 0; k < (test_quick ? 3 : 40); k++) {
            mylib_type given = t->type == MYLIB_F16 ? MYLIB_F32 : t->type;
            int64_t n = PICK(r, lengths), steps[] = {1, 2, -1, -3};
            int64_t stride = t->size * PICK(r, steps);
            unsigned char start[TEST_MAX_SIZE], step[TEST_MAX_SIZE];
            layout l = {.ndim = 1, .shape = {n}, .strides = {stride}};
            layout_measure(&l, t->size);
            size_t nbytes = (size_t)l.span + 2 * GAP;
            fill_values(r, given, 1, start);
            fill_values(r, given, 1, step);
            test_set_case("%lld %s from %s by %s, stride %d", (long long)n, t->name,
                          describe(given, start), describe(given, step), (int)stride);
            memset(right, SENTINEL, nbytes);
            mylib_array here = layout_array(&l, t->type, test_cpu, right + GAP);
            mylib_array there = layout_array(&l, t->type, gpu, on_device + GAP);
            CHECK_OK(mylib_copy(gpu, on_device, test_cpu, right, nbytes, NULL));
            CHECK_OK(mylib_arange(NULL, &here, start, step));
            CHECK_OK(mylib_arange(NULL, &there, start, step));
            CHECK_OK(mylib_copy(test_cpu, after, gpu, on_device, nbytes, NULL));
            int64_t count = (int64_t)nbytes / t->size;
            int64_t i = first_difference(t->type, count, after, right);
            CHECK(i == count, "%lld bytes into the memory there is %s, not %s",
                  (long long)(i * t->size), describe(t->type, after + i * t->size),
                  describe(t->type, right + i * t->size));
        }
    }
}

/* ---- Errors ---- */

static void test_errors(void)
{
    double number = 1;
    unsigned char flag = 1;
    const int64_t two = 2, none = 0;
    mylib_array out = {on_device, gpu, MYLIB_F64, 1, &two, NULL}, in[2] = {out, out};
    mylib_array condition = {&flag, test_cpu, MYLIB_BOOL, 0, NULL, NULL};

    test_set_case("a host array of one dimension among GPU arrays");
    in[1] = (mylib_array){&number, test_cpu, MYLIB_F64, 1, &(int64_t){1}, NULL};
    CHECK_STATUS(mylib_map(MYLIB_OP_add, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_map_as(MYLIB_OP_add, MYLIB_F64, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    test_set_case("a number for output");
    in[1] = out;
    mylib_array host_out = {&number, test_cpu, MYLIB_F64, 0, NULL, NULL};
    CHECK_STATUS(mylib_map(MYLIB_OP_add, gpu, NULL, &host_out, in), MYLIB_ERR_ARGUMENT);
    test_set_case("an output in an input's memory");
    in[0].data = on_device + 8;
    CHECK_STATUS(mylib_map(MYLIB_OP_add, gpu, NULL, &out, in), MYLIB_ERR_ARGUMENT);
    CHECK_STATUS(mylib_select(gpu, NULL, &out, &condition, &in[0], &in[1]), MYLIB_ERR_ARGUMENT);
    test_set_case("a range over itself");
    mylib_array still = out;
    still.strides = &none;
    CHECK_STATUS(mylib_arange(NULL, &still, &number, &number), MYLIB_ERR_ARGUMENT);
    test_set_case("a range in host memory that is said to be on the GPU");
    double host[2];
    mylib_array lie = {host, gpu, MYLIB_F64, 1, &two, NULL};
    CHECK_STATUS(mylib_arange(NULL, &lie, &number, &number), MYLIB_ERR_ARGUMENT);
    test_set_case("all is well afterwards");
    CHECK_OK(mylib_arange(NULL, &out, &number, &number));
    CHECK_OK(mylib_copy(test_cpu, host, gpu, on_device, sizeof host, NULL));
    CHECK(host[0] == 1 && host[1] == 2, "the range is %g, %g", host[0], host[1]);
}

int main(int argc, char **argv)
{
    test_begin_gpu("gpu_convert", argc, argv, NULL);
    open_images();
    rng r = rng_make(1);
    test_operations(&r);
    test_selections(&r);
    test_ranges(&r);
    test_errors();
    close_images();
    return test_end();
}
