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
    `ParametrizedAttribute`, for which Python asks all subclasses of this. Objects remember their hash: they are values,
    and that of a type goes down to xDSL's integers, five functions for each."""
    made: Any = cls
    if made.__hash__ is _HASH:
        made.__hash__ = _remembered_hash
        made.__getstate__ = _without_hash
    return runtime_final(cls)


_HASH: Any = Data.__hash__


def _remembered_hash(self: Data[Any]) -> int:
    members = self.__dict__
    found: int | None = members.get("_hash")
    if found is None:
        found = members["_hash"] = _HASH(self)
    return found


def _without_hash(self: Data[Any]) -> dict[str, Any]:
    """What is pickled: another process hashes texts in its own way, and finds parts of the data again."""
    return {"data": self.data}
