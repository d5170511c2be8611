/* The caller's code calls back into the library from where it stands: a log function, a drop callback;
 * and it finds the stack that it is used to.
 * A call that would hang ends the program by its alarm. */
#define _DEFAULT_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"

static sched_t *s;
static atomic_int logged, drops, destroyed, drained, waited, submitted;
static _Atomic sched_task_t behind;
static int failures;

static void check(int right, const char *what) {
  if (!right) fprintf(stderr, "%s: %s\n", what, sched_last_error());
  failures += !right;
}

static int32_t well(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return 0;
}

static int32_t badly(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return 7;
}

/* As much on the stack as the main thread would allow. */
static int32_t deeply(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  volatile char room[6 << 20];
  for (size_t at = 0; at < sizeof room; at += 4096) room[at] = 1;
  return room[0] - 1;
}

/* Asks the scheduler that logs. */
static void on_log(int32_t level, const char *message, void *user) {
  (void)level, (void)message, (void)user;
  sched_stats_t stats = {.size = sizeof stats};
  if (sched_stats(s, &stats) == SCHED_OK) logged++;
}

static void drop_destroys(void *user) {
  (void)user;
  destroyed = sched_destroy(s);
  drained = sched_drain(s, SCHED_FOREVER);
  drops++;
}

static void drop_uses(void *user) {
  (void)user;
  while (!behind) usleep(1000);
  waited = sched_wait(s, behind, SCHED_FOREVER);
  sched_task_desc_t desc = {.size = sizeof desc, .run = well, .flags = SCHED_TASK_DETACHED};
  submitted = sched_submit(s, &desc, NULL);
  drops++;
}

int main(void) {
  alarm(100);
  sched_config_t config = {.size = sizeof config, .slots = 1, .cpu_threads = 1};
  check(sched_create(&config, &s) == SCHED_OK, "create");

  /* A failed attempt and a failure are logged by a worker. */
  sched_task_t id = 0;
  sched_task_desc_t desc = {.size = sizeof desc, .run = badly, .retries = 1};
  check(sched_log_callback(on_log, NULL, 5) == SCHED_OK, "a log function");
  check(sched_submit(s, &desc, &id) == SCHED_OK, "a task that fails");
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_E_CALLBACK, "its failure");
  check(logged >= 2, "what the log function asked");
  check(sched_log_callback(NULL, NULL, 0) == SCHED_OK, "no log function");

  /* The drop of a task that has run is still inside that task. */
  desc = (sched_task_desc_t){.size = sizeof desc, .run = well, .drop = drop_destroys};
  check(sched_submit(s, &desc, &id) == SCHED_OK, "a task whose drop destroys");
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "its end");
  check(drops == 1 && destroyed == SCHED_E_DEADLOCK && drained == SCHED_E_DEADLOCK, "destroy in a drop");

  /* The only slot is the drop's, and the task that it waits for needs one. */
  desc.drop = drop_uses;
  check(sched_submit(s, &desc, &id) == SCHED_OK, "a task whose drop waits");
  sched_task_desc_t later = {.size = sizeof later, .run = well};
  sched_task_t other = 0;
  check(sched_submit(s, &later, &other) == SCHED_OK, "the task that it waits for");
  behind = other;
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "its end");
  check(drops == 2 && waited == SCHED_OK && submitted == SCHED_OK, "calls in a drop");

  desc = (sched_task_desc_t){.size = sizeof desc, .run = deeply};
  check(sched_submit(s, &desc, &id) == SCHED_OK, "a task with a deep stack");
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "its end");

  check(sched_destroy(s) == SCHED_OK, "destroy");
  return failures != 0;
}
