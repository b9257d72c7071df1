"""What models write, well and badly wrapped, is read; what cannot be used is told in words."""

import pytest

from kernelwright.propose.llm._answers import Critique, Plan
from kernelwright.propose.llm._replies import Edit, ReplyError, apply_edits, json_in, read_code

CODE = '#include "kernelwright.h"\nKW_KERNEL(f) {}\n'


@pytest.mark.parametrize(
    "text",
    [
        f"```cpp\n{CODE}```",
        f"Here you are:\n\n```c++\n{CODE}```\nIt is fast because of reasons.",
        f"### kernel.cpp\n```\n{CODE}```",
        f"**File: `src/kernel.cpp`**\n\n```C++\n{CODE}```",
        f"```cpp:kernel.cpp\n{CODE}```",
        f"```cpp kernel.cpp\r\n{CODE}```",
        f"~~~~cpp\n{CODE}~~~~",
        f"<think>Should I use ```python\nnot this\n``` here?</think>\n```cpp\n{CODE}```",
        f"  ```cpp\n{CODE}  ```",
        CODE,
    ],
    ids=[
        "plain",
        "prose",
        "heading",
        "file heading",
        "colon",
        "crlf",
        "tildes",
        "thinking",
        "indented",
        "bare",
    ],
)
def test_wrapped_in_whatever_way_the_code_is_found(text):
    (block,) = read_code(text).blocks
    assert block.text.strip() == CODE.strip() and block.language in {"cpp", ""}


def test_a_path_is_taken_from_fence_or_heading():
    assert read_code(f"### kernel.cpp\n```\n{CODE}```").blocks[0].path == "kernel.cpp"
    assert read_code(f"```cpp:a/b/fast.cpp\n{CODE}```").blocks[0].path == "fast.cpp"
    assert read_code(f"I wrote about kernel.cpp in prose\n\n```cpp\n{CODE}```").blocks[0].path == ""


def test_a_longer_fence_holds_a_shorter_one():
    assert "```" in read_code(f"````cpp\n// ```\n{CODE}````").blocks[0].text


def test_idea_and_flags_stand_on_their_own_lines():
    draft = read_code(f"**IDEA:** two rows at a time\n```cpp\n{CODE}```\nFLAGS: `-O2 -ffast-math`")
    assert draft.idea == "two rows at a time" and draft.flags == ("-O2", "-ffast-math")
    assert read_code(f"```cpp\n{CODE}```").flags is None


def test_edits_in_or_out_of_a_fence():
    edit = "<<<<<<< SEARCH\na = 1;\n=======\na = 2;\n>>>>>>> REPLACE"
    for text in (edit, f"IDEA: two\n```cpp\n{edit}\n```\nDone."):
        draft = read_code(text)
        assert draft.edits == (Edit("a = 1;\n", "a = 2;\n"),) and draft.blocks == ()


def test_a_space_is_told_from_code():
    draft = read_code(f'```space\n{{"parameters": {{"TILE": [1, 2]}}}}\n```\n```cpp\n{CODE}```')
    assert draft.space == {"parameters": {"TILE": [1, 2]}} and len(draft.blocks) == 1
    with pytest.raises(ReplyError, match="no JSON"):
        read_code('```space\n{"parameters": {"TILE": [1, 2]}\n```')


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("  \n\n", "empty"),
        ("I am sorry, I cannot help with that.", "holds no code"),
        ("x" * 400_001, "much shorter"),
        (f"```cpp\n{CODE}", "cut off"),
        ("<think>I will now think for ever and", "empty"),
    ],
    ids=["empty", "blank", "prose", "huge", "open fence", "only thinking"],
)
def test_what_cannot_be_used_is_told(text, complaint):
    with pytest.raises(ReplyError, match=complaint):
        read_code(text)


def test_an_answer_cut_in_an_edit_is_not_half_applied():
    text = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n<<<<<<< SEARCH\nc\n=====\n"
    with pytest.raises(ReplyError, match="cut off"):
        read_code(text, cut_off=True)


class TestEdits:
    TEXT = "int a = 1;\nint b = 2;  \nint a2 = 1;\n"

    def test_exact(self):
        assert apply_edits(self.TEXT, (Edit("int a = 1;\n", ""),)) == "int b = 2;  \nint a2 = 1;\n"

    def test_blanks_at_line_ends_do_not_count(self):
        edits = (Edit("int b = 2;\nint a2 = 1;\n", "int c;\n"),)
        assert apply_edits(self.TEXT, edits) == "int a = 1;\nint c;\n"

    @pytest.mark.parametrize(
        ("old", "complaint"),
        [("int z;", "is not in the file"), ("= 1;", "2 times"), ("  \n", "empty")],
    )
    def test_a_passage_must_stand_there_once(self, old, complaint):
        with pytest.raises(ReplyError, match=complaint):
            apply_edits(self.TEXT, (Edit(old, "x"),))


class TestJson:
    def test_found_in_prose_and_fences(self):
        for text in (
            '{"a": 1}',
            'So:\n```json\n{"a": 1}\n```',
            'set {x} is... {"a": 1}!',
            '<think>{}</think>{"a": 1}',
        ):
            assert json_in(text) == {"a": 1}

    def test_none_is_told(self):
        with pytest.raises(ReplyError, match="no JSON"):
            json_in("I would rather not.")

    def test_a_plan_is_read_with_its_numbers_in_range(self):
        text = '{"hypotheses": [{"idea": "tile", "rating": 7, "difficulty": 0, "extra": 1}], "mood": "good"}'
        (one,) = Plan.read(text).hypotheses
        assert (one.idea, one.rating, one.difficulty) == ("tile", 1.0, 1)

    def test_what_is_missing_is_named(self):
        with pytest.raises(ReplyError, match="critique: Field required"):
            Critique.read('{"advice": "unroll"}')

    def test_schemas_are_closed_for_providers_that_ask_for_it(self):
        schema = Plan.schema_to_ask()
        inner = schema["$defs"]["Hypothesis"]
        assert schema["additionalProperties"] is False and inner["additionalProperties"] is False
        assert inner["required"] == ["idea", "why", "rating", "difficulty"]
