/* Two loops over the grid, all velocities from the pressure, then the pressure from them, in a medium of
 * variable density. Eighth order, no absorbing layer, no tiling; the compiler does what it can.
 *
 *     plain N          reads numbers of steps, one per line, and prints the seconds that they took
 */
#include <stdio.h>
#include <stdlib.h>
#include <omp.h>

enum { REACH = 4 };
static const float c0 = 1.196289f, c1 = -0.0797526f, c2 = 0.009570313f, c3 = -0.0006975447f;

static float *field(size_t cells, float value)
{
    float *f = aligned_alloc(64, (cells * sizeof(float) + 63) / 64 * 64);
    if (!f)
        exit(1);
#pragma omp parallel for
    for (size_t i = 0; i < cells; i++)
        f[i] = value;
    return f;
}

#define SLOPE(f, i, s)                                                                                                 \
    (c0 * (f[i] - f[(i) - (s)]) + c1 * (f[(i) + (s)] - f[(i) - 2 * (s)]) + c2 * (f[(i) + 2 * (s)] - f[(i) - 3 * (s)]) + \
     c3 * (f[(i) + 3 * (s)] - f[(i) - 4 * (s)]))

static void velocity(int n, const float *restrict p, const float *restrict b, float *restrict u, float *restrict v,
                     float *restrict w)
{
    const long x = n, y = (long)n * n;
#pragma omp parallel for schedule(static)
    for (int iy = REACH; iy < n - REACH; iy++)
        for (int ix = REACH; ix < n - REACH; ix++) {
            long row = iy * y + ix * x;
#pragma omp simd
            for (long i = row + REACH; i < row + n - REACH; i++) {
                u[i] -= b[i] * SLOPE(p, i + x, x);
                v[i] -= b[i] * SLOPE(p, i + y, y);
                w[i] -= b[i] * SLOPE(p, i + 1, 1);
            }
        }
}

static void pressure(int n, float *restrict p, const float *restrict kappa, const float *restrict u,
                     const float *restrict v, const float *restrict w)
{
    const long x = n, y = (long)n * n;
#pragma omp parallel for schedule(static)
    for (int iy = REACH; iy < n - REACH; iy++)
        for (int ix = REACH; ix < n - REACH; ix++) {
            long row = iy * y + ix * x;
#pragma omp simd
            for (long i = row + REACH; i < row + n - REACH; i++)
                p[i] -= kappa[i] * (SLOPE(u, i, x) + SLOPE(v, i, y) + SLOPE(w, i, 1));
        }
}

int main(int count, char **words)
{
    int n = count > 1 ? atoi(words[1]) : 240, steps;
    size_t cells = (size_t)n * n * n;
    /* b dt/h and kappa dt/h. A product of 0.1 is stable. Both contain dt/h. */
    float *b = field(cells, 0.25f), *kappa = field(cells, 0.4f), *p = field(cells, 0);
    float *u = field(cells, 0), *v = field(cells, 0), *w = field(cells, 0);
    p[cells / 2 + n / 2 * (size_t)n + n / 2] = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (scanf("%d", &steps) == 1) {
        double begin = omp_get_wtime();
        for (int step = 0; step < steps; step++) {
            velocity(n, p, b, u, v, w);
            pressure(n, p, kappa, u, v, w);
        }
        printf("%.6f\n", omp_get_wtime() - begin);
    }
    return p[cells / 2] == p[cells / 2] ? 0 : 1;
}
