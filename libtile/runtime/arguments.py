# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From arrays and numbers to an entry's flat parameters: sizes and strides that nobody gave are the arrays' own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from libtile.dialects.cuda_tile.types import DYNAMIC, TensorViewType
from libtile.interpreter.entries import Entry, LaunchError
from libtile.interpreter.roles import Role, convention, roles, views_of
from libtile.support.arrays import memory_span
from libtile.support.records import dataclass

if TYPE_CHECKING:
    import numpy as np


Derived = Mapping[int, Sequence[Role]]
"""The parameters that are derived, by position."""


@dataclass(frozen=True)
class ArrayArgument:
    """An array with other sizes or strides than its own for the parameters that are derived.

    `shape` and `strides` (in elements) have an entry for each dimension; None stands for the array's own.
    """

    array: np.ndarray
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None


def flat_arguments(entry: Entry, args: Sequence[Any]) -> list[Any]:
    """The entry's parameters in order, from arguments that may leave sizes and strides of arrays to be derived.

    As many arguments as parameters, without an ArrayArgument, are the parameters. Fewer are arrays and numbers in the
    order of the parameters, without sizes and strides. These are told by the kernel's views, and by cuTile's
    convention: the sizes and then the strides of an array behind its address. LaunchError when what is given fits
    neither, or when arrays disagree on a size.
    """
    given = list(args)
    derived = _derived(entry, given)
    if derived is None:
        raise entry.miscounted(len(given))
    return _filled(entry, given, derived) if derived else given


def places(entry: Entry, args: Sequence[Any]) -> list[int]:
    """The position among the entry's parameters of each argument, if they fit; else one after another."""
    derived = _derived(entry, args) or {}
    return [place for place in range(len(args) + len(derived)) if place not in derived]


def _derived(entry: Entry, given: Sequence[Any]) -> Derived | None:
    """The parameters that are to be derived; None when what is given does not fit."""
    if len(given) == len(entry.parameters) and not any(isinstance(arg, ArrayArgument) for arg in given):
        return {}
    known = roles(entry.op)
    derived = _by_convention(entry, given, known)
    return _by_views(entry, given, known) if derived is None else derived


def _by_convention(entry: Entry, given: Sequence[Any], known: Derived) -> Derived | None:
    """Each array is its address, its sizes and its strides: what is to be derived if everything fits that."""
    derived: dict[int, list[Role]] = {}
    position = 0
    for arg in given:
        if (array := _array(arg)) is not None:
            derived |= {place: [role] for place, role in convention(position, array.ndim)}
            position += 2 * array.ndim
        position += 1
    if position != len(entry.parameters):
        return None
    for place, found in derived.items():
        element = entry.parameters[place].element
        is_index = element is not None and element.float is None and element.pointee is None and element.width >= 32
        if not is_index or any(role not in found for role in known.get(place, ())):
            return None
    return None if any(place not in derived for place in known) else derived


def _by_views(entry: Entry, given: Sequence[Any], known: Derived) -> Derived | None:
    """What the kernel's views show to be sizes and strides, if the rest is as many parameters as were given."""
    return known if len(given) + len(known) == len(entry.parameters) else None


def _array(arg: Any) -> np.ndarray | None:
    import numpy as np

    array = arg.array if isinstance(arg, ArrayArgument) else arg
    return array if isinstance(array, np.ndarray) else None


def _filled(entry: Entry, given: Sequence[Any], derived: Derived) -> list[Any]:
    rest = iter(given)
    by_position = {place: next(rest) for place in range(len(entry.parameters)) if place not in derived}
    views = views_of(entry.op)
    for place in dict.fromkeys(role.array for found in derived.values() for role in found):
        if (array := _array(by_position[place])) is not None:
            _check_kind(entry, place, array)
            _check_views(place, by_position[place], array, views.get(place, ()))
    flat: list[Any] = []
    for place in range(len(entry.parameters)):
        if place not in derived:
            flat.append(_memory(by_position[place], place))
            continue
        values = {_value(by_position, role): role for role in derived[place]}
        if len(values) > 1:
            said = " and ".join(f"{value} ({role})" for value, role in values.items())
            raise LaunchError(f"parameter {place} cannot be derived, as the arrays disagree: {said}")
        flat.extend(values)
    return flat


def _check_kind(entry: Entry, place: int, array: np.ndarray) -> None:
    """LaunchError where elements of the array are not as large as those that its sizes would count."""
    pointee = entry.parameters[place].pointee
    if pointee is not None and array.itemsize != pointee.storage_bytes:
        raise LaunchError(
            f"parameter {place} points to {pointee.name}, and the array has elements of {array.dtype}, so that its "
            "sizes are not those of the kernel's array: convert it, or say the sizes with an ArrayArgument"
        )


def _check_views(place: int, arg: Any, array: np.ndarray, views: Sequence[TensorViewType]) -> None:
    """LaunchError where an array is not laid out as the kernel was compiled for."""
    shape, strides = _numbers(arg, array, "size"), _numbers(arg, array, "stride")
    if views and all(view.rank < len(shape) for view in views):
        raise LaunchError(
            f"parameter {place} has {len(shape)} dimensions, and the kernel's view of it {views[0].rank}: give an "
            "array of as many"
        )
    for view in views:
        for dim, (stated, size, own) in enumerate(zip(view.strides, shape, strides)):
            if view.rank == len(shape) and stated != DYNAMIC and stated != own and size > 1:
                raise LaunchError(
                    f"parameter {place} has a stride of {own} along dimension {dim}, and the kernel is compiled for "
                    f"{stated}"
                )


def _numbers(arg: Any, array: np.ndarray, kind: str) -> tuple[int, ...]:
    """The sizes ("size") or the strides in elements ("stride") of an argument: those that are stated, or its own."""
    own = array.shape if kind == "size" else tuple(stride // array.itemsize for stride in array.strides)
    stated = (arg.shape if kind == "size" else arg.strides) if isinstance(arg, ArrayArgument) else None
    return own if stated is None else stated


def _value(by_position: Mapping[int, Any], role: Role) -> int:
    arg = by_position[role.array]
    array = _array(arg)
    if array is None:
        raise LaunchError(
            f"parameter {role.array} is given as {type(arg).__name__}, which says no sizes: give an array, or all "
            "parameters"
        )
    numbers = _numbers(arg, array, role.kind)
    if role.dim >= len(numbers):
        raise LaunchError(
            f"parameter {role.array} has {len(numbers)} dimension{'' if len(numbers) == 1 else 's'}, and the kernel "
            f"asks for {role.kind} {role.dim}"
        )
    return int(numbers[role.dim])


def _memory(arg: Any, place: int) -> Any:
    """An array whose strides the kernel is told: the memory from its first element to its last one."""
    array = _array(arg)
    if array is None or array.flags.c_contiguous:
        return arg if array is None else array
    try:
        return memory_span(array).view(array.dtype)
    except ValueError as problem:
        raise LaunchError(f"the array for parameter {place} cannot be passed: {problem}") from None
