# semel_module(<name> [SOURCES <file>...] [LINK <target>...] [LINK_PRIVATE <target>...])
#
# Makes the static library semel_<name>, known as semel::<name>. LINK names what its headers need,
# LINK_PRIVATE what only its sources need. A module without sources is header-only.
function(semel_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK;LINK_PRIVATE")
  if(DEFINED arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "semel_module(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target semel_${name})

  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_link_libraries(
      ${target}
      PUBLIC ${arg_LINK}
      PRIVATE ${arg_LINK_PRIVATE} $<BUILD_INTERFACE:semel::warnings>)
    # Modules include each other as "journal/entry.hpp"; these headers are not installed.
    target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
    semel_use_pch(${target} semel_pch)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_LINK} ${arg_LINK_PRIVATE})
    target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  endif()

  add_library(semel::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY SEMEL_MODULES ${target})
endfunction()

# semel_program(<name> SOURCES <file>... [LINK <target>...])
#
# An executable: the command line, an example, a benchmark. Links semel::semel unless told otherwise.
function(semel_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  if(NOT arg_LINK)
    set(arg_LINK semel::semel)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} semel::warnings)
  semel_use_pch(${name} semel_pch)
endfunction()
