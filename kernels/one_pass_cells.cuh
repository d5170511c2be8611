// Cells of the march: positions, coefficients, derivatives, PML velocities.
#pragma once

// Returns the derivative between the fourth and the fifth of eight values of a line.
template <int N> __device__ __forceinline__ float derivative_from(const OnePass &k, const float (&line)[N], int begin)
{
    float f[8];
#pragma unroll
    for (int m = 0; m < 8; m++)
        f[m] = line[begin + m];
    return derivative(k, f);
}

// Returns 1/rho of two half points, from rho/2 of the cells on both sides.
__device__ __forceinline__ float2 halfway(float2 before, float2 after)
{
    return make_float2(reciprocal(before.x + after.x), reciprocal(before.y + after.y));
}

// Returns a PML velocity after a step, from the one before it and the flux.
__device__ __forceinline__ float moved(const Axis &axis, int index, float old, float q)
{
    return fmaf(-__ldg(axis.velocity_rate + index), q, __ldg(axis.keep + index) * old);
}

__device__ __forceinline__ float2 moved(const Axis &axis, int index, float2 old, float2 q)
{
    return make_float2(moved(axis, index, old.x, q.x), moved(axis, index, old.y, q.y));
}

// Returns the increment from the derivative of PML velocities. `split`: the split pressure, null
// outside the layers.
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
