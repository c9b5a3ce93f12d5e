# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels on Blackwell (sm_100): `on_gpu.py` says what is measured and what it needs."""

import sys

from on_gpu import main

if __name__ == "__main__":
    sys.exit(main("sm_100"))
