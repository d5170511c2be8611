/* Floating-point modes, and tasks that note in which one they run. _GNU_SOURCE must be defined. */
#ifndef CALLBACK_MODE_H
#define CALLBACK_MODE_H

#include <fenv.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "check.h"

#if defined __x86_64__
#define FLUSHES 0x8040u
static inline unsigned read_mode(void) { return __builtin_ia32_stmxcsr() & 0xffc0u; }
static inline void set_flush(void) { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSHES); }
#elif defined __aarch64__
#define FLUSHES 0x1000000u
static inline unsigned read_mode(void) { return (unsigned)__builtin_aarch64_get_fpcr(); }
static inline void set_flush(void) { __builtin_aarch64_set_fpcr(read_mode() | FLUSHES); }
#endif

/* What a thread's mode is, and what it makes of three results. */
struct seen {
  unsigned mode;
  int rounding, traps;
  uint32_t third, tiny;
  long double long_third;
};

static inline struct seen see(void) {
  volatile float one = 1, three = 3, denormal = 1e-40f, two = 2;
  volatile long double long_one = 1;
  int traps = fegetexcept();
  /* The inexact results below must not trap. */
  fedisableexcept(FE_ALL_EXCEPT);
  volatile float third = one / three, tiny = denormal * two;
  volatile long double long_third = long_one / 3;
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(traps);
  struct seen seen = {.mode = read_mode(), .rounding = fegetround(), .traps = traps};
  float results[2] = {third, tiny};
  memcpy(&seen.third, &results[0], sizeof(float));
  memcpy(&seen.tiny, &results[1], sizeof(float));
  seen.long_third = long_third;
  return seen;
}

static inline int same(struct seen a, struct seen b) {
  return a.mode == b.mode && a.rounding == b.rounding && a.traps == b.traps && a.third == b.third &&
         a.tiny == b.tiny && a.long_third == b.long_third;
}

static inline void print(const char *what, int number, struct seen seen) {
  fprintf(stderr, "%s %d: mode %04x, rounding %d, traps %d, 1/3 = %08x, tiny = %08x, 1/3 = %La\n", what,
          number, seen.mode, seen.rounding, seen.traps, seen.third, seen.tiny, seen.long_third);
}

/* The modes of the tests; each sets the whole mode of the calling thread. TRAPPING traps on inexact
 * results, too, so that any arithmetic of the library in this mode ends the program. */
enum mode { STANDARD, FLUSHING, UPWARD, TRAPPING, MODES };

static inline void set(enum mode mode) {
  fesetenv(FE_DFL_ENV);
  if (mode == FLUSHING) set_flush();
  if (mode == UPWARD) fesetround(FE_UPWARD);
  if (mode == TRAPPING) feenableexcept(FE_ALL_EXCEPT);
}

static inline struct seen expected(enum mode mode) {
  fenv_t before;
  fegetenv(&before);
  set(mode);
  struct seen seen = see();
  fesetenv(&before);
  return seen;
}

/* The body of a test task: it notes its mode and leaves another one behind. */
struct body {
  struct seen run, drop;
  _Atomic int ran, dropped;
  int fail_first, slot;
};

static inline void pause_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

static inline int32_t run(const sched_exec_t *exec, void *user) {
  struct body *body = user;
  body->run = see();
  body->slot = (int)exec->slot;
  body->ran++;
  set(body->ran % 2 ? UPWARD : FLUSHING);
  return body->fail_first && exec->attempt == 1 ? 7 : 0;
}

/* Tasks that have begun. None of them returns before there are two, so both slots take part. */
static _Atomic int begun;

static inline int32_t run_together(const sched_exec_t *exec, void *user) {
  begun++;
  while (begun < 2) pause_ms(1);
  return run(exec, user);
}

static inline void drop(void *user) {
  struct body *body = user;
  body->drop = see();
  body->dropped++;
  set(TRAPPING);
}

/* Checks what `count` bodies saw. */
static inline int judged(const char *what, enum mode mode, const struct body *bodies, int count) {
  struct seen wanted = expected(mode);
  for (int i = 0; i < count; i++) {
    if (bodies[i].ran && !same(bodies[i].run, wanted)) {
      print(what, i, bodies[i].run);
      print("wanted", i, wanted);
      return 0;
    }
    if (bodies[i].dropped && !same(bodies[i].drop, wanted)) {
      print(what, i, bodies[i].drop);
      print("wanted in drop", i, wanted);
      return 0;
    }
  }
  return 1;
}

static inline sched_t *created(void) {
  sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2, .cpu_threads = 2};
  sched_t *s = NULL;
  sched_create(&config, &s);
  return s;
}

static inline sched_task_desc_t task(struct body *body, const char *label) {
  return (sched_task_desc_t){
      .size = sizeof(sched_task_desc_t), .run = run, .user = body, .drop = drop, .label = label};
}

enum { TASKS = 16 };

/* Runs the case that the command line names. */
struct test {
  const char *name;
  int (*run)(void);
};

static inline int run_case(const struct test *tests, size_t count, int argc, char **argv) {
  for (size_t i = 0; i < count; i++)
    if (argc == 2 && !strcmp(argv[1], tests[i].name)) return tests[i].run();
  fprintf(stderr, "usage: %s CASE\n", argv[0]);
  return 2;
}

#endif
