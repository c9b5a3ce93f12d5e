# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts of an input in what it is compiled to: whatever they hold, the code and the symbols are those of the clean
module, with the names of globals mangled; and names that something else has."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import libtile
from libtile.bytecode import BytecodeError
from libtile.codegen import ptx_text, symbols
from libtile.simulator import ir
from libtile.simulator.parser import parse_ptx
from libtile.support.diagnostics import DiagnosticError, LoweringError

CLEAN = {
    "GLOBAL1": "global1",
    "GLOBAL2": "global2",
    "FILE1": "one.py",
    "FILE2": "two.py",
    "DIRECTORY": "/src",
    "PATH": "/src/three.py",
    "NAME": "inner",
    "INLINED": "other",
    "LINKAGE": "other_",
    "LABEL": "label",
    "FORMAT": "value",
    "MESSAGE": "message",
    "MODULE": "m",
}
MODULE = """
#file = #cuda_tile.di_file<"FILE1" in "DIRECTORY">
#other = #cuda_tile.di_file<"FILE2" in "DIRECTORY">
#unit = #cuda_tile.di_compile_unit<file = #file>
#first = #cuda_tile.di_subprogram<
  line = 3, file = #file, name = "NAME", linkageName = "first", compileUnit = #unit, scopeLine = 4>
#callee = #cuda_tile.di_subprogram<
  line = 30, file = #other, name = "INLINED", linkageName = "LINKAGE", compileUnit = #unit, scopeLine = 30>
#block = #cuda_tile.di_lexical_block<scope = #first, file = #other, line = 5, column = 2>
cuda_tile.module @"MODULE" {
  global @"GLOBAL1" <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
  global @"GLOBAL2" <i32: [5, 6]> : tile<2xi32>
  entry @first(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %g = get_global @"GLOBAL1" : tile<ptr<f32>> loc(#cuda_tile.di_loc<loc("PATH":6:3) in #block>)
    %i = iota : tile<256xi32> loc(#cuda_tile.di_loc<loc("PATH":7:3) in #first>)
    %f = itof %i signed : tile<256xi32> -> tile<256xf32> loc("PATH":8:3)
    %e = exp %f : tile<256xf32> loc("LABEL"(#cuda_tile.di_loc<loc("PATH":9:3) in #first>))
    %s = reduce %e dim=0 identities=[0.0 : f32] : tile<256xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {
      %c = addf %a, %b : tile<f32>
      yield %c : tile<f32>
    } loc("PATH":10:3)
    %v, %t = load_ptr_tko weak %g : tile<ptr<f32>> -> tile<f32>, token loc("PATH":11:3)
    %w = addf %v, %s : tile<f32> loc(callsite(
        #cuda_tile.di_loc<loc("PATH":31:3) in #callee> at #cuda_tile.di_loc<loc("PATH":12:3) in #first>))
    %u = store_ptr_tko weak %p, %w token=%t : tile<ptr<f32>>, tile<f32> -> token
    print_tko "FORMAT%d\\n", %n : tile<i32> -> token
    return
  } loc(#cuda_tile.di_loc<loc("PATH":4:1) in #first>)
  entry @second(%n: tile<i32>) {
    %h = get_global @"GLOBAL2" : tile<ptr<i32>>
    %a = alloca num_elem = 4, alignment = 64 : tile<ptr<i32>>
    %v, %t = load_ptr_tko weak %h : tile<ptr<i32>> -> tile<i32>, token
    %u = store_ptr_tko weak %a, %v token=%t : tile<ptr<i32>>, tile<i32> -> token
    %w, %r = load_ptr_tko weak %a token=%u : tile<ptr<i32>> -> tile<i32>, token
    %q = store_ptr_tko weak %h, %w token=%r : tile<ptr<i32>>, tile<i32> -> token
    %c = cmpi less_than %n, %w, signed : tile<i32> -> tile<i1>
    assert %c, "MESSAGE" : tile<i1> loc("PATH":21:1)
    return
  } loc("PATH":20:1)
}
"""

HOSTILE = {
    "quotes": b'" .visible .global .align 4 .u32 EVIL; //',
    "quotes in LLVM": b'", directory: "x"), !0 = !{} ; \n@EVIL = global i32 0',
    "backslashes": b"C:\\src\\x.py\\",
    "an escaped quote": b'a\\" , EVIL',
    "newlines": b"a\n.visible .global .u32 EVIL;\r\n\t}",
    "an entry": b"a\n.visible .entry EVIL()\n{ ret; }\n",
    "control characters": bytes(range(1, 32)) + b"\x7f",
    "NUL": b"a\0b\0",
    "names of functions": b"@__nv_expf( @__nv_no_function( @vprintf llvm.nvvm.barrier.cta.sync.aligned.all",
    "percent signs": b"%s%n%%%d%rd1 $0 ${x}",
    "comments": b"/* x */ // y {",
    "no UTF-8": b"\xff\xfe\x80\xc3",
    "UTF-8": "Jürgen/核.py".encode(),
    "line separators": "a\u2028b\x85c".encode(),
    "4 KB": b'ab"\\' * 1024,
    "a word": b"abs",
    "empty or blank": b" ",
}
OPTIONS: dict[str, dict[str, bool]] = {"": {}, "lineinfo": {"line_info": True}, "debug": {"debug": True}}


def _escaped(data: bytes) -> str:
    return "".join(f"\\{b:02X}" for b in data)


def _texts(data: bytes) -> dict[str, bytes]:
    """A text for each place, all different; what a C format takes for a conversion is doubled in the one of print."""
    texts = {place: data + str(number).encode() for number, place in enumerate(CLEAN)}
    texts["FORMAT"] = texts["FORMAT"].replace(b"%", b"%%")
    return texts


def _module(texts: dict[str, bytes]) -> libtile.Module:
    text = re.sub("|".join(sorted(CLEAN, key=len, reverse=True)), lambda m: _escaped(texts[m[0]]), MODULE)
    return libtile.parse(text)


def _compiled(texts: dict[str, bytes], options: str, emit: str = "cubin") -> libtile.Compiled:
    return libtile.compile(_module(texts), "sm_90", 0 if options == "debug" else 3, emit=emit, **OPTIONS[options])


def _shape(module: ir.Module, name_of: Callable[[str], str]) -> list[object]:
    """What a PTX module consists of, with the names of variables as `name_of` gives them."""

    def operand(value: object) -> object:
        match value:
            case ir.Sym(name, offset):
                return "symbol", name_of(name), offset
            case ir.Addr(ir.Sym(name), offset, extra):
                return "address", name_of(name), offset, extra
            case ir.Vec(items) | ir.Group(items):
                return type(value), [operand(item) for item in items]
        return value

    parts: list[object] = [module.version, module.target]
    for name, variable in module.variables.items():
        text = variable.name.startswith(symbols.own_name("text"))
        data = () if text else (variable.size, variable.init)
        parts.append((name_of(name), variable.space, variable.type, variable.align, variable.linkage, *data))
    for function in module.functions.values():
        parts.append((function.name, function.entry, function.linkage, function.params, function.directives))
        for item in function.body or ():
            if isinstance(item, ir.Instruction):
                line = item.source.line if item.source else 0
                parts.append((item.name, item.guard, [operand(o) for o in item.operands], line))
            else:
                parts.append(("label", item.name))
    return parts


def _roles(module: ir.Module, texts: dict[str, bytes]) -> Callable[[str], str]:
    """The names of a module's variables by what they are for: globals by number, texts by kernel."""
    known = {}
    for place in ("GLOBAL1", "GLOBAL2"):
        name = texts[place].decode("utf-8", "surrogateescape")
        known[symbols.global_name(name)] = place
    for name in module.variables:
        if match := re.fullmatch(rf"({symbols.own_name('text')}_\w+)_\d+_[0-9a-f]+", name):
            known[name] = match[1]
    return lambda name: known.get(name, name)


def _sections(ptx: str) -> list[str]:
    return re.findall(r"^\s*(?:\.section\s+(\S+)|\.file\s+(\d+))", ptx, re.MULTILINE)


def _symbols(cubin: bytes) -> set[str]:
    """The names of a cubin's functions and objects, and of what it takes from elsewhere."""
    table = ELFFile(io.BytesIO(cubin)).get_section_by_name(".symtab")
    return {s.name for s in table.iter_symbols() if s["st_info"]["type"] != "STT_SECTION" and s.name}


CLEAN_TEXTS = {place: text.encode() for place, text in CLEAN.items()}


@pytest.fixture(scope="module")
def clean() -> dict[str, libtile.Compiled]:
    return {options: _compiled(CLEAN_TEXTS, options) for options in OPTIONS}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_texts_change_no_instruction_directive_or_symbol(kind, options, clean):
    texts = _texts(HOSTILE[kind])
    made = _compiled(texts, options)
    assert made.ptx.isascii() and set(made.kernels) == {"first", "second"}
    before, after = parse_ptx(clean[options].ptx), parse_ptx(made.ptx)
    roles_before, roles_after = _roles(before, CLEAN_TEXTS), _roles(after, texts)
    assert _shape(after, roles_after) == _shape(before, roles_before)
    assert _sections(made.ptx) == _sections(clean[options].ptx)
    assert len(after.files) == len(before.files)
    assert set(map(roles_after, _symbols(made.cubin))) == set(map(roles_before, _symbols(clean[options].cubin)))
    held = {v.init for name, v in after.variables.items() if name.startswith(symbols.own_name("text"))}
    doubled = {place: texts[place].replace(b"%", b"%%") for place in ("PATH", "MESSAGE")}
    assert texts["FORMAT"].partition(b"\0")[0] + b"%d\n\0" in held
    assert b"%s:21: tile block: [%%d, %%d, %%d], position: []: %s\n\0" % (doubled["PATH"], doubled["MESSAGE"]) in held


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_line_table_names_the_files(kind):
    texts = _texts(HOSTILE[kind])
    files = parse_ptx(_compiled(texts, "lineinfo", "ptx").ptx).files.values()
    path = texts["PATH"].replace(b"\0", b"\\0").replace(b"//", b"/")
    assert ptx_text.string(path)[1:-1] in files


NAMES = [
    *("vprintf", "malloc", "free", "__nv_expf", "__nv_sinf", "WARP_SZ", "_", "$", "main", "memcpy", "printf"),
    *("first_param_0", "second_param_0", "param0", "retval0", "func_retval0", "vprintf_param_0", "__local_depot0"),
    *("llvm.nvvm.barrier0", "llvm.used", "nvvm.annotations", "___NV_TILE_LAUNCH_META_DATA___", "__assertfail"),
    *("libtile_shared", "__libtile_shared_first", "__libtile_scratch_first", "__libtile_print_lock", "entry"),
    *(
        "%tid.x",
        "%r1",
        "tid",
        "laneid",
        "$L__BB0_1",
        "$L__func_begin0",
        ".text",
        "a b",
        "a$20b",
        "__libtile_global_a$20b",
    ),
    *("abs", "add", "bra", "mov", "ld", "reg", "entry.1", "global", "shared", "const", "ret", "file", "section", "b32"),
    *("__cuda_syscall_malloc", "__nv_reservedSMEM_offset_0_alias", "first$", "x.y", "x@y", "@x", "1", "-1", ""),
]


def test_globals_with_the_names_of_anything_else_compile():
    """All of them in one module: that shows too that they are kept apart."""
    names = list(dict.fromkeys(NAMES))
    variables = [f'global @"{_escaped(n.encode())}" <i32: [{i}, 1]> : tile<2xi32>' for i, n in enumerate(names)]
    body = []
    for i, n in enumerate(names):
        body += [
            f'%g{i} = get_global @"{_escaped(n.encode())}" : tile<ptr<i32>>',
            f"%v{i}, %t{i} = load_ptr_tko weak %g{i} : tile<ptr<i32>> -> tile<i32>, token",
            f"%i{i} = constant <i32: {i}> : tile<i32>",
            f"%p{i} = offset %p, %i{i} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>",
            f"%s{i} = store_ptr_tko weak %p{i}, %v{i} token=%t{i} : tile<ptr<i32>>, tile<i32> -> token",
        ]
    lines = "\n".join(body)
    text = "\n".join(["cuda_tile.module @m {", *variables, "entry @first(%p: tile<ptr<i32>>, %x: tile<f32>) {", lines])
    use = """
    %e = sin %x : tile<f32>
    print_tko "%f", %e : tile<f32> -> token
    return } }"""
    module = libtile.parse(text + use)
    assert {"first"} == set(libtile.compile(module, "sm_90").kernels)
    out = np.zeros(len(names), np.int32)
    libtile.run(module, "first", grid=1, args=[out, 1.0], backend="simulator")
    assert out.tolist() == list(range(len(names)))


KERNEL = """cuda_tile.module @m {{ entry @"{name}"(%p: tile<ptr<f32>>, %n: tile<i32>) {{
    %z = constant <i32: 0> : tile<i32>
    %x = constant <f32: 0.5> : tile<f32>
    %i = iota : tile<256xi32>
    %f = itof %i signed : tile<256xi32> -> tile<256xf32>
    %e = exp %f : tile<256xf32>
    %s = reduce %e dim=0 identities=[0.0 : f32] : tile<256xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {{
      %c = addf %a, %b : tile<f32>
      yield %c : tile<f32>
    }}
    %u = store_ptr_tko weak %p, %s : tile<ptr<f32>>, tile<f32> -> token
    print_tko "%d", %n : tile<i32> -> token
    return }} loc("k.py":7:1) }}"""


def _kernel(name: str) -> libtile.Module:
    return libtile.parse(KERNEL.format(name=_escaped(name.encode("utf-8", "surrogateescape"))), "k.mlir")


KEPT = [
    *(
        "abs",
        "add",
        "bra",
        "mov",
        "ld",
        "reg",
        "entry",
        "global",
        "ret",
        "b32",
        "tid",
        "laneid",
        "main",
        "memcpy",
        "exp",
    ),
    *("__local_depot0", "param0", "retval0", "k_param_0", "k", "printf", "malloc", "a$b", "$a", "_1", "__assertfail"),
    *("libtile_shared", "first", "x" * 4000),
]


def test_kernels_keep_names_that_ptx_can_say():
    for name in KEPT:
        made = libtile.compile(_kernel(name), "sm_90", line_info=name == "abs")
        assert list(made.kernels) == [name] and made.kernels[name].registers
        assert name in _symbols(made.cubin)


REFUSED = {
    **dict.fromkeys(
        ("", "_", "$", "a b", "a.b", "1k", "é", 'a"b', "a\nb", "%tid", "@k", "\udcff"), "no PTX identifier"
    ),
    **dict.fromkeys(("WARP_SZ", "__nv_expf", "___NV_TILE_LAUNCH_META_DATA___"), "is taken"),
    "__nvvm_reflect": "is taken",  # LLVM ends the process when it has a body
    **dict.fromkeys(("__libtile_scratch_k", "__cuda_syscall_vprintf", "$L__BB0_1"), "is taken"),
    "vprintf": "of a device function that the module calls",
    "x" * 20000: "has 20000 characters, and the limit is 16384",
}


@pytest.mark.parametrize("name", REFUSED, ids=lambda n: repr(n)[:20])
def test_kernels_with_other_names_are_refused_where_they_stand(name):
    with pytest.raises((LoweringError, DiagnosticError), match=REFUSED[name]) as error:
        libtile.compile(_kernel(name), "sm_90")
    assert "k.mlir" in str(error.value) or "k.py:7:1" in str(error.value)
    assert len(str(error.value)) < 1000


CLASHES = {
    ("k", "k_param_1"): "a parameter of 'k' in PTX",
    ("vprintf_param_0", "k"): "a parameter of 'vprintf' in PTX",
    ("k", "func_retval0"): "what device functions that the module calls give",
    ("param1", "k"): "what a call is given or gives in PTX",
    ("k", "retval0"): "what a call is given or gives in PTX",
}
"""Two kernels of which one has a name that stands for something else inside of the other, or of what that calls: ptxas
ends with a fault of its own (C7907, SIGSEGV) on them."""


@pytest.mark.parametrize("names", CLASHES, ids="-".join)
@pytest.mark.parametrize("options", [{"opt_level": 3}, {"opt_level": 0, "debug": True}], ids=["O3", "O0 -g"])
def test_a_kernel_that_would_be_hidden_in_another_is_refused_where_it_stands(names, options):
    one, other = (KERNEL.format(name=name) for name in names)
    module = libtile.parse(one.rsplit("}", 1)[0] + other.partition("{")[2])
    with pytest.raises(LoweringError, match=f"of {CLASHES[names]}"):
        libtile.compile(module, "sm_90", **options)


def test_names_of_parameters_and_results_that_nobody_else_has_are_kept():
    for name in ("k_param_0", "param0", "retval0", "__local_depot0"):
        assert list(libtile.compile(_kernel(name), "sm_90", opt_level=0, debug=True).kernels) == [name]


# -- random texts, by way of bytecode ---------------------------------------------------------------------------------

SMALL = """
#file = #cuda_tile.di_file<"FILE1" in "DIRECTORY">
#unit = #cuda_tile.di_compile_unit<file = #file>
#first = #cuda_tile.di_subprogram<
  line = 3, file = #file, name = "NAME", linkageName = "KERNEL", compileUnit = #unit, scopeLine = 4>
#callee = #cuda_tile.di_subprogram<
  line = 30, file = #file, name = "INLINED", linkageName = "LINKAGE", compileUnit = #unit, scopeLine = 30>
cuda_tile.module @"MODULE" {
  global @"GLOBAL1" <i32: [1, 2, 3, 4]> : tile<4xi32>
  global @"GLOBAL2" <i32: [5, 6]> : tile<2xi32>
  entry @"KERNEL"(%p: tile<ptr<i32>>) {
    %g = get_global @"GLOBAL1" : tile<ptr<i32>> loc(#cuda_tile.di_loc<loc("PATH":6:3) in #first>)
    %h = get_global @"GLOBAL2" : tile<ptr<i32>> loc(callsite(
        #cuda_tile.di_loc<loc("PATH":31:3) in #callee> at #cuda_tile.di_loc<loc("PATH":12:3) in #first>))
    %v, %t = load_ptr_tko weak %g : tile<ptr<i32>> -> tile<i32>, token
    %w, %s = load_ptr_tko weak %h token=%t : tile<ptr<i32>> -> tile<i32>, token
    print_tko "FORMAT%d\\n", %w : tile<i32> -> token
    %u = store_ptr_tko weak %p, %v token=%s : tile<ptr<i32>>, tile<i32> -> token
    return
  } loc(#cuda_tile.di_loc<loc("PATH":4:1) in #first>)
}
"""
SMALL_CLEAN = {place: text for place, text in CLEAN_TEXTS.items() if place in SMALL} | {"KERNEL": b"kernel"}
PIECES = [*HOSTILE.values(), *(n.encode() for n in NAMES), *(n.encode() for n in KEPT), b"kernel", b"_param_0", b""]


def _random_text(random: Random) -> bytes:
    pieces = [random.choice(PIECES) for _ in range(random.choice((1, 1, 2, 3)))]
    text = b"".join(pieces) if random.random() < 0.7 else random.randbytes(random.randrange(20))
    return text[random.randrange(len(text)) :] if text and random.random() < 0.2 else text


def _random_texts(random: Random) -> dict[str, bytes]:
    texts = {place: _random_text(random) for place in SMALL_CLEAN}
    texts["FORMAT"] = texts["FORMAT"].replace(b"%", b"%%")
    if random.random() < 0.7:
        texts["KERNEL"] = random.choice(KEPT).encode()
    if random.random() < 0.2:
        texts["GLOBAL2"] = symbols.global_name(texts["GLOBAL1"].decode("utf-8", "surrogateescape")).encode()
    return texts


def _small(texts: dict[str, bytes], options: dict[str, bool], emit: str) -> libtile.Compiled:
    text = re.sub("|".join(sorted(texts, key=len, reverse=True)), lambda m: _escaped(texts[m[0]]), SMALL)
    module = libtile.read(libtile.write(libtile.parse(text)))
    return libtile.compile(module, "sm_90", 0 if options.get("debug") else 3, emit=emit, **options)


def _check_random(seed: int, clean: dict[str, list[object]]) -> str:
    """Compile a module of random texts; "compiled", or what it was refused for. Fails if its code is another."""
    random = Random(seed)
    texts = _random_texts(random)
    kind = random.choice(list(OPTIONS))
    emit = "cubin" if random.random() < 0.2 else "ptx"
    try:
        made = _small(texts, OPTIONS[kind], emit)
    except (LoweringError, DiagnosticError, BytecodeError) as refusal:
        assert len(str(refusal)) < 30000
        found = re.search(
            "no PTX identifier|is taken|of a device function|redefinition|name at index . is empty", str(refusal)
        )
        assert found, f"seed {seed}: {refusal}"
        return found[0]
    kernel = texts["KERNEL"].decode()
    assert made.ptx.isascii() and list(made.kernels) == [kernel], f"seed {seed}"
    if kind not in clean:
        before = parse_ptx(_small(SMALL_CLEAN, OPTIONS[kind], "ptx").ptx)
        clean[kind] = _shape(before, _small_roles(before, SMALL_CLEAN))
    after = parse_ptx(made.ptx)
    roles = _small_roles(after, texts)
    after.functions[kernel].name = "kernel"
    for parameter in after.functions[kernel].params:
        parameter.name = roles(parameter.name)
    assert _shape(after, roles) == clean[kind], f"seed {seed}"
    if made.cubin:
        assert kernel in _symbols(made.cubin) and "EVIL" not in _symbols(made.cubin), f"seed {seed}"
    return "compiled"


def _small_roles(module: ir.Module, texts: dict[str, bytes]) -> Callable[[str], str]:
    names = _roles(module, texts)
    kernel = texts["KERNEL"].decode()
    own = {f"{kernel}_param_0": "kernel_param_0"}
    own |= {name: symbols.own_name("text") for name in module.variables if name.startswith(symbols.own_name("text"))}
    return lambda name: own.get(name) or names(name)


def test_random_texts_change_no_code():
    clean: dict[str, list[object]] = {}
    results = [_check_random(seed, clean) for seed in range(25)]
    assert results.count("compiled") > 8


@pytest.mark.slow
def test_more_random_texts_change_no_code():
    clean: dict[str, list[object]] = {}
    results = [_check_random(seed, clean) for seed in range(1000, 3000)]
    assert results.count("compiled") > 800
