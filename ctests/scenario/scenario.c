/* How the library behaves, told line by line. scenario.f90 and scenario.py print the same. */
#include <gpusched.h>
#include <stdio.h>
#include <time.h>

static sched_t *scheduler;

static int32_t hello(const sched_exec_t *exec, void *user) {
    *(int *)user += (int)exec->attempt;
    return 0;
}

static int32_t fail(const sched_exec_t *exec, void *user) {
    (void)exec;
    (void)user;
    return -7;
}

/* Works until it is asked to stop. */
static int32_t until_cancelled(const sched_exec_t *exec, void *user) {
    (void)user;
    const struct timespec pause = {0, 1000000};
    while (!sched_exec_cancelled(exec)) nanosleep(&pause, NULL);
    return 1;
}

static sched_task_t submit(sched_run_fn run, void *user) {
    sched_task_t id = 0;
    sched_task_desc_t task = {.size = sizeof task, .run = run, .user = user};
    sched_status_t status = sched_submit(scheduler, &task, &id);
    if (status) printf("submit: %s %s\n", sched_status_name(status), sched_last_error());
    return id;
}

static const char *wait(sched_task_t id, int64_t timeout_ns) {
    return sched_status_name(sched_wait(scheduler, id, timeout_ns));
}

int main(void) {
    sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 1};
    printf("create: %s\n", sched_status_name(sched_create(&config, &scheduler)));

    int ran = 0;
    sched_task_t id = submit(hello, &ran);
    printf("hello: %s", wait(id, SCHED_FOREVER));
    printf(", ran %d\n", ran);

    id = submit(fail, NULL);
    char text[200] = "";
    printf("fail: %s", wait(id, SCHED_FOREVER));
    sched_task_error(scheduler, id, text, sizeof text);
    printf(", %s\n", text);

    sched_task_t running = submit(until_cancelled, NULL), queued = submit(hello, &ran);
    printf("not yet: %s\n", wait(running, 0));
    sched_cancel(scheduler, queued);
    sched_cancel(scheduler, running);
    printf("cancel: %s", wait(running, SCHED_FOREVER));
    printf(" %s, ran %d\n", wait(queued, SCHED_FOREVER), ran);

    sched_release(scheduler, id);
    printf("stale: %s\n", wait(id, 0));

    sched_stats_t stats = {.size = sizeof stats};
    sched_stats(scheduler, &stats);
    printf("stats: %d submitted, %d done, %d failed, %d cancelled\n", (int)stats.submitted, (int)stats.done,
           (int)stats.failed, (int)stats.cancelled);

    static float vp[8 * 8 * 8], record[8 * 8 * 5];
    for (int i = 0; i < 8 * 8 * 8; i++) vp[i] = 2000;
    sched_fd_model_desc_t medium = {.size = sizeof medium, .nx = 8, .ny = 8, .nz = 8, .dx_m = 10, .dy_m = 10, .dz_m = 10};
    medium.vp_m_s = vp;
    sched_fd_model_t *model = NULL;
    printf("model: %s\n", sched_status_name(sched_fd_model_create(&medium, &model)));
    sched_fd_shot_desc_t shot = {.size = sizeof shot, .nt = 10, .dt_s = 1e-3f, .frequency_hz = 30, .record_every = 2};
    shot.source = (sched_fd_cell_t){4, 4, 2};
    shot.plane_iz = 1;
    sched_fd_shot_size_t size = {.size = sizeof size};
    sched_fd_shot_size(model, &shot, &size);
    shot.record = record;
    shot.record_len = size.record_len;
    sched_fd_submit(scheduler, model, &shot, NULL, &id);
    printf("shot: %s, %d traces, %d samples\n", wait(id, SCHED_FOREVER), (int)size.traces, (int)size.samples);
    shot.source.iz = 8;
    printf("outside: %s\n", sched_status_name(sched_fd_submit(scheduler, model, &shot, NULL, &id)));
    printf("%s\n", sched_last_error());

    sched_fd_model_destroy(model);
    printf("destroy: %s\n", sched_status_name(sched_destroy(scheduler)));
    return 0;
}
