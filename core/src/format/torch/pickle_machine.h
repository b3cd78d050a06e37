#pragma once
/// The machine that carries out a pickle's instructions; read_pickle() is its one user.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/byte_reader.h"
#include "format/torch/pickle.h"

namespace gbcompress {

class PickleMachine {
 public:
  /// @param label  must outlive the machine
  PickleMachine(std::span<const std::byte> bytes, const std::string& label);
  PickleTree run();
  std::size_t position() const noexcept { return reader_.position(); }

 private:
  using Kind = PickleValue::Kind;
  using Handles = std::vector<PickleHandle>;

  /// Values that every machine begins with: many instructions push them, and none can change.
  static constexpr PickleHandle kNone = 0, kFalse = 1, kTrue = 2, kEmptyTuple = 3;

  // pickle.cpp: instructions. Each says whether the code is one of its own.
  void step(std::uint8_t code);
  bool number(std::uint8_t code);
  bool text(std::uint8_t code);
  bool container(std::uint8_t code);
  bool memo(std::uint8_t code);
  bool object(std::uint8_t code);

  // pickle_stack.cpp: values, stack and memo.
  [[noreturn]] void corrupt(const std::string& what) const;
  PickleHandle make(PickleValue value);
  void push(PickleHandle handle);
  void push_new(PickleValue value) { push(make(std::move(value))); }
  void push_new(Kind kind) { push_new(PickleValue{kind}); }
  void push_items(Kind kind, Handles items) { push_new({kind, {}, 0, {}, std::move(items)}); }
  void push_int(std::int64_t number) { push_new({Kind::kInt, {}, number}); }
  void push_float();
  void push_long(std::uint64_t length);
  void push_bytes(Kind kind, std::uint64_t length);
  void push_mark();
  PickleHandle pop() { return pop_many(1)[0]; }
  Handles pop_many(std::size_t n);
  Handles pop_to_mark();
  const PickleValue& pop_of(Kind kind, const char* what);
  /// An item of a tuple that must be there and of that kind.
  const PickleValue& item(const PickleValue& tuple, std::size_t i, Kind kind) const;
  void remember(std::uint32_t index);
  void recall(std::uint32_t index);
  void extend(Kind kind, const Handles& items);
  void spend(std::size_t bytes);

  // pickle_objects.cpp: names and what is made of them.
  void frame();
  std::string line();
  void global();
  void stack_global();
  void push_global(const std::string& name);
  void persistent();
  void persistent_storage(const PickleValue& id);
  void reduce();
  void new_object(std::size_t arguments);
  void call(PickleHandle callable, PickleHandle arguments);
  void push_object(std::string name, Handles items, bool tensor = false);
  void push_set(const PickleValue& arguments);
  void call_tensor(const PickleValue& arguments);
  void push_distributed(PickleHandle state);
  const PickleValue* attribute(PickleHandle state, std::string_view key) const;
  void push_dict(const PickleValue& arguments, const std::string& name);
  bool is_lazy(const PickleValue& arguments, std::size_t at) const;
  void push_tensor(const PickleValue& arguments, std::size_t dtype_at);
  void build();

  ByteReader reader_;
  const std::string& label_;
  std::vector<PickleValue> values_;
  std::vector<PickleHandle> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleHandle> memo_;
  std::unordered_map<std::string, PickleHandle> globals_;  ///< each name is one value
  std::size_t spent_ = 0;                                  ///< bytes of memory
};

}  // namespace gbcompress
