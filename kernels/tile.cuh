// The tile of a block, its source and receivers, for every equation.
//
// An equation is a struct with
//
//   POINTS, APART   points of the source in a row of a pressure, and cells from one to the next
//   with_source     a pressure with a point of the source in it
//
// `Params` are the parameters of its step: `next` has the pressures after it. Arrays have rows of
// `pitch` values, a multiple of 32. Pointers are to index 0 of row 0, and index 4, the first that is
// updated, is aligned to 128 bytes. An array has fewer than 2^32 values: positions are `unsigned`,
// which takes half the registers and a third of the instructions of 64 bits.
#pragma once

#include "grid.cuh"

// Cells of a tile along z, and threads of a group, which have two of them each: half of a warp.
enum { Z = 32, LANES = Z / 2 };

// The tile of a block: rows from `x`, cells from `z`, planes from `y` to `end`.
struct Tile {
    int x, z, y, end;
    int kind;           // the axes along which PML velocities are stored, or some cells are not updated
    int keep, keep_end; // the velocities along y that it stores for the next step
    unsigned cells;     // that a step updates
};

// A number of 16 bits stands for low + step q.
struct Scale {
    float low, step;
};

// The points of the source, in one row.
struct Source {
    const float *clean; // the pressures there without the source: [pressure][point]
    float *next_clean;
    const float *value; // of the next step's source
    int x, y, z;        // of the first point
    int there;          // the source is in the pressures
    int put;            // and is put into the next
    int unused;
};

// Samples of a step: those of block i are first[i] to first[i + 1].
struct Receivers {
    const int *first;
    const unsigned *at;
    const int *trace;
    float *to; // null if none are taken
};
static_assert(sizeof(Tile) == 32 && sizeof(Source) == 48 && sizeof(Receivers) == 32, "layout of the parameters");

// A vertical dipole.
struct Dipole {
    enum { POINTS = 2, APART = 2 };
    static __device__ __forceinline__ float with_source(float p, int point, float value)
    {
        return p + (point ? value : -value);
    }
};

// A block has 4 warps, whose groups have two rows along x each. A thread computes FLUX fluxes along x, for seven rows more than
// the tile has, and fetches BESIDE pairs before and after the tile's rows.
enum { WARPS = 4, ROWS = 2, THREADS = 32 * WARPS, GROUPS = THREADS / LANES, X = GROUPS * ROWS, FLUX = 3, BESIDE = ROWS / 2 };
static_assert(GROUPS == 2 * HALF_WIDTH, "a group fetches a row before the tile or after it");
static_assert(GROUPS * FLUX >= X + 7 && 8 * X == BESIDE * THREADS && 4 * X <= THREADS, "");

// Returns the position of a cell in a field.
template <class Params> __device__ __forceinline__ unsigned position(const Params &k, int x, int y, int z)
{
    return y * k.plane + x * k.pitch + z;
}

// Returns two values, or zeros if they do not exist.
template <class Pair = float2> __device__ __forceinline__ Pair fetch(const void *from, unsigned at, bool there)
{
    return there ? __ldg(static_cast<const Pair *>(from) + at / 2) : Pair();
}

// The same for values that no other thread reads in a step: the caches evict them first.
template <class Pair = float2> __device__ __forceinline__ Pair fetch_once(const void *from, unsigned at, bool there)
{
    return there ? __ldcs(static_cast<const Pair *>(from) + at / 2) : Pair();
}

// Returns the first of two values from a place on that need not be even.
template <class Pair> __device__ __forceinline__ auto fetch_one(const void *from, unsigned at, bool there)
{
    return there ? __ldg(static_cast<const decltype(Pair::x) *>(from) + at) : decltype(Pair::x)();
}

// Returns the value of a coefficient.
__device__ __forceinline__ float value(const Scale &, float stored)
{
    return stored;
}

__device__ __forceinline__ float value(const Scale &scale, unsigned short stored)
{
    return fmaf(float(stored), scale.step, scale.low);
}

// Returns the values of two coefficients.
__device__ __forceinline__ float2 values(const Scale &, float2 stored)
{
    return stored;
}

__device__ __forceinline__ float2 values(const Scale &scale, ushort2 stored)
{
    return make_float2(value(scale, stored.x), value(scale, stored.y));
}

__device__ __forceinline__ float2 &pair(float &first)
{
    return reinterpret_cast<float2 &>(first);
}

// Takes the samples of the receivers in a tile, once its pressures are written.
template <class Equation, class Params>
__device__ __forceinline__ void take(const Params &k, const Source &source, const Receivers &receivers)
{
    if (receivers.to == nullptr)
        return;
    const int end = receivers.first[blockIdx.x + 1];
    int i = receivers.first[blockIdx.x];
    if (i == end)
        return;
    __syncthreads();
    const unsigned point = position(k, source.x, source.y, source.z);
    for (i += 32 * threadIdx.y + threadIdx.x; i < end; i += THREADS) {
        const unsigned at = receivers.at[i];
        const bool hidden = source.put && (at == point || at == point + Equation::APART);
        receivers.to[receivers.trace[i]] = hidden ? source.next_clean[at != point] : k.next[0][at];
    }
}

// Puts a point of the source into a pressure that a step has left without it.
template <class Equation, class Params>
__device__ __forceinline__ void put_source(const Params &k, const Source &source, int number)
{
    const int point = number % Equation::POINTS, pressure = number / Equation::POINTS;
    float *p = k.next[pressure] + position(k, source.x, source.y, source.z + Equation::APART * point);
    source.next_clean[number] = *p;
    *p = Equation::with_source(*p, point, *source.value);
}

// The kernel that puts the source into all pressures: two threads.
#define SOURCE(name, Equation, Params)                                                                                 \
    extern "C" __global__ void name(const Params k, const Source source)                                              \
    {                                                                                                                  \
        put_source<Equation>(k, source, threadIdx.x);                                                                  \
    }
