/*
 * threads.c - the threads that help callers compute: one pool for the whole process.
 *
 * A caller opens a job, runs its tasks like every worker, closes it when no task is left, and waits
 * for the workers that still run one.  Workers join the job that has waited longest; a caller
 * computes alone while all are busy.  The pool starts workers when a job first needs them.  A
 * worker without a job spins for a moment, then sleeps.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "counting.h"
#include "flags.h"

/* The maximum threads of one call; with more, memory is the limit. */
#define MAX_THREADS 256

/* Time to spin before sleeping: about as long as waking takes. */
#define SPIN_NS 100000

/* Time to wait before the next attempt if a thread could not be started. */
#define RETRY_NS 1000000000

/* The least stack of a worker, whatever the process's default: tasks take up to 48 KB. */
#define WORKER_STACK_NBYTES (256 * 1024)

typedef struct job {
    mylib_task *task;
    void *context;
    int64_t n;
    _Atomic int64_t next; /* the first task that no thread has taken */
    atomic_int active;    /* workers; a worker counts itself out as its last access to the job */
    int wanted;           /* more workers */
    int joined;           /* workers so far */
    int flags;            /* raised by the workers' tasks */
    struct job *later;    /* the next open job */
} job;

/* Guards the variables below, and wanted, joined and flags; atomics are read without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_opened = PTHREAD_COND_INITIALIZER, has_ended = PTHREAD_COND_INITIALIZER;
static job *open_jobs; /* jobs that workers may join, the oldest first */
static atomic_int is_open;
static int workers, sleeping_workers, sleeping_callers;
static int64_t retry_ns; /* when to try again to start a thread */

/* Not NULL in workers.  Not _Thread_local: see status.c. */
static pthread_key_t is_worker;
static int has_key;

/* ---- How many ---- */

/* Returns how many processors this process may use, by its affinity and a container's quota. */
static int processors(void)
{
    long count = 0;
    int cancels;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels); /* files have cancellation points */
#ifdef __linux__
    static const char *const files[] = {"/sys/fs/cgroup/cpu.max",
                                        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                        "/sys/fs/cgroup/cpu/cpu.cfs_period_us"};
    long numbers[4] = {0, 0, 0, 0}; /* quota and period, of cgroups version 2, then 1 */
    unsigned long set[8192 / (8 * sizeof(unsigned long))] = {0};
    if (sched_getaffinity(0, sizeof set, (cpu_set_t *)set) == 0)
        count = CPU_COUNT_S(sizeof set, (cpu_set_t *)set);
    for (int k = 0; k < 3; k++) {
        FILE *file = fopen(files[k], "re");
        char line[64] = "", *rest = line;
        if (file == NULL)
            continue;
        if (fgets(line, sizeof line, file) != NULL)
            numbers[k == 0 ? 0 : 1 + k] = strtol(line, &rest, 10);
        if (k == 0)
            numbers[1] = strtol(rest, NULL, 10);
        fclose(file);
    }
    for (int k = 0; k < 4; k += 2)
        if (numbers[k] > 0 && numbers[k + 1] > 0 && numbers[k] / numbers[k + 1] < count)
            count = (numbers[k] + numbers[k + 1] - 1) / numbers[k + 1];
#endif
    if (count < 1)
        count = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_setcancelstate(cancels, NULL);
    return count < 1 ? 1 : (int)mylib_lesser(count, MAX_THREADS);
}

static atomic_int thread_limit, processor_count; /* 0: not known yet */

/* Returns OMP_NUM_THREADS (the first number, if it is a list), or the number of processors. */
static int default_threads(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    atomic_store(&processor_count, processors());
    long asked = text != NULL ? strtol(text, NULL, 10) : 0;
    return asked < 1 ? atomic_load(&processor_count) : (int)mylib_lesser(asked, MAX_THREADS);
}

int mylib_cpu_threads(void)
{
    int threads = atomic_load_explicit(&thread_limit, memory_order_acquire);
    if (has_key && pthread_getspecific(is_worker) != NULL)
        return 1;
    if (threads == 0) {
        int expected = 0;
        threads = default_threads();
        if (!atomic_compare_exchange_strong(&thread_limit, &expected, threads))
            threads = expected;
    }
    return threads;
}

mylib_status mylib_set_num_threads(int threads)
{
    if (threads < 0)
        return mylib_fail(MYLIB_ERR_ARGUMENT,
                          "%d threads: expected 1 or more, or 0 for the default", threads);
    (void)mylib_cpu_threads();
    threads = threads == 0 ? default_threads() : (int)mylib_lesser(threads, MAX_THREADS);
    atomic_store(&thread_limit, threads);
    return MYLIB_OK;
}

mylib_status mylib_get_num_threads(int *threads_ret)
{
    RETURN_IF_NULL(threads_ret);
    *threads_ret = mylib_cpu_threads();
    return MYLIB_OK;
}

/* ---- Waiting ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Spins for a moment until *value becomes 0, or not 0; not with more threads than processors. */
static void spin(atomic_int *value, int for_zero)
{
    if (atomic_load(&thread_limit) > atomic_load(&processor_count))
        return;
    for (int64_t k = 1, end = now_ns() + SPIN_NS; k % 64 != 0 || now_ns() < end; k++) {
        if ((atomic_load_explicit(value, memory_order_acquire) == 0) == for_zero)
            return;
        mylib_cpu_pause();
    }
}

/* ---- Jobs ---- */

static void run_tasks(job *j, int thread)
{
    int64_t i;
    while ((i = atomic_fetch_add(&j->next, 1)) < j->n)
        j->task(j->context, thread, i);
}

/* Keeps further workers from joining; the lock is held. */
static void close_job(const job *j)
{
    job **at = &open_jobs;
    while (*at != NULL && *at != j)
        at = &(*at)->later;
    if (*at != NULL)
        *at = j->later;
    atomic_store(&is_open, open_jobs != NULL);
}

/* Returns the oldest job with tasks that no thread has taken; the lock is held. */
static job *find_job(void)
{
    while (open_jobs != NULL && atomic_load(&open_jobs->next) >= open_jobs->n)
        close_job(open_jobs);
    return open_jobs;
}

static void *work(void *unused)
{
    (void)unused;
    (void)mylib_enter_mode(); /* a thread inherits its creator's mode */
    const int has_memory = pthread_setspecific(is_worker, &lock) == 0;
    pthread_mutex_lock(&lock);
    if (!has_memory) {
        workers--;
        retry_ns = now_ns() + RETRY_NS;
        pthread_mutex_unlock(&lock);
        return NULL;
    }
    for (;;) {
        job *j = find_job();
        if (j == NULL) {
            pthread_mutex_unlock(&lock);
            spin(&is_open, 0);
            pthread_mutex_lock(&lock);
            if ((j = find_job()) == NULL) {
                sleeping_workers++;
                pthread_cond_wait(&has_opened, &lock);
                sleeping_workers--;
                continue;
            }
        }
        int thread = ++j->joined;
        atomic_fetch_add(&j->active, 1);
        if (--j->wanted == 0)
            close_job(j);
        pthread_mutex_unlock(&lock);
        /* Flags belong to a thread: a worker hands its flags over, and the caller raises them. */
        mylib_clear_flags();
        run_tasks(j, thread);
        int flags = mylib_test_flags();
        pthread_mutex_lock(&lock);
        j->flags |= flags;
        if (atomic_fetch_sub(&j->active, 1) == 1 && sleeping_callers > 0)
            pthread_cond_broadcast(&has_ended);
    }
    return NULL;
}

/* Starts workers until there are `wanted`, or starting one fails; the lock is held. */
static void start_workers(int wanted)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    size_t stack_nbytes;
    if (!has_key || workers >= wanted || now_ns() < retry_ns || pthread_attr_init(&attributes) != 0)
        return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_attr_getstacksize(&attributes, &stack_nbytes) == 0 &&
        stack_nbytes < WORKER_STACK_NBYTES)
        pthread_attr_setstacksize(&attributes, WORKER_STACK_NBYTES);
    /* Workers block all signals, except those that a thread's own faults raise. */
    sigfillset(&all);
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++)
        sigdelset(&all, faults[k]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; workers < wanted; workers++) {
        if (pthread_create(&thread, &attributes, work, NULL) != 0) {
            retry_ns = now_ns() + RETRY_NS;
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static void open_job(job *j)
{
    job **at = &open_jobs;
    pthread_mutex_lock(&lock);
    start_workers(j->wanted);
    while (*at != NULL)
        at = &(*at)->later;
    *at = j;
    atomic_store(&is_open, 1);
    if (j->wanted >= sleeping_workers)
        pthread_cond_broadcast(&has_opened);
    else
        for (int k = 0; k < j->wanted; k++)
            pthread_cond_signal(&has_opened);
    pthread_mutex_unlock(&lock);
}

static void end_job(job *j)
{
    pthread_mutex_lock(&lock);
    close_job(j);
    pthread_mutex_unlock(&lock);
    if (atomic_load(&j->active) != 0)
        spin(&j->active, 1);
    if (atomic_load(&j->active) != 0) {
        pthread_mutex_lock(&lock);
        sleeping_callers++;
        while (atomic_load(&j->active) != 0)
            pthread_cond_wait(&has_ended, &lock);
        sleeping_callers--;
        pthread_mutex_unlock(&lock);
    }
}

void mylib_cpu_parallel(int threads, int64_t n, mylib_task *task, void *context)
{
    threads = (int)mylib_lesser(threads, n);
    if (threads <= 1) {
        for (int64_t i = 0; i < n; i++)
            task(context, 0, i);
        return;
    }
    job j = {.task = task, .context = context, .n = n, .wanted = threads - 1};
    int cancels;
    /* Workers use the job, which is on this thread's stack: the thread must not be cancelled. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
    open_job(&j);
    run_tasks(&j, 0);
    end_job(&j);
    pthread_setcancelstate(cancels, NULL);
    mylib_raise_flags(j.flags);
}

/* ---- fork ---- */

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* Forgets the workers and jobs, which the child does not have. */
static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&has_opened, NULL);
    pthread_cond_init(&has_ended, NULL);
    open_jobs = NULL;
    atomic_store(&is_open, 0);
    workers = sleeping_workers = sleeping_callers = 0;
    retry_ns = 0;
}

/* As early as choose_level() (cpu/dispatch.c), for the same reason. */
__attribute__((constructor(101))) static void prepare(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
    has_key = pthread_key_create(&is_worker, NULL) == 0;
}
