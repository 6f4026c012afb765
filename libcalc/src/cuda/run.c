/*
 * run.c - runs programs over GPU memory (docs/design/calls.md): picks kernels and launches them.
 * Plain C.  A call enqueues all of its work, and the release of its memory, on one stream.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"
#ifdef MYLIB_CUDA_FUSED
#include "fused.h"
#endif

/* ---- Checks ---- */

/* Asks the driver whether memory that is not in the ledger is on the device. */
static mylib_status check_foreign(int device, const char *name, const void *data)
{
    struct cudaPointerAttributes attributes;
    CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, data));
    if (attributes.type == cudaMemoryTypeUnregistered)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%s is said to be on cuda:%d, but %p is ordinary host memory", name,
                          device, data);
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != device)
        return mylib_fail(MYLIB_ERR_ARGUMENT, "%s is said to be on cuda:%d, but %p is on cuda:%d",
                          name, device, data, attributes.device);
    return MYLIB_OK;
}

static mylib_status check_alignment(const char *name, const void *data, mylib_type type, int ndim,
                                    const int64_t *strides)
{
    const size_t size = mylib_type_size(type);
    if (!mylib_is_aligned_to((int64_t)size, data, ndim, strides))
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%s is not aligned to its elements of %zu bytes: copy it first", name,
                          size);
    return MYLIB_OK;
}

mylib_status mylib_cuda_check_memory(int device, const char *name, const void *data,
                                     mylib_type type, int ndim, const int64_t *strides)
{
    /* For a small array, a query to the driver would take longer than everything else. */
    if (mylib_cuda_owner(data) != device)
        RETURN_IF_ERROR(check_foreign(device, name, data));
    return check_alignment(name, data, type, ndim, strides);
}

mylib_status mylib_cuda_check_operands(int device, const char *const *names, int out_type,
                                       const uint8_t *types, const mylib_layout *layout)
{
    const int first = out_type < 0 ? 1 : 0, is_ours = mylib_cuda_owns(device, layout, first);
    for (int k = first; k < layout->operands; k++) {
        const mylib_type type = (mylib_type)(k == 0 ? out_type : types[k - 1]);
        if (layout->is_host_scalar[k])
            continue;
        if (!is_ours && mylib_cuda_owner(layout->data[k]) != device)
            RETURN_IF_ERROR(check_foreign(device, names[k], layout->data[k]));
        RETURN_IF_ERROR(
            check_alignment(names[k], layout->data[k], type, layout->ndim, layout->strides[k]));
    }
    return MYLIB_OK;
}

/* ---- Single operations ---- */

/* A statement and the stream on which it is launched. */
typedef struct launch {
    const mylib_statement *statement;
    void *stream;
} launch;

static mylib_status launch_strided(void *context, mylib_layout *layout)
{
    const launch *l = context;
    mylib_strided_args args;
    mylib_strided_init(&args, l->statement, layout);
    for (int k = 0; k < l->statement->operands; k++)
        if (args.access[k] == MYLIB_ACCESS_CONSTANT)
            mylib_read_constant(l->statement, k, args.data[1 + k], args.constant[k]);
    CUDA_RETURN_IF_ERROR(mylib_launch_strided(&args, l->stream));
    return MYLIB_OK;
}

mylib_status mylib_cuda_launch(const mylib_statement *s, mylib_layout *layout, void *stream)
{
    launch l = {s, stream};
    mylib_contiguous_args args;
    if (mylib_is_function(s->opcode))
        return mylib_cuda_launch_function(s, layout, stream, mylib_cuda_launch);
    /* After simplifying, only huge arrays take several launches, with few exceptions. */
    if (!mylib_contiguous_init(&args, s, layout))
        return mylib_layout_in_pieces(layout, MYLIB_STRIDED_MAX_COUNT, MYLIB_STRIDED_MAX_NDIM,
                                      launch_strided, &l);
    CUDA_RETURN_IF_ERROR(mylib_launch_contiguous(&args, stream));
    return MYLIB_OK;
}

/* ---- Pieces ---- */

/* A call, or a part of it. */
typedef struct call {
    int device;
    void *stream;
    const mylib_program *program;
    char *temporary; /* registers, or packed inputs, of place_nbytes each */
    size_t place_nbytes;
    size_t room; /* the most temporary memory, unless pieces would be too short */
} call;

/* Returns the elements of a piece that needs 'places' of temporary memory; at most 'count'. */
static int64_t elements_at_once(size_t room, int64_t count, int places, size_t size)
{
    const int64_t most = mylib_cuda_piece(room, (size_t)places * size);
    return most < count ? most : count;
}

/* Calls the task for pieces with 'places' of temporary memory of elements of 'size' bytes. */
static mylib_status run_with_temporaries(call *c, mylib_layout *layout, int places, size_t size,
                                         mylib_layout_task *task)
{
    const int64_t most = elements_at_once(c->room, layout->count, places, size);
    void *temporary = NULL;
    c->place_nbytes = mylib_cuda_align((size_t)most * size);
    RETURN_IF_ERROR(
        mylib_cuda_alloc(c->device, (size_t)places * c->place_nbytes, c->stream, &temporary));
    c->temporary = temporary;
    mylib_status st = mylib_layout_in_pieces(layout, most, MYLIB_MAX_NDIM, task, c);
    mylib_cuda_discard(c->device, temporary, c->stream);
    return st;
}

/* ---- Statement by statement ---- */

/* The searches below are quadratic; skip them in longer programs. */
#define MAX_SEARCHED 256

/*
 * Tells whether statement i converts an input for a single other statement, not as its condition.
 * That statement then reads the input itself: the kernels of single operations convert what they
 * read.
 */
static int is_left_to_user(const mylib_program *p, int i)
{
    const mylib_statement *s = &p->statement[i];
    int user = -1;
    if (p->statements > MAX_SEARCHED || s->opcode != MYLIB_OPCODE_CONVERT ||
        s->operand[0].kind != MYLIB_VALUE_INPUT || s->target == MYLIB_TARGET_OUT)
        return 0;
    for (int j = i + 1; j < p->statements; j++) {
        const mylib_statement *later = &p->statement[j];
        for (int o = 0; o < later->operands; o++) {
            if (later->operand[o].kind != MYLIB_VALUE_REGISTER ||
                later->operand[o].index != s->target)
                continue;
            if ((user >= 0 && user != j) || later->opcode == MYLIB_OPCODE_CONVERT ||
                (later->opcode == MYLIB_OPCODE_SELECT && o == 0))
                return 0;
            user = j;
        }
        if (later->target == s->target)
            break;
    }
    return user >= 0;
}

/* Returns the value that operand o of statement i reads, or the input that it converts itself. */
static mylib_value value_of(const mylib_program *p, int i, int o)
{
    mylib_value v = p->statement[i].operand[o];
    if (v.kind != MYLIB_VALUE_REGISTER || p->statements > MAX_SEARCHED)
        return v;
    do
        i--;
    while (p->statement[i].target != v.index);
    return is_left_to_user(p, i) ? p->statement[i].operand[0] : v;
}

/* Runs a statement: makes all of its operands inputs. */
static mylib_status run_statement(const call *c, int i, const mylib_layout *piece)
{
    mylib_statement s = c->program->statement[i];
    DECLARE_LAYOUT(l, 1 + MYLIB_MOST_OPERANDS);
    mylib_layout_begin(&l, piece, 1 + s.operands);
    if (s.target == MYLIB_TARGET_OUT)
        mylib_layout_set_operand(&l, 0, piece, 0);
    else
        mylib_layout_set_contiguous(&l, 0, c->temporary + s.target * c->place_nbytes,
                                    mylib_type_size((mylib_type)s.result_type));
    for (int o = 0; o < s.operands; o++) {
        mylib_value v = value_of(c->program, i, o);
        s.operand[o] = (mylib_value){MYLIB_VALUE_INPUT, v.type, (uint16_t)o};
        if (v.kind == MYLIB_VALUE_INPUT)
            mylib_layout_set_operand(&l, 1 + o, piece, 1 + v.index);
        else if (v.kind == MYLIB_VALUE_CONSTANT)
            mylib_layout_set_constant(&l, 1 + o, c->program->constant[v.index].value);
        else
            mylib_layout_set_contiguous(&l, 1 + o, c->temporary + v.index * c->place_nbytes,
                                        mylib_type_size((mylib_type)v.type));
    }
    mylib_layout_simplify(&l);
    return mylib_cuda_launch(&s, &l, c->stream);
}

static mylib_status run_statements(void *context, mylib_layout *piece)
{
    const call *c = context;
    mylib_status st = MYLIB_OK;
    for (int i = 0; i < c->program->statements && st == MYLIB_OK; i++)
        if (!is_left_to_user(c->program, i))
            st = run_statement(c, i, piece);
    return st;
}

/* ---- In one launch ---- */

#ifdef MYLIB_CUDA_FUSED

#define PACKED_SIZE 16 /* fits an element of any type */

static int is_transposed(const mylib_layout *l, int k, int64_t size)
{
    int inner = l->ndim - 1;
    if (l->is_host_scalar[k] || l->shape[inner] < MYLIB_TRANSPOSE_MIN ||
        llabs(l->strides[k][inner]) <= 4 * size)
        return 0;
    for (int d = 0; d < inner; d++)
        if (llabs(l->strides[k][d]) == size && l->shape[d] >= MYLIB_TRANSPOSE_MIN)
            return 1;
    return 0;
}

static int64_t input_size(const call *c, int k)
{
    return (int64_t)mylib_type_size((mylib_type)c->program->input_type[k - 1]);
}

static mylib_status run_fused(void *context, mylib_layout *piece)
{
    const call *c = context;
    mylib_fused_args args;
    mylib_fused_fit fit = mylib_fused_init(&args, c->program, piece);
    if (fit == MYLIB_FUSED_TOO_MANY_ELEMENTS)
        return mylib_layout_in_pieces(piece, MYLIB_FUSED_MAX_ROWS, MYLIB_MAX_NDIM, run_fused,
                                      context);
    if (fit != MYLIB_FUSED_FITS)
        return mylib_fail(MYLIB_ERR_UNSUPPORTED, "the program does not fit a launch (%d)",
                          (int)fit);
    return mylib_cuda_launch_fused(&args, c->stream);
}

/* Packs transposed inputs first. */
static mylib_status run_packed(void *context, mylib_layout *piece)
{
    const call *c = context;
    int places = 0;
    DECLARE_LAYOUT(l, 2);
    DECLARE_LARGE_LAYOUT(packed, piece->operands);
    mylib_layout_copy(&packed, piece);
    for (int k = 1; k < piece->operands; k++) {
        if (!is_transposed(piece, k, input_size(c, k)))
            continue;
        const mylib_type type = (mylib_type)c->program->input_type[k - 1];
        const mylib_statement copy = mylib_conversion(type, type);
        char *place = c->temporary + (size_t)places++ * c->place_nbytes;
        mylib_layout_begin(&l, piece, 2);
        mylib_layout_set_contiguous(&l, 0, place, (size_t)input_size(c, k));
        mylib_layout_set_operand(&l, 1, piece, k);
        mylib_layout_set_contiguous(&packed, k, place, (size_t)input_size(c, k));
        mylib_layout_simplify(&l);
        RETURN_IF_ERROR(mylib_cuda_launch(&copy, &l, c->stream));
    }
    mylib_layout_simplify(&packed);
    return run_fused(context, &packed);
}

/* Runs fused; returns false if the program or the layout does not fit, else sets the status. */
static int try_fused(call *c, mylib_layout *layout, mylib_status *st_ret)
{
    mylib_fused_args args;
    mylib_fused_fit fit = mylib_fused_init(&args, c->program, layout);
    int transposed = 0;
    if (fit != MYLIB_FUSED_FITS && fit != MYLIB_FUSED_TOO_MANY_ELEMENTS)
        return 0;
    for (int k = 1; k < layout->operands && layout->ndim > 1; k++)
        transposed += is_transposed(layout, k, input_size(c, k));
    if (transposed > 0)
        *st_ret = run_with_temporaries(c, layout, transposed, PACKED_SIZE, run_packed);
    else if (fit == MYLIB_FUSED_FITS)
        *st_ret = mylib_cuda_launch_fused(&args, c->stream);
    else
        *st_ret = run_fused(c, layout);
    return 1;
}

#endif

/* ---- Programs ---- */

/* Returns the temporary memory of run_with_temporaries(). */
static size_t temporary_nbytes(size_t room, int64_t count, int places, size_t size)
{
    if (places == 0)
        return 0;
    return (size_t)places *
           mylib_cuda_align((size_t)elements_at_once(room, count, places, size) * size);
}

size_t mylib_cuda_temporary_nbytes(const mylib_program *p, int64_t count, size_t room)
{
    if (p->statements == 1)
        return 0;
    const size_t registers = temporary_nbytes(room, count, p->registers, p->max_register_size);
#ifdef MYLIB_CUDA_FUSED
    const size_t packed = temporary_nbytes(room, count, p->inputs, PACKED_SIZE);
    return packed > registers ? packed : registers;
#else
    return registers;
#endif
}

mylib_status mylib_cuda_enqueue(int device, void *stream, const mylib_program *program,
                                mylib_layout *layout, size_t room)
{
    call c = {device, stream, program, NULL, 0, room};
    if (program->statements == 1)
        return run_statement(&c, 0, layout);
#ifdef MYLIB_CUDA_FUSED
    mylib_status st;
    if (try_fused(&c, layout, &st))
        return st;
#endif
    return run_with_temporaries(&c, layout, program->registers, program->max_register_size,
                                run_statements);
}

mylib_status mylib_cuda_map(int device, void *stream, const mylib_program *program,
                            mylib_layout *layout, const char *const *names)
{
    mylib_statement single;
    ENTER_DEVICE(device);
    if (layout->count == 0)
        return MYLIB_OK;
    RETURN_IF_ERROR(mylib_cuda_check_operands(device, names, program->result_type,
                                              program->input_type, layout));
    if (mylib_single_statement(&single, program))
        return mylib_cuda_launch(&single, layout, stream);
    return mylib_cuda_enqueue(device, stream, program, layout, MYLIB_TEMPORARY_NBYTES);
}

/* ---- Small copies ---- */

mylib_status mylib_cuda_copy_pieces(const mylib_array *dst, void *stream,
                                    const mylib_copies *copies)
{
    const int device = dst->device.index;
    int64_t strides[MYLIB_MAX_NDIM];
    ENTER_DEVICE(device);
    mylib_array_strides(dst, strides);
    RETURN_IF_ERROR(
        mylib_cuda_check_memory(device, "dst", dst->data, dst->type, dst->ndim, strides));
    for (const mylib_copy_piece *p = copies->piece; p < copies->piece + copies->pieces; p++)
        RETURN_IF_ERROR(
            mylib_cuda_check_memory(device, "src", p->from, dst->type, 2, p->from_stride));
    CUDA_RETURN_IF_ERROR(mylib_launch_copies(copies, stream));
    return MYLIB_OK;
}

/* ---- Ranges ---- */

mylib_status mylib_cuda_arange(int device, void *stream, mylib_type type, int64_t n, char *out,
                               int64_t stride, const void *start, const void *step)
{
    ENTER_DEVICE(device);
    RETURN_IF_ERROR(mylib_cuda_check_memory(device, "out", out, type, 1, &stride));
    CUDA_RETURN_IF_ERROR(mylib_launch_arange(type, n, out, stride, start, step, stream));
    return MYLIB_OK;
}
