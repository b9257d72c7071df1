"""Prompt files → messages: a stable prefix that providers may cache, then the role's own prompt."""

import unicodedata
from collections.abc import Mapping
from pathlib import Path

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from ...errors import NotFoundError
from ...llm import Message
from ...records import content_key
from ._context import Context

FOLDER = Path(__file__).parent / "prompts"
_MOST_GUIDANCE = 1_200
"""Most characters of guidance that are used."""


class Prompts:
    """The prompts of the roles; some may be replaced, and are then rendered in a sandbox.

    Example:
        >>> sorted(Prompts().roles())[:5]
        ['coder', 'compiler', 'debugger', 'judge', 'meta']
    """

    def __init__(self, replaced: Mapping[str, str] | None = None) -> None:
        """Load the shipped prompts, except those `replaced`: the text of `NAME.md.j2` by name."""
        own = {f"{name}.md.j2": text for name, text in (replaced or {}).items()}
        loader = jinja2.ChoiceLoader([jinja2.DictLoader(own), jinja2.FileSystemLoader(FOLDER)])
        environment = SandboxedEnvironment if own else jinja2.Environment
        self._environment: jinja2.Environment = environment(
            loader=loader, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
            keep_trailing_newline=True, auto_reload=False,
        )  # fmt: skip
        self._texts: dict[str, str] = {}
        self._begun: tuple[Context, tuple[Message, Message]] | None = None

    def roles(self) -> list[str]:
        """Return the names of all roles that have a prompt."""
        return [
            name.removesuffix(".md.j2")
            for name in self._environment.list_templates()
            if not name.startswith("_") and name.endswith(".md.j2")
        ]

    def text(self, name: str) -> str:
        """Return a prompt's template text.

        Raises:
            NotFoundError: there is no such prompt.
        """
        if name in self._texts:
            return self._texts[name]
        loader = self._environment.loader
        assert loader is not None
        try:
            return self._texts.setdefault(name, loader.get_source(self._environment, f"{name}.md.j2")[0])
        except jinja2.TemplateNotFound:
            raise NotFoundError(
                f"no prompt is called {name!r}; there are {', '.join(self.roles())}"
            ) from None

    def version(self, name: str, guidance: str = "") -> str:
        """Return the hash of a prompt's text and its guidance, under which its outcomes are recorded."""
        parts = [self.text(name), *filter(None, [self.plain(guidance)])]
        return content_key(*parts)[:8]

    def plain(self, guidance: str) -> str:
        """Return guidance as it is used: limited in length, without invisible characters and empty lines.

        Example:
            >>> Prompts().plain(" Keep sums\\x1b[1m\\r\\n\\n in registers. ")
            'Keep sums[1m\\nin registers.'
        """
        lines = (
            "".join(c for c in line if not unicodedata.category(c).startswith("C")).strip()
            for line in guidance.replace("\t", " ").splitlines()
        )
        return "\n".join(filter(None, lines))[:_MOST_GUIDANCE].strip()

    def messages(self, role: str, context: Context, *, guidance: str = "", **move: object) -> list[Message]:
        """Compose a role's messages: rules and task, the same in a run, then the move.

        Guidance is quoted line by line and never interpreted as a template, so its content cannot start or end a
        section.
        """
        self.text(role)
        quoted = "\n".join(f"> {line}" for line in self.plain(guidance).splitlines())
        words = self._render(role, context=context, guidance=quoted, **move)
        return [*self._beginning(context), Message("user", words)]

    def _beginning(self, context: Context) -> tuple[Message, Message]:
        """Compose the messages that are the same in every call of a run, once."""
        begun = self._begun
        if begun is None or begun[0] is not context:
            system = Message("system", self._render("_system", context=context), stable=True)
            begun = context, (system, Message("user", self._render("_task", context=context), stable=True))
            self._begun = begun
        return begun[1]

    def _render(self, name: str, **values: object) -> str:
        return self._environment.get_template(f"{name}.md.j2").render(**values).strip() + "\n"
