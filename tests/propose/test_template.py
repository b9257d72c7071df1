"""Templates that are data."""

import pytest
from pydantic import ValidationError

from kernelwright.propose import Reply, SourceTemplate, Template
from kernelwright.records import Parameter, SourceFile, Space

SPACE = Space(
    parameters=(Parameter(name="tile", values=(8, 16)), Parameter(name="unroll", values=(1, 2))),
    constraints=("tile * unroll < 32",),
)


def template(**changes):
    given = {
        "name": "t", "language": "cpp", "entry": "k.cpp:k", "space": SPACE, "first": {"tile": 8, "unroll": 2},
        "sources": (SourceFile(path="k.cpp", text="int tile = @tile@, unroll = @unroll@, at = @;"),),
        "flags": ("-DTILE=@tile@",), "parents": ("a",), "proposer": "model", "reason": "tiles",
    }  # fmt: skip
    return SourceTemplate(**{**given, **changes})


def test_every_mark_is_filled_and_nothing_else():
    candidate = template().render({"tile": 16, "unroll": 1})
    assert candidate.sources[0].text == "int tile = 16, unroll = 1, at = @;"
    assert candidate.flags == ("-DTILE=16",) and candidate.parameters == {"tile": 16, "unroll": 1}
    assert (candidate.template, candidate.parents, candidate.proposer) == ("t", ("a",), "model")


def test_is_a_template_and_survives_the_disk_in_a_reply():
    reply = Reply(proposals=(template(), template().render({"tile": 8, "unroll": 1})), notes={"rating": 3})
    assert isinstance(template(), Template)
    assert Reply.from_json(reply.to_json()) == reply


@pytest.mark.parametrize("first", [{"tile": 8}, {"tile": 9, "unroll": 1}, {"tile": 16, "unroll": 2}])
def test_the_first_configuration_must_lie_in_the_space(first):
    with pytest.raises(ValidationError, match="first"):
        template(first=first)
