# find_package(sluice): the target sluice::sluice.  What the library needs it finds itself.
include("${CMAKE_CURRENT_LIST_DIR}/sluice-targets.cmake")
