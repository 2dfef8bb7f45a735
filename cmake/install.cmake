# `cmake --install`: program, libraries, headers, files for pkg-config and CMake, man page, completions, weights.
# Installing writes nothing to the build folder except CMake's own manifest.

# Removes headers and libraries of an earlier version from the same place: they would hide the new ones or stay behind.
set(ZENITH_OLD ${CMAKE_INSTALL_INCLUDEDIR}/zenith/*.h ${CMAKE_INSTALL_LIBDIR}/libzenith.so.0*)
install(CODE "
  foreach(pattern ${ZENITH_OLD})
    cmake_path(ABSOLUTE_PATH pattern BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
    file(GLOB old \"\$ENV{DESTDIR}\${pattern}\")
    if(old)
      file(REMOVE \${old})
    endif()
  endforeach()")

install(TARGETS zenith RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS zenith_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS zenith_shared EXPORT zenithTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/zenith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_SOURCE_DIR}/man/zenith.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_SOURCE_DIR}/completions/zenith.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME zenith)
install(FILES ${CMAKE_SOURCE_DIR}/completions/_zenith DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${CMAKE_SOURCE_DIR}/completions/zenith.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/weights/ DESTINATION ${CMAKE_INSTALL_DATADIR}/zenith/models)

# Flags for static linking: everything that the objects link to, as -l flags. With Requires.private, pkg-config would
# need the .pc files of all of them even for shared linking.
set(ZENITH_PRIVATE_LIBS)
get_target_property(libraries zenith_objects LINK_LIBRARIES)
foreach(library ${libraries})
  if(library STREQUAL "PNG::PNG")
    list(APPEND ZENITH_PRIVATE_LIBS -lpng -lz)
  elseif(library STREQUAL "JPEG::JPEG")
    list(APPEND ZENITH_PRIVATE_LIBS -ljpeg)
  elseif(library STREQUAL "Threads::Threads")
    list(APPEND ZENITH_PRIVATE_LIBS -pthread)
  elseif(library MATCHES "/lib([^/]+)\\.(so|a|dylib)$")
    list(APPEND ZENITH_PRIVATE_LIBS -l${CMAKE_MATCH_1})
  elseif(library MATCHES "^[a-z0-9]+$")
    list(APPEND ZENITH_PRIVATE_LIBS -l${library})
  endif()
endforeach()
if(ZENITH_CUDA AND NOT ZENITH_CUDA STREQUAL "EMULATED")
  get_filename_component(cuda_libraries ${CMAKE_CUDA_COMPILER} REALPATH)
  get_filename_component(cuda_libraries ${cuda_libraries}/../../lib64 ABSOLUTE)
  list(APPEND ZENITH_PRIVATE_LIBS -L${cuda_libraries} -lcudart_static -lstdc++ -lrt -ldl)
endif()
list(REMOVE_DUPLICATES ZENITH_PRIVATE_LIBS)

# find_package(zenith): targets zenith::zenith (shared) and zenith::static.
include(CMakePackageConfigHelpers)
set(ZENITH_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/zenith)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/zenithConfig.cmake.in ${CMAKE_BINARY_DIR}/zenithConfig.cmake
                              INSTALL_DESTINATION ${ZENITH_CMAKEDIR}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/zenithConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT zenithTargets NAMESPACE zenith:: DESTINATION ${ZENITH_CMAKEDIR})
install(FILES ${CMAKE_BINARY_DIR}/zenithConfig.cmake ${CMAKE_BINARY_DIR}/zenithConfigVersion.cmake
        DESTINATION ${ZENITH_CMAKEDIR})

# pkg-config. `cmake --install --prefix` may still change the prefix, so the file is made during installation.
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${kind}})
    set(ZENITH_PC_${kind} ${CMAKE_INSTALL_${kind}})
  else()
    set(ZENITH_PC_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
list(JOIN ZENITH_PRIVATE_LIBS " " ZENITH_PC_LIBS)
set(ZENITH_PC_PREFIX "@ZENITH_PC_PREFIX@")
configure_file(${CMAKE_SOURCE_DIR}/cmake/zenith.pc.in ${CMAKE_BINARY_DIR}/zenith.pc.prefix @ONLY)
install(CODE "
  set(ZENITH_PC_PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
  set(pc \"${CMAKE_INSTALL_LIBDIR}/pkgconfig/zenith.pc\")
  cmake_path(ABSOLUTE_PATH pc BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
  message(STATUS \"Installing: \$ENV{DESTDIR}\${pc}\")
  configure_file(\"${CMAKE_BINARY_DIR}/zenith.pc.prefix\" \"\$ENV{DESTDIR}\${pc}\" @ONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${pc}\")")
