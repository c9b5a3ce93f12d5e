# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the cuda_tile dialect to the bytecode's neutral records: `to_bytecode`, and `write_bytecode` to a file's bytes.

A module that came from bytecode is the same program with the same debug information; the writer uses the reference
writer's order of tables, as the IR has no place for another. See `bridge` for the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    NameLoc,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from libtile import bytecode
from libtile.bytecode import model as bc
from libtile.bytecode.cursor import MASK64
from libtile.bytecode.errors import MigrationError
from libtile.bytecode.ops_codec import CONTAINER_OPS
from libtile.dialects.cuda_tile import attributes as ir
from libtile.dialects.cuda_tile.bridge_values import (
    TypeWriter,
    attribute_to_bytecode,
    dense_to_bytecode,
    hints_to_bytecode,
)
from libtile.dialects.cuda_tile.locations import is_encodable, source_location
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.values_from_bytecode import INTEGER_TYPES
from libtile.ir.places import ops_of
from libtile.spec import Spec, Version, default_spec
from libtile.spec.model import AttributeSpec
from libtile.support.collector import collector_paused
from libtile.support.diagnostics import Diagnostic, DiagnosticError, error, remark, warning


def to_bytecode(op: Operation, spec: Spec | None = None) -> bc.Module:
    """The bytecode module of a `cuda_tile.module` op, to be given to `libtile.bytecode.write`.

    Raises DiagnosticError, at the op, for what the bytecode cannot hold: ops of other dialects, anything but functions
    and globals in the module's body, modules in a function's, impure ops in a reduction or scan, other types,
    attributes and locations. Discardable attributes are left out, as the reference writer does; `write_bytecode` says
    which.
    """
    with collector_paused():
        return _ToBytecode(spec or default_spec()).run(_checked_module(op))


def _checked_module(op: Operation) -> CudaTileOp:
    if not isinstance(op, CudaTileOp) or op.spec.name != "module":
        raise DiagnosticError(
            [error(source_location(op.location), f"expected a CUDA Tile IR module, but got a {op.name}")]
        )
    check_self_contained(op)
    return op


def write_bytecode(
    op: Operation,
    version: Version | str | None = None,
    *,
    spec: Spec | None = None,
    allow_testing: bool = False,
    for_target: str | None = None,
    drop_hints: bool = False,
    warnings: list[Diagnostic] | None = None,
    since: Version | None = None,
) -> bytes:
    """The bytes of a `cuda_tile.module` op in one version; None stands for the oldest one that can hold it, and that is
    not older than `since`.

    For `for_target` and `drop_hints` see `bytecode.write`. `warnings` gets what was left out: hints, if asked for, and
    attributes that ops do not declare.

    Raises MigrationError when the version asked for cannot hold the module, with the source position of the op where
    the IR knows one, and what `to_bytecode` raises.
    """
    spec = spec or default_spec()
    conversion = _ToBytecode(spec)
    candidates = [version] if version is not None else _versions_from(spec, since)
    dropped: list[str] = []
    with collector_paused():
        module = conversion.run(_checked_module(op))
        while True:
            try:
                data = bytecode.write(
                    module,
                    candidates.pop(0),
                    allow_testing=allow_testing,
                    for_target=for_target,
                    drop_hints=drop_hints,
                    warnings=dropped,
                )
                break
            except MigrationError as error:
                if not candidates:
                    _place(error, conversion.sources)
                    raise
    if warnings is not None:
        warnings += [*left_out(op), *(warning(None, message) for message in dropped)]
    return data


def left_out(module: Operation) -> list[Diagnostic]:
    """A warning about each attribute that the bytecode has no place for, at the first op that has it: an op's of
    `module` that does not declare it, or one of what stands around `module`."""
    around = module.parent_op()
    found = {name: [around] for name in (*around.properties, *around.attributes)} if around is not None else {}
    for op in ops_of(module):
        for name in op.attributes:
            found.setdefault(name, []).append(op)
    return [
        warning(
            source_location(ops[0].location),
            f"left out attribute '{name}' of {len(ops)} op{'s' if len(ops) > 1 else ''}: bytecode has no place for it",
        )
        for name, ops in found.items()
    ]


def _place(error: MigrationError, sources: Mapping[Any, Operation]) -> None:
    """Give the error the source position of its op, where debug information has not given it one."""
    source = sources.get(error.record)
    if error.location is None and source is not None and (place := source_location(source.location)):
        error.location = str(place)


def _versions_from(spec: Spec, since: Version | None) -> list[Version | str]:
    first = since or spec.compatibility
    return [v for v in spec.versions if v == first or (v >= first and v in spec.released_versions)]


def check_self_contained(module: Operation) -> None:
    """Raise DiagnosticError unless the module holds only what bytecode can: the reference writer's own checks."""
    place = source_location(module.location)
    body = module.regions[0].blocks
    for op in body[0].ops if body else ():
        if not (isinstance(op, CudaTileOp) and (op.spec.has_trait("function") or op.spec.name == "global")):
            raise DiagnosticError(
                [
                    _invalid_op(op),
                    error(place, f"'{module.name}' op only function and global ops are allowed in the body"),
                ]
            )
    for op in ops_of(module):
        if not isinstance(op, CudaTileOp):
            raise DiagnosticError(
                [_invalid_op(op), error(place, f"'{module.name}' op only ops from the 'cuda_tile' dialect are allowed")]
            )
        if op is not module and op.spec.name in CONTAINER_OPS and op.parent_op() is not module:
            problem = f"'{op.name}' op cannot stand in a function body"
            raise DiagnosticError([error(source_location(op.location), problem)])
        if op.spec.name in ("reduce", "scan"):
            _check_pure(op)


_HARMLESS = ("pure", "no_memory_effect", "recursive_memory_effects", "terminator")
"""Traits of ops without effects of their own: what the body of a reduction may hold, as the verifier says too."""


def _check_pure(parent: CudaTileOp) -> None:
    for region in parent.regions:
        for op in ops_of(region):
            if isinstance(op, CudaTileOp) and not any(op.spec.has_trait(trait) for trait in _HARMLESS):
                container = op.parent_op() or parent
                place = source_location(container.location)
                raise DiagnosticError(
                    [_invalid_op(op), error(place, f"'{container.name}' op only pure operations allowed")]
                )


def _invalid_op(op: Operation) -> Diagnostic:
    name = op.op_name.data if hasattr(op, "op_name") else op.name  # an unregistered op keeps its name in an attribute
    return remark(source_location(op.location), f"invalid op: {name}")


class _ToBytecode:
    """One conversion: the caches of types and locations, and the values seen so far."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._type = TypeWriter(spec).convert
        self._locations: dict[int, tuple[Attribute, bc.DebugInfo | None]] = {}
        self._values: dict[SSAValue, bc.Value] = {}
        self._writers: dict[str, list[tuple[AttributeSpec, Callable[[Any], Any]]]] = {}
        self._preview = False
        self.sources: dict[Any, Operation] = {}
        """The IR's op of each op written."""

    def run(self, op: CudaTileOp) -> bc.Module:
        module = bc.Module(
            self._spec,
            name=op.attribute_value("sym_name"),
            producer=op.attribute_value("producer"),
        )
        blocks = op.regions[0].blocks
        for inner in blocks[0].ops if blocks else ():
            assert isinstance(inner, CudaTileOp)  # checked by check_self_contained
            if inner.spec.name == "global":
                module.globals.append(self._global(inner))
            else:
                module.functions.append(self._function(inner))
        module.preview = self._preview
        return module

    def _global(self, op: CudaTileOp) -> bc.Global:
        value = op.properties["value"]
        assert isinstance(value, ir.DenseElementsAttr)
        return bc.Global(
            op.attribute_value("sym_name"),
            dense_to_bytecode(value, self._type),
            op.attribute_value("alignment") & MASK64,
            op.attribute_value("constant"),
            op.attribute_value("symbol_visibility"),
        )

    def _function(self, op: CudaTileOp) -> bc.Function:
        self._values = {}
        blocks = op.regions[0].blocks
        if len(blocks) != 1:
            raise self._error(op, "expected a function with one block")
        hints, arguments = op.properties.get("optimization_hints"), op.properties.get("arg_attrs")
        return bc.Function(
            op.attribute_value("sym_name"),
            self._type(op.properties["function_type"]),
            self._block(blocks[0]),
            kind=op.spec.name,
            hints=None if hints is None else self._converted(op, "optimization_hints", hints, self._hints),
            argument_attributes=() if arguments is None else self._converted(op, "arg_attrs", arguments, self._array),
            location=self._location(op),
        )

    def _hints(self, attr: ir.OptimizationHintsAttr) -> bc.OptimizationHints:
        return hints_to_bytecode(attr, self._type)

    def _array(self, attr: ArrayAttr) -> tuple[bc.Attribute, ...]:
        return tuple(attribute_to_bytecode(element, self._type) for element in attr.data)

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
            case UnknownLoc() | FileLineColLoc() | ir.FileLineColRange():
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

    def _block(self, block: Block) -> bc.Block:
        arguments = [bc.Value(self._type(a.type)) for a in block.args]
        self._values.update(zip(block.args, arguments))
        return bc.Block(arguments, [self._operation(op) for op in block.ops])

    def _operation(self, op: Operation) -> bc.Operation:
        assert isinstance(op, CudaTileOp)  # checked by check_self_contained
        spec = op.spec
        writers = self._writers.get(spec.name)
        if writers is None:
            # Preview ops are written into files that say so.
            self._preview |= spec.preview is not None
            writers = self._writers[spec.name] = [(a, self._writer(a)) for a in spec.attributes]
        properties = op.properties
        attributes: dict[str, Any] = {}
        for attribute, convert in writers:
            attr = properties.get(attribute.name)
            if attr is not None:
                attributes[attribute.name] = self._converted(op, attribute.name, attr, convert)
            elif attribute.default is not None:
                attributes[attribute.name] = _default(op, attribute)
        segments = op.segment_sizes() if spec.has_segments else None
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
        self.sources[result] = op
        result.results = [bc.Value(self._type(r.type)) for r in op.results]
        result.regions = [[self._block(b) for b in region.blocks] for region in op.regions]
        values.update(zip(op.results, result.results))
        return result

    def _writer(self, attribute: AttributeSpec) -> Callable[[Any], Any]:
        kind = attribute.kind
        if kind in self._spec.enums:
            return lambda attr: attr.keyword
        if kind == "bool":
            return lambda attr: bool(attr.value.data)
        if kind in INTEGER_TYPES or kind == "test_value":
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
            return self._array
        return lambda attr: attribute_to_bytecode(attr, self._type)

    def _converted(self, op: CudaTileOp, name: str, attr: Attribute, convert: Callable[[Any], Any]) -> Any:
        try:
            return convert(attr)
        except (AttributeError, ValueError):  # of another class than declared, or without a form in the bytecode
            message = f"unsupported attribute type encountered during serialization of attribute '{name}'"
            raise self._error(op, message) from None

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
