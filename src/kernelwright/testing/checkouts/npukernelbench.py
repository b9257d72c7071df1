"""NPUKernelBench's layout: an operator of level 1 with an attribute, one of level 2 with two inputs; their kernels."""

_MODULE = """import torch
import torch_npu
import torch.nn as nn

import kernel_gen_ops


class Model(nn.Module):
    def forward(self, {arguments}):
        return {expression}


class ModelNew(nn.Module):
    def forward(self, *given):
        return kernel_gen_ops.{operator}(*given)
"""
_INPUTS = """import torch

from framework.utils import check_precision


def get_inputs(param, device=None):
    shape, dtype = eval(param.get("shape", "[1]")), getattr(torch, param.get("dtype", "float16"))
    return {drawn}


def get_init_inputs(param, device=None):
    return []
"""
_CASES = (
    "case_id;shape;dtype;alpha\n0;[4, 8192, 64];float32;1.5\n1;[24, 100];float32;1.5\n2;[8, 32];float16;2.0\n"
)
_HOST = """#include "register/op_def_registry.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {{
constexpr uint32_t TILE = 512;
BEGIN_TILING_DATA_DEF({operator}TilingData)
  TILING_DATA_FIELD_DEF(uint32_t, total);
  TILING_DATA_FIELD_DEF(uint32_t, tile);
  TILING_DATA_FIELD_DEF(float, alpha);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS({operator}, {operator}TilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {{
  auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
  {operator}TilingData tiling;
  const uint32_t total = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
  const float* alpha = context->GetAttrs()->GetAttrPointer<float>(0);
  tiling.set_total(total);
  tiling.set_tile(TILE);
  tiling.set_alpha(alpha ? *alpha : 0);
  const uint32_t tiles = (total + TILE - 1) / TILE;
  context->SetBlockDim(tiles < platform.GetCoreNumAiv() ? tiles : platform.GetCoreNumAiv());
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 0;
  return ge::GRAPH_SUCCESS;
}}
}}  // namespace optiling

namespace ops {{
class {operator} : public OpDef {{
 public:
  explicit {operator}(const char* name) : OpDef(name) {{
{parameters}
    this->AICore().SetTiling(optiling::TilingFunc).AddConfig("ascend910b");
  }}
}};
OP_ADD({operator});
}}  // namespace ops
"""
_KERNEL = """#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t TILE = 1;  // a name that the host's half has too

extern "C" __global__ __aicore__ void {name}({pointers}, GM_ADDR workspace, GM_ADDR tiling) {{
  GET_TILING_DATA(data, tiling);
  TPipe pipe;
  TQue<QuePosition::VECIN, 1> in;
  TQue<QuePosition::VECOUT, 1> out;
  pipe.InitBuffer(in, {inputs}, data.tile * sizeof(DTYPE_X));
  pipe.InitBuffer(out, 1, data.tile * sizeof(DTYPE_X));
  GlobalTensor<DTYPE_X> source, target;
  target.SetGlobalBuffer((__gm__ DTYPE_Z*)z, data.total);
  for (uint32_t at = GetBlockIdx() * data.tile; at < data.total; at += GetBlockNum() * data.tile) {{
    const uint32_t count = data.total - at < data.tile ? data.total - at : data.tile;
    const DataCopyExtParams part{{1, count * (uint32_t)sizeof(DTYPE_X), 0, 0, 0}};
    LocalTensor<DTYPE_X> c = out.AllocTensor<DTYPE_X>();
{body}
    out.EnQue(c);
    c = out.DeQue<DTYPE_X>();
    DataCopyPad(target[at], c, part);
    out.FreeTensor(c);
  }}
}}

#ifndef ASCENDC_CPU_DEBUG
void {name}_do(uint32_t blocks, void* stream) {{ {name}<<<blocks, nullptr, stream>>>(); }}
#endif
"""
_LOAD = """    source.SetGlobalBuffer((__gm__ DTYPE_X*){of}, data.total);
    LocalTensor<DTYPE_X> {to} = in.AllocTensor<DTYPE_X>();
    DataCopyPad({to}, source[at], part, DataCopyPadExtParams<DTYPE_X>{{false, 0, 0, (DTYPE_X)0.0f}});
    in.EnQue({to});
    {to} = in.DeQue<DTYPE_X>();
"""
_SCALE = (
    _LOAD.format(of="x", to="a")
    + """    Muls(c, a, (DTYPE_X)data.alpha, count);
    Adds(c, c, (DTYPE_X)1.0f, count);
    in.FreeTensor(a);"""
)
_RAMP = (
    _LOAD.format(of="x", to="a")
    + _LOAD.format(of="y", to="b")
    + """    Sub(c, a, b, count);
    Relu(c, c, count);
    in.FreeTensor(a);
    in.FreeTensor(b);"""
)
_TENSOR = (
    '    this->{kind}("{name}").ParamType(REQUIRED).DataType({{ge::DT_FLOAT}}).Format({{ge::FORMAT_ND}});'
)


def _operator(home: str, name: str, inputs: str, expression: str, drawn: str, body: str) -> dict[str, str]:
    parameters = [_TENSOR.format(kind="Input", name=one) for one in inputs]
    parameters.append(_TENSOR.format(kind="Output", name="z"))
    arguments = ", ".join(inputs)
    if "alpha" in expression:
        parameters.append('    this->Attr("alpha").AttrType(OPTIONAL).Float(1.0);')
        arguments += ", alpha"
    made = name.lower()
    return {
        f"{home}/{name}/validation/module.py": _MODULE.format(
            arguments=arguments, expression=expression, operator=made
        ),
        f"{home}/{name}/validation/prepare_inputs.py": _INPUTS.format(drawn=drawn),
        f"{home}/{name}/validation/test_cases.csv": _CASES,
        f"{home}/{name}/answer/0/op_host/{made}.cpp": _HOST.format(
            operator=name, parameters="\n".join(parameters)
        ),
        f"{home}/{name}/answer/0/op_kernel/{made}.cpp": _KERNEL.format(
            name=made,
            pointers=", ".join(f"GM_ADDR {one}" for one in (*inputs, "z")),
            inputs=len(inputs),
            body=body,
        ),
    }


FILES = {
    "framework/utils.py": "",
    **_operator(
        "tasks/level1/Math", "Scale", "x", "alpha * x + 1.0",
        '(torch.randn(shape, dtype=dtype), param.get("alpha", 1.0))', _SCALE,
    ),
    **_operator(
        "tasks/level2/Activation", "Ramp", "xy", "torch.relu(x - y)",
        "(torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype))", _RAMP,
    ),
}  # fmt: skip
"""Text by path."""
