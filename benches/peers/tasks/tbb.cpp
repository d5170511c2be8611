// oneTBB. With GROUP: tasks of a task_group; the waiting thread works too, so one worker is enough.
// Otherwise: tasks that a thread outside enqueues into an arena of two workers.
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <memory>

#include "peer.h"

namespace {
struct State {
#ifdef GROUP
    tbb::task_scheduler_handle handle{tbb::attach{}};
    tbb::global_control threads{tbb::global_control::max_allowed_parallelism, 2};
    tbb::task_arena arena{2, 1};
#else
    tbb::task_scheduler_handle handle{tbb::attach{}};
    tbb::global_control threads{tbb::global_control::max_allowed_parallelism, 3};
    tbb::task_arena arena{2, 0};
#endif
    tbb::task_group all;
};
State *state;
}

void peer_init() { state = new State; }

void peer_fini() {
    tbb::task_scheduler_handle handle = std::move(state->handle);
    delete state;
    tbb::finalize(handle, std::nothrow);
}

#ifdef GROUP
void peer_submit(work_fn work, void *user) { state->all.run([=] { work(user); }); }
void peer_wait_all() { state->all.wait(); }

void *peer_submit_handle(work_fn work, void *user) {
    auto *group = new tbb::task_group;
    group->run([=] { work(user); });
    return group;
}
#else
void peer_submit(work_fn work, void *user) { state->arena.enqueue(state->all.defer([=] { work(user); })); }
void peer_wait_all() {
    state->all.wait();
}

void *peer_submit_handle(work_fn work, void *user) {
    auto *group = new tbb::task_group;
    state->arena.enqueue(group->defer([=] { work(user); }));
    return group;
}
#endif

void peer_wait(void *handle) {
    std::unique_ptr<tbb::task_group> group(static_cast<tbb::task_group *>(handle));
    group->wait();
}

int peer_for(size_t count, body_fn body, void *user) {
#ifdef GROUP
    tbb::parallel_for(size_t(0), count, [=](size_t i) { body(i, user); });
    return 1;
#else
    (void)count, (void)body, (void)user;
    return 0;
#endif
}
