/*
 * common.h - shared by every file of pkg.core: the module's state, errors, element types, devices.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL pkg_ARRAY_API
#define PY_UFUNC_UNIQUE_SYMBOL pkg_UFUNC_API
#ifndef PKG_CORE_MAIN
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#include <stdatomic.h>

#include <mylib.h>

#include "../libcalc/src/flags.h"

/* ---- Floating-point flags ---- */

#define FLAGS (FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID)

static inline int test_flags(void) { return mylib_test_flags() & FLAGS; }

/* ---- The GIL ---- */

/* Calls over fewer elements keep the GIL: releasing it would cost more than it saves. */
#define RELEASE_GIL_COUNT 2048

#define WITHOUT_GIL_IF(takes_long, ...) \
    do { \
        PyThreadState *saved_thread = (takes_long) ? PyEval_SaveThread() : NULL; \
        __VA_ARGS__; \
        if (saved_thread != NULL) \
            PyEval_RestoreThread(saved_thread); \
    } while (0)

#define WITHOUT_GIL(...) WITHOUT_GIL_IF(1, __VA_ARGS__)

/* Python before 3.13 always has the GIL, so that critical sections need no lock there. */
#if PY_VERSION_HEX < 0x030D0000
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

/* ---- Errors ---- */

/*
 * The one convention for all files:
 *
 *   - A function that can fail returns 0, or -1 with a Python exception set.  One that returns an
 *     object returns NULL with an exception set.  Results go through the last parameters (*_ret).
 *   - A function of the fast path returns an `outcome`: DONE, FAILED with an exception set, or the
 *     reason why it declines.
 *   - A function that answers a question (is_..., has_..., may_..., find_..., "Returns whether")
 *     returns 1 or 0 and sets no exception.
 */
typedef enum outcome {
    FAILED = -1, /* an exception is set */
    DONE = 0,
    /* Why the fast path declines.  No exception is set; the slow path computes the call. */
    OTHER_OPERAND, /* an operand is neither an array nor a number */
    OTHER_TYPE,    /* the operands' types are not supported, or NumPy has to convert them */
    OTHER_NUMBER,  /* a number that its type does not hold exactly, or at all */
    OTHER_PLACE,   /* Arrays on two GPUs or beside host arrays; host arrays for another device */
    OTHER_SHAPE,   /* the shapes do not broadcast, or a reduction has no elements */
    OTHER_OUT,     /* `out` has another type, shape or place, is read-only, or overlaps */
    OTHER_FLAGS,   /* a floating-point flag was raised, and the slow path decides about it */
} outcome;

/* ---- The module ---- */

/* The environment's device has not been read and checked yet. */
enum { UNCHECKED = -2 };

typedef struct core_state {
    PyObject *cuda_error;
    PyObject *out_of_range;       /* raised when an int does not fit its element type */
    PyTypeObject *operation;      /* the type of pcd.add and the other operations */
    PyObject *operations;         /* all of them, a tuple */
    PyObject *default_device;     /* a ContextVar; its values are None or strings */
    _Atomic int process_device;   /* if that is None: an ordinal, -1 for the CPU, or UNCHECKED */
    PyObject *environment_device; /* MYLIB_DEFAULT_DEVICE, a string, or None if it is not set */
    PyObject *out_name;           /* interned */
    PyObject *slow_paths;         /* a dict: Python functions by name, see call_slow() */
    PyTypeObject *array_base, *memory_type, *stream_type;
    PyTypeObject *array_type; /* pkg.Array, a subclass of array_base, set when pkg is imported */
    PyObject *current_stream; /* a ContextVar; its values are None or streams */
    PyTypeObject *program_type, *expression_base;
    mylib_program *tests[MYLIB_TYPE_COUNT]; /* programs: does an element of a type differ from 0? */
    mylib_program *both;                    /* a program: are two bools true? */
} core_state;

#define FASTCALL(function) ((PyCFunction)(void (*)(void))(function))

extern struct PyModuleDef *core_def;

/*
 * Returns the state of the module of a type or of one of its bases, which the type keeps alive;
 * TypeError if it has none.
 */
core_state *core_state_of(PyTypeObject *type);

/* Frees an object of a type of the module, whose references have been cleared. */
static inline void free_object(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

PyObject *raise_status(core_state *state, mylib_status status);

static inline int check_status(core_state *state, mylib_status status)
{
    if (status == MYLIB_OK)
        return 0;
    raise_status(state, status);
    return -1;
}

/* Calls a Python function in the default floating-point mode. */
PyObject *call_in_mode(PyObject *function, PyObject *const *args, Py_ssize_t count,
                       PyObject *kwnames);

/*
 * Calls the function `name` of pkg.core.slow_paths in that mode.  `format` makes its arguments, as
 * for Py_BuildValue().
 */
PyObject *call_slow(core_state *state, const char *name, const char *format, ...);

static inline int check_count(const char *name, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, not %zd", name, wanted, given);
    return -1;
}

/* Computes a call of `name`(), or declines it. */
typedef outcome fast_path(core_state *state, PyObject *const *args, PyObject **result_ret);

/* Computes a call of `wanted` arguments by a fast path or, if that declines, by the slow path. */
PyObject *call_fast(PyObject *module, const char *name, PyObject *const *args, Py_ssize_t count,
                    Py_ssize_t wanted, fast_path *compute);

static inline PyObject *none_or_raise(core_state *state, mylib_status status)
{
    return check_status(state, status) == 0 ? Py_NewRef(Py_None) : NULL;
}

/* Returns the fast path's result to Python: NotImplemented if it declines. */
static inline PyObject *answer(outcome done, PyObject *result)
{
    return done > DONE ? Py_NewRef(Py_NotImplemented) : result;
}

#define SUPPORTED_TYPES \
    "bool, int8 to int64, uint8 to uint64, float16 to float64, complex64 and complex128"

int add_types(PyObject *module);

/* The size of an element of each type; add_types() fills these tables. */
extern uint8_t type_sizes[MYLIB_TYPE_COUNT];

/* For each operation and type, the result's type + 1, or 0 if undefined. */
extern uint8_t result_types[MYLIB_OP_COUNT][MYLIB_TYPE_COUNT];

/* For each of NumPy's type numbers, the element type + 1, or 0 if it has none. */
extern const uint8_t types_of_nums[NPY_NTYPES_LEGACY];

static inline int find_type(int type_num, mylib_type *type_ret)
{
    int type = (unsigned)type_num < NPY_NTYPES_LEGACY ? types_of_nums[type_num] - 1 : -1;
    *type_ret = (mylib_type)type;
    return type >= 0;
}

static inline int find_array_type(PyArrayObject *array, mylib_type *type_ret)
{
    return PyArray_ISNOTSWAPPED(array) && find_type(PyArray_TYPE(array), type_ret);
}

int num_of_type(mylib_type type);

static inline int64_t count_of(int ndim, const int64_t *shape)
{
    int64_t count = 1;
    for (int d = 0; d < ndim; d++)
        count *= shape[d];
    return count;
}

/* The number of sizes and strides of `arrays` arrays. */
#define DIMS_OF(arrays) ((arrays)*2 * MYLIB_MAX_NDIM)

/*
 * Describes a NumPy array in host memory.  Copies its shape and strides to `dims`, and returns the
 * end of the used part: NumPy frees its own when other threads, or Python code that the call runs,
 * set the array's shape.
 */
static inline int64_t *describe_array(PyArrayObject *array, mylib_type type, mylib_array *array_ret,
                                      int64_t *dims)
{
    _Static_assert(sizeof(npy_intp) == sizeof(int64_t), "a 64-bit platform is needed");
    _Static_assert(NPY_MAXDIMS <= MYLIB_MAX_NDIM, "every NumPy array can be described");
    int ndim = PyArray_NDIM(array);
    const npy_intp *shape = PyArray_DIMS(array), *strides = PyArray_STRIDES(array);
    for (int d = 0; d < ndim; d++) {
        dims[d] = shape[d];
        dims[ndim + d] = strides[d];
    }
    *array_ret = (mylib_array){PyArray_DATA(array), {MYLIB_CPU, 0}, type, ndim, dims, dims + ndim};
    return dims + 2 * ndim;
}

static inline int is_text(PyObject *x, const char *text)
{
    return PyUnicode_Check(x) && PyUnicode_CompareWithASCIIString(x, text) == 0;
}

/* Takes "cpu", "cuda", "cuda:N", "cuda:all" or None (the default device) as a device. */
int parse_device(core_state *state, PyObject *object, mylib_device *device_ret);

/* Returns 1 if the context's default device is the CPU, 0 if not, -1 with an exception set. */
static inline int default_is_cpu(const core_state *state)
{
    PyObject *device;
    if (PyContextVar_Get(state->default_device, Py_None, &device) < 0)
        return -1;
    int is_cpu = device == Py_None
                     ? atomic_load_explicit(&state->process_device, memory_order_relaxed) == -1
                     : is_text(device, "cpu");
    Py_DECREF(device);
    return is_cpu;
}

static inline mylib_device device_of_ordinal(int ordinal)
{
    return ordinal < 0 ? (mylib_device){MYLIB_CPU, 0} : (mylib_device){MYLIB_CUDA, ordinal};
}

static inline int ordinal_of_device(mylib_device device)
{
    return device.kind == MYLIB_CPU ? -1 : device.index;
}

static inline mylib_status check_ordinal(int ordinal)
{
    return mylib_cuda_check_device(ordinal == MYLIB_ALL_GPUS ? 0 : ordinal);
}

int take_dtype(PyObject *object, mylib_type *type_ret);
