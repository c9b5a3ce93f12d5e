# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`assume`, `assert` and `print_tko`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from libtile.codegen.limits import MAX_PRINT_WIDTH, UNKNOWN_FILE, before_nul, is_too_wide
from libtile.dialects.cuda_tile.attributes import BoundedAttr, DivByAttr, SameElementsAttr
from libtile.dialects.cuda_tile.ops import CudaTileOp
from libtile.dialects.cuda_tile.types import DYNAMIC, TensorViewType, TileType
from libtile.interpreter.address_space import first_index
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array, Element
from libtile.interpreter.formats import element as element_of
from libtile.interpreter.integer import signed, unsigned
from libtile.interpreter.location import source_location
from libtile.interpreter.races import join
from libtile.interpreter.rules import Run, Site, effect, pure

# -- assume ---------------------------------------------------------------------------------------------------------


def _assumed_mask(site: Site) -> Any:
    return lambda values, masks: masks[0]


@pure("assume", undefined=_assumed_mask)
def assume(site: Site) -> Run:
    predicate, type_ = site.attr("predicate"), site.type_of("value")
    if not site.on("assume") or _moves_nothing(site):
        return lambda value: value
    if not isinstance(type_, TileType):

        def view(value: Any) -> Any:
            if isinstance(predicate, DivByAttr) and value.base % predicate.divisor:
                raise broken(predicate, f"the base address {value.base:#x}", None)
            return value

        return view
    elem = element_of(type_)

    def run(value: Array) -> Array:
        match predicate:
            case DivByAttr():
                check_divisible(predicate, value, elem)
            case SameElementsAttr():
                check_same(predicate, value)
            case BoundedAttr():
                check_bounded(predicate, value, elem)
        return value

    return run


def _moves_nothing(site: Site) -> bool:
    """Whether all that uses the number takes it as the stride of a dimension of size 1: it moves no address, and cuTile
    says of such a stride that it is aligned, whatever it is."""
    result = site.op.results[0]
    return result.first_use is not None and all(
        isinstance(use.operation, CudaTileOp) and use.operation.spec.name == "make_tensor_view"
        and _strides_along_one(use.operation, use.index) for use in result.uses
    )  # fmt: skip


def _strides_along_one(op: CudaTileOp, operand: int) -> bool:
    """Whether an operand of `make_tensor_view` is the stride of a dimension of size 1."""
    view = op.results[0].type
    assert isinstance(view, TensorViewType)
    first = 1 + len(op.operand_group("dynamicShape"))
    dynamic = [axis for axis, stride in enumerate(view.strides) if stride == DYNAMIC]
    return operand >= first and view.shape[dynamic[operand - first]] == 1


def broken(predicate: Any, what: str, index: Sequence[int] | None) -> Fault:
    """The fault for an assumption that does not hold."""
    shown = getattr(predicate, "text", predicate.__str__)()  # attributes of Tile IR have a spelling of their own
    return Fault(FaultKind.ASSUMPTION, f"{what} breaks {shown}", index)


def check_bounded(predicate: Any, value: Array, elem: Element) -> None:
    """A fault for numbers out of bounds that are assumed."""
    number = np.asarray(signed(value, elem))
    bad = np.zeros(number.shape, bool)
    if predicate.lower is not None:
        bad |= number < predicate.lower
    if predicate.upper is not None:
        bad |= number > predicate.upper
    if bad.any():
        index = first_index(bad)
        raise broken(predicate, str(number[index]), index)


def check_divisible(predicate: Any, value: Array, elem: Element) -> None:
    """A fault for numbers or addresses that are not divisible as is assumed."""
    number = np.asarray(signed(value, elem)).astype(np.int64)
    every, along = predicate.every or 1, predicate.along or 0
    step = elem.pointee.storage_bytes if elem.pointee is not None else 1
    first = number
    if every > 1 and number.ndim:
        # Each group counts up from its first element, which is the one that must be divisible.
        position = np.arange(number.shape[along])
        first = np.take(number, position - position % every, axis=along)
        shape = [1] * number.ndim
        shape[along] = -1
        bad = number != first + (position % every * step).reshape(shape)
        if bad.any():
            index = first_index(bad)
            raise broken(predicate, str(number[index]), index)
    bad = np.asarray(first & (predicate.divisor - 1)) != 0
    if bad.any():
        index = first_index(bad)
        raise broken(predicate, str(number[index]), index)


def check_same(predicate: Any, value: Array) -> None:
    """A fault for elements that differ within a box that is assumed to be of one value."""
    number = np.asarray(value)
    first = number
    for dim, size in enumerate(predicate.values):
        position = np.arange(number.shape[dim])
        first = np.take(first, position - position % size, axis=dim)
    bad = number != first
    if bad.any():
        index = first_index(bad)
        raise broken(predicate, str(number[index]), index)


# -- assert ---------------------------------------------------------------------------------------------------------


@effect("assert")
def assert_(site: Site) -> Run:
    return assertion(site.op, site.attr("message"))


def assertion(op: Operation, message: str) -> Callable[[Any, Array], None]:
    """Prints a line for each false element, as compiled code does (`libtile.codegen.messages`), and raises a Fault."""
    place = source_location(op)
    file, line = (place.filename, place.line) if place is not None else (UNKNOWN_FILE, 0)

    def check(block: Any, condition: Array) -> None:
        failed = ~np.asarray(condition, bool)
        if failed.any():
            head = f"{file}:{line}: tile block: [{', '.join(map(str, block.id))}], position: "
            for index in np.argwhere(failed).tolist():
                block.launch.write(before_nul(f"{head}{index}: {message}\n"))
            raise Fault(FaultKind.ASSERTION, message, first_index(failed))

    return check


# -- print ----------------------------------------------------------------------------------------------------------

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>\.\d*)?(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>.)", re.S
)
_INTEGERS, _FLOATS = "diuoxXc", "eEfFgGaA"


def split_format(text: str) -> list[str | re.Match]:
    """The literal parts and conversions of a C format string; `%%` is literal, and a NUL ends what a part shows.

    Raises Fault for a conversion other than of integers, floats and pointers, and for one that asks for more
    characters than compiled code may print.
    """
    parts: list[str | re.Match] = []
    position, literal = 0, ""
    for match in _CONVERSION.finditer(text):
        literal += text[position : match.start()]
        position = match.end()
        if match["kind"] == "%":
            literal += "%"
        elif is_too_wide(match["width"]) or is_too_wide(match["precision"]):
            gist = f"{match[0][:40]!r} asks for more than {MAX_PRINT_WIDTH} characters"
            raise Fault(FaultKind.FORMAT, gist)
        elif match["kind"] in _INTEGERS + _FLOATS + "p":
            parts += [before_nul(literal), match]
            literal = ""
        else:
            raise Fault(FaultKind.FORMAT, f"{match[0]!r} is not a conversion of an integer or a float")
    if "%" in text[position:]:
        raise Fault(FaultKind.FORMAT, f"{text!r} ends within a conversion")
    parts.append(before_nul(literal + text[position:]))
    return [p for p in parts if p != ""]


def format_scalar(conversion: re.Match, value: Any, elem: Element) -> str:
    """One value as C's printf prints it."""
    kind, flags, width = conversion["kind"], conversion["flags"], conversion["width"]
    precision = conversion["precision"] or ""
    if kind == "p":
        return f"{int(value):#x}".rjust(int(width or 0))
    if kind in _FLOATS:
        return _format_float(flags, width, precision, kind, float(value))
    number = int(signed(value, elem)) if not elem.is_float else int(value)
    if kind == "c":
        return chr(number & 0xFF).rjust(int(width or 0))
    if kind in "uoxX":
        number = int(unsigned(value, elem)) if not elem.is_float else number
        kind = "d" if kind == "u" else kind
        if kind == "o" and "#" in flags:
            flags = flags.replace("#", "")
            return f"%{flags}{width}{precision}s" % ("0" + format(number, "o"))
    return f"%{flags}{width}{precision}{kind}" % number


def _format_float(flags: str, width: str, precision: str, kind: str, value: float) -> str:
    if kind not in "aA":
        return f"%{flags}{width}{precision}{kind}" % value
    mantissa, exponent = value.hex().split("p") if np.isfinite(value) else (str(value), "")
    if exponent:
        head, _, digits = mantissa.partition(".")
        digits = digits.rstrip("0")
        mantissa = f"{head}{'.' + digits if digits else ''}p{exponent}"
    text = mantissa if value < 0 or "+" not in flags else "+" + mantissa
    text = text.upper() if kind == "A" else text
    return text.ljust(int(width or 0)) if "-" in flags else text.rjust(int(width or 0))


def format_tile(conversion: re.Match, value: Array, elem: Element) -> str:
    """A scalar as itself; a tile as nested lists in brackets, each element by the conversion."""
    array = np.asarray(value)
    if array.ndim == 0:
        return format_scalar(conversion, array[()], elem)
    return "[" + ", ".join(format_tile(conversion, row, elem) for row in array) + "]"


@effect("print_tko")
def print_tko(site: Site) -> Run:
    parts = split_format(site.attr("str"))
    elements = [element_of(v.type) for v in site.op.operand_group("args")]
    if sum(not isinstance(p, str) for p in parts) != len(elements):
        raise Fault(FaultKind.FORMAT, f"the format takes another number of values than the {len(elements)} given")

    def run(block: Any, args: tuple, token: Any) -> Any:
        values = iter(zip(args, elements))
        text = "".join(p if isinstance(p, str) else format_tile(p, *next(values)) for p in parts)
        block.launch.write(text)
        return join((token,)) if site.tokens else None

    return run
