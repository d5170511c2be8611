/* Draft of the surface; replaced by the generated header. */
#ifndef GPUSCHED_H
#define GPUSCHED_H
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t sched_status_t;
#define SCHED_OK 0            /* done */
#define SCHED_PENDING 1       /* the time was up first */
#define SCHED_CANCELLED 2     /* the task was cancelled */
#define SCHED_E_ARGUMENT -1   /* an argument or field is outside what is accepted */
#define SCHED_E_TOO_NEW -2    /* a struct with fields set that this library does not know */
#define SCHED_E_STALE -3      /* id unknown: released, or of another scheduler */
#define SCHED_E_MEMORY -4     /* fits no device; or an allocation failed */
#define SCHED_E_NO_DEVICE -5
#define SCHED_E_IO -6
#define SCHED_E_CALLBACK -7   /* the task's callback returned non-zero */
#define SCHED_E_PANIC -8
#define SCHED_E_DEADLOCK -9
#define SCHED_E_SHUTDOWN -10
#define SCHED_E_FORKED -11
#define SCHED_E_UNSTABLE -12
#define SCHED_E_DEVICE -13
#define SCHED_E_INTERNAL -14

#define SCHED_FOREVER INT64_C(-1)      /* as timeout_ns; 0 looks and returns */

#define SCHED_BACKEND_CPU  1u     /* bits of a backend mask; 0: every kind */
#define SCHED_BACKEND_CUDA 2u

#define SCHED_TASK_DETACHED 1u    /* flags of a task */

#define SCHED_HEALTH_GOOD 0
#define SCHED_HEALTH_RETIRED 1
#define SCHED_STATE_QUEUED 0 .. RUNNING 1, DONE 2, FAILED 3, CANCELLED 4

/* library */
uint32_t sched_abi_version(void);
const char *sched_version(void);
const char *sched_status_name(sched_status_t status);   /* "SCHED_E_ARGUMENT"; "unknown status" otherwise */
const char *sched_last_error(void);        /* of the calling thread's last failed call; "" if none; valid until its next failed call */
typedef void (*sched_log_fn)(int32_t level, const char *message, void *user); /* level 1 error .. 5 trace */
sched_status_t sched_log_callback(sched_log_fn fn, void *user, int32_t max_level);  /* fn NULL: off */

/* devices (as found on the machine, nothing touched; GPUSCHED_DEVICES respected) */
typedef struct sched_device_info_t {
  size_t size;
  uint32_t backend;     /* SCHED_BACKEND_* */
  uint32_t ordinal;
  char uuid[64];
  char pci_bus_id[32];  /* "" if none */
  char name[128];
  int32_t compute_major, compute_minor; /* 0 if none */
  uint32_t cpu_threads; /* 0 for a card */
  int32_t health;
  uint64_t total_bytes, free_bytes;
} sched_device_info_t;
sched_status_t sched_device_count(uint32_t *count);
sched_status_t sched_device_info(uint32_t index, sched_device_info_t *info); /* info->size set by the caller */

/* scheduler */
typedef struct sched_t sched_t;            /* NULL where a sched_t* is taken: the process-wide default */
typedef struct sched_config_t {
  size_t size;
  const char *devices;      /* NULL: environment */
  uint32_t slots;           /* 0: environment, else 1 */
  uint32_t cpu_threads;     /* 0: all */
} sched_config_t;
sched_status_t sched_create(const sched_config_t *config, sched_t **out);  /* config NULL: defaults */
sched_status_t sched_drain(sched_t *s, int64_t timeout_ns);
sched_status_t sched_destroy(sched_t *s);   /* NULL: nothing to do */
typedef struct sched_stats_t {
  size_t size;
  uint64_t submitted, queued, running, done, failed, cancelled, retried;
  uint32_t devices;
  ...
} sched_stats_t;
sched_status_t sched_stats(sched_t *s, sched_stats_t *stats);
typedef struct sched_device_stats_t {size, done, failed, busy_ns, leased_bytes, peak_bytes, slots, health} ;
sched_status_t sched_device_stats(sched_t *s, uint32_t index, sched_device_stats_t *stats);
typedef void (*sched_progress_fn)(const sched_stats_t *stats, void *user)  -- later issue

/* tasks */
typedef uint64_t sched_task_t;  /* 0 is never a task */
typedef struct sched_exec_t {
  size_t size;
  sched_task_t task;
  uint32_t device;      /* index in the scheduler; sched_device_info of the scheduler */
  uint32_t backend;
  uint32_t ordinal;
  uint32_t slot;
  uint32_t attempt;     /* from 1 */
  uint32_t cpu_threads; /* threads that this slot may use; 0 on a card */
  void *stream;         /* NULL on the CPU */
} sched_exec_t;
typedef int32_t (*sched_run_fn)(const sched_exec_t *exec, void *user);
typedef void (*sched_drop_fn)(void *user);
typedef struct sched_task_desc_t {
  size_t size;
  sched_run_fn run;         /* required, except in sched_fd_submit, where it must be NULL */
  void *user;
  sched_drop_fn drop;       /* called exactly once with user, whatever happens, also when submit fails after reading desc */
  const char *label;        /* copied */
  uint64_t device_bytes;
  double work;              /* 0: unknown */
  uint64_t device_mask;     /* 0: all */
  uint32_t backend_mask;    /* 0: all */
  int32_t priority;
  uint32_t retries;
  uint32_t flags;
} sched_task_desc_t;
sched_status_t sched_submit(sched_t *s, const sched_task_desc_t *desc, sched_task_t *id); /* id may be NULL if detached */
sched_status_t sched_wait(sched_t *s, sched_task_t id, int64_t timeout_ns);  /* 0, PENDING, CANCELLED, or the task's own failure */
sched_status_t sched_wait_all(sched_t *s, int64_t timeout_ns);
sched_status_t sched_wait_any(sched_t *s, const sched_task_t *ids, size_t count, int64_t timeout_ns, size_t *index);
sched_status_t sched_cancel(sched_t *s, sched_task_t id);
sched_status_t sched_release(sched_t *s, sched_task_t id);
typedef struct sched_task_info_t {
  size_t size;
  int32_t state; int32_t status; /* as sched_wait would tell */
  int32_t device;  /* -1: not started */
  uint32_t slot, attempts;
  double progress;
  uint64_t queued_ns, running_ns;
} sched_task_info_t;
sched_status_t sched_task_info(sched_t *s, sched_task_t id, sched_task_info_t *info);
size_t sched_task_error(sched_t *s, sched_task_t id, char *buf, size_t len);  /* snprintf style; 0 if none */
int32_t sched_exec_cancelled(const sched_exec_t *exec);  /* 1: return soon */
sched_status_t sched_exec_report(const sched_exec_t *exec, double done);

/* finite differences. Fields: [iy][ix][iz], z fastest. */
typedef struct sched_fd_model_t sched_fd_model_t;
typedef struct sched_fd_model_desc_t {
  size_t size;
  uint64_t nx, ny, nz;
  float dx_m, dy_m, dz_m;
  const float *vp_m_s;      /* nx*ny*nz, copied */
  const float *rho_kg_m3;   /* NULL: 1000 everywhere */
} sched_fd_model_desc_t;
sched_status_t sched_fd_model_create(const sched_fd_model_desc_t *desc, sched_fd_model_t **out);
sched_status_t sched_fd_model_destroy(sched_fd_model_t *model); /* shots in flight keep it alive */
sched_status_t sched_fd_dt_max(const sched_fd_model_t *model, double *dt_s);

#define SCHED_FD_WAVELET_RICKER 1 .. GAUSSIAN_DERIVATIVE 2, GAUSSIAN 3, RICKER_INTEGRAL 4, RICKER_DOUBLE_INTEGRAL 5, RICKER_TRIPLE_INTEGRAL 6
sched_status_t sched_fd_wavelet(int32_t shape, float frequency_hz, float dt_s, float *samples, size_t nt); /* fills nt, zero after the last active */

typedef struct sched_fd_cell_t { uint64_t ix, iy, iz; } sched_fd_cell_t;
#define SCHED_FD_MUTE_DIRECT 1u  /* flags */
typedef struct sched_fd_shot_desc_t {
  size_t size;
  float dt_s;
  float frequency_hz;          /* of wavelet; ignored with samples */
  uint64_t nt;
  int32_t wavelet;             /* SCHED_FD_WAVELET_*; 0: Ricker */
  uint32_t flags;
  const float *wavelet_samples; /* own source function, wavelet_len samples, copied; NULL: wavelet */
  size_t wavelet_len;
  float amplitude;             /* 0: 10000, as the old kernel */
  uint32_t record_every;       /* 0: 1 */
  sched_fd_cell_t source;      /* from 0; dipole: negative pole here, positive two cells deeper */
  const sched_fd_cell_t *receivers; /* list, copied; NULL: plane */
  size_t receiver_count;
  uint64_t plane_iz; 
  uint32_t plane_every_x, plane_every_y;  /* 0: 1 */
  float *record;               /* lent until the task has ended; [trace][sample]; written only on success */
  size_t record_len;           /* floats; at least traces*samples */
  uint64_t snapshot_every;     /* 0: none */
  float *snapshots;            /* lent; [snapshot][iy][ix][iz] */
  size_t snapshots_len;
} sched_fd_shot_desc_t;
typedef struct sched_fd_shot_size_t { size_t size; uint64_t traces, samples, record_len, snapshots, snapshots_len, device_bytes; } sched_fd_shot_size_t;
sched_status_t sched_fd_shot_size(const sched_fd_model_t*, const sched_fd_shot_desc_t*, sched_fd_shot_size_t*);
sched_status_t sched_fd_submit(sched_t *s, const sched_fd_model_t *model, const sched_fd_shot_desc_t *shot, const sched_task_desc_t *task /* NULL: defaults */, sched_task_t *id);

/* the old entry point */
void cuda_3dfd_1order(const char *vel, const char *rho, const char *snap, const char *shot, int is, int ns, int nx, int ny, int nz,
  float dx, float dy, float dz, int sxbeg, int sybeg, int szbeg, int jsx, int jsy, int jsz, float dgx, float dgy, float dgt,
  int nt, float dt, int wtype, float fm, bool show_snapshot, bool cut_directwave, int snap_interval, int device);
#ifdef __cplusplus
}
#endif
#endif
