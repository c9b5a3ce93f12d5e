# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an instruction family can do, and which layouts it wants: questions and answers, no emission."""
