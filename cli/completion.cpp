// `completion` and `man`: the table of verbs and options as shells and as readers of manuals take
// it.
#include "completion.h"

#include <iostream>
#include <map>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/error.h"
#include "idle_options.h"
#include "manual.h"
#include "model_options.h"

namespace gbcompress::cli {
namespace {

void say_idle(const Arguments& arguments) {
  std::vector<std::string> idle;
  note_idle(arguments, {"json", "plugin"}, "this verb prints one text, which plugins do not change",
            idle);
  say_notes(arguments, idle);
}

int complete(const Arguments& arguments) {
  say_idle(arguments);
  const std::map<std::string, std::string (*)()> shells = {
      {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
  const std::string& shell = arguments.words()[0];
  const auto found = shells.find(shell);
  if (found == shells.end())
    throw Error(Errc::kUsage, "there is no completion for the shell " + printable(shell) +
                                  ", but for bash, zsh and fish" +
                                  did_you_mean(shell, {"bash", "zsh", "fish"}));
  std::cout << found->second();
  return kDone;
}

int show_manual(const Arguments& arguments) {
  say_idle(arguments);
  std::cout << (arguments.words().empty() ? manual() : manual(find_verb(arguments.words()[0])));
  return kDone;
}

}  // namespace

const Verb& completion_verb() {
  static const Verb verb = {
      "completion",
      "Print a script that completes this command line in a shell.",
      "bash|zsh|fish",
      "  source <(gbcompress completion bash)\n"
      "  gbcompress completion zsh > ~/.zfunc/_gbcompress\n"
      "  gbcompress completion fish > ~/.config/fish/completions/gbcompress.fish\n",
      1,
      1,
      nullptr,
      complete,
      false,
      {"bash", "zsh", "fish"}};
  return verb;
}

const Verb& man_verb() {
  static const Verb verb = {"man",
                            "Print a page of the manual, for man -l.",
                            "[VERB]",
                            "  gbcompress man | man -l -\n"
                            "  gbcompress man compress | man -l -\n",
                            0,
                            1,
                            nullptr,
                            show_manual};
  return verb;
}

}  // namespace gbcompress::cli
