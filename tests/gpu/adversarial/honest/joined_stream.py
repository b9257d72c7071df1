"""Half of the rows on a stream of its own, which the caller's stream waits for before the call returns."""

import torch

TASK = "softmax"

streams = []


def run(x, weight):
    if not streams:
        streams.append(torch.cuda.Stream())
    side, here = streams[0], torch.cuda.current_stream()
    out = torch.empty_like(x)
    half = x.shape[0] // 2
    side.wait_stream(here)
    with torch.cuda.stream(side):
        torch.mul(torch.softmax(x[:half], -1), weight, out=out[:half])
    torch.mul(torch.softmax(x[half:], -1), weight, out=out[half:])
    here.wait_stream(side)
    for tensor in (x, weight, out):
        tensor.record_stream(side)
    return out
