# Writes FILE.sha256, one line as sha256sum does; the program compares it before it loads FILE.
file(SHA256 "${FILE}" digest)
cmake_path(GET FILE FILENAME name)
file(WRITE "${FILE}.sha256" "${digest}  ${name}\n")
