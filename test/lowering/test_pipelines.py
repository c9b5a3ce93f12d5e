# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose loads come through a pipeline give what the interpreter gives, in the simulator with every check on."""

import re

import numpy as np
import pytest

import libtile
from libtile.simulator import run_ptx
from libtile.targets import target

VIEW_A = "partition_view<tile=(32x32), tensor_view<32x?xf16, strides=[?,1]>>"
VIEW_B = "partition_view<tile=(32x64), tensor_view<?x64xf16, strides=[64,1]>>"
VIEW_C = "partition_view<tile=(32x64), tensor_view<32x64xf32, strides=[64,1]>>"

SETUP = f"""
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x64xf32>
    %pa = assume div_by<16>, %pa0 : tile<ptr<f16>>
    %pb = assume div_by<16>, %pb0 : tile<ptr<f16>>
    %ta = make_tensor_view %pa, shape = [32, %k], strides = [%k, 1] : tile<i32> -> tensor_view<32x?xf16, strides=[?,1]>
    %tb = make_tensor_view %pb, shape = [%k, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %tc = make_tensor_view %pc, shape = [32, 64], strides = [64, 1] : tensor_view<32x64xf32, strides=[64,1]>
    %va = make_partition_view %ta : {VIEW_A}
    %vb = make_partition_view %tb : {VIEW_B}
    %vc = make_partition_view %tc : {VIEW_C}
"""
LOADS = f"""
      %a, %t0 = load_view_tko weak %va[%zero, %i] : {VIEW_A}, tile<i32> -> tile<32x32xf16>, token
      %b, %t1 = load_view_tko weak %vb[%i, %zero] : {VIEW_B}, tile<i32> -> tile<32x64xf16>, token
"""
PRODUCT = """
      %d = mmaf %a, %b, %c : tile<32x32xf16>, tile<32x64xf16>, tile<32x64xf32>
"""
STORE = f"""
    %w = store_view_tko weak %r, %vc[%zero, %zero] : tile<32x64xf32>, {VIEW_C}, tile<i32> -> token
"""
HEAD = "for %i in (%lower to %upper, step %step) : tile<i32>"


def module(body: str, setup: str = SETUP, store: str = STORE) -> libtile.Module:
    parameters = "%pa0: tile<ptr<f16>>, %pb0: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %k: tile<i32>"
    bounds = "%lower: tile<i32>, %upper: tile<i32>, %step: tile<i32>"
    text = f"cuda_tile.module @m {{\n entry @k({parameters}, {bounds}) {{\n{setup}{body}{store}\n return\n }}\n}}\n"
    return libtile.parse(text)


def loop(body: str, given: str = "%d", head: str = HEAD) -> str:
    begin = f"    %r = {head} iter_values(%c = %none) -> (tile<32x64xf32>) {{\n"
    return f"{begin}{body}      continue {given} : tile<32x64xf32>\n    }}\n"


def arrays(depth: int):
    random = np.random.default_rng(depth)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((32, depth), (depth, 64)))
    return a, b, np.full((32, 64), 7, np.float32)


def check(text: libtile.Module, depth: int, lower: int, upper: int, step: int, gpu: str = "sm_80", stages=4) -> None:
    """Compare the two backends; `stages` is how many the loop must have, None for a loop without pipeline."""
    made = libtile.compile(text, gpu_name=gpu, emit="tileas").tileas
    assert (f"nv_tileas.pipeline<{stages}," in made) if stages else ("create_pipeline" not in made)
    compare(text, depth, lower, upper, step, gpu)


def compare(text: libtile.Module, depth: int, lower: int, upper: int, step: int, gpu: str) -> None:
    results = []
    for backend in ("interpreter", "simulator"):
        a, b, c = arrays(depth)
        options = {"gpu_name": gpu, "check": "full"} if backend == "simulator" else {}
        done = libtile.run(text, "k", args=[a, b, c, depth, lower, upper, step], backend=backend, **options)
        results.append(c)
        del done
    np.testing.assert_array_equal(*results)


SIMPLE = loop(LOADS + PRODUCT)


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 9])
def test_a_loop_may_have_any_number_of_iterations(trips):
    check(module(SIMPLE), 288, 0, trips, 1)


@pytest.mark.parametrize(("lower", "upper", "step"), [(1, 8, 2), (2, 9, 3), (5, 5, 4), (7, 3, 1), (0, 9, 100)])
def test_a_loop_may_begin_and_step_anyhow(lower, upper, step):
    check(module(SIMPLE), 288, lower, upper, step)


@pytest.mark.parametrize("distance", [9, 8])
def test_a_counter_may_end_at_the_largest_number_or_would_wrap_around_before_it(distance):
    top = 2**31 - 1
    shifted = LOADS.replace("%i]", "%j]").replace("[%i,", "[%j,")
    body = "      %j = subi %i, %lower : tile<i32>\n" + shifted + PRODUCT
    check(module(loop(body)), 320, top - distance, top, 3)


def test_a_counter_may_be_wide():
    head = "for %i in (%l to %u, step %s) : tile<i64>"
    narrow = "      %j = trunci %i : tile<i64> -> tile<i32>\n"
    bounds = "".join(
        f"    %{wide} = exti %{given} signed : tile<i32> -> tile<i64>\n"
        for wide, given in (("l", "lower"), ("u", "upper"), ("s", "step"))
    )
    loads = LOADS.replace("%zero, %i]", "%zero, %j]").replace("[%i, ", "[%j, ")
    check(module(bounds + loop(narrow + loads + PRODUCT, head=head)), 288, 1, 9, 3)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("counter", "upper", "stages"), [("i1", 1, None), ("i8", 9, 4)])
def test_a_counter_may_have_few_numbers(counter, upper, stages, gpu):
    """One bit has no number for the iterations that are ahead."""
    head = f"for unsigned %i in (%l to %u, step %s) : tile<{counter}>"
    wide = f"      %j = exti %i unsigned : tile<{counter}> -> tile<i32>\n"
    bounds = "".join(
        f"    %{narrow} = trunci %{given} : tile<i32> -> tile<{counter}>\n"
        for narrow, given in (("l", "lower"), ("u", "upper"), ("s", "step"))
    )
    loads = LOADS.replace("%zero, %i]", "%zero, %j]").replace("[%i, ", "[%j, ")
    text = module(bounds + loop(wide + loads + PRODUCT, head=head))
    if gpu == "sm_80":
        check(text, 288, 0, upper, 1, stages=stages)
        return
    compare(text, 288, 0, upper, 1, gpu)


def test_a_counter_may_be_unsigned():
    check(module(loop(LOADS + PRODUCT, head=HEAD.replace("for", "for unsigned"))), 288, 0, 9, 1)


@pytest.mark.parametrize("depth", [40, 100, 250])
def test_a_tensor_may_end_within_a_tile(depth):
    # Rows of odd lengths have no alignment: the copies fall back to loads and stores.
    def padded(text: str) -> str:
        return text.replace("<tile=(32x32), ", "<tile=(32x32), padding_value = zero, ").replace(
            "<tile=(32x64), tensor_view<?", "<tile=(32x64), padding_value = zero, tensor_view<?"
        )

    body, setup = padded(SIMPLE), padded(SETUP)
    check(module(body, setup), depth, 0, -(-depth // 32), 1)


def test_what_is_loaded_may_be_computed_with_before_the_product():
    body = LOADS + "      %a2 = mulf %a, %a : tile<32x32xf16>\n" + PRODUCT.replace("mmaf %a", "mmaf %a2")
    check(module(loop(body)), 288, 0, 9, 1)


def reads(text: libtile.Module) -> tuple[int, int, int]:
    """Products of a kernel's loop, reads of slices of tiles, and reads of whole tiles."""
    made = libtile.compile(text, gpu_name="sm_80", emit="tileas").tileas
    copies = re.findall(r"nv_tileas.copy %\w+ \{(.*?)\} : !nv_tileas.buffer", made)
    cut = sum("offsets" in copy for copy in copies)
    return made.count("nv_tileas.dot "), cut, len(copies) - cut


SUMS = """
      %s = reduce %b dim=0 identities=[0.0 : f16] : tile<32x64xf16> -> tile<64xf16>
      (%x: tile<f16>, %y: tile<f16>) { %z = addf %x, %y : tile<f16>  yield %z : tile<f16> }
      %s1 = reshape %s : tile<64xf16> -> tile<1x64xf16>
      %s2 = broadcast %s1 : tile<1x64xf16> -> tile<32x64xf16>
      %s3 = ftof %s2 : tile<32x64xf16> -> tile<32x64xf32>
      %e = addf %d, %s3 : tile<32x64xf32>
"""


def test_what_is_loaded_may_be_used_twice():
    check(module(loop(LOADS + PRODUCT + SUMS, "%e")), 288, 0, 9, 1)


AGAIN = PRODUCT.replace("%d", "%e").replace("%c", "%d")


@pytest.mark.parametrize(
    "more, given, found",
    [("", "%d", (2, 4, 0)), (AGAIN, "%e", (4, 8, 0)), (SUMS, "%e", (2, 4, 1))],
    ids=["one", "two products", "a product and something else"],
)
def test_products_read_their_operands_slice_by_slice(more, given, found):
    text = module(loop(LOADS + PRODUCT + more, given))
    assert reads(text) == found
    compare(text, 96, 0, 3, 1, "sm_80")


def test_a_loop_may_have_several_products():
    second = f"""
      %i1 = addi %i, %one : tile<i32>
      %a1, %t2 = load_view_tko weak %va[%zero, %i1] : {VIEW_A}, tile<i32> -> tile<32x32xf16>, token
      %b1, %t3 = load_view_tko weak %vb[%i1, %zero] : {VIEW_B}, tile<i32> -> tile<32x64xf16>, token
      %e = mmaf %a1, %b1, %d : tile<32x32xf16>, tile<32x64xf16>, tile<32x64xf32>
"""
    check(module(loop(LOADS + PRODUCT + second, "%e")), 320, 0, 9, 1)


@pytest.mark.parametrize(("latency", "stages"), [(1, 2), (9, 6)])
def test_a_hint_makes_a_load_run_ahead_that_feeds_no_product(latency, stages):
    hint = f" optimization_hints = <sm_80 = {{latency = {latency}}}>"
    body = f"""
      %b, %t1 = load_view_tko weak %vb[%i, %zero]{hint} : {VIEW_B}, tile<i32> -> tile<32x64xf16>, token
      %w = ftof %b : tile<32x64xf16> -> tile<32x64xf32>
      %d = addf %w, %c : tile<32x64xf32>
"""
    check(module(loop(body)), 288, 0, 9, 1, stages=stages)


def test_an_inner_loop_starts_again_each_time():
    inner = loop(LOADS + PRODUCT).replace("%r =", "%q =").replace("(%c = %none)", "(%c = %outer)")
    body = f"""
    %r = for %o in (%zero to %two, step %one) : tile<i32> iter_values(%outer = %none) -> (tile<32x64xf32>) {{
{inner}
      continue %q : tile<32x64xf32>
    }}
"""
    check(module(body), 288, 0, 9, 1)


def test_loops_behind_each_other_share_their_memory():
    first = loop(LOADS + PRODUCT).replace("%r =", "%q =")
    second = loop(LOADS + PRODUCT).replace("(%c = %none)", "(%c = %q)")
    text = module(first + second)
    check(text, 288, 0, 9, 1)
    one = libtile.compile(module(SIMPLE), gpu_name="sm_80", emit="llvm").kernels["k"].smem
    assert libtile.compile(text, gpu_name="sm_80", emit="llvm").kernels["k"].smem == one


def test_loads_of_both_an_outer_and_an_inner_loop_run_ahead():
    body = f"""
    %r = for %o in (%zero to %two, step %one) : tile<i32> iter_values(%outer = %none) -> (tile<32x64xf32>) {{
      %a, %t0 = load_view_tko weak %va[%zero, %o] : {VIEW_A}, tile<i32> -> tile<32x32xf16>, token
      %q = {HEAD} iter_values(%c = %outer) -> (tile<32x64xf32>) {{
        %b, %t1 = load_view_tko weak %vb[%i, %zero] : {VIEW_B}, tile<i32> -> tile<32x64xf16>, token
        {PRODUCT}
        continue %d : tile<32x64xf32>
      }}
      continue %q : tile<32x64xf32>
    }}
"""
    text = module(body)
    assert libtile.compile(text, gpu_name="sm_80", emit="tileas").tileas.count("create_pipeline") == 2
    check(text, 288, 0, 9, 1)


def test_a_load_is_behind_the_store_that_its_token_names():
    first = f"""
    %ones = constant <f16: 1.0> : tile<32x64xf16>
    %s = store_view_tko weak %ones, %vb[%two, %zero] : tile<32x64xf16>, {VIEW_B}, tile<i32> -> token
"""
    body = loop(LOADS.replace("%vb[%i, %zero]", "%vb[%i, %zero] token = %s") + PRODUCT)
    check(module(first + body), 288, 0, 9, 1)


def test_a_store_is_behind_the_load_that_its_token_names():
    more = f"""
      %z = constant <f16: 0.0> : tile<32x64xf16>
      %s = store_view_tko weak %z, %vb[%i, %zero] token = %t1 : tile<32x64xf16>, {VIEW_B}, tile<i32> -> token
"""
    check(module(loop(LOADS + PRODUCT + more)), 288, 0, 9, 1)


def test_a_load_that_a_store_of_the_loop_precedes_stays():
    body = f"""
    %start = make_token : token
    %r, %last = {HEAD} iter_values(%c = %none, %t = %start) -> (tile<32x64xf32>, token) {{
{LOADS.replace("%vb[%i, %zero]", "%vb[%i, %zero] token = %t").replace("%va[%zero, %i]", "%va[%zero, %i] token = %t")}
{PRODUCT}
      %j = addi %i, %one : tile<i32>
      %s = store_view_tko weak %b, %vb[%j, %zero] token = %t1 : tile<32x64xf16>, {VIEW_B}, tile<i32> -> token
      continue %d, %s : tile<32x64xf32>, token
    }}
"""
    check(module(body), 320, 0, 9, 1, stages=None)


# -- operands of all kinds --------------------------------------------------------------------------------------------

STORAGE = {"f16": np.float16, "tf32": np.float32, "f32": np.float32, "f64": np.float64, "i8": np.int8}


def product_text(m: int, n: int, k: int, element: str, acc: str, transposed: tuple[bool, bool]) -> str:
    """A product along two tiles of k, of operands that lie in memory as they are or transposed."""
    whole = f"tensor_view<256x256x{element}, strides=[256,1]>"
    result = f"tensor_view<256x256x{acc}, strides=[256,1]>"
    va, vb = (
        f"partition_view<tile=({rows}x{columns}), {whole}{', dim_map=[1, 0]' if swapped else ''}>"
        for rows, columns, swapped in ((m, k, transposed[0]), (k, n, transposed[1]))
    )
    vc = f"partition_view<tile=({m}x{n}), {result}>"
    ta, tb, tc = f"tile<{m}x{k}x{element}>", f"tile<{k}x{n}x{element}>", f"tile<{m}x{n}x{acc}>"
    zero, product = ("0.0", "mmaf %a, %b, %c") if acc[0] == "f" else ("0", "mmai %a, %b, %c signed signed")
    return f"""cuda_tile.module @m {{
  entry @k(%pa: tile<ptr<{element}>>, %pb: tile<ptr<{element}>>, %pc: tile<ptr<{acc}>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %none = constant <{acc}: {zero}> : {tc}
    %a0 = assume div_by<16>, %pa : tile<ptr<{element}>>
    %b0 = assume div_by<16>, %pb : tile<ptr<{element}>>
    %c0 = assume div_by<16>, %pc : tile<ptr<{acc}>>
    %ta = make_tensor_view %a0, shape = [256, 256], strides = [256, 1] : {whole}
    %tb = make_tensor_view %b0, shape = [256, 256], strides = [256, 1] : {whole}
    %tc = make_tensor_view %c0, shape = [256, 256], strides = [256, 1] : {result}
    %va = make_partition_view %ta : {va}
    %vb = make_partition_view %tb : {vb}
    %vc = make_partition_view %tc : {vc}
    %r = for %i in (%zero to %two, step %one) : tile<i32> iter_values(%c = %none) -> ({tc}) {{
      %a, %t0 = load_view_tko weak %va[%zero, %i] : {va}, tile<i32> -> {ta}, token
      %b, %t1 = load_view_tko weak %vb[%i, %zero] : {vb}, tile<i32> -> {tb}, token
      %d = {product} : {ta}, {tb}, {tc}
      continue %d : {tc}
    }}
    %w = store_view_tko weak %r, %vc[%zero, %zero] : {tc}, {vc}, tile<i32> -> token
    return
  }}
}}
"""


def check_product(size: tuple[int, int, int], element: str, acc: str, transposed: tuple[bool, bool]) -> None:
    m, n, k = size
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (256, 256)).astype(STORAGE[element]) for _ in range(2))
    c = np.zeros((256, 256), np.int32 if acc == "i32" else STORAGE[acc])
    module = libtile.parse(product_text(*size, element, acc, transposed))
    done = libtile.run(module, "k", args=[a, b, c], backend="simulator", gpu_name="sm_80", check="full")
    left, right = (x.T if swapped else x for x, swapped in zip((a, b), transposed))
    np.testing.assert_array_equal(c[:m, :n], left[:m, : 2 * k].astype(c.dtype) @ right[: 2 * k, :n].astype(c.dtype))
    assert done.bank_conflicts == 0


TYPES = [("f16", "f32"), ("tf32", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32")]


@pytest.mark.parametrize("transposed", [(False, False), (True, True)], ids=["plain", "transposed"])
@pytest.mark.parametrize(("element", "acc"), TYPES)
def test_operands_come_and_go_without_bank_conflicts(element, acc, transposed):
    check_product((64, 64, 32), element, acc, transposed)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(64, 64, 32), (32, 128, 64), (128, 32, 16), (16, 16, 32)], ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize(("element", "acc"), TYPES)
def test_operands_of_all_shapes_come_and_go_without_bank_conflicts(element, acc, transposed, size):
    check_product(size, element, acc, transposed)


LARGE = """cuda_tile.module @m {{
  entry @k(%pa: tile<ptr<{e}>>, %pb: tile<ptr<{e}>>, %pc: tile<ptr<{acc}>>, %n: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <{acc}: 0.0> : tile<{m}x{n}x{acc}>
    %ta = make_tensor_view %pa, shape = [512, 4096], strides = [4096, 1] : {ta}
    %tb = make_tensor_view %pb, shape = [4096, 512], strides = [512, 1] : {tb}
    %tc = make_tensor_view %pc, shape = [512, 512], strides = [512, 1] : {tc}
    %va = make_partition_view %ta : partition_view<tile=({m}x{k}), {ta}>
    %vb = make_partition_view %tb : partition_view<tile=({k}x{n}), {tb}>
    %vc = make_partition_view %tc : partition_view<tile=({m}x{n}), {tc}>
    %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%c = %none) -> (tile<{m}x{n}x{acc}>) {{
      %a, %t0 = load_view_tko weak %va[%zero, %i]
        : partition_view<tile=({m}x{k}), {ta}>, tile<i32> -> tile<{m}x{k}x{e}>, token
      %b, %t1 = load_view_tko weak %vb[%i, %zero]
        : partition_view<tile=({k}x{n}), {tb}>, tile<i32> -> tile<{k}x{n}x{e}>, token
      %d = mmaf %a, %b, %c : tile<{m}x{k}x{e}>, tile<{k}x{n}x{e}>, tile<{m}x{n}x{acc}>
      continue %d : tile<{m}x{n}x{acc}>
    }}
    %w = store_view_tko weak %r, %vc[%zero, %zero]
      : tile<{m}x{n}x{acc}>, partition_view<tile=({m}x{n}), {tc}>, tile<i32> -> token
    return
  }}
}}
"""


def large(m: int, n: int, k: int, e: str, acc: str) -> libtile.Module:
    """A product in a loop, of tiles of e that are summed in acc."""
    views = [
        f"tensor_view<{shape}x{element}, strides=[{stride},1]>"
        for shape, stride, element in (("512x4096", 4096, e), ("4096x512", 512, e), ("512x512", 512, acc))
    ]
    return libtile.parse(LARGE.format(m=m, n=n, k=k, e=e, acc=acc, ta=views[0], tb=views[1], tc=views[2]))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_86"])
@pytest.mark.parametrize(
    ("m", "n", "k", "e", "acc"),
    [
        (64, 64, 64, "f32", "f32"),
        (128, 256, 64, "f16", "f32"),
        (64, 128, 64, "f64", "f64"),
        (128, 128, 128, "f16", "f32"),
    ],
)
def test_stages_and_exchanges_fit_a_block_together(m, n, k, e, acc, gpu):
    made = libtile.compile(large(m, n, k, e, acc), gpu_name=gpu, emit="llvm", keep_text=True)
    assert ("nv_tileas.pipeline<" in made.tileas) or ("one stage takes" in made.tileas)
    assert made.kernels["k"].smem <= target(gpu).shared_per_block


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_tiles_of_which_only_one_stage_fits_are_copied_in_their_own_iteration(trips):
    text = large(16, 128, 256, "f16", "f32")
    made = libtile.compile(text, gpu_name="sm_86", emit="tileas").tileas
    assert "nv_tileas.pipeline<1," in made
    random = np.random.default_rng(trips)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((512, 4096), (4096, 512)))
    results = []
    for backend, options in (("interpreter", {}), ("simulator", {"gpu_name": "sm_86", "check": "full"})):
        results.append(np.full((512, 512), 7, np.float32))
        libtile.run(text, "k", args=[a, b, results[-1], trips], backend=backend, **options)
    assert np.array_equal(*results)


class Barriers:
    """Counts the barriers in the loop."""

    def __call__(self, name, op):
        if name == "tileas-insert-shared-barriers":
            (loop,) = (inner for inner in op.walk() if inner.name == "scf.for")
            self.count = sum(inner.name == "nv_tileas.barrier" for inner in loop.walk())


class ProduceBehindRelease(Barriers):
    """Moves the turn of the producer in the loop behind that of the consumer."""

    def __call__(self, name, op):
        super().__call__(name, op)
        if name == "tileas-materialize-schedule":
            (loop,) = (inner for inner in op.walk() if inner.name == "scf.for")
            ops = {inner.name.rpartition(".")[2]: inner for inner in loop.body.block.ops}
            ops["produce_one"].detach()
            loop.body.block.insert_op_after(ops["produce_one"], ops["consumer_release"])
            op.verify()


def test_a_producer_that_comes_behind_the_consumer_waits_for_the_others():
    usual, moved = Barriers(), ProduceBehindRelease()
    libtile.compile(module(SIMPLE), gpu_name="sm_80", emit="ptx", observer=usual)
    made = libtile.compile(module(SIMPLE), gpu_name="sm_80", emit="ptx", launch_abi="simt", observer=moved)
    assert (usual.count, moved.count) == (1, 2)
    a, b, c = arrays(288)
    run_ptx(made.ptx, "k", block=made.kernels["k"].block_dim, args=[a, b, c, 288, 0, 9, 1], checks="full")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


# -- by pointers -----------------------------------------------------------------------------------------------------

POINTERS = """
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<32x64xf32>
    %pa = assume div_by<16>, %pa0 : tile<ptr<f16>>
    %pb = assume div_by<16>, %pb0 : tile<ptr<f16>>
    %k16 = assume div_by<16>, %k : tile<i32>
    %tc = make_tensor_view %pc, shape = [32, 64], strides = [64, 1] : tensor_view<32x64xf32, strides=[64,1]>
    %vc = make_partition_view %tc : partition_view<tile=(32x64), tensor_view<32x64xf32, strides=[64,1]>>
    %n32 = iota : tile<32xi32>
    %n64 = iota : tile<64xi32>
    %rows1 = reshape %n32 : tile<32xi32> -> tile<32x1xi32>
    %columns1 = reshape %n32 : tile<32xi32> -> tile<1x32xi32>
    %wide1 = reshape %n64 : tile<64xi32> -> tile<1x64xi32>
    %rows = broadcast %rows1 : tile<32x1xi32> -> tile<32x32xi32>
    %columns = broadcast %columns1 : tile<1x32xi32> -> tile<32x32xi32>
    %rows64 = broadcast %rows1 : tile<32x1xi32> -> tile<32x64xi32>
    %wide = broadcast %wide1 : tile<1x64xi32> -> tile<32x64xi32>
    %k1 = reshape %k16 : tile<i32> -> tile<1x1xi32>
    %ks = broadcast %k1 : tile<1x1xi32> -> tile<32x32xi32>
    %ks64 = broadcast %k1 : tile<1x1xi32> -> tile<32x64xi32>
    %c64 = constant <i32: 64> : tile<32x64xi32>
    %c32 = constant <i32: 32> : tile<32x32xi32>
    %c2048 = constant <i32: 2048> : tile<32x64xi32>
    %deep = constant <i32: 32> : tile<32x64xi32>
    %arow = muli %rows, %ks : tile<32x32xi32>
    %aoff = addi %arow, %columns : tile<32x32xi32>
    %brow = muli %rows64, %c64 : tile<32x64xi32>
    %boff = addi %brow, %wide : tile<32x64xi32>
    %pa1 = reshape %pa : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %pa2 = broadcast %pa1 : tile<1x1xptr<f16>> -> tile<32x32xptr<f16>>
    %as = offset %pa2, %aoff : tile<32x32xptr<f16>>, tile<32x32xi32> -> tile<32x32xptr<f16>>
    %pb1 = reshape %pb : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %pb2 = broadcast %pb1 : tile<1x1xptr<f16>> -> tile<32x64xptr<f16>>
    %bs = offset %pb2, %boff : tile<32x64xptr<f16>>, tile<32x64xi32> -> tile<32x64xptr<f16>>
    %az = constant <f16: 0.0> : tile<32x32xf16>
    %bz = constant <f16: 0.0> : tile<32x64xf16>
"""
"""Tiles of pointers to the first tiles of both operands, as a kernel without views has them."""

AP, BP = "tile<32x32xptr<f16>>", "tile<32x64xptr<f16>>"
CARRIED = f"""
    %r, %last0, %last1, %last2, %last3 = for %i in (%lower to %upper, step %step) : tile<i32>
        iter_values(%c = %none, %ap = %as, %bp = %bs, %ai = %columns, %bi = %rows64)
        -> (tile<32x64xf32>, {AP}, {BP}, tile<32x32xi32>, tile<32x64xi32>) {{
      %am = cmpi less_than %ai, %ks, signed : tile<32x32xi32> -> tile<32x32xi1>
      %bm = cmpi less_than %bi, %ks64, signed : tile<32x64xi32> -> tile<32x64xi1>
      %a, %t0 = load_ptr_tko weak %ap, %am, %az : {AP}, tile<32x32xi1>, tile<32x32xf16> -> tile<32x32xf16>, token
      %b, %t1 = load_ptr_tko weak %bp, %bm, %bz : {BP}, tile<32x64xi1>, tile<32x64xf16> -> tile<32x64xf16>, token
      %d = mmaf %a, %b, %c : tile<32x32xf16>, tile<32x64xf16>, tile<32x64xf32>
      %ap1 = offset %ap, %c32 : {AP}, tile<32x32xi32> -> {AP}
      %bp1 = offset %bp, %c2048 : {BP}, tile<32x64xi32> -> {BP}
      %ai1 = addi %ai, %c32 : tile<32x32xi32>
      %bi1 = addi %bi, %deep : tile<32x64xi32>
      continue %d, %ap1, %bp1, %ai1, %bi1
        : tile<32x64xf32>, {AP}, {BP}, tile<32x32xi32>, tile<32x64xi32>
    }}
"""


@pytest.mark.parametrize("depth", [32, 96, 208, 288])
def test_pointers_that_a_loop_carries_run_ahead_under_their_masks(depth):
    check(module(CARRIED, POINTERS), depth, 0, -(-depth // 32), 1)
