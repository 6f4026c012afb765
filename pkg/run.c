/*
 * run.c - the fast path (see run.h), and functions over arrays prepared by Python code.
 *
 * The fast path converts no arrays on the CPU, and moves none: it declines such calls.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- Running ---- */

/*
 * Host arrays are computed in pieces, and Python checks for signals between them.  A piece takes
 * about a tenth of a second: this many elements times steps, or bytes for a GPU.
 */
#define PIECE_WORK ((int64_t)1 << 26)
#define PIECE_NBYTES ((int64_t)1 << 32)

typedef struct run {
    const call *c;
    const computation *what;
    int64_t most; /* maximum elements of a piece */
    int flags;
} run;

static mylib_status run_over(void *context, const mylib_array *out, const mylib_array *in)
{
    run *r = context;
    const computation *w = r->what;
    mylib_device device = r->c->device;
    void *stream = stream_handle(r->c->stream);
    if (!r->c->on_gpu) /* a GPU raises no flags */
        mylib_clear_flags();
    mylib_status status = w->program != NULL
                              ? mylib_program_run(w->program, device, stream, out, in)
                          : w->is_mixed ? mylib_map(w->op, device, stream, out, in)
                                        : mylib_map_as(w->op, w->type, device, stream, out, in);
    if (!r->c->on_gpu)
        r->flags |= test_flags();
    return status;
}

static mylib_status run_once(run *r) { return run_over(r, &r->c->arrays[0], &r->c->arrays[1]); }

/* Computes the elements that a mask selects, in pieces. */
static int run_masked(run *r, masked *m, int64_t count)
{
    m->task = run_over;
    m->context = r;
    for (int64_t i = 0, end; i < count; i = end) {
        mylib_status status;
        end = count - i < PIECE_WORK ? count : i + PIECE_WORK;
        WITHOUT_GIL_IF(end - i >= RELEASE_GIL_COUNT, status = map_masked(m, i, end));
        if (check_status(r->c->state, status) < 0 || (end < count && PyErr_CheckSignals() < 0))
            return -1;
    }
    return 0;
}

/* Runs over `count` elements of the call's arrays: at once, or in pieces of the outermost axis. */
static int run_in_pieces(run *r, int64_t count)
{
    const mylib_array *out = &r->c->arrays[0];
    if (count <= r->most) {
        mylib_status status;
        WITHOUT_GIL(status = run_once(r));
        return check_status(r->c->state, status) < 0 ? -1 : PyErr_CheckSignals();
    }

    int arrays = 1 + r->c->inputs, outermost = -1;
    for (int d = 0; d < out->ndim; d++)
        if (out->shape[d] > 1 &&
            (outermost < 0 || llabs(out->strides[d]) > llabs(out->strides[outermost])))
            outermost = d;
    int64_t size = out->shape[outermost], each = count / size;
    int64_t step = each >= r->most ? 1 : r->most / each;
    char *data[1 + MYLIB_PROGRAM_MAX_INPUTS];
    int64_t stride[1 + MYLIB_PROGRAM_MAX_INPUTS], unused;
    /* Each array's size along the dimension, in our own copy of its shape. */
    int64_t *piece[1 + MYLIB_PROGRAM_MAX_INPUTS];
    for (int k = 0; k < arrays; k++) {
        const mylib_array *a = &r->c->arrays[k];
        int d = outermost - (out->ndim - a->ndim), is_repeated = d < 0 || a->shape[d] == 1;
        data[k] = a->data;
        stride[k] = is_repeated ? 0 : a->strides[d];
        piece[k] = is_repeated ? &unused : (int64_t *)&a->shape[d];
    }
    int result = 0;
    for (int64_t i = 0; i < size && result == 0; i += step) {
        int64_t sizes = size - i < step ? size - i : step;
        for (int k = 0; k < arrays; k++) {
            r->c->arrays[k].data = data[k] + i * stride[k];
            *piece[k] = sizes;
        }
        result = run_in_pieces(r, each * sizes);
    }
    for (int k = 0; k < arrays; k++) {
        r->c->arrays[k].data = data[k];
        *piece[k] = size;
    }
    return result;
}

static int compute(const call *c, const computation *what, masked *m, int64_t count, int is_new,
                   int *flags_ret)
{
    run r = {c, what, INT64_MAX, 0};
    int result = 0;
    if (count == 0)
        return 0;
    if (what->mask != NULL) {
        result = run_masked(&r, m, count);
    } else if (count < RELEASE_GIL_COUNT && c->device.kind == MYLIB_CPU) {
        result = check_status(c->state, run_once(&r));
    } else {
        /* Write an existing array at once: a later piece would be refused too late. */
        const int has_pieces = !c->on_gpu && (is_new || !what->may_refuse);
        if (has_pieces && c->device.kind == MYLIB_CPU) {
            r.most = PIECE_WORK / what->steps;
        } else if (has_pieces) {
            int64_t nbytes = type_sizes[c->arrays[0].type];
            for (int k = 1; k <= c->inputs; k++)
                nbytes += type_sizes[c->arrays[k].type];
            r.most = PIECE_NBYTES / nbytes;
        }
        result = run_in_pieces(&r, count);
    }
    *flags_ret = r.flags;
    return result;
}

/* ---- Outputs ---- */

/* Returns whether all inputs have all axes, in descending order of strides: the usual case. */
static int is_in_c_order(const call *c, int ndim)
{
    for (int k = 1; k <= c->inputs; k++) {
        const mylib_array *a = &c->arrays[k];
        if (a->ndim != ndim)
            return 0;
        for (int d = 0; d < ndim; d++)
            if (a->strides[d] <= 0 || (d > 0 && a->strides[d] > a->strides[d - 1]))
                return 0;
    }
    return 1;
}

/*
 * Memory for large outputs.  Linux clears new pages, which can take as long as the computation, and
 * the C library returns freed memory of this size at once.  So the block that was freed last is
 * kept for the next output of its size.  The kernel may take its pages (MADV_FREE).
 */
#define LEAST_KEPT_NBYTES ((size_t)32 << 20)
#define MOST_KEPT_NBYTES ((size_t)1 << 30)
#define HUGE_PAGE ((size_t)2 << 20)

static char *kept_block; /* its first element; threads exchange it */

static size_t *block_nbytes(void *block) { return (size_t *)block - 1; }

static void unmap_block(char *block)
{
    if (block != NULL)
        munmap(block - HUGE_PAGE, HUGE_PAGE + *block_nbytes(block));
}

static void *take_block(void *unused, size_t nbytes)
{
    char *block = __atomic_exchange_n(&kept_block, NULL, __ATOMIC_ACQ_REL);
    (void)unused;
    nbytes = (nbytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (block != NULL && *block_nbytes(block) == nbytes)
        return block;
    unmap_block(block);
    block =
        mmap(NULL, HUGE_PAGE + nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    block += HUGE_PAGE;
    (void)madvise(block, nbytes, MADV_HUGEPAGE);
    *block_nbytes(block) = nbytes;
    return block;
}

static void *take_zeros(void *unused, size_t count, size_t size)
{
    void *block = take_block(unused, count * size);
    return block != NULL ? memset(block, 0, count * size) : NULL;
}

static void free_block(void *unused, void *block, size_t unused_size)
{
    const size_t nbytes = *block_nbytes(block);
    (void)unused, (void)unused_size;
    if (nbytes <= MOST_KEPT_NBYTES && madvise(block, nbytes, MADV_FREE) == 0)
        block = __atomic_exchange_n(&kept_block, block, __ATOMIC_ACQ_REL);
    unmap_block(block);
}

static void *resize_block(void *unused, void *block, size_t nbytes)
{
    char *resized = take_block(unused, nbytes);
    if (resized != NULL) {
        const size_t before = *block_nbytes(block);
        memcpy(resized, block, before < nbytes ? before : nbytes);
        free_block(unused, block, before);
    }
    return resized;
}

/* Lets NumPy allocate such memory if it pays; returns the handler to restore, or NULL. */
static PyObject *handle_large(size_t nbytes)
{
    static PyDataMem_Handler handler = {
        "pkg", 1, {NULL, take_block, take_zeros, resize_block, free_block}};
    if (nbytes < LEAST_KEPT_NBYTES)
        return NULL;
    PyObject *capsule = PyCapsule_New(&handler, "mem_handler", NULL), *before = NULL;
    if (capsule != NULL && (before = PyDataMem_SetHandler(capsule)) != NULL &&
        before != PyDataMem_DefaultHandler) { /* one of the user's */
        Py_XDECREF(PyDataMem_SetHandler(before));
        Py_CLEAR(before);
    }
    PyErr_Clear(); /* without memory for that, NumPy's is good enough */
    Py_XDECREF(capsule);
    return before;
}

PyObject *new_output(call *c, mylib_type type, int num, char order, int ndim, int64_t *shape)
{
    int64_t strides[MYLIB_MAX_NDIM], stride = type_sizes[type];
    size_t nbytes = (size_t)stride;
    PyObject *out, *before;
    if (ndim < 2 || (order == 'K' && is_in_c_order(c, ndim)))
        order = 'C';
    if (order == 'K')
        output_strides(&c->arrays[1], c->inputs, 0, ndim, shape, type, strides);
    for (int d = 0; d < ndim && order == 'F'; d++) {
        strides[d] = stride;
        stride *= shape[d] != 0 ? shape[d] : 1;
    }
    if (c->on_gpu) {
        out = new_array(c->state, c->device, c->stream, type, ndim, shape,
                        order == 'C' ? NULL : strides);
        if (out != NULL)
            c->arrays[0] = ((array_object *)out)->a;
        return out;
    }
    for (int d = 0; d < ndim; d++)
        nbytes *= (size_t)shape[d];
    before = handle_large(nbytes);
    out = order == 'K' ? PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(num), ndim,
                                              (npy_intp *)shape, (npy_intp *)strides, NULL, 0, NULL)
                       : PyArray_EMPTY(ndim, (npy_intp *)shape, num, order == 'F');
    if (before != NULL) {
        Py_XDECREF(PyDataMem_SetHandler(before));
        Py_DECREF(before);
    }
    if (out != NULL)
        describe_array((PyArrayObject *)out, type, &c->arrays[0], c->free_dims);
    return out;
}

/*
 * Takes `out` if type, shape and place are right, and it is exactly an input or overlaps none.
 * Programs accept any overlap: they compute into a new array first.
 */
static outcome take_output(call *c, const computation *what, int ndim, const int64_t *shape,
                           int64_t count, PyObject *out, int *is_copied_ret)
{
    const mylib_array *a = &c->arrays[0];
    if (!find_output(c, out) || a->type != what->result_type || a->ndim != ndim ||
        memcmp(a->shape, shape, (size_t)ndim * sizeof *shape) != 0)
        return OTHER_OUT;
    const int is_shared = count != 0 && overlaps_itself(a);
    *is_copied_ret = count != 0 && (is_shared || needs_copy(c));
    /* A GPU writes elements that share memory in undefined order; NumPy detects overlap exactly. */
    return *is_copied_ret && (what->program == NULL || (is_shared && c->on_gpu)) ? OTHER_OUT : DONE;
}

static int copy_output(call *c, PyObject *result, PyObject *out)
{
    if (!c->on_gpu)
        return PyArray_CopyInto((PyArrayObject *)out, (PyArrayObject *)result);
    mylib_status status;
    if (note_use(((array_object *)out)->memory, c->stream) < 0)
        return -1;
    WITHOUT_GIL(status = mylib_copy_array(stream_handle(c->stream), &((array_object *)out)->a,
                                          &((array_object *)result)->a));
    return check_status(c->state, status);
}

/* ---- Calls ---- */

outcome run_call(call *c, const computation *what, char order, PyObject *out, PyObject **result_ret)
{
    int64_t shape[MYLIB_MAX_NDIM];
    int ndim, flags = 0, is_copied = 0;
    masked m;
    PyObject *result = NULL;
    int64_t count = 0;
    outcome done = c->on_gpu ? place(c) : DONE;
    if (done == DONE)
        done = broadcast(c, &ndim, shape);
    if (done == DONE)
        count = count_of(ndim, shape);
    if (done == DONE && out != NULL)
        done = take_output(c, what, ndim, shape, count, out, &is_copied);
    if (done == DONE && what->mask != NULL &&
        (is_copied || !plan_masked(&m, c->arrays, c->inputs, what->mask, count)))
        done = OTHER_OUT;
    if (done == DONE) {
        result = out != NULL && !is_copied
                     ? Py_NewRef(out)
                     : new_output(c, what->result_type, what->result_num, order, ndim, shape);
        if (result == NULL || (c->on_gpu && note_uses(c, result) < 0) ||
            compute(c, what, &m, count, result != out, &flags) < 0 ||
            (is_copied && copy_output(c, result, out) < 0))
            done = FAILED;
        else if (what->flags_ret != NULL)
            *what->flags_ret = flags;
        else if (flags != 0 && !c->on_gpu && what->name == NULL)
            done = OTHER_FLAGS;
        else if (flags != 0 && !c->on_gpu && report_flags(c->state, what->name, flags) < 0)
            done = FAILED;
    }
    release(c);
    if (done != DONE)
        Py_CLEAR(result);
    else if (is_copied)
        Py_SETREF(result, Py_NewRef(out));
    else if (ndim == 0 && out == NULL && !c->on_gpu)
        result = PyArray_Return((PyArrayObject *)result);
    *result_ret = result;
    return done;
}

/* Returns the smallest float type that holds integers or bools of a type, as NumPy chooses it. */
static mylib_type float_of(mylib_type type)
{
    const size_t size = type_sizes[type];
    return size == 1 ? MYLIB_F16 : size == 2 ? MYLIB_F32 : MYLIB_F64;
}

/*
 * Chooses the float type for integers, by each operand: for i8 and u8 it is f16, though their
 * common type is i16.  For bools the common type decides: a number beside them sets it.
 */
static mylib_type choose_float(const call *c, mylib_type common)
{
    mylib_type widest = MYLIB_F16;
    int integers = 0;
    for (int k = 0; k < c->inputs; k++) {
        if (c->operands[k].is_weak)
            continue;
        const mylib_type type = c->arrays[1 + k].type;
        integers += kind_of_type(type) == KIND_INT;
        widest = float_of(type) > widest ? float_of(type) : widest;
    }
    return integers > 0 ? widest : float_of(common);
}

static outcome choose_type(const call *c, int is_true_division, computation *what)
{
    const uint8_t *results = result_types[what->op];
    int weak = -1, integers = 0;
    int is_typed = 0, num = -1; /* NumPy's number of the type */
    int has_twin = 0;           /* a type like long long, which has a twin of the same size */
    mylib_type type = MYLIB_BOOL;
    for (int k = 0; k < c->inputs; k++) {
        const operand *o = &c->operands[k];
        const mylib_array *a = &c->arrays[1 + k];
        if (o->is_weak) {
            weak = (int)o->number > weak ? (int)o->number : weak;
            continue;
        }
        integers += kind_of_type(a->type) == KIND_INT;
        const int is_twin = o->num != num_of_type(a->type);
        const int is_complex = kind_of_type(a->type) == KIND_COMPLEX;
        if (!is_typed) {
            is_typed = 1;
            num = o->num;
            type = a->type;
        } else if (!c->on_gpu && o->num != num &&
                   (has_twin || is_twin || is_complex != (kind_of_type(type) == KIND_COMPLEX))) {
            return OTHER_TYPE; /* NumPy chooses between twins, and makes complex numbers faster */
        } else if (a->type != type) {
            if (promote(type, a->type, &type) < 0)
                return FAILED;
            num = num_of_type(type);
        }
        has_twin |= is_twin;
    }
    if (!is_typed)
        return OTHER_PLACE;
    const mylib_type own = type;
    if (weak >= 0)
        type = promote_weak(type, (number_kind)weak);
    if (type == MYLIB_BOOL && results[MYLIB_BOOL] == 0) {
        if (c->on_gpu && refuse_bool(what->op) < 0)
            return FAILED;
        if (!c->on_gpu && !mylib_op_compares(what->op))
            return OTHER_TYPE; /* NumPy refuses some, and chooses a float type for others */
        type = MYLIB_I8;
    }
    if (is_true_division && kind_of_type(type) == KIND_INT)
        type = MYLIB_F64;
    if (results[type] == 0 && kind_of_type(type) == KIND_INT)
        type = choose_float(c, type);
    if (results[type] == 0)
        return OTHER_TYPE;
    what->type = type;
    what->result_type = (mylib_type)(results[type] - 1);
    what->is_mixed = type == MYLIB_F64 && integers == 2 && mylib_op_compares(what->op);
    what->result_num = what->result_type == own ? num : num_of_type(what->result_type);
    return DONE;
}

/*
 * Makes a Python number a bool: only the truth of a logical operation's operand matters, whatever
 * the type of the others.  OTHER_NUMBER for ints of more than 64 bits, which NumPy refuses.
 */
static outcome take_truth(call *c, int k)
{
    operand *o = &c->operands[k];
    int64_t value;
    if (!o->is_weak)
        return DONE;
    if (o->number == KIND_INT && !find_exact(o->object, MYLIB_I64, &value))
        return OTHER_NUMBER;
    const mylib_mode mode = mylib_enter_mode(); /* in which a denormal number is true */
    int truth = PyObject_IsTrue(o->object);
    mylib_leave_mode(mode);
    if (truth < 0)
        return FAILED;
    o->number = KIND_BOOL;
    o->value[0] = (char)truth;
    c->arrays[1 + k].type = MYLIB_BOOL;
    return DONE;
}

outcome run_operation(core_state *state, mylib_op op, int is_true_division, int is_cpu,
                      const char *name, PyObject *const *args, PyObject *out, PyObject *mask,
                      PyObject **result_ret)
{
    const int inputs = mylib_op_arity(op);
    DECLARE_CALL(c, state, 2, inputs);
    computation what = {.op = op, .steps = 1, .name = name};
    int64_t mask_dims[DIMS_OF(1)];
    mylib_array mask_array;
    if (mask != NULL) {
        describe_array((PyArrayObject *)mask, MYLIB_BOOL, &mask_array, mask_dims);
        what.mask = &mask_array;
    }
    outcome done;
    for (int k = 0; k < inputs; k++)
        if ((done = take_operand(&c, k, args[k])) != DONE ||
            (is_logical(op) && (done = take_truth(&c, k)) != DONE))
            return done;
    if ((!c.on_gpu && !is_cpu) || (c.on_gpu && mask != NULL))
        return OTHER_PLACE;
    if ((done = choose_type(&c, is_true_division, &what)) != DONE)
        return done;
    what.may_refuse = may_refuse(op, what.type);
    for (int k = 0; k < inputs && c.has_number; k++) {
        if (!c.operands[k].is_weak || is_logical(op))
            continue;
        if (!c.on_gpu) {
            c.arrays[1 + k].type = what.type;
            if (!find_exact(args[k], what.type, c.operands[k].value))
                return OTHER_NUMBER;
        } else if (take_value(&c, k, what.type) < 0) {
            /* The slow path knows the result of such a comparison. */
            if (!mylib_op_compares(op) || !is_out_of_range(&c, k))
                return FAILED;
            PyErr_Clear();
            return OTHER_NUMBER;
        }
    }
    done = run_call(&c, &what, 'K', out, result_ret);
    if (done != OTHER_OUT || !c.on_gpu || !is_array(state, out))
        return done;
    /* The slow path converts and broadcasts the result. */
    if ((done = run_call(&c, &what, 'K', NULL, result_ret)) != DONE)
        return done;
    *result_ret = call_slow(state, "finish", "(sNO)",
                            is_true_division ? TRUE_DIVIDE : mylib_op_name(op), *result_ret, out);
    return *result_ret != NULL ? DONE : FAILED;
}

/* ---- Functions over prepared arrays ---- */

#define MOST_INPUTS 3

static int take_all(call *c, PyObject *args, Py_ssize_t count, const char *name)
{
    if (check_count(name, PyTuple_GET_SIZE(args), count) < 0)
        return -1;
    return take_arrays(c, &PyTuple_GET_ITEM(args, 0), count);
}

static PyObject *finish(call *c, mylib_status status)
{
    PyObject *result = none_or_raise(c->state, status);
    release(c);
    return result;
}

/* Copies from another GPU in the order of its stream too, so nobody frees the source too soon. */
static mylib_status copy_between(const call *c, void *from)
{
    const mylib_array *dst = &c->arrays[0], *src = &c->arrays[1];
    void *to = stream_handle(c->stream);
    mylib_status status = mylib_stream_wait(dst->device, to, src->device, from);
    if (status == MYLIB_OK)
        status = mylib_copy_array(to, dst, src);
    if (status == MYLIB_OK && mylib_stream_wait(src->device, from, dst->device, to) != MYLIB_OK)
        status = mylib_synchronize(dst->device, to);
    return status;
}

/* dst[...] = src, converted; each is an Array or a NumPy array. */
static PyObject *copy_function(PyObject *module, PyObject *args)
{
    DECLARE_CALL(c, PyModule_GetState(module), MOST_INPUTS, 0);
    PyObject *from = NULL;
    mylib_status status;
    if (take_all(&c, args, 2, "copy") < 0)
        return NULL;
    const mylib_device dst = c.arrays[0].device, src = c.arrays[1].device;
    const int crosses = dst.kind == src.kind && dst.index != src.index;
    if (crosses && current_stream(c.state, src, &from) < 0) {
        release(&c);
        return NULL;
    }
    WITHOUT_GIL(
        status = crosses ? copy_between(&c, stream_handle(from))
                         : mylib_copy_array(stream_handle(c.stream), &c.arrays[0], &c.arrays[1]));
    Py_XDECREF(from);
    return finish(&c, status);
}

/* out[...] = where(condition, a, b) for Arrays; inputs may be NumPy arrays without dimensions. */
static PyObject *select_function(PyObject *module, PyObject *args)
{
    DECLARE_CALL(c, PyModule_GetState(module), MOST_INPUTS, 0);
    mylib_status status;
    if (take_all(&c, args, 4, "select") < 0)
        return NULL;
    WITHOUT_GIL(status = mylib_select(c.device, stream_handle(c.stream), &c.arrays[0], &c.arrays[1],
                                      &c.arrays[2], &c.arrays[3]));
    return finish(&c, status);
}

static outcome choose_selected(call *c, mylib_type *type_ret)
{
    int weak = -1, is_typed = 0;
    mylib_type type = MYLIB_BOOL;
    for (int k = 1; k < c->inputs; k++) {
        const mylib_type own = c->arrays[1 + k].type;
        if (!c->on_gpu && !c->operands[k].is_weak && c->operands[k].num != num_of_type(own))
            return OTHER_TYPE; /* like long long, which has a twin: NumPy chooses */
        if (c->operands[k].is_weak)
            weak = (int)c->operands[k].number;
        else if (!is_typed)
            type = own;
        else if (promote(type, own, &type) < 0)
            return FAILED;
        is_typed |= !c->operands[k].is_weak;
    }
    if (!is_typed)
        return OTHER_TYPE;
    *type_ret = weak >= 0 ? promote_weak(type, (number_kind)weak) : type;
    for (int k = 1; k < c->inputs; k++)
        if (c->operands[k].is_weak && take_value(c, k, *type_ret) < 0)
            return FAILED;
    return DONE;
}

/* Computes where(condition, x, y) of Arrays of one GPU, or NumPy arrays, and numbers. */
static PyObject *where_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    DECLARE_CALL(c, PyModule_GetState(module), MOST_INPUTS, MOST_INPUTS);
    int64_t shape[MYLIB_MAX_NDIM];
    int ndim;
    mylib_type type;
    mylib_status status = MYLIB_OK;
    outcome done = DONE;
    PyObject *out = NULL;
    if (check_count("where_arrays", count, MOST_INPUTS) < 0)
        return NULL;
    for (int k = 0; k < MOST_INPUTS && done == DONE; k++)
        done = take_operand(&c, k, args[k]);
    if (done == DONE && (done = take_truth(&c, 0)) == DONE &&
        (done = choose_selected(&c, &type)) == DONE && (done = place(&c)) == DONE &&
        (done = broadcast(&c, &ndim, shape)) == DONE) {
        out = new_output(&c, type, num_of_type(type), 'K', ndim, shape);
        if (out == NULL || note_uses(&c, out) < 0)
            done = FAILED;
    }
    if (done == DONE) {
        WITHOUT_GIL(status = mylib_select(c.device, stream_handle(c.stream), &c.arrays[0],
                                          &c.arrays[1], &c.arrays[2], &c.arrays[3]));
        done = check_status(c.state, status) < 0 ? FAILED : DONE;
    }
    release(&c);
    if (done != DONE)
        Py_CLEAR(out);
    return answer(done, out);
}

/* out[i] = start + i * step; start and step are NumPy arrays without dimensions, of out's type. */
static PyObject *arange_function(PyObject *module, PyObject *args)
{
    DECLARE_CALL(c, PyModule_GetState(module), MOST_INPUTS, 0);
    mylib_status status;
    if (take_all(&c, args, 3, "arange") < 0)
        return NULL;
    for (int k = 1; k < 3; k++) {
        if (c.arrays[k].type != c.arrays[0].type || c.arrays[k].device.kind != MYLIB_CPU) {
            release(&c);
            return PyErr_Format(PyExc_TypeError, "arange(): start and step must be of out's type");
        }
    }
    WITHOUT_GIL(status = mylib_arange(stream_handle(c.stream), &c.arrays[0], c.arrays[1].data,
                                      c.arrays[2].data));
    return finish(&c, status);
}

/*
 * out[...] = op(*inputs) on cuda:`ordinal`, or on the CPU when it is -1.  All are NumPy arrays in
 * native byte order, of the operation's types, and broadcast to `out`.  Returns the flags.
 */
static PyObject *map_function(PyObject *module, PyObject *args)
{
    DECLARE_CALL(c, PyModule_GetState(module), MOST_INPUTS, 0);
    PyObject *arrays[3];
    const Py_ssize_t count = PyTuple_GET_SIZE(args) - 2;
    int op, ordinal;
    if (!PyArg_ParseTuple(args, "iiOO|O:map", &op, &ordinal, &arrays[0], &arrays[1], &arrays[2]))
        return NULL;
    if (op < 0 || op >= MYLIB_OP_COUNT || ordinal < -1)
        return PyErr_Format(PyExc_ValueError, "there is no operation %d, or no device %d", op,
                            ordinal);
    if (count - 1 != mylib_op_arity((mylib_op)op))
        return PyErr_Format(PyExc_TypeError, "map(): the number of inputs is not the operation's");
    c.device = device_of_ordinal(ordinal);
    if (take_arrays(&c, arrays, count) < 0)
        return NULL;
    mylib_status status;
    int flags;
    WITHOUT_GIL(mylib_clear_flags();
                status = mylib_map((mylib_op)op, c.device, stream_handle(c.stream), &c.arrays[0],
                                   &c.arrays[1]);
                flags = test_flags());
    PyObject *done = finish(&c, status);
    Py_XDECREF(done);
    return done != NULL ? PyLong_FromLong(flags) : NULL;
}

static int convert_array(core_state *state, PyObject *result, PyObject *array)
{
    PyObject *arrays[] = {result, array};
    DECLARE_CALL(c, state, 1, 0);
    mylib_status status;
    int flags;
    if (take_arrays(&c, arrays, 2) < 0)
        return -1;
    WITHOUT_GIL_IF(PyArray_SIZE((PyArrayObject *)array) >= RELEASE_GIL_COUNT, mylib_clear_flags();
                   status = mylib_copy_array(NULL, &c.arrays[0], &c.arrays[1]);
                   flags = test_flags());
    release(&c);
    if (check_status(state, status) < 0)
        return -1;
    return flags != 0 ? report_flags(state, "cast", flags) : 0;
}

/*
 * Returns a plain NumPy array converted to another type; NotImplemented for other arrays and types,
 * and where the conversion drops imaginary parts.
 */
static PyObject *astype_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    PyArray_Descr *descr;
    PyObject *result = NULL;
    mylib_type from, to;
    if (check_count("astype_new", count, 2) < 0)
        return NULL;
    if (!PyArray_CheckExact(args[0]))
        Py_RETURN_NOTIMPLEMENTED;
    if (PyArray_DescrConverter(args[1], &descr) != NPY_SUCCEED)
        return NULL;
    PyArrayObject *array = (PyArrayObject *)args[0];
    const int is_usual = find_type(PyArray_TYPE(array), &from) && find_type(descr->type_num, &to) &&
                         (from == MYLIB_BOOL || from < MYLIB_C64 || to >= MYLIB_C64);
    /* NumPy would name the package's line in a warning, saturate no integer, and be slow to f16. */
    const int by_library =
        is_usual && to != MYLIB_BOOL &&
        (to == MYLIB_F16 || (from != MYLIB_BOOL && (from >= MYLIB_F16 || to >= MYLIB_F16) &&
                             !PyArray_CanCastSafely(PyArray_TYPE(array), descr->type_num)));
    if (!is_usual ||
        (by_library && !(PyArray_ISNBO(descr->byteorder) && PyArray_ISBEHAVED_RO(array)))) {
        Py_DECREF(descr);
        Py_RETURN_NOTIMPLEMENTED;
    }
    const mylib_mode mode = mylib_enter_mode();
    result = PyArray_NewLikeArray(array, NPY_KEEPORDER, descr, 0);
    if (result != NULL && (by_library ? convert_array(PyModule_GetState(module), result, args[0])
                                      : PyArray_CopyInto((PyArrayObject *)result, array)) < 0)
        Py_CLEAR(result);
    mylib_leave_mode(mode);
    return result;
}

PyMethodDef run_functions[] = {
    {"map", map_function, METH_VARARGS, NULL},
    {"copy", copy_function, METH_VARARGS, NULL},
    {"select", select_function, METH_VARARGS, NULL},
    {"where_arrays", FASTCALL(where_function), METH_FASTCALL, NULL},
    {"arange", arange_function, METH_VARARGS, NULL},
    {"astype_new", FASTCALL(astype_new_function), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
