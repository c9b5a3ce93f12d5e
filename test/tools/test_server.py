# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compile server: what it does is what the tool does without it, whatever becomes of either side.

A server ends as soon as a file that it has loaded, or the folder of packages, is another one. So these are servers of
an installation of the tests' own, which nobody changes meanwhile, and which waits as long as tests do for what is slow.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from libtile_tools import served, server_child, server_place
from patience import PATIENCE
from tools import transcripts
from tools.installation import Installation, install
from tools.process import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a compile server needs Linux")

EXAMPLE = ROOT / "examples" / "vector_add.bc"
COMPILE = ("tileiras", "--gpu-name=sm_90", "--no-cache", str(EXAMPLE))
STATUS = b"0\0\0status\0\0::0\0::0\0::0\0\0000\0"
"""The body of a request for what `libtile server status` shows, which needs no key."""

Ended = tuple[int, bytes, bytes]


@dataclass(frozen=True)
class Tools:
    """The tools of an installation, which have their server in a folder."""

    installed: Installation
    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        own = {"LIBTILE_SERVER": "1", "LIBTILE_SERVER_DIR": str(self.folder), "LIBTILE_CACHE": "0"}
        return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **own, **more}

    def start(self, *arguments: str, cwd: Path | None = None, stdin: int = subprocess.PIPE, **more: str) -> Any:
        """A tool's process, with pipes; `more` are variables of its environment."""
        command = [self.installed.python, "-m", arguments[0].replace("-", "_"), *arguments[1:]]
        return subprocess.Popen(
            command, env=self.environment(**more), cwd=cwd or self.installed.folder, stdin=stdin,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str, cwd: Path | None = None, given: bytes = b"", **more: str) -> Ended:
        """Exit status and what is on both streams of a tool, which is given some bytes to read."""
        process = self.start(*arguments, cwd=cwd, **more)
        out, err = process.communicate(given, timeout=PATIENCE)
        assert b"Traceback" not in err, err
        return process.returncode, out, err

    def python(self, code: str, cwd: Path | None = None) -> str:
        """What some code prints that the installation's Python runs."""
        done = subprocess.run(
            [self.installed.python, "-c", code], check=True, env=self.environment(), cwd=cwd or self.installed.folder,
            stdout=subprocess.PIPE, text=True, timeout=PATIENCE,
        )  # fmt: skip
        return done.stdout

    def control(self, *arguments: str) -> str:
        """What `libtile server` prints."""
        status, out, err = self.run("libtile_cli", "server", *arguments, LIBTILE_SERVER="0")
        assert err == b"" and status in (0, 1), err
        return out.decode()

    def connection(self) -> socket.socket:
        """A connection to the server. OSError or ValueError where there is none."""
        (path,) = self.folder.glob("*.socket")
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(PATIENCE)
        folder = os.open(path.parent, os.O_PATH)
        try:
            made.connect(f"/proc/self/fd/{folder}/{path.name}")
        except OSError:
            made.close()
            raise
        finally:
            os.close(folder)
        return made

    def status(self) -> str:
        """What the server says of itself; nothing where there is none."""
        try:
            asked = self.connection()
        except (OSError, ValueError):
            return ""
        with asked:
            asked.sendall(whole(STATUS))
            return heard(asked).decode()

    def figures(self) -> tuple[int, int, int]:
        """How many requests the server has served, runs, and has declined."""
        words = self.status().replace(",", " ").replace("(", " ").split()
        return tuple(int(words[words.index(f"{what}:") + 1]) for what in ("served", "running", "declined"))  # type: ignore[return-value]

    def number(self) -> int:
        """The server's process."""
        return int(self.status().split()[2].rstrip(","))

    def end(self) -> None:
        """Stop the server, of which nothing is left then, also one that has yet to listen."""

        def is_gone() -> bool:
            with suppress(OSError, ValueError), self.connection() as asked:
                asked.sendall(whole(STATUS.replace(b"status", b"stop")))
                assert heard(asked) == b""
            return not os.listdir(self.folder)

        wait_for(is_gone)


def heard(asked: socket.socket) -> bytes:
    said = b""
    while part := asked.recv(1 << 16):
        said += part
    return said


def whole(body: bytes) -> bytes:
    return served.HEADER + len(body).to_bytes(8, "little") + body


def children(process: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def wait_for(condition: Callable[[], object]) -> None:
    """Wait for what only a look tells."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def wait_for_the_end(process: int) -> None:
    """Wait until a process has ended, which need not be this one's child."""
    try:
        watched = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        assert select.select([watched], [], [], PATIENCE)[0]
    finally:
        os.close(watched)


@pytest.fixture(scope="module", autouse=True)
def signals_end_tools() -> Iterator[None]:
    """What a test's process ignores, as behind `nohup`, the tools that it starts would ignore, too. What it has a
    function for they do not."""
    stopping = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP)
    ignored = [number for number in stopping if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda number, frame: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def patient(folder: Path) -> Installation:
    """An installation whose processes wait for each other as long as tests do, on however busy a machine."""
    made = install(folder)
    for file, limit in (
        ("libtile_tools/served.py", "_ANSWERS = 10.0"),
        ("libtile_tools/server.py", "_SLOWEST_REQUEST = 10.0"),
        ("libtile_cli/server.py", "_PATIENCE = 60.0"),
    ):
        made.change(f"tools/{file}", limit, f"{limit.partition(' ')[0]} = {PATIENCE}")
    return made


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return patient(tmp_path_factory.mktemp("installed") / "here")


@pytest.fixture(scope="module")
def shared(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Tools whose server runs as long as the tests of this file do."""
    tools = Tools(installed, tmp_path_factory.mktemp("server"))
    tools.folder.chmod(0o700)
    tools.control("start", "--gpu-name=sm_90")
    yield tools
    tools.end()


@pytest.fixture
def own(installed: Installation, tmp_path: Path) -> Iterator[Tools]:
    """Tools whose server is a test's own."""
    tools = Tools(installed, tmp_path / "server")
    tools.folder.mkdir(mode=0o700)
    yield tools
    tools.end()


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
def test_what_is_served_is_what_the_tool_does(shared: Tools, tmp_path: Path, what: str) -> None:
    arguments = SAME[what]
    text = (
        b"module {\n}\n"
        if arguments[0] == "cuda-tile-opt"
        else b"no"
        if what == "no bytecode"
        else EXAMPLE.read_bytes()
    )
    before = shared.figures()
    found = []
    for switch in ("0", "1"):
        folder = tmp_path / switch
        folder.mkdir()
        ended = shared.run(*arguments, cwd=folder, given=text, LIBTILE_SERVER=switch)
        found.append((*ended, files_of(folder)))
    assert found[0] == found[1]
    assert shared.figures() == (before[0] + 1, 0, before[2])


@pytest.mark.parametrize(
    "redirection",
    [
        "<&- >&- 2>&- -o k", ">/dev/full --emit=ptx", "2>/dev/full --remarks=all -o k", "| head -c 10 --emit=ptx",
        "-o k; umask 077; TOOL EXAMPLE -o l", "-o >(cat >k); wait $!",
    ],
)  # fmt: skip
def test_surroundings_are_taken_over(shared: Tools, tmp_path: Path, redirection: str) -> None:
    tool = f"'{shared.installed.python}' -m tileiras --gpu-name=sm_90 --no-cache"
    stream, _, options = redirection.partition(" -") if redirection.startswith(("<", ">", "2", "|")) else ("", "", "")
    line = redirection.replace("TOOL", tool).replace("EXAMPLE", "<(cat EXAMPLE)")
    line = f"{tool} -{options} <(cat EXAMPLE) {stream}" if options else f"{tool} <(cat EXAMPLE) {line}"
    before = shared.figures()
    found = []
    for switch in ("0", "1"):
        folder = tmp_path / switch
        folder.mkdir()
        done = subprocess.run(
            ["bash", "-c", line.replace("EXAMPLE", str(EXAMPLE))], cwd=folder, capture_output=True, timeout=PATIENCE,
            env=shared.environment(LIBTILE_SERVER=switch), check=False,
        )  # fmt: skip
        found.append((done.returncode, done.stdout, done.stderr, files_of(folder)))
    assert found[0] == found[1]
    assert shared.figures() == (before[0] + line.count("-m tileiras"), 0, before[2])


def test_the_cache_is_the_same(shared: Tools, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    arguments = ("tileiras", "--gpu-name=sm_90", "--time-report", str(EXAMPLE), "-o", str(tmp_path / "k"))
    for switch in ("1", "0"):
        kept = {"LIBTILE_CACHE": "1", "LIBTILE_CACHE_DIR": str(cache)}
        status, _, err = shared.run(*arguments, LIBTILE_SERVER=switch, **kept)
        assert status == 0
        assert (b"served by compile server %d" % shared.number() in err) is (switch == "1")
        assert (b"ptxas" in err) is (switch == "1")  # then it was kept
    assert len(list(cache.glob("*/*.entry"))) == 1


def test_each_request_has_its_own_environment(shared: Tools, tmp_path: Path) -> None:
    wrong = shared.run(*COMPILE, cwd=tmp_path, TILEIR_DELAY_TMA_STORE_WAIT="2")
    assert wrong[0] == 2 and b"TILEIR_DELAY_TMA_STORE_WAIT is '2'" in wrong[2]
    assert shared.run(*COMPILE, cwd=tmp_path)[0] == 0


def test_a_ptxas_that_the_environment_names_is_looked_for_anew(shared: Tools) -> None:
    shared.python(
        "import os\nfrom libtile.backend import tools\nfrom libtile_tools import server_child\n"
        "before = tools.tool_path('ptxas'), tools.tool_path.cache_info().currsize\n"
        "server_child._take_environment({**os.environb})\nassert tools.tool_path.cache_info().currsize == 1\n"
        "server_child._take_environment({**os.environb, b'CUDA_HOME': b'/x'})\n"
        "assert tools.tool_path.cache_info().currsize == 0\n"
    )


def test_limits_and_processors_are_those_of_the_process_that_asks(shared: Tools) -> None:
    said = shared.python(
        "import os, resource, subprocess\nfrom libtile_tools import server_child\n"
        "def changed():\n    resource.setrlimit(resource.RLIMIT_NOFILE, (321, 4321))\n"
        "    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "client = subprocess.Popen(['sleep', '1000'], preexec_fn=changed)\n"
        "server_child._take_limits(client.pid)\nclient.kill()\nclient.wait()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE))\n"
    )
    assert said == "(321, 4321) (0, 0)\n"


def test_twenty_at_once(shared: Tools, tmp_path: Path) -> None:
    before = shared.figures()
    shared.run(*COMPILE, "-o", str(tmp_path / "own"), LIBTILE_SERVER="0")

    def one(number: int) -> bytes:
        assert shared.run(*COMPILE, "-o", str(tmp_path / str(number))) == (0, b"", b"")
        return (tmp_path / str(number)).read_bytes()

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(one, range(20))) == {(tmp_path / "own").read_bytes()}
    assert shared.figures() == (before[0] + 20, 0, before[2])


# -- signals and ends -------------------------------------------------------------------------------------------------

WAITING = ("tileiras", "--gpu-name=sm_90", "--no-cache", "-", "-o", "k")
"""A tool that waits for its input."""


def waiting(tools: Tools, cwd: Path, stdin: int = subprocess.PIPE) -> tuple[subprocess.Popen[bytes], int, int]:
    """A served process that waits, the server, and its child."""
    server = tools.number()
    before = children(server)
    process = tools.start(*WAITING, cwd=cwd, stdin=stdin)
    return process, server, new_child(server, before)


def new_child(server: int, before: list[int]) -> int:
    """The child of a server that was not there before, when it is at work."""
    wait_for(lambda: set(children(server)) - set(before))
    (child,) = set(children(server)) - set(before)
    wait_for(lambda: _handles(child))
    return child


def _handles(process: int) -> bool:
    """Whether a process takes care of SIGTERM as a tool does that is at work, and not as a server, which also waits for
    its children."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    caught = int(lines["SigCgt"], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1) and not caught >> (signal.SIGCHLD - 1) & 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_as_without_a_server(shared: Tools, tmp_path: Path, number: signal.Signals) -> None:
    def ended_by_a_signal() -> int:
        found = re.search(r"(\d+) by a signal", shared.status())
        return int(found[1]) if found else 0

    before = ended_by_a_signal()
    process, _, child = waiting(shared, tmp_path)
    process.send_signal(number)
    process.wait(PATIENCE)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == -number
    assert err == (b"tileiras: interrupted\n" if number == signal.SIGINT else b"")
    wait_for_the_end(child)
    assert not (tmp_path / "k").exists()
    assert ended_by_a_signal() == before + 1


def test_a_signal_that_is_ignored_stays_so(shared: Tools, tmp_path: Path) -> None:
    server, before = shared.number(), shared.figures()
    others = children(server)
    script = f"trap '' INT; exec '{shared.installed.python}' -m tileiras --gpu-name=sm_90 --no-cache - -o k"
    process = subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE, env=shared.environment(), cwd=tmp_path)
    new_child(server, others)
    process.send_signal(signal.SIGINT)
    process.communicate(EXAMPLE.read_bytes(), timeout=PATIENCE)
    assert process.returncode == 0 and (tmp_path / "k").exists()
    assert shared.figures() == (before[0] + 1, 0, before[2])


def test_a_process_that_is_stopped_has_its_child_stopped(shared: Tools, tmp_path: Path) -> None:
    process, _, child = waiting(shared, tmp_path)

    def state(number: int) -> str:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]

    process.send_signal(signal.SIGTSTP)
    wait_for(lambda: state(process.pid) == state(child) == "T")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: state(child) != "T")
    process.communicate(EXAMPLE.read_bytes(), timeout=PATIENCE)
    assert process.returncode == 0 and (tmp_path / "k").exists()


def test_the_child_ends_with_the_process_that_it_works_for(shared: Tools, tmp_path: Path) -> None:
    read, write = os.pipe()  # which the process's end does not close
    process, _, child = waiting(shared, tmp_path, stdin=read)
    process.kill()
    process.wait()
    wait_for_the_end(child)
    wait_for(lambda: shared.figures()[1] == 0)  # the server learns of it when it looks
    assert not os.listdir(tmp_path)
    os.close(read)
    os.close(write)


def test_a_child_that_crashes_is_alone(shared: Tools, tmp_path: Path) -> None:
    process, server, child = waiting(shared, tmp_path)
    os.kill(child, signal.SIGSEGV)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGSEGV
    assert shared.number() == server and shared.run(*COMPILE, cwd=tmp_path)[0] == 0


def test_a_server_that_is_killed_takes_its_children_along(own: Tools, tmp_path: Path) -> None:
    own.control("start")
    process, server, child = waiting(own, tmp_path)
    os.kill(server, signal.SIGKILL)
    wait_for_the_end(child)  # before its input ends, of which it would say something
    _, err = process.communicate(timeout=PATIENCE)
    assert err == b"tileiras: error: the compile server was ended before the compilation was done\n"
    assert process.returncode == -signal.SIGTERM
    assert os.listdir(own.folder)  # what it left is in nobody's way
    assert own.run(*COMPILE, "-o", "l", cwd=tmp_path) == (0, b"", b"")
    wait_for(own.status)
    assert own.number() != server


def test_a_server_that_is_told_to_stop_ends_its_work(own: Tools, tmp_path: Path) -> None:
    own.control("start")
    process, server, child = waiting(own, tmp_path)
    stopping = own.start("libtile_cli", "server", "stop")
    wait_for(lambda: not os.listdir(own.folder))
    assert children(server) == [child]
    process.communicate(EXAMPLE.read_bytes(), timeout=PATIENCE)
    assert process.returncode == 0 and (tmp_path / "k").exists()
    assert stopping.communicate(timeout=PATIENCE)[0] == b"stopped 1 compile server\n"
    wait_for_the_end(server)


def test_a_server_without_work_ends(own: Tools) -> None:
    own.control("start", "--idle=5")
    wait_for(lambda: not os.listdir(own.folder))


def test_a_server_whose_socket_is_gone_ends(own: Tools) -> None:
    own.control("start")
    server = own.number()
    for path in own.folder.iterdir():
        path.unlink()
    wait_for_the_end(server)


# -- starting ---------------------------------------------------------------------------------------------------------


def test_a_tool_starts_a_server_and_does_not_wait(own: Tools, tmp_path: Path) -> None:
    def one(number: int) -> Ended:
        return own.run(*COMPILE, "-o", str(tmp_path / str(number)), LIBTILE_SERVER_IDLE="300")

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(one, range(6))) == {(0, b"", b"")}
    wait_for(own.status)
    said = own.status()
    assert said.count("compile server") == 1 and "ready for: sm_90" in said and "after 300 s" in said
    before = own.figures()
    assert one(7) == (0, b"", b"") and own.figures()[0] == before[0] + 1


def test_a_target_that_is_asked_for_is_got_ready_for_in_a_folder_of_a_long_name(own: Tools, tmp_path: Path) -> None:
    tools = Tools(own.installed, own.folder / ("x" * 120))
    tools.folder.mkdir(mode=0o700)
    tools.control("start")
    assert "ready for: no target yet" in tools.status()
    assert tools.run(*COMPILE, cwd=tmp_path) == (0, b"", b"")
    wait_for(lambda: "ready for: sm_90" in tools.status())
    assert tools.figures()[0] == 1
    tools.end()
    tools.folder.rmdir()


READ = ("tileirdisasm", str(EXAMPLE))
"""What takes less than a compilation."""


@pytest.mark.parametrize("fault", ["mode", "link", "file", "nowhere"])
def test_a_folder_that_is_not_this_users_alone_is_not_used(installed: Installation, tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "server"
    if fault == "mode":
        folder.mkdir(mode=0o755)
    elif fault == "link":
        folder.symlink_to(tmp_path)
    elif fault == "file":
        folder.touch()
    else:
        folder = Path("/proc/none/server")
    tools = Tools(installed, folder)
    status, out, err = tools.run(*READ)
    assert status == 0 and out.startswith(b"entry @vector_add")
    folder = Path("/proc/none") if fault == "nowhere" else folder  # which cannot be made
    said = b"tileirdisasm: warning: no compile server: '%s': " % os.fsencode(folder)
    assert err.startswith(said) and err.count(b"\n") == 1
    status, out, err = tools.run("libtile_cli", "server", "start")
    assert (status, out) == (1, b"") and err.startswith(b"error: '%s': " % os.fsencode(folder))


@pytest.mark.parametrize("variable", ["LIBTILE_SERVER", "LIBTILE_SERVER_IDLE"])
def test_a_variable_that_is_wrong_is_an_error(own: Tools, variable: str) -> None:
    status, _, err = own.run(*COMPILE, **{variable: "maybe"})
    assert status == 1 and err.startswith(b"error: environment variable %s is 'maybe', and must be" % variable.encode())


def test_words_are_understood_for_the_switch(shared: Tools) -> None:
    before = shared.figures()
    for value, count in (("on", 1), ("off", 1), ("YES", 2), ("", 2)):
        status, _, err = shared.run(*READ, LIBTILE_SERVER=value)
        assert (status, err) == (0, b"")
        assert shared.figures()[0] == before[0] + count


# -- who is served ----------------------------------------------------------------------------------------------------


def test_a_file_that_has_changed_ends_the_server(tmp_path: Path) -> None:
    """A module of ours, and then the folder of packages."""
    tools = Tools(patient(tmp_path / "installed"), tmp_path / "server")
    tools.folder.mkdir(mode=0o700)
    tools.control("start")
    first = tools.run(*READ)
    assert first[0] == 0 and tools.figures() == (1, 0, 0) and str(tools.installed.tree) in tools.status()
    module = tools.installed.tree / "libtile" / "passes" / "manager.py"
    for change in (
        lambda: module.write_text(f"{module.read_text(encoding='utf-8')}# another release\n", encoding="utf-8"),
        lambda: (tools.installed.packages / "another_package").mkdir(),
    ):
        server = tools.number()
        change()
        assert tools.run(*READ) == first
        wait_for_the_end(server)
        assert tools.run(*READ) == first  # which starts another one
        wait_for(tools.status)
        assert tools.number() != server
    tools.end()


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
    if os.nice(0) < 19:  # below which there is no priority
        assert name_in(["nice", *python], tmp_path) != usual
    (tmp_path / "xdsl").mkdir()
    assert name_in(python, tmp_path) != usual  # modules may come from there


def test_an_installed_command_and_python_m_ask_the_same(shared: Tools, tmp_path: Path) -> None:
    """A command is what `pip` makes of it."""
    script = shared.installed.python.with_name("tileiras")
    script.write_text(
        f"#!{shared.installed.python}\nimport sys\nfrom libtile_tools.entry import tileiras\nsys.exit(tileiras())\n"
    )
    script.chmod(0o755)
    (tmp_path / "link").symlink_to(script)
    before = shared.figures()
    for command in (script, tmp_path / "link"):
        env = shared.environment()
        subprocess.run([command, *COMPILE[1:], "-o", "k"], check=True, env=env, cwd=tmp_path, timeout=PATIENCE)
    assert shared.figures()[0] == before[0] + 2


# -- what is no request -----------------------------------------------------------------------------------------------


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
def test_what_is_no_request_is_declined(shared: Tools, what: str) -> None:
    data, why = MALFORMED[what]
    with shared.connection() as asked:
        asked.sendall(data)
        asked.shutdown(socket.SHUT_WR)
        assert heard(asked) == b"declined\n"
    assert why in shared.status()


def test_a_request_that_lacks_descriptors_is_declined(shared: Tools) -> None:
    """The key is right, and so is all else."""
    said = shared.python(
        "import os, sys\nfrom libtile_tools import served, server_place\n"
        "folder = server_place.open_folder()\nkey = server_place.key()\n"
        "connection = server_place.connected(folder, server_place.name_of(key), 60)\n"
        "data, descriptors = served.request(key, 'tileiras', (sys.stdin, sys.stdout, sys.stderr))\n"
        "served.send(connection, data, descriptors[:2])\nprint(next(served.lines(connection)))\n"
    )
    assert said == "b'declined'\n"
    assert "descriptors are missing" in shared.status()


def test_requests_come_in_pieces(shared: Tools) -> None:
    server_child.parsed(STATUS)
    with shared.connection() as asked:
        for byte in whole(STATUS):
            asked.sendall(bytes([byte]))
        assert heard(asked).startswith(b"compile server ")


def test_those_that_say_nothing_keep_nobody_waiting(shared: Tools, tmp_path: Path) -> None:
    silent = [shared.connection() for _ in range(200)]
    assert shared.run(*COMPILE, cwd=tmp_path) == (0, b"", b"")
    for each in silent:
        each.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_served(shared: Tools) -> None:
    (path,) = shared.folder.glob("*.socket")
    for folder in path.parents[:-1]:
        assert folder.stat().st_mode & 0o700
    code = (
        f"import os, socket; s = socket.socket(socket.AF_UNIX); os.chdir({str(shared.folder)!r}); os.setuid(65534);"
        f"s.connect({path.name!r}); print(s.recv(100))"
    )
    path.chmod(0o777)
    shared.folder.chmod(0o755)
    said = shared.python(code)
    shared.folder.chmod(0o700)
    assert said == "b'declined\\n'\n"
    assert "1: another user" in shared.status()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_server_is_not_asked(own: Tools) -> None:
    """One who listens under the name of a user's server, as another one."""
    own.folder.chmod(0o777)
    code = f"import os, socket, sys; os.chdir({str(own.folder)!r}); os.setuid(65534)\n"
    code += "s = socket.socket(socket.AF_UNIX); s.bind('0.socket'); s.listen(); print(1, flush=True); sys.stdin.read()"
    listening = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert listening.stdout is not None and listening.stdout.readline() == b"1\n"
    own.folder.chmod(0o700)
    folder = os.open(own.folder, os.O_RDONLY)
    with pytest.raises(PermissionError, match="another user listens there"):
        server_place.connected(folder, "0", PATIENCE)
    os.close(folder)
    listening.communicate()
    (own.folder / "0.socket").unlink()


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


def test_what_server_md_shows_is_what_is_printed(own: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = transcripts.CONSOLE.findall((ROOT / "docs" / "server.md").read_text(encoding="utf-8"))
    (tmp_path / "examples").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "examples")
    monkeypatch.setenv("LIBTILE_SERVER_DIR", str(own.folder))
    monkeypatch.setattr(sys, "executable", str(own.installed.python))
    monkeypatch.setattr(transcripts, "ROOT", own.installed.tree)
    printed = transcripts.transcript(block, tmp_path)
    assert settled(printed) == settled(block), printed
