"""Logits against torch's two calls, a linear layer and what is made of it, and torch.compile of them.

python -m benchmarks.ops.logits [--only top] [--threads 1] [--rounds 7] [--out rows.jsonl]
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch._dynamo
from torch.nn.functional import cross_entropy, linear

from benchmarks.ops._turns import Case, compiled, main
from kernelwright.ops import logits

torch._dynamo.config.recompile_limit = 64
SIZES = (
    (1, 32000, 512),
    (16, 32000, 512),
    (256, 32000, 64),
    (256, 32000, 256),
    (512, 8192, 64),
    (256, 50257, 768),
)
"""Rows, vocabulary, columns."""
Form = Callable[..., torch.Tensor]
FORMS: dict[str, tuple[Form, Form]] = {
    "argmax": (lambda x, w, _: logits.argmax(x, w), lambda x, w, _: linear(x, w).argmax(1)),
    "top_k 50": (lambda x, w, _: logits.top_k(x, w, 50)[0], lambda x, w, _: linear(x, w).topk(50, 1).values),
    "logsumexp": (lambda x, w, _: logits.logsumexp(x, w), lambda x, w, _: linear(x, w).logsumexp(1)),
    "log_probs": (logits.log_probs, lambda x, w, t: -cross_entropy(linear(x, w), t, reduction="none")),
}
"""Here, and torch's."""


def cases(only: str) -> Iterator[Case]:
    """Make the cases whose op has a word in it."""
    torch.manual_seed(0)
    for op, (own, plain) in FORMS.items():
        if only not in op:
            continue
        also = compiled(plain)
        for rows, vocabulary, columns in SIZES:
            x, weight = torch.randn(rows, columns), torch.randn(vocabulary, columns) / columns**0.5
            tokens = torch.randint(0, vocabulary, (rows,))
            forms = {"kernel": own, "torch": plain, "compile": also}
            calls = {name: partial(form, x, weight, tokens) for name, form in forms.items()}
            yield Case(op, f"{rows}x{vocabulary}x{columns}", "float32", calls)


if __name__ == "__main__":
    with torch.no_grad():
        main(cases, "benchmarks.ops.logits")
