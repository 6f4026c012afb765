/*
 * common.c - see common.h.
 */
#include "common.h"

#include <stdlib.h>
#include <string.h>

#if PY_VERSION_HEX < 0x030B0000
#define PyType_GetModuleByDef _PyType_GetModuleByDef
#endif

struct PyModuleDef *core_def;
uint8_t type_sizes[MYLIB_TYPE_COUNT];
uint8_t result_types[MYLIB_OP_COUNT][MYLIB_TYPE_COUNT];

core_state *core_state_of(PyTypeObject *type)
{
    PyObject *module = PyType_GetModuleByDef(type, core_def);
    return module != NULL ? PyModule_GetState(module) : NULL;
}

static PyObject *exception_of_status(const core_state *state, mylib_status status)
{
    switch (status) {
    case MYLIB_ERR_ARGUMENT:
    case MYLIB_ERR_DOMAIN:
        return PyExc_ValueError;
    case MYLIB_ERR_UNSUPPORTED:
        return PyExc_TypeError;
    case MYLIB_ERR_NO_MEMORY:
        return PyExc_MemoryError;
    case MYLIB_ERR_OVERFLOW:
        return PyExc_OverflowError;
    case MYLIB_ERR_ZERO_DIVIDE:
        return PyExc_ZeroDivisionError;
    case MYLIB_ERR_NO_DEVICE:
    case MYLIB_ERR_CUDA:
    case MYLIB_ERR_FORKED:
        return state != NULL ? state->cuda_error : PyExc_RuntimeError;
    default:
        return PyExc_SystemError;
    }
}

PyObject *raise_status(core_state *state, mylib_status status)
{
    PyErr_SetString(exception_of_status(state, status), mylib_last_message());
    return NULL;
}

PyObject *call_in_mode(PyObject *function, PyObject *const *args, Py_ssize_t count,
                       PyObject *kwnames)
{
    const mylib_mode mode = mylib_enter_mode();
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)count, kwnames);
    mylib_leave_mode(mode);
    return result;
}

static PyObject *call_slow_path(core_state *state, const char *name, PyObject *const *args,
                                Py_ssize_t count)
{
    PyObject *function = PyMapping_GetItemString(state->slow_paths, name), *result = NULL;
    if (function != NULL)
        result = call_in_mode(function, args, count, NULL);
    else if (PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_SetString(PyExc_RuntimeError, "import pkg, not pkg.core alone");
    Py_XDECREF(function);
    return result;
}

PyObject *call_slow(core_state *state, const char *name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    PyObject *args = Py_VaBuildValue(format, values); /* must not run with an exception set */
    va_end(values);
    if (args == NULL)
        return NULL;
    PyObject *result =
        call_slow_path(state, name, &PyTuple_GET_ITEM(args, 0), PyTuple_GET_SIZE(args));
    Py_DECREF(args);
    return result;
}

PyObject *call_fast(PyObject *module, const char *name, PyObject *const *args, Py_ssize_t count,
                    Py_ssize_t wanted, fast_path *compute)
{
    core_state *state = PyModule_GetState(module);
    PyObject *result = NULL;
    if (check_count(name, count, wanted) < 0)
        return NULL;
    return compute(state, args, &result) > DONE ? call_slow_path(state, name, args, count) : result;
}

int num_of_type(mylib_type type)
{
    static const int nums[MYLIB_TYPE_COUNT] = {
        NPY_INT8,    NPY_INT16,     NPY_INT32,      NPY_INT64,   NPY_UINT8,
        NPY_UINT16,  NPY_UINT32,    NPY_UINT64,     NPY_FLOAT16, NPY_FLOAT32,
        NPY_FLOAT64, NPY_COMPLEX64, NPY_COMPLEX128, NPY_BOOL};
    return nums[type];
}

/* On 64-bit systems but Windows, NPY_LONG is NPY_INT64, and long long is its twin. */
const uint8_t types_of_nums[NPY_NTYPES_LEGACY] = {
    [NPY_BOOL] = 1 + MYLIB_BOOL,     [NPY_INT8] = 1 + MYLIB_I8,
    [NPY_INT16] = 1 + MYLIB_I16,     [NPY_INT32] = 1 + MYLIB_I32,
    [NPY_INT64] = 1 + MYLIB_I64,     [NPY_LONGLONG] = 1 + MYLIB_I64,
    [NPY_UINT8] = 1 + MYLIB_U8,      [NPY_UINT16] = 1 + MYLIB_U16,
    [NPY_UINT32] = 1 + MYLIB_U32,    [NPY_UINT64] = 1 + MYLIB_U64,
    [NPY_ULONGLONG] = 1 + MYLIB_U64, [NPY_FLOAT16] = 1 + MYLIB_F16,
    [NPY_FLOAT32] = 1 + MYLIB_F32,   [NPY_FLOAT64] = 1 + MYLIB_F64,
    [NPY_COMPLEX64] = 1 + MYLIB_C64, [NPY_COMPLEX128] = 1 + MYLIB_C128,
};

int add_types(PyObject *module)
{
    char chars[NPY_NTYPES_LEGACY + 1];
    int count = 0;
    mylib_type type;
    for (int num = 0; num < NPY_NTYPES_LEGACY; num++) {
        if (!find_type(num, &type))
            continue;
        PyArray_Descr *descr = PyArray_DescrFromType(num);
        chars[count++] = descr->type;
        Py_DECREF(descr);
    }
    chars[count] = '\0';
    PyObject *dtypes = PyTuple_New(MYLIB_TYPE_COUNT);
    for (int i = 0; i < MYLIB_TYPE_COUNT; i++) {
        type_sizes[i] = (uint8_t)mylib_type_size((mylib_type)i);
        for (int op = 0; op < MYLIB_OP_COUNT; op++)
            if (mylib_op_result_type((mylib_op)op, (mylib_type)i, &type) == MYLIB_OK)
                result_types[op][i] = (uint8_t)(type + 1);
        /* Bool has the last number. */
        if (dtypes != NULL)
            PyTuple_SET_ITEM(dtypes, (i + 1) % MYLIB_TYPE_COUNT,
                             (PyObject *)PyArray_DescrFromType(num_of_type((mylib_type)i)));
    }
    int result = dtypes == NULL || PyModule_AddObjectRef(module, "dtypes", dtypes) < 0 ||
                         PyModule_AddStringConstant(module, "type_chars", chars) < 0 ||
                         PyModule_AddStringConstant(module, "supported_types", SUPPORTED_TYPES) < 0
                     ? -1
                     : 0;
    Py_XDECREF(dtypes);
    return result;
}

#define NAMES "\"cpu\", \"cuda\", \"cuda:N\" or \"cuda:all\""

/* Takes "cpu", "cuda", "cuda:N" or "cuda:all" as a device. */
static int parse_name(PyObject *object, mylib_device *device_ret)
{
    Py_ssize_t size = 0;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "device must be a string (" NAMES ") or None, not %.100s",
                     Py_TYPE(object)->tp_name);
        return -1;
    }
    const char *text = PyUnicode_IS_ASCII(object) ? PyUnicode_AsUTF8AndSize(object, &size) : "";
    if (text == NULL)
        return -1;
    if (strlen(text) != (size_t)size)
        text = ""; /* it contains a NUL */
    int ordinal;
    if (strcmp(text, "cpu") == 0) {
        ordinal = -1;
    } else if (strcmp(text, "cuda") == 0) {
        ordinal = 0;
    } else if (strcmp(text, "cuda:all") == 0) {
        ordinal = MYLIB_ALL_GPUS;
    } else if (strncmp(text, "cuda:", 5) == 0 && size > 5 && size <= 5 + 4 &&
               strspn(text + 5, "0123456789") == (size_t)size - 5) {
        ordinal = (int)strtol(text + 5, NULL, 10);
    } else {
        PyErr_Format(PyExc_ValueError, "unknown device %R: expected " NAMES, object);
        return -1;
    }
    *device_ret = device_of_ordinal(ordinal);
    return 0;
}

/* Reads and checks the device of the environment variable; errors name the variable. */
static int check_environment(core_state *state, mylib_device *device_ret)
{
    mylib_status status = MYLIB_OK;
    PyObject *name = state->environment_device;

    if (parse_name(name, device_ret) < 0) {
        if (PyErr_ExceptionMatches(PyExc_ValueError))
            PyErr_Format(PyExc_ValueError,
                         "the environment variable MYLIB_DEFAULT_DEVICE is %R, which is no device: "
                         "expected " NAMES "; correct it, or call pkg.set_default_device()",
                         name);
        return -1;
    }
    if (device_ret->kind == MYLIB_CUDA) {
        WITHOUT_GIL(status = check_ordinal(device_ret->index));
    }
    if (status == MYLIB_ERR_NO_MEMORY)
        raise_status(state, status);
    else if (status != MYLIB_OK)
        PyErr_Format(state->cuda_error,
                     "the environment variable MYLIB_DEFAULT_DEVICE is %R, which cannot be used: "
                     "%s",
                     name, mylib_last_message());
    return status == MYLIB_OK ? 0 : -1;
}

/* Finds the device of the process, for calls outside all blocks of `default_device`. */
static int process_device(core_state *state, mylib_device *device_ret)
{
    int ordinal = atomic_load_explicit(&state->process_device, memory_order_relaxed);

    *device_ret = device_of_ordinal(ordinal);
    if (ordinal != UNCHECKED)
        return 0;
    if (check_environment(state, device_ret) < 0)
        return -1;
    /* Another thread may have set the device meanwhile: later calls use that one. */
    atomic_compare_exchange_strong(&state->process_device, &ordinal,
                                   ordinal_of_device(*device_ret));
    return 0;
}

int parse_device(core_state *state, PyObject *object, mylib_device *device_ret)
{
    PyObject *value;

    if (object != NULL && object != Py_None)
        return parse_name(object, device_ret);
    if (PyContextVar_Get(state->default_device, Py_None, &value) < 0)
        return -1;
    int result =
        value == Py_None ? process_device(state, device_ret) : parse_name(value, device_ret);
    Py_DECREF(value);
    return result;
}

int take_dtype(PyObject *object, mylib_type *type_ret)
{
    PyArray_Descr *descr = NULL;
    if (!PyArray_DescrConverter(object, &descr))
        return -1;
    int is_known = find_type(descr->type_num, type_ret) && PyArray_ISNBO(descr->byteorder);
    if (!is_known)
        PyErr_Format(PyExc_TypeError,
                     "arrays on a GPU have elements of " SUPPORTED_TYPES ", not %R", descr);
    Py_DECREF(descr);
    return is_known ? 0 : -1;
}
