# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`deduplicate-symbols`: private constant globals of one content become one.

Only what nobody can write (`constant`) and the host cannot see (`private`) is merged, and only in a module that never
looks at addresses as numbers: there two globals of one content cannot be told apart.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op, replace_op

_REMARK = "Symbols"
_LEFT = "Global is not made one with another of its content"


@dataclass(frozen=True)
class DeduplicateSymbolsPass(ModulePass):
    """Merge private constant globals of one content."""

    name = "deduplicate-symbols"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        deduplicate_symbols(op)


def deduplicate_symbols(root: Operation) -> bool:
    """Merge in every module in `root` (or in `root` itself, when it is one); returns whether any were equal."""
    modules = [op for op in ops_of(root, CudaTileOp) if is_op(op, "module")]
    changed = [_deduplicate(module) for module in modules]
    return True in changed


def _deduplicate(module: CudaTileOp) -> bool:
    globals_: list[CudaTileOp] = []
    uses: list[CudaTileOp] = []
    looks_at_addresses = False
    for op in ops_of(module):
        if is_op(op, "ptr_to_int"):
            looks_at_addresses = True
        elif isinstance(op, CudaTileOp) and is_op(op, "global"):
            globals_.append(op)
        elif isinstance(op, CudaTileOp) and is_op(op, "get_global"):
            uses.append(op)
    first: dict[tuple[Attribute | None, ...], CudaTileOp] = {}
    of_others: dict[tuple[Attribute | None, ...], CudaTileOp] = {}
    """The first one of a content among those that stay: only remarks are made of it."""
    instead: dict[str, str] = {}
    for op in globals_:
        content, reason = (op.properties["value"], op.properties.get("alignment")), _reason_against(op)
        if looks_at_addresses:
            reason = "the module looks at addresses as numbers, and these are different ones"
        if reason is not None:
            if (equal := first.get(content) or of_others.get(content)) is not None:
                reporting.missed(op, _REMARK, _LEFT, reason, Same=equal.attribute_value("sym_name"))
            of_others.setdefault(content, op)
            continue
        kept = first.setdefault(content, op)
        if kept is not op:
            instead[op.attribute_value("sym_name")] = kept.attribute_value("sym_name")
            reporting.done(op, _REMARK, "Global made one with another", Same=kept.attribute_value("sym_name"))
            replace_op(op, [])
            statistics.count("globals merged")
        elif (equal := of_others.get(content)) is not None:
            reason = f"of the other one: {_reason_against(equal)}"
            reporting.missed(op, _REMARK, _LEFT, reason, Same=equal.attribute_value("sym_name"))
    for use in uses:
        name = use.properties["name"]
        assert isinstance(name, SymbolRefAttr)  # as declared
        if not name.nested_references.data and name.root_reference.data in instead:
            use.properties["name"] = SymbolRefAttr(instead[name.root_reference.data])
    return bool(instead)


def _reason_against(op: CudaTileOp) -> str | None:
    """Why a global stays what it is, whatever others hold; None where it may become one with another."""
    if op.attribute_value("symbol_visibility") != "private":
        return "the host can see it, since it is not private"
    return None if op.attribute_value("constant") else "it can be written, since it is not constant"
