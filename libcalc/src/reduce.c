/*
 * reduce.c - the entry points of reductions: check, lay out the loops, choose the backend, call it.
 */
#include <stdlib.h>
#include <string.h>

#include "flags.h"
#include "internal.h"

/* ---- Types ---- */

static const char *reduction_name(mylib_reduction reduction)
{
    static const char *const names[] = {"sum", "prod", "min", "max", "mean"};
    return (unsigned)reduction < 5 ? names[reduction] : NULL;
}

static mylib_status check_types(mylib_reduction reduction, mylib_type type, mylib_type out_type)
{
    if (reduction_name(reduction) == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "unknown reduction %d: reductions are 0 to 4",
                          (int)reduction);
    RETURN_IF_ERROR(mylib_check_type(type));
    if (type == MYLIB_BOOL)
        return mylib_fail(MYLIB_ERR_UNSUPPORTED, "%s is not defined for bool: reduce it as i64",
                          reduction_name(reduction));
    /* A minimum of f16 is carried in f32, but the result is f16. */
    const int is_extreme = reduction == MYLIB_MIN || reduction == MYLIB_MAX;
    const mylib_type wide = is_extreme ? type : mylib_carrying_type(MYLIB_SUM, type);
    if (reduction == MYLIB_MEAN && (wide <= MYLIB_U64 || out_type != wide))
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "the mean of %s into %s: expected floats or complex numbers, and out of "
                          "the type that carries their sums",
                          mylib_type_name(type), mylib_type_name(out_type));
    if (out_type != type && out_type != wide)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "the %s of %s gives %s%s%s, but out is %s",
                          reduction_name(reduction), mylib_type_name(type), mylib_type_name(type),
                          wide != type ? " or " : "", wide != type ? mylib_type_name(wide) : "",
                          mylib_type_name(out_type));
    return MYLIB_OK;
}

/* ---- Loops ---- */

/* Appends dimension d; merges it with the last one, from number `first` on, if that is possible. */
static void add_dimension(mylib_layout *to, int first, const mylib_layout *from, int d)
{
    int last = to->ndim - 1, merges = last >= first;
    int64_t size = from->shape[d];
    for (int k = 0; k < from->operands && merges; k++)
        merges = to->strides[k][last] == from->strides[k][d] * size;
    if (merges)
        size *= to->shape[last];
    else
        last = to->ndim++;
    to->shape[last] = size;
    for (int k = 0; k < from->operands; k++)
        to->strides[k][last] = from->strides[k][d];
}

static void swap_operands(mylib_layout *l, int a, int b)
{
    int64_t strides[MYLIB_MAX_NDIM];
    char *data = l->data[a];
    l->data[a] = l->data[b], l->data[b] = data;
    memcpy(strides, l->strides[a], sizeof strides);
    memcpy(l->strides[a], l->strides[b], sizeof strides);
    memcpy(l->strides[b], strides, sizeof strides);
}

/* Makes the stride of the first input in dimension d positive; returns true if it was not. */
static int flip_dimension(mylib_layout *l, int d)
{
    if (l->strides[1][d] >= 0)
        return 0;
    for (int k = 1; k < l->operands; k++) {
        l->data[k] += l->strides[k][d] * (l->shape[d] - 1);
        l->strides[k][d] = -l->strides[k][d];
    }
    return 1;
}

/*
 * Lists the reduced dimensions: in C order, or by the strides of the first input if *is_ordered_ret
 * is 0.  Sets it if both are the same.  Returns how many there are.
 */
static int list_reduced(mylib_layout *l, const int64_t *extent, int *is_ordered_ret, int *dimension)
{
    const int is_ordered = *is_ordered_ret;
    int count = 0;
    *is_ordered_ret = 1;
    for (int d = 0; d < l->ndim && l->count != 0; d++) {
        int i = count;
        if (extent[d] != 1 || l->shape[d] == 1)
            continue;
        if (!is_ordered && l->operands > 1) {
            *is_ordered_ret &= !flip_dimension(l, d);
            for (; i > 0 && l->strides[1][dimension[i - 1]] < l->strides[1][d]; i--) {
                dimension[i] = dimension[i - 1];
                *is_ordered_ret = 0;
            }
        }
        dimension[i] = d;
        count++;
    }
    return count;
}

/*
 * Splits the dimensions into kept ones, ordered by the strides of the first input, and reduced
 * ones as list_reduced() lists them, which also sets *is_ordered; only adjacent ones merge.
 * Operand 0 is out; it has `extent` in each dimension of the layout, and is not empty.
 */
static void split_loops(mylib_layout *loops, mylib_layout *l, const int64_t *extent,
                        int *is_ordered, int *kept_ndim_ret)
{
    int first, reduced[MYLIB_MAX_NDIM];

    const int count = list_reduced(l, extent, is_ordered, reduced);
    loops->ndim = 0;
    loops->count = 1;
    loops->operands = l->operands;
    memcpy(loops->data, l->data, (size_t)l->operands * sizeof *l->data);
    memset(loops->is_host_scalar, 0, sizeof loops->is_host_scalar);
    for (int d = 0; d < l->ndim; d++) {
        if (extent[d] != 1) {
            add_dimension(loops, MYLIB_MAX_NDIM, l, d);
            loops->count *= l->shape[d] != 0;
        }
    }
    if (loops->ndim > 0 && loops->count != 0) {
        int first_input = l->operands > 1;
        swap_operands(loops, 0, first_input);
        mylib_layout_simplify(loops);
        swap_operands(loops, 0, first_input);
    }
    loops->count = l->count;

    first = loops->ndim;
    if (l->count == 0) { /* no terms, whatever the other sizes */
        loops->shape[first] = 0;
        for (int k = 0; k < l->operands; k++)
            loops->strides[k][first] = 0;
        loops->ndim++;
    }
    for (int i = 0; i < count; i++)
        add_dimension(loops, first, l, reduced[i]);
    *kept_ndim_ret = first;
}

/* ---- What is reduced ---- */

/*
 * The values of a program for its inputs, broadcast against each other.  If they are an input's
 * elements, or products of two inputs', `terms` describes them, for one launch on a GPU.
 */
typedef struct values {
    const mylib_program *program;
    mylib_type type; /* of the terms: the values are converted to it */
    int inputs;
    const mylib_array *in;
    const char *const *names; /* of out and the inputs */
    const mylib_terms *terms; /* or NULL */
    mylib_terms room;         /* storage for `terms` */
    int ndim;
    int64_t shape[MYLIB_MAX_NDIM];
    int64_t extent[MYLIB_MAX_NDIM]; /* of the output in each dimension */
} values;

static void begin_values(values *v, const mylib_program *program, mylib_type type, int inputs,
                         const mylib_array *in, const char *const *names)
{
    v->program = program;
    v->type = type;
    v->inputs = inputs;
    v->in = in;
    v->names = names;
    v->terms = NULL;
}

static void set_terms(values *v, mylib_type type, mylib_type carrier)
{
    v->room = (mylib_terms){type, carrier, v->inputs, {0}, 0, NULL};
    for (int k = 0; k < v->inputs; k++)
        v->room.input_type[k] = (uint8_t)v->in[k].type;
    v->terms = &v->room;
}

static mylib_status broadcast_inputs(values *v)
{
    char a[MYLIB_SHAPE_TEXT], b[MYLIB_SHAPE_TEXT];
    v->ndim = 0;
    for (int k = 0; k < v->inputs; k++) {
        const mylib_array *in = &v->in[k];
        if (in->ndim > v->ndim) {
            int more = in->ndim - v->ndim;
            memmove(v->shape + more, v->shape, (size_t)v->ndim * sizeof *v->shape);
            for (int d = 0; d < more; d++)
                v->shape[d] = 1;
            v->ndim = in->ndim;
        }
        for (int d = 0; d < in->ndim; d++) {
            int64_t *size = &v->shape[v->ndim - in->ndim + d];
            if (*size == 1)
                *size = in->shape[d];
            else if (in->shape[d] != 1 && in->shape[d] != *size)
                return mylib_fail(MYLIB_ERR_ARGUMENT,
                                  "%s of shape %s does not broadcast to the shape %s of the inputs "
                                  "before it",
                                  v->names[1 + k], mylib_shape_text(a, in->ndim, in->shape),
                                  mylib_shape_text(b, v->ndim, v->shape));
        }
    }
    if (mylib_element_count(v->ndim, v->shape) < 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "the inputs broadcast to the shape %s, which has more than 2^52 elements",
                          mylib_shape_text(a, v->ndim, v->shape));
    return MYLIB_OK;
}

static mylib_status check_shape(values *v, mylib_reduction reduction, const mylib_array *out)
{
    const char *what = v->inputs == 1 ? v->names[1] : "the inputs";
    char a[MYLIB_SHAPE_TEXT], b[MYLIB_SHAPE_TEXT];
    int reduces_all = out->ndim == 0, fits = reduces_all || out->ndim == v->ndim;
    int is_empty = 0, has_outputs = 1;
    v->extent[0] = 1; /* a layout has at least one dimension */
    for (int d = 0; d < v->ndim && fits; d++) {
        v->extent[d] = reduces_all ? 1 : out->shape[d];
        fits = v->extent[d] == 1 || v->extent[d] == v->shape[d];
        is_empty |= v->extent[d] == 1 && v->shape[d] == 0;
        has_outputs &= v->extent[d] != 0;
    }
    if (!fits)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%s of shape %s does not reduce to the shape %s of out: expected the "
                          "same sizes, and 1 where it is reduced, or no dimensions",
                          what, mylib_shape_text(a, v->ndim, v->shape),
                          mylib_shape_text(b, out->ndim, out->shape));
    if (is_empty && has_outputs && (reduction == MYLIB_MIN || reduction == MYLIB_MAX))
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "the %s of no elements is not defined: expected some in %s of shape %s",
                          reduction_name(reduction), what, mylib_shape_text(a, v->ndim, v->shape));
    return MYLIB_OK;
}

/* Makes the loops over the values: operand 0 is out, with stride 0 where it is reduced. */
static mylib_status make_layout(const values *v, const mylib_array *out, mylib_layout *l)
{
    static char nothing; /* stands in for the address of `values` */
    const mylib_array whole = {&nothing, out->device, MYLIB_U8, v->ndim, v->shape, NULL};
    RETURN_IF_ERROR(mylib_layout_init(l, &whole, v->in, v->inputs));
    l->data[0] = out->data;
    if (out->ndim > 0) /* otherwise all strides stay 0 */
        mylib_array_strides(out, l->strides[0]);
    else
        memset(l->strides[0], 0, sizeof l->strides[0]);
    return MYLIB_OK;
}

/* ---- Entry points ---- */

/* The least terms that are worth a copy in their order, and the bytes that a GPU loads at once. */
#define LEAST_COPIED ((int64_t)1 << 18)
#define SECTOR_NBYTES 32

/*
 * Tells whether a GPU reduces terms faster after a copy in their order: if neighbours in memory are
 * terms of the same output that are far apart in their order, it would load each sector many times.
 */
static int needs_copy(const mylib_layout *loops, int kept_ndim)
{
    const int last = loops->ndim - 1;
    int64_t nearest = INT64_MAX;
    if (loops->ndim - kept_ndim > MYLIB_REDUCED_NDIM)
        return 1;
    if (loops->operands != 2 || loops->count < LEAST_COPIED || last <= kept_ndim ||
        llabs(loops->strides[1][last]) < SECTOR_NBYTES)
        return 0;
    for (int d = kept_ndim; d < last; d++)
        if (loops->shape[d] > 1 && loops->strides[1][d] != 0 &&
            llabs(loops->strides[1][d]) < nearest)
            nearest = llabs(loops->strides[1][d]);
    return nearest < llabs(loops->strides[1][last]) &&
           (kept_ndim == 0 || nearest < llabs(loops->strides[1][kept_ndim - 1]));
}

/* Tells whether rows of outputs, side by side in memory, are short only by the order of out. */
static int has_short_rows(const mylib_layout *l, int kept_ndim, int64_t outputs)
{
    const int last = kept_ndim - 1;
    /* A few terms are not worth a copy of the outputs. */
    int is_short = kept_ndim > 1 && l->operands > 1 && l->count >= 4 * outputs &&
                   l->shape[last] < 512 &&
                   llabs(l->strides[1][last]) < llabs(l->strides[1][l->ndim - 1]);
    for (int k = 1; k < l->operands && is_short; k++)
        is_short = l->strides[k][last - 1] == l->strides[k][last] * l->shape[last];
    return is_short;
}

/* Reduces on the CPU, in the order of the inputs if that gives longer rows; overwrites *spare. */
static mylib_status reduce_on_cpu(mylib_reduction reduction, const values *v, mylib_type out_type,
                                  const mylib_layout *l, int kept_ndim, mylib_layout *spare)
{
    const size_t size = mylib_type_size(out_type);
    int64_t outputs = 1;
    int kept = 0;
    mylib_operation copy;
    for (int d = 0; d < kept_ndim; d++)
        outputs *= l->shape[d];
    char *results = has_short_rows(l, kept_ndim, outputs) ? malloc((size_t)outputs * size) : NULL;
    if (results == NULL)
        return mylib_cpu_reduce(reduction, v->program, v->type, l, kept_ndim, out_type);

    mylib_layout_copy(spare, l);
    spare->ndim = kept_ndim;
    mylib_layout_set_contiguous(spare, 0, results, size);
    spare->ndim = 0;
    for (int d = 0; d < l->ndim; d++) {
        kept = d == kept_ndim ? spare->ndim : kept;
        add_dimension(spare, kept, spare, d);
    }
    mylib_status st = mylib_cpu_reduce(reduction, v->program, v->type, spare, kept, out_type);
    if (st == MYLIB_OK) {
        mylib_operation_of_conversion(&copy, out_type, out_type);
        mylib_layout_begin(spare, l, 2);
        spare->ndim = kept_ndim;
        spare->count = outputs;
        mylib_layout_set_operand(spare, 0, l, 0);
        mylib_layout_set_contiguous(spare, 1, results, size);
        mylib_layout_simplify(spare);
        st = mylib_cpu_run(&copy.program, spare);
    }
    free(results);
    return st;
}

static mylib_status call_backend(mylib_reduction reduction, const values *v, mylib_device device,
                                 void *stream, const mylib_array *out, mylib_layout *l,
                                 int kept_ndim, mylib_layout *spare)
{
    if (out->device.kind == MYLIB_CPU && l->count != 0)
        mylib_raise_flags(v->program->flags);
    if (device.kind == MYLIB_CPU) {
        const int flags = mylib_test_flags();
        const mylib_status st = reduce_on_cpu(reduction, v, out->type, l, kept_ndim, spare);
        /* Minima and maxima of f16 are computed in f32; widening a signaling NaN raises a flag. */
        if (reduction >= MYLIB_MIN && v->terms != NULL && v->in[0].type == v->type)
            mylib_restore_flags(flags);
        return st;
    }
    for (int k = 1; k < l->operands; k++)
        l->is_host_scalar[k] = v->in[k - 1].device.kind == MYLIB_CPU;
    if (v->terms != NULL && !needs_copy(l, kept_ndim))
        return mylib_cuda_reduce(device.index, stream, reduction, v->terms, l, kept_ndim, out->type,
                                 v->names);
    return mylib_cuda_program_reduce(device.index, stream, reduction, v->program, v->type, l,
                                     kept_ndim, out->type, v->names);
}

/* Tells whether a result of floats is 0: then the order of the terms may decide its sign. */
static int has_zero(const mylib_layout *loops, int kept_ndim, mylib_type type)
{
    int64_t rows = 1, n = 1, stride = 0;
    if (kept_ndim > 0)
        n = loops->shape[kept_ndim - 1], stride = loops->strides[0][kept_ndim - 1];
    for (int d = 0; d < kept_ndim - 1; d++)
        rows *= loops->shape[d];
    for (int64_t i = 0; i < rows; i++) {
        const char *p = loops->data[0];
        int64_t rest = i;
        for (int d = kept_ndim - 2; d >= 0; d--) {
            p += rest % loops->shape[d] * loops->strides[0][d];
            rest /= loops->shape[d];
        }
        if (mylib_cpu()->truths(MYLIB_SEEK_FALSE, type, n, p, stride) != 0)
            return 1;
    }
    return 0;
}

static mylib_status reduce_layout(mylib_reduction reduction, const values *v, mylib_device device,
                                  void *stream, const mylib_array *out)
{
    const int is_streamed = device.kind == MYLIB_CUDA && out->device.kind == MYLIB_CPU;
    int kept_ndim;
    mylib_layout loops;
    DECLARE_LARGE_LAYOUT(layout, 2 * (1 + v->inputs));
    loops.strides = layout.strides + 1 + v->inputs;
    RETURN_IF_ERROR(make_layout(v, out, &layout));

    if (mylib_elements_overlap(v->ndim, v->extent, layout.strides[0], mylib_type_size(out->type)))
        return mylib_fail(MYLIB_ERR_ARGUMENT, "out overlaps itself: elements share memory");
    for (int k = 1; k < layout.operands && layout.count != 0; k++)
        if (mylib_is_same_place(v->in[k - 1].device, out->device) &&
            mylib_layout_overlap(&layout, k, mylib_type_size(out->type),
                                 mylib_type_size(v->in[k - 1].type)) != MYLIB_DISJOINT)
            return mylib_fail(MYLIB_ERR_ARGUMENT, "out overlaps an input: it must be disjoint");

    for (int d = 0; d < v->ndim; d++)
        if (v->extent[d] == 0)
            return is_streamed ? mylib_cuda_check_device(mylib_first_gpu(device.index)) : MYLIB_OK;
    RETURN_IF_ERROR(mylib_check_exponents(v->program, out->device, stream, &layout));
    /*
     * Terms whose order does not matter are read in the order of memory: integers, and on the CPU
     * minima and maxima of floats unless they turn out to be 0.
     */
    const mylib_type carrier = mylib_carrying_type(reduction, v->type);
    const int is_extreme = device.kind == MYLIB_CPU && reduction >= MYLIB_MIN &&
                           (v->type == MYLIB_F32 || v->type == MYLIB_F64);
    int is_ordered = carrier > MYLIB_U64 && !is_extreme;
    split_loops(&loops, &layout, v->extent, &is_ordered, &kept_ndim);
    if (is_streamed)
        return mylib_cuda_reduce_host(device.index, reduction, v->program, v->type, &loops,
                                      kept_ndim, out->type);
    RETURN_IF_ERROR(call_backend(reduction, v, device, stream, out, &loops, kept_ndim, &layout));
    if (is_ordered || !is_extreme || !has_zero(&loops, kept_ndim, v->type))
        return MYLIB_OK;
    is_ordered = 1;
    RETURN_IF_ERROR(make_layout(v, out, &layout));
    split_loops(&loops, &layout, v->extent, &is_ordered, &kept_ndim);
    return call_backend(reduction, v, device, stream, out, &loops, kept_ndim, &layout);
}

/* Tells whether f64 adds the terms without rounding: few enough integers of at most 32 bits. */
static int is_exact_sum(mylib_reduction reduction, const values *v)
{
    if (reduction != MYLIB_SUM || v->type != MYLIB_F64 || v->terms == NULL || v->inputs != 1)
        return 0;
    const mylib_type type = v->in[0].type;
    const size_t size = mylib_type_size(type);
    if ((type > MYLIB_U64 && type != MYLIB_BOOL) || size > 4)
        return 0;
    int64_t most = ((int64_t)1 << 53) >> 8 * size;
    for (int d = 0; d < v->ndim; d++)
        if (v->extent[d] == 1 && v->shape[d] > 1)
            most /= v->shape[d];
    return most > 0;
}

/* Divides results by the number of their terms; this raises no flags. */
static mylib_status divide(const values *v, mylib_device device, void *stream,
                           const mylib_array *out)
{
    double wide[2] = {1, 0};
    for (int d = 0; d < v->ndim; d++)
        wide[0] *= v->extent[d] == 1 ? (double)v->shape[d] : 1;
    float narrow[2] = {(float)wide[0], 0};
    void *const divisor = mylib_part_type(out->type) == MYLIB_F32 ? (void *)narrow : wide;
    const mylib_array in[2] = {*out, {divisor, {MYLIB_CPU, 0}, out->type, 0, NULL, NULL}};
    const int flags = mylib_test_flags();
    const mylib_status st = mylib_map_as(MYLIB_OP_divide, out->type, device, stream, out, in);
    mylib_restore_flags(flags);
    return st;
}

static mylib_status reduce(mylib_reduction reduction, values *v, mylib_device device, void *stream,
                           const mylib_array *out)
{
    int is_mean = reduction == MYLIB_MEAN;
    RETURN_IF_ERROR(broadcast_inputs(v));
    RETURN_IF_ERROR(check_shape(v, reduction, out));
    RETURN_IF_ERROR(mylib_check_places(device, out, v->in, v->inputs, v->names + 1));
    if (is_mean) {
        reduction = MYLIB_SUM;
        v->room.is_mean = &is_mean;
    }
    if (device.kind == MYLIB_CPU && is_exact_sum(reduction, v))
        v->type = MYLIB_I64;
    ENTER_DEFAULT_MODE();
    RETURN_IF_ERROR(reduce_layout(reduction, v, device, stream, out));
    return is_mean ? divide(v, device, stream, out) : MYLIB_OK;
}

mylib_status mylib_reduce(mylib_reduction reduction, mylib_type type, mylib_device device,
                          void *stream, const mylib_array *out, const mylib_array *in)
{
    static const char *const names[] = {"out", "in"};
    mylib_operation copy;
    values v;

    RETURN_IF_ERROR(mylib_check_array("out", out));
    RETURN_IF_ERROR(mylib_check_array("in", in));
    RETURN_IF_ERROR(mylib_check_device_of_call(device));
    RETURN_IF_ERROR(check_types(reduction, type, out->type));
    mylib_operation_of_conversion(&copy, in->type, in->type);
    begin_values(&v, &copy.program, type, 1, in, names);
    set_terms(&v, type, mylib_carrying_type(reduction, type));
    return reduce(reduction, &v, device, stream, out);
}

mylib_status mylib_dot(mylib_type type, mylib_device device, void *stream, const mylib_array *out,
                       const mylib_array *a, const mylib_array *b)
{
    static const char *const names[] = {"out", "a", "b"};
    char shape_a[MYLIB_SHAPE_TEXT], shape_b[MYLIB_SHAPE_TEXT];

    RETURN_IF_ERROR(mylib_check_array("out", out));
    RETURN_IF_ERROR(mylib_check_array("a", a));
    RETURN_IF_ERROR(mylib_check_array("b", b));
    RETURN_IF_ERROR(mylib_check_device_of_call(device));
    RETURN_IF_ERROR(check_types(MYLIB_SUM, type, out->type));
    if (out->ndim != 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "out has %d dimensions: expected 0 for a dot product",
                          (int)out->ndim);
    if (a->ndim != 1 || b->ndim != 1 || a->shape[0] != b->shape[0])
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "a has shape %s and b %s: expected one dimension of one size",
                          mylib_shape_text(shape_a, a->ndim, a->shape),
                          mylib_shape_text(shape_b, b->ndim, b->shape));
    const mylib_array in[2] = {*a, *b};
    mylib_type carrier = mylib_carrying_type(MYLIB_SUM, type);
    const mylib_type types[2] = {a->type, b->type};
    mylib_operation product;
    values v;
    RETURN_IF_ERROR(mylib_operation_of_product(&product, type, carrier, types));
    begin_values(&v, &product.program, carrier, 2, in, names);
    set_terms(&v, type, carrier);
    return reduce(MYLIB_SUM, &v, device, stream, out);
}

mylib_status mylib_program_reduce(const mylib_program *program, mylib_reduction reduction,
                                  mylib_type type, mylib_device device, void *stream,
                                  const mylib_array *out, const mylib_array *in)
{
    values v;

    RETURN_IF_NULL(program);
    RETURN_IF_ERROR(mylib_check_array("out", out));
    if (program->inputs > 0)
        RETURN_IF_NULL(in);
    RETURN_IF_ERROR(mylib_check_device_of_call(device));
    RETURN_IF_ERROR(check_types(reduction, type, out->type));
    for (int k = 0; k < program->inputs; k++)
        RETURN_IF_ERROR(mylib_check_array(mylib_operand_names[1 + k], &in[k]));
    RETURN_IF_ERROR(mylib_check_input_types(program, in));
    const mylib_statement *first = program->statement;
    if (device.kind == MYLIB_CUDA && program->inputs == 1 && mylib_is_conversion(program) &&
        program->result_type == MYLIB_BOOL && mylib_type_size(in->type) == 1) {
        /* Its truths are those of its bytes. */
        mylib_array bytes = *in;
        bytes.type = MYLIB_BOOL;
        return mylib_reduce(reduction, type, device, stream, out, &bytes);
    }
    begin_values(&v, program, type, program->inputs, in, mylib_operand_names);
    if (program->inputs == 1 && mylib_is_conversion(program) &&
        (first->type == type || first->type == program->input_type[0]))
        set_terms(&v, type, mylib_carrying_type(reduction, type));
    return reduce(reduction, &v, device, stream, out);
}

mylib_status mylib_trace(mylib_device device, void *stream, const mylib_array *matrix,
                         void *sum_ret)
{
    static const char *const names[] = {"out", "matrix"};
    char text[MYLIB_SHAPE_TEXT];
    mylib_type sum_type;
    mylib_operation copy;
    values v;

    RETURN_IF_ERROR(mylib_check_array("matrix", matrix));
    RETURN_IF_ERROR(mylib_check_device_of_call(device));
    RETURN_IF_NULL(sum_ret);
    if (matrix->ndim != 2)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "matrix has shape %s: the trace needs two dimensions",
                          mylib_shape_text(text, matrix->ndim, matrix->shape));
    RETURN_IF_ERROR(mylib_sum_type(matrix->type, &sum_type));

    /* The diagonal as an array of one dimension. */
    int64_t n = matrix->shape[0] < matrix->shape[1] ? matrix->shape[0] : matrix->shape[1];
    int64_t strides[MYLIB_MAX_NDIM];
    mylib_array_strides(matrix, strides);
    const int64_t stride = n > 1 ? strides[0] + strides[1] : 0;
    const mylib_array diagonal = {matrix->data, matrix->device, matrix->type, 1, &n, &stride};
    const mylib_array sum = {sum_ret, matrix->device, sum_type, 0, NULL, NULL};
    mylib_operation_of_conversion(&copy, matrix->type, matrix->type);
    begin_values(&v, &copy.program, matrix->type, 1, &diagonal, names);
    set_terms(&v, matrix->type, mylib_carrying_type(MYLIB_SUM, matrix->type));
    RETURN_IF_ERROR(mylib_check_places(device, &sum, &diagonal, 1, names + 1));

    /* sum_ret may lie in the matrix. */
    t_c128 result;
    mylib_array apart = {&result, matrix->device, sum_type, 0, NULL, NULL};
    const size_t size = mylib_type_size(sum_type);
    if (matrix->device.kind == MYLIB_CPU) {
        RETURN_IF_ERROR(reduce(MYLIB_SUM, &v, device, stream, &apart));
        memcpy(sum_ret, &result, size);
        return MYLIB_OK;
    }
    RETURN_IF_ERROR(mylib_cuda_alloc(device.index, size, stream, &apart.data));
    mylib_status st = reduce(MYLIB_SUM, &v, device, stream, &apart);
    if (st == MYLIB_OK)
        st = mylib_copy((mylib_device){MYLIB_CPU, 0}, sum_ret, device, apart.data, size, stream);
    mylib_cuda_discard(device.index, apart.data, stream);
    return st;
}
