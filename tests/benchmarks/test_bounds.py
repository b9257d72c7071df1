"""The shares of the bound: page faults are not of memory that is kept, and what lies outside has a reason or none."""

import re

from benchmarks.peer_problems import PROBLEMS

from benchmarks import bounds, hand_written, peers_cpu


def row(problem, variant, least_us, terms, **more):
    head = {"problem": problem, "dtype": "float32", "threads": 1, "cores": 1, "terms_us": terms}
    return {**head, "variant": variant, "least_us": least_us, "median_us": 9 * least_us, **more}


def test_problems_are_classed_and_those_outside_say_why():
    faults = {"floor dram": 80.0, "ports exp": 50.0, "after page-faults": 400.0}
    product = {"floor l3": 10.0, "ports tensor-float32": 150.0, "after parallel-region": 1.0}
    written = {"floor dram": 50.0, "floor dram-write": 20.0}
    rows = [
        row("kept", "own", 500.0, faults), row("kept", "openvino", 100.0, faults),
        row("fast", "own", 100.0, product, schedule="schedule/winograd-2(c)"),
        row("slow", "eager", 300.0, {"floor l3": 30.0, "ports exp": 60.0}),
        row("quick", "openvino", 50.0, {"floor l3": 30.0, "ports tanh": 60.0}),
        row("masked", "own", 50.0, product, schedule="schedule/online(softmax)"),
        row("tiny", "own", 5.0, {"floor l1": 0.1}),
        row("through", "own-kept", 100.0, written, schedule="schedule/fused"),
        row("past", "own-kept", 100.0, written, schedule="schedule/stream(y)"),
        row("two cores", "own", 1.0, faults, cores=2), {"problem": "kept", "variant": "compile", "note": "none"},
    ]  # fmt: skip
    found = {share.problem.split(",")[0]: share for share in bounds.shares(rows)}
    assert set(found) == {"kept", "fast", "slow", "quick", "masked", "tiny", "through", "past"}
    assert found["kept"].value == 0.8 and found["kept"].is_within and found["kept"].kind == "memory"
    assert found["slow"].kind == "function" and found["slow"].value == 0.2
    lines = bounds.table(list(found.values())).splitlines()
    assert lines[0] == "8 problems, 1 within 0.6 to 1.0 of the bound"
    assert "product: 2 problems, 0 within, median 2.27" in lines
    reasons = {line.split()[3].rstrip(","): line for line in lines if line.startswith("  ")}
    assert "a fast algorithm" in reasons["fast"] and "unexplained" in reasons["slow"]
    assert "a peer's function" in reasons["quick"] and "masked keys" in reasons["masked"]
    assert "a call itself takes 5.0 us" in reasons["tiny"]
    assert "read before they are written" in reasons["through"] and "unexplained" in reasons["past"]


def test_terms_are_found_again_for_problems_by_name(monkeypatch):
    monkeypatch.setattr(peers_cpu, "attainable", lambda path: {"terms_us": {f"floor {path.stem}": 7.0}})
    rows = [
        row("tanh", "own", 10.0, {"floor l3": 1.0}, cores=64),
        row("gone", "own", 10.0, {"floor l3": 1.0}),
    ]
    now, other = bounds.again(rows)
    assert now["terms_us"] == {"floor tanh_float32": 7.0} and now["cores"] == peers_cpu.CORES
    assert other == rows[1]


def test_no_rows_are_said_to_be_none():
    assert "no rows" in bounds.table([])


def test_every_kernel_by_hand_is_of_a_problem():
    kernels = set(re.findall(r"KW_KERNEL\((\w+)\)", hand_written.SOURCE.read_text()))
    assert kernels == set(map(hand_written.symbol_of, hand_written.NAMES))
    assert set(hand_written.NAMES) <= {problem.name for problem in PROBLEMS}
