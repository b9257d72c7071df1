"""Steps of optimizers against float64 and torch's own optimizers: states, groups, many tensors at once, errors."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import optim
from kernelwright.ops.optim import reference
from kernelwright.ops.optim._steps import ADAFACTOR, ADAMW

SHAPES = ((), (1,), (17,), (3, 5), (0, 4), (64, 129), (40_000,), (2, 3, 4), (300, 7))
TYPES = (torch.float32, torch.bfloat16)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def near(mine, exact):
    relative = {torch.float32: 3e-6, torch.bfloat16: 2.0**-8, torch.float64: 1e-12}[mine.dtype]
    torch.testing.assert_close(mine.double(), exact.double(), rtol=relative, atol=relative)


def drawn(dtype, states):
    params, grads = ([torch.randn(shape).to(dtype) for shape in SHAPES] for _ in range(2))
    wide = torch.promote_types(dtype, torch.float32)
    return params, grads, *([torch.rand(shape, dtype=wide) for shape in SHAPES] for _ in range(states))


def copies(lists, dtype=None):
    return [[t.clone() if dtype is None else t.to(dtype, copy=True) for t in tensors] for tensors in lists]


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_step_of_adamw_is_that_of_float64_and_of_the_op_of_one_parameter(dtype, amsgrad, maximize):
    lists = drawn(dtype, 3 if amsgrad else 2)
    wide = copies(lists, torch.float64)
    steps = [float(1 + 3 * i) for i in range(len(SHAPES))]
    numbers = (0.1, 0.8, 0.95, 1e-3, 0.2, maximize)
    moved = copies(lists)
    optim.adamw_(
        *moved[:4], moved[4] if amsgrad else None, steps=steps, lr=0.1, betas=(0.8, 0.95), eps=1e-3,
        weight_decay=0.2, maximize=maximize,
    )  # fmt: skip
    for i, step in enumerate(steps):
        of_one = [x[i] for x in lists] + [None] * (not amsgrad)
        exact = reference.adamw(*[x[i] for x in wide], *[None] * (not amsgrad), step, *numbers)
        single = optim.adamw(*of_one, step, *numbers)
        for at, mine in enumerate([moved[0], *moved[2:]]):
            near(mine[i], exact[at])
            assert torch.equal(mine[i], single[at])
    assert all(torch.equal(one, other) for one, other in zip(moved[1], lists[1], strict=True))


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_step_of_lion_is_that_of_float64_and_of_the_op_of_one_parameter(dtype, maximize):
    lists = drawn(dtype, 1)
    wide, moved = copies(lists, torch.float64), copies(lists)
    optim.lion_(*moved, lr=0.1, betas=(0.8, 0.95), weight_decay=0.2, maximize=maximize)
    for i in range(len(SHAPES)):
        numbers = (0.1, 0.8, 0.95, 0.2, maximize)
        exact = reference.lion(*[x[i] for x in wide], *numbers)
        single = optim.lion(*[x[i] for x in lists], *numbers)
        for at, mine in enumerate((moved[0], moved[2])):
            near(mine[i], exact[at])
            assert torch.equal(mine[i], single[at])


def test_the_direction_of_lion_where_both_moments_vanish_is_none():
    p, m = torch.ones(20), torch.zeros(20)
    optim.lion_([p], [torch.zeros(20)], [m], lr=0.5)
    assert torch.equal(p, torch.ones(20))
    optim.lion_([p], [torch.full((20,), float("nan"))], [m], lr=0.5)
    assert p.isnan().all()
    moved, mean = reference.lion(torch.ones(20), torch.full((20,), float("nan")), torch.zeros(20))
    assert moved.isnan().all()
    assert mean.isnan().all()


@pytest.mark.parametrize("scale", [1.0, 1e-9])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (17, 33), (300, 40), (3, 5000), (200, 200)])
def test_a_step_of_adafactor_is_that_of_float64(shape, dtype, scale):
    """A gradient of 1e-9 has variances that are kept above eps1 squared."""
    p, g = torch.randn(shape).to(dtype), (torch.randn(shape) * scale).to(dtype)
    row, column = (torch.rand(s) * scale**2 for s in ((shape[0], 1), (1, shape[1])))
    numbers = (3.0, 0.1, -0.8, 1e-7, 1e-3, 1.0, 0.1, False)
    exact = reference.adafactor(p.double(), g.double(), row.double(), column.double(), *numbers)
    optim.adafactor_([p], [g], [row], [column], [None], steps=[3], lr=0.1, eps=(1e-7, 1e-3), weight_decay=0.1)
    near(p, exact[0])
    torch.testing.assert_close(row.double() / scale**2, exact[1] / scale**2, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(column.double() / scale**2, exact[2] / scale**2, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1e-9])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (17,), (2049,), (40_000,)])
def test_a_step_of_adafactor_of_a_vector_is_that_of_float64(shape, dtype, scale):
    p, g = torch.randn(shape).to(dtype), (torch.randn(shape) * scale).to(dtype)
    variance = torch.rand(shape) * scale**2
    numbers = (3.0, 0.1, -0.8, 1e-7, 1e-3, 1.0, 0.1, False)
    exact = reference.adafactor_vector(p.double(), g.double(), variance.double(), *numbers)
    row = [p, g, variance, None, 3.0]
    assert ADAFACTOR.run((0.1, -0.8, 1e-7, 1e-3, 1.0, 0.1, False), row)
    near(p, exact[0])
    torch.testing.assert_close(variance.double() / scale**2, exact[1] / scale**2, rtol=1e-5, atol=1e-6)


def test_a_kernel_that_does_not_serve_one_parameter_has_moved_none_and_counted_no_step():
    good, other = torch.ones(5), torch.ones(6)[::2]
    steps = [torch.tensor(3.0), torch.tensor(3.0)]
    rows = [x for p, step in zip((good, other), steps, strict=True)
            for x in (p, torch.ones(len(p)), torch.zeros(len(p)), torch.zeros(len(p)), None, step)]  # fmt: skip
    numbers = (0.1, 0.9, 0.99, 1e-8, 0.0, False)
    assert not ADAMW.run(numbers, rows)
    assert torch.equal(good, torch.ones(5))
    assert steps == [3, 3]
    assert ADAMW.run(numbers, rows[:6])
    assert steps == [4, 3]
    assert (good < 1).all()
    assert not ADAMW.run(numbers, [*rows[:6], *rows[:6]]), "two parameters share memory"


def model(dtype=torch.float32):
    """A list of parameters, as a module has it."""
    return torch.nn.ParameterList(
        [torch.randn(shape).to(dtype) for shape in ((65, 33), (65,), (65,), (3, 65))]
    )


def trained(params, optimizer, steps, seed=0):
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, generator=random).to(p.dtype)
        optimizer.step()
    return [p.detach().clone() for p in params]


ADAM = (
    {},
    {"amsgrad": True},
    {"maximize": True, "lr": 1e-4},
    {"weight_decay": 0.3, "betas": (0.5, 0.9), "eps": 1e-4},
)
PAIRS = [
    *((optim.AdamW, torch.optim.AdamW, options) for options in ADAM),
    (optim.AdamW, torch.optim.AdamW, {"lr": torch.tensor(1e-2), "foreach": False}),
    (optim.Adafactor, torch.optim.Adafactor, {}),
    (optim.Adafactor, torch.optim.Adafactor, {"lr": 0.1, "weight_decay": 0.1, "d": 1.5}),
    (optim.Adafactor, torch.optim.Adafactor, {"maximize": True, "eps": (1e-5, 1e-2)}),
]  # fmt: skip


@pytest.mark.parametrize(("own", "theirs", "options"), PAIRS)
def test_six_steps_end_where_torch_ends_and_states_load_both_ways(own, theirs, options):
    first = model()
    second, third = copy.deepcopy(first), copy.deepcopy(first)
    mine, other = own(first.parameters(), **options), theirs(second.parameters(), **options)
    for one, two in zip(trained(first, mine, 3), trained(second, other, 3), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    assert mine.state_dict()["param_groups"] == other.state_dict()["param_groups"]
    assert mine.state_dict()["state"][0].keys() == other.state_dict()["state"][0].keys()
    third.load_state_dict(second.state_dict())
    loaded = own(third.parameters(), **options)
    loaded.load_state_dict(copy.deepcopy(other.state_dict()))
    other.load_state_dict(copy.deepcopy(mine.state_dict()))
    continued = [trained(m, o, 3, seed=1) for m, o in ((first, mine), (second, other), (third, loaded))]
    for one, two, three in zip(*continued, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(three, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("own", [optim.AdamW, optim.Lion, optim.Adafactor])
def test_16_bit_parameters_keep_a_state_of_32_bits_when_it_is_loaded(own):
    layers = model(torch.bfloat16)
    optimizer = own(layers.parameters())
    trained(layers, optimizer, 3)
    saved = copy.deepcopy(optimizer.state_dict())
    again = own(layers.parameters())
    again.load_state_dict(saved)
    for number, state in again.state_dict()["state"].items():
        for key, value in state.items():
            assert value.dtype is torch.float32
            assert torch.equal(value, saved["state"][number][key])
    assert again.state_dict()["state"][0].keys() == saved["state"][0].keys()


def test_lion_is_what_its_authors_wrote():
    layers = model()
    by_hand = [p.detach().clone() for p in layers.parameters()]
    optimizer = optim.Lion(layers.parameters(), lr=1e-2, weight_decay=0.1)
    moments = [torch.zeros_like(p) for p in by_hand]
    for _ in range(4):
        trained(layers, optimizer, 1)
        for p, m, q in zip(by_hand, moments, layers.parameters(), strict=True):
            update = (m * 0.9 + q.grad * 0.1).sign()
            p.sub_(0.01 * (update + 0.1 * p))
            m.mul_(0.99).add_(q.grad, alpha=0.01)
    for mine, exact in zip(layers.parameters(), by_hand, strict=True):
        torch.testing.assert_close(mine.detach(), exact, rtol=1e-5, atol=1e-6)


def test_groups_have_rates_of_their_own_and_parameters_without_gradients_stay():
    one, two, idle = (torch.nn.Parameter(torch.ones(5)) for _ in range(3))
    groups = [{"params": [one, idle], "lr": 0.5}, {"params": [two]}]
    optimizer = optim.AdamW(groups, lr=0.25, weight_decay=0.0)
    one.grad = two.grad = torch.ones(5)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    loss = optimizer.step(lambda: torch.tensor(7.0))
    assert loss == 7
    torch.testing.assert_close(one.detach(), torch.full((5,), 0.5))
    torch.testing.assert_close(two.detach(), torch.full((5,), 0.75))
    assert torch.equal(idle.detach(), torch.ones(5))
    assert idle not in optimizer.state


def test_a_closure_may_take_gradients():
    p = torch.nn.Parameter(torch.tensor([3.0]))
    optimizer = optim.Lion([p], lr=1.0)

    def closure():
        optimizer.zero_grad()
        loss = p.square().sum()
        loss.backward()
        return loss

    assert [optimizer.step(closure).item() for _ in range(3)] == [9.0, 4.0, 1.0]


@pytest.mark.parametrize("own", [optim.AdamW, optim.Lion, optim.Adafactor])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_what_the_kernel_does_not_serve_moves_the_same_way(own, dtype):
    """Beside it in one call: a parameter that is transposed, and one that is as the kernel wants it."""
    values, slope = torch.randn(2, 6, 9).to(dtype)
    plain, turned = values.clone(), values.t().contiguous().t()
    params = [torch.nn.Parameter(x) for x in (plain, turned)]
    optimizer = own(params)
    for _ in range(3):
        params[0].grad, params[1].grad = slope.clone(), slope.t().contiguous().t()
        optimizer.step()
    assert not params[1].is_contiguous()
    assert not torch.equal(params[0].detach(), values)
    torch.testing.assert_close(
        params[0].detach(), params[1].detach(), rtol=1e-3 if dtype is torch.float16 else 2e-6, atol=1e-6
    )


def test_a_moved_parameter_cannot_be_used_by_a_graph_of_before():
    p = torch.nn.Parameter(torch.ones(3))
    loss = p.square().sum()
    p.grad = torch.ones(3)
    optim.AdamW([p]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def one(**changes):
    return {"params": [torch.ones(3)], "grads": [torch.ones(3)], "means": [torch.zeros(3)],
            "squares": [torch.zeros(3)], "steps": [1]} | changes  # fmt: skip


WRONG = [
    (lambda: optim.adamw_(**one(grads=[])), "grads is 0 long; expected 1, one for each parameter"),
    (lambda: optim.adamw_(**one(grads=[torch.ones(4)])), r"grad is of shape \(4,\); expected \(3,\)"),
    (lambda: optim.adamw_(**one(params=[torch.ones(3).long()])), "param is of torch.int64"),
    (lambda: optim.adamw_(**one(means=[torch.zeros(3).double()])), "means is of torch.float64; expected torch.float32"),
    (lambda: optim.adamw_(**one(squares=[torch.zeros(2)])), r"squares is of shape \(2,\); expected \(3,\)"),
    (lambda: optim.adamw_(**one(steps=[0])), "steps is 0; expected 1 or more"),
    (lambda: optim.adamw_(**one(steps=[1, 2])), "steps is 2 long"),
    (lambda: optim.adamw_(**one(), betas=(1.0, 0.9)), "beta1 is 1.0; expected 0 or more and below 1"),
    (lambda: optim.adamw_(**one(), lr=-1.0), "lr is -1.0; expected 0 or more"),
    (lambda: optim.adamw_(**one(), eps=float("nan")), "eps is nan; expected 0 or more"),
    (lambda: optim.lion_(*[[torch.ones(2)] * 2] * 3), "params is given twice, or a state is"),
    (lambda: optim.lion_([1.0], [torch.ones(2)], [torch.ones(2)]), "param is a float; expected a tensor"),
    (
        lambda: optim.adafactor_([torch.ones(2)], [torch.ones(2)], [None], [None], [None], steps=[1]),
        "rows is without a state of a parameter; expected a row and a column, or a variance",
    ),
    (
        lambda: optim.adafactor_([torch.ones(2, 3)], [torch.ones(2, 3)], [torch.ones(2)], [torch.ones(3)], [None], steps=[1]),  # noqa: E501
        r"row is of shape \(2,\); expected \(2, 1\)",
    ),
    (lambda: optim.adamw(*[torch.ones(3)] * 4, None, 0.5, 0.1, 0.9, 0.9, 0.1, 0.0, False), "step is 0.5; expected 1"),
    (lambda: optim.AdamW([torch.ones(2)], differentiable=True), "differentiable is True; expected False"),
    (lambda: optim.Lion([torch.ones(2)], betas=(0.9, 2)), "beta2 is 2; expected 0 or more and below 1"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "says"), WRONG)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


def test_sparse_gradients_are_refused():
    table = torch.nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(InputError, match="sparse; expected dense"):
        optim.AdamW(table.parameters()).step()


SIZES = st.lists(st.integers(0, 3), max_size=2).map(tuple)
TENSORS = st.builds(
    lambda shape, dtype: torch.ones(shape).to(dtype),
    SIZES, st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.int32]),
) | st.sampled_from([None, 3, "x"])  # fmt: skip
LISTS = st.lists(TENSORS, max_size=2)


@settings(max_examples=150, deadline=None)
@given(LISTS, LISTS, LISTS, LISTS, st.lists(st.sampled_from([0, 1, 2.5, float("nan")]), max_size=2))
def test_any_call_runs_or_is_refused_in_a_sentence_and_then_nothing_has_moved(
    params, grads, means, squares, steps
):
    before = [x.clone() if isinstance(x, torch.Tensor) else x for x in params]
    try:
        optim.adamw_(params, grads, means, squares, steps=steps, lr=0.5)
    except InputError as error:
        assert "expected" in str(error)
        for old, new in zip(before, params, strict=True):
            assert old is new or torch.equal(old, new)
    else:
        assert len(params) == len(grads) == len(means) == len(squares) == len(steps)
        assert all(not p.numel() or not torch.equal(p, old) for p, old in zip(params, before, strict=True))


def test_every_op_is_registered_as_torch_asks():
    p, row, column = torch.randn(4, 6), torch.rand(4, 1), torch.rand(1, 6)
    calls = {
        "optim_adamw": (p, p, p, p.square(), None, 1.0, 0.1, 0.9, 0.9, 1e-8, 0.1, False),
        "optim_lion": (p, p, p, 0.1, 0.9, 0.9, 0.1, True),
        "optim_adafactor": (p, p, row, column, 1.0, 0.1, -0.8, 1e-7, 1e-3, 1.0, 0.0, False),
    }
    assert set(calls) == {op.name for op in ops.ops_of(optim)}
    for name, arguments in calls.items():
        torch.library.opcheck(getattr(torch.ops.kernelwright, name).default, arguments)
    (ran,) = ops.watch(lambda: optim.adafactor(*calls["optim_adafactor"]))
    assert ran.serves == "kernel"
