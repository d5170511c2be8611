// What a kernel needs of CUDA, for the host's compiler: included before a .cu file. There are barriers and static shared
// memory; a kernel with dynamic shared memory or warp functions does not compile against it.
#pragma once
#include <cmath>
#include <cstring>

struct Dim3 {
    unsigned x, y, z;
};
class Fibers;

// All that is kept a thread of the host beside shared memory.
struct Host {
    Dim3 thread, block, threads, blocks;
    Fibers *fibers;
};
extern thread_local Host host;

#define threadIdx host.thread
#define blockIdx host.block
#define blockDim host.threads
#define gridDim host.blocks

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Zero at first, and before each block not-a-number.
#define __shared__ static thread_local

#if defined(__clang__)
#define HOSTCUDA_OPAQUE noinline
#else
#define HOSTCUDA_OPAQUE noipa
#endif
__attribute__((HOSTCUDA_OPAQUE)) void hostcuda_wait(int line);
#define __syncthreads() hostcuda_wait(__LINE__)

// Copies are made when they are waited for, and no sooner. Until then no number is where they go.
void hostcuda_begin_copy(void *to, const void *from, unsigned bytes);
void hostcuda_end_group();
void hostcuda_wait_for_copies(int last);
template <class T> void begin_copy(T &to, const T *from)
{
    hostcuda_begin_copy(&to, from, sizeof(T));
}
inline void end_group()
{
    hostcuda_end_group();
}
template <int LAST> void wait_for_copies()
{
    hostcuda_wait_for_copies(LAST);
}

struct __align__(8) float2 {
    float x, y;
};
struct __align__(4) ushort2 {
    unsigned short x, y;
};
struct __align__(16) float4 {
    float x, y, z, w;
};
inline float2 make_float2(float x, float y)
{
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

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
