// The kernels of kernels/acoustic2_one_pass.cu, and places of parameters as in
// src/fd/equation/acoustic2/cuda.rs.
static_assert(offsetof(SecondOrder, steps) == 128 && offsetof(SecondOrder, scale) == 152, "");
static_assert(offsetof(SecondOrder, layers) == 200, "");

#define ALL_KERNELS(KERNEL)                                                                                            \
    KERNEL(acoustic2_one_pass_4x2)                                                                                     \
    KERNEL(acoustic2_one_pass_4x2_16_bit)                                                                              \
    KERNEL(acoustic2_one_pass_layers)                                                                                  \
    KERNEL(acoustic2_one_pass_source)
