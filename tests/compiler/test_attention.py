"""Attention in one pass over its keys: right with every mask, layout and tail; what a mask hides is not computed."""

import dataclasses
import math

import pytest
import torch
from tests.compiler.narrower import EIGHT, differing
from tests.compiler.test_actions import BY_NAME, graph_of
from tests.compiler.test_products import built
from torch.nn import functional as F

from kernelwright.compiler._layouts import laid_out, space_of
from kernelwright.compiler.actions import ACTIONS, State, offered, taken, undone
from kernelwright.compiler.graph import interpret
from kernelwright.compiler.lower import lower
from kernelwright.compiler.policy import leaves
from kernelwright.compiler.printers import cpp, opencl, triton
from kernelwright.compiler.tile import run_program
from kernelwright.languages import get_language
from kernelwright.languages._destination import load_library

ROWS, KEYS = 31, 45


def lines(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1) @ v


def hidden(q, k, v, seen):
    return torch.softmax((q @ k.transpose(-1, -2) * 0.3).masked_fill(~seen, -math.inf), -1) @ v


def places(q, k):
    return torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None]


def windowed(q, k, v):
    i, j = places(q, k)
    return F.scaled_dot_product_attention(q, k, v, (j <= i) & (i - j < 5))


def blockwise(q, k, v):
    i, j = places(q, k)
    return hidden(q, k, v, j < (i // 8 + 1) * 8)


def repeated(q, k, v):
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def side_by_side(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return torch.relu(torch.softmax(q @ k.mT * 0.3, -1) @ v).transpose(1, 2).reshape(2, ROWS, -1)


def rotated(q, k, v, a):
    return F.scaled_dot_product_attention(q * a + q.flip(-1), k * a + k.flip(-1), v, scale=0.2)


def biased(q, k, v, slopes):
    i, j = places(q, k)
    scores = q @ k.mT * 0.3 + slopes[:, None, None] * (j - i)
    return torch.softmax(scores.masked_fill(j > i, -math.inf), -1) @ v


Q, K = (2, 4, ROWS, 20), (2, 4, KEYS, 20)
SHARED, ONE, FEW = (2, 2, KEYS, 20), (2, 4, 1, 20), (2, 4, 3, 20)
CASES = {
    "lines": (lines, [Q, K, (2, 4, KEYS, 37)]),
    "operator": (F.scaled_dot_product_attention, [Q, K, K]),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [Q, K, K]),
    "window": (windowed, [Q, K, K]),
    "blockwise": (blockwise, [Q, K, K]),
    "added": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), [Q, K, K, (ROWS, KEYS)]),
    "chosen": (lambda q, k, v, m: hidden(q, k, v, m > 0), [Q, K, K, (2, 1, ROWS, KEYS)]),
    "padded": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > 0), [Q, K, K, (2, 1, 1, KEYS)]),
    "bias": (biased, [Q, K, K, (4,)]),
    "grouped": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), [Q, SHARED, SHARED]),
    "repeated": (repeated, [Q, SHARED, SHARED]),
    "heads": (side_by_side, [(2, ROWS, 4, 20), (2, KEYS, 4, 20), (2, KEYS, 4, 20)]),
    "turned_keys": (lambda q, k, v: torch.softmax(q @ k, -1) @ v, [Q, (2, 4, 20, KEYS), K]),
    "before": (rotated, [Q, K, K, (20,)]),
    "scaled": (lambda q, k, v: torch.softmax((q * 0.3) @ k.mT, -1) @ v, [Q, K, K]),
    "one_item": (lines, [(1, 1, ROWS, 24), (1, 1, KEYS, 24), (1, 1, KEYS, 24)]),
    "matrices": (lines, [(ROWS, 24), (KEYS, 24), (KEYS, 70)]),
    "decode": (lines, [ONE, (2, 4, 1100, 20), (2, 4, 1100, 70)]),
    "decode_long": (lines, [(1, 2, 1, 64), (1, 2, 4100, 64), (1, 2, 4100, 64)]),
    "decode_turned": (lambda q, k, v: torch.softmax(q @ k, -1) @ v, [FEW, (2, 4, 20, KEYS), K]),
    "decode_grouped": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), [ONE, SHARED, SHARED],
    ),
    "decode_masked": (lambda q, k, v, m: hidden(q, k, v, m > 0), [FEW, K, K, (2, 1, 3, KEYS)]),
}  # fmt: skip
"""A function and the shapes of its arguments; rows and keys end within tiles, and are few where they are said to be."""
SOME = ("causal", "added", "bias", "heads", "before", "decode", "decode_masked")
"""One of each kind, for a run in which the others would take long and guard little; bfloat16 has others."""
BUILDS = {"some": ((), SOME), **differing({"all": ((), (*CASES,)), "eight": (EIGHT, (*CASES,))})}


def state_of(case, dtype="float32"):
    function, shapes = CASES[case]
    graph = graph_of(function, *shapes, dtype=dtype)
    action = BY_NAME["online"]
    return taken(State(graph, graph), action, next(iter(action.sites(State(graph, graph)))))


def drawn(case):
    torch.manual_seed(len(case))
    tensors = [torch.randn(shape) for shape in CASES[case][1]]
    if case in ("added", "chosen"):
        mask = tensors[3]
        mask[..., 2, :] = mask[..., 5:29, :40] = -math.inf
    if case == "padded":
        tensors[3][0, ..., 7:] = -1.0
    return tensors


@pytest.mark.parametrize(
    "build", [pytest.param(n, marks=pytest.mark.long if n != "some" else ()) for n in BUILDS]
)
def test_every_attention_is_right(build):
    flags, cases = BUILDS[build]
    states = {case: state_of(case) for case in cases}
    programs = {
        case: (s.graph, dataclasses.replace(lower(s.graph, s.decisions), name=case))
        for case, s in states.items()
    }
    library = built(programs, *flags)
    for case in cases:
        function, tensors = CASES[case][0], drawn(case)
        wanted = function(*(x.double() for x in tensors))
        output = torch.full(tuple(wanted.shape), 7.0)
        library.get_function(case)(*tensors, output)
        assert torch.equal(output.isnan(), wanted.isnan()), case
        assert (output - wanted).nan_to_num().abs().max() < 2e-5 * wanted.nan_to_num().abs().max(), case


@pytest.mark.parametrize("pairs", [True, pytest.param(False, marks=pytest.mark.long)])
def test_bfloat16_is_multiplied_by_pairs_where_nothing_is_done_to_it_before(pairs):
    cases = ("lines", "window", "chosen", "grouped", "turned_keys", "before", "scaled", "decode")
    states = {case: state_of(case, "bfloat16") for case in cases}
    programs = {
        case: (s.graph, dataclasses.replace(lower(s.graph, s.decisions), name=case))
        for case, s in states.items()
    }
    library = built(programs, *(() if pairs else ("-mno-avx512bf16",)))
    for case in cases:
        source = cpp.source(programs[case][1])
        assert ("kw::Multiplied<kw::bfloat16>" in source) == (case != "scaled")
        tensors = [x.bfloat16() for x in drawn(case)]
        wanted = CASES[case][0](*(x.double() for x in tensors))
        output = torch.full(tuple(wanted.shape), 7.0, dtype=torch.bfloat16)
        library.get_function(case)(*tensors, output)
        assert torch.equal(output.isnan(), wanted.isnan()), case
        assert (output - wanted).nan_to_num().abs().max() < 2**-6 * wanted.nan_to_num().abs().max(), case


@pytest.mark.parametrize(
    "case",
    [
        "lines",
        "chosen",
        *(pytest.param(n, marks=pytest.mark.long) for n in ("added", "repeated", "turned_keys", "bias")),
    ],
)
def test_the_loops_mean_what_the_graph_means(case):
    function, shapes = CASES[case]
    small = [tuple({ROWS: 5, KEYS: 7, 20: 4, 37: 3}.get(s, s) for s in shape) for shape in shapes]
    graph = graph_of(function, *small)
    action = BY_NAME["online"]
    state = taken(State(graph, graph), action, next(iter(action.sites(State(graph, graph)))))
    tensors = [torch.randn(shape) for shape in small]
    (wanted,) = interpret(graph, tensors)
    program = lower(state.graph, state.decisions)
    assert len(program.steps) == 1 and not program.natives
    (got,) = run_program(program, dict(enumerate(tensors)))
    assert torch.allclose(got, wanted, rtol=1e-6, atol=1e-6, equal_nan=True)
    assert not undone(state, state.steps[0], ACTIONS).decisions.tilings


def test_a_row_without_keys_is_zero_by_the_operator_and_no_number_in_four_lines():
    nothing = torch.zeros(ROWS, KEYS).masked_fill(torch.arange(ROWS)[:, None] == 2, -math.inf)
    q, k, v = drawn("added")[:3]
    operator = graph_of(CASES["added"][0], *CASES["added"][1])
    (wanted,) = interpret(operator, [q, k, v, nothing])
    assert (wanted[..., 2, :] == 0).all() and not wanted.isnan().any()
    assert torch.allclose(wanted.float(), F.scaled_dot_product_attention(q, k, v, nothing), atol=1e-5)
    assert drawn("chosen")[3][..., 2, :].max() < 0
    assert CASES["chosen"][0](*drawn("chosen"))[..., 2, :].isnan().all()


# What a mask hides ----------------------------------------------------------------------------------------


def counting(state, results=1):
    """Build a kernel that also counts the scores that it computes; returns what gives both."""
    candidate = cpp.render(lower(state.graph, state.decisions), state.graph)
    (file,) = (s for s in candidate.sources if "const auto score = " in s.text and s.path.endswith(".cpp"))
    text, begin = file.text, file.text.index("const auto score = ")
    body = text.index("{\n", begin) + 2
    counted = f"{text[:body]}    counted += lanes.count;\n{text[body:]}".replace(
        "namespace {\n", "namespace {\nint64_t counted = 0;\n", 1
    )
    counted += (
        "\nKW_KERNEL(scores_computed) {\n  const auto out = args.tensor<int64_t>(0);\n"
        "  out.data()[0] = counted;\n  counted = 0;\n}\n"
    )
    changed = file.model_copy(update={"text": counted})
    sources = tuple(changed if s is file else s for s in candidate.sources)
    made = candidate.model_copy(update={"sources": sources, "flags": (*candidate.flags, "-O0")})
    build = get_language("cpp").build(made, deadline_s=400)
    library = load_library(f"{build.artefact}/kernel.so")
    kernel, counter = (
        library.get_function(candidate.entry.split(":")[1]),
        library.get_function("scores_computed"),
    )

    def run(*tensors):
        counter(torch.zeros(1, dtype=torch.int64))
        outputs = [torch.empty(tensors[0].shape) for _ in range(results)]
        scores = torch.zeros(1, dtype=torch.int64)
        kernel(*tensors, *outputs)
        counter(scores)
        return outputs[0] if results == 1 else outputs, int(scores)

    return run


LONG = (1, 1, 384, 16)


def near(q, k, v):
    i, j = places(q, k)
    return hidden(q, k, v, (j <= i) & (i - j < 32))


MASKED = {
    "causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), 0.62,
    ),
    "window": (near, 0.27),
    "blocks": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > 0), 0.32),
    "added": (lambda q, k, v, m: torch.softmax(q @ k.mT + m, -1) @ v, 0.32),
}  # fmt: skip
"""A masked attention, and the most scores that it may compute, as a share of all; half, an eighth and a quarter are
seen."""


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.long if c != "causal" else ()) for c in MASKED]
)
def test_tiles_that_a_mask_hides_cost_nothing_unless_something_there_is_not_finite(case, one_thread):
    function, most = MASKED[case]
    seen = (torch.rand(4, 4, generator=torch.manual_seed(5)) < 0.2) | torch.eye(4, dtype=torch.bool)
    seen = seen.repeat_interleave(96, 0).repeat_interleave(96, 1)
    mask = [] if case in ("causal", "window") else [torch.where(seen, 1.0, -math.inf)]
    if mask:
        most = float(seen.float().mean()) + 0.07
    graph = graph_of(function, LONG, LONG, LONG, *(m.shape for m in mask))
    action = BY_NAME["online"]
    run = counting(taken(State(graph, graph), action, next(iter(action.sites(State(graph, graph))))))
    q, k, v = (torch.randn(LONG) for _ in range(3))
    output, scores = run(q, k, v, *mask)
    wanted = function(q.double(), k.double(), v.double(), *mask)
    assert (output - wanted).abs().max() < 1e-5
    assert scores <= most * 384 * 384
    v[0, 0, 380, 3] = math.inf
    output, scores = run(q, k, v, *mask)
    wanted = function(q.double(), k.double(), v.double(), *mask)
    assert scores == 384 * 384, "a weight of zero times infinity is not a number, as the reference says"
    assert torch.equal(output.isnan(), wanted.isnan()) and output.isnan().any()


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# Where it is offered --------------------------------------------------------------------------------------


def sites(function, *shapes):
    graph = graph_of(function, *shapes)
    return list(BY_NAME["online"].sites(State(graph, graph)))


def test_only_a_softmax_of_scores_that_is_multiplied_along_itself_is_attention():
    assert sites(lines, (5, 4), (6, 4), (6, 3))
    assert not sites(lambda x, v: torch.softmax(x, -1) @ v, (5, 6), (6, 3)), "no product behind the scores"
    assert not sites(lambda q, k, v: torch.sigmoid(q @ k.mT) @ v, (5, 4), (6, 4), (6, 3))
    along = graph_of(lambda q, k, v: torch.softmax(q @ k.mT, 0) @ v, (5, 4), (6, 4), (6, 3))
    state = taken(State(along, along), BY_NAME["online"], "mm_1")
    assert state.program is None, "weights add up along the rows"
    both = graph_of(
        lambda q, k, v: (lambda w: (w, w @ v))(torch.softmax(q @ k.mT, -1)), (5, 4), (6, 4), (6, 3)
    )
    state = taken(State(both, both), BY_NAME["online"], "mm_1")
    assert state.program is None, "the weights are a result too"


def test_the_policy_tries_it_first_and_once():
    graph = graph_of(lines, (2, 8, 256, 64), (2, 8, 256, 64), (2, 8, 256, 64))
    found = list(leaves(graph, offered(cpp.FORMS)))
    assert found[0].state.text == "online(bmm_1)"
    assert sum("online" in leaf.state.text for leaf in found) == 1
    program = found[0].state.program
    assert [p.name for p in space_of(program).parameters] == ["keys"]
    fewer = laid_out(found[0].state.decisions, {"keys": 256})
    assert ", 256, float>(sizes" in cpp.source(lower(found[0].state.graph, fewer))
    for other in (opencl, triton):
        assert BY_NAME["online"] not in offered(other.FORMS)
