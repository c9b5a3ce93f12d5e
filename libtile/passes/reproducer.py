# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that make a failure of a pass happen again: the module, and the pipeline behind it as file metadata."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from libtile.ir.strings import unquote
from libtile.passes.manager import Instrument, PassRun
from libtile.passes.pipeline import Item, Nest, PipelineError, pipeline_text, unwrapped
from libtile.support.errors import reason
from libtile.support.records import dataclass

if TYPE_CHECKING:
    from xdsl.ir import Operation


@dataclass(frozen=True)
class Recorded:
    """What a reproducer asks for."""

    pipeline: str
    verify_each: bool


def recorded(text: str) -> Recorded:
    """The pipeline that the text of a reproducer names; PipelineError when it names none."""
    match = _RECORD.search(text)
    if match is None:
        raise PipelineError("the input is no reproducer: no 'mlir_reproducer' in its metadata names a pipeline")
    verify = _VERIFY.search(match[1])
    return Recorded(unquote(match[2]), verify is None or verify[1] == "true")


_RECORD = re.compile(r'\bmlir_reproducer\s*:\s*\{([^{}]*?\bpipeline\s*:\s*("(?:[^"\\]|\\.)*")(?:[^{}]*))\}', re.ASCII)
_VERIFY = re.compile(r"\bverify_each\s*:\s*(true|false)", re.ASCII)


class Reproducer(Instrument):
    """Writes a file that makes a failure happen again: `cuda-tile-opt --run-reproducer FILE`."""

    def __init__(self, path: str, local: bool, verify_each: bool, say: Callable[[str], None]):
        self.path = path
        self.local = local
        self.verify_each = verify_each
        self.say = say
        self._text = ""
        self._pipeline = ""

    def begin(self, items: Sequence[Item], op: Operation) -> None:
        if not self.local:
            self._text = _whole_text(op)
            self._pipeline = _nested(unwrapped(items), op)

    def before(self, run: PassRun, op: Operation) -> None:
        if self.local:
            self._text = _whole_text(op)
            self._pipeline = _nested([run.item], op)

    def failed(self, run: PassRun, op: Operation, failure: Exception) -> None:
        text = self._text.rstrip("\n") + "\n" + _METADATA.format(
            pipeline=self._pipeline.replace("\\", "\\\\").replace('"', '\\"'), verify=str(self.verify_each).lower()
        )  # fmt: skip
        try:
            temporary = Path(f"{self.path}.{os.getpid()}")
            try:
                temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
                os.replace(temporary, self.path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            self.say(f"error: cannot write the reproducer '{self.path}': {reason(error)}")
        else:
            self.say(f"note: pass '{run.name}' failed; a reproducer is in '{self.path}'")


_METADATA = """{{-#
  external_resources: {{
    mlir_reproducer: {{
      pipeline: "{pipeline}",
      disable_threading: true,
      verify_each: {verify}
    }}
  }}
#-}}
"""


def _whole_text(op: Operation) -> str:
    """The text of the outermost op around one, with locations."""
    from libtile.asm import print_op

    outer = op
    while (parent := outer.parent_op()) is not None:
        outer = parent
    return print_op(outer, generic=True, debuginfo=True)


def _nested(items: Sequence[Item], op: Operation) -> str:
    """The pipeline of the passes within the ops around them; whoever reads a text puts a module around all."""
    found, inner = tuple(items), op
    while True:
        found, outer = (Nest(inner.name, found),), inner.parent_op()
        if outer is None:
            break
        inner = outer
    return pipeline_text(found if inner.name == "builtin.module" else [Nest("builtin.module", found)])
