/* A shot loop as tasks. Each shot computes a window of a 2-D model; the shots run in any order, and
 * their traces are appended to one SU file in the order of the shots. A shot that fails is
 * reported, and the file has no trace of it.
 *
 *     shot_loop LOOP.su TASKS.su
 *
 * writes the file twice, by a loop and by tasks, with the same bytes.
 * docs/porting.md explains it. */
#include <gpusched.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { NX = 320, NZ = 80, NT = 250, SHOTS = 9, APERTURE = 60, EVERY = 4, MOST_TRACES = 2 * APERTURE / EVERY };

typedef struct {
    int number, source, first, width; /* cells along x: source, first of the window, width of the window */
    float traces[MOST_TRACES][NT];
} shot_t;

static shot_t shots[SHOTS];

static void die(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void check(sched_status_t status) {
    if (status != SCHED_OK) die(sched_status_name(status), sched_last_error());
}

static size_t field_bytes(const shot_t *shot) { return sizeof(float) * NZ * (size_t)shot->width; }

static void lay_out_shots(void) {
    memset(shots, 0, sizeof shots);
    for (int i = 0; i < SHOTS; i++) {
        shot_t *shot = &shots[i];
        shot->number = i + 1;
        shot->source = i == 3 ? NX + 10 : 20 + 35 * i; /* Shot 4 fails. */
        shot->first = shot->source > APERTURE ? shot->source - APERTURE : 0;
        int end = shot->source + APERTURE < NX ? shot->source + APERTURE : NX;
        shot->width = end - shot->first;
    }
}

/* Computes a shot. `fields` has room for two. Returns NULL, or why the shot failed. */
static const char *compute(shot_t *shot, float *fields, const sched_exec_t *exec) {
    if (shot->source >= NX) return "the source is outside the model";
    float *now = fields, *last = fields + NZ * shot->width;
    memset(fields, 0, 2 * field_bytes(shot));
    for (int it = 0; it < NT; it++) {
        if (exec && it % 16 == 0 && sched_exec_cancelled(exec) > 0) return "stopped";
#pragma omp parallel for
        for (int ix = 1; ix < shot->width - 1; ix++) {
            for (int i = ix * NZ + 1; i < ix * NZ + NZ - 1; i++) {
                float courant = i % NZ < NZ / 2 ? 0.4f : 0.6f; /* v dt / dx */
                float sum = now[i - NZ] + now[i + NZ] + now[i - 1] + now[i + 1] - 4 * now[i];
                last[i] = 2 * now[i] - last[i] + courant * courant * sum;
            }
        }
        float *next = last, t = 0.1f * (float)it - 3;
        last = now, now = next;
        now[(shot->source - shot->first) * NZ + 2] += (1 - 2 * t * t) * expf(-t * t);
        for (int i = 0; i < shot->width / EVERY; i++) shot->traces[i][it] = now[EVERY * i * NZ + 4];
    }
    return NULL;
}

/* Appends the traces of a shot to the file, all or none. */
static void append(FILE *file, const shot_t *shot) {
    long begin = ftell(file);
    size_t written = 0, traces = (size_t)(shot->width / EVERY);
    for (size_t i = 0; i < traces; i++) {
        char header[240] = {0};
        int32_t words[4] = {0, 0, shot->number, (int32_t)i + 1}, source = 10 * shot->source;
        int32_t receiver = 10 * (shot->first + EVERY * (int32_t)i);
        uint16_t samples[2] = {NT, 2000};
        memcpy(header, words, sizeof words); /* fldr, tracf */
        memcpy(header + 72, &source, sizeof source);
        memcpy(header + 80, &receiver, sizeof receiver);
        memcpy(header + 114, samples, sizeof samples); /* ns, dt in us */
        written += fwrite(header, sizeof header, 1, file) + fwrite(shot->traces[i], sizeof shot->traces[i], 1, file);
    }
    if (fflush(file) == 0 && written == 2 * traces) return;
    if (ftruncate(fileno(file), begin) != 0) perror("ftruncate");
    die("append", "the traces of a shot could not be written");
}

/* begin before */
static void loop(FILE *file) {
    static float fields[2 * NZ * 2 * APERTURE];
    for (int i = 0; i < SHOTS; i++) {
        const char *why = compute(&shots[i], fields, NULL);
        if (why) fprintf(stderr, "shot %d: %s\n", i + 1, why);
        else append(file, &shots[i]);
    }
}
/* end before */

/* begin after */
static int32_t run(const sched_exec_t *exec, void *user) {
    shot_t *shot = user;
    void *fields;
    sched_status_t status = sched_exec_memory(exec, 2 * field_bytes(shot), &fields);
    if (status != SCHED_OK) return status;
#ifdef _OPENMP
    omp_set_num_threads((int)exec->cpu_threads);
#endif
    const char *why = compute(shot, fields, exec);
    if (sched_exec_cancelled(exec) > 0) return SCHED_CANCELLED;
    return why ? sched_exec_fail(exec, why) : SCHED_OK;
}

static void tasks(FILE *file) {
    sched_t *scheduler;
    sched_config_t config = {.size = sizeof config, .devices = "cpu", .slots = 2};
    check(sched_create(&config, &scheduler));
    for (int i = 0; i < SHOTS; i++) {
        sched_task_desc_t task = {.size = sizeof task, .run = run, .user = &shots[i],
                                  .work = shots[i].width, .flags = SCHED_TASK_ORDERED,
                                  .device_bytes = 2 * field_bytes(&shots[i])};
        sched_task_t id;
        check(sched_submit(scheduler, &task, &id));
    }
    for (int i = 0; i < SHOTS; i++) {
        sched_task_t id;
        check(sched_wait_next(scheduler, SCHED_FOREVER, &id)); /* of shots[i] */
        sched_status_t status = sched_wait(scheduler, id, SCHED_FOREVER);
        if (status == SCHED_OK) append(file, &shots[i]);
        else fprintf(stderr, "shot %d failed: %s\n", i + 1, sched_last_error());
        check(sched_release(scheduler, id));
    }
    check(sched_destroy(scheduler));
}
/* end after */

int main(int argc, char **argv) {
    if (argc != 3) die("usage", "shot_loop LOOP.su TASKS.su");
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "wb");
        if (!file) die(argv[i], "cannot be created");
        lay_out_shots();
        (i == 1 ? loop : tasks)(file);
        if (fclose(file) != 0) die(argv[i], "cannot be written");
    }
    return 0;
}
