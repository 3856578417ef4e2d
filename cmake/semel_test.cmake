# semel_test(<name> SOURCES <file>... [LINK <target>...] [LABELS long|soak] [TIMEOUT <seconds>]
#            [OPTIMISED])
#
# Makes a doctest executable and registers it with ctest. A test is labelled
#   fast  by default: ./test runs it, in a second or two;
#   long  ./test --ci runs it too;
#   soak  only ./test --long does, with SEMEL_LONG=1 in its environment.
# What computes for long is compiled as the libraries are, without SEMEL_TEST_FLAGS: OPTIMISED.
# Under a sanitizer names read "asan.journal_test" and labels "long-asan" (the fast ones stay
# "fast"), so that CI can run all its builds in one go and the slow tests only where they are cheap.
function(semel_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMISED" "LABELS;TIMEOUT" "SOURCES;LINK")
  if(NOT PROJECT_IS_TOP_LEVEL OR NOT arg_SOURCES)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE semel_test_main doctest::doctest ${arg_LINK} semel::warnings)
  # Fixtures are included as "tests/simulation/world.hpp".
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  if(arg_OPTIMISED)
    semel_use_pch(${name} semel_pch)
  else()
    semel_use_pch(${name} semel_test_pch)
  endif()
  semel_register_test(${name} COMMAND ${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
endfunction()

# semel_register_test(<name> COMMAND <command>... [LABELS <label>] [TIMEOUT <seconds>])
#
# The part of semel_test that serves tests which are not doctest executables.
function(semel_register_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABELS;TIMEOUT" "COMMAND")
  set(label fast)
  if(arg_LABELS)
    set(label ${arg_LABELS})
  endif()
  set(timeout 60)
  if(arg_TIMEOUT)
    set(timeout ${arg_TIMEOUT})
  elseif(NOT label STREQUAL "fast")
    set(timeout 600)
  endif()
  if(SEMEL_SANITIZER)
    string(PREPEND name "${SEMEL_SANITIZER}.")
    math(EXPR timeout "${timeout} * 5")
    if(NOT label STREQUAL "fast")
      string(APPEND label "-${SEMEL_SANITIZER}")
    endif()
  endif()

  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout})
  if(SEMEL_SANITIZER)
    # Without the symbolizer of the compiler's own version stack traces may be bare numbers.
    find_program(SEMEL_SYMBOLIZER llvm-symbolizer-19 llvm-symbolizer)
    set(common "external_symbolizer_path=${SEMEL_SYMBOLIZER}")
    set_tests_properties(
      ${name}
      PROPERTIES
        ENVIRONMENT
        "ASAN_OPTIONS=${common}:strict_string_checks=1;UBSAN_OPTIONS=${common}:print_stacktrace=1;TSAN_OPTIONS=${common}:halt_on_error=1:second_deadlock_stack=1"
    )
  endif()
endfunction()
