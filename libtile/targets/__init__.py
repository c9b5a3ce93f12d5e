# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each GPU target can do, as data: limits, features, tensor-core atoms (see `targets.toml`).

Code asks `target.has("stmatrix")` or `target.mma("f16", "f16", "f32")`; it never compares architecture numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from libtile.support import declarations
from libtile.support.errors import LibtileError
from libtile.support.records import dataclass, field
from libtile.support.threads import SHARED, once

TRIPLE = "nvptx64-nvidia-cuda"
"""LLVM's name of every target here."""

DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""How LLVM lays out data for them (LLVM's NVPTX target machine)."""


MMA_SYNC = "mma_sync"
"""The family of matrix instructions of rows that name none."""
MMA_BLOCK_SCALE = "mma_block_scale"
"""The family of those that take scale factors of their operands."""


class UnknownTargetError(LibtileError):
    """A GPU name that no target has; the message lists those there are."""


@dataclass(frozen=True, slots=True)
class MmaAtom:
    """One matrix instruction: `d (m x n) = a (m x k) * b (k x n) + c`, types in PTX's spelling.

    `family` names the modules that know it; `kind` is the `.kind::` qualifier that the instruction needs, or empty.
    Instructions are not told apart by `tensor_cores`, whether these execute it, and `since`, the first target with it.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    kind: str = ""
    family: str = MMA_SYNC
    tensor_cores: bool = field(default=True, compare=False)
    since: int = field(default=80, compare=False)


@dataclass(frozen=True, slots=True)
class WgmmaFamily:
    """The wgmma.mma_async instructions of one depth `k` and these types, which have 64 rows and so many `columns`.

    `transposed` are the bytes of atoms of swizzles under which operands in shared memory need not be contiguous along
    k, `since` is the first target that has them.
    """

    k: int
    a: str
    b: str
    d: str
    columns: tuple[int, ...]
    transposed: tuple[int, ...]
    since: int


@dataclass(frozen=True, slots=True)
class Tcgen05Family:
    """The tcgen05.mma instructions of a `kind`, a depth `k` and these types, with any of the numbers of `rows` of one
    CTA, or of `pair_rows` of a pair of CTAs, and of `columns`. `transposed` and `since` are as of wgmma. Of those with
    scale factors, `block` elements along k have one, which is of one of the types `factors` (libtile's names)."""

    kind: str
    rows: tuple[int, ...]
    pair_rows: tuple[int, ...]
    k: int
    a: str
    b: str
    d: str
    columns: tuple[int, ...]
    transposed: tuple[int, ...]
    since: int
    block: int = 0
    factors: tuple[str, ...] = ()


@dataclass(frozen=True)
class UnusedTensorCore:
    """A tensor-core instruction that is not generated; `operands` are PTX's names of the types that each may have."""

    instruction: str
    operands: frozenset[str]
    scaled: bool = False


@dataclass(frozen=True)
class Target:
    """A GPU target. Sizes are bytes; `shared_per_block` is the most one CTA can have.

    `parameters_at` is where a kernel's parameters begin in the constant bank.
    `ptx_version` is the first PTX version that knows the target, None when every kernel's does; `llvm_cpu` the target
    that LLVM makes code for, None when it knows this one.
    """

    name: str
    number: int
    ptx_target: str
    warp_size: int
    threads_per_block: int
    registers_per_thread: int
    registers_per_sm: int
    barriers: int
    banks: int
    clusters: int
    parameters_at: int
    warps_per_sm: int
    shared_per_block: int
    shared_per_sm: int
    features: frozenset[str]
    mma_atoms: tuple[MmaAtom, ...] = field(repr=False)
    tensor_memory: int = 0
    ptx_version: str | None = None
    llvm_cpu: str | None = None
    made_of: dict[MmaAtom, MmaAtom] = field(repr=False, default_factory=dict)
    unused_tensor_cores: tuple[UnusedTensorCore, ...] = field(repr=False, default=())
    wgmma_families: tuple[WgmmaFamily, ...] = field(repr=False, default=())
    tcgen05_families: tuple[Tcgen05Family, ...] = field(repr=False, default=())

    def has(self, feature: str) -> bool:
        """Whether the target has a feature; KeyError for a feature that is not declared."""
        if feature not in _declared()["features"]:
            raise KeyError(feature)
        return feature in self.features

    def mma(self, a: str, b: str, d: str, family: str = MMA_SYNC) -> tuple[MmaAtom, ...]:
        """The family's atoms for these operand and result types, those with the largest k first; empty when there is
        none."""
        found = [atom for atom in self.mma_atoms if (atom.a, atom.b, atom.d, atom.family) == (a, b, d, family)]
        return tuple(sorted(found, key=lambda atom: (bool(atom.kind), -atom.k, -atom.m)))

    def wgmma(self, a: str, b: str, d: str) -> WgmmaFamily | None:
        """The wgmma.mma_async instructions for these operand and result types; None when there are none."""
        return next((f for f in self.wgmma_families if (f.a, f.b, f.d) == (a, b, d)), None)

    def tcgen05(self, a: str, b: str, d: str) -> Tcgen05Family | None:
        """The tcgen05.mma instructions without scale factors for these operand and result types; None when there are
        none."""
        return next((f for f in self.tcgen05_families if (f.a, f.b, f.d, f.block) == (a, b, d, 0)), None)

    def tcgen05_scaled(self, a: str, b: str, factors: str, block: int) -> Tcgen05Family | None:
        """The tcgen05.mma instructions that sum in f32 for these operand types, with a factor of an element type for
        each `block` elements along k; None when there are none."""
        found = (f for f in self.tcgen05_families if (f.a, f.b, f.block) == (a, b, block))
        return next((f for f in found if factors in f.factors), None)

    def executed(self, atom: MmaAtom) -> MmaAtom:
        """What the hardware executes for an atom: the target's own one, or the one that ptxas makes it of. KeyError for
        an atom that the target has not."""
        own = next((known for known in self.mma_atoms if known == atom), None)
        if own is None:
            raise KeyError(f"{self.name} has no {atom}")
        return self.made_of.get(own, own)

    def unused_tensor_core(self, a: str, b: str, *, scaled: bool = False) -> str | None:
        """The instruction beside mma.sync that would take operands of these types; None when there is none."""
        for unused in self.unused_tensor_cores:
            if unused.scaled == scaled and {a, b} <= unused.operands:
                return unused.instruction
        return None


@dataclass(frozen=True)
class Sustained:
    """What measured launches reached on a GPU: `shares` of the peaks by the names of an estimate's rows, and `l2` bytes
    a second to and from L2. `measured` says of what and where. Half of these launches took within `error` of the time
    that this gives, all within `worst`: 0.1 where one of the two times is 10% above the other."""

    measured: str
    error: float
    worst: float
    l2: float
    shares: Mapping[str, float]


@dataclass(frozen=True)
class Machine:
    """What a GPU of a target can do: rates are per second, those of `fp32`, `fp64` and `special` results a clock of
    each of its `sms`. `tensor` has operations per second by kind of operand; see `targets.toml` for the sources."""

    name: str
    sms: int
    clock: float
    bandwidth: float
    tensor: Mapping[str, float]
    fp32: int
    fp64: int
    special: int
    sustained: Sustained | None = None

    partitions = 4
    """Parts of an SM, each of which issues an instruction of a warp in a clock."""

    def products(self, operands: str, results: str) -> float | None:
        """Operations a second of tensor cores by kind of operands and of results; None where no rate is known."""
        return self.tensor.get(f"{operands}.{results}", self.tensor.get(operands))


@once
def machines() -> dict[str, Machine]:
    """The GPUs whose rates are known, by target."""
    return {name: _machine(**record) for name, record in _declared()["machine"].items()}


def _machine(sustained: Mapping[str, Any] | None = None, **record: Any) -> Machine:
    return Machine(**record, sustained=None if sustained is None else Sustained(**sustained))


def machine(gpu_name: str) -> Machine:
    """The GPU that stands for a target; UnknownTargetError for a name that no target has, or of which no rates are
    known."""
    target(gpu_name)
    found = machines().get(gpu_name)
    if found is None:
        raise UnknownTargetError(f"no GPU's peaks are known for '{gpu_name}'; they are for {', '.join(machines())}")
    return found


@once
def _declared() -> dict[str, Any]:
    return declarations.read(os.path.join(os.path.dirname(__file__), "targets.toml"))


def _covers(ranges: list[str], number: int) -> bool:
    return any(number >= int(r[:-1]) if r.endswith("+") else number == int(r) for r in ranges)


def _first(ranges: list[str]) -> int:
    """The number of the oldest target of ranges."""
    return min(int(r.removesuffix("+")) for r in ranges)


def _atoms(number: int) -> tuple[MmaAtom, ...]:
    atoms = []
    for row in _declared()["mma"]:
        if not _covers(row["targets"], number):
            continue
        pairs = [(a, b) for a in row["operands"] for b in row["operands"] if a == b or row.get("mixed")]
        needed = set(row.get("one_of", row["operands"]))
        pairs = [pair for pair in pairs if needed & set(pair)]
        m, n, k = row["shape"]
        since = _first(row["targets"])
        given = {name: row[name] for name in ("kind", "family", "tensor_cores") if name in row}
        atoms += [MmaAtom(m, n, k, a, b, d, since=since, **given) for a, b in pairs for d in row["results"]]
    return tuple(atoms)


@once
def mma_families() -> tuple[str, ...]:
    """The families of instructions that multiply operands in registers, in the order in which they are asked."""
    return tuple(dict.fromkeys(row.get("family", MMA_SYNC) for row in _declared()["mma"]))


def _families(section: str, number: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows of a section for a target, each with the fields of one family after the other that it stands for."""
    for row in _declared()[section]:
        if not _covers(row["targets"], number):
            continue
        first, last, step = row["columns"]
        columns = tuple(sorted([*range(first, last + 1, step), *row.get("more_columns", [])]))
        transposed, since = tuple(row.get("transposed", ())), _first(row["targets"])
        for a, b in [(a, b) for a in row["operands"] for b in row["operands"] if a == b or row.get("mixed")]:
            for d in row["results"]:
                fields = {"k": row["k"], "a": a, "b": b, "d": d, "columns": columns}
                yield row, {**fields, "transposed": transposed, "since": since}


def _wgmma(number: int) -> tuple[WgmmaFamily, ...]:
    return tuple(WgmmaFamily(**fields) for _, fields in _families("wgmma", number))


def _tcgen05(number: int) -> tuple[Tcgen05Family, ...]:
    found = _families("tcgen05", number)
    return tuple(
        Tcgen05Family(
            row["kind"],
            tuple(row["rows"]),
            tuple(row.get("pair_rows", ())),
            block=row.get("block", 0),
            factors=tuple(row.get("factors", ())),
            **fields,
        )
        for row, fields in found
    )


def _made_of(number: int, atoms: tuple[MmaAtom, ...]) -> dict[MmaAtom, MmaAtom]:
    """The atoms that the hardware has not, with those that ptxas makes them of."""
    found = {}
    for row in _declared()["mma"]:
        other = row.get("made_of")
        if other is None or not _covers(other["targets"], number):
            continue
        for atom in atoms:
            if [atom.m, atom.n, atom.k] == row["shape"] and {atom.a, atom.b} <= set(row["operands"]):
                a, b = (other.get("operand", name) for name in (atom.a, atom.b))
                found[atom] = next(
                    x for x in atoms if ([x.m, x.n, x.k], x.a, x.b, x.d) == (other["shape"], a, b, atom.d)
                )
    return found


def _unused(number: int) -> tuple[UnusedTensorCore, ...]:
    rows = [row for row in _declared()["unused_tensor_core"] if _covers(row["targets"], number)]
    return tuple(UnusedTensorCore(r["instruction"], frozenset(r["operands"]), r.get("scaled", False)) for r in rows)


class Targets(Mapping[str, Target]):
    """All targets by name; each is made when it is first asked for, as a program asks for one of them."""

    def __init__(self) -> None:
        self._made: dict[str, Target] = {}

    def __getitem__(self, name: str) -> Target:
        found = self._made.get(name)
        if found is None:
            record = _declared()["target"][name]
            with SHARED:  # all threads have the same one
                found = self._made.get(name) or self._made.setdefault(name, _made(name, record))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_declared()["target"])

    def __len__(self) -> int:
        return len(_declared()["target"])


def _made(name: str, record: dict[str, Any]) -> Target:
    declared, number = _declared(), int(name.removeprefix("sm_"))
    features = frozenset(f for f, ranges in declared["features"].items() if _covers(ranges, number))
    fields = {**declared["defaults"], **record}
    atoms = _atoms(number)
    return Target(
        name=name, number=number, features=features, mma_atoms=atoms, made_of=_made_of(number, atoms),
        unused_tensor_cores=_unused(number), wgmma_families=_wgmma(number),
        tcgen05_families=_tcgen05(number), **fields,
    )  # fmt: skip


@once
def targets() -> Targets:
    """All targets by name (`"sm_90"`), oldest first."""
    return Targets()


def target(gpu_name: str) -> Target:
    """The target of a GPU name such as `"sm_90"`; UnknownTargetError when there is none."""
    found = targets().get(gpu_name)
    if found is None:
        raise UnknownTargetError(f"unknown GPU name '{gpu_name}'; known are {', '.join(targets())}")
    return found
