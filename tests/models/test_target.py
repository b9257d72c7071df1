"""What makes a target a model, and how each kind is loaded."""

import pytest
import torch
from tests.models.conftest import written
from torch import nn

from kernelwright.errors import TaskError
from kernelwright.models import Whole, is_model, load_model
from kernelwright.tasks import load_task

KERNELBENCH = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(4, 4)]
"""
OWN = """
import torch
import kernelwright as kw

@kw.task(x="float32[rows]", workloads=[{"rows": 4}])
def build(x):
    return torch.relu(x)

def plain():
    return 1
"""


def test_a_file_with_build_is_a_model_and_a_single_op_stays_one(small, tmp_path):
    kernelbench, own = written(tmp_path, "kb.py", KERNELBENCH), written(tmp_path, "own.py", OWN)
    assert is_model(small) and is_model(f"{small}:build") and is_model(str(small))
    assert not is_model(kernelbench) and not is_model(own) and not is_model(f"{own}:build")
    assert not is_model("examples/rmsnorm_residual.py") and not is_model(tmp_path / "missing.py")
    assert is_model(nn.ReLU()) and is_model("a.pt2") and is_model("hf:gpt2")
    assert is_model(f"{own}:plain") and not is_model(f"{small}:nosuch")


def test_whole_takes_a_file_of_the_kernelbench_form_as_a_model(tmp_path):
    path = written(tmp_path, "kb.py", KERNELBENCH)
    assert is_model(path, whole=True) and is_model(f"{path}:Model", whole=True)
    assert [tuple(t.shape) for t in load_model(path).whole.tensors] == [(4, 4)]
    assert load_task(path).form == "kernelbench"


def test_inputs_by_name_and_nested_ones_are_passed_as_they_came():
    class Nested(nn.Module):
        def forward(self, pair, *, mask=None, scale=1.0):
            return {"sum": pair[0] + pair["b" if isinstance(pair, dict) else 1] * scale, "mask": mask}

    ones, twos = torch.ones(2), torch.full((2,), 2.0)
    whole = Whole(Nested(), ([ones, twos],), {"mask": torch.zeros(1), "scale": 3.0})
    assert [t.tolist() for t in whole(*whole.tensors)] == [[7.0, 7.0], [0.0]]
    assert "3.0" in whole.call and whole.call != Whole(Nested(), ([ones, twos],), {"scale": 3.0}).call


def test_a_module_from_python_needs_its_inputs():
    loaded = load_model(nn.Linear(2, 3), {"input": torch.ones(1, 2)})
    assert loaded.text is None and not loaded.module.training and loaded.notes
    with pytest.raises(TaskError, match="no inputs of one call"):
        load_model(nn.Linear(2, 3))


def test_an_archive_of_torch_export_is_loaded_with_its_inputs(tmp_path):
    path = tmp_path / "linear.pt2"
    torch.export.save(torch.export.export(nn.Linear(2, 3), (torch.ones(1, 2),)), path)
    loaded = load_model(str(path))
    assert loaded.whole(*loaded.whole.tensors)[0].shape == (1, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def build():\n    return 3\n", "expected a function that returns"),
        (
            "import torch\n\ndef build():\n    with torch.device('meta'):\n"
            "        return torch.nn.Linear(2, 2), torch.ones(1, 2)\n",
            "has 3 tensors on `meta`, 'weight' for one, which hold no values",
        ),
        ("def build():\n    raise ValueError('no')\n", "raised ValueError: no"),
        ("def make():\n    pass\n", "has no function 'build'"),
    ],
)
def test_what_is_no_model_is_said_in_one_sentence(tmp_path, text, said):
    path = written(tmp_path, "bad.py", text)
    with pytest.raises(TaskError, match=said):
        load_model(path)


def test_an_archive_that_is_none_and_an_unknown_architecture_are_said(tmp_path):
    broken = written(tmp_path, "broken.pt2", "no archive")
    with pytest.raises(TaskError, match="no archive of"):
        load_model(str(broken))
    with pytest.raises(TaskError, match="does not exist"):
        load_model(str(tmp_path / "missing.pt2"))
    with pytest.raises(TaskError, match="did you mean 'llama'"):
        load_model("hf:lama")
