"""k-means: nearest by the gap in distance, ties, special values, and the estimators' conventions."""

import io
import itertools
import math
import sys
from contextlib import redirect_stderr
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from kernelwright.errors import ArgumentError, InputError
from kernelwright.ops.kmeans import KMeans, MiniBatchKMeans, assign, reference, step
from kernelwright.ops.kmeans.cases import ASSIGN

SIZES = [(w["rows"], w["clusters"], w["columns"]) for w in ASSIGN.verified]


def drawn(rows, clusters, columns, dtype=torch.float32):
    return torch.randn(rows, columns).to(dtype), torch.randn(clusters, columns).to(dtype)


def gap(x, c, labels):
    """How much farther than the nearest centroid the chosen ones are, by the scale of rounding."""
    distances = torch.cdist(x.double(), c.double()).square()
    chosen = distances.gather(1, labels[:, None])[:, 0]
    scale = (x.double().square().sum(1) + c.double().square().sum(1).max()).clamp(min=1e-300)
    return float(((chosen - distances.amin(1)) / scale).max()) if len(x) else 0.0


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_nearest_is_nearest_at_every_size(size):
    x, c = drawn(*size)
    labels, distances = assign(x, c)
    assert gap(x, c, labels) < 4 * torch.finfo(torch.float32).eps
    exact = (x.double() - c.double()[labels]).square().sum(1)
    torch.testing.assert_close(distances.double(), exact, rtol=2e-6, atol=1e-12)


def test_a_gap_would_be_seen():
    x, c = drawn(100, 7, 5)
    labels = assign(x, c)[0]
    assert gap(x, c, (labels + 1) % 7) > 1e-3
    labels[-1] = (labels[-1] + 1) % 7
    assert gap(x, c, labels) > 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", SIZES[::5], ids=str)
def test_halves_are_computed_in_float32(size, dtype):
    x, c = drawn(*size, dtype)
    labels, distances = assign(x, c)
    assert distances.dtype is torch.float32
    assert gap(x, c, labels) < 4 * torch.finfo(torch.float32).eps
    assert torch.equal(labels, assign(x, c.float())[0])


@pytest.mark.parametrize("size", SIZES[::4], ids=str)
def test_a_step_sums_what_moves_the_centroids(size):
    x, c = drawn(*size)
    weights = torch.rand(len(x))
    labels, distances, sums, counts = step(x, c, weights=weights)
    for one, other in zip(assign(x, c), (labels, distances), strict=True):
        assert torch.equal(one, other)
    one_hot = torch.nn.functional.one_hot(labels, len(c)).double() * weights[:, None].double()
    torch.testing.assert_close(counts.double(), one_hot.sum(0), rtol=1e-5, atol=1e-6)
    means = (c.double() + sums.double() / counts.double().clamp(min=1e-9)[:, None])[counts > 0]
    expected = (one_hot.T @ x.double() / one_hot.sum(0).clamp(min=1e-9)[:, None])[counts > 0]
    torch.testing.assert_close(means, expected, rtol=1e-4, atol=1e-5)
    assert not sums[counts == 0].any()


def test_equally_near_centroids_go_to_the_first():
    for clusters in (2, 5, 16, 17, 32, 33, 100):
        for columns in (1, 8, 33):
            x = torch.randint(-3, 4, (50, columns)).float()
            c = torch.randint(-3, 4, (clusters, columns)).float()
            c[clusters // 2 :] = c[: clusters - clusters // 2].clone()
            exact = (
                torch.cdist(x.double(), c.double(), compute_mode="donot_use_mm_for_euclid_dist")
                .square()
                .round()
            )
            first = (exact == exact.amin(1, keepdim=True)).int().argmax(1)
            assert torch.equal(assign(x, c)[0], first)


@pytest.mark.parametrize("clusters", [4, 40])
@pytest.mark.parametrize("columns", [3, 40])
def test_special_values(clusters, columns):
    x, c = drawn(20, clusters, columns)
    x[3, 0], x[4, 1], x[5] = math.nan, math.inf, 0.0
    x[6] = torch.full((columns,), 1e-40)
    labels, distances = assign(x, c)
    plain = [i for i in range(20) if i not in (3, 4)]
    assert torch.equal(labels[plain], assign(x[plain], c)[0])
    assert labels[3] == 0
    assert math.isnan(distances[3])
    assert not distances[4].isfinite()
    assert bool((labels >= 0).all() & (labels < clusters).all())


def test_any_strides_are_read():
    x, c = drawn(64, 20, 24)
    expected = assign(x, c)
    wide = torch.zeros(64, 48)
    wide[:, ::2] = x
    others = (x.T.contiguous().T, wide[:, ::2], torch.cat([x, x], 1)[:, 24:], x.flip(0).flip(0))
    for other in others:
        assert all(
            torch.equal(a, b) for a, b in zip(assign(other, c.T.contiguous().T), expected, strict=True)
        )
    assert torch.equal(assign(x[:1].expand(64, 24), c)[0], expected[0][:1].expand(64))


def test_nothing_is_read_or_written_that_is_not_there():
    labels, distances = assign(torch.empty(0, 3), torch.ones(2, 3))
    assert labels.shape == distances.shape == (0,)
    labels, distances, sums, counts = step(torch.empty(0, 3), torch.ones(2, 3))
    assert not sums.any()
    assert not counts.any()
    assert assign(torch.empty(4, 0), torch.empty(2, 0))[1].tolist() == [0.0] * 4


def test_a_shift_keeps_what_lies_far_from_zero():
    x, c = drawn(1000, 30, 12)
    far = (x.double() + 3e4).float()
    mean = far.double().mean(0)
    labels, distances = assign(far, c, shift=mean.float())
    exact = torch.cdist(far.double() - mean.float().double(), c.double()).square()
    assert torch.equal(labels, exact.argmin(1))
    torch.testing.assert_close(distances.double(), exact.amin(1), rtol=1e-5, atol=1e-6)
    other = reference.assign(far.double(), c.double(), mean.float())
    assert torch.equal(other[0], labels)


@pytest.mark.filterwarnings("ignore:kernelwright kmeans_step runs its reference")
def test_the_reference_holds_for_float64():
    x, c = drawn(50, 9, 4, torch.float64)
    labels, distances, _, counts = step(x, c)
    exact = torch.cdist(x, c).square()
    assert torch.equal(labels, exact.argmin(1))
    torch.testing.assert_close(distances, exact.amin(1))
    torch.testing.assert_close(counts, labels.bincount(minlength=9).double())


def test_a_step_is_the_same_every_time():
    x, c = drawn(40_000, 64, 32)
    torch.set_num_threads(2)
    first = step(x, c)
    for _ in range(5):
        assert all(torch.equal(a, b) for a, b in zip(first, step(x, c), strict=True))


# Estimators -----------------------------------------------------------------------------------------------


@pytest.fixture
def blobs():
    centers = torch.tensor([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    truth = torch.arange(400) % 4
    return centers[truth] + torch.randn(400, 2), truth


def partition(labels):
    labels = torch.as_tensor(labels)
    return labels[:, None] == labels[None, :]


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
def test_planted_clusters_are_found(blobs, kind):
    x, truth = blobs
    model = kind(4, random_state=0).fit(x)
    assert torch.equal(partition(model.labels_), partition(truth))
    assert model.cluster_centers_.shape == (4, 2)
    assert torch.equal(model.predict(x), model.labels_)
    distances = model.transform(x)
    assert torch.equal(distances.argmin(1), model.labels_)
    assert model.inertia_ == pytest.approx(float(distances.amin(1).square().sum()), rel=1e-5)
    assert model.score(x) == pytest.approx(-model.inertia_, rel=1e-6)


def test_it_ends_where_a_plain_lloyd_ends():
    x = torch.randn(700, 5) + 50
    c = x[:9].double()
    for _ in range(200):
        labels = torch.cdist(x.double(), c).argmin(1)
        moved = torch.stack([x[labels == k].double().mean(0) for k in range(9)])
        done = torch.equal(moved, c)
        c = moved
        if done:
            break
    model = KMeans(9, init=x[:9], tol=0).fit(x)
    torch.testing.assert_close(model.cluster_centers_.double(), c, rtol=1e-6, atol=1e-6)
    assert torch.equal(model.labels_, labels)


def test_inertia_never_grows():
    said = io.StringIO()
    with redirect_stderr(said):
        KMeans(20, init="random", random_state=1, tol=0, verbose=True, n_init=1).fit(torch.randn(2000, 8))
    inertia = [float(line.split("inertia ")[1].split(",")[0]) for line in said.getvalue().splitlines()]
    assert len(inertia) > 3
    assert all(b <= a for a, b in itertools.pairwise(inertia))


def test_a_seed_decides_and_more_starts_are_no_worse():
    x = torch.randn(500, 6)
    one, same = (KMeans(12, random_state=3).fit(x) for _ in range(2))
    assert torch.equal(one.cluster_centers_, same.cluster_centers_)
    assert not torch.equal(one.cluster_centers_, KMeans(12, random_state=4).fit(x).cluster_centers_)
    assert KMeans(12, random_state=3, n_init=5).fit(x).inertia_ <= one.inertia_


def test_plus_plus_beats_random_starts(blobs):
    x, _ = blobs

    def inertia(init):
        return [KMeans(4, init=init, n_init=1, max_iter=1, random_state=s).fit(x).inertia_ for s in range(10)]

    assert np.mean(inertia("k-means++")) < np.mean(inertia("random")) / 2


def test_weights_count_as_repeated_rows():
    x = torch.randn(60, 3)
    weights = torch.randint(0, 4, (60,))
    start = x[weights > 0][:5]
    weighted = KMeans(5, init=start, tol=0).fit(x, sample_weight=weights)
    repeated = KMeans(5, init=start, tol=0).fit(x.repeat_interleave(weights, 0))
    torch.testing.assert_close(weighted.cluster_centers_, repeated.cluster_centers_, rtol=1e-5, atol=1e-5)
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-5)


def test_an_empty_cluster_moves_to_the_farthest_row():
    x = torch.tensor([[0.0], [0.1], [0.2], [9.0]])
    model = KMeans(3, init=[[0.1], [500.0], [-500.0]], max_iter=10).fit(x)
    assert len(set(model.labels_.tolist())) == 3
    assert model.inertia_ == pytest.approx(0.005, abs=1e-6)


def test_equal_rows_are_told_of():
    with pytest.warns(UserWarning, match="1 different clusters were found, and n_clusters is 3"):
        KMeans(3, random_state=0).fit(torch.ones(10, 2))


def test_arrays_and_files_give_what_tensors_give(tmp_path, monkeypatch, capsys):
    from kernelwright.ops.kmeans import _rows

    x = torch.randn(3000, 7)
    model = KMeans(6, init=x[:6], tol=0).fit(x)
    mapped = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=(3000, 7))
    mapped[:] = x.numpy()
    mapped = np.memmap(tmp_path / "rows", dtype=np.float32, mode="r", shape=(3000, 7))
    monkeypatch.setattr(_rows, "_PART_BYTES", 7 * 4 * 500)
    assert len(list(_rows.Rows("f", mapped).parts())) == 6
    for other in (x.numpy(), x.double().numpy(), mapped, np.asfortranarray(x.numpy())):
        found = KMeans(6, init=x[:6].numpy(), tol=0).fit(other)
        assert isinstance(found.labels_, np.ndarray)
        assert (found.labels_ == model.labels_.numpy()).all()
        np.testing.assert_allclose(found.cluster_centers_, model.cluster_centers_, rtol=1e-5, atol=1e-5)
        assert (found.predict(other) == found.labels_).all()
    capsys.readouterr()
    KMeans(6, random_state=0, max_iter=1, verbose=True).fit(mapped)
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["KMeans: 17% of the rows", "KMeans: 33% of the rows"] and "iteration 1" in told[5]


def test_a_stream_is_learnt_batch_by_batch(blobs):
    x, truth = blobs
    model = MiniBatchKMeans(4, random_state=0)
    for first in range(0, 400, 40):
        model.partial_fit(x[first : first + 40])
    assert torch.equal(partition(model.predict(x)), partition(truth))


def test_scikit_learn_is_told_what_it_asks_of_an_estimator(monkeypatch):
    names = ("Tags", "TargetTags", "TransformerTags", "InputTags")
    monkeypatch.setitem(sys.modules, "sklearn", ModuleType("sklearn"))
    monkeypatch.setitem(
        sys.modules, "sklearn.utils", SimpleNamespace(**dict.fromkeys(names, SimpleNamespace))
    )
    tags = KMeans(2).__sklearn_tags__()
    assert tags.estimator_type == "clusterer" and not tags.target_tags.required


def test_parameters_are_those_of_a_scikit_learn_estimator():
    model = MiniBatchKMeans(5, batch_size=7, tol=0.1)
    assert MiniBatchKMeans(**model.get_params()).get_params() == model.get_params()
    assert model.set_params(n_clusters=2).n_clusters == 2
    with pytest.raises(ArgumentError, match="'clusters'; expected one of"):
        model.set_params(clusters=3)


X = torch.randn(10, 2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: KMeans(0).fit(X), "n_clusters is 0; expected a whole number of at least 1"),
        (lambda: KMeans(11).fit(X), "X is of 10 rows; expected at least n_clusters=11"),
        (lambda: KMeans(2, init="best").fit(X), "init is 'best'; expected 'k-means"),
        (lambda: KMeans(2, init=X[:3]).fit(X), r"init is of shape \(3, 2\); expected \(2, 2\)"),
        (lambda: KMeans(2, n_init=0).fit(X), "n_init is 0"),
        (lambda: KMeans(2).fit(X[0]), r"X is of shape \(2,\); expected a matrix"),
        (lambda: KMeans(2).fit(np.array([["a"]])), "X is an array of <U1; expected numbers"),
        (lambda: KMeans(2).fit(torch.tensor([[1.0], [math.nan]])), "X is not finite in row 1"),
        (
            lambda: KMeans(2).fit(X, sample_weight=[1.0]),
            r"sample_weight is of shape \(1,\); expected \(10,\)",
        ),
        (lambda: KMeans(2).fit(X, sample_weight=-torch.ones(10)), "sample_weight is negative"),
        (lambda: KMeans(2).predict(X), "is not fitted; call fit first"),
        (lambda: KMeans(2).fit(X).predict(X[:, :1]), "X is of 1 columns; expected 2, as in fit"),
    ],
)
def test_wrong_input_is_said_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()
