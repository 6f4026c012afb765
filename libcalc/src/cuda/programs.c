/*
 * programs.c - programs on GPU memory: in one launch where that is possible, else statement by
 * statement.  Plain C, and the same for emulated GPUs.
 *
 * - A program of one statement is a single operation: the kernels of operations run it.
 * - One that fits the arguments of a launch is fused (fused.h), when the library is built so.
 * - All others run statement by statement: each is a single operation, whose result goes to
 *   temporary memory.  Large arrays are computed piece by piece, so that this memory stays bounded,
 *   and mostly in the GPU's cache.
 *
 * All of a call is enqueued on one stream; temporary memory goes back to the pool in its order.
 */
#include <stdlib.h>
#include <string.h>

#include "programs.h"
#ifdef MYLIB_CUDA_FUSED
#include "fused.h"
#endif

/* Of the temporary memory of a call, unless that makes pieces too short to be worth a launch. */
#ifndef MYLIB_TEMPORARY_NBYTES
#define MYLIB_TEMPORARY_NBYTES (32 << 20)
#endif

/*
 * Of the memory of a call that reduces host arrays.  Between two pieces the bus rests for a moment,
 * which is about one in a hundred of the time of a piece.  Where there is not so much, less will
 * do, down to a byte for each term of a block: then a piece is the least that there is.
 */
#ifndef MYLIB_STREAMED_NBYTES
#define MYLIB_STREAMED_NBYTES (560 << 20) /* 512 MiB of elements, and what they need beside */
#endif
#define LEAST_STREAMED_NBYTES MYLIB_BLOCK_TERMS

/* A program's temporary memory may always be so large there: shorter pieces spare little. */
#define LEAST_ROOM (16 << 10)

#define ALIGNMENT 256

/* A call, or the part of it that is being computed. */
typedef struct job {
    int device;
    void *stream;
    const mylib_program *program;
    char *temporary; /* registers, or packed inputs, of place_nbytes each */
    size_t place_nbytes;
    size_t room; /* of temporary memory, at most, unless pieces would be too short */
} job;

typedef mylib_status task(const job *j, mylib_layout *piece);

/* ---- Pieces -------------------------------------------------------------------------------- */

/* How many elements a piece may have that needs 'nbytes' of temporary memory for each. */
static int64_t piece_of(size_t room, size_t nbytes)
{
    int64_t most = (int64_t)(room / nbytes), least = (int64_t)(room >> 12);
    return most > least ? most : least;
}

static size_t aligned(size_t nbytes) { return (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/*
 * Calls the task for parts of the layout of at most 'most' elements: halves of the outermost
 * dimension that has more than one index, and so on.  The layout is restored.
 */
static mylib_status in_pieces(const job *j, mylib_layout *layout, int64_t most, task *run)
{
    int outer = 0;
    mylib_status st = MYLIB_OK;
    if (layout->count <= most || layout->count == 1)
        return run(j, layout);
    while (layout->shape[outer] == 1)
        outer++;
    int64_t size = layout->shape[outer], count = layout->count, done = 0;
    while (done < size && st == MYLIB_OK) {
        layout->shape[outer] = done == 0 ? (size + 1) / 2 : size - done;
        layout->count = count / size * layout->shape[outer];
        st = in_pieces(j, layout, most, run);
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

/* A layout for some of a piece's operands: its dimensions, and no operands yet. */
static void begin_layout(mylib_layout *l, const mylib_layout *piece, int operands)
{
    l->ndim = piece->ndim;
    l->count = piece->count;
    l->operands = operands;
    memcpy(l->shape, piece->shape, sizeof *l->shape * (size_t)piece->ndim);
    memset(l->is_host_scalar, 0, sizeof l->is_host_scalar);
}

/* Operand k is operand 'from' of the piece. */
static void take_operand(mylib_layout *l, int k, const mylib_layout *piece, int from)
{
    l->data[k] = piece->data[from];
    l->is_host_scalar[k] = piece->is_host_scalar[from];
    memcpy(l->strides[k], piece->strides[from], sizeof *l->strides[k] * (size_t)piece->ndim);
}

/* Operand k has its elements without gaps, in the layout's order. */
static void take_contiguous(mylib_layout *l, int k, char *data, size_t size)
{
    int64_t stride = (int64_t)size;
    l->data[k] = data;
    l->is_host_scalar[k] = 0;
    for (int d = l->ndim - 1; d >= 0; d--) {
        l->strides[k][d] = stride;
        stride *= l->shape[d];
    }
}

/* Operand k is one element of host memory. */
static void take_constant(mylib_layout *l, int k, const void *value)
{
    l->data[k] = (char *)(uintptr_t)value; /* only read */
    l->is_host_scalar[k] = 1;
    memset(l->strides[k], 0, sizeof *l->strides[k] * (size_t)l->ndim);
}

/* ---- Statement by statement ---------------------------------------------------------------- */

/* In longer programs it would take too long to look for what is found below. */
#define MAX_SEARCHED 256

/*
 * Whether statement i is a conversion of an input that a single operation uses, which then reads
 * the input itself: the kernels of operations convert what they read.
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
            if ((user >= 0 && user != j) || later->opcode == MYLIB_OPCODE_CONVERT)
                return 0;
            user = j;
        }
        if (later->target == s->target)
            break;
    }
    return user >= 0;
}

/* What operand o of statement i reads: its value, or the input that is left to it. */
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

/* The code of a statement; the types of its inputs are the caller's to set. */
static mylib_status code_of(mylib_code *code, const mylib_statement *s)
{
    mylib_status st = MYLIB_OK;
    if (s->opcode == MYLIB_OPCODE_CONVERT)
        mylib_code_of_conversion(code, (mylib_type)s->type, (mylib_type)s->operand[0].type);
    else if (s->opcode == MYLIB_OPCODE_SELECT)
        *code = (mylib_code){
            s->type, s->type,
            3,       3,
            {0},     {{MYLIB_OPCODE_MASK, 0}, {MYLIB_OPCODE_LOAD, 1}, {MYLIB_OPCODE_SELECT, 2}}};
    else
        st = mylib_code_of_op(code, (mylib_op)s->opcode, (mylib_type)s->type);
    return st;
}

static mylib_status run_statement(const job *j, int i, const mylib_layout *piece)
{
    const mylib_statement *s = &j->program->statement[i];
    mylib_code code;
    mylib_strides strides[4];
    mylib_layout l;
    mylib_status st = code_of(&code, s);
    if (st != MYLIB_OK)
        return st;
    l.strides = strides;
    begin_layout(&l, piece, 1 + s->operands);
    if (s->target == MYLIB_TARGET_OUT)
        take_operand(&l, 0, piece, 0);
    else
        take_contiguous(&l, 0, j->temporary + s->target * j->place_nbytes,
                        mylib_type_size((mylib_type)s->result_type));
    for (int o = 0; o < s->operands; o++) {
        mylib_value v = value_of(j->program, i, o);
        code.input_type[o] = v.type;
        if (v.kind == MYLIB_VALUE_INPUT)
            take_operand(&l, 1 + o, piece, 1 + v.index);
        else if (v.kind == MYLIB_VALUE_CONSTANT)
            take_constant(&l, 1 + o, j->program->constant[v.index].value);
        else
            take_contiguous(&l, 1 + o, j->temporary + v.index * j->place_nbytes,
                            mylib_type_size((mylib_type)v.type));
    }
    mylib_layout_simplify(&l);
    return mylib_cuda_map(j->device, j->stream, &code, &l);
}

static mylib_status run_statements(const job *j, mylib_layout *piece)
{
    mylib_status st = MYLIB_OK;
    for (int i = 0; i < j->program->statements && st == MYLIB_OK; i++)
        if (!is_left_to_user(j->program, i))
            st = run_statement(j, i, piece);
    return st;
}

/* The elements of a piece of 'count' elements that has 'places' of temporary memory. */
static int64_t elements_at_once(const job *j, int64_t count, int places, size_t size)
{
    const int64_t most = piece_of(j->room, (size_t)places * size);
    return most < count ? most : count;
}

/* Calls the task for pieces with 'places' of temporary memory of elements of 'size' bytes. */
static mylib_status run_with_temporaries(job *j, mylib_layout *layout, int places, size_t size,
                                         task *run)
{
    const int64_t most = elements_at_once(j, layout->count, places, size);
    void *temporary = NULL;
    mylib_status st;
    j->place_nbytes = aligned((size_t)most * size);
    MYLIB_TRY(mylib_cuda_alloc(j->device, (size_t)places * j->place_nbytes, j->stream, &temporary));
    j->temporary = temporary;
    st = in_pieces(j, layout, most, run);
    mylib_cuda_discard(j->device, temporary, j->stream);
out:
    return st;
}

/* ---- In one launch ------------------------------------------------------------------------- */

#ifdef MYLIB_CUDA_FUSED

/* Inputs are packed if neighbours in a row would be read from so many rows of memory. */
#define TRANSPOSE_MIN 16
#define PACKED_SIZE 16 /* the room for an element of any type */

/*
 * Whether an input is contiguous along another dimension than the columns: then threads that
 * follow each other would each fetch a cache line for one element of it.
 */
static int is_transposed(const mylib_layout *l, int k, int64_t size)
{
    int inner = l->ndim - 1;
    if (l->is_host_scalar[k] || l->shape[inner] < TRANSPOSE_MIN ||
        llabs(l->strides[k][inner]) <= 4 * size)
        return 0;
    for (int d = 0; d < inner; d++)
        if (llabs(l->strides[k][d]) == size && l->shape[d] >= TRANSPOSE_MIN)
            return 1;
    return 0;
}

static int64_t input_size(const job *j, int k)
{
    return (int64_t)mylib_type_size((mylib_type)j->program->input_type[k - 1]);
}

static mylib_status run_fused(const job *j, mylib_layout *piece)
{
    mylib_fused_args args;
    mylib_fused_fit fit = mylib_fused_init(&args, j->program, piece);
    if (fit == MYLIB_FUSED_TOO_MANY_ELEMENTS)
        return in_pieces(j, piece, MYLIB_FUSED_MAX_GROUPS, run_fused);
    if (fit != MYLIB_FUSED_FITS)
        return mylib_fail(MYLIB_ERR_UNSUPPORTED, "the program does not fit a launch (%d)",
                          (int)fit);
    return mylib_cuda_launch_fused(&args, j->stream);
}

/* Transposed inputs are turned round by the kernels of operations first. */
static mylib_status run_packed(const job *j, mylib_layout *piece)
{
    mylib_strides few[MYLIB_FEW_ROWS], strides[2];
    mylib_layout packed, l;
    int places = 0;
    mylib_status st = mylib_take_rows(&packed, few, piece->operands);
    if (st != MYLIB_OK)
        return st;
    l.strides = strides;
    begin_layout(&packed, piece, piece->operands);
    for (int k = 0; k < piece->operands; k++) {
        take_operand(&packed, k, piece, k);
        if (k == 0 || !is_transposed(piece, k, input_size(j, k)))
            continue;
        mylib_code code;
        mylib_type type = (mylib_type)j->program->input_type[k - 1];
        char *place = j->temporary + (size_t)places++ * j->place_nbytes;
        mylib_code_of_conversion(&code, type, type);
        begin_layout(&l, piece, 2);
        take_contiguous(&l, 0, place, (size_t)input_size(j, k));
        take_operand(&l, 1, piece, k);
        take_contiguous(&packed, k, place, (size_t)input_size(j, k));
        mylib_layout_simplify(&l);
        MYLIB_TRY(mylib_cuda_map(j->device, j->stream, &code, &l));
    }
    mylib_layout_simplify(&packed);
    st = run_fused(j, &packed);
out:
    mylib_free_rows(&packed, few);
    return st;
}

/* False when the program or the layout is not for it, else the status is set. */
static int try_fused(job *j, mylib_layout *layout, mylib_status *st_ret)
{
    mylib_fused_args args;
    mylib_fused_fit fit = mylib_fused_init(&args, j->program, layout);
    int transposed = 0;
    if (fit != MYLIB_FUSED_FITS && fit != MYLIB_FUSED_TOO_MANY_ELEMENTS)
        return 0;
    for (int k = 1; k < layout->operands && layout->ndim > 1; k++)
        transposed += is_transposed(layout, k, input_size(j, k));
    if (transposed > 0)
        *st_ret = run_with_temporaries(j, layout, transposed, PACKED_SIZE, run_packed);
    else if (fit == MYLIB_FUSED_FITS)
        *st_ret = mylib_cuda_launch_fused(&args, j->stream);
    else
        *st_ret = run_fused(j, layout);
    return 1;
}

#endif

/* ---- Entry points -------------------------------------------------------------------------- */

/* Runs the job's program over the layout; changes the temporary memory that it notes. */
static mylib_status enqueue(job *j, mylib_layout *layout)
{
    const mylib_program *p = j->program;
    if (p->statements == 1)
        return run_statement(j, 0, layout);
#ifdef MYLIB_CUDA_FUSED
    mylib_status st;
    if (try_fused(j, layout, &st))
        return st;
#endif
    return run_with_temporaries(j, layout, p->registers, p->max_register_size, run_statements);
}

/* The temporary memory of run_with_temporaries(). */
static size_t temporary_nbytes(const job *j, int64_t count, int places, size_t size)
{
    if (places == 0)
        return 0;
    return (size_t)places * aligned((size_t)elements_at_once(j, count, places, size) * size);
}

/* The most temporary memory that enqueue() takes for so many elements. */
static size_t most_temporary_nbytes(const job *j, int64_t count)
{
    const mylib_program *p = j->program;
    if (p->statements == 1)
        return 0;
    const size_t registers = temporary_nbytes(j, count, p->registers, p->max_register_size);
#ifdef MYLIB_CUDA_FUSED
    const size_t packed = temporary_nbytes(j, count, p->inputs, PACKED_SIZE);
    return packed > registers ? packed : registers;
#else
    return registers;
#endif
}

mylib_status mylib_cuda_enqueue(int device, void *stream, const mylib_program *program,
                                mylib_layout *layout)
{
    job j = {device, stream, program, NULL, 0, MYLIB_TEMPORARY_NBYTES};
    return enqueue(&j, layout);
}

static mylib_status check_operands(int device, const mylib_program *program,
                                   const mylib_layout *layout)
{
    mylib_status st = MYLIB_OK;
    for (int k = 1; k < layout->operands && st == MYLIB_OK; k++)
        if (!layout->is_host_scalar[k])
            st = mylib_cuda_check_memory(device, mylib_operand_names[k], layout->data[k],
                                         (mylib_type)program->input_type[k - 1], layout->ndim,
                                         layout->strides[k]);
    return st;
}

mylib_status mylib_cuda_run(int device, void *stream, const mylib_program *program,
                            mylib_layout *layout)
{
    int previous;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (layout->count == 0)
        goto out;
    MYLIB_TRY(mylib_cuda_check_memory(device, mylib_operand_names[0], layout->data[0],
                                      (mylib_type)program->result_type, layout->ndim,
                                      layout->strides[0]));
    MYLIB_TRY(check_operands(device, program, layout));
    st = mylib_cuda_enqueue(device, stream, program, layout);
out:
    mylib_cuda_leave(previous);
    return st;
}

/* ---- Reductions ---------------------------------------------------------------------------- */

/*
 * What a program gives goes to temporary memory and is reduced from there: some outputs at a time,
 * with all of their terms, or some terms of some outputs.  In memory the outputs lie side by side
 * where they do so in the inputs.
 *
 * Of host arrays each piece goes to the GPU first, in the order in which it lies in memory: what is
 * repeated goes once, what is the same for all elements goes with the launches.  Only a program
 * that changes nothing has its input where the values are wanted, unless that would take it apart.
 */
typedef struct reduction_job {
    job base; /* first: a task gets it */
    mylib_reduction reduction;
    mylib_type out_type;
    mylib_code code; /* of the reduction of a piece: loads what the program gave */
    int kept_ndim;
    int64_t terms;
    int64_t most; /* elements of temporary memory */
    char *parts;  /* what some terms at a time gave, of all outputs of a piece: levels of them */
    mylib_type part_type;
    int is_on_host;                        /* the arrays are */
    int is_straight;                       /* the values are copied to their place as they are */
    char *input[MYLIB_PROGRAM_MAX_INPUTS]; /* elements of host arrays */
    char *results;                         /* of a piece, for a host array */
} reduction_job;

/* Memory for the elements of a box of operand k, as they lie in its own; what is repeated once. */
static void take_as_stored(mylib_layout *l, char *data, size_t size, const mylib_layout *box, int k)
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

/* Elements of operand k between the host and the GPU, where `there` has them as operand 0. */
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

/* The inputs of a box to the GPU; l, a copy of the box, then has them there. */
static mylib_status bring_inputs(const reduction_job *j, mylib_layout *l, const mylib_layout *box)
{
    const mylib_program *p = j->base.program;
    mylib_strides strides[2];
    mylib_layout there;
    mylib_status st = MYLIB_OK;
    there.strides = strides;
    for (int k = 1; k < box->operands && st == MYLIB_OK; k++) {
        const mylib_type type = (mylib_type)p->input_type[k - 1];
        if (box->is_host_scalar[k])
            continue;
        take_as_stored(l, j->input[k - 1], mylib_type_size(type), box, k);
        begin_layout(&there, box, 2);
        take_operand(&there, 0, l, k);
        take_operand(&there, 1, box, k);
        st = copy_host(&j->base, &there, 0, type);
    }
    return st;
}

/* Runs the program over the layout, and puts what it gives to 'values'. */
static mylib_status run_to(const job *j, const mylib_layout *layout, char *values)
{
    const reduction_job *r = (const reduction_job *)j;
    const mylib_type type = (mylib_type)j->program->result_type;
    const int is_copied = r->is_on_host && r->is_straight;
    mylib_strides few[MYLIB_FEW_ROWS];
    mylib_layout l;
    mylib_status st = mylib_take_rows(&l, few, layout->operands);
    if (st != MYLIB_OK)
        return st;
    begin_layout(&l, layout, layout->operands);
    take_contiguous(&l, 0, values, mylib_type_size(type));
    for (int k = 1; k < layout->operands; k++)
        take_operand(&l, k, layout, k);
    if (is_copied) {
        st = copy_host(j, &l, 0, type);
        goto out;
    }
    if (r->is_on_host)
        MYLIB_TRY(bring_inputs(r, &l, layout));
    mylib_layout_simplify(&l);
    job own = *j; /* whose temporary memory is another than that of the reduction */
    st = enqueue(&own, &l);
out:
    mylib_free_rows(&l, few);
    return st;
}

/* The outputs of a piece, where the GPU writes them. */
static void begin_outputs(const reduction_job *j, mylib_layout *out, const mylib_layout *piece)
{
    begin_layout(out, piece, 1);
    out->ndim = j->kept_ndim;
    out->count = piece->count / j->terms;
    if (j->is_on_host)
        take_contiguous(out, 0, j->results, mylib_type_size(j->out_type));
    else
        take_operand(out, 0, piece, 0);
}

/* Results to where the host wants them. */
static mylib_status end_outputs(const reduction_job *j, const mylib_layout *out,
                                const mylib_layout *piece)
{
    mylib_strides strides[2];
    mylib_layout back;
    if (!j->is_on_host)
        return MYLIB_OK;
    back.strides = strides;
    begin_layout(&back, out, 2);
    take_operand(&back, 1, out, 0);
    back.data[0] = piece->data[0];
    memcpy(back.strides[0], piece->strides[0], sizeof *back.strides[0] * (size_t)back.ndim);
    return copy_host(&j->base, &back, 1, j->out_type);
}

/* Some outputs with all of their terms. */
static mylib_status reduce_outputs(const job *base, mylib_layout *piece)
{
    const reduction_job *j = (const reduction_job *)base;
    mylib_strides strides[3];
    mylib_layout l, out;
    mylib_status st;
    l.strides = strides;
    out.strides = strides + 2;
    MYLIB_TRY(run_to(base, piece, base->temporary));
    begin_outputs(j, &out, piece);
    begin_layout(&l, &out, 2);
    l.count = piece->count;
    l.ndim = j->kept_ndim + 1;
    l.shape[j->kept_ndim] = j->terms;
    take_operand(&l, 0, &out, 0);
    l.strides[0][j->kept_ndim] = 0;
    take_contiguous(&l, 1, base->temporary,
                    mylib_type_size((mylib_type)base->program->result_type));
    MYLIB_TRY(mylib_cuda_reduce(base->device, base->stream, j->reduction, &j->code, &l,
                                j->kept_ndim, j->out_type));
    st = end_outputs(j, &out, piece);
out:
    return st;
}

/*
 * Elements [begin, end) of the dimensions from d on, in C order, to 'values': a few boxes.  The
 * layout has one index in the dimensions before; it is restored.
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
        /* Whole indices of this dimension at once, or a part of one. */
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

/* The layout with its kept dimensions behind the others: the outputs side by side. */
static void turn_round(mylib_layout *l, const mylib_layout *piece, int kept_ndim)
{
    begin_layout(l, piece, piece->operands);
    for (int k = 0; k < l->operands; k++) {
        take_operand(l, k, piece, k);
        for (int d = 0; d < l->ndim; d++)
            l->strides[k][d] = piece->strides[k][(d + kept_ndim) % l->ndim];
    }
    for (int d = 0; d < l->ndim; d++)
        l->shape[d] = piece->shape[(d + kept_ndim) % l->ndim];
}

/* So many terms of each of some outputs fit: all, or whole blocks, 2^k of them. */
static int64_t terms_at_once(const reduction_job *j, int64_t outputs)
{
    int64_t most = j->most / outputs, terms = MYLIB_BLOCK_TERMS;
    if (j->terms <= most)
        return j->terms;
    while (2 * terms <= most)
        terms *= 2;
    return terms;
}

/*
 * What some terms at a time give is combined PARTS at a time, and what that gives again: with one
 * level of parts for all their memory could be larger than the pieces.  A power of two, so that all
 * are whole subtrees of the order.
 */
#define PARTS 64

/* Levels of parts that so many terms need, so many at once. */
static int levels_of(int64_t terms, int64_t at_once)
{
    int levels = 0;
    for (int64_t parts = (terms - 1) / at_once + 1; parts > 1; parts = (parts - 1) / PARTS + 1)
        levels++;
    return levels;
}

/* Some outputs of which some terms are reduced at a time. */
typedef struct terms_job {
    const reduction_job *j;
    mylib_layout turned; /* its outputs side by side */
    int64_t outputs, at_once;
} terms_job;

/* Terms [begin, end), which fit the temporary memory, to `target`, operand 0. */
static mylib_status reduce_some(terms_job *t, int64_t begin, int64_t end,
                                const mylib_layout *target, mylib_type type)
{
    const reduction_job *j = t->j;
    const job *base = &j->base;
    const int64_t value_size = (int64_t)mylib_type_size((mylib_type)base->program->result_type);
    mylib_strides strides[2];
    mylib_layout l;
    mylib_status st =
        run_elements(base, &t->turned, 0, begin * t->outputs, end * t->outputs, base->temporary);
    if (st != MYLIB_OK)
        return st;
    l.strides = strides;
    begin_layout(&l, target, 2);
    l.count = t->outputs * (end - begin);
    take_operand(&l, 0, target, 0);
    take_contiguous(&l, 1, base->temporary, (size_t)value_size);
    l.ndim++;
    l.shape[j->kept_ndim] = end - begin;
    l.strides[0][j->kept_ndim] = 0;
    l.strides[1][j->kept_ndim] = t->outputs * value_size;
    return mylib_cuda_reduce(base->device, base->stream, j->reduction, &j->code, &l, j->kept_ndim,
                             type);
}

/* Terms [begin, end), with so many levels of parts below them, to `target`. */
static mylib_status reduce_levels(terms_job *t, int levels, int64_t begin, int64_t end,
                                  const mylib_layout *target, mylib_type type)
{
    const reduction_job *j = t->j;
    const size_t size = mylib_type_size(j->part_type);
    const int64_t nbytes = t->outputs * (int64_t)size;
    int64_t step = t->at_once, parts = 0;
    mylib_strides strides;
    mylib_layout part;
    mylib_status st = MYLIB_OK;
    if (levels == 0)
        return reduce_some(t, begin, end, target, type);
    part.strides = &strides;
    for (int i = 1; i < levels; i++)
        step *= PARTS;
    char *const first = j->parts + (levels - 1) * PARTS * nbytes;
    begin_layout(&part, target, 1);
    for (; begin < end && st == MYLIB_OK; begin += step, parts++) {
        take_contiguous(&part, 0, first + parts * nbytes, size);
        st = reduce_levels(t, levels - 1, begin, end - begin < step ? end : begin + step, &part,
                           j->part_type);
    }
    if (st == MYLIB_OK)
        st = mylib_cuda_reduce_parts(j->base.device, j->base.stream, j->reduction,
                                     (mylib_type)j->code.type, parts, first, target, type);
    return st;
}

/* Some outputs, some terms at a time: aligned groups of blocks, combined level by level. */
static mylib_status reduce_terms(const job *base, mylib_layout *piece)
{
    const reduction_job *j = (const reduction_job *)base;
    mylib_strides few[MYLIB_FEW_ROWS], strides;
    mylib_layout out;
    terms_job t = {.j = j, .outputs = piece->count / j->terms};
    mylib_status st = mylib_take_rows(&t.turned, few, piece->operands);
    if (st != MYLIB_OK)
        return st;
    out.strides = &strides;
    t.at_once = terms_at_once(j, t.outputs);
    turn_round(&t.turned, piece, j->kept_ndim);
    begin_outputs(j, &out, piece);
    MYLIB_TRY(reduce_levels(&t, levels_of(j->terms, t.at_once), 0, j->terms, &out, j->out_type));
    st = end_outputs(j, &out, piece);
out:
    mylib_free_rows(&t.turned, few);
    return st;
}

/* Whether the outputs lie closer together than their terms, in the first input that tells. */
static int are_columns(const mylib_layout *l, int kept_ndim)
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

/*
 * Columns are reduced by many threads that each go through a long one: with pieces of the usual
 * size a large GPU would mostly wait.
 */
#define COLUMNS_FACTOR 4

/* How a reduction is cut, and the memory that it needs. */
typedef struct cutting {
    int is_by_terms;
    int64_t outputs;  /* of a piece, at most */
    int64_t elements; /* of temporary memory */
    int64_t parts;    /* of all levels and outputs */
    int64_t partial;  /* results of a piece that the kernels may have to combine */
} cutting;

/* Cuts a reduction whose temporary memory has room for `most` elements. */
static cutting cut(reduction_job *j, const mylib_layout *layout, int64_t most, int has_columns)
{
    cutting c = {.outputs = layout->count / j->terms};
    j->most = most;
    /* Of columns rather some blocks of many than all of few. */
    c.is_by_terms = has_columns || j->terms > most;
    const int64_t least =
        c.is_by_terms && j->terms > MYLIB_BLOCK_TERMS ? MYLIB_BLOCK_TERMS : j->terms;
    const int64_t side_by_side = has_columns || !c.is_by_terms ? most / least : 1;
    if (c.outputs > side_by_side)
        c.outputs = side_by_side > 1 ? side_by_side : 1;
    /* Pieces of fewer outputs have fewer parts. */
    const int64_t at_once = c.is_by_terms ? terms_at_once(j, c.outputs) : j->terms;
    const int levels = levels_of(j->terms, at_once);
    c.parts = c.outputs * (levels > 1 ? levels * PARTS : (j->terms - 1) / at_once + 1);
    c.elements = least * c.outputs;
    c.elements = c.elements > most ? c.elements : most;
    c.elements = c.elements < layout->count ? c.elements : layout->count;
    c.partial = j->terms > MYLIB_BLOCK_TERMS ? c.elements / MYLIB_BLOCK_TERMS + c.outputs : 0;
    return c;
}

/* Runs on pieces of the kept dimensions, with all of the others. */
static mylib_status run_cut(reduction_job *j, mylib_layout *layout, const cutting *c)
{
    /* The outermost dimensions are the kept ones: they are halved first. */
    return in_pieces(&j->base, layout, c->outputs * j->terms,
                     c->is_by_terms ? reduce_terms : reduce_outputs);
}

/* A reduction of GPU memory. */
static mylib_status reduce_kept(reduction_job *j, mylib_layout *layout)
{
    const size_t size = mylib_type_size((mylib_type)j->base.program->result_type);
    const int has_columns = are_columns(layout, j->kept_ndim);
    const cutting c = cut(
        j, layout, piece_of(j->base.room, size) * (has_columns ? COLUMNS_FACTOR : 1), has_columns);
    const size_t nbytes = aligned((size_t)c.elements * size);
    void *temporary = NULL;
    mylib_status st;
    MYLIB_TRY(mylib_cuda_alloc(j->base.device,
                               nbytes + (size_t)c.parts * mylib_type_size(j->part_type),
                               j->base.stream, &temporary));
    j->base.temporary = temporary;
    j->parts = j->base.temporary + nbytes;
    st = run_cut(j, layout, &c);
out:
    mylib_cuda_discard(j->base.device, temporary, j->base.stream);
    return st;
}

/* ---- Reductions of host arrays ------------------------------------------------------------- */

/* Rows of so many bytes are worth a copy each. */
#define LONG_ROW_NBYTES 1024

/*
 * Whether the program is a copy of its input, and the elements lie in the order of the values, or
 * long rows of them do.
 */
static int is_straight(const mylib_program *p, const mylib_layout *layout, int kept_ndim,
                       int is_by_terms)
{
    const mylib_statement *first = p->statement;
    const int64_t size = (int64_t)mylib_type_size((mylib_type)p->result_type);
    mylib_strides strides[2];
    mylib_layout order;
    if (p->statements != 1 || first->opcode != MYLIB_OPCODE_CONVERT || p->inputs != 1 ||
        first->operand[0].kind != MYLIB_VALUE_INPUT || p->input_type[0] != p->result_type ||
        layout->is_host_scalar[1])
        return 0;
    order.strides = strides;
    if (is_by_terms)
        turn_round(&order, layout, kept_ndim);
    else
        mylib_layout_copy(&order, layout);
    for (int d = 0; d < order.ndim; d++)
        if (order.strides[1][d] == 0 && order.shape[d] != 1)
            return 0;
    return mylib_layout_is_contiguous(&order, 1, (size_t)size) ||
           (order.strides[1][order.ndim - 1] == size &&
            order.shape[order.ndim - 1] * size >= LONG_ROW_NBYTES);
}

/* Room in a call's memory, if there is that. */
static char *take_room(size_t *used, char *memory, size_t nbytes)
{
    char *place = memory != NULL ? memory + *used : NULL;
    *used += aligned(nbytes);
    return place;
}

/* Divides a call's memory, and tells how much it is: first without any, to know that. */
static size_t divide_memory(reduction_job *j, const mylib_layout *layout, const cutting *c,
                            char *memory)
{
    const mylib_program *p = j->base.program;
    const size_t elements = (size_t)c->elements;
    size_t used = 0;
    j->base.temporary =
        take_room(&used, memory, elements * mylib_type_size((mylib_type)p->result_type));
    j->parts = take_room(&used, memory, (size_t)c->parts * mylib_type_size(j->part_type));
    j->results = take_room(&used, memory, (size_t)c->outputs * mylib_type_size(j->out_type));
    for (int k = 0; k < p->inputs && !j->is_straight; k++)
        if (!layout->is_host_scalar[1 + k])
            j->input[k] =
                take_room(&used, memory, elements * mylib_type_size((mylib_type)p->input_type[k]));
    return used;
}

/*
 * Cuts a reduction of host memory so that all that it holds at once is at most nbytes, the memory
 * of the kernels that it calls too; into the least pieces, if need be.
 */
static cutting cut_streamed(reduction_job *j, const mylib_layout *layout, size_t nbytes)
{
    const mylib_program *p = j->base.program;
    const int has_columns = are_columns(layout, j->kept_ndim);
    int64_t most = (int64_t)(nbytes / mylib_type_size((mylib_type)p->result_type));
    j->base.room = nbytes / 4 > LEAST_ROOM ? nbytes / 4 : LEAST_ROOM;
    if (j->base.room > MYLIB_TEMPORARY_NBYTES)
        j->base.room = MYLIB_TEMPORARY_NBYTES;
    for (most = most < layout->count ? most : layout->count;; most -= most / 8 + 1) {
        const cutting c = cut(j, layout, most, has_columns);
        j->is_straight = is_straight(p, layout, j->kept_ndim, c.is_by_terms);
        const size_t held = divide_memory(j, layout, &c, NULL) +
                            most_temporary_nbytes(&j->base, c.elements) +
                            (size_t)c.partial * mylib_type_size(j->part_type);
        if (held <= nbytes || most <= MYLIB_BLOCK_TERMS)
            return c;
    }
}

/* A reduction of host memory, piece by piece in at most nbytes of GPU memory. */
static mylib_status reduce_streamed(reduction_job *j, mylib_layout *layout, size_t nbytes)
{
    void *memory = NULL;
    mylib_status st;
    const cutting c = cut_streamed(j, layout, nbytes);
    MYLIB_TRY(mylib_cuda_alloc(j->base.device, divide_memory(j, layout, &c, NULL), j->base.stream,
                               &memory));
    (void)divide_memory(j, layout, &c, memory);
    st = run_cut(j, layout, &c);
out:
    mylib_cuda_discard(j->base.device, memory, j->base.stream);
    return st;
}

#ifdef MYLIB_CUDA_FUSED

/*
 * In one launch, and one more when there are several parts of an output to be combined.  False when
 * the program or the layout is not for it, else the status is set.
 */
static int try_reduced(const reduction_job *j, const mylib_layout *layout, mylib_status *st_ret)
{
    mylib_fused_args args;
    const mylib_type type = (mylib_type)j->base.program->result_type;
    const int64_t size = (int64_t)mylib_type_size(type);
    void *partial = NULL;
    mylib_status st = MYLIB_OK;
    if (j->code.type != type || j->code.result_type != type || j->out_type != type)
        return 0;
    int64_t parts =
        mylib_fused_init_reduction(&args, j->base.program, layout, j->kept_ndim, j->reduction);
    if (parts == 0)
        return 0;
    if (parts == 1) {
        args.data[0] = layout->data[0];
        args.strides[0][0] = j->kept_ndim == 0 ? 0 : layout->strides[0][0];
    } else {
        MYLIB_TRY(mylib_cuda_alloc(j->base.device, (size_t)(args.rows * parts * size),
                                   j->base.stream, &partial));
        args.data[0] = partial;
        args.strides[0][0] = size;
    }
    args.part_stride = args.rows * size;
    MYLIB_TRY(mylib_cuda_launch_fused(&args, j->base.stream));
    if (parts > 1) {
        mylib_strides strides;
        mylib_layout out;
        out.strides = &strides;
        begin_layout(&out, layout, 1);
        out.ndim = j->kept_ndim;
        take_operand(&out, 0, layout, 0);
        st = mylib_cuda_reduce_parts(j->base.device, j->base.stream, j->reduction, type, parts,
                                     partial, &out, type);
    }
out:
    mylib_cuda_discard(j->base.device, partial, j->base.stream);
    *st_ret = st;
    return 1;
}

#endif

/* Fills the job, and counts the layout's elements; false when there are no outputs. */
static int begin_reduction(reduction_job *j, int device, void *stream, mylib_reduction reduction,
                           const mylib_program *program, mylib_type type, mylib_layout *layout,
                           int kept_ndim, mylib_type out_type)
{
    const mylib_type carrier = mylib_carrying_type(reduction, type);
    int64_t outputs = 1;
    memset(j, 0, sizeof *j);
    j->base = (job){device, stream, program, NULL, 0, MYLIB_TEMPORARY_NBYTES};
    j->reduction = reduction;
    j->out_type = out_type;
    j->kept_ndim = kept_ndim;
    j->part_type = mylib_cuda_part_type(carrier);
    j->code.type = (uint8_t)carrier;
    j->code.result_type = (uint8_t)type;
    j->code.inputs = j->code.instructions = 1;
    j->code.input_type[0] = program->result_type;
    j->code.code[0] = (mylib_instruction){MYLIB_OPCODE_LOAD, 0};
    j->terms = 1;
    for (int d = 0; d < layout->ndim; d++)
        *(d < kept_ndim ? &outputs : &j->terms) *= layout->shape[d];
    layout->count = outputs * j->terms;
    return outputs != 0;
}

mylib_status mylib_cuda_program_reduce(int device, void *stream, mylib_reduction reduction,
                                       const mylib_program *program, mylib_type type,
                                       mylib_layout *layout, int kept_ndim, mylib_type out_type)
{
    int previous;
    reduction_job j;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (!begin_reduction(&j, device, stream, reduction, program, type, layout, kept_ndim, out_type))
        goto out;
    MYLIB_TRY(mylib_cuda_check_memory(device, "out", layout->data[0], out_type, kept_ndim,
                                      layout->strides[0]));
    if (j.terms == 0) {
        /* No terms: the program does not run, and what there would be to load is not looked at. */
        mylib_strides strides[2];
        mylib_layout l;
        l.strides = strides;
        begin_layout(&l, layout, 2);
        take_operand(&l, 0, layout, 0);
        take_contiguous(&l, 1, layout->data[0], 1);
        st = mylib_cuda_reduce(device, stream, reduction, &j.code, &l, kept_ndim, out_type);
        goto out;
    }
    MYLIB_TRY(check_operands(device, program, layout));
#ifdef MYLIB_CUDA_FUSED
    if (try_reduced(&j, layout, &st))
        goto out;
#endif
    st = reduce_kept(&j, layout);
out:
    mylib_cuda_leave(previous);
    return st;
}

mylib_status mylib_cuda_reduce_host(int device, mylib_reduction reduction,
                                    const mylib_program *program, mylib_type type,
                                    mylib_layout *layout, int kept_ndim, mylib_type out_type)
{
    int previous;
    reduction_job j;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (!begin_reduction(&j, device, NULL, reduction, program, type, layout, kept_ndim, out_type))
        goto out;
    j.is_on_host = 1;
    if (j.terms == 0) {
        /* Nothing is computed: 0 or 1 is written to host memory. */
        st = mylib_cpu_reduce(reduction, program, type, layout, kept_ndim, out_type);
        goto out;
    }
    for (int k = 1; k < layout->operands; k++) {
        layout->is_host_scalar[k] = 1;
        for (int d = 0; d < layout->ndim; d++)
            layout->is_host_scalar[k] &= layout->strides[k][d] == 0 || layout->shape[d] == 1;
    }
    size_t nbytes = MYLIB_STREAMED_NBYTES;
    do
        st = reduce_streamed(&j, layout, nbytes);
    while (st == MYLIB_ERR_NO_MEMORY && (nbytes /= 4) >= LEAST_STREAMED_NBYTES);
out:
    mylib_cuda_leave(previous);
    return st;
}
