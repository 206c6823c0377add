# onggi_module(<name> DEPENDS <modules and libraries...> [TEST_DEPENDS <modules and libraries...>])
# onggi_program(<name> <main.cc> DEPENDS <modules and libraries...>)
#
# Declares one module: every *.cc in the folder is its library `onggi_<name>`, every *_test.cc is its
# test program `<name>_test`, and every *_main.cc is left for onggi_program(). DEPENDS is the module's
# whole licence to include: tools/check_layers.py rejects an #include of a module not listed here.
# TEST_DEPENDS is the same for its *_test.cc alone.
set(ONGGI_INSTALL_BINDIR bin CACHE STRING "Where programs are installed, below the prefix")
if(SKBUILD)
  set(ONGGI_INSTALL_BINDIR ${SKBUILD_SCRIPTS_DIR})  # in a wheel: onto the PATH of the environment
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # the modules end in the Python extension too

add_library(onggi_flags INTERFACE)
target_compile_features(onggi_flags INTERFACE cxx_std_20)
target_include_directories(onggi_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(onggi_flags INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<BOOL:${ONGGI_WERROR}>:-Werror>)
target_compile_definitions(onggi_flags INTERFACE $<$<BOOL:${ONGGI_CHECKS}>:ONGGI_CHECKS _GLIBCXX_ASSERTIONS>)
target_link_libraries(onggi_flags INTERFACE Threads::Threads)
if(ONGGI_SANITIZE)
  # What a report needs, and no more: these builds take most of the time of the tests.
  target_compile_options(onggi_flags INTERFACE -fsanitize=${ONGGI_SANITIZE} -fno-omit-frame-pointer
    -O1 -gline-tables-only)
  target_link_options(onggi_flags INTERFACE -fsanitize=${ONGGI_SANITIZE})
endif()

# Turns module names into targets in `out`; a name not declared above is an error.
function(onggi_resolve out name)
  set(targets "")
  foreach(dep IN LISTS ARGN)
    if(TARGET onggi_${dep})
      list(APPEND targets onggi_${dep})
    elseif(TARGET ${dep} OR dep MATCHES "::")
      list(APPEND targets ${dep})
    else()
      message(FATAL_ERROR "${name}: '${dep}' is not declared above it; dependencies point down only")
    endif()
  endforeach()
  set(${out} ${targets} PARENT_SCOPE)
endfunction()

function(onggi_module name)
  cmake_parse_arguments(arg "" "" "DEPENDS;TEST_DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench|main)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  onggi_resolve(targets ${name} ${arg_DEPENDS})
  if(sources)
    add_library(onggi_${name} STATIC ${sources})
    target_link_libraries(onggi_${name} PUBLIC onggi_flags ${targets})
  else()
    add_library(onggi_${name} INTERFACE)
    target_link_libraries(onggi_${name} INTERFACE onggi_flags ${targets})
  endif()
  if(tests AND ONGGI_TESTS)
    onggi_resolve(test_targets ${name} ${arg_TEST_DEPENDS})
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE onggi_${name} ${test_targets} GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
endfunction()

function(onggi_program name main)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  onggi_resolve(targets ${name} ${arg_DEPENDS})
  add_executable(${name} ${main})
  target_link_libraries(${name} PRIVATE onggi_flags ${targets})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  install(TARGETS ${name} RUNTIME DESTINATION ${ONGGI_INSTALL_BINDIR})
endfunction()
