pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(NETTLE REQUIRED IMPORTED_TARGET nettle)
target_link_libraries(${target} PUBLIC PkgConfig::CURL PRIVATE PkgConfig::NETTLE)
