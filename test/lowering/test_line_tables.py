# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The line tables of cubins, read back: accesses lead to the lines of loads and stores, whatever the locations are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import libtile
from libtile import bytecode
from libtile.backend import ptxas
from libtile.bytecode.model import DebugInfo, make_debug
from libtile.dialects.cuda_tile.locations import source_location
from line_tables import TEXT, TILE_IR, dwarf, instructions, lines_of, rows, sections

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
MODES = {"O0 -g": (0, {"debug": True}), "O3 --lineinfo": (3, {"line_info": True})}
OPTIMIZED = {f"O{level} -g --dopt=on": (level, {"debug": True, "dopt": True}) for level in (1, 2, 3)}
MOVED = {
    ("attention", gpu, mode): {("examples/attention.py", 39)}
    for gpu in TARGETS
    for mode in (["O3 --lineinfo", *OPTIMIZED] if gpu == "sm_80" else ["O1 -g --dopt=on"])
}
"""Lines that accesses lead to beside their own: LLVM takes the location from an instruction that it moves out of a
loop, and the line before it stays in force."""
DEFAULT = {
    *(("vector_add", "sm_90", mode) for mode in (*MODES, "O1 -g --dopt=on")),
    *(("histogram", "sm_120", mode) for mode in MODES),
}

COMPILED = [
    pytest.param(path.stem, gpu, mode, marks=[] if (path.stem, gpu, mode) in DEFAULT else pytest.mark.slow)
    for path in sorted(EXAMPLES.glob("*.bc"))
    for gpu in TARGETS
    for mode in (*MODES, *OPTIMIZED)
]


def compiled(name: str, gpu: str, mode: str) -> bytes:
    level, options = {**MODES, **OPTIMIZED}[mode]
    return libtile.compile(EXAMPLES / f"{name}.bc", gpu, level, **options).cubin


def accesses(name: str) -> list[tuple[str, int, str]]:
    """(file, line, mnemonic) of the ops that access global memory."""
    module = libtile.read(EXAMPLES / f"{name}.bc").tile_module
    found = []
    for op in module.walk():
        if any(word in op.name for word in ("load_", "store_", "atomic_")):
            place = source_location(op.location)
            assert place is not None
            found.append((place.filename, place.line, op.name.removeprefix("cuda_tile.")))
    return found


@pytest.mark.parametrize(("name", "gpu", "mode"), COMPILED)
def test_accesses_lead_to_the_lines_of_loads_and_stores(name, gpu, mode, tmp_path):
    expected = {(file, line) for file, line, _ in accesses(name)}
    found = lines_of(compiled(name, gpu, mode), tmp_path)
    assert found - MOVED.get((name, gpu, mode), set()) == expected


@pytest.mark.parametrize(("name", "gpu", "mode"), COMPILED)
def test_accesses_lead_to_loads_and_stores_in_the_text_of_the_tile_ir(name, gpu, mode, tmp_path):
    cubin = compiled(name, gpu, mode)
    (text,) = (data.decode() for section, data in sections(cubin).items() if section.startswith(TEXT))
    found = lines_of(cubin, tmp_path, table=TILE_IR)
    assert all(file.endswith(next(s for s in sections(cubin) if s.startswith(TEXT))) for file, _ in found)
    lines = [text.split("\n")[line - 1] for _, line in found]
    mnemonics = {mnemonic for _, _, mnemonic in accesses(name)}
    other = [line for line in lines if not any(f" {m} " in line for m in mnemonics)]
    assert len(other) == len(MOVED.get((name, gpu, mode), ()))
    assert len(lines) - len(other) == len(accesses(name))


KERNEL = """
#f = #cuda_tile.di_file<"{file}" in "{directory}">
#g = #cuda_tile.di_file<"{file}" in "/elsewhere">
#u = #cuda_tile.di_compile_unit<file = #f>
#v = #cuda_tile.di_compile_unit<file = #g>
#k = #cuda_tile.di_subprogram<
  file = #f, line = {line}, name = "{name}", linkageName = "k", compileUnit = #u, scopeLine = {line}>
#h = #cuda_tile.di_subprogram<file = #g, line = 10, name = "h", linkageName = "h", compileUnit = #v, scopeLine = 10>
#b = #cuda_tile.di_lexical_block<scope = #k, file = #f, line = {line}, column = {column}>
#c = #cuda_tile.di_lexical_block<scope = #b, file = #g, line = 8, column = 0>
#at = #cuda_tile.di_loc<loc("{file}":3:{column}) in #k>
#in = #cuda_tile.di_loc<loc("{file}":11:6) in #h>
cuda_tile.module @m {{ entry @k(%p: tile<ptr<i32>>) {{
  %x = constant <i32: 7> : tile<i32> loc(#at)
{stores}
  return loc(#at) }} loc({place}) }}
"""
USUAL = {
    "file": "a.py", "directory": "/src", "line": 1, "name": "k", "column": 4,
    "place": '#cuda_tile.di_loc<loc("a.py":1:0) in #k>',
}  # fmt: skip


def di(line: int, scope: str = "k", file: str = "a.py", column: int = 1) -> str:
    return f'#cuda_tile.di_loc<loc("{file}":{line}:{column}) in #{scope}>'


def kernel(*locations: str, **changes: object) -> bytes:
    """A kernel with a store at each location."""
    store = "  %t{} = store_ptr_tko weak %p, %x : tile<ptr<i32>>, tile<i32> -> token loc({})"
    stores = "\n".join(store.format(number, location) for number, location in enumerate(locations or ("#at",)))
    return KERNEL.format(**{**USUAL, **changes, "stores": stores}).encode()


LOCATIONS: dict[str, tuple[str, tuple[str, int]]] = {
    "the last line": (di(0x7FFFFFFF), ("/src/a.py", 0x7FFFFFFF)),
    "a column of 16 bits": (di(20, column=0xFFFF), ("/src/a.py", 20)),
    "a column of more": (di(21, column=0x10000), ("/src/a.py", 21)),
    "a block in a block of another file": (di(22, "c"), ("/elsewhere/a.py", 22)),
    "another file": (di(23, file="z.py"), ("z.py", 23)),
    "a name": (f'"x"({di(24)})', ("/src/a.py", 24)),
    "fused": (f"fused[unknown, {di(25)}]", ("/src/a.py", 25)),
    "fused with a number": (f"fused<77 : i32>[{di(26)}]", ("/src/a.py", 26)),
    "unknown: what is around it": ("unknown", ("/src/a.py", 1)),
    "without a scope": ('"q.py":28:2', ("q.py", 28)),
    "inlined, in a file of the same name": (f"callsite({di(29, 'h')} at #at)", ("/elsewhere/a.py", 29)),
    "inlined twice": (f"callsite({di(30, 'h')} at callsite({di(31, 'h')} at #at))", ("/elsewhere/a.py", 30)),
    "inlined at a large column": (f"callsite({di(32, 'h')} at {di(3, column=0x10000)})", ("/elsewhere/a.py", 32)),
    "recursive": (f"callsite({di(33)} at #at)", ("/src/a.py", 33)),
    "inlined at an unknown place": (f"callsite({di(34, 'h')} at unknown)", ("/src/a.py", 34)),
    "inlined in a file without a scope": (f'callsite({di(35, "h")} at "z.py":7:1)', ("/elsewhere/a.py", 35)),
    "an unknown place, inlined": (f"callsite(unknown at {di(36)})", ("/src/a.py", 36)),
    "a place without a scope, inlined": ('callsite("z.py":37:1 at #at)', ("z.py", 37)),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_form_of_location_leads_where_it_says(mode, tmp_path):
    level, options = MODES[mode]
    made = libtile.compile(kernel(*(text for text, _ in LOCATIONS.values())), "sm_90", level, **options)
    assert lines_of(made.cubin, tmp_path) == {place for _, place in LOCATIONS.values()}
    of_tile_ir = {line for _, line in lines_of(made.cubin, tmp_path, table=TILE_IR)}
    assert of_tile_ir == set(range(3, 3 + len(LOCATIONS)))


ODD: dict[str, tuple[dict[str, object], tuple[str, int]]] = {
    "no file name": ({"file": "", "place": di(1, file="")}, ("/src/<unknown>", 3)),
    "no directory": ({"directory": ""}, ("a.py", 3)),
    "a directory with a slash": ({"directory": "/src/", "column": 0}, ("/src/a.py", 3)),
    "a path for a name": ({"file": "b/a.py"}, ("/src/b/a.py", 3)),
    "an absolute name": ({"file": "/b/a.py"}, ("/b/a.py", 3)),
    "no name of the function": ({"name": "", "line": 0}, ("/src/a.py", 3)),
    "a fused location of the function": ({"place": "fused[unknown, #at]"}, ("/src/a.py", 3)),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_files_and_functions_compile_and_lead_where_they_say(case, tmp_path):
    changes, expected = ODD[case]
    made = libtile.compile(kernel(**changes), "sm_90", 0, debug=True)
    assert lines_of(made.cubin, tmp_path) == {expected}


def test_line_0_is_no_line():
    made = libtile.compile(kernel(di(0)), "sm_90", line_info=True, emit="ptx")
    assert re.search(r"\.loc\s+1 0 1\n", made.ptx)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "module",
    [kernel(line=1 << 31), kernel(di(1 << 31)), kernel(f"callsite(#in at {di(1 << 31)})")],
    ids=["a function", "an op", "a call"],
)
def test_a_line_beyond_what_debug_information_can_hold_is_refused_where_it_is(module, mode):
    level, options = MODES[mode]
    with pytest.raises(libtile.LibtileError, match=r"a\.py:\d+:\d: line 2147483648 is beyond 2147483647"):
        libtile.compile(module, "sm_90", level, emit="ptx", **options)
    assert libtile.compile(module, "sm_90", 3, emit="ptx").ptx


def test_the_simulator_runs_without_lines_what_has_one_beyond():
    assert libtile.run(kernel(di(1 << 31)), args=[np.zeros(8, np.float32)], backend="simulator").blocks == 1


def bytecode_at(location: Callable[[DebugInfo, DebugInfo], DebugInfo | None]) -> bytes:
    """Bytecode of a kernel whose ops stand where `location` says, of its file and its subprogram."""
    module = bytecode.read(libtile.write(libtile.parse("cuda_tile.module @m { entry @k() { return } }"), "13.4"))
    file = make_debug("di_file", "a.py", "/src")
    unit = make_debug("di_compile_unit", file)
    function = make_debug("di_subprogram", file, 1, "k", "k", unit, 1)
    module.functions[0].location = make_debug("di_loc", function, "a.py", 1, 1)
    module.functions[0].body.operations[0].location = location(file, function)
    return bytecode.write(module, "13.4")


def calls(file: DebugInfo, function: DebugInfo) -> DebugInfo:
    """A location inlined 500 times."""
    unit = make_debug("di_compile_unit", file)
    at = make_debug("di_loc", function, "a.py", 3, 1)
    for number in range(500):
        helper = make_debug("di_subprogram", file, 9, "h", "h", unit, 9)
        at = make_debug("call_site", make_debug("di_loc", helper, "a.py", 20 + number, 1), at)
    return at


def callees(file: DebugInfo, function: DebugInfo) -> DebugInfo:
    """The same, nested the other way around."""
    at = make_debug("di_loc", function, "a.py", 3, 1)
    for _ in range(500):
        at = make_debug("call_site", at, make_debug("di_loc", function, "a.py", 5, 1))
    return at


def blocks(file: DebugInfo, function: DebugInfo) -> DebugInfo:
    """A location in 500 blocks."""
    scope = function
    for _ in range(500):
        scope = make_debug("di_lexical_block", scope, file, 3, 1)
    return make_debug("di_loc", scope, "a.py", 7, 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("location", "line"), [(calls, 519), (callees, 3), (blocks, 7)])
def test_deeply_nested_debug_information_of_bytecode_leads_to_its_line(location, line, mode):
    level, options = MODES[mode]
    made = libtile.compile(bytecode_at(location), "sm_90", level, **options)
    assert line in {row.line for row in rows(made.cubin)["k"]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("location", "message"),
    [
        (lambda _, k: make_debug("di_loc", k, "a.py", 1 << 40, 1), "a.py:1099511627776:1: line 1099511627776 is"),
        (lambda f, _: make_debug("di_loc", make_debug("di_subprogram", f, 1, "k", "k", None, 1), "a.py", 1, 1),
         "at offset .* in Debug: failed to read compile unit"),
    ],
    ids=["line", "no unit"],
)  # fmt: skip
def test_bad_debug_information_of_bytecode_is_refused_where_it_is(location, message, mode):
    level, options = MODES[mode]
    with pytest.raises(libtile.LibtileError, match=message):
        libtile.compile(bytecode_at(location), "sm_90", level, **options)


def test_inlined_calls_are_in_the_line_table(tmp_path):
    made = libtile.compile(kernel("callsite(#in at #at)"), line_info=True)
    listing = instructions(made.cubin, tmp_path, "-gi")["k"]
    (at,) = (i for i, (_, text) in enumerate(listing) if "STG" in text)
    around = [text for _, text in listing[:at] if text.startswith("//##")][-2:]
    assert around == [
        '//## File "/elsewhere/a.py", line 11 inlined at "/src/a.py", line 3',
        '//## File "/src/a.py", line 3',
    ]
    assert sections(made.cubin)[".debug_str"] == b"h\0"


def test_inlined_calls_are_in_the_debug_information():
    made = libtile.compile(kernel("callsite(#in at #at)"), "sm_90", 0, debug=True)
    tags = {die.tag: die for unit in dwarf(made.cubin).iter_CUs() for die in unit.iter_DIEs()}
    call = tags["DW_TAG_inlined_subroutine"]
    assert call.attributes["DW_AT_call_line"].value == 3
    assert call.get_DIE_from_attribute("DW_AT_abstract_origin").attributes["DW_AT_name"].value == b"h"


def test_a_module_without_locations_has_no_line_tables():
    text = kernel().decode().replace("loc(#at)", "loc(unknown)").replace(f"loc({USUAL['place']})", "loc(unknown)")
    for level, options in MODES.values():
        cubin = libtile.compile(text.encode(), "sm_90", level, **options).cubin
        assert not [section for section in sections(cubin) if "tileir.debug" in section]


def test_two_kernels_have_lines_of_their_own():
    text = kernel().decode()
    second = text[text.index("entry @k") : text.rindex("}")].replace("@k(", "@l(").replace("loc(#at)", "loc(unknown)")
    second = second.replace(f"loc({USUAL['place']})", 'loc("/other/l.py":50:1)')
    made = libtile.compile((text[: text.rindex("}")] + second + "}").encode(), "sm_90", 0, debug=True)
    found = {kernel: {row.file for row in table} for kernel, table in rows(made.cubin).items()}
    assert found == {"k": {"/src/a.py"}, "l": {"/other/l.py"}}
    beginnings = {kernel: min(row.line for row in table) for kernel, table in rows(made.cubin, TILE_IR).items()}
    assert beginnings == {"k": 1, "l": 6}


@pytest.mark.parametrize("level", [1, 3])
def test_debug_information_of_optimized_code_is_its_lines(level):
    asked = libtile.compile(kernel("callsite(#in at #at)"), "sm_90", level, debug=True, dopt=True)
    assert asked.cubin == libtile.compile(kernel("callsite(#in at #at)"), "sm_90", level, line_info=True).cubin
    assert {".debug_line", ".debug_frame", TILE_IR} <= sections(asked.cubin).keys()


def test_without_optimization_dopt_changes_nothing():
    plain = libtile.compile(kernel(), "sm_90", 0, debug=True).cubin
    assert libtile.compile(kernel(), "sm_90", 0, debug=True, dopt=True).cubin == plain
    assert ".debug_info" in sections(plain)


def test_ptxas_has_no_debug_sections_of_code_that_it_optimizes():
    """Why `dopt` keeps lines and no more: where this fails, a newer ptxas can do better."""
    ptx = libtile.compile(kernel(), "sm_90", 0, debug=True, emit="ptx").ptx
    assert ".section\t.debug_info" in ptx
    with pytest.raises(ptxas.PtxasError, match="Optimized debugging not supported"):
        ptxas.assemble(ptx, "sm_90a", opt_level=3)
    without = ptx.replace(".target sm_90a, debug", ".target sm_90a")
    with pytest.raises(ptxas.PtxasError, match="Optimized debugging not supported"):
        ptxas.assemble(without, "sm_90a", opt_level=1, options=["--device-debug"])
    left = sections(ptxas.assemble(without, "sm_90a", opt_level=3, line_info=True).cubin)
    assert ".debug_line" in left and ".debug_info" not in left
