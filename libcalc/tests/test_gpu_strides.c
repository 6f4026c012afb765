/*
 * The GPU gives the CPU's bits for GPU memory of any strides: every way in which a kernel reads,
 * around the edges of tiles and vectors, converted, selected, with constants; nothing beside the
 * output's elements is written.  test_gpu.c tests random strides, test_walk.c the choice of a way.
 *
 *     test_gpu_strides [--quick]    --quick: few cases of each kind, for compute-sanitizer
 *
 * Exit status 77, "skipped", without a GPU; with MYLIB_REQUIRE_GPU=1 that is a failure.
 */
#define IMAGE_NBYTES (32 << 20)
#include "image.h"

/* ---- One computation in both places ---- */

#define MAX_INPUTS 3

/* op of inputs converted to 'type'; without op, in[0] ? in[1] : in[2], or a copy of in[0]. */
typedef struct computation {
    const test_op *op;
    mylib_type type, out_type, in_type[MAX_INPUTS];
    int inputs;
    int64_t shift[1 + MAX_INPUTS]; /* elements from an aligned place */
    int in_place;                  /* the first input is the output */
    int host_scalar;               /* this input is one element of host memory; or -1 */
    int ordinary;                  /* numbers that all types hold */
} computation;

static computation computation_of(const test_op *op, mylib_type type, rng *r)
{
    computation c = {.op = op, .type = type, .host_scalar = -1, .inputs = op->arity};
    c.out_type = test_result_type(op, type);
    for (int k = 0; k < MAX_INPUTS; k++)
        c.in_type[k] = type;
    for (int k = 0; k <= MAX_INPUTS; k++)
        c.shift[k] = rng_once_in(r, 2) ? 0 : rng_below(r, 16);
    return c;
}

static mylib_status compute(const void *what, mylib_device device, const mylib_array *arrays)
{
    const computation *c = what;
    int converts = c->host_scalar >= 0;
    if (c->op == NULL && c->inputs == 1)
        return mylib_copy_array(NULL, &arrays[0], &arrays[1]);
    if (c->op == NULL)
        return mylib_select(device, NULL, &arrays[0], &arrays[1], &arrays[2], &arrays[3]);
    for (int k = 0; k < c->inputs; k++)
        converts |= c->in_type[k] != c->type;
    return converts ? mylib_map_as(c->op->op, c->type, device, NULL, &arrays[0], &arrays[1])
                    : mylib_map(c->op->op, device, NULL, &arrays[0], &arrays[1]);
}

static void fill(const computation *c, rng *r, mylib_type type, int64_t n, void *values)
{
    if (c->ordinary && type != MYLIB_BOOL)
        fill_ordinary(r, type, n, values);
    else
        fill_values(r, type, n, values);
}

/* Runs it over GPU memory.  The case is named by 'what' and the layouts. */
static void run(const computation *c, const char *what, const layout *out, const layout *in, rng *r)
{
    const char *texts[1 + MAX_INPUTS] = {"-", "-", "-", "-"};
    char scalar[TEST_MAX_SIZE];
    int64_t size = test_size(c->out_type), used = 0;
    operand o[1 + MAX_INPUTS];

    for (int k = 0; k <= c->inputs; k++)
        texts[k] = layout_text(k == 0 ? out : &in[k - 1]);
    test_set_case("%s: %s in %s of %s, %s, %s; out %s; in %s; %s; %s", what,
                  c->op != NULL    ? c->op->name
                  : c->inputs == 1 ? "copy"
                                   : "select",
                  test_types[c->type].name, test_types[c->in_type[0]].name,
                  test_types[c->in_type[1]].name, test_types[c->in_type[2]].name, texts[0],
                  texts[1], texts[2], texts[3]);

    o[0] = (operand){c->out_type, out, reserve(&used, out->span, c->shift[0] * size), NULL};
    for (int k = 0; k < c->inputs; k++) {
        size = test_size(c->in_type[k]);
        o[1 + k] = (operand){
            c->in_type[k], &in[k],
            k == 0 && c->in_place ? o[0].at : reserve(&used, in[k].span, c->shift[1 + k] * size),
            k == c->host_scalar ? scalar : NULL};
    }
    memset(before, SENTINEL, (size_t)used);
    for (int k = 0; k < c->inputs; k++)
        fill(c, r, c->in_type[k], in[k].span / test_size(c->in_type[k]), before + o[1 + k].at);
    if (c->host_scalar >= 0)
        fill(c, r, c->in_type[c->host_scalar], 1, scalar);
    compare_places(compute, c, 1 + c->inputs, o, 0, used);
}

/* An operation of two inputs. */
static const test_op *random_op(mylib_type type, rng *r)
{
    const test_op *op;
    do
        op = &test_ops[rng_below(r, MYLIB_OP_COUNT)];
    while (!test_is_total(op, type) || op->arity != 2);
    return op;
}

/* ---- Layouts ---- */

/* A matrix, or a stack of some, in C order; rows are 'pad' elements apart. */
static layout stack_of(int64_t count, int64_t rows, int64_t columns, int64_t pad, int64_t size)
{
    layout l = {.ndim = count > 1 ? 3 : 2};
    int d = l.ndim - 2;
    l.shape[0] = count;
    l.shape[d] = rows, l.shape[d + 1] = columns;
    l.strides[0] = rows * (columns + pad) * size;
    l.strides[d] = (columns + pad) * size, l.strides[d + 1] = size;
    layout_measure(&l, size);
    return l;
}

/* Ways in which an operand may lie against the others. */
enum { PLAIN, ROW, COLUMN, TURNED, BACKWARDS, UPSIDE_DOWN, EVERY_OTHER, TURNED_BACKWARDS, WAYS };
static const char *const way_names[WAYS] = {
    "plain",     "row",         "column",      "turned",
    "backwards", "upside down", "every other", "turned and backwards"};

static layout way_of(const layout *plain, int way, int64_t pad, int64_t size)
{
    layout l = *plain;
    int d = l.ndim - 2;
    int64_t rows = l.shape[d], columns = l.shape[d + 1];
    l = stack_of(l.ndim == 3 ? l.shape[0] : 1, rows, columns, pad, size);
    switch (way) {
    case ROW:
        l.shape[d] = 1;
        break;
    case COLUMN:
        l.shape[d + 1] = 1, l.strides[d] = size;
        break;
    case TURNED:
    case TURNED_BACKWARDS:
        l.strides[d] = size, l.strides[d + 1] = (rows + pad) * size;
        if (d > 0)
            l.strides[0] = columns * (rows + pad) * size;
        if (way == TURNED_BACKWARDS)
            l.strides[d] *= -1, l.strides[d + 1] *= -1;
        break;
    case BACKWARDS:
        l.strides[d + 1] = -size;
        break;
    case UPSIDE_DOWN:
        l.strides[d] *= -1;
        break;
    case EVERY_OTHER:
        for (int i = 0; i < l.ndim; i++)
            l.strides[i] *= 2;
        break;
    default:
        break;
    }
    layout_measure(&l, size);
    return l;
}

static const int64_t edges[] = {1,  2,  3,  7,   15,  16,  17,  31,  32, 33,
                                63, 64, 65, 127, 128, 129, 130, 200, 517};

static layout random_stack(rng *r, int64_t pad, int64_t size)
{
    int64_t columns = PICK(r, edges), rows = PICK(r, edges);
    int64_t count = rng_once_in(r, 3) ? 1 + rng_below(r, 5) : 1;
    int64_t most = rng_once_in(r, 20) ? 140000 : 20000;
    while (count * rows * columns > most)
        rows = (rows + 1) / 2;
    return stack_of(count, rows, columns, pad, size);
}

static void test_ways(const test_type *t, rng *r)
{
    for (int a = 0; a < WAYS; a++) {
        for (int i = 0; i < (test_quick ? 2 : 60); i++) {
            int b = (int)rng_below(r, WAYS);
            char what[64];
            computation c = computation_of(random_op(t->type, r), t->type, r);
            int64_t pad = rng_once_in(r, 2) ? 0 : rng_once_in(r, 2) ? 16 : rng_below(r, 4);
            layout out = random_stack(r, pad, test_size(c.out_type));
            layout in[2] = {way_of(&out, a, rng_below(r, 3), t->size),
                            way_of(&out, b, rng_once_in(r, 2) ? pad : rng_below(r, 3), t->size)};
            if (rng_once_in(r, 8))
                out = way_of(&out, EVERY_OTHER, pad, test_size(c.out_type));
            snprintf(what, sizeof what, "%s, %s", way_names[a], way_names[b]);
            run(&c, what, &out, in, r);
            if (a == PLAIN && c.out_type == c.type) {
                in[0] = out;
                c.in_place = 1;
                run(&c, "in place", &out, in, r);
            }
        }
    }
}

/*
 * Small elements some places apart: all distances and offsets from an aligned place, rows around
 * the lengths of vectors, whose neighbours are other elements or the end of the memory.
 */
static void test_spread(const test_type *t, rng *r)
{
    const int64_t lengths[] = {16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 80, 129, 300};
    const int count = COUNT_OF(lengths);
    for (int64_t distance = -5; distance <= 5 && t->size <= 2; distance++) {
        for (int64_t offset = 0; offset < (test_quick ? 2 : 16); offset++) {
            for (int i = 0; i < count && distance != 0; i++) {
                computation c = computation_of(random_op(t->type, r), t->type, r);
                const int64_t rows = rng_once_in(r, 2) ? 1 : 2 + rng_below(r, 3);
                layout out = stack_of(1, rows, lengths[i], rng_below(r, 2), test_size(c.out_type));
                layout in[2] = {stack_of(1, rows, lengths[i], 0, t->size),
                                way_of(&out, (int)rng_below(r, WAYS), rng_below(r, 3), t->size)};
                in[0].strides[1] = distance * t->size;
                in[0].strides[0] = (lengths[i] * 5 + rng_below(r, 17)) * t->size;
                layout_measure(&in[0], t->size);
                c.shift[1] = offset;
                run(&c, "spread", &out, in, r);
            }
        }
    }
}

/*
 * Copies between images and planes of a few channels: vectors of pixels, or a number that is none;
 * with gaps between rows of channels, images or planes, or none.
 */
static void test_channels(const test_type *t, rng *r)
{
    for (int i = 0; i < (test_quick ? 6 : 60); i++) {
        const int64_t channels = 1 + rng_below(r, 5), images = 1 + rng_below(r, 3);
        const int64_t unit = rng_once_in(r, 4) ? 1 : 16 / t->size,
                      pixels = unit * (1 + rng_below(r, 40));
        const int64_t gap = rng_once_in(r, 4) ? 1 + rng_below(r, 40) : 0, size = t->size;
        computation c = {.type = t->type,
                         .out_type = t->type,
                         .in_type = {t->type, t->type, t->type},
                         .inputs = 1,
                         .host_scalar = -1};
        layout mixed = {.ndim = 3, .shape = {images, pixels, channels}};
        layout apart = mixed;
        if (rng_once_in(r, 4))
            c.shift[rng_below(r, 2)] = 1;
        mixed.strides[2] = size, mixed.strides[1] = channels * size;
        mixed.strides[0] = (pixels * channels + gap) * size;
        apart.strides[1] = size, apart.strides[2] = (pixels + gap) * size;
        apart.strides[0] = channels * apart.strides[2];
        if (rng_once_in(r, 2)) { /* planes of all images: the channels come first */
            apart.strides[0] = pixels * size;
            apart.strides[2] = images * pixels * size;
        }
        layout_measure(&mixed, size);
        layout_measure(&apart, size);
        run(&c, "from planes", &mixed, &apart, r);
        for (int d = 0; d < 2; d++) { /* planes in their own order */
            layout *l = d == 0 ? &mixed : &apart;
            const int64_t stride = l->strides[1];
            l->strides[1] = l->strides[2], l->strides[2] = stride;
            l->shape[1] = channels, l->shape[2] = pixels;
            layout_measure(l, size);
        }
        run(&c, "to planes", &apart, &mixed, r);
    }
}

/* Inputs of other types, and constants from the host. */
static void test_conversions(const test_type *t, rng *r)
{
    for (int i = 0; i < (test_quick ? 4 : 150); i++) {
        computation c = computation_of(random_op(t->type, r), t->type, r);
        layout out = random_stack(r, rng_below(r, 3), test_size(c.out_type));
        layout in[2];
        c.ordinary = 1;
        for (int k = 0; k < 2; k++) {
            if (!rng_once_in(r, 3))
                c.in_type[k] = (mylib_type)rng_below(r, MYLIB_TYPE_COUNT);
            in[k] = way_of(&out, (int)rng_below(r, WAYS), rng_below(r, 3), test_size(c.in_type[k]));
        }
        if (rng_once_in(r, 3))
            c.host_scalar = (int)rng_below(r, 2);
        run(&c, "converted", &out, in, r);
    }
}

static void test_selections(const test_type *t, rng *r)
{
    for (int i = 0; i < (test_quick ? 4 : 100); i++) {
        computation c = computation_of(&test_ops[0], t->type, r);
        layout out = random_stack(r, rng_below(r, 3), t->size);
        layout in[3];
        c.op = NULL;
        c.inputs = 3;
        c.out_type = t->type;
        c.in_type[0] = rng_once_in(r, 2) ? MYLIB_BOOL : (mylib_type)rng_below(r, MYLIB_TYPE_COUNT);
        if (rng_once_in(r, 3)) {
            c.in_type[1 + rng_below(r, 2)] = (mylib_type)rng_below(r, MYLIB_TYPE_COUNT);
            c.ordinary = 1;
        }
        for (int k = 0; k < 3; k++)
            in[k] = way_of(&out, (int)rng_below(r, WAYS), rng_below(r, 3), test_size(c.in_type[k]));
        if (rng_once_in(r, 3))
            c.host_scalar = (int)rng_below(r, 3);
        run(&c, "selected", &out, in, r);
    }
}

/* More dimensions than one launch takes, none of which merge. */
static void test_many_dimensions(const test_type *t, rng *r)
{
    for (int i = 0; i < (test_quick ? 1 : 3); i++) {
        computation c = computation_of(random_op(t->type, r), t->type, r);
        layout out = {.ndim = 12}, in[2];
        for (int d = 0; d < 12; d++)
            out.shape[d] = d % 5 == i ? 3 : 2;
        random_strides(r, &out, test_size(c.out_type), 1);
        for (int k = 0; k < 2; k++) {
            in[k] = out;
            random_strides(r, &in[k], t->size, 1);
        }
        run(&c, "12 dimensions", &out, in, r);
    }
}

/* A matrix of more than 2^31 elements, negated and turned. */
static void test_huge(rng *r)
{
    const int64_t rows = 46000, columns = 47003, n = rows * columns, chunk = HUGE_CHUNK;
    const int64_t starts[] = {0, chunk - 7, n / 2, n - 4096};
    void *a = NULL, *out = NULL;
    int8_t *values, got[4096];

    test_set_case("a matrix of more than 2^31 elements");
    if ((values = open_huge("gpu_strides", r, n, &a, &out)) == NULL)
        return;
    int64_t shape[2] = {rows, columns}, turned[2] = {1, rows};
    mylib_array array = {out, gpu, MYLIB_I8, 2, shape, NULL};
    mylib_array in = {a, gpu, MYLIB_I8, 2, shape, turned};
    CHECK_OK(mylib_map(MYLIB_OP_negative, gpu, NULL, &array, &in));
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        int64_t wrong = 0;
        CHECK_OK(mylib_copy(test_cpu, got, gpu, (char *)out + starts[i], sizeof got, NULL));
        for (int64_t j = starts[i]; j < starts[i] + (int64_t)sizeof got; j++) {
            int64_t from = j / columns + j % columns * rows;
            wrong += got[j - starts[i]] != (int8_t)(uint8_t)-values[from % chunk];
        }
        CHECK(wrong == 0, "%lld of the elements from %lld are wrong", (long long)wrong,
              (long long)starts[i]);
    }
    close_huge(values, a, out);
}

int main(int argc, char **argv)
{
    test_begin_gpu("gpu_strides", argc, argv, NULL);
    rng r = rng_make(1);
    open_images();
    for (const test_type *t = test_types; t < test_types + TEST_COMPUTED_COUNT; t++) {
        test_ways(t, &r);
        test_spread(t, &r);
        test_channels(t, &r);
        test_conversions(t, &r);
        test_many_dimensions(t, &r);
    }
    for (const test_type *t = test_types; t < test_types + MYLIB_TYPE_COUNT; t++)
        test_selections(t, &r);
    close_images();
    test_huge(&r);
    return test_end();
}
