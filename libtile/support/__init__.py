# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every room uses: errors, diagnostics, timing, files, the pause of the collector, kept declarations."""
