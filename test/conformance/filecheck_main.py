# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`FileCheck` by the `filecheck` package, with `CHECK-NOT` as LLVM has it.

Between two matches, LLVM looks for the excluded text up to where the second begins; the package looks up to where it
ends. A test of the open suite excludes `if` in front of a line that holds the word.
"""

from __future__ import annotations

import sys

from filecheck.compiler import compile_uops
from filecheck.error import CheckError
from filecheck.finput import FInput, InputRange
from filecheck.matcher import Matcher
from filecheck.ops import CheckOp
from filecheck.options import parse_argv_options
from filecheck.parser import Parser


class LlvmMatcher(Matcher):
    """Remembers where an op's (first) match begins, and ends the search for excluded text there."""

    _begin: int | None = None

    def _pre_check(self, op: CheckOp) -> None:
        self._begin = None
        super()._pre_check(op)

    def _matched(self, op: CheckOp, immediately: bool) -> None:
        pattern, captures = compile_uops(op, self.ctx.live_variables, self.opts)
        found = self.file.match(pattern) if immediately else self.file.find(pattern, op.name == "SAME")
        if found is None:
            raise CheckError(f'Couldn\'t match "{op.arg}".', op)
        if self._begin is None:
            self._begin = found.start()
        self.file.move_to(found.end())
        self.capture_results(found, captures, op)

    def match_immediately(self, op: CheckOp) -> None:
        self._matched(op, immediately=True)

    def match_eventually(self, op: CheckOp) -> None:
        self._matched(op, immediately=False)

    def _post_check(self, op: CheckOp) -> None:
        start = self.ctx.negative_matches_start
        if start is not None and self._begin is not None:
            for check in self.ctx.negative_matches_stack:
                self.check_not(check, InputRange(start, self._begin))
            self.ctx.negative_matches_start = None
            self.ctx.negative_matches_stack = []
        super()._post_check(op)


def main() -> int:
    options = parse_argv_options(sys.argv)
    return LlvmMatcher(options, FInput.from_opts(options), Parser.from_opts(options)).run()


if __name__ == "__main__":
    sys.exit(main())
