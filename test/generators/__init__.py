# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random valid Tile IR programs: made from a seed, run on every backend, compared, and reduced when they disagree.

`python -m generators --help` (in `test/`) runs, prints and reduces programs by hand; see docs/random-programs.md.
"""
