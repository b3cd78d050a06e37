#pragma once
/// Every option of a run. No LibTorch: settings are read, checked and shown without loading it.

#include "gbcompress/bottleneck_options.h"
#include "gbcompress/compress_options.h"
#include "gbcompress/schedule.h"
#include "gbcompress/settings.h"
#include "gbcompress/train_options.h"
