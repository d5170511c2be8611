// Measures the time of single calls of the C API, in nanoseconds: the lower quartile of many
// batches, because other work on the machine only ever makes a call slower. If two tasks are named,
// both run at the same time.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gpusched.h"

enum { BATCH = 2000, BATCHES = 400 };

static sched_t *s;
static sched_task_t ended;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * t.tv_sec + t.tv_nsec;
}

static void must(sched_status_t status) {
    if (status == 0) return;
    fprintf(stderr, "%s: %s\n", sched_status_name(status), sched_last_error());
    exit(1);
}

typedef void (*call_fn)(const sched_exec_t *exec);

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double lower_quartile(double *times, int count) {
    qsort(times, count, sizeof *times, by_size);
    return times[count / 4];
}

static double cost(call_fn call, const sched_exec_t *exec) {
    double times[BATCHES];
    for (int batch = 0; batch < BATCHES; batch++) {
        double t = now();
        for (int i = 0; i < BATCH; i++) call(exec);
        times[batch] = (now() - t) / BATCH;
    }
    return lower_quartile(times, BATCHES);
}

static void version(const sched_exec_t *exec) { (void)exec, (void)sched_abi_version(); }
static void cancelled(const sched_exec_t *exec) { (void)sched_exec_cancelled(exec); }
static void cancel(const sched_exec_t *exec) { (void)exec, must(sched_cancel(s, ended)); }
static void wait_ended(const sched_exec_t *exec) { (void)exec, must(sched_wait(s, ended, 0)); }

struct inside {
    call_fn call;
    double took;
    _Atomic int *there;
    const sched_exec_t *_Atomic exec;
    _Atomic int stop;
};

static int32_t measure(const sched_exec_t *exec, void *user) {
    struct inside *inside = user;
    atomic_fetch_sub(inside->there, 1);
    while (atomic_load(inside->there) > 0) {}
    inside->took = cost(inside->call, exec);
    return 0;
}

static double in_tasks(call_fn call, int tasks) {
    struct inside inside[2];
    sched_task_t ids[2];
    _Atomic int there = tasks;
    double worst = 0;
    for (int i = 0; i < tasks; i++) {
        inside[i] = (struct inside){.call = call, .there = &there};
        sched_task_desc_t desc = {.size = sizeof desc, .run = measure, .user = &inside[i]};
        must(sched_submit(s, &desc, &ids[i]));
    }
    for (int i = 0; i < tasks; i++) {
        must(sched_wait(s, ids[i], SCHED_FOREVER));
        must(sched_release(s, ids[i]));
        worst = inside[i].took > worst ? inside[i].took : worst;
    }
    return worst;
}

static int32_t stay(const sched_exec_t *exec, void *user) {
    struct inside *inside = user;
    atomic_store(&inside->exec, exec);
    while (!atomic_load(&inside->stop)) nanosleep(&(struct timespec){0, 1000000}, NULL);
    return 0;
}

static double from_outside(void) {
    struct inside inside = {0};
    sched_task_desc_t desc = {.size = sizeof desc, .run = stay, .user = &inside};
    sched_task_t id;
    must(sched_submit(s, &desc, &id));
    while (!atomic_load(&inside.exec)) nanosleep(&(struct timespec){0, 1000000}, NULL);
    double took = cost(cancelled, atomic_load(&inside.exec));
    atomic_store(&inside.stop, 1);
    must(sched_wait(s, id, SCHED_FOREVER));
    must(sched_release(s, id));
    return took;
}

static int32_t nothing(const sched_exec_t *exec, void *user) {
    (void)exec, (void)user;
    return 0;
}

static void submit_and_wait(const sched_exec_t *exec) {
    (void)exec;
    sched_task_desc_t desc = {.size = sizeof desc, .run = nothing};
    sched_task_t id;
    must(sched_submit(s, &desc, &id));
    must(sched_wait(s, id, SCHED_FOREVER));
    must(sched_release(s, id));
}

static double submitting(void) {
    // Behind a closed gate, so that the time contains the submissions only.
    struct inside gates[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        sched_task_desc_t desc = {
            .size = sizeof desc, .run = stay, .user = &gates[i], .flags = SCHED_TASK_DETACHED};
        must(sched_submit(s, &desc, NULL));
        while (!atomic_load(&gates[i].exec)) nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    double times[100];
    for (int batch = 0; batch < 100; batch++) {
        double t = now();
        for (int i = 0; i < BATCH; i++) {
            sched_task_desc_t desc = {.size = sizeof desc, .run = nothing, .flags = SCHED_TASK_DETACHED};
            must(sched_submit(s, &desc, NULL));
        }
        times[batch] = (now() - t) / BATCH;
    }
    atomic_store(&gates[0].stop, 1), atomic_store(&gates[1].stop, 1);
    must(sched_wait_all(s, SCHED_FOREVER));
    return lower_quartile(times, 100);
}

static void say(const char *what, double ns) { printf("%-52s %8.1f\n", what, ns); }

int main(void) {
    sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2, .cpu_threads = 2};
    must(sched_create(&config, &s));
    sched_task_desc_t desc = {.size = sizeof desc, .run = nothing};
    must(sched_submit(s, &desc, &ended));
    must(sched_wait(s, ended, SCHED_FOREVER));
    say("sched_abi_version: a bare call", cost(version, NULL));
    say("sched_cancel of an ended task", cost(cancel, NULL));
    say("sched_wait for an ended task", cost(wait_ended, NULL));
    say("sched_cancel in two tasks", in_tasks(cancel, 2));
    say("sched_exec_cancelled in its task", in_tasks(cancelled, 1));
    say("sched_exec_cancelled in two tasks", in_tasks(cancelled, 2));
    say("sched_exec_cancelled from another thread", from_outside());
    say("sched_submit, detached, all workers busy", submitting());
    say("sched_submit, sched_wait and sched_release, awake", cost(submit_and_wait, NULL));
    must(sched_destroy(s));
    return 0;
}
