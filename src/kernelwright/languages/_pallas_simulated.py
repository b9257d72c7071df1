"""An entry that copies or indexes by itself → an error where JAX's simulated TPU finds what plain interpretation hides.

The plain interpreter does each copy at once and clamps each index. The simulator ("TPU interpret mode") does a copy
when it is waited for, orders accesses by vector clocks, and stops at an access beyond a buffer. It is slower by far, so
only kernels run there in which that can matter: copies, semaphores, indices that are not constant, index maps of data.

Covers: reads and writes that no wait orders with a copy; copies that nobody waits for; accesses beyond a buffer.
Does not cover: grids of more than 1,024 points; what the simulator lacks, which is left to the plain interpreter.
"""

import contextlib
import importlib
import io
import logging
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

MOST_POINTS: Final = 1024
"""Points of the largest grid that is simulated."""
_PLAIN_OPERANDS: Final = {"get": 1, "load": 1, "swap": 2, "addupdate": 2, "store": 2}
"""Accesses, and how many operands they have if every index is a constant."""
_RACE: Final = re.compile(r"(read|write) of .+? from -?\d+, -?\d+, (.+)$", re.MULTILINE)
_BEYOND: Final = re.compile(r"IndexError: (.+)")
_OURS: Final = re.compile(r'File "([^"]+)", line (\d+), in')
_LOGGER: Final = "jax._src.callback"
_FAR: Final = 1e-2


class SimulationError(ValueError):
    """What a simulated TPU found."""


def wants_simulation(jaxpr: Any) -> bool:
    """Tell whether a traced entry has a kernel that copies or indexes by itself, on grids that are not too large."""
    kernels = [e for e in _equations(jaxpr) if e.primitive.name == "pallas_call"]
    grids = [_grid(e) for e in kernels]
    if any(not all(isinstance(size, int) for size in grid) or np.prod(grid) > MOST_POINTS for grid in grids):
        return False
    return any(_by_itself(e) for e in kernels)


def check_simulated(call: Callable[..., Any], tensors: Sequence[Any], plain: Sequence[Any]) -> None:
    """Run an entry once on the simulated TPU.

    Args:
        call: The entry, whose kernels are simulated while this runs.
        tensors: Its arguments.
        plain: What the plain interpreter answers.

    Raises:
        SimulationError: a race, an access beyond a buffer, or another answer.
    """
    jax: Any = importlib.import_module("jax")
    printed, places = io.StringIO(), _Places()
    try:
        with contextlib.redirect_stdout(printed), places.listening():
            given = jax.tree.leaves(jax.block_until_ready(jax.jit(call)(*tensors)))
    except Exception as error:  # noqa: BLE001 - the simulator raises what it likes for what it does not know
        beyond = _BEYOND.findall(str(error))
        if beyond:
            raise SimulationError(f"on a simulated TPU{places.said()}: {beyond[-1]}") from None
        return
    finally:
        importlib.import_module("jax.experimental.pallas.tpu").reset_tpu_interpret_mode_state()
    if "RACE DETECTED" in printed.getvalue():
        one, other = (
            f"{what} at {place.rpartition('/')[2]}" for what, place in _RACE.findall(printed.getvalue())[:2]
        )
        raise SimulationError(
            f"race on a simulated TPU: {one} and {other} of the same memory are not ordered; wait for the copy between"
        )
    for number, (one, other) in enumerate(zip(given, plain, strict=True)):
        _compare(number, np.asarray(one), np.asarray(other))


class _Places(logging.Handler):
    """Hears what JAX logs of a callback that failed, for the candidate's line; keeps it from the log."""

    def __init__(self) -> None:
        super().__init__()
        self._place = ""

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Stand in for the logger's handlers."""
        logger = logging.getLogger(_LOGGER)
        before = logger.propagate
        logger.addHandler(self)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.propagate = before

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the last line outside packages of the trace of the operation that failed."""
        error = record.exc_info[1] if record.exc_info else None
        text = "".join(traceback.format_exception(error)) if error else ""
        traced = text.partition("JaxStackTraceBeforeTransformation")[0] if "JaxStackTrace" in text else ""
        frames = [(p, n) for p, n in _OURS.findall(traced) if "site-packages" not in p]
        if frames and not self._place:
            path, line = frames[-1]
            self._place = f", {path.rpartition('/')[2]}:{line}"

    def said(self) -> str:
        """Return the place, to go on in a sentence."""
        return self._place


def _compare(number: int, simulated: np.ndarray, plain: np.ndarray) -> None:
    one, other = simulated.astype(np.float64), plain.astype(np.float64)
    with np.errstate(invalid="ignore"):
        lost = ~np.isfinite(one) & np.isfinite(other)
        scale = np.abs(other[np.isfinite(other)]).max(initial=0.0)
        wrong = lost | (np.abs(one - other) > _FAR * scale)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise SimulationError(
            f"on a simulated TPU {int(wrong.sum())} of {wrong.size} values of output {number} are others, the first at "
            f"{place}: {simulated[place]} instead of {plain[place]}; a copy was never waited for, or memory was read "
            "that nothing had written"
        )


def _equations(jaxpr: Any) -> Iterator[Any]:
    """Yield all equations of a traced function, those inside of others too."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    for equation in getattr(inner, "eqns", ()):
        yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                if hasattr(part, "eqns") or hasattr(part, "jaxpr"):
                    yield from _equations(part)


def _grid(equation: Any) -> tuple[Any, ...]:
    return tuple(equation.params["grid_mapping"].grid)


def _by_itself(equation: Any) -> bool:
    """Tell whether a kernel copies, or reads and writes at indices that are not constant."""
    if equation.params["grid_mapping"].num_index_operands:
        return True
    for one in _equations(equation.params["jaxpr"]):
        name = one.primitive.name
        if name.startswith(("dma_", "semaphore_")) or len(one.invars) > _PLAIN_OPERANDS.get(name, 1 << 30):
            return True
    return False
