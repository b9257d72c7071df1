"""Op: schema, reference, kernel and guard, callable from Python and registered with torch as `kernelwright::name`."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _functorch, _len_torch_dispatch_stack
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from .explain import Explanation, Ran, listeners, paused, watchers
from .gpu import form_for, forms_of, gpu_of, on, say
from .kernel import Entry, Kernel
from .served import Served, served_calls

Outputs = torch.Tensor | tuple[torch.Tensor, ...]
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

    Example:
        >>> from kernelwright import ops
        >>> labels, distances = ops.kmeans.assign(torch.tensor([[0.0], [5.0]]), torch.tensor([[4.0], [1.0]]))
        >>> labels.tolist()
        [1, 0]
    """

    def __init__(
        self, schema: str, *, reference: Callable[..., Any], kernel: Kernel, outputs: Callable[..., Any],
        check: Callable[..., None], serves: Callable[..., str | None],
        gradient: tuple[Callable[..., None], Callable[..., Any]] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.schema, self.kernel = schema.partition("(")[0], schema, kernel
        self.reference, self.check, self.serves, self.outputs = reference, check, serves, outputs
        kernel.ops.append(self)
        self._entry: Entry | None = None
        self._served: Served | None = None
        self._address = 0
        self._said: set[str] = set()
        self._differentiable = gradient is not None
        name = f"kernelwright::{self.name}"
        _LIBRARY.define(schema)  # type: ignore[no-untyped-call]
        _LIBRARY.impl(self.name, self.run, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
        torch.library.register_fake(name, outputs, lib=_LIBRARY)
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
        if not is_compiling() and self._served is not None and not listeners and not paused:
            outputs = self._served(*arguments)
            if outputs is not None:
                if watchers:
                    self._tell(self._address, arguments, outputs)
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
        outputs, ran, _ = self._run(arguments)
        if self._served is not None and ran == "kernel" and not paused:
            self._served.remember(self._address, arguments, {}, arguments, outputs, outputs)
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
        return "kernel", "built" if self.kernel.built() else "built on first use"

    def on_gpu(self) -> str:
        """Return what runs on a GPU: `triton` or `reference`."""
        return "triton" if self.name in forms_of(self.kernel.file.parent)[0] else "reference"

    def _tell(self, kernel: int, arguments: tuple[Any, ...], outputs: Any) -> None:
        for ran in watchers:
            ran.append(Ran(kernel, arguments, outputs))

    def _run(self, arguments: tuple[Any, ...]) -> tuple[Any, str, str]:
        """Return the outputs, what computed them, and why it was the reference; tell the watchers."""
        outputs, ran, why = self._ran(arguments)
        if watchers:
            self._tell(self._address if ran == "kernel" else 0, arguments, outputs)
        return outputs, ran, why

    def _ran(self, arguments: tuple[Any, ...]) -> tuple[Any, str, str]:
        self.check(*arguments)
        why = self.serves(*arguments)
        if why is None:
            entry = self._entry or self._load()
            if entry is not None:
                outputs = self.outputs(*arguments)
                try:
                    if type(outputs) is tuple:
                        entry(*arguments, *outputs)
                    else:
                        entry(*arguments, outputs)
                    return outputs, "kernel", ""
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
                        return form.run(*arguments), "triton", ""
        say(self._said, self.name, why, stacklevel=4)
        return self.reference(*arguments), "reference", why

    def _load(self) -> Entry | None:
        self._entry = self.kernel.function(self.name)
        if self._entry is not None:
            made = served_calls()
            self._served = made(self._differentiable) if made else None
            self._address = self.kernel.address(self.name) if made else 0
        return self._entry

    def _explained(self, arguments: tuple[Any, ...]) -> Any:
        begun = time.perf_counter()
        outputs, ran, why = self._run(arguments)
        took = (time.perf_counter() - begun) * 1e6
        shapes = tuple(tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in arguments)
        one = Explanation(self.name, ran, why, shapes, took)
        for heard in listeners:
            heard.append(one)
        return outputs
