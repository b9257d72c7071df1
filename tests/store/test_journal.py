"""The journal: what is added is on disk at once, what is noted with the next line, in the order it was said."""

from contextlib import closing

from kernelwright.records import Budget
from kernelwright.store import Journal, Store
from kernelwright.testing import planted_task


def test_what_is_noted_is_on_disk_with_the_next_line_and_at_the_end(tmp_path):
    with Store(tmp_path) as store:
        run = store.create_run(planted_task(), device="cpu-1", budget=Budget(), seed=0).id

    def on_disk():
        with closing(Journal(tmp_path, run)) as other:
            return [(e.kind, e.number) for e in other.entries()]

    journal = Journal(tmp_path, run)
    journal.note("heard", 0, {})
    journal.note("tell", None, {})
    assert on_disk() == []
    journal.add("ask", 1, {})
    assert on_disk() == [("heard", 0), ("tell", None), ("ask", 1)]
    journal.note("tell", 1, {})
    journal.close()
    journal.close()
    assert on_disk()[3:] == [("tell", 1)]
