// What is asked of kernels/acoustic1_one_pass.cu, and what of it may be launched.
// src/fd/equation/acoustic1/cuda/kernel.rs says the same.
static_assert(offsetof(OnePass, axis) == 112 && offsetof(OnePass, tiles) == 304, "");
static_assert(offsetof(OnePass, slots) == 336 && offsetof(OnePass, stencil) == 352 && offsetof(OnePass, b_scale) == 368 && offsetof(Source, put) == 40, "");

#define ALL_KERNELS(KERNEL)                                                                                            \
    KERNEL(acoustic1_one_pass_4x2)                                                                                     \
    KERNEL(acoustic1_one_pass_4x4)                                                                                     \
    KERNEL(acoustic1_one_pass_4x2_async)                                                                               \
    KERNEL(acoustic1_one_pass_4x2_16_bit)                                                                              \
    KERNEL(acoustic1_one_pass_source)
