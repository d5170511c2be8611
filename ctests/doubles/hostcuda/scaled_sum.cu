// A kernel of the tests: a product and a sum, each rounded by itself.

#define ALL_KERNELS(KERNEL) KERNEL(scaled_sum)

extern "C" __global__ void scaled_sum(float *to, float factor, float amplitude)
{
    *to = *to + factor * amplitude;
}
