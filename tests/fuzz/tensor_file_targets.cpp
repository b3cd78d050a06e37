// Files of tensors that other programs write.
#include "format/exported_program.h"
#include "format/file_kind.h"
#include "format/safetensors.h"
#include "format/state_dict.h"
#include "fuzz/mutators.h"
#include "fuzz/target.h"
#include "unit/format/pickle_builder.h"

namespace gbcompress::fuzz {
namespace {

namespace p = testing::pickle;

/// Reads every byte, so that the sanitizers see a span that reaches beyond its owner.
void touch(const TensorBundle& bundle) {
  volatile unsigned sum = 0;
  for (const TensorEntry& tensor : bundle.tensors)
    for (const std::byte byte : tensor.bytes) sum = sum + std::to_integer<unsigned>(byte);
}

void run_safetensors(Input input) {
  const auto file = SafetensorsFile::from_bytes(input, "x.safetensors");
  touch({.tensors = file.tensors()});
}

std::vector<Bytes> safetensors_seeds() {
  const auto file = [](const std::string& header, std::size_t data) {
    return to_bytes(testing::le(std::uint64_t{header.size()}) + header + std::string(data, 'x'));
  };
  return {
      file("{}", 0),
      file(R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 16),
      file(R"({"__metadata__":{"format":"pt","a":"\u00e9\n"},"a":{"dtype":"BF16","shape":[3],)"
           R"("data_offsets":[0,6]},"b":{"dtype":"I64","shape":[],"data_offsets":[6,14]}}   )",
           14),
      file(R"({"e":{"dtype":"U8","shape":[0,9],"data_offsets":[0,0]},)"
           R"("f":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})",
           2),
      file(R"({"w":{"dtype":"F32","shape":[4611686018427387904,8],"data_offsets":[0,16]}})", 16),
  };
}

void run_state_dict(Input input) {
  touch(read_state_dict(input, "x.pt"));
  touch(read_state_dict(input, "x.pt", {.keep_all = true}));
}

std::string tensors() {
  return p::dict({p::text("fc.weight"), p::tensor("Float", "0", 4, 0, {2, 2}, {1, 2}),
                  p::text("fc.bias"), p::tensor("Half", "1", 3, 1, {2}, {1}), p::text("n"),
                  p::number(7)});
}
std::string checkpoint() {
  return p::dict({p::text("epoch"), "K\7", p::text("state_dict"), tensors(), p::text("optimizer"),
                  p::dict({p::text("state"), "}", p::text("lr"), "G" + std::string(8, '\1')}),
                  p::text("list"), "](K\1K\2e", p::text("none"), "N"});
}
const std::vector<std::string> kStorages = {std::string(16, 'a'), "bbcceeff"};

std::vector<Bytes> state_dict_seeds() {
  return {to_bytes(p::saved(tensors(), kStorages)), to_bytes(p::saved(checkpoint(), kStorages)),
          to_bytes(p::saved(p::ordered_dict() + "(" + p::text("w") +
                                p::tensor("Byte", "0", 16, 0, {4, 4}, {4, 1}) + "u",
                            kStorages)),
          to_bytes(testing::zip({{"archive/data.pkl", p::program(tensors())},
                                 {"archive/data/0", kStorages[0]},
                                 {"archive/data/1", kStorages[1]}},
                                true, "a comment"))};
}

std::vector<Bytes> legacy_seeds() {
  const std::string one = p::dict({p::text("w"), p::tensor("Short", "0", 8, 0, {2, 4}, {4, 1})});
  return {to_bytes(p::old_saved(one, {std::string(16, 'q')}, 2)),
          to_bytes(p::old_saved(p::dict({p::text("state_dict"), one, p::text("epoch"), "K\3"}),
                                {std::string(16, 'q')}, 2))};
}

void run_exported(Input input) { touch(read_exported_program(input, "x.pt2")); }

std::vector<Bytes> exported_seeds() {
  const std::string config =
      R"({"config":{"fc.weight":{"path_name":"weight_0","is_param":true,"use_pickle":false,)"
      R"("tensor_meta":{"dtype":1,"layout":7,"sizes":[{"as_int":2},{"as_int":3}],)"
      R"("requires_grad":false,"device":{"type":"cpu","index":null},)"
      R"("strides":[{"as_int":3},{"as_int":1}],"storage_offset":{"as_int":0}}}}})";
  return {to_bytes(testing::zip({{"m/archive_format", "pt2"},
                                 {"m/models/model.json", "{}"},
                                 {"m/data/weights/weight_0", "abcdef"},
                                 {"m/data/weights/model_weights_config.json", config}})),
          to_bytes(testing::zip({{"m/archive_format", "pt2"},
                                 {"m/data/weights/model.pt", p::saved(tensors(), kStorages)}}))};
}

}  // namespace

const std::vector<Target> tensor_file_targets = {
    {"safetensors", run_safetensors, safetensors_seeds},
    {"state_dict", run_state_dict, state_dict_seeds, mutate_zip},
    {"legacy_state_dict", run_state_dict, legacy_seeds},
    {"exported_program", run_exported, exported_seeds, mutate_zip},
};

}  // namespace gbcompress::fuzz
