// The acoustic equation of second order on a GPU: src/fd/equation/acoustic2 has the mathematics and
// the order of operations, which is the same here, so records agree bit for bit. A launch is a step:
//
//   acoustic2_one_pass_...   reads P P- V   writes P+ over P-   16 bytes a cell
//   with the next step's source, and samples at the receivers
//
// With a PML a launch comes before, which subtracts the increments of the layers from P- in the layers and four cells
// beside them: reads P V, reads and writes P- and, for each axis that is damped, phi and chi.
//
// A block marches along y through its tile. A thread keeps nine planes of the pressure of its own
// columns in registers; the current plane is in shared memory with four cells around the tile. Two
// planes of shared memory take turns, so a plane needs one barrier. Compiled with --fmad=false: only
// `fmaf` is fused.

#include "activity.cuh"
#include "centred.cuh"
#include "tile.cuh"

// The properties of an axis.
struct SpongeAxis {
    const float *factors;      // of the sponge, for each index
    float weights[HALF_WIDTH]; // of the second derivative, times (dt/h)²
    int n;                     // all cells
    int inner;                 // the user's cells
};

// The layers along an axis. Their fields have the indices before the end of the first zone and those from the begin of the
// second on.
struct Layers {
    const float *phi;
    float *next_phi;
    float *chi;
    unsigned pitch, plane;
    int end, begin;
    float centre; // the weight of the cell itself in the second derivative
    int unused;
};

struct SecondOrder {
    const float *p[1]; // this pressure
    float *next[1];    // that of the step before, which the next one replaces
    const void *v;     // vp²: float32, or numbers of 16 bits
    const Tile *tiles;
    SpongeAxis axis[3];
    unsigned steps[2]; // of vp², from column to column along x and y
    unsigned pitch, plane;
    int pml;
    float centre; // the weight of the cell itself, summed over the axes
    Scale scale;  // of vp²
    Activity activity;
    Layers layers[3];
    float first[HALF_WIDTH]; // the coefficients of the first derivative
    int halved;              // vp² is stored in 16 bits
    int unused;
};
static_assert(sizeof(SpongeAxis) == 32 && sizeof(Layers) == 48 && sizeof(SecondOrder) == 368,
              "layout of the parameters");

// The data that the threads of a block share: the pressures of two planes, from four rows and four
// cells before the tile on.
struct __align__(16) Planes {
    float p[2][X + 2 * HALF_WIDTH][Z + 2 * HALF_WIDTH];
};

// Returns the next pressure. `x`, `y`, `z`: the pressures around the cell; `g`: the sponge's factor.
__device__ __forceinline__ float advance(const SecondOrder &k, const float (&x)[QUEUE], const float (&y)[QUEUE],
                                         const float (&z)[QUEUE], float g, float v, float before)
{
    const float p = y[HALF_WIDTH];
    const float l = (fmaf(k.centre, p, pairs(k.axis[0].weights, x)) + pairs(k.axis[1].weights, y)) +
                    pairs(k.axis[2].weights, z);
    return fmaf(g, fmaf(v, l, fmaf(-g, before, p + p)), 0.0f);
}

// The march of a block through its tile. Returns the bits of all pressures that a thread has computed. `Pair` is two
// neighbours of vp².
template <class Pair>
__device__ __forceinline__ unsigned march(const SecondOrder &k, const Tile &tile, Planes &s)
{
    const int thread = 32 * threadIdx.y + threadIdx.x, lane = threadIdx.x % LANES, group = thread / LANES;
    const int nx = k.axis[0].n, nz = k.axis[2].n;
    const int first_row = ROWS * group, x = tile.x + first_row, z = tile.z + 2 * lane;
    const bool in_row = z < int(k.pitch);
    const auto there = [&](int r) { return in_row && x + r < nx; };

    // The rows before and after the tile, one a group; and four cells before and after its rows.
    const int side_row = group < HALF_WIDTH ? group : group + X, side_x = tile.x - HALF_WIDTH + side_row;
    const int end_row = thread / 4, end_cell = 2 * (thread % 4) + (thread % 4 < 2 ? 0 : Z);
    const bool has_end = thread < 4 * X;
    const bool end_there = has_end && tile.x + end_row < nx && tile.z - HALF_WIDTH + end_cell < int(k.pitch);
    float2 side, end;
    const auto load_around = [&](int y) {
        side = fetch(k.p[0], position(k, side_x, y, z), in_row && side_x < nx);
        end = fetch(k.p[0], position(k, tile.x + end_row, y, tile.z - HALF_WIDTH + end_cell), end_there);
    };

    unsigned columns[ROWS];
    float sponge_x[ROWS], sponge_z[2];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        columns[r] = nearest(k, 0, x + r) * k.steps[0] + z;
        sponge_x[r] = x + r < nx ? __ldg(k.axis[0].factors + x + r) : 0.0f;
    }
#pragma unroll
    for (int c = 0; c < 2; c++)
        sponge_z[c] = z + c < nz ? __ldg(k.axis[2].factors + z + c) : 0.0f;

    // The pressure of nine planes, four before the current one and four after it.
    float queue[ROWS][2][QUEUE];
    float2 coming[ROWS], before[ROWS];
    Pair v[ROWS];
    const auto load_p = [&](int y) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            coming[r] = fetch(k.p[0], position(k, x + r, y, z), there(r));
    };
    const auto enter = [&]() {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int m = 0; m < QUEUE - 1; m++)
                queue[r][0][m] = queue[r][0][m + 1], queue[r][1][m] = queue[r][1][m + 1];
            queue[r][0][QUEUE - 1] = coming[r].x, queue[r][1][QUEUE - 1] = coming[r].y;
        }
    };
#pragma unroll
    for (int y = -HALF_WIDTH; y < HALF_WIDTH; y++) {
        load_p(tile.y + y);
        enter();
    }
    const auto position_v = [&](int y, int r) { return (nearest(k, 1, y) * k.steps[1] + columns[r]) / 2; };
    // The data of the next plane are on their way while one is computed.
    load_p(tile.y + HALF_WIDTH);
    load_around(tile.y);
    unsigned seen = 0;
#pragma unroll 1
    for (int y = tile.y; y < tile.end; y++) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            before[r] = make_float2(0.0f, 0.0f), v[r] = Pair();
            if (!there(r))
                continue;
            before[r] = fetch_once(k.next[0], position(k, x + r, y, z), true);
            v[r] = __ldcs(static_cast<const Pair *>(k.v) + position_v(y, r));
        }
        enter();
        auto &plane = s.p[y & 1];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            pair(plane[HALF_WIDTH + first_row + r][HALF_WIDTH + 2 * lane]) =
                make_float2(queue[r][0][HALF_WIDTH], queue[r][1][HALF_WIDTH]);
        pair(plane[side_row][HALF_WIDTH + 2 * lane]) = side;
        if (has_end)
            pair(plane[HALF_WIDTH + end_row][end_cell]) = end;
        __syncthreads();
        if (y + 1 < tile.end) {
            load_p(y + 1 + HALF_WIDTH);
            load_around(y + 1);
        }
        const float sponge_y = __ldg(k.axis[1].factors + y);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (x + r >= nx - HALF_WIDTH || z >= nz - HALF_WIDTH)
                continue;
            float x_taps[2][QUEUE], z_taps[QUEUE + 1];
#pragma unroll
            for (int m = 0; m < QUEUE; m++) {
                const float2 taps = pair(plane[first_row + r + m][HALF_WIDTH + 2 * lane]);
                x_taps[0][m] = taps.x, x_taps[1][m] = taps.y;
            }
#pragma unroll
            for (int m = 0; m < QUEUE + 1; m += 2) {
                const float2 taps = pair(plane[HALF_WIDTH + first_row + r][2 * lane + m]);
                z_taps[m] = taps.x, z_taps[m + 1] = taps.y;
            }
            const float2 speeds = values(k.scale, v[r]);
            const float g = sponge_y * sponge_x[r];
            float after[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float taps[QUEUE];
#pragma unroll
                for (int m = 0; m < QUEUE; m++)
                    taps[m] = z_taps[m + c];
                after[c] = advance(k, x_taps[c], queue[r][c], taps, g * sponge_z[c], c ? speeds.y : speeds.x,
                                   c ? before[r].y : before[r].x);
            }
            seen |= __float_as_uint(after[0]) | __float_as_uint(after[1]);
            float &to = k.next[0][position(k, x + r, y, z)];
            if (z + 1 < nz - HALF_WIDTH)
                __stcs(&pair(to), make_float2(after[0], after[1]));
            else
                to = after[0];
        }
    }
    return seen;
}

// Each thread puts the points of the source into cells that it has written itself.
__device__ __forceinline__ void put_own_points(const SecondOrder &k, const Tile &tile, const Source &source)
{
    const int group = (32 * threadIdx.y + threadIdx.x) / LANES, row = source.x - tile.x - ROWS * group;
    if (!source.put || source.y < tile.y || source.y >= tile.end || row < 0 || row >= ROWS)
        return;
#pragma unroll
    for (int point = 0; point < Dipole::POINTS; point++) {
        const int cell = source.z + Dipole::APART * point - tile.z - 2 * int(threadIdx.x % LANES);
        if (cell == 0 || cell == 1)
            put_source<Dipole>(k, source, point);
    }
}

// Loads the values around a position. `apart`: values from cell to cell.
__device__ __forceinline__ void load_taps(float (&taps)[QUEUE], const float *from, unsigned at, unsigned apart)
{
    at -= HALF_WIDTH * apart;
#pragma unroll
    for (int m = 0; m < QUEUE; m++)
        taps[m] = __ldg(from + (at + m * apart));
}

// Returns the increment of a cell in the layers of an axis.
template <int AXIS> __device__ __forceinline__ float layer_increment(const SecondOrder &k, int x, int y, int z)
{
    const SpongeAxis &axis = k.axis[AXIS];
    const Layers &own = k.layers[AXIS];
    const int index = AXIS == 0 ? x : AXIS == 1 ? y : z;
    const int cut = index < own.end ? 0 : own.begin - own.end;
    const float *profile = axis.factors + index + axis.n;
    const float a = __ldg(profile), b = __ldg(profile + axis.n);
    const float slope = __ldg(profile + 2 * axis.n), square = __ldg(profile + 3 * axis.n);
    const unsigned at = (y - (AXIS == 1 ? cut : 0)) * own.plane + (x - (AXIS == 0 ? cut : 0)) * own.pitch + z -
                        (AXIS == 2 ? cut : 0);
    float p[QUEUE], phi[QUEUE];
    load_taps(p, k.p[0], position(k, x, y, z), AXIS == 0 ? k.pitch : AXIS == 1 ? k.plane : 1);
    load_taps(phi, own.phi, at, AXIS == 0 ? own.pitch : AXIS == 1 ? own.plane : 1);
    const float second = fmaf(own.centre, p[HALF_WIDTH], pairs(axis.weights, p));
    const float derivative = differences(k.first, p);
    const float change = fmaf(b, second, fmaf(slope, derivative, square * differences(k.first, phi)));
    const float zeta = fmaf(b, second + change, own.chi[at]);
    own.chi[at] = a * zeta;
    own.next_phi[at] = a * fmaf(b, derivative, phi[HALF_WIDTH]);
    return change + zeta;
}

// Returns true if an index lies in the layers of an axis or in the four cells beside them.
__device__ __forceinline__ bool is_damped(const SecondOrder &k, int axis, int index)
{
    return index < k.pml + HALF_WIDTH || index >= k.pml + k.axis[axis].inner - HALF_WIDTH;
}

// Subtracts the increments of the layers in a tile from the pressure of the step before. A warp has a row.
__device__ __forceinline__ void damp(const SecondOrder &k, const Tile &tile)
{
    const int z = tile.z + threadIdx.x;
    if (z >= k.axis[2].n - HALF_WIDTH)
        return;
    const bool damped_z = is_damped(k, 2, z);
#pragma unroll 1
    for (int y = tile.y; y < tile.end; y++) {
        const bool damped_y = is_damped(k, 1, y);
#pragma unroll 1
        for (int x = tile.x + threadIdx.y; x < min(tile.x + X, k.axis[0].n - HALF_WIDTH); x += WARPS) {
            const bool damped_x = is_damped(k, 0, x);
            if (!damped_x && !damped_y && !damped_z)
                continue;
            const unsigned at = position(k, x, y, z);
            const unsigned of_v = nearest(k, 1, y) * k.steps[1] + nearest(k, 0, x) * k.steps[0] + z;
            const float v = k.halved ? value(k.scale, __ldg(static_cast<const unsigned short *>(k.v) + of_v))
                                     : __ldg(static_cast<const float *>(k.v) + of_v);
            float before = k.next[0][at];
            if (damped_x)
                before = fmaf(-v, layer_increment<0>(k, x, y, z), before);
            if (damped_y)
                before = fmaf(-v, layer_increment<1>(k, x, y, z), before);
            if (damped_z)
                before = fmaf(-v, layer_increment<2>(k, x, y, z), before);
            k.next[0][at] = before;
        }
    }
}

// The kernel before that of a step.
extern "C" __global__ void __launch_bounds__(THREADS, 8) acoustic2_one_pass_layers(const SecondOrder k)
{
    const Tile tile = k.tiles[blockIdx.x];
    if (!is_at_rest(k.activity, tile))
        damp(k, tile);
}

// A kernel, of which `blocks` blocks are to be on a multiprocessor at once.
#define STEP(name, Pair, blocks)                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)                                                      \
        name(const SecondOrder k, const Source source, const Receivers receivers)                                     \
    {                                                                                                                  \
        __shared__ Planes planes;                                                                                      \
        const Tile tile = k.tiles[blockIdx.x];                                                                         \
        if (!is_at_rest(k.activity, tile)) {                                                                           \
            const unsigned seen = march<Pair>(k, tile, planes);                                                        \
            mark(k.activity, tile, seen);                                                                              \
            put_own_points(k, tile, source);                                                                           \
        } else {                                                                                                       \
            count_skipped(k.activity, tile);                                                                           \
        }                                                                                                              \
        take<Dipole>(k, source, receivers);                                                                            \
    }

STEP(acoustic2_one_pass_4x2, float2, 4)
STEP(acoustic2_one_pass_4x2_16_bit, ushort2, 4)
SOURCE(acoustic2_one_pass_source, Dipole, SecondOrder)
