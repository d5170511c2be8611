/* The system refuses a thread while the worker of the CPU sleeps, or waits in a task. */
#define _GNU_SOURCE
#include "check.h"

static sched_t *s;
static int ran;
static sched_status_t expected;

static sched_task_desc_t of_device(int device, sched_run_fn run) {
  sched_task_desc_t desc = task(run, &ran);
  desc.device_mask = 1u << device;
  desc.work = 1;
  return desc;
}

static sched_status_t wait_long(sched_task_t id) { return sched_wait(s, id, 20000000000); }

static int32_t waits(const sched_exec_t *exec, void *user) {
  (void)exec, (void)user;
  EXPECT(expected, wait_for(s, submit(s, of_device(1, counts))));
  return 0;
}

/* Ends once two tasks run. */
static int32_t meets(const sched_exec_t *exec, void *user) {
  (void)exec, add(user);
  until(user, 2);
  return 0;
}

static void create(const char *devices, uint32_t slots) {
  sched_config_t config = {.size = sizeof config, .devices = devices, .slots = slots, .cpu_threads = slots};
  OK(sched_create(&config, &s));
}

/* The first thread is the worker of the CPU, the next one that of the GPU. */
static void of_a_gpu(int waits_inside) {
  create("cpu,cuda:0", 1);
  OK(wait_for(s, submit(s, of_device(0, counts))));
  usleep(50000);
  if (waits_inside) {
    OK(wait_long(submit(s, of_device(0, waits))));
  } else {
    EXPECT(expected, wait_long(submit(s, of_device(1, counts))));
    if (expected) SAYS("(ulimit -u)");
  }
  CHECK(ran == (expected ? 1 : 2));
}

static void gpu_runs(void) { of_a_gpu(0); }

static void gpu_runs_for_another_task(void) { of_a_gpu(1); }

static void gpu_fails(void) {
  expected = SCHED_E_RESOURCES;
  of_a_gpu(0);
}

static void gpu_fails_for_another_task(void) {
  expected = SCHED_E_RESOURCES;
  of_a_gpu(1);
}

/* The CPU has no memory for the elements. */
static int32_t needs_gpu(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user) {
  if (exec->device == 0) return SCHED_E_MEMORY;
  return count_piece(exec, begin, end, user);
}

static void gpu_helps(void) {
  sched_range_desc_t range = {.size = sizeof range, .end = 10, .run = needs_gpu, .user = &ran};
  sched_task_t id;
  create("cpu,cuda:0", 1);
  OK(wait_for(s, submit(s, of_device(0, counts))));
  usleep(50000);
  OK(sched_submit_range(s, &range, &id));
  OK(wait_long(id));
  CHECK(ran == 11);
}

/* The third thread is the timer. */
static void timer(void) {
  create("cpu", 2);
  sched_task_t ids[2];
  for (int i = 0; i < 2; i++) ids[i] = submit(s, of_device(0, meets));
  for (int i = 0; i < 2; i++) OK(wait_for(s, ids[i]));
  usleep(50000);
  sched_task_desc_t desc = of_device(0, lasts);
  desc.deadline_ns = 100000000;
  EXPECT(SCHED_E_DEADLINE, wait_long(submit(s, desc)));
}

static const struct test_case cases[] = {CASE(gpu_runs),  CASE(gpu_runs_for_another_task),
                                         CASE(gpu_fails), CASE(gpu_fails_for_another_task),
                                         CASE(gpu_helps), CASE(timer), {NULL, NULL}};

int main(int argc, char **argv) {
  (void)argc;
  int failed = run_case(argv, cases);
  OK(sched_destroy(s));
  return failed || failures;
}
