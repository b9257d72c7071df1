"""What a worker holds: the candidate, its state, argument sets over arenas, outputs not yet released."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor
from torch.nn.parameter import is_lazy

from ..languages import Language, compiles_when_called, get_language, is_executed
from ..languages.prepared import Prepared, PreparedModule, prepared
from ..records import Candidate, Packing, TensorSpec
from . import _cuda
from ._channel import Message
from ._counters import Counters
from ._deployed import Deployed, own
from ._gradient import differentiated
from ._lazy import sized
from ._memory import mapped
from ._operator_isolation import silenced
from ._packing import Names
from ._poison import Heap, poison
from ._segments import segments
from ._self_report import WITNESS, Spans, flatten, output_fact, places, span
from ._types import DRIVERS, Gradient, OperatorIsolation
from ._watch import Watch

_ALIGNMENT = 64
_OUTPUTS = 0
Call = tuple[Callable[..., Any], tuple[Any, ...]]


@functools.cache
def language(name: str) -> Language:
    """Return a language, looked up once in this process; zygotes look up the common ones."""
    return get_language(name)


def _starts_compilers(candidate: Candidate, outputs: tuple[TensorSpec, ...]) -> bool:
    """Tell whether compilers are started when a kernel is called: they would end by a clock that is stopped."""
    return compiles_when_called(candidate.language) and is_executed(candidate, outputs)


class WorkerState:
    """The candidate and its tensors."""

    def __init__(self) -> None:
        self.watch: Watch | None = None
        """Looks at what calls are made of, in workers that are never timed."""
        self._deployed: Deployed | None = None
        self.device_us = 0.0
        """Microseconds of the latest calls by a GPU's own clock; 0 on a CPU."""
        self._kernel: Callable[..., Any] | None = None
        self._spoken: Any = None
        """The language, in workers whose launches are counted."""
        self._prepared: Prepared | PreparedModule | None = None
        self._gradient: Gradient | None = None
        self._names = Names({})
        self._style = "function"
        self._device, self._fence = "cpu", _cuda.Fence("cpu")
        self._arenas: dict[int, Tensor] = {}
        self._lent: dict[int, _cuda.Lent] = {}
        """Memory of a GPU that the judge writes, for arguments of an arena of this number."""
        self._sets: dict[int, Call] = {}
        self._mirrors: dict[int, list[_cuda.Mirror]] = {}
        self._heap = Heap()
        """What of the arenas each set's arguments are copies of; none on a CPU."""
        self._next_set = 1
        self._state: dict[str, Tensor] = {}
        self._made_with: frozenset[str] = frozenset()
        self._kept: list[tuple[Any, tuple[Any, ...]]] = []
        self._untouched: Callable[[], AbstractContextManager[None]] = nullcontext

    def load(self, request: Any, build: Path) -> Message:
        """Load the candidate; its key is computed before any of its code runs."""
        candidate = Candidate.model_validate(request["candidate"])
        content, self._style, self._device = candidate.key, candidate.style, request["device"]
        outputs = tuple(TensorSpec.model_validate(o) for o in request["outputs"])
        WITNESS.expect(candidate.language)
        _cuda.open_context(self._device)
        self._fence = _cuda.Fence(self._device)
        spoken: Any = language(candidate.language)
        if request["watched"]:
            self.watch = Watch()
            self.watch.install(spoken, executed=request["executed"] or is_executed(candidate, outputs))
        silence = self._silenced(request["alone"])
        load = spoken.load_executed if request["executed"] else spoken.load
        if request["counted"]:
            load, self._spoken = spoken.load_counted, spoken
        if request["deployed"]:
            stoppable = candidate.language not in DRIVERS and not _starts_compilers(candidate, outputs)
            self._deployed = Deployed(clock=self._device == "cpu" and stoppable)
            kernel = self._deployed.run(load, candidate, build, outputs)
        else:
            kernel = load(candidate, build, outputs)
        if self.watch is not None:
            kernel = self.watch.around(kernel, candidate.language)
        if self._style == "module":
            torch.manual_seed(request["seed"])
            kernel = sized(kernel(*request["init"]).to(self._device), request["arguments"], self._device)
            torch.seed()
            if kernel.training != (request["mode"] == "train"):
                kernel.train(request["mode"] == "train")
            self._made_with = frozenset(kernel.state_dict())
        self._kernel = kernel
        self._prepared = None if self._style == "destination" else prepared(kernel)
        if request["gradient"] is not None and self._style != "destination":
            if self._prepared is not None:
                raise ValueError(
                    "prepare is declared, but gradients of a backward task go through the weights"
                )
            self._gradient = Gradient(**request["gradient"])
        if silence is not None:
            silence()
        return {
            "content": content,
            "symbol": candidate.entry,
            "prepares": self._prepared is not None,
            "state": self._described(),
        }

    def map(self, arena: int, descriptor: int, size_bytes: int) -> None:
        """Map shared memory; number 0 is this worker's own output region."""
        self._arenas[arena] = mapped(descriptor, size_bytes)
        os.close(descriptor)

    def lend(self, arena: int, descriptor: int, size_bytes: int) -> Message:
        """Map memory of the judge's on the device for an arena's arguments; those made before stay where they are."""
        self._lent[arena] = _cuda.Lent.of(descriptor, size_bytes, self._device)
        os.close(descriptor)
        return {}

    def segments(self) -> list[tuple[int, int, str]]:
        """Say where torch's memory on the device is, so that the judge can read outputs itself; nothing on a CPU."""
        return segments(self._device) if _cuda.is_gpu(self._device) else []

    def unmap(self, arena: int) -> Message:
        """Forget shared memory; it goes when the last tensor over it does."""
        self._arenas.pop(arena, None)
        return {}

    def bind(self, sets: list[Any], outputs: list[Any], *, late: bool = False) -> list[int]:
        """Make argument sets: new tensor objects with storages of their own over the slots' bytes.

        On a GPU they are copies, or lie in lent memory where they are to be filled `late`.
        """
        if self._kernel is None:
            raise RuntimeError("nothing is loaded")
        specs = tuple(TensorSpec.model_validate(o) for o in outputs)
        kernel = self._prepared or self._kernel
        if self._style == "destination" and specs:
            kernel = self._kernel.bind(specs)  # type: ignore[attr-defined]  # by the style it has it
        if self._gradient is not None:
            kernel = differentiated(kernel, self._gradient, self._style, self._names)
        numbers = range(self._next_set, self._next_set + len(sets))
        self._next_set = numbers.stop
        for number, arguments in zip(numbers, sets, strict=True):
            mirrors = self._mirrors[number] = []
            self._sets[number] = kernel, tuple(self._argument(a, mirrors, late=late) for a in arguments)
        self._heap.poison(specs, self._device)
        self._fence.clear()
        return list(numbers)

    def push(self, number: int) -> Message:
        """Take what the judge wrote into a set's arguments, where they are copies."""
        for mirror in self._mirrors[number]:
            mirror.push()
        return {}

    def pull(self, number: int) -> Message:
        """Show the judge what calls wrote into a set's arguments and next to them, where they are copies."""
        _cuda.pull(self._mirrors[number])
        return {}

    def plan(self, sets: list[int]) -> list[Call]:
        """Return what to call with what; state follows the arguments but for modules, which hold it."""
        state = () if self._style == "module" else tuple(self._state.values())
        return [(kernel, (*arguments, *state)) for kernel, arguments in (self._sets[n] for n in sets)]

    def rename(self, names: dict[str, str], packings: list[Any]) -> Message:
        """Return gradients of a module's state by other names, and in other layouts, than its own."""
        self._names = Names(names, packings=tuple(map(Packing.model_validate, packings)))
        return {}

    def prepare(self) -> Message:
        """Let the candidate pack its weights now, where it declares `prepare` and they changed."""
        with self._untouched():
            if isinstance(self._prepared, PreparedModule):
                self._prepared.follow()
            elif self._prepared is not None:
                self._prepared.follow(*self._state.values())
        return {}

    def run(self, plan: list[Call]) -> list[Any]:
        """Call everything, keep the outputs and say where they lie; on an error, none of them are kept."""
        watch = self.watch
        self._fence.begin()
        if self._deployed is not None:
            results = [self._deployed.run(kernel, *map(own, arguments)) for kernel, arguments in plan]
        else:
            results = [kernel(*arguments) for kernel, arguments in plan] if watch is None else watch.run(plan)
        self.device_us = self._fence.wait()
        self._kept += [(r, arguments) for r, (_, arguments) in zip(results, plan, strict=True)]
        return [places(r) for r in results]

    def call_late(self, number: int) -> Message:
        """Call on a set whose content the caller's stream brings late; keep what it then sees of the outputs."""
        [(kernel, arguments)] = self.plan([number])
        with _cuda.late(self._mirrors[number], self._device) as copied:
            outputs = copied(flatten(kernel(*arguments)))
        self._fence.wait()
        self._kept.append((outputs, arguments))
        return {}

    def elapse(self, seconds: float, threads: int) -> Message:
        """Let time pass for a worker that looks deployed."""
        if self._deployed is None:
            raise RuntimeError("this worker does not look deployed")
        return self._deployed.elapse(seconds, threads)

    def fetch(self, index: int, capacity: int) -> Message:
        """Copy one call's outputs into the output region, if they fit, and say what they are."""
        return {**self.facts(index), **self._copy_out(flatten(self._kept[index][0]), capacity)}

    def facts(self, index: int) -> Message:
        """Say what one call's outputs are."""
        result, arguments = self._kept[index]
        tensors = flatten(result)
        inputs = [span(t) for t in _tensors([*arguments, *self._module_state().values()])]
        return {"facts": [asdict(output_fact(t, n, inputs, tensors)) for n, t in enumerate(tensors)]}

    def state(self, capacity: int) -> Message:
        """Copy parameters and buffers into the output region, if they fit."""
        state = self._current_state()
        tensors = list(state.values())
        described = [[n, list(t.shape), _name(t.dtype)] for n, t in state.items()]
        return {"tensors": described, **self._copy_out(tensors, capacity)}

    def set_state(self, tensors: list[Any], *, in_place: bool, own: frozenset[str] = frozenset()) -> Message:
        """Take state by name: strict names, shapes and dtypes for modules, in order for everything else.

        In place, tensors that are not named stay as they are; a module's `own` ones always do.
        """
        given = {name: self._slot(slot, []) for name, slot in tensors}
        current = self._current_state()
        kept = {n: t for n, t in self._module_state().items() if n in own or n not in current}
        current = {n: t for n, t in current.items() if n not in own}
        if self._style == "module" or current:
            _require_fit({n: t for n, t in current.items() if n in given} if in_place else current, given)
        replaced = self._prepared is not None
        if not in_place and (self._style != "module" or replaced):
            given = {name: tensor.contiguous().clone() for name, tensor in given.items()}
        if in_place:
            for name, tensor in given.items():
                current[name].copy_(tensor)
        elif self._style == "module":
            self._kernel.load_state_dict(given | kept, strict=True, assign=replaced)  # type: ignore[union-attr]  # of style module it is a torch module
        else:
            self._state = given
            if isinstance(self._prepared, Prepared):
                self._prepared.names = tuple(given)
        return {}

    def counters(self, by: Any) -> Message:
        """Move the numbers that the candidate keeps, where `by` says so; return those that there are."""
        counters, arguments = (
            Counters(self._kernel, WITNESS.known),
            [a for _, given in self._sets.values() for a in given],
        )
        counters.move(TypeAdapter(dict[str, float]).validate_python(by), arguments)
        return {"values": counters.values(arguments)}

    def modelled(self, registers: int) -> Message:
        """Model the launches since this was last asked."""
        if self._spoken is None:
            raise RuntimeError("this worker counts nothing")
        return {"times": [made.model_dump(mode="json") for made in self._spoken.modelled(registers)]}

    def release(self) -> Message:
        """Fill what is kept with poison, then drop it, and every argument set."""
        held = [a for _, arguments in self._sets.values() for a in arguments]
        reserved = Spans(map(span, _tensors([*held, *self._module_state().values(), *self._state.values()])))
        for result, _ in self._kept:
            for tensor in _tensors(result):
                if not reserved.meet(*span(tensor)):
                    poison(tensor)
        self._kept.clear()
        self._sets.clear()
        self._mirrors.clear()
        return {}

    def _silenced(self, alone: Any) -> Callable[[], None] | None:
        """Put spoilt operators in place, if asked for, and return what sets them to work."""
        if alone is None:
            return None
        begin, self._untouched = silenced(TypeAdapter(OperatorIsolation).validate_python(alone))
        return begin

    def _argument(self, argument: Any, mirrors: list[_cuda.Mirror], *, late: bool) -> Any:
        if "slot" in argument:
            return self._slot(argument["slot"], mirrors, late=late)
        if "list" in argument:
            return [self._argument(a, mirrors, late=late) for a in argument["list"]]
        return argument["scalar"]

    def _slot(self, slot: Any, mirrors: list[_cuda.Mirror], *, late: bool = False) -> Tensor:
        dtype = getattr(torch, slot["dtype"])
        shape, strides, offset = slot["shape"], slot["strides"], slot["offset"]
        count = slot["nbytes"] // dtype.itemsize
        if count == 0:
            return torch.empty_strided(shape, strides, dtype=dtype, device=self._device)
        raw = self._arenas[slot["arena"]]
        if late:
            lent = self._lent[slot["arena"]]
            mirrors.append(_cuda.Mirror.within(raw, offset, slot["nbytes"], lent))
            return mirrors[-1].argument(dtype, shape, strides)
        if _cuda.is_gpu(self._device):
            mirrors.append(_cuda.Mirror.of(raw, offset, slot["nbytes"], self._device))
            return mirrors[-1].argument(dtype, shape, strides)
        return torch.frombuffer(raw.numpy(), dtype=dtype, count=count, offset=offset).as_strided(
            shape, strides
        )

    def _copy_out(self, tensors: list[Tensor], capacity: int) -> Message:
        offsets, end = [], 0
        for tensor in tensors:
            offsets.append(end)
            end += -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT
        if end > capacity:
            return {"needs": end, "offsets": []}
        for tensor, offset in zip(tensors, offsets, strict=True):
            if tensor.numel():
                raw = self._arenas[_OUTPUTS].numpy()
                target = torch.frombuffer(raw, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
                target.view(tensor.shape).copy_(tensor.detach())
        return {"needs": end, "offsets": offsets}

    def _module_state(self) -> dict[str, Tensor]:
        """Return a module's parameters and buffers, those that its calls added too; none of anything else."""
        if self._style != "module" or self._kernel is None:
            return {}
        return dict(self._kernel.state_dict())  # type: ignore[attr-defined]  # by the style it has it

    def _described(self) -> list[Any]:
        """Describe a module's state as it was made; of lazy layers, which have no sizes yet, nothing."""
        made = self._current_state() if isinstance(self._kernel, torch.nn.Module) else {}
        return [[n, list(t.shape), _name(t.dtype)] for n, t in made.items() if not is_lazy(t)]

    def _current_state(self) -> dict[str, Tensor]:
        """Return parameters and buffers that it was made with; what a module adds in its calls is its own affair."""
        if self._style != "module" or self._kernel is None:
            return self._state
        return {n: t for n, t in self._module_state().items() if n in self._made_with}


def _require_fit(current: dict[str, Tensor], given: dict[str, Tensor]) -> None:
    if current.keys() != given.keys():
        missing, extra = sorted(given.keys() - current.keys()), sorted(current.keys() - given.keys())
        raise ValueError(
            f"state does not fit: the candidate lacks {missing} and has {extra} beyond the task's"
        )
    for name, tensor in current.items():
        new = given[name]
        if tensor.shape != new.shape or tensor.dtype != new.dtype:
            raise ValueError(
                f"state {name!r} is {_name(tensor.dtype)}{list(tensor.shape)}; "
                f"expected {_name(new.dtype)}{list(new.shape)}"
            )


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
