#include <bit>

#include "format/torch/pickle_machine.h"
#include "gbcompress/error.h"

namespace gbcompress {

PickleMachine::PickleMachine(std::span<const std::byte> bytes, const std::string& label)
    : reader_(bytes, label), label_(label) {
  make({Kind::kNone});
  make({Kind::kBool, {}, 0});
  make({Kind::kBool, {}, 1});
  make({Kind::kTuple});
}

void PickleMachine::corrupt(const std::string& what) const {
  throw Error(Errc::kCorrupt, label_ + " is a broken pickle: it " + what);
}

/// Values that a program recalls many times over could need far more than its own size.
void PickleMachine::spend(std::size_t bytes) {
  if (bytes > kMaxPickleMemory - spent_)
    throw Error(Errc::kLimit, label_ + " needs more than 512 MiB of memory to be read");
  spent_ += bytes;
}

PickleHandle PickleMachine::make(PickleValue value) {
  if (values_.size() == kMaxPickleValues)
    throw Error(Errc::kLimit, label_ + " holds more than 4,000,000 values");
  spend(sizeof value + value.text.size() + value.items.size() * sizeof(PickleHandle));
  values_.push_back(std::move(value));
  return static_cast<PickleHandle>(values_.size() - 1);
}

void PickleMachine::push(PickleHandle handle) {
  if (stack_.size() == kMaxPickleValues)
    throw Error(Errc::kLimit, label_ + " stacks more than 4,000,000 values");
  stack_.push_back(handle);
}

/// BINFLOAT is the one number that a pickle holds in big-endian order.
void PickleMachine::push_float() {
  std::uint64_t bits = 0;
  for (const std::byte byte : reader_.take(8))
    bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
  push_new({Kind::kFloat, {}, std::bit_cast<std::int64_t>(bits)});
}

/// Two's complement of a given number of bytes.
void PickleMachine::push_long(std::uint64_t length) {
  const auto bytes = reader_.take(length);
  if (bytes.size() > 8) return push_new(Kind::kOpaque);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bits |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  if (!bytes.empty() && bytes.size() < 8 && (bytes.back() & std::byte{0x80}) != std::byte{0})
    bits |= ~std::uint64_t{0} << (8 * bytes.size());
  push_int(std::bit_cast<std::int64_t>(bits));
}

void PickleMachine::push_bytes(Kind kind, std::uint64_t length) {
  const auto bytes = reader_.take(length);
  push_new({kind, {}, 0, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
}

void PickleMachine::push_mark() {
  if (marks_.size() == 1000) throw Error(Errc::kLimit, label_ + " is nested too deep");
  marks_.push_back(stack_.size());
}

PickleMachine::Handles PickleMachine::pop_many(std::size_t n) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor < n) corrupt("takes more values than there are");
  Handles items(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
  stack_.resize(stack_.size() - n);
  return items;
}

PickleMachine::Handles PickleMachine::pop_to_mark() {
  if (marks_.empty()) corrupt("ends a group that it did not begin");
  auto items = pop_many(stack_.size() - marks_.back());
  marks_.pop_back();
  return items;
}

const PickleValue& PickleMachine::pop_of(Kind kind, const char* what) {
  const PickleValue& value = values_[pop()];
  if (value.kind != kind) corrupt(std::string("needs ") + what);
  return value;
}

const PickleValue& PickleMachine::item(const PickleValue& tuple, std::size_t i, Kind kind) const {
  if (i >= tuple.items.size() || values_[tuple.items[i]].kind != kind)
    corrupt("describes a tensor or storage in an unknown way");
  return values_[tuple.items[i]];
}

void PickleMachine::remember(std::uint32_t index) {
  const PickleHandle top = pop();
  push(top);
  memo_[index] = top;
  if (memo_.size() > kMaxPickleValues)
    throw Error(Errc::kLimit, label_ + " remembers more than 4,000,000 values");
}

void PickleMachine::recall(std::uint32_t index) {
  const auto at = memo_.find(index);
  if (at == memo_.end()) corrupt("recalls a value that it did not remember");
  push(at->second);
}

/// An object that is added to is a list, a set or a dictionary of a class of its own.
void PickleMachine::extend(Kind kind, const Handles& items) {
  const PickleHandle at = pop();
  push(at);
  PickleValue& container = values_[at];
  if (container.kind == Kind::kObject && container.number == 0) {
    container.kind = kind;
    container.items.clear();
  }
  if (container.kind != kind) corrupt("adds to something that is no list or dictionary");
  if (kind == Kind::kDict && items.size() % 2 != 0) corrupt("has a key without a value");
  spend(items.size() * sizeof(PickleHandle));
  auto& all = container.items;
  all.insert(all.end(), items.begin(), items.end());
}

}  // namespace gbcompress
