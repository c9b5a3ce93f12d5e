# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules in the generic form that MLIR reads without our dialects: what it has syntax of its own for is respelled.

MLIR keeps types and attributes of dialects that it does not know as their text, aliases in it unresolved, and has
syntax of its own for numbers of tensors and for locations. So three things ride as something else: constants of tiles
as `dense` of a tensor, debug locations as `fused<scope>["file":line:column]`, and debug records are spelled out.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from libtile.asm.printer import Printer
from libtile.dialects.cuda_tile.attribute_text import (
    LOCATIONS,
    TypeElision,
    attribute_text,
    dictionary_text,
    elements_text,
    generic_type_text,
    key_text,
    location_text,
    no_alias,
)
from libtile.dialects.cuda_tile.attributes import DebugAttr, DenseElementsAttr, DILocAttr, OptimizationHintsAttr


class _Spelling:
    """Texts that stand in place of what an attribute is written as; locations and debug records by alias."""

    def __init__(self) -> None:
        self.definitions: list[str] = []
        self._names: dict[Attribute, str] = {}

    def __call__(self, attr: Attribute) -> str | None:
        match attr:
            case DenseElementsAttr():
                return f"dense<{elements_text(attr)}> : {_tensor_text(attr)}"
            case OptimizationHintsAttr():
                return _hints_text(attr)
            case DILocAttr() | DebugAttr():
                return self._alias(attr)
            case _:
                return self._alias(attr) if isinstance(attr, LOCATIONS) else None

    def _alias(self, attr: Attribute) -> str:
        name = self._names.get(attr)
        if name is None:
            text = self._definition(attr)  # names what it needs first
            name = self._names[attr] = f"#at{len(self._names)}"
            self.definitions.append(f"{name} = {text}\n")
        return name

    def _definition(self, attr: Attribute) -> str:
        if isinstance(attr, DILocAttr):
            return f"loc(fused<{self._alias(attr.scope)}>[{location_text(attr.position())}])"
        if isinstance(attr, DebugAttr):
            return attribute_text(attr, TypeElision.NEVER, no_alias)
        return f"loc({location_text(attr, self)})"


def _tensor_text(attr: DenseElementsAttr) -> str:
    dimensions = "".join(f"{size}x" for size in attr.type.shape)
    return f"tensor<{dimensions}{generic_type_text(attr.type.element_type)}>"


def _hints_text(attr: OptimizationHintsAttr) -> str:
    """With the types of numbers, which the dialect's own form leaves out."""
    entries = (f"{key_text(target)} = {{{dictionary_text(hints)}}}" for target, hints in attr.hints.items())
    return f"#cuda_tile.{attr.mnemonic}<{', '.join(entries)}>"


class MlirPrinter(Printer):
    """The generic form with locations, as any MLIR reads it that allows unregistered dialects."""

    def __init__(self, op: Operation):
        super().__init__(op, generic=True, debuginfo=True, local_scope=True)
        self.alias = self._spelling = _Spelling()

    def text(self) -> str:
        body = super().text()
        return "".join(self._spelling.definitions) + body
