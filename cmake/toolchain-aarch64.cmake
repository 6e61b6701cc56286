# Cross-builds for AArch64 Linux with Debian's compiler; tests run under QEMU.
#
#   -DSLUICE_SYSROOT=<folder>: Debian's arm64 packages unpacked, as scripts/test-aarch64 does.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

if(NOT SLUICE_SYSROOT)
  message(FATAL_ERROR "-DSLUICE_SYSROOT=<folder of arm64 packages> is missing")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SLUICE_SYSROOT)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_SYSROOT "${SLUICE_SYSROOT}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER) # protoc-c runs here
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(ENV{PKG_CONFIG_SYSROOT_DIR} "${SLUICE_SYSROOT}")
set(ENV{PKG_CONFIG_LIBDIR}
  "${SLUICE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${SLUICE_SYSROOT}/usr/share/pkgconfig")

find_program(SLUICE_QEMU NAMES qemu-aarch64-static qemu-aarch64 REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR "${SLUICE_QEMU};-L;${SLUICE_SYSROOT}")
