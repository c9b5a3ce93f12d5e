# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler: its stages, options, remarks, cache and driver."""
