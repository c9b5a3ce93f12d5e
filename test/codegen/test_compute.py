# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the builder puts instructions without effects: in front of loops that do not change their operands, and once.
And words that are taken apart are found again."""

from __future__ import annotations

from collections.abc import Callable

from libtile.codegen import control, conversions
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import FLOAT, I16, I32, VOID
from libtile.codegen.memory import Words, pack_words
from libtile.codegen.stored_bits import as_integer
from libtile.targets import target

ZERO, ONE = integer(I32, 0), integer(I32, 1)


def builder() -> tuple[KernelBuilder, Value]:
    b = KernelBuilder("k", target("sm_90"), 128)
    b.places = True
    return b, b.add_parameter(I32)


def blocks(b: KernelBuilder) -> dict[str, list[str]]:
    """The instructions of each block, by the block's hint; those of blocks with one hint come together."""
    found: dict[str, list[str]] = {}
    name = ""
    for text, _ in b.body():
        if text.endswith(":"):
            name = text[:-1].partition(".")[0]
        else:
            found.setdefault(name, []).append(text.strip())
    return found


def loop(b: KernelBuilder, count: Value, body: Callable[[Value], None]) -> None:
    def run(turn: Value, _: list[control.Carried]) -> list[control.Carried]:
        body(turn)
        return []

    control.for_loop(b, ZERO, count, ONE, [], run)


def use(b: KernelBuilder, value: Value) -> None:
    b.asm("// $0", "r", VOID, [value], side_effects=True)


def places(b: KernelBuilder, operation: str) -> list[str]:
    """The hints of the blocks in which an operation stands, once for each time."""
    return [name for name, lines in blocks(b).items() for line in lines if f"= {operation} " in line]


def test_what_a_loop_does_not_change_stands_in_front_of_it() -> None:
    b, n = builder()

    def body(turn: Value) -> None:
        use(b, b.or_(b.xor(b.mul(n, integer(I32, 3)), ONE), turn))

    loop(b, n, body)
    assert places(b, "mul") == places(b, "xor") == ["entry"]
    assert places(b, "or") == ["body"]
    assert blocks(b)["entry"][-1].startswith("br ")


def test_it_leaves_as_many_loops_as_it_can() -> None:
    b, n = builder()

    def inner(row: Value, column: Value) -> None:
        use(b, b.add(b.mul(n, n), b.add(b.xor(row, n), b.and_(column, n))))

    loop(b, n, lambda row: loop(b, n, lambda column: inner(row, column)))
    lines = blocks(b)
    assert places(b, "mul") == ["entry"]
    row = next(i for i, line in enumerate(lines["body"]) if "= xor " in line)
    assert row < next(i for i, line in enumerate(lines["body"]) if line.startswith("br label %for")), "before the inner"
    assert places(b, "and") == ["body"]


def test_division_stays_where_it_is_defined() -> None:
    """The loop may run no turn, and the divisor be zero then."""
    for operation in ("sdiv", "udiv", "srem", "urem"):
        b, n = builder()
        loop(b, n, lambda turn, b=b, n=n, operation=operation: use(b, b.add(b.binary(operation, n, n), turn)))
        assert places(b, operation) == ["body"]


def test_what_comes_out_of_inline_ptx_in_a_loop_stays_there() -> None:
    b, n = builder()
    loop(b, n, lambda _: use(b, b.mul(b.asm("mov.b32 $0, $1;", "=r,r", I32, [n]), n)))
    assert places(b, "mul") == ["body"]


def test_what_one_loop_computes_and_another_uses() -> None:
    """A value of a loop's last turn is used by a loop behind it: nothing moves in front of its definition."""
    b, n = builder()
    (last,) = control.for_loop(b, ZERO, n, ONE, [ZERO], lambda turn, carried: [b.add(carried[0], turn)])
    assert isinstance(last, Value)
    loop(b, n, lambda turn: use(b, b.add(b.mul(last, n), turn)))
    names = [name for name, lines in blocks(b).items() if any("= mul " in line for line in lines)]
    assert names in (["body"], ["done"])
    text = "\n".join(text for text, _ in b.body())
    assert text.index("= phi i32 [ 0, %entry ]") < text.index("= mul ")


def test_the_same_instruction_is_there_once() -> None:
    b, n = builder()
    assert b.add(n, ONE) is b.add(n, ONE)
    assert b.compare("slt", n, ONE) is b.compare("slt", n, ONE)
    first: list[Value] = []
    loop(b, n, lambda _: first.append(b.mul(n, n)))
    assert places(b, "mul") == ["entry"] and first[0].text in blocks(b)["entry"][-2]


def test_where_llvm_chooses_places_all_stays() -> None:
    b, n = builder()
    b.places = False
    loop(b, n, lambda turn: use(b, b.add(b.mul(n, n), turn)))
    assert places(b, "mul") == ["body"]
    assert b.add(n, ONE) is not b.add(n, ONE)


def test_halves_that_were_rounded_in_a_pair_are_a_word() -> None:
    b, n = builder()
    floats = [b.cast("bitcast", b.add(n, integer(I32, i)), FLOAT) for i in range(4)]
    bits = [as_integer(b, half) for half in conversions.ftof_all(b, floats, "f32", "f16")]
    words = pack_words(b, bits, Words(64, 1))
    assert [word.type.bits for word in words] == [64]
    text = "\n".join(text for text, _ in b.body())
    assert text.count("fptrunc <2 x float>") == 2
    assert "zext" not in text and "insertelement <4 x i16>" not in text
    assert b.as_word(bits[:2]) is not None and b.as_word([bits[1], bits[0]]) is None
    assert b.as_word([bits[1], bits[2]]) is None
    assert b.as_word([integer(I16, 1), integer(I16, 2)]) == integer(I32, 1 | 2 << 16)
