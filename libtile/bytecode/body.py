# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Function bodies: the walk over instructions, regions and blocks, with value numbers and locations.

Values are numbered in order of definition; a block's arguments and results lose their numbers at its end. An op's
results are numbered after its regions. Locations come one per op, parents first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

from libtile.bytecode.cursor import end_of_data, more, put, varint
from libtile.bytecode.errors import Fault, InvalidError, MigrationError, UnsupportedVersionError
from libtile.bytecode.limits import REGION_DEPTH
from libtile.bytecode.model import Block, DebugInfo, Operation, Region, Type, Value, describe_location
from libtile.bytecode.ops_codec import CONTAINER_OPS, codecs_of
from libtile.bytecode.types_codec import is_location
from libtile.spec import OpSpec
from libtile.spec.model import ValueSpec

if TYPE_CHECKING:
    from libtile.bytecode.context import ReadContext, WriteContext


class BodyDecoder:
    """Decodes one function body. Also the context of the generated decoders."""

    def __init__(self, ctx: ReadContext, data: bytes, locations: Iterable[int] | None) -> None:
        self.file = ctx
        self.data = data
        self.version = ctx.version
        self.types = ctx.tables.types
        self.codecs = codecs_of(ctx.spec, ctx.version)
        self.values: list[Value] = []
        self.locations: Iterator[DebugInfo | None] = repeat(None) if locations is None else self._locations(locations)
        self.depth = 0
        self.string_at = ctx.string_at
        self.type_at = ctx.type_at
        self.dense_at = ctx.dense_at
        # What the attribute readers use of the file's context:
        self.spec = ctx.spec
        self.attribute_tags = ctx.attribute_tags
        self.allow_testing = ctx.allow_testing
        self.warn = ctx.warn

    def _locations(self, indices: Iterable[int]) -> Iterator[DebugInfo | None]:
        table: list[DebugInfo | None] = [None, *self.file.tables.debug]
        others = {number for number, info in enumerate(table) if not is_location(info)}
        for index in indices:
            if index >= len(table):
                raise Fault(0, f"debug info index {index} out of bounds", expected=f"below {len(table)}")
            if index in others:
                raise Fault(
                    0, f"failed to read operation location: record {index} is of another kind", expected="a location"
                )
            yield table[index]

    def decode(self, inputs: tuple[Type, ...]) -> Block:
        """The whole body, as the entry block of a function with arguments of the types `inputs`."""
        block = Block([Value(t) for t in inputs])
        self.values.extend(block.arguments)
        p, end = 0, len(self.data)
        while p < end:
            p = self._operation(p, block.operations)
        return block

    def _operation(self, p: int, into: list[Operation]) -> int:
        """Decode one op at `p` and append it; gives the position behind it."""
        start = p
        opcode = self.data[p]
        p += 1
        if opcode > 0x7F:
            opcode, p = more(self.data, p, opcode)
        codec = self.codecs.get(opcode)
        if codec is None or codec.restricted:
            self._check_op(opcode, start)
            assert codec is not None
        try:
            location = next(self.locations)
        except StopIteration:
            raise Fault(start, "failed to read operation location.", expected="one location per op") from None
        try:
            op, p = codec.decode(self.data, p, self.types, self.values, self)
        except Fault as fault:
            fault.path.insert(0, codec.spec.name)
            raise
        except IndexError:
            raise end_of_data(self.data, codec.spec.name) from None
        op.location = location
        into.append(op)
        return p

    def _check_op(self, opcode: int, p: int) -> None:
        """Refuse an opcode that cannot stand here; returns for one that is allowed by this reader's options."""
        ctx = self.file
        op = ctx.spec.ops_by_opcode.get(opcode)
        if op is None or (ctx.spec.is_testing_op(op) and not ctx.allow_testing):
            # Preview ops whose encoding is not public are known by name only: one of them may be meant.
            hint = f"not one of {', '.join(sorted(ctx.spec.unknown_ops))}" if ctx.is_preview else None
            raise Fault(
                p, f"unsupported opcode {opcode} for bytecode version {ctx.version}", UnsupportedVersionError, hint
            )
        if op.since > ctx.version:
            raise Fault(
                p,
                f"unsupported opcode {opcode} for bytecode version {ctx.version}",
                UnsupportedVersionError,
                expected=f"13.x with 'cuda_tile.{op.name}', which requires {op.since}",
            )
        if op.name in CONTAINER_OPS:
            raise Fault(p, f"operation 'cuda_tile.{op.name}' cannot stand in a function body", InvalidError)
        if op.preview is not None:
            if not ctx.is_preview:
                raise Fault(
                    p, f"preview operation 'cuda_tile.{op.name}' in a file that is not marked as preview", InvalidError
                )
            if op.preview not in ctx.previews:
                raise Fault(
                    p,
                    f"operation 'cuda_tile.{op.name}' needs the preview feature '{op.preview}'",
                    UnsupportedVersionError,
                )

    def regions(self, p: int, count: int, op: OpSpec) -> tuple[list[Region], int]:
        """The `count` regions of `op`."""
        data = self.data
        number, p = varint(data, p)
        if number != count:
            raise Fault(p, f"cuda_tile.{op.name} op expected {count} regions, got {number}")
        self.depth += 1
        if self.depth > REGION_DEPTH:
            raise Fault(p, f"regions are nested more than {REGION_DEPTH} deep")
        regions = []
        for _ in range(count):
            region, p = self._region(p)
            regions.append(region)
        self.depth -= 1
        return regions, p

    def _region(self, p: int) -> tuple[Region, int]:
        count, p = varint(self.data, p)
        if count > len(self.data) - p:
            raise Fault(p, f"region of {count} blocks does not fit", expected=f"at most {len(self.data) - p}")
        region = []
        for _ in range(count):
            block, p = self._block(p)
            region.append(block)
        return region, p

    def _block(self, p: int) -> tuple[Block, int]:
        data, values = self.data, self.values
        visible = len(values)
        count, p = varint(data, p)
        if count > len(data) - p:
            raise Fault(p, f"block of {count} arguments does not fit", expected=f"at most {len(data) - p}")
        block = Block()
        for i in range(count):
            index, after = varint(data, p)
            if index >= len(self.types):
                raise Fault(p, f"failed to read block argument type: {i}")
            block.arguments.append(Value(self.types[index]))
            p = after
        values.extend(block.arguments)
        count, p = varint(data, p)
        if count > len(data) - p:
            raise Fault(p, f"block of {count} operations does not fit", expected=f"at most {len(data) - p}")
        for _ in range(count):
            p = self._operation(p, block.operations)
        if not block.operations:
            raise Fault(
                p,
                "invalid block structure: block is expected to have a terminator operation, but it is empty",
                InvalidError,
            )
        last = block.operations[-1].spec
        if not last.has_trait("terminator"):
            raise Fault(
                p,
                "invalid block structure: block is expected to have a terminator operation, but the last operation "
                f"'cuda_tile.{last.name}' is not a terminator.",
                InvalidError,
            )
        del values[visible:]
        return block, p


class PlaceRecorder(BodyDecoder):
    """Decodes a body and keeps the position of each op, in the order in which the ops begin."""

    def __init__(self, ctx: ReadContext, data: bytes, locations: Iterable[int] | None) -> None:
        super().__init__(ctx, data, locations)
        self.places: list[int] = []

    def _operation(self, p: int, into: list[Operation]) -> int:
        self.places.append(p)
        return super()._operation(p, into)


class BodyChecker(BodyDecoder):
    """Decodes a body to see whether it can be, keeping no more of it than its values."""

    def _operation(self, p: int, into: list[Operation]) -> int:
        p = super()._operation(p, into)
        if len(into) > 1:
            del into[0]  # a block's last op is looked at when it ends
        return p


class BodyEncoder:
    """Encodes one function body. Also the context of the generated encoders."""

    def __init__(self, ctx: WriteContext) -> None:
        self.file = ctx
        self.version = ctx.version
        self.codecs = codecs_of(ctx.spec, ctx.version)
        self.out = bytearray()
        self.index: dict[Value, int] = {}
        self.defined: list[Value] = []
        self.dropped: dict[Value, tuple[Operation, ValueSpec]] = {}
        self.locations: list[DebugInfo | None] = []
        self.depth = self.nesting = 0
        self.spec = ctx.spec
        self.types = ctx.types
        self.type_index = ctx.type_index
        self.string_index = ctx.string_index
        self.constant_index = ctx.constant_index
        self.checked_hints = ctx.checked_hints

    def encode(self, block: Block) -> bytes:
        """The bytes of a function's entry block."""
        self._define(block.arguments)
        self._operations(block.operations)
        return bytes(self.out)

    def _define(self, values: list[Value]) -> None:
        for value in values:
            self.index[value] = len(self.defined)
            self.defined.append(value)

    def _operations(self, operations: list[Operation]) -> None:
        out, index, types = self.out, self.index, self.types
        get, add = self.codecs.get, self.locations.append
        debug_index = self.file.debug_index
        for op in operations:
            opcode = op.spec.opcode
            codec = get(opcode)
            if codec is None or codec.restricted:
                self._check_op(op)
            assert codec is not None
            if opcode < 0x80:
                out.append(opcode)
            else:
                put(out, opcode)
            location = op.location
            add(location)
            if location is not None:
                debug_index(location)
            try:
                codec.encode(out, op, index, types, self)
            except (InvalidError, MigrationError) as error:
                raise named(error, op) from None
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                raise InvalidError(f"'cuda_tile.{op.name}' op cannot be encoded: {error}") from error

    def _check_op(self, op: Operation) -> None:
        name = op.spec.name
        if name not in self.spec.ops:
            raise InvalidError(f"unknown operation 'cuda_tile.{name}'")
        if name in CONTAINER_OPS:
            raise InvalidError(f"operation 'cuda_tile.{name}' cannot stand in a function body")
        problem = self.file.check_op(name)
        if problem is not None:
            raise named(problem, op)

    def write_regions(self, op: Operation, count: int) -> None:
        """Append the regions of `op`; called by the generated encoders."""
        out = self.out
        if len(op.regions) != count:
            raise InvalidError(f"cuda_tile.{op.name} op expected {count} regions, got {len(op.regions)}")
        self.depth += 1
        if self.depth > REGION_DEPTH:
            raise InvalidError(f"regions are nested more than {REGION_DEPTH} deep")
        put(out, count)
        for region in op.regions:
            put(out, len(region))
            for block in region:
                self._block(block)
        self.depth -= 1

    def _block(self, block: Block) -> None:
        out = self.out
        visible = len(self.defined)
        put(out, len(block.arguments))
        for argument in block.arguments:
            put(out, self.type_index(argument.type))
        self._define(block.arguments)
        put(out, len(block.operations))
        self._operations(block.operations)
        for value in self.defined[visible:]:
            self.index.pop(value, None)
        del self.defined[visible:]

    def unknown_value(self, value: Any) -> InvalidError | MigrationError:
        """Why an operand has no number."""
        dropped = self.dropped.get(value)
        if dropped is None:
            return InvalidError("an operand is not defined before its use")
        op, result = dropped
        error = MigrationError(
            f"result '{result.name}' requires bytecode version {result.since} but is being used and targeting "
            f"{self.version}. Cannot serialize to older bytecode version when newer features are used.",
            feature=result.name,
            required=result.since,
            target=self.version,
        )
        return named(error, op)


def named(error: Any, op: Operation) -> Any:
    """The error with the op's name and place, unless an inner op is already named."""
    if isinstance(error, MigrationError):
        if error.op is None:
            error.op = f"cuda_tile.{op.name}"
            error.location = describe_location(op.location)
            error.record = op
    elif error.section is None:
        error.section = f"'cuda_tile.{op.name}'"
    return error
