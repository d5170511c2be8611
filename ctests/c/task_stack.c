/* Every task has the stack that its scheduler promises, also as a nested task.
 *
 *     task_stack OUTER_KIB INNER_KIB STACK_KIB NESTED
 *
 * A task uses OUTER_KIB of stack, and waits for one that uses INNER_KIB. STACK_KIB: stack_bytes, 0
 * for the default. NESTED: 1 if both have to run on one thread, 0 if on two, -1 if either will do.
 *
 *     task_stack chain DEPTH KIB    DEPTH tasks, each of which uses KIB and waits for the next one */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>

#include "check.h"

typedef struct {
  size_t bytes;
  int left; /* Tasks still to be submitted, each by the one before it. */
  pthread_t thread;
} step_t;

/* glibc puts thread-local variables on each thread's stack: they must not count against a task. */
static _Thread_local volatile char locals[6 << 20];

static sched_t *s;
static step_t *steps;
static int runs;

/* Writes to every page of `bytes` of stack, then submits the next task and waits for it. */
static int32_t use_stack(const sched_exec_t *exec, void *user) {
  (void)exec;
  step_t *step = user;
  volatile char *room = alloca(step->bytes + 1);
  for (size_t at = 0; at < step->bytes; at += 1024) room[at] = 1;
  room[step->bytes] = 1;
  locals[0] = 1;
  step->thread = pthread_self();
  add(&runs);
  if (step->left == 0) return 0;
  sched_task_t id = submitted(s, use_stack, step + 1);
  const int has_ended = OK(wait_for(s, id));
  sched_release(s, id);
  return has_ended && room[step->bytes] == 1 ? 0 : 1;
}

static void run_chain(int count, uint64_t stack_bytes) {
  sched_config_t config = {.size = sizeof config, .slots = 1, .cpu_threads = 1};
  config.stack_bytes = stack_bytes;
  OK(sched_create(&config, &s));
  OK(wait_for(s, submitted(s, use_stack, steps)));
  CHECK(runs == count);
  OK(sched_destroy(s));
}

int main(int argc, char **argv) {
  within(100);
  CHECK(argc == 4 || argc == 5);
  const int is_chain = strcmp(argv[1], "chain") == 0;
  const int count = is_chain ? atoi(argv[2]) : 2;
  steps = calloc((size_t)count, sizeof *steps);
  for (int i = 0; i < count; i++) {
    steps[i].left = count - 1 - i;
    steps[i].bytes = strtoul(argv[is_chain ? 3 : 1 + i], NULL, 10) << 10;
  }
  run_chain(count, is_chain ? 0 : strtoull(argv[3], NULL, 10) << 10);
  if (!is_chain) {
    const int nested = atoi(argv[4]);
    CHECK(nested < 0 || pthread_equal(steps[0].thread, steps[1].thread) == nested);
  }
  free(steps);
  return failures != 0;
}
