# The command line of test_mylib: cmake -DPROGRAM=... [-DEMULATOR=...] -P test_options.cmake
# EMULATOR is the list of words that run a program of another processor.

# Runs the program with ARGN; its exit status must be 'status', and stdout + stderr match 'pattern'.
function(expect status pattern)
  execute_process(COMMAND ${EMULATOR} "${PROGRAM}" ${ARGN} RESULT_VARIABLE result
                  OUTPUT_VARIABLE output ERROR_VARIABLE output_err)
  set(output "${output}${output_err}")
  list(JOIN ARGN " " arguments)
  if(NOT result STREQUAL "${status}" OR NOT output MATCHES "${pattern}")
    message(SEND_ERROR "test_mylib ${arguments}: exit status ${result} (expected ${status}), "
                       "output (expected to match ${pattern}):\n${output}")
  endif()
endfunction()

expect(0 "add\\(3, 3\\) = 6.*Test passed\\.\n$")
expect(0 "^mylib [0-9.]+\ncpu .*add\\(3, 3\\) = 6.*Test passed\\.\n$" --device cpu)
expect(0 "Test passed" --device=cpu)
expect(0 "Usage: test_mylib" --help)
expect(2 "--nonsense.*Usage: test_mylib" --nonsense)
expect(2 "Usage: test_mylib" --device)
expect(2 "tpu.*Usage: test_mylib" --device tpu)
expect(2 "cpu.*Usage: test_mylib" cpu)

# Without a GPU, asking for one fails and says why.
execute_process(COMMAND ${EMULATOR} "${PROGRAM}" --device cuda RESULT_VARIABLE result OUTPUT_VARIABLE output)
if("$ENV{MYLIB_REQUIRE_GPU}" STREQUAL "1" OR NOT output MATCHES "cuda: none")
  expect(0 "cuda:0 \\(.*add\\(3, 3\\) = 6.*Test passed\\.\n$" --device cuda)
else()
  expect(1 "cuda: none \\(.+\\).*Test failed: 1 failure" --device cuda)
endif()
