pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.72)
pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET gnutls)
target_link_libraries(${target} PUBLIC PkgConfig::MICROHTTPD PkgConfig::GNUTLS)
# POLLRDHUP
target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
