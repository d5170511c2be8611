// Runs the kernels of the file KERNELS on the host: `hostcuda_launch` takes the place of
// cuLaunchKernel. All threads of all blocks run on the caller's thread in the order asked for.
#undef _FORTIFY_SOURCE // its longjmp refuses to switch stacks
#include <link.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

#include "fiber.h"
#include "shim.h"

thread_local Host host;

void hostcuda_wait(int line) { host.fibers->wait(line); }

#include KERNELS
#include ASKED

namespace {

// Reads the arguments as the driver does: each through a pointer to its value.
template <class... Values, std::size_t... I>
std::tuple<std::remove_const_t<Values>...> arguments(const void *const *from, std::index_sequence<I...>) {
    return {*static_cast<const Values *>(from[I])...};
}

std::uint64_t count(const Dim3 &size) { return std::uint64_t(size.x) * size.y * size.z; }

Dim3 at(std::uint64_t number, const Dim3 &size) {
    return {unsigned(number % size.x), unsigned(number / size.x % size.y), unsigned(number / size.x / size.y)};
}

// 0 ascending, 1 descending, else shuffled with this seed.
std::vector<std::uint32_t> ordered(std::uint64_t count, unsigned order) {
    std::vector<std::uint32_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0u);
    if (order == 1)
        std::reverse(numbers.begin(), numbers.end());
    else if (order > 1)
        std::shuffle(numbers.begin(), numbers.end(), std::mt19937(order));
    return numbers;
}

// The thread-local memory of this library: `host`, and what kernels share within a block.
struct Storage {
    void *begin;
    std::size_t bytes;
};

int find(dl_phdr_info *library, std::size_t, void *found) {
    for (int k = 0; k < library->dlpi_phnum; k++) {
        const auto begin = reinterpret_cast<std::uintptr_t>(library->dlpi_tls_data);
        const std::size_t bytes = library->dlpi_phdr[k].p_memsz;
        if (library->dlpi_phdr[k].p_type != PT_TLS || reinterpret_cast<std::uintptr_t>(&host) - begin >= bytes)
            continue;
        *static_cast<Storage *>(found) = {library->dlpi_tls_data, bytes};
        return 1;
    }
    return 0;
}

// Sets this thread to flush denormal numbers, as the instructions of the PTX do, until it is
// destroyed.
class Flushing {
public:
    Flushing() {
#if defined(__x86_64__)
        before = _mm_getcsr();
        _mm_setcsr(unsigned(before) | 0x8040);
#elif defined(__aarch64__)
        asm volatile("mrs %0, fpcr" : "=r"(before) : : "memory");
        asm volatile("msr fpcr, %0" : : "r"(before | 1 << 24) : "memory");
#endif
    }
    ~Flushing() {
#if defined(__x86_64__)
        _mm_setcsr(unsigned(before));
#elif defined(__aarch64__)
        asm volatile("msr fpcr, %0" : : "r"(before) : "memory");
#endif
    }
    Flushing(const Flushing &) = delete;

private:
    std::uint64_t before = 0;
};

// Launches reuse idle stacks.
std::mutex lock;
std::vector<std::unique_ptr<Fibers>> idle;
thread_local char defect[sizeof Fibers::defect];

template <class... Values>
int run(void (*kernel)(Values...), const Dim3 &grid, const Dim3 &block, const void *const *from, unsigned order) {
    struct Launch {
        void (*kernel)(Values...);
        std::tuple<std::remove_const_t<Values>...> values;
    };
    const Launch launch{kernel, arguments<Values...>(from, std::index_sequence_for<Values...>())};
    const auto body = [](const void *given, std::uint32_t thread) {
        const Launch &launch = *static_cast<const Launch *>(given);
        host.thread = at(thread, host.threads);
        std::apply(launch.kernel, launch.values);
    };
    const Flushing flushing;
    host = {}; // allocates the thread-local memory
    Storage storage{};
    dl_iterate_phdr(find, &storage);
    std::unique_ptr<Fibers> fibers;
    {
        const std::lock_guard<std::mutex> hold(lock);
        if (!idle.empty()) fibers = std::move(idle.back()), idle.pop_back();
    }
    if (!fibers) fibers = std::make_unique<Fibers>();
    host.fibers = fibers.get();
    host.blocks = grid;
    host.threads = block;
    const auto threads = ordered(count(block), order);
    bool good = true;
    for (const auto b : ordered(count(grid), order)) {
        // A block finds NaN in shared memory.
        const Host kept = host;
        std::memset(storage.begin, 0xff, storage.bytes);
        host = kept;
        host.block = at(b, grid);
        good = fibers->block(body, &launch, threads);
        if (!good) break;
    }
    std::snprintf(defect, sizeof defect, "%s", good ? "" : fibers->defect);
    const std::lock_guard<std::mutex> hold(lock);
    idle.push_back(std::move(fibers));
    return good ? 0 : 2;
}

} // namespace

// Returns 0; 1 if the kernel does not exist; 2 if threads did not meet at a barrier, see
// `hostcuda_defect`.
extern "C" int hostcuda_launch(const char *name, const unsigned *grid, const unsigned *block,
                               const void *const *arguments, unsigned order)
{
    const Dim3 blocks{grid[0], grid[1], grid[2]}, threads{block[0], block[1], block[2]};
#define KERNEL(kernel)                                                                                                 \
    if (std::strcmp(name, #kernel) == 0)                                                                               \
        return run(kernel, blocks, threads, arguments, order);
    ALL_KERNELS(KERNEL)
    return 1;
}

// Returns the defect of this thread's last launch.
extern "C" const char *hostcuda_defect() {
    return defect;
}
