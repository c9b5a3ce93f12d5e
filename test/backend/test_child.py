# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A process that reads its input and says something, by the system's own functions and by `subprocess`."""

import os
import subprocess
import sys
import time

import pytest

from libtile.backend import child
from patience import PATIENCE

MOST = 1 << 24
KINDS = [child._ByPopen, *([child.Child] if hasattr(os, "posix_spawnp") else [])]
ECHO = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d * 2); sys.stderr.write(str(len(d)))"


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 3, 3_000_000])
def test_it_is_given_its_input_and_heard(kind, size):
    process = kind(python(ECHO), os.environ, True)
    out, err = process.communicate(bytes(size), PATIENCE, MOST)
    assert (len(out), err, process.returncode) == (2 * size, str(size).encode(), 0)
    process.end()


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_the_environment_and_no_input(kind):
    code = "import os, sys; print(os.environ['SOME'], sys.stdin.read() == ''); sys.exit(7)"
    process = kind(python(code), {**os.environ, "SOME": "thing"}, False)
    assert process.communicate(None, PATIENCE, MOST) == (b"thing True" + os.linesep.encode(), b"")
    assert process.returncode == 7
    process.end()


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_reads_nothing_is_no_error(kind):
    process = kind(python("import sys; sys.stdin.close(); print(1)"), os.environ, True)
    assert process.communicate(bytes(3_000_000), PATIENCE, MOST)[0].strip() == b"1"
    process.end()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_one_that_says_too_much_is_not_heard_to_the_end(kind, stream):
    code = f"import sys; sys.{stream}.write('a' * %d)"
    process = kind(python(code % 1000), os.environ, False)
    assert sorted(map(len, process.communicate(None, PATIENCE, 1000))) == [0, 1000]
    process.end()
    process = kind(python(code % 3_000_000), os.environ, False)
    with pytest.raises(child.SaysTooMuch):
        process.communicate(None, PATIENCE, 1000)
    process.end()
    assert process.poll() is not None


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_takes_too_long_is_ended(kind):
    process = kind(python("import time; time.sleep(100)"), os.environ, True)
    with pytest.raises(TimeoutError):
        process.communicate(b"", 0.05, MOST)
    process.end()
    assert process.poll() not in (None, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_there_cannot_be_run(kind, tmp_path):
    with pytest.raises(FileNotFoundError):
        kind([str(tmp_path / "absent")], os.environ, True)


@pytest.mark.skipif(not hasattr(os, "posix_spawnp"), reason="by POSIX")
def test_no_descriptor_is_left_and_closed_streams_are_no_matter():
    code = f"""
import os, sys
from libtile.backend import child
def opened():
    return sorted(os.listdir("/dev/fd"))
before = opened()
for closed in ((), (0,), (0, 1), (0, 1, 2)):
    kept = [(number, os.dup(number)) for number in range(3)]
    for number in closed:
        os.close(number)
    process = child.Child({python(ECHO)!r}, os.environ, True)
    said = process.communicate(b"abc", {PATIENCE}, {MOST})
    process.end()
    unused = child.Child({python(ECHO)!r}, os.environ, True)
    unused.end()
    for number, copy in kept:
        os.dup2(copy, number)
        os.close(copy)
    print(said, unused.returncode, opened() == before)
"""
    done = subprocess.run(python(code), capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout.splitlines() == ["(b'abcabc', b'3') -9 True"] * 4


@pytest.mark.skipif(not hasattr(os, "posix_spawnp"), reason="by POSIX")
def test_one_that_a_signal_ends_says_so():
    process = child.Child(python("import os; os.kill(os.getpid(), 9)"), os.environ, False)
    begun = time.monotonic()
    process.communicate(None, PATIENCE, MOST)
    assert process.returncode == -9 and time.monotonic() - begun < PATIENCE
    process.end()
