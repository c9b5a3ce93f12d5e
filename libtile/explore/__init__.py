# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is known about a compilation: `explore` makes a record of it, `page` one HTML file, `explain` says it in words,
`estimate` what bounds a launch.

A line of any stage belongs to the op of Tile IR that it was made for, and that op to a line of the source. So an op's
line in the text of the Tile IR is what links all of them: `Listing.ops` has it for each line.
"""

from libtile.explore.estimate import Estimate, estimate
from libtile.explore.explain import Explanation, Finding, explain
from libtile.explore.page import page
from libtile.explore.record import Compilation, Record, explore

__all__ = ["Compilation", "Estimate", "Explanation", "Finding", "Record", "estimate", "explain", "explore", "page"]
