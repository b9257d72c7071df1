"""Comparison of recipes → one HTML file."""

from pathlib import Path

import jinja2
from markupsafe import Markup

from ..api.compare import Comparison, Entry
from ._charts import intervals


def render_comparison(compared: Comparison, reproduce: str) -> str:
    """Render a comparison of recipes as one HTML document without external resources."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined
    )
    entries = compared.entries
    targets = list(dict.fromkeys(entry.target for entry in entries))
    return environment.get_template("comparison.html").render(
        style=Markup((here / "report.css").read_text()),
        standings=compared.standings(),
        charts=[
            (Path(t).stem, intervals([_row(entry) for entry in entries if entry.target == t], 0.0))
            for t in targets
        ],
        entries=entries,
        budget=compared.budget.model_dump(exclude_none=True),
        reproduce=reproduce,
    )


def _row(entry: Entry) -> tuple[str, float, float, float]:
    """Return an entry's accepted speedup and its limits; 1 if nothing was accepted."""
    speedup = entry.speedup
    return f"{entry.recipe}, seed {entry.seed}", speedup.median, speedup.at_least, speedup.at_most
