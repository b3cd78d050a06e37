#include "plugin/elf_check.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace gbcompress {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#else
#error "name this processor's ELF machine number here"
#endif

using Bytes = std::span<const std::byte>;

bool inside(std::uint64_t offset, std::uint64_t size, std::uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

std::string truncated(const char* what, std::size_t size) {
  return std::string("is truncated: its ") + what + " reach beyond its " + std::to_string(size) +
         " bytes; copy or build it again";
}

/// One PT_LOAD after another. `end` is where the one before ended in memory.
bool good_load(const Elf64_Phdr& load, std::uint64_t& end) {
  constexpr std::uint64_t kMaxAddress = std::uint64_t{1} << 40;
  const bool good =
      load.p_filesz <= load.p_memsz && inside(load.p_vaddr, load.p_memsz, kMaxAddress) &&
      std::has_single_bit(load.p_align) && load.p_align >= 4096 && load.p_align <= (1u << 24) &&
      load.p_vaddr % load.p_align == load.p_offset % load.p_align && load.p_vaddr >= end;
  end = load.p_vaddr + load.p_memsz;
  return good;
}

template <typename Header>
std::vector<Header> table(Bytes bytes, std::uint64_t offset, std::uint64_t count) {
  std::vector<Header> result(count);
  std::memcpy(result.data(), bytes.data() + offset, count * sizeof(Header));
  return result;
}

/// Is this range of memory, and of the file where it is there, part of one mapped segment?
bool mapped(const std::vector<Elf64_Phdr>& segments, std::uint64_t address, std::uint64_t offset,
            std::uint64_t size, bool in_file, std::uint32_t flags) {
  for (const Elf64_Phdr& load : segments)
    if (load.p_type == PT_LOAD && address >= load.p_vaddr && (load.p_flags & flags) == flags &&
        inside(address - load.p_vaddr, size, in_file ? load.p_filesz : load.p_memsz) &&
        (!in_file || address - load.p_vaddr == offset - load.p_offset))
      return true;
  return false;
}

/// Sections say a second time what the segments say: each that is needed in memory must be mapped,
/// with the rights it needs, and the dynamic section must be the dynamic segment.
bool sections_agree(const std::vector<Elf64_Shdr>& sections,
                    const std::vector<Elf64_Phdr>& segments) {
  for (const Elf64_Shdr& section : sections) {
    if (!(section.sh_flags & SHF_ALLOC) || section.sh_size == 0) continue;
    const bool in_file = section.sh_type != SHT_NOBITS;
    if (!in_file && (section.sh_flags & SHF_TLS)) continue;
    const std::uint32_t flags = section.sh_flags & SHF_EXECINSTR ? PF_X
                                : section.sh_flags & SHF_WRITE   ? PF_R | PF_W
                                                                 : PF_R;
    if (!mapped(segments, section.sh_addr, section.sh_offset, section.sh_size, in_file, flags))
      return false;
    if (section.sh_type != SHT_DYNAMIC) continue;
    const bool same = std::any_of(segments.begin(), segments.end(), [&](const Elf64_Phdr& segment) {
      return segment.p_type == PT_DYNAMIC && segment.p_vaddr == section.sh_addr &&
             segment.p_memsz == section.sh_size;
    });
    if (!same) return false;
  }
  return true;
}

/// What is sealed after relocation must be writable before, and may end with the last page, of at
/// most 64 KiB.
bool good_seal(const std::vector<Elf64_Phdr>& segments, const Elf64_Phdr& seal) {
  return mapped(segments, seal.p_vaddr, seal.p_offset, seal.p_filesz, true, PF_R | PF_W) &&
         seal.p_memsz >= seal.p_filesz && seal.p_memsz - seal.p_filesz < 65'536;
}

std::string segment_damage(Bytes bytes, const std::vector<Elf64_Phdr>& segments,
                           const std::vector<Elf64_Shdr>& sections) {
  bool loads = false, dynamic = false, agree = true;
  std::uint64_t end = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_NULL || segment.p_type == PT_GNU_STACK) continue;
    if (!inside(segment.p_offset, segment.p_filesz, bytes.size()))
      return truncated("segments", bytes.size());
    if (segment.p_type == PT_LOAD) {
      agree = agree && good_load(segment, end);
      loads = true;
    } else if (segment.p_type == PT_GNU_RELRO) {
      agree = agree && good_seal(segments, segment);
    } else if (segment.p_type == PT_DYNAMIC) {
      dynamic = true;
    }
  }
  if (!loads || !dynamic) return "is not a shared library: it has nothing to load";
  if (!agree || !sections_agree(sections, segments))
    return "is damaged: its headers contradict each other; copy or build it again";
  return "";
}

}  // namespace

std::string elf_damage(Bytes bytes) {
  if (bytes.size() < SELFMAG || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    return "is not a library (an ELF file begins otherwise); give a plugin's .so file";
  if (bytes.size() < sizeof(Elf64_Ehdr)) return truncated("headers", bytes.size());
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kMachine)
    return "is a library for another kind of processor; build it on this machine";
  if (header.e_ident[EI_VERSION] != EV_CURRENT || header.e_version != EV_CURRENT ||
      header.e_ehsize != sizeof(Elf64_Ehdr))
    return "is damaged: its ELF header is not of version 1";
  if (header.e_type != ET_DYN)
    return "is not a shared library; build it with gbcompress_add_plugin() or -shared";
  if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr) || header.e_shnum == 0 ||
      header.e_shentsize != sizeof(Elf64_Shdr))
    return "is damaged: it lacks program headers or section headers";
  if (!inside(header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr), bytes.size()) ||
      !inside(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr), bytes.size()))
    return truncated("headers", bytes.size());
  const auto sections = table<Elf64_Shdr>(bytes, header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& section : sections)
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
        !inside(section.sh_offset, section.sh_size, bytes.size()))
      return truncated("sections", bytes.size());
  return segment_damage(bytes, table<Elf64_Phdr>(bytes, header.e_phoff, header.e_phnum), sections);
}

}  // namespace gbcompress
