"""Macro actions: legal where they say, the same meaning after as before, recorded, replayed, taken back."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from kernelwright.compiler import flow
from kernelwright.compiler.actions import (
    ACTIONS,
    IllegalAction,
    State,
    _state,
    offered,
    replayed,
    steps_of,
    taken,
    transplanted,
    undone,
)
from kernelwright.compiler.graph import Contract, Graph, Input, Reduce, Size, from_captured, interpret
from kernelwright.compiler.lower import Decisions, lower
from kernelwright.compiler.policy import (
    Faults,
    Leaf,
    _beam,
    alone,
    beam,
    estimate,
    explained,
    leaves,
    legal,
)
from kernelwright.compiler.printers import cpp, forms_of
from kernelwright.compiler.tile import Loop, NativeCall, products, run_program, statements, touched
from kernelwright.devices import detect
from kernelwright.propose import Request
from kernelwright.propose.schedule import FIRST, ScheduleProposer
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks import Problem, load_task
from kernelwright.tasks.capture import record_function

BY_NAME = {action.name: action for action in ACTIONS}


def graph_of(function, *shapes, dtype="float32"):
    """Read a function, recorded while it runs: a tenth of the time of an export."""
    specs = tuple(TensorSpec(name=f"x{i}", shape=s, dtype=dtype) for i, s in enumerate(shapes))
    workload = Workload(name="w", arguments=specs)
    ones = [torch.ones(spec.shape, dtype=getattr(torch, spec.dtype)) for spec in specs]
    return from_captured(record_function(function, workload, ones), workload)


CASES = {
    "two-passes": (lambda x: F.layer_norm(x, x.shape[-1:]), [(5, 7)]),
    "single-pass": (lambda x: torch.softmax(x, -1), [(5, 7)]),
    "commute": (lambda x: (x * 3.0).sum(-1), [(5, 7)]),
    "diagonal": (lambda x, d: (x @ torch.diag(d)).relu(), [(3, 5), (5,)]),
    "library": (lambda x, w: torch.relu(x @ w), [(3, 4), (4, 5)]),
    "panels": (lambda x, w: torch.relu(x @ w), [(3, 4), (4, 5)]),
    "direct": (lambda x, w: torch.relu(x @ w), [(3, 4), (4, 5)]),
    "dots": (lambda x, w: F.linear(x, w), [(3, 4), (5, 4)]),
    "keep": (lambda x: torch.softmax(x, -1), [(5, 7)]),
    "tile": (lambda x, y: x.t() + y, [(7, 40), (40, 7)]),
    "reorder": (lambda x, y: x.t() + y, [(7, 40), (40, 7)]),
    "cut": (lambda x: torch.softmax(x, -1), [(5, 7)]),
    "parallelise": (lambda x: torch.softmax(x, -1), [(5, 7)]),
    "vectorise": (lambda x: torch.softmax(x, -1), [(5, 7)]),
    "unroll": (lambda x: x.sum(-1), [(5, 7)]),
    "single": (lambda x: torch.softmax(x, -1), [(5, 7)]),
    "double": (lambda x, w: torch.relu(x @ w), [(3, 4), (4, 5)]),
    "turn": (lambda x, w: torch.softmax((x @ w).transpose(1, 2), -1), [(2, 3, 4), (4, 5)]),
    "store": (lambda x: torch.log_softmax(torch.exp(x), -1), [(5, 7)]),
}


@pytest.mark.parametrize("name", CASES)
def test_an_action_keeps_the_meaning_and_can_be_taken_back(name):
    function, shapes = CASES[name]
    graph = graph_of(function, *shapes)
    start, action = State(graph, graph), BY_NAME[name]
    sites = list(action.sites(start))
    assert sites
    after = taken(start, action, sites[0])
    assert after.steps == ((name, sites[0]),) and (after.graph, after.decisions) != (graph, start.decisions)
    inputs = [torch.randn(s, generator=torch.Generator().manual_seed(1)) for s in shapes]
    before, now = interpret(graph, inputs), interpret(after.graph, inputs)
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(before, now, strict=True))
    program = lower(after.graph, after.decisions)
    if not program.natives:
        got = run_program(program, dict(enumerate(inputs)))
        assert torch.allclose(got[0], before[0], rtol=1e-6, atol=1e-6)
    back = undone(after, after.steps[0], ACTIONS)
    assert back.steps == () and back.decisions == start.decisions
    assert str(back.graph) == str(graph)


@pytest.mark.parametrize(
    ("function", "shapes", "picked"),
    [
        (lambda d, x: torch.diag(d) @ x, [(4,), (4, 3)], True),
        (lambda d, x: torch.diag(d) @ x.t(), [(4,), (3, 4)], True),
        (lambda d, x: x.t() @ torch.diag(d), [(4,), (4, 3)], True),
        (lambda d, x: torch.diag(d, 1) @ x, [(3,), (4, 3)], False),
        (lambda d, x: torch.where(torch.eye(4, dtype=torch.bool), d, 1.0) @ x, [(4,), (4, 3)], False),
        (lambda d, x: torch.where(torch.eye(4, dtype=torch.bool), d, 0.0) @ x, [(4, 4), (4, 3)], False),
        (lambda d, x: torch.tril(x) @ x, [(4,), (4, 4)], False),
    ],
)
def test_only_a_diagonal_on_zeros_is_picked_from(function, shapes, picked):
    graph, inputs = graph_of(function, *shapes), [torch.randn(s) for s in shapes]
    start, action = State(graph, graph), BY_NAME["diagonal"]
    sites = list(action.sites(start))
    assert bool(sites) == picked
    for site in sites:
        now = interpret(taken(start, action, site).graph, inputs)
        assert torch.allclose(now[0], function(*inputs).double(), rtol=1e-5, atol=1e-6)


def test_what_is_read_across_is_stored_as_it_is_read_and_written_so_by_its_tiles():
    graph = graph_of(lambda x, w: torch.softmax((x @ w).t(), -1), (700, 16), (16, 900))
    plain = taken(State(graph, graph), BY_NAME["panels"], "mm")
    after = taken(plain, BY_NAME["turn"], "mm")
    assert [(b.name, b.shape) for b in after.program.buffers if b.role == "temporary"] == [
        ("mm_turned", (900, 700))
    ]
    assert [step.family for step in after.program.steps] == ["contraction", "traversal"]
    across = [
        "kw::each(lanes" in cpp.source(s.program).partition("void softmax_kernel")[2] for s in (plain, after)
    ]
    assert across == [True, False]
    assert estimate(after.program).lost_bytes < estimate(plain.program).lost_bytes
    assert not list(BY_NAME["turn"].sites(after))
    straight = graph_of(lambda x, w: torch.softmax(x @ w, -1), (700, 16), (16, 900))
    assert not list(BY_NAME["turn"].sites(State(straight, straight)))


@pytest.mark.parametrize(("given", "between"), [("float16", "float32"), ("float32", "float32")])
def test_scores_of_attention_are_not_rounded_to_half(given, between):
    graph = graph_of(F.scaled_dot_product_attention, *[(1, 2, 6, 8)] * 3, dtype=given)
    scores, found = (n for n in graph.nodes if isinstance(n, Contract))
    assert (scores.dtype, found.dtype, found.left.dtype) == (between, given, given)
    assert {n.dtype for n in graph.nodes if isinstance(n, Reduce)} == {between}


def test_sums_that_a_network_passes_on_are_stored_before_they_pile_up():
    def residual(x, w):
        for _ in range(5):
            x = x + F.layer_norm(x, x.shape[-1:]) @ w
        return torch.softmax(x, -1)

    def most_read(state):
        kernels = [s for s in state.program.steps if not isinstance(s, NativeCall)]
        return max(len(touched(kernel)[0]) for kernel in kernels)

    graph = graph_of(residual, (4, 8), (8, 8))
    library = taken(State(graph, graph), BY_NAME["library"], "all")
    stored = taken(library, BY_NAME["store"], "all")
    assert (most_read(library), most_read(stored)) == (6, 3)
    assert "all" not in BY_NAME["store"].sites(stored)
    assert undone(stored, ("store", "all"), ACTIONS).decisions == library.decisions


def test_what_two_results_sum_from_three_tensors_is_stored_once_and_means_the_same():
    def two(x, y, z):
        total = x + y + z
        return torch.softmax(total, -1), total.amax(0)

    graph = graph_of(two, *[(5, 7)] * 3)
    start = State(graph, graph)
    inputs = [torch.randn(5, 7, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    stored = taken(start, BY_NAME["store"], "all")
    results = [run_program(state.program, dict(enumerate(inputs))) for state in (start, stored)]
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert sum("x2" in touched(kernel)[0] for kernel in start.program.steps) == 2
    assert sum("x2" in touched(kernel)[0] for kernel in stored.program.steps) == 1


def test_every_kind_of_product_can_be_the_librarys():
    for function, *shapes in (
        (torch.mm, (3, 4), (4, 5)), (torch.addmm, (5,), (3, 4), (4, 5)), (torch.addmv, (3,), (3, 4), (4,)),
        (torch.bmm, (2, 3, 4), (2, 4, 5)), (torch.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5)),
        (F.conv1d, (1, 2, 5), (3, 2, 3)), (F.conv_transpose2d, (1, 2, 4, 4), (2, 3, 2, 2)),
        (F.scaled_dot_product_attention, (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)),
    ):  # fmt: skip
        graph = graph_of(lambda *x, f=function: torch.relu(f(*x)), *shapes)
        start = State(graph, graph)
        native = taken(start, BY_NAME["library"], next(iter(BY_NAME["library"].sites(start))))
        program = lower(native.graph, native.decisions)
        assert len(program.natives) == 1 and len(program.steps) == 2, function


def test_steps_replay_on_another_shape():
    function, _ = CASES["two-passes"]
    first = graph_of(function, (5, 7))
    step = (
        "two-passes",
        next(n.name for n in first.nodes if isinstance(n, Reduce) and n.monoid == "variance"),
    )
    other = replayed(graph_of(function, (4, 9)), [step], ACTIONS)
    assert not any(isinstance(n, Reduce) and n.monoid == "variance" for n in other.graph.nodes)


def test_steps_are_read_back_from_what_a_candidate_records():
    graph = graph_of(lambda x: F.layer_norm(x, x.shape[-1:]), (5, 7))
    start = State(graph, graph)
    passes = taken(start, BY_NAME["two-passes"], next(BY_NAME["two-passes"].sites(start)))
    state = taken(passes, BY_NAME["vectorise"], next(BY_NAME["vectorise"].sites(passes)))
    candidate = cpp.render(state.program, state.graph, parameters={"actions": state.text})
    steps = steps_of(str(candidate.parameters["actions"]))
    again = replayed(graph, steps, ACTIONS)
    assert (again.text, str(again.graph), again.decisions) == (state.text, str(state.graph), state.decisions)
    assert steps_of("") == ()
    with pytest.raises(ValueError, match="expected 'action"):
        steps_of("two-passes[var]")


def test_a_schedule_is_transplanted_to_a_language_with_fewer_forms():
    graph = graph_of(lambda x, w: torch.softmax(x @ w, -1), (8, 16), (16, 33))
    steps = [("panels", "mm"), ("single-pass", "softmax_sum5"), ("keep", "nowhere")]
    here, there = (transplanted(graph, steps, offered(forms_of(name))) for name in ("cpp", "opencl"))
    assert here.steps == (("panels", "mm"), ("single-pass", "softmax_sum5"))
    assert there.steps == (("single-pass", "softmax_sum5"),) and there.program is not None


def test_what_is_not_legal_is_refused():
    graph = graph_of(lambda x: torch.relu(x), (3, 4))
    with pytest.raises(IllegalAction, match="not legal at 'relu'"):
        taken(State(graph, graph), BY_NAME["single-pass"], "relu")
    with pytest.raises(IllegalAction, match="no action 'melt'"):
        replayed(graph, [("melt", "relu")], ACTIONS)


def test_the_single_pass_reads_a_row_once_less():
    graph = graph_of(CASES["single-pass"][0], (64, 4096))
    start = State(graph, graph)
    after = taken(start, BY_NAME["single-pass"], next(iter(BY_NAME["single-pass"].sites(start))))
    one, two = (estimate(lower(s.graph, s.decisions)) for s in (after, start))
    assert one.cache_bytes < two.cache_bytes and one.memory_bytes == two.memory_bytes


def test_fusion_moves_fewer_bytes_than_an_operation_a_kernel():
    graph = graph_of(lambda x, y: torch.sigmoid(x + y) * x, (256, 256), (256, 256))
    fused, alone = lower(graph), lower(graph, Decisions(apart=True))
    assert len(fused.steps) == 1 and len(alone.steps) == 3
    assert estimate(fused).memory_bytes < estimate(alone).memory_bytes


@pytest.mark.parametrize(
    ("reduce", "shape", "dim", "dtype"),
    [
        (torch.sum, (400001, 3), 0, "float32"),
        (torch.logsumexp, (260, 5, 1301), (0, 2), "float16"),
        (torch.amax, (2, 1 << 19), 1, "bfloat16"),
    ],
)
def test_shares_are_joined_to_the_same(reduce, shape, dim, dtype):
    graph = graph_of(lambda x: reduce(x, dim), shape, dtype=dtype)
    start, action = State(graph, graph), BY_NAME["shares"]
    (site,) = action.sites(start)
    after = taken(start, action, site)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(getattr(torch, dtype))
    assert torch.allclose(interpret(after.graph, [x])[0], interpret(graph, [x])[0], rtol=1e-12, atol=1e-9)
    parts, _ = after.program.steps
    assert f"{site}_shares" in parts.name and after.program.buffer(f"{site}_shares").dtype == "float32"
    outer = next(s for s in statements(parts.body) if isinstance(s, Loop))
    assert outer.parallel and estimate(after.program).time_us < estimate(start.program).time_us
    assert undone(after, after.steps[0], ACTIONS).decisions == start.decisions


@pytest.mark.parametrize("shape", [(70001, 17), (1000, 3), (1, 1 << 17)])
def test_many_results_short_sums_and_single_results_need_no_shares(shape):
    graph = graph_of(lambda x: x.sum(0 if shape[0] > 1 else 1), shape)
    assert not list(BY_NAME["shares"].sites(State(graph, graph)))


def test_shares_of_a_size_that_changes_never_read_beyond_it():
    rows = Size("rows", (1 << 20, 96, 33))
    x = Input(name="x", shape=(rows, 2), dtype="float32", position=0)
    total = Reduce(name="total", shape=(2,), dtype="float32", source=x, dims=(0,), monoid="sum")
    graph = Graph((x,), (total,), {"rows": (0, 0)})
    after = taken(State(graph, graph), BY_NAME["shares"], "total")
    for count in (33, 96, 100):
        given = torch.randn(count, 2, generator=torch.Generator().manual_seed(count))
        assert torch.allclose(run_program(after.program, {0: given})[0], given.double().sum(0), atol=1e-5)


def test_an_intermediate_is_narrowed_where_all_results_are_narrow():
    def function(x, w):
        return (torch.relu(x.float().exp() @ w.float()) + 1).to(x.dtype) * 2

    graph = graph_of(function, (6, 8), (8, 6), dtype="bfloat16")
    stored = State(graph, graph, Decisions(store=frozenset({"relu"})))
    action = BY_NAME["narrow"]
    sites = [s for s in action.sites(stored) if s == "relu"]
    after = taken(stored, action, sites[0])
    assert after.program.buffer("relu_bfloat16").role == "temporary"
    assert "relu" not in {b.name for b in after.program.buffers}
    assert estimate(after.program).memory_bytes < estimate(stored.program).memory_bytes
    x, w = (torch.randn(s, generator=torch.Generator().manual_seed(1)).bfloat16() for s in ((6, 8), (8, 6)))
    (before,), (now,) = (interpret(g, [x, w]) for g in (graph, after.graph))
    assert torch.equal(before, now)
    wide = graph_of(lambda x: (x.exp() / x.exp().sum()).float(), (6, 8), dtype="bfloat16")
    assert not list(action.sites(State(wide, wide, Decisions(store=frozenset({"exp"})))))


def test_a_product_that_is_narrowed_keeps_its_tiles_and_is_rounded_by_them():
    graph = graph_of(F.scaled_dot_product_attention, *[(1, 2, 6, 8)] * 3, dtype="bfloat16")
    tiles = taken(State(graph, graph), BY_NAME["panels"], "all")
    scores = next(n.name for n in graph.nodes if isinstance(n, Contract))
    after = taken(tiles, BY_NAME["narrow"], scores)
    wide, narrow = (
        {b.dtype for b in s.program.buffers if scores in b.name and b.role == "temporary"}
        for s in (tiles, after)
    )
    assert (wide, narrow) == ({"float32"}, {"bfloat16"})
    assert [p.tiling.form for p in products(after.program.steps)] == ["panels", "panels"]


@pytest.fixture(scope="module")
def network():
    def net(x, w):
        for _ in range(32):
            x = (x @ w).sigmoid()
        return torch.softmax(x, -1)

    return graph_of(net, (4, 8), (8, 8))


def test_a_whole_network_starts_with_its_products_in_the_library_then_all_its_own_and_moves_no_loop(network):
    found = list(leaves(network))
    assert [leaf.state.steps[0] for leaf in found[:2]] == [("library", "all"), ("panels", "all")]
    assert {leaf.state.steps[0] for leaf in found[2:]} == {("library", "all")}
    assert len({leaf.state.steps for leaf in found}) == len(found) > 1
    assert not any(leaf.state.decisions.moves for leaf in found)
    assert explained(found[0], alone(network)).endswith("65 operations in 64 kernels")


@pytest.mark.parametrize(
    "factor", [torch.tanh, lambda x: torch.cat([x[:, :40], -x[:, 40:]], -1), lambda x: torch.relu(x).t().t()]
)  # fmt: skip
def test_what_plain_loops_of_a_product_read_is_computed_once_where_torch_multiplies_nothing(factor):
    graph = graph_of(lambda x, w: factor(x) @ w, (128, 96), (96, 128))
    best = beam(graph, actions=offered(forms_of("opencl")))[0].state
    assert [action for action, _ in best.steps] == ["store"] and len(best.program.steps) == 2
    assert not list(BY_NAME["store"].sites(best)), "it is stored"
    small = graph_of(lambda x, w: factor(x) @ w, (5, 44), (44, 7))
    states, inputs = [State(small, small)], dict(enumerate((torch.randn(5, 44), torch.randn(44, 7))))
    states.append(transplanted(small, best.steps, ACTIONS))
    fused, stored = (run_program(state.program, inputs) for state in states)
    assert all(torch.equal(a, b) for a, b in zip(fused, stored, strict=True))
    assert states[1].steps == best.steps


@pytest.mark.parametrize(
    ("language", "may"), [("cpp", True), ("triton", True), ("opencl", False), ("wgsl", False)]
)
def test_products_are_left_to_torch_by_languages_that_can_call_it(language, may):
    assert ("library" in {action.name for action in offered(forms_of(language))}) is may


def test_the_start_of_a_network_is_there_before_its_beam_is_searched(network, monkeypatch):
    monkeypatch.setattr(_beam, "beam", lambda *_, **__: pytest.fail("searched"))
    assert next(leaves(network)).state.text == "library(all)"


def test_the_library_comes_before_own_products_that_are_not_far_better():
    graph = graph_of(lambda x, w: torch.relu(x @ w), (1024, 64), (64, 256))
    first, *others = leaves(graph)
    assert first.state.text == "library(mm)" and any(products(others[0].state.program.steps))
    assert others[0].cost.time_us < first.cost.time_us, "by the estimate alone it would come later"
    scaled = graph_of(CASES["diagonal"][0], (64, 64), (64,))
    assert "library" not in next(leaves(scaled)).state.text, "far better without the product"


def test_the_second_leaf_has_its_products_in_other_forms():
    graph = graph_of(lambda x, y: x @ F.normalize(F.layer_norm(y, (64,)), dim=-1).t(), (128, 64), (512, 64))
    first, second, *_ = (leaf.state.decisions for leaf in leaves(graph))
    assert (first.native, first.tilings) != (second.native, second.tilings)


def test_a_state_is_reached_once():
    graph = graph_of(CASES["library"][0], (3, 4), (4, 5))
    start = State(graph, graph)
    assert taken(start, BY_NAME["library"], "mm") is taken(start, BY_NAME["library"], "mm")
    assert taken(start, BY_NAME["library"], "mm").following == {}


def test_the_beam_orders_leaves_and_explains_them():
    graph = graph_of(CASES["library"][0], (64, 512), (512, 64))
    found = beam(graph)
    assert [leaf.cost.time_us for leaf in found] == sorted(leaf.cost.time_us for leaf in found)
    assert any("library(mm)" in leaf.state.text for leaf in found)
    fused = next(leaf for leaf in found if not leaf.state.steps)
    assert "2 operations in 1 kernel: passes" in explained(fused, alone(graph))


def test_a_schedule_says_how_often_it_goes_through_the_data():
    graph = graph_of(CASES["single-pass"][0], (64, 4096))
    start = State(graph, graph)
    online = taken(start, BY_NAME["single-pass"], next(iter(BY_NAME["single-pass"].sites(start))))
    told = [explained(Leaf(s, estimate(s.program)), alone(graph)) for s in (start, online)]
    assert "1 kernel: passes 5 → 3, bytes" in told[0] and "1 kernel: passes 5 → 2, bytes" in told[1]


def test_passes_over_little_beside_the_data_do_not_count():
    graph = graph_of(lambda x, w: torch.sigmoid(w).mul(3.0) * torch.relu(x @ w).amax(0), (400, 8), (8, 8))
    assert (alone(graph).passes, estimate(lower(graph)).passes) == (3, 2)


def test_a_policy_is_asked_for_scores():
    asked = []

    class Last:
        def score(self, actions, state):
            asked.append([a.name for a, _ in actions])
            return list(range(len(actions)))

    graph = graph_of(CASES["two-passes"][0], (5, 7))
    beam(graph, Last(), depth=1)
    unseen = ("fuse", "reorder", "cut", "vectorise", "unroll")
    assert asked == [[a.name for a, _ in legal(State(graph, graph)) if a.name not in unseen][:8]]


@dataclass(frozen=True)
class Raising:
    """An action with a fault in one of its parts."""

    part: str
    name: str = "raising"

    def sites(self, state):
        if self.part == "legality":
            raise IndexError("planted")
        yield from ("first", "second")

    def apply(self, state, site):
        if self.part == "apply":
            raise IndexError("planted")
        return (Costly if self.part == "cost" else State)(state.origin, state.graph)


class Costly(State):
    """A state whose program cannot be made, for a fault."""

    @property
    def program(self):
        raise IndexError("planted")


@pytest.mark.parametrize("part", ["legality", "apply", "cost"])
def test_an_action_that_raises_costs_itself_and_is_told_once(part):
    graph, said = graph_of(CASES["two-passes"][0], (5, 7)), []
    found = beam(graph, actions=(Raising(part), *ACTIONS), faults=Faults(said.append))
    assert [leaf.state.steps for leaf in found] == [leaf.state.steps for leaf in beam(graph)]
    (line,) = said
    assert line.startswith(
        "schedule: raising failed and is left out there: IndexError: planted (test_actions.py"
    )


def test_a_policy_that_picks_an_action_that_raises_is_spared_its_fault():
    graph, said = graph_of(CASES["two-passes"][0], (5, 7)), []
    blind = SimpleNamespace(score=lambda actions, state: [1.0] * len(actions))
    assert beam(graph, blind, actions=(Raising("apply"),), faults=Faults(said.append)) and len(said) == 1
    assert beam(graph, blind, actions=(Raising("cost"),), faults=Faults(said.append)) and len(said) == 2


def test_a_proposal_goes_on_past_actions_and_leaves_that_raise(monkeypatch):
    problem, said = Problem(load_task("examples/swiglu.py")), []
    request = Request(problem, detect("cpu"), (), ("cpp",), emit=said.append)
    names = [template.name for template in ScheduleProposer().propose(request)]
    render, spoilt = cpp.render, names.pop()

    def printed(*given, **chosen):
        if chosen["template"] == spoilt:
            raise KeyError("planted")
        return render(*given, **chosen)

    monkeypatch.setattr(flow, "offered", lambda *given: (Raising("apply"), *offered(*given)))
    monkeypatch.setattr(flow, "printer_of", lambda language: printed)
    assert [template.name for template in ScheduleProposer().propose(request)] == names
    left = [line.partition(" failed")[0] for line in said]
    assert left == ["schedule: raising", f"schedule: {spoilt.removeprefix('schedule/')} in cpp"]


def test_a_proposal_begins_with_the_schedules_that_are_named():
    request = Request(Problem(load_task("examples/swiglu.py")), detect("cpu"), (), ("cpp",))
    names = [template.name for template in ScheduleProposer().propose(request)]
    first = replace(request, options={FIRST: (names[-1], "no schedule")})
    named = [template.name for template in ScheduleProposer().propose(first)]
    assert len(names) > 1 and named == [names[-1], *names[:-1]]


def test_a_fused_start_that_raises_leaves_what_is_done_to_it(monkeypatch):
    def lowered(graph, decisions, arranged):
        if decisions == Decisions():
            raise IndexError("planted")
        return lower(graph, decisions, arranged)

    graph, said = graph_of(CASES["two-passes"][0], (5, 7)), []
    monkeypatch.setattr(_state, "lower", lowered)
    found = beam(graph, faults=Faults(said.append))
    assert found and all(leaf.state.steps for leaf in found)
    assert said[0].startswith("schedule: the fused start failed")


def test_a_native_product_hides_its_loops():
    graph = graph_of(CASES["library"][0], (3, 4), (4, 5))
    start = State(graph, graph)
    after = taken(start, BY_NAME["library"], "mm")
    program = lower(after.graph, after.decisions)
    assert [s.name for s in program.natives] == ["mm"] and len(program.steps) == 2
    assert any(isinstance(n, Contract) for n in after.graph.nodes)
