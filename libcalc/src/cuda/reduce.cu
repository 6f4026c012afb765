/*
 * reduce.cu - reductions of GPU memory, in the order of mylib.h: combines partial results, and
 * picks the kernel.
 *
 * Values are carried in one of six types (reduce_values.cuh).  Each kernel has a file:
 *
 * - tiles: many outputs of few terms in a small piece of memory, contiguous or not;
 * - integers: along runs or across outputs; their order does not matter;
 * - rows: one run of terms, or long ones; a warp reduces a block of MYLIB_BLOCK_TERMS;
 * - lanes: terms of any type and strides; each thread of a thread block is a lane;
 * - columns: many adjacent outputs; a thread walks the tree over the lanes depth first, which keeps
 *   few values alive;
 * - transposed: neighbours in memory are terms of one output that are far apart in their order.
 *
 * A warp or thread block reduces an aligned group of 2^k blocks: a whole subtree of the pairwise
 * tree over the blocks.  A second launch combines the groups of an output; a few groups of lanes
 * are combined within a cluster of thread blocks, on GPUs that have clusters (clusters.cuh).
 */
#include <type_traits>
#include "reduce_columns.cuh"
#include "reduce_rows.cuh"
#include "reduce_tiles.cuh"
#include "reduce_transposed.cuh"

namespace
{

/* ---- Partial results ---- */

/*
 * Combines the parts of each output pairwise.  The threads of a thread block cover 2^width_bits
 * adjacent outputs, times aligned groups of args.group parts; each thread combines one group, some
 * parts at a time.  Several rows of thread blocks leave as many parts.
 */
template <typename F, typename C>
__global__ void __launch_bounds__(THREADS) combine_kernel(const __grid_constant__ reduce_args args)
{
    wait_for_previous();
    const F f(args.reduction);
    constexpr int SOME = 8;
    alignas(16) __shared__ unsigned char storage[THREADS * sizeof(C)];
    C *room = (C *)storage, level[MAX_LEVELS], value = C();
    int width = 1 << args.width_bits, groups = THREADS >> args.width_bits;
    int column = threadIdx.x & (width - 1), g = threadIdx.x >> args.width_bits;
    int64_t wanted = (int64_t)blockIdx.x * width + column;
    uint32_t output = (uint32_t)(wanted < args.outputs ? wanted : args.outputs - 1);
    const int64_t before = blockIdx.y * groups * args.group;
    int begin = g * (int)args.group, parts = (int)(args.parts - before);
    int end = begin + args.group < parts ? begin + (int)args.group : parts;
    const C *partial = (const C *)args.partial + output + (before + begin) * args.outputs;

#pragma unroll 1
    for (int i = begin; i < end; i += SOME) {
        C x[SOME];
#pragma unroll
        for (int j = 0; j < SOME; j++) {
            x[j] = *partial;
            if (i + j + 1 < end)
                partial += args.outputs;
        }
#pragma unroll
        for (int step = 1; step < SOME; step *= 2)
#pragma unroll
            for (int j = 0; j + step < SOME; j += 2 * step)
                if (i + j + step < end)
                    x[j] = f(x[j], x[j + step]);
        if (end - begin <= SOME)
            value = x[0];
        else
            count_block(f, level, (uint32_t)(i - begin) / SOME, x[0]);
    }
    if (end - begin > SOME)
        value = count_end(f, level, (uint32_t)(end - begin + SOME - 1) / SOME);
    room[threadIdx.x] = value;
#pragma unroll 1
    for (int step = 1; step < groups; step *= 2) {
        __syncthreads();
        if (g % (2 * step) == 0 && (g + step) * (int)args.group < parts)
            room[threadIdx.x] = f(room[threadIdx.x], room[threadIdx.x + step * width]);
    }
    if (g != 0 || wanted >= args.outputs)
        return;
    if (gridDim.y > 1)
        ((C *)args.out)[blockIdx.y * args.outputs + output] = room[threadIdx.x];
    else
        store_output(args, output, room[threadIdx.x]);
}

/* ---- Launches ---- */

typedef void (*reduce_kernel)(reduce_args);

/* Selects the kernel for a reduction carried in C. */
template <int R, typename C> reduce_kernel kernel_as(const reduce_args *args)
{
    constexpr bool IS_INTEGER = class_of<C>::value == SIGNED || class_of<C>::value == UNSIGNED;
    constexpr int W = 16 / sizeof(C);
    constexpr bool IS_COMPLEX = real_of<C>::is_complex;
    typedef std::conditional_t<IS_COMPLEX && R >= MYLIB_MIN, combine_runs, combine_by_call> ANY;
    /* For complex numbers only sums are common enough for a kernel of their own. */
    typedef std::conditional_t<R != MYLIB_SUM && IS_COMPLEX, ANY, combine<R>> F;
    /* Sums and products modulo 2^64 have the same bits for signed and unsigned numbers. */
    constexpr bool IS_MODULAR =
        class_of<C>::value == UNSIGNED && (R == MYLIB_SUM || R == MYLIB_PROD);
    typedef std::conditional_t<IS_MODULAR, t_i64, C> M;
    constexpr int FLIPPED = R == MYLIB_MIN ? MYLIB_MAX : R; /* of integers, and transposed */
    /* Rare: products, and complex reductions that are not sums.  The general kernels take them. */
    constexpr bool HAS_ROWS = !IS_INTEGER && (!IS_COMPLEX || R == MYLIB_SUM);
    constexpr bool HAS_VECTORS = HAS_ROWS && R != MYLIB_PROD && W > 1;
    constexpr bool HAS_MAPPED = class_of<C>::value == FLOAT && (R == MYLIB_SUM || R == MYLIB_MAX);
    constexpr bool HAS_TILES = class_of<C>::value == FLOAT || std::is_same<C, t_i64>::value ||
                               (std::is_same<C, t_c64>::value && R == MYLIB_SUM);
    reduce_kernel kernel = NULL;
    switch (args->way) {
    case MYLIB_REDUCE_SHORT:
        if constexpr (IS_INTEGER)
            kernel = tiles_kernel<combine<FLIPPED>, t_i64, STORED, false>;
        else if constexpr (HAS_ROWS)
            kernel = tiles_kernel<F, C, STORED, false>;
        if constexpr (HAS_MAPPED)
            if (args->op != 0)
                kernel = tiles_kernel<F, C, MAPPED, false>;
        break;
    case MYLIB_REDUCE_TILES:
        if constexpr (HAS_TILES)
            kernel = tiles_kernel<sum_or_extreme, C, STORED, true>;
        break;
    case MYLIB_REDUCE_INTEGERS:
        if constexpr (IS_INTEGER)
            kernel = integers_kernel<FLIPPED, DENSE>;
        if constexpr (IS_INTEGER && R != MYLIB_PROD)
            if (args->is_spaced)
                kernel = args->is_across ? integers_kernel<FLIPPED, SPACED_ACROSS>
                                         : integers_kernel<FLIPPED, SPACED_ALONG>;
        break;
    case MYLIB_REDUCE_ROWS:
        if constexpr (R == MYLIB_SUM && !IS_COMPLEX)
            if (args->inputs == 2)
                kernel = rows_kernel<F, M, M, PRODUCTS>;
        if constexpr (std::is_same<C, t_f32>::value && R != MYLIB_PROD)
            if (args->input_type[0] == MYLIB_F16)
                kernel = rows_kernel<F, C, t_f16, STORED>;
        if constexpr (HAS_ROWS)
            if (kernel == NULL)
                kernel = rows_kernel<F, C, C, STORED>;
        if constexpr (HAS_MAPPED)
            if (args->op != 0)
                kernel = rows_kernel<F, C, C, MAPPED>;
        break;
    case MYLIB_REDUCE_LANES:
        kernel = lanes_kernel<ANY, C>;
        break;
    case MYLIB_REDUCE_COLUMNS:
        if constexpr (!IN_RUNS<ANY>)
            kernel = columns_kernel<ANY, C, 1>;
        if constexpr (HAS_VECTORS)
            if (args->width != 1)
                kernel = columns_kernel<F, C, W>;
        break;
    case MYLIB_REDUCE_TRANSPOSED:
        if constexpr (class_of<C>::value == FLOAT && R != MYLIB_PROD)
            kernel = transposed_kernel<combine<FLIPPED>, C>;
        break;
    case MYLIB_REDUCE_PARTS:
        kernel = combine_kernel<combine_by_call, C>;
        break;
    }
    return kernel;
}

reduce_kernel kernel_of(const reduce_args *args)
{
    return with_type(args->computed, (reduce_kernel)NULL, [=](auto type) {
        typedef TYPE_OF(type) C;
        if constexpr (class_of<C>::value == FLOAT || real_of<C>::is_complex ||
                      number_of<C>::value == MYLIB_I64 || number_of<C>::value == MYLIB_U64)
            return with_reduction((int)args->reduction, [=](auto known) {
                return kernel_as<decltype(known)::REDUCTION, C>(args);
            });
        else
            return (reduce_kernel)NULL;
    });
}

} // namespace

cudaError_t mylib_launch_reduce(const mylib_reduce_args *args, cudaStream_t stream)
{
    reduce_kernel kernel = kernel_of(args);
    void *parameters[] = {(void *)args};
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    if (kernel == NULL)
        return cudaErrorInvalidValue;
    config.gridDim = dim3((unsigned)args->grid, (unsigned)args->grid_rows);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = attributes;
    if (args->cluster_bits != 0) {
        cudaLaunchAttribute *cluster = &attributes[config.numAttrs++];
        cluster->id = cudaLaunchAttributeClusterDimension;
        cluster->val.clusterDim.x = 1u << args->cluster_bits;
        cluster->val.clusterDim.y = cluster->val.clusterDim.z = 1;
    }
#if HAS_EARLY_LAUNCH
    if (is_early((const void *)kernel))
        launch_early(&attributes[config.numAttrs++]);
#endif
    return cudaLaunchKernelExC(&config, (const void *)kernel, parameters);
}

cudaError_t mylib_reduce_max_cluster(int *blocks_ret)
{
    /* Ask the kernel that uses most resources; all are compiled for the same architectures. */
    const void *kernel = (const void *)lanes_kernel<combine_by_call, t_c128>;
    cudaFuncAttributes attributes;
    cudaLaunchConfig_t config = {};
    *blocks_ret = 1;
    cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    /* Code for older GPUs, which newer GPUs may run too, has no clusters. */
    if (!HAS_CLUSTERS || error != cudaSuccess || attributes.ptxVersion < 90)
        return error;
    config.gridDim = dim3(MYLIB_MAX_CLUSTER);
    config.blockDim = dim3(THREADS);
    return cudaOccupancyMaxPotentialClusterSize(blocks_ret, kernel, &config);
}
