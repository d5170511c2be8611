// Code of tasks that does not return: exceptions and pthread_exit leave it.
#include <pthread.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "gpusched.hpp"
#include "manners.h"

namespace {

int ran;

struct Odd : std::runtime_error {
  int number;
  Odd(int n) : std::runtime_error("an odd one"), number(n) {}
};

// Through the C++ header: the exception itself comes out of wait().
void cxx_exception() {
  gpusched::scheduler s(gpusched::config().devices("cpu").slots(2).cpu_threads(1));
  std::vector<gpusched::task<int>> tasks;
  for (int i = 0; i < 100; i++) {
    tasks.push_back(s.submit([i] {
      if (i % 2 == 1) throw Odd(i);
      return 10 * i;
    }));
  }
  int well = 0, thrown = 0;
  for (int i = 0; i < 100; i++) {
    try {
      well += tasks[static_cast<size_t>(i)].get() == 10 * i;
    } catch (const Odd &odd) {
      thrown += odd.number == i;
    }
  }
  check(well == 50 && thrown == 50, "each task's own result or exception");
}

int32_t throws(const sched_exec_t *, void *user) {
  // Its destructor has to be called on the way.
  struct Guard {
    int *number;
    ~Guard() { __atomic_fetch_add(number, 1, __ATOMIC_SEQ_CST); }
  } guard = {static_cast<int *>(user)};
  throw std::runtime_error("nobody catches this");
}

int32_t leaves(const sched_exec_t *, void *user) {
  struct Guard {
    int *number;
    ~Guard() { __atomic_fetch_add(number, 1, __ATOMIC_SEQ_CST); }
  } guard = {static_cast<int *>(user)};
  pthread_exit(nullptr);
}

int32_t cancels_itself(const sched_exec_t *, void *user) {
  __atomic_fetch_add(static_cast<int *>(user), 1, __ATOMIC_SEQ_CST);
  pthread_cancel(pthread_self());
  for (;;) pause();
}

// As far as the C library is concerned, nothing has happened yet when it returns.
int32_t cancels_and_returns(const sched_exec_t *, void *user) {
  __atomic_fetch_add(static_cast<int *>(user), 1, __ATOMIC_SEQ_CST);
  pthread_cancel(pthread_self());
  return 0;
}

thread_local pthread_t *mark = nullptr;

// 0 on the thread where it was called before, 1 on another one.
int32_t same_thread(const sched_exec_t *, void *user) {
  bool here = mark != nullptr;
  mark = static_cast<pthread_t *>(user);
  return here ? 0 : 1;
}

// `code` in between a hundred others, on one worker, with a retry: it fails twice, its words say why, the
// others don't notice, and another thread goes on.
void left_by(sched_run_fn code, const char *word) {
  sched_t *s = scheduler(1);
  pthread_t self;
  int left = 0;
  ran = 0;
  sched_wait(s, submitted(s, same_thread, &self), SCHED_FOREVER);
  check(sched_wait(s, submitted(s, same_thread, &self), SCHED_FOREVER) == SCHED_OK, "one worker has one thread");
  sched_task_desc_t desc = task(code, &left);
  desc.retries = 1;
  sched_task_t id = 0;
  for (int i = 0; i < 50; i++) submitted(s, counts, &ran);
  check(sched_submit(s, &desc, &id) == SCHED_OK, "submit");
  for (int i = 0; i < 50; i++) submitted(s, counts, &ran);
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_E_UNWOUND, "the task has failed");
  char text[200];
  sched_task_error(s, id, text, sizeof text);
  check(std::string(text).find(word) != std::string::npos, text);
  check(sched_wait_all(s, SCHED_FOREVER) == SCHED_OK && ran == 100, "the others ran");
  check(left == 2, "twice, and it was cleaned up behind it");
  check(sched_wait(s, submitted(s, same_thread, &self), SCHED_FOREVER) == SCHED_E_CALLBACK, "on another thread");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

void pthread_exit_in_task() { left_by(leaves, "pthread_exit"); }
void pthread_cancel_in_task() {
  left_by(cancels_itself, "pthread_cancel");
  left_by(cancels_and_returns, "pthread_cancel");
}
void cxx_exception_without_wrapper() { left_by(throws, "an exception"); }

void throwing_drop(void *) { throw std::runtime_error("from a drop"); }

void cxx_exception_in_drop() {
  sched_t *s = scheduler(1);
  sched_task_desc_t desc = task(counts, &ran);
  desc.drop = throwing_drop;
  sched_task_t id = 0;
  check(sched_submit(s, &desc, &id) == SCHED_OK, "submit");
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "the task's own outcome");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

}  // namespace

int main(int argc, char **argv) {
  manners_used();
  const named cases[] = {
      {"cxx_exception", cxx_exception},
      {"cxx_exception_without_wrapper", cxx_exception_without_wrapper},
      {"cxx_exception_in_drop", cxx_exception_in_drop},
      {"pthread_exit_in_task", pthread_exit_in_task},
      {"pthread_cancel_in_task", pthread_cancel_in_task},
  };
  return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
