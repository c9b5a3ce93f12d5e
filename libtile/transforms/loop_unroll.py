# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`loop-unroll`: several iterations of a loop in a row, by a hint.

    for i in lb to ub step s { A(i) }

becomes, for a factor of 2 and with m the last number of whole pairs,

    for i in lb to m step 2 * s { A(i) ; A(i + s) }
    for i in m to ub step s { A(i) }

and is gone altogether where constants show that there are not more iterations than the factor. A `loop` needs no second
one: each copy of the body can leave it, and a `continue` of any copy may go on with the first one.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.interfaces import body
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.support import statistics
from libtile.support.records import dataclass
from libtile.transforms import reporting
from libtile.transforms.canonical_values import is_op, replace_op
from libtile.transforms.greedy import functions_in
from libtile.transforms.loop_copies import Bounds, copy_iteration, copy_ops, hint, with_bounds

UNROLL_ATTRIBUTE = "cuda_tile.loop_unroll"
"""Discardable attribute of a `for` or a `loop`: its own factor; 1 for none. It is gone where it has been followed."""
_REMARK = "LoopUnroll"


@dataclass(frozen=True)
class LoopUnrollPass(ModulePass):
    """Repeat the bodies of loops, where a hint says how often.

    `factor`: for loops without a hint; 1 leaves them. `max_ops`: the most ops that a loop's copies may have together.
    """

    name = "loop-unroll"

    factor: int = 1
    max_ops: int = 2048

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        unroll_loops(op, self.factor, self.max_ops)


def unroll_loops(root: Operation, factor: int = 1, max_ops: int = 2048) -> bool:
    """Unroll in every function in `root` (or in `root` itself, when it is one), inner loops first; whether any was."""
    changed = False
    for function in functions_in(root):
        loops = [op for op in ops_of(function, CudaTileOp) if is_op(op, "for", "loop")]
        for loop in reversed(loops):
            times = hint(loop, UNROLL_ATTRIBUTE, factor)
            if times > 1:
                changed |= _unroll(loop, times, max_ops)
    return changed


def _unroll(loop: CudaTileOp, factor: int, max_ops: int) -> bool:
    size = sum(1 for op in ops_of(loop)) - 1
    if size * factor > max_ops:
        reason = f"{factor} copies of {size} ops are more than {max_ops} ops"
    elif is_op(loop, "loop"):
        reason = _unroll_endless(loop, factor)
    else:
        reason = _unroll_counted(loop, factor)
    if reason:
        reporting.missed(loop, _REMARK, "Loop is not unrolled", reason, Factor=factor)
    return not reason


def _report(loop: CudaTileOp, factor: int) -> None:
    reporting.done(loop, _REMARK, "Loop unrolled", Factor=factor)
    statistics.count("loops unrolled")


def _unroll_endless(loop: CudaTileOp, factor: int) -> str:
    last = body(loop).last_op
    if last is None or not is_op(last, "continue"):
        return "its body does not end with the next iteration"
    _report(loop, factor)
    block = Block(arg_types=[arg.type for arg in body(loop).args])
    values: list[SSAValue] = list(block.args)
    for _ in range(factor):
        mapper: dict[SSAValue, SSAValue] = dict(zip(body(loop).args, values, strict=True))
        copy_ops(loop, block, mapper)
        values = [mapper.get(value, value) for value in last.operands]
    end = last.clone()
    end.operands = values
    block.add_op(end)
    made = type(loop).create(
        operands=loop.operands,
        result_types=[result.type for result in loop.results],
        properties=loop.properties.copy(),
        attributes={name: attr for name, attr in loop.attributes.items() if name != UNROLL_ATTRIBUTE},
        regions=[Region(block)],
    )
    made.location = loop.location
    _insert(made, loop)
    replace_op(loop, made.results)
    return ""


def _insert(made: CudaTileOp, place: Operation) -> None:
    block = place.parent_block()
    assert block is not None
    block.insert_op_before(made, place)


def _unroll_counted(loop: CudaTileOp, factor: int) -> str:
    bounds = Bounds(loop, loop)
    step = bounds.number(bounds.step)
    if step is None or step <= 0:
        return "its step is not known"
    if step * factor > bounds.greatest:
        return "so many steps are more than the type of the counter holds"
    lower, upper = bounds.number(bounds.lower), bounds.number(bounds.upper)
    trips = None if lower is None or upper is None else max(-(-(upper - lower) // step), 0)
    _report(loop, factor)
    values: list[SSAValue] = list(loop.operand_group("initValues"))
    loop.attributes.pop(UNROLL_ATTRIBUTE, None)
    if trips is not None and trips <= factor:
        for number in range(trips):
            values = copy_iteration(loop, loop, [bounds.add(bounds.lower, bounds.constant(number * step)), *values])
        statistics.count("loops that are gone")
        replace_op(loop, values)
        return ""
    stride = bounds.constant(step * factor)
    middle, whole = bounds.upper, trips is not None and trips % factor == 0
    if not whole:
        # Of a whole number of groups the last may end short of its stride, and be no whole one here.
        span = bounds.subtract(bounds.larger(bounds.upper, bounds.lower), bounds.lower)
        middle = bounds.add(bounds.lower, bounds.multiply(bounds.quotient(span, stride), stride))
    block = Block(arg_types=[arg.type for arg in body(loop).args])
    last = body(loop).last_op
    assert last is not None
    end = last.clone()
    block.add_op(end)
    inner, counter = Bounds(loop, end), block.args[0]
    carried: list[SSAValue] = list(block.args[1:])
    for number in range(factor):
        at = counter if number == 0 else inner.add(counter, inner.constant(number * step))
        carried = copy_iteration(loop, end, [at, *carried])
    end.operands = carried
    main = with_bounds(loop, (bounds.lower, middle, stride), values, Region(block))
    _insert(main, loop)
    if whole:
        replace_op(loop, main.results)
        return ""
    loop.operands = [middle, bounds.upper, bounds.step, *main.results]
    return ""
