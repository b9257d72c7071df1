"""`kernelwright strategies`: the strategies, which decide the next edit, and their settings."""

from pydantic import JsonValue

from ._common import Common, print_json, table


def strategies(name: str | None = None, *, common: Common | None = None) -> int:
    """List the strategies with their settings, or explain the settings of one.

    Args:
        name: A strategy's name.
        common: Flags of every command.
    """
    from ..search.strategies import strategy_description, strategy_names

    common = common or Common()
    shown = [strategy_description(one) for one in ([name] if name else strategy_names())]
    if common.json:
        for one in shown:
            values: list[JsonValue] = [
                {"name": s.name, "default": s.default, "what": s.what} for s in one.settings
            ]
            print_json("strategy", name=one.name, what=one.what, settings=values)
        print_json("result", strategies=len(shown))
    elif name:
        print(f"{shown[0].name}: {shown[0].what}\n")
        settings = shown[0].settings
        table(
            [{"setting": s.name, "default": str(s.default), "what": s.what} for s in settings],
            empty="no settings",
        )
    else:
        table(
            [
                {
                    "strategy": s.name,
                    "settings": " ".join(f"{o.name}={o.default}" for o in s.settings),
                    "what": s.what,
                }
                for s in shown
            ],
            empty="",
        )
    return 0
