// kw_tensors.h: LocalTensor and GlobalTensor. Part of kernel_operator.h, inside its namespace.

template <typename T>
class LocalTensor {
 public:
  using PrimType = T;
  LocalTensor() = default;
  LocalTensor(Block* block, uint32_t at, uint32_t end) : block_(block), at_(at), end_(end), generation_(block->generation) {}
  LocalTensor operator[](uint32_t i) const { return at_byte(i * static_cast<uint32_t>(sizeof(T))); }
  template <typename U>
  LocalTensor<U> ReinterpretCast() const {
    LocalTensor<U> other(block_, at_, end_);
    other.generation_ = generation_;
    return other;
  }
  uint32_t GetSize() const { return at_ < end_ ? (end_ - at_) / static_cast<uint32_t>(sizeof(T)) : 0; }
  uint32_t GetLength() const { return at_ < end_ ? end_ - at_ : 0; }
  T GetValue(uint32_t i, KW_AT) const {
    core()->issue(kw::ascend::S, KW_HERE, "GetValue");
    return *(*this)[i].read(kw::ascend::S, sizeof(T), KW_HERE, "GetValue");
  }
  template <typename U>
  void SetValue(uint32_t i, U value, KW_AT) const {
    core()->issue(kw::ascend::S, KW_HERE, "SetValue");
    *(*this)[i].write(kw::ascend::S, sizeof(T), KW_HERE, "SetValue") = static_cast<T>(value);
  }

  // Of our own, for what follows: `bytes` that an instruction touches, checked.
  const T* read(Pipe pipe, uint32_t bytes, Where at, const char* what, bool move = false) const {
    inside(bytes, at, what);
    core()->read(pipe, at_, bytes, at, what, move);
    return reinterpret_cast<const T*>(core()->memory(at_));
  }
  T* write(Pipe pipe, uint32_t bytes, Where at, const char* what, bool known = true) const {
    inside(bytes, at, what);
    core()->write(pipe, at_, bytes, at, what, known);
    return reinterpret_cast<T*>(core()->memory(at_));
  }
  const LocalTensor& aligned(Where at, const char* what, uint32_t bytes = 0) const {
    if (block_ && !bytes) bytes = kw::ascend::limits(memory()).align;
    if (block_ && kw::ascend::offset_in(at_) % bytes)
      fault("misaligned", at, "%s starts at byte %u of the %s, no multiple of %u", what, kw::ascend::offset_in(at_),
            kw::ascend::limits(memory()).name, bytes);
    return *this;
  }
  const LocalTensor& in(Memory wanted, Where at, const char* what) const {
    live(at, what);
    if (memory() != wanted)
      fault("position", at, "%s is given a tensor of the %s where one of the %s is needed", what,
            kw::ascend::limits(memory()).name, kw::ascend::limits(wanted).name);
    return *this;
  }
  LocalTensor at_byte(uint32_t bytes) const {
    LocalTensor part = *this;
    part.at_ += bytes;
    return part;
  }
  Block* block() const { return block_; }
  uint32_t address() const { return at_; }
  Memory memory() const { return kw::ascend::memory_of(block_->at); }
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
  using PrimType = T;
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
    core()->issue(kw::ascend::S, KW_HERE, "GetValue");
    return *(*this)[i].read(kw::ascend::S, sizeof(T), KW_HERE, "GetValue");
  }
  void SetValue(uint64_t i, T value, KW_AT) const {
    core()->issue(kw::ascend::S, KW_HERE, "SetValue");
    *(*this)[i].write(kw::ascend::S, sizeof(T), KW_HERE, "SetValue") = value;
  }
  uint64_t GetSize() const { return size_; }
  T* GetPhyAddr(uint64_t i = 0) const { return data_ + i; }

  const T* read(Pipe pipe, int64_t bytes, Where at, const char* what) const {
    inside(bytes, at, what);
    kw::ascend::read_global(pipe, reinterpret_cast<const uint8_t*>(data_), bytes, at, what);
    return data_;
  }
  T* write(Pipe pipe, int64_t bytes, Where at, const char* what) const {
    inside(bytes, at, what);
    kw::ascend::write_global(pipe, reinterpret_cast<const uint8_t*>(data_), bytes, at, what);
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
