/* Includes the header under hard conditions: alone, twice, beside the other sched_ functions. */
#include "gpusched.h"
#include "gpusched.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static int32_t run(const sched_exec_t *exec, void *user) {
  return exec != NULL && user != NULL ? 0 : SCHED_E_CALLBACK;
}

int main(void) {
  cpu_set_t set; /* of glibc */
#ifdef __cplusplus
  sched_task_desc_t desc;
  memset(&desc, 0, sizeof desc);
#else
  static const sched_config_t config = SCHED_INIT(sched_config_t);
  sched_task_desc_t desc = SCHED_INIT(sched_task_desc_t);
  if (config.size != sizeof config || desc.size != sizeof desc || SCHED_VERSION_MAJOR < 0) return 1;
#endif
  desc.run = run;
  CPU_ZERO(&set);
  sched_yield();
  return desc.run(NULL, NULL) == SCHED_E_CALLBACK ? 0 : 1;
}
