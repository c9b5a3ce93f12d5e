# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which results of ops name the memory of an operand, of all three dialects, as declared (`NamesMemoryOf`) and as the
interpreter has it: the values that an op gives lie in the memory of the operand that it declares, and of no other op
that declares none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation, SSAValue

import libtile
from dialects.inner import SPEC
from dialects.op_programs import kernel_of, memory_of, names, program
from libtile.asm.module import Module
from libtile.dialects import arith, scf, tensor
from libtile.dialects.cuda_tile.ops import OPS
from libtile.dialects.interfaces import NamesMemoryOf, control_flow, first_name, other_names, renamed
from libtile.interpreter.memory import GlobalMemory
from libtile.interpreter.nv_tileas.buffers import Buffer
from libtile.interpreter.rings import Iterator as Place
from libtile.interpreter.rings import Ring
from libtile.ir.tile_form import OP_CLASSES
