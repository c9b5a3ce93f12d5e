# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forms of attention as models have them, in cuTile."""

import math

import cuda.tile as ct

Size = ct.Constant[int]
LOWEST = -math.inf
LOG2_E = 1 / math.log(2)


@ct.kernel
def gqa_window(Q, K, V, Out, scale: float, cap: float, window: int, G: Size, TM: Size, TN: Size, D: Size):
    """Attention of grouped heads within a window, with scores bounded by tanh."""
    bx, h = ct.bid(0), ct.bid(1)
    q = ct.load(Q, index=(h, bx, 0), shape=(1, TM, D)).reshape((TM, D))
    m = ct.full((TM, 1), -1.0e30, dtype=ct.float32)
    total = ct.full((TM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((TM, D), 0.0, dtype=ct.float32)
    lo = max(0, (bx * TM - window) // TN)
    hi = ct.cdiv((bx + 1) * TM, TN)
    for j in range(lo, hi):
        k = ct.load(K, index=(h // G, 0, j), shape=(1, D, TN), order=(0, 2, 1)).reshape((D, TN))
        s = ct.mma(q, k, ct.full((TM, TN), 0.0, dtype=ct.float32)) * scale
        s = cap * ct.tanh(s / cap)
        row = bx * TM + ct.arange(TM, dtype=ct.int32)[:, None]
        col = j * TN + ct.arange(TN, dtype=ct.int32)[None, :]
        s = ct.where((col <= row) & (col > row - window), s, -1.0e30)
        mn = max(m, ct.max(s, axis=1, keepdims=True))
        p = ct.exp(s - mn)
        al = ct.exp(m - mn)
        total = total * al + ct.sum(p, axis=1, keepdims=True)
        v = ct.load(V, index=(h // G, j, 0), shape=(1, TN, D)).reshape((TN, D))
        acc = ct.mma(ct.astype(p, Q.dtype), v, acc * al)
        m = mn
    ct.store(Out, index=(h, bx, 0), tile=ct.astype(acc / total, Out.dtype).reshape((1, TM, D)))


@ct.kernel
def causal_prefill(Q, K, V, Out, scale: float, behind: int, G: Size, TM: Size, TN: Size, D: Size):
    """Causal attention of queries behind others. The loop masks only where it has to, and cuTile parts it."""
    bx, h = ct.bid(0), ct.bid(1)
    q = ct.load(Q, index=(h, bx, 0), shape=(1, TM, D)).reshape((TM, D))
    row = behind + bx * TM + ct.arange(TM, dtype=ct.int32)[:, None]
    m = ct.full((TM, 1), LOWEST, dtype=ct.float32)
    total = ct.full((TM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((TM, D), 0.0, dtype=ct.float32)
    length = K.shape[1]
    plain = min(behind + bx * TM, length) // TN
    for j in range(ct.cdiv(min(behind + (bx + 1) * TM, length), TN)):
        k = ct.load(K, index=(h // G, 0, j), shape=(1, D, TN), order=(0, 2, 1)).reshape((D, TN))
        s = ct.mma(q, k, ct.full((TM, TN), 0.0, dtype=ct.float32))
        if j >= plain:
            col = j * TN + ct.arange(TN, dtype=ct.int32)[None, :]
            s = s + ct.where((col <= row) & (col < length), 0.0, LOWEST)
        mn = max(m, ct.max(s, axis=1, keepdims=True) * scale)
        p = ct.exp2(s * scale - mn)
        al = ct.exp2(m - mn)
        total = total * al + ct.sum(p, axis=1, keepdims=True)
        v = ct.load(V, index=(h // G, j, 0), shape=(1, TN, D)).reshape((TN, D))
        acc = ct.mma(ct.astype(p, Q.dtype), v, acc * al)
        m = mn
    ct.store(Out, index=(h, bx, 0), tile=ct.astype(acc / total, Out.dtype).reshape((1, TM, D)))


@ct.kernel
def paged(Q, K, V, table, lens, Out, scale: float, TM: Size, P: Size, TN: Size, D: Size):
    """Attention of some queries over pages of P keys and values that a table names, in tiles of TN."""
    b, h = ct.bid(0), ct.bid(1)
    q = ct.load(Q, index=(b, h, 0, 0), shape=(1, 1, TM, D)).reshape((TM, D))
    n = ct.load(lens, index=(b,), shape=(1,)).item()
    m = ct.full((TM, 1), LOWEST, dtype=ct.float32)
    total = ct.full((TM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((TM, D), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(n, TN)):
        page = ct.load(table, index=(b, j * TN // P), shape=(1, 1)).item()
        part = j * TN % P // TN
        k = ct.load(K, index=(page, h, part, 0), shape=(1, 1, TN, D)).reshape((TN, D))
        s = ct.mma(q, ct.transpose(k), ct.full((TM, TN), 0.0, dtype=ct.float32)) * scale
        col = j * TN + ct.arange(TN, dtype=ct.int32)[None, :]
        s = ct.where(col < n, s, LOWEST)
        mn = max(m, ct.max(s, axis=1, keepdims=True))
        p = ct.exp(s - mn)
        al = ct.exp(m - mn)
        total = total * al + ct.sum(p, axis=1, keepdims=True)
        v = ct.load(V, index=(page, h, part, 0), shape=(1, 1, TN, D)).reshape((TN, D))
        acc = ct.mma(ct.astype(p, Q.dtype), v, acc * al)
        m = mn
    ct.store(Out, index=(b, h, 0, 0), tile=ct.astype(acc / total, Out.dtype).reshape((1, 1, TM, D)))


@ct.kernel
def mla(Q, QR, K, KR, V, Out, scale: float, TM: Size, TN: Size, D: Size, R: Size):
    """Attention with scores of two products, of which one has keys that all heads share."""
    bx, h = ct.bid(0), ct.bid(1)
    q = ct.load(Q, index=(h, bx, 0), shape=(1, TM, D)).reshape((TM, D))
    qr = ct.load(QR, index=(h, bx, 0), shape=(1, TM, R)).reshape((TM, R))
    m = ct.full((TM, 1), LOWEST, dtype=ct.float32)
    total = ct.full((TM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((TM, D), 0.0, dtype=ct.float32)
    for j in range(ct.num_tiles(K, axis=1, shape=(1, TN, D))):
        k = ct.load(K, index=(h, j, 0), shape=(1, TN, D)).reshape((TN, D))
        kr = ct.load(KR, index=(j, 0), shape=(TN, R))
        s = ct.mma(q, ct.transpose(k), ct.full((TM, TN), 0.0, dtype=ct.float32))
        s = ct.mma(qr, ct.transpose(kr), s) * scale
        mn = max(m, ct.max(s, axis=1, keepdims=True))
        p = ct.exp2(s - mn)
        al = ct.exp2(m - mn)
        total = total * al + ct.sum(p, axis=1, keepdims=True)
        v = ct.load(V, index=(h, j, 0), shape=(1, TN, D)).reshape((TN, D))
        acc = ct.mma(ct.astype(p, Q.dtype), v, acc * al)
        m = mn
    ct.store(Out, index=(h, bx, 0), tile=ct.astype(acc / total, Out.dtype).reshape((1, TM, D)))


@ct.kernel
def linear_attention(Q, K, V, Out, TM: Size, D: Size):
    """Causal attention without a softmax: a state of keys and values is carried from block to block."""
    h = ct.bid(0)
    state = ct.full((D, D), 0.0, dtype=ct.float32)
    row = ct.arange(TM, dtype=ct.int32)[:, None]
    col = ct.arange(TM, dtype=ct.int32)[None, :]
    for j in range(ct.num_tiles(Q, axis=1, shape=(1, TM, D))):
        q = ct.load(Q, index=(h, j, 0), shape=(1, TM, D)).reshape((TM, D))
        k = ct.load(K, index=(h, j, 0), shape=(1, TM, D)).reshape((TM, D))
        v = ct.load(V, index=(h, j, 0), shape=(1, TM, D)).reshape((TM, D))
        s = ct.mma(q, ct.transpose(k), ct.full((TM, TM), 0.0, dtype=ct.float32))
        s = ct.where(row >= col, s, 0.0)
        o = ct.mma(q, ct.astype(state, Q.dtype), ct.full((TM, D), 0.0, dtype=ct.float32))
        o = ct.mma(ct.astype(s, Q.dtype), v, o)
        state = ct.mma(ct.transpose(k), v, state)
        ct.store(Out, index=(h, j, 0), tile=ct.astype(o, Out.dtype).reshape((1, TM, D)))


@ct.kernel
def decode_split(Q, K, V, Out, LSE, scale: float, TM: Size, TN: Size, D: Size, C: Size):
    """Attention of 16 queries over a part of the keys, with the logarithms of the sums for the parts to be joined."""
    h, z = ct.bid(0), ct.bid(1)
    q = ct.load(Q, index=(h, 0, 0), shape=(1, TM, D), padding_mode=ct.PaddingMode.ZERO).reshape((TM, D))
    m = ct.full((TM, 1), LOWEST, dtype=ct.float32)
    total = ct.full((TM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((TM, D), 0.0, dtype=ct.float32)
    for j in range(z * C, (z + 1) * C):
        k = ct.load(K, index=(h, j, 0), shape=(1, TN, D)).reshape((TN, D))
        s = ct.mma(q, ct.transpose(k), ct.full((TM, TN), 0.0, dtype=ct.float32)) * scale
        mn = max(m, ct.max(s, axis=1, keepdims=True))
        p = ct.exp(s - mn)
        al = ct.exp(m - mn)
        total = total * al + ct.sum(p, axis=1, keepdims=True)
        v = ct.load(V, index=(h, j, 0), shape=(1, TN, D)).reshape((TN, D))
        acc = ct.mma(ct.astype(p, Q.dtype), v, acc * al)
        m = mn
    ct.store(Out, index=(z, h, 0, 0), tile=(acc / total).reshape((1, 1, TM, D)))
    ct.store(LSE, index=(z, h, 0), tile=(m + ct.log(total)).reshape((1, 1, TM)))


def _keys_in(
    K, V, q, row, state, h, first, end, scale: float, cap: float, window: int, causal: Size, TM: Size, TN: Size, D: Size
):
    """Go on with the keys from one column to another: blocks before the diagonal, or those that it crosses."""
    m, total, acc = state
    block = first // TN
    for column in range(first, end, TN):
        k = ct.load(K, index=(h, block, 0), shape=(1, TN, D), latency=3).reshape((TN, D))
        s = ct.mma(q, ct.transpose(k), ct.full((TM, TN), 0.0, dtype=ct.float32)) * scale
        s = ct.truediv(s, cap, flush_to_zero=True, rounding_mode=ct.RoundingMode.APPROX)
        s = cap * ct.tanh(s, rounding_mode=ct.RoundingMode.APPROX)
        col = column + ct.arange(TN, dtype=ct.int32)
        if causal:
            s = ct.where(row[:, None] >= col[None, :], s, -1.0e6)
        behind = col[None, :] - row[:, None]
        s = ct.where((behind >= -window) & (behind <= window), s, -1.0e6)
        mn = max(m, ct.max(s, axis=-1) * LOG2_E)
        p = ct.exp2(s * LOG2_E - mn[:, None], flush_to_zero=True)
        al = ct.exp2(m - mn, flush_to_zero=True)
        total = total * al + ct.sum(p, axis=-1)
        v = ct.load(V, index=(h, block, 0), shape=(1, TN, D), latency=3).reshape((TN, D))
        acc = ct.mma(ct.astype(p, q.dtype), v, acc * al[:, None])
        m = mn
        block += 1
    return m, total, acc


@ct.kernel
def capped_window(Q, K, V, Out, scale: float, cap: float, window: int, G: Size, TM: Size, TN: Size, D: Size):
    """Causal attention within a window, with bounded scores, in two loops: the second one has the diagonal."""
    bx, h = ct.bid(0), ct.bid(1)
    q = ct.load(Q, index=(h, bx, 0), shape=(1, TM, D)).reshape((TM, D))
    row = bx * TM + ct.arange(TM, dtype=ct.int32)
    state = (
        ct.full((TM,), LOWEST, dtype=ct.float32),
        ct.full((TM,), 0.0, dtype=ct.float32),
        ct.full((TM, D), 0.0, dtype=ct.float32),
    )
    first, diagonal, end = max(0, bx * TM - window) // TN * TN, bx * TM, (bx + 1) * TM
    state = _keys_in(K, V, q, row, state, h // G, first, diagonal, scale, cap, window, False, TM, TN, D)
    _, total, acc = _keys_in(K, V, q, row, state, h // G, diagonal, end, scale, cap, window, True, TM, TN, D)
    ct.store(Out, index=(h, bx, 0), tile=ct.astype(acc / total[:, None], Out.dtype).reshape((1, TM, D)))


@ct.kernel
def ragged_prefill(Q, K, V, starts, Out, scale: float, G: Size, TM: Size, TN: Size, D: Size):
    """Causal attention within each of several sequences, which lie one behind the other: a loop over the blocks before
    the diagonal, and one over those that it crosses, each with a count of its own."""
    bx, b, h = ct.bid(0), ct.bid(1), ct.bid(2)
    start = ct.load(starts, index=(b,), shape=(1,)).item()
    length = ct.load(starts, index=(b + 1,), shape=(1,)).item() - start
    first = bx * TM
    if first >= length:
        return
    queries, keys = (
        Q.slice(axis=0, start=start, stop=start + length),
        K.slice(axis=0, start=start, stop=start + length),
    )
    values, results = (
        V.slice(axis=0, start=start, stop=start + length),
        Out.slice(axis=0, start=start, stop=start + length),
    )
    q = ct.load(queries, index=(bx, h, 0), shape=(TM, 1, D), padding_mode=ct.PaddingMode.ZERO).reshape((TM, D))
    m = ct.full((TM,), LOWEST, dtype=ct.float32)
    total = ct.full((TM,), 0.0, dtype=ct.float32)
    acc = ct.full((TM, D), 0.0, dtype=ct.float32)
    zeros = ct.full((TM, TN), 0.0, dtype=ct.float32)
    for j in range(ct.cdiv(min(length, first), TN)):
        k = ct.load(keys, index=(j, h // G, 0), shape=(TN, 1, D), padding_mode=ct.PaddingMode.ZERO).reshape((TN, D))
        s = ct.mma(q, ct.transpose(k), zeros)
        mn = max(m, ct.max(s, axis=1) * scale)
        p = ct.exp2(s * scale - mn[:, None], flush_to_zero=True)
        al = ct.exp2(m - mn, flush_to_zero=True)
        total = total * al + ct.sum(p, axis=1)
        v = ct.load(values, index=(j, h // G, 0), shape=(TN, 1, D), padding_mode=ct.PaddingMode.ZERO).reshape((TN, D))
        acc = ct.mma(ct.astype(p, q.dtype), v, acc * al[:, None])
        m = mn
    row, column = first + ct.arange(TM, dtype=ct.int32), ct.arange(TN, dtype=ct.int32)
    block = first // TN
    for j in range(ct.cdiv(min(length, first + TM) - first, TN)):
        k = ct.load(keys, index=(block + j, h // G, 0), shape=(TN, 1, D), padding_mode=ct.PaddingMode.ZERO)
        s = ct.mma(q, ct.transpose(k.reshape((TN, D))), zeros)
        col = first + j * TN + column
        s = ct.where(row[:, None] >= col[None, :], s, -1.0e6)
        mn = max(m, ct.max(s, axis=1) * scale)
        p = ct.exp2(s * scale - mn[:, None], flush_to_zero=True)
        al = ct.exp2(m - mn, flush_to_zero=True)
        total = total * al + ct.sum(p, axis=1)
        v = ct.load(values, index=(block + j, h // G, 0), shape=(TN, 1, D), padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(ct.astype(p, q.dtype), v.reshape((TN, D)), acc * al[:, None])
        m = mn
    ct.store(results, index=(bx, h, 0), tile=ct.astype(acc / total[:, None], Out.dtype).reshape((TM, 1, D)))
