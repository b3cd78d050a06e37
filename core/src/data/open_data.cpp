#include "data/sources.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

struct Kind {
  const char* name;
  const char* example;  // "" where nothing stands behind the name
  Data (*open)(const std::string& where, const DataOptions& options);
};
constexpr Kind kKinds[] = {
    {"mnist", "mnist:DIR", open_mnist},
    {"cifar10", "cifar10:FILE[,FILE]", open_cifar10},
    {"text", "text:FILE", open_text},
    {"digits", "", open_digits},
    {"tensors", "tensors:FILE.safetensors", open_tensor_data},
    {"features", "features:FILE.safetensors", open_features},
};

}  // namespace

std::int64_t held_out_tenth(std::int64_t rows, const std::string& what) {
  if (rows < 2)
    throw Error(Errc::kUsage, printable(what) + " has " + std::to_string(rows) +
                                  " rows; at least 2 are needed, one to learn and one to test");
  return std::max<std::int64_t>(1, rows / 10);
}

Data open_data(const std::string& spec, const DataOptions& options) {
  const auto colon = spec.find(':');
  const std::string name = spec.substr(0, colon);
  const std::string where = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (name == "synthetic")
    throw Error(
        Errc::kUsage,
        "`data` synthetic calibrates a model by inputs made from its batch norms, and is of "
        "compress alone; name data to evaluate on");
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    names.push_back(kind.name);
    if (name != kind.name) continue;
    if (where.empty() != (*kind.example == '\0'))
      throw Error(Errc::kUsage, where.empty()
                                    ? "`data` " + name + " needs a place: write " + kind.example
                                    : "`data` " + name + " is built in and takes no path");
    Data data = kind.open(where, options);
    data.spec = spec;
    return data;
  }
  throw Error(Errc::kUsage, "there is no kind of data named \"" + printable(name) + "\"" +
                                did_you_mean(name, names) +
                                " (known: mnist:DIR, cifar10:FILE[,FILE], text:FILE, digits, "
                                "tensors:FILE.safetensors, features:FILE.safetensors)");
}

}  // namespace gbcompress
