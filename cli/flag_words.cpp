#include "flag_words.h"

#include <string_view>

#include "standard_streams.h"

namespace gbcompress::cli {
namespace {

struct Word {
  std::string_view library, flag;
};

/// What the library calls an option, in backticks, and what sets it here.
constexpr Word kWords[] = {
    {"to `PluginHost::load()`", "with --plugin"},
    {"`arch`", "--arch"},
    {"`backend`", "--backend"},
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
    {"`listen`", "--listen"},
    {"`local_rank`", "--local-rank"},
    {"`loss`", "--loss"},
    {"`master`", "--master"},
    {"`max_bytes`", "--max-bytes"},
    {"`max_drop`", "--max-drop"},
    {"`max_error`", "--max-error"},
    {"`mode`", "--mode"},
    {"`overwrite`", "--force"},
    {"`part`", "--part"},
    {"`rank`", "--rank"},
    {"`ratio`", "--ratio"},
    {"`ratios`", "--ratios"},
    {"`requantize`", "--requantize"},
    {"`resume`", "--resume"},
    {"`set`", "--set"},
    {"`strategy`", "--strategy"},
    {"`world`", "--world"},
    {kStandardInput, "standard input"},
};

}  // namespace

std::string with_flags(std::string message) {
  for (const auto& [library, flag] : kWords)
    for (std::size_t at = message.find(library); at != std::string::npos;
         at = message.find(library, at + flag.size()))
      message.replace(at, library.size(), flag);
  return message;
}

}  // namespace gbcompress::cli
