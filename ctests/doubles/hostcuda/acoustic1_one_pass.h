// The kernels of kernels/acoustic1_one_pass.cu, and places of parameters as in
// src/fd/one_pass/cuda.rs and src/fd/march/source.rs.
static_assert(offsetof(OnePass, axis) == 152 && offsetof(OnePass, tiles) == 344, "");
static_assert(offsetof(OnePass, slots) == 392 && offsetof(OnePass, stencil) == 408, "");
static_assert(offsetof(OnePass, cube) == 456 && offsetof(Source, put) == 40, "");

#define ALL_KERNELS(KERNEL)                                                                                            \
    KERNEL(acoustic1_one_pass_4x2)                                                                                     \
    KERNEL(acoustic1_one_pass_4x2_16_bit)                                                                              \
    KERNEL(acoustic1_one_pass_source)
