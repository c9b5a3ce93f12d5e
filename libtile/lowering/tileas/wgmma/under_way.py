# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many registers of a thread the results of a step's products take at once, where they are issued as soon as what
they take is there.

    s = dot k, q           1     s and t are under way together
    t = dot v, g           1
    d' = dot f(s), g, d    2     d' and e' are, which the loop carries, with u; s and t have been computed on
    e' = dot h(s, t), q, e 2
    u = dot h(s, t)^T, k   2

A product is as deep as the longest chain of products that it waits for. The results of one depth are under way at once,
with those of lesser depths of which something is computed beside a deeper one, or which such a one is added to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block, Operation, SSAValue

from libtile.dialects.nv_tileas.products import DotOp
from libtile.ir.places import uses_of
from libtile.lowering.tileas.agents.consumers import tile_registers
from libtile.lowering.tileas.agents.step_chains import StepProduct


def registers_under_way(body: Block, products: Sequence[StepProduct]) -> int:
    """Registers of a thread that the results of a loop's products take, and what is computed of them, while most of
    them are under way. Sums that the loop carries take theirs in all of its steps."""
    depths, dots = _Depths(body, products), [product.op for product in products]
    begun = [[*_sum(op)] for op in dots if op.c.owner not in dots]
    carried = [values for values in begun if depths.is_carried(values)]
    kept = sum(tile_registers(first) for first, *_ in carried)
    sums = {value for values in carried for value in values}
    most = max((depths.of(op.result) for op in dots), default=0)
    at_once = [0] * (most + 1)
    for value, first, last in depths.lives():
        if value not in sums:
            for depth in range(first, last + 1):
                at_once[depth] += tile_registers(value)
    return kept + max(at_once)


def early_operands(body: Block, products: Sequence[StepProduct]) -> list[StepProduct]:
    """The products that read a left operand from registers which waits for no product: all of these are computed as a
    step begins, and stay in registers beside the results of products until those that read them have ended."""
    depths = _Depths(body, products)
    return [product for product in products if product.a is None and not depths.of(product.op.a)]


def _sum(op: DotOp) -> Iterator[SSAValue]:
    """What has the registers of a product's sum, which other products add to."""
    yield op.result
    for use in op.result.uses:
        if isinstance(use.operation, DotOp) and use.operation.c is op.result:
            yield from _sum(use.operation)


class _Depths:
    """How many products one after the other each value of a loop's body waits for."""

    def __init__(self, body: Block, products: Sequence[StepProduct]):
        self.body, self.products = body, {product.op for product in products}
        self.from_registers = {product.op for product in products if product.a is None}
        self._of: dict[Operation, int] = {}
        for op in body.ops:
            self._of[op] = self._depth(op)

    def _depth(self, op: Operation) -> int:
        if not isinstance(op, DotOp) or op not in self.products:
            return max(map(self.of, uses_of(op)), default=0)
        before = max(self.of(op.a), self.of(op.b)) + 1
        return max(before, self.of(op.c) + (op.c.owner not in self.products))

    def of(self, value: SSAValue) -> int:
        """The depth of a value: 0 for what waits for no product."""
        owner = value.owner
        return self._of.get(owner, 0) if isinstance(owner, Operation) else 0

    def is_carried(self, values: Sequence[SSAValue]) -> bool:
        """Whether a sum, as it is when products have added to it, goes on in the next step."""
        return any(use.operation is self.body.last_op for value in values for use in value.uses)

    def lives(self) -> Iterator[tuple[SSAValue, int, int]]:
        """The tiles that wait for products, with the depths of products beside which their registers are taken: of a
        product's result from its own on, of what is computed of one from the next one on."""
        for op in self.body.ops:
            if op is self.body.last_op or not self._of[op]:
                continue
            for value in op.results:
                first = self._of[op] + (op not in self.products)
                last = max((self._beside(use.operation, value) for use in value.uses), default=0)
                yield value, first, max(last, self._of[op]) if op in self.products else last

    def _beside(self, user: Operation, value: SSAValue) -> int:
        """The depth of the products beside which an op of the body, or one that holds this one, takes a value."""
        while user.parent is not self.body:
            around = user.parent_op()
            if around is None:
                return 0
            user = around
        if isinstance(user, DotOp) and user in self.products:
            # Its sum goes on in the same registers, and what it reads lies in shared memory, or in registers.
            return self._of[user] if value is user.a and user in self.from_registers else self._of[user] - 1
        return self._of.get(user, 0)
