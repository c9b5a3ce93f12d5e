# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions: the view of an activation by output positions, and the product of one position in the filter.

A tile of such a view has for each output position what the filter sees there at one of its places: at
`output * stride - pad_lower + place * dilation` along each spatial dimension. What lies outside of the activation is
padding. The place is the first coordinate, where the view has one more than the activation has dimensions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from libtile.dialects.nv_tileaa.collectives import ConvDotOp
from libtile.dialects.nv_tileaa.pointers import ConvTileOp
from libtile.interpreter.formats import Array
from libtile.interpreter.inner_rules import Run, Site, pure
from libtile.interpreter.math_functions import through_f64
from libtile.interpreter.views import TensorView
from libtile.support.records import dataclass


@dataclass(frozen=True)
class Convolution:
    """An activation, and how a filter goes over it: by axis the step, the padding in front and the dilation, and the
    sizes of the filter along the spatial axes."""

    memory: TensorView
    spatial: tuple[int, ...]
    filter: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def addresses(self, indices: tuple[Any, ...], shape: tuple[int, ...], size: int) -> tuple[np.ndarray, np.ndarray]:
        """The byte address of each element of the tile at an index, and which of them lie in the activation."""
        skipped = len(indices) - len(shape)
        place = np.unravel_index(int(indices[0]), self.filter) if skipped else (0,) * len(self.filter)
        address, inside = np.full(shape, self.memory.base, np.int64), np.ones(shape, bool)
        for axis, (index, extent) in enumerate(zip(indices[skipped:], shape, strict=True)):
            position = int(index) * extent + np.arange(extent, dtype=np.int64)
            if axis in self.spatial:
                d = self.spatial.index(axis)
                position = position * self.stride[d] - self.padding[d] + int(place[d]) * self.dilation[d]
            along = [1] * len(shape)
            along[axis] = extent
            position = position.reshape(along)
            inside = inside & (position >= 0) & (position < self.memory.shape[axis])
            address = address + position * self.memory.strides[axis] * size
        return address, inside


@pure("nv_tileaa.conv_tile")
def conv_tile(site: Site) -> Run:
    op = site.op
    assert isinstance(op, ConvTileOp)
    params = op.conv_params
    pad_lower, _, stride, dilation = params.data
    spatial, sizes = op.spatial_axes, op.filter_shape
    return lambda source: Convolution(source, spatial, sizes, stride, pad_lower, dilation)


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
