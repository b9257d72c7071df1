// Mixture of experts: choosing experts, sorting tokens by expert, and the experts' products.
#include "vector.h"
#include "gathered.h"

namespace kw {
namespace {

// Choosing ------------------------------------------------------------------------------------------------

struct Gate {
  int64_t experts, chosen, groups, kept, best_of_group;
  bool sigmoid, renormalised;
  float scale;
};

// The largest value that is not taken, the first of equals; NaN is above all, as torch sorts it.
int64_t largest(const float* values, const uint8_t* taken, int64_t n) {
  int64_t found = -1;
  for (int64_t i = 0; i < n; ++i)
    if (!taken[i] && (found < 0 || values[i] > values[found] || (values[i] != values[i] && values[found] == values[found])))
      found = i;
  return found;
}

template <class T>
void gate_row(const Gate& g, const T* logits, const float* bias, float* scores, float* choice, uint8_t* taken,
              float* weights, int64_t* ids) {
  const int64_t n = g.experts;
  float most = -kInf;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, to_scalar(logits[i]));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float x = to_scalar(logits[i]);
    scores[i] = g.sigmoid ? 1.0f / (1.0f + std::exp(-x)) : std::exp(x - most);
    sum += scores[i];
  }
  const bool by_logit = !g.sigmoid && !bias && g.best_of_group == 1;  // the same order, and nothing rounds to equal
  for (int64_t i = 0; i < n; ++i) {
    if (!g.sigmoid) scores[i] = static_cast<float>(scores[i] / sum);
    choice[i] = by_logit ? to_scalar(logits[i]) : scores[i] + (bias ? bias[i] : 0.0f);
    taken[i] = 0;
  }
  if (g.groups > 1) {
    const int64_t each = n / g.groups;
    float* const of_group = choice + n;
    uint8_t* const taken_groups = taken + n;
    for (int64_t b = 0; b < g.groups; ++b) {
      const int64_t first = largest(choice + b * each, taken + b * each, each);
      of_group[b] = choice[b * each + first], taken_groups[b] = 0;
      if (g.best_of_group == 2 && each > 1) {
        taken[b * each + first] = 1;
        of_group[b] += choice[b * each + largest(choice + b * each, taken + b * each, each)];
        taken[b * each + first] = 0;
      }
    }
    for (int64_t k = 0; k < g.kept; ++k) taken_groups[largest(of_group, taken_groups, g.groups)] = 1;
    for (int64_t i = 0; i < n; ++i) taken[i] = !taken_groups[i / each];
  }
  float total = 0;
  for (int64_t k = 0; k < g.chosen; ++k) {
    ids[k] = largest(choice, taken, n);
    taken[ids[k]] = 1;
    weights[k] = scores[ids[k]];
    total += weights[k];
  }
  for (int64_t k = 0; k < g.chosen; ++k)
    weights[k] = (g.renormalised ? weights[k] / std::max(total, 1e-20f) : weights[k]) * g.scale;
}

template <class T> void gate(const Args& args) {
  const auto logits = args.tensor<const T>(0);
  const float* bias = args.is_none(1) ? nullptr : args.tensor<const float>(1).data();
  const Gate g{logits.shape(1), std::min(args.integer(2), logits.shape(1)), args.integer(4), args.integer(5), args.integer(6),
               args.boolean(3), args.boolean(7), static_cast<float>(args.real(8))};
  if (g.groups < 1 || g.experts % g.groups || g.kept > g.groups) KW_UNSUPPORTED("groups do not divide the experts");
  float* weights = args.tensor<float>(9).data();
  int64_t* ids = args.tensor<int64_t>(10).data();
  const int64_t rows = logits.shape(0);
#pragma omp parallel if (rows * g.experts > 4096 && !omp_in_parallel())
  {
    const Temporary<float> room(2 * g.experts + g.groups);
    const Temporary<uint8_t> taken(g.experts + g.groups);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < rows; ++i)
      gate_row(g, logits.data() + i * g.experts, bias, room.data, room.data + g.experts, taken.data,
               weights + i * g.chosen, ids + i * g.chosen);
  }
}

// Products ------------------------------------------------------------------------------------------------

template <class T> GroupPanels<T> panels_of(const Tensor<const T>& t) { return {t.data(), t.shape(1), t.shape(2)}; }

template <class T> struct Result {
  Temporary<float> room;
  Scattered<T> to;

  Result(const Tensor<T>& out, int64_t panels, const int64_t* scatter, int64_t each, const float* weights)
      : room(direct(out, panels) ? 0 : out.shape(0) * panels * kGroupColumns),
        to{out.data(), room.data, out.shape(0), out.shape(1), panels * kGroupColumns, scatter, each, weights} {
    if constexpr (std::is_same_v<T, float>)
      if (direct(out, panels)) to.sums = out.data();
  }
  bool stored() const { return static_cast<const void*>(to.sums) == static_cast<const void*>(to.out); }
  static bool direct(const Tensor<T>& out, int64_t panels) {
    return std::is_same_v<T, float> && out.shape(1) == panels * kGroupColumns;
  }
};

// Indices of rows, each below a number; none is one too.
void check_index(const Args& args, int i, const char* what, int64_t below) {
  if (args.is_none(i)) return;
  const auto index = args.tensor<const int64_t>(i);
  bool good = true;
  for (int64_t e = 0; e < index.numel(); ++e) good &= static_cast<uint64_t>(index[e]) < static_cast<uint64_t>(below);
  if (good) return;
  char text[96];
  snprintf(text, sizeof text, "moe.grouped_mm: %s is out of range somewhere; expected 0 to %lld", what,
           static_cast<long long>(below - 1));
  raise("ValueError", "", text);
}

// Offsets from 0 to no more entries than there are, and indices of rows.
void check_entries(const Args& args, const Tensor<const int64_t>& offsets, int64_t from, int64_t to) {
  const auto most = [&](int i, int64_t rows) { return args.is_none(i) ? rows : args.any_tensor(i)->shape[0]; };
  check_offsets("moe.grouped_mm: offsets", offsets.data(), offsets.shape(0) - 1, std::min(most(3, from), most(4, to)));
  if (offsets[0] != 0) raise("ValueError", "", "moe.grouped_mm: offsets is from another number; expected them from 0 upwards");
  check_index(args, 3, "gather", from);
  check_index(args, 4, "scatter", to);
}

// x [tokens, inner], panels, offsets [groups + 1], gather [rows] or none, scatter [rows] or none, weights by scatter or
// none, rows of the output; out [rows of the output, columns]
template <class T> void grouped(const Args& args) {
  const auto x = args.tensor<const T>(0);
  const auto w = panels_of(args.tensor<const T>(1));
  const auto offsets = args.tensor<const int64_t>(2);
  check_entries(args, offsets, x.shape(0), args.tensor<T>(8).shape(0));
  const Segments s{offsets.data(), offsets.shape(0) - 1};
  const auto index = [&](int i) { return args.is_none(i) ? nullptr : args.tensor<const int64_t>(i).data(); };
  const GatheredRows<T> rows{x.data(), x.stride(0), index(3)};
  const Result<T> result(args.tensor<T>(8), w.panels, index(4), 1,
                         args.is_none(5) ? nullptr : args.tensor<const float>(5).data());
  const int64_t tasks = gathered_tasks(w.panels), high = gathered_high(w.inner);
#pragma omp parallel if (tasks > 1)
  {
    const Temporary<float> room(high * gathered_apart(w.inner));
#pragma omp for schedule(dynamic, 1)
    for (int64_t t = 0; t < tasks; ++t) {
      const int64_t first = w.panels * t / tasks, last = w.panels * (t + 1) / tasks;
      result.to.begin(first, last);
      gathered_panels(s, rows, w, first, last, room.data, high, [&](int64_t i, int64_t at, F low, F high) KW_INLINED {
        result.to.add(i, at / kHalf, at % kHalf, low, high);
      });
      if (!result.stored()) result.to.end(first, last);
    }
  }
}

// x [tokens, hidden], gates and ups [experts, panels, hidden, 2, 16], downs [experts, panels, width, 2, 16], weights
// [tokens, chosen], ids [tokens, chosen]; out [tokens, hidden]
template <class T> void experts(const Args& args) {
  const auto x = args.tensor<const T>(0);
  const auto up = panels_of(args.tensor<const T>(1)), down = panels_of(args.tensor<const T>(2));
  const auto weights = args.tensor<const float>(3);
  const auto ids = args.tensor<const int64_t>(4);
  const int64_t pairs = ids.numel(), chosen = ids.shape(1), groups = args.tensor<const T>(1).shape(0);
  const Temporary<int64_t> order(pairs), offsets(groups + 1);
  segment_plan(ids.data(), pairs, groups, order.data, offsets.data, segment_shares(pairs, groups));
  const Segments s{offsets.data, groups};
  const int64_t width = gathered_apart(down.inner);
  const Temporary<float> hidden(s.rows() * width);
  const GatheredRows<T> tokens{x.data(), x.stride(0), order.data, chosen};
  const GatheredRows<float> between{hidden.data, width, nullptr};
  const Result<T> result(args.tensor<T>(5), down.panels, order.data, chosen, weights.data());
  const int64_t ups = gathered_tasks(up.panels), downs = gathered_tasks(down.panels);
  const int64_t high_up = gathered_high(up.inner), high_down = gathered_high(down.inner);
  const int64_t room_of = std::max(high_up * gathered_apart(up.inner), high_down * gathered_apart(down.inner));
#pragma omp parallel if (ups + downs > 2)
  {
    const Temporary<float> room(room_of);
#pragma omp for schedule(dynamic, 1)
    for (int64_t t = 0; t < ups; ++t)
      gathered_panels(s, tokens, up, up.panels * t / ups, up.panels * (t + 1) / ups, room.data, high_up,
                      [&](int64_t i, int64_t at, F gate, F other) KW_INLINED {
                        store(hidden.data + i * width + at, silu(gate) * other, Full{});
                      });
#pragma omp for schedule(dynamic, 1)
    for (int64_t t = 0; t < downs; ++t) {
      const int64_t first = down.panels * t / downs, last = down.panels * (t + 1) / downs;
      result.to.begin(first, last);
      gathered_panels(s, between, down, first, last, room.data, high_down, [&](int64_t i, int64_t at, F low, F high) KW_INLINED {
        result.to.add(i, at / kHalf, at % kHalf, low, high);
      });
      if (!result.stored()) result.to.end(first, last);
    }
  }
}

}  // namespace
}  // namespace kw

// logits [rows, experts], bias [experts] or none, how many are chosen, sigmoid, groups, groups kept, best of a group that
// count, renormalised, scale; weights and ids [rows, chosen]
KW_KERNEL(moe_gate) {
  if (args.is<float>(0)) kw::gate<float>(args);
  else kw::gate<kw::bfloat16>(args);
}

// keys [n], groups; order [n], offsets [groups + 1]
KW_KERNEL(moe_plan) {
  const kw::Tuned tuned(args, 4);
  const auto keys = args.tensor<const int64_t>(0);
  const int64_t n = keys.numel(), groups = args.integer(1);
  kw::segment_plan(keys.data(), n, groups, args.tensor<int64_t>(2).data(), args.tensor<int64_t>(3).data(),
                   kw::tuned_or(kw::segment_shares(n, groups)));
}

KW_KERNEL(moe_grouped) {
  const kw::Tuned tuned(args, 9);
  if (args.is<float>(0)) kw::grouped<float>(args);
  else kw::grouped<kw::bfloat16>(args);
}

KW_KERNEL(moe_experts) {
  const kw::Tuned tuned(args, 6);
  if (args.is<float>(0)) kw::experts<float>(args);
  else kw::experts<kw::bfloat16>(args);
}
