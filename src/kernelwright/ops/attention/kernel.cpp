// Attention forward, its gradients, and one token against a cache: clients of the flash templates.
#include "vector.h"
#include "flash.h"
#include "flash_decode.h"
#include "flash_gradient.h"

namespace kw {
namespace {

template <class Function> void by_type(const Args& args, int at, Function function) {
  if (args.is<float>(at)) function(float{});
  else if (args.is<bfloat16>(at)) function(bfloat16{});
  else function(float16{});
}

// q, k, v, then, after what lies between, ranges, sinks, slopes, scale, soft_cap
struct Given {
  FlashShape shape;
  RowRanges ranges;
  Scoring scoring;
  const float *sinks, *slopes;

  template <class T> static Given of(const Args& args, int first, int between = 0) {
    const auto q = args.tensor<const T>(first), k = args.tensor<const T>(first + 1), v = args.tensor<const T>(first + 2);
    Given g{{q.shape(0), q.shape(1), k.shape(1), q.shape(2), k.shape(2), q.shape(3), v.shape(3)}, {}, {}, nullptr, nullptr};
    first += between;
    if (!args.is_none(first + 3)) {
      const auto r = args.tensor<const int32_t>(first + 3);
      static const int32_t none[2] = {};  // an empty tensor has no address, and none at all would be every key
      g.ranges = {r.numel() ? r.data() : none, r.shape(3), r.shape(0) > 1 ? r.stride(0) : 0, r.shape(1) > 1 ? r.stride(1) : 0};
    }
    if (!args.is_none(first + 4)) g.sinks = args.tensor<const float>(first + 4).data();
    if (!args.is_none(first + 5)) g.slopes = args.tensor<const float>(first + 5).data();
    g.scoring = Scoring::of(static_cast<float>(args.real(first + 6)), static_cast<float>(args.real(first + 7)), g.slopes,
                            g.shape.keys - g.shape.rows);
    return g;
  }
};

template <class C> void group(Cache<C>& cache, const Tensor<const bfloat16>& scales, int64_t columns) {
  cache.of_columns = scales.data(), cache.count = scales.shape(3);
  for (int64_t blocks = columns / cache.count / kBlock; blocks > 1; blocks /= 2) ++cache.shift;
}

// A build may be for some caches alone (`Parts` of the op): float32, 16-bit floats, int8, or what is grouped.
#ifdef KW_CACHE
constexpr int kCache = KW_CACHE;
#else
constexpr int kCache = -1;
#endif
template <class C> constexpr int kCacheOf = is_grouped<C> ? 3 : std::is_same_v<C, int8_t> ? 2 : std::is_same_v<C, float> ? 0 : 1;

// Lengths and pages that are outside of the cache are refused.
void check_pages(const DecodeShape& s, const int32_t* lengths, const int32_t* table, int64_t pages) {
  char said[160];
  for (int64_t b = 0; b < s.batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > s.positions * s.most) {
      snprintf(said, sizeof said, "attention.decode: lengths is %d somewhere; expected 0 to %lld, what the pages hold",
               lengths[b], static_cast<long long>(s.positions * s.most));
      raise("ValueError", "", said);
    }
    for (int64_t i = 0; table && i * s.positions < lengths[b]; ++i)
      if (table[b * s.most + i] < 0 || table[b * s.most + i] >= pages) {
        snprintf(said, sizeof said, "attention.decode: pages is %d somewhere; expected 0 to %lld", table[b * s.most + i],
                 static_cast<long long>(pages - 1));
        raise("ValueError", "", said);
      }
  }
}

template <class T> void divided(const float* sums, float total, int64_t columns, int64_t at, void* out) {
  T* const to = static_cast<T*>(out) + at;
  over_lanes(columns, [&](int64_t e, auto lanes) KW_INLINED { store(to + e, load(sums + e, Full{}) / total, lanes); });
}

// q, k_cache, v_cache, lengths, pages, k_scales, v_scales, sinks, slopes, window, scale, soft_cap; out, lse
// S is what is cached, C how it is read.
template <class S, class C = S> void decode_by(const Args& args) {
  const Tensor<const char> q(args.any_tensor(0));
  const auto k = args.tensor<const S>(1), v = args.tensor<const S>(2);
  const auto floats = [&](int i) { return args.is_none(i) ? nullptr : args.tensor<const float>(i).data(); };
  const int32_t* table = args.is_none(4) ? nullptr : args.tensor<const int32_t>(4).data();
  const int64_t columns = v.shape(3) * (std::is_same_v<C, GroupedNibbles> ? 2 : 1);
  const DecodeShape s{q.shape(0), q.shape(1), k.shape(2), q.shape(2), columns, k.shape(1),
                      args.is_none(4) ? 1 : args.tensor<const int32_t>(4).shape(1)};
  const int32_t* lengths = args.tensor<const int32_t>(3).data();
  check_pages(s, lengths, table, k.shape(0));
  const auto scoring = Scoring::of(static_cast<float>(args.real(10)), static_cast<float>(args.real(11)), floats(8), 0);
  const Temporary<float> queries(s.batch * s.heads * s.depth());
  DecodeCall call{s, queries.data, lengths, table, floats(7), scoring, args.integer(9), nullptr, nullptr,
                  args.tensor<float>(13).data()};
  by_type(args, 0, [&](auto type) {
    using T = decltype(type);
    const T* from = args.tensor<const T>(0).data();
    for (int64_t i = 0; i < s.batch * s.heads; ++i)
      copy_row(from + i / s.heads * q.stride(0) + i % s.heads * q.stride(1), s.inner, scoring.factor,
               queries.data + i * s.depth());
    call.out = args.tensor<T>(12).data(), call.put = divided<T>;
  });
  Cache<C> keys = Cache<C>::of(k), values = Cache<C>::of(v);
  if constexpr (is_grouped<C>) group(keys, args.tensor<const bfloat16>(5), s.inner), group(values, args.tensor<const bfloat16>(6), columns);
  else keys.scales = floats(5), values.scales = floats(6);
  Decode<C>{call, keys, values}.run();
}
template <class S, class C = S> void decode(const Args& args) {
  if constexpr (kCache < 0 || kCache == kCacheOf<C>) decode_by<S, C>(args);
  else KW_UNSUPPORTED("this build is for other caches");
}

}  // namespace
}  // namespace kw

// q, k, v, ranges, sinks, slopes, scale, soft_cap; out, lse
KW_KERNEL(attention) {
  kw::by_type(args, 0, [&](auto type) {
    using T = decltype(type);
    const auto g = kw::Given::of<T>(args, 0);
    const auto attend = [&](auto plain) {
      kw::Flash<T, plain.value>{
          g.shape, kw::Heads<const T>::of(args.tensor<const T>(0)), kw::Heads<const T>::of(args.tensor<const T>(1)),
          kw::Heads<const T>::of(args.tensor<const T>(2)), kw::Heads<T>::of(args.tensor<T>(8)),
          args.tensor<float>(9).data(), g.ranges, g.scoring, g.sinks}.run();
    };
    if (g.scoring.plain()) attend(std::true_type{});
    else attend(std::false_type{});
  });
}

// gradient, lse's gradient or none, q, k, v, out, lse, ranges, sinks, slopes, scale, soft_cap; dq, dk, dv, dsinks
KW_KERNEL(attention_gradients) {
  kw::by_type(args, 2, [&](auto type) {
    using T = decltype(type);
    const auto heads = [&](int i) { return kw::Heads<const T>::of(args.tensor<const T>(i)); };
    const auto to = [&](int i) { return args.tensor<float>(i).data(); };
    auto g = kw::Given::of<T>(args, 2, 2);
    const auto derive = [&](auto plain) {
      const kw::FlashGradient<T, plain.value> all{
          g.shape, heads(2), heads(3), heads(4), heads(5), heads(0), args.tensor<const float>(6).data(),
          args.is_none(1) ? nullptr : args.tensor<const float>(1).data(), g.ranges, g.scoring,
          static_cast<float>(args.real(10)), to(12), to(13), to(14)};
      all.run();
      if (g.sinks) all.of_sinks(g.sinks, to(15));
    };
    if (g.scoring.plain()) derive(std::true_type{});
    else derive(std::false_type{});
  });
}

KW_KERNEL(attention_decode) {
  if (args.is<uint8_t>(1)) kw::decode<uint8_t, kw::GroupedNibbles>(args);
  else if (args.is<int8_t>(1) && args.is<kw::bfloat16>(5)) kw::decode<int8_t, kw::GroupedByte>(args);
  else if (args.is<int8_t>(1)) kw::decode<int8_t>(args);
  else kw::by_type(args, 1, [&](auto type) { kw::decode<decltype(type)>(args); });
}
