# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.bytecode.annotate`: see `libtile.tools.annotate`."""

from libtile.tools.entry import annotate

annotate()
