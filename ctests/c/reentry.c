/* Callbacks that call the library: a log function, a drop function. */
#define _GNU_SOURCE
#include <pthread.h>

#include "check.h"

static sched_t *s;
static sched_task_t behind;
static int ran, logged, drops, known;

static void on_log(int32_t level, const char *message, void *user) {
  (void)level, (void)message, (void)user;
  sched_stats_t stats = {.size = sizeof stats};
  if (OK(sched_stats(s, &stats))) add(&logged);
}

/* The drop of a task that has run is still inside that task. */
static void drop_destroys(void *user) {
  (void)user;
  EXPECT(SCHED_E_DEADLOCK, sched_destroy(s));
  EXPECT(SCHED_E_DEADLOCK, sched_drain(s, SCHED_FOREVER));
  add(&drops);
}

/* The drop has the only slot, and the task that it waits for needs one. */
static void drop_waits(void *user) {
  (void)user;
  until(&known, 1);
  OK(wait_for(s, behind));
  submitted(s, counts, &ran);
  add(&drops);
}

static int32_t detaches(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return pthread_detach(pthread_self());
}

int main(void) {
  within(100);
  s = scheduler(1);
  sched_task_desc_t desc = task(fails, NULL);
  desc.retries = 1;
  OK(sched_log_callback(on_log, NULL, 5));
  EXPECT(SCHED_E_CALLBACK, wait_for(s, submit(s, desc)));
  CHECK(logged >= 2);
  OK(sched_log_callback(NULL, NULL, 0));

  desc = task(counts, &ran);
  desc.drop = drop_destroys;
  OK(wait_for(s, submit(s, desc)));
  CHECK(drops == 1);

  desc.drop = drop_waits;
  sched_task_t id = submit(s, desc);
  behind = submitted(s, counts, &ran);
  add(&known);
  OK(wait_for(s, id));
  CHECK(drops == 2);
  OK(sched_wait_all(s, SCHED_FOREVER));
  CHECK(ran == 4);
  OK(wait_for(s, submitted(s, detaches, NULL)));
  OK(sched_destroy(s));
  return failures != 0;
}
