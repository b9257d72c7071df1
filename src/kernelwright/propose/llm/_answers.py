"""JSON answers of the roles, as records; extra fields are ignored, missing optional ones are empty."""

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
        """Return the JSON schema in the form that providers accept: closed objects, every field required."""
        closed: Schema = _closed(cls.model_json_schema())
        return closed

    @classmethod
    def read(cls: type[A], text: str) -> A:
        """Find the JSON in an answer and parse it.

        Raises:
            ReplyError: there is none, or it does not fit the schema; the message says what is wrong.
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
    """What to change, precisely enough for another person to do it."""
    why: str = ""
    """The expected gain, and in which term of the bound."""
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
    """The planner's answer."""

    hypotheses: tuple[Hypothesis, ...]
    """The most promising first."""


class Critique(Answer):
    """The judge role's answer on a candidate."""

    critique: str
    """What holds it back, or what is wrong with it."""
    bottleneck: str = ""
    """The one resource that limits it now."""
    advice: str = ""
    """The one change to make next."""
    rating: float = 0.5
    """How much potential is left, from 0 (done) to 1."""


class Reading(Answer):
    """The profiler-reader's answer."""

    bottleneck: str
    """The limiting resource."""
    evidence: tuple[str, ...] = ()
    """The figures that show it."""
    advice: str = ""
    """What to do about it."""


class Building(Answer):
    """The compiler's answer."""

    cause: str
    """Why it does not work."""
    lines: tuple[str, ...] = ()
    """Where."""
    advice: str = ""
    """What to change there."""


class Toolchain(Answer):
    """The toolchain's answer."""

    build: str
    """A shell script that builds the candidate."""
    run: str
    """One that runs it alone."""
    why: str = ""
    """What its flags are for."""


class Testing(Answer):
    """The tester's answer."""

    correct: bool
    """Whether the candidate computes the task on every input, as far as reading shows."""
    risks: tuple[str, ...] = ()
    """Inputs on which it may be wrong, the most likely first."""


class Summary(Answer):
    """The summariser's answer."""

    summary: str
    """What was tried, the results, and the conclusions."""
    lessons: tuple[str, ...] = ()
    """One sentence each: situation, edit, effect."""


class Guidance(Answer):
    """The meta-step's answer."""

    guidance: str
    """Advice for the kernel writer, in addition to the fixed parts of the prompt."""


def _closed(schema: Any) -> Any:
    if isinstance(schema, dict):
        closed = {k: _closed(v) for k, v in schema.items() if k not in {"default", "title", "description"}}
        if schema.get("type") == "object":
            closed |= {"additionalProperties": False, "required": list(schema.get("properties", {}))}
        return closed
    return [_closed(v) for v in schema] if isinstance(schema, list) else schema
