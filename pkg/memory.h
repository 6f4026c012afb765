/*
 * memory.h - GPU memory, the streams that use it, and arrays over it.
 *
 * An Array is a shape and strides over a Memory, a block of GPU memory; views share it.
 */
#pragma once

#include "common.h"

typedef struct stream_object {
    PyObject_HEAD
    mylib_device device;
    void *handle;    /* a cudaStream_t; NULL is the legacy default stream */
    int is_ours;     /* destroy it with the object */
    PyObject *owner; /* the foreign object that the handle belongs to, or NULL */
    PyObject *weakrefs;
} stream_object;

typedef struct memory_object {
    PyObject_HEAD
    char *data;
    mylib_device device;
    PyObject *owner;  /* the foreign object, or NULL: ours, from mylib_alloc() */
    PyObject *stream; /* on which it was allocated, or the foreign object's; NULL: the default */
    int owner_is_on_stream; /* a foreign object uses the memory on `stream`; else we do */
    PyObject *users;        /* NULL, or a list of other streams (None: the default) with uses */
} memory_object;

#define INLINE_NDIM 4

typedef struct array_object {
    PyObject_HEAD
    mylib_array a; /* `shape` and `strides` point into dims */
    int64_t count;
    PyObject *memory;
    char is_readonly;
    int64_t inline_dims[2 * INLINE_NDIM];
    int64_t *dims; /* inline_dims, or allocated */
    PyObject *weakrefs;
} array_object;

/* Finds the context's stream of `device`: a new reference, or NULL for the default stream. */
int current_stream(core_state *state, mylib_device device, PyObject **stream_ret);

static inline void *stream_handle(PyObject *stream)
{
    return stream != NULL ? ((stream_object *)stream)->handle : NULL;
}

/*
 * Returns an Array of `shape` over `memory` whose first element is at `data`.  NULL strides mean C
 * order.  Steals the reference to `memory`.
 */
PyObject *new_array_over(core_state *state, PyObject *memory, char *data, mylib_type type, int ndim,
                         const int64_t *shape, const int64_t *strides, int is_readonly);

/*
 * Returns a dimension whose size is negative, or at which the size or the extent of the array in
 * bytes overflows 63 bits; -1 if none does.  Skips sizes of 0, as NumPy.  NULL strides: C order.
 */
int find_overflow(int ndim, const int64_t *shape, const int64_t *strides, int64_t itemsize);

/* Raises ValueError if find_overflow() finds a dimension of a new array. */
int check_nbytes(int ndim, const int64_t *shape, mylib_type type);

/*
 * Finds the strides of a new contiguous array whose axes are, from the slowest to the fastest,
 * axes[0], axes[1], ...  They may wrap for a shape that check_nbytes() refuses.
 */
void find_strides(int ndim, const int64_t *shape, const int *axes, int64_t itemsize,
                  int64_t *strides);

/* Returns a new Array with its own, uninitialised memory.  NULL strides mean C order. */
PyObject *new_array(core_state *state, mylib_device device, PyObject *stream, mylib_type type,
                    int ndim, const int64_t *shape, const int64_t *strides);

/*
 * Returns GPU memory as a Memory, ready on `stream`.  It keeps a foreign `owner`; NULL is this
 * library.  When it dies, `stream` waits for the other streams that have used it if the owner works
 * on that stream; otherwise the host waits for all of them.
 */
PyObject *new_memory(core_state *state, mylib_device device, void *data, PyObject *owner,
                     PyObject *stream, int owner_is_on_stream);

/* Notes that `stream` has work on the memory: whoever frees the memory waits for it. */
int note_use(PyObject *memory, PyObject *stream);

static inline int is_array(const core_state *state, PyObject *object)
{
    return Py_TYPE(object) == state->array_type || PyObject_TypeCheck(object, state->array_base);
}

extern PyType_Spec memory_spec, stream_spec;
extern PyMethodDef memory_functions[];
