// The pseudo-acoustic equation of a tilted medium on a GPU: src/fd/equation/tti/old has the mathematics,
// src/fd/equation/tti/old/cpu/sweep.rs the order of operations, which is the same here, so records agree bit for
// bit. A step is two launches:
//
//   tti_old_fluxes_...   reads P Q w, 4 angles                  writes u v w    40 bytes a cell
//   tti_old_...          reads u v w d P Q, 4 angles, vp² E S   writes d P Q    64 bytes a cell
//   with the damped fluxes and split pressures of the layers, the next step's source, and samples
//
// Neither writes an array that it reads in other cells, so each field is there once. Where a flux of x is
// both damped and next to cells that take it undamped, both are stored, likewise of y.
//
// A block marches along y through its tile. A thread keeps eight planes of the fields of its own columns
// in registers; the current plane is in shared memory with four cells around the tile. Most tiles are PLAIN:
// in the middle of all axes, so that no flux of theirs is stored for the layers and no index is beyond the
// grid. Compiled with --fmad=false: only `fmaf` is fused.

#include "activity.cuh"
#include "tilted.cuh"

enum { TAPS = 2 * HALF_WIDTH };

// Coefficients: cosine and sine of theta and phi, vp², E, S.
enum { CT, ST, CP, SP, ANGLES, MODULUS = ANGLES, E, S, COEFFICIENTS };

struct Tilted {
    float *next[2];   // P and Q
    float *flux[3];   // undamped of x and y, damped of z
    float *damped[2]; // of x and y: [iy][slot][z], [slot][ix][z]
    float *d;         // undamped increments
    float *split[3];  // in the layers of x, y, z: [iy][layer][z], [layer][ix][z], [iy][ix][layer]
    const float *coefficients[COEFFICIENTS];
    Axis axis[3];
    Zone zone[3];
    const Tile *tiles;
    unsigned steps[COEFFICIENTS][2]; // of the coefficients, from column to column along x and y
    unsigned pitch, plane;
    unsigned slots; // rows of a plane of the damped fluxes of x
    int pml;
    float stencils[3][HALF_WIDTH]; // of the derivatives along x, y, z
    float squares[2];              // (dt/h)² of x and y
    Cube cube;
    Activity activity;
};
static_assert(sizeof(Tilted) == 544, "layout of the parameters");

// A plane of some fields, from four rows and four cells before the tile on.
template <int FIELDS> struct Planes {
    float f[FIELDS][X + TAPS][Z + TAPS];
};

// Returns two neighbours of a coefficient.
template <bool PLAIN>
__device__ __forceinline__ float2 coefficient(const Tilted &k, int number, int x, int y, int z)
{
    const unsigned (&steps)[2] = k.steps[number];
    const int column = PLAIN ? x - k.pml : nearest(k, 0, x), plane = PLAIN ? y - k.pml : nearest(k, 1, y);
    return fetch(k.coefficients[number], plane * steps[1] + column * steps[0] + z, true);
}

// Computes the derivatives of a field along x, y and z in two cells. FIRST: the first tap, from the cell. `row`, `cell`: in
// the plane. `queue`: the taps along y.
template <int FIRST, class Plane>
__device__ __forceinline__ void derivatives(const Tilted &k, const Plane &plane, int row, int cell,
                                            const float (&queue)[2][TAPS], float (&to)[2][3])
{
    float x[2][TAPS], z[TAPS + 2];
#pragma unroll
    for (int m = 0; m < TAPS; m++) {
        const float2 taps = pair(const_cast<float &>(plane[row + FIRST + m][cell]));
        x[0][m] = taps.x, x[1][m] = taps.y;
    }
#pragma unroll
    for (int m = 0; m < TAPS + 2; m += 2) {
        const float2 taps = pair(const_cast<float &>(plane[row][cell - HALF_WIDTH + m]));
        z[m] = taps.x, z[m + 1] = taps.y;
    }
#pragma unroll
    for (int c = 0; c < 2; c++) {
        float taps[TAPS];
#pragma unroll
        for (int m = 0; m < TAPS; m++)
            taps[m] = z[HALF_WIDTH + FIRST + c + m];
        to[c][0] = derivative_by(k.stencils[0], x[c]);
        to[c][1] = derivative_by(k.stencils[1], queue[c]);
        to[c][2] = derivative_by(k.stencils[2], taps);
    }
}

// The rotated derivatives. `r`: cosine and sine of theta and phi.
__device__ __forceinline__ float rotated_x(const float (&r)[ANGLES], const float (&d)[3])
{
    return fmaf(-r[ST], d[2], fmaf(-(r[CT] * r[SP]), d[1], (r[CT] * r[CP]) * d[0]));
}

__device__ __forceinline__ float rotated_y(const float (&r)[ANGLES], const float (&d)[3])
{
    return fmaf(r[CP], d[1], r[SP] * d[0]);
}

__device__ __forceinline__ float rotated_z(const float (&r)[ANGLES], const float (&d)[3])
{
    return fmaf(r[CT], d[2], fmaf(-(r[ST] * r[SP]), d[1], (r[ST] * r[CP]) * d[0]));
}

// Returns true if a cell of the middle takes the undamped flux of an index.
__device__ __forceinline__ bool is_taken(const Zone &zone, int index)
{
    return index >= zone.middle - HALF_WIDTH && index < zone.middle_end + HALF_WIDTH - 1;
}

// Computes the fluxes of a tile.
template <bool PLAIN>
__device__ __forceinline__ void fluxes(const Tilted &k, const Tile &tile, Planes<2> &s)
{
    enum { FIRST = 1 - HALF_WIDTH, LAST = HALF_WIDTH };
    const Place<PLAIN> place(k, tile);
    const int x = place.x, z = place.z;
    float queue[2][ROWS][2][TAPS];
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
    for (int y = FIRST; y < LAST; y++) {
        load(tile.y + y);
        enter_all();
    }
    load(tile.y + LAST);
    load_around(tile.y);
#pragma unroll 1
    for (int y = tile.y; y < tile.end; y++) {
        float2 angles[ROWS][ANGLES], old[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!place.updates(x + r))
                continue;
            old[r] = fetch_once(k.flux[2], position(k, x + r, y, z), true);
#pragma unroll
            for (int n = 0; n < ANGLES; n++)
                angles[r][n] = coefficient<PLAIN>(k, n, x + r, y, z);
        }
        enter_all();
        __syncthreads(); // all threads have read the plane before
#pragma unroll
        for (int n = 0; n < 2; n++) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                pair(s.f[n][HALF_WIDTH + place.first_row + r][HALF_WIDTH + place.cell]) =
                    make_float2(queue[n][r][0][-FIRST], queue[n][r][1][-FIRST]);
            pair(s.f[n][place.side_row][HALF_WIDTH + place.cell]) = side[n];
            if (place.has_end)
                pair(s.f[n][HALF_WIDTH + place.end_row][place.end_cell]) = end[n];
        }
        __syncthreads();
        if (y + 1 < tile.end) {
            load(y + 1 + LAST);
            load_around(y + 1);
        }
        const int slot_y = slot(k, 1, y);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!place.updates(x + r))
                continue;
            const int row = HALF_WIDTH + place.first_row + r, cell = HALF_WIDTH + place.cell;
            float p[2][3], q[2][3], u[2], v[2], w[2];
            derivatives<FIRST>(k, s.f[0], row, cell, queue[0][r], p);
            derivatives<FIRST>(k, s.f[1], row, cell, queue[1][r], q);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float here[ANGLES];
#pragma unroll
                for (int n = 0; n < ANGLES; n++)
                    here[n] = c ? angles[r][n].y : angles[r][n].x;
                u[c] = rotated_x(here, p[c]), v[c] = rotated_y(here, p[c]);
                const float before = c ? old[r].y : old[r].x;
                const float rate = PLAIN ? k.axis[2].rate : __ldg(k.axis[2].velocity_rate + z + c);
                w[c] = fmaf(-rate, rotated_z(here, q[c]), PLAIN ? before : __ldg(k.axis[2].keep + z + c) * before);
            }
            const unsigned at = position(k, x + r, y, z);
            place.write(k.flux[2], at, w);
            if (PLAIN || is_taken(k.zone[0], x + r))
                place.write(k.flux[0], at, u);
            if (PLAIN || is_taken(k.zone[1], y))
                place.write(k.flux[1], at, v);
            const auto damp = [&](int axis, int index, unsigned at, float (&values)[2]) {
                const float2 before = fetch_once(k.damped[axis], at, true);
                const float keep = __ldg(k.axis[axis].keep + index), rate = __ldg(k.axis[axis].velocity_rate + index);
                values[0] = fmaf(-rate, values[0], keep * before.x);
                values[1] = fmaf(-rate, values[1], keep * before.y);
                place.write(k.damped[axis], at, values);
            };
            const int slot_x = slot(k, 0, x + r);
            if (!PLAIN && slot_x >= 0)
                damp(0, x + r, (y * k.slots + slot_x) * k.pitch + z, u);
            if (slot_y >= 0)
                damp(1, y, slot_y * k.plane + (x + r) * k.pitch + z, v);
        }
    }
}

// Returns the increment of a split pressure from the divergence of its flux. `split`: null outside the layers.
__device__ __forceinline__ float increment(const Axis &axis, int index, float modulus, float divergence, float *split)
{
    float c = 0.0f - (modulus * __ldg(axis.pressure_rate + index)) * divergence;
    if (split != nullptr) {
        const float old = *split;
        c = fmaf(__ldg(axis.loss + index), old, c);
        *split = old + c;
    }
    return c;
}

// Computes the pressures of a tile. Returns the bits of all that a thread has computed.
template <bool PLAIN>
__device__ __forceinline__ unsigned pressures(const Tilted &k, const Tile &tile, const Source &source,
                                              Planes<4> &s)
{
    // Planes in shared memory; the queue has the one of U and DAMPED_U that a row takes.
    enum { U, V, W, DAMPED_U };
    enum { FIRST = -HALF_WIDTH, LAST = HALF_WIDTH - 1 };
    const Place<PLAIN> place(k, tile);
    const int x = place.x, z = place.z, nx = place.nx, nz = place.nz;
    const bool pml_x = !PLAIN && (tile.kind & X_PML) != 0, pml_y = !PLAIN && (tile.kind & Y_PML) != 0;
    const auto is_damped = [&](int row) { return pml_x && !in_middle(k, 0, row); };
    const auto load_u = [&](bool damped, int row, int y, int z, bool there) {
        const int nth = damped ? slot(k, 0, row) : 0;
        return damped ? fetch(k.damped[0], (y * k.slots + nth) * k.pitch + z, there && nth >= 0)
                      : fetch(k.flux[0], position(k, row, y, z), there);
    };
    const auto load_v = [&](int row, int y) {
        const int nth = pml_y ? slot(k, 1, y) : 0;
        return fetch(pml_y ? k.damped[1] : k.flux[1], position(k, row, pml_y ? nth : y, z), place.there(row) && nth >= 0);
    };
    float queue[3][ROWS][2][TAPS];
    float2 coming[3][ROWS], side[4], end_u, end_w, other[ROWS];
    const auto load = [&](int y) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            coming[U][r] = load_u(is_damped(x + r), x + r, y, z, place.there(x + r));
            coming[V][r] = load_v(x + r, y);
            coming[W][r] = fetch(k.flux[2], position(k, x + r, y, z), place.there(x + r));
        }
    };
    const auto load_around = [&](int y) {
        const int row = place.side_x;
        side[U] = load_u(false, row, y, z, place.there(row));
        side[V] = load_v(row, y);
        side[W] = fetch(k.flux[2], position(k, row, y, z), place.there(row));
        end_u = load_u(is_damped(place.end_x), place.end_x, y, place.end_z, place.end_there);
        end_w = fetch(k.flux[2], position(k, place.end_x, y, place.end_z), place.end_there);
        if (pml_x) {
            side[DAMPED_U] = load_u(true, row, y, z, place.there(row));
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                other[r] = load_u(!is_damped(x + r), x + r, y, z, place.there(x + r));
        }
    };
    const auto enter_all = [&]() {
#pragma unroll
        for (int n = 0; n < 3; n++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                enter(queue[n][r], coming[n][r]);
    };
#pragma unroll
    for (int y = FIRST; y < LAST; y++) {
        load(tile.y + y);
        enter_all();
    }
    load(tile.y + LAST);
    load_around(tile.y);
    unsigned seen = 0;
#pragma unroll 1
    for (int y = tile.y; y < tile.end; y++) {
        float2 angles[ROWS][ANGLES], modulus[ROWS], mixing[ROWS][2], d[ROWS], p[ROWS][2];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!place.updates(x + r))
                continue;
            const unsigned at = position(k, x + r, y, z);
            d[r] = fetch_once(k.d, at, true);
#pragma unroll
            for (int n = 0; n < 2; n++)
                p[r][n] = fetch_once(k.next[n], at, true), mixing[r][n] = coefficient<PLAIN>(k, E + n, x + r, y, z);
            modulus[r] = coefficient<PLAIN>(k, MODULUS, x + r, y, z);
#pragma unroll
            for (int n = 0; n < ANGLES; n++)
                angles[r][n] = coefficient<PLAIN>(k, n, x + r, y, z);
        }
        enter_all();
        __syncthreads(); // all threads have read the plane before
        const int cell = HALF_WIDTH + place.cell;
        const auto put = [&](int n, int row, float2 values) { pair(s.f[n][row][cell]) = values; };
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int row = HALF_WIDTH + place.first_row + r;
            const auto own = [&](int n) { return make_float2(queue[n][r][0][-FIRST], queue[n][r][1][-FIRST]); };
            const bool damped = is_damped(x + r);
            put(damped ? DAMPED_U : U, row, own(U));
            if (pml_x)
                put(damped ? U : DAMPED_U, row, other[r]);
            put(V, row, own(V)), put(W, row, own(W));
        }
        put(U, place.side_row, side[U]), put(V, place.side_row, side[V]), put(W, place.side_row, side[W]);
        if (pml_x)
            put(DAMPED_U, place.side_row, side[DAMPED_U]);
        if (place.has_end) {
            const int row = HALF_WIDTH + place.end_row;
            pair(s.f[is_damped(place.end_x) ? DAMPED_U : U][row][place.end_cell]) = end_u;
            pair(s.f[W][row][place.end_cell]) = end_w;
        }
        __syncthreads();
        if (y + 1 < tile.end) {
            load(y + 1 + LAST);
            load_around(y + 1);
        }
        const unsigned both = 2 * (k.pml - HALF_WIDTH);
        const int layer_y = in_layer(k, 1, y);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!place.updates(x + r))
                continue;
            const int row = HALF_WIDTH + place.first_row + r, layer_x = in_layer(k, 0, x + r);
            const bool damped = is_damped(x + r);
            float of_u[2][3], of_v[2][3], of_w[2][3], undamped[2], after[2][2];
            derivatives<FIRST>(k, s.f[damped ? DAMPED_U : U], row, cell, queue[U][r], of_u);
            derivatives<FIRST>(k, s.f[V], row, cell, queue[V][r], of_v);
            derivatives<FIRST>(k, s.f[W], row, cell, queue[W][r], of_w);
#pragma unroll
            for (int c = 0; c < 2; c++) {
                undamped[c] = c ? d[r].y : d[r].x;
                after[0][c] = c ? p[r][0].y : p[r][0].x, after[1][c] = c ? p[r][1].y : p[r][1].x;
                if (!PLAIN && z + c >= nz - HALF_WIDTH)
                    continue;
                float here[ANGLES];
#pragma unroll
                for (int n = 0; n < ANGLES; n++)
                    here[n] = c ? angles[r][n].y : angles[r][n].x;
                const float m = c ? modulus[r].y : modulus[r].x;
                const float u = rotated_x(here, of_u[c]), v = rotated_y(here, of_v[c]), w = rotated_z(here, of_w[c]);
                if (!(damped && pml_y)) {
                    float a = k.squares[0] * u;
                    if (damped)
                        a = k.squares[1] * v;
                    else if (!pml_y)
                        a = fmaf(k.squares[1], v, a);
                    undamped[c] = fmaf(m, a, undamped[c]);
                }
                // Without an undamped flux it has the poles of a source alone.
                float horizontal = undamped[c];
                if (pml_y) {
                    float *split = k.split[1] + (layer_y * k.plane + (x + r) * k.pitch + z + c);
                    horizontal += increment(k.axis[1], y, m, v, layer_y < 0 ? nullptr : split);
                }
                if (damped) {
                    float *split = k.split[0] + ((y * both + layer_x) * k.pitch + z + c);
                    horizontal += increment(k.axis[0], x + r, m, u, layer_x < 0 ? nullptr : split);
                }
                float vertical = 0.0f - (m * k.axis[2].rate) * w;
                if (!PLAIN) {
                    const int layer_z = in_layer(k, 2, z + c);
                    float *split = k.split[2] + ((y * nx + x + r) * both + layer_z);
                    vertical = increment(k.axis[2], z + c, m, w, layer_z < 0 ? nullptr : split);
                }
                float es[2] = {c ? mixing[r][0].y : mixing[r][0].x, c ? mixing[r][1].y : mixing[r][1].x};
                if (!PLAIN)
                    adapt(k.cube, x + r, y, z + c, es);
                const bool has_source = !PLAIN && z + c == source.z && x + r == source.x && y == source.y;
                if (has_source && source.there)
                    after[0][c] = source.clean[0], after[1][c] = source.clean[1];
                after[0][c] += fmaf(es[0], horizontal, es[1] * vertical);
                after[1][c] += fmaf(es[1], horizontal, vertical);
                if (has_source && source.put)
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        source.next_clean[n] = after[n][c];
                        after[n][c] = Tti::with_source(after[n][c], 0, *source.value);
                    }
                seen |= __float_as_uint(after[0][c]) | __float_as_uint(after[1][c]);
            }
            const unsigned at = position(k, x + r, y, z);
            place.write(k.d, at, undamped);
            place.write(k.next[0], at, after[0]);
            place.write(k.next[1], at, after[1]);
        }
    }
    return seen;
}

// Returns true if no axis stores fluxes in a tile.
__device__ __forceinline__ bool is_plain(const Tilted &, const Tile &tile)
{
    return tile.kind == 0;
}

#include "tilted_stages.cuh"

typedef Planes<2> PressurePlanes;
typedef Planes<4> FluxPlanes;
STAGES(tti_old, 4x2, Tilted, PressurePlanes, 3, FluxPlanes, 2)
