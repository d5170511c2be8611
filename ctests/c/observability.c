/* Progress is told from a thread of the library, a trace is written, and neither outlives the scheduler. */
#define _DEFAULT_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"
#include "check.h"

static atomic_int calls, inside, together, refused, go;

typedef struct {
  sched_t *s;
  int unset;
} listener_t;

static void listen(const sched_progress_t *progress, void *user) {
  listener_t *listener = user;
  sched_progress_t own = {.size = sizeof own};
  if (atomic_fetch_add(&inside, 1) != 0) atomic_store(&together, 1);
  if (progress->size >= sizeof own && sched_progress(listener->s, &own) == SCHED_OK &&
      own.done >= progress->done && sched_destroy(listener->s) == SCHED_E_DEADLOCK) {
    atomic_store(&refused, 1);
  }
  if (listener->unset && sched_progress_callback(listener->s, NULL, NULL, 0) != SCHED_OK) atomic_store(&together, 1);
  usleep(2000);
  atomic_fetch_sub(&inside, 1);
  atomic_fetch_add(&calls, 1);
}

static int32_t wait_for_go(const sched_exec_t *exec, void *user) {
  (void)user;
  while (!atomic_load(&go) && sched_exec_cancelled(exec) == 0) usleep(1000);
  return 0;
}

static int come(int count) {
  for (int tries = 0; tries < 20000 && atomic_load(&calls) < count; tries++) usleep(1000);
  return atomic_load(&calls) >= count;
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2, .trace_events = 1000};
  sched_t *s = NULL;
  CHECK(sched_create(&config, &s) == SCHED_OK);
  listener_t listener = {s, 0};
  CHECK(sched_progress_callback(s, listen, &listener, 1000000) == SCHED_OK);
  sched_task_desc_t desc = {.size = sizeof desc, .run = wait_for_go, .work = 2.5, .label = "a \"task\""};
  sched_task_t id[3];
  for (int i = 0; i < 3; i++) CHECK(sched_submit(s, &desc, &id[i]) == SCHED_OK);
  CHECK(come(3) && refused && !together);

  /* Unset: it does not run, and does not come again. */
  CHECK(sched_progress_callback(s, NULL, NULL, 0) == SCHED_OK);
  CHECK(inside == 0);
  int before = calls;
  usleep(20000);
  CHECK(calls == before);

  /* Unset from inside. */
  listener.unset = 1;
  CHECK(sched_progress_callback(s, listen, &listener, 1000000) == SCHED_OK);
  CHECK(come(before + 1));
  usleep(20000);
  CHECK(calls == before + 1 && !together);

  go = 1;
  CHECK(sched_wait_all(s, SCHED_FOREVER) == SCHED_OK);
  sched_progress_t progress = {.size = sizeof progress};
  CHECK(sched_progress(s, &progress) == SCHED_OK);
  CHECK(progress.done == 3 && progress.queued == 0 && progress.eta_ns == 0);
  CHECK(progress.work_total == 7.5 && progress.work_done == 7.5);
  sched_stats_t stats = {.size = sizeof stats};
  CHECK(sched_stats(s, &stats) == SCHED_OK);
  CHECK(stats.lower_bound_ns > 0 && stats.lower_bound_ns <= stats.makespan_ns);
  CHECK(sched_trace_write(s, argv[1]) == SCHED_OK);

  /* Destroyed while it is set. */
  listener.unset = 0;
  CHECK(sched_progress_callback(s, listen, &listener, 1000000) == SCHED_OK);
  CHECK(come(before + 3));
  CHECK(sched_destroy(s) == SCHED_OK);
  CHECK(inside == 0);
  before = calls;
  usleep(20000);
  CHECK(calls == before);
  CHECK(sched_progress(s, &progress) == SCHED_E_STALE);
  return 0;
}
