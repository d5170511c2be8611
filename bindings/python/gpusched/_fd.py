"""Finite differences: a medium, and shots over it.

Cells are counted from 0; z points down and is fastest in memory.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from ctypes import POINTER, byref, c_double, c_float, c_size_t, c_void_p, create_string_buffer, sizeof
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Tuple

from . import _abi
from ._arrays import np
from ._fields import checked, put, real
from ._gather import Gather, ShotSize, axis
from ._info import filled
from ._library import GpuschedError, Handle, check, lib

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from ._gather import Floats

Cell = Tuple[int, int, int]

WAVELETS = {
    "ricker": _abi.SCHED_FD_WAVELET_RICKER,
    "gaussian-derivative": _abi.SCHED_FD_WAVELET_GAUSSIAN_DERIVATIVE,
    "gaussian": _abi.SCHED_FD_WAVELET_GAUSSIAN,
    "cut-ricker": _abi.SCHED_FD_WAVELET_CUT_RICKER,
    "cut-gaussian-derivative": _abi.SCHED_FD_WAVELET_CUT_GAUSSIAN_DERIVATIVE,
    "cut-gaussian": _abi.SCHED_FD_WAVELET_CUT_GAUSSIAN,
    "cut-ricker-integral": _abi.SCHED_FD_WAVELET_CUT_RICKER_INTEGRAL,
    "cut-ricker-double-integral": _abi.SCHED_FD_WAVELET_CUT_RICKER_DOUBLE_INTEGRAL,
    "cut-ricker-triple-integral": _abi.SCHED_FD_WAVELET_CUT_RICKER_TRIPLE_INTEGRAL,
}
SOURCE_KINDS = {
    "pressure": _abi.SCHED_FD_SOURCE_PRESSURE,
    "monopole": _abi.SCHED_FD_SOURCE_MONOPOLE,
    "force-x": _abi.SCHED_FD_SOURCE_FORCE_X,
    "force-y": _abi.SCHED_FD_SOURCE_FORCE_Y,
    "force-z": _abi.SCHED_FD_SOURCE_FORCE_Z,
}
STENCILS = {"taylor": 0, "optimised": _abi.SCHED_FD_SHOT_OPTIMISED_STENCIL}
EQUATIONS = {
    "acoustic1": _abi.SCHED_FD_EQUATION_ACOUSTIC1,
    "acoustic2": _abi.SCHED_FD_EQUATION_ACOUSTIC2,
    "vti": _abi.SCHED_FD_EQUATION_VTI,
    "tti": _abi.SCHED_FD_EQUATION_TTI,
}
STORAGES = {"float32": 0, "16-bit": _abi.SCHED_FD_MODEL_STORAGE_16_BIT}
DENSITIES = {"half-points": 0, "cells": _abi.SCHED_FD_MODEL_DENSITY_AT_CELLS}
ABSORBING_LAYERS = {"default": 0, "pml": _abi.SCHED_FD_MODEL_PML}


# Most time steps of a shot.
MOST_STEPS = 10_000_000


def choice(name: str, value: str, accepted: Mapping[str, int]) -> int:
    """Returns the number that the C ABI has for an option's value."""
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{name} is {value!r}; accepted: {', '.join(accepted)}")
    return accepted[value]


def cell(name: str, position: Cell) -> _abi.sched_fd_cell_t:
    """Returns a position for the C ABI; `name` is that of the argument."""
    answer = _abi.sched_fd_cell_t()
    axes = ("ix", "iy", "iz")
    if not hasattr(position, "__len__") or len(position) != len(axes):
        raise ValueError(f"{name} is {position!r}; accepted: 3 integers, ix, iy and iz, the numbers of a cell from 0")
    for axis_name, index in zip(axes, position):
        accepted = "an integer, 0 to the number of the last cell"
        number = checked(f"{axis_name} of {name}", index, operator.index, accepted, lambda number: 0 <= number < 1 << 64)
        setattr(answer, axis_name, number)
    return answer


def cells(positions: Sequence[Cell]) -> NDArray[np.uint64]:
    """Returns positions as an array of shape (n, 3), laid out as n `sched_fd_cell_t`."""
    if not hasattr(positions, "__len__"):
        raise ValueError(f"receivers is {positions!r}; accepted: a sequence of positions, or None")
    try:
        array = np.asarray(positions)
    except ValueError:  # Positions of different lengths.
        array = np.empty(0)
    if array.dtype.kind in "iu" and array.shape[1:] == (3,) and array.min(initial=0) >= 0:
        return np.ascontiguousarray(array, dtype=np.uint64)
    # The first position that is wrong is named.
    places = (cell(f"receivers[{number}]", position) for number, position in enumerate(positions))
    found = [(place.ix, place.iy, place.iz) for place in places]
    return np.array(found, dtype=np.uint64).reshape(-1, 3)


def floats(name: str, values: ArrayLike) -> Floats:
    """Returns values as a contiguous array of float32."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise ValueError("not real numbers")
        return np.ascontiguousarray(array, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} is {reprlib.repr(values)}; accepted: an array of numbers") from None


def pointer(array: NDArray[Any], kind: Any = c_float) -> Any:
    return array.ctypes.data_as(POINTER(kind))


def wavelet(name: str, frequency_hz: float, dt_s: float, nt: int) -> Floats:
    """Computes a source function of unit amplitude, as shots do.

    Parameters
    ----------
    name : str
        One of `WAVELETS`. "cut-..." are those of the old library; the others begin and end below
        1e-5 of their peak.
    frequency_hz : float
        Peak frequency in Hz, positive.
    dt_s : float
        Time step in seconds, positive.
    nt : int
        Number of samples.

    Returns
    -------
    ndarray of float32, shape (nt,)
        One sample for each time step, the first for the time 0, of cut ones for the time `dt_s`;
        zero after the end of the wavelet.

    Raises
    ------
    ValueError
        For an unknown name.
    GpuschedError
        SCHED_E_ARGUMENT for a number that is not accepted.
    """
    kind = choice("wavelet", name, WAVELETS)
    frequency_hz, dt_s = (
        checked(what, value, real, "a number") for what, value in (("frequency_hz", frequency_hz), ("dt_s", dt_s))
    )
    count = checked("nt", nt, operator.index, f"an integer, 1 to {MOST_STEPS} steps", lambda count: 1 <= count <= MOST_STEPS)
    samples = np.zeros(count, dtype=np.float32)
    check(lib.sched_fd_wavelet(kind, frequency_hz, dt_s, pointer(samples), samples.size))
    return samples


class Model(Handle):
    """A medium on a regular grid. Any number of shots, threads and schedulers may share it.

    Parameters
    ----------
    vp : array_like, shape (ny, nx, nz)
        P velocity in m/s, positive. Copied. Each axis has 1 to 100000 cells, the absorbing layer
        not included.
    spacing_m : float or sequence of float
        Metres between cells, at least 1e-6: one number, or (dx, dy, dz).
    rho : array_like, shape (ny, nx, nz), or float, optional
        Density in kg/m³, positive. Copied. None: 1000 everywhere. A number applies to all cells.
    storage : {"float32", "16-bit"}
        Format of rho and rho vp². With "16-bit" shots take up to a sixth less memory, and speeds
        have a relative error of at most 1e-3, with densities of rocks 5e-4; a model whose values
        are too far apart for this is refused.
    any_values : bool
        Accept velocities below 100 m/s everywhere, and densities below 30 kg/m³ everywhere. Without
        it they are refused: they look like km/s and g/cm³.
    equation : str
        One of `EQUATIONS` that the library has. A model that lacks a property of its equation, or
        has another one, is refused.
    epsilon, delta : array_like, shape (ny, nx, nz), or float, optional
        Thomsen's parameters, above -0.5; epsilon is nowhere below delta. Copied.
    theta_rad, phi_rad : array_like, shape (ny, nx, nz), or float, optional
        Tilt from the vertical and azimuth of the symmetry axis, -2 pi to 2 pi radians. The axis is
        (sin theta cos phi, -sin theta sin phi, cos theta) along x, y, z, with z down. Copied.
    density_at : {"half-points", "cells"}
        Density between two cells: the mean of both, or that of the cell with the lower index, as in
        the old kernels. With "cells" interfaces of density lie up to half a cell too deep.
    absorbing_layer : {"default", "pml"}
        Kind of the absorbing layer. By default "acoustic2" has a sponge of 54 cells on each side,
        "tti" one of 40, and the other equations a PML. With "pml" "acoustic2" has a PML of 20 cells,
        and "tti" one of 40 with the derivatives of the old kernels.

    Attributes
    ----------
    shape : tuple of int
        (ny, nx, nz).
    spacing_m : tuple of float
        (dx, dy, dz).

    Raises
    ------
    ValueError
        For arrays of other shapes.
    GpuschedError
        SCHED_E_ARGUMENT, with the first cell that is not accepted; SCHED_E_MEMORY.
    """

    def __init__(
        self,
        vp: ArrayLike,
        spacing_m: float | Sequence[float],
        rho: ArrayLike | None = None,
        storage: str = "float32",
        any_values: bool = False,
        equation: str = "acoustic1",
        epsilon: ArrayLike | None = None,
        delta: ArrayLike | None = None,
        theta_rad: ArrayLike | None = None,
        phi_rad: ArrayLike | None = None,
        density_at: str = "half-points",
        absorbing_layer: str = "default",
    ) -> None:
        self._handle: int | None = None
        v = floats("vp", vp)
        if np.ndim(vp) != 3:
            raise ValueError(f"vp has {np.ndim(vp)} dimensions; accepted: 3, as [iy, ix, iz]")
        try:
            dx, dy, dz = map(float, np.broadcast_to(spacing_m, 3))
        except (TypeError, ValueError):
            raise ValueError(f"spacing_m is {spacing_m!r}; accepted: one number of metres, or three: (dx, dy, dz)") from None
        desc = _abi.sched_fd_model_desc_t(size=sizeof(_abi.sched_fd_model_desc_t))
        desc.ny, desc.nx, desc.nz = v.shape
        desc.dx_m, desc.dy_m, desc.dz_m = dx, dy, dz
        desc.vp_m_s = pointer(v)
        desc.equation = choice("equation", equation, EQUATIONS)
        others = {
            "rho": (rho, "rho_kg_m3", _abi.SCHED_FD_PROPERTY_RHO),
            "epsilon": (epsilon, "epsilon", _abi.SCHED_FD_PROPERTY_EPSILON),
            "delta": (delta, "delta", _abi.SCHED_FD_PROPERTY_DELTA),
            "theta_rad": (theta_rad, "theta_rad", _abi.SCHED_FD_PROPERTY_THETA),
            "phi_rad": (phi_rad, "phi_rad", _abi.SCHED_FD_PROPERTY_PHI),
        }
        arrays = []  # Alive until the library has copied them.
        for name, (values, field, bit) in others.items():
            if values is None:
                continue
            array = floats(name, values)
            if np.ndim(values) == 0:
                desc.constants |= bit
            elif array.shape != v.shape:
                raise ValueError(f"{name} has the shape {array.shape}; accepted: that of vp, {v.shape}, or a number")
            setattr(desc, field, pointer(array))
            arrays.append(array)
        desc.flags = choice("storage", storage, STORAGES) | choice("density_at", density_at, DENSITIES)
        desc.flags |= choice("absorbing_layer", absorbing_layer, ABSORBING_LAYERS)
        if any_values:
            desc.flags |= _abi.SCHED_FD_MODEL_ANY_VALUES
        made = c_void_p()
        try:
            check(lib.sched_fd_model_create(byref(desc), byref(made)))
        except GpuschedError as error:
            message = error.message.replace("SCHED_FD_MODEL_ANY_VALUES", "any_values=True")
            raise GpuschedError(error.status, message) from None
        self._handle = made.value
        self.shape: tuple[int, int, int] = (desc.ny, desc.nx, desc.nz)
        self.spacing_m: tuple[float, float, float] = (dx, dy, dz)

    @property
    def _raw(self) -> int:
        if self._handle is None:
            raise ValueError("this model is closed")
        return self._handle

    @property
    def dt_max(self) -> float:
        """Largest stable time step in seconds.

        With `stencil` "optimised" the limit is 0.9634 of it; of "acoustic2", and of "tti" with its
        default layer, 0.9616. If density jumps from cell to cell, a shot may need a smaller step.
        """
        answer = c_double()
        check(lib.sched_fd_dt_max(self._raw, byref(answer)))
        return answer.value

    def shot_size(self, shot: Shot) -> ShotSize:
        """Checks a shot and returns the sizes of its results.

        Raises
        ------
        ValueError, TypeError, GpuschedError
            As `Scheduler.submit_shot`.
        """
        desc, _kept = shot._describe()
        return self._shot_size(shot, desc)

    def _shot_size(self, shot: Shot, desc: _abi.sched_fd_shot_desc_t) -> ShotSize:
        raw = filled(_abi.sched_fd_shot_size_t, lib.sched_fd_shot_size, self._raw, byref(desc))
        traces = (raw.traces,) if shot.receivers is not None else shot._plane(self)
        return ShotSize(
            record_shape=(*traces, raw.samples),
            snapshots_shape=(raw.snapshots, *self.shape) if raw.snapshots else None,
            device_bytes=raw.device_bytes,
            host_bytes=raw.host_bytes,
        )

    def shot_warnings(self, shot: Shot) -> list[str]:
        """Checks a shot and returns warnings of what is accepted but usually a mistake.

        For example too few cells per wavelength, or a step that density may make unstable.

        Raises
        ------
        ValueError, TypeError, GpuschedError
            As `Scheduler.submit_shot`.
        """
        desc, _kept = shot._describe()
        return self._shot_warnings(desc)

    def _shot_warnings(self, desc: _abi.sched_fd_shot_desc_t) -> list[str]:
        length = c_size_t()
        check(lib.sched_fd_shot_warnings(self._raw, byref(desc), None, 0, byref(length)))
        if length.value == 0:
            return []
        buffer = create_string_buffer(length.value + 1)
        check(lib.sched_fd_shot_warnings(self._raw, byref(desc), buffer, len(buffer), None))
        return buffer.value.decode().splitlines()

    def close(self) -> None:
        """Releases the model. Submitted shots keep what they need. May be called again."""
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

    def __repr__(self) -> str:
        ny, nx, nz = self.shape
        dx, dy, dz = self.spacing_m
        closed = ", closed" if self._handle is None else ""
        return f"<gpusched.Model: nx={nx}, ny={ny}, nz={nz}, spacing_m=({dx:g}, {dy:g}, {dz:g}){closed}>"


def plain(value: Any) -> Any:
    """Returns arrays and sequences as lists, which compare as a whole."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True, eq=False, repr=False)
class Shot:
    """One shot: time axis, source and receivers.

    Two shots are equal if all parameters are, arrays by their values. A shot has no hash.

    Parameters
    ----------
    nt : int
        Time steps to compute, at least 1.
    dt_s : float
        Time step in seconds, at most `Model.dt_max`.
    source : tuple of int
        Cell (ix, iy, iz) of the source.
    frequency_hz : float
        Peak frequency of the wavelet in Hz. Required without `wavelet_samples`.
    wavelet : str
        One of `WAVELETS`.
    wavelet_samples : array_like, shape (n,), optional
        Custom source function in place of `wavelet`: one sample for each time step, zero after the
        last.
    amplitude : float
        Factor on the wavelet; the product has the unit of `source_kind`. 0: 10000 for "pressure",
        else 1.
    receivers : sequence of tuple of int, optional
        Cells (ix, iy, iz) of the receivers, in the order of the traces. None: the plane at depth
        `plane_iz`.
    plane_iz : int
        Depth of the receiver plane in cells. Ignored with `receivers`.
    plane_every : tuple of int
        Cells between receivers of the plane along x and along y, from cell 0: 1 to 100000.
    record_every : int
        Time steps between samples, from step 0: 1 to 10000000.
    snapshot_every : int
        Time steps between snapshots, from step 0; 0: no snapshots.
    mute_direct : bool
        Sets samples to zero until the direct wave has passed. `wavelet_samples` count as
        2 / frequency_hz long.
    exact_time : bool
        Removes the dispersion error of the time steps from the record. A shot with snapshots is
        refused: they would keep the error.
    stencil : {"taylor", "optimised"}
        Spatial derivatives: of eighth order, or optimised for waves of 3.5 cells and more. With
        "optimised", `dt_s` is at most 0.9616 of `Model.dt_max`, or a little more (see there).
    anisotropic_source : bool
        Keeps epsilon and delta around the source. Otherwise they are 0 up to 4 cells from it and
        rise to the model's at 15 cells; a shot in a grid whose cells are all nearer is refused.
    source_kind : {"pressure", "monopole", "force-x", "force-y", "force-z"}
        "pressure": without a unit, as in the old library: the wavelet is added to the pressure of
        cells. "acoustic1", "acoustic2": a vertical dipole, `source` its upper, negative pole, the
        positive one two cells deeper; "vti", "tti": a single cell. With "acoustic2" sample i of the
        wavelet then acts at the time (i - 1) dt_s, otherwise at i dt_s. "monopole": the rate of a
        volume in m3/s. Forces are in N, positive towards larger indices, half a cell after `source`. With
        "vti" and "tti" these need `anisotropic_source` False.
    """

    nt: int
    dt_s: float
    source: Cell
    frequency_hz: float = 0.0
    wavelet: str = "ricker"
    wavelet_samples: ArrayLike | None = None
    amplitude: float = 0.0
    receivers: Sequence[Cell] | None = None
    plane_iz: int = 0
    plane_every: tuple[int, int] = (1, 1)
    record_every: int = 1
    snapshot_every: int = 0
    mute_direct: bool = False
    exact_time: bool = False
    stencil: str = "taylor"
    anisotropic_source: bool = False
    source_kind: str = "pressure"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shot):
            return NotImplemented
        return bool(plain(list(vars(self).values())) == plain(list(vars(other).values())))

    def __repr__(self) -> str:
        words = []
        for field in dataclasses.fields(self):
            value = plain(getattr(self, field.name))
            if value == plain(field.default):
                continue
            long = isinstance(value, list) and len(value) > 3
            words.append(f"{field.name}={f'<{len(value)}>' if long else repr(value)}")
        return f"Shot({', '.join(words)})"

    def _plane(self, model: Model) -> tuple[int, int]:
        """Receivers of the plane along y and along x."""
        ny, nx, _ = model.shape
        every_x, every_y = self.plane_every
        return -(-ny // every_y), -(-nx // every_x)

    def _gather(self, model: Model, record: Floats, snapshots: Floats | None) -> Gather:
        """Adds the axes."""
        dx, dy, dz = model.spacing_m
        if self.receivers is not None:
            x, y, z = cells(self.receivers).astype(float).T
        else:
            ny, nx = self._plane(model)
            every_x, every_y = self.plane_every
            x, y, z = axis(nx, every_x), axis(ny, every_y), np.array(float(self.plane_iz))
        count = 0 if snapshots is None else len(snapshots)
        return Gather(
            record=record,
            time=axis(record.shape[-1], self.dt_s * self.record_every, self.dt_s),
            x=x * dx,
            y=y * dy,
            z=np.asarray(z * dz),
            snapshots=snapshots,
            snapshot_time=axis(count, self.dt_s * self.snapshot_every, self.dt_s),
        )

    def _describe(self) -> tuple[_abi.sched_fd_shot_desc_t, list[object]]:
        """Returns the shot for the C ABI, and the objects that have to outlive the call."""
        kept: list[object] = []
        desc = _abi.sched_fd_shot_desc_t(size=sizeof(_abi.sched_fd_shot_desc_t))
        desc.wavelet, desc.source = choice("wavelet", self.wavelet, WAVELETS), cell("source", self.source)
        desc.flags = choice("stencil", self.stencil, STENCILS)
        desc.source_kind = choice("source_kind", self.source_kind, SOURCE_KINDS)
        steps = f"an integer, 1 to {MOST_STEPS} steps"
        integers = (
            ("nt", steps, 64),
            ("plane_iz", "an integer, 0 to the number of the last cell", 64),
            ("record_every", steps, 32),
            ("snapshot_every", f"{steps}, or 0: no snapshots", 64),
        )
        for name, accepted, bits in integers:
            # The library checks what its field can hold, but takes 0 for its default.
            least, most = int(name == "record_every"), (1 << bits) - 1
            fitting = checked(name, getattr(self, name), operator.index, accepted, lambda number: least <= number <= most)
            setattr(desc, name, fitting)
        for name in ("dt_s", "frequency_hz", "amplitude"):
            put(desc, name, getattr(self, name))
        names = ("plane_every_x", "plane_every_y")
        accepted = "2 integers, 1 to 100000 cells, along x and along y"
        if not hasattr(self.plane_every, "__len__") or len(self.plane_every) != len(names):
            raise ValueError(f"plane_every is {self.plane_every!r}; accepted: {accepted}")
        for name, every in zip(names, self.plane_every):
            try:
                setattr(desc, name, checked(name, every, operator.index, "", lambda number: 1 <= number <= 100_000))
            except (TypeError, ValueError) as error:
                raise type(error)(f"plane_every is {self.plane_every!r}; accepted: {accepted}") from None
        if self.mute_direct:
            desc.flags |= _abi.SCHED_FD_SHOT_MUTE_DIRECT
        if self.exact_time:
            desc.flags |= _abi.SCHED_FD_SHOT_EXACT_TIME
        if self.anisotropic_source:
            desc.flags |= _abi.SCHED_FD_SHOT_ANISOTROPIC_SOURCE
        if self.wavelet_samples is not None:
            samples = floats("wavelet_samples", self.wavelet_samples)
            if samples.ndim != 1:
                raise ValueError(f"wavelet_samples has {samples.ndim} dimensions; accepted: 1")
            desc.wavelet_samples, desc.wavelet_len = pointer(samples), samples.size
            kept.append(samples)
        if self.receivers is not None:
            receivers = cells(self.receivers)
            desc.receivers, desc.receiver_count = pointer(receivers, _abi.sched_fd_cell_t), len(receivers)
            kept.append(receivers)
        return desc, kept
