/*
 * launch.c - work on GPU memory: turns layouts into kernel arguments; sums and scalars.
 */
#include <pthread.h>
#include <string.h>

#include "cuda_internal.h"

/* ---- Programs over GPU memory -------------------------------------------------------------- */

/* MYLIB_ERR_ARGUMENT for memory that a kernel could not touch without breaking the CUDA context. */
static mylib_status check_memory(int device, const char *name, const void *data, mylib_type type,
                                 int ndim, const int64_t *strides)
{
    struct cudaPointerAttributes attributes;
    size_t size = mylib_type_size(type);
    uintptr_t bits = (uintptr_t)data;
    mylib_status st;

    CUDA_TRY(cudaPointerGetAttributes(&attributes, data));
    if (attributes.type == cudaMemoryTypeUnregistered)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%s is said to be on cuda:%d, but %p is ordinary host memory", name,
                          device, data);
    for (int d = 0; d < ndim; d++)
        bits |= (uintptr_t)strides[d];
    if (bits % size != 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%s is not aligned to its elements of %zu bytes: copy it first", name,
                          size);
out:
    return st;
}

static mylib_status check_operands(int device, const mylib_program *program,
                                   const mylib_layout *layout)
{
    static const char *const names[MYLIB_MAX_OPERANDS] = {
        "out", "in[0]", "in[1]", "in[2]", "in[3]", "in[4]", "in[5]", "in[6]", "in[7]"};
    mylib_status st = MYLIB_OK;
    for (int k = 0; k < layout->operands && st == MYLIB_OK; k++)
        st = check_memory(device, names[k], layout->data[k],
                          (mylib_type)(k == 0 ? program->result_type : program->type), layout->ndim,
                          layout->strides[k]);
    return st;
}

static int is_flat(const mylib_program *program, const mylib_layout *layout)
{
    if (layout->ndim != 1 || layout->strides[0][0] != (int64_t)mylib_operand_size(program, 0))
        return layout->count == 1;
    for (int k = 1; k < layout->operands; k++)
        if (layout->strides[k][0] != 0 &&
            layout->strides[k][0] != (int64_t)mylib_operand_size(program, k))
            return 0;
    return 1;
}

static cudaError_t launch_flat(const mylib_program *program, const mylib_layout *layout,
                               void *stream)
{
    mylib_flat_args args;
    args.n = layout->count;
    args.program = *program;
    args.out = layout->data[0];
    args.out_is_aligned = (uintptr_t)layout->data[0] % 16 == 0;
    for (int k = 1; k < layout->operands; k++) {
        args.in[k - 1] = layout->data[k];
        args.read[k - 1] = layout->strides[k][0] == 0 || layout->count == 1 ? MYLIB_READ_UNIFORM
                           : (uintptr_t)layout->data[k] % 16 == 0           ? MYLIB_READ_VECTOR
                                                                            : MYLIB_READ_ELEMENT;
    }
    return mylib_launch_flat(&args, stream);
}

static mylib_divider divider_of(int64_t divisor)
{
    mylib_divider d = {0, 0};
    while (d.shift < 31 && ((int64_t)1 << d.shift) < divisor)
        d.shift++;
    uint64_t power = (uint64_t)1 << d.shift;
    d.multiplier =
        (uint32_t)((((uint64_t)1 << 32) * (power - (uint64_t)divisor)) / (uint64_t)divisor + 1);
    return d;
}

/* The innermost MYLIB_CUDA_MAX_NDIM dimensions at `data`. */
static cudaError_t launch_strided(const mylib_program *program, const mylib_layout *layout,
                                  char *const data[MYLIB_MAX_OPERANDS], void *stream)
{
    mylib_strided_args args;
    int outer = layout->ndim > MYLIB_CUDA_MAX_NDIM ? layout->ndim - MYLIB_CUDA_MAX_NDIM : 0;
    int is_small;
    args.n = 1;
    args.ndim = layout->ndim - outer;
    args.operands = layout->operands;
    args.program = *program;
    for (int d = 0; d < args.ndim; d++)
        args.n *= args.shape[d] = layout->shape[outer + d];
    is_small = args.n < INT32_MAX - 4096;
    for (int k = 0; k < layout->operands; k++) {
        int64_t reach = 0;
        args.data[k] = data[k];
        for (int d = 0; d < args.ndim; d++) {
            int64_t stride = args.strides[d][k] = layout->strides[k][outer + d];
            reach += (stride < 0 ? -stride : stride) * (args.shape[d] - 1);
        }
        is_small = is_small && reach < INT32_MAX;
    }
    for (int d = 0; d < args.ndim && is_small; d++)
        args.divider[d] = divider_of(args.shape[d]);
    return mylib_launch_strided(&args, is_small, stream);
}

mylib_status mylib_cuda_map(int device, void *stream, const mylib_program *program,
                            mylib_layout *layout)
{
    int previous;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (layout->count == 0)
        goto out;
    MYLIB_TRY(check_operands(device, program, layout));
    if (is_flat(program, layout)) {
        CUDA_TRY(launch_flat(program, layout, stream));
        goto out;
    }

    /*
     * The dimensions that a kernel does not take are walked here; after simplifying there are
     * hardly any.
     */
    int outer = layout->ndim > MYLIB_CUDA_MAX_NDIM ? layout->ndim - MYLIB_CUDA_MAX_NDIM : 0;
    int64_t index[MYLIB_MAX_NDIM] = {0};
    char *data[MYLIB_MAX_OPERANDS];
    memcpy(data, layout->data, sizeof data);
    for (int d = 0; d >= 0;) {
        CUDA_TRY(launch_strided(program, layout, data, stream));
        for (d = outer - 1; d >= 0; d--) {
            int wraps = ++index[d] == layout->shape[d];
            for (int k = 0; k < layout->operands; k++)
                data[k] += layout->strides[k][d] * (wraps ? 1 - layout->shape[d] : 1);
            if (!wraps)
                break;
            index[d] = 0;
        }
    }
out:
    mylib_cuda_leave(previous);
    return st;
}

/* ---- Sums ---------------------------------------------------------------------------------- */

mylib_status mylib_cuda_sum(int device, void *stream, mylib_type type, int64_t n, const char *a,
                            int64_t a_stride, int in_host_memory, void *sum)
{
    int previous;
    size_t size = mylib_type_size(type),
           blocks = (size_t)((n + MYLIB_SUM_BLOCK - 1) / MYLIB_SUM_BLOCK);
    size_t packed_nbytes = 0;
    size_t sum_nbytes = mylib_sum_nbytes(type);
    char *work = NULL, *packed = NULL;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (n == 0) {
        memset(sum, 0, sum_nbytes);
        goto out;
    }
    if (!in_host_memory)
        MYLIB_TRY(check_memory(device, "matrix", a, type, 1, &a_stride));
    if (in_host_memory) {
        mylib_device cpu = {MYLIB_CPU, 0};
        packed_nbytes = ((size_t)n * size + 255) / 256 * 256;
        MYLIB_TRY(mylib_alloc(cpu, packed_nbytes, NULL, (void **)&packed));
        mylib_copy_strided(size, n, packed, (int64_t)size, a, a_stride);
    }
    /* The terms if they come from the host, the partial sums, the result. */
    MYLIB_TRY(mylib_cuda_alloc(device, packed_nbytes + (blocks + 1) * sizeof(t_c128), stream,
                               (void **)&work));
    if (in_host_memory) {
        CUDA_TRY(cudaMemcpyAsync(work, packed, (size_t)n * size, cudaMemcpyHostToDevice, stream));
        a = work;
        a_stride = (int64_t)size;
    }
    char *result = work + packed_nbytes, *partial = result + sizeof(t_c128);
    CUDA_TRY(mylib_launch_sum(type, n, a, a_stride, partial, result, stream));
    CUDA_TRY(cudaMemcpyAsync(sum, result, sum_nbytes, cudaMemcpyDeviceToHost, stream));
    CUDA_TRY(cudaStreamSynchronize(stream));
out:
    if (work != NULL)
        (void)mylib_cuda_free(device, work, stream);
    if (packed != NULL)
        (void)mylib_free((mylib_device){MYLIB_CPU, 0}, packed, NULL);
    mylib_cuda_leave(previous);
    return st;
}

/* ---- Scalars ------------------------------------------------------------------------------- */

/* One result that host and GPU both see, and the stream that fills it; made at the first use. */
static pthread_mutex_t scalar_lock = PTHREAD_MUTEX_INITIALIZER;
static mylib_scalar_result *scalar_result;

mylib_status mylib_cuda_scalar(int device, mylib_op op, mylib_type type, const void *a,
                               const void *b, void *result)
{
    int previous;
    size_t size = mylib_type_size(type);
    mylib_scalar_args args;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    pthread_mutex_lock(&scalar_lock);
    if (scalar_result == NULL)
        CUDA_TRY(cudaHostAlloc((void **)&scalar_result, sizeof *scalar_result,
                               cudaHostAllocPortable | cudaHostAllocMapped));
    memcpy(args.a, a, size);
    memcpy(args.b, b, size);
    args.op = (int32_t)op;
    args.type = (int32_t)type;
    args.result = scalar_result;
    CUDA_TRY(mylib_launch_scalar(&args, cudaStreamPerThread));
    CUDA_TRY(cudaStreamSynchronize(cudaStreamPerThread));
    st = (mylib_status)scalar_result->status;
    if (st == MYLIB_OK)
        memcpy(result, scalar_result->value, size);
out:
    pthread_mutex_unlock(&scalar_lock);
    mylib_cuda_leave(previous);
    return st;
}
