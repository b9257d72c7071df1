"""Draft → candidate, or template if the draft has a space."""

import math
import re
from collections.abc import Sequence

from pydantic import BaseModel, JsonValue, ValidationError

from ...errors import TaskError
from ...languages.vectors import headers_of
from ...records import Candidate, Configuration, Parameter, Scalar, SourceFile, Space, Task, content_key
from ...tasks import candidate_of
from .._template import SourceTemplate
from ._replies import Draft, ReplyError, apply_edits

_FILES = {
    "cpp": "kernel.cpp",
    "cuda": "kernel.cu",
    "opencl": "kernel.cl",
    "wgsl": "kernel.wgsl",
    "python": "kernel.py",
}
_WORDS = {"triton": "python", "torch": "python"}
_HEADER = re.compile(r"\.(h|hpp|cuh|inl)$")
_MARK = re.compile(r"@([A-Za-z_]\w*)@")
_MOST_CONFIGURATIONS = 1_000_000


def proposal_of(
    draft: Draft, task: Task, languages: Sequence[str], parents: Sequence[Candidate], reason: str
) -> Candidate | SourceTemplate:
    """Make a candidate or template from a draft.

    Args:
        draft: The model's draft.
        task: The task to compute.
        languages: The allowed languages.
        parents: What it was made from; edits apply to the first.
        reason: One line on why, if the draft gives none.

    Raises:
        ReplyError: it cannot be used; the message says what to change.
    """
    space, first = _space(dict(draft.space))
    parent = parents[0] if parents else None
    if draft.edits:
        if parent is None:
            raise ReplyError("edits need a file to edit, and there is none; answer with the whole file")
        made = parent.model_copy(update={"sources": _edited(parent, draft)})
    else:
        made = _written(draft, task, languages, parent, first)
    if made.language not in languages:
        raise ReplyError(f"the answer is in {made.language}; expected {' or '.join(languages)}")
    fields = {
        "flags": draft.flags if draft.flags is not None else made.flags,
        "parents": tuple(p.key for p in parents),
        "proposer": "llm",
        "reason": draft.idea or reason,
        "parameters": {k: v for k, v in made.parameters.items() if k == "strided"},
        "template": None,
    }
    made = made.model_copy(update=fields)
    return _template(made, space, first) if space.parameters else _unmarked(made)


def _written(
    draft: Draft, task: Task, languages: Sequence[str], parent: Candidate | None, first: Configuration
) -> Candidate:
    """Make a candidate from whole files: the longest block in a requested language, with its headers."""
    words = [_WORDS.get(language, language) for language in languages]
    main = max(
        (b for b in draft.blocks if not _HEADER.search(b.path) and (b.language in words or not b.language)),
        key=lambda block: len(block.text),
        default=None,
    )
    if main is None:
        found = ", ".join(sorted({b.language for b in draft.blocks if b.language})) or "nothing"
        raise ReplyError(f"the answer is in {found}; expected {' or '.join(languages)}")
    language = main.language or words[0]
    if language not in _FILES:
        raise ReplyError(f"the answer is in {language}; expected {' or '.join(languages)}")
    path = main.path if main.path.endswith(_FILES[language][6:]) else _FILES[language]
    headers = {b.path: b.text for b in draft.blocks if _HEADER.search(b.path)}
    for known in headers_of(main.text):
        headers.setdefault(known.path, known.text)
    for known in (
        parent.sources if parent is not None else ()
    ):  # keep the parent's headers that it still includes
        if _HEADER.search(known.path) and f'"{known.path}"' in main.text + "".join(headers.values()):
            headers.setdefault(known.path, known.text)
    files = (SourceFile(path=name, text=text) for name, text in headers.items())
    sources = (SourceFile(path=path, text=main.text), *files)
    loaded = _loaded(tuple(_filled(s, first) for s in sources), task)
    return loaded.model_copy(update={"sources": sources})


def _loaded(sources: tuple[SourceFile, ...], task: Task) -> Candidate:
    try:
        return candidate_of(sources, task)
    except TaskError as error:
        raise ReplyError(str(error)) from None


def _edited(parent: Candidate, draft: Draft) -> tuple[SourceFile, ...]:
    """Apply each edit to the only file that contains its passage."""
    texts = {s.path: s.text for s in parent.sources}
    shown = [path for path in texts if not _HEADER.search(path)] or list(texts)
    for edit in draft.edits:
        complaint: ReplyError | None = None
        for path in shown:
            try:
                texts[path] = apply_edits(texts[path], (edit,))
                break
            except ReplyError as error:
                complaint = complaint or error
        else:
            raise complaint or ReplyError("there is no file to edit")
    if all(texts[s.path] == s.text for s in parent.sources):
        raise ReplyError("the edits change nothing")
    return tuple(SourceFile(path=path, text=text) for path, text in texts.items())


class _Given(BaseModel):
    """The space of a template in the form that a model writes."""

    parameters: dict[str, tuple[Scalar, ...]]
    constraints: tuple[str, ...] = ()
    first: dict[str, Scalar] = {}


def _space(text: JsonValue) -> tuple[Space, Configuration]:
    """Read a space and the configuration to try first."""
    if not text:
        return Space(), {}
    try:
        given = _Given.model_validate(text)
        space = Space(
            parameters=tuple(
                Parameter(name=name, values=tuple(dict.fromkeys(map(_plain, values))))
                for name, values in given.parameters.items()
            ),
            constraints=given.constraints,
        )
        size = math.prod(len(p.values) for p in space.parameters)
        if 0 < size <= _MOST_CONFIGURATIONS:
            wished = {name: _plain(value) for name, value in given.first.items()}
            for first in (wished, next(space.configurations(), {})):
                if _within(space, first):
                    return space, first
        what = f"{size} configurations, of which none fulfils the constraints or which are too many"
    except (ValidationError, SyntaxError, NameError, TypeError, ZeroDivisionError) as error:
        what = " ".join(str(error).split())
    raise ReplyError(
        f'the space cannot be used ({what}); expected {{"parameters": {{"TILE": [8, 16]}}, '
        '"constraints": ["TILE <= 16"], "first": {"TILE": 8}}'
    )


def _plain(value: Scalar) -> Scalar:
    """Return a value in the form every language accepts: booleans become 0 and 1."""
    return int(value) if isinstance(value, bool) else value


def _within(space: Space, configuration: Configuration) -> bool:
    values = {p.name: p.values for p in space.parameters}
    known = set(values) == set(configuration) and all(configuration[n] in values[n] for n in values)
    return bool(values) and known and space.allows(configuration)


def _template(made: Candidate, space: Space, first: Configuration) -> SourceTemplate:
    marks = {mark for s in made.sources if not _HEADER.search(s.path) for mark in _MARK.findall(s.text)}
    marks |= {mark for flag in made.flags for mark in _MARK.findall(flag)}
    names = {p.name for p in space.parameters}
    if marks != names:
        odd = ", ".join(sorted(marks ^ names))
        raise ReplyError(f"marks @NAME@ in the source and parameters of the space differ: {odd}")
    return SourceTemplate(
        name=f"llm/{content_key(made.key, space.to_json())[:8]}",
        language=made.language, entry=made.entry, style=made.style, space=space, first=first, sources=made.sources,
        flags=made.flags, parents=made.parents, proposer=made.proposer, reason=made.reason,
    )  # fmt: skip


def _unmarked(made: Candidate) -> Candidate:
    marks = sorted({m for s in made.sources if not _HEADER.search(s.path) for m in _MARK.findall(s.text)})
    if marks:
        raise ReplyError(
            f"the source has marks {', '.join(f'@{m}@' for m in marks)} and no ```space block says their values"
        )
    return made


def _filled(source: SourceFile, first: Configuration) -> SourceFile:
    text = source.text
    for name, value in first.items():
        text = text.replace(f"@{name}@", str(value))
    return SourceFile(path=source.path, text=text)
