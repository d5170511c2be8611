// The kernels of kernels/tti_old.cu, and places of parameters as in
// src/fd/equation/tti/old/cuda.rs.
static_assert(offsetof(Tilted, axis) == 144 && offsetof(Tilted, steps) == 344 && offsetof(Tilted, squares) == 464, "");

#define ALL_KERNELS(KERNEL)                                                                                            \
    KERNEL(tti_old_fluxes_4x2)                                                                                  \
    KERNEL(tti_old_4x2)                                                                                         \
    KERNEL(tti_old_source)
