# The few shapes a target has here.

# Seconds until a test that hangs is ended: twenty times what the longest takes alone, as it may have
# a sanitizer, and the machine other things to do.
set(SLUICE_TEST_TIMEOUT 900)

# sluice_module(<name> SOURCES a.c b.c [PUBLIC libs...] [PRIVATE libs...])
# A static library called sluice_<name>.
function(sluice_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(sluice_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(sluice_${name} PUBLIC sluice::options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# sluice_program(<name> SOURCES main.c ... LINK libs... [DESTINATION folder] [COMPONENT package])
# A program in <build>/bin, installed to bin or that folder; one of bin has a man page and completions,
# which it prints itself, and is in the wheel, too, unless it is of a component of its own.
function(sluice_program name)
  cmake_parse_arguments(ARG "" "DESTINATION;COMPONENT" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_DESTINATION)
    set(ARG_DESTINATION bin)
  endif()
  set(component programs)
  if(ARG_COMPONENT)
    set(component ${ARG_COMPONENT})
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sluice::options ${ARG_LINK})
  install(TARGETS ${name} RUNTIME DESTINATION ${ARG_DESTINATION} COMPONENT ${component})
  if(ARG_DESTINATION STREQUAL "bin")
    if(NOT SLUICE_DEB AND NOT ARG_COMPONENT)
      install(TARGETS ${name} RUNTIME DESTINATION sluice/_bin COMPONENT python EXCLUDE_FROM_ALL)
    endif()
    sluice_texts_of_program(${name} ${component})
  endif()
endfunction()

# Where zsh of the system looks for completions: Debian's packages have share/zsh/vendor-completions.
set(SLUICE_ZSH_DIR "share/zsh/site-functions" CACHE STRING "Where zsh's completions are installed")

add_custom_target(texts ALL)

function(sluice_texts_of_program name component)
  if(CMAKE_CROSSCOMPILING)
    return()
  endif()
  set(folder "${PROJECT_BINARY_DIR}/texts")
  add_custom_command(OUTPUT "${folder}/${name}.1.gz" "${folder}/${name}" "${folder}/_${name}"
    COMMAND ${CMAKE_COMMAND} -E make_directory "${folder}"
    COMMAND ${name} --help-man > "${folder}/${name}.1"
    COMMAND gzip -9nf "${folder}/${name}.1"
    COMMAND ${name} --completion=bash > "${folder}/${name}"
    COMMAND ${name} --completion=zsh > "${folder}/_${name}"
    DEPENDS ${name} VERBATIM)
  add_custom_target(texts_${name} DEPENDS "${folder}/${name}.1.gz")
  add_dependencies(texts texts_${name})
  install(FILES "${folder}/${name}.1.gz" DESTINATION share/man/man1 COMPONENT ${component} OPTIONAL)
  install(FILES "${folder}/${name}" DESTINATION share/bash-completion/completions COMPONENT ${component} OPTIONAL)
  install(FILES "${folder}/_${name}" DESTINATION ${SLUICE_ZSH_DIR} COMPONENT ${component} OPTIONAL)
endfunction()

# sluice_format_page(<name>): the man page <name>.5 from <name>.5.in.
function(sluice_format_page name)
  set(page "${PROJECT_BINARY_DIR}/texts/${name}.5")
  configure_file("${name}.5.in" "${page}" @ONLY)
  add_custom_command(OUTPUT "${page}.gz" COMMAND gzip -9nkf "${page}" DEPENDS "${page}" VERBATIM)
  add_custom_target(texts_${name} DEPENDS "${page}.gz")
  add_dependencies(texts texts_${name})
  install(FILES "${page}.gz" DESTINATION share/man/man5 OPTIONAL)
endfunction()

# sluice_test(<name> SOURCES test_x.c ... LINK libs... [LABELS ...])
# A CUnit program (tests/support) that ctest runs as <name>; exit 77 is "skipped".
function(sluice_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LABELS;ARGS" ${ARGN})
  string(REPLACE "/" "_" target "test_${name}")
  add_executable(${target} ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_link_libraries(${target} PRIVATE sluice_test_support ${ARG_LINK})
  add_test(NAME ${name} COMMAND ${target} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT ${SLUICE_TEST_TIMEOUT} LABELS "${ARG_LABELS}")
  sluice_test_suppressions(${name})
  if("threaded" IN_LIST ARG_LABELS)
    add_dependencies(threaded_tests ${target})
  endif()
endfunction()

# The programs of the tests with the label "threaded".
add_custom_target(threaded_tests)

# What ThreadSanitizer cannot know about libraries that are not built for it.
function(sluice_test_suppressions name)
  if(SLUICE_SANITIZE MATCHES "thread")
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
      "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp")
  endif()
endfunction()

# sluice_script_test(<name> COMMAND ... [LABELS ...])
# A script that ctest runs with the build's programs on SLUICE_BIN, and tests/support on PYTHONPATH.
function(sluice_script_test name)
  cmake_parse_arguments(ARG "" "" "COMMAND;LABELS" ${ARGN})
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set(environment "SLUICE_BIN=${PROJECT_BINARY_DIR}/bin" "SLUICE_SOURCE=${PROJECT_SOURCE_DIR}"
    "SLUICE_SANITIZE=${SLUICE_SANITIZE}" PYTHONFAULTHANDLER=1
    "PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support")
  set_tests_properties(${name} PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT ${SLUICE_TEST_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT "${environment}")
  sluice_test_suppressions(${name})
endfunction()
