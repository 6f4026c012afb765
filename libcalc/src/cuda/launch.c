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

static int is_flat(const mylib_code *program, const mylib_layout *layout)
{
    if (layout->ndim != 1 || layout->strides[0][0] != (int64_t)mylib_operand_size(program, 0))
        return layout->count == 1;
    for (int k = 1; k < layout->operands; k++)
        if (layout->strides[k][0] != 0 &&
            layout->strides[k][0] != (int64_t)mylib_operand_size(program, k))
            return 0;
    return 1;
}

void mylib_take_constant(const mylib_code *program, int k, const void *value,
                         unsigned char constant[16])
{
    memset(constant, 0, 16);
    mylib_cpu()->convert(mylib_operand_read_type(program, 1 + k),
                         (mylib_type)program->input_type[k], 1, (char *)constant, 0, value, 0);
}

/* Whether the rows of an operand are `nbytes` to a vector, and aligned to them. */
static int has_vectors(const mylib_layout *layout, int k, size_t size, size_t nbytes)
{
    int inner = layout->ndim - 1;
    uintptr_t bits = (uintptr_t)layout->data[k];
    if (inner > 0)
        bits |= (uintptr_t)layout->strides[k][0];
    return bits % nbytes == 0 && layout->strides[k][inner] == (int64_t)size;
}

/* Whether the program and the layout suit mylib_launch_direct(), and its arguments. */
static int plan_direct(const mylib_code *p, const mylib_layout *layout, mylib_direct_args *args)
{
    size_t size = mylib_type_size((mylib_type)p->type), out_size = mylib_operand_size(p, 0);
    int64_t vector = 16 / (int64_t)size;
    int inner = layout->ndim - 1;
    if (p->instructions > 2 || p->inputs > 2 || p->code[0].opcode != MYLIB_OPCODE_LOAD ||
        p->code[0].operand != 0 ||
        (p->instructions == 2 && (p->code[1].opcode == MYLIB_OPCODE_SELECT ||
                                  (p->inputs == 2) != (p->code[1].operand == 1))))
        return 0;
    if (layout->ndim > 2 ||
        (layout->count != 1 && !has_vectors(layout, 0, out_size, (size_t)vector * out_size)) ||
        (uintptr_t)layout->data[0] % ((size_t)vector * out_size) != 0)
        return 0;
    memset(args, 0, sizeof *args);
    args->n = layout->count;
    args->out = layout->data[0];
    args->computed_type = p->type;
    args->result_type = p->result_type;
    args->opcode = p->instructions == 2 ? p->code[1].opcode : MYLIB_OPCODE_NONE;
    if (layout->ndim == 2) {
        int64_t row_vectors = layout->shape[1] / vector;
        if (layout->shape[1] % vector != 0 || layout->shape[0] * row_vectors > INT32_MAX)
            return 0;
        args->row_vectors = (int32_t)row_vectors;
        args->row_divider = mylib_divider_of((int32_t)row_vectors);
        args->out_stride = layout->strides[0][0];
    }
    args->kind[0] = args->kind[1] = MYLIB_DIRECT_CONSTANT;
    for (int k = 0; k < p->inputs; k++) {
        size_t input_size = mylib_operand_size(p, 1 + k);
        if (layout->is_host_scalar[1 + k]) {
            mylib_take_constant(p, k, layout->data[1 + k], args->constant[k]);
            for (size_t at = size; at < 16; at += size)
                memcpy(args->constant[k] + at, args->constant[k], size);
            continue;
        }
        int is_single = layout->count == 1 || layout->strides[1 + k][inner] == 0;
        int is_converted = p->input_type[k] != p->type;
        if (!is_single && (!mylib_direct_takes((mylib_type)p->type, (mylib_type)p->input_type[k]) ||
                           !has_vectors(layout, 1 + k, input_size, (size_t)vector * input_size)))
            return 0;
        args->in[k] = layout->data[1 + k];
        args->type[k] = p->input_type[k];
        args->kind[k] = is_converted ? (is_single ? MYLIB_DIRECT_CONVERTED_SINGLE
                                                  : MYLIB_DIRECT_CONVERTED_VECTOR)
                                     : (is_single ? MYLIB_DIRECT_SINGLE : MYLIB_DIRECT_VECTOR);
        args->has_conversions |= is_converted;
        args->shift[k] = (uint8_t)__builtin_ctz((unsigned)input_size);
        args->stride[k] = layout->ndim == 2 ? layout->strides[1 + k][0] : 0;
    }
    return 1;
}

static cudaError_t launch_flat(const mylib_code *program, const mylib_layout *layout, void *stream)
{
    mylib_flat_args args;
    args.n = layout->count;
    args.program = *program;
    args.out = layout->data[0];
    args.out_is_aligned = (uintptr_t)layout->data[0] % 16 == 0;
    for (int k = 1; k < layout->operands; k++) {
        if (layout->is_host_scalar[k]) {
            args.read[k - 1] = MYLIB_READ_CONSTANT;
            mylib_take_constant(program, k - 1, layout->data[k], args.constant[k - 1]);
            continue;
        }
        args.in[k - 1] = layout->data[k];
        args.read[k - 1] = layout->strides[k][0] == 0 || layout->count == 1 ? MYLIB_READ_UNIFORM
                           : (uintptr_t)layout->data[k] % 16 == 0           ? MYLIB_READ_VECTOR
                                                                            : MYLIB_READ_ELEMENT;
    }
    return mylib_launch_flat(&args, stream);
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

mylib_status mylib_cuda_map(int device, void *stream, const mylib_code *program,
                            mylib_layout *layout)
{
    int previous;
    mylib_direct_args direct;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (layout->count == 0)
        goto out;
    MYLIB_TRY(check_operands(device, program, layout));
    if (plan_direct(program, layout, &direct))
        CUDA_TRY(mylib_launch_direct(&direct, stream));
    else if (is_flat(program, layout))
        CUDA_TRY(launch_flat(program, layout, stream));
    else
        MYLIB_TRY(launch_strided(program, layout, stream));
out:
    mylib_cuda_leave(previous);
    return st;
}

mylib_status mylib_cuda_run(int device, void *stream, const mylib_program *program,
                            mylib_layout *layout)
{
    (void)device, (void)stream, (void)program, (void)layout;
    return mylib_fail(MYLIB_ERR_UNSUPPORTED, "programs do not run on a GPU yet");
}

mylib_status mylib_cuda_run_host(int device, const mylib_program *program, mylib_layout *layout)
{
    (void)device, (void)program, (void)layout;
    return mylib_fail(MYLIB_ERR_UNSUPPORTED, "programs do not run on a GPU yet");
}

mylib_status mylib_cuda_program_reduce(int device, void *stream, mylib_reduction reduction,
                                       const mylib_program *program, mylib_type type,
                                       mylib_layout *layout, int kept_ndim, mylib_type out_type)
{
    (void)device, (void)stream, (void)reduction, (void)program, (void)type, (void)layout;
    (void)kept_ndim, (void)out_type;
    return mylib_fail(MYLIB_ERR_UNSUPPORTED, "programs do not run on a GPU yet");
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
