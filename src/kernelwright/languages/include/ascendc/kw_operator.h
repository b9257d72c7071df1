// kw_operator.h: an operator of CANN, called with its inputs, attributes and outputs.
//
// An operator's folders `op_host` and `op_kernel` are included as they are; KW_OPERATOR makes a kernel of them. The
// operator's tiling function works out blocks, tiling data and workspace from what it is called with, then its kernel is
// launched with those.
//
// Source: Ascend C API reference, "Host API": "Tiling data structure registration", "Prototype registration and
// management".
#ifndef KW_ASCENDC_OPERATOR_H_
#define KW_ASCENDC_OPERATOR_H_

#include "kw_host.h"

// ---- tiling data: a class of plain fields, the same on both sides ---------------------------------------------------

#define BEGIN_TILING_DATA_DEF(name)                                                                        \
  struct name {                                                                                            \
    using Itself = name;                                                                                   \
    size_t GetDataSize() const { return sizeof(*this); }                                                   \
    void SaveToBuffer(void* to, size_t capacity) const {                                                   \
      if (capacity >= sizeof(*this)) memcpy(to, static_cast<const void*>(this), sizeof(*this));            \
    }
#define TILING_DATA_FIELD_DEF(type, field)     \
  type field{};                                \
  void set_##field(type value) { field = value; } \
  type get_##field() const { return field; }
#define TILING_DATA_FIELD_DEF_ARR(type, count, field)                                      \
  type field[count] = {};                                                                  \
  void set_##field(const type* values) { memcpy(field, values, sizeof(field)); }           \
  const type* get_##field() const { return field; }
#define TILING_DATA_FIELD_DEF_STRUCT(type, field) type field{};
#define END_TILING_DATA_DEF };
#define REGISTER_TILING_DATA_CLASS(op, name) using KwTilingOf##op = name;
#define GET_TILING_DATA_WITH_STRUCT(name, data, tiling)                  \
  name data;                                                             \
  memcpy(static_cast<void*>(&data), tiling, sizeof(data))
#define GET_TILING_DATA(data, tiling) GET_TILING_DATA_WITH_STRUCT(KwTiling, data, tiling)
#define TILING_KEY_IS(n) (::kw::ascend::tiling_key() == (n))
#define KERNEL_TASK_TYPE_DEFAULT(type)
#define KERNEL_TASK_TYPE(key, type)
#undef ASSERT
#define ASSERT(condition)
#define ASCENDC_CPU_DEBUG 1
#define OP_LOGD(...)
#define OP_LOGI(...)
#define OP_LOGE(...)
#define OP_LOGE_WITHOUT_REPORT(...)
#define OP_CHECK(condition, log, result) \
  if (condition) {                       \
    log;                                 \
    result;                              \
  }
#define OP_TILING_CHECK(condition, log, result) OP_CHECK(condition, log, result)
#define OPS_CHECK_NULL_WITH_CONTEXT(context, pointer) \
  if (!(pointer)) return ge::GRAPH_FAILED
#define VECTOR_INNER_ERR_REPORT_TILIING(...)
#define OPS_REPORT_VECTOR_INNER_ERR(...)
#define REPORT_INNER_ERROR(...)
#define OP_ADD(name)
#define IMPL_OP_OPTILING(op) static const ::ops::Registered kw_registered_##op = ::ops::Registered()
#define IMPL_OP_INFERSHAPE(op) static const ::ops::Registered kw_inferred_##op = ::ops::Registered()

namespace kw {
namespace ascend {
inline uint64_t& tiling_key() {
  static thread_local uint64_t key = 0;
  return key;
}
}  // namespace ascend
}  // namespace kw
namespace AscendC {
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }
namespace detail {
inline GM_ADDR& system_workspace() {
  static thread_local GM_ADDR set = nullptr;
  return set;
}
}  // namespace detail
inline void SetSysWorkspace(GM_ADDR workspace) { detail::system_workspace() = workspace; }
inline GM_ADDR GetSysWorkSpacePtr() { return detail::system_workspace(); }
inline void GetMeanMaxMinTmpSize(uint32_t, uint32_t size, uint32_t, bool, uint32_t& most, uint32_t& least) {
  most = least = 256 * size;  // where rows are added up; the calls here need none
}
inline void GetSigmoidMaxMinTmpSize(const gert::Shape& shape, uint32_t size, bool, uint32_t& most, uint32_t& least) {
  most = static_cast<uint32_t>(shape.GetShapeSize()) * size, least = 256;
}
}  // namespace AscendC
using AscendC::GetSysWorkSpacePtr;
using AscendC::GetUserWorkspace;
using AscendC::SetSysWorkspace;

// ---- what an operator says of itself ---------------------------------------------------------------------------------

namespace ops {
enum ParamKind { REQUIRED, OPTIONAL, DYNAMIC };
struct OpParamDef {
  std::string name;
  OpParamDef& ParamType(ParamKind) { return *this; }
  OpParamDef& DataType(const std::vector<ge::DataType>&) { return *this; }
  OpParamDef& DataTypeList(const std::vector<ge::DataType>&) { return *this; }
  OpParamDef& Format(const std::vector<ge::Format>&) { return *this; }
  OpParamDef& UnknownShapeFormat(const std::vector<ge::Format>&) { return *this; }
  OpParamDef& FormatList(const std::vector<ge::Format>&) { return *this; }
  OpParamDef& ValueDepend(ParamKind) { return *this; }
  OpParamDef& AutoContiguous() { return *this; }
  OpParamDef& IgnoreContiguous() { return *this; }
  OpParamDef& InitValue(double) { return *this; }
  OpParamDef& Scalar() { return *this; }
};
struct OpAttrDef {
  std::string name;
  gert::RuntimeAttr value{};
  OpAttrDef& AttrType(ParamKind) { return *this; }
  OpAttrDef& Int(int64_t n = 0) { return set(gert::RuntimeAttr::kInt, static_cast<double>(n)); }
  OpAttrDef& Float(float n = 0) { return set(gert::RuntimeAttr::kFloat, n); }
  OpAttrDef& Bool(bool n = false) { return set(gert::RuntimeAttr::kBool, n); }
  OpAttrDef& String(const char* said = "") {
    value.text = said;
    return set(gert::RuntimeAttr::kText, 0);
  }
  OpAttrDef& ListInt(const std::vector<int64_t>& values = {}) {
    value.list.values = values;
    return set(gert::RuntimeAttr::kList, 0);
  }
  OpAttrDef& set(gert::RuntimeAttr::Type type, double n) {
    value.type = type;
    value.set(n);
    return *this;
  }
};
using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);
struct OpAICoreConfig {
  template <typename... Any>
  OpAICoreConfig& ExtendCfgInfo(Any...) { return *this; }
  OpAICoreConfig& DynamicCompileStaticFlag(bool) { return *this; }
  OpAICoreConfig& DynamicFormatFlag(bool) { return *this; }
  OpAICoreConfig& DynamicRankSupportFlag(bool) { return *this; }
  OpAICoreConfig& DynamicShapeSupportFlag(bool) { return *this; }
  OpAICoreConfig& NeedCheckSupportFlag(bool) { return *this; }
  OpAICoreConfig& PrecisionReduceFlag(bool) { return *this; }
  OpParamDef& Input(const char*) { return unused; }
  OpParamDef& Output(const char*) { return unused; }
  OpParamDef unused;
};
struct OpAICoreDef {
  TilingFunction tiling = nullptr;
  OpAICoreDef& SetTiling(TilingFunction function) {
    tiling = function;
    return *this;
  }
  OpAICoreDef& AddConfig(const char*) { return *this; }
  OpAICoreDef& AddConfig(const char*, const OpAICoreConfig&) { return *this; }
};
// A tiling function that is registered apart from the operator, and what it works out once.
struct Registered {
  TilingFunction tiling = nullptr;
  std::shared_ptr<void> compiled;
  Registered& Tiling(TilingFunction function) {
    tiling = function;
    return *this;
  }
  template <typename T>
  Registered& TilingParse(ge::graphStatus (*function)(gert::TilingParseContext*)) {
    compiled = std::make_shared<T>();
    gert::TilingParseContext context{compiled.get()};
    function(&context);
    return *this;
  }
  template <typename Function>
  Registered& InferShape(Function) { return *this; }
  template <typename Function>
  Registered& InferDataType(Function) { return *this; }
};
class OpDef {
 public:
  explicit OpDef(const char*) {}
  OpParamDef& Input(const char* name) { return inputs.emplace_back(OpParamDef{name}); }
  OpParamDef& Output(const char* name) { return outputs.emplace_back(OpParamDef{name}); }
  OpAttrDef& Attr(const char* name) { return attrs.emplace_back(OpAttrDef{name}); }
  OpAICoreDef& AICore() { return core; }
  template <typename Function>
  OpDef& SetInferShape(Function) { return *this; }
  template <typename Function>
  OpDef& SetInferDataType(Function) { return *this; }
  std::deque<OpParamDef> inputs, outputs;
  std::deque<OpAttrDef> attrs;
  OpAICoreDef core;
};
}  // namespace ops

namespace kw {
namespace ascend {

// An operator called with its inputs, then its attributes in their order but for those that have a value by name, then its
// outputs; `results` are their types as the operator has them.
class Operator {
 public:
  Operator(const ops::OpDef& def, const ops::Registered& apart, const gert::Named* given, const ge::DataType* results,
           const Args& args) {
    int at = 0;
    const int ins = static_cast<int>(def.inputs.size()), outs = static_cast<int>(def.outputs.size());
    std::vector<gert::RuntimeAttr> attrs;
    std::deque<size_t> open;  // attributes that the call gives
    for (const auto& attr : def.attrs) {
      const auto* found = given;
      while (*found->name && attr.name != found->name) ++found;
      attrs.push_back(*found->name ? found->value : attr.value);
      attrs.back().type = attr.value.type;
      if (!*found->name) open.push_back(attrs.size() - 1);
    }
    for (; static_cast<int>(context.inputs.size()) < ins && at < args.size() - outs; ++at) {
      if (args.is_tensor(at)) context.inputs.push_back(tensor(args, at, false));
      else scalar(args, at, attrs, open);
    }
    for (; at < args.size() - outs; ++at) scalar(args, at, attrs, open);
    for (; at < args.size(); ++at) context.outputs.push_back(result(tensor(args, at, true), results[at - args.size() + outs]));
    if (static_cast<int>(context.inputs.size()) != ins || static_cast<int>(context.outputs.size()) != outs)
      KW_UNSUPPORTED("the operator has other numbers of inputs and outputs than it is called with");
    context.attrs = gert::RuntimeAttrs(attrs);
    const ops::TilingFunction tiling = def.core.tiling ? def.core.tiling : apart.tiling;
    context.compiled = apart.compiled.get();
    if (!tiling || tiling(&context) != ge::GRAPH_SUCCESS)
      ::kw::raise("RuntimeError", "", "the operator's tiling function fails for these inputs");
    tiling_key() = context.key;
    workspace_.resize(context.workspace[0] + 1);
    lend(workspace_.data(), static_cast<int64_t>(workspace_.size()), true);
  }
  gert::TilingContext context;
  GM_ADDR in(size_t i) { return address(context.inputs[i]); }
  GM_ADDR out(size_t i) { return address(context.outputs[i]); }
  GM_ADDR workspace() { return workspace_.data(); }
  GM_ADDR tiling() { return context.tiling.bytes.data(); }
  void finish() const {
    for (const auto& one : converted_) {
      switch (one.first.desc.type) {
        case ge::DT_FLOAT: numbers<float>(one.first, one.second); break;
        case ge::DT_FLOAT16: numbers<half>(one.first, one.second); break;
        case ge::DT_BF16: numbers<bfloat16_t>(one.first, one.second); break;
        case ge::DT_INT32: numbers<int32_t>(one.first, one.second); break;
        case ge::DT_INT64: numbers<int64_t>(one.first, one.second); break;
        case ge::DT_INT16: numbers<int16_t>(one.first, one.second); break;
        default: numbers<uint8_t>(one.first, one.second);  // int8, uint8
      }
    }
  }

 private:
  static GM_ADDR address(const gert::Tensor& tensor) {
    return static_cast<GM_ADDR>(const_cast<void*>(tensor.data));
  }
  static gert::Tensor tensor(const Args& args, int i, bool writable) {
    const DLTensor* given = args.any_tensor(i);
    gert::Tensor made{{}, {type_of(given->dtype)}, static_cast<const uint8_t*>(given->data) + given->byte_offset};
    for (int d = 0; d < given->ndim; ++d) made.shape.shape.AppendDim(given->shape[d]);
    lend(address(made), made.GetShapeSize() * ge::size_of(made.desc.type), writable);
    return made;
  }
  static void scalar(const Args& args, int i, std::vector<gert::RuntimeAttr>& attrs, std::deque<size_t>& open) {
    if (open.empty()) KW_UNSUPPORTED("the operator has fewer attributes than it is called with");
    attrs[open.front()].set(args.real(i));
    open.pop_front();
  }
  // Truth values that are wanted as numbers are converted when the kernel is done.
  gert::Tensor result(const gert::Tensor& wanted, ge::DataType made) {
    if (made != ge::DT_BOOL || wanted.desc.type == made) return wanted;
    gert::Tensor truths = wanted;
    converted_.emplace_back(wanted, std::vector<uint8_t>(static_cast<size_t>(wanted.GetShapeSize()) + 1));
    truths.desc.type = made;
    truths.data = converted_.back().second.data();
    lend(address(truths), truths.GetShapeSize(), true);
    return truths;
  }
  template <typename T>
  static void numbers(const gert::Tensor& to, const std::vector<uint8_t>& truths) {
    for (int64_t i = 0; i < to.GetShapeSize(); ++i)
      reinterpret_cast<T*>(address(to))[i] = static_cast<T>(static_cast<float>(truths[static_cast<size_t>(i)] != 0));
  }
  static ge::DataType type_of(const DLDataType& type) {
    const bool wide = type.bits == 64, half = type.bits == 16;
    switch (type.code) {
      case kDLBfloat: return ge::DT_BF16;
      case kDLFloat: return wide ? ge::DT_DOUBLE : half ? ge::DT_FLOAT16 : ge::DT_FLOAT;
      case kDLBool: return ge::DT_BOOL;
      case kDLInt: return wide ? ge::DT_INT64 : half ? ge::DT_INT16 : type.bits == 8 ? ge::DT_INT8 : ge::DT_INT32;
      case kDLUInt: return wide ? ge::DT_UINT64 : half ? ge::DT_UINT16 : type.bits == 8 ? ge::DT_UINT8 : ge::DT_UINT32;
      default: return ge::DT_UNDEFINED;
    }
  }
  std::vector<uint8_t> workspace_;
  std::deque<std::pair<gert::Tensor, std::vector<uint8_t>>> converted_;
};

}  // namespace ascend
}  // namespace kw

// `launch` names the kernel's function and the pointers that it takes of `op`; before it stand `kw_attributes`, closed by
// one with no name, and `kw_results`.
#define KW_OPERATOR(name, def, apart, launch)                                                   \
  KW_KERNEL(name) {                                                                             \
    const def made(#def);                                                                       \
    ::kw::ascend::Operator op(made, apart, kw_attributes, kw_results, args);                    \
    ::kw::ascend::run(static_cast<int>(op.context.blocks), [&] { launch; });                    \
    op.finish();                                                                                \
  }

#endif  // KW_ASCENDC_OPERATOR_H_
