// The acoustic equation in a medium with a vertical axis of symmetry on a GPU: src/fd/equation/vti.
// A launch is a step:
//
//   vti_one_pass_...   reads p q d_xy d_z b kappa E S   writes p q d_xy d_z   48 bytes a cell
//   with the PML velocities, split pressures, the next step's source, and samples at the receivers

#include "one_pass.cuh"

// Two pressures, which E and S couple. The source is one point in both.
struct Vti {
    enum { PRESSURES = 2, POINTS = 1, APART = 0 };
    static __device__ __forceinline__ float with_source(float p, int, float value)
    {
        return p + value;
    }
    // The increments are those of x and y, and that of z; `mixing` has E and S.
    static __device__ __forceinline__ void advance(float (&p)[2], const float (&increments)[2],
                                                   const float (&mixing)[2])
    {
        p[0] += fmaf(mixing[0], increments[0], mixing[1] * increments[1]);
        p[1] += fmaf(mixing[1], increments[0], increments[1]);
    }
};

ONE_PASS(vti_one_pass_4x2, Vti, float2, 3)
ONE_PASS(vti_one_pass_4x2_16_bit, Vti, ushort2, 3)
SOURCE(vti_one_pass_source, Vti, OnePass)
