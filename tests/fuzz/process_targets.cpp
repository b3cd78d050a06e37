// What a process meets when it starts: plugin files, its environment, other ranks.
#include <elf.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <map>
#include <stdexcept>

#include "fuzz/target.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "gbcompress/registry.h"
#include "ranks/collectives/gathering.h"
#include "ranks/rendezvous/channel.h"

namespace gbcompress::fuzz {
namespace {

void run_plugin(Input input) { scan_plugin(input, "x.so"); }

/// The least that is a library with a marker: one segment, its dynamic section, one section header.
Bytes tiny_plugin(const std::string& marker) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
#if defined(__x86_64__)
  header.e_machine = EM_X86_64;
#else
  header.e_machine = EM_AARCH64;
#endif
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_phoff = sizeof header;
  header.e_phnum = 2;
  header.e_shnum = 2;
  header.e_shoff = header.e_phoff + 2 * sizeof(Elf64_Phdr);
  const std::uint64_t dynamic_at = header.e_shoff + 2 * sizeof(Elf64_Shdr);
  const std::uint64_t size = dynamic_at + sizeof(Elf64_Dyn) + marker.size() + 1;
  Elf64_Phdr load{PT_LOAD, PF_R | PF_W, 0, 0, 0, size, size, 4096};
  Elf64_Phdr dynamic{PT_DYNAMIC, PF_R | PF_W,       dynamic_at,        dynamic_at,
                     dynamic_at, sizeof(Elf64_Dyn), sizeof(Elf64_Dyn), 8};
  Elf64_Shdr none{}, section{};
  section.sh_type = SHT_DYNAMIC;
  section.sh_flags = SHF_ALLOC | SHF_WRITE;
  section.sh_addr = section.sh_offset = dynamic_at;
  section.sh_size = sizeof(Elf64_Dyn);
  const Elf64_Dyn end{};
  std::string file;
  const auto add = [&](const auto& part) {
    file.append(reinterpret_cast<const char*>(&part), sizeof part);
  };
  add(header);
  add(load);
  add(dynamic);
  add(none);
  add(section);
  add(end);
  return to_bytes(file + marker + '\0');
}

std::vector<Bytes> plugin_seeds() {
  // Put together here: this program must not contain the marker itself.
  const std::string prefix = std::string("@(#)gbcompress-") + "plugin ";
  return {tiny_plugin(prefix + "row 0.1.0 abi=1 torch=2.11.0 gcc=12 std=202002L cxx11abi=1"),
          tiny_plugin(prefix + "row 0.1.0 abi=1"), tiny_plugin("no marker"),
          tiny_plugin(prefix + "row 1 a=b" + '\0' + prefix + "row 1 a=b")};
}

/// Lines NAME=VALUE; names that begin with -- are flags.
void run_launch(Input input) {
  std::map<std::string, std::string> variables;
  std::string_view rest = to_text(input);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      // A variable ends at its first zero.
      variables[std::string(line.substr(0, equals))] = std::string(line.substr(equals + 1)).c_str();
  }
  const auto flag = [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const Launch launch =
      read_launch({flag("--rank"), flag("--world"), flag("--local-rank"), flag("--master")},
                  [&](const char* name) -> const char* {
                    const auto found = variables.find(name);
                    return found == variables.end() ? nullptr : found->second.c_str();
                  });
  if (launch.rank < 0 || launch.rank >= launch.world || launch.world > kMaxWorld ||
      (launch.world > 1 && (launch.master_port < 1 || launch.master_port > 65'535)))
    throw std::logic_error("a launch that cannot be was accepted");
  pick_gpu(launch, 4);
}

std::vector<Bytes> launch_seeds() {
  std::vector<Bytes> seeds;
  for (const char* text : {
           "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=h\nMASTER_PORT=5\n"
           "TORCHELASTIC_USE_AGENT_STORE=True\nTORCHELASTIC_RUN_ID=x\nTORCHELASTIC_RESTART_COUNT="
           "1\n",
           "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=0\n"
           "OMPI_COMM_WORLD_LOCAL_SIZE=2\nPMIX_NAMESPACE=prterun-1@1\n",
           "PMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2\n",
           "SLURM_PROCID=3\nSLURM_NTASKS=4\nSLURM_STEP_ID=0\nSLURM_LOCALID=1\nSLURM_JOB_ID=77\n"
           "SLURM_STEP_NUM_TASKS=4\nSLURM_JOB_NODELIST=gpu[003-010,012],login1\n"
           "SLURM_TASKS_PER_NODE=2(x2)\nSLURM_STEP_NODELIST=gpu[003-004]\n",
           "--rank=0\n--world=2\n--master=[::1]:29500\n--local-rank=0\n",
       })
    seeds.push_back(to_bytes(text));
  return seeds;
}

/// The first byte says where the bytes are cut in two, as a network may.
void run_channel(Input input) {
  if (input.empty()) return;
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    throw std::runtime_error("no sockets");
  const net::Fd sender(ends[0]);
  Channel channel{net::Fd(ends[1])};
  const Input bytes = input.subspan(1);
  const std::size_t cut = bytes.size() * std::to_integer<std::size_t>(input[0]) / 256;
  std::vector<Message> messages;
  for (const Input part : {bytes.first(cut), bytes.subspan(cut)}) {
    if (!part.empty() && ::send(sender.get(), part.data(), part.size(), MSG_NOSIGNAL) < 0) return;
    if (!channel.receive(messages)) break;
  }
  std::size_t total = 0;
  for (const Message& message : messages) {
    total += 5 + message.body.size();
    if (message.body.size() > Channel::kMaxBody) throw std::logic_error("a body that is too long");
    std::string_view body = message.body;
    std::uint64_t number = 0;
    while (take_number(body, 8, number) && take_number(body, 1, number)) {
    }
  }
  if (total > bytes.size()) throw std::logic_error("messages that were not sent");
}

std::vector<Bytes> channel_seeds() {
  const auto message = [](int kind, const std::string& body) {
    std::string text(1, static_cast<char>(kind));
    append_number(text, body.size(), 4);
    return text + body;
  };
  return {
      to_bytes(std::string(1, '\x80') + message(1, "{\"protocol\":1}") + message(3, "123456789")),
      to_bytes("a" +
               message(4,
                       "\1\0\0\0"
                       "it failed") +
               message(5, "") + message(6, "")),
      to_bytes("b" + message(2, std::string(Channel::kMaxBody, 'w')))};
}

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";

void run_hello(Input input) {
  try {
    read_hello({MessageKind::kHello, std::string(to_text(input))}, kToken);
  } catch (const nlohmann::json::exception&) {  // meet() makes a sentence of it
  }
}

std::vector<Bytes> hello_seeds() {
  const MeetOptions options{.rank = 1, .world = 2};
  return {to_bytes(hello_text(options, std::string(kToken))),
          to_bytes(hello_text(options, "wrong")), to_bytes("{\"token\":[]}"), to_bytes("[]")};
}

}  // namespace

const std::vector<Target> process_targets = {
    {"plugin", run_plugin, plugin_seeds},
    {"launch", run_launch, launch_seeds},
    {"channel", run_channel, channel_seeds},
    {"hello", run_hello, hello_seeds},
};

}  // namespace gbcompress::fuzz
