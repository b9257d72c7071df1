"""The public functions of logits."""

import torch

from .._core import cap_of, checked, refuse, remembered
from ..loss import linear_cross_entropy
from ._ops import MOST, check, number, top

T = torch.Tensor


@remembered
@checked
def top_k(x: T, weight: T, count: int, bias: T | None = None, *, softcap: float | None = None) -> tuple[T, T]:
    """Return the largest logits of `F.linear(x, weight, bias)`, and their tokens.

    The largest comes first, of equals the first token; NaN is larger than all.

    Args:
        x: (rows, columns) float32, bfloat16 or float16; float64 runs the reference.
        weight: (vocabulary, columns), of x's dtype.
        count: Tokens of a row, at most 1024.
        bias: (vocabulary,) floats; the kernel takes float32.
        softcap: Logits z become `softcap * tanh(z / softcap)`; None for no cap.

    Returns:
        values: (rows, count) float32, with gradients in x, weight and bias, as if no other tokens could have been.
        tokens: (rows, count) int64.

    Raises:
        ArgumentError: an argument does not fit.

    Example:
        >>> top_k(torch.eye(2), torch.tensor([[1.0, 5.0], [3.0, 5.0]]), 1)[1].tolist()
        [[1], [0]]
    """
    found: tuple[T, T, T] = top(x, weight, bias, count, cap_of("logits", "softcap", softcap), False)
    return found[0], found[1]


@remembered
@checked
def argmax(x: T, weight: T, bias: T | None = None) -> T:
    """Return the token of the largest logit of each row, the first of equals: (rows,) int64.

    Arguments and errors are those of `top_k`.

    Example:
        >>> argmax(torch.eye(2), torch.tensor([[1.0, 5.0], [3.0, 5.0]])).tolist()
        [1, 0]
    """
    return top_k(x, weight, 1, bias)[1][:, 0]


@remembered
@checked
def logsumexp(x: T, weight: T, bias: T | None = None, *, softcap: float | None = None) -> T:
    """Return the log-sum-exp of each row's logits: (rows,) float32, with gradients in x, weight and bias.

    Their logits are made again, some rows at a time. Arguments and errors are those of `top_k`.

    Example:
        >>> logsumexp(torch.zeros(2, 3), torch.ones(8, 3)).exp().tolist()
        [8.0, 8.0]
    """
    out: T = top(x, weight, bias, 1, cap_of("logits", "softcap", softcap), True)[2]
    return out


@checked
def log_probs(
    x: T, weight: T, tokens: T, bias: T | None = None, *, softcap: float | None = None, ignore_index: int = -100
) -> T:  # fmt: skip
    """Return the log-probability of a token of each row: what supervised, preference and policy losses are made of.

    Args:
        x: (rows, columns), as for `top_k`.
        weight: (vocabulary, columns).
        tokens: (rows,) int64, in [0, vocabulary) or `ignore_index`.
        bias: (vocabulary,).
        softcap: As for `top_k`.
        ignore_index: Rows of this token give 0.

    Returns:
        (rows,) float32, with gradients in x, weight and bias.

    Raises:
        ArgumentError: an argument does not fit.
        IndexError: a token is no row of weight.

    Example:
        >>> log_probs(torch.zeros(1, 3), torch.ones(8, 3), torch.tensor([5])).exp().tolist()
        [0.125]
    """
    check(x, weight, bias)
    if not isinstance(tokens, T):
        refuse("logits", "tokens", f"a {type(tokens).__name__}", f"({len(x)},), torch.int64")
    if tokens.shape != (len(x),) or tokens.dtype is not torch.int64:
        given = f"of shape {tuple(tokens.shape)}, {tokens.dtype}"
        refuse("logits", "tokens", given, f"({len(x)},), torch.int64")
    if not isinstance(ignore_index, int) or not -(1 << 63) <= ignore_index < 1 << 63:
        given = f"a {type(ignore_index).__name__}" if isinstance(ignore_index, T) else repr(ignore_index)
        refuse("logits", "ignore_index", given, "a whole number of 64 bits")
    cap = cap_of("logits", "softcap", softcap) or None
    try:
        return -linear_cross_entropy(
            x, weight, tokens, bias, softcap=cap, ignore_index=ignore_index, reduction="none"
        )
    except IndexError as error:
        said = str(error).replace("loss.linear_cross_entropy: target", "logits.log_probs: tokens")
        raise IndexError(said) from None


@checked
def sample(
    x: T, weight: T, bias: T | None = None, *, seed: int, count: int = 64, temperature: float = 1.0, top_p: float = 1.0,
    min_p: float = 0.0, softcap: float | None = None,
) -> T:  # fmt: skip
    """Draw a token of each row among its `count` likeliest: the same for the same seed, whatever the threads.

    Probabilities are the softmax of `logits / temperature` over those tokens. `top_p` keeps the likeliest of them until
    their probabilities sum to it, `min_p` those at least so likely relative to the likeliest; the likeliest is kept.

    Args:
        x: (rows, columns), as for `top_k`.
        weight: (vocabulary, columns).
        bias: (vocabulary,).
        seed: From 0.
        count: Tokens that can be drawn, at most 1024; as many as there are if there are fewer.
        temperature: Above 0; 0 takes the likeliest.
        top_p: From 0 to 1.
        min_p: From 0 to 1.
        softcap: As for `top_k`.

    Returns:
        (rows,) int64.

    Raises:
        ArgumentError: an argument does not fit.

    Example:
        >>> sample(torch.eye(2), torch.tensor([[0.0, 99.0], [99.0, 0.0]]), seed=1).tolist()
        [1, 0]
    """
    check(x, weight, bias)
    number(temperature, "temperature", 0.0)
    number(top_p, "top_p", 0.0, 1.0)
    number(min_p, "min_p", 0.0, 1.0)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
        refuse(
            "logits",
            "seed",
            f"a {type(seed).__name__}" if isinstance(seed, T) else repr(seed),
            "0 to 2**63 - 1",
        )
    if isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MOST:
        count = min(count, weight.shape[0])
    values, tokens = top_k(x, weight, count, bias, softcap=softcap)
    if temperature == 0:
        return tokens[:, 0]
    weights = (values.double() / float(temperature)).softmax(1)
    before = weights.cumsum(1) - weights
    kept = (before < top_p) & (weights >= min_p * weights[:, :1])
    kept[:, 0] = True
    ends = (weights * kept).cumsum(1)
    random = torch.rand(len(x), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    drawn = (ends <= random.to(ends.device)[:, None] * ends[:, -1:]).sum(1).clamp(max=ends.shape[1] - 1)
    return tokens.gather(1, drawn[:, None])[:, 0]
