# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `bridge` makes `light` IR of. `kit_xdsl` has the same names."""

from __future__ import annotations

from libtile.dialects.cuda_tile import attribute_forms as attributes
from libtile.dialects.cuda_tile import type_forms as types
from libtile.dialects.cuda_tile.attribute_text import body_text
from libtile.dialects.cuda_tile.op_forms import OpForm
from libtile.ir import light
from libtile.ir.light import UNKNOWN_LOC as UNKNOWN_LOC
from libtile.ir.light import ArrayAttr as ArrayAttr
from libtile.ir.light import Block as Block
from libtile.ir.light import CallSiteLoc, DenseArrayBase, FunctionType, IntegerAttr
from libtile.ir.light import DictionaryAttr as DictionaryAttr
from libtile.ir.light import FloatAttr as FloatAttr
from libtile.ir.light import Region as Region
from libtile.ir.light import StringAttr as StringAttr
from libtile.ir.light import SymbolRefAttr as SymbolRefAttr
from libtile.ir.light import UnitAttr as UnitAttr
from libtile.spec import default_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from libtile.spec import Spec
    from libtile.spec.model import AttributeSpec

integer = IntegerAttr
function_type = FunctionType
call_site_loc = CallSiteLoc
dense_array = DenseArrayBase
put_in = Block.add_ops

# -- types ------------------------------------------------------------------------------------------------------------

NUMBER_TYPES: dict[str, light.NumberType] = {
    name: light.IntegerType(name, declared.bits) if declared.kind == "integer" else light.NumberType(name)
    for name, declared in default_spec().types.items()
    if declared.number is not None
}

types.NUMBER_NAMES.update({type_: name for name, type_ in NUMBER_TYPES.items()})  # type: ignore[misc]


def _light(form: type, base: type, **members: Any) -> Any:
    """The class of a form as light IR: its objects have no more than what the base holds."""
    name = form.__name__.replace("Form", "Type" if base is _Type else "Attr")
    return type(name, (form, base), {"__slots__": (), "__module__": __name__, **members})


class _Type(light.Data, light.TypeAttribute):
    __slots__ = ()


PointerType = _light(types.PointerForm, _Type)
TileType = _light(types.TileForm, _Type)
TensorViewType = _light(types.TensorViewForm, _Type)
PartitionViewType = _light(types.PartitionViewForm, _Type, tile_class=TileType)
StridedViewType = _light(types.StridedViewForm, _Type, tile_class=TileType)
GatherScatterViewType = _light(types.GatherScatterViewForm, _Type, tile_class=TileType)
TokenType = _light(types.TokenForm, _Type)
TestEvolvedType = _light(types.TestEvolvedForm, _Type)

# -- attributes -------------------------------------------------------------------------------------------------------


class _Attribute(light.Data):
    __slots__ = ()

    mnemonic: str

    @property
    def name(self) -> str:
        """As xDSL's classes have it."""
        return f"cuda_tile.{self.mnemonic}"


EnumAttr = _light(attributes.EnumForm, _Attribute, __slots__=("spec",))
DivByAttr = _light(attributes.DivByForm, _Attribute)
SameElementsAttr = _light(attributes.SameElementsForm, _Attribute)
BoundedAttr = _light(attributes.BoundedForm, _Attribute)
OptimizationHintsAttr = _light(attributes.OptimizationHintsForm, _Attribute, body=body_text)
DenseElementsAttr = _light(attributes.DenseElementsForm, _Attribute, body=body_text)
TestValueAttr = _light(attributes.TestValueForm, _Attribute)
DIFileAttr = _light(attributes.DIFileForm, _Attribute, body=body_text)
DICompileUnitAttr = _light(attributes.DICompileUnitForm, _Attribute, body=body_text)
DISubprogramAttr = _light(attributes.DISubprogramForm, _Attribute, body=body_text)
DILexicalBlockAttr = _light(attributes.DILexicalBlockForm, _Attribute, body=body_text)


def _position(location: Any) -> light.FileLineColLoc:
    return light.FileLineColLoc(location.filename, location.line, location.column)


DILocAttr = _light(attributes.DILocForm, _Attribute, body=body_text, position=_position)

# -- ops --------------------------------------------------------------------------------------------------------------


def _default_of(cls: Any, attribute: AttributeSpec) -> Any:
    if attribute.default is None or attribute.kind == "bool_array":
        return None
    from libtile.dialects.cuda_tile import kit_light
    from libtile.dialects.cuda_tile.values_from_bytecode import TypeReader, value_reader

    return value_reader(attribute, cls.dialect, TypeReader(kit_light))(attribute.default)


class _OpClasses(dict):
    """The classes of the ops of a spec, by mnemonic; each is made when it is first asked for."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def __missing__(self, name: str) -> Any:
        made = self[name] = type(
            name,
            (OpForm, light.Operation),
            {
                "__slots__": (),
                "name": f"cuda_tile.{name}",
                "spec": self.spec.ops[name],
                "dialect": self.spec,
                "default_of": classmethod(_default_of),
            },
        )
        return made


def op_classes(spec: Spec) -> Mapping[str, Any]:
    """The op classes of a spec, those of the package's own once for all."""
    global _classes
    if _classes is None or _classes.spec is not spec:
        _classes = _OpClasses(spec)
    return _classes


_classes: _OpClasses | None = None
