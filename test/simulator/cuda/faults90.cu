// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mistakes with the asynchronous machinery of sm_90, made when `bad` is not zero.
#include "common.cuh"

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// A bulk copy reads shared memory through the async proxy: ordinary writes before it need a fence.
extern "C" __global__ void missing_proxy_fence(u32 *out, const u32 *in, int bad) {
    __shared__ __align__(128) u32 box[32];
    int i = threadIdx.x;
    box[i] = in[i] + 1;
    if (!bad) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (i == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;" ::"l"(out), "r"(shared_address(box)) : "memory");  // MISTAKE
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// The barrier expects more bytes than the copy brings: its phase never ends.
extern "C" __global__ void too_few_bytes(u32 *out, const u32 *in, int bad) {
    __shared__ __align__(128) u32 box[64];
    __shared__ __align__(8) u64 barrier;
    int i = threadIdx.x;
    u32 at = shared_address(&barrier), done = 0;
    if (i == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bad ? 256 : 128) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::"r"(
                shared_address(box)),
            "l"(in), "r"(at)
            : "memory");
    }
    __syncthreads();
    while (!done)
        asm volatile(
            "{ .reg .pred p;\n\t mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\t selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(at)
            : "memory");
    out[i] = box[i];
}

// The destination is read before the barrier says that the bytes are there.
extern "C" __global__ void bulk_copy_not_waited_for(u32 *out, const u32 *in, int bad) {
    __shared__ __align__(128) u32 box[32];
    __shared__ __align__(8) u64 barrier;
    int i = threadIdx.x;
    u32 at = shared_address(&barrier), done = bad;
    if (i == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(at) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];" ::"r"(
                shared_address(box)),
            "l"(in), "r"(at)
            : "memory");
    }
    __syncthreads();
    while (!done)
        asm volatile(
            "{ .reg .pred p;\n\t mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\t selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(at)
            : "memory");
    out[i] = box[i];  // MISTAKE
}

// A bulk copy's address must be a multiple of 16.
extern "C" __global__ void misaligned_bulk_copy(u32 *out, const u32 *in, int bad) {
    __shared__ __align__(128) u32 box[64];
    int i = threadIdx.x;
    box[i] = in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (i == 0) {
        u32 from = shared_address(box) + (bad ? 8 : 0);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" ::"l"(out), "r"(from) : "memory");  // MISTAKE
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// An mbarrier that nobody initialised.
extern "C" __global__ void unset_mbarrier(u32 *out, int bad) {
    __shared__ __align__(8) u64 barrier;
    int i = threadIdx.x;
    u32 at = shared_address(&barrier);
    if (i == 0 && !bad) asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(at) : "memory");
    __syncthreads();
    u64 state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");  // MISTAKE
    out[i] = state != 1;
}
