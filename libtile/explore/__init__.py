# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Everything that is known about a compilation, side by side: `explore` makes a record of it, `page` one HTML file.

A line of any stage belongs to the op of Tile IR that it was made for, and that op to a line of the source. So an op's
line in the text of the Tile IR is what links all of them: `Listing.ops` has it for each line.
"""

from libtile.explore.page import page
from libtile.explore.record import Compilation, Record, explore

__all__ = ["Compilation", "Record", "explore", "page"]
