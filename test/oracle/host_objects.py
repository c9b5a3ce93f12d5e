# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the reference assembler makes of bytecode: PTX, and the tensor maps that its host object writes.

The object is x86_64 code for Linux in the cubin's `.nv.host` section. It is loaded into this process, and its function
for a kernel is called with the kernel's parameter block, of which it fills the hidden part behind the visible
parameters: tensor maps of 128 bytes, from the first 64-byte boundary of the constant bank on.
"""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import oracle
from libtile.backend.cubin import read_cubin
from libtile.simulator import EncodedTensorMap
from libtile.targets import target, tensor_map
from patience import PATIENCE

KEEPING = """#!/bin/sh
for argument in "$@"; do case "$argument" in *.ptx) cp "$argument" "{kept}";; esac; done
exec "{ptxas}" "$@"
"""
BLOCK = 4096
"""Bytes of a parameter block."""
_UNWRITTEN = b"\xcc"


class Made(NamedTuple):
    """PTX of a compilation and the host object of its cubin, which is empty where there is none."""

    ptx: str
    host_object: bytes


def reference_compilation(data: bytes, gpu_name: str, folder: Path) -> Made:
    """The PTX that the reference assembler hands to the ptxas beside it, which is one that keeps what it is given."""
    tool, ptxas = oracle.require_tool("tileiras"), oracle.require_tool("ptxas")
    root, kept = folder / "cuda", folder / "kept.ptx"
    (root / "bin").mkdir(parents=True)
    for beside in ("nvvm", "lib"):
        (root / beside).symlink_to(tool.parents[1] / beside)
    beside_us = root / "bin" / "tileiras"
    try:
        beside_us.hardlink_to(tool)
    except OSError:  # on another file system
        shutil.copy(tool, beside_us)
    script = root / "bin" / "ptxas"
    script.write_text(KEEPING.format(kept=kept, ptxas=ptxas))
    script.chmod(0o755)
    (folder / "k.bc").write_bytes(data)
    command = [root / "bin" / "tileiras", f"--gpu-name={gpu_name}", folder / "k.bc", "-o", folder / "k.cubin"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    finally:
        beside_us.unlink()  # a hundred megabytes for each test, which pytest would keep
    return Made(kept.read_text(), read_cubin((folder / "k.cubin").read_bytes()).host_object)


def require_host_code() -> None:
    """Skips the calling test where the reference's host objects cannot be run."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("host objects of the reference assembler are run on x86_64 Linux only")


class HostObject:
    """A host object in this process."""

    def __init__(self, data: bytes) -> None:
        import llvmlite.binding as llvm

        require_host_code()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        empty = llvm.parse_assembly('target triple = "x86_64-unknown-linux-gnu"')
        machine = llvm.Target.from_default_triple().create_target_machine(codemodel="large", reloc="pic")
        self._engine = llvm.create_mcjit_compiler(empty, machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()
        table = self._engine.get_global_value_address("__CUDA_TILEIR_CALLBACKS")
        self.functions: dict[str, int] = {}
        """Addresses of the functions that are called when arguments change, by kernel."""
        size, records = struct.unpack("<QQ", ctypes.string_at(table + 32, 16))
        (count,) = struct.unpack("<i", ctypes.string_at(table + 48, 4))
        for i in range(count):
            name, function = struct.unpack("<Q32xQ", ctypes.string_at(records + i * size, 48))
            self.functions[ctypes.string_at(name).decode()] = function

    def filled(self, kernel: str, parameters: bytes) -> bytes:
        """A block of parameters, once the function for changed arguments has had it."""
        block = (ctypes.c_uint8 * len(parameters)).from_buffer_copy(parameters)
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        status = call(self.functions[kernel])(None, None, None, ctypes.addressof(block))
        assert status == 0
        return bytes(block)

    def maps(self, kernel: str, visible: bytes, gpu_name: str, most: int = 24) -> list[bytes]:
        """The tensor maps behind `visible`, the parameters that the program has. Ends at what is not written."""
        written = self.filled(kernel, visible.ljust(BLOCK, _UNWRITTEN))
        base = target(gpu_name).parameters_at
        first = -(-(base + len(visible)) // 64) * 64 - base
        found = []
        for at in range(first, first + most * tensor_map.SIZE, tensor_map.SIZE):
            half = written[at : at + tensor_map.SIZE // 2]
            if half == _UNWRITTEN * len(half):
                break
            found.append(half + bytes(tensor_map.SIZE // 2))
        return found


def launch_arguments(made: Made, kernel: str, args: Sequence[Any], gpu_name: str) -> list[Any]:
    """The arguments of a kernel in the simulator: `args`, and the tensor maps of its hidden parameters."""
    found = re.search(r"\.entry\s+" + re.escape(kernel) + r"\((.*?)\)", made.ptx, re.S)
    assert found is not None
    visible, *hidden = found[1].split(".hidden")
    if not hidden:
        return list(args)
    block, arrays = b"", {}
    for index, (kind, arg) in enumerate(zip(re.findall(r"\.param \.[a-z]+(\d+)", visible), args, strict=True)):
        size = int(kind) // 8
        if isinstance(arg, np.ndarray):
            # Host code takes addresses that are far apart, so that one names its array.
            arrays[(index + 1) << 36] = arg
            raw = ((index + 1) << 36).to_bytes(8, "little")
        else:
            raw = (
                arg
                if isinstance(arg, bytes)
                else np.asarray(arg, f"f{size}" if isinstance(arg, float) else None).tobytes()
            )
        block = block.ljust(-(-len(block) // size) * size, b"\0") + raw[:size].ljust(size, b"\0")
    maps = HostObject(made.host_object).maps(kernel, block, gpu_name, len(hidden))
    assert len(maps) == len(hidden)
    result = list(args)
    for raw in maps:
        base = tensor_map.decode(raw).address >> 36 << 36
        result.append(EncodedTensorMap(arrays[base], raw, base))
    return result
