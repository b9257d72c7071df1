// kw_launch.h: a launch: cores that take turns, what they may do to global memory, and how they wait for each other.
//
// A core runs until it waits for another one. Two accesses of global memory by different cores, one of them a write, need
// CrossCoreSetFlag and CrossCoreWaitFlag, or SyncAll, between them.
//
// Source: Ascend C API reference, "Inter-core Synchronization" (modes of CrossCoreSetFlag, flags 0 to 10, 15 sets);
// "SetAtomicAdd"; "SetKernelMode"; asc-devkit, "NPU architecture version 2201" (a cube core with two vector cores).
#ifndef KW_ASCENDC_LAUNCH_H_
#define KW_ASCENDC_LAUNCH_H_

#include <stdlib.h>
#include <ucontext.h>

#include <deque>
#include <functional>

#include "kw_core.h"

namespace kw {
namespace ascend {

// ---- global memory --------------------------------------------------------------------------------------------

// Who last touched a byte of a lent tensor: cores by their ids plus one; kSeveral where readers differ.
struct Touch {
  uint32_t written, read;
  uint16_t writer, reader;
  uint8_t write_pipe, read_pipe;
  bool added;
};
constexpr uint16_t kSeveral = 0xffff;

struct Span {
  uint8_t* data;
  int64_t bytes;
  bool writable;
  std::unique_ptr<Touch, void (*)(void*)> touched;
};
inline std::vector<Span>& spans() {
  static thread_local std::vector<Span> lent;
  return lent;
}

inline Touch* lent(const uint8_t* from, int64_t count, bool writes, Where where, const char* what) {
  for (Span& span : spans()) {
    const int64_t at = from - span.data;
    if (at < 0 || at > span.bytes || (at == span.bytes && count)) continue;
    if (at + count > span.bytes)
      fault("out-of-bounds", where, "%s touches bytes %lld to %lld of a tensor of %lld bytes", what,
            static_cast<long long>(at), static_cast<long long>(at + count), static_cast<long long>(span.bytes));
    if (writes && !span.writable)
      fault("read-only", where, "%s writes a tensor that the kernel is given as const", what);
    return span.touched.get() + at;
  }
  fault("out-of-bounds", where, "%s touches global memory that no argument of the launch holds", what);
}

inline bool known_to(const Core& core, int other, int pipe, uint32_t clock) {
  const auto found = core.others.find(other);
  return found != core.others.end() && found->second.at[pipe] >= clock;
}

inline void read_global(Pipe pipe, const uint8_t* from, int64_t count, Where where, const char* what) {
  Core& me = *core();
  Touch* touch = lent(from, count, false, where, what);
  const auto own = static_cast<uint16_t>(me.id + 1);
  for (const Touch* end = touch + count; touch != end; ++touch) {
    if (touch->writer == own) {
      me.ordered(pipe, touch->write_pipe, touch->written, where, what, "reads", "writes");
    } else if (touch->writer && !known_to(me, touch->writer - 1, touch->write_pipe, touch->written)) {
      fault("race", where, "%s of core %d reads what core %d writes", what, me.id, touch->writer - 1);
    }
    touch->reader = touch->reader && touch->reader != own ? kSeveral : own;
    touch->read_pipe = pipe;
    touch->read = me.seen[pipe].at[pipe];
  }
}

inline void write_global(Pipe pipe, const uint8_t* to, int64_t count, Where where, const char* what) {
  Core& me = *core();
  Touch* touch = lent(to, count, true, where, what);
  const auto own = static_cast<uint16_t>(me.id + 1);
  for (const Touch* end = touch + count; touch != end; ++touch) {
    if (touch->writer == own) {
      me.ordered(pipe, touch->write_pipe, touch->written, where, what, "writes", "writes");
    } else if (touch->writer && !(me.adds && touch->added) &&
               !known_to(me, touch->writer - 1, touch->write_pipe, touch->written)) {
      fault("race", where, "%s of core %d writes what core %d writes", what, me.id, touch->writer - 1);
    }
    if (touch->reader && touch->reader != own &&
        (touch->reader == kSeveral || !known_to(me, touch->reader - 1, touch->read_pipe, touch->read)))
      fault("race", where, "%s of core %d writes what another core reads", what, me.id);
    touch->writer = own;
    touch->write_pipe = pipe;
    touch->written = me.seen[pipe].at[pipe];
    touch->added = me.adds;
  }
}

// ---- cores that take turns ------------------------------------------------------------------------------------

enum class Mode : uint8_t { kOpen, kVector, kCube, kMix };  // kMix: two vector cores with each cube core
inline Mode& mode() {
  static thread_local Mode set = Mode::kOpen;
  return set;
}

constexpr int kCrossFlags = 11, kMostSets = 15;

class Launch {
 public:
  Launch(int blocks, const std::function<void()>& kernel) : kernel_(kernel) {
    const bool mix = mode() == Mode::kMix;
    for (int block = 0; block < blocks; ++block)
      for (int part = 0; part < (mix ? 3 : 1); ++part) {
        const Kind kind = mix ? (part ? Kind::kVector : Kind::kCube) : static_cast<Kind>(mode());
        const int id = static_cast<int>(turns_.size());
        turns_.emplace_back(new Turn{id, mix && part ? 2 * block + part - 1 : block, blocks, kind, block, part});
      }
  }
  static Launch*& current() {
    static thread_local Launch* running = nullptr;
    return running;
  }

  void run() {
    current() = this;
    for (size_t ended = 0; ended < turns_.size();) {
      bool moved = false;
      for (auto& turn : turns_) {
        if (turn->ended || (turn->waits && !turn->waits())) continue;
        moved = true;
        turn->waits = nullptr;
        resume(*turn);
        if (failed_) throw error_;
        ended += turn->ended;
      }
      for (auto& turn : turns_)
        if (!moved && !turn->ended)
          fault("event", turn->where, "core %d waits here for ever: the device would hang", turn->id);
    }
  }

  // Lets others run until the condition holds.
  void wait(std::function<bool()> condition, Where where) {
    Turn& me = turn();
    if (condition()) return;
    me.waits = std::move(condition);
    me.where = where;
    swapcontext(&me.context, &home_);
  }

  void cross_set(int mode, int pipe, int flag, Where where) {
    if (mode < 0 || mode > 2 || flag < 0 || flag >= kCrossFlags)
      fault("event", where, "CrossCoreSetFlag with mode %d and flag %d: modes are 0 to 2, flags 0 to %d", mode, flag,
            kCrossFlags - 1);
    Core& me = *core();
    ++me.seen[S].at[S];
    Message said{mode, me.others, where};
    said.known[me.id].join(me.seen[pipe]);
    for (auto& other : turns_) {
      if (!reaches(turn(), *other, mode)) continue;
      auto& box = other->boxes[{flag, me.id}];
      if (box.size() >= kMostSets) fault("event", where, "flag %d is set more than %d times before a wait", flag, kMostSets);
      box.push_back(said);
    }
  }
  void cross_wait(int flag, Where where) {
    Turn& me = turn();
    wait([this, &me, flag] { return arrived(me, flag, false); }, where);
    arrived(me, flag, true);
  }
  void sync_all(Where where) {
    Turn& me = turn();
    me.made->barrier();
    me.syncs.push_back(me.made->others);
    me.syncs.back()[me.id].join(me.made->seen[S]);
    const size_t goal = me.syncs.size();
    const auto all = [this, goal, &me] {
      for (auto& other : turns_)
        if (other->kind == me.kind && other->syncs.size() < goal) return false;
      return true;
    };
    if (all() && mode() != Mode::kMix) forget_readers();
    wait(all, where);
    for (auto& other : turns_) {
      if (other.get() == &me || other->kind != me.kind) continue;
      for (const auto& known : other->syncs[goal - 1]) me.made->others[known.first].join(known.second);
    }
  }
  void end_check() const {
    for (auto& turn : turns_)
      for (auto& box : turn->boxes)
        if (!box.second.empty()) fault("event", box.second.front().where, "the flag is set here and never waited for");
  }

 private:
  struct Message {
    int mode;
    std::map<int, Clock> known;
    Where where;
  };
  struct Turn {
    int id, block, blocks;
    Kind kind;
    int group, part;
    std::unique_ptr<Core> made = nullptr;
    std::unique_ptr<char[]> stack = nullptr;
    ucontext_t context = {};
    std::function<bool()> waits = nullptr;
    Where where = {"", 0};
    std::map<std::pair<int, int>, std::deque<Message>> boxes = {};  // by flag and sender
    std::vector<std::map<int, Clock>> syncs = {};  // what it knew at each SyncAll
    bool ended = false;
  };
  static constexpr size_t kStack = 1 << 20;

  // When all cores have arrived, what several of them read is ordered with whatever follows.
  static void forget_readers() {
    for (Span& span : spans())
      for (int64_t i = 0; i < span.bytes; ++i)
        if (span.touched.get()[i].reader == kSeveral) span.touched.get()[i].reader = 0;
  }
  Turn& turn() { return *turns_[static_cast<size_t>(core()->id)]; }
  static bool reaches(const Turn& from, const Turn& to, int mode) {
    if (mode == 0) return from.kind == to.kind;
    if (mode == 1) return from.group == to.group && from.kind == to.kind;
    return from.group == to.group && from.kind != to.kind;
  }
  bool arrived(Turn& me, int flag, bool take) {
    int mode = -1;
    for (auto& box : me.boxes)
      if (box.first.first == flag && !box.second.empty()) mode = box.second.front().mode;
    if (mode < 0) return false;
    for (auto& other : turns_)
      if (reaches(*other, me, mode) && me.boxes[{flag, other->id}].empty()) return false;
    if (take)
      for (auto& other : turns_) {
        if (!reaches(*other, me, mode)) continue;
        auto& box = me.boxes[{flag, other->id}];
        for (const auto& known : box.front().known) me.made->others[known.first].join(known.second);
        box.pop_front();
      }
    return true;
  }
  void resume(Turn& turn) {
    if (!turn.made) {
      turn.made.reset(new Core(turn.id, turn.block, turn.blocks, turn.kind));
      turn.made->sub = turn.part ? turn.part - 1 : 0;
      turn.made->subs = turn.kind == Kind::kVector && mode() == Mode::kMix ? 2 : 1;
      turn.stack.reset(new char[kStack]);
      getcontext(&turn.context);
      turn.context.uc_stack.ss_sp = turn.stack.get();
      turn.context.uc_stack.ss_size = kStack;
      turn.context.uc_link = &home_;
      makecontext(&turn.context, reinterpret_cast<void (*)()>(&Launch::begin), 0);
    }
    core() = turn.made.get();
    swapcontext(&home_, &turn.context);
    if (turn.ended) turn.stack.reset();
  }
  static void begin() {
    Launch& launch = *current();
    Turn& me = launch.turn();
    try {
      launch.kernel_();
      me.made->end();
    } catch (const ::kw::Error& error) {
      launch.error_ = error;
      launch.failed_ = true;
    }
    me.ended = true;
  }

  const std::function<void()>& kernel_;
  std::vector<std::unique_ptr<Turn>> turns_;
  ucontext_t home_ = {};
  ::kw::Error error_ = {};
  bool failed_ = false;
};

inline void run(int blocks, const std::function<void()>& kernel) {
  struct Ends {
    ~Ends() {
      core() = nullptr;
      Launch::current() = nullptr;
      mode() = Mode::kOpen;
      spans().clear();
    }
  } ends;
  if (blocks < 1 || blocks > 16384) {
    char text[96];
    snprintf(text, sizeof(text), "a launch of %d blocks; expected 1 to 16384", blocks);
    ::kw::raise("RuntimeError", "", text);
  }
  Launch launch(blocks, kernel);
  launch.run();
  launch.end_check();
}

}  // namespace ascend

namespace ascend {
// Lends bytes to the next launch.
inline void lend(uint8_t* data, int64_t bytes, bool writable) {
  for (Span& span : spans())
    if (span.data == data && span.bytes == bytes) {
      span.writable = span.writable || writable;
      return;
    }
  auto* touched = static_cast<Touch*>(calloc(static_cast<size_t>(bytes) + 1, sizeof(Touch)));
  spans().push_back({data, bytes, writable, {touched, free}});
}
}  // namespace ascend

// Lends a tensor to the next launch; what is const there, kernels may not write.
template <typename T>
uint8_t* gm(const Tensor<T>& tensor) {
  using E = typename detail::bare<T>::type;
  auto* data = reinterpret_cast<uint8_t*>(const_cast<E*>(tensor.data()));
  ascend::lend(data, tensor.numel() * static_cast<int64_t>(sizeof(E)), !std::is_const<T>::value);
  return data;
}

}  // namespace kw

#endif  // KW_ASCENDC_LAUNCH_H_
