# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What can be launched in a module: the entries of Tile IR, and the kernels of the inner dialects, with the numbers and
addresses that each takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import TileType, type_text
from libtile.dialects.cuda_tile.verify.debug_info import debug_location, subprogram_of
from libtile.interpreter.formats import Element, element
from libtile.support.errors import LibtileError, visible
from libtile.support.records import dataclass

INNER_FUNCTION = "nv_tileaa.func"
LAUNCH = "nv_tileaa.launch_func"
"""Known by their names, as programs of Tile IR do not load the inner dialects."""


class LaunchError(LibtileError):
    """A kernel cannot be launched with what was given; the message says what its entry expects."""


class ParametersError(LaunchError):
    """What was given does not fit the kernel's parameters, which are listed, one on a line."""

    several_lines = True


@dataclass(frozen=True)
class Parameter:
    """One parameter of a launch: its type as it is written, the element that it is, and its name (empty: it has none).

    `element` is None for what no launch can give."""

    text: str
    element: Element | None
    name: str = ""

    @property
    def pointee(self) -> Element | None:
        """What a pointer points to; None for a number."""
        return self.element.pointee if self.element is not None else None


@dataclass(frozen=True)
class Entry:
    """A kernel that can be launched, or a function of the `host` that launches some: its op, name, parameters in order,
    and what its source calls it, by debug information: frontends put what a kernel was compiled for into the name.
    """

    op: Operation
    name: str
    parameters: tuple[Parameter, ...]
    host: bool = False
    source_name: str = ""

    def describe(self) -> str:
        """One line for each parameter: its position, its name if it has one, its type and what to give."""
        from libtile.interpreter.roles import roles

        known = roles(self.op)
        lines = []
        for position, parameter in enumerate(self.parameters):
            name = f" %{visible(parameter.name)}" if parameter.name else ""
            given = "an array" if parameter.pointee is not None else "a number"
            if position in known:
                given = " and ".join(map(str, known[position]))
            lines.append(f"  {position}:{name} {parameter.text} ({given})")
        title = f"@{visible(self.name)} takes {len(lines)} parameter{'' if len(lines) == 1 else 's'}"
        return "\n".join([title + (":" if lines else ""), *lines])

    def miscounted(self, given: int) -> ParametersError:
        """The error for another number of arguments than there are parameters."""
        from libtile.interpreter.roles import roles

        derived = roles(self.op)
        rest = [str(place) for place in range(len(self.parameters)) if place not in derived]
        fewer = f"\n{', '.join(rest)} will do: sizes and strides are then the arrays' own" if derived else ""
        return ParametersError(f"{given} argument{'' if given == 1 else 's'} given; {self.describe()}{fewer}")


def entries(module: Operation) -> Iterator[Entry]:
    """The kernels of a module (or of all modules in a `builtin.module`)."""
    for op in module.walk():
        if isinstance(op, CudaTileOp) and op.spec.name == "entry":
            yield _entry_of_tile_ir(op)
        elif op.name == INNER_FUNCTION:
            yield from _inner_entries(op)


def titles(module: Operation) -> dict[str, str]:
    """What each kernel of a module is called, by its name: as in its source, where that is the name of one alone."""
    found = list(entries(module))
    shared = Counter(e.source_name or e.name for e in found)
    return {e.name: e.source_name if shared[e.source_name] == 1 else e.name for e in found}


def find_entry(module: Operation, kernel: str | None) -> Entry:
    """The entry named `kernel`, or called so in its source if no other is; the host function of that name; the only
    entry when `kernel` is None. LaunchError when there is none such."""
    found = list(entries(module))
    names = [e.name for e in found]
    if kernel is None and len(found) == 1:
        return found[0]
    if kernel in names:
        return found[names.index(kernel)]
    called = [e for e in found if e.source_name == kernel]
    if len(called) == 1:
        return called[0]
    for host in host_functions(module):
        if host.name == kernel:
            return host
    if not names:
        raise LaunchError("the module has no kernel")
    what = f"has no kernel named {kernel!r}" if kernel is not None else "has several kernels: name one"
    raise LaunchError(f"the module {what} (its kernels: {', '.join(names)})")


def _entry_of_tile_ir(op: CudaTileOp) -> Entry:
    def parameter(type_: Attribute, name: str | None) -> Parameter:
        return Parameter(type_text(type_), element(type_) if isinstance(type_, TileType) else None, name or "")

    parameters = tuple(parameter(a.type, a.name_hint) for a in op.regions[0].block.args)
    location = debug_location(op.location)
    scope = None if location is None else subprogram_of(location.scope)
    source_name = "" if scope is None else scope.subprogram_name
    return Entry(op, str(op.attribute_value("sym_name")), parameters, source_name=source_name)


def host_functions(module: Operation) -> Iterator[Entry]:
    """The functions of a module of the inner dialects that are no kernels, and launch some: they run on the host."""
    for op in module.walk():
        if op.name == INNER_FUNCTION and any(inner.name == LAUNCH for inner in op.walk()):
            yield from _inner_entries(op, host=True)


def _inner_entries(op: Operation, host: bool = False) -> Iterator[Entry]:
    from libtile.dialects.nv_tileaa.functions import FuncOp
    from libtile.dialects.nv_tileaa.kernels import launched_parameters, scalar_type

    if not isinstance(op, FuncOp) or op.is_entry is host:
        return
    parameters = []
    for flat in launched_parameters(op):
        scalar = scalar_type(flat.type)
        parameters.append(Parameter(flat.text, None if scalar is None else element(scalar), flat.name))
    name = op.properties["sym_name"]
    assert isinstance(name, StringAttr)
    yield Entry(op, name.data, tuple(parameters), host)
