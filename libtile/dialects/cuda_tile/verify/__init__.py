# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The verifier of the cuda_tile dialect.

`verify(op, text_of)` checks an op and everything below it and returns every diagnostic (`libtile.asm.module.diagnose`
is what others call); `verify_type` checks the invariants of a type. What the spec
declares (members, constraints, traits, regions) is checked from the spec alone; rules that only one op has are
functions registered by mnemonic:

- `engine`: walks the IR in source order and runs the checks of each op;
- `declared`: checks compiled from an op's declaration; `traits`, `attribute_kinds`, `structure`: what they consist of;
- `types`: invariants of types;
- `arithmetic`, `conversions`, `tiles`, `mma`, `memory`, `views`, `multimem`, `control_flow`, `aggregates`,
  `functions`, `assumptions`, `hints`, `debug_info`: rules by family of ops.

An op gets at most one error, its first in the order of checks that MLIR has: sizes, attributes, operands, results,
traits, regions, then the op's own rule, and after the ops inside, the rules about its regions.
"""

from libtile.dialects.cuda_tile.verify.engine import verify, verify_alone
from libtile.dialects.cuda_tile.verify.types import verify_type

__all__ = ["verify", "verify_alone", "verify_type"]
