/*
 * emulated.c - GPUs that are not there: the CUDA backend's functions over host memory, computed by
 * the CPU.  For tests, on machines without a GPU, of all that is built on the library: places,
 * lifetimes, streams, several devices, memory that runs out.  Never part of a release: CMake's
 * MYLIB_EMULATED_GPUS, 0 unless given, says how many there are.
 *
 * "GPU" memory is kept in a list, so that host memory which is passed for it is found out.  Streams
 * have nothing to wait for.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../internal.h"

#define TOTAL_NBYTES ((uint64_t)1 << 30) /* of each GPU */

typedef struct block {
    struct block *next;
    int device;
    size_t nbytes;
    _Alignas(256) char data[];
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static uint64_t used_nbytes[MYLIB_EMULATED_GPUS], limit_nbytes[MYLIB_EMULATED_GPUS];

/* ---- Devices ------------------------------------------------------------------------------- */

static mylib_status check_index(int device)
{
    if (device >= 0 && device < MYLIB_EMULATED_GPUS)
        return MYLIB_OK;
    return mylib_fail(MYLIB_ERR_NO_DEVICE, "there is no cuda:%d: %d GPUs are emulated", device,
                      MYLIB_EMULATED_GPUS);
}

mylib_status mylib_cuda_device_count(int *count_ret)
{
    if (count_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "count_ret is NULL");
    *count_ret = MYLIB_EMULATED_GPUS;
    return MYLIB_OK;
}

mylib_status mylib_cuda_device_info(int index, mylib_device_info *info_ret)
{
    mylib_status st = check_index(index);
    if (st != MYLIB_OK)
        return st;
    if (info_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "info_ret is NULL");
    memset(info_ret, 0, sizeof *info_ret);
    snprintf(info_ret->name, sizeof info_ret->name, "emulated GPU");
    info_ret->multiprocessors = 1;
    info_ret->total_nbytes = TOTAL_NBYTES;
    pthread_mutex_lock(&lock);
    info_ret->free_nbytes = TOTAL_NBYTES - used_nbytes[index];
    pthread_mutex_unlock(&lock);
    return MYLIB_OK;
}

/* ---- Memory -------------------------------------------------------------------------------- */

/* The block that holds an address; the caller has the lock. */
static const block *find_block(const void *ptr)
{
    for (const block *b = blocks; b != NULL; b = b->next)
        if ((const char *)ptr >= b->data && (const char *)ptr < b->data + b->nbytes)
            return b;
    return NULL;
}

mylib_status mylib_pointer_device(const void *ptr, mylib_device *device_ret)
{
    if (device_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "device_ret is NULL");
    pthread_mutex_lock(&lock);
    const block *b = find_block(ptr);
    *device_ret = b != NULL ? (mylib_device){MYLIB_CUDA, b->device} : (mylib_device){MYLIB_CPU, 0};
    pthread_mutex_unlock(&lock);
    return MYLIB_OK;
}

mylib_status mylib_cuda_alloc(int device, size_t nbytes, void *stream, void **ptr_ret)
{
    mylib_status st = check_index(device);
    (void)stream;
    if (st != MYLIB_OK)
        return st;
    pthread_mutex_lock(&lock);
    uint64_t limit = limit_nbytes[device] != 0 ? limit_nbytes[device] : UINT64_MAX;
    uint64_t free_nbytes = TOTAL_NBYTES - used_nbytes[device];
    size_t room = (nbytes + 256) / 256 * 256; /* of at least one byte */
    block *b = NULL;
    if (room <= free_nbytes && used_nbytes[device] + room <= limit &&
        posix_memalign((void **)&b, 256, sizeof *b + room) == 0) {
        b->next = blocks;
        b->device = device;
        b->nbytes = room;
        memset(b->data, 0xa5, room);
        blocks = b;
        used_nbytes[device] += room;
        *ptr_ret = b->data;
    } else {
        st = mylib_fail(MYLIB_ERR_NO_MEMORY,
                        "could not allocate %zu bytes on cuda:%d: %llu of its %llu bytes are free",
                        nbytes, device, (unsigned long long)free_nbytes,
                        (unsigned long long)TOTAL_NBYTES);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

mylib_status mylib_cuda_free(int device, void *ptr, void *stream)
{
    mylib_status st = check_index(device);
    (void)stream;
    if (st != MYLIB_OK)
        return st;
    pthread_mutex_lock(&lock);
    block **link = &blocks;
    while (*link != NULL && (*link)->data != (char *)ptr)
        link = &(*link)->next;
    block *b = *link;
    if (b != NULL) {
        *link = b->next;
        used_nbytes[b->device] -= b->nbytes;
        free(b);
    } else {
        st = mylib_fail(MYLIB_ERR_ARGUMENT, "%p was not allocated on cuda:%d", ptr, device);
    }
    pthread_mutex_unlock(&lock);
    return st;
}

mylib_status mylib_alloc_pinned(size_t nbytes, void **ptr_ret)
{
    if (ptr_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "ptr_ret is NULL");
    return mylib_alloc((mylib_device){MYLIB_CPU, 0}, nbytes, NULL, ptr_ret);
}

mylib_status mylib_free_pinned(void *ptr)
{
    return mylib_free((mylib_device){MYLIB_CPU, 0}, ptr, NULL);
}

mylib_status mylib_free_cached(void) { return MYLIB_OK; }

mylib_status mylib_cuda_memory_info(int index, mylib_memory_info *info_ret)
{
    mylib_status st = check_index(index);
    if (st != MYLIB_OK)
        return st;
    if (info_ret == NULL)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "info_ret is NULL");
    pthread_mutex_lock(&lock);
    info_ret->used_nbytes = info_ret->held_nbytes = used_nbytes[index];
    info_ret->limit_nbytes = limit_nbytes[index] != 0 ? limit_nbytes[index] : UINT64_MAX;
    info_ret->free_nbytes = TOTAL_NBYTES - used_nbytes[index];
    info_ret->total_nbytes = TOTAL_NBYTES;
    pthread_mutex_unlock(&lock);
    return MYLIB_OK;
}

mylib_status mylib_cuda_set_memory_limit(int index, uint64_t nbytes)
{
    mylib_status st = check_index(index);
    if (st != MYLIB_OK)
        return st;
    pthread_mutex_lock(&lock);
    limit_nbytes[index] = nbytes;
    pthread_mutex_unlock(&lock);
    return MYLIB_OK;
}

/* ---- Streams ------------------------------------------------------------------------------- */

mylib_status mylib_stream_create(mylib_device device, void **stream_ret)
{
    mylib_status st = check_index(device.index);
    if (st == MYLIB_OK)
        st = mylib_alloc((mylib_device){MYLIB_CPU, 0}, 1, NULL, stream_ret);
    return st;
}

mylib_status mylib_stream_destroy(mylib_device device, void *stream)
{
    (void)device;
    return mylib_free((mylib_device){MYLIB_CPU, 0}, stream, NULL);
}

mylib_status mylib_stream_wait(mylib_device device, void *stream, mylib_device other_device,
                               void *other)
{
    mylib_status st = check_index(device.index);
    (void)stream, (void)other;
    return st != MYLIB_OK ? st : check_index(other_device.index);
}

mylib_status mylib_cuda_synchronize(int device, void *stream)
{
    (void)stream;
    return check_index(device);
}

/* ---- Copies -------------------------------------------------------------------------------- */

mylib_status mylib_cuda_copy(mylib_device dst_device, void *dst, mylib_device src_device,
                             const void *src, size_t nbytes, void *stream)
{
    (void)dst_device, (void)src_device, (void)stream;
    memcpy(dst, src, nbytes);
    return MYLIB_OK;
}

mylib_status mylib_cuda_copy_host(int device, void *stream, const mylib_layout *layout,
                                  mylib_type dst_type, mylib_type src_type, int dst_is_host)
{
    mylib_operation operation;
    (void)device, (void)stream, (void)dst_is_host;
    if (layout->count == 0)
        return MYLIB_OK;
    mylib_operation_of_conversion(&operation, dst_type, src_type);
    return mylib_cpu_execute(&operation.program, layout);
}

/* ---- Computing ----------------------------------------------------------------------------- */

/* MYLIB_ERR_ARGUMENT for an operand in host memory: a GPU could not touch it. */
static mylib_status check_operands(int device, const mylib_layout *layout)
{
    for (int k = 0; k < layout->operands; k++) {
        mylib_device where;
        mylib_status st = mylib_pointer_device(layout->data[k], &where);
        if (st != MYLIB_OK)
            return st;
        int is_used = k == 0 || layout->count != 0; /* what has no elements may be anywhere */
        if (is_used && !layout->is_host_scalar[k] &&
            (where.kind != MYLIB_CUDA || where.index != device))
            return mylib_fail(MYLIB_ERR_ARGUMENT,
                              "operand %d is said to be on cuda:%d, but %p is ordinary host memory "
                              "or on another GPU",
                              k, device, (void *)layout->data[k]);
    }
    return MYLIB_OK;
}

/*
 * A code as the steps that it stands for.  `first_type` is the type to which inputs are converted
 * before anything else; of a map it is the accumulator's.
 */
static mylib_status program_of_code(const mylib_code *code, mylib_type first_type,
                                    mylib_program **program_ret)
{
    mylib_type types[MYLIB_CODE_MAX_INPUTS];
    mylib_step step[MYLIB_CODE_MAX_INPUTS + MYLIB_CODE_MAX_INSTRUCTIONS];
    int steps = 0, inputs = code->inputs, acc = 0, mask = 0;
    for (int k = 0; k < inputs; k++) {
        mylib_type read = mylib_operand_read_type(code, 1 + k);
        types[k] = (mylib_type)code->input_type[k];
        step[steps++] = (mylib_step){
            MYLIB_STEP_CONVERT, (int32_t)(read == MYLIB_BOOL ? read : first_type), {k, 0, 0}};
    }
    for (int i = 0; i < code->instructions; i++) {
        int opcode = code->code[i].opcode, operand = inputs + code->code[i].operand;
        int result = inputs + steps;
        if (opcode == MYLIB_OPCODE_MASK) {
            mask = operand;
            continue;
        }
        if (opcode == MYLIB_OPCODE_LOAD)
            step[steps++] = (mylib_step){MYLIB_STEP_CONVERT, code->type, {operand, 0, 0}};
        else if (opcode == MYLIB_OPCODE_SELECT)
            step[steps++] = (mylib_step){MYLIB_STEP_SELECT, code->type, {mask, acc, operand}};
        else
            step[steps++] = (mylib_step){
                opcode, code->type, {acc, mylib_op_arity((mylib_op)opcode) == 2 ? operand : 0, 0}};
        acc = result;
    }
    return mylib_program_create(inputs, types, 0, NULL, steps, step, program_ret);
}

/* Over memory that has been checked. */
static mylib_status execute(const mylib_code *code, const mylib_layout *layout)
{
    mylib_program *program;
    mylib_status st = program_of_code(code, (mylib_type)code->type, &program);
    if (st != MYLIB_OK)
        return st;
    st = mylib_cpu_execute(program, layout);
    mylib_program_free(program);
    return st;
}

mylib_status mylib_cuda_map(int device, void *stream, const mylib_code *program,
                            mylib_layout *layout)
{
    mylib_status st = check_index(device);
    (void)stream;
    if (st != MYLIB_OK || layout->count == 0)
        return st;
    return (st = check_operands(device, layout)) != MYLIB_OK ? st : execute(program, layout);
}

mylib_status mylib_cuda_map_host(int device, const mylib_code *program, mylib_layout *layout)
{
    mylib_status st = check_index(device);
    return st != MYLIB_OK || layout->count == 0 ? st : execute(program, layout);
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

mylib_status mylib_cuda_arange(int device, void *stream, mylib_type type, int64_t n, char *out,
                               int64_t stride, const void *start, const void *step)
{
    mylib_layout layout = {.ndim = 1, .operands = 1, .data = {out}};
    mylib_status st = check_index(device);
    (void)stream;
    if (st == MYLIB_OK && (st = check_operands(device, &layout)) == MYLIB_OK)
        mylib_cpu_arange(type, n, out, stride, start, step);
    return st;
}

mylib_status mylib_cuda_reduce(int device, void *stream, mylib_reduction reduction,
                               const mylib_code *program, mylib_layout *layout, int kept_ndim,
                               mylib_type out_type)
{
    mylib_status st = check_index(device);
    mylib_program *terms;
    (void)stream;
    if (st != MYLIB_OK || (st = check_operands(device, layout)) != MYLIB_OK ||
        (st = program_of_code(program, (mylib_type)program->result_type, &terms)) != MYLIB_OK)
        return st;
    st = mylib_cpu_reduce(reduction, terms, (mylib_type)program->type, layout, kept_ndim, out_type);
    mylib_program_free(terms);
    return st;
}

mylib_status mylib_cuda_reduce_to_host(int device, void *stream, mylib_reduction reduction,
                                       const mylib_code *program, mylib_layout *layout,
                                       mylib_type out_type, void *result)
{
    void *element = NULL;
    mylib_status st = mylib_cuda_alloc(device, sizeof(t_c128), stream, &element);
    if (st != MYLIB_OK)
        return st;
    layout->data[0] = element;
    st = mylib_cuda_reduce(device, stream, reduction, program, layout, 0, out_type);
    if (st == MYLIB_OK)
        memcpy(result, element, mylib_type_size(out_type));
    (void)mylib_cuda_free(device, element, stream);
    return st;
}

mylib_status mylib_cuda_scalar(int device, mylib_op op, mylib_type type, const void *a,
                               const void *b, void *result)
{
    mylib_device cpu = {MYLIB_CPU, 0};
    mylib_status st = check_index(device);
    if (st != MYLIB_OK)
        return st;
    if (type == MYLIB_I64)
        return mylib_scalar_i64(op, cpu, *(const int64_t *)a, *(const int64_t *)b, result);
    if (type == MYLIB_F64)
        return mylib_scalar_f64(op, cpu, *(const double *)a, *(const double *)b, result);
    return mylib_scalar_c128(op, cpu, a, b, result);
}
