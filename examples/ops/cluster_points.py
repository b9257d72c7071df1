"""Cluster a million points that lie in a file, which is read part by part and may be larger than memory.

Mini-batches find the centroids in a pass or two, and a few iterations of Lloyd's algorithm over all rows finish them.
Run `python examples/ops/cluster_points.py`; `--rows 50_000_000` makes a file of 6 GB.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from kernelwright.ops import kmeans

_PART = 100_000


def points(path: Path, rows: int, columns: int, clusters: int, seed: int = 0) -> np.memmap:
    """Write rows around random centres to a file, part by part, and map it to memory."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(clusters, columns)) * 4
    made = np.memmap(path, np.float32, "w+", shape=(rows, columns))
    for first in range(0, rows, _PART):
        part = made[first : first + _PART]
        part[:] = centres[draw.integers(clusters, size=len(part))] + draw.normal(size=part.shape)
    made.flush()
    return np.memmap(path, np.float32, "r", shape=(rows, columns))


def cluster(x: np.memmap, clusters: int, verbose: bool = True) -> kmeans.KMeans:
    """Return the fitted estimator."""
    rough = kmeans.MiniBatchKMeans(clusters, batch_size=16384, random_state=0, verbose=verbose).fit(x)
    start = rough.cluster_centers_
    return kmeans.KMeans(clusters, init=start, max_iter=10, random_state=0, verbose=verbose).fit(x)


def main(arguments: list[str] | None = None) -> float:
    """Make the points, cluster them, and return the inertia of a row and column: 1 if every centre was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--clusters", type=int, default=64)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        x = points(Path(folder) / "points.bin", given.rows, given.columns, given.clusters)
        begun = time.perf_counter()
        model = cluster(x, given.clusters)
        each = model.inertia_ / x.size
        print(f"{given.rows:,} rows in {time.perf_counter() - begun:.1f} s, inertia {each:.3f} a number")
    return each


if __name__ == "__main__":
    main()
