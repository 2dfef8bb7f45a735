# ZENITH_CUDA selects the implementation of src/kernels/device.h. OFF: none. AUTO: ON if this machine has nvcc and the
# driver of a GPU, otherwise OFF. ON: needs nvcc; the runtime is linked
# statically, so a program also starts on machines without a driver. EMULATED: compiles the same .cu files as C++ for
# the CPU (tests/kernels/cuda_emulated).
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
if(ZENITH_CUDA STREQUAL "AUTO")
  find_program(ZENITH_NVCC nvcc HINTS /usr/local/cuda/bin)
  mark_as_advanced(ZENITH_NVCC)
  set(ZENITH_CUDA OFF)
  if(ZENITH_NVCC AND EXISTS /proc/driver/nvidia/version AND NOT CMAKE_CROSSCOMPILING)
    set(ZENITH_CUDA ON)
    set(CMAKE_CUDA_COMPILER ${ZENITH_NVCC})
  endif()
endif()
if(ZENITH_CUDA STREQUAL "EMULATED")
  enable_language(CXX)
elseif(ZENITH_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90) # later GPUs compile the code for 90 at run time
  endif()
  # The matrix instructions of Hopper GPUs need the code for 90a, which no other GPU runs.
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90$" "90a-real;90-virtual")
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90-real$" "90a-real")
  enable_language(CUDA)
endif()

# Called by src/kernels. Adds the sources of the device.
function(zenith_device_sources)
  if(NOT ZENITH_CUDA)
    target_sources(zenith_objects PRIVATE device_none.c)
    return()
  endif()
  set(sources
    cuda/device.cu
    cuda/window.cu
    cuda/nccl.cu
    cuda/elementwise.cu
    cuda/resample.cu
    cuda/channels.cu
    cuda/shuffle.cu
    cuda/median.cu
    cuda/max_pool.cu
    cuda/channel_conv.cu
    cuda/loss.cu
    cuda/ssim.cu
    cuda/optim.cu
    cuda/norm.cu
    cuda/rms_norm.cu
    cuda/sample.cu
    cuda/frames.cu
    cuda/token.cu
    cuda/fp8.cu
    cuda/token_fused.cu
    cuda/sequence.cu
    cuda/scan.cu
    cuda/scan_grad.cu
    cuda/attention.cu
    cuda/attention_any.cu
    cuda/attention_half.cu
    cuda/attention_products.cu
    cuda/attention_grad.cu
    cuda/gates.cu
    cuda/grouped.cu
    cuda/line.cu
    cuda/line_grad.cu
    cuda/lite.cu
    cuda/lite_head.cu
    cuda/sparse.cu
    cuda/spectral.cu
    cuda/tile.cu
    cuda/conv.cu
    cuda/conv_half.cu
    cuda/conv_parts.cu
    cuda/conv_product.cu
    cuda/conv_grad.cu
    cuda/conv_grad_half.cu
    cuda/dense.cu
    cuda/matrix.cu
    cuda/blas.cu
    cuda/half_product.cu
    cuda/unpack.cu
    cuda/reduce.cu)
  set(hopper_sources # not emulated
    cuda/attention_wgmma.cu
    cuda/conv_wgmma.cu
    cuda/conv_grad_wgmma.cu)
  target_sources(zenith_objects PRIVATE cuda/conv.c cuda/conv_grad.c ${sources})
  set_source_files_properties(dispatch.c dispatch_grad.c TARGET_DIRECTORY zenith_objects PROPERTIES COMPILE_DEFINITIONS ZN_CUDA_BUILT)
  if(ZENITH_CUDA STREQUAL "EMULATED")
    set(emulator ${CMAKE_SOURCE_DIR}/tests/kernels/cuda_emulated)
    target_sources(zenith_objects PRIVATE ${emulator}/emulated.cpp)
    set_source_files_properties(${sources} TARGET_DIRECTORY zenith_objects PROPERTIES LANGUAGE CXX)
    target_include_directories(zenith_objects PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${emulator}>)
    target_compile_definitions(zenith_objects PRIVATE $<$<COMPILE_LANGUAGE:CXX>:ZN_CUDA_EMULATED>)
    target_compile_options(zenith_objects PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-x;c++;-std=c++17;-Wall;-Wextra;-Werror;-Wno-unknown-pragmas>")
  else()
    target_sources(zenith_objects PRIVATE ${hopper_sources})
    if("90a-real" IN_LIST CMAKE_CUDA_ARCHITECTURES)
      set_source_files_properties(cuda/device.cu TARGET_DIRECTORY zenith_objects PROPERTIES COMPILE_DEFINITIONS ZN_CUDA_HOPPER=1)
    endif()
    target_compile_options(zenith_objects PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++17;-Xcompiler=-Wall,-Wextra>")
    target_link_libraries(zenith_objects PUBLIC ${CMAKE_DL_LIBS})
  endif()
endfunction()
