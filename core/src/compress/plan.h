#pragma once
/// What a job is about to do, in words and figures.

#include "compress/job.h"

namespace gbcompress {

CompressPlan plan(Job& job);

}  // namespace gbcompress
