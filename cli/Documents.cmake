# Completion scripts and manual pages: the program tells them from its own table of verbs and options.
set(gbc_documents ${CMAKE_CURRENT_BINARY_DIR}/documents)
set(gbc_document_files "")
# gbc_document(FILE DESTINATION ARGUMENT...): what the program prints, installed
function(gbc_document file destination)
  add_custom_command(OUTPUT ${gbc_documents}/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${gbc_documents}
    COMMAND gbcompress_cli ${ARGN} > ${gbc_documents}/${file}
    DEPENDS gbcompress_cli VERBATIM)
  set(gbc_document_files ${gbc_document_files} ${gbc_documents}/${file} PARENT_SCOPE)
  install(FILES ${gbc_documents}/${file} DESTINATION ${destination} COMPONENT runtime)
endfunction()

gbc_document(gbcompress ${CMAKE_INSTALL_DATADIR}/bash-completion/completions completion bash)
gbc_document(_gbcompress ${CMAKE_INSTALL_DATADIR}/zsh/site-functions completion zsh)
gbc_document(gbcompress.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d completion fish)
gbc_document(gbcompress.1 ${CMAKE_INSTALL_MANDIR}/man1 man)
foreach(verb compress expand inspect compare rebase eval sweep bench plugins doctor completion man)
  gbc_document(gbcompress-${verb}.1 ${CMAKE_INSTALL_MANDIR}/man1 man ${verb})
endforeach()
add_custom_target(gbc_documents ALL DEPENDS ${gbc_document_files})
