"""The base of every record: frozen, versioned, named by the hash of its content."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1

Scalar = bool | int | float | str | None
"""A value that JSON represents without loss; parameters and arguments take these."""


class Record(BaseModel):
    """A frozen value passed between stages or written to disk."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def to_json(self) -> str:
        """Serialise to canonical JSON: sorted keys, no spaces.

        Example:
            >>> from kernelwright.records import Budget
            >>> Budget(evaluations=3).to_json()
            '{"device_seconds":null,"evaluations":3,"minutes":null,"search_minutes":null,"usd":null}'
        """
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a record back; raises `pydantic.ValidationError` if it does not match."""
        return cls.model_validate_json(text)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed, and so with another name."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("key", None)
        return copied

    @cached_property
    def key(self) -> str:
        """The record's name: the first 16 hex digits of the SHA-256 of its canonical JSON."""
        return content_key(self.to_json())


def content_key(*parts: str | bytes) -> str:
    """Hash the parts, each prefixed with its length, to 16 hex digits.

    Example:
        >>> content_key("a", "b") == content_key("ab")
        False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]
