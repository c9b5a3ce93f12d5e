# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-remove-layout-conversions`: conversions of conversions, equal and unused ops go."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator, Pure

CONVERT = "nv_tileas.convert_layout"

_Key = tuple[str, tuple[SSAValue, ...], tuple[Attribute, ...], frozenset[tuple[str, Attribute]]]


@dataclass(frozen=True)
class RemoveLayoutConversionsPass(ModulePass):
    """Fold conversions into one another, merge equal pure ops, and drop what nobody uses."""

    name = "tileas-remove-layout-conversions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if inner.name == "nv_tileaa.func":
                clean_up(inner)


def clean_up(function: Operation) -> None:
    """Clean up one function in place."""
    for region in function.regions:
        for block in region.blocks:
            _merge(block, ChainMap())
            _drop(block)


def _is_pure(op: Operation) -> bool:
    if op.regions or op.has_trait(IsTerminator):
        return False
    return op.name == CONVERT or op.has_trait(Pure)


def _merge(block: Block, known: ChainMap[_Key, Operation]) -> None:
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                _merge(inner, known.new_child())
        if op.name == CONVERT:
            _fold(op)
            if op.parent is None:
                continue
        if not _is_pure(op):
            continue
        key = (
            op.name,
            tuple(op.operands),
            tuple(r.type for r in op.results),
            frozenset((*op.properties.items(), *op.attributes.items())),
        )
        same = known.get(key)
        if same is None:
            known[key] = op
            continue
        for old, new in zip(op.results, same.results):
            old.replace_all_uses_with(new)
        op.detach()
        op.erase()


def _fold(op: Operation) -> None:
    """A conversion of a conversion is one, and none when it leads back."""
    source = op.operands[0].owner
    if isinstance(source, Operation) and source.name == CONVERT:
        op.operands[0] = source.operands[0]
    if op.operands[0].type == op.results[0].type:
        op.results[0].replace_all_uses_with(op.operands[0])
        op.detach()
        op.erase()


def _drop(block: Block) -> None:
    for op in reversed(list(block.ops)):
        for region in op.regions:
            for inner in region.blocks:
                _drop(inner)
        if _is_pure(op) and all(r.first_use is None for r in op.results):
            op.detach()
            op.erase()
