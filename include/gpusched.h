/*
 * gpusched: runs many independent jobs on the devices of a machine.
 *
 * Rules for every function:
 *
 * Status    0 is success; a positive number is not finished but no error; a negative one is an error.
 *           sched_last_error() returns the message of the calling thread's last failed call;
 *           sched_task_error() returns the message of a failed task to any thread.
 * Outputs   are written only on success; a failed call may set a buffer for a text to "".
 * Structs   begin with `size`: set it to sizeof, all other fields to zero, which is every default,
 *           then the fields that matter: `sched_config_t config = SCHED_INIT(sched_config_t);`, in C++
 *           `auto config = gpusched::init<sched_config_t>();` (gpusched.hpp). New fields are only
 *           added at the end: a program built against an older header works unchanged. One built
 *           against a newer header is refused (SCHED_E_TOO_NEW) if it sets fields that this library
 *           does not know. It sets output fields that it does not know to zero.
 * Memory    Arguments are read before the call returns, unless they are called lent. An object of a
 *           _create function is destroyed by its _destroy, which accepts NULL. Returned texts belong
 *           to the library. Texts are UTF-8 and end with NUL.
 * Handles   are numbers that look like pointers. Handles and ids of tasks are looked up and never
 *           issued twice, so a stale one is an error (SCHED_E_STALE) and not a crash.
 * Threads   Any thread may call any function, also inside a task, but no signal handler may: it
 *           would wait for locks of the thread that it interrupts. Callbacks run on threads of the
 *           library; they must not join, detach or cancel those. docs/embedding.md describes
 *           forks, exits, dlclose, exceptions, signals and the effects of the library on its
 *           process.
 * Errors    Each function lists its own. Any call with a scheduler of the parent of a forked
 *           process returns SCHED_E_FORKED; the child may create its own. Any call with the
 *           scheduler NULL may create the shared one, and returns the errors of sched_default.
 * Units     end a name: _bytes, _ns, _s, _m, _hz. Lengths of arrays (_len, count) are elements.
 * Timeouts  are in nanoseconds: negative for no timeout, 0 to return at once.
 * Process   The library prints nothing, does not end the process, and changes no signal handler and no
 *           environment variable. GPUSCHED_LOG=LEVEL makes it log to standard error, LEVEL:FILE to
 *           a file.
 */

#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "gpusched.h requires C99 or later: compile with -std=c99, -std=gnu99 or a later standard"
#endif


#ifndef GPUSCHED_H
#define GPUSCHED_H

/* Generated from src/ffi by `UPDATE=1 cargo test --test it header`; not to be edited. */

#include <stddef.h>
#include <stdint.h>

/** Version of the library that this header belongs to. */
#define SCHED_VERSION_MAJOR 0
#define SCHED_VERSION_MINOR 1
#define SCHED_VERSION_PATCH 0

#ifndef __cplusplus
/** Initialiser of a struct that begins with `size`: all defaults. */
#define SCHED_INIT(type) {.size = sizeof(type)}
#endif

/** Success. */
#define SCHED_OK 0

/** Timed out. */
#define SCHED_PENDING 730001

/** The task was cancelled. */
#define SCHED_CANCELLED 730002

/** An argument or a field is outside what is accepted. */
#define SCHED_E_ARGUMENT (-730001)

/** A struct sets fields that this library does not know: the caller has a newer header. */
#define SCHED_E_TOO_NEW (-730002)

/** The id or handle was released or destroyed, or belongs to another scheduler. */
#define SCHED_E_STALE (-730003)

/** The task needs more memory than any allowed device has, or than the host provides. */
#define SCHED_E_MEMORY (-730004)

/** No device exists, or none that the selection or a mask allows. */
#define SCHED_E_NO_DEVICE (-730005)

/** A file could not be opened, read or written. */
#define SCHED_E_IO (-730006)

/** The task's callback returned something other than 0. */
#define SCHED_E_CALLBACK (-730007)

/** Code of the library or of a Rust task panicked; the panic was caught. */
#define SCHED_E_PANIC (-730008)

/** The wait could never have ended, so it did not begin. */
#define SCHED_E_DEADLOCK (-730009)

/** The scheduler accepts no tasks: it was drained, or is being destroyed. */
#define SCHED_E_SHUTDOWN (-730010)

/** The process was forked after the scheduler was created. */
#define SCHED_E_FORKED (-730011)

/** The numerical scheme is unstable. */
#define SCHED_E_UNSTABLE (-730012)

/** A device failed. */
#define SCHED_E_DEVICE (-730013)

/** A defect of the library. Please report it. */
#define SCHED_E_INTERNAL (-730014)

/** A task that had to succeed before this one did not, so this one did not start. */
#define SCHED_E_DEPENDENCY (-730015)

/** An attempt took longer than its deadline. */
#define SCHED_E_DEADLINE (-730016)

/**
 * A device had too few resources to start the work beside other work, or the system provided no
 * thread.
 */
#define SCHED_E_RESOURCES (-730017)

/** The task's callback did not return: an exception or pthread_exit left it and was caught. */
#define SCHED_E_UNWOUND (-730018)

/** A call of a device driver failed in a way that does not concern the device. */
#define SCHED_E_DRIVER (-730019)

/** The device exists, but another process uses it exclusively. */
#define SCHED_E_BUSY (-730020)

/** The task's callback reported that a device computed a wrong result. */
#define SCHED_E_RESULT (-730021)

/**
 * Version of the binary interface that this header describes. It increases, with the SONAME, when
 * programs that were built against an older header would stop working. Before 1.0 it is the minor
 * version of the library.
 */
#define SCHED_ABI_VERSION 1

/** Value of `timeout_ns`: no timeout. With 0 a call returns at once. */
#define SCHED_FOREVER (-1)

/** Value of `slots`: tuned automatically for each device while tasks run. */
#define SCHED_SLOTS_AUTO 4294967295

/** Bit of a backend mask: the CPU device. */
#define SCHED_BACKEND_CPU 1

/** Bit of a backend mask: NVIDIA GPUs. */
#define SCHED_BACKEND_CUDA 2

/** The device can run tasks. */
#define SCHED_HEALTH_GOOD 0

/** The device has failed and runs no more tasks. */
#define SCHED_HEALTH_RETIRED 1

/** The device exists, but is closed to programs or too old for this library. */
#define SCHED_HEALTH_BARRED 2

/** Flag of a task: no caller waits for it. Its id is released when it ends. */
#define SCHED_TASK_DETACHED 1

/**
 * Flag of a task: up to three attempts may run at the same time. The scheduler may start further
 * attempts on devices where they should end sooner, and restart the task when an attempt hangs. (A
 * failed attempt is retried with and without this flag, see sched_run_fn.) The first attempt that
 * calls sched_exec_commit, or that succeeds without it, counts. The others are asked to stop, and
 * their ends are not reported. `user` and the memory behind it are lent until `drop` is called,
 * which may be after a wait has returned.
 */
#define SCHED_TASK_IDEMPOTENT 2

/** Flag of a task: sched_wait_next returns it in its turn. Not together with SCHED_TASK_DETACHED. */
#define SCHED_TASK_ORDERED 4

/** Not started yet. */
#define SCHED_STATE_QUEUED 0

/** Running. */
#define SCHED_STATE_RUNNING 1

/** Succeeded. */
#define SCHED_STATE_DONE 2

/** Failed with an error. */
#define SCHED_STATE_FAILED 3

/** Cancelled. */
#define SCHED_STATE_CANCELLED 4

/**
 * Ricker wavelet, the default. It begins and ends below 1e-5 of its peak. Like the next two it is
 * centred at 1.25 / frequency_hz after its first sample, lasts twice that, and has a peak of 1.
 */
#define SCHED_FD_WAVELET_RICKER 7

/** First derivative of a Gaussian, likewise; its spectrum is largest at `frequency_hz`. */
#define SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE 8

/** Gaussian, likewise; its second derivative is the Ricker wavelet of `frequency_hz`. */
#define SCHED_FD_WAVELET_GAUSSIAN 9

/**
 * Ricker wavelet of the old library. Like the next five it is centred at 1 / frequency_hz and cut
 * at twice that, where Ricker has 1e-3 of its peak and a Gaussian 1e-2.
 */
#define SCHED_FD_WAVELET_CUT_RICKER 1

/** First derivative of a Gaussian. */
#define SCHED_FD_WAVELET_CUT_GAUSSIAN_DERIVATIVE 2

/** Gaussian. */
#define SCHED_FD_WAVELET_CUT_GAUSSIAN 3

/** Ricker wavelet, integrated once. */
#define SCHED_FD_WAVELET_CUT_RICKER_INTEGRAL 4

/** Ricker wavelet, integrated twice. */
#define SCHED_FD_WAVELET_CUT_RICKER_DOUBLE_INTEGRAL 5

/** Ricker wavelet, integrated three times. */
#define SCHED_FD_WAVELET_CUT_RICKER_TRIPLE_INTEGRAL 6

/**
 * Flag of a model: rho and rho vp² are stored in 16 bits, between the smallest and the largest
 * value of each in the model, instead of 32. Shots take up to a sixth less memory; speeds have a
 * relative error of at most 1e-3, with densities of rocks 5e-4, nearly always much less. A model
 * whose values are too far apart for this is refused.
 */
#define SCHED_FD_MODEL_STORAGE_16_BIT 1

/**
 * Flag of a model: velocities below 100 m/s everywhere, and densities below 30 kg/m3 everywhere,
 * are accepted. Without it a model with such values is refused: they look like km/s and g/cm3.
 */
#define SCHED_FD_MODEL_ANY_VALUES 2

/**
 * Flag of a model: the density between two cells is that of the cell with the lower index, as in
 * the old kernels. Without the flag it is the mean of both cells. With the flag, interfaces of
 * density lie up to half a cell too deep, and their reflections are off by some tenths. Equations
 * without density ignore it.
 */
#define SCHED_FD_MODEL_DENSITY_AT_CELLS 4

/**
 * Flag of a model: the absorbing layer is a PML with SCHED_FD_EQUATION_ACOUSTIC2 and
 * SCHED_FD_EQUATION_TTI, too: of 20 cells on each side in place of a sponge of 54, and of 40 in
 * place of a sponge of 40. TTI then has the derivatives of the old kernels. Other equations always
 * have a PML.
 */
#define SCHED_FD_MODEL_PML 8

/** Acoustic equation of first order; properties: vp, and if not 1000 kg/m3 rho. The default. */
#define SCHED_FD_EQUATION_ACOUSTIC1 0

/** Acoustic equation of second order, of constant density; property: vp. */
#define SCHED_FD_EQUATION_ACOUSTIC2 1

/**
 * Pseudo-acoustic equation of a medium with a vertical symmetry axis; properties: vp, epsilon,
 * delta, and if not 1000 kg/m3 rho.
 */
#define SCHED_FD_EQUATION_VTI 2

/**
 * Pseudo-acoustic equation of a medium with a tilted symmetry axis; properties: vp, epsilon,
 * delta, theta_rad, phi_rad.
 */
#define SCHED_FD_EQUATION_TTI 3

/** Bit of the velocity in sched_fd_model_desc_t::constants. */
#define SCHED_FD_PROPERTY_VP 1

/** Bit of the density. */
#define SCHED_FD_PROPERTY_RHO 2

/** Bit of epsilon. */
#define SCHED_FD_PROPERTY_EPSILON 4

/** Bit of delta. */
#define SCHED_FD_PROPERTY_DELTA 8

/** Bit of the tilt. */
#define SCHED_FD_PROPERTY_THETA 16

/** Bit of the azimuth. */
#define SCHED_FD_PROPERTY_PHI 32

/**
 * Flag of a shot: samples are zero until the direct wave has passed: its travel time as in the old
 * library, the length of the wavelet, and 60 steps. `wavelet_samples` count as 2 / frequency_hz.
 */
#define SCHED_FD_SHOT_MUTE_DIRECT 1

/**
 * Flag of a shot: the dispersion error of the time steps is removed from the record, at almost no
 * cost. The record then equals one without that error to about 1e-4, if `record_every` leaves more
 * than two samples per period. A shot with snapshots is refused: they would keep the error.
 */
#define SCHED_FD_SHOT_EXACT_TIME 2

/**
 * Flag of a shot: spatial derivatives are optimised for waves of 3.5 cells and more, with an error
 * of 3.6e-4. Without the flag they have eighth order, which is better from six cells on. With it
 * the largest time step is 0.9634 of the result of sched_fd_dt_max; of `acoustic2`, and of `tti` with
 * its default layer, 0.9616.
 */
#define SCHED_FD_SHOT_OPTIMISED_STENCIL 4

/**
 * Flag of a shot: epsilon and delta keep their values around the source. Without it they are 0 up
 * to 4 cells from it and rise to the model's at 15 cells; a shot in a grid whose cells are all
 * nearer is refused. Ignored by equations without them.
 */
#define SCHED_FD_SHOT_ANISOTROPIC_SOURCE 8

/**
 * Source without a unit, as in the old library; the default. The wavelet is added to the pressure
 * of cells. `acoustic1`, `acoustic2`: a vertical dipole, `source` its upper, negative pole, the
 * positive one two cells deeper, if necessary in the absorbing layer; its far field depends on the
 * spacing. `vti`, `tti`: a single cell. In `acoustic2` it stays in the pressure: sample i acts at
 * the time (i - 1) dt, in the others at i dt, and the pressure is proportional to 1/dt^2.
 */
#define SCHED_FD_SOURCE_PRESSURE 0

/**
 * Monopole: wavelet times amplitude is the rate q at which volume is injected, in m3/s. In a
 * homogeneous medium the pressure at distance r is rho / (4 pi r) dq/dt (t - r/vp), in Pa.
 */
#define SCHED_FD_SOURCE_MONOPOLE 1

/**
 * Point force along x: wavelet times amplitude is the force F in N, positive towards larger ix. It
 * acts half a cell after `source` along x. In a homogeneous medium the pressure at distance r is
 * cos(angle) / (4 pi r) (dF/dt / vp + F / r) (t - r/vp), in Pa; `angle` is that to the force.
 */
#define SCHED_FD_SOURCE_FORCE_X 2

/** Point force along y, likewise. */
#define SCHED_FD_SOURCE_FORCE_Y 3

/** Point force along z, likewise: positive downwards. */
#define SCHED_FD_SOURCE_FORCE_Z 4

/**
 * A medium: properties on a grid. Any number of shots, threads and schedulers may share
 * it.
 */
typedef struct sched_fd_model_t sched_fd_model_t;

/**
 * A scheduler: tasks, and the devices that run them. NULL, where a handle is expected, means the
 * scheduler that the process shares (see sched_default), and keeps it until the process ends.
 */
typedef struct sched_t sched_t;

/**
 * Status of a call: 0 is success, a positive number is not finished but no error, a negative one
 * is an error. No value of `errno` and no CUDA status is one of them, so a callback that returns
 * such a number fails with SCHED_E_CALLBACK.
 */
typedef int32_t sched_status_t;

/**
 * Receives a line of the log. `level` is 1 (error), 2 (warning), 3 (information), 4 (debug) or 5
 * (trace); `message` is valid during the call. Warnings report failed tasks, late attempts and
 * retired devices; information reports retries and copies of tasks. Any thread may call it,
 * several at the same time, some with a lock of the library held. So the function must not log
 * through the library, wait for a task or destroy a scheduler. No exception may leave it. It runs in
 * the floating-point mode of the thread that called sched_log_callback, see sched_run_fn.
 */
typedef void (*sched_log_fn)(int32_t level, const char *message, void *user);

/** Configuration of a scheduler. Zero in every field is the default. */
typedef struct sched_config_t {
  /** sizeof(sched_config_t), set by the caller. */
  size_t size;
  /**
   * Devices to use: "all" (the GPUs, or the CPU if there are none), "none", or a list such as
   * "cpu,cuda:0,cuda:GPU-5b...". NULL: the value of GPUSCHED_DEVICES, else "all". Copied.
   */
  const char *devices;
  /**
   * Tasks at a time on each device, at most 64, or SCHED_SLOTS_AUTO. 0: the value of
   * GPUSCHED_SLOTS, else 1.
   */
  uint32_t slots;
  /**
   * Threads of the CPU device, shared by its slots, at most 4096. 0: one for each CPU that the
   * calling thread may use. Threads of the library inherit the CPU mask of the thread that
   * starts them.
   */
  uint32_t cpu_threads;
  /**
   * Largest number of events in a trace of the attempts, each about 150 bytes of memory. 0: no
   * trace.
   */
  uint32_t trace_events;
  /** Must be zero. */
  uint32_t reserved;
  /**
   * File that keeps the measured rates of devices and the results of autotuning between runs.
   * Programs may share it if their task classes and units of work mean the same. A missing or
   * damaged file is no error; missing folders are created. A relative path begins in the working
   * directory of the call. NULL: none. Copied.
   */
  const char *rates_path;
  /**
   * Bytes of stack for each callback, 1048576 to 68719476736 (1 MiB to 64 GiB). 0: 8 MiB. Each
   * worker reserves 4 MiB more; only touched pages take memory.
   */
  uint64_t stack_bytes;
} sched_config_t;

/** Counts of the tasks of a scheduler since its creation. */
typedef struct sched_stats_t {
  /** sizeof(sched_stats_t), set by the caller. */
  size_t size;
  /** Tasks that were accepted. */
  uint64_t submitted;
  /** Tasks that wait to start now. */
  uint64_t queued;
  /** Tasks that run now. */
  uint64_t running;
  /** Tasks that succeeded. */
  uint64_t done;
  /** Tasks that failed. */
  uint64_t failed;
  /** Tasks that were cancelled. */
  uint64_t cancelled;
  /** Attempts that followed a failed attempt. */
  uint64_t retried;
  /** Number of devices of the scheduler. */
  uint32_t devices;
  /** Zero. */
  uint32_t reserved;
  /** Time from the first submission to the latest end so far, in nanoseconds. */
  uint64_t makespan_ns;
  /**
   * Lower bound of the makespan, in nanoseconds: no schedule could have completed the successful
   * tasks sooner, by the measured rates. It is the larger of two times: all work over the summed
   * rates of the devices, and the longest task on the fastest device. It excludes ranges and tasks
   * that state nothing (no label, work, memory, ...), and is 0 if no other task has succeeded.
   */
  uint64_t lower_bound_ns;
} sched_stats_t;

/** Counts and busy time of one device of a scheduler. */
typedef struct sched_device_stats_t {
  /** sizeof(sched_device_stats_t), set by the caller. */
  size_t size;
  /**
   * Attempts that succeeded on the device, including those that ended after another attempt at
   * their task had committed.
   */
  uint64_t done;
  /** Attempts that failed, or stopped on request. */
  uint64_t failed;
  /** Time that the slots have spent in attempts that have ended, summed, in nanoseconds. */
  uint64_t busy_ns;
  /** Memory that is reserved for running tasks now, in bytes. */
  uint64_t leased_bytes;
  /** Largest reserved memory so far, in bytes. */
  uint64_t peak_bytes;
  /** Tasks that the device runs at a time. */
  uint32_t slots;
  /** SCHED_HEALTH_*. */
  int32_t health;
} sched_device_stats_t;

/** A device as it was found. The search creates no context on it. */
typedef struct sched_device_info_t {
  /** sizeof(sched_device_info_t), set by the caller. */
  size_t size;
  /** SCHED_BACKEND_CPU or SCHED_BACKEND_CUDA. */
  uint32_t backend;
  /** Number of the device in its backend, valid in this process only. */
  uint32_t ordinal;
  /** Identity of the device, the same in all processes and after a reboot. */
  char uuid[64];
  /** PCI address, such as "0000:01:00.0"; "" if the device has none. */
  char pci_bus_id[32];
  /** Product name. */
  char name[128];
  /** Major compute capability; 0 if the device has none. */
  int32_t compute_major;
  /** Minor compute capability, likewise. */
  int32_t compute_minor;
  /** Threads of the CPU device; 0 for a GPU. */
  uint32_t cpu_threads;
  /** SCHED_HEALTH_*. */
  int32_t health;
  /** Memory in bytes. */
  uint64_t total_bytes;
  /** Memory that was free at the time of the search, in bytes. */
  uint64_t free_bytes;
} sched_device_info_t;

/** Id of a task. Never 0. A scheduler never issues an id twice: a released one is an error. */
typedef uint64_t sched_task_t;

/** The place where an attempt runs: argument of its callback, valid until that returns. */
typedef struct sched_exec_t {
  /** sizeof(sched_exec_t) in the library. Fields beyond it do not exist. */
  size_t size;
  /** The task; 0 may stand for a detached one that was submitted with `id` NULL. */
  sched_task_t task;
  /** Index of the device in its scheduler, as sched_device_info takes it. */
  uint32_t device;
  /** SCHED_BACKEND_CPU or SCHED_BACKEND_CUDA. */
  uint32_t backend;
  /** Number of the device in its backend. */
  uint32_t ordinal;
  /**
   * Slot of the device. No two tasks run in a slot at the same time, with one exception: while a
   * callback waits for other tasks, one of those may run in its slot, and may still run when the
   * callback continues.
   */
  uint32_t slot;
  /** 1 for the first attempt. */
  uint32_t attempt;
  /** Threads that the task may use on the CPU device, its own included; 0 on a GPU. */
  uint32_t cpu_threads;
  /**
   * CUDA stream (CUstream) for the callback's work; NULL on the CPU device. The device's context
   * is current on the thread. The task is done when the callback has returned and the work on
   * the stream has ended.
   */
  void *stream;
} sched_exec_t;

/**
 * The callback of a task. It returns 0 on success; any other number selects what follows:
 *
 * - SCHED_CANCELLED: the callback stopped before it was done. The task ends as cancelled, also if
 *   `retries` are left. If only this attempt was asked to stop, in favour of another, the attempt
 *   ends alone.
 * - SCHED_E_MEMORY: the device was short of memory. The task is retried alone on the device, then
 *   on other devices, then after a pause; at last it fails with SCHED_E_MEMORY. If it stated how
 *   much it needs, and other processes have that, it waits for them for an hour.
 * - SCHED_E_RESOURCES: a launch found too few resources beside other work. Treated in the same
 *   way.
 * - SCHED_E_DEVICE: the device's context is unusable (a sticky error). The scheduler renews the
 *   context, or retires the device if the driver gives the process no new one, and retries the
 *   task on another device; the second time the task fails with SCHED_E_DEVICE.
 * - SCHED_E_RESULT: the result is wrong, possibly because of the device. The task is retried once,
 *   on another device if one may run it; if that result is wrong too, it fails with
 *   SCHED_E_RESULT. If the retry succeeds, a fault is counted against the first device; the second
 *   fault retires it.
 * - any other number: the task fails with SCHED_E_CALLBACK, or is retried if `retries` are left.
 *   The message is that of sched_exec_fail, or else has the number, or the name of the status.
 *
 * If the deadline has passed, SCHED_CANCELLED and "any other number" become SCHED_E_DEADLINE.
 *
 * The callback runs on a thread of the library with `stack_bytes` of stack (sched_config_t; 8 MiB
 * by default), so that thread uses `user`. It may call any function of the library and wait for
 * other tasks. A task that it has submitted may then run on the same thread, with as much stack of
 * its own.
 *
 * The callback should return. On Linux on x86-64, an exception, pthread_exit or pthread_cancel
 * that leaves it fails the task (SCHED_E_UNWOUND) and destroys the objects on its stack; elsewhere
 * it ends the process with a message. No longjmp may leave it.
 *
 * It runs in the floating-point mode that the submitting thread had at the submission: rounding
 * direction, flush-to-zero, denormals-are-zero and trap masks. The exception flags are clear. This
 * holds for every attempt on every slot. A change of the mode ends when the callback returns.
 */
typedef int32_t (*sched_run_fn)(const struct sched_exec_t *exec, void *user);

/**
 * Returns `user` to its owner. Called once, on any thread; must not wait for a task. An exception
 * that leaves it is logged. It runs in the floating-point mode of its task, see sched_run_fn.
 */
typedef void (*sched_drop_fn)(void *user);

/**
 * A task: its callback, and what the scheduler needs to place it. Zero in every field except
 * `size` and `run` is the default.
 */
typedef struct sched_task_desc_t {
  /** sizeof(sched_task_desc_t), set by the caller. */
  size_t size;
  /**
   * The task's callback, called on a thread of the library, once for each attempt. NULL in
   * sched_fd_submit.
   */
  sched_run_fn run;
  /** Passed to `run` and `drop`. */
  void *user;
  /**
   * NULL, or called exactly once with `user` when the library no longer needs it: after the last
   * `run`, after a cancel, and also if the submitting call fails. It is not called if that call
   * could not read the struct (NULL, an impossible `size`, SCHED_E_TOO_NEW). The call happens on
   * any thread, before a wait reports the task's end. If another attempt still runs or hangs,
   * the call happens when that returns, which may be never. It must not wait for a task.
   */
  sched_drop_fn drop;
  /** A name for messages and logs; NULL: none. Copied. */
  const char *label;
  /** Peak use of device memory in bytes. The scheduler reserves that much while the task runs. */
  uint64_t device_bytes;
  /**
   * Amount of work, in any unit that all tasks of the scheduler share, from 1e-100 to 1e100; 0:
   * unknown.
   */
  double work;
  /** Devices that may run the task: bit i for device i. 0: all. */
  uint64_t device_mask;
  /** Kinds of device that may run the task: bits of SCHED_BACKEND_*. 0: all. */
  uint32_t backend_mask;
  /** A task with a higher priority runs earlier. */
  int32_t priority;
  /**
   * Number of retries after a failure. Retries for lack of memory, after a device failure and
   * after a wrong result do not count, see sched_run_fn.
   */
  uint32_t retries;
  /** Bits of SCHED_TASK_*. */
  uint32_t flags;
  /**
   * Class of the task. Tasks of a class are alike: the scheduler learns the speed of every
   * device, and the expected duration, for each class. 0 is a class like any other; in
   * sched_fd_submit it means the class of the shot's equation and absorbing layer. Classes from
   * 0xfd000000 up are the library's.
   */
  uint32_t task_class;
  /** Must be zero. */
  uint32_t reserved;
  /**
   * Time limit of an attempt in nanoseconds, without the time in which its GPU creates a context
   * or compiles kernels; after it the scheduler requests the attempt to stop. 0: none. A device
   * whose attempt has not returned after as long again, and at least 10 s, counts as hung and is
   * retired, also the CPU. Without a limit, an attempt that takes five times as long as usual in
   * its class is late: it is logged as a warning, and SCHED_TASK_IDEMPOTENT allows a second
   * attempt or a restart.
   */
  int64_t deadline_ns;
  /**
   * Tasks of the same scheduler that must succeed before this one starts. If one of them does
   * not, this task ends with SCHED_E_DEPENDENCY and never runs. Copied.
   */
  const sched_task_t *after;
  /** Number of `after`. */
  size_t after_count;
} sched_task_desc_t;

/** State of a task. */
typedef struct sched_task_info_t {
  /** sizeof(sched_task_info_t), set by the caller. */
  size_t size;
  /** SCHED_STATE_*. */
  int32_t state;
  /** The status that sched_wait would return now. */
  sched_status_t status;
  /** Index of the device where the task runs or ran last; -1 if it never started. */
  int32_t device;
  /** Slot of that device. */
  uint32_t slot;
  /** Number of attempts that have begun. */
  uint32_t attempts;
  /** Zero. */
  uint32_t reserved;
  /** Fraction of the attempt that is done, from 0 to 1, as the callback reports it. */
  double progress;
  /** Time from submit to start, or until now, in nanoseconds. */
  uint64_t queued_ns;
  /** Time from start to end, or until now, in nanoseconds. */
  uint64_t running_ns;
} sched_task_info_t;

/**
 * The callback of a range. It processes the elements from `begin` up to but not including `end`;
 * `begin` is less than `end`. Several threads call it at the same time for different chunks. Its
 * result means the same as for sched_run_fn, except:
 *
 * - SCHED_E_MEMORY: the chunk did not fit. It is halved and called again, down to one element. A
 *   size that did not fit a device is not tried there again; an element that fits no device fails
 *   the range.
 * - SCHED_CANCELLED: the whole range ends as cancelled.
 * - SCHED_E_RESULT and any other failure: the whole range fails, and the message names the
 *   elements.
 *
 * After a cancel or a failure no more chunks start; running ones continue to their end. Elements
 * count as done when the work on the device's stream has ended. The progress of a range is the
 * fraction of its elements that is done; one from sched_exec_report holds until the next chunk
 * ends. Every chunk runs in the floating-point mode of the thread that submitted the range, see
 * sched_run_fn.
 */
typedef int32_t (*sched_range_fn)(const struct sched_exec_t *exec,
                                  uint64_t begin,
                                  uint64_t end,
                                  void *user);

/** A parallel loop. Zero in every field except `size`, `end` and `run` is the default. */
typedef struct sched_range_desc_t {
  /** sizeof(sched_range_desc_t), set by the caller. */
  size_t size;
  /** The first element. */
  uint64_t begin;
  /**
   * The element after the last. A range without elements is done at once, without a call of
   * `run`.
   */
  uint64_t end;
  /**
   * Largest number of elements of a call; a call may get fewer. 0: tuned automatically for each
   * device, so that a call takes about 0.75 ms.
   */
  uint64_t grain;
  /** The callback. Every element is in exactly one successful call, unless the range fails. */
  sched_range_fn run;
  /** Passed to `run` and `drop`. */
  void *user;
  /** As in sched_task_desc_t: called once, after the last `run`. */
  sched_drop_fn drop;
  /** A name for messages and logs; NULL: none. Copied. */
  const char *label;
  /**
   * Device memory of one element in bytes. A call gets no more elements than fit, and the
   * scheduler reserves their memory.
   */
  uint64_t device_bytes;
  /** As in sched_task_desc_t. */
  uint64_t device_mask;
  /** As in sched_task_desc_t. */
  uint32_t backend_mask;
  /** A range with a higher priority runs earlier. */
  int32_t priority;
  /** SCHED_TASK_DETACHED, SCHED_TASK_ORDERED. */
  uint32_t flags;
  /** Must be zero. */
  uint32_t reserved;
  /**
   * Time limit of an attempt at the whole range in nanoseconds; after it the scheduler requests
   * the attempt to stop. 0: none.
   */
  int64_t deadline_ns;
  /** Tasks that must succeed before the first call. Copied. */
  const sched_task_t *after;
  /** Number of `after`. */
  size_t after_count;
} sched_range_desc_t;

/** Progress of a scheduler. */
typedef struct sched_progress_t {
  /** sizeof(sched_progress_t), set by the caller; in a callback, by the library. */
  size_t size;
  /** Tasks that wait to start now. */
  uint64_t queued;
  /** Tasks that run now. */
  uint64_t running;
  /** Tasks that succeeded. */
  uint64_t done;
  /** Tasks that failed. */
  uint64_t failed;
  /** Tasks that were cancelled. */
  uint64_t cancelled;
  /** Attempts that followed a failed attempt. */
  uint64_t retried;
  /** Time since the first task was submitted, in nanoseconds. */
  uint64_t elapsed_ns;
  /**
   * Estimated time until all tasks that were submitted so far have ended, in nanoseconds; -1:
   * unknown. It needs rates: from tasks that have ended, from progress reports of running ones,
   * or from an earlier run.
   */
  int64_t eta_ns;
  /** Work of all tasks that state it. */
  double work_total;
  /**
   * Part of `work_total` that is done: all of a task that has ended, successfully or not, and
   * the reported fraction of one that runs.
   */
  double work_done;
} sched_progress_t;

/**
 * Receives the progress of a scheduler. `progress` is valid during the call. Called on a thread of
 * the library, never twice at once for one scheduler. It may call any function of the library
 * except sched_destroy for this scheduler. It must return, and no exception may leave it. It runs
 * in the floating-point mode of the thread that called sched_progress_callback, see sched_run_fn.
 */
typedef void (*sched_progress_fn)(const struct sched_progress_t *progress, void *user);

/**
 * A medium on a regular grid. Fields lie in memory as [iy][ix][iz], z fastest, which is Fortran's
 * (nz,nx,ny).
 */
typedef struct sched_fd_model_desc_t {
  /** sizeof(sched_fd_model_desc_t), set by the caller. */
  size_t size;
  /** Cells along x, from 1 to 100000, the absorbing layer not included. */
  uint64_t nx;
  /** Cells along y, likewise. */
  uint64_t ny;
  /** Cells along z (depth), likewise. */
  uint64_t nz;
  /** Metres between cells along x, at least 1e-6. */
  float dx_m;
  /** Metres between cells along y, likewise. */
  float dy_m;
  /** Metres between cells along z, likewise. */
  float dz_m;
  /** SCHED_FD_MODEL_* flags together. */
  uint32_t flags;
  /**
   * P velocity in m/s, nx*ny*nz values, each positive and finite. Copied. If all are below 100,
   * see SCHED_FD_MODEL_ANY_VALUES.
   */
  const float *vp_m_s;
  /**
   * Density in kg/m3, likewise. NULL: 1000 everywhere. Copied. If all are below 30, see
   * SCHED_FD_MODEL_ANY_VALUES.
   */
  const float *rho_kg_m3;
  /**
   * Equation that shots of the model solve, SCHED_FD_EQUATION_*. Refused: an equation that this
   * library does not have, and a model that lacks a property of the equation or has another one.
   */
  int32_t equation;
  /**
   * SCHED_FD_PROPERTY_* bits together: those properties are the same in all cells, and their
   * pointers point to one value. It takes less memory than equal values. 0: none.
   */
  uint32_t constants;
  /**
   * Thomsen's epsilon, nx*ny*nz values, each finite and above -0.5; nowhere below delta. NULL:
   * absent. Copied.
   */
  const float *epsilon;
  /** Thomsen's delta, likewise. */
  const float *delta;
  /**
   * Tilt of the symmetry axis from the vertical in radians, nx*ny*nz values, each from -2 pi to
   * 2 pi. NULL: absent. Copied.
   */
  const float *theta_rad;
  /**
   * Azimuth of the symmetry axis in radians, likewise. The axis is (sin theta cos phi,
   * -sin theta sin phi, cos theta) along x, y, z, with z down.
   */
  const float *phi_rad;
} sched_fd_model_desc_t;

/** A cell of a model's grid, counted from 0. */
typedef struct sched_fd_cell_t {
  /** Along x. */
  uint64_t ix;
  /** Along y. */
  uint64_t iy;
  /** Along z (depth). */
  uint64_t iz;
} sched_fd_cell_t;

/**
 * A shot. `dt_s`, `nt`, `source`, `record` and `frequency_hz` (or `wavelet_samples`) must be set;
 * zero is the default of all other fields.
 */
typedef struct sched_fd_shot_desc_t {
  /** sizeof(sched_fd_shot_desc_t), set by the caller. */
  size_t size;
  /** Time step in seconds; at most the result of sched_fd_dt_max. */
  float dt_s;
  /**
   * Peak frequency of `wavelet` in Hz. With `wavelet_samples` only SCHED_FD_SHOT_MUTE_DIRECT
   * uses it.
   */
  float frequency_hz;
  /** Time steps to compute, at least 1. */
  uint64_t nt;
  /** SCHED_FD_WAVELET_*; 0: Ricker. */
  int32_t wavelet;
  /**
   * Bits of SCHED_FD_SHOT_MUTE_DIRECT, SCHED_FD_SHOT_EXACT_TIME,
   * SCHED_FD_SHOT_OPTIMISED_STENCIL, SCHED_FD_SHOT_ANISOTROPIC_SOURCE.
   */
  uint32_t flags;
  /**
   * Custom source function: one sample for each time step, zero after the last. Copied. NULL:
   * `wavelet`.
   */
  const float *wavelet_samples;
  /** Number of `wavelet_samples`. */
  size_t wavelet_len;
  /**
   * Factor on the wavelet; the product has the unit of `source_kind`. 0: 10000 with
   * SCHED_FD_SOURCE_PRESSURE, else 1.
   */
  float amplitude;
  /** Number of time steps between samples, from step 0; 0: 1. */
  uint32_t record_every;
  /** Cell of the source, see `source_kind`. */
  struct sched_fd_cell_t source;
  /** Receiver cells, in the order of the traces. Copied. NULL: a plane at depth `plane_iz`. */
  const struct sched_fd_cell_t *receivers;
  /** Number of `receivers`. */
  size_t receiver_count;
  /** Depth index of the receiver plane; traces are [iy][ix]. Ignored with `receivers`. */
  uint64_t plane_iz;
  /** Number of cells between receivers along x, from cell 0; 0: 1. */
  uint32_t plane_every_x;
  /** Number of cells between receivers along y, from cell 0; 0: 1. */
  uint32_t plane_every_y;
  /**
   * Recorded pressure, [trace][sample]. Lent until the task has ended, and with a `deadline_ns`
   * until `drop` of the task is called; written only if the task succeeds. No other shot may
   * have the same memory meanwhile. The library does not check that: both tasks succeed, and
   * their results overwrite each other.
   */
  float *record;
  /** Length of `record` in floats; sched_fd_shot_size returns the necessary length. */
  size_t record_len;
  /**
   * Number of time steps between snapshots of the pressure, from step 0; 0: no snapshots. Must
   * be 0 with SCHED_FD_SHOT_EXACT_TIME.
   */
  uint64_t snapshot_every;
  /**
   * Snapshots, [snapshot][iy][ix][iz]. Lent like `record`: an attempt that hangs after its
   * deadline may go on after the task has ended. The task writes them while it runs, so they are
   * valid only if it succeeds. NULL if `snapshot_every` is 0.
   */
  float *snapshots;
  /** Length of `snapshots` in floats. */
  size_t snapshots_len;
  /**
   * SCHED_FD_SOURCE_*; 0: SCHED_FD_SOURCE_PRESSURE. `vti` and `tti` have the others only without
   * SCHED_FD_SHOT_ANISOTROPIC_SOURCE.
   */
  int32_t source_kind;
  /** Reserved, 0. */
  uint32_t reserved;
} sched_fd_shot_desc_t;

/** Sizes of the results of a shot, and the memory that it takes. */
typedef struct sched_fd_shot_size_t {
  /** sizeof(sched_fd_shot_size_t), set by the caller. */
  size_t size;
  /** Number of traces of the record. */
  uint64_t traces;
  /** Number of samples of a trace. */
  uint64_t samples;
  /** Floats of the record: traces * samples. */
  uint64_t record_len;
  /** Number of snapshots. */
  uint64_t snapshots;
  /** Floats of all snapshots together. */
  uint64_t snapshots_len;
  /**
   * Peak use of device memory in bytes; on the CPU with as many threads as the process may run
   * at once.
   */
  uint64_t device_bytes;
  /**
   * Additional host memory in bytes, on any device: the record, and with exact time the memory
   * of its correction. On a GPU not counted: at most two snapshots and the samples of 32 steps,
   * on their way.
   */
  uint64_t host_bytes;
} sched_fd_shot_size_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the binary interface. It changes only when a program that was built
 * against an older header would break. Compare it with `SCHED_ABI_VERSION` if the library is
 * loaded at run time.
 */
uint32_t sched_abi_version(void);

/** Returns the version of the library, such as "0.1.0". Static; do not free it. */
const char *sched_version(void);

/**
 * Returns the name of a status, such as "SCHED_E_ARGUMENT", or "unknown status". Static; do not
 * free it.
 */
const char *sched_status_name(sched_status_t status);

/**
 * Returns the message of the calling thread's last call with a negative status, in one sentence;
 * "" if none has failed. A successful call does not change it, except that it is "" after a
 * successful call of gpusched_legacy.h. The library owns the text; it is valid until the thread's
 * next failing call or its end.
 */
const char *sched_last_error(void);

/**
 * Sends the log of the whole process to a function of the caller, in place of the previous target.
 *
 * `max_level`: 1 error, 2 warning, 3 information, 4 debug, 5 trace; lines of higher levels are
 * left out. `function` NULL turns the log off. `user` is passed to the function and stays the
 * caller's. Once a later call has returned, the previous function is not running and is not called
 * again.
 *
 * Errors: SCHED_E_ARGUMENT for a level outside 1 to 5; SCHED_E_DEADLOCK from inside a log
 * function.
 */
sched_status_t sched_log_callback(sched_log_fn function, void *user, int32_t max_level);

/**
 * Creates a scheduler and stores its handle in `*out`. `config` NULL: every default. No device is
 * touched before its first task. Destroy it with sched_destroy.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW; SCHED_E_NO_DEVICE if no device fits the selection, or
 * if the parent of a forked process has found GPUs, which the child can't use; SCHED_E_IO if the
 * folder that GPUSCHED_LEASE_DIR names is refused, or if no file can be opened.
 */
sched_status_t sched_create(const struct sched_config_t *config, struct sched_t **out);

/**
 * Stores a handle of the scheduler that the whole process shares in `*out`. The scheduler is
 * created from the environment if no handle of it exists. This serves libraries that do not know
 * of each other: each call returns a new handle, which sched_destroy releases, and the last
 * release ends the scheduler.
 *
 * Releasing a handle while others exist does not end its tasks: wait for them first.
 * sched_wait_next has an order for each handle; sched_wait_all, sched_stats and the devices belong
 * to all handles together. Passing NULL to any function uses the same scheduler and keeps it until
 * the process ends.
 *
 * Errors: as sched_create; SCHED_E_FORKED in a child whose parent had one.
 */
sched_status_t sched_default(struct sched_t **out);

/**
 * Closes the scheduler to new tasks and waits until all tasks have ended. Returns 0, or
 * SCHED_PENDING after a timeout. The outcomes remain available. The shared scheduler
 * (sched_default) stays open: the call only waits.
 *
 * Errors: SCHED_E_STALE; SCHED_E_DEADLOCK from inside a task or a `drop` of the same scheduler.
 */
sched_status_t sched_drain(struct sched_t *s, int64_t timeout_ns);

/**
 * Destroys a scheduler: cancels the queued tasks, asks the running ones to stop, waits for them
 * and ends the scheduler. When it returns, all drop callbacks have been called, waiting calls of
 * other threads return, and the handle is stale. A handle of sched_default is released; its
 * scheduler ends with the last handle. NULL: nothing to do.
 *
 * The call waits as long as a callback runs; for a callback that may never return see
 * sched_shutdown. It does not wait for an attempt that was abandoned after its deadline: if that
 * callback returns later, `drop` is called then.
 *
 * Errors: SCHED_E_STALE for a handle that was destroyed before; SCHED_E_DEADLOCK from inside a
 * task, a `drop` or the progress function of the same scheduler, which then continues as before.
 */
sched_status_t sched_destroy(struct sched_t *s);

/**
 * Does the same as sched_destroy, but returns SCHED_PENDING if a callback has not returned after
 * `timeout_ns`. The scheduler then accepts and starts no task, but still exists: sched_stats,
 * sched_task_info and the waits show which task hangs. Call this or sched_destroy again, or give
 * up: a scheduler that is never destroyed does not keep the process from ending.
 *
 * Errors: as sched_destroy.
 */
sched_status_t sched_shutdown(struct sched_t *s, int64_t timeout_ns);

/**
 * Fills in the counts of tasks.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_stats(const struct sched_t *s, struct sched_stats_t *stats);

/**
 * Fills in the counts of device `index`, counted from 0.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_device_stats(const struct sched_t *s,
                                  uint32_t index,
                                  struct sched_device_stats_t *stats);

/**
 * Stores the number of devices of a scheduler in `*count`. With NULL: of the devices that the
 * machine has and GPUSCHED_DEVICES allows. Devices are numbered from 0 and keep their numbers.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_device_count(const struct sched_t *s, uint32_t *count);

/**
 * Fills in the properties of device `index`, counted from 0.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_device_info(const struct sched_t *s,
                                 uint32_t index,
                                 struct sched_device_info_t *info);

/**
 * Returns 1 if the attempt was asked to stop, else 0. A long callback should call this regularly,
 * and return SCHED_CANCELLED soon after a 1. If it returns 0 instead, the task succeeds, unless it
 * was cancelled or another attempt was first. `exec` is the argument of the callback; any thread
 * may pass it until the callback returns.
 *
 * Errors (negative): SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
int32_t sched_exec_cancelled(const struct sched_exec_t *exec);

/**
 * Reports the fraction of the task that is done, from 0 to 1, for sched_task_info. Call this with
 * a number above 0 when the callback has allocated its device memory: until then other processes
 * keep the rest of its `device_bytes` free. `exec` as above.
 *
 * Errors: SCHED_E_ARGUMENT for a number outside 0 to 1; SCHED_E_STALE.
 */
sched_status_t sched_exec_report(const struct sched_exec_t *exec, double fraction);

/**
 * Commits this attempt. A callback calls this before it publishes its results. Returns 0 if this
 * attempt counts; the task can't be cancelled from then on. Returns SCHED_CANCELLED if another
 * attempt or a cancel came first, or if this attempt was given up after its deadline: discard the
 * results and return. If a second attempt may run (SCHED_TASK_IDEMPOTENT), only the attempt that
 * got 0 may publish. `exec` as above.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_exec_commit(const struct sched_exec_t *exec);

/**
 * Says why the callback fails: `return sched_exec_fail(exec, "no such trace");`. The message
 * becomes that of the task's error (sched_wait, sched_task_error) and of the log, if the
 * callback then returns a number that fails the task. The last message counts. It is copied.
 * `exec` as above.
 *
 * Returns SCHED_E_CALLBACK. Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_exec_fail(const struct sched_exec_t *exec, const char *message);

/**
 * Allocates `bytes` bytes on the task's device and stores their address in `*memory`: memory
 * of the GPU on a GPU, memory of the host on the CPU device. The contents are undefined, the
 * alignment is at least 64 bytes. The memory belongs to the callback until that returns. Then
 * memory of the host is freed, and memory of a GPU is cached for later requests that it exceeds by
 * an eighth at most. Work that uses the memory must be on the stream of `exec`, or be done when the
 * callback returns. The task's `device_bytes` should include these bytes; other processes then
 * count them as used, not also as reserved. `exec` is the argument of the callback; call this
 * function on the thread that runs the callback.
 *
 * Errors: SCHED_E_MEMORY if the device does not have that much: the callback should return
 * this status, so that the task is retried as described at sched_run_fn. SCHED_E_ARGUMENT,
 * SCHED_E_STALE, SCHED_E_DEVICE, SCHED_E_DRIVER.
 */
sched_status_t sched_exec_memory(const struct sched_exec_t *exec, uint64_t bytes, void **memory);

/**
 * Submits a task and returns at once. `*id` receives its id; `id` may be NULL if the task is
 * detached. A task that no device could ever run is refused, and the message has the numbers.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_TOO_NEW, SCHED_E_STALE, SCHED_E_NO_DEVICE, SCHED_E_MEMORY,
 * SCHED_E_SHUTDOWN, SCHED_E_FORKED.
 */
sched_status_t sched_submit(struct sched_t *s,
                            const struct sched_task_desc_t *desc,
                            sched_task_t *id);

/**
 * Submits `count` tasks: all of them or, on any error, none. `ids` receives their ids in the same
 * order; it may be NULL if all tasks are detached. `descs` is an array of structs with the same
 * `size`. One call is cheaper than `count` calls of sched_submit. A `count` of 0 is no error.
 *
 * If a struct could not be read (NULL, an impossible `size`, SCHED_E_TOO_NEW), no `drop` is
 * called. After any other error the `drop` of each task has been called once.
 *
 * Errors: as sched_submit, for the first refused task. The message begins with its place in
 * `descs`.
 */
sched_status_t sched_submit_many(struct sched_t *s,
                                 const struct sched_task_desc_t *descs,
                                 size_t count,
                                 sched_task_t *ids);

/**
 * Waits for a task. Any number of threads may wait, any number of times. Returns 0 if the task
 * succeeded, SCHED_CANCELLED, SCHED_PENDING after a timeout, or the task's failure. The message of
 * a failure is then in sched_last_error and, for any thread, in sched_task_error.
 *
 * Other errors: SCHED_E_STALE; SCHED_E_ARGUMENT for a detached task; SCHED_E_DEADLOCK for a wait
 * inside a task that could never end, or beside 64 tasks that wait already.
 */
sched_status_t sched_wait(struct sched_t *s, sched_task_t id, int64_t timeout_ns);

/**
 * Waits until every task that was submitted before has ended, successfully or not. Returns 0, or
 * SCHED_PENDING after a timeout. The outcomes remain available.
 *
 * Errors: SCHED_E_STALE; SCHED_E_DEADLOCK from inside a task or a `drop` of the same scheduler.
 */
sched_status_t sched_wait_all(struct sched_t *s, int64_t timeout_ns);

/**
 * Waits until one of `count` tasks has ended, successfully or not, and stores its position in
 * `ids` in `*index`. Returns 0, or SCHED_PENDING after a timeout. sched_wait then returns the
 * outcome. A task that has ended is reported by every call, so remove it from the list before the
 * next call.
 *
 * Errors: SCHED_E_ARGUMENT, also for an empty list; SCHED_E_STALE if any id is unknown;
 * SCHED_E_DEADLOCK as in sched_wait; SCHED_E_MEMORY for the copy of the list.
 */
sched_status_t sched_wait_any(struct sched_t *s,
                              const sched_task_t *ids,
                              size_t count,
                              int64_t timeout_ns,
                              size_t *index);

/**
 * Waits until the next task with SCHED_TASK_ORDERED has ended, successfully or not, and stores its
 * id in `*id`. The order is that of submission through this handle. Returns 0, or SCHED_PENDING
 * after a timeout. Each task is returned once, to one of the waiting threads; sched_wait then
 * returns its outcome. A task that was released before its turn is skipped.
 *
 * Errors: SCHED_E_ARGUMENT, also if no task is left to return; SCHED_E_STALE; SCHED_E_DEADLOCK as
 * in sched_wait.
 */
sched_status_t sched_wait_next(struct sched_t *s, int64_t timeout_ns, sched_task_t *id);

/**
 * Cancels a task. Does not wait. A queued task never starts. A running one sees the request in
 * sched_exec_cancelled and ends as cancelled, whatever its callback returns, unless it has
 * committed before. If the callback does not return and has a deadline, the task may end with
 * SCHED_E_DEADLINE. A task that has ended does not change.
 *
 * Errors: SCHED_E_STALE.
 */
sched_status_t sched_cancel(struct sched_t *s, sched_task_t id);

/**
 * Releases a task: drops its outcome and makes its id stale. A task that has not ended becomes
 * detached; its id stays valid for cancels and queries until it ends. The scheduler keeps
 * unreleased outcomes until it is destroyed.
 *
 * Errors: SCHED_E_STALE.
 */
sched_status_t sched_release(struct sched_t *s, sched_task_t id);

/**
 * Fills in the state of a task.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_task_info(const struct sched_t *s,
                               sched_task_t id,
                               struct sched_task_info_t *info);

/**
 * Writes the message of a failed task into `buffer`, truncated to `len` bytes including the NUL.
 * Stores the length of the whole message without the NUL in `*length`: 0 if the task has not
 * failed. `buffer` may be NULL if `len` is 0; `length` may be NULL. Any thread may call it until
 * the task is released.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_task_error(const struct sched_t *s,
                                sched_task_t id,
                                char *buffer,
                                size_t len,
                                size_t *length);

/**
 * Submits a range and returns at once. A range is one task: wait for it, cancel, release and query
 * it like any other. `*id` receives its id; `id` may be NULL if the range is detached. All allowed
 * devices process its elements as they become free, in chunks that are split while another worker
 * is free to help. A range may be submitted, and waited for, inside a chunk of another.
 *
 * Errors: as sched_submit; SCHED_E_ARGUMENT also if `begin` is greater than `end`.
 */
sched_status_t sched_submit_range(struct sched_t *s,
                                  const struct sched_range_desc_t *desc,
                                  sched_task_t *id);

/**
 * Fills in the progress of the scheduler.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_progress(const struct sched_t *s, struct sched_progress_t *progress);

/**
 * Calls `function` with the progress every `interval_ns` (at least 1000000; 0: one second), first
 * after that time. It replaces the function that was set before; NULL ends the calls. The thread
 * for the calls exists only while a function is set. `user` is passed to the function and stays
 * the caller's. Once this call, or sched_destroy, has returned, the previous function is not
 * running (unless it made this call itself) and is not called again. So the function must not wait
 * for the thread that replaces it.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_FORKED; SCHED_E_RESOURCES without a thread for
 * it; SCHED_E_SHUTDOWN for a function while another thread ends the scheduler.
 */
sched_status_t sched_progress_callback(struct sched_t *s,
                                       sched_progress_fn function,
                                       void *user,
                                       uint64_t interval_ns);

/**
 * Writes a trace of all attempts up to now to a file in the Chrome trace event format (JSON), for
 * chrome://tracing and ui.perfetto.dev. The trace has a process for each device, a row for each
 * slot, a bar for each attempt, a flag for each warning or retry, and a curve of the reserved
 * memory. The scheduler needs `trace_events` in its sched_config_t; events beyond that number are
 * only counted ("left_out"). The file is complete or absent.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_IO.
 */
sched_status_t sched_trace_write(const struct sched_t *s, const char *path);

/**
 * Creates a model and stores its handle in `*out`. The arrays are copied. Destroy it with
 * sched_fd_model_destroy.
 *
 * Errors: SCHED_E_ARGUMENT, with the first cell that is not accepted, for properties that the
 * equation lacks or does not have, and for values too far apart for SCHED_FD_MODEL_STORAGE_16_BIT;
 * SCHED_E_TOO_NEW; SCHED_E_MEMORY.
 */
sched_status_t sched_fd_model_create(const struct sched_fd_model_desc_t *desc,
                                     struct sched_fd_model_t **out);

/**
 * Destroys a model; its handle is stale from then on. Submitted shots keep what they need. NULL:
 * nothing to do.
 *
 * Errors: SCHED_E_STALE.
 */
sched_status_t sched_fd_model_destroy(struct sched_fd_model_t *model);

/**
 * Stores the largest stable time step of a model, in seconds, in `*dt_s`. A float holds the number
 * exactly, so `shot.dt_s = (float)dt_s` is accepted; with SCHED_FD_SHOT_OPTIMISED_STENCIL the
 * limit is 0.9634 of it; of `acoustic2`, and of `tti` with its default layer, 0.9616. If density
 * jumps from cell to cell, a shot may become unstable with a smaller step, and then fails with
 * SCHED_E_UNSTABLE: sched_fd_shot_warnings states the largest step that is certainly stable.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
 */
sched_status_t sched_fd_dt_max(const struct sched_fd_model_t *model, double *dt_s);

/**
 * Fills the `nt` floats of `samples` with a source wavelet of unit amplitude: one sample for each
 * time step of `dt_s` seconds, the first for the time 0, with SCHED_FD_WAVELET_CUT_* for the time
 * `dt_s`; zero after the end of the wavelet.
 * `wavelet` is one of SCHED_FD_WAVELET_*, 0 for Ricker; `frequency_hz` is its peak frequency.
 *
 * Errors: SCHED_E_ARGUMENT, SCHED_E_MEMORY.
 */
sched_status_t sched_fd_wavelet(int32_t wavelet,
                                float frequency_hz,
                                float dt_s,
                                float *samples,
                                size_t nt);

/**
 * Fills in the sizes of a shot's results. The shot is checked as in sched_fd_submit, except for
 * `record` and `snapshots`.
 *
 * Errors: as sched_fd_submit.
 */
sched_status_t sched_fd_shot_size(const struct sched_fd_model_t *model,
                                  const struct sched_fd_shot_desc_t *shot,
                                  struct sched_fd_shot_size_t *size);

/**
 * Writes the warnings of a shot into `buffer`, one per line, truncated to `len` bytes including
 * the NUL. They concern shots that are accepted but are usually mistakes, such as too few cells per
 * wavelength, a wavelet whose centre is after the end of the record, a step that density may make
 * unstable, a force beside the absorbing layer, or a mute of all samples. Stores the length of the
 * whole text without the NUL in `*length`: 0 if there is no warning. `buffer` may be NULL if `len`
 * is 0; `length` may be NULL. sched_fd_submit logs the same warnings, each once for a model.
 *
 * Errors: as sched_fd_shot_size.
 */
sched_status_t sched_fd_shot_warnings(const struct sched_fd_model_t *model,
                                      const struct sched_fd_shot_desc_t *shot,
                                      char *buffer,
                                      size_t len,
                                      size_t *length);

/**
 * Submits a shot and returns at once. It is a task like any other: sched_wait, sched_cancel and
 * the rest apply.
 *
 * `task` may be NULL; its `run` must be NULL. If `task` is NULL or has 0 in one of the fields
 * `device_bytes`, `work`, `task_class` and `retries`, the library sets that field (`retries`: 2).
 * A shot that becomes unstable is retried once if its time step is stable, and not at all if the
 * step is too large. `id` may be NULL if the task is detached. The same shot gives the same
 * record, bit for bit, on every device of a kind and after any number of retries. Shots are
 * idempotent (SCHED_TASK_IDEMPOTENT), except those with snapshots, and those whose `task` has a
 * `drop` without this flag.
 *
 * Errors: SCHED_E_ARGUMENT, also for a source or receiver outside the grid, and for a buffer that
 * is too short or overlaps another array of the call; SCHED_E_UNSTABLE for a time step that is too
 * large, with the largest stable one; SCHED_E_TOO_NEW, SCHED_E_STALE, SCHED_E_NO_DEVICE,
 * SCHED_E_MEMORY, SCHED_E_SHUTDOWN, SCHED_E_FORKED.
 */
sched_status_t sched_fd_submit(struct sched_t *s,
                               const struct sched_fd_model_t *model,
                               const struct sched_fd_shot_desc_t *shot,
                               const struct sched_task_desc_t *task,
                               sched_task_t *id);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPUSCHED_H */
