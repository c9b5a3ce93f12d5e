# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimization hints as the lowering takes them: which of an op's hold for a target, with the values that are used.

The lowering reads its hints here, and so do the remarks about them: what is said to be used is what is used. Hints for
the target itself win over those for `default`; a value out of range is clamped to the nearest (Tile IR specification,
"Optimization hints").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.attributes import OptimizationHintsAttr
from libtile.dialects.cuda_tile.locations import source_location
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.cuda_tile.types import GatherScatterViewType, i1
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.types import TiledViewType
from libtile.ir.places import ops_of
from libtile.lowering.agents import has_agents
from libtile.lowering.discardable import FEWER_BLOCKS, NOT_CLUSTERED, WORKER_WARPS, is_foreign
from libtile.spec import default_spec
from libtile.support import remarks
from libtile.support.records import dataclass
from libtile.targets import Target

DEFAULT = "default"
_DECLARED = default_spec().hints
MOST = {name: hint.most for name, hint in _DECLARED.items() if hint.most is not None}
"""The largest value of each integer hint; the smallest is 1."""
POWERS = tuple(name for name, hint in _DECLARED.items() if hint.powers_of_two)
"""Hints that are powers of two."""

CLUSTER, OCCUPANCY, WORKERS = "num_cta_in_cga", "occupancy", "num_worker_warps_per_cta"
"""How many CTAs run a tile block together, how many of them a multiprocessor is to hold, and the warps that compute."""
_UNMET = {NOT_CLUSTERED: CLUSTER, FEWER_BLOCKS: OCCUPANCY}
"""Which attribute of a kernel says that it is not for what which hint asks for."""
_STORES = (OPS["store_view_tko"], OPS["store_ptr_tko"])


@dataclass(frozen=True)
class Hint:
    """A hint of an op: for which architecture (or `default`) it is given, and the value that is used, None when the
    given one is of no use."""

    architecture: str
    key: str
    given: Attribute
    value: int | None

    @property
    def number(self) -> int | None:
        """The integer that is given; None for something else."""
        return int(self.given.value.data) if isinstance(self.given, IntegerAttr) else None

    @property
    def attribute(self) -> Attribute:
        """The value that is used, of the given one's type."""
        assert isinstance(self.given, IntegerAttr) and self.value is not None
        return (
            self.given
            if self.value == self.number or self.key not in MOST
            else IntegerAttr(self.value, self.given.type)
        )


def chosen_hints(op: CudaTileOp, target: Target) -> list[Hint]:
    """The hints of an op that hold for a target: each key once."""
    given = op.properties.get("optimization_hints")
    if not isinstance(given, OptimizationHintsAttr):
        return []
    found = {}
    for architecture in (DEFAULT, target.name):
        for key, value in given.hints.get(architecture, {}).items():
            found[key] = Hint(architecture, key, value, _usable(key, value, target))
    return list(found.values())


def _usable(key: str, given: Attribute, target: Target) -> int | None:
    if not isinstance(given, IntegerAttr):
        return None
    number = int(given.value.data)
    if given.type == i1:
        return abs(number)
    most = MOST.get(key)
    if most is None:
        return number
    if key == CLUSTER and not target.has("cluster"):
        most = 1
    number = max(min(number, most), 1)
    return None if key in POWERS and number & (number - 1) else number


def hint_remarks(module: Operation, target: Target, schedule: str = "") -> Iterator[remarks.Remark]:
    """What became of each hint of the kernels of a `cuda_tile.module`, with a schedule of the compilation's, and of
    attributes that their ops do not have."""
    for entry in ops_of(module, OPS["entry"]):
        function = str(entry.attribute_value("sym_name"))
        yield from _parameters(entry, function)
        for op in ops_of(entry, CudaTileOp):
            if op.properties.get("optimization_hints") is not None:
                yield from _of(op, function, target, schedule)
            if op.attributes:
                yield from _unknown_attributes(op, function)


def _parameters(entry: CudaTileOp, function: str) -> Iterator[remarks.Remark]:
    """Remarks about what an entry says of its parameters, which only attributes of ops (`assume`) tell the compiler."""
    given = entry.properties.get("arg_attrs")
    for number, one in enumerate(given.data if isinstance(given, ArrayAttr) else ()):
        for name, value in one.data.items() if isinstance(one, DictionaryAttr) else ():
            if not is_foreign(name):
                yield remarks.parameter_ignored(function, source_location(entry.location), number, name, str(value))


def _unknown_attributes(op: CudaTileOp, function: str) -> Iterator[remarks.Remark]:
    """Remarks about attributes that the op does not declare; those with the name of a dialect are for its passes."""
    for name, value in op.attributes.items():
        if "." not in name:
            reason = f"'{op.name}' has no such attribute"
            yield remarks.attribute_ignored(function, source_location(op.location), name, str(value), reason)


def without_unmet(found: Iterable[remarks.Remark], module: ModuleOp) -> Iterator[remarks.Remark]:
    """The remarks of `hint_remarks` when it is known what kernels of a lowered module are not for, and why: clusters,
    or as many blocks of a multiprocessor. One of nv_tileaa asks for these without a hint."""
    reasons = {
        (op.sym_name.data, key): reason.data
        for op in module.body.block.ops
        for attribute, key in _UNMET.items()
        if isinstance(op, FuncOp) and isinstance(reason := op.attributes.get(attribute), StringAttr)
    }
    reasons |= {
        (op.sym_name.data, WORKERS): f"{op.kernel_spec.num_warps} warps compute its products"
        for op in module.body.block.ops
        if isinstance(op, FuncOp) and op.kernel_spec is not None
        and isinstance(asked := op.attributes.get(WORKER_WARPS), IntegerAttr)
        and asked.value.data != op.kernel_spec.num_warps
    }  # fmt: skip
    said = set()
    for remark in found:
        key = remark.message.rpartition(" ")[2] if remark.kind is remarks.Kind.PASSED else ""
        if (why := reasons.get((remark.function, key))) is not None:
            said.add((remark.function, key))
            yield remarks.hint_ignored(remark.function, remark.location, key, why)
        else:
            yield remark
    for (function, key), why in reasons.items():
        if (function, key) not in said:
            yield remarks.hint_ignored(function, None, key, why)


def _of(op: CudaTileOp, function: str, target: Target, schedule: str) -> Iterator[remarks.Remark]:
    place, chosen = source_location(op.location), chosen_hints(op, target)
    for hint in chosen:
        if hint.value is None:
            yield remarks.hint_incorrect(function, place, hint.key)
            continue
        if hint.number != hint.value and hint.key in MOST:
            name = f"{target.name}.{hint.key}"
            yield remarks.hint_out_of_range(function, place, name, hint.number or 0, hint.value)
        if reason := _ignored(op, hint, target, schedule):
            yield remarks.hint_ignored(function, place, hint.key, reason)
        elif hint.number == hint.value or hint.key not in MOST:
            yield remarks.hint_used(function, place, hint.key, default=hint.architecture == DEFAULT)
    given = op.properties.get("optimization_hints")
    held = {hint.key for hint in chosen}
    if isinstance(given, OptimizationHintsAttr):
        for architecture, keys in given.hints.items():
            for key in keys:
                if key not in held:
                    reason = f"it is for {architecture}, and the target is {target.name}"
                    yield remarks.hint_ignored(function, place, key, reason)


def _copies_by_tma(target: Target, schedule: str) -> bool:
    """Whether loads may become copies by TMA, if the producer of a loop does them."""
    return schedule == "specialized" and has_agents(target)


def _tma_ignored(stores: bool, by_rows: bool, target: Target, schedule: str) -> str:
    """Why an access that asks for TMA is surely not done by it: chosen rows are copied wherever they stand, others by
    the producer of a loop."""
    if by_rows and schedule == "specialized":
        mode = "scatter4" if stores else "gather4"
        return "" if target.has(f"tma_{mode}") else f"{target.name} has no {mode}"
    return remarks.NO_TENSOR_MAPS if stores or not _copies_by_tma(target, schedule) else ""


def _ignored(op: CudaTileOp, hint: Hint, target: Target, schedule: str) -> str:
    """Why a hint that holds is not used; empty when it is."""
    by_rows = any(isinstance(value.type, GatherScatterViewType) for value in op.operands)
    return _not_taken(hint.key, op.spec.name, op.name) or _unused(
        hint, isinstance(op, _STORES), by_rows, target, schedule
    )


def _not_taken(key: str, kind: str, name: str) -> str:
    """Why an op of a kind, by its name in Tile IR, does not take a hint; `name` is that of the op itself."""
    declared = _DECLARED.get(key)
    if declared is None:
        return "it is not known"
    return "" if kind in declared.ops else f"it is no hint of {name}"


def _unused(hint: Hint, stores: bool, by_rows: bool, target: Target, schedule: str) -> str:
    """Why a hint that an op takes is not used; empty when it is."""
    if hint.key == "allow_tma" and hint.value:
        return _tma_ignored(stores, by_rows, target, schedule)
    if hint.key == "latency" and stores:
        return "stores are not started iterations ahead"
    if hint.key == "latency" and schedule == "serial":
        return "the schedule is 'serial'"
    return ""


# -- modules that are in an inner dialect from the start --------------------------------------------------------------

_KINDS = {
    "load": "load_ptr_tko", "store": "store_ptr_tko", "gather_load": "load_ptr_tko", "scatter_store": "store_ptr_tko",
    "tiled_load": "load_view_tko", "tiled_store": "store_view_tko",
}  # fmt: skip
"""By the name of an access in nv_tileaa and nv_tileas, what it is in Tile IR; others take no hints."""


def inner_hint_remarks(module: ModuleOp, target: Target, schedule: str = "") -> Iterator[remarks.Remark]:
    """What becomes of each hint of accesses in a module that is in an inner dialect from the start, which are all for
    its target."""
    for function in module.walk():
        if isinstance(function, FuncOp):
            for op in ops_of(function):
                if isinstance(hints := op.properties.get("hints"), DictionaryAttr):
                    for key, given in hints.data.items():
                        yield _of_access(op, Hint(target.name, key, given, _usable(key, given, target)),
                                         function.sym_name.data, target, schedule)  # fmt: skip


def _of_access(op: Operation, hint: Hint, function: str, target: Target, schedule: str) -> remarks.Remark:
    place, kind = source_location(op.location), _KINDS.get(op.name.rpartition(".")[2], "")
    if reason := _not_taken(hint.key, kind, op.name):
        return remarks.hint_ignored(function, place, hint.key, reason)
    if hint.value is None:
        return remarks.hint_incorrect(function, place, hint.key)
    by_rows = any(isinstance(v.type, TiledViewType) and v.type.layout.sparse_dim is not None for v in op.operands)
    if reason := _unused(hint, kind.startswith("store"), by_rows, target, schedule):
        return remarks.hint_ignored(function, place, hint.key, reason)
    if hint.number != hint.value and hint.key in MOST:
        return remarks.hint_out_of_range(function, place, hint.key, hint.number or 0, hint.value)
    return remarks.hint_used(function, place, hint.key, default=False)
