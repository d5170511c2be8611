// What a kernel needs of CUDA, for the host's compiler: included before a .cu file. Threads run one after the
// other, so a kernel with barriers or warp functions does not compile against it.
#pragma once
#include <cmath>
#include <cstring>

struct Dim3 {
    unsigned x, y, z;
};
extern thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)

template <class T> T __ldg(const T *from)
{
    return *from;
}
template <class T> T min(T a, T b)
{
    return a < b ? a : b;
}
template <class T> T max(T a, T b)
{
    return a > b ? a : b;
}
inline unsigned __float_as_uint(float value)
{
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline unsigned atomicMax(unsigned *at, unsigned value)
{
    const unsigned old = *at;
    *at = max(old, value);
    return old;
}
