#pragma once
/// `compress` and `expand` of one input or of several.

#include <string>

#include "command.h"

namespace gbcompress::cli {

class Family;

/// How a verb makes one file of each of its words.
struct Maker {
  std::string suffix;                      ///< of what it makes: ".gbz"
  std::string folder_suffix;               ///< of the folder that is proposed for one: "-gbz"
  std::string example;                     ///< of -o: "OUT.gbz"
  /// For one input, with -o. @param family  that it belongs to, or null. @return the exit status
  int (*run)(const Arguments& arguments, Family* family);
  /// The suffix of what is made of that input, where it is not always the same.
  std::string (*suffix_for)(const Arguments& arguments, const std::string& input) = nullptr;
  /// Whether several files in one folder may be changes since each other.
  bool (*makes_family)(const Arguments& arguments) = nullptr;
};

/// Runs the maker for the one input, or for one after another. Where -o is missing, a file is named
/// after its input and lies beside it, and standard input becomes standard output.
/// An input that fails does not keep the others from being done; a signal does.
/// Of a folder whose subfolders hold the models (component_folders()), each of these becomes a
/// folder of the same name, and the files of configuration beside them are copied.
/// @return the exit status; of several inputs the first that is neither kDone nor kTargetMissed,
///         else the worse of these two
/// @throws Error(kUsage) for several inputs with a -o that is no folder, or with options that name
///         one file or folder
int run_each(const Arguments& arguments, const Maker& maker);

/// Runs a verb that only reads, of folders with component_folders() once for each of these.
/// @return the exit status: the first that is not kDone
/// @throws Error(kUsage) where the words have other ones
int run_parts(const Arguments& arguments, int (*run)(const Arguments& arguments));

}  // namespace gbcompress::cli
