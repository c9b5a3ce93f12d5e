# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.layouts`: see `libtile.tools.layouts`."""

from libtile.tools.entry import layouts

layouts()
