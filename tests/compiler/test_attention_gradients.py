"""An attention and its gradients in one kernel: right with masks, layouts, tails; what a mask hides is left out."""

import dataclasses
import math

import pytest
import torch
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_attention import counting
from tests.compiler.test_products import built
from torch.nn import functional as F

from kernelwright.compiler.actions import ACTIONS, IllegalAction, State, taken, undone
from kernelwright.compiler.graph import interpret, product, read, same
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import estimate, leaves
from kernelwright.compiler.printers import cpp
from kernelwright.compiler.tile import places, run_program
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture._attention import attention_backward

ROWS, KEYS = 101, 45
Q, K, V, G = (2, 3, ROWS, 20), (2, 3, KEYS, 20), (2, 3, KEYS, 37), (2, 3, ROWS, 37)
SMALL = {ROWS: 5, KEYS: 7, 20: 4, 37: 3}


def backward(q, k, v, g, seen=None):
    """Return what autograd computes of attention in four lines."""
    scores = q @ k.transpose(-1, -2) * 0.3
    weights = torch.softmax(scores if seen is None else scores.masked_fill(~seen, -math.inf), -1)
    product = g @ v.transpose(-1, -2) * weights
    change = product - weights * product.sum(-1, keepdim=True)
    change = (change if seen is None else change.masked_fill(~seen, 0.0)) * 0.3
    return weights @ v, change @ k, change.transpose(-1, -2) @ q, weights.transpose(-1, -2) @ g


def early(q, k):
    return torch.arange(k.shape[-2])[None] <= torch.arange(q.shape[-2])[:, None]


def causal(q, k, v, g):
    return backward(q, k, v, g, early(q, k))


def operator(q, k, v, g, out):
    return attention_backward(g, q, k, v, out, None, 0.0, True)


def around(q, k, v, g):
    """With what follows fused: factors, sums with others, and items that lie side by side."""
    q, k, v, g = (x.transpose(1, 2) for x in (q, k, v, g))
    _, of_q, of_k, of_v = backward(q, k, v, g)
    return (of_q * 0.5 + q).transpose(1, 2), torch.relu(of_k).transpose(1, 2), of_v.transpose(1, 2)


def shared(q, k, v, g):
    """With keys and values that three neighbouring heads share."""
    k, v = (x.repeat_interleave(3, 1) for x in (k, v))
    out, of_q, of_k, of_v = backward(q, k, v, g, early(q, k))
    return out, of_q, of_k.unflatten(1, (-1, 3)).sum(2), of_v.unflatten(1, (-1, 3)).sum(2)


CASES = {
    "lines": (backward, [Q, K, V, G]),
    "causal": (causal, [Q, K, V, G]),
    "operator": (operator, [Q, Q, (2, 3, ROWS, 37), G, G]),
    "chosen": (lambda q, k, v, g, m: backward(q, k, v, g, m > 0), [Q, K, V, G, (ROWS, KEYS)]),
    "queries": (lambda *given: backward(*given)[1], [Q, K, V, G]),
    "keys": (lambda *given: backward(*given)[2:], [Q, K, V, G]),
    "around": (around, [(2, ROWS, 3, 20), (2, KEYS, 3, 20), (2, KEYS, 3, 37), (2, ROWS, 3, 37)]),
    "one": (backward, [(ROWS, 20), (KEYS, 20), (KEYS, 37), (ROWS, 37)]),
    "shared": (shared, [(2, 6, ROWS, 20), (2, 2, KEYS, 20), (2, 2, KEYS, 37), (2, 6, ROWS, 37)]),
    "groups": (operator, [(2, 6, ROWS, 20), (2, 2, ROWS, 20), (2, 2, ROWS, 37), *[(2, 6, ROWS, 37)] * 2]),
    "few": (backward, [(2, 3, 20), (2, 5, 20), (2, 5, 3), (2, 3, 3)]),
}  # fmt: skip


def state_of(function, shapes):
    graph = graph_of(function, *shapes)
    state = State(graph, graph)
    return taken(state, BY_NAME["backward"], next(iter(BY_NAME["backward"].sites(state))))


def drawn(shapes):
    torch.manual_seed(len(shapes))
    return [torch.randn(shape) for shape in shapes]


def flat(found):
    return found if isinstance(found, tuple) else (found,)


def assert_right(got, wanted, case):
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert torch.equal(one.isnan(), other.isnan()), case
        assert (one - other).nan_to_num().abs().max() <= 3e-5 * other.nan_to_num().abs().max(), case


def test_the_formulas_are_what_autograd_computes():
    q, k, v, g = (x.double().requires_grad_() for x in drawn([Q, K, V, G]))
    seen = early(q, k)
    for mask in (None, seen):
        scores = q @ k.mT * 0.3
        out = torch.softmax(scores if mask is None else scores.masked_fill(~seen, -math.inf), -1) @ v
        wanted = (out, *torch.autograd.grad(out, (q, k, v), g))
        for one, other in zip(backward(q, k, v, g, mask), wanted, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("masked", [False, True])
def test_heads_that_share_keys_are_what_autograd_computes(masked):
    q, k, v, g = (x.requires_grad_() for x in drawn([(2, 6, 9, 4), (2, 2, 9, 4), (2, 2, 9, 4), (2, 6, 9, 4)]))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=masked, enable_gqa=True)
    made = attention_backward(g, q, k, v, out, None, 0.0, masked)
    for one, other in zip(made, torch.autograd.grad(out, (q, k, v), g), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "line",
    [
        "torch.softmax(q @ k.repeat_interleave(4, 1).mT, -1) @ v.repeat_interleave(4, 1)",
        "torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
    ],
)
def test_a_task_whose_heads_share_keys_runs_all_its_products_in_one_kernel(tmp_path, line):
    """The number of heads is a size of its own: indices follow rules that look different and are the same."""
    (tmp_path / "task.py").write_text(
        "import torch\nimport kernelwright as kw\n\n@kw.task(q='float32[batch, heads * 4, seq, half]', "
        "k='float32[batch, heads, seq, half]', v='float32[batch, heads, seq, half]', "
        "workloads=[dict(batch=2, heads=2, seq=16, half=8)])\n"
        f"def attention(q, k, v):\n    return {line}\n"
    )
    graph = read(Problem(load_task(str(tmp_path / "task.py"), backward=True)))
    state = taken(State(graph, graph), BY_NAME["backward"], "softmax")
    for site in BY_NAME["online"].sites(state):  # the operator's output, which its gradient is computed from
        state = taken(state, BY_NAME["online"], site)
    program = lower(state.graph, state.decisions)
    (kernel,) = (k for k in program.steps if getattr(k, "gradients", None))
    assert {role for role, _ in kernel.gradients.members} >= {"of_query", "of_key", "of_value"}
    weights = product([axis.size for axis in kernel.gradients.axes])
    assert not [b.name for b in program.buffers if b.role == "temporary" and same(b.elements, weights)]


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("width", [(), pytest.param(("-mno-avx512f",), marks=pytest.mark.long)])
def test_every_attention_and_its_gradients_are_right(width):
    states = {case: state_of(*of) for case, of in CASES.items()}
    programs = {
        case: (s.graph, dataclasses.replace(lower(s.graph, s.decisions), name=case))
        for case, s in states.items()
    }
    assert all(any(k.gradients for k in p.steps) for _, p in programs.values())
    library = built(programs, *width)
    for case, (function, shapes) in CASES.items():
        tensors = drawn(shapes)
        wanted = flat(function(*(x.double() for x in tensors)))
        got = [torch.full(tuple(x.shape), 7.0) for x in wanted]
        library.get_function(case)(*tensors, *got)
        assert_right(got, wanted, case)


@pytest.mark.parametrize("case", ["lines", "causal", "operator", "around", "one", "shared"])
def test_the_loops_mean_what_the_graph_means(case):
    function, shapes = CASES[case]
    small = [tuple(SMALL.get(s, s) for s in shape) for shape in shapes]
    state, tensors = state_of(function, small), drawn(small)
    program = lower(state.graph, state.decisions)
    for one, other in zip(
        run_program(program, dict(enumerate(tensors))), interpret(state.graph, tensors), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    assert not undone(state, state.steps[0], ACTIONS).decisions.tilings


def test_weights_reach_no_memory_and_no_move_changes_the_loops():
    state = state_of(backward, [Q, K, V, G])
    program = lower(state.graph, state.decisions)
    (kernel,) = program.steps
    assert [b.role for b in program.buffers if b.elements == ROWS * KEYS * 6] == ["row"] * 4
    assert not list(places(program, "parallelise"))
    plain = State(state.graph, state.graph)
    assert estimate(program).time_us < estimate(lower(plain.graph, plain.decisions)).time_us / 4
    assert "attend_with_gradients" in cpp.source(program) and kernel.gradients


def test_what_reads_a_gradient_comes_after_the_kernel_that_computes_all():
    def followed(q, k, v, g):
        _, of_q, of_k, of_v = backward(q, k, v, g)
        return of_v.sum(-2), of_q, of_k, of_v.exp()

    small = [tuple(SMALL.get(s, s) for s in shape) for shape in (Q, K, V, G)]
    state, tensors = state_of(followed, small), drawn(small)
    program = lower(state.graph, state.decisions)
    for one, other in zip(
        run_program(program, dict(enumerate(tensors))), interpret(state.graph, tensors), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_it_is_legal_where_a_softmax_is_differentiated_and_its_products_have_no_form():
    graph = graph_of(lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v, Q, K, V)
    assert not list(BY_NAME["backward"].sites(State(graph, graph)))
    with pytest.raises(IllegalAction):
        taken(State(graph, graph), BY_NAME["backward"], "all")
    graph = graph_of(backward, Q, K, V, G)
    state = taken(State(graph, graph), BY_NAME["panels"], "all")
    assert not list(BY_NAME["backward"].sites(state))
    first = next(leaves(graph))
    assert first.state.steps[0][0] == "backward"


def test_tiles_that_a_mask_hides_cost_nothing_unless_something_there_is_not_finite(one_thread):
    shapes = [(1, 1, 384, 16)] * 4
    kernel = counting(state_of(causal, shapes), results=4)
    q, k, v, g = drawn(shapes)
    wanted = causal(*(x.double() for x in (q, k, v, g)))
    got, scores = kernel(q, k, v, g)
    assert_right(got, wanted, "finite")
    assert scores < 0.65 * 384 * 384
    v[0, 0, 380, 3] = math.inf
    got, scores = kernel(q, k, v, g)
    assert scores == 384 * 384
    assert_right(got, causal(*(x.double() for x in (q, k, v, g))), "infinite")


def test_a_row_whose_output_is_not_finite_hides_no_key(one_thread):
    shapes = [(1, 1, 384, 16)] * 5
    kernel = counting(state_of(operator, shapes), results=3)
    given = drawn(shapes)
    got, scores = kernel(*given)
    assert_right(got, operator(*(x.double() for x in given)), "finite")
    assert scores < 0.65 * 384 * 384
    given[4][0, 0, 5, 3] = math.inf
    got, scores = kernel(*given)
    assert_right(got, operator(*(x.double() for x in given)), "infinite")
    assert scores < 384 * 384


def test_gradients_of_a_key_that_no_row_weighs_more_than_a_subnormal_number():
    """What the weight is multiplied by may be large: the reference's gradient is no zero either."""
    shapes = [(1, 5, 1), (1, 2, 1), (1, 2, 3), (1, 5, 3)]
    q, k, v, g = (torch.ones(s) for s in shapes)
    k[0, 1], v[0, 1] = 1 - 95 / 0.3, 2.0
    state = state_of(backward, shapes)
    program = dataclasses.replace(lower(state.graph, state.decisions), name="faint")
    got = [torch.full(shape, 7.0) for shape in ((1, 5, 3), (1, 5, 1), (1, 2, 1), (1, 2, 3))]
    built({"faint": (state.graph, program)}).get_function("faint")(q, k, v, g * 1e8, *got)
    wanted = backward(*(x.double() for x in (q, k, v, g * 1e8)))[3]
    assert 0 < wanted[0, 1, 0] < 1e-30
    assert ((got[3] - wanted).abs() < 1e-3 * wanted).all()
