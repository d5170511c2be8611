/* Custom code as tasks: a sum over pieces, and a task that fails. */
#include <gpusched.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECES = 16 };

typedef struct {
    unsigned begin, end;
    double sum;
} piece_t;

/* Runs on a thread of the scheduler. Returns 0, or a status that sched_run_fn lists. */
static int32_t add(const sched_exec_t *exec, void *user) {
    piece_t *piece = user;
    piece->sum = 0; /* An earlier attempt may have added to it. */
    for (unsigned i = piece->begin; i < piece->end; i++) {
        if (i % 1000 == 0 && sched_exec_cancelled(exec) > 0) return SCHED_CANCELLED;
        piece->sum += i;
    }
    return 0;
}

static int32_t fail(const sched_exec_t *exec, void *user) {
    (void)user;
    return sched_exec_fail(exec, exec->attempt == 1 ? "no luck in attempt 1" : "no luck in a retry");
}

static void check(sched_status_t status) {
    if (status == SCHED_OK) return;
    fprintf(stderr, "%s: %s\n", sched_status_name(status), sched_last_error());
    exit(1);
}

int main(void) {
    sched_t *scheduler = NULL;
    sched_config_t config = {.size = sizeof config, .slots = 2};
    check(sched_create(&config, &scheduler));

    piece_t pieces[PIECES];
    for (unsigned i = 0; i < PIECES; i++) {
        pieces[i] = (piece_t){.begin = i * 1000, .end = (i + 1) * 1000};
        sched_task_desc_t task = {.size = sizeof task, .run = add, .user = &pieces[i], .label = "piece"};
        task.flags = SCHED_TASK_DETACHED; /* The pieces have no outcomes of their own. */
        check(sched_submit(scheduler, &task, NULL));
    }
    check(sched_wait_all(scheduler, SCHED_FOREVER));
    double sum = 0;
    for (unsigned i = 0; i < PIECES; i++) sum += pieces[i].sum;
    printf("sum of 0 to %d: %.0f\n", PIECES * 1000 - 1, sum);

    sched_task_t id;
    sched_task_desc_t task = {.size = sizeof task, .run = fail};
    check(sched_submit(scheduler, &task, &id));
    sched_status_t status = sched_wait(scheduler, id, SCHED_FOREVER);
    size_t length;
    check(sched_task_error(scheduler, id, NULL, 0, &length));
    char *why = malloc(length + 1);
    if (!why) return 1;
    check(sched_task_error(scheduler, id, why, length + 1, NULL));
    printf("%s: %s\n", sched_status_name(status), why);
    free(why);
    check(sched_release(scheduler, id));

    check(sched_destroy(scheduler));
    return sum == 127992000.0 && status == SCHED_E_CALLBACK ? 0 : 1;
}
