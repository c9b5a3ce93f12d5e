# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/gallery.md: its table is that of the examples' remarks, its pictures those of what gemm becomes.

`python test/explore/test_gallery.py` makes them anew.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import libtile
from explore.conftest import GEMM, ROOT
from libtile.asm.module import load
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.explore import Compilation, Record, explore
from libtile.explore.agents import SIGNAL, WAIT, timeline
from libtile.layouts import show
from libtile.layouts.linear import LinearLayout

PAGE = ROOT / "docs" / "gallery.md"
PICTURES = ROOT / "docs" / "gallery"
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end -->)", re.DOTALL)
STALE = "is stale: run `python test/explore/test_gallery.py`"
CORNER = (16, 16)

_REMARK = re.compile(r"^--- !(\w+)\n(.*?)^\.\.\.", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"(?:  - )?(\w+): +(.*)")


def remarks(kernel: str, target: str) -> list[dict[str, str]]:
    text = (ROOT / "examples" / "remarks" / f"{kernel}.{target}.yaml").read_text(encoding="utf-8")
    return [dict(_FIELD.findall(body)) | {"Kind": kind} for kind, body in _REMARK.findall(text)]


def counted(texts: list[str]) -> str:
    return ", ".join(f"{count} {text}" for text, count in Counter(texts).items()) or "none"


def row(kernel: str, target: str) -> str:
    found = remarks(kernel, target)
    products = [r["Instruction"] for r in found if r["Name"] == "RemarkTensorCoreMMA" and r["Kind"] == "Passed"]
    loads = [r["Instruction"] for r in found if r["Name"] == "RemarkMemoryLoadInstructionSelected"]
    stores = [r["Instruction"] for r in found if r["Name"] == "RemarkMemoryStoreInstructionSelected"]
    cells = [
        text.replace(" instruction", "").replace("Global-memory ", "plain ")
        for text in map(counted, (products, loads, stores))
    ]
    return f"| [{kernel}](../examples/{kernel}.py) | {target} | {' | '.join(cells)} |\n"


def table() -> str:
    kernels = sorted(path.stem for path in (ROOT / "examples").glob("*.bc"))
    head = "\n| kernel | target | products | loads | stores |\n|---|---|---|---|---|\n"
    return head + "".join(row(kernel, target) for kernel in kernels for target in ("sm_80", "sm_90")) + "\n"


def accumulator(record: Record, made: Compilation) -> str:
    """The corner of the layout of what a product gives."""
    dots = [line for line in made.listings["nv_tileas"].lines if re.search(r"nv_tileas\.(async\.)?dot ", line)]
    name = re.findall(r"#layout\d+", dots[0].split(" -> ")[-1])[0]
    layout = next(layout for layout in record.layouts if layout.name == name)
    # Vectors are distances that no other vector has a part of, so that those within the corner are its own.
    bases = {
        kind: [v for v in vectors if all(at < size for at, size in zip(v, CORNER))]
        for kind, vectors in layout.bases.items()
    }
    return show.svg(
        LinearLayout.of(bases, {f"dim{n}": size for n, size in enumerate(CORNER)}), f"gemm, {made.gpu_name}"
    )


def pictures(record: Record) -> dict[str, str]:
    found = {}
    for made in record.compilations:
        agents = made.kernels[0].timeline
        assert agents is not None
        found[f"accumulator-{made.gpu_name}.svg"] = accumulator(record, made)
        found[f"agents-{made.gpu_name}.svg"] = agents.picture()
    return found


def test_the_table_is_that_of_the_remarks() -> None:
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None and found[0] == table(), f"docs/gallery.md {STALE}"


def test_the_pictures_are_those_of_what_gemm_becomes(record: Record) -> None:
    made = pictures(record)
    assert {path.name for path in PICTURES.iterdir()} == set(made)
    for name, text in made.items():
        assert (PICTURES / name).read_text(encoding="utf-8") == text, f"docs/gallery/{name} {STALE}"
        assert f"(gallery/{name})" in PAGE.read_text(encoding="utf-8")


def test_an_agent_waits_for_what_another_says(record: Record) -> None:
    made = next(c for c in record.compilations if c.gpu_name == "sm_90").kernels[0].timeline
    assert made is not None and made.pipelines[0].stages > 1
    consumer, producer = made.agents
    assert (consumer.warps, consumer.one_thread, producer.one_thread) == (4, False, True)
    assert [(s.kind, s.text, s.pipeline) for s in producer.steps] == [
        (WAIT, "wait: stage free", 0), ("move", "TMA copy", None), (SIGNAL, "stage is full", 0),
    ]  # fmt: skip
    assert producer.steps[1].count == 2 and producer.loops == [(0, 2)]
    assert {s.text for s in consumer.steps if s.pipeline == 0} == {"wait: stage full", "stage is free"}


def test_an_agent_of_whole_warps_copies_where_there_is_no_tma() -> None:
    text = libtile.compile(GEMM, gpu_name="sm_80", schedule="specialized", emit="tileas").tileas
    made = timeline(next(op for op in load(text.encode()).walk() if isinstance(op, FuncOp)))
    consumer, producer = made.agents
    assert [(agent.warps, agent.one_thread) for agent in made.agents] == [(4, False), (1, False)]
    assert [(s.text, s.count) for s in producer.steps] == [
        ("wait: stage free", 1), ("async copy", 2), ("stage is full", 1),
    ]  # fmt: skip
    assert {s.text for s in consumer.steps if s.pipeline == 0} == {"wait: stage full", "stage is free"}


TWO_ALIKE = """
!ring = !nv_tileas.pipeline<2, (tile<4xf32>)>
!place = !nv_tileas.pipeline_iterator<!ring>
!filling = !nv_tileas.producer_token<(tile<4xf32>)>
!held = !nv_tileas.consumer_token<(tile<4xf32>)>
nv_tileaa.func @k() attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>} {
  %p = nv_tileas.async.pipeline.create_pipeline : !ring
  %q = nv_tileas.async.pipeline.create_pipeline : !ring
  %i = nv_tileas.async.pipeline.create_iterator %p : !ring -> !place
  %j = nv_tileas.async.pipeline.create_iterator %q : !ring -> !place
  %t = nv_tileas.async.pipeline.producer_acquire %q, %j : !ring, !place -> !filling
  %w = nv_tileas.async.pipeline.producer_write %t, %j ({
  ^bb0(%slot: tensor<4xf32>):
    nv_tileas.async.pipeline.yield
  }) : !filling, !place -> !filling
  nv_tileas.async.pipeline.producer_commit %w : !filling
  %h = nv_tileas.async.pipeline.consumer_wait %q, %j : !ring, !place -> !held
  nv_tileas.async.pipeline.consumer_release %h : !held
  nv_tileaa.return
}
"""


def test_pipelines_that_hold_the_same_are_told_apart() -> None:
    made = timeline(next(op for op in load(TWO_ALIKE.encode()).walk() if isinstance(op, FuncOp)))
    assert len(made.pipelines) == 2 and [step.pipeline for step in made.agents[0].steps] == [1, 1, 1, 1]


if __name__ == "__main__":
    for name, text in pictures(explore(GEMM, ["sm_90", "sm_80"], source_folders=[ROOT])).items():
        (PICTURES / name).write_text(text, encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
