# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records that the PTX parser produces: modules, functions, variables, instructions and operands."""

from __future__ import annotations

from typing import Any

from libtile.support.records import dataclass, field

from .types import PtxType


@dataclass(slots=True, frozen=True)
class Reg:
    """A register: its index in the function's register table."""

    index: int
    type: PtxType
    name: str


@dataclass(slots=True, frozen=True)
class Special:
    """A predefined special register such as `%tid.x`."""

    name: str


@dataclass(slots=True, frozen=True)
class Imm:
    """A literal: an int, a float (decimal floating literal), or the bits of a 0f/0d literal with `bits` 32 or 64."""

    value: int | float
    bits: int = 0


@dataclass(slots=True, frozen=True)
class Sym:
    """The address (or, in a call or branch, the name) of a variable, function or label."""

    name: str
    offset: int = 0


@dataclass(slots=True, frozen=True)
class Addr:
    """`[base+offset]`; `extra` holds tensor coordinates when the bracket has them."""

    base: Reg | Sym | None
    offset: int = 0
    extra: tuple[Any, ...] = ()


@dataclass(slots=True, frozen=True)
class Vec:
    """`{a, b, ...}`."""

    items: tuple[Any, ...]


@dataclass(slots=True, frozen=True)
class Pair:
    """`p|q`: two destinations."""

    first: Any
    second: Any


@dataclass(slots=True, frozen=True)
class Not:
    """`!p`."""

    reg: Reg


@dataclass(slots=True, frozen=True)
class Neg:
    """`-r` in front of a register operand (accepted where the ISA accepts it)."""

    reg: Reg


@dataclass(slots=True, frozen=True)
class Sink:
    """The bit bucket `_`."""


@dataclass(slots=True, frozen=True)
class Group:
    """`(a, b)`: parenthesised list of a call."""

    items: tuple[Any, ...]


Operand = Reg | Special | Imm | Sym | Addr | Vec | Pair | Not | Neg | Sink | Group


@dataclass(slots=True)
class Variable:
    """A variable of any state space. `size` is bytes (0 for `extern []`); `init` is its initial image, or None."""

    name: str
    space: str
    type: PtxType
    align: int
    size: int
    init: bytes | None = None
    # Addresses that the initialiser takes: (byte offset, width, symbol, addend, is generic, right shift or byte mask)
    relocations: list[tuple[int, int, str, int, bool, int]] = field(default_factory=list)
    line: int = 0
    linkage: str = ""
    unique: str = ""


@dataclass(slots=True, frozen=True)
class Location:
    """A source position from `.loc`; `caller` is where the code was inlined."""

    file: str
    line: int
    caller: tuple[str, int] | None = None


@dataclass(slots=True)
class Instruction:
    """One PTX instruction, operands resolved."""

    opcode: str
    modifiers: tuple[str, ...]
    guard: tuple[Reg, bool] | None
    operands: tuple[Any, ...]
    line: int
    column: int
    text: str
    source: Location | None = None

    @property
    def name(self) -> str:
        return ".".join((self.opcode, *self.modifiers))

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers


@dataclass(slots=True)
class Label:
    """A position in a body."""

    name: str
    line: int


@dataclass(slots=True)
class Parameter:
    """A formal parameter of a function. `reg` is set when the parameter is a register."""

    name: str
    type: PtxType
    align: int
    size: int
    array: bool
    reg: Reg | None = None
    pointer: bool = False


@dataclass(slots=True)
class Function:
    """An `.entry` or `.func`."""

    name: str
    entry: bool
    line: int
    linkage: str = ""
    params: list[Parameter] = field(default_factory=list)
    returns: list[Parameter] = field(default_factory=list)
    registers: list[Reg] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[Instruction | Label] | None = None
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    branch_targets: dict[str, list[str]] = field(default_factory=dict)
    prototypes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Module:
    """A parsed PTX file."""

    filename: str
    version: str
    target: tuple[str, ...]
    address_size: int
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    source: str = ""
    # Whether the code asks for the shared memory that is reserved for system software.
    reserved_shared: bool = False
    # Compiled programs of this module, by the options they were compiled for.
    cache: dict[Any, Any] = field(default_factory=dict)
