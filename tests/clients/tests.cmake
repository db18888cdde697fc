# Against other people's clients and libraries, installed from their registries
# into the build folder when the test runs.
if(TARGET mlxcel)
  add_test(NAME clients.tokenizers
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/clients/tokenizers/run.sh $<TARGET_FILE:mlxcel>
      ${CMAKE_BINARY_DIR}/clients/tokenizers ${CMAKE_CURRENT_SOURCE_DIR}/conformance/vectors.json)
  set_tests_properties(clients.tokenizers PROPERTIES LABELS slow TIMEOUT 900 SKIP_RETURN_CODE 77)
endif()

# What the grammars of JSON schemas let through is valid by npm's ajv.
add_executable(generate_documents clients/schemas/generate.c)
target_link_libraries(generate_documents PRIVATE mlxcel_sample)
add_test(NAME clients.schemas
  COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/clients/schemas/run.sh $<TARGET_FILE:generate_documents>
    ${CMAKE_BINARY_DIR}/clients/schemas)
set_tests_properties(clients.schemas PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)

# Random sampling settings at a live server.
find_program(MLXCEL_NODE node)
if(TARGET mlxcel-server AND MLXCEL_NODE)
  add_test(NAME clients.sampling
    COMMAND ${MLXCEL_NODE} ${CMAKE_CURRENT_SOURCE_DIR}/clients/sampling/random_requests.mjs
      $<TARGET_FILE:mlxcel-server> ${MLXCEL_SHARED}
      ${CMAKE_CURRENT_SOURCE_DIR}/conformance/native.json 2000)
  set_tests_properties(clients.sampling PROPERTIES LABELS slow TIMEOUT 900 SKIP_RETURN_CODE 77)
endif()

# npm's openai and @anthropic-ai/sdk, and curl, against a running server; the
# front under a tenth of bench/load.mjs's load.
if(TARGET mlxcel-server)
  add_test(NAME clients.api
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/clients/api/run.sh $<TARGET_FILE:mlxcel-server>
      ${CMAKE_BINARY_DIR}/clients/api)
  set_tests_properties(clients.api PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "MLXCEL_SHARED=${MLXCEL_SHARED}")
  add_test(NAME load.quick COMMAND node ${CMAKE_SOURCE_DIR}/bench/load.mjs --quick
    --server $<TARGET_FILE:mlxcel-server>)
  set_tests_properties(load.quick PROPERTIES LABELS slow TIMEOUT 900 SKIP_RETURN_CODE 77
    ENVIRONMENT "MLXCEL_SHARED=${MLXCEL_SHARED}")
endif()

# npm's openai and @langchain/openai embed, and examples/search finds.
if(TARGET mlxcel-server)
  add_test(NAME clients.embeddings
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/clients/embeddings/run.sh $<TARGET_FILE:mlxcel-server>
      ${CMAKE_BINARY_DIR}/clients/embeddings)
  set_tests_properties(clients.embeddings PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77
    ENVIRONMENT "MLXCEL_SHARED=${MLXCEL_SHARED}")
endif()

# A whole tool loop with npm's openai and the shipped model.
if(TARGET mlxcel-server)
  add_test(NAME clients.tale COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/clients/tale/run.sh
    $<TARGET_FILE:mlxcel-server> ${CMAKE_SOURCE_DIR}/models/tale ${CMAKE_BINARY_DIR}/clients/tale)
  set_tests_properties(clients.tale PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
