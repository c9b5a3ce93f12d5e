# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types and attributes of xDSL's that hold Python values."""

from __future__ import annotations

from typing import Any, TypeVar

from xdsl.ir import Data
from xdsl.utils.runtime_final import runtime_final

from libtile.ir.members import DataField

__all__ = ["DataField", "data_definition"]

D = TypeVar("D", bound=type[Data[Any]])


def data_definition(cls: D) -> D:
    """What `irdl_attr_definition` does for a class of `Data`, at once: that asks first whether it is a class of
    `ParametrizedAttribute`, for which Python asks all subclasses of this."""
    return runtime_final(cls)
