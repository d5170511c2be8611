// The step of equations with a split absorbing layer in one launch. `src/fd/one_pass/pass.rs` has the
// mathematics and the order of operations, which is the same here, so records agree bit for bit.
//
// An equation is a struct with
//
//   PRESSURES       1 or 2. Fluxes along x and y are those of the first, along z those of the last
//   POINTS, APART   points of the source in a row, 2 / PRESSURES of them, and cells from one to the next
//   with_source     a pressure with a point of the source in it
//   advance         the pressures after a step
//
// A table names the tile of a block: 64 cells along z by some rows along x, through which the block
// marches along y. A thread has two neighbours along z in one row or more. It keeps eight planes of
// the first pressure and of the fluxes along y of its own columns in registers. The current plane
// is in shared memory with the cells around it, and so are the fluxes along x and z. Two tiles that
// need the same flux both compute it, so blocks are independent: a launch reads one set of
// pressures and PML velocities and writes another.
//
// Most tiles lie in the middle of all axes, where no PML velocity is stored and no index is
// beyond the grid: their march has no branch. The template parameter KIND of the march selects the
// other cases for a whole block; all threads of a block reach the same barriers. Shapes for newer
// GPUs copy the data of later planes into shared memory in the march through the middle, so that
// more is on its way at a time.
//
// Arrays have rows of `pitch` values, a multiple of 32. Pointers are to index 0 of row 0, and index
// 4, the first that is updated, is aligned to 128 bytes. Fields are zero in the four outermost
// layers, which no kernel writes. An array has fewer than 2^32 values: positions are `unsigned`,
// which takes half the registers and a third of the instructions of 64 bits. Compiled with
// --fmad=false: only `fmaf` is fused.
#pragma once

#include "grid.cuh"
#include "copies.cuh"

// Cells of a tile along z, and kinds of tiles.
enum { Z = 64, X_PML = 1, Y_PML = 2, Z_PML = 4 };

// Coefficients. E and S are those of an equation with two pressures.
enum { B, KAPPA, E, S };

// Where velocities of an axis are eliminated, and where PML velocities are stored: before
// `near_end`, and from `far_begin` on.
struct Zone {
    int middle, middle_end;
    int near_end, far_begin;
};

// The tile of a block: rows from `x`, cells from `z`, planes from `y` to `end`.
struct Tile {
    int x, z, y, end;
    int kind;           // the axes along which PML velocities are stored, or some cells are not updated
    int keep, keep_end; // the velocities along y that it stores for the next step
    int unused;
};

// A number of 16 bits stands for low + step q.
struct Scale {
    float low, step;
};

// A shot's own E and S in the cells around its source.
struct Cube {
    const float *values; // E, then S: [iy][ix][iz]
    int begin[3], size[3]; // 0 if the shot has none
};

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
    int unused;
    float stencil[4]; // of the derivative
    Scale scales[4];
    Cube cube;
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
static_assert(sizeof(Zone) == 16 && sizeof(Tile) == 32 && sizeof(OnePass) == 488, "layout of the parameters");
static_assert(sizeof(Source) == 48 && sizeof(Receivers) == 32, "layout of the parameters");

// The shape of a block: warps, and rows along x of each. PREFETCH_DISTANCE: planes that the march
// through the middle copies ahead into shared memory; 0 if it loads the next plane into registers.
template <int WARPS_, int ROWS_, int PREFETCH_DISTANCE_ = 0> struct Shape {
    enum {
        WARPS = WARPS_,
        ROWS = ROWS_,
        PREFETCH_DISTANCE = PREFETCH_DISTANCE_,
        PLACES = PREFETCH_DISTANCE > 0 ? PREFETCH_DISTANCE : 1, // of planes that are on their way
        X = WARPS * ROWS,
        FLUX = (X + 7 + WARPS - 1) / WARPS, // fluxes along x of a thread: seven rows more than the tile has
        HALO = (7 + WARPS - 1) / WARPS      // rows that a warp fetches before the tile, and after it
    };
    static_assert(X % 4 == 0 && 4 * X <= 32 * WARPS, "");
};

// The data of a plane that only their thread uses: the first pressure seven planes on and 1/rho
// three planes on; a second pressure, the other coefficients and the increments of the plane.
template <class Equation, class Shape, class Pair> struct Own {
    enum {
        N = Equation::PRESSURES,
        ROWS = Shape::ROWS,
        THREADS = Shape::PREFETCH_DISTANCE > 0 ? 32 * Shape::WARPS : 1
    };
    float2 p[N][ROWS][THREADS], d[N][ROWS][THREADS];
    Pair coefficients[2 * N][ROWS][THREADS];
};

// PML velocities at the places of the fluxes.
template <class Shape> struct Velocity {
    float x[Shape::X + 7][Z], z[Shape::X][Z + 8];
};

// A plane of the pressures: `p`, which has the fluxes along x, from seven rows before the tile on;
// and the one that has the fluxes along z from eight cells before the tile on.
template <class Shape, int PRESSURES> struct Pressures {
    enum { MARGIN = 8 };
    float p[Shape::X + 14][Z + 2 * MARGIN];
    __device__ __forceinline__ float *along_z(int row) { return p[row + 7]; }
};
template <class Shape> struct Pressures<Shape, 2> {
    enum { MARGIN = 0 };
    float p[Shape::X + 14][Z];
    float q[Shape::X][Z + 16];
    __device__ __forceinline__ float *along_z(int row) { return q[row]; }
};

// The data of the current plane that the threads of a block share.
template <class Equation, class Shape, class Pair> struct __align__(16) Plane : Pressures<Shape, Equation::PRESSURES> {
    float flux_x[Shape::X + 7][Z]; // from four rows before the tile on: b times the derivative
    float flux_z[Shape::X][Z + 8]; // from four cells before it on
    union {
        Velocity<Shape> velocity;
        Own<Equation, Shape, Pair> coming[Shape::PLACES]; // in the march through the middle, without velocities
    };
};

#include "one_pass_cells.cuh"
#include "one_pass_march.cuh"

// Returns true if the march of a tile has to look for the source, or for a cell of the cube.
template <class Equation, class Shape>
__device__ __forceinline__ bool is_near_source(const OnePass &k, const Tile &tile, const Source &source)
{
    const auto meets = [&](const int (&begin)[3], const int (&size)[3]) {
        return begin[0] < tile.x + Shape::X && begin[0] + size[0] > tile.x && begin[1] < tile.end &&
               begin[1] + size[1] > tile.y && begin[2] < tile.z + Z && begin[2] + size[2] > tile.z;
    };
    const int begin[3] = {source.x, source.y, source.z}, size[3] = {1, 1, Equation::APART + 1};
    return ((source.there || source.put) && meets(begin, size)) ||
           (Equation::PRESSURES == 2 && meets(k.cube.begin, k.cube.size));
}

// Takes the samples of the receivers in a tile, once its pressures are written.
template <class Equation>
__device__ __forceinline__ void take(const OnePass &k, const Source &source, const Receivers &receivers, int threads)
{
    if (receivers.to == nullptr)
        return;
    const int end = receivers.first[blockIdx.x + 1];
    int i = receivers.first[blockIdx.x];
    if (i == end)
        return;
    __syncthreads();
    const unsigned point = position(k, source.x, source.y, source.z);
    for (i += 32 * threadIdx.y + threadIdx.x; i < end; i += threads) {
        const unsigned at = receivers.at[i];
        const bool hidden = source.put && (at == point || at == point + Equation::APART);
        receivers.to[receivers.trace[i]] = hidden ? source.next_clean[at != point] : k.next[0][at];
    }
}

// `Pair` is two neighbours of the coefficients.
template <class Equation, class Shape, class Pair>
__device__ __forceinline__ void step(const OnePass &k, const Source &source, const Receivers &receivers,
                                     Plane<Equation, Shape, Pair> &plane)
{
    const Tile tile = k.tiles[blockIdx.x];
    // The march through the middle has no source.
    const int kind = is_near_source<Equation, Shape>(k, tile, source) ? tile.kind | X_PML | Z_PML : tile.kind;
    switch (kind) {
    case 0: march<Equation, Shape, Pair, 0>(k, tile, source, plane); break;
    case X_PML: march<Equation, Shape, Pair, X_PML>(k, tile, source, plane); break;
    case Y_PML: march<Equation, Shape, Pair, Y_PML>(k, tile, source, plane); break;
    case Z_PML: march<Equation, Shape, Pair, Z_PML>(k, tile, source, plane); break;
    case X_PML | Z_PML: march<Equation, Shape, Pair, X_PML | Z_PML>(k, tile, source, plane); break;
    case Y_PML | Z_PML: march<Equation, Shape, Pair, Y_PML | Z_PML>(k, tile, source, plane); break;
    default: march<Equation, Shape, Pair, X_PML | Y_PML | Z_PML>(k, tile, source, plane);
    }
    take<Equation>(k, source, receivers, 32 * Shape::WARPS);
}

// Puts the source into pressures that a step has left without it: two threads.
template <class Equation> __device__ __forceinline__ void put_source(const OnePass &k, const Source &source)
{
    const int point = threadIdx.x % Equation::POINTS, pressure = threadIdx.x / Equation::POINTS;
    float *p = k.next[pressure] + position(k, source.x, source.y, source.z + Equation::APART * point);
    source.next_clean[threadIdx.x] = *p;
    *p = Equation::with_source(*p, point, *source.value);
}

// A kernel of a shape, of which `blocks` blocks are to be on a multiprocessor at once.
#define ONE_PASS(name, Equation, Pair, blocks, ...)                                                                    \
    extern "C" __global__ void __launch_bounds__(32 * Shape<__VA_ARGS__>::WARPS, blocks)                              \
        name(const OnePass k, const Source source, const Receivers receivers)                                         \
    {                                                                                                                  \
        __shared__ Plane<Equation, Shape<__VA_ARGS__>, Pair> plane;                                                    \
        step<Equation, Shape<__VA_ARGS__>, Pair>(k, source, receivers, plane);                                         \
    }

#define SOURCE(name, Equation)                                                                                         \
    extern "C" __global__ void name(const OnePass k, const Source source)                                             \
    {                                                                                                                  \
        put_source<Equation>(k, source);                                                                               \
    }
