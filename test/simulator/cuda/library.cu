// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's own C++: cooperative groups, cuda::atomic_ref, cuda::barrier, cuda::pipeline, as their headers expand them.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

#include "common.cuh"

namespace cg = cooperative_groups;

extern "C" __global__ void group_tiles(s32 *out, const s32 *a) {
    LANES;
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    s32 x = a[i];
    PUT(cg::reduce(tile, x, cg::plus<s32>()));
    PUT(cg::reduce(tile, x, cg::greater<s32>()));
    PUT(cg::inclusive_scan(tile, x));
    PUT(tile.shfl(x, 3));
    PUT((s32)tile.meta_group_rank() * 100 + (s32)tile.thread_rank());
    PUT((s32)tile.ballot(x > 0));
    PUT(tile.any(x > 95) ? 1 : 0);
    block.sync();
    PUT((s32)block.size());
}

// The lanes that are here together: a group found at run time.
extern "C" __global__ void group_coalesced(s32 *out, s32 *counter, const s32 *a) {
    int i = threadIdx.x;
    s32 result = -1;
    if (a[i] % 3 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        s32 base = 0;
        if (active.thread_rank() == 0) base = atomicAdd(counter, (s32)active.size());
        result = active.shfl(base, 0) + (s32)active.thread_rank();
    }
    out[i] = result;
}

extern "C" __global__ void group_copy(s32 *out, const s32 *a) {
    __shared__ __align__(16) s32 box[256];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, box, a, sizeof(box));
    cg::wait(block);
    out[threadIdx.x] = box[255 - threadIdx.x] + box[threadIdx.x];
}

extern "C" __global__ void standard_atomics(s32 *cells, float *sums, const s32 *a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cuda::atomic_ref<s32, cuda::thread_scope_device> total(cells[0]);
    total.fetch_add(a[i], cuda::memory_order_relaxed);
    cuda::atomic_ref<s32, cuda::thread_scope_block> low(cells[1 + blockIdx.x]);
    low.fetch_min(a[i], cuda::memory_order_acq_rel);
    cuda::atomic_ref<float, cuda::thread_scope_system> sum(sums[0]);
    sum.fetch_add((float)a[i]);
    cuda::atomic_ref<s32, cuda::thread_scope_device> product(cells[8]);
    s32 seen = product.load(cuda::memory_order_acquire);
    while (!product.compare_exchange_weak(seen, seen * (a[i] | 1), cuda::memory_order_release)) {}
    cuda::atomic_ref<s32, cuda::thread_scope_device> flag(cells[9]);
    flag.store(7, cuda::memory_order_release);
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
}

// Split arrive and wait: work between the two needs no shared data.
extern "C" __global__ void standard_barrier(s32 *out, const s32 *a) {
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ s32 box[64];
    int i = threadIdx.x;
    if (i == 0) init(&barrier, blockDim.x);
    __syncthreads();
    s32 sum = 0;
    for (int round = 0; round < 4; ++round) {
        box[i] = a[i] + round;
        auto token = barrier.arrive();
        s32 mine = a[i] * round;
        barrier.wait(std::move(token));
        sum += mine + box[(i * 7 + 1) & 63];
        barrier.arrive_and_wait();
    }
    out[i] = sum;
}

extern "C" __global__ void standard_pipeline(s32 *out, const s32 *a, int tiles) {
    __shared__ __align__(16) s32 box[2][64];
    int i = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    pipe.producer_acquire();
    cuda::memcpy_async(&box[0][i], &a[i], sizeof(s32), pipe);
    pipe.producer_commit();
    s32 sum = 0;
    for (int t = 0; t < tiles; ++t) {
        if (t + 1 < tiles) {
            pipe.producer_acquire();
            cuda::memcpy_async(&box[(t + 1) & 1][i], &a[(t + 1) * 64 + i], sizeof(s32), pipe);
            pipe.producer_commit();
            cuda::pipeline_consumer_wait_prior<1>(pipe);
        } else {
            cuda::pipeline_consumer_wait_prior<0>(pipe);
        }
        __syncthreads();
        sum = sum * 3 + box[t & 1][63 - i];
        __syncthreads();
        pipe.consumer_release();
    }
    out[i] = sum;
}
