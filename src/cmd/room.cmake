pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
target_link_libraries(${target} PUBLIC PkgConfig::CURL)
