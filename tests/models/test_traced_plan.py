"""Plans with a trace of the model on a GPU: what the trace shows, and which chains of kernels a region would fuse."""

import json
from pathlib import Path

import pytest
from tests.models.conftest import written

from kernelwright.cli import main

ALEXNET = str(Path(__file__).parents[1] / "profile" / "data" / "alexnet.json.gz")
MODEL = """
import torch
from torch import nn


def build():
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.Sigmoid()
    return nn.Sequential(*layers).eval(), (torch.randn(1, 3, 16, 16),)
"""
OP = """
import kernelwright as kw


@kw.task(x="float32[n, n]", workloads=[{"n": 8}])
def double(x):
    return x * 2
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return str(written(tmp_path_factory.mktemp("traced"), "pictures.py", MODEL))


def test_a_region_names_the_chains_of_kernels_that_it_would_fuse(path, capsys):
    assert main(["plan", path, "--trace", ALEXNET, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    device = found["trace"]["device"]
    assert found["trace"]["region"] == "CPU-bound" and device["tklqt_us"] > 3e6 and device["idle"]
    regions = {r["label"]: r for r in found["regions"]}
    assert device["chains"][0]["operators"] == ["aten::conv2d", "aten::relu_"]
    assert device["chains"][0]["saved_launches"] == 24
    assert regions["0 to 1"]["chains"] == [0], "a convolution and a ReLU follow each other there"
    assert all(not r["chains"] for label, r in regions.items() if label in ("0", "1", "3 to 4"))


def test_a_file_that_is_no_trace_is_refused_before_anything_is_planned(path, tmp_path, capsys):
    assert main(["plan", path, "--trace", str(written(tmp_path, "t.json", "{}"))]) == 2
    assert "t.json" in capsys.readouterr().err


def test_a_trace_is_shown_beside_the_profile_of_an_op(tmp_path, capsys):
    op = str(written(tmp_path, "op.py", OP))
    assert main(["profile", op, "--device", "cpu", "--trace", ALEXNET]) == 0
    said = capsys.readouterr().out
    assert "alexnet.json.gz: CPU-bound, the host sets the pace 100% of the time" in said
    assert (
        "counted by kernels instead, CPU-bound before kernel 20 and GPU-bound from it on (in aten::add_,"
        in said
    )
