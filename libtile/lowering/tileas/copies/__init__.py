# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""By which instruction an access moves its tile, how wide, and what TMA can copy."""
