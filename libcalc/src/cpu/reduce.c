/*
 * cpu/reduce.c - reductions on the CPU, in the order that mylib.h gives.
 *
 * There are three ways through memory, and one order of terms:
 *
 * - along the terms: one output at a time, block by block through the block kernels;
 * - across the outputs: rows of terms of many outputs are combined by the element-wise kernels.
 *   The pairwise tree over the lanes is walked depth first, so that few rows are held at a time;
 * - short rows without gaps (a matrix of few columns): 256 rows are one long row, and the tree
 *   combines its halves.
 *
 * Threads take different outputs, or groups of 2^k blocks: a group is a whole subtree of the
 * pairwise tree over the blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A thread that is woken for less than this much input costs more than it brings. */
#define THREAD_MIN_NBYTES (1024 * 1024)

/* Rows that are held across the outputs; fits the second-level cache beside the input. */
#define ROOM_NBYTES (64 * 1024)

/* The most groups of blocks that are combined in the end. */
#define MAX_GROUPS 64

/* Columns that are gathered together; a few of them fit the second-level cache. */
#define MAX_PANEL_NBYTES (4 * 1024 * 1024)
#define LINE_NBYTES 64

/* Fewer outputs, or fewer terms, do not pay for going across the outputs. */
#define MIN_WIDTH 8
#define MIN_ALONG 32

typedef struct reducer {
    mylib_reduction reduction;
    const mylib_code *program;
    const mylib_layout *layout;
    const mylib_cpu_level *cpu;
    int kept;                       /* dimensions, the first ones of the layout */
    int64_t outputs, terms, blocks; /* terms and blocks of one output */
    mylib_type type, carrier, out_type;
    int64_t size; /* of the carrying type */
    mylib_kernel *combine;

    /* Along the terms. */
    mylib_block_reduce *block;
    mylib_type block_type; /* of the terms that `block` takes */
    mylib_kernel *product; /* of the two inputs, unless `block` multiplies */
    int64_t share;         /* outputs of a task */
    int64_t panel;         /* terms that are gathered together, or 0 */

    /* Across the outputs. */
    int across;     /* the dimension, or -1 */
    int is_narrow;  /* whole rows without gaps */
    int64_t width;  /* outputs of a strip */
    int64_t strips; /* along that dimension */

    int64_t group;  /* blocks of a task */
    int64_t groups; /* of one output */
    char *partial;  /* groups times outputs, when there are several groups */
} reducer;

/* ---- Values -------------------------------------------------------------------------------- */

/*
 * n elements of input k, of the stored type, to `to`: the program's 'type' or the carrying one,
 * which is reached by way of 'type'.
 */
static void load(const reducer *r, int k, mylib_type to, char *dst, int64_t dst_stride,
                 const char *src, int64_t stride, int64_t n)
{
    mylib_type stored = (mylib_type)r->program->input_type[k];
    int64_t size = (int64_t)mylib_type_size(r->type);
    char pieces[2048];
    if (to == r->type || stored == r->type) {
        r->cpu->convert(to, stored, n, dst, dst_stride, src, stride);
        return;
    }
    for (int64_t i = 0, m; i < n; i += m) {
        m = (int64_t)sizeof pieces / size;
        m = m < n - i ? m : n - i;
        r->cpu->convert(r->type, stored, m, pieces, size, src + i * stride, stride);
        r->cpu->convert(to, r->type, m, dst + i * dst_stride, dst_stride, pieces, size);
    }
}

/* Whether input k is stored as `to`, and need not be converted on the way. */
static int is_stored_as(const reducer *r, int k, mylib_type to)
{
    return r->program->input_type[k] == to && r->type == to;
}

/* n results from the carrying type to out. */
static void store(const reducer *r, char *out, int64_t stride, const char *src, int64_t n)
{
    size_t size = mylib_type_size(r->out_type);
    if (r->out_type == MYLIB_F16) {
        for (int64_t i = 0; i < n; i++) {
            float x;
            memcpy(&x, src + i * r->size, sizeof x);
            t_f16 h = r->cpu->f16_from_f32(x);
            memcpy(out + i * stride, &h, sizeof h);
        }
        return;
    }
    /* The low bytes of an integer are the wrapped one. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    src += r->size - (int64_t)size;
#endif
    mylib_copy_strided(size, n, out, stride, src, r->size);
}

/* *a = *a combined with *b, `width` of each without gaps. */
static void combine(const reducer *r, int64_t width, char *a, const char *b)
{
    r->combine(width, a, r->size, a, r->size, b, r->size);
}

/* Where term t is, from the first. */
static int64_t term_offset(const reducer *r, int k, int64_t t)
{
    const mylib_layout *l = r->layout;
    int64_t offset = 0;
    int d = l->ndim - 1;
    for (; d > r->kept; d--) {
        offset += t % l->shape[d] * l->strides[1 + k][d];
        t /= l->shape[d];
    }
    return d < r->kept ? offset : offset + t * l->strides[1 + k][d];
}

/* Where output `index` of operand k is; dimension `without` is left out, -1 is none. */
static int64_t output_offset(const reducer *r, int k, int64_t index, int without)
{
    const mylib_layout *l = r->layout;
    int64_t offset = 0;
    for (int d = r->kept - 1; d >= 0; d--) {
        if (d == without)
            continue;
        offset += index % l->shape[d] * l->strides[k][d];
        index /= l->shape[d];
    }
    return offset;
}

/*
 * Sums of blocks, combined pairwise: level[k] is that of 2^k consecutive blocks, or absent.
 * Merging as a binary counter carries gives the tree of pairing all blocks level by level, and
 * keeps one row of partial results per level.
 */
typedef struct counter {
    uint64_t blocks;
    char *levels;
    int64_t nbytes; /* of a row */
    int64_t width;
} counter;

/* Takes the next block's row; `row` is overwritten. */
static void count_block(const reducer *r, counter *c, char *row)
{
    int k = 0;
    for (; c->blocks >> k & 1; k++) {
        combine(r, c->width, c->levels + k * c->nbytes, row);
        memcpy(row, c->levels + k * c->nbytes, (size_t)c->nbytes);
    }
    memcpy(c->levels + k * c->nbytes, row, (size_t)c->nbytes);
    c->blocks++;
}

/* What all blocks give; there was one at least. */
static char *count_end(const reducer *r, counter *c)
{
    int k = 0;
    while (!(c->blocks >> k & 1))
        k++;
    char *row = c->levels + k * c->nbytes;
    for (k++; c->blocks >> k; k++) {
        char *level = c->levels + k * c->nbytes;
        if (c->blocks >> k & 1) {
            combine(r, c->width, level, row);
            row = level;
        }
    }
    return row;
}

/* The levels of a counter for so many blocks. */
static int count_levels(int64_t blocks)
{
    int levels = 1;
    while (blocks >> levels)
        levels++;
    return levels;
}

/* The blocks of group g. */
static void group_blocks(const reducer *r, int64_t g, int64_t *begin, int64_t *end)
{
    *begin = g * r->group;
    *end = *begin + r->group < r->blocks ? *begin + r->group : r->blocks;
}

static int64_t block_terms(const reducer *r, int64_t block)
{
    int64_t rest = r->terms - block * MYLIB_BLOCK_TERMS;
    return rest < MYLIB_BLOCK_TERMS ? rest : MYLIB_BLOCK_TERMS;
}

/* ---- Along the terms ----------------------------------------------------------------------- */

#define TERMS_NBYTES (MYLIB_BLOCK_TERMS * (int)sizeof(t_c128))

/* Terms [t, t + n) of input k without gaps and in `to`: where they are, or copied to the buffer. */
static const char *gather(const reducer *r, int k, const char *first, int64_t t, int64_t n,
                          mylib_type to, char *buffer)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t size = (int64_t)mylib_type_size(to), done = 0;
    if (inner < r->kept) {
        load(r, k, to, buffer, size, first, 0, n);
        return buffer;
    }
    int64_t stride = l->strides[1 + k][inner];
    if (inner == r->kept && is_stored_as(r, k, to) && stride == size)
        return first + t * size;
    while (done < n) {
        int64_t run = l->shape[inner] - (t + done) % l->shape[inner];
        run = run < n - done ? run : n - done;
        load(r, k, to, buffer + done * size, size, first + term_offset(r, k, t + done), stride,
             run);
        done += run;
    }
    return buffer;
}

/*
 * The same for many blocks whose terms lie across memory: whole columns of the two innermost
 * dimensions are transposed, so that each cache line is read once.
 */
#define TILE_ROWS 64
#define TILE_NBYTES 256                        /* of a row */
#define TILE_PITCH (TILE_NBYTES + LINE_NBYTES) /* not a power of two: columns share no cache set */
static void gather_panel(const reducer *r, const char *first, int64_t t, int64_t n, mylib_type to,
                         char *buffer)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t rows = l->shape[inner], size = (int64_t)mylib_type_size(to), done = 0;
    int64_t across = l->strides[1][inner], beside = l->strides[1][inner - 1];
    int64_t stored = (int64_t)mylib_type_size((mylib_type)r->program->input_type[0]);
    int64_t wide = TILE_NBYTES / stored;
    char tile[TILE_ROWS * TILE_PITCH];
    while (done < n) {
        int64_t row = (t + done) % rows, column = (t + done) / rows % l->shape[inner - 1];
        int64_t columns = (n - done) / rows;
        if (columns > l->shape[inner - 1] - column)
            columns = l->shape[inner - 1] - column;
        if (row != 0 || columns == 0) {
            int64_t rest = rows - row < n - done ? rows - row : n - done;
            gather(r, 0, first, t + done, rest, to, buffer + done * size);
            done += rest;
            continue;
        }
        const char *from = first + term_offset(r, 0, t + done);
        for (int64_t c = 0; c < columns; c += wide) {
            int64_t w = columns - c < wide ? columns - c : wide;
            for (int64_t i = 0; i < rows; i += TILE_ROWS) {
                int64_t h = rows - i < TILE_ROWS ? rows - i : TILE_ROWS;
                for (int64_t k = 0; k < h; k++)
                    mylib_copy_strided((size_t)stored, w, tile + k * TILE_PITCH, stored,
                                       from + c * beside + (i + k) * across, beside);
                for (int64_t k = 0; k < w; k++)
                    load(r, 0, to, buffer + (done + (c + k) * rows + i) * size, size,
                         tile + k * stored, TILE_PITCH, h);
            }
        }
        done += columns * rows;
    }
}

/* The blocks of group g of one output; first[k] is the first term of input k. */
static void reduce_along(const reducer *r, const char *const first[2], int64_t g, char *result)
{
    _Alignas(64) char a_buffer[TERMS_NBYTES], b_buffer[TERMS_NBYTES];
    t_c128 levels[64], value;
    char *panel = NULL;
    int64_t begin, end, size = (int64_t)mylib_type_size(r->block_type);
    group_blocks(r, g, &begin, &end);
    counter c = {0, (char *)levels, r->size, 1};
    if (r->panel != 0)
        panel = malloc((size_t)(r->panel * MYLIB_BLOCK_TERMS * size));
    for (int64_t block = begin; block < end; block++) {
        int64_t t = block * MYLIB_BLOCK_TERMS, n = block_terms(r, block);
        const char *a, *b = NULL;
        if (panel != NULL) {
            int64_t at = (block - begin) % r->panel, last = block + r->panel - 1;
            if (at == 0) {
                last = last < end ? last : end - 1;
                gather_panel(r, first[0], t,
                             (last - block) * MYLIB_BLOCK_TERMS + block_terms(r, last),
                             r->block_type, panel);
            }
            a = panel + at * MYLIB_BLOCK_TERMS * size;
        } else {
            a = gather(r, 0, first[0], t, n, r->block_type, a_buffer);
        }
        if (r->program->inputs == 2) {
            b = gather(r, 1, first[1], t, n, r->block_type, b_buffer);
            if (r->product != NULL) {
                r->product(n, a_buffer, r->size, a, r->size, b, r->size);
                a = a_buffer;
            }
        }
        r->block(n, (char *)&value, a, b);
        if (end - begin > 1)
            count_block(r, &c, (char *)&value);
    }
    memcpy(result, end - begin > 1 ? count_end(r, &c) : (char *)&value, (size_t)r->size);
    free(panel);
}

/* Task i: one group of blocks of a share of the outputs. */
static void task_along(void *context, int64_t i)
{
    const reducer *r = context;
    const mylib_layout *l = r->layout;
    int64_t g = i % r->groups, output = i / r->groups * r->share;
    int64_t end = output + r->share < r->outputs ? output + r->share : r->outputs;
    for (; output < end; output++) {
        const char *first[2] = {l->data[1] + output_offset(r, 1, output, -1), NULL};
        t_c128 result;
        if (r->program->inputs == 2)
            first[1] = l->data[2] + output_offset(r, 2, output, -1);
        reduce_along(r, first, g, (char *)&result);
        if (r->groups == 1)
            store(r, l->data[0] + output_offset(r, 0, output, -1), 0, (char *)&result, 1);
        else
            memcpy(r->partial + (g * r->outputs + output) * r->size, &result, (size_t)r->size);
    }
}

/* ---- Across the outputs -------------------------------------------------------------------- */

/* A row of values: one for each output of a strip, of the carrying type. */
typedef struct row {
    const char *data;
    int64_t stride;
} row;

typedef struct strip {
    const reducer *r;
    const char *first; /* term 0 of the first output */
    int64_t stride;    /* between outputs */
    int64_t width;
    int64_t nbytes; /* of a row in the room */
    char *room;
    int64_t block, lanes, terms; /* of the current block */
} strip;

/* The row of term t of the block; in the room only where it must be converted. */
static row load_row(const strip *s, int64_t t, int slot)
{
    const reducer *r = s->r;
    const char *from = s->first + term_offset(r, 0, s->block * MYLIB_BLOCK_TERMS + t);
    char *to = s->room + slot * s->nbytes;
    if (is_stored_as(r, 0, r->carrier))
        return (row){from, s->stride};
    load(r, 0, r->carrier, to, r->size, from, s->stride, s->width);
    return (row){to, r->size};
}

/* a combined with b, into the slot, where a may be. */
static row combine_rows(const strip *s, row a, row b, int slot)
{
    char *to = s->room + slot * s->nbytes;
    s->r->combine(s->width, to, s->r->size, a.data, a.stride, b.data, b.stride);
    return (row){to, s->r->size};
}

/*
 * What lane l holds after the steps of the pairwise tree from + 128 down to + half; half 256 is
 * before the first.  Lanes are summed up when the tree first needs them, and at most one row per
 * step waits: in `slot` and those after it.
 */
#define LANE_SLOTS 10
static row reduce_lane(const strip *s, int64_t l, int64_t half, int slot)
{
    if (half == MYLIB_BLOCK_LANES || half >= s->lanes) {
        row sum = load_row(s, l, slot);
        for (int64_t t = l + MYLIB_BLOCK_LANES; t < s->terms; t += MYLIB_BLOCK_LANES)
            sum = combine_rows(s, sum, load_row(s, t, slot + 1), slot);
        return sum;
    }
    row left = reduce_lane(s, l, 2 * half, slot);
    if (l + half >= s->lanes)
        return left;
    return combine_rows(s, left, reduce_lane(s, l + half, 2 * half, slot + 1), slot);
}

/* The same for 256 rows without gaps at a time. */
static row reduce_narrow(const strip *s)
{
    const reducer *r = s->r;
    const int64_t width = s->width, size = r->size, row_nbytes = MYLIB_BLOCK_LANES * s->nbytes;
    char *sum = s->room, *next = s->room + row_nbytes;
    int64_t stored = (int64_t)mylib_type_size((mylib_type)r->program->input_type[0]);
    const char *from = s->first + s->block * MYLIB_BLOCK_TERMS * width * stored;
    int is_carrier = is_stored_as(r, 0, r->carrier);
    for (int64_t t = 0; t < s->terms; t += MYLIB_BLOCK_LANES) {
        int64_t lanes = s->terms - t < MYLIB_BLOCK_LANES ? s->terms - t : MYLIB_BLOCK_LANES;
        const char *terms = from + t * width * stored;
        if (t == 0) {
            load(r, 0, r->carrier, sum, size, terms, stored, lanes * width);
        } else if (is_carrier) {
            combine(r, lanes * width, sum, terms);
        } else {
            load(r, 0, r->carrier, next, size, terms, stored, lanes * width);
            combine(r, lanes * width, sum, next);
        }
    }
    for (int64_t half = MYLIB_BLOCK_LANES / 2; half > 0; half /= 2) {
        int64_t pairs = s->lanes - half < half ? s->lanes - half : half;
        if (pairs > 0)
            combine(r, pairs * width, sum, sum + half * width * size);
    }
    return (row){sum, size};
}

/* Task i: one group of blocks of one strip. */
static void task_across(void *context, int64_t i)
{
    _Alignas(64) char room[ROOM_NBYTES];
    const reducer *r = context;
    const mylib_layout *l = r->layout;
    int64_t g = i % r->groups, at = i / r->groups, begin, end;
    int64_t outer = at / r->strips, from = at % r->strips * r->width;
    int64_t rest = l->shape[r->across] - from;
    strip s = {.r = r, .stride = l->strides[1][r->across]};
    s.first = l->data[1] + output_offset(r, 1, outer, r->across) + from * s.stride;
    s.width = r->width < rest ? r->width : rest;
    s.nbytes = s.width * r->size;
    s.room = room;

    group_blocks(r, g, &begin, &end);
    counter c = {0, NULL, s.nbytes, s.width};
    c.levels = room + ROOM_NBYTES - count_levels(end - begin) * s.nbytes;
    row result = {NULL, 0};
    for (s.block = begin; s.block < end; s.block++) {
        s.terms = block_terms(r, s.block);
        s.lanes = s.terms < MYLIB_BLOCK_LANES ? s.terms : MYLIB_BLOCK_LANES;
        result = r->is_narrow ? reduce_narrow(&s) : reduce_lane(&s, 0, 1, 0);
        if (result.data != room) /* a single term, where it was stored */
            mylib_copy_strided((size_t)r->size, s.width, room, r->size, result.data, result.stride);
        if (end - begin > 1)
            count_block(r, &c, room);
    }
    const char *rows = end - begin > 1 ? count_end(r, &c) : room;
    if (r->groups == 1) {
        int64_t stride = l->strides[0][r->across];
        store(r, l->data[0] + output_offset(r, 0, outer, r->across) + from * stride, stride, rows,
              s.width);
    } else {
        int64_t output = outer * l->shape[r->across] + from;
        memcpy(r->partial + (g * r->outputs + output) * r->size, rows, (size_t)s.nbytes);
    }
}

/*
 * Whether to go across the outputs, and along which dimension: the fastest that is long enough.
 * How it goes does not change the result.
 */
static void choose_way(reducer *r)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    r->across = -1;
    if (r->program->inputs != 1 || r->outputs == 1)
        return;
    int d = r->kept - 1;
    int64_t stored = (int64_t)mylib_type_size((mylib_type)r->program->input_type[0]);
    int64_t width = l->shape[d];
    /* Lanes, lanes that are converted, and a counter's levels. */
    int64_t narrow_rows = (is_stored_as(r, 0, r->carrier) ? 1 : 2) * MYLIB_BLOCK_LANES + 64;
    if (inner == r->kept && l->strides[1][d] == stored && l->strides[1][inner] == width * stored &&
        narrow_rows * width * r->size <= ROOM_NBYTES) {
        r->is_narrow = 1;
        r->across = d;
        r->width = width;
        r->strips = 1;
        return;
    }
    while (d > 0 && l->shape[d] < 2 * MIN_WIDTH)
        d--;
    width = l->shape[d];
    int64_t stride = llabs(l->strides[1][d]);
    int64_t term_stride = inner >= r->kept ? llabs(l->strides[1][inner]) : 0;
    if (width < MIN_WIDTH || (term_stride < stride && r->terms >= MIN_ALONG))
        return;
    int64_t most = ROOM_NBYTES / ((LANE_SLOTS + count_levels(r->blocks)) * r->size);
    r->strips = (width + most - 1) / most;
    /* Strips of one size, in whole vectors. */
    width = (width + r->strips - 1) / r->strips;
    width = (width + 15) / 16 * 16;
    r->width = width < most ? width : most;
    r->strips = (l->shape[d] + r->width - 1) / r->width;
    r->across = d;
}

/* ---- All ----------------------------------------------------------------------------------- */

/*
 * Along terms that lie across memory, several columns are gathered at a time: as many as share
 * cache lines and pages, if they fit the cache.
 */
static void choose_panel(reducer *r)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    if (inner <= r->kept || r->program->inputs != 1 || l->shape[inner] < TILE_ROWS)
        return;
    int64_t beside = llabs(l->strides[1][inner - 1]);
    int64_t most = MAX_PANEL_NBYTES / (int64_t)mylib_type_size(r->block_type) / l->shape[inner];
    int64_t columns = beside == 0 ? 0 : TILE_NBYTES / beside;
    columns = columns < most ? columns : most;
    if (columns < 4 || beside >= llabs(l->strides[1][inner]) ||
        r->terms < 2 * columns * l->shape[inner])
        return;
    r->panel = 1;
    while (r->panel * MYLIB_BLOCK_TERMS < columns * l->shape[inner])
        r->panel *= 2;
}

/* Cuts the blocks into groups of a power of two, so that there are `wanted` tasks. */
static void choose_groups(reducer *r, int64_t tasks, int64_t wanted)
{
    r->group = r->panel > 1 ? r->panel : 1;
    while ((r->blocks + r->group - 1) / r->group > MAX_GROUPS)
        r->group *= 2;
    while (r->group < r->blocks && tasks * ((r->blocks + r->group - 1) / r->group) > wanted)
        r->group *= 2;
    r->groups = (r->blocks + r->group - 1) / r->group;
    if (r->groups > 1)
        r->partial = malloc((size_t)(r->groups * r->outputs * r->size));
    if (r->partial == NULL) {
        r->group = r->blocks;
        r->groups = 1;
    }
}

/* The groups of each output, pairwise. */
static void combine_groups(const reducer *r)
{
    const mylib_layout *l = r->layout;
    const int64_t nbytes = r->outputs * r->size;
    for (int64_t left = r->groups; left > 1; left = (left + 1) / 2) {
        for (int64_t g = 0; g < left / 2; g++) {
            char *to = r->partial + g * nbytes;
            r->combine(r->outputs, to, r->size, r->partial + 2 * g * nbytes, r->size,
                       r->partial + (2 * g + 1) * nbytes, r->size);
        }
        if (left % 2 != 0)
            memcpy(r->partial + left / 2 * nbytes, r->partial + (left - 1) * nbytes,
                   (size_t)nbytes);
    }
    /* Partial results lie in the order of tasks: the dimension across is the innermost. */
    int64_t run = r->across >= 0 ? l->shape[r->across] : 1;
    int64_t stride = r->across >= 0 ? l->strides[0][r->across] : 0;
    for (int64_t i = 0; i < r->outputs / run; i++)
        store(r, l->data[0] + output_offset(r, 0, i, r->across), stride,
              r->partial + i * run * r->size, run);
}

/* The sum or product of no terms. */
static void store_identity(const reducer *r)
{
    t_c128 identity;
    t_i64 number = r->reduction == MYLIB_PROD;
    r->cpu->convert(r->carrier, MYLIB_I64, 1, (char *)&identity, 0, (const char *)&number, 0);
    for (int64_t i = 0; i < r->outputs; i++)
        store(r, r->layout->data[0] + output_offset(r, 0, i, -1), 0, (char *)&identity, 1);
}

mylib_status mylib_cpu_reduce(mylib_reduction reduction, const mylib_code *program,
                              const mylib_layout *layout, int kept_ndim, mylib_type out_type)
{
    static const mylib_op ops[] = {MYLIB_OP_add, MYLIB_OP_multiply, MYLIB_OP_minimum,
                                   MYLIB_OP_maximum};
    reducer r = {.reduction = reduction, .program = program, .layout = layout, .cpu = mylib_cpu()};
    r.kept = kept_ndim;
    r.outputs = r.terms = 1;
    for (int d = 0; d < layout->ndim; d++)
        *(d < kept_ndim ? &r.outputs : &r.terms) *= layout->shape[d];
    r.blocks = (r.terms + MYLIB_BLOCK_TERMS - 1) / MYLIB_BLOCK_TERMS;
    r.type = (mylib_type)program->result_type;
    r.carrier = (mylib_type)program->type;
    r.out_type = out_type;
    r.size = (int64_t)mylib_type_size(r.carrier);
    if (r.outputs == 0)
        return MYLIB_OK;
    if (r.terms == 0) {
        store_identity(&r);
        return MYLIB_OK;
    }

    r.combine = r.cpu->kernel(ops[reduction], r.carrier);
    r.block_type = reduction == MYLIB_SUM && program->inputs == 1 ? r.type : r.carrier;
    r.block = program->inputs == 2 ? r.cpu->block_dot(r.block_type) : NULL;
    if (r.block == NULL) {
        r.block = r.cpu->block_reduce(reduction, r.block_type);
        r.product = program->inputs == 2 ? r.cpu->kernel(MYLIB_OP_multiply, r.carrier) : NULL;
    }

    int64_t nbytes = 0, threads = 1, tasks;
    for (int k = 0; k < program->inputs; k++)
        nbytes += layout->count * (int64_t)mylib_type_size((mylib_type)program->input_type[k]);
    if (nbytes >= 2 * THREAD_MIN_NBYTES) {
        threads = mylib_cpu_threads();
        threads = threads < nbytes / THREAD_MIN_NBYTES ? threads : nbytes / THREAD_MIN_NBYTES;
    }
    choose_way(&r);
    if (r.across >= 0) {
        tasks = r.outputs / layout->shape[r.across] * r.strips;
    } else {
        choose_panel(&r);
        /* Several outputs at a time, but enough tasks for all threads. */
        r.share = threads > 1 ? (r.outputs + 16 * threads - 1) / (16 * threads) : r.outputs;
        tasks = (r.outputs + r.share - 1) / r.share;
    }
    choose_groups(&r, tasks, threads > 1 ? 16 * threads : 1);
    mylib_cpu_parallel((int)threads, tasks * r.groups, r.across >= 0 ? task_across : task_along,
                       &r);
    if (r.groups > 1)
        combine_groups(&r);
    free(r.partial);
    return MYLIB_OK;
}

void mylib_cpu_fold_sum(mylib_type type, int64_t n, char *value, const char *a, int64_t a_stride)
{
    mylib_type carrier;
    int64_t size = (int64_t)mylib_type_size(type);
    t_c128 sum;
    mylib_layout layout;
    mylib_sum_type(type, &carrier);
    carrier = type == MYLIB_F16 ? MYLIB_F32 : carrier;
    const mylib_code program = {(uint8_t)carrier, (uint8_t)type,           1, 1,
                                   {(uint8_t)type},  {{MYLIB_OPCODE_LOAD, 0}}};
    layout.ndim = 1;
    layout.operands = 2;
    layout.count = layout.shape[0] = n;
    layout.data[0] = (char *)&sum;
    layout.data[1] = (char *)a;
    layout.strides[0][0] = 0;
    layout.strides[1][0] = a_stride;
    if (type == MYLIB_F16) {
        /* In f32, and rounded once. */
        float x, terms;
        mylib_cpu_reduce(MYLIB_SUM, &program, &layout, 0, MYLIB_F32);
        memcpy(&terms, &sum, sizeof terms);
        mylib_cpu()->block_reduce(MYLIB_SUM, MYLIB_F16)(1, (char *)&x, value, NULL);
        t_f16 h = mylib_cpu()->f16_from_f32(x + terms);
        memcpy(value, &h, sizeof h);
    } else {
        mylib_cpu_reduce(MYLIB_SUM, &program, &layout, 0, type);
        mylib_cpu()->kernel(MYLIB_OP_add, type)(1, value, size, value, size, (char *)&sum, size);
    }
}
