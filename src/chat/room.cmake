pkg_check_modules(CHAT_UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
target_link_libraries(${target} PUBLIC PkgConfig::CHAT_UTF8PROC)
