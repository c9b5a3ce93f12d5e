# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The host object of a cubin: an ELF object for the machine that launches, carried in the section `.nv.host`.

The driver reads `__CUDA_TILEIR_CALLBACKS` out of it, a record that leads to one record for each kernel, and may call
`__CUDA_TILEIR_ON_PRE_LOAD` for a private copy of it. The layout, as observed in what the reference assembler 13.5
puts there (offsets in bytes; what is not named is zero):

    callbacks (72):  0 i32 version 2 | 32 i64 size of a kernel's record, 64 | 40 pointer to the kernels' records
                     48 i32 number of kernels | 56 i32 2 | 64 pointer to __CUDA_TILEIR_ON_PRE_LOAD
    kernel (64):     0 pointer to the kernel's name | 40 pointer to the function that is called when arguments change

`int ON_PRE_LOAD(table, context, version, callbacks **out)` gives 1 for version 0. Otherwise it copies the record, with
the word at 16 cleared, to a static place, stores that place in `out`, and gives 0; for version 1 it calls the table's
seventh function first, as `table[6](context, 16, &word)`.

The function for changed arguments, `int f(_, _, _, parameters)`, fills a kernel's hidden parameters, tensor maps, in
the block of parameters behind the others (`libtile.backend.host_maps`), and gives 0; without them it does nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from libtile.backend import host_template, libllvm
from libtile.codegen.llvm_text import byte_array, to_bytes
from libtile.ir.kernels import Launch
from libtile.support.errors import LibtileError
from libtile.support.threads import LLVM

ARCHITECTURES = ("x86_64", "aarch64")
SYSTEMS = ("linux", "windows")

CALLBACKS = "__CUDA_TILEIR_CALLBACKS"
ON_PRE_LOAD = "__CUDA_TILEIR_ON_PRE_LOAD"

_VERSION = 2
_KERNEL_SIZE = 64
_KERNEL = "{ ptr, [32 x i8], ptr, [16 x i8] }"
_CALLBACKS = "{ i32, [28 x i8], i64, ptr, i32, [4 x i8], i32, [4 x i8], ptr }"
_SIZE, _WORD, _CLEARED = 72, 8, 16
"""Bytes of the callbacks and of a word of them, and where the word is that a copy has cleared."""

_LEVEL = 0
"""LLVM's level for the object. At 0 it takes a third of the time, which a kernel with tensor maps waits for; its code,
which runs when the arguments of launches change, is half a kilobyte longer for a product. Copies are word by word: at
this level LLVM calls a `memcpy` that is not there."""

_PRE_LOAD_BODY = """
  %word = alloca i32
  switch i32 %version, label %copy [ i32 0, label %refuse i32 1, label %ask ]
refuse:
  ret i32 1
ask:
  %slot = getelementptr ptr, ptr %table, i64 6
  %function = load ptr, ptr %slot
  %ignored = call CONV i32 %function(ptr %context, i32 16, ptr %word)
  br label %copy
copy:
COPIES
  store ptr COPY, ptr %out
  ret i32 0
"""


class HostTargetError(LibtileError):
    """A host architecture or system for which no object can be made."""


def host_ir(kernels: Mapping[str, Launch], arch: str = "x86_64", system: str = "linux", parameters_at: int = 0) -> str:
    """The object's contents as LLVM IR."""
    from libtile.backend.host_maps import encode_ir

    convention = "win64cc " if (arch, system) == ("x86_64", "windows") else ""
    lines = [f'target triple = "{arch}-unknown-linux-gnu"']
    records = []
    for number, (kernel, launch) in enumerate(kernels.items()):
        name, changed = f"@__CUDA_TILEIR_FUNC_NAME_{number}", f"@__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_{number}"
        lines.append(f"{name} = internal constant {byte_array(to_bytes(kernel) + bytes(1))}")
        lines += [
            f"define internal {convention}i32 {changed}(ptr %table, ptr %context, ptr %function, ptr %parameters) {{",
            *encode_ir(launch, "%parameters", parameters_at),
            "  ret i32 0\n}",
        ]
        records.append(
            f"{_KERNEL} {{ ptr {name}, [32 x i8] zeroinitializer, ptr {changed}, [16 x i8] zeroinitializer }}"
        )
    table = "@__CUDA_TILEIR_FUNC_CALLBACKS"
    count = len(kernels)
    lines += [
        f"{table} = internal constant [{count} x {_KERNEL}] [{', '.join(records)}]",
        f"@{CALLBACKS}_ON_PRE_LOAD = internal global [{_SIZE} x i8] zeroinitializer, align 16",
        f"@{CALLBACKS} = constant {_CALLBACKS} {{ i32 {_VERSION}, [28 x i8] zeroinitializer, i64 {_KERNEL_SIZE}, "
        f"ptr {table}, i32 {count}, [4 x i8] zeroinitializer, i32 2, [4 x i8] zeroinitializer, "
        f"ptr @{ON_PRE_LOAD} }}, align 16",
        "declare i64 @llvm.umax.i64(i64, i64)",
        f"define {convention}i32 @{ON_PRE_LOAD}(ptr %table, ptr %context, i32 %version, ptr %out) {{"
        + _PRE_LOAD_BODY.replace("CONV ", convention)
        .replace("COPIES", "\n".join(_copies()))
        .replace("COPY", f"@{CALLBACKS}_ON_PRE_LOAD")
        + "}",
    ]
    return "\n".join(lines) + "\n"


def _copies() -> Iterator[str]:
    """The instructions that copy the callbacks."""
    for at in range(0, _SIZE, _WORD):
        value = "0"
        if at != _CLEARED:
            value = f"%word{at}"
            yield f"  {value} = load i64, ptr getelementptr (i8, ptr @{CALLBACKS}, i64 {at})"
        yield f"  store i64 {value}, ptr getelementptr (i8, ptr COPY, i64 {at})"


def host_object(
    kernels: Mapping[str, Launch], arch: str = "x86_64", system: str = "linux", parameters_at: int = 0
) -> bytes:
    """The ELF object for kernels of these names; empty for no kernels, which need none. `parameters_at` is the
    target's, which kernels with tensor maps need.

    It is position-independent and reaches nothing outside itself. HostTargetError for an unknown host.
    """
    if arch not in ARCHITECTURES or system not in SYSTEMS:
        raise HostTargetError(f"no host object for {arch} and {system}")
    if not kernels:
        return b""
    if len(kernels) == 1:
        ((name, launch),) = kernels.items()
        if not launch.descriptors:  # as in most modules; asking LLVM takes a fifth of the time of a small kernel
            return host_template.named(arch, system, to_bytes(name))
    return made(kernels, arch, system, parameters_at)


def made(kernels: Mapping[str, Launch], arch: str, system: str, parameters_at: int = 0) -> bytes:
    """What `host_object` gives, as LLVM makes it."""
    with LLVM:
        return _object_of(host_ir(kernels, arch, system, parameters_at), arch, system)


def _object_of(ir: str, arch: str, system: str) -> bytes:
    llvm = libllvm.load()
    module = llvm.parse_assembly(ir, llvm.create_context())
    module.verify()
    # The large code model is x86's; AArch64's position-independent code has none and needs none at this size.
    model = "large" if arch == "x86_64" else "small"
    triple = f"{arch}-unknown-linux-gnu"
    # Windows has a register of AArch64 for itself, which code for Linux may use.
    features = "+reserve-x18" if (arch, system) == ("aarch64", "windows") else ""
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(features=features, opt=_LEVEL, reloc="pic", codemodel=model)
    data: bytes = machine.emit_object(module)
    return data
