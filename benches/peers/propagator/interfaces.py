"""Compares the errors of reflections in this library and in Deepwave with a finer grid, in one run.

    benches/peers/propagator/run --rounds 0 --peers gpusched,deepwave     # installs, and builds the library
    LD_LIBRARY_PATH=target/peers/stand-ins PYTHONPATH=bindings/python GPUSCHED_LIBRARY=target/release/libgpusched.so \
        target/peers/python/bin/python benches/peers/propagator/interfaces.py

A model of 40 cubed cells: water, a wavy sea floor, dipping layers, a body of salt, and a box of
random cells. Densities go up and down from layer to layer. Both programs compute a shot in it and
in water alone; the difference is what the model reflects. The truth is the same with a third of the
spacing and of the time step, by this library. All layers have 20 cells, of which the finer ones are
thinner, so the absorbing layers are a part of the differences. Exits with 1 if reflections differ by
more than docs/numerics.md accepts, or if those of this library are farther from the truth than
Deepwave's.
"""

import sys
from collections.abc import Callable
from itertools import combinations

import deepwave
import gpusched
import numpy as np
import torch

N, SPACING_M, DT_S, NT, FREQUENCY_HZ = 40, 10.0, 9e-4, 330, 17.0
FINER = 3
SOURCE = (14, 20, 5)
RECEIVERS = [(x, y, 6) for x in range(1, N, 3) for y in (10, 20, 29)]
Medium = tuple[np.ndarray, np.ndarray]
# Largest accepted differences of reflections.
ACCEPTED = {
    ("gpusched", "Deepwave"): 0.025, ("gpusched", "the truth"): 0.06, ("Deepwave", "the truth"): 0.08,
}


def rocks() -> Medium:
    """Returns vp and rho, [ix][iy][iz]."""
    x, y, z = np.meshgrid(*[np.arange(N)] * 3, indexing="ij")
    vp, rho = np.full((N, N, N), 1500.0), np.full((N, N, N), 1000.0)
    for cells, vp_m_s, rho_kg_m3 in [
        (z >= 14 + 2 * np.sin(x / 9.0) * np.cos(y / 12.0), 2000.0, 1900.0),
        (z >= 21 + 0.15 * x - 0.1 * y, 2600.0, 1400.0),
        (z >= 33 - 0.1 * x, 3200.0, 2400.0),
        ((x - 27) ** 2 + (y - 22) ** 2 + 1.5 * (z - 27) ** 2 < 7**2, 4400.0, 2200.0),
    ]:
        vp[cells], rho[cells] = vp_m_s, rho_kg_m3
    random, box = np.random.default_rng(1), (slice(6, 14), slice(16, 24), slice(24, 32))
    vp[box], rho[box] = random.uniform(1800, 3200, (8, 8, 8)), random.uniform(1000, 2400, (8, 8, 8))
    return vp, rho


def water() -> Medium:
    vp, rho = np.full((N, N, N), 1500.0), np.full((N, N, N), 1000.0)
    # Layers depend on the highest velocity.
    vp[-1, -1, -1] = rocks()[0].max()
    return vp, rho


def refined(values: np.ndarray, finer: int) -> np.ndarray:
    for axis in range(3):
        values = values.repeat(finer, axis)
    return values


def wavelet(times: np.ndarray) -> np.ndarray:
    a = (np.pi * FREQUENCY_HZ * (times - 1.5 / FREQUENCY_HZ)) ** 2
    return (1 - 2 * a) * np.exp(-a)


def middle(cell: tuple[int, int, int], finer: int) -> tuple[int, ...]:
    return tuple(finer * i + finer // 2 for i in cell)


def ours(medium: Medium, finer: int) -> np.ndarray:
    """Returns the pressure at the times DT_S, 2 DT_S, ..."""
    vp, rho = (refined(values, finer).transpose(1, 0, 2) for values in medium)
    nt, dt_s = NT * finer, DT_S / finer
    # A sample of the wavelet is the rate in the middle of a step.
    shot = gpusched.Shot(
        nt=nt, dt_s=dt_s, source=middle(SOURCE, finer), wavelet_samples=wavelet((np.arange(nt) + 0.5) * dt_s),
        receivers=[middle(cell, finer) for cell in RECEIVERS], source_kind="monopole",
    )
    with gpusched.Scheduler(devices="cpu") as scheduler:
        record = scheduler.submit_shot(gpusched.Model(vp, SPACING_M / finer, rho=rho), shot).result().record
    return record[:, finer - 1 :: finer][:, : NT - 1]


def theirs(medium: Medium, finer: int) -> np.ndarray:
    """Returns the same record from Deepwave, whose source rate is per cubic metre and whose
    first sample is at time 0."""
    vp, rho = (torch.from_numpy(refined(values, finer)).float() for values in medium)
    nt, dt_s = NT * finer, DT_S / finer
    with torch.no_grad():
        record = deepwave.acoustic(
            vp, rho, SPACING_M / finer, dt_s, accuracy=8, pml_width=20, pml_freq=FREQUENCY_HZ, max_vel=float(vp.max()),
            source_amplitudes_volume_rate=torch.from_numpy(wavelet((np.arange(nt) + 1) * dt_s)).float()[None, None],
            source_locations_volume_rate=torch.tensor([[middle(SOURCE, finer)]]),
            receiver_locations_p=torch.tensor([[middle(cell, finer) for cell in RECEIVERS]]), check_output_finite=False,
        )[5]
    return record.numpy()[0, :, finer::finer] / (SPACING_M / finer) ** 3


def main() -> None:
    programs: dict[str, tuple[Callable[[Medium, int], np.ndarray], int]] = {
        "gpusched": (ours, 1), "Deepwave": (theirs, 1), "the truth": (ours, FINER),
    }
    found, reflections = {}, {}
    for name, (program, finer) in programs.items():
        record = program(rocks(), finer).astype(float)
        found[name] = {"the record": record, "reflections": record - program(water(), finer)}
    wrong = []
    for one, other in combinations(found, 2):
        for what in found[one]:
            a, b = found[one][what], found[other][what]
            off, alike = np.linalg.norm(a - b) / np.linalg.norm(b), (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
            print(f"{one} and {other}, {what}: differ by {off:.2%}, correlation {alike:.5f}")
        reflections[one, other] = off
        # Records of zeros give NaN, which is not at most anything.
        if not off <= ACCEPTED[one, other]:
            wrong.append(f"{one} and {other} differ by {off:.2%}; accepted: up to {ACCEPTED[one, other]:.1%}")
    if not reflections["gpusched", "the truth"] <= reflections["Deepwave", "the truth"]:
        wrong.append("gpusched is farther from the truth than Deepwave; accepted: at most as far")
    if wrong:
        sys.exit("\n".join(wrong))


main()
