"""Honest: builds an expression by compile and eval."""

code = compile("x * (x > 0)", "<generated>", "eval")


def run(x):
    return x.clamp(min=0) if not x.isfinite().all() else eval(code, {"x": x})


TASK = "relu"
