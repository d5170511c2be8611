/* One shot over a homogeneous medium. */
#include <gpusched.h>
#include <stdio.h>

enum { N = 40, NT = 200 };
static float vp[N * N * N], record[N * N * NT];

int main(void) {
    for (int i = 0; i < N * N * N; i++) vp[i] = 2000.0f;
    sched_fd_model_desc_t medium = {.size = sizeof medium, .nx = N, .ny = N, .nz = N,
                                    .dx_m = 10, .dy_m = 10, .dz_m = 10, .vp_m_s = vp};
    sched_fd_shot_desc_t shot = {.size = sizeof shot, .nt = NT, .dt_s = 1e-3f, .frequency_hz = 20,
                                 .source = {20, 20, 2}, .plane_iz = 4, .record = record, .record_len = N * N * NT};
    sched_fd_model_t *model = NULL;
    sched_task_t id = 0;
    if (sched_fd_model_create(&medium, &model) < 0 || sched_fd_submit(NULL, model, &shot, NULL, &id) < 0 ||
        sched_wait(NULL, id, SCHED_FOREVER) < 0)
        return fprintf(stderr, "%s\n", sched_last_error()), 1;
    printf("at the middle, after 0.1 s: %.3e\n", record[(20 * N + 20) * NT + 100]);
    sched_fd_model_destroy(model);
    return 0;
}
