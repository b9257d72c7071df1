// kw_cube.h: the cube unit: matrices into L1, into L0A and L0B by fractals, products in L0C, and out again. Part of
// kernel_operator.h, inside its namespace.
//
// A fractal has 512 bytes: 16 rows of 32 bytes. In L0A the fractals of A lie row by row, each in rows (Zz); in L0B those of
// B lie row by row, each in columns (Zn); in L0C those of C, 16 by 16, lie column by column, each in rows (Nz). What a
// fractal holds beyond a matrix's edge is moved along and never computed with.
//
// Source: Ascend C API reference, "Matrix Computation (ISASI)": DataCopy with Nd2NzParams, LoadData, LoadDataWithTranspose,
// Mmad (types, alignment, M = 1, K direction, PipeBarrier), Fixpipe, "NZ2ND", "Quantization on the way".

struct Nd2NzParams {
  uint16_t ndNum = 0, nValue = 0, dValue = 0, srcNdMatrixStride = 0, srcDValue = 0, dstNzC0Stride = 0, dstNzNStride = 0,
           dstNzMatrixStride = 0;
};
struct LoadData2DParams {
  LoadData2DParams() = default;
  LoadData2DParams(uint16_t start, uint8_t repeats, uint16_t stride, uint8_t sid_, uint16_t gap, bool transpose, uint8_t mode)
      : startIndex(start), repeatTimes(repeats), srcStride(stride), sid(sid_), dstGap(gap), ifTranspose(transpose),
        addrMode(mode) {}
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0;
  uint8_t sid = 0;
  uint16_t dstGap = 0;
  bool ifTranspose = false;
  uint8_t addrMode = 0;
};
struct LoadData2dTransposeParams {
  uint16_t startIndex = 0;
  uint8_t repeatTimes = 0;
  uint16_t srcStride = 0, dstGap = 0, dstFracGap = 0;
  uint8_t addrMode = 0;
};
struct MmadParams {
  MmadParams() = default;
  MmadParams(uint16_t m_, uint16_t n_, uint16_t k_, uint8_t unit, bool source, bool initial)
      : m(m_), n(n_), k(k_), unitFlag(unit), cmatrixSource(source), cmatrixInitVal(initial) {}
  uint16_t m = 0, n = 0, k = 0;
  bool isBias = false;
  uint8_t unitFlag = 0;
  bool kDirectionAlign = false, cmatrixSource = false, cmatrixInitVal = true;
};
enum class CO2Layout : uint8_t { NZ, ROW_MAJOR };
struct FixpipeConfig {
  CO2Layout format;
};
constexpr FixpipeConfig CFG_NZ{CO2Layout::NZ}, CFG_ROW_MAJOR{CO2Layout::ROW_MAJOR};
struct FixpipeParamsV220 {
  FixpipeParamsV220() = default;
  FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu)
      : nSize(n), mSize(m), srcStride(src), dstStride(dst), reluEn(relu) {}
  FixpipeParamsV220(uint16_t n, uint16_t m, uint16_t src, uint32_t dst, bool relu, QuantMode_t quant, int64_t scale,
                    uint16_t num, uint16_t src_nd, uint16_t dst_nd, uint8_t unit)
      : nSize(n), mSize(m), srcStride(src), dstStride(dst), quantPre(quant), deqScalar(static_cast<uint64_t>(scale)),
        ndNum(num), srcNdStride(src_nd), dstNdStride(dst_nd), reluEn(relu), unitFlag(unit) {}
  uint16_t nSize = 0, mSize = 0, srcStride = 0;
  uint32_t dstStride = 0;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  uint64_t deqScalar = 0;
  uint16_t ndNum = 1, srcNdStride = 0, dstNdStride = 0;
  bool reluEn = false;
  uint8_t unitFlag = 0;
};

// ---- into L1 ------------------------------------------------------------------------------------------------------

template <typename T>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& by, KW_AT) {
  constexpr const char* what = "DataCopy";
  core()->issue(kw::ascend::MTE2, KW_HERE, what);
  dst.in(kw::ascend::L1, KW_HERE, what).aligned(KW_HERE, what);
  if (!by.ndNum || !by.nValue || !by.dValue) return;
  if (by.ndNum > 4095 || by.nValue > 16384 || !by.srcDValue || by.dstNzC0Stride < 1 || by.dstNzC0Stride > 16384 ||
      by.dstNzNStride < 1 || by.dstNzNStride > 16384 || by.dstNzMatrixStride > 16384)
    fault("length", KW_HERE, "DataCopy with Nd2NzParams beyond its limits: ndNum to 4095, nValue to 16384, srcDValue from 1, "
          "dstNzC0Stride and dstNzNStride from 1 to 16384, dstNzMatrixStride to 16384");
  if (by.dValue > by.srcDValue && by.nValue > 1)
    fault("length", KW_HERE, "DataCopy of rows of %u elements from a matrix whose rows have %u", by.dValue, by.srcDValue);
  constexpr uint32_t c0 = kBlock / sizeof(T);
  for (uint32_t matrix = 0; matrix < by.ndNum; ++matrix)
    for (uint32_t n = 0; n < by.nValue; ++n) {
      const T* row = src[uint64_t{matrix} * by.srcNdMatrixStride + uint64_t{n} * by.srcDValue].read(
          kw::ascend::MTE2, by.dValue * int64_t{sizeof(T)}, KW_HERE, what);
      for (uint32_t d = 0; d < by.dValue; d += c0) {
        const LocalTensor<T> at = dst.at_byte(matrix * by.dstNzMatrixStride * static_cast<uint32_t>(sizeof(T)) +
                                              (d / c0 * by.dstNzC0Stride + n * by.dstNzNStride) * kBlock);
        if (core()->just_written(kw::ascend::MTE2, at.address()))
          fault("overlap", KW_HERE, "DataCopy writes a block of L1 twice: dstNzC0Stride is less than the rows");
        T* to = at.write(kw::ascend::MTE2, kBlock, KW_HERE, what);
        const uint32_t count = std::min<uint32_t>(c0, by.dValue - d);
        memcpy(to, row + d, count * sizeof(T));
        std::fill(to + count, to + c0, T(0));  // rows are filled with zeros to 32 bytes
      }
    }
}

// ---- into L0A and L0B ---------------------------------------------------------------------------------------------

namespace detail {
template <typename T>
void into_l0(const LocalTensor<T>& dst, Where at, const char* what) {
  dst.live(at, what);
  if (dst.memory() != kw::ascend::L0A && dst.memory() != kw::ascend::L0B) dst.in(kw::ascend::L0A, at, what);
  dst.aligned(at, what);
}
// Moves elements within the core; those that nobody wrote stay so.
template <typename T>
void move(const LocalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, Where at, const char* what) {
  constexpr uint32_t size = sizeof(T);
  const T* from = src.read(kw::ascend::MTE1, count * size, at, what, true);
  T* to = dst.write(kw::ascend::MTE1, count * size, at, what, false);
  memcpy(to, from, count * size);
  for (uint32_t i = 0; i < count * size; ++i) core()->know_as(dst.address() + i, src.address() + i);
}
}  // namespace detail

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParams& by, KW_AT) {
  constexpr uint32_t fractal = kw::ascend::kFractal, c0 = kBlock / sizeof(T);
  core()->issue(kw::ascend::MTE1, KW_HERE, "LoadData");
  detail::into_l0(dst, KW_HERE, "LoadData");
  src.in(kw::ascend::L1, KW_HERE, "LoadData").aligned(KW_HERE, "LoadData");
  if (by.ifTranspose && sizeof(T) != 2) fault("length", KW_HERE, "LoadData transposes elements of 16 bits only; LoadDataWithTranspose takes others");
  for (uint32_t r = 0; r < by.repeatTimes; ++r) {
    const int64_t index = by.startIndex + int64_t{by.addrMode ? -1 : 1} * r * by.srcStride;
    if (index < 0) fault("out-of-bounds", KW_HERE, "LoadData reads fractal %lld", static_cast<long long>(index));
    const LocalTensor<T> from = src.at_byte(static_cast<uint32_t>(index) * fractal), to = dst.at_byte(r * (by.dstGap + 1u) * fractal);
    if (!by.ifTranspose) {
      detail::move(to, from, 16 * c0, KW_HERE, "LoadData");
      continue;
    }
    for (uint32_t i = 0; i < 256; ++i) detail::move(to[i % 16 * 16 + i / 16], from[i], 1, KW_HERE, "LoadData");
  }
}
template <typename T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const LoadData2DParams& by, KW_AT) {
  constexpr uint32_t fractal = kw::ascend::kFractal;
  core()->issue(kw::ascend::MTE2, KW_HERE, "LoadData");
  dst.live(KW_HERE, "LoadData");
  if (dst.memory() != kw::ascend::L1) detail::into_l0(dst, KW_HERE, "LoadData");
  if (by.ifTranspose) fault("length", KW_HERE, "LoadData from global memory does not transpose");
  for (uint32_t r = 0; r < by.repeatTimes; ++r) {
    const int64_t index = by.startIndex + int64_t{by.addrMode ? -1 : 1} * r * by.srcStride;
    const T* from = src.at_byte(index * fractal).read(kw::ascend::MTE2, fractal, KW_HERE, "LoadData");
    memcpy(dst.aligned(KW_HERE, "LoadData").at_byte(r * (by.dstGap + 1u) * fractal).write(kw::ascend::MTE2, fractal, KW_HERE, "LoadData"), from, fractal);
  }
}
// A square of 16 (8 bits: 32) elements a side, of one or two fractals, transposed.
template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2dTransposeParams& by, KW_AT) {
  constexpr const char* what = "LoadDataWithTranspose";
  constexpr uint32_t fractal = kw::ascend::kFractal, size = sizeof(T), side = size == 1 ? 32 : 16, c0 = kBlock / size;
  core()->issue(kw::ascend::MTE1, KW_HERE, what);
  detail::into_l0(dst, KW_HERE, what);
  src.in(kw::ascend::L1, KW_HERE, what).aligned(KW_HERE, what);
  // Two fractals of a square lie below each other for 8 bits, side by side for 32.
  const auto within = [](uint32_t row, uint32_t column, uint32_t apart) {
    return (size == 1 ? row / 16 : column / c0) * apart + (row % 16 * c0 + column % c0) * size;
  };
  for (uint32_t r = 0; r < by.repeatTimes; ++r) {
    const int64_t index = by.startIndex + int64_t{by.addrMode ? -1 : 1} * r * by.srcStride;
    if (index < 0) fault("out-of-bounds", KW_HERE, "%s reads square %lld", what, static_cast<long long>(index));
    const LocalTensor<T> from = src.at_byte(static_cast<uint32_t>(index) * side * side * size), to = dst.at_byte(r * (by.dstGap + 1u) * fractal);
    for (uint32_t row = 0; row < side; ++row)
      for (uint32_t column = 0; column < side; ++column)
        detail::move(to.at_byte(within(column, row, (by.dstFracGap + 1u) * fractal)), from.at_byte(within(row, column, fractal)), 1,
                     KW_HERE, what);
  }
}

// ---- products -----------------------------------------------------------------------------------------------------

namespace detail {
constexpr uint32_t parts(uint32_t n, uint32_t by) { return (n + by - 1) / by; }
template <typename C, typename T>
constexpr bool multiplies() {
  return std::is_same<T, int8_t>::value ? std::is_same<C, int32_t>::value
                                        : std::is_same<C, float>::value && (narrow<T>() || std::is_same<T, float>::value);
}
// Reads the elements of a matrix that lies in fractals, by `place(row, column)`.
template <typename C, typename T, typename Place>
std::vector<C> gathered(const LocalTensor<T>& from, uint32_t rows, uint32_t columns, Where at, const Place& place) {
  std::vector<C> values(size_t{rows} * columns);
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < columns; ++c)
      values[size_t{r} * columns + c] = static_cast<C>(*from[place(r, c)].read(kw::ascend::M, sizeof(T), at, "Mmad"));
  return values;
}
enum class From : uint8_t { kZero, kBias, kBefore };  // what the products are added to

template <typename C, typename T>
void multiply(const LocalTensor<C>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<C>* bias,
              const MmadParams& by, Where at) {
  static_assert(multiplies<C, T>(), "Mmad takes half, bfloat16_t and float into float, and int8_t into int32_t");
  using namespace kw::ascend;
  core()->issue(M, at, "Mmad");
  dst.in(L0C, at, "Mmad").aligned(at, "Mmad", 1024);
  a.in(L0A, at, "Mmad").aligned(at, "Mmad");
  b.in(L0B, at, "Mmad").aligned(at, "Mmad");
  const uint32_t m = by.m, n = by.n, k = by.k, c0 = kBlock / sizeof(T);
  if (m > 4095 || n > 4095 || k > 4095) fault("length", at, "Mmad of %u x %u x %u: m, n and k are at most 4095", m, n, k);
  if (by.unitFlag) fault("not-executed", at, "Mmad with unitFlag is not executed");
  if (!m || !n || !k) return;
  const uint32_t m1 = parts(m, 16), n1 = parts(n, 16), k1 = sizeof(T) == 4 && by.kDirectionAlign ? 2 * parts(k, 16) : parts(k, c0);
  const auto left = gathered<C>(a, m, k, at, [&](uint32_t i, uint32_t p) {
    return m == 1 ? p : (i / 16 * k1 + p / c0) * 16 * c0 + i % 16 * c0 + p % c0;
  });
  const auto right = gathered<C>(b, k, n, at, [&](uint32_t p, uint32_t j) {
    return (p / c0 * n1 + j / 16) * 16 * c0 + j % 16 * c0 + p % c0;
  });
  const auto place = [&](uint32_t i, uint32_t j) { return (j / 16 * m1 + i / 16) * 256 + i % 16 * 16 + j % 16; };
  std::vector<C> sums(size_t{m} * n, C(0));
  if (bias) {
    bias->in(BT, at, "Mmad").aligned(at, "Mmad");
    const C* row = bias->read(M, n * sizeof(C), at, "Mmad");
    for (uint32_t i = 0; i < m; ++i) std::copy(row, row + n, &sums[size_t{i} * n]);
  } else if (!by.cmatrixInitVal) {
    const uint32_t before = core()->written_by(M, dst.address());
    if ((m / 16) * (n / 16) < 10 && before > core()->drained)
      fault("race", at, "Mmad adds to what an Mmad before it writes: below 10 fractals that needs PipeBarrier<PIPE_M>() between them");
    sums = gathered<C>(dst, m, n, at, place);
  }
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t p = 0; p < k; ++p) {
      const C x = left[size_t{i} * k + p], *row = &right[size_t{p} * n];
      C* sum = &sums[size_t{i} * n];
      for (uint32_t j = 0; j < n; ++j) sum[j] += x * row[j];
    }
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t j = 0; j < n; ++j) *dst[place(i, j)].write(M, sizeof(C), at, "Mmad") = sums[size_t{i} * n + j];
}
}  // namespace detail

template <typename C, typename T>
void Mmad(const LocalTensor<C>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b, const MmadParams& by, KW_AT) {
  if (by.cmatrixSource) fault("not-executed", KW_HERE, "Mmad takes a bias by its parameter, not by cmatrixSource");
  MmadParams adds = by;
  adds.cmatrixInitVal = by.cmatrixInitVal && !by.isBias;
  detail::multiply<C, T>(dst, a, b, nullptr, adds, KW_HERE);
}
template <typename C, typename T>
void Mmad(const LocalTensor<C>& dst, const LocalTensor<T>& a, const LocalTensor<T>& b, const LocalTensor<C>& bias,
          const MmadParams& by, KW_AT) {
  detail::multiply<C, T>(dst, a, b, &bias, by, KW_HERE);
}

// ---- out of L0C ---------------------------------------------------------------------------------------------------

namespace detail {
template <typename To, typename C>
To converted(C x, const FixpipeParamsV220& by, Where at) {
  const QuantMode_t mode = by.quantPre;
  if (by.reluEn && x < 0) x = C(0);
  if (std::is_same<To, C>::value && mode == QuantMode_t::NoQuant) return static_cast<To>(x);
  if (std::is_same<C, float>::value && std::is_same<To, half>::value && mode == QuantMode_t::F322F16) return static_cast<To>(x);
  if (std::is_same<C, float>::value && std::is_same<To, bfloat16_t>::value && mode == QuantMode_t::F322BF16) return static_cast<To>(x);
  if (std::is_same<C, int32_t>::value && std::is_same<To, half>::value && mode == QuantMode_t::DEQF16) {
    if (by.deqScalar >> 36 & 1) fault("not-executed", at, "Fixpipe shifts integers before it scales them only on the device");
    const auto bits = static_cast<uint32_t>(by.deqScalar) & ~0x1fffu;  // 10 bits of mantissa are kept
    float scale;
    memcpy(&scale, &bits, sizeof(scale));
    return static_cast<To>(static_cast<float>(x) * scale);
  }
  fault("quant", at, "Fixpipe from these types takes another quantPre: NoQuant for the same type, F322F16, F322BF16, or DEQF16");
}
}  // namespace detail

template <typename To, typename C, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<To>& dst, const LocalTensor<C>& src, const FixpipeParamsV220& by, KW_AT) {
  core()->issue(kw::ascend::FIX, KW_HERE, "Fixpipe");
  src.in(kw::ascend::L0C, KW_HERE, "Fixpipe").aligned(KW_HERE, "Fixpipe");
  constexpr bool rows = config.format == CO2Layout::ROW_MAJOR;
  if (by.unitFlag) fault("not-executed", KW_HERE, "Fixpipe with unitFlag is not executed");
  if (!by.dstStride || by.nSize > 4095 || (rows && by.mSize > 8192) || (!rows && by.nSize % 16))
    fault("length", KW_HERE, "Fixpipe of %u x %u with dstStride %u: dstStride is at least 1, nSize at most 4095, and of whole "
          "fractals where Nz is kept", by.mSize, by.nSize, by.dstStride);
  if (rows && by.mSize > 1 && by.dstStride < by.nSize) fault("overlap", KW_HERE, "Fixpipe of rows of %u elements into rows of %u", by.nSize, by.dstStride);
  for (uint32_t matrix = 0; matrix < (rows ? by.ndNum : 1u); ++matrix)
    for (uint32_t i = 0; i < by.mSize; ++i)
      for (uint32_t j = 0; j < by.nSize; j += 16) {
        const uint32_t count = std::min<uint32_t>(16, by.nSize - j);
        const C* from = src[matrix * by.srcNdStride * 256u + j / 16 * by.srcStride * 16u + i * 16].read(
            kw::ascend::FIX, count * sizeof(C), KW_HERE, "Fixpipe");
        const int64_t at = rows ? (int64_t{matrix} * by.dstNdStride + int64_t{i} * by.dstStride + j) * int64_t{sizeof(To)}
                                : int64_t{j / 16} * by.dstStride * kBlock + int64_t{i} * 16 * int64_t{sizeof(To)};
        To* to = dst.at_byte(at).write(kw::ascend::FIX, count * int64_t{sizeof(To)}, KW_HERE, "Fixpipe");
        for (uint32_t x = 0; x < count; ++x) to[x] = detail::converted<To>(from[x], by, KW_HERE);
      }
}
