"""What is freed within a block is used again without new pages, and goes back afterwards."""

import resource
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import torch
from psutil import Process

from kernelwright.search.evaluation import _judge
from kernelwright.system.kept_memory import kept_memory

_ELEMENTS, _TIMES = 10 << 20, 8
"""40 MB: more than glibc keeps of itself."""


def _faults() -> int:
    """Return the page faults of making and freeing large tensors, two at a time."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(_TIMES):
        one = torch.ones(_ELEMENTS)
        one.abs()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_large_tensors_touch_no_new_pages_until_the_outermost_block_gives_them_back() -> None:
    pages = 2 * _TIMES * _ELEMENTS * 4 // resource.getpagesize()
    with kept_memory():
        with kept_memory():
            _faults()
        assert _faults() < pages / 4, "the inner block's end changes nothing"
        held = Process().memory_info().rss
    assert held - Process().memory_info().rss > _ELEMENTS * 4, "it went back to the system"


def test_a_judge_keeps_memory_while_it_is_open(monkeypatch) -> None:
    seen = []

    @contextmanager
    def noted():
        seen.append("kept")
        yield
        seen.append("given back")

    monkeypatch.setattr(_judge, "kept_memory", noted)
    monkeypatch.setattr(_judge, "Acceptance", lambda *_, **__: nullcontext(SimpleNamespace(notes=())))
    setting = SimpleNamespace(cluster=None, device=None, names=lambda _: (), timing=None, emit=None)
    with _judge.open_judge(setting, None, ()):
        assert seen == ["kept"]
    assert seen == ["kept", "given back"]
