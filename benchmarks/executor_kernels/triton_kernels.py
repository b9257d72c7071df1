# ruff: noqa: D103  (names and the head say all)
"""Triton kernels of models, forward and backward: norms, rotations, losses, attention, experts, quantised products."""

import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, out, scales, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v, 0) / n + eps)
    tl.store(scales + row, scale)
    w = tl.load(weight + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out + row * n + at, (v * scale * w).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def rms_norm_backward(x, weight, scales, grad, grad_x, grad_weight, rows, n, BLOCK: tl.constexpr):
    first, at = tl.program_id(0), tl.arange(0, BLOCK)
    w = tl.load(weight + at, mask=at < n, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(first, rows, tl.num_programs(0)):
        v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        g = tl.load(grad + row * n + at, mask=at < n, other=0.0).to(tl.float32)
        scale = tl.load(scales + row)
        inner = tl.sum(g * w * v, 0) / n
        tl.store(
            grad_x + row * n + at,
            (scale * (g * w - v * inner * scale * scale)).to(x.dtype.element_ty),
            mask=at < n,
        )
        total += g * v * scale
    tl.atomic_add(grad_weight + at, total, mask=at < n)


@triton.jit
def rope(x, cosine, sine, out, heads, DIM: tl.constexpr):
    at, half = tl.program_id(0), tl.arange(0, DIM // 2)
    c = tl.load(cosine + (at // heads) * (DIM // 2) + half)
    s = tl.load(sine + (at // heads) * (DIM // 2) + half)
    a = tl.load(x + at * DIM + half).to(tl.float32)
    b = tl.load(x + at * DIM + DIM // 2 + half).to(tl.float32)
    tl.store(out + at * DIM + half, (a * c - b * s).to(out.dtype.element_ty))
    tl.store(out + at * DIM + DIM // 2 + half, (b * c + a * s).to(out.dtype.element_ty))


@triton.jit
def cross_entropy(logits, labels, losses, grads, classes, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, classes, BLOCK):
        v = tl.load(logits + row * classes + start + at, mask=start + at < classes, other=-float("inf")).to(
            tl.float32
        )
        higher = tl.maximum(top, v)
        total = total * tl.where(top == -float("inf"), 0.0, tl.exp(top - higher))
        total += tl.where(v == -float("inf"), 0.0, tl.exp(v - higher))
        top = higher
    most = tl.max(top, 0)
    log_sum = most + tl.log(tl.sum(total * tl.where(top == -float("inf"), 0.0, tl.exp(top - most)), 0))
    label = tl.load(labels + row)
    tl.store(losses + row, log_sum - tl.load(logits + row * classes + label).to(tl.float32))
    for start in range(0, classes, BLOCK):
        v = tl.load(logits + row * classes + start + at, mask=start + at < classes, other=-float("inf")).to(
            tl.float32
        )
        g = tl.exp(v - log_sum) - tl.where(start + at == label, 1.0, 0.0)
        tl.store(grads + row * classes + start + at, g.to(grads.dtype.element_ty), mask=start + at < classes)


@triton.jit
def swiglu(gate, up, grad, out, grad_gate, grad_up, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(gate + at, mask=at < n, other=0.0).to(tl.float32)
    b = tl.load(up + at, mask=at < n, other=0.0).to(tl.float32)
    g = tl.load(grad + at, mask=at < n, other=0.0).to(tl.float32)
    s = tl.sigmoid(a)
    tl.store(out + at, (a * s * b).to(out.dtype.element_ty), mask=at < n)
    tl.store(grad_gate + at, (g * b * s * (1 + a * (1 - s))).to(out.dtype.element_ty), mask=at < n)
    tl.store(grad_up + at, (g * a * s).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def _scores(x, y, i, j, scale, N, CAUSAL: tl.constexpr):
    s = tl.dot(x, y) * scale
    there = (i[:, None] < N) & (j[None, :] < N)
    if CAUSAL:
        there = there & (i[:, None] >= j[None, :])
    return tl.where(there, s, -float("inf"))


@triton.jit
def attention(
    q,
    k,
    v,
    out,
    log_sums,
    N,
    scale,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    base = tl.program_id(1) * N
    i, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    x = tl.load(q + (base + i)[:, None] * D + d[None, :], mask=i[:, None] < N, other=0.0)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = tl.minimum(N, (tl.program_id(0) + 1) * BM) if CAUSAL else N
    for start in range(0, end, BN):
        j = start + tl.arange(0, BN)
        y = tl.load(k + (base + j)[None, :] * D + d[:, None], mask=j[None, :] < N, other=0.0)
        s = _scores(x, y, i, j, scale, N, CAUSAL)
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        fade = tl.exp(top - higher)
        z = tl.load(v + (base + j)[:, None] * D + d[None, :], mask=j[:, None] < N, other=0.0)
        acc = acc * fade[:, None] + tl.dot(p.to(z.dtype), z)
        total = total * fade + tl.sum(p, 1)
        top = higher
    total = tl.where(i < N, total, 1.0)
    tl.store(
        out + (base + i)[:, None] * D + d[None, :],
        (acc / total[:, None]).to(out.dtype.element_ty),
        mask=i[:, None] < N,
    )
    tl.store(log_sums + base + i, top + tl.log(total), mask=i < N)


@triton.jit
def attention_backward(q, k, v, grad, log_sums, deltas, gq, gk, gv, N, scale, D: tl.constexpr, BM: tl.constexpr,
                       BN: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    base = tl.program_id(1) * N
    j, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    y = tl.load(k + (base + j)[None, :] * D + d[:, None], mask=j[None, :] < N, other=0.0)
    z = tl.load(v + (base + j)[None, :] * D + d[:, None], mask=j[None, :] < N, other=0.0)
    grad_k = tl.zeros((BN, D), tl.float32)
    grad_v = tl.zeros((BN, D), tl.float32)
    for start in range(0, N, BM):
        i = start + tl.arange(0, BM)
        rows = (base + i)[:, None] * D + d[None, :]
        x = tl.load(q + rows, mask=i[:, None] < N, other=0.0)
        g = tl.load(grad + rows, mask=i[:, None] < N, other=0.0)
        log_sum = tl.load(log_sums + base + i, mask=i < N, other=0.0)
        p = tl.exp(_scores(x, y, i, j, scale, N, CAUSAL) - log_sum[:, None])
        grad_v += tl.dot(tl.trans(p.to(g.dtype)), g)
        delta = tl.load(deltas + base + i, mask=i < N, other=0.0)
        s = p * (tl.dot(g, z) - delta[:, None]) * scale
        grad_k += tl.dot(tl.trans(s.to(x.dtype)), x)
        tl.atomic_add(gq + rows, tl.dot(s.to(x.dtype), tl.trans(y)), mask=i[:, None] < N)
    rows = (base + j)[:, None] * D + d[None, :]
    tl.store(gk + rows, grad_k, mask=j[:, None] < N)
    tl.store(gv + rows, grad_v, mask=j[:, None] < N)


@triton.jit
def experts(x, w, out, rows, of, weights, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    row = tl.load(rows + tile * BM + tl.arange(0, BM))
    expert = tl.load(of + tile)
    n, kk = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    there = row >= 0
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(
            x + row[:, None] * K + (k + kk)[None, :], mask=there[:, None] & ((k + kk)[None, :] < K), other=0.0
        )
        b = tl.load(
            w + (expert * K + k + kk)[:, None] * N + n[None, :],
            mask=((k + kk)[:, None] < K) & (n[None, :] < N),
            other=0.0,
        )
        acc += tl.dot(a, b)
    scale = tl.load(weights + tile * BM + tl.arange(0, BM))
    tl.atomic_add(
        out + row[:, None] * N + n[None, :], acc * scale[:, None], mask=there[:, None] & (n[None, :] < N)
    )


@triton.jit
def persistent_matmul(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), down * across, tl.num_programs(0)):
        group = tile // (GROUP * across)
        size = tl.minimum(down - group * GROUP, GROUP)
        i = (group * GROUP + (tile % (GROUP * across)) % size) * BM + tl.arange(0, BM)
        j = ((tile % (GROUP * across)) // size) * BN + tl.arange(0, BN)
        kk = tl.arange(0, BK)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            x = tl.load(
                a + i[:, None] * K + (k + kk)[None, :],
                mask=(i[:, None] < M) & ((k + kk)[None, :] < K),
                other=0.0,
            )
            y = tl.load(
                b + (k + kk)[:, None] * N + j[None, :],
                mask=((k + kk)[:, None] < K) & (j[None, :] < N),
                other=0.0,
            )
            acc = tl.dot(x, y, acc)
        tl.store(
            c + i[:, None] * N + j[None, :],
            acc.to(c.dtype.element_ty),
            mask=(i[:, None] < M) & (j[None, :] < N),
        )


@triton.jit
def int4_matmul(x, packed, scales, out, N, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    n, byte = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, K // 2)
    words = tl.load(packed + n[None, :] * (K // 2) + byte[:, None], mask=n[None, :] < N, other=0)
    low, high = (words & 15).to(tl.int8) - 8, (words >> 4).to(tl.int8) - 8
    i = tl.arange(0, BM)
    even = tl.load(x + i[:, None] * K + 2 * byte[None, :])
    odd = tl.load(x + i[:, None] * K + 2 * byte[None, :] + 1)
    acc = tl.dot(even, low.to(x.dtype.element_ty)) + tl.dot(odd, high.to(x.dtype.element_ty))
    acc *= tl.load(scales + n, mask=n < N, other=0.0)[None, :]
    tl.store(out + i[:, None] * N + n[None, :], acc, mask=n[None, :] < N)


@triton.jit
def quantise(x, out, scales, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(v), 0), 1e-10) / 127.0
    tl.store(scales + row, scale)
    tl.store(out + row * n + at, tl.extra.cuda.libdevice.rint(v / scale).to(tl.int8), mask=at < n)


@triton.jit
def _decay(a, x, b, y):
    return a * b, y + b * x


@triton.jit
def recurrence(gates, x, out, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    g = tl.load(gates + row * n + at, mask=at < n, other=0.0)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    _, h = tl.associative_scan((g, v), 0, _decay)
    tl.store(out + row * n + at, h, mask=at < n)


@triton.jit
def convolution(x, w, out, C: tl.constexpr, H, W, BLOCK: tl.constexpr, R: tl.constexpr):
    o, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    oh, ow = at // (W - R + 1), at % (W - R + 1)
    there = oh < H - R + 1
    acc = tl.zeros((BLOCK,), tl.float32)
    for c in range(C):
        for r in tl.static_range(R):
            for s in tl.static_range(R):
                v = tl.load(x + (c * H + oh + r) * W + ow + s, mask=there, other=0.0)
                acc += v * tl.load(w + ((o * C + c) * R + r) * R + s)
    tl.store(out + o * (H - R + 1) * (W - R + 1) + at, acc, mask=there)
