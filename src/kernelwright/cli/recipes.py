"""`kernelwright recipes`: published systems, composed from the same parts."""

from ._common import Common, print_json, table


def recipes(name: str | None = None, *, common: Common | None = None) -> int:
    """List the recipes, or show one: its source, what is reproduced and what is not.

    Args:
        name: A recipe's name, or the path of a recipe file.
        common: Flags of every command.
    """
    from ..search.recipe import load_recipe, recipe_names

    common = common or Common()
    shown = [load_recipe(one) for one in ([name] if name else recipe_names())]
    if common.json:
        for recipe in shown:
            print_json("recipe", **recipe.model_dump(mode="json"))
        print_json("result", recipes=len(shown))
    elif name:
        recipe = shown[0]
        print(f"{recipe.name}: {recipe.title}\n")
        for head, text in (
            ("source", recipe.source), ("reproduced", recipe.mechanism), ("not reproduced", recipe.left_out),
            ("strategy", " ".join([recipe.strategy, *(f"{k}={v}" for k, v in recipe.settings.items())])),
            ("begins with", ", ".join(recipe.proposers) or "nothing"),
        ):  # fmt: skip
            print(f"{head}: {text}")
    else:
        table([{"recipe": r.name, "strategy": r.strategy, "what": r.title} for r in shown], empty="")
    return 0
