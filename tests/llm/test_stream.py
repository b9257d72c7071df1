"""Server-sent events, cut anywhere, to JSON."""

import pytest

from kernelwright.llm import CallFailed, Limits
from kernelwright.llm._stream import _events
from kernelwright.llm._wire import Broke, Watch

SENT = (
    ': a comment\r\n\r\nevent: said\ndata: {"n": 1,\ndata: "text": "a\u2028b\x85c"}\n\n\nid: 7\ndata:{"n": 2}\r\n\r\n'
    'data: [DONE]\n\ndata: {"n": 3}\n\n'
).encode()


def events(pieces, **limits):
    return list(_events(pieces, Watch("m", Limits(**limits))))


@pytest.mark.parametrize("size", [1, 2, 7, len(SENT)])
def test_events_do_not_depend_on_how_they_were_cut(size):
    pieces = [SENT[i : i + size] for i in range(0, len(SENT), size)]
    assert events(pieces) == [{"n": 1, "text": "a\u2028b\x85c"}, {"n": 2}], "nothing after it is done"


def test_a_line_without_end_is_no_event(monkeypatch):
    monkeypatch.setattr("kernelwright.llm._stream._MOST_BYTES", 100)
    with pytest.raises(ValueError, match="a line of more than 100 bytes"):
        events(b"data: " for _ in range(1_000_000))


def test_it_can_be_given_up_before_an_event_ends():
    with pytest.raises(CallFailed, match="given up"):
        events([b"data: "], cancelled=lambda: True)


@pytest.mark.parametrize("error", ['"too late"', '{"message": "too late"}'])
def test_an_error_that_is_told_is_raised(error):
    with pytest.raises(Broke, match="too late"):
        events([f'data: {{"error": {error}}}\n\n'.encode()])
