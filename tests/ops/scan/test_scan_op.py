"""Scans against their recurrences in float64: chunks, states, shared keys, gradients, errors, registration."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import scan
from kernelwright.ops.scan import _ops, reference
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks.capture import record_function

BOUNDS = {torch.float32: 2e-5, torch.bfloat16: 2.0**-6}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def near(found, exact, bound):
    assert len(found) == len(exact)
    for mine, right in zip(found, exact, strict=True):
        assert mine.shape == right.shape
        if right.numel():
            assert (mine.double() - right.double()).abs().max() <= bound * right.double().abs().max() + 1e-30


def wide(tensors):
    return [x.double() if isinstance(x, torch.Tensor) else x for x in tensors]


def selective(length, channels, states, dtype=torch.float32, batch=2, bare=False):
    u, b, c = (torch.randn(batch, length, n).to(dtype) for n in (channels, states, states))
    step, a = torch.rand(batch, length, channels).to(dtype), -3 * torch.rand(channels, states)
    rest = (None, None) if bare else (torch.randn(channels), torch.randn(batch, channels, states))
    return [u, step, a, b, c, *rest]


def heads(groups, each, length, inner, columns, dtype=torch.float32, bare=False):
    q = torch.randn(2, groups, length, inner).to(dtype)
    k = torch.nn.functional.normalize(torch.randn(2, groups, length, inner), dim=-1).to(dtype)
    v = torch.randn(2, groups * each, length, columns).to(dtype)
    decay, state = -torch.rand(v.shape[:3]), torch.randn(2, groups * each, inner, columns)
    return [q, k, v], [None, None] if bare else [decay, state]


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(1, 5, 3), (33, 17, 16), (70, 130, 5), (0, 3, 2)])
def test_the_selective_scan_and_its_gradients_are_those_of_float64(sizes, dtype, bare):
    given = selective(*sizes, dtype, bare=bare)
    near(_ops.selective(*given), reference.selective(*wide(given)), BOUNDS[dtype])
    slopes = (torch.randn_like(given[0]), torch.randn(2, *sizes[1:]))
    near(
        _ops._selective_backward(*given, *slopes),
        reference.selective_backward(*wide(given), *wide(slopes)),
        BOUNDS[dtype],
    )


LINEAR = [
    (1, 1, 1, 4, 5),
    (1, 2, 8, 16, 33),
    (2, 2, 65, 33, 47),
    (1, 1, 130, 7, 100),
    (2, 1, 64, 16, 16),
    (1, 1, 0, 2, 2),
]


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("sizes", LINEAR)
def test_attention_and_delta_rule_by_chunks_are_the_recurrences_of_float64(sizes, dtype, bare):
    rows, rest = heads(*sizes, dtype, bare)
    given, beta = [*rows, *rest, 0.5], torch.rand(rows[2].shape[:3])
    near(_ops.linear(*given), reference.linear(*wide(given)), BOUNDS[dtype])
    ruled = [*rows, beta, *rest, 0.5]
    near(_ops.delta(*ruled), reference.delta(*wide(ruled)), BOUNDS[dtype])
    slopes = (torch.randn_like(rows[2]), torch.randn(*rows[2].shape[:2], *sizes[3:]))
    near(
        _ops._linear_backward(*given, *slopes),
        reference.linear_backward(*wide(given), *wide(slopes)),
        2 * BOUNDS[dtype],
    )


def test_a_decays_gradient_holds_nothing_that_must_cancel_however_far_keys_are_from_zero():
    (q, k, v), rest = heads(1, 2, 130, 33, 20)
    given = [q, k + 64, v, *rest, 0.5, torch.randn_like(v), torch.randn(2, 2, 33, 20)]
    exact = reference.linear_backward(*wide(given))[3]
    found, plain = (form(*given)[3] for form in (_ops._linear_backward, reference.linear_backward))
    assert (found - exact).norm() <= 2 * (plain - exact).norm()


@pytest.mark.parametrize("cut", [1, 7, 64, 100])
def test_a_scan_goes_on_from_the_state_of_an_earlier_call(cut):
    whole = selective(120, 19, 4)
    u, step, a, b, c, d, state = whole
    parts = []
    for times in (slice(0, cut), slice(cut, None)):
        y, state = scan.selective_scan(
            u[:, times], step[:, times], a, b[:, times], c[:, times], d=d, state=state
        )
        parts.append(y)
    near((torch.cat(parts, 1), state), _ops.selective(*whole), 1e-5)
    rows, (decay, first) = heads(1, 2, 120, 8, 9)
    beta = torch.rand(decay.shape)
    for rule in (False, True):
        state, found = first, []
        call = (lambda *x, **k: scan.gated_delta_rule(*x, **k)) if rule else scan.linear_attention
        for t in (slice(0, cut), slice(cut, None)):
            extra = [beta[:, :, t]] if rule else []
            out, state = call(*[x[:, :, t] for x in rows], *extra, decay=decay[:, :, t], state=state)
            found.append(out)
        exact = call(*rows, *([beta] if rule else []), decay=decay, state=first)
        near((torch.cat(found, 2), state), exact, 1e-5)


def test_mamba_2_is_the_selective_scan_with_one_decay_for_all_states_of_a_head():
    x, step, a = torch.randn(2, 70, 3, 5), torch.rand(2, 70, 3), -torch.rand(3)
    b, c, d = torch.randn(2, 70, 1, 4), torch.randn(2, 70, 1, 4), torch.randn(3)
    y, state = scan.ssd(x, step, a, b, c, d=d)
    each = [t.repeat_interleave(5, -1) for t in (step, a, d)]
    flat, last = scan.selective_scan(
        x.flatten(2), each[0], each[1][:, None].expand(15, 4), b[:, :, 0], c[:, :, 0], d=each[2]
    )
    near((y.flatten(2), state.transpose(2, 3).flatten(1, 2)), (flat, last), 1e-5)


def test_gradients_go_through_every_function_and_sum_over_the_heads_that_share_keys():
    rows, (decay, state) = heads(1, 2, 9, 3, 4)
    beta = torch.rand(decay.shape)
    u = selective(9, 3, 2)
    calls = [
        (_ops.selective, u, reference.selective),
        (_ops.linear, [*rows, decay, state, 0.5], reference.linear),
        (_ops.delta, [*rows, beta, decay, state, 0.5], reference.delta),
    ]
    for op, arguments, right in calls:
        grads = []
        for form, dtype in ((op, torch.float32), (right, torch.float64)):
            leaves = [
                x.to(dtype, copy=True).requires_grad_() if isinstance(x, torch.Tensor) else x
                for x in arguments
            ]
            out, after = form(*leaves)
            (out.square().sum() + after.sum()).backward()
            grads.append([x.grad for x in leaves if isinstance(x, torch.Tensor)])
        near(*grads, 1e-5)


def test_long_rows_lose_nothing_though_all_that_was_has_faded():
    q = torch.ones(1, 1, 300, 2)
    decay = torch.full((1, 1, 300), -80.0)
    out, state = scan.linear_attention(q, q, q, decay=decay, state=torch.full((1, 1, 2, 2), 1e30))
    assert out.isfinite().all()
    near(
        (out, state), reference.linear(*wide([q, q, q, decay]), torch.full((1, 1, 2, 2), 1e30).double()), 1e-6
    )


def test_what_lies_between_neighbours_is_exact_however_far_both_have_come():
    one = torch.ones(1, 1, 64, 1)
    decay = torch.full((1, 1, 64), -0.7)
    out, _ = scan.linear_attention(one, one, one, decay=decay)
    exact, _ = reference.linear(*wide([one, one, one, decay]))
    torch.testing.assert_close(out.double(), exact, rtol=3e-7, atol=0.0)


@pytest.mark.parametrize("place", [9, 17, 40, 69])
def test_no_row_sees_an_infinity_or_a_nan_of_a_later_one(place):
    (q, k, v), (decay, state) = heads(1, 2, 70, 16, 20)
    beta, other = torch.rand(decay.shape), v.clone()
    other[:, :, place], other[:, :, place + 1 :] = torch.inf, torch.nan
    for form, rest in ((_ops.linear, ()), (_ops.delta, (beta,))):
        one, two = (form(q, k, x, *rest, decay, state, 1.0)[0] for x in (v, other))
        assert torch.equal(one[:, :, :place], two[:, :, :place])
    slope, after = torch.randn_like(v), torch.randn_like(state)
    spoilt = slope.clone()
    spoilt[:, :, :place] = torch.nan
    one, two = (_ops._linear_backward(q, k, v, decay, state, 1.0, x, after)[2] for x in (slope, spoilt))
    assert torch.equal(one[:, :, place:], two[:, :, place:])


def test_a_decay_of_minus_infinity_forgets_all_that_was():
    rows, (_, state) = heads(1, 1, 70, 3, 4)
    decay = torch.zeros(rows[2].shape[:3])
    decay[..., (20, 66)] = -torch.inf
    given = [*rows, decay, state, 1.0]
    near(_ops.linear(*given), reference.linear(*wide(given)), 2e-5)


@pytest.mark.parametrize("length", [7, 70, 140])
@pytest.mark.parametrize("odd", [torch.inf, torch.nan])
def test_a_decay_that_is_no_number_spoils_what_it_lies_between_alone(odd, length):
    rows, (decay, state) = heads(1, 2, length, 5, 6)
    decay[:, 0, 3] = odd
    given = [*rows, decay, state, 1.0]
    (found, after), (exact, exact_after) = _ops.linear(*given), reference.linear(*wide(given))
    for mine, right in ((found, exact), (after, exact_after)):
        torch.testing.assert_close(mine.double(), right, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert bool(found[:, 0, 3:].isnan().all() and found[:, 0, :3].isfinite().all())
    slopes = torch.randn_like(rows[2]), torch.randn_like(state)
    mine = _ops._linear_backward(*given, *slopes)
    right = reference.linear_backward(*wide([*given, *slopes]))
    for one, other in zip(mine, right, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3, equal_nan=True)
    assert bool(mine[1][:, 0, 3:].isfinite().all() and mine[1][:, 0, :3].isnan().all())


def test_every_op_is_registered_as_torch_asks():
    rows, (decay, state) = heads(1, 1, 5, 3, 4)
    u = selective(4, 3, 2)
    calls = {
        "scan_selective": u,
        "scan_selective_backward": [*u, torch.randn_like(u[0]), torch.randn_like(u[6])],
        "scan_linear": [*rows, decay, state, 1.0],
        "scan_linear_backward": [*rows, decay, state, 1.0, torch.randn_like(rows[2]), state],
        "scan_delta": [*rows, decay.exp(), decay, state, 1.0],
    }
    assert set(calls) == {op.name for op in ops.ops_of(scan)}
    for name, arguments in calls.items():
        torch.library.opcheck(getattr(torch.ops.kernelwright, name).default, tuple(arguments))
    (ran,) = ops.watch(lambda: scan.linear_attention(*rows))
    assert ran.serves == "kernel"


X = torch.ones(1, 2, 3)
Q = torch.ones(1, 2, 3, 4)
WRONG = [
    (
        lambda: scan.selective_scan(X, X, torch.ones(3, 2), X, X),
        r"b is of shape \(1, 2, 3\).*expected \(1, 2, 2\)",
    ),
    (
        lambda: scan.selective_scan(X, X, torch.ones(3), X, X),
        r"a is of shape \(3,\).*expected \(channels, states\)",
    ),
    (lambda: scan.selective_scan(X, X.double(), X[0], X, X), "delta is of shape"),
    (
        lambda: scan.linear_attention(Q, Q, X),
        r"v is of shape \(1, 2, 3\).*expected \(batch, heads, length, columns\)",
    ),
    (lambda: scan.linear_attention(Q, Q, Q[:, :1]), "v is of shape .*a number of heads that 2"),
    (lambda: scan.linear_attention(Q, Q, Q, decay=Q), r"decay is .*expected \(1, 2, 3\)"),
    (lambda: scan.linear_attention(Q, Q, Q, state=Q), r"state is .*expected \(1, 2, 4, 4\)"),
    (lambda: scan.linear_attention(Q, Q, Q, scale="x"), "scale is 'x'; expected a number"),
    (lambda: scan.gated_delta_rule(Q, Q, Q, None), "beta is None; expected a tensor"),
    (lambda: scan.ssd(Q, X, X, Q, Q), r"a is of shape \(1, 2, 3\).*expected \(heads,\)"),
    (lambda: scan.ssd(Q, X, torch.ones(2), Q, Q), "delta, a or d is"),
    (lambda: scan.linear_attention(Q.long(), Q, Q), "q is of torch.int64"),
]


@pytest.mark.parametrize(("call", "says"), WRONG)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


TENSORS = st.builds(
    lambda shape, dtype: torch.ones(shape).to(dtype),
    st.lists(st.integers(0, 2), min_size=2, max_size=4).map(tuple),
    st.sampled_from([torch.float32, torch.bfloat16, torch.int64]),
) | st.sampled_from([None, 3, "x"])  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["selective_scan", "ssd", "linear_attention", "gated_delta_rule"]),
    st.lists(TENSORS, min_size=5, max_size=5),
)
def test_any_call_runs_or_is_refused_in_a_sentence(name, tensors):
    count = {"linear_attention": 3, "gated_delta_rule": 4}.get(name, 5)
    try:
        out, _ = getattr(scan, name)(*tensors[:count])
    except InputError as error:
        assert "expected" in str(error)
    else:
        assert out.shape == tensors[2 if count < 5 else 0].shape


def test_the_references_have_few_operations_for_each_step():
    """A baseline is torch.compile of them, which takes minutes for thousands."""
    (q, k, v), (decay, state) = heads(1, 2, 50, 4, 3)
    for form, tensors, most in (
        (reference.linear, (q, k, v, decay, state), 10),
        (reference.delta, (q, k, v, torch.rand_like(decay), decay, state), 15),
    ):
        specs = [
            TensorSpec(name=f"a{i}", shape=tuple(x.shape), dtype="float32") for i, x in enumerate(tensors)
        ]
        graph = record_function(form, Workload(name="w", arguments=tuple(specs)), tensors)
        assert 50 * 4 < len(graph.ops) < 50 * most
