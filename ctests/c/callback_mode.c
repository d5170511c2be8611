/* The floating-point mode of a task's callbacks is that of the thread that submitted it.
 *
 * Usage: PROGRAM CASE. A case ends with 0, or with 1 after it has reported what differs. */
#define _GNU_SOURCE
#include <pthread.h>

#include "callback_mode.h"

/* Labelled and unlabelled tasks, in the mode `mode`, the first one labelled if `first` is 1. */
static int submitted_one_by_one(enum mode mode, int first, int detached) {
  struct body bodies[TASKS] = {0};
  begun = 0;
  set(mode);
  sched_t *s = created();
  for (int i = 0; i < TASKS; i++) {
    sched_task_desc_t desc = task(&bodies[i], (i % 2 == 0) == first ? "labelled" : NULL);
    desc.run = run_together;
    desc.flags = detached ? SCHED_TASK_DETACHED : 0;
    sched_task_t id;
    CHECK(sched_submit(s, &desc, detached ? NULL : &id) == SCHED_OK);
    CHECK(same(see(), expected(mode)));
  }
  CHECK(sched_wait_all(s, SCHED_FOREVER) == SCHED_OK);
  CHECK(same(see(), expected(mode)));
  CHECK(sched_destroy(s) == SCHED_OK);
  CHECK(same(see(), expected(mode)));
  int slots[2] = {0};
  for (int i = 0; i < TASKS; i++) {
    CHECK(bodies[i].ran == 1 && bodies[i].dropped == 1);
    slots[bodies[i].slot]++;
  }
  CHECK(slots[0] && slots[1]);
  CHECK(judged("task", mode, bodies, TASKS));
  return 0;
}

static int single(void) {
  for (int mode = 0; mode < MODES; mode++)
    for (int kind = 0; kind < 4; kind++)
      if (submitted_one_by_one(mode, kind % 2, kind / 2)) return 1;
  return 0;
}

static int many(void) {
  for (int mode = 0; mode < MODES; mode++) {
    struct body bodies[TASKS] = {0};
    sched_task_desc_t descs[TASKS];
    sched_task_t ids[TASKS];
    set(mode);
    sched_t *s = created();
    for (int i = 0; i < TASKS; i++) descs[i] = task(&bodies[i], i % 2 ? "labelled" : NULL);
    CHECK(sched_submit_many(s, descs, TASKS, ids) == SCHED_OK);
    CHECK(same(see(), expected(mode)));
    /* A task that follows others, with a label and without, and one that is tried again. */
    struct body others[3] = {0};
    others[2].fail_first = 1;
    for (int i = 0; i < 3; i++) {
      sched_task_desc_t desc = task(&others[i], i ? "labelled" : NULL);
      desc.after = ids, desc.after_count = TASKS, desc.retries = 2;
      sched_task_t id;
      CHECK(sched_submit(s, &desc, &id) == SCHED_OK);
      set(STANDARD);
      CHECK(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK);
      set(mode);
    }
    CHECK(others[2].ran == 2);
    size_t index;
    CHECK(sched_wait_any(s, ids, TASKS, SCHED_FOREVER, &index) == SCHED_OK);
    CHECK(same(see(), expected(mode)));
    CHECK(sched_destroy(s) == SCHED_OK);
    CHECK(judged("many", mode, bodies, TASKS));
    CHECK(judged("follower or retry", mode, others, 3));
  }
  return 0;
}

/* Every piece of a range, on every slot. */
enum { ELEMENTS = 64 };

static int32_t piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  struct body *bodies = user;
  (void)end;
  return run_together(exec, &bodies[begin]);
}

static void drop_range(void *user) {
  struct body *bodies = user;
  drop(&bodies[ELEMENTS]);
}

static int range(void) {
  for (int mode = 0; mode < MODES; mode++) {
    struct body bodies[ELEMENTS + 1] = {0};
    begun = 0;
    set(mode);
    sched_t *s = created();
    sched_range_desc_t desc = {.size = sizeof desc, .end = ELEMENTS, .grain = 1, .run = piece,
                               .user = bodies, .drop = drop_range, .label = "range"};
    sched_task_t id;
    CHECK(sched_submit_range(s, &desc, &id) == SCHED_OK);
    CHECK(same(see(), expected(mode)));
    set(STANDARD);
    CHECK(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK);
    CHECK(same(see(), expected(STANDARD)));
    CHECK(sched_destroy(s) == SCHED_OK);
    int slots[2] = {0};
    for (int i = 0; i < ELEMENTS; i++) {
      CHECK(bodies[i].ran == 1);
      slots[bodies[i].slot]++;
    }
    CHECK(slots[0] && slots[1] && bodies[ELEMENTS].dropped == 1);
    CHECK(judged("piece", mode, bodies, ELEMENTS + 1));
  }
  return 0;
}

/* A task that waits for tasks of its own: they run on top of it, or in the other slot. */
struct outer {
  sched_t *s;
  enum mode mode, inner_mode;
  struct body inner[8];
  int failed;
};

static int nested(struct outer *outer) {
  CHECK(same(see(), expected(outer->mode)));
  set(outer->inner_mode);
  struct seen before = see();
  sched_task_t ids[8];
  for (int i = 0; i < 8; i++) {
    sched_task_desc_t desc = task(&outer->inner[i], i % 4 == 3 ? "labelled" : NULL);
    CHECK(sched_submit(outer->s, &desc, &ids[i]) == SCHED_OK);
  }
  for (int i = 0; i < 8; i++) {
    CHECK(sched_wait(outer->s, ids[i], SCHED_FOREVER) == SCHED_OK);
    CHECK(same(see(), before));
    if (i == 4) set(outer->mode), before = see();
  }
  CHECK(judged("nested", outer->inner_mode, outer->inner, 8));
  return 0;
}

static int32_t run_nested(const sched_exec_t *exec, void *user) {
  struct outer *outer = user;
  CHECK(sched_exec_report(exec, 0.5) == SCHED_OK);
  outer->failed = nested(outer);
  return outer->failed;
}

static int nesting(void) {
  for (int mode = 0; mode < MODES; mode++)
    for (int inner = 0; inner < MODES; inner++)
      for (int labelled = 0; labelled < 2; labelled++) {
        set(mode);
        sched_t *s = created();
        struct outer outer = {.s = s, .mode = mode, .inner_mode = inner};
        sched_task_desc_t desc = {.size = sizeof desc, .run = run_nested, .user = &outer};
        desc.label = labelled ? "outer" : NULL;
        sched_task_t id;
        CHECK(sched_submit(s, &desc, &id) == SCHED_OK);
        CHECK(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK);
        CHECK(same(see(), expected(mode)));
        CHECK(sched_destroy(s) == SCHED_OK);
      }
  return 0;
}

/* Two threads submit to one scheduler, each in a mode of its own. */
struct submitter {
  sched_t *s;
  enum mode mode;
  int failed;
  struct body bodies[500];
};

static int submit_in_a_loop(struct submitter *own) {
  set(own->mode);
  for (int i = 0; i < 500; i++) {
    sched_task_desc_t desc = task(&own->bodies[i], i % 5 ? NULL : "labelled");
    sched_task_t id;
    CHECK(sched_submit(own->s, &desc, &id) == SCHED_OK);
    if (i % 7 == 0) CHECK(sched_wait(own->s, id, SCHED_FOREVER) == SCHED_OK);
    if (i % 11 == 0) CHECK(sched_release(own->s, id) == SCHED_OK);
    CHECK(same(see(), expected(own->mode)));
  }
  return 0;
}

static void *submitter(void *user) {
  struct submitter *own = user;
  own->failed = submit_in_a_loop(own);
  return NULL;
}

static int submitters(void) {
  static struct submitter both[2] = {{.mode = FLUSHING}, {.mode = UPWARD}};
  pthread_t threads[2];
  sched_t *s = created();
  for (int i = 0; i < 2; i++) {
    both[i].s = s;
    CHECK(pthread_create(&threads[i], NULL, submitter, &both[i]) == 0);
  }
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(sched_destroy(s) == SCHED_OK);
  for (int i = 0; i < 2; i++) {
    CHECK(!both[i].failed);
    CHECK(judged("of a submitter", both[i].mode, both[i].bodies, 500));
  }
  return 0;
}

static _Atomic int opened;

static int32_t run_blocked(const sched_exec_t *exec, void *user) {
  while (!opened) pause_ms(1);
  return run(exec, user);
}

/* A drop callback has its task's mode also where a task is refused or cancelled by another thread. */
static int drops(void) {
  for (int mode = 0; mode < MODES; mode++)
    for (int caller = 0; caller < MODES; caller++) {
      struct body block[2] = {0}, refused[2] = {0}, cancelled[2] = {0};
      sched_t *s = created();
      sched_task_t ids[2], id;
      opened = 0;
      for (int i = 0; i < 2; i++) {
        sched_task_desc_t desc = task(&block[i], NULL);
        desc.run = run_blocked;
        CHECK(sched_submit(s, &desc, &id) == SCHED_OK);
      }
      set(mode);
      for (int i = 0; i < 2; i++) {
        sched_task_desc_t desc = task(&cancelled[i], i ? "labelled" : NULL);
        CHECK(sched_submit(s, &desc, &ids[i]) == SCHED_OK);
      }
      set(caller);
      for (int i = 0; i < 2; i++) CHECK(sched_cancel(s, ids[i]) == SCHED_OK);
      CHECK(same(see(), expected(caller)));
      opened = 1;
      CHECK(sched_drain(s, SCHED_FOREVER) == SCHED_OK);
      for (int i = 0; i < 2; i++) {
        set(mode);
        sched_task_desc_t desc = task(&refused[i], i ? "labelled" : NULL);
        CHECK(sched_submit(s, &desc, &id) == SCHED_E_SHUTDOWN);
        CHECK(same(see(), expected(mode)));
      }
      CHECK(sched_destroy(s) == SCHED_OK);
      for (int i = 0; i < 2; i++) CHECK(cancelled[i].dropped == 1 && refused[i].dropped == 1);
      CHECK(judged("cancelled", mode, cancelled, 2));
      CHECK(judged("refused", mode, refused, 2));
      set(STANDARD);
    }
  return 0;
}

/* For a host compiled with -ffast-math: its start-up code flushes denormal numbers. */
static int fast_math(void) {
  struct body bodies[TASKS] = {0};
  CHECK((read_mode() & FLUSHES) == FLUSHES);
  struct seen wanted = see();
  sched_t *s = created();
  for (int i = 0; i < TASKS; i++) {
    sched_task_desc_t desc = task(&bodies[i], i ? "labelled" : NULL);
    desc.run = run_together;
    sched_task_t id;
    CHECK(sched_submit(s, &desc, &id) == SCHED_OK);
  }
  CHECK(sched_wait_all(s, SCHED_FOREVER) == SCHED_OK);
  CHECK(sched_destroy(s) == SCHED_OK);
  for (int i = 0; i < TASKS; i++) {
    if (!same(bodies[i].run, wanted)) print("task", i, bodies[i].run), print("host", i, wanted);
    CHECK(same(bodies[i].run, wanted) && same(bodies[i].drop, wanted));
  }
  return 0;
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"single", single},
      {"many", many},
      {"range", range},
      {"nesting", nesting},
      {"submitters", submitters},
      {"drops", drops},
      {"fast_math", fast_math},
  };
  return run_case(tests, sizeof tests / sizeof *tests, argc, argv);
}
