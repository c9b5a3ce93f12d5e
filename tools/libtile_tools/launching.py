# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A launch as command lines state it: the kernel, the grid, and the kernel's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from libtile.support.errors import reason
from libtile_tools import cli
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile.interpreter.entries import Entry

ARGUMENT = (
    "The next parameter: FILE.npy, zeros:TYPE:SHAPE, TYPE:NUMBER or NUMBER. Sizes and strides of arrays may be left "
    "out, all of them."
)


def is_count(text: str) -> bool:
    """Whether a text is a number in digits, of 64 bits or about that."""
    return text.isascii() and text.isdigit() and len(text) < 20


def grid_of(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    """`X`, `X,Y` or `X,Y,Z`."""
    parts = value.replace("x", ",").split(",")
    if not 1 <= len(parts) <= 3 or not all(is_count(p.strip()) for p in parts):
        raise click.BadParameter(f"'{value}' is not a grid: give X, X,Y or X,Y,Z", ctx, param)
    return tuple(int(p) for p in parts)


def parse_argument(text: str) -> Any:
    """An argument of the command line: an array, a number, or (type, number).

    `FILE.npy` is a file's array; `zeros:TYPE:SHAPE` and `empty` likewise a new one; `TYPE:NUMBER` or NUMBER a scalar.
    Raises ToolError for anything else.
    """
    import numpy as np

    from libtile.interpreter.formats import ELEMENTS

    head, _, tail = text.partition(":")
    if head == "zeros":
        type_, _, shape = tail.partition(":")
        if type_ not in ELEMENTS or not all(map(is_count, shape.split("x"))):
            unknown = "" if type_ in ELEMENTS or not type_ else f"there is no element type '{type_}'; "
            raise cli.ToolError(f"error: '{text}': {unknown}give zeros:TYPE:SHAPE, such as zeros:f32:64x128")
        elem = ELEMENTS[type_]
        try:
            array = np.zeros([int(n) for n in shape.split("x")], elem.unsigned_dtype)
        except (ValueError, MemoryError) as error:  # more dimensions, or elements, than an array can have
            raise cli.ToolError(f"error: '{text}': {error}") from None
        return array.view(elem.dtype if elem.dtype.itemsize == elem.storage_bytes else elem.unsigned_dtype)
    if head in ELEMENTS and tail:
        return head, _number(tail, text)
    if text.endswith(".npy"):
        return load_array(text)
    return _number(text, text)


def _number(text: str, argument: str) -> int | float:
    for convert in (lambda t: int(t, 0), float):
        try:
            return convert(text)
        except ValueError:
            continue
    raise cli.ToolError(
        f"error: '{argument}' is not an argument: give FILE.npy, zeros:TYPE:SHAPE, TYPE:NUMBER or a number"
    )


def load_array(path: str) -> Any:
    """The array of a .npy file. ToolError for what is none: archives and pickles are not looked into."""
    import numpy as np

    try:
        with open(path, "rb") as file:
            return np.ascontiguousarray(np.lib.format.read_array(file, allow_pickle=False))
    except OSError as error:
        raise cli.ToolError(f"error: cannot open '{path}': {reason(error)}") from None
    except (ValueError, OverflowError, MemoryError) as error:
        raise cli.ToolError(f"error: '{path}' is not a .npy file: {error}") from None


def typed_arguments(entry: Entry, given: list[Any]) -> list[Any]:
    """The arguments without their type prefixes, which must be those of the entry's parameters."""
    from libtile.runtime.arguments import places

    values = []
    untyped = [argument[1] if isinstance(argument, tuple) else argument for argument in given]
    for number, (position, argument) in enumerate(zip(places(entry, untyped), given)):
        if not isinstance(argument, tuple):
            values.append(argument)
            continue
        type_, value = argument
        if position < len(entry.parameters) and entry.parameters[position].text not in (type_, f"tile<{type_}>"):
            raise cli.ToolError(
                f"error: argument {number} is given as {type_}, and parameter {position} is "
                f"{entry.parameters[position].text}; {entry.describe()}"
            )
        values.append(value)
    return values


def arguments_for(entry: Entry, texts: Sequence[str]) -> list[Any]:
    """What the arguments of a command line are to a kernel. ToolError for those that are none, or of another type."""
    return typed_arguments(entry, [parse_argument(text) for text in texts])


def python_arguments(texts: Sequence[str]) -> list[Any]:
    """What the arguments of a command line are to a `@ct.kernel`, which has types of its own. ToolError for those that
    are none."""
    parsed = (parse_argument(text) for text in texts)
    return [value[1] if isinstance(value, tuple) else value for value in parsed]


def kernel_option(help: str) -> Callable[[Any], Any]:
    """`--kernel`, as `kernel`."""
    return click.option("--kernel", metavar="NAME", help=help)


grid_option = click.option(
    "--grid",
    metavar="X[,Y[,Z]]",
    callback=grid_of,
    default="1",
    show_default=True,
    help="Number of tile blocks by axis.",
)
"""`--grid`, as `grid`: one to three numbers."""


def arguments_option(help: str) -> Callable[[Any], Any]:
    """`--arg`, as `arguments`: the texts of all of them, for `arguments_for`."""
    return click.option("--arg", "arguments", multiple=True, metavar="VALUE", help=help)
