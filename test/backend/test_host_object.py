# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The host object: its records, and its code, run here as the driver would."""

from __future__ import annotations

import ctypes
import io
import platform
import random
import struct
from pathlib import Path

import pytest

from libtile.backend import host_object, host_template
from libtile.backend.host_object import CALLBACKS, ON_PRE_LOAD, HostTargetError
from libtile.ir.kernels import FromParameter, Launch, Parameter, TensorMapRecipe, parameter_offsets
from libtile.runtime.tensor_maps import tensor_map
from libtile.targets.tensor_map import ELEMENTS, MAX_BOX_BYTES, SIZE

elffile = pytest.importorskip("elftools.elf.elffile", reason="reads objects with pyelftools (pip install pyelftools)")
MAPS = {
    "copy": Launch(
        (Parameter("ptr", 8), Parameter("i32", 4)),
        (TensorMapRecipe(0, "f16", (FromParameter(1), 64), (64,), (64, 8), "128B", 2),),
    )
}
"""A kernel that takes a tensor map."""
SECTION_HEADER_ABSOLUTE = {"x86_64": 1, "aarch64": 257}  # R_X86_64_64, R_AARCH64_ABS64


def _kernels(*names):
    """Kernels that take no tensor maps."""
    return dict.fromkeys(names, Launch())


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
    elf = _elf({**_kernels("one"), **MAPS}, arch, system)
    assert (elf["e_type"], _arch(elf)) == ("ET_REL", arch)
    exported = {
        s.name
        for s in elf.get_section_by_name(".symtab").iter_symbols()
        if s["st_info"]["bind"] == "STB_GLOBAL" and s["st_shndx"] != "SHN_UNDEF"
    }
    assert exported == {CALLBACKS, ON_PRE_LOAD}


@pytest.mark.parametrize("arch", host_object.ARCHITECTURES)
def test_the_object_needs_nothing_from_outside(arch):
    symbols = _elf(MAPS, arch).get_section_by_name(".symtab").iter_symbols()
    undefined = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF"} - {""}
    assert undefined <= {"_GLOBAL_OFFSET_TABLE_"}


@pytest.mark.parametrize("arch", host_object.ARCHITECTURES)
def test_the_callbacks_record_has_the_layout_that_the_driver_reads(arch):
    data, pointers = _record(_elf(_kernels("one", "two", "three"), arch), CALLBACKS)
    assert len(data) == 72
    assert struct.unpack("<i28xqqiiiiq", data) == (2, 64, 0, 3, 0, 2, 0, 0)
    assert sorted(pointers) == [40, 64]
    assert pointers[64].name == ON_PRE_LOAD


def test_each_kernel_has_a_record_with_its_name_and_function():
    data, pointers = _record(_elf(_kernels("one", "two")), "__CUDA_TILEIR_FUNC_CALLBACKS")
    assert data == bytes(128)
    assert sorted(pointers) == [0, 40, 64, 104]


def test_no_kernels_need_no_object():
    assert host_object.host_object({}) == b""


def test_unknown_hosts_are_refused():
    for arch, system in (("riscv64", "linux"), ("x86_64", "plan9")):
        with pytest.raises(HostTargetError, match="no host object for"):
            host_object.host_object(_kernels("k"), arch, system)


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
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(host_object.host_ir(_kernels("one", "two"))), machine)
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


PARAMETERS = (Parameter("i8", 1), Parameter("ptr", 8), *[Parameter("i32", 4)] * 5, *[Parameter("i64", 8)] * 4)
"""Of the kernel in the next test: a base, five sizes (the last ones below 16, for empty tensors) and four strides."""


def test_offsets_of_parameters_are_aligned_to_their_sizes():
    assert parameter_offsets(PARAMETERS) == ((0, 8, 16, 20, 24, 28, 32, 40, 48, 56, 64), 72)


def check_host_code(made, parameters_at, turns):
    """That a host object, as `made` loads it, encodes maps of all ranks, element types and swizzles as the library
    does; the bytes in front of the maps and their second halves stay."""
    rng = random.Random(parameters_at)
    swizzles = {"none": 256, "32B": 32, "64B": 64, "128B": 128}
    recipes = []
    for number, (element, kind) in enumerate(ELEMENTS.items()):
        if kind.bits < 8:
            continue
        rank, swizzle = number % 5 + 1, list(swizzles)[number % 4]
        size = kind.bits // 8
        sizes = tuple(rng.choice([FromParameter(2 + i), rng.randrange(1, 1 << 32)]) for i in range(rank))
        choices = [[FromParameter(7 + i), FromParameter(7 + i, 1 << 36), 16 * rng.randrange(1 << 20)] for i in range(4)]
        strides = tuple(map(rng.choice, choices[: rank - 1]))
        box, rows = [min(swizzles[swizzle] // size, 256)], MAX_BOX_BYTES // swizzles[swizzle]
        for _ in range(rank - 1):
            box.append(rng.randint(1, min(256, rows)))
            rows //= box[-1]
        recipes.append(TensorMapRecipe(1, element, sizes, strides, tuple(box), swizzle, size))
    host = made(Launch(PARAMETERS, tuple(recipes)))
    offsets, end = parameter_offsets(PARAMETERS)
    first = -(-(parameters_at + end) // 64) * 64 - parameters_at
    for turn in range(turns):
        values = [rng.randrange(256), rng.randrange(1 << 52) * 16, *(rng.randrange(0, 1 << 32) for _ in range(5)),
                  *(16 * rng.randrange(1 << rng.randrange(1, 32)) for _ in range(4))]  # fmt: skip
        if turn < 10:
            values[2 + turn % 5] = turn // 5  # an empty tensor, and one of a single element
        before = bytearray(rng.randbytes(first + len(recipes) * SIZE))
        for at, parameter, value in zip(offsets, PARAMETERS, values):
            before[at : at + parameter.size] = value.to_bytes(parameter.size, "little")
        wanted = bytearray(before)
        for number, recipe in enumerate(recipes):
            at = first + number * SIZE
            wanted[at : at + SIZE // 2] = tensor_map(recipe, values, values[1])[: SIZE // 2]
        assert host.filled("k", bytes(before)) == wanted


@pytest.mark.parametrize("parameters_at", [0x210, 0x380])
def test_host_code_encodes_what_the_library_encodes(parameters_at):
    pytest.importorskip("oracle.host_objects").require_host_code()
    from oracle.host_objects import HostObject

    def made(launch):
        return HostObject(host_object.host_object({"k": launch}, parameters_at=parameters_at))

    check_host_code(made, parameters_at, 50)


@pytest.mark.parametrize("system", host_object.SYSTEMS)
@pytest.mark.parametrize("arch", host_object.ARCHITECTURES)
def test_code_of_every_host_encodes_what_the_library_encodes(arch, system):
    """On an emulated processor, called as the host's system calls it."""
    emulated = pytest.importorskip("oracle.emulated_hosts")

    def made(launch):
        data = host_object.host_object({"k": launch}, arch, system, parameters_at=0x210)
        return emulated.EmulatedObject(data, arch, system)

    check_host_code(made, 0x210, 20)


@pytest.mark.parametrize("system", host_object.SYSTEMS)
@pytest.mark.parametrize("arch", host_object.ARCHITECTURES)
def test_pre_load_of_every_host_gives_a_copy_that_leads_to_the_kernels(arch, system):
    emulated = pytest.importorskip("oracle.emulated_hosts")
    for kernels in (_kernels("one"), {**_kernels("one"), **MAPS}):
        host = emulated.EmulatedObject(host_object.host_object(kernels, arch, system, 0x210), arch, system)
        assert list(host.functions) == list(kernels)
        assert host.pre_load(0) is None
        record = struct.unpack("<i28xqqiiiiq", host.pre_load(2))
        assert record[:2] == (2, 64) and record[3] == len(kernels)


REMAKE = (
    "from libtile.backend.host_object import made; from libtile.backend.host_template import HOSTS, NAME, path; "
    "from libtile.ir.kernels import Launch; "
    "[open(path(*host), 'wb').write(made({NAME: Launch()}, *host)) for host in HOSTS]"
)


@pytest.mark.parametrize(("arch", "system"), host_template.HOSTS)
def test_the_template_is_what_llvm_makes(arch, system):
    made = host_object.made(_kernels(host_template.NAME), arch, system)
    assert Path(host_template.path(arch, system)).read_bytes() == made, f'make them anew: python -c "{REMAKE}"'


@pytest.mark.parametrize(("arch", "system"), host_template.HOSTS)
def test_the_object_of_one_kernel_is_what_llvm_makes(arch, system):
    for name in ("k", "kernel", "x" * 14, "x" * 15, "x" * 16, "x" * 31, "ünï$", "x" * 2000):
        kernel = _kernels(name)
        assert host_object.host_object(kernel, arch, system) == host_object.made(kernel, arch, system), name
