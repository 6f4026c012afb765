/*
 * stream.c - host arrays through a GPU.
 *
 * The elements are cut into pieces.  A few worker threads each take the next piece, pack its inputs
 * into a slot of pinned memory, and enqueue on the slot's stream: copy in, kernel, copy out.  While
 * that runs the worker does the same with its other slot; before it uses a slot again it unpacks
 * the results.  So the threads' copies, the bus in both directions and the kernels overlap, and
 * memory stays bounded whatever the size of the arrays.  Operands that are pinned and contiguous
 * already skip the packing.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_internal.h"

#include "../flags.h"

#define MAX_DEVICES 64
#define MAX_WORKERS 32
#define SLOTS_PER_WORKER 2

/* Defaults that ran best on an H200 with 16 host threads; the environment overrides them. */
#define DEFAULT_WORKERS 12
#define DEFAULT_SLOT_KIB 6144
#define LEAST_SLOT_KIB 64 /* a slot holds more than the gaps between its operands */

/*
 * Below this much traffic the GPU reads and writes the pinned memory itself: one launch, no copies.
 */
#define ZERO_COPY_NBYTES (64 * 1024)

/* From this size on results are unpacked past the cache. */
#define BYPASS_NBYTES (256 * 1024)

#define ALIGNMENT 256

typedef struct slot {
    char *pinned, *device;
    unsigned *flags; /* MYLIB_FLAG_* of the call, in pinned memory */
    cudaStream_t stream;
    int64_t begin, n; /* the piece in flight; n is 0 when there is none */
} slot;

/* The slots of one GPU, made at its first use and kept; one call uses them at a time. */
typedef struct ring {
    pthread_mutex_t lock;
    int slots;
    size_t slot_nbytes;
    char *pinned, *device;
    slot slot[MAX_WORKERS * SLOTS_PER_WORKER];
} ring;

static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static ring *rings[MAX_DEVICES];

/* A number from the environment, or the default where it is absent or out of range. */
static long setting(const char *name, long otherwise, long least, long most)
{
    const char *text = getenv(name);
    long value = text != NULL ? strtol(text, NULL, 10) : 0;
    return value >= least && value <= most ? value : otherwise;
}

static int worker_count(void)
{
    int threads = mylib_cpu_threads();
    int most = (int)setting("MYLIB_STREAM_THREADS", DEFAULT_WORKERS, 1, MAX_WORKERS);
    return threads < most ? threads : most;
}

static void ring_release(ring *r)
{
    for (int i = 0; i < r->slots; i++)
        if (r->slot[i].stream != NULL)
            (void)cudaStreamDestroy(r->slot[i].stream);
    if (r->pinned != NULL)
        (void)cudaFreeHost(r->pinned);
    if (r->device != NULL)
        (void)cudaFree(r->device);
    r->slots = 0;
    r->pinned = r->device = NULL;
    memset(r->slot, 0, sizeof r->slot);
}

/* Makes or grows the slots of the current device; the ring is locked. */
static mylib_status ring_reserve(ring *r, int slots)
{
    mylib_status st = MYLIB_OK;
    if (r->slots >= slots)
        return st;
    ring_release(r);
    r->slot_nbytes =
        (size_t)setting("MYLIB_STREAM_SLOT_KIB", DEFAULT_SLOT_KIB, LEAST_SLOT_KIB, 1 << 20) * 1024;
    size_t nbytes = r->slot_nbytes * (size_t)slots;
    size_t flags_nbytes = (size_t)slots * sizeof(unsigned);
    cudaError_t error = cudaHostAlloc((void **)&r->pinned, nbytes + flags_nbytes,
                                      cudaHostAllocPortable | cudaHostAllocMapped);
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&r->device, nbytes);
    if (error == cudaErrorMemoryAllocation) {
        int on_host = r->pinned == NULL;
        (void)cudaGetLastError();
        MYLIB_TRY(mylib_fail(MYLIB_ERR_NO_MEMORY,
                             "could not allocate %zu bytes of %s memory for staging", nbytes,
                             on_host ? "pinned host" : "GPU"));
    }
    CUDA_TRY(error);
    for (r->slots = 0; r->slots < slots; r->slots++) {
        slot *s = &r->slot[r->slots];
        s->pinned = r->pinned + r->slot_nbytes * (size_t)r->slots;
        s->flags = (unsigned *)(r->pinned + r->slot_nbytes * (size_t)slots) + r->slots;
        s->device = r->device + r->slot_nbytes * (size_t)r->slots;
        CUDA_TRY(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    }
out:
    if (st != MYLIB_OK)
        ring_release(r);
    return st;
}

static mylib_status ring_of(int device, ring **ring_ret)
{
    mylib_status st = MYLIB_OK;
    if (device >= MAX_DEVICES)
        return mylib_fail(MYLIB_ERR_UNSUPPORTED, "cuda:%d: at most %d GPUs are supported", device,
                          MAX_DEVICES);
    pthread_mutex_lock(&rings_lock);
    if (rings[device] == NULL) {
        ring *r = calloc(1, sizeof *r);
        if (r == NULL)
            st = mylib_fail(MYLIB_ERR_NO_MEMORY, "could not allocate %zu bytes of host memory",
                            sizeof *r);
        else
            pthread_mutex_init(&r->lock, NULL);
        rings[device] = r;
    }
    *ring_ret = rings[device];
    pthread_mutex_unlock(&rings_lock);
    return st;
}

void mylib_stream_free_cached(void)
{
    for (int i = 0; i < MAX_DEVICES; i++) {
        pthread_mutex_lock(&rings_lock);
        ring *r = rings[i];
        pthread_mutex_unlock(&rings_lock);
        if (r != NULL) {
            pthread_mutex_lock(&r->lock);
            ring_release(r);
            pthread_mutex_unlock(&r->lock);
        }
    }
}

/* ---- One call ------------------------------------------------------------------------------ */

typedef enum route {
    CONSTANT, /* one value for all elements: goes with the kernel's arguments */
    IN_PLACE, /* contiguous pinned memory: copied to the GPU from where it is */
    STAGED    /* packed into the slot */
} route;

typedef struct job {
    const mylib_program *program;
    const mylib_layout *layout;
    route route[MYLIB_MAX_OPERANDS];
    int is_contiguous[MYLIB_MAX_OPERANDS];
    size_t offset[MYLIB_MAX_OPERANDS]; /* of the operand in a slot */
    int64_t piece;                     /* elements */
    int zero_copy;
    int can_raise; /* floating-point flags */
    mylib_flat_args args;
    int device;
    _Atomic int64_t next;
    atomic_int failed;
    pthread_mutex_t lock; /* of what follows */
    mylib_status st;
    char message[MYLIB_MESSAGE_SIZE];
} job;

/* Whether the operand is contiguous in the layout's order. */
static int is_contiguous(const mylib_layout *l, int k, size_t size)
{
    int64_t stride = (int64_t)size;
    for (int d = l->ndim - 1; d >= 0; d--) {
        if (l->shape[d] != 1 && l->strides[k][d] != stride)
            return 0;
        stride *= l->shape[d];
    }
    return 1;
}

static int is_constant(const mylib_layout *l, int k)
{
    for (int d = 0; d < l->ndim; d++)
        if (l->strides[k][d] != 0)
            return 0;
    return 1;
}

static int is_pinned(const char *begin, const char *end)
{
    struct cudaPointerAttributes first, last;
    int pinned = cudaPointerGetAttributes(&first, begin) == cudaSuccess &&
                 cudaPointerGetAttributes(&last, end - 1) == cudaSuccess &&
                 first.type == cudaMemoryTypeHost && last.type == cudaMemoryTypeHost;
    (void)cudaGetLastError();
    return pinned;
}

/* Packs elements [begin, begin + n) of operand k into `packed`, or unpacks them from it. */
static void move_piece(const job *j, int k, int64_t begin, int64_t n, char *packed, int unpack)
{
    const mylib_layout *l = j->layout;
    size_t size = mylib_operand_size(j->program, k);
    if (j->is_contiguous[k]) {
        char *at = l->data[k] + begin * (int64_t)size;
        /* The GPU reads what is packed from the cache; what is unpacked has left this call. */
        if (unpack && (size_t)n * size >= BYPASS_NBYTES) {
            mylib_cpu()->stream_copy(at, packed, (size_t)n * size);
            mylib_cpu()->stream_fence();
        } else {
            memcpy(unpack ? at : packed, unpack ? packed : at, (size_t)n * size);
        }
        return;
    }
    int inner = l->ndim - 1;
    int64_t index[MYLIB_MAX_NDIM], rest = begin, stride = l->strides[k][inner];
    char *row = l->data[k];
    for (int d = inner; d >= 0; d--) {
        index[d] = rest % l->shape[d];
        rest /= l->shape[d];
        if (d != inner)
            row += index[d] * l->strides[k][d];
    }
    while (n > 0) {
        int64_t m = l->shape[inner] - index[inner];
        char *at = row + index[inner] * stride;
        m = m < n ? m : n;
        if (unpack)
            mylib_copy_strided(size, m, at, stride, packed, (int64_t)size);
        else
            mylib_copy_strided(size, m, packed, (int64_t)size, at, stride);
        packed += m * (int64_t)size;
        n -= m;
        index[inner] = 0;
        for (int d = inner - 1; d >= 0; d--) {
            int wraps = ++index[d] == l->shape[d];
            row += l->strides[k][d] * (wraps ? 1 - l->shape[d] : 1);
            if (!wraps)
                break;
            index[d] = 0;
        }
    }
}

static mylib_status enqueue(const job *j, slot *s, int64_t begin, int64_t n)
{
    mylib_status st = MYLIB_OK;
    mylib_flat_args args = j->args;
    const mylib_layout *l = j->layout;
    char *base = j->zero_copy ? s->pinned : s->device;

    args.n = n;
    for (int k = 1; k < l->operands; k++) {
        size_t nbytes = (size_t)n * mylib_operand_size(j->program, k);
        if (j->route[k] == CONSTANT)
            continue;
        args.in[k - 1] = base + j->offset[k];
        if (j->route[k] == STAGED)
            move_piece(j, k, begin, n, s->pinned + j->offset[k], 0);
        if (!j->zero_copy)
            CUDA_TRY(cudaMemcpyAsync(s->device + j->offset[k],
                                     j->route[k] == STAGED
                                         ? s->pinned + j->offset[k]
                                         : l->data[k] + (int64_t)nbytes / n * begin,
                                     nbytes, cudaMemcpyHostToDevice, s->stream));
    }
    args.out = base + j->offset[0];
    CUDA_TRY(mylib_launch_flat(&args, s->stream));
    if (j->can_raise)
        CUDA_TRY(mylib_launch_flags(&args, s->flags, s->stream));
    if (!j->zero_copy) {
        size_t size = mylib_operand_size(j->program, 0);
        CUDA_TRY(cudaMemcpyAsync(
            j->route[0] == STAGED ? s->pinned + j->offset[0] : l->data[0] + (int64_t)size * begin,
            s->device + j->offset[0], (size_t)n * size, cudaMemcpyDeviceToHost, s->stream));
    }
    s->begin = begin;
    s->n = n;
out:
    return st;
}

/* Waits for the piece in flight and unpacks its results. */
static mylib_status finish(const job *j, slot *s)
{
    mylib_status st = MYLIB_OK;
    int64_t n = s->n;
    s->n = 0;
    if (n == 0)
        return st;
    CUDA_TRY(cudaStreamSynchronize(s->stream));
    if (j->route[0] == STAGED)
        move_piece(j, 0, s->begin, n, s->pinned + j->offset[0], 1);
out:
    return st;
}

static void work(job *j, slot *slots)
{
    int previous = -1, turn = 0;
    mylib_status st = mylib_cuda_enter(j->device, &previous);
    if (st == MYLIB_OK) {
        while (!atomic_load(&j->failed)) {
            slot *s = &slots[turn];
            turn = (turn + 1) % SLOTS_PER_WORKER;
            MYLIB_TRY(finish(j, s));
            int64_t begin = atomic_fetch_add(&j->next, j->piece), left = j->layout->count - begin;
            if (left <= 0)
                break;
            MYLIB_TRY(enqueue(j, s, begin, left < j->piece ? left : j->piece));
        }
        for (int i = 0; i < SLOTS_PER_WORKER; i++)
            MYLIB_TRY(finish(j, &slots[i]));
    }
out:
    if (st != MYLIB_OK) {
        /* The message is this thread's; the caller needs it. */
        pthread_mutex_lock(&j->lock);
        if (!atomic_exchange(&j->failed, 1)) {
            j->st = st;
            snprintf(j->message, sizeof j->message, "%s", mylib_last_message());
        }
        pthread_mutex_unlock(&j->lock);
        /* Nothing may still run on the caller's memory, or in the slots, when this returns. */
        for (int i = 0; i < SLOTS_PER_WORKER; i++) {
            (void)cudaStreamSynchronize(slots[i].stream);
            slots[i].n = 0;
        }
        (void)cudaGetLastError();
    }
    mylib_cuda_leave(previous);
}

/* Whether an operation can raise a floating-point flag at all. */
static int can_raise(const mylib_program *program)
{
    int op = program->code[1].opcode, is_integer = program->type < MYLIB_F16;
    switch (op) {
    case MYLIB_OP_divide:
    case MYLIB_OP_floor_divide:
    case MYLIB_OP_remainder:
        return 1;
    case MYLIB_OP_minimum:
    case MYLIB_OP_maximum:
    case MYLIB_OP_negative:
        return 0;
    default:
        return !is_integer;
    }
}

/* Decides the way of each operand and the size of the pieces. */
static void plan(job *j, size_t slot_nbytes, int workers)
{
    const mylib_layout *l = j->layout;
    size_t element_nbytes = 0;
    int pinned = 0;

    j->args.program = *j->program;
    j->can_raise = can_raise(j->program);
    j->args.out_is_aligned = 1;
    for (int k = 0; k < l->operands; k++) {
        size_t size = mylib_operand_size(j->program, k);
        const char *begin, *end;
        mylib_layout_extent(l, k, size, &begin, &end);
        j->is_contiguous[k] = is_contiguous(l, k, size);
        j->route[k] = STAGED;
        if (k > 0 && is_constant(l, k)) {
            j->route[k] = CONSTANT;
            j->args.read[k - 1] = MYLIB_READ_CONSTANT;
            memcpy(j->args.constant[k - 1], l->data[k], size);
            continue;
        }
        if (k > 0)
            j->args.read[k - 1] = MYLIB_READ_VECTOR;
        if (j->is_contiguous[k] && is_pinned(begin, end)) {
            j->route[k] = IN_PLACE;
            pinned++;
        }
        element_nbytes += size;
    }

    int64_t most = (int64_t)((slot_nbytes - ALIGNMENT * MYLIB_MAX_OPERANDS) / element_nbytes);
    /* At least a few pieces for each worker, so that copies overlap in short calls too. */
    int64_t wanted = l->count / (workers * 2 * SLOTS_PER_WORKER) + 1;
    int64_t least = 64 * 1024;
    j->piece = wanted < least ? least : wanted;
    j->piece = j->piece < most ? j->piece : most;
    j->zero_copy = pinned == 0 && l->count <= j->piece &&
                   (size_t)l->count * element_nbytes <= ZERO_COPY_NBYTES;

    size_t offset = 0;
    int64_t n = j->piece < l->count ? j->piece : l->count;
    for (int k = 0; k < l->operands; k++) {
        j->offset[k] = offset;
        if (j->route[k] != CONSTANT)
            offset += ((size_t)n * mylib_operand_size(j->program, k) + ALIGNMENT - 1) / ALIGNMENT *
                      ALIGNMENT;
    }
}

mylib_status mylib_cuda_map_host(int device, const mylib_program *program, mylib_layout *layout)
{
    int previous, workers = worker_count();
    ring *r;
    job j;
    mylib_status st = mylib_cuda_enter(device, &previous);
    if (st != MYLIB_OK)
        return st;
    if (layout->count == 0)
        goto leave;
    if ((st = ring_of(device, &r)) != MYLIB_OK)
        goto leave;

    pthread_mutex_lock(&r->lock);
    MYLIB_TRY(ring_reserve(r, workers * SLOTS_PER_WORKER));
    memset(&j, 0, sizeof j);
    j.program = program;
    j.layout = layout;
    j.device = device;
    pthread_mutex_init(&j.lock, NULL);
    plan(&j, r->slot_nbytes, workers);
    for (int i = 0; i < r->slots; i++)
        *r->slot[i].flags = 0;
    int64_t pieces = (layout->count + j.piece - 1) / j.piece;
    if (pieces < workers)
        workers = (int)pieces;
    if (workers == 1) {
        work(&j, r->slot);
    } else {
#ifdef _OPENMP
#pragma omp parallel for num_threads(workers) schedule(static, 1)
#endif
        for (int w = 0; w < workers; w++)
            work(&j, &r->slot[w * SLOTS_PER_WORKER]);
    }
    pthread_mutex_destroy(&j.lock);
    if (j.st != MYLIB_OK) {
        st = mylib_fail(j.st, "%s", j.message);
        goto out;
    }
    unsigned flags = 0;
    for (int i = 0; i < r->slots; i++)
        flags |= *r->slot[i].flags;
    mylib_raise_flags((flags & MYLIB_FLAG_INVALID ? FE_INVALID : 0) |
                      (flags & MYLIB_FLAG_DIVBYZERO ? FE_DIVBYZERO : 0) |
                      (flags & MYLIB_FLAG_OVERFLOW ? FE_OVERFLOW : 0));
out:
    pthread_mutex_unlock(&r->lock);
leave:
    mylib_cuda_leave(previous);
    return st;
}
