# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`FileCheck` by the `filecheck` package."""

from __future__ import annotations

import sys

from filecheck.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
