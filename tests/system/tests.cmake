# ./run and ./test from the outside. The bare system of bare.sh is .ci/run's.
add_test(NAME system.packages COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/system/packages.sh
  ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/system-packages)
