/* A parallel loop: the chunks of a range run on all devices, each element once. */
#include <stdio.h>
#include <stdlib.h>

#include "gpusched.h"

enum { COUNT = 100000 };

/* Runs for several chunks at the same time; each writes to its own elements. */
static int32_t square(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  double *squares = user;
  for (uint64_t i = begin; i < end; i++) squares[i] = (double)i * (double)i;
  return sched_exec_cancelled(exec) > 0 && end < COUNT ? SCHED_CANCELLED : SCHED_OK;
}

int main(void) {
  double *squares = calloc(COUNT, sizeof *squares), sum = 0;
  /* `grain` 0: the size of the chunks is tuned automatically. NULL: the process's scheduler. */
  sched_range_desc_t range = {.size = sizeof range, .end = COUNT, .run = square, .user = squares};
  sched_task_t id;
  if (!squares || sched_submit_range(NULL, &range, &id) < 0 || sched_wait(NULL, id, SCHED_FOREVER) != SCHED_OK) {
    fprintf(stderr, "%s\n", sched_last_error());
    return 1;
  }
  sched_release(NULL, id);
  for (int i = 0; i < COUNT; i++) sum += squares[i];
  printf("sum of squares: %.0f\n", sum);
  free(squares);
  return 0;
}
