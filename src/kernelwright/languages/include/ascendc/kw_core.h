// kw_core.h: one vector core of an Ascend NPU, executed on a CPU: its Unified Buffer, its pipes, what each of them knows.
//
// Instructions of the scalar, vector and both copying pipes run side by side on the device and are ordered by flags
// alone. Here they are executed in the order of issue; a clock for each pipe says what is ordered, and an access that is
// not is a fault. So is what the documentation forbids: lengths, alignment, limits of buffers and queues.
//
// Source: Ascend C API reference, "General Description and Restrictions" (alignment), "Synchronization Control" (pipes,
// flags), "AllocTensor" (8 tensors a position); CANN asc-devkit, "NPU architecture version 2201" (192 KiB).
#ifndef KW_ASCENDC_CORE_H_
#define KW_ASCENDC_CORE_H_

#include <stdarg.h>

#include <deque>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernelwright.h"

#define KW_AT const char *kw_file = __builtin_FILE(), int kw_line = __builtin_LINE()
#define KW_HERE ::kw::ascend::Where{kw_file, kw_line}

namespace kw {
namespace ascend {

enum Pipe : uint8_t { S, V, MTE2, MTE3, PIPES };
inline const char* name_of(int pipe) {
  static const char* names[] = {"S", "V", "MTE2", "MTE3"};
  return names[pipe];
}

struct Where {
  const char* file;
  int line;
};

[[noreturn]] inline void fault(const char* kind, Where at, const char* format, ...) {
  char said[320], text[480];
  va_list given;
  va_start(given, format);
  vsnprintf(said, sizeof(said), format, given);
  va_end(given);
  snprintf(text, sizeof(text), "%s at %s:%d: %s", kind, at.file, at.line, said);
  ::kw::raise("RuntimeError", "", text);
}

struct Clock {
  uint32_t at[PIPES] = {};
  void join(const Clock& other) {
    for (int p = 0; p < PIPES; ++p)
      if (at[p] < other.at[p]) at[p] = other.at[p];
  }
};

constexpr uint32_t kUnifiedBuffer = 192 << 10, kBlock = 32, kRepeat = 256;
constexpr int kTensorsOfPosition = 8, kEvents = 8;

// A piece of the Unified Buffer that a queue or a TBuf owns.
struct Block {
  enum State { kFree, kTaken, kQueued, kOut, kFixed };
  uint32_t at, bytes;
  int position;
  State state;
  uint32_t generation;
  Clock freed, ready;
  Where last;
};

// A tensor of global memory that a launch was given.
struct Span {
  uint8_t* data;
  int64_t bytes;
  bool writable;
  std::vector<uint16_t> writer, reader;  // the block that did, plus one; kSeveral where blocks differ
  std::vector<uint32_t> written;         // and the clock of its pipe
  std::vector<uint8_t> pipe;
};
constexpr uint16_t kSeveral = 0xffff;

inline std::vector<Span>& spans() {
  static thread_local std::vector<Span> lent;
  return lent;
}

class Core {
 public:
  Core(int block, int blocks) : block(block), blocks(blocks), memory_(kUnifiedBuffer), bytes_(kUnifiedBuffer) {}
  const int block, blocks;

  uint8_t* memory(uint32_t at) { return memory_.data() + at; }

  // ---- order --------------------------------------------------------------------------------------------
  void issue(Pipe pipe) { ++seen[pipe].at[pipe]; }
  void barrier() {
    Clock all;
    for (const Clock& clock : seen) all.join(clock);
    for (Clock& clock : seen) clock.join(all);
  }
  void set(int from, int to, int id, Where at) {
    if (id < 0 || id >= kEvents) fault("event", at, "event %d is none of 0 to %d", id, kEvents - 1);
    auto made = flags_.insert({{from, to, id}, {seen[from], at}});
    if (!made.second)
      fault("event", at, "SetFlag of %s_%s %d, which was set in line %d and not waited for", name_of(from),
            name_of(to), id, made.first->second.second.line);
  }
  void wait(int from, int to, int id, Where at) {
    auto found = flags_.find({from, to, id});
    if (found == flags_.end())
      fault("event", at, "WaitFlag of %s_%s %d, which nobody sets: the device would hang", name_of(from), name_of(to), id);
    seen[to].join(found->second.first);
    flags_.erase(found);
  }

  // ---- the Unified Buffer ---------------------------------------------------------------------------------
  Block* allocate(uint32_t bytes, int position, Block::State state, Where at) {
    bytes = (bytes + kBlock - 1) / kBlock * kBlock;
    if (bytes > kUnifiedBuffer - used_)
      fault("ub-overflow", at, "%u bytes more than the %u of %u bytes of the Unified Buffer that are taken do not fit",
            bytes, used_, kUnifiedBuffer);
    owned_.emplace_back(new Block{used_, bytes, position, state, 0, {}, {}, at});
    memset(memory(used_), 0xff, bytes);
    used_ += bytes;
    return owned_.back().get();
  }
  void take(Block* block, Where at) {
    if (++taken_[block->position] > kTensorsOfPosition)
      fault("queue", at, "more than %d tensors of one position are allocated at a time", kTensorsOfPosition);
    for (uint32_t i = block->at; i < block->at + block->bytes; ++i) bytes_[i].known = false;
    memset(memory(block->at), 0xff, block->bytes);
    block->state = Block::kTaken;
    block->last = at;
  }
  void give_back(Block* block) {
    --taken_[block->position];
    block->state = Block::kFree;
    ++block->generation;
  }
  void read(Pipe pipe, uint32_t at, uint32_t count, Where where, const char* what) {
    for (uint32_t i = at; i < at + count; ++i) {
      Byte& byte = bytes_[i];
      if (!byte.known) fault("uninitialised", where, "%s reads byte %u of the Unified Buffer, which nobody wrote", what, i);
      ordered(pipe, byte.writer, byte.written, where, what, "reads", "writes");
      byte.read[pipe] = seen[pipe].at[pipe];
    }
  }
  void write(Pipe pipe, uint32_t at, uint32_t count, Where where, const char* what, bool known = true) {
    for (uint32_t i = at; i < at + count; ++i) {
      Byte& byte = bytes_[i];
      ordered(pipe, byte.writer, byte.written, where, what, "writes", "writes");
      for (int other = 0; other < PIPES; ++other)
        ordered(pipe, other, byte.read[other], where, what, "writes", "reads");
      byte.writer = pipe;
      byte.written = seen[pipe].at[pipe];
      byte.known = known;
    }
  }

  // ---- global memory ----------------------------------------------------------------------------------------
  void read_global(Pipe pipe, const uint8_t* from, int64_t count, Where where, const char* what) {
    int64_t at;
    Span& span = lent(from, count, where, what, at);
    for (int64_t i = at; i < at + count; ++i) {
      if (span.writer[i] && span.writer[i] != block + 1)
        fault("race", where, "%s of block %d reads what block %d writes", what, block, span.writer[i] - 1);
      if (span.writer[i]) ordered(pipe, span.pipe[i], span.written[i], where, what, "reads", "writes");
      span.reader[i] = span.reader[i] && span.reader[i] != block + 1 ? kSeveral : static_cast<uint16_t>(block + 1);
    }
  }
  void write_global(Pipe pipe, const uint8_t* to, int64_t count, Where where, const char* what) {
    int64_t at;
    Span& span = lent(to, count, where, what, at);
    if (!span.writable) fault("read-only", where, "%s writes a tensor that the kernel is given as const", what);
    for (int64_t i = at; i < at + count; ++i) {
      if (span.writer[i] && span.writer[i] != block + 1)
        fault("race", where, "%s of block %d writes what block %d writes", what, block, span.writer[i] - 1);
      if (span.reader[i] && span.reader[i] != block + 1)
        fault("race", where, "%s of block %d writes what another block reads", what, block);
      if (span.writer[i]) ordered(pipe, span.pipe[i], span.written[i], where, what, "writes", "writes");
      span.writer[i] = static_cast<uint16_t>(block + 1);
      span.pipe[i] = pipe;
      span.written[i] = seen[pipe].at[pipe];
    }
  }

  // What must be true when the kernel's function has returned.
  void end() const {
    for (const auto& block : owned_)
      if (block->state != Block::kFree && block->state != Block::kFixed)
        fault("left", block->last, "the tensor is %s when the kernel ends",
              block->state == Block::kQueued ? "enqueued and never dequeued" : "allocated and never freed");
    for (const auto& flag : flags_)
      fault("event", flag.second.second, "the flag is set here and never waited for");
  }

  Clock seen[PIPES];

 private:
  struct Byte {
    uint32_t written = 0, read[PIPES] = {};
    uint8_t writer = 0;
    bool known = false;
  };
  void ordered(int pipe, int other, uint32_t clock, Where where, const char* what, const char* does, const char* did) {
    if (other != pipe && seen[pipe].at[other] < clock)
      fault("race", where,
            "%s (pipe %s) %s what pipe %s %s with no EnQue and DeQue, and no flag, that orders them", what, name_of(pipe),
            does, name_of(other), did);
  }
  Span& lent(const uint8_t* from, int64_t count, Where where, const char* what, int64_t& at) {
    for (Span& span : spans()) {
      at = from - span.data;
      if (at < 0 || at > span.bytes || (at == span.bytes && count)) continue;
      if (at + count > span.bytes)
        fault("out-of-bounds", where, "%s touches bytes %lld to %lld of a tensor of %lld bytes", what,
              static_cast<long long>(at), static_cast<long long>(at + count), static_cast<long long>(span.bytes));
      return span;
    }
    fault("out-of-bounds", where, "%s touches global memory that no argument of the launch holds", what);
  }

  uint32_t used_ = 0;
  std::vector<uint8_t> memory_;
  std::vector<Byte> bytes_;
  std::vector<std::unique_ptr<Block>> owned_;
  std::map<int, int> taken_;
  std::map<std::vector<int>, std::pair<Clock, Where>> flags_;
};

inline Core*& core() {
  static thread_local Core* running = nullptr;
  return running;
}

template <typename Kernel>
void run(int blocks, const Kernel& kernel) {
  struct Ends {
    ~Ends() {
      core() = nullptr;
      spans().clear();
    }
  } ends;
  if (blocks < 1 || blocks > 65535) ::kw::raise("RuntimeError", "", "a launch has 1 to 65535 blocks");
  for (int block = 0; block < blocks; ++block) {
    Core made(block, blocks);
    core() = &made;
    kernel();
    made.end();
  }
}

}  // namespace ascend

// Lends a tensor to the next launch; what is const there, kernels may not write.
template <typename T>
uint8_t* gm(const Tensor<T>& tensor) {
  using E = typename detail::bare<T>::type;
  const int64_t bytes = tensor.numel() * static_cast<int64_t>(sizeof(E));
  auto* data = reinterpret_cast<uint8_t*>(const_cast<E*>(tensor.data()));
  constexpr bool writable = !std::is_const<T>::value;
  for (ascend::Span& span : ascend::spans())
    if (span.data == data && span.bytes == bytes) {
      span.writable = span.writable || writable;
      return data;
    }
  const auto n = static_cast<size_t>(bytes);
  ascend::spans().push_back({data, bytes, writable, std::vector<uint16_t>(n), std::vector<uint16_t>(n),
                             std::vector<uint32_t>(n), std::vector<uint8_t>(n)});
  return data;
}

}  // namespace kw

#endif  // KW_ASCENDC_CORE_H_
