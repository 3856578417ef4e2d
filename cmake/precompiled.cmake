# One precompiled header for libraries and programs and one, with doctest and semel's own public
# headers, for tests. Everything
# reuses them, so everything must be compiled with the same flags; see semel_use_pch. Tests get
# SEMEL_TEST_FLAGS on top: most of the time of a build is the optimiser's, and tests gain little by it.

function(semel_add_pch target)
  file(CONFIGURE OUTPUT ${target}.cpp CONTENT "// Gives the header a target to belong to.\n")
  add_library(${target} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  target_link_libraries(${target} PRIVATE Boost::json fmt::fmt semel::warnings)
  semel_pch_flags(${target} ${target})
endfunction()

# Reproducible: with file times inside, a rebuilt header would never match ccache's memory of it.
function(semel_pch_flags target pch)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
  if(pch STREQUAL "semel_test_pch")
    target_compile_options(${target} PRIVATE ${SEMEL_TEST_FLAGS})
  endif()
endfunction()

# Compiles `target` with the precompiled header `pch` (semel_pch or semel_test_pch).
function(semel_use_pch target pch)
  if(SEMEL_PCH)
    target_precompile_headers(${target} REUSE_FROM ${pch})
    semel_pch_flags(${target} ${pch})
  endif()
endfunction()

if(SEMEL_PCH)
  semel_add_pch(semel_pch "${PROJECT_SOURCE_DIR}/cmake/pch.hpp")
  if(PROJECT_IS_TOP_LEVEL)
    semel_add_pch(semel_test_pch "${PROJECT_SOURCE_DIR}/cmake/pch.hpp" <doctest/doctest.h>
                  "${PROJECT_SOURCE_DIR}/include/semel/semel.hpp")
    target_include_directories(semel_test_pch PRIVATE "${PROJECT_SOURCE_DIR}/include")
    target_link_libraries(semel_test_pch PRIVATE doctest::doctest)
  endif()
endif()
