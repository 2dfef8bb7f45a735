# What `cmake --install` puts where: program, libraries, headers, zenith.pc, manual page, completions, weights.
install(TARGETS zenith RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS zenith_static zenith_shared
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/zenith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_SOURCE_DIR}/man/zenith.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_SOURCE_DIR}/completions/zenith.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME zenith)
install(FILES ${CMAKE_SOURCE_DIR}/completions/_zenith DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_SOURCE_DIR}/completions/zenith.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/weights/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zenith/models)

# zenith.pc names what a static link needs: everything the objects link to, as -l flags. (Requires.private would make
# pkg-config insist on the .pc files of all of them even for a shared link.)
set(ZENITH_PC_LIBS)
get_target_property(libraries zenith_objects LINK_LIBRARIES)
foreach(library ${libraries})
  if(library STREQUAL "PNG::PNG")
    list(APPEND ZENITH_PC_LIBS -lpng -lz)
  elseif(library STREQUAL "JPEG::JPEG")
    list(APPEND ZENITH_PC_LIBS -ljpeg)
  elseif(library STREQUAL "Threads::Threads")
    list(APPEND ZENITH_PC_LIBS -pthread)
  elseif(library MATCHES "/lib([^/]+)\\.(so|a|dylib)$")
    list(APPEND ZENITH_PC_LIBS -l${CMAKE_MATCH_1})
  elseif(library MATCHES "^[a-z0-9]+$")
    list(APPEND ZENITH_PC_LIBS -l${library})
  endif()
endforeach()
if(ZENITH_CUDA AND NOT ZENITH_CUDA STREQUAL "EMULATED")
  get_filename_component(cuda_libraries ${CMAKE_CUDA_COMPILER} REALPATH)
  get_filename_component(cuda_libraries ${cuda_libraries}/../../lib64 ABSOLUTE)
  list(APPEND ZENITH_PC_LIBS -L${cuda_libraries} -lcudart_static -lstdc++ -lrt -ldl)
endif()
list(REMOVE_DUPLICATES ZENITH_PC_LIBS)
list(JOIN ZENITH_PC_LIBS " " ZENITH_PC_LIBS)

# The prefix may be chosen as late as `cmake --install --prefix`, so the file is made then.
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${kind}})
    set(ZENITH_PC_${kind} ${CMAKE_INSTALL_${kind}})
  else()
    set(ZENITH_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
set(ZENITH_PC_PREFIX "@ZENITH_PC_PREFIX@")
configure_file(${CMAKE_SOURCE_DIR}/cmake/zenith.pc.in ${CMAKE_BINARY_DIR}/zenith.pc.prefix @ONLY)
install(CODE "
  set(ZENITH_PC_PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
  configure_file(\"${CMAKE_BINARY_DIR}/zenith.pc.prefix\" \"${CMAKE_BINARY_DIR}/zenith.pc\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/zenith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
