"""The search for the smallest failing sizes ends at a size below which nothing fails, within its tries."""

from kernelwright.executor.shrink import smallest


def test_sizes_give_way_one_after_the_other():
    tried = []

    def fails(sizes):
        tried.append(sizes)
        return sizes[0] * sizes[1] >= 100 and sizes[2] >= 3

    sizes, tries = smallest([1000, 64, 64], fails)
    assert sizes == (2, 50, 3)
    assert tries == len(tried) < 40
    assert all(min(s) >= 1 for s in tried)


def test_the_search_ends_with_its_tries():
    sizes, tries = smallest([1 << 30], lambda s: s[0] > 5, most_tries=7)
    assert tries == 7
    assert 5 < sizes[0] < 1 << 30
    assert smallest([7], lambda s: True, deadline_s=0.0) == ((7,), 0)
