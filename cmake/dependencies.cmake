# One imported target per foreign library, all from the distribution's packages.

find_package(PkgConfig REQUIRED)

# sluice_find(<target> <pkg-config module> [required])
macro(sluice_find target module)
  pkg_check_modules(${target} REQUIRED IMPORTED_TARGET ${module})
  add_library(sluice::${target} ALIAS PkgConfig::${target})
endmacro()

if(SLUICE_STATIC_GRPC)
  # In shared libraries gRPC from its archives, and the rest of what it needs from shared libraries:
  # those of Abseil and RE2 have thread-local variables that only a program may have (built without
  # -fPIC).  Programs limit connections with the shared gRPC, too.
  pkg_check_modules(grpc REQUIRED IMPORTED_TARGET grpc)
  set(archives "")
  set(others "")
  foreach(name ${grpc_STATIC_LIBRARIES})
    if(name MATCHES "^(grpc|gpr|upb|address_sorting)$")
      find_library(SLUICE_ARCHIVE_${name} NAMES lib${name}.a REQUIRED)
      string(APPEND archives ",${SLUICE_ARCHIVE_${name}}")
    else()
      list(APPEND others ${name})
    endif()
  endforeach()
  set(is_program "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>")
  add_library(sluice_static_grpc INTERFACE)
  target_include_directories(sluice_static_grpc SYSTEM INTERFACE ${grpc_INCLUDE_DIRS})
  target_link_libraries(sluice_static_grpc INTERFACE
    "$<${is_program}:PkgConfig::grpc>"
    "$<$<NOT:${is_program}>:-Wl,--start-group${archives},--end-group;${others};stdc++>")
  add_library(sluice::grpc ALIAS sluice_static_grpc)
else()
  sluice_find(grpc grpc)
endif()
sluice_find(protobuf_c libprotobuf-c)
sluice_find(jpeg libjpeg)
sluice_find(png libpng)
# Formats beside JPEG and PNG; without its library a format is unsupported.
pkg_check_modules(webp IMPORTED_TARGET libwebp libwebpdemux)
pkg_check_modules(tiff IMPORTED_TARGET libtiff-4>=4.5) # from there on its memory can be bounded
option(SLUICE_TIFF "Decode TIFF with libtiff 4.5 or later" ${tiff_FOUND})
if(SLUICE_TIFF)
  if(NOT tiff_FOUND)
    message(FATAL_ERROR "libtiff 4.5 (libtiff-dev) not found; -DSLUICE_TIFF=OFF builds without it")
  endif()
  add_library(sluice::tiff ALIAS PkgConfig::tiff)
endif()
option(SLUICE_WEBP "Decode WebP with libwebp" ${webp_FOUND})
if(SLUICE_WEBP)
  if(NOT webp_FOUND)
    message(FATAL_ERROR "libwebp (libwebp-dev) not found; -DSLUICE_WEBP=OFF builds without it")
  endif()
  add_library(sluice::webp ALIAS PkgConfig::webp)
endif()
sluice_find(zstd libzstd)
sluice_find(curl libcurl)
sluice_find(xxhash libxxhash)
sluice_find(jansson jansson)
sluice_find(microhttpd libmicrohttpd)
sluice_find(seccomp libseccomp)
sluice_find(openssl openssl)

# Without it offload_top has --once and --json alone.
set(SLUICE_HAVE_NCURSES OFF)
if(SLUICE_NCURSES)
  pkg_check_modules(ncurses IMPORTED_TARGET ncursesw)
  if(ncurses_FOUND)
    add_library(sluice::ncurses ALIAS PkgConfig::ncurses)
    set(SLUICE_HAVE_NCURSES ON)
  else()
    message(STATUS "no ncursesw (libncurses-dev): offload_top gets no live view")
  endif()
endif()

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
endif()

# nvJPEG, for a benchmark alone; NVJPEG_ROOT: where it is if not with the toolkit (NVIDIA's Python
# package nvidia-nvjpeg has include/ and lib/).
if(SLUICE_CUDA)
  find_path(NVJPEG_INCLUDE_DIR NAMES nvjpeg.h HINTS ENV NVJPEG_ROOT ${CUDAToolkit_INCLUDE_DIRS}
    PATH_SUFFIXES include)
  find_library(NVJPEG_LIBRARY NAMES nvjpeg libnvjpeg.so.13 libnvjpeg.so.12
    HINTS ENV NVJPEG_ROOT ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib)
  if(NVJPEG_INCLUDE_DIR AND NVJPEG_LIBRARY)
    add_library(sluice_nvjpeg INTERFACE)
    target_include_directories(sluice_nvjpeg SYSTEM INTERFACE "${NVJPEG_INCLUDE_DIR}")
    target_link_libraries(sluice_nvjpeg INTERFACE "${NVJPEG_LIBRARY}")
    add_library(sluice::nvjpeg ALIAS sluice_nvjpeg)
  endif()
endif()

if(SLUICE_CUDA AND SLUICE_CUDNN)
  find_path(CUDNN_INCLUDE_DIR NAMES cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
    message(FATAL_ERROR "cuDNN not found; -DSLUICE_CUDNN=OFF builds without the CUDA trainer")
  endif()
  add_library(sluice_cudnn INTERFACE)
  target_include_directories(sluice_cudnn SYSTEM INTERFACE "${CUDNN_INCLUDE_DIR}")
  target_link_libraries(sluice_cudnn INTERFACE "${CUDNN_LIBRARY}")
  add_library(sluice::cudnn ALIAS sluice_cudnn)
endif()
