# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compile cache: what is stored is found, damage is a miss, the size is bounded, many processes may share it."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from libtile.compiler import cache
from libtile.compiler.cache import Cache, Key
from libtile.support.environment import SettingError
from patience import PATIENCE

PARTS = {"cubin": bytes(range(256)), "ptx": b".version 9.2\n", "empty": b""}
KEY = Key.of({"input": "a", "options": {"opt_level": 3}})
OTHER = Key.of({"input": "b", "options": {"opt_level": 3}})


def key(number: int) -> Key:
    return Key.of({"input": number})


def test_what_is_stored_is_found(tmp_path):
    assert Cache(tmp_path).load(KEY) is None
    assert Cache(tmp_path).store(KEY, PARTS)
    assert Cache(tmp_path).load(KEY) == PARTS


def test_digests_tell_the_parts_apart():
    assert len({cache.digest(p) for p in (["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], [])}) == 5
    assert cache.digest(["a"]) == cache.digest([b"a"])


def test_a_key_does_not_depend_on_the_order_of_its_facts():
    assert Key.of({"a": 1, "b": 2}) == Key.of({"b": 2, "a": 1}) != Key.of({"a": 1, "b": "2"})


def reseal(body: bytes) -> bytes:
    """A file with a checksum that fits, as somebody who knows the format would make it."""
    return cache.MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


DAMAGE = {
    "truncated": lambda raw: raw[:-5],
    "longer": lambda raw: raw + b"x",
    "flipped": lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
    "foreign": lambda raw: b"hello",
    "empty": lambda raw: b"",
    "an older format": lambda raw: raw.replace(b"entry 2", b"entry 1"),
    "another key's entry": lambda raw: cache._pack(OTHER, PARTS),
    "forged, with fewer parts": lambda raw: reseal(cache._field(KEY.text.encode()) + (4).to_bytes(8, "little")),
    "forged, with a huge length": lambda raw: reseal(
        cache._field(KEY.text.encode()) + (1).to_bytes(8, "little") + (2).to_bytes(8, "little") + b"ab" + b"\xff" * 8
    ),
    "forged, with nothing behind the key": lambda raw: reseal(cache._field(KEY.text.encode())),
    "forged, without a key": lambda raw: reseal(b""),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_a_miss_and_can_be_stored_again(tmp_path, damage):
    box = Cache(tmp_path)
    box.store(KEY, PARTS)
    box.path(KEY).write_bytes(DAMAGE[damage](box.path(KEY).read_bytes()))
    assert box.load(KEY) is None
    assert box.store(KEY, PARTS)
    assert box.load(KEY) == PARTS


def test_every_truncation_and_every_changed_byte_is_a_miss(tmp_path):
    whole = cache._pack(KEY, {"cubin": b"c", "ptx": b""})
    for size in range(len(whole)):
        assert cache._unpack(whole[:size], KEY) is None
        assert cache._unpack(whole[:size] + bytes([whole[size] ^ 4]) + whole[size + 1 :], KEY) is None


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_bytes(cache._pack(KEY, PARTS))
    target.chmod(0o600)
    path.symlink_to(target)


def _link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _others_may_write(path: Path) -> None:
    path.write_bytes(cache._pack(KEY, PARTS))
    path.chmod(0o622)


@pytest.mark.parametrize("make", [_fifo, _link, _link_to_a_device, _others_may_write])
def test_what_no_entry_of_this_user_would_be_is_a_miss_at_once_and_replaced(tmp_path, make):
    box = Cache(tmp_path)
    box.path(KEY).parent.mkdir(mode=0o700)
    make(box.path(KEY))
    started = time.process_time()  # a FIFO that were opened would be waited for for ever
    assert box.load(KEY) is None
    box.evict()
    assert box.store(KEY, PARTS)
    assert box.load(KEY) == PARTS
    assert time.process_time() - started < 5


@pytest.mark.parametrize("where", ["entry", "shelf", "folder"])
def test_a_folder_or_file_in_the_way_is_no_error(tmp_path, where):
    box = Cache(tmp_path / "cache")
    path = {"entry": box.path(KEY), "shelf": box.path(KEY).parent, "folder": box.folder}[where]
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    if where == "entry":
        path.mkdir()
    else:
        path.write_text("")
    assert box.load(KEY) is None
    assert not box.store(KEY, PARTS)
    assert box.load(KEY) is None
    assert box.evict() == 0
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_folder_that_everybody_can_write_is_not_used(tmp_path):
    box = Cache(tmp_path / "cache")
    assert box.store(KEY, PARTS)
    for folder in (box.folder, box.path(KEY).parent):
        folder.chmod(0o777)
        assert box.load(KEY) is None
        assert not box.store(OTHER, PARTS) or folder != box.folder
        folder.chmod(0o700)
        assert box.load(KEY) == PARTS


def test_a_folder_behind_a_link_is_not_used(tmp_path):
    box = Cache(tmp_path / "cache")
    assert box.store(KEY, PARTS)
    shelf = box.path(KEY).parent
    shelf.rename(tmp_path / "moved")
    shelf.symlink_to(tmp_path / "moved")
    assert box.load(KEY) is None
    assert not box.store(KEY, PARTS)
    assert not list(box.entries())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("which", ["entry", "shelf", "folder"])
def test_what_another_user_owns_is_a_miss(tmp_path, which):
    box = Cache(tmp_path / "cache")
    assert box.store(KEY, PARTS)
    os.chown({"entry": box.path(KEY), "shelf": box.path(KEY).parent, "folder": box.folder}[which], 12345, 12345)
    assert box.load(KEY) is None
    assert box.store(KEY, PARTS) == (which == "entry")


def test_only_this_user_can_read_the_cache(tmp_path):
    box = Cache(tmp_path / "cache")
    box.store(KEY, PARTS)
    modes = [p.stat().st_mode & 0o777 for p in (box.folder, box.path(KEY).parent, box.path(KEY))]
    assert modes == [0o700, 0o700, 0o600]


def test_the_entries_not_used_for_longest_go_first(tmp_path):
    box = Cache(tmp_path, limit=3500)
    for age in range(3):
        assert box.store(key(age), {"x": bytes(1000)})
        os.utime(box.path(key(age)), (1000 + age, 1000 + age))
    assert box.load(key(0)) is not None  # used again: the second is the oldest now
    assert box.store(key(3), {"x": bytes(1000)})
    assert [box.load(key(k)) is not None for k in range(4)] == [True, False, True, True]


def test_among_many_small_entries_the_limit_holds_but_for_some(tmp_path):
    box = Cache(tmp_path, limit=100_000)
    for number in range(700):
        assert box.store(key(number), {"x": bytes(50)})
        if number % 50 == 49:
            assert sum(status.st_size for _, status in box.entries()) < 120_000
    assert sum(1 for _ in box.entries()) > 400


def test_what_is_larger_than_the_cache_is_not_stored(tmp_path):
    box = Cache(tmp_path, limit=100)
    assert not box.store(KEY, PARTS)
    assert box.load(KEY) is None


def test_a_file_that_is_larger_than_the_cache_is_not_read(tmp_path):
    box = Cache(tmp_path, limit=10_000)
    assert box.store(KEY, PARTS)
    with open(box.path(KEY), "r+b") as file:
        file.truncate(1 << 42)
    assert box.load(KEY) is None


def test_no_temporary_file_is_left(tmp_path):
    Cache(tmp_path).store(KEY, PARTS)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [KEY.name + cache.SUFFIX]


def test_what_a_writer_that_died_left_is_removed_when_it_is_old(tmp_path):
    box = Cache(tmp_path)
    box.path(KEY).parent.mkdir(mode=0o700)
    old, new = (box.path(KEY).with_name(f"{KEY.name}.{x}.tmp") for x in ("a1b2_", "b"))
    for left in (old, new):
        left.write_bytes(b"half")
    os.utime(old, (time.time() - 120,) * 2)
    box.evict()
    assert not old.exists()
    assert new.exists(), "its writer may be at work"


def test_files_of_others_below_the_folder_are_left_alone(tmp_path):
    box = Cache(tmp_path, limit=1)
    kept = [tmp_path / "go" / "x.tmp", tmp_path / "ab" / "x.tmp", tmp_path / "ab" / "x.entry", tmp_path / "ab" / "data"]
    for path in kept:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        os.utime(path, (1000, 1000))
    box.evict()
    assert all(path.exists() for path in kept)


def test_the_environment_sets_folder_size_and_switch(tmp_path, monkeypatch):
    monkeypatch.setenv("LIBTILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("LIBTILE_CACHE_SIZE", "64K")
    assert cache.from_environment() == Cache(tmp_path, 65536)
    assert cache.from_environment(str(tmp_path / "x")) == Cache(tmp_path / "x", 65536)
    monkeypatch.setenv("LIBTILE_CACHE", "0")
    assert cache.from_environment() is None
    monkeypatch.delenv("LIBTILE_CACHE")
    monkeypatch.delenv("LIBTILE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_folder() == tmp_path / "libtile"


def test_without_a_home_there_is_no_cache_but_the_one_that_is_named(tmp_path, monkeypatch):
    def homeless(cls=None):
        raise RuntimeError("Could not determine home directory.")

    for name in ("LIBTILE_CACHE_DIR", "XDG_CACHE_HOME", "LIBTILE_CACHE", "LIBTILE_CACHE_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert cache.default_folder() is None
    assert cache.from_environment() is None
    assert cache.from_environment(str(tmp_path)) == Cache(tmp_path)


@pytest.mark.parametrize("text", ["many", "-1", "1T", "K", "9" * 5000, "٣"])
def test_a_size_that_is_none_is_an_error(text, monkeypatch):
    monkeypatch.setenv("LIBTILE_CACHE_SIZE", text)
    with pytest.raises(SettingError, match=r"^environment variable LIBTILE_CACHE_SIZE is '.*, and must be a number of"):
        cache.from_environment()


# Stores, loads and evicts entries in a random order until it has done enough and is told to stop, or is killed.
# Whatever is found is right.
WORKER = """
import hashlib, random, sys
from pathlib import Path
from libtile.compiler.cache import Cache, Key

def contents(number):
    seed = hashlib.sha256(str(number).encode()).digest()
    return {"cubin": seed * (50 + number % 200), "name": str(number).encode()}

box, chance = Cache(Path(sys.argv[1]), 150_000), random.Random(int(sys.argv[2]))
stop, hits, stored = Path(sys.argv[1]) / "stop", 0, 0
print("ready", flush=True)
while hits <= 20 or stored <= 100 or not stop.exists():
    number = chance.randrange(200)
    key = Key.of({"input": number})
    found = box.load(key)
    if found is not None:
        hits += 1
        if found != contents(number):
            sys.exit(f"wrong entry for {number}")
    stored += box.store(key, contents(number))
    if chance.random() < 0.2:
        box.evict()
print(hits, stored, flush=True)
"""


def _worker(folder: Path, seed: int) -> subprocess.Popen:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", WORKER, str(folder), str(seed)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed here")
def test_every_hit_is_right_while_processes_store_evict_and_are_killed(tmp_path, monkeypatch):
    lasting = [_worker(tmp_path, seed) for seed in range(2)]
    chance, killed = random.Random(0), 0
    for worker in lasting:
        assert worker.stdout.readline() == "ready\n", worker.stderr.read()
    while killed < 8:
        victim = _worker(tmp_path, 100 + killed)
        assert victim.stdout.readline() == "ready\n"
        time.sleep(chance.random() * 0.2)
        victim.kill()
        victim.communicate()
        assert victim.returncode == -signal.SIGKILL, "it found a wrong entry before it was killed"
        killed += 1
    (tmp_path / "stop").touch()
    for worker in lasting:
        said, problem = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0, problem
        hits, stored = map(int, said.split())
        assert hits > 20 and stored > 100
    # What is there is whole, and what was left behind goes.
    box = Cache(tmp_path, 150_000)
    monkeypatch.setattr(cache, "_STALE_SECONDS", -1.0)
    box.evict()
    found = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "stop"]
    assert sum(path.stat().st_size for path in found) <= box.limit
    names = {key(number).name: number for number in range(200)}
    for path in found:
        entry = box.load(key(names[path.stem]))
        assert entry is not None
        assert entry["name"] == str(names[path.stem]).encode()
