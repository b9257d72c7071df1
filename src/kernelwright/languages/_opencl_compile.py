"""Build an OpenCL program once to get the driver's log; run as a separate process by `opencl.py`.

`python -m kernelwright.languages._opencl_compile request.json result.json`
"""

import json
import sys
from pathlib import Path


def main(request_path: str, result_path: str) -> None:
    """Build the request's source for the default device and write log, argument names and evidence."""
    import pyopencl as cl

    from .opencl import default_device

    request = json.loads(Path(request_path).read_text())
    device = default_device()
    program = cl.Program(cl.Context([device]), request["source"])
    result: dict[str, object] = {"device": device.name}
    try:
        program.build(request["options"])
        kernel = cl.Kernel(program, request["symbol"])
    except cl.Error as error:
        result["error"] = str(error)
    else:
        facts = cl.kernel_work_group_info
        result["arguments"] = [
            kernel.get_arg_info(i, cl.kernel_arg_info.NAME) for i in range(kernel.num_args)
        ]
        result["evidence"] = {
            "work_group_size": kernel.get_work_group_info(facts.WORK_GROUP_SIZE, device),
            "preferred_multiple": kernel.get_work_group_info(
                facts.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, device
            ),
            "local_bytes": kernel.get_work_group_info(facts.LOCAL_MEM_SIZE, device),
            "private_bytes": kernel.get_work_group_info(facts.PRIVATE_MEM_SIZE, device),
        }
    result["log"] = program.get_build_info(device, cl.program_build_info.LOG)
    Path(result_path).write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
