#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_machine.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Makers of tensors that are no plain ones: quantized, sparse, nested, of NumPy.
bool makes_tensors(std::string_view name) {
  for (const std::string_view start :
       {"torch._utils._rebuild", "torch._tensor.", "torch.storage.",
        "numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"})
    if (name.starts_with(start)) return true;
  return false;
}

}  // namespace

void PickleMachine::frame() {
  if (reader_.read<std::uint64_t>() > reader_.remaining())
    throw Error(Errc::kTruncated, label_ + " ends inside a pickle frame");
}

std::string PickleMachine::line() {
  std::string text;
  for (;;) {
    const char c = static_cast<char>(reader_.read<std::uint8_t>());
    if (c == '\n') return text;
    if (text.size() == 256) corrupt("holds a global name above 256 bytes");
    text += c;
  }
}

void PickleMachine::global() {
  const std::string module = line();
  push_global(module + "." + line());
}

void PickleMachine::stack_global() {
  const std::string name = pop_of(Kind::kText, "the name of a global").text;
  push_global(pop_of(Kind::kText, "the module of a global").text + "." + name);
}

void PickleMachine::push_global(const std::string& name) {
  if (name.size() > 513) corrupt("holds a global name above 256 bytes");
  const auto [at, added] = globals_.try_emplace(name, 0);
  if (added) {
    const PickleGlobal* known = find_pickle_global(name);
    at->second = make({Kind::kGlobal, known ? known->dtype : std::nullopt, 0, name});
  }
  push(at->second);
}

/// A storage, or in the oldest files ("module", class, source file, source).
void PickleMachine::persistent() {
  const PickleHandle at = pop();
  const PickleValue& id = values_[at];
  if (id.kind != Kind::kTuple) corrupt("needs a storage");
  const std::string& what = item(id, 0, Kind::kText).text;
  if (what == "module") return push(make(item(id, 1, Kind::kGlobal)));
  if (what != "storage") corrupt("refers to something that is not a storage");
  persistent_storage(id);
}

/// ("storage", class, key, device, elements), in the old format also None or (key, first element,
/// elements) of a view into it.
void PickleMachine::persistent_storage(const PickleValue& id) {
  const PickleValue& type = item(id, 1, Kind::kGlobal);
  const PickleGlobal* known = find_pickle_global(type.text);
  if (!known || known->callable != PickleCallable::kStorageClass)
    corrupt("has a storage of the unknown class " + printable(type.text));
  const std::string& key = item(id, 2, Kind::kText).text;
  if (key.empty() || key.size() > 64) corrupt("has a storage without a proper key");
  Handles items = {id.items[1]};
  if (id.items.size() > 5 && values_[id.items[5]].kind != Kind::kNone) {
    const PickleValue& view = item(id, 5, Kind::kTuple);
    item(view, 1, Kind::kInt);
    item(view, 2, Kind::kInt);
    items.insert(items.end(), {view.items[1], view.items[2]});
  }
  push_new({Kind::kStorage, type.dtype, item(id, 4, Kind::kInt).number, key, std::move(items)});
}

void PickleMachine::reduce() {
  const PickleHandle arguments = pop();
  const PickleHandle callable = pop();
  call(callable, arguments);
}

/// An object whose class is known by name only.
void PickleMachine::new_object(std::size_t arguments) {
  Handles items = pop_many(arguments);
  const PickleHandle type = pop();
  const Kind kind = values_[type].kind;
  // A class may itself have been made by a call.
  if (kind != Kind::kGlobal && kind != Kind::kObject)
    corrupt("makes an object of something that is no class");
  push_object(values_[type].text, std::move(items));
}

void PickleMachine::push_object(std::string name, Handles items, bool tensor) {
  push_new({Kind::kObject, {}, tensor ? 1 : 0, std::move(name), std::move(items)});
}

void PickleMachine::call(PickleHandle callable_at, PickleHandle arguments_at) {
  const PickleValue& arguments = values_[arguments_at];
  const PickleValue& callable = values_[callable_at];
  const bool made = callable.kind == Kind::kObject;
  if (arguments.kind != Kind::kTuple || (callable.kind != Kind::kGlobal && !made))
    corrupt("calls something that is not a name");
  const PickleGlobal* known = made ? nullptr : find_pickle_global(callable.text);
  if (!known) return push_object(callable.text, {arguments_at}, makes_tensors(callable.text));
  switch (known->callable) {
    case PickleCallable::kDict:
      return push_dict(arguments, callable.text);
    case PickleCallable::kSet:
      return push_set(arguments);
    case PickleCallable::kTuple:
      item(arguments, 0, Kind::kTuple);
      return push(arguments.items[0]);
    case PickleCallable::kParameter:
      // Of a tensor without a storage the inner call has become an object.
      if (arguments.items.empty() || (values_[arguments.items[0]].kind != Kind::kTensor &&
                                      values_[arguments.items[0]].kind != Kind::kObject))
        corrupt("describes a tensor or storage in an unknown way");
      return push(arguments.items[0]);
    case PickleCallable::kTensorV1:
    case PickleCallable::kTensorV2:
      return push_tensor(arguments, 0);
    case PickleCallable::kTensorV3:
      return push_tensor(arguments, 6);
    case PickleCallable::kTensorFromType:
      return call_tensor(arguments);
    case PickleCallable::kStorageClass:
    case PickleCallable::kDtype:
      break;
  }
  corrupt("calls " + callable.text);
}

/// OrderedDict() and defaultdict(class), or Python 2's OrderedDict([[key, value], ...]).
void PickleMachine::push_dict(const PickleValue& arguments, const std::string& name) {
  Handles items;
  if (!arguments.items.empty() && name == "collections.OrderedDict") {
    for (const PickleHandle pair : item(arguments, 0, Kind::kList).items) {
      const PickleValue& entry = values_[pair];
      if ((entry.kind != Kind::kList && entry.kind != Kind::kTuple) || entry.items.size() != 2)
        corrupt("makes a dictionary in an unknown way");
      items.insert(items.end(), entry.items.begin(), entry.items.end());
    }
  }
  push_items(Kind::kDict, std::move(items));
}

/// set([item, ...]) and set().
void PickleMachine::push_set(const PickleValue& arguments) {
  Handles items;
  if (!arguments.items.empty()) {
    const PickleValue& from = values_[arguments.items[0]];
    if (from.kind == Kind::kDict) corrupt("makes a set in an unknown way");
    items = from.items;
  }
  push_items(Kind::kSet, std::move(items));
}

/// (maker, class, arguments, state): a tensor of a class of its own, which is a plain one inside if
/// its maker is one of plain tensors.
void PickleMachine::call_tensor(const PickleValue& arguments) {
  // One level: arguments that hold themselves would go on for ever.
  const std::string maker = item(arguments, 0, Kind::kGlobal).text;
  const std::string type = item(arguments, 1, Kind::kGlobal).text;
  item(arguments, 2, Kind::kTuple);
  const Handles items = arguments.items;  // what is pushed may move the values
  const PickleGlobal* known = find_pickle_global(maker);
  if (known && known->callable == PickleCallable::kTensorFromType) corrupt("calls " + maker);
  if (type.ends_with(".DTensor") && items.size() > 3) return push_distributed(items[3]);
  if (known) return call(items[0], items[2]);
  push_object(makes_tensors(maker) && !maker.ends_with("_wrapper_subclass") ? maker : type,
              {items[2]}, true);
}

/// The value of an attribute in the state of an object: a dictionary, or a pair of those.
const PickleValue* PickleMachine::attribute(PickleHandle state, std::string_view key) const {
  const PickleValue& value = values_[state];
  const Handles one = {state};
  for (const PickleHandle at : value.kind == Kind::kTuple ? value.items : one) {
    if (values_[at].kind != Kind::kDict) continue;
    const Handles& items = values_[at].items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (values_[items[i]].kind == Kind::kText && values_[items[i]].text == key)
        return &values_[items[i + 1]];
  }
  return nullptr;
}

/// A DTensor: the tensor itself where every rank holds all of it.
void PickleMachine::push_distributed(PickleHandle state) {
  const PickleValue* local = attribute(state, "_local_tensor");
  const PickleValue* spec = attribute(state, "_spec");
  const PickleValue* placements = nullptr;
  if (spec && spec->kind == Kind::kObject && !spec->items.empty())
    placements = attribute(spec->items.back(), "placements");
  if (!local || !placements || local->kind != Kind::kTensor)
    return push_object("a distributed tensor", {}, true);
  for (const PickleHandle placement : placements->items)
    if (!values_[placement].text.ends_with(".Replicate"))
      return push_object(
          values_[placement].text.ends_with("Shard") ? "a shard of a tensor" : "a part of a sum",
          {}, true);
  push_new(PickleValue(*local));
}

/// Whether a tensor's metadata say that its numbers are not those of the storage, but conjugates or
/// negatives of them. @param at  where the arguments hold metadata, if they have any
bool PickleMachine::is_lazy(const PickleValue& arguments, std::size_t at) const {
  if (arguments.items.size() <= at) return false;
  const PickleValue& metadata = values_[arguments.items[at]];
  if (metadata.kind != Kind::kDict) return false;
  for (std::size_t i = 0; i + 1 < metadata.items.size(); i += 2) {
    const std::string& key = values_[metadata.items[i]].text;
    if ((key == "conj" || key == "neg") && metadata.items[i + 1] != kFalse) return true;
  }
  return false;
}

/// (storage, offset, sizes, strides, ...)
/// @param dtype_at  where the arguments hold it; 0: the storage has it
void PickleMachine::push_tensor(const PickleValue& arguments, std::size_t dtype_at) {
  const PickleValue& storage = item(arguments, 0, Kind::kStorage);
  item(arguments, 2, Kind::kTuple);
  item(arguments, 3, Kind::kTuple);
  const PickleValue& type =
      dtype_at > 0 ? item(arguments, dtype_at, Kind::kGlobal) : values_[storage.items[0]];
  const std::string name = type.text;
  const auto dtype = dtype_at > 0 ? type.dtype : storage.dtype;
  if (is_lazy(arguments, dtype_at > 0 ? 7 : 6))
    return push_object("a tensor of numbers to be conjugated or negated", {}, true);
  // What has no dtype here can stand where it is left out; the name is refused where it is needed.
  if (!dtype) return push_object("a tensor of " + name, {}, true);
  push_new({Kind::kTensor,
            dtype,
            item(arguments, 1, Kind::kInt).number,
            {},
            {arguments.items[0], arguments.items[2], arguments.items[3]}});
}

/// Attributes of dictionaries (`_metadata`) and tensors are not read.
void PickleMachine::build() {
  const PickleHandle state = pop();
  const PickleHandle object = pop();
  switch (values_[object].kind) {
    case Kind::kObject:
      values_[object].items.push_back(state);
      break;
    case Kind::kDict:
    case Kind::kTensor:
    case Kind::kList:
    case Kind::kSet:
    case Kind::kTuple:
      break;
    default:
      corrupt("gives attributes to something that has none");
  }
  push(object);
}

}  // namespace gbcompress
