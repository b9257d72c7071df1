"""k-means against scikit-learn's Lloyd and faiss: the same start, the same number of iterations, in turn.

    python -m benchmarks.ops.kmeans [--threads 1] [--rounds 5]

With one thread the figures are ratios of processor seconds, else of wall seconds: medians over rounds, in each of which
every library fits once in one process. Every library ends at the same inertia, which is checked. A peer that is not
installed is said to be absent.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from kernelwright import ops

SIZES = (
    (200_000, 8, 2), (200_000, 16, 3), (100_000, 8, 32), (50_000, 10, 128), (100_000, 16, 64), (100_000, 64, 16),
    (100_000, 64, 32), (50_000, 256, 64), (20_000, 1024, 128), (20_000, 100, 784), (10_000, 1024, 512),
)  # fmt: skip
"""Rows, clusters, columns."""
ITERATIONS = 10
Fit = Callable[[], float]


def ours(x: np.ndarray, start: np.ndarray) -> Fit:
    """Return a fit by this library."""

    def fit() -> float:
        return ops.kmeans.KMeans(len(start), init=start, max_iter=ITERATIONS, tol=0).fit(x).inertia_

    return fit


def sklearn(x: np.ndarray, start: np.ndarray) -> Fit:
    """Return a fit by scikit-learn."""
    from sklearn.cluster import KMeans

    def fit() -> float:
        model = KMeans(len(start), init=start, n_init=1, max_iter=ITERATIONS, tol=0, algorithm="lloyd")
        return float(model.fit(x).inertia_)

    return fit


def faiss(x: np.ndarray, start: np.ndarray) -> Fit:
    """Return a fit by faiss."""
    import faiss

    def fit() -> float:
        model = faiss.Kmeans(
            x.shape[1], len(start), niter=ITERATIONS, max_points_per_centroid=1 << 30, min_points_per_centroid=1
        )  # fmt: skip
        model.train(x, init_centroids=start)
        return float(model.index.search(x, 1)[0].sum())

    return fit


PEERS = {name: peer for name, peer in (("sklearn", sklearn), ("faiss", faiss)) if find_spec(name)}


def main() -> int:
    """Print one row a size, then the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    clock = time.process_time if given.threads == 1 else time.perf_counter
    torch.set_num_threads(given.threads)
    for name in ("sklearn", "faiss"):
        if name not in PEERS:
            print(f"{name} is absent: pip install {'scikit-learn' if name == 'sklearn' else 'faiss-cpu'}")
    print("rows", "clusters", "columns", "ms", *PEERS, sep="\t")
    every: dict[str, list[float]] = {name: [] for name in PEERS}
    wrong = 0
    with warnings.catch_warnings(), threadpool_limits(given.threads):
        warnings.simplefilter("ignore")
        if "faiss" in PEERS:
            import faiss as library

            library.omp_set_num_threads(given.threads)
        for rows, clusters, columns in SIZES:
            x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
            fits = {name: make(x, x[:clusters].copy()) for name, make in {"ours": ours, **PEERS}.items()}
            inertia = {name: fit() for name, fit in fits.items()}
            wrong += any(abs(value / inertia["ours"] - 1) > 1e-3 for value in inertia.values())
            seconds: dict[str, list[float]] = {name: [] for name in fits}
            for _ in range(given.rounds):
                for name, fit in fits.items():
                    begun = clock()
                    fit()
                    seconds[name].append(clock() - begun)
            ratios = {
                n: statistics.median(t / o for t, o in zip(seconds[n], seconds["ours"], strict=True))
                for n in PEERS
            }
            for name, ratio in ratios.items():
                every[name].append(ratio)
            took = statistics.median(seconds["ours"]) * 1e3
            print(
                rows,
                clusters,
                columns,
                f"{took:.0f}",
                *(f"{r:.2f}" for r in ratios.values()),
                sep="\t",
                flush=True,
            )
    for name, found in every.items():
        print(f"{name}: geometric mean {statistics.geometric_mean(found):.2f}, least {min(found):.2f}")
    if wrong:
        print(f"{wrong} sizes end at another inertia", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
