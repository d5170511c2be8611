/* The header as the rudest user includes it: alone, twice, beside the other sched_ functions. */
#include "gpusched.h"
#include "gpusched.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static int32_t run(const sched_exec_t *exec, void *user) {
  return exec != NULL && user != NULL ? 0 : SCHED_E_CALLBACK;
}

int main(void) {
  cpu_set_t set; /* glibc's */
  sched_task_desc_t desc;
  memset(&desc, 0, sizeof desc);
  desc.run = run;
  CPU_ZERO(&set);
  sched_yield();
  return desc.run(NULL, NULL) == SCHED_E_CALLBACK ? 0 : 1;
}
