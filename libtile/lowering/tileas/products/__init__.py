# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products in other forms, which agents can have: transposed, narrower, one for each batch, in loops of one turn."""
