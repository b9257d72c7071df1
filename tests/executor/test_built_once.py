"""The engine's libraries, asked for by several at once."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kernelwright.executor import _native


def test_what_two_ask_for_at_once_is_built_once(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    built, both = [], threading.Barrier(2)

    def build(scratch, made):
        built.append(scratch)
        time.sleep(0.2)
        made.write_bytes(b"a library")

    def ask(_):
        both.wait()
        return _native.cached("planted", build)

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(ask, range(2))
    assert one == other and one.is_relative_to(tmp_path) and one.read_bytes() == b"a library"
    assert len(built) == 1 and [p.name for p in one.parent.iterdir()] == [one.name]
