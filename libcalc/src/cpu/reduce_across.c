/*
 * reduce_across.c - reduces across the outputs: the element-wise kernels combine rows of terms of
 * many outputs.
 *
 * The pairwise tree over the lanes is walked depth first, so that few rows are held at a time.
 * Short rows without gaps (a matrix of few columns) are reduced differently: 256 rows form one long
 * row, and the tree combines its halves.
 */
#include "cpu/reducer.h"

/* The memory for rows of a task; few of them are used at a time. */
#define ROOM_NBYTES (192 * 1024)

/* Below this number of outputs or terms, reducing across the outputs does not pay. */
#define MIN_WIDTH 8
#define MIN_ALONG 32

/* The least and the most columns of integers that are summed span by span, not row by row. */
#define FEW_COLUMNS 24
#define MANY_COLUMNS 1024

/* ---- Choosing ---- */

/* Returns the rows of memory for narrow rows: lanes, and lanes that a program computes. */
static int64_t narrow_room_rows(const mylib_reducer *r)
{
    return (r->term_inputs == 1 ? 1 : 2) * MYLIB_BLOCK_LANES;
}

/* Tells whether rows of outputs, along d, follow each other without gaps in all moving inputs. */
static int rows_are_narrow(const mylib_reducer *r, int d)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1, moving = 0;
    int64_t width = l->shape[d], rows = narrow_room_rows(r) + 64 /* levels of a tree */;
    if (inner != r->kept_ndim || rows * width * r->size > ROOM_NBYTES || r->takes_first)
        return 0;
    /* Terms read in place need a stride; other inputs only give the shape. */
    if (r->term_inputs == 1 && l->strides[1 + r->term_input[0]][d] == 0)
        return 0;
    for (int k = 0; k < r->inputs; k++) {
        int64_t size = input_size(r, k), beside = l->strides[1 + k][d];
        int64_t below = l->strides[1 + k][inner];
        if ((beside != 0 || below != 0) && (beside != size || below != width * size))
            return 0;
        moving |= beside != 0;
    }
    return moving;
}

/* Tells whether dimension d suits most inputs better than the terms; repeated ones are cached. */
static int suits_across(const mylib_reducer *r, int d)
{
    const mylib_layout *l = r->layout;
    int votes = 0;
    for (int k = 0; k < r->inputs; k++) {
        const int64_t beside = llabs(l->strides[1 + k][d]);
        const int nearest = nearest_reduced(r, k, l->ndim);
        const int64_t below = nearest >= 0 ? llabs(l->strides[1 + k][nearest]) : 0;
        if (beside != 0 && below != 0)
            votes += (beside < below) - (below < beside);
    }
    return votes >= 0 || r->terms < MIN_ALONG;
}

#define LANE_SLOTS 10 /* rows that reduce_lane() and reduce_runs() hold at most */

void mylib_choose_across(mylib_reducer *r)
{
    const mylib_layout *l = r->layout;
    r->across = -1;
    if (r->inputs == 0 || r->outputs == 1)
        return;
    int d = r->kept_ndim - 1;
    if (rows_are_narrow(r, d)) {
        r->is_narrow = 1;
        r->across = d;
        r->width = l->shape[d];
        r->strips = 1;
        return;
    }
    while (d > 0 && l->shape[d] < 2 * MIN_WIDTH)
        d--;
    int64_t width = l->shape[d];
    if (width < MIN_WIDTH || !suits_across(r, d))
        return;
    int64_t most = ROOM_NBYTES / ((LANE_SLOTS + block_tree_levels(r->blocks)) * r->size);
    const int threads = mylib_choose_threads(l->count * r->size);
    if (threads > 1 && r->outputs / width * r->blocks < 4 * threads)
        most /= 4; /* for enough tasks */
    /* Strips have one size, in whole vectors. */
    width = mylib_round_up(mylib_divide_up(width, mylib_divide_up(width, most)), 16);
    r->width = mylib_lesser(width, most);
    r->strips = mylib_divide_up(l->shape[d], r->width);
    r->across = d;
}

/* ---- Rows ---- */

typedef struct row {
    const char *data;
    int64_t stride;
} row;

typedef struct strip {
    const mylib_reducer *r;
    const char *first[MYLIB_PROGRAM_MAX_INPUTS]; /* term 0 of the first output */
    char **data;
    int64_t width;
    int64_t nbytes; /* of a row in `room` */
    char *room;
    int64_t block, lanes, terms; /* of the current block */
    /* Short rows are prefetched, because the tree does not read them in the order of memory. */
    int64_t fetched_nbytes, ahead;
} strip;

static inline row load_row(const strip *s, int64_t t, int slot)
{
    const mylib_reducer *r = s->r;
    char *to = s->room + slot * s->nbytes;
    t += s->block * MYLIB_BLOCK_TERMS;
    if (r->term_inputs == 1) {
        int k = r->term_input[0];
        const char *p = s->first[k] + term_offset(r, k, t);
        for (int64_t i = 0; i < s->fetched_nbytes; i += MYLIB_LINE_NBYTES)
            __builtin_prefetch(p + s->ahead + i, 0, 2);
        return (row){p, r->layout->strides[1 + k][r->across]};
    }
    run_terms(r, s->first, s->data, t, s->width, to);
    return (row){to, r->size};
}

static inline row combine_rows(const strip *s, row a, row b, int slot)
{
    char *to = s->room + slot * s->nbytes;
    s->r->combine(s->width, to, s->r->size, a.data, a.stride, b.data, b.stride);
    return (row){to, s->r->size};
}

/*
 * Returns the value of lane l after the steps of the pairwise tree from + 128 down to + half; with
 * half 256, before the first.  A lane is reduced when the tree first needs it, and at most one row
 * per step waits: in `slot` and those after it.
 */
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

/*
 * Returns the result of lanes l to l + lanes - 1, at most 256, for reductions in which the first
 * term wins: lanes take consecutive terms, and neighbours are combined.
 */
static row reduce_runs(const strip *s, int64_t l, int64_t lanes, int slot)
{
    const int64_t run = mylib_divide_up(s->terms, MYLIB_BLOCK_LANES);
    const int64_t next = l + lanes / 2;
    if (lanes == 1) {
        row sum = load_row(s, l * run, slot);
        for (int64_t t = l * run + 1; t < l * run + run && t < s->terms; t++)
            sum = combine_rows(s, sum, load_row(s, t, slot + 1), slot);
        return sum;
    }
    row left = reduce_runs(s, l, lanes / 2, slot);
    if (next * run >= s->terms)
        return left;
    return combine_rows(s, left, reduce_runs(s, next, lanes / 2, slot + 1), slot);
}

/* For integers, whose order does not matter. */
static row reduce_in_turn(const strip *s)
{
    row sum = load_row(s, 0, 0);
    for (int64_t t = 1; t < s->terms; t++)
        sum = combine_rows(s, sum, load_row(s, t, 1), 0);
    return sum;
}

/* ---- Narrow rows ---- */

/* Returns how many rows follow each other without gaps from term t of the block on, at most 256. */
static int64_t narrow_lanes(const strip *s, int64_t t)
{
    return mylib_lesser(s->terms - t, MYLIB_BLOCK_LANES);
}

static const char *narrow_rows(const strip *s, int64_t t, char *to)
{
    const mylib_reducer *r = s->r;
    const int64_t n = narrow_lanes(s, t) * s->width;
    t += s->block * MYLIB_BLOCK_TERMS;
    if (r->term_inputs == 1)
        return s->first[r->term_input[0]] + term_offset(r, r->term_input[0], t);
    run_terms(r, s->first, s->data, t, n, to);
    return to;
}

static row reduce_narrow(const strip *s)
{
    const mylib_reducer *r = s->r;
    const int64_t width = s->width, size = r->size;
    char *sum = s->room, *next = s->room + MYLIB_BLOCK_LANES * s->nbytes;
    for (int64_t t = 0; t < s->terms; t += MYLIB_BLOCK_LANES) {
        const char *terms = narrow_rows(s, t, t == 0 ? sum : next);
        if (t > 0)
            combine(r, narrow_lanes(s, t) * width, sum, terms);
        else if (terms != sum)
            memcpy(sum, terms, (size_t)(narrow_lanes(s, t) * width * size));
    }
    for (int64_t half = MYLIB_BLOCK_LANES / 2; half > 0; half /= 2) {
        int64_t pairs = mylib_lesser(s->lanes - half, half);
        if (pairs > 0)
            combine(r, pairs * width, sum, sum + half * width * size);
    }
    return (row){sum, size};
}

/* ---- Columns ---- */

/* Tells whether kernels reduce whole columns, which is slower for narrow rows of truths. */
static int has_columns(const mylib_reducer *r)
{
    const mylib_layout *l = r->layout;
    if (r->inputs != 1)
        return 0;
    if (r->has_truths)
        return !r->is_narrow;
    return r->reduction == MYLIB_SUM && r->carrier <= MYLIB_U64 && r->width >= FEW_COLUMNS &&
           r->width <= MANY_COLUMNS && mylib_is_conversion(&r->terms_of.program) &&
           r->terms_of.program.input_type[0] <= MYLIB_U64 &&
           l->strides[1][r->across] == input_size(r, 0);
}

/* Sums all columns in blocks [begin, end), or seeks or counts their true elements, in `room`. */
static void reduce_columns(const strip *s, int64_t begin, int64_t end)
{
    const mylib_reducer *r = s->r;
    const mylib_layout *l = r->layout;
    const int inner = l->ndim - 1;
    const mylib_type type = (mylib_type)r->terms_of.program.input_type[0];
    const int64_t stride = inner < r->kept_ndim ? 0 : l->strides[1][inner];
    const int64_t last = mylib_lesser(r->terms, end * MYLIB_BLOCK_TERMS);
    memset(s->room, r->has_truths && r->truths == MYLIB_SEEK_FALSE, (size_t)s->nbytes);
    for (int64_t t = begin * MYLIB_BLOCK_TERMS, n; t < last; t += n) {
        n = terms_in_row(r, t, last - t);
        const char *p = s->first[0] + term_offset(r, 0, t);
        if (r->has_truths) {
            r->cpu->truths_of_columns(r->truths, type, n, stride, s->width, p,
                                      l->strides[1][r->across], s->room);
        } else {
            n = mylib_lesser(n, 64); /* lines of which parts are left stay in the cache */
            r->cpu->column_sums[type](n, stride, s->width, p, s->room);
        }
    }
}

/* ---- Tasks ---- */

static int64_t room_rows(const mylib_reducer *r)
{
    if (!r->is_narrow)
        return LANE_SLOTS;
    return r->terms <= MYLIB_BLOCK_LANES ? r->terms : narrow_room_rows(r);
}

void mylib_reduce_across(void *context, int thread, int64_t i)
{
    (void)thread;
    mylib_reducer *r = context;
    const mylib_layout *l = r->layout;
    int64_t g = i % r->groups, at = i / r->groups, begin, end;
    int64_t outer = at / r->strips, from = at % r->strips * r->width;
    mylib_row_data row_data;
    strip s;
    void *memory;
    s.r = r;
    s.width = mylib_lesser(r->width, l->shape[r->across] - from);
    s.nbytes = s.width * r->size;
    group_blocks(r, g, &begin, &end);
    const int64_t below = room_rows(r) * s.nbytes;
    const int64_t room_nbytes = below + block_tree_levels(end - begin) * s.nbytes;
    s.room = mylib_reducer_begin_task(r, &row_data, (size_t)room_nbytes, &memory);
    if (s.room == NULL)
        return;
    s.data = row_data.data;
    for (int k = 0; k < r->inputs; k++)
        s.first[k] = l->data[1 + k] + output_offset(r, 1 + k, outer, r->across) +
                     from * l->strides[1 + k][r->across];
    s.fetched_nbytes = 0;
    if (r->term_inputs == 1 && l->ndim - 1 == r->kept_ndim && !r->is_narrow) {
        const int64_t *strides = l->strides[1 + r->term_input[0]];
        if (strides[r->across] == r->size && s.nbytes <= 4096)
            s.fetched_nbytes = s.nbytes;
        s.ahead = MYLIB_BLOCK_LANES * strides[l->ndim - 1];
    }
    block_tree tree = {0, s.room + below, s.nbytes, s.width};
    const int is_done = has_columns(r);
    if (is_done)
        reduce_columns(&s, begin, end);
    for (s.block = begin; s.block < end && !is_done; s.block++) {
        s.terms = block_terms(r, s.block);
        s.lanes = mylib_lesser(s.terms, MYLIB_BLOCK_LANES);
        row result = r->is_narrow              ? reduce_narrow(&s)
                     : r->takes_first          ? reduce_runs(&s, 0, MYLIB_BLOCK_LANES, 0)
                     : r->carrier <= MYLIB_U64 ? reduce_in_turn(&s)
                                               : reduce_lane(&s, 0, 1, 0);
        if (result.data != s.room) /* a single term, still in the input */
            mylib_copy_strided((size_t)r->size, s.width, s.room, r->size, result.data,
                               result.stride);
        if (end - begin > 1)
            block_tree_add(r, &tree, s.room);
    }
    const char *rows = end - begin > 1 && !is_done ? block_tree_result(r, &tree) : s.room;
    const int64_t stride = l->strides[0][r->across];
    mylib_reducer_end_task(r, g, outer * l->shape[r->across] + from,
                           l->data[0] + output_offset(r, 0, outer, r->across) + from * stride,
                           stride, rows, s.width);
    free(memory);
}
