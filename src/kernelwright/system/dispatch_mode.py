"""DispatchMode: torch's dispatch mode, without the import of torch's compiler that its first use costs."""

import sys
from typing import Any, Self

from torch._compile import _disable_dynamo
from torch.utils._python_dispatch import TorchDispatchMode

_COMPILER = "torch._dynamo"


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Subclasses override `__torch_dispatch__`, as torch's own do.

    torch keeps its compiler out of every mode, and imports it for that: about a second, at the first operation. Here
    it is kept out from when something else has imported it; before that there is nothing to keep out.

    Covers: whatever imported the compiler before the mode was entered.
    Does not cover: a function under the mode that imports it then; the mode's own code may be compiled with it.
    """

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)  # type: ignore[no-untyped-call]  # here and below: torch does not annotate it

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __enter__(self) -> Self:
        kind: Any = type(self)
        if _COMPILER in sys.modules and not hasattr(kind.__torch_dispatch__, "_compiler_kept_out"):
            kept_out: Any = _disable_dynamo(kind.__torch_dispatch__)
            kept_out._compiler_kept_out = True
            kind.__torch_dispatch__ = kept_out
        super().__enter__()  # type: ignore[no-untyped-call]
        return self
