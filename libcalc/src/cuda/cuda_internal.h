/*
 * cuda_internal.h - declarations that the CUDA backend's files share.  Compiles as C and CUDA C++.
 */
#pragma once

#include <cuda_runtime_api.h>

#include "../internal.h"
#include "strided.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors and devices (device.c) ---- */

/* Turns a CUDA error into a status and a message that names the call, and clears it. */
mylib_status mylib_from_cuda(cudaError_t error, const char *call, const char *file, int line);

#define CUDA_RETURN_IF_ERROR(call) \
    RETURN_IF_ERROR(mylib_from_cuda((call), #call, __FILE__, __LINE__))

#define CUDA_TRY(call) MYLIB_TRY(mylib_from_cuda((call), #call, __FILE__, __LINE__))

/* Calls CUDA for cleanup: ignores a failure, and leaves no error set. */
#define CUDA_CLEANUP(call) ((call) != cudaSuccess ? (void)cudaGetLastError() : (void)0)

#define MYLIB_CUDA_MAX_DEVICES 64 /* mylib_cuda_enter() refuses others */

/* Returns the number of GPUs of MYLIB_ALL_GPUS; 0 before mylib_cuda_check_device(). */
int mylib_cuda_all(void);

/* Records an event after the present work of 'stream' of the current device, to be released. */
mylib_status mylib_cuda_record(int device, void *stream, cudaEvent_t *event_ret);
void mylib_cuda_release_event(int device, cudaEvent_t event);
/* Destroys the event that is kept for reuse. */
void mylib_cuda_free_event(int device);

/*
 * Makes 'device' current until the end of the block, as every entry point does.  Returns from the
 * function if it does not exist or CUDA was used before a fork.
 */
#define ENTER_DEVICE(device) \
    __attribute__((cleanup(mylib_cuda_leave))) int previous_device = -1; \
    RETURN_IF_ERROR(mylib_cuda_enter(device, &previous_device))

mylib_status mylib_cuda_enter(int device, int *previous_ret);
void mylib_cuda_leave(const int *previous);

/* Tells whether this process has used CUDA, and is not a fork of one that has. */
int mylib_cuda_is_in_use(void);
/* Tells whether an error has ended the CUDA context of this process. */
int mylib_cuda_is_lost(void);

/* ---- Memory (memory.c) ---- */

/* Returns the GPU on which mylib_alloc() gave exactly this address, or -1. */
int mylib_cuda_owner(const void *ptr);
/* Tells whether it gave, on this GPU, those of all operands from `first` on but host scalars. */
int mylib_cuda_owns(int device, const mylib_layout *layout, int first);

/* Returns the unused memory of all devices' pools to the driver. */
mylib_status mylib_cuda_trim_pools(void);

mylib_status mylib_cuda_copy_peer(int dst_device, void *dst, int src_device, const void *src,
                                  size_t nbytes, void *stream);

/* Aligns the next part of a call's memory for every access. */
static inline size_t mylib_cuda_align(size_t nbytes) { return (nbytes + 255) / 256 * 256; }

/* Temporary memory of a call; more only if pieces would be too short. */
#ifndef MYLIB_TEMPORARY_NBYTES
#define MYLIB_TEMPORARY_NBYTES (32 << 20)
#endif

/* ---- Functions (functions.c) ---- */

/* Does what mylib_cuda_launch() does, for functions.  `launch` enqueues a conversion. */
typedef mylib_status mylib_cuda_launch_statement(const mylib_statement *s, mylib_layout *layout,
                                                 void *stream);
mylib_status mylib_cuda_launch_function(const mylib_statement *s, mylib_layout *layout,
                                        void *stream, mylib_cuda_launch_statement *launch);

/* Returns the most elements of a piece in `room` bytes of memory, with 'nbytes' for each. */
int64_t mylib_cuda_piece(size_t room, size_t nbytes);

/* ---- Programs over GPU memory (run.c) ---- */

/* Returns MYLIB_ERR_ARGUMENT for memory whose access by a kernel would break the CUDA context. */
mylib_status mylib_cuda_check_memory(int device, const char *name, const void *data,
                                     mylib_type type, int ndim, const int64_t *strides);
/* Checks the operands' memory, or with out_type -1 the inputs'; types[k] is that of input k. */
mylib_status mylib_cuda_check_operands(int device, const char *const *names, int out_type,
                                       const uint8_t *types, const mylib_layout *layout);

/*
 * Enqueues a statement whose operands are inputs, input i being operand 1 + i of the layout, over
 * memory that has been checked, on the current device.  The layout has elements; it is kept.
 */
mylib_status mylib_cuda_launch(const mylib_statement *s, mylib_layout *layout, void *stream);

/* Does mylib_cuda_map() in checked memory of the current device, with about `room` bytes more. */
mylib_status mylib_cuda_enqueue(int device, void *stream, const mylib_program *program,
                                mylib_layout *layout, size_t room);
/* Returns the most temporary memory that mylib_cuda_enqueue() takes for `count` elements. */
size_t mylib_cuda_temporary_nbytes(const mylib_program *program, int64_t count, size_t room);

/* ---- Reductions (reduce.c) ---- */

/*
 * Enqueues the reduction of terms with an `op`, or of transposed ones, as mylib_cuda_reduce() does
 * for others, and sets the status.  Returns 0 if no kernel has that op for this layout.
 */
int mylib_cuda_try_reduce(int device, void *stream, mylib_reduction reduction,
                          const mylib_terms *terms, const mylib_layout *layout, int kept_ndim,
                          mylib_type out_type, mylib_status *st_ret);

/* Tells whether lanes take runs of terms, and earlier terms prevail: complex minima and maxima. */
static inline int mylib_is_in_order(int reduction, int carrier)
{
    return carrier >= MYLIB_C64 && reduction >= MYLIB_MIN;
}

/*
 * Does what mylib_cuda_reduce() does for terms of one input, without an op: MYLIB_FEW_TERMS or
 * less, or any number that mylib_is_in_order() (reduce_few.c).
 */
#define MYLIB_FEW_TERMS 16
mylib_status mylib_cuda_reduce_few(int device, void *stream, mylib_reduction reduction,
                                   const mylib_terms *terms, const mylib_layout *layout,
                                   int kept_ndim, mylib_type out_type, const char *const *names);

/*
 * Combines the results of 'parts' aligned groups of 2^k blocks each.  'partial' has the first part
 * of all outputs, then the second, ..., of type mylib_carrying_type(MYLIB_SUM, carrier).  The
 * outputs are operand 0 of the layout, GPU memory of type out_type.
 */
mylib_status mylib_cuda_reduce_parts(int device, void *stream, mylib_reduction reduction,
                                     mylib_type carrier, int64_t parts, void *partial,
                                     const mylib_layout *out, mylib_type out_type);

/* ---- Kernels (*.cu) ---- */

/* Converts operand k, in host memory, to a constant, padded with zeros. */
static inline void mylib_read_constant(const mylib_statement *s, int k, const void *value,
                                       unsigned char constant[16])
{
    memset(constant, 0, 16);
    mylib_cpu()->convert(mylib_read_type(s, k), (mylib_type)s->operand[k].type, 1, (char *)constant,
                         0, (const char *)value, 0);
}

/* The kinds of operands of mylib_launch_contiguous(). */
enum {
    MYLIB_CONTIGUOUS_VECTOR,           /* rows of vectors, of the computed type */
    MYLIB_CONTIGUOUS_SINGLE,           /* one element of that type for each row */
    MYLIB_CONTIGUOUS_CONSTANT,         /* constant[] has a vector of one value; also: no operand */
    MYLIB_CONTIGUOUS_CONVERTED_VECTOR, /* rows of vectors of another type */
    MYLIB_CONTIGUOUS_CONVERTED_SINGLE,
};

/* Unaligned operands have elements of at least this size. */
#define MYLIB_CONTIGUOUS_ELEMENT_MIN 4

/*
 * A single operation, selection or copy over rows of whole vectors.  A vector has 16 bytes in the
 * computed type; in each operand it is aligned to its size there, but at most to 16 bytes.  Strides
 * lead from row to row.  If row_vectors is 0, all n elements are one row, whose last vector may be
 * incomplete.  A single row may also be read and written element by element: it needs only the
 * alignment of its elements.
 */
typedef struct mylib_contiguous_args {
    int64_t n;
    char *out;
    const char *in[2];
    int64_t out_stride, stride[2];
    int32_t row_vectors;
    /*
     * Set by the launch: thread blocks whose threads all take vectors, and vectors after these; for
     * the other threads the element of the very first thread, the distance to that of the next
     * block, and how many elements a thread takes.
     */
    uint32_t full_blocks, last_vectors;
    int64_t first_element, block_elements;
    int32_t elements;
    mylib_divider row_divider;
    uint8_t computed_type, result_type, opcode;
    uint8_t kind[2], type[2];
    uint8_t shift[2]; /* log2 of the size of an element */
    uint8_t has_conversions, is_by_elements;
    const char *condition; /* of a selection: bools, like a VECTOR; else NULL */
    int64_t condition_stride;
    MYLIB_ALIGNAS(16) unsigned char constant[2][16];
} mylib_contiguous_args;

/* Fills the arguments for a statement of mylib_cuda_launch(), if the kernel can run it. */
int mylib_contiguous_init(mylib_contiguous_args *args, const mylib_statement *s,
                          const mylib_layout *layout);
cudaError_t mylib_launch_contiguous(mylib_contiguous_args *args, cudaStream_t stream);
/* Tells whether the kernel of `type` reads inputs of input_type: the same, or one not too wide. */
int mylib_contiguous_reads(mylib_type type, mylib_type input_type);

/* A function of contiguous elements (is_aligned: to 16 bytes), single ones or constants. */
typedef struct mylib_function_args {
    int64_t n;
    char *out;
    const char *in[2]; /* NULL: a constant */
    uint8_t is_single[2];
    uint8_t opcode, type, inputs, is_aligned;
    MYLIB_ALIGNAS(16) unsigned char constant[2][16];
} mylib_function_args;
cudaError_t mylib_launch_function(const mylib_function_args *args, cudaStream_t stream);

/* The results of a function for all bit patterns of an f16. */
#define MYLIB_TABLE_NBYTES (2 << 16)
/* Returns the thread blocks that keep such a table in the current device; 0 if it has no room. */
int mylib_tabled_blocks(void);
/* Computes the function whose table is in[1]. */
cudaError_t mylib_launch_tabled(const mylib_function_args *args, int blocks, cudaStream_t stream);

/* Floating-point exceptions to report. */
enum { MYLIB_FLAG_INVALID = 1, MYLIB_FLAG_DIVBYZERO = 2, MYLIB_FLAG_OVERFLOW = 4 };

/* An operation that has run: n results, and contiguous or constant operands. */
typedef struct mylib_flags_args {
    int64_t n;
    const void *out;
    const void *in[2]; /* operands; NULL: a constant, as mylib_read_constant() makes it */
    uint8_t opcode, type, result_type, operands;
    uint8_t input_type[2];
    MYLIB_ALIGNAS(16) unsigned char constant[2][16];
} mylib_flags_args;

/* Sets MYLIB_FLAG_* in *flags, which the GPU can write, from the operands and results. */
cudaError_t mylib_launch_flags(const mylib_flags_args *args, unsigned *flags, cudaStream_t stream);
cudaError_t mylib_launch_copies(const mylib_copies *copies, cudaStream_t stream);
cudaError_t mylib_launch_arange(mylib_type type, int64_t n, char *out, int64_t stride,
                                const void *start, const void *step, cudaStream_t stream);
cudaError_t mylib_launch_strided(const mylib_strided_args *args, cudaStream_t stream);

/* The kinds of reduction kernels; see reduce.cu. */
enum {
    MYLIB_REDUCE_SHORT,
    MYLIB_REDUCE_TILES, /* pieces of memory in any layout */
    MYLIB_REDUCE_INTEGERS,
    MYLIB_REDUCE_ROWS,
    MYLIB_REDUCE_LANES,
    MYLIB_REDUCE_COLUMNS,
    MYLIB_REDUCE_TRANSPOSED,
    MYLIB_REDUCE_PARTS, /* combines the partial results of another kernel */
};

#define MYLIB_NOT_NARROWED 255

#define MYLIB_LEAST_RUN 512         /* terms side by side, in rows of several reduced dimensions */
#define MYLIB_EXACT_TERMS 32768     /* narrow integers whose sum fits 32 bits */
#define MYLIB_SHORT_WORDS 16        /* of integers, for a thread that reduces a short row */
#define MYLIB_TRANSPOSED_NBYTES 128 /* of a row of terms, for a thread block */
#define MYLIB_SHORT_TILE (32 << 10) /* bytes of a thread block's rows, with the gaps between them */

/*
 * How the terms of an input lie: the strides of columns, rows and planes, which are the reduced
 * dimensions from the innermost on; the bytes from a lane's term to its next one, which is `right`
 * columns, `down` rows and some planes further; and what the end of a row or a plane adds to that.
 */
typedef struct mylib_reduce_walk {
    int64_t stride[MYLIB_REDUCED_NDIM];
    int64_t step, end_of_row, end_of_plane;
} mylib_reduce_walk;

/*
 * Short, tiles: pieces along a kept dimension, and how a piece lies in shared memory: term t of an
 * output is stride t + end_of_row (t / columns) bytes after the first.  A quotient is the upper
 * half of the product with a factor.
 */
typedef struct mylib_reduce_tile {
    int64_t pieces, apart, out_apart;
    int32_t nbytes, pitch; /* of a piece: in memory, to the next one in shared memory */
    int32_t outputs, output_stride;
    int64_t out_stride; /* of a piece's outputs */
    int32_t stride, end_of_row;
    uint32_t outputs_factor, columns_factor;
} mylib_reduce_tile;

/* One launch of a reduction.  The kept dimensions come first, the reduced ones are in C order. */
typedef struct mylib_reduce_args {
    int32_t reduction, way, inputs;
    int32_t carrier;  /* i64, u64, f32, f64, c64 or c128 */
    int32_t computed; /* the carrier; i64 in the kernels for integers */
    int32_t out_type, out_size;
    int32_t input_type[2], input_size[2], is_stored_as_carrier[2];
    int32_t narrow[2]; /* the type to which inputs are narrowed before they widen to carrier */
    int32_t op;        /* rows, short: of mylib_terms */
    int32_t kept_ndim, ndim;
    int32_t is_out_dense;           /* the outputs are contiguous */
    int32_t is_aligned;             /* rows: to 16 bytes, and contiguous */
    int32_t is_by_warp;             /* rows; lanes: a warp takes a block of terms */
    int32_t has_warp_per_output;    /* rows, lanes, integers */
    int32_t is_across;              /* integers: adjacent outputs; else runs of terms */
    uint64_t flip, mask;            /* integers: see reduce_integers.cuh */
    int32_t is_truth;               /* the output tells whether the result differs from 0 */
    int32_t tile_rows;              /* short: of a thread block */
    int32_t tiles;                  /* short: along the innermost dimension; of a row of outputs; */
                                    /* transposed: of runs */
    int64_t row_outputs;            /* columns, integers across: in a row, which begins a tile */
    int32_t gap;                    /* short: bytes between rows in shared memory; see row_factor */
    uint32_t row_factor;            /* short: row of a vector = its number * row_factor >> 20 */
    int32_t width;                  /* columns: outputs of a thread, in 16 bytes, or 1 */
    int32_t is_spaced;              /* columns, integers: outputs, or terms, are not adjacent */
    int32_t lane_bits, share_bits;  /* columns: 2^share_bits threads walk 2^lane_bits lanes; */
                                    /* short: 2^lane_bits threads reduce a row */
    int32_t width_bits;             /* 2^width_bits outputs, or vectors of them, side by side */
    int32_t cluster_bits;           /* lanes: log2 of the thread blocks of a cluster, or 0 */
    int64_t grid, grid_rows;        /* thread blocks */
    int64_t outputs, terms, blocks; /* terms and blocks of one output */
    /* The sizes of the two innermost reduced dimensions, and at most INT32_MAX. */
    int64_t columns, rows;
    int32_t row_width, plane_height;
    int32_t right, down; /* see mylib_reduce_walk */
    mylib_reduce_walk walk[2];
    mylib_reduce_tile tile;
    int64_t parts_of_run; /* integers */
    /* transposed: the terms of a run, its windows, and what numbers the terms before the first */
    int64_t run, windows, lead_terms, lead_nbytes;
    int32_t is_run_linear, shares; /* transposed: a run is one dimension; shares of its windows */
    int64_t group; /* blocks, parts, windows or integers that one warp or block takes */
    int64_t parts; /* partial results of one output */
    const char *in[2];
    char *out;
    char *partial;
    int64_t shape[MYLIB_MAX_NDIM];
    int64_t in_strides[2][MYLIB_MAX_NDIM];
    int64_t out_strides[MYLIB_MAX_NDIM];
} mylib_reduce_args;

cudaError_t mylib_launch_reduce(const mylib_reduce_args *args, cudaStream_t stream);

#define MYLIB_MAX_CLUSTER 8 /* thread blocks; not every GPU supports more */
/* Gives the maximum thread blocks of a cluster on the current device; 1 without clusters. */
cudaError_t mylib_reduce_max_cluster(int *blocks_ret);

/*
 * Results that the host polls for are words of 8 bytes in pinned memory: 4 bytes of the value, and
 * a mark above them.  One store writes both, so whoever sees the mark sees the value, without a
 * fence.
 */
#define MYLIB_MARK ((uint64_t)1 << 32)

typedef struct mylib_fetch_args {
    const char *from;
    uint64_t *to;
    int32_t nbytes;
} mylib_fetch_args;
#define MYLIB_FETCHED_NBYTES 1024 /* the most: a word for each thread */

cudaError_t mylib_launch_fetch(const mylib_fetch_args *args, cudaStream_t stream);

typedef struct mylib_scalar_result {
    MYLIB_ALIGNAS(16) unsigned char value[16];
    int32_t status;
} mylib_scalar_result;
#define MYLIB_SCALAR_WORDS 5

typedef struct mylib_scalar_args {
    unsigned char a[16], b[16];
    int32_t op, type;
    uint64_t *result; /* words for the host */
} mylib_scalar_args;

cudaError_t mylib_launch_scalar(const mylib_scalar_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
