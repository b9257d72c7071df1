"""Op: schema, reference, kernel and guard, callable from Python and registered with torch as `kernelwright::name`."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _functorch, _len_torch_dispatch_stack
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from .explain import Explanation, Ran, listeners, paused, plans, watchers
from .gpu import form_for, forms_of, gpu_of, on, say
from .kernel import Entry, Kernel, Parts
from .served import Served, served_calls
from .tuning import OWN, Choice, Tuning, kind

Outputs = torch.Tensor | tuple[torch.Tensor, ...]
_NO_CHOICE = Choice(OWN, "")
_LIBRARY = torch.library.Library("kernelwright", "FRAGMENT")  # type: ignore[no-untyped-call]


class Op:
    """One op of a family.

    A call checks its arguments, asks the guard, and runs the kernel, or where no kernel serves it the reference. A call
    like one of the last that the kernel served is not checked again: it goes straight to the kernel.

    Where forward derivatives are asked for the reference runs, which has them.

    Eager calls on plain tensors go past torch's dispatcher; `torch.compile`, autograd, fake tensors, vmap and modes go
    through it, to `torch.ops.kernelwright.NAME`.

    Args:
        schema: `name(Tensor x, ...) -> Tensor`, as for `torch.library`; arguments are positional.
        reference: Computes the outputs with torch alone, right on every device and dtype.
        kernel: The library with the symbol of the op's name, called with the arguments, then the outputs.
        outputs: Makes empty outputs for the arguments; serves as the fake kernel too.
        check: Raises `ArgumentError` for wrong arguments; what is in tensors is for kernel and reference to look at.
        serves: The guard: None where the kernel serves these arguments, else why not; it looks at no values either.
        gradient: `(setup_context, backward)`, as for `torch.library.register_autograd`; none if it has no gradient.
        tuning: Chooses the number of the kernel's template, which it is given behind its outputs; none if it has none.
        parts: The kinds of calls that have a library of their own, where one for all takes long to compile.

    Example:
        >>> from kernelwright import ops
        >>> labels, distances = ops.kmeans.assign(torch.tensor([[0.0], [5.0]]), torch.tensor([[4.0], [1.0]]))
        >>> labels.tolist()
        [1, 0]
    """

    def __init__(
        self, schema: str, *, reference: Callable[..., Any], kernel: Kernel, outputs: Callable[..., Any],
        check: Callable[..., None], serves: Callable[..., str | None],
        gradient: tuple[Callable[..., None], Callable[..., Any]] | None = None, tuning: Tuning | None = None,
        parts: Parts | None = None,
    ) -> None:  # fmt: skip
        self.name, self.schema, self.kernel = schema.partition("(")[0], schema, kernel
        self.reference, self.check, self.serves, self.outputs = reference, check, serves, outputs
        self.tuning, self.parts = tuning, parts
        kernel.ops.append(self)
        self._entries: dict[str, Entry] = {}
        self._addresses: dict[str, int] = {}
        self._served: Served | None = None
        self._said: set[str] = set()
        self._differentiable = gradient is not None
        name = f"kernelwright::{self.name}"
        _LIBRARY.define(schema)  # type: ignore[no-untyped-call]
        _LIBRARY.impl(self.name, self.run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
        torch.library.register_fake(name, self._faked, lib=_LIBRARY)
        if gradient is not None:
            torch.library.register_autograd(name, gradient[1], setup_context=gradient[0], lib=_LIBRARY)
        self._dispatched = getattr(torch.ops.kernelwright, self.name).default

    def __call__(self, *arguments: Any) -> Any:
        """Run the op.

        Raises:
            ArgumentError: an argument is wrong.
        """
        if forward_ad._current_level >= 0:  # no kernel has forward derivatives, and torch would drop them
            self.check(*arguments)
            return self.reference(*arguments)
        if plans:
            return self._dispatched(*arguments)
        if not is_compiling() and self._served is not None and not listeners and not paused:
            outputs = self._served(*arguments)
            if outputs is not None:
                if watchers:
                    self._tell(self._address(arguments), arguments, outputs, self._choice(arguments).number)
                return outputs
        if is_compiling() or _len_torch_dispatch_stack() or _functorch.peek_interpreter_stack() is not None:
            return self._dispatched(*arguments)
        traced = self._differentiable and torch.is_grad_enabled()
        for x in arguments:
            kind = type(x)
            if kind is torch.Tensor or kind is torch.nn.Parameter:
                if traced and x.requires_grad:
                    return self._dispatched(*arguments)
            elif isinstance(x, torch.Tensor):
                return self._dispatched(*arguments)
        if listeners:
            return self._explained(arguments)
        outputs, ran, _, choice = self._run(arguments)
        if self._served is not None and ran == "kernel" and choice.settled and not paused:
            kernel = self._address(arguments)
            self._served.remember(kernel, arguments, {}, arguments, outputs, outputs, choice.number)
        return outputs

    def run(self, *arguments: Any) -> Any:
        """Run the kernel if it serves these plain tensors, else the reference."""
        if listeners:
            return self._explained(arguments)
        return self._run(arguments)[0]

    def state(self) -> tuple[str, str]:
        """Return what runs on this machine's processor, `kernel` or `reference`, and a word on it."""
        from ...languages.cpp import Cpp

        available = Cpp().available()
        if not available.ok:
            return "reference", f"{available.what}: {available.remedy}"
        return "kernel", "built" if self.kernel.built(self.name) else "built on first use"

    def on_gpu(self) -> str:
        """Return what runs on a GPU: `triton` or `reference`."""
        return "triton" if self.name in forms_of(self.kernel.file.parent)[0] else "reference"

    def _tell(self, kernel: int, arguments: tuple[Any, ...], outputs: Any, number: int) -> None:
        for ran in watchers:
            ran.append(Ran(kernel, arguments, outputs, number))

    def _run(self, arguments: tuple[Any, ...]) -> tuple[Any, str, str, Choice]:
        """Return the outputs, what computed them, why it was the reference, and what was chosen; tell the watchers."""
        outputs, ran, why, choice = self._ran(arguments)
        if watchers:
            lasting = ran == "kernel" and choice.settled
            self._tell(self._address(arguments) if lasting else 0, arguments, outputs, choice.number)
        return outputs, ran, why, choice

    def _ran(self, arguments: tuple[Any, ...]) -> tuple[Any, str, str, Choice]:
        self.check(*arguments)
        why = self.serves(*arguments)
        if why is None:
            entry = self._entry(self._part(arguments))
            if entry is not None:
                outputs = self.outputs(*arguments)
                try:
                    return outputs, "kernel", "", self._call(entry, arguments, outputs)
                except (
                    NotImplementedError,
                    RuntimeError,
                ) as error:  # what it is called as depends on the ABI's version
                    if not str(error).startswith("Unsupported:"):
                        raise
                    why = str(error)
            else:
                why = self.kernel.problem
        else:
            device = gpu_of(arguments)
            if device is not None:
                form, why = form_for(self.kernel.file.parent, self.name, device, arguments)
                if form is not None:
                    with torch.no_grad(), on(device):  # its gradient is an op of its own
                        return form.run(*arguments), "triton", "", _NO_CHOICE
        if not any(
            isinstance(x, torch.Tensor) and x.is_meta for x in arguments
        ):  # where no kernel could compute
            say(self._said, self.name, why, stacklevel=4)
        with torch.no_grad():  # an op without a gradient has none where its reference runs either
            return self.reference(*arguments), "reference", why, _NO_CHOICE

    def _choice(self, arguments: tuple[Any, ...]) -> Choice:
        return self.tuning.plan(self.name, arguments) if self.tuning is not None else _NO_CHOICE

    def _call(self, entry: Entry, arguments: tuple[Any, ...], outputs: Any) -> Choice:
        given = (*arguments, *outputs) if type(outputs) is tuple else (*arguments, outputs)
        if self.tuning is None:
            entry(*given)
            return _NO_CHOICE
        return self.tuning.call(
            self.name, arguments, lambda number: entry(*given) if number == OWN else entry(*given, number)
        )

    def _faked(self, *arguments: Any) -> Any:
        """Return outputs without values; within `explain`, say what would serve the call."""
        if plans:
            self.check(*arguments)
            one = self._planned(arguments)
            for plan in plans:
                plan.append(one)
        return self.outputs(*arguments)

    def _planned(self, arguments: tuple[Any, ...]) -> Explanation:
        why, by, choice = self.serves(*arguments), "kernel", _NO_CHOICE
        if why is None:
            runs, what = self.state()
            why = self.kernel.problem or (what if runs == "reference" else "")
            choice = self._choice(arguments)
        else:
            device = gpu_of(arguments)
            if device is not None:
                form, why = form_for(self.kernel.file.parent, self.name, device, arguments)
                by = "triton" if form is not None else by
        return self._explanation("reference" if why else by, why or "", choice, arguments)

    def _explanation(
        self, by: str, why: str, choice: Choice, arguments: tuple[Any, ...], time_us: float = 0.0
    ) -> Explanation:
        variant = kind() if by == "kernel" else ""
        if by == "kernel" and self.tuning is not None:
            variant += self.tuning.told(choice, arguments)
        shapes = tuple(tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in arguments)
        return Explanation(self.name, by, why, variant, shapes, time_us)

    def _part(self, arguments: tuple[Any, ...]) -> str:
        return self.parts.flag(self.parts.of(*arguments)) if self.parts else ""

    def _address(self, arguments: tuple[Any, ...]) -> int:
        return self._addresses.get(self._part(arguments), 0)

    def _entry(self, part: str) -> Entry | None:
        return self._entries.get(part) or self._load(part)

    def _load(self, part: str = "") -> Entry | None:
        entry = self.kernel.function(self.name, part)
        if entry is not None:
            made = served_calls()
            if made and self._served is None:  # what it remembers of other parts stays
                self._served = made(self._differentiable)
            self._entries[part] = entry
            self._addresses[part] = self.kernel.address(self.name, part) if made else 0
        return entry

    def _explained(self, arguments: tuple[Any, ...]) -> Any:
        begun = time.perf_counter()
        outputs, ran, why, choice = self._run(arguments)
        took = (time.perf_counter() - begun) * 1e6
        one = self._explanation(ran, why, choice, arguments, took)
        for heard in listeners:
            heard.append(one)
        return outputs
