"""A GPU in place of which there is none: memory files are its memory, and what was asked of it is written down."""

import os
from types import SimpleNamespace

from kernelwright.sandbox._driver import DriverError
from kernelwright.sandbox._holder import Holder
from kernelwright.sandbox._memory import mapped
from kernelwright.sandbox._sentry import Seen

_FIRST_SLOT = slice(4096, 4112)
"""Where an arena's first slot lies, behind a guard band."""
IDLE = Seen(late_us=40.0, lost_us=0.0, ran_us=6000.0, whole=True)


class Memory:
    """A memory file like those of arenas, which a worker on a CPU maps."""

    def __init__(self, size_bytes, asked):
        self.size_bytes, self._asked = -(-size_bytes // 4096) * 4096, asked
        self.descriptor = os.memfd_create("lent")
        os.ftruncate(self.descriptor, self.size_bytes)
        self.content = mapped(self.descriptor, self.size_bytes)

    def write(self, content):
        self._asked.append(f"write {bool(content[_FIRST_SLOT].any())}")
        self.content[: content.numel()].copy_(content)

    def close(self):
        self._asked.append("close")
        os.close(self.descriptor)


class Sentry:
    """Sees what it is told to."""

    def __init__(self, asked, before=IDLE, after=IDLE):
        self._asked, self._before, self._after = asked, before, after

    def __getattr__(self, name):
        if name in {"begin", "hold", "release"}:
            return lambda: self._asked.append(name)
        raise AttributeError(name)

    def seen(self):
        self._asked.append("seen")
        return self._before

    def look(self):
        self._asked.append("look")
        return self._after


def holder(before=IDLE, after=IDLE, refuses="", broken=False):
    """Return a holder without a driver, and what was asked of it, in order."""
    asked, made = [], []

    def memory(size_bytes):
        if refuses:
            raise DriverError(refuses)
        made.append(Memory(size_bytes, asked))
        if broken:
            os.dup2(os.open(os.devnull, os.O_RDONLY), made[-1].descriptor)
        return made[-1]

    held = SimpleNamespace(
        driver=None, memory=memory, sentry=Sentry(asked, before, after), asked=asked, made=made
    )
    assert set(Holder.__dataclass_fields__) <= set(vars(held))
    return held
