/*
 * functions.c - enqueues functions (ops.h).  Their kernels take contiguous elements of one type;
 * conversion kernels pack all other operands.  Plain C.
 */
#include "cuda_internal.h"

#include "../counting.h"

int64_t mylib_cuda_piece(size_t room, size_t nbytes)
{
    int64_t most = (int64_t)(room / nbytes), least = (int64_t)(room >> 12);
    return most > least ? most : least;
}

typedef struct packing {
    const mylib_statement *statement;
    void *stream;
    mylib_cuda_launch_statement *launch;
    int device;
    char *place[3]; /* temporary memory of the output and the inputs, or NULL */
} packing;

/* Returns the layout's row for operand k: 0 is the output, 1 + j operand j of the statement. */
static int row_of(const mylib_statement *s, int k)
{
    return k == 0 ? 0 : 1 + s->operand[k - 1].index;
}

static mylib_type type_of(const mylib_statement *s, int k)
{
    return (mylib_type)(k == 0 ? s->result_type : s->type);
}

static size_t size_of(const mylib_statement *s, int k) { return mylib_type_size(type_of(s, k)); }

static int needs_packing(const mylib_statement *s, const mylib_layout *l, int k)
{
    const int is_converted = k > 0 && s->operand[k - 1].type != s->type, row = row_of(s, k);
    if (l->is_host_scalar[row])
        return 0;
    if (k > 0 && !is_converted && mylib_layout_is_single(l, row))
        return 0;
    return is_converted || !mylib_layout_is_contiguous(l, row, size_of(s, k));
}

static mylib_status move(const packing *p, const mylib_layout *piece, int k)
{
    const mylib_statement *s = p->statement;
    const mylib_type type = type_of(s, k);
    const mylib_statement conversion =
        mylib_conversion(type, k == 0 ? type : (mylib_type)s->operand[k - 1].type);
    const int to = k == 0 ? 1 : 0; /* the operand in temporary memory */
    DECLARE_LAYOUT(l, 2);
    mylib_layout_begin(&l, piece, 2);
    mylib_layout_set_contiguous(&l, to, p->place[k], size_of(s, k));
    mylib_layout_set_operand(&l, 1 - to, piece, row_of(s, k));
    mylib_layout_simplify(&l);
    return p->launch(&conversion, &l, p->stream);
}

/*
 * From so many elements on, an elementary function of one f16 is computed for all its values first;
 * then each result is a load.
 */
#ifndef MYLIB_TABLED_LEAST
#define MYLIB_TABLED_LEAST (1 << 24)
#endif

/* Returns the operand that alone decides the results, as an f16; -1 if there is none. */
static int tabled_operand(const mylib_function_args *args)
{
    int k = -1, arrays = 0;
    for (int i = 0; i < args->inputs; i++)
        if (args->in[i] != NULL && !args->is_single[i])
            k = i, arrays++;
    return args->type == MYLIB_F16 && mylib_is_elementary(args->opcode) && arrays == 1 ? k : -1;
}

static mylib_status run_function(const mylib_function_args *args, void *stream)
{
    const uint16_t first = 0, step = 1;
    const int k = args->n >= MYLIB_TABLED_LEAST ? tabled_operand(args) : -1;
    const int blocks = k >= 0 ? mylib_tabled_blocks() : 0;
    mylib_function_args all = *args, found = *args;
    mylib_status st = MYLIB_OK;
    int device;
    void *table = NULL;
    if (blocks == 0) {
        CUDA_RETURN_IF_ERROR(mylib_launch_function(args, stream));
        return MYLIB_OK;
    }
    CUDA_RETURN_IF_ERROR(cudaGetDevice(&device));
    RETURN_IF_ERROR(mylib_cuda_alloc(device, MYLIB_TABLE_NBYTES, stream, &table));
    all.n = MYLIB_TABLE_NBYTES / 2;
    all.in[k] = all.out = table;
    all.is_aligned = 1;
    CUDA_TRY(mylib_launch_arange(MYLIB_U16, all.n, table, 2, &first, &step, stream));
    CUDA_TRY(mylib_launch_function(&all, stream));
    found.in[0] = args->in[k];
    found.is_single[0] = 0;
    found.in[1] = table;
    CUDA_TRY(mylib_launch_tabled(&found, blocks, stream));
out:
    mylib_cuda_discard(device, table, stream);
    return st;
}

static mylib_status run_piece(void *context, mylib_layout *piece)
{
    const packing *p = context;
    const mylib_statement *s = p->statement;
    mylib_function_args args = {.n = piece->count,
                                .out = p->place[0] != NULL ? p->place[0] : piece->data[0],
                                .opcode = s->opcode,
                                .type = s->type,
                                .inputs = s->operands};
    uintptr_t bits = (uintptr_t)args.out;
    for (int i = 0; i < s->operands; i++) {
        const int row = row_of(s, 1 + i);
        if (piece->is_host_scalar[row]) {
            mylib_read_constant(s, i, piece->data[row], args.constant[i]);
        } else if (p->place[1 + i] != NULL) {
            RETURN_IF_ERROR(move(p, piece, 1 + i));
            args.in[i] = p->place[1 + i];
        } else {
            args.in[i] = piece->data[row];
            args.is_single[i] = (uint8_t)mylib_layout_is_single(piece, row);
        }
        if (!args.is_single[i])
            bits |= (uintptr_t)args.in[i];
    }
    args.is_aligned = bits % 16 == 0;
    RETURN_IF_ERROR(run_function(&args, p->stream));
    return p->place[0] != NULL ? move(p, piece, 0) : MYLIB_OK;
}

mylib_status mylib_cuda_launch_function(const mylib_statement *s, mylib_layout *layout,
                                        void *stream, mylib_cuda_launch_statement *launch)
{
    packing p = {s, stream, launch, 0, {NULL, NULL, NULL}};
    size_t offset[3], nbytes = 0, sizes = 0;
    void *temporary = NULL;
    for (int k = 0; k <= s->operands; k++)
        sizes += needs_packing(s, layout, k) ? size_of(s, k) : 0;
    if (sizes == 0)
        return run_piece(&p, layout);
    int64_t most = mylib_lesser(mylib_cuda_piece(MYLIB_TEMPORARY_NBYTES, sizes), layout->count);
    for (int k = 0; k <= s->operands; k++) {
        offset[k] = nbytes;
        if (needs_packing(s, layout, k))
            nbytes += mylib_cuda_align((size_t)most * size_of(s, k));
    }
    CUDA_RETURN_IF_ERROR(cudaGetDevice(&p.device));
    RETURN_IF_ERROR(mylib_cuda_alloc(p.device, nbytes, stream, &temporary));
    for (int k = 0; k <= s->operands; k++)
        if (needs_packing(s, layout, k))
            p.place[k] = (char *)temporary + offset[k];
    mylib_status st = mylib_layout_in_pieces(layout, most, MYLIB_MAX_NDIM, run_piece, &p);
    mylib_cuda_discard(p.device, temporary, stream);
    return st;
}
