"""Requests and answers are files: whole ones are read once, and one that is still being written waits."""

import json

import pytest

from kernelwright.propose.agent._queue import ANSWERED, ASKED, Queue

FILES = {"kernel.py": "def run(x):\n    return x\n"}


@pytest.fixture
def queue(tmp_path):
    with Queue(tmp_path) as made:
        yield made


def test_a_request_is_read_once_and_removed(queue, tmp_path):
    (tmp_path / ASKED / "1.json").write_text(json.dumps(FILES))
    assert list(queue.requests()) == [("1.json", FILES)]
    assert list(queue.requests()) == []


def test_one_that_is_being_written_is_left_until_it_has_its_name(queue, tmp_path):
    half = tmp_path / ASKED / ".1.json"
    half.write_text(json.dumps(FILES)[:7])
    assert list(queue.requests()) == []
    half.write_text(json.dumps(FILES))
    assert list(queue.requests()) == []
    half.rename(tmp_path / ASKED / "1.json")
    assert list(queue.requests()) == [("1.json", FILES)]


def test_what_is_no_request_is_named_and_removed(queue, tmp_path):
    (tmp_path / ASKED / "2.json").write_text("{")
    (tmp_path / ASKED / "1.json").symlink_to("/etc/hostname")
    assert list(queue.requests()) == [("1.json", None), ("2.json", None)]
    assert list(queue.requests()) == []


def test_an_answer_is_there_whole(queue, tmp_path):
    queue.answer("1.json", "{}")
    assert [f.name for f in (tmp_path / ANSWERED).iterdir()] == ["1.json"]
    assert (tmp_path / ANSWERED / "1.json").read_text() == "{}"
