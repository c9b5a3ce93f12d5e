# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the loops of a plan.

%r = for %i in (0 to n, step 1) iter_values(%acc = identity, ...) {
  %x = load of piece i                       // what the sinks' slices hold, on pieces of tiles
  store of piece i
  %s = reduce %x                             // of the piece; combined with what was carried
  continue select(i == 0, %s, body(%acc, %s)), ...
}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from libtile.dialects.cuda_tile.attributes import BoundedAttr, DenseElementsAttr, DivByAttr, element_storage_bytes
from libtile.dialects.cuda_tile.ops import CudaTileOp, build
from libtile.dialects.cuda_tile.types import (
    NUMBER_NAMES,
    PointerType,
    TileType,
    TokenType,
    bit_width,
    i1,
    i32,
    i64,
    tile_shape,
)
from libtile.ir.locations import set_location
from libtile.lowering.strip_mine.cuts import (
    ACCESSES,
    Dim,
    domain_dim,
    mnemonic,
    operand_dims,
    result_dims,
)
from libtile.lowering.strip_mine.plan import Loop, Plan, Sink
from libtile.lowering.strip_mine.slices import Cut
from libtile.lowering.strip_mine.views import PieceViews
from libtile.numerics.float_bits import encode

INDEX = TileType((), i32)


def cut_type(type_: Attribute, dim: Dim, pieces: int) -> Attribute:
    """The type of a piece of a tile."""
    if dim is None or not isinstance(type_, TileType):
        return type_
    shape = list(type_.shape)
    shape[dim] //= pieces
    return TileType(shape, type_.element_type)


class Tokens:
    """The tokens that stand for accesses behind the loops that do them."""

    def __init__(self) -> None:
        self.behind: dict[Operation, list[SSAValue]] = {}


class PieceLoop:
    """Makes one loop: `ops` are what stands in its place, and `results` what stands for results of sinks.

    What it makes refers to values of the block as it was.
    """

    def __init__(self, whole_plan: Plan, plan: Loop, tokens: Tokens):
        self.pieces = plan.pieces
        self.reverse = plan.reverse
        self.tokens = tokens
        self._order = whole_plan.order
        self.results: dict[SSAValue, SSAValue] = {}
        self.ops: list[Operation] = []
        self.location: Attribute = plan.sinks[0].op.location
        self.body = Block(arg_types=[INDEX])
        self._block = self.body
        self.number = self.body.args[0]
        self._plan = plan
        self._extracted = {key for sink in plan.sinks for key in sink.slice.extracted}
        self._cuts_of: dict[Operation, dict[Cut, None]] = {}
        for cut in (cut for sink in plan.sinks for cut in sink.accesses()):
            self._cuts_of.setdefault(cut[0], {})[cut] = None
        others = (sink for loop in whole_plan.loops if loop is not plan for sink in loop.sinks)
        self._users = whole_plan.live | {op for sink in others for op, _ in sink.accesses()}
        """The ops whose tokens come from outside of the loop."""
        self._first: SSAValue | None = None
        self._views = PieceViews(self)
        self._done: dict[Cut, list[SSAValue]] = {}
        self._parts: dict[tuple[SSAValue, int], SSAValue] = {}
        self._constants: dict[tuple[Attribute, int], SSAValue] = {}
        self._carried: list[tuple[SSAValue, SSAValue, SSAValue]] = []
        """Of each carried value: the first one, the argument, the next one."""
        self._make()

    # -- making ops ---------------------------------------------------------------------------------------------------

    def inside(self, op: Operation) -> list[SSAValue]:
        """Put an op at the end of the body."""
        set_location(op, self.location)
        self._block.add_op(op)
        return list(op.results)

    @contextmanager
    def within(self, block: Block) -> Iterator[None]:
        """Put what belongs into the body into another block, inside of it."""
        outer, self._block = self._block, block
        yield
        self._block = outer

    def outside(self, op: Operation) -> SSAValue:
        """Put an op in front of the loop; its first result."""
        set_location(op, self.location)
        self.ops.append(op)
        return op.results[0]

    def one(
        self,
        name: str,
        operands: Mapping[str, SSAValue | Sequence[SSAValue] | None],
        type_: Attribute,
        **attributes: Any,
    ) -> SSAValue:
        """Put an op with one result into the body, by its mnemonic."""
        return self.inside(build(name, operands, [type_], attributes))[0]

    def constant(self, value: int, type_: TileType = INDEX) -> SSAValue:
        """A splat of a bit pattern, in front of the loop."""
        key = type_, value
        if key not in self._constants:
            raw = value.to_bytes(element_storage_bytes(type_.element_type), "little")
            self._constants[key] = self._constant(DenseElementsAttr(type_, raw))
        return self._constants[key]

    def _constant(self, value: DenseElementsAttr) -> SSAValue:
        return self.outside(build("constant", {}, [value.type], {"value": value}))

    def carry(self, first: SSAValue) -> SSAValue:
        """A carried value that starts as `first`; `carry_on` says what it is next."""
        return self.body.insert_arg(first.type, len(self.body.args))

    def carry_on(self, first: SSAValue, argument: SSAValue, following: SSAValue) -> int:
        """The number of the loop's result that a carried value ends as; in the order of `carry`."""
        self._carried.append((first, argument, following))
        return len(self._carried) - 1

    def spread(self, scalar: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A scalar as a tile of a shape."""
        if not shape:
            return scalar
        assert isinstance(scalar.type, TileType)
        element = scalar.type.element_type
        ones = self.one("reshape", {"source": scalar}, TileType((1,) * len(shape), element))
        return self.one("broadcast", {"source": ones}, TileType(shape, element))

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        ends: list[tuple[SSAValue, int]] = []
        zero, one, count = self.constant(0), self.constant(1), self.constant(self.pieces)
        self.position: SSAValue = self.number
        if self.reverse:
            last = self.constant(self.pieces - 1)
            self.position = self.one("subi", {"lhs": last, "rhs": self.number}, INDEX)
        cuts = {cut for sink in self._plan.sinks for cut in sink.slice.cuts}
        for cut in sorted(cuts, key=lambda c: (self._order[c[0]], c[1])):  # so that no chain is followed recursively
            self.cut(*cut)
        for sink in self._plan.sinks:
            self.location = sink.op.location
            ends += self._sink(sink)
        tokens = self._token_ends()
        self.inside(build("continue", {"operands": [following for *_, following in self._carried]}))
        loop = build(
            "for",
            {"lowerBound": zero, "upperBound": count, "step": one, "initValues": [f for f, *_ in self._carried]},
            [first.type for first, *_ in self._carried],
            regions=[Region(self.body)],
        )
        set_location(loop, self._plan.sinks[0].op.location)
        self.ops.append(loop)
        for value, number in ends:
            self.results[value] = loop.results[number]
        for op, number in tokens:
            self.tokens.behind.setdefault(op, []).append(loop.results[number])

    def _sink(self, sink: Sink) -> list[tuple[SSAValue, int]]:
        """Work through a piece of a sink; its results with the numbers of the loop's."""
        if sink.value is not None:
            return [(sink.value, self._put_together(sink, sink.value))]
        results = self.cut(sink.op, sink.dim)
        if not sink.reduces:
            return []
        firsts = self._identities(sink.op, [r.type for r in results])
        arguments = [self.carry(first) for first in firsts]
        following = self._combined(sink.op, arguments, results, tile_shape(results[0]), self.reverse)
        numbers = [self.carry_on(*each) for each in zip(firsts, arguments, following)]
        return list(zip(sink.op.results, numbers))

    def _put_together(self, sink: Sink, value: SSAValue) -> int:
        assert isinstance(value, OpResult) and isinstance(value.type, TileType)
        at = result_dims(sink.op, sink.dim)[value.index]
        assert at is not None
        part = self.piece(value, at)
        first = self._anything(value.type)
        argument = self.carry(first)
        indices = [self.position if d == at else self.constant(0) for d in range(value.type.rank)]
        whole = self.one("insert", {"source": part, "destination": argument, "indices": indices}, value.type)
        return self.carry_on(first, argument, whole)

    def _anything(self, type_: TileType) -> SSAValue:
        """Some tile of a type, in front of the loop."""
        if not isinstance(type_.element_type, PointerType):
            return self.constant(0, type_)
        address = self.constant(0, TileType(type_.shape, i64))
        return self.outside(build("int_to_ptr", {"source": address}, [type_]))

    def _token_ends(self) -> list[tuple[CudaTileOp, int]]:
        """Carry the tokens of accesses that somebody behind the loop may ask for."""
        ends = []
        joins = self._joins_used_behind()
        for (op, _), results in list(self._done.items()):
            if mnemonic(op) not in ACCESSES or not self._is_used_behind(op.results[-1], joins):
                continue
            self.location = op.location
            token = results[-1]
            first = self.outside(build("make_token", {}, [TokenType()]))
            argument = self.carry(first)
            joined = self.one("join_tokens", {"tokens": [argument, token]}, TokenType())
            ends.append((op, self.carry_on(first, argument, joined)))
        return ends

    def _joins_used_behind(self) -> set[Operation]:
        found: set[Operation] = set()
        for op in reversed(self._order):
            if mnemonic(op) == "join_tokens" and self._is_used_behind(op.results[0], found):
                found.add(op)
        return found

    def _is_used_behind(self, token: SSAValue, joins: set[Operation]) -> bool:
        """Whether somebody outside of the loop takes a token, be it through one of `joins`."""
        users = (use.operation for use in token.uses)
        return any(op in joins if mnemonic(op) == "join_tokens" else op in self._users for op in users)

    # -- pieces -------------------------------------------------------------------------------------------------------

    def piece(self, value: SSAValue, dim: int) -> SSAValue:
        """A piece of a tile of the block, in the body."""
        if (value, dim) not in self._parts:
            if (value, dim) in self._extracted:
                self._parts[value, dim] = self._extract(value, dim, self.position)
            else:
                op = value.owner
                assert isinstance(value, OpResult) and isinstance(op, CudaTileOp)
                results = self.cut(op, domain_dim(op, dim))
                self._parts[value, dim] = results[value.index]
        return self._parts[value, dim]

    def _extract(self, value: SSAValue, dim: int, position: SSAValue, pieces: int | None = None) -> SSAValue:
        type_ = cut_type(value.type, dim, pieces or self.pieces)
        indices = [position if d == dim else self.constant(0) for d in range(len(tile_shape(value)))]
        return self.one("extract", {"source": value, "indices": indices}, type_)

    def cut(self, op: CudaTileOp, dim: int) -> list[SSAValue]:
        """The op on a piece: its results."""
        if (op, dim) not in self._done:
            operands = [
                self._token(v) if isinstance(v.type, TokenType) else v if at is None else self.piece(v, at)
                for v, at in zip(op.operands, operand_dims(op, dim), strict=True)
            ]
            outer, self.location = self.location, op.location
            self._done[op, dim] = self._cut(op, dim, operands)
            self.location = outer
        return self._done[op, dim]

    def _cut(self, op: CudaTileOp, dim: int, operands: list[SSAValue]) -> list[SSAValue]:
        types = [cut_type(r.type, at, self.pieces) for r, at in zip(op.results, result_dims(op, dim))]
        match mnemonic(op):
            case "iota":
                return [self._range(types[0])]
            case "constant":
                type_ = types[0]
                assert isinstance(type_, TileType)
                return [self._constant(_splat(op, type_))]
            case "assume" if not _holds_of_pieces(op):
                return operands
            case "scan" if dim == op.attribute_value("dim"):
                return self._scan(op, dim, operands, types)
            case "load_view_tko" | "store_view_tko" | "atomic_red_view_tko":
                return self._views.access(op, dim, operands, types)
        return self.copy(op, operands, types)

    def copy(self, op: CudaTileOp, operands: Sequence[SSAValue], types: Sequence[Attribute]) -> list[SSAValue]:
        regions = []
        for region in op.regions:
            copy = Region()
            region.clone_into(copy)
            regions.append(copy)
        new = type(op).create(
            operands=operands,
            result_types=types,
            properties=op.properties.copy(),
            attributes=op.attributes.copy(),
            regions=regions,
        )
        return self.inside(new)

    def _range(self, type_: Attribute) -> SSAValue:
        """`iota` from where the piece begins."""
        assert isinstance(type_, TileType)
        start: SSAValue = self.position
        element = TileType((), type_.element_type)
        width = bit_width(type_.element_type)
        if width > 32:
            start = self.one("exti", {"from": start}, element, signedness="unsigned")
        elif width < 32:
            start = self.one("trunci", {"from": start}, element)
        length = self.constant(type_.shape[0] & (1 << width) - 1, element)
        start = self.one("muli", {"lhs": start, "rhs": length}, element)
        counted = self.one("iota", {}, type_)
        return self.one("addi", {"lhs": counted, "rhs": self.spread(start, type_.shape)}, type_)

    # -- scans and reductions -----------------------------------------------------------------------------------------

    def _scan(
        self, op: CudaTileOp, dim: int, operands: Sequence[SSAValue], types: Sequence[Attribute]
    ) -> list[SSAValue]:
        """A piece scanned on its own, and what is before it added to each element."""
        own = self.copy(op, operands, types)
        shape = tile_shape(own[0])
        length = shape[dim]
        edge = [cut_type(t, dim, length) for t in types]
        firsts = self._identities(op, edge)
        arguments = [self.carry(first) for first in firsts]
        spread = [
            a if a.type == t else self.one("broadcast", {"source": a}, t) for a, t in zip(arguments, types, strict=True)
        ]
        results = self._combined(op, spread, own, shape, reverse=False)
        last = self.constant(0 if self.reverse else length - 1)
        for first, argument, result in zip(firsts, arguments, results):
            following = result if length == 1 else self._extract(result, dim, last, length)
            self.carry_on(first, argument, following)
        return results

    def _combined(
        self, op: CudaTileOp, before: Sequence[SSAValue], own: Sequence[SSAValue], shape: tuple[int, ...], reverse: bool
    ) -> list[SSAValue]:
        """What the body makes of what was carried and of a piece's own; the piece's own in the first iteration."""
        given = [v for pair in (zip(own, before) if reverse else zip(before, own)) for v in pair]
        made = self._body(op, given, shape)
        first = self.spread(self._is_first(), shape)
        return [
            self.one("select", {"cond": first, "val_if_true": mine, "val_if_false": both}, mine.type)
            for mine, both in zip(own, made)
        ]

    def _is_first(self) -> SSAValue:
        """Whether this is the first iteration."""
        if self._first is None:
            operands = {"lhs": self.number, "rhs": self.constant(0)}
            type_ = TileType((), i1)
            self._first = self.one("cmpi", operands, type_, comparison_predicate="equal", signedness="signed")
        return self._first

    def _body(self, op: CudaTileOp, arguments: Sequence[SSAValue], shape: tuple[int, ...]) -> list[SSAValue]:
        """The body of a reduction or scan on tiles of a shape, element by element."""
        block = op.regions[0].block
        values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
        for inner in block.ops:
            if mnemonic(inner) == "yield":
                return [values[v] if v in values else self.spread(v, shape) for v in inner.operands]
            if not shape:
                self.inside(inner.clone(values))
                continue
            assert isinstance(inner, CudaTileOp)
            types = [TileType(shape, r.type.element_type) for r in inner.results if isinstance(r.type, TileType)]
            if mnemonic(inner) == "constant":
                made = [self._constant(_splat(inner, types[0]))]
            else:
                operands = [values[v] if v in values else self.spread(v, shape) for v in inner.operands]
                made = self.copy(inner, operands, types)
            values.update(zip(inner.results, made))
        raise AssertionError("a body ends with a yield")

    def _identities(self, op: CudaTileOp, types: Sequence[Attribute]) -> list[SSAValue]:
        found = []
        for identity, type_ in zip(op.attribute_value("identities"), types, strict=True):
            assert isinstance(type_, TileType)
            found.append(self.constant(_bits_of(identity, type_.element_type), type_))
        return found

    # -- tokens -------------------------------------------------------------------------------------------------------

    def _token(self, token: SSAValue) -> SSAValue:
        """The token that stands for the same in the body: for accesses of this loop, that of the same iteration."""
        found: dict[SSAValue, None] = {}
        work, seen = [token], {token}
        while work:
            value = work.pop()
            op = value.owner
            if isinstance(op, CudaTileOp) and mnemonic(op) == "join_tokens":
                work += [v for v in reversed(op.operands) if v not in seen]
                seen.update(op.operands)
            elif isinstance(op, CudaTileOp) and op in self._cuts_of:
                found.update((v, None) for v in self.tokens.behind.get(op, ()))
                found.update((self.cut(*cut)[-1], None) for cut in self._cuts_of[op])
            else:
                found[value] = None
        tokens = list(found)
        return tokens[0] if len(tokens) == 1 else self.one("join_tokens", {"tokens": tokens}, TokenType())


def _splat(op: CudaTileOp, type_: TileType) -> DenseElementsAttr:
    """The value of a splat constant, as one of another shape."""
    value = op.properties["value"]
    assert isinstance(value, DenseElementsAttr)
    return DenseElementsAttr(type_, value.raw[: value.element_bytes])


def _bits_of(identity: Attribute, element: Attribute) -> int:
    """The bit pattern of an identity of a reduction."""
    match identity:
        case IntegerAttr():
            return int(identity.value.data) & ((1 << bit_width(element)) - 1)
        case FloatAttr():
            return encode(float(identity.value.data), NUMBER_NAMES[element])
    raise AssertionError(f"an identity that is no number: {identity}")


def _holds_of_pieces(op: CudaTileOp) -> bool:
    """Whether what is assumed of a tile is said of each of its elements alone."""
    predicate = op.properties.get("predicate")
    if isinstance(predicate, DivByAttr):
        return predicate.every is None and predicate.along is None
    return isinstance(predicate, BoundedAttr)
