// The acoustic equation of first order on a GPU, a step in one pass over memory: src/fd/equation/acoustic1/one_pass
// has the mathematics and the order of operations, which is kept here, so records agree bit for bit. A step is one
// launch:
//
//   one_pass    the pressure after a step      reads p d b kappa     writes p d     24 bytes a cell
//               with the PML velocities and split pressures, the source of the next step, and samples at the receivers
//
// A table names the tile of a block: 64 cells along z by some rows along x, through which the block marches along y.
// A thread has two neighbours along z in one row or more. Of its own columns it keeps eight planes of the pressure and
// eight of the fluxes along y in registers; the plane that it is at lies in shared memory with seven cells around it,
// and so do the fluxes along x and z. Fluxes that two tiles need are computed by both, so blocks do not depend on each
// other: a launch reads one pressure and writes another, and likewise of PML velocities.
//
// The table is made so that most tiles lie in the middle of all three axes: no PML velocity is stored there, no index is
// beyond the grid, and the march has no branch. What else there may be is in the march's template parameter, the
// same for a whole block; all threads of a block come to the same barriers. For newer GPUs there is a shape whose march through the
// middle has what it needs copied into shared memory some planes ahead, so that more is on its way at a time.
//
// Assumed of the arrays: rows of `pitch` values, a multiple of 32; pointers are to index 0 of row 0, placed so that index 4,
// the first that is updated, is aligned to 128 bytes; fields are zero in the four outermost layers, which no kernel writes. An
// array has fewer than 2^32 values: positions are `unsigned`, which need half the registers and a third of the instructions of
// 64 bits. Compiled with --fmad=false: only `fmaf` is fused.

#include "acoustic1.cuh"
#include "copies.cuh"

// Cells of a tile along z, kinds of tiles, and how far the poles of the source are apart.
enum { Z = 64, X_PML = 1, Y_PML = 2, Z_PML = 4, APART = 2 };

// Of an axis: where its velocities are eliminated, and where PML velocities are stored: before `near_end`, and from `far_begin` on.
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

// What a number of 16 bits stands for: low + step q.
struct Scale {
    float low, step;
};

struct OnePass {
    const float *p;      // with the source of this step in it
    float *next;         // the pressure after it
    float *d;            // what the undamped terms added
    const float *velocity_old[3]; // PML velocities before the step: [iy][slot][z], [slot][ix][z], [iy][ix][slot]
    float *velocity_new[3];    // after the step
    float *split[3];      // of the pressure, in the layers of x, y, z: [iy][layer][z], [layer][ix][z], [iy][ix][layer]
    const void *b, *kappa; // float32, or numbers of 16 bits
    Axis axis[3];
    Zone zone[3];
    const Tile *tiles;
    unsigned b_step[2], kappa_step[2];
    unsigned pitch, plane;
    unsigned slots[2]; // of PML velocities: rows of a plane along x, values of a row along z
    int pml;
    int unused;
    float stencil[4]; // of the derivative
    Scale b_scale, kappa_scale;
};

// The two poles of the source, in one row, two cells apart.
struct Source {
    const float *clean; // what the pressure is there without the source
    float *next_clean;
    const float *value; // of the next step's source
    int x, y, z;        // of the negative one
    int there;          // the source is in the pressure
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
static_assert(sizeof(Zone) == 16 && sizeof(Tile) == 32 && sizeof(OnePass) == 384, "layout of the parameters");
static_assert(sizeof(Source) == 48 && sizeof(Receivers) == 32, "layout of the parameters");

// How a block is cut: so many warps, each with so many rows along x; and how many planes of what the plain march needs are on
// their way into shared memory: none, if a plane's is loaded into registers while the one before is computed.
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

// What the plain march needs at a plane for a thread's own columns, and no other thread looks at: the p of seven planes on, the b of
// three planes on, kappa and d.
template <class S, class Pair> struct Own {
    enum { THREADS = S::PREFETCH_DISTANCE > 0 ? 32 * S::WARPS : 1 };
    float2 p[S::ROWS][THREADS], d[S::ROWS][THREADS];
    Pair b[S::ROWS][THREADS], kappa[S::ROWS][THREADS];
};

// What tiles beside the layers need beside the fluxes, at the same places.
template <class S> struct Velocity {
    float x[S::X + 7][Z], z[S::X][Z + 8];
};

// What the threads of a block share of the plane that they are at.
template <class S, class Pair> struct __align__(16) Plane {
    float p[S::X + 14][Z + 16]; // from seven rows and eight cells before the tile on
    float flux_x[S::X + 7][Z]; // from four rows before it on: b times the derivative
    float flux_z[S::X][Z + 8]; // from four cells before it on
    union {
        Velocity<S> velocity;
        Own<S, Pair> coming[S::PLACES]; // of the plain march, which has no velocities
    };
};

#include "one_pass_march.cuh"

// Whether a pole of the source lies in a tile.
template <class S> __device__ __forceinline__ bool has_source(const Tile &tile, const Source &source)
{
    return (source.there || source.put) && source.x >= tile.x && source.x < tile.x + S::X && source.y >= tile.y &&
           source.y < tile.end && source.z + APART >= tile.z && source.z < tile.z + Z;
}

// The samples of the receivers in a tile, when its pressures are there.
__device__ __forceinline__ void take(const OnePass &k, const Source &source, const Receivers &receivers, int threads)
{
    if (receivers.to == nullptr)
        return;
    const int end = receivers.first[blockIdx.x + 1];
    int i = receivers.first[blockIdx.x];
    if (i == end)
        return;
    __syncthreads();
    const unsigned pole = position(k, source.x, source.y, source.z);
    for (i += 32 * threadIdx.y + threadIdx.x; i < end; i += threads) {
        const unsigned at = receivers.at[i];
        const bool hidden = source.put && (at == pole || at == pole + APART);
        receivers.to[receivers.trace[i]] = hidden ? source.next_clean[at != pole] : k.next[at];
    }
}

// `Pair` is two neighbours of the coefficients.
template <class S, class Pair>
__device__ __forceinline__ void step(const OnePass &k, const Source &source, const Receivers &receivers, Plane<S, Pair> &plane)
{
    const Tile tile = k.tiles[blockIdx.x];
    // The march through the middle knows of no source.
    const int kind = has_source<S>(tile, source) ? tile.kind | X_PML | Z_PML : tile.kind;
    switch (kind) {
    case 0: march<S, Pair, 0>(k, tile, source, plane); break;
    case X_PML: march<S, Pair, X_PML>(k, tile, source, plane); break;
    case Y_PML: march<S, Pair, Y_PML>(k, tile, source, plane); break;
    case Z_PML: march<S, Pair, Z_PML>(k, tile, source, plane); break;
    case X_PML | Z_PML: march<S, Pair, X_PML | Z_PML>(k, tile, source, plane); break;
    case Y_PML | Z_PML: march<S, Pair, Y_PML | Z_PML>(k, tile, source, plane); break;
    default: march<S, Pair, X_PML | Y_PML | Z_PML>(k, tile, source, plane);
    }
    take(k, source, receivers, 32 * S::WARPS);
}

// One thread for each cell of a tile's column of warps; `blocks` of them are to be on a multiprocessor at once.
#define ONE_PASS(name, Pair, blocks, ...)                                                                              \
    extern "C" __global__ void __launch_bounds__(32 * Shape<__VA_ARGS__>::WARPS, blocks)                              \
        acoustic1_one_pass_##name(const OnePass k, const Source source, const Receivers receivers)                      \
    {                                                                                                                  \
        __shared__ Plane<Shape<__VA_ARGS__>, Pair> plane;                                                              \
        step<Shape<__VA_ARGS__>, Pair>(k, source, receivers, plane);                                                    \
    }
// A text of PTX has those of its architecture, the host's build all.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800
ONE_PASS(4x2, float2, 3, 4, 2)
ONE_PASS(4x4, float2, 2, 4, 4)
ONE_PASS(4x2_16_bit, ushort2, 3, 4, 2)

// Puts the source into a pressure that a step has left without it: two threads.
extern "C" __global__ void acoustic1_one_pass_source(const OnePass k, const Source source)
{
    const int pole = threadIdx.x;
    float *p = k.next + position(k, source.x, source.y, source.z + APART * pole);
    source.next_clean[pole] = *p;
    *p = with_source(*p, pole, *source.value);
}
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
ONE_PASS(4x2_async, float2, 3, 4, 2, 2)
#endif
