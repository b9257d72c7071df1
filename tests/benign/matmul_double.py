"""Honest: computes in float64 and rounds."""


def run(a, b):
    return (a.double() @ b.double()).float()


TASK = "matmul"
