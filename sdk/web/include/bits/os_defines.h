#pragma once
// In place of libstdc++'s file for Linux: what differs with wasi-libc.
#define __locale_t locale_t
