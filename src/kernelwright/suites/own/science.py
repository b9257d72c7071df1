"""`science`: ten kinds of kernels that simulations consist of; sizes for confirmation are drawn apart.

Kinds as in Metal-Sci (vicgalle/metal-sci-kernels), whose held-out sizes caught kernels that were right at one size
alone; the problems here are others.
"""

import torch
from torch import Tensor

from ._row import Row
from ._written import Written


class Science(Written):
    """The suite of simulation kernels."""

    name = "science"
    layout = ("science.json",)
    title = "Stencils, particles, lattices, transforms and solvers; confirmed at sizes drawn apart"

    def rows(self) -> tuple[Row, ...]:
        """Return the problems."""
        return _ROWS


def _stencil(x: Tensor, rate: float = 0.1, steps: int = 3) -> Tensor:
    """Heat on a plate: explicit steps of the five-point Laplacian; the edge stays as it is."""
    x = x.clone()
    for _ in range(steps):
        inner = x[1:-1, 1:-1]
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        x[1:-1, 1:-1] = inner + rate * (around - 4 * inner)
    return x


def _stencil_3d(x: Tensor, weight: Tensor) -> Tensor:
    """One sweep of a 27-point stencil over a periodic box."""
    total = torch.zeros_like(x)
    for i in range(3):
        for j in range(3):
            for k in range(3):
                total = total + weight[i, j, k] * torch.roll(x, (i - 1, j - 1, k - 1), (0, 1, 2))
    return total


def _nbody(position: Tensor, mass: Tensor, softening: float = 0.1) -> Tensor:
    """Accelerations by softened gravity of all pairs."""
    apart = position[None, :, :] - position[:, None, :]
    near = (apart.square().sum(-1) + softening**2).rsqrt()
    return ((mass * near**3)[:, :, None] * apart).sum(1)


def _lattice_boltzmann(f: Tensor, relaxation: float = 0.8) -> tuple[Tensor, Tensor]:
    """One step of the D2Q9 lattice Boltzmann method, periodic: collide, then stream; also the density."""
    cx = torch.tensor([0, 1, 0, -1, 0, 1, -1, -1, 1], dtype=f.dtype)
    cy = torch.tensor([0, 0, 1, 0, -1, 1, 1, -1, -1], dtype=f.dtype)
    w = torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, dtype=f.dtype)
    density = f.sum(0)
    ux = torch.einsum("q,qxy->xy", cx, f) / density
    uy = torch.einsum("q,qxy->xy", cy, f) / density
    along = cx[:, None, None] * ux + cy[:, None, None] * uy
    still = 1 + 3 * along + 4.5 * along**2 - 1.5 * (ux**2 + uy**2)
    f = f + relaxation * (w[:, None, None] * density * still - f)
    moves = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
    return torch.stack([torch.roll(f[q], moves[q], (0, 1)) for q in range(9)]), density


def _fft(real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
    """Discrete Fourier transform of each row; real and imaginary parts apart."""
    found = torch.fft.fft(torch.complex(real, imaginary))
    return found.real, found.imag


def _fft_convolution(x: Tensor, kernel: Tensor) -> Tensor:
    """Circular convolution of each row with one kernel, by transforms."""
    found: Tensor = torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(kernel), n=x.shape[-1])
    return found


def _pairs(position: Tensor, neighbour: Tensor, cutoff: float = 0.6) -> tuple[Tensor, Tensor]:
    """Lennard-Jones forces and energies over a list of neighbours in a periodic box, with a soft core and a cutoff."""
    apart = position[:, None, :] - position[neighbour]
    apart = apart - torch.round(apart)
    squared = apart.square().sum(-1) + 0.1
    sixth = (0.25 / squared) ** 3
    inside = (squared < cutoff).to(position.dtype) * (cutoff - squared)
    energy = (4 * (sixth**2 - sixth) * inside).sum(1)
    force = ((24 * (2 * sixth**2 - sixth) / squared * inside)[:, :, None] * apart).sum(1)
    return force, energy


def _hmc(
    q: Tensor, p: Tensor, precision: Tensor, step: float = 0.05, leaps: int = 4
) -> tuple[Tensor, Tensor, Tensor]:
    """Leapfrog steps of Hamiltonian Monte Carlo for a Gaussian, every chain in a row, and the energy at the end."""
    p = p - 0.5 * step * (q @ precision)
    for i in range(leaps):
        q = q + step * p
        p = p - (0.5 if i == leaps - 1 else 1.0) * step * (q @ precision)
    energy = 0.5 * ((q @ precision) * q).sum(-1) + 0.5 * p.square().sum(-1)
    return q, p, energy


def _wave(now: Tensor, before: Tensor, speed: Tensor) -> tuple[Tensor, Tensor]:
    """Two leapfrog steps of the wave equation on a periodic grid whose speed of sound differs from place to place."""
    for _ in range(2):
        around = (
            torch.roll(now, 1, 0) + torch.roll(now, -1, 0) + torch.roll(now, 1, 1) + torch.roll(now, -1, 1)
        )
        now, before = 2 * now - before + speed * (around - 4 * now), now
    return now, before


def _sparse_solve(diagonal: Tensor, value: Tensor, column: Tensor, right: Tensor, sweeps: int = 4) -> Tensor:
    """Jacobi sweeps on a sparse system, a fixed number of entries a row off the diagonal (ELL format)."""
    x = right / diagonal
    for _ in range(sweeps):
        x = (right - (value * x[column]).sum(-1)) / diagonal
    return x


def _ray_march(direction: Tensor, centre: Tensor, radius: Tensor, steps: int = 6) -> Tensor:
    """Distance along each ray after steps of sphere tracing through a smooth union of spheres."""
    ray = direction / direction.norm(dim=-1, keepdim=True)
    depth = torch.zeros_like(ray[..., 0])
    for _ in range(steps):
        apart = (depth[..., None] * ray)[..., None, :] - centre
        distance = apart.square().sum(-1).add(1e-6).sqrt() - radius
        depth = depth - torch.logsumexp(-8 * distance, -1) / 8
    return depth


def _histogram(x: Tensor, bins: int = 61) -> tuple[Tensor, Tensor]:
    """Counts of each row's values by bin, and the bins' running totals."""
    counts = torch.zeros(x.shape[0], bins, dtype=torch.int64).scatter_add(1, x, torch.ones_like(x))
    return counts, counts.cumsum(1)


def _sort(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Sort each row's pairs by key; pairs of equal keys keep their order."""
    ordered, place = torch.sort(key, dim=-1, stable=True)
    return ordered, value.gather(-1, place)


_PLANE = {"rows": (40, 96), "columns": (40, 96)}
_ROWS = (
    Row("stencil", "stencil", _stencil, {"x": "float32[rows, columns]"}, _PLANE, held_out=3),
    Row("stencil_3d", "stencil", _stencil_3d, {"x": "float32[a, b, c]", "weight": "float32[3, 3, 3] normal(0.2)"},
        {"a": (10, 24), "b": (10, 24), "c": (10, 24)}, held_out=2),
    Row("nbody", "n_body", _nbody, {"position": "float32[bodies, 3]", "mass": "float32[bodies] uniform(0.1, 1)"},
        {"bodies": (60, 140)}, held_out=3),
    Row("lattice_boltzmann", "lattice_boltzmann", _lattice_boltzmann,
        {"f": "float32[9, rows, columns] uniform(0.05, 0.2)"},
        {"rows": (20, 48), "columns": (20, 48)}, held_out=3, regimes=()),
    Row("fft", "fft", _fft, {"real": "float32[batch, length]", "imaginary": "float32[batch, length]"},
        {"batch": (4, 16), "length": (128, 512, 64)}, held_out=3),
    Row("fft_convolution", "fft", _fft_convolution, {"x": "float32[batch, length]", "kernel": "float32[length]"},
        {"batch": (4, 16), "length": (128, 512, 32)}, held_out=3),
    Row("pairs", "molecular_pairs", _pairs,
        {"position": "float32[atoms, 3] uniform(0, 1)", "neighbour": "int64[atoms, list] index(atoms)"},
        {"atoms": (80, 200), "list": (8, 24)}, held_out=3, regimes=()),
    Row("hmc", "hmc", _hmc,
        {"q": "float32[chains, dim]", "p": "float32[chains, dim]", "precision": "float32[dim, dim] normal(0.3)"},
        {"chains": (16, 64), "dim": (8, 40)}, held_out=3),
    Row("wave", "wave", _wave,
        {"now": "float32[rows, columns]", "before": "float32[rows, columns]",
         "speed": "float32[rows, columns] uniform(0.05, 0.2)"}, _PLANE, held_out=3),
    Row("sparse_solve", "sparse_solve", _sparse_solve,
        {"diagonal": "float32[n] uniform(4, 8)", "value": "float32[n, entries] uniform(-0.5, 0.5)",
         "column": "int64[n, entries] index(n)", "right": "float32[n]"},
        {"n": (200, 500), "entries": (3, 9)}, held_out=3, regimes=()),
    Row("ray_march", "ray_march", _ray_march,
        {"direction": "float32[rows, columns, 3] uniform(0.1, 1)", "centre": "float32[spheres, 3] uniform(2, 4)",
         "radius": "float32[spheres] uniform(0.2, 0.6)"},
        {"rows": (12, 32), "columns": (12, 32), "spheres": (3, 9)}, held_out=3, regimes=()),
    Row("histogram", "histogram_sort", _histogram, {"x": "int64[rows, columns] integers(0, 61)"},
        {"rows": (4, 12), "columns": (300, 900)}, held_out=3),
    Row("sort", "histogram_sort", _sort,
        {"key": "int64[rows, columns] integers(0, 200)", "value": "float32[rows, columns]"},
        {"rows": (4, 12), "columns": (200, 600)}, held_out=3),
)  # fmt: skip
