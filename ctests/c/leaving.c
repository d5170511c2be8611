/* The program's code ends the process (exit, status 42) or its thread (pthread_exit) in a callback,
 * or the process ends while tasks run.
 *
 *   leaving CASE           the process ends in CASE
 *   leaving CASE thread    only the thread ends, and the scheduler goes on */
#define _GNU_SOURCE
#include <pthread.h>

#include "check.h"

static sched_t *s;
static int called, ran, dropped, leaves_thread;

/* One of several threads that call this at the same time leaves first. */
static void leave(void) {
  add(&called);
  if (leaves_thread) pthread_exit(NULL);
  exit(42);
}

static int32_t leave_task(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  leave();
  return 0;
}

static void in_tasks(void) {
  sched_task_t ids[6];
  for (int i = 0; i < 100; i++) submitted(s, counts, &ran);
  for (int i = 0; i < 6; i++) ids[i] = submit_work(s, leave_task, NULL, i % 2);
  for (int i = 0; i < 6; i++) EXPECT(SCHED_E_UNWOUND, wait_for(s, ids[i]));
}

static int32_t wait_for_own(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  EXPECT(SCHED_E_UNWOUND, wait_for(s, submitted(s, leave_task, NULL)));
  return 0;
}

static void on_top(void) { OK(wait_for(s, submitted(s, wait_for_own, NULL))); }

static int32_t leave_piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec, (void)user;
  if (begin <= 50 && 50 < end) leave();
  return 0;
}

static void in_a_piece(void) {
  sched_range_desc_t range = {.size = sizeof range, .end = 100, .run = leave_piece, .grain = 1};
  sched_task_t id = 0;
  OK(sched_submit_range(s, &range, &id));
  EXPECT(SCHED_E_UNWOUND, wait_for(s, id));
  SAYS("elements 50 to 51");
}

static void leave_drop(void *user) {
  (void)user;
  leave();
}

static void in_a_drop(void) {
  sched_task_t ids[4];
  sched_task_desc_t desc = task(counts, &ran);
  desc.drop = leave_drop;
  OK(wait_for(s, submit(s, desc)));
  desc.work = 1;
  OK(wait_for(s, submit(s, desc)));
  /* The worker that ends must not take other tasks with it. */
  for (int i = 0; i < 4; i++) ids[i] = submit(s, desc);
  for (int i = 0; i < 4; i++) OK(wait_for(s, ids[i]));
}

static void leave_progress(const sched_progress_t *progress, void *user) {
  (void)progress, (void)user;
  if (get(&called) == 0) leave();
}

static void in_progress(void) {
  OK(sched_progress_callback(s, leave_progress, NULL, 1000000));
  until(&called, 1);
}

static void leave_log(int32_t level, const char *message, void *user) {
  (void)level, (void)message, (void)user;
  if (get(&called) == 0) leave();
}

static void in_a_log(void) {
  OK(sched_log_callback(leave_log, NULL, 5));
  EXPECT(SCHED_E_CALLBACK, wait_for(s, submitted(s, fails, NULL)));
}

static void *leave_after_main(void *user) {
  (void)user;
  usleep(20000);
  OK(wait_for(s, submitted(s, counts, &ran)));
  if (failures) _exit(1);
  submitted(s, leave_task, NULL);
  pause();
  return NULL;
}

/* The first thread ends, the process goes on, and a task ends it. */
static void after_main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, leave_after_main, NULL);
  pthread_exit(NULL);
}

static void destroy_at_exit(void) {
  if (sched_destroy(s) != SCHED_E_DEADLOCK) _exit(1);
}

static void destroy_in_handler(void) {
  atexit(destroy_at_exit);
  submitted(s, leave_task, NULL);
}

/* Two tasks run, and a hundred are queued behind them. */
static void while_running(void) {
  for (int i = 0; i < 102; i++) submitted(s, lasts, &ran);
  until(&ran, 2);
  exit(failures ? 1 : 42);
}

static int32_t hangs(const sched_exec_t *exec, void *user) {
  (void)exec;
  for (add(user);;) pause();
  return 0;
}

static void after_giving_up(void) {
  sched_task_desc_t desc = task(hangs, &ran);
  desc.deadline_ns = 1000000;
  EXPECT(SCHED_E_DEADLINE, wait_for(s, submit(s, desc)));
  OK(sched_destroy(s));
  exit(failures ? 1 : 42);
}

static void drop_destroys(void *user) {
  EXPECT(SCHED_E_DEADLOCK, sched_destroy(user));
  add(&dropped);
}

/* Runs a drop on a thread that cancels, and on one that destroys. */
static void destroy_in_drop(void) {
  sched_t *one = scheduler(1);
  sched_task_desc_t desc = task(counts, one);
  desc.drop = drop_destroys;
  submitted(one, lasts, &ran);
  OK(sched_cancel(one, submit(one, desc)));
  CHECK(dropped == 1);
  submit(one, desc);
  OK(sched_destroy(one));
  CHECK(dropped == 2);
  exit(failures ? 1 : 42);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      CASE(in_tasks), CASE(on_top), CASE(in_a_piece), CASE(in_a_drop), CASE(in_progress),
      CASE(in_a_log), CASE(after_main), CASE(destroy_in_handler), CASE(while_running),
      CASE(after_giving_up), CASE(destroy_in_drop), {NULL, NULL}};
  s = scheduler(2);
  leaves_thread = argc == 3;
  int status = run_case(argv, cases);
  /* Another thread is about to end the process. */
  while (!leaves_thread && status == 0) pause();
  CHECK(called > 0);
  OK(sched_wait_all(s, SCHED_FOREVER));
  ran = 0;
  for (int i = 0; i < 50; i++) submit_work(s, counts, &ran, i % 2);
  OK(sched_wait_all(s, SCHED_FOREVER));
  CHECK(ran == 50);
  OK(sched_destroy(s));
  return failures || status ? 1 : 0;
}
