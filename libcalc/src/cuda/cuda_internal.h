/*
 * cuda_internal.h - what the files of the CUDA backend share.  Compiles as C and as CUDA C++.
 *
 * device.c   devices, errors, memory            plain C on the runtime API
 * launch.c   layouts to kernel arguments
 * programs.c programs of several statements: in one launch (fused.c) or one after the other
 * plan.c     how a kernel walks a layout of any strides
 * reductions.c   reductions, to kernel arguments
 * stream.c   host arrays through the GPU
 * *.cu, interpreter.cuh   the kernels and their launches; the only files with device code
 */
#ifndef MYLIB_CUDA_INTERNAL_H
#define MYLIB_CUDA_INTERNAL_H

#include <cuda_runtime_api.h>

#include "../internal.h"
#include "plan.h"
#include "programs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors and devices (device.c) --------------------------------------------------------- */

/* Turns a CUDA error into a status and a message that names the call, and clears it. */
mylib_status mylib_from_cuda(cudaError_t error, const char *call, const char *file, int line);

/* Goes to `out:` on failure. */
#define CUDA_TRY(call) MYLIB_TRY(mylib_from_cuda((call), #call, __FILE__, __LINE__))

/* A call of the cleanup: nobody asks whether it failed, and no error is left set. */
#define CUDA_CLEANUP(call) ((call) != cudaSuccess ? (void)cudaGetLastError() : (void)0)

#define MYLIB_CUDA_MAX_DEVICES 64 /* mylib_cuda_enter() lets no others in */

/* The GPU on which mylib_alloc() gave exactly this address; -1 when it did not. */
int mylib_cuda_owner(const void *ptr);

/*
 * An event after what 'stream' of 'device', which is current, has been given so far.  It can be
 * released as soon as all that shall wait for it have been told so.
 */
mylib_status mylib_cuda_record(int device, void *stream, cudaEvent_t *event_ret);
void mylib_cuda_release_event(int device, cudaEvent_t event);

/* ---- Kernels (*.cu) ---------------------------------------------------------------------- */

/*
 * Input k, one element of host memory, as a constant of a launch's arguments: converted to the type
 * in which the program uses it, the rest of the bytes 0.
 */
void mylib_take_constant(const mylib_code *program, int k, const void *value,
                         unsigned char constant[16]);

/* Enqueues a program over memory that this device can use.  The layout has elements; it is kept. */
mylib_status mylib_cuda_launch(const mylib_code *program, mylib_layout *layout, void *stream);

/* What an operand of mylib_launch_direct() is. */
enum {
    MYLIB_DIRECT_VECTOR,   /* rows of vectors, of the computed type */
    MYLIB_DIRECT_SINGLE,   /* one element of it for each row */
    MYLIB_DIRECT_CONSTANT, /* one value for all, or no operand: a vector of it is in constant[] */
    MYLIB_DIRECT_CONVERTED_VECTOR, /* the same of another type */
    MYLIB_DIRECT_CONVERTED_SINGLE,
};

/* Operands that are not aligned are of types of so many bytes. */
#define MYLIB_DIRECT_ELEMENT_MIN 4

/*
 * A program of a single operation, of a choice by a condition, or of a load alone, over rows of
 * whole vectors: vectors of 16 bytes of the computed type, each aligned, in every operand, to the
 * bytes that it has there, at most 16.  Row after row goes on by strides; without row_vectors all n
 * elements are one row, whose last vector may be incomplete.  A single row may also be read and
 * written element by element: then nothing need be aligned to more than its elements.
 */
typedef struct mylib_direct_args {
    int64_t n;
    char *out;
    const char *in[2];
    int64_t out_stride, stride[2];
    int32_t row_vectors;
    uint32_t full_blocks; /* set by the launch: the thread blocks that take vectors */
    mylib_divider row_divider;
    uint8_t computed_type, result_type, opcode;
    uint8_t kind[2], type[2];
    uint8_t shift[2]; /* an element has 1 << shift bytes */
    uint8_t has_conversions, is_by_elements;
    const char *condition; /* of a choice: bools, like a VECTOR; else NULL */
    int64_t condition_stride;
    MYLIB_ALIGNAS(16) unsigned char constant[2][16];
} mylib_direct_args;

cudaError_t mylib_launch_direct(mylib_direct_args *args, cudaStream_t stream);
/* Whether it reads inputs of input_type: `type` itself, and others that are not too wide. */
int mylib_direct_takes(mylib_type type, mylib_type input_type);

/* What a CPU would have flagged. */
enum { MYLIB_FLAG_INVALID = 1, MYLIB_FLAG_DIVBYZERO = 2, MYLIB_FLAG_OVERFLOW = 4 };

/* A single operation that has run: n results, and operands that are contiguous or constants. */
typedef struct mylib_flags_args {
    int64_t n;
    const void *out;
    const void *in[MYLIB_CODE_MAX_INPUTS]; /* NULL: a constant, as mylib_take_constant() makes it */
    mylib_code program;
    MYLIB_ALIGNAS(16) unsigned char constant[MYLIB_CODE_MAX_INPUTS][16];
} mylib_flags_args;

/*
 * Sets MYLIB_FLAG_* in *flags, in memory that the GPU can write: a GPU has no floating-point flags,
 * but operands and results tell.
 */
cudaError_t mylib_launch_flags(const mylib_flags_args *args, unsigned *flags, cudaStream_t stream);
cudaError_t mylib_launch_arange(mylib_type type, int64_t n, char *out, int64_t stride,
                                const void *start, const void *step, cudaStream_t stream);
cudaError_t mylib_launch_strided(const mylib_plan *plan, cudaStream_t stream);

/* How a reduction goes through memory; see reduce.cu. */
enum {
    MYLIB_REDUCE_ROWS,
    MYLIB_REDUCE_LANES,
    MYLIB_REDUCE_COLUMNS,
    MYLIB_REDUCE_PARTS, /* combines the partial results of another way */
};

#define MYLIB_NOT_NARROWED 255

/* One launch of a reduction.  The kept dimensions come first, the reduced ones are in C order. */
typedef struct mylib_reduce_args {
    int32_t reduction, way, inputs;
    int32_t carrier; /* i64, u64, f32, f64, c64 or c128 */
    int32_t out_type, out_size;
    int32_t input_type[2], input_size[2], is_stored_as_carrier[2];
    int32_t narrow[2]; /* the type that inputs are cut down to before they are widened to carrier */
    int32_t kept_ndim, ndim;
    int32_t is_aligned;           /* rows: to 16 bytes */
    int32_t has_warp_per_output;  /* rows */
    int32_t width;                /* columns: so many outputs of a thread lie in 16 bytes, or 1 */
    int32_t lane_bits, warp_bits; /* columns: 2^lane_bits lanes are walked by 2^warp_bits warps */
    int32_t width_bits;           /* parts: 2^width_bits outputs are side by side */
    int32_t cluster_bits;         /* lanes: 2^cluster_bits thread blocks are a cluster, unless 0 */
    int64_t grid, grid_rows;      /* thread blocks */
    int64_t outputs, terms, blocks; /* terms and blocks of one output */
    int64_t group;                  /* blocks, or parts, that one warp or thread block takes */
    int64_t parts;                  /* partial results of one output */
    const char *in[2];
    char *out;
    char *partial;
    int64_t shape[MYLIB_MAX_NDIM];
    int64_t in_strides[2][MYLIB_MAX_NDIM];
    int64_t out_strides[MYLIB_MAX_NDIM];
} mylib_reduce_args;

cudaError_t mylib_launch_reduce(const mylib_reduce_args *args, cudaStream_t stream);

#define MYLIB_MAX_CLUSTER 8 /* thread blocks; more are not for every GPU */
/* The most thread blocks that a cluster has on the current device; 1 where there are none. */
cudaError_t mylib_reduce_max_cluster(int *blocks_ret);

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
