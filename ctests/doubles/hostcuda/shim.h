// The part of CUDA that the kernels use, for the host's compiler; included before a .cu file.
// Dynamic shared memory and warp functions are missing.
#pragma once
#include <cmath>
#include <cstring>

struct Dim3 { unsigned x, y, z; };
class Fibers;

// The state of a host thread beside shared memory.
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

struct __align__(8) float2 { float x, y; };
struct __align__(4) ushort2 { unsigned short x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }

template <class T> T __ldg(const T *from) { return *from; }
template <class T> T __ldcs(const T *from) { return *from; }
template <class T> void __stcs(T *to, T value) { *to = value; }
template <class T> T min(T a, T b) { return a < b ? a : b; }
template <class T> T max(T a, T b) { return a > b ? a : b; }
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline unsigned atomicMax(unsigned *at, unsigned value) {
    const unsigned old = *at;
    *at = max(old, value);
    return old;
}
inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long value) {
    const unsigned long long old = *at;
    *at = old + value;
    return old;
}
