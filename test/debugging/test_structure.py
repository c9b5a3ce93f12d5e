# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Comparing programs: what counts as a difference, what does not, and how it is told."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue

import libtile
from generators.programs import program
from libtile import diff
from libtile.dialects.cuda_tile.attributes import BoundedAttr, DenseElementsAttr, DivByAttr, EnumAttr
from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.cuda_tile.ops import OPS, SEGMENTS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

TEXT = """\
cuda_tile.module @m {
  global @table <i32: [1, 2]> : tile<2xi32>
  entry @a(%x: tile<ptr<i32>>, %n: tile<i32>) optimization_hints=<sm_80 = {occupancy = 2}, sm_90 = {occupancy = 4}> {
    %one = constant <i32: 1> : tile<4xi32>
    %i = iota : tile<4xi32>
    %s = addi %i, %one : tile<4xi32>
    %p = addi %s, %i : tile<4xi32>
    for %j in (%n to %n, step %n) : tile<i32> {
      if_place
      continue
    }
    print_tko "%d", %p : tile<4xi32> -> token
    return
  }
  entry @b() {
    return
  }
}
"""


def text(*changes: tuple[str, str]) -> bytes:
    changed = TEXT.replace("if_place", "")
    for old, new in changes:
        assert old in changed
        changed = changed.replace(old, new, 1)
    return changed.encode()


@pytest.mark.parametrize(
    "change",
    [
        ("%one", "%other"),
        ("@m", "@another"),
        ("<i32: 1>", "<i32: [1, 1, 1, 1]>"),
        ("addi %i, %one", "addi %i, %two"),
        ("<sm_80 = {occupancy = 2}, sm_90 = {occupancy = 4}>", "<sm_90 = {occupancy = 4}, sm_80 = {occupancy = 2}>"),
    ],
)
def test_names_spellings_and_orders_are_no_difference(change):
    changed = (
        text(change).replace(b"%one", b"%two") if "%two" in change[1] else text(change).replace(b"%one", b"%other")
    )
    assert diff(text(), changed) == []


def test_functions_are_found_by_name():
    b = "  entry @b() {\n    return\n  }\n"
    plain = TEXT.replace("if_place", "")
    moved = plain.replace(b, "").replace("  entry @a", b + "  entry @a")
    assert diff(plain.encode(), moved.encode()) == []
    (found,) = diff(plain.encode(), plain.replace(b, "").encode())
    assert (found.where, found.what, found.right) == ("entry @b", "only on one side", "nothing")


@pytest.mark.parametrize(
    ("old", "new", "what", "right"),
    [
        ("addi %i, %one", "muli %i, %one", "another op", "-:6:10: 'cuda_tile.muli'"),
        ("addi %i, %one", "addi %one, %i", "operand 0 of 'cuda_tile.addi'", "%one, result 0 of -:4:12"),
        ("addi %i, %one", "addi %i, %one overflow<no_signed_wrap>", "attribute 'overflow'", "no_signed_wrap"),
        ("<i32: 1>", "<i32: 2>", "attribute 'value' of 'cuda_tile.constant'", "-:4:12"),
        ("      continue", "      %z = iota : tile<2xi32>\n      continue", "another op", "-:10:12: 'cuda_tile.iota'"),
        ('"%d", %p', '"%d", %s', "operand 0 of 'cuda_tile.print_tko'", "%s, result 0 of"),
        ("%n: tile<i32>", "%n: tile<i64>", "attribute 'function_type' of 'cuda_tile.entry'", "tile<i64>"),
        ("    return", "    assert %c, \"x\" : tile<i1>\n    return", "another op", "'cuda_tile.assert'"),
    ],
)  # fmt: skip
def test_the_first_difference_is_named_with_its_places(old, new, what, right):
    c = ("    %one", "    %c = constant <i1: true> : tile<i1>\n    %one") if "%c" in new else ("", "")
    before, after = text(c) if c[0] else text(), text(*([c] if c[0] else []), (old, new))
    if "i64" in new:
        after = after.replace(b": tile<i32> {", b": tile<i64> {")
    (found,) = diff(before, after)
    assert found.where == "entry @a"
    assert what in found.what
    assert right in found.right
    assert str(found).startswith(f"entry @a: {found.what}\n< -:")


def test_a_value_stands_for_one_value_on_the_other_side():
    """Two equal ops on one side are not one op on the other, even where every op looks the same."""
    (found,) = diff(text(("addi %s, %i", "addi %s, %s")), text())
    assert "operand 1" in found.what


def test_locations_count_on_request():
    assert diff(text(), b"\n" + text()) == []
    assert "location" in diff(text(), b"\n" + text(), locations=True)[0].what


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.bc")), ids=lambda path: path.stem)
def test_a_file_is_the_text_of_it(path):
    assert diff(path, str(libtile.read(path)).encode()) == []
    assert diff(path, libtile.migrate(path, "13.5")) == []


@pytest.mark.slow
def test_every_op_of_random_programs_counts():
    """A module without one of its ops is another one, whichever op it is."""
    made = program(5, "control").text
    size = sum(1 for _ in libtile.parse(made).op.walk())
    for number in range(1, size):
        module = libtile.parse(made)
        op = list(module.op.walk())[number]
        if any(result.first_use is not None for result in op.results):
            continue
        op.detach()
        assert diff(libtile.parse(made), module), op.name
    assert diff(libtile.parse(made), libtile.parse(made)) == []


def test_inner_dialects_are_compared_as_well():
    module = libtile.read(EXAMPLES / "softmax.bc")
    inner = libtile.compile(module, "sm_90", emit="tileas", keep_text=True)
    for stage in (inner.tileaa, inner.tileas):
        assert diff(stage.encode(), stage.encode()) == []
    one = inner.tileas.encode()
    line = next(x for x in one.splitlines() if b"math.exp" in x or b".exp" in x)
    changed = one.replace(line, line.replace(b"exp", b"exp2", 1), 1)
    (found,) = diff(one, changed)
    assert found.where == "func @softmax" and found.what == "another op"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("overflow", StringAttr("none")),  # beside the declared attribute of that name
        ("mark", UnitAttr()),
    ],
)
def test_discardable_attributes_count_whatever_their_names(name, value):
    module = libtile.parse(text().decode())
    next(op for op in module.op.walk() if op.name == "cuda_tile.addi").attributes[name] = value
    (found,) = diff(text(), module)
    assert found.what == f"attribute '{name}' of 'cuda_tile.addi'" and found.left == "-:6:10: 'cuda_tile.addi' absent"


def test_symbols_count_with_what_is_nested_in_them():
    body = "  entry @c() {\n    %g = get_global @table : tile<ptr<i32>>\n    return\n  }\n}\n"
    made = TEXT.replace("if_place", "").removesuffix("}\n") + body
    module = libtile.parse(made)
    op = next(op for op in module.op.walk() if op.name == "cuda_tile.get_global")
    op.properties["name"] = SymbolRefAttr("table", ["inner"])
    (found,) = diff(made.encode(), module)
    assert (found.where, found.what) == ("entry @c", "attribute 'name' of 'cuda_tile.get_global'")


def test_a_flag_of_a_hint_is_not_the_number_1():
    flagged = text(("occupancy = 2", "occupancy = true"))
    assert (
        diff(text(("occupancy = 2", "occupancy = 1")), flagged)[0].what
        == "attribute 'optimization_hints' of 'cuda_tile.entry'"
    )


# -- one thing changed ------------------------------------------------------------------------------------------------


def _variants(attr: Attribute) -> list[Attribute | None]:
    """Attributes that say something else."""
    match attr:
        case IntegerAttr() if attr.type == i1:
            return [IntegerAttr(1 - abs(attr.value.data), i1)]
        case IntegerAttr():
            return [IntegerAttr(attr.value.data + 1, attr.type)]
        case FloatAttr():
            return [FloatAttr(-attr.value.data, attr.type), FloatAttr(float("nan"), attr.type)]
        case StringAttr():
            return [StringAttr(attr.data + "x")]
        case UnitAttr():
            return [None]
        case EnumAttr():
            return [EnumAttr(attr.spec, word) for word in attr.spec.by_keyword if word != attr.keyword]
        case DivByAttr():
            return [DivByAttr(2 * attr.divisor, attr.every, attr.along)]
        case BoundedAttr():
            return [BoundedAttr(attr.lower, (attr.upper or 0) + 1), BoundedAttr((attr.lower or 0) + 1, attr.upper)]
        case DenseElementsAttr():
            changed = bytes([attr.raw[0] ^ 1]) + attr.raw[1:]
            rest = math.prod(attr.type.shape) - len(attr.raw) // attr.element_bytes
            one = [DenseElementsAttr(attr.type, changed + rest * attr.raw)] if attr.is_splat and rest else []
            return [DenseElementsAttr(attr.type, changed), *one]
        case ArrayAttr(data=(first, *rest)):
            return [ArrayAttr([new, *rest]) for new in _variants(first) if new is not None] + [ArrayAttr(rest)]
    return []


def _changes(module: libtile.Module) -> Iterator[tuple[Operation, Callable[[], None]]]:
    """Ops inside of functions, and what changes one thing of them."""
    seen: dict[Attribute, list[SSAValue]] = {}
    for op in module.op.walk():
        if op.parent_op() is None or isinstance(op.parent_op(), OPS["module"] | ModuleOp):
            continue
        for kind in (op.properties, op.attributes):
            for name, attr in kind.items():
                if name != SEGMENTS:
                    yield from ((op, partial(_set, kind, name, new)) for new in _variants(attr))
        yield op, partial(_set, op.attributes, "mark", UnitAttr())
        for number, operand in enumerate(op.operands):
            others = [value for value in seen.get(operand.type, []) if value is not operand]
            if others:
                yield op, partial(op.operands.__setitem__, number, others[-1])
        if all(result.first_use is None for result in op.results) and op.next_op is not None:
            yield op, op.detach
        for value in (*op.results, *(arg for region in op.regions for block in region.blocks for arg in block.args)):
            seen.setdefault(value.type, []).append(value)


def _set(attributes: dict[str, Attribute], name: str, new: Attribute | None) -> None:
    if new is None:
        del attributes[name]
    else:
        attributes[name] = new


@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.integers(0, 40), st.integers(0))
def test_whatever_one_thing_is_changed_is_found_at_its_place(seed, choice):
    check_one_change(seed, choice)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 400), st.integers(0))
def test_many_single_changes_are_found_at_their_places(seed, choice):
    check_one_change(seed, choice)


def check_one_change(seed: int, choice: int) -> None:
    given = libtile.parse(program(seed, "control").text)
    module = libtile.Module(given.op.clone())
    changes = list(_changes(module))
    op, change = changes[choice % len(changes)]
    place = str(source_location(op.location))
    change()
    (found,) = diff(given, module)
    assert found.where == "entry @kernel" and found.left.startswith(f"{place}: '{op.name}'"), (seed, str(found))
    (back,) = diff(module, given)
    assert (back.what, back.right) == (found.what, found.left) and back.left == found.right


@settings(max_examples=3, deadline=None, derandomize=True)
@given(st.integers(0, 40), st.sampled_from(["13.3", "13.5"]))
def test_names_lines_and_files_are_no_difference(seed, version):
    made = program(seed, "control").text
    renamed = re.sub(r"%([A-Za-z_]\w*)", r"%other_\1", made).replace("\n", "\n\n")
    assert diff(made.encode(), renamed.encode()) == []
    assert diff(made.encode(), libtile.write(libtile.parse(made), version)) == []
