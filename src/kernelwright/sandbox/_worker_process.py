"""A worker's life: made ready, loaded, looked at, killed. `Worker` adds what is asked of the candidate.

Covers: every operation ends by its deadline or the worker is killed; the process is looked at from outside.
Does not cover: what the answers mean.
"""

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from pydantic import TypeAdapter

from ..languages import compiles_when_called
from ..records import ModelledTime
from . import _cuda, _inspection
from ._channel import Message
from ._connection import Connection
from ._heap import reached_blocks
from ._memory import may_read
from ._namespaces import BUILD_FOLDER
from ._output_transfer import STATE, OutputTransfer
from ._types import DRIVERS, Audit, Loaded, Payload, Seen, WatchMode

_COUNT = TypeAdapter(int)
_COUNTS = TypeAdapter(dict[str, int])
_NAMES = TypeAdapter(tuple[str, ...])
_COUNTERS = TypeAdapter(dict[str, float])
_TIMES = TypeAdapter(tuple[ModelledTime, ...])


class WorkerProcess:
    """One process with one candidate; a context manager that kills it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transfer = OutputTransfer(connection)
        self.loaded = Loaded("", "", 0.0)
        """Proof of what was loaded."""
        self._libraries: frozenset[str] = frozenset()
        self._compiles = False
        self.reads_frozen = False
        """Whether outputs are read out of the stopped process, which needs the kernel's leave and no GPU."""
        self.on_gpu = False
        """Whether its kernels run on a GPU, whose memory arguments are copied to."""

    @property
    def pid(self) -> int:
        """Process id, as the judge sees it."""
        return self._connection.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return not self._connection.dead

    def make_ready(self, deadline_s: float) -> None:
        """Wait until the worker has closed itself in; `Pool.worker` has done so already."""
        self._connection.ask({"op": "ready"}, deadline_s)
        self.reads_frozen = may_read(self.pid)

    def load(self, payload: Payload, threads: int, deadline_s: float) -> Loaded:
        """Load the payload; `Pool.worker` has done so already."""
        seed = secrets.randbits(48)
        message: Message = {
            "op": "load",
            "seed": seed,
            "candidate": payload.candidate.model_dump(mode="json"),
            "init": list(payload.init),
            "arguments": [a.model_dump(mode="json") for a in payload.arguments],
            "outputs": [o.model_dump(mode="json") for o in payload.outputs],
            "device": payload.device,
            "mode": payload.mode,
            "gradient": None if payload.gradient is None else asdict(payload.gradient),
            "threads": threads,
            "watched": payload.watched,
            "deployed": payload.deployed,
            "executed": payload.executed,
            "counted": payload.counted,
            "alone": None if payload.alone is None else asdict(payload.alone),
        }
        self.on_gpu = _cuda.is_gpu(payload.device)
        self.reads_frozen = self.reads_frozen and not self.on_gpu
        start = time.perf_counter_ns()
        if payload.watched:
            self._libraries = _inspection.libraries(self.pid)
            self._compiles = compiles_when_called(payload.candidate.language)
        on_cpu = not self.on_gpu and payload.candidate.language not in DRIVERS
        # Our own baselines may wait: one that compiles for another that holds the compiler's lock.
        self._connection.watches_stalls = on_cpu and not payload.trusted
        reply = self._connection.ask(message, deadline_s)
        setup_us = (time.perf_counter_ns() - start) / 1000
        if reply.get("content") != payload.candidate.key:
            raise self._connection.reject(f"loaded {str(reply.get('content'))[:40]!r}, not the candidate")
        prepares = reply.get("prepares") is True
        state = self._transfer.parse(STATE, reply, "state")
        self.loaded = Loaded(
            payload.candidate.key, payload.candidate.entry, setup_us, prepares, seed=seed, state=state
        )
        return self.loaded

    def audit(self, *, deadline_s: float = 10.0) -> Audit:
        """Look at the process, from outside and from inside."""
        reply = self._connection.ask({"op": "audit"}, deadline_s)
        return Audit(
            threads=_inspection.threads(self.pid),
            processes=len(_inspection.descendants(self.pid)),
            descriptors=_inspection.descriptors(self.pid),
            cpu_us=_inspection.cpu_us(self.pid),
            rss_bytes=_inspection.rss_bytes(self.pid),
            flags=self._transfer.parse(_NAMES, reply, "flags"),
            patched=self._transfer.parse(_NAMES, reply, "patched"),
            environment=self._transfer.parse(_NAMES, reply, "environment"),
            folder=str(reply.get("folder"))[:200],
        )

    def watch(self, mode: WatchMode, *, deadline_s: float = 60.0) -> None:
        """Let a watched worker forget what it saw, and go on in a mode.

        `see`: note operators and launches; `spoil`: also change what launches write; `refuse`: launches raise.
        """
        self._connection.ask({"op": "watch", "mode": mode}, deadline_s)

    def elapse(self, seconds: float, threads: int, *, deadline_s: float = 10.0) -> bool:
        """Let time pass in a worker that looks deployed, in no time, and go on with so many threads.

        Returns:
            Whether every clock of the process shows it, as the worker says; else Python's alone.
        """
        message: Message = {"op": "elapse", "seconds": seconds, "threads": threads}
        return self._connection.ask(message, deadline_s).get("whole") is True

    def seen(self, *, deadline_s: float = 10.0) -> Seen:
        """Return what the calls since the last `watch` were made of."""
        reply = self._connection.ask({"op": "seen"}, deadline_s)
        loaded = _inspection.libraries(self.pid) - self._libraries
        return Seen(
            operators=self._transfer.parse(_COUNTS, reply, "operators"),
            launches=self._transfer.parse(_COUNT, reply, "launches"),
            libraries=tuple(sorted(filter(None, map(self._told, loaded)))),
        )

    def _told(self, path: str) -> str:
        """Say which library it is: by name where it is installed, by its path where the worker wrote it.

        What was built of the candidate, and what its language's runtime compiles in the worker, is left out.
        """
        staged = self._connection.staged
        if path.startswith((f"{BUILD_FOLDER}/", f"{staged / 'build'}/")):
            return ""
        if Path(path).is_file() and not path.startswith(f"{staged}/"):
            name = Path(path).name
            return "" if ".cpython-" in name or ".abi3." in name else name
        return "" if self._compiles else path

    def cpu_us(self) -> float:
        """Return the CPU microseconds that the process has used since its start, measured outside.

        It runs on afterwards, so that a second look shows what it does unasked.
        """
        self._connection.freezer.thaw()
        return _inspection.cpu_us(self.pid)

    def running(self) -> bool:
        """Tell whether a thread of it has a processor or waits for one, however busy the machine is."""
        self._connection.freezer.thaw()
        return _inspection.running(self.pid) > 0

    def probe(self, message: Message, *, deadline_s: float = 10.0) -> Message:
        """Let the worker try what its layers are to prevent; for `Pool.layers`."""
        return self._connection.ask({**message, "op": "probe"}, deadline_s)

    def heap_memory(self, roots: Iterable[bytes]) -> dict[int, bytes]:
        """Read the blocks of the heap that pointers in memory read before lead to: address → content."""
        return reached_blocks(self.pid, roots) if self.reads_frozen else {}

    def counters(
        self, by: Mapping[str, float] = MappingProxyType({}), *, deadline_s: float = 10.0
    ) -> dict[str, float]:
        """Return the numbers that a Python candidate keeps, by path, after adding `by` to those that it names."""
        reply = self._connection.ask({"op": "counters", "by": dict(by)}, deadline_s)
        values = self._transfer.parse(_COUNTERS, reply, "values")
        self._connection.rest()
        return values

    def modelled(self, registers: int, *, deadline_s: float = 60.0) -> tuple[ModelledTime, ...]:
        """Return modelled times of the launches since this was last asked, as the worker says: an order, no evidence.

        `registers` are those of a thread, 0 where nobody knows. The payload must be `counted`.
        """
        reply = self._connection.ask({"op": "modelled", "registers": registers}, deadline_s)
        times = self._transfer.parse(_TIMES, reply, "times")
        self._connection.rest()
        return times

    def kill(self) -> None:
        """Kill the worker and everything it started; nothing to do where it is dead."""
        self._connection.kill()
        self._transfer.close()
