# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products as models have them: experts, narrow weights, epilogues, in cuTile."""

import cuda.tile as ct

Size = ct.Constant[int]


@ct.kernel
def moe(X, W, ids, Y, tm: Size, tn: Size, tk: Size):
    """Rows of one expert multiply its weights: each block of rows has an expert."""
    i, j = ct.bid(0), ct.bid(1)
    e = ct.load(ids, index=(i,), shape=(1,)).item()
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(X, axis=1, shape=(tm, tk))):
        a = ct.load(X, index=(i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(W, index=(e, k, j), shape=(1, tk, tn), padding_mode=ct.PaddingMode.ZERO).reshape((tk, tn))
        acc = ct.mma(a, b, acc)
    ct.store(Y, index=(i, j), tile=ct.astype(acc, Y.dtype))


@ct.kernel
def moe_gather(X, W, tokens, ids, Y, tm: Size, tn: Size, tk: Size):
    """As `moe`, of rows that are gathered and scattered by their numbers."""
    i, j = ct.bid(0), ct.bid(1)
    e = ct.load(ids, index=(i,), shape=(1,)).item()
    rows = ct.load(tokens, index=(i,), shape=(tm,))
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.cdiv(X.shape[1], tk)):
        cols = k * tk + ct.arange(tk, dtype=ct.int32)
        a = ct.gather(X, (rows[:, None], cols[None, :]))
        b = ct.load(W, index=(e, k, j), shape=(1, tk, tn), padding_mode=ct.PaddingMode.ZERO).reshape((tk, tn))
        acc = ct.mma(a, b, acc)
    out = j * tn + ct.arange(tn, dtype=ct.int32)
    ct.scatter(Y, (rows[:, None], out[None, :]), ct.astype(acc, Y.dtype))


@ct.kernel
def w8a16(X, W, S, Y, tm: Size, tn: Size, tk: Size):
    """A product with weights of 8 bits, and factors for groups along k."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(X, axis=1, shape=(tm, tk))):
        a = ct.load(X, index=(i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
        w = ct.load(W, index=(k, j), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO)
        s = ct.load(S, index=(k, j), shape=(1, tn))
        b = ct.astype(ct.astype(w, ct.float32) * s, X.dtype)
        acc = ct.mma(a, b, acc)
    ct.store(Y, index=(i, j), tile=ct.astype(acc, Y.dtype))


@ct.kernel
def w4a16(X, W, S, Y, tm: Size, tn: Size, tk: Size):
    """A product with weights of 4 bits, two to a byte, and factors for groups along k."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    H = tk // 2
    for k in range(ct.num_tiles(W, axis=0, shape=(H, tn))):
        w = ct.load(W, index=(k, j), shape=(H, tn))
        s = ct.load(S, index=(k, j), shape=(1, tn))
        lo = ct.astype(w & 15, ct.float16) - 8
        hi = ct.astype((w >> 4) & 15, ct.float16) - 8
        a0 = ct.load(X, index=(i, 2 * k), shape=(tm, H))
        a1 = ct.load(X, index=(i, 2 * k + 1), shape=(tm, H))
        acc = ct.mma(a0, lo * s, acc)
        acc = ct.mma(a1, hi * s, acc)
    ct.store(Y, index=(i, j), tile=ct.astype(acc, Y.dtype))


@ct.kernel
def conv(X, W, Y, tm: Size, tn: Size, tk: Size, R: Size, S: Size):
    """A convolution of 3x3 as products of gathered pixels."""
    # X [H, Wd, C], W [R, S, C, F], Y [Ho, Wo, F]; a tile is tm columns of one row
    x, y, j = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    cols = x * tm + ct.arange(tm, dtype=ct.int32)
    for r in range(R):
        for s in range(S):
            for c in range(ct.cdiv(X.shape[2], tk)):
                ch = c * tk + ct.arange(tk, dtype=ct.int32)
                a = ct.gather(X, (y + r, (cols + s)[:, None], ch[None, :]))
                b = ct.load(W, index=(r, s, c, j), shape=(1, 1, tk, tn), padding_mode=ct.PaddingMode.ZERO).reshape(
                    (tk, tn)
                )
                acc = ct.mma(a, b, acc)
    ct.store(Y, index=(y, x, j), tile=ct.astype(acc, Y.dtype).reshape((1, tm, tn)))


@ct.kernel
def splitk(A, B, C, tm: Size, tn: Size, tk: Size, SK: Size):
    """A product in parts along k, which are added in memory."""
    i, j, z = ct.bid(0), ct.bid(1), ct.bid(2)
    n = ct.num_tiles(A, axis=1, shape=(tm, tk))
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(z, n, SK):
        a = ct.load(A, index=(i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(k, j), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b, acc)
    r = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    c = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
    ct.atomic_add(C, (r, c), acc)


@ct.kernel
def swiglu(X, G, U, Y, tm: Size, tn: Size, tk: Size):
    """Two products with one left operand, and the gate of one by the other."""
    i, j = ct.bid(0), ct.bid(1)
    g = ct.full((tm, tn), 0.0, dtype=ct.float32)
    u = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(X, axis=1, shape=(tm, tk))):
        a = ct.load(X, index=(i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
        g = ct.mma(a, ct.load(G, index=(k, j), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO), g)
        u = ct.mma(a, ct.load(U, index=(k, j), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO), u)
    y = g / (1.0 + ct.exp(-g)) * u
    ct.store(Y, index=(i, j), tile=ct.astype(y, Y.dtype))


@ct.kernel
def block_fp8(A, B, SA, SB, C, tm: Size, tn: Size, tk: Size):
    """A product of e4m3 with factors for each 128 along k."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(A, axis=1, shape=(tm, tk))):
        a = ct.load(A, index=(i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(k, j), shape=(tk, tn), order=(1, 0), padding_mode=ct.PaddingMode.ZERO)
        sa = ct.load(SA, index=(i, k), shape=(tm, 1))
        sb = ct.load(SB, index=(k, j), shape=(1, 1))
        acc = acc + ct.mma(a, b, ct.full((tm, tn), 0.0, dtype=ct.float32)) * (sa * sb)
    ct.store(C, index=(i, j), tile=ct.astype(acc, C.dtype))


@ct.kernel
def gelu_residual(A, B, bias, R, C, tm: Size, tn: Size, tk: Size):
    """A product, a bias, GELU, and a residual that is added."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(A, axis=1, shape=(tm, tk))):
        a = ct.load(A, index=(i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(k, j), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(a, b, acc)
    x = acc + ct.astype(ct.load(bias, index=(j,), shape=(tn,), padding_mode=ct.PaddingMode.ZERO), ct.float32)[None, :]
    g = 0.5 * x * (1.0 + ct.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
    r = ct.astype(ct.load(R, index=(i, j), shape=(tm, tn), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    ct.store(C, index=(i, j), tile=ct.astype(g + r, C.dtype))


@ct.kernel
def batched3(A, B, C, b: Size, tm: Size, tn: Size, tk: Size):
    """Products of tiles with two matrices of a batch."""
    z, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    acc = ct.full((b, tm, tn), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(A, axis=2, shape=(b, tm, tk))):
        x = ct.load(A, index=(z, i, k), shape=(b, tm, tk), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(B, index=(z, k, j), shape=(b, tk, tn), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(C, index=(z, i, j), tile=ct.astype(acc, C.dtype))


@ct.kernel
def group_gemm(As, Bs, Cs, tm: Size, tn: Size, tk: Size, blocks: Size):
    """Products of several pairs of matrices, each of a size of its own: blocks go through the tiles of all of them."""
    tile = ct.bid(0)
    before = 0
    for g in range(len(As)):
        a_all, b_all, c_all = As[g], Bs[g], Cs[g]
        wide = ct.num_tiles(b_all, 1, (tk, tn))
        tiles = ct.num_tiles(a_all, 0, (tm, tk)) * wide
        while tile >= before and tile < before + tiles:
            i, j = (tile - before) // wide, (tile - before) % wide
            acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
            for k in range(ct.num_tiles(a_all, 1, (tm, tk))):
                a = ct.load(a_all, (i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
                b = ct.load(b_all, (k, j), shape=(tk, tn), padding_mode=ct.PaddingMode.ZERO)
                acc = ct.mma(a, b, acc)
            ct.store(c_all, (i, j), tile=ct.astype(acc, c_all.dtype))
            tile += blocks
        before += tiles


@ct.kernel
def group_gemm_nk(As, Bs, Cs, tm: Size, tn: Size, tk: Size, blocks: Size):
    """Products of several pairs of matrices, of which the second lies n by k in memory."""
    tile = ct.bid(0)
    before = 0
    for g in range(len(As)):
        a_all, b_all, c_all = As[g], Bs[g], Cs[g]
        wide = ct.num_tiles(b_all, 0, (tn, tk))
        tiles = ct.num_tiles(a_all, 0, (tm, tk)) * wide
        while tile >= before and tile < before + tiles:
            i, j = (tile - before) // wide, (tile - before) % wide
            acc = ct.full((tm, tn), 0.0, dtype=ct.float32)
            for k in range(ct.num_tiles(a_all, 1, (tm, tk))):
                a = ct.load(a_all, (i, k), shape=(tm, tk), padding_mode=ct.PaddingMode.ZERO)
                b = ct.load(b_all, (j, k), shape=(tn, tk), padding_mode=ct.PaddingMode.ZERO)
                acc = ct.mma(a, ct.transpose(b), acc)
            ct.store(c_all, (i, j), tile=ct.astype(acc, c_all.dtype))
            tile += blocks
        before += tiles
