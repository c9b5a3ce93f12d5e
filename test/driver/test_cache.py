# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compile cache: what is stored is found, damage is a miss, the size is bounded, many processes may share it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from libtile import cache
from libtile.cache import Cache

PARTS = {"cubin": bytes(range(256)), "ptx": b".version 9.2\n", "empty": b""}
KEY = cache.digest(["a", b"b"])


def test_what_is_stored_is_found(tmp_path):
    assert Cache(tmp_path).load(KEY) is None
    assert Cache(tmp_path).store(KEY, PARTS)
    assert Cache(tmp_path).load(KEY) == PARTS


def test_digests_tell_the_parts_apart():
    assert len({cache.digest(p) for p in (["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], [])}) == 5
    assert cache.digest(["a"]) == cache.digest([b"a"])


@pytest.mark.parametrize("damage", ["truncated", "flipped", "foreign", "empty"])
def test_a_damaged_entry_is_a_miss_and_can_be_stored_again(tmp_path, damage):
    box = Cache(tmp_path)
    box.store(KEY, PARTS)
    raw = box.path(KEY).read_bytes()
    flipped = raw[:-1] + bytes([raw[-1] ^ 1])
    box.path(KEY).write_bytes({"truncated": raw[:-5], "flipped": flipped, "foreign": b"hello", "empty": b""}[damage])
    assert box.load(KEY) is None
    assert box.store(KEY, PARTS)
    assert box.load(KEY) == PARTS


def test_the_entries_not_used_for_longest_go_first(tmp_path):
    box = Cache(tmp_path, limit=3500)
    keys = [cache.digest([str(i)]) for i in range(4)]
    for age, key in enumerate(keys[:3]):
        assert box.store(key, {"x": bytes(1000)})
        os.utime(box.path(key), (1000 + age, 1000 + age))
    assert box.load(keys[0]) is not None  # used again: the second is the oldest now
    assert box.store(keys[3], {"x": bytes(1000)})
    assert [box.load(k) is not None for k in keys] == [True, False, True, True]


def test_among_many_small_entries_the_limit_holds_but_for_some(tmp_path):
    box = Cache(tmp_path, limit=100_000)
    for number in range(700):
        assert box.store(cache.digest([str(number)]), {"x": bytes(50)})
        if number % 50 == 49:
            assert sum(status.st_size for _, status in box.entries()) < 120_000
    assert sum(1 for _ in box.entries()) > 400


def test_what_is_larger_than_the_cache_is_not_stored(tmp_path):
    box = Cache(tmp_path, limit=100)
    assert not box.store(KEY, PARTS)
    assert box.load(KEY) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    box = Cache(tmp_path / "file" / "cache")
    assert not box.store(KEY, PARTS)
    assert box.load(KEY) is None


def test_no_temporary_file_is_left(tmp_path):
    Cache(tmp_path).store(KEY, PARTS)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [KEY + cache.SUFFIX]


def test_what_a_writer_that_died_left_is_removed_when_it_is_old(tmp_path):
    box = Cache(tmp_path)
    box.path(KEY).parent.mkdir(parents=True)
    left = box.path(KEY).with_name("x.tmp")
    left.write_bytes(b"half")
    os.utime(left, (1000, 1000))
    box.store(KEY, PARTS)
    box.evict()
    assert not left.exists()


def test_the_environment_sets_folder_size_and_switch(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBTILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LIBTILE_CACHE_SIZE", "64K")
    assert cache.from_environment() == Cache(tmp_path, 65536)
    monkeypatch.setenv("LIBTILE_CACHE", "0")
    assert cache.from_environment() is None
    monkeypatch.delenv("LIBTILE_CACHE")
    monkeypatch.delenv("LIBTILE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_folder() == tmp_path / "libtile"


@pytest.mark.parametrize("text", ["", "many", "-1", "1T", "K"])
def test_a_size_that_is_none_is_an_error(text):
    with pytest.raises(cache.CacheError, match="is not a cache size"):
        cache.parse_size(text)


WRITER = """
import sys
from pathlib import Path
from libtile.cache import Cache, digest
box = Cache(Path(sys.argv[1]), 40_000)
for round in range(40):
    key = digest([str(round % 8)])
    found = box.load(key)
    assert found is None or found == {"x": bytes([round % 8]) * 3000}, "torn entry"
    box.store(key, {"x": bytes([round % 8]) * 3000})
"""


def test_processes_may_store_and_load_the_same_entries_at_the_same_time(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE) for _ in range(3)]
    problems = [w.communicate(timeout=60)[1].decode() for w in writers]
    assert [w.returncode for w in writers] == [0, 0, 0], problems
    assert sum(s.st_size for _, s in Cache(tmp_path).entries()) <= 40_000
