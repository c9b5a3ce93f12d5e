# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes over the dialects: frozen dataclasses whose fields are their options. `registry.PASSES` names them all."""
