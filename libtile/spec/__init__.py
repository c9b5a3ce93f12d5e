# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Tile IR dialect as data: ops, types, attributes, enums and versions, each declared once (see `data/*.toml`)."""

from libtile.spec.loader import SpecError, default_spec, load
from libtile.spec.model import EnumSpec, OpSpec, Spec, Version

__all__ = ["EnumSpec", "OpSpec", "Spec", "SpecError", "Version", "default_spec", "load"]
