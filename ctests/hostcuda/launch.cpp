// Runs the kernels of a .cu file on the host: the file given as KERNELS is compiled in, and `hostcuda_launch` is what
// cuLaunchKernel is on a card. All threads of all blocks run on the caller's thread, in the order asked for.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "shim.h"

thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;

#include KERNELS

// src/fd/equation/acoustic1/kernel.rs says the same.
static_assert(offsetof(Axis, rate) == 32 && offsetof(Axis, inner) == 40 && offsetof(Term, axis) == 16, "");
static_assert(offsetof(Acoustic1, b) == 56 && offsetof(Acoustic1, pitch) == 104, "");
static_assert(offsetof(Acoustic1, axis) == 120 && offsetof(Acoustic1, planes) == 268, "");

namespace {

// Reads the arguments as the driver does: each through a pointer to its value.
template <class... Values, std::size_t... I>
void call(void (*kernel)(Values...), const std::tuple<Values...> &values, std::index_sequence<I...>)
{
    kernel(std::get<I>(values)...);
}

template <class... Values, std::size_t... I>
std::tuple<std::remove_const_t<Values>...> arguments(const void *const *from, std::index_sequence<I...>)
{
    return {*static_cast<const Values *>(from[I])...};
}

std::uint64_t count(const Dim3 &size)
{
    return std::uint64_t(size.x) * size.y * size.z;
}

Dim3 at(std::uint64_t number, const Dim3 &size)
{
    return {unsigned(number % size.x), unsigned(number / size.x % size.y), unsigned(number / size.x / size.y)};
}

// 0 ascending, 1 descending, else shuffled with this seed.
std::vector<std::uint32_t> ordered(std::uint64_t count, unsigned order)
{
    std::vector<std::uint32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0u);
    if (order == 1)
        std::reverse(numbers.begin(), numbers.end());
    else if (order > 1)
        std::shuffle(numbers.begin(), numbers.end(), std::mt19937(order));
    return numbers;
}

template <class... Values>
void run(void (*kernel)(Values...), const Dim3 &grid, const Dim3 &block, const void *const *from, unsigned order)
{
    const auto all = std::index_sequence_for<Values...>();
    const auto values = arguments<Values...>(from, all);
    gridDim = grid;
    blockDim = block;
    const auto threads = ordered(count(block), order);
    for (const auto b : ordered(count(grid), order)) {
        blockIdx = at(b, grid);
        for (const auto t : threads) {
            threadIdx = at(t, block);
            call(kernel, values, all);
        }
    }
}

} // namespace

// 0, or 1 where there is no such kernel.
extern "C" int hostcuda_launch(const char *name, const unsigned *grid, const unsigned *block,
                               const void *const *arguments, unsigned order)
{
    const Dim3 blocks{grid[0], grid[1], grid[2]}, threads{block[0], block[1], block[2]};
#define KERNEL(kernel)                                                                                                 \
    if (std::strcmp(name, #kernel) == 0)                                                                               \
        return run(kernel, blocks, threads, arguments, order), 0;
    KERNEL(acoustic1_velocity)
    KERNEL(acoustic1_pressure)
    KERNEL(acoustic1_source)
    KERNEL(acoustic1_record)
    KERNEL(acoustic1_snapshot)
    KERNEL(acoustic1_peak)
    return 1;
}
