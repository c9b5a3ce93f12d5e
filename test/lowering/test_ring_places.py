# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The place that follows another one in a ring: which stage it is, and in which phase."""

import re
from types import SimpleNamespace

import pytest

from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import I32
from libtile.lowering.to_llvm.rings import following
from libtile.lowering.to_llvm.storage import Place
from libtile.targets import target

OPS = {
    "add": lambda a, b: a + b,
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "lshr": lambda a, b: a >> b,
    "icmp eq": lambda a, b: int(a == b),
}


def computed(lines: list[str], known: dict[str, int]) -> None:
    """Compute lines of LLVM IR, in order."""
    for line in lines:
        name, text = line.strip().split(" = ")
        if text.startswith("call"):
            known[name] = known[re.findall(r"%\w+", text)[-1]]
            continue
        number = [known[word] if word in known else int(word) for word in re.findall(r"%\w+|(?<![i\w])\d+", text)]
        if text.startswith("select"):
            known[name] = number[1] if number[0] else number[2]
        elif text.startswith("zext"):
            known[name] = number[0]
        else:
            known[name] = OPS[re.match(r"(icmp eq|\w+)", text)[0]](*number)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("stages", "instructions"), [(1, 1), (2, 3), (3, 5), (4, 4), (7, 5), (8, 4)])
def test_places_go_round_in_few_instructions(stages, instructions, hidden):
    b = KernelBuilder("k", target("sm_90"), 128)
    before = len(b.block.lines)
    found = following(SimpleNamespace(b=b), Place(Value(I32, "%stage"), Value(I32, "%phase")), stages, hidden=hidden)
    lines = [line for line, _ in b.block.lines[before:]]
    assert len(lines) == instructions + (hidden and stages in (2, 4, 8))  # a move that LLVM does not look through
    for turn in range(3 * stages):
        known = {"%stage": turn % stages, "%phase": turn // stages % 2}
        computed(lines, known)
        got = [known[v.text] if v.constant is None else v.constant for v in (found.stage, found.phase)]
        assert got == [(turn + 1) % stages, (turn + 1) // stages % 2]


def test_known_places_are_constants():
    made = following(SimpleNamespace(b=None), Place(integer(I32, 3), integer(I32, 1)), 4)
    assert (made.stage.constant, made.phase.constant) == (0, 0)
