# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Debug metadata from locations: LLVM accepts it, and PTX and cubin have the source's lines."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from xdsl.dialects.builtin import UNKNOWN_LOC, ArrayAttr, FileLineColLoc, FusedLoc, NameLoc, NoneAttr
from xdsl.dialects.builtin import IntAttr as Int
from xdsl.dialects.builtin import StringAttr as Str

import libtile
from libtile.backend import nvptx
from libtile.codegen.builder import KernelBuilder
from libtile.codegen.llvm_types import GLOBAL_POINTER, I32
from libtile.dialects.cuda_tile.attributes import (
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
)
from libtile.dialects.cuda_tile.locations import call_site_loc
from libtile.lowering.to_llvm.debug_info import DebugInfo
from libtile.targets import TRIPLE, target

SM_90 = target("sm_90")
FILE = DIFileAttr("k.py", "/src")
UNIT = DICompileUnitAttr(FILE)
KERNEL = DISubprogramAttr(FILE, 10, "kernel", "kernel", UNIT, 11)
HELPER = DISubprogramAttr(FILE, 30, "helper", "helper", UNIT, 30)
ELSEWHERE = DIFileAttr("h.py", "/lib")
HELPER_ELSEWHERE = DISubprogramAttr(ELSEWHERE, 30, "helper", "helper", DICompileUnitAttr(ELSEWHERE), 30)
BLOCK = DILexicalBlockAttr(KERNEL, FILE, 12, 4)
AT_KERNEL = DILocAttr(KERNEL, "/src/k.py", 11, 0)


def at(line, scope=KERNEL, column=5, file="/src/k.py"):
    return DILocAttr(scope, file, line, column)


def plain(line, file="/src/k.py"):
    return FileLineColLoc(Str(file), Int(line), Int(3))


LOCATIONS = {
    "in the kernel": (at(20), [20]),
    "in a lexical block": (at(21, BLOCK), [21]),
    "inlined": (call_site_loc(at(31, HELPER), at(22)), [31, 22]),
    "inlined twice": (call_site_loc(at(32, HELPER), call_site_loc(at(33, HELPER), at(23))), [32, 33, 23]),
    "without a scope": (plain(24), [24]),
    "in another function, not inlined": (at(34, HELPER), [34]),
    "named": (NameLoc(Str("x"), plain(25)), [25]),
    "fused": (FusedLoc(ArrayAttr([UNKNOWN_LOC, plain(26)]), NoneAttr()), [26]),
    "of a column that is too large": (at(27, column=1 << 20), [27]),
    "unknown": (UNKNOWN_LOC, []),
}


def _module(location, *, full=False, kernels=("kernel",), place=AT_KERNEL):
    """An LLVM module of kernels that each store one number, at a location."""
    debug = DebugInfo(full=full)
    texts = []
    for name in kernels:
        b = KernelBuilder(name, SM_90, 32)
        pointer = b.add_parameter(GLOBAL_POINTER)
        lines = debug.function(name, place)
        assert lines is not None
        b.subprogram = lines.subprogram
        b.set_location(lines.of(location) or lines.of(place))
        value = b.asm("mov.b32 $0, 7;", "=r", I32, side_effects=True)
        b.line(f"store {value.typed}, {pointer.typed}")
        b.return_()
        texts.append(b.function_text())
    return "\n".join([*texts, "attributes #0 = { nounwind }", debug.text()])


@pytest.mark.parametrize("full", [False, True], ids=["lines", "full"])
@pytest.mark.parametrize("name", LOCATIONS)
def test_llvm_accepts_every_form_of_location_and_ptx_has_its_lines(name, full):
    location, lines = LOCATIONS[name]
    ir = f'target triple = "{TRIPLE}"\n' + _module(location, full=full)
    ptx = nvptx.to_ptx(ir, SM_90)
    shown = {int(n) for n in re.findall(r"\.loc\s+\d+\s+(\d+)", ptx)}
    assert set(lines[:1]) <= shown
    for line in lines:
        assert f"line: {line}," in ir
    assert (".section\t.debug_info" in ptx or ".debug_info" in ptx) == full


def test_two_kernels_of_one_source_function_have_subprograms_of_their_own():
    ir = f'target triple = "{TRIPLE}"\n' + _module(at(20), kernels=("a", "b"))
    assert len(re.findall(r"distinct !DISubprogram\(", ir)) == 2
    assert len(re.findall(r"distinct !DICompileUnit\(", ir)) == 1
    assert nvptx.to_ptx(ir, SM_90).count(".entry") == 2


#: A kernel of one source file, with code inlined from another file, of another compile unit.
INLINED = """
#f = #cuda_tile.di_file<"a.py" in "/src">
#g = #cuda_tile.di_file<"b.py" in "/src/deep">
#unit = #cuda_tile.di_compile_unit<file = #f>
#other = #cuda_tile.di_compile_unit<file = #g>
#k = #cuda_tile.di_subprogram<file = #f, line = 1, name = "k", linkageName = "k", compileUnit = #unit, scopeLine = 1>
#h = #cuda_tile.di_subprogram<file = #g, line = 10, name = "h", linkageName = "h", compileUnit = #other, scopeLine = 10>
#at = #cuda_tile.di_loc<loc("/src/a.py":3:4) in #k>
#in = #cuda_tile.di_loc<loc("/src/deep/b.py":11:6) in #h>
#inlined = loc(callsite(#in at #at))
cuda_tile.module @m { entry @k(%p: tile<ptr<i32>>) {
  %x, %y, %z = get_tile_block_id : tile<i32> loc(#at)
  %s = addi %x, %y : tile<i32> loc(#inlined)
  %t = store_ptr_tko weak %p, %s : tile<ptr<i32>>, tile<i32> -> token loc(#at)
  return loc(#at) } loc(#at) }
"""


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("option", ["line_info", "debug"])
def test_code_inlined_from_another_compile_unit_assembles(option, gpu):
    made = libtile.compile(INLINED.encode(), gpu_name=gpu, opt_level=0, **{option: True})
    assert len(re.findall(r"distinct !DICompileUnit\(", made.llvm_ir)) == 1
    assert b"/src/deep\0" in made.cubin and b"b.py\0" in made.cubin


def test_two_kernels_of_two_compile_units_share_one():
    debug = DebugInfo(full=True)
    assert debug.function("kernel", AT_KERNEL) is not None
    assert debug.function("helper", DILocAttr(HELPER_ELSEWHERE, "/lib/h.py", 30, 0)) is not None
    assert debug.text().count("!DICompileUnit(") == 1
    assert debug.text().count("!DISubprogram(") == 2


def test_a_kernel_without_a_scope_gets_a_subprogram_at_its_place():
    ir = _module(plain(24), place=plain(9))
    assert re.search(r'DISubprogram\(name: "kernel".* line: 9,', ir)
    assert 'DIFile(filename: "k.py", directory: "/src")' in ir


def test_a_long_chain_of_inlined_calls_keeps_the_line_and_the_innermost_calls():
    chain = at(20)
    for number in range(1000):
        chain = call_site_loc(at(30 + number, HELPER), chain)
    debug = DebugInfo()
    lines = debug.function("kernel", AT_KERNEL)
    assert lines is not None
    lines.of(chain)
    (place,) = debug.lines.places()
    assert 200 < len(place.calls) < 300
    assert "!DILocation(line: 1029, column: 1," in debug.text()


def test_blocks_nested_too_deeply_are_in_the_kernel():
    block = BLOCK
    for _ in range(1000):
        block = DILexicalBlockAttr(block, FILE, 12, 4)
    ir = f'target triple = "{nvptx.TRIPLE}"\n' + _module(at(21, block))
    assert re.search(r"\.loc\s+1 21 ", nvptx.to_ptx(ir, SM_90))


def test_a_kernel_in_an_unknown_place_has_no_metadata():
    debug = DebugInfo()
    assert debug.function("k", UNKNOWN_LOC) is None
    assert debug.text() == ""


def test_names_with_quotes_and_other_letters_are_escaped():
    file = DIFileAttr('a"b\\ü.py', "/src")
    subprogram = DISubprogramAttr(file, 1, "k", "k", DICompileUnitAttr(file), 1)
    ir = f'target triple = "{TRIPLE}"\n' + _module(at(20), place=at(1, subprogram))
    assert r"a\22b\5C\C3\BC.py" in ir
    assert ".entry" in nvptx.to_ptx(ir, SM_90)


def test_a_file_without_a_name_does_not_cost_the_module_its_lines(capfd):
    file = DIFileAttr("", "/src")
    subprogram = DISubprogramAttr(file, 1, "k", "k", DICompileUnitAttr(file), 1)
    ir = f'target triple = "{TRIPLE}"\n' + _module(at(20), place=at(1, subprogram))
    assert ".loc" in nvptx.to_ptx(ir, SM_90)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("option", ["line_info", "debug"])
def test_the_lines_of_a_kernel_are_in_its_cubin(option):
    elffile = pytest.importorskip("elftools.elf.elffile", reason="reads cubins with pyelftools")
    source = Path(__file__).resolve().parents[2] / "examples" / "vector_add.bc"
    made = libtile.compile(source, gpu_name="sm_90", opt_level=0 if option == "debug" else 3, **{option: True})
    names = {s.name for s in elffile.ELFFile(io.BytesIO(made.cubin)).iter_sections()}
    assert ".debug_line" in names
    assert (".debug_info" in names) == (option == "debug")
    assert {21, 22, 23} <= {int(n) for n in re.findall(r"\.loc\s+1 (\d+)", made.ptx)}
    assert ".debug_line" not in libtile.compile(source, gpu_name="sm_90").cubin.decode("latin-1")
