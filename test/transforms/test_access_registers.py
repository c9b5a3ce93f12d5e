# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`expand-views` asks how many registers accesses take at once, by what is known of tiles and tensors."""

from __future__ import annotations

import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks


def kernel(
    tile: tuple[int, ...], *, element: str = "f16", index: str = "%b", multiple: int = 16, loads: int = 1, op: str = ""
) -> str:
    """Tiles of one tensor are loaded and added up, then stored to another tensor, as they are or transposed."""
    rank, lines = len(tile), []
    numbers = ", ".join([index] * rank)
    to = tile[::-1] if op == "permute" else tile
    type_ = f"tile<{'x'.join(map(str, tile))}x{element}>"
    stored = f"tile<{'x'.join(map(str, to))}x{element}>"
    tensor = f"tensor_view<{'x'.join('?' * rank)}x{element}, strides=[{','.join(['?'] * (rank - 1) + ['1'])}]>"
    for name in "pq":
        shape = tile if name == "p" else to
        lines += [
            f"%{name}v = make_tensor_view %{name}a, shape = [{', '.join(['%m'] * rank)}], "
            f"strides = [{', '.join(['%m'] * (rank - 1) + ['1'])}] : tile<i32> -> {tensor}",
            f"%{name}t = make_partition_view %{name}v : {view(shape, tensor)}",
        ]
    for number in range(loads):
        lines.append(
            f"%x{number}, %w{number} = load_view_tko weak %pt[{numbers}] : {view(tile, tensor)}, "
            f"tile<i32> -> {type_}, token"
        )
    value = "%x0"
    for number in range(1, loads):
        lines.append(f"%s{number} = addf {value}, %x{number} : {type_}")
        value = f"%s{number}"
    if op == "permute":
        lines.append(f"%y = permute {value} [1, 0] : {type_} -> {stored}")
        value = "%y"
    return f"""
cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<{element}>>, %q: tile<ptr<{element}>>, %n: tile<i32>) {{
    %b, %y_, %z_ = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<{element}>>
    %qa = assume div_by<16>, %q : tile<ptr<{element}>>
    %positive = assume bounded<0, ?>, %n : tile<i32>
    %m = assume div_by<{multiple}>, %positive : tile<i32>
    {chr(10).join(lines)}
    store_view_tko weak {value}, %qt[{numbers}] : {stored}, {view(to, tensor)}, tile<i32> -> token
    return
  }}
}}"""


def view(shape: tuple[int, ...], tensor: str) -> str:
    return f"partition_view<tile=({'x'.join(map(str, shape))}), {tensor}>"


def verdicts(text: str) -> set[str]:
    """What the pass says of the accesses: why they stay, empty where they do not."""
    module = libtile.parse(text)
    with remarks.collect() as found:
        PassManager(parse_pipeline("expand-views")).run(module.op)
    libtile.verify(module)
    return {str(dict(remark.arguments).get("Reason", "")) for remark in found}


def too_many(registers: int) -> str:
    return f"they would take {registers} registers of a thread at once, which is more than 28"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (kernel((1024,)), ""),
        (kernel((32, 32)), ""),
        # 64 numbers of a thread, eight at a time: eight times what is loaded and an address, and eight addresses more.
        (kernel((128, 64), index="%zero", op="permute"), too_many(64)),
        (kernel((128, 64), op="permute"), too_many(64)),
        (kernel((128, 64), index="%zero"), too_many(64)),
        (kernel((128, 64)), ""),  # which a view has all in registers, too
        (kernel((128, 64), loads=2), too_many(112)),
        (kernel((4096,), element="f32", loads=2), too_many(64)),
        (kernel((4096,), multiple=1), ""),
        (kernel((4096,), multiple=1, index="%zero"), too_many(32)),
        # One number at a time, each with an address of its own.
        (kernel((32, 32), multiple=1), too_many(40)),
        (kernel((16, 16), multiple=1), ""),
        # Numbers of a byte are computed each in a register of its own.
        (kernel((4096,), element="i8", index="%zero"), too_many(32)),
        # So long that assemblers make a loop of what they do for a view.
        (kernel((128, 128), element="f32"), too_many(256)),
    ],
)  # fmt: skip
def test_accesses_stay_where_they_take_more_registers_than_views_do(text: str, reason: str) -> None:
    assert verdicts(text) == {reason}
