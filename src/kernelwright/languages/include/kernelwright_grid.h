// kernelwright_grid.h: in which order the blocks of a grid visit its tiles, for HIP, CUDA and C++ kernels.
//
//   const int pid = kw::chunked(blockIdx.x, gridDim.x, 8, 64);      // 8 XCDs, 64 consecutive tiles to each
//   const kw::Tile tile = kw::windowed(pid, rows, columns, 8);      // 8 rows down, then the next column
//
// `kernelwright.amd.grid` has the same in Python, and `kernelwright grid` says which order to take.
#ifndef KERNELWRIGHT_GRID_H_
#define KERNELWRIGHT_GRID_H_

#if defined(__HIP__) || defined(__CUDACC__)
#define KW_ANYWHERE __host__ __device__ inline
#else
#define KW_ANYWHERE inline
#endif

namespace kw {

struct Tile {
  int row, column;
};

// The number of a block when each XCD is dealt `chunk` consecutive ones at a time; the rest is dealt in runs too.
KW_ANYWHERE int chunked(int pid, int blocks, int xcds, int chunk) {
  const int dealt = xcds * chunk, whole = blocks / dealt * dealt;
  const int turn = pid / xcds, xcd = pid % xcds;
  if (pid < whole) return turn / chunk * dealt + xcd * chunk + turn % chunk;
  const int shorter = (blocks - whole) / xcds, longer = (blocks - whole) % xcds;
  return whole + xcd * shorter + (xcd < longer ? xcd : longer) + turn - whole / xcds;
}

// The tile of a block that goes down `window` rows before the next column.
KW_ANYWHERE Tile windowed(int pid, int rows, int columns, int window) {
  const int band = pid / (window * columns), inside = pid % (window * columns);
  const int left = rows - band * window, height = left < window ? left : window;
  return Tile{band * window + inside % height, inside / height};
}

}  // namespace kw

#endif  // KERNELWRIGHT_GRID_H_
