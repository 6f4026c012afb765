/*
 * strided.cu - single operations over operands of any strides; strided.h assigns elements to
 * threads.
 *
 * Each element type has one kernel.  How it reads an input is a uniform branch, like the switch
 * over opcodes.
 */
#include "interpreter.cuh"
#include "launch.cuh"

namespace
{

template <typename T> struct strided {
    static constexpr int VECTOR = MYLIB_STRIDED_VECTOR(sizeof(T));
    static constexpr int VECTORS = MYLIB_STRIDED_VECTORS(sizeof(T));
    static constexpr int N = VECTOR * VECTORS;
    static constexpr bool HAS_LEADS = sizeof(T) < MYLIB_STRIDED_SHIFTED_BELOW;
    static constexpr uint32_t FULL = (1u << VECTOR) - 1, ALL = ~0u >> (32 - N);

    /* Elements at once in loops that are not unrolled. */
    static constexpr int GATHERED = N < 4 ? N : 4, STAGED = N < 8 ? N : 8;

    /* As many thread blocks on a multiprocessor as its registers allow, with almost no spills. */
    static constexpr int BLOCKS = sizeof(T) <= 4 ? 4 : 3;

    /* Fits a tile of any shape. */
    static constexpr int LEAST = MYLIB_STRIDED_TILE_LEAST(sizeof(T));
    static constexpr int SHARED_NBYTES =
        THREADS * N / LEAST * MYLIB_STRIDED_TILE_PITCH(LEAST, sizeof(T));
};

template <typename T> __device__ __forceinline__ void store_element(char *p, T value)
{
    typedef typename bits_of<sizeof(T)>::type bits;
    alignas(16) T copy = value;
    *(bits *)p = *(const bits *)&copy;
}

/* ---- Where a thread's elements are ---- */

template <typename T> struct position {
    typedef strided<T> S;
    int32_t column, row; /* of the first element, before the leads */
    uint32_t leads;      /* 4 bits for each group: columns that precede it */
    uint32_t valid;      /* bit i: element i of the thread exists */

    __device__ __forceinline__ int32_t column_of(const mylib_strided_args &args, int v) const
    {
        const int32_t lead = S::HAS_LEADS ? (int32_t)(leads >> (4 * v) & 15) : 0;
        return column + v * args.walk.column_step[1] - lead;
    }
    __device__ __forceinline__ int32_t row_of(const mylib_strided_args &args, int v) const
    {
        return row + v * args.walk.row_step[1];
    }
    /* Returns the column of element i. */
    __device__ __forceinline__ int32_t column_at(const mylib_strided_args &args, int i) const
    {
        return column_of(args, i / S::VECTOR) + i % S::VECTOR * args.walk.column_step[0];
    }
    __device__ __forceinline__ int32_t row_at(const mylib_strided_args &args, int i) const
    {
        return row_of(args, i / S::VECTOR) + i % S::VECTOR * args.walk.row_step[0];
    }
    __device__ __forceinline__ uint32_t valid_of(int v) const
    {
        return valid >> (v * S::VECTOR) & S::FULL;
    }
};

struct tile {
    int32_t column, row, end_row;
};

__device__ __forceinline__ tile tile_of(const mylib_strided_args &args, int32_t block)
{
    tile t;
    mylib_walk_tile(&args.walk, block, &t.column, &t.row, &t.end_row);
    t.column *= args.walk.tile_columns;
    return t;
}

template <typename T>
__device__ __forceinline__ position<T> position_of(const mylib_strided_args &args)
{
    typedef strided<T> S;
    position<T> at;
    int32_t across, down;
    /* Threads that do not fill another row idle. */
    bool is_idle = !mylib_walk_thread(&args.walk, (int32_t)threadIdx.x, THREADS, &across, &down);
    const tile t = tile_of(args, (int32_t)blockIdx.x);
    at.valid = at.leads = 0;
    at.row = t.row + down;
    at.column = t.column + across * args.column_unit;
    if (args.is_vector) {
#pragma unroll
        for (int v = 0; v < S::VECTORS; v++) {
            int32_t row = at.row_of(args, v);
            if (S::HAS_LEADS && args.has_leads)
                at.leads |= (uint32_t)mylib_strided_lead(&args, S::VECTOR, row) << (4 * v);
            int32_t column = at.column_of(args, v), left = args.columns - column;
            uint32_t valid = left >= S::VECTOR ? S::FULL : left > 0 ? (1u << left) - 1 : 0;
            if (column < 0)
                valid = valid >> -column << -column;
            if (row < t.end_row && !is_idle)
                at.valid |= valid << (v * S::VECTOR);
        }
    } else if (t.column + args.walk.tile_columns <= args.columns &&
               t.row + args.walk.tile_rows <= t.end_row) {
        at.valid = is_idle ? 0 : S::ALL;
    } else {
#pragma unroll
        for (int i = 0; i < S::N; i++) {
            bool is_valid = at.column_at(args, i) < args.columns && at.row_at(args, i) < t.end_row;
            at.valid |= (uint32_t)(is_valid && !is_idle) << i;
        }
    }
    return at;
}

__device__ __forceinline__ char *address_of(const mylib_strided_args &args, int k, int32_t column,
                                            int32_t row)
{
    return args.data[k] + mylib_strided_row(&args, k, row) + column * args.column_stride[k];
}

template <typename T>
__device__ __forceinline__ void find_groups(const mylib_strided_args &args, int k,
                                            const position<T> &at, char *(&p)[strided<T>::VECTORS])
{
    if (args.is_plain) {
        p[0] = args.data[k] + (uint32_t)at.row * args.row_stride[0][k] +
               (uint32_t)at.column * args.column_stride[k];
#pragma unroll
        for (int v = 1; v < strided<T>::VECTORS; v++)
            p[v] = p[v - 1] + args.group_step[k];
        return;
    }
    position<T> here = at; /* nothing that depends on it is kept between operands */
    here.leads = (uint32_t)anew(at.leads);
#pragma unroll
    for (int v = 0; v < strided<T>::VECTORS; v++)
        p[v] = address_of(args, k, here.column_of(args, v), here.row_of(args, v));
}

/* ---- Reading ---- */

/* Moves words down by `by` places in a branch: most warps take the same one, and often none. */
template <int N> __device__ __forceinline__ void move_down(uint32_t (&w)[N], int by)
{
#pragma unroll
    for (int i = 0; i < N - by; i++) {
        w[i] = w[i + by];
        asm volatile("" : "+r"(w[i]));
    }
}

/*
 * Picks a vector out of SPREAD + 1 adjacent ones: every SPREAD-th element of SIZE bytes, from
 * offset `shift` on, which is below 16.
 */
template <int SIZE, int SPREAD>
__device__ __forceinline__ uint4 picked(const uint4 (&from)[SPREAD + 1], uint32_t shift)
{
    constexpr int WORDS = 4 * SPREAD; /* those with elements, once they are shifted */
    uint32_t w[WORDS + 4], out[4];
#pragma unroll
    for (int i = 0; i <= SPREAD; i++) {
        w[4 * i] = from[i].x;
        w[4 * i + 1] = from[i].y;
        w[4 * i + 2] = from[i].z;
        w[4 * i + 3] = from[i].w;
    }
    if (shift & 8)
        move_down(w, 2);
    if (shift & 4)
        move_down(w, 1);
    shift = (shift & 3) * 8;
#pragma unroll
    for (int i = 0; i < WORDS; i++)
        w[i] = __funnelshift_r(w[i], w[i + 1], shift);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t *p = &w[i * SPREAD];
        if constexpr (SPREAD == 1)
            out[i] = w[i];
        else if constexpr (SIZE == 2)
            out[i] = SPREAD == 3 ? __byte_perm(p[0], p[1], 0x7610)
                                 : __byte_perm(p[0], p[SPREAD / 2], 0x5410);
        else if constexpr (SPREAD == 2)
            out[i] = __byte_perm(p[0], p[1], 0x6420);
        else if constexpr (SPREAD == 3)
            out[i] = __byte_perm(__byte_perm(p[0], p[1], 0x0630), p[2], 0x5210);
        else
            out[i] = __byte_perm(__byte_perm(p[0], p[1], 0x0040), __byte_perm(p[2], p[3], 0x0040),
                                 0x5410);
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

/* Reverses the elements of each group. */
template <typename T> __device__ __forceinline__ void reverse_groups(T (&x)[strided<T>::N])
{
    typedef strided<T> S;
#pragma unroll
    for (int i = 0; i < S::N; i++) {
        int j = i / S::VECTOR * S::VECTOR + S::VECTOR - 1 - i % S::VECTOR;
        if (i < j) {
            T value = x[i];
            x[i] = x[j];
            x[j] = value;
        }
    }
}

/*
 * Groups of every SPREAD-th element, from the lowest one on: the aligned vectors that hold them.
 * Vectors that reach beyond the input are not read: such a group is read element by element.
 */
template <int SPREAD, typename T> struct pieces {
    typedef strided<T> S;
    static constexpr int STEP = SPREAD * sizeof(T); /* bytes */
    uint4 from[S::VECTORS][SPREAD + 1];
    uint32_t valid[S::VECTORS]; /* the elements that are read one by one */

    /* Issues all loads before the first use. */
    __device__ __forceinline__ void load(const mylib_strided_args &args, int k,
                                         const position<T> &at, char *const (&p)[S::VECTORS])
    {
#pragma unroll
        for (int v = 0; v < S::VECTORS; v++) {
            valid[v] = (uint32_t)anew(at.valid) >> (v * S::VECTOR) & S::FULL;
            if (args.is_reversed[k - 1])
                valid[v] = __brev(valid[v]) >> (32 - S::VECTOR);
            const int shift = (int)((uintptr_t)p[v] % 16);
            const int begin = shift + (__ffs((int)valid[v]) - 1) * STEP;
            const int end = shift + (31 - __clz((int)valid[v])) * STEP + (int)sizeof(T);
            const char *base = p[v] - shift;
            const bool is_inside = valid[v] != 0 && base + begin >= args.vectors_begin[k - 1] &&
                                   base + end <= args.vectors_end[k - 1];
#pragma unroll
            for (int i = 0; i <= SPREAD; i++) {
                from[v][i] = make_uint4(0, 0, 0, 0);
                if (is_inside && begin < 16 * (i + 1) && end > 16 * i)
                    from[v][i] = *(const uint4 *)(base + 16 * i);
            }
            valid[v] = is_inside ? 0 : valid[v];
        }
    }
    __device__ __forceinline__ void join(const mylib_strided_args &args, int k,
                                         char *const (&p)[S::VECTORS], T (&x)[S::N])
    {
#pragma unroll
        for (int v = 0; v < S::VECTORS; v++)
            *(uint4 *)&x[v * S::VECTOR] =
                picked<sizeof(T), SPREAD>(from[v], (uint32_t)(uintptr_t)p[v] % 16);
#pragma unroll
        for (int v = 0; v < S::VECTORS; v++)
            if (valid[v] != 0)
#pragma unroll
                for (int e = 0; e < S::VECTOR; e++)
                    if (valid[v] >> e & 1)
                        x[v * S::VECTOR + e] = load_element<T>(p[v] + e * STEP);
        if (args.is_reversed[k - 1])
            reverse_groups<T>(x);
    }
};

/* Reads contiguous groups of large elements: whole ones as vectors. */
template <typename T>
__device__ __forceinline__ void
read_vectors(const mylib_strided_args &args, int k, const position<T> &at,
             char *const (&p)[strided<T>::VECTORS], T (&x)[strided<T>::N])
{
    typedef strided<T> S;
    bool is_reversed = args.is_reversed[k - 1];
    if (at.valid == S::ALL) {
#pragma unroll
        for (int v = 0; v < S::VECTORS; v++)
            *(uint4 *)&x[v * S::VECTOR] = *(const uint4 *)p[v];
    } else {
#pragma unroll
        for (int v = 0; v < S::VECTORS; v++) {
            uint32_t valid = at.valid_of(v);
            if (is_reversed)
                valid = __brev(valid) >> (32 - S::VECTOR);
            if (valid == S::FULL)
                *(uint4 *)&x[v * S::VECTOR] = *(const uint4 *)p[v];
#pragma unroll
            for (int e = 0; e < S::VECTOR && valid != S::FULL; e++)
                if (valid >> e & 1)
                    x[v * S::VECTOR + e] = load_element<T>(p[v] + e * sizeof(T));
        }
    }
    if (is_reversed)
        reverse_groups<T>(x);
}

/* Reads groups of small elements, of which the next one is SPREAD places on or back. */
template <int SPREAD, typename T>
__device__ __forceinline__ void
read_pieces(const mylib_strided_args &args, int k, const position<T> &at,
            char *const (&p)[strided<T>::VECTORS], T (&x)[strided<T>::N])
{
    pieces<SPREAD, T> of;
    of.load(args, k, at, p);
    of.join(args, k, p, x);
}
template <typename T>
__device__ __forceinline__ void
read_spread(const mylib_strided_args &args, int k, const position<T> &at,
            char *const (&p)[strided<T>::VECTORS], T (&x)[strided<T>::N])
{
    switch (abs((int)args.column_stride[k]) / (int)sizeof(T)) {
    case 1:
        read_pieces<1>(args, k, at, p, x);
        break;
    case 2:
        read_pieces<2>(args, k, at, p, x);
        break;
    case 3:
        read_pieces<3>(args, k, at, p, x);
        break;
    default:
        read_pieces<4>(args, k, at, p, x);
    }
}

/* Reads all inputs of an operation, with the loads of both in flight. */
template <typename T>
__device__ __forceinline__ void read_early(const mylib_strided_args &args, const position<T> &at,
                                           T (&x)[strided<T>::N], T (&y)[strided<T>::N])
{
    char *p[strided<T>::VECTORS], *q[strided<T>::VECTORS];
    pieces<1, T> first, second;
    find_groups(args, 1, at, p);
    first.load(args, 1, at, p);
    if (args.operands == 2) {
        first.join(args, 1, p, x);
        return;
    }
    find_groups(args, 2, at, q);
    second.load(args, 2, at, q);
    first.join(args, 1, p, x);
    second.join(args, 2, q, y);
}

template <typename T>
__device__ __forceinline__ void
read_elements(const mylib_strided_args &args, int k, const position<T> &at,
              char *const (&p)[strided<T>::VECTORS], T (&x)[strided<T>::N])
{
    typedef strided<T> S;
    int64_t step = args.element_step[k];
    /* Clear x: values that could survive from the last operand would hold registers throughout. */
#pragma unroll
    for (int i = 0; i < S::N; i++)
        x[i] = T();
#pragma unroll
    for (int i = 0; i < S::N; i++)
        if (at.valid >> i & 1)
            x[i] = load_element<T>(p[i / S::VECTOR] + i % S::VECTOR * step);
}

/* Reads groups of equally spaced bools, as 1 or 0. */
template <typename T>
__device__ __forceinline__ void
read_mask(const mylib_strided_args &args, int k, const position<T> &at,
          char *const (&p)[strided<T>::VECTORS], T (&x)[strided<T>::N])
{
    typedef strided<T> S;
    int64_t step = args.element_step[k];
    t_u8 bytes[S::N];
#pragma unroll
    for (int i = 0; i < S::N; i++)
        bytes[i] = at.valid >> i & 1 ? load_element<t_u8>(p[i / S::VECTOR] + i % S::VECTOR * step)
                                     : (t_u8)0;
#pragma unroll
    for (int i = 0; i < S::N; i++)
        x[i] = convert<T>((t_u8)(bytes[i] != 0));
}

template <typename T>
__device__ __forceinline__ void
read_rows(const position<T> &at, char *const (&p)[strided<T>::VECTORS], T (&x)[strided<T>::N])
{
    typedef strided<T> S;
#pragma unroll
    for (int v = 0; v < S::VECTORS; v++) {
        T value = T();
        if (at.valid_of(v) != 0)
            value = load_element<T>(p[v]);
#pragma unroll
        for (int e = 0; e < S::VECTOR; e++)
            x[v * S::VECTOR + e] = value;
    }
}

template <typename T>
__device__ __forceinline__ void read_uniform(const char *p, T (&x)[strided<T>::N])
{
    T value = load_element<T>(p);
#pragma unroll
    for (int i = 0; i < strided<T>::N; i++)
        x[i] = value;
}

/*
 * Position of an element in shared memory: where a thread stores what it loads, and where the
 * element's own thread reads it. `turned`: consecutive threads load the elements of a column of the
 * tile; otherwise each thread loads its own.
 */
template <typename T>
__device__ __forceinline__ T *turned_place(const mylib_strided_args &args, unsigned char *shared,
                                           int32_t column, int32_t row)
{
    return (T *)(shared + row * args.tile_pitch) + column;
}
template <typename T> __device__ __forceinline__ T *own_place(unsigned char *shared, int i)
{
    return (T *)shared + i * THREADS + anew(threadIdx.x);
}

/* Transposes elements that need no conversion. */
template <typename T>
__device__ __forceinline__ void stage(const mylib_strided_args &args, int k, const tile &t,
                                      unsigned char *shared)
{
    typedef strided<T> S;
    constexpr int SOME = S::STAGED;
    const int32_t tid = anew(threadIdx.x), apart = THREADS >> args.tile_bits;
    const int32_t column = tid >> args.tile_bits, row = tid - (column << args.tile_bits);
    int32_t columns = t.row + row < t.end_row ? args.columns - t.column - column : 0;
    const char *p = address_of(args, k, t.column + column, t.row + row);
    int64_t step = apart * args.column_stride[k];
    T *place = turned_place<T>(args, shared, column, row);
    __syncthreads();
#pragma unroll 1
    for (int first = 0; first < S::N; first += SOME) {
        T value[SOME];
#pragma unroll
        for (int i = 0; i < SOME; i++, p += step)
            value[i] = (first + i) * apart < columns ? load_element<T>(p) : T();
#pragma unroll
        for (int i = 0; i < SOME; i++, place += apart)
            *place = value[i];
    }
}

/* Finds places in operand k; overwrites the rows. */
template <int N>
__device__ __forceinline__ void find_places(const mylib_strided_args &args, int k,
                                            const int32_t (&column)[N], int32_t (&row)[N],
                                            char *(&p)[N])
{
    const mylib_walk &w = args.walk;
#pragma unroll
    for (int j = 0; j < N; j++) {
        int32_t from = 0;
        if (args.is_flat) {
            row[j] = mylib_divide(column[j], args.flat_divider);
            from = row[j] * args.flat_columns;
        }
        p[j] = args.data[k] + (column[j] - from) * args.column_stride[k];
    }
#pragma unroll 1
    for (int d = w.row_ndim - 1; d > 0; d--) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int32_t quotient = mylib_divide(row[j], w.row_divider[d]);
            p[j] += (int64_t)(row[j] - quotient * w.row_shape[d]) * args.row_stride[d][k];
            row[j] = quotient;
        }
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        p[j] += (uint32_t)row[j] * args.row_stride[0][k];
}

/*
 * Reads elements that are converted or irregular, SOME at a time: first their loads, then their
 * conversions.  The loop stays rolled because it contains the conversions from all types.
 */
template <typename T>
__device__ __forceinline__ void gather(const mylib_strided_args &args, int k, const position<T> &at,
                                       const tile &t, unsigned char *shared)
{
    typedef strided<T> S;
    constexpr int SOME = S::GATHERED;
    const bool is_turned = args.access[k - 1] == MYLIB_ACCESS_STAGED;
    const int32_t tid = anew(threadIdx.x);
    __syncthreads();
#pragma unroll 1
    for (int first = 0; first < S::N; first += SOME) {
        int32_t column[SOME], row[SOME];
        char *p[SOME];
        T *place[SOME], value[SOME];
        bool valid[SOME];
#pragma unroll
        for (int j = 0; j < SOME; j++) {
            int i = first + j;
            if (is_turned) {
                column[j] = (i * THREADS + tid) >> args.tile_bits;
                row[j] = i * THREADS + tid - (column[j] << args.tile_bits);
                place[j] = turned_place<T>(args, shared, column[j], row[j]);
                row[j] += t.row;
                column[j] += t.column;
                valid[j] = row[j] < t.end_row && column[j] < args.columns;
            } else {
                column[j] = at.column_at(args, i);
                row[j] = at.row_at(args, i);
                place[j] = own_place<T>(shared, i);
                valid[j] = at.valid >> i & 1;
            }
            value[j] = T();
        }
        find_places(args, k, column, row, p);
        with_type(args.statement.operand[k - 1].type, 0, [&](auto s) {
#pragma unroll
            for (int j = 0; j < SOME; j++)
                if (valid[j])
                    value[j] = convert<T>(load_element<TYPE_OF(s)>(p[j]));
            return 0;
        });
#pragma unroll
        for (int j = 0; j < SOME; j++)
            *place[j] = value[j];
    }
}

/* Reads input k into x; all threads of a block call this together. */
template <typename T>
__device__ __forceinline__ void read_strided(const mylib_strided_args &args, int k,
                                             const position<T> &at, unsigned char *shared,
                                             T (&x)[strided<T>::N])
{
    typedef strided<T> S;
    bool is_converted = args.statement.operand[k - 1].type != args.statement.type;
    char *p[S::VECTORS];
    tile t;
    find_groups(args, k, at, p);
    switch (args.access[k - 1]) {
    case MYLIB_ACCESS_VECTOR:
    case MYLIB_ACCESS_SHIFTED:
    case MYLIB_ACCESS_SPREAD:
        if constexpr (S::HAS_LEADS)
            read_spread(args, k, at, p, x);
        else
            read_vectors(args, k, at, p, x);
        break;
    case MYLIB_ACCESS_ROW:
        read_rows(at, p, x);
        break;
    case MYLIB_ACCESS_ELEMENT:
        read_elements(args, k, at, p, x);
        break;
    case MYLIB_ACCESS_MASK:
        read_mask(args, k, at, p, x);
        break;
    case MYLIB_ACCESS_UNIFORM:
        read_uniform(args.data[k], x);
        break;
    case MYLIB_ACCESS_CONSTANT:
        read_uniform((const char *)args.constant[k - 1], x);
        break;
    default:
        t = tile_of(args, anew(blockIdx.x));
        if (!is_converted && args.access[k - 1] == MYLIB_ACCESS_STAGED)
            stage<T>(args, k, t, shared);
        else
            gather(args, k, at, t, shared);
        if (args.access[k - 1] == MYLIB_ACCESS_GATHERED) {
#pragma unroll
            for (int i = 0; i < S::N; i++)
                x[i] = *own_place<T>(shared, i);
            break;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < S::N; i++)
            x[i] = *turned_place<T>(args, shared, at.column_at(args, i) - t.column,
                                    at.row_at(args, i) - t.row);
    }
}

/* ---- Writing ---- */

template <typename R, typename T> __device__ __forceinline__ R result_of(T acc)
{
    if constexpr (sizeof(R) == sizeof(T) || class_of<R>::value == BOOL)
        return convert<R>(acc);
    else
        return acc.re;
}

/* Writes elements from shared memory to irregular places. */
template <typename T>
__device__ __forceinline__ void scatter(const mylib_strided_args &args, const position<T> &at,
                                        unsigned char *shared)
{
    typedef strided<T> S;
    typedef typename real_of<T>::type part;
#pragma unroll 1
    for (int i = 0; i < S::N; i++) {
        const int32_t column[] = {at.column_at(args, i)};
        int32_t row[] = {at.row_at(args, i)};
        char *p[1];
        find_places(args, 0, column, row, p);
        if ((at.valid >> i & 1) == 0)
            continue;
        if (1 << args.out_shift == sizeof(T))
            store_element(p[0], *own_place<T>(shared, i));
        else if (args.out_shift == 0)
            store_element(p[0], *own_place<t_bool>(shared, i));
        else
            store_element(p[0], *own_place<part>(shared, i));
    }
}

/* Writes the valid elements of an aligned group: whole words, and elements of at most two words. */
template <typename R, int N>
__device__ __forceinline__ void write_partial(char *p, uint32_t valid, const R (&group)[N])
{
    constexpr int PACKED = sizeof(R) < 4 ? 4 / sizeof(R) : 1;
    constexpr uint32_t WHOLE = (1u << PACKED) - 1;
#pragma unroll
    for (int e = 0; e < N; e += PACKED) {
        const uint32_t some = valid >> e & WHOLE;
        if (PACKED > 1 && some == WHOLE) {
            uint32_t word;
            memcpy(&word, &group[e], sizeof word);
            *(uint32_t *)(p + e * sizeof(R)) = word;
        } else if (some != 0) {
#pragma unroll
            for (int i = 0; i < PACKED; i++)
                if (some >> i & 1)
                    store_element(p + (e + i) * sizeof(R), group[e + i]);
        }
    }
}

template <typename R, typename T>
__device__ __forceinline__ void write_strided(const mylib_strided_args &args, const position<T> &at,
                                              unsigned char *shared, const T (&acc)[strided<T>::N])
{
    typedef strided<T> S;
    typedef typename bits_of<sizeof(R) * S::VECTOR>::type bits;
    char *p[S::VECTORS];
    find_groups(args, 0, at, p);
    if (args.is_vector) {
#pragma unroll
        for (int v = 0; v < S::VECTORS; v++) {
            alignas(16) R group[S::VECTOR];
            uint32_t valid = at.valid_of(v);
#pragma unroll
            for (int e = 0; e < S::VECTOR; e++)
                group[e] = result_of<R>(acc[v * S::VECTOR + e]);
            if (valid == S::FULL)
                __stcs((bits *)p[v], *(const bits *)group);
            else
                write_partial(p[v], valid, group);
        }
        return;
    }
    if (args.is_regular) {
        int64_t step = args.element_step[0];
#pragma unroll
        for (int i = 0; i < S::N; i++)
            if (at.valid >> i & 1)
                store_element(p[i / S::VECTOR] + i % S::VECTOR * step, result_of<R>(acc[i]));
        return;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < S::N; i++)
        *own_place<R>(shared, i) = result_of<R>(acc[i]);
}

/* ---- The kernel ---- */

template <typename T>
__global__ void __launch_bounds__(THREADS, strided<T>::BLOCKS)
    strided_kernel(const __grid_constant__ mylib_strided_args args)
{
    typedef strided<T> S;
    alignas(16) __shared__ unsigned char shared[S::SHARED_NBYTES];
    alignas(16) T acc[S::N], x[S::N];
    uint32_t mask = 0;
    position<T> at = position_of<T>(args);

    wait_for_previous();
    int j = 0;
    if constexpr (S::HAS_LEADS)
        if (args.is_early) {
            read_early(args, at, acc, x);
            j = 1;
        }
    for (; j < args.steps; j++) {
        bool is_mask = j < args.first;
        if (j < args.statement.operands && !(S::HAS_LEADS && args.is_early))
            read_strided(args, 1 + j, at, shared, x);
        if (is_mask) {
#pragma unroll
            for (int i = 0; i < S::N; i++)
                mask |= (uint32_t)is_nonzero(x[i]) << i;
        } else {
            step<T, S::N, true>(j == args.first ? MYLIB_OPCODE_LOAD : args.statement.opcode, acc, x,
                                mask);
        }
    }

    if (args.statement.result_type == args.statement.type)
        write_strided<T>(args, at, shared, acc);
    else if (args.statement.result_type == MYLIB_BOOL)
        write_strided<t_bool>(args, at, shared, acc);
    else if constexpr (real_of<T>::is_complex)
        write_strided<typename real_of<T>::type>(args, at, shared, acc);
    if (!args.is_vector && !args.is_regular)
        scatter(args, at, shared);
}

/* ---- Between images and planes ---- */

/* Copies a vector of pixels: their channels are adjacent on one side, in planes on the other. */
template <typename T, int CHANNELS>
__global__ void __launch_bounds__(THREADS)
    channels_kernel(const __grid_constant__ mylib_strided_args args)
{
    constexpr int VECTOR = strided<T>::VECTOR;
    const int32_t number = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    wait_for_previous();
    if (number >= args.all_units)
        return;
    const int32_t image = mylib_divide(number, args.walk.across_divider);
    const int64_t unit = number - image * args.units;
    const int32_t row = image * args.walk.row_shape[args.walk.row_ndim - 1];
    char *pixels = args.data[1 - args.planes] + mylib_strided_row(&args, 1 - args.planes, row) +
                   unit * (16 * CHANNELS);
    char *plane = args.data[args.planes] + mylib_strided_row(&args, args.planes, row) + unit * 16;
    alignas(16) T mixed[CHANNELS * VECTOR], apart[CHANNELS][VECTOR];
    if (args.planes == 0) {
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            *(uint4 *)&mixed[c * VECTOR] = *(const uint4 *)(pixels + 16 * c);
#pragma unroll
        for (int i = 0; i < CHANNELS * VECTOR; i++)
            apart[i % CHANNELS][i / CHANNELS] = mixed[i];
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            __stcs((uint4 *)(plane + c * args.plane_step), *(const uint4 *)apart[c]);
    } else {
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            *(uint4 *)apart[c] = *(const uint4 *)(plane + c * args.plane_step);
#pragma unroll
        for (int i = 0; i < CHANNELS * VECTOR; i++)
            mixed[i] = apart[i % CHANNELS][i / CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            *(uint4 *)(pixels + 16 * c) = *(const uint4 *)&mixed[c * VECTOR];
    }
}

template <typename T> const void *channels_kernel_of(int channels)
{
    return channels == 2   ? (const void *)channels_kernel<T, 2>
           : channels == 3 ? (const void *)channels_kernel<T, 3>
                           : (const void *)channels_kernel<T, 4>;
}

} // namespace

cudaError_t mylib_launch_strided(const mylib_strided_args *args, cudaStream_t stream)
{
    const void *kernel = with_type(args->statement.type, (const void *)NULL,
                                   [](auto t) { return (const void *)strided_kernel<TYPE_OF(t)>; });
    if (args->channels != 0)
        kernel = mylib_type_size((mylib_type)args->statement.type) == 1
                     ? channels_kernel_of<t_u8>(args->channels)
                     : channels_kernel_of<t_u16>(args->channels);
    if (kernel == NULL)
        return cudaErrorInvalidValue;
    return launch(kernel, dim3((unsigned)args->walk.tiles), THREADS, args, 0, stream);
}
