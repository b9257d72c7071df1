"""A made-up checkout of TritonBench."""

_TESTED = """import torch


def scaled_relu(x, scale=1.0):
    return torch.relu(x) * scale


##################################################################


import torch

# def scaled_relu(x, scale=1.0):


def test_scaled_relu():
    torch.manual_seed(1)
    results = {"first": scaled_relu(torch.randn(4, 8, device='cuda'), scale=2.0)}
    results["second"] = scaled_relu(torch.randn(3, device='cuda'), scale=torch.tensor(3.0))
    print(results["first"].sum().item())
    return results


test_results = test_scaled_relu()
"""
FILES = {
    "data/TritonBench_T_v1/scaled_relu.py": _TESTED,
    "data/TritonBench_G_v1/README.md": "no kernel\n",
}
