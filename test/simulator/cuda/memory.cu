// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads and stores: vectors, narrow types, cache operators, address spaces, aggregates.
#include "common.cuh"

extern "C" __global__ void vector_copy(float4 *f4, const float4 *g4, int2 *i2, const int2 *j2, uchar4 *c4,
                                       const uchar4 *d4, short2 *s2, const short2 *t2, double2 *d2,
                                       const double2 *e2, ulonglong2 *u2, const ulonglong2 *v2) {
    int i = threadIdx.x;
    float4 f = g4[i];
    f4[i] = make_float4(f.w, f.z, f.y, f.x);
    int2 j = j2[i];
    i2[i] = make_int2(j.y, j.x);
    uchar4 c = d4[i];
    c4[i] = make_uchar4(c.y, c.x, c.w, c.z);
    short2 s = t2[i];
    s2[i] = make_short2(s.y, s.x);
    double2 d = e2[i];
    d2[i] = make_double2(d.y, d.x);
    ulonglong2 u = v2[i];
    u2[i] = make_ulonglong2(u.y, u.x);
}

extern "C" __global__ void narrow_types(s32 *out, const s8 *a, const u8 *b, const s16 *c, const u16 *d, s8 *e, u16 *f) {
    LANES;
    PUT(a[i]);
    PUT(b[i]);
    PUT(c[i]);
    PUT(d[i]);
    e[i] = (s8)(a[i] * 3);
    f[i] = (u16)(d[i] + 40000);
}

#define LD(op, type, con, var, pointer) asm volatile("ld.global" op "." type " %0, [%1];" : "=" con(var) : "l"(pointer))
#define ST(op, type, con, var, pointer) asm volatile("st.global" op "." type " [%0], %1;" ::"l"(pointer), con(var) : "memory")

extern "C" __global__ void cache_operators(u32 *out, u32 *scratch, const u32 *__restrict__ a) {
    LANES;
    u32 v;
    PUT(__ldg(&a[i]));
    PUT(__ldca(&a[i]));
    PUT(__ldcg(&a[i]));
    PUT(__ldcs(&a[i]));
    PUT(__ldcv(&a[i]));
    PUT(__ldlu(&a[i]));
    LD(".nc.L1::no_allocate", "u32", "r", v, a + i);
    PUT(v);
    LD(".L1::evict_last.L2::128B", "u32", "r", v, a + i);
    PUT(v);
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(a + i));
    PUT(v);
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(a + i));
    PUT(v);
    asm volatile("ld.weak.global.u32 %0, [%1];" : "=r"(v) : "l"(a + i));
    PUT(v);
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(a + i));
    PUT(v);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(a + i));
    asm volatile("prefetch.global.L1 [%0];" ::"l"(a + i));
    asm volatile("prefetchu.L1 [%0];" ::"l"(a + i));
    u32 x = a[i] + 1;
    __stwb(scratch + i, x);
    __stcg(scratch + lanes + i, x);
    __stcs(scratch + 2 * lanes + i, x);
    __stwt(scratch + 3 * lanes + i, x);
    asm volatile("st.relaxed.cta.global.u32 [%0], %1;" ::"l"(scratch + 4 * lanes + i), "r"(x) : "memory");
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(scratch + 5 * lanes + i), "r"(x) : "memory");
    ST(".L1::evict_first", "u32", "r", x, scratch + 6 * lanes + i);
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(scratch + 7 * lanes + i), "r"(x) : "memory");
}

__constant__ float table_f32[8] = {0.5f, 1.5f, -2.5f, 3.25f, 4.0f, -5.0f, 6.75f, 7.0f};
__constant__ s16 table_s16[4] = {-1, 300, -300, 7};
struct Named {
    s8 tag;
    double weight;
    const s16 *table;
};
__constant__ Named named[2] = {{3, 0.25, table_s16}, {-4, -8.5, table_s16 + 2}};

extern "C" __global__ void constant_memory(double *out) {
    LANES;
    PUT(table_f32[i & 7]);
    PUT(table_f32[3]);
    PUT(named[i & 1].weight + named[i & 1].tag);
    PUT(named[i & 1].table[(i >> 1) & 1]);
}

__device__ u32 module_word = 0xdeadbeefu;
__device__ u64 module_zeroed[64];
__device__ u8 module_bytes[5] = {1, 2, 3, 250, 255};
__device__ u32 *module_pointer = &module_word;

// Reads module variables with initialisers, then changes them.
extern "C" __global__ void module_globals(u64 *out) {
    LANES;
    PUT(*module_pointer);
    PUT(module_zeroed[i]);
    PUT(module_bytes[i % 5]);
    __syncthreads();
    module_zeroed[i] = (u64)i * 0x100000001ull;
    if (i == 0) *module_pointer = 42;
    __syncthreads();
    PUT(module_zeroed[(i + 1) % lanes]);
    PUT(module_word);
}

struct Packet {
    s8 kind;
    float scale;
    s16 bias[3];
    u64 key;
    double weights[2];
};

extern "C" __global__ void struct_by_value(double *out, Packet packet, float3 shift) {
    LANES;
    PUT(packet.kind);
    PUT(packet.scale * shift.y);
    PUT(packet.bias[i % 3]);
    PUT((double)(packet.key >> 32));
    PUT(packet.weights[i & 1] + shift.x - shift.z);
}

// A local array indexed at run time lives in .local memory; -O0 puts every variable there.
extern "C" __global__ void local_array(u32 *out, const u32 *a) {
    LANES;
    u32 box[16];
    for (int k = 0; k < 16; ++k) box[k] = a[i] + k * k;
    u32 hash = 0;
    for (int k = 0; k < 16; ++k) {
        int at = (a[i] + k * 7) & 15;
        hash = hash * 31 + box[at];
        box[at] ^= hash;
    }
    PUT(hash);
    PUT(box[a[i] & 15]);
}

__device__ __noinline__ void add_to(u32 *where, u32 amount) { *where += amount; }

// One function writes through generic pointers into local, shared and global memory.
extern "C" __global__ void generic_pointers(u32 *out, u32 *a) {
    LANES;
    __shared__ u32 box[64];
    u32 mine[2] = {(u32)i, 5u};
    box[i] = 100;
    add_to(&mine[i & 1], 7);
    add_to(&box[i], (u32)i);
    add_to(&a[i], 3);
    PUT(mine[0]);
    PUT(mine[1]);
    PUT(box[i]);
    PUT((u32)__isGlobal(a) | (u32)__isShared(box) << 1 | (u32)__isLocal(mine) << 2 | (u32)__isGlobal(box) << 3 |
        (u32)__isShared(mine) << 4 | (u32)__isConstant(table_f32) << 5);
    u32 offset = (u32)__cvta_generic_to_shared(&box[i]);
    u32 loaded;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(loaded) : "r"(offset));
    PUT(loaded);
    u32 *back = (u32 *)__cvta_shared_to_generic(offset);
    PUT(*back);
}

// Source and destination are at every misalignment; memcpy must go byte by byte.
extern "C" __global__ void unaligned_copy(u8 *out, const u8 *in) {
    int i = threadIdx.x;
    u32 word;
    memcpy(&word, in + i * 5 + 1, 4);
    word = word * 2654435761u;
    memcpy(out + i * 7 + 3, &word, 4);
    memset(out + i * 7 + 7, i, 3);
}

struct Wide {
    u64 a, b, c;
    u8 d;
};

// Structure assignment through arrays: padding, byte and 64-bit members.
extern "C" __global__ void struct_copy(Wide *out, const Wide *in, const u32 *order) {
    int i = threadIdx.x;
    Wide w = in[order[i]];
    w.a += w.d;
    w.d = (u8)~w.d;
    out[i] = w;
}

// Vector members with an unused part, and 128-bit accesses through .shared.
extern "C" __global__ void shared_vectors(u32 *out, const uint4 *in) {
    LANES;
    __shared__ uint4 box[32];
    box[i] = in[i];
    __syncthreads();
    uint4 v = box[31 - i];
    PUT(v.x + v.w);
    uint2 half = ((const uint2 *)box)[(i * 2 + 3) & 63];
    PUT(half.x ^ half.y);
    PUT(((const u16 *)box)[i * 8 + 5]);
    PUT(((const u8 *)box)[i * 16 + 9]);
    __syncthreads();
    ((u16 *)box)[i * 8 + 1] = (u16)i;
    __syncthreads();
    PUT(box[(i + 5) & 31].x);
}

// ld.param with offsets, stack frames through alloca-like local structures, mov of vectors.
extern "C" __global__ void pack_unpack(u64 *out, const u32 *a) {
    LANES;
    u32 lo, hi;
    u64 packed;
    u16 h0, h1;
    asm volatile("mov.b64 %0, {%1, %2};" : "=l"(packed) : "r"(a[i]), "r"(a[i] ^ 0xffffu));
    PUT(packed);
    asm volatile("mov.b64 {%0, %1}, %2;" : "=r"(lo), "=r"(hi) : "l"(packed + 1));
    PUT(((u64)lo << 32) | hi);
    asm volatile("mov.b32 {%0, %1}, %2;" : "=h"(h0), "=h"(h1) : "r"(a[i]));
    PUT(((u64)h0 << 16) | h1);
    asm volatile("mov.b32 %0, {%1, %2};" : "=r"(lo) : "h"(h1), "h"(h0));
    PUT(lo);
}

// The device heap: each thread builds a list, walks it, and gives it back.
struct Node {
    u32 value;
    Node *next;
};

extern "C" __global__ void device_heap(u32 *out) {
    int i = threadIdx.x;
    Node *head = nullptr;
    for (int k = 0; k <= (i & 7); ++k) {
        Node *node = (Node *)malloc(sizeof(Node));
        node->value = (u32)(i * 10 + k);
        node->next = head;
        head = node;
    }
    u32 hash = 17;
    while (head) {
        hash = hash * 31 + head->value;
        Node *next = head->next;
        free(head);
        head = next;
    }
    int *array = new int[4];
    for (int k = 0; k < 4; ++k) array[k] = i + k;
    out[i] = hash + array[(i + 1) & 3];
    delete[] array;
}

struct Table {
    float4 rows[4];
    int order[6];
};

__device__ __noinline__ float look_up(const Table *table, int i) {
    float4 row = table->rows[i & 3];
    return row.x + row.w * table->order[i % 6];
}

// The address of a parameter, taken and passed on; and vectors by value.
extern "C" __global__ void parameter_address(float *out, const __grid_constant__ Table table, float4 v, uchar3 c, short2 s) {
    LANES;
    PUT(look_up(&table, i));
    PUT(v.x * 2.0f + v.z);
    PUT((float)(c.x + c.y * c.z));
    PUT((float)(s.x - s.y));
}

// Stack memory of a size known at run time only.
extern "C" __global__ void stack_allocation(u32 *out, int n) {
    int i = threadIdx.x, count = n + (i & 3);
    u32 *room = (u32 *)alloca(count * sizeof(u32));
    for (int k = 0; k < count; ++k) room[k] = (u32)(k * i);
    u32 sum = 0;
    for (int k = count - 1; k >= 0; --k) sum = sum * 3 + room[k];
    out[i] = sum;
}
