# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The target that an op is compiled for: that of its function, or else that of its module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from libtile.dialects.nv_tileaa.attributes import (
    CAPABILITY,
    LEGACY_CAPABILITY,
    ComputeCapabilityAttr,
    KernelSpecAttr,
    TargetSpecAttr,
)

if TYPE_CHECKING:
    from libtile.targets import Target


BLOCK_SCALED_MMA = "cvt_fp4"
"""The feature of a target that goes with block-scaled MMA: all targets that convert FP4 multiply it, and no others."""


def gpu_name_of(op: Operation) -> str | None:
    """The name of the GPU target that the op's function or module states; None when neither does."""
    at: Operation | None = op
    while at is not None:
        known = {**at.attributes, **at.properties}
        spec = known.get("kernel_spec")
        if isinstance(spec, KernelSpecAttr) and spec.target is not None:
            return spec.target
        target = known.get("target_spec") or known.get("nv_tileaa.target_spec")
        if isinstance(target, TargetSpecAttr):
            return target.capability.gpu_name
        for key in (CAPABILITY, LEGACY_CAPABILITY):
            capability = known.get(key) or known.get(f"nv_tileaa.{key}")
            if isinstance(capability, ComputeCapabilityAttr):
                return capability.gpu_name
        at = at.parent_op()
    return None


def target_of(op: Operation) -> Target | None:
    """The target by that name; None when none is stated, or when it is no target that is known."""
    from libtile.targets import targets

    name = gpu_name_of(op)
    return None if name is None else targets().get(name)


def lacks_block_scaling(op: Operation) -> str | None:
    """The name of the op's target when that is known to have no block-scaled MMA; else None."""
    found = target_of(op)
    return found.name if found is not None and not found.has(BLOCK_SCALED_MMA) else None
