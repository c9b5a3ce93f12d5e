# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small inputs that once broke or flooded the tools: each compiles in a moment, or is refused in words of its own.

Those of `odd/` are tested here. What is odd only as bytes stands in `test/bytecode/odd` (names with newlines, hints of
a NUL, hints that 13.1 has not, a scope in place of a location, a type against the rules), the worked product of the
documents in `test/lowering/documents`.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline

FOLDER = Path(__file__).parent / "odd"
SECONDS, MEGABYTES = 10, 300

COMPILED: dict[str, list[dict[str, Any]]] = {
    # Code that was inlined from another file or compile unit: ptxas took its lines for overlapping data.
    "debug-inline": [{"opt_level": 0, "debug": True}, {"line_info": True}],
    "debug-inline2": [{"opt_level": 0, "debug": True}, {"line_info": True}],
    "overlapping": [{"opt_level": 0, "debug": True}, {"line_info": True}],
    # Names of files with quotes in them.
    "inject": [{"line_info": True}],
    "q1": [{"line_info": True}],
    "q2": [{"line_info": True}],
    # What took time that grows faster than the input.
    "nested-for40": [{}, {"opt_level": 0}],
    "big65536-addf": [{}, {"opt_level": 0}],
    "big65536-tanh": [{}],
    "big1048576-addf": [{}],
    "big4194304-addf": [{}, {"opt_level": 0}],
    "hang-o0": [{"opt_level": 0}],
    # Sizes beyond any memory: it is the driver that has not got as much.
    "alloca-align": [{}],
    "alloca-used": [{}],
}
"""What compiles, and with which options."""

REFUSED = {
    "glob-align": "'nv_tileaa.global' op asks for an alignment of 1073741824 bytes, and 65536 is the most on sm_90",
    "global-big": "'nv_tileaa.global' op has 67108864 bytes of initial values that are not all zero, and 16777216 is",
}
"""What the compiler refuses."""

MALFORMED = {
    "int02": "1:24: error: expected '=' after SSA name",
    "text-09567b3a-1": "error: 'nv_tileas.async.tiled_tma_load' op attribute 'tmaIdx' failed to satisfy its constraint",
    "text-69cfe709-1": "1:210: error: expected '<' and the parameters of 'nv_tileas.copy_atom'",
    "text-8dd2d497-1": "1:25: error: expected '<' and the parameters of 'nv_tileaa.tiled_view'",
    "text-8dd2d497-2": "1:44: error: expected '<' and the parameters of 'nv_tileas.buffer'",
    "text-debee0f7-1": "1:152: error: 'builtin.module' op Expected 0 operands, but got 2",
    "text-ee94c594-1": "1:24: error: expected '=' after SSA name",
    "tv": "1:25: error: expected '<' and the parameters of 'nv_tileaa.tiled_view'",
}
"""What is not read, or not valid."""

NOT_CONVERTED = {
    "call": "1:1: 'nv_tileaa.func' op is no kernel, and functions are not called in nv_tileas",
    "drop2": "2:3: 'nv_tileaa.execute' op has a region, which cannot be converted to nv_tileas",
    "queue": "'nv_tileaa.create_queue' op has a type that hands on tiles, which would get no layout",
    "sd": "'nv_tileaa.dot' op has scale factors: the block-scaled product that can be converted is",
}
"""What `convert-tileaa-to-tileas` does not take."""


def test_every_input_is_looked_at() -> None:
    tested = {*COMPILED, *REFUSED, *MALFORMED, *NOT_CONVERTED, "argl"}
    assert {path.stem for path in FOLDER.iterdir()} == tested


def within_bounds(work: Callable[[], Any]) -> Any:
    """What the work gives; fails when it takes too long, or too much memory of this process."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    result = work()
    assert time.process_time() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES << 10
    return result


@pytest.mark.parametrize(
    ("name", "options"), [(name, options) for name, given in COMPILED.items() for options in given], ids=str
)
def test_it_compiles(name: str, options: dict[str, Any]) -> None:
    module = libtile.parse((FOLDER / f"{name}.mlir").read_text(), filename=f"{name}.mlir")
    made = within_bounds(lambda: libtile.compile(module, "sm_90", **options))
    assert made.cubin.startswith(b"\x7fELF") and len(made.cubin) < 1 << 20
    assert "EVIL" not in "".join(line for line in made.ptx.splitlines() if not line.lstrip().startswith(".file"))


@pytest.mark.parametrize("name", REFUSED)
def test_the_compiler_refuses_it(name: str) -> None:
    module = libtile.parse((FOLDER / f"{name}.mlir").read_text(), filename=f"{name}.mlir")
    with pytest.raises(libtile.LibtileError) as refused:
        within_bounds(lambda: libtile.compile(module, "sm_90"))
    assert REFUSED[name] in str(refused.value)


@pytest.mark.parametrize("name", MALFORMED)
def test_it_is_not_valid(name: str) -> None:
    with pytest.raises(libtile.LibtileError) as refused:
        libtile.verify(libtile.parse((FOLDER / f"{name}.mlir").read_text(), filename=f"{name}.mlir"))
    assert str(refused.value).startswith(f"{name}.mlir:1:") and MALFORMED[name] in str(refused.value)


def converted(name: str) -> str:
    module = libtile.parse((FOLDER / f"{name}.mlir").read_text(), filename=f"{name}.mlir")
    PassManager(parse_pipeline("convert-tileaa-to-tileas")).run(module.op)
    return str(module)


@pytest.mark.parametrize("name", NOT_CONVERTED)
def test_it_is_not_converted(name: str) -> None:
    with pytest.raises(libtile.LibtileError) as refused:
        converted(name)
    assert str(refused.value).startswith(f"{name}.mlir:") and NOT_CONVERTED[name] in str(refused.value)


def test_a_tile_that_a_kernel_takes_has_the_layout_of_a_tile() -> None:
    text = converted("argl")
    assert text.count("tile<4x8xf32, #nv_tileas.layout<register=[], lane=[[0,1],[0,2],[0,4],[1,0],[2,0]]") == 2
