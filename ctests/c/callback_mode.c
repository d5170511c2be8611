/* The floating-point mode of a callback is that of the thread that submitted its task, or that
 * registered it; the library's own arithmetic has a mode of its own. */
#define _GNU_SOURCE
#include <fenv.h>
#include <setjmp.h>
#include <stdint.h>

#include "check.h"

#if defined __x86_64__
#define FLUSHES 0x8040u
static unsigned read_mode(void) { return __builtin_ia32_stmxcsr() & 0xffc0u; }
static void set_flush(void) { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSHES); }
#elif defined __aarch64__
#define FLUSHES 0x1000000u
static unsigned read_mode(void) { return (unsigned)__builtin_aarch64_get_fpcr(); }
static void set_flush(void) { __builtin_aarch64_set_fpcr(read_mode() | FLUSHES); }
#endif

/* The floating-point mode of a thread, and three results computed in it. */
struct seen {
  unsigned mode;
  int rounding, traps, flags;
  uint32_t third, tiny;
  long double long_third;
};

static struct seen see(void) {
  volatile float one = 1, three = 3, denormal = 1e-40f, two = 2;
  volatile long double long_one = 1;
  int traps = fegetexcept(), flags = fetestexcept(FE_ALL_EXCEPT);
  /* The inexact results below must not trap. */
  fedisableexcept(FE_ALL_EXCEPT);
  volatile float third = one / three, tiny = denormal * two;
  volatile long double long_third = long_one / 3;
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(traps);
  struct seen seen = {.mode = read_mode(), .rounding = fegetround(), .traps = traps,
                      .flags = flags};
  float results[2] = {third, tiny};
  memcpy(&seen.third, &results[0], sizeof(float));
  memcpy(&seen.tiny, &results[1], sizeof(float));
  seen.long_third = long_third;
  return seen;
}

static int same(struct seen a, struct seen b) {
  int equal = a.mode == b.mode && a.rounding == b.rounding && a.traps == b.traps &&
              a.third == b.third && a.tiny == b.tiny && a.long_third == b.long_third;
  if (!equal)
    fprintf(stderr, "mode %04x and %04x, rounding %d and %d, traps %d and %d\n", a.mode, b.mode,
            a.rounding, b.rounding, a.traps, b.traps);
  return equal;
}

/* Each value sets the whole mode of the calling thread. TRAPPING also traps on inexact results,
 * so any arithmetic of the library ends the program. AS_STARTED is the mode of the start-up
 * code. */
enum mode { STANDARD, FLUSHING, UPWARD, TRAPPING, MODES, AS_STARTED };

static fenv_t at_start;

static void set(enum mode mode) {
  fesetenv(mode == AS_STARTED ? &at_start : FE_DFL_ENV);
  if (mode == FLUSHING) set_flush();
  if (mode == UPWARD) fesetround(FE_UPWARD);
  if (mode == TRAPPING) feenableexcept(FE_ALL_EXCEPT);
}

static struct seen expected(enum mode mode) {
  fenv_t before;
  fegetenv(&before);
  set(mode);
  struct seen seen = see();
  fesetenv(&before);
  return seen;
}

#define HAS_MODE(mode) CHECK(same(see(), expected(mode)))

enum { TASKS = 16 };

struct body {
  struct seen run, drop;
  int ran, dropped, fail_first, slot;
};

/* Notes its mode, and leaves another one and raised flags behind, some of them in the x87 unit. */
static int32_t run(const sched_exec_t *exec, void *user) {
  struct body *body = user;
  body->run = see();
  body->slot = (int)exec->slot;
  set(add(&body->ran) % 2 ? UPWARD : FLUSHING);
  feraiseexcept(FE_DIVBYZERO | FE_OVERFLOW);
  return body->fail_first && exec->attempt == 1 ? 7 : 0;
}

/* Number of tasks that have begun. No task returns before there are two, so both slots take
 * part. */
static int begun;

static int32_t run_together(const sched_exec_t *exec, void *user) {
  add(&begun);
  until(&begun, 2);
  return run(exec, user);
}

static void drop(void *user) {
  struct body *body = user;
  body->drop = see();
  add(&body->dropped);
  set(TRAPPING);
}

static sched_task_desc_t noting(sched_run_fn code, struct body *body, int labelled) {
  sched_task_desc_t desc = task(code, body);
  desc.drop = drop;
  desc.label = labelled ? "labelled" : NULL;
  return desc;
}

static void submit_bodies(sched_t *s, sched_run_fn code, struct body *bodies, int count) {
  for (int i = 0; i < count; i++) submit(s, noting(code, &bodies[i], i % 2));
}

static void check_bodies(enum mode mode, const struct body *bodies, int count) {
  struct seen wanted = expected(mode);
  for (int i = 0; i < count; i++) {
    if (bodies[i].ran) CHECK(same(bodies[i].run, wanted) && !bodies[i].run.flags);
    if (bodies[i].dropped) CHECK(same(bodies[i].drop, wanted) && !bodies[i].drop.flags);
  }
}

static void check_slots(const struct body *bodies, int count) {
  int slots[2] = {0};
  for (int i = 0; i < count; i++) slots[bodies[i].slot]++;
  CHECK(slots[0] && slots[1]);
}

static void one_by_one(enum mode mode, int first, uint32_t flags) {
  struct body bodies[TASKS] = {0};
  begun = 0;
  set(mode);
  sched_t *s = scheduler(2);
  for (int i = 0; i < TASKS; i++) {
    sched_task_desc_t desc = noting(run_together, &bodies[i], i % 2 != first);
    desc.flags = flags;
    submit(s, desc);
    HAS_MODE(mode);
  }
  OK(sched_wait_all(s, SCHED_FOREVER));
  HAS_MODE(mode);
  OK(sched_destroy(s));
  HAS_MODE(mode);
  for (int i = 0; i < TASKS; i++) CHECK(bodies[i].ran == 1 && bodies[i].dropped == 1);
  check_slots(bodies, TASKS);
  check_bodies(mode, bodies, TASKS);
}

static void single(void) {
  for (int mode = 0; mode < MODES; mode++)
    for (int kind = 0; kind < 4; kind++)
      one_by_one(mode, kind % 2, kind / 2 ? SCHED_TASK_DETACHED : 0);
}

/* For a host compiled with -ffast-math: its start-up code flushes denormal numbers. */
static void fast_math(void) {
  CHECK((read_mode() & FLUSHES) == FLUSHES);
  one_by_one(AS_STARTED, 0, 0);
}

static void many(void) {
  for (int mode = 0; mode < MODES; mode++) {
    struct body bodies[TASKS] = {0};
    sched_task_desc_t descs[TASKS];
    sched_task_t ids[TASKS];
    set(mode);
    sched_t *s = scheduler(2);
    for (int i = 0; i < TASKS; i++) descs[i] = noting(run, &bodies[i], i % 2);
    OK(sched_submit_many(s, descs, TASKS, ids));
    HAS_MODE(mode);
    /* A task that follows others, with a label and without, and one that is tried again. */
    struct body others[3] = {0};
    others[2].fail_first = 1;
    for (int i = 0; i < 3; i++) {
      sched_task_desc_t desc = noting(run, &others[i], i);
      desc.after = ids, desc.after_count = TASKS, desc.retries = 2;
      sched_task_t id = submit(s, desc);
      set(STANDARD);
      OK(wait_for(s, id));
      set(mode);
    }
    CHECK(others[2].ran == 2);
    size_t index;
    OK(sched_wait_any(s, ids, TASKS, SCHED_FOREVER, &index));
    HAS_MODE(mode);
    OK(sched_destroy(s));
    check_bodies(mode, bodies, TASKS);
    check_bodies(mode, others, 3);
  }
}

enum { ELEMENTS = 64 };

static int32_t piece(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  (void)end;
  return run_together(exec, (struct body *)user + begin);
}

static void drop_range(void *user) { drop((struct body *)user + ELEMENTS); }

static void range(void) {
  for (int mode = 0; mode < MODES; mode++) {
    struct body bodies[ELEMENTS + 1] = {0};
    begun = 0;
    set(mode);
    sched_t *s = scheduler(2);
    sched_range_desc_t desc = {.size = sizeof desc, .end = ELEMENTS, .grain = 1, .run = piece,
                               .user = bodies, .drop = drop_range, .label = "range"};
    sched_task_t id;
    OK(sched_submit_range(s, &desc, &id));
    HAS_MODE(mode);
    set(STANDARD);
    OK(wait_for(s, id));
    HAS_MODE(STANDARD);
    OK(sched_destroy(s));
    for (int i = 0; i < ELEMENTS; i++) CHECK(bodies[i].ran == 1);
    CHECK(bodies[ELEMENTS].dropped == 1);
    check_slots(bodies, ELEMENTS);
    check_bodies(mode, bodies, ELEMENTS + 1);
  }
}

/* A task that waits for tasks of its own: they run on top of it, or in the other slot. */
struct outer {
  sched_t *s;
  enum mode mode, inner_mode;
};

static int32_t run_nested(const sched_exec_t *exec, void *user) {
  struct outer *outer = user;
  struct body inner[8] = {0};
  sched_task_t ids[8];
  OK(sched_exec_report(exec, 0.5));
  HAS_MODE(outer->mode);
  set(outer->inner_mode);
  struct seen before = see();
  for (int i = 0; i < 8; i++) ids[i] = submit(outer->s, noting(run, &inner[i], i % 4 == 3));
  for (int i = 0; i < 8; i++) {
    OK(wait_for(outer->s, ids[i]));
    CHECK(same(see(), before));
    if (i == 4) set(outer->mode), before = see();
  }
  check_bodies(outer->inner_mode, inner, 8);
  return 0;
}

static void nesting(void) {
  for (int mode = 0; mode < MODES; mode++)
    for (int inner = 0; inner < MODES; inner++)
      for (int labelled = 0; labelled < 2; labelled++) {
        set(mode);
        sched_t *s = scheduler(2);
        struct outer outer = {.s = s, .mode = mode, .inner_mode = inner};
        sched_task_desc_t desc = task(run_nested, &outer);
        desc.label = labelled ? "outer" : NULL;
        OK(wait_for(s, submit(s, desc)));
        HAS_MODE(mode);
        OK(sched_destroy(s));
      }
}

static int opened;

static int32_t run_blocked(const sched_exec_t *exec, void *user) {
  add(&begun);
  until(&opened, 1);
  return run(exec, user);
}

/* A drop callback has its task's mode also where another thread cancels or refuses the task. */
static void drops(void) {
  for (int mode = 0; mode < MODES; mode++)
    for (int caller = 0; caller < MODES; caller++) {
      struct body block[2] = {0}, refused[2] = {0}, cancelled[2] = {0};
      sched_t *s = scheduler(2);
      sched_task_t ids[2], id;
      opened = begun = 0;
      submit_bodies(s, run_blocked, block, 2);
      until(&begun, 2);
      set(mode);
      for (int i = 0; i < 2; i++) ids[i] = submit(s, noting(run, &cancelled[i], i));
      set(caller);
      for (int i = 0; i < 2; i++) OK(sched_cancel(s, ids[i]));
      HAS_MODE(caller);
      add(&opened);
      OK(sched_drain(s, SCHED_FOREVER));
      for (int i = 0; i < 2; i++) {
        set(mode);
        sched_task_desc_t desc = noting(run, &refused[i], i);
        EXPECT(SCHED_E_SHUTDOWN, sched_submit(s, &desc, &id));
        HAS_MODE(mode);
      }
      OK(sched_destroy(s));
      for (int i = 0; i < 2; i++) {
        CHECK(cancelled[i].ran == 0 && cancelled[i].dropped == 1);
        CHECK(refused[i].ran == 0 && refused[i].dropped == 1);
      }
      check_bodies(mode, cancelled, 2);
      check_bodies(mode, refused, 2);
      set(STANDARD);
    }
}

static void note(struct body *body) {
  body->run = see();
  add(&body->ran);
  set(UPWARD);
}

static void on_progress(const sched_progress_t *progress, void *user) {
  (void)progress;
  note(user);
}

static void on_log(int32_t level, const char *message, void *user) {
  (void)level, (void)message;
  note(user);
}

static void watchers(void) {
  for (int mode = 0; mode < MODES; mode++) {
    static struct body progress, log;
    set(STANDARD);
    sched_t *s = scheduler(2);
    progress.ran = log.ran = 0;
    set(mode);
    OK(sched_progress_callback(s, on_progress, &progress, 1000000));
    OK(sched_log_callback(on_log, &log, 2));
    set(FLUSHING);
    EXPECT(SCHED_E_CALLBACK, wait_for(s, submitted(s, fails, NULL)));
    until(&progress.ran, 1);
    HAS_MODE(FLUSHING);
    OK(sched_progress_callback(s, NULL, NULL, 0));
    OK(sched_log_callback(NULL, NULL, 1));
    OK(sched_destroy(s));
    CHECK(log.ran);
    check_bodies(mode, &progress, 1);
    check_bodies(mode, &log, 1);
  }
}

enum { N = 24, NT = 60 };

struct computed { float wavelet[NT], record[N * N * NT]; };

/* Computes a wavelet and a shot, after callbacks that leave odd modes. */
static void compute(struct computed *out, const float *vp) {
  sched_t *s = scheduler(2);
  struct body bodies[4] = {0};
  sched_task_t id;
  begun = 0;
  submit_bodies(s, run_together, bodies, 4);
  OK(sched_wait_all(s, SCHED_FOREVER));
  sched_fd_model_desc_t medium = {.size = sizeof medium, .nx = N, .ny = N, .nz = N,
                                  .dx_m = 10, .dy_m = 10, .dz_m = 10, .vp_m_s = vp};
  sched_fd_shot_desc_t shot = {.size = sizeof shot, .nt = NT, .dt_s = 1e-3, .frequency_hz = 20,
                               .source = {N / 2, N / 2, N / 2}, .record = out->record,
                               .record_len = sizeof out->record / sizeof(float)};
  sched_fd_model_t *model = NULL;
  OK(sched_fd_model_create(&medium, &model));
  OK(sched_fd_wavelet(SCHED_FD_WAVELET_CUT_RICKER, 20, 1e-3f, out->wavelet, NT));
  OK(sched_fd_submit(s, model, &shot, NULL, &id));
  OK(wait_for(s, id));
  OK(sched_fd_model_destroy(model));
  OK(sched_destroy(s));
}

static void arithmetic(void) {
  static struct computed wanted, found;
  static float vp[N * N * N];
  for (size_t i = 0; i < N * N * N; i++) vp[i] = 2000.0f + (float)(i % 7);
  compute(&wanted, vp);
  for (int mode = 0; mode < MODES; mode++) {
    set(mode);
    struct seen before = see();
    memset(&found, 0xff, sizeof found);
    compute(&found, vp);
    CHECK(same(see(), before));
    set(STANDARD);
    CHECK(!memcmp(&wanted, &found, sizeof wanted));
  }
}

/* A host that traps gets its traps in its callbacks, on the worker that divides. */
static _Thread_local sigjmp_buf trapped;

static void on_trap(int signal) {
  (void)signal;
  siglongjmp(trapped, 1);
}

static int32_t divides(const sched_exec_t *exec, void *user) {
  volatile double zero = 0, one = 1;
  (void)exec;
  if (sigsetjmp(trapped, 1)) {
    add(user);
    return 0;
  }
  one = one / zero;
  return 0;
}

static void traps(void) {
  CHECK(sigaction(SIGFPE, &(struct sigaction){.sa_handler = on_trap}, NULL) == 0);
  for (int first = 0; first < 2; first++) {
    int count = 0;
    sched_t *s = NULL;
    /* The second submitter does not trap. */
    for (int submitter = 0; submitter < 2; submitter++) {
      set(submitter == 0 ? TRAPPING : STANDARD);
      if (submitter == 0) s = scheduler(2);
      for (int i = 0; i < TASKS; i++) {
        sched_task_desc_t desc = task(divides, &count);
        desc.label = (i + first) % 2 ? "labelled" : NULL;
        submit(s, desc);
      }
      OK(sched_wait_all(s, SCHED_FOREVER));
      CHECK(count == TASKS);
    }
    OK(sched_destroy(s));
  }
}

/* The shared scheduler is created, and a message is written, in calls that keep the mode. */
static void rare_calls(void) {
  int ran = 0;
  sched_task_t id = 0;
  set(TRAPPING);
  sched_task_desc_t desc = task(counts, &ran);
  OK(sched_submit(NULL, &desc, &id));
  HAS_MODE(TRAPPING);
  desc.device_bytes = UINT64_MAX;
  EXPECT(SCHED_E_MEMORY, sched_submit(NULL, &desc, &id));
  HAS_MODE(TRAPPING);
  OK(wait_for(NULL, id));
  set(STANDARD);
  CHECK(ran == 1);
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      CASE(rare_calls), CASE(single), CASE(fast_math), CASE(many), CASE(range), CASE(nesting), CASE(drops),
      CASE(watchers), CASE(arithmetic), CASE(traps), {NULL, NULL}};
  (void)argc;
  fegetenv(&at_start);
  return run_case(argv, cases);
}
