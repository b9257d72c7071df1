"""The judge's end of the channel against a worker that says anything."""

import os
import random
import socket
import time

import pytest

from kernelwright.sandbox import FailureKind, WorkerFailure
from kernelwright.sandbox._channel import Channel, encode


def channel() -> tuple[Channel, socket.socket, int]:
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    return Channel(ours, read, os.open(os.devnull, os.O_RDONLY)), theirs, write


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_end_in_a_message_or_a_failure(seed: int) -> None:
    chance = random.Random(seed)
    judge, worker, output = channel()
    valid = encode({"id": 1, "text": "ü" * chance.randrange(10)})
    data = bytearray(valid * 3)
    for _ in range(chance.randrange(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    worker.send(bytes(data[: chance.randrange(len(data))]))
    worker.close()
    with pytest.raises(WorkerFailure) as failure:
        while isinstance(judge.receive(time.monotonic() + 60), dict):
            continue
    assert failure.value.kind in {FailureKind.PROTOCOL, FailureKind.CRASHED}
    judge.close()
    os.close(output)


def test_a_message_in_pieces_is_put_together_and_output_is_kept_apart() -> None:
    judge, worker, output = channel()
    os.write(output, b"hello")
    message = encode({"id": 7})
    worker.send(message[:3])
    with pytest.raises(WorkerFailure) as failure:
        judge.receive(time.monotonic() + 0.05)
    assert failure.value.kind is FailureKind.TIMEOUT and failure.value.output == "hello"
    worker.send(message[3:])
    assert judge.receive(time.monotonic() + 60) == {"id": 7}
    judge.require_silence()
    worker.send(b"x")
    with pytest.raises(WorkerFailure, match="nobody asked"):
        judge.require_silence()
    judge.close()
    worker.close()
    os.close(output)


def test_a_worker_that_does_not_read_cannot_block_the_judge() -> None:
    judge, worker, output = channel()
    with pytest.raises(WorkerFailure) as failure:
        judge.send(b"x" * (64 << 20), time.monotonic() + 0.1)
    assert failure.value.kind is FailureKind.TIMEOUT
    judge.close()
    worker.close()
    os.close(output)
