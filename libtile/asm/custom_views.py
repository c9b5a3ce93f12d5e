# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom forms of the ops that access memory through a view: load, store, atomic reduction, multicast memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, SSAValue

from libtile.asm.op_state import OpState, Use
from libtile.dialects.cuda_tile.attribute_text import dense_array_values
from libtile.dialects.cuda_tile.attributes import EnumAttr, OptimizationHintsAttr
from libtile.dialects.cuda_tile.ops import SEGMENTS
from libtile.dialects.cuda_tile.types import TokenType, i1

if TYPE_CHECKING:
    from libtile.asm.parser import Parser
    from libtile.asm.printer import Printer
    from libtile.dialects.cuda_tile.ops import CudaTileOp


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


# -- writing ------------------------------------------------------------------------------------------------------


def _memory_text(op: CudaTileOp) -> str:
    ordering = op.attribute_value("memory_ordering_semantics")
    scope = op.attribute_value("memory_scope")
    return f" {ordering}" + (f" {scope}" if scope else "")


def _group(op: CudaTileOp, name: str) -> tuple[SSAValue[Any], ...]:
    return op.operand_group(name)


def _indices(p: Printer, op: CudaTileOp) -> str:
    return f"[{', '.join(map(p.value, _group(op, 'index')))}]"


def _inbounds_text(op: CudaTileOp) -> str:
    """The flags, unless all are false (which is the default)."""
    flags = op.properties.get("inbounds")
    if isinstance(flags, DenseArrayBase) and any(flags.get_values()):
        return f"inbounds = [{dense_array_values(flags)}]"
    return ""


def _token_text(p: Printer, op: CudaTileOp) -> str:
    token = _group(op, "token")
    return f" token = {p.value(token[0])}" if token else ""


def _options_text(p: Printer, op: CudaTileOp) -> str:
    text = _token_text(p, op)
    hints = op.properties.get("optimization_hints")
    if isinstance(hints, OptimizationHintsAttr):
        text += f" optimization_hints = {hints.body()}"
    inbounds = _inbounds_text(op)
    return text + (f" {inbounds}" if inbounds else "")


_WRITTEN = frozenset({"memory_ordering_semantics", "memory_scope", "optimization_hints", "inbounds", "mode", SEGMENTS})


def _index_types_text(p: Printer, op: CudaTileOp) -> str:
    types = [v.type for v in _group(op, "index")]
    if types and all(t == types[0] for t in types):
        types = types[:1]
    return "".join(f", {p.type(t)}" for t in types)


def _result_types(p: Printer, op: CudaTileOp) -> str:
    return " -> " + p.types(op.results)


def _print_load(p: Printer, op: CudaTileOp) -> None:
    (view,) = _group(op, "view")
    p.write(f"{_memory_text(op)} {p.value(view)}{_indices(p, op)}{_options_text(p, op)}")
    p.attribute_dict(op, _WRITTEN, keyword=True)
    p.write(f" : {p.type(view.type)}{_index_types_text(p, op)}{_result_types(p, op)}")


def _print_store(p: Printer, op: CudaTileOp) -> None:
    (tile,), (view,) = _group(op, "tile"), _group(op, "view")
    p.write(f"{_memory_text(op)} {p.value(tile)}, {p.value(view)}{_indices(p, op)}{_options_text(p, op)}")
    p.attribute_dict(op, _WRITTEN, keyword=True)
    p.write(f" : {p.type(tile.type)}, {p.type(view.type)}{_index_types_text(p, op)}{_result_types(p, op)}")


def _print_atomic(p: Printer, op: CudaTileOp) -> None:
    (view,), (value,) = _group(op, "view"), _group(op, "value")
    mode = op.attribute_value("mode")
    p.write(f"{_memory_text(op)} {p.value(view)}{_indices(p, op)}, {mode}, {p.value(value)}{_options_text(p, op)}")
    p.attribute_dict(op, _WRITTEN, keyword=True)
    p.write(f" : {p.type(value.type)}, {p.type(view.type)}{_index_types_text(p, op)}{_result_types(p, op)}")


def _multimem_tail(p: Printer, op: CudaTileOp, types: Sequence[Attribute]) -> None:
    """Options and types; the flags are a directive of their own, which leaves its space when it writes nothing."""
    p.write(f"{_token_text(p, op)} {_inbounds_text(op)}")
    reduction = op.properties.get("reduction")
    plain = isinstance(reduction, EnumAttr) and reduction.keyword == "add"
    p.attribute_dict(op, _WRITTEN | {"reduction"} if plain else _WRITTEN, keyword=True)
    written = "".join(f"{p.type(t)}, " for t in types)[:-2]
    token = ", " + p.type(TokenType()) if _group(op, "token") else ""
    p.write(f" : {written}{_index_types_text(p, op)}{token}{_result_types(p, op)}")


def _print_multimem_load(p: Printer, op: CudaTileOp) -> None:
    (view,) = _group(op, "view")
    p.write(f"{_memory_text(op)} {p.value(view)}{_indices(p, op)}")
    _multimem_tail(p, op, (view.type,))


def _print_multimem_store(p: Printer, op: CudaTileOp) -> None:
    (view,), (tile,) = _group(op, "view"), _group(op, "tile")
    p.write(f"{_memory_text(op)} {p.value(view)}, {p.value(tile)}{_indices(p, op)}")
    _multimem_tail(p, op, (view.type, tile.type))


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

VIEW_PRINTERS: dict[str, Callable[[Printer, CudaTileOp], None]] = {
    "load_view_tko": _print_load,
    "store_view_tko": _print_store,
    "atomic_red_view_tko": _print_atomic,
    "multimem_load_reduce_view_tko": _print_multimem_load,
    "multimem_reduce_view_tko": _print_multimem_store,
    "multimem_store_view_tko": _print_multimem_store,
}
