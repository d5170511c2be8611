/* The process or the scheduler ends while tasks run, and what comes after. */
#define _GNU_SOURCE
#include "manners.h"

static int ran, dropped;

static int32_t exits(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  exit(42);
}

/* The runner expects 42. */
static void exit_in_task(void) {
  sched_t *s = scheduler(2);
  for (int i = 0; i < 100; i++) submitted(s, counts, &ran);
  submitted(s, exits, NULL);
  for (int i = 0; i < 100; i++) submitted(s, lasts, NULL);
  sched_wait_all(s, SCHED_FOREVER);
  failures = 1;
}

static sched_t *global;

static void destroys_global(void) {
  if (sched_destroy(global) != SCHED_E_DEADLOCK) _exit(1);
}

/* The runner expects 42. */
static void exit_in_task_destroys(void) {
  global = scheduler(1);
  atexit(destroys_global);
  submitted(global, exits, NULL);
  sched_wait_all(global, SCHED_FOREVER);
  failures = 1;
}

static void drop_destroys(void *user) {
  (void)user;
  check(sched_destroy(global) == SCHED_E_DEADLOCK, "destroy in a drop");
  dropped++;
}

static void destroy_in_drop(void) {
  sched_task_desc_t desc = task(counts, &ran);
  sched_task_t id;
  desc.drop = drop_destroys;
  global = scheduler(1);
  submitted(global, lasts, NULL);
  check(sched_submit(global, &desc, &id) == SCHED_OK, "submit");
  check(sched_cancel(global, id) == SCHED_OK && dropped == 1, "a drop on the thread that cancels");
  desc.priority = 1;
  check(sched_submit(global, &desc, &id) == SCHED_OK, "submit");
  check(sched_destroy(global) == SCHED_OK && dropped == 2, "a drop on the thread that destroys");
}

/* Two tasks run, and a hundred are queued behind them. */
static void busy(void) {
  sched_t *s = scheduler(2);
  for (int i = 0; i < 102; i++) submitted(s, lasts, &ran);
  until(&ran, 2);
}

static void exit_while_running(void) {
  busy();
  exit(failures);
}

static void return_main_while_running(void) { busy(); }

static void create_again(void) {
  for (int round = 1; round <= 100; round++) {
    sched_t *s = scheduler(2);
    check(sched_wait(s, submitted(s, counts, &ran), SCHED_FOREVER) == SCHED_OK, "a task");
    check(sched_destroy(s) == SCHED_OK, "destroy");
    check(ran == round, "the task ran");
  }
}

static void drop(void *user) {
  (void)user;
  dropped++;
}

static void submit_after_destroy(void) {
  sched_t *s = scheduler(1);
  sched_task_t id = 4711;
  sched_task_desc_t desc = task(counts, &ran);
  desc.drop = drop;
  check(sched_drain(s, SCHED_FOREVER) == SCHED_OK, "drain");
  check(sched_submit(s, &desc, &id) == SCHED_E_SHUTDOWN, "submit after drain");
  check(sched_destroy(s) == SCHED_OK, "destroy");
  check(sched_submit(s, &desc, &id) == SCHED_E_STALE, "submit after destroy");
  check(sched_destroy(s) == SCHED_E_STALE, "destroy twice");
  check(id == 4711 && ran == 0 && dropped == 2, "nothing ran, and `user` was given back each time");
}

/* Code that does not look at its cancel: a shutdown says so, and the process can end. */
static int32_t hangs(const sched_exec_t *exec, void *user) {
  (void)exec;
  __atomic_fetch_add((int *)user, 1, __ATOMIC_SEQ_CST);
  for (;;) pause();
  return 0;
}

static void shutdown_while_hanging(void) {
  sched_t *s = scheduler(1);
  sched_task_t hung = submitted(s, hangs, &ran), queued = submitted(s, counts, &ran);
  sched_task_info_t info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  until(&ran, 1);
  check(sched_shutdown(s, 20000000) == SCHED_PENDING, "shutdown with a time limit");
  check(sched_task_info(s, hung, &info) == SCHED_OK && info.state == SCHED_STATE_RUNNING, "what hangs");
  check(sched_wait(s, queued, SCHED_FOREVER) == SCHED_CANCELLED, "what was queued");
}

static int32_t never_returns(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  for (;;) pause();
  return 0;
}

static void destroy_after_giving_up(void) {
  sched_t *s = scheduler(2);
  sched_task_desc_t desc = task(never_returns, NULL);
  sched_task_t id;
  desc.deadline_ns = 1000000;
  check(sched_submit(s, &desc, &id) == SCHED_OK, "submit");
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_E_DEADLINE, "it is given up after ten seconds");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

int main(int argc, char **argv) {
  const struct named cases[] = {
      {"exit_in_task", exit_in_task},
      {"exit_while_running", exit_while_running},
      {"return_main_while_running", return_main_while_running},
      {"create_again", create_again},
      {"submit_after_destroy", submit_after_destroy},
      {"shutdown_while_hanging", shutdown_while_hanging},
      {"exit_in_task_destroys", exit_in_task_destroys},
      {"destroy_in_drop", destroy_in_drop},
      {"destroy_after_giving_up", destroy_after_giving_up},
  };
  return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
