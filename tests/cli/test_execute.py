"""`kernelwright execute`: results, findings, counters and the steps of one thread."""

import json
from pathlib import Path

import pytest

from kernelwright.cli import main
from kernelwright.errors import InputError

pytestmark = pytest.mark.needs("C++ compiler")
KERNELS = Path(__file__).parents[1] / "executor" / "kernels"


@pytest.fixture
def scale(tmp_path):
    path = tmp_path / "scale.ptx"
    path.write_text("""
.version 8.0
.target sm_80
.address_size 64
.visible .entry triple(.param .u64 x, .param .u64 out, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %i<2>;
  .reg .b64 %at<4>;
  .reg .f32 %v<3>;
  ld.param.u64 %at0, [x];
  ld.param.u64 %at1, [out];
  ld.param.u32 %i1, [n];
  mov.u32 %i0, %tid.x;
  setp.ge.u32 %p, %i0, %i1;
  @%p bra DONE;
  mul.wide.u32 %at2, %i0, 4;
  add.u64 %at0, %at0, %at2;
  add.u64 %at1, %at1, %at2;
  ld.global.f32 %v1, [%at0];
  mul.rn.f32 %v2, %v1, 0f40400000;
  st.global.f32 [%at1], %v2;
DONE:
  ret;
}
""")
    return str(path)


def events(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_time_is_modelled_and_called_so(scale, capsys):
    assert main(["execute", scale, "float32[20]", "out:float32[20]", "20"]) == 0
    assert "modelled for NVIDIA A100 SXM 80 GB, not timed: " in capsys.readouterr().out
    words = ["execute", scale, "float32[20]", "out:float32[20]", "20", "--json", "--device"]
    assert main([*words, "h100-sxm"]) == 0
    (result,) = events(capsys)
    made = result["modelled"]
    assert made["device"] == "NVIDIA H100 SXM"
    assert 0 < made["low_us"] < made["high_us"]
    assert made["term"] in made["terms_us"]
    assert main([*words, "h1000"]) == 2
    assert "expected one of a100-sxm-80" in capsys.readouterr().err


def test_what_cannot_be_modelled_is_an_error_only_for_a_device_that_was_named():
    from kernelwright.cli.execute import _modelled
    from kernelwright.executor import Counters, Execution, SiteCounters

    memory = (SiteCounters(1, None, "ld.global.b32", 1, 32, 128, 4),)
    counted = Counters(memory=memory, tensor={"s4": 1}, blocks=1, threads=32)
    run = Execution("ok", (), counted, 1, 0.0)
    assert _modelled(run, "", "sm_80", "") is None
    with pytest.raises(InputError, match="no tensor rate of s4"):
        _modelled(run, "", "sm_80", "a100-sxm-80")


def test_a_traced_thread_tells_each_step_with_its_registers(scale, capsys):
    assert main(["execute", scale, "float32[20]", "out:float32[20]", "20", "--at", "0,7", "--json"]) == 0
    *steps, result = events(capsys)
    by_name = {s["instruction"]: s["registers"] for s in steps}
    assert by_name["mov.u32"] == {"%i0": 7}
    assert by_name["setp.ge.u32"] == {"%p": 0}
    loaded = by_name["ld.global.f32"]["%v1"]
    assert by_name["mul.rn.f32"]["%v2"] == pytest.approx(3 * loaded)
    assert result["arguments"][1][7] == pytest.approx(3 * result["arguments"][0][7])
    assert [s["line"] for s in steps] == sorted(s["line"] for s in steps)
    assert len(steps) == 13
    assert next(m for m in result["memory"] if m["instruction"] == "st.global.f32")["units"] == 3
    assert (result["tensor"], result["touched_bytes"]) == ({}, 2 * 20 * 4)


def test_steps_name_the_line_of_the_source(scale, capsys):
    path = Path(scale)
    text = (
        path.read_text()
        .replace(".visible", '.file 1 "triple.cu"\n.visible')
        .replace("  mul.rn", "  .loc 1 7 3\n  mul.rn")
    )
    path.write_text(text)
    assert main(["execute", scale, "float32[20]", "out:float32[20]", "20", "--at", "0,7"]) == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if " mul.rn.f32" in x)
    assert line.split()[2] == "triple.cu:7"


def test_a_thread_that_leaves_early_is_traced_as_far_as_it_goes(scale, capsys):
    assert main(["execute", scale, "float32[20]", "out:float32[20]", "20", "--at", "0,31", "--json"]) == 0
    steps = events(capsys)[:-1]
    assert [s["instruction"].split(".")[0] for s in steps] == ["ld", "ld", "ld", "mov", "setp", "bra", "ret"]


def test_findings_are_told_and_the_exit_code_is_one(scale, capsys):
    assert main(["execute", scale, "float32[20]", "out:float32[20]", "30"]) == 1
    said = capsys.readouterr().out
    assert "out-of-bounds at PTX line 19" in said
    assert "triple: 2 findings, " in said
    assert "not timed" in said


def test_a_failed_launch_is_made_smaller_as_long_as_it_fails_alike(scale, capsys):
    words = ["execute", scale, "float32[20]", "out:float32[20]", "30", "--block", "128", "--seed", "3"]
    assert main(words) == 1
    command, finding = capsys.readouterr().out.splitlines()[-2:]
    smaller = f"{scale} 'zeros:float32[1]' 'out:float32[1]' 2 --grid 1 --block 2 --seed 3"
    assert command.endswith(f"tried): kernelwright execute {smaller}")
    assert "thread 1: ld.global.f32 touches 4 bytes of global memory" in finding
    assert main([*words, "--json"]) == 1
    first, *_, last = events(capsys)
    assert (first["instruction"], first["space"], first["size"]) == ("ld.global.f32", "global", 4)
    assert f"{first['address']:#x}" in first["message"]
    assert last["command"].endswith(smaller)
    assert main(last["command"].replace("'", "").split()[1:]) == 1  # the words that it names fail too
    said = capsys.readouterr().out
    assert "thread 1: ld.global.f32" in said
    assert "smallest" not in said
    assert main([*words, "--whole"]) == 1
    assert "smallest" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["k.txt"], "no .ptx and no .cu file"),
        (["nosuch.ptx"], "cannot be read"),
        (["{binary}"], "is no text; expected PTX or CUDA C++"),
        (["{empty}"], "holds no kernel"),
        (["{scale}", "float32[999999999999]", "1", "1"], "an eighth of this machine's memory"),
        (["{scale}", "1", "1", "1", "--at", "1,0"], "--at is '1,0'; there are 1 blocks of 32 threads"),
        (["{scale}", "1", "1", "1", "--grid", "2147483648"], "more than 2^31 - 1 blocks"),
        (["{scale}", "1", "1", "1", "--shared", "1099511627776"], "1099511627776 bytes of shared memory"),
        (["{scale}", "1", "2", "x"], "argument 'x' is no number and no tensor"),
        (["{scale}", "float99[3]", "1", "1"], "numpy has no type 'float99'"),
        (["{scale}", "1", "1", "1", "--grid", "2,x"], "--grid is '2,x'"),
        (["{scale}", "1", "1", "1", "--at", "5"], "expected BLOCK,THREAD"),
        (["{scale}:other", "1", "1", "1"], "no kernel 'other'"),
        ([str(KERNELS / "right.ptx")], "name one as FILE:NAME"),
    ],
)
def test_bad_input_is_told_in_a_sentence(scale, words, said, capsys, tmp_path):
    binary = tmp_path / "binary.ptx"
    binary.write_bytes(bytes(range(256)))
    empty = tmp_path / "empty.ptx"
    empty.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.func f() { ret; }\n")
    places = {"scale": scale, "binary": binary, "empty": empty}
    assert main(["execute", *(w.format_map(places) if "{" in w else w for w in words)]) == 2
    assert said in capsys.readouterr().err
