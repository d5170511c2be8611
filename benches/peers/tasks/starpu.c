// StarPU, with two CPU workers and its work-stealing policy, without data handles.
#include <starpu.h>
#include <stdlib.h>

#include "peer.h"

struct call {
    work_fn work;
    void *user;
};

static void run(void *buffers[], void *arg) {
    (void)buffers;
    struct call *call = arg;
    call->work(call->user);
}

static struct starpu_codelet codelet = {.cpu_funcs = {run}, .nbuffers = 0, .name = "call"};

void peer_init(void) {
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = 2, conf.ncuda = 0, conf.nopencl = 0;
    conf.sched_policy_name = "lws";
    if (starpu_init(&conf)) abort();
}

void peer_fini(void) { starpu_shutdown(); }

static struct starpu_task *made(work_fn work, void *user, int handle) {
    struct starpu_task *task = starpu_task_create();
    struct call *call = malloc(sizeof *call);
    call->work = work, call->user = user;
    task->cl = &codelet, task->cl_arg = call, task->cl_arg_size = sizeof *call, task->cl_arg_free = 1;
    if (handle) task->detach = 0, task->destroy = 1;
    if (starpu_task_submit(task)) abort();
    return task;
}

void peer_submit(work_fn work, void *user) { made(work, user, 0); }
void peer_wait_all(void) { starpu_task_wait_for_all(); }
void *peer_submit_handle(work_fn work, void *user) { return made(work, user, 1); }

void peer_wait(void *handle) {
    if (starpu_task_wait(handle)) abort();
}

struct element {
    body_fn body;
    size_t index;
    void *user;
};

static void one(void *user) {
    struct element *element = user;
    element->body(element->index, element->user);
}

// StarPU has no parallel loop: one task per element.
int peer_for(size_t count, body_fn body, void *user) {
    struct element *elements = malloc(count * sizeof *elements);
    for (size_t i = 0; i < count; i++) {
        elements[i] = (struct element){body, i, user};
        peer_submit(one, &elements[i]);
    }
    peer_wait_all();
    free(elements);
    return 1;
}
