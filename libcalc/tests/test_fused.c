/*
 * Fused launches (cuda/fused.c) are prepared correctly, which needs no GPU: each element belongs to
 * one thread, at the right place in every operand; vectors are aligned; programs and arrays at and
 * beyond the limits, arrays of more than 2^32 elements too, fit or do not, as the limits say.
 */
#include "cuda/fused.h"
#include "layout.h"

#define MAX_COUNT 20000

/* fused.c calls the CPU's conversions only for constants that need one: there are none here. */
const mylib_cpu_level *mylib_cpu(void) { test_give_up("a constant is converted"); }

/* ---- Programs ---- */

#define MAX_STATEMENTS 400

static mylib_statement statement[MAX_STATEMENTS];
static mylib_program_constant constant[MYLIB_PROGRAM_MAX_CONSTANTS];

static mylib_value value_of(int kind, mylib_type type, int index)
{
    return (mylib_value){(uint8_t)kind, (uint8_t)type, (uint16_t)index};
}

static void add(mylib_program *p, mylib_type type, int target, mylib_value a, mylib_value b)
{
    statement[p->statements++] = (mylib_statement){
        MYLIB_OP_add, (uint8_t)type, (uint8_t)type, 2, (uint16_t)target, {a, b, {0, 0, 0}}};
    p->statement = statement;
    p->constant = constant;
    p->result_type = (uint8_t)type;
}

/* in[0] + in[1] + in[0] + in[1] ...: the steps' results are forwarded. */
static mylib_program chain_of(mylib_type type, int inputs, int statements)
{
    mylib_program p = {.inputs = inputs, .registers = 1};
    for (int k = 0; k < inputs; k++)
        p.input_type[k] = (uint8_t)type;
    for (int i = 0; i < statements; i++)
        add(&p, type, i + 1 == statements ? MYLIB_TARGET_OUT : 0,
            i == 0 ? value_of(MYLIB_VALUE_INPUT, type, 0) : value_of(MYLIB_VALUE_REGISTER, type, 0),
            value_of(MYLIB_VALUE_INPUT, type, (i + 1) % inputs));
    return p;
}

/* 'values' sums, all of them kept until all are there, and then added up. */
static mylib_program wide_of(mylib_type type, int values)
{
    mylib_program p = {.inputs = 1, .registers = values};
    const mylib_value in = value_of(MYLIB_VALUE_INPUT, type, 0);
    p.input_type[0] = (uint8_t)type;
    for (int i = 0; i < values; i++)
        add(&p, type, i, in, in);
    for (int i = 1; i < values; i++)
        add(&p, type, i + 1 == values ? MYLIB_TARGET_OUT : 0,
            value_of(MYLIB_VALUE_REGISTER, type, 0), value_of(MYLIB_VALUE_REGISTER, type, i));
    return p;
}

/* in[0] + constant 0 + constant 1 ... */
static mylib_program program_of_constants(int constants)
{
    const mylib_type type = MYLIB_I32;
    mylib_program p = {.inputs = 1, .registers = 1, .constants = constants};
    p.input_type[0] = (uint8_t)type;
    for (int i = 0; i < constants; i++) {
        memset(&constant[i], 0, sizeof constant[i]);
        memcpy(constant[i].value, &i, sizeof i);
        add(&p, type, i + 1 == constants ? MYLIB_TARGET_OUT : 0,
            i == 0 ? value_of(MYLIB_VALUE_INPUT, type, 0) : value_of(MYLIB_VALUE_REGISTER, type, 0),
            value_of(MYLIB_VALUE_CONSTANT, type, i));
    }
    return p;
}

/* Its strides are overwritten by the fourth call after this one. */
static mylib_layout layout_of(int operands, int64_t size, int ndim, const int64_t *shape)
{
    static _Alignas(16) char memory[16];
    static mylib_strides strides[4][MYLIB_MAX_OPERANDS];
    static unsigned calls;
    mylib_layout l = {
        .ndim = ndim, .operands = operands, .count = 1, .strides = strides[calls++ % 4]};
    for (int d = ndim - 1; d >= 0; d--) {
        l.shape[d] = shape[d];
        for (int k = 0; k < operands; k++)
            l.strides[k][d] = size * (l.count + (ndim - 1 - d)); /* does not merge */
        l.count *= shape[d];
    }
    for (int k = 0; k < operands; k++)
        l.data[k] = memory;
    return l;
}

static void check_fit(const char *what, mylib_program p, mylib_layout l, mylib_fused_fit expected)
{
    static mylib_fused_args args;
    test_set_case("%s", what);
    mylib_fused_fit fit = mylib_fused_init(&args, &p, &l);
    CHECK(fit == expected, "%d, not %d", (int)fit, (int)expected);
    if (fit != MYLIB_FUSED_FITS)
        return;
    int64_t shared = mylib_fused_shared(&args);
    CHECK(args.threads >= 32 && args.threads <= MYLIB_FUSED_MOST_THREADS &&
              args.threads % 32 == 0 && shared <= MYLIB_FUSED_SHARED_NBYTES,
          "%d threads with %d registers", (int)args.threads, (int)args.registers);
    CHECK(mylib_fused_blocks(&args) >= 1 && mylib_fused_blocks(&args) <= INT32_MAX,
          "%lld thread blocks", (long long)mylib_fused_blocks(&args));
}

enum { NO_WAY = -1 };

/*
 * Reductions in the same launch: all terms are in one part, and each thread block has room.  Tells
 * whether the input is copied ahead.
 */
static int check_reduction(const char *what, mylib_program p, mylib_layout l, int kept_ndim,
                           int expected)
{
    static mylib_fused_args args;
    test_set_case("%s", what);
    int64_t parts = mylib_fused_init_reduction(&args, &p, &l, kept_ndim, MYLIB_SUM), outputs = 1;
    CHECK(expected == NO_WAY ? parts == 0 : parts > 0 && args.reduced_way == expected,
          "%lld parts, way %d", (long long)parts, args.reduced_way);
    if (parts <= 0 || expected == NO_WAY)
        return 0;
    for (int d = 0; d < kept_ndim; d++)
        outputs *= l.shape[d];
    const int64_t part = mylib_fused_part(&args), set = mylib_fused_set(&args);
    const int64_t size = (int64_t)mylib_type_size((mylib_type)args.computed_type);
    CHECK(args.columns == l.shape[kept_ndim] && args.walk.rows == outputs &&
              args.columns <= parts * part && args.columns > (parts - 1) * part,
          "%lld parts of %lld terms", (long long)parts, (long long)part);
    CHECK((args.sets & (args.sets - 1)) == 0 && set >= 1 && (set & (set - 1)) == 0 &&
              args.sets * set <= MYLIB_FUSED_MAX_BLOCKS,
          "%d sets of %lld blocks", (int)args.sets, (long long)set);
    CHECK(parts <= 65535 && mylib_fused_shared(&args) <= MYLIB_FUSED_SHARED_NBYTES,
          "%lld parts, %d bytes", (long long)parts, mylib_fused_shared(&args));
    const int64_t blocks = mylib_fused_blocks(&args) / parts, each = mylib_fused_outputs(&args);
    CHECK(blocks * each >= outputs && (blocks - 1) * each < outputs, "%lld blocks of %lld outputs",
          (long long)blocks, (long long)each);
    if (args.reduced_way == MYLIB_FUSED_SHORT)
        CHECK(parts == 1 && args.walk.tile_rows >= 1 &&
                  args.walk.tile_rows * (args.columns * size + args.gap) <=
                      (int64_t)args.threads * MYLIB_FUSED_TILE &&
                  (int64_t)args.threads * mylib_fused_elements(&args) >=
                      args.walk.tile_rows * args.columns,
              "a tile of %d rows", (int)args.walk.tile_rows);
    if (args.streamed) /* each tile begins with a group of 16 bytes */
        CHECK(parts == 1 && args.streamed == 1 && args.rounds >= 1 && args.rounds <= 4 &&
                  args.walk.tiles == mylib_divide_up(outputs, args.walk.tile_rows) &&
                  (args.reduced_way == MYLIB_FUSED_ALONG ||
                   args.walk.tile_rows * args.columns * size % 16 == 0),
              "%d tiles of %d rows", (int)args.rounds, (int)args.walk.tile_rows);
    if (args.reduced_way == MYLIB_FUSED_ACROSS)
        CHECK((int64_t)args.rounds << args.warp_bits >= mylib_lesser(args.columns, 256) &&
                  args.threads >> args.warp_bits >= MYLIB_CUDA_WARP,
              "%d lanes of a warp", (int)args.rounds);
    return args.streamed != 0;
}

/* Rows of one input, which is copied ahead if each row or tile begins with a group of 16 bytes. */
static void test_streamed(void)
{
    static const struct {
        mylib_type type;
        int columns, gap, way, is_streamed; /* the gap between rows, in elements */
    } cases[] = {
        {MYLIB_F32, 1, 0, MYLIB_FUSED_SHORT, 1},
        {MYLIB_F32, 3, 0, MYLIB_FUSED_SHORT, 1},
        {MYLIB_F32, 16, 0, MYLIB_FUSED_SHORT, 1},
        {MYLIB_F32, 101, 0, MYLIB_FUSED_SHORT, 1},
        {MYLIB_F32, 512, 0, MYLIB_FUSED_ALONG, 1},
        {MYLIB_F32, 1000, 0, MYLIB_FUSED_ALONG, 1},
        {MYLIB_F32, 1001, 0, MYLIB_FUSED_SHORT, 0},
        {MYLIB_F32, 2048, 0, MYLIB_FUSED_ALONG, 1},
        {MYLIB_F32, 2049, 0, MYLIB_FUSED_ALONG, 0},
        {MYLIB_F32, 300, 4, MYLIB_FUSED_ALONG, 1},
        {MYLIB_F32, 100, 4, NO_WAY, 0},
        {MYLIB_F32, 1999, 2, MYLIB_FUSED_ALONG, 0},
        {MYLIB_F64, 16, 0, MYLIB_FUSED_SHORT, 1},
        {MYLIB_F64, 101, 0, MYLIB_FUSED_SHORT, 1},
        {MYLIB_F64, 1024, 0, MYLIB_FUSED_ALONG, 1},
        {MYLIB_F64, 1100, 0, MYLIB_FUSED_ALONG, 1},
        {MYLIB_F64, 1101, 0, MYLIB_FUSED_SHORT, 0},
        {MYLIB_F64, 90, 2, MYLIB_FUSED_ALONG, 1},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const int64_t shape[] = {100000, cases[i].columns};
        const int64_t size = (int64_t)mylib_type_size(cases[i].type);
        mylib_layout l = layout_of(2, size, 2, shape);
        l.strides[1][0] = (cases[i].columns + cases[i].gap) * size;
        const int is_streamed =
            check_reduction("rows of one input", chain_of(cases[i].type, 1, 3), l, 1, cases[i].way);
        CHECK(is_streamed == cases[i].is_streamed, "%d columns: %d", cases[i].columns, is_streamed);
    }
}

static void test_reductions(void)
{
    static const mylib_type others[] = {MYLIB_I32, MYLIB_I64,  MYLIB_U8,  MYLIB_F16,
                                        MYLIB_C64, MYLIB_C128, MYLIB_BOOL};
    const int64_t sizes[] = {
        1, 2047, 2048, 4097, 1 << 20, ((int64_t)1 << 27) + 1, ((int64_t)1 << 32) + 77};
    for (int wide = 0; wide < 2; wide++) {
        const mylib_type type = wide ? MYLIB_F64 : MYLIB_F32;
        const int64_t size = wide ? 8 : 4;
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            check_reduction("all", chain_of(type, 2, 3), layout_of(3, size, 1, &sizes[i]), 0,
                            MYLIB_FUSED_ALONG);
        }
        const int64_t rows[] = {5000, 8192}, three[] = {3, 4, 8192}, five[] = {2, 3, 4, 5, 8192};
        mylib_layout l = layout_of(3, size, 2, rows);
        for (int k = 0; k < 3; k++)
            l.strides[k][0] = size * (rows[1] + k);
        check_reduction("rows", chain_of(type, 2, 3), l, 1, MYLIB_FUSED_ALONG);
        l.strides[2][0] = 0;
        check_reduction("a row for all", chain_of(type, 2, 3), l, 1, MYLIB_FUSED_ALONG);
        l.strides[2][1] = 0;
        l.strides[2][0] = size;
        check_reduction("a number for each row", chain_of(type, 2, 3), l, 1, MYLIB_FUSED_ALONG);
        l.strides[1][1] = 2 * size;
        check_reduction("every other term", chain_of(type, 2, 3), l, 1, MYLIB_FUSED_ALONG);
        l.strides[2][0] = size * rows[1];
        l.strides[2][1] = size;
        l.strides[1][0] = size;
        l.strides[1][1] = size * rows[0];
        check_reduction("an input across", chain_of(type, 2, 3), l, 1, NO_WAY);
        for (int k = 0; k < 3; k++) {
            l.strides[k][0] = size;
            l.strides[k][1] = size * rows[0];
        }
        check_reduction("all across", chain_of(type, 2, 3), l, 1, MYLIB_FUSED_ACROSS);
        l.strides[2][0] = 0;
        check_reduction("a number for each term", chain_of(type, 2, 3), l, 1, MYLIB_FUSED_ACROSS);
        for (int64_t n = 2; n <= 2049; n += n < 300 ? 1 : 53) {
            const int64_t short_rows[] = {5000, n};
            l = layout_of(3, size, 2, short_rows);
            for (int k = 0; k < 3; k++)
                l.strides[k][0] = size * n;
            check_reduction("short rows", chain_of(type, 2, 3), l, 1,
                            n <= 2048 ? MYLIB_FUSED_SHORT : MYLIB_FUSED_ALONG);
            l.strides[1][0] += size;
            check_reduction("short rows apart", chain_of(type, 2, 3), l, 1,
                            n < (wide ? 683 : 1366) ? NO_WAY : MYLIB_FUSED_ALONG);
        }
        l = layout_of(3, size, 3, three);
        check_reduction("two kept dimensions", chain_of(type, 2, 3), l, 2, MYLIB_FUSED_ALONG);
        check_reduction("two that are reduced", chain_of(type, 2, 3), l, 1, NO_WAY);
        check_reduction("too many", chain_of(type, 2, 3), layout_of(3, size, 5, five), 4, NO_WAY);
        l = layout_of(2, size, 1, &rows[1]);
        check_reduction("registers of half a thread block", wide_of(type, 3), l, 0,
                        MYLIB_FUSED_ALONG);
        check_reduction("registers of half a warp", wide_of(type, MYLIB_FUSED_MAX_REGISTERS), l, 0,
                        NO_WAY);
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        const int64_t size = (int64_t)mylib_type_size(others[i]);
        check_reduction("another type", chain_of(others[i], 2, 3),
                        layout_of(3, size, 1, (const int64_t[]){5000}), 0, NO_WAY);
    }
}

static void test_limits(void)
{
    const int64_t small[] = {3, 5, 7, 9, 11}, flat[] = {((int64_t)1 << 33) + 5},
                  large[] = {(int64_t)1 << 16, (int64_t)1 << 16}, half[] = {1 << 30, 3},
                  narrow[] = {(int64_t)1 << 31, 2}, wide[] = {1 << 20, (int64_t)1 << 31};
    const mylib_layout two = layout_of(3, 8, 1, small), one = layout_of(2, 8, 1, small);
    check_fit("two statements", chain_of(MYLIB_F64, 2, 2), two, MYLIB_FUSED_FITS);
    check_fit("the most statements", chain_of(MYLIB_F64, 2, MYLIB_FUSED_MAX_STATEMENTS), two,
              MYLIB_FUSED_FITS);
    check_fit("one more", chain_of(MYLIB_F64, 2, MYLIB_FUSED_MAX_STATEMENTS + 1), two,
              MYLIB_FUSED_NOT_THE_PROGRAM);
    check_fit("far too many", chain_of(MYLIB_F64, 2, MAX_STATEMENTS), two,
              MYLIB_FUSED_NOT_THE_PROGRAM);
    /* The last value of those that are kept goes on without a register. */
    check_fit("the most registers", wide_of(MYLIB_F32, MYLIB_FUSED_MAX_REGISTERS), one,
              MYLIB_FUSED_FITS);
    check_fit("too many", wide_of(MYLIB_F32, MYLIB_FUSED_MAX_REGISTERS + 1), one,
              MYLIB_FUSED_NOT_THE_PROGRAM);
    check_fit("the most constants", program_of_constants(MYLIB_FUSED_MAX_CONSTANTS), one,
              MYLIB_FUSED_FITS);
    check_fit("one more constant", program_of_constants(MYLIB_FUSED_MAX_CONSTANTS + 1), one,
              MYLIB_FUSED_NOT_THE_PROGRAM);
    check_fit("one type of 16 bytes", chain_of(MYLIB_C128, 2, 2), two, MYLIB_FUSED_FITS);
    mylib_program mixed = chain_of(MYLIB_F64, 2, 2);
    statement[1].type = MYLIB_I64;
    check_fit("two types", mixed, two, MYLIB_FUSED_NOT_THE_PROGRAM);
    check_fit("a type without a kernel", chain_of(MYLIB_U8, 2, 2), two,
              MYLIB_FUSED_NOT_THE_PROGRAM);
    /* Functions of f32 and f64 have a kernel, others have none, and none reduces. */
    const struct {
        mylib_type type;
        mylib_fused_fit fit;
    } functions[] = {{MYLIB_F32, MYLIB_FUSED_FITS},
                     {MYLIB_F64, MYLIB_FUSED_FITS},
                     {MYLIB_F16, MYLIB_FUSED_NOT_THE_PROGRAM},
                     {MYLIB_I64, MYLIB_FUSED_NOT_THE_PROGRAM},
                     {MYLIB_C64, MYLIB_FUSED_NOT_THE_PROGRAM}};
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        mylib_program calls = chain_of(functions[i].type, 1, 3);
        statement[1].opcode = MYLIB_OP_sign;
        check_fit("a function", calls, one, functions[i].fit);
    }
    mylib_program reduced = chain_of(MYLIB_F64, 1, 3);
    statement[1].opcode = MYLIB_OP_exp;
    check_reduction("a function", reduced, layout_of(2, 8, 1, (const int64_t[]){5000}), 0, NO_WAY);
    check_fit("all inputs", chain_of(MYLIB_I64, MYLIB_PROGRAM_MAX_INPUTS, 40),
              layout_of(1 + MYLIB_PROGRAM_MAX_INPUTS, 8, 1, small), MYLIB_FUSED_FITS);

    check_fit("the most dimensions", chain_of(MYLIB_F64, 2, 2),
              layout_of(3, 8, MYLIB_FUSED_MAX_NDIM, small), MYLIB_FUSED_FITS);
    check_fit("one more dimension", chain_of(MYLIB_F64, 2, 2),
              layout_of(3, 8, MYLIB_FUSED_MAX_NDIM + 1, small), MYLIB_FUSED_TOO_MANY_DIMENSIONS);
    check_fit("2^33 elements", chain_of(MYLIB_F32, 2, 2), layout_of(3, 4, 1, flat),
              MYLIB_FUSED_FITS);
    check_fit("2^16 rows of 2^16", chain_of(MYLIB_F32, 2, 2), layout_of(3, 4, 2, large),
              MYLIB_FUSED_FITS);
    check_fit("2^16 rows of 2^16 f64", chain_of(MYLIB_F64, 2, 2), layout_of(3, 8, 2, large),
              MYLIB_FUSED_FITS);
    check_fit("2^30 short rows", chain_of(MYLIB_F64, 2, 2), layout_of(3, 8, 2, half),
              MYLIB_FUSED_FITS);
    check_fit("2^31 short rows", chain_of(MYLIB_F64, 2, 2), layout_of(3, 8, 2, narrow),
              MYLIB_FUSED_TOO_MANY_ELEMENTS);
    check_fit("2^40 tiles", chain_of(MYLIB_F16, 2, 2), layout_of(3, 2, 2, wide),
              MYLIB_FUSED_TOO_MANY_ELEMENTS);
}

/* Long programs of vectors: which inputs are kept, and which statements are quick. */
static void test_long(void)
{
    static mylib_fused_args args;
    static const struct {
        int inputs, statements, is_long, begun, kept[MYLIB_FUSED_MAX_KEPT], quick;
    } cases[] = {
        {2, 2, 0, 0, {0, 0}, 0}, {3, 2, 0, 0, {0, 0}, 0},
        {2, 3, 1, 0, {0, 1}, 3}, {3, 3, 1, 0, {0, MYLIB_FUSED_ABSENT}, 1},
        {4, 3, 0, 0, {0, 0}, 0}, {9, 8, 1, 0, {MYLIB_FUSED_ABSENT, MYLIB_FUSED_ABSENT}, 0},
        {3, 7, 1, 0, {0, 1}, 5}, {3, MYLIB_FUSED_MAX_STATEMENTS, 1, 0, {0, 1}, 128},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const mylib_layout l = layout_of(1 + cases[i].inputs, 8, 1, (const int64_t[]){5000});
        const mylib_program p = chain_of(MYLIB_F64, cases[i].inputs, cases[i].statements);
        int quick = 0;
        test_set_case("%d statements of %d inputs", cases[i].statements, cases[i].inputs);
        CHECK(mylib_fused_init(&args, &p, &l) == MYLIB_FUSED_FITS, "it does not fit");
        CHECK(args.is_long == cases[i].is_long, "long: %d", (int)args.is_long);
        if (!args.is_long)
            continue;
        for (int k = 0; k < args.statements; k++)
            quick += args.statement[k].target == MYLIB_FUSED_IS_QUICK;
        uint32_t end;
        memcpy(&end, &args.statement[args.statements], sizeof end);
        CHECK(end == MYLIB_FUSED_END, "no end");
        CHECK(args.begun == cases[i].begun, "begins with input %d", args.begun);
        CHECK(args.kept[0] == cases[i].kept[0] && args.kept[1] == cases[i].kept[1], "kept: %d, %d",
              args.kept[0], args.kept[1]);
        CHECK(quick == cases[i].quick, "%d quick statements", quick);
    }
    const mylib_layout l = layout_of(3, 8, 1, (const int64_t[]){5000});
    mylib_program p = chain_of(MYLIB_F64, 2, 3);
    test_set_case("a short program that is no chain");
    statement[1].opcode = MYLIB_OP_less;
    CHECK(mylib_fused_init(&args, &p, &l) == MYLIB_FUSED_FITS && !args.is_long, "long");
    test_set_case("products and sums are pairs; the last product has none");
    p = chain_of(MYLIB_F64, 2, 7);
    for (int i = 0; i < 7; i += 2)
        statement[i].opcode = MYLIB_OP_multiply;
    CHECK(mylib_fused_init(&args, &p, &l) == MYLIB_FUSED_FITS && args.statements == 4 &&
              (args.statement[2].opcode & MYLIB_FUSED_QUICK_PAIR) != 0 &&
              (args.statement[3].opcode & MYLIB_FUSED_QUICK_PAIR) == 0,
          "%d statements", (int)args.statements);
    test_set_case("a product of an input with itself");
    p = chain_of(MYLIB_F64, 1, 1);
    statement[0].opcode = MYLIB_OP_multiply;
    CHECK(mylib_fused_init(&args, &p, &l) == MYLIB_FUSED_FITS &&
              args.statement[0].opcode == MYLIB_OP_square &&
              args.statement[0].operand[1] == MYLIB_FUSED_ABSENT,
          "it is read twice");
}

/* ---- Which element is whose ---- */

/*
 * Counts what is wrong with the place of the element at a row and a column in operand k, `found`,
 * against the plain way; marks the element as seen.
 */
static int64_t check_place(const mylib_fused_args *args, const mylib_layout *l, int64_t row,
                           int64_t column, int k, const char *found, uint8_t *seen)
{
    const mylib_walk *w = &args->walk;
    int64_t number = 0, index[MYLIB_MAX_NDIM], right = 0;
    int is_taken[MYLIB_MAX_NDIM] = {0};
    if (row < 0 || row >= w->rows || column < 0 || column >= args->columns)
        return 1;
    index[l->ndim - 1] = column;
    /* The dimensions of the rows, innermost first; one may have moved in. */
    for (int e = w->row_ndim - 1; e >= 0 && l->ndim > 1; e--) {
        int d = -1;
        for (int from = l->ndim - 2; from >= 0 && d < 0; from--) {
            int is_it = !is_taken[from] && w->row_shape[e] == l->shape[from];
            for (int j = 0; j < l->operands; j++)
                is_it &= args->row_stride[e][j] == l->strides[j][from];
            d = is_it ? from : -1;
        }
        if (d < 0)
            return 1;
        is_taken[d] = 1;
        index[d] = row % w->row_shape[e];
        row /= w->row_shape[e];
    }
    for (int d = 0; d < l->ndim; d++) {
        right += index[d] * l->strides[k][d];
        number = number * l->shape[d] + index[d];
    }
    return (found != l->data[k] + right) + (k == 0 && seen[number]++ != 0);
}

/* Each element's place in each operand, found the plain way, is some thread's, once. */
static void check_places(const mylib_fused_args *args, const mylib_layout *l, const int64_t *size)
{
    static uint8_t seen[MAX_COUNT];
    const int most = mylib_fused_elements(args), group = mylib_fused_group(args);
    int64_t wrong = 0;
    memset(seen, 0, (size_t)l->count);
    for (int64_t t = 0; t < mylib_fused_blocks(args) * args->threads; t++) {
        const int32_t block = (int32_t)(t / args->threads), thread = (int32_t)(t % args->threads);
        int32_t row = 0;
        int64_t first = 0;
        const int n =
            args->is_flat ? most : mylib_fused_spaced(args, block, thread, most, &row, &first);
        for (int i = 0; i < n; i++) {
            int64_t column = first + i * args->walk.column_step[0], offset[3];
            if (args->is_flat) {
                column = (int64_t)block * args->threads * most +
                         ((int64_t)i / group * args->threads + thread) * group + i % group;
                if (column >= args->columns)
                    continue;
            }
            for (int k = 0; k < l->operands; k++) {
                offset[k] = args->is_flat ? column * args->column_stride[k]
                                          : mylib_fused_row(args, k, row) +
                                                first * args->column_stride[k] + i * args->step[k];
                wrong += check_place(args, l, args->is_flat ? 0 : row + i * args->walk.row_step[0],
                                     column, k, args->data[k] + offset[k], seen);
                if (args->is_flat && i % group == 0)
                    wrong +=
                        (uintptr_t)(args->data[k] + offset[k]) % (uintptr_t)(group * size[k]) !=
                            0 ||
                        args->column_stride[k] != size[k];
            }
        }
    }
    for (int64_t i = 0; i < l->count; i++)
        wrong += seen[i] != 1;
    CHECK(wrong == 0, "%lld places are wrong", (long long)wrong);
}

static void test_places(void)
{
    static _Alignas(256) char memory[4][1 << 20];
    static const mylib_type types[] = {MYLIB_F32, MYLIB_F64, MYLIB_I32, MYLIB_F16};
    static mylib_fused_args args;
    rng r = rng_make(0);
    int fitted = 0, spaced = 0, downwards = 0;
    for (int i = 0; i < 3000; i++) {
        mylib_type type = PICK(&r, types);
        int64_t size = test_size(type), sizes[3] = {size, size, size};
        layout out, in[2];
        mylib_strides strides[3];
        mylib_layout l = {.strides = strides};
        mylib_array arrays[3];
        random_shape(&r, &out, i % 10 == 0 ? MAX_COUNT : 600);
        random_strides(&r, &out, size, 1);
        const int is_vector = i % 8 == 1; /* which would be rare by chance */
        if (is_vector) {
            out = (layout){.ndim = 1};
            out.shape[0] = 1 + rng_below(&r, MAX_COUNT);
            out.strides[0] = size;
            layout_measure(&out, size);
        }
        arrays[0] = layout_array(&out, type, test_cpu,
                                 memory[0] + (is_vector ? 0 : size * rng_below(&r, 5)));
        for (int k = 0; k < 2; k++) {
            in[k] = out;
            if (!is_vector)
                random_input(&r, &out, &in[k], size, 1);
            arrays[1 + k] = layout_array(&in[k], type, test_cpu,
                                         memory[1 + k] + (is_vector ? 0 : size * rng_below(&r, 5)));
        }
        test_set_case("%s, %s", test_types[type].name, layout_text(&out));
        if (!CHECK_OK(mylib_layout_init(&l, &arrays[0], &arrays[1], 2)) || l.count == 0)
            continue;
        mylib_layout_simplify(&l);
        mylib_program p = chain_of(type, 2, 2);
        const int is_real = type == MYLIB_F32 || type == MYLIB_F64;
        const int has_calls = is_real && rng_once_in(&r, 3);
        const int has_functions = is_real && rng_once_in(&r, 3);
        if (has_calls)
            statement[0].opcode = MYLIB_OP_remainder;
        if (has_functions)
            statement[1].opcode = MYLIB_OP_sign;
        mylib_fused_fit fit = mylib_fused_init(&args, &p, &l);
        CHECK(fit == (l.ndim > MYLIB_FUSED_MAX_NDIM ? MYLIB_FUSED_TOO_MANY_DIMENSIONS
                                                    : MYLIB_FUSED_FITS),
              "%d dimensions: %d", l.ndim, (int)fit);
        if (fit != MYLIB_FUSED_FITS)
            continue;
        CHECK(args.computed_type == type, "computed in type %d", (int)args.computed_type);
        fitted++;
        CHECK((args.spare > 0) == has_calls, "%d spare registers", args.spare);
        CHECK(args.has_functions == has_functions, "functions: %d", args.has_functions);
        spaced += !args.is_flat;
        downwards += !args.is_flat && args.walk.row_step[0] != 0;
        check_places(&args, &l, sizes);
    }
    CHECK(fitted > 1000 && spaced > 500 && spaced < fitted - 100 && downwards > 300,
          "%d layouts fitted, %d spaced, %d of these downwards", fitted, spaced, downwards);
}

int main(void)
{
    test_begin("fused");
    test_limits();
    test_long();
    test_reductions();
    test_streamed();
    test_places();
    return test_end();
}
