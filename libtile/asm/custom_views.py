# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the ops that access memory through a view are read: load, store, atomic reduction, multicast memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute

from libtile.asm.op_state import OpState, Use
from libtile.dialects.cuda_tile.attributes import EnumAttr
from libtile.dialects.cuda_tile.types import TokenType, i1

if TYPE_CHECKING:
    from libtile.asm.parser import Parser


def _listed(p: Parser, enum: str, subset: str = "") -> str:
    """The cases of an enum (or of a subset) as diagnostics list them."""
    declared = p.spec.enums[enum]
    return ", ".join(declared.subsets[subset].cases if subset else declared.listed)


def _memory_attributes(p: Parser, s: OpState) -> None:
    """`ordering scope?`; a weak access has no scope."""
    start = p.start
    ordering = ""
    if p.kind == "bare":
        ordering = p.keyword()
    else:
        p.error("expected valid keyword")
    if ordering not in p.spec.enums["MemoryOrderingSemantics"].by_keyword:
        p.fail(
            f'invalid memory_ordering_semantics attribute specification. Got "{ordering}" but expect one of: '
            f"{_listed(p, 'MemoryOrderingSemantics')}",
            start,
        )
    s.properties["memory_ordering_semantics"] = EnumAttr(p.spec.enums["MemoryOrderingSemantics"], ordering)
    start = p.start
    if p.kind != "bare":
        return
    scope = p.keyword()
    if ordering == "weak":
        p.fail(
            f'operation specifies weak memory ordering semantics, but then provides "{scope}" scope, '
            "expected no memory scope.",
            start,
        )
    if scope not in p.spec.enums["MemoryScope"].by_keyword:
        listed = _listed(p, "MemoryScope")
        p.fail(f'invalid memory_scope attribute specification. Got "{scope}" but expect one of: {listed}', start)
    s.properties["memory_scope"] = EnumAttr(p.spec.enums["MemoryScope"], scope)


def _atomic_memory_attributes(p: Parser, s: OpState) -> None:
    start = p.start
    ordering = p.keyword()
    if ordering not in p.spec.enums["MemoryOrderingSemantics"].by_keyword:
        listed = _listed(p, "MemoryOrderingSemantics")
        p.fail(f"invalid memory_ordering_semantics: '{ordering}'; expected one of: {listed}", start)
    s.properties["memory_ordering_semantics"] = EnumAttr(p.spec.enums["MemoryOrderingSemantics"], ordering)
    start = p.start
    if p.kind == "bare":
        scope = p.keyword()
        if scope not in p.spec.enums["MemoryScope"].by_keyword:
            p.fail(f"invalid memory_scope: '{scope}'; expected one of: {_listed(p, 'MemoryScope')}", start)
        s.properties["memory_scope"] = EnumAttr(p.spec.enums["MemoryScope"], scope)


def _atomic_mode(p: Parser, s: OpState) -> None:
    start = p.start
    p.expect(",")
    mode = p.keyword()
    p.expect(",")
    s.operands["value"] = [p.operand()]
    if mode not in p.spec.enums["AtomicRMWMode"].by_keyword:
        listed = _listed(p, "AtomicRMWMode", "ViewReduction")
        p.fail(f"unknown atomic RMW mode: '{mode}'; expected one of: {listed}", start)
    s.properties["mode"] = EnumAttr(p.spec.enums["AtomicRMWMode"], mode)


def _indexed(p: Parser, s: OpState, *, view: Use, offset: int) -> None:
    """`[%index, ...]` behind the view (or behind the tile, in multicast forms)."""
    s.operands["view"] = [view]
    s.offsets["view"] = offset
    p.expect("[")
    s.offsets["index"] = p.start
    s.operands["index"] = p.operand_list()
    p.expect("]")


def _options(p: Parser, s: OpState, *, hints: bool) -> None:
    """`token = %t optimization_hints = <...> inbounds = [...] attributes {...}`, each optional."""
    s.operands["token"] = []
    if p.accept_keyword("token"):
        p.expect("=")
        s.offsets["token"] = p.start
        s.operands["token"] = [p.operand()]
    if hints and p.accept_keyword("optimization_hints"):
        p.expect("=")
        s.properties["optimization_hints"] = p.hints()
    if p.accept_keyword("inbounds"):
        p.expect("=")
        s.properties["inbounds"] = _flags(p)
    if p.accept_keyword("attributes"):
        s.attributes.update(p.attribute_dictionary())


def _flags(p: Parser) -> Attribute:
    """`[true, false]`."""
    values: list[int] = []

    def one() -> None:
        if p.kind != "bare" or p.token not in ("true", "false"):
            p.fail("expected 'true' or 'false'")
        values.append(int(p.token == "true"))
        p.advance()

    p.bracketed("[", "]", one)
    return DenseArrayBase.from_list(i1, values)


def _index_types(p: Parser, s: OpState) -> None:
    """`(, type)*` for the indices: one for all of them, or one for each; a token's type may follow."""
    indices = s.operands["index"]
    types: list[Attribute] = []
    start = p.start
    if p.accept(","):
        start = p.start
        types.append(p.type())
        while p.accept(","):
            types.append(p.type())
    if s.operands["token"] and types and isinstance(types[-1], TokenType):
        types.pop()
    if len(types) == 1:
        types *= len(indices)
    s.types["index"] = types
    s.types["token"] = [TokenType()] * len(s.operands["token"])
    s.offsets["types"] = start


def _check_index_types(p: Parser, s: OpState) -> None:
    indices, types = s.operands["index"], s.types["index"]
    if indices and not types:
        p.fail("index types must be specified when indices are present")
    if types and len(types) != len(indices):
        p.fail(f"expected {len(indices)} index types, got {len(types)}", s.offsets["types"])


def _results(p: Parser, s: OpState, names: Sequence[str]) -> None:
    p.expect("->")
    for number, name in enumerate(names):
        if number:
            p.expect(",")
        s.types[name] = [p.type()]
    _check_index_types(p, s)


def _parse_load(p: Parser, s: OpState, *, result: str, hints: bool) -> None:
    """`ordering scope? %view[...] options : view-type, index-types -> type, token`"""
    _memory_attributes(p, s)
    offset = p.start
    _indexed(p, s, view=p.operand(), offset=offset)
    _options(p, s, hints=hints)
    p.expect(":")
    s.types["view"] = [p.type()]
    _index_types(p, s)
    _results(p, s, (result, "result_token"))


def _parse_store(p: Parser, s: OpState) -> None:
    """`ordering scope? %tile, %view[...] options : tile-type, view-type, index-types -> token`"""
    _memory_attributes(p, s)
    s.operands["tile"] = [p.operand()]
    p.expect(",")
    offset = p.start
    _indexed(p, s, view=p.operand(), offset=offset)
    _options(p, s, hints=True)
    p.expect(":")
    s.types["tile"] = [p.type()]
    p.expect(",")
    s.types["view"] = [p.type()]
    _index_types(p, s)
    _results(p, s, ("result_token",))


def _parse_atomic(p: Parser, s: OpState) -> None:
    """`ordering scope %view[...], mode, %value options : value-type, view-type, index-types -> token`"""
    _atomic_memory_attributes(p, s)
    offset = p.start
    _indexed(p, s, view=p.operand(), offset=offset)
    _atomic_mode(p, s)
    _options(p, s, hints=False)
    p.expect(":")
    s.types["value"] = [p.type()]
    p.expect(",")
    s.types["view"] = [p.type()]
    _index_types(p, s)
    _results(p, s, ("result_token",))


def _parse_multimem_store(p: Parser, s: OpState) -> None:
    """`ordering scope? %view, %tile[...] options : view-type, tile-type, index-types(, token)? -> token`"""
    _memory_attributes(p, s)
    offset = p.start
    view = p.operand()
    p.expect(",")
    s.operands["tile"] = [p.operand()]
    _indexed(p, s, view=view, offset=offset)
    _options(p, s, hints=False)
    p.expect(":")
    s.types["view"] = [p.type()]
    p.expect(",")
    s.types["tile"] = [p.type()]
    _index_types(p, s)
    _results(p, s, ("result_token",))


def _with_reduction(parse: Callable[[Parser, OpState], None]) -> Callable[[Parser, OpState], None]:
    """The reduction stands among the attributes, and is `add` when it does not."""

    def read(p: Parser, s: OpState) -> None:
        parse(p, s)
        if "reduction" not in s.attributes:
            s.properties["reduction"] = EnumAttr("MultimemReductionKind", "add")

    return read


VIEW_PARSERS: dict[str, Callable[[Parser, OpState], None]] = {
    "load_view_tko": partial(_parse_load, result="tile", hints=True),
    "store_view_tko": _parse_store,
    "atomic_red_view_tko": _parse_atomic,
    "multimem_load_reduce_view_tko": _with_reduction(partial(_parse_load, result="reduced_values", hints=False)),
    "multimem_reduce_view_tko": _with_reduction(_parse_multimem_store),
    "multimem_store_view_tko": _parse_multimem_store,
}
