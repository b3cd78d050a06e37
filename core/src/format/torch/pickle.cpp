#include "format/torch/pickle.h"

#include <algorithm>

#include "format/torch/pickle_machine.h"
#include "gbcompress/error.h"

namespace gbcompress {

PickleTree PickleMachine::run() {
  for (std::uint8_t code; (code = reader_.read<std::uint8_t>()) != '.';) step(code);
  const PickleHandle root = pop();
  if (!stack_.empty() || !marks_.empty()) corrupt("leaves values behind");
  return {std::move(values_), root};
}

void PickleMachine::step(std::uint8_t code) {
  if (code == 0x80) {  // PROTO
    if (reader_.read<std::uint8_t>() > 5)
      throw Error(Errc::kUnsupported, label_ + " uses a pickle protocol above 5");
  } else if (!number(code) && !text(code) && !container(code) && !memo(code) && !object(code)) {
    throw Error(Errc::kUnsupported,
                label_ + " uses pickle instruction " + std::to_string(code) +
                    ", which a checkpoint does not need; load it in Python and save its tensors as "
                    "safetensors");
  }
}

bool PickleMachine::number(std::uint8_t code) {
  switch (code) {
    case 'N':
      push(kNone);
      return true;
    case 0x88:  // NEWTRUE
      push(kTrue);
      return true;
    case 0x89:  // NEWFALSE
      push(kFalse);
      return true;
    case 'G':
      push_float();
      return true;
    case 'J':
      push_int(reader_.read<std::int32_t>());
      return true;
    case 'K':
      push_int(reader_.read<std::uint8_t>());
      return true;
    case 'M':
      push_int(reader_.read<std::uint16_t>());
      return true;
    case 0x8a:  // LONG1
      push_long(reader_.read<std::uint8_t>());
      return true;
    case 0x8b:  // LONG4
      push_long(reader_.read<std::uint32_t>());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::text(std::uint8_t code) {
  switch (code) {
    case 'U':  // SHORT_BINSTRING, BINSTRING: Python 2's strings
    case 0x8c:
      push_bytes(Kind::kText, reader_.read<std::uint8_t>());
      return true;
    case 'T':
    case 'X':
      push_bytes(Kind::kText, reader_.read<std::uint32_t>());
      return true;
    case 0x8d:  // BINUNICODE8
      push_bytes(Kind::kText, reader_.read<std::uint64_t>());
      return true;
    case 'C':
      push_bytes(Kind::kBytes, reader_.read<std::uint8_t>());
      return true;
    case 'B':
      push_bytes(Kind::kBytes, reader_.read<std::uint32_t>());
      return true;
    case 0x8e:  // BINBYTES8, BYTEARRAY8
    case 0x96:
      push_bytes(Kind::kBytes, reader_.read<std::uint64_t>());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::container(std::uint8_t code) {
  switch (code) {
    case '(':
      push_mark();
      return true;
    case '}':
      push_new(Kind::kDict);
      return true;
    case ']':
      push_new(Kind::kList);
      return true;
    case ')':
      push(kEmptyTuple);
      return true;
    case 0x8f:  // EMPTY_SET
      push_new(Kind::kSet);
      return true;
    case 't':
      push_items(Kind::kTuple, pop_to_mark());
      return true;
    case 0x85:  // TUPLE1, TUPLE2, TUPLE3
    case 0x86:
    case 0x87:
      push_items(Kind::kTuple, pop_many(code - 0x84));
      return true;
    case 0x91:  // FROZENSET
      push_items(Kind::kSet, pop_to_mark());
      return true;
    case 'a':
      extend(Kind::kList, pop_many(1));
      return true;
    case 'e':
      extend(Kind::kList, pop_to_mark());
      return true;
    case 0x90:  // ADDITEMS
      extend(Kind::kSet, pop_to_mark());
      return true;
    case 's':
      extend(Kind::kDict, pop_many(2));
      return true;
    case 'u':
      extend(Kind::kDict, pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::memo(std::uint8_t code) {
  switch (code) {
    case 'q':
      remember(reader_.read<std::uint8_t>());
      return true;
    case 'r':
      remember(reader_.read<std::uint32_t>());
      return true;
    case 0x94:  // MEMOIZE
      remember(static_cast<std::uint32_t>(memo_.size()));
      return true;
    case 'h':
      recall(reader_.read<std::uint8_t>());
      return true;
    case 'j':
      recall(reader_.read<std::uint32_t>());
      return true;
    case '0':
      pop();
      return true;
    case '1':
      pop_to_mark();
      return true;
    case '2': {
      const PickleHandle top = pop();
      push(top);
      push(top);
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::object(std::uint8_t code) {
  switch (code) {
    case 0x95:
      frame();
      return true;
    case 'c':
      global();
      return true;
    case 0x93:  // STACK_GLOBAL
      stack_global();
      return true;
    case 'Q':
      persistent();
      return true;
    case 'R':
      reduce();
      return true;
    case 0x81:  // NEWOBJ: class, arguments
      new_object(1);
      return true;
    case 0x92:  // NEWOBJ_EX: class, arguments, named arguments
      new_object(2);
      return true;
    case 'b':
      build();
      return true;
    default:
      return false;
  }
}

PickleTree read_pickle(std::span<const std::byte> bytes, const std::string& label,
                       std::size_t* used) {
  const bool cut = bytes.size() > kMaxPickleBytes;
  PickleMachine machine(bytes.first(std::min(bytes.size(), kMaxPickleBytes)), label);
  try {
    PickleTree tree = machine.run();
    if (used) *used = machine.position();
    return tree;
  } catch (const Error& error) {
    if (!cut || error.code() != Errc::kTruncated) throw;
    throw Error(Errc::kLimit, label + " has more than 64 MiB of pickle");
  }
}

}  // namespace gbcompress
