// The stencil and the absorbing layer. `K` is a kernel's parameters.
#pragma once

enum { HALF_WIDTH = 4 };

// What depends on the index along one axis only; `n` values in each array.
struct Axis {
    const float *keep, *velocity_rate; // of the velocity: what stays of it, a dt/h
    const float *loss, *pressure_rate; // of the pressure: what is lost of its split pressure, a dt/h
    float rate;                        // dt/h, where nothing is damped
    int n;                             // all cells
    int inner;                         // the user's cells
    int unused;
};

// The user's index that goes on outside the user's grid.
template <class K> __device__ __forceinline__ int nearest(const K &k, int axis, int index)
{
    return min(max(index - k.pml, 0), k.axis[axis].inner - 1);
}

// Where an index lies in a field kept in an axis's two layers only; negative between them.
template <class K> __device__ __forceinline__ int in_layer(const K &k, int axis, int index)
{
    const int far = k.pml + k.axis[axis].inner;
    return index < k.pml ? index - HALF_WIDTH : index < far ? -1 : k.pml - HALF_WIDTH + index - far;
}

// The derivative lies between f[3] and f[4].
template <class K> __device__ __forceinline__ float derivative(const K &k, const float (&f)[8])
{
    float s = k.stencil[0] * (f[4] - f[3]);
    s = fmaf(k.stencil[1], f[5] - f[2], s);
    s = fmaf(k.stencil[2], f[6] - f[1], s);
    return fmaf(k.stencil[3], f[7] - f[0], s);
}
