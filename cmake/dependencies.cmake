# What the libraries need. cmake/semelConfig.cmake.in repeats this list for installed copies.

find_package(Boost 1.81 REQUIRED CONFIG COMPONENTS json)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS SSL Crypto)
find_package(SQLite3 REQUIRED)
find_package(PostgreSQL REQUIRED)
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)  # header-only and private, so installed copies do without

# Only for working on semel.
if(PROJECT_IS_TOP_LEVEL)
  find_package(doctest REQUIRED)
endif()
