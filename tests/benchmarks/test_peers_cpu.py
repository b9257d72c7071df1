"""The comparison with peers: its problems are problems, what is wrong is not timed, and the table adds up."""

import argparse
import json

import pytest
import torch
from benchmarks.peer_problems import PROBLEMS, Case

from benchmarks import peers_cpu

SMALL = Case("sum of two", "small", "x + y", ("torch.randn(8, 16)",) * 2)


@pytest.fixture
def options():
    return argparse.Namespace(
        peers="",
        dtype="float32",
        threads=1,
        clock="cpu",
        tries=1,
        seconds=0.0,
        out=None,
        only="",
        group="",
        memory="usual",
    )


def written(case, folder):
    path = folder / f"{case.file_name}.py"
    path.write_text(case.text("float32"))
    return case.example(path), path


def test_there_are_forty_problems_of_every_kind_and_each_is_a_file_of_its_own():
    assert len(PROBLEMS) >= 40 and len({p.file_name for p in PROBLEMS}) == len(PROBLEMS)
    groups = {p.group for p in PROBLEMS}
    assert {"memory", "long rows", "losses", "scans", "products", "convolution", "attention"} <= groups
    for problem in PROBLEMS:
        for dtype in ("float32", "bfloat16"):
            compile(problem.text(dtype), problem.name, "exec")


def test_the_dtype_holds_for_weights_and_inputs_but_not_for_indices(tmp_path):
    path = tmp_path / "p.py"
    case = Case(
        "bag",
        "lookups",
        "self.t(x) * y",
        ("torch.randint(0, 9, (4,))", "torch.randn(4, 8)"),
        "self.t = nn.Embedding(9, 8)",
    )
    path.write_text(case.text("bfloat16"))
    found = case.example(path)
    assert [x.dtype for x in found.inputs] == [torch.int64, torch.bfloat16]
    assert next(found.model.parameters()).dtype == torch.bfloat16 and not found.model.training


@pytest.mark.needs("C++ compiler")
def test_our_own_is_measured_beside_eager(tmp_path, options, monkeypatch):
    monkeypatch.setattr(peers_cpu, "PEERS", ("eager",))
    example, path = written(SMALL, tmp_path)
    with torch.inference_mode():
        rows = list(peers_cpu.measured(example, path, options))
    assert {"eager", "own", "own-kept"} <= {r["variant"] for r in rows if "median_us" in r}, rows
    assert all(r["attainable_us"] > 0 and r["calls"] >= 5 for r in rows)


@pytest.mark.needs("C++ compiler")
def test_a_schedule_whose_result_is_another_is_not_timed(tmp_path, options, monkeypatch, capsys):
    example, path = written(SMALL, tmp_path)
    monkeypatch.setattr(peers_cpu, "alike", lambda found, right: False)
    with torch.inference_mode(), pytest.raises(RuntimeError, match="no schedule that is right"):
        peers_cpu.own(example, path, 1, [example.inputs[0]])
    assert "is wrong" in capsys.readouterr().err


def test_a_peer_that_answers_something_else_is_a_row_that_says_so(tmp_path, options, monkeypatch):
    monkeypatch.setattr(peers_cpu, "PEERS", ("eager", "compile", "openvino"))
    right = peers_cpu.peer

    def peer(name, example, threads):
        if name == "openvino":
            raise ValueError("it cannot be converted")
        return (lambda: torch.zeros(8, 16)) if name == "compile" else right(name, example, threads)

    monkeypatch.setattr(peers_cpu, "peer", peer)
    monkeypatch.setattr(peers_cpu, "own", lambda *_: ({"own": lambda: None}, "planted"))
    example, path = written(SMALL, tmp_path)
    with torch.inference_mode():
        rows = {r["variant"]: r for r in peers_cpu.measured(example, path, options)}
    assert rows["compile"]["note"] == "RuntimeError: another result than eager's"
    assert rows["openvino"]["note"] == "ValueError: it cannot be converted"
    assert rows["own"]["schedule"] == "planted" and "note" not in rows["eager"]


def test_results_are_compared_by_the_size_of_what_is_right():
    right = [torch.tensor([1000.0, 0.0])]
    assert peers_cpu.alike([torch.tensor([1000.0, 0.5])], right)
    assert not peers_cpu.alike([torch.tensor([1000.0, 5.0])], right)
    assert not peers_cpu.alike([torch.zeros(3)], right) and not peers_cpu.alike([], right)


def test_a_kept_result_is_the_same_tensor_at_every_call():
    space = {"torch": torch}
    call = peers_cpu.keeping(lambda: (space["torch"].empty(2), space["torch"].empty(3)), space)
    (a, b), (c, d) = call(), call()
    assert a is c and b is d and space["torch"] is torch


def test_the_table_compares_with_the_best_peer_and_counts_what_is_ours_by_no_kernel_as_one():
    def row(problem, variant, **more):
        head = {
            "problem": problem,
            "group": "g",
            "threads": peers_cpu.CORES,
            "clock": "wall",
            "attainable_us": 50.0,
        }
        return head | {"variant": variant} | more

    text = peers_cpu.table([
        row("a", "eager", median_us=400.0), row("a", "compile", median_us=200.0), row("a", "own", median_us=100.0),
        row("b", "eager", median_us=80.0), row("b", "own", note="no schedule"),
        row("c", "eager", median_us=80.0), row("c", "openvino", median_us=40.0), row("c", "own", median_us=160.0),
        row("c", "own-kept", median_us=80.0),
    ])  # fmt: skip
    first, second, third, group, every = (line.split() for line in text.splitlines()[1:])
    assert first == ["a", "4.00", "2.00", "-", "-", "-", "100", "0.50", "2.00", "2.00"]
    assert second[-4:] == ["0", "0.62", "1.00", "1.00"]
    assert third[-2:] == ["0.25", "0.50"], "torch's form would be kept, and OpenVINO is twice as fast"
    figures = (
        "geomean 0.79 over the best peer, 3 problems, slowest 0.25; 1.00 with torch's form where that is faster; "
        "1.00 where results go to the same memory"
    )
    assert [" ".join(line) for line in (group, every)] == [f"g: {figures}", f"all: {figures}"]


def test_groups_are_chosen_by_parts_of_their_names():
    chosen = [g for g in ("long rows", "losses", "scans") if peers_cpu.chosen_group(g, "rows,loss")]
    assert chosen == ["long rows", "losses"] and peers_cpu.chosen_group("scans", "")


def test_a_file_of_rows_is_shown_without_measuring(tmp_path, monkeypatch, capsys):
    rows = tmp_path / "rows.jsonl"
    planted = {
        "problem": "a",
        "group": "g",
        "variant": "eager",
        "median_us": 2.0,
        "attainable_us": 1.0,
        "threads": 1,
        "clock": "cpu",
    }
    rows.write_text(json.dumps(planted) + "\n")
    monkeypatch.setattr("sys.argv", ["peers_cpu", "--table", str(rows)])
    peers_cpu.main()
    assert "1 problems" in capsys.readouterr().out
