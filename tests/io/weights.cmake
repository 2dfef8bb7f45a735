# Weight files. The broken ones are made by code (tests/broken/weights); write-broken-weights FOLDER writes them out.
set(broken ${CMAKE_SOURCE_DIR}/tests/broken/weights)
add_library(io_weights_make STATIC weights_make.c gguf_make.c ${broken}/broken.c ${broken}/broken_archive.c ${broken}/broken_gguf.c
                                   ${broken}/broken_pickle.c ${broken}/broken_safetensors.c)
target_include_directories(io_weights_make PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${broken})
target_link_libraries(io_weights_make PUBLIC zenith_static)
add_executable(write-broken-weights ${broken}/write_broken.c)
target_link_libraries(write-broken-weights PRIVATE io_weights_make)

foreach(name weights_read weights_gguf weights_mlx weights_scaled weights_save weights_broken weights_memory weights_real)
  zenith_io_test(${name})
  target_link_libraries(io_${name} PRIVATE io_weights_make)
endforeach()
set_tests_properties(io.weights_real PROPERTIES SKIP_RETURN_CODE 77)
target_compile_definitions(io_weights_real PRIVATE SHARED="${CMAKE_SOURCE_DIR}/../shared")
