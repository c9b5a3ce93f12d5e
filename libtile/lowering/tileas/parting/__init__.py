# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parting of kernels into agents: which form each loop gets, and why one stays as it is."""
