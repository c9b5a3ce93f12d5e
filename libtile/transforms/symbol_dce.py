# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`symbol-dce`: private globals that nothing refers to are erased; of the inner dialects functions, too, and what is
nested. Public ones the host can see, so they stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.nv_tileaa.functions import FuncOp, GlobalOp, is_hidden
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import remarks, statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op

_REMARK = "Symbols"


@dataclass(frozen=True)
class SymbolDcePass(ModulePass):
    """Erase private globals, and functions of the inner dialects, without uses."""

    name = "symbol-dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        eliminate_dead_symbols(op)


def eliminate_dead_symbols(root: Operation) -> bool:
    """Erase the unused private symbols of every module in `root`; returns whether there were any."""
    symbols = {op: _symbol(op) for op in _definitions(root)}
    seen = [op for op, symbol in symbols.items() if not symbol.hidden and not isinstance(op, FuncOp)]
    if len(seen) == len(symbols) and not (seen and remarks.are_collected()):
        return False
    for op in _unused(root, seen, symbols):
        reason = "the host can see it, since it is not private"
        reporting.missed(op, _REMARK, "Global that nothing in the module uses stays", reason, Symbol=symbols[op].name)
    hidden = [op for op, symbol in symbols.items() if symbol.hidden]
    dead: list[Operation] = []
    while gone := _unused(root, hidden, symbols):  # what only a dead function referred to goes with it
        for op in gone:
            what = "Function" if isinstance(op, FuncOp) else "Global"
            reporting.done(op, _REMARK, f"{what} that nothing uses is gone", Symbol=symbols[op].name)
            statistics.count(f"{what.lower()}s erased")
            hidden.remove(op)
            op.detach()
            op.erase()
        dead += gone
    return bool(dead)


class _Symbol(NamedTuple):
    name: object
    hidden: bool


def _symbol(op: Operation) -> _Symbol:
    if isinstance(op, CudaTileOp):
        return _Symbol(op.attribute_value("sym_name"), op.attribute_value("symbol_visibility") == "private")
    assert isinstance(op, FuncOp | GlobalOp)
    return _Symbol(op.sym_name.data, is_hidden(op.sym_visibility))


def _unused(root: Operation, some: Sequence[Operation], symbols: Mapping[Operation, _Symbol]) -> list[Operation]:
    """Those to whose names no attribute in `root` refers."""
    if not some:
        return []
    attributes = (attr for op in ops_of(root) for attr in (*op.properties.values(), *op.attributes.values()))
    used = {name for attr in attributes for name in _names(attr)}
    return [op for op in some if symbols[op].name not in used]


def _definitions(root: Operation) -> Iterator[Operation]:
    """The globals, and functions of the inner dialects, of the modules in `root`: what has no module around it holds
    none."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.ops:
                if is_op(op, "global") or isinstance(op, FuncOp | GlobalOp):
                    yield op
                elif isinstance(op, ModuleOp) or is_op(op, "module"):
                    yield from _definitions(op)


def _names(attr: Attribute) -> list[str]:
    """The symbols that an attribute refers to."""
    if isinstance(attr, SymbolRefAttr):
        return [attr.root_reference.data, *(part.data for part in attr.nested_references)]
    if isinstance(attr, ArrayAttr):
        return [name for part in attr.data for name in _names(part)]
    if isinstance(attr, DictionaryAttr):
        return [name for part in attr.data.values() for name in _names(part)]
    return [n for part in attr.parameters for n in _names(part)] if isinstance(attr, ParametrizedAttribute) else []
