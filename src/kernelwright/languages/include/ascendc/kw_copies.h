// kw_copies.h: DataCopy and DataCopyPad. Part of kernel_operator.h, inside its namespace.
//
// Source: Ascend C API reference, "Basic Data Movement", "DataCopyPad(ISASI)"; Ascend C programming guide, "Overview" of
// vector operators: the length of what DataCopy moves, and where it starts in the Unified Buffer, are multiples of 32.

struct DataCopyParams {
  uint16_t blockCount = 1, blockLen = 0, srcStride = 0, dstStride = 0;  // all but the first in 32 bytes
};
struct DataCopyExtParams {
  uint16_t blockCount = 1;
  uint32_t blockLen = 0;                   // bytes
  uint32_t srcStride = 0, dstStride = 0;   // gaps: bytes in global memory, 32 bytes in the Unified Buffer
  uint32_t rsv = 0;
};
template <typename T>
struct DataCopyPadExtParams {
  bool isPad = false;
  uint8_t leftPadding = 0, rightPadding = 0;  // elements, at most 32 bytes each
  T paddingValue = T();
};
struct DataCopyPadParams {
  bool isPad = false;
  uint8_t leftPadding = 0, rightPadding = 0;
  uint64_t paddingValue = 0;  // its bits
};

namespace detail {
inline uint32_t whole(uint64_t bytes, Where at) {
  if (bytes % kBlock)
    fault("length", at, "DataCopy of %llu bytes, no multiple of %u: the device drops the rest; DataCopyPad takes any length",
          static_cast<unsigned long long>(bytes), kBlock);
  return static_cast<uint32_t>(bytes);
}
template <typename T>
void in(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t bytes, Where at, const char* what) {
  const T* from = src.read(kw::ascend::MTE2, bytes, at, what);
  memcpy(dst.write(kw::ascend::MTE2, bytes, at, what), from, bytes);
}
template <typename T>
void out(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t bytes, Where at, const char* what) {
  const T* from = src.read(kw::ascend::MTE3, bytes, at, what);
  T* to = dst.write(kw::ascend::MTE3, bytes, at, what);
  if (!core()->adds) {
    memcpy(to, from, bytes);
    return;
  }
  for (uint32_t i = 0; i < bytes / sizeof(T); ++i) to[i] = static_cast<T>(to[i] + from[i]);
}
inline uint32_t rounded(uint32_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }
}  // namespace detail

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& given, KW_AT) {
  core()->issue(kw::ascend::MTE2, KW_HERE, "DataCopy");
  const uint32_t bytes = given.blockLen * kBlock;
  for (uint32_t n = 0; n < given.blockCount; ++n)
    detail::in(dst.aligned(KW_HERE, "DataCopy").at_byte(n * (bytes + given.dstStride * kBlock)),
               src.at_byte(static_cast<int64_t>(n) * (bytes + given.srcStride * kBlock)), bytes, KW_HERE, "DataCopy");
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& given, KW_AT) {
  core()->issue(kw::ascend::MTE3, KW_HERE, "DataCopy");
  const uint32_t bytes = given.blockLen * kBlock;
  for (uint32_t n = 0; n < given.blockCount; ++n)
    detail::out(dst.at_byte(static_cast<int64_t>(n) * (bytes + given.dstStride * kBlock)),
                src.aligned(KW_HERE, "DataCopy").at_byte(n * (bytes + given.srcStride * kBlock)), bytes, KW_HERE, "DataCopy");
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count, KW_AT) {
  core()->issue(kw::ascend::MTE2, KW_HERE, "DataCopy");
  detail::in(dst.aligned(KW_HERE, "DataCopy"), src, detail::whole(count * uint64_t{sizeof(T)}, KW_HERE), KW_HERE, "DataCopy");
}
template <typename T>
void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, KW_AT) {
  core()->issue(kw::ascend::MTE3, KW_HERE, "DataCopy");
  detail::out(dst, src.aligned(KW_HERE, "DataCopy"), detail::whole(count * uint64_t{sizeof(T)}, KW_HERE), KW_HERE, "DataCopy");
}
template <typename T>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, KW_AT) {
  src.live(KW_HERE, "DataCopy");
  dst.live(KW_HERE, "DataCopy");
  const bool bias = src.memory() == kw::ascend::L1 && dst.memory() == kw::ascend::BT;
  if (!bias) src.in(kw::ascend::UB, KW_HERE, "DataCopy"), dst.in(kw::ascend::UB, KW_HERE, "DataCopy");
  const Pipe pipe = bias ? kw::ascend::MTE1 : kw::ascend::V;
  core()->issue(pipe, KW_HERE, "DataCopy");
  const uint32_t bytes = detail::whole(count * uint64_t{sizeof(T)}, KW_HERE);
  const T* from = src.aligned(KW_HERE, "DataCopy").read(pipe, bytes, KW_HERE, "DataCopy");
  memmove(dst.aligned(KW_HERE, "DataCopy").write(pipe, bytes, KW_HERE, "DataCopy"), from, bytes);
}

template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& given,
                 const DataCopyPadExtParams<T>& pad, KW_AT) {
  core()->issue(kw::ascend::MTE2, KW_HERE, "DataCopyPad");
  const uint32_t left = pad.isPad ? pad.leftPadding : 0, right = pad.isPad ? pad.rightPadding : 0, size = sizeof(T);
  if (given.blockLen % size || left * size > kBlock || right * size > kBlock)
    fault("length", KW_HERE, "DataCopyPad of %u bytes with %u and %u elements of padding: whole elements, and at most %u "
          "bytes of padding on a side, are taken", given.blockLen, left, right, kBlock);
  const uint32_t bytes = given.blockLen + (left + right) * size, room = detail::rounded(bytes);
  for (uint32_t n = 0; n < given.blockCount; ++n) {
    const LocalTensor<T> at = dst.aligned(KW_HERE, "DataCopyPad").at_byte(n * (room + given.dstStride * kBlock));
    at.write(kw::ascend::MTE2, room, KW_HERE, "DataCopyPad", false);  // what follows the padding is anybody's guess
    T* to = at.write(kw::ascend::MTE2, bytes, KW_HERE, "DataCopyPad");
    std::fill_n(to, left, pad.paddingValue);
    const auto from = src.at_byte(static_cast<int64_t>(n) * (given.blockLen + int64_t{given.srcStride}));
    memcpy(to + left, from.read(kw::ascend::MTE2, given.blockLen, KW_HERE, "DataCopyPad"), given.blockLen);
    std::fill_n(to + left + given.blockLen / size, right, pad.paddingValue);
  }
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& given, KW_AT) {
  core()->issue(kw::ascend::MTE3, KW_HERE, "DataCopyPad");
  if (given.blockLen % sizeof(T)) fault("length", KW_HERE, "DataCopyPad of %u bytes, no whole elements", given.blockLen);
  const uint32_t room = detail::rounded(given.blockLen);
  for (uint32_t n = 0; n < given.blockCount; ++n)
    detail::out(dst.at_byte(static_cast<int64_t>(n) * (given.blockLen + int64_t{given.dstStride})),
                src.aligned(KW_HERE, "DataCopyPad").at_byte(n * (room + given.srcStride * kBlock)), given.blockLen, KW_HERE,
                "DataCopyPad");
}
// The older form: lengths and gaps of 16 bits, the value by its bits.
template <typename T>
void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& given,
                 const DataCopyPadParams& pad, KW_AT) {
  T value;
  memcpy(static_cast<void*>(&value), &pad.paddingValue, sizeof(T));
  DataCopyPad(dst, src, DataCopyExtParams{given.blockCount, given.blockLen, given.srcStride, given.dstStride, 0},
              DataCopyPadExtParams<T>{pad.isPad, pad.leftPadding, pad.rightPadding, value}, kw_file, kw_line);
}
template <typename T>
void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& given, KW_AT) {
  DataCopyPad(dst, src, DataCopyExtParams{given.blockCount, given.blockLen, given.srcStride, given.dstStride, 0}, kw_file, kw_line);
}
