"""What ptxas refuses is not executed, in its own words, where a ptxas is here."""

import pytest

from kernelwright.errors import InputError
from kernelwright.executor import Module, PtxError, _ptxas
from kernelwright.executor.cuda import load_cuda
from kernelwright.executor.program import load_program

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = (
    HEAD
    + ".visible .entry f(.param .u64 x) {{ .reg .b32 %r<3>; .reg .b64 %d<2>;\n ld.param.u64 %d0, [x];\n {}\n ret; }}"
)
ADD = "ld.global.u32 %r0, [%d0]; add.u32 %r0, %r0, 1; st.global.u32 [%d0], %r0;"


@pytest.fixture
def apart(monkeypatch, tmp_path):
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))


@pytest.mark.needs("ptxas")
@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("line", ["sub.u16x2 %r0, %r1, %r2;", "tanh.approx.ftz.f32 %r0, %r1;"])
def test_what_is_ill_formed_is_refused_in_its_words(line):
    with pytest.raises(PtxError, match=r"^ptxas refuses this PTX at line 6: \w"):
        Module.load(KERNEL.format(line)).build()


@pytest.mark.needs("ptxas")
@pytest.mark.usefixtures("apart")
def test_it_is_asked_once_for_a_text(monkeypatch):
    asked = []
    read = _ptxas._read
    monkeypatch.setattr(_ptxas, "_read", lambda *words: asked.append(words) or read(*words))
    assert [_ptxas.unread(KERNEL.format(ADD)) for _ in range(3)] == ["", "", ""]
    for _ in range(2):
        with pytest.raises(PtxError):
            _ptxas.unread(KERNEL.format("sub.u16x2 %r0, %r1, %r2;"))
    assert len(asked) == 2


@pytest.mark.needs("ptxas")
def test_newer_ptx_than_it_knows_is_no_refusal():
    assert "not checked by ptxas: Unsupported .version 9.9" in _ptxas.unread(
        KERNEL.format(ADD).replace("8.0", "9.9")
    )


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("echo 'ptxas fatal   : Could not open output file'; exit 1", "Could not open output file"),
        ("exit 3", "it ended with code 3"),
    ],
)
def test_a_ptxas_that_does_not_work_refuses_nothing(monkeypatch, tmp_path, words, said):
    tool = tmp_path / "bin" / "ptxas"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\ncase $1 in --version) exit 0;; esac\n{words}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(_ptxas, "ptxas", lambda: str(tool))
    assert _ptxas.unread(KERNEL.format(ADD)) == f"not checked by ptxas: {said}"


def test_without_ptxas_that_is_noted(monkeypatch):
    import numpy as np

    monkeypatch.setattr(_ptxas, "ptxas", lambda: "")
    x = np.zeros(1, np.uint32)
    run = Module.load(KERNEL.format(ADD))["f"](1, 1, [x])
    assert run.ok and x[0] == 1
    assert run.notes == ("not checked by ptxas: there is none here",)


@pytest.mark.needs("nvcc")
def test_assembly_of_a_source_is_read_by_nvcc_or_before_it_is_built():
    source = '__global__ void f(float* x) { asm("tanh.approx.ftz.f32 %0, %0;" : "+f"(*x)); }\n'
    said = "Illegal modifier '.ftz' for instruction 'tanh'"
    with pytest.raises(PtxError, match=f"^ptxas refuses this PTX at line .*{said}"):
        load_cuda(source)["f"]
    with pytest.raises(InputError, match=rf"^nvcc refused the source:\nptxas .*{said}"):
        load_program(source)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ptxas kept/k.ptx, line 4; error   : Unknown symbol 'q'", ", k.cu:12: Unknown symbol 'q'"),
        ("ptxas k.ptx, line 2; error   : Unknown symbol 'q'", ": Unknown symbol 'q'"),
    ],
)
def test_a_refusal_names_the_line_of_the_source(said, expected):
    text = f'{HEAD.splitlines()[0]}\n.file 1 "/folder/k.cu"\n.loc 1 12 3\nadd.u32 %q;\n.loc 1 13 3\n'
    assert _ptxas.refused_in(said, [text]) == (
        f"ptxas refuses this PTX at line {said[said.index('line') + 5]}{expected}",
        True,
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "Instruction 'tcgen05.fence' not supported on .target 'sm_90'",
        "Feature 'cluster' requires PTX ISA .version 7.8 or later",
    ],
)
def test_what_a_target_lacks_is_refused_for_that_alone(sentence):
    words, always = _ptxas.refused_in(f"ptxas k.ptx, line 2; error   : {sentence}\n", [])
    assert words.endswith(sentence) and not always


def test_what_is_not_executed_is_named_with_the_line_of_the_source():
    text = (
        KERNEL.format("brkpt;")
        .replace(HEAD, f'{HEAD}.file 1 "k.cu"\n')
        .replace("brkpt", ".loc 1 7 2\n brkpt")
    )
    _, (said,) = Module.load(text, assembled=True).build()
    assert said == "f: not executed: instruction brkpt at line 8, k.cu:7"
