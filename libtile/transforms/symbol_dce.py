# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`symbol-dce`: private globals that nothing refers to are erased. Public ones the host can see, so they stay."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.passes import ModulePass

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.ir.places import walk
from libtile.support import remarks, statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op

_REMARK = "Symbols"


@dataclass(frozen=True)
class SymbolDcePass(ModulePass):
    """Erase private globals without uses."""

    name = "symbol-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        eliminate_dead_symbols(op)


def eliminate_dead_symbols(root: Operation) -> bool:
    """Erase the unused private globals of every module in `root`; returns whether there were any."""
    all_of_them = list(_globals(root))
    hidden = any(op.attribute_value("symbol_visibility") == "private" for op in all_of_them)
    if not hidden and not (all_of_them and remarks.are_collected()):
        return False
    attributes = (attr for op in walk(root) for attr in (*op.properties.values(), *op.attributes.values()))
    used = {name for attr in attributes for name in _names(attr)}
    unused = [op for op in all_of_them if op.attribute_value("sym_name") not in used]
    dead: list[Operation] = []
    for op in unused:
        name = op.attribute_value("sym_name")
        if op.attribute_value("symbol_visibility") == "private":
            reporting.done(op, _REMARK, "Global that nothing uses is gone", Symbol=name)
            dead.append(op)
        else:
            reason = "the host can see it, since it is not private"
            reporting.missed(op, _REMARK, "Global that nothing in the module uses stays", reason, Symbol=name)
    for gone in dead:
        gone.detach()
        gone.erase()
        statistics.count("globals erased")
    return bool(dead)


def _globals(root: Operation) -> Iterator[CudaTileOp]:
    """The globals of the modules in `root`: what has no module around it holds none."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.ops:
                if isinstance(op, CudaTileOp) and is_op(op, "global"):
                    yield op
                elif isinstance(op, ModuleOp) or is_op(op, "module"):
                    yield from _globals(op)


def _names(attr: Attribute) -> list[str]:
    """The symbols that an attribute refers to."""
    if isinstance(attr, SymbolRefAttr):
        return [attr.root_reference.data, *(part.data for part in attr.nested_references)]
    if isinstance(attr, ArrayAttr):
        return [name for part in attr.data for name in _names(part)]
    if isinstance(attr, DictionaryAttr):
        return [name for part in attr.data.values() for name in _names(part)]
    return [n for part in attr.parameters for n in _names(part)] if isinstance(attr, ParametrizedAttribute) else []
