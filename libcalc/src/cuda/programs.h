/*
 * programs.h - running programs on GPU memory, and what that needs of the backend, which may be the
 * emulated one.  Needs no CUDA.
 */
#ifndef MYLIB_CUDA_PROGRAMS_H
#define MYLIB_CUDA_PROGRAMS_H

#include "../internal.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes 'device' current and remembers which was; every entry point is bracketed by the two. Fails,
 * with nothing to leave, when the device is not there or CUDA was used before a fork.
 */
mylib_status mylib_cuda_enter(int device, int *previous_ret);
void mylib_cuda_leave(int previous);

/*
 * MYLIB_ERR_ARGUMENT for memory that a kernel could not touch without breaking the CUDA context.
 */
mylib_status mylib_cuda_check_memory(int device, const char *name, const void *data,
                                     mylib_type type, int ndim, const int64_t *strides);

/* mylib_cuda_run() for memory that has been checked, on the current device. */
mylib_status mylib_cuda_enqueue(int device, void *stream, const mylib_program *program,
                                mylib_layout *layout);

/*
 * Combines what 'parts' aligned groups of blocks, of 2^k blocks each, gave: in 'partial', of the
 * type that mylib_cuda_part_type() tells for the carrying one, the first part of all outputs, then
 * the second, ...  The outputs are operand 0 of the layout, GPU memory of type out_type.
 */
mylib_status mylib_cuda_reduce_parts(int device, void *stream, mylib_reduction reduction,
                                     mylib_type carrier, int64_t parts, void *partial,
                                     const mylib_layout *out, mylib_type out_type);
mylib_type mylib_cuda_part_type(mylib_type carrier);

#ifdef __cplusplus
}
#endif

#endif /* MYLIB_CUDA_PROGRAMS_H */
