/*
 * functions.c - enqueues functions (ops.h): their kernels take contiguous elements of one type, and
 * operands of any other kind are packed by the kernels of conversions.  Plain C.
 */
#include "cuda_internal.h"

int64_t mylib_cuda_piece(size_t room, size_t nbytes)
{
    int64_t most = (int64_t)(room / nbytes), least = (int64_t)(room >> 12);
    return most > least ? most : least;
}

typedef struct packing {
    const mylib_code *code;
    void *stream;
    mylib_cuda_launch_code *launch;
    int device;
    char *place[3]; /* temporary memory of the output and the inputs, or NULL */
} packing;

static size_t size_of(const mylib_code *code, int k)
{
    return mylib_type_size((mylib_type)(k == 0 ? code->result_type : code->type));
}

/* Tells whether an operand is the same element for all. */
static int is_single(const mylib_layout *l, int k)
{
    for (int d = 0; d < l->ndim; d++)
        if (l->strides[k][d] != 0 && l->shape[d] > 1)
            return 0;
    return 1;
}

/* Tells whether the kernel cannot take an operand as it is. */
static int needs_packing(const mylib_code *code, const mylib_layout *l, int k)
{
    const int is_converted = k > 0 && code->input_type[k - 1] != code->type;
    if (l->is_host_scalar[k])
        return 0;
    if (k > 0 && !is_converted && is_single(l, k))
        return 0;
    return is_converted || !mylib_layout_is_contiguous(l, k, size_of(code, k));
}

/* Enqueues a conversion between operand k and its place. */
static mylib_status move(const packing *p, const mylib_layout *piece, int k)
{
    mylib_strides strides[2];
    mylib_layout l;
    mylib_code code;
    const mylib_type type = (mylib_type)(k == 0 ? p->code->result_type : p->code->type);
    l.strides = strides;
    mylib_layout_begin(&l, piece, 2);
    mylib_code_of_conversion(&code, type, k == 0 ? type : (mylib_type)p->code->input_type[k - 1]);
    if (k == 0)
        mylib_layout_set_operand(&l, 0, piece, 0);
    else
        mylib_layout_set_contiguous(&l, 0, p->place[k], size_of(p->code, k));
    if (k == 0)
        mylib_layout_set_contiguous(&l, 1, p->place[0], size_of(p->code, 0));
    else
        mylib_layout_set_operand(&l, 1, piece, k);
    mylib_layout_simplify(&l);
    return p->launch(&code, &l, p->stream);
}

static mylib_status run_piece(void *context, mylib_layout *piece)
{
    const packing *p = context;
    const mylib_code *code = p->code;
    mylib_function_args args = {.n = piece->count,
                                .out = p->place[0] != NULL ? p->place[0] : piece->data[0],
                                .opcode = code->code[1].opcode,
                                .type = code->type,
                                .inputs = code->inputs};
    uintptr_t bits = (uintptr_t)args.out;
    for (int k = 1; k < piece->operands; k++) {
        const int slot = code->code[0].operand == k - 1 ? 0 : 1;
        if (piece->is_host_scalar[k]) {
            mylib_read_constant(code, k - 1, piece->data[k], args.constant[slot]);
        } else if (p->place[k] != NULL) {
            RETURN_IF_ERROR(move(p, piece, k));
            args.in[slot] = p->place[k];
        } else {
            args.in[slot] = piece->data[k];
            args.is_single[slot] = (uint8_t)is_single(piece, k);
        }
        if (!args.is_single[slot])
            bits |= (uintptr_t)args.in[slot];
    }
    args.is_aligned = bits % 16 == 0;
    CUDA_RETURN_IF_ERROR(mylib_launch_function(&args, p->stream));
    return p->place[0] != NULL ? move(p, piece, 0) : MYLIB_OK;
}

mylib_status mylib_cuda_launch_function(const mylib_code *code, mylib_layout *layout, void *stream,
                                        mylib_cuda_launch_code *launch)
{
    packing p = {code, stream, launch, 0, {NULL, NULL, NULL}};
    size_t offset[3], nbytes = 0, sizes = 0;
    void *temporary = NULL;
    for (int k = 0; k < layout->operands; k++)
        sizes += needs_packing(code, layout, k) ? size_of(code, k) : 0;
    if (sizes == 0)
        return run_piece(&p, layout);
    int64_t most = mylib_cuda_piece(MYLIB_TEMPORARY_NBYTES, sizes);
    most = most < layout->count ? most : layout->count;
    for (int k = 0; k < layout->operands; k++) {
        offset[k] = nbytes;
        if (needs_packing(code, layout, k))
            nbytes += mylib_cuda_align((size_t)most * size_of(code, k));
    }
    CUDA_RETURN_IF_ERROR(cudaGetDevice(&p.device));
    RETURN_IF_ERROR(mylib_cuda_alloc(p.device, nbytes, stream, &temporary));
    for (int k = 0; k < layout->operands; k++)
        if (needs_packing(code, layout, k))
            p.place[k] = (char *)temporary + offset[k];
    mylib_status st = mylib_layout_in_pieces(layout, most, MYLIB_MAX_NDIM, run_piece, &p);
    mylib_cuda_discard(p.device, temporary, stream);
    return st;
}
