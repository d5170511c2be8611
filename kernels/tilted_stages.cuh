// The two launches of a step of both forms of the tilted equation. The including file has their parameters, and before this
//
//   is_plain    whether the march needs no case for edges and layers in a tile
//   fluxes      the first march through a tile
//   pressures   the second, which returns the bits of all that a thread has computed
#pragma once

template <class K, class Planes> __device__ __forceinline__ void first_stage(const K &k, Planes &planes)
{
    const Tile tile = k.tiles[blockIdx.x];
    if (is_at_rest(k.activity, tile))
        return;
    if (is_plain(k, tile))
        fluxes<true>(k, tile, planes);
    else
        fluxes<false>(k, tile, planes);
}

template <class K, class Planes>
__device__ __forceinline__ void second_stage(const K &k, const Source &source, const Receivers &receivers,
                                             Planes &planes)
{
    const Tile tile = k.tiles[blockIdx.x];
    if (!is_at_rest(k.activity, tile)) {
        const bool plain =
            is_plain(k, tile) && !has_cube(k.cube, tile) && !has_source(source, tile);
        const unsigned seen =
            plain ? pressures<true>(k, tile, source, planes) : pressures<false>(k, tile, source, planes);
        // Loaded again: the march has no registers for it.
        mark(k.activity, k.tiles[blockIdx.x], seen);
    } else {
        count_skipped(k.activity, tile);
    }
    take<Tti>(k, source, receivers);
}

// The kernels of a step and of its source: parameters, and the planes of both marches in shared memory. On a
// multiprocessor are to be so many blocks at once.
#define STAGES(equation, name, Params, Pressures, blocks_of_fluxes, Fluxes, blocks)                             \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks_of_fluxes)                                 \
        equation##_fluxes_##name(const Params k)                                                                       \
    {                                                                                                                  \
        __shared__ __align__(16) Pressures planes;                                                                     \
        first_stage(k, planes);                                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS, blocks)                                           \
        equation##_##name(const Params k, const Source source, const Receivers receivers)                              \
    {                                                                                                                  \
        __shared__ __align__(16) Fluxes planes;                                                                        \
        second_stage(k, source, receivers, planes);                                                             \
    }                                                                                                                  \
    SOURCE(equation##_source, Tti, Params)
