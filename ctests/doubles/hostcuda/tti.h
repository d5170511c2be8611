// The kernels of kernels/tti.cu, and places of parameters as in src/fd/equation/tti/cuda.rs.
static_assert(offsetof(SelfAdjoint, axis) == 96 && offsetof(SelfAdjoint, steps) == 248, "");

#define ALL_KERNELS(KERNEL)                                                                                            \
    KERNEL(tti_fluxes_4x2)                                                                                             \
    KERNEL(tti_4x2)                                                                                                    \
    KERNEL(tti_source)
