# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much a program takes from outside."""

COMPARED_RUNS = 100_000
"""Most runs of each kernel that a comparison of programs makes: hours of the smallest one."""

INPUT_BYTES = 1 << 28
"""Longest file, or stdin, that is read. What compiles has some megabytes; devices such as /dev/zero have no end."""

INTERPRETER_STEPS = 10**8
"""Most ops that the interpreter runs in a tile block, if nothing else is asked for: minutes at least, and more than
any kernel takes that is tried without a GPU. What goes on is taken for an endless loop."""

SAID_BYTES = 1 << 25
"""Most bytes that ptxas says on a stream, which are kept for the report: tens of thousands of kernels' figures."""

SIMULATOR_STEPS = 2 * 10**8
"""The same for the instructions of the simulator, by warps, in a CTA."""

NUMBER_BITS = 128
"""Longest number that a function of the library takes: that of a seed. Python itself gives up on printing one of more
than 4300 digits, as an error of its own."""

PRINTED = 1 << 26
"""Most characters that a launch prints, all of which are kept for its result: 64 times what a device's buffer has."""

TEXT_BYTES = 1 << 26
"""Longest text that is parsed, which takes some fifty times as much memory."""
