# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`deduplicate-symbols`: private constant globals of one content become one.

Only what nobody can write (`constant`) and the host cannot see (`private`) is merged, and only in a module that never
looks at addresses as numbers: there two globals of one content cannot be told apart.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.ir.places import walk
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op, replace_op


@dataclass(frozen=True)
class DeduplicateSymbolsPass(ModulePass):
    """Merge private constant globals of one content."""

    name = "deduplicate-symbols"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        deduplicate_symbols(op)


def deduplicate_symbols(root: Operation) -> bool:
    """Merge in every module in `root` (or in `root` itself, when it is one); returns whether any were equal."""
    modules = [op for op in walk(root) if isinstance(op, CudaTileOp) and is_op(op, "module")]
    changed = [_deduplicate(module) for module in modules]
    return True in changed


def _deduplicate(module: CudaTileOp) -> bool:
    globals_: list[CudaTileOp] = []
    uses: list[CudaTileOp] = []
    for op in walk(module):
        if is_op(op, "ptr_to_int"):
            return False
        if isinstance(op, CudaTileOp) and is_op(op, "global") and _is_mergeable(op):
            globals_.append(op)
        elif isinstance(op, CudaTileOp) and is_op(op, "get_global"):
            uses.append(op)
    first: dict[tuple[Attribute | None, ...], CudaTileOp] = {}
    instead: dict[str, str] = {}
    for op in globals_:
        kept = first.setdefault((op.properties["value"], op.properties.get("alignment")), op)
        if kept is not op:
            instead[op.attribute_value("sym_name")] = kept.attribute_value("sym_name")
            reporting.done(op, "Symbols", "Global made one with another", Same=kept.attribute_value("sym_name"))
            replace_op(op, [])
            statistics.count("globals merged")
    for use in uses:
        name = use.properties["name"]
        assert isinstance(name, SymbolRefAttr)  # as declared
        if not name.nested_references.data and name.root_reference.data in instead:
            use.properties["name"] = SymbolRefAttr(instead[name.root_reference.data])
    return bool(instead)


def _is_mergeable(op: CudaTileOp) -> bool:
    return bool(op.attribute_value("constant")) and op.attribute_value("symbol_visibility") == "private"
