# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes over the dialects. `registry.PASSES` lists them by name; each is a frozen dataclass, its fields the options."""
