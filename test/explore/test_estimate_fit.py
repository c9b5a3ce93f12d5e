# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `bench/estimate_fit.py` makes of measured launches, and the likely time that comes of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]

import libtile  # noqa: E402
from libtile.explore import Estimate  # noqa: E402
from libtile.simulator.launch import sampled  # noqa: E402
from libtile.support.errors import LibtileError  # noqa: E402
from libtile.targets import machine  # noqa: E402

ADD = ROOT / "examples" / "vector_add.bc"


@pytest.fixture
def estimate_fit() -> Any:
    """The module, with which the kernels of bench come, that tests which are collected later are not to see."""
    import estimate_fit

    return estimate_fit


def test_rates_are_the_most_that_a_launch_reached_of_what_bounds_three_kernels(estimate_fit: Any) -> None:
    counts = {f"k{n} 1": {"device memory": 1.0, "issue slots": 0.5, "L2": 4.0} for n in range(3)}
    counts["other 1"] = {"device memory": 0.1, "issue slots": 1.0, "L2": 1.0}
    seconds = {"k0 1": 2.0, "k1 1": 1.25, "k2 1": 4.0, "other 1": 2.0}
    rates = estimate_fit.fit(counts, seconds)
    assert rates == {"L2": 3.2, "device memory": 0.8}
    assert estimate_fit.likely(counts["k0 1"], rates)[1] == 1.25
    assert estimate_fit.likely(counts["other 1"], rates) == ("issue slots", 1.0)
    middle, worst = estimate_fit.spread(estimate_fit.off(counts, seconds, rates))
    assert (middle, worst) == (pytest.approx(0.8), pytest.approx(2.2))


def test_times_are_read_from_json_and_from_the_table(tmp_path: Path, estimate_fit: Any) -> None:
    file, table = tmp_path / "t.json", tmp_path / "t.md"
    file.write_text(json.dumps({"gpu_name": "sm_90", "card": "H100", "date": "d", "microseconds": {"a 1": 2}}))
    table.write_text("| kernel | ours, us |\n|---|---:|\n| a 1 | 2.0 | 3.0 |\n| b 1 | - | - |\n")
    given = estimate_fit.read_times(table, "sm_90", "H100", "d")
    assert given == estimate_fit.read_times(file) and given.microseconds == {"a 1": 2.0}
    table.write_text("nothing\n")
    with pytest.raises(LibtileError, match="has no measured launch"):
        estimate_fit.read_times(table)


@pytest.mark.parametrize(("total", "count"), [(512, 8), (4096, 4), (9, 8), (7, 3), (2, 1)])
def test_a_sample_has_different_blocks_of_all_columns(total: int, count: int) -> None:
    numbers = sampled(total, count)
    assert len(set(numbers)) == count and numbers == sorted(numbers) and 0 <= numbers[0] <= numbers[-1] < total
    if total == 512:
        assert {number % 32 // 8 for number in numbers} == {0, 1, 2, 3}


def test_a_likely_time_is_there_where_launches_were_measured() -> None:
    def of(gpu_name: str) -> Estimate:
        x, y, z = (np.zeros(1024, np.float32) for _ in range(3))
        return libtile.estimate(ADD, args=[x, y, z], gpu_name=gpu_name)

    told, known = of("sm_90"), machine("sm_90").sustained
    assert known is not None and known.measured in str(told) and "likely about" in str(told)
    assert told.likely_seconds == max(told.sustained.values()) >= told.seconds
    assert told.rank == tuple(told.sustained.values()) and told.sustained["L2"] == told.traffic / known.l2
    assert all(0 < share <= 1 for share in known.shares.values())
    assert told.as_data()["measured"]["by"] == known.measured
    other = of("sm_80")
    assert other.likely_seconds is None and not other.sustained and "nothing was measured" in str(other)
    assert other.as_data()["seconds_likely"] is None and other.as_data()["measured"] is None
