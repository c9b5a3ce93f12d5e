# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a module and a launch may ask for: a device's limits, or what a simulation can hold where that is less."""

MAX_ALIGN = 1 << 16
MAX_BYTES = {
    "shared": 228 << 10,
    "local": 512 << 10,
    "const": 64 << 10,
    "param": 32764,
    "global": 1 << 28,
}
"""Bytes of a CTA's, a thread's, a module's, a function's (its parameters) and a launch's memory."""
MAX_NESTING = 64
"""Braces of an initialiser, blocks, parentheses."""
MAX_CONSTANT_BITS = 256
MAX_PRINT_WIDTH = 1 << 16
"""Width and precision of a conversion of printf."""
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_CLUSTER = 16
MAX_BLOCK = 1024
SM_REGISTERS = 1 << 16
MAX_THREAD_REGISTERS = 256
REGISTER_STEP = 8
"""Registers of a multiprocessor and of a thread, and what setmaxnreg counts them in."""
TENSOR_LANES, TENSOR_COLUMNS = 128, 512
"""Tensor memory of a multiprocessor, in words of 32 bits."""
