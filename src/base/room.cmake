target_link_libraries(${target} PUBLIC PkgConfig::JANSSON)
