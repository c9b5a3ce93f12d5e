# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR in MLIR's llvm dialect: MLIR verifies it, and what IREE's translation makes of it is the same PTX."""

from __future__ import annotations

import re
import struct
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import libtile
from kernels import corpus
from libtile import mlir

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.bc"))


@pytest.fixture(scope="module")
def iree() -> ModuleType:
    pytest.importorskip("iree.compiler", reason="IREE's bindings are not installed")
    return import_module("iree.compiler.ir")


def translated(llvm_ir: str, ir: ModuleType) -> str:
    """The LLVM IR that IREE's translation makes of the module, with floats as LLVM 22 spells them."""
    text = import_module("iree.compiler.dialects.llvm").translate_module_to_llvmir(
        mlir.llvm_to_mlir(llvm_ir, ir).operation
    )
    for newer, bits in (("-inf", "FFF0"), ("+inf", "7FF0"), ("+qnan", "7FF8")):
        text = re.sub(rf"(?<=[ (]){re.escape(newer)}\b", f"0x{bits}000000000000", text)
    return re.sub(r"\bf0x([0-9A-F]{8})", lambda found: _as_double(int(found[1], 16)), str(text))


def _as_double(bits: int) -> str:
    """The bits of a float as LLVM 22 writes them: those of the double of the same value."""
    return f"0x{struct.pack('>d', struct.unpack('<f', bits.to_bytes(4, 'little'))[0]).hex().upper()}"


def instructions(llvm_ir: str, cpu: str) -> Counter[str]:
    """The PTX instructions of a module, whatever their registers and labels."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=cpu, features="+ptx86", opt=3)
    module = llvm.parse_assembly(llvm_ir, llvm.create_context())
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    lines = machine.emit_assembly(module).splitlines()
    return Counter(re.sub(r"[%$]\w+", "", line.partition("//")[0]).strip() for line in lines)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_comes_back_from_the_dialect_as_the_same_ptx(path: Path, iree: ModuleType) -> None:
    llvm_ir = libtile.compile(path, "sm_80", emit="llvm").llvm_ir
    assert instructions(translated(llvm_ir, iree), "sm_80") == instructions(llvm_ir, "sm_80")


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", corpus.KERNELS)
def test_every_kernel_is_a_module_of_the_dialect(name: str, gpu_name: str, iree: ModuleType) -> None:
    kernel = corpus.KERNELS[name]
    llvm_ir = libtile.compile(corpus.export(kernel, kernel.versions[-1]), gpu_name, emit="llvm").llvm_ir
    assert mlir.llvm_to_mlir(llvm_ir, iree).operation.verify()
    if "mbarrier.init" not in llvm_ir:  # which IREE's LLVM has with other operands
        cpu = {"sm_80": "sm_80", "sm_90": "sm_90a", "sm_100": "sm_100a"}[gpu_name]
        assert instructions(translated(llvm_ir, iree), cpu) == instructions(llvm_ir, cpu)


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100", "sm_120"])
def test_mlir_verifies_asynchronous_code(gpu_name: str) -> None:
    pytest.importorskip("jaxlib", reason="the MLIR bindings are not installed")
    ir = import_module("jaxlib.mlir.ir")
    module = mlir.llvm_to_mlir(libtile.compile(EXAMPLES[1], gpu_name, emit="llvm").llvm_ir, ir)
    text = str(module)
    assert module.operation.verify() and "llvm.nvvm.mbarrier.init" in text and "nvvm.grid_constant" in text


ALL = """
target triple = "nvptx64-nvidia-cuda"
@table = internal addrspace(1) constant [3 x i8] c"a\\00\\FF", align 1
@zeros = internal addrspace(3) global [4 x i32] zeroinitializer, align 16
declare float @__nv_expf(float)
define internal i32 @choose(i32 %n, float %f) {
entry:
  %e = call float @__nv_expf(float %f)
  %c = fcmp olt float %e, 0x3FF8000000000000
  switch i32 %n, label %other [ i32 1, label %one
    i32 7, label %other ]
one:
  br i1 %c, label %end, label %other
other:
  %o = phi i32 [ 0, %entry ], [ 5, %one ], [ 0, %entry ]
  br label %end
end:
  %r = phi i32 [ -1, %one ], [ %o, %other ]
  ret i32 %r
}
define ptx_kernel void @k(ptr addrspace(1) align 16 %p, i32 %n) #0 {
entry:
  %room = alloca [8 x i8], align 8
  %r = call i32 @choose(i32 %n, float -0.0)
  %h = insertelement <2 x half> <half 0xH3C00, half 0xH7E00>, half 0xHC000, i32 %r
  %s = shufflevector <2 x half> %h, <2 x half> poison, <3 x i32> <i32 1, i32 poison, i32 0>
  %old = atomicrmw add ptr addrspace(1) %p, i32 %r syncscope("device") monotonic, align 4
  %w = load atomic i32, ptr addrspace(1) %p syncscope("device") acquire, align 4
  %g = getelementptr inbounds i32, ptr addrspace(3) @zeros, i64 1
  store volatile i32 %w, ptr addrspace(3) %g, align 4
  %t = load i8, ptr addrspace(1) @table, align 1, !invariant.load !0
  %v = call { i32, i32 } asm sideeffect "mov.b32 $0, \\22a\\22;", "=r,=r,r"(i32 %old) convergent nounwind
  %x = extractvalue { i32, i32 } %v, 1
  %y = add nuw nsw i32 %x, 2147483647
  %z = zext nneg i8 %t to i32
  %q = or disjoint i32 %y, %z
  %d = sitofp i32 %y to float
  %f = fadd nnan contract float %d, 0x7FF8000000000000
  store i32 %q, ptr addrspace(1) null, align 4
  ret void
}
attributes #0 = { "nvvm.reqntid"="128,1,1" }
!0 = !{}
"""


def test_every_instruction_that_libtile_uses_comes_back(iree: ModuleType) -> None:
    text = translated(ALL, iree)
    for expected in (
        'c"a\\00\\FF", align 1', "[4 x i32] zeroinitializer, align 16", "define internal i32 @choose(i32 %",
        "switch i32 %", "i32 7, label", "ptx_kernel void @k(ptr addrspace(1) align 16 %",
        'syncscope("device") monotonic, align 4', 'load atomic i32, ptr addrspace(1) %0 syncscope("device") acquire',
        "store volatile i32", "!invariant.load", "<3 x i32> <i32 1, i32 poison, i32 0>", "add nuw nsw i32",
        "zext nneg i8", "or disjoint i32", "fadd nnan contract float",
        'asm sideeffect "mov.b32 $0, \\22a\\22;", "=r,=r,r"',
        '"nvvm.reqntid"="128,1,1"', "half -2.000000e+00", "ptr addrspace(1) null",
    ):  # fmt: skip
        assert expected in text
    assert "libtile.convergent" in str(mlir.llvm_to_mlir(ALL, iree))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("ret void\n", "ret nothing\n", "LLVM refuses the text: .*nothing"),
        ("%old = atomicrmw add", "%old = atomicrmw uinc_wrap", "has no atomic 'uinc_wrap' of the llvm dialect"),
        ("!invariant.load", "!nontemporal", "has no metadata 'nontemporal'"),
        ("%r = call i32 @choose(", "%r = call i32 %p2(", "indirect calls"),
        ("align 16 %p, i32 %n)", "inreg %p, i32 %n)", "no attribute of arguments 'inreg'"),
        ("store i32 %q", "%u = cmpxchg ptr addrspace(1) %p, i32 0, i32 1 monotonic monotonic\n  store i32 %q",
         "no op of the llvm dialect for 'cmpxchg'"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_named(old: str, new: str, message: str, iree: ModuleType) -> None:
    text = ALL.replace(old, new).replace("entry:\n  %room", "entry:\n  %p2 = inttoptr i32 %n to ptr\n  %room")
    with pytest.raises(libtile.LibtileError, match=message):
        mlir.llvm_to_mlir(text, iree)
