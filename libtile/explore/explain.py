# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`explain`: what is wrong with a kernel, what makes it slow, and what is unusual about it, in words, at its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum

from libtile.asm.module import Module, diagnose, load
from libtile.backend.tools import ToolNotFoundError
from libtile.explore.record import Compilation, KernelFacts, Record, explore
from libtile.explore.reference import Outcome, Reference, blamed
from libtile.explore.sass import Loop, amount
from libtile.support.diagnostics import DiagnosticError, Severity, SourceLocation
from libtile.support.errors import LibtileError
from libtile.support.files import Bytes, Path
from libtile.support.records import dataclass, field
from libtile.support.remarks import Kind, Remark
from libtile.support.signatures import checked

FEW_WARPS = 8
"""An SM has four schedulers: with fewer than two warps for each, nothing covers what a warp waits for."""


class Weight(Enum):
    """What a finding means for the user."""

    WRONG = "wrong"
    SLOW = "slow"
    UNUSUAL = "unusual"


@dataclass(frozen=True)
class Finding:
    """One thing that was found, where it stands in the source, and what may be done about it."""

    weight: Weight
    message: str
    advice: str = ""
    place: SourceLocation | None = None
    kernel: str = ""


@dataclass
class Explanation:
    """What is known of a module for one target. `record` is None where it was not compiled."""

    gpu_name: str
    findings: list[Finding] = field(default_factory=list)
    record: Record | None = None
    reference: Outcome | None = None

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"


_DIVISIBLE = (
    "sizes, strides and base addresses that are multiples of 16 bytes, and are known to be (`assume div_by`; cuTile "
    "assumes it of arrays that are when a kernel is compiled), are moved 128 bits at a time"
)
ADVICE = {
    ("RemarkMemoryAccessWidth", Kind.MISSED): (Weight.SLOW, ""),
    ("RemarkTensorViewIndexTypeNarrowing", Kind.MISSED): (
        Weight.SLOW,
        "sizes and strides that are known to be small (`assume bounded`, or 32-bit ones) need 32-bit arithmetic only",
    ),
    ("RemarkTensorCoreMMA", Kind.FAILED): (
        Weight.SLOW,
        "tensor cores take f16, bf16, tf32, i8 and, by target, 8-bit floats and f64: convert the operands, f32 to tf32",
    ),
    ("RemarkTensorCoreTypes", Kind.MISSED): (
        Weight.SLOW,
        "the operands are converted first: give the product types that the target multiplies",
    ),
    ("RemarkTensorCoreWarps", Kind.MISSED): (Weight.SLOW, "a larger tile gives every warp something to do"),
    ("RemarkMemoryLoadPipelined", Kind.MISSED): (Weight.SLOW, ""),
    ("RegisterPressure", Kind.WARNING): (Weight.SLOW, "a smaller tile, or a lower occupancy hint, leaves more room"),
    ("RemarkHintIgnored", Kind.MISSED): (Weight.UNUSUAL, ""),
    ("RemarkHintOutOfRange", Kind.MISSED): (Weight.UNUSUAL, "a hint within the range says what is meant"),
    ("RemarkHint", Kind.FAILED): (Weight.UNUSUAL, "a hint's value is an integer, a power of two where it has to be"),
    ("RemarkDirectiveIgnored", Kind.MISSED): (Weight.UNUSUAL, ""),
}
"""What the remarks that a user can do something about mean, by name and kind."""


@checked
def explain(
    module: Module | Path | Bytes,
    gpu_name: str = "sm_90",
    *,
    reference: Reference | None = None,
    source_folders: Sequence[Path] = (".",),
    seconds: float = 60.0,
) -> Explanation:
    """What is wrong, slow or unusual about a module, bytecode or text, on a target.

    With a `reference`, NVIDIA's assembler compiles it as well: where that fails, the ops that it fails on are found by
    taking others away, for at most `seconds`. Raises LibtileError for what is no module at all, and
    ToolNotFoundError without ptxas or libdevice.
    """
    given = module if isinstance(module, Module) else Module(load(module))
    told = Explanation(gpu_name)
    problems = [d for d in diagnose(given.op) if d.severity is Severity.ERROR]
    if problems:
        told.findings = [Finding(Weight.WRONG, d.message, "", d.location) for d in problems]
        return told
    try:
        told.record = explore(given, [gpu_name], source_folders=source_folders)
    except ToolNotFoundError:
        raise  # no fault of the kernel
    except LibtileError as error:
        told.findings.append(_refusal(error))
    else:
        told.findings += _of_remarks(told.record)
        for kernel in told.record.compilations[0].kernels:
            told.findings += _of_code(told.record, told.record.compilations[0], kernel)
    if reference is not None:
        told.reference = reference.compile(given, gpu_name)
        if told.reference.failure:
            told.findings += _of_reference(given, gpu_name, reference, told.reference, seconds)
    order = list(Weight)
    told.findings.sort(key=lambda finding: order.index(finding.weight))
    return told


def _refusal(error: LibtileError) -> Finding:
    place = getattr(error, "location", None)
    if isinstance(error, DiagnosticError):
        first = error.diagnostics[0]
        return Finding(Weight.WRONG, first.message, "", first.location)
    return Finding(Weight.WRONG, str(error), "", place if isinstance(place, SourceLocation) else None)


def _of_remarks(record: Record) -> Iterator[Finding]:
    narrowing = set()
    for remark in dict.fromkeys(record.compilations[0].remarks):
        if (remark.name, remark.kind) in ADVICE:
            if remark.name == "RemarkTensorViewIndexTypeNarrowing":
                if remark.location in narrowing:
                    continue  # of several arrays at one place, with so many bits each
                narrowing.add(remark.location)
            weight, advice = ADVICE[remark.name, remark.kind]
            if remark.name == "RemarkMemoryAccessWidth":
                advice = _about_width(dict(remark.arguments).get("Reason", ""))
            yield Finding(weight, _said(remark), advice, remark.location, remark.function)


def _about_width(reason: str) -> str:
    """What can be done about a reason for a narrow access."""
    if "multiple" in reason or "aligned" in reason:
        return _DIVISIBLE
    if "adjacent" in reason:
        return "pointers of a base and consecutive offsets, or a view, are known to be adjacent"
    return "a larger tile has more elements for each thread" if "elements for" in reason else ""


def _said(remark: Remark) -> str:
    values = dict(remark.arguments)
    reason = values.pop("Reason", "")
    values.pop("Suggestion", None)
    rest = ", ".join(f"{name.lower()} {value}" for name, value in values.items())
    return remark.message + (f" ({rest})" if rest else "") + (f": {reason}" if reason else "")


def _of_code(record: Record, made: Compilation, kernel: KernelFacts) -> Iterator[Finding]:
    """What the machine code shows: spills with the ops that they are there for, loops that wait, an empty SM."""
    listing = made.listings["sass"]
    if kernel.spills:
        ops = kernel.local
        for op, count in Counter(ops).most_common(3):
            accesses = f"{count} access{'' if count == 1 else 'es'} to local memory"
            yield Finding(
                Weight.SLOW,
                f"{accesses}: {kernel.registers} registers a thread do not hold what is alive",
                "a smaller tile, or a lower occupancy hint, leaves more room", _place(record, op), kernel.title,
            )  # fmt: skip
        if not ops:
            yield Finding(Weight.SLOW, f"{kernel.spills} bytes of registers are spilled", kernel=kernel.title)
    for loop in kernel.loops:
        waits = loop.counts.get("barriers", 0)
        if waits * 10 > loop.instructions and waits > 3:
            first = next((op for op in listing.ops[loop.first : loop.last + 1] if op), 0)
            yield Finding(
                Weight.SLOW, f"{waits} of the {loop.instructions} instructions of a loop wait for other threads",
                "reductions along a tile's longest dimension and exchanges between layouts need barriers",
                _place(record, first), kernel.title,
            )  # fmt: skip
    ctas = kernel.ctas[kernel.limit]
    warps = ctas * -(-kernel.threads // 32)
    if warps < FEW_WARPS:
        yield Finding(
            Weight.SLOW if ctas else Weight.WRONG, f"an SM holds {amount(warps, 'warps')} of it, by its {kernel.limit}",
            "smaller tiles take fewer registers and less shared memory", None, kernel.title,
        )  # fmt: skip


def _place(record: Record, op: int) -> SourceLocation | None:
    place = record.places.get(op)
    return SourceLocation(record.sources[place.source].path, place.line, place.column) if place is not None else None


_ANYTHING = "so it does with an empty kernel: it is not this program"
_INSTALLATION = (
    ". It needs libnvvm and ptxas of its own release beside it: "
    "`pip install --force-reinstall nvidia-cuda-tileiras` brings all three, CUDA_HOME names a toolkit that has them"
)


def _of_reference(
    module: Module, gpu_name: str, reference: Reference, outcome: Outcome, seconds: float
) -> Iterator[Finding]:
    found = blamed(module, gpu_name, reference, outcome, seconds)
    advice = ""
    if found.anything:
        advice = _ANYTHING + (_INSTALLATION if gpu_name not in outcome.failure else "")
    elif found.ops:
        what = f"that it takes more than {found.seconds:.0f} seconds" if found.seconds else "that"
        advice = f"of {found.before} ops these {len(found.ops)} are enough for {what}: {', '.join(found.ops)}"
    yield Finding(Weight.WRONG, f"NVIDIA's tileiras fails: {outcome.failure}", advice, found.place)


# -- as text ----------------------------------------------------------------------------------------------------------


def _lines(told: Explanation) -> Iterator[str]:
    if told.record is not None:
        for kernel in told.record.compilations[0].kernels:
            yield from _summary(kernel, told.gpu_name, told.record)
            if told.reference is not None and kernel.name in told.reference.kernels:
                yield "  by NVIDIA's tileiras: " + told.reference.kernels[kernel.name]
        if note := told.record.compilations[0].listings["sass"].note:
            yield f"  the machine code was not looked at: {note}"
    alike: dict[tuple[Weight, str, str, str], list[SourceLocation]] = {}
    for finding in told.findings:
        of = finding.kernel if finding.place is None else ""
        places = alike.setdefault((finding.weight, finding.message, finding.advice, of), [])
        places += [finding.place] if finding.place is not None else []
    for (weight, message, advice, of), places in alike.items():
        yield ""
        where = f"{_listed(places)}: " if places else f"{of}: " if of else ""
        yield f"{weight.value}: {where}{message}"
        if advice:
            yield f"  {advice}"
    if not told.findings:
        yield ""
        yield "Nothing is wrong, slow or unusual, as far as this can tell."


def _listed(places: Sequence[SourceLocation]) -> str:
    """`a.py:3:5, 4:1 and b.py:2:2`: a file is named where it is another one than before."""
    texts, file = [], None
    for place in sorted(set(places), key=lambda place: (place.filename, place.line, place.column)):
        texts.append(f"{place.line}:{place.column}" if place.filename == file else str(place))
        file = place.filename
    return ", ".join(texts[:-1]) + (" and " if len(texts) > 1 else "") + texts[-1]


def _mainly(record: Record, loop: Loop) -> str:
    """The line of the source that most of a loop's instructions are there for."""
    ops = record.compilations[0].listings["sass"].ops[loop.first : loop.last + 1]
    places = [place for op in ops if (place := record.places.get(op)) is not None]
    if not places:
        return ""
    (source, line), _ = Counter((place.source, place.line) for place in places).most_common(1)[0]
    return f", mainly for {record.sources[source].path}:{line}"


def _summary(kernel: KernelFacts, gpu_name: str, record: Record) -> Iterator[str]:
    spills = f"{kernel.spills} bytes of spills" if kernel.spills else "no spills"
    size = f"{kernel.instructions} instructions, " if kernel.instructions else ""
    yield (
        f"{kernel.title} on {gpu_name}: {size}{kernel.registers} registers, {spills}, {kernel.shared} bytes of shared "
        f"memory; an SM holds {amount(kernel.ctas[kernel.limit], 'CTAs')} of {kernel.threads} threads, by its "
        f"{kernel.limit}"
    )
    spins = [loop for loop in kernel.loops if loop.spins]
    for loop in kernel.loops:
        if loop not in spins:
            parts = ", ".join(amount(count, kind) for kind, count in loop.counts.items())
            yield f"  a loop of {loop.instructions} instructions{_mainly(record, loop)}: {parts}"
    if spins:
        yield f"  {amount(len(spins), 'waiting loops')}, at barriers in shared memory"
