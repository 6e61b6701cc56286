# One imported target per foreign library, all from the distribution's packages.

find_package(PkgConfig REQUIRED)

# sluice_find(<target> <pkg-config module> [required])
macro(sluice_find target module)
  pkg_check_modules(${target} REQUIRED IMPORTED_TARGET ${module})
  add_library(sluice::${target} ALIAS PkgConfig::${target})
endmacro()

sluice_find(grpc grpc)
sluice_find(protobuf_c libprotobuf-c)
sluice_find(jpeg libjpeg)
sluice_find(png libpng)
sluice_find(zstd libzstd)
sluice_find(curl libcurl)
sluice_find(xxhash libxxhash)
sluice_find(jansson jansson)
sluice_find(microhttpd libmicrohttpd)

find_program(PROTOC_C NAMES protoc-c REQUIRED)

if(SLUICE_TESTS)
  sluice_find(cunit cunit)

  # A reference for the planner; a test without it says that it is skipped.
  find_path(GLPK_INCLUDE_DIR NAMES glpk.h)
  find_library(GLPK_LIBRARY NAMES glpk)
  if(GLPK_INCLUDE_DIR AND GLPK_LIBRARY)
    add_library(sluice_glpk INTERFACE)
    target_include_directories(sluice_glpk SYSTEM INTERFACE "${GLPK_INCLUDE_DIR}")
    target_link_libraries(sluice_glpk INTERFACE "${GLPK_LIBRARY}")
    target_compile_definitions(sluice_glpk INTERFACE SLUICE_HAVE_GLPK)
    add_library(sluice::glpk ALIAS sluice_glpk)
  endif()
endif()

if(SLUICE_ONEDNN)
  find_path(DNNL_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.h dnnl.h)
  find_library(DNNL_LIBRARY NAMES dnnl)
  if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
    message(FATAL_ERROR "oneDNN (libdnnl-dev) not found; "
      "-DSLUICE_ONEDNN=OFF builds without the CPU trainer")
  endif()
  add_library(sluice_dnnl INTERFACE)
  target_include_directories(sluice_dnnl SYSTEM INTERFACE "${DNNL_INCLUDE_DIR}")
  target_link_libraries(sluice_dnnl INTERFACE "${DNNL_LIBRARY}")
  add_library(sluice::dnnl ALIAS sluice_dnnl)
endif()

if(SLUICE_CUDA)
  # Where toolkits install themselves, unless the PATH, CUDACXX or CMAKE_CUDA_COMPILER says better.
  find_program(SLUICE_NVCC NAMES nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME
    PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(SLUICE_NVCC AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER "${SLUICE_NVCC}")
  endif()
  # Machine code for A100 and H100 or H200; the driver translates the latter's PTX for newer ones.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  find_package(CUDAToolkit REQUIRED)

  find_path(CUDNN_INCLUDE_DIR NAMES cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
    message(FATAL_ERROR "cuDNN not found; -DSLUICE_CUDA=OFF builds without the CUDA trainer")
  endif()
  add_library(sluice_cudnn INTERFACE)
  target_include_directories(sluice_cudnn SYSTEM INTERFACE "${CUDNN_INCLUDE_DIR}")
  target_link_libraries(sluice_cudnn INTERFACE "${CUDNN_LIBRARY}")
  add_library(sluice::cudnn ALIAS sluice_cudnn)
endif()
