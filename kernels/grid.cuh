// The stencil and the absorbing layer. `K` is a kernel's parameters.
#pragma once

enum { HALF_WIDTH = 4 };

// The properties of an axis. Arrays have a value for each of the `n` indices along it.
struct Axis {
    const float *keep, *velocity_rate; // of the velocity: the factor that keeps it, a dt/h
    const float *loss, *pressure_rate; // of the split pressure: the factor of its loss, a dt/h
    float rate;                        // dt/h, where nothing is damped
    int n;                             // all cells
    int inner;                         // the user's cells
    int unused;
};

// Returns the user's index whose medium an index has.
template <class K> __device__ __forceinline__ int nearest(const K &k, int axis, int index)
{
    return min(max(index - k.pml, 0), k.axis[axis].inner - 1);
}

// Returns the place of an index in a field stored in an axis's two layers; negative between them.
template <class K> __device__ __forceinline__ int in_layer(const K &k, int axis, int index)
{
    const int far = k.pml + k.axis[axis].inner;
    return index < k.pml ? index - HALF_WIDTH : index < far ? -1 : k.pml - HALF_WIDTH + index - far;
}

// The derivative lies between f[3] and f[4].
__device__ __forceinline__ float derivative_by(const float (&stencil)[HALF_WIDTH], const float (&f)[8])
{
    float s = stencil[0] * (f[4] - f[3]);
    s = fmaf(stencil[1], f[5] - f[2], s);
    s = fmaf(stencil[2], f[6] - f[1], s);
    return fmaf(stencil[3], f[7] - f[0], s);
}

template <class K> __device__ __forceinline__ float derivative(const K &k, const float (&f)[8])
{
    return derivative_by(k.stencil, f);
}

// Returns 1/x rounded once, if both are normal numbers.
__device__ __forceinline__ float reciprocal(float x)
{
#ifdef __CUDA_ARCH__
    // Off by at most a unit in the last place, which a step of Newton's corrects: tests/kernels/reciprocal.rs tries all x.
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return fmaf(fmaf(-x, y, 1.0f), y, y);
#else
    return 1.0f / x;
#endif
}
