# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libtile.compile: its stages, options and errors."""

import dataclasses
import re

import numpy as np
import pytest

import libtile
from libtile.interpreter.formats import ELEMENTS
from libtile.ir import tile_form
from libtile.ir.module_pass import ModulePass
from libtile.lowering.to_tileas.shape_layouts import grown, permuted, reshaped, shrunk, sliced, spread
from libtile.passes import registry
from libtile.passes.pipeline import parse_pipeline, passes_in
from libtile.support.diagnostics import LoweringError
from libtile.support.environment import VERIFY_EACH

COPY = """cuda_tile.module @m {{
  entry @{name}(%src: tile<ptr<f32>>, %dst: tile<ptr<f32>>) {{
    %a = assume div_by<16>, %src : tile<ptr<f32>>
    %b = assume div_by<16>, %dst : tile<ptr<f32>>
    %i = iota : tile<512xi32>
    %p1 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
    %p = broadcast %p1 : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %pi = offset %p, %i : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %v, %t = load_ptr_tko weak %pi : tile<512xptr<f32>> -> tile<512xf32>, token
    %q1 = reshape %b : tile<ptr<f32>> -> tile<1xptr<f32>>
    %q = broadcast %q1 : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %qi = offset %q, %i : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %u = store_ptr_tko weak %qi, %v token=%t : tile<512xptr<f32>>, tile<512xf32> -> token
    return
  }}
}}
"""


def copy_module(name: str = "copy") -> libtile.Module:
    return libtile.parse(COPY.format(name=name))


@pytest.mark.parametrize(
    "stage, field", [("tileaa", "tileaa"), ("tileas", "tileas"), ("llvm", "llvm_ir"), ("ptx", "ptx")]
)
def test_a_compilation_stops_where_it_is_told(stage, field):
    made = libtile.compile(copy_module(), emit=stage)
    assert "copy" in getattr(made, field)
    assert made.cubin == b""


def test_accesses_are_as_wide_as_assumed_facts_allow():
    made = libtile.compile(copy_module(), gpu_name="sm_80", emit="ptx")
    assert "ld.global.v4" in made.ptx
    assert "st.global.v4" in made.ptx


def test_the_launch_abi_is_a_choice():
    assert ".language" in libtile.compile(copy_module(), emit="ptx").ptx
    assert ".language" not in libtile.compile(copy_module(), emit="ptx", launch_abi="simt").ptx


def test_an_observer_sees_the_module_after_each_pass():
    seen = []

    def observe(name, op):
        seen.append(name)
        libtile.verify(op)

    libtile.compile(copy_module(), emit="tileas", observer=observe)
    assert seen == [item.name for item in passes_in(parse_pipeline("O3"))]


TRANSPOSE = """
  entry @t{size}(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %tp = make_tensor_view %p, shape = [{size}, {size}], strides = [{size}, 1] : tensor_view<{size}x{size}xf32, strides=[{size},1]>
    %tq = make_tensor_view %q, shape = [{size}, {size}], strides = [{size}, 1] : tensor_view<{size}x{size}xf32, strides=[{size},1]>
    %vp = make_partition_view %tp : partition_view<tile=({size}x{size}), tensor_view<{size}x{size}xf32, strides=[{size},1]>>
    %vq = make_partition_view %tq : partition_view<tile=({size}x{size}), tensor_view<{size}x{size}xf32, strides=[{size},1]>>
    %x, %t0 = load_view_tko weak %vp[%zero, %zero] : partition_view<tile=({size}x{size}), tensor_view<{size}x{size}xf32, strides=[{size},1]>>, tile<i32> -> tile<{size}x{size}xf32>, token
    %y = permute %x [1, 0] : tile<{size}x{size}xf32> -> tile<{size}x{size}xf32>
    %t1 = store_view_tko weak %y, %vq[%zero, %zero] : tile<{size}x{size}xf32>, partition_view<tile=({size}x{size}), tensor_view<{size}x{size}xf32, strides=[{size},1]>>, tile<i32> -> token
    return
  }}
"""  # noqa: E501


@dataclasses.dataclass(frozen=True)
class WrongPass(ModulePass):
    """Adds a conversion that its verifier refuses: neither type is a block-scaled format."""

    name = "wrong"

    def apply(self, ctx, op):
        load = next(o for o in op.walk() if o.name == "nv_tileas.load")
        wrong = tile_form.build("nv_tileaa.emulated_fp_to_fp", [load.results[0]], [load.results[0].type])
        load.parent.insert_ops_after([wrong], load)


def test_ir_between_passes_is_verified_when_asked_for(monkeypatch):
    monkeypatch.setitem(registry.PASSES, "wrong", registry.Entry(f"{__name__}:WrongPass"))
    monkeypatch.delenv(VERIFY_EACH.name, raising=False)
    libtile.compile(copy_module(), emit="tileas", pipeline="O3,wrong")
    said = "the compiler made invalid IR in wrong:\n.*expects floats, one of which is of a block-scaled format"
    with pytest.raises(LoweringError, match=said):
        libtile.compile(copy_module(), emit="tileas", pipeline="O3,wrong", verify_each=True)
    monkeypatch.setenv(VERIFY_EACH.name, "1")
    with pytest.raises(LoweringError, match=said):
        libtile.compile(copy_module(), emit="tileas", pipeline="O3,wrong")


COPY_OF_WHOLE_TILES = """
cuda_tile.module @m {
  entry @copy(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>) {
    %p = assume div_by<16>, %a : tile<ptr<f32>>
    %q = assume div_by<16>, %b : tile<ptr<f32>>
    %tp = make_tensor_view %p, shape = [4100], strides = [1] : tensor_view<4100xf32, strides=[1]>
    %tq = make_tensor_view %q, shape = [4100], strides = [1] : tensor_view<4100xf32, strides=[1]>
    %vp = make_partition_view %tp : partition_view<tile=(512), tensor_view<4100xf32, strides=[1]>>
    %vq = make_partition_view %tq : partition_view<tile=(512), tensor_view<4100xf32, strides=[1]>>
    %zero = constant <i32: 0> : tile<i32>
    %eight = constant <i32: 8> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    for %i in (%zero to %eight, step %one) : tile<i32> {
      %x, %t = load_view_tko weak %vp[%i] : partition_view<tile=(512), tensor_view<4100xf32, strides=[1]>>, tile<i32> -> tile<512xf32>, token
      %u = store_view_tko weak %x, %vq[%i] token = %t : tile<512xf32>, partition_view<tile=(512), tensor_view<4100xf32, strides=[1]>>, tile<i32> -> token
    }
    return
  }
}
"""  # noqa: E501


def test_what_the_optimizer_knows_of_bounds_reaches_the_accesses():
    made = {
        level: libtile.compile(COPY_OF_WHOLE_TILES.encode(), opt_level=level, emit="llvm", keep_text=True)
        for level in (0, 1, 3)
    }
    masked = {level: re.findall(r"masked = array<i64([^>]*)>", result.tileas) for level, result in made.items()}
    assert masked == {0: [": 0", ": 0"], 1: ["", ""], 3: ["", ""]}
    source = np.arange(4100, dtype=np.float32)
    for level in (0, 3):
        target = np.zeros_like(source)
        libtile.run(
            COPY_OF_WHOLE_TILES.encode(),
            "copy",
            args=[source, target],
            backend="simulator",
            opt_level=level,
            check="full",
        )
        np.testing.assert_array_equal(target[:4096], source[:4096])


def test_kernels_of_a_module_take_what_each_needs_of_shared_memory():
    text = "cuda_tile.module @m {" + TRANSPOSE.format(size=16) + TRANSPOSE.format(size=64) + "}"
    made = libtile.compile(libtile.parse(text), gpu_name="sm_80")
    assert (made.kernels["t16"].smem, made.kernels["t64"].smem) == (1024, 16384)


def test_an_exchange_that_does_not_fit_says_what_is_missing(monkeypatch):
    from libtile import targets
    from libtile.lowering.tileas.memory import allocate

    small = dataclasses.replace(targets.target("sm_80"), shared_per_block=16)
    monkeypatch.setattr(allocate, "target", lambda name: small)
    module = libtile.parse("cuda_tile.module @m {" + TRANSPOSE.format(size=64) + "}", filename="t.mlir")
    with pytest.raises(LoweringError) as error:
        libtile.compile(module, gpu_name="sm_80")
    assert re.match(
        r"t\.mlir:10:\d+: 'nv_tileas\.convert_layout' op needs \d+ bytes of shared memory to exchange elements between "
        r"threads, but sm_80 has 16 bytes left beside the 0 of the kernel's pipelines \(types: ",
        str(error.value),
    )
    assert error.value.location.line == 10


def test_an_empty_module_is_an_empty_cubin():
    made = libtile.compile(libtile.parse("cuda_tile.module @m {}"))
    assert made.cubin.startswith(b"\x7fELF")
    assert made.kernels == {}


def test_optimization_levels_agree():
    source = np.arange(512, dtype=np.float32)
    for level in (0, 3):
        made = libtile.compile(copy_module(), opt_level=level, launch_abi="simt", emit="ptx")
        result = np.zeros(512, np.float32)
        from libtile.simulator import run_ptx

        run_ptx(made.ptx, "copy", block=made.kernels["copy"].block_dim, args=[source, result])
        assert np.array_equal(result, source)


def test_the_simulator_is_a_backend():
    source, result = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    done = libtile.run(copy_module(), args=[source, result], backend="simulator", gpu_name="sm_120", check="full")
    assert np.array_equal(result, source)
    assert done.blocks == 1


def test_what_cannot_be_compiled_names_op_target_and_place():
    text = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<f16>>) {
    %x = constant <f16: 1.0> : tile<f16>
    %t = store_ptr_tko weak %p, %x : tile<ptr<f16>>, tile<f16> -> token
    return
  }
}
"""
    module = libtile.parse(text, filename="k.mlir")
    from libtile.dialects.nv_tileas.memory import StoreOp
    from libtile.lowering.to_llvm.emitter import RULES

    rule = RULES.pop(StoreOp)
    try:
        with pytest.raises(
            LoweringError, match=r"^k\.mlir:4:10: 'nv_tileas\.store' op cannot be compiled on sm_90"
        ) as e:
            libtile.compile(module)
    finally:
        RULES[StoreOp] = rule
    assert e.value.location.line == 4


@pytest.mark.parametrize("shape", [(), (1,), (8,), (1024,), (64, 128), (1, 64), (16, 1), (4, 8, 16)])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_spread_layouts_cover_their_tile(shape, warps):
    layout = spread(shape, warps, 4, list(reversed(range(len(shape)))))
    assert layout.shape == shape
    assert layout.is_surjective
    assert (layout.in_size("lane"), layout.in_size("warp")) == (32, warps)


def test_renaming_layouts_undo_each_other():
    layout = spread((64, 128), 4, 4, [1, 0])
    assert reshaped(reshaped(layout, (8, 8, 128)), (64, 128)) == layout
    assert permuted(permuted(layout, [1, 0]), [1, 0]) == layout
    assert reshaped(sliced(layout, 1), (64, 1)) == shrunk(layout, (64, 1))
    assert grown(shrunk(layout, (64, 1)), (64, 128)).shape == (64, 128)


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
def test_scalar_parameters_of_every_width_arrive(backend):
    numbers = {"i1": 1, "i8": -3, "i16": -300, "i32": -70000, "i64": 1 << 40, "f16": 1.5, "bf16": -2.5, "f32": 0.25,
               "f64": 1e300, "tf32": 3.0, "f8E5M2": 0.5}  # fmt: skip
    parameters = [f"%x{i}: tile<{e}>, %p{i}: tile<ptr<{e}>>" for i, e in enumerate(numbers)]
    stores = [f"store_ptr_tko weak %p{i}, %x{i} : tile<ptr<{e}>>, tile<{e}> -> token" for i, e in enumerate(numbers)]
    text = f"cuda_tile.module @m {{ entry @k({', '.join(parameters)}) {{\n{chr(10).join(stores)}\nreturn }} }}"
    outs = [np.zeros(1, ELEMENTS[e].dtype) for e in numbers]
    libtile.run(libtile.parse(text), args=[a for pair in zip(numbers.values(), outs) for a in pair], backend=backend)
    assert [float(out[0]) for out in outs] == list(numbers.values())


def _verify(name, op):
    libtile.verify(op)


TV = "tensor_view<60x64xf32, strides=[64,1]>"
VALID_BETWEEN_PASSES = {
    "a store that is inside along one dimension": f"""
        %v = make_tensor_view %p, shape = [60, 64], strides = [64, 1] : {TV}
        %w = make_partition_view %v : partition_view<tile=(16x16), {TV}>
        %x = constant <f32: 1.0> : tile<16x16xf32>
        %i = constant <i32: 3> : tile<i32>
        %t = store_view_tko weak %x, %w[%i, %i] inbounds = [false, true]
            : tile<16x16xf32>, partition_view<tile=(16x16), {TV}>, tile<i32> -> token""",
    "a part of a loaded tile": f"""
        %v = make_tensor_view %p, shape = [60, 64], strides = [64, 1] : {TV}
        %w = make_partition_view %v : partition_view<tile=(16x16), padding_value = zero, {TV}>
        %i = constant <i32: 1> : tile<i32>
        %x, %t = load_view_tko weak %w[%i, %i]
            : partition_view<tile=(16x16), padding_value = zero, {TV}>, tile<i32> -> tile<16x16xf32>, token
        %y = permute %x [1, 0] : tile<16x16xf32> -> tile<16x16xf32>
        %part = constant <f32: 2.0> : tile<8x4xf32>
        %z = insert %part, %y[%i, %i] : tile<8x4xf32>, tile<16x16xf32>
        %o = make_partition_view %v : partition_view<tile=(16x16), {TV}>
        %u = store_view_tko weak %z, %o[%i, %i] token=%t
            : tile<16x16xf32>, partition_view<tile=(16x16), {TV}>, tile<i32> -> token""",
}


@pytest.mark.parametrize("body", VALID_BETWEEN_PASSES.values(), ids=VALID_BETWEEN_PASSES)
def test_ir_is_valid_behind_every_pass(body):
    module = libtile.parse(f"cuda_tile.module @m {{ entry @k(%p: tile<ptr<f32>>) {{ {body}\n return }} }}")
    libtile.compile(module, emit="llvm", observer=_verify)
    outs = [np.arange(60 * 64, dtype=np.float32) for _ in range(2)]
    for out, backend in zip(outs, ("interpreter", "simulator")):
        libtile.run(module, args=[out], backend=backend)
    assert np.array_equal(*outs)
