# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of the few queries of a step of decoding, whose keys are the rows of products, in cuTile."""

import math

import cuda.tile as ct

Size = ct.Constant[int]
LOWEST = -math.inf


@ct.kernel
def decode_keys_first(Q, K, V, Out, LSE, scale: float, length: int, TH: Size, TN: Size, D: Size, C: Size):
    """Queries of heads that share keys and values, over a part of these: scores and results are transposed, so that few
    queries are columns. Sums of weights stay apart by the key's row until the end."""
    b, h, z = ct.bid(0), ct.bid(1), ct.bid(2)
    q = ct.transpose(ct.load(Q, index=(b, h, 0, 0), shape=(1, 1, TH, D)).reshape((TH, D)))
    m = ct.full((TH,), LOWEST, dtype=ct.float32)
    total = ct.full((TN, TH), 0.0, dtype=ct.float32)
    acc = ct.full((D, TH), 0.0, dtype=ct.float32)
    place = ct.arange(TN, dtype=ct.int32)[:, None]
    if z * C * TN < length:
        for i in range(C):
            j = z * C + i
            k = ct.load(K, index=(b, h, j, 0), shape=(1, 1, TN, D), padding_mode=ct.PaddingMode.ZERO).reshape((TN, D))
            s = ct.mma(k, q, ct.full((TN, TH), 0.0, dtype=ct.float32)) * scale
            if (j + 1) * TN > length:
                s = ct.where(j * TN + place < length, s, -1.0e6)
            mn = max(m, ct.max(s, axis=0))
            p = ct.exp2(s - mn[None, :])
            al = ct.exp2(m - mn)
            total = total * al[None, :] + p
            v = ct.load(V, index=(b, h, j, 0), shape=(1, 1, TN, D), padding_mode=ct.PaddingMode.ZERO).reshape((TN, D))
            acc = ct.mma(ct.transpose(v), ct.astype(p, Q.dtype), acc * al[None, :])
            m = mn
    t = ct.sum(total, axis=0)
    ct.store(Out, index=(b, h, z, 0, 0), tile=ct.transpose(acc / t[None, :]).reshape((1, 1, 1, TH, D)))
    ct.store(LSE, index=(b, h, z, 0), tile=(m + ct.log2(t)).reshape((1, 1, 1, TH)))


@ct.kernel
def mla_decode(Q, QR, K, V, KR, Out, LSE, scale: float, length: int, TH: Size, TN: Size, D: Size, R: Size):
    """A query for each of 16 heads, which share keys, values, and parts of keys with positions."""
    x, b = ct.bid(0), ct.bid(1)
    q = ct.load(Q, index=(b, 0, x), shape=(1, D, TH), order=(0, 2, 1)).reshape((D, TH))
    qr = ct.load(QR, index=(b, 0, x), shape=(1, R, TH), order=(0, 2, 1)).reshape((R, TH))
    m = ct.full((TH,), LOWEST, dtype=ct.float32)
    total = ct.full((TN, TH), 0.0, dtype=ct.float32)
    acc = ct.full((D, TH), 0.0, dtype=ct.float32)
    place = ct.arange(TN, dtype=ct.int32)[:, None]
    for j in range(ct.cdiv(length, TN)):
        k = ct.load(K, index=(b, j, 0), shape=(1, TN, D), padding_mode=ct.PaddingMode.ZERO).reshape((TN, D))
        s = ct.mma(k, q, ct.full((TN, TH), 0.0, dtype=ct.float32))
        kr = ct.load(KR, index=(b, j, 0), shape=(1, TN, R), padding_mode=ct.PaddingMode.ZERO).reshape((TN, R))
        s = ct.mma(kr, qr, s)
        if (j + 1) * TN > length:
            s = ct.where(j * TN + place < length, s, -1.0e6)
        mn = max(m, ct.max(s, axis=0) * scale)
        p = ct.exp2(s * scale - mn[None, :])
        al = ct.exp2(m - mn)
        total = total * al[None, :] + p
        v = ct.load(V, index=(b, j, 0), shape=(1, TN, D), padding_mode=ct.PaddingMode.ZERO).reshape((TN, D))
        acc = ct.mma(ct.transpose(v), ct.astype(p, Q.dtype), acc * al[None, :])
        m = mn
    t = ct.sum(total, axis=0)
    ct.store(LSE, index=(b, x), tile=(m + ct.log2(t)).reshape((1, TH)))
    ct.store(Out, index=(b, x, 0), tile=ct.transpose(ct.astype(acc / t[None, :], Out.dtype)).reshape((1, TH, D)))
