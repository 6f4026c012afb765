/*
 * launch.c - work on GPU memory: turns layouts into kernel arguments; ranges and scalars.
 */
#include <pthread.h>
#include <string.h>

#include "cuda_internal.h"

/* ---- Programs over GPU memory -------------------------------------------------------------- */

mylib_status mylib_cuda_check_memory(int device, const char *name, const void *data,
                                     mylib_type type, int ndim, const int64_t *strides)
{
    struct cudaPointerAttributes attributes;
    size_t size = mylib_type_size(type);
    uintptr_t bits = (uintptr_t)data;
    mylib_status st = MYLIB_OK;

    /* Asking the driver takes longer than everything else that is done for a small array. */
    if (mylib_cuda_owner(data) != device) {
        CUDA_TRY(cudaPointerGetAttributes(&attributes, data));
        if (attributes.type == cudaMemoryTypeUnregistered)
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "%s is said to be on cuda:%d, but %p is ordinary host memory", name,
                              device, data);
        if (attributes.type == cudaMemoryTypeDevice && attributes.device != device)
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "%s is said to be on cuda:%d, but %p is on cuda:%d", name, device,
                              data, attributes.device);
    }
    for (int d = 0; d < ndim; d++)
        bits |= (uintptr_t)strides[d];
    if ((bits & (size - 1)) != 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%s is not aligned to its elements of %zu bytes: copy it first", name,
                          size);
out:
    return st;
}

static mylib_status check_operands(int device, const mylib_code *program,
                                   const mylib_layout *layout)
{
    mylib_status st = MYLIB_OK;
    for (int k = 0; k < layout->operands && st == MYLIB_OK; k++)
        if (!layout->is_host_scalar[k])
            st = mylib_cuda_check_memory(
                device, mylib_operand_names[k], layout->data[k],
                (mylib_type)(k == 0 ? program->result_type : program->input_type[k - 1]),
                layout->ndim, layout->strides[k]);
    return st;
}

void mylib_take_constant(const mylib_code *program, int k, const void *value,
                         unsigned char constant[16])
{
    memset(constant, 0, 16);
    mylib_cpu()->convert(mylib_operand_read_type(program, 1 + k),
                         (mylib_type)program->input_type[k], 1, (char *)constant, 0, value, 0);
}

/* Whether operand k is contiguous along the columns; without elements to go on to it is. */
static int is_contiguous(const mylib_layout *layout, int k, size_t size)
{
    return layout->count == 1 || layout->strides[k][layout->ndim - 1] == (int64_t)size;
}

/* Whether its vectors, `nbytes` each, are aligned. */
static int is_aligned(const mylib_layout *layout, int k, size_t nbytes)
{
    uintptr_t bits = (uintptr_t)layout->data[k];
    if (layout->ndim == 2)
        bits |= (uintptr_t)layout->strides[k][0];
    return bits % (nbytes < 16 ? nbytes : 16) == 0;
}

/* Operand `slot` of the operation is input `k`; whether it is one that the kernel reads. */
static int plan_direct_input(const mylib_code *p, const mylib_layout *layout, int64_t vector,
                             int slot, int k, mylib_direct_args *args)
{
    size_t size = mylib_type_size((mylib_type)p->type), input_size = mylib_operand_size(p, 1 + k);
    int is_converted = p->input_type[k] != p->type;
    if (layout->is_host_scalar[1 + k]) {
        mylib_take_constant(p, k, layout->data[1 + k], args->constant[slot]);
        for (size_t at = size; at < 16; at += size)
            memcpy(args->constant[slot] + at, args->constant[slot], size);
        return 1;
    }
    if (layout->count == 1 || layout->strides[1 + k][layout->ndim - 1] == 0)
        args->kind[slot] = is_converted ? MYLIB_DIRECT_CONVERTED_SINGLE : MYLIB_DIRECT_SINGLE;
    else if (!mylib_direct_takes((mylib_type)p->type, (mylib_type)p->input_type[k]) ||
             !is_contiguous(layout, 1 + k, input_size))
        return 0;
    else
        args->kind[slot] = is_converted ? MYLIB_DIRECT_CONVERTED_VECTOR : MYLIB_DIRECT_VECTOR;
    if (args->kind[slot] == MYLIB_DIRECT_VECTOR ||
        args->kind[slot] == MYLIB_DIRECT_CONVERTED_VECTOR)
        args->is_by_elements |= !is_aligned(layout, 1 + k, (size_t)vector * input_size);
    args->in[slot] = layout->data[1 + k];
    args->type[slot] = p->input_type[k];
    args->has_conversions |= is_converted;
    args->shift[slot] = (uint8_t)__builtin_ctz((unsigned)input_size);
    args->stride[slot] = layout->ndim == 2 ? layout->strides[1 + k][0] : 0;
    return 1;
}

/* Whether the program and the layout suit mylib_launch_direct(), and its arguments. */
static int plan_direct(const mylib_code *p, const mylib_layout *layout, mylib_direct_args *args)
{
    size_t size = mylib_type_size((mylib_type)p->type), out_size = mylib_operand_size(p, 0);
    int64_t vector = 16 / (int64_t)size;
    int first = p->code[0].opcode == MYLIB_OPCODE_MASK; /* the load */
    if (layout->ndim > 2 || p->instructions > first + 2 ||
        p->code[first].opcode != MYLIB_OPCODE_LOAD || !is_contiguous(layout, 0, out_size))
        return 0;
    memset(args, 0, sizeof *args);
    args->n = layout->count;
    args->out = layout->data[0];
    args->computed_type = p->type;
    args->result_type = p->result_type;
    args->opcode = MYLIB_OPCODE_NONE;
    args->kind[0] = args->kind[1] = MYLIB_DIRECT_CONSTANT;
    args->is_by_elements = !is_aligned(layout, 0, (size_t)vector * out_size);
    if (layout->ndim == 2) {
        int64_t row_vectors = layout->shape[1] / vector;
        if (layout->shape[1] % vector != 0 || layout->shape[0] * row_vectors > INT32_MAX)
            return 0;
        args->row_vectors = (int32_t)row_vectors;
        args->row_divider = mylib_divider_of((int32_t)row_vectors);
        args->out_stride = layout->strides[0][0];
    }
    if (first != 0) {
        int k = 1 + p->code[0].operand;
        if (p->input_type[k - 1] != MYLIB_BOOL || layout->is_host_scalar[k] ||
            !is_contiguous(layout, k, 1))
            return 0;
        args->is_by_elements |= !is_aligned(layout, k, (size_t)vector);
        args->condition = layout->data[k];
        args->condition_stride = layout->ndim == 2 ? layout->strides[k][0] : 0;
    }
    for (int i = first; i < p->instructions; i++) {
        int k = p->code[i].operand;
        if (i > first)
            args->opcode = p->code[i].opcode;
        if (k != MYLIB_NO_OPERAND && !plan_direct_input(p, layout, vector, i - first, k, args))
            return 0;
    }
    return !args->is_by_elements || (layout->ndim == 1 && size >= MYLIB_DIRECT_ELEMENT_MIN &&
                                     args->kind[0] != MYLIB_DIRECT_CONVERTED_VECTOR &&
                                     args->kind[1] != MYLIB_DIRECT_CONVERTED_VECTOR);
}

/* The first dimension that has more than one index. */
static int outermost(const mylib_layout *layout)
{
    int d = 0;
    while (d < layout->ndim - 1 && layout->shape[d] == 1)
        d++;
    return d;
}

/*
 * Halves the outermost dimension until a launch can take what is left; the layout is restored.
 * After simplifying, only huge arrays and hardly any others need it.
 */
static mylib_status launch_strided(const mylib_code *program, mylib_layout *layout, void *stream)
{
    int outer = outermost(layout);
    mylib_status st = MYLIB_OK;
    if (layout->ndim - outer > MYLIB_PLAN_MAX_NDIM || layout->count > MYLIB_PLAN_MAX_COUNT) {
        int64_t size = layout->shape[outer], count = layout->count, done = 0;
        while (done < size && st == MYLIB_OK) {
            layout->shape[outer] = done == 0 ? (size + 1) / 2 : size - done;
            layout->count = count / size * layout->shape[outer];
            st = launch_strided(program, layout, stream);
            for (int k = 0; k < layout->operands; k++)
                layout->data[k] += layout->strides[k][outer] * layout->shape[outer];
            done += layout->shape[outer];
        }
        for (int k = 0; k < layout->operands; k++)
            layout->data[k] -= layout->strides[k][outer] * done;
        layout->shape[outer] = size;
        layout->count = count;
        return st;
    }
    mylib_plan plan;
    mylib_plan_init(&plan, program, layout);
    for (int k = 1; k < layout->operands; k++)
        if (layout->is_host_scalar[k])
            mylib_take_constant(program, k - 1, layout->data[k], plan.constant[k - 1]);
    CUDA_TRY(mylib_launch_strided(&plan, stream));
out:
    return st;
}

mylib_status mylib_cuda_launch(const mylib_code *program, mylib_layout *layout, void *stream)
{
    mylib_direct_args direct;
    mylib_status st = MYLIB_OK;
    if (!plan_direct(program, layout, &direct))
        return launch_strided(program, layout, stream);
    CUDA_TRY(mylib_launch_direct(&direct, stream));
out:
    return st;
}

mylib_status mylib_cuda_map(int device, void *stream, const mylib_code *program,
                            mylib_layout *layout)
{
    int previous;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (layout->count == 0)
        goto out;
    MYLIB_TRY(check_operands(device, program, layout));
    st = mylib_cuda_launch(program, layout, stream);
out:
    mylib_cuda_leave(previous);
    return st;
}

/* ---- Ranges -------------------------------------------------------------------------------- */

mylib_status mylib_cuda_arange(int device, void *stream, mylib_type type, int64_t n, char *out,
                               int64_t stride, const void *start, const void *step)
{
    int previous;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    MYLIB_TRY(mylib_cuda_check_memory(device, "out", out, type, 1, &stride));
    CUDA_TRY(mylib_launch_arange(type, n, out, stride, start, step, stream));
out:
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
    mylib_code program;
    mylib_status st = mylib_code_of_op(&program, op, type);
    if (st == MYLIB_OK)
        st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    pthread_mutex_lock(&scalar_lock);
    if (scalar_result == NULL)
        CUDA_TRY(cudaHostAlloc((void **)&scalar_result, sizeof *scalar_result,
                               cudaHostAllocPortable | cudaHostAllocMapped));
    memcpy(args.a, program.code[0].operand == 0 ? a : b, size);
    memcpy(args.b, program.code[0].operand == 0 ? b : a, size);
    args.op = program.code[1].opcode;
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
