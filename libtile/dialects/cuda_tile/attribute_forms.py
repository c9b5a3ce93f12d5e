# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the dialect's attributes hold and how they are spelled, whichever IR they are of: xDSL's or `light`.

A class here is the base of both. `text()` is the spelling after the dialect's `#cuda_tile.` prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from libtile.dialects.cuda_tile.type_forms import TileForm, bit_width
from libtile.ir.forms import Attribute, FileLineColLoc
from libtile.ir.members import DataField
from libtile.spec import default_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    from xdsl.ir import Data

    from libtile.spec.model import EnumSpec

    class _Base(Data[Any]):
        """What a subclass derives from beside its form."""
else:
    _Base = object


class AttributeForm(_Base):
    """Base of the dialect's attributes: a value (`data`), a mnemonic and a textual body with its brackets."""

    __slots__ = ()

    mnemonic: ClassVar[str]
    data: Any

    def body(self) -> str:
        """The text that follows the mnemonic, `<...>` included. Of what holds attributes it is `attribute_text`'s."""
        raise TypeError(f"{type(self).__name__} has no textual body")  # every class of either IR has one

    def text(self) -> str:
        return self.mnemonic + self.body()

    def __str__(self) -> str:
        return "#cuda_tile." + self.text()


class EnumForm(AttributeForm):
    """A case of one of the enums in the spec, e.g. `EnumForm("RoundingMode", "nearest_even")`.

    `enum` is the declaration, or the name of one of the default spec. ValueError when it has no such case.
    """

    __slots__ = ()

    spec: EnumSpec

    enum = DataField[str](0)
    keyword = DataField[str](1)

    def __init__(self, enum: EnumSpec | str, keyword: str):
        declared = default_spec().enums[enum] if isinstance(enum, str) else enum
        if keyword not in declared.by_keyword:
            raise ValueError(f"{keyword!r} is not a case of {declared.name}")
        super().__init__((declared.name, keyword))
        # Beside the data: the same case of an enum that an overlay extends is equal.
        object.__setattr__(self, "spec", declared)

    @property
    def value(self) -> int:
        return self.spec.by_keyword[self.keyword].value

    def body(self) -> str:
        return f"<{self.keyword}>"

    def text(self) -> str:
        return self.spec.attr + self.body()


class DivByForm(AttributeForm):
    """`div_by<16>` or `div_by<4, every 4 along 1>`."""

    __slots__ = ()
    mnemonic = "div_by"

    divisor = DataField[int](0)
    every = DataField[int | None](1)
    along = DataField[int | None](2)

    def __init__(self, divisor: int, every: int | None = None, along: int | None = None):
        super().__init__((divisor, every, along))

    def body(self) -> str:
        tail = "" if self.every is None else f", every {self.every}"
        tail += "" if self.along is None else f" along {self.along}"
        return f"<{self.divisor}{tail}>"

    def is_false_of(self, numbers: Sequence[int]) -> bool:
        """Whether all elements of a value are known, and are not so."""
        return self.every is None and any(number % self.divisor for number in numbers)


class SameElementsForm(AttributeForm):
    """`same_elements<[2, 4]>`: the tile is made of boxes of this shape, each of one value."""

    __slots__ = ()
    mnemonic = "same_elements"

    def __init__(self, values: Sequence[int]):
        super().__init__(tuple(values))

    @property
    def values(self) -> tuple[int, ...]:
        return self.data

    def body(self) -> str:
        return f"<[{', '.join(map(str, self.values))}]>"

    def is_false_of(self, numbers: Sequence[int]) -> bool:
        """Whether all elements of a value are known, and are not so; not found out."""
        return False


class BoundedForm(AttributeForm):
    """`bounded<0, ?>`: inclusive signed bounds; None leaves one open."""

    __slots__ = ()
    mnemonic = "bounded"

    lower = DataField[int | None](0)
    upper = DataField[int | None](1)

    def __init__(self, lower: int | None, upper: int | None):
        super().__init__((lower, upper))

    def body(self) -> str:
        lower, upper = ("?" if b is None else str(b) for b in self.data)
        return f"<{lower}, {upper}>"

    def is_false_of(self, numbers: Sequence[int]) -> bool:
        """Whether all elements of a value are known, and are not so."""
        lower, upper = self.lower, self.upper
        return any((lower is not None and n < lower) or (upper is not None and n > upper) for n in numbers)


class OptimizationHintsForm(AttributeForm):
    """`optimization_hints=<sm_100 = {num_cta_in_cga = 8}>`: by architecture, by key, an attribute."""

    __slots__ = ()
    mnemonic = "optimization_hints"

    def __init__(self, hints: Mapping[str, Mapping[str, Attribute]]):
        super().__init__(tuple((arch, tuple(keys.items())) for arch, keys in hints.items()))

    @property
    def hints(self) -> dict[str, dict[str, Attribute]]:
        """A fresh mapping, in the order of the source."""
        return {arch: dict(keys) for arch, keys in self.data}


class DenseElementsForm(AttributeForm):
    """The value of a tile constant: its type, and its elements as little-endian bytes.

    Elements take whole bytes, `ceil(bits / 8)` each (tf32: 4), except i1, which takes one byte (0 or 1) each.
    A splat holds one element.
    """

    __slots__ = ()
    mnemonic = "dense"

    type = DataField[TileForm](0)
    raw = DataField[bytes](1)

    def __init__(self, type_: TileForm, raw: bytes):
        super().__init__((type_, raw))

    @property
    def element_bytes(self) -> int:
        return element_storage_bytes(self.type.element_type)

    @property
    def is_splat(self) -> bool:
        return len(self.raw) == self.element_bytes

    def elements(self) -> list[int]:
        """The bit pattern of every element stored (one for a splat), in row-major order."""
        width = self.element_bytes
        return [int.from_bytes(self.raw[i : i + width], "little") for i in range(0, len(self.raw), width)]

    @property
    def memory_bytes(self) -> int:
        """How many bytes `memory` has."""
        packed = bit_width(self.type.element_type) == 4
        return self.type.num_elements // 2 if packed else self.type.num_elements * self.element_bytes

    def memory(self) -> bytes:
        """All elements of the type as they lie in memory: tf32 as an f32, 4-bit ones two to a byte, the first lower.

        The reference assembler initialises globals so.
        """
        count = self.type.num_elements
        if not self.is_splat or count == 1:
            return self._in_memory(self.raw)
        return self._in_memory(self.raw * 2) * (count // 2)

    def _in_memory(self, raw: bytes) -> bytes:
        bits = bit_width(self.type.element_type)
        if bits == 4:
            return bytes(low | high << 4 for low, high in zip(raw[::2], raw[1::2]))
        if bits == 19:
            words = (int.from_bytes(raw[i : i + 4], "little") << 13 for i in range(0, len(raw), 4))
            return b"".join(word.to_bytes(4, "little") for word in words)
        return raw


def element_storage_bytes(element_type: Attribute) -> int:
    """Bytes that one element of a tile constant takes: whole bytes, a power of two of them (tf32 takes 4)."""
    size = (bit_width(element_type) + 7) // 8
    return 1 << (size - 1).bit_length()


class TestValueForm(AttributeForm):
    """The attribute of the testing versions."""

    __slots__ = ()
    mnemonic = "bytecode_test_value"

    def __init__(self, value: int):
        super().__init__(value)

    @property
    def value(self) -> int:
        return self.data

    def body(self) -> str:
        return f"<{self.data}>"


class DebugForm(AttributeForm):
    """Base of the debug-information records; fields are named as in `spec/data/attributes.toml`."""

    __slots__ = ()

    fields: ClassVar[tuple[str, ...]]

    def __getattr__(self, name: str) -> Any:
        fields = type(self).fields
        if name in fields:
            return self.data[fields.index(name)]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class DIFileForm(DebugForm):
    """`#cuda_tile.di_file<"file.py" in "/directory">`."""

    __slots__ = ()
    mnemonic = "di_file"
    fields = ("file_name", "directory")

    def __init__(self, file_name: str, directory: str):
        super().__init__((file_name, directory))


class DICompileUnitForm(DebugForm):
    __slots__ = ()
    mnemonic = "di_compile_unit"
    fields = ("file",)

    def __init__(self, file: DIFileForm):
        super().__init__((file,))


class DISubprogramForm(DebugForm):
    __slots__ = ()
    mnemonic = "di_subprogram"
    fields = ("file", "line", "subprogram_name", "linkage_name", "compile_unit", "scope_line", "flags")

    def __init__(
        self,
        file: DIFileForm,
        line: int,
        subprogram_name: str,
        linkage_name: str,
        compile_unit: DICompileUnitForm,
        scope_line: int,
        flags: int = 0,
    ):
        super().__init__((file, line, subprogram_name, linkage_name, compile_unit, scope_line, flags))


class DILexicalBlockForm(DebugForm):
    __slots__ = ()
    mnemonic = "di_lexical_block"
    fields = ("scope", "file", "line", "column")

    def __init__(self, scope: Attribute, file: DIFileForm, line: int, column: int):
        super().__init__((scope, file, line, column))


class DILocForm(DebugForm):
    """A location with its debug scope: `#cuda_tile.di_loc<loc("file":line:col) in #scope>`."""

    __slots__ = ()
    mnemonic = "di_loc"
    fields = ("scope", "filename", "line", "column")

    def __init__(self, scope: Attribute, filename: str, line: int, column: int):
        super().__init__((scope, filename, line, column))

    def position(self) -> FileLineColLoc:
        """The place without the scope."""
        raise TypeError(f"{type(self).__name__} has no position")  # every subclass has one
