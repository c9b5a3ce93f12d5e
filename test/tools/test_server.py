# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compile server: what it does is what the tool does without it, whatever becomes of either side.

They start servers and tools by the dozen and ask who is alive when, so they are run alone: `pytest -m slow
test/tools/test_server.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from libtile_tools import served, server_child, server_place
from patience import PATIENCE
from tools.process import ROOT
from tools.transcripts import CONSOLE, transcript

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="a compile server needs Linux")]

EXAMPLE = ROOT / "examples" / "vector_add.bc"
COMPILE = ("tileiras", "--gpu-name=sm_90", "--no-cache", str(EXAMPLE))


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of tools that have their server in a folder."""
    own = {"PYTHONPATH": str(ROOT), "LIBTILE_SERVER": "1", "LIBTILE_SERVER_DIR": str(folder), "LIBTILE_CACHE": "0"}
    return {**os.environ, **own, **more}


def start(env: dict[str, str], *arguments: str, cwd: Path | None = None, **settings: int) -> subprocess.Popen[bytes]:
    """A tool's process, with pipes."""
    command = [sys.executable, "-m", arguments[0].replace("-", "_"), *arguments[1:]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
    return subprocess.Popen(command, env=env, cwd=cwd or ROOT, preexec_fn=_heed_signals, **pipes)


def _heed_signals() -> None:
    """A process that a test signals ends by that, also where the tests are run by `nohup` or in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


Ended = tuple[int, bytes, bytes]


def run(env: dict[str, str], *arguments: str, cwd: Path | None = None, stdin: bytes = b"") -> Ended:
    """Exit status and what is on both streams of a tool."""
    process = start(env, *arguments, cwd=cwd)
    out, err = process.communicate(stdin, timeout=PATIENCE)
    assert b"Traceback" not in err, err
    return process.returncode, out, err


def control(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """What `libtile server` prints."""
    status, out, err = run({**(env or environment(folder)), "LIBTILE_SERVER": "0"}, "libtile_cli", "server", *arguments)
    assert err == b"" and status in (0, 1), err
    return out.decode()


def figures(folder: Path) -> tuple[int, int, int]:
    """How many requests the server of a folder has served, runs, and has declined."""
    said = control(folder, "status")
    words = said.replace(",", " ").replace("(", " ").split()
    return tuple(int(words[words.index(f"{what}:") + 1]) for what in ("served", "running", "declined"))  # type: ignore[return-value]


def server_number(folder: Path) -> int:
    return int(control(folder, "status").split()[2].rstrip(","))


def children(process: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_alive(process: int) -> bool:
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def end(folder: Path) -> None:
    """Stop the servers of a folder, of which nothing is left then."""
    control(folder, "stop")
    wait_for(lambda: not os.listdir(folder))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a server that runs as long as the tests of this file do."""
    folder = tmp_path_factory.mktemp("server")
    folder.chmod(0o700)
    control(folder, "start", "--gpu-name=sm_90")
    yield folder
    end(folder)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """A folder for a server of a test's own."""
    folder = tmp_path / "server"
    folder.mkdir(mode=0o700)
    yield folder
    end(folder)


# -- the same -------------------------------------------------------------------------------------------------------

SAME = {
    "a cubin": (*COMPILE, "-o", "k"),
    "its default name": COMPILE,
    "another target": ("tileiras", "--gpu-name=sm_80", "--no-cache", str(EXAMPLE), "-o", "k"),
    "stdin and stdout": ("tileiras", "--gpu-name=sm_90", "--no-cache", "--emit=ptx", "-"),
    "remarks": (*COMPILE, "--remarks=all", "-o", "k"),
    "remarks in a file": (*COMPILE, "--remarks=all", "--remark-format=yaml", "--remarks-output-file=r", "-o", "k"),
    "debug": (*COMPILE, "-O0", "-g", "-o", "k"),
    "lines": (*COMPILE, "--lineinfo", "--keep", "-o", "k"),
    "a stage": (*COMPILE, "--emit=tileas"),
    "passes": (*COMPILE, "--print-ir-after=dce", "-o", "k"),
    "no input": ("tileiras", "--gpu-name=sm_90"),
    "help": ("tileiras", "--help"),
    "a wrong option": (*COMPILE, "--outptu=k"),
    "a wrong target": ("tileiras", "--gpu-name=sm_1", str(EXAMPLE)),
    "no such file": ("tileiras", "--gpu-name=sm_90", "none.bc"),
    "no bytecode": ("tileiras", "--gpu-name=sm_90", "-"),
    "no output": (*COMPILE, "-o", "none/k"),
    "another tool": ("tileirdisasm", str(EXAMPLE)),
    "a translation": ("cuda-tile-translate", "-cudatilebc-to-mlir", str(EXAMPLE)),
    "passes alone": ("cuda-tile-opt", "--cse", "-"),
}
"""Command lines, by what is special about them."""


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mode, path.read_bytes()) for path in folder.iterdir()}


@pytest.mark.parametrize("what", SAME)
def test_what_is_served_is_what_the_tool_does(shared: Path, tmp_path: Path, what: str) -> None:
    arguments = SAME[what]
    text = (
        b"module {\n}\n"
        if arguments[0] == "cuda-tile-opt"
        else b"no"
        if what == "no bytecode"
        else EXAMPLE.read_bytes()
    )
    before = figures(shared)
    found = []
    for switch in ("0", "1"):
        folder = tmp_path / switch
        folder.mkdir()
        ended = run(environment(shared, LIBTILE_SERVER=switch), *arguments, cwd=folder, stdin=text)
        found.append((*ended, files_of(folder)))
    assert found[0] == found[1]
    assert figures(shared) == (before[0] + 1, 0, before[2])


@pytest.mark.parametrize(
    "redirection",
    [
        "<&- >&- 2>&- -o k", ">/dev/full --emit=ptx", "2>/dev/full --remarks=all -o k", "| head -c 10 --emit=ptx",
        "-o k; umask 077; TOOL EXAMPLE -o l", "-o >(cat >k); wait $!",
    ],
)  # fmt: skip
def test_surroundings_are_taken_over(shared: Path, tmp_path: Path, redirection: str) -> None:
    tool = f"'{sys.executable}' -m tileiras --gpu-name=sm_90 --no-cache"
    stream, _, options = redirection.partition(" -") if redirection.startswith(("<", ">", "2", "|")) else ("", "", "")
    line = redirection.replace("TOOL", tool).replace("EXAMPLE", "<(cat EXAMPLE)")
    line = f"{tool} -{options} <(cat EXAMPLE) {stream}" if options else f"{tool} <(cat EXAMPLE) {line}"
    before = figures(shared)
    found = []
    for switch in ("0", "1"):
        folder = tmp_path / switch
        folder.mkdir()
        done = subprocess.run(
            ["bash", "-c", line.replace("EXAMPLE", str(EXAMPLE))], cwd=folder, capture_output=True, timeout=PATIENCE,
            env=environment(shared, LIBTILE_SERVER=switch), check=False,
        )  # fmt: skip
        found.append((done.returncode, done.stdout, done.stderr, files_of(folder)))
    assert found[0] == found[1]
    assert figures(shared) == (before[0] + line.count("-m tileiras"), 0, before[2])


def test_the_cache_is_the_same(shared: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    arguments = ("tileiras", "--gpu-name=sm_90", "--time-report", str(EXAMPLE), "-o", str(tmp_path / "k"))
    for switch in ("1", "0"):
        env = environment(shared, LIBTILE_SERVER=switch, LIBTILE_CACHE="1", LIBTILE_CACHE_DIR=str(cache))
        status, _, err = run(env, *arguments)
        assert status == 0
        assert (b"served by compile server %d" % server_number(shared) in err) is (switch == "1")
        assert (b"ptxas" in err) is (switch == "1")  # then it was kept
    assert len(list(cache.glob("*/*.entry"))) == 1


def test_each_request_has_its_own_environment(shared: Path, tmp_path: Path) -> None:
    wrong = run(environment(shared, TILEIR_DELAY_TMA_STORE_WAIT="2"), *COMPILE, cwd=tmp_path)
    assert wrong[0] == 2 and b"TILEIR_DELAY_TMA_STORE_WAIT is '2'" in wrong[2]
    assert run(environment(shared), *COMPILE, cwd=tmp_path)[0] == 0


def test_a_ptxas_that_the_environment_names_is_looked_for_anew(shared: Path) -> None:
    code = (
        "import os\nfrom libtile.backend import tools\nfrom libtile_tools import server_child\n"
        "before = tools.tool_path('ptxas'), tools.tool_path.cache_info().currsize\n"
        "server_child._take_environment({**os.environb})\nassert tools.tool_path.cache_info().currsize == 1\n"
        "server_child._take_environment({**os.environb, b'CUDA_HOME': b'/x'})\n"
        "assert tools.tool_path.cache_info().currsize == 0\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(shared))


def test_limits_and_processors_are_those_of_the_process_that_asks(tmp_path: Path) -> None:
    code = (
        "import os, resource, subprocess, sys, time\nfrom libtile_tools import server_child\n"
        "def changed():\n    resource.setrlimit(resource.RLIMIT_NOFILE, (321, 4321))\n"
        "    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "client = subprocess.Popen(['sleep', '1000'], preexec_fn=changed)\n"
        "server_child._take_limits(client.pid)\nclient.kill()\nclient.wait()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout == "(321, 4321) (0, 0)\n"


def test_twenty_at_once(shared: Path, tmp_path: Path) -> None:
    before = figures(shared)
    run(environment(shared, LIBTILE_SERVER="0"), *COMPILE, "-o", str(tmp_path / "own"))

    def one(number: int) -> bytes:
        assert run(environment(shared), *COMPILE, "-o", str(tmp_path / str(number))) == (0, b"", b"")
        return (tmp_path / str(number)).read_bytes()

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(one, range(20))) == {(tmp_path / "own").read_bytes()}
    assert figures(shared) == (before[0] + 20, 0, before[2])


# -- signals and ends -------------------------------------------------------------------------------------------------

WAITING = ("tileiras", "--gpu-name=sm_90", "--no-cache", "-", "-o", "k")
"""A tool that waits for its input."""


def waiting(folder: Path, cwd: Path, **settings: int) -> tuple[subprocess.Popen[bytes], int, int]:
    """A served process that waits, the server, and its child."""
    server = server_number(folder)
    before = children(server)
    process = start(environment(folder), *WAITING, cwd=cwd, **settings)
    wait_for(lambda: set(children(server)) - set(before))
    (child,) = set(children(server)) - set(before)
    wait_for(lambda: _handles(child))
    return process, server, child


def _handles(process: int) -> bool:
    """Whether a process takes care of SIGTERM as a tool does that is at work, and not as a server, which also waits for
    its children."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    caught = int(lines["SigCgt"], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1) and not caught >> (signal.SIGCHLD - 1) & 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_as_without_a_server(own: Path, tmp_path: Path, number: signal.Signals) -> None:
    control(own, "start", "--gpu-name=sm_90")
    process, _, child = waiting(own, tmp_path)
    process.send_signal(number)
    process.wait(PATIENCE)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -number
    assert err == (b"tileiras: interrupted\n" if number == signal.SIGINT else b"")
    wait_for(lambda: not is_alive(child))
    assert not (tmp_path / "k").exists()
    assert "1 by a signal" in control(own, "status")


def test_a_signal_that_is_ignored_stays_so(shared: Path, tmp_path: Path) -> None:
    server, before = server_number(shared), figures(shared)
    script = f"trap '' INT; exec '{sys.executable}' -m tileiras --gpu-name=sm_90 --no-cache - -o k"
    process = subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE, env=environment(shared), cwd=tmp_path)
    wait_for(lambda: children(server) and _handles(children(server)[0]))
    process.send_signal(signal.SIGINT)
    process.communicate(EXAMPLE.read_bytes(), timeout=PATIENCE)
    assert process.returncode == 0 and (tmp_path / "k").exists()
    assert figures(shared) == (before[0] + 1, 0, before[2])


def test_a_process_that_is_stopped_has_its_child_stopped(shared: Path, tmp_path: Path) -> None:
    process, _, child = waiting(shared, tmp_path)

    def state(number: int) -> str:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]

    process.send_signal(signal.SIGTSTP)
    wait_for(lambda: state(process.pid) == state(child) == "T")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: state(child) != "T")
    process.communicate(EXAMPLE.read_bytes(), timeout=PATIENCE)
    assert process.returncode == 0 and (tmp_path / "k").exists()


def test_the_child_ends_with_the_process_that_it_works_for(shared: Path, tmp_path: Path) -> None:
    read, write = os.pipe()  # which the process's end does not close
    process, _, child = waiting(shared, tmp_path, stdin=read)
    process.kill()
    process.wait()
    wait_for(lambda: not is_alive(child))
    assert figures(shared)[1] == 0 and not os.listdir(tmp_path)
    os.close(read)
    os.close(write)


def test_a_child_that_crashes_is_alone(shared: Path, tmp_path: Path) -> None:
    process, server, child = waiting(shared, tmp_path)
    os.kill(child, signal.SIGSEGV)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGSEGV
    assert server_number(shared) == server and run(environment(shared), *COMPILE, cwd=tmp_path)[0] == 0


def test_a_server_that_is_killed_takes_its_children_along(own: Path, tmp_path: Path) -> None:
    control(own, "start")
    process, server, child = waiting(own, tmp_path)
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: not is_alive(child))  # before its input ends, of which it would say something
    _, err = process.communicate(timeout=PATIENCE)
    assert err == b"tileiras: error: the compile server was ended before the compilation was done\n"
    assert process.returncode == -signal.SIGTERM
    assert os.listdir(own)  # what it left is in nobody's way
    assert run(environment(own), *COMPILE, "-o", "l", cwd=tmp_path) == (0, b"", b"")
    wait_for(lambda: "there is no" not in control(own, "status"))
    assert server_number(own) != server


def test_a_server_that_is_told_to_stop_ends_its_work(own: Path, tmp_path: Path) -> None:
    control(own, "start")
    process, server, _ = waiting(own, tmp_path)
    stopping = start(environment(own), "libtile_cli", "server", "stop")
    wait_for(lambda: not os.listdir(own))
    assert is_alive(server)
    process.communicate(EXAMPLE.read_bytes(), timeout=PATIENCE)
    assert process.returncode == 0 and (tmp_path / "k").exists()
    assert stopping.communicate(timeout=PATIENCE)[0] == b"stopped 1 compile server\n"
    wait_for(lambda: not is_alive(server))


def test_a_server_without_work_ends(own: Path) -> None:
    control(own, "start", "--idle=3")
    wait_for(lambda: not os.listdir(own))


def test_a_server_whose_socket_is_gone_ends(own: Path) -> None:
    control(own, "start")
    server = server_number(own)
    for path in own.iterdir():
        path.unlink()
    wait_for(lambda: not is_alive(server))


# -- starting ---------------------------------------------------------------------------------------------------------


def test_a_tool_starts_a_server_and_does_not_wait(own: Path, tmp_path: Path) -> None:
    def one(number: int) -> Ended:
        return run(environment(own, LIBTILE_SERVER_IDLE="300"), *COMPILE, "-o", str(tmp_path / str(number)))

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(one, range(6))) == {(0, b"", b"")}
    wait_for(lambda: "there is no" not in control(own, "status"))
    said = control(own, "status")
    assert said.count("compile server") == 1 and "ready for: sm_90" in said and "after 300 s" in said
    before = figures(own)
    assert one(7) == (0, b"", b"") and figures(own)[0] == before[0] + 1


def test_a_target_that_is_asked_for_is_got_ready_for(own: Path, tmp_path: Path) -> None:
    control(own, "start")
    assert "ready for: no target yet" in control(own, "status")
    run(environment(own), *COMPILE, cwd=tmp_path)
    wait_for(lambda: "ready for: sm_90" in control(own, "status"))


def test_a_folder_may_have_a_long_name(own: Path, tmp_path: Path) -> None:
    folder = own / ("x" * 120)
    folder.mkdir(mode=0o700)
    control(folder, "start")
    assert run(environment(folder), *COMPILE, cwd=tmp_path) == (0, b"", b"")
    assert figures(folder)[0] == 1
    end(folder)
    folder.rmdir()


@pytest.mark.parametrize("fault", ["mode", "link", "file", "nowhere"])
def test_a_folder_that_is_not_this_users_alone_is_not_used(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "server"
    if fault == "mode":
        folder.mkdir(mode=0o755)
    elif fault == "link":
        folder.symlink_to(tmp_path)
    elif fault == "file":
        folder.touch()
    else:
        folder = Path("/proc/none/server")
    status, _, err = run(environment(folder), *COMPILE, "-o", str(tmp_path / "k"))
    assert status == 0 and (tmp_path / "k").exists()
    folder = Path("/proc/none") if fault == "nowhere" else folder  # which cannot be made
    assert (
        err.startswith(b"tileiras: warning: no compile server: '%s': " % os.fsencode(folder)) and err.count(b"\n") == 1
    )
    status, out, err = run(environment(folder), "libtile_cli", "server", "start")
    assert (status, out) == (1, b"") and err.startswith(b"error: '%s': " % os.fsencode(folder))


@pytest.mark.parametrize("variable", ["LIBTILE_SERVER", "LIBTILE_SERVER_IDLE"])
def test_a_variable_that_is_wrong_is_an_error(own: Path, tmp_path: Path, variable: str) -> None:
    status, _, err = run(environment(own, **{variable: "maybe"}), *COMPILE, cwd=tmp_path)
    assert status == 1 and err.startswith(b"error: environment variable %s is 'maybe', and must be" % variable.encode())


def test_words_are_understood_for_the_switch(shared: Path, tmp_path: Path) -> None:
    before = figures(shared)
    for value, count in (("on", 1), ("off", 1), ("YES", 2), ("", 2)):
        assert run(environment(shared, LIBTILE_SERVER=value), *COMPILE, cwd=tmp_path) == (0, b"", b"")
        assert figures(shared)[0] == before[0] + count


# -- who is served ----------------------------------------------------------------------------------------------------


def test_a_file_that_has_changed_ends_the_server(own: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for name in ("libtile", "tools", "spec"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    env = environment(own, PYTHONPATH=f"{clone}:{clone / 'tools'}")

    def compiled(name: str) -> bytes:
        assert run(env, *COMPILE, "-o", str(tmp_path / name), cwd=tmp_path) == (0, b"", b"")
        return (tmp_path / name).read_bytes()

    status, out, err = run({**env, "LIBTILE_SERVER": "0"}, "libtile_cli", "server", "start", cwd=tmp_path)
    assert (status, err) == (0, b"")
    server = int(out.split()[-1])
    first = compiled("first")
    assert figures(own) == (1, 0, 0) and str(clone) in control(own, "status")
    with open(clone / "libtile" / "passes" / "manager.py", "a", encoding="utf-8") as file:
        file.write("# another release\n")
    assert compiled("second") == first
    wait_for(lambda: not is_alive(server))
    assert compiled("third") == first  # which starts another one
    wait_for(lambda: "there is no" not in control(own, "status"))
    assert server_number(own) != server


KEYS = {
    "Python": {"PYTHONHASHSEED": "7"}, "locale": {"LC_ALL": "C"}, "library": {"LD_LIBRARY_PATH": "/nowhere"},
    "modules": {"PYTHONPATH": "/nowhere"},
}  # fmt: skip


def name_in(command: list[str], cwd: Path, **more: str) -> str:
    code = "from libtile_tools import server_place as p; print(p.name_of(p.key()))"
    tools = f"{ROOT}:{ROOT / 'tools'}"
    env = {**os.environ, **more, "PYTHONPATH": f"{more.get('PYTHONPATH', '')}:{tools}".lstrip(":")}
    done = subprocess.run([*command, "-c", code], capture_output=True, text=True, check=True, env=env, cwd=cwd)
    return done.stdout


@pytest.mark.parametrize("what", KEYS)
def test_what_acts_when_python_starts_has_servers_of_its_own(tmp_path: Path, what: str) -> None:
    python = [sys.executable]
    usual = name_in(python, tmp_path)
    assert name_in(python, tmp_path, **KEYS[what]) != usual


def test_one_server_is_for_all_folders_and_not_for_all_options(tmp_path: Path) -> None:
    python = [sys.executable]
    usual = name_in(python, tmp_path)
    assert name_in(python, Path("/")) == name_in(python, tmp_path, MINE="1", PATH=os.environ["PATH"] + ":/x") == usual
    assert len({usual, name_in([*python, "-O"], tmp_path), name_in([*python, "-X", "utf8"], tmp_path)}) == 3
    assert name_in(["nice", *python], tmp_path) != usual
    (tmp_path / "xdsl").mkdir()
    assert name_in(python, tmp_path) != usual  # modules may come from there


def test_an_installed_command_and_python_m_ask_the_same(shared: Path, tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("tileiras")
    if not script.exists():
        pytest.skip("libtile is not installed beside this Python")
    (tmp_path / "link").symlink_to(script)
    before = figures(shared)
    for command in (script, tmp_path / "link"):
        env = environment(shared)
        subprocess.run([command, *COMPILE[1:], "-o", "k"], check=True, env=env, cwd=tmp_path, timeout=PATIENCE)
    assert figures(shared)[0] == before[0] + 2


# -- what is no request -----------------------------------------------------------------------------------------------


def connection(folder: Path) -> socket.socket:
    (path,) = folder.glob("*.socket")
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(PATIENCE)
    made.connect(str(path))
    return made


def heard(asked: socket.socket) -> bytes:
    said = b""
    while part := asked.recv(100):
        said += part
    return said


def whole(body: bytes) -> bytes:
    return served.HEADER + len(body).to_bytes(8, "little") + body


MALFORMED = {
    "noise": (os.urandom(100), "it is no request"),
    "a web page": (b"GET / HTTP/1.0\r\n\r\n", "it is no request"),
    "no end": (whole(b"1\0" * 20)[:-3], "the request is not whole"),
    "too long": (served.HEADER + (1 << 40).to_bytes(8, "little"), "the request is too long"),
    "more than it says": (whole(b"0\0\0status\0") + b"x", "the request is too long"),
    "nothing": (whole(b""), "the request is wrong: it is not of this protocol"),
    "no number": (whole(b"x\0\0tileiras\0\0::\0::\0::\0\0000\0"), "the request is wrong: it is not of this protocol"),
    "a long key": (whole(b"9999\0\0tileiras\0\0::\0::\0::\0\0000\0"), "it is not of this protocol"),
    "too few": (whole(b"0\0\0tileiras\0\0a:b:0\0a:b:0\0a:b:0\0\0009\0a\0"), "the request is wrong: it is not whole"),
    "another tool": (whole(b"0\0\0sh\0\0a:b:0\0a:b:0\0a:b:0\0\0000\0"), "there is no such tool"),
    "another key": (
        whole(b"0\0\0tileiras\0\0a:b:0\0a:b:0\0a:b:0\0\0000\0"), "another Python, installation or environment"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_request_is_declined(own: Path, shared: Path, what: str) -> None:
    data, why = MALFORMED[what]
    with connection(shared) as asked:
        asked.sendall(data)
        asked.shutdown(socket.SHUT_WR)
        assert heard(asked) == b"declined\n"
    assert why in control(shared, "status")


def test_a_request_that_lacks_descriptors_is_declined(shared: Path, tmp_path: Path) -> None:
    """The key is right, and so is all else."""
    code = (
        "import os, sys\nfrom libtile_tools import served, server_place\n"
        "folder = server_place.open_folder()\nkey = server_place.key()\n"
        "connection = server_place.connected(folder, server_place.name_of(key), 60)\n"
        "data, descriptors = served.request(key, 'tileiras', (sys.stdin, sys.stdout, sys.stderr))\n"
        "served.send(connection, data, descriptors[:2])\nprint(next(served.lines(connection)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(shared), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "b'declined'\n"
    assert "descriptors are missing" in control(shared, "status")


def test_requests_come_in_pieces(shared: Path) -> None:
    body = b"0\0\0status\0\0::0\0::0\0::0\0\0000\0"
    server_child.parsed(body)
    with connection(shared) as asked:
        for byte in whole(body):
            asked.sendall(bytes([byte]))
        assert heard(asked).startswith(b"compile server ")


def test_those_that_say_nothing_keep_nobody_waiting(shared: Path, tmp_path: Path) -> None:
    silent = [connection(shared) for _ in range(200)]
    assert run(environment(shared), *COMPILE, cwd=tmp_path) == (0, b"", b"")
    for each in silent:
        each.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_served(own: Path) -> None:
    control(own, "start")
    own.chmod(0o755)
    (path,) = own.glob("*.socket")
    path.chmod(0o777)
    for folder in path.parents[:-1]:
        assert folder.stat().st_mode & 0o700
    code = (
        f"import os, socket; s = socket.socket(socket.AF_UNIX); os.chdir({str(own)!r}); os.setuid(65534);"
        f"s.connect({path.name!r}); print(s.recv(100))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own.chmod(0o700)
    assert done.stdout == "b'declined\\n'\n"
    assert "1: another user" in control(own, "status")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_server_is_not_asked(own: Path, tmp_path: Path) -> None:
    """One who listens under the name of a user's server, as another one."""
    own.chmod(0o777)
    code = f"import os, socket, time; os.chdir({str(own)!r}); os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
    code += "s.bind('0.socket'); s.listen(); print(1, flush=True); time.sleep(1000)"
    listening = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert listening.stdout is not None and listening.stdout.readline() == b"1\n"
    own.chmod(0o700)
    folder = os.open(own, os.O_RDONLY)
    with pytest.raises(PermissionError, match="another user listens there"):
        server_place.connected(folder, "0", 60)
    os.close(folder)
    listening.kill()
    listening.communicate()
    (own / "0.socket").unlink()


def test_other_systems_have_no_server(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    from libtile_cli.server import command
    from libtile_tools import cli

    monkeypatch.setattr(sys, "platform", "win32")
    assert cli.call(command, ["status"]) == 1
    assert capfd.readouterr().err == "error: a compile server needs Linux\n"


# -- the page ---------------------------------------------------------------------------------------------------------


def settled(text: str) -> str:
    """What commands print, with all numbers of processes, times and sizes the same."""
    text = re.sub(r"server \d+", "server 1", text)
    return re.sub(r"for \d+ s, \d+ MiB|served: \d+\.\d+ s", "some", text)


def test_what_server_md_shows_is_what_is_printed(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = CONSOLE.findall((ROOT / "docs" / "server.md").read_text(encoding="utf-8"))
    (tmp_path / "examples").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "examples")
    monkeypatch.setenv("LIBTILE_SERVER_DIR", str(own))
    printed = transcript(block, tmp_path)
    assert settled(printed) == settled(block), printed
