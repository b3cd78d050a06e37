#include "flag_words.h"

#include <string_view>

#include "standard_streams.h"

namespace gbcompress::cli {
namespace {

struct Word {
  std::string_view library, flag;
};

/// What the library calls an option, in backticks, and what sets it here; of a setting the value
/// follows without a blank.
constexpr Word kWords[] = {
    {"to `PluginHost::load()`", "with --plugin"},
    {"`arch`", "--arch"},
    {"`backend`", "--set ranks.backend="},
    {"`bits`", "--bits"},
    {"`data`", "--data"},
    {"`deterministic`", "--deterministic"},
    {"`device`", "--device"},
    {"with `draft`", "with --draft"},
    {"`effort`", "--effort"},
    {"`errors`", "--errors"},
    {"`keep_all`", "--keep all"},
    {"`lambdas`", "--lambdas"},
    {"`layers`", "--layers"},
    {"`listen`", "--set ranks.listen="},
    {"`local_rank`", "LOCAL_RANK"},
    {"`loss`", "--set train.loss="},
    {"`master`", "MASTER_ADDR and MASTER_PORT"},
    {"`max_bytes`", "--max-bytes"},
    {"`max_drop`", "--max-drop"},
    {"`max_error`", "--max-error"},
    {"`mode`", "--mode"},
    {"`overwrite`", "--force"},
    {"`part`", "--part"},
    {"`rank`", "RANK"},
    {"`ratio`", "--ratio"},
    {"`ratios`", "--ratios"},
    {"`requantize`", "--requantize"},
    {"`resume`", "--resume"},
    {"`set`", "--set"},
    {"`strategy`", "--strategy"},
    {"`world`", "WORLD_SIZE"},
    {kStandardInput, "standard input"},
};

}  // namespace

std::string with_flags(std::string message) {
  for (const auto& [library, flag] : kWords)
    for (std::size_t at = message.find(library); at != std::string::npos;
         at = message.find(library, at + flag.size()))
      message.replace(at, library.size() + flag.ends_with('='), flag);
  return message;
}

}  // namespace gbcompress::cli
