# Written by scripts/bindings.py from include/gpusched.h. Do not edit.
"""The C ABI as ctypes sees it: nothing added, nothing left out."""

from __future__ import annotations

from ctypes import (
    CDLL,
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Callable

SCHED_VERSION_MAJOR = 0
SCHED_VERSION_MINOR = 1
SCHED_VERSION_PATCH = 0
SCHED_OK = 0
SCHED_PENDING = 730001
SCHED_CANCELLED = 730002
SCHED_E_ARGUMENT = -730001
SCHED_E_TOO_NEW = -730002
SCHED_E_STALE = -730003
SCHED_E_MEMORY = -730004
SCHED_E_NO_DEVICE = -730005
SCHED_E_IO = -730006
SCHED_E_CALLBACK = -730007
SCHED_E_PANIC = -730008
SCHED_E_DEADLOCK = -730009
SCHED_E_SHUTDOWN = -730010
SCHED_E_FORKED = -730011
SCHED_E_UNSTABLE = -730012
SCHED_E_DEVICE = -730013
SCHED_E_INTERNAL = -730014
SCHED_E_DEPENDENCY = -730015
SCHED_E_DEADLINE = -730016
SCHED_E_RESOURCES = -730017
SCHED_E_UNWOUND = -730018
SCHED_E_DRIVER = -730019
SCHED_E_BUSY = -730020
SCHED_E_RESULT = -730021
SCHED_ABI_VERSION = 1
SCHED_FOREVER = -1
SCHED_SLOTS_AUTO = 4294967295
SCHED_BACKEND_CPU = 1
SCHED_BACKEND_CUDA = 2
SCHED_HEALTH_GOOD = 0
SCHED_HEALTH_RETIRED = 1
SCHED_HEALTH_BARRED = 2
SCHED_TASK_DETACHED = 1
SCHED_TASK_IDEMPOTENT = 2
SCHED_TASK_ORDERED = 4
SCHED_STATE_QUEUED = 0
SCHED_STATE_RUNNING = 1
SCHED_STATE_DONE = 2
SCHED_STATE_FAILED = 3
SCHED_STATE_CANCELLED = 4
SCHED_FD_WAVELET_RICKER = 7
SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE = 8
SCHED_FD_WAVELET_GAUSSIAN = 9
SCHED_FD_WAVELET_CUT_RICKER = 1
SCHED_FD_WAVELET_CUT_GAUSSIAN_DERIVATIVE = 2
SCHED_FD_WAVELET_CUT_GAUSSIAN = 3
SCHED_FD_WAVELET_CUT_RICKER_INTEGRAL = 4
SCHED_FD_WAVELET_CUT_RICKER_DOUBLE_INTEGRAL = 5
SCHED_FD_WAVELET_CUT_RICKER_TRIPLE_INTEGRAL = 6
SCHED_FD_MODEL_STORAGE_16_BIT = 1
SCHED_FD_MODEL_ANY_VALUES = 2
SCHED_FD_MODEL_DENSITY_AT_CELLS = 4
SCHED_FD_MODEL_PML = 8
SCHED_FD_EQUATION_ACOUSTIC1 = 0
SCHED_FD_EQUATION_ACOUSTIC2 = 1
SCHED_FD_EQUATION_VTI = 2
SCHED_FD_EQUATION_TTI = 3
SCHED_FD_PROPERTY_VP = 1
SCHED_FD_PROPERTY_RHO = 2
SCHED_FD_PROPERTY_EPSILON = 4
SCHED_FD_PROPERTY_DELTA = 8
SCHED_FD_PROPERTY_THETA = 16
SCHED_FD_PROPERTY_PHI = 32
SCHED_FD_SHOT_MUTE_DIRECT = 1
SCHED_FD_SHOT_EXACT_TIME = 2
SCHED_FD_SHOT_OPTIMISED_STENCIL = 4
SCHED_FD_SHOT_ANISOTROPIC_SOURCE = 8
SCHED_FD_SOURCE_PRESSURE = 0
SCHED_FD_SOURCE_MONOPOLE = 1
SCHED_FD_SOURCE_FORCE_X = 2
SCHED_FD_SOURCE_FORCE_Y = 3
SCHED_FD_SOURCE_FORCE_Z = 4

# void (*sched_log_fn)(int32_t level, const char *message, void *user);
sched_log_fn = CFUNCTYPE(None, c_int32, c_char_p, c_void_p)


class sched_config_t(Structure):
    size: int
    devices: bytes | None
    slots: int
    cpu_threads: int
    trace_events: int
    reserved: int
    rates_path: bytes | None
    stack_bytes: int
    _fields_ = [
        ("size", c_size_t),
        ("devices", c_char_p),
        ("slots", c_uint32),
        ("cpu_threads", c_uint32),
        ("trace_events", c_uint32),
        ("reserved", c_uint32),
        ("rates_path", c_char_p),
        ("stack_bytes", c_uint64),
    ]


class sched_stats_t(Structure):
    size: int
    submitted: int
    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    retried: int
    devices: int
    reserved: int
    makespan_ns: int
    lower_bound_ns: int
    _fields_ = [
        ("size", c_size_t),
        ("submitted", c_uint64),
        ("queued", c_uint64),
        ("running", c_uint64),
        ("done", c_uint64),
        ("failed", c_uint64),
        ("cancelled", c_uint64),
        ("retried", c_uint64),
        ("devices", c_uint32),
        ("reserved", c_uint32),
        ("makespan_ns", c_uint64),
        ("lower_bound_ns", c_uint64),
    ]


class sched_device_stats_t(Structure):
    size: int
    done: int
    failed: int
    busy_ns: int
    leased_bytes: int
    peak_bytes: int
    slots: int
    health: int
    _fields_ = [
        ("size", c_size_t),
        ("done", c_uint64),
        ("failed", c_uint64),
        ("busy_ns", c_uint64),
        ("leased_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("slots", c_uint32),
        ("health", c_int32),
    ]


class sched_device_info_t(Structure):
    size: int
    backend: int
    ordinal: int
    uuid: bytes
    pci_bus_id: bytes
    name: bytes
    compute_major: int
    compute_minor: int
    cpu_threads: int
    health: int
    total_bytes: int
    free_bytes: int
    _fields_ = [
        ("size", c_size_t),
        ("backend", c_uint32),
        ("ordinal", c_uint32),
        ("uuid", c_char * 64),
        ("pci_bus_id", c_char * 32),
        ("name", c_char * 128),
        ("compute_major", c_int32),
        ("compute_minor", c_int32),
        ("cpu_threads", c_uint32),
        ("health", c_int32),
        ("total_bytes", c_uint64),
        ("free_bytes", c_uint64),
    ]


class sched_exec_t(Structure):
    size: int
    task: int
    device: int
    backend: int
    ordinal: int
    slot: int
    attempt: int
    cpu_threads: int
    stream: int | None
    _fields_ = [
        ("size", c_size_t),
        ("task", c_uint64),
        ("device", c_uint32),
        ("backend", c_uint32),
        ("ordinal", c_uint32),
        ("slot", c_uint32),
        ("attempt", c_uint32),
        ("cpu_threads", c_uint32),
        ("stream", c_void_p),
    ]


# int32_t (*sched_run_fn)(const sched_exec_t *exec, void *user);
sched_run_fn = CFUNCTYPE(c_int32, POINTER(sched_exec_t), c_void_p)

# void (*sched_drop_fn)(void *user);
sched_drop_fn = CFUNCTYPE(None, c_void_p)


class sched_task_desc_t(Structure):
    size: int
    run: Any
    user: int | None
    drop: Any
    label: bytes | None
    device_bytes: int
    work: float
    device_mask: int
    backend_mask: int
    priority: int
    retries: int
    flags: int
    task_class: int
    reserved: int
    deadline_ns: int
    after: Any
    after_count: int
    _fields_ = [
        ("size", c_size_t),
        ("run", sched_run_fn),
        ("user", c_void_p),
        ("drop", sched_drop_fn),
        ("label", c_char_p),
        ("device_bytes", c_uint64),
        ("work", c_double),
        ("device_mask", c_uint64),
        ("backend_mask", c_uint32),
        ("priority", c_int32),
        ("retries", c_uint32),
        ("flags", c_uint32),
        ("task_class", c_uint32),
        ("reserved", c_uint32),
        ("deadline_ns", c_int64),
        ("after", POINTER(c_uint64)),
        ("after_count", c_size_t),
    ]


class sched_task_info_t(Structure):
    size: int
    state: int
    status: int
    device: int
    slot: int
    attempts: int
    reserved: int
    progress: float
    queued_ns: int
    running_ns: int
    _fields_ = [
        ("size", c_size_t),
        ("state", c_int32),
        ("status", c_int32),
        ("device", c_int32),
        ("slot", c_uint32),
        ("attempts", c_uint32),
        ("reserved", c_uint32),
        ("progress", c_double),
        ("queued_ns", c_uint64),
        ("running_ns", c_uint64),
    ]


# int32_t (*sched_range_fn)(const sched_exec_t *exec, uint64_t begin, uint64_t end, void *user);
sched_range_fn = CFUNCTYPE(c_int32, POINTER(sched_exec_t), c_uint64, c_uint64, c_void_p)


class sched_range_desc_t(Structure):
    size: int
    begin: int
    end: int
    grain: int
    run: Any
    user: int | None
    drop: Any
    label: bytes | None
    device_bytes: int
    device_mask: int
    backend_mask: int
    priority: int
    flags: int
    reserved: int
    deadline_ns: int
    after: Any
    after_count: int
    _fields_ = [
        ("size", c_size_t),
        ("begin", c_uint64),
        ("end", c_uint64),
        ("grain", c_uint64),
        ("run", sched_range_fn),
        ("user", c_void_p),
        ("drop", sched_drop_fn),
        ("label", c_char_p),
        ("device_bytes", c_uint64),
        ("device_mask", c_uint64),
        ("backend_mask", c_uint32),
        ("priority", c_int32),
        ("flags", c_uint32),
        ("reserved", c_uint32),
        ("deadline_ns", c_int64),
        ("after", POINTER(c_uint64)),
        ("after_count", c_size_t),
    ]


class sched_progress_t(Structure):
    size: int
    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    retried: int
    elapsed_ns: int
    eta_ns: int
    work_total: float
    work_done: float
    _fields_ = [
        ("size", c_size_t),
        ("queued", c_uint64),
        ("running", c_uint64),
        ("done", c_uint64),
        ("failed", c_uint64),
        ("cancelled", c_uint64),
        ("retried", c_uint64),
        ("elapsed_ns", c_uint64),
        ("eta_ns", c_int64),
        ("work_total", c_double),
        ("work_done", c_double),
    ]


# void (*sched_progress_fn)(const sched_progress_t *progress, void *user);
sched_progress_fn = CFUNCTYPE(None, POINTER(sched_progress_t), c_void_p)


class sched_fd_model_desc_t(Structure):
    size: int
    nx: int
    ny: int
    nz: int
    dx_m: float
    dy_m: float
    dz_m: float
    flags: int
    vp_m_s: Any
    rho_kg_m3: Any
    equation: int
    constants: int
    epsilon: Any
    delta: Any
    theta_rad: Any
    phi_rad: Any
    _fields_ = [
        ("size", c_size_t),
        ("nx", c_uint64),
        ("ny", c_uint64),
        ("nz", c_uint64),
        ("dx_m", c_float),
        ("dy_m", c_float),
        ("dz_m", c_float),
        ("flags", c_uint32),
        ("vp_m_s", POINTER(c_float)),
        ("rho_kg_m3", POINTER(c_float)),
        ("equation", c_int32),
        ("constants", c_uint32),
        ("epsilon", POINTER(c_float)),
        ("delta", POINTER(c_float)),
        ("theta_rad", POINTER(c_float)),
        ("phi_rad", POINTER(c_float)),
    ]


class sched_fd_cell_t(Structure):
    ix: int
    iy: int
    iz: int
    _fields_ = [
        ("ix", c_uint64),
        ("iy", c_uint64),
        ("iz", c_uint64),
    ]


class sched_fd_shot_desc_t(Structure):
    size: int
    dt_s: float
    frequency_hz: float
    nt: int
    wavelet: int
    flags: int
    wavelet_samples: Any
    wavelet_len: int
    amplitude: float
    record_every: int
    source: sched_fd_cell_t
    receivers: Any
    receiver_count: int
    plane_iz: int
    plane_every_x: int
    plane_every_y: int
    record: Any
    record_len: int
    snapshot_every: int
    snapshots: Any
    snapshots_len: int
    source_kind: int
    reserved: int
    _fields_ = [
        ("size", c_size_t),
        ("dt_s", c_float),
        ("frequency_hz", c_float),
        ("nt", c_uint64),
        ("wavelet", c_int32),
        ("flags", c_uint32),
        ("wavelet_samples", POINTER(c_float)),
        ("wavelet_len", c_size_t),
        ("amplitude", c_float),
        ("record_every", c_uint32),
        ("source", sched_fd_cell_t),
        ("receivers", POINTER(sched_fd_cell_t)),
        ("receiver_count", c_size_t),
        ("plane_iz", c_uint64),
        ("plane_every_x", c_uint32),
        ("plane_every_y", c_uint32),
        ("record", POINTER(c_float)),
        ("record_len", c_size_t),
        ("snapshot_every", c_uint64),
        ("snapshots", POINTER(c_float)),
        ("snapshots_len", c_size_t),
        ("source_kind", c_int32),
        ("reserved", c_uint32),
    ]


class sched_fd_shot_size_t(Structure):
    size: int
    traces: int
    samples: int
    record_len: int
    snapshots: int
    snapshots_len: int
    device_bytes: int
    host_bytes: int
    _fields_ = [
        ("size", c_size_t),
        ("traces", c_uint64),
        ("samples", c_uint64),
        ("record_len", c_uint64),
        ("snapshots", c_uint64),
        ("snapshots_len", c_uint64),
        ("device_bytes", c_uint64),
        ("host_bytes", c_uint64),
    ]


def _bind(library: CDLL, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    function = getattr(library, name)
    function.restype = result
    function.argtypes = list(arguments)
    return function  # type: ignore[no-any-return]


class Functions:
    """The functions of a loaded library, each under its C name."""

    def __init__(self, library: CDLL) -> None:
        # uint32_t sched_abi_version(void);
        self.sched_abi_version = _bind(library, "sched_abi_version", c_uint32)
        # const char *sched_version(void);
        self.sched_version = _bind(library, "sched_version", c_char_p)
        # const char *sched_status_name(sched_status_t status);
        self.sched_status_name = _bind(library, "sched_status_name", c_char_p, c_int32)
        # const char *sched_last_error(void);
        self.sched_last_error = _bind(library, "sched_last_error", c_char_p)
        # sched_status_t sched_log_callback(sched_log_fn function, void *user, int32_t max_level);
        self.sched_log_callback = _bind(
            library, "sched_log_callback",
            c_int32,
            sched_log_fn,
            c_void_p,
            c_int32,
        )
        # sched_status_t sched_create(const sched_config_t *config, sched_t **out);
        self.sched_create = _bind(
            library, "sched_create",
            c_int32,
            POINTER(sched_config_t),
            POINTER(c_void_p),
        )
        # sched_status_t sched_default(sched_t **out);
        self.sched_default = _bind(library, "sched_default", c_int32, POINTER(c_void_p))
        # sched_status_t sched_drain(sched_t *s, int64_t timeout_ns);
        self.sched_drain = _bind(library, "sched_drain", c_int32, c_void_p, c_int64)
        # sched_status_t sched_destroy(sched_t *s);
        self.sched_destroy = _bind(library, "sched_destroy", c_int32, c_void_p)
        # sched_status_t sched_shutdown(sched_t *s, int64_t timeout_ns);
        self.sched_shutdown = _bind(library, "sched_shutdown", c_int32, c_void_p, c_int64)
        # sched_status_t sched_stats(const sched_t *s, sched_stats_t *stats);
        self.sched_stats = _bind(library, "sched_stats", c_int32, c_void_p, POINTER(sched_stats_t))
        # sched_status_t sched_device_stats(const sched_t *s, uint32_t index, sched_device_stats_t *stats);
        self.sched_device_stats = _bind(
            library, "sched_device_stats",
            c_int32,
            c_void_p,
            c_uint32,
            POINTER(sched_device_stats_t),
        )
        # sched_status_t sched_device_count(const sched_t *s, uint32_t *count);
        self.sched_device_count = _bind(
            library, "sched_device_count",
            c_int32,
            c_void_p,
            POINTER(c_uint32),
        )
        # sched_status_t sched_device_info(const sched_t *s, uint32_t index, sched_device_info_t *info);
        self.sched_device_info = _bind(
            library, "sched_device_info",
            c_int32,
            c_void_p,
            c_uint32,
            POINTER(sched_device_info_t),
        )
        # int32_t sched_exec_cancelled(const sched_exec_t *exec);
        self.sched_exec_cancelled = _bind(
            library, "sched_exec_cancelled",
            c_int32,
            POINTER(sched_exec_t),
        )
        # sched_status_t sched_exec_report(const sched_exec_t *exec, double fraction);
        self.sched_exec_report = _bind(
            library, "sched_exec_report",
            c_int32,
            POINTER(sched_exec_t),
            c_double,
        )
        # sched_status_t sched_exec_commit(const sched_exec_t *exec);
        self.sched_exec_commit = _bind(library, "sched_exec_commit", c_int32, POINTER(sched_exec_t))
        # sched_status_t sched_exec_fail(const sched_exec_t *exec, const char *message);
        self.sched_exec_fail = _bind(
            library, "sched_exec_fail",
            c_int32,
            POINTER(sched_exec_t),
            c_char_p,
        )
        # sched_status_t sched_exec_memory(const sched_exec_t *exec, uint64_t bytes, void **memory);
        self.sched_exec_memory = _bind(
            library, "sched_exec_memory",
            c_int32,
            POINTER(sched_exec_t),
            c_uint64,
            POINTER(c_void_p),
        )
        # sched_status_t sched_submit(sched_t *s, const sched_task_desc_t *desc, sched_task_t *id);
        self.sched_submit = _bind(
            library, "sched_submit",
            c_int32,
            c_void_p,
            POINTER(sched_task_desc_t),
            POINTER(c_uint64),
        )
        # sched_status_t sched_submit_many(sched_t *s, const sched_task_desc_t *descs, size_t count, sched_task_t *ids);
        self.sched_submit_many = _bind(
            library, "sched_submit_many",
            c_int32,
            c_void_p,
            POINTER(sched_task_desc_t),
            c_size_t,
            POINTER(c_uint64),
        )
        # sched_status_t sched_wait(sched_t *s, sched_task_t id, int64_t timeout_ns);
        self.sched_wait = _bind(library, "sched_wait", c_int32, c_void_p, c_uint64, c_int64)
        # sched_status_t sched_wait_all(sched_t *s, int64_t timeout_ns);
        self.sched_wait_all = _bind(library, "sched_wait_all", c_int32, c_void_p, c_int64)
        # sched_status_t sched_wait_any(sched_t *s, const sched_task_t *ids, size_t count, int64_t timeout_ns, size_t *index);
        self.sched_wait_any = _bind(
            library, "sched_wait_any",
            c_int32,
            c_void_p,
            POINTER(c_uint64),
            c_size_t,
            c_int64,
            POINTER(c_size_t),
        )
        # sched_status_t sched_wait_next(sched_t *s, int64_t timeout_ns, sched_task_t *id);
        self.sched_wait_next = _bind(
            library, "sched_wait_next",
            c_int32,
            c_void_p,
            c_int64,
            POINTER(c_uint64),
        )
        # sched_status_t sched_cancel(sched_t *s, sched_task_t id);
        self.sched_cancel = _bind(library, "sched_cancel", c_int32, c_void_p, c_uint64)
        # sched_status_t sched_release(sched_t *s, sched_task_t id);
        self.sched_release = _bind(library, "sched_release", c_int32, c_void_p, c_uint64)
        # sched_status_t sched_task_info(const sched_t *s, sched_task_t id, sched_task_info_t *info);
        self.sched_task_info = _bind(
            library, "sched_task_info",
            c_int32,
            c_void_p,
            c_uint64,
            POINTER(sched_task_info_t),
        )
        # sched_status_t sched_task_error(const sched_t *s, sched_task_t id, char *buffer, size_t len, size_t *length);
        self.sched_task_error = _bind(
            library, "sched_task_error",
            c_int32,
            c_void_p,
            c_uint64,
            POINTER(c_char),
            c_size_t,
            POINTER(c_size_t),
        )
        # sched_status_t sched_submit_range(sched_t *s, const sched_range_desc_t *desc, sched_task_t *id);
        self.sched_submit_range = _bind(
            library, "sched_submit_range",
            c_int32,
            c_void_p,
            POINTER(sched_range_desc_t),
            POINTER(c_uint64),
        )
        # sched_status_t sched_progress(const sched_t *s, sched_progress_t *progress);
        self.sched_progress = _bind(
            library, "sched_progress",
            c_int32,
            c_void_p,
            POINTER(sched_progress_t),
        )
        # sched_status_t sched_progress_callback(sched_t *s, sched_progress_fn function, void *user, uint64_t interval_ns);
        self.sched_progress_callback = _bind(
            library, "sched_progress_callback",
            c_int32,
            c_void_p,
            sched_progress_fn,
            c_void_p,
            c_uint64,
        )
        # sched_status_t sched_trace_write(const sched_t *s, const char *path);
        self.sched_trace_write = _bind(library, "sched_trace_write", c_int32, c_void_p, c_char_p)
        # sched_status_t sched_fd_model_create(const sched_fd_model_desc_t *desc, sched_fd_model_t **out);
        self.sched_fd_model_create = _bind(
            library, "sched_fd_model_create",
            c_int32,
            POINTER(sched_fd_model_desc_t),
            POINTER(c_void_p),
        )
        # sched_status_t sched_fd_model_destroy(sched_fd_model_t *model);
        self.sched_fd_model_destroy = _bind(library, "sched_fd_model_destroy", c_int32, c_void_p)
        # sched_status_t sched_fd_dt_max(const sched_fd_model_t *model, double *dt_s);
        self.sched_fd_dt_max = _bind(
            library, "sched_fd_dt_max",
            c_int32,
            c_void_p,
            POINTER(c_double),
        )
        # sched_status_t sched_fd_wavelet(int32_t wavelet, float frequency_hz, float dt_s, float *samples, size_t nt);
        self.sched_fd_wavelet = _bind(
            library, "sched_fd_wavelet",
            c_int32,
            c_int32,
            c_float,
            c_float,
            POINTER(c_float),
            c_size_t,
        )
        # sched_status_t sched_fd_shot_size(const sched_fd_model_t *model, const sched_fd_shot_desc_t *shot, sched_fd_shot_size_t *size);
        self.sched_fd_shot_size = _bind(
            library, "sched_fd_shot_size",
            c_int32,
            c_void_p,
            POINTER(sched_fd_shot_desc_t),
            POINTER(sched_fd_shot_size_t),
        )
        # sched_status_t sched_fd_shot_warnings(const sched_fd_model_t *model, const sched_fd_shot_desc_t *shot, char *buffer, size_t len, size_t *length);
        self.sched_fd_shot_warnings = _bind(
            library, "sched_fd_shot_warnings",
            c_int32,
            c_void_p,
            POINTER(sched_fd_shot_desc_t),
            POINTER(c_char),
            c_size_t,
            POINTER(c_size_t),
        )
        # sched_status_t sched_fd_submit(sched_t *s, const sched_fd_model_t *model, const sched_fd_shot_desc_t *shot, const sched_task_desc_t *task, sched_task_t *id);
        self.sched_fd_submit = _bind(
            library, "sched_fd_submit",
            c_int32,
            c_void_p,
            c_void_p,
            POINTER(sched_fd_shot_desc_t),
            POINTER(sched_task_desc_t),
            POINTER(c_uint64),
        )
