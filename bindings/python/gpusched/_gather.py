"""Results of shots: their sizes, their arrays and their axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def axis(count: int, step: float, first: float = 0.0) -> NDArray[np.float64]:
    return np.asarray(first + step * np.arange(count), dtype=np.float64)


@dataclass(frozen=True)
class ShotSize:
    """Sizes of a shot's results, and the memory that it takes.

    Attributes
    ----------
    record_shape : tuple of int
        Shape of `Gather.record`: (ny, nx, nt) for a plane of receivers, (receivers, nt) for a list;
        nt samples.
    snapshots_shape : tuple of int or None
        Shape of `Gather.snapshots`; None: no snapshots.
    device_bytes : int
        Peak use of device memory.
    host_bytes : int
        Additional host memory, on any device.
    """

    record_shape: tuple[int, ...]
    snapshots_shape: tuple[int, ...] | None
    device_bytes: int
    host_bytes: int


@dataclass(frozen=True, eq=False, repr=False)
class Gather:
    """The results of a shot, with their axes.

    Positions are those of cells: cell 0 is at 0 m. Time 0 is that of the first sample of the
    wavelet.

    Attributes
    ----------
    record : ndarray of float32
        Pressure, samples last: shape (ny, nx, nt) for a plane of receivers, (receivers, nt) for a
        list. In Pa if the source has a unit, else in units of the wavelet's amplitude.
    time : ndarray of float64, shape (nt,)
        Times of the samples in seconds, the first after one time step.
    x, y : ndarray of float64
        Positions of the receivers in metres: of a plane with the shapes (nx,) and (ny,), of a list
        (receivers,).
    z : ndarray of float64
        Depths in metres: of a plane with the shape (), of a list (receivers,).
    snapshots : ndarray of float32, shape (snapshots, ny, nx, nz), or None
        Pressure in all cells of the model, in the unit of `record`; None if the shot has no
        snapshots.
    snapshot_time : ndarray of float64, shape (snapshots,)
        Times of the snapshots in seconds.
    """

    record: Floats
    time: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    z: NDArray[np.float64]
    snapshots: Floats | None
    snapshot_time: NDArray[np.float64]

    def __repr__(self) -> str:
        shots = "" if self.snapshots is None else f", snapshots {self.snapshots.shape}"
        return f"<gpusched.Gather: record {self.record.shape}, time {self.time[0]:g} to {self.time[-1]:g} s{shots}>"


def output(name: str, array: Floats | None, shape: tuple[int, ...]) -> Floats:
    """Returns the caller's array if a shot can write to it, or a new one."""
    if array is None:
        return np.zeros(shape, dtype=np.float32)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is {array!r}; accepted: a numpy array")
    flags = array.flags
    usable = flags.c_contiguous and flags.writeable and flags.aligned
    if array.shape != shape or array.dtype != np.float32 or not usable:
        raise ValueError(
            f"{name} has the shape {array.shape}, dtype {array.dtype} and strides {array.strides}; "
            f"accepted: {shape}, float32, C-contiguous and writeable"
        )
    return array
