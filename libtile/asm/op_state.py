# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What has been read of an op's custom form, before its values are resolved."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Attribute, Region


class Use(NamedTuple):
    """A use of a value by name: `%name` or `%name#number`, and where it stands."""

    name: str
    number: int
    offset: int


class Argument(NamedTuple):
    """A block argument that a custom form declares: `%name: type`."""

    use: Use
    type: Attribute
    location: Attribute | None = None
    attributes: dict[str, Attribute] | None = None


class OpState:
    """Collects the members of one op. `operands` and `types` are by declared name."""

    __slots__ = ("attributes", "offsets", "operands", "properties", "regions", "start", "types")

    def __init__(self, start: int):
        self.start = start
        self.operands: dict[str, list[Use]] = {}
        self.types: dict[str, list[Attribute]] = {}
        self.offsets: dict[str, int] = {}
        self.properties: dict[str, Attribute] = {}
        self.attributes: dict[str, Attribute] = {}
        self.regions: dict[str, Region] = {}
