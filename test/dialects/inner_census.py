# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/inner-census.md, measured: `PYTHONPATH=test python -m dialects.inner_census`.

The sample of every op is made a kernel that can be launched, and compiled to LLVM IR for a target of each class. Which
passes make an op is seen on those compilations, and on those of a kernel with every op of Tile IR.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Template

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

import libtile.lowering.to_llvm.conversion  # noqa: F401  (registers the rules)
from dialects import inner_symbols
from dialects.inner import ARGUMENTS, PIPE, SHARED, SPEC
from dialects.inner_samples import ARGUMENTS as OWN
from dialects.inner_samples import BODIES, NAMES, OUTSIDE
from libtile.asm import parse
from libtile.asm.module import Module, diagnose, load
from libtile.compiler.entry import program_of
from libtile.compiler.options import Options
from libtile.compiler.stages import lower
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.types import BufferType
from libtile.interpreter.inner_codegen import STRUCTURE
from libtile.interpreter.inner_table import RULES
from libtile.ir.tile_form import OP_CLASSES, layout_of
from libtile.layouts.builders import row_major
from libtile.lowering.to_llvm.legality import STAGE
from libtile.lowering.to_tileas.shape_layouts import spread
from libtile.lowering.to_tileas.types import with_layout
from libtile.support.diagnostics import DiagnosticError, LoweringError
from libtile.support.errors import LibtileError
from lowering.attention_kernels import attention

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
PAGE = Path(__file__).parents[2] / "docs" / "inner-census.md"
WARPS = 4
STRUCTURE_OF_MODULES = ("nv_tileaa.func", "nv_tileaa.global")
"""What a module holds."""
PART = "part of others"
"""Of an op that stands for no code of its own, or has no sample that is a kernel."""

INTRODUCTION = """# Census of the inner dialects

What becomes of each op of [nv_tileaa and nv_tileas](inner-dialects.md): which passes make it, what it is lowered by, on
which targets, and whether the interpreter has a rule for it. Nothing here is written by hand: the sample of each op (a
valid use of it, `test/dialects/inner_samples.txt`) is compiled for a target of each class, and what is refused stands
with its reason below the table. "Made by" are the passes behind which an op stood that was not there before, in all
these compilations, in one of a kernel for every op of Tile IR, and in those of the examples, of the documents' programs
and of attention by two warpgroups for sm_80, sm_90 and sm_100; what else makes an op stands below the table.
"Lowered by" is LLVM IR where an emission rule spells the op, and else the pass behind which it is gone. Ops that only
stand in others (ends of regions, turns of pipelines) have no kernel of their own here: of them the table says whether
LLVM IR is made of what holds them.

Written by `PYTHONPATH=test python -m dialects.inner_census`; `test/dialects/test_inner_census.py` holds it true.
"""

# -- samples that can be launched -------------------------------------------------------------------------------------

MADE = {
    "tv": "%tv = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}"
    " : $MEMREF -> $VIEW",
    "gv": "%gv = nv_tileaa.block_tile %mr {tileSizes = array<i64: 4, 8>, dimGroups = [array<i64: 0>, array<i64: 1>]}"
    " : $MEMREF -> $GATHER",
    "t": "%t = nv_tileaa.create_mem_token : $TOKEN",
    "t2": "%t2 = nv_tileaa.create_mem_token : $TOKEN",
    "pid": "%pid = nv_tileaa.get_program_id {axis = 0} : !nv_tileaa.program_id",
    "q": "%q = nv_tileaa.create_queue {depth = 2} : !nv_tileaa.queue<(tile<4xf32>)>",
    "pipe": f"%pipe = nv_tileas.async.pipeline.create_pipeline : {PIPE}",
    "it": f"%it = nv_tileas.async.pipeline.create_iterator %pipe : {PIPE} -> {ARGUMENTS['it']}",
    "pt": f"%pt = nv_tileas.async.pipeline.producer_acquire %pipe, %it : {PIPE}, {ARGUMENTS['it']} -> "
    f"{ARGUMENTS['pt']}",
    "ct": f"%ct = nv_tileas.async.pipeline.consumer_wait %pipe, %it : {PIPE}, {ARGUMENTS['it']} -> {ARGUMENTS['ct']}",
    "at": "%at = nv_tileas.async.commit_group : !nv_tileas.async_token",
    "mb": "%mb = nv_tileas.create_mbarrier {arrivals = 1} : !nv_tileas.mbarrier",
    "desc": "%desc = nv_tileas.make_tiled_tma_desc %mr {atom = $LOAD_ATOM, tmaIdx = 0} : $MEMREF -> $DESC",
    "sm": f"%sm = nv_tileas.alloc_tensor : {SHARED}",
    "b4": f"%b4 = nv_tileas.alloc_tensor : {OWN['b4']}",
    "tm": f"%tm = nv_tileas.alloc_tensor : {ARGUMENTS['tm']}",
}
"""By argument of a sample that no launch can give: what makes it in a kernel."""
NEEDS = {"tv": "mr", "gv": "mr", "desc": "mr", "it": "pipe", "pt": "pipe it", "ct": "pipe it"}
_TILE = re.compile(r"(?:tile|tensor)<((?:\d+x)+)(.*)>")


def launchable(name: str) -> str:
    """The sample of an op as a kernel that a launch can give its arguments to: what is no scalar, address or memref is
    made, tiles of numbers by loads, so that nothing is known of them."""
    body = re.sub(r'"%f"(\} : tile<(?:\d+x)*(?:i\d+|index))', r'"%d"\1', BODIES[name])
    operational = name.startswith("nv_tileas.")
    known = {**ARGUMENTS, **OWN}
    words = set(re.findall(r"%(\w+)", body))
    wanted: dict[str, None] = {}
    for argument in known:
        if argument in words:
            wanted.update(dict.fromkeys([*NEEDS.get(argument, "").split(), argument]))
    given, lines = [], []
    for argument in wanted:
        if argument in MADE:
            lines.append(Template(MADE[argument]).substitute(NAMES))
        elif found := _TILE.fullmatch(known[argument]):
            parameter, made = _tile(argument, known[argument], found[1], found[2], operational)
            given += parameter
            lines += made
        else:
            given.append(f"%{argument}: {known[argument]}")
    warps = 1 if "$FA" in body or "%fa" in body else WARPS
    spec = SPEC.replace("num_warps=4", f"num_warps={warps}")
    outside = OUTSIDE if "@" in body else ""
    text = "\n".join([*lines, body])
    return f"{outside}\nnv_tileaa.func @k({', '.join(given)}) {spec} {{\n{text}\nnv_tileaa.return\n}}\n"


def _tile(name: str, type_: str, shape: str, element: str, operational: bool) -> tuple[list[str], list[str]]:
    """The parameters and the ops that make a tile: of a pointer's neighbours, or (of elements without an address of
    their own, and in layouts of their own) constants."""
    if element.startswith("!nv_tileaa.ptr"):
        return [f"%{name}_p: {element}"], [f"%{name} = nv_tileaa.splat %{name}_p : {element} -> {type_}"]
    number, _, layout = element.partition(",")
    if layout or number in ("i4", "f4E2M1FN"):
        zero = "0.0" if number.startswith("f") else "0"
        value = f"dense<{zero}> : !cuda_tile.tile<{shape}{number}>"
        return [], [f"%{name} = nv_tileaa.constant {{value = {value}}} : {type_}"]
    pointer = f"!nv_tileaa.ptr<{number}, 1>"
    load = "nv_tileas.load" if operational else "nv_tileaa.load"
    return [f"%{name}_p: {pointer}"], [
        f"%{name}_a = nv_tileaa.splat %{name}_p : {pointer} -> tile<{shape}{pointer}>",
        f"%{name} = {load} %{name}_a : tile<{shape}{pointer}> -> {type_}",
    ]


def laid_out(module: ModuleOp) -> None:
    """Give tiles and buffers in shared memory without a layout one of their shape, as ops of nv_tileas have them."""

    for op in list(module.walk()):
        for value in [*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)]:
            if isinstance(value.type, TensorType) and layout_of(value.type) is None:
                shape = tuple(value.type.get_shape())
                layout = spread(shape, WARPS, 1, tuple(reversed(range(len(shape)))))
                Rewriter.replace_value_with_new_type(value, with_layout(value.type, layout))
            if isinstance(value.type, BufferType) and value.type.space == "shared" and value.type.layout is None:
                rows = LayoutAttr(row_major(value.type.shape))
                type_ = BufferType(value.type.shape, value.type.element_type, "shared", rows)
                Rewriter.replace_value_with_new_type(value, type_)
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.body.first_block is not None:
            inputs = [a.type for a in op.body.first_block.args]
            op.properties["function_type"] = FunctionType.from_lists(inputs, list(op.function_type.outputs.data))


# -- what becomes of them ---------------------------------------------------------------------------------------------


@dataclass
class Passes:
    """An observer of a compilation: which ops stood behind which pass for the first time, and behind which they were
    gone."""

    before: set[str]
    made: dict[str, set[str]] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)

    def __call__(self, name: str, module: object) -> None:
        assert isinstance(module, Operation)
        now = {op.name for op in module.walk()}
        for op in now - self.before:
            self.made.setdefault(op, set()).add(name)
        self.gone |= dict.fromkeys(self.before - now, name)
        self.before = now


@dataclass(frozen=True)
class Fate:
    """What becomes of one op on one target: by what it is lowered, or why it is refused."""

    lowered_by: str = ""
    refused: str = ""


EMISSION = "LLVM IR"


def kernel_of(name: str) -> ModuleOp:
    """The sample of an op as a module of a kernel."""
    module = parse(launchable(name), "sample.mlir")
    assert isinstance(module, ModuleOp)
    if name.startswith("nv_tileas."):
        laid_out(module)
    return module


@cache
def compiled(name: str, gpu_name: str) -> tuple[Fate, Passes]:
    """What becomes of the sample of an op on a target."""
    module = kernel_of(name)
    seen = Passes({op.name for op in module.walk()})
    problems = [d.message for d in diagnose(module)]
    if problems:
        return Fate(refused=problems[0]), seen
    try:
        lower(module, Options(gpu_name, emit="llvm"), observer=seen)
    except LoweringError as error:
        return Fate(refused=_reason(error.reason or str(error), gpu_name)), seen
    except DiagnosticError as error:
        return Fate(refused=_reason(error.diagnostics[0].message, gpu_name)), seen
    except LibtileError as error:
        return Fate(refused=_reason(str(error), gpu_name)), seen
    return Fate(lowered_by=seen.gone.get(name, EMISSION)), seen


def _reason(text: str, gpu_name: str) -> str:
    """A message without its place and types, which are the sample's."""
    text = re.sub(r"^sample\.mlir:\d+:\d+: (?:error: )?", "", text.splitlines()[0])
    return re.sub(r" \(types: .*", "", text).replace(f" on {gpu_name}", "")


def made_of_tile_ir() -> Mapping[str, set[str]]:
    """The passes that make each op of a kernel with a row of every op of Tile IR."""
    from matrix.kernel import build
    from matrix.test_matrix import KERNEL_ROWS, OPS, rows

    made: dict[str, set[str]] = {}
    chosen = [row for op in OPS for row in [r for r in rows(op) if not r.feature][:1]]
    for start in range(0, len(chosen), KERNEL_ROWS):
        module = Module(parse(build(chosen[start : start + KERNEL_ROWS]).text)).tile_module
        seen = Passes({op.name for op in module.walk()})
        lower(module, Options("sm_90", emit="tileas"), observer=seen)
        for op, passes in seen.made.items():
            made.setdefault(op, set()).update(passes)
    return made


def made_of_programs() -> Mapping[str, set[str]]:
    """The passes that make each op of the examples, of the documents' programs and of attention by two warpgroups, for
    targets with agents and one without."""
    root, made = Path(__file__).parents[2], dict[str, set[str]]()
    paths = [*sorted((root / "examples").glob("*.bc")), *sorted((root / "test/lowering/documents").glob("*.mlir"))]
    for given in (*paths, attention(128, 64, 128).encode()):
        for gpu_name in ("sm_80", "sm_90", "sm_100"):
            program = load(given)
            seen = Passes({op.name for op in program.walk()})
            lower(program_of(program), Options(gpu_name, emit="tileas"), observer=seen)
            for op, passes in seen.made.items():
                made.setdefault(op, set()).update(passes)
    return made


def made_of_samples() -> Mapping[str, set[str]]:
    """The passes that make each op of the samples of all of them."""
    made: dict[str, set[str]] = {}
    for name in BODIES:
        for gpu_name in TARGETS:
            for op, passes in compiled(name, gpu_name)[1].made.items():
                made.setdefault(op, set()).update(passes)
    return made


ELSEWHERE = {
    "`convert-cuda-tile-to-tileaa`, of assertions that are not known to hold": "assert",
    "`convert-cuda-tile-to-tileaa`, of views of multimem memory":
        "multimem_load_reduce multimem_reduce multimem_store",
    "`convert-cuda-tile-to-tileaa` and `canonicalize-tileaa`, of tokens that are joined": "join_mem_token",
    "`convert-cuda-tile-to-tileaa`, of kernels that return before they multiply": "return_if",
    "`split-over-ctas` and `tileas-specialize`, of clusters": "get_cta_rank nv_tileas.cluster_barrier",
    "`convert-tileaa-to-tileas`, of tiles that are loaded or stored with an order": "nv_tileas.fence",
    "`tileas-materialize-schedule`, of loads through pointers that run ahead": "nv_tileas.async.load",
    "`lower-tma-load-store-to-async`, of accesses outside of agents that have an atom of TMA, or ask for one by a hint":
        """nv_tileas.async.gather_tma_load nv_tileas.async.scatter_tma_store nv_tileas.async.tiled_atomic_rmw
        nv_tileas.create_mbarrier nv_tileas.mbarrier_arrive nv_tileas.mbarrier_wait""",
    "`tileas-allocate-shared-memory`, of barrier objects that are made in a loop": "nv_tileas.invalidate_mbarrier",
}  # fmt: skip
"""By pass, and what it makes them of, the ops that none of these compilations has; those without a dialect are of
nv_tileaa."""
WRITTEN = """assume call call_elementwise_intrinsic cancel_next_program_id clampf conv_dot conv_tile create_queue
    elementwise_inline_asm emulated_fp_to_fp execute expand_dims extern_elementwise gather_load generate histogram
    inject_ir is_valid_program_id launch_func mark_for_reuse message mulhisi optimization_barrier plugin pragma
    queue.get queue.put queue.yield scatter_store nv_tileas.expand_dims nv_tileas.generate nv_tileas.insert_slice
    nv_tileas.view nv_tileas.pragma nv_tileas.tensormap_replace"""
"""Ops that stand for nothing in Tile IR and in other ops: programs that are written in the dialect have them."""


def why_unmade(name: str) -> str | None:
    """Why no pass makes an op in these compilations; None where nothing is known of that."""
    short = name.removeprefix("nv_tileaa.")
    for by, ops in ELSEWHERE.items():
        if short in ops.split():
            return f"made by {by}"
    return "programs have it that are written in the dialect" if short in WRITTEN.split() else None


def unmade_lines(ops: Sequence[str]) -> list[str]:
    """The list of ops that no pass makes, each with its reason."""
    by_reason: dict[str, list[str]] = {}
    for name in ops:
        by_reason.setdefault(why_unmade(name) or "", []).append(f"`{name}`")
    lines = [f"- {reason}: {', '.join(named)}" for reason, named in by_reason.items()]
    return ["Made by no pass in these compilations:", "", *lines, ""] if lines else []


def cell(name: str, gpu_name: str) -> tuple[str, Passes]:
    """What the table says of an op on a target, and what was seen of its compilation. An op without a sample of its own
    is part of others: what is known of it is whether LLVM IR may hold it."""
    if name not in BODIES:
        return PART if STAGE.takes(OP_CLASSES[name]) or name in STRUCTURE_OF_MODULES else "refused", Passes(set())
    fate, seen = compiled(name, gpu_name)
    return "refused" if fate.refused else "yes", seen


def row(name: str, found: Mapping[str, set[str]]) -> tuple[str, dict[str, str]]:
    """The line of an op in the table, with the passes that were found to make it, and by target why it is refused."""
    made, ways = set(found.get(name, ())), set()
    cells, refused = [], {}
    for gpu_name in TARGETS:
        if name not in BODIES:
            cells.append(cell(name, gpu_name)[0])
            continue
        fate, seen = compiled(name, gpu_name)
        made |= seen.made.get(name, set())
        cells.append("refused" if fate.refused else "yes")
        if fate.refused:
            refused[gpu_name] = fate.refused
        else:
            ways.add(EMISSION if fate.lowered_by == EMISSION else f"`{fate.lowered_by}`")
    if name not in BODIES and STAGE.takes(OP_CLASSES[name]):
        ways.add(EMISSION)
    shown = [f"`{name}`", ", ".join(f"`{p}`" for p in sorted(made)), ", ".join(sorted(ways)), *cells]
    return f"| {' | '.join([*shown, 'yes' if interpreted(name) else 'no'])} |", refused


def interpreted(name: str) -> bool:
    """Whether the interpreter has a rule for an op."""
    return name in RULES or name in STRUCTURE or name in STRUCTURE_OF_MODULES


def names() -> Iterator[str]:
    """Every op of the two dialects."""
    return iter(sorted(OP_CLASSES))


def page() -> str:
    """The whole page."""
    lines, made = [INTRODUCTION], dict(made_of_tile_ir())
    for found in (made_of_programs(), made_of_samples()):
        for op, passes in found.items():
            made[op] = made.get(op, set()) | passes
    for dialect in ("nv_tileaa", "nv_tileas"):
        heads = ["op", "made by", "lowered by", *TARGETS, "interpreter"]
        lines += [f"## {dialect}", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        refused: list[str] = []
        unmade: list[str] = []
        for name in (n for n in names() if n.startswith(f"{dialect}.")):
            line, why = row(name, made)
            lines.append(line)
            if not made.get(name):
                unmade.append(name)
            for reason in dict.fromkeys(why.values()):
                where = [t for t in TARGETS if why.get(t) == reason]
                refused.append(f"- `{name}`{'' if len(where) == len(TARGETS) else ' on ' + ', '.join(where)}: {reason}")
        lines += ["", *unmade_lines(unmade), *(["Refused:", "", *refused, ""] if refused else [])]
    return "\n".join([*lines, *inner_symbols.lines()])


if __name__ == "__main__":
    PAGE.write_text(page())
