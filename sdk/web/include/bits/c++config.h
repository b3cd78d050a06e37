#pragma once
// libstdc++'s settings without the threads and the futexes of Linux.
#include_next <bits/c++config.h>
#undef _GLIBCXX_HAS_GTHREADS
#undef _GLIBCXX_HAVE_LINUX_FUTEX
