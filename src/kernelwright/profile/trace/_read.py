"""Read Chrome traces event by event, so that a large file needs no more memory than the spans that are kept."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from ...errors import InputError
from ._spans import ON_DEVICE, Kind, Span, Trace, span_of

_CHUNK = 1 << 20
_BLANK = " \t\r\n"
_HOW = "expected what torch.profiler's export_chrome_trace writes, as .json or .json.gz"


class _Text:
    """A window on a file from which JSON values are taken one by one."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._decoder = file, json.JSONDecoder(strict=False)
        self._buffer, self._at, self._ended = "", 0, False

    def _more(self) -> bool:
        """Read on; twice as much where the window holds an unfinished value."""
        if self._ended:
            return False
        rest = self._buffer[self._at :]
        read = self._file.read(max(_CHUNK, len(rest)))
        self._buffer, self._at, self._ended = rest + read, 0, not read
        return not self._ended

    def peek(self) -> str:
        """Return the next character that is not blank; empty at the end of the file."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def take(self, *expected: str) -> str:
        """Take the next character, which must be one of these."""
        found = self.peek()
        if found not in expected or not found:
            raise ValueError(
                f"{found!r} stands where {' or '.join(expected)} is expected" if found else "it ends early"
            )
        self._at += 1
        return found

    def value(self) -> object:
        """Take the next value, whole."""
        self.peek()
        while True:
            try:
                found, end = self._decoder.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if not self._more():
                    raise ValueError("it ends early" if self._ended else error.msg) from None
                continue
            if end == len(self._buffer) and self._more():  # a number may go on in what was not read yet
                continue
            self._at = end
            return found


def read_events(path: Path | str) -> Iterator[Mapping[str, object]]:
    """Yield the events of a trace in the order of the file.

    Args:
        path: A `.json` or `.json.gz` file; what it is is read from its first bytes.

    Raises:
        InputError: no such file, or it is not a trace.
    """
    yield from (event for _, event in _entries(Path(path)) if event is not None)


def read_trace(path: Path | str) -> Trace:
    """Read what is needed of a trace.

    Args:
        path: A `.json` or `.json.gz` file, of CUDA, ROCm or the CPU alone.

    Raises:
        InputError: no such file, or it is not a trace, or it has no spans.

    Example:
        >>> read_trace("nosuch.json")
        Traceback (most recent call last):
        kernelwright.errors.InputError: no file 'nosuch.json'; expected a trace ...
    """
    spans: dict[Kind, list[Span]] = {kind: [] for kind in Kind}
    names: dict[str, str] = {}
    devices: tuple[str, ...] = ()
    for key, event in _entries(Path(path)):
        if event is None:
            devices = key
            continue
        try:
            span = span_of(event)
        except ValueError as error:
            raise InputError(f"{str(path)!r} is not a trace: {error}; {_HOW}") from None
        if span is not None:
            shared = names.setdefault(span.name, span.name)
            kept = span if shared is span.name else Span(
                span.kind, shared, span.place, span.start_us, span.duration_us, span.correlation
            )  # fmt: skip
            spans[span.kind].append(kept)
    if not any(spans.values()):
        raise InputError(f"{str(path)!r} has no operators and no kernels; {_HOW}")
    for found in spans.values():
        found.sort(key=lambda s: s.start_us)
    on_device = sorted((s for kind in ON_DEVICE for s in spans[kind]), key=lambda s: s.start_us)
    return Trace(
        name=Path(path).name, operators=tuple(spans[Kind.OPERATOR]), annotations=tuple(spans[Kind.ANNOTATION]),
        runtime=tuple(spans[Kind.RUNTIME]), device=tuple(on_device), devices=devices,
    )  # fmt: skip


def _entries(path: Path) -> Iterator[tuple[tuple[str, ...], Mapping[str, object] | None]]:
    """Yield each event, and once, with no event, the names of the devices."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as file:
            yield from _walk(_Text(file))
    except FileNotFoundError:
        raise InputError(f"no file {str(path)!r}; expected a trace ({_HOW})") from None
    except IsADirectoryError:
        raise InputError(f"{str(path)!r} is a folder; expected a trace ({_HOW})") from None
    except UnicodeDecodeError:
        raise InputError(f"{str(path)!r} is not text; {_HOW}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(
            f"{str(path)!r} is a broken gzip file: it ends early or is damaged; record it again"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{str(path)!r} is not a trace: {error}; {_HOW}") from None


def _walk(text: _Text) -> Iterator[tuple[tuple[str, ...], Mapping[str, object] | None]]:
    if text.take("{", "[") == "[":
        yield from _events(text)
        return
    seen = False
    while text.peek() != "}":
        key = text.value()
        text.take(":")
        if key == "traceEvents":
            seen = True
            text.take("[")
            yield from _events(text)
        else:
            value = text.value()
            if key == "deviceProperties" and isinstance(value, list):
                yield tuple(str(d.get("name", "")) for d in value if isinstance(d, dict)), None
        if text.peek() != "}":
            text.take(",")
    if not seen:
        raise ValueError("it has no traceEvents")


def _events(text: _Text) -> Iterator[tuple[tuple[str, ...], Mapping[str, object]]]:
    """Yield the rest of a list of events, its bracket already taken."""
    while text.peek() != "]":
        event = text.value()
        if not isinstance(event, dict):
            raise ValueError(f"an event is {type(event).__name__}, not an object")
        yield (), event
        if text.peek() != "]":
            text.take(",")
    text.take("]")
