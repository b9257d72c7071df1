"""Rotary embedding beside complex numbers, views, positions, gradients and errors."""

import pytest
import torch
from tests.ops.mutants import verdicts

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops.rope import reference

rope = ops.rope.rope
TYPES = (torch.float32, torch.bfloat16)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def angles(rows, pairs):
    theta = torch.arange(rows)[:, None] * 10_000.0 ** -(torch.arange(pairs) / pairs)
    return theta.cos(), theta.sin()


def by_complex(x, cos, sin, interleaved):
    """Turn the pairs of x, (batch, length, heads, size), as complex numbers in float64."""
    half = cos.shape[1]
    turned = x[..., : 2 * half].double()
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    product = torch.complex(a, b) * torch.complex(cos.double(), sin.double())[None, : x.shape[1], None]
    parts = product.real, product.imag
    out = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    return torch.cat([out, x[..., 2 * half :].double()], -1)


def close(mine, exact, dtype):
    limit = {torch.float32: 1e-6, torch.bfloat16: 2.0**-8}[dtype]
    assert mine.dtype is dtype
    assert mine.is_contiguous()
    torch.testing.assert_close(mine.double(), exact, rtol=limit, atol=limit)


SIZES = [
    (1, 1, 1, 1, 1, 0),
    (2, 5, 3, 1, 7, 0),
    (1, 40, 4, 2, 16, 3),
    (2, 33, 2, 2, 33, 32),
    (1, 1, 8, 2, 64, 0),
    (0, 4, 2, 2, 8, 0),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("batch", "length", "heads", "keys", "pairs", "rest"), SIZES)
def test_pairs_turn_as_complex_numbers_do(batch, length, heads, keys, pairs, rest, interleaved, dtype):
    q = torch.randn(batch, length, heads, 2 * pairs + rest).to(dtype)
    k = torch.randn(batch, length, keys, 2 * pairs + rest).to(dtype)
    tables = angles(length + 2, pairs)
    for mine, x in zip(rope(q, k, *tables, interleaved=interleaved), (q, k), strict=True):
        close(mine, by_complex(x, *tables, interleaved), dtype)
    swapped = rope(q.transpose(1, 2), k.transpose(1, 2), *tables, interleaved=interleaved, heads_first=True)
    for mine, x in zip(swapped, (q, k), strict=True):
        close(mine, by_complex(x, *tables, interleaved).transpose(1, 2), dtype)


def test_views_of_one_projection_are_not_copied():
    both = torch.randn(2, 9, 6, 32)
    q, k = both[:, :, :4], both[:, :, 4:]
    tables = angles(9, 16)
    (ran,) = ops.watch(lambda: rope(q, k, *tables))
    assert ran.serves == "kernel"
    for mine, x in zip(rope(q, k, *tables), (q, k), strict=True):
        close(mine, by_complex(x, *tables, False), torch.float32)


def test_positions_choose_the_rows_of_the_tables():
    q, k, (cos, sin) = torch.randn(2, 6, 3, 16), torch.randn(2, 6, 1, 16), angles(50, 8)
    positions = torch.randint(50, (2, 6))
    mine = rope(q, k, cos, sin, positions=positions)
    for batch in range(2):
        one = slice(batch, batch + 1)
        chosen = rope(q[one], k[one], cos[positions[batch]], sin[positions[batch]])
        assert torch.equal(mine[0][one], chosen[0])
        assert torch.equal(mine[1][one], chosen[1])


def test_the_gradient_turns_back():
    q, k, tables = torch.randn(2, 6, 3, 20), torch.randn(2, 6, 1, 20), angles(6, 8)
    leaves = [q.requires_grad_(), k.requires_grad_()]
    turned = rope(*leaves, *tables)
    back = torch.autograd.grad(turned, leaves, [t.detach() for t in turned], create_graph=True)
    for one, leaf in zip(back, leaves, strict=True):
        torch.testing.assert_close(one, leaf)
        assert one.shape == leaf.shape
    g = [torch.randn_like(t) for t in turned]
    exact = torch.autograd.grad(reference.rope(*leaves, *tables), leaves, g)
    for one, other in zip(torch.autograd.grad(rope(*leaves, *tables), leaves, g), exact, strict=True):
        torch.testing.assert_close(one, other)


def test_large_tensors_leave_past_the_caches_with_the_same_numbers():
    q, k, tables = torch.randn(1, 900, 32, 128), torch.randn(1, 900, 4, 128), angles(900, 64)
    for dtype in TYPES:
        many = q.to(dtype).repeat(2, 1, 1, 1), k.to(dtype).repeat(2, 1, 1, 1)
        for interleaved in (False, True):
            large = rope(*many, *tables, interleaved=interleaved)
            small = rope(q[:, :50].to(dtype), k[:, :50].to(dtype), *tables, interleaved=interleaved)
            assert torch.equal(large[0][1:, :50], small[0])
            assert torch.equal(large[1][1:, :50], small[1])


Q, K, COS = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 1, 8), torch.ones(5, 4)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: rope(Q[0], K, COS, COS),
            r"q is of shape \(3, 4, 8\); expected \(batch, length, heads, size\)",
        ),
        (
            lambda: rope(Q, K[:, :2], COS, COS),
            r"k is of shape \(2, 2, 1, 8\), .*; expected \(2, 3, 1, 8\), .* but for",
        ),
        (lambda: rope(Q, K.bfloat16(), COS, COS), "k is of shape .*bfloat16; expected .*float32"),
        (
            lambda: rope(Q, K, torch.ones(5, 5), COS),
            r"cos is of shape \(5, 5\); expected \(positions, at most 4\)",
        ),
        (lambda: rope(Q, K, COS, COS[:, :2]), r"sin is of shape \(5, 2\), .*; expected \(5, 4\)"),
        (lambda: rope(Q, K, COS[:2], COS[:2]), "cos is of 2 rows; expected 3, a row for each position"),
        (lambda: rope(Q, K, COS, COS, positions=torch.zeros(3).long()), r"positions is of shape \(3,\)"),
        (
            lambda: rope(Q, K, COS, COS, positions=torch.zeros(2, 3)),
            r"positions is of .*float32; expected \(2, 3\)",
        ),
    ],
)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_position_without_a_row_is_an_error_everywhere(wrong):
    positions = torch.zeros(2, 3, dtype=torch.int64)
    positions[1, 2] = wrong
    with pytest.raises(ValueError, match=f"positions is {wrong} somewhere; expected 0 to 4"):
        rope(Q, K, COS, COS, positions=positions)
    with pytest.raises(ValueError, match="positions is out of range somewhere; expected 0 to 4"):
        reference.rope(Q, K, COS, COS, positions)


def test_it_goes_through_compile_with_gradients_and_is_registered():
    def loss(q, k):
        turned = rope(q, k, COS, COS, interleaved=True)
        return (turned[0] * turned[1]).square().sum()

    leaves = [Q.clone().requires_grad_(), K.clone().requires_grad_()]
    expected = torch.autograd.grad(loss(*leaves), leaves)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for one, other in zip(torch.autograd.grad(compiled(*leaves), leaves), expected, strict=True):
        torch.testing.assert_close(one, other)
    torch.library.opcheck(torch.ops.kernelwright.rope.default, (Q, K, COS, COS, None, False, False, False))


MUTANTS = {
    "turned the other way": (
        "fma(a, c, -(b * s)), fma(b, c, a * s)",
        "fma(a, c, b * s), fma(b, c, -(a * s))",
    ),
    "positions of the first sequence": (
        "angles.positions[batch * length + first + p]",
        "angles.positions[first + p]",
    ),
    "the rest is not copied": ("sweep<2>(2 * half, angles.size", "sweep<2>(2 * half + 1, angles.size"),
}


@pytest.mark.long
def test_the_judge_accepts_the_kernel_and_refuses_mutants_of_it(tmp_path):
    found = verdicts("rope", "rope", MUTANTS, tmp_path)
    assert found == {"": "accepted", **dict.fromkeys(MUTANTS, "rejected")}
