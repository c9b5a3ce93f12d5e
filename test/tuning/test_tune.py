# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tune`: what is tried, what is kept, how it is ranked, and that a cluster that loses a worker loses no outcome."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import libtile
from libtile.runtime.cuda_driver import Device
from libtile.support.errors import LibtileError
from libtile.tuning import Outcome, Space, Sweep, tune
from libtile.tuning.space import expression
from oracle import require_tool
from patience import PATIENCE
from runtime.test_gpu import library, machine  # noqa: F401 - the fixtures of a driver without a GPU
from tools.process import ROOT, run

ADD = ROOT / "examples" / "vector_add.bc"


def arrays(size: int = 1024) -> list[np.ndarray]:
    return [np.zeros(size, np.float32) for _ in range(3)]


def test_expressions_have_numbers_names_and_nothing_else() -> None:
    values = {"tm": 64, "tn": 128, "schedule": ""}
    assert expression("cdiv(1000, tm) * 2, tn")(values) == (32, 128)
    assert expression("tm * tn <= 8192 and not schedule and 0 < tm < tn")(values) is True
    assert expression("tm in (32, 64) or max(tm, tn) == 1")(values) is True
    for text in ("__import__('os')", "tm.real", "tm if tn else 1", "tm **", "other", "tm // 0", "[tm]"):
        with pytest.raises(LibtileError, match=r"^'"):
            expression(text)(values)


def test_a_space_is_what_its_constraints_leave() -> None:
    space = Space(
        (2, 3), ("", "pipelined"), {"occupancy": (1, 2)}, where=["occupancy == 1 or opt_level == 3", "not schedule"]
    )
    assert [str(c) for c in space.configurations("sm_90")] == ["occupancy=1 -O2", "occupancy=1 -O3", "occupancy=2 -O3"]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space(hints={"speed": (1,)}), "there is no hint 'speed': use one of num_cta_in_cga"),
        (Space(hints={"num_cta_in_cga": (2,)}), "hint 'num_cta_in_cga' = 2 on sm_80: expected 1"),
        (Space(schedules=("fast",)), r"there is no schedule 'fast'"),
        (Space(opt_levels=(4,)), "there is no optimization level 4"),
        (Space(constants={"occupancy": (1,)}, hints={"occupancy": (1,)}), "'occupancy' is the name of a constant and"),
        (Space(where=["opt_level > 3"]), "no configuration is left"),
        (Space(opt_levels=3), "the space's opt_levels has to be a sequence of what to try, not 3"),  # type: ignore[arg-type]
        (Space(where="opt_level == 3"), "the space's where has to be a sequence of what to try"),
        (Space(hints={"occupancy": 2}), "the space's occupancy has to be a sequence"),  # type: ignore[dict-item]
        (Space(hints={"occupancy": ("2",)}), "hint 'occupancy' = '2' on sm_80: a whole number"),  # type: ignore[dict-item]
    ],
)
def test_what_cannot_be_chosen_is_refused_before_anything_runs(space: Space, message: str) -> None:
    with pytest.raises(LibtileError, match=message):
        tune(ADD, space, args=arrays(), gpu_name="sm_80", measure="estimate")


def test_a_trial_has_the_attributes_that_passes_are_told_by(monkeypatch) -> None:
    text = "cuda_tile.module @m { entry @k() { %0 = constant <i32: 0> : tile<i32>\n"
    text += "for %i in (%0 to %0, step %0) : tile<i32> { continue } {cuda_tile.loop_split = 4 : i32} return } }"
    given: list[bytes] = []

    def here(trials, arrays):
        given.extend(trial.module for trial in trials)
        return [Outcome("", trial.configuration, "estimate") for trial in trials]

    monkeypatch.setattr("libtile.tuning.workers.here", here)
    tune(libtile.parse(text), Space(), args=[], measure="estimate")
    assert [libtile.diff(libtile.parse(text), data) for data in given] == [[]]


def test_as_few_as_no_processes_are_refused() -> None:
    with pytest.raises(LibtileError, match="0 processes cannot estimate anything"):
        tune(ADD, Space((2, 3)), args=arrays(), gpu_name="sm_80", measure="estimate", processes=0)


def test_a_sweep_is_ranked_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    require_tool("nvdisasm")
    file = tmp_path / "results.jsonl"
    space = Space((0, 3))
    seen: list[tuple[int, int]] = []

    def sweep() -> tuple[list[Outcome], int]:
        done = tune(
            ADD, space, args=arrays(), grid=4, measure="estimate", results=file, processes=1,
            progress=lambda n, total, outcome: seen.append((n, total)),
        )  # fmt: skip
        return done.outcomes, done.resumed

    outcomes, resumed = sweep()
    assert [o.configuration.opt_level for o in outcomes] == [3, 0] and outcomes[0].rank < outcomes[1].rank
    assert not any(o.error for o in outcomes) and resumed == 0 and seen == [(1, 2), (2, 2)]
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 3
    file.write_text("".join(lines[:2]) + lines[2][:20])  # stopped while it wrote
    assert sweep() == (outcomes, 1) and seen[2:] == [(2, 2)]
    shown = re.search(r"\$ libtile tune .*\n([^`]*)```", (ROOT / "docs" / "tune.md").read_text(encoding="utf-8"))
    assert shown is not None
    # Times and registers change with every change of the compiler.
    old, new = (
        re.sub(r"\d+ ns|\d+ registers", "#", text) for text in (shown[1], str(Sweep("sm_90", "estimate", outcomes)))
    )
    assert old == new, "docs/tune.md is stale"
    assert sweep() == (outcomes, 2) and len(file.read_text().splitlines()) == 3
    file.write_text("something else\n")
    with pytest.raises(LibtileError, match="is no file of tuning results"):
        sweep()


def test_outcomes_of_another_libtile_or_another_gpu_are_not_taken(machine, tmp_path: Path, monkeypatch) -> None:  # noqa: F811
    file, begin = tmp_path / "results.jsonl", Device.__init__

    def resumed() -> int:
        return tune(ADD, Space((3,)), args=arrays(), grid=4, results=file).resumed

    assert (resumed(), resumed()) == (0, 1)
    monkeypatch.setattr("libtile.tuning.sweep.compiler_identity", lambda: "a later one")
    assert (resumed(), resumed()) == (0, 1)

    def other(self: Device, *args: object) -> None:
        begin(self, *args)
        self.name = "another GPU of this target"

    monkeypatch.setattr(Device, "__init__", other)
    assert (resumed(), resumed()) == (0, 1)


def test_constants_of_a_kernel_are_tuned_and_failures_are_outcomes() -> None:
    pytest.importorskip("cuda.tile", reason="kernels of cuTile Python need it (pip install cuda-tile)")
    arguments = [part for _ in range(3) for part in ("--arg", "zeros:f32:1024")]
    done = run(
        "libtile_cli", "tune", f"{ROOT / 'examples' / 'vector_add.py'}:vector_add", "--grid", "cdiv(1024, tile)",
        *arguments, "--arg", "256", "--constant", "tile=256,512,96", "--where", "tile != 512", "--json",
        "--measure=estimate", "--processes=1",
    )  # fmt: skip
    assert done.status == 0, done.err
    good, bad = json.loads(done.text)["outcomes"]
    assert good["configuration"]["constants"] == {"tile": 256} and good["seconds"] > 0 and not good["error"]
    assert bad["configuration"]["constants"] == {"tile": 96} and "power of two" in bad["error"]


@pytest.mark.slow
def test_processes_give_what_one_gives() -> None:
    space = Space((2, 3), hints={"occupancy": (1, 2)})
    one, two = (tune(ADD, space, args=arrays(), measure="estimate", processes=count).outcomes for count in (1, 2))
    assert one == two and len(one) == 4


def test_a_gpu_measures_one_trial_after_the_other(machine) -> None:  # noqa: F811
    a, b, out = arrays()
    done = tune(ADD, Space((2, 3)), args=[a, b + 1, out], grid=4)
    assert (done.measure, done.gpu_name) == ("gpu", "sm_90") and len(done.outcomes) == 2
    assert [o.seconds for o in done.outcomes] == pytest.approx([0.003, 0.003])
    assert len(machine.calls("cuLaunchKernel")) == 2 * 21 and (out == 0).all()


class Cluster:
    """A Dask scheduler and two workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}

        def start(*arguments: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "dask", *arguments, "--scheduler-file", str(self.file)]
            return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL)

        self.scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
        self.workers = [
            start("worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", "--no-dashboard") for _ in range(2)
        ]

    def address(self) -> str:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if self.file.exists() and self.file.read_text():
                return str(json.loads(self.file.read_text())["address"])
            time.sleep(0.1)
        raise AssertionError("the scheduler did not start")

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("distributed", reason="the cluster is Dask's (pip install 'libtile[cluster]')")
    made = Cluster(tmp_path)
    yield made
    made.stop()


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_loses_no_outcome(cluster: Cluster, tmp_path: Path) -> None:
    from distributed import Client

    with Client(cluster.address(), timeout=f"{PATIENCE:.0f}s") as client:
        client.wait_for_workers(2, timeout=PATIENCE)
    seen: list[int] = []

    def killing(done: int, total: int, outcome: Outcome) -> None:
        seen.append(done)
        if len(seen) == 2:
            os.kill(cluster.workers[0].pid, signal.SIGKILL)

    space = Space((0, 1, 2, 3), hints={"occupancy": (1, 2)})
    done = tune(
        ADD, space, args=arrays(), measure="estimate", scheduler=cluster.address(), results=tmp_path / "results",
        progress=killing,
    )  # fmt: skip
    assert cluster.workers[0].wait(PATIENCE) == -signal.SIGKILL and cluster.workers[1].poll() is None
    assert seen == list(range(1, 9))
    assert sorted(str(o.configuration) for o in done.outcomes) == sorted(map(str, space.configurations("sm_90")))
    assert not any(o.error for o in done.outcomes)
    assert len((tmp_path / "results").read_text().splitlines()) == 9


def test_a_script_needs_no_guard_to_tune_in_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import libtile, numpy as np\nfrom libtile.tuning import Space\nprint('begun')\n"
        "args = [np.zeros(1024, np.float32) for _ in range(3)]\n"
        f"sweep = libtile.tune({str(ADD)!r}, Space((0, 3)), grid=4, args=args, measure='estimate', processes=2)\n"
        "print(len(sweep.outcomes), __file__, __spec__)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.stdout.splitlines() == ["begun", f"2 {script} None"], done.stderr
