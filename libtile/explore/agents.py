# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A kernel's agents and pipelines: what each group of warps does, step by step, what it waits for, and whom it lets go
on. The order is the program's; how long steps take is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from xdsl.ir import Operation, SSAValue

from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas import pipeline as p
from libtile.dialects.nv_tileas.types import BufferType, ConsumerTokenType, PipelineType, ProducerTokenType
from libtile.dialects.scf import ForOp, WhileOp
from libtile.ir.tile_form import type_text
from libtile.lowering.tileas.memory.shared_memory import tile_bytes
from libtile.support.records import dataclass, field

WAIT, MOVE, COMPUTE, SIGNAL = "wait", "move", "compute", "signal"

_STEPS = {
    "nv_tileas.async.pipeline.producer_acquire": (WAIT, "wait: stage free"),
    "nv_tileas.async.pipeline.consumer_wait": (WAIT, "wait: stage full"),
    "nv_tileas.async.pipeline.producer_commit": (SIGNAL, "stage is full"),
    "nv_tileas.async.pipeline.consumer_release": (SIGNAL, "stage is free"),
    "nv_tileas.wait_dot": (WAIT, "wait: products"),
    "nv_tileas.async.wait": (WAIT, "wait: copies"),
    "nv_tileas.dot": (COMPUTE, "product"),
    "nv_tileas.scaled_dot": (COMPUTE, "product"),
    "nv_tileas.async.dot": (COMPUTE, "issue product"),
    "nv_tileas.async.dot_into": (COMPUTE, "issue product"),
    "nv_tileas.reduce": (COMPUTE, "reduce"),
    "nv_tileas.scan": (COMPUTE, "scan"),
    "nv_tileas.convert_layout": (MOVE, "exchange"),
    "nv_tileas.copy": (MOVE, "copy"),
    "nv_tileas.tiled_load": (MOVE, "load"),
    "nv_tileas.load": (MOVE, "load"),
    "nv_tileas.tiled_store": (MOVE, "store"),
    "nv_tileas.store": (MOVE, "store"),
    "nv_tileas.async.tiled_load": (MOVE, "async copy"),
    "nv_tileas.async.load": (MOVE, "async copy"),
    "nv_tileas.async.tiled_tma_load": (MOVE, "TMA copy"),
    "nv_tileas.async.gather_tma_load": (MOVE, "TMA copy"),
    "nv_tileas.async.tiled_tma_store": (MOVE, "TMA store"),
    "nv_tileas.async.scatter_tma_store": (MOVE, "TMA store"),
}
"""What is shown, by the name of the op: what other warps, memory or tensor cores have to do with."""


_TOKENS = (ConsumerTokenType, ProducerTokenType)
_SPACES = {"shared": "", "tmem": " of tensor memory"}


@dataclass
class Step:
    """Something that an agent does, `count` times in a row, at a stage of `pipeline` if it has to do with one."""

    kind: str
    text: str
    pipeline: int | None = None
    count: int = 1


@dataclass
class Agent:
    """So many of a kernel's warps (0: all of them), or one thread of these. `loops` are the first and the last step of
    each loop."""

    warps: int = 0
    one_thread: bool = False
    steps: list[Step] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Pipeline:
    """Buffers that are filled and emptied in turns: so many stages of so many bytes, and what a stage holds."""

    stages: int
    bytes: int
    holds: str


@dataclass
class Timeline:
    """The agents of a kernel, all of its warps where they are not parted, and its pipelines."""

    agents: list[Agent]
    pipelines: list[Pipeline]

    def picture(self) -> str:
        """The agents beside each other, as SVG."""
        return "\n".join(_drawn(self)) + "\n"


def timeline(function: FuncOp) -> Timeline:
    """What the agents of a kernel of nv_tileas do, in a module that the compiler's pipeline leaves."""
    created = [op for op in function.walk() if isinstance(op, p.CreatePipelineOp)]
    numbers: dict[SSAValue, int] = {op.pipeline: number for number, op in enumerate(created)}
    switch = next((op for op in function.walk() if isinstance(op, p.AgentSwitchOp)), None)
    agents = []
    if switch is None:
        agents.append(Agent())
        _add(agents[0], function, numbers)
    else:
        for region, count, elected in zip(switch.regions, switch.warps, switch.elected):
            agents.append(Agent(count, elected))
            for block in region.blocks:
                for op in block.ops:
                    _add_op(agents[-1], op, numbers)
    return Timeline(agents, [_pipeline(op) for op in created])


def _pipeline(op: p.CreatePipelineOp) -> Pipeline:
    type_ = op.pipeline.type
    assert isinstance(type_, PipelineType)  # the op's verifier has checked it
    held = [t for t in type_.element_types if isinstance(t, BufferType)]
    texts = ["x".join([*map(str, t.shape), type_text(t.element_type)]) + _SPACES[t.space] for t in held]
    return Pipeline(type_.stages, sum(map(tile_bytes, held)), ", ".join(texts))


def _add(agent: Agent, op: Operation, numbers: dict[SSAValue, int]) -> None:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                _add_op(agent, inner, numbers)


def _add_op(agent: Agent, op: Operation, numbers: dict[SSAValue, int]) -> None:
    if op.name in _STEPS:
        kind, text = _STEPS[op.name]
        step = Step(kind, text, _number(op, numbers))
        last = agent.steps[-1] if agent.steps else None
        inside = not any(end == len(agent.steps) - 1 for _, end in agent.loops)
        if last is not None and inside and (last.kind, last.text, last.pipeline) == (kind, text, step.pipeline):
            last.count += 1
        else:
            agent.steps.append(step)
    if (number := _number(op, numbers)) is not None:
        numbers.update({value: number for value in op.results if isinstance(value.type, _TOKENS)})
    first = len(agent.steps)
    _add(agent, op, numbers)
    if isinstance(op, ForOp | WhileOp) and len(agent.steps) > first:
        agent.loops.append((first, len(agent.steps) - 1))


def _number(op: Operation, numbers: dict[SSAValue, int]) -> int | None:
    """The pipeline that a step is of: by its operands, a pipeline or the token of a turn; one that a loop carries, by
    what it carries itself."""
    for operand in op.operands:
        if operand in numbers:
            return numbers[operand]
    if isinstance(op, p.ProducerCommitOp | p.ConsumerReleaseOp):
        carried = p.carried_types(op.token.type)
        fitting = {
            number
            for value, number in numbers.items()
            if isinstance(value.type, PipelineType) and p.carried_types(value.type) == carried
        }
        return fitting.pop() if len(fitting) == 1 else None
    return None


# -- the picture ------------------------------------------------------------------------------------------------------

_BOX, _ROW, _LEFT, _TOP = 116, 92, 112, 30
_STYLE = """
svg { font: 12px system-ui, sans-serif; color-scheme: light dark; --ink: #1b1f24; --faint: #656d76; --paper: #ffffff;
  --wait: #fff1c2; --move: #cfe3ff; --compute: #c6ecd0; --signal: #eadcff; --line: #8c959f; }
@media (prefers-color-scheme: dark) { svg { --ink: #e6edf3; --faint: #8d96a0; --paper: #0d1117; --wait: #5a4a0c;
  --move: #123a6b; --compute: #14532d; --signal: #46307a; --line: #6e7681; } }
text { fill: var(--ink); text-anchor: middle; } .left { text-anchor: start; } .faint { fill: var(--faint); }
.paper { fill: var(--paper); } .box { stroke: var(--line); }
.wait { fill: var(--wait); } .move { fill: var(--move); } .compute { fill: var(--compute); }
.signal { fill: var(--signal); }
.loop { fill: none; stroke: var(--line); stroke-dasharray: 5 3; } .arrow { fill: none; stroke: var(--line); }
"""


def _drawn(told: Timeline) -> Iterator[str]:
    longest = max((len(agent.steps) for agent in told.agents), default=0)
    width = _LEFT + _BOX * max(longest, 4) + 20
    height = _TOP + _ROW * len(told.agents) + 22 * len(told.pipelines) + 10
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    yield f"<style>{_STYLE}</style>"
    yield '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    yield '<path d="M0 0 L8 4 L0 8 z" style="fill: var(--line)"/></marker></defs>'
    yield f'<rect class="paper" width="{width}" height="{height}"/>'
    yield from _arrows(told)
    for row, agent in enumerate(told.agents):
        y = _TOP + _ROW * row
        yield f'<text class="left" x="10" y="{y + 22}">agent {row}</text>'
        who = "one thread" if agent.one_thread else f"{agent.warps} warps" if agent.warps else "all warps"
        yield f'<text class="left faint" x="10" y="{y + 38}">{who}</text>'
        for number, step in enumerate(agent.steps):
            x = _LEFT + _BOX * number
            yield f'<rect class="box {step.kind}" x="{x}" y="{y}" width="{_BOX - 12}" height="48" rx="4"/>'
            times = f" × {step.count}" if step.count > 1 else ""
            yield f'<text x="{x + (_BOX - 12) / 2}" y="{y + 21}">{escape(step.text)}{times}</text>'
            if step.pipeline is not None:
                yield f'<text class="faint" x="{x + (_BOX - 12) / 2}" y="{y + 38}">pipeline {step.pipeline}</text>'
        for first, last in agent.loops:
            x, long = _LEFT + _BOX * first - 6, _BOX * (last - first + 1)
            yield f'<rect class="loop" x="{x}" y="{y - 7}" width="{long}" height="62" rx="6"/>'
            yield f'<text class="faint left" x="{x + 4}" y="{y - 10}">each iteration</text>'
    for number, pipeline in enumerate(told.pipelines):
        y = _TOP + _ROW * len(told.agents) + 22 * number + 8
        stages = "1 stage" if pipeline.stages == 1 else f"{pipeline.stages} stages"
        said = f"pipeline {number}: {stages} of {pipeline.bytes} bytes: {pipeline.holds}"
        yield f'<text class="left faint" x="10" y="{y}">{escape(said)}</text>'
    yield "</svg>"


_LETS_GO = {"stage is full": "wait: stage full", "stage is free": "wait: stage free"}


def _arrows(told: Timeline) -> Iterator[str]:
    """From each signal to where another agent waits for it."""
    places = [(row, number, step) for row, agent in enumerate(told.agents) for number, step in enumerate(agent.steps)]
    for row, number, step in places:
        for other, at, waiting in places:
            if other == row or _LETS_GO.get(step.text) != waiting.text or step.pipeline != waiting.pipeline:
                continue
            down = other > row
            x1, x2 = (_LEFT + _BOX * n + (_BOX - 12) / 2 for n in (number, at))
            y1 = _TOP + _ROW * row + (48 if down else 0)
            y2 = _TOP + _ROW * other + (0 if down else 48)
            bend = (y1 + y2) / 2
            path = f"M{x1} {y1} C{x1} {bend} {x2} {bend} {x2} {y2}"
            yield f'<path class="arrow" marker-end="url(#end)" d="{path}"/>'
