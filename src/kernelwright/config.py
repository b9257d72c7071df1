"""Settings of the machine and user. The only file that reads environment variables."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Folders, tools and keys to use.

    Example:
        >>> Settings.from_environment({"KERNELWRIGHT_STORE": "/tmp/kw"}).store
        PosixPath('/tmp/kw')
    """

    store: Path
    """Folder of the run store (`KERNELWRIGHT_STORE`; the user's data directory by default)."""
    cache: Path
    """Folder of build caches and measured peaks (`KERNELWRIGHT_CACHE`)."""
    cxx: str | None
    """Requested C++ compiler (`KERNELWRIGHT_CXX`, else `CXX`). None: the first of g++, clang++."""
    nvcc: str | None
    """Requested CUDA compiler (`KERNELWRIGHT_NVCC`). None: `nvcc` on the path, then CUDA_HOME."""
    sandbox: str
    """Strongest isolation to use: `auto`, `bubblewrap`, `landlock` or `none` (`KERNELWRIGHT_SANDBOX`)."""
    suites: Path | None = None
    """Folder that holds the user's checkouts of benchmarks (`KERNELWRIGHT_SUITES`)."""
    tuning: str = "online"
    """Where numbers of templates come from (`KERNELWRIGHT_TUNING`): `online`, tables and short trials of
    calls; `table`; or `off`, kernels' own."""
    cuda_home: Path | None = None
    """Folder of the CUDA toolkit (`CUDA_HOME`)."""
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys of model providers by name: `OPENAI_API_KEY` is that of `openai`. They are sent only to that provider,
    never to a worker, a compiler, the store or a report."""
    base_urls: Mapping[str, str] = field(default_factory=dict)
    """Addresses of model providers by name, if not the default ones (`OPENAI_BASE_URL`)."""

    @classmethod
    def from_environment(cls, environ: dict[str, str] | None = None) -> "Settings":
        """Read the settings from `environ`, by default the process's own."""
        from platformdirs import user_cache_path, user_data_path

        env = dict(os.environ) if environ is None else environ
        store, cache = env.get("KERNELWRIGHT_STORE"), env.get("KERNELWRIGHT_CACHE")
        return cls(
            store=Path(store) if store else user_data_path("kernelwright"),
            cache=Path(cache) if cache else user_cache_path("kernelwright"),
            cxx=env.get("KERNELWRIGHT_CXX") or env.get("CXX"),
            nvcc=env.get("KERNELWRIGHT_NVCC"),
            sandbox=env.get("KERNELWRIGHT_SANDBOX", "auto"),
            suites=Path(env["KERNELWRIGHT_SUITES"]) if env.get("KERNELWRIGHT_SUITES") else None,
            tuning=env.get("KERNELWRIGHT_TUNING", "online"),
            cuda_home=Path(env["CUDA_HOME"]) if env.get("CUDA_HOME") else None,
            keys=_by_provider(env, "_API_KEY"),
            base_urls=_by_provider(env, "_BASE_URL"),
        )


_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|COOKIE", re.IGNORECASE)


def without_secrets(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a tool that reads untrusted input: without keys, tokens and passwords.

    Example:
        >>> without_secrets({"PATH": "/bin", "OPENAI_API_KEY": "sk-1", "HF_TOKEN": "hf-1"})
        {'PATH': '/bin'}
    """
    env = os.environ if environ is None else environ
    return {name: value for name, value in env.items() if not _SECRET.search(name)}


def _by_provider(env: Mapping[str, str], suffix: str) -> dict[str, str]:
    return {
        name.removesuffix(suffix).lower(): value
        for name, value in env.items()
        if name.endswith(suffix) and value
    }


def passed(patterns: Sequence[str]) -> dict[str, str]:
    """Return this process's variables whose names match a pattern, to pass to another program."""
    return {n: v for n, v in os.environ.items() if any(fnmatchcase(n, pattern) for pattern in patterns)}


def secrets() -> tuple[str, ...]:
    """Return the values of this process's keys, tokens and passwords, which no record may contain."""
    return tuple(value for name, value in os.environ.items() if _SECRET.search(name))
