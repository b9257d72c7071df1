// kernel_operator.h: the part of Ascend C that Kernelwright executes on a CPU; what it lacks does not compile.
//
//   #include "kernel_operator.h"
//   #include "kernelwright.h"
//
//   extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t n) { ... }  // as for CANN
//
//   KW_KERNEL(run) {                                       // how it is called from Python, called as run(x, y, z)
//     auto x = args.tensor<const float>(0);
//     ...
//     ICPU_RUN_KF(add, 8, kw::gm(x), kw::gm(y), kw::gm(z), static_cast<uint32_t>(x.numel()));
//   }
//
// A kernel that asks which core it is on (`ASCEND_IS_AIC`) needs AscendC::SetKernelMode(KernelMode::MIX_MODE) before.
//
// Names and meanings are those of the Ascend C API reference (basic API, CANN 8), for Atlas A2 (NPU architecture 2201).
#ifndef KW_ASCENDC_KERNEL_OPERATOR_H_
#define KW_ASCENDC_KERNEL_OPERATOR_H_

#include <math.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "kw_launch.h"

#define __NPU_ARCH__ 2201
#define __CCE_AICORE__ 220
#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
#define __cube__
#define __vector__
#define __mix__(cubes, vectors)
#define __forceinline__ inline
#define GM_ADDR uint8_t*
#define ASCEND_IS_AIC (::kw::ascend::core()->is(::kw::ascend::Kind::kCube))
#define ASCEND_IS_AIV (::kw::ascend::core()->is(::kw::ascend::Kind::kVector))
#define ASSERT(...)                                                                                                     \
  ((__VA_ARGS__) ? (void)0 : ::kw::ascend::fault("assert", {__FILE__, __LINE__}, "ASSERT(%s) does not hold", #__VA_ARGS__))
#define ICPU_RUN_KF(kernel, blocks, ...) ::kw::ascend::run(static_cast<int>(blocks), [&] { kernel(__VA_ARGS__); })

using half = kw::float16;
using bfloat16_t = kw::bfloat16;
using float16_t = half;
using float32_t = float;
using event_t = int32_t;
enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
constexpr event_t EVENT_ID0 = 0, EVENT_ID1 = 1, EVENT_ID2 = 2, EVENT_ID3 = 3, EVENT_ID4 = 4, EVENT_ID5 = 5, EVENT_ID6 = 6,
                  EVENT_ID7 = 7;

enum QuantMode_t { NoQuant, F322F16, F322BF16, DEQF16, VDEQF16, QF322B8_PRE, VQF322B8_PRE, REQ8, VREQ8 };

namespace AscendC {

using kw::ascend::Block;
using kw::ascend::core;
using kw::ascend::fault;
using kw::ascend::kBlock;
using kw::ascend::Memory;
using kw::ascend::Pipe;
using kw::ascend::Where;

using TEventID = int8_t;
enum class TPosition : uint8_t { GM, A1, A2, B1, B2, C1, C2, CO1, VECIN, VECOUT, VECCALC, LCM = VECCALC };
using QuePosition = TPosition;
constexpr int32_t ONE_BLK_SIZE = kBlock, ONE_REPEAT_BYTE_SIZE = kw::ascend::kRepeat;
enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
#define KW_EVENTS(E)                                                                                                    \
  E(MTE2, MTE1) E(MTE1, MTE2) E(MTE1, M) E(M, MTE1) E(MTE2, V) E(V, MTE2) E(MTE3, V) E(V, MTE3) E(V, V) E(MTE3, MTE1)   \
  E(MTE1, MTE3) E(MTE2, M) E(M, MTE2) E(M, FIX) E(FIX, M) E(MTE3, MTE2) E(MTE2, MTE3) E(S, V) E(V, S) E(S, MTE2)        \
  E(MTE2, S) E(S, MTE3) E(MTE3, S) E(MTE2, FIX) E(FIX, MTE2) E(FIX, S) E(M, S) E(FIX, MTE3) E(MTE1, FIX) E(FIX, MTE1)   \
  E(FIX, FIX)
enum class HardEvent : uint8_t {
#define KW_NAMED(from, to) from##_##to,
  KW_EVENTS(KW_NAMED)
#undef KW_NAMED
};
enum class KernelMode { MIX_MODE, AIC_MODE, AIV_MODE };

// What a kernel prints while it is looked into: nothing here.
template <typename... Given>
void printf(const char*, Given&&...) {}
template <typename... Given>
void PRINTF(const char*, Given&&...) {}
template <typename Tensor>
void DumpTensor(const Tensor&, uint32_t, uint32_t) {}

namespace detail {
constexpr Memory memory_of(TPosition at) {
  return at == TPosition::A1 || at == TPosition::B1 || at == TPosition::C1 ? kw::ascend::L1
         : at == TPosition::A2                                             ? kw::ascend::L0A
         : at == TPosition::B2                                             ? kw::ascend::L0B
         : at == TPosition::C2                                             ? kw::ascend::BT
         : at == TPosition::CO1                                            ? kw::ascend::L0C
                                                                           : kw::ascend::UB;
}
// The pipe that fills a tensor of a queue, and the one that empties it.
constexpr Pipe producer(TPosition from, TPosition to) {
  using namespace kw::ascend;
  return to == TPosition::CO1                                       ? M
         : memory_of(to) != UB                                      ? (memory_of(to) == L1 ? MTE2 : MTE1)
         : from == TPosition::GM || from == TPosition::VECIN        ? MTE2
                                                                    : V;
}
constexpr Pipe consumer(TPosition from, TPosition to) {
  using namespace kw::ascend;
  return from == TPosition::CO1                                     ? FIX
         : memory_of(from) != UB                                    ? (memory_of(from) == L1 ? MTE1 : M)
         : to == TPosition::GM || to == TPosition::VECOUT           ? MTE3
                                                                    : V;
}
inline std::pair<Pipe, Pipe> pipes_of(HardEvent event) {
  using namespace kw::ascend;
  static const std::pair<Pipe, Pipe> pipes[] = {
#define KW_PAIR(from, to) {from, to},
      KW_EVENTS(KW_PAIR)
#undef KW_PAIR
  };
  return pipes[static_cast<int>(event)];
}
constexpr Pipe pipe_of(pipe_t pipe) {  // pipe_t has the order of Pipe
  return static_cast<Pipe>(pipe);
}
template <typename T>
struct Wide { using type = T; };  // what arithmetic on T is done in, before it is rounded to T
template <>
struct Wide<half> { using type = float; };
}  // namespace detail

inline int64_t GetBlockIdx() { return core()->block; }
inline int64_t GetBlockNum() { return core()->blocks; }
inline int64_t GetSubBlockIdx() { return core()->sub; }
inline int64_t GetSubBlockNum() { return core()->subs; }
inline int64_t GetTaskRation() { return core()->subs; }
inline void InitSocState() {}
inline void SetKernelMode(KernelMode mode) {
  kw::ascend::mode() = mode == KernelMode::MIX_MODE   ? kw::ascend::Mode::kMix
                       : mode == KernelMode::AIC_MODE ? kw::ascend::Mode::kCube
                                                      : kw::ascend::Mode::kVector;
}

#include "kw_tensors.h"

// ---- buffers, queues, flags ---------------------------------------------------------------------------------

template <TPosition from, TPosition to, int32_t depth>
class TQueBind {
 public:
  static_assert(depth > 0, "queues of depth 0 (in place) are not executed");
  template <typename T>
  LocalTensor<T> AllocTensor(KW_AT) {
    for (Block* block : blocks_) {
      if (block->state != Block::kFree) continue;
      core()->seen[detail::producer(from, to)].join(block->freed);
      core()->take(block, KW_HERE);
      return LocalTensor<T>(block, block->at, block->at + block->bytes);
    }
    fault("queue", KW_HERE, "AllocTensor finds none of %d buffers free: the device would hang", static_cast<int>(blocks_.size()));
  }
  template <typename T>
  bool EnQue(const LocalTensor<T>& tensor, KW_AT) {
    Block* block = owned(tensor, KW_HERE, "EnQue");
    if (block->state != Block::kTaken) fault("queue", KW_HERE, "EnQue of a tensor that was enqueued before");
    if (static_cast<int32_t>(waiting_.size()) >= depth) fault("queue", KW_HERE, "EnQue on a queue of depth %d that is full", depth);
    block->ready = core()->seen[detail::producer(from, to)];
    block->state = Block::kQueued;
    block->last = KW_HERE;
    waiting_.push_back(block);
    return true;
  }
  template <typename T>
  LocalTensor<T> DeQue(KW_AT) {
    if (waiting_.empty()) fault("queue", KW_HERE, "DeQue on an empty queue");
    Block* block = waiting_.front();
    waiting_.pop_front();
    core()->seen[detail::consumer(from, to)].join(block->ready);
    block->state = Block::kOut;
    block->last = KW_HERE;
    return LocalTensor<T>(block, block->at, block->at + block->bytes);
  }
  template <typename T>
  void FreeTensor(const LocalTensor<T>& tensor, KW_AT) {
    Block* block = owned(tensor, KW_HERE, "FreeTensor");
    if (block->state == Block::kQueued) fault("queue", KW_HERE, "FreeTensor of a tensor that is still enqueued");
    block->freed = core()->seen[detail::consumer(from, to)];
    if (block->state == Block::kTaken) block->freed.join(core()->seen[detail::producer(from, to)]);
    core()->give_back(block);
  }
  bool HasTensorInQue() const { return !waiting_.empty(); }
  bool VacantInQue() const { return static_cast<int32_t>(waiting_.size()) < depth; }
  void init(uint8_t num, uint32_t bytes, Where at) {
    for (int i = 0; i < num; ++i)
      blocks_.push_back(core()->allocate(detail::memory_of(kHeld), bytes, static_cast<int>(kHeld), Block::kFree, at, "InitBuffer"));
  }

 private:
  template <typename T>
  Block* owned(const LocalTensor<T>& tensor, Where at, const char* what) {
    tensor.live(at, what);
    if (std::find(blocks_.begin(), blocks_.end(), tensor.block()) == blocks_.end())
      fault("queue", at, "%s of a tensor that another queue allocated", what);
    return tensor.block();
  }
  static constexpr TPosition kHeld = from == TPosition::GM ? to : from;
  std::vector<Block*> blocks_;
  std::deque<Block*> waiting_;
};

template <TPosition position, int32_t depth>
using TQue = TQueBind<position == TPosition::VECIN ? TPosition::GM : position,
                      position == TPosition::VECOUT ? TPosition::GM : position, depth>;

template <TPosition position = TPosition::VECCALC>
class TBuf {
 public:
  template <typename T>
  LocalTensor<T> Get() {
    return LocalTensor<T>(block_, block_->at, block_->at + block_->bytes);
  }
  template <typename T>
  LocalTensor<T> Get(uint32_t count, KW_AT) {
    const uint32_t bytes = count * static_cast<uint32_t>(sizeof(T));
    if (bytes > block_->bytes) fault("out-of-bounds", KW_HERE, "Get of %u bytes of a TBuf of %u", bytes, block_->bytes);
    return LocalTensor<T>(block_, block_->at, block_->at + bytes);
  }
  template <typename T>
  LocalTensor<T> AllocTensor() { return Get<T>(); }
  template <typename T>
  void FreeTensor(const LocalTensor<T>&) {}
  template <typename T>
  LocalTensor<T> GetWithOffset(uint32_t count, uint32_t offset, KW_AT) {
    const uint32_t bytes = count * static_cast<uint32_t>(sizeof(T));
    if (offset + bytes > block_->bytes)
      fault("out-of-bounds", KW_HERE, "Get of %u bytes from %u on of a TBuf of %u", bytes, offset, block_->bytes);
    return LocalTensor<T>(block_, block_->at + offset, block_->at + offset + bytes);
  }
  void init(uint32_t bytes, Where at) {
    block_ = core()->allocate(detail::memory_of(position), bytes, static_cast<int>(position), Block::kFixed, at, "InitBuffer");
  }

 private:
  Block* block_ = nullptr;
};

class TPipe {
 public:
  TPipe() { core()->pipe = this; }
  template <TPosition from, TPosition to, int32_t depth>
  bool InitBuffer(TQueBind<from, to, depth>& queue, uint8_t num, uint32_t len, KW_AT) {
    queue.init(num, len, KW_HERE);
    return true;
  }
  template <TPosition position>
  bool InitBuffer(TBuf<position>& buffer, uint32_t len, KW_AT) {
    buffer.init(len, KW_HERE);
    return true;
  }
  TEventID FetchEventID(HardEvent) { return next_ = static_cast<TEventID>((next_ + 1) % kw::ascend::kEvents); }
  template <HardEvent event>
  TEventID FetchEventID() { return FetchEventID(event); }
  template <HardEvent event>
  TEventID AllocEventID() { return FetchEventID(event); }
  template <HardEvent event>
  void ReleaseEventID(TEventID) {}

 private:
  TEventID next_ = -1;
};
inline TPipe* GetTPipePtr() { return static_cast<TPipe*>(core()->pipe); }

template <HardEvent event>
void SetFlag(int32_t id, KW_AT) {
  const auto pipes = detail::pipes_of(event);
  core()->set(pipes.first, pipes.second, id, KW_HERE);
}
template <HardEvent event>
void WaitFlag(int32_t id, KW_AT) {
  const auto pipes = detail::pipes_of(event);
  core()->wait(pipes.first, pipes.second, id, KW_HERE);
}
template <pipe_t from, pipe_t to>
class TQueSync {
 public:
  void SetFlag(TEventID id, KW_AT) { core()->set(detail::pipe_of(from), detail::pipe_of(to), id, KW_HERE); }
  void WaitFlag(TEventID id, KW_AT) { core()->wait(detail::pipe_of(from), detail::pipe_of(to), id, KW_HERE); }
};
template <pipe_t pipe>
void PipeBarrier() {  // what runs on one pipe is in order here but for Mmad, whose reference asks for a barrier
  if (pipe == PIPE_ALL) core()->barrier();
  if (pipe == PIPE_M) core()->drained = core()->seen[kw::ascend::M].at[kw::ascend::M];
}
template <uint8_t mode, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flag, KW_AT) {
  kw::ascend::Launch::current()->cross_set(mode, detail::pipe_of(pipe), flag, KW_HERE);
}
template <uint8_t mode = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flag, KW_AT) {
  kw::ascend::Launch::current()->cross_wait(flag, KW_HERE);
}
template <bool isAIVOnly = true>
void SyncAll(KW_AT) {
  kw::ascend::Launch::current()->sync_all(KW_HERE);
}
template <typename T>
void SetAtomicAdd() { core()->adds = true; }
inline void SetAtomicNone() { core()->adds = false; }

// Buffers one after another, without queues: whoever uses them sets the flags.
enum class Hardware : uint8_t { UB, L1, L0A, L0B, L0C, BIAS };
template <Hardware hardware = Hardware::UB>
class LocalMemAllocator {
 public:
  template <typename T>
  LocalTensor<T> Alloc(uint32_t count, KW_AT) {
    Block* block = core()->allocate(static_cast<Memory>(hardware), count * static_cast<uint32_t>(sizeof(T)), 0, Block::kFixed,
                                    KW_HERE, "Alloc");
    return LocalTensor<T>(block, block->at, block->at + block->bytes);
  }
  template <TPosition position, typename T>
  LocalTensor<T> Alloc(uint32_t count, KW_AT) {
    static_assert(detail::memory_of(position) == static_cast<Memory>(hardware), "the position is in another buffer");
    return Alloc<T>(count, kw_file, kw_line);
  }
};

#include "kw_copies.h"
#include "kw_vectors.h"
#include "kw_reductions.h"
#include "kw_cube.h"
#include "kw_library.h"

}  // namespace AscendC

inline int64_t get_block_idx() { return AscendC::GetBlockIdx(); }
inline int64_t get_block_num() { return AscendC::GetBlockNum(); }
inline void set_flag(pipe_t from, pipe_t to, int32_t id, KW_AT) {
  kw::ascend::core()->set(AscendC::detail::pipe_of(from), AscendC::detail::pipe_of(to), id, KW_HERE);
}
inline void wait_flag(pipe_t from, pipe_t to, int32_t id, KW_AT) {
  kw::ascend::core()->wait(AscendC::detail::pipe_of(from), AscendC::detail::pipe_of(to), id, KW_HERE);
}
inline void pipe_barrier(pipe_t pipe) {
  if (pipe == PIPE_ALL) AscendC::PipeBarrier<PIPE_ALL>();
  if (pipe == PIPE_M) AscendC::PipeBarrier<PIPE_M>();
}
constexpr bool likely(bool condition) { return condition; }
constexpr bool unlikely(bool condition) { return condition; }
#endif  // KW_ASCENDC_KERNEL_OPERATOR_H_
