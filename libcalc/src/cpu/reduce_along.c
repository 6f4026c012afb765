/*
 * reduce_along.c - reduces along the terms: one output at a time, block by block through the block
 * kernels.
 *
 * Terms that are an input's elements are read in place if they are contiguous.  Inputs with large
 * strides between terms are gathered first, a panel of blocks at a time.
 */
#include "cpu/reducer.h"

/* Columns that are gathered together; a few of them fit the second-level cache. */
#define MAX_PANEL_NBYTES (4 * 1024 * 1024)

/* ---- Gathering ---- */

static int is_in_place(const mylib_reducer *r, int k)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    return inner == r->kept_ndim && l->strides[1 + k][inner] == input_size(r, k) &&
           r->terms_of.program.input_type[k] == r->term_type;
}

/* Rows of fewer elements are read column by column, as many rows at a time as fit the L1 cache. */
#define SHORT_ROW 16
#define MOST_ROWS 512

/* Lines of terms of an input: `lines` of them, with n terms each, in any order. */
typedef struct lines {
    const char *first;
    int64_t lines, n;
    int64_t pitch, stride;           /* from line to line, from term to term, in bytes */
    int64_t term_pitch, term_stride; /* the same in terms */
} lines;

/* Finds lines of input k in n terms from t on; returns how many terms they have. */
static inline int64_t find_lines(const mylib_reducer *r, int k, const char *first, int64_t t,
                                 int64_t n, lines *x)
{
    const mylib_layout *l = r->layout;
    const int inner = l->ndim - 1;
    const int64_t stride = inner < r->kept_ndim ? 0 : l->strides[1 + k][inner];
    if (inner == r->kept_ndim) { /* at once: outputs may have few terms */
        *x = (lines){first + t * stride, 1, n, 0, stride, 0, 1};
        return n;
    }
    *x = (lines){first + term_offset(r, k, t), 1, terms_in_row(r, t, n), 0, stride, 0, 1};
    if (inner > r->kept_ndim && x->n == l->shape[inner]) { /* whole rows */
        const int64_t columns = x->n, pitch = l->strides[1 + k][inner - 1];
        const int64_t rows =
            mylib_lesser(n / columns, l->shape[inner - 1] - t / columns % l->shape[inner - 1]);
        if (columns < SHORT_ROW && rows > columns)
            *x = (lines){x->first, columns, mylib_lesser(rows, MOST_ROWS), stride, pitch,
                         1,        columns};
        else
            *x = (lines){x->first, rows, columns, pitch, stride, columns, 1};
    }
    return x->lines * x->n;
}

static void gather(const mylib_reducer *r, int k, const char *first, int64_t t, int64_t n,
                   mylib_type type, char *buffer)
{
    const int64_t size = (int64_t)mylib_type_size(type);
    lines x;
    for (const int64_t end = t + n; t < end; buffer += x.lines * x.n * size) {
        t += find_lines(r, k, first, t, end - t, &x);
        for (int64_t i = 0; i < x.lines; i++)
            r->cpu->convert(type, (mylib_type)r->terms_of.program.input_type[k], x.n,
                            buffer + i * x.term_pitch * size, x.term_stride * size,
                            x.first + i * x.pitch, x.stride);
    }
}

#define TILE_ROWS 64
#define TILE_NBYTES 256 /* of a row */
/* The distance of rows is not a power of two, so that columns share no cache set. */
#define TILE_PITCH (TILE_NBYTES + MYLIB_LINE_NBYTES)

/* Returns how many columns of input k share cache lines, if its terms lie across memory, or 0. */
static int64_t columns_per_line(const mylib_reducer *r, int k)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t beside = llabs(l->strides[1 + k][r->columns]);
    if (beside == 0 || beside >= llabs(l->strides[1 + k][inner]) || TILE_NBYTES / beside < 4)
        return 0;
    return TILE_NBYTES / beside;
}

/* Copies rows of `columns` elements, `across` bytes apart, to columns `pitch` bytes apart. */
static void transpose(int64_t size, int64_t rows, int64_t columns, char *to, int64_t pitch,
                      const char *from, int64_t across, int64_t beside, char *tile)
{
    const int64_t wide = TILE_NBYTES / size;
    for (int64_t c = 0; c < columns; c += wide) {
        const int64_t w = mylib_lesser(columns - c, wide);
        for (int64_t i = 0; i < rows; i += TILE_ROWS) {
            const int64_t h = mylib_lesser(rows - i, TILE_ROWS);
            for (int64_t j = 0; j < h; j++)
                mylib_copy_strided((size_t)size, w, tile + j * TILE_PITCH, size,
                                   from + c * beside + (i + j) * across, beside);
            for (int64_t j = 0; j < w; j++)
                mylib_copy_strided((size_t)size, h, to + (c + j) * pitch + i * size, size,
                                   tile + j * size, TILE_PITCH);
        }
    }
}

/*
 * Gathers like gather(), for many blocks, without conversion.  If the terms lie across memory,
 * whole columns are transposed: each cache line is read once.
 */
static void gather_panel(const mylib_reducer *r, int k, const char *first, int64_t t, int64_t n,
                         char *buffer, char *tile)
{
    const mylib_layout *l = r->layout;
    const int inner = l->ndim - 1;
    const int64_t rows = l->shape[inner], size = input_size(r, k), length = r->column_terms;
    const int is_transposed = rows >= TILE_ROWS && columns_per_line(r, k) != 0;
    for (int64_t done, end = t + n; t < end; t += done, buffer += done * size) {
        const int64_t column = t / length % l->shape[r->columns];
        const int64_t columns = mylib_lesser((end - t) / length, l->shape[r->columns] - column);
        done = columns * length;
        if (!is_transposed || t % length != 0 || columns == 0) {
            done = is_transposed ? mylib_lesser(length - t % length, end - t) : n;
            gather(r, k, first, t, done, (mylib_type)r->terms_of.program.input_type[k], buffer);
            continue;
        }
        for (int64_t i = 0; i < length; i += rows)
            transpose(size, rows, columns, buffer + i * size, length * size,
                      first + term_offset(r, k, t + i), l->strides[1 + k][inner],
                      l->strides[1 + k][r->columns], tile);
    }
}

/*
 * Gathers several columns of terms that lie across memory at a time: as many as share cache lines
 * and pages, if they fit the cache.  Also gathers short rows, for which the program would restart.
 */
void mylib_choose_panel(mylib_reducer *r)
{
    const mylib_layout *l = r->layout;
    const int inner = l->ndim - 1, inputs = r->inputs;
    if (inner <= r->kept_ndim || inputs < 1)
        return;
    int64_t columns = 0, size = 0, rows = l->shape[inner];
    r->columns = nearest_reduced(r, 0, inner);
    if (r->columns < 0)
        r->columns = inner - 1;
    r->column_terms = 1;
    for (int d = r->columns + 1; d <= inner; d++)
        r->column_terms *= l->shape[d];
    for (int k = 0; k < inputs; k++) {
        int64_t near = columns_per_line(r, k);
        size += input_size(r, k);
        if (near > 0 && (columns == 0 || near < columns))
            columns = near;
    }
    if (rows >= TILE_ROWS) {
        columns = mylib_lesser(columns, MAX_PANEL_NBYTES / size / r->column_terms);
        if (columns >= 4 && r->terms >= 2 * columns * r->column_terms) {
            r->panel = 1;
            while (r->panel * MYLIB_BLOCK_TERMS < columns * r->column_terms)
                r->panel *= 2;
        }
    } else if (r->term_inputs == 0 && r->terms > rows) {
        r->panel = 1;
    }
    r->panel_nbytes = r->panel * MYLIB_BLOCK_TERMS * size;
}

/* ---- The terms of one output ---- */

typedef struct source {
    const char *first[MYLIB_PROGRAM_MAX_INPUTS]; /* term 0 in each input */
    char *buffer[2];                             /* a block of each term input, or of results */
    char *panel;                                 /* or NULL; a tile is behind it */
    int64_t panel_term;                          /* the first term in the panel */
    char **data;
} source;

static char *panel_of(const mylib_reducer *r, const source *s, int k)
{
    char *panel = s->panel;
    for (int j = 0; j < k; j++)
        panel += r->panel * MYLIB_BLOCK_TERMS * input_size(r, j);
    return panel;
}

static void compute_terms(const mylib_reducer *r, const source *s, int64_t t, int64_t n, char *out)
{
    if (s->panel != NULL) {
        s->data[0] = out;
        for (int k = 0; k < r->inputs; k++)
            s->data[1 + k] = panel_of(r, s, k) + (t - s->panel_term) * input_size(r, k);
        mylib_run_row(&r->row_program, n, s->data);
        return;
    }
    for (int64_t done = 0, m; done < n; done += m) {
        m = terms_in_row(r, t + done, n - done);
        run_terms(r, s->first, s->data, t + done, m, out + done * r->term_size);
    }
}

/* Returns n elements of input k from t on as term_type: in place, or in `buffer`. */
static const char *load_terms(const mylib_reducer *r, const source *s, int k, int64_t t, int64_t n,
                              char *buffer)
{
    mylib_type stored = (mylib_type)r->terms_of.program.input_type[k];
    const char *first = s->first[k]; /* NOLINT(clang-analyzer-core.*): input k exists */
    if (is_in_place(r, k))
        return first + t * input_size(r, k);
    if (s->panel == NULL) {
        gather(r, k, first, t, n, r->term_type, buffer);
        return buffer;
    }
    const char *gathered = panel_of(r, s, k) + (t - s->panel_term) * input_size(r, k);
    if (stored == r->term_type)
        return gathered;
    r->cpu->convert(r->term_type, stored, n, buffer, (int64_t)mylib_type_size(r->term_type),
                    gathered, input_size(r, k));
    return buffer;
}

static void fill_panel(const mylib_reducer *r, source *s, int64_t block, int64_t end)
{
    int64_t last = mylib_lesser(block + r->panel, end) - 1;
    s->panel_term = block * MYLIB_BLOCK_TERMS;
    for (int k = 0; k < r->inputs; k++)
        if (r->term_inputs == 0 || !is_in_place(r, k))
            gather_panel(r, k, s->first[k], s->panel_term,
                         (last - block) * MYLIB_BLOCK_TERMS + block_terms(r, last),
                         panel_of(r, s, k), s->panel + r->panel_nbytes);
}

static size_t buffer_nbytes(const mylib_reducer *r, int i)
{
    int64_t terms = mylib_lesser(r->terms, MYLIB_BLOCK_TERMS);
    if (r->has_truths)
        return 0;
    if (r->term_inputs == 0)
        return i == 0 ? mylib_round_up_to_lines((size_t)(terms * r->term_size)) : 0;
    if (i >= r->term_inputs || is_in_place(r, r->term_input[i]))
        return 0;
    return mylib_round_up_to_lines((size_t)terms * mylib_type_size(r->term_type));
}

/* ---- Reducing ---- */

static void reduce_truths(const mylib_reducer *r, const source *s, int64_t t, int64_t n,
                          char *result)
{
    const mylib_type type = (mylib_type)r->terms_of.program.input_type[0];
    const int counts = r->truths == MYLIB_COUNT_TRUE;
    int64_t total = 0;
    lines x;
    for (const int64_t end = t + n; t < end && (counts || total == 0);) {
        /* NOLINTNEXTLINE(clang-analyzer-core.*): the input exists */
        t += find_lines(r, 0, s->first[0], t, end - t, &x);
        for (int64_t i = 0; i < x.lines && (counts || total == 0); i++)
            total += r->cpu->truths(r->truths, type, x.n, x.first + i * x.pitch, x.stride);
    }
    if (counts)
        memcpy(result, &total, sizeof total);
    else
        *(uint8_t *)result = (r->truths == MYLIB_SEEK_TRUE) == (total != 0);
}

/* Returns how many blocks r->block reduces at once: several if their order does not matter. */
static int64_t blocks_at_once(const mylib_reducer *r)
{
    const int is_exact = r->carrier <= MYLIB_U64 && r->term_inputs == 1;
    return is_exact && is_in_place(r, r->term_input[0]) ? MYLIB_BLOCKS_AT_ONCE : 1;
}

static void reduce_group(const mylib_reducer *r, source *s, int64_t g, char *result)
{
    t_c128 levels[64], value;
    int64_t begin, end;
    group_blocks(r, g, &begin, &end);
    if (r->has_truths) {
        const int64_t t = begin * MYLIB_BLOCK_TERMS;
        reduce_truths(r, s, t, mylib_lesser(r->terms, end * MYLIB_BLOCK_TERMS) - t, result);
        return;
    }
    block_tree tree = {0, (char *)levels, r->size, 1};
    const int64_t step = blocks_at_once(r);
    for (int64_t block = begin; block < end; block += step) {
        int64_t t = block * MYLIB_BLOCK_TERMS;
        int64_t n = mylib_lesser(r->terms - t, mylib_lesser(step, end - block) * MYLIB_BLOCK_TERMS);
        const char *terms[2] = {s->buffer[0], NULL};
        if (s->panel != NULL && (block - begin) % r->panel == 0)
            fill_panel(r, s, block, end);
        if (r->term_inputs == 0)
            compute_terms(r, s, t, n, s->buffer[0]);
        for (int i = 0; i < r->term_inputs; i++)
            terms[i] = load_terms(r, s, r->term_input[i], t, n, s->buffer[i]);
        r->block(n, (char *)&value, terms[0], terms[1]);
        if (r->takes_first && is_better(r, &tree, (char *)&value))
            mylib_take_first(r, n, (char *)&value, terms[0]);
        if (r->decisive == *(uint8_t *)&value) {
            memcpy(result, &value, (size_t)r->size);
            return;
        }
        if (end - begin > step)
            block_tree_add(r, &tree, (char *)&value);
    }
    memcpy(result, end - begin > step ? block_tree_result(r, &tree) : (char *)&value,
           (size_t)r->size);
}

void mylib_reduce_along(void *context, int thread, int64_t i)
{
    (void)thread;
    mylib_reducer *r = context;
    const mylib_layout *l = r->layout;
    int64_t g = i % r->groups, output = i / r->groups * r->share;
    int64_t end = mylib_lesser(output + r->share, r->outputs);
    const size_t first = buffer_nbytes(r, 0);
    mylib_row_data row_data;
    source s;
    void *memory;
    s.buffer[0] = mylib_reducer_begin_task(r, &row_data, first + buffer_nbytes(r, 1), &memory);
    if (s.buffer[0] == NULL)
        return;
    s.buffer[1] = s.buffer[0] + first;
    s.panel_term = 0;
    s.data = row_data.data;
    s.panel = r->panel != 0 ? malloc((size_t)r->panel_nbytes + TILE_ROWS * TILE_PITCH) : NULL;
    if (s.panel == NULL && r->panel != 0 && r->term_inputs == 0) {
        atomic_store(&r->out_of_memory, 1); /* the program is bound to the panel's strides */
        free(memory);
        return;
    }
    const int last = r->kept_ndim - 1;
    int64_t left = 0; /* outputs until the innermost kept dimension ends */
    char *out = NULL;
    for (; output < end; output++, left--) {
        t_c128 result;
        if (left == 0) {
            left = last >= 0 ? l->shape[last] - output % l->shape[last] : 1;
            out = l->data[0] + output_offset(r, 0, output, -1);
            for (int k = 0; k < r->inputs; k++)
                s.first[k] = l->data[1 + k] + output_offset(r, 1 + k, output, -1);
        } else { /* without divisions, which take long beside short rows */
            out += l->strides[0][last];
            for (int k = 0; k < r->inputs; k++)
                s.first[k] += l->strides[1 + k][last];
        }
        reduce_group(r, &s, g, (char *)&result);
        mylib_reducer_end_task(r, g, output, out, 0, (char *)&result, 1);
    }
    free(s.panel);
    free(memory);
}
