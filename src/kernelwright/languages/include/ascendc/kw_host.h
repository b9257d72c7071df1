// kw_host.h: what the host's half of an operator of CANN asks for: types, shapes, attributes, platform.
//
// Source: Ascend C API reference, "Host API": "TilingContext", "PlatformAscendC", whose figures are those of an Ascend 910B
// with 20 cube cores.
#ifndef KW_ASCENDC_HOST_H_
#define KW_ASCENDC_HOST_H_

#include <cstring>
#include <initializer_list>
#include <iostream>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>

#include "kernel_operator.h"

namespace ge {
enum DataType : int32_t {
  DT_FLOAT = 0, DT_FLOAT16 = 1, DT_INT8 = 2, DT_INT32 = 3, DT_UINT8 = 4, DT_INT16 = 6, DT_UINT16 = 7, DT_UINT32 = 8,
  DT_INT64 = 9, DT_UINT64 = 10, DT_DOUBLE = 11, DT_BOOL = 12, DT_COMPLEX64 = 16, DT_BF16 = 27, DT_UNDEFINED = 28
};
enum Format { FORMAT_ND = 2, FORMAT_NCHW = 0, FORMAT_NHWC = 1, FORMAT_FRACTAL_NZ = 29 };
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0, GRAPH_FAILED = 0xffffffff, GRAPH_PARAM_INVALID = 50331649,
                      GRAPH_NOT_CHANGED = 1343242304;
inline int size_of(DataType type) {
  switch (type) {
    case DT_INT8: case DT_UINT8: case DT_BOOL: return 1;
    case DT_FLOAT16: case DT_BF16: case DT_INT16: case DT_UINT16: return 2;
    case DT_INT64: case DT_UINT64: case DT_DOUBLE: case DT_COMPLEX64: return 8;
    default: return 4;
  }
}
inline int GetSizeByDataType(DataType type) { return size_of(type); }
struct TypeUtils {
  static bool GetDataTypeLength(DataType type, uint32_t& length) {
    length = static_cast<uint32_t>(size_of(type));
    return true;
  }
};
}  // namespace ge

namespace gert {
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  size_t GetDimNum() const { return dims_.size(); }
  int64_t GetDim(size_t i) const { return dims_.at(i); }
  int64_t operator[](size_t i) const { return dims_.at(i); }
  int64_t& operator[](size_t i) { return dims_.at(i); }
  void SetDim(size_t i, int64_t n) { dims_.at(i) = n; }
  void SetDimNum(size_t n) { dims_.resize(n); }
  void AppendDim(int64_t n) { dims_.push_back(n); }
  bool IsScalar() const { return dims_.empty(); }
  bool operator==(const Shape& other) const { return dims_ == other.dims_; }
  bool operator!=(const Shape& other) const { return dims_ != other.dims_; }
  int64_t GetShapeSize() const {
    int64_t n = 1;
    for (int64_t dim : dims_) n *= dim;
    return n;
  }

 private:
  std::vector<int64_t> dims_;
};
struct StorageShape {
  Shape shape;
  const Shape& GetStorageShape() const { return shape; }
  const Shape& GetOriginShape() const { return shape; }
};
struct CompileTimeTensorDesc {
  ge::DataType type;
  ge::DataType GetDataType() const { return type; }
  ge::Format GetStorageFormat() const { return ge::FORMAT_ND; }
  ge::Format GetOriginFormat() const { return ge::FORMAT_ND; }
};
struct Tensor {
  StorageShape shape;
  CompileTimeTensorDesc desc;
  const void* data;
  int64_t GetShapeSize() const { return shape.shape.GetShapeSize(); }
  ge::DataType GetDataType() const { return desc.type; }
  const Shape& GetStorageShape() const { return shape.shape; }
  const Shape& GetOriginShape() const { return shape.shape; }
  template <typename T>
  const T* GetData() const { return static_cast<const T*>(data); }
};
template <typename T>
struct TypedContinuousVector {
  std::vector<T> values;
  size_t GetSize() const { return values.size(); }
  const T* GetData() const { return values.data(); }
};
using ContinuousVector = TypedContinuousVector<int64_t>;
struct RuntimeAttr {
  enum Type { kInt, kFloat, kBool, kText, kList } type = kInt;
  int64_t integer = 0;
  float real = 0;
  bool flag = false;
  std::string text{};
  ContinuousVector list{};
  void set(double n) {
    integer = static_cast<int64_t>(n);
    real = static_cast<float>(n);
    flag = n != 0;
  }
};
// Values that a problem's constructor is given; of what type an attribute is, its operator says.
struct Named {
  const char* name;
  RuntimeAttr value;
};
inline RuntimeAttr number(double n) {
  RuntimeAttr made;
  made.set(n);
  return made;
}
inline RuntimeAttr text(const char* said) { return {RuntimeAttr::kText, 0, 0, false, said, {}}; }
inline RuntimeAttr list(std::initializer_list<int64_t> values) { return {RuntimeAttr::kList, 0, 0, false, "", {values}}; }
class RuntimeAttrs {
 public:
  explicit RuntimeAttrs(const std::vector<RuntimeAttr>& attrs) : attrs_(attrs) {}
  size_t GetAttrNum() const { return attrs_.size(); }
  const int64_t* GetInt(size_t i) const { return i < attrs_.size() ? &attrs_[i].integer : nullptr; }
  const float* GetFloat(size_t i) const { return i < attrs_.size() ? &attrs_[i].real : nullptr; }
  const bool* GetBool(size_t i) const { return i < attrs_.size() ? &attrs_[i].flag : nullptr; }
  const char* GetStr(size_t i) const { return i < attrs_.size() ? attrs_[i].text.c_str() : nullptr; }
  const ContinuousVector* GetListInt(size_t i) const { return i < attrs_.size() ? &attrs_[i].list : nullptr; }
  template <typename T>
  const T* GetAttrPointer(size_t i) const {
    if (i >= attrs_.size()) return nullptr;
    const RuntimeAttr& attr = attrs_[i];
    const void* values[] = {&attr.integer, &attr.real, &attr.flag, attr.text.c_str(), &attr.list};
    return static_cast<const T*>(values[attr.type]);
  }

 private:
  std::vector<RuntimeAttr> attrs_;
};
struct TilingData {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(64 << 10);
  size_t used = 0;
  void* GetData() { return bytes.data(); }
  size_t GetCapacity() const { return bytes.size(); }
  void SetDataSize(size_t n) { used = n; }
  size_t GetDataSize() const { return used; }
};
class TilingContext {
 public:
  std::vector<Tensor> inputs, outputs;
  RuntimeAttrs attrs{{}};
  TilingData tiling;
  uint32_t blocks = 1;
  uint64_t key = 0;
  size_t workspace[8] = {};
  const void* compiled = nullptr;

  const char* GetNodeName() const { return "operator"; }
  const char* GetNodeType() const { return "operator"; }
  size_t GetComputeNodeInputNum() const { return inputs.size(); }
  const StorageShape* GetInputShape(size_t i) const { return i < inputs.size() ? &inputs[i].shape : nullptr; }
  const StorageShape* GetOptionalInputShape(size_t i) const { return GetInputShape(i); }
  const StorageShape* GetOutputShape(size_t i) const { return i < outputs.size() ? &outputs[i].shape : nullptr; }
  const CompileTimeTensorDesc* GetInputDesc(size_t i) const { return i < inputs.size() ? &inputs[i].desc : nullptr; }
  const CompileTimeTensorDesc* GetOptionalInputDesc(size_t i) const { return GetInputDesc(i); }
  const CompileTimeTensorDesc* GetOutputDesc(size_t i) const { return i < outputs.size() ? &outputs[i].desc : nullptr; }
  const Tensor* GetInputTensor(size_t i) const { return i < inputs.size() ? &inputs[i] : nullptr; }
  const Tensor* GetOptionalInputTensor(size_t i) const { return GetInputTensor(i); }
  const RuntimeAttrs* GetAttrs() const { return &attrs; }
  void* GetPlatformInfo() const { return nullptr; }
  const void* GetCompileInfo() const { return compiled; }
  TilingData* GetRawTilingData() { return &tiling; }
  size_t* GetWorkspaceSizes(size_t) { return workspace; }
  void SetBlockDim(uint32_t n) { blocks = n; }
  uint32_t GetBlockDim() const { return blocks; }
  void SetTilingKey(uint64_t n) { key = n; }
  uint64_t GetTilingKey() const { return key; }
  int32_t GetDeterministic() const { return 0; }
  void SetScheduleMode(uint32_t) {}
  void SetNeedAtomic(bool) {}
};
struct TilingParseContext {
  void* compiled;
  void* GetPlatformInfo() { return nullptr; }
  const char* GetNodeName() const { return "operator"; }
  template <typename T>
  T* GetCompiledInfo() { return static_cast<T*>(compiled); }
};
struct InferShapeContext {  // declared for what infers shapes; never run here
  const Shape* GetInputShape(size_t) { return nullptr; }
  const Shape* GetOptionalInputShape(size_t) { return nullptr; }
  Shape* GetOutputShape(size_t) { return nullptr; }
  const CompileTimeTensorDesc* GetInputDesc(size_t) { return nullptr; }
  const Tensor* GetInputTensor(size_t) { return nullptr; }
  const RuntimeAttrs* GetAttrs() { return nullptr; }
  const char* GetNodeName() { return ""; }
};
struct InferDataTypeContext {
  ge::DataType GetInputDataType(size_t) { return ge::DT_UNDEFINED; }
  ge::graphStatus SetOutputDataType(size_t, ge::DataType) { return 0; }
};
}  // namespace gert
namespace ge {
struct Shape : gert::Shape {
  using gert::Shape::Shape;
  explicit Shape(const std::vector<int64_t>& dims) {
    for (int64_t dim : dims) AppendDim(dim);
  }
};
}  // namespace ge

namespace platform_ascendc {
enum class CoreMemType { L0_A, L0_B, L0_C, L1, L2, UB, HBM };
enum class SocVersion { ASCEND910, ASCEND910B, ASCEND310P, ASCEND310B, ASCEND910_93 };
constexpr uint32_t kCubeCores = 20;
class PlatformAscendC {
 public:
  explicit PlatformAscendC(const void*) {}
  uint32_t GetCoreNum() const { return 2 * kCubeCores; }
  uint32_t GetCoreNumAiv() const { return 2 * kCubeCores; }
  uint32_t GetCoreNumAic() const { return kCubeCores; }
  SocVersion GetSocVersion() const { return SocVersion::ASCEND910B; }
  uint32_t GetLibApiWorkSpaceSize() const { return 16 << 20; }
  uint32_t CalcTschBlockDim(uint32_t slices, uint32_t, uint32_t) const { return slices; }
  void GetCoreMemSize(CoreMemType type, uint64_t& size) const {
    using namespace kw::ascend;
    const int of[] = {L0A, L0B, L0C, L1, -1, UB, -1};
    const int memory = of[static_cast<int>(type)];
    size = memory < 0 ? uint64_t{192} << 20 : limits(memory).bytes;
  }
};
struct PlatformAscendCManager {
  static PlatformAscendC* GetInstance() {
    static PlatformAscendC platform(nullptr);
    return &platform;
  }
};
}  // namespace platform_ascendc

#endif  // KW_ASCENDC_HOST_H_
