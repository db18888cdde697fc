# Conformance tests: every scenario of a recording is one ctest,
# "conformance.RECORDING.SCENARIO", replayed against mlxcel-server. What is not
# there yet stands in pending.json with the reason; what we answer otherwise on
# purpose in by_design.json.
set(conformance ${CMAKE_CURRENT_SOURCE_DIR}/conformance)
if(TARGET mlxcel-server AND EXISTS ${conformance}/pending.json)
  foreach(recording native openai transport cli numerics)
    file(STRINGS ${conformance}/${recording}.json lines REGEX "^  \"name\": ")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${conformance}/${recording}.json)
    foreach(line ${lines})
      string(REGEX REPLACE "^  \"name\": \"(.*)\",?$" "\\1" scenario "${line}")
      set(test conformance.${recording}.${scenario})
      add_test(NAME ${test}
        COMMAND sh ${conformance}/replay.sh $<TARGET_FILE:mlxcel> $<TARGET_FILE:mlxcel-server>
                ${conformance}/${recording}.json ${scenario})
      set_tests_properties(${test} PROPERTIES LABELS conformance TIMEOUT 300 SKIP_RETURN_CODE 77
        ENVIRONMENT "MLXCEL_SHARED=${MLXCEL_SHARED}")
      if(NOT recording STREQUAL transport)
        set_property(TEST ${test} APPEND PROPERTY LABELS slow)
      endif()
    endforeach()
  endforeach()
endif()
