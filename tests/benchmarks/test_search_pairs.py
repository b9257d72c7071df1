"""The rows and the table of pairs of runs, on planted figures."""

from benchmarks.search_pairs import row_of, table


def test_a_row_has_the_mean_of_all_evaluations_but_the_first():
    row = row_of((4.0, 3.0), [(5.0, 3.5), (7.0, 4.5), (11.0, 5.0)])
    assert row == {"evaluations": 3, "first_s": 4.0, "first_cpu_s": 3.0, "each_s": 3.0, "each_cpu_s": 0.75}
    none = {"evaluations": 1, "first_s": None, "first_cpu_s": None, "each_s": None, "each_cpu_s": None}
    assert row_of(None, [(5.0, 3.5)]) == none


def row(problem, version, each_cpu_s, first_cpu_s, level=1):
    return {
        "level": level, "problem": problem, "version": version, "each_cpu_s": each_cpu_s, "first_cpu_s": first_cpu_s
    }  # fmt: skip


def test_a_table_without_a_first_kernel_in_both_versions_shows_dashes():
    rows = [row("a", "before", 4.0, None), row("a", "now", 1.0, 3.0)]
    only, together = table(rows).splitlines()[1:]
    assert only.split() == ["1", "1", "4.00", "1.00", "4.00", "-", "-", "-"]
    assert together.split()[0] == "all"


def test_pairs_are_compared_and_what_has_no_partner_is_left_out():
    rows = [
        row("a", "before", 4.0, 6.0), row("a", "now", 1.0, 3.0),
        row("b", "before", 2.0, 8.0), row("b", "now", 2.0, None),
        row("c", "now", 99.0, 1.0),
        row("d", "before", 3.0, 5.0, level=3), row("d", "now", 1.5, 5.0, level=3),
    ]  # fmt: skip
    first, second, together = table(rows).splitlines()[1:]
    assert first.split() == ["1", "2", "3.00", "1.50", "2.00", "6.00", "3.00", "2.00"]
    assert second.split() == ["3", "1", "3.00", "1.50", "2.00", "5.00", "5.00", "1.00"]
    assert together.split()[:5] == ["all", "3", "3.00", "1.50", "2.00"]
