"""Recorded trace → TraceReport: launches, queues, idle time and its causes, chains of kernels worth fusing.

Traces are those that `torch.profiler` exports (Kineto, Chrome's form), of CUDA, ROCm or the CPU alone.
"""

from ._chains import Chain, chains_of
from ._idle import IdleCause, StreamIdle, stream_idle
from ._launches import Linked, link
from ._read import read_events, read_trace
from ._regions import Region, Transition, transition
from ._report import DeviceUse, TraceReport, analyse
from ._spans import Kind, Span, Trace

__all__ = [
    "Chain",
    "DeviceUse",
    "IdleCause",
    "Kind",
    "Linked",
    "Region",
    "Span",
    "StreamIdle",
    "Trace",
    "TraceReport",
    "Transition",
    "analyse",
    "chains_of",
    "link",
    "read_events",
    "read_trace",
    "stream_idle",
    "transition",
]
