"""k-means: exact nearest centroids, their update, and estimators with scikit-learn's conventions.

| name | what it computes |
|---|---|
| `KMeans` | Lloyd's algorithm; data in memory or in a file mapped to memory |
| `MiniBatchKMeans` | the same by random batches of rows |
| `assign(x, centroids)` | the nearest centroid of each row and the squared distance to it |
| `step(x, centroids)` | the same, and in the same pass the sums from which the next centroids follow |
"""

from ._estimator import KMeans
from ._minibatch import MiniBatchKMeans
from ._ops import KERNEL, assign, step

__all__ = ["KERNEL", "KMeans", "MiniBatchKMeans", "assign", "step"]
