// Parameters of kernels/field.cu, and the kernels in it that may be launched.
// src/fd/time_loop/field_kernels.rs has the same.
static_assert(offsetof(Field, plane) == 16 && offsetof(Field, inner) == 36 && offsetof(Field, pml) == 48, "");

#define ALL_KERNELS(KERNEL)                                                                                            \
    KERNEL(field_snapshot)                                                                                             \
    KERNEL(field_traces)                                                                                               \
    KERNEL(field_peak)                                                                                                 \
    KERNEL(field_inject)
