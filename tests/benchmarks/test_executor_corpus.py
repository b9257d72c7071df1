"""The count of kernels that the PTX executor ran: each once, and a false finding or a missed fault fails it."""

from benchmarks.executor_corpus import count


def row(key, ok=True, **more):
    return {
        "key": key,
        "source": key.split("/")[0],
        "kernels": [key],
        "ok": ok,
        "said": [],
        "launches": 2,
        **more,
    }


def test_kernels_count_once_and_what_is_not_executed_does_not_count():
    rows = [row("cuda/a"), row("printed/b"), row("printed/c", kernels=["printed/b", "d"]), row("faults/e")]
    text, ok = count([*rows, row("printed/f", None, kernels=[])])
    assert ok
    assert text.splitlines() == [
        "right kernels: 3 (1 cuda, 2 printed), in 6 launches",
        "wrong: 0",
        "with false findings: 0",
        "planted faults: 1 of 1 found",
        "not executed: 1",
    ]


def test_wrong_values_false_findings_and_missed_faults_fail():
    right = [row("cuda/a")]
    assert not count([*right, row("cuda/b", False, said=["wrong values"])])[1]
    text, ok = count([*right, row("cuda/b", False, said=["race"])])
    assert not ok
    assert "with false findings: 1 cuda/b" in text
    faults = [row(f"faults/{n}") for n in range(19)]
    assert count([*faults, row("faults/x", False)])[1]
    assert not count([*faults[1:], row("faults/x", False)])[1]
