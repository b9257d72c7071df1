"""References converted for other runtimes: right where they are installed, told where they are not."""

import builtins

import pytest
import torch

from kernelwright.errors import MissingToolError
from kernelwright.languages._runtimes import RUNTIMES, converted


class Layer(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(12, width), torch.nn.Linear(width, 5)

    def forward(self, x, scale):
        return self.second(torch.relu(self.first(x)) * scale)


def several(x, y):
    return x @ y, torch.softmax(x, -1)


installed = pytest.mark.parametrize(
    "runtime", [pytest.param(name, marks=pytest.mark.needs(name)) for name in RUNTIMES]
)
quiet = pytest.mark.filterwarnings("ignore")  # what the runtimes and torch's exporter warn of themselves


@installed
@quiet
def test_a_module_answers_with_its_weights_at_every_size(runtime):
    torch.manual_seed(0)
    made = converted(Layer, runtime, makes_modules=True)(7)
    plain = Layer(7)
    plain.load_state_dict(made.state_dict())
    with torch.no_grad():
        for rows in (3, 4):
            x = torch.randn(rows, 12)
            first, second = made(x, 0.5), made(x + 1, 0.5)
            torch.testing.assert_close(first, plain(x, 0.5))
            torch.testing.assert_close(second, plain(x + 1, 0.5))
        torch.testing.assert_close(made(x, 2.0), plain(x, 2.0))


@installed
@quiet
def test_a_function_of_several_results_answers_as_before(runtime):
    run = converted(several, runtime, makes_modules=False)
    x, y = torch.randn(6, 9), torch.randn(9, 4)
    for found, wanted in zip(run(x, y), several(x, y), strict=True):
        torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(run(x, 2 * y)[0], 2 * (x @ y))


@pytest.mark.needs("openvino")
@quiet
def test_openvino_takes_what_its_rules_for_traces_do_not():
    x = torch.randn(3, 8)
    torch.testing.assert_close(converted(torch.diff, "openvino", makes_modules=False)(x), torch.diff(x))


@installed
@quiet
def test_what_cannot_be_converted_raises(runtime):
    def nested(x):
        return {"y": x + 1}

    with pytest.raises(Exception, match=r"."):
        converted(nested, runtime, makes_modules=False)(torch.ones(2))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_runtime_that_is_not_installed_is_told_with_its_remedy(runtime, monkeypatch):
    real = builtins.__import__
    monkeypatch.setattr(
        "importlib.import_module",
        lambda name, *_: real(f"no_{name}"),
    )
    with pytest.raises(MissingToolError, match=rf"pip install 'kernelwright\[{runtime}\]'"):
        converted(several, runtime, makes_modules=False)(torch.ones(2, 2), torch.ones(2, 2))
