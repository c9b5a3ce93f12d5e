# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a reduction that take something out of a program: ops, regions, carried values, arguments.

An edit has places in a program, numbered in the order of the text, and is made at some of them at once. It works on a
copy and need not be right: the reduction asks whether what it leaves is a program, and still one of interest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, IndexType, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from libtile.dialects.arith import ConstantOp as ArithConstantOp
from libtile.dialects.cuda_tile.attributes import DenseElementsAttr, element_storage_bytes
from libtile.dialects.cuda_tile.ops import OPS, SEGMENTS, CudaTileOp, build
from libtile.dialects.cuda_tile.types import NUMBER_NAMES, TileType, TokenType
from libtile.dialects.interfaces import (
    Branch,
    CountedLoop,
    EndlessLoop,
    EndsFunction,
    EndsIteration,
    EndsLoop,
    EndsRegion,
    bounds_of,
    control_flow,
    exit_of,
)
from libtile.dialects.nv_tileaa.shapes import ConstantOp
from libtile.dialects.nv_tileaa.tokens import CreateMemTokenOp
from libtile.dialects.nv_tileaa.types import MemTokenType
from libtile.support.records import dataclass

MODULES = (ModuleOp, OPS["module"])


def _is_loop(op: Operation) -> bool:
    """Whether an op is a loop of which the carried values can be changed."""
    return isinstance(control_flow(op), CountedLoop | EndlessLoop)


def _is_replaced_by_body(op: Operation) -> bool:
    return isinstance(control_flow(op), Branch) or _is_loop(op)


@dataclass(frozen=True)
class Edit:
    """A kind of step. `places` lists where it can be made; `make` makes it at one of them, if that is still there."""

    name: str
    places: Callable[[Operation], Sequence[Operation]]
    make: Callable[[Operation], None]
    at_once: bool = True
    """Whether it is worth while to try many places at a time."""


# -- ops --------------------------------------------------------------------------------------------------------------


def _symbols(root: Operation) -> list[Operation]:
    """The functions, globals and modules inside of modules."""
    return [op for op in root.walk() if op is not root and isinstance(op.parent_op(), MODULES)]


def _ops(root: Operation) -> list[Operation]:
    """The ops in functions, but for those that end a block."""
    outer = set(_symbols(root))
    return [op for op in root.walk() if op is not root and op not in outer and not op.has_trait(IsTerminator)]


StandIn = Callable[[Operation, SSAValue], SSAValue | None]
"""A value that takes the place of an op's result; None when there is none of its kind."""


def _removing(*stand_ins: StandIn) -> Callable[[Operation], None]:
    def remove(op: Operation) -> None:
        if op.parent is None:
            return  # gone with the op around it
        for result in op.results:
            if result.first_use is None:
                continue
            other = next((value for stand_in in stand_ins if (value := stand_in(op, result)) is not None), None)
            if other is None:
                return
            result.replace_all_uses_with(other)
        _erase(op)

    return remove


def _erase(op: Operation) -> None:
    op.detach()
    op.erase(safe_erase=False)


def _operand(op: Operation, result: SSAValue) -> SSAValue | None:
    """An operand of the same type: for a loop, what the carried value starts as."""
    if _is_loop(op):
        carried = op.operands[len(op.operands) - len(op.results) :]
        return next((o for o, r in zip(carried, op.results) if r is result and o.type == r.type), None)
    return next((o for o in op.operands if o.type == result.type), None)


def _constant(op: Operation, result: SSAValue) -> SSAValue | None:
    """A zero of a number type, or a fresh token, in front of the op."""
    new = zero(result.type, inner=not isinstance(op, CudaTileOp))
    if new is None or type(op) is type(new) or op.parent is None:
        return None
    op.parent.insert_op_before(new, op)
    return new.results[0]


def zero(type_: Attribute, inner: bool = False) -> Operation | None:
    """An op without operands that gives a value of a type; `inner` asks for one of the inner dialects."""
    match type_:
        case TokenType():
            return build("make_token", {}, [type_])
        case MemTokenType():
            return CreateMemTokenOp.make(results=[type_])
        case IndexType() | IntegerType():
            return ArithConstantOp(IntegerAttr(0, type_))
        case TileType() if type_.element_type in NUMBER_NAMES:
            raw = bytes(element_storage_bytes(type_.element_type))
            return build("constant", {}, [type_], {"value": DenseElementsAttr(type_, raw)})
    shape, element = getattr(type_, "get_shape", None), getattr(type_, "element_type", None)
    if inner and shape is not None and element in NUMBER_NAMES:
        value = DenseElementsAttr(TileType(shape(), element), bytes(element_storage_bytes(element)))
        return ConstantOp.make(results=[type_], value=value)
    return None


def _earlier(op: Operation, result: SSAValue) -> SSAValue | None:
    """The nearest value of the same type that is computed before, in the op's block or around it."""
    place: Operation | None = op
    while place is not None and place.parent is not None and not isinstance(place, MODULES):
        before = place.prev_op
        while before is not None:
            for value in before.results:
                if value.type == result.type:
                    return value
            before = before.prev_op
        for argument in place.parent.args:
            if argument.type == result.type:
                return argument
        place = place.parent_op()
    return None


# -- regions ----------------------------------------------------------------------------------------------------------


def _with_bodies(root: Operation) -> list[Operation]:
    return [op for op in root.walk() if _is_replaced_by_body(op)]


def _inlining(side: int) -> Callable[[Operation], None]:
    def inline(op: Operation) -> None:
        """Conditionals replaced by one of their sides, loops by their first iteration."""
        if op.parent is None or side >= len(op.regions) or len(op.regions[side].blocks) != 1:
            return
        block = op.regions[side].blocks[0]
        last = block.last_op
        if last is None or not last.has_trait(IsTerminator):
            return
        flow = control_flow(op)
        values = [bounds_of(op)[0], *flow.carried(op)] if isinstance(flow, CountedLoop) else list(op.operands)
        if block.args and [a.type for a in block.args] != [v.type for v in values]:
            return
        for argument, value in zip(block.args, values):
            argument.replace_all_uses_with(value)
        leaves = isinstance(exit_of(last), EndsFunction)
        results = list(last.operands)
        if not leaves and [r.type for r in op.results] != [v.type for v in results]:
            return
        for inner in list(block.ops):
            if inner is not last or leaves:
                inner.detach()
                op.parent.insert_op_before(inner, op)
        if leaves:
            while (after := op.parent.last_op) is not None and after is not last:
                _erase(after)
            return
        for result, value in zip(op.results, results):
            result.replace_all_uses_with(value)
        _erase(op)

    return inline


# -- carried values ---------------------------------------------------------------------------------------------------


def _carrying(root: Operation) -> list[Operation]:
    """Loops and conditionals that have results or carried values."""
    return [op for op in root.walk() if _is_replaced_by_body(op) and (op.results or _carried(op))]


def _carried(op: Operation) -> list[SSAValue]:
    """What a loop's carried values start as."""
    flow = control_flow(op)
    if isinstance(flow, EndlessLoop):
        return list(op.operands)
    return list(op.operands[flow.bounds :]) if isinstance(flow, CountedLoop) else []


def _drop_values(op: Operation) -> None:
    """Take out the results that nothing uses, and carried values that the body does not use or can do without."""
    if op.parent is None:
        return
    keep = [result.first_use is not None for result in op.results]
    if isinstance(control_flow(op), CountedLoop):
        kept_results = [i for i, kept in enumerate(keep) if kept]
        _rebuilt(op, kept_results, kept_results)
    elif isinstance(control_flow(op), EndlessLoop):
        _rebuilt(op, [i for i, kept in enumerate(keep) if kept], list(range(len(op.operands))))
    else:
        _rebuilt(op, [i for i, kept in enumerate(keep) if kept], [])


def _drop_carried(op: Operation) -> None:
    """Let the body of a loop use what it starts with in every iteration."""
    if op.parent is None or not _is_loop(op):
        return
    if isinstance(control_flow(op), EndlessLoop):
        _rebuilt(op, list(range(len(op.results))), [])
        return
    for result, start in zip(op.results, _carried(op)):
        result.replace_all_uses_with(start)
    _rebuilt(op, [], [])


def _rebuilt(op: Operation, results: list[int], carried: list[int]) -> None:
    """Replace the op by one with some of its results and carried values only."""
    starts = _carried(op)
    fixed = list(op.operands[: len(op.operands) - len(starts)])
    if len(results) == len(op.results) and len(carried) == len(starts):
        return
    for exit_, kind in _exits(op):
        kept = carried if kind == "carried" else results
        exit_.operands = [exit_.operands[i] for i in kept]
    regions = []
    for region in op.regions:
        taken = Region()
        region.move_blocks(taken)
        regions.append(taken)
    if starts:
        block = regions[0].blocks[0]
        first = len(block.args) - len(starts)
        for index in reversed(range(len(starts))):
            if index not in carried:
                argument = block.args[first + index]
                argument.replace_all_uses_with(starts[index])
                block.erase_arg(argument)
    new = type(op).create(
        operands=[*fixed, *(starts[i] for i in carried)],
        result_types=[op.results[i].type for i in results],
        properties=op.properties.copy(),
        attributes=op.attributes.copy(),
        regions=regions,
        location=op.location,
    )
    assert op.parent is not None
    op.parent.insert_op_before(new, op)
    for value, index in zip(new.results, results):
        op.results[index].replace_all_uses_with(value)
    _erase(op)


def _exits(op: Operation) -> Iterator[tuple[Operation, str]]:
    """The ends of an op's iterations ("carried") and of the op itself ("results")."""

    def inside(block: Block, direct: bool) -> Iterator[tuple[Operation, str]]:
        for inner in block.ops:
            exit_ = exit_of(inner)
            if isinstance(exit_, EndsIteration):
                yield inner, "carried"
            elif isinstance(exit_, EndsLoop):
                yield inner, "results"
            elif isinstance(exit_, EndsRegion) and direct:
                yield inner, "carried"
            elif not _is_loop(inner):
                for region in inner.regions:
                    for nested in region.blocks:
                        yield from inside(nested, False)

    for region in op.regions:
        for block in region.blocks:
            if _is_loop(op):
                yield from inside(block, True)
            elif (last := block.last_op) is not None and isinstance(exit_of(last), EndsRegion):
                yield last, "results"


# -- arguments --------------------------------------------------------------------------------------------------------


def _with_arguments(root: Operation) -> list[Operation]:
    return [op for op in root.walk() if isinstance(op.properties.get("function_type"), FunctionType) and op.regions]


ArgumentStandIn = Callable[[Operation, Block, BlockArgument], SSAValue | None]
"""A value that takes the place of a function's argument."""


def _dropping_arguments(stand_in: ArgumentStandIn) -> Callable[[Operation], None]:
    def drop(op: Operation) -> None:
        """Take out arguments that nothing uses, or that something can take the place of."""
        type_, block = op.properties["function_type"], op.regions[0].first_block
        if not isinstance(type_, FunctionType) or block is None:
            return
        kept = list(range(len(block.args)))
        for argument in reversed(block.args):
            if argument.first_use is not None and (other := stand_in(op, block, argument)) is not None:
                argument.replace_all_uses_with(other)
            if argument.first_use is None:
                kept.remove(argument.index)
                block.erase_arg(argument)
        _set_arguments(op, type_, kept)

    return drop


def _nothing(op: Operation, block: Block, argument: BlockArgument) -> SSAValue | None:
    return None


def _first_of_its_type(op: Operation, block: Block, argument: BlockArgument) -> SSAValue | None:
    first = next(other for other in block.args if other.type == argument.type)
    return None if first is argument else first


def _zero_at_start(op: Operation, block: Block, argument: BlockArgument) -> SSAValue | None:
    constant = zero(argument.type, inner=not isinstance(op, CudaTileOp))
    if constant is None:
        return None
    _put_first(block, constant)
    return constant.results[0]


def _put_first(block: Block, op: Operation) -> None:
    if block.first_op is None:
        block.add_op(op)
    else:
        block.insert_op_before(op, block.first_op)


def _set_arguments(op: Operation, type_: FunctionType, kept: list[int]) -> None:
    inputs = type_.inputs.data
    op.properties["function_type"] = FunctionType.from_lists([inputs[i] for i in kept], list(type_.outputs.data))
    attributes = op.properties.get("arg_attrs")
    if isinstance(attributes, ArrayAttr) and len(attributes.data) == len(inputs):
        op.properties["arg_attrs"] = ArrayAttr([attributes.data[i] for i in kept])


# -- operands ---------------------------------------------------------------------------------------------------------


def _with_optional_operands(root: Operation) -> list[Operation]:
    return [op for op in root.walk() if isinstance(op.properties.get(SEGMENTS), DenseArrayBase) and op.operands]


def _dropping_operands(group_from_end: int) -> Callable[[Operation], None]:
    def drop(op: Operation) -> None:
        """Leave out a group of operands: a mask, a padding value, a token."""
        sizes = op.properties.get(SEGMENTS)
        if not isinstance(sizes, DenseArrayBase):
            return
        counts = [int(n) for n in sizes.get_values()]
        if group_from_end > len(counts) or not counts[-group_from_end]:
            return
        number = len(counts) - group_from_end
        start = sum(counts[:number])
        op.operands = [*op.operands[:start], *op.operands[start + counts[number] :]]
        counts[number] = 0
        assert isinstance(sizes.elt_type, IntegerType)
        op.properties[SEGMENTS] = DenseArrayBase.from_list(sizes.elt_type, counts)

    return drop


EDITS: tuple[Edit, ...] = (
    Edit("functions", _symbols, _removing()),
    Edit("ops", _ops, _removing(_operand, _constant, _earlier)),
    Edit("ops", _ops, _removing(_constant, _earlier)),
    Edit("ops", _ops, _removing(_earlier, _constant)),
    Edit("conditions", _with_bodies, _inlining(0), at_once=False),
    Edit("conditions", _with_bodies, _inlining(1), at_once=False),
    Edit("results", _carrying, _drop_values),
    Edit("carried values", _carrying, _drop_carried),
    Edit("operands", _with_optional_operands, _dropping_operands(1)),
    Edit("operands", _with_optional_operands, _dropping_operands(2)),
    Edit("operands", _with_optional_operands, _dropping_operands(3)),
    Edit("arguments", _with_arguments, _dropping_arguments(_nothing)),
    Edit("arguments", _with_arguments, _dropping_arguments(_first_of_its_type)),
    Edit("arguments", _with_arguments, _dropping_arguments(_zero_at_start)),
)
"""In the order in which they are tried: what takes out most comes first."""
