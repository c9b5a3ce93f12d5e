# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What passes know of a kernel for a cluster, whose CTAs have halves of its tiles (`tile_halves`)."""

from __future__ import annotations

from xdsl.ir import Block, Operation

CTAS = 2
"""Of a cluster, where there is one."""
SAME_IN_CLUSTER = "same_in_cluster"
"""On a load that every CTA of the cluster does alike."""
WARPS_OF_ONE = "warps_of_one_cta"
"""On a kernel for a cluster: its warps if it is compiled for one CTA."""
UNASKED = "cluster_of_its_own"
"""On a kernel that is for a cluster because one CTA has too few registers, and not because it asks for one."""


def is_same_in_cluster(op: Operation | Block) -> bool:
    """Whether it is a load that every CTA of a cluster does alike."""
    return isinstance(op, Operation) and SAME_IN_CLUSTER in op.attributes
