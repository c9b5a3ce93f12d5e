# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products whose operands are gathered, in the ways in which kernels write it, in cuTile."""

import cuda.tile as ct

Size = ct.Constant[int]


@ct.kernel
def embedding(table, ids, W, Y, tm: Size, tn: Size, tk: Size):
    """Rows of a table that are named by numbers, some of which it has not, multiply a matrix."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(ids, index=(i,), shape=(tm,))
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.cdiv(table.shape[1], tk)):
        cols = k * tk + ct.arange(tk, dtype=ct.int32)
        a = ct.gather(table, (rows[:, None], cols[None, :]))
        b = ct.load(W, index=(k, j), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b, acc)
    ct.store(Y, index=(i, j), tile=acc)


@ct.kernel
def by_pointers(A, B, C, tm: Size, tn: Size, tk: Size, turned: ct.Constant[bool]):
    """Both operands by computed indices, the right one the other way round or not, with a tail of k that a mask leaves
    out."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    r = i * tm + ct.arange(tm, dtype=ct.int32)
    c = j * tn + ct.arange(tn, dtype=ct.int32)
    for k in range(ct.cdiv(A.shape[1], tk)):
        d = k * tk + ct.arange(tk, dtype=ct.int32)
        a = ct.gather(A, (r[:, None], d[None, :]))
        b = ct.gather(B, (c[None, :], d[:, None]) if turned else (d[:, None], c[None, :]))
        acc = ct.mma(a, b, acc)
    ct.store(C, index=(i, j), tile=acc)


@ct.kernel
def dilated(X, W, Y, tm: Size, tn: Size, tk: Size, R: Size, S: Size, D: Size):
    """A convolution of pixels that lie apart, of a batch of pictures: a tile is pixels of one row."""
    # X [N, H, Wd, C], W [R, S, C, F], Y [N, Ho, Wo, F]
    x, y, z = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    cols = x * tm + ct.arange(tm, dtype=ct.int32)
    for r in range(R):
        for s in range(S):
            for c in range(ct.cdiv(X.shape[3], tk)):
                ch = c * tk + ct.arange(tk, dtype=ct.int32)
                a = ct.gather(X, (z, y + r * D, (cols + s * D)[:, None], ch[None, :]))
                b = ct.load(W, index=(r, s, c, 0), shape=(1, 1, tk, tn), padding_mode=ct.PaddingMode.ZERO)
                acc = ct.mma(a, b.reshape((tk, tn)), acc)
    ct.store(Y, index=(z, y, x, 0), tile=acc.reshape((1, 1, tm, tn)))


@ct.kernel
def apart(X, W, Y, tm: Size, tn: Size, tk: Size, R: Size, S: Size):
    """A convolution that leaves out every other pixel, whose pixels are no box of the tensor."""
    x, y = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    cols = x * tm + ct.arange(tm, dtype=ct.int32)
    for r in range(R):
        for s in range(S):
            for c in range(ct.cdiv(X.shape[2], tk)):
                ch = c * tk + ct.arange(tk, dtype=ct.int32)
                a = ct.gather(X, (2 * y + r, (2 * cols + s)[:, None], ch[None, :]))
                b = ct.load(W, index=(r, s, c, 0), shape=(1, 1, tk, tn), padding_mode=ct.PaddingMode.ZERO)
                acc = ct.mma(a, b.reshape((tk, tn)), acc)
    ct.store(Y, index=(y, x, 0), tile=acc.reshape((1, tm, tn)))


@ct.kernel
def padded(X, W, Y, tm: Size, tn: Size, tk: Size, R: Size, S: Size):
    """A convolution with zeros around the picture, from whose edge tiles begin in front of it."""
    x, y = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    cols = x * tm + ct.arange(tm, dtype=ct.int32)
    for r in range(R):
        for s in range(S):
            for c in range(ct.cdiv(X.shape[2], tk)):
                ch = c * tk + ct.arange(tk, dtype=ct.int32)
                a = ct.gather(X, (y + r - R // 2, (cols + s - S // 2)[:, None], ch[None, :]))
                b = ct.load(W, index=(r, s, c, 0), shape=(1, 1, tk, tn), padding_mode=ct.PaddingMode.ZERO)
                acc = ct.mma(a, b.reshape((tk, tn)), acc)
    ct.store(Y, index=(y, x, 0), tile=acc.reshape((1, tm, tn)))


@ct.kernel
def images(X, W, Y, H: Size, Wd: Size, tm: Size, tn: Size, C: Size):
    """A convolution of 3x3 that halves pictures with zeros around them: a tile is pixels in the order of memory, of as
    many rows and pictures as they are, whose places are found by division."""
    # X [N, H, Wd, C], W [3, 3, C, F], Y [N * H / 2 * Wd / 2, F]
    i, j = ct.bid(0), ct.bid(1)
    p = i * tm + ct.arange(tm, dtype=ct.int32)
    rows, columns = H // 2, Wd // 2
    n, y, x = p // (rows * columns), (p // columns) % rows, p % columns
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    ch = ct.arange(C, dtype=ct.int32)
    for r in range(3):
        for s in range(3):
            pixels = n[:, None], (2 * y + r - 1)[:, None], (2 * x + s - 1)[:, None], ch[None, :]
            b = ct.load(W, index=(r, s, 0, j), shape=(1, 1, C, tn), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(ct.gather(X, pixels, padding_value=0), b.reshape((C, tn)), acc)
    ct.store(Y, index=(i, j), tile=acc)
