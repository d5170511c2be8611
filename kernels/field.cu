// Kernels for a field over the padded grid, whatever the equation.
//
// `src/fd/time_loop/field_kernels.rs` has the parameters and the sizes of launches.

enum { TILE_Z = 32, TILE_X = 8 };

// A field. Rows lie along z, `pitch` values apart along x and `plane` values apart along y.
struct Field {
    const float *first; // at index 0 of row 0
    long long pitch, plane;
    int padded[3], inner[3]; // cells along x, y, z: all of them, and the user's
    int pml;                 // cells of the absorbing layer on each side
    int unused;
};
static_assert(sizeof(Field) == 56, "layout of the parameters");

// Returns the value of a padded cell.
__device__ __forceinline__ float value(const Field &k, int x, int y, int z)
{
    return k.first[y * k.plane + x * k.pitch + z];
}

// Copies the user's cells to `to`, [iy][ix][iz]. A block takes every gridDim.z-th plane.
extern "C" __global__ void field_snapshot(const Field k, float *to)
{
    const int nx = k.inner[0], ny = k.inner[1], nz = k.inner[2];
    const int z = blockIdx.x * TILE_Z + threadIdx.x;
    const int x = blockIdx.y * TILE_X + threadIdx.y;
    if (z >= nz || x >= nx)
        return;
    for (int y = blockIdx.z; y < ny; y += gridDim.z)
        to[((long long)y * nx + x) * nz + z] = value(k, x + k.pml, y + k.pml, z + k.pml);
}

// Turns rows of samples into traces: from[row][trace] to to[trace][row]. A thread has one sample, threads along x a trace.
extern "C" __global__ void field_traces(const float *from, float *to, int traces)
{
    const int trace = blockIdx.x * blockDim.y + threadIdx.y;
    if (trace < traces)
        to[(long long)trace * blockDim.x + threadIdx.x] = __ldg(from + (long long)threadIdx.x * traces + trace);
}

// Raises `largest` to the magnitude of the largest value, as the bits of a float32 without its sign: these
// order as the numbers do, with infinity and then NaN on top. The host sets it to zero before.
extern "C" __global__ void field_peak(const Field k, unsigned int *largest)
{
    const int z = blockIdx.x * TILE_Z + threadIdx.x;
    const int x = blockIdx.y * TILE_X + threadIdx.y;
    if (z >= k.padded[2] || x >= k.padded[0])
        return;
    unsigned int most = 0;
    for (int y = blockIdx.z; y < k.padded[1]; y += gridDim.z)
        most = max(most, __float_as_uint(value(k, x, y, z)) & 0x7fffffffu);
    // A stale value suffices to skip most of the atomics.
    if (most > *(volatile unsigned int *)largest)
        atomicMax(largest, most);
}

// Adds a source to a field: one thread for each of its cells, which are different.
extern "C" __global__ void field_inject(float *to, const unsigned *places, const float *factors, const float *amplitude)
{
    const int i = threadIdx.x;
    to[places[i]] += factors[i] * *amplitude;
}
