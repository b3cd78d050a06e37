// A library that is no module at all.
extern "C" int some_other_library() { return 1; }
