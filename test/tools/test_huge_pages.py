# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of a tool that compiles is in large pages, where the system has them, and as ever where it has not."""

import subprocess
import sys

import pytest

from libtile_tools import huge_pages
from patience import PATIENCE

_USES = """
from libtile_tools import huge_pages
print(huge_pages.use())
kept = [bytes(1000 + i % 3000) for i in range(8000)]
with open("/proc/self/smaps") as file:
    print(sum(int(line.split()[1]) for line in file if line.startswith("AnonHugePages")))
del kept
print(sum(map(len, [bytes(5000 + i) for i in range(4000)])))
"""


def _run(limit: str = "") -> list[str]:
    command = ["sh", "-c", f'{limit} exec "$0" -c "$1"', sys.executable, _USES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout.split()


@pytest.mark.skipif(not huge_pages._has_huge_pages(), reason="this system has no large pages for who asks for them")
def test_what_is_allocated_is_in_large_pages():
    used, kilobytes, total = _run()
    assert used == "True" and int(kilobytes) >= 8192
    assert int(total) == sum(5000 + i for i in range(4000))


_ENDS = """
import threading
from libtile_tools import huge_pages
print(huge_pages.use())

def depth(n):  # frames of calls are in pieces that are taken and given back
    return depth(n - 1) + 1 if n else 0

found = []
threads = [threading.Thread(target=lambda: found.append([depth(900) for _ in range(20)])) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
kept = [object() for _ in range(300_000)]  # arenas that are there at the end
for _ in range(3):  # and some that are given back before
    del kept[: len(kept) // 2]
    kept += [(i,) for i in range(100_000)]
print(len(found), depth(900), len({*map(id, kept)}) == len(kept))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has such pages")
def test_a_process_that_ends_in_pythons_usual_way_gives_back_what_it_took_before():
    done = subprocess.run([sys.executable, "-c", _ENDS], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1] == "3 900 True"


_SMALL = """
from libtile_tools import huge_pages
assert huge_pages.use()
kept = [object() for _ in range(1_500_000)]
with open("/proc/self/smaps") as file:
    print(sum(int(line.split()[1]) for line in file if line.startswith("AnonHugePages")))
"""


@pytest.mark.skipif(not huge_pages._has_huge_pages(), reason="this system has no large pages for who asks for them")
def test_small_objects_are_in_large_pages():
    done = subprocess.run([sys.executable, "-c", _SMALL], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert int(done.stdout) >= 16384


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux here")
def test_where_memory_is_limited_there_is_as_much_as_without():
    _, _, total = _run("ulimit -d 100000;")
    assert int(total) == sum(5000 + i for i in range(4000))


def test_nothing_is_done_where_the_kernel_has_no_large_pages(monkeypatch):
    monkeypatch.setattr(huge_pages, "_SETTINGS", "/nowhere")
    assert not huge_pages.use()
