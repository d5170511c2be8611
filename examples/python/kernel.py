"""Functions with a custom CUDA kernel, through CuPy: squares, each on the first free GPU."""

import sys

import gpusched

NOT_HERE = 77
TASKS, COUNT, THREADS = 8, 500, 128

try:
    import cupy
    import numpy as np
except ImportError as missing:
    print(f"left out: {missing.name} is not installed; for a driver of CUDA 12: pip install cupy-cuda12x numpy")
    sys.exit(NOT_HERE)

square = cupy.RawKernel(
    """
    extern "C" __global__ void square(float *values, int count)
    {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < count)
            values[i] *= values[i];
    }
    """,
    "square",
)


def sum_of_squares(first: int) -> float:
    # The GPU's context is current on this thread. The stream and the memory are valid until the
    # function returns, so `exec` owns them.
    exec = gpusched.current_exec()
    assert exec.stream is not None
    size = 4 * COUNT
    with cupy.cuda.Device(exec.ordinal), cupy.cuda.ExternalStream(exec.stream) as stream:
        memory = cupy.cuda.UnownedMemory(exec.memory(size), size, owner=exec, device_id=exec.ordinal)
        values = cupy.ndarray((COUNT,), dtype=np.float32, memptr=cupy.cuda.MemoryPointer(memory, 0))
        numbers = np.arange(first, first + COUNT, dtype=np.float32)
        values.set(numbers, stream=stream)
        square(((COUNT + THREADS - 1) // THREADS,), (THREADS,), (values, np.int32(COUNT)))
        squared = values.get(stream=stream)
        stream.synchronize()
        return float(squared.sum(dtype=np.float64))


try:
    scheduler = gpusched.Scheduler(devices="cuda")
except gpusched.GpuschedError as error:
    if error.name != "SCHED_E_NO_DEVICE":
        raise
    print(f"left out: {error}")
    sys.exit(NOT_HERE)

with scheduler:
    firsts = range(0, TASKS * COUNT, COUNT)
    total = sum(scheduler.map(sum_of_squares, firsts, grain=1, label="squares", device_bytes=4 * COUNT))

print(f"sum of squares: {total:.0f}")
if total != 21325334000.0:
    sys.exit("not the sum of squares")
