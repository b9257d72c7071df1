// Steps of optimizers: AdamW, Lion and Adafactor. Each element of a parameter and of its state is read and written once
// in a step of AdamW and Lion, of one tensor or of many in one call. Adafactor reads gradients twice: the norm of its
// update is summed along with the squares of the gradient, since it factors by rows and columns as they do.
// Sources: Loshchilov and Hutter, Decoupled weight decay regularization (2019), algorithm 2; Chen et al., Symbolic
// discovery of optimization algorithms (2023), program 1; Shazeer and Stern, Adafactor (2018), algorithms 4 and 5.
#include "vector.h"

#include <cmath>
#include <vector>

#include "factored.h"
#include "stream_map.h"

namespace kw {
namespace {

constexpr int64_t kChunk = 1 << 16;  // elements of a tensor that a thread takes at once
constexpr int64_t kCost = 4;         // what an element costs, in elements that are only moved

// The root to the last digit or nearly, by multiplications: the divider is what a step in cache waits for.
KW_INLINE F sqrt_by_products(F x) {
#if defined(__AVX512F__)
  const F inverse = (F)_mm512_rsqrt14_ps((__m512)x), half = inverse * 0.5f, rough = x * inverse;
  const F near = fma(rough, fma(-rough, half, splat(0.5f)), rough), root = fma(fma(-near, near, x), half, near);
  return ((x == 0.0f) | (x == kInf)) ? x : root;
#else
  return sqrt(x);
#endif
}

// What a step reads and writes; `to` may be `from`.
struct Adam {
  float decay, beta1, beta2, new1, new2, size, root, eps, sign;

  // From argument `at`: step, lr, beta1, beta2, eps, weight_decay, maximize.
  static Adam of(const Args& args, int at) {
    return of(args.real(at), args.real(at + 1), args.real(at + 2), args.real(at + 3), args.real(at + 4),
              args.real(at + 5), args.boolean(at + 6));
  }
  static Adam of(double step, double lr, double beta1, double beta2, double eps, double decay, bool maximize) {
    const auto f = [](double x) { return static_cast<float>(x); };
    return {f(1 - lr * decay), f(beta1), f(beta2), f(1 - beta1), f(1 - beta2), f(lr / (1 - std::pow(beta1, step))),
            f(1 / std::sqrt(1 - std::pow(beta2, step))), f(eps), maximize ? -1.0f : 1.0f};
  }

  template <class T> struct Place {
    const T *p, *g;
    const float *m, *v, *top;
    T* p_to;
    float *m_to, *v_to, *top_to;
  };
  template <bool TOP, class T> void run(const Place<T>& at, int64_t begin, int64_t end) const {
    sweep<2>(begin, end, [&](int64_t i, auto lanes, int) KW_INLINED {
      // All is read before anything is written: what lies a page apart would wait for the writes.
      const F p = load(at.p + i, lanes), g = load(at.g + i, lanes) * sign, m = load(at.m + i, lanes);
      const F mean = fma(g - m, new1, m);
      F square = fma(g * g, new2, load(at.v + i, lanes) * beta2);
      const F kept = square;
      if constexpr (TOP) square = maximum(load(at.top + i, lanes), square);
      const F step = mean * size / fma(sqrt_by_products(square), root, splat(eps));
      store(at.p_to + i, fma(p, decay, -step), lanes);
      store(at.v_to + i, kept, lanes);
      if constexpr (TOP) store(at.top_to + i, square, lanes);
      store(at.m_to + i, mean, lanes);
    });
  }
};

struct Sign {
  float decay, new1, new2, lr, sign;

  // From argument `at`: lr, beta1, beta2, weight_decay, maximize.
  static Sign of(const Args& args, int at) {
    const double lr = args.real(at);
    const auto f = [](double x) { return static_cast<float>(x); };
    return {f(1 - lr * args.real(at + 3)), f(1 - args.real(at + 1)), f(1 - args.real(at + 2)), f(lr),
            args.boolean(at + 4) ? -1.0f : 1.0f};
  }

  template <class T> struct Place {
    const T *p, *g;
    const float* m;
    T* p_to;
    float* m_to;
  };
  template <class T> void run(const Place<T>& at, int64_t begin, int64_t end) const {
    sweep<2>(begin, end, [&](int64_t i, auto lanes, int) KW_INLINED {
      const F p = load(at.p + i, lanes), m = load(at.m + i, lanes), apart = load(at.g + i, lanes) * sign - m;
      const F mixed = fma(apart, new1, m);
      const F step = (mixed != mixed) ? mixed : kw::sign(mixed) * lr;
      store(at.p_to + i, fma(p, decay, -step), lanes);
      store(at.m_to + i, fma(apart, new2, m), lanes);
    });
  }
};

template <class T> const T* input(const Args& args, int i, int64_t n) {
  const auto t = args.tensor<const T>(i);
  if (!t.contiguous()) KW_UNSUPPORTED("a tensor is not contiguous");
  KW_REQUIRE(t.numel() == n, "the tensors of a parameter differ in size");
  return t.data();
}
template <class T> T* output(const Args& args, int i, int64_t n) {
  const auto t = args.tensor<T>(i);
  KW_REQUIRE(t.numel() == n, "an output differs from its parameter in size");
  ask_large_pages(t.data(), n * int64_t(sizeof(T)));
  return t.data();
}
int64_t elements(const Args& args, int i) {
  const DLTensor* t = args.any_tensor(i);
  int64_t n = 1;
  for (int axis = 0; axis < t->ndim; ++axis) n *= t->shape[axis];
  return n;
}
template <class Body> void typed(const Args& args, int i, const Body& body) {
  if (args.is<float>(i)) body(float{});
  else body(bfloat16{});
}

// Calls body(tensor, begin, end) for chunks of many tensors, shared by the threads.
template <class Body> void chunks(const int64_t* sizes, int64_t count, const Body& body) {
  struct Chunk {
    int64_t tensor, begin;
  };
  std::vector<Chunk> all;
  int64_t work = 0;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t n = sizes[t];
    work += n;
    for (int64_t i = 0; i < n; i += kChunk) all.push_back({t, i});
  }
  in_shares(static_cast<int64_t>(all.size()), work * kCost, 1, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c)
      body(all[c].tensor, all[c].begin, std::min(sizes[all[c].tensor], all[c].begin + kChunk));
  });
}

// Tensors of many parameters among the arguments. All are looked at before anything is moved: what the kernel does not
// serve ends the call, and nothing has changed.
class Many {
 public:
  Many(const Args& args, int first, int columns) : count((args.size() - first) / columns), args_(args) {
    KW_REQUIRE((args.size() - first) % columns == 0, "a parameter has too few tensors");
    written_.reserve(static_cast<size_t>(3 * count));
  }
  // The data of argument i, which has the parameter's shape.
  template <class T> T* like(int i, const DLTensor* param) const {
    const auto t = args_.tensor<T>(i);
    if (t.device().device_type != kDLCPU || !t.contiguous() || !t.same_shape(Tensor<T>(param)))
      KW_UNSUPPORTED("a tensor is on another device, of another shape or not contiguous");
    if (!t.data() && t.numel()) KW_UNSUPPORTED("a tensor has no memory of its own");
    return t.data();
  }
  template <class T> T* written(int i, const DLTensor* param) {
    T* data = like<T>(i, param);
    const int64_t n = Tensor<T>(param).numel();
    if (n) written_.push_back({data, data + n});
    return data;
  }
  float* written_means(int i, int64_t rows, int64_t columns) {
    const auto t = args_.tensor<float>(i);
    if (t.ndim() != 2 || t.shape(0) != rows || t.shape(1) != columns) KW_UNSUPPORTED("means of squares of another shape");
    return written<float>(i, t.dl());
  }
  // The number of this step: a number, or a counter that `go` adds one to.
  double step(int i) {
    if (!args_.is_tensor(i)) {
      if (!(args_.real(i) >= 1)) KW_UNSUPPORTED("a step before the first");
      return args_.real(i);
    }
    float* counter = like<float>(i, args_.any_tensor(i));
    if (Tensor<float>(args_.any_tensor(i)).numel() != 1) KW_UNSUPPORTED("a counter of steps is no number");
    counters_.push_back(counter);
    return *counter + 1.0;
  }
  // Counts the steps, once all is known to be served.
  void go() {
    std::sort(written_.begin(), written_.end());
    for (size_t i = 1; i < written_.size(); ++i)
      if (written_[i].first < written_[i - 1].second) KW_UNSUPPORTED("two tensors share memory");
    for (float* counter : counters_) *counter += 1.0f;
  }
  const int64_t count;

 private:
  const Args& args_;
  std::vector<std::pair<const void*, const void*>> written_;
  std::vector<float*> counters_;
};

// Calls body(T{}) for the type of a parameter.
template <class Body> void typed_parameter(const Args& args, int i, const Body& body) {
  if (args.is<float>(i)) body(float{});
  else if (args.is<bfloat16>(i)) body(bfloat16{});
  else KW_UNSUPPORTED("a parameter is neither float32 nor bfloat16");
}

}  // namespace
}  // namespace kw

// param, grad, mean, square, largest, step, lr, beta1, beta2, eps, weight_decay, maximize; the first five, moved
KW_KERNEL(optim_adamw) {
  const int64_t n = kw::elements(args, 0);
  const auto adam = kw::Adam::of(args, 5);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const bool top = !args.is_none(4);
    const kw::Adam::Place<T> at{
        kw::input<T>(args, 0, n), kw::input<T>(args, 1, n), kw::input<float>(args, 2, n), kw::input<float>(args, 3, n),
        top ? kw::input<float>(args, 4, n) : nullptr, kw::output<T>(args, 12, n), kw::output<float>(args, 13, n),
        kw::output<float>(args, 14, n), top ? kw::output<float>(args, 15, n) : nullptr};
    kw::chunks(&n, 1, [&](int64_t, int64_t begin, int64_t end) {
      if (top) adam.run<true>(at, begin, end);
      else adam.run<false>(at, begin, end);
    });
  });
}

// param, grad, mean, lr, beta1, beta2, weight_decay, maximize; param and mean, moved
KW_KERNEL(optim_lion) {
  const int64_t n = kw::elements(args, 0);
  const auto lion = kw::Sign::of(args, 3);
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const kw::Sign::Place<T> at{kw::input<T>(args, 0, n), kw::input<T>(args, 1, n), kw::input<float>(args, 2, n),
                                kw::output<T>(args, 8, n), kw::output<float>(args, 9, n)};
    kw::chunks(&n, 1, [&](int64_t, int64_t begin, int64_t end) { lion.run(at, begin, end); });
  });
}

// param, grad, row, column, step, lr, beta2_decay, eps1, eps2, d, weight_decay, maximize; param, row and column, moved
KW_KERNEL(optim_adafactor) {
  const DLTensor* t = args.any_tensor(0);
  if (t->ndim != 2) KW_UNSUPPORTED("a parameter of other than two axes");
  const int64_t rows = t->shape[0], columns = t->shape[1];
  if (rows * columns == 0) KW_UNSUPPORTED("a parameter without elements");
  kw::typed(args, 0, [&](auto type) {
    using T = decltype(type);
    const kw::Factored<T> step{kw::Numbers::of(args, 5, args.real(4)), rows, columns, kw::input<T>(args, 0, rows * columns),
                               kw::input<T>(args, 1, rows * columns)};
    step.run(kw::input<float>(args, 2, rows), kw::input<float>(args, 3, columns),
             kw::output<T>(args, 12, rows * columns), kw::output<float>(args, 13, rows),
             kw::output<float>(args, 14, columns), args.boolean(11));
  });
}

// lr, beta1, beta2, eps, weight_decay, maximize; then of each parameter: itself, its gradient, mean, square, largest or
// none, step. AdamW of many parameters, in place.
KW_KERNEL(optim_adamw_many) {
  struct Row {
    kw::Adam adam;
    void* p;
    const void* g;
    float *m, *v, *top;
    bool narrow;
  };
  constexpr int kFirst = 6, kColumns = 6;
  kw::Many many(args, kFirst, kColumns);
  std::vector<Row> rows(static_cast<size_t>(many.count));
  std::vector<int64_t> sizes(rows.size());
  double before = -1;
  for (size_t r = 0; r < rows.size(); ++r) {
    const int i = kFirst + static_cast<int>(r) * kColumns;
    const DLTensor* param = args.any_tensor(i);
    Row& row = rows[r];
    kw::typed_parameter(args, i, [&](auto type) {
      using T = decltype(type);
      row.p = many.written<T>(i, param), row.g = many.like<const T>(i + 1, param);
      row.narrow = std::is_same_v<T, kw::bfloat16>;
    });
    row.m = many.written<float>(i + 2, param), row.v = many.written<float>(i + 3, param);
    row.top = args.is_none(i + 4) ? nullptr : many.written<float>(i + 4, param);
    const double step = many.step(i + 5);
    row.adam = step == before ? rows[r - 1].adam
                              : kw::Adam::of(step, args.real(0), args.real(1), args.real(2), args.real(3), args.real(4), args.boolean(5));
    before = step;
    sizes[r] = kw::elements(args, i);
  }
  many.go();
  kw::chunks(sizes.data(), many.count, [&](int64_t tensor, int64_t begin, int64_t end) {
    const Row& row = rows[tensor];
    const auto run = [&](auto type) {
      using T = decltype(type);
      T* p = static_cast<T*>(row.p);
      const kw::Adam::Place<T> at{p, static_cast<const T*>(row.g), row.m, row.v, row.top, p, row.m, row.v, row.top};
      if (row.top) row.adam.template run<true>(at, begin, end);
      else row.adam.template run<false>(at, begin, end);
    };
    if (row.narrow) run(kw::bfloat16{});
    else run(float{});
  });
}

// lr, beta1, beta2, weight_decay, maximize; then of each parameter: itself, its gradient, mean. Lion of many, in place.
KW_KERNEL(optim_lion_many) {
  struct Row {
    void* p;
    const void* g;
    float* m;
    bool narrow;
  };
  constexpr int kFirst = 5, kColumns = 3;
  const auto lion = kw::Sign::of(args, 0);
  kw::Many many(args, kFirst, kColumns);
  std::vector<Row> rows(static_cast<size_t>(many.count));
  std::vector<int64_t> sizes(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    const int i = kFirst + static_cast<int>(r) * kColumns;
    const DLTensor* param = args.any_tensor(i);
    kw::typed_parameter(args, i, [&](auto type) {
      using T = decltype(type);
      rows[r] = {many.written<T>(i, param), many.like<const T>(i + 1, param), many.written<float>(i + 2, param),
                 std::is_same_v<T, kw::bfloat16>};
    });
    sizes[r] = kw::elements(args, i);
  }
  many.go();
  kw::chunks(sizes.data(), many.count, [&](int64_t tensor, int64_t begin, int64_t end) {
    const Row& row = rows[tensor];
    const auto run = [&](auto type) {
      using T = decltype(type);
      T* p = static_cast<T*>(row.p);
      lion.run(kw::Sign::Place<T>{p, static_cast<const T*>(row.g), row.m, p, row.m}, begin, end);
    };
    if (row.narrow) run(kw::bfloat16{});
    else run(float{});
  });
}

// lr, beta2_decay, eps1, eps2, d, weight_decay, maximize; then of each parameter: itself, its gradient, row and column,
// or variance and none, step. Adafactor of many parameters, in place, one after another.
KW_KERNEL(optim_adafactor_many) {
  struct Row {
    void *p;
    const void* g;
    float *row, *column;
    double step;
    bool narrow;
  };
  constexpr int kFirst = 7, kColumns = 5;
  kw::Many many(args, kFirst, kColumns);
  std::vector<Row> rows(static_cast<size_t>(many.count));
  for (size_t r = 0; r < rows.size(); ++r) {
    const int i = kFirst + static_cast<int>(r) * kColumns;
    const DLTensor* param = args.any_tensor(i);
    Row& one = rows[r];
    const bool whole = args.is_none(i + 3);
    if (!whole && (param->ndim != 2 || kw::elements(args, i) == 0)) KW_UNSUPPORTED("a parameter of other than two axes");
    kw::typed_parameter(args, i, [&](auto type) {
      using T = decltype(type);
      one.p = many.written<T>(i, param), one.g = many.like<const T>(i + 1, param);
      one.narrow = std::is_same_v<T, kw::bfloat16>;
    });
    one.row = whole ? many.written<float>(i + 2, param) : many.written_means(i + 2, param->shape[0], 1);
    one.column = whole ? nullptr : many.written_means(i + 3, 1, param->shape[1]);
    one.step = many.step(i + 4);
  }
  many.go();
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& one = rows[r];
    const DLTensor* param = args.any_tensor(kFirst + static_cast<int>(r) * kColumns);
    const auto run = [&](auto type) {
      using T = decltype(type);
      T* p = static_cast<T*>(one.p);
      const T* g = static_cast<const T*>(one.g);
      const auto numbers = kw::Numbers::of(args, 0, one.step);
      if (one.column) {
        kw::Factored<T>{numbers, param->shape[0], param->shape[1], p, g}.run(one.row, one.column, p, one.row, one.column, args.boolean(6));
      } else {
        kw::unfactored(numbers, kw::elements(args, kFirst + static_cast<int>(r) * kColumns), p, g, one.row, args.boolean(6));
      }
    };
    if (one.narrow) run(kw::bfloat16{});
    else run(float{});
  }
}
