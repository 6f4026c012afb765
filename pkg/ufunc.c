/*
 * ufunc.c - NumPy ufuncs, with one inner loop for all operations and types; and reports of
 * floating-point flags.
 */
#include "ufunc.h"

#include <string.h>

typedef struct loop_info {
    core_state *state; /* of the module, which the ufunc keeps alive */
    mylib_op op;
    mylib_type type[2]; /* of the inputs */
    mylib_device device;
} loop_info;

/*
 * The inner loop of every ufunc.  NumPy calls it without the GIL for one dimension at a time.
 * reduce and accumulate let the output overlap the first input, which mylib_map1() supports.
 */
static void ufunc_loop(char **args, npy_intp const *dims, npy_intp const *steps, void *data)
{
    const loop_info *info = data;
    int nin = mylib_op_arity(info->op);
    mylib_status status;

    /* Dask calls with single elements to find the type of a result, which must not need a GPU. */
    int on_cpu = info->device.kind == MYLIB_CPU || dims[0] <= 1;
    /* Compare bools as integers: the library does not, and their bytes may differ from 0 and 1. */
    const int of_bools = info->type[0] == MYLIB_BOOL && mylib_op_compares(info->op);
    if (on_cpu && info->type[0] == info->type[1] && !of_bools) {
        status = mylib_map1(info->op, info->type[0], dims[0], args[nin], steps[nin], args[0],
                            steps[0], nin == 2 ? args[1] : NULL, nin == 2 ? steps[1] : 0);
    } else {
        const int64_t *shape = (const int64_t *)dims, *strides = (const int64_t *)steps;
        mylib_array arrays[3];
        for (int k = 0; k <= nin; k++)
            arrays[k] =
                (mylib_array){args[k], {MYLIB_CPU, 0}, info->type[k % 2], 1, shape, &strides[k]};
        const mylib_device device = on_cpu ? (mylib_device){MYLIB_CPU, 0} : info->device;
        const mylib_type type = of_bools ? MYLIB_I8 : info->type[0];
        mylib_op_result_type(info->op, type, &arrays[nin].type);
        status = of_bools ? mylib_map_as(info->op, type, device, NULL, &arrays[nin], arrays)
                          : mylib_map(info->op, device, NULL, &arrays[nin], arrays);
    }
    if (status != MYLIB_OK) {
        PyGILState_STATE gil = PyGILState_Ensure();
        raise_status(info->state, status);
        PyGILState_Release(gil);
    }
}

/* One per type, two more for long long, and two for comparisons of i64 with u64. */
#define MAX_LOOPS (MYLIB_TYPE_COUNT + 4)

/* NumPy keeps pointers to these arrays for as long as the ufunc lives. */
typedef struct ufunc_tables {
    loop_info info[MAX_LOOPS];
    void *data[MAX_LOOPS];
    PyUFuncGenericFunction loops[MAX_LOOPS];
    char types[MAX_LOOPS * 3];
    char name[64];
} ufunc_tables;

/* Returns the alternative to an operation that NumPy refuses only for bools, else NULL. */
static const char *instead_of_bool(mylib_op op)
{
    switch ((int)op) {
    case MYLIB_OP_subtract:
        return "use ^ (bitwise_xor, logical_xor), or convert";
    case MYLIB_OP_negative:
        return "use ~ (invert, logical_not), or convert";
    case MYLIB_OP_positive:
    case MYLIB_OP_sign:
        return "convert";
    default:
        return NULL;
    }
}

int refuse_bool(mylib_op op)
{
    const char *instead = instead_of_bool(op);
    if (instead == NULL)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s is not defined for bool: %s to integers first",
                 mylib_op_name(op), instead);
    return -1;
}

static PyUFunc_TypeResolutionFunc *default_resolver; /* the same for all ufuncs */

/* Chooses the types of an operation that is refused if all operands are bools. */
static int resolve_without_bool(PyUFuncObject *ufunc, NPY_CASTING casting, PyArrayObject **operands,
                                PyObject *given, PyArray_Descr **descrs)
{
    int bools = 0;
    for (int k = 0; k < ufunc->nin; k++)
        bools += PyArray_TYPE(operands[k]) == NPY_BOOL;
    if (bools == ufunc->nin && given == NULL)
        return refuse_bool(((const ufunc_tables *)ufunc->ptr)->info[0].op);
    return default_resolver(ufunc, casting, operands, given, descrs);
}

/* As NumPy does: f64 for integers and bools. */
static int resolve_true_division(PyUFuncObject *ufunc, NPY_CASTING casting,
                                 PyArrayObject **operands, PyObject *given, PyArray_Descr **descrs)
{
    int has_others = given != NULL;
    for (int k = 0; k < ufunc->nin; k++)
        has_others |= !PyArray_ISINTEGER(operands[k]) && !PyArray_ISBOOL(operands[k]);
    if (has_others)
        return default_resolver(ufunc, casting, operands, given, descrs);
    PyObject *descr = (PyObject *)PyArray_DescrFromType(NPY_DOUBLE);
    PyObject *types = PyTuple_Pack(3, descr, descr, descr);
    Py_DECREF(descr);
    int result = types != NULL ? default_resolver(ufunc, casting, operands, types, descrs) : -1;
    Py_XDECREF(types);
    return result;
}

/* Adds a loop over inputs of these types, with NumPy's numbers of the types. */
static void add_loop(ufunc_tables *t, int *loops, const loop_info *info, int nin, const int *nums)
{
    t->info[*loops] = *info;
    t->data[*loops] = &t->info[*loops];
    t->loops[*loops] = ufunc_loop;
    char *types = &t->types[*loops * (nin + 1)];
    *types++ = (char)nums[0];
    if (nin == 2)
        *types++ = (char)nums[1];
    *types = (char)nums[2];
    ++*loops;
}

/* Returns NumPy's number of the long long twin of an integer: dtype= and reduce need its loop. */
static int long_long(int num)
{
    return num == NPY_LONG ? NPY_LONGLONG : num == NPY_ULONG ? NPY_ULONGLONG : num;
}

PyObject *new_ufunc(PyObject *module, mylib_op op, int is_true_division, mylib_device device,
                    const char *name)
{
    /* NumPy takes the first loop to which the inputs cast safely: order by kind and size. */
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
        mylib_type type[2] = {first[i], second[i]}, result = MYLIB_BOOL;
        const int compares = mylib_op_compares(op);
        if ((!compares && mylib_op_result_type(op, type[0], &result) != MYLIB_OK) ||
            (type[0] != type[1] && !compares) ||
            (is_true_division && PyTypeNum_ISINTEGER(num_of_type(type[0]))))
            continue;
        const loop_info info = {PyModule_GetState(module), op, {type[0], type[1]}, device};
        int nums[] = {num_of_type(type[0]), num_of_type(type[1]), num_of_type(result)};
        add_loop(t, &loops, &info, nin, nums);
        if (type[0] == type[1] && long_long(nums[0]) != nums[0]) {
            for (int k = 0; k < 3; k++)
                nums[k] = long_long(nums[k]);
            add_loop(t, &loops, &info, nin, nums);
        }
    }
    if (op == MYLIB_OP_add || op == MYLIB_OP_logical_or || op == MYLIB_OP_logical_xor ||
        op == MYLIB_OP_bitwise_or || op == MYLIB_OP_bitwise_xor || op == MYLIB_OP_hypot)
        identity = PyUFunc_Zero;
    else if (op == MYLIB_OP_multiply || op == MYLIB_OP_logical_and)
        identity = PyUFunc_One;
    else if (op == MYLIB_OP_bitwise_and)
        identity = PyUFunc_MinusOne;
    else if (op == MYLIB_OP_minimum || op == MYLIB_OP_maximum || op == MYLIB_OP_fmin ||
             op == MYLIB_OP_fmax)
        identity = PyUFunc_ReorderableNone;
    else if (op == MYLIB_OP_logaddexp)
        identity = PyUFunc_IdentityValue;
    PyOS_snprintf(t->name, sizeof t->name, "%s", name);
    PyObject *value = PyFloat_FromDouble(-Py_HUGE_VAL), *ufunc = NULL; /* logaddexp's identity */
    if (value != NULL)
        ufunc = PyUFunc_FromFuncAndDataAndSignatureAndIdentity(
            t->loops, t->data, t->types, loops, nin, 1, identity, t->name,
            "An operation of libmylib as a NumPy ufunc.", 0, NULL, value);
    Py_XDECREF(value);
    if (ufunc == NULL) {
        PyArray_free(t);
        return NULL;
    }
    if (instead_of_bool(op) != NULL || is_true_division) {
        default_resolver = ((PyUFuncObject *)ufunc)->type_resolver;
        ((PyUFuncObject *)ufunc)->type_resolver =
            is_true_division ? resolve_true_division : resolve_without_bool;
    }
    /* The ufunc frees `ptr` and releases `obj`. */
    ((PyUFuncObject *)ufunc)->ptr = t;
    ((PyUFuncObject *)ufunc)->obj = Py_NewRef(module);
    if (!PyObject_GC_IsTracked(ufunc))
        PyObject_GC_Track(ufunc);
    return ufunc;
}

/* Returns a NumPy ufunc of an operation or true_divide on cuda:`ordinal`, or for -1 on the CPU. */
static PyObject *make_ufunc(PyObject *module, PyObject *args)
{
    int op, is_true_division, ordinal;
    const char *name;
    if (!PyArg_ParseTuple(args, "ipis:make_ufunc", &op, &is_true_division, &ordinal, &name))
        return NULL;
    if (op < 0 || op >= MYLIB_OP_COUNT)
        return PyErr_Format(PyExc_ValueError, "there is no operation %d", op);
    return new_ufunc(module, (mylib_op)op, is_true_division, device_of_ordinal(ordinal), name);
}

/* ---- Floating-point flags ---- */

static int give_errors(const char *name, int flags)
{
    int fpe = 0;
    fpe |= flags & FE_DIVBYZERO ? NPY_FPE_DIVIDEBYZERO : 0;
    fpe |= flags & FE_OVERFLOW ? NPY_FPE_OVERFLOW : 0;
    fpe |= flags & FE_UNDERFLOW ? NPY_FPE_UNDERFLOW : 0;
    fpe |= flags & FE_INVALID ? NPY_FPE_INVALID : 0;
    return PyUFunc_GiveFloatingpointErrors(name, fpe);
}

int is_called_by_package(void)
{
    PyObject *globals = PyEval_GetGlobals();
    PyObject *name = globals != NULL ? PyDict_GetItemString(globals, "__package__") : NULL;
    const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    return text != NULL && strncmp(text, "pkg", 3) == 0 && (text[3] == '\0' || text[3] == '.');
}

int report_flags(core_state *state, const char *name, int flags)
{
    if (!is_called_by_package())
        return give_errors(name, flags);
    /* NumPy would name the package's line. */
    PyObject *none = call_slow(state, "report_flags", "(si)", name, flags);
    Py_XDECREF(none);
    return none != NULL ? 0 : -1;
}

static PyObject *report_flags_function(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *name;
    int flags;
    if (!PyArg_ParseTuple(args, "si:report_flags", &name, &flags) || give_errors(name, flags) < 0)
        return NULL;
    Py_RETURN_NONE;
}

PyMethodDef ufunc_functions[] = {
    {"make_ufunc", make_ufunc, METH_VARARGS, NULL},
    {"report_flags", report_flags_function, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
