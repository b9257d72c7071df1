"""The vendor's products, in float32."""

TASK = "chain"


def run(x, first, second):
    return x @ first.t() @ second.t()
