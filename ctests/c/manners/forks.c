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
    within(10);
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

/* What becomes of a child that a task has forked and that goes on as its parent would. */
struct forker {
  int children, bad, waits;
};

static int32_t forks(const sched_exec_t *exec, void *user) {
  struct forker *told = user;
  pid_t child;
  (void)exec;
  if (told->waits) {
    struct forker inner = {0, 0, 0};
    sched_task_t id = submitted(NULL, forks, &inner);
    sched_wait(NULL, id, SCHED_FOREVER);
    told->children += inner.children;
    told->bad += inner.bad;
  }
  child = fork();
  if (child == 0) {
    within(10);
    return 0;
  }
  if (child > 0) {
    int status = -1;
    waitpid(child, &status, 0);
    told->children += 1;
    told->bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  return 0;
}

/* The task itself has counted one. */
static void forks_away(void *user) { forks(NULL, user); }

static void task_forks(void) {
  struct forker simple = {0, 0, 0}, nested = {0, 0, 1}, dropped = {0, 0, 0};
  sched_t *s = scheduler(2);
  sched_task_desc_t desc = task(counts, &dropped);
  sched_task_t id = 0;
  int others = 0;
  for (int i = 0; i < 1000; i++) sched_release(s, submitted(s, counts, &others));
  check(sched_wait(s, submitted(s, forks, &simple), SCHED_FOREVER) == SCHED_OK, "a task that forks");
  check(simple.children == 1 && simple.bad == 0, "its child ends when the task's code returns");
  check(sched_wait(NULL, submitted(NULL, forks, &nested), SCHED_FOREVER) == SCHED_OK, "one on top of another");
  check(nested.children == 2 && nested.bad == 0, "both children end");
  desc.drop = forks_away;
  check(sched_submit(s, &desc, &id) == SCHED_OK && sched_wait(s, id, SCHED_FOREVER) == SCHED_OK, "a drop that forks");
  check(sched_destroy(s) == SCHED_OK, "destroy");
  check(dropped.children == 2 && dropped.bad == 0, "its child ends");
}

int main(int argc, char **argv) {
  const struct named cases[] = {
      {"fork_child_submit", child_submits},
      {"fork_parent_after", parent_goes_on},
      {"fork_child_exit", child_exits},
      {"fork_in_task", task_forks},
  };
  return run_case(argc, argv, cases, sizeof cases / sizeof *cases);
}
