# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.simulator`: see `libtile.tools.simulator`."""

from libtile.tools.entry import simulator

simulator()
