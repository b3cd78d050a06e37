#include "ranks/backends/nccl_place.h"

namespace gbcompress {
namespace {

struct Version {
  int major, minor, patch;
};

Version version_of(int code) {
  // Up to 2.8 one digit fewer for each.
  if (code < 10'000) return {code / 1000, code / 100 % 10, code % 100};
  return {code / 10'000, code / 100 % 100, code % 100};
}

}  // namespace

std::string nccl_version_text(int code) {
  const Version v = version_of(code);
  return std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

std::string nccl_mismatch(int header, int library) {
  const Version built = version_of(header), found = version_of(library);
  if (built.major == found.major && found.minor >= built.minor) return "";
  return "libnccl.so.2 is of version " + nccl_version_text(library) +
         " and its module was built for " + nccl_version_text(header) + ": install a library of " +
         std::to_string(built.major) + "." + std::to_string(built.minor) +
         " or later of the same major version, or build the module "
         "with the header of the one that is there";
}

}  // namespace gbcompress
