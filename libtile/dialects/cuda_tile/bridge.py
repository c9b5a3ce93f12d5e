# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Between the bytecode's neutral records and the cuda_tile dialect: `from_bytecode` and `to_bytecode`.

A module that goes through both is the same program with the same debug information. What the IR has no place for is
the file's layout (table order, unused entries) and its version; the writer then uses the reference writer's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    FunctionType,
    FusedLoc,
    IntegerAttr,
    NameLoc,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.bytecode import model as bc
from libtile.bytecode.errors import InvalidError
from libtile.diagnostics import Diagnostic, DiagnosticError, error
from libtile.dialects.cuda_tile import attributes as ir
from libtile.dialects.cuda_tile import float_bits, types
from libtile.dialects.cuda_tile.locations import call_site_loc, is_encodable, source_location
from libtile.dialects.cuda_tile.ops import OPS, SEGMENTS, CudaTileOp, op_classes
from libtile.spec import Spec, default_spec
from libtile.spec.model import AttributeSpec

_DEBUG_CLASSES: dict[str, type[ir.DebugAttr]] = {
    "di_file": ir.DIFileAttr,
    "di_compile_unit": ir.DICompileUnitAttr,
    "di_subprogram": ir.DISubprogramAttr,
    "di_lexical_block": ir.DILexicalBlockAttr,
    "di_loc": ir.DILocAttr,
}
_INTEGER_TYPES = {"i32": types.i32, "i32_nonneg": types.i32, "i64": types.i64, "i64_nonneg": types.i64, "bool": types.i1}


_other_classes: list[tuple[Spec, Mapping[str, type[CudaTileOp]]]] = []


def _classes(spec: Spec) -> Mapping[str, type[CudaTileOp]]:
    """The op classes of a spec; those of the few others than the package's own are made once each."""
    if spec is default_spec():
        return OPS
    for known, classes in _other_classes:
        if known is spec:
            return classes
    _other_classes.append((spec, op_classes(spec)))
    return _other_classes[-1][1]


# -- types ------------------------------------------------------------------------------------------------------------


def type_from_bytecode(type_: bc.Type) -> Attribute:
    """The IR's type; InvalidError when it breaks one of the dialect's rules for types."""
    return _TypeReader().convert(type_)


class _TypeReader:
    """Converts types, each once, and checks their invariants."""

    def __init__(self) -> None:
        self._known: dict[bc.Type, Attribute] = {}

    def convert(self, type_: bc.Type) -> Attribute:
        found = self._known.get(type_)
        if found is None:
            from libtile.dialects.cuda_tile.verify import verify_type

            found = self._make(type_)
            problem = verify_type(found)
            if problem is not None:
                raise InvalidError(problem, section="Type")
            self._known[type_] = found
        return found

    def _make(self, type_: bc.Type) -> Attribute:
        name = type_.name
        if name in types.NUMBER_TYPES:
            return types.NUMBER_TYPES[name]
        if name == "function":
            inputs, results = type_.parameters
            return FunctionType.from_lists([self.convert(t) for t in inputs], [self.convert(t) for t in results])
        values = [self.convert(p) if isinstance(p, bc.Type) else p for p in type_.parameters]
        p = dict(zip(type_.names, values))
        match name:
            case "ptr":
                return types.PointerType(p["pointee"], p["ptr_attr"])
            case "tile":
                return types.TileType(p["shape"], p["element"])
            case "tensor_view":
                return types.TensorViewType(p["element"], p["shape"], p["strides"], p["ptr_attr"])
            case "partition_view":
                return types.PartitionViewType(p["tile_shape"], p["tensor_view"], p["dim_map"], p["padding_value"])
            case "strided_view":
                return types.StridedViewType(
                    p["tile_shape"], p["traversal_strides"], p["tensor_view"], p["dim_map"], p["padding_value"]
                )
            case "gather_scatter_view":
                return types.GatherScatterViewType(
                    p["tile_shape"], p["tensor_view"], p["sparse_dim"], p["padding_value"]
                )
            case "token":
                return types.TokenType()
            case "testing$bytecode_test_evolved":
                return types.TestEvolvedType(*values)
        raise InvalidError(f"type {name!r} has no form in the dialect", section="Type")


def type_to_bytecode(type_: Attribute, spec: Spec | None = None) -> bc.Type:
    """The bytecode's type; DiagnosticError when the bytecode cannot hold it."""
    return _TypeWriter(spec or default_spec()).convert(type_)


class _TypeWriter:
    """Converts types, each once."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._known: dict[Attribute, bc.Type] = {}

    def convert(self, type_: Attribute) -> bc.Type:
        found = self._known.get(type_)
        if found is None:
            found = self._known[type_] = self._make(type_)
        return found

    def _make(self, type_: Attribute) -> bc.Type:
        if type_ in types.NUMBER_NAMES:
            return bc.make_type(types.NUMBER_NAMES[type_], spec=self._spec)
        match type_:
            case FunctionType():
                inputs, results = (tuple(map(self.convert, side)) for side in (type_.inputs, type_.outputs))
                return bc.make_type("function", inputs, results, spec=self._spec)
            case types.TileType():
                values: tuple[Any, ...] = (type_.element_type, type_.shape)
            case types.GatherScatterViewType():
                values = (type_.tile_shape, type_.tensor_view, type_.sparse_dim, type_.padding_value)
            case types.CudaTileType():
                values = type_.data
            case _:
                raise DiagnosticError([error(None, f"unsupported type in bytecode writer: {types.type_text(type_)}")])
        parameters = [self.convert(v) if isinstance(v, Attribute) else v for v in values]
        return bc.make_type(type_.mnemonic, *parameters, spec=self._spec)


# -- self-contained attributes ----------------------------------------------------------------------------------------


def _attribute_from_bytecode(attr: bc.Attribute, convert_type: Callable[[bc.Type], Attribute]) -> Attribute:
    match attr:
        case bc.Integer():
            return IntegerAttr(attr.value, convert_type(attr.type))  # type: ignore[arg-type]
        case bc.Bool():
            return IntegerAttr(int(attr.value), types.i1)  # type: ignore[arg-type]
        case bc.Float():
            number = float_bits.decode(attr.reference_bits, attr.type.name)
            return FloatAttr(number, convert_type(attr.type))  # type: ignore[arg-type,type-var]
        case bc.TypeRef():
            return convert_type(attr.type)
        case bc.String():
            return StringAttr(attr.value)
        case bc.Array():
            return ArrayAttr([_attribute_from_bytecode(e, convert_type) for e in attr.elements])
        case bc.Dense():
            return _dense_from_bytecode(attr, convert_type)
        case bc.DivBy():
            return ir.DivByAttr(attr.divisor, attr.every, attr.along)
        case bc.SameElements():
            return ir.SameElementsAttr(attr.values)
        case bc.Bounded():
            return ir.BoundedAttr(attr.lower, attr.upper)
        case bc.Dictionary():
            return DictionaryAttr(_sorted_items(attr, convert_type))
        case bc.OptimizationHints():
            return ir.OptimizationHintsAttr(_hints(attr, convert_type))
        case bc.TestValue():
            return ir.TestValueAttr(attr.value)


def _sorted_items(attr: bc.Dictionary, convert_type: Callable[[bc.Type], Attribute]) -> dict[str, Attribute]:
    """MLIR keeps dictionaries sorted by name, and prints and writes them so."""
    return {name: _attribute_from_bytecode(value, convert_type) for name, value in sorted(attr.items, key=_first)}


def _first(item: tuple[str, Any]) -> str:
    return item[0]


def _hints(
    attr: bc.OptimizationHints, convert_type: Callable[[bc.Type], Attribute]
) -> dict[str, dict[str, Attribute]]:
    hints = {}
    for architecture, keys in sorted(attr.items, key=_first):
        if not isinstance(keys, bc.Dictionary):
            raise InvalidError(f"expected dictionary attribute for optimization_hints entry `{architecture}`")
        hints[architecture] = _sorted_items(keys, convert_type)
    return hints


def _dense_from_bytecode(attr: bc.Dense, convert_type: Callable[[bc.Type], Attribute]) -> ir.DenseElementsAttr:
    type_ = convert_type(attr.type)
    if not isinstance(type_, types.TileType):
        raise InvalidError(f"expect Cuda Tile integer or float type but got: {types.type_text(type_)}")
    return ir.DenseElementsAttr(type_, attr.data)


def _attribute_to_bytecode(attr: Attribute, convert_type: Callable[[Attribute], bc.Type]) -> bc.Attribute | None:
    """None for an attribute that the bytecode cannot hold."""
    match attr:
        case IntegerAttr():
            value = attr.value.data
            return bc.Integer(value & 1 if attr.type == types.i1 else value, convert_type(attr.type))
        case FloatAttr():
            name = types.NUMBER_NAMES.get(attr.type)
            if name is None:
                return None
            return bc.Float(float_bits.encode(attr.value.data, name), convert_type(attr.type))
        case StringAttr():
            return bc.String(attr.data)
        case ir.DenseElementsAttr():
            return bc.Dense(convert_type(attr.type), attr.raw)
        case ir.DivByAttr():
            return bc.DivBy(attr.divisor, attr.every, attr.along)
        case ir.SameElementsAttr():
            return bc.SameElements(attr.values)
        case ir.BoundedAttr():
            return bc.Bounded(attr.lower, attr.upper)
        case ir.TestValueAttr():
            return bc.TestValue(attr.value)
        case ArrayAttr():
            elements = [_attribute_to_bytecode(e, convert_type) for e in attr.data]
            return None if None in elements else bc.Array(tuple(elements))  # type: ignore[arg-type]
        case DictionaryAttr():
            return _dictionary_to_bytecode(attr.data, convert_type)
        case ir.OptimizationHintsAttr():
            entries = [(arch, _dictionary_to_bytecode(keys, convert_type)) for arch, keys in attr.hints.items()]
            if any(keys is None for _, keys in entries):
                return None
            return bc.OptimizationHints(tuple(sorted(entries, key=_first)))  # type: ignore[arg-type]
        case FunctionType() | types.CudaTileType():
            return bc.TypeRef(convert_type(attr))
        case _:
            return bc.TypeRef(convert_type(attr)) if attr in types.NUMBER_NAMES else None


def _dictionary_to_bytecode(
    items: Mapping[str, Attribute], convert_type: Callable[[Attribute], bc.Type]
) -> bc.Dictionary | None:
    entries = [(name, _attribute_to_bytecode(value, convert_type)) for name, value in sorted(items.items())]
    return None if any(value is None for _, value in entries) else bc.Dictionary(tuple(entries))  # type: ignore[arg-type]


# -- bytecode to IR ---------------------------------------------------------------------------------------------------


def from_bytecode(module: bc.Module) -> CudaTileOp:
    """The `cuda_tile.module` op that a bytecode module stands for; decodes every function.

    Raises BytecodeError when a function does not decode, or when something in it has no form in the dialect. The
    result is not verified.
    """
    return _FromBytecode(module).run()


class _FromBytecode:
    """One conversion: the caches of types, locations and attributes, and the values seen so far."""

    def __init__(self, module: bc.Module) -> None:
        self._module = module
        self._classes = _classes(module.spec)
        self._type = _TypeReader().convert
        self._locations: dict[bc.DebugInfo | None, Attribute] = {None: UNKNOWN_LOC}
        self._values: dict[bc.Value, SSAValue] = {}
        self._readers: dict[str, list[tuple[str, Callable[[Any], Attribute]]]] = {}

    def run(self) -> CudaTileOp:
        ops: list[Operation] = [self._global(g) for g in self._module.globals]
        for function in self._module.functions:
            ops.append(self._function(function))
        properties: dict[str, Attribute] = {"sym_name": StringAttr(self._module.name)}
        if self._module.producer is not None:
            properties["producer"] = StringAttr(self._module.producer)
        return self._classes["module"](properties=properties, regions=[Region(Block(ops))])

    def _global(self, record: bc.Global) -> Operation:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(record.name),
            "value": _dense_from_bytecode(record.value, self._type),
            "alignment": IntegerAttr(record.alignment, 64),
            "symbol_visibility": ir.EnumAttr("SymbolVisibility", record.visibility),
        }
        if record.constant:
            properties["constant"] = UnitAttr()
        return self._classes["global"](properties=properties)

    def _function(self, function: bc.Function) -> Operation:
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(function.name),
            "function_type": self._type(function.type),
        }
        if function.hints is not None:
            properties["optimization_hints"] = ir.OptimizationHintsAttr(_hints(function.hints, self._type))
        if function.argument_attributes:
            converted = [_attribute_from_bytecode(a, self._type) for a in function.argument_attributes]
            properties["arg_attrs"] = ArrayAttr(converted)
        location = self._location(function.location)
        self._values = {}
        block = self._block(function.body, location)
        op = self._classes[function.kind](properties=properties, regions=[Region(block)])
        op.location = location  # type: ignore[assignment]
        return op

    def _location(self, info: bc.DebugInfo | None) -> Attribute:
        found = self._locations.get(info)
        if found is None:
            assert info is not None
            found = self._locations[info] = self._make_location(info)
        return found

    def _make_location(self, info: bc.DebugInfo) -> Attribute:
        if info.name == "unknown":
            return UNKNOWN_LOC
        if info.name == "call_site":
            # A chain of call sites may be long: convert from its end, so that each step finds its parts made.
            chain = [info]
            while (caller := chain[-1]["caller"]) is not None and caller.name == "call_site":
                if caller in self._locations:
                    break
                chain.append(caller)
            for link in reversed(chain):
                made = call_site_loc(self._location(link["callee"]), self._location(link["caller"]))
                self._locations[link] = made
            return made
        cls = _DEBUG_CLASSES[info.name]
        fields = [self._debug_field(info, cls, name, value) for name, value in zip(cls.fields, info.parameters)]
        return cls(*fields)

    def _debug_field(self, info: bc.DebugInfo, cls: type[ir.DebugAttr], name: str, value: Any) -> Any:
        if isinstance(value, bc.DebugInfo):
            return self._location(value)
        if value is None:
            raise InvalidError(f"failed to read {name.replace('_', ' ')} attribute when parsing {cls.__name__}")
        return value

    # -- bodies: every step here runs once per op

    def _block(self, source: bc.Block, location: Attribute) -> Block:
        values = self._values
        to_type = self._type
        block = Block(arg_types=[to_type(a.type) for a in source.arguments])
        for argument, value in zip(source.arguments, block.args):
            values[argument] = value
            value.location = location  # type: ignore[assignment]
        block.add_ops([self._operation(op) for op in source.operations])
        return block

    def _operation(self, source: bc.Operation) -> Operation:
        spec = source.spec
        readers = self._readers.get(spec.name)
        if readers is None:
            readers = self._readers[spec.name] = [(a.name, self._reader(a)) for a in spec.attributes]
        attributes = source.attributes
        properties = {name: read(attributes[name]) for name, read in readers if name in attributes}
        if source.segments is not None:
            properties[SEGMENTS] = _segments(tuple(source.segments))
        values = self._values
        to_type = self._type
        location = self._location(source.location)
        regions = [Region([self._block(b, location) for b in region]) for region in source.regions]
        op = self._classes[spec.name](
            operands=[values[v] for v in source.operands],
            result_types=[to_type(r.type) for r in source.results],
            properties=properties,
            regions=regions,
            location=location,  # type: ignore[arg-type]
        )
        for result, value in zip(source.results, op.results):
            values[result] = value
        return op

    def _reader(self, attribute: AttributeSpec) -> Callable[[Any], Attribute]:
        """How the value of a declared attribute becomes an IR attribute; equal values share one object."""
        kind = attribute.kind
        make: Callable[[Any], Attribute]
        if kind in self._module.spec.enums:
            make = lambda v: ir.EnumAttr(kind, v)  # noqa: E731
        elif kind in _INTEGER_TYPES:
            type_ = _INTEGER_TYPES[kind]
            make = lambda v: IntegerAttr(int(v), type_)  # type: ignore[arg-type]  # noqa: E731
        elif kind == "unit":
            make = lambda v: UnitAttr()  # noqa: E731
        elif kind in ("string", "symbol_name"):
            make = StringAttr
        elif kind == "symbol_ref":
            make = SymbolRefAttr
        elif kind == "function_type":
            return self._type
        elif kind == "i32_array":
            make = lambda v: DenseArrayBase.from_list(types.i32, list(v))  # type: ignore[arg-type,misc]  # noqa: E731
        elif kind == "bool_array":
            make = lambda v: DenseArrayBase.from_list(types.i1, [int(b) for b in v])  # type: ignore[arg-type,misc]  # noqa: E731
        elif kind in ("array", "dict_array"):
            return lambda v: ArrayAttr([_attribute_from_bytecode(e, self._type) for e in v])
        elif kind == "test_value":
            make = ir.TestValueAttr
        else:
            return lambda v: _attribute_from_bytecode(v, self._type)
        return _memo(make)


def _memo(make: Callable[[Any], Attribute]) -> Callable[[Any], Attribute]:
    known: dict[Any, Attribute] = {}

    def get(value: Any) -> Attribute:
        found = known.get(value)
        if found is None:
            found = known[value] = make(value)
        return found

    return get


@lru_cache(maxsize=4096)
def _segments(sizes: tuple[int, ...]) -> Attribute:
    return DenseArrayBase.from_list(types.i32, list(sizes))  # type: ignore[arg-type,misc]


# -- IR to bytecode ---------------------------------------------------------------------------------------------------


def to_bytecode(op: Operation, spec: Spec | None = None) -> bc.Module:
    """The bytecode module of a `cuda_tile.module` op, to be given to `libtile.bytecode.write`.

    Raises DiagnosticError, at the op, for what the bytecode cannot hold: ops of other dialects, anything but functions
    and globals in the module's body, impure ops in a reduction or scan, other types, attributes and locations.
    """
    if not isinstance(op, CudaTileOp) or op.spec.name != "module":
        raise DiagnosticError(
            [error(source_location(op.location), f"expected a CUDA Tile IR module, but got a {op.name}")]
        )
    spec = spec or default_spec()
    check_self_contained(op)
    return _ToBytecode(spec).run(op)


def check_self_contained(module: Operation) -> None:
    """Raise DiagnosticError unless the module holds only what bytecode can: the reference writer's own checks."""
    place = source_location(module.location)
    body = module.regions[0].blocks
    for op in body[0].ops if body else ():
        if not (isinstance(op, CudaTileOp) and (op.spec.has_trait("function") or op.spec.name == "global")):
            raise DiagnosticError(
                [_invalid_op(op), error(place, f"'{module.name}' op only function and global ops are allowed in the body")]
            )
    for op in module.walk():
        if not isinstance(op, CudaTileOp):
            raise DiagnosticError(
                [_invalid_op(op), error(place, f"'{module.name}' op only ops from the 'cuda_tile' dialect are allowed")]
            )
        if op.spec.name in ("reduce", "scan"):
            _check_pure(op)


def _check_pure(parent: CudaTileOp) -> None:
    for region in parent.regions:
        for op in region.walk():
            if isinstance(op, CudaTileOp) and not (op.spec.has_trait("pure") or op.spec.has_trait("terminator")):
                container = op.parent_op() or parent
                place = source_location(container.location)
                raise DiagnosticError(
                    [_invalid_op(op), error(place, f"'{container.name}' op only pure operations allowed")]
                )


def _invalid_op(op: Operation) -> Diagnostic:
    from libtile.diagnostics import remark

    name = op.op_name.data if hasattr(op, "op_name") else op.name  # an unregistered op keeps its name in an attribute
    return remark(source_location(op.location), f"invalid op: {name}")


class _ToBytecode:
    """One conversion: the caches of types and locations, and the values seen so far."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._type = _TypeWriter(spec).convert
        self._locations: dict[int, tuple[Attribute, bc.DebugInfo | None]] = {}
        self._values: dict[SSAValue, bc.Value] = {}
        self._writers: dict[str, list[tuple[AttributeSpec, Callable[[Any], Any]]]] = {}

    def run(self, op: CudaTileOp) -> bc.Module:
        producer = op.properties.get("producer")
        module = bc.Module(
            self._spec,
            name=op.properties["sym_name"].data,  # type: ignore[attr-defined]
            producer=producer.data if isinstance(producer, StringAttr) else None,
        )
        blocks = op.regions[0].blocks
        for inner in blocks[0].ops if blocks else ():
            assert isinstance(inner, CudaTileOp)  # checked by check_self_contained
            if inner.spec.name == "global":
                module.globals.append(self._global(inner))
            else:
                module.functions.append(self._function(inner))
        return module

    def _global(self, op: CudaTileOp) -> bc.Global:
        value = op.properties["value"]
        assert isinstance(value, ir.DenseElementsAttr)
        return bc.Global(
            op.attribute_value("sym_name"),
            bc.Dense(self._typed(op, value.type), value.raw),
            op.attribute_value("alignment"),
            op.attribute_value("constant"),
            op.attribute_value("symbol_visibility"),
        )

    def _function(self, op: CudaTileOp) -> bc.Function:
        self._values = {}
        blocks = op.regions[0].blocks
        if len(blocks) != 1:
            raise self._error(op, "expected a function with one block")
        hints = op.properties.get("optimization_hints")
        arguments = op.properties.get("arg_attrs")
        return bc.Function(
            op.attribute_value("sym_name"),
            self._typed(op, op.properties["function_type"]),
            self._block(op, blocks[0]),
            kind=op.spec.name,
            hints=None if hints is None else self._attribute(op, "optimization_hints", hints),  # type: ignore[arg-type]
            argument_attributes=(
                tuple(self._attribute(op, "arg_attrs", a) for a in arguments.data)
                if isinstance(arguments, ArrayAttr)
                else ()
            ),
            location=self._location(op),
        )

    # -- locations

    def _location(self, op: Operation) -> bc.DebugInfo | None:
        location = op.location
        known = self._locations.get(id(location))
        if known is None:
            if not is_encodable(location):
                raise self._error(
                    op, f"unsupported location, got {_refused(location)}, expected DILocAttr or CallSiteLoc"
                )
            # The attribute is kept beside its record so that its id stays its own.
            known = self._locations[id(location)] = (location, self._debug(location))
        return known[1]

    def _debug(self, attr: Any) -> Any:
        match attr:
            case UnknownLoc() | FileLineColLoc():
                return None
            case CallSiteLoc():
                return bc.make_debug("call_site", self._debug(attr.callee), self._debug(attr.caller), spec=self._spec)
            case ir.DebugAttr():
                known = self._locations.get(id(attr))
                if known is None:
                    record = bc.make_debug(attr.mnemonic, *map(self._debug, attr.data), spec=self._spec)
                    known = self._locations[id(attr)] = (attr, record)
                return known[1]
            case _:
                return attr

    # -- bodies: every step here runs once per op

    def _block(self, parent: Operation, block: Block) -> bc.Block:
        arguments = [bc.Value(self._typed(parent, a.type)) for a in block.args]
        self._values.update(zip(block.args, arguments))
        return bc.Block(arguments, [self._operation(op) for op in block.ops])

    def _operation(self, op: Operation) -> bc.Operation:
        assert isinstance(op, CudaTileOp)  # checked by check_self_contained
        spec = op.spec
        writers = self._writers.get(spec.name)
        if writers is None:
            writers = self._writers[spec.name] = [(a, self._writer(a)) for a in spec.attributes]
        properties = op.properties
        attributes: dict[str, Any] = {}
        for attribute, convert in writers:
            attr = properties.get(attribute.name)
            if attr is not None:
                attributes[attribute.name] = self._converted(op, attribute, attr, convert)
            elif attribute.default is not None:
                attributes[attribute.name] = _default(op, attribute)
        if op.attributes:
            self._refuse_discardable(op)
        segments = tuple(properties[SEGMENTS].get_values()) if spec.has_segments else None  # type: ignore[attr-defined]
        values = self._values
        result = bc.Operation(
            spec,
            [values[v] for v in op.operands],
            [],
            attributes,
            [],
            self._location(op),
            segments,
        )
        result.results = [bc.Value(self._typed(op, r.type)) for r in op.results]
        result.regions = [[self._block(op, b) for b in region.blocks] for region in op.regions]
        values.update(zip(op.results, result.results))
        return result

    def _refuse_discardable(self, op: CudaTileOp) -> None:
        """The reference writer drops discardable attributes without a word; so do we, as they mean nothing here."""

    def _writer(self, attribute: AttributeSpec) -> Callable[[Any], Any]:
        kind = attribute.kind
        if kind in self._spec.enums:
            return lambda attr: attr.keyword
        if kind == "bool":
            return lambda attr: bool(attr.value.data)
        if kind in _INTEGER_TYPES or kind == "test_value":
            return lambda attr: attr.value if kind == "test_value" else attr.value.data
        if kind == "unit":
            return lambda attr: True
        if kind in ("string", "symbol_name"):
            return lambda attr: attr.data
        if kind == "symbol_ref":
            return lambda attr: attr.root_reference.data
        if kind == "function_type":
            return self._type
        if kind == "i32_array":
            return lambda attr: tuple(int(v) for v in attr.get_values())
        if kind == "bool_array":
            return lambda attr: tuple(bool(v) for v in attr.get_values())
        if kind in ("array", "dict_array"):
            return lambda attr: tuple(self._required(_attribute_to_bytecode(e, self._type)) for e in attr.data)
        return lambda attr: self._required(_attribute_to_bytecode(attr, self._type))

    @staticmethod
    def _required(attr: bc.Attribute | None) -> bc.Attribute:
        if attr is None:
            raise ValueError
        return attr

    def _converted(self, op: CudaTileOp, spec: AttributeSpec, attr: Attribute, convert: Callable[[Any], Any]) -> Any:
        try:
            return convert(attr)
        except (AttributeError, ValueError):
            message = f"unsupported attribute type encountered during serialization of attribute '{spec.name}'"
            raise self._error(op, message) from None

    def _attribute(self, op: Operation, name: str, attr: Attribute) -> bc.Attribute:
        converted = _attribute_to_bytecode(attr, self._type)
        if converted is None:
            raise self._error(
                op, f"unsupported attribute type encountered during serialization of attribute '{name}'"
            )
        return converted

    def _typed(self, op: Operation, type_: Attribute) -> bc.Type:
        return self._type(type_)

    def _error(self, op: Operation, message: str) -> DiagnosticError:
        return DiagnosticError([error(source_location(op.location), message)])


def _default(op: CudaTileOp, attribute: AttributeSpec) -> Any:
    if attribute.kind == "bool_array":
        return op.attribute_value(attribute.name)
    return bool(attribute.default) if attribute.kind == "bool" else attribute.default


def _refused(location: Attribute) -> str:
    """The name of the innermost location that the bytecode has no record for."""
    match location:
        case CallSiteLoc():
            inner = location.caller if not is_encodable(location.caller) else location.callee
            return _refused(inner)
        case NameLoc():
            return "NameLoc"
        case FusedLoc():
            return "FusedLoc"
        case _:
            return "Unknown Attribute"
