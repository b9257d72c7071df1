"""Tree-structured Parzen estimator, from Optuna."""

from typing import TYPE_CHECKING

import numpy as np

from ...errors import MissingToolError
from ...records import Space
from ._finite import FiniteTuner

if TYPE_CHECKING:
    import optuna

_STARTUP = 10
_TRIES = 10


class TPE(FiniteTuner):
    """Draw values where good results are denser than bad ones.

    Optuna proposes value indices; if they are not allowed or were tried, they are reported as failed and it
    proposes again. After ten proposals the nearest untried configuration is used.
    Source: Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011; `optuna.samplers.TPESampler`.

    Example:
        >>> from kernelwright.records import Parameter
        >>> tuner = TPE(Space(parameters=(Parameter(name="tile", values=(8, 16)),)), seed=0)
        >>> sorted(tuner.ask()["tile"] for _ in range(2)), tuner.ask()
        ([8, 16], None)
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        try:
            import optuna
        except ImportError:
            raise MissingToolError(
                "tuner 'tpe' needs optuna; install it with `pip install 'kernelwright[bayes]'`"
            ) from None
        self._optuna = optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(sampler=self._sampler(seed))
        self._axes = {
            str(axis): optuna.distributions.IntDistribution(0, int(size) - 1)
            for axis, size in enumerate(self.grid.sizes)
        }

    def _sampler(self, seed: int) -> "optuna.samplers.BaseSampler":
        """Make the sampler; a subclass may use another of Optuna's."""
        return self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=_STARTUP)

    def _next(self) -> int:
        if len(self.times_us) < _STARTUP:
            return self._anywhere()
        for _ in range(_TRIES):
            trial = self._study.ask(self._axes)
            levels = np.array([trial.params[axis] for axis in self._axes], dtype=np.int64)
            row = self.grid.row_at(levels)
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            if row is not None and self.open[row]:
                return row
        differing = (self.grid.levels[rows := self._open_rows()] != levels).sum(axis=1)
        return int(rows[differing.argmin()])

    def _learn(self, row: int, time_us: float | None) -> None:
        """Add the result as a finished trial; a failure counts as the worst so far."""
        worked = self._worked()
        value = time_us if time_us is not None else (worked[-1][0] if worked else None)
        if value is None:
            return
        params = {axis: int(level) for axis, level in zip(self._axes, self.grid.levels[row], strict=True)}
        self._study.add_trial(self._trial(params, float(np.log(value))))

    def _trial(self, params: dict[str, int], value: float) -> "optuna.trial.FrozenTrial":
        return self._optuna.trial.create_trial(params=params, distributions=self._axes, value=value)
