// The measurements, the same for every peer. Linked with one shim; one test per process.
// Prints lines of "name value"; times in seconds unless the name says otherwise.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "peer.h"

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double now(void) { return seconds(CLOCK_MONOTONIC); }

// User and system time of the whole process.
static double cpu(void) { return seconds(CLOCK_PROCESS_CPUTIME_ID); }

static void *room(size_t count, size_t size) {
    void *at = malloc(count * size);
    if (!at) abort();
    memset(at, 0, count * size);
    return at;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, size_t count, double q) {
    qsort(values, count, sizeof *values, by_size);
    return values[(size_t)(q * (count - 1))];
}

static void sleep_for(double time) {
    struct timespec t = {(time_t)time, (long)(1e9 * (time - (time_t)time))};
    nanosleep(&t, NULL);
}

static void empty(void *user) { (void)user; }

static _Atomic size_t ran;

// Checks, off the clock, that nothing is lost.
static void counted(void *user) {
    (void)user;
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
}

static void check(size_t count) {
    if (atomic_load(&ran) != count) {
        fprintf(stderr, "%zu of %zu tasks ran\n", (size_t)atomic_load(&ran), count);
        exit(1);
    }
}

enum { TIMES = 9 };

// --- empty tasks, waited together ---

static void together(size_t count) {
    for (size_t i = 0; i < count; i++) peer_submit(counted, NULL);
    peer_wait_all();
    check(count);
    double rates[TIMES], costs[TIMES];
    for (int r = 0; r < TIMES; r++) {
        double c = cpu(), t = now();
        for (size_t i = 0; i < count; i++) peer_submit(empty, NULL);
        peer_wait_all();
        rates[r] = count / (now() - t), costs[r] = 1e6 * (cpu() - c) / count;
    }
    printf("together_per_s %g\n", quantile(rates, TIMES, 0.5));
    printf("together_cpu_us %g\n", quantile(costs, TIMES, 0.5));
}

// --- a handle each, waited for one by one ---

static void handles(size_t count) {
    void **held = room(count, sizeof *held);
    double rates[TIMES], costs[TIMES];
    for (int r = -1; r < TIMES; r++) {
        double c = cpu(), t = now();
        for (size_t i = 0; i < count; i++) held[i] = peer_submit_handle(r < 0 ? counted : empty, NULL);
        for (size_t i = 0; i < count; i++) peer_wait(held[i]);
        if (r >= 0) rates[r] = count / (now() - t), costs[r] = 1e6 * (cpu() - c) / count;
    }
    check(count);
    printf("handles_per_s %g\n", quantile(rates, TIMES, 0.5));
    printf("handles_cpu_us %g\n", quantile(costs, TIMES, 0.5));
    free(held);
}

// --- one at a time, as fast as they come back ---

static void round_trip(size_t count) {
    double *times = room(count, sizeof *times);
    for (size_t i = 0; i < count / 10; i++) peer_wait(peer_submit_handle(empty, NULL));
    for (size_t i = 0; i < count; i++) {
        double t = now();
        peer_wait(peer_submit_handle(empty, NULL));
        times[i] = now() - t;
    }
    printf("round_trip_us %g\n", 1e6 * quantile(times, count, 0.5));
    printf("round_trip_p99_us %g\n", 1e6 * quantile(times, count, 0.99));
    free(times);
}

// --- nothing to do ---

static void idle(size_t count) {
    for (size_t i = 0; i < count; i++) peer_submit(empty, NULL);
    peer_wait_all();
    sleep_for(0.2);
    double c = cpu(), t = now();
    sleep_for(2.0);
    printf("idle_core_percent %g\n", 100 * (cpu() - c) / (now() - t));
}

// --- up and down ---

static void lives(size_t count) {
    double *bare = room(count, sizeof *bare), *used = room(count, sizeof *used);
    for (size_t i = 0; i < count; i++) {
        double t = now();
        peer_init();
        peer_fini();
        bare[i] = now() - t;
        t = now();
        peer_init();
        peer_wait(peer_submit_handle(empty, NULL));
        peer_fini();
        used[i] = now() - t;
    }
    printf("life_ms %g\n", 1e3 * quantile(bare, count, 0.5));
    printf("life_with_a_task_ms %g\n", 1e3 * quantile(used, count, 0.5));
    free(bare), free(used);
}

// --- many that wait behind a closed gate ---

static _Atomic int open_now, at_gate;

static void gate(void *user) {
    (void)user;
    atomic_fetch_add(&at_gate, 1);
    while (!atomic_load(&open_now)) sleep_for(1e-3);
}

static double resident(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*u %lu", &pages) != 1) abort();
    fclose(file);
    return 1e-6 * pages * sysconf(_SC_PAGESIZE);
}

static void outstanding(size_t count, int with_handles) {
    void **held = room(count, sizeof *held);
    peer_submit(gate, NULL), peer_submit(gate, NULL);
    sleep_for(0.1);
    double before = resident();
    if (with_handles)
        for (size_t i = 0; i < count; i++) held[i] = peer_submit_handle(counted, NULL);
    else
        for (size_t i = 0; i < count; i++) peer_submit(counted, NULL);
    double after = resident();
    // Nobody may have been let through.
    if (atomic_load(&ran)) printf("ran_early %zu\n", (size_t)atomic_load(&ran));
    atomic_store(&open_now, 1);
    if (with_handles)
        for (size_t i = 0; i < count; i++) peer_wait(held[i]);
    peer_wait_all();
    check(count);
    const char *name = with_handles ? "outstanding_handles" : "outstanding";
    printf("%s_mb %g\n%s_bytes_each %g\n", name, after - before, name, 1e6 * (after - before) / count);
    free(held);
}

// --- a parallel loop against two plain threads with half of it each ---

struct loop {
    size_t begin, end, spins;
};

static _Atomic size_t bodies;

static void spin(size_t spins) {
    for (size_t i = 0; i < spins; i++) __asm__ volatile("" : "+r"(i));
}

static void body(size_t index, void *user) {
    (void)index;
    spin(*(size_t *)user);
    atomic_fetch_add_explicit(&bodies, 1, memory_order_relaxed);
}

static void *plain(void *user) {
    struct loop *loop = user;
    for (size_t i = loop->begin; i < loop->end; i++) body(i, &loop->spins);
    return NULL;
}

static double ideal(size_t count, size_t spins) {
    struct loop halves[2] = {{0, count / 2, spins}, {count / 2, count, spins}};
    pthread_t other;
    double t = now();
    if (pthread_create(&other, NULL, plain, &halves[0])) abort();
    plain(&halves[1]);
    pthread_join(other, NULL);
    return now() - t;
}

static void loops(const char *name, double each, size_t count) {
    // The fastest of several is the one that nobody disturbed.
    double fastest = 1;
    for (int r = 0; r < 20; r++) {
        double t = now();
        spin(1000000);
        double took = now() - t;
        fastest = took < fastest ? took : fastest;
    }
    size_t spins = (size_t)(each / (fastest / 1e6));
    double ratios[TIMES];
    for (int r = 0; r < TIMES; r++) {
        // While the peer is down: one that polls would slow the plain threads.
        double best = ideal(count, spins);
        peer_init();
        int has = peer_for(2, body, &spins);
        atomic_store(&bodies, 0);
        double t = now();
        if (has) peer_for(count, body, &spins);
        ratios[r] = best / (now() - t);
        peer_fini();
        if (!has) return;
        if (atomic_load(&bodies) != count) exit(1);
    }
    printf("loop_%s_percent %g\n", name, 100 * quantile(ratios, TIMES, 0.5));
}

int main(int argc, char **argv) {
    const char *test = argc > 1 ? argv[1] : "";
    size_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    if (!strcmp(test, "lives")) return lives(count), 0;
    if (!strcmp(test, "loop_1ms")) return loops("1ms", 1e-3, count), 0;
    if (!strcmp(test, "loop_20us")) return loops("20us", 20e-6, count), 0;
    peer_init();
    if (!strcmp(test, "together")) together(count);
    else if (!strcmp(test, "handles")) handles(count);
    else if (!strcmp(test, "round_trip")) round_trip(count);
    else if (!strcmp(test, "idle")) idle(count);
    else if (!strcmp(test, "outstanding")) outstanding(count, 0);
    else if (!strcmp(test, "outstanding_handles")) outstanding(count, 1);
    else return fprintf(stderr, "no test '%s'\n", test), 2;
    peer_fini();
    return 0;
}
