# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m libtile_cli`; or `python tools/libtile_cli` in a clone, installed or not."""

if not __package__:  # run as a folder, which is then all that Python was told of
    import os
    import sys

    tools = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:1] = [tools, os.path.dirname(tools)]

from libtile_tools.entry import libtile

libtile()
