# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes of nv_tileas around TMA descriptors and tensor memory, in the order in which they run:

lower-tma-load-store-to-async   tiled accesses with a TMA atom become asynchronous copies through descriptors
separate-host-tma               descriptors that the host can make move to a host module
attach-tma-descriptor-args      kernels get their descriptors as arguments
tileas-legalize-tmem-copy       copies that cross tensor memory become ones that hardware has
"""
