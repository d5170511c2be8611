// The self-adjoint form of the tilted equation on a GPU: src/fd/equation/tti has the mathematics and the order of operations,
// which is the same here, so records agree bit for bit. A step is two launches:
//
//   tti_fluxes_...   reads P Q h, n, vp²               writes g w h     40 bytes a cell
//   tti_...          reads g w P Q h v, n, vp² E S     writes P Q h v   64 bytes a cell
//   with the next step's source, and samples at the receivers
//
// Neither writes an array that it reads in other cells, so each field is there once.
//
// A block marches along y through its tile. A thread keeps nine planes of its own columns in registers: first of P and Q,
// then of n_y g and n_y w. The current plane is in shared memory with four cells around the tile. Most tiles are PLAIN: the
// user's along x and z, so that no index along these is beyond the grid or in a layer. Compiled with --fmad=false: only
// `fmaf` is fused.

#include "activity.cuh"
#include "centred.cuh"
#include "tilted.cuh"

// Coefficients: the unit vector along the symmetry axis, vp², E, S.
enum { NX, NY, NZ, AXES, MODULUS = AXES, E, S, COEFFICIENTS };

// The properties of an axis.
struct CentredAxis {
    const float *damping;      // half of it times dt, for each index
    float weights[HALF_WIDTH]; // of the second derivative, times (dt/h)²
    float first[HALF_WIDTH];   // of the first derivative, times dt/h
    int n;                     // all cells
    int inner;                 // the user's cells
};

struct SelfAdjoint {
    float *next[2];       // P and Q
    float *flux[2];       // g and w
    float *increments[2]; // h and v
    const float *coefficients[COEFFICIENTS];
    CentredAxis axis[3];
    const Tile *tiles;
    unsigned steps[COEFFICIENTS][2]; // of the coefficients, from column to column along x and y
    unsigned pitch, plane;
    int pml;
    float centre; // the weight of the cell itself in the Laplacian
    Cube cube;
    Activity activity;
};
static_assert(sizeof(CentredAxis) == 48 && sizeof(SelfAdjoint) == 384, "layout of the parameters");

// Two planes of both pressures that take turns, from four rows and four cells before the tile on.
struct PressurePlanes {
    float f[2][2][X + 2 * HALF_WIDTH][Z + 2 * HALF_WIDTH];
};

// A plane of both fluxes along x, with four rows around the tile, and along z, with four cells around it.
struct FluxPlanes {
    float x[2][X + 2 * HALF_WIDTH][Z];
    float z[2][X][Z + 2 * HALF_WIDTH];
    // g and w of a thread's own cells in the current plane and the three after it.
    float2 own[HALF_WIDTH][2][ROWS][THREADS];
};

// The factors of the sponge.
struct Factors {
    float a, b;
};

__device__ __forceinline__ Factors factors(float r)
{
    const float a = reciprocal(1.0f + r);
    return {a, (1.0f - r) * a};
}

// Returns the factors in a cell. PLAIN: the layers along x and z are elsewhere. `r_y`: the damping along y.
template <bool PLAIN> __device__ __forceinline__ Factors sponge(const SelfAdjoint &k, int x, int z, float r_y)
{
    return factors(PLAIN ? r_y : (__ldg(k.axis[0].damping + x) + r_y) + __ldg(k.axis[2].damping + z));
}

// Returns two neighbours of a coefficient. PLAIN: the row is the user's.
template <bool PLAIN>
__device__ __forceinline__ float2 coefficient(const SelfAdjoint &k, int number, int x, int y, int z, bool there)
{
    const unsigned (&steps)[2] = k.steps[number];
    const int column = PLAIN ? x - k.pml : nearest(k, 0, x);
    return fetch(k.coefficients[number], nearest(k, 1, y) * steps[1] + column * steps[0] + z, there);
}

// Loads the taps along x of two neighbours from a plane. `row`: the first.
template <class Plane>
__device__ __forceinline__ void load_x(const Plane &plane, int row, int cell, float (&to)[2][QUEUE])
{
#pragma unroll
    for (int m = 0; m < QUEUE; m++) {
        const float2 taps = pair(const_cast<float &>(plane[row + m][cell]));
        to[0][m] = taps.x, to[1][m] = taps.y;
    }
}

// The same along z. `cell`: the first.
template <class Plane>
__device__ __forceinline__ void load_z(const Plane &plane, int row, int cell, float (&to)[2][QUEUE])
{
#pragma unroll
    for (int m = 0; m < QUEUE + 1; m += 2) {
        const float2 taps = pair(const_cast<float &>(plane[row][cell + m]));
        if (m < QUEUE)
            to[0][m] = taps.x;
        if (m + 1 < QUEUE)
            to[0][m + 1] = taps.y;
        if (m > 0)
            to[1][m - 1] = taps.x;
        to[1][m] = taps.y;
    }
}

__device__ __forceinline__ float part(float2 both, int c)
{
    return c ? both.y : both.x;
}

// Computes the fluxes of a tile, and adds the Laplacian to the increments.
template <bool PLAIN>
__device__ __forceinline__ void fluxes(const SelfAdjoint &k, const Tile &tile, PressurePlanes &s)
{
    const Place<PLAIN> place(k, tile);
    const int x = place.x, z = place.z;
    float queue[2][ROWS][2][QUEUE];
    float2 coming[2][ROWS], side[2], end[2];
    const auto load = [&](int y) {
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                coming[n][r] = fetch(k.next[n], position(k, x + r, y, z), place.there(x + r));
    };
    const auto load_around = [&](int y) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            side[n] = fetch(k.next[n], position(k, place.side_x, y, z), place.there(place.side_x));
            end[n] = fetch(k.next[n], position(k, place.end_x, y, place.end_z), place.end_there);
        }
    };
    const auto enter_all = [&]() {
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                enter(queue[n][r], coming[n][r]);
    };
#pragma unroll
    for (int y = -HALF_WIDTH; y < HALF_WIDTH; y++) {
        load(tile.y + y);
        enter_all();
    }
    load(tile.y + HALF_WIDTH);
    load_around(tile.y);
#pragma unroll 1
    for (int y = tile.y; y < tile.end; y++) {
        float2 axis[ROWS][AXES], modulus[ROWS], h[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!place.updates(x + r))
                continue;
#pragma unroll
            for (int n = 0; n < AXES; n++)
                axis[r][n] = coefficient<PLAIN>(k, n, x + r, y, z, true);
        }
        enter_all();
        auto &plane = s.f[y & 1];
        const int cell = HALF_WIDTH + place.cell;
#pragma unroll
        for (int n = 0; n < 2; n++) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                pair(plane[n][HALF_WIDTH + place.first_row + r][cell]) =
                    make_float2(queue[n][r][0][HALF_WIDTH], queue[n][r][1][HALF_WIDTH]);
            pair(plane[n][place.side_row][cell]) = side[n];
            if (place.has_end)
                pair(plane[n][HALF_WIDTH + place.end_row][place.end_cell]) = end[n];
        }
        __syncthreads();
        if (y + 1 < tile.end) {
            load(y + 1 + HALF_WIDTH);
            load_around(y + 1);
        }
        const float r_y = __ldg(k.axis[1].damping + y);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!place.updates(x + r))
                continue;
            h[r] = fetch_once(k.increments[0], position(k, x + r, y, z), true);
            modulus[r] = coefficient<PLAIN>(k, MODULUS, x + r, y, z, true);
            const int row = place.first_row + r;
            float flux[2][2], laplacian[2], after[2];
#pragma unroll
            for (int n = 0; n < 2; n++) {
                float x_taps[2][QUEUE], z_taps[2][QUEUE];
                load_x(plane[n], row, cell, x_taps);
                load_z(plane[n], HALF_WIDTH + row, place.cell, z_taps);
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const float(&y_taps)[QUEUE] = queue[n][r][c];
                    const float along_x = part(axis[r][NX], c) * differences(k.axis[0].first, x_taps[c]);
                    const float along_xy =
                        fmaf(part(axis[r][NY], c), differences(k.axis[1].first, y_taps), along_x);
                    flux[n][c] = fmaf(part(axis[r][NZ], c), differences(k.axis[2].first, z_taps[c]), along_xy);
                    if (n == 0)
                        laplacian[c] = (fmaf(k.centre, y_taps[HALF_WIDTH], pairs(k.axis[0].weights, x_taps[c])) +
                                        pairs(k.axis[1].weights, y_taps)) +
                                       pairs(k.axis[2].weights, z_taps[c]);
                }
            }
#pragma unroll
            for (int c = 0; c < 2; c++) {
                const Factors of = sponge<PLAIN>(k, x + r, z + c, r_y);
                after[c] = fmaf(of.a * part(modulus[r], c), laplacian[c], of.b * part(h[r], c));
            }
            const unsigned at = position(k, x + r, y, z);
            place.write(k.flux[0], at, flux[0]);
            place.write(k.flux[1], at, flux[1]);
            place.write(k.increments[0], at, after);
        }
    }
}

// Computes the pressures of a tile. Returns the bits of all that a thread has computed.
template <bool PLAIN>
__device__ __forceinline__ unsigned pressures(const SelfAdjoint &k, const Tile &tile, const Source &source,
                                              FluxPlanes &s)
{
    const Place<PLAIN> place(k, tile);
    const int thread = 32 * threadIdx.y + threadIdx.x, x = place.x, z = place.z, nz = place.nz;
    // Fluxes are 0 in cells that are never updated.
    const bool side_there = PLAIN || ((place.side_x >= HALF_WIDTH) & place.updates(place.side_x));
    const bool end_there = place.has_end & (PLAIN | ((place.end_x < place.nx - HALF_WIDTH) &
                                                     (place.end_z >= HALF_WIDTH) & (place.end_z < nz - HALF_WIDTH)));
    float queue[2][ROWS][2][QUEUE];
    float2 coming[ROWS][2], of_y[ROWS], of_x[ROWS], of_z[ROWS], side[2], end[2], side_of_x, end_of_z;
    const auto load = [&](int y) {
        const bool there = (y >= HALF_WIDTH) & (y < k.axis[1].n - HALF_WIDTH);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const bool updates = there & place.updates(x + r);
#pragma unroll
            for (int n = 0; n < 2; n++)
                coming[r][n] = fetch(k.flux[n], position(k, x + r, y, z), updates);
            of_y[r] = coefficient<PLAIN>(k, NY, x + r, y, z, updates);
        }
    };
    const auto load_plane = [&](int y) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            of_x[r] = coefficient<PLAIN>(k, NX, x + r, y, z, place.updates(x + r));
            of_z[r] = coefficient<PLAIN>(k, NZ, x + r, y, z, place.updates(x + r));
        }
#pragma unroll
        for (int n = 0; n < 2; n++) {
            side[n] = fetch(k.flux[n], position(k, place.side_x, y, z), side_there);
            end[n] = fetch(k.flux[n], position(k, place.end_x, y, place.end_z), end_there);
        }
        side_of_x = coefficient<false>(k, NX, place.side_x, y, z, side_there);
        end_of_z = coefficient<PLAIN>(k, NZ, place.end_x, y, place.end_z, end_there);
    };
    const auto product = [](float2 n, float2 f) { return make_float2(n.x * f.x, n.y * f.y); };
    // Moves the queues on to `y`, four planes after the current one.
    const auto enter_all = [&](int y) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                enter(queue[n][r], product(of_y[r], coming[r][n]));
                s.own[y % HALF_WIDTH][n][r][thread] = coming[r][n];
            }
    };
#pragma unroll
    for (int y = -HALF_WIDTH; y < HALF_WIDTH; y++) {
        load(tile.y + y);
        enter_all(tile.y + y);
    }
    load(tile.y + HALF_WIDTH);
    load_plane(tile.y);
    unsigned seen = 0;
#pragma unroll 1
    for (int y = tile.y; y < tile.end; y++) {
        float2 modulus[ROWS], mixing[ROWS][2], old[ROWS][2], increments[ROWS][2], own[ROWS][2];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!place.updates(x + r))
                continue;
            const unsigned at = position(k, x + r, y, z);
#pragma unroll
            for (int n = 0; n < 2; n++) {
                old[r][n] = fetch_once(k.next[n], at, true);
                increments[r][n] = fetch_once(k.increments[n], at, true);
                mixing[r][n] = coefficient<PLAIN>(k, E + n, x + r, y, z, true);
            }
            modulus[r] = coefficient<PLAIN>(k, MODULUS, x + r, y, z, true);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int n = 0; n < 2; n++)
                own[r][n] = s.own[y % HALF_WIDTH][n][r][thread];
        enter_all(y + HALF_WIDTH);
        __syncthreads(); // all threads have read the plane before
#pragma unroll
        for (int n = 0; n < 2; n++) {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int row = place.first_row + r;
                pair(s.x[n][HALF_WIDTH + row][place.cell]) = product(of_x[r], own[r][n]);
                pair(s.z[n][row][HALF_WIDTH + place.cell]) = product(of_z[r], own[r][n]);
            }
            pair(s.x[n][place.side_row][place.cell]) = product(side_of_x, side[n]);
            if (place.has_end)
                pair(s.z[n][place.end_row][place.end_cell]) = product(end_of_z, end[n]);
        }
        __syncthreads();
        if (y + 1 < tile.end) {
            load(y + 1 + HALF_WIDTH);
            load_plane(y + 1);
        }
        const float r_y = __ldg(k.axis[1].damping + y);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!place.updates(x + r))
                continue;
            float divergence[2][2], after[2][2], to[2][2];
#pragma unroll
            for (int n = 0; n < 2; n++) {
                float x_taps[2][QUEUE], z_taps[2][QUEUE];
                load_x(s.x[n], place.first_row + r, place.cell, x_taps);
                load_z(s.z[n], place.first_row + r, place.cell, z_taps);
#pragma unroll
                for (int c = 0; c < 2; c++)
                    divergence[n][c] =
                        (differences(k.axis[0].first, x_taps[c]) + differences(k.axis[2].first, z_taps[c])) +
                        differences(k.axis[1].first, queue[n][r][c]);
            }
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float p[2] = {part(old[r][0], c), part(old[r][1], c)};
                to[0][c] = part(increments[r][0], c), to[1][c] = part(increments[r][1], c);
                after[0][c] = p[0], after[1][c] = p[1];
                if (!PLAIN && z + c >= nz - HALF_WIDTH)
                    continue;
                float es[2] = {part(mixing[r][0], c), part(mixing[r][1], c)};
                if (!PLAIN)
                    adapt(k.cube, x + r, y, z + c, es);
                const bool has_source = !PLAIN && z + c == source.z && x + r == source.x && y == source.y;
                if (has_source && source.there)
                    p[0] = source.clean[0], p[1] = source.clean[1];
                const Factors of = sponge<PLAIN>(k, x + r, z + c, r_y);
                const float rate = of.a * part(modulus[r], c);
                const float h = fmaf(-rate, divergence[0][c], to[0][c]);
                const float v = fmaf(rate, divergence[1][c], of.b * to[1][c]);
                to[0][c] = h, to[1][c] = v;
                after[0][c] = fmaf(of.a, fmaf(es[0], h, es[1] * v), of.b * p[0]);
                after[1][c] = fmaf(of.a, fmaf(es[1], h, v), of.b * p[1]);
                if (has_source && source.put)
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        source.next_clean[n] = after[n][c];
                        after[n][c] = Tti::with_source(after[n][c], 0, *source.value);
                    }
                seen |= __float_as_uint(after[0][c]) | __float_as_uint(after[1][c]);
            }
            const unsigned at = position(k, x + r, y, z);
#pragma unroll
            for (int n = 0; n < 2; n++)
                place.write(k.increments[n], at, to[n]), place.write(k.next[n], at, after[n]);
        }
    }
    return seen;
}

// Returns true if a tile is the user's along an axis.
__device__ __forceinline__ bool is_inside(const SelfAdjoint &k, int axis, int begin, int cells)
{
    return begin >= k.pml && begin + cells <= k.pml + k.axis[axis].inner;
}

__device__ __forceinline__ bool is_plain(const SelfAdjoint &k, const Tile &tile)
{
    return is_inside(k, 0, tile.x, X) && is_inside(k, 2, tile.z, Z);
}

#include "tilted_stages.cuh"

STAGES(tti, 4x2, SelfAdjoint, PressurePlanes, 3, FluxPlanes, 2)
