/* A survey over the nodes of an MPI job: one process a node, each with a scheduler over all GPUs of
 * its node.
 *
 *     mpirun -n 4 --map-by ppr:1:node shots FOLDER
 *
 * The processes take shots from a common counter, so fast nodes compute more of them. A process has
 * as many shots at a time as its devices have slots, and one more. Each record is written to
 * FOLDER/shot_0001.bin, whole or not at all; shots whose file is there are not computed again, so a
 * job that died is resumed by starting it again. A shot that fails is computed again by the next
 * process; a process whose devices have failed takes no more. MPI ends the whole job if a process
 * dies. */
#include <errno.h>
#include <gpusched.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 32, NT = 120, SHOTS = 16, ROUNDS = 3, MOST = 64 };

typedef struct {
    sched_task_t id;
    int shot;
    float *record;
} place_t;

static int rank, ranks;
static const char *folder;
static sched_t *scheduler;
static sched_fd_model_t *model;
static sched_fd_shot_desc_t desc = {.size = sizeof desc, .nt = NT, .dt_s = 1e-3f, .frequency_hz = 20, .plane_iz = 3};

static void die(const char *what, const char *why) {
    fprintf(stderr, "process %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(sched_status_t status, const char *what) {
    if (status != SCHED_OK) die(what, sched_last_error());
}

static void *room(size_t bytes) {
    void *memory = malloc(bytes);
    if (!memory) die("malloc", "no memory");
    return memory;
}

static void path_of(int shot, const char *end, char path[4096]) {
    snprintf(path, 4096, "%s/shot_%04d.bin%s", folder, shot + 1, end);
}

static void make_model(void) {
    float *vp = room(sizeof(float) * N * N * N);
    for (int i = 0; i < N * N * N; i++) vp[i] = i % N < N / 2 ? 1800.0f : 2600.0f; /* z is fastest */
    sched_fd_model_desc_t about = {.size = sizeof about, .nx = N, .ny = N, .nz = N,
                                   .dx_m = 10, .dy_m = 10, .dz_m = 10, .vp_m_s = vp};
    check(sched_fd_model_create(&about, &model), "model");
    free(vp); /* it was copied */
}

static void report(int shot) { fprintf(stderr, "process %d: shot %d: %s\n", rank, shot + 1, sched_last_error()); }

/* Submits a shot. Returns 1, or 0 if no device is left that could compute it. */
static int begin(place_t *place, int shot) {
    place->shot = shot;
    desc.source = (sched_fd_cell_t){(uint32_t)(1 + 30 * shot / SHOTS), N / 2, 2};
    desc.record = place->record;
    sched_status_t status = sched_fd_submit(scheduler, model, &desc, NULL, &place->id);
    if (status == SCHED_E_NO_DEVICE) {
        report(shot);
        return 0;
    }
    check(status, "submit");
    return 1;
}

/* Writes the record of a shot that has succeeded. Returns 1, or 0 if it failed. */
static int end(place_t *place) {
    char part[4096], path[4096];
    sched_status_t status = sched_wait(scheduler, place->id, SCHED_FOREVER);
    if (status != SCHED_OK) report(place->shot);
    check(sched_release(scheduler, place->id), "release");
    if (status != SCHED_OK) return 0;
    path_of(place->shot, ".part", part);
    path_of(place->shot, "", path);
    FILE *file = fopen(part, "wb");
    if (!file) die(part, strerror(errno));
    size_t written = fwrite(place->record, sizeof(float), desc.record_len, file);
    int synced = fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (fclose(file) != 0 || !synced || written != desc.record_len || rename(part, path) != 0) die(path, strerror(errno));
    return 1;
}

/* The next number of the counter at process 0. */
static int take(MPI_Win counter) {
    const int one = 1;
    int number;
    MPI_Fetch_and_op(&one, &number, MPI_INT, 0, 0, MPI_SUM, counter);
    MPI_Win_flush(0, counter);
    return number;
}

/* Computes the shots of a list that are this process's: in the first round those that it takes from
 * the counter, later those that the process before it has failed. Sets `outcomes[shot]` to 1 + rank
 * if it failed, 1 + ranks if it is done. */
static void compute(const int *list, int count, const int *owner, MPI_Win counter, int places_count, place_t *places, int *outcomes) {
    int running = 0, next = 0, more = 1;
    sched_task_t ids[MOST];
    while (more || running > 0) {
        while (more && running < places_count) {
            int nth = owner ? next++ : take(counter);
            more = nth < count;
            if (!more || (owner && owner[list[nth]] != rank)) continue;
            if (begin(&places[running], list[nth])) {
                running++;
            } else {
                outcomes[list[nth]] = 1 + rank;
                more = owner != NULL;
            }
        }
        if (running == 0) continue;
        for (int i = 0; i < running; i++) ids[i] = places[i].id;
        size_t index;
        sched_status_t status = sched_wait_any(scheduler, ids, (size_t)running, 20000000, &index);
        if (status == SCHED_PENDING) { /* Others may wait for the counter, which this process serves inside MPI. */
            int arrived;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
            continue;
        }
        check(status, "wait");
        outcomes[places[index].shot] = 1 + (end(&places[index]) ? ranks : rank);
        place_t ended = places[index];
        places[index] = places[--running];
        places[running] = ended;
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2) die("usage", "shots FOLDER");
    folder = argv[1];
    make_model();
    check(sched_create(NULL, &scheduler), "scheduler");

    sched_fd_shot_size_t size = {.size = sizeof size};
    check(sched_fd_shot_size(model, &desc, &size), "sizes");
    desc.record_len = size.record_len;
    uint32_t devices = 0;
    check(sched_device_count(scheduler, &devices), "devices");
    int places_count = 1;
    for (uint32_t i = 0; i < devices; i++) {
        sched_device_stats_t stats = {.size = sizeof stats};
        check(sched_device_stats(scheduler, i, &stats), "device");
        places_count += (int)stats.slots;
    }
    if (places_count > MOST) places_count = MOST;
    place_t places[MOST];
    for (int i = 0; i < places_count; i++) places[i].record = room(sizeof(float) * size.record_len);

    /* Process 0 sees which files are there. */
    int list[SHOTS], owner[SHOTS], count = 0;
    char path[4096];
    for (int shot = 0; rank == 0 && shot < SHOTS; shot++) {
        path_of(shot, "", path);
        if (access(path, F_OK) != 0) list[count++] = shot;
    }
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Bcast(list, count, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%d of %d shots are to be computed\n", count, SHOTS);

    int *number;
    MPI_Win counter;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &number, &counter);
    *number = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, counter);
    for (int round = 0; round < ROUNDS && count > 0; round++) {
        int outcomes[SHOTS] = {0}, left = 0;
        compute(list, count, round > 0 ? owner : NULL, counter, places_count, places, outcomes);
        MPI_Allreduce(MPI_IN_PLACE, outcomes, SHOTS, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        for (int nth = 0; nth < count; nth++) {
            int shot = list[nth];
            if (outcomes[shot] > ranks) continue;
            list[left++] = shot;
            owner[shot] = outcomes[shot] % ranks; /* the one after it; 0 if nobody took it */
        }
        count = left;
    }
    MPI_Win_unlock_all(counter);
    MPI_Win_free(&counter);
    if (rank == 0) printf("%d shots failed\n", count);

    for (int i = 0; i < places_count; i++) free(places[i].record);
    check(sched_destroy(scheduler), "destroy");
    check(sched_fd_model_destroy(model), "model");
    MPI_Finalize();
    return count > 0;
}
