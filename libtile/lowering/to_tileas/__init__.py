# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`convert-tileaa-to-tileas`: chooses a layout for every tile, and puts conversions between those that differ."""
