# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a program smaller while it still shows the same fault.

Ops are taken out, many at a time at first; what used their results gets a value of the same type instead: an operand of
the op, what a loop starts with, a constant, a fresh token. Conditionals are replaced by one of their sides. Whether the
outcome is still a program, and still at fault, is for the caller's predicate to say, so no step has to be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.ir import Operation, SSAValue

import libtile
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType
from libtile.interpreter.formats import ELEMENTS
from libtile.transforms.canonical_values import create_before
from libtile.transforms.dce import eliminate_dead_code

_KEPT = ("yield", "continue", "break", "return", "module", "entry")
"""Ends of blocks, and what holds the rest together."""

Edit = Callable[[list[CudaTileOp]], None]


def reduce(text: str, fails: Callable[[str], bool], log: Callable[[str], None] = lambda message: None) -> str:
    """The smallest program found that still `fails`; the given text must. A predicate that raises does not hold."""

    def still(candidate: str) -> bool:
        try:
            return fails(candidate)
        except Exception:
            return False

    plain = _edited(text, lambda ops: None)
    if plain is not None and still(plain):
        text = plain
    while True:
        before = text
        text = _without_ops(text, still, log)
        text = _without_branches(text, still)
        if text == before:
            return text


def _ops(module: libtile.Module) -> list[CudaTileOp]:
    return [op for op in module.op.walk() if isinstance(op, CudaTileOp) and op.spec.name not in _KEPT]


def _edited(text: str, edit: Edit) -> str | None:
    """The text after an edit of its ops; None when the edit does not work out."""
    try:
        module = libtile.parse(text)
        edit(_ops(module))
        eliminate_dead_code(module.op)
        return str(module)
    except Exception:
        return None


def _without_ops(text: str, fails: Callable[[str], bool], log: Callable[[str], None]) -> str:
    count = len(_ops(libtile.parse(text)))
    size = max(count // 2, 1)
    while True:
        # From the end: what nobody uses goes first.
        position = count
        while position > 0:
            first = max(position - size, 0)
            for stand_in in (operand_instead, constant_instead):
                candidate = _edited(text, lambda ops, s=stand_in: _remove(ops[first:position], s))  # noqa: B023
                if candidate is not None and candidate != text and fails(candidate):
                    text = candidate
                    count = len(_ops(libtile.parse(text)))
                    log(f"{count} ops")
                    break
            position = min(first, count)
        if size == 1:
            return text
        size //= 2


def _remove(ops: list[CudaTileOp], stand_in: Callable[[CudaTileOp, SSAValue], SSAValue | None]) -> None:
    for op in reversed(ops):
        if op.parent is None:
            continue  # gone with the op around it
        for result in op.results:
            if result.first_use is None:
                continue
            other = stand_in(op, result) or constant_instead(op, result)
            if other is None:
                break
            result.replace_all_uses_with(other)
        else:
            op.detach()
            op.erase(safe_erase=False)


def operand_instead(op: CudaTileOp, result: SSAValue) -> SSAValue | None:
    """An operand of the same type: for a loop, what the carried value starts as."""
    same = [o for o in op.operands if o.type == result.type]
    if op.regions and op.spec.name in ("for", "loop"):
        carried = list(op.operands)[len(op.operands) - len(op.results) :]
        same = [o for o, r in zip(carried, op.results) if r is result and o.type == r.type]
    return same[0] if same else None


def constant_instead(op: CudaTileOp, result: SSAValue) -> SSAValue | None:
    """A constant of a number type, or a fresh token."""
    type_ = result.type
    if not isinstance(type_, TileType):
        return create_before(op, "make_token", {}, [type_]) if str(type_).endswith("token") else None
    if type_.element_type not in NUMBER_NAMES or op.spec.name == "constant":
        return None
    raw = bytes(max(ELEMENTS[NUMBER_NAMES[type_.element_type]].storage_bits // 8, 1))
    return create_before(op, "constant", {}, [type_], {"value": DenseElementsAttr(type_, raw)})


def _without_branches(text: str, fails: Callable[[str], bool]) -> str:
    """Conditionals replaced by one of their sides, loops by their first iteration."""
    position = 0
    while position < len(_ops(libtile.parse(text))):
        for side in (0, 1):
            candidate = _edited(text, lambda ops, s=side: _inline(ops[position], s))  # noqa: B023
            if candidate is not None and candidate != text and fails(candidate):
                text = candidate
                break
        else:
            position += 1
    return text


def _inline(op: CudaTileOp, side: int) -> None:
    if op.spec.name not in ("if", "for") or side >= len(op.regions) or not op.regions[side].blocks:
        raise ValueError("nothing to put in its place")
    block = op.regions[side].blocks[0]
    if op.spec.name == "for":
        carried = list(op.operands)[3:]
        for argument, value in zip(block.args, [op.operands[0], *carried]):
            argument.replace_all_uses_with(value)
    last = block.last_op
    if last is None or not isinstance(last, CudaTileOp) or last.spec.name not in ("yield", "continue"):
        raise ValueError("leaves the structure")
    values = list(last.operands)
    for inner in list(_inner(block.ops)):
        if inner is not last:
            inner.detach()
            op.parent.insert_op_before(inner, op)  # type: ignore[union-attr]
    for result, value in zip(op.results, values):
        result.replace_all_uses_with(value)
    op.detach()
    op.erase(safe_erase=False)


def _inner(ops: Iterator[Operation]) -> list[Operation]:
    return list(ops)
