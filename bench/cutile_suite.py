# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tests of NVIDIA/cutile-python, unmodified, with no GPU: what passes, what fails, what is skipped and why.

    CUTILE_PYTHON=CHECKOUT python bench/cutile_suite.py run [--backend simulator] [--gpu sm_90] [FILE ...] --to RESULTS
    python bench/cutile_suite.py table RESULTS              what docs/cutile-suite.md has
    python bench/cutile_suite.py failures RESULTS           each kind of failure with a test that has it

`run` runs each file of the checkout's `test` and `samples` folders in a process of its own, through the plugin
(`pytest --cutile-backend`), and writes one JSON line for each test to RESULTS as it ends; a file that is there is not
run again, so that a sweep can be interrupted. `--limit` is the time for one file, and `--every N` takes each N-th of
the parameters of a test (the first always). `table` sums results up; `cutile_suite.toml` says which failures are not
libtile's, and why. Needs torch, pytest-benchmark and pytest-env beside the extra `test`.

The module is also the plugin of pytest that writes the lines.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "CUTILE_PYTHON"
BENCHMARKS = "bench_*.py"  # timings of CUDA kernels: there is nothing to time

LARGE = "int64_index"  # tests of arrays of 4 GiB, which cuTile's own CI leaves out where memory is short

CAUSES = Path(__file__).with_suffix(".toml")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options that `run` gives."""
    parser.addoption("--suite-results", default=None)
    parser.addoption("--suite-every", type=int, default=1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take each N-th item of each test function."""
    every = config.getoption("suite_every")
    seen: Counter[str] = Counter()
    kept = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        if seen[name] % every == 0:
            kept.append(item)
        seen[name] += 1
    left_out = len(items) - len(kept)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept
    _write(config, {"collected": len(items), "left_out": left_out})


_outcomes: dict[str, dict[str, Any]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the outcome of a test: that of its worst phase."""
    entry = _outcomes.setdefault(report.nodeid, {"test": report.nodeid, "outcome": "passed", "why": "", "seconds": 0.0})
    entry["seconds"] = round(entry["seconds"] + report.duration, 2)
    if report.outcome == "passed" and not hasattr(report, "wasxfail"):
        return
    if hasattr(report, "wasxfail"):
        entry["outcome"], entry["why"] = ("xfailed" if report.skipped else "xpassed"), str(report.wasxfail)
    elif report.skipped:
        entry["outcome"] = "skipped"
        longrepr = report.longrepr
        entry["why"] = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr).removeprefix("Skipped: ")
    else:
        entry["outcome"] = "failed"
        crash = getattr(report.longrepr, "reprcrash", None)
        entry["why"] = str(crash.message if crash is not None else report.longrepr)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid: str) -> None:
    """A line for the test."""
    _write(_config, _outcomes.pop(nodeid))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported, or that is skipped as a whole."""
    if report.outcome != "passed" and report.nodeid:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        why = str(why).removeprefix("Skipped: ")
        _write(_config, {"test": report.nodeid, "outcome": report.outcome, "why": why.strip(), "seconds": 0.0})


_config: pytest.Config


def pytest_configure(config: pytest.Config) -> None:
    """Keep the configuration for the hooks that are given none."""
    global _config
    _config = config


def _write(config: pytest.Config, entry: dict[str, Any]) -> None:
    if path := config.getoption("suite_results"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def run(checkout: Path, given: argparse.Namespace) -> None:
    """Run the files, one after another."""
    given.to.mkdir(parents=True, exist_ok=True)
    files = [checkout / name for name in given.files] or [
        *sorted((checkout / "test").glob("test_*.py")),
        *sorted((checkout / "test").glob(BENCHMARKS)),
        checkout / "samples" / "test_samples.py",
    ]
    for file in files:
        path = given.to / f"{given.backend}-{given.gpu}-{file.stem}.jsonl"
        if path.exists() or (file.match(BENCHMARKS) and not given.files):
            continue
        started = time.monotonic()
        part = path.with_suffix(".part")
        part.unlink(missing_ok=True)
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "cutile_suite",
            "-k", f"not {LARGE}", f"--cutile-backend={given.backend}", f"--cutile-gpu={given.gpu}",
            f"--suite-results={part.resolve()}", f"--suite-every={given.every}", file.name,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent)}
        with path.with_suffix(".log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=file.parent, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                status = process.wait(given.limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = None
        seconds = round(time.monotonic() - started, 1)
        with part.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"ended": status, "seconds": seconds, "every": given.every}) + "\n")
        part.rename(path)
        print(file.name, "exit status", status, seconds, "s", flush=True)


def outcomes(lines: Iterable[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The outcomes of the tests of a file, and what is known of the file as a whole."""
    tests, whole = [], {}
    for line in lines:
        entry = json.loads(line)
        if "test" in entry:
            tests.append(entry)
        else:
            whole.update(entry)
    return tests, whole


def cause_of(test: dict[str, Any]) -> str | None:
    """Why a failure is not libtile's, by `cutile_suite.toml`; None when nothing there says so."""
    for cause in tomllib.loads(CAUSES.read_text(encoding="utf-8"))["cause"]:
        if re.search(cause["test"], test["test"]) and re.search(cause.get("says", ""), test["why"]):
            return str(cause["why"])
    return None


def table(results: Path) -> str:
    """The results of a folder as Markdown."""
    runs: dict[tuple[str, str], dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]] = defaultdict(dict)
    for path in sorted(results.glob("*.jsonl")):
        backend, gpu, name = path.stem.split("-", 2)
        runs[backend, gpu][name] = outcomes(path.read_text().splitlines())
    parts = []
    for (backend, gpu), files in runs.items():
        rows = [
            "| file | passed | failed: libtile's | failed: others' | skipped | why |",
            "|---|---:|---:|---:|---:|---|",
        ]
        total: Counter[str] = Counter()
        for name, (tests, whole) in files.items():
            counts: Counter[str] = Counter()
            why: Counter[str] = Counter()
            for test in tests:
                outcome, reason = test["outcome"], " ".join(test["why"].splitlines()[:1])
                if outcome == "failed" and (found := cause_of(test)):
                    outcome, reason = "others", found
                counts[{"xfailed": "skipped"}.get(outcome, outcome)] += 1
                if outcome != "passed":
                    why[reason[:200]] += 1
            total += counts
            notes = [f"{reason.replace('|', '/')} ({count})" for reason, count in why.most_common()]
            if whole["ended"] is None or whole["ended"] < 0:
                notes.insert(0, "ended before all tests had run: the time limit")
            cells = [str(counts[key]) for key in ("passed", "failed", "others", "skipped")]
            rows.append(f"| {name} | {' | '.join(cells)} | {'; '.join(notes)} |")
        cells = [str(total[key]) for key in ("passed", "failed", "others", "skipped")]
        rows.append(f"| all {len(files)} files | {' | '.join(cells)} | |")
        parts.append(f"## The {backend}, {gpu}\n\n" + "\n".join(rows))
    return "\n\n".join(parts) + "\n"


def failures(results: Path) -> None:
    """Print each kind of failure with an example and the number of tests that have it."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for path in sorted(results.glob("*.jsonl")):
        for test in outcomes(path.read_text().splitlines())[0]:
            if test["outcome"] == "failed":
                kinds[f"{path.stem}: {test['why'][:300]}"].append(test["test"])
    for why, tests in kinds.items():
        print(f"{len(tests)} x {why}\n    {tests[0]}")


def main() -> None:
    """See the head of the file."""
    parser = argparse.ArgumentParser(description="The tests of NVIDIA/cutile-python with no GPU.")
    actions = parser.add_subparsers(dest="action", required=True)
    running = actions.add_parser("run")
    running.add_argument("files", nargs="*", help="files in the checkout; all without")
    running.add_argument("--backend", choices=("interpreter", "simulator"), default="interpreter")
    running.add_argument("--gpu", default="sm_90")
    running.add_argument("--limit", type=float, default=900.0, help="seconds for a file")
    running.add_argument("--every", type=int, default=1)
    running.add_argument("--to", type=Path, required=True)
    for name in ("table", "failures"):
        actions.add_parser(name).add_argument("results", type=Path)
    given = parser.parse_args()
    if given.action == "run":
        checkout = os.environ.get(VARIABLE)
        if not checkout:
            parser.error(f"{VARIABLE} names the checkout of NVIDIA/cutile-python")
        run(Path(checkout), given)
    elif given.action == "table":
        print(table(given.results), end="")
    else:
        failures(given.results)


if __name__ == "__main__":
    main()
