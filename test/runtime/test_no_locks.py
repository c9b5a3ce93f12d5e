# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where processes can share no locks (no /dev/shm to write to, no semaphores), everything runs in one."""

from __future__ import annotations

import errno
import os
import sys

import numpy as np
import pytest

import libtile
from libtile.support import workers
from libtile.tuning import Space, tune

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")

TEXT = """cuda_tile.module @m { entry @k(%p: tile<ptr<i32>>) {
  %b, %y, %z = get_tile_block_id : tile<i32>
  %q = offset %p, %b : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %t = store_ptr_tko weak %q, %b : tile<ptr<i32>>, tile<i32> -> token
  return } }"""


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refused)


def test_a_large_grid_runs_in_one_process(no_locks: None) -> None:
    assert workers.available() == 1
    memory = np.zeros(4096, np.int32)
    done = libtile.run(libtile.parse(TEXT), grid=4096, args=[memory], backend="simulator")
    assert done.processes == 1
    assert memory.tolist() == list(range(4096))


def test_processes_that_were_asked_for_are_refused(no_locks: None) -> None:
    with pytest.raises(libtile.LibtileError, match="no lock can be made that processes share: Read-only file system"):
        libtile.run(libtile.parse(TEXT), grid=4096, args=[np.zeros(4096, np.int32)], backend="simulator", processes=2)
    with pytest.raises(libtile.LibtileError, match=r"there cannot be 2 processes, give 1: .*Read-only file system"):
        tune(libtile.parse(TEXT), Space((2, 3)), args=[np.zeros(8, np.int32)], measure="estimate", processes=2)
