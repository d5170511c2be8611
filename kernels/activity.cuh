// The parts of the grid that the wave has reached, so that blocks skip tiles at rest.
// `src/fd/march/activity.rs` has the reasons and the layout.
#pragma once

#include "tile.cuh"

// Cells of a part along x, y and z, the first of which is the first that is updated.
enum { PART_X = 16, PART_Y = 16, PART_Z = 32 };
// Cells around a pressure that a step may change, at most.
enum { ACTIVE_MARGIN = 2 * HALF_WIDTH };

// Each part has 1 if one of its pressures has been other than zero, or 0: [iy][ix][iz].
struct Activity {
    const float *before; // the step
    float *after;
    unsigned long long *skipped; // cells of the tiles that the steps of a shot have skipped
    int n[3];                    // parts along x, y and z
    int unused;
};
static_assert(sizeof(Activity) == 40, "layout of the parameters");

// Parts along x, y and z.
struct Parts {
    unsigned begin[3], end[3];
};

// Returns the parts of a tile and of the cells around it.
__device__ __forceinline__ Parts parts_of(const Activity &activity, const Tile &tile, int margin)
{
    const int begin[3] = {tile.x, tile.y, tile.z}, end[3] = {tile.x + X, tile.end, tile.z + Z};
    const unsigned size[3] = {PART_X, PART_Y, PART_Z};
    Parts parts;
#pragma unroll
    for (int axis = 0; axis < 3; axis++) {
        const unsigned first = max(begin[axis] - HALF_WIDTH - margin, 0);
        const unsigned last = end[axis] - HALF_WIDTH + margin - 1;
        parts.begin[axis] = first / size[axis];
        parts.end[axis] = min(int(last / size[axis]) + 1, activity.n[axis]);
    }
    return parts;
}

// Returns true if the wave has reached one of the parts.
__device__ __forceinline__ bool is_reached(const Activity &activity, const Parts &parts)
{
#pragma unroll 1
    for (unsigned y = parts.begin[1]; y < parts.end[1]; y++)
#pragma unroll 1
        for (unsigned x = parts.begin[0]; x < parts.end[0]; x++)
#pragma unroll 1
            for (unsigned z = parts.begin[2]; z < parts.end[2]; z++)
                if (__float_as_uint(__ldg(activity.before + (y * activity.n[0] + x) * activity.n[2] + z)) != 0)
                    return true;
    return false;
}

// Returns true if a step leaves the zeros of a tile as they are. All threads of a block return the same.
__device__ __forceinline__ bool is_at_rest(const Activity &activity, const Tile &tile)
{
    return !is_reached(activity, parts_of(activity, tile, 0)) &&
           !is_reached(activity, parts_of(activity, tile, ACTIVE_MARGIN));
}

// Counts the cells of a tile that a step skips. Of a step's launches only the one that writes the pressures counts.
__device__ __forceinline__ void count_skipped(const Activity &activity, const Tile &tile)
{
    if (threadIdx.x == 0 && threadIdx.y == 0)
        atomicAdd(activity.skipped, (unsigned long long)tile.cells);
}

// Marks the parts of a tile for the next step. `seen`: the bits of the pressures that a thread has computed.
__device__ __forceinline__ void mark(const Activity &activity, const Tile &tile, unsigned seen)
{
    const Parts parts = parts_of(activity, tile, 0);
    if (seen == 0 && !is_reached(activity, parts))
        return;
#pragma unroll 1
    for (unsigned y = parts.begin[1]; y < parts.end[1]; y++)
#pragma unroll 1
        for (unsigned x = parts.begin[0]; x < parts.end[0]; x++)
#pragma unroll 1
            for (unsigned z = parts.begin[2]; z < parts.end[2]; z++)
                activity.after[(y * activity.n[0] + x) * activity.n[2] + z] = 1.0f;
}
