# Completion scripts and manual pages: the program prints them from its own table of verbs and options. They are written
# whenever it is linked, so that every build of the program can be installed.
set(gbc_documents ${CMAKE_CURRENT_BINARY_DIR}/documents)
set(gbc_document_files "")
set(gbc_document_commands COMMAND ${CMAKE_COMMAND} -E make_directory ${gbc_documents})
# gbc_document(FILE DESTINATION ARGUMENT...): what the program prints, installed
function(gbc_document file destination)
  set(gbc_document_files ${gbc_document_files} ${gbc_documents}/${file} PARENT_SCOPE)
  set(gbc_document_commands ${gbc_document_commands} COMMAND gbcompress_cli ${ARGN} > ${gbc_documents}/${file} PARENT_SCOPE)
  install(FILES ${gbc_documents}/${file} DESTINATION ${destination} COMPONENT runtime)
endfunction()

gbc_document(gbcompress ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
gbc_document(_gbcompress ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
gbc_document(gbcompress.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
gbc_document(gbcompress.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
foreach(verb compress expand mount inspect compare rebase eval sweep bench plugins doctor completion man)
  gbc_document(gbcompress-${verb}.1 ${CMAKE_INSTALL_MANDIR}/man1 man ${verb})
endforeach()
add_custom_command(TARGET gbcompress_cli POST_BUILD ${gbc_document_commands}
  BYPRODUCTS ${gbc_document_files} VERBATIM)
