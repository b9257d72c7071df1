// out[m, n] = finish(sum over k of A[m, k] * B[k, n]); sizes at run time, layouts by strides.
// Three ways, by size: dot products where one side has few rows and both run along k; tiles of ROWS by
// 2 vectors in registers over B as it lies where A has few rows; the same tiles over packed panels else.
using namespace kw;

constexpr int kRows = ROWS;      // of a register tile
constexpr int kColumns = 2 * W;  // of a register tile
constexpr int kDepth = DEPTH;    // of a packed panel: kDepth * kColumns floats stay in the second cache
constexpr int kFew = FEW;        // rows that dot products are used for, at most

struct Matrix {
  const float* p;
  int64_t row, column;  // strides
};

struct Finish {
  float* out;
  int64_t columns;
  bool streamed;
  FIELDS
  // The result of column n on of row m; `flat` is its offset in the whole output.
  template <class Lanes>
  inline __attribute__((always_inline)) F value(F acc, int64_t m, int64_t n, int64_t flat, Lanes lanes) const {
    (void)m;
    STATEMENTS
  }
  template <class Lanes>
  inline __attribute__((always_inline)) void put(F acc, int64_t m, int64_t n, Lanes lanes) const {
    const int64_t flat = m * columns + n;
    F v = value(acc, m, n, flat, lanes);
    if (TRIANGLE) {
      const M distance = iota() + int32_t(n - m);
      v = select(TRIANGLE > 0 ? distance >= DIAGONAL : distance <= DIAGONAL, v, splat(0.0f));
    }
    if (streamed && lanes.count == W) stream(out + flat, v, Full{});
    else store(out + flat, v, lanes);
  }
  // Whether the tile lies wholly on the side that the triangle leaves zero.
  bool empty(int64_t m, int64_t n) const {
    if (TRIANGLE > 0) return n + kColumns - 1 - m < DIAGONAL;
    if (TRIANGLE < 0) return n - (m + kRows - 1) > DIAGONAL;
    return false;
  }
};

static inline float sum_lanes(F v) {
  float s[W];
  vstore(s, v);
  for (int step = W / 2; step; step /= 2)
    for (int i = 0; i < step; ++i) s[i] += s[i + step];
  return s[0];
}

// P * Q dot products of rows that run along k.
template <int P, int Q>
static inline void dots(const float* const* p, const float* const* q, int64_t depth, float (*to)[Q]) {
  constexpr int kSteps = P * Q >= 8 ? 1 : 8 / (P * Q);
  F acc[kSteps][P][Q] = {};
  int64_t k = 0;
  for (; k + kSteps * W <= depth; k += kSteps * W)
#pragma GCC unroll 8
    for (int s = 0; s < kSteps; ++s)
#pragma GCC unroll 4
      for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < Q; ++j)
          acc[s][i][j] = fma(vload(p[i] + k + s * W), vload(q[j] + k + s * W), acc[s][i][j]);
  for (; k < depth; k += W) {
    const Part rest = {int(min(W, depth - k))};
    for (int i = 0; i < P; ++i)
      for (int j = 0; j < Q; ++j) acc[0][i][j] = fma(load(p[i] + k, rest), load(q[j] + k, rest), acc[0][i][j]);
  }
  if constexpr (P * Q % W == 0) {  // W sums at once
    for (int group = 0; group < P * Q; group += W) {
      F r[W];
      for (int i = 0; i < W; ++i) r[i] = acc[0][(group + i) / Q][(group + i) % Q];
      transpose_lanes(r);
      for (int step = W / 2; step; step /= 2)
        for (int i = 0; i < step; ++i) r[i] += r[i + step];
      vstore(&to[0][0] + group, r[0]);
    }
    return;
  }
  for (int i = 0; i < P; ++i)
    for (int j = 0; j < Q; ++j) {
      F sum = acc[0][i][j];
      for (int s = 1; s < kSteps; ++s) sum += acc[s][i][j];
      to[i][j] = sum_lanes(sum);
    }
}

template <int P, int Q, class Put>
static inline void dot_block(const float* p, int64_t p_step, const float* q, int64_t q_step, int64_t depth, Put put) {
  const float *rows[P], *others[Q];
  float to[P][Q];
  for (int i = 0; i < P; ++i) rows[i] = p + i * p_step;
  for (int j = 0; j < Q; ++j) others[j] = q + j * q_step;
  dots<P, Q>(rows, others, depth, to);
  for (int i = 0; i < P; ++i)
    for (int j = 0; j < Q; ++j) put(i, j, to[i][j]);
}

// `big` has many rows that run along k, `small` few; put(i, j, value) takes the product of rows i and j.
template <class Put>
static void dot_rows(const float* big, int64_t big_step, int64_t first, int64_t last, const float* small,
                     int64_t small_step, int64_t few, int64_t depth, Put put) {
  for (int64_t i = first; i < last;) {
    const int64_t p = last - i >= 4 ? 4 : 1;
    for (int64_t j = 0; j < few;) {
      const int64_t q = few - j >= 4 ? 4 : 1;
      const float *a = big + i * big_step, *b = small + j * small_step;
      const auto at = [&](int64_t r, int64_t s, float v) { put(i + r, j + s, v); };
      if (p == 4 && q == 4) dot_block<4, 4>(a, big_step, b, small_step, depth, at);
      else if (p == 4) dot_block<4, 1>(a, big_step, b, small_step, depth, at);
      else if (q == 4) dot_block<1, 4>(a, big_step, b, small_step, depth, at);
      else dot_block<1, 1>(a, big_step, b, small_step, depth, at);
      j += q;
    }
    i += p;
  }
}

// R rows by N vectors: adds A's rows times B's panel to `carry` (none: zero); the last panel finishes. Each
// panel is summed from zero, so that no chain of roundings is longer than a panel.
template <int R, int N>
static void tile(const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, int64_t depth,
                 float* carry, int64_t carry_row, bool begins, bool ends, const Finish& finish, int64_t m, int64_t n,
                 int64_t width) {
  F acc[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < N; ++v) acc[r][v] = splat(0.0f);
  for (int64_t k = 0; k < depth; ++k) {
    F y[N];
    for (int v = 0; v < N; ++v) y[v] = vload(b + k * b_row + v * W);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const F x = splat(a[r * a_row + k * a_column]);
      for (int v = 0; v < N; ++v) acc[r][v] = fma(x, y[v], acc[r][v]);
    }
  }
  if (!begins)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < N; ++v) acc[r][v] += vload(carry + r * carry_row + v * W);
  if (!ends) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < N; ++v) vstore(carry + r * carry_row + v * W, acc[r][v]);
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < N; ++v) {
      const int64_t left = width - v * W;
      if (left >= W) finish.put(acc[r][v], m + r, n + v * W, Full{});
      else if (left > 0) finish.put(acc[r][v], m + r, n + v * W, Part{int(left)});
    }
}

// Copies kColumns columns of B from (k, n) on, zeros beyond the last column.
static void pack(const Matrix& b, int64_t k, int64_t depth, int64_t n, int64_t width, float* to) {
  if (b.column == 1) {
    for (int64_t i = 0; i < depth; ++i)
      for (int v = 0; v < 2; ++v) {
        const Part part = {int(max(0, min(W, width - v * W)))};
        const float* from = b.p + (k + i) * b.row + n + v * W;
        vstore(to + i * kColumns + v * W, part.count == W ? vload(from) : load(from, part));
      }
    return;
  }
  if (b.row == 1 && width == kColumns) {
    int64_t i = 0;
    for (; i + W <= depth; i += W)
      for (int v = 0; v < 2; ++v) {
        F r[W];
        for (int j = 0; j < W; ++j) r[j] = vload(b.p + (n + v * W + j) * b.column + k + i);
        transpose_lanes(r);
        for (int j = 0; j < W; ++j) vstore(to + (i + j) * kColumns + v * W, r[j]);
      }
    for (; i < depth; ++i)
      for (int64_t j = 0; j < kColumns; ++j) to[i * kColumns + j] = b.p[(n + j) * b.column + k + i];
    return;
  }
  for (int64_t j = 0; j < kColumns; ++j) {
    const float* from = b.p + (n + j) * b.column + k * b.row;
    for (int64_t i = 0; i < depth; ++i) to[i * kColumns + j] = j < width ? from[i * b.row] : 0.0f;
  }
}

struct Size {
  int64_t m, n, k;
};

// Rows [m0, m1) and columns [n0, n1) of the product.
static void product(const Matrix& a, const Matrix& b, const Size& s, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                    const Finish& finish) {
  const bool as_it_lies = b.column == 1 && m1 - m0 <= 2 * kRows;
  const int64_t rounds = max(1, (s.k + kDepth - 1) / kDepth), panels = (n1 - n0 + kColumns - 1) / kColumns;
  std::vector<float> packed((as_it_lies ? 1 : panels) * min(kDepth, s.k) * kColumns + W);
  std::vector<float> carry(rounds > 1 ? (m1 - m0) * panels * kColumns : 0);
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t k = round * kDepth, depth = min(kDepth, s.k - k);
    if (!as_it_lies)
      for (int64_t j = 0; j < panels; ++j)
        pack(b, k, depth, n0 + j * kColumns, n1 - n0 - j * kColumns, &packed[j * depth * kColumns]);
    // Blocks of rows whose part of A stays in the second cache while the panels pass by.
    const int64_t block = max(kRows, BLOCK_ROWS / kRows * kRows);
    for (int64_t top = m0; top < m1; top += block)
      for (int64_t j = 0; j < panels; ++j) {
        const int64_t n = n0 + j * kColumns, width = min(kColumns, n1 - n);
        const float* panel = as_it_lies ? b.p + k * b.row + n : &packed[j * depth * kColumns];
        int64_t panel_row = as_it_lies ? b.row : kColumns;
        if (as_it_lies && width < kColumns) {
          pack(b, k, depth, n, width, packed.data());
          panel = packed.data();
          panel_row = kColumns;
        }
        for (int64_t m = top; m < min(top + block, m1);) {
          const int64_t left = min(top + block, m1) - m;
          float* held = rounds > 1 ? &carry[((m - m0) * panels + j) * kColumns] : nullptr;
          const float* rows = a.p + m * a.row + k * a.column;
          const int64_t d = finish.empty(m, n) ? 0 : depth;
#define KW_TILE(R)                                                                                                \
  {                                                                                                               \
    (width <= W ? tile<R, 1> : tile<R, 2>)(rows, a.row, a.column, panel, panel_row, d, held, panels * kColumns,   \
                                           round == 0, round + 1 == rounds, finish, m, n, width);                 \
    m += R;                                                                                                       \
    continue;                                                                                                     \
  }
          if (left >= kRows) KW_TILE(kRows)
          if (kRows > 8 && left >= 8) KW_TILE(8)
          if (kRows > 4 && left >= 4) KW_TILE(4)
          if (left >= 2) KW_TILE(2)
          KW_TILE(1)
        }
      }
  }
}

static void multiply(const Matrix& x, const Matrix& y, const Size& s, const Finish& finish) {
  const int64_t work = s.m * s.n * max(1, s.k) / 8 + s.m * s.k + s.k * s.n + s.m * s.n;
  const int64_t shares = threads_for(work);
  const auto few = [&](int64_t rows) { return rows <= kFew && (rows <= 4 || s.k >= 256); };
  const bool few_rows = few(s.m) && s.m <= s.n && y.row == 1;
  const bool few_columns = few(s.n) && s.n < s.m && x.column == 1;
  // The few rows that are met by all others, made to run along k.
  parallel(shares, work, [&](int64_t first, int64_t last) {
    std::vector<float> few;
    for (int64_t share = first; share < last; ++share) {
      const auto from = [&](int64_t count, int64_t step, int64_t which) {
        const int64_t units = (count + step - 1) / step;
        return min(count, units * which / shares * step);
      };
      const auto put = [&](int64_t m, int64_t n, float v) { finish.put(splat(v), m, n, Part{1}); };
      if (few_rows) {
        const float* rows = x.p;
        if (x.column != 1) {
          few.resize(s.m * s.k);
          for (int64_t m = 0; m < s.m; ++m)
            for (int64_t k = 0; k < s.k; ++k) few[m * s.k + k] = x.p[m * x.row + k * x.column];
          rows = few.data();
        }
        dot_rows(y.p, y.column, from(s.n, 4, share), from(s.n, 4, share + 1), rows, x.column == 1 ? x.row : s.k, s.m,
                 s.k, [&](int64_t n, int64_t m, float v) { put(m, n, v); });
      } else if (few_columns) {
        const float* columns = y.p;
        if (y.row != 1) {
          few.resize(s.n * s.k);
          for (int64_t n = 0; n < s.n; ++n)
            for (int64_t k = 0; k < s.k; ++k) few[n * s.k + k] = y.p[k * y.row + n * y.column];
          columns = few.data();
        }
        dot_rows(x.p, x.row, from(s.m, 4, share), from(s.m, 4, share + 1), columns, y.row == 1 ? y.column : s.k, s.n,
                 s.k, put);
      } else if (TRIANGLE) {  // bands of rows in turn, so that every thread has long and short ones
        for (int64_t m = share * BLOCK_ROWS; m < s.m; m += shares * BLOCK_ROWS)
          product(x, y, s, m, min(s.m, m + BLOCK_ROWS), 0, s.n, finish);
      } else if (s.m >= s.n) {
        product(x, y, s, from(s.m, kRows, share), from(s.m, kRows, share + 1), 0, s.n, finish);
      } else {
        product(x, y, s, 0, s.m, from(s.n, kColumns, share), from(s.n, kColumns, share + 1), finish);
      }
    }
    fence();
  });
}

KW_KERNEL(matmul) {
  const auto left = args.tensor<const float>(LEFT), right = args.tensor<const float>(RIGHT);
  const auto y = args.tensor<float>(OUTPUT);
  if (y.numel() == 0) return;
  // Axes before the last two are rows.
  Size s;
  s.k = LEFT_SWAPPED ? left.shape(-2) : left.shape(-1);
  s.n = RIGHT_SWAPPED ? right.shape(-2) : right.shape(-1);
  s.m = left.numel() / max(1, s.k);
  if (s.k == 0) s.m = y.numel() / s.n;
  const int64_t inner = RIGHT_SWAPPED ? right.shape(-1) : right.shape(-2);
  if (right.numel() != s.k * s.n) KW_UNSUPPORTED("a batch of right factors");
  KW_REQUIRE(inner == s.k && s.m * s.n == y.numel(), "the sizes of the factors do not fit");
  const Matrix x = LEFT_SWAPPED ? Matrix{left.data(), 1, s.m} : Matrix{left.data(), s.k, 1};
  const Matrix z = RIGHT_SWAPPED ? Matrix{right.data(), 1, s.k} : Matrix{right.data(), s.n, 1};
  ask_large_pages(y.data(), y.numel() * 4);
  const bool aligned = s.n % W == 0 && reinterpret_cast<uintptr_t>(y.data()) % (4 * W) == 0;
  const Finish finish = {y.data(), s.n, aligned && y.numel() * 4 > kStreamBytes, ARGUMENTS};
  multiply(x, z, s, finish);
}
