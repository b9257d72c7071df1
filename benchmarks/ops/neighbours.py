"""Nearest neighbours against scikit-learn's brute force, faiss's flat index, and torch's `topk` of `cdist`.

python -m benchmarks.ops.neighbours [--only sqeuclidean] [--threads 1] [--rounds 7] [--out rows.jsonl]

Peers are given points ahead, in their own index; ours looks at them in every call. A peer that is not installed is left
out.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec

import torch

from benchmarks.ops._turns import Call, Case, main
from kernelwright.ops import neighbours

SIZES = (
    (1, 100_000, 128, 10), (1, 20_000, 768, 10), (16, 100_000, 128, 10), (256, 100_000, 128, 10),
    (1000, 20_000, 32, 10), (2000, 20_000, 3, 8), (1000, 50_000, 64, 100), (1000, 10_000, 784, 5),
    (10_000, 10_000, 16, 15), (200, 200_000, 96, 1), (500, 50_000, 128, 128),
)  # fmt: skip
"""Rows, points, columns, neighbours."""
T = torch.Tensor


def plain(x: T, points: T, count: int, metric: str) -> T:
    """Return the values by torch's own operations."""
    if metric == "sqeuclidean":
        return torch.cdist(x, points).topk(count, 1, largest=False).values.square()
    return (x @ points.T).topk(count, 1).values


def sklearn(x: T, points: T, count: int, metric: str) -> Call | None:
    """Return the call of scikit-learn; None for inner products, which it has not."""
    from sklearn.neighbors import NearestNeighbors

    if metric != "sqeuclidean":
        return None
    model = NearestNeighbors(n_neighbors=count, algorithm="brute").fit(points.numpy())
    return lambda: torch.from_numpy(model.kneighbors(x.numpy())[0]).square()


def faiss(x: T, points: T, count: int, metric: str) -> Call:
    """Return the call of faiss."""
    import faiss as library

    library.omp_set_num_threads(torch.get_num_threads())
    index = (library.IndexFlatL2 if metric == "sqeuclidean" else library.IndexFlatIP)(points.shape[1])
    index.add(points.numpy())
    return lambda: torch.from_numpy(index.search(x.numpy(), count)[0])


PEERS: dict[str, Callable[..., Call | None]] = {
    name: peer for name, peer in (("sklearn", sklearn), ("faiss", faiss)) if find_spec(name)
}


def cases(only: str) -> Iterator[Case]:
    """Make the cases whose metric has a word in it."""
    torch.manual_seed(0)
    for metric in ("sqeuclidean", "inner_product"):
        if only not in metric:
            continue
        for rows, many, columns, count in SIZES:
            x, points = torch.randn(rows, columns), torch.randn(many, columns)
            calls: dict[str, Call] = {
                "kernel": partial(neighbours.nearest, x, points, count, metric=metric),
                "torch": partial(plain, x, points, count, metric),
            }
            for name, peer in PEERS.items():
                call = peer(x, points, count, metric)
                if call is not None:
                    calls[name] = call
            yield Case(metric, f"{rows}x{many}x{columns} of {count}", "float32", calls)


if __name__ == "__main__":
    with torch.no_grad():
        main(cases, "benchmarks.ops.neighbours")
