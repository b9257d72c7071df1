"""Python around Triton kernels, run as it is where there is no GPU: launches are executed, tensors stay on the CPU.

Covers: `device="cuda"`, `.cuda()`, `tensor.is_cuda`; what such code asks of `torch.cuda`; faults of launches.
Does not cover: collectives of several processes; graphs, streams and events that overlap; what `executing` does not.
"""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import torch

from ..errors import InputError
from .device import blame
from .inline import OnDevice
from .module import Options
from .triton import executing

TARGET: Final = 80
"""Compute capability that launches are compiled for."""
_MOST_SAID: Final = 400
"""Characters of an error above which only both its ends are kept: Triton's begin with the kernel's source."""
_PROPERTIES: Final = SimpleNamespace(
    name="PTX executor", major=TARGET // 10, minor=TARGET % 10, multi_processor_count=16, total_memory=1 << 34,
    warp_size=32, max_threads_per_multi_processor=2048, shared_memory_per_block=49152,
    shared_memory_per_block_optin=166912, shared_memory_per_multiprocessor=167936, regs_per_multiprocessor=65536,
)  # fmt: skip
_DRAWS: Final = SimpleNamespace(
    get_state=lambda: torch.zeros(16, dtype=torch.uint8), set_state=lambda _: None, initial_seed=lambda: 0
)
"""A GPU's generator, as kernels read it that draw by themselves: seed and offset. It stays, so that draws repeat."""
_CUDA: Final[dict[str, Any]] = {
    "synchronize": lambda *_: None,
    "empty_cache": lambda: None,
    "set_device": lambda _: None,
    "current_device": lambda: 0,
    "device_count": lambda: 1,
    "current_stream": lambda *_: SimpleNamespace(cuda_stream=0, synchronize=lambda: None),
    "get_device_name": lambda *_: _PROPERTIES.name,
    "get_device_capability": lambda *_: (_PROPERTIES.major, _PROPERTIES.minor),
    "get_device_properties": lambda *_: _PROPERTIES,
    "device": lambda *_: contextlib.nullcontext(),
    "_DeviceGuard": lambda *_: contextlib.nullcontext(),
    "default_generators": (_DRAWS,),
}
"""What code around kernels asks of `torch.cuda`, and what one device of the executor answers."""


class LaunchError(RuntimeError):
    """A launch that does not compile, is not executed, or was found at fault: the reason, in a sentence."""


def run_on_cpu(call: Callable[[], Any], options: Options | None = None) -> Any:
    """Call Python that launches Triton kernels, every launch executed, and return what it returns.

    Raises:
        LaunchError: a launch in it failed.
    """
    try:
        with in_place_of_a_gpu(), executing(target=TARGET, options=options or _quick()) as runs:
            result = call()
    except InputError as error:
        said = " ".join(str(error).split())
        raise LaunchError(said if len(said) < _MOST_SAID else f"{said[:80]} ... {said[-200:]}") from None
    wrong = next((run for run in runs if not run.ok), None)
    if wrong is not None:
        raise LaunchError(blame(wrong.kernel, wrong))
    return result


@contextlib.contextmanager
def in_place_of_a_gpu() -> Iterator[None]:
    """Let Python that asks for a GPU have the CPU; its launches are not executed by this."""
    with mock.patch.multiple(torch.cuda, **_CUDA), torch.device("cpu"), OnDevice():
        yield


def launching() -> contextlib.AbstractContextManager[None]:
    """Return what Python that asks for a GPU is called in: nothing where there is one, else what has it use the CPU."""
    return contextlib.nullcontext() if torch.cuda.is_available() else in_place_of_a_gpu()


def _quick() -> Options:
    return Options(races=False, count=False)
