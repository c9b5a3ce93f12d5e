# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a random program on the interpreter and in the simulator, after passes and through bytecode, and compares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

import libtile
from generators.core import Parameter, Program
from libtile.compiler.stages import TO_TILEAA
from libtile.dialects.nv_tileaa.kernels import stage_of
from libtile.interpreter.formats import ELEMENTS, from_bits
from libtile.lowering.strip_mine.strip_mine import strip_mine
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.targets import target as find_target
from libtile.transforms.canonical_values import create_before, is_op, replace_op
from lowering.pass_checks import check_passes

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")

Outcome = tuple[list[Any], list[str]]
"""The arguments after a run, and the lines that it printed, sorted: what blocks print may mix."""


class Disagreement(AssertionError):
    """Two runs of a program wrote different memory."""


def parsed(program: Program, text: str | None = None) -> libtile.Module:
    """The program (or another text with the same entry), verified."""
    module = libtile.parse(text or program.text, filename=f"seed-{program.seed}.mlir")
    libtile.verify(module)
    return module


def run(module: libtile.Module, program: Program, variant: int = 0, **options: Any) -> Outcome:
    """What a run with all checks leaves behind."""
    args = program.arguments(variant)
    done = libtile.run(module, "kernel", grid=program.grid, args=args, check="full", verify=False, **options)
    return args, sorted(done.output.splitlines())


def compare(program: Program, expected: Outcome, got: Outcome, exactly: bool = False) -> None:
    """Disagreement, naming the first element that differs, unless both runs did the same.

    `exactly` takes no tolerance: for two runs on one backend.
    """
    for parameter, want, have in zip(program.parameters, expected[0], got[0], strict=True):
        if not parameter.size:
            continue
        wrong = np.flatnonzero(want != have if exactly else ~agree(parameter, want, have))
        if wrong.size:
            i = int(wrong[0])
            shown = [f"{v[i]:#x}" + _number(parameter, v[i : i + 1]) for v in (want, have)]
            raise Disagreement(
                f"{parameter.name}[{i}] ({parameter.element}) is {shown[1]} and should be {shown[0]}; "
                f"{wrong.size} of {want.size} elements differ"
            )
    if expected[1] != got[1]:
        raise Disagreement(f"printed {got[1][:5]}, not {expected[1][:5]}")


def _number(parameter: Parameter, bits: np.ndarray) -> str:
    elem = ELEMENTS[parameter.element]
    return f" ({from_bits(bits, elem)[0]})" if elem.is_float and elem.width > 4 else ""


def agree(parameter: Parameter, want: np.ndarray, have: np.ndarray) -> np.ndarray:
    """For each element in memory, whether it is the same on both sides, as far as the program promises that."""
    rule = parameter.comparison
    if rule.unordered:
        want, have = np.sort(want), np.sort(have)
    same: np.ndarray = want == have
    elem = ELEMENTS[parameter.element]
    if elem.float is None or elem.width == 4 or same.all():
        return same
    with np.errstate(invalid="ignore", over="ignore"):
        x, y = (np.asarray(from_bits(v, elem)).astype(np.float64) for v in (want, have))
        same |= np.isnan(x) & np.isnan(y)
        if rule.ulps:
            same |= (_steps(want, have) <= rule.ulps) & ~(np.isnan(x) | np.isnan(y))
        if rule.relative:
            same |= np.abs(x - y) <= rule.relative * np.abs(x)
    return same


def _steps(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many values of the type lie between; the zeros are one value."""
    sign = 1 << 8 * x.dtype.itemsize - 1
    place = [np.where(v >= sign, sign - v.astype(object), v.astype(object)) for v in (x, y)]
    return np.abs(place[0] - place[1]).astype(np.float64)


# -- what is checked --------------------------------------------------------------------------------------------------


def check_targets(
    program: Program, targets: Sequence[str] = TARGETS, variant: int = 0, text: str | None = None, **options: Any
) -> None:
    """The interpreter and the simulator agree for each target: Disagreement, or the error of one of them."""
    module = parsed(program, text)
    expected = run(module, program, variant)
    for target in targets:
        try:
            got = run(module, program, variant, backend="simulator", gpu_name=target, **options)
            compare(program, expected, got)
        except Disagreement as error:
            raise Disagreement(f"{target}: {error}") from None


def check_bytecode(program: Program, version: str = "13.5") -> None:
    """The module that is read from the bytecode prints the same text."""
    module = parsed(program)
    again = libtile.read(libtile.write(module, version))
    if str(again) != str(module):
        raise Disagreement(f"the module is another one after bytecode {version}")


def check_pipeline(
    program: Program, pipeline: str, variants: int = 1, expected: Sequence[Outcome] | None = None
) -> bool:
    """The program writes the same memory after the passes, which leave a valid module; whether they changed it."""
    if expected is None:
        module = parsed(program)
        expected = [run(module, program, variant) for variant in range(variants)]
    module = parsed(program)
    before = str(module)
    PassManager(parse_pipeline(pipeline)).run(module.op)
    libtile.verify(module)
    for variant, want in enumerate(expected):
        compare(program, want, run(module, program, variant), exactly=True)
    return str(module) != before


def check_inner_dialects(program: Program, target: str, text: str | None = None) -> None:
    """Every pass of the lowering stack leaves valid IR."""
    libtile.compile(parsed(program, text), target, emit="llvm", verify=False, verify_each=True)


def check_pieces(program: Program, target: str, words: int = 8, piece: int = 4) -> None:
    """The program gives the same when tiles of more than so many 32-bit words are worked through in pieces."""
    expected = run(parsed(program), program)
    cut = parsed(program)
    strip_mine(cut.op, find_target(target), words, piece)
    libtile.verify(cut)
    compare(program, expected, run(cut, program))
    compare(program, expected, run(cut, program, backend="simulator", gpu_name=target))


def failure_in_pieces(program: Program, target: str) -> str | None:
    """What goes wrong with the program when its tiles are cut; None if nothing does."""
    try:
        check_pieces(program, target)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None


def failure_of_a_pass(program: Program, target: str) -> str | None:
    """What goes wrong with the program behind a pass of its lowering, by the interpreter; None if nothing does. Passes
    of Tile IR are compared as one, as `failure_behind_pipelines` has them one by one."""
    module = parsed(program).op
    first = TO_TILEAA if stage_of(module) is None else ""
    try:
        check_passes(module, "kernel", program.grid, program.arguments, target, first=first)
    except Exception as error:
        return " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    return None


def failure_behind_pipelines(program: Program, pipelines: Sequence[str], variants: int = 1) -> list[str]:
    """What goes wrong with the program behind passes, for each pipeline with which something does.

    What several pipelines make is verified and run once; what they leave as it is does not run again. What `fuse-fma`
    fuses is rounded twice again.
    """
    module = parsed(program)
    expected = [run(module, program, variant) for variant in range(variants)]
    given = contents(module.op)
    good, found = {given}, []
    op = module.op.clone()
    for pipeline in pipelines:
        try:
            own = fused(op) if "fuse-fma" in pipeline else ()
            PassManager(parse_pipeline(pipeline), verify_each=False).run(op)
            if "fuse-fma" in pipeline:
                round_twice(op, own)
            made = contents(op)
            if made not in good:
                libtile.verify(op)
                for variant, want in enumerate(expected):
                    compare(program, want, run(libtile.Module(op), program, variant), exactly=True)
                good.add(made)
            if made == given:
                continue
        except Exception as error:
            found.append(f"{pipeline}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        op = module.op.clone()
    return found


def contents(root: Operation) -> tuple[object, ...]:
    """What is equal of two ops that are the same but for locations and the names of values: all that is in them."""
    numbers: dict[SSAValue, int] = {}
    parts: list[object] = []
    pending: list[Operation | Block] = [root]
    while pending:
        part = pending.pop()
        values = part.args if isinstance(part, Block) else part.results
        if not isinstance(part, Block):
            attributes = [frozenset(each.items()) for each in (part.properties, part.attributes)]
            operands = [numbers[operand] for operand in part.operands]
            parts.append((part.name, *operands, *attributes, *(len(region.blocks) for region in part.regions)))
            pending += reversed([block for region in part.regions for block in region.blocks])
        else:
            pending += reversed(list(part.ops))
            parts.append(len(part.ops))
        parts += [value.type for value in values]
        for value in values:
            numbers[value] = len(numbers)
    return tuple(parts)


def fused(root: Operation) -> set[Operation]:
    """The `fma` in an op."""
    return {op for op in root.walk() if is_op(op, "fma")}


def round_twice(root: Operation, kept: Collection[Operation]) -> int:
    """Make a product and a sum, each of them rounded, of every `fma` but these; returns of how many."""
    made = fused(root) - set(kept)
    for op in made:
        settings = {name: op.properties.get(name) for name in ("rounding_mode", "flush_to_zero")}
        type_, factors = op.results[0].type, {"lhs": op.operands[0], "rhs": op.operands[1]}
        product = create_before(op, "mulf", factors, [type_], settings)
        terms = {"lhs": product, "rhs": op.operands[2]}
        replace_op(op, [create_before(op, "addf", terms, [type_], settings)])
    return len(made)


def failure(program: Program, target: str, variant: int = 0, text: str | None = None) -> str | None:
    """What goes wrong with the program on a target, its kind first; None if nothing does."""
    try:
        check_targets(program, [target], variant, text)
        check_inner_dialects(program, target, text)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None
