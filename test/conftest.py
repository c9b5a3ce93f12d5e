# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Its presence here puts `test/` on the import path of every test: `import oracle`, `from kernels import corpus`."""
