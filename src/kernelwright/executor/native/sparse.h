// Sparse matrices: which columns of a row the kept elements stand in, by the metadata of a warp.
// Source: PTX ISA, "Sparse matrix storage" and "Matrix fragments for multiply-accumulate operation with sparse matrix A".
//
// Sixteen bits speak of four groups of a row: of 16 columns (halves, bytes), of 8 (tf32) or 32 (four bits, in pairs). Of
// halves and tf32 a lane's lower sixteen bits are of row i / 4, the upper of the row eight below; one lane of four, or a
// pair of them for twice the columns, speaks. Of bytes and four bits a lane speaks of twice the columns of one row, even
// lanes of row i / 4, odd ones of the row eight below; a pair of them, or all four for twice the columns.
#pragma once
#include "engine.h"

namespace kw {
// The columns of the kept elements of sixteen rows; false where the metadata name none, or not in order though they must.
inline bool kept_columns(Element e, int k, int selector, bool ordered, const b32& metadata, uint8_t (*at)[64], int* lane) {
  bool bytes = e == S8 || e == U8 || e == E4M3 || e == E5M2, nibbles = e == S4 || e == U4;
  int columns = e == TF32 ? 8 : nibbles ? 32 : 16, pieces = k / columns;
  for (int row = 0; row < 16; row++)
    for (int piece = 0; piece < pieces; piece++) {
      int of = 4 * (row % 8), lower = row / 8, shift;
      if (bytes || nibbles) of += 2 * (piece / 2 + selector) + lower, shift = 16 * (piece % 2);
      else of += pieces == 1 ? selector : 2 * selector + piece, shift = 16 * lower;
      *lane = of;
      for (int group = 0; group < 4; group++) {
        uint32_t bits = metadata.at(of) >> (shift + 4 * group) & 15, first = bits & 3, second = bits >> 2;
        int start = piece * columns + group * (columns / 4);
        if (e == TF32) {
          if (bits != 4 && bits != 14) return false;
          at[row][piece * 4 + group] = uint8_t(start + (bits == 14));
          continue;
        }
        if (first == second || (ordered && first > second)) return false;
        uint8_t* to = at[row] + (piece * 4 + group) * (nibbles ? 4 : 2);
        if (nibbles) for (int x = 0; x < 4; x++) to[x] = uint8_t(start + 2 * int(x < 2 ? first : second) + x % 2);
        else to[0] = uint8_t(start + int(first)), to[1] = uint8_t(start + int(second));
      }
    }
  return true;
}
}  // namespace kw
