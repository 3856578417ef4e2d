# Installs the build to a fresh prefix, then configures, builds and runs the consumer against it.

set(prefix "${WORK_DIR}/prefix")
set(build "${WORK_DIR}/build")
file(REMOVE_RECURSE "${WORK_DIR}")

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY COMMAND_ECHO STDOUT)
endfunction()

step(${CMAKE_COMMAND} --install "${BUILD_DIR}" --config "${CONFIG}" --prefix "${prefix}")
file(GLOB_RECURSE manual "${prefix}/*.1")
file(STRINGS "${manual}" heading LIMIT_COUNT 1)
if(NOT heading MATCHES "^.TH SEMEL 1")
  message(FATAL_ERROR "no manual page was installed: ${manual}")
endif()
# The sanitizer's flags, if any, must be the consumer's too; nothing else is passed on.
step(${CMAKE_COMMAND} -S "${CONSUMER_DIR}" -B "${build}" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${CXX}"
     "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}" "-DCMAKE_PREFIX_PATH=${prefix}")
step(${CMAKE_COMMAND} --build "${build}")
step("${build}/consumer")
