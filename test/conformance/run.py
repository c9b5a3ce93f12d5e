# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the open project's test-suite with this project's tools and prints a table.

    python test/conformance/run.py PATH [--filter REGEX] [--verbose] [-j N]

PATH is a checkout of https://github.com/NVIDIA/cuda-tile. Exit status: 0 when every test passed, 1 when one did not,
2 when PATH is not such a checkout.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance import suite


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests of NVIDIA/cuda-tile with this project's tools.")
    parser.add_argument("path", type=Path, help="a checkout of NVIDIA/cuda-tile")
    parser.add_argument("--filter", default="", help="only tests whose path matches this regular expression")
    parser.add_argument("--verbose", action="store_true", help="print the output of failing tests")
    parser.add_argument("-j", type=int, default=2, metavar="N", help="tests at a time (default: 2)")
    options = parser.parse_args()
    try:
        results = suite.run(options.path, options.filter, options.j)
    except suite.SuiteError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    width = max((len(result.name) for result in results), default=0)
    for result in results:
        print(f"{result.name:{width}}  {result.code:10}  {result.seconds:6.2f} s")
        if options.verbose and not result.passed:
            print(result.output)
    for folder, reason in suite.EXCLUDED.items():
        print(f"{folder + '/**':{width}}  not run     {reason}")
    failed = sum(not result.passed for result in results)
    print(f"{len(results) - failed} of {len(results)} tests passed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
