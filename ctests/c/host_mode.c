/* The modes of other callbacks, of the library's own arithmetic, and traps of the host.
 *
 * Usage: PROGRAM CASE. A case ends with 0, or with 1 after it has reported what differs. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>

#include "callback_mode.h"

/* Progress and log callbacks have the mode of the thread that registered them. */
static struct body progress_body, log_body;

static void on_progress(const sched_progress_t *progress, void *user) {
  struct body *body = user;
  (void)progress;
  body->run = see();
  body->ran++;
  set(UPWARD);
}

static void on_log(int32_t level, const char *message, void *user) {
  struct body *body = user;
  (void)level, (void)message;
  body->run = see();
  body->ran++;
  set(UPWARD);
}

static int32_t fails(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  return 1;
}

static int watchers(void) {
  for (int mode = 0; mode < MODES; mode++) {
    set(STANDARD);
    sched_t *s = created();
    progress_body.ran = log_body.ran = 0;
    set(mode);
    CHECK(sched_progress_callback(s, on_progress, &progress_body, 1000000) == SCHED_OK);
    CHECK(sched_log_callback(on_log, &log_body, 2) == SCHED_OK);
    set(FLUSHING);
    sched_task_desc_t desc = {.size = sizeof desc, .run = fails};
    sched_task_t id;
    CHECK(sched_submit(s, &desc, &id) == SCHED_OK);
    CHECK(sched_wait(s, id, SCHED_FOREVER) == SCHED_E_CALLBACK);
    while (!progress_body.ran) pause_ms(1);
    CHECK(same(see(), expected(FLUSHING)));
    CHECK(sched_progress_callback(s, NULL, NULL, 0) == SCHED_OK);
    CHECK(sched_log_callback(NULL, NULL, 1) == SCHED_OK);
    CHECK(sched_destroy(s) == SCHED_OK);
    CHECK(log_body.ran);
    CHECK(judged("progress", mode, &progress_body, 1));
    CHECK(judged("log", mode, &log_body, 1));
  }
  return 0;
}

/* The library's arithmetic: a wavelet and a shot, after callbacks that leave odd modes. */
enum { N = 24, NT = 60 };

static float vp[N * N * N];

struct computed {
  float wavelet[NT], record[N * N * NT];
};

static int compute(struct computed *out) {
  sched_t *s = created();
  struct body bodies[4] = {0};
  sched_task_t id;
  begun = 0;
  for (int i = 0; i < 4; i++) {
    sched_task_desc_t desc = task(&bodies[i], i % 2 ? "labelled" : NULL);
    desc.run = run_together;
    CHECK(sched_submit(s, &desc, &id) == SCHED_OK);
  }
  CHECK(sched_wait_all(s, SCHED_FOREVER) == SCHED_OK);
  sched_fd_model_desc_t medium = {.size = sizeof medium, .nx = N, .ny = N, .nz = N, .dx_m = 10, .dy_m = 10,
                                  .dz_m = 10, .vp_m_s = vp};
  sched_fd_shot_desc_t shot = {.size = sizeof shot, .nt = NT, .dt_s = 1e-3, .frequency_hz = 20,
                               .source = {N / 2, N / 2, N / 2}, .record = out->record,
                               .record_len = sizeof out->record / sizeof(float)};
  sched_fd_model_t *model = NULL;
  CHECK(sched_fd_model_create(&medium, &model) == SCHED_OK);
  CHECK(sched_fd_wavelet(SCHED_FD_WAVELET_RICKER, 20, 1e-3f, out->wavelet, NT) == SCHED_OK);
  CHECK(sched_fd_submit(s, model, &shot, NULL, &id) == SCHED_OK);
  CHECK(sched_wait(s, id, SCHED_FOREVER) == SCHED_OK);
  CHECK(sched_fd_model_destroy(model) == SCHED_OK);
  CHECK(sched_destroy(s) == SCHED_OK);
  return 0;
}

static int arithmetic(void) {
  static struct computed wanted, found;
  for (size_t i = 0; i < N * N * N; i++) vp[i] = 2000.0f + (float)(i % 7);
  if (compute(&wanted)) return 1;
  for (int mode = 0; mode < MODES; mode++) {
    set(mode);
    struct seen before = see();
    memset(&found, 0xff, sizeof found);
    if (compute(&found)) return 1;
    CHECK(same(see(), before));
    set(STANDARD);
    CHECK(!memcmp(&wanted, &found, sizeof wanted));
  }
  return 0;
}

/* A host that traps sees its traps in its callbacks, on the worker that divides. */
static _Thread_local sigjmp_buf trapped;

static void on_trap(int signal) {
  (void)signal;
  siglongjmp(trapped, 1);
}

static int32_t divides(const sched_exec_t *exec, void *user) {
  volatile double zero = 0, one = 1;
  (void)exec;
  if (sigsetjmp(trapped, 1)) {
    ++*(_Atomic int *)user;
    return 0;
  }
  one = one / zero;
  return 0;
}

static int traps(void) {
  CHECK(sigaction(SIGFPE, &(struct sigaction){.sa_handler = on_trap}, NULL) == 0);
  for (int first = 0; first < 2; first++) {
    _Atomic int count = 0;
    set(TRAPPING);
    sched_t *s = created();
    for (int i = 0; i < TASKS; i++) {
      sched_task_desc_t desc = {.size = sizeof desc, .run = divides, .user = (void *)&count};
      desc.label = (i + first) % 2 ? "labelled" : NULL;
      sched_task_t id;
      CHECK(sched_submit(s, &desc, &id) == SCHED_OK);
    }
    CHECK(sched_wait_all(s, SCHED_FOREVER) == SCHED_OK);
    CHECK(count == TASKS);
    /* A submitter that does not trap. */
    set(STANDARD);
    for (int i = 0; i < 2; i++) {
      sched_task_desc_t desc = {.size = sizeof desc, .run = divides, .user = (void *)&count};
      desc.label = i ? "labelled" : NULL;
      sched_task_t id;
      CHECK(sched_submit(s, &desc, &id) == SCHED_OK);
    }
    CHECK(sched_destroy(s) == SCHED_OK);
    CHECK(count == TASKS);
  }
  return 0;
}

int main(int argc, char **argv) {
  static const struct test tests[] = {
      {"watchers", watchers},
      {"arithmetic", arithmetic},
      {"traps", traps},
  };
  return run_case(tests, sizeof tests / sizeof *tests, argc, argv);
}
