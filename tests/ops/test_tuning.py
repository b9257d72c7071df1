"""The numbers of templates: where a call's comes from, that none changes a result, and how a trial decides."""

import json

import pytest
import torch
from tests.tools import require

from kernelwright import ops
from kernelwright.ops._core import tuning
from kernelwright.ops._core.tuning import OWN, Tuning
from kernelwright.ops._templates import NUMBERS, TABLES


@pytest.fixture
def op(monkeypatch, tmp_path):
    """The op of nearest centroids, which has forgotten what it knew and finds no table but what a test writes."""
    require("C++ compiler")
    monkeypatch.setenv("KERNELWRIGHT_TUNING", "online")
    monkeypatch.setattr(tuning, "_learned_file", lambda: tmp_path / "learned.json")
    monkeypatch.setattr(tuning, "shipped", lambda kind: {})
    (found,) = (one for one in ops.ops_of(ops.kmeans) if one.name == "kmeans_assign")
    found.tuning.forget()
    found._load()
    yield found
    found.tuning.forget()
    found._load()


X, C = torch.randn(3000, 40), torch.randn(33, 40)


def calls_of(op):
    """Calls of an op of each template, with sizes that end in the middle of tiles and of blocks."""
    lowbit, moe = ops.lowbit, ops.moe
    drawn = torch.Generator().manual_seed(3)
    if op == "kmeans_assign":
        yield (
            "stream_reduce",
            ops.kmeans,
            (torch.randn(2001, 300, generator=drawn), torch.randn(37, 300), None),
        )
    elif op == "kmeans_step":
        yield (
            "stream_reduce",
            ops.kmeans,
            (torch.randn(1207, 90, generator=drawn), torch.randn(70, 90), None, None),
        )
    elif op == "logits_top":
        x, weight = torch.randn(9, 250, generator=drawn), torch.randn(1503, 250)
        yield "stream_reduce", ops.logits, (x, weight, None, 5, 0.0, True)
    elif op == "moe_plan":
        yield "segments", moe, (torch.randint(-2, 40, (5003,), generator=drawn), 37)
    elif op == "moe_experts":
        ids = torch.randint(3, (301, 2), generator=drawn)
        packed = moe.pack(torch.randn(3, 140, 257), torch.randn(3, 257, 70))
        yield "gathered_gemm", moe, (torch.randn(301, 257), packed.ups, packed.downs, torch.rand(301, 2), ids)
    else:
        for bits, group, int8 in (
            (4, 32, False),
            (4, 128, True),
            (3, 64, False),
            (2, 0, True),
            (5, 32, True),
        ):
            p = lowbit.pack(torch.randn(130, 700, generator=drawn), bits, group)
            for rows in (1, 2, 7, 40):
                x = torch.randn(rows, 700, generator=drawn)
                given = (
                    x,
                    p.codes,
                    p.scales,
                    p.zeros,
                    p.minima,
                    None,
                    p.exponent,
                    p.group,
                    p.zero,
                    int8,
                    p.outputs,
                )
                yield "lowbit", lowbit, given


@pytest.mark.parametrize(
    "name", ["kmeans_assign", "kmeans_step", "logits_top", "moe_plan", "moe_experts", "lowbit_linear"]
)
def test_every_number_of_a_template_gives_the_same_bits(name):
    require("C++ compiler")
    for template, family, arguments in calls_of(name):
        (op,) = (one for one in ops.ops_of(family) if one.name == name)
        assert op.tuning.template == template
        assert op.check(*arguments) is None and op.serves(*arguments) is None
        entry, results = op._load(op._part(arguments)), []
        for number in (OWN, *NUMBERS[template].values):
            outputs = op.outputs(*arguments)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            for one in outputs:
                one.fill_(7)
            entry(*arguments, *outputs, *(() if number == OWN else (number,)))
            results.append(outputs)
        for other in results[1:]:
            assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_a_plan_of_shares_is_that_of_one():
    require("C++ compiler")
    keys = torch.randint(-1, 20, (300_001,))
    order, offsets = ops.moe.plan(keys, 19)
    expected = ops.moe.reference.plan(keys, 19)
    assert torch.equal(order, expected[0])
    assert torch.equal(offsets, expected[1])


def test_the_third_call_of_a_shape_tries_every_number_and_later_ones_are_remembered(op, monkeypatch):
    monkeypatch.setattr(tuning, "LEAST_S", 0.0)
    tried = []

    def trial(run, values):
        for number in values:
            run(number)
        tried.append(values)
        return 1 << 16, 1.25

    monkeypatch.setattr(tuning, "trial", trial)
    first = op(X, C, None)
    op(X, C, None)
    assert not tried
    assert op.tuning.plan(op.name, (X, C, None)).settled is False
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(op(X, C, None), first, strict=True))
    assert tried == [NUMBERS["stream_reduce"].values]
    assert op.tuning.plan(op.name, (X, C, None)).number == 1 << 16
    assert tuning.learned() == {"kmeans_assign": {op.tuning.shape((X, C)): 1 << 16}}
    (one,) = ops.explain(lambda: ops.kmeans.assign(X, C))
    assert f"{1 << 16} of bytes of rows" in one.variant
    assert "1.25 times as fast" in one.variant


def test_what_was_tried_is_found_by_the_next_process_and_by_shapes_nearby(op):
    tuning.keep(op.name, op.tuning.shape((X, C)), 1 << 17)
    for rows in (X, X[:2000]):
        op.tuning.forget()
        choice = op.tuning.plan(op.name, (rows, C, None))
        assert (choice.number, choice.why) == (1 << 17, "by what was tried here")
    assert op.tuning.plan(op.name, (X[:100], C, None)).number == OWN


def test_a_table_of_the_processor_is_asked_and_a_trial_can_be_switched_off(op, monkeypatch):
    table = {op.name: {op.tuning.shape((X, C)): 1 << 15}}
    monkeypatch.setattr(tuning, "shipped", lambda kind: table)
    monkeypatch.setattr(tuning, "trial", lambda *_: pytest.fail("tried"))
    monkeypatch.setattr(tuning, "LEAST_S", 0.0)
    assert op.tuning.plan(op.name, (X, C, None)).number == 1 << 15
    op.tuning.forget()
    monkeypatch.setenv("KERNELWRIGHT_TUNING", "off")
    assert op.tuning.plan(op.name, (X, C, None)).number == OWN
    monkeypatch.setenv("KERNELWRIGHT_TUNING", "table")
    for _ in range(5):
        op(X[:300], C, None)
    assert op.tuning.plan(op.name, (X[:300], C, None)).why == "no table knows the shape"


def test_a_table_that_is_none_or_names_no_number_of_the_template_is_passed_over(op):
    shape = op.tuning.shape((X, C))
    for text in (
        "nonsense",
        "[]",
        json.dumps({op.name: {shape: "x"}}),
        json.dumps({op.name: {shape: 12345}}),
    ):
        tuning._learned_file().write_text(text)
        op.tuning.forget()
        assert op.tuning.plan(op.name, (X, C, None)).number == OWN


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({OWN: 0.02, 1: 0.02, 2: 0.01}, (2, 2.0)),
        ({OWN: 0.02, 1: 0.0199, 2: 0.03}, (OWN, 1.0)),
        ({OWN: 0.5, 1: 0.1, 2: 0.1}, (None, 1.0)),
    ],
)
def test_a_trial_wants_three_percent_and_three_rounds_within_its_budget(seconds, expected):
    now = [0.0]

    def run(number):
        now[0] += seconds[number]

    assert tuning.trial(run, (1, 2), clock=lambda: now[0]) == expected
    assert now[0] <= tuning.BUDGET_S


def test_a_number_that_is_faster_in_half_of_the_rounds_alone_is_not_taken():
    now, turns = [0.0], [0]

    def run(number):
        turns[0] += number == 1
        now[0] += 0.01 if number == 1 and turns[0] % 2 else 0.0101

    assert tuning.trial(run, (1,), clock=lambda: now[0]) == (OWN, 1.0)


def test_one_slow_number_ends_a_trial_within_its_budget():
    now = [0.0]

    def run(number):
        now[0] += 0.9 if number == 2 else 0.01

    tuning.trial(run, (1, 2), clock=lambda: now[0])
    assert now[0] <= tuning.BUDGET_S


def test_tables_that_ship_name_ops_and_numbers_that_are():
    known = {
        op.name: op.tuning for name in ops.families() for op in ops.ops_of(ops.family(name)) if op.tuning
    }
    assert {one.template for one in known.values()} == set(NUMBERS)
    tables = sorted(TABLES.glob("*.json"))
    assert [file.stem for file in tables] == ["avx2-512k"]
    for file in tables:
        for name, shapes in tuning.shipped(file.stem).items():
            assert shapes
            assert set(shapes.values()) <= {OWN, *known[name].of.values}


def test_sizes_of_twice_or_half_are_near_and_other_dtypes_are_not():
    known = {"float32 10 5 t1": 1, "float32 12 5 t1": 2, "bfloat16 11 5 t1": 3}
    assert tuning.nearest(known, "float32 11 5 t1") in (1, 2)
    assert tuning.nearest(known, "float32 12 6 t1") == 2
    assert tuning.nearest(known, "float32 14 5 t1") is None
    assert tuning.nearest(known, "float32 10 5 tn") is None
    assert Tuning("lowbit", lambda x: x.shape).shape((torch.ones(1, 1000),)).startswith("float32 0 10 t")
