pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET gnutls)
target_link_libraries(${target} PUBLIC PkgConfig::GNUTLS)
# EPOLLRDHUP, accept4
target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
