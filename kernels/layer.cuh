// The zones of a split absorbing layer, and a shot's own medium around its source. `K` is a kernel's parameters.
#pragma once

#include "grid.cuh"

// Kinds of tiles.
enum { X_PML = 1, Y_PML = 2, Z_PML = 4 };

// Where velocities of an axis are eliminated, and where PML velocities are stored: before
// `near_end`, and from `far_begin` on.
struct Zone {
    int middle, middle_end;
    int near_end, far_begin;
};

// A shot's own E and S in the cells around its source.
struct Cube {
    const float *values; // E, then S: [iy][ix][iz]
    int begin[3], size[3]; // 0 if the shot has none
};
static_assert(sizeof(Zone) == 16 && sizeof(Cube) == 32, "layout of the parameters");

// Returns the slot of a PML velocity of an axis; negative if none is stored.
template <class K> __device__ __forceinline__ int slot(const K &k, int axis, int index)
{
    const Zone &zone = k.zone[axis];
    if (index < HALF_WIDTH || index >= k.axis[axis].n - HALF_WIDTH)
        return -1;
    return index < zone.near_end     ? index - HALF_WIDTH
           : index >= zone.far_begin ? zone.near_end - HALF_WIDTH + index - zone.far_begin
                                     : -1;
}

template <class K> __device__ __forceinline__ bool in_middle(const K &k, int axis, int index)
{
    return index >= k.zone[axis].middle && index < k.zone[axis].middle_end;
}

// Replaces E and S in a cell of a shot's cube.
__device__ __forceinline__ void adapt(const Cube &cube, int x, int y, int z, float (&mixing)[2])
{
    const unsigned ix = x - cube.begin[0], iy = y - cube.begin[1], iz = z - cube.begin[2];
    const unsigned nx = cube.size[0], ny = cube.size[1], nz = cube.size[2];
    if (ix >= nx || iy >= ny || iz >= nz)
        return;
    const unsigned at = (iy * nx + ix) * nz + iz;
    mixing[0] = __ldg(cube.values + at), mixing[1] = __ldg(cube.values + ny * nx * nz + at);
}
