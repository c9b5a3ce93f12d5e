# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations, regions and blocks: the generic form of any op, the custom forms of the spec's ops, and, through xDSL's
parser, those of other dialects.

Recursive descent with one token of look-ahead; nesting is bounded (`recursion.MAX_NESTING`), so that no text exhausts
the interpreter's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    StringAttr,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.asm.attribute_kinds import normalized
from libtile.asm.dialect import DIALECT, Dialect, OpParser, default_dialect
from libtile.asm.lexer import Source
from libtile.asm.metadata import BEGIN as METADATA
from libtile.asm.metadata import skip_metadata
from libtile.asm.op_state import Argument, OpState, Use
from libtile.asm.values import MAX_RESULT_NUMBER, ValueParser
from libtile.bytecode.limits import DEBUG_DEPTH
from libtile.dialects.cuda_tile.attribute_text import LOCATIONS
from libtile.dialects.cuda_tile.forms import DebugAttr
from libtile.dialects.cuda_tile.locations import file_line_col_of
from libtile.dialects.cuda_tile.ops import SEGMENTS, CudaTileOp, default_attribute
from libtile.dialects.cuda_tile.types import i32
from libtile.ir.locations import set_location
from libtile.ir.strings import unquote
from libtile.spec import OpSpec, Spec, default_spec

if TYPE_CHECKING:
    from xdsl.context import Context

    from libtile.asm.xdsl_bridge import BridgeParser

MAX_ALIAS_SIZE = 1 << 20
"""The most aliases that an alias may stand for when all are written out."""

MAX_ALIAS_DEPTH = DEBUG_DEPTH + 1
"""How deep definitions of aliases may build on one another: as deep as the calls and scopes of a file of bytecode,
which are printed by aliases."""


class Parser(ValueParser):
    """Reads one source text. `diagnostics` holds what was wrong; `ParseError` ends the reading."""

    def __init__(self, source: Source, spec: Spec | None = None, *, allow_unregistered: bool = False):
        self.spec = spec or default_spec()
        self.dialect = default_dialect() if self.spec is default_spec() else Dialect(self.spec)
        self.allow_unregistered = allow_unregistered
        self.type_aliases: dict[str, Attribute] = {}
        self.type_cache: dict[str, Attribute] = {}
        self.attribute_aliases: dict[str, Attribute] = {}
        self.alias_sizes = {}
        self.pending_locations = []
        self.default_dialects = ["builtin"]
        self.filename = StringAttr(source.filename)
        self._bridge: BridgeParser | None = None
        self._op_name_start = 0
        self.start_values()
        super().__init__(source)

    # -- the whole text -----------------------------------------------------------------------------------------

    def top_level(self) -> list[Operation]:
        """All ops of the text; aliases may stand anywhere between them."""
        block = Block()
        self.push_scope()
        while self.kind != "eof":
            if self.kind == "hash":
                self._attribute_alias()
            elif self.kind == "bang":
                self._type_alias()
            elif self.kind == "error":
                raise self.report("", self.start)
            elif self.kind == METADATA:
                skip_metadata(self)
            else:
                block.add_op(self.operation())
        self.pop_scope()
        self._resolve_locations()
        self.check_forward_references()
        ops = list(block.ops)
        for op in ops:
            op.detach()
        return ops

    def _attribute_alias(self) -> None:
        name = self.token[1:]
        if name in self.attribute_aliases:
            raise self.report(f"redefinition of attribute alias id '{name}'", self.start)
        if "." in name:
            raise self.report("attribute names with a '.' are reserved for dialect-defined names", self.start)
        self.advance()
        self.expect("=", " in attribute alias definition")
        self.attribute_aliases[name] = self._measured(name, self.attribute)

    def _type_alias(self) -> None:
        name = self.token[1:]
        if name in self.type_aliases:
            raise self.report(f"redefinition of type alias id '{name}'", self.start)
        if "." in name:
            raise self.report("type names with a '.' are reserved for dialect-defined names", self.start)
        self.advance()
        self.expect("=", " in type alias definition")
        self.type_aliases[name] = self._measured("!" + name, self.type)

    def _measured(self, name: str, read: Callable[[], Attribute]) -> Attribute:
        """The value of an alias. How large it is with all aliases in it written out, and how deep, is bounded."""
        start, around = self.start, self.deepest
        self.alias_use, self.deepest = (0, 0), 0
        value = read()
        size, depth = self.alias_use[0] + 1, self.alias_use[1] + 1
        if size > MAX_ALIAS_SIZE or depth > MAX_ALIAS_DEPTH:
            raise self.report("alias stands for too large a value", start)
        # Locations and debug information are printed by aliases as well, anything else is written out where it stands.
        levels = 0 if isinstance(value, (*LOCATIONS, DebugAttr)) else self.deepest
        self.alias_sizes[name] = (size, depth, levels)
        self.deepest = around
        return value

    # -- locations ----------------------------------------------------------------------------------------------

    def location_here(self, offset: int) -> Any:
        line, column = self.source.line_column(offset)
        return file_line_col_of(self.filename, line, column)

    def trailing_location(self, owner: Operation | SSAValue[Any]) -> None:
        """An optional `loc(...)`; an alias in it may be defined further down."""
        if self.kind != "bare" or self.token != "loc":
            return
        self.advance()
        self.expect("(", " in location")
        if self.kind == "hash" and "." not in self.token and self.token[1:] not in self.attribute_aliases:
            self.pending_locations.append((owner, self.token[1:], self.start))
            self.advance()
        else:
            cast(Any, owner).location = self.location_instance()
        self.expect(")", " in location")

    def _resolve_locations(self) -> None:
        failures = []
        for owner, name, offset in self.pending_locations:
            found = self.attribute_aliases.get(name)
            if found is None:
                failures.append(self.report("operation location alias was never defined", offset))
            elif not isinstance(found, LOCATIONS):
                failures.append(self.report(f"expected location, but found '{found}'", offset))
            else:
                owner.location = found
        if failures:
            raise failures[0]

    # -- operations ---------------------------------------------------------------------------------------------

    def operation(self) -> Operation:
        """One op, with the names that its results are bound to."""
        start = self.start
        names = self._result_names() if self.kind == "percent" else None
        kind = self.kind
        if kind == "bare":
            op = self._custom_operation()
        elif kind == "string":
            op = self._generic_operation()
        else:
            raise self.wrong_token("expected operation name in quotes")
        if names is not None:
            self._bind(op, names, start)
        return op

    def _result_names(self) -> list[tuple[str, int, int]]:
        names: list[tuple[str, int, int]] = []
        while True:
            name, start, count = self.token, self.start, 1
            if self.kind != "percent":
                raise self.wrong_token("expected valid ssa identifier")
            self.advance()
            if self.kind == ":":
                self.advance()
                if self.kind != "int":
                    raise self.wrong_token("expected integer number of results")
                count = self._result_count()
            names.append((name, count, start))
            if self.kind != ",":
                break
            self.advance()
        if self.kind != "=":
            raise self.wrong_token("expected '=' after SSA name")
        self.advance()
        return names

    def _result_count(self) -> int:
        # As LLVM's APInt reads it: a leading zero means nothing, and `0x` begins a hexadecimal number.
        count = int(self.token, 16 if self.token.startswith("0x") else 10) if len(self.token) <= 9 else 0
        if not 1 <= count <= MAX_RESULT_NUMBER:
            raise self.report("expected named operation to have at least 1 result", self.start)
        self.advance()
        return count

    def _bind(self, op: Operation, names: list[tuple[str, int, int]], start: int) -> None:
        results = op.results
        expected = sum(count for _, count, _ in names)
        if not results:
            raise self.report("cannot name an operation with no results", start)
        if expected != len(results):
            raise self.report(f"operation defines {len(results)} results but was provided {expected} to bind", start)
        index = 0
        for name, count, offset in names:
            for number in range(count):
                self.define(Use(name, number, offset), results[index])
                index += 1

    def _custom_operation(self) -> Operation:
        name, start = self.token, self.start
        prefix, _, mnemonic = name.partition(".")
        parser: OpParser | None = None
        if not mnemonic:
            if self.default_dialects[-1] == DIALECT:
                parser = self.dialect.find(name)
        elif prefix == DIALECT:
            parser = self.dialect.find(mnemonic)
        if parser is None:
            return self._foreign_operation(name, start)
        self.advance()
        return self.spec_operation(parser, start)

    def spec_operation(self, parser: OpParser, start: int) -> Operation:
        """The custom form of an op of the spec, behind its name."""
        if parser.read is None:
            raise self.report(f"{parser.prefix}has no custom assembly form", start)
        state = OpState(start)
        outer_prefix, outer_start = self.op_prefix, self._op_name_start
        self.op_prefix, self._op_name_start = parser.prefix, start
        has_regions = bool(parser.spec.regions)
        if has_regions:
            self.default_dialects.append(DIALECT)
        parser.read(self, state)
        op = self._create(parser, state)
        if has_regions:
            self.default_dialects.pop()
        self.op_prefix, self._op_name_start = outer_prefix, outer_start
        if self.kind == "bare" and self.token == "loc":
            self.trailing_location(op)
        return op

    def _create(self, parser: OpParser, state: OpState) -> Operation:
        operands: list[SSAValue[Any]] = []
        sizes: list[int] = []
        types = state.types
        for name in parser.operands:
            uses = state.operands.get(name)
            if not uses:
                if types.get(name) and uses is not None:
                    self.resolve_all([], types[name], state.offsets[name])
                sizes.append(0)
                continue
            found = types.get(name, [])
            if len(uses) == 1 == len(found):
                operands.append(self.resolve(uses[0], found[0]))
            else:
                operands += self.resolve_all(uses, found, state.offsets.get(name, state.start))
            sizes.append(len(uses))
        result_types: list[Attribute] = []
        for name in parser.results:
            result_types += types.get(name, ())
        properties = state.properties
        if parser.segments:
            properties[SEGMENTS] = _segments(tuple(sizes))
        if state.attributes:
            self._split_attributes(parser.spec, state)
        return parser.cls.create(
            operands=operands,
            result_types=result_types,
            properties=properties,
            attributes=state.attributes,
            location=self.location_here(state.start),
            regions=[state.regions[r] if r in state.regions else Region() for r in parser.spec.regions],
        )

    def _split_attributes(self, spec: OpSpec, state: OpState) -> None:
        """Declared attributes that stand in the attribute dictionary belong to the op's properties."""
        for name in list(state.attributes):
            attribute = spec.attribute(name)
            if attribute is None and not (name == SEGMENTS and spec.has_segments):
                continue
            value = state.attributes.pop(name)
            if name in state.properties and name != SEGMENTS:
                default = default_attribute(attribute, self.spec) if attribute is not None else None
                if state.properties[name] != default:
                    self.fail(f"attribute '{name}' occurs more than once in the attribute list")
            state.properties[name] = normalized(attribute, value, self.spec) if attribute is not None else value

    # -- the generic form ---------------------------------------------------------------------------------------

    def _generic_operation(self) -> Operation:
        start = self.start
        name = unquote(self.token)
        if not name:
            raise self.report("empty operation name is invalid", start)
        if "\0" in name:
            raise self.report("null character not allowed in operation name", start)
        self.advance()
        outer_prefix, self.op_prefix = self.op_prefix, ""
        dialect, _, mnemonic = name.partition(".")
        parser = self.dialect.find(mnemonic) if dialect == DIALECT else None
        if parser is not None:
            cls: type[Operation] = parser.cls
        else:
            cls = self._foreign_class(name, start)
        op = self._generic_rest(cls, parser, start)
        self.op_prefix = outer_prefix
        self.trailing_location(op)
        return op

    def _foreign_class(self, name: str, start: int) -> type[Operation]:
        found = self.context.get_optional_op(name) if self._load(name) else None
        if found is not None and not issubclass(found, UnregisteredOp):
            return found
        if name.partition(".")[0] == DIALECT:
            raise self.report(
                f"unregistered operation '{name}' found in dialect ('{DIALECT}') that does not allow unknown "
                "operations",
                start,
            )
        if not self.allow_unregistered:
            raise self.report(
                "operation being parsed with an unregistered dialect. If this is intended, please use "
                "-allow-unregistered-dialect with the MLIR tool used",
                self.start,
            )
        return UnregisteredOp.with_name(name)

    def _generic_rest(self, cls: type[Operation], parser: OpParser | None, start: int) -> Operation:
        """Everything behind the name: operands, successors, properties, regions, attributes, type."""
        if self.kind != "(":
            raise self.wrong_token("expected '(' to start operand list")
        self.advance()
        uses = self.operand_list()
        if self.kind != ")":
            raise self.wrong_token("expected ')' to end operand list")
        self.advance()
        successors: list[Block] = []
        if self.kind == "[":
            self.bracketed("[", "]", lambda: successors.append(self.successor()))
        properties: dict[str, Attribute] = {}
        if self.accept("<"):
            if self.kind != "{":
                raise self.wrong_token("expected attribute value")
            properties = self.attribute_dictionary()
            if self.kind != ">":
                raise self.wrong_token("expected '>' to close properties")
            self.advance()
        regions = self._generic_regions()
        attributes = self.attribute_dictionary() if self.kind == "{" else {}
        if self.kind != ":":
            raise self.wrong_token("expected ':' followed by operation type")
        self.advance()
        type_start = self.start
        found = self.type() if self.kind == "(" else self.non_function_type()
        if not isinstance(found, FunctionType):
            raise self.report("expected function type", type_start)
        inputs = found.inputs.data
        if len(inputs) != len(uses):
            plural = "" if len(uses) == 1 else "s"
            raise self.report(f"expected {len(uses)} operand type{plural} but had {len(inputs)}", type_start)
        operands = [self.resolve(use, type_) for use, type_ in zip(uses, inputs)]
        if parser is not None:
            self._generic_properties(parser.spec, properties, attributes)
        else:
            _foreign_properties(cls, properties, attributes)
        return cls.create(
            operands=operands,
            result_types=found.outputs.data,
            properties=properties,
            attributes=attributes,
            successors=successors,
            regions=regions,
            location=self.location_here(start),
        )

    def _generic_regions(self) -> list[Region]:
        regions: list[Region] = []
        if self.accept("("):
            self.default_dialects.append(self.default_dialects[-1])
            self.comma_list(lambda: regions.append(self.region(None)))
            self.default_dialects.pop()
            if self.kind != ")":
                raise self.wrong_token("expected ')' to end region list")
            self.advance()
        return regions

    def _generic_properties(
        self, spec: OpSpec, properties: dict[str, Attribute], attributes: dict[str, Attribute]
    ) -> None:
        """Declared attributes are properties wherever they are written; plain enums become cases."""
        for declared in spec.attributes:
            value = attributes.pop(declared.name, None)
            if value is not None and declared.name not in properties:
                properties[declared.name] = value
            if declared.name in properties:
                properties[declared.name] = normalized(declared, properties[declared.name], self.spec)
        if SEGMENTS in attributes and spec.has_segments:
            properties.setdefault(SEGMENTS, attributes.pop(SEGMENTS))

    # -- regions ------------------------------------------------------------------------------------------------

    def region(self, arguments: Sequence[Argument] | None, terminator: OpSpec | None = None) -> Region:
        """`{ ... }`. `arguments` are those of the entry block where the op declares them; with `terminator` a block
        that lacks its terminator gets the one that the op implies.
        """
        if self.kind != "{":
            raise self.wrong_token("expected '{' to begin a region")
        self.nest()
        outer_prefix, self.op_prefix = self.op_prefix, ""
        self.advance()
        region = Region()
        if arguments or self.kind != "}":
            self._region_body(region, arguments)
        if self.kind != "}":
            raise self.wrong_token("expected '}' to end a region")
        self.advance()
        self.op_prefix = outer_prefix
        self.depth -= 1
        if terminator is not None:
            self.ensure_terminator(region, terminator)
        return region

    def _region_body(self, region: Region, arguments: Sequence[Argument] | None) -> None:
        self.push_scope()
        block = Block()
        region.add_block(block)
        if arguments and arguments[0].use.name:
            if self.kind == "caret":
                raise self.report("invalid block name in region with named arguments", self.start)
            for argument in arguments:
                value = block.insert_arg(argument.type, len(block.args))
                set_location(value, argument.location or self.location_here(argument.use.offset))
                self.define_argument(argument.use, value)
        if self.kind == "caret":
            self._labelled_block(region, block)
        else:
            self._block_body(block)
        if arguments and len(region.block.args) > len(arguments):
            raise self.report("entry block arguments were already defined", self.start)
        while self.kind != "}":
            self._labelled_block(region, None)
        self.pop_scope()

    def _labelled_block(self, region: Region, block: Block | None) -> None:
        if self.kind != "caret":
            raise self.wrong_token("expected block name")
        name, offset = self.token, self.start
        self.advance()
        found = self.define_block(name, offset, block)
        if block is None:
            region.add_block(found)
        elif found is not block:
            region.detach_block(block)
            region.add_block(found)
        if self.kind == "(":
            self.bracketed("(", ")", lambda: self._block_argument(found))
        if self.kind != ":":
            raise self.wrong_token("expected ':' after block name")
        self.advance()
        self._block_body(found)

    def _block_argument(self, block: Block) -> None:
        use = self.operand()
        self.expect(":", " and type for SSA operand")
        value = block.insert_arg(self.type(), len(block.args))
        value.location = self.location_here(use.offset)
        self.trailing_location(value)
        self.define(use, value)

    def _block_body(self, block: Block) -> None:
        add = block.add_op
        while self.kind not in ("caret", "}"):
            add(self.operation())

    def ensure_terminator(self, region: Region, spec: OpSpec) -> None:
        """End the last block with the op's implicit terminator, unless it ends in a terminator already."""
        trait = spec.trait("implicit_terminator")
        if trait is None:
            return
        block = region.last_block
        if block is None:
            block = Block()
            region.add_block(block)
        last = block.last_op
        if last is not None and _is_terminator(last):
            return
        cls = self.dialect.classes[trait.arguments[0]]
        block.add_op(cls.create(location=self.location_here(self._op_name_start)))

    # -- parts of custom forms ----------------------------------------------------------------------------------

    def argument_list(self, arguments: list[Argument]) -> None:
        """`(%name: type, ...)`; in a declaration without body the names may be left out, all or none."""
        self.bracketed("(", ")", lambda: arguments.append(self._argument(arguments)))

    def _argument(self, previous: list[Argument]) -> Argument:
        start = self.start
        use = Use("", 0, start)
        if self.kind == "percent":
            use = self.operand()
            self.expect(":")
        if previous and bool(previous[-1].use.name) != bool(use.name):
            self.fail("expected type instead of SSA identifier" if use.name else "expected SSA identifier", start)
        type_ = self.type()
        attributes = self.attribute_dictionary() if self.kind == "{" else None
        location = self.location() if self.kind == "bare" and self.token == "loc" else None
        return Argument(use._replace(offset=start), type_, location, attributes)

    # -- other dialects -----------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        return self.bridge.ctx

    @property
    def bridge(self) -> BridgeParser:
        """xDSL's parser over the same text, made when first needed."""
        if self._bridge is None:
            from libtile.asm.xdsl_bridge import BridgeParser

            self._bridge = BridgeParser(self)
        return self._bridge

    def _load(self, name: str) -> bool:
        from libtile.asm.xdsl_bridge import load_dialect

        return load_dialect(self.context, name.partition(".")[0])

    def _foreign_operation(self, name: str, start: int) -> Operation:
        default = self.default_dialects[-1]
        full = name if "." in name else f"{default}.{name}" if default else name
        dialect = full.partition(".")[0]
        tried = "" if full == name else f" (tried '{full}' as well)"
        if dialect != DIALECT and not self._load(full):
            raise self.report(f"Dialect `{dialect}' not found for custom op '{name}' {tried.strip()}".rstrip(), start)
        cls = self.context.get_optional_op(full) if dialect != DIALECT else None
        if cls is None or issubclass(cls, UnregisteredOp):
            raise self.report(f"custom op '{name}' is unknown{tried}", start)
        outer, self.op_prefix = self.op_prefix, ""
        self.advance()
        self.nest()
        self.default_dialects.append(dialect)
        op = self.bridge.custom_operation(cls, start)
        self.default_dialects.pop()
        self.depth -= 1
        self.op_prefix = outer
        op.location = self.location_here(start)
        self.trailing_location(op)
        return op

    def foreign_type(self) -> Attribute:
        return self.bridge.foreign(self.start, is_type=True)

    def foreign_attribute(self) -> Attribute:
        return self.bridge.foreign(self.start, is_type=False)


@lru_cache(maxsize=256)
def _segments(sizes: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(i32, sizes)


def _foreign_properties(
    cls: type[Operation], properties: dict[str, Attribute], attributes: dict[str, Attribute]
) -> None:
    definition: Callable[[], Any] | None = getattr(cls, "get_irdl_definition", None)
    if definition is not None:
        for name in definition().properties:
            if name in attributes and name not in properties:
                properties[name] = attributes.pop(name)


def _is_terminator(op: Operation) -> bool:
    if isinstance(op, CudaTileOp):
        return op.spec.has_trait("terminator")
    from xdsl.traits import IsTerminator

    return op.has_trait(IsTerminator, value_if_unregistered=False)
