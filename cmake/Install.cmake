# What `cmake --install` puts into a prefix.
