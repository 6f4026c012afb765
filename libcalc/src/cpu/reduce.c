/*
 * cpu/reduce.c - reductions on the CPU, in the order of mylib.h.
 *
 * There are three ways through memory, all with the same order of terms: along the terms
 * (reduce_along.c), across the outputs, and by narrow rows (both in reduce_across.c).  This file
 * makes the program of the terms, chooses the way, and cuts the work into tasks.
 *
 * Threads take different outputs, or groups of 2^k blocks: a group is a whole subtree of the
 * pairwise tree over the blocks.
 */
#include "cpu/reducer.h"

/* The maximum number of groups of blocks, which are combined at the end. */
#define MAX_GROUPS 64

/* ---- The program of the terms ---- */

static void add_conversion(mylib_terms_program *x, mylib_type type)
{
    mylib_program *p = &x->program;
    mylib_statement *statement = (mylib_statement *)p->statement;
    mylib_statement *last = &statement[p->statements - 1];
    mylib_value from = {MYLIB_VALUE_REGISTER, p->result_type, (uint16_t)p->registers};
    uint8_t size = (uint8_t)mylib_type_size((mylib_type)p->result_type);
    if (p->result_type == type)
        return;
    if (last->opcode == MYLIB_OPCODE_CONVERT && last->operand[0].type == last->type) {
        from = last->operand[0]; /* replaces a copy that would do nothing */
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

/* The program converts the results of p to `type` and then to `to`. */
static mylib_status make_terms(mylib_terms_program *x, const mylib_program *p, mylib_type type,
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

/* Finds the inputs whose elements, or products, are the terms, so that no program need run. */
static void find_term_inputs(mylib_reducer *r, int is_along)
{
    const mylib_program *p = &r->terms_of.program;
    const mylib_statement *last = &p->statement[p->statements - 1];
    int is_dot = is_along && r->reduction == MYLIB_SUM && last->opcode == MYLIB_OP_multiply &&
                 r->cpu->block_dot((mylib_type)last->type) != NULL;
    r->term_type = (mylib_type)last->type;
    r->term_inputs = 0;
    if (last->opcode != MYLIB_OPCODE_CONVERT && !is_dot)
        return;
    for (int k = 0; k < last->operands; k++) {
        r->term_input[k] = mylib_input_of_operand(p, k);
        if (r->term_input[k] < 0 || (!is_along && last->operand[k].type != last->type))
            return;
    }
    /* A conversion of a conversion needs both. */
    r->term_inputs = is_dot || p->statements == 1 ? last->operands : 0;
}

static mylib_status bind_terms(mylib_reducer *r)
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
            strides[k] = inner < r->kept_ndim ? 0 : l->strides[k][inner];
    }
    return mylib_row_program_init(&r->row_program, &r->terms_of.program, strides);
}

/*
 * Returns the type of the terms for a sum's block kernel: `type`; for 64-bit sums of narrower
 * integers their own type, which the kernel widens.
 */
static mylib_type type_of_summands(const mylib_program *p, mylib_type type)
{
    const mylib_statement *last = &p->statement[p->statements - 1];
    const mylib_type own = (mylib_type)last->operand[0].type;
    const int has_third = last->type != own && last->type != type; /* between the two */
    return mylib_is_conversion(p) && !has_third && own <= MYLIB_U64 &&
                   (type == MYLIB_I64 || type == MYLIB_U64)
               ? own
               : type;
}

/* Tells whether a program may raise flags: then all its terms have to be computed. */
static int may_raise(const mylib_program *p)
{
    const mylib_statement *s = p->statement, *end = s + p->statements;
    while (s < end && (s->result_type == MYLIB_BOOL || s->opcode == MYLIB_OPCODE_SELECT ||
                       (s->opcode == MYLIB_OPCODE_CONVERT && s->operand[0].type <= MYLIB_U64)))
        s++;
    return s < end;
}

/* Recognizes reductions of truths; has_truths is for the way along the terms. */
static void find_truths(mylib_reducer *r, const mylib_program *p, mylib_type type)
{
    const int is_extreme = r->reduction >= MYLIB_MIN && type == MYLIB_U8;
    const int stops = is_extreme && p->result_type == MYLIB_BOOL && !may_raise(p);
    r->decisive = stops ? r->reduction == MYLIB_MAX : -1;
    r->truths = r->reduction == MYLIB_SUM   ? MYLIB_COUNT_TRUE
                : r->reduction == MYLIB_MAX ? MYLIB_SEEK_TRUE
                                            : MYLIB_SEEK_FALSE;
    r->has_truths = mylib_is_conversion(p) && p->inputs == 1 && p->statement->type == MYLIB_BOOL &&
                    (is_extreme || (r->reduction == MYLIB_SUM && r->carrier <= MYLIB_U64));
}

static mylib_status prepare_along(mylib_reducer *r, const mylib_program *program, mylib_type type)
{
    mylib_type block_type =
        r->reduction == MYLIB_SUM ? type_of_summands(program, type) : r->carrier;
    if (r->has_truths) {
        r->term_inputs = 1; /* no program runs */
        return MYLIB_OK;
    }
    if (block_type != r->carrier) {
        free(r->terms_of.many);
        RETURN_IF_ERROR(make_terms(&r->terms_of, program, block_type, block_type));
    }
    find_term_inputs(r, 1);
    r->block = r->term_inputs == 2 ? r->cpu->block_dot(block_type)
                                   : r->cpu->block_reduce(r->reduction, block_type);
    r->term_size = (int64_t)mylib_type_size(block_type);
    mylib_choose_panel(r);
    return MYLIB_OK;
}

/* ---- Groups of blocks ---- */

/* Cuts the blocks into groups of 2^k, for about `wanted` tasks. */
static void choose_groups(mylib_reducer *r, int64_t tasks, int64_t wanted)
{
    r->group = r->panel > 1 ? r->panel : 1;
    while (mylib_divide_up(r->blocks, r->group) > MAX_GROUPS)
        r->group *= 2;
    while (r->group < r->blocks && tasks * mylib_divide_up(r->blocks, r->group) > wanted)
        r->group *= 2;
    r->groups = mylib_divide_up(r->blocks, r->group);
    if (r->groups > 1)
        r->partial = malloc((size_t)(r->groups * r->outputs * r->size));
    if (r->partial == NULL) {
        r->group = r->blocks;
        r->groups = 1;
    }
}

static void combine_groups(const mylib_reducer *r)
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
        mylib_reducer_store(r, l->data[0] + output_offset(r, 0, i, r->across), stride,
                            r->partial + i * run * r->size, run);
}

static void run_tasks(mylib_reducer *r)
{
    const mylib_layout *l = r->layout;
    int64_t nbytes = 0, tasks;
    for (int k = 0; k < r->inputs; k++)
        nbytes += l->count * input_size(r, k);
    const int threads = mylib_choose_threads(nbytes);
    const int64_t wanted = threads > 1 ? 16 * (int64_t)threads : 1;
    if (r->across >= 0) {
        tasks = r->outputs / l->shape[r->across] * r->strips;
    } else {
        /* Several outputs at a time, but enough tasks for all threads. */
        r->share = mylib_divide_up(r->outputs, wanted);
        tasks = mylib_divide_up(r->outputs, r->share);
    }
    choose_groups(r, tasks, wanted);
    if (r->groups > 1 && r->across < 0 && r->outputs == 1 && r->decisive >= 0) {
        /* The first group often decides, sooner than other threads wake. */
        mylib_reduce_along(r, 0, 0);
        if (*(uint8_t *)r->partial == r->decisive) {
            mylib_reducer_store(r, l->data[0], 0, r->partial, 1);
            r->groups = 1; /* nothing is left to combine */
            return;
        }
    }
    mylib_cpu_parallel(threads, tasks * r->groups,
                       r->across >= 0 ? mylib_reduce_across : mylib_reduce_along, r);
}

/* ---- Entry points ---- */

static void store_identity(const mylib_reducer *r)
{
    t_c128 identity;
    t_i64 number = r->reduction == MYLIB_PROD;
    r->cpu->convert(r->carrier, MYLIB_I64, 1, (char *)&identity, 0, (const char *)&number, 0);
    for (int64_t i = 0; i < r->outputs; i++)
        mylib_reducer_store(r, r->layout->data[0] + output_offset(r, 0, i, -1), 0,
                            (char *)&identity, 1);
}

mylib_status mylib_cpu_reduce(mylib_reduction reduction, const mylib_program *program,
                              mylib_type type, const mylib_layout *layout, int kept_ndim,
                              mylib_type out_type)
{
    static const mylib_op ops[] = {MYLIB_OP_add, MYLIB_OP_multiply, MYLIB_OP_minimum,
                                   MYLIB_OP_maximum};
    mylib_reducer r;
    mylib_status st = MYLIB_OK;
    r.reduction = reduction;
    r.layout = layout;
    r.cpu = mylib_cpu();
    r.inputs = program->inputs;
    r.kept_ndim = kept_ndim;
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
    atomic_init(&r.out_of_memory, 0);
    if (r.outputs == 0)
        return MYLIB_OK;
    if (r.terms == 0) {
        store_identity(&r);
        return MYLIB_OK;
    }
    r.combine = r.cpu->kernel(ops[reduction], r.carrier);

    RETURN_IF_ERROR(make_terms(&r.terms_of, program, type, r.carrier));
    find_truths(&r, program, type);
    find_term_inputs(&r, 0);
    mylib_choose_across(&r);
    if (r.across < 0)
        MYLIB_TRY(prepare_along(&r, program, type));
    if (r.term_inputs == 0)
        MYLIB_TRY(bind_terms(&r));
    run_tasks(&r);
    if (atomic_load(&r.out_of_memory))
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
    const mylib_cpu_level *cpu = mylib_cpu();
    const mylib_type wide = type == MYLIB_F16 ? MYLIB_F32 : type; /* rounds once */
    t_c128 sum, terms;
    DECLARE_LAYOUT(layout, 2);
    mylib_operation copy;
    mylib_operation_of_conversion(&copy, type, type);
    mylib_layout_begin_row(&layout, n, 2);
    layout.data[0] = (char *)&terms;
    layout.data[1] = (char *)a;
    layout.strides[0][0] = 0;
    layout.strides[1][0] = a_stride;
    RETURN_IF_ERROR(mylib_cpu_reduce(MYLIB_SUM, &copy.program, type, &layout, 0, wide));
    cpu->convert(wide, type, 1, (char *)&sum, 0, value, 0);
    cpu->kernel(MYLIB_OP_add, wide)(1, (char *)&sum, 0, (char *)&sum, 0, (char *)&terms, 0);
    cpu->convert(type, wide, 1, value, 0, (char *)&sum, 0);
    return MYLIB_OK;
}
