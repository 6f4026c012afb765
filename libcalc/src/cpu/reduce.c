/*
 * cpu/reduce.c - reductions on the CPU, in the order that mylib.h gives.
 *
 * The terms are what a program gives; the plain ones of an array are those of a copy, and are read
 * where they are.  There are three ways through memory, and one order of terms:
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
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/run_row.h"
#include "flags.h"

/* A thread that is woken for less than this much input costs more than it brings. */
#define THREAD_MIN_NBYTES (1024 * 1024)

/* Rows that are held across the outputs; fits the second-level cache beside the input. */
#define ROOM_NBYTES (64 * 1024)

/* The most groups of blocks that are combined in the end. */
#define MAX_GROUPS 64

/* Columns that are gathered together; a few of them fit the second-level cache. */
#define MAX_PANEL_NBYTES (4 * 1024 * 1024)

/* Fewer outputs, or fewer terms, do not pay for going across the outputs. */
#define MIN_WIDTH 8
#define MIN_ALONG 32

/* A program with conversions of its result after it. */
typedef struct terms_program {
    mylib_program program;
    mylib_statement few[8], *many;
} terms_program;

typedef struct reducer {
    mylib_reduction reduction;
    const mylib_layout *layout;
    const mylib_cpu_level *cpu;
    int inputs, kept;               /* kept: dimensions, the first ones of the layout */
    int64_t outputs, terms, blocks; /* terms and blocks of one output */
    mylib_type carrier, out_type;
    int64_t size; /* of the carrying type */
    mylib_kernel *combine;
    int takes_first; /* a complex minimum or maximum: the first of the terms that are as good */

    /*
     * The program of the terms.  It is not evaluated where they are an input's elements (term_inputs:
     * 1) or products of two inputs (2, for a block kernel that multiplies), read as term_type.
     */
    terms_program terms_of;
    mylib_row_program row_program;
    int term_inputs, term_input[2];
    mylib_type term_type;
    atomic_int failed; /* for want of memory */

    /* Along the terms. */
    mylib_block_reduce *block;
    int64_t term_size;    /* of the terms that `block` takes */
    int64_t share;        /* outputs of a task */
    int64_t panel;        /* blocks whose inputs are gathered together, or 0 */
    int64_t panel_nbytes; /* of all inputs */

    /* Across the outputs. */
    int across;     /* the dimension, or -1 */
    int is_narrow;  /* whole rows without gaps */
    int64_t width;  /* outputs of a strip */
    int64_t strips; /* along that dimension */

    int64_t group;  /* blocks of a task */
    int64_t groups; /* of one output */
    char *partial;  /* groups times outputs, when there are several groups */
} reducer;

/* ---- Terms --------------------------------------------------------------------------------- */

/* The result of the last statement, as another type. */
static void add_conversion(terms_program *x, mylib_type type)
{
    mylib_program *p = &x->program;
    mylib_statement *statement = (mylib_statement *)p->statement;
    mylib_statement *last = &statement[p->statements - 1];
    mylib_value from = {MYLIB_VALUE_REGISTER, p->result_type, (uint16_t)p->registers};
    uint8_t size = (uint8_t)mylib_type_size((mylib_type)p->result_type);
    if (p->result_type == type)
        return;
    if (last->opcode == MYLIB_OPCODE_CONVERT && last->operand[0].type == last->type) {
        from = last->operand[0]; /* a copy, for which the conversion stands in */
        p->statements--;
    } else {
        last->target = from.index;
        p->registers++;
        p->max_register_size = size > p->max_register_size ? size : p->max_register_size;
    }
    statement[p->statements++] = (mylib_statement){
        MYLIB_OPCODE_CONVERT, (uint8_t)type, (uint8_t)type, 1, MYLIB_TARGET_OUT, {from}};
    p->result_type = (uint8_t)type;
}

/* The program's values converted to `type`, and from there to `to`. */
static mylib_status make_terms(terms_program *x, const mylib_program *p, mylib_type type,
                               mylib_type to)
{
    mylib_statement *statement = x->few;
    size_t count = (size_t)p->statements + 2;
    x->program = *p;
    x->many = NULL;
    if (count > sizeof x->few / sizeof *x->few) {
        statement = x->many = malloc(count * sizeof *statement);
        if (statement == NULL)
            return mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory to reduce a program of %d statements",
                              p->statements);
    }
    memcpy(statement, p->statement, (size_t)p->statements * sizeof *statement);
    x->program.statement = statement;
    add_conversion(x, type);
    add_conversion(x, to);
    return MYLIB_OK;
}

/* How many inputs the terms are without evaluating; across the outputs only as they are stored. */
static void find_term_inputs(reducer *r, int converts)
{
    const mylib_program *p = &r->terms_of.program;
    const mylib_statement *last = &p->statement[p->statements - 1];
    int is_dot = converts && r->reduction == MYLIB_SUM && last->opcode == MYLIB_OP_multiply &&
                 r->cpu->block_dot((mylib_type)last->type) != NULL;
    r->term_type = (mylib_type)last->type;
    r->term_inputs = 0;
    if (last->opcode != MYLIB_OPCODE_CONVERT && !is_dot)
        return;
    for (int k = 0; k < last->operands; k++) {
        r->term_input[k] = mylib_input_of_operand(p, k);
        if (r->term_input[k] < 0 || (!converts && last->operand[k].type != last->type))
            return;
    }
    /* A conversion of a conversion needs both. */
    r->term_inputs = is_dot || p->statements == 1 ? last->operands : 0;
}

static int64_t input_size(const reducer *r, int k)
{
    return mylib_program_operand_size(&r->terms_of.program, 1 + k);
}

/*
 * What a task needs: the program's registers, if it is evaluated, and room of its own.  Both are in
 * the places, or in *memory where they are large.  Returns the room; NULL when there is no memory,
 * which the reducer then knows.
 */
static char *begin_row_data(reducer *r, mylib_row_data *row_data, size_t room_nbytes, void **memory)
{
    size_t used = 0, apart = 0;
    if (r->term_inputs == 0) {
        apart = r->row_program.memory_nbytes;
        used = apart == 0 ? mylib_round_up_to_lines(mylib_registers_nbytes(&r->row_program)) : 0;
    }
    int fits = used + room_nbytes <= sizeof row_data->registers;
    *memory = NULL;
    row_data->data = NULL;
    if ((apart != 0 || !fits) &&
        posix_memalign(memory, MYLIB_LINE_NBYTES, apart + (fits ? 0 : room_nbytes)) != 0) {
        atomic_store(&r->failed, 1);
        return NULL;
    }
    if (r->term_inputs == 0)
        mylib_row_data_init(row_data, &r->row_program, apart != 0 ? *memory : NULL);
    return fits ? row_data->registers + used : (char *)*memory + apart;
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

/*
 * Takes the next block's row; `row` is overwritten.  Where the first term wins, any tree that keeps
 * the order is right: all blocks are one level.
 */
static void count_block(const reducer *r, counter *c, char *row)
{
    int k = 0;
    if (r->takes_first && c->blocks > 0) {
        combine(r, c->width, c->levels, row);
        return;
    }
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

/* ---- The first of equal terms -------------------------------------------------------------- */

/*
 * The lanes give one of the NaNs, or one of the terms that compare equal, which differ in the signs
 * of zeros.  Makes *value, which is one of n terms or of others after them, the first of these that
 * is as good.  True when that is known: one was found, or there can be no other.
 */
#define TAKE_FIRST(s)                                                                              \
    static int take_first_##s(int64_t n, char *value, const char *terms, int64_t stride)           \
    {                                                                                              \
        t_##s v, x;                                                                                \
        memcpy(&v, value, sizeof v);                                                               \
        if (v.re != v.re || v.im != v.im) {                                                        \
            for (; n > 0; n--, terms += stride) {                                                  \
                memcpy(&x, terms, sizeof x);                                                       \
                if (x.re != x.re || x.im != x.im)                                                  \
                    break;                                                                         \
            }                                                                                      \
        } else if (v.re == 0 || v.im == 0) {                                                       \
            for (; n > 0; n--, terms += stride) {                                                  \
                memcpy(&x, terms, sizeof x);                                                       \
                if (x.re == v.re && x.im == v.im)                                                  \
                    break;                                                                         \
            }                                                                                      \
        } else {                                                                                   \
            return 1;                                                                              \
        }                                                                                          \
        if (n > 0)                                                                                 \
            memcpy(value, terms, sizeof v);                                                        \
        return n > 0;                                                                              \
    }
TAKE_FIRST(c64)
TAKE_FIRST(c128)

static int take_first(const reducer *r, int64_t n, char *value, const char *terms, int64_t stride)
{
    const int flags = mylib_test_flags();
    const int is_known = r->carrier == MYLIB_C64 ? take_first_c64(n, value, terms, stride)
                                                 : take_first_c128(n, value, terms, stride);
    if (mylib_test_flags() != flags) { /* by a signaling NaN */
        mylib_clear_flags();
        mylib_raise_flags(flags);
    }
    return is_known;
}

/* Whether `value`, of the next block, wins over what column j of the blocks before it gave. */
static int is_better(const reducer *r, const counter *c, int64_t j, const char *value)
{
    const char *before = c->levels + j * r->size;
    t_c128 both;
    if (c->blocks == 0)
        return 1;
    memcpy(&both, before, (size_t)r->size);
    combine(r, 1, (char *)&both, value);
    return memcmp(&both, before, (size_t)r->size) != 0;
}

/* ---- Along the terms ----------------------------------------------------------------------- */

/* Whether input k can be read in place: its terms lie one after the other, as term_type. */
static int is_in_place(const reducer *r, int k)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    return inner == r->kept && l->strides[1 + k][inner] == input_size(r, k) &&
           r->terms_of.program.input_type[k] == r->term_type;
}

/* How many of the terms from t on, at most n, are one run of the innermost dimension. */
static int64_t run_length(const reducer *r, int64_t t, int64_t n)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t run = inner < r->kept ? 1 : l->shape[inner] - t % l->shape[inner];
    return run < n ? run : n;
}

/* Elements [t, t + n) of input k without gaps, as `type`, to `buffer`. */
static void gather(const reducer *r, int k, const char *first, int64_t t, int64_t n,
                   mylib_type type, char *buffer)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t size = (int64_t)mylib_type_size(type);
    int64_t stride = inner < r->kept ? 0 : l->strides[1 + k][inner];
    for (int64_t done = 0, run; done < n; done += run) {
        run = run_length(r, t + done, n - done);
        r->cpu->convert(type, (mylib_type)r->terms_of.program.input_type[k], run,
                        buffer + done * size, size, first + term_offset(r, k, t + done), stride);
    }
}

#define TILE_ROWS 64
#define TILE_NBYTES 256 /* of a row */
#define TILE_PITCH                                                                                 \
    (TILE_NBYTES + MYLIB_LINE_NBYTES) /* not a power of two: columns share no cache set */

/* How many columns of input k share cache lines, if its terms lie across memory; or 0. */
static int64_t near_columns(const reducer *r, int k)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t beside = llabs(l->strides[1 + k][inner - 1]);
    if (beside == 0 || beside >= llabs(l->strides[1 + k][inner]) || TILE_NBYTES / beside < 4)
        return 0;
    return TILE_NBYTES / beside;
}

/*
 * The same as gather() for many blocks: where the terms lie across memory, whole columns of the two
 * innermost dimensions are transposed, so that each cache line is read once.
 */
static void gather_panel(const reducer *r, int k, const char *first, int64_t t, int64_t n,
                         char *buffer, char *tile)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t rows = l->shape[inner], size = input_size(r, k), done = 0;
    int64_t across = l->strides[1 + k][inner], beside = l->strides[1 + k][inner - 1];
    int64_t wide = TILE_NBYTES / size;
    mylib_type stored = (mylib_type)r->terms_of.program.input_type[k];
    if (rows < TILE_ROWS || near_columns(r, k) == 0) {
        gather(r, k, first, t, n, stored, buffer);
        return;
    }
    while (done < n) {
        int64_t row = (t + done) % rows, column = (t + done) / rows % l->shape[inner - 1];
        int64_t columns = (n - done) / rows;
        if (columns > l->shape[inner - 1] - column)
            columns = l->shape[inner - 1] - column;
        if (row != 0 || columns == 0) {
            int64_t rest = rows - row < n - done ? rows - row : n - done;
            gather(r, k, first, t + done, rest, stored, buffer + done * size);
            done += rest;
            continue;
        }
        const char *from = first + term_offset(r, k, t + done);
        for (int64_t c = 0; c < columns; c += wide) {
            int64_t w = columns - c < wide ? columns - c : wide;
            for (int64_t i = 0; i < rows; i += TILE_ROWS) {
                int64_t h = rows - i < TILE_ROWS ? rows - i : TILE_ROWS;
                for (int64_t j = 0; j < h; j++)
                    mylib_copy_strided((size_t)size, w, tile + j * TILE_PITCH, size,
                                       from + c * beside + (i + j) * across, beside);
                for (int64_t j = 0; j < w; j++)
                    mylib_copy_strided((size_t)size, h, buffer + (done + (c + j) * rows + i) * size,
                                       size, tile + j * size, TILE_PITCH);
            }
        }
        done += columns * rows;
    }
}

/* Where the elements of input k are in a panel. */
static char *panel_of(const reducer *r, int k, char *panel)
{
    for (int j = 0; j < k; j++)
        panel += r->panel * MYLIB_BLOCK_TERMS * input_size(r, j);
    return panel;
}

/* One output's terms, as a task reads them. */
typedef struct source {
    const char *first[MYLIB_PROGRAM_MAX_INPUTS]; /* where term 0 is in each input */
    char *buffer[2];                             /* a block of each direct, or of values */
    char *panel;                                 /* or NULL; a tile is behind it */
    int64_t panel_term;                          /* the first one that is in the panel */
    char **data;
} source;

/* n terms from t on, evaluated to `out`. */
static void compute_terms(const reducer *r, const source *s, int64_t t, int64_t n, char *out)
{
    for (int64_t done = 0, run; done < n; done += run) {
        run = s->panel != NULL ? n : run_length(r, t + done, n - done);
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are places */
        s->data[0] = out + done * r->term_size;
        for (int k = 0; k < r->inputs; k++)
            s->data[1 + k] = s->panel != NULL
                                 ? panel_of(r, k, s->panel) + (t - s->panel_term) * input_size(r, k)
                                 : (char *)s->first[k] + term_offset(r, k, t + done);
        mylib_run_row(&r->row_program, run, s->data);
    }
}

/* n elements of input k from t on, without gaps as term_type: where they are, or in `buffer`. */
static const char *input_terms(const reducer *r, const source *s, int k, int64_t t, int64_t n,
                               char *buffer)
{
    mylib_type stored = (mylib_type)r->terms_of.program.input_type[k];
    if (is_in_place(r, k))
        return s->first[k] + t * input_size(r, k);
    if (s->panel == NULL) {
        gather(r, k, s->first[k], t, n, r->term_type, buffer);
        return buffer;
    }
    const char *gathered = panel_of(r, k, s->panel) + (t - s->panel_term) * input_size(r, k);
    if (stored == r->term_type)
        return gathered;
    r->cpu->convert(r->term_type, stored, n, buffer, (int64_t)mylib_type_size(r->term_type),
                    gathered, input_size(r, k));
    return buffer;
}

static void fill_panel(const reducer *r, source *s, int64_t block, int64_t end)
{
    int64_t last = block + r->panel - 1;
    last = last < end ? last : end - 1;
    s->panel_term = block * MYLIB_BLOCK_TERMS;
    for (int k = 0; k < r->inputs; k++)
        if (r->term_inputs == 0 || !is_in_place(r, k))
            gather_panel(r, k, s->first[k], s->panel_term,
                         (last - block) * MYLIB_BLOCK_TERMS + block_terms(r, last),
                         panel_of(r, k, s->panel), s->panel + r->panel_nbytes);
}

/* Of buffer i, which only terms that are not read in place need. */
static size_t buffer_nbytes(const reducer *r, int i)
{
    int64_t terms = r->terms < MYLIB_BLOCK_TERMS ? r->terms : MYLIB_BLOCK_TERMS;
    if (r->term_inputs == 0)
        return i == 0 ? mylib_round_up_to_lines((size_t)(terms * r->term_size)) : 0;
    if (i >= r->term_inputs || is_in_place(r, r->term_input[i]))
        return 0;
    return mylib_round_up_to_lines((size_t)terms * mylib_type_size(r->term_type));
}

/* The blocks of group g of one output. */
static void reduce_along(const reducer *r, source *s, int64_t g, char *result)
{
    t_c128 levels[64], value;
    int64_t begin, end;
    group_blocks(r, g, &begin, &end);
    counter c = {0, (char *)levels, r->size, 1};
    for (int64_t block = begin; block < end; block++) {
        int64_t t = block * MYLIB_BLOCK_TERMS, n = block_terms(r, block);
        const char *terms[2] = {s->buffer[0], NULL};
        if (s->panel != NULL && (block - begin) % r->panel == 0)
            fill_panel(r, s, block, end);
        if (r->term_inputs == 0)
            compute_terms(r, s, t, n, s->buffer[0]);
        for (int i = 0; i < r->term_inputs; i++)
            terms[i] = input_terms(r, s, r->term_input[i], t, n, s->buffer[i]);
        r->block(n, (char *)&value, terms[0], terms[1]);
        if (r->takes_first && is_better(r, &c, 0, (char *)&value))
            (void)take_first(r, n, (char *)&value, terms[0], r->size);
        if (end - begin > 1)
            count_block(r, &c, (char *)&value);
    }
    memcpy(result, end - begin > 1 ? count_end(r, &c) : (char *)&value, (size_t)r->size);
}

/* Task i: one group of blocks of a share of the outputs. */
static void task_along(void *context, int thread, int64_t i)
{
    (void)thread;
    reducer *r = context;
    const mylib_layout *l = r->layout;
    int64_t g = i % r->groups, output = i / r->groups * r->share;
    int64_t end = output + r->share < r->outputs ? output + r->share : r->outputs;
    const size_t first = buffer_nbytes(r, 0);
    mylib_row_data row_data;
    source s;
    void *memory;
    s.buffer[0] = begin_row_data(r, &row_data, first + buffer_nbytes(r, 1), &memory);
    if (s.buffer[0] == NULL)
        return;
    s.buffer[1] = s.buffer[0] + first;
    s.panel_term = 0;
    s.data = row_data.data;
    s.panel = r->panel != 0 ? malloc((size_t)r->panel_nbytes + TILE_ROWS * TILE_PITCH) : NULL;
    if (s.panel == NULL && r->panel != 0 && r->term_inputs == 0) {
        atomic_store(&r->failed, 1); /* the evaluator reads panels only */
        free(memory);
        return;
    }
    for (; output < end; output++) {
        t_c128 result;
        for (int k = 0; k < r->inputs; k++)
            s.first[k] = l->data[1 + k] + output_offset(r, 1 + k, output, -1);
        reduce_along(r, &s, g, (char *)&result);
        if (r->groups == 1)
            store(r, l->data[0] + output_offset(r, 0, output, -1), 0, (char *)&result, 1);
        else
            memcpy(r->partial + (g * r->outputs + output) * r->size, &result, (size_t)r->size);
    }
    free(s.panel);
    free(memory);
}

/* ---- Across the outputs -------------------------------------------------------------------- */

/* A row of values: one for each output of a strip, of the carrying type. */
typedef struct row {
    const char *data;
    int64_t stride;
} row;

typedef struct strip {
    const reducer *r;
    const char *first[MYLIB_PROGRAM_MAX_INPUTS]; /* term 0 of the first output */
    char **data;
    int64_t width;
    int64_t nbytes; /* of a row in the room */
    char *room;
    int64_t block, lanes, terms; /* of the current block */
} strip;

/* The row of term t of the block; in the room unless the terms are an input's. */
static row load_row(const strip *s, int64_t t, int slot)
{
    const reducer *r = s->r;
    char *to = s->room + slot * s->nbytes;
    t += s->block * MYLIB_BLOCK_TERMS;
    if (r->term_inputs == 1) {
        int k = r->term_input[0];
        return (row){s->first[k] + term_offset(r, k, t), r->layout->strides[1 + k][r->across]};
    }
    /* Without a direct operand there are places, and first terms of all inputs. */
    /* NOLINTBEGIN(clang-analyzer-core.*) */
    s->data[0] = to;
    for (int k = 0; k < r->inputs; k++)
        s->data[1 + k] = (char *)s->first[k] + term_offset(r, k, t);
    /* NOLINTEND(clang-analyzer-core.*) */
    mylib_run_row(&r->row_program, s->width, s->data);
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

/*
 * The same where the first term wins: the lanes take consecutive terms, and neighbours are combined;
 * the result is that of the lanes l to l + lanes - 1, at most 256.
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

/* So many rows without gaps follow each other from term t of the block on. */
static int64_t narrow_lanes(const strip *s, int64_t t)
{
    return s->terms - t < MYLIB_BLOCK_LANES ? s->terms - t : MYLIB_BLOCK_LANES;
}

/* Where these rows are: in the input, or evaluated to `to`. */
static const char *narrow_rows(const strip *s, int64_t t, char *to)
{
    const reducer *r = s->r;
    const int64_t at = (s->block * MYLIB_BLOCK_TERMS + t) * s->width;
    if (r->term_inputs == 1)
        return s->first[r->term_input[0]] + at * r->size;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are places */
    s->data[0] = to;
    for (int k = 0; k < r->inputs; k++)
        s->data[1 + k] = (char *)s->first[k] + at * r->row_program.stride[1 + k];
    mylib_run_row(&r->row_program, narrow_lanes(s, t) * s->width, s->data);
    return to;
}

/* take_first() of each column of a block that wins; `next` is room for narrow_rows(). */
static void take_first_rows(const strip *s, const counter *c, char *values, char *next)
{
    const reducer *r = s->r;
    uint64_t open = 0; /* the columns, fewer than 64, of which the first one is not known */
    for (int64_t j = 0; j < s->width; j++)
        if (is_better(r, c, j, values + j * r->size) &&
            !take_first(r, 0, values + j * r->size, NULL, 0))
            open |= (uint64_t)1 << j;
    for (int64_t t = 0; open != 0 && t < s->terms; t += MYLIB_BLOCK_LANES) {
        const char *rows = narrow_rows(s, t, next);
        for (int64_t j = 0; j < s->width; j++)
            if (open >> j & 1 && take_first(r, narrow_lanes(s, t), values + j * r->size,
                                            rows + j * r->size, s->nbytes))
                open &= ~((uint64_t)1 << j);
    }
}

/* What reduce_lane() gives, 256 rows without gaps at a time; `c` has counted the blocks before. */
static row reduce_narrow(const strip *s, const counter *c)
{
    const reducer *r = s->r;
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
        int64_t pairs = s->lanes - half < half ? s->lanes - half : half;
        if (pairs > 0)
            combine(r, pairs * width, sum, sum + half * width * size);
    }
    if (r->takes_first)
        take_first_rows(s, c, sum, next);
    return (row){sum, size};
}

/* Rows of the room that blocks are reduced in; those of a counter's levels follow. */
static int64_t room_rows(const reducer *r)
{
    if (!r->is_narrow)
        return LANE_SLOTS;
    return r->terms <= MYLIB_BLOCK_LANES && !r->takes_first
               ? r->terms
               : (r->term_inputs == 1 ? 1 : 2) * MYLIB_BLOCK_LANES;
}

/* Task i: one group of blocks of one strip. */
static void task_across(void *context, int thread, int64_t i)
{
    (void)thread;
    reducer *r = context;
    const mylib_layout *l = r->layout;
    int64_t g = i % r->groups, at = i / r->groups, begin, end;
    int64_t outer = at / r->strips, from = at % r->strips * r->width;
    int64_t rest = l->shape[r->across] - from;
    mylib_row_data row_data;
    strip s;
    void *memory;
    s.r = r;
    s.width = r->width < rest ? r->width : rest;
    s.nbytes = s.width * r->size;
    group_blocks(r, g, &begin, &end);
    const int64_t below = room_rows(r) * s.nbytes;
    s.room = begin_row_data(r, &row_data, (size_t)(below + count_levels(end - begin) * s.nbytes),
                            &memory);
    if (s.room == NULL)
        return;
    s.data = row_data.data;
    for (int k = 0; k < r->inputs; k++)
        s.first[k] = l->data[1 + k] + output_offset(r, 1 + k, outer, r->across) +
                     from * l->strides[1 + k][r->across];
    counter c = {0, s.room + below, s.nbytes, s.width};
    row result = {NULL, 0};
    for (s.block = begin; s.block < end; s.block++) {
        s.terms = block_terms(r, s.block);
        s.lanes = s.terms < MYLIB_BLOCK_LANES ? s.terms : MYLIB_BLOCK_LANES;
        result = r->is_narrow     ? reduce_narrow(&s, &c)
                 : r->takes_first ? reduce_runs(&s, 0, MYLIB_BLOCK_LANES, 0)
                                  : reduce_lane(&s, 0, 1, 0);
        if (result.data != s.room) /* a single term, where it was stored */
            mylib_copy_strided((size_t)r->size, s.width, s.room, r->size, result.data,
                               result.stride);
        if (end - begin > 1)
            count_block(r, &c, s.room);
    }
    const char *rows = end - begin > 1 ? count_end(r, &c) : s.room;
    if (r->groups == 1) {
        int64_t stride = l->strides[0][r->across];
        store(r, l->data[0] + output_offset(r, 0, outer, r->across) + from * stride, stride, rows,
              s.width);
    } else {
        int64_t output = outer * l->shape[r->across] + from;
        memcpy(r->partial + (g * r->outputs + output) * r->size, rows, (size_t)s.nbytes);
    }
    free(memory);
}

/* Whether rows of outputs, along d, follow each other without gaps in all inputs that move. */
static int rows_are_narrow(const reducer *r, int d)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1, moving = 0;
    /* Lanes, lanes that are evaluated, and a counter's levels. */
    int64_t rows = (r->term_inputs == 1 ? 1 : 2) * MYLIB_BLOCK_LANES + 64, width = l->shape[d];
    if (inner != r->kept || rows * width * r->size > ROOM_NBYTES)
        return 0;
    /* Terms that are read where they are stored; other inputs only give the shape. */
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

/* Whether it suits the inputs better to go along dimension d of the outputs than along the terms.
 */
static int suits_across(const reducer *r, int d)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1, votes = 0;
    for (int k = 0; k < r->inputs; k++) {
        int64_t beside = llabs(l->strides[1 + k][d]);
        int64_t below = inner >= r->kept ? llabs(l->strides[1 + k][inner]) : 0;
        votes += (beside < below) - (below < beside);
    }
    return votes >= 0 || r->terms < MIN_ALONG;
}

/*
 * Whether to go across the outputs, and along which dimension: the fastest that is long enough.
 * How it goes does not change the result.
 */
static void choose_way(reducer *r)
{
    const mylib_layout *l = r->layout;
    r->across = -1;
    if (r->inputs == 0 || r->outputs == 1)
        return;
    int d = r->kept - 1;
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
    int64_t most = ROOM_NBYTES / ((LANE_SLOTS + count_levels(r->blocks)) * r->size);
    r->strips = mylib_divide_up(width, most);
    /* Strips of one size, in whole vectors. */
    width = mylib_divide_up(width, r->strips);
    width = mylib_round_up(width, 16);
    r->width = width < most ? width : most;
    r->strips = mylib_divide_up(l->shape[d], r->width);
    r->across = d;
}

/* ---- All ----------------------------------------------------------------------------------- */

/*
 * Along terms that lie across memory, several columns are gathered at a time: as many as share
 * cache lines and pages, if they fit the cache.  Short runs are gathered too where a program would
 * have to start anew for each.
 */
static void choose_panel(reducer *r)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    if (inner <= r->kept)
        return;
    int64_t columns = 0, size = 0, rows = l->shape[inner];
    for (int k = 0; k < r->inputs; k++) {
        int64_t near = near_columns(r, k);
        size += input_size(r, k);
        if (near > 0 && (columns == 0 || near < columns))
            columns = near;
    }
    if (rows >= TILE_ROWS && size > 0) {
        int64_t most = MAX_PANEL_NBYTES / size / rows;
        columns = columns < most ? columns : most;
        if (columns >= 4 && r->terms >= 2 * columns * rows) {
            r->panel = 1;
            while (r->panel * MYLIB_BLOCK_TERMS < columns * rows)
                r->panel *= 2;
        }
    } else if (r->term_inputs == 0 && r->inputs > 0 && r->terms > rows) {
        r->panel = 1;
    }
    r->panel_nbytes = r->panel * MYLIB_BLOCK_TERMS * size;
}

/* The strides with which the program reads its inputs, on the way that was chosen. */
static mylib_status bind_terms(reducer *r)
{
    const mylib_layout *l = r->layout;
    int inner = l->ndim - 1;
    int64_t strides[MYLIB_MAX_OPERANDS];
    strides[0] = mylib_program_operand_size(&r->terms_of.program, 0);
    for (int k = 1; k <= r->inputs; k++) {
        if (r->is_narrow)
            strides[k] = l->strides[k][r->across] == 0 ? 0 : input_size(r, k - 1);
        else if (r->across >= 0)
            strides[k] = l->strides[k][r->across];
        else if (r->panel != 0)
            strides[k] = input_size(r, k - 1);
        else
            strides[k] = inner < r->kept ? 0 : l->strides[k][inner];
    }
    return mylib_row_program_init(&r->row_program, &r->terms_of.program, strides);
}

/* Cuts the blocks into groups of a power of two, so that there are `wanted` tasks. */
static void choose_groups(reducer *r, int64_t tasks, int64_t wanted)
{
    r->group = r->panel > 1 ? r->panel : 1;
    while (mylib_divide_up(r->blocks, r->group) > MAX_GROUPS)
        r->group *= 2;
    while (r->group < r->blocks && tasks * (mylib_divide_up(r->blocks, r->group)) > wanted)
        r->group *= 2;
    r->groups = mylib_divide_up(r->blocks, r->group);
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

/* The block kernel, and the terms as it takes them: a sum's widens them itself. */
static mylib_status prepare_along(reducer *r, const mylib_program *program, mylib_type type)
{
    mylib_type block_type = r->reduction == MYLIB_SUM ? type : r->carrier;
    if (block_type != r->carrier) {
        free(r->terms_of.many);
        mylib_status st = make_terms(&r->terms_of, program, type, block_type);
        if (st != MYLIB_OK)
            return st;
    }
    find_term_inputs(r, 1);
    r->block = r->term_inputs == 2 ? r->cpu->block_dot(block_type)
                                   : r->cpu->block_reduce(r->reduction, block_type);
    r->term_size = (int64_t)mylib_type_size(block_type);
    choose_panel(r);
    return MYLIB_OK;
}

mylib_status mylib_cpu_reduce(mylib_reduction reduction, const mylib_program *program,
                              mylib_type type, const mylib_layout *layout, int kept_ndim,
                              mylib_type out_type)
{
    static const mylib_op ops[] = {MYLIB_OP_add, MYLIB_OP_multiply, MYLIB_OP_minimum,
                                   MYLIB_OP_maximum};
    reducer r;
    mylib_status st;
    r.reduction = reduction;
    r.layout = layout;
    r.cpu = mylib_cpu();
    r.inputs = program->inputs;
    r.kept = kept_ndim;
    r.outputs = r.terms = 1;
    for (int d = 0; d < layout->ndim; d++)
        *(d < kept_ndim ? &r.outputs : &r.terms) *= layout->shape[d];
    r.blocks = mylib_divide_up(r.terms, MYLIB_BLOCK_TERMS);
    r.carrier = mylib_carrying_type(reduction, type);
    r.out_type = out_type;
    r.size = (int64_t)mylib_type_size(r.carrier);
    r.takes_first = reduction >= MYLIB_MIN && (type == MYLIB_C64 || type == MYLIB_C128);
    r.panel = r.panel_nbytes = r.is_narrow = 0;
    r.partial = NULL;
    atomic_init(&r.failed, 0);
    if (r.outputs == 0)
        return MYLIB_OK;
    if (r.terms == 0) {
        store_identity(&r);
        return MYLIB_OK;
    }
    r.combine = r.cpu->kernel(ops[reduction], r.carrier);

    st = make_terms(&r.terms_of, program, type, r.carrier);
    if (st != MYLIB_OK)
        return st;
    find_term_inputs(&r, 0);
    choose_way(&r);
    if (r.across < 0 && (st = prepare_along(&r, program, type)) != MYLIB_OK)
        goto out;
    if (r.term_inputs == 0 && (st = bind_terms(&r)) != MYLIB_OK)
        goto out;

    int64_t nbytes = 0, threads = 1, tasks;
    for (int k = 0; k < r.inputs; k++)
        nbytes += layout->count * input_size(&r, k);
    if (nbytes >= 2 * THREAD_MIN_NBYTES) {
        threads = mylib_cpu_threads();
        threads = threads < nbytes / THREAD_MIN_NBYTES ? threads : nbytes / THREAD_MIN_NBYTES;
    }
    if (r.across >= 0) {
        tasks = r.outputs / layout->shape[r.across] * r.strips;
    } else {
        /* Several outputs at a time, but enough tasks for all threads. */
        r.share = threads > 1 ? mylib_divide_up(r.outputs, 16 * threads) : r.outputs;
        tasks = mylib_divide_up(r.outputs, r.share);
    }
    choose_groups(&r, tasks, threads > 1 ? 16 * threads : 1);
    mylib_cpu_parallel((int)threads, tasks * r.groups, r.across >= 0 ? task_across : task_along,
                       &r);
    if (atomic_load(&r.failed))
        st = mylib_fail(MYLIB_ERR_NO_MEMORY, "no memory for the terms of a reduction");
    else if (r.groups > 1)
        combine_groups(&r);
    free(r.partial);
    if (r.term_inputs == 0)
        mylib_row_program_free(&r.row_program);
out:
    free(r.terms_of.many);
    return st;
}

mylib_status mylib_cpu_fold_sum(mylib_type type, int64_t n, char *value, const char *a,
                                int64_t a_stride)
{
    int64_t size = (int64_t)mylib_type_size(type);
    t_c128 sum;
    mylib_strides strides[2];
    mylib_layout layout;
    mylib_operation copy;
    mylib_status st;
    mylib_operation_of_conversion(&copy, type, type);
    layout.strides = strides;
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
        MYLIB_TRY(mylib_cpu_reduce(MYLIB_SUM, &copy.program, type, &layout, 0, MYLIB_F32));
        memcpy(&terms, &sum, sizeof terms);
        mylib_cpu()->block_reduce(MYLIB_SUM, MYLIB_F16)(1, (char *)&x, value, NULL);
        t_f16 h = mylib_cpu()->f16_from_f32(x + terms);
        memcpy(value, &h, sizeof h);
    } else {
        MYLIB_TRY(mylib_cpu_reduce(MYLIB_SUM, &copy.program, type, &layout, 0, type));
        mylib_cpu()->kernel(MYLIB_OP_add, type)(1, value, size, value, size, (char *)&sum, size);
    }
out:
    return st;
}
