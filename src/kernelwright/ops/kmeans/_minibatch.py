"""Mini-batch k-means: centroids move after each batch of random rows."""

from typing import Any, Self

import torch

from .._core import refuse
from ._estimator import Fit, KMeans, RandomState, one_pass
from ._ops import step
from ._rows import Rows, weights_of
from ._start import first_centroids

_SMOOTH = 0.7
"""Weight of earlier batches in the smoothed inertia."""


class MiniBatchKMeans(KMeans):
    """k-means by random batches of rows: each batch moves its centroids by their share of all rows seen so far.

    One pass over the data often comes near to what Lloyd's algorithm finds in many. `partial_fit` takes one batch of a
    stream.

    Source: Sculley, Web-Scale K-Means Clustering (2010).

    Args:
        n_clusters: How many clusters.
        batch_size: Rows of a batch.
        max_no_improvement: Stop after so many batches without a better inertia, smoothed; None: never.
        **others: As for `KMeans`; `max_iter` counts passes over the data, 100 by default.

    Example:
        >>> x = torch.cat([torch.randn(500, 2), torch.randn(500, 2) + 20])
        >>> model = MiniBatchKMeans(2, batch_size=100, random_state=0).fit(x)
        >>> sorted(round(float(v)) for v in model.cluster_centers_[:, 0])
        [0, 20]
    """

    def __init__(
        self, n_clusters: int = 8, *, batch_size: int = 1024, max_no_improvement: int | None = 10,
        init: Any = "k-means++", n_init: int | str = "auto", max_iter: int = 100, tol: float = 0.0,
        verbose: bool | int = False, random_state: RandomState = None,
    ) -> None:  # fmt: skip
        super().__init__(
            n_clusters, init=init, n_init=n_init, max_iter=max_iter, tol=tol, verbose=verbose,
            random_state=random_state,
        )  # fmt: skip
        self.batch_size, self.max_no_improvement = batch_size, max_no_improvement

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Move the centroids by one batch of rows; the first batch makes them."""
        rows = (
            self._checked(X) if not hasattr(self, "cluster_centers_") else self._fitted("partial_fit", X)[0]
        )
        weights = weights_of("MiniBatchKMeans.partial_fit", sample_weight, rows)
        if not hasattr(self, "cluster_centers_"):
            self._counts = torch.zeros(self.n_clusters, dtype=torch.float64, device=rows.device)
            self._centroids = first_centroids(
                "MiniBatchKMeans.partial_fit", rows, self.n_clusters, self.init, weights, self._generator()
            )
            self.n_iter_ = 0
        shift = self._centroids.mean(0).float()
        relative = self._centroids - shift.double()
        labels, inertia = _move(rows[slice(None)], relative, shift, weights, self._counts)
        self._centroids = relative + shift.double()
        self._keep(rows, Fit(self._centroids, labels, inertia, self.n_iter_ + 1))
        return self

    def _checked(self, X: Any) -> Rows:
        name, wait = type(self).__name__, self.max_no_improvement
        if type(self.batch_size) is not int or self.batch_size < 1:
            refuse(name, "batch_size", repr(self.batch_size), "a whole number of at least 1")
        if wait is not None and (not isinstance(wait, int) or wait < 1):
            refuse(name, "max_no_improvement", repr(wait), "a whole number of at least 1, or None")
        return super()._checked(X)

    def _lloyd(self, rows: Rows, weights: torch.Tensor | None, generator: torch.Generator) -> Fit:
        shift = rows.moments.mean.float()
        limit = self.tol * float(rows.moments.variance.mean())
        start = first_centroids("MiniBatchKMeans.fit", rows, self.n_clusters, self.init, weights, generator)
        centroids = start - shift.double()
        counts = torch.zeros(self.n_clusters, dtype=torch.float64, device=rows.device)
        batch = min(self.batch_size, rows.count)
        best, smooth, waited, steps = float("inf"), None, 0, 0
        for steps in range(1, self.max_iter * rows.count // batch + 1):
            chosen = torch.randint(rows.count, (batch,), generator=generator).sort().values.to(rows.device)
            before = centroids.clone()
            own = None if weights is None else weights[chosen]
            _, inertia = _move(rows[chosen], centroids, shift, own, counts)
            smooth = inertia if smooth is None else _SMOOTH * smooth + (1 - _SMOOTH) * inertia
            far = float((centroids - before).square().sum())
            self._say(steps, inertia, far)
            waited = 0 if smooth < best else waited + 1
            best = min(best, smooth)
            if (self.tol and far <= limit) or waited == self.max_no_improvement:
                break
        found = one_pass(rows, centroids, shift, weights, self._part_said)
        passes = -(-steps * batch // rows.count)
        return Fit(centroids + shift.double(), found.labels, found.inertia(weights), passes)


def _move(
    x: torch.Tensor,
    centroids: torch.Tensor,
    shift: torch.Tensor,
    weights: torch.Tensor | None,
    counts: torch.Tensor,
) -> tuple[torch.Tensor, float]:
    """Move centroids, in place, by one batch; return its labels and inertia."""
    labels, distances, sums, seen = step(x, centroids.float(), shift=shift, weights=weights)
    counts += seen
    centroids += torch.where(counts[:, None] > 0, sums.double() / counts.clamp(min=1e-30)[:, None], 0.0)
    return labels, float(
        distances.double().sum() if weights is None else distances.double() @ weights.double()
    )
