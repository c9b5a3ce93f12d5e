# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How regions of nv_tileaa end, and what their ops have one of per region."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, FunctionType, IntegerAttr, i1
from xdsl.ir import Block
from xdsl.irdl import operand_def, traits_def, var_operand_def
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.effect_traits import Observable
from libtile.dialects.interfaces import EndsFunction, EndsRegion
from libtile.ir.tile_form import TileOp, tile_op, type_text

YIELD = "nv_tileaa.yield"
RETURN = "nv_tileaa.return"
FUNC = "nv_tileaa.func"


def check_region_ends(op: TileOp, terminator: str = YIELD) -> None:
    """Every region that is not empty ends with the terminator."""
    for region in op.regions:
        for block in region.blocks:
            last = block.last_op
            if last is None or last.name != terminator:
                raise VerifyException(f"expects regions to end with '{terminator}'")


def check_agent_entries(op: TileOp, *names: str) -> None:
    """Attributes with an entry for each agent have as many as there are regions; VerifyException."""
    for name in names:
        entries = op.properties.get(name)
        if not isinstance(entries, ArrayAttr):
            continue
        if len(entries.data) != len(op.regions):
            raise VerifyException(f"expects {len(op.regions)} entries in {name}, but got {len(entries.data)}")
        if not all(isinstance(entry, IntegerAttr) for entry in entries.data):
            raise VerifyException(f"expects integers in {name}, but got {entries}")
    _check_agents(op)


def require_agents(op: TileOp) -> None:
    """There is a region at least, and each of them has one block; VerifyException."""
    if not op.regions:
        raise VerifyException("expects one agent at least")
    for number in range(len(op.regions)):
        only_block(op, number)


MAX_WARPS = 32
"""Of a CTA, which has up to 1024 threads on every target (CUDA C++ Programming Guide, "Compute Capabilities")."""
MIN_REGISTERS, MAX_REGISTERS, REGISTER_STEP = 24, 256, 8
"""What a thread of an agent may be given (PTX ISA, "setmaxnreg")."""


def _check_agents(op: TileOp) -> None:
    """Agents have warps, budgets that a thread can have, and ids of their own; VerifyException."""
    warps, registers, ids = (_numbers(op, f"agent_{what}") for what in ("warps", "registers", "ids"))
    for count in warps:
        if count < 1:
            raise VerifyException(f"expects agents of at least one warp, but got {count}")
    if sum(warps) > MAX_WARPS:
        raise VerifyException(f"expects agents of {MAX_WARPS} warps at most, which a CTA has, but got {sum(warps)}")
    for flag in _numbers(op, "agent_elected"):
        if flag not in (0, 1):
            raise VerifyException(f"expects agent_elected to be 0 or 1, but got {flag}")
    for budget in registers:
        if not MIN_REGISTERS <= budget <= MAX_REGISTERS or budget % REGISTER_STEP:
            raise VerifyException(
                f"expects agent_registers that are a multiple of {REGISTER_STEP} from {MIN_REGISTERS} to "
                f"{MAX_REGISTERS}, but got {budget}"
            )
    for number in ids:
        if number < 0 or ids.count(number) > 1:
            raise VerifyException(f"expects agents with ids of their own, but got {ids}")


def _numbers(op: TileOp, name: str) -> list[int]:
    entries = op.properties.get(name)
    if not isinstance(entries, ArrayAttr):
        return []
    return [entry.value.data for entry in entries.data if isinstance(entry, IntegerAttr)]


def only_block(op: TileOp, index: int = 0) -> Block:
    """The one block of a region; VerifyException when there is none, or more than one."""
    region = op.regions[index]
    block = region.first_block
    if block is None or block is not region.last_block:
        raise VerifyException(f"expects region #{index} to have 1 block")
    return block


def require_parent_function(op: TileOp) -> None:
    """The op is (at any depth) inside of a function."""
    parent = op.parent_op()
    while parent is not None:
        if parent.name == FUNC:
            return
        parent = parent.parent_op()
    raise VerifyException(f"expects parent op '{FUNC}'")


@tile_op
class YieldOp(TileOp):
    """Ends a region, and hands its values to the op around it. It stands inside of a function."""

    name = YIELD
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure(), EndsRegion())

    def check(self) -> None:
        require_parent_function(self)


@tile_op
class ReturnOp(TileOp):
    """Ends a function, and returns its results."""

    name = RETURN
    values = var_operand_def()
    traits = traits_def(IsTerminator(), EndsFunction())

    def check(self) -> None:
        parent = self.parent_op()
        if parent is None or parent.name != FUNC:
            raise VerifyException(f"expects parent op '{FUNC}'")
        type_ = parent.properties.get("function_type")
        if isinstance(type_, FunctionType) and tuple(v.type for v in self.values) != tuple(type_.outputs.data):
            raise VerifyException("expects operands of the function's result types")


@tile_op
class ReturnIfOp(TileOp):
    """Ends a kernel where a condition holds, which is the same for all threads of a block.

    It stands in the kernel itself, in front of its agents, so that all that they do is in no branch.
    """

    name = "nv_tileaa.return_if"
    condition = operand_def()
    traits = traits_def(Observable())

    def check(self) -> None:
        if self.condition.type != i1:
            raise VerifyException(f"expects a condition of i1, but got {type_text(self.condition.type)}")
        parent = self.parent_op()
        if parent is None or parent.name != FUNC or parent.properties.get("kernel_spec") is None:
            raise VerifyException("expects to stand in a kernel itself")
