/*
 * gpusched: runs many independent jobs on whatever devices a machine has.
 *
 * What holds for every function:
 *
 * Status    0 is done; a positive number is no error, but not finished either; a negative one is an
 *           error. sched_last_error() then says in one sentence what was wrong (of the calling thread's
 *           last failed call); sched_task_error() says why a task failed, to any thread.
 * Outputs   are written only on success.
 * Structs   begin with `size`: set it to sizeof, the rest to zero, which is every default, then what
 *           matters: `sched_config_t config = {sizeof config};`. Fields are only ever added at the end:
 *           a program built against an older header works as before; one built against a newer header
 *           is refused (SCHED_E_TOO_NEW) if it has set what this library does not know. In structs that
 *           the library fills in, what only a newer header has becomes zero.
 * Memory    Whatever is passed in is read before the call returns, unless it is called lent. Whatever
 *           a _create gives is ended by its _destroy, which takes NULL too. Texts that are returned
 *           belong to the library. Texts are UTF-8 and end with NUL.
 * Handles   are numbers that look like pointers; like the ids of tasks they are looked up and never
 *           given out twice, so one that was destroyed is an error (SCHED_E_STALE) and no crash.
 * Threads   Any function may be called from any thread, also inside a task. Callbacks run on threads
 *           of the library. Nothing works in a child of fork that inherited a scheduler
 *           (SCHED_E_FORKED); it may create its own. docs/embedding.md has forks, exits, dlclose,
 *           exceptions, signals and what the library does to its process.
 * Units     end a name: _bytes, _ns, _s, _m, _hz. Lengths of arrays (_len, count) are elements.
 * Times     to wait are in nanoseconds: negative for ever, 0 looks and returns.
 * Process   The library prints nothing, ends nothing, changes no signal handler and no environment
 *           variable, unless GPUSCHED_LOG asks for a log on standard error.
 */


#ifndef GPUSCHED_H
#define GPUSCHED_H

/* Generated from src/ffi by `UPDATE=1 cargo test --test it header`; not to be edited. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>


// Done.
#define SCHED_OK 0

// The time was up first.
#define SCHED_PENDING 1

// The task was cancelled before its result counted.
#define SCHED_CANCELLED 2

// An argument or a field is outside what is accepted.
#define SCHED_E_ARGUMENT -1

// A struct has something set in a part that this library does not know: it comes from a newer header.
#define SCHED_E_TOO_NEW -2

// An id or handle that was released or destroyed, or belongs to another scheduler.
#define SCHED_E_STALE -3

// More memory is needed than any allowed device has, or than the host gives.
#define SCHED_E_MEMORY -4

// There is no device, or none that the selection or a mask allows.
#define SCHED_E_NO_DEVICE -5

// A file could not be opened, read or written.
#define SCHED_E_IO -6

// The task's callback returned something other than 0.
#define SCHED_E_CALLBACK -7

// Code of the library or of a Rust task panicked; the panic ended there.
#define SCHED_E_PANIC -8

// The wait could never have ended, so it was not begun.
#define SCHED_E_DEADLOCK -9

// The scheduler takes no more tasks: it was drained, or is being destroyed.
#define SCHED_E_SHUTDOWN -10

// The process was forked after the scheduler had been created.
#define SCHED_E_FORKED -11

// The numerical scheme would blow up, or did.
#define SCHED_E_UNSTABLE -12

// A device failed.
#define SCHED_E_DEVICE -13

// A fault of the library. Please report it.
#define SCHED_E_INTERNAL -14

// A task that had to end well before this one did not, so this one was not started.
#define SCHED_E_DEPENDENCY -15

// An attempt took longer than its deadline.
#define SCHED_E_DEADLINE -16

// A device had too few resources to start the work beside what it was doing; or the system gives no thread.
#define SCHED_E_RESOURCES -17

// The task's callback did not return: an exception or pthread_exit left it, and ended there.
#define SCHED_E_UNWOUND -18

// A call of a device's driver failed, which says nothing of the device.
#define SCHED_E_DRIVER -19

// A device is there, but another process has it to itself.
#define SCHED_E_BUSY -20

// What a device computed is wrong, as the task's callback has found.
#define SCHED_E_RESULT -21

// The binary interface that this header describes; raised when a program that was built against an
// older header could no longer work.
#define SCHED_ABI_VERSION 0

// As `timeout_ns`: wait as long as it takes. 0 looks and returns.
#define SCHED_FOREVER -1

// As `slots`: as many as each device turns out to do best with, found while tasks run.
#define SCHED_SLOTS_AUTO 4294967295

// Bit of a backend mask: the host's processor.
#define SCHED_BACKEND_CPU 1

// Bit of a backend mask: NVIDIA GPUs.
#define SCHED_BACKEND_CUDA 2

// The device may be given work.
#define SCHED_HEALTH_GOOD 0

// The device failed in such a way that nothing runs on it any more.
#define SCHED_HEALTH_RETIRED 1

// The device is there, but closed to programs, or too old for this library.
#define SCHED_HEALTH_BARRED 2

// Flag of a task: nobody will ask for its outcome, so its id is released when it ends.
#define SCHED_TASK_DETACHED 1

// Flag of a task: a second copy of it may be started on another device while the first still runs, and
// after a failure of the device. The first to call sched_exec_commit, or to end well without,
// counts; the other is asked to stop, and nobody hears how it ends. `user` and what it
// points to are lent until `drop` is called, which may be after a wait has told the task's end.
#define SCHED_TASK_IDEMPOTENT 2

// Flag of a task: sched_wait_next hands it out in its turn. Not together with SCHED_TASK_DETACHED.
#define SCHED_TASK_ORDERED 4

// Not started yet.
#define SCHED_STATE_QUEUED 0

// Running.
#define SCHED_STATE_RUNNING 1

// Ended well.
#define SCHED_STATE_DONE 2

// Ended with an error.
#define SCHED_STATE_FAILED 3

// Cancelled before its result counted.
#define SCHED_STATE_CANCELLED 4

// Ricker wavelet; the one that 0 means.
#define SCHED_FD_WAVELET_RICKER 1

// First derivative of a Gaussian.
#define SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE 2

// Gaussian.
#define SCHED_FD_WAVELET_GAUSSIAN 3

// Ricker wavelet, integrated once.
#define SCHED_FD_WAVELET_RICKER_INTEGRAL 4

// Ricker wavelet, integrated twice.
#define SCHED_FD_WAVELET_RICKER_DOUBLE_INTEGRAL 5

// Ricker wavelet, integrated three times.
#define SCHED_FD_WAVELET_RICKER_TRIPLE_INTEGRAL 6

// Flag of a model: 1/rho and rho vp² are kept in 16 bits, between the smallest and the largest value that the model has of each, and
// not in 32. Shots take up to a sixth less memory; speeds are off by at most 5e-4 of themselves, nearly always by much less. A model
// for which that is not enough is refused.
#define SCHED_FD_MODEL_16_BIT 1

// Flag of a shot: samples are zero until the direct wave has passed, as the old library mutes.
#define SCHED_FD_MUTE_DIRECT 1

// Flag of a shot: the error of the steps in time is taken out of the record, at next to no cost; snapshots keep it. The record is that of
// steps without error, to some 1e-4, where `record_every` leaves more than two samples a period.
#define SCHED_FD_EXACT_TIME 2

// Flag of a shot: derivatives in space are those that fit waves of 3.5 cells and more best, to 3.6e-4, in place of those of
// eighth order, which are better from six cells on. The time step is at most 0.9634 of what sched_fd_dt_max tells.
#define SCHED_FD_OPTIMISED_STENCIL 4

// A medium: velocity and density on a grid. Any number of shots, threads and schedulers may use it
// at a time.
typedef struct sched_fd_model_t sched_fd_model_t;

// A scheduler: tasks, and the devices that run them. NULL, where one is asked for, means the one that
// the process shares (see sched_default), which that keeps as long as the process lives.
typedef struct sched_t sched_t;

// How a call ended: 0 done, positive not finished but no error, negative an error.
typedef int32_t sched_status_t;

// Takes a line of the log: `level` from 1 (error) over 2 (warning), 3 (information), 4 (debug) to
// 5 (trace), `message` valid during the call. The scheduler warns of tasks that failed for good or take
// far too long and of devices that are retired, and informs of attempts that are tried again and of second copies. Called from any thread, several at a time.
// It must not log through the library, nor destroy a scheduler (it may be called from a thread that ends
// with that one), nor let an exception out. It runs in the floating-point mode of the thread that called
// sched_log_callback, see sched_run_fn.
typedef void (*sched_log_fn)(int32_t level, const char *message, void *user);

// What a scheduler is made of. Zero in every field is the default.
typedef struct sched_config_t {
  // sizeof(sched_config_t), set by the caller.
  size_t size;
  // Devices to use: "all", "none", or a list such as "cpu,cuda:0,cuda:GPU-5b...".
  // NULL: what GPUSCHED_DEVICES says, else all. Copied.
  const char *devices;
  // Tasks at a time on each device, at most 64, or SCHED_SLOTS_AUTO. 0: what GPUSCHED_SLOTS says, else 1.
  uint32_t slots;
  // Threads of the CPU device, shared by its slots. 0: all that the process may use.
  uint32_t cpu_threads;
  // Events that a trace of what runs keeps at most, 150 bytes of memory or so each. 0: no trace.
  uint32_t trace_events;
  // Zero.
  uint32_t reserved;
  // File that keeps between runs what is learned of the devices, their speeds above all, for programs whose task classes
  // and units of work mean the same. It need not be there, and need not be sound; folders are made.
  // NULL: none. Copied.
  const char *rates_path;
  // Bytes of stack for the code of each task, 1048576 to 68719476736 (1 MiB to 64 GiB). 0: 8 MiB.
  // Each worker reserves 4 MiB more; only pages that are touched take memory.
  uint64_t stack_bytes;
} sched_config_t;

// Numbers of tasks of a scheduler since it was made.
typedef struct sched_stats_t {
  // sizeof(sched_stats_t), set by the caller.
  size_t size;
  // Tasks accepted.
  uint64_t submitted;
  // Waiting to be started now.
  uint64_t queued;
  // Running now.
  uint64_t running;
  // Ended well.
  uint64_t done;
  // Ended with an error.
  uint64_t failed;
  // Cancelled before their result counted.
  uint64_t cancelled;
  // Attempts that followed a failed attempt.
  uint64_t retried;
  // Devices that the scheduler has.
  uint32_t devices;
  // Zero.
  uint32_t reserved;
  // Time from the first submission to the last end so far, in nanoseconds.
  uint64_t makespan_ns;
  // No schedule could have finished sooner what ended well, by the rates that were measured: the larger of
  // all work over all devices' rates and the longest task on the fastest device, in nanoseconds.
  // 0 where nothing has ended well.
  uint64_t lower_bound_ns;
} sched_stats_t;

// Counts and busy time of one device of a scheduler.
typedef struct sched_device_stats_t {
  // sizeof(sched_device_stats_t), set by the caller.
  size_t size;
  // Attempts that ended well on it, also of copies that came too late.
  uint64_t done;
  // Attempts that did not: they failed, or stopped when they were asked to.
  uint64_t failed;
  // Time that its slots have spent in tasks, added up, in nanoseconds.
  uint64_t busy_ns;
  // Memory promised to running tasks now, in bytes.
  uint64_t leased_bytes;
  // The most that was ever promised at a time, in bytes.
  uint64_t peak_bytes;
  // Tasks that it runs at a time.
  uint32_t slots;
  // SCHED_HEALTH_*.
  int32_t health;
} sched_device_stats_t;

// A device as it was found, without having been touched.
typedef struct sched_device_info_t {
  // sizeof(sched_device_info_t), set by the caller.
  size_t size;
  // SCHED_BACKEND_CPU or SCHED_BACKEND_CUDA.
  uint32_t backend;
  // The backend's own number for the device, in this process only.
  uint32_t ordinal;
  // A name that stays with the device across processes and reboots.
  char uuid[64];
  // Such as "0000:01:00.0"; "" if it has none.
  char pci_bus_id[32];
  // What its maker calls it.
  char name[128];
  // Compute capability, major and minor; 0 if it has none.
  int32_t compute_major;
  // See compute_major.
  int32_t compute_minor;
  // Threads of the CPU device; 0 for a GPU.
  uint32_t cpu_threads;
  // SCHED_HEALTH_*.
  int32_t health;
  // Memory in bytes.
  uint64_t total_bytes;
  // Memory that was free when the device was looked at, in bytes.
  uint64_t free_bytes;
} sched_device_info_t;

// A task. Never 0, and never given out twice by a scheduler: one that was released is an error.
typedef uint64_t sched_task_t;

// Where a task runs; given to its code, valid until that returns.
typedef struct sched_exec_t {
  // sizeof(sched_exec_t) in the library: fields beyond it are not there.
  size_t size;
  // The task itself; 0 where it is detached and was submitted without a place for its id.
  sched_task_t task;
  // Number of the device in its scheduler, as sched_device_info takes it.
  uint32_t device;
  // SCHED_BACKEND_CPU or SCHED_BACKEND_CUDA.
  uint32_t backend;
  // The backend's own number for the device.
  uint32_t ordinal;
  // Slot of the device: no two tasks work in the same one at a time. While one waits inside its code for
  // others, one of those may be in it; when it
  // goes on, there may be two until that one ends.
  uint32_t slot;
  // 1 for the first attempt.
  uint32_t attempt;
  // Threads that the task may use on the CPU device, its own included; 0 on a GPU.
  uint32_t cpu_threads;
  // The stream to put work on, a CUstream; NULL on a processor. The device's context is current on the
  // thread. What is on the stream when the code returns is waited for before the task is done.
  void *stream;
} sched_exec_t;

// The code of a task. It returns 0 when it is done, and otherwise a number that says what to do:
//
// - SCHED_CANCELLED: it has stopped before it was done. The task ends as cancelled, also where `retries` are
//   left; an attempt that was asked to make room for another ends alone.
// - SCHED_E_MEMORY: memory of the device was short. It is tried again, alone on the device, then on other
//   devices, then after a while; in the end it fails with SCHED_E_MEMORY.
// - SCHED_E_RESOURCES: a launch found too few resources beside what runs. The same.
// - SCHED_E_DEVICE: the device's context is of no use any more (a sticky error). The context is made
//   anew, and the task tried elsewhere; the second time it fails with SCHED_E_DEVICE.
// - SCHED_E_RESULT: what was computed is wrong, and the device may be why. The task is tried once more,
//   elsewhere if there is another device for it; if that is wrong, too, it fails with SCHED_E_RESULT. If it is
//   right, the first device was to blame; the second task that this befalls retires the device.
// - anything else: the task has failed with SCHED_E_CALLBACK, or is tried again if `retries` are left; its
//   words name the number.
//
// Where it was asked to stop by its deadline, the first and the last of these are SCHED_E_DEADLINE.
//
// Called on a thread of the library with `stack_bytes` of stack (sched_config_t; 8 MiB by default), so
// `user` is used from there. It may call any function of the library, also wait for other tasks: a task
// that it has submitted may then run on the same thread, with as much stack of its own.
//
// It should return. On Linux on x86-64 an exception, pthread_exit or pthread_cancel that leaves it fails
// the task (SCHED_E_UNWOUND), and what it has on the stack is destroyed; elsewhere that ends the process
// with a message. No longjmp may leave it.
//
// It runs in the floating-point mode of the thread that submitted the task, as that was at the
// submission: rounding direction, flush-to-zero, denormals-are-zero and trap masks, but not the
// exception flags, which are clear. This holds for every attempt, on every slot. A change that it makes
// to the mode ends when it returns.
typedef int32_t (*sched_run_fn)(const struct sched_exec_t *exec, void *user);

// Gives `user` back to its owner. Called once, on any thread; must not wait for a task. An exception that
// leaves it goes to the log. It runs in the floating-point mode of its task, see sched_run_fn.
typedef void (*sched_drop_fn)(void *user);

// What is to be run, and what the scheduler is told of it. Zero in every field but `size` and `run`
// is the default.
typedef struct sched_task_desc_t {
  // sizeof(sched_task_desc_t), set by the caller.
  size_t size;
  // The task's code; called on a thread of the library, and again after a failure where `retries`
  // says so. NULL in sched_fd_submit.
  sched_run_fn run;
  // Handed to `run` and `drop`.
  void *user;
  // NULL, or called exactly once with `user` when the library needs it no more: after the last
  // `run`, after a cancel, and also when the submitting call fails. Only where that call could not
  // read the struct (NULL, an impossible `size`, SCHED_E_TOO_NEW) it is not called.
  // It is called before a wait tells the task's end, on any thread, and must not wait for a task.
  sched_drop_fn drop;
  // A name for messages and logs; NULL: none. Copied.
  const char *label;
  // Memory of the device that the task takes at its peak, in bytes; kept free for it while it runs.
  uint64_t device_bytes;
  // How much there is to do, in any unit that all tasks of the scheduler share, from 1e-100 to 1e100;
  // 0: unknown.
  double work;
  // Devices that may run it: bit i for device i. 0: all.
  uint64_t device_mask;
  // Kinds of device that may run it: SCHED_BACKEND_* together. 0: all.
  uint32_t backend_mask;
  // Higher runs earlier.
  int32_t priority;
  // How often a failed attempt is followed by another.
  uint32_t retries;
  // SCHED_TASK_* together.
  uint32_t flags;
  // Tasks of a class are alike: for each, the speed of every device and the time that a task may
  // take are learned. 0 is a class, too; in sched_fd_submit it means the class that all shots share.
  uint32_t task_class;
  // Zero.
  uint32_t reserved;
  // How long an attempt may take before it is asked to stop, in nanoseconds. 0: as long as those of
  // its class lead to expect, and then no more than a warning.
  int64_t deadline_ns;
  // Tasks of the same scheduler that have to end well before this one starts. If one of them does
  // not, this one ends with SCHED_E_DEPENDENCY and never runs. Copied.
  const sched_task_t *after;
  // Number of `after`.
  size_t after_count;
} sched_task_desc_t;

// What is known of a task.
typedef struct sched_task_info_t {
  // sizeof(sched_task_info_t), set by the caller.
  size_t size;
  // SCHED_STATE_*.
  int32_t state;
  // What sched_wait would return now.
  sched_status_t status;
  // Number of the device where it runs or ran last; -1 if it was never started.
  int32_t device;
  // Slot of that device.
  uint32_t slot;
  // Attempts begun.
  uint32_t attempts;
  // Zero.
  uint32_t reserved;
  // How much of the attempt is done, from 0 to 1, as the task reports it.
  double progress;
  // Time from submit to start, or until now, in nanoseconds.
  uint64_t queued_ns;
  // Time from start to end, or until now, in nanoseconds.
  uint64_t running_ns;
} sched_task_info_t;

// The code of a range, called for the elements `begin` to `end`, `end` not included and never equal to
// `begin`; for different pieces on several threads at the same time. What it returns means what it
// means for sched_run_fn, and besides:
//
// - SCHED_E_MEMORY: the piece did not fit. It is called again with half of it, down to one element, and
//   what did not fit a device is not tried there again; an element that fits no device fails the range.
// - SCHED_CANCELLED: the whole range ends as cancelled.
// - SCHED_E_RESULT and any other failure: the whole range fails, and its words name the elements.
//
// After either of the last two no piece begins any more; those that run elsewhere end. The device's
// stream is waited for before the elements count as done. What sched_exec_report
// tells here lasts until the next piece ends: the range's progress is the part of the elements that is done.
// Every piece runs in the floating-point mode of the thread that submitted the range, see sched_run_fn.
typedef int32_t (*sched_range_fn)(const struct sched_exec_t *exec,
                                  uint64_t begin,
                                  uint64_t end,
                                  void *user);

// A parallel loop and what the scheduler is told of it. Zero in every field but `size`, `end` and `run` is the
// default.
typedef struct sched_range_desc_t {
  // sizeof(sched_range_desc_t), set by the caller.
  size_t size;
  // The first element.
  uint64_t begin;
  // The element after the last. A range without elements is done at once, and `run` is not called.
  uint64_t end;
  // The most elements of a call; a call may get fewer. 0: found by measuring, for each device, so
  // that a call takes about 0.75 ms.
  uint64_t grain;
  // The code; every element is in exactly one call that ends well, unless the range fails.
  sched_range_fn run;
  // Handed to `run` and `drop`.
  void *user;
  // As in sched_task_desc_t: called once, after the last `run`.
  sched_drop_fn drop;
  // A name for messages and logs; NULL: none. Copied.
  const char *label;
  // Memory of the device that one element takes, in bytes. A call gets no more elements than there
  // is memory for, and that much is kept free for it.
  uint64_t device_bytes;
  // As in sched_task_desc_t.
  uint64_t device_mask;
  // As in sched_task_desc_t.
  uint32_t backend_mask;
  // Higher runs earlier.
  int32_t priority;
  // SCHED_TASK_DETACHED, SCHED_TASK_ORDERED.
  uint32_t flags;
  // Zero.
  uint32_t reserved;
  // How long the whole range may take before it is asked to stop, in nanoseconds. 0: as long as it takes.
  int64_t deadline_ns;
  // Tasks that have to end well before the first call. Copied.
  const sched_task_t *after;
  // Number of `after`.
  size_t after_count;
} sched_range_desc_t;

// How far a scheduler is.
typedef struct sched_progress_t {
  // sizeof(sched_progress_t), set by the caller; in a callback, by the library.
  size_t size;
  // Tasks waiting to be started now.
  uint64_t queued;
  // Tasks running now.
  uint64_t running;
  // Tasks that ended well.
  uint64_t done;
  // Tasks that ended with an error.
  uint64_t failed;
  // Tasks that were cancelled before their result counted.
  uint64_t cancelled;
  // Attempts that followed a failed attempt.
  uint64_t retried;
  // Time since the first task was submitted, in nanoseconds.
  uint64_t elapsed_ns;
  // Time until all tasks will have ended that were submitted so far, in nanoseconds; -1: not known. It is
  // known when rates are: from tasks that have ended, from what running ones report, from an earlier run.
  int64_t eta_ns;
  // Work of all tasks, as far as they tell it.
  double work_total;
  // What of that is over: of tasks that have ended, well or not, and what running ones report as done.
  double work_done;
} sched_progress_t;

// Takes the progress of a scheduler; `progress` is valid during the call. Called on a thread of the
// library, never twice at once for one scheduler. It may call any function of the library except
// sched_destroy for this scheduler, must return, and must not let an exception out. It runs in the
// floating-point mode of the thread that called sched_progress_callback, see sched_run_fn.
typedef void (*sched_progress_fn)(const struct sched_progress_t *progress, void *user);

// A medium on a regular grid. Fields lie in memory as [iy][ix][iz], z fastest, which is Fortran's
// (nz,nx,ny).
typedef struct sched_fd_model_desc_t {
  // sizeof(sched_fd_model_desc_t), set by the caller.
  size_t size;
  // Cells along x, from 1 to 100000, the absorbing layer not included.
  uint64_t nx;
  // Cells along y, likewise.
  uint64_t ny;
  // Cells along z (depth), likewise.
  uint64_t nz;
  // Metres between cells along x, at least 1e-6.
  float dx_m;
  // Metres between cells along y, likewise.
  float dy_m;
  // Metres between cells along z, likewise.
  float dz_m;
  // SCHED_FD_MODEL_* flags together.
  uint32_t flags;
  // P velocity in m/s, nx*ny*nz values, each positive and finite. Copied.
  const float *vp_m_s;
  // Density in kg/m3, likewise. NULL: 1000 everywhere. Copied.
  const float *rho_kg_m3;
} sched_fd_model_desc_t;

// A cell of a model's grid, counted from 0.
typedef struct sched_fd_cell_t {
  // Along x.
  uint64_t ix;
  // Along y.
  uint64_t iy;
  // Along z (depth).
  uint64_t iz;
} sched_fd_cell_t;

// One shot. `dt_s`, `nt`, `source`, `record` and `frequency_hz` (or `wavelet_samples`) have to be set;
// zero is the default of everything else.
typedef struct sched_fd_shot_desc_t {
  // sizeof(sched_fd_shot_desc_t), set by the caller.
  size_t size;
  // Time step in seconds; at most what sched_fd_dt_max tells.
  float dt_s;
  // Peak frequency of `wavelet` in Hz. With `wavelet_samples` only SCHED_FD_MUTE_DIRECT looks at it.
  float frequency_hz;
  // Time steps to compute, at least 1.
  uint64_t nt;
  // SCHED_FD_WAVELET_*; 0: Ricker.
  int32_t wavelet;
  // SCHED_FD_* flags together.
  uint32_t flags;
  // A source function of one's own, one sample a time step, nothing after the last. Copied.
  // NULL: `wavelet`.
  const float *wavelet_samples;
  // Number of `wavelet_samples`.
  size_t wavelet_len;
  // Factor on the wavelet; 0: 10000.
  float amplitude;
  // A sample is kept every so many steps, from step 0; 0: 1.
  uint32_t record_every;
  // The upper, negative pole of the vertical dipole that is the source; the positive pole lies two
  // cells deeper, where need be in the absorbing layer.
  struct sched_fd_cell_t source;
  // Cells to record in, in the order of the traces. Copied. NULL: a plane at depth `plane_iz`.
  const struct sched_fd_cell_t *receivers;
  // Number of `receivers`.
  size_t receiver_count;
  // Depth index of the receiver plane; traces are [iy][ix]. Not looked at with `receivers`.
  uint64_t plane_iz;
  // Every how many cells along x a receiver stands, from cell 0; 0: 1.
  uint32_t plane_every_x;
  // Every how many cells along y a receiver stands, from cell 0; 0: 1.
  uint32_t plane_every_y;
  // The pressure that was recorded, [trace][sample]. Lent until the task has ended; written only
  // if it ends well.
  float *record;
  // Floats that `record` has room for; sched_fd_shot_size tells how many are needed.
  size_t record_len;
  // A snapshot of the pressure is kept every so many steps, from step 0; 0: none.
  uint64_t snapshot_every;
  // The snapshots, [snapshot][iy][ix][iz]. Lent until the task has ended; written while it runs, so
  // worth reading only if it ends well. NULL if `snapshot_every` is 0.
  float *snapshots;
  // Floats that `snapshots` has room for.
  size_t snapshots_len;
} sched_fd_shot_desc_t;

// How large the results of a shot are, and how much memory it takes.
typedef struct sched_fd_shot_size_t {
  // sizeof(sched_fd_shot_size_t), set by the caller.
  size_t size;
  // Traces of the record.
  uint64_t traces;
  // Samples of a trace.
  uint64_t samples;
  // Floats of the record: traces * samples.
  uint64_t record_len;
  // Snapshots.
  uint64_t snapshots;
  // Floats of all snapshots together.
  uint64_t snapshots_len;
  // Memory of the device that the shot takes at its peak, in bytes; on the CPU with as many threads as the process may
  // run at once.
  uint64_t device_bytes;
  // Memory of the host that it takes besides, wherever it runs: its record.
  uint64_t host_bytes;
} sched_fd_shot_size_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Number of the binary interface. It changes only when a program built against an older header
// would break; compare it with `SCHED_ABI_VERSION` where the library is loaded at run time.
uint32_t sched_abi_version(void);

// Version of the library, such as "0.1.0". Static; not to be freed.
const char *sched_version(void);

// Name of a status, such as "SCHED_E_ARGUMENT"; "unknown status" for a number that is none.
// Static; not to be freed.
const char *sched_status_name(sched_status_t status);

// What was wrong in the last call of the calling thread that returned a negative status, in one
// sentence; "" if none has. A call that succeeds leaves it as it is. Owned by the library, valid
// until the thread's next failing call or its end.
const char *sched_last_error(void);

// Sends the log to a function of the caller, for the whole process, in place of whatever was there.
//
// `max_level`: 1 error, 2 warning, 3 information, 4 debug, 5 trace; what is above is not told.
// `function` NULL turns the log off. `user` is handed to the function and stays the caller's; once
// a later call has returned, the function that was set before is not running and is not called again.
//
// Errors: SCHED_E_ARGUMENT for a level outside 1 to 5; SCHED_E_DEADLOCK from inside a log function.
sched_status_t sched_log_callback(sched_log_fn function,
                                  void *user,
                                  int32_t max_level);

// Makes a scheduler and puts its handle into `*out`. `config` NULL: every default.
// No device is touched before its first task. To be ended with sched_destroy.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW; SCHED_E_NO_DEVICE where nothing fits the selection.
sched_status_t sched_create(const struct sched_config_t *config, struct sched_t **out);

// Puts a handle of the scheduler that all of the process share into `*out`: made from the environment if
// nobody holds it. For libraries that don't know of each other: each call gives a handle
// of its own, to be given back with sched_destroy, and the last one ends the scheduler.
//
// Whoever gives back a handle while others hold theirs leaves its tasks to run on: wait for them first.
// sched_wait_next has an order for each handle; sched_wait_all, sched_stats and the devices are
// of all together. Passing NULL to any function uses the same scheduler and keeps it for good.
//
// Errors: SCHED_E_ARGUMENT; SCHED_E_NO_DEVICE; SCHED_E_FORKED in a child whose parent had one.
sched_status_t sched_default(struct sched_t **out);

// Accepts no more tasks and waits until all have ended: 0, or SCHED_PENDING when the time was up first.
// Outcomes can still be asked for. The shared scheduler (sched_default) goes on accepting: it only waits.
//
// Errors: SCHED_E_STALE; SCHED_E_DEADLOCK from inside a task of the same scheduler.
sched_status_t sched_drain(struct sched_t *s,
                           int64_t timeout_ns);

// Cancels what is queued, asks what runs to stop, waits for it, and ends the scheduler. Drop callbacks
// have been called when it returns, waiting calls of other threads return, and the handle is stale.
// A handle of sched_default is given back, and its scheduler ends with the last. NULL: nothing to do.
//
// It waits as long as a task's code runs; for code that may never return see sched_shutdown. It does not
// wait for an attempt that was given up after its deadline: should its code return one day, `drop` is called then.
//
// Errors: SCHED_E_STALE for a handle that was destroyed before; SCHED_E_DEADLOCK from inside a task
// or a `drop` of the same scheduler, which then goes on as before.
sched_status_t sched_destroy(struct sched_t *s);

// As sched_destroy, but SCHED_PENDING when the time is up and some task's code has not returned. Then the
// scheduler takes and starts nothing more, but is still there: sched_stats, sched_task_info and
// the waits tell what hangs. Call it, or sched_destroy, again; or leave it: a scheduler that is never
// destroyed does not keep the process from ending.
//
// Errors: as sched_destroy.
sched_status_t sched_shutdown(struct sched_t *s,
                              int64_t timeout_ns);

// Fills in the numbers of tasks.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
sched_status_t sched_stats(struct sched_t *s, struct sched_stats_t *stats);

// Fills in what device `index`, counted from 0, has done.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
sched_status_t sched_device_stats(struct sched_t *s,
                                  uint32_t index,
                                  struct sched_device_stats_t *stats);

// Puts the number of devices of a scheduler into `*count`. With NULL: those that the machine has and
// GPUSCHED_DEVICES allows. They are numbered from 0, and keep their numbers.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_NO_DEVICE.
sched_status_t sched_device_count(struct sched_t *s,
                                  uint32_t *count);

// Fills in what is known of device `index`, counted from 0.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_NO_DEVICE.
sched_status_t sched_device_info(struct sched_t *s,
                                 uint32_t index,
                                 struct sched_device_info_t *info);

// 1 if the task was asked to stop, 0 if not. Long tasks look now and then, and return soon, with
// SCHED_CANCELLED: 0 says that they are done all the same, and is believed unless the task was cancelled.
// `exec` is what the task's code was given; any thread may ask, until that code returns.
//
// Errors (negative): SCHED_E_ARGUMENT, SCHED_E_STALE.
int32_t sched_exec_cancelled(const struct sched_exec_t *exec);

// Tells how much of the task is done, from 0 to 1, for sched_task_info. `exec` as above.
//
// Errors: SCHED_E_ARGUMENT for a number outside 0 to 1; SCHED_E_STALE.
sched_status_t sched_exec_report(const struct sched_exec_t *exec, double fraction);

// Called before a task puts its results where others see them: 0 if this attempt counts, and then the task
// can't be cancelled any more; SCHED_CANCELLED if another attempt or a cancel was first: discard
// the results and return. Where a copy may run (SCHED_TASK_IDEMPOTENT), only the attempt that was told 0
// may write them. `exec` as above.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
sched_status_t sched_exec_commit(const struct sched_exec_t *exec);

// Allocates `bytes` bytes on the task's device and stores their address in `*memory`: memory of the GPU on a
// GPU, memory of the host on the CPU device. The contents are undefined, the alignment is at least 64 bytes. The
// memory belongs to the callback until that returns; the scheduler then caches it for later requests of the same
// size. Work that uses the memory must be on the stream of `exec`, or be done when the callback returns. The
// task's `device_bytes` should include these bytes. `exec` is the argument of the callback; call this function
// on the thread that runs the callback.
//
// Errors: SCHED_E_MEMORY if the device does not have that much: the callback should return this status, so that
// the task is retried as described at sched_run_fn. SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_DEVICE,
// SCHED_E_DRIVER.
sched_status_t sched_exec_memory(const struct sched_exec_t *exec,
                                 uint64_t bytes,
                                 void **memory);

// Hands a task to a scheduler and returns at once. `*id` may be NULL if the task is detached.
// Refused, with the numbers, if no device could ever run it.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW, SCHED_E_STALE, SCHED_E_NO_DEVICE, SCHED_E_MEMORY,
// SCHED_E_SHUTDOWN, SCHED_E_FORKED.
sched_status_t sched_submit(struct sched_t *s,
                            const struct sched_task_desc_t *desc,
                            sched_task_t *id);

// Hands `count` tasks to a scheduler, all of them or, on any error, none, and puts their ids into `ids`
// in the same order. `descs` is an array of structs: `size` is the same in all. `ids` may be NULL
// if all are detached. Cheaper than as many calls of sched_submit. None at all is no error.
//
// Where a struct could not be read (NULL, an impossible `size`, SCHED_E_TOO_NEW), no `drop` is called;
// after any other error that of each task has been, once.
//
// Errors: as sched_submit, for the first task that is refused.
sched_status_t sched_submit_many(struct sched_t *s,
                                 const struct sched_task_desc_t *descs,
                                 size_t count,
                                 sched_task_t *ids);

// Waits for a task, from any number of threads and as often as one likes: 0 when it ended well,
// SCHED_CANCELLED, SCHED_PENDING when the time was up first, or the task's own failure, whose words
// are then in sched_last_error and, from any thread, in sched_task_error.
//
// Errors besides: SCHED_E_STALE; SCHED_E_ARGUMENT for a task that is detached; SCHED_E_DEADLOCK for a
// wait inside a task that could never end.
sched_status_t sched_wait(struct sched_t *s,
                          sched_task_t id,
                          int64_t timeout_ns);

// Waits until every task submitted so far has ended, well or not: 0, or SCHED_PENDING when the time
// was up first. Outcomes stay to be asked for.
//
// Errors: SCHED_E_STALE; SCHED_E_DEADLOCK from inside a task of the same scheduler.
sched_status_t sched_wait_all(struct sched_t *s, int64_t timeout_ns);

// Waits until one of `count` tasks has ended, well or not, and puts its position in `ids` into
// `*index`: 0, or SCHED_PENDING when the time was up first. Its outcome is then told by sched_wait.
// It names an ended task each time, so take it from the list before the next call.
//
// Errors: SCHED_E_ARGUMENT, also for an empty list; SCHED_E_STALE if any id is unknown;
// SCHED_E_DEADLOCK for a wait inside a task that could never end.
sched_status_t sched_wait_any(struct sched_t *s,
                              const sched_task_t *ids,
                              size_t count,
                              int64_t timeout_ns,
                              size_t *index);

// Waits for the next task with SCHED_TASK_ORDERED, in the order in which they were submitted through
// this handle, until it has ended, well or not, and puts its id into `*id`: 0, or SCHED_PENDING when
// the time was up first. Each is handed out once, to one of those who wait; its outcome is
// then told by sched_wait. One that was released before its turn is passed over.
//
// Errors: SCHED_E_ARGUMENT, also if none is left to hand out; SCHED_E_STALE; SCHED_E_DEADLOCK for a
// wait inside a task that could never end.
sched_status_t sched_wait_next(struct sched_t *s,
                               int64_t timeout_ns,
                               sched_task_t *id);

// Asks a task to stop: a queued one never starts, a running one sees it in sched_exec_cancelled, and ends as
// cancelled, whatever it returns, unless it has committed before.
// Nothing happens to one that has ended. Does not wait.
//
// Errors: SCHED_E_STALE.
sched_status_t sched_cancel(struct sched_t *s,
                            sched_task_t id);

// Forgets the outcome of a task and makes its id stale. One that has not ended becomes detached: it can be
// cancelled and asked about until it ends, and its id is stale from then on.
// Outcomes that nobody releases are kept as long as the scheduler.
//
// Errors: SCHED_E_STALE.
sched_status_t sched_release(struct sched_t *s,
                             sched_task_t id);

// Fills in what is known of a task.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
sched_status_t sched_task_info(struct sched_t *s, sched_task_t id, struct sched_task_info_t *info);

// Writes why a task failed, in one sentence, into `buffer`, cut to `len` bytes, the NUL at the end
// included, and returns how many bytes the whole sentence has, the NUL not included: as snprintf
// does. `buffer` may be NULL if `len` is 0. Any thread may ask, until the task is released.
// 0, and an empty text, if the task has not failed; also if it is unknown, which sched_last_error tells.
size_t sched_task_error(struct sched_t *s,
                        sched_task_t id,
                        char *buffer,
                        size_t len);

// Hands a range to a scheduler and returns at once: one task, to be waited for, cancelled, released and
// asked about like any other. `*id` may be NULL if it is detached. Its elements are done by
// all devices that it allows, as they become free, in pieces that are split while there is somebody to
// take a part. A range may be submitted, and waited for, inside a piece of another.
//
// Errors: as sched_submit; SCHED_E_ARGUMENT also if `begin` is beyond `end`.
sched_status_t sched_submit_range(struct sched_t *s,
                                  const struct sched_range_desc_t *desc,
                                  sched_task_t *id);

// Fills in how far the scheduler is.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
sched_status_t sched_progress(struct sched_t *s, struct sched_progress_t *progress);

// Calls `function` every `interval_ns` (at least 1000000; 0: a second) with the progress, in place of
// what was called before; the first call comes after that time. `function` NULL calls nothing any more.
// A thread for it exists only as long as it is set. `user` is handed to it and stays the caller's.
// Once this, or sched_destroy, has returned, the function that was set before is not running (unless this was
// called from inside it) and is not called again; so the function must not wait for whoever changes it.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_FORKED; SCHED_E_SHUTDOWN for a function, while another thread
// ends the scheduler.
sched_status_t sched_progress_callback(struct sched_t *s,
                                       sched_progress_fn function,
                                       void *user,
                                       uint64_t interval_ns);

// Writes what ran where and when, up to now, to a file in the Chrome trace event format (JSON), which
// chrome://tracing and ui.perfetto.dev show: a process a device, a row a slot, a bar an attempt, a flag for a
// warning or a retry, a curve of the memory that is leased. The scheduler needs `trace_events` in its
// sched_config_t; events beyond that number are only counted ("left_out"). The file is whole or absent.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_IO.
sched_status_t sched_trace_write(struct sched_t *s,
                                 const char *path);

// Makes a model and puts its handle into `*out`. The arrays are copied. To be given back with
// sched_fd_model_destroy.
//
// Errors: SCHED_E_ARGUMENT, naming the first cell that is not accepted, and for values too far apart for
// SCHED_FD_MODEL_16_BIT; SCHED_E_TOO_NEW; SCHED_E_MEMORY.
sched_status_t sched_fd_model_create(const struct sched_fd_model_desc_t *desc,
                                     struct sched_fd_model_t **out);

// Gives a model back; its handle is stale from here on. Shots that were submitted keep what they
// need. NULL: nothing to do.
//
// Errors: SCHED_E_STALE.
sched_status_t sched_fd_model_destroy(struct sched_fd_model_t *model);

// Puts the largest stable time step of a model, in seconds, into `*dt_s`: a number that a float holds
// exactly, so that `shot.dt_s = (float)dt_s` is accepted; with SCHED_FD_OPTIMISED_STENCIL, 0.9634 of it.
// Where density jumps from cell to cell, a shot may blow up with less, and then fails with SCHED_E_UNSTABLE: the log
// warns of the first shot with a step that is not sure to be stable, and says which is; take smaller steps there.
//
// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
sched_status_t sched_fd_dt_max(const struct sched_fd_model_t *model,
                               double *dt_s);

// Fills `samples`, `nt` floats, with a source wavelet of unit amplitude, one sample a time step of
// `dt_s` seconds, the first for the time `dt_s`, zero after the wavelet has ended. `wavelet` is one of
// SCHED_FD_WAVELET_*, 0 for Ricker; `frequency_hz` its peak frequency.
//
// Errors: SCHED_E_ARGUMENT.
sched_status_t sched_fd_wavelet(int32_t wavelet,
                                float frequency_hz,
                                float dt_s,
                                float *samples,
                                size_t nt);

// Fills in how large the results of a shot will be. The shot is checked as in sched_fd_submit, but
// `record` and `snapshots` are not looked at.
//
// Errors: as sched_fd_submit.
sched_status_t sched_fd_shot_size(const struct sched_fd_model_t *model,
                                  const struct sched_fd_shot_desc_t *shot,
                                  struct sched_fd_shot_size_t *size);

// Hands a shot to a scheduler and returns at once; then as any task: sched_wait, sched_cancel...
//
// `task` may be NULL. Its `run` must be NULL; `device_bytes`, `work`, `task_class` and `retries` (2; not for a shot that has blown
// up: that is tried once more, if its steps are stable, and not at all if they are too large) are known without it and taken from it where they are not 0. `*id` may be NULL if the task is detached. The same shot gives the
// same record, bit for bit, on every device of a kind and after any number of retries. Where a shot takes
// much longer than its like, or a faster device has nothing else to do, it may be computed a second time there,
// and the first to finish counts; not if it keeps snapshots, nor if `task` has a `drop` and no
// SCHED_TASK_IDEMPOTENT.
//
// Errors: SCHED_E_ARGUMENT, also for a source or receiver outside the grid, and for a buffer that is
// too short; SCHED_E_UNSTABLE for a time step that is too large, with the largest that is not;
// SCHED_E_TOO_NEW, SCHED_E_STALE, SCHED_E_NO_DEVICE, SCHED_E_MEMORY, SCHED_E_SHUTDOWN, SCHED_E_FORKED.
sched_status_t sched_fd_submit(struct sched_t *s,
                               const struct sched_fd_model_t *model,
                               const struct sched_fd_shot_desc_t *shot,
                               const struct sched_task_desc_t *task,
                               sched_task_t *id);

// One shot of the first-order acoustic equation, as acoustic1order.so has it: argument list, numerics
// and files are those of the old library, see docs/legacy.md. `device` is a hint (GPUSCHED_LEGACY_DEVICE).
//
// Returns nothing: a failure goes to the log at level 1 and to sched_last_error, and leaves no partial
// file. sched_last_error is "" after a call that succeeded.
void cuda_3dfd_1order(const char *vel,
                      const char *rho,
                      const char *snap,
                      const char *shot,
                      int is,
                      int ns,
                      int nx,
                      int ny,
                      int nz,
                      float dx,
                      float dy,
                      float dz,
                      int sxbeg,
                      int sybeg,
                      int szbeg,
                      int jsx,
                      int jsy,
                      int jsz,
                      float dgx,
                      float dgy,
                      float dgt,
                      int nt,
                      float dt,
                      int wtype,
                      float fm,
                      bool show_snapshot,
                      bool cut_directwave,
                      int snap_interval,
                      int device);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPUSCHED_H */
