"""The glossary stays one page: each term once, and each where the page says."""

import re
from pathlib import Path

HOME = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| (?!term \|)(.+?) \| .+ \| (.+) \|$", (HOME / "docs/glossary.md").read_text(), re.MULTILINE
)


def test_it_has_sixty_terms_at_most_and_each_once():
    terms = [term for terms, _ in ROWS for term in terms.split(", ")]
    assert 40 < len(ROWS) <= 60
    assert len(set(terms)) == len(terms)


def test_every_place_exists():
    places = [place for _, where in ROWS for place in re.findall(r"`(.+?)`", where)]
    assert len(places) >= len(ROWS)
    missing = [p for p in places if not (HOME / "src/kernelwright" / p).exists() and not (HOME / p).exists()]
    assert not missing
