"""The page's folder, what it refuses, and the judge behind its server, without a browser."""

import json
import re
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from tests.web.cases import JIT, TASKS, made

from kernelwright.api.web import FRESH, build, runtime_folder, serve
from kernelwright.cli import main
from kernelwright.errors import InputError, MissingToolError
from kernelwright.web import Peer, _browser

GENERATOR_BYTES = 200_000


@pytest.fixture(scope="module")
def norms():
    return made("norms")


def test_the_generator_is_small_and_imports_nothing_from_elsewhere():
    modules = {path.name: path.read_text() for path in JIT.glob("*.mjs")}
    assert sum(len(text.encode()) for text in modules.values()) <= GENERATOR_BYTES
    imported = {name for text in modules.values() for name in re.findall(r'from "([^"]+)"', text)}
    assert imported <= {f"./{name}" for name in modules}


def test_a_page_holds_its_program_values_and_expected_values(norms, tmp_path):
    build(norms, tmp_path / "page", budget_s=3.0)
    task = json.loads((tmp_path / "page" / "task.json").read_text())
    tensors = task["program"]["tensors"]
    given = sum(t["elements"] for t in tensors if t["role"] in ("input", "state", "constant"))
    results = sum(tensors[t]["elements"] for t in task["program"]["outputs"])
    assert (tmp_path / "page" / "values.bin").stat().st_size == 4 * given
    expected = np.fromfile(tmp_path / "page" / "expected.bin", "<f8")
    assert expected.size == 2 * results
    assert np.array_equal(expected[: 5 * 45], norms.case.outputs[0].truth.numpy().ravel())
    assert task["budget_s"] == 3.0
    text = "".join(path.read_text() for path in (tmp_path / "page").rglob("*.mjs"))
    named = set(re.findall(r'from "(?:\./|\.\./jit/)([^"]+)"', text))
    assert named <= {path.name for path in (tmp_path / "page").rglob("*.mjs")}


MODEL = """
import torch


def build():
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
    return model.eval(), torch.ones(3, 8)
"""


def test_a_model_of_a_function_build_gets_a_page(tmp_path, capsys):
    (tmp_path / "net.py").write_text(MODEL)
    assert main(["web", "build", f"{tmp_path / 'net.py'}:build", "--to", str(tmp_path / "page")]) == 0
    assert "matmul" in capsys.readouterr().out
    assert json.loads((tmp_path / "page" / "task.json").read_text())["name"].startswith("net")


def test_a_folder_with_other_files_is_left_alone(norms, tmp_path):
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(InputError, match="not empty"):
        build(norms, tmp_path, budget_s=1.0)


def answered(norms, change):
    """Let a page answer on fresh inputs with the reference, changed by `change`; return what the judge says."""
    with serve(norms, budget_s=1.0) as (server, tuned):
        for index in range(FRESH):
            content = urlopen(f"{server.url}fresh/{index}").read()
            floats = np.frombuffer(content, "<f4")
            x, w, b = np.split(floats.astype(np.float64), [225, 270])
            outputs = [change(o).astype("<f4").tobytes() for o in reference(x.reshape(5, 45), w, b)]
            urlopen(Request(f"{server.url}outputs/{index}", b"".join(outputs), method="POST"))
        urlopen(Request(f"{server.url}result", json.dumps({"ok": True}).encode(), method="POST"))
        tuned.report = server.result(5.0)
    return tuned


def reference(x, w, b):
    scaled = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w
    centred = scaled - scaled.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * w + b
    exponents = np.exp(x - x.max(-1, keepdims=True))
    shares = exponents / exponents.sum(-1, keepdims=True)
    return normed, shares, np.log(shares)


def test_the_judge_takes_right_answers_on_fresh_inputs(norms):
    assert answered(norms, lambda output: output).ok


@pytest.mark.parametrize(
    "change", [np.zeros_like, lambda o: o * 1.001, lambda o: o[:2]], ids=["zeros", "a little off", "too few"]
)
def test_the_judge_refuses_wrong_answers_that_the_page_calls_right(norms, change):
    tuned = answered(norms, change)
    assert tuned.report["ok"]
    assert not tuned.ok


def test_fresh_inputs_differ_and_unknown_addresses_are_refused(norms):
    with serve(norms, budget_s=1.0) as (server, tuned):
        assert urlopen(f"{server.url}fresh/0").read() != urlopen(f"{server.url}fresh/1").read()
        assert not tuned.ok, "no answers came"
        with pytest.raises(HTTPError):
            urlopen(Request(f"{server.url}elsewhere", b"x", method="POST"))


def test_another_library_is_served_from_its_own_folders(norms, tmp_path):
    (tmp_path / "open.mjs").write_text("export const open = () => null;")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "library.wasm").write_bytes(b"\0asm")
    peer = Peer(tmp_path / "open.mjs", (tmp_path / "files",))
    with serve(norms, budget_s=1.0, peer=peer) as (server, _):
        assert urlopen(f"{server.url}peer/peer.mjs").read() == (tmp_path / "open.mjs").read_bytes()
        assert urlopen(f"{server.url}peer/library.wasm").read() == b"\0asm"
        for name in ("open.mjs", "../files/other.wasm", "task.json"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{server.url}peer/{name}")
    with serve(norms, budget_s=1.0) as (server, _), pytest.raises(HTTPError, match="404"):
        urlopen(f"{server.url}peer/peer.mjs")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["build", f"{TASKS}:norms"], "--to is missing"),
        (["tune", f"{TASKS}:norms", "--seconds", "0"], "expected more than 0"),
        (["tune", f"{TASKS}:norms", "--workload", "large"], "no search workload is called 'large'"),
        (["tune", f"{TASKS}:norms", "--onnxruntime", "nowhere"], "npm install onnxruntime-web"),
        (["build", f"{TASKS}:sorted_rows", "--to", "page"], "aten.sort.default has no kernel for the web"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence(arguments, said, capsys):
    assert main(["web", *arguments]) in (2, 4)
    sentence = capsys.readouterr().err
    assert said in sentence
    assert sentence.count("\n") == 1


def test_without_a_browser_the_sentence_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(_browser, "browser", lambda: None)
    assert main(["web", "tune", f"{TASKS}:norms"]) == 4
    assert "no Chromium on the PATH; apt-get install chromium" in capsys.readouterr().err


def test_a_folder_without_onnxruntime_is_named(tmp_path):
    assert runtime_folder(None) is None
    with pytest.raises(MissingToolError, match="expected onnxruntime-web"):
        runtime_folder(tmp_path)


def test_equal_steps_of_a_program_are_equal_whatever_they_are_called():
    one, other = (made(name).program.plain() for name in ("twice", "twice"))
    assert one == other
    programs = [step["program"] for step in one["steps"] if step["kind"] == "rows"]
    assert len(programs) == 2
    assert programs[0] == programs[1]
