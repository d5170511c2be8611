// What is asked of kernels/acoustic1.cu, and what of it may be launched.
// src/fd/equation/acoustic1/kernel.rs says the same.
static_assert(offsetof(Axis, rate) == 32 && offsetof(Axis, inner) == 40 && offsetof(Term, axis) == 16, "");
static_assert(offsetof(Acoustic1, b) == 56 && offsetof(Acoustic1, pitch) == 104, "");
static_assert(offsetof(Acoustic1, axis) == 120 && offsetof(Acoustic1, planes) == 268 && offsetof(Acoustic1, stencil) == 272, "");

#define ALL_KERNELS(KERNEL)                                                                                            \
    KERNEL(acoustic1_velocity)                                                                                         \
    KERNEL(acoustic1_pressure)                                                                                         \
    KERNEL(acoustic1_source)                                                                                           \
    KERNEL(acoustic1_record)                                                                                           \
    KERNEL(acoustic1_snapshot)                                                                                         \
    KERNEL(acoustic1_peak)
