"""A driver without Ray: evaluators are threads, and what should go wrong is in the address, a step for each start.

`refuse` answers as where there is no cluster; `crash` ends at the third job; `mute` says nothing; `poison` loses every
evaluator in its job; `other` has evaluators of another version, `behind` some that other programs come before.
"""

import json
import os
import sys
import time
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from kernelwright.cluster._job import Place, Workplace, versions
from kernelwright.devices import Device


def place(name, **more):
    device = Device(kind="cpu", name="planted", cores=1, memory_bytes=1, torch_device="cpu")
    fields = {"cores": (0,), "alone": True, "noise": 0.01, "versions": versions(), **more}
    return Place(name=name, node="n", host="planted", device=device, **fields)


def main():
    connection, asked = Connection(int(sys.argv[1])), json.loads(sys.argv[2])
    file = Path(asked["address"])
    fault, _, rest = file.read_text().partition(" ")
    file.write_text(rest)
    if fault == "refuse":
        connection.send(("refused", "", "nobody is there"))
        return
    if fault == "mute":
        time.sleep(60)
    connection.send(("alive", "", ""))
    number, jobs = 0, 0

    def arrive():
        more = {"versions": {"torch": "0"}} if fault == "other" else {"behind": fault == "behind"}
        connection.send(("place", f"e{number}", place(f"e{number}", **more).to_json()))

    arrive()
    while True:
        connection.poll(0.2)
        connection.send(("alive", "", ""))
        if not connection.poll(0):
            continue
        try:
            kind, name, job = connection.recv()
        except EOFError:
            return
        if kind == "file":
            continue
        jobs += 1
        if fault == "crash" and jobs == 3:
            os._exit(1)
        if fault == "poison":
            connection.send(("lost", name, (True, "it died")))
            number += 1
            arrive()
            continue
        module, _, function = job.function.partition(":")
        text = getattr(import_module(module), function)(job.text, Workplace(place(name), Path()))
        connection.send(("done", name, (job.key, "answer", text)))


def echo(text, here):
    return f"{text} from {here.place.host}"


if __name__ == "__main__":
    main()
