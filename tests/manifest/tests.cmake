# The claims about compatibility: true of this build, and caught when they lie.
if(TARGET mlxcel_cmd AND TARGET mlxcel-server)
  add_test(NAME manifest.check COMMAND mlxcel manifest check --root ${CMAKE_SOURCE_DIR}
    --build ${CMAKE_BINARY_DIR} --server $<TARGET_FILE:mlxcel-server>)
  add_executable(manifest_test manifest/manifest_test.c)
  target_link_libraries(manifest_test PRIVATE mlxcel_cmd PkgConfig::CMOCKA)
  target_include_directories(manifest_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(manifest_test PRIVATE MLXCEL_SOURCE="${CMAKE_SOURCE_DIR}"
    MLXCEL_BUILD="${CMAKE_BINARY_DIR}")
  add_test(NAME manifest.tampering COMMAND manifest_test)
endif()
if(Python3_Interpreter_FOUND)
  add_test(NAME manifest.schema COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/manifest/schema.py
    ${CMAKE_SOURCE_DIR}/compat/llama-server/b10621)
  set_tests_properties(manifest.schema PROPERTIES SKIP_RETURN_CODE 77)
endif()
