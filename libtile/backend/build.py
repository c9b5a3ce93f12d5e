# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From LLVM IR to a cubin: LLVM, the finishing of PTX, the host object and ptxas, in this process."""

from __future__ import annotations

from collections.abc import Callable

from libtile.backend import nvptx, ptx
from libtile.backend.effort import Plan, plan
from libtile.backend.host_object import host_object
from libtile.backend.ptxas import Assembler
from libtile.backend.work import Made, Work
from libtile.support import timing
from libtile.targets import target

Run = Callable[[Callable[[], str]], str]
"""Gives what a function gives: `at_once`, or what has another thread call it."""


def at_once(task: Callable[[], str]) -> str:
    """Call a function here."""
    return task()


def build(work: Work, run: Run = at_once) -> Made:
    """Do what the work says; `run` calls what LLVM does. LlvmError, PtxasError or ToolNotFoundError for what a tool
    refuses."""
    how = work.assembly
    planned = plan(work.size) if work.opt_level else Plan()
    if how is None:
        return Made(_ptx(work, planned, run), excesses=planned.excesses)
    gpu = target(work.gpu_name)
    with Assembler(  # which gets ready while LLVM works
        gpu.ptx_target,
        opt_level=planned.assembler_level(work.opt_level),
        line_info=how.line_info,
        debug=how.debug,
        has_host_object=how.host is not None,
        options=how.options,
    ) as ptxas:
        text = _ptx(work, planned, run)
        host = host_object(how.launches, *how.host, gpu.parameters_at) if how.host else None
        return Made(text, ptxas.assemble(text, host), planned.excesses)


def _ptx(work: Work, planned: Plan, run: Run) -> str:
    gpu = target(work.gpu_name)

    def printed() -> str:
        return nvptx.to_ptx(work.llvm_ir, gpu, work.opt_level, work.libraries, planned, tuple(work.entries))

    with timing.stage("LLVM"):
        text = run(printed)
    meta_data = work.launch_meta_data
    if work.lines is None:
        return ptx.finish(text, gpu, work.entries, launch_meta_data=meta_data, ptx_version=ptx.PTX_VERSION)
    from libtile.backend import ptx_lines

    text = ptx.finish(text, gpu, work.entries, launch_meta_data=meta_data, ptx_version=ptx_lines.PTX_VERSION)
    return ptx_lines.finish_lines(text, work.lines, inlined=work.inlined)
