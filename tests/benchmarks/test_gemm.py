"""What is timed answers as torch does, whether its results are kept or allocated; no time is looked at."""

import importlib.util

import torch

from benchmarks import gemm


def test_both_variants_of_the_own_kernel_answer(monkeypatch):
    find, peers = importlib.util.find_spec, {"openvino", "onnxruntime", "onnx"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in peers else find(name))
    with torch.inference_mode():
        calls, results = gemm.variants("gated", 5, 24, 32, 1)
        assert set(calls) == {"own", "own-kept", "torch"}
        wanted = calls["torch"]()
        torch.testing.assert_close(calls["own"](), wanted, rtol=1e-4, atol=1e-5)
        assert calls["own"]() is not calls["own"]()
        calls["own-kept"]()
        torch.testing.assert_close(results["own-kept"], wanted, rtol=1e-4, atol=1e-5)
        assert calls["own-kept"]() is results["own-kept"]
    timed = gemm.timed({"own": lambda: None, "torch": lambda: None}, 0.0, iter(range(1000)).__next__)
    assert {len(times) for times in timed.values()} == {5}
