#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>

#include "gbcompress/error.h"
#include "gbcompress/registry.h"
#include "support/files.h"

namespace gbcompress {
namespace {

const std::string kPrefix = std::string("@(#)gbcompress-") + "plugin ";

std::string good_file() { return testing::get_file(std::string(GBC_PLUGIN_FOLDER) + "/linear.so"); }

PluginFingerprint scan(const std::string& bytes) {
  return scan_plugin(std::as_bytes(std::span(bytes)), "x.so");
}

std::string refusal(const std::string& bytes) {
  try {
    scan(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kPluginRefused) << error.what();
    return error.what();
  }
  return "";
}

template <typename T>
std::string with(std::string bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

Elf64_Ehdr header_of(const std::string& bytes) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

TEST(Scan, ReadsTheMarker) {
  const PluginFingerprint marker = scan(good_file());
  EXPECT_EQ(marker.name, "linear");
  EXPECT_FALSE(marker.version.empty());
  EXPECT_EQ(marker.text(), host_fingerprint().text());
}

TEST(Scan, RefusesFilesOfOtherKinds) {
  const std::string file = good_file();
  EXPECT_NE(refusal("").find("not a library"), std::string::npos);
  EXPECT_NE(refusal("#!/bin/sh\n").find("not a library"), std::string::npos);
  EXPECT_NE(refusal(with<unsigned char>(file, EI_CLASS, ELFCLASS32)).find("processor"),
            std::string::npos);
  EXPECT_NE(refusal(with<unsigned char>(file, EI_DATA, ELFDATA2MSB)).find("processor"),
            std::string::npos);
  EXPECT_NE(refusal(with<std::uint16_t>(file, offsetof(Elf64_Ehdr, e_machine), EM_RISCV))
                .find("processor"),
            std::string::npos);
  EXPECT_NE(refusal(with<std::uint16_t>(file, offsetof(Elf64_Ehdr, e_type), ET_EXEC))
                .find("not a shared library"),
            std::string::npos);
}

TEST(Scan, RefusesEveryTruncation) {
  const std::string file = good_file();
  std::mt19937 random(3);
  for (std::size_t size = 0; size < 4096; size += 7)
    EXPECT_NE(refusal(file.substr(0, size)), "") << size;
  for (std::size_t cut = 1; cut < 4096; cut += 11)
    EXPECT_NE(refusal(file.substr(0, file.size() - cut)).find("truncated"), std::string::npos)
        << cut;
  for (int i = 0; i < 300; ++i) {
    const std::size_t size = 64 + random() % (file.size() - 64);
    EXPECT_NE(refusal(file.substr(0, size)).find("truncated"), std::string::npos) << size;
  }
}

TEST(Scan, RefusesHeadersThatReachTooFar) {
  const std::string file = good_file();
  const Elf64_Ehdr header = header_of(file);
  constexpr std::uint64_t kFar = ~std::uint64_t{0} - 100;
  EXPECT_NE(refusal(with(file, offsetof(Elf64_Ehdr, e_phoff), kFar)), "");
  EXPECT_NE(refusal(with(file, offsetof(Elf64_Ehdr, e_shoff), kFar)), "");
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    std::memcpy(&segment, file.data() + at, sizeof segment);
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
    for (std::size_t field : {offsetof(Elf64_Phdr, p_offset), offsetof(Elf64_Phdr, p_filesz),
                              offsetof(Elf64_Phdr, p_vaddr)})
      EXPECT_NE(refusal(with(file, at + field, kFar)), "") << "segment " << i;
  }
}

TEST(Scan, TheMarkerMustBeTheOnlyOneAndWellFormed) {
  const std::string file = good_file();
  const std::size_t at = file.find(kPrefix);
  ASSERT_NE(at, std::string::npos);
  // What is behind the last header is not looked at by the loader, but the scan sees it.
  EXPECT_NE(refusal(file + kPrefix + "second 1 abi=1" + '\0').find("two"), std::string::npos);
  std::string none = file;
  none[at + 5] = '-';
  EXPECT_NE(refusal(none).find("no gbcompress plugin marker"), std::string::npos);
  const auto marked = [&](const std::string& text) {
    return refusal(none + kPrefix + text + std::string(1, '\0'));
  };
  EXPECT_EQ(marked("row 1 abi=1"), "");
  for (const std::string text : {"", "row", "row 1", "Row 1 abi=1", "row  abi=1", "row 1 abi",
                                 "row 1 =1", "row 1 abi=1 ", "row\t1 abi=1", "row 1 abi=\x1b[2J"})
    EXPECT_NE(marked(text).find("damaged"), std::string::npos) << text;
  EXPECT_EQ(marked("row 1 abi=\x1b[2J").find('\x1b'), std::string::npos);
  EXPECT_NE(marked("row 1 abi=" + std::string(600, '1')).find("does not end"), std::string::npos);
  EXPECT_NE(refusal(none + kPrefix + "row 1 abi=1").find("does not end"), std::string::npos);
}

TEST(Scan, FilesThatAreNotThereOrNotFiles) {
  const testing::TempDir folder;
  const auto code = [](const std::filesystem::path& file) {
    try {
      scan_plugin(file);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::kFailure;
  };
  EXPECT_EQ(code(folder / "none.so"), Errc::kNotFound);
  EXPECT_EQ(code(folder.path()), Errc::kIo);
  EXPECT_EQ(code("/dev/zero"), Errc::kIo);
  // A sparse file of 300 MB costs nothing to make and must cost nothing to refuse.
  testing::put_file(folder / "large.so", "x");
  std::filesystem::resize_file(folder / "large.so", 300'000'000);
  EXPECT_EQ(code(folder / "large.so"), Errc::kPluginRefused);
}

}  // namespace
}  // namespace gbcompress
