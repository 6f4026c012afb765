/*
 * cuda_internal.h - what the files of the CUDA backend share.  Compiles as C and as CUDA C++.
 *
 * device.c   devices, errors, memory            plain C on the runtime API
 * launch.c   layouts to kernel arguments
 * stream.c   host arrays through the GPU
 * kernels.cu the kernels and their launches; the only file with device code
 */
#ifndef MYLIB_CUDA_INTERNAL_H
#define MYLIB_CUDA_INTERNAL_H

#include <cuda_runtime_api.h>

#include "../internal.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors and devices (device.c) --------------------------------------------------------- */

/* Turns a CUDA error into a status and a message that names the call, and clears it. */
mylib_status mylib_from_cuda(cudaError_t error, const char *call, const char *file, int line);

/* Goes to `out:` on failure. */
#define CUDA_TRY(call) MYLIB_TRY(mylib_from_cuda((call), #call, __FILE__, __LINE__))

/*
 * Makes 'device' current and remembers which was; every entry point is bracketed by the two. Fails,
 * with nothing to leave, when the device is not there or CUDA was used before a fork.
 */
mylib_status mylib_cuda_enter(int device, int *previous_ret);
void mylib_cuda_leave(int previous);

/* ---- Kernels (kernels.cu) ------------------------------------------------------------------ */

/* How a flat kernel reads an input. */
enum {
    MYLIB_READ_VECTOR,   /* contiguous, 16-byte aligned */
    MYLIB_READ_ELEMENT,  /* contiguous, aligned to its elements only */
    MYLIB_READ_UNIFORM,  /* one element of GPU memory for all */
    MYLIB_READ_CONSTANT, /* one value, carried in the arguments */
};

/* A program over contiguous operands. */
typedef struct mylib_flat_args {
    int64_t n;
    void *out;
    const void *in[MYLIB_PROGRAM_MAX_INPUTS];
    uint8_t read[MYLIB_PROGRAM_MAX_INPUTS];
    uint8_t out_is_aligned; /* to 16 bytes */
    mylib_program program;
#ifdef __cplusplus
    alignas(16)
#else
    _Alignas(16)
#endif
        unsigned char constant[MYLIB_PROGRAM_MAX_INPUTS][16];
} mylib_flat_args;

/* What a CPU would have flagged; see mylib_launch_flags(). */
enum { MYLIB_FLAG_INVALID = 1, MYLIB_FLAG_DIVBYZERO = 2, MYLIB_FLAG_OVERFLOW = 4 };

/* A program over at most this many dimensions of any strides. */
#define MYLIB_CUDA_MAX_NDIM 8

/*
 * Division of 32-bit numbers below 2^31 by an invariant: (high word of x * multiplier + x) >>
 * shift, by T. Granlund and P. Montgomery, "Division by Invariant Integers using Multiplication"
 * (PLDI 1994).
 */
typedef struct mylib_divider {
    uint32_t multiplier, shift;
} mylib_divider;

typedef struct mylib_strided_args {
    int64_t n;
    int32_t ndim;
    int32_t operands;
    char *data[MYLIB_MAX_OPERANDS];
    int64_t shape[MYLIB_CUDA_MAX_NDIM];
    mylib_divider divider[MYLIB_CUDA_MAX_NDIM];
    int64_t strides[MYLIB_CUDA_MAX_NDIM][MYLIB_MAX_OPERANDS];
    mylib_program program;
} mylib_strided_args;

cudaError_t mylib_launch_flat(const mylib_flat_args *args, cudaStream_t stream);
/*
 * Sets MYLIB_FLAG_* in *flags, in memory that the GPU can write, for a program of a single
 * operation that has run with these arguments: a GPU has no floating-point flags, but operands and
 * results tell.
 */
cudaError_t mylib_launch_flags(const mylib_flat_args *args, unsigned *flags, cudaStream_t stream);
/* is_small: n and every offset fit in 31 bits. */
cudaError_t mylib_launch_strided(const mylib_strided_args *args, int is_small, cudaStream_t stream);

/* Sums blocks of MYLIB_SUM_BLOCK terms into partial[], then the blocks pairwise into *sum. */
cudaError_t mylib_launch_sum(mylib_type type, int64_t n, const char *a, int64_t a_stride,
                             void *partial, void *sum, cudaStream_t stream);

/* One operation on one pair of scalars; the result is written where the host can see it. */
typedef struct mylib_scalar_result {
    unsigned char value[16];
    int32_t status;
} mylib_scalar_result;

typedef struct mylib_scalar_args {
    unsigned char a[16], b[16];
    int32_t op, type;
    mylib_scalar_result *result;
} mylib_scalar_args;

cudaError_t mylib_launch_scalar(const mylib_scalar_args *args, cudaStream_t stream);

/* ---- Host arrays (stream.c) ---------------------------------------------------------------- */

/* Gives back the staging buffers of all devices; waits for calls that use them. */
void mylib_stream_free_cached(void);

#ifdef __cplusplus
}
#endif

#endif /* MYLIB_CUDA_INTERNAL_H */
