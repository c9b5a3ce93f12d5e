# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long a test waits for what must end, so that one that hangs fails: `timeout=PATIENCE`.

Nothing is said about speed by it. What takes a second on an idle machine takes many on one that has much else to do,
and a test must not fail for that.
"""

PATIENCE = 600.0
"""Seconds."""
