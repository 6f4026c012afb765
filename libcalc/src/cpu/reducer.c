/*
 * reducer.c - the common parts of all tasks of a reduction.
 */
#include "cpu/reducer.h"
#include "flags.h"

char *mylib_reducer_begin_task(mylib_reducer *r, mylib_row_data *row_data, size_t room_nbytes,
                               void **memory)
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
        atomic_store(&r->out_of_memory, 1);
        return NULL;
    }
    if (r->term_inputs == 0)
        mylib_row_data_init(row_data, &r->row_program, apart != 0 ? *memory : NULL);
    return fits ? row_data->registers + used : (char *)*memory + apart;
}

void mylib_reducer_store(const mylib_reducer *r, char *out, int64_t stride, const char *src,
                         int64_t n)
{
    size_t size = mylib_type_size(r->out_type);
    if (r->out_type > MYLIB_U64 && r->out_type != r->carrier) {
        r->cpu->convert(r->out_type, r->carrier, n, out, stride, src, r->size);
        return;
    }
    /* The low bytes of an integer are its wrapped value. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    src += r->size - (int64_t)size;
#endif
    mylib_copy_strided(size, n, out, stride, src, r->size);
}

void mylib_reducer_end_task(const mylib_reducer *r, int64_t g, int64_t output, char *out,
                            int64_t stride, const char *src, int64_t n)
{
    if (r->groups == 1)
        mylib_reducer_store(r, out, stride, src, n);
    else
        memcpy(r->partial + (g * r->outputs + output) * r->size, src, (size_t)(n * r->size));
}

#define TAKE_FIRST(s) \
    static void take_first_##s(int64_t n, char *value, const char *terms) \
    { \
        t_##s v, x; \
        memcpy(&v, value, sizeof v); \
        const int is_nan = v.re != v.re || v.im != v.im; \
        if (!is_nan && v.re != 0 && v.im != 0) \
            return; \
        for (; n > 0; n--, terms += sizeof x) { \
            memcpy(&x, terms, sizeof x); \
            if (is_nan ? x.re != x.re || x.im != x.im : x.re == v.re && x.im == v.im) { \
                memcpy(value, terms, sizeof v); \
                return; \
            } \
        } \
    }
TAKE_FIRST(c64)
TAKE_FIRST(c128)

void mylib_take_first(const mylib_reducer *r, int64_t n, char *value, const char *terms)
{
    const int flags = mylib_test_flags(); /* comparing a signaling NaN raises one */
    (r->carrier == MYLIB_C64 ? take_first_c64 : take_first_c128)(n, value, terms);
    mylib_restore_flags(flags);
}
