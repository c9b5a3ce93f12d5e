# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops whose loads run ahead: schedules, stages, and what arrives at their barrier objects."""
