# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""llvmlite's library called directly: the same as `llvmlite.binding`, which takes its place where it has to."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import textwrap

import llvmlite
import llvmlite.binding
import pytest

from libtile.backend import libllvm
from libtile.targets import DATA_LAYOUT, TRIPLE
from patience import PATIENCE
from tools.process import ROOT

IR = f"""
target triple = "{TRIPLE}"
target datalayout = "{DATA_LAYOUT}"
@table = internal addrspace(1) global i32 3
declare float @llvm.nvvm.ex2.approx.ftz.f32(float)
define internal float @half(float %x) {{
  %y = fmul float %x, 5.0e-1
  ret float %y
}}
define float @unused(float %x) {{
  ret float %x
}}
define ptx_kernel void @k(ptr addrspace(1) %p) {{
  %x = load float, ptr addrspace(1) %p
  %h = call float @half(float %x)
  %e = call float @llvm.nvvm.ex2.approx.ftz.f32(float %h)
  store float %e, ptr addrspace(1) %p
  ret void
}}
"""


def bindings() -> list:
    found = llvmlite.binding
    found.initialize_all_targets()
    found.initialize_all_asmprinters()
    return [found, direct()]


def direct() -> libllvm.Binding:
    """The binding of a process that has not loaded llvmlite's."""
    loaded = sys.modules.pop("llvmlite.binding")
    try:
        library = libllvm._library()
    finally:
        sys.modules["llvmlite.binding"] = loaded
    assert library is not None, (
        f"llvmlite {llvmlite.__version__} is none of {libllvm.RELEASES}: compare llvmlite/binding/*.py with _FUNCTIONS"
    )
    return libllvm.Binding(library)


def made(llvm, level: int) -> list:
    context = llvm.create_context()
    module = llvm.parse_assembly(IR, context)
    module.verify()
    facts = [(f.name, bool(f.is_declaration), getattr(f.linkage, "name", f.linkage)) for f in module.functions]
    facts += [v.name for v in module.global_variables]
    part = llvm.parse_bitcode(
        llvm.parse_assembly("define float @other(float %x) {\n ret float %x\n}\n", context).as_bitcode(), context
    )
    part.triple, part.data_layout = module.triple, module.data_layout
    module.link_in(part)
    module.get_function("other").linkage = "internal"
    module.get_function("unused").linkage = "internal"
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(cpu="sm_90", features="+ptx80", opt=level)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=level))
    passes = llvm.create_new_module_pass_manager()
    for name in ("global_dead_code_eliminate", "sroa", "simplify_cfg", "sccp", "aggressive_dce"):
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    facts += [str(module), str(module.get_function("k")), module.triple, module.data_layout]
    builder.getModulePassManager().run(module, builder)
    return [*facts, str(module), machine.emit_assembly(module)]


@pytest.mark.parametrize("level", [1, 3])
def test_both_bindings_make_the_same(level):
    theirs, ours = bindings()
    assert made(ours, level) == made(theirs, level)


def test_both_bindings_make_the_same_objects():
    def emitted(llvm) -> bytes:
        module = llvm.parse_assembly("define i32 @f(i32 %x) {\n ret i32 %x\n}\n", llvm.create_context())
        target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
        return target.create_target_machine(opt=2, reloc="pic", codemodel="large").emit_object(module)

    theirs, ours = map(emitted, bindings())
    assert ours == theirs and ours.startswith(b"\x7fELF")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda llvm: llvm.parse_assembly("define void", llvm.create_context()),
        lambda llvm: llvm.parse_bitcode(b"BC\xc0\xde nothing"),
        lambda llvm: llvm.parse_assembly("define i32 @f() {\n ret i32 %x\n}\n", llvm.create_context()),
        lambda llvm: llvm.parse_assembly(
            "define i32 @f(i1 %c) {\n br i1 %c, label %a, label %b\na:\n %x = add i32 1, 2\n br label %b\nb:\n"
            " ret i32 %x\n}\n",
            llvm.create_context(),
        ).verify(),
        lambda llvm: llvm.parse_assembly(IR, llvm.create_context()).get_function("nobody"),
        lambda llvm: llvm.Target.from_triple("nothing-at-all"),
    ],
    ids=["text", "bitcode", "undefined", "dominance", "name", "triple"],
)
def test_both_bindings_refuse_the_same_in_the_same_words(wrong):
    said = []
    for llvm in bindings():
        with pytest.raises((RuntimeError, NameError)) as caught:
            wrong(llvm)
        said.append((type(caught.value), str(caught.value)))
    assert said[0] == said[1]


def test_two_modules_that_define_one_name_cannot_be_linked():
    for llvm in bindings():
        context = llvm.create_context()
        first, second = (llvm.parse_assembly(IR, context) for _ in range(2))
        with pytest.raises(RuntimeError, match="symbol multiply defined"):
            first.link_in(second)


@pytest.mark.slow
def test_what_a_cycle_holds_ends_in_an_order_that_llvm_can_bear():
    llvm = direct()
    for _ in range(20):
        context = llvm.create_context()
        module = llvm.parse_assembly(IR, context)
        machine = llvm.Target.from_triple(TRIPLE).create_target_machine()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
        for first, *others in itertools.permutations(
            [context, module, machine, builder.getModulePassManager(), builder]
        ):
            first.others = others  # in a cycle, each in every place
            others[-1].others = [first]
            others[0].text = str(module)
        del context, module, machine, builder, first, others
        gc.collect()


def in_process(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=PATIENCE,
    )
    return done.stdout.strip()


LOAD = """
import sys
from libtile.backend import libllvm, nvptx
{before}
llvm = libllvm.load()
print(type(llvm).__name__, "llvmlite.binding" in sys.modules, "llvmlite.ir" in sys.modules)
assert llvm.Target.from_triple("nvptx64-nvidia-cuda")
"""


def test_a_compilation_does_not_load_llvmlites_binding():
    assert in_process(LOAD.format(before="")) == "Binding False False"


@pytest.mark.parametrize(
    "before",
    [
        "import llvmlite.binding",
        "libllvm.RELEASES = ('0.1.',)",
        "libllvm._FUNCTIONS['NobodyHasThis'] = (None, ())",
        "libllvm.CDLL = lambda path: (_ for _ in ()).throw(OSError(path))",
    ],
    ids=["loaded", "release", "function", "file"],
)
def test_llvmlites_binding_takes_its_place(before):
    assert in_process(LOAD.format(before=before)).startswith("module True")


def test_every_function_has_the_parameters_that_llvmlite_declares():
    from llvmlite.binding import ffi

    for name in libllvm._FUNCTIONS:
        theirs = getattr(ffi.lib, f"LLVMPY_{name}")._cfn
        if theirs.argtypes is not None:
            assert len(theirs.argtypes) == len(libllvm._FUNCTIONS[name][1]), name
