// Linear layers whose weights are in codes of 1 to 8 bits.
#include "linear.h"

namespace kw {
namespace {

// x [rows, inner], codes [panels, tiles, 4, bits, 64], scales, zeros and minima [panels, groups, 64], bias [outputs]; bits of
// the exponent, columns of a group, zero of all groups, activations as int8, outputs; out [rows, outputs]
void linear(const Args& args) {
  const auto codes = args.tensor<const uint8_t>(1);
  Groups groups{};
  if (args.is<float>(2)) groups.scales = args.tensor<const float>(2).data(), groups.type = ScaleType::f32;
  else if (args.is<bfloat16>(2)) groups.scales = args.tensor<const bfloat16>(2).data(), groups.type = ScaleType::bf16;
  else groups.scales = args.tensor<const float16>(2).data(), groups.type = ScaleType::f16;
  groups.count = Tensor<const char>(args.any_tensor(2)).shape(1);
  groups.zeros = args.is_none(3) ? nullptr : args.tensor<const uint8_t>(3).data();
  if (!args.is_none(4)) groups.minima = Tensor<const char>(args.any_tensor(4)).data();
  groups.halves = args.integer(7) < kTile;
  groups.tiles = std::max<int64_t>(1, args.integer(7) / kTile), groups.zero = static_cast<int>(args.integer(8));
  const Meaning meaning{static_cast<int>(codes.shape(3)), static_cast<int>(args.integer(6))};
  if (meaning.bits < 1 || meaning.bits > 8) KW_UNSUPPORTED("codes are not of 1 to 8 bits");
  const auto rows = [&](auto type) {
    using T = decltype(type);
    return Rows::of<T>(args.tensor<const T>(0), args.is_none(5) ? nullptr : args.tensor<const T>(5).data(),
                       args.tensor<T>(11).data());
  };
  const Rows x = args.is<float>(0) ? rows(float{}) : rows(bfloat16{});
  const LowBit w{codes.data(), meaning, groups, Tensor<const char>(args.any_tensor(11)).shape(1), x.inner, codes.shape(1)};
  low_bit_linear(w, x, args.boolean(9));
}

}  // namespace
}  // namespace kw

KW_KERNEL(lowbit_linear) {
  const kw::Tuned tuned(args, 12);
  kw::linear(args);
}
