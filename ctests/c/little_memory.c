/* Calls of a process that may have too little memory for them. */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "check.h"

enum { COUNT = 1 << 18 };

static int dropped;

static void drop(void *user) {
  (void)user;
  dropped++;
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

/* The first copy of the list, or the second one, finds no memory. Each `drop` is called once. */
static void submits_a_list(void) {
  sched_t *s = scheduler(1);
  sched_task_desc_t *descs = calloc(COUNT, sizeof *descs);
  sched_task_t *ids = calloc(COUNT, sizeof *ids);
  CHECK(descs && ids);
  for (int i = 0; i < COUNT; i++) {
    descs[i] = task(fails, NULL);
    descs[i].drop = drop;
  }
  for (int copies = 0; copies < 2; copies++) {
    dropped = 0;
    leave((2 << 20) + copies * COUNT * sizeof *descs);
    EXPECT(SCHED_E_MEMORY, sched_submit_many(s, descs, COUNT, ids));
    leave(0);
    SAYS(copies ? "a copy of the tasks" : "a copy of sched_task_desc_t");
    CHECK(dropped == COUNT);
  }
  descs[COUNT - 1].size = 0;
  dropped = 0;
  leave(2 << 20);
  EXPECT(SCHED_E_ARGUMENT, sched_submit_many(s, descs, COUNT, ids));
  leave(0);
  CHECK(dropped == 0);
  OK(sched_destroy(s));
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {CASE(submits_a_list), {NULL, NULL}};
  (void)argc;
  return run_case(argv, cases);
}
