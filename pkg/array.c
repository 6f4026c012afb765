/*
 * array.c - the base of pkg.Array: operators, attributes, and functions that make arrays.
 */
#include "array.h"

#include <stddef.h>

#include <structmember.h> /* Python before 3.12 */

/* ---- Operators ---- */

/* Returns the state of the module that one of a slot's operands belongs to; `b` may be NULL. */
static core_state *state_of_operands(PyObject *a, PyObject *b)
{
    /* Numbers and NumPy arrays have static types; skip the slow search for their module. */
    if (b != NULL && !PyType_HasFeature(Py_TYPE(a), Py_TPFLAGS_HEAPTYPE))
        return core_state_of(Py_TYPE(b));
    core_state *state = core_state_of(Py_TYPE(a));
    if (state == NULL && b != NULL) {
        PyErr_Clear();
        state = core_state_of(Py_TYPE(b));
    }
    return state;
}

/* Computes an operator by the fast path or, if that declines, by pkg._call.call_operator. */
static PyObject *apply(mylib_op op, int is_true_division, PyObject *a, PyObject *b, PyObject *out)
{
    PyObject *args[2] = {a, b}, *result = NULL;
    core_state *state = state_of_operands(a, b);
    if (state == NULL)
        return NULL;
    if (run_operation(state, op, is_true_division, 0, NULL, args, out, NULL, &result) <= DONE)
        return result;
    if (out == NULL)
        out = Py_None;
    return b != NULL
               ? call_slow(state, "operator", "(ii(OO)O)", (int)op, is_true_division, a, b, out)
               : call_slow(state, "operator", "(ii(O)O)", (int)op, is_true_division, a, out);
}

/* The binary operators: the slot, the operation that computes it, and whether / is the true one. */
/* clang-format off */
#define EACH_BINARY(X) \
    X(add, add, 0) X(subtract, subtract, 0) X(multiply, multiply, 0) X(true_divide, divide, 1) \
    X(floor_divide, floor_divide, 0) X(remainder, remainder, 0) \
    X(and, bitwise_and, 0) X(or, bitwise_or, 0) X(xor, bitwise_xor, 0) \
    X(lshift, left_shift, 0) X(rshift, right_shift, 0)
/* clang-format on */

#define DEFINE_BINARY(name, op, is_true_division) \
    static PyObject *array_##name(PyObject *a, PyObject *b) \
    { \
        return apply(MYLIB_OP_##op, is_true_division, a, b, NULL); \
    } \
    static PyObject *array_inplace_##name(PyObject *a, PyObject *b) \
    { \
        return apply(MYLIB_OP_##op, is_true_division, a, b, a); \
    }
EACH_BINARY(DEFINE_BINARY)

static PyObject *array_negative(PyObject *a) { return apply(MYLIB_OP_negative, 0, a, NULL, NULL); }
static PyObject *array_invert(PyObject *a) { return apply(MYLIB_OP_invert, 0, a, NULL, NULL); }
static PyObject *array_absolute(PyObject *a) { return apply(MYLIB_OP_absolute, 0, a, NULL, NULL); }

static PyObject *array_richcompare(PyObject *a, PyObject *b, int comparison)
{
    static const mylib_op ops[] = {
        [Py_LT] = MYLIB_OP_less,    [Py_LE] = MYLIB_OP_less_equal,
        [Py_EQ] = MYLIB_OP_equal,   [Py_NE] = MYLIB_OP_not_equal,
        [Py_GT] = MYLIB_OP_greater, [Py_GE] = MYLIB_OP_greater_equal,
    };
    return apply(ops[comparison], 0, a, b, NULL);
}

/* ---- Attributes ---- */

static PyObject *tuple_of(int ndim, const int64_t *values)
{
    PyObject *tuple = PyTuple_New(ndim);
    for (int d = 0; tuple != NULL && d < ndim; d++) {
        PyObject *value = PyLong_FromLongLong(values[d]);
        if (value == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, d, value);
    }
    return tuple;
}

static PyObject *get_dims(PyObject *object, void *are_strides)
{
    const mylib_array *a = &((array_object *)object)->a;
    return tuple_of(a->ndim, are_strides != NULL ? a->strides : a->shape);
}

static PyObject *get_dtype(PyObject *object, void *Py_UNUSED(unused))
{
    return (PyObject *)PyArray_DescrFromType(num_of_type(((array_object *)object)->a.type));
}

static PyObject *get_device(PyObject *object, void *Py_UNUSED(unused))
{
    return PyUnicode_FromFormat("cuda:%d", (int)((array_object *)object)->a.device.index);
}

static PyObject *get_itemsize(PyObject *object, void *Py_UNUSED(unused))
{
    return PyLong_FromSize_t(mylib_type_size(((array_object *)object)->a.type));
}

static PyObject *get_nbytes(PyObject *object, void *Py_UNUSED(unused))
{
    array_object *array = (array_object *)object;
    return PyLong_FromLongLong(array->count * (int64_t)mylib_type_size(array->a.type));
}

static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type, (void)args, (void)kwargs;
    return PyErr_Format(PyExc_TypeError,
                        "an Array is made by pkg.asarray(), pkg.zeros(), pkg.empty() and the like");
}

/* No tp_clear is needed: a cycle through an Array includes a mutable object. */
static int array_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((array_object *)object)->memory);
    return 0;
}

static void array_dealloc(PyObject *object)
{
    array_object *array = (array_object *)object;
    PyObject_GC_UnTrack(object);
    if (array->weakrefs != NULL)
        PyObject_ClearWeakRefs(object);
    if (array->dims != array->inline_dims)
        PyMem_Free(array->dims);
    Py_CLEAR(array->memory);
    free_object(object);
}

static Py_ssize_t array_length(PyObject *object)
{
    const mylib_array *a = &((array_object *)object)->a;
    if (a->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of an array without dimensions");
        return -1;
    }
    return (Py_ssize_t)a->shape[0];
}

/* ---- Views ---- */

/* Returns a key as a tuple of ints, slices, None and one ellipsis, of which NumPy makes views. */
static PyObject *take_key(PyObject *key)
{
    PyObject *const *items = PyTuple_Check(key) ? &PyTuple_GET_ITEM(key, 0) : &key;
    Py_ssize_t count = PyTuple_Check(key) ? PyTuple_GET_SIZE(key) : 1;
    int has_ellipsis = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        has_ellipsis |= items[i] == Py_Ellipsis;
    PyObject *tuple = PyTuple_New(count + !has_ellipsis);
    for (Py_ssize_t i = 0; i < count && tuple != NULL; i++) {
        PyObject *item = items[i], *taken = NULL;
        int overflow = 0;
        if (PySlice_Check(item) || item == Py_None || item == Py_Ellipsis)
            taken = Py_NewRef(item);
        else if (PyIndex_Check(item) && !PyBool_Check(item) && !PyArray_IsScalar(item, Bool))
            taken = PyNumber_Index(item);
        if (taken != NULL && PyLong_CheckExact(taken))
            (void)PyLong_AsLongLongAndOverflow(taken, &overflow);
        if (overflow != 0)
            PyErr_Format(PyExc_IndexError, "index %S is out of bounds", taken);
        else if (taken == NULL && (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)))
            PyErr_Format(PyExc_IndexError,
                         "an array on a GPU is indexed by integers, slices, ... and None, not by "
                         "%.100s",
                         Py_TYPE(item)->tp_name);
        PyTuple_SET_ITEM(tuple, i, taken);
        if (taken == NULL || overflow != 0)
            Py_CLEAR(tuple);
    }
    if (tuple != NULL && !has_ellipsis)
        PyTuple_SET_ITEM(tuple, count, Py_NewRef(Py_Ellipsis));
    return tuple;
}

/*
 * Returns a NumPy array of the same layout over the memory of the GPU: NumPy makes views of it, and
 * tells its flags.  Nothing may read its elements: no traceback may hold it.
 */
static inline PyObject *shadow_of(const array_object *array)
{
    const mylib_array *a = &array->a;
    char *begin = array->count != 0 ? a->data : (char *)&array->count; /* NumPy wants a pointer */
    return PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(num_of_type(a->type)), a->ndim,
                                (const npy_intp *)a->shape, (const npy_intp *)a->strides, begin,
                                array->is_readonly ? 0 : NPY_ARRAY_WRITEABLE, NULL);
}

/* Returns a view of an array with the offset, layout and type of a view of its shadow. */
static inline PyObject *view_like(core_state *state, const array_object *array, PyObject *shadow,
                                  PyObject *view)
{
    PyArrayObject *v = (PyArrayObject *)view;
    mylib_type type = array->a.type;
    if (PyArray_TYPE(v) != num_of_type(type) && take_dtype((PyObject *)PyArray_DESCR(v), &type) < 0)
        return NULL;
    ptrdiff_t offset =
        PyArray_SIZE(v) != 0 ? PyArray_BYTES(v) - PyArray_BYTES((PyArrayObject *)shadow) : 0;
    return new_array_over(state, Py_NewRef(array->memory), (char *)array->a.data + offset, type,
                          PyArray_NDIM(v), (const int64_t *)PyArray_DIMS(v),
                          (const int64_t *)PyArray_STRIDES(v), array->is_readonly);
}

static PyObject *array_subscript(PyObject *object, PyObject *key)
{
    const array_object *array = (array_object *)object;
    PyObject *tuple = take_key(key), *shadow = NULL, *view = NULL, *result = NULL;
    core_state *state = core_state_of(Py_TYPE(object));
    if (tuple != NULL && state != NULL)
        shadow = shadow_of(array);
    if (shadow != NULL)
        view = PyObject_GetItem(shadow, tuple);
    if (view != NULL)
        result = view_like(state, array, shadow, view);
    Py_XDECREF(view);
    Py_XDECREF(shadow);
    Py_XDECREF(tuple);
    return result;
}

/* For reversed() and the like. */
static PyObject *array_item(PyObject *object, Py_ssize_t i)
{
    PyObject *key = PyLong_FromSsize_t(i), *result = NULL;
    if (key != NULL)
        result = array_subscript(object, key);
    Py_XDECREF(key);
    return result;
}

static PyObject *get_contiguous(PyObject *object, void *is_fortran)
{
    PyObject *shadow = shadow_of((array_object *)object);
    const int flag = is_fortran != NULL ? NPY_ARRAY_F_CONTIGUOUS : NPY_ARRAY_C_CONTIGUOUS;
    if (shadow == NULL)
        return NULL;
    PyObject *result = PyBool_FromLong(PyArray_CHKFLAGS((PyArrayObject *)shadow, flag));
    Py_DECREF(shadow);
    return result;
}

static PyMemberDef array_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(array_object, weakrefs), READONLY, NULL},
    {"_memory", T_OBJECT_EX, offsetof(array_object, memory), READONLY, NULL},
    {"_pointer", T_ULONGLONG, offsetof(array_object, a.data), READONLY, NULL},
    {"_ordinal", T_INT, offsetof(array_object, a.device.index), READONLY, NULL},
    {"_is_readonly", T_BOOL, offsetof(array_object, is_readonly), 0, NULL}, /* flags sets it */
    {"ndim", T_INT, offsetof(array_object, a.ndim), READONLY, "The number of dimensions."},
    {"size", T_LONGLONG, offsetof(array_object, count), READONLY, "The number of elements."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef array_getset[] = {
    {"shape", get_dims, NULL, "The sizes of the dimensions.", NULL},
    {"strides", get_dims, NULL, "Bytes from one element to the next, for each dimension.", ""},
    {"dtype", get_dtype, NULL, "The element type, a numpy.dtype.", NULL},
    {"device", get_device, NULL, "The GPU that holds the elements, as \"cuda:0\".", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes per element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements together.", NULL},
    {"_is_c_contiguous", get_contiguous, NULL, NULL, NULL},
    {"_is_f_contiguous", get_contiguous, NULL, NULL, ""},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot array_slots[] = {
    {Py_tp_doc, "The base of pkg.Array."},
    {Py_tp_new, array_new},
    {Py_tp_traverse, array_traverse},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_members, array_members},
    {Py_tp_getset, array_getset},
    {Py_tp_richcompare, array_richcompare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_nb_invert, array_invert},
    {Py_nb_negative, array_negative},
    {Py_nb_absolute, array_absolute},
    {Py_sq_length, array_length},
    {Py_sq_item, array_item},
    {Py_mp_subscript, array_subscript},
#define SLOTS(name, op, is_true_division) \
    {Py_nb_##name, array_##name}, {Py_nb_inplace_##name, array_inplace_##name},
    EACH_BINARY(SLOTS)
#undef SLOTS
        {0, NULL},
};

PyType_Spec array_spec = {
    .name = "pkg.core.ArrayBase",
    .basicsize = sizeof(array_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = array_slots,
};

/* ---- Functions ---- */

static int take_dims(PyObject *sequence, int64_t dims[MYLIB_MAX_NDIM])
{
    /* Copy it: __index__ of an item may change a list. */
    PyObject *tuple = PySequence_Tuple(sequence);
    if (tuple == NULL)
        return -1;
    Py_ssize_t ndim = PyTuple_GET_SIZE(tuple);
    if (ndim > MYLIB_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "%zd dimensions: at most %d are supported", ndim,
                     MYLIB_MAX_NDIM);
        ndim = -1;
    }
    for (Py_ssize_t d = 0; d < ndim; d++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, d);
        if (PyBool_Check(item))
            PyErr_SetString(PyExc_TypeError, "a size is an int, not a bool");
        dims[d] = PyErr_Occurred() ? -1 : PyLong_AsLongLong(item);
        if (dims[d] == -1 && PyErr_Occurred())
            ndim = -1;
    }
    Py_DECREF(tuple);
    return (int)ndim;
}

/* Does the same for sizes, which are not negative. */
static int take_shape(PyObject *sequence, int64_t shape[MYLIB_MAX_NDIM])
{
    const int ndim = take_dims(sequence, shape);
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 0) {
            PyErr_Format(PyExc_ValueError, "negative size %lld in dimension %d",
                         (long long)shape[d], d);
            return -1;
        }
    }
    return ndim;
}

static PyObject *new_on(core_state *state, int ordinal, mylib_type type, int ndim,
                        const int64_t *shape, const int64_t *strides)
{
    const mylib_device device = {MYLIB_CUDA, ordinal};
    PyObject *stream;
    if (current_stream(state, device, &stream) < 0)
        return NULL;
    PyObject *result = new_array(state, device, stream, type, ndim, shape, strides);
    Py_XDECREF(stream);
    return result;
}

static PyObject *empty_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *shape_object, *dtype;
    int ordinal, is_fortran, axes[MYLIB_MAX_NDIM];
    mylib_type type;
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM];
    if (!PyArg_ParseTuple(args, "OOip:empty", &shape_object, &dtype, &ordinal, &is_fortran))
        return NULL;
    int ndim = take_shape(shape_object, shape);
    if (ndim < 0 || take_dtype(dtype, &type) < 0)
        return NULL;
    for (int i = 0; i < ndim; i++)
        axes[i] = is_fortran ? ndim - 1 - i : i;
    find_strides(ndim, shape, axes, type_sizes[type], strides);
    return new_on(state, ordinal, type, ndim, shape, strides);
}

/* Returns a new Array on a GPU with the elements of `source`, which is broadcast to the shape. */
static PyObject *new_copy(core_state *state, mylib_device device, const mylib_array *source,
                          int ndim, const int64_t *shape, const int64_t *strides)
{
    PyObject *stream;
    mylib_status status;
    WITHOUT_GIL(status = check_ordinal(device.index));
    if (check_status(state, status) < 0 || current_stream(state, device, &stream) < 0)
        return NULL;
    PyObject *result = new_array(state, device, stream, source->type, ndim, shape, strides);
    if (result != NULL) {
        const mylib_array *target = &((array_object *)result)->a;
        WITHOUT_GIL(status = mylib_copy_array(stream_handle(stream), target, source));
        if (check_status(state, status) < 0)
            Py_CLEAR(result);
    }
    Py_XDECREF(stream);
    return result;
}

/* Makes an array filled with a number; declines what takes NumPy's conversions, or is wrong. */
static outcome fill_new(core_state *state, PyObject *const *args, PyObject **result_ret)
{
    static const char zero[16];
    PyObject *sizes = args[1], *value = args[2], *dtype = args[3], *order = args[5];
    _Alignas(16) char number[16];
    int64_t shape[MYLIB_MAX_NDIM], dims[DIMS_OF(1)];
    PyArray_Descr *descr = NULL;
    PyObject *result;
    mylib_device place;
    mylib_type type;
    mylib_status status;
    if (!is_text(order, "C"))
        return OTHER_OPERAND;
    if (parse_device(state, args[4], &place) < 0)
        return FAILED;
    const int on_gpu = place.kind != MYLIB_CPU;
    if (on_gpu && place.index == MYLIB_ALL_GPUS)
        return OTHER_PLACE;
    if (dtype == Py_None && (PyLong_CheckExact(value) || PyFloat_CheckExact(value)))
        dtype = (PyObject *)Py_TYPE(value);
    int ndim = PyLong_CheckExact(sizes) ? 1 : PyTuple_CheckExact(sizes) ? 0 : -1;
    if (ndim == 1)
        shape[0] = PyLong_AsLongLong(sizes);
    else if (ndim == 0)
        ndim = take_shape(sizes, shape);
    if (PyErr_Occurred() || ndim < 0 || (ndim == 1 && shape[0] < 0) || dtype == Py_None ||
        !PyArray_DescrConverter(dtype, &descr)) {
        PyErr_Clear(); /* the slow path says what is wrong */
        return OTHER_SHAPE;
    }
    const int is_usual = find_type(descr->type_num, &type) && PyArray_ISNBO(descr->byteorder) &&
                         find_exact(value, type, number);
    if (!is_usual) {
        Py_DECREF(descr);
        return OTHER_TYPE;
    }
    const mylib_array source = {number, {MYLIB_CPU, 0}, type, 0, NULL, NULL};
    if (on_gpu) {
        Py_DECREF(descr);
        result = new_copy(state, place, &source, ndim, shape, NULL);
    } else if (memcmp(number, zero, type_sizes[type]) == 0) {
        /* Untouched pages of zeros take no memory. */
        result = PyArray_Zeros(ndim, (npy_intp *)shape, descr, 0);
    } else if ((result = PyArray_Empty(ndim, (npy_intp *)shape, descr, 0)) != NULL) {
        mylib_array target;
        describe_array((PyArrayObject *)result, type, &target, dims);
        WITHOUT_GIL_IF(count_of(ndim, shape) >= RELEASE_GIL_COUNT,
                       status = mylib_copy_array(NULL, &target, &source));
        if (check_status(state, status) < 0)
            Py_CLEAR(result);
    }
    *result_ret = result;
    return result != NULL ? DONE : FAILED;
}

/* Makes pkg.full() and its sisters; pkg._creation.fill_slowly() is the slow path. */
static PyObject *fill_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return call_fast(module, "fill", args, count, 6, fill_new);
}

/*
 * Finds the axes of a new array from the slowest in memory: in the order 'C', 'F', or 'A' or 'K' of
 * an array.  That array has these strides, or NULL if its dimensions are others.
 */
static void find_axes(int ndim, int order, const int64_t *strides, int is_c, int is_f, int *axes)
{
    const int keeps = order == 'A' || (order == 'K' && strides != NULL);
    const int is_fortran = order == 'F' || (keeps && is_f && !is_c);
    for (int i = 0; i < ndim; i++)
        axes[i] = is_fortran ? ndim - 1 - i : i;
    if (order != 'K' || !keeps || is_c || is_f)
        return;
    for (int d = 0; d < ndim; d++) {
        int i = d;
        for (; i > 0 && llabs(strides[axes[i - 1]]) < llabs(strides[d]); i--)
            axes[i] = axes[i - 1];
        axes[i] = d;
    }
}

/*
 * Returns a new, uninitialised array on cuda:`ordinal` or for -1 in host memory.  Its axes lie in
 * memory as those of NumPy's arrays like x, an array on any device.
 */
static PyObject *empty_like_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *x, *shape_object = Py_None;
    PyArray_Descr *descr;
    int ordinal, order = 'K', axes[MYLIB_MAX_NDIM];
    mylib_type type;
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM], dims[DIMS_OF(1)];
    mylib_array like;
    if (!PyArg_ParseTuple(args, "OO!i|CO:empty_like", &x, &PyArrayDescr_Type, &descr, &ordinal,
                          &order, &shape_object))
        return NULL;
    if (!is_array(state, x) && !PyArray_Check(x))
        return PyErr_Format(PyExc_TypeError, "empty_like(): expected an array, not %.100s",
                            Py_TYPE(x)->tp_name);
    PyObject *host = is_array(state, x) ? shadow_of((array_object *)x) : Py_NewRef(x);
    if (host == NULL)
        return NULL;
    describe_array((PyArrayObject *)host, MYLIB_BOOL, &like, dims);
    const int is_c = PyArray_IS_C_CONTIGUOUS((PyArrayObject *)host);
    const int is_f = PyArray_IS_F_CONTIGUOUS((PyArrayObject *)host);
    Py_DECREF(host);
    int ndim = like.ndim;
    if (shape_object == Py_None)
        memcpy(shape, like.shape, sizeof *shape * (size_t)ndim);
    else if ((ndim = take_shape(shape_object, shape)) < 0)
        return NULL;
    find_axes(ndim, order, ndim == like.ndim ? like.strides : NULL, is_c, is_f, axes);
    find_strides(ndim, shape, axes, (int64_t)PyDataType_ELSIZE(descr), strides);
    if (ordinal < 0) {
        Py_INCREF(descr);
        return PyArray_NewFromDescr(&PyArray_Type, descr, ndim, (npy_intp *)shape,
                                    (npy_intp *)strides, NULL, 0, NULL);
    }
    if (!find_type(descr->type_num, &type) && take_dtype((PyObject *)descr, &type) < 0)
        return NULL;
    return new_on(state, ordinal, type, ndim, shape, strides);
}

/*
 * Returns a plain NumPy array copied to a GPU as empty_like() lays it out; for the CPU the array
 * itself.  NotImplemented for other objects and types.
 */
static PyObject *asarray_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    core_state *state = PyModule_GetState(module);
    int axes[MYLIB_MAX_NDIM];
    int64_t strides[MYLIB_MAX_NDIM], dims[DIMS_OF(1)];
    mylib_array source;
    mylib_device place;
    mylib_type type;
    if (check_count("asarray_new", count, 2) < 0)
        return NULL;
    PyArrayObject *array = (PyArrayObject *)args[0];
    if (!PyArray_CheckExact(args[0]) || !find_type(PyArray_TYPE(array), &type) ||
        !PyArray_ISNOTSWAPPED(array))
        Py_RETURN_NOTIMPLEMENTED;
    if (parse_device(state, args[1], &place) < 0)
        return NULL;
    if (place.kind == MYLIB_CPU)
        return Py_NewRef(args[0]);
    if (place.index == MYLIB_ALL_GPUS)
        Py_RETURN_NOTIMPLEMENTED;
    describe_array(array, type, &source, dims);
    find_axes(source.ndim, 'K', source.strides, PyArray_IS_C_CONTIGUOUS(array),
              PyArray_IS_F_CONTIGUOUS(array), axes);
    find_strides(source.ndim, source.shape, axes, type_sizes[type], strides);
    return new_copy(state, place, &source, source.ndim, source.shape, strides);
}

/* Returns the only element of an Array, once it is computed, as a Python number. */
static PyObject *item_function(PyObject *module, PyObject *object)
{
    core_state *state = PyModule_GetState(module);
    _Alignas(16) char value[16];
    PyObject *stream;
    mylib_status status;
    if (!is_array(state, object) || ((array_object *)object)->count != 1)
        return PyErr_Format(PyExc_TypeError, "item() takes an Array of one element");
    const array_object *array = (const array_object *)object;
    mylib_array source = array->a;
    source.ndim = 0;
    const mylib_array target = {value, {MYLIB_CPU, 0}, source.type, 0, NULL, NULL};
    if (current_stream(state, source.device, &stream) < 0)
        return NULL;
    int failed = note_use(array->memory, stream) < 0;
    if (!failed) {
        WITHOUT_GIL(status = mylib_copy_array(stream_handle(stream), &target, &source));
        failed = check_status(state, status) < 0;
    }
    Py_XDECREF(stream);
    if (failed)
        return NULL;
    PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(source.type));
    const mylib_mode mode = mylib_enter_mode(); /* a float32 is converted to a double */
    PyObject *result = PyDataType_GetArrFuncs(descr)->getitem(value, NULL);
    mylib_leave_mode(mode);
    Py_DECREF(descr);
    return result;
}

/* Is there an attribute, without __getattr__()?  Returns 1, 0, or -1 with an exception. */
static int has_attribute(PyObject *object, const char *text)
{
    PyObject *name = PyUnicode_InternFromString(text);
    PyObject *attribute = name != NULL ? PyObject_GenericGetAttr(object, name) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(attribute);
    if (attribute != NULL)
        return 1;
    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
        return -1;
    PyErr_Clear();
    return 0;
}

/* Returns an Array over foreign GPU memory, for the current stream; anything else unchanged. */
static PyObject *as_array_function(PyObject *module, PyObject *x)
{
    core_state *state = PyModule_GetState(module);
    if (is_array(state, x) || PyArray_Check(x) || PyArray_IsScalar(x, Generic) || PyLong_Check(x) ||
        PyFloat_Check(x) || PyComplex_Check(x) || PyList_Check(x) || PyTuple_Check(x) ||
        x == Py_None)
        return Py_NewRef(x);
    int is_foreign = has_attribute(x, "__dlpack_device__");
    if (is_foreign == 0)
        is_foreign = has_attribute(x, "__cuda_array_interface__");
    if (is_foreign <= 0)
        return is_foreign < 0 ? NULL : Py_NewRef(x);
    PyObject *found = call_slow(state, "from_foreign", "(O)", x);
    if (found == Py_None)
        Py_SETREF(found, Py_NewRef(x));
    return found;
}

#define MOST_VIEW_ARGUMENTS 4

/*
 * Returns the view of an Array that function(x, *args, **kwargs) is of a NumPy array x, for a
 * function of NumPy that reads no element, and that is not written in Python if it may raise.
 */
static PyObject *view_function(PyObject *module, PyObject *const *args, Py_ssize_t count,
                               PyObject *kwnames)
{
    core_state *state = PyModule_GetState(module);
    const Py_ssize_t more = count - 2 + (kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject *given[1 + MOST_VIEW_ARGUMENTS], *result = NULL;
    if (count < 2 || more > MOST_VIEW_ARGUMENTS || !is_array(state, args[0]))
        return PyErr_Format(PyExc_TypeError, "view() takes an Array, a function and its arguments");
    const array_object *array = (const array_object *)args[0];
    PyObject *shadow = given[0] = shadow_of(array);
    if (shadow == NULL)
        return NULL;
    for (Py_ssize_t k = 0; k < more; k++)
        given[1 + k] = args[2 + k];
    PyObject *view = PyObject_Vectorcall(args[1], given, (size_t)count - 1, kwnames);
    if (view != NULL &&
        (!PyArray_Check(view) || PyArray_CHKFLAGS((PyArrayObject *)view, NPY_ARRAY_OWNDATA)))
        PyErr_SetString(PyExc_TypeError, "view(): the function gives no view");
    else if (view != NULL)
        result = view_like(state, array, shadow, view);
    Py_XDECREF(view);
    Py_DECREF(shadow);
    return result;
}

static PyObject *broadcast_to_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *object, *shape_object;
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM];
    if (!PyArg_ParseTuple(args, "O!O:broadcast_to", state->array_base, &object, &shape_object))
        return NULL;
    const array_object *array = (const array_object *)object;
    const int ndim = take_shape(shape_object, shape), missing = ndim - array->a.ndim;
    if (ndim < 0 || check_nbytes(ndim, shape, array->a.type) < 0)
        return NULL;
    for (int d = 0; d < ndim; d++)
        strides[d] = d >= missing && array->a.shape[d - missing] == shape[d]
                         ? array->a.strides[d - missing]
                         : 0;
    return new_array_over(state, Py_NewRef(array->memory), array->a.data, array->a.type, ndim,
                          shape, strides, 1);
}

static PyObject *shares_memory_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *objects[2];
    if (!PyArg_ParseTuple(args, "O!O!:shares_memory", state->array_base, &objects[0],
                          state->array_base, &objects[1]))
        return NULL;
    const array_object *a = (array_object *)objects[0], *b = (array_object *)objects[1];
    return PyBool_FromLong(a->count != 0 && b->count != 0 && may_share_memory(&a->a, &b->a));
}

static PyObject *overlaps_itself_function(PyObject *module, PyObject *array)
{
    int64_t dims[DIMS_OF(1)];
    mylib_array described;
    mylib_type type;
    if (is_array(PyModule_GetState(module), array))
        return PyBool_FromLong(overlaps_itself(&((array_object *)array)->a));
    if (!PyArray_Check(array) || !find_type(PyArray_TYPE((PyArrayObject *)array), &type)) {
        refuse_array(array);
        return NULL;
    }
    describe_array((PyArrayObject *)array, type, &described, dims);
    return PyBool_FromLong(overlaps_itself(&described));
}

/* Returns an Array over the memory of `owner`, which it keeps, ready on a Stream or None. */
static PyObject *wrap_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *pointer_object, *dtype, *shape_object, *strides_object, *owner, *stream;
    int ordinal, is_readonly;
    mylib_type type;
    int64_t shape[MYLIB_MAX_NDIM], strides[MYLIB_MAX_NDIM];
    if (!PyArg_ParseTuple(args, "OiOOOpOO:wrap", &pointer_object, &ordinal, &dtype, &shape_object,
                          &strides_object, &is_readonly, &owner, &stream))
        return NULL;
    void *pointer = PyLong_AsVoidPtr(pointer_object);
    if (pointer == NULL && PyErr_Occurred())
        return NULL;
    int ndim = take_shape(shape_object, shape);
    if (ndim < 0 || take_dtype(dtype, &type) < 0)
        return NULL;
    if (strides_object != Py_None) {
        int strides_ndim = take_dims(strides_object, strides);
        if (strides_ndim >= 0 && strides_ndim != ndim)
            PyErr_SetString(PyExc_ValueError, "wrap(): shape and strides differ in length");
        if (strides_ndim != ndim)
            return NULL;
    }
    int wrong = find_overflow(ndim, shape, strides_object != Py_None ? strides : NULL,
                              (int64_t)mylib_type_size(type));
    if (wrong >= 0)
        return PyErr_Format(PyExc_ValueError, "the size or stride of dimension %d is out of range",
                            wrong);
    PyObject *memory = new_memory(state, (mylib_device){MYLIB_CUDA, ordinal}, pointer, owner,
                                  Py_TYPE(stream) == state->stream_type ? stream : NULL, 1);
    if (memory == NULL)
        return NULL;
    return new_array_over(state, memory, pointer, type, ndim, shape,
                          strides_object != Py_None ? strides : NULL, is_readonly);
}

static PyObject *set_array_type(PyObject *module, PyObject *type)
{
    core_state *state = PyModule_GetState(module);
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, state->array_base))
        return PyErr_Format(PyExc_TypeError, "array_type must be a subclass of ArrayBase");
    /* Does not release the old one: other threads may be using it. */
    state->array_type = (PyTypeObject *)Py_NewRef(type);
    Py_RETURN_NONE;
}

PyMethodDef array_functions[] = {
    {"empty", empty_function, METH_VARARGS, NULL},
    {"fill", FASTCALL(fill_function), METH_FASTCALL, NULL},
    {"empty_like", empty_like_function, METH_VARARGS, NULL},
    {"asarray_new", FASTCALL(asarray_new_function), METH_FASTCALL, NULL},
    {"item", item_function, METH_O, NULL},
    {"as_array", as_array_function, METH_O, NULL},
    {"view", FASTCALL(view_function), METH_FASTCALL | METH_KEYWORDS, NULL},
    {"broadcast_to", broadcast_to_function, METH_VARARGS, NULL},
    {"shares_memory", shares_memory_function, METH_VARARGS, NULL},
    {"overlaps_itself", overlaps_itself_function, METH_O, NULL},
    {"wrap", wrap_function, METH_VARARGS, NULL},
    {"set_array_type", set_array_type, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
