# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.bytecode.annotate`: see `libtile_tools.annotate`."""

from libtile_tools.entry import annotate

annotate()
