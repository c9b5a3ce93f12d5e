# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`contract-views`: which masked accesses through pointers become ones of ragged tiles, and which must not.

That it brings back what `expand-views` has made, and that programs do the same then, test_expand_views.py checks.
"""

from __future__ import annotations

import numpy as np
import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks


def kernel(
    start: str = "%b64",
    mask: str = "cmpi less_than %at, %n1, unsigned : tile<64xi32> -> tile<64xi1>",
    before: str = "",
    padding: str = "<f32: 0.0>",
    distance: str = "exti %at unsigned : tile<64xi32> -> tile<64xi64>",
    width: str = "i64",
    order: str = "weak",
) -> str:
    """Loads a tile of 64 elements from `start` on under a mask, and prints it."""
    pointers, mask_type = "tile<64xptr<f32>>", "tile<64xi1>"
    return f"""
cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<f32>>, %n: tile<i32>, %c: tile<i32>, %w: tile<i1>, %q: tile<ptr<f32>>) {{
    %b, %y, %z = get_tile_block_id : tile<i32>
    %c64 = constant <i32: 64> : tile<i32>
    %b64 = muli %b, %c64 : tile<i32>
    %none = constant {padding} : tile<64xf32>
    %s1 = reshape {start} : tile<i32> -> tile<1xi32>
    %s2 = broadcast %s1 : tile<1xi32> -> tile<64xi32>
    %count = iota : tile<64xi32>
    %at = addi %s2, %count : tile<64xi32>
    %n0 = reshape %n : tile<i32> -> tile<1xi32>
    %n1 = broadcast %n0 : tile<1xi32> -> tile<64xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %p2 = broadcast %p1 : tile<1xptr<f32>> -> {pointers}
    {before}
    %mask = {mask}
    %far = {distance}
    %from = offset %p2, %far : {pointers}, tile<64x{width}> -> {pointers}
    %x, %t = load_ptr_tko {order} %from, %mask, %none : {pointers}, {mask_type}, tile<64xf32> -> tile<64xf32>, token
    %q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
    %q2 = broadcast %q1 : tile<1xptr<f32>> -> {pointers}
    %wide = exti %count unsigned : tile<64xi32> -> tile<64xi64>
    %to = offset %q2, %wide : {pointers}, tile<64xi64> -> {pointers}
    store_ptr_tko weak %to, %x : {pointers}, tile<64xf32> -> token
    return
  }}
}}"""


def contracted(text: str) -> tuple[str, list[str]]:
    """The module behind the pass, and what its remarks give as reasons (or nothing)."""
    module = libtile.parse(text)
    libtile.verify(module)
    with remarks.collect() as found:
        PassManager(parse_pipeline("contract-views")).run(module.op)
    libtile.verify(module)
    return str(module), [dict(r.arguments).get("Reason", "") for r in found if r.name == "ContractViews"]


def guard(number: int) -> str:
    """A mask that also bounds the block's number."""
    return f"""%g = constant <i32: {number}> : tile<i32>
    %fits = cmpi less_than %b, %g, unsigned : tile<i32> -> tile<i1>
    %f1 = reshape %fits : tile<i1> -> tile<1xi1>
    %f2 = broadcast %f1 : tile<1xi1> -> tile<64xi1>
    %in = cmpi less_than %at, %n1, unsigned : tile<64xi32> -> tile<64xi1>"""


BOTH = "andi %f2, %in : tile<64xi1>"


def test_a_bounded_tile_is_one_of_a_view() -> None:
    text, reasons = contracted(kernel())
    assert reasons == [""] and "load_ptr_tko" not in text
    assert "make_partition_view" in text and "load_view_tko weak %pview[%blockId_x]" in text
    assert "cuda_tile.outside = array<i64: 0>" in text, "a block may lie beyond the tensor"


def test_a_size_without_a_sign_is_one_of_64_bits() -> None:
    assert "exti %arg1 unsigned : tile<i32> -> tile<i64>" in contracted(kernel())[0]
    known = "%m = assume bounded<0, ?>, %n : tile<i32>"
    text, _ = contracted(kernel().replace("%n0 = reshape %n", f"{known}\n%n0 = reshape %m"))
    assert "shape = [%assume]" in text


def test_an_index_that_cannot_wrap_around_may_be_bounded() -> None:
    known = "%m = assume bounded<0, ?>, %n : tile<i32>"
    for number, reason in ((1 << 26, ""), (5, "the mask leaves out tiles within the tensor")):
        text = kernel(before=guard(number), mask=BOTH).replace("%n0 = reshape %n", f"{known}\n%n0 = reshape %m")
        assert contracted(text)[1] == [reason]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (kernel(order="relaxed device"), "the access is not weak"),
        (kernel(padding="<f32: 1.0>"), "it is padded by what no view is padded by"),
        (kernel(start="%c"), "positions may wrap around"),
        (kernel(mask="cmpi less_than %at, %n1, signed : tile<64xi32> -> tile<64xi1>"),
         "the mask is no bound of unsigned positions"),
        (kernel(mask="cmpi less_than %count, %n1, unsigned : tile<64xi32> -> tile<64xi1>"),
         "the mask bounds what the address does not come from"),
        (kernel(mask="cmpi less_than %n1, %at, unsigned : tile<64xi32> -> tile<64xi1>"),
         "positions have different bounds"),
        (kernel(before="%zero = constant <i32: 0> : tile<64xi32>",
                mask="cmpi less_than %at, %zero, unsigned : tile<64xi32> -> tile<64xi1>"),
         "positions have different bounds"),
        (kernel().replace("%n0 = reshape %n", "%zero = constant <i32: 0> : tile<i32>\n%n0 = reshape %zero"),
         "nothing of the tile is accessed"),
        *((kernel(before=f"%k = constant <i64: {stride}> : tile<i64>\n%k1 = reshape %k : tile<i64> -> tile<1xi64>\n"
                         "%k2 = broadcast %k1 : tile<1xi64> -> tile<64xi64>\n"
                         "%f = exti %at unsigned : tile<64xi32> -> tile<64xi64>",
                  distance="muli %f, %k2 : tile<64xi64>"), "a stride is not positive") for stride in (0, -1)),
        (kernel(distance="addi %at, %count : tile<64xi32>", width="i32"), "its distances are not of 64 bits"),
        (kernel(before="%w1 = reshape %w : tile<i1> -> tile<1xi1>\n%w2 = broadcast %w1 : tile<1xi1> -> tile<64xi1>\n"
                       "%in = cmpi less_than %at, %n1, unsigned : tile<64xi32> -> tile<64xi1>",
                mask="andi %w2, %in : tile<64xi1>"), "the mask is carried by a loop or comes from outside"),
    ],
)  # fmt: skip
def test_reasons_are_said_where_an_access_stays(text: str, reason: str) -> None:
    behind, reasons = contracted(text)
    assert reasons == [reason] and "load_ptr_tko" in behind


@pytest.mark.parametrize("size", [0, 1, 63, 64, 100, 128])
def test_what_is_loaded_stays_the_same(size: int) -> None:
    results = []
    for text in (kernel(), contracted(kernel())[0]):
        p, q = np.arange(1, 129, dtype=np.float32), np.full(64, -1, np.float32)
        for block in range(4):  # the last ones lie beyond the tensor
            module = libtile.parse(text)
            libtile.run(module, "kernel", grid=(block + 1, 1, 1), args=[p, size, 0, True, q], check="full,-race")
            results.append(q.tobytes())
    assert results[:4] == results[4:]
