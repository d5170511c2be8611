// The acoustic equation of first order on a GPU: src/fd/equation/acoustic1 has the mathematics, the order
// of operations and the layout; every number here is computed from the same numbers in the same order as
// there, so records agree bit for bit. A step is
//
//   velocity    u, v, w from p             reads p u v w b     writes u v w    32 bytes a cell
//   source      a dipole into u, v, w, on the steps that have one
//   pressure    p from u, v, w             reads u v w p kappa writes p        24 bytes a cell
//   record      p at the receivers into a row of a small buffer, on the steps that keep one
//
// with `snapshot` and `peak` now and then. Launches follow each other on one stream; within a launch no
// thread reads what another writes, so there are neither barriers nor shared memory, and results do not
// depend on how threads are scheduled.
//
// Both sweeps have a thread for each cell of a plane (z, x), 32 cells along z by 8 rows, that marches along
// y over `planes` planes. The taps along y stay in registers, those along x and z come from the first-level
// cache. What a step needs from neighbouring threads was loaded by their warps not long before.
//
// Assumed of the arrays: rows of `pitch` values, a multiple of 32; pointers are to index 0 of row 0, placed so
// that index 4, the first that is updated, is aligned to 128 bytes; fields are zero in the four
// outermost layers, which no kernel writes.
//
// Compiled with --fmad=false: only `fmaf` is fused.

#include "acoustic1.cuh"

enum { TILE_Z = 32, TILE_X = 8 };

struct Acoustic1 {
    float *p;
    float *velocity[3];
    float *part[3]; // of the pressure, in the layers of x, y, z: [iy][layer][z], [layer][ix][z], [iy][ix][layer]
    const float *b, *kappa;               // rows of the user's columns
    long long b_step[2], kappa_step[2];   // values from column to column along x and y; 0 where all are the same
    long long pitch, plane;               // values from row to row along x, and along y
    Axis axis[3];                         // x, y, z
    int pml;
    int planes; // along y that a block marches over
    float stencil[4]; // of the derivative
};

// src/fd/equation/acoustic1/kernel.rs says the same.
static_assert(sizeof(Axis) == 48 && sizeof(Acoustic1) == 288, "layout of the parameters");

// The two poles of the dipole add to a cell one after the other.
struct Term {
    long long at;
    float factor[2];
    int axis;
    int count; // of factors
};
static_assert(sizeof(Term) == 24, "layout of a source term");

// Position of a cell in a field.
__device__ __forceinline__ long long position(const Acoustic1 &k, int x, int y, int z)
{
    return y * k.plane + x * k.pitch + z;
}

__device__ __forceinline__ float slope(const Acoustic1 &k, const float *first, long long stride)
{
    float f[8];
#pragma unroll
    for (int m = 0; m < 8; m++)
        f[m] = __ldg(first + m * stride);
    return slope(k, f);
}

__device__ __forceinline__ void advance(float (&f)[8], float next)
{
#pragma unroll
    for (int m = 0; m < 7; m++)
        f[m] = f[m + 1];
    f[7] = next;
}

__device__ __forceinline__ float moved(float u, float rate, float b, float slope, float keep)
{
    return fmaf(-(rate * b), slope, keep * u);
}

// The pressure after the change that a layer makes of the slope, kept in `part` too.
__device__ __forceinline__ float damped(float p, float *part, float kappa, float slope, float loss, float rate)
{
    const float old = *part;
    const float change = fmaf(loss, old, -((kappa * rate) * slope));
    *part = old + change;
    return p + change;
}

extern "C" __global__ void __launch_bounds__(TILE_Z * TILE_X) acoustic1_velocity(const Acoustic1 k)
{
    const int z = REACH + blockIdx.x * TILE_Z + threadIdx.x;
    const int x = REACH + blockIdx.y * TILE_X + threadIdx.y;
    const int begin = REACH + blockIdx.z * k.planes;
    const int end = min(begin + k.planes, k.axis[1].n - REACH);
    if (z >= k.axis[2].n - REACH || x >= k.axis[0].n - REACH)
        return;

    const float keep_x = __ldg(k.axis[0].keep + x), rate_x = __ldg(k.axis[0].velocity_rate + x);
    const float keep_z = __ldg(k.axis[2].keep + z), rate_z = __ldg(k.axis[2].velocity_rate + z);
    const float *column = k.b + nearest(k, 0, x) * k.b_step[0] + z;

    long long at = position(k, x, begin, z);
    float along_y[8];
#pragma unroll
    for (int m = 0; m < 8; m++)
        along_y[m] = __ldg(k.p + at + (m - 3) * k.plane);
    float b = __ldg(column + nearest(k, 1, begin) * k.b_step[1]);
    float u = k.velocity[0][at], v = k.velocity[1][at], w = k.velocity[2][at];
#pragma unroll 1
    for (int y = begin; y < end; y++) {
        // What only the next plane needs comes while this one is computed; after the last, it is read once more.
        const int next_y = min(y + 1, end - 1);
        const long long next = position(k, x, next_y, z);
        const float next_p = __ldg(k.p + next + 4 * k.plane);
        const float next_b = __ldg(column + nearest(k, 1, next_y) * k.b_step[1]);
        const float next_u = k.velocity[0][next], next_v = k.velocity[1][next], next_w = k.velocity[2][next];

        const float keep_y = __ldg(k.axis[1].keep + y), rate_y = __ldg(k.axis[1].velocity_rate + y);
        const float slope_x = slope(k, k.p + at - 3 * k.pitch, k.pitch);
        const float slope_z = slope(k, k.p + at - 3, 1);
        k.velocity[0][at] = moved(u, rate_x, b, slope_x, keep_x);
        k.velocity[1][at] = moved(v, rate_y, b, slope(k, along_y), keep_y);
        k.velocity[2][at] = moved(w, rate_z, b, slope_z, keep_z);

        advance(along_y, next_p);
        at = next, b = next_b, u = next_u, v = next_v, w = next_w;
    }
}

extern "C" __global__ void __launch_bounds__(TILE_Z * TILE_X) acoustic1_pressure(const Acoustic1 k)
{
    const int z = REACH + blockIdx.x * TILE_Z + threadIdx.x;
    const int x = REACH + blockIdx.y * TILE_X + threadIdx.y;
    const int begin = REACH + blockIdx.z * k.planes;
    const int end = min(begin + k.planes, k.axis[1].n - REACH);
    if (z >= k.axis[2].n - REACH || x >= k.axis[0].n - REACH)
        return;

    const int both = 2 * (k.pml - REACH);
    const int layer_x = in_layer(k, 0, x), layer_z = in_layer(k, 2, z);
    const float *column = k.kappa + nearest(k, 0, x) * k.kappa_step[0] + z;

    long long at = position(k, x, begin, z);
    float along_y[8];
#pragma unroll
    for (int m = 0; m < 8; m++)
        along_y[m] = __ldg(k.velocity[1] + at + (m - 4) * k.plane);
    float kappa = __ldg(column + nearest(k, 1, begin) * k.kappa_step[1]);
    float p = k.p[at];
#pragma unroll 1
    for (int y = begin; y < end; y++) {
        const int next_y = min(y + 1, end - 1);
        const long long next = position(k, x, next_y, z);
        const float next_v = __ldg(k.velocity[1] + next + 3 * k.plane);
        const float next_kappa = __ldg(column + nearest(k, 1, next_y) * k.kappa_step[1]);
        const float next_p = k.p[next];

        const float slope_x = slope(k, k.velocity[0] + at - 4 * k.pitch, k.pitch);
        const float slope_y = slope(k, along_y);
        const float slope_z = slope(k, k.velocity[2] + at - 4, 1);
        if (layer_x < 0) {
            p = fmaf(-(kappa * k.axis[0].rate), slope_x, p);
        } else {
            float *part = k.part[0] + ((long long)y * both + layer_x) * k.pitch + z;
            p = damped(p, part, kappa, slope_x, __ldg(k.axis[0].loss + x), __ldg(k.axis[0].pressure_rate + x));
        }
        const int layer_y = in_layer(k, 1, y);
        if (layer_y < 0) {
            p = fmaf(-(kappa * k.axis[1].rate), slope_y, p);
        } else {
            float *part = k.part[1] + layer_y * k.plane + x * k.pitch + z;
            p = damped(p, part, kappa, slope_y, __ldg(k.axis[1].loss + y), __ldg(k.axis[1].pressure_rate + y));
        }
        if (layer_z < 0) {
            p = fmaf(-(kappa * k.axis[2].rate), slope_z, p);
        } else {
            float *part = k.part[2] + ((long long)y * k.axis[0].n + x) * both + layer_z;
            p = damped(p, part, kappa, slope_z, __ldg(k.axis[2].loss + z), __ldg(k.axis[2].pressure_rate + z));
        }
        k.p[at] = p;

        advance(along_y, next_v);
        at = next, kappa = next_kappa, p = next_p;
    }
}

// One thread a term; no two terms have the same cell.
extern "C" __global__ void acoustic1_source(const Acoustic1 k, const Term *terms, int count, const float *amplitude)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    const Term term = terms[i];
    const float value = __ldg(amplitude);
    float *cell = (term.axis == 0 ? k.velocity[0] : term.axis == 1 ? k.velocity[1] : k.velocity[2]) + term.at;
    float sum = *cell + term.factor[0] * value;
    if (term.count > 1)
        sum = sum + term.factor[1] * value;
    *cell = sum;
}

// One thread a trace; `receivers` are positions in a field, `to` is a row of the buffer.
extern "C" __global__ void acoustic1_record(const Acoustic1 k, const long long *receivers, int count, float *to)
{
    const int trace = blockIdx.x * blockDim.x + threadIdx.x;
    if (trace < count)
        to[trace] = k.p[receivers[trace]];
}

// The user's cells, [iy][ix][iz]. A block takes every gridDim.z-th plane.
extern "C" __global__ void acoustic1_snapshot(const Acoustic1 k, float *to)
{
    const int nx = k.axis[0].inner, ny = k.axis[1].inner, nz = k.axis[2].inner;
    const int z = blockIdx.x * TILE_Z + threadIdx.x;
    const int x = blockIdx.y * TILE_X + threadIdx.y;
    if (z >= nz || x >= nx)
        return;
    for (int y = blockIdx.z; y < ny; y += gridDim.z)
        to[((long long)y * nx + x) * nz + z] = k.p[position(k, x + k.pml, y + k.pml, z + k.pml)];
}

// Raises `largest` to the magnitude of the largest pressure, as the bits of a float32 without its sign: these
// order as the numbers do, with infinity and then NaN on top. The host sets it to zero before.
extern "C" __global__ void acoustic1_peak(const Acoustic1 k, unsigned int *largest)
{
    const int z = blockIdx.x * TILE_Z + threadIdx.x;
    const int x = blockIdx.y * TILE_X + threadIdx.y;
    if (z >= k.axis[2].n || x >= k.axis[0].n)
        return;
    unsigned int most = 0;
    for (int y = blockIdx.z; y < k.axis[1].n; y += gridDim.z)
        most = max(most, __float_as_uint(k.p[position(k, x, y, z)]) & 0x7fffffffu);
    // An old value is good enough to spare most of the atomics.
    if (most > *(volatile unsigned int *)largest)
        atomicMax(largest, most);
}
