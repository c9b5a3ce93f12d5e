# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How options that are flags are said to be on and off (LLVM's `cl::opt<bool>`)."""

TRUE = ("true", "TRUE", "True", "1")
FALSE = ("false", "FALSE", "False", "0")
