# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Names of SSA values and blocks in printed text.

Values get numbers in order, other than those for which an op suggests a name. Numbers go on from the enclosing region,
and start again in each of its sibling regions; a suggested name that is taken gets a number behind an underscore.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from libtile.dialects.cuda_tile.forms import CudaTileOp, DenseElementsAttr
from libtile.dialects.cuda_tile.type_forms import NUMBER_NAMES, is_number, type_text
from libtile.ir.forms import Block, IntegerType, Operation, Region, SSAValue
from libtile.numerics.float_bits import decode

Suggest = Callable[[Operation], "dict[int, str]"]
"""Gives the names that an op suggests for its results, by result number."""


class Named(Protocol):
    """An op, as far as the names of its results go."""

    @property
    def results(self) -> Sequence[Any]: ...

    def __hash__(self) -> int: ...


_FIXED = {
    "broadcast": "bcast",
    "for": "for",
    "make_tensor_view": "tview",
    "make_partition_view": "pview",
    "make_strided_view": "sview",
    "make_gather_scatter_view": "gsview",
    "reduce": "reduce",
    "reshape": "reshape",
}
"""Ops that suggest one name, for their first result."""


def suggested_names(op: Operation) -> dict[int, str]:
    """The names that the dialect's ops suggest; an op with several declared results suggests their declared names."""
    if not isinstance(op, CudaTileOp) or not op.results:
        return {}
    mnemonic = op.spec.name
    if mnemonic == "constant":
        return {0: constant_name(op)}
    if mnemonic == "assume":
        return {0: _assume_name(op)}
    if mnemonic in _FIXED:
        return {0: _FIXED[mnemonic]}
    if len(op.spec.results) > 1:
        return {
            op.results.index(group[0]): value.name
            for value in op.spec.results
            if (group := op.result_group(value.name))
        }
    return {}


def _assume_name(op: CudaTileOp) -> str:
    """`assume`, and behind a value that an op with suggestions made, that op's name for it."""
    parts = []
    current = op
    for _ in range(64):
        value: Any = current.operand("value")
        producer = value.owner
        if not isinstance(producer, CudaTileOp):
            parts.append("assume")
            break
        if producer.spec.name == "assume":
            parts.append("assume_")
            current = producer
            continue
        names = suggested_names(producer)
        if not names and not has_suggestions(producer):
            parts.append("assume")
        else:
            parts.append("assume_" + names.get(value.index, ""))
        break
    return "".join(parts)


def has_suggestions(op: CudaTileOp) -> bool:
    """Whether the op implements the naming interface at all, even if it names nothing."""
    return bool(op.spec.regions) or op.spec.name in _FIXED


def constant_name(op: CudaTileOp) -> str:
    """`cst_<value>_<type>` for one value, `cst_<type>` for several, `true` and `false` for i1."""
    value = op.properties.get("value")
    if not isinstance(value, DenseElementsAttr):
        return "cst"
    element_type = value.type.element_type
    if is_number(element_type, "i1"):
        elements = set(value.elements())
        return "cst_i1" if len(elements) > 1 else "true" if elements == {1} else "false"
    name = "cst"
    if value.is_splat:
        name += _value_suffix(value)
    return f"{name}_{type_text(element_type)}"


def _value_suffix(value: DenseElementsAttr) -> str:
    element_type = value.type.element_type
    bits = value.elements()[0]
    if isinstance(element_type, IntegerType):
        width = element_type.width.data
        return f"_{bits - (1 << width) if bits >> (width - 1) else bits}"
    number = decode(bits, NUMBER_NAMES[element_type])
    if number != number:
        return "_NaN"
    if 0 <= number < 1 << 64 and number == int(number) and not _is_negative_zero(number):
        return f"_{int(number)}"
    return ""


def _is_negative_zero(number: float) -> bool:
    return number == 0 and str(number).startswith("-")


def argument_names(region: Region, parent: Operation) -> dict[int, str]:
    """The names that an op suggests for the arguments of its entry block."""
    if not isinstance(parent, CudaTileOp):
        return {}
    count = len(region.first_block.args) if region.first_block is not None else 0
    if parent.spec.name == "for":
        return {i: "loopIdx" if i == 0 else f"iterArg{i - 1}" for i in range(count)}
    if parent.spec.name == "reduce":
        return {i: ("reduce_lhs", "reduce_rhs")[i % 2] + (str(i // 2) if count > 2 else "") for i in range(count)}
    return {}


_PLAIN = re.compile(r"[A-Za-z$._-][A-Za-z0-9$._-]*\Z")


def sanitized(name: str) -> str:
    """The name with what an identifier cannot hold replaced: a space by `_`, anything else by its code."""
    if _PLAIN.match(name):
        return name
    text = "".join(c if _PLAIN.match("a" + c) else "_" if c == " " else f"{ord(c):X}" for c in name)
    return "_" + text if text[:1].isdigit() else text


class _Counters:
    __slots__ = ("argument", "conflict", "value")

    def __init__(self, value: int = 0, argument: int = 0, conflict: int = 0):
        self.value, self.argument, self.conflict = value, argument, conflict

    def copy(self) -> _Counters:
        return _Counters(self.value, self.argument, self.conflict)


class Names:
    """The names of all values and blocks below an op. `groups` has the result numbers at which an op's names start."""

    def __init__(self, op: Operation, *, generic: bool = False, suggest: Suggest | None = None):
        self.values: dict[Any, str] = {}
        self.blocks: dict[Block, str] = {}
        self.groups: dict[Named, list[int]] = {}
        self._generic = generic
        self._suggest = suggest or suggested_names
        self._used: list[set[str]] = [set()]
        self._counters = _Counters()
        self._name_results(op)
        self._number(op)

    def _number(self, top: Operation) -> None:
        # Depth first with an explicit stack: a region's own values are all named before those of regions inside of it.
        stack: list[tuple[Region, _Counters, int]] = [(r, self._counters.copy(), 1) for r in top.regions]
        while stack:
            region, counters, depth = stack.pop()
            del self._used[depth:]
            self._used.append(set())
            self._counters = counters
            self._name_region(region)
            for block in region.blocks:
                for op in block.ops:
                    for inner in op.regions:
                        stack.append((inner, self._counters.copy(), depth + 1))

    def _name_region(self, region: Region) -> None:
        parent = region.parent
        first = region.first_block
        if first is not None and parent is not None and not self._generic:
            for index, name in argument_names(region, parent).items():
                self.values[first.args[index]] = "%" + self._unique(name)
        for number, block in enumerate(region.blocks):
            self.blocks[block] = f"^bb{number}"
            self._name_arguments(block.args, block is first)
            self._name_ops(block)

    def _name_ops(self, block: Block) -> None:
        for op in block.ops:
            self._name_results(op)

    def _name_arguments(self, arguments: Iterable[SSAValue[Any]], entry: bool) -> None:
        counters = self._counters
        for argument in arguments:
            if argument in self.values:
                continue
            if entry:
                self.values[argument] = "%" + self._unique(f"arg{counters.argument}")
                counters.argument += 1
            else:
                self.values[argument] = self._next()

    def _next(self) -> str:
        number = self._counters.value
        self._counters.value += 1
        return f"%{number}"

    def _name_results(self, op: Operation) -> None:
        if op.results:
            self._name_as_suggested(op, {} if self._generic else self._suggest(op))

    def _name_as_suggested(self, op: Named, names: dict[int, str]) -> None:
        results = op.results
        starts = [0]
        for index, name in names.items():
            self.values[results[index]] = "%" + self._unique(name) if name else self._next()
            if index:
                starts.append(index)
        if results[0] not in self.values:
            self.values[results[0]] = self._next()
        if len(results) > 1:
            self._name_rest(op, sorted(starts))

    def _name_rest(self, op: Named, starts: list[int]) -> None:
        """Results that share a name are told apart by their number behind `#`."""
        self.groups[op] = starts
        results = op.results
        for position, start in enumerate(starts):
            end = starts[position + 1] if position + 1 < len(starts) else len(results)
            base = self.values[results[start]]
            for number in range(start, end):
                self.values[results[number]] = base if end - start == 1 else f"{base}#{number - start}"

    def _unique(self, name: str) -> str:
        name = sanitized(name)
        if any(name in scope for scope in self._used):
            while True:
                probe = f"{name}_{self._counters.conflict}"
                self._counters.conflict += 1
                if not any(probe in scope for scope in self._used):
                    name = probe
                    break
        self._used[-1].add(name)
        return name
