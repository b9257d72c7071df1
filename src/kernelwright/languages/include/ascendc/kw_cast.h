// kw_cast.h: Cast, with its rounding modes. Part of kw_vectors.h, inside its namespace.
//
// Source: Ascend C API reference, "Cast" (types and modes for Atlas A2), "Precision Conversion Rules".

namespace detail {
// A float, rounded to an integer.
inline float rounded(float x, RoundMode mode) {
  switch (mode) {
    case RoundMode::CAST_FLOOR: return floorf(x);
    case RoundMode::CAST_CEIL: return ceilf(x);
    case RoundMode::CAST_ROUND: return roundf(x);
    case RoundMode::CAST_TRUNC: return truncf(x);
    default: return nearbyintf(x);
  }
}
template <typename To>
uint16_t bits_of(To x) { return x.bits; }

// A float, rounded to half or bfloat16 by a mode: the two neighbours lie a bit apart, in order of their size.
template <typename To>
To narrowed(float x, RoundMode mode) {
  const To nearest = static_cast<To>(x);
  if (mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT || x != x || std::isinf(x)) return nearest;
  const float back = static_cast<float>(nearest);
  if (back == x) return nearest;
  const auto step = [](To from, int by) {
    from.bits = static_cast<uint16_t>(from.bits + by);
    return from;
  };
  const bool away = std::fabs(back) > std::fabs(x);  // the nearest lies farther from zero than x
  const To inner = away ? step(nearest, -1) : nearest, outer = away ? nearest : step(nearest, 1);
  switch (mode) {
    case RoundMode::CAST_TRUNC: return inner;
    case RoundMode::CAST_FLOOR: return x < 0 ? outer : inner;
    case RoundMode::CAST_CEIL: return x < 0 ? inner : outer;
    case RoundMode::CAST_ODD: return inner.bits & 1 ? inner : outer;
    default: {  // CAST_ROUND: ties away from zero
      const float middle = (std::fabs(static_cast<float>(inner)) + std::fabs(static_cast<float>(outer))) / 2;
      return std::fabs(x) < middle ? inner : outer;
    }
  }
}
template <typename T>
constexpr bool narrow() { return std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value; }
template <typename To>
To saturated(double x) {
  constexpr double low = static_cast<double>(std::numeric_limits<To>::min()), high = static_cast<double>(std::numeric_limits<To>::max());
  return x != x ? To(0) : x <= low ? std::numeric_limits<To>::min() : x >= high ? std::numeric_limits<To>::max() : static_cast<To>(x);
}
template <typename To, typename From>
constexpr bool casts() {
  using std::is_same;
  constexpr bool h = is_same<From, half>::value, f = is_same<From, float>::value, i32 = is_same<From, int32_t>::value;
  return (is_same<From, int8_t>::value && is_same<To, half>::value) || (is_same<From, uint8_t>::value && is_same<To, half>::value) ||
         (is_same<From, int16_t>::value && floats<To>()) ||
         (h && (is_same<To, int8_t>::value || is_same<To, uint8_t>::value || is_same<To, int16_t>::value ||
                is_same<To, int32_t>::value || is_same<To, float>::value)) ||
         (is_same<From, bfloat16_t>::value && (is_same<To, int32_t>::value || is_same<To, float>::value)) ||
         (i32 && (is_same<To, int16_t>::value || is_same<To, float>::value || is_same<To, int64_t>::value)) ||
         (f && (is_same<To, int16_t>::value || narrow<To>() || is_same<To, int32_t>::value || f || is_same<To, int64_t>::value)) ||
         (is_same<From, int64_t>::value && (is_same<To, int32_t>::value || is_same<To, float>::value));
}

template <typename To, typename From>
struct CastLane {
  static_assert(casts<To, From>(), "Cast between these types is not executed for Atlas A2");
  RoundMode mode;
  To operator()(From x) const {
    if constexpr (std::is_integral<To>::value && std::is_integral<From>::value) {
      return static_cast<To>(std::min<int64_t>(std::max<int64_t>(x, std::numeric_limits<To>::min()), std::numeric_limits<To>::max()));
    } else if constexpr (std::is_integral<To>::value) {
      return saturated<To>(rounded(static_cast<float>(x), mode));
    } else if constexpr (narrow<To>()) {
      return narrowed<To>(static_cast<float>(x), mode);
    } else if constexpr (std::is_same<From, float>::value) {
      return rounded(x, mode);
    } else if constexpr (std::is_integral<From>::value && sizeof(From) > 2) {
      const float nearest = static_cast<float>(x);
      const double exact = static_cast<double>(x), back = static_cast<double>(nearest);
      const bool up = back > exact, even = mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT || mode == RoundMode::CAST_ROUND;
      if (even || back == exact) return nearest;
      const bool wants_up = mode == RoundMode::CAST_CEIL || (mode == RoundMode::CAST_TRUNC && exact < 0);
      return up == wants_up ? nearest : nextafterf(nearest, wants_up ? INFINITY : -INFINITY);
    } else {
      return static_cast<float>(x);
    }
  }
};
// Whether a mode is one of those that the reference lists for the types.
template <typename To, typename From>
void mode_allowed(RoundMode mode, Where at) {
  constexpr bool from_float = !std::is_integral<From>::value, widens = sizeof(To) > sizeof(From) && from_float && !std::is_integral<To>::value;
  constexpr bool loses = (from_float && !widens) || (std::is_same<To, float>::value && std::is_integral<From>::value && sizeof(From) > 2) ||
                         (std::is_same<From, int16_t>::value && std::is_same<To, half>::value);
  constexpr bool none = !loses || (std::is_same<From, half>::value && sizeof(To) == 1) || std::is_same<From, int32_t>::value ||
                        std::is_same<From, int16_t>::value || (std::is_same<From, float>::value && std::is_same<To, half>::value);
  constexpr bool odd = std::is_same<From, float>::value && std::is_same<To, half>::value;
  const bool is_none = mode == RoundMode::CAST_NONE, is_odd = mode == RoundMode::CAST_ODD;
  if ((is_none && !none) || (is_odd && !odd) || (!is_none && !is_odd && !loses))
    fault("round-mode", at, "Cast between these types does not take this RoundMode: %s",
          !loses ? "it loses nothing, use CAST_NONE" : "use CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND or CAST_TRUNC");
}
}  // namespace detail

inline float ToFloat(const bfloat16_t& x) { return static_cast<float>(x); }
inline bfloat16_t ToBfloat16(const float& x) { return static_cast<bfloat16_t>(x); }

template <typename To, typename From>
void Cast(const LocalTensor<To>& dst, const LocalTensor<From>& src, RoundMode mode, uint32_t count, KW_AT) {
  detail::mode_allowed<To, From>(mode, KW_HERE);
  detail::unary(dst, src, int64_t{count}, KW_HERE, "Cast", detail::CastLane<To, From>{mode});
}
template <typename To, typename From, bool isSetMask = true, typename Mask>
void Cast(const LocalTensor<To>& dst, const LocalTensor<From>& src, RoundMode mode, Mask mask, uint8_t repeat,
          const UnaryRepeatParams& by, KW_AT) {
  detail::mode_allowed<To, From>(mode, KW_HERE);
  const uint32_t lanes = detail::lanes_of(std::max(sizeof(To), sizeof(From)));
  detail::unary(dst, src, detail::part_of<isSetMask>(lanes, mask, repeat, KW_HERE, "Cast"), by, KW_HERE, "Cast",
                detail::CastLane<To, From>{mode});
}
