/*
 * core.c - the module pkg.core: the binding of libmylib to Python and NumPy.
 *
 * This file only defines the module.  core.pyi lists the arguments of all functions.  The other
 * files are, from bottom to top (each may use those before it): common.c, library.c, ufunc.c,
 * memory.c, operands.c, mask.c, join.c, run.c, reduce.c, array.c, operation.c, expression.c,
 * dlpack.c.
 */
#define PKG_CORE_MAIN
#include "array.h"
#include "dlpack.h"
#include "expression.h"
#include "join.h"
#include "library.h"
#include "memory.h"
#include "operation.h"
#include "reduce.h"
#include "run.h"
#include "ufunc.h"

#include <string.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)
/* The version of the header that this file is compiled with. */
#define VERSION_TEXT \
    STRING(MYLIB_VERSION_MAJOR) "." STRING(MYLIB_VERSION_MINOR) "." STRING(MYLIB_VERSION_PATCH)

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
    state->out_of_range = PyErr_NewException("pkg.core.OutOfRange", PyExc_OverflowError, NULL);
    state->default_device = PyContextVar_New("pkg.default_device", NULL);
    const char *device = getenv("MYLIB_DEFAULT_DEVICE");
    int is_set = device != NULL && *device != '\0';
    state->environment_device = is_set ? PyUnicode_DecodeFSDefault(device) : Py_NewRef(Py_None);
    atomic_store(&state->process_device, is_set ? UNCHECKED : -1);
    state->current_stream = PyContextVar_New("pkg.current_stream", NULL);
    state->out_name = PyUnicode_InternFromString("out");
    state->slow_paths = PyDict_New();
    if (PyErr_Occurred() || PyModule_AddObjectRef(module, "CudaError", state->cuda_error) < 0 ||
        PyModule_AddObjectRef(module, "OutOfRange", state->out_of_range) < 0 ||
        PyModule_AddObjectRef(module, "slow_paths", state->slow_paths) < 0 ||
        PyModule_AddObjectRef(module, "default_device", state->default_device) < 0 ||
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
    PyMethodDef *const functions[] = {
        library_functions, ufunc_functions, memory_functions, join_functions,      run_functions,
        reduce_functions,  array_functions, dlpack_functions, operation_functions, NULL};
    for (PyMethodDef *const *table = functions; *table != NULL; table++)
        if (PyModule_AddFunctions(module, *table) < 0)
            return -1;
    const struct {
        const char *name;
        long value;
    } numbers[] = {{"STEP_CONVERT", MYLIB_STEP_CONVERT},
                   {"STEP_SELECT", MYLIB_STEP_SELECT},
                   {"PROGRAM_MAX_INPUTS", MYLIB_PROGRAM_MAX_INPUTS},
                   {"PROGRAM_MAX_CONSTANTS", MYLIB_PROGRAM_MAX_CONSTANTS},
                   {"PROGRAM_MAX_STEPS", MYLIB_PROGRAM_MAX_STEPS},
                   {"LARGE_COUNT", LARGE_COUNT},
                   {"ALL_GPUS", MYLIB_ALL_GPUS},
                   {"ANY", REDUCE_ANY},
                   {"ALL", REDUCE_ALL},
                   {"COUNT_NONZERO", REDUCE_COUNT},
                   {"MEAN", REDUCE_MEAN}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value) < 0)
            return -1;
    if (add_types(module) < 0 || add_operations(module, state) < 0)
        return -1;
    return add_reductions(module, state);
}

/* clang-format off */
#define EACH_REFERENCE(X) \
    X(cuda_error) X(out_of_range) X(operation) X(operations) \
    X(default_device) X(environment_device) X(out_name) X(slow_paths) \
    X(array_base) X(memory_type) X(stream_type) X(array_type) \
    X(current_stream) X(program_type) X(expression_base)
/* clang-format on */

static int core_traverse(PyObject *module, visitproc visit, void *arg)
{
    core_state *state = PyModule_GetState(module);
#define VISIT(name) Py_VISIT(state->name);
    EACH_REFERENCE(VISIT)
    return 0;
}

static int core_clear(PyObject *module)
{
    core_state *state = PyModule_GetState(module);
#define CLEAR(name) Py_CLEAR(state->name);
    EACH_REFERENCE(CLEAR)
    return 0;
}

static void core_free(void *module)
{
    core_state *state = PyModule_GetState(module);
    (void)core_clear(module);
    for (int type = 0; type < MYLIB_TYPE_COUNT; type++)
        mylib_program_free(state->tests[type]);
    mylib_program_free(state->both);
}

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
#if PY_VERSION_HEX >= 0x030C0000
    /* As NumPy, whose types the module uses. */
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    /* Threads share only constants, and data that is written in critical sections. */
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pkg.core",
    .m_doc = "The binding of libmylib; the public interface is the package pkg.",
    .m_size = sizeof(core_state),
    .m_slots = core_slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
    .m_free = core_free,
};

PyMODINIT_FUNC PyInit_core(void)
{
    core_def = &core_module;
    return PyModuleDef_Init(&core_module);
}
