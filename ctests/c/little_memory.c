/* Calls of a process that may have too little memory for them. */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"

enum { COUNT = 1 << 18 };

static int dropped, ran;

static void drop(void *user) {
  (void)user;
  add(&dropped);
}

/* Sets the limit on the address space to `bytes` more than is used; 0: none. */
static void leave(size_t bytes) {
  struct rlimit limit;
  unsigned long pages = 0;
  FILE *used = fopen("/proc/self/statm", "r");
  CHECK(used && fscanf(used, "%lu", &pages) == 1);
  if (used) fclose(used);
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = bytes ? pages * (size_t)sysconf(_SC_PAGESIZE) + bytes : limit.rlim_max;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* The list of tasks finds no memory. Each `drop` is called once. */
static void submits_a_list(void) {
  sched_t *s = scheduler(1);
  sched_task_desc_t *descs = calloc(COUNT, sizeof *descs);
  sched_task_t *ids = calloc(COUNT, sizeof *ids);
  CHECK(descs && ids);
  for (int i = 0; i < COUNT; i++) {
    descs[i] = task(fails, NULL);
    descs[i].drop = drop;
  }
  dropped = 0;
  leave(2 << 20);
  EXPECT(SCHED_E_MEMORY, sched_submit_many(s, descs, COUNT, ids));
  leave(0);
  SAYS("a copy of the tasks");
  CHECK(dropped == COUNT);
  descs[COUNT - 1].size = 0;
  dropped = 0;
  leave(2 << 20);
  EXPECT(SCHED_E_ARGUMENT, sched_submit_many(s, descs, COUNT, ids));
  leave(0);
  CHECK(dropped == 0);
  OK(sched_destroy(s));
}

static void waits_for_a_list_and_makes_a_wavelet(void) {
  enum { STEPS = 2 << 20 };
  sched_t *s = scheduler(1);
  sched_task_t *ids = calloc(COUNT, sizeof *ids);
  float *samples = calloc(STEPS, sizeof *samples);
  size_t index = 0;
  CHECK(ids && samples);
  leave(1 << 20);
  EXPECT(SCHED_E_MEMORY, sched_wait_any(s, ids, COUNT, 0, &index));
  SAYS("a copy of ids");
  EXPECT(SCHED_E_MEMORY, sched_fd_wavelet(0, 20, 1e-7f, samples, STEPS));
  leave(0);
  SAYS("a wavelet");
  OK(sched_destroy(s));
}

static void submit_beside(size_t bytes, sched_task_desc_t *descs, sched_task_t *ids, int count) {
  sched_t *s = scheduler(1);
  leave(bytes);
  sched_status_t status = sched_submit_many(s, descs, count, ids);
  leave(0);
  CHECK(status == SCHED_OK || status == SCHED_E_MEMORY);
  OK(sched_destroy(s));
  CHECK(dropped == count);
}

/* Whatever allocation finds no memory: all tasks are submitted, or none is. */
static void submits_lists_with_less_and_less(void) {
  enum { SHORT = COUNT / 4 };
  sched_task_desc_t *descs = calloc(SHORT, sizeof *descs);
  sched_task_t *ids = calloc(SHORT, sizeof *ids);
  int accepted = 0, refused = 0;
  CHECK(descs && ids);
  for (int planned = 0; planned < 2; planned++)
    for (size_t megabytes = 2; megabytes <= 130; megabytes += 2) {
      for (int i = 0; i < SHORT; i++) {
        descs[i] = task(counts, &ran);
        descs[i].drop = drop;
        descs[i].work = planned;
      }
      int status = -1;
      pid_t child = fork();
      if (child == 0) {
        within(60), failures = 0;
        submit_beside(megabytes << 20, descs, ids, SHORT);
        _exit(failures ? 1 : *sched_last_error() ? 3 : 0);
      }
      CHECK(waitpid(child, &status, 0) == child);
      if (!WIFEXITED(status) || WEXITSTATUS(status) == 1)
        fprintf(stderr, "%zu MB for %s tasks: wait status %#x\n", megabytes, planned ? "planned" : "light", status);
      CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 1);
      accepted += WIFEXITED(status) && WEXITSTATUS(status) == 0;
      refused += WIFEXITED(status) && WEXITSTATUS(status) == 3;
    }
  CHECK(accepted >= 10 && refused >= 10);
}

/* A task comes after many that have not ended. */
static void submits_a_task_after_many(void) {
  sched_task_desc_t *descs = calloc(COUNT, sizeof *descs), last = task(counts, &ran);
  sched_task_t *ids = calloc(COUNT, sizeof *ids), id = 0;
  CHECK(descs && ids);
  last.after = ids, last.after_count = COUNT;
  for (size_t megabytes = 1; megabytes <= 33; megabytes += 4) {
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
      within(60), failures = 0;
      sched_t *s = scheduler(1);
      for (int i = 0; i < COUNT; i++) descs[i] = task(lasts, &ran), descs[i].work = 1;
      OK(sched_submit_many(s, descs, COUNT, ids));
      leave(megabytes << 20);
      sched_status_t submitted = sched_submit(s, &last, &id);
      leave(0);
      CHECK(submitted == SCHED_OK || submitted == SCHED_E_MEMORY);
      OK(sched_destroy(s));
      _exit(failures ? 1 : 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      CASE(submits_a_list), CASE(submits_lists_with_less_and_less), CASE(submits_a_task_after_many),
      CASE(waits_for_a_list_and_makes_a_wavelet), {NULL, NULL}};
  (void)argc;
  return run_case(argv, cases);
}
