# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions: the view of an activation by output positions, and the product of one position in the filter.

A tile of such a view has for each output position what the filter sees there at one of its places: at
`output * stride - pad_lower + place * dilation` along each spatial dimension. What lies outside of the activation is
padding. The place is the first coordinate, where the view has one more than the activation has dimensions.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from libtile.dialects.nv_tileaa.collectives import ConvDotOp
from libtile.dialects.nv_tileaa.pointers import ConvTileOp
from libtile.interpreter.faults import Fault, FaultKind
from libtile.interpreter.formats import Array
from libtile.interpreter.inner_rules import Run, Site, pure
from libtile.interpreter.math_functions import through_f64
from libtile.interpreter.nv_tileaa.views import over_groups
from libtile.interpreter.views import TensorView
from libtile.support.records import dataclass


@dataclass(frozen=True)
class Convolution:
    """An activation, and how a filter goes over it: by axis the step, the padding on both sides and the dilation, and
    the sizes of the filter along the spatial axes. `groups` has for each dimension of a tile the axes of the output
    that it runs over."""

    memory: TensorView
    groups: tuple[tuple[int, ...], ...]
    spatial: tuple[int, ...]
    filter: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    padding_behind: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def output(self) -> tuple[int, ...]:
        """How many output positions there are along each axis; channels, and what no filter goes along, stay."""
        sizes = list(self.memory.shape)
        for d, axis in enumerate(self.spatial):
            seen = sizes[axis] + self.padding[d] + self.padding_behind[d] - self.dilation[d] * (self.filter[d] - 1)
            sizes[axis] = max(0, (seen - 1) // self.stride[d] + 1)
        return tuple(sizes)

    def addresses(self, indices: tuple[Any, ...], shape: tuple[int, ...], size: int) -> tuple[np.ndarray, np.ndarray]:
        """The byte address of each element of the tile at an index, and which of them lie in the activation."""
        skipped = len(indices) - len(shape)
        number, places = int(indices[0]) if skipped else 0, prod(self.filter)
        if not 0 <= number < places:
            raise Fault(FaultKind.INDEX, f"place {number} of the filter is none of its {places}")
        place = np.unravel_index(number, self.filter)
        address = np.full(shape, self.memory.base, np.int64)
        positions = [
            int(index) * extent + np.arange(extent, dtype=np.int64)
            for index, extent in zip(indices[skipped:], shape, strict=True)
        ]
        along, inside = over_groups(self.groups, self.output, positions, ends=False)
        for axis, position in enumerate(along):
            if axis in self.spatial:
                d = self.spatial.index(axis)
                position = position * self.stride[d] - self.padding[d] + int(place[d]) * self.dilation[d]
            inside = inside & (position >= 0) & (position < self.memory.shape[axis])
            address = address + position * self.memory.strides[axis] * size
        return address, np.broadcast_to(inside, shape)


@pure("nv_tileaa.conv_tile")
def conv_tile(site: Site) -> Run:
    op = site.op
    assert isinstance(op, ConvTileOp)
    pad_lower, pad_upper, stride, dilation = op.conv_params.data
    groups, spatial, sizes = tuple(op.groups), op.spatial_axes, op.filter_shape
    return lambda source: Convolution(source, groups, spatial, sizes, stride, pad_lower, pad_upper, dilation)


@pure("nv_tileaa.conv_dot")
def conv_dot(site: Site) -> Run:
    """The channels of each pixel times the filter's: sums in f64, rounded once."""
    op = site.op
    assert isinstance(op, ConvDotOp)
    axis, result = op.channel_axis, site.element("result")

    def product(activation: Array, filter_: Array, accumulator: Array) -> Array:
        pixels = np.moveaxis(np.asarray(activation), axis, -1)
        return np.moveaxis(np.matmul(pixels, filter_), -1, axis) + accumulator

    rounded = through_f64(product, result)
    return lambda activation, filter_, accumulator: rounded(activation, filter_, accumulator)
