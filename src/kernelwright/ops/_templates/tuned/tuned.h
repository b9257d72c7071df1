// The number of a template that a caller chose for one call: how much is kept in cache at once, among how many the work is
// shared. It comes behind all other arguments, or not at all. It decides when memory is read, and never what is computed.
#pragma once
#include "kernelwright.h"

namespace kw {

inline thread_local int64_t chosen_number = -1;

// Holds the number while a kernel runs, which takes `own` arguments without it. Templates ask in the thread that called.
class Tuned {
 public:
  Tuned(const Args& args, int own) { chosen_number = args.size() > own ? args.integer(own) : -1; }
  ~Tuned() { chosen_number = -1; }
  Tuned(const Tuned&) = delete;
};

KW_INLINE int64_t tuned_or(int64_t otherwise) { return chosen_number < 0 ? otherwise : chosen_number; }

}  // namespace kw
