/*
 * Integer division by one number goes through reciprocals, each exact by a proof of its own: every
 * pair of 8 bits, and the pairs of wider types where such proofs fail, at every CPU level; with the
 * flags of x / 0 and MIN / -1 and no others.
 */
#include "reference.h"

#include <fenv.h>

#define LENGTH 512
#define RANDOM_DIVISORS 200
#define FLAGS (FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW)

/* Elements of 64 bits are stored as those of any type: tests run on little-endian machines. */
static unsigned char a[LENGTH * 8], out[LENGTH * 2 * 8];
static reference right[LENGTH];

static void put_bits(const test_type *t, uint64_t bits, unsigned char *p)
{
    memcpy(p, &bits, (size_t)t->size);
}

static uint64_t get_bits(const test_type *t, const unsigned char *p)
{
    uint64_t bits = 0;
    memcpy(&bits, p, (size_t)t->size);
    return bits;
}

static int is_signed(const test_type *t) { return t->type <= MYLIB_I64; }

/* The bits that stand for MIN, or for 2^(bits - 1). */
static uint64_t top_bit(const test_type *t) { return (uint64_t)1 << (8 * t->size - 1); }

static int expected_flags(mylib_op op, const test_type *t, int64_t n, const unsigned char *divisor)
{
    uint64_t y = get_bits(t, divisor), minus_one = 2 * top_bit(t) - 1;
    if (y == 0)
        return n > 0 ? FE_DIVBYZERO : 0;
    if (is_signed(t) && y == minus_one && op != MYLIB_OP_remainder)
        for (int64_t i = 0; i < n; i++)
            if (get_bits(t, a + i * t->size) == top_bit(t))
                return FE_OVERFLOW;
    return 0;
}

/* a[0..n) by one number, at every level, contiguous and with gaps. */
static void run(const test_op *op, const test_type *t, int64_t n, const unsigned char *divisor)
{
    int flags = expected_flags(op->op, t, n, divisor);
    for (int64_t i = 0; i < n; i++)
        reference_compute(op->op, t->type, a + i * t->size, divisor, &right[i]);
    FOR_EACH_LEVEL(level)
    {
        for (int gap = 0; gap < 2; gap++) {
            int64_t stride = t->size << gap, i = 0;
            test_set_case("%s, %s of %s by %s, out stride %lld", test_levels[level], op->name,
                          t->name, describe(t->type, divisor), (long long)stride);
            memset(out, 0xa5, sizeof out);
            feclearexcept(FE_ALL_EXCEPT);
            mylib_status status =
                mylib_map1(op->op, t->type, n, out, stride, a, t->size, divisor, 0);
            int raised = fetestexcept(FLAGS);
            CHECK_OK(status);
            CHECK(raised == flags, "raised %#x, not %#x", (unsigned)raised, (unsigned)flags);
            while (i < n && reference_accepts(t->type, &right[i], out + i * stride))
                i++;
            CHECK(i == n, "%s gives %s, not %s", describe(t->type, a + i % n * t->size),
                  describe(t->type, out + i % n * stride), describe(t->type, right[i % n].bits));
        }
    }
}

static void test_all_pairs(const test_op *op, const test_type *t)
{
    for (int x = 0; x < 256; x++)
        put_bits(t, (uint64_t)x, a + x);
    for (int y = 0; y < 256; y++) {
        unsigned char divisor = (unsigned char)y;
        run(op, t, 256, &divisor);
    }
}

/* Powers of two, multiples of the divisor (every other one as large as can be), +-1 each. */
static int64_t fill_dividends(rng *r, const test_type *t, uint64_t divisor)
{
    uint64_t all = 2 * top_bit(t) - 1, x;
    uint64_t size = is_signed(t) && (divisor & top_bit(t)) ? (0 - divisor) & all : divisor;
    int64_t bits = 8 * t->size, n = 0;
    for (int64_t i = 0; n + 3 <= LENGTH; i++) {
        uint64_t most = is_signed(t) || i % 4 == 0 ? top_bit(t) : all, some = rng_next(r) & all;
        if (i < bits)
            x = (uint64_t)1 << i;
        else if (size == 0)
            x = some;
        else
            x = ((i % 2 ? most : some >> rng_below(r, bits)) / size - (uint64_t)rng_below(r, 2)) *
                (rng_once_in(r, 2) ? size : 0 - size);
        for (uint64_t step = 0; step < 3; step++)
            put_bits(t, x + step - 1, a + n++ * t->size);
    }
    return n;
}

static void test_divisor(const test_op *op, const test_type *t, uint64_t y, rng *r)
{
    unsigned char divisor[8];
    put_bits(t, y, divisor);
    run(op, t, fill_dividends(r, t, get_bits(t, divisor)), divisor);
}

static void test_edges(const test_op *op, const test_type *t, rng *r)
{
    int bits = (int)(8 * t->size);
    for (uint64_t y = 0; y <= 20; y++) {
        test_divisor(op, t, y, r);
        test_divisor(op, t, 0 - y, r);
    }
    for (int k = 4; k < bits; k++)
        for (uint64_t step = 0; step < 3; step++) {
            test_divisor(op, t, ((uint64_t)1 << k) + step - 1, r);
            test_divisor(op, t, 0 - ((uint64_t)1 << k) + step - 1, r);
        }
    for (int i = 0; i < RANDOM_DIVISORS; i++)
        test_divisor(op, t, rng_next(r) >> (64 - 1 - rng_below(r, bits)), r);
}

/* Every length: vectors and what is left over. */
static void test_lengths(const test_op *op, const test_type *t, rng *r)
{
    unsigned char divisor[8];
    for (int64_t n = 1; n <= 140; n++) {
        fill_values(r, t->type, n, a);
        put_bits(t, (uint64_t)rng_below(r, 100) - 50, divisor);
        run(op, t, n, divisor);
    }
}

int main(void)
{
    test_begin("division");
    rng r = rng_make(1);
    FOR_EACH_PAIR(op, t)
    {
        if (!test_is_integer(t->type) ||
            (op->op != MYLIB_OP_divide && op->op != MYLIB_OP_floor_divide &&
             op->op != MYLIB_OP_remainder))
            continue;
        test_lengths(op, t, &r);
        if (t->size == 1)
            test_all_pairs(op, t);
        else
            test_edges(op, t, &r);
    }
    return test_end();
}
