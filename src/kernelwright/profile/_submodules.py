"""Times of submodules, from hooks around their forward."""

import time
from collections.abc import Callable
from typing import Any

import torch


def submodule_times(
    module: torch.nn.Module, call: Callable[[], None], wait: Callable[[], None], rounds: int
) -> tuple[float, list[tuple[str, str, float, float]]]:
    """Return the whole module's microseconds, and name, class, calls and microseconds of each submodule.

    The hooks wait for the device, so on a GPU the times exclude overlap between submodules.
    """
    spent: dict[str, float] = {}
    calls: dict[str, int] = {}
    started: list[float] = []

    def before(_module: torch.nn.Module, _args: Any) -> None:
        wait()
        started.append(time.perf_counter())

    def after(name: str) -> Callable[..., None]:
        def record(_module: torch.nn.Module, _args: Any, _result: Any) -> None:
            wait()
            spent[name] = spent.get(name, 0.0) + (time.perf_counter() - started.pop()) * 1e6
            calls[name] = calls.get(name, 0) + 1

        return record

    named = dict(module.named_modules())
    hooks = [h for n, m in named.items() for h in (m.register_forward_pre_hook(before),
                                                   m.register_forward_hook(after(n)))]  # fmt: skip
    try:
        for _ in range(rounds):
            call()
    finally:
        for hook in hooks:
            hook.remove()
    whole = spent.pop("", 1.0) / rounds
    found = [(n, type(named[n]).__name__, calls[n] / rounds, t / rounds) for n, t in spent.items()]
    return whole, found
