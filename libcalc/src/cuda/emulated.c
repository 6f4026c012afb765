/*
 * emulated.c - GPUs that are not there: the CUDA backend's functions over host memory, computed by
 * the CPU.  For tests, on machines without a GPU, of all that is built on the library: places,
 * lifetimes, streams, several devices, memory that runs out.  Never part of a release: CMake's
 * MYLIB_EMULATED_GPUS, 0 unless given, says how many there are.
 *
 * "GPU" memory is kept in a list, so that host memory which is passed for it is found out.  Streams
 * have nothing to wait for.  How programs are split and launched (programs.c, fused.c) is as on a
 * GPU; a fused launch is done thread by thread, as its arguments say.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flags.h"
#include "programs.h"
#ifdef MYLIB_CUDA_FUSED
#include "fused.h"
#endif

/* AddressSanitizer: what is beyond an allocation, up to its multiple of 256 bytes, is taboo. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(at, nbytes) ASAN_POISON_MEMORY_REGION(at, nbytes)
#define ALLOW(at, nbytes) ASAN_UNPOISON_MEMORY_REGION(at, nbytes)
#else
#define FORBID(at, nbytes) ((void)0)
#define ALLOW(at, nbytes) ((void)0)
#endif

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

mylib_status mylib_cuda_check_device(int index) { return check_index(index); }

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

mylib_status mylib_cuda_enter(int device, int *previous_ret)
{
    *previous_ret = -1;
    return check_index(device);
}

void mylib_cuda_leave(int previous) { (void)previous; }

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
        FORBID(b->data + nbytes, room - nbytes);
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
        ALLOW(b->data, b->nbytes);
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

mylib_status mylib_cuda_check_memory(int device, const char *name, const void *data,
                                     mylib_type type, int ndim, const int64_t *strides)
{
    mylib_device where;
    mylib_status st = mylib_pointer_device(data, &where);
    uintptr_t bits = (uintptr_t)data;
    size_t size = mylib_type_size(type);
    if (st != MYLIB_OK)
        return st;
    if (where.kind != MYLIB_CUDA || where.index != device)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%s is said to be on cuda:%d, but %p is ordinary host memory or on "
                          "another GPU",
                          name, device, data);
    for (int d = 0; d < ndim; d++)
        bits |= (uintptr_t)strides[d];
    if ((bits & (size - 1)) != 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%s is not aligned to its elements of %zu bytes: copy it first", name,
                          size);
    return MYLIB_OK;
}

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

/* A GPU raises no flags for a program. */
mylib_status mylib_cuda_run_host(int device, const mylib_program *program, mylib_layout *layout)
{
    int flags = mylib_test_flags();
    mylib_status st = check_index(device);
    if (st != MYLIB_OK || layout->count == 0)
        return st;
    st = mylib_cpu_execute(program, layout);
    mylib_clear_flags();
    mylib_raise_flags(flags);
    return st;
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

/* Without the kernels: by the CPU; else reductions.c launches them. */
#ifndef MYLIB_EMULATED_KERNELS

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
    mylib_cuda_discard(device, element, stream);
    return st;
}

mylib_type mylib_cuda_part_type(mylib_type carrier) { return carrier; }

/* Pairwise, part 2k with part 2k + 1, an odd last one kept. */
mylib_status mylib_cuda_reduce_parts(int device, void *stream, mylib_reduction reduction,
                                     mylib_type carrier, int64_t parts, void *partial,
                                     const mylib_layout *out, mylib_type out_type)
{
    const mylib_op op = reduction == MYLIB_SUM    ? MYLIB_OP_add
                        : reduction == MYLIB_PROD ? MYLIB_OP_multiply
                        : reduction == MYLIB_MIN  ? MYLIB_OP_minimum
                                                  : MYLIB_OP_maximum;
    const ptrdiff_t size = (ptrdiff_t)mylib_type_size(carrier);
    ptrdiff_t outputs = 1;
    char *part = partial;
    (void)stream;
    for (int d = 0; d < out->ndim; d++)
        outputs *= out->shape[d];
    for (; parts > 1; parts = (parts + 1) / 2) {
        for (int64_t k = 0; k < parts / 2; k++)
            mylib_cpu()->kernel(op, carrier)(outputs, part + k * outputs * size, size,
                                             part + 2 * k * outputs * size, size,
                                             part + (2 * k + 1) * outputs * size, size);
        if (parts % 2 == 1)
            memmove(part + parts / 2 * outputs * size, part + (parts - 1) * outputs * size,
                    (size_t)(outputs * size));
    }
    for (ptrdiff_t i = 0; i < outputs; i++) {
        char *p = out->data[0];
        ptrdiff_t rest = i;
        for (int d = out->ndim - 1; d >= 0; d--) {
            p += rest % out->shape[d] * out->strides[0][d];
            rest /= out->shape[d];
        }
        mylib_cpu()->convert(out_type, carrier, 1, p, 0, part + i * size, 0);
    }
    return check_index(device);
}

#endif

/* ---- Fused launches ------------------------------------------------------------------------ */

/* Without the kernels: what their arguments say, by the CPU's own kernels. */
#if defined(MYLIB_CUDA_FUSED) && !defined(MYLIB_EMULATED_KERNELS)

/* A thread: its values, as elements without gaps, one after the other. */
typedef struct thread {
    const mylib_fused_args *args;
    int64_t first;
    int group;
    _Alignas(16) char value[MYLIB_FUSED_MAX_REGISTERS][2 * MYLIB_FUSED_REGISTER_NBYTES];
} thread;

static int elements_of(const thread *t) { return t->group * MYLIB_FUSED_GROUPS; }

/* The address of element i of operand k, or NULL beyond the end of a row. */
static char *element_of(const thread *t, int k, int i)
{
    const mylib_fused_args *args = t->args;
    int32_t row;
    int64_t column, number = t->first + i / t->group * args->threads;
    int n = mylib_fused_group(args, number, t->group, &row, &column);
    if (i % t->group >= n)
        return NULL;
    column = args->access[k] == MYLIB_FUSED_SINGLE ? 0 : column + i % t->group;
    return args->data[k] + mylib_fused_row(args, k, row) +
           column * args->strides[args->ndim - 1][k];
}

/* All elements of an operand, as type `to`. */
static void read_fused(const thread *t, int operand, mylib_type from, mylib_type to,
                       const char *forwarded, char *values)
{
    const mylib_fused_args *args = t->args;
    int n = elements_of(t);
    int input = mylib_fused_input(operand);
    ptrdiff_t size = (ptrdiff_t)mylib_type_size(to), from_size;
    if (input >= 0)
        from = (mylib_type)args->input_type[input];
    from_size = (ptrdiff_t)mylib_type_size(from);
    for (int i = 0; i < n; i++) {
        const char *p;
        if (input >= 0)
            p = element_of(t, 1 + input, i);
        else if (operand == MYLIB_FUSED_FORWARDED)
            p = forwarded + i * from_size;
        else if (operand >= MYLIB_FUSED_REGISTER)
            p = t->value[operand - MYLIB_FUSED_REGISTER] + i * from_size;
        else
            p = (const char *)args->constant[operand - MYLIB_FUSED_CONSTANT];
        if (p != NULL)
            mylib_cpu()->convert(to, from, 1, values + i * size, 0, p, 0);
    }
}

static void run_fused_thread(thread *t)
{
    const mylib_fused_args *args = t->args;
    int is_mixed = args->computed_type == MYLIB_FUSED_MIXED, n = elements_of(t);
    _Alignas(16) char x[2 * MYLIB_FUSED_REGISTER_NBYTES] = {0}, y[sizeof x] = {0};
    _Alignas(16) char result[sizeof x], mask[sizeof x] = {0};
    const mylib_type only = (mylib_type)args->computed_type;
    memset(t->value, 0, sizeof t->value);
    for (int i = 0; i < args->statements; i++) {
        const mylib_fused_statement *s = &args->statement[i];
        mylib_type type = is_mixed ? (mylib_type)s->type : only;
        mylib_type result_type = is_mixed ? (mylib_type)s->result_type : only;
        mylib_type from[2] = {is_mixed ? (mylib_type)s->operand_type[0] : only,
                              is_mixed ? (mylib_type)s->operand_type[1] : only};
        ptrdiff_t size = (ptrdiff_t)mylib_type_size(type);
        if (s->opcode == MYLIB_FUSED_MASK) {
            read_fused(t, s->operand[1], from[1], MYLIB_BOOL, x, mask);
            continue;
        }
        memset(y, 0, sizeof y);
        if (s->operand[1] != MYLIB_FUSED_ABSENT)
            read_fused(t, s->operand[1], from[1], type, x, y);
        memset(result, 0, sizeof result);
        read_fused(t, s->operand[0], from[0], type, x, result);
        memcpy(x, result, sizeof x);
        if (s->opcode == MYLIB_FUSED_TEST) {
            mylib_cpu()->convert(MYLIB_BOOL, type, n, y, 1, x, size);
            mylib_cpu()->convert(type, MYLIB_BOOL, n, x, size, y, 1);
        } else if (s->opcode == MYLIB_OPCODE_SELECT) {
            mylib_cpu()->selection(type)(n, x, size, mask, 1, x, size, y, size);
        } else if (s->opcode != MYLIB_OPCODE_LOAD) {
            mylib_type own;
            (void)mylib_op_result_type((mylib_op)s->opcode, type, &own);
            mylib_cpu()->kernel((mylib_op)s->opcode,
                                type)(n, result, (ptrdiff_t)mylib_type_size(own), x, size, y, size);
            mylib_cpu()->convert(result_type, own, n, x, (ptrdiff_t)mylib_type_size(result_type),
                                 result, (ptrdiff_t)mylib_type_size(own));
        }
        if (s->target != MYLIB_FUSED_ABSENT)
            memcpy(t->value[s->target - MYLIB_FUSED_REGISTER], x, sizeof x);
    }
    mylib_type last = is_mixed ? (mylib_type)args->result_type : only;
    for (int i = 0; i < n; i++) {
        char *p = element_of(t, 0, i);
        if (p != NULL)
            mylib_cpu()->convert((mylib_type)args->result_type, last, 1, p, 0,
                                 x + i * (ptrdiff_t)mylib_type_size(last), 0);
    }
}

static void run_fused(const mylib_fused_args *args)
{
    thread t = {.args = args};
    t.group = args->computed_type == MYLIB_FUSED_MIXED
                  ? MYLIB_FUSED_MIXED_GROUP
                  : MYLIB_FUSED_GROUP(mylib_type_size((mylib_type)args->computed_type));
    for (int64_t b = 0; b < mylib_fused_blocks(args); b++) {
        for (int i = 0; i < args->threads; i++) {
            t.first = b * args->threads * MYLIB_FUSED_GROUPS + i;
            if (t.first < args->groups)
                run_fused_thread(&t);
        }
    }
}

/* The terms of one output, to 'values'. */
static void run_terms(const mylib_fused_args *args, int64_t output, char *values)
{
    mylib_fused_args map = *args;
    const int size = (int)mylib_type_size((mylib_type)args->computed_type);
    map.is_reduced = 0;
    map.ndim = map.rows = 1;
    map.groups = (args->columns - 1) / MYLIB_FUSED_GROUP(size) + 1;
    for (int k = 1; k <= args->inputs; k++) {
        map.strides[0][k] = args->strides[args->ndim - 1][k];
        if (args->ndim == 2)
            map.data[k] += output * args->strides[0][k];
    }
    map.data[0] = values;
    map.strides[0][0] = size;
    run_fused(&map);
}

/* Each part of each output. */
static mylib_status reduce_fused(const mylib_fused_args *args)
{
    const mylib_type type = (mylib_type)args->computed_type;
    const int64_t size = (int64_t)mylib_type_size(type);
    const int64_t most = (int64_t)args->sets * mylib_fused_set(args) * MYLIB_BLOCK_TERMS;
    const mylib_code code = {(uint8_t)type,   (uint8_t)type,           1, 1,
                             {(uint8_t)type}, {{MYLIB_OPCODE_LOAD, 0}}};
    mylib_layout l = {.ndim = 1, .operands = 2, .strides = {{0}, {size}}};
    mylib_program *load = NULL;
    mylib_status st = program_of_code(&code, type, &load);
    char *values = malloc((size_t)(args->columns * size));
    if (st == MYLIB_OK && values == NULL)
        st = mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory for the terms of an output");
    for (int64_t output = 0; output < args->rows && st == MYLIB_OK; output++) {
        run_terms(args, output, values);
        for (int64_t p = 0; p < mylib_fused_parts(args) && st == MYLIB_OK; p++) {
            l.count = l.shape[0] =
                args->columns - p * most < most ? args->columns - p * most : most;
            l.data[0] = args->data[0] + p * args->part_stride + output * args->strides[0][0];
            l.data[1] = values + p * most * size;
            st = mylib_cpu_reduce((mylib_reduction)args->reduction, load, type, &l, 0, type);
        }
    }
    free(values);
    mylib_program_free(load);
    return st;
}

mylib_status mylib_cuda_launch_fused(const mylib_fused_args *args, void *stream)
{
    int flags = mylib_test_flags();
    mylib_status st = MYLIB_OK;
    (void)stream;
    if (args->is_reduced)
        st = reduce_fused(args);
    else
        run_fused(args);
    mylib_clear_flags();
    mylib_raise_flags(flags);
    return st;
}

#endif

/* ---- Scalars ------------------------------------------------------------------------------- */

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
