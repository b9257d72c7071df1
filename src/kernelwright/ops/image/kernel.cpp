// Images: resizing along one axis after the other, and which of boxes that overlap are kept.
#include "vector.h"

#include <cmath>

#include "resize.h"

namespace kw {
namespace {

// x, height, width, mode, antialias; out
template <class T> void resize(const Args& args) {
  const auto x = args.tensor<const T>(0);
  const auto out = args.tensor<T>(5);
  const Mode mode = static_cast<Mode>(args.integer(3));
  const Axis rows(x.shape(2), out.shape(2), mode, args.boolean(4)), columns(x.shape(3), out.shape(3), mode, args.boolean(4));
  const int64_t planes = x.shape(0) * x.shape(1), from = rows.size * columns.size, to = rows.out * columns.out;
  in_shares(planes, planes * (from + to * (rows.taps + columns.taps)), 1, [&](int64_t begin, int64_t end) {
    Resized<T> task(rows, columns);
    for (int64_t i = begin; i < end; ++i) task.plane(x.data() + i * from, out.data() + i * to);
  });
}

// Boxes as rows of one coordinate each, whole vectors; what is beyond the last overlaps none.
struct Boxes {
  int64_t count, wide;
  std::vector<float> low_x, low_y, high_x, high_y, size;
  std::vector<int32_t> classes, gone;

  explicit Boxes(const Tensor<const float>& boxes)
      : count(boxes.shape(0)), wide((count + W - 1) / W * W), low_x(place(wide)), low_y(place(wide)), high_x(place(wide)),
        high_y(place(wide)), size(place(wide)), classes(place(wide)), gone(place(wide)) {
    for (int64_t i = 0; i < count; ++i) {
      const float* at = boxes.data() + i * 4;
      const size_t k = place(i);
      low_x[k] = at[0], low_y[k] = at[1], high_x[k] = at[2], high_y[k] = at[3], size[k] = (at[2] - at[0]) * (at[3] - at[1]);
    }
  }
  static size_t place(int64_t i) { return static_cast<size_t>(i); }

  // Marks the later boxes that share with box i more than the threshold of what both cover.
  void overlapped_by(int64_t i, float threshold) {
    const size_t k = place(i);
    const auto side = [](F x) KW_INLINED { return (x < 0.0f) ? F{} : x; };  // NaN stays
    for (int64_t j = (i + 1) / W * W; j < wide; j += W) {
      const F x = side(minimum(load(high_x.data() + j, Full{}), splat(high_x[k])) -
                       maximum(load(low_x.data() + j, Full{}), splat(low_x[k])));
      const F y = side(minimum(load(high_y.data() + j, Full{}), splat(high_y[k])) -
                       maximum(load(low_y.data() + j, Full{}), splat(low_y[k])));
      const F shared = x * y, all = splat(size[k]) + load(size.data() + j, Full{}) - shared;
      M over = (shared > threshold * all) & (iota() + static_cast<int32_t>(j) > static_cast<int32_t>(i));
      M held, kind;
      std::memcpy(&held, gone.data() + j, sizeof held), std::memcpy(&kind, classes.data() + j, sizeof kind);
      held |= over & (kind == classes[k]);
      std::memcpy(gone.data() + j, &held, sizeof held);
    }
  }
};

}  // namespace
}  // namespace kw

KW_KERNEL(image_resize) {
  if (args.is<float>(0)) kw::resize<float>(args);
  else kw::resize<kw::bfloat16>(args);
}

// boxes [n, 4], threshold, classes or none; kept [n]
KW_KERNEL(image_suppress) {
  using namespace kw;
  Boxes boxes(args.tensor<const float>(0));
  const float threshold = static_cast<float>(args.real(1));
  if (!args.is_none(2)) {
    const int64_t* given = args.tensor<const int64_t>(2).data();
    for (int64_t i = 0; i < boxes.count; ++i) {
      if (given[i] != static_cast<int32_t>(given[i])) KW_UNSUPPORTED("a class beyond 32 bits");
      boxes.classes[Boxes::place(i)] = static_cast<int32_t>(given[i]);
    }
  }
  bool* kept = args.tensor<bool>(3).data();
  for (int64_t i = 0; i < boxes.count; ++i)
    if ((kept[i] = !boxes.gone[Boxes::place(i)])) boxes.overlapped_by(i, threshold);
}
