// Derivatives at the cell, of the eight values around it: src/fd/centred/mod.rs.
#pragma once

#include "grid.cuh"

// Planes of a queue along y.
enum { QUEUE = 2 * HALF_WIDTH + 1 };

// Returns the weighted sum of the pairs around the middle of nine values.
__device__ __forceinline__ float pairs(const float (&weights)[HALF_WIDTH], const float (&f)[QUEUE])
{
    float sum = weights[0] * (f[3] + f[5]);
    sum = fmaf(weights[1], f[2] + f[6], sum);
    sum = fmaf(weights[2], f[1] + f[7], sum);
    return fmaf(weights[3], f[0] + f[8], sum);
}

// Returns the weighted sum of the differences around the middle of nine values.
__device__ __forceinline__ float differences(const float (&weights)[HALF_WIDTH], const float (&f)[QUEUE])
{
    float sum = weights[0] * (f[5] - f[3]);
    sum = fmaf(weights[1], f[6] - f[2], sum);
    sum = fmaf(weights[2], f[7] - f[1], sum);
    return fmaf(weights[3], f[8] - f[0], sum);
}
