"""The models of a run, made once and shared by its threads."""

import math
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from threading import Lock
from typing import Self

from ..config import Settings
from ..errors import InputError, ModelError, NotFoundError, known_names
from ..records import Scalar
from ..store import Calls, Store
from ..system.resources import Resource
from ._calling import Called, Caller
from ._ledger import Ledger
from ._model import Model, Retry
from ._names import parse_name
from ._prices import FREE, FlatPrice, Price, Usage
from ._protocol import Provider
from ._rate import Rate

Options = Mapping[str, Scalar | tuple[Scalar, ...]]
"""A run's options. Read here: `models` (names; the first is the default), `prices` (`IN,OUT`, or `NAME=IN,OUT` for
one of several), `requests_per_minute`, `tokens_per_minute` and `retries`."""
_GROUP = "kernelwright.providers"
_ONE = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


class Models(Resource):
    """Models by name with one ledger; one separate process makes their calls.

    Use it as a context manager, or close it: it holds that process and a connection to the store.
    """

    def __init__(self, options: Options, calls: Calls, run: str, cap_usd: float | None) -> None:
        self.names = names_of(options)
        """Names of the run's models, the default first."""
        self.ledger = Ledger(calls, run, cap_usd)
        """The run's ledger."""
        self._calls = calls
        self._caller = Caller()
        self._options = options
        self._made: dict[str, Model] = {}
        self._lock = Lock()

    @classmethod
    def of_run(cls, folder: Path, run: str, calls: Calls | None = None) -> Self:
        """Open the models of a run in the store at that folder, according to its options and budget.

        Args:
            folder: Folder of the store.
            run: The run's id.
            calls: The store's ledger if it is already open.
        """
        with Store(folder) as store:
            record = store.run(run)
        return cls(record.options, calls or Calls(folder), record.id, record.budget.usd)

    def close(self) -> None:
        """End the calls under way, and release the store."""
        self._caller.close()
        self._calls.close()

    def get(self, name: str = "") -> Model:
        """Return the model of that name, or the run's default.

        Raises:
            ModelError: the run has no model.
            InputError: the name or its price is not known.
            MissingToolError: its SDK or its key is missing.
        """
        if not name and not self.names:
            raise ModelError("the run was given no model; name one with --model PROVIDER:MODEL")
        wanted = name or self.names[0]
        with self._lock:
            if wanted not in self._made:
                rate = Rate(
                    _limit(self._options, "requests_per_minute"), _limit(self._options, "tokens_per_minute")
                )
                retries = self._options.get("retries")
                retry = Retry() if retries is None else Retry(attempts=1 + int(str(retries)))
                provider = make_provider(wanted, self._options)
                self._caller.start()  # its imports take a while
                called = Called(provider, _texts(self._options, "prices"), self._caller)
                self._made[wanted] = Model(called, self.ledger, retry=retry, rate=rate)
            return self._made[wanted]


def check_models(options: Options, cap_usd: float | None) -> None:
    """Check that every model of a run can be asked, before anything is spent.

    Raises:
        InputError: a name or a price is not known, or a model costs money and no cap is given.
        MissingToolError: an SDK or a key is missing.
    """
    for name in names_of(options):
        price = make_provider(name, options).price
        if cap_usd is None and price.cost_usd(_ONE) > 0:
            raise InputError(f"model {name!r} costs money; say how much it may spend with --usd")


def names_of(options: Options) -> tuple[str, ...]:
    """Return the names of a run's models."""
    return _texts(options, "models")


def make_provider(name: str, options: Options = {}, settings: Settings | None = None) -> Provider:  # noqa: B006
    """Make the provider of a model.

    Raises:
        NotFoundError: no provider is registered under its name.
    """
    parsed = parse_name(name)
    points = {point.name: point for point in entry_points(group=_GROUP)}
    if parsed.provider not in points:
        raise NotFoundError(
            f"no provider is called {parsed.provider!r} (in model {name!r}); {known_names(parsed.provider, points)}"
        )
    make = points[parsed.provider].load()
    provider: Provider = make(
        parsed, settings or Settings.from_environment(), _price(name, _texts(options, "prices"))
    )
    return provider


def _price(name: str, given: Sequence[str]) -> Price | None:
    """Find the user's price of a model: its own, else the price for all models."""
    prices = {named: price for named, _, price in (text.rpartition("=") for text in given)}
    text = prices.get(name, prices.get(""))
    if text is None:
        return None
    try:
        into, out = (float(part) for part in text.split(","))
    except ValueError:
        into = out = math.nan
    if not (0 <= into < math.inf and 0 <= out < math.inf):
        raise InputError(f"price {text!r} is none; expected IN,OUT in USD a million tokens, such as 3,15")
    return FlatPrice(into, out) if into or out else FREE


def _texts(options: Options, name: str) -> tuple[str, ...]:
    value = options.get(name) or ()
    return tuple(str(v) for v in value) if isinstance(value, tuple) else (str(value),)


def _limit(options: Options, name: str) -> float:
    value = options.get(name)
    return float(value) if isinstance(value, int | float) and value else math.inf
