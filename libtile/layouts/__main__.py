# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.layouts`: see `libtile_tools.layouts`."""

from libtile_tools.entry import layouts

layouts()
