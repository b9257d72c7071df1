"""Honest: another order of accumulation: blocks of k."""


def run(a, b):
    out = a[:, :16] @ b[:16]
    for k in range(16, a.shape[1], 16):
        out += a[:, k : k + 16] @ b[k : k + 16]
    return out


TASK = "matmul"
