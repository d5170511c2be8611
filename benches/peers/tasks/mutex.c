// The smallest possible task queue: one mutex, one list, two threads. Each task is allocated.
#include <pthread.h>
#include <stdlib.h>

#include "peer.h"

struct task {
    work_fn work;
    void *user;
    struct task *next;
    int kept, done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static struct task *first, **last = &first;
static size_t unended;
static int waiting, stopping;
static pthread_t threads[2];

static void *serve(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first && !stopping) pthread_cond_wait(&filled, &lock);
        if (!first) break;
        struct task *task = first;
        first = task->next;
        if (!first) last = &first;
        pthread_mutex_unlock(&lock);
        task->work(task->user);
        if (!task->kept) free(task);
        pthread_mutex_lock(&lock);
        if (task->kept) task->done = 1;
        unended--;
        if (waiting) pthread_cond_broadcast(&ended);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void peer_init(void) {
    stopping = 0;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, serve, NULL)) abort();
}

void peer_fini(void) {
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_broadcast(&filled);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static struct task *submit(work_fn work, void *user, int kept) {
    struct task *task = malloc(sizeof *task);
    if (!task) abort();
    *task = (struct task){.work = work, .user = user, .kept = kept};
    pthread_mutex_lock(&lock);
    *last = task;
    last = &task->next;
    unended++;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
    return task;
}

void peer_submit(work_fn work, void *user) { submit(work, user, 0); }

void peer_wait_all(void) {
    pthread_mutex_lock(&lock);
    waiting++;
    while (unended) pthread_cond_wait(&ended, &lock);
    waiting--;
    pthread_mutex_unlock(&lock);
}

void *peer_submit_handle(work_fn work, void *user) { return submit(work, user, 1); }

void peer_wait(void *handle) {
    struct task *task = handle;
    pthread_mutex_lock(&lock);
    waiting++;
    while (!task->done) pthread_cond_wait(&ended, &lock);
    waiting--;
    pthread_mutex_unlock(&lock);
    free(task);
}

int peer_for(size_t count, body_fn body, void *user) {
    (void)count, (void)body, (void)user;
    return 0;
}
