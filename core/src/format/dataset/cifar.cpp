#include "format/dataset/cifar.h"

#include "format/gzip.h"
#include "gbcompress/error.h"

namespace gbcompress {

CifarRecords read_cifar10(const std::filesystem::path& path) {
  constexpr std::size_t kRecord = 1 + kCifarPixels;
  MaybeGzip file(path);
  CifarRecords records;
  // Record by record: a file that is something else is refused at its first bad label.
  for (;;) {
    const auto record = file.read_up_to(kRecord);
    if (record.empty()) break;
    const std::string which = file.label() + ": record " + std::to_string(records.labels.size());
    if (record.size() < kRecord)
      throw Error(Errc::kTruncated, which + " has " + std::to_string(record.size()) +
                                        " bytes, a CIFAR-10 record has 3073");
    if (records.labels.size() == kMaxCifarRecords)
      throw Error(Errc::kLimit, file.label() + " holds more than 100,000 records");
    const int label = std::to_integer<int>(record[0]);
    if (label > 9)
      throw Error(Errc::kCorrupt,
                  which + " has the label " + std::to_string(label) + ", CIFAR-10 has 0 to 9");
    records.labels.push_back(static_cast<std::uint8_t>(label));
    records.pixels.insert(records.pixels.end(), record.begin() + 1, record.end());
  }
  if (records.labels.empty()) throw Error(Errc::kTruncated, file.label() + " holds no record");
  return records;
}

}  // namespace gbcompress
