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
    cuda/basic/blas.cu
    cuda/basic/channels.cu
    cuda/basic/dense.cu
    cuda/basic/elementwise.cu
    cuda/basic/fp8.cu
    cuda/basic/frames.cu
    cuda/basic/half_product.cu
    cuda/basic/half_product_few.cu
    cuda/basic/matrix.cu
    cuda/basic/max_pool.cu
    cuda/basic/median.cu
    cuda/basic/group_norm.cu
    cuda/basic/norm.cu
    cuda/basic/optim.cu
    cuda/basic/product_batch.cu
    cuda/basic/reduce.cu
    cuda/basic/resample.cu
    cuda/basic/sample.cu
    cuda/basic/shuffle.cu
    cuda/basic/silu_norm_back.cu
    cuda/basic/silu_norm_grad.cu
    cuda/basic/unpack.cu
    cuda/conv/channel_conv.cu
    cuda/conv/conv.cu
    cuda/conv/conv_few.cu
    cuda/conv/conv_grad.cu
    cuda/conv/conv_grad_few.cu
    cuda/conv/conv_grad_half.cu
    cuda/conv/conv_half.cu
    cuda/conv/conv_parts.cu
    cuda/conv/conv_product.cu
    cuda/conv/conv_thin.cu
    cuda/conv/conv_to_few.cu
    cuda/conv/conv_to_few_f32.cu
    cuda/conv/grouped.cu
    cuda/loss/loss.cu
    cuda/loss/ssim.cu
    cuda/prune/gates.cu
    cuda/prune/sparse.cu
    cuda/sequence/attention.cu
    cuda/sequence/attention_any.cu
    cuda/sequence/attention_few.cu
    cuda/sequence/attention_grad.cu
    cuda/sequence/attention_half.cu
    cuda/sequence/attention_products.cu
    cuda/sequence/attention_wide_grad.cu
    cuda/sequence/rms_norm.cu
    cuda/sequence/scan.cu
    cuda/sequence/scan_grad.cu
    cuda/sequence/sequence.cu
    cuda/sequence/token.cu
    cuda/sequence/token_fused.cu
    cuda/spectral/line.cu
    cuda/spectral/line_grad.cu
    cuda/spectral/lite.cu
    cuda/spectral/lite_head.cu
    cuda/spectral/lite_head_half.cu
    cuda/spectral/spectral.cu
    cuda/spectral/square_half.cu
    cuda/spectral/tile.cu)
  set(hopper_sources # not emulated
    cuda/sequence/attention_wgmma.cu
    cuda/conv/conv_frames_wgmma.cu
    cuda/conv/conv_small.cu
    cuda/conv/conv_wgmma.cu
    cuda/conv/norm_measured.cu
    cuda/conv/conv_grad_wgmma.cu)
  target_sources(zenith_objects PRIVATE cuda/conv/conv.c cuda/conv/conv_grad.c ${sources})
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
