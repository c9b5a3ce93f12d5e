# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor copies and wgmma."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from libtile.simulator import EncodedTensorMap, LaunchError, PtxError, SimulationFault, TensorMap, run_ptx
from libtile.simulator.ops.wgmma import descriptor_offsets
from libtile.simulator.tensor_map import swizzled
from libtile.targets import tensor_map

from .ptx import REGISTERS
from .tensor_programs import COPY_OUT, FENCED, FILL, HEADER, STORE, TMA, WAIT, expect, load, run

MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


def test_tile_arrives_dense_and_reads_zero_outside_of_the_tensor() -> None:
    tensor = np.arange(40 * 24, dtype=np.uint32).reshape(24, 40)
    out = np.zeros((8, 16), dtype=np.uint32)
    body = expect(512) + load(0, "%rd10", 32, 20) + WAIT + COPY_OUT.replace("{words}", "128")
    run(body, out, TensorMap(tensor, box=(16, 8)))
    wanted = np.zeros((8, 16), dtype=np.uint32)
    wanted[:4, :8] = tensor[20:, 32:]
    assert np.array_equal(out, wanted)


def test_negative_corners_are_outside_and_may_fill_with_nan() -> None:
    tensor = np.ones((8, 8), dtype=np.float32)
    out = np.zeros((4, 8), dtype=np.float32)
    body = expect(128) + load(0, "%rd10", -4, -1) + WAIT + COPY_OUT.replace("{words}", "32")
    run(body.replace("mov.u32 %r1, %r0;", "mov.u32 %r1, %r0; setp.ge.u32 %p4, %r0, 32; @%p4 exit;"), out,
        TensorMap(tensor, box=(8, 4), fill_nan=True))  # fmt: skip
    assert np.isnan(out[0]).all() and np.isnan(out[:, :4]).all() and (out[1:, 4:] == 1).all()


@pytest.mark.parametrize("corner", [(-2, 0), (6, 4)])
def test_a_copy_begins_at_whole_16_bytes_of_a_row(corner: tuple[int, int]) -> None:
    body = expect(64) + load(0, "%rd10", *corner) + WAIT + COPY_OUT.replace("{words}", "16")
    with pytest.raises(SimulationFault, match=f"begins {4 * corner[0]} bytes into rows, no multiple of 16"):
        run(body, np.zeros(16, np.float32), TensorMap(np.ones((8, 8), np.float32), box=(4, 4)))


@pytest.mark.parametrize(("swizzle", "span"), [("32B", 32), ("64B", 64), ("128B", 128)])
def test_swizzle_exchanges_chunks_of_16_bytes_within_rows(swizzle: str, span: int) -> None:
    tensor = np.arange(16 * span // 4, dtype=np.uint32).reshape(16, span // 4)
    out = np.zeros(tensor.size, dtype=np.uint32)
    body = expect(tensor.nbytes) + load(0, "%rd10", 0, 0) + WAIT + COPY_OUT.replace("{words}", str(tensor.size))
    run(body, out, TensorMap(tensor, box=(span // 4, 16), swizzle=swizzle))
    # By the definition: chunk c of a row of 128 bytes, row y, goes to chunk c ^ (y mod 8), in units of the span.
    chunks = out.reshape(-1, 4)
    for index in range(tensor.size // 4):
        row, chunk = divmod(index, 8)
        moved = chunk ^ (row % 8 >> {32: 0, 64: 0, 128: 0}[span] & (span // 16 - 1))
        assert chunks[row * 8 + moved].tolist() == tensor.reshape(-1, 4)[index].tolist()


def test_swizzle_is_its_own_inverse_and_keeps_16_byte_chunks() -> None:
    addresses = np.arange(4096)
    for mode in (1, 2, 3):
        moved = swizzled(addresses, mode)
        assert np.array_equal(swizzled(moved, mode), addresses)
        assert np.array_equal(moved % 16, addresses % 16)


def test_store_writes_the_part_of_the_tile_that_is_inside() -> None:
    tensor = np.zeros((8, 12), dtype=np.uint32)
    run(FENCED + STORE + "@%p1 cp.async.bulk.wait_group 0;", np.zeros(1), TensorMap(tensor, box=(16, 8)))
    wanted = np.zeros((8, 12), dtype=np.uint32)
    wanted[2:, 4:] = np.arange(128).reshape(8, 16)[:6, :8]
    assert np.array_equal(tensor, wanted)


def test_reduction_adds_to_the_tensor() -> None:
    tensor = np.full((8, 16), 1000, dtype=np.uint32)
    add = STORE.replace(
        "cp.async.bulk.tensor.2d.global.shared::cta", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile"
    )
    waited = add.replace("{4, 2}", "{0, 0}") + "@%p1 cp.async.bulk.wait_group.read 0;"
    run(FENCED + waited, np.zeros(1), TensorMap(tensor, box=(16, 8)))
    assert np.array_equal(tensor, 1000 + np.arange(128).reshape(8, 16))


# Shared memory from global array `b`, 4 bytes for each of 128 threads.
TAKEN = (
    "cvt.u64.u32 %rd1, %r0; shl.b64 %rd1, %rd1, 2; add.u64 %rd1, %rd1, %rd11; ld.global.u32 %r4, [%rd1];"
    "shl.b32 %r2, %r0, 2; add.u32 %r3, %r21, %r2; st.shared.u32 [%r3], %r4; fence.proxy.async.shared::cta; bar.sync 0;"
)


def reduce(text: str, tensor: np.ndarray | TensorMap, values: np.ndarray) -> None:
    """Runs `text` with `values` in shared memory; %rd10 is the tensor's address, or that of its map."""
    params, start = ".param .u64 out, .param .u64 b, .param .u64 a", "ld.param.u64 %rd10, [a];"
    if isinstance(tensor, TensorMap):
        params = params.replace(".u64 a", ".align 64 .b8 a[128]")
        start = "mov.b64 %rd10, a; cvta.param.u64 %rd10, %rd10;"
    start += "mov.u32 %r0, %tid.x; mov.u32 %r21, s; setp.eq.u32 %p1, %r0, 0; ld.param.u64 %rd11, [b];"
    end = "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;\nret;"
    ptx = f"{HEADER}.visible .entry k({params})\n{{{REGISTERS}{start}{TAKEN}@%p1 {text}{end}\n}}"
    run_ptx(ptx, "k", block=128, args=[np.zeros(1), values, tensor])


REDUCTIONS = [
    ("add", np.int32, "s32", np.add),
    ("min", np.int32, "s32", np.minimum),
    ("max", np.uint32, "u32", np.maximum),
    ("add", np.float32, "f32", np.add),
    ("add", np.float16, "f16", np.add),
    ("max", np.float16, "f16", np.maximum),
    ("xor", np.uint64, "b64", np.bitwise_xor),
    ("min", np.int64, "s64", np.minimum),
    ("add", np.float64, "f64", np.add),
    ("inc", np.uint32, "u32", lambda old, new: np.where(old >= new, 0, old + 1)),
    ("dec", np.uint32, "u32", lambda old, new: np.where((old == 0) | (old > new), new, old - 1)),
    ("and", np.uint32, "b32", np.bitwise_and),
    ("or", np.uint64, "b64", np.bitwise_or),
]


@pytest.mark.parametrize(("name", "dtype", "kind", "function"), REDUCTIONS)
@pytest.mark.parametrize("mapped", [True, False])
def test_bulk_reductions_are_of_the_elements_type(
    name: str, dtype: type, kind: str, function: Callable[..., np.ndarray], mapped: bool
) -> None:
    rng = np.random.default_rng(5)
    count = 512 // np.dtype(dtype).itemsize
    old = rng.integers(-100 if dtype not in (np.uint32, np.uint64) else 0, 100, count).astype(dtype)
    new = rng.integers(-100 if dtype not in (np.uint32, np.uint64) else 0, 100, count).astype(dtype)
    wanted = function(old, new)
    if mapped:
        text = f"cp.reduce.async.bulk.tensor.1d.global.shared::cta.{name}.tile.bulk_group [%rd10, {{0}}], [%r21];"
        reduce(text, TensorMap(old, box=(count,)), new)
    else:
        noftz = ".noftz" if kind == "f16" and name == "add" else ""
        text = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{name}{noftz}.{kind} [%rd10], [%r21], 512;"
        reduce(text, old, new)
    assert np.array_equal(old, wanted)


def test_reductions_that_do_not_exist_are_refused() -> None:
    data = np.zeros(512, dtype=np.uint8)
    text = "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%rd10, {0}], [%r21];"
    with pytest.raises(SimulationFault, match="no such reduction of elements u8"):
        reduce(text, TensorMap(data, box=(256,)), data)
    with pytest.raises(PtxError, match=r"has no \.inc\.s32"):
        reduce("cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.s32 [%rd10], [%r21], 512;", data, data)


def test_source_of_a_store_may_not_be_reused_before_the_wait_and_needs_a_fence() -> None:
    tensor = np.zeros((8, 20), dtype=np.uint32)
    early = FENCED + STORE + "bar.sync 0; st.shared.u32 [%r3], 0;"
    run(early + "@%p1 cp.async.bulk.wait_group 0;", np.zeros(1), TensorMap(tensor, box=(16, 8)), checks="basic")
    assert not tensor.any()
    with pytest.raises(SimulationFault, match=r"a cp\.async\.bulk\.tensor reads that has not been waited for"):
        run(early + "@%p1 cp.async.bulk.wait_group 0;", np.zeros(1), TensorMap(tensor, box=(16, 8)))
    with pytest.raises(SimulationFault) as caught:
        run(FILL + "bar.sync 0;" + STORE, np.zeros(1), TensorMap(tensor, box=(16, 8)))
    assert caught.value.kind == "proxy-fence"


def test_bytes_that_host_code_encoded_are_taken_with_the_address_that_it_knew() -> None:
    tensor = np.arange(40 * 24, dtype=np.uint32).reshape(24, 40)
    out = np.zeros((8, 16), dtype=np.uint32)
    body = expect(512) + load(0, "%rd10", 16, 3) + WAIT + COPY_OUT.replace("{words}", "128")
    # The tensor is the array but its first row: 160 bytes behind what host code took for its address.
    raw = tensor_map.encode(tensor_map.TiledMap(0x7F0000001000 + 160, "u32", (40, 23), (160,), (16, 8)))
    run(body, out, EncodedTensorMap(tensor, raw, 0x7F0000001000))
    assert np.array_equal(out, tensor[4:12, 16:32])


@pytest.mark.parametrize("rank", [1, 3, 4, 5])
def test_tiles_of_every_rank(rank: int) -> None:
    sizes = (3, 4, 5, 6, 16)[-rank:]
    tensor = np.arange(np.prod(sizes), dtype=np.uint16).reshape(sizes)
    box, corner = (2, 2, 3, 2, 8)[-rank:], (2, 1, 3, 5, 8)[-rank:]
    count = int(np.prod(box))
    out = np.zeros(count, dtype=np.uint16)
    where = ", ".join(str(c) for c in reversed(corner))
    copy = load(0, "%rd10", 0, 0).replace("tensor.2d", f"tensor.{rank}d").replace("{0, 0}", f"{{{where}}}")
    run("setp.ge.u32 %p4, %r0, {words};".replace("{words}", str(count // 2)) + expect(2 * count) + copy + WAIT
        + "@%p4 exit;" + COPY_OUT.replace("{words}", str(count // 2)), out,
        TensorMap(tensor, box=tuple(reversed(box))))  # fmt: skip
    padded = np.zeros([s + b for s, b in zip(sizes, box, strict=True)], dtype=np.uint16)
    padded[tuple(slice(s) for s in sizes)] = tensor
    wanted = padded[tuple(slice(c, c + b) for c, b in zip(corner, box, strict=True))]
    assert np.array_equal(out, wanted.reshape(-1))


@pytest.mark.parametrize("rank", [1, 3, 4, 5])
def test_tiles_of_every_rank_are_stored(rank: int) -> None:
    sizes, box, corner = (3, 4, 5, 6, 16)[-rank:], (2, 2, 4, 2, 4)[-rank:], (2, 1, 3, 5, 8)[-rank:]
    tensor = np.zeros(sizes, dtype=np.uint32)
    where = ", ".join(str(c) for c in reversed(corner))
    copy = STORE.replace("tensor.2d", f"tensor.{rank}d").replace("4, 2", where)
    run(FENCED + copy + "@%p1 cp.async.bulk.wait_group 0;", np.zeros(1), TensorMap(tensor, box=tuple(reversed(box))))
    padded = np.zeros([s + b for s, b in zip(sizes, box, strict=True)], dtype=np.uint32)
    padded[tuple(slice(c, c + b) for c, b in zip(corner, box, strict=True))] = np.arange(np.prod(box)).reshape(box)
    assert np.array_equal(tensor, padded[tuple(slice(s) for s in sizes)])


def test_a_multicast_of_a_tile_goes_to_all_ctas_of_its_mask() -> None:
    tensor, out = np.arange(128, dtype=np.uint32).reshape(8, 16), np.zeros((2, 128), dtype=np.uint32)
    copy = load(0, "%rd10", 0, 0).replace("@%p1", "@%p4").replace("bytes [", "bytes.multicast::cluster [")
    start = "mov.u32 %r5, %ctaid.x; setp.eq.and.u32 %p4, %r5, 0, %p1;" + MEET
    end = "mul.wide.u32 %rd5, %r5, 512; add.u64 %rd0, %rd0, %rd5;" + COPY_OUT.replace("{words}", "128") + MEET
    for mask in (3, 4):
        body = expect(512) + start + copy.replace("[%r20];", f"[%r20], {mask};") + WAIT + end
        if mask == 3:
            run(body, out, TensorMap(tensor, box=(16, 8)), grid=2, cluster=2)
            continue
        with pytest.raises(SimulationFault, match="CTA mask 0x4 goes beyond the cluster"):
            run(body, out, TensorMap(tensor, box=(16, 8)), grid=2, cluster=2)
    assert np.array_equal(out, np.stack([tensor.reshape(-1)] * 2))


def test_element_strides_take_every_so_manyth_row_of_the_box() -> None:
    tensor = np.arange(24 * 16, dtype=np.uint32).reshape(24, 16)
    out = np.zeros((4, 16), dtype=np.uint32)
    body = expect(out.nbytes) + load(0, "%rd10", 0, 2) + WAIT
    body += "setp.ge.u32 %p4, %r0, 64; @%p4 exit;" + COPY_OUT.replace("{words}", "64")
    run(body, out, TensorMap(tensor, box=(16, 10), element_strides=(1, 3)))
    assert np.array_equal(out, tensor[2:12:3])


def test_tile_wholly_outside_of_the_tensor_reads_zero() -> None:
    out = np.ones((8, 16), dtype=np.uint32)
    body = expect(512) + load(0, "%rd10", 64, -20) + WAIT + COPY_OUT.replace("{words}", "128")
    run(body, out, TensorMap(np.ones((24, 40), dtype=np.uint32), box=(16, 8)))
    assert not out.any()


ROWS = "{8, 3, 20, 3, 24}"


def test_gather4_loads_four_rows() -> None:
    tensor = np.arange(24 * 40, dtype=np.uint32).reshape(24, 40)
    out = np.ones((4, 32), dtype=np.uint32)
    copy = load(0, "%rd10", 0, 0).replace("global.mbar", "global.tile::gather4.mbar").replace("{0, 0}", ROWS)
    body = expect(512) + copy + WAIT + COPY_OUT.replace("{words}", "128")
    run(body, out, TensorMap(tensor, box=(32, 1)), target="sm_100a")
    assert np.array_equal(out[:3], tensor[[3, 20, 3], 8:40])
    assert not out[3].any()
    run(body, out, TensorMap(tensor, box=(32, 1), swizzle="128B"), target="sm_100a")
    chunks = out.reshape(4, 8, 4)
    for row, source in enumerate((3, 20, 3)):
        for chunk in range(8):
            assert np.array_equal(chunks[row, chunk ^ row], tensor[source, 8 + 4 * chunk : 12 + 4 * chunk])
    with pytest.raises(SimulationFault, match="boxes of one row"):
        run(body, out, TensorMap(tensor, box=(32, 2)), target="sm_100a")


SCATTER = STORE.replace("shared::cta.bulk", "shared::cta.tile::scatter4.bulk").replace("{4, 2}", "{8, 3, 20, 5, 24}")


def test_scatter4_stores_four_rows() -> None:
    tensor = np.zeros((24, 40), dtype=np.uint32)
    body = FENCED + SCATTER + "@%p1 cp.async.bulk.wait_group 0;"
    run(body, np.zeros(1), TensorMap(tensor, box=(32, 1)), target="sm_100a")
    wanted = np.zeros((24, 40), dtype=np.uint32)
    wanted[[3, 20, 5], 8:40] = np.arange(96).reshape(3, 32)
    assert np.array_equal(tensor, wanted)


def test_copies_by_rows_are_of_the_targets_that_have_them() -> None:
    gather = load(0, "%rd10", 0, 0).replace("global.mbar", "global.tile::gather4.mbar").replace("{0, 0}", ROWS)
    own = gather.replace("shared::cluster.global", "shared::cta.global")
    prefetch = f"cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4 [%rd10, {ROWS}];"
    # What ptxas assembles for each target.
    for target, copies in {"sm_90a": (), "sm_100a": (gather, own, SCATTER, prefetch), "sm_120a": (own,)}.items():
        for copy in (gather, own, SCATTER, prefetch):
            text = (
                FENCED
                + expect(512)
                + copy
                + "@%p1 cp.async.bulk.wait_group 0;"
                + (WAIT if "gather4.mb" in copy else "")
            )
            tensor = TensorMap(np.ones((24, 40), np.uint32), box=(32, 1))
            if copy in copies:
                run(text, np.zeros(1), tensor, target=target)
                continue
            with pytest.raises(PtxError, match=f"scatter4|gather4 of tensor copies is not there on {target[:-1]}"):
                run(text, np.zeros(1), tensor, target=target)


def test_reductions_by_rows_are_of_four() -> None:
    tensor = np.full((24, 40), 1000, dtype=np.uint32)
    body = FENCED + SCATTER.replace("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor").replace(
        "cta.tile", "cta.add.tile"
    )
    run(body + "@%p1 cp.async.bulk.wait_group 0;", np.zeros(1), TensorMap(tensor, box=(32, 1)), target="sm_100a")
    wanted = np.full((24, 40), 1000, dtype=np.uint32)
    wanted[[3, 20, 5], 8:40] += np.arange(96, dtype=np.uint32).reshape(3, 32)
    assert np.array_equal(tensor, wanted)


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("wgmma.fence.sync.aligned;", "sm_100a", "the instruction wgmma is not there on sm_100"),
        ("tcgen05.wait::ld.sync.aligned;", "sm_90a", "the instruction tcgen05 is not there on sm_90"),
        ("tcgen05.wait::ld.sync.aligned;", "sm_120a", "the instruction tcgen05 is not there on sm_120"),
        (load(0, "%rd10", 0, 0).replace("bytes [", "bytes.cta_group::2 ["), "sm_90a", "a pair of CTAs is not there on"),
        (load(0, "%rd10", 0, 0), "sm_80", "the mode tile of tensor copies is not there on sm_80"),
    ],
)
def test_instructions_are_of_the_targets_that_have_them(text: str, target: str, said: str) -> None:
    with pytest.raises(PtxError, match=said):
        run(text, np.zeros(1), TensorMap(np.zeros((8, 16), np.uint32), box=(16, 8)), target=target)


def test_stores_do_not_begin_in_front_of_the_tensor() -> None:
    text = FENCED + STORE.replace("{4, 2}", "{0, -2}") + "@%p1 cp.async.bulk.wait_group 0;"
    with pytest.raises(SimulationFault, match=r"begins at \(0, -2\): coordinates of these are not negative"):
        run(text, np.zeros(1), TensorMap(np.zeros((8, 16), np.uint32), box=(16, 8)))


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (f"{TMA} [%r21], [%rd10, {{0}}], [%r20];", "needs 2 coordinates"),
        (f"{TMA.replace('.2d', '')} [%r21], [%rd10, {{0, 0}}], [%r20];", "needs a rank"),
        (f"{TMA} [%r21], [%rd10], [%r20];", "needs a tensor map with coordinates"),
        (f"{TMA} [%r21], [%rd10, {{0, 0}}];", "lacks an operand"),
        (f"{TMA}.multicast::cluster [%r21], [%rd10, {{0, 0}}], [%r20];", "needs a mask of CTAs"),
        (STORE.replace("cta.bulk", "cta.im2col.bulk"), "to global memory has no mode im2col"),
        (f"{TMA.replace('global', 'global.tile::scatter4')} [%r21], [%rd10, {{0, 0}}], [%r20];", "mode tile::scatter4"),
    ],
)  # fmt: skip
def test_copies_that_do_not_exist_are_refused(copy: str, said: str) -> None:
    with pytest.raises(PtxError, match=said):
        run(copy, np.zeros(1), TensorMap(np.zeros((8, 16), np.uint32), box=(16, 8)))


def test_a_prefetch_is_of_a_place_in_a_tensor_map() -> None:
    made = TensorMap(np.zeros((8, 16), np.uint32), box=(16, 8))
    prefetch = "@%p1 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd10, {0, -3}];"
    run(prefetch, np.zeros(1), made)
    with pytest.raises(SimulationFault, match="no multiple of 16"):
        run(prefetch.replace("{0", "{2"), np.zeros(1), made)
    with pytest.raises(SimulationFault, match="has rank 2, the instruction 3"):
        run(prefetch.replace("2d", "3d").replace("{0", "{0, 0"), np.zeros(1), made)


def test_wrong_tensor_maps_are_refused() -> None:
    tensor = np.zeros((8, 16), dtype=np.uint32)
    for wrong in (
        TensorMap(tensor, box=(16,)),
        TensorMap(tensor, box=(3, 8)),
        TensorMap(tensor, box=(16, 300)),
        TensorMap(tensor, box=(16, 8), swizzle="32B"),
        TensorMap(tensor, box=(16, 8), swizzle="48B"),
        TensorMap(tensor, box=(16, 8), fill_nan=True),
        TensorMap(tensor, box=(16, 8), element="i7"),
    ):
        with pytest.raises(LaunchError):
            run("", np.zeros(1), wrong)


# -- wgmma


def accumulators(count: int) -> str:
    return "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"


def store_result(n: int) -> str:
    """D of m64nN in f32: row 16 w + g + 8 (i / 2 % 2), column 8 (i / 4) + 2 t + i % 2."""
    lines = [
        "shr.u32 %r30, %r0, 5; and.b32 %r31, %r0, 31; shr.u32 %r32, %r31, 2; and.b32 %r33, %r31, 3;"
        f"mad.lo.u32 %r34, %r30, 16, %r32; mul.lo.u32 %r34, %r34, {n}; mad.lo.u32 %r34, %r33, 2, %r34;"
        "mul.wide.u32 %rd1, %r34, 4; add.u64 %rd1, %rd0, %rd1;"
    ]
    for i in range(n // 2):
        lines.append(f"st.global.f32 [%rd1+{4 * ((i // 2 % 2) * 8 * n + 8 * (i // 4) + i % 2)}], %d{i};")
    return "\n".join(lines)


def descriptor(register: str, where: int, leading: int, stride: int, swizzle: int) -> str:
    constant = (leading >> 4 << 16) | (stride >> 4 << 32) | (swizzle << 62)
    return (
        f"add.u32 %r23, %r21, {where}; shr.u32 %r23, %r23, 4; and.b32 %r23, %r23, 0x3fff; cvt.u64.u32 {register}, %r23;"
        f"or.b64 {register}, {register}, {constant};"
    )


def multiply(n: int, a: str, b: str, first: bool, transpose_b: int = 0) -> str:
    return (
        f"setp.ne.u32 %p5, {int(not first)}, 0; wgmma.fence.sync.aligned;"
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {accumulators(n // 2)}, {a}, {b}, "
        f"%p5, 1, 1, 0, {transpose_b};"
    )


FINISH = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"


def operands(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    a = rng.integers(-8, 8, (64, 64)).astype(np.float16)
    b = rng.integers(-8, 8, (n, 64)).astype(np.float16)
    return a, b, np.full((64, n), np.nan, dtype=np.float32)


def test_gemm_from_swizzled_tiles_along_k() -> None:
    a, b, out = operands(64)
    body = expect(16384) + load(0, "%rd10", 0, 0) + load(8192, "%rd11", 0, 0) + WAIT
    for step in range(4):
        body += descriptor("%rd20", 32 * step, 16, 1024, 1) + descriptor("%rd21", 8192 + 32 * step, 16, 1024, 1)
        body += multiply(64, "%rd20", "%rd21", step == 0)
    maps = TensorMap(a, box=(64, 64), swizzle="128B"), TensorMap(b, box=(64, 64), swizzle="128B")
    run(body + FINISH + store_result(64), out, *maps)
    assert np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32).T)


def test_gemm_with_b_along_n() -> None:
    a, b, out = operands(128)
    across = np.ascontiguousarray(b.T)
    body = (
        expect(8192 + 16384) + load(0, "%rd10", 0, 0) + load(8192, "%rd11", 0, 0) + load(16384, "%rd11", 64, 0) + WAIT
    )
    for step in range(4):
        # Rows of k are 128 bytes; the second 64 columns of n lie 8192 bytes on.
        body += descriptor("%rd20", 32 * step, 16, 1024, 1) + descriptor("%rd21", 8192 + 2048 * step, 8192, 1024, 1)
        body += multiply(128, "%rd20", "%rd21", step == 0, transpose_b=1)
    maps = TensorMap(a, box=(64, 64), swizzle="128B"), TensorMap(across, box=(64, 64), swizzle="128B")
    run(body + FINISH + store_result(128), out, *maps)
    assert np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32).T)


def test_gemm_from_core_matrices_without_swizzle_and_a_in_registers() -> None:
    a, b, out = operands(32)
    body = expect(32 * 128)
    body += "".join(load(512 * chunk, "%rd11", 8 * chunk, 0) for chunk in range(8)) + WAIT
    # A: 8 halves per lane of the warp's 16 rows, straight from global memory by the fragment map.
    body += (
        "ld.global.u64 %rd12, [%rd10]; shr.u32 %r30, %r0, 5; and.b32 %r31, %r0, 31; shr.u32 %r32, %r31, 2;"
        "and.b32 %r33, %r31, 3; mad.lo.u32 %r34, %r30, 16, %r32; shl.b32 %r34, %r34, 7; mad.lo.u32 %r34, %r33, 4, %r34;"
        "cvt.u64.u32 %rd13, %r34; add.u64 %rd12, %rd12, %rd13;"
    ).replace("ld.global.u64", "ld.u64")
    for step in range(4):
        k = 32 * step
        body += "".join(f"ld.global.u32 %r{40 + i}, [%rd12+{k + (i % 2) * 1024 + (i // 2) * 16}];" for i in range(4))
        body += descriptor("%rd21", 1024 * step, 512, 128, 0)
        text = multiply(32, "{%r40, %r41, %r42, %r43}", "%rd21", step == 0)
        # The registers of A are loaded again for the next step.
        body += text.replace("1, 1, 0, 0;", "1, 1, 0;") + FINISH
    run(body + store_result(32), out, TensorMap(a, box=(64, 64)), TensorMap(b, box=(8, 32)))
    assert np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32).T)


def test_operands_written_by_threads_need_a_proxy_fence() -> None:
    _, _, out = operands(8)
    fill = "mov.u32 %r1, 0; mad.lo.u32 %r2, %r0, 32, %r21; {lines} {fence} bar.sync 0;"
    lines = "".join(f"st.shared.u32 [%r2+{4 * i}], 0;" for i in range(8))
    compute = descriptor("%rd20", 0, 1024, 128, 0) + descriptor("%rd21", 0, 1024, 128, 0)
    compute += multiply(8, "%rd20", "%rd21", True) + FINISH + store_result(8)
    body = fill.replace("{lines}", lines) + compute
    maps = TensorMap(np.zeros((8, 8), np.float32), box=(4, 4))
    run(body.replace("{fence}", "fence.proxy.async;"), out, maps)
    assert not out.any()
    with pytest.raises(SimulationFault) as caught:
        run(body.replace("{fence}", ""), out, maps)
    assert caught.value.kind == "proxy-fence"


def test_descriptor_of_a_swizzled_operand_names_each_byte_once() -> None:
    for mode, span in ((1, 128), (2, 64), (3, 32)):
        word = (1024 >> 4) | (8 * span >> 4 << 32) | (mode << 62)
        offsets = descriptor_offsets(word, 64, span // 2, 16, False)
        assert sorted(offsets.reshape(-1).tolist()) == list(range(1024, 1024 + 64 * span, 2))


def test_copies_and_tensor_cores_are_not_counted_as_accesses_of_warps() -> None:
    a, b, out = operands(64)
    body = expect(16384) + load(0, "%rd10", 0, 0) + load(8192, "%rd11", 0, 0) + WAIT
    body += descriptor("%rd20", 0, 16, 1024, 1) + descriptor("%rd21", 8192, 16, 1024, 1)
    body += multiply(64, "%rd20", "%rd21", True) + FINISH + store_result(64)
    maps = TensorMap(a, box=(64, 64), swizzle="128B"), TensorMap(b, box=(64, 64), swizzle="128B")
    counters = run(body, out, *maps)
    assert (counters.shared_requests, counters.bank_conflicts) == (0, 0)
    assert counters.global_requests == 4 * 32
