# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What models do with rows, in cuTile."""

import math

import cuda.tile as ct

Size = ct.Constant[int]
LOWEST = -math.inf


@ct.kernel
def cross_entropy(X, L, loss, dX, T: Size):
    """The loss of rows and its gradient, in two passes over the columns."""
    r = ct.bid(0)
    t = ct.load(L, index=(r,), shape=(1,)).item()
    m = ct.full((1, 1), LOWEST, dtype=ct.float32)
    s = ct.full((1, 1), 0.0, dtype=ct.float32)
    n = ct.num_tiles(X, axis=1, shape=(1, T))
    for j in range(n):
        x = ct.astype(ct.load(X, index=(r, j), shape=(1, T), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
        mn = max(m, ct.max(x, axis=1, keepdims=True))
        s = s * ct.exp(m - mn) + ct.sum(ct.exp(x - mn), axis=1, keepdims=True)
        m = mn
    lse = m + ct.log(s)
    xt = ct.astype(ct.load(X, index=(r, t), shape=(1, 1)), ct.float32)
    ct.store(loss, index=(r, 0), tile=lse - xt)
    for j in range(n):
        x = ct.astype(ct.load(X, index=(r, j), shape=(1, T), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
        col = j * T + ct.arange(T, dtype=ct.int32)[None, :]
        g = ct.exp(x - lse) - ct.where(col == t, 1.0, 0.0)
        ct.store(dX, index=(r, j), tile=ct.astype(g, dX.dtype))


@ct.kernel
def rope(X, C, S, Y, T: Size, H: Size):
    """Rotary embedding of halves of rows."""
    i, h = ct.bid(0), ct.bid(1)
    a = ct.astype(ct.load(X, index=(i, h, 0), shape=(T, 1, H)), ct.float32)
    b = ct.astype(ct.load(X, index=(i, h, 1), shape=(T, 1, H)), ct.float32)
    c = ct.load(C, index=(i, 0), shape=(T, H)).reshape((T, 1, H))
    s = ct.load(S, index=(i, 0), shape=(T, H)).reshape((T, 1, H))
    ct.store(Y, index=(i, h, 0), tile=ct.astype(a * c - b * s, Y.dtype))
    ct.store(Y, index=(i, h, 1), tile=ct.astype(b * c + a * s, Y.dtype))


@ct.kernel
def rms_backward(X, W, dY, dX, dW, eps: float, T: Size, R: Size):
    """The gradients of RMS norm; that of the weights is added up by atomics."""
    i = ct.bid(0)
    w = ct.astype(ct.load(W, index=(0,), shape=(T,), padding_mode=ct.PaddingMode.ZERO), ct.float32)[None, :]
    x = ct.astype(ct.load(X, index=(i, 0), shape=(R, T), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    dy = ct.astype(ct.load(dY, index=(i, 0), shape=(R, T), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    N = X.shape[1]
    rstd = ct.rsqrt(ct.sum(x * x, axis=1, keepdims=True) / N + eps)
    xh = x * rstd
    g = dy * w
    dx = rstd * (g - xh * (ct.sum(g * xh, axis=1, keepdims=True) / N))
    ct.store(dX, index=(i, 0), tile=ct.astype(dx, dX.dtype))
    c = ct.arange(T, dtype=ct.int32)
    ct.atomic_add(dW, (c,), ct.sum(dy * xh, axis=0))


@ct.kernel
def top_k(X, V, N, T: Size, K: Size):
    """The largest elements of rows, one after the other."""
    r = ct.bid(0)
    x = ct.astype(ct.load(X, index=(r, 0), shape=(1, T), padding_mode=ct.PaddingMode.NEG_INF), ct.float32)
    col = ct.arange(T, dtype=ct.int32)[None, :]
    for k in range(K):
        i = ct.argmax(x, axis=1, keepdims=True)
        v = ct.max(x, axis=1, keepdims=True)
        ct.store(V, index=(r, k), tile=v)
        ct.store(N, index=(r, k), tile=ct.astype(i, ct.int32))
        x = ct.where(col == i, LOWEST, x)


@ct.kernel
def adam(P, G, M, V, lr: float, b1: float, b2: float, eps: float, T: Size):
    """One step of Adam."""
    i = ct.bid(0)
    g = ct.astype(ct.load(G, index=(i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    m = b1 * ct.load(M, index=(i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO) + (1 - b1) * g
    v = b2 * ct.load(V, index=(i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO) + (1 - b2) * g * g
    p = ct.astype(ct.load(P, index=(i,), shape=(T,), padding_mode=ct.PaddingMode.ZERO), ct.float32)
    ct.store(M, index=(i,), tile=m)
    ct.store(V, index=(i,), tile=v)
    ct.store(P, index=(i,), tile=ct.astype(p - lr * m / (ct.sqrt(v) + eps), P.dtype))
