"""The benchmark of a model in pieces: its branches, and wrong answers in either."""

import copy
import json
from types import SimpleNamespace

import pytest
import torch

from benchmarks import pieces


def test_inputs_take_both_branches_and_a_wrong_one_is_seen():
    torch.set_num_threads(1)
    model, (x,) = pieces.build()
    with torch.no_grad():
        assert model.first(x).abs().max() < 50.0 < model.first(pieces._LARGE * x).abs().max()

    class Wrong(type(model)):
        def forward(self, x):
            x = self.first(x)
            return self.second(x)  # never scaled down

    wrong = copy.deepcopy(model)
    wrong.__class__ = Wrong
    found = pieces.errors(model, wrong)
    assert found["usual"]["patched"] == found["usual"]["native"] < 1e-5
    assert found["rare"]["native"] < 1e-5 and found["rare"]["patched"] > 0.1


@pytest.mark.parametrize(("scale", "code"), [(1.0, 0), (1.001, 1)])
def test_the_row_has_the_errors_and_a_wrong_answer_ends_it_with_a_failure(
    monkeypatch, tmp_path, capsys, scale, code
):
    class Patched:
        def __init__(self, model, *_, **__):
            model.second[0].up.weight.data *= scale
            self.model, self.calls = model, 2

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    found = SimpleNamespace(
        improved=True, decision="improved", speedup=None, baseline="compile", eager_speedup=1.2, pieces=True,
        expected=(1.0, 1.1, 1.2), reason="", seconds=1.0, regions=(),
    )  # fmt: skip
    monkeypatch.setattr(pieces, "optimize_model", lambda *_, **__: found)
    monkeypatch.setattr(pieces, "patch", Patched)
    out = tmp_path / "rows.jsonl"
    assert pieces.main(["--out", str(out)]) == code
    row = json.loads(out.read_text())
    assert row["branches"].keys() == {"usual", "rare"} and row["served"] == 2
    assert capsys.readouterr().out.strip() == out.read_text().strip()
