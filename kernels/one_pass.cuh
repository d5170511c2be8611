// The step of equations with a split absorbing layer in one launch. `src/fd/one_pass/pass.rs` has the
// mathematics and the order of operations, which is the same here, so records agree bit for bit.
//
// An equation is a struct with the members that tile.cuh names, of 2 / PRESSURES points, and
//
//   PRESSURES   1 or 2. Fluxes along x and y are those of the first, along z those of the last
//   advance     the pressures after a step
//
// A table names the tile of a block: 32 cells along z by some rows along x, through which the block
// marches along y. A thread has two neighbours along z in one row or more. The longer tiles are along z, the
// more of them reach into a layer, where each cell costs twice as much. It keeps eight planes of
// the first pressure and of the fluxes along y of its own columns in registers. The current plane
// is in shared memory with the cells around it, and so are the fluxes along x and z. Two tiles that
// need the same flux both compute it, so blocks are independent: a launch reads one set of
// pressures and PML velocities and writes another.
//
// Most tiles lie in the middle of all axes, where no PML velocity is stored and no index is
// beyond the grid: their march has no branch. The template parameter KIND of the march selects the
// other cases for a whole block; all threads of a block reach the same barriers.
//
// Fields are zero in the four outermost layers, which no kernel writes. Compiled with --fmad=false:
// only `fmaf` is fused.
#pragma once

#include "activity.cuh"
#include "layer.cuh"
#include "tile.cuh"

// Coefficients: 1/rho, or rho/2 if `beside` is not negative. E and S are those of an equation with two pressures.
enum { B, KAPPA, E, S };

struct OnePass {
    const float *p[2];             // the pressures with the source of this step in them
    float *next[2];                // after it
    float *d[2];                   // undamped increments
    const float *velocity_old[3];  // PML velocities before the step: [iy][slot][z], [slot][ix][z], [iy][ix][slot]
    float *velocity_new[3];        // after the step
    float *split[3];               // split pressures in the layers of x, y, z: [iy][layer][z], [layer][ix][z], [iy][ix][layer]
    const void *coefficients[4];   // float32, or numbers of 16 bits
    Axis axis[3];
    Zone zone[3];
    const Tile *tiles;
    unsigned steps[4][2]; // of the coefficients, from column to column along x and y
    unsigned pitch, plane;
    unsigned slots[2]; // of PML velocities: rows of a plane along x, values of a row along z
    int pml;
    int beside; // cells to the second of the two densities of a half point: 1 or 0; -1 if the density is constant
    float stencil[4]; // of the derivative
    Scale scales[4];
    Cube cube;
    Activity activity;
};

static_assert(sizeof(OnePass) == 528, "layout of the parameters");

// PML velocities at the places of the fluxes.
struct Velocity {
    float x[X + 7][Z], z[X][Z + 8];
};

// A plane of the pressures: `p`, which has the fluxes along x, from seven rows before the tile on;
// and the one that has the fluxes along z from eight cells before the tile on.
template <int PRESSURES> struct Pressures {
    enum { MARGIN = 8 };
    float p[X + 14][Z + 2 * MARGIN];
    __device__ __forceinline__ float *along_z(int row) { return p[row + 7]; }
};
template <> struct Pressures<2> {
    enum { MARGIN = 0 };
    float p[X + 14][Z];
    float q[X][Z + 16];
    __device__ __forceinline__ float *along_z(int row) { return q[row]; }
};

// The data of the current plane that the threads of a block share.
template <class Equation> struct __align__(16) Plane : Pressures<Equation::PRESSURES> {
    float flux_x[X + 7][Z]; // from four rows before the tile on: 1/rho times the derivative
    float flux_z[X][Z + 8]; // from four cells before it on
    Velocity velocity;
};

#include "one_pass_cells.cuh"
#include "one_pass_march.cuh"

// Returns true if the march of a tile has to look for the source, or for a cell of the cube.
template <class Equation>
__device__ __forceinline__ bool is_near_source(const OnePass &k, const Tile &tile, const Source &source)
{
    const auto meets = [&](const int (&begin)[3], const int (&size)[3]) {
        return begin[0] < tile.x + X && begin[0] + size[0] > tile.x && begin[1] < tile.end &&
               begin[1] + size[1] > tile.y && begin[2] < tile.z + Z && begin[2] + size[2] > tile.z;
    };
    const int begin[3] = {source.x, source.y, source.z}, size[3] = {1, 1, Equation::APART + 1};
    return ((source.there || source.put) && meets(begin, size)) ||
           (Equation::PRESSURES == 2 && meets(k.cube.begin, k.cube.size));
}

// `Pair` is two neighbours of the coefficients.
template <class Equation, class Pair>
__device__ __forceinline__ void step(const OnePass &k, const Source &source, const Receivers &receivers,
                                     Plane<Equation> &plane)
{
    const Tile tile = k.tiles[blockIdx.x];
    if (!is_at_rest(k.activity, tile)) {
        unsigned seen;
        // The march through the middle has no source.
        const int kind = is_near_source<Equation>(k, tile, source) ? tile.kind | X_PML | Z_PML : tile.kind;
        switch (kind) {
        case 0: seen = march<Equation, Pair, 0>(k, tile, source, plane); break;
        case X_PML: seen = march<Equation, Pair, X_PML>(k, tile, source, plane); break;
        case Y_PML: seen = march<Equation, Pair, Y_PML>(k, tile, source, plane); break;
        case Z_PML: seen = march<Equation, Pair, Z_PML>(k, tile, source, plane); break;
        case X_PML | Z_PML: seen = march<Equation, Pair, X_PML | Z_PML>(k, tile, source, plane); break;
        case Y_PML | Z_PML: seen = march<Equation, Pair, Y_PML | Z_PML>(k, tile, source, plane); break;
        default: seen = march<Equation, Pair, X_PML | Y_PML | Z_PML>(k, tile, source, plane);
        }
        // Loaded again: the march has no registers for it.
        mark(k.activity, k.tiles[blockIdx.x], seen);
    } else {
        count_skipped(k.activity, tile);
    }
    take<Equation>(k, source, receivers);
}

// A kernel, of which `blocks` blocks are to be on a multiprocessor at once.
#define ONE_PASS(name, Equation, Pair, blocks)                                                                         \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)                                                      \
        name(const OnePass k, const Source source, const Receivers receivers)                                         \
    {                                                                                                                  \
        __shared__ Plane<Equation> plane;                                                                              \
        step<Equation, Pair>(k, source, receivers, plane);                                                             \
    }
