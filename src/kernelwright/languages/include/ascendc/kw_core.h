// kw_core.h: one core of an Ascend NPU, executed on a CPU: its buffers, its pipes, what each of them knows.
//
// The pipes of a core run side by side on the device and are ordered by flags alone. Here their instructions are executed
// in the order of issue; a clock for each pipe says what is ordered, and an access that is not is a fault. So is what the
// documentation forbids: lengths, alignment, limits of buffers and queues.
//
// Source: Ascend C API reference, "General Description and Restrictions" (alignment), "Synchronization Control" (pipes,
// flags), "AllocTensor" (8 tensors a position), "Mmad" (PipeBarrier between small products); CANN asc-devkit, "NPU
// architecture version 2201" (which buffers are there, separate cores for vectors and matrices); their sizes are those
// that `GetCoreMemSize` of "Platform Information" reports for Atlas A2.
#ifndef KW_ASCENDC_CORE_H_
#define KW_ASCENDC_CORE_H_

#include <stdarg.h>

#include <algorithm>
#include <map>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernelwright.h"

#define KW_AT const char *kw_file = __builtin_FILE(), int kw_line = __builtin_LINE()
#define KW_HERE ::kw::ascend::Where{kw_file, kw_line}

namespace kw {
namespace ascend {

enum Pipe : uint8_t { S, V, M, MTE1, MTE2, MTE3, FIX, PIPES };
inline const char* name_of(int pipe) {
  static const char* names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
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

constexpr uint32_t kBlock = 32, kFractal = 512, kRepeat = 256;
constexpr int kTensorsOfPosition = 8, kEvents = 8;

// The buffers of a core; addresses of all of them are in one space, a slot of 1 MiB for each.
enum Memory : uint8_t { UB, L1, L0A, L0B, L0C, BT, MEMORIES };
struct Limits {
  const char *name, *kind;
  uint32_t bytes, align;
};
inline const Limits& limits(int memory) {
  static const Limits all[] = {
      {"Unified Buffer", "ub-overflow", 192 << 10, 32}, {"L1 Buffer", "l1-overflow", 512 << 10, 32},
      {"L0A Buffer", "l0a-overflow", 64 << 10, 512},    {"L0B Buffer", "l0b-overflow", 64 << 10, 512},
      {"L0C Buffer", "l0c-overflow", 128 << 10, 64},    {"BiasTable Buffer", "bt-overflow", 1 << 10, 64}};
  return all[memory];
}
constexpr int kSlot = 20;
constexpr uint32_t offset_in(uint32_t at) { return at & ((1u << kSlot) - 1); }
inline Memory memory_of(uint32_t at) { return static_cast<Memory>(at >> kSlot); }

// A piece of a buffer that a queue or a TBuf owns.
struct Block {
  enum State { kFree, kTaken, kQueued, kOut, kFixed };
  uint32_t at, bytes;
  int position;
  State state;
  uint32_t generation;
  Clock freed, ready;
  Where last;
};

enum class Kind : uint8_t { kOpen, kVector, kCube };  // open: the first instruction of either unit decides

// What the last reduction to the greatest or least element found.
struct Extreme {
  bool is = false, side_by_side = false;
  float value = 0;
  uint32_t index = 0;
  uint32_t tick = 0;  // of the vector pipe
};

class Core {
 public:
  Core(int id, int block, int blocks, Kind kind) : id(id), block(block), blocks(blocks), kind_(kind) {}
  const int id, block, blocks;
  int sub = 0, subs = 1;           // of the vector cores of one cube core
  std::map<int, Clock> others;     // what this core knows of others, by their ids
  uint64_t mask[2] = {~0ull, ~0ull};
  bool counter = false;            // whether mask[0] counts elements of the whole instruction
  bool adds = false;               // whether copies to global memory add
  Extreme extreme;
  void* pipe = nullptr;            // the latest TPipe

  uint8_t* memory(uint32_t at) { return buffers_[memory_of(at)].data.data() + offset_in(at); }

  // ---- order --------------------------------------------------------------------------------------------
  bool is(Kind kind) {
    if (kind_ == Kind::kOpen) kind_ = Kind::kVector;
    return kind_ == kind;
  }
  void be(Kind kind, Where at, const char* what) {
    if (kind_ == Kind::kOpen) kind_ = kind;
    if (kind_ != kind)
      fault("core", at, "%s needs the %s unit, and this is a core with the %s unit: an Atlas A2 has them in separate cores",
            what, kind == Kind::kCube ? "cube" : "vector", kind == Kind::kCube ? "vector" : "cube");
  }
  void issue(Pipe pipe, Where at, const char* what) {
    if (pipe == V) be(Kind::kVector, at, what);
    if (pipe == M || pipe == MTE1 || pipe == FIX) be(Kind::kCube, at, what);
    ++seen[pipe].at[pipe];
  }
  void barrier() {
    Clock all;
    for (const Clock& clock : seen) all.join(clock);
    for (Clock& clock : seen) clock.join(all);
    drained = seen[M].at[M];
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

  // ---- buffers ------------------------------------------------------------------------------------------
  Block* allocate(Memory memory, uint32_t bytes, int position, Block::State state, Where at, const char* what) {
    be(memory == UB ? Kind::kVector : Kind::kCube, at, what);
    const Limits& limit = limits(memory);
    Buffer& buffer = buffers_[memory];
    const uint32_t used = static_cast<uint32_t>(buffer.data.size());
    bytes = (bytes + limit.align - 1) / limit.align * limit.align;
    if (bytes > limit.bytes - used)
      fault(limit.kind, at, "%u bytes more than the %u of %u bytes of the %s that are taken do not fit", bytes, used,
            limit.bytes, limit.name);
    owned_.emplace_back(new Block{(uint32_t{memory} << kSlot) + used, bytes, position, state, 0, {}, {}, at});
    buffer.data.resize(used + bytes, 0xff);
    buffer.bytes.resize(used + bytes);
    return owned_.back().get();
  }
  void take(Block* block, Where at) {
    if (++taken_[block->position] > kTensorsOfPosition)
      fault("queue", at, "more than %d tensors of one position are allocated at a time", kTensorsOfPosition);
    Byte* bytes = &buffers_[memory_of(block->at)].bytes[offset_in(block->at)];
    for (uint32_t i = 0; i < block->bytes; ++i) bytes[i].known = false;
    memset(memory(block->at), 0xff, block->bytes);
    block->state = Block::kTaken;
    block->last = at;
  }
  void give_back(Block* block) {
    --taken_[block->position];
    block->state = Block::kFree;
    ++block->generation;
  }
  // Reads, and tells whether all was written. What nobody wrote may be moved on, or computed with (`move`) as long as
  // nothing comes of it; the place where that was done is told once something does.
  bool read(Pipe pipe, uint32_t at, uint32_t count, Where where, const char* what, bool move = false) {
    Byte* bytes = buffers_[memory_of(at)].bytes.data() + offset_in(at);
    bool known = true;
    for (uint32_t i = 0; i < count; ++i) {
      Byte& byte = bytes[i];
      if (!byte.known && !move) unknown(byte, at + i, where, what);
      known = known && byte.known;
      ordered(pipe, byte.writer, byte.written, where, what, "reads", "writes");
      byte.read[pipe] = seen[pipe].at[pipe];
    }
    return known;
  }
  void write(Pipe pipe, uint32_t at, uint32_t count, Where where, const char* what, bool known = true) {
    Byte* bytes = buffers_[memory_of(at)].bytes.data() + offset_in(at);
    for (uint32_t i = 0; i < count; ++i) {
      Byte& byte = bytes[i];
      ordered(pipe, byte.writer, byte.written, where, what, "writes", "writes");
      for (int other = 0; other < PIPES; ++other)
        ordered(pipe, other, byte.read[other], where, what, "writes", "reads");
      byte.writer = pipe;
      byte.written = seen[pipe].at[pipe];
      byte.known = known;
      byte.origin = 0;
    }
  }
  bool known(uint32_t at, uint32_t count) const {
    const Byte* bytes = buffers_[memory_of(at)].bytes.data() + offset_in(at);
    for (uint32_t i = 0; i < count; ++i)
      if (!bytes[i].known) return false;
    return true;
  }
  // Says that bytes were moved, or computed, from others that nobody wrote: where, if they were computed.
  void doubt(uint32_t at, uint32_t count, Where where) {
    if (origins_.empty() || origins_.back().line != where.line) origins_.push_back(where);
    Byte* bytes = buffers_[memory_of(at)].bytes.data() + offset_in(at);
    for (uint32_t i = 0; i < count; ++i) {
      bytes[i].known = false;
      bytes[i].origin = static_cast<uint16_t>(std::min<size_t>(origins_.size(), 0xffff));
    }
  }
  void know_as(uint32_t at, uint32_t from) {
    Byte& to = buffers_[memory_of(at)].bytes[offset_in(at)];
    const Byte& of = buffers_[memory_of(from)].bytes[offset_in(from)];
    to.known = of.known;
    to.origin = of.origin;
  }
  // Whether the instruction that now runs on the pipe wrote a byte.
  bool just_written(Pipe pipe, uint32_t at) const {
    const Byte& byte = buffers_[memory_of(at)].bytes[offset_in(at)];
    return byte.writer == pipe && byte.written && byte.written == seen[pipe].at[pipe];
  }
  // The clock of the pipe at which a byte was written, 0 if another pipe wrote it.
  uint32_t written_by(Pipe pipe, uint32_t at) const {
    const Byte& byte = buffers_[memory_of(at)].bytes[offset_in(at)];
    return byte.writer == pipe ? byte.written : 0;
  }
  void ordered(int pipe, int other, uint32_t clock, Where where, const char* what, const char* does,
               const char* did) const {
    if (other != pipe && seen[pipe].at[other] < clock)
      fault("race", where,
            "%s (pipe %s) %s what pipe %s %s with no EnQue and DeQue, and no flag, that orders them", what, name_of(pipe),
            does, name_of(other), did);
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
  uint32_t drained = 0;  // the clock of M at the last PipeBarrier of it

 private:
  struct Byte {
    uint32_t written = 0, read[PIPES] = {};
    uint16_t origin = 0;  // of origins_, plus one
    uint8_t writer = 0;
    bool known = false;
  };
  struct Buffer {
    std::vector<uint8_t> data;
    std::vector<Byte> bytes;
  };

  [[noreturn]] void unknown(const Byte& byte, uint32_t at, Where where, const char* what) const {
    if (byte.origin)
      fault("uninitialised", origins_[byte.origin - 1],
            "this computes with bytes of the %s that nobody wrote, and line %d (%s) takes the result",
            limits(memory_of(at)).name, where.line, what);
    fault("uninitialised", where, "%s reads byte %u of the %s, which nobody wrote", what, offset_in(at),
          limits(memory_of(at)).name);
  }

  Kind kind_;
  std::vector<Where> origins_;
  Buffer buffers_[MEMORIES];
  std::vector<std::unique_ptr<Block>> owned_;
  std::map<int, int> taken_;
  std::map<std::vector<int>, std::pair<Clock, Where>> flags_;
};

inline Core*& core() {
  static thread_local Core* running = nullptr;
  return running;
}

}  // namespace ascend
}  // namespace kw

#endif  // KW_ASCENDC_CORE_H_
