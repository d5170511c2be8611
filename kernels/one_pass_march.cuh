// The march of a block through its tile, for one_pass.cuh. Returns the bits of all pressures that a thread has computed.
#pragma once

template <class Equation, class Pair, int KIND>
__device__ __forceinline__ unsigned march(const OnePass &k, const Tile &tile, const Source &source, Plane<Equation> &s)
{
    enum { N = Equation::PRESSURES, LAST = N - 1, MARGIN = Plane<Equation>::MARGIN };
    const bool late = KIND != 0;
    const bool pml_x = KIND & X_PML, pml_y = KIND & Y_PML, pml_z = KIND & Z_PML;
    const int lane = threadIdx.x % LANES, group = (32 * threadIdx.y + threadIdx.x) / LANES;
    const int nx = k.axis[0].n, ny = k.axis[1].n, nz = k.axis[2].n;
    const int first_row = ROWS * group;
    int x = tile.x + first_row, z = tile.z + 2 * lane;
#define tile_x (x - first_row)
#define tile_z (z - 2 * lane)
#define in_row (!pml_z || z < int(k.pitch))
    const float square_x = k.axis[0].rate * k.axis[0].rate, square_y = k.axis[1].rate * k.axis[1].rate;
    const float square_z = k.axis[2].rate * k.axis[2].rate;

    // Rows before the tile and after it, one a group; and cells before and after its rows, eight threads
    // a row.
    const int beside_cell = (lane & 7) < 4 ? 2 * (lane & 7) - 8 : Z + 2 * (lane & 7) - 8;
    const auto beside_its = [&](int i) { return 2 * group + (lane >> 3) + i * (THREADS / 8); };
    // Returns true if a thread has so many rows of fluxes along x.
    const auto in_flux = [&](int i) {
        return (GROUPS - 1) * FLUX + i < X + 7 || group * FLUX + i < X + 7;
    };
    // Fluxes along z beside the tile: the first of a pair.
    const int beside_row = 4 * group + (lane >> 2), beside = (lane & 3) < 2 ? 2 * (lane & 3) - 4 : Z + 2 * (lane & 3) - 4;
    const bool has_beside = group < 4 * X / LANES;

    // Places in the coefficients.
    const auto column = [&](int x) { return unsigned(pml_x ? nearest(k, 0, x) : x - k.pml); };
    const auto depth = [&](int y) { return unsigned(pml_y ? nearest(k, 1, y) : y - k.pml); };
    const auto place = [&](int number, int y, int x, int z) {
        return depth(y) * k.steps[number][1] + column(x) * k.steps[number][0] + z;
    };
    const auto load_b = [&](int y, int x, int z, bool there) {
        return fetch<Pair>(k.coefficients[B], place(B, y, x, z), there && in_row);
    };
    // Where density varies, coefficients B give 1/rho at half points. Cells to the second cell of a half point.
    const bool varies = k.beside >= 0;
    const int step = max(k.beside, 0);
    // Loads the coefficients of a row of fluxes along x, or of the row after the last.
    const auto load_b_x = [&](int y, int i) {
        const bool there = (i < FLUX && in_flux(i)) || (i > 0 && in_flux(i - 1) && step);
        return load_b(y, tile_x - HALF_WIDTH + FLUX * group + i, z, there);
    };
    // The coefficient after a pair along z, which lies beside one that was loaded.
    const auto load_b_after = [&](int y, int x, int z, bool there) {
        return value(k.scales[B], fetch_one<Pair>(k.coefficients[B], place(B, y, x, z) + 2, there && in_row && step));
    };

    // The first pressure, of the planes from this one on; fluxes along y, of those from four before
    // it on.
    float p[ROWS][2][8], fluxes[ROWS][2][8];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int m = 0; m < 8; m++)
            p[r][0][m] = p[r][1][m] = fluxes[r][0][m] = fluxes[r][1][m] = 0.0f;
    const auto load_p = [&](float2 (&coming)[ROWS], int y) {
        const bool there = !pml_y || unsigned(y) < unsigned(ny);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            coming[r] = fetch(k.p[0], position(k, x + r, y, z), there && in_row && (!pml_x || x + r < nx));
    };
    const auto load_b_rows = [&](Pair (&b)[ROWS], int y) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            b[r] = load_b(y, x + r, z, true);
    };
    // Moves on by a plane of the first pressure, whose last is then seven planes after this one.
    const auto enter = [&](const float2 (&coming)[ROWS]) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int m = 0; m < 7; m++)
                p[r][0][m] = p[r][0][m + 1], p[r][1][m] = p[r][1][m + 1];
            p[r][0][7] = coming[r].x, p[r][1][7] = coming[r].y;
        }
    };
    // Moves on by a plane of 1/rho times the derivative along y, or of the velocity, of index `y`, with the coefficients
    // of plane `y + step`. Those of plane `y` are loaded again, which takes fewer registers than to keep them.
    const auto flux_y = [&](int y, const Pair (&b_pairs)[ROWS]) {
        float2 b[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            b[r] = values(k.scales[B], b_pairs[r]);
        if (varies) {
            Pair before[ROWS];
            load_b_rows(before, y);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                b[r] = halfway(values(k.scales[B], before[r]), b[r]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const float2 flux = make_float2(b[r].x * derivative(k, p[r][0]), b[r].y * derivative(k, p[r][1]));
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
                fluxes[r][0][m] = fluxes[r][0][m + 1], fluxes[r][1][m] = fluxes[r][1][m + 1];
            fluxes[r][0][7] = v.x, fluxes[r][1][7] = v.y;
        }
    };

    // The data of the next plane are on their way while one is computed.
    float2 coming[ROWS], coming_q[ROWS], rows[2], cells[BESIDE];
    Pair coming_b[ROWS];
    const auto load_around = [&](int y) {
#pragma unroll
        for (int side = 0; side < 2; side++) {
            const int row = tile_x + side * (X + 7) - 7 + group;
            const bool there = group < 7 && in_row && (!pml_x || unsigned(row) < unsigned(nx));
            rows[side] = fetch(k.p[0], position(k, row, y, z), there);
        }
#pragma unroll
        for (int i = 0; i < BESIDE; i++) {
            const int row = tile_x + beside_its(i);
            const bool there = (!pml_x || row < nx) && (!pml_z || unsigned(tile_z + beside_cell) < k.pitch);
            cells[i] = fetch(k.p[LAST], position(k, row, y, tile_z + beside_cell), there);
        }
        if (N == 2) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                coming_q[r] = fetch(k.p[LAST], position(k, x + r, y, z), in_row && (!pml_x || x + r < nx));
        }
    };
    // The first fluxes, from fourteen planes.
    load_p(coming, tile.y - 7);
#pragma unroll 1
    for (int y = tile.y - 7; y < tile.y + 7; y++) {
        if (KIND) asm volatile("" : "+r"(x), "+r"(z));
        enter(coming);
        load_p(coming, y + 1);
        load_b_rows(coming_b, max(y, tile.y) - 4 + step);
        if (y >= tile.y)
            flux_y(y - 4, coming_b);
    }
    if (!late)
        load_b_rows(coming_b, tile.y + 3 + step);
    load_around(tile.y);
    unsigned seen = 0;
#pragma unroll 1
    for (int y = tile.y; y < tile.end; y++) {
        if (KIND) asm volatile("" : "+r"(x), "+r"(z));
        // `others`: the coefficients of the update.
        Pair b[ROWS], b_x[FLUX], b_beside, others[ROWS][2 * N - 1];
        float2 d[ROWS][N];
        if (late)
            load_b_rows(coming_b, y + 3 + step);
        enter(coming);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            pair(s.p[first_row + r + 7][2 * lane + MARGIN]) = make_float2(p[r][0][0], p[r][1][0]);
            if (N == 2)
                pair(s.along_z(first_row + r)[2 * lane + 8]) = coming_q[r];
        }
        if (group < 7) {
            pair(s.p[group][2 * lane + MARGIN]) = rows[0];
            pair(s.p[group + X + 7][2 * lane + MARGIN]) = rows[1];
        }
#pragma unroll
        for (int i = 0; i < BESIDE; i++)
            pair(s.along_z(beside_its(i))[beside_cell + 8]) = cells[i];
        flux_y(y + 3, coming_b);
        const bool beside_there = has_beside && (!pml_z || unsigned(tile_z + beside) < k.pitch);
        const auto load_b_z = [&] {
            load_b_rows(b, y);
            b_beside = load_b(y, tile_x + beside_row, tile_z + beside, beside_there);
        };
        if (!late)
            load_b_z();
#pragma unroll
        for (int i = 0; i < FLUX; i++)
            b_x[i] = load_b_x(y, i);
        __syncthreads();

        // Fluxes along x, of neighbouring rows.
        float2 line[FLUX + 7];
#pragma unroll
        for (int i = 0; i < FLUX + 7; i++)
            if (i < 7 || in_flux(i - 7))
                line[i] = pair(s.p[FLUX * group + i][2 * lane + MARGIN]);
        float2 b_here[FLUX];
#pragma unroll
        for (int i = 0; i < FLUX; i++)
            b_here[i] = values(k.scales[B], b_x[i]);
        if (varies) {
#pragma unroll
            for (int i = 0; i < FLUX; i++)
                b_here[i] = halfway(b_here[i], !step                ? b_here[i]
                                               : i + 1 < FLUX ? b_here[i + 1]
                                                                     : values(k.scales[B], load_b_x(y, i + 1)));
        }
#pragma unroll
        for (int i = 0; i < FLUX; i++) {
            if (!in_flux(i))
                continue;
            float first[8], second[8];
#pragma unroll
            for (int m = 0; m < 8; m++)
                first[m] = line[i + m].x, second[m] = line[i + m].y;
            const float2 flux = make_float2(b_here[i].x * derivative(k, first), b_here[i].y * derivative(k, second));
            const int row = FLUX * group + i, j = tile_x - HALF_WIDTH + row;
            pair(s.flux_x[row][2 * lane]) = flux;
            if (pml_x) {
                const int nth = slot(k, 0, j);
                float2 v = make_float2(0.0f, 0.0f);
                if (nth >= 0 && z < nz - HALF_WIDTH) {
                    const unsigned to = (y * k.slots[0] + nth) * k.pitch + z;
                    v = moved(k.axis[0], j, fetch(k.velocity_old[0], to, true), flux);
                    if (j >= tile_x && j < tile_x + X)
                        pair(k.velocity_new[0][to]) = v;
                }
                pair(s.velocity.x[row][2 * lane]) = v;
            }
        }

        // The data that are used after the next barrier, and for the next plane.
        if (!late) {
            load_p(coming, y + 8);
            load_b_rows(coming_b, min(y + 4, tile.end + 2) + step);
        }
        const auto load_own = [&](int r) {
#pragma unroll
            for (int number = KAPPA; number < 2 * N; number++)
                others[r][number - KAPPA] =
                    fetch_once<Pair>(k.coefficients[number], place(number, y, x + r, z), in_row);
            const bool there = in_row && (!pml_x || x + r < nx);
#pragma unroll
            for (int number = 0; number < N; number++)
                d[r][number] = fetch_once(k.d[number], position(k, x + r, y, z), there);
        };
        if (!late) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                load_own(r);
        }

        // Fluxes along z, of neighbours from `cell` on.
        const auto flux_z = [&](int row, int cell, float2 b, bool mine) {
            float f[10];
#pragma unroll
            for (int m = 0; m < 5; m++) {
                const float2 taps = pair(s.along_z(row)[cell + 4 + 2 * m]);
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
        if (late)
            load_b_z();
        // 1/rho of the thread's rows, and beside the tile.
        float2 b_z[ROWS + 1];
#pragma unroll
        for (int r = 0; r < ROWS + 1; r++)
            b_z[r] = values(k.scales[B], r < ROWS ? b[r] : b_beside);
        if (varies) {
#pragma unroll
            for (int r = 0; r < ROWS + 1; r++) {
                const float after = r < ROWS ? load_b_after(y, x + r, z, true)
                                             : load_b_after(y, tile_x + beside_row, tile_z + beside, beside_there);
                b_z[r] = halfway(b_z[r], step ? make_float2(b_z[r].y, after) : b_z[r]);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            flux_z(first_row + r, 2 * lane, b_z[r], true);
        if (has_beside)
            flux_z(beside_row, beside, b_z[ROWS], false);
        if (!late)
            load_around(y + 1);
        __syncthreads();

        // The pressures.
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (pml_x && x + r >= nx - HALF_WIDTH)
                continue;
            if (pml_z && z >= nz - HALF_WIDTH)
                continue;
            if (late)
                load_own(r);
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
            float2 now[N], mixing[2];
            now[LAST] = pair(s.along_z(first_row + r)[2 * lane + 8]);
            now[0] = pair(s.p[first_row + r + 7][2 * lane + MARGIN]);
            const float2 both_kappas = values(k.scales[KAPPA], others[r][0]);
            if (N == 2) {
                mixing[0] = values(k.scales[E], others[r][LAST]);
                mixing[1] = values(k.scales[S], others[r][2 * LAST]);
            }
            float after[N][2], undamped[N][2];
#pragma unroll
            for (int c = 0; c < 2; c++) {
#pragma unroll
                for (int number = 0; number < N; number++) {
                    after[number][c] = c ? now[number].y : now[number].x;
                    undamped[number][c] = c ? d[r][number].y : d[r][number].x;
                }
                if (pml_z && z + c >= nz - HALF_WIDTH)
                    continue;
                const float kappa = c ? both_kappas.y : both_kappas.x;
                const bool middle_z = !pml_z || in_middle(k, 2, z + c);
                const float derivative_y = derivative(k, fluxes[r][c]), derivative_x = derivative(k, x_taps[c]);
                float a = pml_y ? 0.0f : square_y * derivative_y;
                if (middle_x)
                    a = fmaf(square_x, derivative_x, a);
                if (N == 1 && middle_z)
                    a = fmaf(square_z, derivative_from(k, z_taps, c), a);
                undamped[0][c] = fmaf(kappa, a, undamped[0][c]);
                if (N == 2 && middle_z)
                    undamped[LAST][c] = fmaf(kappa, square_z * derivative_from(k, z_taps, c), undamped[LAST][c]);
                // The sum over all axes; or that over x and y, and that over z.
                float increments[N];
#pragma unroll
                for (int number = 0; number < N; number++)
                    increments[number] = undamped[number][c];
                const unsigned both = 2 * (k.pml - HALF_WIDTH);
                if (pml_y) {
                    const int layer = in_layer(k, 1, y);
                    float *split = k.split[1] + (layer * k.plane + (x + r) * k.pitch + z + c);
                    increments[0] += increment(k.axis[1], y, kappa, derivative_y, layer < 0 ? nullptr : split);
                }
                if (!middle_x) {
                    const int layer = in_layer(k, 0, x + r);
                    float *split = k.split[0] + ((y * both + layer) * k.pitch + z + c);
                    increments[0] += increment(k.axis[0], x + r, kappa, derivative_x, layer < 0 ? nullptr : split);
                }
                if (!middle_z) {
                    const int layer = in_layer(k, 2, z + c);
                    float taps[8];
#pragma unroll
                    for (int m = 0; m < 8; m++)
                        taps[m] = s.velocity.z[first_row + r][2 * lane + c + m];
                    float *split = k.split[2] + ((y * nx + x + r) * both + layer);
                    increments[LAST] +=
                        increment(k.axis[2], z + c, kappa, derivative(k, taps), layer < 0 ? nullptr : split);
                }
                float pressures[N], mixing_here[2] = {};
#pragma unroll
                for (int number = 0; number < N; number++)
                    pressures[number] = after[number][c];
                if (N == 2) {
                    mixing_here[0] = c ? mixing[0].y : mixing[0].x, mixing_here[1] = c ? mixing[1].y : mixing[1].x;
                    if (pml_x && pml_z)
                        adapt(k.cube, x + r, y, z + c, mixing_here);
                }
                const int point = z + c == source.z ? 0 : z + c == source.z + Equation::APART ? 1 : -1;
                const bool has_source = pml_x && point >= 0 && x + r == source.x && y == source.y;
                if (has_source && source.there) {
#pragma unroll
                    for (int number = 0; number < N; number++)
                        pressures[number] = source.clean[number * Equation::POINTS + point];
                }
                Equation::advance(pressures, increments, mixing_here);
                if (has_source && source.put) {
#pragma unroll
                    for (int number = 0; number < N; number++) {
                        source.next_clean[number * Equation::POINTS + point] = pressures[number];
                        pressures[number] = Equation::with_source(pressures[number], point, *source.value);
                    }
                }
#pragma unroll
                for (int number = 0; number < N; number++)
                    after[number][c] = pressures[number];
            }
#pragma unroll
            for (int number = 0; number < N; number++) {
                const unsigned at = position(k, x + r, y, z);
                seen |= __float_as_uint(after[number][0]) | __float_as_uint(after[number][1]);
                __stcs(&pair(k.d[number][at]), make_float2(undamped[number][0], undamped[number][1]));
                __stcs(&pair(k.next[number][at]), make_float2(after[number][0], after[number][1]));
            }
        }
        if (late) {
            load_p(coming, y + 8);
            load_around(y + 1);
        }
    }
    return seen;
}
