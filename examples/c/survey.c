/* A survey of eight shots over two layers: all are submitted at once, the scheduler
 * distributes them over the devices, and the records are written in the order of the shots.
 *
 *     survey RECORD.bin
 *
 * examples/cpp, examples/fortran and examples/python have the same survey; all four write
 * the same bytes. */
#include <gpusched.h>
#include <stdio.h>
#include <stdlib.h>

enum { NX = 32, NY = 24, NZ = 28, NT = 120, SHOTS = 8, EVERY = 2 };

static void check(sched_status_t status, const char *what) {
    if (status == SCHED_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, sched_status_name(status), sched_last_error());
    exit(1);
}

/* Two layers; z is fastest. */
static sched_fd_model_t *make_model(void) {
    float *vp = malloc(sizeof(float) * NX * NY * NZ), *rho = malloc(sizeof(float) * NX * NY * NZ);
    if (!vp || !rho) exit(1);
    for (size_t i = 0; i < (size_t)NX * NY * NZ; i++) {
        size_t iz = i % NZ;
        vp[i] = iz < 14 ? 1800.0f : 2600.0f;
        rho[i] = iz < 14 ? 2000.0f : 2200.0f;
    }
    sched_fd_model_desc_t desc = {.size = sizeof desc, .nx = NX, .ny = NY, .nz = NZ,
                                  .dx_m = 10, .dy_m = 10, .dz_m = 10, .vp_m_s = vp, .rho_kg_m3 = rho};
    sched_fd_model_t *model = NULL;
    check(sched_fd_model_create(&desc, &model), "model");
    free(vp); /* it was copied */
    free(rho);
    return model;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: %s RECORD.bin\n", argv[0]), 2;

    sched_fd_model_t *model = make_model();
    sched_t *scheduler = NULL;
    check(sched_create(NULL, &scheduler), "scheduler");

    sched_fd_shot_desc_t shot = {.size = sizeof shot, .nt = NT, .dt_s = 1e-3f, .frequency_hz = 20,
                                 .plane_iz = 3, .plane_every_x = EVERY, .plane_every_y = EVERY};
    sched_fd_shot_size_t size = {.size = sizeof size};
    check(sched_fd_shot_size(model, &shot, &size), "sizes");
    float *records = malloc(sizeof(float) * size.record_len * SHOTS);
    if (!records) return 1;

    sched_task_t ids[SHOTS];
    for (unsigned i = 0; i < SHOTS; i++) {
        shot.source = (sched_fd_cell_t){2 + 4 * i, NY / 2, 2};
        shot.record = records + i * size.record_len; /* lent until the shot has ended */
        shot.record_len = size.record_len;
        check(sched_fd_submit(scheduler, model, &shot, NULL, &ids[i]), "submit");
    }
    for (unsigned i = 0; i < SHOTS; i++) check(sched_wait(scheduler, ids[i], SCHED_FOREVER), "shot");

    FILE *file = fopen(argv[1], "wb");
    size_t written = file ? fwrite(records, sizeof(float), size.record_len * SHOTS, file) : 0;
    if (written != size.record_len * SHOTS || fclose(file)) return perror(argv[1]), 1;
    printf("%d shots of %llu traces and %llu samples\n", SHOTS, (unsigned long long)size.traces,
           (unsigned long long)size.samples);

    free(records);
    check(sched_destroy(scheduler), "destroy");
    check(sched_fd_model_destroy(model), "model");
    return 0;
}
