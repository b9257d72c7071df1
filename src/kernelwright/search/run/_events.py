"""The events that a run reports while it is running."""

import json
from collections.abc import Callable

from pydantic import JsonValue, SkipValidation

from ...records import Record
from ...store import Store
from ._budget import Meter


class Event(Record):
    """One line of a run's log."""

    event: str
    """What happened: `run`, `bound`, `evaluation`, `accept`, `accepted`, `not-accepted`, `wait` ..."""
    run: str
    """The run's id."""
    elapsed_s: float
    """Wall seconds of the run, including those before a resumption."""
    data: SkipValidation[dict[str, JsonValue]] = {}
    """The event's data, by name."""

    def fields(self) -> dict[str, JsonValue]:
        """Return the event as one flat object."""
        return {"event": self.event, "run": self.run, "elapsed_s": round(self.elapsed_s, 3), **self.data}

    def line(self) -> str:
        """Return the event as one line of JSON.

        Example:
            >>> Event(event="wait", run="r1", elapsed_s=2.0, data={"message": "busy"}).line()
            '{"event": "wait", "run": "r1", "elapsed_s": 2.0, "message": "busy"}'
        """
        return json.dumps(self.fields())


OnEvent = Callable[[Event], None]
"""Called in the main thread with every event."""


class Log:
    """Report events: write each to the store, then pass it to the listener."""

    def __init__(self, store: Store, run: str, meter: Meter, on_event: OnEvent | None) -> None:
        self._store = store
        self._run = run
        self._meter = meter
        self._on_event = on_event

    def __call__(self, event: str, **data: JsonValue) -> None:
        """Report one event."""
        line = Event(event=event, run=self._run, elapsed_s=self._meter.elapsed_s, data=data)
        self._store.append_event(self._run, line.fields())
        if self._on_event is not None:
            self._on_event(line)
