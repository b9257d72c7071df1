"""Triton kernels of the usual kinds."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, out, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v.to(tl.float32) - tl.max(v.to(tl.float32), 0))
    tl.store(out + row * stride + at, e / tl.sum(e, 0), mask=at < n)


@triton.jit
def layer_norm(x, weight, bias, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(at < n, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    w, b = tl.load(weight + at, mask=at < n), tl.load(bias + at, mask=at < n)
    tl.store(out + row * n + at, d * scale * w + b, mask=at < n)


@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = (rm[:, None] < M) & ((k + rk)[None, :] < K)
        right = ((k + rk)[:, None] < K) & (rn[None, :] < N)
        x = tl.load(a + rm[:, None] * sam + (k + rk)[None, :] * sak, mask=left, other=0.0)
        y = tl.load(b + (k + rk)[:, None] * sbk + rn[None, :] * sbn, mask=right, other=0.0)
        acc += tl.dot(x, y)
    tl.store(c + rm[:, None] * scm + rn[None, :] * scn, acc.to(c.dtype.element_ty),
             mask=(rm[:, None] < M) & (rn[None, :] < N))  # fmt: skip


@triton.jit
def matmul_int(a, b, c, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rm, rn, rk = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, K)
    x = tl.load(a + rm[:, None] * K + rk[None, :])
    y = tl.load(b + rk[:, None] * BN + rn[None, :])
    tl.store(c + rm[:, None] * BN + rn[None, :], tl.dot(x, y))


@triton.jit
def attention(q, k, v, out, N, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    x = tl.load(q + rm[:, None] * D + rd[None, :], mask=rm[:, None] < N, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, N, BN):
        rn = start + tl.arange(0, BN)
        y = tl.load(k + rn[None, :] * D + rd[:, None], mask=rn[None, :] < N, other=0.0)
        s = tl.where(rn[None, :] < N, tl.dot(x, y) * scale, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        fade = tl.exp(top - higher)
        z = tl.load(v + rn[:, None] * D + rd[None, :], mask=rn[:, None] < N, other=0.0)
        acc = acc * fade[:, None] + tl.dot(p.to(z.dtype), z)
        total = total * fade + tl.sum(p, 1)
        top = higher
    tl.store(
        out + rm[:, None] * D + rd[None, :],
        (acc / total[:, None]).to(out.dtype.element_ty),
        mask=rm[:, None] < N,
    )


@triton.jit
def cumulative(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, tl.cumsum(v, 0), mask=at < n)


@triton.jit
def ordered(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS, mask=at < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def split_k(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


@triton.jit
def arg_max(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.store(out + row, tl.argmax(tl.load(x + row * n + at, mask=at < n, other=-float("inf")), 0))


@triton.jit
def elementwise(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    v = (
        tl.sigmoid(v) * v
        + tl.erf(v)
        + tl.sin(v) * tl.log(tl.abs(v) + 1.0)
        + tl.rsqrt(v * v + 1.0)
        + tl.floor(v)
    )
    tl.store(out + at, v.to(out.dtype.element_ty), mask=at < n)


@triton.jit
def unmasked(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at), mask=at < n)


@triton.jit
def racy_total(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out, tl.load(out) + tl.sum(tl.load(x + at), 0))


@triton.jit
def matmul_by_maps(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([i, k]), b.load([k, j]), acc)
    c.store([i, j], acc.to(c.dtype))


@triton.jit
def matmul_makes_maps(pa, pb, pc, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(pa, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b = tl.make_tensor_descriptor(pb, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    c = tl.make_tensor_descriptor(pc, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    matmul_by_maps(a, b, c, K, BM, BN, BK)


@triton.jit
def add_tiles(x, out, BM: tl.constexpr):
    out.atomic_add([0, 0], x.load([tl.program_id(0) * BM, 0]))


@triton.jit
def matmul_by_blocks(A, B, C, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM
    a = tl.make_block_ptr(A, (M, K), (sa, 1), (row, 0), (BM, BK), (1, 0))
    b = tl.make_block_ptr(
        base=B, shape=(K, N), strides=(sb, 1), offsets=(0, 0), block_shape=(BK, BN), order=(1, 0)
    )
    c = tl.make_block_ptr(C, (M, N), (sc, 1), (row, 0), (BM, BN), (1, 0))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(a, boundary_check=(0, 1), padding_option="zero")
        total += tl.dot(x, tl.load(b, boundary_check=(0, 1), padding_option="zero"), allow_tf32=False)
        a, b = tl.advance(a, (0, BK)), tl.advance(b, (BK, 0))
    tl.store(c, total.to(c.type.element_ty).to(c.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def padded_by_blocks(x, out, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), order=(0,))
    tl.store(out + tl.arange(0, BLOCK), tl.load(block, boundary_check=0, padding_option="nan"))


@triton.jit
def unchecked_by_blocks(x, out, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), order=(0,))
    tl.store(out + tl.arange(0, BLOCK), tl.load(block))


@triton.jit
def copied(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
