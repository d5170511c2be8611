// Callbacks that do not return: exceptions, pthread_exit and pthread_cancel unwind them.
#include <pthread.h>

#include <stdexcept>
#include <string>

#include "check.h"

namespace {

int ran;

// The destructor must run when the function is unwound.
struct Guard {
  void *number;
  ~Guard() { add(static_cast<int *>(number)); }
};

int32_t throws(const sched_exec_t *, void *user) {
  Guard guard = {user};
  throw std::runtime_error("nobody catches this");
}

int32_t leaves(const sched_exec_t *, void *user) {
  Guard guard = {user};
  pthread_exit(nullptr);
}

int32_t cancels_itself(const sched_exec_t *, void *user) {
  add(static_cast<int *>(user));
  pthread_cancel(pthread_self());
  for (;;) pause();
}

// The cancellation is still pending when this returns.
int32_t cancels_and_returns(const sched_exec_t *, void *user) {
  add(static_cast<int *>(user));
  pthread_cancel(pthread_self());
  return 0;
}

// Returns 0 on the thread where it was called before, 1 on another one.
int32_t same_thread(const sched_exec_t *, void *) {
  thread_local bool here = false;
  const bool before = here;
  here = true;
  return before ? 0 : 1;
}

// Runs `code` with a retry among other tasks on one worker: it fails twice, its message has `word`,
// and another thread goes on.
void unwind(sched_run_fn code, const char *word) {
  sched_t *s = scheduler(1);
  int left = 0;
  char text[200];
  ran = 0;
  wait_for(s, submitted(s, same_thread, nullptr));
  OK(wait_for(s, submitted(s, same_thread, nullptr)));
  sched_task_desc_t desc = task(code, &left);
  desc.retries = 1;
  for (int i = 0; i < 50; i++) submitted(s, counts, &ran);
  const sched_task_t id = submit(s, desc);
  for (int i = 0; i < 50; i++) submitted(s, counts, &ran);
  EXPECT(SCHED_E_UNWOUND, wait_for(s, id));
  sched_task_error(s, id, text, sizeof text, nullptr);
  CHECK(std::string(text).find(word) != std::string::npos);
  OK(sched_wait_all(s, SCHED_FOREVER));
  CHECK(ran == 100 && left == 2);
  EXPECT(SCHED_E_CALLBACK, wait_for(s, submitted(s, same_thread, nullptr)));
  OK(sched_destroy(s));
}

void pthread_exit_in_task() { unwind(leaves, "pthread_exit"); }

void pthread_cancel_in_task() {
  unwind(cancels_itself, "pthread_cancel");
  unwind(cancels_and_returns, "pthread_cancel");
}

void cxx_exception_without_wrapper() { unwind(throws, "an exception"); }

void throwing_drop(void *) { throw std::runtime_error("from a drop"); }

void cxx_exception_in_drop() {
  sched_t *s = scheduler(1);
  sched_task_desc_t desc = task(counts, &ran);
  desc.drop = throwing_drop;
  OK(wait_for(s, submit(s, desc)));
  OK(sched_destroy(s));
}

}  // namespace

int main(int, char **argv) {
  const test_case cases[] = {
      CASE(cxx_exception_without_wrapper), CASE(cxx_exception_in_drop), CASE(pthread_exit_in_task),
      CASE(pthread_cancel_in_task), {nullptr, nullptr}};
  return run_case(argv, cases);
}
