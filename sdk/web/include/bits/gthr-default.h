#pragma once
// In place of libstdc++'s file for POSIX threads: a module has one thread.
#include <bits/gthr-single.h>
