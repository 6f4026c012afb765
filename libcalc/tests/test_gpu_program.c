/*
 * Programs give the CPU's bits on a GPU, however they are split and launched there: random ones in
 * every layout, programs too long for a launch, host arrays that are streamed, reductions of what a
 * program gives, errors.  Other tests check the CPU's own results.
 *
 *     test_gpu_program [--quick]    --quick: few cases of each kind, for compute-sanitizer
 *
 * Exit status 77, "skipped", without a GPU; with MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#include <fenv.h>

#define IMAGE_NBYTES (128 << 20)
#include "image.h"
#include "reduction_case.h"

/* ---- Random programs ---- */

#define MAX_INPUTS MYLIB_PROGRAM_MAX_INPUTS
#define MAX_CONSTANTS MYLIB_PROGRAM_MAX_CONSTANTS
#define MAX_STEPS 2000

/* A program, and what it was made of. */
typedef struct source {
    int inputs, constants, steps;
    mylib_type input_type[MAX_INPUTS];
    mylib_constant constant[MAX_CONSTANTS];
    mylib_step step[MAX_STEPS];
    mylib_program *program;
    mylib_type result_type;
} source;

/*
 * Returns 0 for results that further steps may make differ, since they are promised to a bound only
 * or depend on the sign of a NaN: roots and quotients of complex numbers.
 */
static int is_exact(const test_op *op, mylib_type type)
{
    int is_complex = type == MYLIB_C64 || type == MYLIB_C128;
    return !is_complex || (op->op != MYLIB_OP_sqrt && op->op != MYLIB_OP_divide);
}

/* One type mostly, so that there are programs of one type; or two or three. */
typedef struct palette {
    mylib_type type[3];
    int types;
} palette;

static palette random_palette(rng *r)
{
    static const mylib_type usual[] = {MYLIB_F64, MYLIB_F32, MYLIB_I32, MYLIB_I64, MYLIB_U8};
    palette p = {{0}, 1 + (int)(rng_below(r, 6) % 3)};
    for (int i = 0; i < p.types; i++)
        p.type[i] =
            rng_once_in(r, 3) ? (mylib_type)rng_below(r, TEST_COMPUTED_COUNT) : PICK(r, usual);
    return p;
}

static mylib_type type_from(rng *r, const palette *p)
{
    return rng_once_in(r, 40) ? MYLIB_BOOL : p->type[rng_below(r, p->types)];
}

/* A value for a step after `values` of them: mostly a late one; `far`: any. */
static int32_t operand_from(rng *r, int values, int far)
{
    if (far || rng_once_in(r, 3))
        return (int32_t)rng_below(r, values);
    int64_t back = rng_below(r, 3);
    return (int32_t)(values - 1 - (back < values ? back : 0));
}

/* Random steps; values are used far from where they were made when `far`. */
static void random_program(rng *r, source *s, int inputs, int constants, int steps, int far)
{
    palette p = random_palette(r);
    s->inputs = inputs;
    s->constants = constants;
    s->steps = steps;
    for (int k = 0; k < inputs; k++)
        s->input_type[k] = type_from(r, &p);
    memset(s->constant, 0, sizeof s->constant);
    for (int k = 0; k < constants; k++) {
        s->constant[k].type = type_from(r, &p);
        fill_values(r, (mylib_type)s->constant[k].type, 1, s->constant[k].value);
    }
    for (int i = 0; i < steps; i++) {
        mylib_step *step = &s->step[i];
        int values = inputs + constants + i, arity;
        memset(step, 0, sizeof *step);
        if (rng_once_in(r, 8)) {
            step->op = MYLIB_STEP_SELECT;
            step->type = type_from(r, &p);
            arity = 3;
        } else if (rng_once_in(r, 8)) {
            step->op = MYLIB_STEP_CONVERT;
            step->type = type_from(r, &p);
            arity = 1;
        } else {
            const test_op *op;
            do {
                op = &test_ops[rng_below(r, MYLIB_OP_COUNT)];
                step->type = p.type[rng_below(r, p.types)];
            } while (!test_is_total(op, (mylib_type)step->type) ||
                     !is_exact(op, (mylib_type)step->type) || test_reads_nan_sign(op));
            step->op = op->op;
            arity = op->arity;
        }
        for (int k = 0; k < arity; k++)
            step->operand[k] = operand_from(r, values, far);
    }
    s->program = NULL;
    if (!CHECK_OK(mylib_program_create(inputs, s->input_type, constants, s->constant, steps,
                                       s->step, &s->program)))
        test_give_up("a valid program is refused");
    CHECK_OK(mylib_program_result_type(s->program, &s->result_type));
}

/*
 * Mostly combines the last result with an input or a constant; a few inputs are read often, and
 * some are converted as they are read.
 */
static void chain_program(rng *r, source *s)
{
    static const mylib_op usual[] = {MYLIB_OP_add, MYLIB_OP_subtract, MYLIB_OP_multiply};
    static const mylib_type narrow[] = {MYLIB_BOOL, MYLIB_I8,  MYLIB_U8, MYLIB_I16,
                                        MYLIB_U16,  MYLIB_F16, MYLIB_I32};
    const mylib_type types[] = {MYLIB_F32, MYLIB_F64,
                                (mylib_type)rng_below(r, TEST_COMPUTED_COUNT)};
    const mylib_type type = PICK(r, types);
    const int converts = (type == MYLIB_F32 || type == MYLIB_F64) && rng_once_in(r, 2);
    s->inputs = 1 + (int)rng_below(r, 4);
    s->constants = (int)rng_below(r, 3);
    s->steps = 1 + (int)rng_below(r, rng_once_in(r, 4) ? 40 : 9);
    for (int k = 0; k < s->inputs; k++)
        s->input_type[k] =
            converts && rng_once_in(r, 3) ? narrow[rng_below(r, type == MYLIB_F32 ? 6 : 7)] : type;
    memset(s->constant, 0, sizeof s->constant);
    for (int k = 0; k < s->constants; k++) {
        s->constant[k].type = type;
        fill_values(r, type, 1, s->constant[k].value);
    }
    for (int i = 0; i < s->steps; i++) {
        const int given = s->inputs + s->constants, last = i > 0 ? given + i - 1 : 0;
        const int any = (int)rng_below(r, rng_once_in(r, 8) ? given + i : given);
        const int is_turned = rng_once_in(r, 12);
        s->step[i] = (mylib_step){.op = rng_once_in(r, 10) ? MYLIB_OP_maximum : PICK(r, usual),
                                  .type = (int32_t)type,
                                  .operand = {is_turned ? any : last, is_turned ? last : any}};
    }
    CHECK_OK(mylib_program_create(s->inputs, s->input_type, s->constants, s->constant, s->steps,
                                  s->step, &s->program));
    CHECK_OK(mylib_program_result_type(s->program, &s->result_type));
}

/* Makes a program of mostly few steps. */
static void any_program(rng *r, source *s)
{
    if (rng_once_in(r, 4)) {
        chain_program(r, s);
        return;
    }
    int steps = 1 + (int)(rng_once_in(r, 6) ? rng_below(r, 60) : rng_below(r, 9));
    int constants = (int)rng_below(r, 4);
    int inputs = (int)(rng_once_in(r, 12) ? rng_below(r, MAX_INPUTS + 1) : rng_below(r, 6));
    if (inputs + constants == 0)
        inputs = 1;
    random_program(r, s, inputs, constants, steps, rng_once_in(r, 8));
}

/* "4 inputs, 2 constants, 7 steps: f64 ..." for messages. */
static const char *source_text(const source *s)
{
    static char text[400];
    int used = snprintf(text, sizeof text, "%d inputs, %d constants, %d steps:", s->inputs,
                        s->constants, s->steps);
    for (int i = 0; i < s->steps && used < (int)sizeof text - 60; i++) {
        const mylib_step *p = &s->step[i];
        used += snprintf(text + used, sizeof text - (size_t)used, " %s %s %d %d %d,",
                         p->op == MYLIB_STEP_CONVERT  ? "convert"
                         : p->op == MYLIB_STEP_SELECT ? "select"
                                                      : test_ops[p->op].name,
                         test_types[p->type].name, (int)p->operand[0], (int)p->operand[1],
                         (int)p->operand[2]);
    }
    return text;
}

/* ---- GPU memory ---- */

typedef struct operands {
    layout out, in[MAX_INPUTS];
    int shift[1 + MAX_INPUTS];          /* elements beyond an aligned place */
    uint8_t is_host_scalar[MAX_INPUTS]; /* with device memory: of no dimensions, on the host */
    int in_place;                       /* the input that is out, or -1 */
} operands;

static mylib_status run(const void *program, mylib_device device, const mylib_array *arrays)
{
    return mylib_program_run(program, device, NULL, &arrays[0], &arrays[1]);
}

/* Runs a program over GPU memory, or over host arrays by way of the GPU. */
static void compare(const source *s, const operands *o, int on_host, rng *r)
{
    int64_t used = 0, size = test_size(s->result_type);
    operand p[1 + MAX_INPUTS];
    _Alignas(16) unsigned char scalar[MAX_INPUTS][TEST_MAX_SIZE];

    p[0] =
        (operand){s->result_type, &o->out, reserve(&used, o->out.span, o->shift[0] * size), NULL};
    for (int k = 0; k < s->inputs; k++) {
        size = test_size(s->input_type[k]);
        p[1 + k] = k == o->in_place
                       ? p[0]
                       : (operand){s->input_type[k], &o->in[k],
                                   reserve(&used, o->in[k].span, o->shift[1 + k] * size), NULL};
        if (o->is_host_scalar[k])
            p[1 + k].number = scalar[k];
    }
    memset(before, SENTINEL, (size_t)used);
    memset(before + p[0].at, POISON, (size_t)o->out.span);
    for (int k = 0; k < s->inputs; k++) {
        mylib_type type = s->input_type[k];
        fill_values(r, type, o->in[k].span / test_size(type), before + p[1 + k].at);
        fill_values(r, type, 1, scalar[k]);
    }
    compare_places(run, s->program, 1 + s->inputs, p, on_host, used);
}

static layout dense(int ndim, const int64_t *shape, int64_t size)
{
    layout l = {.ndim = ndim};
    memcpy(l.shape, shape, (size_t)ndim * sizeof *shape);
    layout_pack(&l, size);
    return l;
}

/* One input of the result's type and out's shape may be out itself. */
static void choose_in_place(const source *s, operands *o, rng *r)
{
    o->in_place = -1;
    for (int k = 0; k < s->inputs && rng_once_in(r, 3); k++)
        if (s->input_type[k] == s->result_type && !o->is_host_scalar[k])
            o->in_place = k;
}

/* Contiguous operands around the sizes of vectors and tiles: shifted, repeated, in place. */
static void test_contiguous(rng *r)
{
    static const int64_t lengths[] = {0,   1,   2,    3,    5,    15,   16,   17,   31,   33,
                                      257, 511, 1023, 1024, 1025, 2048, 2053, 4096, 10007};
    static source s;
    static operands o;
    for (int i = 0; i < (test_quick ? 20 : test_rounds(1500)); i++) {
        any_program(r, &s);
        int64_t n = PICK(r, lengths);
        int shifts = rng_once_in(r, 2);
        memset(&o, 0, sizeof o);
        o.out = row_of(n, test_size(s.result_type));
        o.shift[0] = shifts ? (int)rng_below(r, 4) : 0;
        for (int k = 0; k < s.inputs; k++) {
            int is_single = rng_once_in(r, 5);
            o.in[k] = row_of(is_single ? 1 : n, test_size(s.input_type[k]));
            o.shift[1 + k] = shifts ? (int)rng_below(r, 4) : 0;
            o.is_host_scalar[k] = (uint8_t)rng_once_in(r, 8);
        }
        choose_in_place(&s, &o, r);
        test_set_case("GPU memory, n = %lld, shifted %d, in place %d, %s", (long long)n, shifts,
                      o.in_place, source_text(&s));
        compare(&s, &o, 0, r);
        mylib_program_free(s.program);
    }
}

/* Arrays with memory of their own, where memory checkers see a byte too many that is read. */
static void test_ends(rng *r)
{
    static source s;
    for (int i = 0; i < (test_quick ? 20 : test_rounds(300)); i++) {
        mylib_array a[2][1 + 4];
        any_program(r, &s);
        while (s.inputs > 4) {
            mylib_program_free(s.program);
            any_program(r, &s);
        }
        const int64_t columns = 1 + rng_below(r, rng_once_in(r, 4) ? 1100 : 40);
        const int64_t shape[2] = {rng_once_in(r, 2) ? 1 : 2, columns};
        test_set_case("arrays of their own, %lld x %lld, %s", (long long)shape[0],
                      (long long)columns, source_text(&s));
        int64_t used = 0, nbytes[1 + 4];
        for (int k = 0; k <= s.inputs; k++) {
            mylib_type type = k == 0 ? s.result_type : s.input_type[k - 1];
            nbytes[k] = shape[0] * columns * test_size(type);
            a[0][k] = (mylib_array){before + used, test_cpu, type, 2, shape, NULL};
            a[1][k] = (mylib_array){NULL, gpu, type, 2, shape, NULL};
            used += (nbytes[k] + 15) / 16 * 16;
            fill_values(r, type, shape[0] * columns, a[0][k].data);
            CHECK_OK(mylib_alloc(gpu, (size_t)nbytes[k], NULL, &a[1][k].data));
            CHECK_OK(
                mylib_copy(gpu, a[1][k].data, test_cpu, a[0][k].data, (size_t)nbytes[k], NULL));
        }
        CHECK_OK(mylib_program_run(s.program, test_cpu, NULL, &a[0][0], &a[0][1]));
        CHECK_OK(mylib_program_run(s.program, gpu, NULL, &a[1][0], &a[1][1]));
        CHECK_OK(mylib_copy(test_cpu, after, gpu, a[1][0].data, (size_t)nbytes[0], NULL));
        int64_t n = shape[0] * columns;
        int64_t j = first_difference(s.result_type, n, after, a[0][0].data);
        CHECK(j == n, "element %lld is %s", (long long)j,
              describe(s.result_type, after + j * test_size(s.result_type)));
        for (int k = 0; k <= s.inputs; k++)
            CHECK_OK(mylib_free(gpu, a[1][k].data, NULL));
        mylib_program_free(s.program);
    }
}

/* Random dimensions, strides and broadcasting; on_host: host arrays by way of the GPU. */
static void test_strided(rng *r, int on_host)
{
    static source s;
    static operands o;
    for (int i = 0; i < (test_quick ? 10 : test_rounds(on_host ? 400 : 1000)); i++) {
        any_program(r, &s);
        memset(&o, 0, sizeof o);
        random_shape(r, &o.out, i % 10 == 9 ? 20000 : 600);
        random_strides(r, &o.out, test_size(s.result_type), 1);
        o.shift[0] = (int)rng_below(r, 3);
        for (int k = 0; k < s.inputs; k++) {
            random_input(r, &o.out, &o.in[k], test_size(s.input_type[k]), 1);
            o.shift[1 + k] = (int)rng_below(r, 3);
            o.is_host_scalar[k] = (uint8_t)rng_once_in(r, 8);
        }
        choose_in_place(&s, &o, r);
        test_set_case("%s, out %s, in place %d, %s", on_host ? "host arrays" : "GPU memory",
                      layout_text(&o.out), o.in_place, source_text(&s));
        compare(&s, &o, on_host, r);
        mylib_program_free(s.program);
    }
}

/* Matrices with rows, columns and transposes of others, of many tiles, and three dimensions. */
static void test_matrices(rng *r)
{
    static source s;
    static operands o;
    for (int i = 0; i < (test_quick ? 6 : test_rounds(200)); i++) {
        const int64_t sizes[] = {16, 17, 64, 67, 128, 131, 260};
        const int64_t shape[3] = {rng_once_in(r, 2) ? 1 : 3, PICK(r, sizes), PICK(r, sizes)};
        any_program(r, &s);
        memset(&o, 0, sizeof o);
        o.out = dense(3, shape, test_size(s.result_type));
        o.in_place = -1;
        for (int k = 0; k < s.inputs; k++) {
            int64_t size = test_size(s.input_type[k]);
            int64_t own[3] = {shape[0], shape[1], shape[2]};
            int kind = (int)rng_below(r, 5);
            if (kind == 1 || kind == 2)
                own[kind] = 1;
            o.in[k] = dense(3, own, size);
            if (kind == 3) {
                o.in[k].strides[1] = size;
                o.in[k].strides[2] = size * shape[1];
            } else if (kind == 4) {
                o.in[k].strides[2] = -size;
            }
            layout_measure(&o.in[k], size);
        }
        test_set_case("GPU matrices of %d x %d x %d, %s", (int)shape[0], (int)shape[1],
                      (int)shape[2], source_text(&s));
        compare(&s, &o, 0, r);
        mylib_program_free(s.program);
    }
}

/* More statements, constants, inputs and values at once than a launch takes. */
static void test_long(rng *r)
{
    static source s;
    static operands o;
    for (int i = 0; i < (test_quick ? 2 : test_rounds(40)); i++) {
        int inputs = i % 4 == 1 ? MAX_INPUTS : 1 + (int)rng_below(r, 4);
        int constants = i % 4 == 2 ? MAX_CONSTANTS : (int)rng_below(r, 5);
        int steps = i % 8 == 3 ? MAX_STEPS : 40 + (int)rng_below(r, 200);
        const int64_t shape[2] = {1 + rng_below(r, 3), 300 + rng_below(r, 3)};
        random_program(r, &s, inputs, constants, steps, 1);
        memset(&o, 0, sizeof o);
        o.out = dense(2, shape, test_size(s.result_type));
        o.in_place = -1;
        for (int k = 0; k < s.inputs; k++)
            o.in[k] = dense(2, shape, test_size(s.input_type[k]));
        test_set_case("a long program, %s", source_text(&s));
        compare(&s, &o, 0, r);
        mylib_program_free(s.program);
    }
}

/* Enough elements for several pieces, slots of the ring and thread blocks; pinned memory too. */
static void test_large(rng *r)
{
    static source s;
    static operands o;
    for (int i = 0; i < (test_quick ? 1 : test_rounds(12)); i++) {
        int64_t n = test_quick || test_is_emulated() ? 40000 + i : 400000 + i;
        any_program(r, &s);
        if (s.inputs > 6) {
            mylib_program_free(s.program);
            continue;
        }
        memset(&o, 0, sizeof o);
        o.out = row_of(n, test_size(s.result_type));
        o.in_place = -1;
        for (int k = 0; k < s.inputs; k++)
            o.in[k] = row_of(rng_once_in(r, 6) ? 1 : n, test_size(s.input_type[k]));
        for (int on_host = 0; on_host < 2; on_host++) {
            test_set_case("%s, n = %lld, %s", on_host ? "host arrays" : "GPU memory", (long long)n,
                          source_text(&s));
            compare(&s, &o, on_host, r);
        }
        mylib_program_free(s.program);
    }
}

/* a * a + b of i16, more elements than fit one piece of temporary memory, checked in windows. */
static void test_huge(rng *r)
{
    const int64_t n = ((int64_t)1 << 27) + 8192 + 77, window = 4096, chunk = 1 << 22;
    const mylib_type types[2] = {MYLIB_I16, MYLIB_I16};
    const mylib_step steps[2] = {{MYLIB_OP_multiply, MYLIB_I16, {0, 0, 0}},
                                 {MYLIB_OP_add, MYLIB_I16, {2, 1, 0}}};
    mylib_device_info info;
    mylib_program *program = NULL;
    void *data[3] = {NULL, NULL, NULL};
    int16_t *values;
    test_set_case("2^27 elements");
    CHECK_OK(mylib_cuda_device_info(0, &info));
    if (test_quick || info.free_nbytes < 8 * (uint64_t)n)
        return;
    values = test_malloc((size_t)chunk * sizeof *values);
    fill_values(r, MYLIB_I16, chunk, values);
    for (int k = 0; k < 3; k++)
        CHECK_OK(mylib_alloc(gpu, (size_t)n * 2, NULL, &data[k]));
    for (int64_t at = 0; at < n; at += chunk)
        for (int k = 1; k < 3; k++)
            CHECK_OK(mylib_copy(gpu, (int16_t *)data[k] + at, test_cpu, values,
                                (size_t)(n - at < chunk ? n - at : chunk) * 2, NULL));
    CHECK_OK(mylib_program_create(2, types, 0, NULL, 2, steps, &program));
    mylib_array out = {data[0], gpu, MYLIB_I16, 1, &n, NULL};
    mylib_array in[2] = {{data[1], gpu, MYLIB_I16, 1, &n, NULL},
                         {data[2], gpu, MYLIB_I16, 1, &n, NULL}};
    CHECK_OK(mylib_program_run(program, gpu, NULL, &out, in));
    const int64_t starts[] = {0, chunk - 7, n / 2 - 100, n - window};
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        int16_t got[4096];
        int64_t wrong = 0;
        CHECK_OK(mylib_copy(test_cpu, got, gpu, (int16_t *)data[0] + starts[i], sizeof got, NULL));
        for (int64_t j = 0; j < window; j++) {
            int32_t v = values[(starts[i] + j) % chunk];
            wrong += got[j] != (int16_t)(uint16_t)((uint32_t)v * (uint32_t)v + (uint32_t)v);
        }
        CHECK(wrong == 0, "%lld of the elements from %lld are wrong", (long long)wrong,
              (long long)starts[i]);
    }
    for (int k = 0; k < 3; k++)
        CHECK_OK(mylib_free(gpu, data[k], NULL));
    mylib_program_free(program);
    free(values);
}

/* ---- Reductions ---- */

/*
 * A reduction on the GPU and on the CPU, of the inputs that lie in 'before' where at[] says: all
 * bytes must come out the same.
 */
static void compare_reduction(const source *s, mylib_reduction reduction, mylib_type type,
                              const layout *out, mylib_type out_type, const layout *in,
                              const int64_t *at, int64_t used)
{
    mylib_array arrays[2][1 + MAX_INPUTS];
    memcpy(right, before, (size_t)used);
    for (int place = 0; place < 2; place++) {
        unsigned char *base = place == 0 ? right : on_device;
        mylib_device device = place == 0 ? test_cpu : gpu;
        arrays[place][0] = layout_array(out, out_type, device, base + at[0]);
        for (int k = 0; k < s->inputs; k++)
            arrays[place][1 + k] = layout_array(&in[k], s->input_type[k], device, base + at[1 + k]);
    }
    CHECK_OK(mylib_program_reduce(s->program, reduction, type, test_cpu, NULL, &arrays[0][0],
                                  &arrays[0][1]));
    CHECK_OK(mylib_copy(gpu, on_device, test_cpu, before, (size_t)used, NULL));
    CHECK_OK(
        mylib_program_reduce(s->program, reduction, type, gpu, NULL, &arrays[1][0], &arrays[1][1]));
    CHECK_OK(mylib_copy(test_cpu, after, gpu, on_device, (size_t)used, NULL));
    compare_images(out_type, at[0], out->span, used);
}

/* Results of a program, reduced along some dimensions, in pieces too. */
static void test_reductions(rng *r)
{
    static source s;
    static operands o;
    for (int i = 0; i < (test_quick ? 10 : test_rounds(500)); i++) {
        int64_t at[1 + MAX_INPUTS], used = 0;
        layout whole, out;
        any_program(r, &s);
        memset(&o, 0, sizeof o);
        random_sizes(r, &whole, test_quick ? 3000 : s.inputs > 8 ? 10000 : 40000);
        random_strides(r, &whole, 1, 1);
        /* The minimum of nothing is refused. */
        const mylib_reduction reduction =
            (mylib_reduction)rng_below(r, layout_count(&whole) == 0 ? MYLIB_MIN : 4);
        mylib_type type =
            rng_once_in(r, 3) ? s.result_type : (mylib_type)rng_below(r, TEST_COMPUTED_COUNT);
        if (type == MYLIB_BOOL)
            type = MYLIB_I64;
        mylib_type out_type = rng_once_in(r, 2) ? reduction_type(reduction, type) : type;
        out.ndim = rng_once_in(r, 4) ? 0 : whole.ndim;
        for (int d = 0; d < out.ndim; d++)
            out.shape[d] = rng_once_in(r, 2) ? whole.shape[d] : 1;
        random_strides(r, &out, test_size(out_type), 1);

        at[0] = reserve(&used, out.span, 0);
        int spans = 0; /* some input has all of the shape */
        for (int k = 0; k < s.inputs; k++) {
            random_input(r, &whole, &o.in[k], test_size(s.input_type[k]), 1);
            if (k == 0) {
                o.in[k] = whole;
                random_strides(r, &o.in[k], test_size(s.input_type[k]), 1);
                spans = 1;
            }
            at[1 + k] = reserve(&used, o.in[k].span, rng_below(r, 3) * test_size(s.input_type[k]));
        }
        test_set_case("%s of %s to %s, over %s, out of %d dimensions, %s",
                      reduction_names[reduction], test_types[type].name, test_types[out_type].name,
                      layout_text(&whole), out.ndim, source_text(&s));
        if (!spans) {
            mylib_program_free(s.program);
            continue;
        }
        memset(before, SENTINEL, (size_t)used);
        memset(before + at[0], POISON, (size_t)out.span);
        for (int k = 0; k < s.inputs; k++)
            fill_values(r, s.input_type[k], o.in[k].span / test_size(s.input_type[k]),
                        before + at[1 + k]);
        compare_reduction(&s, reduction, type, &out, out_type, o.in, at, used);
        mylib_program_free(s.program);
    }
}

/*
 * The order of sums of many terms: of rows with gaps, so that what is computed at once does not end
 * where rows do, and of columns; of numbers whose sum depends on the order.
 */
static void test_order(rng *r)
{
    static const int64_t shapes[][3] = {
        {1, 5, 4099}, {3, 7, 1501}, {1, 70, 301},  {2, 2, 9001},  {33, 33, 33},   {1, 1, 40961},
        {4099, 5, 3}, {9001, 1, 7}, {2100, 3, 20}, {260, 9, 130}, {2, 10000, 10}, {5000, 2, 64}};
    static source s;
    for (int i = 0; i < (test_quick ? 12 : test_rounds(240)); i++) {
        const mylib_type type = rng_once_in(r, 2) ? MYLIB_F64 : MYLIB_F32;
        const mylib_step steps[2] = {{MYLIB_OP_multiply, (int32_t)type, {0, 1, 0}},
                                     {MYLIB_OP_add, (int32_t)type, {2, 0, 0}}};
        const int64_t *shape = shapes[i % 12];
        /* Rows, or columns. */
        const int kept = i % 12 < 6 ? 0 : 2;
        int64_t at[3], used = 0;
        layout in[2] = {{.ndim = 3}, {.ndim = 3}}, out = {.ndim = 3};
        s.inputs = 2;
        s.input_type[0] = type;
        s.input_type[1] = rng_once_in(r, 2) ? type : MYLIB_I32;
        for (int d = 0; d < 3; d++) {
            in[0].shape[d] = in[1].shape[d] = shape[d];
            out.shape[d] = d == kept && rng_once_in(r, kept == 0 ? 2 : 1) ? shape[d] : 1;
        }
        if (rng_once_in(r, 4))
            in[1].shape[1] = 1;
        for (int k = 0; k < 2; k++) {
            in[k].strides[2] = test_size(s.input_type[k]);
            in[k].strides[1] = in[k].strides[2] * (shape[2] + (int64_t)rng_below(r, 2));
            in[k].strides[0] = in[k].strides[1] * shape[1];
            layout_measure(&in[k], test_size(s.input_type[k]));
        }
        out = dense(3, out.shape, test_size(type));
        at[0] = reserve(&used, out.span, 0);
        for (int k = 0; k < 2; k++)
            at[1 + k] = reserve(&used, in[k].span, 0);
        memset(before, POISON, (size_t)used);
        for (int k = 0; k < 2; k++)
            fill_ordinary(r, s.input_type[k], in[k].span / test_size(s.input_type[k]),
                          before + at[1 + k]);
        test_set_case("the sum of %s a * b + a, %d x %d x %d, to %d outputs", test_types[type].name,
                      (int)shape[0], (int)shape[1], (int)shape[2], (int)layout_count(&out));
        CHECK_OK(mylib_program_create(2, s.input_type, 0, NULL, rng_once_in(r, 4) ? 1 : 2, steps,
                                      &s.program));
        compare_reduction(&s, MYLIB_SUM, type, &out, type, in, at, used);
        mylib_program_free(s.program);
    }
}

/* A program that computes in one type alone, and gives it, of inputs that are promoted to it. */
static void reduced_program(rng *r, source *s, mylib_type type)
{
    static const mylib_type narrow[] = {MYLIB_BOOL, MYLIB_I8,  MYLIB_U8, MYLIB_I16,
                                        MYLIB_F16,  MYLIB_I32, MYLIB_F32};
    /* Some programs need more registers than 256 threads have room for. */
    const int is_wide = rng_once_in(r, 8), steps = is_wide ? 30 : 1 + (int)rng_below(r, 8);
    s->inputs = 1 + (int)rng_below(r, 4);
    s->constants = (int)rng_below(r, 3);
    s->steps = steps;
    for (int k = 0; k < s->inputs; k++)
        s->input_type[k] =
            rng_once_in(r, 4) ? narrow[rng_below(r, type == MYLIB_F64 ? 7 : 5)] : type;
    memset(s->constant, 0, sizeof s->constant);
    for (int k = 0; k < s->constants; k++) {
        s->constant[k].type = type;
        fill_ordinary(r, type, 1, s->constant[k].value);
    }
    for (int i = 0; i < steps; i++) {
        mylib_step *step = &s->step[i];
        const int values = s->inputs + s->constants + i, is_last = i + 1 == steps;
        const test_op *op;
        do
            op = &test_ops[rng_below(r, MYLIB_OP_COUNT)];
        while (!test_is_total(op, type) || test_reads_nan_sign(op));
        *step = (mylib_step){.op = op->op, .type = (int32_t)type};
        int arity = op->arity;
        if (is_last) { /* what is reduced has the type itself */
            step->op = rng_once_in(r, 2) ? MYLIB_OP_add : MYLIB_OP_multiply;
            arity = 2;
        } else if (rng_once_in(r, 8)) {
            step->op = MYLIB_STEP_SELECT;
            arity = 3;
        }
        for (int k = 0; k < arity; k++)
            step->operand[k] = operand_from(r, values, is_wide);
        if (is_last && i > 0)
            step->operand[0] = values - 1;
    }
    CHECK_OK(mylib_program_create(s->inputs, s->input_type, s->constants, s->constant, steps,
                                  s->step, &s->program));
    CHECK_OK(mylib_program_result_type(s->program, &s->result_type));
}

/* a + a, which keeps the sign of a zero. */
static void doubled_program(source *s, mylib_type type)
{
    s->inputs = s->steps = 1;
    s->constants = 0;
    s->input_type[0] = type;
    s->step[0] = (mylib_step){MYLIB_OP_add, (int32_t)type, {0, 0, 0}};
    CHECK_OK(mylib_program_create(1, s->input_type, 0, NULL, 1, s->step, &s->program));
    CHECK_OK(mylib_program_result_type(s->program, &s->result_type));
}

/* Zeros of both signs, or negative ones: the first of equal minima counts, and -0 - 0 is -0. */
static void fill_zeros(rng *r, mylib_type type, int64_t n, unsigned char *values)
{
    const int64_t size = test_size(type), signs = rng_once_in(r, 2) ? 1 : 2;
    memset(values, 0, (size_t)(n * size));
    for (int64_t i = 0; i < n; i++)
        values[i * size + size - 1] = rng_below(r, signs) == 0 ? 0x80 : 0;
}

/*
 * Results that are reduced as they are computed: terms around the sizes of lanes, blocks and parts
 * of a thread block, of one output, a few or many.  Outputs lie one after the other, with gaps
 * between them or none, or side by side; an input may be the same for all outputs or terms.
 */
static void test_reduced(rng *r)
{
    static const int64_t sizes[] = {1,    2,    3,     5,     127,   128,   255,   256,  257,
                                    511,  513,  2047,  2048,  2049,  4095,  4097,  6144, 8191,
                                    8193, 9001, 16383, 20000, 40961, 65536, 131077};
    static source s;
    for (int i = 0; i < (test_quick ? 25 : test_rounds(500)); i++) {
        const mylib_type type = rng_once_in(r, 2) ? MYLIB_F64 : MYLIB_F32;
        const mylib_reduction reduction = (mylib_reduction)rng_below(r, 4);
        int64_t columns = sizes[i % 25], used = 0, at[1 + MAX_INPUTS];
        if (columns > 20000 && test_quick)
            columns = 10000;
        enum { PADDED, IN_ONE_PIECE, ACROSS } lie = (int)rng_below(r, 3);
        const int64_t most = lie == PADDED ? 5 : 20000 / columns + 2;
        const int64_t rows = columns < 20000 && rng_once_in(r, 4) == 0 ? 1 + rng_below(r, most) : 1;
        const int64_t shape[2] = {rows, 1}, gap = rng_once_in(r, 3) ? 16 : 0;
        const int is_ordinary = rng_once_in(r, 2), is_broadcast = rng_once_in(r, 3);
        const int is_zero = rng_once_in(r, 6);
        layout in[MAX_INPUTS], out = dense(2, shape, test_size(type));
        if (is_zero)
            doubled_program(&s, type);
        else
            reduced_program(r, &s, type);
        if (rng_once_in(r, 4)) { /* outputs with gaps */
            out.strides[0] *= 3;
            layout_measure(&out, test_size(type));
        }
        at[0] = reserve(&used, out.span, 0);
        memset(before, POISON, IMAGE_NBYTES / 8);
        for (int k = 0; k < s.inputs; k++) {
            const int64_t size = test_size(s.input_type[k]);
            in[k] = (layout){.ndim = 2, .shape = {rows, columns}, .strides = {0, size}};
            if (lie == PADDED)
                in[k].strides[0] = ((columns + 15) / 16 * 16 + gap) * size;
            else if (lie == IN_ONE_PIECE)
                in[k].strides[0] = columns * size;
            else
                in[k].strides[0] = size, in[k].strides[1] = rows * size;
            if (k > 0 && is_broadcast)
                in[k].shape[rng_below(r, 2)] = 1;
            layout_measure(&in[k], size);
            at[1 + k] = reserve(&used, in[k].span, rng_once_in(r, 20) ? size : 0);
            const int64_t n = in[k].span / size;
            if (is_zero)
                fill_zeros(r, type, n, before + at[1 + k]);
            else if (is_ordinary)
                fill_ordinary(r, s.input_type[k], n, before + at[1 + k]);
            else
                fill_values(r, s.input_type[k], n, before + at[1 + k]);
        }
        test_set_case("reduction %d of %d rows of %d %s, lie %d: %s", (int)reduction, (int)rows,
                      (int)columns, test_types[type].name, (int)lie, source_text(&s));
        compare_reduction(&s, reduction, type, &out, type, in, at, used);
        mylib_program_free(s.program);
    }
}

/* ---- Errors ---- */

/* Host memory that is said to be the GPU's, elements that are not aligned, partial overlap. */
static void test_errors(void)
{
    const mylib_step steps[2] = {{MYLIB_OP_multiply, MYLIB_F64, {0, 1, 0}},
                                 {MYLIB_OP_add, MYLIB_F64, {2, 1, 0}}};
    const int64_t n = 100, stride = 12;
    double host[100] = {0};
    mylib_program *program = test_program(2, steps);
    mylib_array good = {on_device, gpu, MYLIB_F64, 1, &n, NULL};
    for (int k = 0; k < 3; k++) {
        for (int wrong = 0; wrong < 3; wrong++) {
            mylib_array a[3] = {good, good, good};
            for (int j = 0; j < 3; j++)
                a[j].data = on_device + 4096 * j;
            if (wrong == 0)
                a[k].data = host;
            else if (wrong == 1)
                a[k].data = (char *)a[k].data + 4;
            else
                a[k].strides = &stride;
            test_set_case("operand %d of a program, wrong in way %d", k, wrong);
            CHECK_STATUS(mylib_program_run(program, gpu, NULL, &a[0], &a[1]), MYLIB_ERR_ARGUMENT);
            mylib_array sum = {on_device + (1 << 20), gpu, MYLIB_F64, 0, NULL, NULL};
            if (k > 0)
                CHECK_STATUS(
                    mylib_program_reduce(program, MYLIB_SUM, MYLIB_F64, gpu, NULL, &sum, &a[1]),
                    MYLIB_ERR_ARGUMENT);
        }
    }
    test_set_case("out overlaps an input of a program");
    mylib_array shifted = good, in[2] = {good, good};
    shifted.data = on_device + 8;
    CHECK_STATUS(mylib_program_run(program, gpu, NULL, &shifted, in), MYLIB_ERR_ARGUMENT);
    test_set_case("no elements, addresses that are nobody's");
    const int64_t none = 0;
    mylib_array empty = {NULL, gpu, MYLIB_F64, 1, &none, NULL}, no[2] = {empty, empty};
    CHECK_OK(mylib_program_run(program, gpu, NULL, &empty, no));
    mylib_program_free(program);
}

/* The flags of a single operation over host arrays belong to its operands, whatever their order. */
static void test_flags(void)
{
    const int64_t n = 4;
    double x[4] = {1, 2, 0, 4}, y[4] = {5, 6, 7, 8}, quotient[4];
    for (int turned = 0; turned < 2; turned++) {
        const mylib_step step = {MYLIB_OP_divide, MYLIB_F64, {turned, 1 - turned, 0}};
        const mylib_array out = {quotient, test_cpu, MYLIB_F64, 1, &n, NULL};
        const mylib_array in[2] = {test_row(x, MYLIB_F64, &n), test_row(y, MYLIB_F64, &n)};
        mylib_program *program = test_program(1, &step);
        test_set_case("in[%d] / in[%d]", turned, 1 - turned);
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_OK(mylib_program_run(program, gpu, NULL, &out, in));
        CHECK((fetestexcept(FE_DIVBYZERO) != 0) == turned, "divisions by zero");
        CHECK(!fetestexcept(FE_OVERFLOW | FE_INVALID), "a flag without a reason");
        mylib_program_free(program);
    }
}

/* A call that runs out of memory says so, changes nothing else, and leaves nothing behind. */
static void test_memory(void)
{
    const mylib_type type = MYLIB_C128;
    const mylib_step steps[3] = {{MYLIB_OP_multiply, MYLIB_C128, {0, 0, 0}},
                                 {MYLIB_STEP_CONVERT, MYLIB_F64, {1, 0, 0}},
                                 {MYLIB_OP_add, MYLIB_F64, {2, 2, 0}}};
    const int64_t n = 100000;
    mylib_memory_info info, then;
    mylib_program *program = NULL;
    test_set_case("a program without memory for what is temporary");
    CHECK_OK(mylib_program_create(1, &type, 0, NULL, 3, steps, &program));
    CHECK_OK(mylib_cuda_memory_info(0, &info));
    CHECK_OK(mylib_cuda_set_memory_limit(0, info.used_nbytes));
    mylib_array in = {on_device, gpu, MYLIB_C128, 1, &n, NULL};
    mylib_array out = {on_device + 16 * n, gpu, MYLIB_F64, 1, &n, NULL};
    CHECK_STATUS(mylib_program_run(program, gpu, NULL, &out, &in), MYLIB_ERR_NO_MEMORY);
    CHECK_OK(mylib_cuda_set_memory_limit(0, UINT64_MAX));
    CHECK_OK(mylib_program_run(program, gpu, NULL, &out, &in));
    CHECK_OK(mylib_synchronize(gpu, NULL));
    CHECK_OK(mylib_cuda_memory_info(0, &then));
    CHECK(then.used_nbytes == info.used_nbytes, "%llu bytes were in use, now %llu",
          (unsigned long long)info.used_nbytes, (unsigned long long)then.used_nbytes);
    mylib_program_free(program);
}

int main(int argc, char **argv)
{
    test_begin_gpu("gpu_program", argc, argv, NULL);
    open_images();
    memset(before, 0, IMAGE_NBYTES);
    CHECK_OK(mylib_copy(gpu, on_device, test_cpu, before, IMAGE_NBYTES, NULL));

    rng r = rng_make(0);
    test_errors();
    test_flags();
    test_memory();
    test_contiguous(&r);
    test_ends(&r);
    test_strided(&r, 0);
    test_strided(&r, 1);
    test_matrices(&r);
    test_long(&r);
    test_large(&r);
    test_reductions(&r);
    test_order(&r);
    test_reduced(&r);
    test_huge(&r);

    close_images();
    return test_end();
}
