# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`attach-tma-descriptor-args`: kernels get their descriptors as arguments.

Counts the descriptors that the device and the host make, records both on the function, and appends one argument per
host descriptor, in the order of `tmaIdx`, which replaces the op that named it. The arguments are grid constants (they
lie in parameter memory) and hidden: a launch passes the kernel's own arguments only.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.tma import TmaOp
from libtile.dialects.nv_tileas.types import TmaDescType
from libtile.ir.module_pass import ModulePass
from libtile.ir.places import ops_of
from libtile.ir.tile_form import erase
from libtile.lowering.tileas.copies.common import (
    GRID_CONSTANT,
    HIDDEN,
    HOST_CODE,
    NUM_DEVICE,
    NUM_HOST,
    append_argument,
    count_attribute,
    descriptors,
    fail,
    functions,
    index_of,
    is_on_device,
    set_count,
)
from libtile.support.records import dataclass


@dataclass(frozen=True)
class AttachTmaDescriptorArgsPass(ModulePass):
    """Append the host's descriptors to the arguments of kernels.

    With `recount` false, the counts that the function records are taken (and must be there).
    """

    name = "attach-tma-descriptor-args"

    recount: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if function.is_entry and HOST_CODE not in function.attributes:
                _attach(function, self.recount)


def check_indices(function: FuncOp) -> tuple[int, int]:
    """The counts (device, host) that the function records; DiagnosticError when an index does not fit them."""
    device, host = count_attribute(function, NUM_DEVICE), count_attribute(function, NUM_HOST)
    if device is None or host is None:
        fail(function, "funcOp lack tmaDeviceNum and tmaHostNum attr")
    for op in descriptors(function):
        index = index_of(op)
        if index is None:
            fail(op, "not find tmaIdx.")
        if is_on_device(op):
            if index >= device:
                fail(op, "tmaIdx exceed tmaDeviceNum.")
        elif index >= host:
            fail(op, "tmaIdx exceed tmaHostNum.")
    for use in ops_of(function, TmaOp):
        if index_of(use) is None:
            fail(use, "not find tmaIdx.")
    return device, host


def _attached(function: FuncOp) -> int:
    """How many descriptors are arguments already."""
    return sum(isinstance(argument.type, TmaDescType) for argument in function.body.block.args)


def _attach(function: FuncOp, recount: bool) -> None:
    found = descriptors(function)
    if recount:
        for name, on_device in ((NUM_DEVICE, True), (NUM_HOST, False)):
            indices = {index_of(op) for op in found if is_on_device(op) == on_device}
            attached = 0 if on_device else _attached(function)
            set_count(function, name, len(indices) + attached)
    _, host = check_indices(function)
    arguments: dict[int, SSAValue] = {}
    for index in range(host):
        named = [op for op in found if not is_on_device(op) and index_of(op) == index]
        if named:
            arguments[index] = append_argument(function, named[0].results[0].type, GRID_CONSTANT, HIDDEN)
    for op in found:
        number = index_of(op)
        if number is not None and not is_on_device(op):
            op.results[0].replace_all_uses_with(arguments[number])
            erase(op)
