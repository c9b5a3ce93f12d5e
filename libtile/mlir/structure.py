# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The structural form: a module in which MLIR's own passes see functions, loops, branches and what has no effects.

Nothing of Tile IR is registered with MLIR, whose passes leave unknown ops alone. So what they could work on is written
with ops that they know:

- modules and functions as `builtin.module` and `func.func`, calls as `func.call`;
- `for` and `if` as those of scf, where no exit leaves them early;
- integers of one element as i1 to i64, and what is computed of them as arith;
- every other op that has no effects and is defined for all operands as `builtin.unrealized_conversion_cast`, which
  has none either: a carrier. A first operand of type `none` keeps MLIR from folding it away as the cast that it is not.

What is left (memory, control that leaves early, regions of reductions) stays as it is: an unregistered op, that may do
anything. One with a single region gets an empty second one, as MLIR takes it for a symbol table else, and refuses to
look for uses of symbols; and what stands in regions that are not control flow is unregistered, all of it, as a region
need not be one that may use what stands around it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NoReturn

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    NoneType,
    StringAttr,
    UnitAttr,
    UnrealizedConversionCastOp,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.asm.xdsl_bridge import load_dialect, make_context
from libtile.dialects import scf
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp
from libtile.dialects.interfaces import control_flow, exit_of
from libtile.dialects.nv_tileaa.functions import CallOp, FuncOp
from libtile.ir.locations import set_location
from libtile.ir.tile_form import TileOp
from libtile.mlir.scalars import from_arith, scalar_type, tile_type, to_arith
from libtile.support.errors import LibtileError
from libtile.transforms.canonical_values import selectable
from libtile.transforms.effects import is_speculatable, leaves_region

NAME = "libtile.op"
"""On what stands for an op: that op's name."""

PROPERTIES = "libtile.properties"
"""On what stands for an op: its properties, which are not those of what stands for it."""

OPAQUE = "libtile.opaque"
"""The name of an op that stands for one that MLIR knows, where it must not be touched."""

FORM = "libtile.form"
"""On an op with a single region: the second one is there for MLIR only."""


class _Copy(ABC):
    """Copies ops, whose values and blocks have others in their place."""

    def __init__(self) -> None:
        self.values: dict[SSAValue, SSAValue] = {}
        self.blocks: dict[Block, Block] = {}

    def typed(self, type_: Attribute) -> Attribute:
        return type_

    def types(self, values: Sequence[SSAValue]) -> list[Attribute]:
        return [self.typed(value.type) for value in values]

    def operands(self, op: Operation) -> list[SSAValue]:
        return [self.values[value] for value in op.operands]

    def region(self, region: Region) -> Region:
        """The region with its blocks, which are filled in their order."""
        made = Region()
        for block in region.blocks:
            copy = self.blocks[block] = Block(arg_types=self.types(block.args))
            for argument, new in zip(block.args, copy.args):
                self.values[argument] = new
                set_location(new, argument.location)
            made.add_block(copy)
        for block in region.blocks:
            for op in block.ops:
                self.op(op, self.blocks[block])
        return made

    @abstractmethod
    def op(self, op: Operation, block: Block) -> None:
        """Copy an op to a block, or what stands for it."""

    def place(self, op: Operation, made: Operation, block: Block) -> None:
        """Add what stands for an op."""
        set_location(made, op.location)
        block.add_op(made)
        self.values.update(zip(op.results, made.results))

    def like(
        self,
        op: Operation,
        cls: type[Operation],
        regions: Sequence[Region] = (),
        properties: Mapping[str, Attribute] | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Operation:
        """An op with the operands, results and successors of another."""
        return cls.create(
            operands=self.operands(op),
            result_types=self.types(op.results),
            successors=[self.blocks[block] for block in op.successors],
            regions=regions,
            properties=properties or {},
            attributes=attributes or {},
        )


class _ToStructure(_Copy):
    def __init__(self, tiles: bool):
        super().__init__()
        self._tiles = tiles
        self._untouched = False
        self._marker: SSAValue | None = None
        self._converted: set[Operation] = set()
        """Ops whose regions end as those of scf and func do."""

    def typed(self, type_: Attribute) -> Attribute:
        return scalar_type(type_) if self._tiles else type_

    def op(self, op: Operation, block: Block) -> None:
        self.place(op, self._made(op), block)

    def _made(self, op: Operation) -> Operation:
        if self._untouched:
            return self._opaque(op)
        if _is_function(op):
            return self._function(op)
        if isinstance(op, CallOp):
            return self.like(op, func.CallOp, (), properties={"callee": op.callee}, attributes=_named(op, ("callee",)))
        if op.parent_op() in self._converted and exit_of(op) is not None:
            return self._end(op)
        if isinstance(op, CudaTileOp):
            made = to_arith(op, self.operands(op)) or self._control(op)
            if made is not None:
                made.attributes.update(op.attributes)
                return made
        if isinstance(op, CudaTileOp | TileOp):
            return self._carrier(op) if _is_carried(op) else self._unknown(op)
        regions = [self.region(region) for region in op.regions]
        return self.like(op, type(op), regions, properties=dict(op.properties), attributes=dict(op.attributes))

    def _function(self, op: Operation) -> Operation:
        self._converted.add(op)
        marker = UnrealizedConversionCastOp.create(result_types=[NoneType()])
        self._marker = marker.results[0]
        body = self.region(op.regions[0])
        first = body.first_block
        if first is not None:
            set_location(marker, op.location)
            first.insert_ops_before([marker], first.first_op) if first.first_op else first.add_op(marker)
        given = op.properties["function_type"]
        assert isinstance(given, FunctionType)
        type_ = FunctionType.from_lists([*map(self.typed, given.inputs)], [*map(self.typed, given.outputs)])
        properties: dict[str, Attribute] = {"sym_name": op.properties["sym_name"], "function_type": type_}
        if isinstance(op, FuncOp) and op.sym_visibility is not None:
            properties["sym_visibility"] = op.sym_visibility
        attributes = _named(op, ("sym_name", "function_type"))
        return func.FuncOp.create(regions=[body], properties=properties, attributes=attributes)

    def _end(self, op: Operation) -> Operation:
        cls = func.ReturnOp if _is_function(op.parent_op()) else scf.YieldOp
        return self.like(op, cls, (), attributes=_named(op) if cls is func.ReturnOp else dict(op.attributes))

    def _control(self, op: CudaTileOp) -> Operation | None:
        """A loop or branch of scf, where all that leaves the op's regions is what ends them."""
        flow = control_flow(op)
        if flow is None or leaves_region(op) or _is_left_early(op):
            return None
        if isinstance(op, OPS["for"]):
            self._converted.add(op)
            return self.like(op, scf.ForOp, [self.region(op.regions[0])], attributes=dict(op.properties))
        if isinstance(op, OPS["if"]) and all(selectable(result.type) for result in op.results):
            self._converted.add(op)
            return self.like(op, scf.IfOp, [self.region(region) for region in op.regions])
        return None

    def _carrier(self, op: Operation) -> Operation:
        assert self._marker is not None  # every function has one
        return UnrealizedConversionCastOp.create(
            operands=[self._marker, *self.operands(op)], result_types=self.types(op.results), attributes=_named(op)
        )

    def _unknown(self, op: Operation) -> Operation:
        """The op itself, whose regions are left alone where they are not control flow."""
        outer, self._untouched = self._untouched, self._untouched or control_flow(op) is None
        regions, attributes = self._regions(op)
        self._untouched = outer
        return self.like(
            op, type(op), regions, properties=dict(op.properties), attributes=dict(op.attributes) | attributes
        )

    def _opaque(self, op: Operation) -> Operation:
        if isinstance(op, CudaTileOp | TileOp):
            return self._unknown(op)
        regions, attributes = self._regions(op)
        return self.like(op, UnregisteredOp.with_name(OPAQUE), regions, attributes=_named(op) | attributes)

    def _regions(self, op: Operation) -> tuple[list[Region], dict[str, Attribute]]:
        regions = [self.region(region) for region in op.regions]
        return ([*regions, Region()], {FORM: UnitAttr()}) if len(regions) == 1 else (regions, {})


def _is_function(op: Operation | None) -> bool:
    return isinstance(op, FuncOp) or (isinstance(op, CudaTileOp) and op.spec.has_trait("function"))


def _is_carried(op: Operation) -> bool:
    return bool(op.results) and not op.regions and not op.successors and is_speculatable(op)


def _is_left_early(op: Operation) -> bool:
    """Whether an exit to the op stands deeper than at the end of its own regions."""
    ends = {block.last_op for region in op.regions for block in region.blocks}
    exits = ((inner, exit_of(inner)) for inner in op.walk() if inner not in ends)
    return any(exit_ is not None and exit_.target(inner) is op for inner, exit_ in exits)


def _named(op: Operation, but: Sequence[str] = ()) -> dict[str, Attribute]:
    """The attributes that say what an op is, on one that stands for it."""
    kept = {name: value for name, value in op.properties.items() if name not in but}
    return {**op.attributes, NAME: StringAttr(op.name), **({PROPERTIES: DictionaryAttr(kept)} if kept else {})}


def to_structure(module: Operation) -> ModuleOp:
    """The structural form of a module of any of the three dialects; the module itself stays as it is."""
    copy = _ToStructure(isinstance(module, CudaTileOp))
    made = ModuleOp(copy.region(module.regions[0]))
    symbol = module.properties.get("sym_name")
    if isinstance(symbol, StringAttr):
        made.properties["sym_name"] = symbol
    made.attributes.update(_named(module, ("sym_name",)))
    set_location(made, module.location)
    return made


class _FromStructure(_Copy):
    def __init__(self, tiles: bool):
        super().__init__()
        self._tiles = tiles
        self._context = make_context(allow_unregistered=False)

    def typed(self, type_: Attribute) -> Attribute:
        return tile_type(type_) if self._tiles else type_

    def op(self, op: Operation, block: Block) -> None:
        if isinstance(op, UnrealizedConversionCastOp):
            if NAME in op.attributes:
                self._uncarried(op, block)
            elif op.operands:
                self._refuse(op, "a cast that is none of libtile's")
        elif self._tiles and op.name.startswith("arith."):
            made = from_arith(op, self.operands(op))
            for helper in made[:-1]:
                set_location(helper, op.location)
                block.add_op(helper)
            made[-1].attributes.update(op.attributes)
            self.place(op, made[-1], block)
        else:
            self.place(op, self._made(op), block)

    def _made(self, op: Operation) -> Operation:
        if isinstance(op, func.FuncOp):
            return self._function(op)
        if isinstance(op, func.CallOp):
            return self._named(op, {"callee": op.callee})
        if NAME in op.attributes:
            return self._named(op, {})
        if self._tiles and isinstance(op, scf.ForOp | scf.IfOp | scf.YieldOp):
            return self._control(op)
        return self.like(op, type(op), self._regions(op), properties=dict(op.properties), attributes=_plain(op))

    def _function(self, op: func.FuncOp) -> Operation:
        given = op.function_type
        type_ = FunctionType.from_lists([*map(self.typed, given.inputs)], [*map(self.typed, given.outputs)])
        return self._named(op, {"sym_name": op.sym_name, "function_type": type_})

    def _named(self, op: Operation, properties: dict[str, Attribute]) -> Operation:
        """The op that `op` stands for."""
        properties = {**properties, **_properties(op)}
        return self.like(op, self._class(op), self._regions(op), properties=properties, attributes=_plain(op))

    def _uncarried(self, op: UnrealizedConversionCastOp, block: Block) -> None:
        cls = self._class(op)
        _, *carried = op.inputs  # behind the `none` that keeps MLIR from folding it
        operands = [self.values[value] for value in carried]
        types = self.types(op.results)
        made = cls.create(operands=operands, result_types=types, properties=_properties(op), attributes=_plain(op))
        self.place(op, made, block)

    def _control(self, op: Operation) -> Operation:
        if isinstance(op, scf.YieldOp):
            cls = OPS["continue" if isinstance(op.parent_op(), scf.ForOp) else "yield"]
            return self.like(op, cls, (), attributes=_plain(op))
        name = "for" if isinstance(op, scf.ForOp) else "if"
        attributes = _plain(op)
        declared = {a.name for a in OPS[name].spec.attributes}
        properties = {key: attributes.pop(key) for key in declared & set(attributes)}
        return self.like(op, OPS[name], self._regions(op), properties=properties, attributes=attributes)

    def _regions(self, op: Operation) -> list[Region]:
        return [self.region(region) for region in (op.regions[:1] if FORM in op.attributes else op.regions)]

    def _class(self, op: Operation) -> type[Operation]:
        name = op.attributes.get(NAME)
        if not isinstance(name, StringAttr):
            self._refuse(op, f"without the '{NAME}' of the op that it stands for")
        dialect, _, mnemonic = name.data.partition(".")
        found: type[Operation] | None
        if dialect == "cuda_tile":
            found = OPS.get(mnemonic)
        else:
            load_dialect(self._context, dialect)
            found = self._context.get_optional_op(name.data)
        if found is None:
            self._refuse(op, f"for '{name.data}', which no dialect has")
        return found

    def _refuse(self, op: Operation, why: str) -> NoReturn:
        raise LibtileError(f"the module is not what to_mlir gave, and MLIR's passes made of it: a '{op.name}' {why}")


def _properties(op: Operation) -> dict[str, Attribute]:
    found = op.attributes.get(PROPERTIES)
    return dict(found.data) if isinstance(found, DictionaryAttr) else {}


def _plain(op: Operation) -> dict[str, Attribute]:
    """The op's own attributes."""
    return {name: value for name, value in op.attributes.items() if name not in (NAME, PROPERTIES, FORM, "op_name__")}


def is_structure(module: Operation) -> bool:
    """Whether a module is one in the structural form."""
    return NAME in module.attributes


def from_structure(module: Operation) -> Operation:
    """The module that one in the structural form stands for; LibtileError for what stands for nothing."""
    name = module.attributes[NAME]
    tiles = name != StringAttr("builtin.module")
    copy = _FromStructure(tiles)
    body = copy.region(module.regions[0])
    symbol = {"sym_name": module.properties["sym_name"]} if "sym_name" in module.properties else {}
    cls: type[Operation] = OPS["module"] if tiles else ModuleOp
    properties = symbol | _properties(module)
    made = cls.create(regions=[body], properties=properties, attributes=_plain(module))
    set_location(made, module.location)
    return made
