# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The TMA passes: what they make of right programs, and what they say about wrong ones."""

from __future__ import annotations

import pytest
from dialects.inner import GATHER, MEMREF, SHARED, VIEW, messages, module

from libtile.asm import parse, print_op
from libtile.diagnostics import DiagnosticError
from libtile.dialects.cuda_tile.verify import verify
from libtile.transforms.pipeline import PassManager, parse_pipeline

LOWER, SEPARATE, ATTACH, LEGALIZE = (
    "lower-tma-load-store-to-async",
    "separate-host-tma",
    "attach-tma-descriptor-args",
    "tileas-legalize-tmem-copy",
)
BOX = "box=[8,4]"
DESC = f"!nv_tileas.tma_desc<{MEMREF}, [8, 4]>"
TARGET = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1, target=sm_90>}"
STATIC = "!nv_tileaa.memref<64x64xf32, strides=[64,1], 1>"


def after(passes: str, text: str) -> str:
    """The module after passes, verified; DiagnosticError when a pass or the verifier refuses it."""
    op = parse(text)
    assert verify(op) == []
    PassManager(parse_pipeline(passes)).run(op)
    printed = print_op(op)
    assert messages(printed) == []
    return printed


def refused(passes: str, text: str) -> str:
    with pytest.raises(DiagnosticError) as raised:
        PassManager(parse_pipeline(passes)).run(parse(text))
    return raised.value.diagnostics[0].message


def load(attributes: str = "allow_tma, ", kind: str = "tma_load", view: str = VIEW, name: str = "%tv") -> str:
    return (
        f"%v = nv_tileas.tiled_load {name}[%i, %j] {{{attributes}atom = #nv_tileas.copy_atom<{kind}, {BOX}>}} : "
        f"{view}, index, index -> tile<4x8xf32>"
    )


def store(attributes: str = "allow_tma, ") -> str:
    return (
        f"%o = nv_tileas.tiled_store %tv[%i, %j], %v48, %t {{{attributes}atom = #nv_tileas.copy_atom<tma_store, "
        f"{BOX}>}} : {VIEW}, tile<4x8xf32>, index, index, !nv_tileaa.mem_token -> !nv_tileaa.mem_token"
    )


def test_a_load_waits_at_a_barrier_object_for_its_bytes() -> None:
    text = after(LOWER, module(load()))
    order = [
        "make_tiled_tma_desc",
        "create_mbarrier",
        "mbarrier_arrive",
        "async.tiled_tma_load",
        "mbarrier_wait",
        "copy",
    ]
    found = [line.split("nv_tileas.")[1].split(" ")[0] for line in text.splitlines() if "nv_tileas." in line]
    assert [name for name in found if name in order] == order
    assert "tiled_load " not in text
    assert "tx_count = 128" in text  # 4 x 8 elements of 4 bytes


def test_a_store_fences_its_buffer_and_hands_its_token_on() -> None:
    text = after(
        LOWER, module(f"{store()}\n%u = nv_tileaa.join_mem_token %o : !nv_tileaa.mem_token -> !nv_tileaa.mem_token")
    )
    places = [
        text.index(name)
        for name in ("fence_proxy", "nv_tileas.barrier", "tiled_tma_store", "commit_group", "async.wait")
    ]
    assert places == sorted(places)
    assert "join_mem_token %arg" in text  # the copy is waited for: what is behind it comes behind its own predecessor


def test_an_access_by_threads_is_left_alone() -> None:
    assert "nv_tileas.tiled_load" in after(LOWER, module(load(kind="ldg")))


def test_tma_has_to_be_allowed_or_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = module(load(""))
    assert "nv_tileas.tiled_load" in after(LOWER, quiet)
    assert "tiled_tma_load" in after(f"{LOWER}{{prefer-tma=true}}", quiet)
    monkeypatch.setenv("TILEIR_PREFER_TMA_FOR_LOAD_STORE", "1")
    assert "tiled_tma_load" in after(LOWER, quiet)
    monkeypatch.setenv("TILEIR_PREFER_TMA_FOR_LOAD_STORE", "0")
    assert "nv_tileas.tiled_load" in after(LOWER, quiet)


def test_the_wait_of_a_store_may_move_behind_the_next_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"{store()}\n%r = arith.addi %i, %j : index\nnv_tileas.barrier\n%s = arith.addi %r, %j : index"

    def ops(text: str) -> list[str]:
        kept = ("async.wait", "nv_tileas.barrier", "addi", "tiled_tma_store")
        return [name for line in text.splitlines() for name in kept if name in line]

    prompt = ["nv_tileas.barrier", "tiled_tma_store", "async.wait", "addi", "nv_tileas.barrier", "addi"]
    late = ["nv_tileas.barrier", "tiled_tma_store", "addi", "nv_tileas.barrier", "async.wait", "addi"]
    assert ops(after(LOWER, module(body))) == prompt
    assert ops(after(f"{LOWER}{{delay-store-wait=true}}", module(body))) == late
    monkeypatch.setenv("TILEIR_DELAY_TMA_STORE_WAIT", "1")
    delayed = after(LOWER, module(body))
    assert ops(delayed) == late
    assert "delay_wait" in delayed


def test_descriptors_are_numbered_in_order_and_shared_by_like_accesses() -> None:
    second = load().replace("%v =", "%w =")
    text = after(LOWER, module(f"{load()}\n{store()}\n{second}"))
    lines = [line for line in text.splitlines() if "tmaIdx" in line]
    numbers = [int(line.split("tmaIdx = ")[1].split(",")[0].split("}")[0]) for line in lines]
    assert numbers == [0, 0, 1, 1, 0]


def test_rows_selected_by_index_are_gathered() -> None:
    text = after(LOWER, module(load(view=GATHER, name="%gv")))
    assert "async.gather_tma_load" in text


NAN = "padding_value = #nv_tileaa.padding_value<nan>, "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            module(load(), attributes=""),
            "'nv_tileaa.func' op LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function",
        ),
        (module(load(f"allow_tma, {NAN}")), "'nv_tileas.tiled_load' op TmaLoad only support zero padding now"),
        (
            module(
                load(
                    f"allow_tma, {NAN}", view=VIEW.replace("4x8>", "4x8, #nv_tileaa.tiling<sparse_dim=0>>"), name="%g"
                ),
                g=VIEW.replace("4x8>", "4x8, #nv_tileaa.tiling<sparse_dim=0>>"),
            ),
            "'nv_tileas.tiled_load' op GatherTmaLoad only support zero padding now",
        ),
        (module(load().replace(f", {BOX}", "")), "'nv_tileas.tiled_load' op failed to get expected tx-count"),
    ],
)
def test_what_cannot_become_asynchronous_is_refused(text: str, message: str) -> None:
    assert refused(LOWER, text) == message


COPY = (
    "%r = nv_tileas.async.tiled_tma_load %d[%i, %j], %sm{} {{atom = #nv_tileas.copy_atom<tma_load, box=[8,4]>, "
    f"tmaIdx = 0{{}}}}}} : {DESC}, index, index, {SHARED}{{}} -> !nv_tileas.async_token"
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (COPY.format("", "", ""), "failed to get expected tx-count"),
        (COPY.format("", ", tx_count = 128", ""), "failed to get MBarrier object"),
        (
            COPY.format(", %mb", ", tx_count = 128", ", !nv_tileas.mbarrier"),
            "failed to find smem buffer address for mbarrier",
        ),
        (
            "%bar = nv_tileas.create_mbarrier : !nv_tileas.mbarrier\n"
            + COPY.format(", %bar", ", tx_count = 128", ", !nv_tileas.mbarrier"),
            "failed to init mbarrier",
        ),
    ],
)
def test_an_asynchronous_load_without_its_barrier_is_refused(body: str, message: str) -> None:
    assert refused(LOWER, module(body, d=DESC)).endswith(f"' op {message}")


# -- descriptors ------------------------------------------------------------------------------------------------------


def make(tensor: str = "%mr", index: str = ", tmaIdx = 0", more: str = "", type_: str = MEMREF) -> str:
    return (
        f"nv_tileas.make_tiled_tma_desc {tensor} {{atom = #nv_tileas.copy_atom<tma_load, {BOX}>{index}{more}}} : "
        f"{type_} -> !nv_tileas.tma_desc<{type_}, [8, 4]>"
    )


MEMREF_OF = (
    "%m = nv_tileaa.make_memref %p, %s, %j, %i, %j : !nv_tileaa.ptr<f32, 1>, index, index, index, index -> " + MEMREF
)


def test_a_descriptor_moves_to_the_host_with_what_it_depends_on() -> None:
    body = f"%s = arith.addi %i, %j : index\n{MEMREF_OF}\n%d = {make('%m')}\n%x = arith.addi %s, %i : index"
    text = after(SEPARATE, module(body, TARGET))
    kernel, host = text.split("module @k_host")
    assert "make_tiled_tma_desc" not in kernel and "make_memref" not in kernel
    assert "get_tma_desc {tmaIdx = 0}" in kernel
    assert host.index("arith.addi") < host.index("make_memref") < host.index("make_tiled_tma_desc")


def test_a_kernel_without_descriptors_gets_no_host_module() -> None:
    assert "host" not in after(SEPARATE, module("%s = arith.addi %i, %j : index", TARGET))


DEVICE = ", on_device"
IN_BRANCH = f"""scf.if %cond {{
  %s = arith.addi %i, %j : index
  {MEMREF_OF}
  %d = {make("%m")}
}}"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("\n".join(f"%d{n} = {make(index=f', tmaIdx = {n}', more=DEVICE)}" for n in range(33)),
         "too many device TMA descriptors"),
        (
            f"scf.for %s = %i to %j step %j {{\n{MEMREF_OF}\n%d = {make('%m')}\n}}",
            "expected MakeTiledTMADescOp not depends on scf",
        ),
        (
            '%s = "scf.if"(%cond) ({\n"scf.yield"(%i) : (index) -> ()\n}, {\n"scf.yield"(%j) : (index) -> ()\n}) '
            f": (i1) -> index\n{MEMREF_OF}\n%d = {make('%m')}",
            "expected MakeTiledTMADescOp not depends on scf",
        ),
        (
            '%n = arith.index_cast %i : index to i32\n%a = "math.ctpop"(%n) : (i32) -> i32\n'
            f"%s = arith.index_cast %a : i32 to index\n{MEMREF_OF}\n%d = {make('%m')}",
            "math dialect not suppourt in separateHostTMA pass in the moment.",
        ),
        (f"%d = {make(index='')}", "not find tmaIdx."),
    ],
)  # fmt: skip
def test_a_descriptor_that_the_host_cannot_make_is_refused(body: str, message: str) -> None:
    assert refused(SEPARATE, module(body, TARGET, cond="i1")).endswith(f"' op {message}")


def test_a_value_carried_by_a_loop_has_more_than_one_source() -> None:
    body = (
        '%r = "scf.for"(%i, %j, %j, %i) ({\n^bb0(%k: index, %s: index):\n' + MEMREF_OF + f"\n%d = {make('%m')}\n"
        '"scf.yield"(%s) : (index) -> ()\n}) : (index, index, index, index) -> index'
    )
    found = refused(SEPARATE, module(body, TARGET))
    assert "values depended by MakeTiledTMADescOp are not supportedbecause " in found
    assert found.endswith(" matches more than 1 captured values.")


def test_a_kernel_without_a_target_has_no_host_side() -> None:
    assert refused(SEPARATE, module(f"%d = {make()}")).endswith(
        "expects a compute_capability on a kernel with host TMA descriptors"
    )


def test_a_descriptor_in_a_function_that_is_no_kernel_is_refused() -> None:
    text = module(f"%d = {make()}", "attributes {compute_capability = #nv_tileaa.compute_capability<sm_90>}")
    assert refused(SEPARATE, text) == "'nv_tileas.make_tiled_tma_desc' op expect lower MakeTiledTMADescOp"


def test_arguments_come_in_the_order_of_the_indices() -> None:
    other = MEMREF.replace("f32", "i32")
    body = (
        f"%a = {make(index=', tmaIdx = 1')}\n%b = {make('%n', type_=other)}\n"
        f"%e = {make(index=', tmaIdx = 0', more=DEVICE)}"
    )
    text = after(ATTACH, module(body, n=other))
    head = text.splitlines()[1]
    assert head.index(f"tma_desc<{other}") < head.index(f"tma_desc<{MEMREF}")
    assert head.count("{cute_nvgpu.grid_constant, nv_tileas.hidden}") == 2
    assert '"nv_tileas.num-device-tmas" = 1 : i32, "nv_tileas.num-host-tmas" = 2 : i32' in head
    assert text.count("make_tiled_tma_desc") == 1  # the device's own


COUNTS = "kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>, "
ONE_EACH = 'attributes {{{}"nv_tileas.num-device-tmas" = {} : i32, "nv_tileas.num-host-tmas" = {} : i32}}'


@pytest.mark.parametrize(
    ("body", "device", "host", "message"),
    [
        (f"%d = {make(index=', tmaIdx = 1')}", 0, 1, "tmaIdx exceed tmaHostNum."),
        (f"%d = {make(index=', tmaIdx = 1', more=DEVICE)}", 1, 0, "tmaIdx exceed tmaDeviceNum."),
        (f"%d = {make(index='')}", 0, 1, "not find tmaIdx."),
    ],
)
def test_an_index_fits_the_counts(body: str, device: int, host: int, message: str) -> None:
    passes = f"{ATTACH}{{recount=false}}"
    assert refused(passes, module(body, ONE_EACH.format(COUNTS, device, host))).endswith(f"' op {message}")
    if "tmaIdx" in body:
        after(passes, module(body, ONE_EACH.format(COUNTS, device * 2, host * 2)))


def test_counts_that_are_to_be_there_are_asked_for() -> None:
    found = refused(f"{ATTACH}{{recount=false}}", module(f"%d = {make()}"))
    assert found == "'nv_tileaa.func' op funcOp lack tmaDeviceNum and tmaHostNum attr"


def test_the_passes_work_one_behind_the_other() -> None:
    body = (
        f"{MEMREF_OF.replace('%s', '%i')}\n%a = nv_tileaa.block_tile %m {{tileSizes = array<i64: 4, 8>, dimGroups = "
        f"[array<i64: 0>, array<i64: 1>]}} : {MEMREF} -> {VIEW}\n{load(name='%a')}"
    )
    text = after(f"{LOWER},{SEPARATE},{ATTACH}", module(body, TARGET))
    kernel, host = text.split("module @k_host")
    assert "cute_nvgpu.grid_constant" in kernel and "make_tiled_tma_desc" in host and "block_tile" not in kernel


# -- tensor memory ----------------------------------------------------------------------------------------------------

TMEM, SMEM = "!nv_tileas.buffer<128x32xf32, tmem>", "!nv_tileas.buffer<128x32xf32, shared>"


@pytest.mark.parametrize(
    ("body", "atoms"),
    [
        (f"%r = nv_tileas.copy %tm : {TMEM} -> tile<128x32xf32>", ["tcgen05_ld"]),
        (f"nv_tileas.copy %v, %tm : tile<128x32xf32>, {TMEM}", ["tcgen05_st"]),
        (f"nv_tileas.copy %tm, %s : {TMEM}, {SMEM}", ["tcgen05_ld", "stmatrix"]),
        (f"nv_tileas.copy %s, %tm : {SMEM}, {TMEM}", ["ldmatrix", "tcgen05_st"]),
        (f"nv_tileas.copy %v, %s : tile<128x32xf32>, {SMEM}", []),
    ],
)
def test_a_copy_across_tensor_memory_is_one_that_hardware_has(body: str, atoms: list[str]) -> None:
    text = after(LEGALIZE, module(body, v="tile<128x32xf32>", s=SMEM))
    found = [part.split(",")[0].split(">")[0] for part in text.split("#nv_tileas.copy_atom<")[1:]]
    assert found == atoms
    assert after(LEGALIZE, text) == text


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        ("64x32xf32", "failed to infer register layout from tmem layout"),
        ("128x1024xf32", "failed to infer register layout from tmem layout"),
        ("128x32xf64", "failed to infer source layout from tmem layout"),
    ],
)
def test_a_copy_that_hardware_has_not_is_refused(type_: str, message: str) -> None:
    tmem, smem = f"!nv_tileas.buffer<{type_}, tmem>", f"!nv_tileas.buffer<{type_}, shared>"
    found = refused(LEGALIZE, module(f"nv_tileas.copy %x, %y : {tmem}, {smem}", x=tmem, y=smem))
    assert found == f"'nv_tileas.copy' op {message}"


def test_a_descriptor_in_a_branch_moves_when_it_depends_on_arguments_only() -> None:
    kernel, host = after(SEPARATE, module(IN_BRANCH, TARGET, cond="i1")).split("module @k_host")
    assert "get_tma_desc" in kernel.split("scf.if")[1]
    assert "scf" not in host and "make_tiled_tma_desc" in host
