/*
 * reduce_pieces.c - reduces the values of programs, and host arrays, on a GPU, piece by piece.
 * Plain C.
 *
 * A program of f32 or f64 is reduced in the launch that computes it, if its layout allows that
 * (fused.h).  The values of any other program go to temporary memory and are reduced from there:
 * some outputs at a time, with all of their terms, or some terms of some outputs.
 *
 * Each piece of host arrays is copied to the GPU first, in memory order, repeated elements once.
 * If the program is a copy, it goes straight to the memory for the values, but not in short rows.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"

#include "../counting.h"
#ifdef MYLIB_CUDA_FUSED
#include "fused.h"
#endif

/*
 * The GPU memory of a call that reduces host arrays.  With less, a call tries again, down to one
 * byte for each term of a block, which gives the smallest pieces.
 */
#ifndef MYLIB_STREAMED_NBYTES
#define MYLIB_STREAMED_NBYTES (560 << 20) /* 512 MiB of elements, and their overhead */
#endif
#define LEAST_STREAMED_NBYTES MYLIB_BLOCK_TERMS

/* The minimum temporary memory of a program in such a call. */
#define LEAST_ROOM (16 << 10)

/* ---- Values ---- */

typedef struct job {
    int device;
    void *stream;
    const mylib_program *program;
    char *temporary; /* the values of a piece */
    size_t room;     /* bytes of a program's temporary memory */
    mylib_reduction reduction;
    mylib_type out_type;
    mylib_terms piece_terms; /* for the reduction of a piece: the program's values */
    int kept_ndim;
    int64_t terms;
    int64_t most; /* elements of temporary memory */
    char *parts;  /* partial results of all outputs of a piece, level by level */
    mylib_type part_type;
    int is_on_host;  /* the arrays are */
    int is_straight; /* the elements are the values, copied straight to their memory */
    char *input[MYLIB_PROGRAM_MAX_INPUTS]; /* elements of host arrays */
    char *results;                         /* of a piece, for a host array */
} job;

/* Sets operand k to memory for a box, in the order of its strides, repeated elements once. */
static void set_as_stored(mylib_layout *l, char *data, size_t size, const mylib_layout *box, int k)
{
    int order[MYLIB_MAX_NDIM], kept = 0;
    int64_t next = (int64_t)size;
    for (int d = 0; d < box->ndim; d++) {
        const int64_t stride = box->strides[k][d];
        int i = kept;
        l->strides[k][d] = 0;
        if (stride == 0 || box->shape[d] == 1)
            continue;
        for (; i > 0 && llabs(box->strides[k][order[i - 1]]) > llabs(stride); i--)
            order[i] = order[i - 1];
        order[i] = d;
        kept++;
    }
    l->data[k] = data;
    for (int i = 0; i < kept; i++) {
        const int d = order[i];
        l->strides[k][d] = box->strides[k][d] < 0 ? -next : next;
        if (box->strides[k][d] < 0)
            l->data[k] += next * (box->shape[d] - 1);
        next *= box->shape[d];
    }
}

/* Copies operand 1 of `there` to operand 0; one is on the host.  Copies repeated elements once. */
static mylib_status copy_host(const job *j, mylib_layout *there, int to_host, mylib_type type)
{
    for (int d = 0; d < there->ndim; d++)
        if (there->strides[0][d] == 0 && there->strides[1][d] == 0 && there->shape[d] != 1) {
            there->count /= there->shape[d];
            there->shape[d] = 1;
        }
    mylib_layout_simplify(there);
    return mylib_cuda_copy_host(j->device, j->stream, there, type, type, to_host);
}

/* Copies the inputs of a box to the GPU, and sets the inputs of l, a copy of the box, to them. */
static mylib_status bring_inputs(const job *j, mylib_layout *l, const mylib_layout *box)
{
    const mylib_program *p = j->program;
    DECLARE_LAYOUT(there, 2);
    for (int k = 1; k < box->operands; k++) {
        const mylib_type type = (mylib_type)p->input_type[k - 1];
        if (box->is_host_scalar[k])
            continue;
        set_as_stored(l, j->input[k - 1], mylib_type_size(type), box, k);
        mylib_layout_begin(&there, box, 2);
        mylib_layout_set_operand(&there, 0, l, k);
        mylib_layout_set_operand(&there, 1, box, k);
        RETURN_IF_ERROR(copy_host(j, &there, 0, type));
    }
    return MYLIB_OK;
}

static mylib_status run_to(const job *j, const mylib_layout *layout, char *values)
{
    const mylib_type type = (mylib_type)j->program->result_type;
    DECLARE_LARGE_LAYOUT(l, layout->operands);
    mylib_layout_copy(&l, layout);
    mylib_layout_set_contiguous(&l, 0, values, mylib_type_size(type));
    if (j->is_on_host && j->is_straight)
        return copy_host(j, &l, 0, type);
    if (j->is_on_host)
        RETURN_IF_ERROR(bring_inputs(j, &l, layout));
    mylib_layout_simplify(&l);
    return mylib_cuda_enqueue(j->device, j->stream, j->program, &l, j->room);
}

/* Makes the layout of a piece's outputs on the GPU. */
static void begin_outputs(const job *j, mylib_layout *out, const mylib_layout *piece)
{
    mylib_layout_begin(out, piece, 1);
    out->ndim = j->kept_ndim;
    out->count = piece->count / j->terms;
    if (j->is_on_host)
        mylib_layout_set_contiguous(out, 0, j->results, mylib_type_size(j->out_type));
    else
        mylib_layout_set_operand(out, 0, piece, 0);
}

/* Copies a piece's outputs to the host, if `out` is host memory. */
static mylib_status end_outputs(const job *j, const mylib_layout *out, const mylib_layout *piece)
{
    DECLARE_LAYOUT(back, 2);
    if (!j->is_on_host)
        return MYLIB_OK;
    mylib_layout_begin(&back, out, 2);
    mylib_layout_set_operand(&back, 1, out, 0);
    back.data[0] = piece->data[0];
    memcpy(back.strides[0], piece->strides[0], sizeof *back.strides[0] * (size_t)back.ndim);
    return copy_host(j, &back, 1, j->out_type);
}

/* Reduces some outputs, all terms at once. */
static mylib_status reduce_outputs(void *context, mylib_layout *piece)
{
    const job *j = context;
    DECLARE_LAYOUT(l, 2);
    DECLARE_LAYOUT(out, 1);
    RETURN_IF_ERROR(run_to(j, piece, j->temporary));
    begin_outputs(j, &out, piece);
    mylib_layout_begin(&l, &out, 2);
    l.count = piece->count;
    l.ndim = j->kept_ndim + 1;
    l.shape[j->kept_ndim] = j->terms;
    mylib_layout_set_operand(&l, 0, &out, 0);
    l.strides[0][j->kept_ndim] = 0;
    mylib_layout_set_contiguous(&l, 1, j->temporary,
                                mylib_type_size((mylib_type)j->program->result_type));
    RETURN_IF_ERROR(mylib_cuda_reduce(j->device, j->stream, j->reduction, &j->piece_terms, &l,
                                      j->kept_ndim, j->out_type, mylib_operand_names));
    return end_outputs(j, &out, piece);
}

/*
 * Computes elements [begin, end) of the dimensions from d on, in C order, to 'values', in a few
 * boxes.  The dimensions before d have size 1.  Restores the layout.
 */
static mylib_status run_elements(const job *j, mylib_layout *l, int d, int64_t begin, int64_t end,
                                 char *values)
{
    int64_t inner = 1, size = l->shape[d], count = l->count;
    int64_t value_size = (int64_t)mylib_type_size((mylib_type)j->program->result_type);
    mylib_status st = MYLIB_OK;
    for (int e = d + 1; e < l->ndim; e++)
        inner *= l->shape[e];
    while (begin < end && st == MYLIB_OK) {
        /* Compute whole indices of this dimension at once, or a part of one. */
        int64_t first = begin / inner, rest = begin - first * inner;
        int64_t whole = rest == 0 ? (end - begin) / inner : 0;
        int64_t n = whole > 0                    ? whole * inner
                    : inner - rest < end - begin ? inner - rest
                                                 : end - begin;
        l->shape[d] = whole > 0 ? whole : 1;
        l->count = l->shape[d] * inner;
        for (int k = 1; k < l->operands; k++)
            l->data[k] += first * l->strides[k][d];
        st = whole > 0 ? run_to(j, l, values) : run_elements(j, l, d + 1, rest, rest + n, values);
        for (int k = 1; k < l->operands; k++)
            l->data[k] -= first * l->strides[k][d];
        values += n * value_size;
        begin += n;
    }
    l->shape[d] = size;
    l->count = count;
    return st;
}

/* Copies a layout with its kept dimensions last, so that the outputs are adjacent. */
static void put_kept_last(mylib_layout *l, const mylib_layout *piece, int kept_ndim)
{
    mylib_layout_copy(l, piece);
    for (int d = 0; d < l->ndim; d++) {
        const int from = (d + kept_ndim) % l->ndim;
        l->shape[d] = piece->shape[from];
        for (int k = 0; k < l->operands; k++)
            l->strides[k][d] = piece->strides[k][from];
    }
}

/* Returns how many terms of each output fit in memory: all, or 2^k blocks. */
static int64_t terms_at_once(const job *j, int64_t outputs)
{
    int64_t most = j->most / outputs, terms = MYLIB_BLOCK_TERMS;
    if (j->terms <= most)
        return j->terms;
    while (2 * terms <= most)
        terms *= 2;
    return terms;
}

/*
 * Partial results are combined PARTS at a time, level by level: all parts of one level could take
 * more memory than the pieces.  A power of two, so that each part is a whole subtree of the order.
 */
#define PARTS 64

static int levels_of(int64_t terms, int64_t at_once)
{
    int levels = 0;
    for (int64_t parts = mylib_divide_up(terms, at_once); parts > 1;
         parts = mylib_divide_up(parts, PARTS))
        levels++;
    return levels;
}

/* Outputs that are reduced some terms at a time. */
typedef struct terms_call {
    const job *j;
    mylib_layout *kept_last; /* its outputs are adjacent */
    int64_t outputs, at_once;
} terms_call;

/* Reduces terms [begin, end), which fit in temporary memory, to operand 0 of `target`. */
static mylib_status reduce_some(terms_call *t, int64_t begin, int64_t end,
                                const mylib_layout *target, mylib_type type)
{
    const job *j = t->j;
    const int64_t value_size = (int64_t)mylib_type_size((mylib_type)j->program->result_type);
    DECLARE_LAYOUT(l, 2);
    RETURN_IF_ERROR(
        run_elements(j, t->kept_last, 0, begin * t->outputs, end * t->outputs, j->temporary));
    mylib_layout_begin(&l, target, 2);
    l.count = t->outputs * (end - begin);
    mylib_layout_set_operand(&l, 0, target, 0);
    mylib_layout_set_contiguous(&l, 1, j->temporary, (size_t)value_size);
    l.ndim++;
    l.shape[j->kept_ndim] = end - begin;
    l.strides[0][j->kept_ndim] = 0;
    l.strides[1][j->kept_ndim] = t->outputs * value_size;
    return mylib_cuda_reduce(j->device, j->stream, j->reduction, &j->piece_terms, &l, j->kept_ndim,
                             type, mylib_operand_names);
}

/* Reduces terms [begin, end) to `target`, through `levels` levels of parts. */
static mylib_status reduce_levels(terms_call *t, int levels, int64_t begin, int64_t end,
                                  const mylib_layout *target, mylib_type type)
{
    const job *j = t->j;
    const size_t size = mylib_type_size(j->part_type);
    const int64_t nbytes = t->outputs * (int64_t)size;
    int64_t step = t->at_once, parts = 0;
    DECLARE_LAYOUT(part, 1);
    if (levels == 0)
        return reduce_some(t, begin, end, target, type);
    for (int i = 1; i < levels; i++)
        step *= PARTS;
    char *const first = j->parts + (levels - 1) * PARTS * nbytes;
    mylib_layout_begin(&part, target, 1);
    for (; begin < end; begin += step, parts++) {
        mylib_layout_set_contiguous(&part, 0, first + parts * nbytes, size);
        RETURN_IF_ERROR(reduce_levels(t, levels - 1, begin, end - begin < step ? end : begin + step,
                                      &part, j->part_type));
    }
    return mylib_cuda_reduce_parts(j->device, j->stream, j->reduction, j->piece_terms.carrier,
                                   parts, first, target, type);
}

/* Reduces outputs some terms at a time: aligned groups of blocks, combined level by level. */
static mylib_status reduce_terms(void *context, mylib_layout *piece)
{
    const job *j = context;
    const int64_t outputs = piece->count / j->terms;
    DECLARE_LAYOUT(out, 1);
    DECLARE_LARGE_LAYOUT(kept_last, piece->operands);
    terms_call t = {j, &kept_last, outputs, terms_at_once(j, outputs)};
    put_kept_last(&kept_last, piece, j->kept_ndim);
    begin_outputs(j, &out, piece);
    RETURN_IF_ERROR(
        reduce_levels(&t, levels_of(j->terms, t.at_once), 0, j->terms, &out, j->out_type));
    return end_outputs(j, &out, piece);
}

/* Tells whether outputs are closer together than their terms, in the first input that has both. */
static int lie_side_by_side(const mylib_layout *l, int kept_ndim)
{
    if (kept_ndim == 0 || kept_ndim == l->ndim)
        return 0;
    for (int k = 1; k < l->operands; k++) {
        int64_t output = llabs(l->strides[k][kept_ndim - 1]);
        int64_t term = llabs(l->strides[k][l->ndim - 1]);
        if (!l->is_host_scalar[k] && output != 0 && term != 0)
            return output < term;
    }
    return 0;
}

/* With smaller pieces a large GPU would idle. */
#define VALUES_FACTOR 4

/* The pieces of a reduction, and the memory that they need. */
typedef struct piece_sizes {
    int is_by_terms;
    int64_t outputs;  /* of a piece, at most */
    int64_t elements; /* of temporary memory */
    int64_t parts;    /* of all levels and outputs */
    int64_t partial;  /* partial results of a piece in the kernels */
} piece_sizes;

/* Chooses the pieces of a reduction whose temporary memory holds `most` elements. */
static piece_sizes choose_pieces(job *j, const mylib_layout *layout, int64_t most, int has_columns)
{
    piece_sizes c = {.outputs = layout->count / j->terms};
    j->most = most;
    /* For columns, some blocks of many outputs are faster than all blocks of few. */
    c.is_by_terms = has_columns || j->terms > most;
    const int64_t least =
        c.is_by_terms && j->terms > MYLIB_BLOCK_TERMS ? MYLIB_BLOCK_TERMS : j->terms;
    const int64_t side_by_side = has_columns || !c.is_by_terms ? most / least : 1;
    if (c.outputs > side_by_side)
        c.outputs = side_by_side > 1 ? side_by_side : 1;
    /* Pieces of fewer outputs have fewer parts. */
    const int64_t at_once = c.is_by_terms ? terms_at_once(j, c.outputs) : j->terms;
    const int levels = levels_of(j->terms, at_once);
    c.parts = c.outputs * (levels > 1 ? levels * PARTS : mylib_divide_up(j->terms, at_once));
    c.elements = least * c.outputs;
    c.elements = c.elements > most ? c.elements : most;
    c.elements = c.elements < layout->count ? c.elements : layout->count;
    c.partial = j->terms > MYLIB_BLOCK_TERMS ? c.elements / MYLIB_BLOCK_TERMS + c.outputs : 0;
    return c;
}

/* Reduces piece by piece: parts of the kept dimensions, with all of the reduced ones. */
static mylib_status reduce_pieces(job *j, mylib_layout *layout, const piece_sizes *c)
{
    /* The kept dimensions are the outermost ones, so they are halved first. */
    return mylib_layout_in_pieces(layout, c->outputs * j->terms, MYLIB_MAX_NDIM,
                                  c->is_by_terms ? reduce_terms : reduce_outputs, j);
}

static mylib_status reduce_kept(job *j, mylib_layout *layout)
{
    const size_t size = mylib_type_size((mylib_type)j->program->result_type);
    const int has_columns = lie_side_by_side(layout, j->kept_ndim);
    const piece_sizes c =
        choose_pieces(j, layout, VALUES_FACTOR * mylib_cuda_piece(j->room, size), has_columns);
    const size_t nbytes = mylib_cuda_align((size_t)c.elements * size);
    void *temporary = NULL;
    mylib_status st;
    MYLIB_TRY(mylib_cuda_alloc(j->device, nbytes + (size_t)c.parts * mylib_type_size(j->part_type),
                               j->stream, &temporary));
    j->temporary = temporary;
    j->parts = j->temporary + nbytes;
    st = reduce_pieces(j, layout, &c);
out:
    mylib_cuda_discard(j->device, temporary, j->stream);
    return st;
}

/* ---- Reductions of host arrays ---- */

/* Rows of at least this size are worth a copy each. */
#define LONG_ROW_NBYTES 1024

/* Tells whether the program copies an input that is in the order of the values, in long rows. */
static int is_straight(const mylib_program *p, const mylib_layout *layout, int kept_ndim,
                       int is_by_terms)
{
    const int64_t size = (int64_t)mylib_type_size((mylib_type)p->result_type);
    DECLARE_LAYOUT(order, 2);
    if (!mylib_is_conversion(p) || p->inputs != 1 || p->input_type[0] != p->result_type ||
        layout->is_host_scalar[1])
        return 0;
    if (is_by_terms)
        put_kept_last(&order, layout, kept_ndim);
    else
        mylib_layout_copy(&order, layout);
    for (int d = 0; d < order.ndim; d++)
        if (order.strides[1][d] == 0 && order.shape[d] != 1)
            return 0;
    return mylib_layout_is_contiguous(&order, 1, (size_t)size) ||
           (order.strides[1][order.ndim - 1] == size &&
            order.shape[order.ndim - 1] * size >= LONG_ROW_NBYTES);
}

/* Reserves the next part of a call's memory; returns NULL if `memory` is NULL. */
static char *reserve(size_t *used, char *memory, size_t nbytes)
{
    char *place = memory != NULL ? memory + *used : NULL;
    *used += mylib_cuda_align(nbytes);
    return place;
}

/* Divides a call's memory among its uses and returns its size; with NULL, only the size. */
static size_t divide_memory(job *j, const mylib_layout *layout, const piece_sizes *c, char *memory)
{
    const mylib_program *p = j->program;
    const size_t elements = (size_t)c->elements;
    size_t used = 0;
    j->temporary = reserve(&used, memory, elements * mylib_type_size((mylib_type)p->result_type));
    j->parts = reserve(&used, memory, (size_t)c->parts * mylib_type_size(j->part_type));
    j->results = reserve(&used, memory, (size_t)c->outputs * mylib_type_size(j->out_type));
    for (int k = 0; k < p->inputs && !j->is_straight; k++)
        if (!layout->is_host_scalar[1 + k])
            j->input[k] =
                reserve(&used, memory, elements * mylib_type_size((mylib_type)p->input_type[k]));
    return used;
}

/*
 * Chooses pieces of host memory so that the call needs at most nbytes of GPU memory in all; if that
 * is impossible, the smallest pieces.
 */
static piece_sizes choose_streamed_pieces(job *j, const mylib_layout *layout, size_t nbytes)
{
    const mylib_program *p = j->program;
    const int has_columns = lie_side_by_side(layout, j->kept_ndim);
    int64_t most = (int64_t)(nbytes / mylib_type_size((mylib_type)p->result_type));
    j->room = nbytes / 4 > LEAST_ROOM ? nbytes / 4 : LEAST_ROOM;
    if (j->room > MYLIB_TEMPORARY_NBYTES)
        j->room = MYLIB_TEMPORARY_NBYTES;
    for (most = most < layout->count ? most : layout->count;; most -= most / 8 + 1) {
        const piece_sizes c = choose_pieces(j, layout, most, has_columns);
        j->is_straight = is_straight(p, layout, j->kept_ndim, c.is_by_terms);
        const size_t held = divide_memory(j, layout, &c, NULL) +
                            mylib_cuda_temporary_nbytes(p, c.elements, j->room) +
                            (size_t)c.partial * mylib_type_size(j->part_type);
        if (held <= nbytes || most <= MYLIB_BLOCK_TERMS)
            return c;
    }
}

static mylib_status reduce_streamed(job *j, mylib_layout *layout, size_t nbytes)
{
    void *memory = NULL;
    mylib_status st;
    const piece_sizes c = choose_streamed_pieces(j, layout, nbytes);
    MYLIB_TRY(mylib_cuda_alloc(j->device, divide_memory(j, layout, &c, NULL), j->stream, &memory));
    (void)divide_memory(j, layout, &c, memory);
    st = reduce_pieces(j, layout, &c);
out:
    mylib_cuda_discard(j->device, memory, j->stream);
    return st;
}

#ifdef MYLIB_CUDA_FUSED

/* Reduces in one or two launches, and sets the status; false if the program does not fit. */
static int try_reduced(const job *j, const mylib_layout *layout, mylib_status *st_ret)
{
    mylib_fused_args args;
    const mylib_type type = (mylib_type)j->program->result_type;
    const int64_t size = (int64_t)mylib_type_size(type);
    void *partial = NULL;
    mylib_status st = MYLIB_OK;
    if (j->piece_terms.carrier != type || j->piece_terms.type != type || j->out_type != type)
        return 0;
    int64_t parts =
        mylib_fused_init_reduction(&args, j->program, layout, j->kept_ndim, j->reduction);
    if (parts == 0)
        return 0;
    if (parts > 1) {
        MYLIB_TRY(mylib_cuda_alloc(j->device, (size_t)(args.walk.rows * parts * size), j->stream,
                                   &partial));
        mylib_fused_set_partial(&args, partial);
    }
    MYLIB_TRY(mylib_cuda_launch_fused(&args, j->stream));
    if (parts > 1) {
        DECLARE_LAYOUT(out, 1);
        mylib_layout_begin(&out, layout, 1);
        out.ndim = j->kept_ndim;
        mylib_layout_set_operand(&out, 0, layout, 0);
        st = mylib_cuda_reduce_parts(j->device, j->stream, j->reduction, type, parts, partial, &out,
                                     type);
    }
out:
    mylib_cuda_discard(j->device, partial, j->stream);
    *st_ret = st;
    return 1;
}

#endif

/* Fills the job and counts the layout's elements; returns false if there are no outputs. */
static int begin_reduction(job *j, int device, void *stream, mylib_reduction reduction,
                           const mylib_program *program, mylib_type type, mylib_layout *layout,
                           int kept_ndim, mylib_type out_type)
{
    const mylib_type carrier = mylib_carrying_type(reduction, type);
    int64_t outputs = 1;
    memset(j, 0, sizeof *j);
    j->device = device;
    j->stream = stream;
    j->program = program;
    j->room = MYLIB_TEMPORARY_NBYTES;
    j->reduction = reduction;
    j->out_type = out_type;
    j->kept_ndim = kept_ndim;
    j->part_type = mylib_carrying_type(MYLIB_SUM, carrier);
    j->piece_terms = (mylib_terms){type, carrier, 1, {program->result_type}, 0, NULL};
    j->terms = 1;
    for (int d = 0; d < layout->ndim; d++)
        *(d < kept_ndim ? &outputs : &j->terms) *= layout->shape[d];
    layout->count = outputs * j->terms;
    return outputs != 0;
}

/*
 * Returns the op of a program that is only square or absolute of f32 or f64, or only asks, for an
 * extreme as u8, whether an element of two to eight bytes differs from 0; else 0.
 */
static int op_of_terms(const mylib_program *program, mylib_reduction reduction, mylib_type out_type)
{
    const mylib_statement *s = program->statement;
    const uint8_t type = program->result_type;
    if (program->inputs != 1 || program->statements != 1)
        return 0;
    if (type == MYLIB_BOOL && mylib_is_conversion(program) && reduction >= MYLIB_MIN &&
        out_type == MYLIB_U8) {
        const size_t size = mylib_type_size((mylib_type)program->input_type[0]);
        return size > 1 && size <= 8 ? MYLIB_OP_not_equal : 0;
    }
    if (program->input_type[0] != type || type != (uint8_t)out_type ||
        (type != MYLIB_F32 && type != MYLIB_F64))
        return 0;
    for (int k = 0; k < s->operands; k++)
        if (s->operand[k].kind != MYLIB_VALUE_INPUT)
            return 0;
    if (s->opcode == MYLIB_OP_square || s->opcode == MYLIB_OP_multiply)
        return MYLIB_OP_square;
    return s->opcode == MYLIB_OP_absolute ? MYLIB_OP_absolute : 0;
}

mylib_status mylib_cuda_program_reduce(int device, void *stream, mylib_reduction reduction,
                                       const mylib_program *program, mylib_type type,
                                       mylib_layout *layout, int kept_ndim, mylib_type out_type,
                                       const char *const *names)
{
    job j;
    ENTER_DEVICE(device);
    if (!begin_reduction(&j, device, stream, reduction, program, type, layout, kept_ndim, out_type))
        return MYLIB_OK;
    RETURN_IF_ERROR(mylib_cuda_check_memory(device, "out", layout->data[0], out_type, kept_ndim,
                                            layout->strides[0]));
    if (j.terms == 0) {
        /* The program does not run. */
        DECLARE_LAYOUT(l, 2);
        mylib_layout_begin(&l, layout, 2);
        mylib_layout_set_operand(&l, 0, layout, 0);
        mylib_layout_set_contiguous(&l, 1, layout->data[0], 1);
        return mylib_cuda_reduce(device, stream, reduction, &j.piece_terms, &l, kept_ndim, out_type,
                                 names);
    }
    RETURN_IF_ERROR(mylib_cuda_check_operands(device, names, -1, program->input_type, layout));
    mylib_status st;
    mylib_terms terms = j.piece_terms;
    terms.op = (uint8_t)op_of_terms(program, reduction, out_type);
    terms.input_type[0] = program->input_type[0];
    const int is_copy =
        program->inputs == 1 && mylib_is_conversion(program) &&
        (program->result_type == type || program->result_type == program->input_type[0]);
    if ((is_copy || terms.op != 0) &&
        mylib_cuda_try_reduce(device, stream, reduction, &terms, layout, kept_ndim, out_type, &st))
        return st;
#ifdef MYLIB_CUDA_FUSED
    if (try_reduced(&j, layout, &st))
        return st;
#endif
    return reduce_kept(&j, layout);
}

mylib_status mylib_cuda_reduce_host(int device, mylib_reduction reduction,
                                    const mylib_program *program, mylib_type type,
                                    mylib_layout *layout, int kept_ndim, mylib_type out_type)
{
    job j;
    mylib_status st;
    device = mylib_first_gpu(device);
    ENTER_DEVICE(device);
    if (!begin_reduction(&j, device, NULL, reduction, program, type, layout, kept_ndim, out_type))
        return MYLIB_OK;
    j.is_on_host = 1;
    if (j.terms == 0) /* writes 0 or 1 to host memory */
        return mylib_cpu_reduce(reduction, program, type, layout, kept_ndim, out_type);
    for (int k = 1; k < layout->operands; k++)
        layout->is_host_scalar[k] = (uint8_t)mylib_layout_is_single(layout, k);
    size_t nbytes = MYLIB_STREAMED_NBYTES;
    do
        st = reduce_streamed(&j, layout, nbytes);
    while (st == MYLIB_ERR_NO_MEMORY && (nbytes /= 4) >= LEAST_STREAMED_NBYTES);
    return st;
}
