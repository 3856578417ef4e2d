# `cmake --install`: after it, find_package(semel) and semel::semel are all a program needs.
include(CMakePackageConfigHelpers)

set(semel_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/semel")

get_property(semel_modules GLOBAL PROPERTY SEMEL_MODULES)
install(TARGETS ${semel_modules} EXPORT semelTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/semel"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp")
install(EXPORT semelTargets NAMESPACE semel:: DESTINATION "${semel_package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/semelConfig.cmake.in" semelConfig.cmake
                              INSTALL_DESTINATION "${semel_package_dir}")
# Before 1.0 a minor version may break its users.
write_basic_package_version_file(semelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/semelConfig.cmake" "${PROJECT_BINARY_DIR}/semelConfigVersion.cmake"
        DESTINATION "${semel_package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

if(TARGET semel_cli)
  install(TARGETS semel_cli)
  get_target_property(semel_man_dir semel_man BINARY_DIR)
  install(FILES "${semel_man_dir}/semel.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
endif()
