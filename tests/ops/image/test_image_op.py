"""Resized images against torch's in float64, boxes against one by one: edges, steps, ties, gradients, errors."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelwright import ops
from kernelwright.errors import InputError
from kernelwright.ops import image
from kernelwright.ops.image import reference
from kernelwright.records import TensorSpec, Workload
from kernelwright.tasks.capture import record_function

WAYS = [("nearest", False), ("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True)]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def torchs(x, size, mode, antialias):
    more = {} if mode == "nearest" else {"align_corners": False, "antialias": antialias}
    return F.interpolate(x, size, mode=mode, **more)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("mode", "antialias"), WAYS)
@pytest.mark.parametrize(
    ("size", "other"),
    [
        ((7, 9), (14, 18)), ((20, 33), (10, 11)), ((1, 1), (3, 40)), ((12, 100), (31, 7)), ((30, 20), (11, 47)),
        ((5, 16), (5, 16)),
    ],
)  # fmt: skip
def test_images_are_torchs_in_float64(size, other, mode, antialias, dtype):
    x = torch.randn(2, 3, *size).to(dtype)
    (ran,) = ops.watch(lambda: image.resize(x, other, mode=mode, antialias=antialias))
    assert ran.serves == "kernel"
    out, exact = (
        image.resize(x, other, mode=mode, antialias=antialias),
        torchs(x.double(), other, mode, antialias),
    )
    assert out.shape == exact.shape
    assert (out.double() - exact).abs().max() <= {torch.float32: 3e-6, torch.bfloat16: 2.0**-7}[dtype] * 4
    if mode == "nearest":
        assert torch.equal(out, torchs(x, other, mode, antialias))


def test_what_does_not_count_may_be_infinite():
    x = torch.tensor([[[[1.0, torch.inf, 2.0]]]])
    for antialias in (False, True):
        assert image.resize(x, (1, 3), mode="bicubic", antialias=antialias).tolist() == x.tolist()
        assert image.resize(x, (1, 3), antialias=antialias).tolist() == x.tolist()


def test_gradients_are_those_of_float64_and_have_gradients():
    x = torch.randn(1, 2, 5, 6)
    for mode, antialias in WAYS:
        found = []
        for dtype, form in ((torch.float32, image.resize), (torch.float64, None)):
            leaf = x.to(dtype, copy=True).requires_grad_()
            how = (leaf, (4, 9))
            out = form(*how, mode=mode, antialias=antialias) if form else torchs(*how, mode, antialias)
            found.append(torch.autograd.grad(out.square().sum(), leaf)[0].double())
        torch.testing.assert_close(*found, rtol=1e-5, atol=1e-5)
    leaf = torch.randn(1, 1, 3, 4, dtype=torch.float64, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="runs its reference: x is of torch.float64"):
        assert torch.autograd.gradgradcheck(lambda t: image.resize(t * t, 5), [leaf])


def kept_by_hand(boxes, scores, threshold, classes):
    """One pair after another, in whole numbers."""
    found = []
    for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
        a = boxes[i]
        for j in found:
            b = boxes[j]
            shared = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
            both = sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)) - shared
            if classes[i] == classes[j] and shared > threshold * both:
                break
        else:
            found.append(i)
    return found


@pytest.mark.parametrize("threshold", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("kinds", [1, 3])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 33, 150])
def test_boxes_are_those_that_one_by_one_are_kept(n, kinds, threshold):
    low = torch.randint(0, 30, (n, 2))
    boxes, scores = torch.cat([low, low + torch.randint(0, 20, (n, 2))], 1), torch.randint(0, 50, (n,)) / 50
    classes = torch.randint(kinds, (n,))
    exact = kept_by_hand(boxes.tolist(), scores.tolist(), threshold, classes.tolist())
    assert image.nms(boxes.float(), scores, threshold, classes=classes).tolist() == exact
    assert torch.equal(
        _suppress(boxes.float(), threshold, classes), reference.suppress(boxes.double(), threshold, classes)
    )
    if kinds == 1:
        assert image.nms(boxes.float(), scores, threshold).tolist() == exact


def _suppress(*arguments):
    return torch.ops.kernelwright.image_suppress(*arguments)


@pytest.mark.parametrize("rows", [1, 7, 40])
def test_boxes_in_blocks_are_kept_as_all_at_once(rows, monkeypatch):
    low = torch.randint(0, 30, (40, 2))
    boxes, classes = (
        torch.cat([low, low + torch.randint(1, 20, (40, 2))], 1).double(),
        torch.randint(2, (40,)),
    )
    whole = reference.suppress(boxes, 0.25, classes)
    assert not whole.all()
    monkeypatch.setattr(reference, "ROWS", rows)
    assert torch.equal(reference.suppress(boxes, 0.25, classes), whole)


def test_the_reference_of_boxes_has_few_operations_for_each():
    """A baseline is torch.compile of it, which takes minutes for thousands."""
    boxes = TensorSpec(name="boxes", shape=(64, 4), dtype="float32")
    graph = record_function(reference.suppress, Workload(name="w", arguments=(boxes,)), [torch.rand(64, 4)])
    assert len(graph.ops) < 64 * 5


def test_a_box_that_is_dropped_drops_none():
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 6], [0, 4, 10, 6]])
    assert image.nms(boxes, torch.tensor([3.0, 2.0, 1.0]), 0.3).tolist() == [0, 2]


@pytest.mark.filterwarnings("ignore:.*runs its reference:RuntimeWarning")
def test_classes_beyond_32_bits_are_told_apart():
    boxes = torch.tensor([[0.0, 0, 1, 1]]).expand(3, 4).contiguous()
    classes = torch.tensor([1, 1 + (1 << 32), 1])
    assert image.nms(boxes, torch.tensor([3.0, 2.0, 1.0]), classes=classes).tolist() == [0, 1]


def test_every_op_is_registered_as_torch_asks():
    x, boxes = torch.randn(1, 2, 5, 6), torch.rand(7, 4)
    calls = {"image_resize": (x, 7, 3, 1, True), "image_suppress": (boxes, 0.5, None)}
    assert set(calls) == {op.name for op in ops.ops_of(image)} == set(image.KERNEL.symbols)
    for name, arguments in calls.items():
        torch.library.opcheck(getattr(torch.ops.kernelwright, name).default, arguments)


X, B, S = torch.ones(1, 2, 4, 5), torch.ones(3, 4), torch.ones(3)
WRONG = [
    (
        lambda: image.resize(X[0], 3),
        r"x is of shape \(2, 4, 5\).*expected \(items, channels, height, width\)",
    ),
    (lambda: image.resize(X[..., :0], 3), "x is .*of one pixel at least"),
    (lambda: image.resize(X, 0), r"size is \(0, 0\); expected two numbers of at least 1"),
    (lambda: image.resize(X, 2.5), r"size is 2\.5; expected a whole number or a list of whole numbers"),
    (lambda: image.resize(X, (3, 4, 5)), r"size is \(3, 4, 5\); expected a whole number or two"),
    (lambda: image.resize(X, 3, mode="area"), "mode is 'area'; expected 'nearest', 'bilinear' or 'bicubic'"),
    (lambda: image.resize(X, 3, mode="nearest", antialias=True), "antialias is True; expected False"),
    (lambda: image.resize(X, 3, antialias=1), "antialias is 1; expected True or False"),
    (lambda: image.resize(X.long(), 3), "x is of torch.int64"),
    (lambda: image.nms(B[:, :3], S), r"boxes is of shape \(3, 3\).*expected \(boxes, 4\)"),
    (lambda: image.nms(B, S[:2]), r"scores is of shape \(2,\).*expected \(3,\)"),
    (lambda: image.nms(B, S, 1.5), r"threshold is 1\.5; expected a number from 0 to 1"),
    (lambda: image.nms(B, S, "x"), "threshold is 'x'; expected a number"),
    (lambda: image.nms(B, S, classes=S), r"classes is .*float32; expected \(3,\), torch.int64"),
    (lambda: image.nms(B, S, classes=[1]), "classes is a list; expected a tensor or None"),
    (lambda: image.nms([1], S), "boxes is a list; expected a tensor"),
]


@pytest.mark.parametrize(("call", "says"), WRONG)
def test_a_wrong_argument_is_named_in_one_sentence(call, says):
    with pytest.raises(InputError, match=says) as error:
        call()
    assert "\n" not in str(error.value)


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(*[st.integers(0, 5)] * 4), st.integers(-1, 9) | st.tuples(st.integers(-1, 9), st.integers(0, 40)),
    st.sampled_from([*WAYS, ("nearest", True), ("area", False), (None, None)]),
)  # fmt: skip
def test_any_call_is_torchs_or_is_refused(shape, size, way):
    sizes = {*shape[1:], *(size if isinstance(size, tuple) else (size,))}
    assume(not way[1] or 1 not in sizes)  # torch answers with the first row alone where a side is 1
    x = torch.randn(shape)
    try:
        out = image.resize(x, size, mode=way[0], antialias=way[1])
    except InputError as error:
        assert "expected" in str(error)
    else:
        if out.numel():
            exact = torchs(x.double(), size, *way)
            torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
