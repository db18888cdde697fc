pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
target_link_libraries(${target} PUBLIC PkgConfig::ZLIB)
