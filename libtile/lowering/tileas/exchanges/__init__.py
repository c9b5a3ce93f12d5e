# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How elements go from thread to thread: the steps of a conversion of layouts, and the shared memory they take."""
