# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of a spec as the parser looks them up: by mnemonic, each with its compiled reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from libtile.asm.format_parse import Step, compile_parser
from libtile.dialects.cuda_tile.ops import OPS, CudaTileOp, OpClasses
from libtile.spec import Spec, default_spec
from libtile.support.threads import once

if TYPE_CHECKING:
    from libtile.asm.op_state import OpState
    from libtile.asm.parser import Parser

DIALECT = "cuda_tile"


class OpParser:
    """How ops of one declaration are read; compiled once."""

    __slots__ = ("cls", "name", "operands", "prefix", "read", "results", "segments", "spec")

    def __init__(self, cls: type[CudaTileOp], spec: Spec):
        from libtile.asm.custom_ops import ADJUSTMENTS, PARSERS

        op = cls.spec
        self.cls = cls
        self.spec = op
        self.name = f"{DIALECT}.{op.name}"
        self.prefix = f"custom op '{self.name}' "
        self.operands = tuple(v.name for v in op.operands)
        self.results = tuple(v.name for v in op.results)
        self.segments = op.has_segments
        self.read: Step | None = None
        if op.format == "custom":
            self.read = PARSERS[op.name]
        elif op.format != "generic":
            self.read = compile_parser(op, spec)
        adjust = ADJUSTMENTS.get(op.name)
        if adjust is not None and self.read is not None:
            self.read = _adjusted(self.read, adjust)


def _adjusted(read: Step, adjust: Callable[[OpState], None]) -> Step:
    def parse(parser: Parser, state: OpState) -> None:
        read(parser, state)
        adjust(state)

    return parse


class Dialect:
    """The ops of a spec, with their parsers made when first asked for."""

    def __init__(self, spec: Spec):
        self.spec = spec
        self.classes: Mapping[str, type[CudaTileOp]] = OPS if spec is default_spec() else OpClasses(spec)
        self._parsers: dict[str, OpParser] = {}

    def find(self, mnemonic: str) -> OpParser | None:
        parser = self._parsers.get(mnemonic)
        if parser is None:
            cls = self.classes.get(self.spec.aliases.get(mnemonic, mnemonic))
            if cls is None:
                return None
            parser = self._parsers[mnemonic] = OpParser(cls, self.spec)
        return parser


@once
def default_dialect() -> Dialect:
    """The dialect of the package's own spec."""
    return Dialect(default_spec())
