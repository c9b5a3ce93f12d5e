# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where everything lies in shared and in tensor memory, how long it lives, and the barriers and fences around it."""
