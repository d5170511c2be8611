// The kernels of kernels/vti_one_pass.cu.
#define ALL_KERNELS(KERNEL)                                                                                                  \
    KERNEL(vti_one_pass_4x2)                                                                                           \
    KERNEL(vti_one_pass_4x2_16_bit)                                                                                    \
    KERNEL(vti_one_pass_source)
