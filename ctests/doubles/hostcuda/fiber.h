// Runs the threads of a block on one thread of the host: one after the other on one stack until a
// thread comes to a barrier. That stack waits, and the others run on another. makecontext begins a
// stack, and _longjmp switches between them, because swapcontext makes two system calls each time.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "shim.h"

// A stack, and the thread that waits on it.
struct Fiber {
    enum : std::size_t { PAGE = 4096, BYTES = 16 * PAGE };
    char *stack; // the first page is protected, so that an overflow faults
    ucontext_t first;
    jmp_buf top;
    bool begun;
    Dim3 thread{};
    int line; // of the barrier that it waits at, or 0

    explicit Fiber(void (*entry)()) {
        void *pages = mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) throw std::bad_alloc();
        stack = static_cast<char *>(pages);
        mprotect(stack, PAGE, PROT_NONE);
        begin(entry);
    }
    ~Fiber() { munmap(stack, BYTES); }
    Fiber(const Fiber &) = delete;

    void begin(void (*entry)()) {
        getcontext(&first);
        first.uc_stack.ss_sp = stack;
        first.uc_stack.ss_size = BYTES;
        makecontext(&first, entry, 0);
        begun = false;
        line = 0;
    }
};

// Runs blocks. Launches reuse it with its stacks.
class Fibers {
public:
    using Body = void (*)(const void *kernel, std::uint32_t thread);

    // Runs all threads of a block in this order. Returns false if they do not meet at a barrier;
    // see `defect`.
    bool block(Body body, const void *kernel, const std::vector<std::uint32_t> &threads) {
        this->body = body, this->kernel = kernel, this->threads = &threads;
        next = 0;
        std::size_t waiting = 0;
        while (next < threads.size()) {
            if (waiting == fibers.size()) fibers.push_back(std::make_unique<Fiber>(entry));
            resume(*fibers[waiting]);
            waiting += fibers[waiting]->line != 0;
        }
        while (waiting > 0) {
            if (!together(waiting)) return false;
            for (std::size_t k = 0; k < waiting; k++) {
                fibers[k]->line = 0;
                resume(*fibers[k]);
            }
            const auto ended = [](const auto &fiber) { return fiber->line == 0; };
            if (std::all_of(fibers.begin(), fibers.begin() + waiting, ended)) waiting = 0;
        }
        return true;
    }

    // Called by a kernel: the thread continues when all others have arrived.
    void wait(int line) {
        Fiber &fiber = *current;
        fiber.line = line;
        fiber.thread = host.thread;
        leave(fiber);
        host.thread = fiber.thread;
    }

    char defect[160] = "";

private:
    // Returns true if all threads are at one barrier. If not, the waiting ones are abandoned.
    bool together(std::size_t waiting) {
        int line = 0, other = 0;
        std::size_t here = 0;
        for (std::size_t k = 0; k < waiting; k++) {
            const int at = fibers[k]->line;
            line = line ? line : at;
            other = at && at != line ? at : other;
            here += at != 0 && at == line;
        }
        if (here == threads->size()) return true;
        for (std::size_t k = 0; k < waiting; k++) fibers[k]->begin(entry);
        const int length = std::snprintf(defect, sizeof defect, "%zu of %zu threads of a block wait at the barrier in "
                                         "line %d, ", here, threads->size(), line);
        std::snprintf(defect + length, sizeof defect - length, other ? "others in line %d" : "the others have ended",
                      other);
        return false;
    }

    static void entry() {
        Fibers *all = host.fibers;
        for (;;) {
            while (all->next < all->threads->size()) {
                all->body(all->kernel, (*all->threads)[all->next++]);
            }
            all->leave(*all->current);
            all = host.fibers;
        }
    }

    void resume(Fiber &fiber) {
        current = &fiber;
        if (_setjmp(top) == 0) {
            if (fiber.begun) _longjmp(fiber.top, 1);
            fiber.begun = true;
            setcontext(&fiber.first);
        }
    }

    void leave(Fiber &fiber) {
        if (_setjmp(fiber.top) == 0) _longjmp(top, 1);
    }

    std::vector<std::unique_ptr<Fiber>> fibers;
    Fiber *current = nullptr;
    Body body = nullptr;
    const void *kernel = nullptr;
    const std::vector<std::uint32_t> *threads = nullptr;
    std::size_t next = 0;
    jmp_buf top; // of the caller's stack
};
