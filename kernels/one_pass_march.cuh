// The march of a block through its tile, of acoustic1_one_pass.cu.

// Position of a cell in a field.
__device__ __forceinline__ unsigned position(const OnePass &k, int x, int y, int z)
{
    return y * k.plane + x * k.pitch + z;
}

// Two values, or zeros if they are not there.
template <class Pair = float2> __device__ __forceinline__ Pair fetch(const void *from, unsigned at, bool there)
{
    return there ? __ldg(static_cast<const Pair *>(from) + at / 2) : Pair();
}

// Two coefficients, as they are kept.
__device__ __forceinline__ float2 values(const Scale &, float2 stored)
{
    return stored;
}

__device__ __forceinline__ float2 values(const Scale &scale, ushort2 stored)
{
    return make_float2(fmaf(float(stored.x), scale.step, scale.low), fmaf(float(stored.y), scale.step, scale.low));
}

__device__ __forceinline__ float2 &pair(float &first)
{
    return reinterpret_cast<float2 &>(first);
}

// The derivative between the fourth and the fifth of eight values of a line.
template <int N> __device__ __forceinline__ float derivative_from(const OnePass &k, const float (&line)[N], int begin)
{
    float f[8];
#pragma unroll
    for (int m = 0; m < 8; m++)
        f[m] = line[begin + m];
    return derivative(k, f);
}

// A pressure with a pole of the source in it.
__device__ __forceinline__ float with_source(float p, int pole, float value)
{
    return p + (pole ? value : -value);
}

// Returns the slot of a PML velocity of an axis; negative if none is stored.
__device__ __forceinline__ int slot(const OnePass &k, int axis, int index)
{
    const Zone &zone = k.zone[axis];
    if (index < HALF_WIDTH || index >= k.axis[axis].n - HALF_WIDTH)
        return -1;
    return index < zone.near_end     ? index - HALF_WIDTH
           : index >= zone.far_begin ? zone.near_end - HALF_WIDTH + index - zone.far_begin
                                     : -1;
}

__device__ __forceinline__ bool in_middle(const OnePass &k, int axis, int index)
{
    return index >= k.zone[axis].middle && index < k.zone[axis].middle_end;
}

// A PML velocity after a step, from the one before it and the flux.
__device__ __forceinline__ float moved(const Axis &axis, int index, float old, float q)
{
    return fmaf(-__ldg(axis.velocity_rate + index), q, __ldg(axis.keep + index) * old);
}

__device__ __forceinline__ float2 moved(const Axis &axis, int index, float2 old, float2 q)
{
    return make_float2(moved(axis, index, old.x, q.x), moved(axis, index, old.y, q.y));
}

// The increment from the derivative of PML velocities. `split`: the split pressure, null outside the layers.
__device__ __forceinline__ float increment(const Axis &axis, int index, float kappa, float derivative, float *split)
{
    float c = -((kappa * __ldg(axis.pressure_rate + index)) * derivative);
    if (split != nullptr) {
        const float old = *split;
        c = fmaf(__ldg(axis.loss + index), old, c);
        *split = old + c;
    }
    return c;
}

template <class S, class Pair, int KIND>
__device__ __forceinline__ void march(const OnePass &k, const Tile &tile, const Source &source, Plane<S, Pair> &s)
{
    enum { ROWS = S::ROWS };
    const bool late = KIND != 0, ahead = S::PREFETCH_DISTANCE > 0 && !late;
    const bool pml_x = KIND & X_PML, pml_y = KIND & Y_PML, pml_z = KIND & Z_PML;
    const int lane = threadIdx.x, warp = threadIdx.y, thread = 32 * warp + lane;
    const int nx = k.axis[0].n, ny = k.axis[1].n, nz = k.axis[2].n;
    const int first_row = ROWS * warp;
    int x = tile.x + first_row, z = tile.z + 2 * lane;
#define tile_x (x - first_row)
#define tile_z (z - 2 * lane)
#define in_row (!pml_z || z < int(k.pitch))
    const float square_x = k.axis[0].rate * k.axis[0].rate, square_y = k.axis[1].rate * k.axis[1].rate;
    const float square_z = k.axis[2].rate * k.axis[2].rate;

    // Rows before the tile and after it, one a warp; and cells before and after its rows, four rows a warp.
    const int beside_cell = (lane & 7) < 4 ? 2 * (lane & 7) - 8 : Z + 2 * (lane & 7) - 8;
    const int beside_its = 4 * warp + (lane >> 3);
    // Whether a thread has so many rows of fluxes along x.
    const auto in_flux = [&](int i) {
        return (S::WARPS - 1) * S::FLUX + i < S::X + 7 || warp * S::FLUX + i < S::X + 7;
    };
    // Fluxes along z beside the tile: the first of a pair.
    const int beside_row = thread >> 2, beside = (thread & 3) < 2 ? 2 * (thread & 3) - 4 : Z + 2 * (thread & 3) - 4;
    const bool has_beside = thread < 4 * S::X;

    // Positions in the planes that the march is at, of this thread's first row.
    const auto column = [&](int x) { return unsigned(pml_x ? nearest(k, 0, x) : x - k.pml); };
    const auto depth = [&](int y) { return unsigned(pml_y ? nearest(k, 1, y) : y - k.pml); };
    const auto fetch_b = [&](int y, int x, int z, bool there) {
        return fetch<Pair>(k.b, depth(y) * k.b_step[1] + column(x) * k.b_step[0] + z, there && in_row);
    };

    float p[ROWS][2][8], q[ROWS][2][8]; // of the planes from this one on; along y, from four before it on
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int m = 0; m < 8; m++)
            p[r][0][m] = p[r][1][m] = q[r][0][m] = q[r][1][m] = 0.0f;
    const auto ask_p = [&](float2 (&coming)[ROWS], int y) {
        const bool there = !pml_y || unsigned(y) < unsigned(ny);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            coming[r] = fetch(k.p, position(k, x + r, y, z), there && in_row && (!pml_x || x + r < nx));
    };
    const auto ask_b = [&](Pair (&b)[ROWS], int y) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            b[r] = fetch_b(y, x + r, z, true);
    };
    // Moves on by a plane of the pressure, whose last is then seven planes after this one.
    const auto enter = [&](const float2 (&coming)[ROWS]) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int m = 0; m < 7; m++)
                p[r][0][m] = p[r][0][m + 1], p[r][1][m] = p[r][1][m + 1];
            p[r][0][7] = coming[r].x, p[r][1][7] = coming[r].y;
        }
    };
    // And by one of b times the derivative along y, or of the velocity, of index `y`.
    const auto flux_y = [&](int y, const Pair (&b_pairs)[ROWS]) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float2 b = values(k.b_scale, b_pairs[r]);
            const float2 flux = make_float2(b.x * derivative(k, p[r][0]), b.y * derivative(k, p[r][1]));
            float2 v = flux;
            if (pml_y) {
                const int nth = slot(k, 1, y);
                v = make_float2(0.0f, 0.0f);
                if (nth >= 0 && x + r < nx - HALF_WIDTH && z < nz - HALF_WIDTH) {
                    const unsigned to = nth * k.plane + (x + r) * k.pitch + z;
                    v = moved(k.axis[1], y, fetch(k.velocity_old[1], to, true), flux);
                    if (y >= tile.keep && y < tile.keep_end)
                        pair(k.velocity_new[1][to]) = v;
                }
            }
#pragma unroll
            for (int m = 0; m < 7; m++)
                q[r][0][m] = q[r][0][m + 1], q[r][1][m] = q[r][1][m + 1];
            q[r][0][7] = v.x, q[r][1][7] = v.y;
        }
    };

    // What the next plane needs is on its way while one is computed.
    float2 coming[ROWS], rows[2][S::HALO], cells;
    Pair coming_b[ROWS];
    const auto ask_around = [&](int y) {
#pragma unroll
        for (int i = 0; i < S::HALO; i++) {
#pragma unroll
            for (int side = 0; side < 2; side++) {
                const int row = tile_x + side * (S::X + 7) - 7 + warp + i * S::WARPS;
                const bool there = warp + i * S::WARPS < 7 && in_row && (!pml_x || unsigned(row) < unsigned(nx));
                rows[side][i] = fetch(k.p, position(k, row, y, z), there);
            }
        }
        const bool there = (!pml_x || tile_x + beside_its < nx) && (!pml_z || unsigned(tile_z + beside_cell) < k.pitch);
        cells = fetch(k.p, position(k, tile_x + beside_its, y, tile_z + beside_cell), warp < S::X / 4 && there);
    };
    // Or some planes are: each thread copies for itself what it alone needs, so it has nobody to wait for. The copies of
    // a plane are a group, empty beyond the tile, so that the count of groups that may be on their way stays the same.
    const auto own = [&](int y) -> Own<S, Pair> & { return s.coming[unsigned(y) % S::PLACES]; };
    const auto begin_copies = [&](int y) {
        if (y < tile.end) {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const unsigned b = depth(y + 3) * k.b_step[1] + column(x + r) * k.b_step[0] + z;
                const unsigned kappa = depth(y) * k.kappa_step[1] + column(x + r) * k.kappa_step[0] + z;
                begin_copy(own(y).p[r][thread], reinterpret_cast<const float2 *>(k.p + position(k, x + r, y + 7, z)));
                begin_copy(own(y).b[r][thread], static_cast<const Pair *>(k.b) + b / 2);
                begin_copy(own(y).kappa[r][thread], static_cast<const Pair *>(k.kappa) + kappa / 2);
                begin_copy(own(y).d[r][thread], reinterpret_cast<const float2 *>(k.d + position(k, x + r, y, z)));
            }
        }
        end_group();
    };
    if (ahead) {
#pragma unroll
        for (int i = 0; i < S::PREFETCH_DISTANCE; i++)
            begin_copies(tile.y + i);
    }
    // The first fluxes, from fourteen planes.
    ask_p(coming, tile.y - 7);
#pragma unroll 1
    for (int y = tile.y - 7; y < tile.y + 7; y++) {
        if (KIND) asm volatile("" : "+r"(x), "+r"(z));
        enter(coming);
        ask_p(coming, y + 1);
        ask_b(coming_b, max(y, tile.y) - 4);
        if (y >= tile.y)
            flux_y(y - 4, coming_b);
    }
    ask_b(coming_b, tile.y + 3);
    ask_around(tile.y);
#pragma unroll 1
    for (int y = tile.y; y < tile.end; y++) {
        if (KIND) asm volatile("" : "+r"(x), "+r"(z));
        Pair b[ROWS], b_x[S::FLUX], b_beside, kappa[ROWS];
        float2 d[ROWS];
        if (ahead) {
            // Read at once, so that the place is free for a later plane.
            wait_for_copies<S::PLACES - 1>();
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                coming[r] = own(y).p[r][thread], coming_b[r] = own(y).b[r][thread];
                kappa[r] = own(y).kappa[r][thread], d[r] = own(y).d[r][thread];
            }
            begin_copies(y + S::PREFETCH_DISTANCE);
        }
        enter(coming);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            pair(s.p[first_row + r + 7][2 * lane + 8]) = make_float2(p[r][0][0], p[r][1][0]);
#pragma unroll
        for (int i = 0; i < S::HALO; i++)
            if (warp + i * S::WARPS < 7) {
                pair(s.p[warp + i * S::WARPS][2 * lane + 8]) = rows[0][i];
                pair(s.p[warp + i * S::WARPS + S::X + 7][2 * lane + 8]) = rows[1][i];
            }
        if (warp < S::X / 4)
            pair(s.p[beside_its + 7][beside_cell + 8]) = cells;
        flux_y(y + 3, coming_b);
        ask_b(b, y);
#pragma unroll
        for (int i = 0; i < S::FLUX; i++)
            b_x[i] = fetch_b(y, tile_x - HALF_WIDTH + S::FLUX * warp + i, z, in_flux(i));
        b_beside = fetch_b(y, tile_x + beside_row, tile_z + beside, has_beside && (!pml_z || unsigned(tile_z + beside) < k.pitch));
        __syncthreads();

        // Fluxes along x, of neighbouring rows.
        float2 line[S::FLUX + 7];
#pragma unroll
        for (int i = 0; i < S::FLUX + 7; i++)
            if (i < 7 || in_flux(i - 7))
                line[i] = pair(s.p[S::FLUX * warp + i][2 * lane + 8]);
#pragma unroll
        for (int i = 0; i < S::FLUX; i++) {
            if (!in_flux(i))
                continue;
            float first[8], second[8];
#pragma unroll
            for (int m = 0; m < 8; m++)
                first[m] = line[i + m].x, second[m] = line[i + m].y;
            const float2 b_here = values(k.b_scale, b_x[i]);
            const float2 flux = make_float2(b_here.x * derivative(k, first), b_here.y * derivative(k, second));
            const int row = S::FLUX * warp + i, j = tile_x - HALF_WIDTH + row;
            pair(s.flux_x[row][2 * lane]) = flux;
            if (pml_x) {
                const int nth = slot(k, 0, j);
                float2 v = make_float2(0.0f, 0.0f);
                if (nth >= 0 && z < nz - HALF_WIDTH) {
                    const unsigned to = (y * k.slots[0] + nth) * k.pitch + z;
                    v = moved(k.axis[0], j, fetch(k.velocity_old[0], to, true), flux);
                    if (j >= tile_x && j < tile_x + S::X)
                        pair(k.velocity_new[0][to]) = v;
                }
                pair(s.velocity.x[row][2 * lane]) = v;
            }
        }

        // What is needed after the next barrier, and for the next plane.
        if (!late && !ahead) {
            ask_p(coming, y + 8);
            ask_b(coming_b, y + 4);
        }
        const auto ask_own = [&](int r) {
            const unsigned of = depth(y) * k.kappa_step[1] + column(x + r) * k.kappa_step[0] + z;
            kappa[r] = fetch<Pair>(k.kappa, of, in_row);
            d[r] = in_row && (!pml_x || x + r < nx) ? pair(k.d[position(k, x + r, y, z)]) : make_float2(0.0f, 0.0f);
        };
        if (!late && !ahead) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                ask_own(r);
        }

        // Fluxes along z, of neighbours from `cell` on.
        const auto flux_z = [&](int row, int cell, Pair b_pair, bool mine) {
            const float2 b = values(k.b_scale, b_pair);
            float f[10];
#pragma unroll
            for (int m = 0; m < 5; m++) {
                const float2 taps = pair(s.p[row + 7][cell + 4 + 2 * m]);
                f[2 * m] = taps.x, f[2 * m + 1] = taps.y;
            }
            const float flux[2] = {b.x * derivative_from(k, f, 1), b.y * derivative_from(k, f, 2)};
            pair(s.flux_z[row][cell + 4]) = make_float2(flux[0], flux[1]);
            if (pml_z) {
                float v[2] = {0.0f, 0.0f};
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int index = tile_z + cell + c, nth = slot(k, 2, index);
                    if (nth >= 0 && (!pml_x || tile_x + row < nx - HALF_WIDTH)) {
                        const unsigned to = (y * nx + tile_x + row) * k.slots[1] + nth;
                        v[c] = moved(k.axis[2], index, __ldg(k.velocity_old[2] + to), flux[c]);
                        if (mine)
                            k.velocity_new[2][to] = v[c];
                    }
                }
                pair(s.velocity.z[row][cell + 4]) = make_float2(v[0], v[1]);
            }
        };
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            flux_z(first_row + r, 2 * lane, b[r], true);
        if (has_beside)
            flux_z(beside_row, beside, b_beside, false);
        if (!late)
            ask_around(y + 1);
        __syncthreads();

        // The pressure.
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (pml_x && x + r >= nx - HALF_WIDTH)
                continue;
            if (pml_z && z >= nz - HALF_WIDTH)
                continue;
            if (late)
                ask_own(r);
            const bool middle_x = !pml_x || in_middle(k, 0, x + r);
            float x_taps[2][8], z_taps[10];
#pragma unroll
            for (int m = 0; m < 8; m++) {
                const int row = first_row + r + m;
                const float2 taps = pair(middle_x ? s.flux_x[row][2 * lane] : s.velocity.x[row][2 * lane]);
                x_taps[0][m] = taps.x, x_taps[1][m] = taps.y;
            }
#pragma unroll
            for (int m = 0; m < 5; m++) {
                const float2 taps = pair(s.flux_z[first_row + r][2 * lane + 2 * m]);
                z_taps[2 * m] = taps.x, z_taps[2 * m + 1] = taps.y;
            }
            const float2 now = pair(s.p[first_row + r + 7][2 * lane + 8]);
            const float2 both_kappas = values(k.kappa_scale, kappa[r]);
            float after[2], undamped[2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
                after[c] = c ? now.y : now.x, undamped[c] = c ? d[r].y : d[r].x;
                if (pml_z && z + c >= nz - HALF_WIDTH)
                    continue;
                const float kappa_here = c ? both_kappas.y : both_kappas.x;
                const bool middle_z = !pml_z || in_middle(k, 2, z + c);
                const float derivative_y = derivative(k, q[r][c]), derivative_x = derivative(k, x_taps[c]);
                float a = pml_y ? 0.0f : square_y * derivative_y;
                if (middle_x)
                    a = fmaf(square_x, derivative_x, a);
                if (middle_z)
                    a = fmaf(square_z, derivative_from(k, z_taps, c), a);
                undamped[c] = fmaf(kappa_here, a, undamped[c]);
                float all = undamped[c];
                const unsigned both = 2 * (k.pml - HALF_WIDTH);
                if (pml_y) {
                    const int layer = in_layer(k, 1, y);
                    float *split = k.split[1] + (layer * k.plane + (x + r) * k.pitch + z + c);
                    all += increment(k.axis[1], y, kappa_here, derivative_y, layer < 0 ? nullptr : split);
                }
                if (!middle_x) {
                    const int layer = in_layer(k, 0, x + r);
                    float *split = k.split[0] + ((y * both + layer) * k.pitch + z + c);
                    all += increment(k.axis[0], x + r, kappa_here, derivative_x, layer < 0 ? nullptr : split);
                }
                if (!middle_z) {
                    const int layer = in_layer(k, 2, z + c);
                    float taps[8];
#pragma unroll
                    for (int m = 0; m < 8; m++)
                        taps[m] = s.velocity.z[first_row + r][2 * lane + c + m];
                    float *split = k.split[2] + ((y * nx + x + r) * both + layer);
                    all += increment(k.axis[2], z + c, kappa_here, derivative(k, taps), layer < 0 ? nullptr : split);
                }
                const int pole = z + c == source.z ? 0 : z + c == source.z + APART ? 1 : -1;
                const bool has_source = pml_x && pole >= 0 && x + r == source.x && y == source.y;
                if (has_source && source.there)
                    after[c] = source.clean[pole];
                after[c] += all;
                if (has_source && source.put) {
                    source.next_clean[pole] = after[c];
                    after[c] = with_source(after[c], pole, *source.value);
                }
            }
            pair(k.d[position(k, x + r, y, z)]) = make_float2(undamped[0], undamped[1]);
            pair(k.next[position(k, x + r, y, z)]) = make_float2(after[0], after[1]);
        }
        if (late) {
            ask_p(coming, y + 8);
            ask_b(coming_b, y + 4);
            ask_around(y + 1);
        }
    }
}
