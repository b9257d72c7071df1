"""Messages → Completion: providers of models, their prices, and the ledger that enforces a budget.

    models = Models.of_run(store_folder, run)                # the run's models, charged to its budget
    completion = models.get("anthropic:claude-x").complete([Message("user", "...")], purpose="draft 0")

A *provider* (`kernelwright.providers` entry point) speaks one wire format; a *model* puts retries, rate
limits and the ledger around it.
"""

from ._failure import CallFailed, FailureKind
from ._ledger import Ledger
from ._model import Model, Retry
from ._models import Models, Options, check_models
from ._names import ModelName, parse_name
from ._prices import FREE, FlatPrice, ListedPrice, Price, Usage, price_of
from ._protocol import Completion, Limits, Message, Provider
from ._rate import Rate

__all__ = [
    "FREE", "CallFailed", "Completion", "FailureKind", "FlatPrice", "Ledger", "Limits", "ListedPrice", "Message",
    "Model", "ModelName", "Models", "Options", "Price", "Provider", "Rate", "Retry", "Usage", "check_models",
    "parse_name", "price_of",
]  # fmt: skip
