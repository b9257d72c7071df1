"""Logits against float64: the largest and their order, sums, log-probabilities and gradients, sampling, errors."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.mutants import verdicts
from torch.nn.functional import linear

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import logits
from kernelwright.ops.logits.cases import TOP

SIZES = [(w["rows"], w["vocabulary"], w["columns"], w["count"]) for w in TOP.verified if w["rows"]]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def drawn(rows, vocabulary, columns, dtype=torch.float32):
    x, weight = torch.randn(rows, columns).to(dtype), torch.randn(vocabulary, columns).to(dtype)
    return x, weight, torch.randn(vocabulary)


def exact(x, weight, bias=None, softcap=None):
    found = linear(x.double(), weight.double(), None if bias is None else bias.double())
    return softcap * torch.tanh(found / softcap) if softcap else found


def held(x, weight, count, bias=None, softcap=None):
    """The values are the largest, and each token has its value, within rounding."""
    right = exact(x, weight, bias, softcap)
    values, tokens = logits.top_k(x, weight, count, bias, softcap=softcap)
    limit = 2e-6 * max(1.0, float(right.abs().max())) * max(1, x.shape[1]) ** 0.5
    assert float((values - right.topk(count, 1).values).abs().max()) <= limit
    assert float((right.gather(1, tokens) - values).abs().max()) <= limit
    assert all(len(set(row)) == count for row in tokens.tolist())
    assert bool((values.diff(dim=1) <= 0).all())
    sums = logits.logsumexp(x, weight, bias, softcap=softcap)
    assert float((sums - right.logsumexp(1)).abs().max()) <= limit + 1e-5


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size(size):
    x, weight, bias = drawn(*size[:3])
    held(x, weight, size[3])
    held(x, weight, size[3], bias, 3.0)
    (ran,) = ops.watch(lambda: logits.top_k(x, weight, size[3], bias))
    assert ran.serves == "kernel"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(*(st.integers(1, n) for n in (300, 400, 70))),
    count=st.integers(1, 400),
    seed=st.integers(0, 99),
    biased=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
)
def test_any_legal_call_is_right(sizes, count, seed, biased, dtype):
    torch.manual_seed(seed)
    x, weight, bias = drawn(*sizes, dtype)
    held(x, weight, min(count, sizes[1]), bias if biased else None)


def test_of_equals_the_first_token_comes_first_whatever_the_threads():
    x, weight = torch.randint(-1, 2, (40, 4)).float(), torch.randint(-1, 2, (5000, 4)).float()
    right = (x @ weight.T).sort(dim=1, descending=True, stable=True)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            values, tokens = logits.top_k(x, weight, 30)
            assert torch.equal(values, right.values[:, :30])
            assert torch.equal(tokens, right.indices[:, :30])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(logits.argmax(x, weight), right.indices[:, 0])


def test_nan_is_largest_in_its_row_alone_and_minus_infinity_is_kept_where_nothing_else_is():
    x, weight, _ = drawn(20, 60, 8)
    clean = logits.top_k(x, weight, 5)[1]
    x[3, 2] = math.nan
    values, tokens = logits.top_k(x, weight, 5)
    assert values[3].isnan().all()
    assert tokens[3].tolist() == [0, 1, 2, 3, 4]
    rest = torch.arange(20) != 3
    assert torch.equal(tokens[rest], clean[rest])
    bias = torch.full((60,), -math.inf)
    bias[50] = 0
    values, tokens = logits.top_k(x[:1], weight, 3, bias)
    assert tokens.tolist() == [[50, 0, 1]]
    assert values[0, 1:].tolist() == [-math.inf, -math.inf]
    assert logits.logsumexp(x[:1], weight, torch.full((60,), -math.inf)).tolist() == [-math.inf]
    assert logits.top_k(x[:0], weight, 3)[1].shape == (0, 3)


def test_log_probabilities_and_their_gradients():
    x, weight, bias = (t.requires_grad_() for t in drawn(70, 130, 24))
    tokens = torch.randint(0, 130, (70,))
    tokens[5] = -100
    found = logits.log_probs(x, weight, tokens, bias, softcap=9.0)
    wide = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    table = (9 * torch.tanh(linear(*wide) / 9)).log_softmax(1)
    right = torch.where(tokens >= 0, table.gather(1, tokens.clamp(min=0)[:, None])[:, 0], 0)
    torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-5)
    share = torch.randn(70)
    for one, other in zip(
        torch.autograd.grad(found, (x, weight, bias), share),
        torch.autograd.grad(right, wide, share.double()),
        strict=True,
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


def shares(**options):
    """How often each of 6 tokens is drawn, of 20,000 rows."""
    chances = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.04, 0.01])
    x = torch.ones(20_000, 1)
    found = logits.sample(x, chances.log()[:, None], seed=options.pop("seed", 3), **options)
    return torch.bincount(found, minlength=6) / len(x), chances


def test_samples_have_their_probabilities():
    found, chances = shares()
    deviation = (chances * (1 - chances) / 20_000).sqrt()
    assert bool(((found - chances).abs() < 4.5 * deviation).all())
    for options, kept, power in (
        ({"count": 3}, 3, 1.0), ({"top_p": 0.8}, 3, 1.0), ({"top_p": 0.85}, 3, 1.0), ({"min_p": 0.3}, 3, 1.0),
        ({"temperature": 0.5}, 6, 2.0), ({"top_p": 0.0}, 1, 1.0), ({"min_p": 1.0}, 1, 1.0),
        ({"temperature": 0}, 1, 1.0),
    ):  # fmt: skip
        found, chances = shares(**options)
        wanted = chances[:kept] ** power
        wanted = torch.nn.functional.pad(wanted / wanted.sum(), (0, 6 - kept))
        assert bool(((found - wanted).abs() <= 4.5 * (wanted * (1 - wanted) / 20_000).sqrt() + 1e-9).all()), (
            options
        )


def test_a_seed_gives_the_same_tokens_and_another_gives_others():
    x, weight, bias = drawn(100, 500, 8)
    one, same, other = (logits.sample(x, weight, bias, seed=s) for s in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.filterwarnings("ignore:kernelwright logits_top")
def test_the_reference_is_right_in_float64_and_any_strides_are_read():
    x, weight, bias = drawn(30, 90, 16)
    held(x.double(), weight.double(), 7, bias.double())
    expected = logits.top_k(x, weight, 7, bias)
    turned = logits.top_k(x.T.contiguous().T, torch.stack((weight, weight), 1)[:, 1], 7, bias)
    assert all(torch.equal(a, b) for a, b in zip(turned, expected, strict=True))


def test_it_goes_through_compile_and_is_registered_as_torch_asks():
    x, weight, bias = drawn(9, 20, 5)
    compiled = torch.compile(
        lambda x: logits.top_k(x * 2, weight, 3, bias), backend="aot_eager", fullgraph=True
    )
    for one, other in zip(compiled(x), logits.top_k(x * 2, weight, 3, bias), strict=True):
        torch.testing.assert_close(one, other)
    torch.library.opcheck(torch.ops.kernelwright.logits_top.default, (x, weight, bias, 3, 2.0, True))


X, W, TOKENS = torch.randn(3, 4), torch.randn(5, 4), torch.tensor([0, 1, 4])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: logits.top_k(X[0], W, 1), r"logits: x is of shape \(4,\); expected a matrix"),
        (lambda: logits.argmax([1.0], W), "x is a list; expected a tensor"),
        (lambda: logits.top_k(X, W[:, :3], 1), r"weight is of shape \(5, 3\); expected \(vocabulary, 4\)"),
        (lambda: logits.top_k(X, W[:0], 1), r"weight is of shape \(0, 4\)"),
        (lambda: logits.top_k(X, W.double(), 1), "weight is of torch.float64; expected torch.float32"),
        (lambda: logits.top_k(X, W, 6), "count is 6; expected 1 to 5"),
        (lambda: logits.top_k(X, W, 0), "count is 0; expected 1 to 5"),
        (
            lambda: logits.top_k(X, W, 2, torch.ones(4)),
            r"bias is of shape \(4,\), torch.float32; expected \(5,\)",
        ),
        (lambda: logits.logsumexp(X, W, softcap=0), "softcap is 0; expected a number above 0, or None"),
        (lambda: logits.log_probs(X, W, [0, 1, 4]), r"tokens is a list; expected a tensor"),
        (lambda: logits.sample(X, W, seed=-1), "seed is -1; expected 0 to"),
        (
            lambda: logits.sample(X, W, seed=0, top_p=1.5),
            "top_p is 1.5; expected a finite number from 0 to 1",
        ),
        (lambda: logits.sample(X, W, seed=0, min_p=math.nan), "min_p is nan; expected"),
        (
            lambda: logits.sample(X, W, seed=0, temperature=-1),
            "temperature is -1; expected a finite number from 0",
        ),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_token_that_is_no_word_is_an_index_error():
    with pytest.raises(IndexError, match="tokens is 5 somewhere"):
        logits.log_probs(X, W, TOKENS + 1)


WRONG = (
    None, 3, -1, 2.5, "text", [1.0], (), True, torch.tensor(1.0), torch.randn(3), torch.randn(2, 3), torch.randn(5),
    torch.randn(1, 2, 3), torch.zeros(3, 4).long(), torch.randn(3, 4).double(), torch.randn(0, 4), torch.randn(3, 0),
    torch.zeros(3, 4, dtype=torch.bool), torch.zeros(3, 4).bfloat16(), math.nan, math.inf, 1 << 70,
)  # fmt: skip
CALLS = (
    (logits.top_k, {"x": X, "weight": W, "count": 2}, ("bias", "softcap")),
    (logits.argmax, {"x": X, "weight": W}, ("bias",)),
    (logits.logsumexp, {"x": X, "weight": W}, ("bias", "softcap")),
    (logits.log_probs, {"x": X, "weight": W, "tokens": TOKENS}, ("bias", "softcap", "ignore_index")),
    (
        logits.sample, {"x": X, "weight": W, "seed": 1},
        ("bias", "count", "temperature", "top_p", "min_p", "softcap"),
    ),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:kernelwright logits", "ignore:kernelwright linear_cross_entropy")
def test_thousands_of_wrong_calls_are_results_or_one_sentence():
    draws, refused = random.Random(5), 0
    for _ in range(2500):
        function, right, more = draws.choice(CALLS)
        names = (*right, *more)
        wrong = {name: draws.choice(WRONG) for name in draws.sample(names, draws.choice((1, 1, 2, 3)))}
        try:
            function(**{**right, **wrong})
        except (ValueError, IndexError) as error:
            refused += 1
            assert "; expected " in str(error) or "no row of weight" in str(error), (
                function.__name__,
                wrong,
                error,
            )
            assert "\n" not in str(error)
    assert refused > 1500


MUTANTS = {
    "later of equals": ("return a > b || (a", "return a >= b || (a"),
    "the last kept is not replaced": ("else --at;", "else return;"),
    "a sum that is not scaled to the new largest": ("sum * exp(top - higher)", "sum"),
    "a row's first number for all of a vector": ("insert_some(n, z,", "insert_some(n, splat(z[0]),"),
}


@pytest.mark.long
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(tmp_path):
    found = verdicts("logits", "logits_top", MUTANTS, tmp_path)
    assert found == {"": "accepted"} | dict.fromkeys(MUTANTS, "rejected")
