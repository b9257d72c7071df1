"""Comparison → one HTML file."""

from pathlib import Path

import jinja2
from markupsafe import Markup

from ..compare import Comparison, Leg
from ._charts import intervals


def render_comparison(compared: Comparison, reproduce: str) -> str:
    """Render a comparison of recipes as one HTML document that loads nothing from anywhere."""
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here), autoescape=True, undefined=jinja2.StrictUndefined
    )
    legs = compared.legs
    targets = list(dict.fromkeys(leg.target for leg in legs))
    return environment.get_template("comparison.html").render(
        style=Markup((here / "report.css").read_text()),
        standings=compared.standings(),
        charts=[
            (Path(t).stem, intervals([_row(leg) for leg in legs if leg.target == t], 0.0)) for t in targets
        ],
        legs=legs,
        budget=compared.budget.model_dump(exclude_none=True),
        reproduce=reproduce,
    )


def _row(leg: Leg) -> tuple[str, float, float, float]:
    """Return a leg's accepted speedup and its limits; 1 where nothing was accepted."""
    speedup = leg.speedup
    return f"{leg.recipe}, seed {leg.seed}", speedup.median, speedup.at_least, speedup.at_most
