# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tools in odd surroundings: signals, closed and full streams, no home, long names, hostile names, a broken ptxas."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import libtile
from libtile.backend import ptxas
from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.support.diagnostics import SourceLocation
from libtile.support.errors import visible
from patience import PATIENCE
from tools.process import ROOT

EXAMPLE = ROOT / "examples" / "vector_add.bc"
PTX = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n"
SHELL = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")

TOOLS = {
    "tileiras": "-m tileiras --gpu-name=sm_90 --no-cache --emit=ptx example.bc",
    "tileirdisasm": "-m tileirdisasm example.bc",
    "cuda-tile-translate": "-m cuda_tile_translate -cudatilebc-to-mlir example.bc",
    "cuda-tile-opt": "-m cuda_tile_opt example.mlir",
    "cuda-tile-run": "-m cuda_tile_run example.bc --describe",
    "cuda-tile-diff": "-m cuda_tile_diff --help",
    "cuda-tile-optimize": "-m cuda_tile_optimize example.bc",
    "cuda-tile-reduce": "-m cuda_tile_reduce --help",
    "libtile": "-m libtile_cli --help",
    "simulator": "-m libtile.simulator k.ptx --entry k --trace --stats",
    "layouts": "-m libtile.layouts show mma-c 16x8",
    "annotate": "-m libtile.bytecode.annotate example.bc",
}
"""A command that prints something, by tool."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "example.bc").write_bytes(EXAMPLE.read_bytes())
    (tmp_path / "example.mlir").write_text(libtile.print_module(libtile.read(EXAMPLE)))
    (tmp_path / "k.ptx").write_text(PTX)
    return tmp_path


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python COMMAND` in a shell; fails when it prints a traceback."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    line = ["/bin/sh", "-c", f'"{sys.executable}" {command}']
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, timeout=PATIENCE, check=False)
    err = done.stderr.decode(errors="backslashreplace")
    assert "Traceback" not in err and "internal error" not in err, err
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), err)


@SHELL
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_bears_any_standard_streams(folder: Path, tool: str) -> None:
    command = TOOLS[tool]
    usual = shell(command, folder)
    assert usual.returncode == 0, usual.stderr
    assert usual.stdout or usual.stderr
    assert shell(f"{command} <&- >&- 2>&-", folder).stderr == ""
    full = shell(f"{command} >/dev/full", folder)
    if usual.stdout:
        assert full.returncode == (2 if tool == "cuda-tile-diff" else 1)  # where 1 is for programs that differ
        assert full.stderr.endswith("error: No space left on device\n") and full.stderr.count("error") == 1
    assert shell(f"{command} 2>/dev/full", folder).stdout in (usual.stdout, "")
    closed = shell(f"{command} | true", folder)
    assert closed.stderr == "" or tool == "simulator"  # which prints its trace there
    assert sorted(p.name for p in folder.iterdir()) == ["example.bc", "example.mlir", "k.ptx"]


@SHELL
@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("-m tileirdisasm -", 2),
        ("-m cuda_tile_translate -cudatilebc-to-mlir", 1),
        ("-m cuda_tile_opt", 1),
        ("-m cuda_tile_run -", 1),
        ("-m libtile.simulator - --entry k", 1),
        ("-m libtile.bytecode.annotate -", 2),
    ],
)
def test_a_closed_stdin_is_an_input_that_cannot_be_read(folder: Path, command: str, status: int) -> None:
    done = shell(f"{command} <&-", folder)
    assert done.returncode == status
    assert done.stderr.endswith("input file '-': Bad file descriptor\n") and done.stderr.count("\n") == 1


@SHELL
@pytest.mark.parametrize("command", ["-m cuda_tile_run --describe example.bc", "-m tileiras --print-pipeline"])
def test_what_was_asked_for_is_not_dropped_for_a_closed_stdout(folder: Path, command: str) -> None:
    done = shell(f"{command} >&-", folder)
    assert (done.returncode, done.stderr) == (1, "cannot open output file '-': Bad file descriptor\n")


@SHELL
@pytest.mark.parametrize(
    "moment",
    [
        "libtile",
        "libtile_tools.command_line",
        "libtile_tools.cli",
        "libtile_tools.startup",
        "libtile.compiler.driver",
        "json",
    ],
)
def test_ctrl_c_during_the_imports_ends_a_tool_by_the_signal(folder: Path, moment: str) -> None:
    """The signal comes when a module is looked for: before the tool takes care of signals, and behind that."""
    code = f"""
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {moment!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.modules.pop({moment!r}, None)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["tileiras", "--gpu-name=sm_90", "example.bc", "-o", "k.cubin"]
from libtile_tools.entry import tileiras
tileiras()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=PATIENCE, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert done.returncode == -signal.SIGINT
    assert done.stderr in ("", "tileiras: interrupted\n")
    assert not (folder / "k.cubin").exists()


EARLY = ROOT / "tools" / "_interrupts_libtile.pth"
"""What Python reads when it starts in an environment that libtile is installed in."""
COMMANDS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"])


def early(*argv: str, orig: tuple[str, ...] = ()) -> str:
    """What becomes of SIGINT in a program of these arguments, once Python has read the file."""
    code = (
        f"import signal, sys, site; sys.argv = {list(argv)!r}; sys.orig_argv = {list(orig)!r};"
        f" site.addpackage({str(EARLY.parent)!r}, {EARLY.name!r},"
        " set()); print(signal.getsignal(signal.SIGINT))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.strip()


@SHELL
@pytest.mark.parametrize("command", [f"/usr/bin/{COMMANDS[0]}", *COMMANDS, r"C:\Scripts\tileiras.exe"])
def test_ctrl_c_ends_a_command_before_its_first_line(command: str) -> None:
    assert early(command, "k.bc") == str(signal.SIG_DFL)


@SHELL
@pytest.mark.parametrize("module", ["libtile.bytecode.annotate", "libtile"])
def test_ctrl_c_ends_a_module_of_ours_before_it_is_looked_for(module: str) -> None:
    assert early("-m", "k.bc", orig=("python3", "-X", "utf8", "-m", module, "k.bc")) == str(signal.SIG_DFL)


@SHELL
@pytest.mark.parametrize(
    "orig",
    [("python3", "-m"), ("python3", "-m", "pytest", "libtile"), ("python3", "-m", "libtile_x"), ("python3", "-mpip")],
)
def test_other_modules_keep_their_ctrl_c(orig: tuple[str, ...]) -> None:
    assert "default_int_handler" in early("-m", "libtile", orig=orig)


@SHELL
@pytest.mark.parametrize(
    "argv", [(), ("",), ("-c",), ("/usr/bin/pytest", "tileiras"), ("my-tileiras",), ("/tileiras/x",), ("libtile.py",)]
)
def test_other_programs_of_the_environment_keep_their_ctrl_c(argv: tuple[str, ...]) -> None:
    assert "default_int_handler" in early(*argv)


def test_python_m_prepares_for_ctrl_c_before_it_loads_the_tool() -> None:
    code = (
        "import sys, signal; sys.argv[0] = '-m'; sys.orig_argv[:] = ['python', '-m', 'libtile.simulator'];"
        "import libtile; print(signal.getsignal(signal.SIGINT) is signal.SIG_DFL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert done.stdout == "True\n"


@SHELL
def test_a_user_without_a_home_compiles_without_a_cache(folder: Path) -> None:
    code = (
        "import os, pwd; os.environ.pop('HOME', None); os.environ.pop('XDG_CACHE_HOME', None);"
        "pwd.getpwuid = lambda uid: (_ for _ in ()).throw(KeyError(uid));"
        "from libtile.compiler import cache; assert cache.from_environment() is None;"
        "assert cache.from_environment('x').folder.name == 'x';"
        "import sys; sys.argv = ['tileiras', '--gpu-name=sm_90', 'example.bc', '-o', 'k.cubin'];"
        "from libtile_tools.entry import tileiras; tileiras()"
    )
    done = shell(f'-c "{code}"', folder, LIBTILE_CACHE="1", LIBTILE_CACHE_DIR="")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "k.cubin").read_bytes().startswith(b"\x7fELF")


@SHELL
@pytest.mark.parametrize("backend", ["interpreter", pytest.param("simulator", marks=pytest.mark.slow)])
def test_what_kernels_print_is_utf_8_in_every_locale(folder: Path, backend: str) -> None:
    (folder / "k.mlir").write_text('cuda_tile.module @m { entry @k() { print_tko "gr\\C3\\BC\\FF" -> token return } }')
    done = subprocess.run(
        [sys.executable, "-m", "cuda_tile_run", "k.mlir", "--grid", "1", "--backend", backend], cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"gr\xc3\xbc\xff"), done.stderr


STREAMS = {
    ("ascii", "strict"): b"gr\\xfc\\udcff",
    ("utf-8", "strict"): b"gr\xc3\xbc\\udcff",
    ("utf-8", "surrogateescape"): b"gr\xc3\xbc\xff",
}
"""What becomes of a u with two dots and a byte that is no UTF-8, by a stream's encoding and how it treats errors."""


@pytest.mark.parametrize("backend", ["interpreter", "simulator"])
@pytest.mark.parametrize(("encoding", "errors"), STREAMS)
def test_what_a_stream_cannot_hold_is_printed_in_escapes(encoding: str, errors: str, backend: str) -> None:
    text = 'cuda_tile.module @m { entry @k() { print_tko "gr\\C3\\BC\\FF" -> token return } }'
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors)
    ran = libtile.run(libtile.parse(text), "k", backend=backend, gpu_name="sm_90", out=stream)
    assert ran.output == "gr\u00fc\udcff"
    assert stream.buffer.getvalue() == STREAMS[encoding, errors]


ODD_ENVIRONMENTS = [
    ({"TMPDIR": "/nonexistent/folder"}, 0, ""),
    ({"PATH": "", "CUDA_HOME": "/nonexistent", "CUDA_PATH": "\n"}, 0, ""),
    ({"LIBTILE_CACHE_DIR": "/dev/null/cache"}, 0, "warning: nothing is cached in '/dev/null/cache': Not a directory\n"),
    ({"LIBTILE_CACHE_DIR": "/proc/nowhere"}, 0, "warning: nothing is cached in '/proc/nowhere': No such file or"),
    ({"LIBTILE_CACHE_SIZE": "many\x1b"}, 1, "error: environment variable LIBTILE_CACHE_SIZE is 'many\\x1b', and must"),
    ({"LIBTILE_CACHE_SIZE": "9" * 5000}, 1, "error: environment variable LIBTILE_CACHE_SIZE is '999"),
    ({"LIBTILE_CACHE": "maybe"}, 1, "error: environment variable LIBTILE_CACHE is 'maybe', and must be 1, on, true,"),
    ({"LIBTILE_CACHE": "OFF", "LIBTILE_CACHE_DIR": "/dev/null/cache", "LIBTILE_VERIFY_EACH": "No"}, 0, ""),
    ({"TILEIR_DELAY_TMA_STORE_WAIT": "2"}, 2, "error: environment variable TILEIR_DELAY_TMA_STORE_WAIT is '2', and"),
    ({"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "LANG": "xx_YY"}, 0, ""),
    ({"COLUMNS": "x", "TERM": ""}, 0, ""),
]


@SHELL
@pytest.mark.parametrize(("environment", "status", "said"), ODD_ENVIRONMENTS, ids=range(len(ODD_ENVIRONMENTS)))
def test_odd_environment_variables_are_borne_or_refused(
    folder: Path, environment: dict[str, str], status: int, said: str
) -> None:
    done = shell(
        "-m tileiras --gpu-name=sm_90 example.bc -o k.cubin", folder,
        **{"LIBTILE_CACHE": "1", "LIBTILE_CACHE_DIR": str(folder / "cache"), **environment},
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith(said) and done.stderr.count("\n") == bool(said)


# -- names of files ---------------------------------------------------------------------------------------------------


def test_an_output_name_may_be_as_long_as_the_file_system_takes_it(folder: Path) -> None:
    for name in ("n" * 255, "ü" * 127, "a" * 250):
        done = shell(f"-m tileirdisasm example.bc > /dev/null && \
            '{sys.executable}' -m cuda_tile_opt example.mlir -o {name}", folder)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert (folder / name).stat().st_size
    done = shell(f"-m cuda_tile_opt example.mlir -o {'n' * 256}", folder)
    assert (done.returncode, done.stderr) == (1, f"cannot open output file '{'n' * 256}': File name too long\n")
    done = shell("-m cuda_tile_opt example.mlir -o new/", folder)
    assert (done.returncode, done.stderr) == (1, "cannot open output file 'new/': Is a directory\n")
    assert not (folder / "new").exists()
    done = shell(f"-m cuda_tile_opt {'n' * 256}", folder)
    assert (done.returncode, done.stderr) == (1, f"cannot open input file '{'n' * 256}': File name too long\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--keep k.ptx -o k.cubin", "error: --keep's ptx would overwrite the input 'k.ptx'\n"),
        ("--keep k.ptx -o ./k.bin", "error: --keep's ptx would overwrite the input 'k.ptx'\n"),
        ("--keep other.bc -o k.ll", "error: --keep's llvm would overwrite the output 'k.ll'\n"),
        ("--remarks=all --remark-format=yaml --remarks-output-file=k.ptx k.ptx -o k.cubin",
         "error: the remarks' file would overwrite the input 'k.ptx'\n"),
        ("--keep --emit=ptx k.ptx -o k.ptx", ""),
    ],
)  # fmt: skip
def test_a_file_beside_the_output_never_overwrites_the_input(folder: Path, arguments: str, said: str) -> None:
    for name in ("k.ptx", "other.bc"):
        (folder / name).write_bytes(EXAMPLE.read_bytes())
    before = sorted(p.name for p in folder.iterdir())
    done = shell(f"-m tileiras --gpu-name=sm_90 --no-cache {arguments}", folder)
    assert (done.returncode, done.stderr) == (2 if said else 0, said)
    if said:
        assert sorted(p.name for p in folder.iterdir()) == before
        assert (folder / "k.ptx").read_bytes() == EXAMPLE.read_bytes()


# -- ptxas ------------------------------------------------------------------------------------------------------------

BROKEN = {
    "no UTF-8": ("printf 'ptxas fatal   : \\377\\376 is wrong\\n' >&2; exit 255", r"ptxas fatal   : \xff\xfe is wrong"),
    "an empty file": ('for last; do :; done; : > "$last"', "it says that it is done, and has written no cubin"),
    "no file": ("exit 0", "it says that it is done, and has written no cubin"),
    "text": ('for last; do :; done; echo done > "$last"', "it says that it is done, and has written no cubin"),
    "the beginning of a cubin": (
        "for last; do :; done; printf '\\177ELF' > \"$last\"",
        "it says that it is done, and has written no cubin",
    ),
    "no end": ("exec yes >&2", "it says more than 33554432 bytes"),
    "a signal": ("kill -SEGV $$", "ended by SIGSEGV"),
    "silence": ("exit 3", "exit status 3"),
}


@SHELL
@pytest.mark.parametrize("fault", BROKEN)
def test_a_ptxas_that_is_broken_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    script, said = BROKEN[fault]
    tool = tmp_path / "ptxas"
    tool.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(ptxas, "tool_path", lambda name: str(tool))
    with pytest.raises(driver.CompilationError) as caught:
        driver.compile_bytecode(EXAMPLE.read_bytes(), Options("sm_90", host=("x86_64", "linux")))
    assert str(caught.value).split("\n") == [
        f"error: ptxas failed for sm_90a: {said}", "error: failed to compile Tile IR program"
    ]  # fmt: skip


def test_a_ptxas_that_cannot_be_run_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "ptxas"
    for content, reason in (("not a program", "Permission denied"), (None, "No such file or directory")):
        tool.unlink(missing_ok=True)
        if content is not None:
            tool.write_text(content)
        monkeypatch.setattr(ptxas, "tool_path", lambda name: str(tool))
        with pytest.raises(driver.CompilationError) as caught:
            driver.compile_bytecode(EXAMPLE.read_bytes(), Options("sm_90", host=("x86_64", "linux")))
        assert f"error: ptxas could not be run: {tool}: {reason}\n" in str(caught.value)


# -- names in messages ------------------------------------------------------------------------------------------------


def test_what_cannot_be_shown_is_escaped() -> None:
    assert visible("a\nb\x1b[0m\udcff ü\t") == "a\\nb\\x1b[0m\\xff ü\\t"
    assert visible("a\n\tb\x07", keep="\n\t") == "a\n\tb\\x07"
    assert visible(visible("\n")) == visible("\n")


def test_a_place_is_shown_with_its_control_characters_in_escapes(folder: Path) -> None:
    assert str(SourceLocation("a\n\x1b\udcff.py", 3, 1)) == "a\\n\\x1b\\xff.py:3:1"
    assert str(SourceLocation("a\n")) == "a\\n"
    for name, number in (("one", 1), ("two", 2)):
        (folder / f"{name}.mlir").write_text(f"""
            #file = #cuda_tile.di_file<"a\\0A\\1B\\FF.py" in "/">
            #unit = #cuda_tile.di_compile_unit<file = #file>
            #program = #cuda_tile.di_subprogram<
              line = 3, file = #file, name = "k", linkageName = "k", compileUnit = #unit, scopeLine = 4>
            cuda_tile.module @m {{ entry @k() {{
              %c = constant <i32: {number}> : tile<i32> loc(#cuda_tile.di_loc<loc("a\\0A\\1B\\FF.py":6:3) in #program>)
              return }} loc(#cuda_tile.di_loc<loc("a\\0A\\1B\\FF.py":4:1) in #program>) }}""")
    done = shell("-m cuda_tile_diff one.mlir two.mlir", folder)
    assert done.returncode == 1 and "a\\n\\x1b\\xff.py:6:3: 'cuda_tile.constant'" in done.stdout
    assert all(line.isprintable() for line in done.stdout.splitlines())


def broken_module(name: bytes) -> bytes:
    """The example with an operand out of range in its function, whose name is another of the same length."""
    function = libtile.bytecode.read(EXAMPLE.read_bytes()).functions[0]
    old = function.name.encode()
    assert len(name) <= len(old)
    data = bytearray(EXAMPLE.read_bytes().replace(old, name.ljust(len(old), b"x")))
    encoded = function.encoded
    assert encoded is not None
    body = data.index(encoded.data)
    data[body + 1 : body + 6] = b"\xff" * 5
    return bytes(data)


@SHELL
@pytest.mark.parametrize("tool", ["tileiras", "tileirdisasm", "cuda-tile-translate", "annotate", "cuda-tile-run"])
def test_control_characters_of_a_name_stay_out_of_the_terminal(folder: Path, tool: str) -> None:
    data = broken_module(b"v\n\x1b[31m\x07")
    with pytest.raises(libtile.LibtileError) as caught:
        libtile.verify(libtile.read(data))
    assert str(caught.value).isprintable()
    (folder / "example.bc").write_bytes(data)
    done = shell(TOOLS[tool].replace("--describe", "--grid 1"), folder)
    lines = done.stderr.splitlines()
    assert done.returncode != 0 and all(line.isprintable() for line in lines)
    assert sum("v\\n\\x1b[31m\\x07" in line for line in lines) == 1
    assert len(lines) == {"tileiras": 2, "tileirdisasm": 2}.get(tool, 1)


ODD = b"a\n\x1b[31m\xff"
"""What a command line may hold."""
ODD_VALUES = {
    "tileiras": ["--gpu-name=?", "--opt-level=?", "--emit=?", "--?", "-?", "--after=?", "--preview=?", "--lineinfo=?"],
    "tileirdisasm": ["?", "--?"],
    "cuda_tile_translate": [
        "-cudatilebc-to-mlir ?",
        "-cudatilebc-to-mlir -bytecode-version=?",
        "-mlir-to-cudatilebc -?",
    ],
    "cuda_tile_opt": ["--?", "--pass-pipeline=?", "--print-ir-after=? example.mlir", "example.mlir --cse=?"],
    "cuda_tile_run": [
        "? --describe",
        "example.bc --grid ?",
        "example.bc ?",
        "example.bc --out ?",
        "example.bc --backend ?",
    ],
    "cuda_tile_reduce": ["--test true ?", "--timeout ? --test true example.bc"],
    "cuda_tile_diff": ["example.bc ?", "example.bc example.bc --run --grid ?"],
    "libtile_cli": ["?", "explore ?", "explain ?", "tune ?"],
    "libtile.simulator": ["?", "k.ptx --entry ?", "k.ptx --entry k --arg ?"],
    "libtile.layouts": ["?", "show ? 16x8", "show mma-c ?"],
    "libtile.bytecode.annotate": ["?"],
}
"""Wrong command lines of tools, with a place for it."""


@SHELL
@pytest.mark.parametrize("tool", ODD_VALUES)
def test_control_characters_of_a_command_line_stay_out_of_the_terminal(folder: Path, tool: str) -> None:
    code = (
        "import os, runpy, sys\n"
        f"for line in {[[w.encode().replace(b'?', ODD) for w in line.split(' ')] for line in ODD_VALUES[tool]]!r}:\n"
        "    if not os.fork():\n"
        f"        sys.argv = ['{tool}', *map(os.fsdecode, line)]\n"
        f"        runpy.run_module({tool!r}, run_name='__main__', alter_sys=True)\n"
        "    assert os.wait()[1], line\n"
        "    print('// end', file=sys.stderr, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        timeout=PATIENCE, check=True,
    )  # fmt: skip
    said = done.stderr.decode(errors="surrogateescape").split("// end\n")[:-1]
    for line, message in zip(ODD_VALUES[tool], said, strict=True):
        assert "internal error" not in message and "Traceback" not in message
        assert all(part.isprintable() for part in message.split("\n")), (line, message)
        told = [part for part in message.splitlines() if "Usage: " not in part and "Did you mean" not in part]
        assert len(told) == 1 or "// " in message, (line, message)


@SHELL
def test_a_file_whose_name_is_no_utf_8_is_compiled_and_cached(folder: Path) -> None:
    module = libtile.parse((folder / "example.mlir").read_text())
    (folder / "inner.mlir").write_text(libtile.compile(module, "sm_90", emit="tileaa").tileaa)
    name = b"k\xff\n.mlir"
    os.rename(os.fsencode(folder / "inner.mlir"), os.fsencode(folder) + b"/" + name)
    command = "-m tileiras --gpu-name=sm_90 --lineinfo k*.mlir -o k.cubin"
    for _ in range(2):
        done = shell(command, folder, LIBTILE_CACHE="1", LIBTILE_CACHE_DIR=str(folder / "cache"))
        assert (done.returncode, done.stderr) == (0, "")
    assert len(list((folder / "cache").glob("*/*.entry"))) == 1


ENDLESS = {
    "tileirdisasm": "-m tileirdisasm FILE",
    "annotate": "-m libtile.bytecode.annotate FILE",
    "translate": "-m cuda_tile_translate -cudatilebc-to-mlir FILE",
    "parse": "-m cuda_tile_translate -mlir-to-cudatilebc FILE",
    "opt": "-m cuda_tile_opt FILE",
    "optimize": "-m cuda_tile_optimize FILE",
    "tileiras": "-m tileiras --gpu-name=sm_90 FILE",
    "library": "-m tileiras --gpu-name=sm_90 --preview=simt example.bc -l FILE",
    "reduce": "-m cuda_tile_reduce --test true FILE",
    "diff": "-m cuda_tile_diff example.bc FILE",
    "run": "-m cuda_tile_run --describe FILE",
    "explore": "-m libtile_cli explore FILE",
    "estimate": "-m libtile_cli estimate FILE",
    "simulator": "-m libtile.simulator FILE --entry k",
}
"""A command that reads a file, by what reads it."""
SMALL_LIMIT = "-c 'import runpy, sys; from libtile.support import files; files.INPUT_BYTES = 1 << 22; "
RUN = 'sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name="__main__")\' '


@SHELL
@pytest.mark.parametrize("reader", ENDLESS)
def test_a_file_without_an_end_is_one_error(folder: Path, reader: str) -> None:
    command = SMALL_LIMIT + RUN + ENDLESS[reader].removeprefix("-m ").replace("FILE", "/dev/zero")
    done = shell(command, folder)
    assert done.returncode != 0
    assert done.stderr.endswith("it has more than 4194304 bytes, the limit of an input\n")
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_a_sparse_file_of_half_a_terabyte_is_refused_at_once(folder: Path) -> None:
    os.truncate(folder / "k.ptx", 1 << 39)
    done = shell("-m tileirdisasm k.ptx", folder)
    assert done.stderr == (
        "error: unable to read input file 'k.ptx': it has more than 268435456 bytes, the limit of an input\n"
    )


def test_a_text_that_is_too_long_is_one_error(folder: Path) -> None:
    (folder / "k.mlir").write_bytes(b"\n" * ((1 << 26) + 1))
    done = shell("-m cuda_tile_opt k.mlir", folder)
    assert (done.returncode, done.stderr) == (
        1, "error: the input has 67108865 bytes, and a text has 67108864 at most\n"
    )  # fmt: skip
    with pytest.raises(libtile.LibtileError, match="and a text of Tile IR has 67108864 at most"):
        libtile.compile(folder / "k.mlir", "sm_90")


def test_a_diagnostic_shows_a_part_of_a_very_long_line(folder: Path) -> None:
    (folder / "k.mlir").write_text(" " * 100_000 + "cuda_tile.module @m { ?" + " " * 100_000)
    lines = shell("-m cuda_tile_opt k.mlir", folder).stderr.splitlines()
    assert len(lines) == 3 and all(len(line) <= 1000 for line in lines)
    assert lines[0].startswith("k.mlir:1:100022: error: ")
    assert lines[1][: lines[2].index("^")].endswith("module @m {")
