// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sm_90: elect, mbarrier, bulk copies, clusters.
#include "common.cuh"

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    u32 done = 0;
    while (!done)
        asm volatile(
            "{ .reg .pred p;\n\t mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(barrier), "r"(parity)
            : "memory");
}

// Exactly one lane of the mask is elected, the same for all of them.
extern "C" __global__ void elect_one(u32 *out) {
    LANES;
    u32 leader, chosen;
    asm volatile(
        "{ .reg .pred p;\n\t elect.sync %0|p, 0xffffffff;\n\t selp.u32 %1, 1, 0, p; }"
        : "=r"(leader), "=r"(chosen));
    PUT(leader);
    PUT(chosen);
    u32 count = __popc(__ballot_sync(0xffffffffu, chosen));
    PUT(count);
}

// All threads arrive; phases alternate; test_wait and try_wait see them complete.
extern "C" __global__ void mbarrier_phases(s32 *out, const s32 *in, int rounds) {
    __shared__ __align__(8) u64 barrier;
    __shared__ s32 box[64];
    const int i = threadIdx.x;
    u32 at = shared_address(&barrier);
    if (i == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(at) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    s32 sum = 0;
    for (int r = 0; r < rounds; ++r) {
        box[i] = in[r * 64 + i];
        u64 state;
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
        u32 done = 0;
        while (!done)
            asm volatile(
                "{ .reg .pred p;\n\t mbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n\t selp.u32 %0, 1, 0, p; }"
                : "=r"(done)
                : "r"(at), "l"(state)
                : "memory");
        sum = sum * 5 + box[(i * 3 + r) & 63];
        __syncthreads();
    }
    u32 pending;
    u64 token;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(at) : "memory");
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(token));
    out[i] = sum;
    out[64 + i] = pending >= 1 && pending <= 64;
    __syncthreads();
    if (i == 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(at) : "memory");
}

// One thread asks for a bulk copy and says how many bytes will arrive; everyone waits on the barrier.
extern "C" __global__ void bulk_copy(u32 *out, const u32 *in) {
    __shared__ __align__(128) u32 box[256];
    __shared__ __align__(8) u64 barrier;
    const int i = threadIdx.x;
    u32 at = shared_address(&barrier);
    if (i == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(at) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(
                shared_address(box)),
            "l"(in), "r"(at)
            : "memory");
    }
    __syncthreads();
    barrier_wait(at, 0);
    for (int k = i; k < 256; k += 64) box[k] = box[k] * 2 + 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (i == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(out), "r"(shared_address(box))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}

// A ring of two stages: a producer warp copies, a consumer warp adds; full and empty barriers in turn.
extern "C" __global__ void bulk_ring(u32 *out, const u32 *in, int tiles) {
    __shared__ __align__(128) u32 ring[2][128];
    __shared__ __align__(8) u64 full[2], empty[2];
    const int i = threadIdx.x, lane = i & 31;
    if (i == 0) {
        for (int s = 0; s < 2; ++s) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[s])) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(shared_address(&empty[s])) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (i < 32) {
        if (lane == 0)
            for (int t = 0; t < tiles; ++t) {
                int s = t & 1;
                u32 bar = shared_address(&full[s]);
                if (t >= 2) barrier_wait(shared_address(&empty[s]), (t / 2 + 1) & 1);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" ::"r"(bar) : "memory");
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::"r"(
                        shared_address(ring[s])),
                    "l"(in + t * 128), "r"(bar)
                    : "memory");
            }
    } else {
        u32 sum = 0;
        for (int t = 0; t < tiles; ++t) {
            int s = t & 1;
            barrier_wait(shared_address(&full[s]), (t / 2) & 1);
            for (int k = 0; k < 4; ++k) sum = sum * 7 + ring[s][(lane * 5 + k * 32) & 127];
            u64 state;
            asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(&empty[s])) : "memory");
        }
        out[lane] = sum;
    }
}

// Ordinary cp.async can signal an mbarrier, too.
extern "C" __global__ void async_copy_barrier(u32 *out, const u32 *in) {
    __shared__ __align__(16) u32 box[64];
    __shared__ __align__(8) u64 barrier;
    const int i = threadIdx.x;
    u32 at = shared_address(&barrier);
    if (i == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(at) : "memory");
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(box + i)), "l"(in + i) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
    barrier_wait(at, 0);
    out[i] = box[63 - i];
}

// Two CTAs of a cluster read each other's shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_exchange(u32 *out, const u32 *in) {
    __shared__ u32 box[32];
    const int i = threadIdx.x;
    u32 rank, size, peer_address, value;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    box[i] = in[blockIdx.x * 32 + i];
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_address) : "r"(shared_address(box + i)), "r"(rank ^ 1));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(peer_address) : "memory");
    out[blockIdx.x * 32 + i] = value + size * 1000;
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" __global__ void dependent_launch(u32 *out) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[threadIdx.x] = threadIdx.x;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Where a CTA is in its cluster and its cluster in the grid.
extern "C" __global__ void __cluster_dims__(2, 2, 1) cluster_registers(u32 *out) {
    u32 v;
    int slot = 0, cta = blockIdx.y * gridDim.x + blockIdx.x;
#define CLUSTER(name)                                  \
    asm volatile("mov.u32 %0, %%" name ";" : "=r"(v)); \
    if (threadIdx.x == 0) out[cta * 13 + slot] = v;    \
    ++slot;
    CLUSTER("clusterid.x")
    CLUSTER("clusterid.y")
    CLUSTER("nclusterid.x")
    CLUSTER("nclusterid.y")
    CLUSTER("cluster_ctaid.x")
    CLUSTER("cluster_ctaid.y")
    CLUSTER("cluster_ctaid.z")
    CLUSTER("cluster_nctaid.x")
    CLUSTER("cluster_nctaid.y")
    CLUSTER("cluster_nctaid.z")
    CLUSTER("cluster_ctarank")
    CLUSTER("cluster_nctarank")
    asm volatile("{ .reg .pred p;\n\t mov.pred p, %%is_explicit_cluster;\n\t selp.u32 %0, 1, 0, p; }" : "=r"(v));
    if (threadIdx.x == 0) out[cta * 13 + slot] = v;
}

// Each CTA adds into the shared memory of the first of its cluster.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_reduction(u32 *out, const u32 *in) {
    __shared__ u32 total[32];
    const int i = threadIdx.x;
    total[i] = 0;
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    u32 first;
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(first) : "r"(shared_address(&total[i])));
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(first), "r"(in[blockIdx.x * 32 + i]) : "memory");
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (rank == 0) out[blockIdx.x / 4 * 32 + i] = total[i];
}
