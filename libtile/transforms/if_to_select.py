# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`if-to-select`: an `if` whose branches only compute a little becomes selects, with both branches computed.

Branches qualify when every op in them may run although the condition does not ask for it (`effects.is_speculatable`),
and when they hold at most `max_ops` ops on tiles of at most `max_elements` elements: a tile block waits for a branch
about as long as it takes for so much.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op, replace_op, select_before, selectable
from libtile.transforms.effects import is_speculatable
from libtile.transforms.greedy import functions_in


@dataclass(frozen=True)
class IfToSelectPass(ModulePass):
    """Turn small branches without effects into selects.

    `max_ops`: ops in both branches together. `max_elements`: elements of the largest tile that they make.
    """

    name = "if-to-select"

    max_ops: int = 8
    max_elements: int = 1024

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_ifs(op, self.max_ops, self.max_elements)


def convert_ifs(root: Operation, max_ops: int = 8, max_elements: int = 1024) -> bool:
    """Convert what qualifies in every function in `root` (inner ones first); returns whether anything did."""
    changed = False
    for function in functions_in(root):
        for op in reversed(ops_of(function)):
            if not isinstance(op, CudaTileOp) or not is_op(op, "if"):
                continue
            reason = _reason_against(op, max_ops, max_elements)
            if reason is not None:
                reporting.missed(op, "IfToSelect", "Branches are not computed both", reason)
            else:
                reporting.done(op, "IfToSelect", "Branches are computed both, and selects choose")
                _convert(op)
                statistics.count("branches made selects")
                changed = True
    return changed


def _reason_against(op: CudaTileOp, max_ops: int, max_elements: int) -> str | None:
    """Why an `if` stays one; None where it may become selects."""
    types = [result.type for result in op.results]
    if not types or not all(selectable(type_) for type_ in types):
        return "a result is none that a select gives" if types else "it is there for its effects"
    blocks = [block for region in op.regions for block in region.blocks]
    if len(blocks) != 2 or not all(is_op(block.last_op, "yield") for block in blocks):
        return "a branch leaves a loop or the kernel"
    inner = [inner for block in blocks for inner in _body(block)]
    if not all(is_speculatable(op) for op in inner):
        return "an op of a branch has effects, or may be undefined where the branch is not taken"
    if len(inner) > max_ops:
        return f"the branches have more than {max_ops} ops"
    made = [*types, *(result.type for op in inner for result in op.results)]
    return f"a tile has more than {max_elements} elements" if any(_size(t) > max_elements for t in made) else None


def _size(type_: object) -> int:
    """The elements of a tile; other values, such as views, cost nothing."""
    return type_.num_elements if isinstance(type_, TileType) else 0


def _body(block: Block) -> list[Operation]:
    return [op for op in block.ops if op is not block.last_op]


def _convert(op: CudaTileOp) -> None:
    parent = op.parent_block()
    assert parent is not None  # an op in a function
    for region in op.regions:
        for inner in _body(region.blocks[0]):
            inner.detach()
            parent.insert_op_before(inner, op)
    values = [region.blocks[0].last_op.operands for region in op.regions if region.blocks[0].last_op is not None]
    selected: list[SSAValue | None] = [
        one if one is other else select_before(op, op.operand("condition"), one, other) for one, other in zip(*values)
    ]
    replace_op(op, selected)
