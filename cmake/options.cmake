# sluice::options: what every target of ours is compiled with.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_package(Threads REQUIRED)

add_library(sluice_options INTERFACE)
add_library(sluice::options ALIAS sluice_options)

target_compile_definitions(sluice_options INTERFACE
  _GNU_SOURCE
  SLUICE_VERSION="${PROJECT_VERSION}")

# A fused multiply-add rounds once where two roundings are part of the result
# (docs/NUMERICS.md), so contraction is off everywhere.
target_compile_options(sluice_options INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
    -Werror=implicit-function-declaration -Wpointer-arith -Wvla -Wundef -Wformat=2 -Wno-format-nonliteral -fno-strict-aliasing
    -ffp-contract=off -fvisibility=hidden>)
target_compile_options(sluice_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
target_include_directories(sluice_options INTERFACE
  "${PROJECT_SOURCE_DIR}/lib" "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(sluice_options INTERFACE Threads::Threads m)

# sluice::hardening: what makes a mistake with memory harder to use.  Releases have it (wheel, bundle
# and packages, too); sanitizers find more and do not go with it.  Position independent programs: see
# CMAKE_POSITION_INDEPENDENT_CODE.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported()
check_c_compiler_flag(-fcf-protection SLUICE_HAVE_CF_PROTECTION)
add_library(sluice_hardening INTERFACE)
add_library(sluice::hardening ALIAS sluice_hardening)
target_compile_options(sluice_hardening INTERFACE $<$<COMPILE_LANGUAGE:C>:-fstack-protector-strong>)
if(SLUICE_HAVE_CF_PROTECTION)
  target_compile_options(sluice_hardening INTERFACE $<$<COMPILE_LANGUAGE:C>:-fcf-protection>)
endif()
if(NOT CMAKE_C_FLAGS MATCHES "_FORTIFY_SOURCE") # else a distribution's build has chosen a level
  target_compile_options(sluice_hardening INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
endif()
target_link_options(sluice_hardening INTERFACE -Wl,-z,relro,-z,now)
if(NOT SLUICE_SANITIZE AND NOT SLUICE_COVERAGE AND NOT SLUICE_FUZZ)
  target_link_libraries(sluice_options INTERFACE
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:sluice_hardening>)
endif()

if(SLUICE_SANITIZE)
  target_compile_options(sluice_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all>)
  target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_COVERAGE)
  target_compile_options(sluice_options INTERFACE --coverage)
  target_link_options(sluice_options INTERFACE --coverage)
endif()
if(SLUICE_FUZZ)
  # Coverage counters everywhere, libFuzzer's main() only in the fuzz targets.
  target_compile_options(sluice_options
    INTERFACE $<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link>)
endif()
if(SLUICE_FUZZ)
  # Coverage feedback from the code under test; the targets alone link libFuzzer.
  target_compile_options(sluice_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link>)
endif()

if(SLUICE_RELOCATABLE)
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
  # DT_RPATH, not DT_RUNPATH: it holds for the libraries' own libraries too.
  add_link_options(-Wl,--disable-new-dtags)
endif()
