# semel::warnings: linked privately by everything we compile. Empty inside another project, whose
# authors can do nothing about our warnings.

add_library(semel_warnings INTERFACE)
add_library(semel::warnings ALIAS semel_warnings)
if(PROJECT_IS_TOP_LEVEL)
  target_compile_options(
    semel_warnings
    INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
              # Order{.id = "7"} leaves the other members alone on purpose.
              -Wno-missing-designated-field-initializers
              $<$<BOOL:${SEMEL_WERROR}>:-Werror>)
endif()
