pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
target_link_libraries(${target} PRIVATE PkgConfig::PCRE2 PkgConfig::UTF8PROC)
