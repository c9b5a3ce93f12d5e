# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimization remarks: what the compiler did, missed or could not do, and where; their filters and their two formats.

A remark has a category (hints, memory, tensor-core), a kind (passed, missed, failed, analysis), a stable name, and
arguments. Warnings are remarks that no option filters; they have no category.
The names, wordings and both formats are those of the reference assembler 13.5, so that scripts which read its remarks
read these; the order of remarks is here that of their making, where the reference's changes from run to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from libtile.support.diagnostics import SourceLocation
from libtile.support.errors import visible
from libtile.support.records import dataclass


class Category(Enum):
    """What a remark is about; the value is how the output spells it."""

    NONE = ""
    HINTS = "Hints"
    MEMORY = "Memory"
    TENSOR_CORE = "Tensor-core"
    PASSES = "Passes"
    """What the passes over cuda_tile did to a program, whatever becomes of it: the reference has none of these."""


class Kind(Enum):
    """What became of the optimization; the value is how the command-line format spells it."""

    PASSED = "passed"
    MISSED = "missed"
    FAILED = "failed"
    ANALYSIS = "analysis"
    WARNING = "warning"


_YAML_TAG = {Kind.PASSED: "Passed", Kind.MISSED: "Missed", Kind.FAILED: "Failure", Kind.ANALYSIS: "Analysis"}
_YAML_TAG[Kind.WARNING] = "Analysis"  # LLVM's format has no warnings

OPTION_VALUES: dict[str, frozenset[Category]] = {
    "none": frozenset(),
    "all": frozenset(Category),
    "memory": frozenset({Category.MEMORY}),
    "tensorcore": frozenset({Category.TENSOR_CORE}),
    "passes": frozenset({Category.PASSES}),
}
"""The values of the options `--remarks` and `--remarks-KIND`, and the categories that each stands for."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One remark. `arguments` are pairs such as ("Shape", "[16, 8, 16]"); `function` is the entry's name."""

    category: Category
    kind: Kind
    name: str
    message: str
    function: str
    location: SourceLocation | None = None
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RemarkFilter:
    """Which categories are wanted, by kind. A remark is wanted when its category is, for its kind."""

    wanted: dict[Kind, frozenset[Category]]

    @staticmethod
    def from_options(remarks: str = "none", **by_kind: str) -> RemarkFilter:
        """The filter of the option values; `by_kind` are `passed=`, `missed=`, `failed=` and `analysis=`.

        The values add up: `--remarks=all --remarks-passed=none` wants all. KeyError for a value that no option has.
        """
        common = OPTION_VALUES[remarks]
        return RemarkFilter({kind: common | OPTION_VALUES[by_kind.get(kind.value, "none")] for kind in Kind})

    @property
    def enabled(self) -> bool:
        """Whether any remark is wanted."""
        return any(self.wanted.values())

    def select(self, remarks: Iterable[Remark]) -> list[Remark]:
        """The wanted remarks, in their order. Warnings are none: they are given in any case."""
        return [r for r in remarks if r.kind is not Kind.WARNING and r.category in self.wanted[r.kind]]


# -- remarks of passes ------------------------------------------------------------------------------------------------

_reported: ContextVar[list[Remark] | None] = ContextVar("libtile-remarks", default=None)


def are_collected() -> bool:
    """Whether somebody takes what passes report: a remark that takes work to make is made for nobody else."""
    return _reported.get() is not None


def report(remark: Remark) -> None:
    """Hand a remark of the pass that is at work to whoever collects them."""
    reported = _reported.get()
    if reported is not None:
        reported.append(remark)


@contextmanager
def collect() -> Iterator[list[Remark]]:
    """Collect what passes report in the body, in that order."""
    reported: list[Remark] = []
    token = _reported.set(reported)
    try:
        yield reported
    finally:
        _reported.reset(token)


# -- the remarks that the reference assembler gives -------------------------------------------------------------------


def _shape(shape: Sequence[int]) -> tuple[str, str]:
    return "Shape", f"[{', '.join(map(str, shape))}]"


def mma_tensor_core(
    function: str,
    location: SourceLocation | None,
    instruction: str,
    shape: tuple[int, int, int],
    ctas: int | None = None,
) -> Remark:
    """An MMA runs on tensor cores; `instruction` such as `Tensor-core SM80`, `shape` (m, n, k) of its instruction, and
    `ctas` how many CTAs execute it together, where that is a property of the instruction."""
    together = () if ctas is None else (("NumCTAs", str(ctas)),)
    return Remark(
        Category.TENSOR_CORE, Kind.PASSED, "RemarkTensorCoreMMA",
        "MMA operation successfully optimized to use Tensor Cores",
        function, location, (("Instruction", instruction), _shape(shape), *together),
    )  # fmt: skip


def mma_fma(
    function: str, location: SourceLocation | None, instruction: str = "FMA", shape: tuple[int, int, int] = (1, 1, 1)
) -> Remark:
    """No tensor core takes the MMA's types or shape: it runs on other instructions."""
    return Remark(
        Category.TENSOR_CORE, Kind.FAILED, "RemarkTensorCoreMMA",
        f"MMA operation failed to optimize to use Tensor Cores, it is using {instruction} instructions instead",
        function, location, (("Instruction", instruction), _shape(shape)),
    )  # fmt: skip


def _selected(
    what: str, function: str, location: SourceLocation | None, instruction: str, shape: Sequence[int] | None
) -> Remark:
    arguments = [("Instruction", instruction), *([_shape(shape)] if shape is not None else [])]
    name = f"RemarkMemory{what}InstructionSelected"
    return Remark(
        Category.MEMORY, Kind.PASSED, name, f"{what} instruction selected", function, location, tuple(arguments)
    )


GLOBAL_LOAD = "Global-memory load instruction"
GLOBAL_STORE = "Global-memory store instruction"
TMA_LOAD = "TMA Load instruction"
TMA_STORE = "TMA Store instruction"
ASYNC_COPY = "Ldgsts instruction"
NO_TENSOR_MAPS = "TMA copies only what the producer agent of a loop with a product loads"
NO_TMA_STORE = "TMA stores only what agents compute behind a loop with a product"


def load_selected(
    function: str, location: SourceLocation | None, instruction: str = GLOBAL_LOAD, shape: Sequence[int] | None = None
) -> Remark:
    """Which load a tile load became: GLOBAL_LOAD, ASYNC_COPY (cp.async), or TMA_LOAD with the box's `shape`."""
    return _selected("Load", function, location, instruction, shape)


def store_selected(
    function: str, location: SourceLocation | None, instruction: str = GLOBAL_STORE, shape: Sequence[int] | None = None
) -> Remark:
    """Which store a tile store became: GLOBAL_STORE, or TMA_STORE with the box's `shape`."""
    return _selected("Store", function, location, instruction, shape)


def tma_failed(
    function: str, location: SourceLocation | None, reason: str, *, store: bool, inlined: bool = False
) -> Remark:
    """An access through a view is not done by TMA, on a target that has it. The reference puts the place before the
    reason, but for code that was inlined."""
    if location is not None and not inlined:
        reason = f'loc("{location.filename}":{location.line}:{location.column}): {reason}'
    what = "Store" if store else "Load"
    return Remark(
        Category.MEMORY, Kind.FAILED, f"RemarkMemoryTma{what}Failed",
        f"Failed to select TMA {what.lower()} instruction", function, location, (("Reason", reason),),
    )  # fmt: skip


def index_not_narrowed(function: str, location: SourceLocation | None, bits: int = 64) -> Remark:
    """The index computations of a tensor view stay 64 bits wide, because they may need `bits`."""
    message = f"Could not narrow tensor_view indexing to i32: index computations may require {bits} bits"
    name = "RemarkTensorViewIndexTypeNarrowing"
    return Remark(Category.MEMORY, Kind.MISSED, name, message, function, location)


def hint_used(function: str, location: SourceLocation | None, key: str, *, default: bool) -> Remark:
    """An optimization hint for the target, or the `default` one, is followed."""
    name, text = ("RemarkHintDefault", f"default {key}") if default else ("RemarkHint", key)
    return Remark(Category.HINTS, Kind.PASSED, name, f"OptimizationHint used {text}", function, location)


def hint_incorrect(function: str, location: SourceLocation | None, key: str) -> Remark:
    """A hint's value is of no use: no integer, or no power of two where it has to be one."""
    message = f"OptimizationHint incorrect {key}"
    return Remark(Category.HINTS, Kind.FAILED, "RemarkHint", message, function, location)


def hint_out_of_range(function: str, location: SourceLocation | None, hint: str, given: int, used: int) -> Remark:
    """A hint's value is out of range, and the nearest is used; `hint` such as `sm_90.latency`."""
    message = f"OptimizationHint value out of range value {given} clamped to {used} for {hint}"
    return Remark(Category.HINTS, Kind.MISSED, "RemarkHintOutOfRange", message, function, location)


def register_pressure(function: str, location: SourceLocation | None) -> Remark:
    """A warning: the tiles of a kernel cannot be held in registers."""
    reason = (
        "Estimated per-thread register usage exceeds the available budget. This is usually caused by a large tile "
        "size, which increases per-CTA work, or by high requested occupancy, which reduces the register budget per "
        "thread."
    )
    suggestion = "Reduce the tile size or lower the occupancy hint."
    return Remark(
        Category.NONE, Kind.WARNING, "RegisterPressure", "High register usage",
        function, location, (("Reason", reason), ("Suggestion", suggestion)),
    )  # fmt: skip


# -- the remarks that are ours ----------------------------------------------------------------------------------------


def access_not_vectorized(function: str, location: SourceLocation | None, bits: int, reason: str) -> Remark:
    """A global access narrower than 128 bits per thread, and the fact that it lacks."""
    return _access_width(
        Kind.MISSED, "Global-memory access is narrower than 128 bits",
        function, location, (("Width", str(bits)), ("Reason", reason)),
    )  # fmt: skip


def access_width_checked(
    function: str, location: SourceLocation | None, bits: int, otherwise: int, reason: str, instruction: str = ""
) -> Remark:
    """A global access that is `bits` wide where a check at run time finds what is not known, and `otherwise` if not;
    then it is done by `instruction`, if that is another one."""
    arguments = [("Width", str(bits)), ("Otherwise", str(otherwise))]
    if instruction:
        arguments.append(("OtherwiseInstruction", instruction))
    return _access_width(
        Kind.ANALYSIS, "Global-memory access is as wide as a check at run time allows",
        function, location, (*arguments, ("Reason", reason)),
    )  # fmt: skip


def _access_width(
    kind: Kind, message: str, function: str, location: SourceLocation | None, arguments: tuple[tuple[str, str], ...]
) -> Remark:
    return Remark(Category.MEMORY, kind, "RemarkMemoryAccessWidth", message, function, location, arguments)


def hint_ignored(function: str, location: SourceLocation | None, key: str, reason: str) -> Remark:
    """A hint is not followed."""
    return Remark(
        Category.HINTS, Kind.MISSED, "RemarkHintIgnored",
        f"OptimizationHint ignored {key}", function, location, (("Reason", reason),),
    )  # fmt: skip


def directive_ignored(function: str, location: SourceLocation | None, name: str, value: str) -> Remark:
    """A directive of a `pragma` is not followed."""
    return Remark(
        Category.HINTS, Kind.MISSED, "RemarkDirectiveIgnored",
        f"Directive ignored {name}", function, location,
        (("Value", value), ("Reason", "this compiler knows no such directive")),
    )  # fmt: skip


def attribute_ignored(function: str, location: SourceLocation | None, name: str, value: str, reason: str) -> Remark:
    """An attribute by which a module of nv_tileas says what a pass decides, and the pass decided otherwise; or one that
    an op does not have."""
    return Remark(
        Category.HINTS, Kind.MISSED, "RemarkAttributeIgnored",
        f"Attribute ignored {name}", function, location, (("Value", value), ("Reason", reason)),
    )  # fmt: skip


def parameter_ignored(function: str, location: SourceLocation | None, number: int, name: str, value: str) -> Remark:
    """An attribute of a kernel's parameter, of whose type alone code is made."""
    reason = f"code is made of the type of parameter {number} alone"
    return attribute_ignored(function, location, name, value, reason)


def program_message(function: str, location: SourceLocation | None, text: str) -> Remark:
    """What an op `message` of the program says."""
    return Remark(Category.HINTS, Kind.ANALYSIS, "RemarkMessage", text, function, location)


def load_not_pipelined(function: str, location: SourceLocation | None, reason: str) -> Remark:
    """A load of a product's operand in a loop that is not started iterations ahead."""
    return Remark(
        Category.MEMORY, Kind.MISSED, "RemarkMemoryLoadPipelined",
        "Load does not run ahead of its loop", function, location, (("Reason", reason),),
    )  # fmt: skip


def registers_shared(function: str, location: SourceLocation | None, reason: str) -> Remark:
    """Agents that ask for registers of their own, which the target cannot give them."""
    return Remark(
        Category.HINTS, Kind.MISSED, "RemarkAgentRegisters",
        "Agents get no registers of their own", function, location, (("Reason", reason),),
    )  # fmt: skip


def mma_not_native(function: str, location: SourceLocation | None, reason: str) -> Remark:
    """No tensor-core instruction takes an MMA's types as they are."""
    return Remark(
        Category.TENSOR_CORE, Kind.MISSED, "RemarkTensorCoreTypes",
        "No tensor-core instruction takes these types", function, location, (("Reason", reason),),
    )  # fmt: skip


def mma_not_specialized(function: str, location: SourceLocation | None, reason: str) -> Remark:
    """The loop of an MMA is not parted into a producer, which copies, and consumers, which multiply by wgmma."""
    return Remark(
        Category.TENSOR_CORE, Kind.MISSED, "RemarkTensorCoreSpecialization",
        "MMA is not fed by a producer of its own", function, location, (("Reason", reason),),
    )  # fmt: skip


def mma_in_parts(function: str, location: SourceLocation | None, parts: int) -> Remark:
    """The tiles of a step of an MMA's loop are copied in parts along k, so that more of them are under way."""
    return Remark(
        Category.TENSOR_CORE, Kind.ANALYSIS, "RemarkTensorCoreParts",
        "Operands of MMA are copied in parts of a step", function, location, (("Parts", str(parts)),),
    )  # fmt: skip


def mma_idle_warps(function: str, location: SourceLocation | None, busy: int, warps: int) -> Remark:
    """The tile of an MMA is too small for its warps: some of them compute what others do."""
    return Remark(
        Category.TENSOR_CORE, Kind.MISSED, "RemarkTensorCoreWarps",
        "MMA is too small for all warps", function, location, (("Busy", str(busy)), ("Warps", str(warps))),
    )  # fmt: skip


def effort_reduced(function: str, location: SourceLocation | None, excess: str) -> Remark:
    """A warning: a kernel is so large, as `excess` says, that LLVM and ptxas are asked to optimize it less."""
    reason = f"{excess}: optimizing it in full would take time with the square of its size"
    return Remark(
        Category.NONE, Kind.WARNING, "RemarkEffortReduced", "Kernel is too large to be optimized in full",
        function, location, (("Reason", reason), ("Suggestion", "Divide the work among several kernels.")),
    )  # fmt: skip


# -- the formats ------------------------------------------------------------------------------------------------------


def command_line_format(remarks: Iterable[Remark]) -> str:
    """The remarks as text for a person: by function, then by category, without warnings; empty for no remarks."""
    functions: dict[str, dict[str, list[Remark]]] = {}
    for remark in (r for r in remarks if r.kind is not Kind.WARNING):
        functions.setdefault(remark.function, {}).setdefault(remark.category.value, []).append(remark)
    return "\n".join(
        f"in function: {visible(function)}:\n\n"
        + "\n".join(
            f"  category: {category}\n" + "".join(map(_command_line, categories[category]))
            for category in sorted(categories)
        )
        for function, categories in functions.items()
    )


def warnings_format(remarks: Iterable[Remark]) -> str:
    """The warnings among the remarks as text for a person; empty for none."""
    return "".join(_command_line(r) for r in remarks if r.kind is Kind.WARNING)


def _command_line(remark: Remark) -> str:
    place = remark.location
    where = "loc(unknown)" if place is None else f'"{place.filename}":{place.line}:{place.column}'
    lines = [
        f"    {_kind(remark)}: {remark.message}",
        f"      --> {where}",
        "       |",
        f"       = name: {remark.name}",
        *(f"       = {_detail(name, text)}" for name, text in remark.arguments),
    ]
    return "\n".join(map(visible, lines)) + "\n\n"


def _kind(remark: Remark) -> str:
    if remark.kind is Kind.WARNING:
        return f"warning[{remark.category.value}]"
    return f"remark[{remark.kind.value}]"


def _detail(name: str, text: str) -> str:
    return f"{name.lower()}: {text}" if name in ("Reason", "Suggestion") else f"note: {name} = {text}"


def yaml_format(remarks: Iterable[Remark]) -> str:
    """The remarks as a stream of YAML documents, in LLVM's remark format; empty for no remarks."""
    return "".join(_yaml(remark, number) for number, remark in enumerate(remarks, 1))


def _yaml(remark: Remark, number: int) -> str:
    place = remark.location or SourceLocation("<unknown file>")
    where = f"{{ File: {yaml_scalar(place.filename)}, Line: {place.line}, Column: {place.column} }}"
    lines = [
        f"--- !{_YAML_TAG[remark.kind]}",
        f"{'Pass:':17}{yaml_scalar(remark.category.value)}",
        f"{'Name:':17}{yaml_scalar(remark.name)}",
        f"{'DebugLoc:':17}{where}",
        f"{'Function:':17}{yaml_scalar(remark.function)}",
        "Args:",
    ]
    arguments = [("RemarkId", str(number)), ("Remark", yaml_scalar(remark.message))]
    arguments += [(name, yaml_scalar(text)) for name, text in remark.arguments]
    lines += [f"  - {name + ': ':13}{text}" for name, text in arguments]
    return "\n".join([*lines, "..."]) + "\n"


_WORDS = {
    spelled
    for word in ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
    for spelled in (word, word.capitalize(), word.upper())
} | {"~"}
_PLAIN = frozenset("_-^., \t")
_INDICATORS = frozenset("-?:\\,[]{}#&*!|>'\"%@`")


def yaml_scalar(text: str) -> str:
    """A string as LLVM writes a YAML scalar: plain when it is read back as that string, else in quotes."""
    if any((ord(c) < 0x20 and c != "\t") or ord(c) >= 0x7F for c in text):
        return '"' + "".join(map(_escaped, text)) + '"'
    plain = (
        text
        and text == text.strip()
        and text not in _WORDS
        and not _is_number(text)
        and text[0] not in _INDICATORS
        and all(c.isalnum() or c in _PLAIN for c in text)
    )
    return text if plain else "'" + text.replace("'", "''") + "'"


def _is_number(text: str) -> bool:
    for base in (10, 0):
        try:
            int(text, base)
            return True
        except ValueError:
            continue
    try:
        float(text)
    except ValueError:
        return text.lower() in (".nan", ".inf", "-.inf", "+.inf")
    return text[0] in "0123456789.+-"


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\b": "\\b", "\x7f": "\\x7F"}


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\x{ord(character):02X}" if ord(character) < 0x20 else character
