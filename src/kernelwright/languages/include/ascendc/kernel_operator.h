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
// Names and meanings are those of the Ascend C API reference (basic API, CANN 8), for Atlas A2 (NPU architecture 2201).
// Vector instructions take the first `count` elements; the forms with masks and repeats are not here.
#ifndef KW_ASCENDC_KERNEL_OPERATOR_H_
#define KW_ASCENDC_KERNEL_OPERATOR_H_

#include <math.h>

#include <algorithm>

#include "kw_core.h"

#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
#define GM_ADDR uint8_t*
#define ICPU_RUN_KF(kernel, blocks, ...) ::kw::ascend::run(blocks, [&] { kernel(__VA_ARGS__); })

using half = kw::float16;
using bfloat16_t = kw::bfloat16;
using event_t = int32_t;
enum pipe_t { PIPE_S, PIPE_V, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL };

namespace AscendC {

using kw::ascend::Block;
using kw::ascend::core;
using kw::ascend::fault;
using kw::ascend::kBlock;
using kw::ascend::Pipe;
using kw::ascend::Where;

using TEventID = int8_t;
enum class TPosition : uint8_t { GM, VECIN, VECCALC, VECOUT };
using QuePosition = TPosition;
enum class RoundMode : uint8_t { CAST_NONE, CAST_RINT, CAST_FLOOR, CAST_CEIL, CAST_ROUND, CAST_TRUNC, CAST_ODD };
enum class HardEvent : uint8_t {
  MTE2_V, V_MTE2, MTE3_V, V_MTE3, MTE3_MTE2, MTE2_MTE3, V_V, S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S
};

namespace detail {
constexpr Pipe producer(TPosition from) {
  return from == TPosition::GM || from == TPosition::VECIN ? kw::ascend::MTE2 : kw::ascend::V;
}
constexpr Pipe consumer(TPosition to) {
  return to == TPosition::GM || to == TPosition::VECOUT ? kw::ascend::MTE3 : kw::ascend::V;
}
inline std::pair<Pipe, Pipe> pipes_of(HardEvent event) {
  using namespace kw::ascend;
  static const std::pair<Pipe, Pipe> pipes[] = {
      {MTE2, V}, {V, MTE2}, {MTE3, V}, {V, MTE3}, {MTE3, MTE2}, {MTE2, MTE3}, {V, V},
      {S, V},    {V, S},    {S, MTE2}, {MTE2, S}, {S, MTE3},    {MTE3, S}};
  return pipes[static_cast<int>(event)];
}
constexpr Pipe pipe_of(pipe_t pipe) {
  return pipe == PIPE_V ? kw::ascend::V : pipe == PIPE_MTE2 ? kw::ascend::MTE2 : pipe == PIPE_MTE3 ? kw::ascend::MTE3 : kw::ascend::S;
}
template <typename T>
struct Wide { using type = T; };  // what arithmetic on T is done in, before it is rounded to T
template <>
struct Wide<half> { using type = float; };
}  // namespace detail

inline int64_t GetBlockIdx() { return core()->block; }
inline int64_t GetBlockNum() { return core()->blocks; }

// ---- tensors ------------------------------------------------------------------------------------------------

template <typename T>
class LocalTensor {
 public:
  LocalTensor() = default;
  LocalTensor(Block* block, uint32_t at, uint32_t end) : block_(block), at_(at), end_(end), generation_(block->generation) {}
  LocalTensor operator[](uint32_t i) const {
    LocalTensor part = *this;
    part.at_ += i * static_cast<uint32_t>(sizeof(T));
    return part;
  }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> other(block_, at_, end_);
    other.generation_ = generation_;
    return other;
  }
  uint32_t GetSize() const { return at_ < end_ ? (end_ - at_) / static_cast<uint32_t>(sizeof(T)) : 0; }
  T GetValue(uint32_t i, KW_AT) const {
    core()->issue(kw::ascend::S);
    return *(*this)[i].read(kw::ascend::S, sizeof(T), KW_HERE, "GetValue");
  }
  template <typename U>
  void SetValue(uint32_t i, U value, KW_AT) const {
    core()->issue(kw::ascend::S);
    *(*this)[i].write(kw::ascend::S, sizeof(T), KW_HERE, "SetValue") = static_cast<T>(value);
  }

  // Of our own, for what follows: `bytes` that an instruction touches, checked.
  const T* read(Pipe pipe, uint32_t bytes, Where at, const char* what) const {
    inside(bytes, at, what);
    core()->read(pipe, at_, bytes, at, what);
    return reinterpret_cast<const T*>(core()->memory(at_));
  }
  T* write(Pipe pipe, uint32_t bytes, Where at, const char* what, bool known = true) const {
    inside(bytes, at, what);
    core()->write(pipe, at_, bytes, at, what, known);
    return reinterpret_cast<T*>(core()->memory(at_));
  }
  const LocalTensor& aligned(Where at, const char* what) const {
    if (at_ % kBlock) fault("misaligned", at, "%s starts at byte %u, no multiple of %u", what, at_, kBlock);
    return *this;
  }
  LocalTensor at_byte(uint32_t bytes) const {
    LocalTensor part = *this;
    part.at_ += bytes;
    return part;
  }
  Block* block() const { return block_; }
  void live(Where at, const char* what) const {
    if (!block_) fault("freed", at, "%s is given a tensor that was never allocated", what);
    if (block_->generation != generation_) fault("freed", at, "%s is given a tensor that was freed", what);
  }

 private:
  template <typename U>
  friend class LocalTensor;
  void inside(uint32_t bytes, Where at, const char* what) const {
    live(at, what);
    if (at_ + bytes > end_)
      fault("out-of-bounds", at, "%s touches %u bytes, of a buffer that has %d left there", what, bytes,
            static_cast<int>(end_) - static_cast<int>(at_));
  }
  Block* block_ = nullptr;
  uint32_t at_ = 0, end_ = 0, generation_ = 0;
};

template <typename T>
class GlobalTensor {
 public:
  void SetGlobalBuffer(T* buffer, uint64_t size = UINT64_MAX / 16) {
    data_ = buffer;
    size_ = size;
  }
  GlobalTensor operator[](uint64_t i) const {
    GlobalTensor part = *this;
    part.data_ += i;
    part.size_ = i < size_ ? size_ - i : 0;
    return part;
  }
  T GetValue(uint64_t i, KW_AT) const {
    core()->issue(kw::ascend::S);
    return *(*this)[i].read(kw::ascend::S, sizeof(T), KW_HERE, "GetValue");
  }
  void SetValue(uint64_t i, T value, KW_AT) const {
    core()->issue(kw::ascend::S);
    *(*this)[i].write(kw::ascend::S, sizeof(T), KW_HERE, "SetValue") = value;
  }
  uint64_t GetSize() const { return size_; }

  const T* read(Pipe pipe, int64_t bytes, Where at, const char* what) const {
    inside(bytes, at, what);
    core()->read_global(pipe, reinterpret_cast<const uint8_t*>(data_), bytes, at, what);
    return data_;
  }
  T* write(Pipe pipe, int64_t bytes, Where at, const char* what) const {
    inside(bytes, at, what);
    core()->write_global(pipe, reinterpret_cast<const uint8_t*>(data_), bytes, at, what);
    return data_;
  }
  GlobalTensor at_byte(int64_t bytes) const {
    GlobalTensor part = *this;
    part.data_ = reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(data_) + bytes);
    part.size_ -= std::min<uint64_t>(size_, static_cast<uint64_t>(bytes) / sizeof(T));
    return part;
  }

 private:
  void inside(int64_t bytes, Where at, const char* what) const {
    if (static_cast<uint64_t>(bytes) > size_ * sizeof(T))
      fault("out-of-bounds", at, "%s touches %lld bytes of a GlobalTensor with %llu elements left there", what,
            static_cast<long long>(bytes), static_cast<unsigned long long>(size_));
  }
  T* data_ = nullptr;
  uint64_t size_ = 0;
};

// ---- buffers, queues, flags ---------------------------------------------------------------------------------

template <TPosition from, TPosition to, int32_t depth>
class TQueBind {
 public:
  static_assert(depth > 0, "queues of depth 0 (in place) are not executed");
  template <typename T>
  LocalTensor<T> AllocTensor(KW_AT) {
    for (Block* block : blocks_) {
      if (block->state != Block::kFree) continue;
      core()->seen[detail::producer(from)].join(block->freed);
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
    block->ready = core()->seen[detail::producer(from)];
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
    core()->seen[detail::consumer(to)].join(block->ready);
    block->state = Block::kOut;
    block->last = KW_HERE;
    return LocalTensor<T>(block, block->at, block->at + block->bytes);
  }
  template <typename T>
  void FreeTensor(const LocalTensor<T>& tensor, KW_AT) {
    Block* block = owned(tensor, KW_HERE, "FreeTensor");
    if (block->state == Block::kQueued) fault("queue", KW_HERE, "FreeTensor of a tensor that is still enqueued");
    block->freed = core()->seen[detail::consumer(to)];
    if (block->state == Block::kTaken) block->freed.join(core()->seen[detail::producer(from)]);
    core()->give_back(block);
  }
  bool HasTensorInQue() const { return !waiting_.empty(); }
  bool VacantInQue() const { return static_cast<int32_t>(waiting_.size()) < depth; }
  void init(uint8_t num, uint32_t bytes, Where at) {
    for (int i = 0; i < num; ++i)
      blocks_.push_back(core()->allocate(bytes, static_cast<int>(from == TPosition::GM ? to : from), Block::kFree, at));
  }

 private:
  template <typename T>
  Block* owned(const LocalTensor<T>& tensor, Where at, const char* what) {
    tensor.live(at, what);
    if (std::find(blocks_.begin(), blocks_.end(), tensor.block()) == blocks_.end())
      fault("queue", at, "%s of a tensor that another queue allocated", what);
    return tensor.block();
  }
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
  void init(uint32_t bytes, Where at) {
    block_ = core()->allocate(bytes, static_cast<int>(position), Block::kFixed, at);
  }

 private:
  Block* block_ = nullptr;
};

class TPipe;
namespace detail {
inline TPipe*& pipe() {
  static thread_local TPipe* latest = nullptr;
  return latest;
}
}  // namespace detail

class TPipe {
 public:
  TPipe() { detail::pipe() = this; }
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
  TEventID AllocEventID() { return FetchEventID(event); }
  template <HardEvent event>
  void ReleaseEventID(TEventID) {}

 private:
  TEventID next_ = -1;
};
inline TPipe* GetTPipePtr() { return detail::pipe(); }

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
void PipeBarrier() {
  if (pipe == PIPE_ALL) core()->barrier();  // instructions of one pipe are in order here in any case
}

#include "kw_copies.h"
#include "kw_vectors.h"

}  // namespace AscendC

#endif  // KW_ASCENDC_KERNEL_OPERATOR_H_
