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
sluice_find(curl libcurl)
sluice_find(xxhash libxxhash)
sluice_find(jansson jansson)
sluice_find(microhttpd libmicrohttpd)

find_program(PROTOC_C NAMES protoc-c REQUIRED)

if(SLUICE_TESTS)
  sluice_find(cunit cunit)
endif()

if(SLUICE_ONEDNN)
  find_path(DNNL_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.h dnnl.h)
  find_library(DNNL_LIBRARY NAMES dnnl)
  if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
    message(FATAL_ERROR "oneDNN (libdnnl-dev) not found; -DSLUICE_ONEDNN=OFF builds without the CPU trainer")
  endif()
  add_library(sluice_dnnl INTERFACE)
  target_include_directories(sluice_dnnl SYSTEM INTERFACE "${DNNL_INCLUDE_DIR}")
  target_link_libraries(sluice_dnnl INTERFACE "${DNNL_LIBRARY}")
  add_library(sluice::dnnl ALIAS sluice_dnnl)
endif()
