# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile.simulator`."""

from .cli import main

main()
