"""Names of models: `provider:model`, with an optional `@URL` for a custom address."""

from dataclasses import dataclass

from ..errors import InputError

_FORM = "expected PROVIDER:MODEL or PROVIDER:MODEL@URL, such as local:qwen3@http://127.0.0.1:8000/v1"


@dataclass(frozen=True)
class ModelName:
    """A model's name in its parts."""

    provider: str
    """Name of the entry point in `kernelwright.providers`."""
    model: str
    """The provider's own name for it."""
    base_url: str = ""
    """Its address, if the name contains one."""

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" + (f"@{self.base_url}" if self.base_url else "")


def parse_name(text: str) -> ModelName:
    """Parse a model's name.

    Raises:
        InputError: it has no provider or no model, or its address is invalid.

    Example:
        >>> parse_name("local:qwen/qwen3:8b@http://127.0.0.1:8000/v1")
        ModelName(provider='local', model='qwen/qwen3:8b', base_url='http://127.0.0.1:8000/v1')
    """
    provider, _, rest = text.partition(":")
    for scheme in ("@http://", "@https://"):
        model, found, address = rest.partition(scheme)
        if found:
            break
    else:
        model, found, address = rest, "", ""
    if not provider or not model or "@http" in model or (found and not address):
        raise InputError(f"model {text!r} is no name of a model; {_FORM}")
    return ModelName(provider, model, found[1:] + address if found else "")
