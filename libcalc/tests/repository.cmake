# The tests that the source distribution leaves out.

find_package(Threads REQUIRED)

add_test(NAME options COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:test_mylib>"
         "-DEMULATOR=${CMAKE_CROSSCOMPILING_EMULATOR}"
         -P "${CMAKE_CURRENT_SOURCE_DIR}/test_options.cmake")
set_tests_properties(options PROPERTIES TIMEOUT 900)

# Code that the other tests share: they read the table of operations, never its meanings.
add_library(mylib_test_support STATIC test.c reference.c)
target_link_libraries(mylib_test_support PUBLIC mylib::mylib Threads::Threads ${CMAKE_DL_LIBS} m)
target_include_directories(mylib_test_support PUBLIC "${PROJECT_SOURCE_DIR}/libcalc/src")
target_compile_features(mylib_test_support PUBLIC c_std_11)
target_compile_definitions(mylib_test_support PUBLIC _GNU_SOURCE)
# The references round each step, and look at floating-point flags.
target_compile_options(mylib_test_support PUBLIC -ffp-contract=off -fno-fast-math)

set(gpu_tests "")
if(MYLIB_HAS_CUDA OR MYLIB_EMULATED_GPUS)
  set(gpu_tests gpu gpu_places gpu_strides gpu_reduce gpu_empty gpu_streamed gpu_convert
      gpu_program gpu_all gpu_bits)
endif()
set(tests guard stack bits division flags modes strides overlap convert program reduce reductions
    truths scalar threads errors copy powers bypass walk fused mixed_signs no_memory ${gpu_tests})
list(LENGTH levels count)
if(count GREATER 1) # levels to compare with each other
  list(APPEND tests levels)
endif()
if(MYLIB_EMULATED_GPUS) # whose CUDA runtime can be made to fail
  list(APPEND tests cuda_faults)
endif()
foreach(name IN LISTS tests)
  if(name STREQUAL "gpu_bits")
    add_executable(test_gpu_bits test_bits.c)
    target_compile_definitions(test_gpu_bits PRIVATE TEST_ON_GPU=1)
  else()
    add_executable(test_${name} test_${name}.c)
  endif()
  target_link_libraries(test_${name} PRIVATE mylib_test_support)
  add_test(NAME ${name} COMMAND test_${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77)
endforeach()

add_library(test_plugin_module MODULE plugin.c)
target_link_libraries(test_plugin_module PRIVATE mylib::mylib)
add_executable(test_plugin test_plugin.c)
target_link_libraries(test_plugin PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_compile_definitions(test_plugin PRIVATE "TEST_PLUGIN=\"$<TARGET_FILE:test_plugin_module>\"")
add_dependencies(test_plugin test_plugin_module)
add_test(NAME plugin COMMAND test_plugin)
set_tests_properties(plugin PROPERTIES TIMEOUT 60)

# No file of the library calls or includes upwards.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND AND CMAKE_NM)
  foreach(level IN LISTS levels)
    list(APPEND kernel_objects $<TARGET_OBJECTS:mylib_kernels_${level}>)
  endforeach()
  add_test(NAME floors COMMAND "${CMAKE_COMMAND}" -E env "NM=${CMAKE_NM}"
    "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/floors.py" "${PROJECT_SOURCE_DIR}/libcalc/src"
    $<TARGET_OBJECTS:mylib> ${kernel_objects} COMMAND_EXPAND_LISTS)
endif()

# Malformed programs and descriptions of arrays, some 100,000 of each; by libFuzzer, for as long as
# one likes, with
#   CC=clang cmake -S . -B build/fuzz -DMYLIB_FUZZ=ON "-DMYLIB_SANITIZE=address;undefined" \
#     -DMYLIB_CUDA=OFF
#   cmake --build build/fuzz --target fuzz_program_forever fuzz_arrays_forever
#   build/fuzz/libcalc/tests/fuzz_arrays_forever -max_len=4096
set(fuzzers fuzz_program fuzz_arrays)
foreach(fuzzer IN LISTS fuzzers)
  add_executable(${fuzzer} ${fuzzer}.c)
  target_link_libraries(${fuzzer} PRIVATE mylib_test_support)
  add_test(NAME ${fuzzer} COMMAND ${fuzzer})
  set_tests_properties(${fuzzer} PROPERTIES TIMEOUT 900)
endforeach()
option(MYLIB_FUZZ "Build what libFuzzer drives; needs clang" OFF)
mark_as_advanced(MYLIB_FUZZ)
if(MYLIB_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "MYLIB_FUZZ=ON needs clang: set CC=clang (it is ${CMAKE_C_COMPILER}).")
  endif()
  set(fuzz -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -g)
  # The library itself, without its exports, so that libFuzzer sees which branches are taken.
  get_target_property(library_sources mylib SOURCES)
  list(FILTER library_sources INCLUDE REGEX "^src/")
  list(TRANSFORM library_sources PREPEND "${PROJECT_SOURCE_DIR}/libcalc/")
  foreach(fuzzer IN LISTS fuzzers)
    add_executable(${fuzzer}_forever ${fuzzer}.c ${library_sources})
    foreach(level IN LISTS levels)
      target_sources(${fuzzer}_forever PRIVATE $<TARGET_OBJECTS:mylib_kernels_${level}>)
    endforeach()
    target_link_libraries(${fuzzer}_forever PRIVATE mylib_internal m)
    target_compile_definitions(${fuzzer}_forever PRIVATE MYLIB_LIBFUZZER=1)
    target_compile_options(${fuzzer}_forever PRIVATE ${fuzz})
    target_link_options(${fuzzer}_forever PRIVATE ${fuzz})
  endforeach()
endif()

# The sanitizers would end the program where malloc() returns NULL.
set_tests_properties(errors ${gpu_tests} PROPERTIES ENVIRONMENT
  "ASAN_OPTIONS=allocator_may_return_null=1;TSAN_OPTIONS=allocator_may_return_null=1")
# These keep all processors busy, or take all of a GPU's memory.
set_tests_properties(threads PROPERTIES RUN_SERIAL TRUE)
if(gpu_tests)
  set_tests_properties(${gpu_tests} PROPERTIES LABELS gpu)
  set_tests_properties(gpu gpu_places gpu_all PROPERTIES RUN_SERIAL TRUE)
endif()
# These test what the library hides, and need no CUDA.
target_sources(test_walk PRIVATE
  ../src/cuda/strided.c ../src/cuda/walk.c ../src/layout.c ../src/status.c)
target_sources(test_fused PRIVATE
  ../src/cuda/fused.c ../src/cuda/walk.c ../src/layout.c ../src/status.c)
target_sources(test_program PRIVATE ../src/statement.c)
target_sources(test_overlap PRIVATE ../src/layout.c ../src/status.c)

list(TRANSFORM tests PREPEND test_ OUTPUT_VARIABLE targets)
foreach(target IN ITEMS test_mylib mylib_test_support LISTS fuzzers targets)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow -Wundef -Wvla -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
    $<$<BOOL:${MYLIB_WERROR}>:-Werror>)
endforeach()
