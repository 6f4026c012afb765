/*
 * host.c - computes with host arrays on a GPU, and copies between host and GPU, through rings of
 * pinned memory (docs/design/calls.md).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../warnings.h"
#include "cuda_internal.h"

#include "../counting.h"
#include "../flags.h"

#define MAX_WORKERS 32
#define SLOTS_PER_WORKER 2

/* The fastest settings on an H200 with 16 host threads; the environment overrides them. */
#define DEFAULT_WORKERS 12
#define DEFAULT_SLOT_KIB 6144
#define LEAST_SLOT_KIB 64 /* a slot holds more than the gaps between its operands */

/* Below this traffic the GPU reads and writes the pinned memory itself: one launch, no copies. */
#define ZERO_COPY_NBYTES (64 * 1024)

/* From this traffic on, a call for MYLIB_ALL_GPUS uses all GPUs. */
#ifndef ALL_GPUS_NBYTES
#define ALL_GPUS_NBYTES (32 << 20)
#endif

/* Copies up to this size go through one small pinned buffer; see copy_small(). */
#define SMALL_NBYTES (64 * 1024)

/* Below this size, copying to a pinned buffer is faster than asking whether memory is pinned. */
#define IN_PLACE_NBYTES (4 * 1024)

/* Pieces of a copy are short: the bus idles while the first ones are packed. */
#define COPY_PIECE_NBYTES (2 * 1024 * 1024)

/* Results of at least this size are unpacked past the cache. */
#define BYPASS_NBYTES (256 * 1024)

typedef struct slot {
    char *pinned, *device;
    unsigned *flags; /* MYLIB_FLAG_* of the call, in pinned memory */
    cudaStream_t stream;
    int gpu;
    int64_t begin, n; /* the piece in flight; n is 0 without one */
    int unpacks;      /* its results arrive in `pinned` */
} slot;

/* The slots of one GPU: created at its first use and kept; one call at a time uses them. */
typedef struct ring {
    pthread_mutex_t lock;
    int slots;
    size_t slot_nbytes;
    char *pinned, *device;
    slot slot[MAX_WORKERS * SLOTS_PER_WORKER];
} ring;

static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static ring *rings[MYLIB_CUDA_MAX_DEVICES];

/* Returns a number from the environment, or the default if it is absent or out of range. */
static long setting(const char *name, long otherwise, long least, long most)
{
    const char *text = getenv(name);
    long value = text != NULL ? strtol(text, NULL, 10) : 0;
    return value >= least && value <= most ? value : otherwise;
}

static void ring_release(ring *r)
{
    for (int i = 0; i < r->slots; i++)
        if (r->slot[i].stream != NULL)
            CUDA_CLEANUP(cudaStreamDestroy(r->slot[i].stream));
    if (r->pinned != NULL)
        CUDA_CLEANUP(cudaFreeHost(r->pinned));
    if (r->device != NULL)
        CUDA_CLEANUP(cudaFree(r->device));
    r->slots = 0;
    r->pinned = r->device = NULL;
    memset(r->slot, 0, sizeof r->slot);
}

/* Creates a GPU's slots until it has `slots`; the ring is locked. */
static mylib_status ring_reserve(ring *r, int gpu, int slots)
{
    mylib_status st = MYLIB_OK;
    if (r->slots >= slots)
        return st;
    ENTER_DEVICE(gpu);
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
                             "could not allocate %zu bytes of %s memory for staging (cuda:%d)",
                             nbytes, on_host ? "pinned host" : "GPU", gpu));
    }
    CUDA_TRY(error);
    for (r->slots = 0; r->slots < slots; r->slots++) {
        slot *s = &r->slot[r->slots];
        s->gpu = gpu;
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

#define SPARE_BUFFERS 8
static _Atomic(char *) spare_buffer[SPARE_BUFFERS];

static mylib_status take_buffer(char **buffer_ret)
{
    for (int i = 0; i < SPARE_BUFFERS; i++) {
        if (atomic_load_explicit(&spare_buffer[i], memory_order_relaxed) == NULL)
            continue;
        char *buffer = atomic_exchange(&spare_buffer[i], NULL);
        if (buffer != NULL) {
            *buffer_ret = buffer;
            return MYLIB_OK;
        }
    }
    CUDA_RETURN_IF_ERROR(cudaHostAlloc((void **)buffer_ret, SMALL_NBYTES,
                                       cudaHostAllocPortable | cudaHostAllocMapped));
    return MYLIB_OK;
}

static void give_buffer(char *buffer)
{
    for (int i = 0; i < SPARE_BUFFERS; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&spare_buffer[i], &none, buffer))
            return;
    }
    CUDA_CLEANUP(cudaFreeHost(buffer));
}

/* About a millisecond. */
#define MOST_POLLS 20000

static void clear_words(uint64_t *words, int count)
{
    memset(words, 0, (size_t)count * sizeof *words);
}

/*
 * Waits for words of cleared memory, which a kernel on 'stream' writes, and moves their values
 * together, to the begin of the memory.  The driver's wait follows for long work, and reports
 * errors.
 */
static mylib_status wait_for_words(uint64_t *words, int count, void *stream)
{
    int seen = 0;
    for (int polls = 0; polls < MOST_POLLS; polls++) {
        while (seen < count && __atomic_load_n(&words[seen], __ATOMIC_ACQUIRE) / MYLIB_MARK != 0)
            seen++;
        if (seen == count)
            break;
        mylib_cpu_pause();
    }
    if (seen < count)
        CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream));
    for (int i = 0; i < count; i++) {
        const uint32_t value = (uint32_t)words[i];
        memcpy((char *)words + 4 * i, &value, 4);
    }
    return MYLIB_OK;
}

static void free_staging(void)
{
    for (int i = 0; i < SPARE_BUFFERS; i++) {
        char *buffer = atomic_exchange(&spare_buffer[i], NULL);
        if (buffer != NULL)
            CUDA_CLEANUP(cudaFreeHost(buffer));
    }
    for (int i = 0; i < MYLIB_CUDA_MAX_DEVICES; i++) {
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

mylib_status mylib_free_cached(void)
{
    if (!mylib_cuda_is_in_use())
        return MYLIB_OK;
    free_staging();
    for (int i = 0; i < MYLIB_CUDA_MAX_DEVICES; i++)
        mylib_cuda_free_event(i);
    return mylib_cuda_trim_pools();
}

/* ---- One call ---- */

typedef enum route {
    CONSTANT, /* one value for all elements, passed in the kernel's arguments */
    IN_PLACE, /* contiguous, its ends pinned: copied in place by pieces; packs pieces
                 that are not wholly pinned */
    STAGED,   /* packed into the slot */
    ON_GPU    /* memory of the GPU */
} route;

#define NO_OPERAND (-1)

typedef struct job {
    const mylib_program *program;
    mylib_statement statement; /* the program, if it is a single statement */
    int is_single;
    const mylib_layout *layout;
    size_t size[MYLIB_MAX_OPERANDS]; /* of an element */
    int on_gpu;         /* a copy between host and GPU: its operand on the GPU; else NO_OPERAND */
    int copies_bytes;   /* such a copy, without a conversion */
    cudaEvent_t begins; /* the slots' streams wait for it first; or NULL */
    route route[MYLIB_MAX_OPERANDS];
    int is_contiguous[MYLIB_MAX_OPERANDS];
    size_t offset[MYLIB_MAX_OPERANDS]; /* of the operand in a slot */
    /*
     * The elements form rows of 'row' elements: a single row unless a strided operand is on the
     * GPU.  A row is cut into pieces of 'piece' elements; the last may be short.
     */
    int64_t row, piece, row_pieces, pieces;
    int cut;          /* for a strided operand on the GPU: pieces are parts of this dimension */
    int64_t inner;    /* elements of the dimensions inside it, all in a piece */
    int zero_copy;    /* the GPU uses the pinned memory of the slot itself */
    int can_raise;    /* floating-point flags */
    int device, gpus; /* the first GPU, and their number */
    ring *ring[MYLIB_CUDA_MAX_DEVICES];
    _Atomic int64_t next;
    atomic_int failed; /* the worker that sets it writes the status and the message */
    mylib_status st;
    char message[MYLIB_MESSAGE_SIZE];
    unsigned flags; /* MYLIB_FLAG_*, when all workers are done */
} job;

static int is_pinned(const char *begin, const char *end)
{
    struct cudaPointerAttributes first, last;
    int pinned = cudaPointerGetAttributes(&first, begin) == cudaSuccess &&
                 cudaPointerGetAttributes(&last, end - 1) == cudaSuccess &&
                 first.type == cudaMemoryTypeHost && last.type == cudaMemoryTypeHost;
    (void)cudaGetLastError();
    return pinned;
}

static char *element_at(const mylib_layout *l, int k, int64_t number, int64_t *index)
{
    char *at = l->data[k];
    mylib_layout_seek(l, &l->strides[k], 1, number, index, &at);
    return at;
}

/* Packs elements [begin, begin + n) of operand k into `packed`, or unpacks them from there. */
static void move_piece(const job *j, int k, int64_t begin, int64_t n, char *packed, int unpack)
{
    const mylib_layout *l = j->layout;
    size_t size = j->size[k];
    if (j->is_contiguous[k]) {
        char *at = l->data[k] + begin * (int64_t)size;
        /* The GPU reads packed elements from the cache; nobody here reads unpacked ones again. */
        if (unpack && (size_t)n * size >= BYPASS_NBYTES) {
            mylib_cpu()->stream_copy(at, packed, (size_t)n * size);
            mylib_cpu()->stream_fence();
        } else {
            memcpy(unpack ? at : packed, unpack ? packed : at, (size_t)n * size);
        }
        return;
    }
    int inner = l->ndim - 1;
    int64_t index[MYLIB_MAX_NDIM], stride = l->strides[k][inner];
    char *row = element_at(l, k, begin, index);
    row -= index[inner] * stride;
    while (n > 0) {
        int64_t m = mylib_lesser(l->shape[inner] - index[inner], n);
        char *at = row + index[inner] * stride;
        if (unpack)
            mylib_copy_strided(size, m, at, stride, packed, (int64_t)size);
        else
            mylib_copy_strided(size, m, packed, (int64_t)size, at, stride);
        packed += m * (int64_t)size;
        n -= m;
        index[inner] = 0;
        mylib_layout_next_row(l, &l->strides[k], 1, index, &row);
    }
}

static int64_t piece_at(const job *j, int64_t p, int64_t *n)
{
    int64_t at = p % j->row_pieces * j->piece;
    *n = mylib_lesser(j->row - at, j->piece);
    return p / j->row_pieces * j->row + at;
}

static char *gpu_side(const job *j, const slot *s, int k, int64_t begin)
{
    if (j->copies_bytes)
        return j->layout->data[j->on_gpu] + begin * (int64_t)j->size[k];
    return (j->zero_copy ? s->pinned : s->device) + j->offset[k];
}

/*
 * Copies between a GPU and host memory in place, if all of that memory is pinned: both ends are
 * checked, and the driver refuses memory that was pinned in parts.  Sets *is_done_ret to 0 if the
 * copy has to go through a pinned buffer.
 */
static mylib_status copy_in_place(void *to, const void *from, const char *host, size_t nbytes,
                                  void *stream, int *is_done_ret)
{
    *is_done_ret = 0;
    if (!is_pinned(host, host + nbytes))
        return MYLIB_OK;
    cudaError_t error = cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDefault, stream);
    if (error == cudaErrorInvalidValue) {
        (void)cudaGetLastError();
        return MYLIB_OK;
    }
    CUDA_RETURN_IF_ERROR(error);
    *is_done_ret = 1;
    return MYLIB_OK;
}

/* Sends a piece of host operand k, or fetches one of operand 0, which finish_piece() unpacks. */
static mylib_status transfer(const job *j, slot *s, int k, int64_t begin, int64_t n)
{
    const int fetches = k == 0;
    char *host = j->layout->data[k] + begin * (int64_t)j->size[k];
    const size_t nbytes = (size_t)n * j->size[k];
    char *packed = s->pinned + j->offset[k], *there = gpu_side(j, s, k, begin);
    int is_done = 0;
    if (j->route[k] == IN_PLACE)
        RETURN_IF_ERROR(copy_in_place(fetches ? host : there, fetches ? there : host, host, nbytes,
                                      s->stream, &is_done));
    if (fetches)
        s->unpacks = !is_done;
    else if (!is_done)
        move_piece(j, k, begin, n, packed, 0);
    if (!is_done && there != packed)
        CUDA_RETURN_IF_ERROR(cudaMemcpyAsync(fetches ? packed : there, fetches ? there : packed,
                                             nbytes, cudaMemcpyDefault, s->stream));
    return MYLIB_OK;
}

/* Launches the copy of a piece between a slot, where it is contiguous, and the GPU's operand. */
static mylib_status launch_copy(const job *j, const slot *s, int64_t begin, int64_t n)
{
    const mylib_layout *l = j->layout;
    int gpu = j->on_gpu, host = 1 - gpu;
    int64_t gpu_size = (int64_t)j->size[gpu];
    int64_t stride = (int64_t)j->size[host];
    int64_t index[MYLIB_MAX_NDIM];
    DECLARE_LAYOUT(piece, 2);

    mylib_layout_begin_row(&piece, n, 2);
    piece.data[host] = gpu_side(j, s, host, begin);
    if (j->is_contiguous[gpu]) {
        piece.data[gpu] = l->data[gpu] + begin * gpu_size;
        piece.strides[gpu][0] = gpu_size;
        piece.strides[host][0] = stride;
    } else {
        piece.ndim = l->ndim - j->cut;
        piece.data[gpu] = element_at(l, gpu, begin, index);
        for (int d = piece.ndim - 1; d >= 0; d--) {
            piece.shape[d] = d == 0 ? n / j->inner : l->shape[j->cut + d];
            piece.strides[gpu][d] = l->strides[gpu][j->cut + d];
            piece.strides[host][d] = stride;
            stride *= piece.shape[d];
        }
        mylib_layout_simplify(&piece);
    }
    return mylib_cuda_launch(&j->statement, &piece, s->stream);
}

/* Finds the floating-point flags that the CPU would raise for the piece of an operation. */
static mylib_status launch_flags(const job *j, slot *s, const mylib_layout *piece)
{
    const mylib_statement *op = &j->statement;
    mylib_flags_args args = {.n = piece->count,
                             .out = piece->data[0],
                             .opcode = op->opcode,
                             .type = op->type,
                             .result_type = op->result_type,
                             .operands = op->operands};
    for (int i = 0; i < op->operands; i++) {
        const int k = 1 + op->operand[i].index;
        args.input_type[i] = op->operand[i].type;
        args.in[i] = piece->is_host_scalar[k] ? NULL : piece->data[k];
        if (piece->is_host_scalar[k])
            mylib_read_constant(op, i, piece->data[k], args.constant[i]);
    }
    CUDA_RETURN_IF_ERROR(mylib_launch_flags(&args, s->flags, s->stream));
    return MYLIB_OK;
}

/* Operands are contiguous in the slot, or host scalars. */
static mylib_status launch_piece(const job *j, slot *s, int64_t n)
{
    DECLARE_LARGE_LAYOUT(piece, j->layout->operands);
    mylib_layout_begin_row(&piece, n, j->layout->operands);
    for (int k = 0; k < piece.operands; k++) {
        int is_constant = j->route[k] == CONSTANT;
        piece.is_host_scalar[k] = (uint8_t)is_constant;
        piece.data[k] = is_constant ? j->layout->data[k] : gpu_side(j, s, k, 0);
        piece.strides[k][0] = is_constant ? 0 : (int64_t)j->size[k];
    }
    if (j->is_single)
        RETURN_IF_ERROR(mylib_cuda_launch(&j->statement, &piece, s->stream));
    else
        RETURN_IF_ERROR(
            mylib_cuda_enqueue(s->gpu, s->stream, j->program, &piece, MYLIB_TEMPORARY_NBYTES));
    return j->can_raise ? launch_flags(j, s, &piece) : MYLIB_OK;
}

static mylib_status enqueue_piece(const job *j, slot *s, int64_t begin, int64_t n)
{
    for (int k = 1; k < j->layout->operands; k++)
        if (j->route[k] != CONSTANT && j->route[k] != ON_GPU)
            RETURN_IF_ERROR(transfer(j, s, k, begin, n));
    s->unpacks = 0;
    if (j->on_gpu == NO_OPERAND)
        RETURN_IF_ERROR(launch_piece(j, s, n));
    else if (!j->copies_bytes)
        RETURN_IF_ERROR(launch_copy(j, s, begin, n));
    if (j->route[0] != ON_GPU)
        RETURN_IF_ERROR(transfer(j, s, 0, begin, n));
    s->begin = begin;
    s->n = n;
    return MYLIB_OK;
}

static mylib_status finish_piece(const job *j, slot *s)
{
    int64_t n = s->n;
    s->n = 0;
    if (n == 0)
        return MYLIB_OK;
    CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(s->stream));
    if (s->unpacks)
        move_piece(j, 0, s->begin, n, s->pinned + j->offset[0], 1);
    return MYLIB_OK;
}

static mylib_status stream_through(job *j, slot *slots)
{
    int turn = 0;
    ENTER_DEVICE(slots->gpu);
    for (int i = 0; i < SLOTS_PER_WORKER && j->begins != NULL; i++)
        CUDA_RETURN_IF_ERROR(cudaStreamWaitEvent(slots[i].stream, j->begins, 0));
    while (!atomic_load(&j->failed)) {
        slot *s = &slots[turn];
        turn = (turn + 1) % SLOTS_PER_WORKER;
        RETURN_IF_ERROR(finish_piece(j, s));
        int64_t p = atomic_fetch_add(&j->next, 1), n;
        if (p >= j->pieces)
            break;
        int64_t begin = piece_at(j, p, &n);
        RETURN_IF_ERROR(enqueue_piece(j, s, begin, n));
    }
    for (int i = 0; i < SLOTS_PER_WORKER; i++)
        RETURN_IF_ERROR(finish_piece(j, &slots[i]));
    return MYLIB_OK;
}

static void run_worker(void *context, int thread, int64_t worker)
{
    job *j = context;
    slot *slots = &j->ring[worker % j->gpus]->slot[worker / j->gpus * SLOTS_PER_WORKER];
    (void)thread;
    mylib_status st = stream_through(j, slots);
    if (st != MYLIB_OK) {
        /* Messages belong to threads: pass this one on to the caller. */
        if (!atomic_exchange(&j->failed, 1)) {
            j->st = st;
            snprintf(j->message, sizeof j->message, "%s", mylib_last_message());
        }
        /* The caller may free its memory when this returns: wait for work that still uses it. */
        for (int i = 0; i < SLOTS_PER_WORKER; i++) {
            CUDA_CLEANUP(cudaStreamSynchronize(slots[i].stream));
            slots[i].n = 0;
        }
    }
}

static int can_raise(const mylib_statement *s)
{
    int is_integer = s->type < MYLIB_F16 || s->type == MYLIB_BOOL;
    if (s->result_type == MYLIB_BOOL)
        return 0;
    switch (s->opcode) {
    case MYLIB_OPCODE_CONVERT:
    case MYLIB_OPCODE_SELECT:
    case MYLIB_OP_minimum:
    case MYLIB_OP_maximum:
    case MYLIB_OP_negative:
        return 0;
    case MYLIB_OP_divide:
    case MYLIB_OP_floor_divide:
    case MYLIB_OP_remainder:
    case MYLIB_OP_fmod:
    case MYLIB_OP_reciprocal:
        return 1;
    default:
        return !is_integer && (!mylib_is_function(s->opcode) || can_warn((mylib_op)s->opcode));
    }
}

static void choose_cut(job *j, int64_t most)
{
    const mylib_layout *l = j->layout;
    j->inner = 1;
    j->row = l->count;
    j->cut = 0;
    if (j->on_gpu != NO_OPERAND && !j->is_contiguous[j->on_gpu]) {
        /* A kernel takes a box: part of one dimension, and all dimensions inside it. */
        int d = l->ndim - 1;
        while (d > 0 && j->inner * l->shape[d] <= most)
            j->inner *= l->shape[d--];
        j->row = j->inner * l->shape[d];
        j->cut = d;
    }
    int64_t steps = j->row / j->inner, step = most / j->inner;
    j->row_pieces = mylib_divide_up(steps, step);
    if (j->cut > 0) /* many rows: avoid a short piece at the end of each */
        step = mylib_divide_up(steps, j->row_pieces);
    j->piece = step * j->inner;
    j->pieces = l->count / j->row * j->row_pieces;
}

static void choose_pieces(job *j, size_t slot_nbytes, int workers)
{
    const mylib_layout *l = j->layout;
    size_t element_nbytes = 0;
    int pinned = 0;

    j->can_raise = j->on_gpu == NO_OPERAND && j->is_single && can_raise(&j->statement);
    for (int k = 0; k < l->operands; k++) {
        size_t size = j->size[k];
        const char *begin, *end;
        mylib_layout_extent(l, k, size, &begin, &end);
        j->is_contiguous[k] = mylib_layout_is_contiguous(l, k, size);
        j->route[k] = STAGED;
        if (k == j->on_gpu) {
            j->route[k] = ON_GPU;
            continue;
        }
        if (k > 0 && j->on_gpu == NO_OPERAND && mylib_layout_is_single(l, k)) {
            j->route[k] = CONSTANT;
            continue;
        }
        if (j->is_contiguous[k] && is_pinned(begin, end)) {
            j->route[k] = IN_PLACE;
            pinned++;
        }
        element_nbytes += size;
    }

    size_t piece_nbytes = slot_nbytes - mylib_cuda_align(1) * MYLIB_MAX_OPERANDS;
    if (j->on_gpu != NO_OPERAND && piece_nbytes > COPY_PIECE_NBYTES)
        piece_nbytes = COPY_PIECE_NBYTES;
    int64_t most = (int64_t)(piece_nbytes / element_nbytes);
    /* A few pieces for each worker. */
    int64_t wanted = l->count / (workers * 2 * SLOTS_PER_WORKER) + 1;
    int64_t least = 64 * 1024;
    wanted = wanted < least ? least : wanted;
    choose_cut(j, mylib_lesser(wanted, most));
    j->zero_copy = j->on_gpu == NO_OPERAND && pinned == 0 && j->pieces == 1 &&
                   (size_t)l->count * element_nbytes <= ZERO_COPY_NBYTES;

    size_t offset = 0;
    int64_t n = mylib_lesser(j->piece, l->count);
    for (int k = 0; k < l->operands; k++) {
        j->offset[k] = offset;
        if (j->route[k] != CONSTANT && j->route[k] != ON_GPU)
            offset += mylib_cuda_align((size_t)n * j->size[k]);
    }
}

static void begin_job(job *j, int device, const mylib_program *program, const mylib_layout *layout)
{
    memset(j, 0, sizeof *j);
    j->program = program;
    j->is_single = mylib_single_statement(&j->statement, program);
    for (int k = 0; k < layout->operands; k++)
        j->size[k] = (size_t)mylib_program_operand_size(program, k);
    j->layout = layout;
    j->device = device;
    j->gpus = 1;
    j->on_gpu = NO_OPERAND;
}

static mylib_status stream_pieces(job *j)
{
    const int threads = mylib_cpu_threads();
    int held = 0;
    size_t slot_nbytes = SIZE_MAX;
    mylib_status st = MYLIB_OK;

    j->gpus = threads < j->gpus ? threads : j->gpus;
    int workers = j->gpus * (int)setting("MYLIB_STREAM_THREADS", DEFAULT_WORKERS, 1, MAX_WORKERS);
    workers = threads < workers ? threads : workers;
    const int slots = (workers + j->gpus - 1) / j->gpus * SLOTS_PER_WORKER;
    while (held < j->gpus) { /* every call takes the locks in this order */
        const int gpu = j->device + held;
        ring *r;
        MYLIB_TRY(ring_of(gpu, &r));
        pthread_mutex_lock(&r->lock);
        j->ring[held++] = r;
        MYLIB_TRY(ring_reserve(r, gpu, slots));
        slot_nbytes = r->slot_nbytes < slot_nbytes ? r->slot_nbytes : slot_nbytes;
        for (int i = 0; i < r->slots; i++)
            *r->slot[i].flags = 0;
    }
    choose_pieces(j, slot_nbytes, workers);
    workers = (int)mylib_lesser(j->pieces, workers);
    mylib_cpu_parallel(workers, workers, run_worker, j);
    if (j->st != MYLIB_OK) /* a worker's message needs memory */
        MYLIB_TRY(mylib_fail(j->st, "%s", *j->message ? j->message : "no memory for a message"));
    for (int k = 0; k < j->gpus; k++)
        for (int i = 0; i < j->ring[k]->slots; i++)
            j->flags |= *j->ring[k]->slot[i].flags;
out:
    while (held > 0)
        pthread_mutex_unlock(&j->ring[--held]->lock);
    return st;
}

mylib_status mylib_cuda_map_host(int device, const mylib_program *program, mylib_layout *layout)
{
    job j;
    const int is_all = device == MYLIB_ALL_GPUS;
    device = mylib_first_gpu(device);
    ENTER_DEVICE(device);
    if (layout->count == 0)
        return MYLIB_OK;
    begin_job(&j, device, program, layout);
    size_t nbytes = 0;
    for (int k = 0; k < layout->operands; k++)
        nbytes += mylib_layout_is_single(layout, k) ? 0 : (size_t)layout->count * j.size[k];
    if (is_all && nbytes >= ALL_GPUS_NBYTES)
        j.gpus = mylib_cuda_all();
    RETURN_IF_ERROR(stream_pieces(&j));
    mylib_raise_flags((j.flags & MYLIB_FLAG_INVALID ? FE_INVALID : 0) |
                      (j.flags & MYLIB_FLAG_DIVBYZERO ? FE_DIVBYZERO : 0) |
                      (j.flags & MYLIB_FLAG_OVERFLOW ? FE_OVERFLOW : 0));
    return MYLIB_OK;
}

/* ---- Copies between host and GPU ---- */

/*
 * Copies in one piece through a small pinned buffer, and waits.  To the GPU the copy engine is
 * faster than a kernel that reads the buffer; from the GPU not, if it has to wait for a kernel.
 */
static mylib_status copy_small(job *j, void *stream)
{
    const mylib_layout *l = j->layout;
    const size_t nbytes = (size_t)l->count * j->size[0];
    slot s = {.stream = stream, .gpu = j->device};
    mylib_status st = take_buffer(&s.pinned);
    if (st != MYLIB_OK)
        return st;
    if (j->on_gpu == 0 && j->copies_bytes) {
        move_piece(j, 1, 0, l->count, s.pinned, 0);
        CUDA_TRY(cudaMemcpyAsync(l->data[0], s.pinned, nbytes, cudaMemcpyDefault, stream));
        CUDA_TRY(cudaStreamSynchronize(stream));
    } else if (j->on_gpu == 1 && j->copies_bytes && nbytes <= MYLIB_FETCHED_NBYTES) {
        const mylib_fetch_args args = {l->data[1], (uint64_t *)s.pinned, (int32_t)nbytes};
        const int words = (args.nbytes + 3) / 4;
        clear_words(args.to, words);
        CUDA_TRY(mylib_launch_fetch(&args, stream));
        MYLIB_TRY(wait_for_words(args.to, words, stream));
        move_piece(j, 0, 0, l->count, s.pinned, 1);
    } else {
        j->zero_copy = 1;
        choose_cut(j, l->count);
        MYLIB_TRY(enqueue_piece(j, &s, 0, l->count));
        MYLIB_TRY(finish_piece(j, &s));
    }
out:
    if (st != MYLIB_OK)
        CUDA_CLEANUP(cudaStreamSynchronize(stream)); /* the buffer may be in use */
    give_buffer(s.pinned);
    return st;
}

mylib_status mylib_cuda_copy_host(int device, void *stream, const mylib_layout *layout,
                                  mylib_type dst_type, mylib_type src_type, int dst_is_host)
{
    const int host = dst_is_host ? 0 : 1, gpu = 1 - host;
    mylib_operation conversion;
    job j;
    ENTER_DEVICE(device);
    if (layout->count == 0)
        return MYLIB_OK;
    RETURN_IF_ERROR(mylib_cuda_check_memory(device, gpu == 0 ? "dst" : "src", layout->data[gpu],
                                            gpu == 0 ? dst_type : src_type, layout->ndim,
                                            layout->strides[gpu]));
    mylib_operation_of_conversion(&conversion, dst_type, src_type);
    begin_job(&j, device, &conversion.program, layout);
    const size_t nbytes = (size_t)layout->count * j.size[host];
    j.on_gpu = gpu;
    j.route[gpu] = ON_GPU;
    j.route[host] = STAGED;
    for (int k = 0; k < 2; k++)
        j.is_contiguous[k] = mylib_layout_is_contiguous(layout, k, j.size[k]);
    j.copies_bytes = dst_type == src_type && j.is_contiguous[gpu];

    if (j.copies_bytes && j.is_contiguous[host] && nbytes >= IN_PLACE_NBYTES) {
        int is_done;
        RETURN_IF_ERROR(copy_in_place(layout->data[0], layout->data[1], layout->data[host], nbytes,
                                      stream, &is_done));
        if (is_done) {
            CUDA_RETURN_IF_ERROR(cudaStreamSynchronize(stream));
            return MYLIB_OK;
        }
    }
    if (nbytes <= SMALL_NBYTES)
        return copy_small(&j, stream);
    RETURN_IF_ERROR(mylib_cuda_record(device, stream, &j.begins));
    const mylib_status st = stream_pieces(&j);
    mylib_cuda_release_event(device, j.begins);
    return st;
}

mylib_status mylib_cuda_copy(mylib_device dst_device, void *dst, mylib_device src_device,
                             const void *src, size_t nbytes, void *stream)
{
    DECLARE_LAYOUT(layout, 2);
    if (dst_device.kind == MYLIB_CUDA && src_device.kind == MYLIB_CUDA)
        return mylib_cuda_copy_peer(dst_device.index, dst, src_device.index, src, nbytes, stream);
    mylib_layout_begin_row(&layout, (int64_t)nbytes, 2);
    layout.data[0] = dst;
    layout.data[1] = (char *)(uintptr_t)src; /* never written */
    layout.strides[0][0] = layout.strides[1][0] = 1;
    return mylib_cuda_copy_host(dst_device.kind == MYLIB_CUDA ? dst_device.index : src_device.index,
                                stream, &layout, MYLIB_U8, MYLIB_U8, dst_device.kind == MYLIB_CPU);
}

/* ---- Scalars ---- */

mylib_status mylib_cuda_scalar(int device, mylib_op op, mylib_type type, const void *a,
                               const void *b, void *result_ret)
{
    const int is_reversed = mylib_op_is_reversed(op);
    const size_t size = mylib_type_size(type);
    mylib_scalar_args args;
    mylib_scalar_result result;
    char *buffer;
    mylib_status st;
    RETURN_IF_ERROR(mylib_op_result_type(op, type, NULL));
    device = mylib_first_gpu(device);
    ENTER_DEVICE(device);
    RETURN_IF_ERROR(take_buffer(&buffer));
    memcpy(args.a, is_reversed ? b : a, size);
    memcpy(args.b, is_reversed ? a : b, size);
    args.op = (int32_t)mylib_op_base(op, type);
    args.type = (int32_t)type;
    args.result = (uint64_t *)buffer;
    clear_words(args.result, MYLIB_SCALAR_WORDS);
    CUDA_TRY(mylib_launch_scalar(&args, cudaStreamPerThread));
    MYLIB_TRY(wait_for_words(args.result, MYLIB_SCALAR_WORDS, cudaStreamPerThread));
    memcpy(&result, buffer, 4 * MYLIB_SCALAR_WORDS);
    st = (mylib_status)result.status;
    if (st == MYLIB_OK)
        memcpy(result_ret, result.value, size);
out:
    give_buffer(buffer);
    return st;
}
