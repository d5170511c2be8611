/* Parallel loops from C: every element once, whatever happens to the pieces.
 * A wait that would hang ends the program by its alarm. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpusched.h"

enum { N = 5000 };

typedef struct {
  atomic_int times[N], calls, drops, largest;
  uint64_t most; /* More than this does not fit. */
  uint64_t bad;  /* This element fails. */
  sched_t *s;
} loop_t;

static int failures;

static void check(int right, const char *what) {
  if (!right) fprintf(stderr, "%s: %s\n", what, sched_last_error());
  failures += !right;
}

static int32_t count(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  loop_t *loop = user;
  (void)exec;
  loop->calls++;
  if (loop->most && end - begin > loop->most) return SCHED_E_MEMORY;
  if (begin <= loop->bad && loop->bad < end) return 42;
  int size = (int)(end - begin), before = loop->largest;
  while (size > before && !atomic_compare_exchange_weak(&loop->largest, &before, size));
  for (uint64_t i = begin; i < end; i++) loop->times[i]++;
  return 0;
}

static void dropped(void *user) { ((loop_t *)user)->drops++; }

static void renew(loop_t *loop) {
  memset(loop, 0, sizeof *loop);
  loop->bad = UINT64_MAX;
}

static sched_range_desc_t over(loop_t *loop) {
  sched_range_desc_t desc = {.size = sizeof desc, .end = N, .run = count, .user = loop, .drop = dropped};
  return desc;
}

static int each(const loop_t *loop, int least, int most) {
  for (int i = 0; i < N; i++)
    if (loop->times[i] < least || loop->times[i] > most) return 0;
  return 1;
}

static int32_t run(sched_t *s, const sched_range_desc_t *desc) {
  sched_task_t id = 0;
  int32_t status = sched_submit_range(s, desc, &id);
  if (status == SCHED_OK) {
    status = sched_wait(s, id, SCHED_FOREVER);
    sched_release(s, id);
  }
  return status;
}

static void once_each(sched_t *s) {
  static loop_t loop;
  static const uint64_t grains[] = {0, 1, 7, N, UINT64_MAX};
  for (int i = 0; i < 5; i++) {
    renew(&loop);
    sched_range_desc_t desc = over(&loop);
    desc.grain = grains[i];
    check(run(s, &desc) == SCHED_OK && each(&loop, 1, 1), "every element once");
    check(loop.drops == 1, "drop once");
    check(!grains[i] || (uint64_t)loop.largest <= grains[i], "no call beyond the grain");
  }
  renew(&loop);
  loop.most = 3;
  sched_range_desc_t desc = over(&loop);
  desc.grain = 500;
  check(run(s, &desc) == SCHED_OK && each(&loop, 1, 1) && loop.largest == 3, "halved until it fits");
  renew(&loop);
  loop.bad = 1234;
  check(run(s, &(sched_range_desc_t){.size = sizeof desc, .end = N, .run = count, .user = &loop}) == SCHED_E_CALLBACK,
        "an element that fails");
  check(strstr(sched_last_error(), "elements ") && strstr(sched_last_error(), "42"), "its words");
  check(each(&loop, 0, 1), "at most once");
}

static int32_t returns(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)exec, (void)begin, (void)end;
  return *(int32_t *)user;
}

static void what_a_code_may_return(sched_t *s) {
  int32_t code = SCHED_CANCELLED;
  sched_range_desc_t desc = {.size = sizeof desc, .end = 3, .run = returns, .user = &code};
  check(run(s, &desc) == SCHED_CANCELLED, "a code that ends its loop");
  code = SCHED_E_DEVICE;
  sched_t *own = NULL;
  sched_create(NULL, &own);
  check(run(own, &desc) == SCHED_E_DEVICE, "a code that finds its device broken");
  sched_destroy(own);
}

static int32_t endless(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)begin, (void)end;
  atomic_int *calls = user;
  ++*calls;
  usleep(100);
  return sched_exec_cancelled(exec) > 0 ? SCHED_CANCELLED : 0;
}

static void cancelled_and_destroyed(void) {
  sched_t *s = NULL;
  sched_config_t config = {.size = sizeof config, .slots = 2};
  sched_task_t id = 0;
  sched_task_info_t info = {.size = sizeof info};
  atomic_int calls = 0;
  sched_range_desc_t desc = {.size = sizeof desc, .end = (uint64_t)1 << 40, .grain = 1, .run = endless, .user = &calls};
  check(sched_create(&config, &s) == SCHED_OK, "create");
  check(sched_submit_range(s, &desc, &id) == SCHED_OK && sched_cancel(s, id) == SCHED_OK, "cancel at once");
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_CANCELLED, "it ends as cancelled");
  check(sched_submit_range(s, &desc, &id) == SCHED_OK, "submit");
  for (calls = 0; calls < 10;) usleep(100);
  check(sched_task_info(s, id, &info) == SCHED_OK && info.progress > 0 && info.progress < 1e-6, "progress");
  check(sched_wait(s, id, 1000) == SCHED_PENDING, "it goes on");
  sched_cancel(s, id);
  check(sched_wait(s, id, SCHED_FOREVER) == SCHED_CANCELLED, "cancelled in the middle");
  desc.end = UINT64_MAX;
  desc.begin = 5;
  check(sched_submit_range(s, &desc, &id) == SCHED_OK, "submit again");
  for (calls = 0; calls < 10;) usleep(100);
  check(sched_destroy(s) == SCHED_OK, "destroyed in the middle");
  int then = calls;
  usleep(1000);
  check(then == calls, "nothing runs after that");
}

static int32_t nested(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  loop_t *loop = user;
  for (uint64_t i = begin; i < end; i++) {
    sched_range_desc_t desc = {.size = sizeof desc, .begin = i * 50, .end = i * 50 + 50, .run = count, .user = loop};
    if (sched_wait(loop->s, exec->task, SCHED_FOREVER) != SCHED_E_DEADLOCK) return 1;
    int32_t status = run(loop->s, &desc);
    if (status) return status;
  }
  return 0;
}

static void *one_of_many(void *s) {
  loop_t *loop = malloc(sizeof *loop);
  for (int i = 0; i < 5; i++) {
    renew(loop);
    sched_range_desc_t desc = over(loop);
    loop->s = s;
    if (i % 2) desc.run = nested, desc.end = N / 50;
    check(run(s, &desc) == SCHED_OK && each(loop, 1, 1) && loop->drops == 1, "a loop among others");
  }
  free(loop);
  return NULL;
}

static void many_at_once(sched_t *s) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, one_of_many, s);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  alarm(120);
  for (uint32_t slots = 1; slots <= 3; slots++) {
    sched_t *s = NULL;
    sched_config_t config = {.size = sizeof config, .slots = slots};
    check(sched_create(&config, &s) == SCHED_OK, "create");
    once_each(s);
    what_a_code_may_return(s);
    many_at_once(s);
    check(sched_destroy(s) == SCHED_OK, "destroy");
  }
  cancelled_and_destroyed();
  printf("%d failures\n", failures);
  return failures != 0;
}
