# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The part of libdevice that is linked makes the same code as all of it."""

import pytest

from libtile.backend import libdevice, nvptx
from libtile.backend.tools import find_libdevice
from libtile.codegen.math_functions import LIBDEVICE
from libtile.targets import DATA_LAYOUT, TRIPLE, target

FUNCTIONS = [name for pair in LIBDEVICE.values() for name in pair]


def ir_calling(names: list[str]) -> str:
    """A kernel that adds up calls of functions of one or two floats."""
    lines = ["define ptx_kernel void @k(ptr addrspace(1) %f, ptr addrspace(1) %d) {"]
    for pointer, type_ in (("f", "float"), ("d", "double")):
        lines += [f"  %{pointer}0 = load {type_}, ptr addrspace(1) %{pointer}"]
    declarations = []
    for number, name in enumerate(names):
        pointer, type_ = ("f", "float") if name.endswith("f") else ("d", "double")
        two = name.rstrip("f").endswith(("pow", "atan2"))
        declarations.append(f"declare {type_} @{name}({', '.join([type_] * (1 + two))})")
        operands = ", ".join([f"{type_} %{pointer}0"] * (1 + two))
        lines += [
            f"  %r{number} = call {type_} @{name}({operands})",
            f"  store volatile {type_} %r{number}, ptr addrspace(1) %{pointer}",
        ]
    head = [f'target triple = "{TRIPLE}"', f'target datalayout = "{DATA_LAYOUT}"']
    return "\n".join([*head, *declarations, *lines, "  ret void", "}"]) + "\n"


@pytest.mark.parametrize("opt_level", (0, 3))
def test_a_part_makes_the_code_that_the_whole_library_makes(monkeypatch, opt_level):
    ir = ir_calling(FUNCTIONS)
    of_part = nvptx.to_ptx(ir, target("sm_90"), opt_level)
    assert libdevice._index(nvptx.load_llvm()).bodies, "libdevice's functions were not found in its bytes"
    whole = libdevice._Index(find_libdevice().read_bytes(), {}, {})
    monkeypatch.setattr(libdevice, "_index", lambda llvm: whole)
    monkeypatch.setattr(libdevice, "_part", libdevice._part.__wrapped__)  # does not know what was made before
    assert nvptx.to_ptx(ir, target("sm_90"), opt_level) == of_part


def test_a_function_brings_those_that_it_calls_and_no_others():
    llvm = nvptx.load_llvm()
    part = libdevice.library(llvm, llvm.create_context(), frozenset({"__nv_pow"}))
    defined = {f.name: f.linkage for f in part.functions if "unreachable" not in str(f) and not f.is_declaration}
    assert {"__nv_pow", "__internal_accurate_pow"} <= defined.keys() and len(defined) < 10
    others = {getattr(linkage, "name", linkage) for name, linkage in defined.items() if name != "__nv_pow"}
    assert others == {"internal"}


@pytest.mark.parametrize("data", (b"", libdevice._FUNCTION_HEADER + (5).to_bytes(4, "little") + bytes(40)))
def test_a_file_of_another_form_is_taken_whole(monkeypatch, tmp_path, data):
    file = tmp_path / "libdevice.10.bc"
    file.write_bytes(data)
    monkeypatch.setattr(libdevice, "find_libdevice", lambda: file)
    assert libdevice._index.__wrapped__(nvptx.load_llvm()) == libdevice._Index(data, {}, {})


def test_a_small_body_is_kept():
    data = libdevice._FUNCTION_HEADER + (2).to_bytes(4, "little") + bytes(8)
    index = libdevice._Index(data, {"f": libdevice._Body(8, 2)}, {})
    assert index.keeping(frozenset()) == data
