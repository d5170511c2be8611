// The threads of a block on one thread of the host. They run one after the other on one stack until a thread comes to
// a barrier: that stack waits, and the threads that are left go on on another. So a kernel without barriers costs no
// more than calls, one with them a stack a thread.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "shim.h"

// Puts what a call must keep on this stack, leaves its top at `from`, and takes up the stack at `to`.
extern "C" void hostcuda_switch(void **from, void *to);
#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
    .type hostcuda_switch, @function
hostcuda_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size hostcuda_switch, .-hostcuda_switch
)");
enum { KEPT = 8, RETURN = 6 }; // words at the top of a new stack, and where it returns to among them
#elif defined(__aarch64__)
asm(R"(
    .text
    .p2align 4
    .type hostcuda_switch, %function
hostcuda_switch:
    stp x19, x20, [sp, #-160]!
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldp x19, x20, [sp], #160
    ret
    .size hostcuda_switch, .-hostcuda_switch
)");
enum { KEPT = 20, RETURN = 11 };
#else
#error "stacks are switched on x86-64 and aarch64 only"
#endif

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __sanitizer_start_switch_fiber(void **, const void *, std::size_t);
extern "C" void __sanitizer_finish_switch_fiber(void *, const void **, std::size_t *);
#else
inline void __sanitizer_start_switch_fiber(void **, const void *, std::size_t) {}
inline void __sanitizer_finish_switch_fiber(void *, const void **, std::size_t *) {}
#endif

// A copy that is on its way.
struct Copy {
    void *to;
    const void *from;
    unsigned bytes;
    int group;
};

// A stack with what is left of its thread on it.
struct Fiber {
    enum : std::size_t { PAGE = 4096, BYTES = 16 * PAGE };
    char *stack; // the first page may not be touched: a stack that is too small faults
    void *top = nullptr, *fake = nullptr;
    Dim3 thread{};
    int line = 0; // of the barrier that it waits at; 0 if it doesn't
    std::vector<Copy> copies;
    int groups = 0; // that have ended

    explicit Fiber(void (*entry)())
    {
        void *pages = mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED)
            throw std::bad_alloc();
        stack = static_cast<char *>(pages);
        mprotect(stack, PAGE, PROT_NONE);
        begin(entry);
    }
    ~Fiber()
    {
        munmap(stack, BYTES);
    }
    Fiber(const Fiber &) = delete;

    void begin(void (*entry)())
    {
        void **words = reinterpret_cast<void **>(stack + BYTES) - KEPT;
        for (int k = 0; k < KEPT; k++)
            words[k] = nullptr;
        words[RETURN] = reinterpret_cast<void *>(entry);
        top = words;
        line = 0;
    }
};

// Runs blocks. Kept from launch to launch with its stacks.
class Fibers {
public:
    using Body = void (*)(const void *kernel, std::uint32_t thread);

    // All threads of a block, in this order; false if they do not meet at a barrier, and then `defect` says it.
    bool block(Body body, const void *kernel, const std::vector<std::uint32_t> &threads)
    {
        this->body = body, this->kernel = kernel, this->threads = &threads;
        next = 0;
        std::size_t waiting = 0;
        while (next < threads.size()) {
            if (waiting == fibers.size())
                fibers.push_back(std::make_unique<Fiber>(entry));
            resume(*fibers[waiting]);
            waiting += fibers[waiting]->line != 0;
        }
        while (waiting > 0) {
            if (!together(waiting))
                return false;
            for (std::size_t k = 0; k < waiting; k++) {
                fibers[k]->line = 0;
                resume(*fibers[k]);
            }
            const auto ended = [](const auto &fiber) { return fiber->line == 0; };
            if (std::all_of(fibers.begin(), fibers.begin() + waiting, ended))
                waiting = 0;
        }
        return true;
    }

    // In a kernel: this thread goes on when all others are here.
    void wait(int line)
    {
        Fiber &fiber = *current;
        fiber.line = line;
        fiber.thread = host.thread;
        leave(fiber);
        host.thread = fiber.thread;
    }

    // Of the thread that runs.
    void begin_copy(void *to, const void *from, unsigned bytes)
    {
        std::memset(to, 0xff, bytes);
        current->copies.push_back({to, from, bytes, current->groups});
    }

    void end_group()
    {
        current->groups++;
    }

    // All but those of the last groups, and what belongs to none yet.
    void wait_for_copies(int last)
    {
        const auto due = [&](const Copy &copy) { return copy.group < current->groups - last; };
        auto &copies = current->copies;
        for (const Copy &copy : copies)
            if (due(copy))
                std::memcpy(copy.to, copy.from, copy.bytes);
        copies.erase(std::remove_if(copies.begin(), copies.end(), due), copies.end());
    }

    char defect[160] = "";

private:
    // Whether all threads are at one barrier. If not, those that wait are given up.
    bool together(std::size_t waiting)
    {
        int line = 0, other = 0;
        std::size_t here = 0;
        for (std::size_t k = 0; k < waiting; k++) {
            const int at = fibers[k]->line;
            line = line ? line : at;
            other = at && at != line ? at : other;
            here += at != 0 && at == line;
        }
        if (here == threads->size())
            return true;
        for (std::size_t k = 0; k < waiting; k++)
            fibers[k]->begin(entry);
        const int length = std::snprintf(defect, sizeof defect, "%zu of %zu threads of a block wait at the barrier in "
                                         "line %d, ", here, threads->size(), line);
        std::snprintf(defect + length, sizeof defect - length, other ? "others in line %d" : "the others have ended",
                      other);
        return false;
    }

    static void entry()
    {
        Fibers *all = host.fibers;
        __sanitizer_finish_switch_fiber(nullptr, &all->bottom, &all->size);
        for (;;) {
            while (all->next < all->threads->size()) {
                all->current->copies.clear();
                all->body(all->kernel, (*all->threads)[all->next++]);
            }
            all->leave(*all->current);
            all = host.fibers;
        }
    }

    void resume(Fiber &fiber)
    {
        current = &fiber;
        void *fake = nullptr;
        __sanitizer_start_switch_fiber(&fake, fiber.stack, Fiber::BYTES);
        hostcuda_switch(&top, fiber.top);
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
    }

    void leave(Fiber &fiber)
    {
        __sanitizer_start_switch_fiber(&fiber.fake, bottom, size);
        hostcuda_switch(&fiber.top, top);
        __sanitizer_finish_switch_fiber(fiber.fake, &bottom, &size);
    }

    std::vector<std::unique_ptr<Fiber>> fibers;
    Fiber *current = nullptr;
    Body body = nullptr;
    const void *kernel = nullptr;
    const std::vector<std::uint32_t> *threads = nullptr;
    std::size_t next = 0;
    void *top = nullptr;           // of the caller's stack
    const void *bottom = nullptr;  // and all of it
    std::size_t size = 0;
};
