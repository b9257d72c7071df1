"""Lloyd's algorithm as an estimator with scikit-learn's conventions."""

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch

from ...errors import InputError
from .._core import refuse
from ._ops import assign, step
from ._rows import Rows, weights_of
from ._start import first_centroids

RandomState = int | torch.Generator | None
"""A seed, a generator, or None for another seed every time."""


@dataclass
class Pass:
    """What one pass over all rows gives."""

    labels: torch.Tensor
    distances: torch.Tensor
    sums: torch.Tensor
    counts: torch.Tensor

    def inertia(self, weights: torch.Tensor | None) -> float:
        """Sum of squared distances, weighted."""
        distances = self.distances.double()
        return float(distances.sum() if weights is None else distances @ weights.double())


@dataclass
class Fit:
    """The outcome of one start."""

    centroids: torch.Tensor
    labels: torch.Tensor
    inertia: float
    iterations: int


class KMeans:
    """Exact k-means by Lloyd's algorithm.

    Conventions are scikit-learn's: parameters, attributes with a trailing underscore, empty clusters that move to the
    farthest rows, and the stop at equal labels or a small shift. Data is a tensor, an array or a `numpy.memmap`, which
    is read part by part, so that it may be larger than memory; results are tensors where the data is one, else arrays.
    All is computed in float32 on differences from the mean, with centroids kept in float64. It fits pipelines and
    `sklearn.base.clone`.

    Args:
        n_clusters: How many clusters.
        init: `k-means++`, `random`, or (n_clusters, columns) centroids.
        n_init: How many starts, of which the best counts; `auto`: 10 for `random`, else 1.
        max_iter: Most iterations of a start.
        tol: Stop once the centroids move by less than this share of the mean variance of the columns, squared.
        verbose: Print a line on stderr at each iteration, and of a file at each part of it.
        random_state: A seed, a `torch.Generator`, or None for another start every time.

    Attributes:
        cluster_centers_: (n_clusters, columns) float32.
        labels_: (rows,) int64.
        inertia_: Sum of squared distances to the nearest centroid, weighted.
        n_iter_: Iterations of the start that counts.
        n_features_in_: Columns.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
        >>> model = KMeans(2, random_state=0).fit(x)
        >>> sorted(model.cluster_centers_.flatten().tolist()), model.inertia_
        ([0.5, 10.5], 1.0)
    """

    cluster_centers_: Any
    labels_: Any
    inertia_: float
    n_iter_: int
    n_features_in_: int

    def __init__(
        self, n_clusters: int = 8, *, init: Any = "k-means++", n_init: int | str = "auto", max_iter: int = 300,
        tol: float = 1e-4, verbose: bool | int = False, random_state: RandomState = None,
    ) -> None:  # fmt: skip
        self.n_clusters, self.init, self.n_init, self.max_iter = n_clusters, init, n_init, max_iter
        self.tol, self.verbose, self.random_state = tol, verbose, random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002
        """Find the centroids of rows X, (rows, columns).

        Raises:
            ArgumentError: X, the weights or a parameter cannot be used.
        """
        rows = self._checked(X)
        weights = weights_of("KMeans.fit", sample_weight, rows)
        generator, starts = self._generator(), 1
        if isinstance(self.init, str):
            starts = (10 if self.init == "random" else 1) if self.n_init == "auto" else int(self.n_init)
        fits = (self._lloyd(rows, weights, generator) for _ in range(starts))
        best = min(fits, key=lambda fit: fit.inertia)
        found = int(best.labels.bincount(minlength=self.n_clusters).count_nonzero())
        if found < self.n_clusters:
            warnings.warn(
                f"KMeans.fit: {found} different clusters were found, and n_clusters is {self.n_clusters}; "
                "X may have equal rows",
                stacklevel=2,
            )
        self._keep(rows, best)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:  # noqa: ARG002
        """Fit, and return the label of each row."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:  # noqa: ARG002
        """Fit, and return the distance of each row to each centroid."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def predict(self, X: Any) -> Any:
        """Return the nearest centroid of each row, (rows,) int64."""
        rows, centroids = self._fitted("KMeans.predict", X)
        return rows.like(_nearest(rows, centroids)[0])

    def transform(self, X: Any) -> Any:
        """Return the distance of each row to each centroid, (rows, n_clusters) float32."""
        rows, centroids = self._fitted("KMeans.transform", X)
        found = torch.empty(rows.count, len(centroids), device=rows.device)
        for first, part in rows.parts():
            wide = centroids.to(part.device)
            found[first : first + len(part)] = torch.cdist(
                part.float(), wide, compute_mode="donot_use_mm_for_euclid_dist"
            )
        return rows.like(found)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: ARG002
        """Return the negative inertia of rows X."""
        rows, centroids = self._fitted("KMeans.score", X)
        weights = weights_of("KMeans.score", sample_weight, rows)
        distances = _nearest(rows, centroids)[1].double()
        return -float(distances.sum() if weights is None else distances @ weights.double())

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the parameters, by name."""
        names = [n for c in type(self).__mro__[:-1] for n in inspect.signature(c).parameters]
        return {name: getattr(self, name) for name in dict.fromkeys(names)}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name.

        Raises:
            ArgumentError: there is no parameter of a name.
        """
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                refuse(type(self).__name__, "parameter", repr(name), f"one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of an estimator in a pipeline: its kind, and what it takes."""
        utils = importlib.import_module("sklearn.utils")  # whoever asks has it
        return utils.Tags(
            estimator_type="clusterer", target_tags=utils.TargetTags(required=False),
            transformer_tags=utils.TransformerTags(preserves_dtype=[]), input_tags=utils.InputTags(),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self.get_params().items())})"

    def _lloyd(self, rows: Rows, weights: torch.Tensor | None, generator: torch.Generator) -> Fit:
        mean = rows.moments.mean
        limit = self.tol * float(rows.moments.variance.mean()) if self.tol else 0.0
        shift = mean.float()
        start = first_centroids("KMeans.fit", rows, self.n_clusters, self.init, weights, generator)
        centroids = start - shift.double()
        before, iteration, same = None, 0, False
        for iteration in range(1, self.max_iter + 1):
            found = one_pass(rows, centroids, shift, weights, self._part_said)
            moved = _moved(rows, centroids, shift, weights, found)
            far = float((moved - centroids).square().sum())
            centroids = moved
            self._say(iteration, found.inertia(weights), far)
            same = before is not None and torch.equal(found.labels, before)
            before = found.labels
            if same or far <= limit:
                break
        if not same:
            found = one_pass(rows, centroids, shift, weights, self._part_said)
        return Fit(centroids + shift.double(), found.labels, found.inertia(weights), iteration)

    def _keep(self, rows: Rows, best: Fit) -> None:
        self.cluster_centers_ = rows.like(best.centroids.float())
        self.labels_, self.inertia_ = rows.like(best.labels), best.inertia
        self.n_iter_, self.n_features_in_ = best.iterations, rows.columns

    def _checked(self, X: Any) -> Rows:
        name = type(self).__name__
        for parameter in ("n_clusters", "max_iter"):
            value = getattr(self, parameter)
            if type(value) is not int or value < 1:
                refuse(name, parameter, repr(value), "a whole number of at least 1")
        if self.n_init != "auto" and not (type(self.n_init) is int and self.n_init >= 1):
            refuse(name, "n_init", repr(self.n_init), "'auto' or a whole number of at least 1")
        if isinstance(self.tol, bool) or not isinstance(self.tol, int | float) or not self.tol >= 0:
            refuse(name, "tol", repr(self.tol), "a number from 0")
        if not isinstance(self.random_state, int | torch.Generator | None) or (
            isinstance(self.random_state, int) and not 0 <= self.random_state < 1 << 63
        ):
            wanted = "a whole number from 0 of 63 bits, a torch.Generator or None"
            refuse(name, "random_state", repr(self.random_state), wanted)
        rows = Rows(f"{name}.fit", X)
        if rows.count < self.n_clusters:
            refuse(f"{name}.fit", "X", f"of {rows.count} rows", f"at least n_clusters={self.n_clusters}")
        if not rows.columns:
            refuse(f"{name}.fit", "X", "of no columns", "at least one")
        _ = rows.moments  # refuses what is not finite
        return rows

    def _generator(self) -> torch.Generator:
        if isinstance(self.random_state, torch.Generator):
            return self.random_state
        generator = torch.Generator()
        if self.random_state is None:
            generator.seed()
        else:
            generator.manual_seed(int(self.random_state))
        return generator

    def _fitted(self, op: str, X: Any) -> tuple[Rows, torch.Tensor]:
        if not hasattr(self, "cluster_centers_"):
            raise InputError(f"{op}: this {type(self).__name__} is not fitted; call fit first")
        rows = Rows(op, X)
        centroids = torch.as_tensor(self.cluster_centers_).to(rows.device)
        if rows.columns != centroids.shape[1]:
            refuse(op, "X", f"of {rows.columns} columns", f"{centroids.shape[1]}, as in fit")
        return rows, centroids

    def _say(self, iteration: int, inertia: float, far: float) -> None:
        if self.verbose:
            line = f"{type(self).__name__}: iteration {iteration}, inertia {inertia:.6g}, moved {far:.3g}"
            print(line, file=sys.stderr, flush=True)

    def _part_said(self, done: int, rows: Rows) -> None:
        if self.verbose and done < rows.count:
            print(f"{type(self).__name__}: {done / rows.count:.0%} of the rows", file=sys.stderr, flush=True)


def one_pass(
    rows: Rows,
    centroids: torch.Tensor,
    shift: torch.Tensor,
    weights: torch.Tensor | None,
    told: Callable[[int, Rows], None],
) -> Pass:
    """Assign all rows to centroids that are relative to `shift`, part by part; `told` hears how many are done."""
    found = []
    for first, part in rows.parts():
        own = None if weights is None else weights[first : first + len(part)]
        found.append(step(part, centroids.float(), shift=shift, weights=own))
        told(first + len(part), rows)
    if len(found) == 1:
        labels, distances, sums, counts = found[0]
        return Pass(labels, distances, sums.double(), counts.double())
    labels, distances = (torch.cat([one[i] for one in found]) for i in (0, 1))
    sums, counts = (torch.stack([one[i] for one in found]).double().sum(0) for i in (2, 3))
    return Pass(labels, distances, sums, counts)


def _moved(
    rows: Rows, centroids: torch.Tensor, shift: torch.Tensor, weights: torch.Tensor | None, found: Pass
) -> torch.Tensor:
    """Return the next centroids: the means; of empty clusters the farthest rows, which leave their own."""
    empty = (found.counts == 0).nonzero()[:, 0]
    if len(empty):
        distances = found.distances if weights is None else found.distances * (weights > 0)
        far = distances.topk(min(len(empty), rows.count)).indices
        far = far[distances[far] > 0]
        empty = empty[: len(far)]
        x = rows[far].double() - shift.double()
        weight = (
            torch.ones(len(far), dtype=torch.float64, device=x.device)
            if weights is None
            else weights[far].double()
        )
        left = found.labels[far]
        found.sums.index_add_(0, left, (x - centroids[left]) * -weight[:, None])
        found.counts.index_add_(0, left, -weight)
        found.sums[empty], found.counts[empty] = (x - centroids[empty]) * weight[:, None], weight
    counts = found.counts[:, None]
    return centroids + torch.where(
        counts > 0, found.sums / counts.clamp(min=torch.finfo(counts.dtype).tiny), 0.0
    )


def _nearest(rows: Rows, centroids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    shift = centroids.double().mean(0).float()
    relative = centroids.double() - shift.double()
    found = [assign(part, relative.float(), shift=shift) for _, part in rows.parts()]
    if not found:
        return centroids.new_empty(0, dtype=torch.int64), centroids.new_empty(0)
    labels, distances = (torch.cat(of) if len(of) > 1 else of[0] for of in zip(*found, strict=True))
    return labels, distances
