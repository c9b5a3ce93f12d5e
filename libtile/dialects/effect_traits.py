# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the ops of all three dialects do besides computing their results, as traits of their declarations.

Every op has one of the effects, or xDSL's `Pure` (nothing), or `RecursiveMemoryEffect` (what the ops of its regions
do), so that passes ask `effects_of(op)` and know no names. Terminators and symbols are kept for what they
are. Ops of cuda_tile name the traits in spec/. What else passes ask of ops stands in `dialects.interfaces`.

As in MLIR an effect says on which resource it is (`Memory`), and, where one value names all that it touches, by which
value. Effects of different resources never meet; one without a resource meets all: so has whatever orders the accesses
of others, waits, or goes on behind its op (asynchronous copies), since it holds accesses of any memory where they are.
MLIR's stages, which order the effects of one op among themselves, have no use here: no pass takes an op apart by them.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cache

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.traits import (
    DefaultResource,
    EffectInstance,
    IsTerminator,
    MemoryEffect,
    MemoryEffectKind,
    NoMemoryEffect,
    OpTrait,
    Pure,
    Resource,
    get_effects,
)

from libtile.support.records import dataclass

Effects = Set[EffectInstance]

_READ, _WRITE = MemoryEffectKind.READ, MemoryEffectKind.WRITE
NOTHING: Effects = frozenset()
ANYTHING: Effects = frozenset({EffectInstance(_READ), EffectInstance(_WRITE)})


def effects_of(op: Operation) -> Effects | None:
    """The effects of an op; None where they are not known.

    What xDSL's `get_effects` gives; but of most ops the class says that there are none, which is found out once.
    """
    return NOTHING if _has_none(type(op)) else get_effects(op)


def only_computes(op: Operation) -> bool:
    """Whether an op does nothing but compute its results where it stands, as divisions do: it ends no block, and has no
    region."""
    if op.regions or _is_terminator(type(op)):
        return False
    return _has_none(type(op)) or get_effects(op) == NOTHING


@cache
def _has_none(cls: type[Operation]) -> bool:
    """Whether no op of a class has an effect, whatever else there is to it."""
    traits = cls.get_traits_of_type(MemoryEffect)  # type: ignore[type-abstract]
    return bool(traits) and all(type(trait) in (NoMemoryEffect, Pure) for trait in traits)


@cache
def _is_terminator(cls: type[Operation]) -> bool:
    return cls.has_trait(IsTerminator)


# -- resources --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Memory(Resource):
    """Memory that no other resource has a part in."""

    title: str

    def name(self) -> str:
        return self.title


GLOBAL, SHARED, TENSOR = Memory("global memory"), Memory("shared memory"), Memory("tensor memory")
BARRIERS = Memory("barriers")
"""What agents meet and count by: barrier objects, the places of pipelines, turns of queues."""
_SPACES = {"global": GLOBAL, "shared": SHARED, "tmem": TENSOR}
_OF_BARRIERS = ("nv_tileas.mbarrier", "nv_tileas.pipeline", "nv_tileas.pipeline_iterator", "nv_tileaa.queue")
_BUFFER = "nv_tileas.buffer"
"""The type of storage for a tile."""


def is_storage(value: SSAValue) -> bool:
    """Whether a value is storage for a tile, and not a tile itself."""
    return value.type.name == _BUFFER


def resource_of(value: SSAValue) -> Resource | None:
    """The memory that a value of its type names, or lies in; None where the type does not say (tiles, numbers)."""
    if is_storage(value):
        return _SPACES.get(value.type.space)  # type: ignore[attr-defined]
    return BARRIERS if value.type.name in _OF_BARRIERS else None


# -- loads and stores -------------------------------------------------------------------------------------------------


class ReadsMemory(MemoryEffect):
    """A load of global memory, nobody says which: it can go when nobody wants its value, unless others can tell, as it
    is ordered or volatile."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return frozenset({EffectInstance(_READ, accessed(op), GLOBAL)}) if is_weak(op) else ANYTHING


@dataclass(frozen=True)
class ReadsThrough(ReadsMemory):
    """A load of the memory that the operand group `memory` names: pointers, or a view."""

    memory: str


def is_weak(op: Operation) -> bool:
    """Whether only the tile block can tell that and when an access happens: it is neither ordered nor volatile."""
    return _semantic(op) == "weak" and _orders_nothing(op)


def _orders_nothing(op: Operation) -> bool:
    """Whether an access orders others by nothing but tokens: a weak one, or a relaxed one such as an atomic."""
    return _semantic(op) in ("weak", "relaxed") and "is_volatile" not in op.properties


def _semantic(op: Operation) -> str:
    said = op.properties.get("memory_ordering_semantics", op.properties.get("mem_semantic"))
    return "weak" if said is None else getattr(said, "keyword", "")


class Observable(MemoryEffect):
    """Writes, orders, waits, prints, or calls what does: it stays, where it is, as often as it is there."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return ANYTHING


@dataclass(frozen=True)
class WritesThrough(Observable):
    """A store to the memory that the operand group `memory` names: pointers, or a view."""

    memory: str

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return frozenset({EffectInstance(_WRITE, accessed(op), GLOBAL)}) if is_weak(op) else ANYTHING


@dataclass(frozen=True)
class UpdatesThrough(Observable):
    """An atomic access of the memory that the operand group `memory` names, which reads and writes it in one step."""

    memory: str

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        if not _orders_nothing(op):
            return ANYTHING
        return frozenset(EffectInstance(kind, accessed(op), GLOBAL) for kind in (_READ, _WRITE))


@dataclass(frozen=True)
class ReadsLater(Observable):
    """A copy out of the memory that the operand group `memory` names, which goes on behind the op."""

    memory: str


_Accesses = ReadsThrough | WritesThrough | UpdatesThrough | ReadsLater


def accessed(op: Operation) -> SSAValue | None:
    """The pointers, the memref or the view that names the memory that an op accesses; None for one that does something
    else, whose memory no single value names, or that lacks the operand: effects are asked of ops that do not verify as
    well (`debugging.reduction` makes many)."""
    trait = _access_of(type(op))
    try:
        value: SSAValue | None = None if trait is None else getattr(op, trait.memory)
    except IndexError:
        return None
    return value


@cache
def _access_of(cls: type[Operation]) -> _Accesses | None:
    return next((trait for trait in cls.traits if isinstance(trait, _Accesses)), None)


def names_memory(cls: type[Operation]) -> bool:
    """Whether ops of a class access memory that an operand names."""
    return _access_of(cls) is not None


@cache
def reads_only(cls: type[Operation]) -> bool:
    """Whether ops of a class do nothing to the memory that they name but read it, now or later."""
    return isinstance(_access_of(cls), ReadsThrough | ReadsLater)


def only_loads(op: Operation) -> bool:
    """Whether an op is a weak load: it may be done once for several, or early, where nothing writes what it reads."""
    return isinstance(_access_of(type(op)), ReadsThrough) and is_weak(op)


def is_plain_access(op: Operation) -> bool:
    """Whether an op accesses memory that it names, here and now, and orders others by nothing but tokens: it is weak,
    or relaxed as an atomic is."""
    trait = _access_of(type(op))
    return trait is not None and not isinstance(trait, ReadsLater) and _orders_nothing(op)


# -- whether effects meet ---------------------------------------------------------------------------------------------


def meet(one: EffectInstance, other: EffectInstance) -> bool:
    """Whether two effects may be on the same resource."""
    anywhere = DefaultResource()
    return one.resource == other.resource or anywhere in (one.resource, other.resource)


# -- storage, and what has an identity of its own ---------------------------------------------------------------------


class Allocates(MemoryEffect):
    """Makes something with an identity of its own: two are never one, and one that nobody uses can go."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return frozenset(
            EffectInstance(MemoryEffectKind.ALLOC, result, resource_of(result) or GLOBAL) for result in op.results
        )


class AlwaysReturns(OpTrait):
    """An op with an effect behind which the program goes on for certain: it does not stop it, nor wait for ever."""


class ReadsOrWrites(MemoryEffect):
    """A copy: into its destination, or (without one) a read of its source."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        if getattr(op.properties.get("atom"), "kind", None) in _GOES_ON:
            return ANYTHING
        source, *into = op.operands
        reads = _of_storage(_READ, source) if is_storage(source) else NOTHING
        return reads | frozenset().union(*(_of_storage(_WRITE, value) for value in into))


_GOES_ON = ("tcgen05_cp",)
"""Atoms of copies that are not over when their op is."""


def _of_storage(kind: MemoryEffectKind, storage: SSAValue) -> Effects:
    return frozenset({EffectInstance(kind, storage, resource_of(storage) or DefaultResource())})


class MayDraw(Allocates):
    """Makes an iterator of its own; one of turns that are drawn takes a turn from all others, and waits for it."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return ANYTHING if "drawn" in op.properties else super().get_effects(op)


class ChangesDestination(MemoryEffect):
    """Replaces a part of its destination: it gives another tile, or writes the storage that it was given."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        writes = any(map(is_storage, op.results))
        source, into, *_ = op.operands
        reads = (value for value in (source, into) if is_storage(value))
        found = frozenset().union(*(_of_storage(_READ, value) for value in reads))
        return found | _of_storage(_WRITE, into) if writes else found


class PureIfSaid(MemoryEffect):
    """Foreign code, which does nothing but compute when its `pure` says so."""

    @classmethod
    def get_effects(cls, op: Operation) -> Effects:
        return NOTHING if isinstance(op.properties.get("pure"), UnitAttr) else ANYTHING
