"""The command that loads public modules: a row each, in a process of its own; the table says why one is no task."""

import time

from benchmarks.public_layers import sources
from benchmarks.public_modules import in_child, judged, table


def test_there_are_many_and_none_twice():
    names = [(group, name) for group, name, _ in sources()]
    assert len(set(names)) == len(names) >= 240


def test_a_layer_is_taken_and_a_file_that_raises_is_a_row_that_says_why():
    text = next(text for _, name, text in sources() if name == "ReLU()")
    taken = {"group": "g", "name": "relu", **judged(text)}
    assert taken["taken"] and taken["workloads"]["hidden"] > 2 and not taken["scaled"]
    broken = {
        "group": "g",
        "name": "broken",
        **judged(text.replace("self.layer(*inputs)", "self.missing(*inputs)")),
    }
    assert not broken["taken"] and not broken["runs"]
    assert "does not run here: g broken" in table([taken, broken]) and "missing" in broken["why"]


def test_a_child_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr("benchmarks.public_modules._SECONDS", 1)
    row = in_child(lambda: time.sleep(60) or {})
    assert not row["taken"] and "ended by signal 14" in row["why"]


def test_a_child_has_the_memory_that_it_is_given():
    row = in_child(lambda: {"taken": bool(bytearray(3 << 30))}, gigabytes=2)
    assert not row["taken"] and row["why"].startswith("MemoryError")
