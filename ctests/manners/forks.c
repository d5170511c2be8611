/* A process with a scheduler forks. */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "manners.h"

static int ran;

/* Whether a child that runs `code` ends in time, and with 0. */
static int child_ends(void (*code)(sched_t *), sched_t *s) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    code(s);
    _exit(failures != 0);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static sched_t *used(void) {
  sched_t *s = scheduler(2);
  check(sched_wait(s, submitted(s, counts, &ran), SCHED_FOREVER) == SCHED_OK, "a task before the fork");
  check(sched_wait(NULL, submitted(NULL, counts, &ran), SCHED_FOREVER) == SCHED_OK, "and one of the default");
  submitted(s, lasts, &ran);
  until(&ran, 3);
  return s;
}

static void submits(sched_t *s) {
  sched_task_desc_t desc = task(counts, &ran);
  sched_t *own = NULL, *shared = NULL;
  sched_task_t id = 0;
  check(sched_submit(s, &desc, &id) == SCHED_E_FORKED, "submit in the child");
  check(sched_wait_all(s, SCHED_FOREVER) == SCHED_E_FORKED, "wait in the child");
  check(sched_wait_next(s, SCHED_FOREVER, &id) == SCHED_E_FORKED, "wait for the next in the child");
  check(sched_shutdown(s, SCHED_FOREVER) == SCHED_E_FORKED, "end in the child");
  check(sched_submit(NULL, &desc, &id) == SCHED_E_FORKED, "the default in the child");
  check(sched_default(&shared) == SCHED_E_FORKED, "a share of the default in the child");
  own = scheduler(1);
  check(sched_wait(own, submitted(own, counts, &ran), SCHED_FOREVER) == SCHED_OK, "a scheduler of its own");
  check(sched_destroy(own) == SCHED_OK, "its end");
}

static void child_submits(void) { check(child_ends(submits, used()), "the child"); }

static void parent_goes_on(void) {
  sched_t *s = used();
  check(child_ends(submits, s), "the child");
  check(sched_wait(s, submitted(s, counts, &ran), SCHED_FOREVER) == SCHED_OK, "a task after the fork");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

static void exits(sched_t *s) {
  (void)s;
  exit(failures);
}

static void child_exits(void) {
  sched_t *s = used();
  check(child_ends(exits, s), "the child");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

int main(int argc, char **argv) {
  const struct named cases[] = {
      {"fork_child_submit", child_submits},
      {"fork_parent_after", parent_goes_on},
      {"fork_child_exit", child_exits},
  };
  return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
