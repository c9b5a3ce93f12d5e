# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The host object: its records, and its code, run here as the driver would."""

from __future__ import annotations

import ctypes
import io
import platform
import struct

import pytest

from libtile.backend import host_object
from libtile.backend.host_object import CALLBACKS, ON_PRE_LOAD, HostTargetError

elffile = pytest.importorskip("elftools.elf.elffile", reason="reads objects with pyelftools (pip install pyelftools)")
SECTION_HEADER_ABSOLUTE = {"x86_64": 1, "aarch64": 257}  # R_X86_64_64, R_AARCH64_ABS64


def _elf(*arguments, **options):
    return elffile.ELFFile(io.BytesIO(host_object.host_object(*arguments, **options)))


def _symbol(elf, name):
    (found,) = elf.get_section_by_name(".symtab").get_symbol_by_name(name)
    return found


def _record(elf, name):
    """(bytes of a symbol, {offset: name or section of what its pointers lead to})."""
    symbol = _symbol(elf, name)
    section = elf.get_section(symbol["st_shndx"])
    start, size = symbol["st_value"], symbol["st_size"]
    pointers = {}
    relocations = elf.get_section_by_name(".rela" + section.name)
    table = elf.get_section_by_name(".symtab")
    for relocation in relocations.iter_relocations():
        if start <= relocation["r_offset"] < start + size:
            assert relocation["r_info_type"] == SECTION_HEADER_ABSOLUTE[_arch(elf)]
            pointers[relocation["r_offset"] - start] = table.get_symbol(relocation["r_info_sym"])
    return section.data()[start : start + size], pointers


def _arch(elf):
    return {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}[elf["e_machine"]]


@pytest.mark.parametrize("system", host_object.SYSTEMS)
@pytest.mark.parametrize("arch", host_object.ARCHITECTURES)
def test_the_object_is_for_its_host_and_exports_the_two_symbols(arch, system):
    elf = _elf(["one", "two"], arch, system)
    assert (elf["e_type"], _arch(elf)) == ("ET_REL", arch)
    exported = {
        s.name
        for s in elf.get_section_by_name(".symtab").iter_symbols()
        if s["st_info"]["bind"] == "STB_GLOBAL" and s["st_shndx"] != "SHN_UNDEF"
    }
    assert exported == {CALLBACKS, ON_PRE_LOAD}


@pytest.mark.parametrize("arch", host_object.ARCHITECTURES)
def test_the_object_needs_nothing_from_outside(arch):
    symbols = _elf(["one"], arch).get_section_by_name(".symtab").iter_symbols()
    undefined = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF"} - {""}
    assert undefined <= {"_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize("arch", host_object.ARCHITECTURES)
def test_the_callbacks_record_has_the_layout_that_the_driver_reads(arch):
    data, pointers = _record(_elf(["one", "two", "three"], arch), CALLBACKS)
    assert len(data) == 72
    assert struct.unpack("<i28xqqiiiiq", data) == (2, 64, 0, 3, 0, 2, 0, 0)
    assert sorted(pointers) == [40, 64]
    assert pointers[64].name == ON_PRE_LOAD


def test_each_kernel_has_a_record_with_its_name_and_function():
    data, pointers = _record(_elf(["one", "two"]), "__CUDA_TILEIR_FUNC_CALLBACKS")
    assert data == bytes(128)
    assert sorted(pointers) == [0, 40, 64, 104]


def test_no_kernels_need_no_object():
    assert host_object.host_object([]) == b""


def test_unknown_hosts_are_refused():
    for arch, system in (("riscv64", "linux"), ("x86_64", "plan9")):
        with pytest.raises(HostTargetError, match="no host object for"):
            host_object.host_object(["k"], arch, system)


class _Kernel(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("a", ctypes.c_char * 32),
        ("change", ctypes.c_void_p),
        ("b", ctypes.c_char * 16),
    ]


class _Callbacks(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int32), ("a", ctypes.c_byte * 28), ("size", ctypes.c_int64),
        ("kernels", ctypes.POINTER(_Kernel)), ("count", ctypes.c_int32), ("b", ctypes.c_int32), ("two", ctypes.c_int32),
        ("c", ctypes.c_int32), ("pre_load", ctypes.c_void_p),
    ]  # fmt: skip


ASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int))
PRE_LOAD = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)
)
CHANGE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)


@pytest.fixture(scope="module")
def loaded():
    """The object's code, made executable in this process: (engine, address of the callbacks)."""
    if platform.machine() != "x86_64":
        pytest.skip("runs code for x86-64 hosts")
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(codemodel="large", reloc="pic")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(host_object.host_ir(["one", "two"])), machine)
    engine.finalize_object()
    return engine, engine.get_global_value_address(CALLBACKS)


def test_pre_load_gives_a_private_copy_that_leads_to_the_kernels(loaded):
    engine, address = loaded
    original = _Callbacks.from_address(address)
    out = ctypes.c_void_p()
    assert PRE_LOAD(original.pre_load)(None, None, 2, ctypes.byref(out)) == 0
    assert out.value not in (None, address)
    copy = _Callbacks.from_address(out.value)
    assert (copy.version, copy.size, copy.count, copy.two) == (2, 64, 2, 2)
    assert [copy.kernels[i].name for i in range(2)] == [b"one", b"two"]
    assert [CHANGE(copy.kernels[i].change)(None, None, None, None) for i in range(2)] == [0, 0]
    del engine


def test_pre_load_refuses_version_zero(loaded):
    out = ctypes.c_void_p()
    pre_load = PRE_LOAD(_Callbacks.from_address(loaded[1]).pre_load)
    assert (pre_load(None, None, 0, ctypes.byref(out)), out.value) == (1, None)


def test_pre_load_for_version_one_asks_the_table_first(loaded):
    asked = []

    @ASK
    def ask(context, attribute, word):
        asked.append((context, attribute))
        return 0

    table = (ctypes.c_void_p * 7)(*[None] * 6, ctypes.cast(ask, ctypes.c_void_p))
    out = ctypes.c_void_p()
    pre_load = PRE_LOAD(_Callbacks.from_address(loaded[1]).pre_load)
    assert pre_load(ctypes.addressof(table), 77, 1, ctypes.byref(out)) == 0
    assert asked == [(77, 16)]
    assert out.value
