"""The examples of the library, at sizes that take no time; and at their own, which is what they promise."""

import importlib.util
import json
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch
from tests.forked import run

from kernelwright.ops import lowbit

FOLDER = Path(__file__).parents[2] / "examples" / "ops"


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_points_in_a_file_are_clustered_and_progress_is_told(capsys):
    each = example("cluster_points").main(["--rows", "4000", "--columns", "8", "--clusters", "4"])
    assert 0.9 < each < 1.1
    assert "KMeans: iteration 1," in capsys.readouterr().err


def test_a_step_lowers_the_loss_of_a_large_vocabulary():
    words = ["--vocabulary", "500", "--width", "32", "--tokens", "64", "--steps", "4"]
    losses, _ = example("fine_tune_large_vocabulary").main(words)
    assert losses[-1] < losses[0] - 0.1


def test_a_served_model_answers_and_refuses_clearly():
    module = example("serve_int4_mlp")
    model = module.quantized(module.MLP(64, 96))
    server = module.server(model, 64, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def ask(x):
        url = f"http://127.0.0.1:{server.server_port}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(x).encode()), timeout=60) as reply:
            return json.load(reply)

    try:
        x = torch.randn(2, 64)
        gate, up = (x @ lowbit.unpack(model.up.packed).T).chunk(2, -1)
        expected = (torch.nn.functional.silu(gate) * up) @ lowbit.unpack(model.down.packed).T
        torch.testing.assert_close(torch.tensor(ask(x.tolist())), expected, rtol=1e-3, atol=1e-3)
        with pytest.raises(urllib.error.HTTPError, match="expected 64 a row"):
            ask([1.0])
    finally:
        server.shutdown()
        server.server_close()


def test_a_graph_convolution_learns_what_its_edges_say():
    words = ["--nodes", "300", "--edges", "4000", "--relations", "3", "--steps", "30"]
    assert example("train_rgcn").main(words) > 0.8


@pytest.mark.long
def test_the_large_vocabulary_fits_in_two_gib():
    path = str(FOLDER / "fine_tune_large_vocabulary.py")
    words = f"import runpy; runpy.run_path({path!r})['main'](['--steps', '2'])"
    done = run(["-c", words], cwd=".", timeout=1500)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("most memory: ")[1].split()[0]) < 2.0
