// This library, over the C API: the CPU device with two slots. With PLANNED each task states its
// work, so the planner places it; StarPU's scheduler places every task.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpusched.h"
#include "peer.h"

#ifdef PLANNED
#define WORK 1.0
#else
#define WORK 0.0
#endif

static sched_t *s;

static void must(sched_status_t status) {
    if (status == 0) return;
    fprintf(stderr, "%s: %s\n", sched_status_name(status), sched_last_error());
    exit(1);
}

void peer_init(void) {
    sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2, .cpu_threads = 2};
    must(sched_create(&config, &s));
}

void peer_fini(void) { must(sched_destroy(s)); }

// The callback has the peer's signature, but for what it is given first and what it returns.
struct task {
    work_fn work;
};

// One address for each function that is ever run, so that nothing is allocated for a task.
static const struct task *task_of(work_fn work) {
    static struct task known[8];
    for (int i = 0; i < 8; i++) {
        if (!known[i].work) known[i].work = work;
        if (known[i].work == work) return &known[i];
    }
    abort();
}

static int32_t run(const sched_exec_t *exec, void *user) {
    (void)exec;
    ((struct task *)user)->work(NULL);
    return 0;
}

void peer_submit(work_fn work, void *user) {
    (void)user;
    sched_task_desc_t desc = {
        .size = sizeof desc, .run = run, .user = (void *)task_of(work), .work = WORK, .flags = SCHED_TASK_DETACHED};
    must(sched_submit(s, &desc, NULL));
}

void peer_wait_all(void) { must(sched_wait_all(s, SCHED_FOREVER)); }

void *peer_submit_handle(work_fn work, void *user) {
    (void)user;
    sched_task_desc_t desc = {.size = sizeof desc, .run = run, .user = (void *)task_of(work), .work = WORK};
    sched_task_t id;
    must(sched_submit(s, &desc, &id));
    return (void *)(uintptr_t)id;
}

void peer_wait(void *handle) {
    sched_task_t id = (uintptr_t)handle;
    must(sched_wait(s, id, SCHED_FOREVER));
    must(sched_release(s, id));
}

struct loop {
    body_fn body;
    void *user;
};

static int32_t piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
    (void)exec;
    struct loop *loop = user;
    for (uint64_t i = begin; i < end; i++) loop->body(i, loop->user);
    return 0;
}

// The library chooses the grain.
int peer_for(size_t count, body_fn body, void *user) {
    struct loop loop = {body, user};
    sched_range_desc_t desc = {.size = sizeof desc, .end = count, .run = piece, .user = &loop};
    sched_task_t id;
    must(sched_submit_range(s, &desc, &id));
    must(sched_wait(s, id, SCHED_FOREVER));
    must(sched_release(s, id));
    return 1;
}
