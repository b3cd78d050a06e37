#include "format/torch/training_state.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace gbcompress {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Whether the text has a word, also in the plural: "opt" of "opt_state", not of "option".
bool has_word(const std::string& text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || text[at - 1] == '_' || text[at - 1] == '-';
    const std::size_t end = at + word.size();
    if (begins && (end == text.size() || text[end] == '_' || text[end] == '-' ||
                   (end + 1 == text.size() && text[end] == 's')))
      return true;
  }
  return false;
}

/// "optim", "optimizer", "optimizers", "optim_state", "optimiser_1"; not "optimal".
bool is_optimizer(std::string_view atom) {
  return atom == "optim" || atom.starts_with("optim_") || atom.starts_with("optimizer") ||
         atom.starts_with("optimiser");
}

}  // namespace

bool is_training_key(std::string_view key) {
  if (key.find('.') != std::string_view::npos) return false;  // a tensor's name
  const std::string text = lower(key);
  for (const std::string_view part : {"optim", "scheduler", "rng_state", "random_state",
                                      "hyper_param", "hparam", "dataloader", "datamodule"})
    if (text.find(part) != std::string::npos) return true;
  for (const std::string_view word :
       {"opt",       "sched", "scaler",  "amp",     "loop",     "rng",    "loss",   "losses",
        "criterion", "epoch", "step",    "config",  "cfg",      "arg",    "meta",   "metadata",
        "info",      "log",   "history", "trainer", "callback", "metric", "sampler"})
    if (has_word(text, word)) return true;
  return false;
}

bool is_training_tensor(std::string_view name) {
  const std::string text = lower(name);
  std::array<std::string_view, 2> before = {};  // the two atoms before this one
  for (std::string_view left = text;;) {
    const std::size_t dot = left.find('.');
    if (dot == std::string_view::npos) return false;  // the tensor's own name
    const std::string_view atom = left.substr(0, dot);
    const bool index =
        std::all_of(atom.begin(), atom.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (index && !atom.empty() && before[1] == "state" && is_optimizer(before[0])) return true;
    // One of several optimizers has a number of its own.
    if (!(index && is_optimizer(before[1]))) before = {before[1], atom};
    left.remove_prefix(dot + 1);
  }
}

bool is_average_key(std::string_view key) { return has_word(lower(key), "ema"); }

bool is_model_key(std::string_view key) {
  const std::string text = lower(key);
  constexpr std::array kKeys = {
      "state_dict",     "model_state_dict", "model_state", "model",   "net",
      "net_state_dict", "network",          "module",      "weights", "params"};
  return std::find(kKeys.begin(), kKeys.end(), text) != kKeys.end();
}

}  // namespace gbcompress
