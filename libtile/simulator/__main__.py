# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.simulator`: see `libtile_tools.simulator`."""

from libtile_tools.entry import simulator

simulator()
