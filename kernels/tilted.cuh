// Parts of the marches of both forms of the tilted equation: the place of a thread, the source. `K` is a kernel's parameters.
#pragma once

#include "layer.cuh"
#include "tile.cuh"

// The source is one point in both pressures.
struct Tti {
    enum { POINTS = 1, APART = 0 };
    static __device__ __forceinline__ float with_source(float p, int, float value)
    {
        return p + value;
    }
};

// The place of a thread in its block's tile.
template <bool PLAIN> struct Place {
    int first_row, cell, x, z; // of its first row and cell, in the tile and in the grid
    int nx, nz;
    bool in_row;
    // The rows before and after the tile, one a group; and four cells before and after its rows.
    int side_row, side_x, end_row, end_x, end_cell, end_z;
    bool has_end, end_there;

    template <class K> __device__ __forceinline__ Place(const K &k, const Tile &tile)
    {
        const int thread = 32 * threadIdx.y + threadIdx.x, group = thread / LANES;
        first_row = ROWS * group, cell = 2 * (thread % LANES);
        x = tile.x + first_row, z = tile.z + cell;
        nx = k.axis[0].n, nz = k.axis[2].n;
        in_row = z < int(k.pitch);
        side_row = group < HALF_WIDTH ? group : group + X, side_x = tile.x - HALF_WIDTH + side_row;
        end_row = thread / 4, end_x = tile.x + end_row;
        end_cell = 2 * (thread % 4) + (thread % 4 < 2 ? 0 : Z), end_z = tile.z - HALF_WIDTH + end_cell;
        has_end = thread < 4 * X;
        end_there = has_end && (PLAIN || (end_x < nx && end_z < int(k.pitch)));
    }

    __device__ __forceinline__ bool there(int row) const { return PLAIN || (in_row && row < nx); }

    // Returns true if a step changes the first of the two cells in a row.
    __device__ __forceinline__ bool updates(int row) const
    {
        return PLAIN || (row < nx - HALF_WIDTH && z < nz - HALF_WIDTH);
    }

    // Writes both cells, or the first if the row ends between them.
    __device__ __forceinline__ void write(float *to, unsigned at, const float (&values)[2]) const
    {
        if (PLAIN || z + 1 < nz - HALF_WIDTH)
            __stcs(&pair(to[at]), make_float2(values[0], values[1]));
        else
            to[at] = values[0];
    }
};

// Moves the planes of two cells on by one.
template <int PLANES> __device__ __forceinline__ void enter(float (&queue)[2][PLANES], float2 coming)
{
#pragma unroll
    for (int m = 0; m < PLANES - 1; m++)
        queue[0][m] = queue[0][m + 1], queue[1][m] = queue[1][m + 1];
    queue[0][PLANES - 1] = coming.x, queue[1][PLANES - 1] = coming.y;
}

// Returns true if a tile has cells with the shot's own E and S, which are around the source.
__device__ __forceinline__ bool has_cube(const Cube &cube, const Tile &tile)
{
    return cube.begin[0] < tile.x + X && cube.begin[0] + cube.size[0] > tile.x &&
           cube.begin[1] < tile.end && cube.begin[1] + cube.size[1] > tile.y && cube.begin[2] < tile.z + Z &&
           cube.begin[2] + cube.size[2] > tile.z;
}

// Returns true if a tile has the cell of the source.
__device__ __forceinline__ bool has_source(const Source &source, const Tile &tile)
{
    return source.x >= tile.x && source.x < tile.x + X && source.y >= tile.y && source.y < tile.end &&
           source.z >= tile.z && source.z < tile.z + Z;
}
