/* Checks, cases with a time limit, tasks. A program defines _GNU_SOURCE before it includes this. */
#ifndef CHECK_H
#define CHECK_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "gpusched.h"

static int failures;

/* Increments a number that several threads use; returns its new value. */
static inline int add(int *number) { return __atomic_add_fetch(number, 1, __ATOMIC_SEQ_CST); }

static inline int get(const int *number) { return __atomic_load_n(number, __ATOMIC_SEQ_CST); }

static inline void until(const int *number, int least) {
  while (get(number) < least) usleep(500);
}

static inline int check_at(int line, int holds, const char *what) {
  if (holds) return 1;
  /* First: to print is a cancellation point. */
  add(&failures);
  fprintf(stderr, "line %d: %s (%s)\n", line, what, sched_last_error());
  return 0;
}

/* Reports a condition that does not hold, with the last error, and counts it; goes on. */
#define CHECK(what) check_at(__LINE__, what, #what)
#define EXPECT(status, call) CHECK((call) == (status))
#define OK(call) EXPECT(SCHED_OK, call)
/* The last call has failed with a message that contains `words`. */
#define SAYS(words) CHECK(strstr(sched_last_error(), words) != NULL)

static volatile sig_atomic_t seconds_left;

static inline void on_tick(int signal) {
  static const char words[] = "out of time\n";
  (void)signal;
  if (--seconds_left > 0) return;
  _exit(write(2, words, sizeof words - 1) < 0 ? 2 : 142);
}

/* Ends the process with 142 after `seconds` ticks of its timer. Ticks that come while the process
 * is stopped count as one. A child of fork has to call it again. */
static inline void within(int seconds) {
  struct sigaction action;
  struct itimerval every = {{1, 0}, {1, 0}};
  memset(&action, 0, sizeof action);
  action.sa_handler = on_tick;
  action.sa_flags = SA_RESTART;
  seconds_left = seconds;
  if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &every, NULL)) _exit(2);
}

struct test_case {
  const char *name;
  void (*run)(void);
};
#define CASE(name) {#name, name}

/* Runs the case that the first argument names, of a list that an empty row ends. */
static inline int run_case(char **argv, const struct test_case *cases) {
  within(60);
  for (; cases->name; cases++) {
    if (!argv[1] || strcmp(argv[1], cases->name)) continue;
    cases->run();
    return get(&failures) != 0;
  }
  fprintf(stderr, "usage: %s CASE\n", argv[0]);
  return 2;
}

static inline int32_t counts(const sched_exec_t *exec, void *user) {
  (void)exec;
  add((int *)user);
  return 0;
}

static inline int32_t count_piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec;
  __atomic_fetch_add((int *)user, (int)(end - begin), __ATOMIC_SEQ_CST);
  return 0;
}

/* Runs until it is asked to stop. Increments the number `user` first. */
static inline int32_t lasts(const sched_exec_t *exec, void *user) {
  add((int *)user);
  while (sched_exec_cancelled(exec) == 0) usleep(500);
  return SCHED_CANCELLED;
}

static inline int32_t fails(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return 77;
}

static inline sched_t *scheduler(uint32_t slots) {
  sched_config_t config;
  sched_t *s = NULL;
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.devices = "cpu";
  config.slots = config.cpu_threads = slots;
  OK(sched_create(&config, &s));
  return s;
}

static inline sched_task_desc_t task(sched_run_fn run, void *user) {
  sched_task_desc_t desc;
  memset(&desc, 0, sizeof desc);
  desc.size = sizeof desc;
  desc.run = run;
  desc.user = user;
  return desc;
}

static inline sched_task_t submit(sched_t *s, sched_task_desc_t desc) {
  sched_task_t id = 0;
  OK(sched_submit(s, &desc, &id));
  return id;
}

static inline sched_task_t submitted(sched_t *s, sched_run_fn run, void *user) { return submit(s, task(run, user)); }

/* A light task if `work` is 0. */
static inline sched_task_t submit_work(sched_t *s, sched_run_fn run, void *user, double work) {
  sched_task_desc_t desc = task(run, user);
  desc.work = work;
  return submit(s, desc);
}

static inline sched_status_t wait_for(sched_t *s, sched_task_t id) { return sched_wait(s, id, SCHED_FOREVER); }

#endif
