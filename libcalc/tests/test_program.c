/*
 * Programs: what they give is what their steps give one after the other, to the bit and with the
 * same floating-point flags, whatever the types, conversions, shapes, strides and overlap; reduced
 * too; from many threads at once.  Invalid programs are refused, with a message that says where.
 *
 * Random programs run over operands that end at guard pages, at every CPU level.
 */
#include "guard.h"
#include "internal.h"
#include "layout.h"
#include "reduction_case.h"
#include "reference.h"

#include <fenv.h>
#include <sys/resource.h>

#define POISON 0xa5
#define FLAGS (FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW)
#define MOST_INPUTS 6
#define MOST_STEPS 80
#define MOST_COUNT 24000
#define ROOM_NBYTES (8 * 1024 * 1024)

/* ---- Random programs ---- */

typedef struct expression {
    int inputs, constants, steps;
    mylib_type input_type[MOST_INPUTS];
    mylib_constant constant[MOST_STEPS];
    mylib_step step[MOST_STEPS];
    mylib_type type[MOST_INPUTS + 2 * MOST_STEPS]; /* of each value */
} expression;

static int values_of(const expression *x) { return x->inputs + x->constants + x->steps; }

static mylib_type any_type(rng *r) { return (mylib_type)rng_below(r, MYLIB_TYPE_COUNT); }

/* A value before the next step; mostly one of the last few. */
static int any_value(rng *r, const expression *x)
{
    int values = values_of(x), back = rng_once_in(r, 2) ? 4 : values;
    return values - 1 - (int)rng_below(r, back < values ? back : values);
}

static void add_step(expression *x, int op, mylib_type type, mylib_type result, int a, int b, int c)
{
    x->type[values_of(x)] = result;
    x->step[x->steps++] = (mylib_step){op, (int32_t)type, {a, b, c}};
}

/* Tells whether a step would show the sign of a computed NaN, which may be any. */
static int shows_nan(const expression *x, mylib_op op, int a, int b)
{
    int k = op == MYLIB_OP_signbit ? a : op == MYLIB_OP_copysign ? b : 0;
    return k >= x->inputs + x->constants && !test_is_integer(x->type[k]);
}

static void add_random_step(rng *r, expression *x)
{
    int a = any_value(r, x), b = any_value(r, x), c = any_value(r, x);
    mylib_type type = rng_once_in(r, 4) ? any_type(r) : x->type[a];
    if (rng_once_in(r, 6)) {
        add_step(x, MYLIB_STEP_CONVERT, type, type, a, 0, 0);
    } else if (rng_once_in(r, 6)) {
        add_step(x, MYLIB_STEP_SELECT, type, type, b, a, c);
    } else {
        const test_op *op = &test_ops[rng_below(r, MYLIB_OP_COUNT)];
        while (!test_is_total(op, type) || shows_nan(x, op->op, a, b)) {
            op = &test_ops[rng_below(r, MYLIB_OP_COUNT)];
            type = (mylib_type)rng_below(r, TEST_COMPUTED_COUNT);
        }
        add_step(x, (int)op->op, type, test_result_type(op, type), a, op->arity == 2 ? b : 0, 0);
    }
}

/* No signalling NaN: whether those raise a flag depends on the instructions that move them. */
static void quieten(mylib_type type, int64_t n, unsigned char *values)
{
    int64_t part = test_size(test_real_type(type)), parts = n * test_size(type) / part;
    for (int64_t i = 0; i < parts && !test_is_integer(type); i++) {
        unsigned char *p = values + i * part;
        int is_special = part == 2   ? (p[1] & 0x7c) == 0x7c
                         : part == 4 ? (p[3] & 0x7f) == 0x7f && (p[2] & 0x80) != 0
                                     : (p[7] & 0x7f) == 0x7f && (p[6] & 0xf0) == 0xf0;
        unsigned char fraction = part == 2 ? p[1] & 3 : part == 4 ? p[2] & 0x7f : p[6] & 0xf;
        for (int k = 0; k < part - 2 + (part == 2); k++)
            fraction |= p[k];
        if (is_special && fraction != 0)
            p[part == 2 ? 1 : part - 2] |= part == 2 ? 2 : part == 4 ? 0x40 : 8;
    }
}

static void random_expression(rng *r, expression *x)
{
    int steps = 1 + (int)rng_below(r, rng_once_in(r, 10) ? MOST_STEPS : 10);
    mylib_type usual = any_type(r);
    memset(x, 0, sizeof *x);
    x->inputs = (int)rng_below(r, MOST_INPUTS + 1);
    for (int k = 0; k < x->inputs; k++)
        x->type[k] = x->input_type[k] = rng_once_in(r, 3) ? any_type(r) : usual;
    x->constants = (int)rng_below(r, 4) + (x->inputs == 0);
    for (int k = 0; k < x->constants; k++) {
        mylib_type type = rng_once_in(r, 2) ? any_type(r) : usual;
        x->type[x->inputs + k] = type;
        x->constant[k].type = (int32_t)type;
        fill_values(r, type, 1, x->constant[k].value);
        quieten(type, 1, x->constant[k].value);
        if (type == MYLIB_BOOL)
            x->constant[k].value[0] &= 1;
    }
    while (x->steps < steps)
        add_random_step(r, x);
}

static mylib_program *create(const expression *x)
{
    mylib_program *program = NULL;
    CHECK_OK(mylib_program_create(x->inputs, x->input_type, x->constants, x->constant, x->steps,
                                  x->step, &program));
    return program;
}

/* "f64 i8 | 3 | add f64 0 1, ..." */
static void set_case(const expression *x, const char *what)
{
    char text[260];
    size_t used = 0;
    for (int k = 0; k < x->inputs + x->constants && used + 12 < sizeof text; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s ",
                                 k == x->inputs ? "| " : "", test_types[x->type[k]].name);
    for (int i = 0; i < x->steps && used + 50 < sizeof text; i++) {
        const mylib_step *s = &x->step[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "; %s %s %d %d %d",
                                 s->op == MYLIB_STEP_CONVERT  ? "convert"
                                 : s->op == MYLIB_STEP_SELECT ? "select"
                                                              : test_ops[s->op].name,
                                 test_types[s->type].name, (int)s->operand[0], (int)s->operand[1],
                                 (int)s->operand[2]);
    }
    test_set_case("%s: %s", what, text);
}

/* ---- Step by step ---- */

static int step_operands(const mylib_step *s)
{
    return s->op == MYLIB_STEP_CONVERT ? 1 : s->op == MYLIB_STEP_SELECT ? 3 : test_ops[s->op].arity;
}

/*
 * Every step that the result needs, over whole arrays of the shape `l`; the result, without gaps,
 * goes to `out`.  Returns the flags that were raised.
 */
static int run_steps(const expression *x, const layout *l, const mylib_array *in, void *out)
{
    int given = x->inputs + x->constants, needed[MOST_INPUTS + 2 * MOST_STEPS] = {0};
    mylib_array value[MOST_INPUTS + 2 * MOST_STEPS];
    int64_t count = layout_count(l);
    needed[values_of(x) - 1] = 1;
    for (int i = x->steps - 1; i >= 0; i--)
        for (int k = 0; k < step_operands(&x->step[i]) && needed[given + i]; k++)
            needed[x->step[i].operand[k]] = 1;
    for (int k = 0; k < x->inputs; k++)
        value[k] = in[k];
    for (int k = 0; k < x->constants; k++)
        value[x->inputs + k] = (mylib_array){
            (void *)x->constant[k].value, test_cpu, x->type[x->inputs + k], 0, NULL, NULL};
    feclearexcept(FE_ALL_EXCEPT);
    for (int i = 0; i < x->steps; i++) {
        const mylib_step *s = &x->step[i];
        mylib_array *result = &value[given + i], operand[3];
        mylib_type type = x->type[given + i];
        if (!needed[given + i])
            continue;
        *result = (mylib_array){NULL, test_cpu, type, l->ndim, l->shape, NULL};
        result->data = test_malloc((size_t)(count * test_size(type)) + 1);
        for (int k = 0; k < step_operands(s); k++)
            operand[k] = value[s->operand[k]];
        if (s->op == MYLIB_STEP_CONVERT)
            CHECK_OK(mylib_copy_array(NULL, result, &operand[0]));
        else if (s->op == MYLIB_STEP_SELECT)
            CHECK_OK(mylib_select(test_cpu, NULL, result, &operand[0], &operand[1], &operand[2]));
        else
            CHECK_OK(mylib_map_as((mylib_op)s->op, (mylib_type)s->type, test_cpu, NULL, result,
                                  operand));
    }
    int flags = fetestexcept(FLAGS);
    memcpy(out, value[values_of(x) - 1].data,
           (size_t)(count * test_size(x->type[values_of(x) - 1])));
    for (int i = 0; i < x->steps; i++)
        if (needed[given + i])
            free(value[given + i].data);
    return flags;
}

/* ---- Operands ---- */

static guard in_guard[MOST_INPUTS], out_guard;
static unsigned char expected[MOST_COUNT * TEST_MAX_SIZE], image[ROOM_NBYTES];

/* Memory of an operand against one of the guard pages. */
static unsigned char *place(rng *r, const guard *g, const layout *l)
{
    return rng_once_in(r, 2) ? g->begin : g->end - l->span;
}

/* Values for the elements of an operand, whose memory begins at `at`. */
static void fill(rng *r, mylib_type type, const layout *l, unsigned char *at)
{
    static unsigned char values[MOST_COUNT * TEST_MAX_SIZE];
    int64_t n = layout_count(l), size = test_size(type), index[MYLIB_MAX_NDIM] = {0}, i = 0;
    memset(at, 0, (size_t)l->span);
    if (n == 0)
        return;
    if (rng_once_in(r, 4))
        fill_ordinary(r, type, n, values);
    else
        fill_values(r, type, n, values);
    quieten(type, n, values);
    for (int64_t k = 0; k < n && type == MYLIB_BOOL; k++)
        values[k] &= 1;
    do
        memcpy(at + l->offset + layout_at(l, l, index), values + i++ * size, (size_t)size);
    while (layout_next(l, index));
}

/* Bytes of `out` between elements must be unchanged; elements must be as expected. */
static void check_output(mylib_type type, const layout *l, unsigned char *lowest)
{
    int64_t size = test_size(type), index[MYLIB_MAX_NDIM] = {0}, i = 0;
    if (layout_count(l) != 0) {
        do {
            unsigned char *got = lowest + l->offset + layout_at(l, l, index);
            if (!same_value(type, got, expected + i * size)) {
                CHECK(0, "element %lld is %s, not %s", (long long)i, describe(type, got),
                      describe(type, expected + i * size));
                return;
            }
            memset(got, POISON, (size_t)size);
            i++;
        } while (layout_next(l, index));
    }
    for (int64_t k = 0; k < l->span; k++)
        if (lowest[k] != POISON) {
            CHECK(0, "byte %lld, which is no element, was written", (long long)k);
            return;
        }
    CHECK(1, " ");
}

static const char *flags_text(int flags)
{
    static _Thread_local char text[2][64];
    static _Thread_local int turn;
    char *t = text[turn++ % 2];
    snprintf(t, sizeof text[0], "%s%s%s.", flags & FE_DIVBYZERO ? "DIVBYZERO " : "",
             flags & FE_INVALID ? "INVALID " : "", flags & FE_OVERFLOW ? "OVERFLOW " : "");
    return t;
}

/*
 * A complex quotient is computed in one of two ways, and compiled code may raise what only the
 * other would, depending on strides: its flags say nothing about programs.
 */
static int divides_complex(const expression *x)
{
    for (int i = 0; i < x->steps; i++)
        if (x->step[i].op == MYLIB_OP_divide && x->step[i].type >= MYLIB_C64)
            return 1;
    return 0;
}

static void check_flags(int right)
{
    int flags = fetestexcept(FLAGS);
    CHECK(flags == right, "raised %s not %s", flags_text(flags), flags_text(right));
}

/* A shape, and inputs that broadcast to it. */
static void random_operands(rng *r, const expression *x, layout *out, layout *in,
                            mylib_array *array)
{
    if (rng_once_in(r, 12)) { /* long rows: several blocks, and an end */
        out->ndim = 1 + (int)rng_below(r, 2);
        out->shape[0] = 1 + rng_below(r, out->ndim == 1 ? MOST_COUNT : 3);
        out->shape[1] = 1 + rng_below(r, MOST_COUNT / 3);
    } else {
        random_shape(r, out, 400);
    }
    random_strides(r, out, test_size(x->type[values_of(x) - 1]), 0);
    for (int k = 0; k < x->inputs; k++) {
        random_input(r, out, &in[k], test_size(x->type[k]), 0);
        if (rng_once_in(r, 5)) {
            in[k].ndim = 0;
            layout_measure(&in[k], test_size(x->type[k]));
        }
        unsigned char *at = place(r, &in_guard[k], &in[k]);
        fill(r, x->type[k], &in[k], at);
        array[k] = layout_array(&in[k], x->type[k], test_cpu, at);
    }
}

static int fits(const layout *l) { return l->span <= ROOM_NBYTES; }

/* ---- Programs against their steps ---- */

static void test_random(rng *r, const char *level, int count)
{
    for (int i = 0; i < count; i++) {
        expression x;
        layout out, in[MOST_INPUTS];
        mylib_array array[MOST_INPUTS];
        random_expression(r, &x);
        set_case(&x, level);
        random_operands(r, &x, &out, in, array);
        mylib_type type = x.type[values_of(&x) - 1], told = MYLIB_BOOL;
        mylib_program *program = create(&x);
        if (program == NULL)
            return;
        CHECK_OK(mylib_program_result_type(program, &told));
        CHECK(told == type, "the result type is %s, not %s", mylib_type_name(told),
              mylib_type_name(type));
        int flags = run_steps(&x, &out, array, expected);
        unsigned char *at = place(r, &out_guard, &out);
        memset(at, POISON, (size_t)out.span);
        mylib_array result = layout_array(&out, type, test_cpu, at);
        feclearexcept(FE_ALL_EXCEPT);
        int ran = CHECK_OK(mylib_program_run(program, test_cpu, NULL, &result, array));
        if (layout_count(&out) == 0)
            flags = 0;
        if (ran) {
            if (!divides_complex(&x))
                check_flags(flags);
            check_output(type, &out, at);
        }
        mylib_program_free(program);
    }
}

/* The output is an input exactly, or overlaps one: then one element after the other. */
static void test_overlap(rng *r, const char *level, int count)
{
    for (int i = 0; i < count; i++) {
        expression x;
        layout out, in[MOST_INPUTS];
        mylib_array array[MOST_INPUTS], element[MOST_INPUTS];
        random_expression(r, &x);
        if (x.inputs == 0)
            continue;
        random_operands(r, &x, &out, in, array);
        int last = values_of(&x) - 1, k = (int)rng_below(r, x.inputs);
        mylib_type type = x.type[last];
        int64_t size = test_size(type), index[MYLIB_MAX_NDIM] = {0}, shift = 0;
        if (layout_count(&out) == 0 || layout_count(&out) > 2000 || size != test_size(x.type[k]))
            continue;
        set_case(&x, level);
        mylib_program *program = create(&x);
        if (program == NULL)
            return;
        /* Input k is laid like the output, both in one memory. */
        in[k] = out;
        if (rng_once_in(r, 2))
            shift = rng_once_in(r, 2) ? size : rng_below(r, 3 * size);
        /* A NaN may have any bits, which parts of elements would show. */
        if (!test_is_integer(type) || !test_is_integer(x.type[k]))
            shift = shift / size * size;
        unsigned char *at = out_guard.begin;
        fill(r, x.type[k], &in[k], at);
        memset(at + out.span, 0, (size_t)shift);
        array[k] = layout_array(&in[k], x.type[k], test_cpu, at);
        mylib_array result = layout_array(&out, type, test_cpu, at + shift);

        memcpy(image, at, (size_t)(out.span + shift));
        do {
            unsigned char *target = at + shift + out.offset + layout_at(&out, &out, index);
            mylib_array single = {target, test_cpu, type, 0, NULL, NULL};
            for (int j = 0; j < x.inputs; j++) {
                element[j] = array[j];
                element[j].data = (char *)array[j].data + layout_at(&in[j], &out, index);
                element[j].ndim = 0;
            }
            CHECK_OK(mylib_program_run(program, test_cpu, NULL, &single, element));
        } while (layout_next(&out, index));
        for (int64_t b = 0; b < out.span + shift; b++) { /* swap: what is right, what was there */
            unsigned char right = at[b];
            at[b] = image[b];
            image[b] = right;
        }
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &result, array));
        memset(index, 0, sizeof index);
        do {
            int64_t offset = shift + out.offset + layout_at(&out, &out, index);
            if (!same_value(type, at + offset, image + offset)) {
                CHECK(0, "overlap by %lld bytes: %s, not %s", (long long)shift,
                      describe(type, at + offset), describe(type, image + offset));
                break;
            }
        } while (layout_next(&out, index));
        mylib_program_free(program);
    }
}

/* ---- Reductions ---- */

/* Results of a program are reduced as if an array had stored them. */
static void test_reductions(rng *r, const char *level, int count)
{
    for (int i = 0; i < count; i++) {
        expression x;
        layout whole, out, in[MOST_INPUTS];
        mylib_array array[MOST_INPUTS];
        unsigned char *stored, *single;
        random_expression(r, &x);
        random_sizes(r, &whole, MOST_COUNT);
        if (x.inputs == 0)
            whole.ndim = 0;
        for (int k = 0; k < x.inputs; k++) {
            if (k == 0) {
                in[0] = whole;
                random_strides(r, &in[0], test_size(x.type[0]), 0);
            } else {
                random_input(r, &whole, &in[k], test_size(x.type[k]), 0);
            }
            if (!fits(&in[k]))
                test_give_up("an input does not fit its memory");
            unsigned char *at = place(r, &in_guard[k], &in[k]);
            fill(r, x.type[k], &in[k], at);
            array[k] = layout_array(&in[k], x.type[k], test_cpu, at);
        }
        mylib_reduction reduction = (mylib_reduction)rng_below(r, 4);
        mylib_type given = x.type[values_of(&x) - 1];
        mylib_type type = given == MYLIB_BOOL || rng_once_in(r, 3)
                              ? (mylib_type)rng_below(r, TEST_COMPUTED_COUNT)
                              : given;
        mylib_type out_type = rng_once_in(r, 3) ? type : reduction_type(reduction, type);
        const int is_carried = out_type == reduction_type(MYLIB_SUM, type);
        if (reduction == MYLIB_SUM && is_carried && !test_is_integer(type) && rng_once_in(r, 3))
            reduction = MYLIB_MEAN;
        int reduces_all = rng_once_in(r, 4), is_empty = 0, has_outputs = 1;
        out.ndim = reduces_all ? 0 : whole.ndim;
        for (int d = 0; d < whole.ndim; d++) {
            int reduces = reduces_all || rng_once_in(r, 2);
            out.shape[d] = reduces ? 1 : whole.shape[d];
            is_empty |= reduces && whole.shape[d] == 0;
            has_outputs &= out.shape[d] != 0;
        }
        if (is_empty && has_outputs && reduction >= MYLIB_MIN)
            continue;
        random_strides(r, &out, test_size(out_type), 0);
        set_case(&x, level);
        mylib_program *program = create(&x);
        if (program == NULL)
            return;

        int64_t values = layout_count(&whole), results = layout_count(&out);
        stored = test_malloc((size_t)(values * test_size(given)) + 1);
        single = test_malloc((size_t)(results * test_size(out_type)) + 1);
        mylib_array all = {stored, test_cpu, given, whole.ndim, whole.shape, NULL};
        mylib_array right = {single, test_cpu, out_type, out.ndim, out.shape, NULL};
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &all, array));
        CHECK_OK(mylib_reduce(reduction, type, test_cpu, NULL, &right, &all));
        int flags = fetestexcept(FLAGS);
        memcpy(expected, single, (size_t)(results * test_size(out_type)));

        unsigned char *at = place(r, &out_guard, &out);
        memset(at, POISON, (size_t)out.span);
        mylib_array result = layout_array(&out, out_type, test_cpu, at);
        feclearexcept(FE_ALL_EXCEPT);
        if (CHECK_OK(
                mylib_program_reduce(program, reduction, type, test_cpu, NULL, &result, array))) {
            if (!divides_complex(&x))
                check_flags(flags);
            check_output(out_type, &out, at);
        }
        free(stored);
        free(single);
        mylib_program_free(program);
    }
}

/* ---- Large arrays, many threads ---- */

enum { MANY = 1 << 20, RUNNERS = 4 };

/* (a * b + c) / (i - 2.5), with an i32 that is converted, and 1 where it is less than 0. */
static mylib_program *make_mixed(void)
{
    const mylib_type types[4] = {MYLIB_F64, MYLIB_F64, MYLIB_F32, MYLIB_I32};
    const double numbers[2] = {2.5, 1};
    mylib_constant constant[2];
    const mylib_step step[] = {
        {MYLIB_OP_multiply, MYLIB_F64, {0, 1, 0}}, {MYLIB_OP_add, MYLIB_F64, {6, 2, 0}},
        {MYLIB_OP_subtract, MYLIB_F64, {3, 4, 0}}, {MYLIB_OP_divide, MYLIB_F64, {7, 8, 0}},
        {MYLIB_OP_less, MYLIB_I32, {3, 4, 0}},     {MYLIB_STEP_SELECT, MYLIB_F64, {10, 5, 9}}};
    mylib_program *program = NULL;
    memset(constant, 0, sizeof constant);
    for (int k = 0; k < 2; k++) {
        constant[k].type = MYLIB_F64;
        memcpy(constant[k].value, &numbers[k], sizeof numbers[k]);
    }
    CHECK_OK(mylib_program_create(4, types, 2, constant, 6, step, &program));
    return program;
}

static double *large_a, *large_b;
static float *large_c;
static int32_t *large_i;
static const mylib_program *shared_program;

static double mixed(int64_t k)
{
    volatile double product = large_a[k] * large_b[k]; /* rounded, as a step of its own */
    return large_i[k] < 2 ? 1 : (product + (double)large_c[k]) / (large_i[k] - 2.5);
}

/* Runs the program several times over its own stretch of the inputs. */
static void *run_often(void *argument)
{
    int64_t n = 30000 + 1000 * (intptr_t)argument, first = 17 * (intptr_t)argument;
    double *out = test_malloc((size_t)n * sizeof *out);
    for (int repeat = 0; repeat < 30; repeat++) {
        const mylib_array in[4] = {
            test_row(large_a + first, MYLIB_F64, &n), test_row(large_b + first, MYLIB_F64, &n),
            test_row(large_c + first, MYLIB_F32, &n), test_row(large_i + first, MYLIB_I32, &n)};
        const mylib_array result = {out, test_cpu, MYLIB_F64, 1, &n, NULL};
        memset(out, POISON, (size_t)n * sizeof *out);
        CHECK_OK(mylib_program_run(shared_program, test_cpu, NULL, &result, in));
        int64_t k = 0;
        while (k < n && out[k] == mixed(first + k))
            k++;
        CHECK(k == n, "element %lld is %g, not %g", (long long)k, out[k], mixed(first + k));
    }
    free(out);
    return NULL;
}

/* The most memory that the process has ever had, in KiB. */
static long peak_kib(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        test_give_up("getrusage failed");
    return usage.ru_maxrss;
}

/* Shares of threads, blocks past the cache at any alignment; callers at the same time. */
static void test_large(rng *r)
{
    int64_t n = 3 * MANY + 5;
    double *out = test_malloc((size_t)(n + 16) * sizeof *out);
    large_a = test_malloc((size_t)n * sizeof *large_a);
    large_b = test_malloc((size_t)n * sizeof *large_b);
    large_c = test_malloc((size_t)n * sizeof *large_c);
    large_i = test_malloc((size_t)n * sizeof *large_i);
    fill_ordinary(r, MYLIB_F64, n, large_a);
    fill_ordinary(r, MYLIB_F64, n, large_b);
    fill_ordinary(r, MYLIB_F32, n, large_c);
    fill_ordinary(r, MYLIB_I32, n, large_i);
    mylib_program *program = make_mixed();
    shared_program = program;
    test_set_case("a large program, %lld elements", (long long)n);
    for (int repeat = 0; repeat < 4 && program != NULL; repeat++) {
        unsigned char *first = (unsigned char *)out + rng_below(r, 64);
        const mylib_array in[4] = {
            test_row(large_a, MYLIB_F64, &n), test_row(large_b, MYLIB_F64, &n),
            test_row(large_c, MYLIB_F32, &n), test_row(large_i, MYLIB_I32, &n)};
        const mylib_array result = {first, test_cpu, MYLIB_F64, 1, &n, NULL};
        memset(out, POISON, (size_t)(n + 16) * sizeof *out);
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &result, in));
        int64_t wrong = -1;
        for (int64_t k = 0; k < n && wrong < 0; k++) {
            double got, right = mixed(k);
            memcpy(&got, first + k * 8, sizeof got);
            wrong = got == right ? -1 : k;
        }
        CHECK(wrong < 0, "element %lld is wrong", (long long)wrong);
        unsigned char *end = first + n * 8;
        CHECK(*end == POISON && (first == (unsigned char *)out || first[-1] == POISON),
              "bytes beside the output were written");
    }
    if (program != NULL) {
        /* Transposed, so that terms are gathered; the first run starts the threads. */
        int64_t shape[2] = {MANY / 1024, 3 * 1024}, strides[4][2];
        const void *data[4] = {large_a, large_b, large_c, large_i};
        const mylib_type types[4] = {MYLIB_F64, MYLIB_F64, MYLIB_F32, MYLIB_I32};
        mylib_array in[4];
        double total = 0;
        const mylib_array result = {out, test_cpu, MYLIB_F64, 2, shape, NULL};
        const mylib_array sum = {&total, test_cpu, MYLIB_F64, 0, NULL, NULL};
        for (int k = 0; k < 4; k++) {
            strides[k][0] = test_size(types[k]);
            strides[k][1] = test_size(types[k]) * shape[0];
            in[k] = (mylib_array){(void *)data[k], test_cpu, types[k], 2, shape, strides[k]};
        }
        test_set_case("memory of a large program");
        CHECK_OK(mylib_set_num_threads(2)); /* with huge pages a thread takes some MiB */
        long before = peak_kib();
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &result, in));
        CHECK_OK(mylib_program_reduce(program, MYLIB_SUM, MYLIB_F64, test_cpu, NULL, &sum, in));
        long more = peak_kib() - before;
        CHECK_OK(mylib_set_num_threads(0));
        CHECK(TEST_IS_SANITIZED || more < MANY / 1024 * 12,
              "%ld KiB more than before, the smallest input has %d", more, MANY / 1024 * 12);
    }
    test_set_case("one program from %d threads", RUNNERS);
    if (program != NULL)
        test_in_threads(RUNNERS, run_often);
    mylib_program_free(program);
    free(large_a);
    free(large_b);
    free(large_c);
    free(large_i);
    free(out);
}

/* ---- What compiling promises ---- */

static mylib_constant number(mylib_type type, double value)
{
    mylib_constant c;
    memset(&c, 0, sizeof c);
    c.type = (int32_t)type;
    put_number(type, value, c.value);
    return c;
}

/* The result for one element of f64. */
static double run_single(const mylib_program *program, double x)
{
    double y = -1;
    const mylib_array in = {&x, test_cpu, MYLIB_F64, 0, NULL, NULL};
    const mylib_array out = {&y, test_cpu, MYLIB_F64, 0, NULL, NULL};
    CHECK_OK(mylib_program_run(program, test_cpu, NULL, &out, &in));
    return y;
}

/* Long programs take few registers, dead steps nothing; many values alive at once work too. */
static void test_limits(void)
{
    static mylib_step step[MYLIB_PROGRAM_MAX_STEPS + 1];
    static mylib_constant constant[MYLIB_PROGRAM_MAX_CONSTANTS + 1];
    mylib_type types[MYLIB_PROGRAM_MAX_INPUTS + 1];
    const mylib_type f64 = MYLIB_F64;
    const int most = MYLIB_PROGRAM_MAX_STEPS;
    mylib_program *program = NULL;

    test_set_case("a chain of %d steps", most);
    for (int i = 0; i < most; i++)
        step[i] = (mylib_step){MYLIB_OP_add, MYLIB_F64, {i, 0, 0}};
    if (CHECK_OK(mylib_program_create(1, &f64, 0, NULL, most, step, &program))) {
        CHECK(program->registers == 1, "%d registers, not 1", program->registers);
        double y = run_single(program, 1);
        CHECK(y == most + 1, "%g, not %d", y, most + 1);
    }
    mylib_program_free(program);

    test_set_case("steps that nothing needs");
    step[most - 1] = (mylib_step){MYLIB_OP_negative, MYLIB_F64, {0, 0, 0}};
    if (CHECK_OK(mylib_program_create(1, &f64, 0, NULL, most, step, &program)))
        CHECK(program->statements == 1 && program->registers == 0, "%d statements, %d registers",
              program->statements, program->registers);
    mylib_program_free(program);

    /* x + 0, x + 1, ...: all needed in the end, from the last to the first. */
    test_set_case("%d values alive at once", most / 2);
    constant[0] = number(MYLIB_F64, 1);
    for (int i = 0; i < most / 2; i++)
        step[i] = (mylib_step){MYLIB_OP_add, MYLIB_F64, {i == 0 ? 0 : i + 1, 1, 0}};
    for (int i = most / 2; i < most; i++)
        step[i] = (mylib_step){
            MYLIB_OP_subtract, MYLIB_F64, {i == most / 2 ? 0 : i + 1, most + 1 - i, 0}};
    if (CHECK_OK(mylib_program_create(1, &f64, 1, constant, most, step, &program))) {
        /* 5 - (6 + 7 + ... + 5 + most / 2) */
        double terms = most / 2, right = 5 - (terms * 5 + terms * (terms + 1) / 2);
        double y = run_single(program, 5);
        CHECK(program->registers >= most / 2 - 1, "%d registers", program->registers);
        CHECK(y == right, "%g, not %g", y, right);
        enum { N = 5000 };
        static double x[N], z[N];
        const int64_t n = N;
        const mylib_array in = {x, test_cpu, MYLIB_F64, 1, &n, NULL};
        const mylib_array out = {z, test_cpu, MYLIB_F64, 1, &n, NULL};
        for (int k = 0; k < N; k++)
            x[k] = k;
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &out, &in));
        int wrong = 0;
        for (int k = 0; k < N; k++)
            wrong += z[k] != k - (terms * k + terms * (terms + 1) / 2);
        CHECK(wrong == 0, "%d elements are wrong", wrong);
        double sum = 0;
        const mylib_array total = {&sum, test_cpu, MYLIB_F64, 0, NULL, NULL}, one = in;
        CHECK_OK(mylib_program_reduce(program, MYLIB_MAX, MYLIB_F64, test_cpu, NULL, &total, &one));
        CHECK(sum == z[0], "the maximum is %g, not %g", sum, z[0]);
    }
    mylib_program_free(program);

    test_set_case("all inputs and constants");
    for (int k = 0; k < MYLIB_PROGRAM_MAX_INPUTS; k++)
        types[k] = MYLIB_F32;
    for (int k = 0; k < MYLIB_PROGRAM_MAX_CONSTANTS; k++)
        constant[k] = number(MYLIB_I64, k);
    int given = MYLIB_PROGRAM_MAX_INPUTS + MYLIB_PROGRAM_MAX_CONSTANTS;
    for (int i = 0; i < given; i++)
        step[i] = (mylib_step){MYLIB_OP_add, MYLIB_F64, {i == 0 ? 0 : given + i - 1, i, 0}};
    if (CHECK_OK(mylib_program_create(MYLIB_PROGRAM_MAX_INPUTS, types, MYLIB_PROGRAM_MAX_CONSTANTS,
                                      constant, given, step, &program))) {
        const float three = 3;
        double y = 0;
        mylib_array in[MYLIB_PROGRAM_MAX_INPUTS], out = {&y, test_cpu, MYLIB_F64, 0, NULL, NULL};
        for (int k = 0; k < MYLIB_PROGRAM_MAX_INPUTS; k++)
            in[k] = (mylib_array){(void *)&three, test_cpu, MYLIB_F32, 0, NULL, NULL};
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &out, in));
        CHECK(y == 33 * 3 + 255 * 128, "%g, not %d", y, 33 * 3 + 255 * 128);
        y = 0;
        CHECK_OK(mylib_program_reduce(program, MYLIB_SUM, MYLIB_F64, test_cpu, NULL, &out, in));
        CHECK(y == 33 * 3 + 255 * 128, "the sum is %g, not %d", y, 33 * 3 + 255 * 128);
    }
    mylib_program_free(program);
}

/* A conversion is made once, not at all to the same type, and not merged with another. */
static void test_conversions(void)
{
    const mylib_type types[2] = {MYLIB_F64, MYLIB_I32};
    const double x = 2.75;
    const int32_t i = 7;
    mylib_program *program = NULL;
    double y = 0;
    mylib_array in[2] = {{(void *)&x, test_cpu, MYLIB_F64, 0, NULL, NULL},
                         {(void *)&i, test_cpu, MYLIB_I32, 0, NULL, NULL}};
    mylib_array out = {&y, test_cpu, MYLIB_F64, 0, NULL, NULL};

    test_set_case("an integer that is used three times as f64");
    const mylib_step repeated[] = {{MYLIB_OP_multiply, MYLIB_F64, {0, 1, 0}},
                                   {MYLIB_OP_add, MYLIB_F64, {2, 1, 0}},
                                   {MYLIB_STEP_CONVERT, MYLIB_F64, {1, 0, 0}},
                                   {MYLIB_OP_subtract, MYLIB_F64, {4, 3, 0}}};
    if (CHECK_OK(mylib_program_create(2, types, 0, NULL, 4, repeated, &program))) {
        CHECK(program->statements == 4, "%d statements, not 4", program->statements);
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &out, in));
        CHECK(y == 7 - (x * 7 + 7), "%g", y);
    }
    mylib_program_free(program);

    test_set_case("to an integer and back");
    const mylib_step back[] = {{MYLIB_STEP_CONVERT, MYLIB_I32, {0, 0, 0}},
                               {MYLIB_STEP_CONVERT, MYLIB_F64, {2, 0, 0}}};
    if (CHECK_OK(mylib_program_create(2, types, 0, NULL, 2, back, &program))) {
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &out, in));
        CHECK(y == 2, "%g, not 2", y);
    }
    mylib_program_free(program);

    test_set_case("conversions to the same type");
    const mylib_step same[] = {{MYLIB_OP_negative, MYLIB_F64, {0, 0, 0}},
                               {MYLIB_STEP_CONVERT, MYLIB_F64, {2, 0, 0}},
                               {MYLIB_STEP_CONVERT, MYLIB_F64, {3, 0, 0}}};
    if (CHECK_OK(mylib_program_create(2, types, 0, NULL, 3, same, &program))) {
        CHECK(program->statements == 1, "%d statements, not 1", program->statements);
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &out, in));
        CHECK(y == -x, "%g", y);
    }
    mylib_program_free(program);
}

/* Makes one statement of a program of two steps over inputs of these types, if it is one. */
static int is_single(int inputs, mylib_type a, mylib_type b, mylib_type c, int constants, int steps,
                     mylib_step first, mylib_step second, mylib_statement *s)
{
    const mylib_type types[3] = {a, b, c};
    const mylib_constant two = number(MYLIB_F64, 2);
    const mylib_step step[2] = {first, second};
    mylib_program *program = NULL;
    if (!CHECK_OK(mylib_program_create(inputs, types, constants, &two, steps, step, &program)))
        return 0;
    int is = mylib_single_statement(s, program);
    CHECK(!is || s->operands == inputs, "the statement has %d operands", s->operands);
    for (int k = 0; is && k < inputs; k++)
        CHECK(s->operand[k].type == types[s->operand[k].index], "operand %d is of type %d", k,
              s->operand[k].type);
    mylib_program_free(program);
    return is;
}

/* Single operations are one statement, which a GPU runs fastest; other programs are not. */
static void test_single_statements(void)
{
    const mylib_type f64 = MYLIB_F64, f32 = MYLIB_F32, i32 = MYLIB_I32;
    const mylib_step none = {0, 0, {0, 0, 0}}, negative = {MYLIB_OP_negative, f64, {0, 0, 0}};
    const mylib_step add = {MYLIB_OP_add, f64, {0, 1, 0}}, twice = {MYLIB_OP_add, f64, {0, 0, 0}};
    const mylib_step turned = {MYLIB_OP_subtract, f64, {1, 0, 0}};
    const mylib_step greater = {MYLIB_OP_greater, f64, {0, 1, 0}};
    const mylib_step to_f64 = {MYLIB_STEP_CONVERT, f64, {0, 0, 0}};
    const mylib_step select = {MYLIB_STEP_SELECT, f64, {0, 1, 2}};
    mylib_statement s;
    memset(&s, 0, sizeof s);
#define IS(op, first, second) \
    (s.opcode == (op) && s.type == f64 && s.operand[0].index == (first) && \
     s.operand[1].index == (second))
    test_set_case("single statements");
    CHECK(is_single(2, f64, i32, f64, 0, 1, add, none, &s) && IS(MYLIB_OP_add, 0, 1), "add");
    CHECK(is_single(2, f64, f32, f64, 0, 1, turned, none, &s) && IS(MYLIB_OP_subtract, 1, 0),
          "subtract the other way");
    CHECK(is_single(2, f32, f64, f64, 0, 1, greater, none, &s) && IS(MYLIB_OP_less, 1, 0) &&
              s.result_type == MYLIB_BOOL,
          "greater");
    CHECK(is_single(1, f32, f64, f64, 0, 1, negative, none, &s) && IS(MYLIB_OP_negative, 0, 0),
          "negative");
    CHECK(is_single(1, i32, f64, f64, 0, 1, to_f64, none, &s) && IS(MYLIB_OPCODE_CONVERT, 0, 0),
          "a conversion");
    CHECK(is_single(3, MYLIB_BOOL, f64, i32, 0, 1, select, none, &s) &&
              IS(MYLIB_OPCODE_SELECT, 0, 1) && s.operand[2].index == 2,
          "a selection");
#undef IS
    const mylib_step of_result = {MYLIB_OP_negative, f64, {2, 0, 0}};
    const mylib_step to_f32 = {MYLIB_STEP_CONVERT, f32, {0, 0, 0}};
    const mylib_step back = {MYLIB_STEP_CONVERT, f64, {1, 0, 0}};
    const mylib_step narrowed = {MYLIB_OP_negative, f64, {1, 0, 0}};
    CHECK(!is_single(3, f32, f64, i32, 0, 1, select, none, &s), "a condition of numbers");
    CHECK(!is_single(2, f64, f64, f64, 0, 2, add, of_result, &s), "two operations");
    CHECK(!is_single(1, f64, f64, f64, 0, 1, twice, none, &s), "one input twice");
    CHECK(!is_single(1, f64, f64, f64, 1, 1, add, none, &s), "a constant");
    CHECK(!is_single(2, f64, f64, f64, 0, 1, negative, none, &s), "an input that is not used");
    CHECK(!is_single(1, f64, f64, f64, 0, 2, to_f32, back, &s), "a conversion there and back");
    CHECK(!is_single(1, f64, f64, f64, 0, 2, to_f32, narrowed, &s),
          "a conversion that is none to the type of the operation");
}

/* The terms are an input that is repeated, and another input gives the shape: it is read once. */
static void test_repeated_terms(void)
{
    const mylib_device cpu = {MYLIB_CPU, 0};
    const mylib_type types[] = {MYLIB_F64, MYLIB_F64};
    const mylib_step step = {MYLIB_STEP_CONVERT, MYLIB_F64, {1, 0, 0}};
    const int64_t shape[] = {3, 4}, reduced[] = {1, 4};
    const double other[12] = {0}, repeated[12] = {1.5, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99};
    double sums[4] = {-1, -1, -1, -1};
    mylib_program *program = NULL;
    CHECK_OK(mylib_program_create(2, types, 0, NULL, 1, &step, &program));
    const mylib_array in[] = {{(void *)other, cpu, MYLIB_F64, 2, shape, NULL},
                              {(void *)repeated, cpu, MYLIB_F64, 0, NULL, NULL}};
    const mylib_array out = {sums, cpu, MYLIB_F64, 2, reduced, NULL};
    CHECK_OK(mylib_program_reduce(program, MYLIB_SUM, MYLIB_F64, cpu, NULL, &out, in));
    for (int i = 0; i < 4; i++)
        CHECK(sums[i] == 4.5, "sum %d is %g", i, sums[i]);
    mylib_program_free(program);
}

/* Each run that needs a constant, and nothing else, raises the flags of its conversion. */
static void test_constant_flags(void)
{
    const mylib_type type = MYLIB_F32;
    const mylib_constant large = number(MYLIB_F64, 1e300);
    const mylib_step used = {MYLIB_OP_add, MYLIB_F32, {0, 1, 0}};
    const mylib_step unused[] = {{MYLIB_OP_add, MYLIB_F32, {0, 1, 0}},
                                 {MYLIB_OP_negative, MYLIB_F32, {0, 0, 0}}};
    float x = 1, y = 0;
    int64_t none = 0;
    mylib_program *program = NULL;
    mylib_array in = {&x, test_cpu, MYLIB_F32, 0, NULL, NULL}, out = in;
    mylib_array empty = {&y, test_cpu, MYLIB_F32, 1, &none, NULL};
    out.data = &y;
    test_set_case("a constant that f32 cannot hold");
    feclearexcept(FE_ALL_EXCEPT);
    feraiseexcept(FE_DIVBYZERO);
    if (!CHECK_OK(mylib_program_create(1, &type, 1, &large, 1, &used, &program)))
        return;
    check_flags(FE_DIVBYZERO);
    feclearexcept(FE_ALL_EXCEPT);
    CHECK_OK(mylib_program_run(program, test_cpu, NULL, &empty, &in));
    check_flags(0);
    for (int repeat = 0; repeat < 2; repeat++) {
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_OK(mylib_program_run(program, test_cpu, NULL, &out, &in));
        check_flags(FE_OVERFLOW);
        feclearexcept(FE_ALL_EXCEPT);
        CHECK_OK(mylib_program_reduce(program, MYLIB_SUM, MYLIB_F32, test_cpu, NULL, &out, &in));
        check_flags(FE_OVERFLOW);
    }
    mylib_program_free(program);
    if (!CHECK_OK(mylib_program_create(1, &type, 1, &large, 2, unused, &program)))
        return;
    feclearexcept(FE_ALL_EXCEPT);
    CHECK_OK(mylib_program_run(program, test_cpu, NULL, &out, &in));
    check_flags(0);
    mylib_program_free(program);
}

/* ---- What is refused ---- */

static void check_refused(mylib_status got, mylib_status status, const char *told)
{
    CHECK(got == status, "%s, not %s", mylib_status_name(got), mylib_status_name(status));
    CHECK(strstr(mylib_last_message(), told) != NULL, "the message \"%s\" does not say \"%s\"",
          mylib_last_message(), told);
}

/* A program of one f64 input, an i32 constant, and these two steps. */
static void refuse(mylib_step first, mylib_step second, mylib_status status, const char *told)
{
    const mylib_type type = MYLIB_F64;
    const mylib_constant c = number(MYLIB_I32, 3);
    const mylib_step step[2] = {first, second};
    mylib_program *program = (mylib_program *)&type; /* must stay as it is */
    test_set_case("a step that must be refused: %s", told);
    check_refused(mylib_program_create(1, &type, 1, &c, 2, step, &program), status, told);
    CHECK((void *)program == (void *)&type, "program_ret was written");
}

static void test_steps_refused(void)
{
    const mylib_step good = {MYLIB_OP_add, MYLIB_F64, {0, 1, 0}};
#define STEP(...) ((mylib_step){__VA_ARGS__})
    const mylib_status argument = MYLIB_ERR_ARGUMENT;
    char told[64];
    snprintf(told, sizeof told, "step 1: unknown operation %d", (int)MYLIB_OP_COUNT);
    refuse(good, STEP(MYLIB_OP_COUNT, MYLIB_F64, {0, 1, 0}), argument, told);
    refuse(STEP(-1, MYLIB_F64, {0, 1, 0}), good, argument, "step 0: unknown operation -1");
    refuse(STEP(1002, MYLIB_F64, {0, 1, 0}), good, argument, "step 0: unknown operation 1002");
    refuse(STEP(INT32_MIN, MYLIB_F64, {0, 1, 0}), good, argument, "step 0: unknown operation");
    refuse(good, STEP(MYLIB_OP_add, 14, {0, 1, 0}), argument, "step 1: unknown element type 14");
    refuse(good, STEP(MYLIB_OP_add, -3, {0, 1, 0}), argument, "step 1: unknown element type -3");
    refuse(good, STEP(MYLIB_STEP_CONVERT, 99, {0, 0, 0}), argument,
           "step 1: unknown element type 99");
    refuse(good, STEP(MYLIB_OP_subtract, MYLIB_BOOL, {0, 1, 0}), MYLIB_ERR_UNSUPPORTED,
           "step 1: subtract is not defined for bool");
    refuse(STEP(MYLIB_OP_sqrt, MYLIB_I32, {1, 0, 0}), good, MYLIB_ERR_UNSUPPORTED,
           "step 0: sqrt is not defined for i32");
    refuse(STEP(MYLIB_OP_add, MYLIB_F64, {0, 2, 0}), good, argument,
           "step 0: operand 1 is value 2, but only 0 to 1 exist before it");
    refuse(good, STEP(MYLIB_OP_add, MYLIB_F64, {3, 0, 0}), argument,
           "step 1: operand 0 is value 3, but only 0 to 2 exist before it");
    refuse(good, STEP(MYLIB_OP_add, MYLIB_F64, {0, -1, 0}), argument,
           "step 1: operand 1 is value -1");
    refuse(good, STEP(MYLIB_STEP_SELECT, MYLIB_F64, {0, 0, INT32_MAX}), argument,
           "step 1: operand 2 is value 2147483647");
    refuse(good, STEP(MYLIB_OP_add, MYLIB_F64, {0, 1, 1}), argument,
           "step 1: operand 2 is 1, but the step has 2 operands");
    refuse(good, STEP(MYLIB_STEP_CONVERT, MYLIB_F64, {0, 1, 0}), argument,
           "step 1: operand 1 is 1, but the step has 1 operand:");
#undef STEP
}

static void test_arguments_refused(void)
{
    static mylib_step step[MYLIB_PROGRAM_MAX_STEPS + 1];
    static mylib_constant constant[MYLIB_PROGRAM_MAX_CONSTANTS + 1];
    mylib_type types[MYLIB_PROGRAM_MAX_INPUTS + 1] = {MYLIB_I8};
    const mylib_status argument = MYLIB_ERR_ARGUMENT;
    mylib_program *p = NULL;
#define REFUSED(told, ...) check_refused(mylib_program_create(__VA_ARGS__), argument, told)
    for (int i = 0; i <= MYLIB_PROGRAM_MAX_STEPS; i++)
        step[i] = (mylib_step){MYLIB_STEP_CONVERT, MYLIB_I8, {0, 0, 0}};
    test_set_case("what is not a program");
    REFUSED("-1 inputs: expected 0 to 32", -1, types, 0, NULL, 1, step, &p);
    REFUSED("33 inputs: expected 0 to 32", 33, types, 0, NULL, 1, step, &p);
    REFUSED("257 constants: expected 0 to 256", 1, types, 257, constant, 1, step, &p);
    REFUSED("-5 constants: expected 0 to 256", 1, types, -5, constant, 1, step, &p);
    REFUSED("0 steps: expected 1 to 4096", 1, types, 0, NULL, 0, step, &p);
    REFUSED("4097 steps: expected 1 to 4096", 1, types, 0, NULL, 4097, step, &p);
    REFUSED("1 inputs, but the pointer to them is NULL", 1, NULL, 0, NULL, 1, step, &p);
    REFUSED("2 constants, but the pointer to them is NULL", 1, types, 2, NULL, 1, step, &p);
    REFUSED("1 steps, but the pointer to them is NULL", 1, types, 0, NULL, 1, NULL, &p);
    REFUSED("program_ret is NULL", 1, types, 0, NULL, 1, step, NULL);
    REFUSED("there is no value before it", 0, NULL, 0, NULL, 1, step, &p);
    types[1] = (mylib_type)14;
    REFUSED("input 1: unknown element type 14", 2, types, 0, NULL, 1, step, &p);
    constant[1].type = -2;
    REFUSED("constant 1: unknown element type -2", 1, types, 2, constant, 1, step, &p);
    constant[1] = number(MYLIB_F32, 1);
    constant[1].reserved = 4;
    REFUSED("constant 1: reserved is 4", 1, types, 2, constant, 1, step, &p);
    constant[1] = number(MYLIB_F32, 1);
    constant[1].value[4] = 9;
    REFUSED("constant 1: byte 4 is 9", 1, types, 2, constant, 1, step, &p);
    constant[1] = number(MYLIB_F32, 1);
    constant[1].value[15] = 1;
    REFUSED("constant 1: byte 15 is 1", 1, types, 2, constant, 1, step, &p);
    memset(&constant[1], 0, sizeof constant[1]);
    constant[1].type = MYLIB_BOOL;
    constant[1].value[0] = 2;
    REFUSED("constant 1: a bool is 0 or 1, not 2", 1, types, 2, constant, 1, step, &p);
    CHECK(p == NULL, "program_ret was written");
#undef REFUSED
    mylib_program_free(NULL);
    mylib_type type;
    check_refused(mylib_program_result_type(NULL, &type), argument, "program is NULL");
}

/* Arrays that do not suit a program. */
static void test_arrays_refused(void)
{
    const mylib_type types[2] = {MYLIB_F64, MYLIB_I32};
    const mylib_step step = {MYLIB_OP_add, MYLIB_F64, {0, 1, 0}};
    const mylib_status argument = MYLIB_ERR_ARGUMENT;
    double x[6] = {0}, y[6] = {0};
    int32_t i[6] = {0};
    int64_t three = 3, two = 2, none = 0;
    const mylib_device gpu = {MYLIB_CUDA, 0};
    mylib_array in[2] = {test_row(x, MYLIB_F64, &three), test_row(i, MYLIB_I32, &three)};
    mylib_array out = {y, test_cpu, MYLIB_F64, 1, &three, NULL}, wrong = out;
    mylib_program *p = NULL;
    test_set_case("arrays that do not suit the program");
    if (!CHECK_OK(mylib_program_create(2, types, 0, NULL, 1, &step, &p)))
        return;
    check_refused(mylib_program_result_type(p, NULL), argument, "type_ret is NULL");
#define REFUSED(told, program, out, in) \
    check_refused(mylib_program_run(program, test_cpu, NULL, out, in), argument, told)
    REFUSED("program is NULL", NULL, &out, in);
    REFUSED("out is NULL", p, NULL, in);
    REFUSED("in is NULL", p, &out, NULL);
    wrong.type = MYLIB_F32;
    REFUSED("the program gives f64, but out is f32", p, &wrong, in);
    in[1].shape = &two;
    REFUSED("in[1] of shape (2,) does not broadcast", p, &out, in);
    in[1].shape = &three;
    in[1].type = MYLIB_F64;
    REFUSED("in[1] is f64, but the program was made for i32", p, &out, in);
    in[1].type = MYLIB_I32;
    in[0].device = gpu;
    REFUSED("out is on cpu but in[0] is on cuda:0", p, &out, in);
    in[0].device = test_cpu;
    in[0].data = NULL;
    REFUSED("in[0] has elements, but its data is NULL", p, &out, in);
    in[0].data = x;
#undef REFUSED
#define REFUSED(told, program, reduction, type, out, in) \
    check_refused(mylib_program_reduce(program, (mylib_reduction)(reduction), type, test_cpu, \
                                       NULL, out, in), \
                  argument, told)
    mylib_array sum = {y, test_cpu, MYLIB_F64, 0, NULL, NULL};
    REFUSED("program is NULL", NULL, MYLIB_SUM, MYLIB_F64, &sum, in);
    REFUSED("out is NULL", p, MYLIB_SUM, MYLIB_F64, NULL, in);
    REFUSED("in is NULL", p, MYLIB_SUM, MYLIB_F64, &sum, NULL);
    REFUSED("unknown reduction 5", p, 5, MYLIB_F64, &sum, in);
    REFUSED("unknown element type 20", p, MYLIB_SUM, (mylib_type)20, &sum, in);
    REFUSED("the sum of f32 gives f32, but out is f64", p, MYLIB_SUM, MYLIB_F32, &sum, in);
    in[1].shape = &two;
    REFUSED("in[1] of shape (2,) does not broadcast to the shape (3,)", p, MYLIB_SUM, MYLIB_F64,
            &sum, in);
    in[1].shape = &three;
    wrong = out;
    wrong.shape = &two;
    REFUSED("the inputs of shape (3,) does not reduce to the shape (2,)", p, MYLIB_SUM, MYLIB_F64,
            &wrong, in);
    in[1].type = MYLIB_I64;
    REFUSED("in[1] is i64, but the program was made for i32", p, MYLIB_SUM, MYLIB_F64, &sum, in);
    in[1].type = MYLIB_I32;
    wrong = sum;
    wrong.data = x + 1;
    REFUSED("out overlaps an input", p, MYLIB_SUM, MYLIB_F64, &wrong, in);
    in[0].shape = in[1].shape = &none;
    REFUSED("the max of no elements is not defined", p, MYLIB_MAX, MYLIB_F64, &sum, in);
#undef REFUSED
    mylib_program_free(p);
}

/* ThreadSanitizer finds nothing in code that runs in one thread. */
#if defined(__SANITIZE_THREAD__)
#define PART 10
#else
#define PART 1
#endif

/*
 * Terms of one type by way of a second, summed as a third, have the values of the second: block
 * kernels that widen an input themselves must not see past it.
 */
static void test_terms_by_way_of_another_type(void)
{
    enum { N = 37 };
    static _Alignas(16) unsigned char values[N * 16], converted[N * 16], sum[16], right[16];
    const int64_t size[] = {N};
    rng r = rng_make(0);
    for (int k = 0; k < TEST_COMPUTED_COUNT * TEST_COMPUTED_COUNT * TEST_COMPUTED_COUNT; k++) {
        const mylib_type from = (mylib_type)(k % TEST_COMPUTED_COUNT);
        const mylib_type via = (mylib_type)(k / TEST_COMPUTED_COUNT % TEST_COMPUTED_COUNT);
        const mylib_type type = (mylib_type)(k / TEST_COMPUTED_COUNT / TEST_COMPUTED_COUNT);
        const mylib_step step = {MYLIB_STEP_CONVERT, (int32_t)via, {0, 0, 0}};
        const mylib_type types[] = {from};
        const mylib_array in = {values, test_cpu, from, 1, size, NULL};
        const mylib_array middle = {converted, test_cpu, via, 1, size, NULL};
        const mylib_array out = {sum, test_cpu, type, 0, NULL, NULL};
        const mylib_array wanted = {right, test_cpu, type, 0, NULL, NULL};
        mylib_program *program = NULL;
        test_set_case("%s by way of %s as %s", test_types[from].name, test_types[via].name,
                      test_types[type].name);
        fill_values(&r, from, N, values);
        if (mylib_program_create(1, types, 0, NULL, 1, &step, &program) != MYLIB_OK)
            continue; /* complex numbers are not converted to others */
        CHECK_OK(mylib_copy_array(NULL, &middle, &in));
        const mylib_status st = mylib_reduce(MYLIB_SUM, type, test_cpu, NULL, &wanted, &middle);
        CHECK(mylib_program_reduce(program, MYLIB_SUM, type, test_cpu, NULL, &out, &in) == st,
              "not status %d", (int)st);
        if (st == MYLIB_OK)
            CHECK(same_value(type, sum, right), "%s, not %s", describe(type, sum),
                  describe(type, right));
        mylib_program_free(program);
    }
}

int main(void)
{
    test_begin("program");
    for (int k = 0; k < MOST_INPUTS; k++)
        guard_open(&in_guard[k], ROOM_NBYTES);
    guard_open(&out_guard, ROOM_NBYTES);
    test_steps_refused();
    test_arguments_refused();
    test_arrays_refused();
    FOR_EACH_LEVEL(level)
    {
        rng r = rng_make((uint64_t)level);
        test_random(&r, test_levels[level], test_rounds(2500 / PART));
        test_overlap(&r, test_levels[level], test_rounds(2000 / PART));
        test_reductions(&r, test_levels[level], test_rounds(700 / PART));
    }
    CHECK_OK(mylib_set_cpu_level(NULL));
    test_limits();
    test_conversions();
    test_constant_flags();
    test_single_statements();
    test_repeated_terms();
    test_terms_by_way_of_another_type();
    rng r = rng_make(TEST_LEVEL_COUNT);
    test_large(&r);
    return test_end();
}
