// The kernels of kernels/tti_two_stages.cu, and places of parameters as in src/fd/equation/tti/cuda.rs.
static_assert(offsetof(Tilted, axis) == 144 && offsetof(Tilted, steps) == 344 && offsetof(Tilted, squares) == 464, "");

#define ALL_KERNELS(KERNEL)                                                                                            \
    KERNEL(tti_two_stages_fluxes_4x2)                                                                                  \
    KERNEL(tti_two_stages_4x2)                                                                                         \
    KERNEL(tti_two_stages_source)
