/*
 * cuda/reduce.c - reductions of GPU memory: divides the work, and launches the kernels of
 * reduce.cu. Plain C.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"

#include "../counting.h"

/* Enough warps, or thread blocks, to fill the largest GPU. */
#define ENOUGH_WARPS 1024
#define ENOUGH_BLOCKS 2048
/* Blocks of strided terms that let each warp of the largest GPU take one. */
#ifndef ENOUGH_BLOCKS_OF_TERMS
#define ENOUGH_BLOCKS_OF_TERMS 4096
#endif
/* The minimum work of a thread block on integers: rows for each thread, or bytes in all. */
#define INTEGER_ROWS 8
#define INTEGER_NBYTES (16 << 10)
#define LEAST_RUN_NBYTES 2048
/* Bytes that one thread block reduces before a second launch could begin. */
#define ONE_BLOCK_NBYTES (128 << 10)
/* The most integers of an output that a thread block combines across. */
#define MOST_INTEGERS (MYLIB_EXACT_TERMS * MYLIB_CUDA_WARPS)
/* While thread blocks are fewer, more threads share each column; they take this much of a row. */
#define ENOUGH_COLUMN_BLOCKS 512
#define LEAST_ROW_NBYTES 64
/* Parts of each output that a thread combines before it is worth another launch. */
#define MOST_PARTS 16
/* The minimum for transposed terms: bytes, terms of a run, and thread blocks. */
#ifndef LEAST_TRANSPOSED_NBYTES
#define LEAST_TRANSPOSED_NBYTES (24 << 20)
#endif
#ifndef LEAST_TRANSPOSED_RUN
#define LEAST_TRANSPOSED_RUN 1000
#endif
#define ENOUGH_TRANSPOSED_BLOCKS 200
/* Windows of a share of a run: it may load one more. */
#define LEAST_WINDOWS 8
/* Outputs whose few terms are worth a program. */
#ifndef LEAST_OUTPUTS
#define LEAST_OUTPUTS (64 << 10)
#endif
/* The most outputs of a piece of memory for which a program is slower. */
#define FEW_OUTPUTS 8
/* The maximum thread blocks in clusters that all run at once. */
#define MOST_IN_CLUSTERS 512

/* Returns the type to which values are narrowed before they are widened to the carrier. */
static uint8_t narrowing(mylib_type stored, mylib_type type, mylib_type carrier)
{
    return stored == type || type == carrier || stored == MYLIB_BOOL ? MYLIB_NOT_NARROWED
                                                                     : (uint8_t)type;
}

/* Sets the arguments for the outputs, operand 0. */
static void set_outputs(mylib_reduce_args *args, mylib_reduction reduction, mylib_type carrier,
                        const mylib_layout *layout, int kept_ndim, mylib_type out_type)
{
    memset(args, 0, offsetof(mylib_reduce_args, shape));
    args->reduction = (int32_t)reduction;
    args->carrier = args->computed = (int32_t)mylib_carrying_type(MYLIB_SUM, carrier);
    args->out_type = (int32_t)out_type;
    args->out_size = (int32_t)mylib_type_size(out_type);
    args->kept_ndim = kept_ndim;
    args->ndim = layout->ndim;
    args->out = layout->data[0];
    args->outputs = args->terms = args->tiles = 1;
    for (int d = 0; d < args->ndim; d++) {
        args->shape[d] = layout->shape[d];
        args->out_strides[d] = layout->strides[0][d];
        *(d < kept_ndim ? &args->outputs : &args->terms) *= layout->shape[d];
    }
    args->is_out_dense = 1;
    int64_t dense = args->out_size;
    for (int d = kept_ndim - 1; d >= 0; dense *= layout->shape[d], d--)
        args->is_out_dense &= layout->strides[0][d] == dense || layout->shape[d] == 1;
}

/* Makes elements unsigned numbers that differ from 0 as they do: of 2, 4 or 8 bytes. */
static void compare_with_0(mylib_reduce_args *args)
{
    const mylib_type type = (mylib_type)args->input_type[0];
    const int log2 = mylib_log2_of(args->input_size[0]);
    args->is_truth = 1;
    args->op = 0;
    args->mask = type == MYLIB_C64                        ? UINT64_MAX / 2 - ((uint64_t)1 << 31)
                 : type >= MYLIB_F16 && type <= MYLIB_F64 ? UINT64_MAX >> (65 - (8 << log2))
                                                          : UINT64_MAX;
    args->input_type[0] = MYLIB_U8 + log2;
    args->narrow[0] = MYLIB_NOT_NARROWED;
    args->is_stored_as_carrier[0] = args->input_type[0] == args->carrier;
}

static void fill(mylib_reduce_args *args, mylib_reduction reduction, const mylib_terms *terms,
                 const mylib_layout *layout, int kept_ndim, mylib_type out_type)
{
    set_outputs(args, reduction, terms->carrier, layout, kept_ndim, out_type);
    args->inputs = terms->inputs;
    args->op = terms->op;
    for (int k = 0; k < terms->inputs; k++) {
        args->in[k] = layout->data[1 + k];
        const mylib_type type = (mylib_type)terms->input_type[k];
        args->input_type[k] = (int32_t)type;
        args->input_size[k] = (int32_t)mylib_type_size(type);
        args->narrow[k] = narrowing(type, terms->type, (mylib_type)args->carrier);
        args->is_stored_as_carrier[k] =
            args->input_type[k] == args->carrier && args->narrow[k] == MYLIB_NOT_NARROWED;
        memcpy(args->in_strides[k], layout->strides[1 + k], sizeof(int64_t) * (size_t)args->ndim);
    }
    args->mask = UINT64_MAX;
    if (args->op == MYLIB_OP_not_equal)
        compare_with_0(args);
    args->blocks = args->terms == 0 ? 1 : mylib_divide_up(args->terms, MYLIB_BLOCK_TERMS);
    args->grid_rows = 1;
}

/* Tells whether lanes take runs of terms (combine_runs). */
static int is_in_runs(const mylib_reduce_args *args)
{
    return mylib_is_in_order(args->reduction, args->carrier);
}

/* Tells whether the outputs lie closer together than the terms, or are many more. */
static int are_columns(const mylib_reduce_args *args)
{
    if (args->terms == 0)
        return 1;
    if (args->inputs != 1 || args->outputs < 8 || args->ndim == 0 || is_in_runs(args))
        return 0;
    if (args->kept_ndim == args->ndim ||
        (args->terms <= MYLIB_BLOCK_LANES && args->outputs >= 1024))
        return 1;
    return args->shape[args->kept_ndim - 1] >= 4 &&
           llabs(args->in_strides[0][args->kept_ndim - 1]) <
               llabs(args->in_strides[0][args->ndim - 1]);
}

/* Tells whether threads can take `width` adjacent outputs each, as vectors. */
static int are_vectors(const mylib_reduce_args *args, int64_t width)
{
    const int64_t size = args->input_size[0];
    const int64_t *strides = args->in_strides[0];
    const int inner = args->kept_ndim - 1;
    if (args->inputs != 1 || args->ndim != args->kept_ndim + 1 || inner < 0 ||
        strides[inner] != size || args->shape[inner] % width != 0 || width == 1)
        return 0;
    return mylib_is_aligned_to(width * size, args->in[0], inner, strides) &&
           strides[inner + 1] % (width * size) == 0;
}

/* Of complex numbers only sums of elements have kernels of their own: all else is too rare. */
static int has_rows(const mylib_reduce_args *args)
{
    return args->carrier < MYLIB_C64 || (args->reduction == MYLIB_SUM && args->inputs == 1);
}

static int is_whole(int32_t type) { return type <= MYLIB_U64 || type == MYLIB_BOOL; }

/* Tells whether a kernel by lanes loads terms as stored; see widens() in reduce_values.cuh. */
static int is_widened(const mylib_reduce_args *args, int k)
{
    const int32_t type = args->input_type[k];
    if (args->is_stored_as_carrier[k])
        return 1;
    if (args->narrow[k] != MYLIB_NOT_NARROWED)
        return 0;
    if (args->carrier == MYLIB_F32)
        return type == MYLIB_F16;
    return args->carrier == MYLIB_F64 &&
           (type == MYLIB_F32 || type == MYLIB_I64 || type == MYLIB_U64);
}

/* Returns how many terms add as integers: all, none, or 2^k whose sum the float holds. */
static int64_t count_exact(const mylib_reduce_args *args)
{
    const int digits = args->carrier == MYLIB_F32 ? 24 : 53;
    const int bits = args->input_type[0] == MYLIB_BOOL ? 1 : 8 * args->input_size[0];
    if (args->inputs != 1 || !is_whole(args->input_type[0]) ||
        args->narrow[0] != MYLIB_NOT_NARROWED)
        return 0;
    /* Negative numbers become large unsigned ones. */
    if (args->reduction >= MYLIB_MIN && args->carrier == MYLIB_U64 &&
        args->input_type[0] <= MYLIB_I64)
        return 0;
    if (is_whole(args->carrier))
        return INT64_MAX;
    if (args->reduction != MYLIB_SUM || (args->carrier != MYLIB_F32 && args->carrier != MYLIB_F64))
        return 0;
    /* Counts on unsigned elements: their magnitudes are larger. */
    return bits < digits ? (int64_t)1 << (digits - bits) : 0;
}

/* Selects a kernel for integers; sets the bits that it flips to turn minima into maxima. */
static void compute_integers(mylib_reduce_args *args)
{
    const int bits = args->input_type[0] == MYLIB_BOOL ? 1 : 8 * args->input_size[0];
    const int is_signed = args->input_type[0] <= MYLIB_I64;
    args->computed = MYLIB_I64;
    args->flip = 0;
    if (args->reduction == MYLIB_MIN)
        args->flip = is_signed || bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (args->reduction >= MYLIB_MIN && args->input_type[0] == MYLIB_U64 &&
        args->carrier == MYLIB_U64)
        args->flip ^= (uint64_t)1 << 63;
}

static int are_contiguous(mylib_reduce_args *args)
{
    args->is_aligned = 1;
    for (int k = 0; k < args->inputs; k++) {
        if (args->ndim > args->kept_ndim + 1 ||
            (args->ndim > args->kept_ndim &&
             args->in_strides[k][args->kept_ndim] != args->input_size[k]))
            return 0;
        args->is_aligned &=
            mylib_is_aligned_to(16, args->in[k], args->kept_ndim, args->in_strides[k]);
    }
    return 1;
}

/*
 * Tells whether the terms of each output are one run or long ones, whose strides leave offsets of
 * 32 bits, and enough for a warp to take each block.
 */
static int are_runs(const mylib_reduce_args *args)
{
    const int dims = args->ndim - args->kept_ndim, inner = args->ndim - 1;
    return args->inputs == 1 && dims >= 1 && dims <= MYLIB_REDUCED_NDIM &&
           (dims == 1 || args->shape[inner] >= MYLIB_LEAST_RUN) &&
           llabs(args->in_strides[0][inner]) <= INT32_MAX / MYLIB_LEAST_RUN &&
           args->outputs * args->blocks >= ENOUGH_BLOCKS_OF_TERMS;
}

static int are_rows(mylib_reduce_args *args)
{
    if (!has_rows(args))
        return 0;
    for (int k = 0; k < args->inputs; k++)
        if (!args->is_stored_as_carrier[k] &&
            (args->inputs != 1 || args->input_type[k] != MYLIB_F16 || args->carrier != MYLIB_F32 ||
             args->reduction == MYLIB_PROD || args->narrow[k] != MYLIB_NOT_NARROWED))
            return 0;
    if (are_contiguous(args))
        return 1;
    args->is_aligned = 0;
    return args->op == 0 && args->reduction != MYLIB_PROD && !is_whole(args->carrier) &&
           are_runs(args);
}

/* Returns a factor: i / size is the upper half of i * factor, if i * size is below 2^32. */
static uint32_t factor_of(int64_t size)
{
    return size <= 1 ? 0 : (uint32_t)(UINT32_MAX / size + 1);
}

/* Tells whether pieces of `outputs` outputs each are faster than other kernels, as measured. */
static int are_pieces_faster(const mylib_reduce_args *args, int64_t outputs)
{
    const int64_t terms = args->terms, size = args->input_size[0];
    const int is_integer = is_whole(args->input_type[0]);
    if (args->ndim == args->kept_ndim + 2)
        return 1;
    if (outputs == 1)
        return is_integer && terms <= 2 * MYLIB_SHORT_TERMS;
    const int are_in_vectors = is_integer && are_vectors(args, 16 / size);
    if (args->is_truth || args->input_type[0] == MYLIB_BOOL)
        return outputs < MYLIB_CUDA_WARP && !(are_in_vectors && terms >= MYLIB_BLOCK_LANES);
    if (!is_integer && size >= 4 && outputs * size <= 16 && terms > 24 && terms <= 64)
        return 1;
    return outputs <= FEW_OUTPUTS && terms > 4 &&
           (is_integer ? !are_in_vectors || terms <= MYLIB_SHORT_TERMS
                       : terms <= MYLIB_SHORT_TERMS && args->input_type[0] == MYLIB_F32);
}

/*
 * Chooses the kernel for pieces of memory, which terms fill at least half: short rows; or all terms
 * of one output, or of those along one kept dimension, which lies between the terms.  Tiles of rows
 * have whole rounds of all threads, which also aligns the next tile, unless rows are aligned anyway
 * and much of the tile would stay empty.  Longer rows of narrow integers are faster by vectors;
 * unless `is_last`, other pieces may be faster by other kernels.
 */
static int choose_tiles(mylib_reduce_args *args, int is_last)
{
    const int dims = args->ndim - args->kept_ndim, last = args->ndim - 1;
    const int64_t *const strides = args->in_strides[0];
    const int64_t size = args->input_size[0], terms = args->terms;
    const int is_exact = count_exact(args) >= terms, is_narrow = is_exact && size < 4;
    int inner = -1, along = -1;
    if (args->inputs != 1 || terms < 2 || args->outputs < ENOUGH_WARPS || args->kept_ndim == 0 ||
        dims < 1 || dims > 2 ||
        (!is_exact && (terms > MYLIB_BLOCK_TERMS || !is_widened(args, 0) || !has_rows(args))))
        return 0;
    int64_t furthest = 0, nbytes = size, outputs = 1;
    for (int d = args->kept_ndim; d < args->ndim; d++) {
        if (strides[d] <= 0)
            return 0;
        furthest = strides[d] > furthest ? strides[d] : furthest;
        nbytes += (args->shape[d] - 1) * strides[d];
    }
    for (int d = 0; d < args->kept_ndim; d++) {
        if (args->shape[d] == 1 || strides[d] < size)
            continue;
        if (strides[d] >= furthest) {
            if (along < 0 || strides[d] < strides[along])
                along = d;
        } else if (inner < 0) {
            inner = d;
        } else {
            return 0;
        }
    }
    if (inner >= 0) {
        outputs = args->shape[inner];
        nbytes += (outputs - 1) * strides[inner];
    }
    const int is_row = inner < 0 && are_contiguous(args);
    if (along < 0 ||
        nbytes > MYLIB_SHORT_TILE / (!is_row     ? 1
                                     : is_narrow ? 16
                                                 : 8) ||
        2 * outputs * terms * size < nbytes || strides[along] > 2 * nbytes ||
        (is_row && strides[along] < nbytes) ||
        args->shape[along] * strides[along] < MYLIB_SHORT_TILE / 8)
        return 0;
    if (!is_row &&
        (args->op != 0 || args->reduction == MYLIB_PROD || terms > MYLIB_EXACT_TERMS ||
         args->carrier == MYLIB_C128 || !(is_exact || size == 2 || args->is_stored_as_carrier[0]) ||
         !(is_last || are_pieces_faster(args, outputs))))
        return 0;
    args->way = is_row ? MYLIB_REDUCE_SHORT : MYLIB_REDUCE_TILES;
    if (is_exact)
        compute_integers(args);
    /* Integers are loaded as words; the first and the last may include terms of other rows. */
    args->lane_bits = mylib_short_lane_bits(is_row && is_narrow ? nbytes / 4 + 1 : terms,
                                            is_exact ? MYLIB_SHORT_WORDS : MYLIB_SHORT_TERMS);
    args->gap = is_row && args->is_aligned ? mylib_short_gap(strides[along]) : 0;
    args->row_factor = mylib_short_row_factor(args->gap, strides[along] / 16);

    const int64_t pieces = args->shape[along], pitch = strides[along] + args->gap;
    int64_t room = (MYLIB_SHORT_TILE - nbytes) / pitch + 1;
    int64_t together = MYLIB_CUDA_THREADS >> args->lane_bits;
    if (!is_row)
        room = mylib_lesser(room, mylib_divide_up(args->outputs / outputs, ENOUGH_COLUMN_BLOCKS));
    if (!is_row || room < together || (args->is_aligned && 2 * (room % together) > together))
        together = 1;
    const int64_t rows = mylib_divide_up(pieces, mylib_divide_up(pieces, room - room % together));
    args->tile_rows = (int32_t)mylib_lesser(mylib_round_up(rows, together), room);
    args->tiles = (int32_t)mylib_divide_up(pieces, args->tile_rows);
    args->grid = args->outputs / outputs / pieces * args->tiles;
    args->tile = (mylib_reduce_tile){
        .pieces = pieces,
        .apart = strides[along],
        .out_apart = args->out_strides[along],
        .nbytes = (int32_t)nbytes,
        .pitch = (int32_t)pitch,
        .outputs = (int32_t)outputs,
        .stride = (int32_t)strides[last],
    };
    if (dims == 2) {
        args->tile.end_of_row = (int32_t)(strides[last - 1] - args->shape[last] * strides[last]);
        args->tile.columns_factor = factor_of(args->shape[last]);
    }
    /* The other dimensions number the rows of tiles. */
    args->is_out_dense = 0;
    args->shape[along] = 1;
    if (inner >= 0) {
        args->tile.output_stride = (int32_t)strides[inner];
        args->tile.out_stride = args->out_strides[inner];
        args->tile.outputs_factor = factor_of(outputs);
        args->shape[inner] = 1;
    }
    return 1;
}

/*
 * Divides the outputs into tiles of thread blocks that have `most` each.  A tile has outputs of one
 * row, which are equally spaced, unless rows are so short that much of the tiles would be empty.
 */
static int has_tiles_of_rows(mylib_reduce_args *args, int64_t most)
{
    const int64_t row = args->kept_ndim == 0 ? 1 : args->shape[args->kept_ndim - 1];
    const int is_row = args->kept_ndim <= 1 || mylib_round_up(row, most) <= row + row / 4;
    args->row_outputs = is_row ? row : args->outputs;
    args->tiles = (int32_t)mylib_divide_up(args->row_outputs, most);
    args->grid = args->outputs / args->row_outputs * args->tiles;
    return is_row;
}

/*
 * Chooses the kernel for integers.  A part is large enough for some vectors in flight per thread;
 * parts whose sum is rounded to a float are whole subtrees of the order.
 */
static int choose_integers(mylib_reduce_args *args)
{
    const int64_t exact = count_exact(args), size = args->input_size[0];
    const int is_across = are_columns(args);
    int64_t parts;
    if (exact < MYLIB_BLOCK_TERMS || args->terms == 0)
        return 0;
    const int is_contiguous = !is_across && are_contiguous(args);
    const int is_one_run = is_across || args->ndim <= args->kept_ndim + 1;
    args->is_spaced = is_across ? !are_vectors(args, 16 / size)
                                : !is_contiguous && args->in_strides[0][args->ndim - 1] != size;
    if (args->is_spaced && (args->reduction == MYLIB_PROD ||
                            (is_across && (args->ndim != args->kept_ndim + 1 ||
                                           args->in_strides[0][args->kept_ndim - 1] == 0))))
        return 0;
    if (!is_across && !is_contiguous && !are_runs(args))
        return 0;
    const int64_t run = is_one_run ? args->terms : args->shape[args->ndim - 1];
    /* Several runs are long enough for a thread block, and not rounded in parts. */
    if (!is_one_run && (args->terms > exact || run * size < LEAST_RUN_NBYTES))
        return 0;
    args->has_warp_per_output = 0;
    if (is_across) {
        const int64_t most = args->is_spaced ? args->shape[args->kept_ndim - 1] : args->outputs;
        const int64_t vectors = mylib_divide_up(most, 16 / size);
        args->width_bits = mylib_log2_of(mylib_lesser(vectors, MYLIB_CUDA_WARP));
        /* A thread has all terms of an output if they are few: others would wait. */
        while (args->width_bits < mylib_log2_of(MYLIB_CUDA_THREADS) &&
               args->outputs * size / 16 >> args->width_bits >= 2 * ENOUGH_BLOCKS &&
               args->terms < INTEGER_ROWS * (MYLIB_CUDA_THREADS >> args->width_bits) &&
               (!args->is_spaced || has_tiles_of_rows(args, 32 / size << args->width_bits)))
            args->width_bits++;
        const int are_tiles = has_tiles_of_rows(args, 16 / size << args->width_bits);
        /* Each thread has a term of each output. */
        if (args->is_spaced && (!are_tiles || args->terms < MYLIB_CUDA_THREADS >> args->width_bits))
            return 0;
        parts = mylib_lesser(
            mylib_divide_up(ENOUGH_BLOCKS / 2, args->grid),
            mylib_divide_up(args->terms, INTEGER_ROWS * (MYLIB_CUDA_THREADS >> args->width_bits)));
        args->group = mylib_lesser(mylib_divide_up(args->terms, parts), MOST_INTEGERS);
    } else if (is_one_run && args->outputs >= ENOUGH_WARPS && args->terms <= exact) {
        args->has_warp_per_output = 1;
        args->grid = mylib_divide_up(args->outputs, MYLIB_CUDA_WARPS);
        args->group = args->terms;
    } else {
        const int64_t nbytes = run * size;
        parts = mylib_lesser(mylib_divide_up(ENOUGH_BLOCKS, args->outputs * (args->terms / run)),
                             mylib_divide_up(nbytes, INTEGER_NBYTES));
        if (nbytes <= ONE_BLOCK_NBYTES)
            parts = 1;
        /* Parts begin at vectors if the first one does. */
        args->group = mylib_round_up(mylib_divide_up(run, parts), MYLIB_BLOCK_TERMS);
    }
    if (args->terms > exact)
        args->group =
            mylib_lesser((int64_t)1 << mylib_log2_of(mylib_lesser(args->group, exact)), exact);
    if (args->terms > exact && args->group < MYLIB_BLOCK_TERMS)
        args->group = MYLIB_BLOCK_TERMS;
    args->parts_of_run = mylib_divide_up(run, args->group);
    parts = args->terms / run * args->parts_of_run;
    if (is_across ? parts > 65535 : parts * args->outputs > INT32_MAX)
        return 0;
    args->way = MYLIB_REDUCE_INTEGERS;
    compute_integers(args);
    args->is_across = is_across;
    args->parts = parts;
    if (is_across)
        args->grid_rows = parts;
    else if (!args->has_warp_per_output)
        args->grid = parts * args->outputs;
    return 1;
}

/* Returns the maximum thread blocks of a cluster; 1 without clusters. */
static int max_cluster(int device)
{
    static atomic_uchar known[MYLIB_CUDA_MAX_DEVICES];
    int most = atomic_load_explicit(&known[device], memory_order_relaxed);
    if (most == 0) {
        if (mylib_reduce_max_cluster(&most) != cudaSuccess) {
            (void)cudaGetLastError();
            most = 1;
        }
        most = most > MYLIB_MAX_CLUSTER ? MYLIB_MAX_CLUSTER : most > 1 ? most : 1;
        atomic_store_explicit(&known[device], (unsigned char)most, memory_order_relaxed);
    }
    return most;
}

/*
 * Uses a cluster of thread blocks for each output that fits one, which needs no second launch.  If
 * the warps of one thread block can take all terms, and these are contiguous, there is no cluster.
 */
static void choose_cluster(int device, mylib_reduce_args *args)
{
    if (args->blocks == 1 || args->blocks > 2 * MYLIB_MAX_CLUSTER ||
        (args->way != MYLIB_REDUCE_LANES &&
         (args->blocks <= MYLIB_CUDA_WARPS || !args->is_stored_as_carrier[0])))
        return;
    const int64_t most = max_cluster(device), group = args->blocks > most ? 2 : 1;
    const int64_t parts = mylib_divide_up(args->blocks, group);
    /* The size of a cluster is a power of two: the last thread blocks may have no terms. */
    const int bits = mylib_log2_of(parts);
    if (most == 1 || (int64_t)1 << bits > most || args->outputs << bits > MOST_IN_CLUSTERS)
        return;
    args->way = MYLIB_REDUCE_LANES;
    args->is_by_warp = 0;
    args->computed = args->carrier;
    args->group = group;
    args->parts = parts;
    args->cluster_bits = bits;
    args->grid = args->outputs << bits;
}

static void set_walk(mylib_reduce_args *args)
{
    const int dims = args->ndim - args->kept_ndim;
    const int64_t *const shape = &args->shape[args->kept_ndim];
    const int64_t apart = is_in_runs(args)                       ? 1
                          : args->way == MYLIB_REDUCE_TRANSPOSED ? MYLIB_BLOCK_LANES / 2
                                                                 : MYLIB_BLOCK_LANES;
    args->columns = dims > 0 ? shape[dims - 1] : 1;
    args->rows = dims > 1 ? shape[dims - 2] : 1;
    args->row_width = (int32_t)mylib_lesser(args->columns, INT32_MAX);
    args->plane_height = (int32_t)(dims > 2 ? mylib_lesser(args->rows, INT32_MAX) : INT32_MAX);
    args->right = args->down = 0;
    int64_t planes = 0;
    if (args->terms != 0) {
        const int64_t rows = apart / args->row_width;
        args->right = (int32_t)(apart % args->row_width);
        args->down = (int32_t)(rows % args->plane_height);
        planes = rows / args->plane_height;
    }
    for (int k = 0; k < args->inputs; k++) {
        mylib_reduce_walk *const w = &args->walk[k];
        for (int i = 0; i < MYLIB_REDUCED_NDIM; i++)
            w->stride[i] = i < dims ? args->in_strides[k][args->ndim - 1 - i] : 0;
        w->step = args->right * w->stride[0] + args->down * w->stride[1] + planes * w->stride[2];
        w->end_of_row = w->stride[1] - args->columns * w->stride[0];
        w->end_of_plane = w->stride[2] - args->rows * w->stride[1];
    }
}

/* Chooses the kernel for columns: how many lie side by side, and how many threads share them. */
static void choose_columns(mylib_reduce_args *args)
{
    const int width = 16 / (int)mylib_type_size((mylib_type)args->carrier);
    args->way = MYLIB_REDUCE_COLUMNS;
    const int is_tree = args->ndim <= args->kept_ndim + 1 && args->terms <= 2 * MYLIB_BLOCK_LANES;
    args->lane_bits =
        mylib_log2_of(is_tree ? args->terms : mylib_lesser(args->terms, MYLIB_BLOCK_LANES));
    args->is_spaced = !are_vectors(args, width);
    const int is_wide = args->carrier > MYLIB_U64 && is_widened(args, 0) && has_rows(args) &&
                        args->reduction != MYLIB_PROD && args->terms != 0 &&
                        args->ndim == args->kept_ndim + 1;
    args->width = is_wide ? width : 1;
    args->grid_rows = args->blocks < 65535 ? args->blocks : 65535;
    args->parts = args->blocks;
    args->width_bits =
        mylib_log2_of(mylib_lesser(mylib_divide_up(args->outputs, args->width), MYLIB_CUDA_WARP));
    for (;; args->width_bits--) {
        const int64_t nbytes = (int64_t)args->width * args->input_size[0] << args->width_bits;
        const int most =
            args->lane_bits >= 5 ? mylib_log2_of(MYLIB_CUDA_THREADS) - args->width_bits : 0;
        /* Many outputs of few terms are not shared: threads would load too little at once. */
        args->share_bits = args->terms < MYLIB_BLOCK_LANES ? 0 : most;
        do
            (void)has_tiles_of_rows(args, (int64_t)(MYLIB_CUDA_THREADS >> args->share_bits) *
                                              args->width);
        while (args->share_bits < most && args->grid * args->grid_rows < ENOUGH_BLOCKS &&
               ++args->share_bits);
        if (args->grid * args->grid_rows >= ENOUGH_COLUMN_BLOCKS || nbytes <= LEAST_ROW_NBYTES ||
            args->share_bits == 0 || args->share_bits == args->lane_bits)
            return;
    }
}

/* Chooses the kernel for terms that are neighbours in memory but far apart in their order. */
static int choose_transposed(mylib_reduce_args *args)
{
    const int dims = args->ndim - args->kept_ndim, is_complex = args->carrier >= MYLIB_C64;
    const int64_t *strides = args->in_strides[0], size = args->input_size[0];
    int near = args->kept_ndim;
    const int is_half = size == 2; /* slower for each byte */
    if (args->inputs != 1 ||
        args->outputs * args->terms * size < LEAST_TRANSPOSED_NBYTES * (is_half ? 3 : 1) ||
        dims < 2 || dims > MYLIB_REDUCED_NDIM || args->carrier <= MYLIB_U64 ||
        args->reduction == MYLIB_PROD || (is_complex && args->reduction != MYLIB_SUM) ||
        !(args->is_stored_as_carrier[0] || (is_half && is_widened(args, 0))))
        return 0;
    for (int d = near + 1; d < args->ndim; d++)
        if (args->shape[d] > 1 && llabs(strides[d]) < llabs(strides[near]))
            near = d;
    args->run = 1;
    for (int d = near + 1; d < args->ndim; d++)
        args->run *= args->shape[d];
    const int64_t runs = args->terms / args->run;
    if (near == args->ndim - 1 || args->run < LEAST_TRANSPOSED_RUN * (is_half ? 2 : 1) ||
        args->shape[near] < MYLIB_TRANSPOSED_NBYTES / size || strides[near] == 0 ||
        llabs(strides[near]) > 2 * size || args->blocks > INT32_MAX ||
        runs * args->outputs > INT32_MAX ||
        (args->kept_ndim > 0 && llabs(strides[args->kept_ndim - 1]) <= llabs(strides[near])))
        return 0;

    int64_t tiles, shares;
    args->way = MYLIB_REDUCE_TRANSPOSED;
    args->computed = args->carrier - (is_complex ? MYLIB_C64 - MYLIB_F32 : 0);
    args->windows = mylib_divide_up(args->run, MYLIB_BLOCK_TERMS);
    args->width_bits = args->computed == MYLIB_F32 ? 5 : 4;
    for (;; args->width_bits--) {
        tiles = mylib_divide_up(runs << is_complex, (int64_t)1 << args->width_bits);
        shares = mylib_lesser(mylib_divide_up(ENOUGH_COLUMN_BLOCKS, tiles * args->outputs),
                              mylib_divide_up(args->windows, LEAST_WINDOWS));
        if (tiles * shares * args->outputs >= ENOUGH_TRANSPOSED_BLOCKS || args->width_bits == 3)
            break;
    }
    args->group = mylib_divide_up(args->windows, shares);
    args->shares = (int32_t)mylib_divide_up(args->windows, args->group);
    args->tiles = (int32_t)tiles;
    args->grid = tiles * args->shares * args->outputs;
    args->parts = args->blocks;
    args->is_run_linear = near == args->ndim - 2;
    /* Terms before the first run get numbers, too: these begin some outermost indices earlier. */
    const int64_t outer = args->terms / args->shape[args->kept_ndim];
    const int64_t lead = mylib_divide_up(MYLIB_BLOCK_TERMS, outer);
    args->lead_terms = lead * outer;
    args->lead_nbytes = lead * strides[args->kept_ndim];
    return 1;
}

static void choose_way(int device, mylib_reduce_args *args)
{
    args->parts = 1;
    if (choose_transposed(args))
        return;
    if (choose_tiles(args, 0))
        return;
    if (choose_integers(args)) {
        if (!args->is_across && !args->has_warp_per_output && !args->is_truth)
            choose_cluster(device, args);
        return;
    }
    if (is_whole(args->input_type[0]) && choose_tiles(args, 1))
        return;
    if (are_columns(args)) {
        choose_columns(args);
        return;
    }
    const int is_rows = are_rows(args);
    args->way = is_rows ? MYLIB_REDUCE_ROWS : MYLIB_REDUCE_LANES;
    args->is_by_warp = is_rows || args->outputs * args->blocks >= ENOUGH_BLOCKS_OF_TERMS;
    args->group = 1;
    if (args->is_by_warp && args->outputs >= ENOUGH_WARPS) {
        args->has_warp_per_output = 1;
        args->group = args->blocks;
        args->grid = mylib_divide_up(args->outputs, MYLIB_CUDA_WARPS);
        return;
    }
    const int warps = args->is_by_warp ? MYLIB_CUDA_WARPS : 1;
    /* Larger groups give fewer partial results: double them while the GPU stays full. */
    int64_t parts = mylib_divide_up(args->blocks, warps);
    for (; parts > 1 && parts * args->outputs > ENOUGH_BLOCKS;
         parts = mylib_divide_up(args->blocks, warps * args->group))
        args->group *= 2;
    args->parts = parts;
    args->grid = args->parts * args->outputs;
    choose_cluster(device, args);
}

/* Sets the arguments of the second launch. */
static void choose_parts_way(mylib_reduce_args *args)
{
    args->way = MYLIB_REDUCE_PARTS;
    args->computed = args->carrier;
    args->width_bits =
        mylib_log2_of(args->outputs < MYLIB_CUDA_WARP ? args->outputs : MYLIB_CUDA_WARP);
    args->group = (int64_t)1 << mylib_log2_of(
                      mylib_divide_up(args->parts, MYLIB_CUDA_THREADS >> args->width_bits));
    args->grid = mylib_divide_up(args->outputs, (int64_t)1 << args->width_bits);
    args->grid_rows = 1;
}

/* Combines the parts; if they are many, first to a few in `more`, which may be NULL. */
static cudaError_t combine_parts(mylib_reduce_args *args, char *more, void *stream)
{
    choose_parts_way(args);
    if (more != NULL && args->group > MOST_PARTS && args->grid < ENOUGH_BLOCKS) {
        const int64_t groups = MYLIB_CUDA_THREADS >> args->width_bits;
        char *const out = args->out;
        args->group = MOST_PARTS;
        while ((args->grid_rows = mylib_divide_up(args->parts, groups * args->group)) > 65535)
            args->group *= 2;
        args->out = more;
        const cudaError_t error = mylib_launch_reduce(args, stream);
        if (error != cudaSuccess)
            return error;
        args->out = out;
        args->partial = more;
        args->parts = args->grid_rows;
        choose_parts_way(args);
    }
    return mylib_launch_reduce(args, stream);
}

static mylib_status launch(int device, void *stream, mylib_reduce_args *args);

/* Launches for each half of the outermost dimension: the outputs exceed 32-bit numbers. */
static mylib_status launch_halves(int device, void *stream, const mylib_reduce_args *args)
{
    mylib_reduce_args half = *args;
    int d = 0;
    while (args->shape[d] == 1)
        d++;
    half.shape[d] = args->shape[d] / 2;
    half.outputs = args->outputs / args->shape[d] * half.shape[d];
    RETURN_IF_ERROR(launch(device, stream, &half));
    half = *args;
    for (int k = 0; k < args->inputs; k++)
        half.in[k] += args->shape[d] / 2 * args->in_strides[k][d];
    half.out += args->shape[d] / 2 * args->out_strides[d];
    half.shape[d] -= args->shape[d] / 2;
    half.outputs = args->outputs / args->shape[d] * half.shape[d];
    return launch(device, stream, &half);
}

static mylib_status launch(int device, void *stream, mylib_reduce_args *args)
{
    void *work = NULL;
    mylib_status st = MYLIB_OK;

    if (args->outputs > INT32_MAX)
        return launch_halves(device, stream, args);
    choose_way(device, args);
    set_walk(args);
    const int has_partial = args->parts > 1 && args->cluster_bits == 0;
    const size_t nbytes = (size_t)args->outputs * mylib_type_size((mylib_type)args->carrier);
    if (has_partial) {
        /* and the few that these may be combined to first */
        const int64_t few = 1 + args->parts / MOST_PARTS;
        MYLIB_TRY(mylib_cuda_alloc(device, (size_t)(args->parts + few) * nbytes, stream, &work));
        args->partial = work;
    }
    CUDA_TRY(mylib_launch_reduce(args, stream));
    if (has_partial)
        CUDA_TRY(combine_parts(args, args->partial + (size_t)args->parts * nbytes, stream));
out:
    mylib_cuda_discard(device, work, stream);
    return st;
}

/* Returns the most terms that a program combines faster than the kernels, as measured. */
static int64_t most_few(const mylib_reduce_args *args)
{
    const int size = args->input_size[0];
    const int64_t *strides = args->in_strides[0];
    if (args->kept_ndim == 0 || args->ndim == args->kept_ndim)
        return 0;
    /* Rows of terms, not of outputs. */
    if (llabs(strides[args->kept_ndim - 1]) >= llabs(strides[args->ndim - 1]))
        return is_in_runs(args) ? MYLIB_FEW_TERMS : 2;
    if (is_in_runs(args))
        return INT64_MAX;
    if (is_whole(args->input_type[0])) {
        /* A call converts each term; an operation on small types is a launch. */
        const int is_converted = args->input_type[0] != args->out_type;
        return is_converted                   ? 4
               : size < 4                     ? 12 / size
               : are_vectors(args, 16 / size) ? MYLIB_FEW_TERMS
                                              : 4 * MYLIB_FEW_TERMS;
    }
    return args->reduction == MYLIB_PROD ? MYLIB_FEW_TERMS : size == 8 ? 6 : 12;
}

/* Tells whether there are few terms of many outputs, not in rows or pieces, which have kernels. */
static int is_few(int device, const mylib_reduce_args *args)
{
    mylib_reduce_args chosen;
    if (args->inputs != 1 || args->op != 0 || args->terms < 2 || args->outputs < LEAST_OUTPUTS ||
        args->outputs > INT32_MAX || args->terms > most_few(args))
        return 0;
    chosen = *args;
    choose_way(device, &chosen);
    return chosen.way != MYLIB_REDUCE_SHORT &&
           (chosen.way != MYLIB_REDUCE_TILES || chosen.tile.outputs > FEW_OUTPUTS ||
            args->terms <= 4);
}

mylib_status mylib_cuda_reduce(int device, void *stream, mylib_reduction reduction,
                               const mylib_terms *terms, mylib_layout *layout, int kept_ndim,
                               mylib_type out_type, const char *const *names)
{
    mylib_reduce_args args;
    void *scalar = NULL;
    mylib_status st;
    ENTER_DEVICE(device);
    fill(&args, reduction, terms, layout, kept_ndim, out_type);
    if (args.outputs == 0)
        return MYLIB_OK;
    RETURN_IF_ERROR(mylib_cuda_check_memory(device, "out", layout->data[0], out_type, kept_ndim,
                                            layout->strides[0]));
    if (args.terms != 0)
        RETURN_IF_ERROR(mylib_cuda_check_operands(device, names, -1, terms->input_type, layout));
    if (is_few(device, &args) && !layout->is_host_scalar[1])
        return mylib_cuda_reduce_few(device, stream, reduction, terms, layout, kept_ndim, out_type,
                                     names);
    if (layout->is_host_scalar[1]) {
        size_t size = mylib_type_size((mylib_type)terms->input_type[0]);
        MYLIB_TRY(mylib_cuda_alloc(device, size, stream, &scalar));
        /* The runtime reads pageable memory before the call returns. */
        CUDA_TRY(cudaMemcpyAsync(scalar, layout->data[1], size, cudaMemcpyHostToDevice, stream));
        args.in[0] = scalar;
    }
    MYLIB_TRY(launch(device, stream, &args));
out:
    mylib_cuda_discard(device, scalar, stream);
    return st;
}

int mylib_cuda_try_reduce(int device, void *stream, mylib_reduction reduction,
                          const mylib_terms *terms, const mylib_layout *layout, int kept_ndim,
                          mylib_type out_type, mylib_status *st_ret)
{
    mylib_reduce_args args, chosen;
    fill(&args, reduction, terms, layout, kept_ndim, out_type);
    chosen = args;
    /* The program's kernel takes shorter rows at the speed of memory. */
    if ((args.op != 0 && reduction != MYLIB_SUM && reduction != MYLIB_MAX) ||
        (args.terms <= MYLIB_BLOCK_LANES && !args.is_truth) || args.outputs > INT32_MAX ||
        layout->is_host_scalar[1])
        return 0;
    choose_way(device, &chosen);
    const int is_short =
        chosen.way == MYLIB_REDUCE_SHORT || (args.is_truth && chosen.way == MYLIB_REDUCE_TILES);
    /* A program tells whether few elements in short rows differ from 0. */
    if (args.is_truth ? !is_short && (chosen.way != MYLIB_REDUCE_INTEGERS ||
                                      (chosen.is_across && args.terms < MYLIB_BLOCK_LANES &&
                                       args.shape[kept_ndim - 1] < MYLIB_CUDA_WARP))
                      : chosen.way != MYLIB_REDUCE_TRANSPOSED &&
                            (args.op == 0 || (!is_short && chosen.way != MYLIB_REDUCE_ROWS)))
        return 0;
    *st_ret = launch(device, stream, &args);
    return 1;
}

mylib_status mylib_cuda_reduce_parts(int device, void *stream, mylib_reduction reduction,
                                     mylib_type carrier, int64_t parts, void *partial,
                                     const mylib_layout *out, mylib_type out_type)
{
    mylib_reduce_args args;
    ENTER_DEVICE(device);
    set_outputs(&args, reduction, carrier, out, out->ndim, out_type);
    args.partial = partial;
    args.parts = parts;
    CUDA_RETURN_IF_ERROR(combine_parts(&args, NULL, stream));
    return MYLIB_OK;
}
