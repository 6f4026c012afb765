/*
 * core.c - the module pkg.core: the binding of libmylib to Python and NumPy.
 *
 * It computes nothing: it converts arguments, calls mylib_*, and turns statuses into exceptions.
 *
 *   1. errors, types, devices
 *   2. ufuncs: one inner loop for every operation and type
 *   3. the module's functions
 *   4. initialisation
 *
 * operation.c has the type of pcd.add and its sisters, array.c arrays that live on a GPU, dlpack.c
 * their exchange with other libraries, program.c expressions.
 */
#define PKG_CORE_MAIN
#include "array.h"

#include <stdlib.h>
#include <string.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)
/* Of the header that this file is compiled with. */
#define VERSION_TEXT                                                                               \
    STRING(MYLIB_VERSION_MAJOR) "." STRING(MYLIB_VERSION_MINOR) "." STRING(MYLIB_VERSION_PATCH)

/* ---- 1. Errors, types, devices ------------------------------------------------------------- */

#if PY_VERSION_HEX < 0x030B0000
#define PyType_GetModuleByDef _PyType_GetModuleByDef
#endif

core_state *core_state_of(PyTypeObject *type)
{
    PyObject *module = PyType_GetModuleByDef(type, &core_module);
    return module != NULL ? PyModule_GetState(module) : NULL;
}

PyObject *raise_status(core_state *state, mylib_status status)
{
    PyObject *type;
    switch (status) {
    case MYLIB_ERR_ARGUMENT:
    case MYLIB_ERR_DOMAIN:
        type = PyExc_ValueError;
        break;
    case MYLIB_ERR_UNSUPPORTED:
        type = PyExc_TypeError;
        break;
    case MYLIB_ERR_NO_MEMORY:
        type = PyExc_MemoryError;
        break;
    case MYLIB_ERR_OVERFLOW:
        type = PyExc_OverflowError;
        break;
    case MYLIB_ERR_ZERO_DIVIDE:
        type = PyExc_ZeroDivisionError;
        break;
    case MYLIB_ERR_NO_DEVICE:
    case MYLIB_ERR_CUDA:
    case MYLIB_ERR_FORKED:
        type = state != NULL ? state->cuda_error : PyExc_RuntimeError;
        break;
    default:
        type = PyExc_SystemError;
        break;
    }
    PyErr_SetString(type, mylib_last_message());
    return NULL;
}

int num_of_type(mylib_type type)
{
    static const int nums[MYLIB_TYPE_COUNT] = {
        NPY_INT8,    NPY_INT16,     NPY_INT32,      NPY_INT64,   NPY_UINT8,
        NPY_UINT16,  NPY_UINT32,    NPY_UINT64,     NPY_FLOAT16, NPY_FLOAT32,
        NPY_FLOAT64, NPY_COMPLEX64, NPY_COMPLEX128, NPY_BOOL};
    return nums[type];
}

int type_of_num(int type_num, mylib_type *type_ret)
{
    /* C has more integer types than sizes: on Linux both long and long long are 64 bits wide. */
    switch (type_num) {
    case NPY_BYTE:
    case NPY_SHORT:
    case NPY_INT:
    case NPY_LONG:
    case NPY_LONGLONG:
    case NPY_UBYTE:
    case NPY_USHORT:
    case NPY_UINT:
    case NPY_ULONG:
    case NPY_ULONGLONG: {
        size_t size = type_num == NPY_BYTE || type_num == NPY_UBYTE     ? 1
                      : type_num == NPY_SHORT || type_num == NPY_USHORT ? sizeof(short)
                      : type_num == NPY_INT || type_num == NPY_UINT     ? sizeof(int)
                      : type_num == NPY_LONG || type_num == NPY_ULONG   ? sizeof(long)
                                                                        : sizeof(long long);
        int base = PyTypeNum_ISUNSIGNED(type_num) ? MYLIB_U8 : MYLIB_I8;
        *type_ret = (mylib_type)(base + (size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3));
        return 1;
    }
    case NPY_HALF:
        *type_ret = MYLIB_F16;
        return 1;
    case NPY_FLOAT:
        *type_ret = MYLIB_F32;
        return 1;
    case NPY_DOUBLE:
        *type_ret = MYLIB_F64;
        return 1;
    case NPY_CFLOAT:
        *type_ret = MYLIB_C64;
        return 1;
    case NPY_CDOUBLE:
        *type_ret = MYLIB_C128;
        return 1;
    case NPY_BOOL:
        *type_ret = MYLIB_BOOL;
        return 1;
    default:
        return 0;
    }
}

int parse_device(core_state *state, PyObject *object, mylib_device *device_ret)
{
    PyObject *value = NULL;
    int result = -1;

    *device_ret = (mylib_device){MYLIB_CPU, 0};
    if (object == NULL || object == Py_None) {
        if (PyContextVar_Get(state->default_device, Py_None, &value) < 0)
            return -1;
        object = value;
        if (object == Py_None) {
            Py_DECREF(value);
            return 0;
        }
    }
    const char *text = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : NULL;
    if (text == NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(
                PyExc_TypeError,
                "device must be a string (\"cpu\", \"cuda\", \"cuda:N\") or None, not %.100s",
                Py_TYPE(object)->tp_name);
    } else if (strcmp(text, "cpu") == 0) {
        result = 0;
    } else if (strcmp(text, "cuda") == 0) {
        device_ret->kind = MYLIB_CUDA;
        result = 0;
    } else if (strncmp(text, "cuda:", 5) == 0 && text[5] != '\0' && strlen(text) <= 5 + 4 &&
               strspn(text + 5, "0123456789") == strlen(text + 5)) {
        device_ret->kind = MYLIB_CUDA;
        device_ret->index = (int32_t)strtol(text + 5, NULL, 10);
        result = 0;
    } else {
        PyErr_Format(PyExc_ValueError,
                     "unknown device %R: expected \"cpu\", \"cuda\" or \"cuda:N\"", object);
    }
    Py_XDECREF(value);
    return result;
}

/* ---- 2. Ufuncs ----------------------------------------------------------------------------- */

typedef struct loop_info {
    core_state *state; /* of the module, which the ufunc keeps alive */
    mylib_op op;
    mylib_type type[2]; /* of the inputs */
    mylib_device device;
} loop_info;

/*
 * The inner loop of every ufunc.  NumPy calls it without the GIL for pieces of one dimension;
 * reduce and accumulate let the output overlap the first input, which mylib_map1() understands.
 */
static void ufunc_loop(char **args, npy_intp const *dims, npy_intp const *steps, void *data)
{
    const loop_info *info = data;
    int nin = mylib_op_arity(info->op);
    mylib_status status;

    /* Dask calls with single elements to learn the type of a result; that must need no GPU. */
    int on_cpu = info->device.kind == MYLIB_CPU || dims[0] <= 1;
    if (on_cpu && info->type[0] == info->type[1]) {
        status = mylib_map1(info->op, info->type[0], dims[0], args[nin], steps[nin], args[0],
                            steps[0], nin == 2 ? args[1] : NULL, nin == 2 ? steps[1] : 0);
    } else {
        int64_t shape = dims[0];
        int64_t strides[3];
        mylib_array arrays[3];
        for (int k = 0; k <= nin; k++) {
            strides[k] = steps[k];
            arrays[k] =
                (mylib_array){args[k], {MYLIB_CPU, 0}, info->type[k % 2], 1, &shape, &strides[k]};
        }
        mylib_op_result_type(info->op, info->type[0], &arrays[nin].type);
        status = mylib_map(info->op, on_cpu ? (mylib_device){MYLIB_CPU, 0} : info->device, NULL,
                           &arrays[nin], arrays);
    }
    if (status != MYLIB_OK) {
        PyGILState_STATE gil = PyGILState_Ensure();
        raise_status(info->state, status);
        PyGILState_Release(gil);
    }
}

/* One for each type, and for comparisons one of i64 with u64 and one of u64 with i64. */
#define MAX_LOOPS (MYLIB_TYPE_COUNT + 2)

/* NumPy keeps pointers to these arrays for as long as the ufunc lives. */
typedef struct ufunc_tables {
    loop_info info[MAX_LOOPS];
    void *data[MAX_LOOPS];
    PyUFuncGenericFunction loops[MAX_LOOPS];
    char types[MAX_LOOPS * 3];
    char name[64];
} ufunc_tables;

PyObject *new_ufunc(PyObject *module, mylib_op op, mylib_device device, const char *name)
{
    /* NumPy takes the first loop to which the inputs can be cast safely: by kind and size. */
    static const mylib_type first[] = {
        MYLIB_BOOL, MYLIB_I8,  MYLIB_U8,  MYLIB_I16, MYLIB_U16, MYLIB_I32, MYLIB_U32, MYLIB_I64,
        MYLIB_U64,  MYLIB_I64, MYLIB_U64, MYLIB_F16, MYLIB_F32, MYLIB_F64, MYLIB_C64, MYLIB_C128};
    static const mylib_type second[] = {
        MYLIB_BOOL, MYLIB_I8,  MYLIB_U8,  MYLIB_I16, MYLIB_U16, MYLIB_I32, MYLIB_U32, MYLIB_I64,
        MYLIB_U64,  MYLIB_U64, MYLIB_I64, MYLIB_F16, MYLIB_F32, MYLIB_F64, MYLIB_C64, MYLIB_C128};
    int nin = mylib_op_arity(op), loops = 0, identity = PyUFunc_None;
    ufunc_tables *t = PyArray_malloc(sizeof *t);
    if (t == NULL)
        return PyErr_NoMemory();
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        mylib_type type[2] = {first[i], second[i]}, result;
        int is_bool = type[0] == MYLIB_BOOL;
        if (is_bool)
            type[0] = type[1] = MYLIB_I8; /* the bytes of a bool, 0 and 1 */
        if (mylib_op_result_type(op, type[0], &result) != MYLIB_OK ||
            ((is_bool || type[0] != type[1]) && result != MYLIB_BOOL))
            continue;
        t->info[loops] = (loop_info){PyModule_GetState(module), op, {type[0], type[1]}, device};
        t->data[loops] = &t->info[loops];
        t->loops[loops] = ufunc_loop;
        char *types = &t->types[loops * (nin + 1)];
        *types++ = (char)num_of_type(is_bool ? MYLIB_BOOL : type[0]);
        if (nin == 2)
            *types++ = (char)num_of_type(is_bool ? MYLIB_BOOL : type[1]);
        *types = (char)num_of_type(result);
        loops++;
    }
    if (op == MYLIB_OP_add)
        identity = PyUFunc_Zero;
    else if (op == MYLIB_OP_multiply)
        identity = PyUFunc_One;
    else if (op == MYLIB_OP_minimum || op == MYLIB_OP_maximum)
        identity = PyUFunc_ReorderableNone;
    PyOS_snprintf(t->name, sizeof t->name, "%s", name);
    PyObject *ufunc =
        PyUFunc_FromFuncAndData(t->loops, t->data, t->types, loops, nin, 1, identity, t->name,
                                "An operation of libmylib as a NumPy ufunc.", 0);
    if (ufunc == NULL) {
        PyArray_free(t);
        return NULL;
    }
    /* The ufunc frees the first, and releases the second. */
    ((PyUFuncObject *)ufunc)->ptr = t;
    ((PyUFuncObject *)ufunc)->obj = Py_NewRef(module);
    if (!PyObject_GC_IsTracked(ufunc))
        PyObject_GC_Track(ufunc);
    return ufunc;
}

/* ---- 3. Functions -------------------------------------------------------------------------- */

PyDoc_STRVAR(make_ufunc_doc, "make_ufunc(op, ordinal, name, /)\n--\n\n"
                             "A NumPy ufunc that computes operation number `op` on cuda:`ordinal`, "
                             "or on the CPU when it is -1.");
static PyObject *make_ufunc(PyObject *module, PyObject *args)
{
    int op, ordinal;
    const char *name;
    if (!PyArg_ParseTuple(args, "iis:make_ufunc", &op, &ordinal, &name))
        return NULL;
    if (op < 0 || op >= MYLIB_OP_COUNT)
        return PyErr_Format(PyExc_ValueError, "there is no operation %d", op);
    mylib_device device = {ordinal < 0 ? MYLIB_CPU : MYLIB_CUDA, ordinal < 0 ? 0 : ordinal};
    return new_ufunc(module, (mylib_op)op, device, name);
}

PyDoc_STRVAR(
    parse_device_doc,
    "parse_device(device, /)\n--\n\n"
    "The CUDA ordinal that `device` (a string, or None for the default) names; -1 for the CPU.");
static PyObject *parse_device_function(PyObject *module, PyObject *object)
{
    mylib_device device;
    if (parse_device(PyModule_GetState(module), object, &device) < 0)
        return NULL;
    return PyLong_FromLong(device.kind == MYLIB_CPU ? -1 : device.index);
}

PyDoc_STRVAR(map_doc, "map(op, ordinal, out, /, *inputs)\n--\n\n"
                      "out[...] = op(*inputs) on cuda:`ordinal`, or on the CPU when it is -1.  All "
                      "are NumPy arrays in "
                      "native byte order, of the operation's types, and broadcast to `out`.");
static PyObject *map_function(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    mylib_array arrays[3];
    int64_t dims[DIMS_OF(3)], *free_dims = dims;

    if (count < 4 || count > 5) {
        PyErr_SetString(PyExc_TypeError,
                        "map() takes an operation, an ordinal, out, and one or two inputs");
        return NULL;
    }
    long op = PyLong_AsLong(PyTuple_GET_ITEM(args, 0)),
         ordinal = PyLong_AsLong(PyTuple_GET_ITEM(args, 1));
    if ((op == -1 || ordinal == -1) && PyErr_Occurred())
        return NULL;
    if (op < 0 || op >= MYLIB_OP_COUNT || ordinal < -1 || ordinal > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "there is no operation %ld, or no device %ld", op, ordinal);
        return NULL;
    }
    if (count - 3 != mylib_op_arity((mylib_op)op)) {
        PyErr_SetString(PyExc_TypeError, "map(): the number of inputs is not the operation's");
        return NULL;
    }
    for (Py_ssize_t k = 2; k < count; k++) {
        PyObject *object = PyTuple_GET_ITEM(args, k);
        mylib_type type;
        if (!PyArray_Check(object) || !PyArray_ISNOTSWAPPED((PyArrayObject *)object) ||
            !type_of_num(PyArray_TYPE((PyArrayObject *)object), &type)) {
            PyErr_SetString(PyExc_TypeError, "map() takes NumPy arrays of supported types");
            return NULL;
        }
        free_dims = describe_array((PyArrayObject *)object, type, &arrays[k - 2], free_dims);
    }
    if (!PyArray_ISWRITEABLE((PyArrayObject *)PyTuple_GET_ITEM(args, 2))) {
        PyErr_SetString(PyExc_ValueError, "map(): out is read-only");
        return NULL;
    }
    mylib_device device = {ordinal < 0 ? MYLIB_CPU : MYLIB_CUDA,
                           ordinal < 0 ? 0 : (int32_t)ordinal};
    mylib_status status;
    int flags;
    Py_BEGIN_ALLOW_THREADS
        mylib_clear_flags();
        status = mylib_map((mylib_op)op, device, NULL, &arrays[0], &arrays[1]);
        flags = test_flags();
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(state, status);
    return PyLong_FromLong(flags);
}

PyDoc_STRVAR(trace_doc,
             "trace(matrix, ordinal, /)\n--\n\n"
             "The sum of the diagonal of a two-dimensional NumPy array, as a NumPy scalar.");
static PyObject *trace_function(PyObject *module, PyObject *args)
{
    PyArrayObject *matrix;
    int ordinal;
    mylib_type type, sum_type;
    mylib_array array;
    int64_t dims[DIMS_OF(1)];
    mylib_status status;
    char sum[16];

    if (!PyArg_ParseTuple(args, "O!i:trace", &PyArray_Type, &matrix, &ordinal))
        return NULL;
    if (!PyArray_ISNOTSWAPPED(matrix) || !type_of_num(PyArray_TYPE(matrix), &type)) {
        PyErr_SetString(PyExc_TypeError, "trace() takes an array of a supported type");
        return NULL;
    }
    describe_array(matrix, type, &array, dims);
    mylib_device device = {ordinal < 0 ? MYLIB_CPU : MYLIB_CUDA, ordinal < 0 ? 0 : ordinal};
    Py_BEGIN_ALLOW_THREADS
        status = mylib_trace(device, NULL, &array, sum);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    mylib_sum_type(type, &sum_type);
    PyArray_Descr *descr = PyArray_DescrFromType(num_of_type(sum_type));
    PyObject *result = PyArray_Scalar(sum, descr, NULL);
    Py_DECREF(descr);
    return result;
}

PyDoc_STRVAR(fib_doc, "fib(n, /)\n--\n\nThe Fibonacci number F(n) for 0 <= n <= 93.");
static PyObject *fib_function(PyObject *module, PyObject *n)
{
    uint64_t result;
    unsigned long long value = PyLong_AsUnsignedLongLong(n);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    mylib_status status = mylib_fib(value, &result);
    return status == MYLIB_OK ? PyLong_FromUnsignedLongLong(result)
                              : raise_status(PyModule_GetState(module), status);
}

PyDoc_STRVAR(device_count_doc,
             "device_count()\n--\n\n(number of CUDA GPUs, why there is none or None).");
static PyObject *device_count_function(PyObject *module, PyObject *unused)
{
    int count;
    mylib_status status;
    (void)module, (void)unused;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_cuda_device_count(&count);
    Py_END_ALLOW_THREADS
    return status == MYLIB_OK ? Py_BuildValue("(iO)", count, Py_None)
                              : Py_BuildValue("(is)", 0, mylib_last_message());
}

PyDoc_STRVAR(device_info_doc, "device_info(ordinal, /)\n--\n\nDescribes a CUDA GPU, as a dict.");
static PyObject *device_info_function(PyObject *module, PyObject *object)
{
    mylib_device_info info;
    mylib_status status;
    long ordinal = PyLong_AsLong(object);
    if (ordinal == -1 && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_cuda_device_info((int)ordinal, &info);
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    return Py_BuildValue("{sssNsisisisKsK}", "name", info.name, "compute_capability",
                         PyUnicode_FromFormat("%d.%d", info.compute_major, info.compute_minor),
                         "multiprocessors", info.multiprocessors, "driver_version",
                         info.driver_version, "runtime_version", info.runtime_version,
                         "total_nbytes", (unsigned long long)info.total_nbytes, "free_nbytes",
                         (unsigned long long)info.free_nbytes);
}

PyDoc_STRVAR(
    check_device_doc,
    "check_device(ordinal, /)\n--\n\nRaises CudaError when cuda:`ordinal` cannot be used.");
static PyObject *check_device_function(PyObject *module, PyObject *object)
{
    long ordinal = PyLong_AsLong(object);
    if (ordinal == -1 && PyErr_Occurred())
        return NULL;
    mylib_status status;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_cuda_check_device(ordinal > INT32_MAX ? -1 : (int)ordinal);
    Py_END_ALLOW_THREADS
    return status == MYLIB_OK ? Py_NewRef(Py_None)
                              : raise_status(PyModule_GetState(module), status);
}

PyDoc_STRVAR(config_doc,
             "config()\n--\n\nHow libmylib was built and what it chose here, as a dict.");
static PyObject *config_function(PyObject *module, PyObject *unused)
{
    mylib_config c;
    (void)unused;
    mylib_status status = mylib_get_config(&c);
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    return Py_BuildValue("{sssssNsssssssssi}", "version", c.version, "compiler", c.compiler,
                         "has_cuda", PyBool_FromLong(c.has_cuda), "cuda_version", c.cuda_version,
                         "cuda_architectures", c.cuda_architectures, "cuda_searched",
                         c.cuda_searched, "cpu_level", c.cpu_level, "threads", c.threads);
}

PyDoc_STRVAR(
    set_cpu_level_doc,
    "set_cpu_level(level, /)\n--\n\n"
    "Restricts the CPU kernels to an x86-64 level, by name; None for the best.  For tests.");
static PyObject *set_cpu_level_function(PyObject *module, PyObject *level)
{
    const char *name = NULL;
    if (level != Py_None && (name = PyUnicode_AsUTF8(level)) == NULL)
        return NULL;
    mylib_status status = mylib_set_cpu_level(name);
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(set_threads_doc,
             "set_threads(threads, /)\n--\n\n"
             "How many threads a large operation on the CPU uses at most; 0 is the default.");
static PyObject *set_threads_function(PyObject *module, PyObject *threads)
{
    int overflow;
    long count = PyLong_AsLongAndOverflow(threads, &overflow);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    if (overflow != 0 || count > INT_MAX || count < INT_MIN)
        count = overflow < 0 || (overflow == 0 && count < 0) ? -1 : INT_MAX;
    mylib_status status = mylib_set_threads((int)count);
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    astype_new_doc,
    "astype_new(array, dtype, /)\n--\n\n"
    "A plain NumPy array converted by NumPy, in the default floating-point mode; NotImplemented "
    "for "
    "other arrays and types, and where NumPy's conversion is not the library's, or warns.");
static PyObject *astype_new_function(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    PyArray_Descr *descr;
    PyObject *result = NULL;
    mylib_type from, to;
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "astype_new() takes two arguments");
        return NULL;
    }
    if (!PyArray_CheckExact(args[0]))
        Py_RETURN_NOTIMPLEMENTED;
    if (PyArray_DescrConverter(args[1], &descr) != NPY_SUCCEED)
        return NULL;
    PyArrayObject *array = (PyArrayObject *)args[0];
    if (!type_of_num(PyArray_TYPE(array), &from) || !type_of_num(descr->type_num, &to) ||
        (from != MYLIB_BOOL &&
         ((from >= MYLIB_F16 && to < MYLIB_F16) || (from >= MYLIB_C64 && to < MYLIB_C64)))) {
        Py_DECREF(descr);
        Py_RETURN_NOTIMPLEMENTED;
    }
    const mylib_mode mode = mylib_enter_mode();
    result = PyArray_NewLikeArray(array, NPY_KEEPORDER, descr, 0);
    if (result != NULL && PyArray_CopyInto((PyArrayObject *)result, array) < 0)
        Py_CLEAR(result);
    mylib_leave_mode(mode);
    return result;
}

PyDoc_STRVAR(
    call_in_mode_doc,
    "call_in_mode(function, /, *args, **kwargs)\n--\n\n"
    "function(*args, **kwargs) in the default floating-point mode; the caller's mode comes "
    "back in any case.");
static PyObject *call_in_mode_function(PyObject *module, PyObject *const *args, Py_ssize_t count,
                                       PyObject *kwnames)
{
    (void)module;
    if (count < 1) {
        PyErr_SetString(PyExc_TypeError, "call_in_mode() takes a function");
        return NULL;
    }
    const mylib_mode mode = mylib_enter_mode();
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)count - 1, kwnames);
    mylib_leave_mode(mode);
    return result;
}

PyDoc_STRVAR(
    free_cached_doc,
    "free_cached()\n--\n\nGives back the staging buffers that the library keeps for speed.");
static PyObject *free_cached_function(PyObject *module, PyObject *unused)
{
    mylib_status status;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
        status = mylib_free_cached();
    Py_END_ALLOW_THREADS
    if (status != MYLIB_OK)
        return raise_status(PyModule_GetState(module), status);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(
    set_hooks_doc,
    "set_hooks(call_general, explain, /)\n--\n\nThe Python half of the operations (pkg._general).");
static PyObject *set_hooks(PyObject *module, PyObject *args)
{
    core_state *state = PyModule_GetState(module);
    PyObject *call_general, *explain;
    if (!PyArg_ParseTuple(args, "OO:set_hooks", &call_general, &explain))
        return NULL;
    /* Not released when set again: other threads may be using them. */
    state->call_general = Py_NewRef(call_general);
    state->explain = Py_NewRef(explain);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"make_ufunc", make_ufunc, METH_VARARGS, make_ufunc_doc},
    {"parse_device", parse_device_function, METH_O, parse_device_doc},
    {"map", map_function, METH_VARARGS, map_doc},
    {"trace", trace_function, METH_VARARGS, trace_doc},
    {"fib", fib_function, METH_O, fib_doc},
    {"device_count", device_count_function, METH_NOARGS, device_count_doc},
    {"device_info", device_info_function, METH_O, device_info_doc},
    {"check_device", check_device_function, METH_O, check_device_doc},
    {"config", config_function, METH_NOARGS, config_doc},
    {"set_cpu_level", set_cpu_level_function, METH_O, set_cpu_level_doc},
    {"set_threads", set_threads_function, METH_O, set_threads_doc},
    {"astype_new", (PyCFunction)(void (*)(void))astype_new_function, METH_FASTCALL, astype_new_doc},
    {"call_in_mode", (PyCFunction)(void (*)(void))call_in_mode_function,
     METH_FASTCALL | METH_KEYWORDS, call_in_mode_doc},
    {"free_cached", free_cached_function, METH_NOARGS, free_cached_doc},
    {"set_hooks", set_hooks, METH_VARARGS, set_hooks_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- 4. Initialisation --------------------------------------------------------------------- */

/* pandas replaces a ufunc named "divide" by its own true division; ours truncates integers. */
static const char *ufunc_name(mylib_op op)
{
    return op == MYLIB_OP_divide ? "trunc_divide" : mylib_op_name(op);
}

static int add_operations(PyObject *module, core_state *state)
{
    PyObject *operations = PyTuple_New(MYLIB_OP_COUNT);
    if (operations == NULL)
        return -1;
    for (int op = 0; op < MYLIB_OP_COUNT; op++) {
        PyObject *ufunc =
            new_ufunc(module, (mylib_op)op, (mylib_device){MYLIB_CPU, 0}, ufunc_name((mylib_op)op));
        PyObject *operation = ufunc != NULL ? new_operation(state, (mylib_op)op, ufunc) : NULL;
        Py_XDECREF(ufunc);
        if (operation == NULL) {
            Py_DECREF(operations);
            return -1;
        }
        PyTuple_SET_ITEM(operations, op, operation);
    }
    int result = PyModule_AddObjectRef(module, "operations", operations);
    Py_DECREF(operations);
    return result;
}

static int core_exec(PyObject *module)
{
    core_state *state = PyModule_GetState(module);
    const char *version = mylib_version();

    if (PyArray_ImportNumPyAPI() < 0 || PyUFunc_ImportUFuncAPI() < 0)
        return -1;
    if (strcmp(version, VERSION_TEXT) != 0) {
        PyErr_Format(PyExc_ImportError,
                     "pkg.core was built for libmylib %s but the libmylib.so that was loaded is "
                     "%s: install the package again from its source distribution",
                     VERSION_TEXT, version);
        return -1;
    }
    if (PyModule_AddStringConstant(module, "__version__", version) < 0)
        return -1;
    state->cuda_error = PyErr_NewExceptionWithDoc("pkg.CudaError",
                                                  "The GPU cannot be used, or a CUDA call failed; "
                                                  "the text names the reason and what would help.",
                                                  PyExc_RuntimeError, NULL);
    if (state->cuda_error == NULL ||
        PyModule_AddObjectRef(module, "CudaError", state->cuda_error) < 0)
        return -1;
    state->out_of_range = PyErr_NewException("pkg.core.OutOfRange", PyExc_OverflowError, NULL);
    if (state->out_of_range == NULL ||
        PyModule_AddObjectRef(module, "OutOfRange", state->out_of_range) < 0)
        return -1;
    state->program_flags = new_flags_ufunc("evaluate");
    state->dlpack_device_name = PyUnicode_InternFromString("__dlpack_device__");
    state->cuda_interface_name = PyUnicode_InternFromString("__cuda_array_interface__");
    if (state->program_flags == NULL || state->dlpack_device_name == NULL ||
        state->cuda_interface_name == NULL)
        return -1;
    state->out_name = PyUnicode_InternFromString("out");
    if (state->out_name == NULL)
        return -1;
    state->default_device = PyContextVar_New("pkg.default_device", NULL);
    if (state->default_device == NULL ||
        PyModule_AddObjectRef(module, "default_device", state->default_device) < 0)
        return -1;
    state->current_stream = PyContextVar_New("pkg.current_stream", NULL);
    if (state->current_stream == NULL ||
        PyModule_AddObjectRef(module, "current_stream", state->current_stream) < 0)
        return -1;
    const struct {
        PyTypeObject **type;
        PyType_Spec *spec;
    } types[] = {
        {&state->operation, &operation_spec},  {&state->array_base, &array_spec},
        {&state->memory_type, &memory_spec},   {&state->stream_type, &stream_spec},
        {&state->program_type, &program_spec}, {&state->expression_base, &expression_spec}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        *types[i].type = (PyTypeObject *)PyType_FromModuleAndSpec(module, types[i].spec, NULL);
        if (*types[i].type == NULL || PyModule_AddType(module, *types[i].type) < 0)
            return -1;
    }
    if (PyModule_AddFunctions(module, array_functions) < 0 ||
        PyModule_AddFunctions(module, dlpack_functions) < 0 ||
        PyModule_AddIntConstant(module, "STEP_CONVERT", MYLIB_STEP_CONVERT) < 0 ||
        PyModule_AddIntConstant(module, "STEP_SELECT", MYLIB_STEP_SELECT) < 0)
        return -1;
    return add_operations(module, state);
}

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    core_state *state = PyModule_GetState(module);
    Py_VISIT(state->cuda_error);
    Py_VISIT(state->out_of_range);
    Py_VISIT(state->operation);
    Py_VISIT(state->default_device);
    Py_VISIT(state->call_general);
    Py_VISIT(state->explain);
    Py_VISIT(state->array_base);
    Py_VISIT(state->memory_type);
    Py_VISIT(state->stream_type);
    Py_VISIT(state->array_type);
    Py_VISIT(state->array_call);
    Py_VISIT(state->current_stream);
    Py_VISIT(state->program_type);
    Py_VISIT(state->expression_base);
    Py_VISIT(state->program_flags);
    return 0;
}

static int core_clear(PyObject *module)
{
    core_state *state = PyModule_GetState(module);
    Py_CLEAR(state->cuda_error);
    Py_CLEAR(state->out_of_range);
    Py_CLEAR(state->operation);
    Py_CLEAR(state->default_device);
    Py_CLEAR(state->out_name);
    Py_CLEAR(state->call_general);
    Py_CLEAR(state->explain);
    Py_CLEAR(state->array_base);
    Py_CLEAR(state->memory_type);
    Py_CLEAR(state->stream_type);
    Py_CLEAR(state->array_type);
    Py_CLEAR(state->array_call);
    Py_CLEAR(state->current_stream);
    Py_CLEAR(state->program_type);
    Py_CLEAR(state->expression_base);
    Py_CLEAR(state->program_flags);
    Py_CLEAR(state->dlpack_device_name);
    Py_CLEAR(state->cuda_interface_name);
    return 0;
}

static void core_free(void *module) { (void)core_clear(module); }

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
#if PY_VERSION_HEX >= 0x030C0000
    /* As NumPy, whose types the module uses. */
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    /* What threads share is constant, or written in critical sections. */
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pkg.core",
    .m_doc = "The binding of libmylib; the public interface is the package pkg.",
    .m_size = sizeof(core_state),
    .m_methods = functions,
    .m_slots = core_slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
    .m_free = core_free,
};

PyMODINIT_FUNC PyInit_core(void) { return PyModuleDef_Init(&core_module); }
