// The target of sdk/c/tests, whose C is C++ too.
#include <gbz.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include "fuzz.c"
}
