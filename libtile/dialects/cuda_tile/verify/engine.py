# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Walks the IR in source order and runs the checks of each op. No recursion: nesting may be deep."""

from __future__ import annotations

from collections.abc import Callable

from libtile.bytecode.limits import REGION_DEPTH
from libtile.dialects.cuda_tile.forms import CudaTileOp
from libtile.dialects.cuda_tile.verify import (  # noqa: F401  # importing a family registers its rules
    arithmetic,
    assumptions,
    control_flow,
    functions,
    memory,
    tiles,
    views,
)
from libtile.dialects.cuda_tile.verify.declared import checks_of
from libtile.dialects.cuda_tile.verify.report import REGION_RULES, Report, Violation, fail_plain, rule_of
from libtile.dialects.cuda_tile.verify.scopes import Scopes
from libtile.dialects.cuda_tile.verify.structure import (
    check_block_end,
    check_block_start,
    check_regions,
    has_graph_region,
    is_isolated,
    is_symbol_table,
)
from libtile.dialects.cuda_tile.verify.symbols import check_symbol_use, symbols_of
from libtile.dialects.cuda_tile.verify.types import verify_type
from libtile.ir.forms import Attribute, Block, Operation
from libtile.ir.light import is_stand_in
from libtile.spec import Version, default_spec
from libtile.support.diagnostics import Diagnostic
from libtile.support.records import dataclass, field


def verify(
    op: Operation,
    text_of: Callable[[Operation], str],
    *,
    warn_hints: bool = False,
    error_hints: bool = False,
    version: Version | None = None,
) -> list[Diagnostic]:
    """Check `op` and all ops below it; the diagnostics come in the order of the ops in the source.

    `text_of` gives an op's generic form, for the diagnostics that show it (see `libtile.asm.module.diagnose`).
    `warn_hints` reports optimization hints that no target knows (a warning), `error_hints` makes these errors too.
    `version` asks for the rules of an older version of the dialect where a newer one has dropped them; a function of
    the testing versions is always checked by those of the open dialect, whose test-suite it is part of.
    Below an op that is itself invalid nothing is checked, except below a module.
    Ops of other dialects are checked for structure and use of values, and by their own verifier if they have one.
    """
    walk = _Walk(Report(text_of, warn_hints, error_hints, version or default_spec().current))
    walk.run(op)
    return walk.report.diagnostics()


def verify_alone(op: Operation, text_of: Callable[[Operation], str]) -> list[Diagnostic]:
    """Check an op without regions by itself, wherever it stands: its operands may be used, whatever they are."""
    walk = _Walk(Report(text_of, False, False, default_spec().current))
    for operand in op.operands:
        walk.scopes.define(operand)
    walk.run(op)
    return walk.report.diagnostics()


@dataclass(slots=True)
class _Op:
    """An op with regions on the stack."""

    op: Operation
    position: int = -1
    errors: int = 0
    version: Version | None = None
    """The version whose rules hold behind the op, where others hold inside."""


@dataclass(slots=True)
class _Block:
    """A block on the stack, and the op of it that comes next."""

    block: Block
    next: Operation | None
    errors: int = -1
    """Errors found when the walk came to the block."""


@dataclass(slots=True)
class _Walk:
    report: Report
    scopes: Scopes = field(default_factory=Scopes)
    count: int = 0
    types: set[int] = field(default_factory=set)
    invalid_types: set[int] = field(default_factory=set)
    symbol_users: list[list[tuple[int, CudaTileOp]]] = field(default_factory=list)

    def run(self, root: Operation) -> None:
        """Visit every op: entrance, blocks of its regions, exit. The stack holds what is still to be done."""
        stack: list[_Op | _Block] = [_Op(root)]
        while stack:
            item = stack[-1]
            if isinstance(item, _Block):
                self._continue_block(item, stack)
            elif item.position < 0:
                self._enter(item, stack)
            else:
                stack.pop()
                self._leave(item)

    def _continue_block(self, item: _Block, stack: list[_Op | _Block]) -> None:
        """Go on in a block up to its end or to the next op with regions."""
        if item.errors < 0:
            item.errors = self.report.errors
            for arg in item.block.args:  # not before: the op's other regions may not use them
                self.scopes.define(arg)
        op = item.next
        while op is not None:
            item.next = op._next_op
            if op.regions:
                stack.append(_Op(op))
                return
            self._visit(op)
            self._define_results(op)
            op = item.next
        stack.pop()
        if self.report.errors == item.errors:
            self._attempt(check_block_end, item.block, self.report)
        self.scopes.leave_block(item.block)

    def _visit(self, op: Operation) -> bool:
        """Check an op on its own; whether it is right, as far as is known."""
        self.count += 1
        self.report.position = self.count
        try:
            for result in op.results:
                self._check_type(op, result.type)
            if self.invalid_types and any(id(v.type) in self.invalid_types for v in op._operands):
                return False  # reported where the operand is defined; rules rely on valid types
            self._check(op)
            if op.regions:
                check_regions(op)
            self.scopes.check_operands(op)
        except Violation as violation:
            self.report.record(violation)
            return False
        return True

    def _enter(self, item: _Op, stack: list[_Op | _Block]) -> None:
        op = item.op
        item.errors = self.report.errors
        right = self._visit(op)
        if right and _too_deep(stack):
            self.report.record(Violation(op, f"'{op.name}' op is nested in more than {REGION_DEPTH} regions"))
            right = False
        item.position = self.count
        if not right and not is_symbol_table(op):
            stack.pop()
            self._define_results(op)
            return
        if is_isolated(op):
            self.scopes.enter_isolated()
        if is_symbol_table(op):
            self.symbol_users.append([])
        if isinstance(op, CudaTileOp) and op.spec.has_trait("function") and default_spec().is_testing_op(op.spec):
            item.version, self.report.version = self.report.version, default_spec().open_dialect
        blocks = [block for region in op.regions for block in region.blocks]
        stack.extend(_Block(block, block.first_op) for block in reversed(blocks))
        graph = has_graph_region(op)
        for block in blocks:
            self._attempt(check_block_start, block)
            for arg in block.args:
                self._attempt(self._check_type, op, arg.type)
            if graph:
                for inner in block.ops:
                    self._define_results(inner)

    def _leave(self, item: _Op) -> None:
        op = item.op
        self.report.position = item.position
        if item.version is not None:
            self.report.version = item.version
        if is_isolated(op):
            self.scopes.leave_isolated()
        if self.report.errors == item.errors:
            self._attempt(self._check_regions_of, op)
        if is_symbol_table(op):
            self._check_symbols(op)
        self._define_results(op)

    def _check_type(self, op: Operation, type_: Attribute) -> None:
        """Check a type where it first appears; the IR keeps it alive, so that its identity stands for it."""
        if id(type_) in self.types:
            return
        self.types.add(id(type_))
        message = verify_type(type_)
        if message is not None:
            self.invalid_types.add(id(type_))
            if not isinstance(op, CudaTileOp):
                raise Violation(op, f"'{op.name}' op {message}")
            fail_plain(op, message)

    def _define_results(self, op: Operation) -> None:
        for result in op.results:
            self.scopes.define(result)

    def _check(self, op: Operation) -> None:
        if not isinstance(op, CudaTileOp):
            _check_foreign(op)
            return
        spec = op.spec
        checks = checks_of(type(op))
        for check in checks.entrance:
            check(op)
        rule = rule_of(spec.name)
        if rule is not None:
            rule(op, self.report)
        if checks.uses_symbols and self.symbol_users:
            self.symbol_users[-1].append((self.count, op))

    def _check_regions_of(self, op: Operation) -> None:
        if not isinstance(op, CudaTileOp):
            return
        for check in checks_of(type(op)).exit:
            check(op)
        rule = REGION_RULES.get(op.spec.name)
        if rule is not None:
            rule(op, self.report)

    def _check_symbols(self, table: Operation) -> None:
        users = self.symbol_users.pop()
        try:
            symbols = symbols_of(table)
        except Violation as violation:
            self.report.record(violation)
            return
        for position, user in users:
            self.report.position = position
            self._attempt(check_symbol_use, user, symbols)

    def _attempt(self, check: Callable[..., None], *arguments: object) -> None:
        try:
            check(*arguments)
        except Violation as violation:
            self.report.record(violation)


def _too_deep(stack: list[_Op | _Block]) -> bool:
    """Whether the op on top of the stack is deeper in a function than a file of bytecode can say."""
    if len(stack) <= 2 * REGION_DEPTH:
        return False
    names = [item.op.name for item in stack if isinstance(item, _Op)]
    if "cuda_tile.module" not in names:
        return False
    names.reverse()
    return names.index("cuda_tile.module") - 1 > REGION_DEPTH


def _check_foreign(op: Operation) -> None:
    """Run the verifier that another dialect's op has. What stands for ops that are checked elsewhere has none."""
    if is_stand_in(op):
        return
    from libtile.ir.foreign_checks import broken_rule

    said = broken_rule(op)
    if said is not None:
        raise Violation(op, f"'{op.name}' op {said}")
