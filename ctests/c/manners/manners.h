/* What the programs here share. Each runs one case, named by its argument; it ends with 0 if the
 * answer was the documented one, and with 142 if a call hangs. */
#ifndef MANNERS_H
#define MANNERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"
#include "within.h"

static int failures;

static void check(int right, const char *what) {
  if (!right) fprintf(stderr, "not as promised: %s (%s)\n", what, sched_last_error());
  failures += !right;
}

struct named {
  const char *name;
  void (*run)(void);
};

static int run_case(int argc, char **argv, const struct named *cases, size_t count) {
  within(20);
  for (size_t i = 0; i < count; i++) {
    if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
      cases[i].run();
      return failures != 0;
    }
  }
  fprintf(stderr, "usage: %s CASE\n", argv[0]);
  return 2;
}

/* Adds one to the number that `user` points to. */
static int32_t counts(const sched_exec_t *exec, void *user) {
  (void)exec;
  __atomic_fetch_add((int *)user, 1, __ATOMIC_SEQ_CST);
  return 0;
}

/* Runs until it is asked to stop, or for ten seconds. */
static int32_t lasts(const sched_exec_t *exec, void *user) {
  if (user != NULL) __atomic_fetch_add((int *)user, 1, __ATOMIC_SEQ_CST);
  for (int i = 0; i < 10000 && sched_exec_cancelled(exec) == 0; i++) usleep(1000);
  return 0;
}

static sched_task_desc_t task(sched_run_fn run, void *user) {
  sched_task_desc_t desc;
  memset(&desc, 0, sizeof desc);
  desc.size = sizeof desc;
  desc.run = run;
  desc.user = user;
  return desc;
}

static sched_t *scheduler(uint32_t slots) {
  sched_config_t config;
  sched_t *s = NULL;
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.devices = "cpu";
  config.slots = slots;
  config.cpu_threads = 1;
  check(sched_create(&config, &s) == SCHED_OK, "create");
  return s;
}

static sched_task_t submitted(sched_t *s, sched_run_fn run, void *user) {
  sched_task_desc_t desc = task(run, user);
  sched_task_t id = 0;
  check(sched_submit(s, &desc, &id) == SCHED_OK, "submit");
  return id;
}

/* Waits until the number is so large. */
static void until(int *number, int large) {
  while (__atomic_load_n(number, __ATOMIC_SEQ_CST) < large) usleep(1000);
}

/* Not every program uses every helper. */
static inline void manners_used(void) {
  (void)run_case, (void)counts, (void)lasts, (void)task, (void)scheduler, (void)submitted, (void)until;
}

#endif
