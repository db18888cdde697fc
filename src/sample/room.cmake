pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
target_link_libraries(${target} PRIVATE PkgConfig::PCRE2)
