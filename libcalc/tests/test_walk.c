/*
 * The GPU's walk over arrays of any strides (cuda/walk.c, cuda/strided.c), without a GPU: each
 * element belongs to one thread, at the right place in every operand; vectors lie within rows and
 * are aligned.
 */
#include "cuda/strided.h"
#include "layout.h"

#define MAX_COUNT 20000

/* The operands of one element. */
typedef struct element {
    const char *data[MYLIB_STRIDED_OPERANDS];
} element;

static int by_output(const void *a, const void *b)
{
    const char *x = ((const element *)a)->data[0], *y = ((const element *)b)->data[0];
    return x < y ? -1 : x > y;
}

/* All elements of a layout, by the address of the output. */
static void walk_layout(const mylib_layout *l, element *elements)
{
    int64_t index[MYLIB_MAX_NDIM] = {0};
    for (int64_t i = 0; i < l->count; i++) {
        for (int k = 0; k < l->operands; k++) {
            const char *data = l->data[k];
            for (int d = 0; d < l->ndim; d++)
                data += index[d] * l->strides[k][d];
            elements[i].data[k] = data;
        }
        for (int d = l->ndim - 1; d >= 0 && ++index[d] == l->shape[d]; d--)
            index[d] = 0;
    }
    qsort(elements, (size_t)l->count, sizeof *elements, by_output);
}

/* A flat walk numbers the elements as columns of a single row. */
static const char *address(const mylib_strided_args *p, int k, int32_t column, int32_t row)
{
    if (p->is_flat) {
        row = mylib_divide(column, p->flat_divider);
        column -= row * p->flat_columns;
    }
    return p->data[k] + mylib_strided_row(p, k, row) + column * p->column_stride[k];
}

/* A group of a thread whose first element is at (column, row): it is as the arguments say. */
static void check_group(const mylib_strided_args *p, int vector, int32_t column, int32_t row,
                        int32_t end_row)
{
    for (int k = 0; k < p->operands; k++) {
        int type = k == 0 ? p->statement.result_type : p->statement.operand[k - 1].type;
        int size = (int)mylib_type_size((mylib_type)type);
        const char *first = address(p, k, column, row);
        const int32_t next = column + p->walk.column_step[0],
                      group = column + p->walk.column_step[1];
        /* In a flat walk each operand is contiguous, or finds the place of each element. */
        const int finds = k == 0 ? !p->is_regular : p->access[k - 1] == MYLIB_ACCESS_GATHERED;
        if (p->is_flat && finds)
            continue;
        if (p->is_flat ? next < p->columns
                       : p->is_regular &&
                             (p->walk.row_step[0] == 0 || row + p->walk.row_step[0] < end_row))
            CHECK(address(p, k, next, row + p->walk.row_step[0]) - first == p->element_step[k],
                  "operand %d: elements are not at equal distances", k);
        if (p->is_flat ? group < p->columns : p->is_plain)
            CHECK(address(p, k, group, row + p->walk.row_step[1]) - first == p->group_step[k],
                  "operand %d: groups are not at equal distances", k);
        int is_vector = k == 0 ? p->is_vector : p->access[k - 1] == MYLIB_ACCESS_VECTOR;
        if (is_vector && column >= 0 && column + vector <= p->columns)
            CHECK((uintptr_t)first % (unsigned)(vector * size) == 0,
                  "operand %d: the vector at column %d, row %d is not aligned", k, column, row);
    }
}

/*
 * Does what a kernel does: marks the elements of all threads as seen.  The address of an operand
 * that is read backwards is that of the group's last element.
 */
static void walk(const mylib_strided_args *p, int64_t count, const element *elements, uint8_t *seen)
{
    int size = (int)mylib_type_size((mylib_type)p->statement.type);
    int vector = MYLIB_STRIDED_VECTOR(size), vectors = MYLIB_STRIDED_VECTORS(size);
    for (int32_t block = 0; block < p->walk.tiles; block++) {
        int32_t tile_column, tile_row, end_row;
        mylib_walk_tile(&p->walk, block, &tile_column, &tile_row, &end_row);
        tile_column *= p->walk.tile_columns;
        for (int32_t tid = 0; tid < MYLIB_CUDA_THREADS; tid++) {
            int32_t down, across;
            if (!mylib_walk_thread(&p->walk, tid, MYLIB_CUDA_THREADS, &across, &down))
                continue;
            for (int i = 0; i < vector * vectors; i++) {
                int v = i / vector, e = i % vector;
                int32_t row = tile_row + down + v * p->walk.row_step[1];
                int32_t column = tile_column + across * p->column_unit +
                                 v * p->walk.column_step[1] - mylib_strided_lead(p, vector, row);
                if (e == 0 && row < end_row)
                    check_group(p, vector, column, row, end_row);
                column += e * p->walk.column_step[0];
                row += e * p->walk.row_step[0];
                if (column < 0 || column >= p->columns || row >= end_row)
                    continue;
                element own = {{address(p, 0, column, row)}};
                const element *found =
                    bsearch(&own, elements, (size_t)count, sizeof own, by_output);
                CHECK(found != NULL, "column %d, row %d is no element", column, row);
                if (found == NULL)
                    return;
                CHECK(seen[found - elements]++ == 0, "column %d, row %d comes twice", column, row);
                for (int k = 1; k < p->operands; k++) {
                    int64_t back = p->is_reversed[k - 1]
                                       ? (int64_t)(vector - 1) * llabs(p->column_stride[k])
                                       : 0;
                    CHECK(address(p, k, column, row) + back == found->data[k],
                          "operand %d of column %d, row %d is elsewhere", k, column, row);
                }
            }
        }
    }
}

static void run(const mylib_statement *s, const layout *l, mylib_layout *given)
{
    static element elements[MAX_COUNT];
    static uint8_t seen[MAX_COUNT];
    mylib_strided_args args;
    if (given->count == 0 || given->count > MAX_COUNT)
        return;
    walk_layout(given, elements);
    mylib_layout_simplify(given);
    if (given->ndim > MYLIB_STRIDED_MAX_NDIM)
        return;
    mylib_strided_init(&args, s, given);
    test_set_case("walk of %d bytes, out %s, a %s, b %s; across %d, access %d, %d",
                  (int)mylib_type_size((mylib_type)s->type), layout_text(&l[0]), layout_text(&l[1]),
                  layout_text(&l[2]), args.walk.across, args.access[0], args.access[1]);
    CHECK(args.walk.across * (MYLIB_CUDA_THREADS / args.walk.across) * 2 > MYLIB_CUDA_THREADS,
          "most threads are idle");
    memset(seen, 0, (size_t)given->count);
    walk(&args, given->count, elements, seen);
    int64_t missed = 0;
    for (int64_t i = 0; i < given->count; i++)
        missed += seen[i] == 0;
    CHECK(missed == 0, "%lld elements are no thread's", (long long)missed);
}

/* a + b, or a < b. */
static mylib_statement statement_of(mylib_type type, int compares)
{
    const mylib_statement s = {
        compares ? MYLIB_OP_less : MYLIB_OP_add,
        (uint8_t)type,
        (uint8_t)(compares ? MYLIB_BOOL : type),
        2,
        MYLIB_TARGET_OUT,
        {{MYLIB_VALUE_INPUT, (uint8_t)type, 0}, {MYLIB_VALUE_INPUT, (uint8_t)type, 1}}};
    return s;
}

static void make(mylib_layout *given, layout *l, mylib_type type, int compares, rng *r)
{
    mylib_array arrays[3];
    mylib_type out_type = compares ? MYLIB_BOOL : type;
    for (int k = 0; k < 3; k++) {
        mylib_type t = k == 0 ? out_type : type;
        char *lowest = (char *)((uintptr_t)(k + 1) << 32) + rng_below(r, 20) * test_size(t);
        arrays[k] = layout_array(&l[k], t, test_cpu, lowest);
    }
    CHECK_OK(mylib_layout_init(given, &arrays[0], &arrays[1], 2));
}

static void test_random(const test_type *t, rng *r)
{
    mylib_statement s;
    mylib_strides strides[3];
    mylib_layout given = {.strides = strides};
    for (int i = 0; i < test_rounds(400); i++) {
        layout l[3];
        int compares = rng_once_in(r, 4);
        int64_t size = compares ? 1 : t->size;
        random_shape(r, &l[0], i % 20 == 0 ? MAX_COUNT : 600);
        random_strides(r, &l[0], size, 1);
        random_input(r, &l[0], &l[1], t->size, 1);
        random_input(r, &l[0], &l[2], t->size, 1);
        make(&given, l, t->type, compares, r);
        s = statement_of(t->type, compares);
        run(&s, l, &given);
    }
}

/* C order with the last two dimensions of some inputs swapped, broadcast or reversed. */
static void test_matrices(const test_type *t, rng *r)
{
    mylib_statement s;
    mylib_strides strides[3];
    mylib_layout given = {.strides = strides};
    for (int i = 0; i < test_rounds(300); i++) {
        layout l[3] = {{.ndim = 2 + (int)rng_below(r, 2)}};
        int rows = l[0].ndim - 2, columns = l[0].ndim - 1;
        int64_t pad = rng_below(r, 3), compares = rng_once_in(r, 4);
        l[0].shape[0] = 1 + rng_below(r, 4);
        l[0].shape[rows] = 1 + rng_below(r, rng_once_in(r, 3) ? 8 : 140);
        l[0].shape[columns] = 1 + rng_below(r, rng_once_in(r, 3) ? 8 : 140);
        for (int k = 0; k < 3; k++) {
            int64_t size = k == 0 && compares ? 1 : t->size;
            memcpy(l[k].shape, l[0].shape, sizeof l[0].shape);
            l[k].ndim = l[0].ndim;
            l[k].strides[columns] = size;
            l[k].strides[rows] = size * (l[0].shape[columns] + pad);
            l[k].strides[0] =
                l[0].ndim == 2 ? l[k].strides[0] : l[k].strides[rows] * l[0].shape[rows];
            switch (k == 0 ? 0 : rng_below(r, 5)) {
            case 1:
                l[k].strides[columns] = size * (l[0].shape[rows] + pad);
                l[k].strides[rows] = size;
                break;
            case 2:
                l[k].strides[columns] = -size;
                break;
            case 3:
                l[k].shape[columns] = 1;
                break;
            case 4:
                l[k].shape[rows] = 1;
                break;
            default:
                break;
            }
            layout_measure(&l[k], size);
        }
        make(&given, l, t->type, (int)compares, r);
        s = statement_of(t->type, (int)compares);
        run(&s, l, &given);
    }
}

/* The most important layouts are read in the best way. */
static void test_choices(void)
{
    enum { N = 16384, A = 1 << 20 };
    static const struct {
        const char *name;
        int64_t offset, strides[2]; /* of b */
        int access;
    } cases[] = {
        {"a matrix", 0, {4 * N, 4}, MYLIB_ACCESS_VECTOR},
        {"a row", 0, {0, 4}, MYLIB_ACCESS_VECTOR},
        {"an unaligned row", 4, {0, 4}, MYLIB_ACCESS_ELEMENT},
        {"a column", 0, {4, 0}, MYLIB_ACCESS_ROW},
        {"a transpose", 0, {4, 4 * N}, MYLIB_ACCESS_STAGED},
        {"rows backwards", 4 * (N - 1), {4 * N, -4}, MYLIB_ACCESS_VECTOR},
        {"every other column", 0, {8 * N, 8}, MYLIB_ACCESS_ELEMENT},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const mylib_statement s = statement_of(MYLIB_F32, 0);
        mylib_strided_args args;
        mylib_strides strides[3];
        mylib_layout l = {
            .ndim = 2, .operands = 3, .count = (int64_t)N * (N / 2), .strides = strides};
        test_set_case("an aligned matrix and %s", cases[i].name);
        l.shape[0] = N / 2, l.shape[1] = N;
        for (int k = 0; k < 3; k++) {
            l.data[k] = (char *)((uintptr_t)(k + 1) * ((uintptr_t)A << 20)) +
                        (k == 2 ? cases[i].offset : 0);
            l.strides[k][0] = k == 2 ? cases[i].strides[0] : 4 * N + 64;
            l.strides[k][1] = k == 2 ? cases[i].strides[1] : 4;
        }
        mylib_strided_init(&args, &s, &l);
        CHECK(args.access[1] == cases[i].access, "access %d, not %d", args.access[1],
              cases[i].access);
        CHECK(args.is_plain &&
                  args.walk.tiles * MYLIB_CUDA_THREADS * MYLIB_STRIDED_ELEMENTS(4) == l.count,
              "%d tiles are not all full", (int)args.walk.tiles);
    }
}

int main(void)
{
    test_begin("walk");
    rng r = rng_make(1);
    for (const test_type *t = test_types; t < test_types + TEST_COMPUTED_COUNT; t++) {
        test_random(t, &r);
        test_matrices(t, &r);
    }
    test_choices();
    return test_end();
}
