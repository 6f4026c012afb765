/*
 * memory.c - GPU memory: the pool, the ledger of allocations, pinned memory, copies of bytes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"
#ifdef MYLIB_CUDA_FUSED
#include "fused.h"
#endif

/* ---- The ledger of allocations ---- */

/*
 * The live allocations of mylib_alloc() by address: a hash table with linear probing.  It detects a
 * second free, and tells the GPU of our own arrays without a slow query to the driver.
 */
typedef struct allocation {
    void *ptr; /* NULL: an empty entry */
    size_t nbytes;
    int device;
} allocation;

static pthread_mutex_t ledger_lock = PTHREAD_MUTEX_INITIALIZER;
static allocation *ledger;
static size_t ledger_places, ledger_used; /* places: a power of two, or 0 */

/* The entry at which the search for an address, a multiple of 256, begins. */
static size_t ledger_home(const void *ptr)
{
    return (size_t)(((uint64_t)(uintptr_t)ptr >> 8) * 0x9e3779b97f4a7c15u >> 32) &
           (ledger_places - 1);
}

/* Finds the entry of an address, or the empty entry for it; the table must be allocated. */
static allocation *ledger_find(const void *ptr)
{
    size_t i = ledger_home(ptr);
    while (ledger[i].ptr != NULL && ledger[i].ptr != ptr)
        i = (i + 1) & (ledger_places - 1);
    return &ledger[i];
}

static int ledger_add(allocation entry)
{
    int fits = 1;
    pthread_mutex_lock(&ledger_lock);
    if (2 * (ledger_used + 1) > ledger_places) {
        size_t places = ledger_places;
        allocation *old = ledger, *wider = calloc(places != 0 ? 2 * places : 256, sizeof *wider);
        fits = wider != NULL;
        if (fits) {
            ledger = wider;
            ledger_places = places != 0 ? 2 * places : 256;
            for (size_t i = 0; i < places; i++)
                if (old[i].ptr != NULL)
                    *ledger_find(old[i].ptr) = old[i];
            free(old);
        }
    }
    if (fits) {
        *ledger_find(entry.ptr) = entry;
        ledger_used++;
    }
    pthread_mutex_unlock(&ledger_lock);
    return fits;
}

static int ledger_remove(int device, const void *ptr, allocation *entry_ret)
{
    pthread_mutex_lock(&ledger_lock);
    allocation *entry = ledger_places != 0 ? ledger_find(ptr) : NULL;
    int is_there = entry != NULL && entry->ptr != NULL && entry->device == device;
    if (is_there) {
        *entry_ret = *entry;
        ledger_used--;
        /* Close the gap: move entries up, but not before the entry at which their search begins. */
        size_t mask = ledger_places - 1, gap = (size_t)(entry - ledger);
        for (size_t i = (gap + 1) & mask; ledger[i].ptr != NULL; i = (i + 1) & mask) {
            if (((i - ledger_home(ledger[i].ptr)) & mask) >= ((i - gap) & mask)) {
                ledger[gap] = ledger[i];
                gap = i;
            }
        }
        ledger[gap].ptr = NULL;
    }
    pthread_mutex_unlock(&ledger_lock);
    return is_there;
}

/* The caller has the lock. */
static int ledger_owner(const void *ptr)
{
    const allocation *entry = ledger_places != 0 ? ledger_find(ptr) : NULL;
    return entry != NULL && entry->ptr != NULL ? entry->device : -1;
}

int mylib_cuda_owner(const void *ptr)
{
    pthread_mutex_lock(&ledger_lock);
    const int device = ledger_owner(ptr);
    pthread_mutex_unlock(&ledger_lock);
    return device;
}

int mylib_cuda_owns(int device, const mylib_layout *layout, int first)
{
    int owns = 1;
    pthread_mutex_lock(&ledger_lock);
    for (int k = first; k < layout->operands && owns; k++)
        owns = layout->is_host_scalar[k] || ledger_owner(layout->data[k]) == device;
    pthread_mutex_unlock(&ledger_lock);
    return owns;
}

/* ---- Memory ---- */

/* Each GPU has a pool of our own, which keeps freed memory until it is trimmed. */
static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(cudaMemPool_t) pools[MYLIB_CUDA_MAX_DEVICES];

/* Bytes in the ledger, and the limit to them, stored as its complement: 0 means no limit. */
static _Atomic uint64_t used_nbytes[MYLIB_CUDA_MAX_DEVICES];
static _Atomic uint64_t unlimited_nbytes[MYLIB_CUDA_MAX_DEVICES];

static mylib_status make_pool(int device, cudaMemPool_t *pool_ret)
{
    mylib_status st = MYLIB_OK;
    struct cudaMemPoolProps properties;
    uint64_t keep_all = UINT64_MAX;
    cudaMemPool_t pool = NULL;

    pthread_mutex_lock(&pools_lock);
    *pool_ret = atomic_load(&pools[device]);
    if (*pool_ret == NULL) {
        memset(&properties, 0, sizeof properties);
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location.type = cudaMemLocationTypeDevice;
        properties.location.id = device;
        CUDA_TRY(cudaMemPoolCreate(&pool, &properties));
        CUDA_TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
        atomic_store(&pools[device], pool);
        *pool_ret = pool;
        pool = NULL;
#ifdef MYLIB_CUDA_FUSED
        /* The first allocation waits for the driver anyway, so that no expression has to. */
        mylib_cuda_load_fused();
#endif
    }
out:
    if (pool != NULL)
        CUDA_CLEANUP(cudaMemPoolDestroy(pool));
    pthread_mutex_unlock(&pools_lock);
    return st;
}

static mylib_status pool_of(int device, cudaMemPool_t *pool_ret)
{
    *pool_ret = atomic_load_explicit(&pools[device], memory_order_acquire);
    return *pool_ret != NULL ? MYLIB_OK : make_pool(device, pool_ret);
}

static mylib_status memory_info(int device, mylib_memory_info *info_ret)
{
    size_t free_nbytes, total_nbytes;
    cudaMemPool_t pool = atomic_load(&pools[device]);
    mylib_memory_info info = {.used_nbytes = atomic_load(&used_nbytes[device]),
                              .limit_nbytes = ~atomic_load(&unlimited_nbytes[device])};
    if (pool != NULL)
        CUDA_RETURN_IF_ERROR(
            cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &info.held_nbytes));
    CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&free_nbytes, &total_nbytes));
    info.free_nbytes = free_nbytes;
    info.total_nbytes = total_nbytes;
    *info_ret = info;
    return MYLIB_OK;
}

static mylib_status out_of_memory(int device, size_t nbytes)
{
    mylib_memory_info info;
    char limit[64] = "";
    mylib_begin_cleanup();
    mylib_status st = memory_info(device, &info);
    mylib_end_cleanup();
    if (st != MYLIB_OK)
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "could not allocate %zu bytes on cuda:%d", nbytes,
                          device);
    if (info.limit_nbytes != UINT64_MAX)
        snprintf(limit, sizeof limit, ", with a limit of %llu",
                 (unsigned long long)info.limit_nbytes);
    return mylib_fail(
        MYLIB_ERR_NO_MEMORY,
        "could not allocate %zu bytes on cuda:%d: %llu are in use through this library "
        "(it holds %llu%s), and %llu of the GPU's %llu are free",
        nbytes, device, (unsigned long long)info.used_nbytes, (unsigned long long)info.held_nbytes,
        limit, (unsigned long long)info.free_nbytes, (unsigned long long)info.total_nbytes);
}

/* Adds to the used bytes; returns false if that would exceed the limit. */
static int count_in(int device, size_t nbytes)
{
    uint64_t limit = ~atomic_load_explicit(&unlimited_nbytes[device], memory_order_relaxed);
    uint64_t used = atomic_load_explicit(&used_nbytes[device], memory_order_relaxed);
    do {
        if (nbytes != 0 && (used > limit || nbytes > limit - used))
            return 0;
    } while (!atomic_compare_exchange_weak(&used_nbytes[device], &used, used + nbytes));
    return 1;
}

static void count_out(int device, size_t nbytes) { atomic_fetch_sub(&used_nbytes[device], nbytes); }

/*
 * Spare memory: small blocks that were freed on the default stream.  Later work on that stream runs
 * after everything that used them, so an allocation of the same size there can reuse one.  Other
 * streams have no spares: they may be destroyed before their blocks, or differ between threads.
 */
#define SPARE_PIECES 8 /* of each GPU */
#define SPARE_NBYTES (1 << 20)
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static allocation spare[MYLIB_CUDA_MAX_DEVICES][SPARE_PIECES];

static int may_be_spare(size_t nbytes, const void *stream)
{
    return stream == NULL && nbytes <= SPARE_NBYTES && !mylib_cuda_is_lost();
}

static void *take_spare(int device, size_t nbytes)
{
    void *ptr = NULL;
    pthread_mutex_lock(&spare_lock);
    for (allocation *s = spare[device]; s < spare[device] + SPARE_PIECES && ptr == NULL; s++) {
        if (s->ptr != NULL && s->nbytes == nbytes) {
            ptr = s->ptr;
            s->ptr = NULL;
        }
    }
    pthread_mutex_unlock(&spare_lock);
    return ptr;
}

static void *make_spare(const allocation *piece)
{
    static unsigned turn;
    allocation *place = NULL;
    pthread_mutex_lock(&spare_lock);
    for (int i = 0; i < SPARE_PIECES && place == NULL; i++)
        if (spare[piece->device][i].ptr == NULL)
            place = &spare[piece->device][i];
    if (place == NULL)
        place = &spare[piece->device][turn++ % SPARE_PIECES];
    void *old = place->ptr;
    *place = *piece;
    pthread_mutex_unlock(&spare_lock);
    return old;
}

/* Frees the spare blocks of the current device; returns true if there were any. */
static int free_spare(int device)
{
    allocation found[SPARE_PIECES];
    int count = 0;
    pthread_mutex_lock(&spare_lock);
    memcpy(found, spare[device], sizeof found);
    memset(spare[device], 0, sizeof found);
    pthread_mutex_unlock(&spare_lock);
    for (int i = 0; i < SPARE_PIECES; i++)
        if (found[i].ptr != NULL && cudaFreeAsync(found[i].ptr, NULL) == cudaSuccess)
            count++;
    (void)cudaGetLastError();
    return count != 0;
}

mylib_status mylib_cuda_alloc(int device, size_t nbytes, void *stream, void **ptr_ret)
{
    int is_counted = 0;
    mylib_status st;
    cudaMemPool_t pool = NULL;
    void *ptr = NULL;
    size_t room = nbytes != 0 ? nbytes : 1;

    ENTER_DEVICE(device);
    MYLIB_TRY(pool_of(device, &pool));
    is_counted = count_in(device, nbytes);
    if (!is_counted)
        MYLIB_TRY(out_of_memory(device, nbytes));
    if (may_be_spare(nbytes, stream))
        ptr = take_spare(device, nbytes);
    cudaError_t error =
        ptr != NULL ? cudaSuccess : cudaMallocFromPoolAsync(&ptr, room, pool, stream);
    if (error == cudaErrorMemoryAllocation) {
        /* Freed memory may still wait for streams that have not reached the free. */
        (void)cudaGetLastError();
        (void)free_spare(device);
        CUDA_TRY(cudaDeviceSynchronize());
        CUDA_TRY(cudaMemPoolTrimTo(pool, 0));
        error = cudaMallocFromPoolAsync(&ptr, room, pool, stream);
    }
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        count_out(device, nbytes); /* before the message states the used bytes */
        is_counted = 0;
        MYLIB_TRY(out_of_memory(device, nbytes));
    }
    CUDA_TRY(error);
    if (!ledger_add((allocation){ptr, nbytes, device})) {
        CUDA_CLEANUP(cudaFreeAsync(ptr, stream));
        MYLIB_TRY(mylib_fail(MYLIB_ERR_NO_MEMORY, "the host has no memory left to note an "
                                                  "allocation on a GPU"));
    }
    *ptr_ret = ptr;
out:
    if (st != MYLIB_OK && is_counted)
        count_out(device, nbytes);
    return st;
}

mylib_status mylib_cuda_free(int device, void *ptr, void *stream)
{
    allocation entry;
    mylib_status st = MYLIB_OK;
    ENTER_DEVICE(device);
    /* Remove it from the ledger first: once freed, another thread may get the address. */
    if (!ledger_remove(device, ptr, &entry))
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%p is not memory that mylib_alloc() gave on cuda:%d, or it was freed "
                          "before",
                          ptr, device);
    if (may_be_spare(entry.nbytes, stream)) {
        ptr = make_spare(&entry);
        if (ptr != NULL) /* a replaced spare: its owner freed it long ago, so ignore failures */
            CUDA_CLEANUP(cudaFreeAsync(ptr, NULL));
        count_out(device, entry.nbytes);
        return MYLIB_OK;
    }
    cudaError_t error = cudaFreeAsync(ptr, stream);
    /* At exit the runtime may unload before the last arrays are freed; ignore that. */
    if (error != cudaErrorCudartUnloading)
        st = mylib_from_cuda(error, "cudaFreeAsync(ptr, stream)", __FILE__, __LINE__);
    if (st == MYLIB_OK)
        count_out(device, entry.nbytes);
    else
        (void)ledger_add(entry);
    return st;
}

void mylib_cuda_discard(int device, void *ptr, void *stream)
{
    if (ptr == NULL)
        return;
    mylib_begin_cleanup();
    if (mylib_cuda_free(device, ptr, stream) != MYLIB_OK) /* retry once: nobody else will free it */
        (void)mylib_cuda_free(device, ptr, stream);
    mylib_end_cleanup();
}

mylib_status mylib_pointer_device(const void *ptr, mylib_device *device_ret)
{
    int count, owner;
    struct cudaPointerAttributes attributes;
    RETURN_IF_NULL(device_ret);
    RETURN_IF_ERROR(mylib_cuda_device_count(&count));
    if ((owner = mylib_cuda_owner(ptr)) >= 0) {
        *device_ret = (mylib_device){MYLIB_CUDA, owner};
        return MYLIB_OK;
    }
    CUDA_RETURN_IF_ERROR(cudaPointerGetAttributes(&attributes, ptr));
    if (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged)
        *device_ret = (mylib_device){MYLIB_CUDA, attributes.device};
    else
        *device_ret = (mylib_device){MYLIB_CPU, 0};
    return MYLIB_OK;
}

mylib_status mylib_cuda_memory_info(int index, mylib_memory_info *info_ret)
{
    RETURN_IF_NULL(info_ret);
    ENTER_DEVICE(index);
    return memory_info(index, info_ret);
}

mylib_status mylib_cuda_set_memory_limit(int index, uint64_t limit_nbytes)
{
    mylib_status st = mylib_cuda_check_device(index);
    if (st == MYLIB_OK)
        atomic_store(&unlimited_nbytes[index], ~limit_nbytes);
    return st;
}

mylib_status mylib_alloc_pinned(size_t nbytes, void **ptr_ret)
{
    int count;
    void *ptr = NULL;
    RETURN_IF_NULL(ptr_ret);
    RETURN_IF_ERROR(mylib_cuda_device_count(&count));
    cudaError_t error = cudaHostAlloc(&ptr, nbytes != 0 ? nbytes : 1, cudaHostAllocPortable);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return mylib_fail(MYLIB_ERR_NO_MEMORY, "could not allocate %zu bytes of pinned host memory",
                          nbytes);
    }
    CUDA_RETURN_IF_ERROR(error);
    *ptr_ret = ptr;
    return MYLIB_OK;
}

mylib_status mylib_free_pinned(void *ptr)
{
    int count;
    if (ptr == NULL)
        return MYLIB_OK;
    RETURN_IF_ERROR(mylib_cuda_device_count(&count));
    CUDA_RETURN_IF_ERROR(cudaFreeHost(ptr));
    return MYLIB_OK;
}

mylib_status mylib_cuda_trim_pools(void)
{
    for (int i = 0; i < MYLIB_CUDA_MAX_DEVICES; i++) {
        cudaMemPool_t pool = atomic_load(&pools[i]);
        if (pool == NULL)
            continue;
        ENTER_DEVICE(i);
        if (free_spare(i)) /* trimming reclaims only completed frees */
            RETURN_IF_ERROR(mylib_cuda_synchronize(i, NULL));
        CUDA_RETURN_IF_ERROR(cudaMemPoolTrimTo(pool, 0));
    }
    return MYLIB_OK;
}

/* ---- Copies of bytes ---- */

/* Lets 'peer' access the pool of 'owner', if connected; else copies go through host memory. */
static void share_pool(int owner, int peer)
{
    static atomic_uchar is_done[MYLIB_CUDA_MAX_DEVICES][MYLIB_CUDA_MAX_DEVICES];
    struct cudaMemAccessDesc access;
    cudaMemPool_t pool;
    int can_access = 0;
    if (atomic_load_explicit(&is_done[owner][peer], memory_order_relaxed))
        return;
    mylib_begin_cleanup(); /* copies work without peer access too */
    if (cudaDeviceCanAccessPeer(&can_access, peer, owner) == cudaSuccess && can_access &&
        pool_of(owner, &pool) == MYLIB_OK) {
        access.location.type = cudaMemLocationTypeDevice;
        access.location.id = peer;
        access.flags = cudaMemAccessFlagsProtReadWrite;
        (void)cudaMemPoolSetAccess(pool, &access, 1);
    }
    (void)cudaGetLastError();
    mylib_end_cleanup();
    atomic_store(&is_done[owner][peer], 1);
}

mylib_status mylib_cuda_copy_peer(int dst_device, void *dst, int src_device, const void *src,
                                  size_t nbytes, void *stream)
{
    if (src_device != dst_device)
        RETURN_IF_ERROR(mylib_cuda_check_device(src_device));
    ENTER_DEVICE(dst_device);
    cudaError_t error;
    if (src_device == dst_device) {
        error = cudaMemcpyAsync(dst, src, nbytes, cudaMemcpyDefault, stream);
    } else {
        share_pool(src_device, dst_device);
        share_pool(dst_device, src_device);
        error = cudaMemcpyPeerAsync(dst, dst_device, src, src_device, nbytes, stream);
    }
    return mylib_from_cuda(error, "cudaMemcpyAsync between GPUs", __FILE__, __LINE__);
}
