/* The library is unloaded while tasks run, and after they have. It is found by name, so nothing of it
 * is linked here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"
#include "within.h"

static int failures, ran;
static void *library;

static void check(int right, const char *what) {
  if (!right) fprintf(stderr, "not as promised: %s\n", what);
  failures += !right;
}

static void open_library(void) {
  library = dlopen("libgpusched.so", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(2);
  }
}

/* A function of the library, under its own name. */
#define FIND(function) \
  __typeof__(function) *function = NULL; \
  find((void **)&function, #function)

static void find(void **function, const char *name) {
  *function = dlsym(library, name);
  check(*function != NULL, name);
}

static int32_t slowly(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  usleep(20000);
  __atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static sched_t *with_tasks(int count) {
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2, .cpu_threads = 1};
  sched_task_desc_t desc = {.size = sizeof desc, .run = slowly, .flags = SCHED_TASK_DETACHED};
  sched_t *s = NULL;
  FIND(sched_create);
  FIND(sched_submit);
  check(sched_create(&config, &s) == SCHED_OK, "create");
  for (int i = 0; i < count; i++) check(sched_submit(s, &desc, NULL) == SCHED_OK, "submit");
  return s;
}

static void finish(sched_t *s) {
  FIND(sched_drain);
  FIND(sched_destroy);
  check(sched_drain(s, SCHED_FOREVER) == SCHED_OK, "drain");
  check(sched_destroy(s) == SCHED_OK, "destroy");
}

int main(int argc, char **argv) {
  within(20);
  open_library();
  if (argc == 2 && strcmp(argv[1], "dlclose_while_running") == 0) {
    sched_t *s = with_tasks(20);
    check(dlclose(library) == 0, "dlclose");
    /* Nobody looks after them, and they run to their end. */
    while (__atomic_load_n(&ran, __ATOMIC_SEQ_CST) < 20) usleep(1000);
    open_library();
    finish(s);
  } else if (argc == 2 && strcmp(argv[1], "dlclose_after_destroy") == 0) {
    finish(with_tasks(4));
    check(dlclose(library) == 0, "dlclose");
    usleep(50000);
    open_library();
    finish(with_tasks(4));
    check(ran == 8, "every task ran");
  } else {
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
  }
  return failures != 0;
}
