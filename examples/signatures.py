# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Short spellings of the parameter constraints that an ahead-of-time export needs.

`cuda.tile.compilation.export_kernel` wants to know, for each parameter of the Python function, what it may
assume.  Every kernel here is exported for arrays in C order (the last stride is 1) whose address is a multiple
of 16 bytes and that do not overlap; a plain int, float or bool stands for a compile-time constant.
"""

from __future__ import annotations

import cuda.tile as ct
from cuda.tile.compilation import ArrayConstraint, ScalarConstraint


def array(dtype: ct.DType, ndim: int = 1, *, multiple_of: int = 1, **options: object) -> ArrayConstraint:
    """An array parameter in C order.

    Its sizes, and its strides but the last, are known to be multiples of `multiple_of` elements; `options` go
    to `ArrayConstraint` as they are and win over what is said here.
    """
    settings: dict[str, object] = {
        "index_dtype": ct.int32,
        "stride_lower_bound_incl": 0,
        "alias_groups": (),
        "may_alias_internally": False,
        "stride_constant": (None,) * (ndim - 1) + (1,) * min(ndim, 1),
        "stride_divisible_by": (multiple_of,) * (ndim - 1) + (1,) * min(ndim, 1),
        "shape_divisible_by": (multiple_of,) * ndim,
        "base_addr_divisible_by": 16,
    }
    settings.update(options)
    return ArrayConstraint(dtype, ndim, **settings)  # type: ignore[arg-type]


def scalar(dtype: ct.DType) -> ScalarConstraint:
    """A scalar parameter that is known only at launch."""
    return ScalarConstraint(dtype)
