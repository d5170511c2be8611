// Copies from memory into a block's shared memory that go on while their thread does other things: GPUs have them from compute
// capability 8.0 on. A copy is there for its thread when that has waited for it, for others after the next barrier.
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// Four or eight bytes.
template <class T> __device__ __forceinline__ void begin_copy(T &to, const T *from)
{
    const unsigned at = unsigned(__cvta_generic_to_shared(&to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(T)) : "memory");
}

// What was begun since the last call is a group, which may be empty.
__device__ __forceinline__ void end_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Until all groups but the last so many are there.
template <int LAST> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LAST) : "memory");
}
#elif defined(__CUDA_ARCH__)
// Older GPUs do it at once. No kernel that is made for them asks for it.
template <class T> __device__ __forceinline__ void begin_copy(T &to, const T *from)
{
    to = *from;
}
__device__ __forceinline__ void end_group() {}
template <int LAST> __device__ __forceinline__ void wait_for_copies() {}
#endif
