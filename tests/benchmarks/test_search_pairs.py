"""The table of pairs of runs, on planted rows."""

from benchmarks.search_pairs import table


def row(problem, leg, evaluations, first_s, level=1, cpu_s=60.0):
    return {
        "level": level, "problem": problem, "leg": leg, "evaluations": evaluations, "first_s": first_s, "cpu_s": cpu_s,
    }  # fmt: skip


def test_pairs_are_compared_and_what_has_no_partner_is_left_out():
    rows = [
        row("a", "before", 10, 6.0), row("a", "now", 30, 3.0),
        row("b", "before", 20, 8.0), row("b", "now", 20, None),
        row("c", "now", 99, 1.0),
        row("d", "before", 10, 5.0, level=3), row("d", "now", 20, 5.0, level=3),
    ]  # fmt: skip
    first, second, together = table(rows).splitlines()[1:]
    assert first.split() == ["1", "2", "15.0", "25.0", "2.00", "7.0", "inf", "4.50", "2.50"]
    assert second.split()[:5] == ["3", "1", "10.0", "20.0", "2.00"]
    assert together.split()[:2] == ["all", "3"]
