/* A task with a custom CUDA kernel: squares, on the first free GPU. It is built without a CUDA
 * toolkit: the kernel is PTX text, and dlsym finds the driver's functions. */
#include <dlfcn.h>
#include <gpusched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 8, COUNT = 500, THREADS = 128, NOT_HERE = 77 };

/* Written by hand; nvcc -ptx generates such text. Drivers from 470 on compile this version and
 * target. */
static const char square[] = ".version 6.0\n.target sm_35\n.address_size 64\n"
                             ".visible .entry square(.param .u64 values, .param .u32 count)\n"
                             "{\n"
                             ".reg .pred %p; .reg .f32 %f; .reg .b32 %r<5>; .reg .b64 %at, %offset;\n"
                             "ld.param.u64 %at, [values];\n"
                             "ld.param.u32 %r1, [count];\n"
                             "mov.u32 %r2, %ctaid.x;\n"
                             "mov.u32 %r3, %ntid.x;\n"
                             "mov.u32 %r4, %tid.x;\n"
                             "mad.lo.s32 %r2, %r2, %r3, %r4;\n"
                             "setp.ge.s32 %p, %r2, %r1;\n"
                             "@%p bra done;\n"
                             "cvta.to.global.u64 %at, %at;\n"
                             "mul.wide.s32 %offset, %r2, 4;\n"
                             "add.s64 %at, %at, %offset;\n"
                             "ld.global.f32 %f, [%at];\n"
                             "mul.rn.f32 %f, %f, %f;\n"
                             "st.global.f32 [%at], %f;\n"
                             "done:\n"
                             "ret;\n"
                             "}\n";

/* As in cuda.h. */
typedef unsigned long long address_t;
static struct {
    int (*load)(void **module, const void *text);
    int (*unload)(void *module);
    int (*find)(void **function, void *module, const char *name);
    int (*upload)(address_t to, const void *from, size_t bytes, void *stream);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **arguments, void **more);
    int (*download)(void *to, address_t from, size_t bytes, void *stream);
    int (*wait)(void *stream);
} cu;

static int look_up(void) {
    const struct {
        const char *name;
        void *place;
    } wanted[] = {{"cuModuleLoadData", &cu.load},        {"cuModuleUnload", &cu.unload},
                  {"cuModuleGetFunction", &cu.find},     {"cuMemcpyHtoDAsync_v2", &cu.upload},
                  {"cuLaunchKernel", &cu.launch},        {"cuMemcpyDtoHAsync_v2", &cu.download},
                  {"cuStreamSynchronize", &cu.wait}};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(library, wanted[i].name);
        if (!found) return 0;
        memcpy(wanted[i].place, &found, sizeof found);
    }
    return 1;
}

/* Converts the driver's status of a call to one that sched_run_fn lists. */
static int32_t result(const sched_exec_t *exec, int status) {
    char why[40];
    switch (status) {
    case 0: return SCHED_OK;
    case 2: return SCHED_E_MEMORY;      /* CUDA_ERROR_OUT_OF_MEMORY */
    case 701: return SCHED_E_RESOURCES; /* CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES */
    case 700: case 702: case 716: case 719: return SCHED_E_DEVICE; /* The context is unusable. */
    default:
        snprintf(why, sizeof why, "CUDA driver: status %d", status);
        return sched_exec_fail(exec, why);
    }
}

/* The GPU's context is current on this thread. Stream and memory belong to the callback until it
 * returns. */
static int32_t squares(const sched_exec_t *exec, void *user) {
    float *values = user;
    void *memory, *module, *function;
    sched_status_t allocated = sched_exec_memory(exec, COUNT * sizeof *values, &memory);
    if (allocated != SCHED_OK) return allocated;
    address_t address = (address_t)(uintptr_t)memory;
    int count = COUNT;
    void *arguments[] = {&address, &count};

    /* The module belongs to the context. A program with many short tasks would load it once per
     * device. */
    int status = cu.load(&module, square);
    if (status) return result(exec, status);
    status = cu.find(&function, module, "square");
    if (!status) status = cu.upload(address, values, COUNT * sizeof *values, exec->stream);
    if (!status)
        status = cu.launch(function, (COUNT + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, exec->stream, arguments,
                           NULL);
    float squared[COUNT];
    if (!status) status = cu.download(squared, address, sizeof squared, exec->stream);
    int finished = cu.wait(exec->stream);
    if (!status) status = finished;
    cu.unload(module);
    /* Only now, so that a retry finds the inputs unchanged. */
    if (!status) memcpy(values, squared, sizeof squared);
    return result(exec, status);
}

static void check(sched_status_t status) {
    if (status == SCHED_OK) return;
    fprintf(stderr, "%s: %s\n", sched_status_name(status), sched_last_error());
    exit(1);
}

int main(void) {
    sched_t *scheduler = NULL;
    sched_config_t config = {.size = sizeof config, .devices = "cuda"};
    sched_status_t status = sched_create(&config, &scheduler);
    if (status == SCHED_E_NO_DEVICE) {
        printf("left out: %s\n", sched_last_error());
        return NOT_HERE;
    }
    check(status);
    if (!look_up()) return fprintf(stderr, "the driver's library lacks a function\n"), 1;

    static float values[TASKS][COUNT];
    sched_task_t ids[TASKS];
    for (int i = 0; i < TASKS; i++) {
        for (int k = 0; k < COUNT; k++) values[i][k] = (float)(i * COUNT + k);
        sched_task_desc_t task = {.size = sizeof task, .run = squares, .user = values[i], .label = "squares",
                                  .device_bytes = sizeof values[i]};
        check(sched_submit(scheduler, &task, &ids[i]));
    }
    double sum = 0;
    for (int i = 0; i < TASKS; i++) {
        check(sched_wait(scheduler, ids[i], SCHED_FOREVER));
        for (int k = 0; k < COUNT; k++) sum += values[i][k];
    }
    printf("sum of squares: %.0f\n", sum);
    check(sched_destroy(scheduler));
    return sum == 21325334000.0 ? 0 : 1;
}
