"""A template stored as data: source with a placeholder for each parameter, so that it can be saved and reloaded."""

from typing import Literal

from pydantic import model_validator

from ..records import Candidate, Configuration, Record, SourceFile, Space


class SourceTemplate(Record):
    """Source files in which `@name@` stands for the value of the parameter `name`.

    Example:
        >>> from kernelwright.records import Parameter
        >>> tile = Parameter(name="tile", values=(8, 16))
        >>> template = SourceTemplate(
        ...     name="copy", language="cpp", entry="copy.cpp:copy", space=Space(parameters=(tile,)), first={"tile": 8},
        ...     sources=(SourceFile(path="copy.cpp", text="constexpr int TILE = @tile@;"),))
        >>> template.render({"tile": 16}).sources[0].text
        'constexpr int TILE = 16;'
    """

    name: str
    """Name shown to people and stored in records."""
    language: str
    """Name of the `Language` that builds it."""
    entry: str
    """`path:symbol`."""
    style: Literal["destination", "function", "module"] = "function"
    """How the entry is called, as for a `Candidate`."""
    space: Space
    """The parameters, their values and constraints."""
    first: Configuration
    """The configuration to try first."""
    sources: tuple[SourceFile, ...]
    """The files with their placeholders."""
    flags: tuple[str, ...] = ()
    """Compiler flags in addition to the language's own; placeholders are replaced in them too."""
    parents: tuple[str, ...] = ()
    """Keys of the candidates it was made from."""
    proposer: str = "user"
    """Its proposer."""
    reason: str = ""
    """Why it was proposed, in one line."""

    @model_validator(mode="after")
    def _first_is_in_the_space(self) -> "SourceTemplate":
        values = {p.name: p.values for p in self.space.parameters}
        if set(values) != set(self.first) or any(self.first[n] not in values[n] for n in values):
            raise ValueError(f"first {self.first!r} must give every parameter of the space one of its values")
        if not self.space.allows(self.first):
            raise ValueError(f"first {self.first!r} breaks a constraint: {', '.join(self.space.constraints)}")
        return self

    def default(self) -> Configuration:
        """Return the configuration to try first."""
        return dict(self.first)

    def render(self, configuration: Configuration) -> Candidate:
        """Return the candidate of one configuration."""
        return Candidate(
            sources=tuple(SourceFile(path=s.path, text=_filled(s.text, configuration)) for s in self.sources),
            language=self.language,
            entry=self.entry,
            style=self.style,
            flags=tuple(_filled(flag, configuration) for flag in self.flags),
            parameters=configuration,
            template=self.name,
            parents=self.parents,
            proposer=self.proposer,
            reason=self.reason,
        )


def _filled(text: str, configuration: Configuration) -> str:
    for name, value in configuration.items():
        text = text.replace(f"@{name}@", str(value))
    return text
