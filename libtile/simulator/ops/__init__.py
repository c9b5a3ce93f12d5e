# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions. Importing this package registers the code generator of every simulated instruction."""

from . import (  # noqa: F401
    async_copy,
    atomic,
    bits,
    control,
    convert,
    floating,
    integer,
    launch_control,
    matrix,
    memory,
    mma,
    move,
    multimem,
    packed,
    tcgen05,
    video,
    warp,
    wgmma,
    wmma,
)
