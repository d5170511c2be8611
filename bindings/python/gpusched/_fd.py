"""Finite differences: a medium, and shots over it. Cells are counted from 0; z is fastest."""

from __future__ import annotations

import operator
from ctypes import POINTER, byref, c_double, c_float, c_void_p, sizeof
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Tuple

from . import _abi
from ._arrays import np
from ._fields import put
from ._library import Handle, check, lib

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float32]

Cell = Tuple[int, int, int]

WAVELETS = {
    "ricker": _abi.SCHED_FD_WAVELET_RICKER,
    "gaussian-derivative": _abi.SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE,
    "gaussian": _abi.SCHED_FD_WAVELET_GAUSSIAN,
    "ricker-integral": _abi.SCHED_FD_WAVELET_RICKER_INTEGRAL,
    "ricker-double-integral": _abi.SCHED_FD_WAVELET_RICKER_DOUBLE_INTEGRAL,
    "ricker-triple-integral": _abi.SCHED_FD_WAVELET_RICKER_TRIPLE_INTEGRAL,
}


STENCILS = {"taylor": 0, "optimised": _abi.SCHED_FD_SHOT_OPTIMISED_STENCIL}
STORAGES = {"float32": 0, "16-bit": _abi.SCHED_FD_MODEL_16_BIT}


def choice(name: str, value: str, accepted: Mapping[str, int]) -> int:
    """Returns the number that the C ABI has for an option's value."""
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{name} is {value!r}; accepted: {', '.join(accepted)}")
    return accepted[value]


def cell(position: Cell) -> _abi.sched_fd_cell_t:
    answer = _abi.sched_fd_cell_t()
    names = ("ix", "iy", "iz")
    if len(position) != len(names):
        raise ValueError(f"a position has {len(position)} numbers; accepted: 3, ix, iy and iz, in cells")
    for name, index in zip(names, position):
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(f"{name} is {index!r}; accepted: an integer, the number of a cell") from None
        if number < 0:
            raise ValueError(f"{name} is {number}; accepted: 0 to the number of the last cell")
        put(answer, name, number)
    return answer


def pointer(array: Floats) -> Any:
    return array.ctypes.data_as(POINTER(c_float))


def wavelet(name: str, frequency_hz: float, dt_s: float, nt: int) -> Floats:
    """A source function as the old kernels compute it: `nt` samples, zero after the last active one."""
    samples = np.zeros(nt, dtype=np.float32)
    check(lib.sched_fd_wavelet(choice("wavelet", name, WAVELETS), frequency_hz, dt_s, pointer(samples), nt))
    return samples


class Model(Handle):
    """A medium. `vp` [iy, ix, iz] in m/s, `rho` likewise in kg/m³ (without: 1000 everywhere); both are copied.

    `spacing_m`: one number, or (dx, dy, dz). `storage` is "float32" or "16-bit", the format of 1/rho and rho vp². In 16 bits
    shots take less memory, and speeds have a relative error of at most 5e-4; a model with a wider range is refused.
    """

    def __init__(
        self,
        vp: ArrayLike,
        spacing_m: float | Sequence[float],
        rho: ArrayLike | None = None,
        storage: str = "float32",
    ) -> None:
        self._handle: int | None = None
        v = np.ascontiguousarray(vp, dtype=np.float32)
        if v.ndim != 3:
            raise ValueError(f"vp has {v.ndim} dimensions; accepted: 3, as [iy, ix, iz]")
        dx, dy, dz = map(float, np.broadcast_to(spacing_m, 3))
        desc = _abi.sched_fd_model_desc_t(size=sizeof(_abi.sched_fd_model_desc_t))
        desc.ny, desc.nx, desc.nz = v.shape
        desc.dx_m, desc.dy_m, desc.dz_m = dx, dy, dz
        desc.vp_m_s = pointer(v)
        if rho is not None:
            r = np.ascontiguousarray(rho, dtype=np.float32)
            if r.shape != v.shape:
                raise ValueError(f"rho has the shape {r.shape}; accepted: that of vp, {v.shape}")
            desc.rho_kg_m3 = pointer(r)
        desc.flags = choice("storage", storage, STORAGES)
        made = c_void_p()
        check(lib.sched_fd_model_create(byref(desc), byref(made)))
        self._handle = made.value
        self.shape: tuple[int, int, int] = (desc.ny, desc.nx, desc.nz)

    @property
    def _raw(self) -> int:
        if self._handle is None:
            raise ValueError("this model is closed")
        return self._handle

    @property
    def dt_max(self) -> float:
        """The largest stable time step, in seconds; where density jumps from cell to cell, a shot may need less."""
        answer = c_double()
        check(lib.sched_fd_dt_max(self._raw, byref(answer)))
        return answer.value

    def shot_size(self, shot: Shot) -> _abi.sched_fd_shot_size_t:
        """How large the record and the snapshots of a shot are, and what it takes of a device."""
        answer = _abi.sched_fd_shot_size_t(size=sizeof(_abi.sched_fd_shot_size_t))
        desc, _kept = shot._describe()
        check(lib.sched_fd_shot_size(self._raw, byref(desc), byref(answer)))
        return answer

    def close(self) -> None:
        """Shots in flight keep what they need of it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            lib.sched_fd_model_destroy(handle)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


@dataclass(frozen=True)
class Shot:
    """One shot: time axis, source, receivers. Without `receivers`: the plane at depth `plane_iz`."""

    nt: int
    dt_s: float
    source: Cell
    frequency_hz: float = 0.0
    wavelet: str = "ricker"
    wavelet_samples: ArrayLike | None = None
    """Custom source function, one sample for each step, instead of `wavelet` and `frequency_hz`."""
    amplitude: float = 0.0
    """0: that of the old kernels."""
    receivers: Sequence[Cell] | None = None
    plane_iz: int = 0
    plane_every: tuple[int, int] = (1, 1)
    """Take every so many cells of the plane in x and y."""
    record_every: int = 1
    snapshot_every: int = 0
    """Steps between snapshots; 0: none."""
    mute_direct: bool = False
    exact_time: bool = False
    """Take the error of the steps in time out of the record; snapshots keep it."""
    stencil: str = "taylor"
    """"optimised": derivatives for waves of 3.5 cells and more; `dt_s` is at most 0.9634 `dt_max` then."""

    def _describe(self) -> tuple[_abi.sched_fd_shot_desc_t, list[object]]:
        """The shot for the C ABI, and what has to outlive the call."""
        kept: list[object] = []
        desc = _abi.sched_fd_shot_desc_t(size=sizeof(_abi.sched_fd_shot_desc_t))
        desc.dt_s, desc.frequency_hz, desc.amplitude = self.dt_s, self.frequency_hz, self.amplitude
        desc.wavelet, desc.source = choice("wavelet", self.wavelet, WAVELETS), cell(self.source)
        desc.flags = choice("stencil", self.stencil, STENCILS)
        for name in ("nt", "plane_iz", "record_every", "snapshot_every"):
            put(desc, name, getattr(self, name))
        for name, every in zip(("plane_every_x", "plane_every_y"), self.plane_every):
            put(desc, name, every)
        if self.mute_direct:
            desc.flags |= _abi.SCHED_FD_SHOT_MUTE_DIRECT
        if self.exact_time:
            desc.flags |= _abi.SCHED_FD_SHOT_EXACT_TIME
        if self.wavelet_samples is not None:
            samples = np.ascontiguousarray(self.wavelet_samples, dtype=np.float32)
            if samples.ndim != 1:
                raise ValueError(f"wavelet_samples has {samples.ndim} dimensions; accepted: 1")
            desc.wavelet_samples, desc.wavelet_len = pointer(samples), samples.size
            kept.append(samples)
        if self.receivers is not None:
            cells = (_abi.sched_fd_cell_t * len(self.receivers))(*map(cell, self.receivers))
            desc.receivers, desc.receiver_count = cells, len(self.receivers)
            kept.append(cells)
        return desc, kept


@dataclass(frozen=True)
class Gather:
    """What a shot gives: `record` [trace, sample], `snapshots` [snapshot, iy, ix, iz] if any were asked for."""

    record: Floats
    snapshots: Floats | None
