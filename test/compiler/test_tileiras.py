# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileiras` as a process: options, outputs, exit statuses, the shapes of errors.

Statuses and the wordings asked for here are those of the reference assembler 13.5.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import libtile
from libtile import bytecode
from libtile.backend.tools import find_tool, program_name
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.passes.pipeline import parse_pipeline, passes_in
from patience import PATIENCE
from tools.process import Done, run

ROOT = Path(__file__).resolve().parents[2]
VECTOR_ADD = ROOT / "examples" / "vector_add.bc"
ATTENTION = ROOT / "examples" / "attention.bc"
ELF = b"\x7fELF"
PTXAS = find_tool("ptxas")


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch):
    monkeypatch.setenv("LIBTILE_CACHE", "0")


def tileiras(*arguments: str | Path, cwd: Path | None = None) -> Done:
    return run("tileiras", *arguments, cwd=cwd)


def test_a_kernel_becomes_a_cubin_in_the_default_file(tmp_path):
    done = tileiras("--gpu-name=sm_90", VECTOR_ADD, cwd=tmp_path)
    assert (done.status, done.out, done.err) == (0, b"", "")
    assert [p.name for p in tmp_path.iterdir()] == ["elf.o"]
    assert (tmp_path / "elf.o").read_bytes().startswith(ELF)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--gpu-name", "sm_90", "-o", "k"],
        ["-gpu-name=sm_90", "-output-file=k"],
        ["--arch=sm_80", "-o=k", "-O2"],
        ["--arch", "sm_80", "--gpu-name=sm_90", "-o", "other", "-o", "k"],
        ["--gpu-name=sm_120", "-o", "k", "-opt-level=1", "--lineinfo", "--print-all-options", "--preview=simt"],
        ["--gpu-name=sm_90", "-o", "k", "-g", "-O0"],
        ["--gpu-name=sm_90", "-o", "k", "-g", "-dopt", "on"],
        ["--gpu-name=sm_90", "-o", "k", "--lineinfo=false", "--host-arch=aarch64", "--host-os=windows"],
        ["--gpu-name=sm_90", "-o", "k", "--apply-controls="],
        ["--gpu-name=sm_90", "-o", "k", "--O2", "--opt-level=0x1"],
    ],
    ids=lambda a: " ".join(a),
)  # fmt: skip
def test_options_may_be_spelled_in_these_ways(tmp_path, arguments):
    done = tileiras(*arguments, VECTOR_ADD, cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert [p.name for p in tmp_path.iterdir()] == ["k"]
    assert (tmp_path / "k").read_bytes().startswith(ELF)


WRONG = [
    ([], 1, "error: no input file provided"),
    (["a.bc", "b.bc"], 1, "tileiras: Too many positional arguments specified!"),
    (["nosuch.bc", "--gpu-name=sm_90"], 1, "error: unable to read input file 'nosuch.bc': No such file or directory"),
    ([".", "--gpu-name=sm_90"], 1, "error: unable to read input file '.': Is a directory"),
    ([VECTOR_ADD, "--gpu-name=sm_91"], 1, "tileiras: for the --gpu-name option: Cannot find option named 'sm_91'!"),
    ([VECTOR_ADD, "--sanitize=foo"], 1, "tileiras: for the --sanitize option: Cannot find option named 'foo'!"),
    ([VECTOR_ADD, "--remarks=foo"], 1, "tileiras: for the --remarks option: Cannot find option named 'foo'!"),
    ([VECTOR_ADD, "--host-os=mac"], 1, "tileiras: for the --host-os option: Cannot find option named 'mac'!"),
    ([VECTOR_ADD, "-Ofoo"], 1, "tileiras: for the --opt-level option: 'foo' value invalid for integer argument!"),
    ([VECTOR_ADD, "-O99999999999"], 1,
     "tileiras: for the --opt-level option: '99999999999' value invalid for integer argument!"),
    ([VECTOR_ADD, "--lineinfo=maybe"], 1,
     "tileiras: for the --lineinfo option: 'maybe' is invalid value for boolean argument! Try 0 or 1"),
    ([VECTOR_ADD, "--gpu-name"], 1, "tileiras: for the --gpu-name option: requires a value!"),
    ([VECTOR_ADD, "--gpu-nam=sm_90"], 1,
     "tileiras: Unknown command line argument '--gpu-nam=sm_90'.  Try: 'tileiras --help'\n"
     "tileiras: Did you mean '--gpu-name=sm_90'?"),
    ([VECTOR_ADD, "--preview=zot"], 1,
     "tileiras: for the --preview option: unknown preview feature 'zot'; supported features: simt"),
    ([VECTOR_ADD, "--frob"], 1, "tileiras: Unknown command line argument '--frob'.  Try: 'tileiras --help'"),
    ([VECTOR_ADD], 2, "error: no GPU was named: give --gpu-name, one of sm_80"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-O4"], 2, "error: invalid optimization level: 4"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-g"], 2, "error: optimized debugging is currently not supported, change the"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "--apply-controls=f"], 2, "error: --apply-controls is not supported on this"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-o", "no/such/k"], 2, "error: cannot open output file 'no/such/k': No such"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-o", ""], 2, "error: cannot open output file '': No such file or directory"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-o", "/dev/full"], 2,
     "error: cannot write output file '/dev/full': No space left on device"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "--remarks=all", "--remark-format=yaml", "--remarks-output-file=/dev/full"], 3,
     "error: cannot write output file '/dev/full': No space left on device"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-l", VECTOR_ADD, "--preview=simt"], 5,
     "error: failed to open tile library: The file was not recognized as a valid object file"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-l", PTXAS, "--preview=simt"], 5, "error: cannot link tile library '"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-l", "x"], 5, "error: libraries require the 'simt' preview feature"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "-l", "x", "--preview=simt"], 5,
     "error: failed to open tile library: No such file or directory"),
    ([VECTOR_ADD, "--gpu-name=sm_90", "--remarks=all", "--remark-format=yaml", "--remarks-output-file=no/such"], 3,
     "Error opening remark output file 'no/such': No such file or directory\n"
     "error: failed to enable optimization remarks"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "status", "message"), WRONG, ids=lambda v: None if isinstance(v, list) else str(v)
)
def test_what_is_wrong_is_said_and_nothing_is_written(tmp_path, arguments, status, message):
    done = tileiras(*arguments, cwd=tmp_path)
    assert done.err.startswith(message)
    assert done.status == status
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data", [b"", b"junk", ELF, VECTOR_ADD.read_bytes()[:300]], ids=["empty", "junk", "elf", "cut"]
)
def test_input_that_is_no_bytecode_is_refused_with_status_3(tmp_path, data):
    (tmp_path / "k.bc").write_bytes(data)
    done = tileiras("--gpu-name=sm_90", "k.bc", "-o", "k", cwd=tmp_path)
    assert done.status == 3
    assert all(line.startswith("error: ") for line in done.err.splitlines())
    assert done.err.splitlines()[-1] == "error: input does not correspond to Tile IR bytecode"
    assert [p.name for p in tmp_path.iterdir()] == ["k.bc"]


def test_a_text_of_tile_ir_is_called_so(tmp_path):
    (tmp_path / "k.mlir").write_text("cuda_tile.module @m { entry @k() { return } }")
    done = tileiras("--gpu-name=sm_90", "k.mlir", "-o", "k", cwd=tmp_path)
    assert done.status == 3
    assert done.err.splitlines() == ["error: input does not correspond to Tile IR bytecode", bytecode.IS_TEXT]
    assert "cuda-tile-translate -mlir-to-cudatilebc" in bytecode.IS_TEXT


def test_a_dash_is_standard_input(tmp_path):
    done = run("tileiras", "--gpu-name=sm_90", "--emit=tileaa", "-", stdin=VECTOR_ADD.read_bytes(), cwd=tmp_path)
    assert done.status == 0 and b"nv_tileaa.func" in done.out and not list(tmp_path.iterdir()), done.err


def test_programs_of_windows_have_their_suffix():
    assert (program_name("ptxas", "win32"), program_name("ptxas", "linux")) == ("ptxas.exe", "ptxas")


def test_list_versions_needs_no_input():
    done = tileiras("--list-versions")
    assert (done.status, done.text.split()) == (0, ["13.1", "13.2", "13.3", "13.4", "13.5"])


@pytest.mark.parametrize("option", ["--help", "-h", "--help-hidden", "--help-list", "--help-list-hidden"])
def test_help_names_every_option_of_the_original(option):
    done = tileiras(option)
    assert done.status == 0
    originals = {
        "-O", "--apply-controls", "--arch", "--device-debug", "-g", "--gpu-name", "--host-arch", "--host-os", "-l",
        "--lineinfo", "--list-versions", "-o", "--opt-level", "--output-file", "--preview", "--sanitize", "--version",
        "--remark-format", "--remarks", "--remarks-analysis", "--remarks-failed", "--remarks-missed",
        "--remarks-output-file", "--remarks-passed",
    }  # fmt: skip
    shown = set(re.findall(r"(?<![\w-])--?[\w-]+", done.text))
    assert originals <= shown


@pytest.mark.parametrize(
    ("stage", "needle"),
    [("tileaa", "nv_tileaa.func"), ("tileas", "#nv_tileas.layout"), ("llvm", "define ptx_kernel"), ("ptx", ".entry")],
)
def test_emit_stops_after_a_stage_and_prints_it(tmp_path, stage, needle):
    done = tileiras("--gpu-name=sm_90", f"--emit={stage}", VECTOR_ADD, cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    assert needle in done.text
    assert not list(tmp_path.iterdir())


def test_remarks_stay_out_of_an_output_on_stdout(tmp_path):
    done = tileiras("--gpu-name=sm_90", "--emit=ptx", "--remarks=all", VECTOR_ADD, cwd=tmp_path)
    assert done.status == 0
    assert "remark[" in done.err and "remark[" not in done.text
    beside = tileiras("--gpu-name=sm_90", "--remarks=all", VECTOR_ADD, "-o", "k", cwd=tmp_path)
    assert (beside.text, beside.err) == (done.err, "")


CLOSED = [
    ("-o k >&-", 0, "", ["k"]),
    ("-o k --remarks=all >&-", 0, "", ["k"]),
    ("-o k <&- >&- 2>&-", 0, "", ["k"]),
    ("--emit=ptx >&-", 2, "error: cannot open output file '-': Bad file descriptor\n", []),
    ("--emit=ptx >/dev/full", 1, "tileiras: error: No space left on device\n", []),
    ("-o k --remarks=all >/dev/full", 1, "tileiras: error: No space left on device\n", []),
    ("--sanitize=foo 2>&-", 1, "", []),
]


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize(("arguments", "status", "said", "files"), CLOSED, ids=[row[0] for row in CLOSED])
def test_closed_and_full_streams_are_no_traceback_and_no_half_file(tmp_path, arguments, status, said, files):
    command = f'exec "{sys.executable}" -m tileiras --gpu-name=sm_90 "{VECTOR_ADD}" {arguments}'
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (status, said)
    assert [p.name for p in tmp_path.iterdir()] == files


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX systems")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_file_or_a_traceback(tmp_path, number):
    (tmp_path / "tmp").mkdir()
    arguments = ["--gpu-name=sm_90", "--print-ir-after-all", ATTENTION, "-o", tmp_path / "k"]
    tool = subprocess.Popen(
        [sys.executable, "-m", "tileiras", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # jobs in the background of a script ignore SIGINT
    )  # fmt: skip
    assert tool.stderr is not None
    tool.stderr.readline()  # it compiles now, and does not end before much more of what it prints is read
    tool.send_signal(number)
    rest = tool.communicate(timeout=PATIENCE)[1]
    assert tool.returncode == -number and "Traceback" not in rest
    assert [p.name for p in tmp_path.rglob("*")] == ["tmp"]


NAMES = {
    "$x": 0, "a$b": 0, "__": 0, "add": 0, "tid": 0, "x" * 2000: 0,
    "a-b": 5, "a.b": 5, "a b": 5, "ünï": 5, "%x": 5, "1a": 5, "_": 5, 'a"b': 5, "WARP_SZ": 5, "__nv_expf": 5,
}  # fmt: skip


def test_a_kernel_name_that_ptx_cannot_have_is_refused_in_words():
    for name, status in NAMES.items():
        module = libtile.parse(f'cuda_tile.module @m {{ entry @"{name.replace(chr(34), chr(92) + chr(34))}"() {{ }} }}')
        data = libtile.write(module, "13.4")
        options = Options("sm_90", emit="ptx")
        if status == 0:
            assert f".entry {name}(" in driver.compile_bytecode(data, options).ptx
        else:
            with pytest.raises(driver.CompilationError, match=f"op has the name {re.escape(repr(name))}, which is "):
                driver.compile_bytecode(data, options)


def test_keep_leaves_every_stage_beside_the_output(tmp_path):
    assert tileiras("--gpu-name=sm_90", "--keep", VECTOR_ADD, "-o", tmp_path / "k.cubin").status == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.cubin", "k.ll", "k.ptx", "k.tileaa.mlir", "k.tileas.mlir"]
    assert ".language 7" in (tmp_path / "k.ptx").read_text()


def test_the_simt_launch_abi_is_an_ordinary_kernel(tmp_path):
    done = tileiras("--gpu-name=sm_90", "--emit=ptx", "--launch-abi=simt", VECTOR_ADD)
    assert ".language" not in done.text and ".entry" in done.text


def test_print_ir_after_a_pass_and_after_all(tmp_path):
    every = tileiras("--gpu-name=sm_90", "--print-ir-after-all", VECTOR_ADD, "-o", tmp_path / "k")
    passes = re.findall(r"// -----// IR Dump After (\S+) //----- //", every.err)
    assert passes == [item.name for item in passes_in(parse_pipeline("O3"))]
    one = tileiras("--gpu-name=sm_90", f"--print-ir-after={passes[1]}", VECTOR_ADD, "-o", tmp_path / "k")
    assert re.findall(r"IR Dump After (\S+)", one.err) == [passes[1]] * passes.count(passes[1])
    nothing = tileiras("--gpu-name=sm_90", "--print-ir-after=nothing", VECTOR_ADD, "-o", tmp_path / "x")
    assert (nothing.status, nothing.err.splitlines()) == (
        1, ["error: there is no pass 'nothing': --list-passes lists those that there are"]
    )  # fmt: skip
    unknown = tileiras("--gpu-name=sm_90", "--print-ir-before=fuse-fma", VECTOR_ADD, "-o", tmp_path / "x")
    assert unknown.status == 1
    assert unknown.err.startswith(f"error: no pass 'fuse-fma' was run; there were {passes[0]}, ")
    assert not (tmp_path / "x").exists()


def test_passes_are_counted_and_left_out_without_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBTILE_CACHE", "1")
    arguments = ("--gpu-name=sm_80", f"--cache-dir={tmp_path / 'cache'}", "--emit=tileas", VECTOR_ADD)
    for _ in range(2):
        done = tileiras(*arguments, "--mlir-pass-statistics", "--opt-bisect-limit=0", "--verify-each")
        assert "BISECT: NOT running pass (1) " in done.err
        assert "  tileas-insert-barriers: barriers inserted" in done.err
        assert "convert-tileaa-to-tileas" not in re.sub(r"^ .*", "", done.err, flags=re.MULTILINE)  # it has to run


def test_a_reproducer_of_a_failing_pass_is_written(tmp_path):
    arguments = ("--gpu-name=sm_80", "--pass-pipeline=O3,convert-tileaa-to-tileas", VECTOR_ADD, "-o", tmp_path / "k")
    done = tileiras(*arguments, f"--mlir-pass-pipeline-crash-reproducer={tmp_path / 'r.mlir'}")
    assert done.status == 5 and f"a reproducer is in '{tmp_path / 'r.mlir'}'" in done.err
    again = run("cuda_tile_opt", "--run-reproducer", tmp_path / "r.mlir")
    assert again.status == 1 and "op is in nv_tileas already" in again.err
    assert [p.name for p in tmp_path.iterdir()] == ["r.mlir"]


def test_the_pipeline_of_a_level_is_printed_and_another_one_is_run(tmp_path):
    printed = tileiras("--gpu-name=sm_80", "-O2", "--print-pipeline")
    assert "convert-cuda-tile-to-tileaa{gpu-name=sm_80}" in printed.text
    arguments = ("--gpu-name=sm_80", "--emit=ptx", VECTOR_ADD.with_name("gemm.bc"))
    given = tileiras(*arguments, "-O2", f"--pass-pipeline=builtin.module({printed.text.strip()})")
    assert given.text == tileiras(*arguments, "-O2").text != ""
    other = printed.text.strip().replace("generate-schedule", "generate-schedule{num-stages=2}")
    fewer = tileiras(*arguments, f"--pass-pipeline={other}")
    assert [re.findall(r"wait_group \t(\d)", text) for text in (given.text, fewer.text)] == [["2"], ["0"]]
    assert tileiras("--print-pipeline", "--pass-pipeline=cse,O0").text.startswith("cse,strip-mine{refuse-uncut=true},")


@pytest.mark.parametrize(
    "gpu, schedule, found",
    [
        ("sm_80", "serial", {"mma.sync"}),
        ("sm_80", "pipelined", {"cp.async.cg", "cp.async.wait_group", "mma.sync"}),
        ("sm_80", "specialized", {"cp.async.cg", "cp.async.mbarrier", "mma.sync"}),
        ("sm_90", "serial", {"mma.sync"}),
        ("sm_90", "pipelined", {"cp.async.cg", "cp.async.wait_group", "mma.sync"}),
        ("sm_90", "specialized", {"cp.async.bulk", "wgmma.mma"}),
        ("sm_121", "specialized", {"cp.async.bulk", "mma.sync"}),
    ],
)
def test_a_schedule_says_who_copies(gpu, schedule, found):
    gemm = VECTOR_ADD.with_name("gemm.bc")
    made = tileiras(f"--gpu-name={gpu}", "--emit=ptx", "--launch-abi=simt", f"--schedule={schedule}", gemm).text
    assert set(re.findall(r"cp\.async\.(?:cg|bulk|wait_group|mbarrier)|mma\.sync|wgmma\.mma", made)) == found


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--gpu-name=sm_90", "--pass-pipeline=O3"], "a schedule is one of the level's passes"),
    ],
)
def test_a_schedule_that_cannot_be_had_is_refused(tmp_path, arguments, said):
    done = tileiras(*arguments, "--schedule=specialized", VECTOR_ADD, "-o", tmp_path / "k")
    assert done.status == 2 and said in done.err and not (tmp_path / "k").exists()


@pytest.mark.parametrize(
    "pipeline, said",
    [
        ("nothing", "'nothing' does not refer to a registered pass"),
        ("builtin.module(O3", "expected a closing parenthesis"),
        ("strip-mine{gpu-name=sm_80}", "pass 'strip-mine' is for sm_80, and the compilation for sm_90"),
        ("cse{x=1}", "no such option 'x' in pass 'cse'"),
    ],
)
def test_a_pipeline_that_cannot_be_run_is_refused(tmp_path, pipeline, said):
    done = tileiras("--gpu-name=sm_90", f"--pass-pipeline={pipeline}", VECTOR_ADD, "-o", tmp_path / "k")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert said in done.err and not (tmp_path / "k").exists()


def test_time_report_accounts_for_the_whole(tmp_path):
    done = tileiras("--gpu-name=sm_90", "--time-report", VECTOR_ADD, "-o", tmp_path / "k")
    rows = [line.split(maxsplit=2) for line in done.err.splitlines()[1:]]
    seconds = {name: float(time) for time, _, name in rows}
    assert {"read bytecode", "verify", "convert-cuda-tile-to-tileaa", "optimize LLVM IR", "ptxas", "other"} <= set(
        seconds
    )
    assert sum(v for k, v in seconds.items() if k != "total") == pytest.approx(seconds["total"], abs=0.01)


def test_memcheck_instruments_the_kernel(tmp_path):
    for name, options in (("plain", []), ("checked", ["--sanitize=memcheck"])):
        assert tileiras("--gpu-name=sm_90", *options, VECTOR_ADD, "-o", tmp_path / name).status == 0
    assert b"__cuda_sanitizer_memcheck" not in (tmp_path / "plain").read_bytes()
    assert b"__cuda_sanitizer_memcheck" in (tmp_path / "checked").read_bytes()


def test_the_host_object_is_for_the_named_host(tmp_path):
    elffile = pytest.importorskip("elftools.elf.elffile")
    import io

    for arch, machine in (("x86_64", "EM_X86_64"), ("aarch64", "EM_AARCH64")):
        tileiras("--gpu-name=sm_90", f"--host-arch={arch}", VECTOR_ADD, "-o", tmp_path / "k")
        section = elffile.ELFFile(io.BytesIO((tmp_path / "k").read_bytes())).get_section_by_name(".nv.host")
        assert elffile.ELFFile(io.BytesIO(section.data()))["e_machine"] == machine


def test_a_module_without_functions_compiles(tmp_path):
    module = libtile.parse("cuda_tile.module @m {\n}\n")
    (tmp_path / "k.bc").write_bytes(libtile.write(module, "13.4"))
    assert tileiras("--gpu-name", "sm_120", "k.bc", "-o", "k", cwd=tmp_path).status == 0
    assert (tmp_path / "k").read_bytes().startswith(ELF)


def test_a_second_run_comes_from_the_cache_and_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBTILE_CACHE", "1")
    folder = f"--cache-dir={tmp_path / 'cache'}"
    first = tileiras("--gpu-name=sm_90", folder, "--time-report", VECTOR_ADD, "-o", tmp_path / "a")
    second = tileiras("--gpu-name=sm_90", folder, "--time-report", VECTOR_ADD, "-o", tmp_path / "b")
    assert ("ptxas" in first.err, "ptxas" in second.err) == (True, False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    third = tileiras("--gpu-name=sm_90", folder, "--time-report", "--no-cache", VECTOR_ADD, "-o", tmp_path / "b")
    assert "ptxas" in third.err
    fourth = tileiras("--gpu-name=sm_90", folder, "--time-report", "-O1", VECTOR_ADD, "-o", tmp_path / "b")
    assert "ptxas" in fourth.err


def test_a_compilation_that_fails_leaves_no_file(tmp_path):
    (tmp_path / "k.bc").write_bytes(VECTOR_ADD.read_bytes()[:300])
    arguments = ["--gpu-name=sm_90", "--remarks=all", "--remark-format=yaml", "--keep", "k.bc", "-o", "k"]
    assert tileiras(*arguments, cwd=tmp_path).status == 3
    assert [p.name for p in tmp_path.iterdir()] == ["k.bc"]


def test_a_yaml_file_of_remarks_is_written_when_remarks_are_wanted(tmp_path):
    arguments = ["--gpu-name=sm_90", "--remark-format=yaml", VECTOR_ADD, "-o", "k"]
    assert tileiras(*arguments, cwd=tmp_path).status == 0
    assert [p.name for p in tmp_path.iterdir()] == ["k"]
    assert tileiras(*arguments, "--remarks=all", cwd=tmp_path).status == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k", "tileir_remarks.yaml"]
