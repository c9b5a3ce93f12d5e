# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR to PTX, by llvmlite's library: links libdevice where a kernel calls it, optimizes, prints for a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from libtile.backend import libllvm
from libtile.backend.effort import Effort, Plan
from libtile.backend.fatal import explained
from libtile.backend.libdevice import library
from libtile.support import timing
from libtile.support.errors import LibtileError
from libtile.support.threads import LLVM
from libtile.targets import TRIPLE, Target

PTX_VERSION_OF_LLVM = 90
"""The newest PTX version that LLVM's printer knows (times 10); finishing raises it to what ptxas is to read."""

ORDINARY = Plan()
"""All that the level asks for."""

_LIBDEVICE = "__nv_"
"""What the names of libdevice's functions begin with."""


class LlvmError(LibtileError):
    """LLVM refused a module that the compiler made; the message holds LLVM's words and where the IR went wrong."""


def load_llvm() -> Any:
    """The binding of LLVM, with all targets ready: see `libtile.backend.libllvm`."""
    return libllvm.load()


def _link_libdevice(
    llvm: Any, context: Any, module: Any, calls: frozenset[str], optimized_for: tuple[str, str] | None
) -> None:
    part = library(llvm, context, calls, optimized_for)
    part.triple = module.triple
    part.data_layout = module.data_layout
    module.link_in(part)
    for name in calls:
        function = module.get_function(name)
        if not function.is_declaration:
            function.linkage = "internal"


def optimize(
    ir: str, target: Target, opt_level: int = 3, libraries: Sequence[bytes] = (), planned: Plan = ORDINARY
) -> tuple[Any, Any]:
    """Parse, link (bitcode `libraries`, libdevice) and optimize a module: (llvmlite module, target machine). LlvmError
    when LLVM refuses the IR, LibraryError for a library."""
    llvm = load_llvm()
    # A context of its own: what earlier modules left in a shared one (uses of constants, their order) can change what
    # the optimizer makes of this one, and is never freed.
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(ir, context)
        module.verify()
    except RuntimeError as problem:
        raise LlvmError(f"LLVM refuses the module: {str(problem).strip()}") from None
    if libraries:
        from libtile.backend import bitcode

        bitcode.link(llvm, context, module, libraries)
    processor = target.llvm_cpu or target.ptx_target, f"+ptx{PTX_VERSION_OF_LLVM}"
    calls = frozenset(f.name for f in module.functions if f.is_declaration and f.name.startswith(_LIBDEVICE))
    if calls:
        _link_libdevice(llvm, context, module, calls, processor if opt_level else None)
    work = planned.effort if opt_level else Effort.FULL
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        *processor, opt=min(opt_level, _SELECTION_LEVELS[work])
    )
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=min(opt_level, 3)))
    cleaner = llvm.create_new_module_pass_manager()
    cleaner.add_global_dead_code_eliminate_pass()
    cleaner.run(module, builder)
    if work in (Effort.LIGHT, Effort.LINEAR):
        _passes(llvm, _LINEAR_PASSES).run(module, builder)
    elif opt_level and not libraries:
        inliner, sinking = ("always_inliner",) if calls else (), ("sinking",) if planned.sinks else ()
        _passes(llvm, (*inliner, *_ORDINARY_PASSES, *sinking, "simplify_cfg")).run(module, builder)
    elif opt_level:  # functions of others are to be inlined and specialized
        builder.getModulePassManager().run(module, builder)
    return module, machine


_SELECTION_LEVELS = {Effort.FULL: 3, Effort.PLAIN_SELECTION: 0, Effort.LIGHT: 1, Effort.LINEAR: 0}
"""The highest level for the selection of instructions. From 1 on it runs passes over the IR first: common
subexpressions go, addresses are taken apart."""


_LINEAR_PASSES = "sroa", "simplify_cfg", "sccp", "aggressive_dce", "simplify_cfg"
"""The passes for functions beyond a limit; ptxas optimizes what they leave."""

_ORDINARY_PASSES = "simplify_cfg", "instruction_combine"
"""Most of the passes for all other functions. Their code comes with the invariants of loops in front of them and
nothing computed twice (`KernelBuilder.compute`), and ptxas rotates and unrolls loops. LLVM's whole pipeline
takes five to ten times as long, and ptxas makes code of the same size of what it leaves (docs/decisions.md)."""


def _passes(llvm: Any, names: Sequence[str]) -> Any:
    passes = llvm.create_new_module_pass_manager()
    for name in names:
        getattr(passes, f"add_{name}_pass")()
    return passes


def to_ptx(
    ir: str,
    target: Target,
    opt_level: int = 3,
    libraries: Sequence[bytes] = (),
    planned: Plan = ORDINARY,
    kernels: Sequence[str] = (),
) -> str:
    """PTX of an LLVM module given as text, as LLVM prints it (see `ptx.finish` for what remains to be done).

    `opt_level` is 0 to 3; `libraries` are bitcode to link, `planned` is for a module of its size. LlvmError
    when LLVM refuses the IR, LibraryError for a library. An intrinsic that the target lacks ends the process inside
    LLVM, so the lowering asks `target.has(...)` before it uses one; `libtile.backend.fatal` says what happened to
    which of the `kernels` if it did not.
    """

    def aborted() -> str:
        named = ", ".join(f"'{name}'" for name in kernels)
        return (
            f"error: LLVM gave up on {named or 'the module'} for {target.name}; its words are above. "
            "This is a fault of libtile: please report it, with the program"
        )

    with LLVM, explained(aborted):
        with timing.stage("optimize LLVM IR"):
            module, machine = optimize(ir, target, opt_level, libraries, planned)
        with timing.stage("print PTX"):
            text = str(machine.emit_assembly(module))
        del module, machine  # while the lock is held
        return text
