# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of other projects that launch cuTile kernels, on a machine with no GPU: what passes, file by file.

    CUTILE_PYTHON=CHECKOUT python bench/cutile_suite.py run [--backend simulator] [--gpu sm_90] [FILE ...] --to RESULTS
    TILEGYM=CHECKOUT python bench/cutile_suite.py run --suite tilegym [--smallest 2] --to RESULTS
    python bench/cutile_suite.py table RESULTS              what docs/cutile-suite.md has
    python bench/cutile_suite.py failures RESULTS           each kind of failure with a test that has it

`run` runs the tests of a checkout through the plugin (`pytest --cutile-backend`), and writes one JSON line for each
test to a file of RESULTS as it ends; `cutile_suite.toml` says which files those of a suite are, and which environment
variable names the checkout. What is there is not run again, so that a sweep can be interrupted and goes on where it
was. `--limit` is the time for all, `--test-limit` that for one test. `--every N` takes each N-th of the parameters of a
test (the first always), `--smallest N` the N whose numbers have the smallest products. Each sixteenth of a test's
parameters comes first, of all files, then those halfway between, and so on, so that a sweep that ends at its limit has
run an even sample. `table` sums results up; `cutile_suite.toml` says which failures are not libtile's, and why. Needs
torch beside the extra `test`, pytest-benchmark and pytest-env for cuTile's own tests, and transformers for TileGym's.

The module is also the plugin of pytest that writes the lines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

KNOWN = Path(__file__).with_suffix(".toml")
"""The suites, and which failures of theirs are not libtile's."""


class TooLong(BaseException):
    """A test ran past its limit; no `except Exception` of a test takes it for its own."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options that `run` gives."""
    parser.addoption("--suite-results", default=None)
    parser.addoption("--suite-every", type=int, default=1)
    parser.addoption("--suite-smallest", type=int, default=0)
    parser.addoption("--suite-test-limit", type=float, default=0.0)


STRIDE = 16  # every sixteenth of a function's parameters first


def turn_of(index: int) -> int:
    """When the parameters of a number come: 0 for each sixteenth, then 1 for those halfway between, up to 4."""
    return next(turn for turn in range(5) if index % (STRIDE >> turn) == 0)


@pytest.hookimpl(trylast=True)  # behind what -k leaves
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take each N-th item of each test function, or its N smallest, an even sample first, and leave out what has been
    run before."""
    every, smallest = config.getoption("suite_every"), config.getoption("suite_smallest")
    among = _smallest(items, smallest) if smallest else set(items)
    seen: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    turns: list[tuple[int, pytest.Item]] = []
    recorded = {path: _recorded(config, path) for path in {_file_of(item.nodeid) for item in items}}
    for item in items:
        name, path = item.nodeid.partition("[")[0], _file_of(item.nodeid)
        done, cut_short = recorded[path]
        if item not in among:
            continue
        if seen[name] % every == 0:
            asked[path] += 1
            if item.nodeid not in done:
                turns.append((99 if item.nodeid in cut_short else turn_of(seen[name] // every), item))
        seen[name] += 1
    for path, count in asked.items():
        _write(config, path, {"asked": count, "every": every, "smallest": smallest})
    turns.sort(key=lambda pair: pair[0])
    kept = {item for _, item in turns}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for _, item in turns]


def _smallest(items: list[pytest.Item], count: int) -> set[pytest.Item]:
    """Of each test function the items whose parameters have the smallest products of their numbers."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    return {item for of in functions.values() for item in sorted(of, key=_size_of)[:count]}


def _size_of(item: pytest.Item) -> int:
    """The product of the numbers among an item's parameters, those in their containers and texts included."""
    return math.prod(int(number) for number in re.findall(r"\b[1-9]\d*\b", item.nodeid.partition("[")[2]))


def _file_of(nodeid: str) -> str:
    """The name of a test's file: its path below the first folder, with dots, and without the ending."""
    path = Path(nodeid.partition("::")[0]).with_suffix("")
    return ".".join(path.parts[1:] or path.parts)


def _recorded(config: pytest.Config, file: str) -> tuple[set[str], set[str]]:
    """The tests of a file whose outcome an earlier run has written, and those during which it was ended."""
    path = _results(config, file)
    if path is None or not path.exists():
        return set(), set()
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    done = {entry["test"] for entry in entries if "test" in entry}
    return done, {entry["begun"] for entry in entries if "begun" in entry} - done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """End a test that runs past its limit."""

    def end(*_: object) -> None:
        raise TooLong(f"ran for more than {limit:g} s")

    limit = item.config.getoption("suite_test_limit")
    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, limit, 5.0 if limit else 0.0)  # again, where a finalizer swallowed the first
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_runtest_logstart(nodeid: str) -> None:
    """A line for a test that begins: where the process is ended, the next run has it last."""
    _write(_config, _file_of(nodeid), {"begun": nodeid})


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
    _write(_config, _file_of(nodeid), _outcomes.pop(nodeid))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported, or that is skipped as a whole."""
    if report.outcome != "passed" and report.nodeid:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        why = str(why).removeprefix("Skipped: ")
        entry = {"test": report.nodeid, "outcome": report.outcome, "why": why.strip(), "seconds": 0.0}
        if report.nodeid not in _recorded(_config, _file_of(report.nodeid))[0]:
            _write(_config, _file_of(report.nodeid), entry)


_config: pytest.Config


def pytest_configure(config: pytest.Config) -> None:
    """Keep the configuration for the hooks that are given none."""
    global _config
    _config = config


def _results(config: pytest.Config, file: str) -> Path | None:
    """Where the lines of a file go: the option's value with the file's name behind it."""
    start = config.getoption("suite_results")
    return None if start is None else Path(f"{start}-{file}.jsonl")


def _write(config: pytest.Config, file: str, entry: dict[str, Any]) -> None:
    path = _results(config, file)
    if path is not None:
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")


def known() -> dict[str, Any]:
    """What `cutile_suite.toml` says."""
    return tomllib.loads(KNOWN.read_text(encoding="utf-8"))


def run(checkout: Path, suite: dict[str, Any], given: argparse.Namespace) -> int | None:
    """Run the files; pytest's exit status, or None where they ran to the limit."""
    given.to.mkdir(parents=True, exist_ok=True)
    listed = (path.relative_to(checkout) for glob in suite["files"] for path in sorted(checkout.glob(glob)))
    files = given.files or list(map(str, listed))
    start = given.to.resolve() / f"{given.backend}-{given.gpu}"
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "cutile_suite", "-k", suite["choose"],
        "--continue-on-collection-errors", f"--cutile-backend={given.backend}", f"--cutile-gpu={given.gpu}",
        f"--suite-results={start}", f"--suite-every={given.every}", f"--suite-smallest={given.smallest}",
        f"--suite-test-limit={given.test_limit}", *files,
    ]  # fmt: skip
    own = [str(Path(__file__).resolve().parent), *(str(checkout.resolve() / folder) for folder in suite["path"])]
    folders = [*own, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    with Path(f"{start}.log").open("a") as log:
        process = subprocess.Popen(
            command, cwd=checkout, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            return process.wait(given.limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise


def outcomes(lines: Iterable[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The outcomes of the tests of a file, and what is known of the file as a whole."""
    tests, whole = [], {}
    for line in lines:
        entry = json.loads(line)
        if "test" in entry:
            tests.append(entry)
        elif "begun" not in entry:
            whole.update(entry)
    return tests, whole


def cause_of(test: dict[str, Any]) -> str | None:
    """Why a failure is not libtile's, by `cutile_suite.toml`; None when nothing there says so."""
    for cause in known()["cause"]:
        if re.search(cause["test"], test["test"]) and re.search(cause.get("says", ""), test["why"]):
            return str(cause["why"])
    return None


COUNTED = ("passed", "failed", "others", "skipped")


def counted(tests: Iterable[dict[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """How many tests ended how (`failed`: libtile is at fault, `others`: it is not), and why they did not pass."""
    counts: Counter[str] = Counter()
    why: Counter[str] = Counter()
    for test in tests:
        outcome, reason = test["outcome"], " ".join(test["why"].splitlines()[:1])
        if outcome == "failed" and (found := cause_of(test)):
            outcome, reason = "others", found
        counts[{"xfailed": "skipped"}.get(outcome, outcome)] += 1
        if outcome != "passed":
            why[SHORTER.get(reason, reason)[:200].replace("|", "/")] += 1
    return counts, why


SHORTER = {
    "could not import 'cuda.tile_internal._internal_cext': No module named 'cuda.tile_internal'": (
        "needs NVIDIA's internal extension"
    ),
}


def table(results: Path) -> str:
    """The results of a folder as Markdown: a row for each file, a column for each run."""
    runs: dict[str, dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]] = defaultdict(dict)
    asked: Counter[str] = Counter()
    for path in sorted(results.glob("*.jsonl")):
        backend, gpu, name = path.stem.split("-", 2)
        found = runs[f"{backend}, {gpu}"][name] = outcomes(path.read_text(encoding="utf-8").splitlines())
        asked[name] = max(asked[name], found[1].get("asked", 0), len(found[0]))
    rows = [
        f"| file | tests | {' | '.join(runs)} | why |",
        f"|---|---:|{'---:|' * len(runs)}---|",
    ]
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for name in sorted(asked):
        cells, reasons = [], Counter[str]()
        for run, files in runs.items():
            counts, why = counted(files[name][0]) if name in files else (Counter[str](), Counter[str]())
            totals[run] += counts
            reasons |= why
            cells.append(_cell(counts))
        notes = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
        rows.append(f"| {name} | {asked[name]} | {' | '.join(cells)} | {notes} |")
    whole = " | ".join(_cell(counts) for counts in totals.values())
    rows.append(f"| all {len(asked)} files | {asked.total()} | {whole} | |")
    return "\n".join(rows) + "\n"


def _cell(counts: Counter[str]) -> str:
    """What passed, then libtile's failures, others', and what was skipped, where there are any."""
    parts = [f"{counts[key]} {key}" for key in COUNTED[1:] if counts[key]]
    return ", ".join([str(counts["passed"]), *parts]) if counts.total() else "-"


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
    parser = argparse.ArgumentParser(description="Tests of cuTile kernels with no GPU.")
    actions = parser.add_subparsers(dest="action", required=True)
    suites = known()["suite"]
    running = actions.add_parser("run")
    running.add_argument("--suite", choices=tuple(suites), default="cutile-python")
    running.add_argument("files", nargs="*", help="files in the checkout; all without")
    running.add_argument("--backend", choices=("interpreter", "simulator", "gpu"), default="interpreter")
    running.add_argument("--gpu", default="sm_90")
    running.add_argument("--limit", type=float, default=3600.0, help="seconds for all files")
    running.add_argument("--test-limit", type=float, default=120.0, help="seconds for a test")
    running.add_argument("--every", type=int, default=1)
    running.add_argument("--smallest", type=int, default=0, help="of each test so many, those of the smallest numbers")
    running.add_argument("--to", type=Path, required=True)
    for name in ("table", "failures"):
        actions.add_parser(name).add_argument("results", type=Path)
    given = parser.parse_args()
    if given.action == "run":
        suite = suites[given.suite]
        checkout = os.environ.get(suite["variable"])
        if not checkout:
            parser.error(f"{suite['variable']} names the checkout of {suite['repository']}")
        status = run(Path(checkout), suite, given)
        print("ended at the limit" if status is None else f"exit status {status}")
    elif given.action == "table":
        print(table(given.results), end="")
    else:
        failures(given.results)


if __name__ == "__main__":
    main()
