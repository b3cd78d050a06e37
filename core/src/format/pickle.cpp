#include "format/pickle.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "base/byte_reader.h"
#include "base/text.h"
#include "format/pickle_globals.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Kind = PickleValue::Kind;

/// Values 0 and 1 always exist: many instructions push one of them, and neither can change.
constexpr PickleHandle kOpaqueHandle = 0, kEmptyTupleHandle = 1;

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& label)
      : reader_(bytes, label), label_(label) {
    make({Kind::kOpaque});
    make({Kind::kTuple});
  }

  PickleTree run() {
    while (step(reader_.read<std::uint8_t>())) {
    }
    const PickleHandle root = pop();
    if (!stack_.empty() || !marks_.empty()) corrupt("leaves values behind");
    return {std::move(values_), root};
  }

 private:
  /// Carries out one instruction. @return false after the last
  bool step(std::uint8_t code) {
    switch (code) {
      case 0x80:  // PROTO
        if (reader_.read<std::uint8_t>() > 5)
          throw Error(Errc::kUnsupported, label_ + " uses a pickle protocol above 5");
        break;
      case 0x95:
        frame();
        break;  // FRAME
      case '(':
        push_mark();
        break;
      case '.':
        return false;
      case '}':
        push_new(Kind::kDict);
        break;
      case ']':
        push_new(Kind::kList);
        break;
      case ')':
        push(kEmptyTupleHandle);
        break;
      case 't':
        push_tuple(pop_to_mark());
        break;
      case 0x85:
        push_tuple(pop_many(1));
        break;
      case 0x86:
        push_tuple(pop_many(2));
        break;
      case 0x87:
        push_tuple(pop_many(3));
        break;
      case 'N':
      case 0x88:
      case 0x89:
        push(kOpaqueHandle);
        break;  // None, True, False
      case 'G':
        reader_.take(8);
        push(kOpaqueHandle);
        break;  // BINFLOAT
      case 'J':
        push_int(reader_.read<std::int32_t>());
        break;
      case 'K':
        push_int(reader_.read<std::uint8_t>());
        break;
      case 'M':
        push_int(reader_.read<std::uint16_t>());
        break;
      case 0x8a:
        push_long();
        break;
      case 'X':
        push_text(reader_.read<std::uint32_t>());
        break;
      case 0x8c:
        push_text(reader_.read<std::uint8_t>());
        break;
      case 0x8d:
        push_text(reader_.read<std::uint64_t>());
        break;
      case 'q':
        remember(reader_.read<std::uint8_t>());
        break;
      case 'r':
        remember(reader_.read<std::uint32_t>());
        break;
      case 0x94:
        remember(static_cast<std::uint32_t>(memo_.size()));
        break;
      case 'h':
        recall(reader_.read<std::uint8_t>());
        break;
      case 'j':
        recall(reader_.read<std::uint32_t>());
        break;
      case 'c':
        global();
        break;
      case 0x93:
        stack_global();
        break;
      case 'Q':
        persistent();
        break;
      case 'R':
        reduce();
        break;
      case 'b':
        build();
        break;
      case 'a':
        extend(Kind::kList, pop_many(1));
        break;
      case 'e':
        extend(Kind::kList, pop_to_mark());
        break;
      case 's':
        extend(Kind::kDict, pop_many(2));
        break;
      case 'u':
        extend(Kind::kDict, pop_to_mark());
        break;
      default:
        throw Error(Errc::kUnsupported, label_ + " uses pickle instruction " +
                                            std::to_string(code) +
                                            ", which a plain state dict does not need" + kAdvice);
    }
    return true;
  }

  static constexpr const char* kAdvice = "; load it in Python and save its tensors as safetensors";
  [[noreturn]] void corrupt(const std::string& what) const {
    throw Error(Errc::kCorrupt, label_ + " is a broken pickle: it " + what);
  }

  // Stack and values.
  PickleHandle make(PickleValue value) {
    if (values_.size() == kMaxPickleValues)
      throw Error(Errc::kLimit, label_ + " holds more than 4,000,000 values");
    values_.push_back(std::move(value));
    return static_cast<PickleHandle>(values_.size() - 1);
  }
  void push(PickleHandle handle) {
    if (stack_.size() == kMaxPickleValues)
      throw Error(Errc::kLimit, label_ + " stacks more than 4,000,000 values");
    stack_.push_back(handle);
  }
  void push_new(PickleValue value) { push(make(std::move(value))); }
  void push_new(Kind kind) { push_new(PickleValue{kind}); }
  void push_mark() {
    if (marks_.size() == 1000) throw Error(Errc::kLimit, label_ + " is nested too deep");
    marks_.push_back(stack_.size());
  }
  void push_int(std::int64_t number) { push_new({Kind::kInt, {}, number}); }
  void push_text(std::uint64_t length) {
    const auto bytes = reader_.take(length);
    push_new({Kind::kText, {}, 0, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
  void push_tuple(std::vector<PickleHandle> items) {
    push_new({Kind::kTuple, {}, 0, {}, std::move(items)});
  }
  /// LONG1: two's complement of a given number of bytes.
  void push_long() {
    const auto bytes = reader_.take(reader_.read<std::uint8_t>());
    if (bytes.size() > 8) return push(kOpaqueHandle);
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bits |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    if (!bytes.empty() && bytes.size() < 8 && (bytes.back() & std::byte{0x80}) != std::byte{0})
      bits |= ~std::uint64_t{0} << (8 * bytes.size());
    push_int(std::bit_cast<std::int64_t>(bits));
  }
  PickleHandle pop() { return pop_many(1)[0]; }
  std::vector<PickleHandle> pop_many(std::size_t n) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < n) corrupt("takes more values than there are");
    std::vector<PickleHandle> items(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
    stack_.resize(stack_.size() - n);
    return items;
  }
  std::vector<PickleHandle> pop_to_mark() {
    if (marks_.empty()) corrupt("ends a group that it did not begin");
    auto items = pop_many(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }
  const PickleValue& pop_of(Kind kind, const char* what) {
    const PickleValue& value = values_[pop()];
    if (value.kind != kind) corrupt(std::string("needs ") + what);
    return value;
  }
  const PickleValue& item(const PickleValue& tuple, std::size_t i, Kind kind) const {
    if (i >= tuple.items.size() || values_[tuple.items[i]].kind != kind)
      corrupt("describes a tensor or storage in an unknown way");
    return values_[tuple.items[i]];
  }

  // Memo.
  void remember(std::uint32_t index) {
    const PickleHandle top = pop();
    push(top);
    memo_[index] = top;
    if (memo_.size() > kMaxPickleValues)
      throw Error(Errc::kLimit, label_ + " remembers more than 4,000,000 values");
  }
  void recall(std::uint32_t index) {
    const auto at = memo_.find(index);
    if (at == memo_.end()) corrupt("recalls a value that it did not remember");
    push(at->second);
  }

  // Names.
  void frame() {
    if (reader_.read<std::uint64_t>() > reader_.remaining())
      throw Error(Errc::kTruncated, label_ + " ends inside a pickle frame");
  }
  std::string line() {
    std::string text;
    for (;;) {
      const char c = static_cast<char>(reader_.read<std::uint8_t>());
      if (c == '\n') return text;
      if (text.size() == 256) corrupt("holds a global name above 256 bytes");
      text += c;
    }
  }
  void global() {
    const std::string module = line();
    push_global(module + "." + line());
  }
  void stack_global() {
    const std::string name = pop_of(Kind::kText, "the name of a global").text;
    push_global(pop_of(Kind::kText, "the module of a global").text + "." + name);
  }
  void push_global(const std::string& name) {
    const PickleGlobal* known = find_pickle_global(name);
    if (!known)
      throw Error(Errc::kUnsupported,
                  label_ + " refers to " + printable(name.substr(0, 256)) +
                      ", which is not part of a plain state dict and is not run" + kAdvice);
    push_new({Kind::kGlobal, known->dtype, 0, name});
  }

  /// ("storage", class, key, device, elements)
  void persistent() {
    const PickleValue& id = pop_of(Kind::kTuple, "a storage");
    const PickleValue& type = item(id, 1, Kind::kGlobal);
    if (item(id, 0, Kind::kText).text != "storage" ||
        find_pickle_global(type.text)->callable != PickleCallable::kStorageClass)
      corrupt("refers to something that is not a storage");
    const std::string& key = item(id, 2, Kind::kText).text;
    if (key.empty() || key.size() > 64) corrupt("has a storage without a proper key");
    push_new(PickleValue{Kind::kStorage, type.dtype, item(id, 4, Kind::kInt).number, key});
  }

  void reduce() {
    const PickleHandle arguments_at = pop();
    const PickleHandle callable_at = pop();
    const PickleValue& arguments = values_[arguments_at];
    const PickleValue& callable = values_[callable_at];
    if (arguments.kind != Kind::kTuple || callable.kind != Kind::kGlobal)
      corrupt("calls something that is not a name");
    switch (find_pickle_global(callable.text)->callable) {
      case PickleCallable::kOrderedDict:
        if (!arguments.items.empty()) corrupt("makes a dictionary in an unknown way");
        return push_new(Kind::kDict);
      case PickleCallable::kParameter:
        item(arguments, 0, Kind::kTensor);
        return push(arguments.items[0]);
      case PickleCallable::kTensorV2:
        return push_tensor(arguments, false);
      case PickleCallable::kTensorV3:
        return push_tensor(arguments, true);
      case PickleCallable::kStorageClass:
      case PickleCallable::kDtype:
        break;
    }
    corrupt("calls " + callable.text);
  }

  /// (storage, offset, sizes, strides, requires_grad, hooks[, dtype])
  void push_tensor(const PickleValue& arguments, bool has_dtype) {
    const PickleValue& storage = item(arguments, 0, Kind::kStorage);
    item(arguments, 2, Kind::kTuple);
    item(arguments, 3, Kind::kTuple);
    const auto dtype = has_dtype ? item(arguments, 6, Kind::kGlobal).dtype : storage.dtype;
    if (!dtype) corrupt("has a tensor without a dtype");
    push_new({Kind::kTensor,
              dtype,
              item(arguments, 1, Kind::kInt).number,
              {},
              {arguments.items[0], arguments.items[2], arguments.items[3]}});
  }

  /// Attributes of a dictionary (`_metadata`) carry no tensors.
  void build() {
    pop();
    const PickleHandle object = pop();
    if (values_[object].kind != Kind::kDict)
      throw Error(Errc::kUnsupported, label_ + " holds an object with attributes" + kAdvice);
    push(object);
  }
  void extend(Kind kind, const std::vector<PickleHandle>& items) {
    const PickleHandle container = pop();
    push(container);
    if (values_[container].kind != kind) corrupt("adds to something that is no list or dictionary");
    if (kind == Kind::kDict && items.size() % 2 != 0) corrupt("has a key without a value");
    auto& all = values_[container].items;
    all.insert(all.end(), items.begin(), items.end());
  }

  ByteReader reader_;
  const std::string& label_;
  std::vector<PickleValue> values_;
  std::vector<PickleHandle> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleHandle> memo_;
};

}  // namespace

PickleTree read_pickle(std::span<const std::byte> bytes, const std::string& label) {
  if (bytes.size() > kMaxPickleBytes)
    throw Error(Errc::kLimit, label + " has more than 64 MiB of pickle");
  return Machine(bytes, label).run();
}

}  // namespace gbcompress
