# Workflows are coroutines, and some compilers mishandle the temporaries of a co_await expression:
# the program builds and then frees memory twice, or never. So a small program tries the shapes that
# workflow code has, and a compiler that gets one wrong is refused here, not in production.

function(semel_check_compiler)
  if(DEFINED CMAKE_BUILD_TYPE)
    set(CMAKE_TRY_COMPILE_CONFIGURATION ${CMAKE_BUILD_TYPE})
  endif()
  # Both results are cached, so this costs a second once per build directory.
  try_run(
    SEMEL_COMPILER_CHECK_RUN SEMEL_COMPILER_CHECK_BUILT
    SOURCES "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/co_await_lifetimes.cpp"
    COMPILE_OUTPUT_VARIABLE compile_output
    RUN_OUTPUT_VARIABLE run_output
    CXX_STANDARD 20
    CXX_STANDARD_REQUIRED ON
    CXX_EXTENSIONS OFF)
  if(SEMEL_COMPILER_CHECK_BUILT AND "${SEMEL_COMPILER_CHECK_RUN}" STREQUAL "0")
    return()
  endif()

  if(SEMEL_COMPILER_CHECK_BUILT)
    set(what "destroys the temporaries of a co_await expression too often or not at all")
    set(output "${run_output}")
  else()
    set(what "cannot compile ordinary co_await expressions")
    set(output "${compile_output}")
  endif()
  # Try again next time: a cached failure would come without its output.
  unset(SEMEL_COMPILER_CHECK_RUN CACHE)
  unset(SEMEL_COMPILER_CHECK_BUILT CACHE)
  message(
    FATAL_ERROR
      "semel cannot be built with ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}: it ${what}.\n"
      "Known to fail: g++ 12 destroys by-value lambdas and aggregates with designated initialisers in "
      "a co_await expression twice; clang 16 leaks the temporaries of a coroutine that is destroyed "
      "while suspended. Known to work: clang 19 and later (-DCMAKE_CXX_COMPILER=clang++-19).\n"
      "What cmake/compiler_check/co_await_lifetimes.cpp found:\n${output}")
endfunction()

if(NOT SEMEL_SKIP_COMPILER_CHECK)
  if(CMAKE_CROSSCOMPILING)
    message(FATAL_ERROR "semel runs a program at configure time to see that the compiler handles co_await. "
                        "When cross-compiling, check your compiler once by hand with "
                        "cmake/compiler_check/co_await_lifetimes.cpp, then pass -DSEMEL_SKIP_COMPILER_CHECK=ON.")
  endif()
  semel_check_compiler()
endif()
