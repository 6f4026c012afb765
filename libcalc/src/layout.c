/*
 * layout.c - checks arrays, broadcasts them into a layout (one nest of loops), simplifies, cuts and
 * compares layouts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counting.h"
#include "internal.h"

#define COLD __attribute__((cold, noinline))

const char *mylib_shape_text(char text[MYLIB_SHAPE_TEXT], int ndim, const int64_t *shape)
{
    size_t used = 1;
    strcpy(text, "(");
    for (int d = 0; d < ndim; d++) {
        char size[32];
        int length =
            snprintf(size, sizeof size, d + 1 < ndim ? "%lld, " : "%lld", (long long)shape[d]);
        if (used + (size_t)length + sizeof "...)" > MYLIB_SHAPE_TEXT) {
            strcpy(text + used, "...");
            used += 3;
            break;
        }
        strcpy(text + used, size);
        used += (size_t)length;
    }
    strcpy(text + used, ndim == 1 ? ",)" : ")");
    return text;
}

const char *mylib_device_text(char text[MYLIB_DEVICE_TEXT], mylib_device device)
{
    if (device.kind == MYLIB_CPU)
        snprintf(text, MYLIB_DEVICE_TEXT, "cpu");
    else if (device.kind == MYLIB_CUDA && device.index == MYLIB_ALL_GPUS)
        snprintf(text, MYLIB_DEVICE_TEXT, "all GPUs");
    else if (device.kind == MYLIB_CUDA)
        snprintf(text, MYLIB_DEVICE_TEXT, "cuda:%d", (int)device.index);
    else
        snprintf(text, MYLIB_DEVICE_TEXT, "unknown device kind %d", (int)device.kind);
    return text;
}

COLD mylib_status mylib_refuse_all_gpus(void)
{
    return mylib_fail(MYLIB_ERR_ARGUMENT,
                      "the device is all GPUs (\"cuda:all\", MYLIB_ALL_GPUS), which compute with "
                      "arrays in host memory: an array, a stream and memory belong to one GPU; "
                      "name it, as \"cuda:0\"");
}

COLD static mylib_status refuse_device(mylib_device device)
{
    char text[MYLIB_DEVICE_TEXT];
    if (device.kind != MYLIB_CPU && device.kind != MYLIB_CUDA)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s: expected MYLIB_CPU or MYLIB_CUDA",
                          mylib_device_text(text, device));
    if (device.index == MYLIB_ALL_GPUS && device.kind == MYLIB_CUDA)
        return mylib_refuse_all_gpus();
    return mylib_fail(MYLIB_ERR_ARGUMENT,
                      "device index %d: expected 0 for the CPU, an ordinal >= 0 for CUDA",
                      (int)device.index);
}

mylib_status mylib_check_device(mylib_device device)
{
    int fits = device.kind == MYLIB_CPU ? device.index == 0
                                        : device.kind == MYLIB_CUDA && device.index >= 0;
    fits &= device.index != MYLIB_ALL_GPUS;
    return fits ? MYLIB_OK : refuse_device(device);
}

mylib_status mylib_check_device_of_call(mylib_device device)
{
    const int is_all = device.kind == MYLIB_CUDA && device.index == MYLIB_ALL_GPUS;
    return is_all ? MYLIB_OK : mylib_check_device(device);
}

mylib_status mylib_check_gpu(mylib_device device)
{
    char text[MYLIB_DEVICE_TEXT];
    RETURN_IF_ERROR(mylib_check_device(device));
    return device.kind == MYLIB_CUDA
               ? MYLIB_OK
               : mylib_fail(MYLIB_ERR_ARGUMENT, "a stream belongs to a GPU, not to %s",
                            mylib_device_text(text, device));
}

mylib_status mylib_check_places(mylib_device device, const mylib_array *out, const mylib_array *in,
                                int inputs, const char *const *names)
{
    char a[MYLIB_DEVICE_TEXT], b[MYLIB_DEVICE_TEXT];
    for (int k = 0; k < inputs; k++) {
        int is_host_scalar =
            in[k].ndim == 0 && in[k].device.kind == MYLIB_CPU && out->device.kind == MYLIB_CUDA;
        if (!mylib_is_same_place(in[k].device, out->device) && !is_host_scalar)
            return mylib_fail(
                MYLIB_ERR_ARGUMENT, "out is on %s but %s is on %s: copy them to one device first",
                mylib_device_text(a, out->device), names[k], mylib_device_text(b, in[k].device));
    }
    if (out->device.kind == MYLIB_CUDA && !mylib_is_same_place(device, out->device))
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "the arrays are on %s and cannot be computed with on %s: copy them first",
                          mylib_device_text(a, out->device), mylib_device_text(b, device));
    return MYLIB_OK;
}

int64_t mylib_element_count(int ndim, const int64_t *shape)
{
    int64_t count = 1;
    int is_beyond = 0;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == 0)
            return 0;
        is_beyond |= __builtin_mul_overflow(count, shape[d], &count) || count > MYLIB_MAX_COUNT;
    }
    return is_beyond ? -1 : count;
}

int mylib_can_reach(const void *data, int ndim, const int64_t *shape, const int64_t *strides,
                    size_t size)
{
    int64_t reach, below = 0, above = (int64_t)size;
    for (int d = 0; d < ndim; d++) {
        if (__builtin_mul_overflow(strides[d], shape[d] - 1, &reach) ||
            (reach < 0 ? __builtin_sub_overflow(below, reach, &below)
                       : __builtin_add_overflow(above, reach, &above)))
            return 0;
    }
    /* Distances between elements of two arrays then fit too. */
    return below <= MYLIB_MAX_REACH && above <= MYLIB_MAX_REACH - below &&
           (uintptr_t)data >= (uintptr_t)below && (uintptr_t)data <= UINTPTR_MAX - (uintptr_t)above;
}

COLD static mylib_status refuse_extent(const char *name, const mylib_array *array, int64_t count)
{
    char text[MYLIB_SHAPE_TEXT];
    mylib_shape_text(text, array->ndim, array->shape);
    if (count < 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s of shape %s has more than 2^52 elements", name,
                          text);
    return mylib_fail(MYLIB_ERR_ARGUMENT,
                      "%s of shape %s: its strides lead beyond the memory that a process can have",
                      name, text);
}

static mylib_status check_and_count(const char *name, const mylib_array *array, int64_t *count_ret)
{
    static const int64_t one_element[MYLIB_MAX_NDIM];
    if (array == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s is NULL", name);
    size_t nbytes = mylib_type_size(array->type);
    if (nbytes == 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s: unknown element type %d", name,
                          (int)array->type);
    if (array->ndim < 0 || array->ndim > MYLIB_MAX_NDIM)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s has %d dimensions: expected 0 to %d", name,
                          (int)array->ndim, MYLIB_MAX_NDIM);
    if (array->ndim > 0 && array->shape == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s has %d dimensions, but its shape is NULL", name,
                          (int)array->ndim);
    for (int d = 0; d < array->ndim; d++)
        if (array->shape[d] < 0)
            return mylib_fail(MYLIB_ERR_ARGUMENT, "%s: dimension %d has the negative size %lld",
                              name, d, (long long)array->shape[d]);
    int64_t count = mylib_element_count(array->ndim, array->shape);
    if (count != 0) {
        if (array->data == NULL)
            return mylib_fail(MYLIB_ERR_ARGUMENT, "%s has elements, but its data is NULL", name);
        const int64_t *strides = array->strides;
        if (strides == NULL && count > 0) { /* C order is one run of all elements */
            nbytes *= (size_t)count;
            strides = one_element;
        }
        if (count < 0 || !mylib_can_reach(array->data, array->ndim, array->shape, strides, nbytes))
            return refuse_extent(name, array, count);
    }
    *count_ret = count;
    return mylib_check_device(array->device);
}

mylib_status mylib_check_array(const char *name, const mylib_array *array)
{
    int64_t count;
    return check_and_count(name, array, &count);
}

static void write_strides(const mylib_array *array, int64_t count, int64_t *strides)
{
    if (count != 0 && array->strides != NULL) {
        for (int d = 0; d < array->ndim; d++)
            strides[d] = array->shape[d] == 1 ? 0 : array->strides[d];
        return;
    }
    int64_t stride = count != 0 ? (int64_t)mylib_type_size(array->type) : 0;
    for (int d = array->ndim - 1; d >= 0; d--) {
        strides[d] = array->shape[d] == 1 ? 0 : stride;
        stride *= count != 0 ? array->shape[d] : 0;
    }
}

void mylib_array_strides(const mylib_array *array, int64_t strides[MYLIB_MAX_NDIM])
{
    write_strides(array, mylib_element_count(array->ndim, array->shape), strides);
}

/* Returns the data of a checked array, or an address that is not NULL if there are no elements. */
static char *data_of(const mylib_array *array)
{
    static char nothing;
    return array->data != NULL ? array->data : &nothing;
}

const char *const mylib_operand_names[MYLIB_MAX_OPERANDS] = {
    "out",    "in[0]",  "in[1]",  "in[2]",  "in[3]",  "in[4]",  "in[5]",  "in[6]",  "in[7]",
    "in[8]",  "in[9]",  "in[10]", "in[11]", "in[12]", "in[13]", "in[14]", "in[15]", "in[16]",
    "in[17]", "in[18]", "in[19]", "in[20]", "in[21]", "in[22]", "in[23]", "in[24]", "in[25]",
    "in[26]", "in[27]", "in[28]", "in[29]", "in[30]", "in[31]"};

mylib_status mylib_take_rows(mylib_layout *layout, int rows, mylib_strides **memory_ret)
{
    layout->strides = *memory_ret = malloc((size_t)rows * sizeof *layout->strides);
    if (layout->strides == NULL)
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory for the strides of %d operands", rows);
    return MYLIB_OK;
}

void mylib_layout_copy(mylib_layout *to, const mylib_layout *from)
{
    mylib_strides *strides = to->strides;
    *to = *from;
    to->strides = strides;
    for (int k = 0; k < from->operands; k++)
        memcpy(strides[k], from->strides[k], (size_t)from->ndim * sizeof **strides);
}

mylib_status mylib_layout_init(mylib_layout *layout, const mylib_array *out, const mylib_array *in,
                               int inputs)
{
    if (inputs > 0)
        RETURN_IF_NULL(in);
    return mylib_layout_init_named(layout, out, in, inputs, mylib_operand_names);
}

COLD static mylib_status refuse_shape(const mylib_array *out, const mylib_array *in,
                                      const char *out_name, const char *name)
{
    char given[MYLIB_SHAPE_TEXT], expected[MYLIB_SHAPE_TEXT];
    return mylib_fail(MYLIB_ERR_ARGUMENT, "%s of shape %s does not broadcast to the shape %s of %s",
                      name, mylib_shape_text(given, in->ndim, in->shape),
                      mylib_shape_text(expected, out->ndim, out->shape), out_name);
}

mylib_status mylib_layout_init_named(mylib_layout *layout, const mylib_array *out,
                                     const mylib_array *in, int inputs, const char *const *names)
{
    RETURN_IF_ERROR(check_and_count(names[0], out, &layout->count));
    int ndim = out->ndim;
    memset(layout->is_host_scalar, 0, sizeof layout->is_host_scalar);
    layout->operands = 1 + inputs;
    for (int d = 0; d < ndim; d++)
        layout->shape[d] = out->shape[d];
    layout->data[0] = data_of(out);
    write_strides(out, layout->count, layout->strides[0]);

    for (int k = 0; k < inputs; k++) {
        const mylib_array *a = &in[k];
        int64_t count, *strides = layout->strides[1 + k];
        RETURN_IF_ERROR(check_and_count(names[1 + k], a, &count));
        int missing = ndim - a->ndim, fits = missing >= 0;
        for (int d = 0; d < a->ndim && fits; d++)
            fits = a->shape[d] == out->shape[missing + d] || a->shape[d] == 1;
        if (!fits)
            return refuse_shape(out, a, names[0], names[1 + k]);
        layout->data[1 + k] = data_of(a);
        layout->is_host_scalar[1 + k] =
            out->device.kind == MYLIB_CUDA && a->device.kind == MYLIB_CPU && a->ndim == 0;
        for (int d = 0; d < missing; d++)
            strides[d] = 0;
        /* check_and_count() has set it.  NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage) */
        write_strides(a, count, strides + missing);
    }

    layout->ndim = ndim;
    if (ndim == 0) {
        layout->ndim = 1;
        layout->shape[0] = 1;
        for (int k = 0; k <= inputs; k++)
            layout->strides[k][0] = 0;
    }
    return MYLIB_OK;
}

/* ---- Simplifying ---- */

static void move_dimension(mylib_layout *l, int from, int to)
{
    l->shape[to] = l->shape[from];
    for (int k = 0; k < l->operands; k++)
        l->strides[k][to] = l->strides[k][from];
}

void mylib_layout_swap(mylib_layout *l, int d, int e)
{
    int64_t t = l->shape[d];
    l->shape[d] = l->shape[e], l->shape[e] = t;
    for (int k = 0; k < l->operands; k++) {
        t = l->strides[k][d];
        l->strides[k][d] = l->strides[k][e], l->strides[k][e] = t;
    }
}

/* Tells whether dimension d belongs outside e; the first operand whose strides differ decides. */
static int is_outer(const mylib_layout *l, int d, int e)
{
    for (int k = 0; k < l->operands; k++) {
        int64_t sd = llabs(l->strides[k][d]), se = llabs(l->strides[k][e]);
        if (sd != se && sd != 0 && se != 0)
            return sd > se;
    }
    return 1;
}

void mylib_layout_simplify(mylib_layout *l)
{
    if (l->count == 0)
        return;
    if (l->ndim == 1 && l->shape[0] != 1 && l->strides[0][0] > 0)
        return; /* nothing to reorder, to merge or to flip */
    int kept = 0;
    for (int d = 0; d < l->ndim; d++)
        if (l->shape[d] != 1)
            move_dimension(l, d, kept++);
    if (kept == 0) {
        l->shape[0] = 1;
        for (int k = 0; k < l->operands; k++)
            l->strides[k][0] = 0;
        kept = 1;
    }
    l->ndim = kept;

    for (int d = 0; d < l->ndim; d++) {
        /* Make the output's stride positive; if it is 0, that of the first input that moves. */
        int k = 0;
        while (k < l->operands - 1 && l->strides[k][d] == 0)
            k++;
        if (l->strides[k][d] < 0) {
            for (int j = 0; j < l->operands; j++) {
                l->data[j] += l->strides[j][d] * (l->shape[d] - 1);
                l->strides[j][d] = -l->strides[j][d];
            }
        }
    }

    /* Stable, and dimensions are mostly in order. */
    for (int d = 1; d < l->ndim; d++)
        for (int e = d; e > 0 && !is_outer(l, e - 1, e); e--)
            mylib_layout_swap(l, e - 1, e);

    int last = 0;
    for (int d = 1; d < l->ndim; d++) {
        int merges = 1;
        for (int k = 0; k < l->operands && merges; k++)
            merges = l->strides[k][last] == l->strides[k][d] * l->shape[d];
        if (merges) {
            l->shape[last] *= l->shape[d];
            for (int k = 0; k < l->operands; k++)
                l->strides[k][last] = l->strides[k][d];
        } else {
            move_dimension(l, d, ++last);
        }
    }
    l->ndim = last + 1;
}

int mylib_layout_is_contiguous(const mylib_layout *l, int k, size_t size)
{
    int64_t stride = (int64_t)size;
    for (int d = l->ndim - 1; d >= 0; d--) {
        if (l->shape[d] != 1 && l->strides[k][d] != stride)
            return 0;
        stride *= l->shape[d];
    }
    return 1;
}

/* ---- Layouts made of others ---- */

void mylib_layout_begin(mylib_layout *l, const mylib_layout *like, int operands)
{
    l->ndim = like->ndim;
    l->count = like->count;
    l->operands = operands;
    memcpy(l->shape, like->shape, sizeof *l->shape * (size_t)like->ndim);
    memset(l->is_host_scalar, 0, sizeof l->is_host_scalar);
}

void mylib_layout_set_operand(mylib_layout *l, int k, const mylib_layout *from, int j)
{
    l->data[k] = from->data[j];
    l->is_host_scalar[k] = from->is_host_scalar[j];
    memcpy(l->strides[k], from->strides[j], sizeof *l->strides[k] * (size_t)from->ndim);
}

void mylib_layout_set_contiguous(mylib_layout *l, int k, char *data, size_t size)
{
    int64_t stride = (int64_t)size;
    l->data[k] = data;
    l->is_host_scalar[k] = 0;
    for (int d = l->ndim - 1; d >= 0; d--) {
        l->strides[k][d] = stride;
        stride *= l->shape[d];
    }
}

void mylib_layout_set_constant(mylib_layout *l, int k, const void *value)
{
    l->data[k] = (char *)(uintptr_t)value; /* only read */
    l->is_host_scalar[k] = 1;
    memset(l->strides[k], 0, sizeof *l->strides[k] * (size_t)l->ndim);
}

static int outermost(const mylib_layout *l)
{
    int d = 0;
    while (d < l->ndim - 1 && l->shape[d] == 1)
        d++;
    return d;
}

mylib_status mylib_layout_in_pieces(mylib_layout *l, int64_t most, int most_ndim,
                                    mylib_layout_task *task, void *context)
{
    const int outer = outermost(l);
    const int64_t size = l->shape[outer], count = l->count;
    int64_t done = 0;
    mylib_status st = MYLIB_OK;
    if (count == 1 || (count <= most && l->ndim - outer <= most_ndim))
        return task(context, l);
    while (done < size && st == MYLIB_OK) {
        l->shape[outer] = done == 0 ? (size + 1) / 2 : size - done;
        l->count = count / size * l->shape[outer];
        st = mylib_layout_in_pieces(l, most, most_ndim, task, context);
        for (int k = 0; k < l->operands; k++)
            l->data[k] += l->strides[k][outer] * l->shape[outer];
        done += l->shape[outer];
    }
    for (int k = 0; k < l->operands; k++)
        l->data[k] -= l->strides[k][outer] * done;
    l->shape[outer] = size;
    l->count = count;
    return st;
}

/* ---- Overlap ---- */

void mylib_layout_extent(const mylib_layout *l, int k, size_t size, const char **begin,
                         const char **end)
{
    const char *low = l->data[k], *high = l->data[k];
    for (int d = 0; d < l->ndim; d++) {
        int64_t reach = l->strides[k][d] * (l->shape[d] - 1);
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    *begin = low;
    *end = high + size;
}

/*
 * Two elements overlap if steps along the dimensions make up the distance between the operands'
 * first elements: sum of factor * steps, 0 <= steps <= most.  The search goes from the largest
 * factor to the smallest, and tries only step counts that the smaller factors can still correct; in
 * usual layouts these are one or two.
 */
typedef struct steps {
    int64_t factor, most;
} steps;

/* Far more than usual layouts need; beyond it, the answer is "may overlap". */
#define MAX_TRIALS 2000

static int can_meet(const steps *term, int terms, int64_t reach, int64_t low, int64_t high,
                    int *trials)
{
    if (low > reach || high < 0)
        return 0;
    if (terms == 0 || ++*trials > MAX_TRIALS)
        return 1;
    int64_t factor = term->factor;
    reach -= factor * term->most;
    int64_t first = low > reach ? mylib_divide_up(low - reach, factor) : 0;
    int64_t last = high / factor < term->most ? high / factor : term->most;
    for (int64_t n = first; n <= last; n++) {
        if (can_meet(term + 1, terms - 1, reach, low - n * factor, high - n * factor, trials))
            return 1;
    }
    return 0;
}

static int larger_factor_first(const void *a, const void *b)
{
    int64_t x = ((const steps *)a)->factor, y = ((const steps *)b)->factor;
    return x > y ? -1 : x < y;
}

static int may_overlap(const mylib_layout *l, int k, size_t out_size, size_t in_size)
{
    steps term[2 * MYLIB_MAX_NDIM];
    int terms = 0, trials = 0;
    int64_t reach = 0, distance = (int64_t)((uintptr_t)l->data[k] - (uintptr_t)l->data[0]);

    /* The distance in bytes, input - output, with every step made positive. */
    for (int side = 0; side < 2; side++) {
        for (int d = 0; d < l->ndim; d++) {
            int64_t stride = side == 0 ? l->strides[0][d] : -l->strides[k][d];
            if (stride == 0 || l->shape[d] == 1)
                continue;
            if (stride < 0) {
                distance -= stride * (l->shape[d] - 1);
                stride = -stride;
            }
            term[terms++] = (steps){stride, l->shape[d] - 1};
            reach += stride * (l->shape[d] - 1);
        }
    }
    qsort(term, (size_t)terms, sizeof *term, larger_factor_first);
    int merged = 0;
    for (int t = 1; t < terms; t++) {
        if (term[t].factor == term[merged].factor)
            term[merged].most += term[t].most;
        else
            term[++merged] = term[t];
    }
    terms = terms > 0 ? merged + 1 : 0;
    return can_meet(term, terms, reach, distance - (int64_t)out_size + 1,
                    distance + (int64_t)in_size - 1, &trials);
}

/* Each step clears the extent of all steps after it. */
static int are_nested(const steps *term, int terms, int64_t extent)
{
    for (int t = terms - 1; t >= 0; t--) {
        if (term[t].factor < extent)
            return 0;
        extent += term[t].factor * term[t].most;
    }
    return 1;
}

int mylib_elements_overlap(int ndim, const int64_t *shape, const int64_t *strides, size_t size)
{
    const int64_t nbytes = (int64_t)size;
    steps term[MYLIB_MAX_NDIM];
    int terms = 0, trials = 0;
    for (int d = 0; d < ndim; d++) {
        if (shape[d] == 0)
            return 0;
        if (shape[d] > 1)
            term[terms++] = (steps){llabs(strides[d]), shape[d] - 1};
    }
    if (are_nested(term, terms, nbytes)) /* usually in C order already */
        return 0;
    qsort(term, (size_t)terms, sizeof *term, larger_factor_first);
    if (are_nested(term, terms, nbytes))
        return 0;
    if (term[terms - 1].factor == 0)
        return 1;
    /*
     * Otherwise two elements share bytes if some steps lead from one to less than an element from
     * the other: no steps in the dimensions before t, forward in t, either direction after t.
     */
    for (int t = 0; t < terms; t++) {
        steps other[MYLIB_MAX_NDIM];
        int64_t middle = -term[t].factor, reach = 0;
        for (int j = t; j < terms; j++) {
            other[j] = (steps){term[j].factor, j == t ? term[j].most - 1 : 2 * term[j].most};
            reach += other[j].factor * other[j].most;
            middle += j == t ? 0 : term[j].factor * term[j].most;
        }
        if (can_meet(other + t, terms - t, reach, middle - nbytes + 1, middle + nbytes - 1,
                     &trials))
            return 1;
    }
    return 0;
}

mylib_status mylib_overlaps_itself(const mylib_array *array, int *overlaps_ret)
{
    int64_t count = 0;
    RETURN_IF_ERROR(check_and_count("array", array, &count));
    RETURN_IF_NULL(overlaps_ret);
    *overlaps_ret = count != 0 && array->strides != NULL &&
                    mylib_elements_overlap(array->ndim, array->shape, array->strides,
                                           mylib_type_size(array->type));
    return MYLIB_OK;
}

mylib_overlap mylib_layout_overlap(const mylib_layout *l, int k, size_t out_size, size_t in_size)
{
    const char *out_begin, *out_end, *begin, *end;
    mylib_layout_extent(l, 0, out_size, &out_begin, &out_end);
    mylib_layout_extent(l, k, in_size, &begin, &end);
    if ((uintptr_t)out_end <= (uintptr_t)begin || (uintptr_t)end <= (uintptr_t)out_begin)
        return MYLIB_DISJOINT;
    if (out_size == in_size && l->data[0] == l->data[k]) {
        int same = 1;
        for (int d = 0; d < l->ndim && same; d++)
            same =
                l->shape[d] == 1 || (l->strides[0][d] == l->strides[k][d] && l->strides[0][d] != 0);
        if (same)
            return MYLIB_IDENTICAL;
    }
    return may_overlap(l, k, out_size, in_size) ? MYLIB_OVERLAP : MYLIB_DISJOINT;
}

/* ---- Strided copies ---- */

#define COPY_ONE(T) \
    { \
        T value; \
        memcpy(&value, src + i * src_stride, sizeof value); \
        memcpy(dst + i * dst_stride, &value, sizeof value); \
    }
#define COPY_OF(T) IN_PAIRS(n, COPY_ONE(T), (dst += 2 * dst_stride, src += 2 * src_stride))

void mylib_copy_strided(size_t size, int64_t n, char *dst, int64_t dst_stride, const char *src,
                        int64_t src_stride)
{
    if (dst_stride == (int64_t)size && src_stride == (int64_t)size) {
        memmove(dst, src, (size_t)n * size); /* a single element may overlap its copy */
        return;
    }
    if (size == 1 && dst_stride == 1 && src_stride == 0 && n > 0) {
        memset(dst, *(const unsigned char *)src, (size_t)n);
        return;
    }
    switch (size) {
    case 1:
        COPY_OF(uint8_t) break;
    case 2:
        COPY_OF(uint16_t) break;
    case 4:
        COPY_OF(uint32_t) break;
    case 8:
        COPY_OF(uint64_t) break;
    default:
        COPY_OF(t_c128) break;
    }
}
