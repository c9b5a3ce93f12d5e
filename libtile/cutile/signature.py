# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What cuTile assumes of a kernel's arguments, and the flat parameters that it passes.

The rules are those of cuTile's launcher: an array's base and strides may be known to be multiples of 16 bytes and its
sizes multiples of 16, a stride or a size may be known to be one, elements may be known to lie apart. A kernel is
compiled for what its first arguments show, and again for arguments that show something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from libtile.cutile.arrays import GivenArray, float_word, given_array, is_array, scalar_word
from libtile.cutile.refusals import RefusedType, RefusedValue
from libtile.support.records import dataclass

DIVISOR = 16
"""Bytes, and elements of a dimension: the divisibility that is looked for."""
MOST_DIMENSIONS = 5
"""Arrays of more dimensions (than TMA knows) are not looked at."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a launch: a constraint for each parameter of the Python function, and the flat parameters:
    numbers, arrays, and lists of arrays as Tables."""

    constraints: tuple[Any, ...]
    flat: tuple[Any, ...]


def read_arguments(kernel: Any, args: Sequence[Any], *, shapes: bool = True) -> Arguments:
    """The arguments of a `ct.kernel`. Sizes of one become constants with `shapes` (calling convention v2 and later).

    TypeError for arguments that the kernel does not take, and what `given_array` raises.
    """
    annotations = kernel._annotated_function.parameter_annotations
    if len(args) != len(annotations):
        expected = f"{len(annotations)} argument{'' if len(annotations) == 1 else 's'}"
        raise RefusedType(f"Kernel expects {expected} but {len(args)} {'was' if len(args) == 1 else 'were'} given")
    flat: list[Any] = []
    reader = _Reader(flat, shapes, _starts(args))
    constraints = tuple(
        reader.constraint(node, arg, f"kernel argument #{number}")
        for number, (node, arg) in enumerate(zip(annotations, args))
    )
    return Arguments(constraints, tuple(flat))


class _Reader:
    """Reads arguments in order, and collects the flat parameters."""

    def __init__(self, flat: list[Any], shapes: bool, starts: Mapping[int, int]) -> None:
        self.flat = flat
        self.shapes = shapes
        self.starts = starts

    def constraint(self, node: Any, arg: Any, path: str) -> Any:
        from cuda.tile.compilation import TupleConstraint

        if type(arg) is tuple:
            items = zip(self._item_nodes(node, arg), arg)
            return TupleConstraint(
                [self.constraint(inner, item, f"item #{i} of {path}") for i, (inner, item) in enumerate(items)]
            )
        if node.KIND != "leaf":
            raise RefusedType("Received a non-tuple argument for a parameter annotated as a tuple")
        return self._constant(arg, path) if node.constant else self._leaf(node, arg, path)

    @staticmethod
    def _item_nodes(node: Any, arg: tuple[Any, ...]) -> Iterator[Any]:
        if node.KIND == "heterogeneous_tuple":
            if len(arg) != len(node.items):
                raise RefusedType(
                    f"Received a tuple of length {len(arg)} for a parameter annotated as a tuple of length "
                    f"{len(node.items)}"
                )
            return iter(node.items)
        inner = node.each if node.KIND == "homogeneous_tuple" else node
        return iter([inner] * len(arg))

    @staticmethod
    def _constant(arg: Any, path: str) -> Any:
        from cuda.tile._cext import classify_constant
        from cuda.tile.compilation import ConstantConstraint

        if classify_constant(arg, True) is None:
            raise RefusedType(f"Invalid {path}: Could not interpret object of type '{_name(arg)}' as a constant.")
        return ConstantConstraint(arg)

    def _leaf(self, node: Any, arg: Any, path: str) -> Any:
        import cuda.tile as ct
        from cuda.tile.compilation import ScalarConstraint

        if isinstance(arg, bool):
            self.flat.append(arg)
            return ScalarConstraint(ct.bool_)
        if isinstance(arg, int):
            dtype = ct.int32 if node.scalar is None else node.scalar.dtype
            self.flat.append(scalar_word(arg, dtype.bitwidth))
            return ScalarConstraint(dtype)
        if isinstance(arg, float):
            self.flat.append(float_word(arg))
            return ScalarConstraint(ct.float32)
        if isinstance(arg, list):
            return self._list(node.list, arg)
        if is_array(arg):
            array = given_array(arg, _index_bits(node.array))
            self.flat += [array, *array.shape, *array.strides]
            return self._array([array], node.array)
        raise RefusedType(f"Invalid {path}: {_why_not(arg)}")

    def _list(self, annotation: Any, items: list[Any]) -> Any:
        from cuda.tile.compilation import ListConstraint

        if not items:
            raise RefusedType("Empty lists are not supported as kernel arguments")
        element = None if annotation is None else annotation.element
        arrays = []
        for number, item in enumerate(items):
            if not is_array(item):
                raise RefusedType(
                    f"Expected list items to be arrays, got {_name(item)}"
                    if isinstance(item, bool | int | float | list)
                    else f"Invalid list item #{number}: unsupported object type '{_name(item)}'"
                )
            arrays.append(given_array(item, _index_bits(element)))
        for array in arrays:
            if array.dtype is not arrays[0].dtype:
                raise RefusedType("Arrays in list vary in data type")
            if len(array.shape) != len(arrays[0].shape):
                raise RefusedType("Arrays in list vary in rank")
        self.flat += [Table(tuple(arrays)), len(arrays)]
        return ListConstraint(self._array(arrays, element), alias_groups=(), elements_may_alias=True)

    def _array(self, arrays: Sequence[GivenArray], annotation: Any) -> Any:
        """The constraint that holds for all of the arrays, which agree in dtype and rank."""
        from cuda.tile.compilation import ArrayConstraint

        rank, dtype = len(arrays[0].shape), arrays[0].dtype
        static_shape = _axes(annotation, "static_shape_dims", rank)
        static_stride = _axes(annotation, "static_stride_dims", rank)
        sizes = [_one_for_all(arrays, "shape", axis, axis in static_shape) for axis in range(rank)]
        strides = [_one_for_all(arrays, "strides", axis, axis in static_stride) for axis in range(rank)]
        looked_at = rank <= MOST_DIMENSIONS
        ones = looked_at and not static_stride
        single = looked_at and not static_shape and self.shapes
        apart = 8 * DIVISOR // dtype.bitwidth if 8 * DIVISOR % dtype.bitwidth == 0 else 1
        return ArrayConstraint(
            dtype,
            rank,
            index_dtype=_index_dtype(annotation),
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=not all(map(_lies_apart, arrays)),
            stride_constant=[strides[i] if i in static_stride else 1 if ones and _all(arrays, "strides", i, _is_one)
                             else None for i in range(rank)],
            shape_constant=[sizes[i] if i in static_shape else 1 if single and _all(arrays, "shape", i, _is_one)
                            else None for i in range(rank)],
            stride_divisible_by=[apart if looked_at and _all(arrays, "strides", i, _whole_lines(dtype.bitwidth)) else 1
                                 for i in range(rank)],
            shape_divisible_by=[DIVISOR if looked_at and _all(arrays, "shape", i, _is_multiple) else 1
                                for i in range(rank)],
            base_addr_divisible_by=DIVISOR if all(map(self._is_aligned, arrays)) else 1,
        )  # fmt: skip

    def _is_aligned(self, array: GivenArray) -> bool:
        """Whether an array's base is aligned, here and where a backend maps it."""
        start = array.address if array.device else self.starts.get(array.address, array.address)
        offset = array.address - start
        return array.address % DIVISOR == 0 and offset % DIVISOR == 0


def _starts(args: Sequence[Any]) -> dict[int, int]:
    """By the address of each array, that of the first array of those whose memory is connected with its own: backends
    map them together, the first one to an aligned address."""
    spans = sorted((a.address, a.address + a.size) for a in _arrays(args))
    starts: dict[int, int] = {}
    start = end = -1
    for address, last in spans:
        if address >= end:
            start = address
        starts[address], end = start, max(end, last)
    return starts


def _arrays(args: Sequence[Any]) -> Iterator[GivenArray]:
    for arg in args:
        if isinstance(arg, tuple | list):
            yield from _arrays(arg)
        elif is_array(arg):
            yield given_array(arg, 64)


@dataclass(frozen=True)
class Table:
    """A list of arrays among the flat parameters: a pointer to rows of 64-bit words."""

    arrays: tuple[GivenArray, ...]


def _name(value: object) -> str:
    return type(value).__name__


def _why_not(arg: Any) -> str:
    from cuda.tile._cext import classify_constant

    if isinstance(arg, tuple):
        return f"'{_name(arg)}' is a subclass of 'tuple'. Only plain tuples are accepted."
    if classify_constant(arg, True) is not None:
        return f"Objects of type '{_name(arg)}' are only accepted for parameters annotated as Constant."
    return f"Objects of type '{_name(arg)}' are not supported."


def _index_dtype(annotation: Any) -> Any:
    import cuda.tile as ct

    return ct.int32 if annotation is None else annotation.index_dtype


def _index_bits(annotation: Any) -> int:
    return 32 if annotation is None else int(annotation.index_dtype.bitwidth)


def _axes(annotation: Any, name: str, rank: int) -> frozenset[int]:
    """The axes that an annotation names, counted from 0. ValueError for one that there is not, or that comes twice."""
    found: set[int] = set()
    for axis in () if annotation is None else getattr(annotation, name):
        counted = axis + rank if axis < 0 else axis
        if not 0 <= counted < rank:
            raise RefusedValue(f"{name} contains axis {counted} but array rank is {rank}")
        if counted in found:
            raise RefusedValue(f"{name} contains duplicate axis {axis}")
        found.add(counted)
    return frozenset(found)


def _one_for_all(arrays: Sequence[GivenArray], what: str, axis: int, static: bool) -> int:
    """The size or stride along an axis; where it is to be a constant, all arrays must have the same."""
    first = int(getattr(arrays[0], what)[axis])
    for array in arrays if static else ():
        if (found := getattr(array, what)[axis]) != first:
            name = what.removesuffix("s")
            raise RefusedValue(f"Arrays in list vary in static {name} at axis {axis} ({first} vs {found})")
    return first


def _all(arrays: Sequence[GivenArray], what: str, axis: int, holds: Any) -> bool:
    return all(holds(getattr(array, what)[axis]) for array in arrays)


def _is_one(number: int) -> bool:
    return number == 1


def _is_multiple(number: int) -> bool:
    return number % DIVISOR == 0


def _whole_lines(bits: int) -> Any:
    """Whether a stride in elements of so many bits is a multiple of 16 bytes."""
    return lambda stride: stride * bits % (8 * DIVISOR) == 0


def _lies_apart(array: GivenArray) -> bool:
    """Whether no two indices can be the same element: by stride, each covers what the smaller ones span."""
    axes = sorted(zip(array.strides, array.shape))
    if axes and axes[0][0] <= 0:
        return False
    return all(stride > 0 and stride >= inner * size for (inner, size), (stride, _) in pairwise(axes))
