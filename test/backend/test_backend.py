# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM IR becomes PTX, gets its directives, and is assembled for every target."""

import subprocess
import sys

import pytest

from libtile.backend import nvptx, ptx, ptxas, tools
from libtile.backend.tools import ToolNotFoundError, find_tool
from libtile.targets import DATA_LAYOUT, TRIPLE, target, targets
from oracle import require_tool
from patience import PATIENCE

IR = f'''
target triple = "{TRIPLE}"
target datalayout = "{DATA_LAYOUT}"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare float @__nv_tgammaf(float)
define ptx_kernel void @k(ptr addrspace(1) %p, i32 %n) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = getelementptr float, ptr addrspace(1) %p, i32 %t
  %v = load float, ptr addrspace(1) %a, align 4
  %e = call float @__nv_tgammaf(float %v)
  store float %e, ptr addrspace(1) %a, align 4
  ret void
}}
'''


def finished(name: str = "sm_90", **options) -> str:
    t = target(name)
    return ptx.finish(nvptx.to_ptx(IR, t), t, {"k": ptx.EntryDirectives(threads=128, **options)})


def test_libdevice_is_linked_and_nothing_of_it_stays_visible():
    text = nvptx.to_ptx(IR, target("sm_80"))
    assert "__nv_tgammaf" not in text
    assert text.count(".entry") == 1


@pytest.mark.parametrize("name", targets())
def test_a_finished_kernel_assembles_for_every_target(name):
    assembled = ptxas.assemble(finished(name), target(name).ptx_target)
    assert assembled.cubin.startswith(b"\x7fELF")
    assert 8 <= assembled.kernels["k"].registers <= 255
    assert assembled.kernels["k"].spill_stores == 0


def test_the_entry_gets_its_directives_and_hidden_parameters():
    text = finished(min_ctas_per_sm=2, hidden_parameters=["k_tma_0", "k_tma_1"], directives={"maxnreg": "128"})
    header = text[text.index(".entry") : text.index("{")]
    assert ".reqntid 128\n.minnctapersm 2\n.language 7\n.maxnreg 128" in header
    assert ".hidden .param .align 64 .b8 k_tma_1[128]" in header
    assert ".version 9.2" in text and ".target sm_90a" in text
    assert ptx.LAUNCH_META_DATA in text
    ptxas.assemble(text.replace(".maxnreg 128\n", ""), "sm_90a")


def test_a_plain_entry_has_no_language():
    text = finished(language=None)
    assert ".language" not in text
    ptxas.assemble(text, "sm_90a")


@pytest.mark.oracle
def test_the_cubin_is_marked_as_tile_ir(tmp_path):
    path = tmp_path / "k.cubin"
    path.write_bytes(ptxas.assemble(finished(), "sm_90a").cubin)
    done = subprocess.run([require_tool("cuobjdump"), "-elf", path], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0
    assert "TILEIR" in done.stdout.upper().replace("_", "")


@pytest.mark.parametrize(
    ("text", "entries", "message"),
    [
        ("nonsense", {}, "no .version"),
        (".version 8.8\n.target sm_80\n.entry k() { ret; }", {}, "no directives were given for entry 'k'"),
        (".version 8.8\n.target sm_80\n", {"k": ptx.EntryDirectives(32)}, "has no entry 'k'"),
        (".version 8.8\n.target sm_80\n.entry k()", {"k": ptx.EntryDirectives(32)}, "has no body"),
        (".version 8.8\n.target sm_80\n.entry k( {}", {"k": ptx.EntryDirectives(32)}, "unbalanced"),
    ],
)
def test_text_of_another_form_is_refused(text, entries, message):
    with pytest.raises(ptx.PtxFormatError, match=message):
        ptx.finish(text, target("sm_80"), entries)


def test_a_ptxas_by_a_pipe_and_one_by_a_file_make_the_same_cubin(monkeypatch, tmp_path):
    piped = ptxas.assemble(finished(), "sm_90a")
    monkeypatch.setattr(ptxas, "_STDIN", str(tmp_path / "absent"))
    filed = ptxas.assemble(finished(), "sm_90a")
    assert (piped.cubin, piped.kernels) == (filed.cubin, filed.kernels)


@pytest.mark.parametrize("by_pipe", [True, False])
def test_a_ptxas_that_is_given_nothing_ends_and_leaves_nothing(tmp_path, monkeypatch, by_pipe):
    monkeypatch.setattr(ptxas, "temporary_folder", lambda: str(tmp_path))
    if not by_pipe:
        monkeypatch.setattr(ptxas, "_STDIN", str(tmp_path / "absent"))
    with pytest.raises(ZeroDivisionError), ptxas.Assembler("sm_90a") as assembler:
        process = assembler._process
        assert (process is not None and process.poll() is None) is by_pipe
        raise ZeroDivisionError
    assert process is None or process.returncode is not None
    ptxas.assemble(finished(), "sm_90a")
    with pytest.raises(ptxas.PtxasError):
        ptxas.assemble("nothing", "sm_90a")
    assert list(tmp_path.iterdir()) == []


def test_a_debugger_finds_the_ptx_in_the_cubin():
    assert b".nv_debug_ptx_txt" in ptxas.assemble(finished(), "sm_90a", opt_level=0, debug=True).cubin


def test_an_error_of_ptxas_names_the_line():
    broken = finished().replace("ret;", "nonsense.f32 %r1;")
    with pytest.raises(ptxas.PtxasError, match=r"ptxas failed for sm_90a: .*line \d+") as caught:
        ptxas.assemble(broken, "sm_90a")
    assert "nonsense" in caught.value.report


def test_an_error_of_llvm_is_reported_not_raised_through():
    with pytest.raises(nvptx.LlvmError, match="LLVM refuses the module"):
        nvptx.to_ptx("define void @f( {", target("sm_80"))


def test_the_report_of_ptxas_is_read():
    log = """ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem"""
    assert ptxas.parse_report(log) == {"k": ptxas.KernelReport(40, 16, 12, 8, 1024, 1)}


def test_a_missing_tool_says_where_it_was_looked_for():
    with pytest.raises(ToolNotFoundError, match="was not found in"):
        find_tool("no-such-tool-of-cuda")


def test_what_is_missing_comes_with_where_to_get_it(monkeypatch):
    assert tools.how_to_get("ptxas", "linux") == "pip install nvidia-cuda-nvcc brings it"
    assert tools.how_to_get("nvdisasm", "win32") == "pip install nvidia-cuda-nvdisasm brings it"
    assert "no build of it for macOS" in tools.how_to_get("libdevice", "darwin")
    monkeypatch.setattr(tools, "_roots", list)
    with pytest.raises(ToolNotFoundError, match=r"^libdevice.10.bc was not found \(there is no CUDA installation\); "):
        tools.libdevice_path.__wrapped__()


def test_the_version_names_the_tool_in_use():
    assert "release 13." in ptxas.version()


def test_what_somebody_tells_the_c_library_is_told_to_ptxas_as_well(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=0")
    assert ptxas._environment()["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=0"
    monkeypatch.delenv("GLIBC_TUNABLES")
    given = ptxas._environment().get("GLIBC_TUNABLES", "")
    assert given.startswith("glibc.malloc.hugetlb=1") or sys.platform != "linux"
