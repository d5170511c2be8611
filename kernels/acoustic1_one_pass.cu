// The acoustic equation of first order on a GPU: src/fd/equation/acoustic1. A launch is a step:
//
//   acoustic1_one_pass_...   reads p d b kappa   writes p d   24 bytes a cell
//   with the PML velocities, split pressures, the next step's source, and samples at the receivers

#include "one_pass.cuh"

// One pressure, to which its increments are added.
struct Acoustic1 : Dipole {
    enum { PRESSURES = 1 };
    static __device__ __forceinline__ void advance(float (&p)[1], const float (&increments)[1], const float (&)[2])
    {
        p[0] += increments[0];
    }
};

ONE_PASS(acoustic1_one_pass_4x2, Acoustic1, float2, 3)
ONE_PASS(acoustic1_one_pass_4x2_16_bit, Acoustic1, ushort2, 3)
SOURCE(acoustic1_one_pass_source, Acoustic1, OnePass)
