#pragma once
/// What libgbcompress.so and the command line use of the libraries beside the public headers:
/// visible for them, without any promise (docs/reference/compatibility.md).

#define GBC_INTERNAL [[gnu::visibility("default")]]
