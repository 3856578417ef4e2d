# Faster builds where the tools are present; nothing here changes what is built.

find_program(SEMEL_CCACHE ccache)
if(SEMEL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header defeats ccache's usual care: it must trust that the header's macros and
  # file times do not matter. They do not, as long as no source prints __DATE__ or __TIME__.
  # As part of the launcher the setting also holds for a bare `ninja`.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${SEMEL_CCACHE})
endif()

find_program(SEMEL_MOLD mold)
if(SEMEL_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_link_options(-fuse-ld=mold)
endif()
