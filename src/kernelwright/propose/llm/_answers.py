"""What the roles that answer in JSON say, as records; what they add is ignored, what they leave out is empty."""

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from ...llm._protocol import Schema
from ._replies import ReplyError, json_in

A = TypeVar("A", bound="Answer")


class Answer(BaseModel):
    """An answer in JSON."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    @classmethod
    def schema_to_ask(cls) -> Schema:
        """Return the JSON schema in the form that providers take: closed objects, every field asked for."""
        closed: Schema = _closed(cls.model_json_schema())
        return closed

    @classmethod
    def read(cls: type[A], text: str) -> A:
        """Find the JSON in an answer and read it.

        Raises:
            ReplyError: there is none, or it is not as asked; the message says what is wrong.
        """
        value = json_in(text)
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise ReplyError(
                f"{where}: {first['msg']}; expected JSON as in {json.dumps(cls.model_json_schema())[:1500]}"
            ) from None


class Hypothesis(Answer):
    """One thing to try."""

    idea: str
    """What to change, so that somebody else could do it."""
    why: str = ""
    """What it gains, by which term of the bound."""
    rating: float = 0.5
    """How likely it is to help, from 0 to 1."""
    difficulty: int = 3
    """How hard it is to get right, from 1 to 5."""

    @field_validator("rating")
    @classmethod
    def _within_one(cls, value: float) -> float:
        return min(max(value, 0.0), 1.0)

    @field_validator("difficulty")
    @classmethod
    def _within_five(cls, value: int) -> int:
        return min(max(value, 1), 5)


class Plan(Answer):
    """What the planner says."""

    hypotheses: tuple[Hypothesis, ...]
    """The most promising first."""


class Critique(Answer):
    """What the judge says of a candidate."""

    critique: str
    """What holds it back, or what is wrong with it."""
    bottleneck: str = ""
    """The one resource that binds now."""
    advice: str = ""
    """The one change to make next."""
    rating: float = 0.5
    """How much is left in it, from 0 (done) to 1."""


class Reading(Answer):
    """What the profiler-reader says."""

    bottleneck: str
    """The resource that binds."""
    evidence: tuple[str, ...] = ()
    """The figures that show it."""
    advice: str = ""
    """What follows from it."""


class Testing(Answer):
    """What the tester says."""

    correct: bool
    """Whether the candidate computes the task on every input, as far as reading shows."""
    risks: tuple[str, ...] = ()
    """Inputs on which it may be wrong, the most likely first."""


class Summary(Answer):
    """What the summariser says."""

    summary: str
    """What was tried, what came of it, and what follows."""
    lessons: tuple[str, ...] = ()
    """One sentence each: situation, edit, effect."""


class Guidance(Answer):
    """What the meta-step says."""

    guidance: str
    """What whoever writes kernels is told beside the fixed parts."""


def _closed(schema: Any) -> Any:
    if isinstance(schema, dict):
        closed = {k: _closed(v) for k, v in schema.items() if k not in {"default", "title", "description"}}
        if schema.get("type") == "object":
            closed |= {"additionalProperties": False, "required": list(schema.get("properties", {}))}
        return closed
    return [_closed(v) for v in schema] if isinstance(schema, list) else schema
