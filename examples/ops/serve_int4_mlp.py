"""Serve a gated MLP in int4 over HTTP: a list of numbers in, a list of numbers out.

Run `python examples/ops/serve_int4_mlp.py`, then `curl -d '[0.1, 0.2, ...]' http://127.0.0.1:8000`, with as many
numbers as the model is wide. The weights take a seventh of what they take in float32.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch
from torch import nn

from kernelwright.ops import activations, lowbit


class MLP(nn.Module):
    """`down(silu(gate) * up)`, with gate and up in one layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(activations.swiglu(self.up(x)))


def quantized(model: MLP, bits: int = 4) -> MLP:
    """Put layers of few bits in the place of a model's own."""
    model.up = lowbit.LowBitLinear.from_linear(model.up, bits=bits)
    model.down = lowbit.LowBitLinear.from_linear(model.down, bits=bits)
    return model


def server(model: nn.Module, width: int, port: int = 8000) -> ThreadingHTTPServer:
    """Return a server on this machine alone; port 0 is any that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                x = torch.tensor(given, dtype=torch.float32)
                if x.shape[-1:] != (width,):
                    raise ValueError(f"the numbers are of shape {tuple(x.shape)}; expected {width} a row")
            except (ValueError, TypeError) as error:
                return self.send_error(400, str(error).partition("\n")[0])
            with torch.inference_mode():
                body = json.dumps(model(x).tolist()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing of each request."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--inner", type=int, default=4096)
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    model = quantized(MLP(given.width, given.inner))
    size = sum(t.nbytes for t in model.buffers()) / 2**20
    with server(model, given.width, given.port) as running:
        print(f"{size:.1f} MiB of weights on http://127.0.0.1:{running.server_port}", flush=True)
        running.serve_forever()


if __name__ == "__main__":
    main()
