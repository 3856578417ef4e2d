# Runs PROGRAM, RUNS times, in an empty directory of its own.
file(REMOVE_RECURSE "${DIRECTORY}")
file(MAKE_DIRECTORY "${DIRECTORY}")
foreach(run RANGE 1 ${RUNS})
  execute_process(COMMAND "${PROGRAM}" WORKING_DIRECTORY "${DIRECTORY}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
